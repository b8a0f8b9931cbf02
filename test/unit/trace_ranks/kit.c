/* SPDX-License-Identifier: Apache-2.0 */
#include "kit.h"

#include <string.h>

#include "engine/trace/analyse.h"

void kit_init(Kit *kit)
{
    *kit = (Kit){.config = trace_config_default};
    profile_init(&kit->profile);
}

void kit_done(Kit *kit)
{
    if (kit->sealed)
        trace_index_done(&kit->index);
    profile_done(&kit->profile);
    kit_rank_done(&kit->rank);
    arena_done(&kit->arena);
}

uint32_t kit_name(Kit *kit, const char *text)
{
    return text ? profile_name(&kit->profile, text, strlen(text)) : PROFILE_NONE;
}

void kit_host(Kit *kit, ProfileKind kind, int64_t thread, const char *name, int64_t start_us, int64_t us, uint32_t link)
{
    profile_add(&kit->profile,
                &(ProfileEvent){.kind = kind,
                                .start = start_us * US,
                                .duration = us * US,
                                .name = kit_name(kit, name),
                                .lane = profile_thread(&kit->profile, 1, PROFILE_NONE, thread, PROFILE_NONE),
                                .link = link,
                                .extra = PROFILE_NONE});
}

static void add_gpu(Kit *kit, int32_t device, int64_t stream, const char *name, int64_t start_us, int64_t us,
                    uint32_t link, uint32_t extra)
{
    bool copy = strncmp(name, "Memcpy", 6) == 0;
    profile_add(&kit->profile, &(ProfileEvent){.kind = copy ? PROFILE_COPY : PROFILE_KERNEL,
                                               .start = start_us * US,
                                               .duration = us * US,
                                               .name = kit_name(kit, name),
                                               .lane = profile_stream(&kit->profile, device, stream),
                                               .link = link,
                                               .extra = extra});
}

void kit_gpu(Kit *kit, int32_t device, int64_t stream, const char *name, int64_t start_us, int64_t us, uint32_t link)
{
    add_gpu(kit, device, stream, name, start_us, us, link, PROFILE_NONE);
}

void kit_launched(Kit *kit, int64_t thread, int64_t call_us, int64_t stream, const char *name, int64_t start_us,
                  int64_t us, uint32_t link)
{
    kit_host(kit, PROFILE_CALL, thread, "cudaLaunchKernel", call_us, 5, link);
    kit_gpu(kit, 0, stream, name, start_us, us, link);
}

static uint32_t add_collective(Kit *kit, const KitCollective *detail)
{
    return profile_collective(&kit->profile, &(ProfileCollective){.name = kit_name(kit, detail->name),
                                                                  .dtype = kit_name(kit, detail->dtype),
                                                                  .group = kit_name(kit, detail->group),
                                                                  .group_label = PROFILE_NONE,
                                                                  .ranks = kit_name(kit, detail->ranks),
                                                                  .in_elements = detail->in > 0 ? detail->in : -1,
                                                                  .out_elements = detail->out > 0 ? detail->out : -1,
                                                                  .group_size = detail->size > 0 ? detail->size : -1,
                                                                  .sequence = detail->sequence - 1,
                                                                  .source = detail->source - 1,
                                                                  .target = detail->target - 1});
}

void kit_collective_kernel(Kit *kit, int64_t stream, const char *name, int64_t start_us, int64_t us, uint32_t link,
                           const KitCollective *detail)
{
    ProfileLaunch launch = {.occupancy_percent = -1, .blocks_per_sm = -1, .warps_per_sm = -1};
    launch.collective = add_collective(kit, detail);
    add_gpu(kit, 0, stream, name, start_us, us, link, profile_launch(&kit->profile, &launch));
}

void kit_collective_op(Kit *kit, int64_t thread, int64_t start_us, int64_t us, const KitCollective *detail)
{
    ProfileOp op = {.dims = PROFILE_NONE, .types = PROFILE_NONE, .arguments = PROFILE_NONE, .sequence = -1};
    op.collective = add_collective(kit, detail);
    profile_add(&kit->profile,
                &(ProfileEvent){.kind = PROFILE_OP,
                                .start = start_us * US,
                                .duration = us * US,
                                .name = kit_name(kit, "record_param_comms"),
                                .lane = profile_thread(&kit->profile, 1, PROFILE_NONE, thread, PROFILE_NONE),
                                .extra = profile_op(&kit->profile, &op)});
}

void kit_seal(Kit *kit)
{
    profile_seal(&kit->profile, 1);
    trace_index_init(&kit->index, &kit->profile, 1);
    kit->sealed = true;
}

void kit_run(Kit *kit, KitAnalysis analysis, TraceRank *rank)
{
    TraceJob job = {.index = &kit->index, .config = &kit->config, .arena = &kit->arena};
    analysis(&job, rank);
}

void kit_rank_done(TraceRank *rank)
{
    vec_done(&rank->collectives);
    for (size_t i = 0; i < rank->paths.len; i++)
        vec_done(&rank->paths.at[i].names);
    vec_done(&rank->paths);
    for (size_t i = 0; i < rank->timeline.lanes.len; i++) {
        vec_done(&rank->timeline.lanes.at[i].busy);
        vec_done(&rank->timeline.lanes.at[i].slices);
    }
    vec_done(&rank->timeline.lanes);
    vec_done(&rank->timeline.texts);
    for (size_t i = 0; i < rank->steps.len; i++)
        vec_done(&rank->steps.at[i].devices);
    vec_done(&rank->steps);
    vec_done(&rank->devices);
    vec_done(&rank->kernels);
    vec_done(&rank->operators);
    vec_done(&rank->origins);
}

uint64_t kit_random(KitRandom *random)
{
    random->state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t x = random->state;
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

int64_t kit_between(KitRandom *random, int64_t low, int64_t high)
{
    return low + (int64_t)(kit_random(random) % (uint64_t)(high - low + 1));
}
