/* SPDX-License-Identifier: Apache-2.0 */

#include "build.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

void build_init(Build *b)
{
    memset(b, 0, sizeof(*b));
    profile_init(&b->profile);
    b->config = trace_config_default;
    b->config.gap_threshold_ns = 1;
}

void build_done(Build *b)
{
    if (b->sealed)
        trace_index_done(&b->index);
    profile_done(&b->profile);
    arena_done(&b->arena);
}

void build_seal(Build *b)
{
    profile_seal(&b->profile, 1);
    trace_index_init(&b->index, &b->profile, 1);
    b->sealed = true;
}

static uint32_t name_of(Build *b, const char *name)
{
    return profile_name(&b->profile, name, strlen(name));
}

void build_host(Build *b, ProfileKind kind, int64_t thread, int64_t start, int64_t duration, const char *name,
                uint32_t link)
{
    profile_add(&b->profile,
                &(ProfileEvent){.kind = kind,
                                .start = start,
                                .duration = duration,
                                .name = name_of(b, name),
                                .lane = profile_thread(&b->profile, 100, PROFILE_NONE, thread, PROFILE_NONE),
                                .link = link,
                                .extra = PROFILE_NONE});
}

void build_op(Build *b, int64_t thread, int64_t start, int64_t duration, const char *name)
{
    build_host(b, PROFILE_OP, thread, start, duration, name, 0);
}

void build_range(Build *b, int64_t thread, int64_t start, int64_t duration, const char *name)
{
    build_host(b, PROFILE_ANNOTATION, thread, start, duration, name, 0);
}

void build_python(Build *b, int64_t thread, int64_t start, int64_t duration, const char *name)
{
    build_host(b, PROFILE_PYTHON, thread, start, duration, name, 0);
}

void build_call(Build *b, int64_t thread, int64_t start, int64_t duration, const char *name, uint32_t correlation)
{
    build_host(b, PROFILE_CALL, thread, start, duration, name, correlation);
}

static void add_gpu(Build *b, ProfileEvent event, int32_t device, int64_t stream, const char *name)
{
    event.name = name_of(b, name);
    event.lane = profile_stream(&b->profile, device, stream);
    profile_add(&b->profile, &event);
}

void build_gpu(Build *b, ProfileKind kind, int32_t device, int64_t stream, int64_t start, int64_t duration,
               const char *name, uint32_t correlation, uint32_t external)
{
    add_gpu(b,
            (ProfileEvent){.kind = kind,
                           .start = start,
                           .duration = duration,
                           .link = correlation,
                           .extra = PROFILE_NONE,
                           .external = external},
            device, stream, name);
}

void build_kernel(Build *b, int32_t device, int64_t stream, int64_t start, int64_t duration, const char *name,
                  uint32_t correlation)
{
    build_gpu(b, PROFILE_KERNEL, device, stream, start, duration, name, correlation, 0);
}

void build_copy(Build *b, int32_t device, int64_t stream, int64_t start, int64_t duration, int64_t bytes,
                const char *name, uint32_t correlation)
{
    ProfileCopy copy = {.bytes = bytes, .reported_gbs = 0};

    profile_copy_words(name, strlen(name), &copy);
    add_gpu(b,
            (ProfileEvent){.kind = PROFILE_COPY,
                           .start = start,
                           .duration = duration,
                           .link = correlation,
                           .extra = profile_copy(&b->profile, &copy)},
            device, stream, name);
}

void build_shaped(Build *b, int32_t device, int64_t stream, int64_t start, int64_t duration, const char *name,
                  float blocks_per_sm, float occupancy_percent)
{
    ProfileLaunch launch = {.blocks_per_sm = blocks_per_sm,
                            .occupancy_percent = occupancy_percent,
                            .warps_per_sm = -1,
                            .collective = PROFILE_NONE};

    add_gpu(b,
            (ProfileEvent){.kind = PROFILE_KERNEL,
                           .start = start,
                           .duration = duration,
                           .extra = profile_launch(&b->profile, &launch)},
            device, stream, name);
}

uint32_t build_launch(Build *b, int64_t thread, int64_t call_start, int64_t call_duration, int32_t device,
                      int64_t stream, int64_t start, int64_t duration, const char *name)
{
    b->correlation++;
    build_call(b, thread, call_start, call_duration, "cudaLaunchKernel", b->correlation);
    build_kernel(b, device, stream, start, duration, name, b->correlation);
    return b->correlation;
}

void build_mark(Build *b, int32_t device, int64_t stream, int64_t start, int64_t duration, const char *name)
{
    profile_add(&b->profile, &(ProfileEvent){.kind = PROFILE_GPU_ANNOTATION,
                                             .start = start,
                                             .duration = duration,
                                             .name = name_of(b, name),
                                             .lane = profile_stream(&b->profile, device, stream),
                                             .extra = PROFILE_NONE});
}

static uint32_t row_of(const Build *b, const ProfileEvents *table, const char *name, size_t nth)
{
    uint32_t id = profile_name_find(&b->profile, name);

    for (size_t row = 0; row < table->len; row++)
        if (table->name[row] == id && nth-- == 0)
            return (uint32_t)row;
    fail_msg("no row '%s'", name);
    return PROFILE_NONE;
}

uint32_t build_host_row(const Build *b, const char *name, size_t nth)
{
    return row_of(b, &b->profile.host, name, nth);
}

uint32_t build_gpu_row(const Build *b, const char *name, size_t nth)
{
    return row_of(b, &b->profile.gpu, name, nth);
}

void build_rank(Build *b, TraceRank *ret)
{
    TraceJob job = {.index = &b->index, .config = &b->config, .arena = &b->arena};

    memset(ret, 0, sizeof(*ret));
    trace_devices(&job, ret);
    trace_gaps(&job, ret);
    trace_steps(&job, ret);
    trace_launches(&job, ret);
    trace_queues(&job, ret);
}

void build_rank_done(TraceRank *rank)
{
    for (size_t i = 0; i < rank->steps.len; i++)
        vec_done(&rank->steps.at[i].devices);
    vec_done(&rank->steps);
    vec_done(&rank->devices);
    vec_done(&rank->gaps);
    vec_done(&rank->edges);
    vec_done(&rank->queues);
    vec_done(&rank->queue_points);
}
