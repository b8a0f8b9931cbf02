/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Launch calls, and how long operations wait for their start. Each operation counts where it starts, each call where it
 * starts. A launch call inside another (the driver's inside the runtime's) is part of it and does not count.
 */

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/attribute.h"
#include "base/owner.h"
#include "engine/trace/histogram.h"
#include "engine/trace/select.h"
#include "engine/trace/sum.h"

typedef struct Launching {
    const TraceJob *job;
    TraceLaunch *launch;
    TraceHistogram *latencies, *calls;
    uint8_t *graph_name;      /* name of a call -> 0 not asked, 1 no, 2 launches a graph */
    int64_t *wait, *duration; /* all values of `latencies` and `calls` */
} Launching;

static bool launches_graph(Launching *l, uint32_t call)
{
    const Profile *profile = l->job->index->profile;
    uint32_t name = profile->host.name[call];

    if (!l->graph_name[name])
        l->graph_name[name] = strcasestr(profile_text(profile, name, NULL), "graphlaunch") ? 2 : 1;
    return l->graph_name[name] == 2;
}

static void take_kernel(Launching *l, size_t row, uint32_t call)
{
    const Profile *profile = l->job->index->profile;
    int64_t duration = profile->gpu.duration[row];

    if ((uint64_t)duration < l->job->config->short_kernel_ns) {
        l->launch->short_kernels++;
        l->launch->short_kernel_ns += duration;
    }
    if (call != PROFILE_NONE && duration < profile->host.duration[call] && !launches_graph(l, call))
        l->launch->launch_bound_kernels++;
}

static void take_operation(Launching *l, size_t row)
{
    const Profile *profile = l->job->index->profile;
    uint32_t call = l->job->index->launch[row];
    int64_t start = profile->gpu.start[row], wait;

    if (profile->gpu.kind[row] == PROFILE_KERNEL)
        take_kernel(l, row, call);
    if (call == PROFILE_NONE) {
        l->launch->unlinked++;
        return;
    }
    wait = start - profile_end(&profile->host, call);
    wait = wait > 0 ? wait : 0;
    l->launch->linked++;
    l->launch->negative += start < profile->host.start[call];
    l->launch->graph_operations += launches_graph(l, call);
    l->launch->max_ns = wait > l->launch->max_ns ? wait : l->launch->max_ns;
    l->wait[l->latencies->total] = wait;
    trace_histogram_add(l->latencies, wait);
}

static void take_call(Launching *l, size_t row)
{
    const TraceIndex *index = l->job->index;
    uint32_t parent = index->parent[row];
    int64_t duration = index->profile->host.duration[row];

    if (parent != PROFILE_NONE && index->host_class[parent] == TRACE_HOST_LAUNCH)
        return;
    l->launch->call_count++;
    l->launch->call_ns = trace_sum(l->launch->call_ns, duration);
    l->launch->call_max_ns = duration > l->launch->call_max_ns ? duration : l->launch->call_max_ns;
    l->launch->graph_launches += launches_graph(l, (uint32_t)row);
    l->duration[l->calls->total] = duration;
    trace_histogram_add(l->calls, duration);
}

static void launching_done(Launching *l)
{
    free(l->graph_name);
    free(l->wait);
    free(l->duration);
}

void trace_launches(const TraceJob *job, TraceRank *rank)
{
    const TraceIndex *index = job->index;
    const ProfileEvents *gpu = &index->profile->gpu, *host = &index->profile->host;
    CLEANUP(launching_done) Launching l = {.job = job, .launch = &rank->launch};
    TraceLaunch *launch = &rank->launch;

    *launch = (TraceLaunch){.median_ns = -1, .p99_ns = -1, .max_ns = -1};
    launch->call_median_ns = launch->call_p99_ns = launch->call_max_ns = -1;
    l.latencies = arena_alloc(job->arena, sizeof(*l.latencies));
    l.calls = arena_alloc(job->arena, sizeof(*l.calls));
    l.graph_name = xcalloc(profile_name_count(index->profile) + 1, sizeof(*l.graph_name));
    l.wait = xmalloc((gpu->len + 1) * sizeof(*l.wait));
    l.duration = xmalloc((host->len + 1) * sizeof(*l.duration));
    for (size_t row = 0; row < gpu->len; row++)
        if (trace_scope_has(job->scope, gpu->start[row]))
            take_operation(&l, row);
    for (size_t row = 0; row < host->len; row++)
        if (index->host_class[row] == TRACE_HOST_LAUNCH && trace_scope_has(job->scope, host->start[row]))
            take_call(&l, row);
    launch->median_ns = trace_median(l.latencies, l.wait);
    launch->p99_ns = trace_percentile(l.latencies, l.wait, 99);
    launch->call_median_ns = trace_median(l.calls, l.duration);
    launch->call_p99_ns = trace_percentile(l.calls, l.duration, 99);
    launch->latencies = l.latencies;
    launch->calls = l.calls;
}

/* ---- joining windows ---- */

static const TraceHistogram *join(const TraceHistogram *a, const TraceHistogram *b, Arena *arena)
{
    TraceHistogram *both = arena_alloc(arena, sizeof(*both));

    if (a)
        trace_histogram_join(both, a);
    if (b)
        trace_histogram_join(both, b);
    return both;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t histogram_p99(const TraceHistogram *histogram, int64_t max)
{
    uint64_t rank = histogram->total - histogram->total / 100; /* 99 % of them, rounded up */
    int64_t value = trace_histogram_nth(histogram, rank ? rank - 1 : 0);

    return value < max ? value : max;
}

static int64_t histogram_median(const TraceHistogram *histogram, int64_t max)
{
    int64_t value = trace_histogram_nth(histogram, histogram->total ? (histogram->total - 1) / 2 : 0);

    return value < max ? value : max;
}

void trace_launches_merge(TraceRank *into, TraceRank *next, UNUSED const TraceConfig *config, Arena *arena)
{
    TraceLaunch *a = &into->launch;
    const TraceLaunch *b = &next->launch;

    a->linked += b->linked;
    a->unlinked += b->unlinked;
    a->negative += b->negative;
    a->max_ns = larger(a->max_ns, b->max_ns);
    a->call_count += b->call_count;
    a->call_ns = trace_sum(a->call_ns, b->call_ns);
    a->call_max_ns = larger(a->call_max_ns, b->call_max_ns);
    a->graph_launches += b->graph_launches;
    a->graph_operations += b->graph_operations;
    a->short_kernels += b->short_kernels;
    a->short_kernel_ns += b->short_kernel_ns;
    a->launch_bound_kernels += b->launch_bound_kernels;
    a->latencies = join(a->latencies, b->latencies, arena);
    a->calls = join(a->calls, b->calls, arena);
    a->approximate = true;
    a->median_ns = histogram_median(a->latencies, a->max_ns);
    a->p99_ns = histogram_p99(a->latencies, a->max_ns);
    a->call_median_ns = histogram_median(a->calls, a->call_max_ns);
    a->call_p99_ns = histogram_p99(a->calls, a->call_max_ns);
}
