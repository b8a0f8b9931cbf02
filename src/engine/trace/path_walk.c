/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A GPU operation waited for the last of: the operation before it on its stream; its launch call; the stream it was
 * told to wait for, or, where no waits were recorded and nothing else explains the delay, whatever the device finished
 * last. A host thread's time belongs to its innermost event; a synchronisation or blocking copy waited for the
 * operation that ended last within it; a thread without work of its own waited for the launching thread that was busy.
 */
#include "engine/trace/path_walk.h"

#include <stdlib.h>

/* A launch takes about this long; a longer delay has another reason. */
#define LAUNCH_LATENCY_NS INT64_C(10000)
/* Times of host and GPU may differ by this much. */
#define CLOCKS_APART_NS INT64_C(5000)
enum { JUMPS_MAX = 64 /* without any time between them: something is inconsistent */ };

typedef struct Walk {
    PathOrder *order;
    const TraceIndex *index;
    const Profile *profile;
    PathTake take;
    void *context;
    int64_t time, from;
    int64_t jumped; /* time of the last jump from a host thread to the GPU */
    bool on_gpu;
    uint32_t row;         /* on the GPU */
    uint32_t lane;        /* on the host */
    VEC(uint32_t) inside; /* host events that ended before `time`, the outermost last: still to be entered */
} Walk;

static void take_to(Walk *walk, int64_t start, TracePathKind kind, uint32_t name)
{
    start = start < walk->from ? walk->from : start;
    if (start >= walk->time)
        return;
    walk->take(walk->context, kind, name, walk->time - start);
    walk->time = start;
}

static void go_to_gpu(Walk *walk, uint32_t row)
{
    path_order_use(walk->order, row);
    vec_clear(&walk->inside);
    walk->on_gpu = true;
    walk->row = row;
}

static void go_to_host(Walk *walk, uint32_t lane)
{
    vec_clear(&walk->inside);
    walk->on_gpu = false;
    walk->lane = lane;
}

static int64_t gpu_end(const Walk *walk, uint32_t row)
{
    return row == PROFILE_NONE ? INT64_MIN : profile_end(&walk->profile->gpu, row);
}

/* ---- on the GPU ---- */

static TracePathKind gpu_kind(const Walk *walk, uint32_t row)
{
    static const TracePathKind kinds[TRACE_CLASS_COUNT] = {
        [TRACE_COMPUTE] = TRACE_PATH_COMPUTE,
        [TRACE_COMMUNICATION] = TRACE_PATH_COMMUNICATION,
        [TRACE_COPY] = TRACE_PATH_COPY,
    };
    return kinds[trace_gpu_class(walk->index, row)];
}

static int64_t launch_of(const Walk *walk, uint32_t row)
{
    uint32_t call = row == PROFILE_NONE ? PROFILE_NONE : walk->index->launch[row];
    return call == PROFILE_NONE ? INT64_MIN : walk->profile->host.start[call];
}

/* The operation that `row`, starting at the walk's time, waited for: PROFILE_NONE where it only waited for its launch,
 * which was done at `ready` (INT64_MIN: not known). */
static uint32_t waited_for(Walk *walk, uint32_t row, int64_t ready)
{
    uint32_t stream = walk->profile->gpu.lane[row];
    uint32_t best = path_order_last(walk->order, stream, walk->time);
    uint32_t other = path_order_wait(walk->order, stream, launch_of(walk, best), launch_of(walk, row));
    int64_t known = gpu_end(walk, best) > ready ? gpu_end(walk, best) : ready;
    uint32_t also = PROFILE_NONE;
    if (other != PROFILE_NONE)
        also = path_order_last(walk->order, other, walk->time);
    else if (known == INT64_MIN || walk->time - known > LAUNCH_LATENCY_NS)
        also = path_order_last_of_device(walk->order, walk->profile->lanes.at[stream].device, walk->time);
    if (gpu_end(walk, also) > known)
        return also;
    return gpu_end(walk, best) >= ready ? best : PROFILE_NONE;
}

static void step_gpu(Walk *walk)
{
    const ProfileEvents *host = &walk->profile->host;
    uint32_t row = walk->row, name = walk->profile->gpu.name[row];
    take_to(walk, walk->profile->gpu.start[row], gpu_kind(walk, row), name);
    if (walk->time <= walk->from)
        return;
    uint32_t call = walk->index->launch[row];
    int64_t ready = INT64_MIN;
    if (call != PROFILE_NONE)
        ready = profile_end(host, call) < walk->time ? profile_end(host, call) : walk->time;
    uint32_t before = waited_for(walk, row, ready);
    if (before != PROFILE_NONE) {
        take_to(walk, gpu_end(walk, before), TRACE_PATH_QUEUE, name);
        go_to_gpu(walk, before);
    } else if (call != PROFILE_NONE) {
        take_to(walk, ready, TRACE_PATH_LAUNCH, name);
        go_to_host(walk, host->lane[call]);
    } else if (walk->order->threads.len > 0 && walk->order->threads.at[0].launches > 0) {
        go_to_host(walk, walk->order->threads.at[0].lane);
    } else {
        take_to(walk, walk->from, TRACE_PATH_QUEUE, name);
    }
}

/* ---- on the host ---- */

static TracePathKind host_kind(const Walk *walk, uint32_t row)
{
    return row != PROFILE_NONE && path_order_in_data(walk->order, row) ? TRACE_PATH_DATA : TRACE_PATH_HOST;
}

static uint32_t host_name(const Walk *walk, uint32_t row)
{
    return row == PROFILE_NONE ? PROFILE_NONE : walk->profile->host.name[row];
}

static bool waits_for_gpu(const Walk *walk, uint32_t row)
{
    TraceHostClass class = (TraceHostClass)walk->index->host_class[row];
    return walk->profile->host.kind[row] == PROFILE_CALL && (class == TRACE_HOST_SYNC || class == TRACE_HOST_COPY);
}

static bool does_no_work(const Walk *walk, uint32_t row)
{
    return row == PROFILE_NONE || walk->profile->host.kind[row] == PROFILE_PYTHON ||
           walk->index->host_class[row] == TRACE_HOST_MARK;
}

/* A call that waits returned because an operation had ended: one that runs on for no longer than clocks are apart, else
 * the last that ended within the call. */
static bool leave_for_gpu(Walk *walk, uint32_t row)
{
    int64_t called = walk->profile->host.start[row];
    uint32_t done = path_order_running(walk->order, walk->time);
    int64_t end = walk->time;
    if (done == PROFILE_NONE || gpu_end(walk, done) > walk->time + CLOCKS_APART_NS) {
        done = path_order_last_of_device(walk->order, -1, walk->time);
        end = gpu_end(walk, done);
    }
    if (done == PROFILE_NONE || end <= called || end >= walk->jumped)
        return false;
    take_to(walk, end, TRACE_PATH_HOST, host_name(walk, row));
    walk->jumped = end;
    go_to_gpu(walk, done);
    return true;
}

/* To the thread of the same process that worked last in (start, time]. */
static bool leave_for_thread(Walk *walk, uint32_t row, int64_t start)
{
    const ProfileLane *lanes = walk->profile->lanes.at;
    const PathThread *best = NULL;
    int64_t until = start;
    for (size_t i = 0; i < walk->order->threads.len; i++) {
        PathThread *thread = &walk->order->threads.at[i];
        if (thread->lane == walk->lane || lanes[thread->lane].pid != lanes[walk->lane].pid)
            continue;
        int64_t busy = path_order_busy(thread, walk->time);
        if (busy > until) {
            best = thread;
            until = busy;
        }
    }
    if (!best)
        return false;
    take_to(walk, until, host_kind(walk, row), host_name(walk, row));
    go_to_host(walk, best->lane);
    return true;
}

/* [start, time) of the thread belongs to `row`. False: the walk has gone elsewhere. */
static bool take_host(Walk *walk, uint32_t row, int64_t start)
{
    if (start >= walk->time)
        return true;
    if (row != PROFILE_NONE && waits_for_gpu(walk, row) && leave_for_gpu(walk, row))
        return false;
    if (does_no_work(walk, row) && leave_for_thread(walk, row, start > walk->from ? start : walk->from))
        return false;
    take_to(walk, start, host_kind(walk, row), host_name(walk, row));
    return true;
}

static void step_host(Walk *walk)
{
    const ProfileEvents *host = &walk->profile->host;
    const uint32_t *parent = walk->index->parent;
    uint32_t last = PROFILE_NONE;
    if (walk->inside.len == 0) {
        last = path_order_host(walk->order, walk->lane, walk->time);
        uint32_t row = last;
        for (; row != PROFILE_NONE && profile_end(host, row) < walk->time; row = parent[row])
            vec_push(&walk->inside, row);
        if (last == PROFILE_NONE) {
            take_host(walk, PROFILE_NONE, walk->from);
            return;
        }
    }
    if (walk->inside.len > 0) {
        uint32_t row = walk->inside.at[walk->inside.len - 1];
        if (take_host(walk, parent[row], profile_end(host, row))) {
            walk->inside.len--;
            if (walk->inside.len > 0)
                return;
            last = row;
        } else {
            return;
        }
    }
    if (take_host(walk, last, host->start[last]))
        path_order_host_use(walk->order, walk->lane, last);
}

/* ---- where it begins ---- */

/* The last to have been active: an operation that runs at the end of the window, else host or GPU, whoever worked
 * last. False: nothing was. */
static bool begin_walk(Walk *walk)
{
    uint32_t row = path_order_running(walk->order, walk->time);
    if (row != PROFILE_NONE) {
        go_to_gpu(walk, row);
        return true;
    }
    const PathThread *best = NULL;
    int64_t until = INT64_MIN;
    for (size_t i = 0; i < walk->order->threads.len; i++) {
        int64_t busy = path_order_busy(&walk->order->threads.at[i], walk->time);
        if (!best || busy > until) {
            best = &walk->order->threads.at[i];
            until = busy;
        }
    }
    row = path_order_last_of_device(walk->order, -1, walk->time);
    if (row != PROFILE_NONE && gpu_end(walk, row) > until) {
        take_to(walk, gpu_end(walk, row), best ? TRACE_PATH_HOST : TRACE_PATH_QUEUE, PROFILE_NONE);
        go_to_gpu(walk, row);
    } else if (best) {
        go_to_host(walk, best->lane);
    }
    return row != PROFILE_NONE || best;
}

void path_walk(PathOrder *order, int64_t from, int64_t to, PathTake take, void *context)
{
    Walk walk = {.order = order,
                 .index = order->index,
                 .profile = order->profile,
                 .take = take,
                 .context = context,
                 .time = to,
                 .from = from,
                 .jumped = INT64_MAX};
    bool going = begin_walk(&walk);
    int jumps = 0;
    while (going && walk.time > from && jumps < JUMPS_MAX) {
        int64_t time = walk.time;
        bool on_gpu = walk.on_gpu;
        uint32_t lane = walk.lane;
        if (walk.on_gpu)
            step_gpu(&walk);
        else
            step_host(&walk);
        if (walk.time != time)
            jumps = 0;
        else if (walk.on_gpu != on_gpu || walk.lane != lane)
            jumps++;
    }
    take_to(&walk, from, TRACE_PATH_HOST, PROFILE_NONE);
    vec_done(&walk.inside);
}
