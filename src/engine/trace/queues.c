/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grids of queue lengths. A grid covers from the first launch to the last start and is made coarser by twos until it
 * has room. A wait over many parts adds its length to the parts between by differences, so that each wait costs
 * the same.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "engine/trace/analyse.h"

/*
 * The queue's length over time, per device: its integral over the parts of a grid. Parts are as wide as a power of two
 * and begin at its multiples.
 */

enum { QUEUE_POINTS_MAX = 512 };

typedef struct QueueGrid { /* of one device */
    int32_t device;
    bool used;          /* false: no wait so far */
    unsigned int shift; /* a part is 1 << shift wide */
    int64_t first;      /* number of the first part: start >> shift */
    size_t len;
    double area[QUEUE_POINTS_MAX]; /* ns x operations */
} QueueGrid;

typedef struct QueuePoints {
    VEC(QueueGrid) grids; /* by device */
} QueuePoints;

static void queue_points_done(QueuePoints *points)
{
    vec_done(&points->grids);
}

/* Makes parts twice as wide. */
static void coarsen_grid(QueueGrid *grid)
{
    int64_t first = grid->first >> 1;
    size_t len = 0;

    for (size_t i = 0; i < grid->len; i++) {
        size_t to = (size_t)(((grid->first + (int64_t)i) >> 1) - first);
        double area = grid->area[i];

        if (to == len)
            grid->area[len++] = 0;
        grid->area[to] += area;
    }
    grid->first = first;
    grid->len = len;
    grid->shift++;
}

/* Makes the grid cover [from, to], with the finest parts that it has had. */
static void cover_range(QueueGrid *grid, int64_t from, int64_t to)
{
    int64_t first, last;

    if (!grid->used) {
        *grid = (QueueGrid){.device = grid->device, .used = true, .first = from, .len = 1};
    }
    for (;;) {
        first = from >> grid->shift;
        last = to >> grid->shift;
        first = first < grid->first ? first : grid->first;
        last = last > grid->first + (int64_t)grid->len - 1 ? last : grid->first + (int64_t)grid->len - 1;
        if (last - first < QUEUE_POINTS_MAX)
            break;
        coarsen_grid(grid);
    }
    memmove(grid->area + (grid->first - first), grid->area, grid->len * sizeof(*grid->area));
    memset(grid->area, 0, (size_t)(grid->first - first) * sizeof(*grid->area));
    memset(grid->area + (grid->first - first) + grid->len, 0,
           ((size_t)(last - first + 1) - (size_t)(grid->first - first) - grid->len) * sizeof(*grid->area));
    grid->first = first;
    grid->len = (size_t)(last - first + 1);
}

static QueueGrid *grid_of(QueuePoints *points, int32_t device)
{
    QueueGrid *last = points->grids.len ? &points->grids.at[points->grids.len - 1] : NULL;

    if (last && last->device == device)
        return last;
    last = vec_add(&points->grids);
    last->device = device;
    return last;
}

/* Adds [from, to) to the parts it touches; `whole` counts by differences the waits that cover parts wholly. */
static void add_wait(QueueGrid *grid, double *whole, int64_t from, int64_t to)
{
    int64_t a = from >> grid->shift, b = to >> grid->shift;
    double width = (double)(UINT64_C(1) << grid->shift);

    if (a == b) {
        grid->area[a - grid->first] += (double)(to - from);
        return;
    }
    grid->area[a - grid->first] += width - (double)(from - (int64_t)((uint64_t)a << grid->shift));
    grid->area[b - grid->first] += (double)(to - (int64_t)((uint64_t)b << grid->shift));
    whole[a + 1 - grid->first] += 1;
    whole[b - grid->first] -= 1;
}

static void queue_points_add(QueuePoints *points, int32_t device, const int64_t *launched, const int64_t *started,
                             size_t len)
{
    double whole[QUEUE_POINTS_MAX + 1] = {0}, running = 0;
    int64_t first = INT64_MAX, last = INT64_MIN;
    QueueGrid *grid;

    for (size_t i = 0; i < len; i++) {
        first = launched[i] < first ? launched[i] : first;
        last = started[i] > last ? started[i] : last;
    }
    if (first == INT64_MAX)
        return;
    grid = grid_of(points, device);
    cover_range(grid, first, last);
    for (size_t i = 0; i < len; i++)
        add_wait(grid, whole, launched[i], started[i]);
    for (size_t i = 0; i < grid->len; i++) {
        running += whole[i];
        grid->area[i] += running * ldexp(1, (int)grid->shift);
    }
}

static void queue_points_write(const QueuePoints *points, TraceRank *rank)
{
    for (size_t g = 0; g < points->grids.len; g++) {
        const QueueGrid *grid = &points->grids.at[g];
        double width = ldexp(1, (int)grid->shift);

        for (size_t i = 0; i < grid->len; i++)
            vec_push(&rank->queue_points,
                     ((TraceQueuePoint){.start = (int64_t)((uint64_t)(grid->first + (int64_t)i) << grid->shift),
                                        .length = grid->area[i] / width,
                                        .width_ns = (int64_t)((uint64_t)1 << grid->shift),
                                        .device = grid->device}));
    }
}

/* ---- one stream ---- */

/* How many operations wait on each stream: their call has begun and they have not started. An operation that starts
 * before its call waits 0. Operations without a known launch are not counted. */

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

static void collect_launches(const TraceIndex *index, StreamRows *stream)
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

/* ---- the length over time ---- */

typedef struct QueueWalk {
    const StreamRows *stream;
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

static void walk_queue(const StreamRows *stream, TraceQueue *queue)
{
    QueueWalk walk = {.stream = stream, .queue = queue, .busy_to = INT64_MIN};
    int64_t since = INT64_MIN, length = 0;

    while (walk.started < stream->linked) {
        int64_t before, after;
        bool launches;
        int64_t time = next_instant(&walk, &before, &after, &launches);

        if (length) {
            queue->max_length = length > queue->max_length ? length : queue->max_length;
            if (length >= QUEUE_FULL)
                queue->full_ns += time - since;
        }
        if (launches) {
            start_before(&walk, time);
            queue->empty_launches += before == 0 && walk.busy_to <= time;
        }
        since = time;
        length = after;
    }
}

/* ---- sums ---- */

static void note_busy(const StreamRows *stream, TraceQueue *queue)
{
    int64_t busy_to = INT64_MIN;

    for (size_t i = 0; i < stream->len; i++) {
        int64_t start = stream->gpu->start[stream->rows[i]], end = profile_end(stream->gpu, stream->rows[i]);

        queue->operation_count++;
        start = start > busy_to ? start : busy_to;
        if (end > start) {
            queue->busy_ns += end - start;
            busy_to = end;
        }
    }
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

/* ---- all streams ---- */

typedef struct Queues {
    int64_t *launched, *started; /* of the current stream */
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
        collect_launches(job->index, &stream);
        note_busy(&stream, &queue);
        walk_queue(&stream, &queue);
        queue.mean_length = mean_length(&stream);
        vec_push(&rank->queues, queue);
        queue_points_add(&points, queue.device, stream.launched, stream.started, stream.linked);
    }
    queue_points_write(&points, rank);
}
