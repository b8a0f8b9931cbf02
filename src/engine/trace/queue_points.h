/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The queue's length over time, per device: its integral over the parts of a grid. Parts are as wide as a power of two
 * and begin at its multiples.
 */

#include "engine/trace/analyse.h"

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

void queue_points_done(QueuePoints *points);

/* Adds the waits [launched[i], started[i]) of a stream; devices come ascending. */
void queue_points_add(QueuePoints *points, int32_t device, const int64_t *launched, const int64_t *started, size_t len);

/* Fills rank->queue_points. */
void queue_points_take(const QueuePoints *points, TraceRank *rank);
