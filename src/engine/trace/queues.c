/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many operations wait on each stream: their call has begun and they have not started. An operation that starts
 * before its call waits 0. Operations without a known launch are not counted. And the length over time, per device: its
 * integral over the parts of a grid from the first launch to the last start. Parts are as wide as a power of two and
 * begin at its multiples.
 */
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "engine/trace/tables.h"

enum {
    QUEUE_FULL = 1024, /* launches that a stream takes before a call blocks, as CUDA has it */
    POINTS_MAX = 512
};

/* ---- one stream ---- */

typedef struct StreamRows {
    const ProfileEvents *gpu;
    const uint32_t *rows; /* of the stream, by start */
    size_t len;
    int64_t *launched; /* of the linked ones, ascending; not behind their starts */
    int64_t *started;  /* of the linked ones, ascending */
    size_t linked;
} StreamRows;

static void collect_launches(const TraceIndex *index, StreamRows *stream)
{
    bool sorted = true;

    stream->linked = 0;
    for (size_t i = 0; i < stream->len; i++) {
        const uint32_t row = stream->rows[i];
        const int64_t start = stream->gpu->start[row];

        if (index->launch[row] == PROFILE_NONE)
            continue;
        const int64_t launch = trace_smaller(trace_launch_start(index, row), start);

        if (stream->linked && launch < stream->launched[stream->linked - 1])
            sorted = false; /* streams mostly take their work in the order of the launches */
        stream->launched[stream->linked] = launch;
        stream->started[stream->linked++] = start;
    }
    if (!sorted)
        qsort(stream->launched, stream->linked, sizeof(*stream->launched), trace_by_number);
}

/* Goes from instant to instant at which the length changes. */
static void walk_queue(const StreamRows *stream, TraceQueue *queue)
{
    size_t launched = 0, started = 0, row = 0; /* how many have been: launched, started of the linked, started of all */
    int64_t since = INT64_MIN, busy_to = INT64_MIN;

    while (started < stream->linked) {
        const int64_t launch = launched < stream->linked ? stream->launched[launched] : INT64_MAX;
        const int64_t time = trace_smaller(launch, stream->started[started]);
        const int64_t length = (int64_t)(launched - started);

        queue->max_length = trace_larger(queue->max_length, length);
        if (length >= QUEUE_FULL)
            queue->full_ns += time - since;
        for (; launch == time && row < stream->len && stream->gpu->start[stream->rows[row]] < time; row++)
            busy_to = trace_larger(busy_to, profile_end(stream->gpu, stream->rows[row]));
        queue->empty_launches += launch == time && length == 0 && busy_to <= time;
        while (launched < stream->linked && stream->launched[launched] == time)
            launched++;
        while (started < stream->linked && stream->started[started] == time)
            started++;
        since = time;
    }
}

static void note_busy(const StreamRows *stream, TraceQueue *queue)
{
    TraceCover cover = {0};

    for (size_t i = 0; i < stream->len; i++)
        trace_cover_add(&cover, stream->gpu->start[stream->rows[i]], profile_end(stream->gpu, stream->rows[i]));
    queue->operation_count = (int64_t)stream->len;
    queue->busy_ns = trace_cover_until(&cover, INT64_MAX);
}

/* Mean from the first launch to the last start. Which start belongs to which launch makes no difference to the sum. */
static double mean_length(const StreamRows *stream)
{
    double waited_ns = 0;

    if (stream->linked == 0)
        return 0;
    const int64_t first = stream->launched[0], last = stream->started[stream->linked - 1];

    for (size_t i = 0; i < stream->linked; i++)
        waited_ns += (double)(stream->started[i] - stream->launched[i]);
    return last > first ? waited_ns / (double)(last - first) : 0;
}

/* ---- the length over time ---- */

typedef struct Grid {
    unsigned int shift; /* a part is 1 << shift wide */
    int64_t first;      /* number of the first part: start >> shift */
    size_t len;
    double area[POINTS_MAX];  /* ns x operations */
    double whole[POINTS_MAX]; /* how many waits begin or end to cover parts wholly: differences from part to part */
} Grid;

/* Adds [from, to) to the parts it touches; a wait over many parts costs no more than one over two. */
static void add_wait(Grid *grid, int64_t from, int64_t to)
{
    const size_t a = (size_t)((from >> grid->shift) - grid->first), b = (size_t)((to >> grid->shift) - grid->first);
    const int64_t inside = (int64_t)((UINT64_C(1) << grid->shift) - 1); /* bits of a time within its part */

    if (a == b) {
        grid->area[a] += (double)(to - from);
        return;
    }
    grid->area[a] += (double)inside + 1 - (double)(from & inside);
    grid->area[b] += (double)(to & inside);
    grid->whole[a + 1] += 1;
    grid->whole[b] -= 1;
}

/* The points of a device from all its waits. */
static void add_points(int32_t device, const int64_t *launched, const int64_t *started, size_t len, TraceRank *rank)
{
    int64_t first = INT64_MAX, last = INT64_MIN;
    double running = 0, width;
    Grid grid = {0};

    for (size_t i = 0; i < len; i++) {
        first = trace_smaller(first, launched[i]);
        last = trace_larger(last, started[i]);
    }
    if (len == 0)
        return;
    while ((last >> grid.shift) - (first >> grid.shift) >= POINTS_MAX)
        grid.shift++;
    grid.first = first >> grid.shift;
    grid.len = (size_t)((last >> grid.shift) - grid.first) + 1;
    for (size_t i = 0; i < len; i++)
        add_wait(&grid, launched[i], started[i]);
    width = ldexp(1, (int)grid.shift);
    for (size_t i = 0; i < grid.len; i++) {
        running += grid.whole[i];
        vec_push(&rank->queue_points,
                 ((TraceQueuePoint){.start = (int64_t)((uint64_t)(grid.first + (int64_t)i) << grid.shift),
                                    .length = (grid.area[i] + running * width) / width,
                                    .width_ns = (int64_t)(UINT64_C(1) << grid.shift),
                                    .device = device}));
    }
}

/* ---- all streams ---- */

void trace_queues(const TraceJob *job, TraceRank *rank)
{
    const Profile *profile = job->index->profile;
    const size_t *first = job->index->stream_first;
    CLEANUP_FREE int64_t *launched = xmalloc((profile->gpu.len + 1) * sizeof(*launched)); /* of the device */
    CLEANUP_FREE int64_t *started = xmalloc((profile->gpu.len + 1) * sizeof(*started));
    size_t linked = 0;

    for (size_t lane = 0; lane < profile->lanes.len; lane++) {
        StreamRows stream = {.gpu = &profile->gpu,
                             .rows = job->index->stream_rows + first[lane],
                             .len = first[lane + 1] - first[lane],
                             .launched = launched + linked,
                             .started = started + linked};
        TraceQueue queue = {.device = profile->lanes.at[lane].device, .stream = profile->lanes.at[lane].tid};

        if (!stream.len)
            continue;
        if (rank->queues.len > 0 && rank->queues.at[rank->queues.len - 1].device != queue.device) {
            add_points(rank->queues.at[rank->queues.len - 1].device, launched, started, linked, rank);
            linked = 0;
            stream.launched = launched;
            stream.started = started;
        }
        collect_launches(job->index, &stream);
        note_busy(&stream, &queue);
        walk_queue(&stream, &queue);
        queue.mean_length = mean_length(&stream);
        vec_push(&rank->queues, queue);
        linked += stream.linked;
    }
    if (rank->queues.len > 0)
        add_points(rank->queues.at[rank->queues.len - 1].device, launched, started, linked, rank);
}
