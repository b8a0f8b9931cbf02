/* SPDX-License-Identifier: Apache-2.0 */
/* Facts of a rank: means over its judged steps and devices. */
#include <stdlib.h>
#include <string.h>

#include "base/human.h"
#include "base/map.h"
#include "engine/trace/analyse.h"
#include "engine/trace/select.h"
#include "engine/trace/verdict.h"

const double verdict_limits[VERDICT_LIMIT_COUNT] = {
#define LIMIT(NAME, value, reason) [VERDICT_LIMIT_##NAME] = (value),
#include "engine/trace/verdict.def"
};

static int64_t step_window(const TraceStepRow *step)
{
    return step->to - step->start;
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
    median = trace_select(others.at, others.len, others.len / 2);
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

/* ---- evidence as text ---- */

/* Evidence as text: numbers in units that people read, names that fit. */

enum { NAME_BYTES_MAX = 80 };

static const char *const hint_texts[VERDICT_HINT_COUNT] = {
#define HINT(NAME, text) [VERDICT_HINT_##NAME] = text,
#include "engine/trace/verdict.def"
};

void verdict_add_time(Str *out, double ns)
{
    char text[HUMAN_MAX];

    str_add(out, human_ns(text, ns, false));
}

void verdict_add_bytes(Str *out, double bytes)
{
    char text[HUMAN_MAX];

    str_add(out, human_bytes(text, bytes));
}

void verdict_add_percent(Str *out, double part, double whole)
{
    str_addf(out, "%.1f %%", whole > 0 ? 100 * part / whole : 0);
}

void verdict_add_name(Str *out, const char *name)
{
    size_t len = strlen(name);

    if (len <= NAME_BYTES_MAX) {
        str_addn(out, name, len);
        return;
    }
    for (len = NAME_BYTES_MAX; len > 0 && ((unsigned char)name[len] & 0xc0) == 0x80; len--)
        ;
    str_addn(out, name, len);
    str_add(out, "...");
}

void verdict_hint(VerdictFinding *finding, VerdictHint hint)
{
    str_addc(&finding->advice, ' ');
    str_add(&finding->advice, hint_texts[hint]);
}

void verdict_add_cost(Str *out, const VerdictFacts *facts, double ns)
{
    verdict_add_time(out, ns);
    str_add(out, facts->steps > 0 ? " of a step of " : " of ");
    verdict_add_time(out, facts->step_ns);
    str_add(out, " (");
    verdict_add_percent(out, ns, facts->step_ns);
    str_addc(out, ')');
}

/* Times by name, the largest first. */
typedef struct NameTime {
    const char *name;
    int64_t ns, count;
} NameTime;

static int compare_names(const void *left, const void *right)
{
    const NameTime *a = left, *b = right;

    if (a->ns != b->ns)
        return a->ns > b->ns ? -1 : 1;
    return strcmp(a->name, b->name);
}

static bool is_judged_step(const VerdictFacts *facts, int32_t step)
{
    return facts->steps == 0 || (step >= 0 && (size_t)step >= facts->first_step);
}

void verdict_add_gaps(Str *out, const VerdictFacts *facts, TraceCause cause)
{
    VEC(NameTime) names = {0};
    Map rows;

    map_init(&rows);
    for (size_t i = 0; i < facts->rank->gaps.len; i++) {
        const TraceGap *gap = &facts->rank->gaps.at[i];
        size_t row;

        if (gap->cause != cause || !*gap->host || !is_judged_step(facts, gap->step))
            continue;
        row = (size_t)map_get(&rows, gap->host);
        if (row == 0) {
            vec_push(&names, ((NameTime){.name = gap->host}));
            row = names.len;
            map_put(&rows, gap->host, (void *)row);
        }
        names.at[row - 1].ns = trace_sum(names.at[row - 1].ns, gap->host_ns);
        names.at[row - 1].count++;
    }
    if (names.len > 0)
        qsort(names.at, names.len, sizeof *names.at, compare_names);
    for (size_t i = 0; i < names.len && (double)i < verdict_limit(VERDICT_LIMIT_NAMED); i++) {
        str_add(out, i == 0 ? "; in the gaps the host was in " : ", ");
        verdict_add_name(out, names.at[i].name);
        str_add(out, " (");
        verdict_add_time(out, (double)names.at[i].ns);
        str_addf(out, " in %lld gap%s)", (long long)names.at[i].count, names.at[i].count == 1 ? "" : "s");
    }
    map_done(&rows);
    vec_done(&names);
}

void verdict_add_calls(Str *out, const VerdictFacts *facts, TraceHostClass class)
{
    size_t said = 0;

    for (size_t i = 0; i < facts->rank->calls.len && (double)said < verdict_limit(VERDICT_LIMIT_NAMED); i++) {
        const TraceCall *call = &facts->rank->calls.at[i];
        int64_t count = facts->steps > 0 ? call->step_count : call->count;

        if (call->class != class || count == 0)
            continue;
        str_add(out, said++ == 0 ? "; calls: " : ", ");
        verdict_add_name(out, call->name);
        if (*call->inner) {
            str_add(out, " in ");
            verdict_add_name(out, call->inner);
        }
        if (strcmp(call->inner, call->outer) != 0) {
            str_add(out, " of ");
            verdict_add_name(out, call->outer);
        }
        str_addf(out, " (%lld, ", (long long)count);
        verdict_add_time(out, (double)(facts->steps > 0 ? call->step_ns : call->total_ns));
        str_addc(out, ')');
    }
}
