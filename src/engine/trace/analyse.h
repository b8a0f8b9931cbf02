/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The analyses of one rank, and how they come together. Each fills its part of a TraceRank from the index; none of them
 * depends on another's part. Texts are copied into `arena`. Pure and deterministic.
 */

#include <stddef.h>
#include <stdint.h>

#include "engine/trace/index.h"
#include "engine/trace/report.h"

typedef struct TraceConfig {
    uint64_t gap_threshold_ns; /* gaps under it are not looked into: 1000 */
    uint64_t short_kernel_ns;  /* 10000 */
    size_t gaps_kept;          /* 20000 */
    bool timeline;             /* make TraceRank.timeline: for the page alone */
    size_t timeline_slices;    /* kept per lane: 20000 */
} TraceConfig;

extern const TraceConfig trace_config_default;

/* What all the functions below take. */
typedef struct TraceJob {
    const TraceIndex *index;
    const TraceConfig *config;
    Arena *arena;         /* an array of them, one for each thread */
    unsigned int threads; /* for trace_analyse; 0 and 1: the caller's alone */
    size_t memory;        /* bytes that analyses may take together when several run at a time; one always may */
} TraceJob;

/* A sum of times that may come from a hostile file: it stops at the ends of int64 instead of overflowing. */
static inline int64_t trace_sum(int64_t a, int64_t b)
{
    int64_t sum;

    if (!__builtin_add_overflow(a, b, &sum))
        return sum;
    return a < 0 ? INT64_MIN : INT64_MAX;
}

static inline int64_t trace_larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline int64_t trace_smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* A name of the job's profile, copied into its arena; "" for PROFILE_NONE. */
const char *trace_copy_text(const TraceJob *job, uint32_t name);

/* devices.c, gaps.c */
void trace_devices(const TraceJob *job, TraceRank *rank);
void trace_gaps(const TraceJob *job, TraceRank *rank); /* gaps, idle_by_cause; after trace_devices */
void trace_steps(const TraceJob *job, TraceRank *rank);
/* launches.c, queues.c */
void trace_launches(const TraceJob *job, TraceRank *rank);
void trace_queues(const TraceJob *job, TraceRank *rank);
/* kernels.c, operators.c, launches.c, memory.c */
void trace_kernels(const TraceJob *job, TraceRank *rank);
void trace_copies(const TraceJob *job, TraceRank *rank);
void trace_operators(const TraceJob *job, TraceRank *rank);
void trace_calls(const TraceJob *job, TraceRank *rank);
void trace_annotations(const TraceJob *job, TraceRank *rank);
void trace_memory(const TraceJob *job, TraceRank *rank);
/* collectives.c, path.c, timeline.c */
void trace_collectives(const TraceJob *job, TraceRank *rank);
void trace_paths(const TraceJob *job, TraceRank *rank);
void trace_timeline(const TraceJob *job, TraceRank *rank);

/* All of the above, as far as the configuration wants them, and the profile's own words (rank, losses, ...). `file` and
 * the rank number for a file that names none are the caller's. The result does not depend on the number of threads. */
void trace_analyse(const TraceJob *job, const char *file, int64_t rank_if_unknown, TraceRank *ret);

/* ranks.c: after all ranks are in report->ranks: sorts them, aligns clocks, matches collectives, finds the straggler.
 * Fills gaps_by_cause, collectives, rank_times, straggler, step_ns and notes. */
void trace_across(TraceReport *report);

/* verdict.c: fills report->verdicts from the table in verdict.def. Last. */
void trace_verdicts(TraceReport *report);

/* diff.c: `after` against `before`; texts in the arena. */
void trace_diff(const TraceReport *before, const TraceReport *after, Arena *arena, TraceDiff *ret);
void trace_diff_done(TraceDiff *diff);

/* Tasks on several threads. Each runs once, after those that it depends on, on any free thread. Its result must not
 * depend on the thread nor on what runs beside it. The threads live for one call; the caller's thread is one of
 * them. */

enum { TRACE_TASKS_MAX = 32, TRACE_TASK_THREADS_MAX = TRACE_TASKS_MAX };

typedef struct TraceTask {
    /* `place` in the table; `thread` from 0 (the caller's), below the number asked for */
    void (*run)(void *context, size_t place, unsigned int thread);
    uint32_t after; /* bits 1 << place of those that have to be done before; they have lower places */
    size_t bytes;   /* memory that it takes while it runs */
} TraceTask;

/* Runs all `count` (TRACE_TASKS_MAX at most) tasks, beginning with the first ones: put the longest first. With one
 * thread (or 0) they run in the order of the table. A task is delayed while the running tasks' memory and its own
 * exceed `memory` bytes together, except when none runs. Starts fewer threads if no more can be created. */
void trace_tasks_run(const TraceTask *tasks, size_t count, void *context, unsigned int threads, size_t memory);
