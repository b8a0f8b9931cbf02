/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "engine/trace/analyse.h"

/*
 * What the walk of the critical path looks up, going back in time: the last operation of a stream that had ended by a
 * moment, what a host thread did. All look-ups ask for moments that never grow, so that cursors move one way and the
 * whole walk is linear. Borrowed index. One thread at a time.
 */

enum { PATH_STREAMS_MAX = 64, PATH_THREADS_MAX = 16 };

typedef struct PathSpan {
    int64_t start, end;
} PathSpan;

/* A host thread that launches work, and when it does anything but wait in Python or an annotation. */
typedef struct PathThread {
    uint32_t lane;
    uint64_t launches;
    VEC(PathSpan) busy; /* disjoint, by time */
    size_t cursor;      /* spans that start before the last time looked up */
} PathThread;

/* "Stream Wait Event": what `lane` starts after it waits for `other`. */
typedef struct PathWait {
    uint32_t lane, other;
    int64_t start;
} PathWait;

typedef struct PathOrder {
    const TraceIndex *index;
    const Profile *profile;
    const uint32_t *rows;       /* of the gpu table, by stream, by end */
    uint32_t *own_rows;         /* the same, where the index's are in another order; else NULL */
    const size_t *stream_first; /* lane -> first of its rows; one more at the end */
    size_t *stream_next;        /* lane -> one past the last row that may still be looked up */
    size_t *host_next;          /* lane -> one past the last host row that may still be looked up */
    VEC(uint32_t) streams;      /* lanes with operations, at most PATH_STREAMS_MAX: those with most */
    VEC(PathThread) threads;
    VEC(PathWait) waits; /* by lane, start */
    uint8_t *in_data;    /* bit per host row: inside data loading; NULL: none is */
} PathOrder;

static inline bool path_order_in_data(const PathOrder *order, uint32_t host_row)
{
    return order->in_data && (order->in_data[host_row / 8] >> host_row % 8 & 1);
}

/* The walk of the critical path: from the end of a window back to its start, always to what the present thing waited
 * for last. Every nanosecond is given to one kind and one name. One thread at a time. */

/* ---- operations by stream and end ---- */

static int by_end(const void *a, const void *b, void *context)
{
    const ProfileEvents *gpu = context;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    int64_t x_end = profile_end(gpu, x), y_end = profile_end(gpu, y);
    if (x_end != y_end)
        return x_end < y_end ? -1 : 1;
    return (x > y) - (x < y);
}

static bool is_sorted(const ProfileEvents *gpu, const uint32_t *rows, size_t len)
{
    for (size_t i = 1; i < len; i++)
        if (profile_end(gpu, rows[i - 1]) > profile_end(gpu, rows[i]))
            return false;
    return true;
}

static size_t stream_len(const PathOrder *order, uint32_t lane)
{
    return order->stream_first[lane + 1] - order->stream_first[lane];
}

static int by_length(const void *a, const void *b, void *context)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    size_t x_len = stream_len(context, x), y_len = stream_len(context, y);
    if (x_len != y_len)
        return x_len > y_len ? -1 : 1;
    return (x > y) - (x < y);
}

static void sort_stream(PathOrder *order, uint32_t lane)
{
    const ProfileEvents *gpu = &order->profile->gpu;
    const size_t first = order->stream_first[lane], len = stream_len(order, lane);
    if (is_sorted(gpu, order->rows + first, len))
        return;
    if (!order->own_rows) { /* operations of one stream that overlap: rare */
        order->own_rows = xmalloc(gpu->len * sizeof(*order->own_rows));
        memcpy(order->own_rows, order->rows, gpu->len * sizeof(*order->own_rows));
        order->rows = order->own_rows;
    }
    qsort_r(order->own_rows + first, len, sizeof(*order->own_rows), by_end, (void *)(uintptr_t)gpu);
}

static void order_streams(PathOrder *order)
{
    size_t lanes = order->profile->lanes.len;
    order->rows = order->index->stream_rows;
    order->stream_first = order->index->stream_first;
    order->stream_next = xcalloc(lanes + 1, sizeof(*order->stream_next));
    for (uint32_t lane = 0; lane < lanes; lane++) {
        order->stream_next[lane] = order->stream_first[lane + 1];
        sort_stream(order, lane);
        if (stream_len(order, lane) > 0)
            vec_push(&order->streams, lane);
    }
    if (order->streams.len > PATH_STREAMS_MAX) {
        qsort_r(order->streams.at, order->streams.len, sizeof(*order->streams.at), by_length, order);
        order->streams.len = PATH_STREAMS_MAX;
    }
}

/* ---- host threads ---- */

static int by_launches(const void *a, const void *b)
{
    const PathThread *x = a, *y = b;
    if (x->launches != y->launches)
        return x->launches > y->launches ? -1 : 1;
    return (x->lane > y->lane) - (x->lane < y->lane);
}

static void find_threads(PathOrder *order)
{
    const Profile *profile = order->profile;
    size_t lanes = profile->lanes.len;
    CLEANUP_FREE uint64_t *count = xcalloc(lanes + 1, sizeof(*count));
    bool any = false;
    for (size_t i = 0; i < profile->gpu.len; i++) {
        if (order->index->launch[i] != PROFILE_NONE) {
            count[profile->host.lane[order->index->launch[i]]]++;
            any = true;
        }
    }
    for (uint32_t lane = 0; lane < lanes; lane++) {
        uint64_t rows = order->index->lane_first[lane + 1] - order->index->lane_first[lane];
        if (any ? count[lane] > 0 : rows > 0)
            vec_push(&order->threads, ((PathThread){.lane = lane, .launches = any ? count[lane] : rows}));
    }
    if (order->threads.len > 1)
        qsort(order->threads.at, order->threads.len, sizeof(*order->threads.at), by_launches);
    size_t most = any ? PATH_THREADS_MAX : 1;
    if (order->threads.len > most)
        order->threads.len = most;
}

static void find_busy(const PathOrder *order, PathThread *thread)
{
    const ProfileEvents *host = &order->profile->host;
    const size_t *first = &order->index->lane_first[thread->lane];
    for (size_t i = first[0]; i < first[1]; i++) {
        if (host->kind[i] == PROFILE_PYTHON || order->index->host_class[i] == TRACE_HOST_MARK || host->duration[i] == 0)
            continue;
        int64_t end = profile_end(host, i);
        PathSpan *last = thread->busy.len > 0 ? &thread->busy.at[thread->busy.len - 1] : NULL;
        if (!last || host->start[i] > last->end)
            vec_push(&thread->busy, ((PathSpan){.start = host->start[i], .end = end}));
        else if (end > last->end)
            last->end = end;
    }
    thread->cursor = thread->busy.len;
}

static void find_data(PathOrder *order)
{
    const TraceIndex *index = order->index;
    size_t len = order->profile->host.len;
    if (!memchr(index->host_class, TRACE_HOST_DATA, len))
        return;
    order->in_data = xcalloc(len / 8 + 1, 1);
    for (size_t i = 0; i < len; i++) {
        uint32_t parent = index->parent[i];
        if (index->host_class[i] == TRACE_HOST_DATA ||
            (parent != PROFILE_NONE && (order->in_data[parent / 8] >> parent % 8 & 1)))
            order->in_data[i / 8] |= (uint8_t)(1U << i % 8);
    }
}

/* ---- recorded waits ---- */

static uint32_t find_stream(const PathOrder *order, int32_t device, int64_t stream)
{
    for (size_t i = 0; i < order->streams.len; i++) {
        const ProfileLane *lane = &order->profile->lanes.at[order->streams.at[i]];
        if (lane->tid == stream && (lane->device == device || device < 0))
            return order->streams.at[i];
    }
    return PROFILE_NONE;
}

static int by_wait(const void *a, const void *b)
{
    const PathWait *x = a, *y = b;
    if (x->lane != y->lane)
        return x->lane < y->lane ? -1 : 1;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return (x->other > y->other) - (x->other < y->other);
}

static void find_waits(PathOrder *order)
{
    const Profile *profile = order->profile;
    uint32_t name = profile_name_find(profile, "Stream Wait Event");
    for (size_t i = 0; i < profile->syncs.len && name != PROFILE_NONE; i++) {
        const ProfileSync *sync = &profile->syncs.at[i];
        if (sync->name != name || sync->stream < 0 || sync->wait_stream < 0)
            continue;
        PathWait wait = {.lane = find_stream(order, sync->device, sync->stream),
                         .other = find_stream(order, sync->device, sync->wait_stream),
                         .start = sync->start};
        if (wait.lane != PROFILE_NONE && wait.other != PROFILE_NONE && wait.lane != wait.other)
            vec_push(&order->waits, wait);
    }
    if (order->waits.len > 1)
        qsort(order->waits.at, order->waits.len, sizeof(*order->waits.at), by_wait);
}

static void path_order_init(PathOrder *order, const TraceIndex *index)
{
    *order = (PathOrder){.index = index, .profile = index->profile};
    size_t lanes = order->profile->lanes.len;
    order_streams(order);
    order->host_next = xcalloc(lanes + 1, sizeof(*order->host_next));
    for (size_t lane = 0; lane < lanes; lane++)
        order->host_next[lane] = index->lane_first[lane + 1];
    find_threads(order);
    for (size_t i = 0; i < order->threads.len; i++)
        find_busy(order, &order->threads.at[i]);
    find_data(order);
    find_waits(order);
}

static void path_order_done(PathOrder *order)
{
    for (size_t i = 0; i < order->threads.len; i++)
        vec_done(&order->threads.at[i].busy);
    vec_done(&order->threads);
    vec_done(&order->streams);
    vec_done(&order->waits);
    free(order->own_rows);
    free(order->stream_next);
    free(order->host_next);
    free(order->in_data);
    *order = (PathOrder){0};
}

/* ---- look-ups ---- */

static void seek_stream(PathOrder *order, uint32_t stream, int64_t time)
{
    size_t first = order->stream_first[stream], next = order->stream_next[stream];
    while (next > first && profile_end(&order->profile->gpu, order->rows[next - 1]) > time)
        next--;
    order->stream_next[stream] = next;
}

static uint32_t path_order_last(PathOrder *order, uint32_t stream, int64_t time)
{
    seek_stream(order, stream, time);
    size_t next = order->stream_next[stream];
    return next > order->stream_first[stream] ? order->rows[next - 1] : PROFILE_NONE;
}

static uint32_t path_order_last_of_device(PathOrder *order, int64_t device, int64_t time)
{
    const ProfileEvents *gpu = &order->profile->gpu;
    uint32_t best = PROFILE_NONE;
    for (size_t i = 0; i < order->streams.len; i++) {
        uint32_t lane = order->streams.at[i];
        if (device >= 0 && order->profile->lanes.at[lane].device != device)
            continue;
        uint32_t row = path_order_last(order, lane, time);
        if (row != PROFILE_NONE && (best == PROFILE_NONE || profile_end(gpu, row) > profile_end(gpu, best) ||
                                    (profile_end(gpu, row) == profile_end(gpu, best) && row > best)))
            best = row;
    }
    return best;
}

static bool runs_rather(const PathOrder *order, uint32_t row, uint32_t best)
{
    const ProfileEvents *gpu = &order->profile->gpu;
    if (best == PROFILE_NONE)
        return true;
    if (order->index->gpu_class[row] != order->index->gpu_class[best])
        return order->index->gpu_class[row] < order->index->gpu_class[best];
    if (gpu->start[row] != gpu->start[best])
        return gpu->start[row] > gpu->start[best];
    return row < best;
}

static uint32_t path_order_running(PathOrder *order, int64_t time)
{
    const ProfileEvents *gpu = &order->profile->gpu;
    uint32_t best = PROFILE_NONE;
    for (size_t i = 0; i < order->streams.len; i++) {
        uint32_t lane = order->streams.at[i];
        size_t first = order->stream_first[lane], next = order->stream_next[lane];
        while (next > first && profile_end(gpu, order->rows[next - 1]) >= time)
            next--;
        bool runs = next < order->stream_next[lane] && gpu->start[order->rows[next]] < time;
        order->stream_next[lane] = next + runs; /* what is behind is of no use for earlier times */
        if (runs && runs_rather(order, order->rows[next], best))
            best = order->rows[next];
    }
    return best;
}

static void path_order_use(PathOrder *order, uint32_t row)
{
    uint32_t lane = order->profile->gpu.lane[row];
    size_t first = order->stream_first[lane];
    while (order->stream_next[lane] > first && order->rows[--order->stream_next[lane]] != row)
        ;
}

static uint32_t path_order_host(PathOrder *order, uint32_t lane, int64_t time)
{
    const int64_t *start = order->profile->host.start;
    size_t low = order->index->lane_first[lane], high = order->host_next[lane];
    if (high > low && start[high - 1] < time) /* as a rule it is the next one */
        low = high;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (start[middle] < time)
            low = middle + 1;
        else
            high = middle;
    }
    order->host_next[lane] = low;
    return low > order->index->lane_first[lane] ? (uint32_t)(low - 1) : PROFILE_NONE;
}

static void path_order_host_use(PathOrder *order, uint32_t lane, uint32_t row)
{
    order->host_next[lane] = row;
}

static int64_t path_order_busy(PathThread *thread, int64_t time)
{
    while (thread->cursor > 0 && thread->busy.at[thread->cursor - 1].start >= time)
        thread->cursor--;
    if (thread->cursor == 0)
        return INT64_MIN;
    int64_t end = thread->busy.at[thread->cursor - 1].end;
    return end < time ? end : time;
}

static uint32_t path_order_wait(const PathOrder *order, uint32_t stream, int64_t after, int64_t before)
{
    size_t low = 0, high = order->waits.len;
    while (low < high) { /* the first one behind (stream, before] */
        size_t middle = low + (high - low) / 2;
        const PathWait *wait = &order->waits.at[middle];
        if (wait->lane < stream || (wait->lane == stream && wait->start <= before))
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || order->waits.at[low - 1].lane != stream || order->waits.at[low - 1].start <= after)
        return PROFILE_NONE;
    return order->waits.at[low - 1].other;
}

/* ---- the walk back in time ---- */

/* A GPU operation waited for the last of: the operation before it on its stream; its launch call; the stream of a
 * recorded wait, or, without recorded waits and with an unexplained delay, the operation of the device that ended
 * last. A host thread's time belongs to its innermost event; a synchronisation or blocking copy waited for the
 * operation that ended last within it; a thread without work of its own waited for the launching thread that was
 * busy. */

/* A launch takes about this long; a longer delay has another reason. */
#define LAUNCH_LATENCY_NS INT64_C(10000)
/* Times of host and GPU may differ by this much. */
#define CLOCKS_APART_NS INT64_C(5000)
enum { JUMPS_MAX = 64 /* without any time between them: something is inconsistent */ };

/* Called for [time - ns, time) going back; `name` is of the profile, PROFILE_NONE where no event was there. */
typedef void (*PathTake)(void *context, TracePathKind kind, uint32_t name, int64_t ns);

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

static void add_time_to(Walk *walk, int64_t start, TracePathKind kind, uint32_t name)
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
    add_time_to(walk, walk->profile->gpu.start[row], gpu_kind(walk, row), name);
    if (walk->time <= walk->from)
        return;
    uint32_t call = walk->index->launch[row];
    int64_t ready = INT64_MIN;
    if (call != PROFILE_NONE)
        ready = profile_end(host, call) < walk->time ? profile_end(host, call) : walk->time;
    uint32_t before = waited_for(walk, row, ready);
    if (before != PROFILE_NONE) {
        add_time_to(walk, gpu_end(walk, before), TRACE_PATH_QUEUE, name);
        go_to_gpu(walk, before);
    } else if (call != PROFILE_NONE) {
        add_time_to(walk, ready, TRACE_PATH_LAUNCH, name);
        go_to_host(walk, host->lane[call]);
    } else if (walk->order->threads.len > 0 && walk->order->threads.at[0].launches > 0) {
        go_to_host(walk, walk->order->threads.at[0].lane);
    } else {
        add_time_to(walk, walk->from, TRACE_PATH_QUEUE, name);
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

/* A call that waits returned because an operation had ended: one that runs on for at most the clocks' difference,
 * else the last that ended within the call. */
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
    add_time_to(walk, end, TRACE_PATH_HOST, host_name(walk, row));
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
    add_time_to(walk, until, host_kind(walk, row), host_name(walk, row));
    go_to_host(walk, best->lane);
    return true;
}

/* [start, time) of the thread belongs to `row`. False: the walk has gone elsewhere. */
static bool add_host_time(Walk *walk, uint32_t row, int64_t start)
{
    if (start >= walk->time)
        return true;
    if (row != PROFILE_NONE && waits_for_gpu(walk, row) && leave_for_gpu(walk, row))
        return false;
    if (does_no_work(walk, row) && leave_for_thread(walk, row, start > walk->from ? start : walk->from))
        return false;
    add_time_to(walk, start, host_kind(walk, row), host_name(walk, row));
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
            add_host_time(walk, PROFILE_NONE, walk->from);
            return;
        }
    }
    if (walk->inside.len > 0) {
        uint32_t row = walk->inside.at[walk->inside.len - 1];
        if (add_host_time(walk, parent[row], profile_end(host, row))) {
            walk->inside.len--;
            if (walk->inside.len > 0)
                return;
            last = row;
        } else {
            return;
        }
    }
    if (add_host_time(walk, last, host->start[last]))
        path_order_host_use(walk->order, walk->lane, last);
}

/* ---- the start of the walk ---- */

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
        add_time_to(walk, gpu_end(walk, row), best ? TRACE_PATH_HOST : TRACE_PATH_QUEUE, PROFILE_NONE);
        go_to_gpu(walk, row);
    } else if (best) {
        go_to_host(walk, best->lane);
    }
    return row != PROFILE_NONE || best;
}

static void path_walk(PathOrder *order, int64_t from, int64_t to, PathTake take, void *context)
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
    add_time_to(&walk, from, TRACE_PATH_HOST, PROFILE_NONE);
    vec_done(&walk.inside);
}

/* ---- paths of steps ---- */

/* Critical paths of the steps, or of everything without steps: the ranges, and the walk's times summed by kind and
 * name. */

enum { NAMES_KEPT = 100 /* per path */ };

const char *const trace_path_words[TRACE_PATH_KIND_COUNT] = {
    [TRACE_PATH_HOST] = "host",       [TRACE_PATH_DATA] = "data_loading",
    [TRACE_PATH_COMPUTE] = "compute", [TRACE_PATH_COMMUNICATION] = "communication",
    [TRACE_PATH_COPY] = "copy",       [TRACE_PATH_LAUNCH] = "launch",
    [TRACE_PATH_QUEUE] = "queue",
};

typedef struct PathSum {
    uint32_t key; /* name * kinds + kind */
    int64_t count, total_ns;
} PathSum;

typedef struct Sums {
    uint32_t *slot; /* key -> 1 + index in rows, 0 none */
    uint32_t names; /* number of names in the profile: the name of events without one */
    VEC(PathSum) rows;
    TracePath *path;
} Sums;

static void add_path_time(void *context, TracePathKind kind, uint32_t name, int64_t ns)
{
    Sums *sums = context;
    uint32_t key = (name == PROFILE_NONE ? sums->names : name) * (uint32_t)TRACE_PATH_KIND_COUNT + (uint32_t)kind;
    if (sums->slot[key] == 0) {
        vec_push(&sums->rows, ((PathSum){.key = key}));
        sums->slot[key] = (uint32_t)sums->rows.len;
    }
    PathSum *row = &sums->rows.at[sums->slot[key] - 1];
    row->count++;
    row->total_ns += ns;
    sums->path->by_kind_ns[kind] += ns;
}

static int by_time(const void *a, const void *b)
{
    const PathSum *x = a, *y = b;
    if (x->total_ns != y->total_ns)
        return x->total_ns > y->total_ns ? -1 : 1;
    return (x->key > y->key) - (x->key < y->key);
}

/* Moves the rows to the path, and clears the sums. */
static void finish_path(Sums *sums, const Profile *profile, Arena *arena)
{
    if (sums->rows.len > 1)
        qsort(sums->rows.at, sums->rows.len, sizeof(*sums->rows.at), by_time);
    for (size_t i = 0; i < sums->rows.len; i++) {
        const PathSum *row = &sums->rows.at[i];
        uint32_t name = row->key / (uint32_t)TRACE_PATH_KIND_COUNT;
        sums->slot[row->key] = 0;
        if (i >= NAMES_KEPT)
            continue;
        const char *text = name == sums->names ? "(no event)" : profile_text(profile, name, NULL);
        vec_push(&sums->path->names,
                 ((TracePathName){.name = arena_strdup(arena, text),
                                  .kind = (TracePathKind)(row->key % (uint32_t)TRACE_PATH_KIND_COUNT),
                                  .count = row->count,
                                  .total_ns = row->total_ns}));
    }
    vec_clear(&sums->rows);
}

typedef struct Range {
    const char *what;
    int64_t from, to;
} Range;
typedef VEC(Range) RangeVec;

/* From the first to the last work of the GPU and of the launching threads; empty (from > to) without any. */
static Range whole_range(const PathOrder *order)
{
    const ProfileEvents *gpu = &order->profile->gpu;
    Range all = {.what = "all", .from = INT64_MAX, .to = INT64_MIN};
    for (size_t i = 0; i < gpu->len; i++) {
        all.from = trace_smaller(all.from, gpu->start[i]);
        all.to = trace_larger(all.to, profile_end(gpu, i));
    }
    for (size_t i = 0; i < order->threads.len; i++) {
        const PathThread *thread = &order->threads.at[i];
        if (thread->busy.len == 0)
            continue;
        all.from = trace_smaller(all.from, thread->busy.at[0].start);
        all.to = trace_larger(all.to, thread->busy.at[thread->busy.len - 1].end);
    }
    return all;
}

static void find_ranges(const TraceJob *job, const PathOrder *order, RangeVec *ranges)
{
    const TraceIndex *index = job->index;
    for (size_t i = 0; i < index->steps.len; i++) {
        const TraceStep *step = &index->steps.at[i];
        vec_push(ranges, ((Range){.what = step->name, .from = step->start, .to = step->to}));
    }
    if (index->steps.len == 0) {
        Range all = whole_range(order);
        vec_push(ranges, all);
    }
    size_t kept = 0;
    for (size_t i = 0; i < ranges->len; i++) {
        Range range = ranges->at[i];
        if (i + 1 < ranges->len)
            range.to = trace_smaller(range.to, ranges->at[i + 1].from);
        if (range.from < range.to)
            ranges->at[kept++] = range;
    }
    ranges->len = kept;
}

void trace_paths(const TraceJob *job, TraceRank *rank)
{
    const Profile *profile = job->index->profile;
    CLEANUP(path_order_done) PathOrder order = {0};
    path_order_init(&order, job->index);
    RangeVec ranges = {0};
    find_ranges(job, &order, &ranges);
    size_t first = rank->paths.len;
    Sums sums = {.names = (uint32_t)profile_name_count(profile)};
    sums.slot = xcalloc(((size_t)sums.names + 1) * TRACE_PATH_KIND_COUNT, sizeof(*sums.slot));
    for (size_t i = 0; i < ranges.len; i++) {
        const Range *range = &ranges.at[i];
        vec_push(&rank->paths,
                 ((TracePath){.what = arena_strdup(job->arena, range->what), .total_ns = range->to - range->from}));
    }
    for (size_t i = ranges.len; i-- > 0;) {
        sums.path = &rank->paths.at[first + i];
        path_walk(&order, ranges.at[i].from, ranges.at[i].to, add_path_time, &sums);
        finish_path(&sums, profile, job->arena);
    }
    vec_done(&sums.rows);
    free(sums.slot);
    vec_done(&ranges);
}
