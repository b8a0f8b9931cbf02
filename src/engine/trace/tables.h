/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Helpers of the tables by name: rows by name, texts by name, and the time that intervals cover. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "engine/trace/analyse.h"
#include "model/profile.h"

/* Rows of a table by the id of a profile's name: each name gets its row at first use. */

typedef struct TraceNamed {
    uint32_t *row; /* by name; 0 none yet, else number + 1 */
    uint32_t len;  /* rows given */
} TraceNamed;

static inline void trace_named_init(TraceNamed *named, const Profile *profile)
{
    *named = (TraceNamed){.row = xcalloc(profile_name_count(profile) + 1, sizeof *named->row)};
}

static inline void trace_named_done(TraceNamed *named)
{
    free(named->row);
    named->row = NULL;
}

/* The row of a name; it is a new one where that equals `len` before the call. */
static inline uint32_t trace_named_row(TraceNamed *named, uint32_t name)
{
    if (named->row[name] == 0)
        named->row[name] = ++named->len;
    return named->row[name] - 1;
}

/* Adds an event to a row that has count, total_ns, min_ns (INT64_MAX at first) and max_ns. */
#define trace_add_event(row, duration)                                                                                 \
    ((row)->count++, (row)->total_ns = trace_sum((row)->total_ns, (duration)),                                         \
     (row)->min_ns = trace_smaller((row)->min_ns, (duration)),                                                         \
     (row)->max_ns = trace_larger((row)->max_ns, (duration)))

/* The number of a text among those of the map, in the order of their first use; a new one gets the map's len before. */
static inline size_t trace_number_of(Map *numbers, const char *key)
{
    uintptr_t number = (uintptr_t)map_get(numbers, key);

    if (number == 0) {
        number = numbers->len + 1;
        map_put(numbers, key, (void *)number); /* NOLINT(performance-no-int-to-ptr) */
    }
    return number - 1;
}

/* Copies of a profile's names in the job's arena, each made once. */

typedef struct TraceTexts {
    const TraceJob *job;
    const char **at; /* by name; NULL: not copied */
} TraceTexts;

static inline void trace_texts_init(TraceTexts *texts, const TraceJob *job)
{
    texts->job = job;
    texts->at = xcalloc(profile_name_count(job->index->profile) + 1, sizeof *texts->at);
}

static inline void trace_texts_done(TraceTexts *texts)
{
    free(texts->at);
}

/* "" for PROFILE_NONE. */
static inline const char *trace_text(TraceTexts *texts, uint32_t name)
{
    if (name == PROFILE_NONE)
        return "";
    if (!texts->at[name])
        texts->at[name] = trace_copy_text(texts->job, name);
    return texts->at[name];
}

/* The same for a recorded list ("Input Dims"), without the white space of its file. Of TraceTexts of its own. */
static inline const char *trace_list_text(TraceTexts *texts, uint32_t name)
{
    char *to;

    if (name == PROFILE_NONE)
        return "";
    if (texts->at[name])
        return texts->at[name];
    to = arena_strdup(texts->job->arena, profile_text(texts->job->index->profile, name, NULL));
    texts->at[name] = to;
    for (const char *from = to; *from; from++)
        if (!strchr(" \n\r\t", *from))
            *to++ = *from;
    *to = '\0';
    return texts->at[name];
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
