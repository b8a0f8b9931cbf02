/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* How much of the time up to an instant intervals cover, while they come by ascending start. Pure. */

#include <stdint.h>

#include "engine/trace/analyse.h"

typedef struct TraceCover {
    int64_t closed;     /* length of all merged intervals before the open one */
    int64_t start, end; /* the open one: empty at first */
} TraceCover;

/* `start` is at or behind that of all before. */
static inline void trace_cover_add(TraceCover *cover, int64_t start, int64_t end)
{
    if (end <= start)
        return;
    if (start > cover->end || cover->end == cover->start) {
        cover->closed = trace_sum(cover->closed, cover->end - cover->start);
        cover->start = start;
        cover->end = end;
    } else if (end > cover->end) {
        cover->end = end;
    }
}

/* Covered time before `time`, which is at or behind the open interval's start (or nothing has come yet). */
static inline int64_t trace_cover_until(const TraceCover *cover, int64_t time)
{
    int64_t end = time < cover->end ? time : cover->end;

    return trace_sum(cover->closed, end > cover->start ? end - cover->start : 0);
}
