/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Grids of queue lengths. A grid covers from the first launch to the last start and is made coarser by twos until it
 * has room. A wait over many parts adds its length to the parts between by differences, so that each wait costs
 * the same.
 */

#include "engine/trace/queue_points.h"

#include <math.h>
#include <string.h>

void queue_points_done(QueuePoints *points)
{
    vec_done(&points->grids);
}

/* Makes parts twice as wide. */
static void coarsen(QueueGrid *grid)
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
static void cover(QueueGrid *grid, int64_t from, int64_t to)
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
        coarsen(grid);
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

void queue_points_add(QueuePoints *points, int32_t device, TraceScope scope, const int64_t *launched,
                      const int64_t *started, size_t len)
{
    double whole[QUEUE_POINTS_MAX + 1] = {0}, running = 0;
    int64_t first = INT64_MAX, last = INT64_MIN;
    QueueGrid *grid;

    for (size_t i = 0; i < len; i++) {
        int64_t from = launched[i] > scope.from ? launched[i] : scope.from;
        int64_t to = started[i] < scope.to ? started[i] : scope.to;

        if (launched[i] >= scope.to || started[i] < scope.from)
            continue;
        first = from < first ? from : first;
        last = to > last ? to : last;
    }
    if (first == INT64_MAX)
        return;
    grid = grid_of(points, device);
    cover(grid, first, last);
    for (size_t i = 0; i < len; i++) {
        int64_t from = launched[i] > scope.from ? launched[i] : scope.from;
        int64_t to = started[i] < scope.to ? started[i] : scope.to;

        if (launched[i] < scope.to && started[i] >= scope.from)
            add_wait(grid, whole, from, to);
    }
    for (size_t i = 0; i < grid->len; i++) {
        running += whole[i];
        grid->area[i] += running * ldexp(1, (int)grid->shift);
    }
}

void queue_points_take(const QueuePoints *points, TraceRank *rank)
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

/* ---- joining windows ---- */

/* The points of one device from at[*i] on as a grid. */
static QueueGrid grid_from(const TraceQueuePoint *at, size_t len, size_t *i)
{
    QueueGrid grid = {.device = at[*i].device, .used = true};

    grid.shift = (unsigned int)__builtin_ctzll((uint64_t)at[*i].width_ns);
    grid.first = at[*i].start >> grid.shift;
    for (; *i < len && at[*i].device == grid.device; ++*i)
        grid.area[grid.len++] = at[*i].length * (double)at[*i].width_ns;
    return grid;
}

static void join_grids(QueueGrid *a, QueueGrid *b)
{
    while (a->shift < b->shift)
        coarsen(a);
    while (b->shift < a->shift)
        coarsen(b);
    cover(a, (int64_t)((uint64_t)b->first << b->shift),
          (int64_t)((uint64_t)(b->first + (int64_t)b->len - 1) << b->shift));
    while (b->shift < a->shift)
        coarsen(b);
    for (size_t i = 0; i < b->len; i++)
        a->area[b->first + (int64_t)i - a->first] += b->area[i];
}

void queue_points_merge(TraceRank *into, const TraceRank *next)
{
    QueuePoints all = {0};

    for (size_t i = 0, k = 0; i < into->queue_points.len || k < next->queue_points.len;) {
        bool in_a = i < into->queue_points.len &&
                    (k == next->queue_points.len || into->queue_points.at[i].device <= next->queue_points.at[k].device);
        bool in_b = k < next->queue_points.len &&
                    (i == into->queue_points.len || next->queue_points.at[k].device <= into->queue_points.at[i].device);
        QueueGrid a, b;

        if (in_a && in_b && into->queue_points.at[i].device != next->queue_points.at[k].device)
            in_b = false;
        if (in_a)
            a = grid_from(into->queue_points.at, into->queue_points.len, &i);
        if (in_b)
            b = grid_from(next->queue_points.at, next->queue_points.len, &k);
        if (in_a && in_b)
            join_grids(&a, &b);
        vec_push(&all.grids, in_a ? a : b);
    }
    vec_clear(&into->queue_points);
    queue_points_take(&all, into);
    queue_points_done(&all);
}
