/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The analyses of one rank, and how they come together. Each fills its part of a TraceRank from the index; none of them
 * depends on another's part. Texts are copied into `arena`. Pure and deterministic.
 *
 * A scope clips time: times of intervals count inside [from, to) alone, events count where they start in it. With the
 * whole scope nothing is clipped. A rank that is read in windows is analysed per window (adjoining scopes, in order)
 * and trace_rank_merge joins the parts: sums are then the same as in one piece.
 */

#include "engine/trace/index.h"
#include "engine/trace/report.h"

typedef struct TraceConfig {
    uint64_t gap_threshold_ns; /* gaps under it are not looked into: 1000 */
    uint64_t short_kernel_ns;  /* 10000 */
    size_t gaps_kept;          /* 20000 */
    bool timeline;             /* make TraceRank.timeline: for the page alone */
    size_t timeline_slices;    /* kept per lane: 20000 */
    bool paths;                /* work out critical paths */
} TraceConfig;

extern const TraceConfig trace_config_default;

typedef struct TraceScope {
    int64_t from, to; /* INT64_MIN, INT64_MAX: the whole */
} TraceScope;

#define TRACE_WHOLE ((TraceScope){.from = INT64_MIN, .to = INT64_MAX})

/* What all the functions below take. */
typedef struct TraceJob {
    const TraceIndex *index;
    const TraceConfig *config;
    TraceScope scope;
    Arena *arena;         /* an array of them, one for each thread */
    unsigned int threads; /* for trace_analyse; 0 and 1: the caller's alone */
    size_t memory;        /* bytes that analyses may take together when several run at a time; one always may */
} TraceJob;

/* devices.c, gaps.c, steps.c */
void trace_devices(const TraceJob *job, TraceRank *rank);
void trace_gaps(const TraceJob *job, TraceRank *rank); /* gaps, idle_by_cause; after trace_devices */
void trace_steps(const TraceJob *job, TraceRank *rank);
/* launches.c, queues.c */
void trace_launches(const TraceJob *job, TraceRank *rank);
void trace_queues(const TraceJob *job, TraceRank *rank);
/* kernels.c, copies.c, operators.c, calls.c, annotations.c, memory.c */
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

/* Joins the next window's part to what there is; `next` is done with afterwards. */
void trace_rank_merge(TraceRank *into, TraceRank *next, const TraceConfig *config, Arena *arena);

/* What trace_rank_merge calls, one beside each analysis in its file: joins that part of `next` (the window after all of
 * `into`) to `into`. New texts and arrays lie in `arena`; texts of `next` stay valid. What a vector of `next` held may
 * be moved out of it (and the vector left empty); what is left there is freed by trace_rank_merge. trace_gaps_merge
 * comes after trace_devices_merge. Paths: trace_paths_merge drops those of a step that both parts have a piece of. */
void trace_devices_merge(TraceRank *into, TraceRank *next, const TraceConfig *config, Arena *arena);
void trace_gaps_merge(TraceRank *into, TraceRank *next, const TraceConfig *config, Arena *arena);
void trace_steps_merge(TraceRank *into, TraceRank *next, const TraceConfig *config, Arena *arena);
void trace_launches_merge(TraceRank *into, TraceRank *next, const TraceConfig *config, Arena *arena);
void trace_queues_merge(TraceRank *into, TraceRank *next, const TraceConfig *config, Arena *arena);
void trace_kernels_merge(TraceRank *into, TraceRank *next, const TraceConfig *config, Arena *arena);
void trace_copies_merge(TraceRank *into, TraceRank *next, const TraceConfig *config, Arena *arena);
void trace_operators_merge(TraceRank *into, TraceRank *next, const TraceConfig *config, Arena *arena);
void trace_calls_merge(TraceRank *into, TraceRank *next, const TraceConfig *config, Arena *arena);
void trace_annotations_merge(TraceRank *into, TraceRank *next, const TraceConfig *config, Arena *arena);
void trace_memory_merge(TraceRank *into, TraceRank *next, const TraceConfig *config, Arena *arena);
void trace_collectives_merge(TraceRank *into, TraceRank *next);
void trace_paths_merge(TraceRank *into, TraceRank *next);
void trace_timeline_merge(TraceRank *into, TraceRank *next, const TraceConfig *config, Arena *arena);

/* ranks.c: after all ranks are in report->ranks: sorts them, aligns clocks, matches collectives, finds the straggler.
 * Fills gaps_by_cause, collectives, rank_times, straggler, step_ns and notes. */
void trace_across(TraceReport *report);

/* verdict.c: fills report->verdicts from the table in verdict.def. Last. */
void trace_verdicts(TraceReport *report);

/* diff.c: `after` against `before`; texts in the arena. */
void trace_diff(const TraceReport *before, const TraceReport *after, Arena *arena, TraceDiff *ret);
void trace_diff_done(TraceDiff *diff);
