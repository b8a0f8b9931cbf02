/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A report filled by hand, as rich as a real one: ranks of a training job in which rank 1's loader is slow. Numbers add
 * up (busy + idle = span, causes sum to idle). Texts lie in the report's arena. */

#include "engine/trace/report.h"

typedef struct SampleSize {
    size_t ranks, steps;
    size_t slices;  /* per lane of the timeline */
    size_t kernels; /* at least 8 */
    size_t threads; /* lanes of the host per rank, at least 2 */
} SampleSize;

extern const SampleSize sample_small; /* 2 ranks, 8 steps */

/* `report` is uninitialised; end with trace_report_done. */
void sample_report(TraceReport *report, const SampleSize *size);

/* A report of one rank with nothing in it, and the same with names that attack each output. */
void sample_empty(TraceReport *report);
void sample_hostile(TraceReport *report);
/* The attacking name: quotes, markup, control characters, an escape sequence, bytes that are not UTF-8. */
extern const char sample_hostile_name[];

/* Ends with trace_diff_done or, where that is not linked, vec_done of its lists. */
void sample_diff(TraceDiff *diff);
