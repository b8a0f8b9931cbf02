/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The rows of the steps, which trace_gaps and trace_steps fill together: once they are made, either may be first, and
 * both may run at a time. For gaps*.c, steps*.c and analyse.c alone. */

#include "engine/trace/analyse.h"

/* Makes rank->steps where there are none yet: with a row for each device of the index
 * (the first TRACE_GAP_DEVICES of them), in its order. */
void trace_steps_prepare(const TraceJob *job, TraceRank *rank);

/* Adds idle time [start, end) of the device's n-th row to the steps it lies in. *cursor is 0 at first and goes on with
 * rising times. */
void trace_steps_add_idle(TraceRank *rank, size_t nth, size_t *cursor, int64_t start, int64_t end, TraceCause cause);

/* The step whose window has the time, -1 where none has. */
int32_t trace_step_at(const TraceRank *rank, int64_t time);
