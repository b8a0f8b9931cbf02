/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What gaps and steps share. */

#include "engine/trace/analyse.h"

/* Devices beyond these are not looked into: their gaps are of unknown cause. It bounds the walks over a lane. */
enum { TRACE_GAP_DEVICES = 64 };

enum {
    /* A synchronisation that ended up to this long before the operation did, as the clocks say, waited for it: clocks
     * of host and device differ by up to 9 us in recorded traces. */
    TRACE_SYNC_SLACK_NS = 10000,
    /* A launch that came late is to blame for the latency that every launch has, up to this. */
    TRACE_LAUNCH_LATENCY_NS = 10000
};

/* Sums of idle times by cause. */

static inline void trace_cause_add(TraceCauseSum sums[TRACE_CAUSE_COUNT], TraceCause cause, int64_t time)
{
    sums[cause].count++;
    sums[cause].total_ns += time;
    sums[cause].max_ns = time > sums[cause].max_ns ? time : sums[cause].max_ns;
}

/* The rows of the steps, which trace_gaps and trace_steps fill together: once they are made, either may be first, and
 * both may run at a time. For gaps*.c, steps*.c and analyse.c alone. */

/* Makes rank->steps unless made already, with a row for each device of the index (the first TRACE_GAP_DEVICES of
 * them), in its order. */
void trace_steps_prepare(const TraceJob *job, TraceRank *rank);

/* Adds idle time [start, end) of the device's n-th row to the steps it lies in. *cursor is 0 at first and goes on with
 * rising times. */
void trace_steps_add_idle(TraceRank *rank, size_t nth, size_t *cursor, int64_t start, int64_t end, TraceCause cause);

/* The step whose window contains the time, -1 for none. */
int32_t trace_step_at(const TraceRank *rank, int64_t time);
