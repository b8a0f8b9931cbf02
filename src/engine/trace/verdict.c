/* SPDX-License-Identifier: Apache-2.0 */
/* The ranked list of verdicts. Each rule looks at each rank; a finding of the ranks' mean is one verdict about all
 * of them, a finding of one rank alone a verdict about that rank. Gains never exceed costs, costs never exceed the
 * step. */
#include "engine/trace/verdict.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum { TEXT_BYTES_MAX = 4096 };

const VerdictRule verdict_rules[VERDICT_COUNT] = {
#define VERDICT(NAME, word, rule, threshold, largest_gain, text, why)                                                  \
    [VERDICT_##NAME] = {.id = (word),                                                                                  \
                        .advice = (text),                                                                              \
                        .reason = (why),                                                                               \
                        .find = rule_##rule,                                                                           \
                        .threshold_percent = (threshold),                                                              \
                        .gain = (largest_gain)},
#include "engine/trace/verdict.def"
};

const VerdictLimits verdict_limits = {
#define LIMIT(NAME, value, reason) .NAME = (value),
#include "engine/trace/verdict.def"
};

/* ---- one rule ---- */

/* One rule on one rank. */
typedef struct Found {
    bool found;
    double cost_ns;
    TraceVerdict verdict; /* but its cost_ns */
} Found;

static double clamp_percent(double value, double high)
{
    return value > 0 ? fmin(value, high) : 0;
}

static const char *join_advice(TraceReport *report, const VerdictRule *rule, const VerdictFinding *finding)
{
    const char *advice = verdict_advice((VerdictId)(rule - verdict_rules), finding->platform);

    if (finding->hints.len == 0)
        return advice;
    return arena_printf(&report->arena, "%s%s%s", finding->hints_only ? "" : advice, finding->hints_only ? "" : " ",
                        finding->hints.text);
}

static Found try_rule(TraceReport *report, const VerdictRule *rule, const TraceFacts *facts)
{
    VerdictFinding finding = {
        .gain = rule->gain, .rank = -1, .cause = TRACE_CAUSE_COUNT, .platform = verdict_platform(facts->rank)};
    Found found = {.verdict = {.id = rule->id}};

    str_init(&finding.evidence, TEXT_BYTES_MAX);
    str_init(&finding.hints, TEXT_BYTES_MAX);
    found.found = rule->find(facts, &finding);
    if (found.found) {
        TraceVerdict *verdict = &found.verdict;

        found.cost_ns = clamp_percent(finding.cost_ns, facts->step_ns);
        verdict->percent_of_step = facts->step_ns > 0 ? 100 * found.cost_ns / facts->step_ns : 0;
        verdict->gain_percent = verdict->percent_of_step * clamp_percent(fmin(finding.gain, rule->gain), 1);
        verdict->evidence = arena_strdup(&report->arena, finding.evidence.text);
        verdict->advice = join_advice(report, rule, &finding);
        verdict->rank = finding.rank;
        verdict->once = finding.once;
        verdict->cause = finding.cause;
    }
    str_done(&finding.evidence);
    str_done(&finding.hints);
    return found;
}

static void add_verdict(TraceReport *report, Found *found)
{
    found->verdict.cost_ns = (int64_t)fmin(found->cost_ns, 9e18);
    vec_push(&report->verdicts, found->verdict);
}

/* A rule about all ranks together: reported once. */
static void apply_rule_across(TraceReport *report, VerdictId id, const TraceFacts *facts)
{
    Found found = try_rule(report, &verdict_rules[id], &facts[0]);

    if (found.found && found.verdict.percent_of_step >= verdict_rules[id].threshold_percent)
        add_verdict(report, &found);
}

/* The verdict about the idle time that makes the ranks late: of one of them alone, and of a cause that names what to
 * change. */
static TraceVerdict *find_root(const TraceReport *report, const TraceStraggler *straggler)
{
    for (size_t i = 0; i < report->verdicts.len; i++) {
        TraceVerdict *verdict = &report->verdicts.at[i];
        const bool names = verdict->cause == TRACE_CAUSE_PYTHON || trace_cause_is_telling(verdict->cause);

        if (names && verdict->rank >= 0 && trace_straggler_of(report, verdict->rank) == straggler &&
            straggler->host_cause && strcmp(trace_cause_words[verdict->cause], straggler->host_cause) == 0)
            return verdict;
    }
    return NULL;
}

/* One verdict about what makes the ranks late and that the others wait for them, the root cause first. */
static void add_to_root(TraceReport *report, TraceVerdict *root, const Found *late)
{
    const TraceVerdict *verdict = &late->verdict;

    root->evidence = arena_printf(&report->arena, "%s; the other ranks wait for %s", root->evidence, verdict->evidence);
    root->rank = verdict->rank;
    root->percent_of_step = fmax(root->percent_of_step, verdict->percent_of_step);
    root->cost_ns = root->cost_ns > (int64_t)late->cost_ns ? root->cost_ns : (int64_t)late->cost_ns;
    root->gain_percent = verdict->gain_percent;
}

/* A verdict for each group of late ranks. */
static void apply_straggler(TraceReport *report, TraceFacts *facts)
{
    const VerdictRule *rule = &verdict_rules[VERDICT_STRAGGLER];

    for (size_t nth = 0; (facts->straggler = trace_straggler_at(report, nth)); nth++) {
        Found found = try_rule(report, rule, facts);
        TraceVerdict *root = find_root(report, facts->straggler);

        if (!found.found || found.verdict.percent_of_step < rule->threshold_percent)
            continue;
        if (root)
            add_to_root(report, root, &found);
        else
            add_verdict(report, &found);
    }
}

/* One rule on all ranks. */
typedef struct RankFinds {
    Found mean, worst;
    size_t reach; /* ranks over the threshold */
} RankFinds;

static RankFinds try_on_ranks(TraceReport *report, const VerdictRule *rule, const TraceFacts *facts)
{
    const double ranks = (double)report->ranks.len;
    RankFinds finds = {0};

    for (size_t i = 0; i < report->ranks.len; i++) {
        const Found found = try_rule(report, rule, &facts[i]);
        const double percent = found.verdict.percent_of_step;

        if (!found.found)
            continue;
        finds.reach += percent >= rule->threshold_percent;
        finds.mean.verdict.percent_of_step += percent / ranks;
        finds.mean.verdict.gain_percent += found.verdict.gain_percent / ranks;
        finds.mean.cost_ns += found.cost_ns / ranks;
        if (!finds.worst.found || percent > finds.worst.verdict.percent_of_step) {
            finds.worst = found;
            finds.worst.verdict.rank = report->ranks.at[i].rank;
        }
    }
    return finds;
}

/* About all ranks, with the evidence of the worst, where their mean and most of them (or the worst no more than the
 * others) reach the threshold; about the worst alone where it stands out. */
static void apply_rule(TraceReport *report, VerdictId id, const TraceFacts *facts)
{
    const VerdictRule *rule = &verdict_rules[id];
    RankFinds finds = try_on_ranks(report, rule, facts);
    TraceVerdict *mean = &finds.mean.verdict, *worst = &finds.worst.verdict;
    const bool alone = worst->percent_of_step >= verdict_limits.RANK_ALONE * mean->percent_of_step;

    if (!finds.worst.found || finds.reach == 0)
        return;
    if (mean->percent_of_step >= rule->threshold_percent && (finds.reach * 2 > report->ranks.len || !alone)) {
        mean->id = worst->id;
        mean->rank = -1;
        mean->once = worst->once;
        mean->cause = worst->cause;
        mean->advice = worst->advice;
        mean->evidence = report->ranks.len == 1
                             ? worst->evidence
                             : arena_printf(&report->arena, "rank %lld: %s", (long long)worst->rank, worst->evidence);
        add_verdict(report, &finds.mean);
    } else if (alone) {
        if (finds.reach > 1)
            worst->evidence = arena_printf(&report->arena, "%s; %zu other ranks too", worst->evidence, finds.reach - 1);
        add_verdict(report, &finds.worst);
    }
}

static double largest_cost(const TraceReport *report)
{
    double largest = 0;

    for (size_t i = 0; i < report->verdicts.len; i++)
        largest = fmax(largest, report->verdicts.at[i].percent_of_step);
    return largest;
}

/* Idle time without a verdict, in percent of the step: verdicts about idle time are subtracted. */
static bool idle_was_explained(const TraceReport *report)
{
    for (size_t i = 0; i < report->verdicts.len; i++)
        for (int id = VERDICT_DATA_LOADING; id <= VERDICT_IDLE_UNKNOWN; id++)
            if (strcmp(report->verdicts.at[i].id, verdict_rules[id].id) == 0)
                return true;
    return false;
}

static int order_of(const char *id)
{
    int i = 0;

    while (i < VERDICT_COUNT && strcmp(verdict_rules[i].id, id) != 0)
        i++;
    return i;
}

static int compare_verdicts(const void *left, const void *right)
{
    const TraceVerdict *a = left, *b = right;

    if (a->percent_of_step != b->percent_of_step)
        return a->percent_of_step > b->percent_of_step ? -1 : 1;
    return order_of(a->id) - order_of(b->id);
}

static void note_warm_up(TraceReport *report, const TraceFacts *facts)
{
    const TraceStepRow *step = &facts->rank->steps.at[0];
    const double first = (double)(step->to - step->start);
    double waited = 0;

    for (size_t i = 0; i < step->devices.len; i++)
        waited = fmax(waited, (double)step->devices.at[i].exposed_communication_ns);
    vec_push(&report->notes,
             arena_printf(&report->arena,
                          "rank %lld: %s took %.1f times as long as the other steps in the mean (%s): the verdicts are "
                          "about the other %zu",
                          (long long)facts->rank->rank, step->name, facts->step_ns > 0 ? first / facts->step_ns : 0,
                          waited > (first - facts->step_ns) / 2 ? "waiting for other ranks"
                                                                : "compiling, allocating, warming up",
                          facts->steps));
}

/* Says why large collectives of all ranks have no verdict about their bandwidth where one could be expected. */
static void note_unknown_hosts(TraceReport *report)
{
    const TraceRank *nameless = NULL;

    for (size_t i = 0; i < report->ranks.len && !nameless; i++)
        if (!*report->ranks.at[i].host)
            nameless = &report->ranks.at[i];
    for (size_t i = 0; i < report->collectives.len && nameless; i++) {
        const TraceCollectiveSum *sum = &report->collectives.at[i];

        if (sum->matched == 0 || isnan(sum->bus_gbs) || (double)sum->bytes < verdict_limits.BUS_BYTES)
            continue;
        vec_push(&report->notes,
                 arena_printf(&report->arena,
                              "the bandwidth of collectives is not judged: the profile of rank %lld does not name its "
                              "host, so it is not known whether they stay within one",
                              (long long)nameless->rank));
        return;
    }
}

/* Of ranks with steps, where there are any. */
static void find_measured_step(TraceReport *report, const TraceFacts *facts)
{
    double sum = 0, all = 0;
    size_t stepping = 0, count = 0;

    for (size_t i = 0; i < report->ranks.len; i++) {
        stepping += facts[i].steps > 0;
        sum += facts[i].steps > 0 ? facts[i].step_ns : 0;
        count += facts[i].step_ns > 0;
        all += facts[i].step_ns;
    }
    if (stepping > 0)
        report->measured_step_ns = sum / (double)stepping;
    else
        report->measured_step_ns = count > 0 ? all / (double)count : 0;
}

void trace_verdicts(TraceReport *report)
{
    TraceFacts *facts = xcalloc(report->ranks.len + 1, sizeof *facts);

    for (size_t i = 0; i < report->ranks.len; i++) {
        const bool outlier = trace_warm_up(&report->ranks.at[i]);

        report->ranks.at[i].warm_up = outlier;
        trace_find_facts(report, &report->ranks.at[i], outlier, &facts[i]);
        verdict_part_idle(&facts[i]);
        if (outlier)
            note_warm_up(report, &facts[i]);
    }
    find_measured_step(report, facts);
    for (int id = 0; id < VERDICT_IDLE_SPREAD && report->ranks.len > 0; id++) {
        if (id == VERDICT_STRAGGLER)
            apply_straggler(report, facts);
        else if (id == VERDICT_LOW_BUS_BANDWIDTH)
            apply_rule_across(report, (VerdictId)id, facts);
        else
            apply_rule(report, (VerdictId)id, facts);
    }
    if (!idle_was_explained(report))
        apply_rule(report, VERDICT_IDLE_SPREAD, facts);
    if (largest_cost(report) < verdict_limits.WELL_USED_COST)
        apply_rule(report, VERDICT_WELL_USED, facts);
    note_unknown_hosts(report);
    vec_sort(&report->verdicts, compare_verdicts);
    free(facts);
}
