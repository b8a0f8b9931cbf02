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

/* The order of two int64, or of two structs that begin with one, for qsort. */
static inline int trace_by_number(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* The order of two things, for qsort: by the first of their keys that differ. */
static inline int trace_compare(const int64_t (*keys)[2], size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (keys[i][0] != keys[i][1])
            return keys[i][0] < keys[i][1] ? -1 : 1;
    return 0;
}

/* Of ascending times, the first at `first` and each `stride` bytes behind the one before it: the number of the first in
 * [from, to) that is behind `time`; `to` for none. */
static inline size_t trace_find_after(const int64_t *first, size_t stride, size_t from, size_t to, int64_t time)
{
    while (from < to) {
        const size_t middle = from + (to - from) / 2;

        if (*(const int64_t *)(const void *)((const char *)first + middle * stride) <= time)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

/* A name of the job's profile, copied into its arena; "" for PROFILE_NONE. */
const char *trace_copy_text(const TraceJob *job, uint32_t name);

/* devices.c, gaps.c */
void trace_devices(const TraceJob *job, TraceRank *rank);
void trace_gaps(const TraceJob *job, TraceRank *rank); /* gaps, idle_by_cause */
void trace_steps(const TraceJob *job, TraceRank *rank);
/* launches.c, queues.c */
void trace_launches(const TraceJob *job, TraceRank *rank);
void trace_queues(const TraceJob *job, TraceRank *rank);
/* kernels.c, operators.c, shapes.c, modules.c, launches.c, memory.c */
void trace_kernels(const TraceJob *job, TraceRank *rank);
void trace_copies(const TraceJob *job, TraceRank *rank);
void trace_operators(const TraceJob *job, TraceRank *rank);
void trace_modules(const TraceJob *job, TraceRank *rank); /* modules, origins */
void trace_shapes(const TraceJob *job, TraceRank *rank);  /* shapes, roof, arithmetic of steps */
void trace_calls(const TraceJob *job, TraceRank *rank);
void trace_annotations(const TraceJob *job, TraceRank *rank);
void trace_memory(const TraceJob *job, TraceRank *rank);
/* collectives.c, path.c, timeline.c */
void trace_collectives(const TraceJob *job, TraceRank *rank);
void trace_paths(const TraceJob *job, TraceRank *rank);
void trace_timeline(const TraceJob *job, TraceRank *rank);

/* ---- what gaps and steps share (devices.c): the rows of the steps, which trace_gaps and trace_steps fill together.
 * Once they are made, either may be first, and both may run at a time. ---- */

/* Devices beyond these are not looked into: their gaps are of unknown cause. It bounds the walks over a lane. */
enum { TRACE_GAP_DEVICES = 64 };

enum {
    /* A synchronisation that ended up to this long before the operation did, as the clocks say, waited for it: clocks
     * of host and device differ by up to 9 us in recorded traces. */
    TRACE_SYNC_SLACK_NS = 10000,
    /* A launch takes about this long: one that came late is to blame for so much at most, and a longer delay has
     * another reason. */
    TRACE_LAUNCH_LATENCY_NS = 10000,
    /* Python functions that run so long before the next launch are to blame, whatever the host waited for before: what
     * prepares launches takes microseconds. */
    TRACE_LONG_PYTHON_NS = 1000000
};

/* gaps.c: causes that name what to change; they outrank a synchronisation that led into them. */
bool trace_cause_is_telling(TraceCause cause);

/* Sums of idle times by cause. */

static inline void trace_cause_add(TraceCauseSum sums[TRACE_CAUSE_COUNT], TraceCause cause, int64_t time)
{
    sums[cause].count++;
    sums[cause].total_ns += time;
    sums[cause].max_ns = time > sums[cause].max_ns ? time : sums[cause].max_ns;
}

/* Makes rank->steps unless made already, with a row for each device of the index (the first TRACE_GAP_DEVICES of
 * them), in its order. */
void trace_steps_prepare(const TraceJob *job, TraceRank *rank);

/* Adds idle time [start, end) of the device's n-th row to the steps it lies in. *cursor is 0 at first and goes on with
 * rising times. */
void trace_steps_add_idle(TraceRank *rank, size_t nth, size_t *cursor, int64_t start, int64_t end, TraceCause cause);

/* The step whose window contains the time, -1 for none. */
int32_t trace_step_at(const TraceRank *rank, int64_t time);

/* All of the above, as far as the configuration wants them, and the profile's own words (rank, losses, ...). `file` and
 * the rank number for a file that names none are the caller's. The result does not depend on the number of threads. */
void trace_analyse(const TraceJob *job, const char *file, int64_t rank_if_unknown, TraceRank *ret);

/* modules.c: what launched most of each kernel's time, after trace_kernels and trace_modules. */
void trace_name_launchers(TraceRank *rank);

/* inference.c: inference, decode_gaps and the gaps' `between`, after trace_steps and trace_gaps. */
void trace_inference(const TraceJob *job, TraceRank *rank);

/* optimizer.c: optimizer and the gaps' `optimizer`, after trace_gaps. */
void trace_optimizer(const TraceJob *job, TraceRank *rank);

/* ranks.c: after all ranks are in report->ranks: sorts them, aligns clocks, matches collectives, finds the straggler.
 * Fills gaps_by_cause, collectives, rank_times, straggler, step_ns and notes. */
void trace_across(TraceReport *report);

/* A rank's time per step, ns, of its devices in the mean. Without steps: of the devices' spans. */
typedef struct TraceFacts {
    const TraceReport *report;
    const TraceRank *rank;
    size_t first_step, steps; /* looked at; 0 steps: the whole span */
    double step_ns, busy_ns, idle_ns, compute_ns, communication_ns, exposed_communication_ns, exposed_copy_ns;
    double waiting_ns; /* what waiting costs at most: communication beside which nothing computes, and idle time */
    double idle_by_cause[TRACE_CAUSE_COUNT];
    const TraceStraggler *straggler; /* verdicts: the late ranks that it is about */
    double decode_gap_ns; /* verdicts: idle time between decode steps, which is no part of idle_by_cause then */
    double optimizer_ns;  /* verdicts: of the optimizer's many launches; of it idle time, which is no part of
                             idle_by_cause then */
    double optimizer_idle_ns;
    double queued_gaps;                       /* gaps of TRACE_CAUSE_QUEUED per step and device */
    double operations;                        /* GPU operations per step and device */
    double whole_compute_ns, whole_kernel_ns; /* of all of the rank's devices and time: what tables are shares of */
    double whole_communication_ns;
} TraceFacts;

/* ranks_times.c: of the steps from `first_step` on. */
void trace_find_facts(const TraceReport *report, const TraceRank *rank, size_t first_step, TraceFacts *ret);

/* ranks_times.c: whether the rank's first step is so much longer than the others that it must be a warm-up. Reads only
 * what trace_steps_prepare wrote: analyses on other threads ask it too. */
bool trace_warm_up(const TraceRank *rank);

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
    /* `place` in the table; `thread` from 0, another one for each, below the number asked for */
    void (*run)(void *context, size_t place, unsigned int thread);
    uint32_t after; /* bits 1 << place of those that have to be done before; they have lower places */
    size_t bytes;   /* memory that it takes while it runs */
} TraceTask;

/* Runs all `count` (TRACE_TASKS_MAX at most) tasks, beginning with the first ones: put the longest first. With one
 * thread (or 0) they run in the order of the table. A task is delayed while the running tasks' memory and its own
 * exceed `memory` bytes together, except when none runs. Starts fewer threads if no more can be created. */
void trace_tasks_run(const TraceTask *tasks, size_t count, void *context, unsigned int threads, size_t memory);

/* ---- memory_blocks.c, for memory.c ---- */

/* Name of the innermost operator on a lane at a time, "". */
const char *trace_op_at(const TraceJob *job, uint32_t lane, int64_t time);
/* Fills by_category and holders of *row: what stands after events[peak]. `events` are a device's, by start. */
void trace_memory_blocks(const TraceJob *job, const uint32_t *events, size_t count, size_t peak,
                         TraceMemoryDevice *row);
