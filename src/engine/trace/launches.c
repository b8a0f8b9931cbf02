/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launch calls, and how long operations wait for their start. A launch call inside another (the driver's inside the
 * runtime's) is part of it and does not count.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "engine/trace/select.h"
#include "engine/trace/tables.h"

typedef struct Launching {
    const TraceJob *job;
    TraceLaunch *launch;
    int64_t *waits, *durations; /* of linked operations, and of calls */
} Launching;

static bool launches_graph(const Launching *l, uint32_t call)
{
    return l->job->index->graph_name[l->job->index->profile->host.name[call]];
}

static void count_kernel(Launching *l, size_t row, uint32_t call)
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

static void count_operation(Launching *l, size_t row)
{
    const Profile *profile = l->job->index->profile;
    uint32_t call = l->job->index->launch[row];
    int64_t start = profile->gpu.start[row], wait;

    if (profile->gpu.kind[row] == PROFILE_KERNEL)
        count_kernel(l, row, call);
    if (call == PROFILE_NONE) {
        l->launch->unlinked++;
        return;
    }
    wait = start - profile_end(&profile->host, call);
    wait = wait > 0 ? wait : 0;
    l->launch->negative += start < profile->host.start[call];
    l->launch->graph_operations += launches_graph(l, call);
    l->launch->max_ns = wait > l->launch->max_ns ? wait : l->launch->max_ns;
    l->waits[l->launch->linked++] = wait;
}

static void count_call(Launching *l, size_t row)
{
    const TraceIndex *index = l->job->index;
    uint32_t parent = index->parent[row];
    int64_t duration = index->profile->host.duration[row];

    if (parent != PROFILE_NONE && index->host_class[parent] == TRACE_HOST_LAUNCH)
        return;
    l->launch->call_ns = trace_sum(l->launch->call_ns, duration);
    l->launch->call_max_ns = duration > l->launch->call_max_ns ? duration : l->launch->call_max_ns;
    l->launch->graph_launches += launches_graph(l, (uint32_t)row);
    l->durations[l->launch->call_count++] = duration;
}

void trace_launches(const TraceJob *job, TraceRank *rank)
{
    const TraceIndex *index = job->index;
    const ProfileEvents *gpu = &index->profile->gpu, *host = &index->profile->host;
    CLEANUP_FREE int64_t *waits = xmalloc((gpu->len + 1) * sizeof(*waits));
    CLEANUP_FREE int64_t *durations = xmalloc((host->len + 1) * sizeof(*durations));
    Launching l = {.job = job, .launch = &rank->launch, .waits = waits, .durations = durations};
    TraceLaunch *launch = &rank->launch;

    *launch = (TraceLaunch){.median_ns = -1, .p99_ns = -1, .max_ns = -1};
    launch->call_median_ns = launch->call_p99_ns = launch->call_max_ns = -1;
    for (size_t row = 0; row < gpu->len; row++)
        count_operation(&l, row);
    for (size_t row = 0; row < host->len; row++)
        if (index->host_class[row] == TRACE_HOST_LAUNCH)
            count_call(&l, row);
    launch->median_ns = trace_median(waits, (size_t)launch->linked);
    launch->p99_ns = trace_percentile(waits, (size_t)launch->linked, 99);
    launch->call_median_ns = trace_median(durations, (size_t)launch->call_count);
    launch->call_p99_ns = trace_percentile(durations, (size_t)launch->call_count, 99);
}

/* ---- calls ---- */

/* Calls of the runtime and driver by name and by the operators that they were made from. */

enum { RECENT = 1024 };

/* Names of the call and of both operators; the class, since that of a copy depends on its memory too. */
typedef struct CallKey {
    uint32_t name, inner, outer, class;
} CallKey;

typedef struct RecentCall {
    CallKey key;
    uint32_t number; /* + 1; 0: empty */
} RecentCall;

typedef struct Calls {
    const TraceJob *job;
    uint32_t *outermost;       /* operator -> the outermost one around it, or itself */
    Map rows;                  /* CallKey -> number + 1 */
    RecentCall recent[RECENT]; /* most calls need no look at the map */
    TraceRank *rank;
} Calls;

/* The name of an operator by number. */
static uint32_t op_name(const Calls *calls, uint32_t op)
{
    const TraceIndex *index = calls->job->index;

    return op == PROFILE_NONE ? PROFILE_NONE : index->profile->host.name[index->op_rows[op]];
}

static size_t new_row(Calls *calls, const CallKey *key)
{
    vec_push(&calls->rank->calls, ((TraceCall){.name = trace_copy_text(calls->job, key->name),
                                               .inner = trace_copy_text(calls->job, key->inner),
                                               .outer = trace_copy_text(calls->job, key->outer),
                                               .class = (TraceHostClass)key->class,
                                               .min_ns = INT64_MAX}));
    map_putn(&calls->rows, (const char *)key, sizeof *key, (void *)calls->rank->calls.len);
    return calls->rank->calls.len;
}

static size_t row_of(Calls *calls, const CallKey *key)
{
    uint32_t mixed = (key->name * 0x9e3779b1U) ^ (key->inner * 0x85ebca77U) ^ (key->outer * 0xc2b2ae3dU);
    RecentCall *recent = &calls->recent[mixed >> 22];
    size_t number;

    if (recent->number > 0 && memcmp(&recent->key, key, sizeof *key) == 0)
        return recent->number - 1;
    number = (size_t)map_getn(&calls->rows, (const char *)key, sizeof *key);
    if (number == 0)
        number = new_row(calls, key);
    *recent = (RecentCall){.key = *key, .number = (uint32_t)number};
    return number - 1;
}

static void add_call(Calls *calls, size_t host_row)
{
    const ProfileEvents *host = &calls->job->index->profile->host;
    uint32_t op = calls->job->index->op_at[host_row];
    uint32_t outer = op == PROFILE_NONE ? PROFILE_NONE : calls->outermost[op];
    CallKey key = {host->name[host_row], op_name(calls, op), op_name(calls, outer),
                   calls->job->index->host_class[host_row]};
    size_t number = row_of(calls, &key);
    TraceCall *row = &calls->rank->calls.at[number];
    int64_t duration = host->duration[host_row];

    trace_add_event(row, duration);
    if (trace_step_at(calls->rank, host->start[host_row]) >= 0) {
        row->step_count++;
        row->step_ns = trace_sum(row->step_ns, duration);
    }
}

static int compare_calls(const void *a, const void *b)
{
    const TraceCall *x = a, *y = b;
    const int64_t keys[][2] = {{y->total_ns, x->total_ns},
                               {strcmp(x->name, y->name), 0},
                               {strcmp(x->inner, y->inner), 0},
                               {strcmp(x->outer, y->outer), 0},
                               {x->class, y->class}};
    return trace_compare(keys, ARRAY_LEN(keys));
}

static void find_outermost(Calls *calls)
{
    const TraceIndex *index = calls->job->index;

    calls->outermost = xmalloc((index->op_count + 1) * sizeof *calls->outermost);
    for (uint32_t op = 0; op < index->op_count; op++) {
        const uint32_t around = trace_operator_around(index, op);

        calls->outermost[op] = around == PROFILE_NONE ? op : calls->outermost[around];
    }
}

void trace_calls(const TraceJob *job, TraceRank *rank)
{
    const ProfileEvents *host = &job->index->profile->host;
    Calls calls = {.job = job, .rank = rank};

    trace_steps_prepare(job, rank);
    map_init(&calls.rows);
    find_outermost(&calls);
    for (size_t i = 0; i < host->len; i++)
        if (host->kind[i] == PROFILE_CALL)
            add_call(&calls, i);
    vec_sort(&rank->calls, compare_calls);
    map_done(&calls.rows);
    free(calls.outermost);
}
