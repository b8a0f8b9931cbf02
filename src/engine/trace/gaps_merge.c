/* SPDX-License-Identifier: Apache-2.0 */

/* Joining the gaps of adjoining windows: idle time at the end of one and at the start of the next is one gap. */

#include <string.h>

#include "base/attribute.h"
#include "engine/trace/gaps.h"
#include "engine/trace/gaps_host.h"

TraceEdge *trace_edge_of(const TraceRank *rank, int32_t device)
{
    size_t from = 0, to = rank->edge_count;

    while (from < to) {
        size_t middle = from + (to - from) / 2;

        if (rank->edges[middle].device < device)
            from = middle + 1;
        else
            to = middle;
    }
    return from < rank->edge_count && rank->edges[from].device == device ? &rank->edges[from] : NULL;
}

TraceGap trace_gap_join(const TraceGap *a, const TraceGap *b, bool known)
{
    TraceGap gap = *a;

    if (a->end <= a->start)
        return *b;
    if (b->end <= b->start)
        return *a;
    gap.end = b->end;
    gap.slice_ns[TRACE_CAUSE_UNKNOWN] += b->start - a->end; /* steps end or begin there: no part has looked */
    for (size_t i = 0; i < TRACE_CAUSE_COUNT; i++)
        gap.slice_ns[i] += b->slice_ns[i];
    if (!known)
        gap.cause = trace_gap_decide(gap.slice_ns, gap.synced);
    if (!known && b->host_ns > a->host_ns) {
        gap.host = b->host;
        gap.host_ns = b->host_ns;
    }
    gap.before = a->before[0] ? a->before : b->before;
    gap.after = b->after[0] ? b->after : a->after;
    gap.thread = b->thread[0] ? b->thread : a->thread; /* of the launch that ended it */
    return gap;
}

/* All of a window as idle of unknown cause. */
static TraceGap silence(int32_t device, int64_t start, int64_t end)
{
    TraceGap gap = {.device = device,
                    .start = start,
                    .end = end,
                    .cause = TRACE_CAUSE_UNKNOWN,
                    .before = "",
                    .after = "",
                    .host = "",
                    .thread = "",
                    .step = -1};

    if (start == INT64_MIN || end == INT64_MAX)
        gap.start = gap.end = start == INT64_MIN ? end : start;
    gap.slice_ns[TRACE_CAUSE_UNKNOWN] = gap.end - gap.start;
    return gap;
}

static TraceEdge edge_or_silence(const TraceRank *rank, int32_t device)
{
    const TraceEdge *edge = trace_edge_of(rank, device);
    TraceEdge none = {.device = device, .empty = true};

    if (edge)
        return *edge;
    none.head = silence(device, rank->from, rank->to);
    none.tail = silence(device, rank->to, rank->to);
    return none;
}

static bool side_known(const TraceEdge *before, const TraceEdge *after)
{
    return (before->empty ? before->head_known : before->tail_known) && after->head_known;
}

bool trace_edge_meet(const TraceRank *into, const TraceRank *next, int32_t device, TraceGap *ret_before,
                     TraceGap *ret_after, TraceGap *ret_joined)
{
    TraceEdge before = edge_or_silence(into, device), after = edge_or_silence(next, device);

    *ret_before = before.empty ? before.head : before.tail;
    *ret_after = after.head;
    *ret_joined = trace_gap_join(ret_before, ret_after, side_known(&before, &after));
    return ret_joined->end > ret_joined->start;
}

static TraceEdge join_edges(const TraceEdge *a, const TraceEdge *b)
{
    bool known = side_known(a, b);
    TraceGap between = trace_gap_join(a->empty ? &a->head : &a->tail, &b->head, known);
    TraceEdge edge = *a;

    edge.empty = a->empty && b->empty;
    if (a->empty) {
        edge.head = between;
        edge.head_known = known;
        edge.tail = b->tail;
        edge.tail_known = b->tail_known;
    } else if (b->empty) {
        edge.tail = between;
        edge.tail_known = known;
    } else {
        edge.tail = b->tail;
        edge.tail_known = b->tail_known;
    }
    return edge;
}

void trace_edges_merge(TraceRank *into, const TraceRank *next, Arena *arena)
{
    TraceEdge *all = arena_calloc(arena, into->edge_count + next->edge_count + 1, sizeof(*all));
    size_t count = 0;

    for (size_t i = 0, k = 0; i < into->edge_count || k < next->edge_count;) {
        bool in_a = i < into->edge_count && (k == next->edge_count || into->edges[i].device <= next->edges[k].device);
        bool in_b = k < next->edge_count && (i == into->edge_count || next->edges[k].device <= into->edges[i].device);
        int32_t device = in_a ? into->edges[i].device : next->edges[k].device;
        TraceEdge a = edge_or_silence(into, device), b = edge_or_silence(next, device);

        all[count++] = join_edges(&a, &b);
        i += in_a;
        k += in_b;
    }
    into->edges = all;
    into->edge_count = count;
    into->to = next->to;
}

/* Makes a gap that lies on one side of the cut alone reach it: edges end where the steps do. */
static void reach(TraceGap *gap, int64_t cut)
{
    int64_t before = gap->start > cut ? gap->start - cut : 0, behind = cut > gap->end ? cut - gap->end : 0;

    gap->slice_ns[TRACE_CAUSE_UNKNOWN] += before + behind;
    gap->start -= before;
    gap->end += behind;
}

void trace_gaps_merge(TraceRank *into, TraceRank *next, const TraceConfig *config, UNUSED Arena *arena)
{
    TraceGap before, after, gap;

    for (size_t i = 0; i < into->edge_count; i++) {
        const TraceEdge *a = &into->edges[i], *b = trace_edge_of(next, a->device);

        if (a->empty || !b || b->empty || !trace_edge_meet(into, next, a->device, &before, &after, &gap))
            continue;
        reach(&gap, into->to);
        trace_cause_add(into->idle_by_cause, gap.cause, gap.end - gap.start);
        vec_push(&into->gaps, gap);
    }
    for (size_t cause = 0; cause < TRACE_CAUSE_COUNT; cause++) {
        TraceCauseSum *sum = &into->idle_by_cause[cause];
        const TraceCauseSum *more = &next->idle_by_cause[cause];

        sum->count += more->count;
        sum->total_ns += more->total_ns;
        sum->max_ns = more->max_ns > sum->max_ns ? more->max_ns : sum->max_ns;
    }
    for (size_t i = 0; i < next->gaps.len; i++)
        vec_push(&into->gaps, next->gaps.at[i]);
    trace_gaps_order(into, config);
}
