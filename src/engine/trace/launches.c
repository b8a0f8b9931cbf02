/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Launch calls, and how long operations wait for their start. A launch call inside another (the driver's inside the
 * runtime's) is part of it and does not count.
 */

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/owner.h"
#include "engine/trace/histogram.h"
#include "engine/trace/select.h"
#include "engine/trace/analyse.h"

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
    free(l->latencies);
    free(l->calls);
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
    l.latencies = xcalloc(1, sizeof(*l.latencies));
    l.calls = xcalloc(1, sizeof(*l.calls));
    l.graph_name = xcalloc(profile_name_count(index->profile) + 1, sizeof(*l.graph_name));
    l.wait = xmalloc((gpu->len + 1) * sizeof(*l.wait));
    l.duration = xmalloc((host->len + 1) * sizeof(*l.duration));
    for (size_t row = 0; row < gpu->len; row++)
        take_operation(&l, row);
    for (size_t row = 0; row < host->len; row++)
        if (index->host_class[row] == TRACE_HOST_LAUNCH)
            take_call(&l, row);
    launch->median_ns = trace_median(l.latencies, l.wait);
    launch->p99_ns = trace_percentile(l.latencies, l.wait, 99);
    launch->call_median_ns = trace_median(l.calls, l.duration);
    launch->call_p99_ns = trace_percentile(l.calls, l.duration, 99);
}
