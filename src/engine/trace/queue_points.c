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

void queue_points_add(QueuePoints *points, int32_t device, const int64_t *launched, const int64_t *started, size_t len)
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
