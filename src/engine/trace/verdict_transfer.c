/* SPDX-License-Identifier: Apache-2.0 */
/* Rules of copies, of which exposed time goes by what would help, and of communication. */
#include "engine/trace/verdict.h"

#include <math.h>
#include <string.h>

#include "base/cleanup.h"
#include "engine/trace/tables.h"

/* ---- copies: exposed time by what would help ---- */

typedef struct CopyParts {
    double pageable, small, rest; /* shares of the exposed copy time; 0 without copies */
    bool has_pageable;            /* some that are not small */
    bool many_small;
    const TraceCopy *largest; /* of the rest */
    int64_t small_count, pageable_bytes;
    double pageable_ns, small_ns;
    double blocked_ns; /* idle while the host was in a blocking copy: belongs to the kind of copy that blocks */
} CopyParts;

static bool is_copy_of(const TraceCopy *copy, const char *kind)
{
    return strcmp(copy->kind, kind) == 0;
}

static void add_copy(CopyParts *parts, const TraceCopy *copy)
{
    const bool to_or_from_host = is_copy_of(copy, "HtoD") || is_copy_of(copy, "DtoH");
    const bool pageable = strcmp(copy->source, "pageable") == 0 || strcmp(copy->target, "pageable") == 0;
    const double exposed = copy->exposed_ns > 0 ? (double)copy->exposed_ns : 0;
    const double small = to_or_from_host && copy->total_ns > 0 ? (double)copy->small_ns / (double)copy->total_ns : 0;

    parts->small += small * exposed;
    if (to_or_from_host) {
        parts->small_count += copy->small_count;
        parts->small_ns += (double)copy->small_ns;
    }
    if (to_or_from_host && pageable && copy->count > copy->small_count) {
        parts->has_pageable = true;
        parts->pageable += (1 - small) * exposed;
        parts->pageable_bytes += copy->bytes;
        parts->pageable_ns += (double)copy->total_ns;
        return;
    }
    parts->rest += (1 - small) * exposed;
    if (!parts->largest || copy->exposed_ns > parts->largest->exposed_ns)
        parts->largest = copy;
}

static double step_count(const TraceRank *rank)
{
    return rank->steps.len > 0 ? (double)rank->steps.len : 1;
}

static CopyParts copy_parts(const TraceFacts *facts)
{
    CopyParts parts = {.blocked_ns = facts->idle_by_cause[TRACE_CAUSE_COPY]};
    double all;

    for (size_t i = 0; i < facts->rank->copies.len; i++)
        add_copy(&parts, &facts->rank->copies.at[i]);
    all = parts.pageable + parts.small + parts.rest;
    if (all > 0) {
        parts.pageable /= all;
        parts.small /= all;
        parts.rest /= all;
    }
    parts.many_small = (double)parts.small_count >= verdict_limits.SMALL_COPIES_PER_STEP * step_count(facts->rank);
    return parts;
}

/* A share of the exposed copy time, and what is idle behind copies that block where this kind does. */
static bool find_copies(const TraceFacts *facts, VerdictFinding *finding, const char *what, double share,
                        double blocked_ns)
{
    finding->cost_ns = facts->exposed_copy_ns * share + blocked_ns;
    verdict_add_cost(facts, finding, what);
    if (blocked_ns > 0) {
        str_addf(&finding->evidence, ", of it idle while the host was in a copy %s", TIME_TEXT(blocked_ns));
        verdict_add_gaps(&finding->evidence, facts, TRACE_CAUSE_COPY);
    }
    return finding->cost_ns > 0;
}

bool rule_pageable_copy(const TraceFacts *facts, VerdictFinding *finding)
{
    const CopyParts parts = copy_parts(facts);

    if (!parts.has_pageable ||
        !find_copies(facts, finding, "pageable copies keep the GPU from computing: ", parts.pageable, parts.blocked_ns))
        return false;
    str_addf(&finding->evidence, "; in all %s", BYTES_TEXT(parts.pageable_bytes));
    if (parts.pageable_ns > 0)
        str_addf(&finding->evidence, " at %.1f GB/s", (double)parts.pageable_bytes / parts.pageable_ns);
    return true;
}

bool rule_small_copies(const TraceFacts *facts, VerdictFinding *finding)
{
    const CopyParts parts = copy_parts(facts);

    if (!parts.many_small || !find_copies(facts, finding, "small copies between host and device: ", parts.small,
                                          parts.has_pageable ? 0 : parts.blocked_ns))
        return false;
    str_addf(&finding->evidence, "; %lld under 64 KiB", (long long)parts.small_count);
    if (facts->rank->steps.len > 0)
        str_addf(&finding->evidence, " in %zu steps", facts->rank->steps.len);
    str_addf(&finding->evidence, ", %s", TIME_TEXT(parts.small_ns));
    return true;
}

bool rule_exposed_copy(const TraceFacts *facts, VerdictFinding *finding)
{
    static const struct {
        const char *kind;
        VerdictHint hint;
    } hints[] = {{"HtoD", VERDICT_HINT_COPY_HTOD},
                 {"DtoH", VERDICT_HINT_COPY_DTOH},
                 {"DtoD", VERDICT_HINT_COPY_DTOD},
                 {"set", VERDICT_HINT_COPY_SET}};
    const CopyParts parts = copy_parts(facts);
    const TraceCopy *most = parts.largest;
    const bool blocks = !parts.has_pageable && !parts.many_small;

    if (!most ||
        !find_copies(facts, finding, "copies while nothing computes: ", parts.rest, blocks ? parts.blocked_ns : 0))
        return false;
    str_addf(&finding->evidence, "; most in %s: %lld, %s", most->kind, (long long)most->count, BYTES_TEXT(most->bytes));
    if (!isnan(most->bandwidth_gbs))
        str_addf(&finding->evidence, " at %.1f GB/s", most->bandwidth_gbs);
    for (size_t i = 0; i < ARRAY_LEN(hints); i++)
        if (is_copy_of(most, hints[i].kind))
            verdict_add_hint(finding, hints[i].hint);
    return true;
}

/* ---- communication ---- */

/* Without sizes: many and short ones. */
static bool many_short(const TraceRank *rank)
{
    double count = 0, ns = 0;

    for (size_t i = 0; i < rank->kernels.len; i++) {
        if (rank->kernels.at[i].class != TRACE_COMMUNICATION)
            continue;
        count += (double)rank->kernels.at[i].count;
        ns += (double)rank->kernels.at[i].total_ns;
    }
    return count > verdict_limits.MANY_COLLECTIVES * step_count(rank) &&
           ns < verdict_limits.SHORT_COLLECTIVE_NS * count;
}

static bool mostly_small(const TraceRank *rank)
{
    size_t known = 0, small = 0;

    for (size_t i = 0; i < rank->collectives.len; i++) {
        int64_t bytes = rank->collectives.at[i].in_bytes;

        known += bytes > 0;
        small += bytes > 0 && (double)bytes < verdict_limits.SMALL_COLLECTIVE_BYTES;
    }
    return known > 0 ? (double)small > verdict_limits.SMALL_COLLECTIVE_SHARE * (double)known : many_short(rank);
}

static bool is_sure(const TraceReport *report, const TraceStraggler *straggler)
{
    return straggler && report->ranks.len > 1 && straggler->confidence >= verdict_limits.STRAGGLER_CONFIDENCE;
}

/* What mending the late ranks that have a verdict gives, percent of the step; `last`: with that group, NULL: all. */
static double late_percent(const TraceReport *report, const TraceStraggler *last)
{
    const TraceStraggler *straggler;
    double percent = 0;

    for (size_t nth = 0; (straggler = trace_straggler_at(report, nth)); nth++) {
        percent += is_sure(report, straggler) ? straggler->percent_of_step : 0;
        if (straggler == last)
            break;
    }
    return percent;
}

/* Link speed of the rank's first device by name, GB/s; 0 unknown. */
static double link_speed(const TraceRank *rank)
{
    static const struct {
        const char *part;
        double gbs;
    } links[] = {
#define LINK(device, gbs) {device, gbs},
#include "engine/trace/verdict.def"
    };

    for (size_t i = 0; i < ARRAY_LEN(links) && rank->devices.len > 0; i++)
        if (strstr(rank->devices.at[0].name, links[i].part))
            return links[i].gbs;
    return 0;
}

static bool on_one_host(const TraceReport *report)
{
    for (size_t i = 0; i < report->ranks.len; i++)
        if (!*report->ranks.at[i].host || strcmp(report->ranks.at[i].host, report->ranks.at[0].host) != 0)
            return false;
    return report->ranks.len > 1;
}

typedef struct SlowBus {
    const TraceCollectiveSum *worst; /* NULL: none is slow */
    double exposed_ns, gain;
} SlowBus;

static SlowBus find_slow_bus(const TraceFacts *facts)
{
    const TraceReport *report = facts->report;
    const double link = link_speed(facts->rank);
    double slow_ns = 0, could_ns = 0;
    SlowBus slow = {0};

    if (link <= 0 || facts->whole_communication_ns <= 0 || !on_one_host(report))
        return slow;
    for (size_t i = 0; i < report->collectives.len; i++) {
        const TraceCollectiveSum *sum = &report->collectives.at[i];

        if (sum->group_size != (int64_t)report->ranks.len || sum->matched == 0 || isnan(sum->bus_gbs) ||
            (double)sum->bytes < verdict_limits.BUS_BYTES || sum->bus_gbs >= verdict_limits.BUS_SHARE * link)
            continue;
        slow_ns += (double)sum->best_ns * (double)sum->matched;
        could_ns += (double)sum->best_ns * (double)sum->matched * sum->bus_gbs / link;
        if (!slow.worst || sum->total_ns > slow.worst->total_ns)
            slow.worst = sum;
    }
    if (!slow.worst)
        return slow;
    slow.exposed_ns = facts->exposed_communication_ns *
                      fmin(1, slow_ns * (double)facts->rank->devices.len / facts->whole_communication_ns);
    slow.gain = 1 - could_ns / slow_ns;
    return slow;
}

static const TraceRankTime *time_of_rank(const TraceFacts *facts)
{
    const size_t rank = (size_t)(facts->rank - facts->report->ranks.at);

    return rank < facts->report->rank_times.len ? &facts->report->rank_times.at[rank] : NULL;
}

/* Of exposed communication: what the rank waits for late ranks, or its own late transfers, as far as they have a
 * verdict. */
static double late_ns(const TraceFacts *facts)
{
    const TraceStraggler *own = trace_straggler_of(facts->report, facts->rank->rank);
    const TraceRankTime *time = time_of_rank(facts);
    const bool sure = is_sure(facts->report, own);
    const double others = late_percent(facts->report, NULL) - (sure ? own->percent_of_step : 0);
    const bool transfers = sure && time && strcmp(own->cause, "transfers_late") == 0 && time->late_transfer_ns > 0;

    return others / 100 * facts->step_ns + (transfers ? time->late_transfer_ns : 0);
}

static bool is_transfer(const TraceCollective *row)
{
    return row->matched && (strcmp(row->name, "send") == 0 || strcmp(row->name, "recv") == 0);
}

static bool sends_and_receives(const TraceRank *rank)
{
    for (size_t i = 0; i < rank->collectives.len; i++)
        if (is_transfer(&rank->collectives.at[i]))
            return true;
    return false;
}

/* Waiting for other stages of a pipeline: 0 without one, and where it is not known. */
static double bubble_ns(const TraceFacts *facts)
{
    const TraceRankTime *time = time_of_rank(facts);
    const bool known = time && time->waiting_ns > 0 && sends_and_receives(facts->rank);

    return known ? fmin(time->waiting_ns, facts->exposed_communication_ns) : 0;
}

/* The largest group that sends and receives; 0 unknown. */
static double count_stages(const TraceRank *rank)
{
    int64_t stages = 0;

    for (size_t i = 0; i < rank->collectives.len; i++)
        if (is_transfer(&rank->collectives.at[i]) && rank->collectives.at[i].group_size > stages)
            stages = rank->collectives.at[i].group_size;
    return (double)stages;
}

/* Of p stages and m micro-batches one waits (p - 1) / m of its own time. What m = BATCHES_PER_STAGE * p leaves, or
 * twice as many micro-batches as now. */
static double bubble_gain_ns(const TraceFacts *facts, double waiting_ns)
{
    const double stages = count_stages(facts->rank), others = stages > 0 ? (stages - 1) / stages : 1;
    const TraceRankTime *time = time_of_rank(facts);
    const double own_ns = time ? time->own_ns : (double)NAN;

    return waiting_ns - fmin(own_ns * others / verdict_limits.BATCHES_PER_STAGE, waiting_ns / 2);
}

bool rule_pipeline_bubble(const TraceFacts *facts, VerdictFinding *finding)
{
    finding->cost_ns = bubble_ns(facts) - late_ns(facts);
    if (finding->cost_ns <= 0)
        return false;
    finding->gain = bubble_gain_ns(facts, finding->cost_ns) / finding->cost_ns;
    verdict_add_cost(facts, finding, "waiting for other stages while nothing computes: ");
    return true;
}

/* Of exposed communication: what has a verdict of its own, which is waiting for late ranks or other stages, and slow
 * links. */
static double explained_ns(const TraceFacts *facts)
{
    const SlowBus slow = find_slow_bus(facts);

    return slow.exposed_ns * slow.gain + fmax(bubble_ns(facts), late_ns(facts));
}

/* The mean communication kernel of a rank that has several per step: the last gradients come when nothing is left to
 * compute beside them. */
static double find_last_ns(const TraceRank *rank)
{
    double count = 0, ns = 0;

    for (size_t i = 0; i < rank->kernels.len; i++) {
        const TraceKernel *kernel = &rank->kernels.at[i];

        count += kernel->class == TRACE_COMMUNICATION ? (double)kernel->count : 0;
        ns += kernel->class == TRACE_COMMUNICATION ? (double)kernel->total_ns : 0;
    }
    return count > step_count(rank) * fmax((double)rank->devices.len, 1) ? ns / count : 0;
}

bool rule_exposed_communication(const TraceFacts *facts, VerdictFinding *finding)
{
    const double all_ns = facts->communication_ns, exposed_ns = facts->exposed_communication_ns;
    const double explained = explained_ns(facts);
    const double alone_ns = facts->compute_ns - (all_ns - exposed_ns); /* compute beside which nothing communicates */
    size_t said = 0;

    finding->cost_ns = exposed_ns - explained;
    if (finding->cost_ns <= 0)
        return false;
    finding->gain = fmin(finding->cost_ns - find_last_ns(facts->rank), alone_ns) / finding->cost_ns;
    verdict_add_cost(facts, finding,
                     explained > 0
                         ? "communication while nothing computes, less late ranks, other stages and slow links: "
                         : "communication while nothing computes: ");
    str_addf(&finding->evidence, "; %.1f %% of %s overlaps, and %s of compute could hide more",
             verdict_percent(all_ns - exposed_ns, all_ns), TIME_TEXT(all_ns), TIME_TEXT(fmax(alone_ns, 0)));
    for (size_t i = 0; i < facts->rank->kernels.len; i++) {
        const TraceKernel *kernel = &facts->rank->kernels.at[i];

        if (kernel->class != TRACE_COMMUNICATION)
            continue;
        if (!verdict_begin_name(&finding->evidence, &said, "; most in "))
            break;
        str_addf(&finding->evidence, "%s (%lld, %s)", NAME_TEXT(kernel->name), (long long)kernel->count,
                 TIME_TEXT(kernel->total_ns));
    }
    if (late_percent(facts->report, NULL) > 0)
        verdict_add_hint(finding, VERDICT_HINT_COMM_STRAGGLER);
    else if (facts->report->ranks.len == 1)
        verdict_add_hint(finding, VERDICT_HINT_COMM_RANKS);
    if (mostly_small(facts->rank))
        verdict_add_hint(finding, VERDICT_HINT_COMM_BUCKETS);
    if (exposed_ns >= all_ns)
        verdict_add_hint(finding, VERDICT_HINT_COMM_NO_OVERLAP);
    verdict_add_hint(finding, VERDICT_HINT_COMM_LESS);
    return true;
}

/* All ranks of one host are given, and the GPU's links are known: only then can a bandwidth be called low. */
bool rule_low_bus_bandwidth(const TraceFacts *facts, VerdictFinding *finding)
{
    const SlowBus slow = find_slow_bus(facts);

    if (!slow.worst)
        return false;
    finding->cost_ns = slow.exposed_ns;
    finding->gain = slow.gain;
    verdict_add_cost(facts, finding, "slow collectives exposed: ");
    str_addf(&finding->evidence,
             "; %s of %s over %lld ranks of one host reaches %.1f GB/s of bus bandwidth; %s has links of %.0f GB/s",
             slow.worst->name, BYTES_TEXT(slow.worst->bytes), (long long)slow.worst->group_size, slow.worst->bus_gbs,
             facts->rank->devices.at[0].name, link_speed(facts->rank));
    return finding->cost_ns > 0;
}

/* What waiting for others can cost on the GPUs' own time: exposed communication, and idle in host waits. Mean over
 * the ranks that are not late; `facts` is the first of all ranks'. */
static double waiting_ns(const TraceFacts *facts)
{
    const TraceReport *report = facts->report;
    double ns = 0, ranks = 0;

    for (size_t i = 0; i < report->ranks.len; i++) {
        if (trace_is_late(report, report->ranks.at[i].rank))
            continue;
        ns += facts[i].exposed_communication_ns + facts[i].idle_by_cause[TRACE_CAUSE_COLLECTIVE_WAIT];
        ranks++;
    }
    return ranks > 0 ? ns / ranks : 0;
}

/* "its host is late, mostly data_loading" */
static const char *describe_cause(const TraceStraggler *straggler, Str *room, VerdictHint *ret_hint)
{
    static const struct {
        const char *cause, *one, *several;
        VerdictHint hint;
    } causes[] = {
        {"computes_late", "it computes longer", "they compute longer", VERDICT_HINT_LATE_COMPUTE},
        {"host_late", "its host is late", "their hosts are late", VERDICT_HINT_LATE_HOST},
        {"copies_late", "its copies take longer", "their copies take longer", VERDICT_HINT_LATE_COPY},
        {"transfers_late", "its transfers take longer", "transfers among them take longer", VERDICT_HINT_LATE_TRANSFER},
        {"unknown", "the profile does not show why", "the profile does not show why", VERDICT_HINT_LATE_UNKNOWN}};

    for (size_t i = 0; i < ARRAY_LEN(causes); i++)
        if (strcmp(causes[i].cause, straggler->cause) == 0) {
            str_add(room, straggler->ranks.len > 1 ? causes[i].several : causes[i].one);
            *ret_hint = causes[i].hint;
        }
    if (straggler->host_cause && *straggler->host_cause)
        str_addf(room, " (%s)", WORD_TEXT(straggler->host_cause));
    return room->text;
}

bool rule_straggler(const TraceFacts *facts, VerdictFinding *finding)
{
    const TraceStraggler *straggler = facts->straggler;
    const double waiting = waiting_ns(facts);
    CLEANUP(str_done) Str cause = str_limited(128);
    VerdictHint hint = VERDICT_HINT_LATE_UNKNOWN;

    if (!is_sure(facts->report, straggler))
        return false;
    const double percent = fmax(straggler->cost_percent, straggler->percent_of_step);
    const double saved_ns = fmin(late_percent(facts->report, straggler) / 100 * facts->step_ns, waiting);

    finding->rank = straggler->rank;
    finding->cost_ns = fmin(percent / 100 * facts->step_ns, waiting);
    finding->gain = straggler->percent_of_step / percent;
    str_addf(
        &finding->evidence,
        "%s: %s late per step, %s; last in %.0f %% of %lld collectives; if %s as the others%s, a step would take %s "
        "instead of %s",
        straggler->label, TIME_TEXT(straggler->late_step_ns), describe_cause(straggler, &cause, &hint),
        100 * straggler->share, (long long)straggler->matched, straggler->ranks.len > 1 ? "they were" : "it were",
        straggler == &facts->report->straggler ? "" : " too", TIME_TEXT(facts->step_ns - saved_ns),
        TIME_TEXT(facts->step_ns));
    if (straggler->ranks.len > 1)
        str_addf(&finding->evidence, "; rank %lld alone %.1f %%", (long long)straggler->rank, straggler->alone_percent);
    verdict_add_hint(finding, hint);
    return finding->cost_ns > 0;
}
