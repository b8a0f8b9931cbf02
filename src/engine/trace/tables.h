/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Helpers of the tables by name: rows by name, and the time that intervals cover. */

#include <stdint.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "engine/trace/analyse.h"
#include "model/profile.h"

/* Rows of a table by the id of a profile's name: each name gets its row at first use. */

typedef struct TraceNamed {
    uint32_t *row; /* by name; the last one for PROFILE_NONE; 0 none yet, else number + 1 */
    size_t names;
    uint32_t len; /* rows given */
} TraceNamed;

static inline void trace_named_init(TraceNamed *named, const Profile *profile)
{
    named->names = profile_name_count(profile);
    named->row = xcalloc(named->names + 1, sizeof *named->row);
    named->len = 0;
}

static inline void trace_named_done(TraceNamed *named)
{
    free(named->row);
    named->row = NULL;
}

/* The row of a name; it is a new one where that equals `len` before the call. */
static inline uint32_t trace_named_row(TraceNamed *named, uint32_t name)
{
    uint32_t *row = &named->row[name < named->names ? name : named->names];

    if (*row == 0)
        *row = ++named->len;
    return *row - 1;
}

/* How much of the time up to an instant intervals cover, while they come by ascending start. Pure. */

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
