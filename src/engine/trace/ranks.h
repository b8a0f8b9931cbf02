/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What trace_across is made of: the communication operations of all ranks are matched, clocks aligned by what must end
 * together, and from both follow sums and the straggler. Times are those of the ranks' files plus their base.
 * One thread at a time; indices of ranks are those of report->ranks.
 */

#include "base/attribute.h"
#include "engine/trace/analyse.h"
#include "engine/trace/select.h"

/* One rank's part of an operation. `start` is on the common clock where all parts' clocks are aligned; else it is
 * -duration: how long before the end, which is the same for all parts of operations that end together. */
typedef struct RankPart {
    uint32_t rank, row; /* row of its collectives */
    int64_t start, duration;
} RankPart;

/* An operation that several ranks took part in: parts [first, first + count), by rank. */
typedef struct RankSet {
    size_t first;
    uint32_t count;
    CollectiveKind kind;
    bool complete;        /* all given ranks of its group are there */
    bool clock;           /* starts are on the common clock */
    bool tie;             /* several parts are the shortest */
    uint32_t last_rank;   /* of the shortest part: if all end together, it came last */
    uint32_t latest_rank; /* of the latest start */
    int64_t shortest, first_start, last_start;
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

typedef struct RankState {
    RankClock clock;
    TraceFacts means;
    size_t recorded; /* rows that have a group partner to be looked for */
    size_t found;    /* rows that are in a set */
} RankState;

typedef struct RankMatch {
    TraceReport *report;
    VEC(RankPart) parts;
    VEC(RankSet) sets; /* by the first part's rank and start */
    RankState *ranks;
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

static inline TraceCollective *rank_row(const RankMatch *match, const RankPart *part)
{
    return &match->report->ranks.at[part->rank].collectives.at[part->row];
}

/* Number of the step that an operation was issued in, as far as known when that was; -1 none. */
int64_t rank_step(const TraceRank *rank, const TraceCollective *row);

/* A moment of the rank on the common clock. */
int64_t rank_common(const RankClock *clock, int64_t time);

void rank_note(TraceReport *report, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* ranks_match.c: sets from the rows by means of the clocks' bases; then offsets and drift from sets of operations that
 * end together, and the starts of all parts. */
void rank_match(RankMatch *match);

/* ranks_times.c: means, report->rank_times, report->step_ns. */
void rank_times(const RankMatch *match);

/* ranks_replay.c: the job as ranks' own work between matched operations. `bins` has a number below bin_count for each
 * set, or -1 for those that are left out; it and `match` must outlive the replay. */
typedef struct RankReplay RankReplay;
RankReplay *rank_replay_new(const RankMatch *match, const int64_t *bins, size_t bin_count);
void rank_replay_free(RankReplay *replay);

/* Time of a rank that is no waiting for others, of the sets of a bin. */
typedef struct RankOwn {
    double work_ns;     /* between operations, and beside them while something computes */
    double transfer_ns; /* in operations, as long as their shortest part, while nothing computes */
    double waiting_ns;  /* the rest of the time in operations while nothing computes: no own time */
    size_t parts;
} RankOwn;

/* Adds to own[rank * bin_count + bin]. */
void rank_replay_sum(const RankReplay *replay, RankOwn *own);

/* How long it all takes, ns, if the work of the ranks that are `late` (NULL: none) were as that of the others, and
 * transfers between them alone as those of the others. NAN where ranks would wait for each other for ever. */
double rank_replay_run(const RankReplay *replay, const bool *late, const RankOwn *own);

/* ranks_late.c: report->straggler, from sets and clocks; and what the rank_times lack. */
void rank_straggler(const RankMatch *match);
