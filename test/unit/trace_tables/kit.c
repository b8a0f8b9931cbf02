/* SPDX-License-Identifier: Apache-2.0 */
#include "kit.h"

#include <string.h>

#include "engine/trace/report.h"

void kit_init(Kit *kit)
{
    memset(kit, 0, sizeof *kit);
    profile_init(&kit->profile);
    arena_init(&kit->arena, 0);
}

/* As trace_rank_done for the tables alone, so that these tests need no other library. */
static void done_tables(TraceRank *rank)
{
    for (size_t i = 0; i < rank->steps.len; i++)
        vec_done(&rank->steps.at[i].devices);
    vec_done(&rank->steps);
    for (size_t i = 0; i < rank->memory.len; i++)
        vec_done(&rank->memory.at[i].points);
    vec_done(&rank->memory);
    vec_done(&rank->kernels);
    vec_done(&rank->copies);
    vec_done(&rank->operators);
    vec_done(&rank->shapes);
    vec_done(&rank->modules);
    vec_done(&rank->origins);
    vec_done(&rank->calls);
    vec_done(&rank->annotations);
}

void kit_done(Kit *kit)
{
    done_tables(&kit->rank);
    trace_index_done(&kit->index);
    profile_done(&kit->profile);
    arena_done(&kit->arena);
}

uint32_t kit_name(Kit *kit, const char *text)
{
    return profile_name(&kit->profile, text, strlen(text));
}

static uint32_t thread_lane(Kit *kit, int64_t thread)
{
    return profile_thread(&kit->profile, 1, PROFILE_NONE, thread, PROFILE_NONE);
}

void kit_host(Kit *kit, ProfileKind kind, int64_t thread, const char *name, int64_t start_us, int64_t us, uint32_t link)
{
    profile_add(&kit->profile, &(ProfileEvent){.kind = kind,
                                               .start = start_us * US,
                                               .duration = us * US,
                                               .name = kit_name(kit, name),
                                               .lane = thread_lane(kit, thread),
                                               .link = link,
                                               .extra = PROFILE_NONE});
}

void kit_op(Kit *kit, int64_t thread, const char *name, int64_t start_us, int64_t us, const char *dims,
            const char *types)
{
    kit_op_of(kit, thread, name, start_us, us, dims, types, NULL);
}

void kit_op_of(Kit *kit, int64_t thread, const char *name, int64_t start_us, int64_t us, const char *dims,
               const char *types, const char *arguments)
{
    ProfileOp op = {.dims = *dims ? kit_name(kit, dims) : PROFILE_NONE,
                    .types = *types ? kit_name(kit, types) : PROFILE_NONE,
                    .arguments = arguments && *arguments ? kit_name(kit, arguments) : PROFILE_NONE,
                    .collective = PROFILE_NONE,
                    .sequence = -1};

    profile_add(&kit->profile, &(ProfileEvent){.kind = PROFILE_OP,
                                               .start = start_us * US,
                                               .duration = us * US,
                                               .name = kit_name(kit, name),
                                               .lane = thread_lane(kit, thread),
                                               .extra = profile_op(&kit->profile, &op)});
}

void kit_kernel(Kit *kit, int32_t device, int64_t stream, const char *name, int64_t start_us, int64_t us, uint32_t link,
                const ProfileLaunch *launch)
{
    profile_add(&kit->profile, &(ProfileEvent){.kind = PROFILE_KERNEL,
                                               .start = start_us * US,
                                               .duration = us * US,
                                               .name = kit_name(kit, name),
                                               .lane = profile_stream(&kit->profile, device, stream),
                                               .link = link,
                                               .extra = launch ? profile_launch(&kit->profile, launch) : PROFILE_NONE});
}

void kit_copy(Kit *kit, int32_t device, int64_t stream, const char *name, int64_t start_us, int64_t us, int64_t bytes)
{
    ProfileCopy copy = {.bytes = bytes, .reported_gbs = 0};

    profile_copy_words(name, strlen(name), &copy);
    profile_add(&kit->profile, &(ProfileEvent){.kind = strncmp(name, "Memset", 6) == 0 ? PROFILE_SET : PROFILE_COPY,
                                               .start = start_us * US,
                                               .duration = us * US,
                                               .name = kit_name(kit, name),
                                               .lane = profile_stream(&kit->profile, device, stream),
                                               .extra = profile_copy(&kit->profile, &copy)});
}

void kit_mark(Kit *kit, int32_t device, int64_t stream, const char *name, int64_t start_us, int64_t us)
{
    profile_add(&kit->profile, &(ProfileEvent){.kind = PROFILE_GPU_ANNOTATION,
                                               .start = start_us * US,
                                               .duration = us * US,
                                               .name = kit_name(kit, name),
                                               .lane = profile_stream(&kit->profile, device, stream),
                                               .extra = PROFILE_NONE});
}

void kit_memory(Kit *kit, int16_t device, int64_t thread, int64_t start_us, int64_t bytes, int64_t allocated,
                int64_t reserved)
{
    vec_push(&kit->profile.memory, ((ProfileMemory){.start = start_us * US,
                                                    .bytes = bytes,
                                                    .allocated = allocated,
                                                    .reserved = reserved,
                                                    .lane = thread_lane(kit, thread),
                                                    .device = device,
                                                    .device_type = device < 0 ? 0 : 1}));
}

void kit_seal(Kit *kit)
{
    profile_seal(&kit->profile, 1);
    trace_index_init(&kit->index, &kit->profile, 1);
}

void kit_run(Kit *kit, KitAnalysis analysis, TraceRank *rank)
{
    static const TraceConfig config = {.gap_threshold_ns = 1000, .short_kernel_ns = 10 * US, .gaps_kept = 20000};

    analysis(&(TraceJob){.index = &kit->index, .config = &config, .arena = &kit->arena}, rank);
}

const TraceKernel *kit_find_kernel(const TraceRank *rank, const char *name)
{
    for (size_t i = 0; i < rank->kernels.len; i++)
        if (strcmp(rank->kernels.at[i].name, name) == 0)
            return &rank->kernels.at[i];
    fail_msg("no kernel %s", name);
    return NULL;
}

const TraceOperator *kit_find_operator(const TraceRank *rank, const char *name)
{
    for (size_t i = 0; i < rank->operators.len; i++)
        if (strcmp(rank->operators.at[i].name, name) == 0)
            return &rank->operators.at[i];
    fail_msg("no operator %s", name);
    return NULL;
}

const TraceAnnotation *kit_find_annotation(const TraceRank *rank, const char *name, bool on_gpu)
{
    for (size_t i = 0; i < rank->annotations.len; i++)
        if (strcmp(rank->annotations.at[i].name, name) == 0 && rank->annotations.at[i].on_gpu == on_gpu)
            return &rank->annotations.at[i];
    fail_msg("no annotation %s", name);
    return NULL;
}

const TraceCopy *kit_find_copy(const TraceRank *rank, const char *kind, const char *source)
{
    for (size_t i = 0; i < rank->copies.len; i++)
        if (strcmp(rank->copies.at[i].kind, kind) == 0 && strcmp(rank->copies.at[i].source, source) == 0)
            return &rank->copies.at[i];
    fail_msg("no copy %s from %s", kind, source);
    return NULL;
}
