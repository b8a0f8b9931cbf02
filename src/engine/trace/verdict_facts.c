/* SPDX-License-Identifier: Apache-2.0 */
/* What is measured of a rank: the mean of its judged steps and of its devices. */
#include <stdlib.h>
#include <string.h>

#include "engine/trace/verdict.h"

static int64_t step_window(const TraceStepRow *step)
{
    return step->to - step->start;
}

static int compare_ns(const void *left, const void *right)
{
    const int64_t *a = left, *b = right;

    return *a < *b ? -1 : *a > *b;
}

/* Whether the first step is so much longer than the others that it must be a warm-up. */
static bool first_is_outlier(const TraceRank *rank)
{
    VEC(int64_t) others = {0};
    int64_t median;

    if (rank->steps.len < 2 || (double)rank->steps.len < verdict_limit(VERDICT_LIMIT_WARM_UP_STEPS))
        return false;
    for (size_t i = 1; i < rank->steps.len; i++)
        vec_push(&others, step_window(&rank->steps.at[i]));
    qsort(others.at, others.len, sizeof *others.at, compare_ns);
    median = others.at[others.len / 2];
    vec_done(&others);
    return (double)step_window(&rank->steps.at[0]) > verdict_limit(VERDICT_LIMIT_WARM_UP_FACTOR) * (double)median;
}

static void add_step(VerdictFacts *facts, const TraceStepRow *step)
{
    double share = 1.0 / (double)step->devices.len / (double)facts->steps;

    for (size_t i = 0; i < step->devices.len; i++) {
        const TraceStepDevice *device = &step->devices.at[i];

        facts->step_ns += share * (double)device->window_ns;
        facts->busy_ns += share * (double)device->busy_ns;
        facts->idle_ns += share * (double)device->idle_ns;
        facts->compute_ns += share * (double)device->compute_ns;
        facts->communication_ns += share * (double)device->communication_ns;
        facts->exposed_communication_ns += share * (double)device->exposed_communication_ns;
        facts->exposed_copy_ns += share * (double)device->exposed_copy_ns;
        facts->operations += share * (double)device->operation_count;
        facts->queued_gaps += share * (double)device->idle_by_cause[TRACE_CAUSE_QUEUED].count;
        for (size_t j = 0; j < TRACE_CAUSE_COUNT; j++)
            facts->idle_by_cause[j] += share * (double)device->idle_by_cause[j].total_ns;
    }
}

static void add_whole(VerdictFacts *facts)
{
    const TraceRank *rank = facts->rank;
    double share = rank->devices.len > 0 ? 1.0 / (double)rank->devices.len : 0;

    for (size_t i = 0; i < rank->devices.len; i++) {
        const TraceDevice *device = &rank->devices.at[i];

        facts->step_ns += share * (double)device->span_ns;
        facts->busy_ns += share * (double)device->busy_ns;
        facts->idle_ns += share * (double)device->idle_ns;
        facts->compute_ns += share * (double)device->compute_ns;
        facts->communication_ns += share * (double)device->communication_ns;
        facts->exposed_communication_ns += share * (double)device->exposed_communication_ns;
        facts->exposed_copy_ns += share * (double)device->exposed_copy_ns;
        facts->operations += share * (double)device->operation_count;
    }
    facts->queued_gaps = share * (double)rank->idle_by_cause[TRACE_CAUSE_QUEUED].count;
    for (size_t j = 0; j < TRACE_CAUSE_COUNT; j++)
        facts->idle_by_cause[j] = share * (double)rank->idle_by_cause[j].total_ns;
}

static bool steps_have_devices(const TraceRank *rank)
{
    for (size_t i = 0; i < rank->steps.len; i++)
        if (rank->steps.at[i].devices.len == 0)
            return false;
    return rank->steps.len > 0;
}

void verdict_facts(const TraceReport *report, const TraceRank *rank, VerdictFacts *ret, bool *ret_outlier)
{
    *ret = (VerdictFacts){.report = report, .rank = rank};
    *ret_outlier = false;
    if (steps_have_devices(rank)) {
        *ret_outlier = first_is_outlier(rank);
        ret->first_step = *ret_outlier;
        ret->steps = rank->steps.len - ret->first_step;
        for (size_t i = ret->first_step; i < rank->steps.len; i++)
            add_step(ret, &rank->steps.at[i]);
    } else {
        add_whole(ret);
    }
    for (size_t i = 0; i < rank->devices.len; i++) {
        ret->whole_compute_ns += (double)rank->devices.at[i].compute_ns;
        ret->whole_kernel_ns += (double)rank->devices.at[i].kernel_sum_ns;
        ret->whole_communication_ns += (double)rank->devices.at[i].communication_ns;
    }
}

double verdict_link_gbs(const TraceRank *rank)
{
    static const struct {
        const char *part;
        double gbs;
    } links[] = {
#define LINK(device, gbs) {device, gbs},
#include "engine/trace/verdict.def"
    };

    for (size_t i = 0; i < sizeof links / sizeof links[0] && rank->devices.len > 0; i++)
        if (strstr(rank->devices.at[0].name, links[i].part))
            return links[i].gbs;
    return 0;
}

bool verdict_has_name(const TraceRank *rank, const char *part)
{
    for (size_t i = 0; i < rank->operators.len; i++)
        if (strstr(rank->operators.at[i].name, part))
            return true;
    for (size_t i = 0; i < rank->annotations.len; i++)
        if (strstr(rank->annotations.at[i].name, part))
            return true;
    for (size_t i = 0; i < rank->gaps.len; i++)
        if (strstr(rank->gaps.at[i].host, part))
            return true;
    return false;
}
