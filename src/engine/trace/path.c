/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Critical paths of the steps, or of everything without steps: the walk from the end of a window back to its start,
 * always to what the present thing waited for last. Every nanosecond is given to one kind and one name.
 *
 * A GPU operation waited for the last of: the operation before it on its stream; its launch call; the stream of a
 * recorded wait, or, without recorded waits and with an unexplained delay, the operation of the device that ended
 * last. A host thread's time belongs to its innermost event; a synchronisation or blocking copy waited for the
 * operation that ended last within it; a thread without work of its own waited for the launching thread that was
 * busy.
 *
 * All look-ups ask for moments that never grow, from the last window to the first, so that cursors move one way and the
 * whole walk is linear.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "engine/trace/analyse.h"

/* Times of host and GPU may differ by this much. */
#define CLOCKS_APART_NS INT64_C(5000)
enum {
    STREAMS_MAX = 64,
    THREADS_MAX = 16,
    NAMES_KEPT = 100, /* per path */
    JUMPS_MAX = 64    /* without any time between them: something is inconsistent */
};

const char *const trace_path_words[TRACE_PATH_KIND_COUNT] = {
    [TRACE_PATH_HOST] = "host",       [TRACE_PATH_DATA] = "data_loading",
    [TRACE_PATH_COMPUTE] = "compute", [TRACE_PATH_COMMUNICATION] = "communication",
    [TRACE_PATH_COPY] = "copy",       [TRACE_PATH_LAUNCH] = "launch",
    [TRACE_PATH_QUEUE] = "queue",
};

typedef struct Span {
    int64_t start, end;
} Span;

/* A host thread that launches work, and when it does anything but wait in Python or an annotation. */
typedef struct Thread {
    uint32_t lane;
    uint64_t launches;
    VEC(Span) busy; /* disjoint, by time */
    size_t cursor;  /* spans that start before the last time looked up */
} Thread;

/* "Stream Wait Event": what `lane` starts after it waits for `other`. */
typedef struct Wait {
    uint32_t lane, other;
    int64_t start;
} Wait;

/* A path's time by name and kind. */
typedef struct PathSum {
    uint32_t key; /* name * kinds + kind */
    int64_t count, total_ns;
} PathSum;

typedef struct Walk {
    const TraceIndex *index;
    const Profile *profile;
    const uint32_t *rows;  /* of the gpu table, by stream (index->stream_first), by end */
    uint32_t *own_rows;    /* the same, where the index's are in another order; else NULL */
    size_t *stream_next;   /* lane -> one past the last of its rows that may still be looked up */
    size_t *host_next;     /* lane -> one past the last host row that may still be looked up */
    VEC(uint32_t) streams; /* lanes with operations, at most STREAMS_MAX: those with most */
    VEC(Thread) threads;   /* by launches, most first */
    VEC(Wait) waits;       /* by lane, start */
    uint32_t *slot;        /* key -> 1 + index in sums, 0 none */
    uint32_t names;        /* number of names in the profile: the name of times without an event */
    VEC(PathSum) sums;     /* of the path */
    TracePath *path;
    int64_t time, from;
    int64_t jumped; /* time of the last jump from a host thread to the GPU */
    bool on_gpu;
    uint32_t row;         /* on the GPU */
    uint32_t lane;        /* on the host */
    VEC(uint32_t) inside; /* host events that ended before `time`, the outermost last: still to be entered */
} Walk;

/* ---- streams ---- */

static int by_end(const void *a, const void *b, void *context)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    const int64_t keys[][2] = {{profile_end(context, x), profile_end(context, y)}, {x, y}};
    return trace_compare(keys, ARRAY_LEN(keys));
}

static size_t stream_len(const TraceIndex *index, uint32_t lane)
{
    return index->stream_first[lane + 1] - index->stream_first[lane];
}

static int by_length(const void *a, const void *b, void *context)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    const int64_t keys[][2] = {{(int64_t)stream_len(context, y), (int64_t)stream_len(context, x)}, {x, y}};
    return trace_compare(keys, ARRAY_LEN(keys));
}

static void sort_stream(Walk *walk, uint32_t lane)
{
    const ProfileEvents *gpu = &walk->profile->gpu;
    const size_t first = walk->index->stream_first[lane], len = stream_len(walk->index, lane);
    size_t sorted = 1;
    while (sorted < len &&
           profile_end(gpu, walk->rows[first + sorted - 1]) <= profile_end(gpu, walk->rows[first + sorted]))
        sorted++;
    if (sorted >= len)
        return;
    if (!walk->own_rows) { /* operations of one stream that overlap: rare */
        walk->own_rows = xmalloc(gpu->len * sizeof(*walk->own_rows));
        memcpy(walk->own_rows, walk->rows, gpu->len * sizeof(*walk->own_rows));
        walk->rows = walk->own_rows;
    }
    qsort_r(walk->own_rows + first, len, sizeof(*walk->own_rows), by_end, (void *)(uintptr_t)gpu);
}

static void find_streams(Walk *walk)
{
    walk->rows = walk->index->stream_rows;
    for (uint32_t lane = 0; lane < walk->profile->lanes.len; lane++) {
        sort_stream(walk, lane);
        if (stream_len(walk->index, lane) > 0)
            vec_push(&walk->streams, lane);
    }
    if (walk->streams.len > STREAMS_MAX) {
        qsort_r(walk->streams.at, walk->streams.len, sizeof(*walk->streams.at), by_length,
                (void *)(uintptr_t)walk->index);
        walk->streams.len = STREAMS_MAX;
    }
}

/* The stream's last operation that had ended by `time`. */
static uint32_t last_of_stream(Walk *walk, uint32_t lane, int64_t time)
{
    size_t first = walk->index->stream_first[lane], next = walk->stream_next[lane];
    while (next > first && profile_end(&walk->profile->gpu, walk->rows[next - 1]) > time)
        next--;
    walk->stream_next[lane] = next;
    return next > first ? walk->rows[next - 1] : PROFILE_NONE;
}

/* The same of all streams of a device, of all devices with -1. */
static uint32_t last_of_device(Walk *walk, int64_t device, int64_t time)
{
    const ProfileEvents *gpu = &walk->profile->gpu;
    uint32_t best = PROFILE_NONE;
    for (size_t i = 0; i < walk->streams.len; i++) {
        uint32_t lane = walk->streams.at[i];
        if (device >= 0 && walk->profile->lanes.at[lane].device != device)
            continue;
        uint32_t row = last_of_stream(walk, lane, time);
        if (row != PROFILE_NONE && (best == PROFILE_NONE || profile_end(gpu, row) > profile_end(gpu, best) ||
                                    (profile_end(gpu, row) == profile_end(gpu, best) && row > best)))
            best = row;
    }
    return best;
}

static bool runs_rather(const Walk *walk, uint32_t row, uint32_t best)
{
    const ProfileEvents *gpu = &walk->profile->gpu;
    if (best == PROFILE_NONE)
        return true;
    if (walk->index->gpu_class[row] != walk->index->gpu_class[best])
        return walk->index->gpu_class[row] < walk->index->gpu_class[best];
    if (gpu->start[row] != gpu->start[best])
        return gpu->start[row] > gpu->start[best];
    return row < best;
}

/* The operation that runs just before the walk's time. */
static uint32_t running_operation(Walk *walk)
{
    const ProfileEvents *gpu = &walk->profile->gpu;
    uint32_t best = PROFILE_NONE;
    for (size_t i = 0; i < walk->streams.len; i++) {
        uint32_t lane = walk->streams.at[i];
        size_t first = walk->index->stream_first[lane], next = walk->stream_next[lane];
        while (next > first && profile_end(gpu, walk->rows[next - 1]) >= walk->time)
            next--;
        bool runs = next < walk->stream_next[lane] && gpu->start[walk->rows[next]] < walk->time;
        walk->stream_next[lane] = next + runs; /* what is behind is of no use for earlier times */
        if (runs && runs_rather(walk, walk->rows[next], best))
            best = walk->rows[next];
    }
    return best;
}

/* ---- recorded waits ---- */

static uint32_t find_stream(const Walk *walk, int32_t device, int64_t stream)
{
    for (size_t i = 0; i < walk->streams.len; i++) {
        const ProfileLane *lane = &walk->profile->lanes.at[walk->streams.at[i]];
        if (lane->tid == stream && (lane->device == device || device < 0))
            return walk->streams.at[i];
    }
    return PROFILE_NONE;
}

static int by_wait(const void *a, const void *b)
{
    const Wait *x = a, *y = b;
    const int64_t keys[][2] = {{x->lane, y->lane}, {x->start, y->start}, {x->other, y->other}};
    return trace_compare(keys, ARRAY_LEN(keys));
}

static void find_waits(Walk *walk)
{
    const Profile *profile = walk->profile;
    uint32_t name = profile_name_find(profile, "Stream Wait Event");
    for (size_t i = 0; i < profile->syncs.len && name != PROFILE_NONE; i++) {
        const ProfileSync *sync = &profile->syncs.at[i];
        if (sync->name != name || sync->stream < 0 || sync->wait_stream < 0)
            continue;
        Wait wait = {.lane = find_stream(walk, sync->device, sync->stream),
                     .other = find_stream(walk, sync->device, sync->wait_stream),
                     .start = sync->start};
        if (wait.lane != PROFILE_NONE && wait.other != PROFILE_NONE && wait.lane != wait.other)
            vec_push(&walk->waits, wait);
    }
    vec_sort(&walk->waits, by_wait);
}

/* The stream that `stream` was last told to wait for in (after, before]. */
static uint32_t awaited_stream(const Walk *walk, uint32_t stream, int64_t after, int64_t before)
{
    size_t low = 0, high = walk->waits.len;
    while (low < high) { /* the first one behind (stream, before] */
        size_t middle = low + (high - low) / 2;
        const Wait *wait = &walk->waits.at[middle];
        if (wait->lane < stream || (wait->lane == stream && wait->start <= before))
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || walk->waits.at[low - 1].lane != stream || walk->waits.at[low - 1].start <= after)
        return PROFILE_NONE;
    return walk->waits.at[low - 1].other;
}

/* ---- host threads ---- */

static bool does_no_work(const Walk *walk, uint32_t row)
{
    return row == PROFILE_NONE || walk->profile->host.kind[row] == PROFILE_PYTHON ||
           walk->index->host_class[row] == TRACE_HOST_MARK;
}

static void find_busy(const Walk *walk, Thread *thread)
{
    const ProfileEvents *host = &walk->profile->host;
    const size_t *first = &walk->index->lane_first[thread->lane];
    for (size_t i = first[0]; i < first[1]; i++) {
        if (host->duration[i] == 0 || does_no_work(walk, (uint32_t)i))
            continue;
        int64_t end = profile_end(host, i);
        Span *last = thread->busy.len > 0 ? &thread->busy.at[thread->busy.len - 1] : NULL;
        if (!last || host->start[i] > last->end)
            vec_push(&thread->busy, ((Span){.start = host->start[i], .end = end}));
        else
            last->end = trace_larger(last->end, end);
    }
    thread->cursor = thread->busy.len;
}

static int by_launches(const void *a, const void *b)
{
    const Thread *x = a, *y = b;
    const int64_t keys[][2] = {{(int64_t)y->launches, (int64_t)x->launches}, {x->lane, y->lane}};
    return trace_compare(keys, ARRAY_LEN(keys));
}

/* Those that launch; if no launch is known, the one with most events. */
static void find_threads(Walk *walk)
{
    const Profile *profile = walk->profile;
    const bool any = walk->index->linked > 0;
    const size_t most = any ? THREADS_MAX : 1;
    CLEANUP_FREE uint64_t *count = xcalloc(profile->lanes.len + 1, sizeof(*count));
    for (size_t i = 0; i < profile->gpu.len; i++)
        if (walk->index->launch[i] != PROFILE_NONE)
            count[profile->host.lane[walk->index->launch[i]]]++;
    for (uint32_t lane = 0; lane < profile->lanes.len; lane++) {
        uint64_t rows = walk->index->lane_first[lane + 1] - walk->index->lane_first[lane];
        Thread thread = {.lane = lane, .launches = any ? count[lane] : rows};
        if (thread.launches > 0)
            vec_push(&walk->threads, thread);
    }
    vec_sort(&walk->threads, by_launches);
    walk->threads.len = walk->threads.len < most ? walk->threads.len : most;
    for (size_t i = 0; i < walk->threads.len; i++)
        find_busy(walk, &walk->threads.at[i]);
}

/* Until when the thread was busy, `time` at most. */
static int64_t busy_until(Thread *thread, int64_t time)
{
    while (thread->cursor > 0 && thread->busy.at[thread->cursor - 1].start >= time)
        thread->cursor--;
    return thread->cursor == 0 ? INT64_MIN : trace_smaller(thread->busy.at[thread->cursor - 1].end, time);
}

/* The lane's last event that began before the walk's time. */
static uint32_t last_of_thread(Walk *walk, uint32_t lane)
{
    const int64_t *start = walk->profile->host.start;
    const size_t low = walk->index->lane_first[lane];
    size_t high = walk->host_next[lane];
    if (high == low || start[high - 1] >= walk->time) /* as a rule it is the next one */
        high = trace_find_after(start, sizeof(*start), low, high, walk->time - 1);
    walk->host_next[lane] = high;
    return high > low ? (uint32_t)(high - 1) : PROFILE_NONE;
}

/* ---- moves ---- */

/* Gives [start, time) to the kind and name, PROFILE_NONE where no event was there, and goes to `start`. */
static void add_time_to(Walk *walk, int64_t start, TracePathKind kind, uint32_t name)
{
    start = trace_larger(start, walk->from);
    if (start >= walk->time)
        return;
    uint32_t key = (name == PROFILE_NONE ? walk->names : name) * (uint32_t)TRACE_PATH_KIND_COUNT + (uint32_t)kind;
    if (walk->slot[key] == 0) {
        vec_push(&walk->sums, ((PathSum){.key = key}));
        walk->slot[key] = (uint32_t)walk->sums.len;
    }
    PathSum *sum = &walk->sums.at[walk->slot[key] - 1];
    sum->count++;
    sum->total_ns += walk->time - start;
    walk->path->by_kind_ns[kind] += walk->time - start;
    walk->time = start;
}

static void go_to_gpu(Walk *walk, uint32_t row)
{
    uint32_t lane = walk->profile->gpu.lane[row];
    size_t first = walk->index->stream_first[lane];
    while (walk->stream_next[lane] > first && walk->rows[--walk->stream_next[lane]] != row)
        ;
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

static int64_t launch_of(const Walk *walk, uint32_t row)
{
    return row == PROFILE_NONE ? INT64_MIN : trace_launch_start(walk->index, row);
}

/* The operation that `row`, starting at the walk's time, waited for: PROFILE_NONE where it only waited for its launch,
 * which was done at `ready` (INT64_MIN: not known). */
static uint32_t waited_for(Walk *walk, uint32_t row, int64_t ready)
{
    uint32_t stream = walk->profile->gpu.lane[row];
    uint32_t best = last_of_stream(walk, stream, walk->time);
    uint32_t other = awaited_stream(walk, stream, launch_of(walk, best), launch_of(walk, row));
    int64_t known = trace_larger(gpu_end(walk, best), ready);
    uint32_t also = PROFILE_NONE;
    if (other != PROFILE_NONE)
        also = last_of_stream(walk, other, walk->time);
    else if (known == INT64_MIN || walk->time - known > TRACE_LAUNCH_LATENCY_NS)
        also = last_of_device(walk, walk->profile->lanes.at[stream].device, walk->time);
    if (gpu_end(walk, also) > known)
        return also;
    return gpu_end(walk, best) >= ready ? best : PROFILE_NONE;
}

static void step_gpu(Walk *walk)
{
    static const TracePathKind kinds[TRACE_CLASS_COUNT] = {
        [TRACE_COMPUTE] = TRACE_PATH_COMPUTE,
        [TRACE_COMMUNICATION] = TRACE_PATH_COMMUNICATION,
        [TRACE_COPY] = TRACE_PATH_COPY,
    };
    const ProfileEvents *host = &walk->profile->host;
    uint32_t row = walk->row, name = walk->profile->gpu.name[row];
    add_time_to(walk, walk->profile->gpu.start[row], kinds[trace_gpu_class(walk->index, row)], name);
    if (walk->time <= walk->from)
        return;
    uint32_t call = walk->index->launch[row];
    int64_t ready = call == PROFILE_NONE ? INT64_MIN : trace_smaller(profile_end(host, call), walk->time);
    uint32_t before = waited_for(walk, row, ready);
    if (before != PROFILE_NONE) {
        add_time_to(walk, gpu_end(walk, before), TRACE_PATH_QUEUE, name);
        go_to_gpu(walk, before);
    } else if (call != PROFILE_NONE) {
        add_time_to(walk, ready, TRACE_PATH_LAUNCH, name);
        go_to_host(walk, host->lane[call]);
    } else if (walk->threads.len > 0) {
        go_to_host(walk, walk->threads.at[0].lane);
    } else {
        add_time_to(walk, walk->from, TRACE_PATH_QUEUE, name);
    }
}

/* ---- on the host ---- */

static void add_event_time(Walk *walk, uint32_t row, int64_t start)
{
    bool data = row != PROFILE_NONE && walk->index->host_inside[row] == TRACE_HOST_DATA;
    add_time_to(walk, start, data ? TRACE_PATH_DATA : TRACE_PATH_HOST,
                row == PROFILE_NONE ? PROFILE_NONE : walk->profile->host.name[row]);
}

/* A call that waits returned because an operation had ended: one that runs on for at most the clocks' difference,
 * else the last that ended within the call. */
static bool leave_for_gpu(Walk *walk, uint32_t row)
{
    int64_t called = walk->profile->host.start[row];
    uint32_t done = running_operation(walk);
    int64_t end = walk->time;
    if (done == PROFILE_NONE || gpu_end(walk, done) > walk->time + CLOCKS_APART_NS) {
        done = last_of_device(walk, -1, walk->time);
        end = gpu_end(walk, done);
    }
    if (done == PROFILE_NONE || end <= called || end >= walk->jumped)
        return false;
    add_time_to(walk, end, TRACE_PATH_HOST, walk->profile->host.name[row]);
    walk->jumped = end;
    go_to_gpu(walk, done);
    return true;
}

/* To the thread of the same process that worked last in (start, time]. */
static bool leave_for_thread(Walk *walk, uint32_t row, int64_t start)
{
    const ProfileLane *lanes = walk->profile->lanes.at;
    const Thread *best = NULL;
    int64_t until = start;
    for (size_t i = 0; i < walk->threads.len; i++) {
        Thread *thread = &walk->threads.at[i];
        if (thread->lane == walk->lane || lanes[thread->lane].pid != lanes[walk->lane].pid)
            continue;
        int64_t busy = busy_until(thread, walk->time);
        if (busy > until) {
            best = thread;
            until = busy;
        }
    }
    if (!best)
        return false;
    add_event_time(walk, row, until);
    go_to_host(walk, best->lane);
    return true;
}

/* [start, time) of the thread belongs to `row`. False: the walk has gone elsewhere. */
static bool add_host_time(Walk *walk, uint32_t row, int64_t start)
{
    if (start >= walk->time)
        return true;
    if (row != PROFILE_NONE && trace_waits_for_device(walk->index, row) && leave_for_gpu(walk, row))
        return false;
    if (does_no_work(walk, row) && leave_for_thread(walk, row, trace_larger(start, walk->from)))
        return false;
    add_event_time(walk, row, start);
    return true;
}

static void step_host(Walk *walk)
{
    const ProfileEvents *host = &walk->profile->host;
    const uint32_t *parent = walk->index->parent;
    uint32_t last = PROFILE_NONE;
    if (walk->inside.len == 0) {
        last = last_of_thread(walk, walk->lane);
        if (last == PROFILE_NONE) {
            add_host_time(walk, PROFILE_NONE, walk->from);
            return;
        }
        for (uint32_t row = last; row != PROFILE_NONE && profile_end(host, row) < walk->time; row = parent[row])
            vec_push(&walk->inside, row);
    }
    if (walk->inside.len > 0) {
        last = walk->inside.at[walk->inside.len - 1];
        if (!add_host_time(walk, parent[last], profile_end(host, last)))
            return;
        if (--walk->inside.len > 0)
            return;
    }
    if (add_host_time(walk, last, host->start[last]))
        walk->host_next[walk->lane] = last;
}

/* ---- one path ---- */

/* The last to have been active: an operation that runs at the end of the window, else host or GPU, whoever worked
 * last. False: nothing was. */
static bool begin_walk(Walk *walk)
{
    uint32_t row = running_operation(walk);
    if (row != PROFILE_NONE) {
        go_to_gpu(walk, row);
        return true;
    }
    const Thread *best = NULL;
    int64_t until = INT64_MIN;
    for (size_t i = 0; i < walk->threads.len; i++) {
        int64_t busy = busy_until(&walk->threads.at[i], walk->time);
        if (!best || busy > until) {
            best = &walk->threads.at[i];
            until = busy;
        }
    }
    row = last_of_device(walk, -1, walk->time);
    if (row != PROFILE_NONE && gpu_end(walk, row) > until) {
        add_time_to(walk, gpu_end(walk, row), best ? TRACE_PATH_HOST : TRACE_PATH_QUEUE, PROFILE_NONE);
        go_to_gpu(walk, row);
    } else if (best) {
        go_to_host(walk, best->lane);
    }
    return row != PROFILE_NONE || best;
}

static void walk_back(Walk *walk, int64_t from, int64_t to)
{
    walk->time = to;
    walk->from = from;
    walk->jumped = INT64_MAX;
    vec_clear(&walk->inside);
    bool going = begin_walk(walk);
    for (int jumps = 0; going && walk->time > from && jumps < JUMPS_MAX;) {
        int64_t time = walk->time;
        bool on_gpu = walk->on_gpu;
        uint32_t lane = walk->lane;
        if (on_gpu)
            step_gpu(walk);
        else
            step_host(walk);
        if (walk->time != time)
            jumps = 0;
        else if (walk->on_gpu != on_gpu || walk->lane != lane)
            jumps++;
    }
    add_time_to(walk, from, TRACE_PATH_HOST, PROFILE_NONE);
}

static int by_time(const void *a, const void *b)
{
    const PathSum *x = a, *y = b;
    const int64_t keys[][2] = {{y->total_ns, x->total_ns}, {x->key, y->key}};
    return trace_compare(keys, ARRAY_LEN(keys));
}

/* Moves the sums to the path, and clears them. */
static void finish_path(Walk *walk, Arena *arena)
{
    vec_sort(&walk->sums, by_time);
    for (size_t i = 0; i < walk->sums.len; i++) {
        const PathSum *sum = &walk->sums.at[i];
        uint32_t name = sum->key / (uint32_t)TRACE_PATH_KIND_COUNT;
        walk->slot[sum->key] = 0;
        if (i >= NAMES_KEPT)
            continue;
        const char *text = name == walk->names ? "(no event)" : profile_text(walk->profile, name, NULL);
        vec_push(&walk->path->names,
                 ((TracePathName){.name = arena_strdup(arena, text),
                                  .kind = (TracePathKind)(sum->key % (uint32_t)TRACE_PATH_KIND_COUNT),
                                  .count = sum->count,
                                  .total_ns = sum->total_ns}));
    }
    vec_clear(&walk->sums);
}

/* ---- all paths ---- */

static void walk_init(Walk *walk, const TraceIndex *index)
{
    const size_t lanes = index->profile->lanes.len;
    *walk = (Walk){.index = index, .profile = index->profile, .names = (uint32_t)profile_name_count(index->profile)};
    walk->slot = xcalloc(((size_t)walk->names + 1) * TRACE_PATH_KIND_COUNT, sizeof(*walk->slot));
    walk->stream_next = xcalloc(lanes + 1, sizeof(*walk->stream_next));
    walk->host_next = xcalloc(lanes + 1, sizeof(*walk->host_next));
    memcpy(walk->stream_next, index->stream_first + 1, lanes * sizeof(*walk->stream_next));
    memcpy(walk->host_next, index->lane_first + 1, lanes * sizeof(*walk->host_next));
    find_streams(walk);
    find_threads(walk);
    find_waits(walk);
}

static void walk_done(Walk *walk)
{
    for (size_t i = 0; i < walk->threads.len; i++)
        vec_done(&walk->threads.at[i].busy);
    vec_done(&walk->threads);
    vec_done(&walk->streams);
    vec_done(&walk->waits);
    vec_done(&walk->sums);
    vec_done(&walk->inside);
    free(walk->own_rows);
    free(walk->stream_next);
    free(walk->host_next);
    free(walk->slot);
}

/* From the first to the last work of the GPU and of the launching threads; empty (start > end) without any. */
static Span whole_span(const Walk *walk)
{
    Span all = {.start = INT64_MAX, .end = INT64_MIN};
    trace_widen(&walk->profile->gpu, &all.start, &all.end);
    for (size_t i = 0; i < walk->threads.len; i++) {
        const Thread *thread = &walk->threads.at[i];
        if (thread->busy.len == 0)
            continue;
        all.start = trace_smaller(all.start, thread->busy.at[0].start);
        all.end = trace_larger(all.end, thread->busy.at[thread->busy.len - 1].end);
    }
    return all;
}

typedef VEC(Span) SpanVec;

static void add_path(const TraceJob *job, const char *what, Span span, SpanVec *spans, TraceRank *rank)
{
    if (span.start >= span.end)
        return;
    vec_push(spans, span);
    vec_push(&rank->paths, ((TracePath){.what = arena_strdup(job->arena, what), .total_ns = span.end - span.start}));
}

void trace_paths(const TraceJob *job, TraceRank *rank)
{
    const TraceIndex *index = job->index;
    CLEANUP(walk_done) Walk walk;
    SpanVec spans = {0};
    walk_init(&walk, index);
    for (size_t i = 0; i < index->steps.len; i++) {
        const TraceStep *step = &index->steps.at[i];
        const int64_t next = i + 1 < index->steps.len ? index->steps.at[i + 1].start : INT64_MAX;
        add_path(job, step->name, (Span){.start = step->start, .end = trace_smaller(step->to, next)}, &spans, rank);
    }
    if (index->steps.len == 0)
        add_path(job, "all", whole_span(&walk), &spans, rank);
    for (size_t i = spans.len; i-- > 0;) {
        walk.path = &rank->paths.at[i];
        walk_back(&walk, spans.at[i].start, spans.at[i].end);
        finish_path(&walk, job->arena);
    }
    vec_done(&spans);
}
