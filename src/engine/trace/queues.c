/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How many operations wait on each stream: launched, that is their call has begun, and not started. An operation that
 * starts before its call does waits 0. Operations without a known launch have no place in a queue. All numbers are sums
 * over time or over instants, so windows add up.
 */

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/attribute.h"
#include "base/owner.h"
#include "engine/trace/queue_points.h"
#include "engine/trace/sum.h"
#include "engine/trace/sweep.h"

enum { QUEUE_FULL = 1024 }; /* launches that a stream takes before a call blocks, as CUDA has it */

typedef struct StreamRows {
    const ProfileEvents *gpu;
    const uint32_t *rows; /* of the stream, by start */
    size_t len;
    int64_t *launched; /* of the linked ones, ascending; not behind their starts */
    int64_t *started;  /* of the linked ones, ascending */
    size_t linked;
} StreamRows;

static int by_time(const void *a_, const void *b_)
{
    int64_t a = *(const int64_t *)a_, b = *(const int64_t *)b_;

    return (a > b) - (a < b);
}

static void collect(const TraceIndex *index, StreamRows *stream)
{
    bool sorted = true;

    stream->linked = 0;
    for (size_t i = 0; i < stream->len; i++) {
        uint32_t row = stream->rows[i], call = index->launch[row];
        int64_t start = stream->gpu->start[row], launch;

        if (call == PROFILE_NONE)
            continue;
        launch = index->profile->host.start[call];
        launch = launch < start ? launch : start;
        if (stream->linked && launch < stream->launched[stream->linked - 1])
            sorted = false; /* streams mostly take their work in the order of the launches */
        stream->launched[stream->linked] = launch;
        stream->started[stream->linked++] = start;
    }
    if (!sorted)
        qsort(stream->launched, stream->linked, sizeof(*stream->launched), by_time);
}

/* Time in [from, to) that lies in the scope. */
static int64_t in_scope(TraceScope scope, int64_t from, int64_t to)
{
    from = from > scope.from ? from : scope.from;
    to = to < scope.to ? to : scope.to;
    return to > from ? to - from : 0;
}

/* ---- the length over time ---- */

typedef struct QueueWalk {
    const StreamRows *stream;
    TraceScope scope;
    TraceQueue *queue;
    size_t launched, started, any; /* how many have been: launched, started of the linked, started of all */
    int64_t busy_to;               /* end of what has started so far */
} QueueWalk;

/* Starts everything that starts before `time`. */
static void start_before(QueueWalk *walk, int64_t time)
{
    const StreamRows *stream = walk->stream;

    for (; walk->any < stream->len && stream->gpu->start[stream->rows[walk->any]] < time; walk->any++) {
        int64_t end = profile_end(stream->gpu, stream->rows[walk->any]);

        walk->busy_to = end > walk->busy_to ? end : walk->busy_to;
    }
}

/* Goes to the next instant at which the length changes; the length before and behind it. */
static int64_t next_instant(QueueWalk *walk, int64_t *ret_before, int64_t *ret_after, bool *ret_launches)
{
    const StreamRows *stream = walk->stream;
    int64_t launch = walk->launched < stream->linked ? stream->launched[walk->launched] : INT64_MAX;
    int64_t start = stream->started[walk->started], time = launch < start ? launch : start;

    *ret_before = (int64_t)(walk->launched - walk->started);
    *ret_launches = launch == time;
    while (walk->launched < stream->linked && stream->launched[walk->launched] == time)
        walk->launched++;
    while (walk->started < stream->linked && stream->started[walk->started] == time)
        walk->started++;
    *ret_after = (int64_t)(walk->launched - walk->started);
    return time;
}

static void walk_queue(const StreamRows *stream, TraceScope scope, TraceQueue *queue)
{
    QueueWalk walk = {.stream = stream, .scope = scope, .queue = queue, .busy_to = INT64_MIN};
    int64_t since = INT64_MIN, length = 0;

    while (walk.started < stream->linked) {
        int64_t before, after;
        bool launches;
        int64_t time = next_instant(&walk, &before, &after, &launches);

        if (length && in_scope(scope, since, time)) {
            queue->max_length = length > queue->max_length ? length : queue->max_length;
            if (length >= QUEUE_FULL)
                queue->full_ns += in_scope(scope, since, time);
        }
        if (launches && trace_scope_has(scope, time)) {
            start_before(&walk, time);
            queue->empty_launches += before == 0 && walk.busy_to <= time;
        }
        since = time;
        length = after;
    }
}

/* ---- what adds up ---- */

static void note_wait(TraceQueue *queue, TraceScope scope, int64_t launch, int64_t start)
{
    int64_t from = launch > scope.from ? launch : scope.from, to = start < scope.to ? start : scope.to;

    if (launch >= scope.to || start < scope.from)
        return;
    queue->waited_ns += (double)(to - from);
    queue->first = from < queue->first ? from : queue->first;
    queue->last = to > queue->last ? to : queue->last;
}

static void note_busy(const StreamRows *stream, TraceScope scope, TraceQueue *queue)
{
    int64_t busy_to = INT64_MIN, start, end;

    for (size_t i = 0; i < stream->len; i++) {
        if (!trace_clip(stream->gpu, stream->rows[i], scope, &start, &end))
            continue;
        queue->operation_count += trace_scope_has(scope, stream->gpu->start[stream->rows[i]]);
        start = start > busy_to ? start : busy_to;
        if (end > start) {
            queue->busy_ns += end - start;
            busy_to = end;
        }
    }
}

static void set_mean(TraceQueue *queue)
{
    queue->mean_length = queue->last > queue->first ? queue->waited_ns / (double)(queue->last - queue->first) : 0;
}

/* False where the stream has nothing in the scope. */
static bool fill_queue(const TraceJob *job, const StreamRows *stream, TraceQueue *queue)
{
    queue->first = INT64_MAX;
    queue->last = INT64_MIN;
    note_busy(stream, job->scope, queue);
    for (size_t i = 0; i < stream->linked; i++) /* which start belongs to which launch makes no difference to the sum */
        note_wait(queue, job->scope, stream->launched[i], stream->started[i]);
    walk_queue(stream, job->scope, queue);
    set_mean(queue);
    return queue->operation_count || queue->busy_ns || queue->first != INT64_MAX;
}

/* ---- all streams ---- */

typedef struct Queues {
    int64_t *launched, *started; /* of the stream at hand */
} Queues;

static void queues_done(Queues *queues)
{
    free(queues->launched);
    free(queues->started);
}

void trace_queues(const TraceJob *job, TraceRank *rank)
{
    const Profile *profile = job->index->profile;
    const size_t *first = job->index->stream_first;
    CLEANUP(queues_done) Queues queues = {0};
    CLEANUP(queue_points_done) QueuePoints points = {0};

    queues.launched = xmalloc((profile->gpu.len + 1) * sizeof(*queues.launched));
    queues.started = xmalloc((profile->gpu.len + 1) * sizeof(*queues.started));
    for (size_t lane = 0; lane < profile->lanes.len; lane++) {
        StreamRows stream = {.gpu = &profile->gpu,
                             .rows = job->index->stream_rows + first[lane],
                             .len = first[lane + 1] - first[lane],
                             .launched = queues.launched,
                             .started = queues.started};
        TraceQueue queue = {.device = profile->lanes.at[lane].device, .stream = profile->lanes.at[lane].tid};

        if (!stream.len)
            continue;
        collect(job->index, &stream);
        if (fill_queue(job, &stream, &queue))
            vec_push(&rank->queues, queue);
        queue_points_add(&points, queue.device, job->scope, stream.launched, stream.started, stream.linked);
    }
    queue_points_take(&points, rank);
}

/* ---- joining windows ---- */

static int queue_order(const TraceQueue *a, const TraceQueue *b)
{
    if (a->device != b->device)
        return a->device < b->device ? -1 : 1;
    return (a->stream > b->stream) - (a->stream < b->stream);
}

static void join_queue(TraceQueue *a, const TraceQueue *b)
{
    a->operation_count += b->operation_count;
    a->busy_ns += b->busy_ns;
    a->max_length = b->max_length > a->max_length ? b->max_length : a->max_length;
    a->full_ns += b->full_ns;
    a->empty_launches += b->empty_launches;
    a->waited_ns += b->waited_ns;
    a->first = b->first < a->first ? b->first : a->first;
    a->last = b->last > a->last ? b->last : a->last;
    set_mean(a);
}

void trace_queues_merge(TraceRank *into, TraceRank *next, UNUSED const TraceConfig *config, UNUSED Arena *arena)
{
    VEC(TraceQueue) all = {0};
    size_t k = 0;

    for (size_t i = 0; i < into->queues.len; i++) {
        for (; k < next->queues.len && queue_order(&next->queues.at[k], &into->queues.at[i]) < 0; k++)
            vec_push(&all, next->queues.at[k]);
        vec_push(&all, into->queues.at[i]);
        if (k < next->queues.len && queue_order(&next->queues.at[k], &into->queues.at[i]) == 0)
            join_queue(&all.at[all.len - 1], &next->queues.at[k++]);
    }
    for (; k < next->queues.len; k++)
        vec_push(&all, next->queues.at[k]);
    vec_done(&into->queues);
    into->queues.at = all.at;
    into->queues.len = all.len;
    into->queues.cap = all.cap;
    queue_points_merge(into, next);
}
