/* SPDX-License-Identifier: Apache-2.0 */
/* Divides idle time among the rules: what lies between decode steps or before operations of the optimizer belongs to
 * these, and a gap in which the host did several things to each of them. */
#include "engine/trace/verdict.h"

#include <math.h>

bool verdict_measures_step(const TraceFacts *facts, int32_t step)
{
    return facts->steps == 0 || (step >= 0 && (size_t)step >= facts->first_step);
}

double verdict_count_windows(const TraceFacts *facts)
{
    return fmax((double)facts->steps, 1) * fmax((double)facts->rank->devices.len, 1);
}

/* What the host of an engine does between two steps, and what working ahead takes away. */
static bool is_hosts_cause(TraceCause cause)
{
    return cause == TRACE_CAUSE_HOST_BOUND || cause == TRACE_CAUSE_PYTHON || cause == TRACE_CAUSE_SYNCHRONISATION;
}

/* Idle time of some gaps in measured steps, per step and device. */
typedef struct IdlePart {
    double by_cause[TRACE_CAUSE_COUNT], sum;
} IdlePart;

static IdlePart sum_part(const TraceFacts *facts, bool (*belongs)(const TraceGap *gap))
{
    IdlePart part = {0};

    for (size_t i = 0; i < facts->rank->gaps.len; i++) {
        const TraceGap *gap = &facts->rank->gaps.at[i];
        const double ns = (double)(gap->end - gap->start) / verdict_count_windows(facts);

        if (!verdict_measures_step(facts, gap->step) || !belongs(gap))
            continue;
        part.by_cause[gap->cause] += ns;
        part.sum += ns;
    }
    return part;
}

static void subtract_part(TraceFacts *facts, const IdlePart *part)
{
    for (size_t i = 0; i < TRACE_CAUSE_COUNT; i++)
        facts->idle_by_cause[i] = fmax(facts->idle_by_cause[i] - part->by_cause[i], 0);
}

static bool is_between_decodes(const TraceGap *gap)
{
    return gap->between && is_hosts_cause(gap->cause);
}

static void part_decode_gaps(TraceFacts *facts)
{
    const TraceInference *decode = trace_find_decode(facts->rank);

    if (!decode || facts->steps == 0)
        return;
    const IdlePart part = sum_part(facts, is_between_decodes);

    if (part.sum <= 0 || 100 * part.sum * (double)facts->steps < verdict_limits.DECODE_GAP * (double)decode->total_ns)
        return;
    facts->decode_gap_ns = part.sum;
    subtract_part(facts, &part);
}

/* What fewer launches take away. */
static bool is_optimizers(const TraceGap *gap)
{
    return gap->optimizer &&
           (gap->cause == TRACE_CAUSE_HOST_BOUND || gap->cause == TRACE_CAUSE_SHORT ||
            (gap->cause == TRACE_CAUSE_QUEUED && (double)(gap->end - gap->start) <= verdict_limits.LAUNCH_GAP_NS));
}

static double count_optimizers_operations(const TraceRank *rank)
{
    return (double)rank->optimizer.operations / (fmax((double)rank->steps.len, 1) * fmax((double)rank->devices.len, 1));
}

double verdict_find_shortest_kernel(const TraceRank *rank)
{
    double shortest = HUGE_VAL;

    for (size_t i = 0; i < rank->kernels.len; i++)
        shortest = fmin(shortest, (double)rank->kernels.at[i].min_ns);
    return rank->kernels.len > 0 ? shortest : 0;
}

/* Tensor by tensor the optimizer launches so many operations that each costs the time of an empty kernel and the idle
 * time before it. */
static void part_optimizer(TraceFacts *facts)
{
    const TraceOptimizer *optimizer = &facts->rank->optimizer;

    if ((double)optimizer->operations <= verdict_limits.OPTIMIZER_OPERATIONS * (double)optimizer->steps)
        return;
    const IdlePart part = sum_part(facts, is_optimizers);
    const double ns = part.sum + count_optimizers_operations(facts->rank) * verdict_find_shortest_kernel(facts->rank);

    if (100 * ns < verdict_rules[VERDICT_OPTIMIZER].threshold_percent * facts->step_ns)
        return;
    facts->optimizer_ns = ns;
    facts->optimizer_idle_ns = part.sum;
    subtract_part(facts, &part);
}

/* The host did several things in a row in one gap: each that names what to change has the time of its own part. */
static bool is_divided(const TraceGap *gap)
{
    return trace_cause_is_telling(gap->cause) || gap->cause == TRACE_CAUSE_PYTHON;
}

static int64_t find_slice(const TraceGap *gap, TraceCause cause)
{
    const int64_t ns = gap->slice_ns[cause];

    return trace_cause_is_telling(cause) || (cause == TRACE_CAUSE_PYTHON && ns >= TRACE_LONG_PYTHON_NS) ? ns : 0;
}

/* The gap's time that belongs to the cause. */
static int64_t find_part(const TraceGap *gap, TraceCause cause)
{
    int64_t rest = gap->end - gap->start;

    if (!is_divided(gap))
        return gap->cause == cause ? rest : 0;
    if (gap->cause != cause)
        return find_slice(gap, cause);
    for (TraceCause other = 0; other < TRACE_CAUSE_COUNT; other++)
        rest -= other == cause ? 0 : find_slice(gap, other);
    return rest;
}

int64_t verdict_gap_ns(const TraceFacts *facts, const TraceGap *gap, TraceCause cause)
{
    if (!verdict_measures_step(facts, gap->step) || (facts->decode_gap_ns > 0 && is_between_decodes(gap)) ||
        (facts->optimizer_idle_ns > 0 && is_optimizers(gap)))
        return 0;
    return find_part(gap, cause);
}

static void divide_gaps(TraceFacts *facts)
{
    TraceIdleCursor cursor = {0};

    for (const TraceGap *gap; (gap = trace_next_idle(facts->rank, &cursor));) {
        if (!is_divided(gap) || !verdict_measures_step(facts, gap->step))
            continue;
        for (TraceCause cause = 0; cause < TRACE_CAUSE_COUNT; cause++) {
            const double ns = cause == gap->cause ? 0 : (double)find_slice(gap, cause) / verdict_count_windows(facts);

            facts->idle_by_cause[cause] += ns;
            facts->idle_by_cause[gap->cause] = fmax(facts->idle_by_cause[gap->cause] - ns, 0);
        }
    }
}

void verdict_part_idle(TraceFacts *facts)
{
    part_decode_gaps(facts);
    part_optimizer(facts);
    divide_gaps(facts);
}
