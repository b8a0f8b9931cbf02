/* SPDX-License-Identifier: Apache-2.0 */
/* Where each rank's time goes, per step in the mean, and how late it comes to what all do together. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "engine/trace/ranks.h"
#include "engine/trace/verdict.h"

/* ---- means ---- */

static void add_step(TraceFacts *facts, const TraceStepRow *step)
{
    for (size_t i = 0; i < step->devices.len; i++) {
        const TraceStepDevice *device = &step->devices.at[i];

        facts->busy_ns += (double)device->busy_ns;
        facts->idle_ns += (double)device->idle_ns;
        facts->compute_ns += (double)device->compute_ns;
        facts->communication_ns += (double)device->communication_ns;
        facts->exposed_communication_ns += (double)device->exposed_communication_ns;
        facts->exposed_copy_ns += (double)device->exposed_copy_ns;
        facts->operations += (double)device->operation_count;
        facts->queued_gaps += (double)device->idle_by_cause[TRACE_CAUSE_QUEUED].count;
        for (size_t j = 0; j < TRACE_CAUSE_COUNT; j++)
            facts->idle_by_cause[j] += (double)device->idle_by_cause[j].total_ns;
    }
}

/* All that the rank's devices did, and what was idle around it. */
static void add_devices(TraceFacts *facts, const TraceRank *rank)
{
    for (size_t i = 0; i < rank->devices.len; i++) {
        const TraceDevice *device = &rank->devices.at[i];

        facts->step_ns += (double)device->span_ns;
        facts->busy_ns += (double)device->busy_ns;
        facts->idle_ns += (double)device->idle_ns;
        facts->compute_ns += (double)device->compute_ns;
        facts->communication_ns += (double)device->communication_ns;
        facts->exposed_communication_ns += (double)device->exposed_communication_ns;
        facts->exposed_copy_ns += (double)device->exposed_copy_ns;
        facts->operations += (double)device->operation_count;
    }
    facts->queued_gaps = (double)rank->idle_by_cause[TRACE_CAUSE_QUEUED].count;
    for (size_t j = 0; j < TRACE_CAUSE_COUNT; j++)
        facts->idle_by_cause[j] = (double)rank->idle_by_cause[j].total_ns;
    for (size_t i = 0; i < rank->edges.len; i++) {
        const TraceGap *edge = &rank->edges.at[i];
        const double ns = (double)(edge->end - edge->start);

        if (edge->cause == TRACE_CAUSE_BEFORE_PROFILE) /* not known to be idle */
            continue;
        facts->step_ns += ns;
        facts->idle_ns += ns;
        facts->idle_by_cause[edge->cause] += ns;
    }
}

/* From sums to means. Sums are of whole numbers and exact, so each mean is rounded once. */
static void divide_sums(TraceFacts *facts, double windows, double device_windows)
{
    double *const sums[] = {&facts->busy_ns,          &facts->idle_ns,         &facts->compute_ns,
                            &facts->communication_ns, &facts->exposed_copy_ns, &facts->exposed_communication_ns,
                            &facts->queued_gaps,      &facts->operations};

    facts->step_ns /= fmax(windows, 1);
    for (size_t i = 0; i < ARRAY_LEN(sums); i++)
        *sums[i] /= fmax(device_windows, 1);
    for (size_t i = 0; i < TRACE_CAUSE_COUNT; i++)
        facts->idle_by_cause[i] /= fmax(device_windows, 1);
    facts->waiting_ns = facts->exposed_communication_ns + facts->idle_ns;
}

void trace_find_facts(const TraceReport *report, const TraceRank *rank, size_t first_step, TraceFacts *ret)
{
    const double devices = (double)rank->devices.len;

    *ret = (TraceFacts){.report = report, .rank = rank};
    for (size_t i = 0; i < rank->devices.len; i++) {
        ret->whole_compute_ns += (double)rank->devices.at[i].compute_ns;
        ret->whole_kernel_ns += (double)rank->devices.at[i].kernel_sum_ns;
        ret->whole_communication_ns += (double)rank->devices.at[i].communication_ns;
    }
    /* what the time of an engine's only step is does not show: its work may run behind that of steps before */
    if (rank->steps.len == 0 || (rank->steps.len == 1 && rank->steps.at[0].batch.kind != TRACE_STEP_OTHER)) {
        add_devices(ret, rank);
        divide_sums(ret, devices, devices);
        return;
    }
    ret->first_step = first_step;
    ret->steps = rank->steps.len - first_step;
    for (size_t i = first_step; i < rank->steps.len; i++) {
        ret->step_ns += (double)(rank->steps.at[i].to - rank->steps.at[i].start);
        add_step(ret, &rank->steps.at[i]);
    }
    divide_sums(ret, (double)ret->steps, (double)(ret->steps * rank->steps.at[0].devices.len));
}

static int64_t step_window(const TraceStepRow *step)
{
    return step->to - step->start;
}

bool trace_warm_up(const TraceRank *rank)
{
    VEC(int64_t) others = {0};

    if (rank->steps.len < 2 || rank->steps.at[0].devices.len == 0 ||
        (double)rank->steps.len < verdict_limits.WARM_UP_STEPS)
        return false;
    const TraceStepKind kind = rank->steps.at[0].batch.kind;

    for (size_t i = 1; i < rank->steps.len; i++)
        if (rank->steps.at[i].batch.kind == kind)
            vec_push(&others, step_window(&rank->steps.at[i]));
    /* steps with a prefill differ in length by their prompts */
    const bool alike = kind == TRACE_STEP_OTHER || kind == TRACE_STEP_DECODE;
    const int64_t median = trace_median(others.at, others.len);
    const bool judged = alike && (double)others.len + 1 >= verdict_limits.WARM_UP_STEPS;
    vec_done(&others);
    return judged && (double)step_window(&rank->steps.at[0]) > verdict_limits.WARM_UP_FACTOR * (double)median;
}

/* ---- the rank that computed longest ---- */

typedef struct StepTime {
    int64_t number, compute_ns;
    uint32_t rank;
} StepTime;
typedef VEC(StepTime) StepTimes;

static int by_step(const void *a, const void *b)
{
    const StepTime *x = a, *y = b;
    const int64_t keys[][2] = {{x->number, y->number}, {y->compute_ns, x->compute_ns}, {x->rank, y->rank}};
    return trace_compare(keys, ARRAY_LEN(keys));
}

static void find_slowest(TraceReport *report)
{
    StepTimes times = {0};
    CLEANUP_FREE size_t *compared = xcalloc(report->ranks.len, sizeof(*compared));
    CLEANUP_FREE size_t *slowest = xcalloc(report->ranks.len, sizeof(*slowest));
    for (uint32_t i = 0; i < report->ranks.len; i++) {
        const TraceRank *rank = &report->ranks.at[i];
        for (size_t k = 0; k < rank->steps.len; k++) {
            const TraceStepRow *step = &rank->steps.at[k];
            StepTime time = {.number = step->number, .rank = i};
            for (size_t d = 0; d < step->devices.len; d++)
                time.compute_ns = rank_plus(time.compute_ns, step->devices.at[d].compute_ns);
            if (step->number >= 0 && step->devices.len > 0)
                vec_push(&times, time);
        }
    }
    vec_sort(&times, by_step);
    for (size_t i = 0; i < times.len;) {
        size_t from = i;
        while (i < times.len && times.at[i].number == times.at[from].number)
            i++;
        if (i - from < 2)
            continue;
        for (size_t k = from; k < i; k++)
            compared[times.at[k].rank]++;
        slowest[times.at[from].rank] += times.at[from].compute_ns > times.at[from + 1].compute_ns;
    }
    for (size_t i = 0; i < report->ranks.len; i++) {
        if (compared[i] > 0)
            report->rank_times.at[i].slowest_share = (double)slowest[i] / (double)compared[i];
    }
    vec_done(&times);
}

/* ---- lateness in collectives ---- */

/* Time that the part came behind the first: on the common clock, or by how much shorter it is than the longest. */
static void find_late(const RankMatch *match)
{
    TraceReport *report = match->report;
    CLEANUP_FREE size_t *count = xcalloc(report->ranks.len, sizeof(*count));
    CLEANUP_FREE size_t *last = xcalloc(report->ranks.len, sizeof(*last));
    for (size_t i = 0; i < match->sets.len; i++) {
        const RankSet *set = &match->sets.at[i];
        if (!collective_joins_all(set->kind))
            continue;
        for (size_t k = set->first; k < set->first + set->count; k++) {
            const RankPart *part = &match->parts.at[k];
            report->rank_times.at[part->rank].late_ns += (double)rank_minus(part->start, set->first_start);
            count[part->rank]++;
        }
        last[set->last_rank] += !set->tie;
    }
    for (size_t i = 0; i < report->ranks.len; i++) {
        if (count[i] == 0)
            continue;
        report->rank_times.at[i].late_ns /= (double)count[i];
        report->rank_times.at[i].last_share = (double)last[i] / (double)count[i];
    }
}

void rank_times(const RankMatch *match)
{
    TraceReport *report = match->report;
    double sum = 0;
    size_t stepping = 0, counted = 0;
    for (size_t i = 0; i < report->ranks.len; i++)
        stepping += report->ranks.at[i].steps.len > 0;
    for (size_t i = 0; i < report->ranks.len; i++) {
        TraceFacts *means = &match->ranks[i].means;
        trace_find_facts(report, &report->ranks.at[i], 0, means);
        vec_push(&report->rank_times, ((TraceRankTime){.rank = report->ranks.at[i].rank,
                                                       .step_ns = means->step_ns,
                                                       .compute_ns = means->compute_ns,
                                                       .communication_ns = means->communication_ns,
                                                       .exposed_communication_ns = means->exposed_communication_ns,
                                                       .idle_ns = means->idle_ns,
                                                       .own_ns = NAN,
                                                       .waiting_ns = NAN,
                                                       .late_compute_ns = NAN,
                                                       .late_idle_ns = NAN,
                                                       .late_copy_ns = NAN,
                                                       .late_transfer_ns = NAN}));
        if (means->step_ns > 0 && (means->steps > 0 || stepping == 0)) {
            sum += means->step_ns;
            counted++;
        }
    }
    report->step_ns = counted > 0 ? sum / (double)counted : 0;
    if (stepping == 0 && report->ranks.len > 0)
        rank_note(report, "no steps were recorded: percentages are of the whole time of the profile");
    else if (stepping < report->ranks.len)
        rank_note(report, "%zu of %zu ranks recorded steps: percentages are of these", stepping, report->ranks.len);
    find_slowest(report);
    find_late(match);
}
