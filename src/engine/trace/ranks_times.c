/* SPDX-License-Identifier: Apache-2.0 */
/* Where each rank's time goes, per step in the mean, and how late it comes to what all do together. */
#include "engine/trace/ranks.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/owner.h"

int64_t rank_step(const TraceRank *rank, int64_t time)
{
    size_t low = 0, high = rank->steps.len;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (rank->steps.at[middle].start <= time)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || time >= rank->steps.at[low - 1].to)
        return -1;
    return rank->steps.at[low - 1].number;
}

int64_t rank_asked(const TraceCollective *row)
{
    return row->launch == INT64_MIN ? row->start : row->launch;
}

/* ---- means ---- */

static void scale_means(RankMeans *means, double by)
{
    means->compute_ns *= by;
    means->communication_ns *= by;
    means->exposed_communication_ns *= by;
    means->exposed_copy_ns *= by;
    means->idle_ns *= by;
}

static void add_step(RankMeans *means, const TraceStepRow *step)
{
    double part = step->devices.len > 0 ? 1 / (double)step->devices.len : 0;
    means->step_ns += (double)(step->to - step->start);
    for (size_t i = 0; i < step->devices.len; i++) {
        const TraceStepDevice *device = &step->devices.at[i];
        means->compute_ns += part * (double)device->compute_ns;
        means->communication_ns += part * (double)device->communication_ns;
        means->exposed_communication_ns += part * (double)device->exposed_communication_ns;
        means->exposed_copy_ns += part * (double)device->exposed_copy_ns;
        means->idle_ns += part * (double)device->idle_ns;
    }
}

RankMeans rank_means(const TraceRank *rank)
{
    RankMeans means = {.steps = rank->steps.len};
    for (size_t i = 0; i < rank->steps.len; i++)
        add_step(&means, &rank->steps.at[i]);
    for (size_t i = 0; i < rank->devices.len && rank->steps.len == 0; i++) {
        const TraceDevice *device = &rank->devices.at[i];
        means.step_ns += (double)device->span_ns;
        means.compute_ns += (double)device->compute_ns;
        means.communication_ns += (double)device->communication_ns;
        means.exposed_communication_ns += (double)device->exposed_communication_ns;
        means.exposed_copy_ns += (double)device->exposed_copy_ns;
        means.idle_ns += (double)device->idle_ns;
    }
    size_t count = rank->steps.len > 0 ? rank->steps.len : rank->devices.len;
    if (count > 0) {
        scale_means(&means, 1 / (double)count);
        means.step_ns /= (double)count;
    }
    return means;
}

/* ---- who computed longest ---- */

typedef struct StepTime {
    int64_t number, compute_ns;
    uint32_t rank;
} StepTime;
typedef VEC(StepTime) StepTimes;

static int by_step(const void *a, const void *b)
{
    const StepTime *x = a, *y = b;
    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    if (x->compute_ns != y->compute_ns)
        return x->compute_ns > y->compute_ns ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
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
    if (times.len > 0)
        qsort(times.at, times.len, sizeof(*times.at), by_step);
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

/* ---- who came late ---- */

/* Time that the part came behind the first: on the common clock, or by how much shorter it is than the longest. */
static void find_late(const RankMatch *match)
{
    TraceReport *report = match->report;
    CLEANUP_FREE size_t *count = xcalloc(report->ranks.len, sizeof(*count));
    CLEANUP_FREE size_t *last = xcalloc(report->ranks.len, sizeof(*last));
    for (size_t i = 0; i < match->sets.len; i++) {
        const RankSet *set = &match->sets.at[i];
        const RankPart *parts = &match->parts.at[set->first];
        bool clock = true, tie = false;
        int64_t shortest = INT64_MAX, longest = 0, first = INT64_MAX;
        uint32_t last_rank = 0;
        if (!collective_joins_all(set->kind))
            continue;
        for (uint32_t k = 0; k < set->count; k++) {
            int64_t duration = rank_duration(match, &parts[k]);
            int64_t start = rank_common(&match->clocks[parts[k].rank], rank_row(match, &parts[k])->start);
            clock = clock && match->clocks[parts[k].rank].aligned;
            tie = duration == shortest || (duration > shortest && tie);
            if (duration < shortest) {
                shortest = duration;
                last_rank = parts[k].rank;
            }
            longest = duration > longest ? duration : longest;
            first = start < first ? start : first;
        }
        for (uint32_t k = 0; k < set->count; k++) {
            uint32_t rank = parts[k].rank;
            int64_t start = rank_common(&match->clocks[rank], rank_row(match, &parts[k])->start);
            report->rank_times.at[rank].late_ns +=
                (double)(clock ? rank_minus(start, first) : longest - rank_duration(match, &parts[k]));
            count[rank]++;
        }
        last[last_rank] += !tie;
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
        const TraceRank *rank = &report->ranks.at[i];
        RankMeans means = rank_means(rank);
        vec_push(&report->rank_times, ((TraceRankTime){.rank = rank->rank,
                                                       .step_ns = means.step_ns,
                                                       .compute_ns = means.compute_ns,
                                                       .communication_ns = means.communication_ns,
                                                       .exposed_communication_ns = means.exposed_communication_ns,
                                                       .idle_ns = means.idle_ns}));
        if (means.step_ns > 0 && (means.steps > 0 || stepping == 0)) {
            sum += means.step_ns;
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
