/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The same numbers worked out the slow way: instant by instant (every `unit` ns), looking at all events each time.
 * Shares the profile, its links and the classes of names with what it checks, and nothing else. */

#include "build.h"

typedef struct NaiveGap {
    int64_t start, end;
    TraceCause cause;
    int64_t slice_ns[TRACE_CAUSE_COUNT];
    bool synced;
} NaiveGap;

typedef struct NaiveStep {
    int64_t window_ns, busy_ns, idle_ns, compute_ns, communication_ns, copy_ns, exposed_communication_ns,
        exposed_copy_ns, operation_count;
    int64_t idle_by_cause[TRACE_CAUSE_COUNT];
} NaiveStep;

/* Only the times and counts are filled. */
void naive_device(const Build *b, int64_t unit, size_t nth, TraceDevice *ret);

typedef VEC(NaiveGap) NaiveGaps;

/* All gaps of the device, by start. */
void naive_gaps(const Build *b, int64_t unit, size_t nth, NaiveGaps *ret);

/* The step's window on the device. */
void naive_step(const Build *b, int64_t unit, size_t step, size_t nth, NaiveStep *ret);

/* Queue of a stream: counts, max_length, mean_length, busy_ns, empty_launches. */
void naive_queue(const Build *b, int64_t unit, int32_t device, int64_t stream, TraceQueue *ret);
