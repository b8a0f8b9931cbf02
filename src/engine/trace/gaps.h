/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Sums of idle times by cause. */

#include "engine/trace/analyse.h"

static inline void trace_cause_add(TraceCauseSum sums[TRACE_CAUSE_COUNT], TraceCause cause, int64_t time)
{
    sums[cause].count++;
    sums[cause].total_ns += time;
    sums[cause].max_ns = time > sums[cause].max_ns ? time : sums[cause].max_ns;
}
