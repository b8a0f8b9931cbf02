/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What trace_across is made of: the communication operations of all ranks are matched, clocks aligned by what must end
 * together, and from both follow sums and the straggler. Times are those of the ranks' files plus their base.
 * One thread at a time; indices of ranks are those of report->ranks.
 */

#include "base/attribute.h"
#include "engine/trace/analyse.h"
#include "engine/trace/collective_kind.h"
#include "engine/trace/select.h"

/* One rank's part of an operation. */
typedef struct RankPart {
    uint32_t rank, row; /* row of its collectives */
} RankPart;

/* An operation that several ranks took part in: parts [first, first + count), by rank. */
typedef struct RankSet {
    size_t first;
    uint32_t count;
    CollectiveKind kind;
    bool complete; /* all given ranks of its group are there */
} RankSet;

/* How a rank's clock lies to the first rank's: common = time + base + offset + drift * (time + base - pivot). */
typedef struct RankClock {
    int64_t base;   /* of the file, if given, relative to the first rank */
    int64_t offset; /* the remaining offset, at the pivot */
    int64_t pivot;
    double drift;
    bool aligned;
    int64_t spread; /* median disagreement of ends with the rank that it was aligned with */
    size_t samples;
} RankClock;

typedef struct RankMatch {
    TraceReport *report;
    VEC(RankPart) parts;
    VEC(RankSet) sets; /* by the first part's rank and start */
    RankClock *clocks; /* per rank */
    size_t *recorded;  /* per rank: rows that have a group partner to be looked for */
    size_t *found;     /* per rank: rows that are in a set */
} RankMatch;

/* Times may come from a hostile file: what would overflow stays at the end. INT64_MIN never comes out. */
static inline int64_t rank_plus(int64_t a, int64_t b)
{
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum) || sum == INT64_MIN)
        return a < 0 ? -INT64_MAX : INT64_MAX;
    return sum;
}

static inline int64_t rank_minus(int64_t a, int64_t b)
{
    return rank_plus(a, -b);
}

static inline const TraceCollective *rank_row(const RankMatch *match, const RankPart *part)
{
    return &match->report->ranks.at[part->rank].collectives.at[part->row];
}

static inline int64_t rank_duration(const RankMatch *match, const RankPart *part)
{
    const TraceCollective *row = rank_row(match, part);
    return row->end - row->start;
}

/* ranks_match.c: sets from the rows. Uses clocks[].base; needs no aligned clocks. */
void rank_match(RankMatch *match);
/* ranks_match.c: pairs[i] := row of `a` that is the same operation as row i of `b`, -1 none. Rows are of one group in
 * order; ends are on one clock but for an unknown offset. Returns how many pairs there are. */
typedef struct RankTrack {
    const TraceReport *report;
    uint32_t rank;
    int64_t base;
    const uint32_t *rows;
    size_t len;
} RankTrack;

/* ranks_match.c: offsets and drift from sets of operations that end together. */
void rank_clocks(RankMatch *match);
int64_t rank_common(const RankClock *clock, int64_t time);

/* ranks_times.c: report->rank_times, report->step_ns; and a rank's means, per step, or over everything where it has no
 * step, per device. */
typedef struct RankMeans {
    double step_ns, compute_ns, communication_ns, exposed_communication_ns, exposed_copy_ns, idle_ns;
    size_t steps; /* 0: none, the means are of everything */
} RankMeans;
void rank_times(const RankMatch *match);

/* Number of the step that holds a time of the rank's own clock, -1. */
int64_t rank_step(const TraceRank *rank, int64_t time);
/* When the host issued the operation, as far as known. */
int64_t rank_asked(const TraceCollective *row);

/* ranks_times.c: report->straggler; after rank_times. */
void rank_straggler(const RankMatch *match);

void rank_note(TraceReport *report, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Median of values (reordered), the upper one of two; 0 of none. */
int64_t rank_median(int64_t *values, size_t len);
