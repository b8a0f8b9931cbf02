/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Gaps and the idle edges of windows, for gaps*.c and steps*.c alone. */

#include "engine/trace/analyse.h"

/* Longest first, at most config->gaps_kept. */
void trace_gaps_order(TraceRank *rank, const TraceConfig *config);

/* The edge of a device, NULL where the part knows nothing of it. */
TraceEdge *trace_edge_of(const TraceRank *rank, int32_t device);

/* Idle time before the end of a part and after the start of the next as one, with its cause. `known`: the causes of
 * both are of all of it. */
TraceGap trace_gap_join(const TraceGap *a, const TraceGap *b, bool known);

/* The idle time of a device at the end of `into` and at the start of `next`, and as one. False where there is none. */
bool trace_edge_meet(const TraceRank *into, const TraceRank *next, int32_t device, TraceGap *ret_before,
                     TraceGap *ret_after, TraceGap *ret_joined);

/* Makes into->edges, from and to those of both parts together. The last thing of a merge. */
void trace_edges_merge(TraceRank *into, const TraceRank *next, Arena *arena);

static inline void trace_cause_add(TraceCauseSum sums[TRACE_CAUSE_COUNT], TraceCause cause, int64_t time)
{
    sums[cause].count++;
    sums[cause].total_ns += time;
    sums[cause].max_ns = time > sums[cause].max_ns ? time : sums[cause].max_ns;
}

static inline bool trace_is_limited(TraceScope scope)
{
    return scope.from != INT64_MIN || scope.to != INT64_MAX;
}
