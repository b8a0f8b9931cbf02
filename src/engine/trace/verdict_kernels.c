/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about what computes: types, shapes, and how full the GPU is. */
#include <math.h>
#include <string.h>

#include "engine/trace/verdict.h"

/* The share of a step of work that takes `ns` of all compute time. */
static double of_compute(const VerdictFacts *facts, double ns)
{
    return facts->whole_compute_ns > 0 ? facts->compute_ns * fmin(1, ns / facts->whole_compute_ns) : 0;
}

static bool has_tensor_cores(const TraceRank *rank)
{
    static const char *const nvidia[] = {"V100", "T4",   "A100", "A10",  "A30",  "A40",  "A800", "L4",     "L20",
                                         "L40",  "H100", "H20",  "H800", "B200", "B300", "RTX",  "TITAN V"};
    static const char *const amd[] = {"MI100", "MI2", "MI3"};
    const TraceDevice *device;

    if (rank->devices.len == 0)
        return false;
    device = &rank->devices.at[0];
    for (size_t i = 0; i < sizeof amd / sizeof amd[0] && rank->rocm; i++)
        if (strstr(device->name, amd[i]))
            return true;
    if (rank->rocm || strstr(device->name, "GTX 16")) /* Turing without tensor cores */
        return false;
    for (size_t i = 0; i < sizeof nvidia / sizeof nvidia[0] && device->major < 0; i++)
        if (strstr(device->name, nvidia[i]))
            return true;
    return device->major >= 7;
}

typedef struct Matrices {
    double float_ns, tensor_ns;
    bool by_operator;
} Matrices;

/* Matrix work by operators where kernels could be joined to them, else by the kernels' names. */
static Matrices matrix_work(const TraceRank *rank)
{
    Matrices work = {0};

    for (size_t i = 0; i < rank->operators.len; i++) {
        const TraceOperator *row = &rank->operators.at[i];

        work.by_operator |= row->matrix && row->device_self_ns > 0;
        work.float_ns += row->matrix ? (double)row->float_ns : 0;
        work.tensor_ns += row->matrix ? (double)row->tensor_core_ns : 0;
    }
    if (work.by_operator)
        return work;
    for (size_t i = 0; i < rank->kernels.len; i++) {
        work.float_ns += rank->kernels.at[i].float_matrix ? (double)rank->kernels.at[i].total_ns : 0;
        work.tensor_ns += rank->kernels.at[i].tensor_core ? (double)rank->kernels.at[i].total_ns : 0;
    }
    return work;
}

static void add_float_names(Str *out, const TraceRank *rank, bool by_operator)
{
    VEC(size_t) rows = {0};
    size_t said = 0;

    /* Operators are in the order of their GPU time, kernels too. */
    for (size_t i = 0; by_operator && i < rank->operators.len; i++)
        if (rank->operators.at[i].matrix && rank->operators.at[i].float_ns > 0)
            vec_push(&rows, i);
    for (size_t i = 0; !by_operator && i < rank->kernels.len; i++)
        if (rank->kernels.at[i].float_matrix)
            vec_push(&rows, i);
    for (; said < rows.len && (double)said < verdict_limit(VERDICT_LIMIT_NAMED); said++) {
        size_t row = rows.at[said];

        str_add(out, said == 0 ? "; most in " : ", ");
        verdict_add_name(out, by_operator ? rank->operators.at[row].name : rank->kernels.at[row].name);
        str_add(out, " (");
        verdict_add_time(out,
                         (double)(by_operator ? rank->operators.at[row].float_ns : rank->kernels.at[row].total_ns));
        str_addc(out, ')');
    }
    vec_done(&rows);
}

bool rule_mixed_precision(const VerdictFacts *facts, VerdictFinding *finding)
{
    Matrices work = matrix_work(facts->rank);

    if (work.float_ns <= 0 || !has_tensor_cores(facts->rank) ||
        work.tensor_ns > verdict_limit(VERDICT_LIMIT_TENSOR_CORE_IDLE) * (work.tensor_ns + work.float_ns))
        return false;
    finding->cost_ns = of_compute(facts, work.float_ns);
    str_add(&finding->evidence, "matrix work in 32-bit float without tensor cores: ");
    verdict_add_cost(&finding->evidence, facts, finding->cost_ns);
    add_float_names(&finding->evidence, facts->rank, work.by_operator);
    str_add(&finding->evidence, "; on tensor cores ");
    verdict_add_time(&finding->evidence, work.tensor_ns);
    if (*facts->rank->devices.at[0].name)
        str_addf(&finding->evidence, "; %s has them", facts->rank->devices.at[0].name);
    if (!facts->rank->rocm && facts->rank->devices.at[0].major == 7) {
        verdict_hint(finding, VERDICT_HINT_FLOAT16);
    } else {
        verdict_hint(finding, VERDICT_HINT_BFLOAT16);
        if (!facts->rank->rocm && facts->rank->devices.at[0].major >= 8)
            verdict_hint(finding, VERDICT_HINT_TF32);
    }
    return finding->cost_ns > 0;
}

bool rule_misaligned(const VerdictFacts *facts, VerdictFinding *finding)
{
    const TraceOperator *worst = NULL;
    int64_t count = 0, shaped = 0;
    double ns = 0;

    for (size_t i = 0; i < facts->rank->operators.len; i++) {
        const TraceOperator *row = &facts->rank->operators.at[i];

        if (row->misaligned_count < 0 || row->device_self_ns <= 0)
            continue;
        shaped += row->shaped_count;
        count += row->misaligned_count;
        ns += (double)row->misaligned_ns;
        if (row->misaligned_ns > 0 && (!worst || row->misaligned_ns > worst->misaligned_ns))
            worst = row;
    }
    if (!worst || !has_tensor_cores(facts->rank))
        return false;
    finding->cost_ns = of_compute(facts, ns);
    str_addf(&finding->evidence,
             "%lld of %lld matrix operators have dimensions that do not suit tensor cores: ", (long long)count,
             (long long)shaped);
    verdict_add_cost(&finding->evidence, facts, finding->cost_ns);
    str_add(&finding->evidence, "; most in ");
    verdict_add_name(&finding->evidence, worst->name);
    str_addc(&finding->evidence, ' ');
    verdict_add_name(&finding->evidence, worst->misaligned_dims);
    return finding->cost_ns > 0;
}

static bool kernels_matter(const VerdictFacts *facts)
{
    return facts->busy_ns >= verdict_limit(VERDICT_LIMIT_SM_BUSY_SHARE) * facts->step_ns;
}

static bool in_few_blocks(const TraceKernel *kernel)
{
    return kernel->class == TRACE_COMPUTE && kernel->sm_efficiency < 1; /* false for NaN */
}

bool rule_low_sm_efficiency(const VerdictFacts *facts, VerdictFinding *finding)
{
    double empty_ns = 0;
    size_t said = 0;

    for (size_t i = 0; i < facts->rank->kernels.len; i++)
        if (in_few_blocks(&facts->rank->kernels.at[i]))
            empty_ns += (double)facts->rank->kernels.at[i].blocks_ns * (1 - facts->rank->kernels.at[i].sm_efficiency);
    if (empty_ns <= 0 || !kernels_matter(facts))
        return false;
    finding->cost_ns = of_compute(facts, empty_ns);
    str_add(&finding->evidence, "multiprocessors without a block while kernels run: ");
    verdict_add_cost(&finding->evidence, facts, finding->cost_ns);
    for (size_t i = 0; i < facts->rank->kernels.len && (double)said < verdict_limit(VERDICT_LIMIT_NAMED); i++) {
        const TraceKernel *kernel = &facts->rank->kernels.at[i];

        if (!in_few_blocks(kernel))
            continue;
        str_add(&finding->evidence, said++ == 0 ? "; " : ", ");
        verdict_add_name(&finding->evidence, kernel->name);
        str_addf(&finding->evidence, " (%.2f blocks per multiprocessor, ", kernel->blocks_per_sm);
        verdict_add_time(&finding->evidence, (double)kernel->total_ns);
        str_addc(&finding->evidence, ')');
    }
    return true;
}

/* Enough blocks, few warps, and no matrix kernel: those do well with few. */
static bool is_starved(const TraceKernel *kernel)
{
    return kernel->class == TRACE_COMPUTE && !kernel->tensor_core && !kernel->float_matrix &&
           kernel->occupancy_percent < verdict_limit(VERDICT_LIMIT_OCCUPANCY_LOW) && kernel->blocks_per_sm >= 1;
}

bool rule_low_occupancy(const VerdictFacts *facts, VerdictFinding *finding)
{
    double missing_ns = 0;
    size_t said = 0;

    for (size_t i = 0; i < facts->rank->kernels.len; i++)
        if (is_starved(&facts->rank->kernels.at[i]))
            missing_ns += (double)facts->rank->kernels.at[i].occupancy_ns *
                          (1 - facts->rank->kernels.at[i].occupancy_percent / 100);
    if (missing_ns <= 0 || !kernels_matter(facts))
        return false;
    finding->cost_ns = of_compute(facts, missing_ns);
    str_add(&finding->evidence, "kernels with few warps: ");
    verdict_add_cost(&finding->evidence, facts, finding->cost_ns);
    for (size_t i = 0; i < facts->rank->kernels.len && (double)said < verdict_limit(VERDICT_LIMIT_NAMED); i++) {
        const TraceKernel *kernel = &facts->rank->kernels.at[i];

        if (!is_starved(kernel))
            continue;
        str_add(&finding->evidence, said++ == 0 ? "; " : ", ");
        verdict_add_name(&finding->evidence, kernel->name);
        str_addf(&finding->evidence, " (occupancy %.0f %%, ", kernel->occupancy_percent);
        if (kernel->registers > 0)
            str_addf(&finding->evidence, "%lld registers, ", (long long)kernel->registers);
        verdict_add_time(&finding->evidence, (double)kernel->total_ns);
        str_addc(&finding->evidence, ')');
    }
    return true;
}

/* ---- copies and communication ---- */

/* Rules about what moves data: copies and communication. */

/* ---- copies: exposed time by what would help ---- */

typedef struct CopyParts {
    double pageable, small, rest; /* shares of the exposed copy time; 0 without copies */
    bool has_pageable;            /* some that are not small */
    const TraceCopy *largest;     /* of the rest */
    int64_t small_count, pageable_bytes;
    double pageable_ns, small_ns;
} CopyParts;

static bool to_or_from_host(const TraceCopy *copy)
{
    return strcmp(copy->kind, "HtoD") == 0 || strcmp(copy->kind, "DtoH") == 0;
}

static bool is_pageable(const TraceCopy *copy)
{
    return to_or_from_host(copy) && (strcmp(copy->source, "pageable") == 0 || strcmp(copy->target, "pageable") == 0);
}

static void add_copy(CopyParts *parts, const TraceCopy *copy)
{
    double exposed = copy->exposed_ns > 0 ? (double)copy->exposed_ns : 0;
    double small = to_or_from_host(copy) && copy->total_ns > 0 ? (double)copy->small_ns / (double)copy->total_ns : 0;

    parts->small += small * exposed;
    if (to_or_from_host(copy)) {
        parts->small_count += copy->small_count;
        parts->small_ns += (double)copy->small_ns;
    }
    if (is_pageable(copy) && copy->count > copy->small_count) {
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

static CopyParts copy_parts(const VerdictFacts *facts)
{
    CopyParts parts = {0};
    double all;

    for (size_t i = 0; i < facts->rank->copies.len; i++)
        add_copy(&parts, &facts->rank->copies.at[i]);
    all = parts.pageable + parts.small + parts.rest;
    if (all > 0) {
        parts.pageable /= all;
        parts.small /= all;
        parts.rest /= all;
    }
    return parts;
}

static double steps_of(const VerdictFacts *facts)
{
    return facts->rank->steps.len > 0 ? (double)facts->rank->steps.len : 1;
}

static bool many_small(const VerdictFacts *facts, const CopyParts *parts)
{
    return (double)parts->small_count >= verdict_limit(VERDICT_LIMIT_SMALL_COPIES_PER_STEP) * steps_of(facts);
}

/* Idle while the host was in a blocking copy belongs to the kind of copy that blocks. */
static double blocked_ns(const VerdictFacts *facts)
{
    return facts->idle_by_cause[TRACE_CAUSE_COPY];
}

static void add_idle_part(const VerdictFacts *facts, VerdictFinding *finding)
{
    if (blocked_ns(facts) <= 0)
        return;
    str_add(&finding->evidence, ", of it idle while the host was in a copy ");
    verdict_add_time(&finding->evidence, blocked_ns(facts));
    verdict_add_gaps(&finding->evidence, facts, TRACE_CAUSE_COPY);
}

bool rule_pageable_copy(const VerdictFacts *facts, VerdictFinding *finding)
{
    CopyParts parts = copy_parts(facts);

    if (!parts.has_pageable)
        return false;
    finding->cost_ns = facts->exposed_copy_ns * parts.pageable + blocked_ns(facts);
    str_add(&finding->evidence, "pageable copies keep the GPU from computing: ");
    verdict_add_cost(&finding->evidence, facts, finding->cost_ns);
    add_idle_part(facts, finding);
    str_add(&finding->evidence, "; in all ");
    verdict_add_bytes(&finding->evidence, (double)parts.pageable_bytes);
    if (parts.pageable_ns > 0)
        str_addf(&finding->evidence, " at %.1f GB/s", (double)parts.pageable_bytes / parts.pageable_ns);
    return finding->cost_ns > 0;
}

bool rule_small_copies(const VerdictFacts *facts, VerdictFinding *finding)
{
    CopyParts parts = copy_parts(facts);

    if (!many_small(facts, &parts))
        return false;
    finding->cost_ns = facts->exposed_copy_ns * parts.small + (parts.has_pageable ? 0 : blocked_ns(facts));
    str_add(&finding->evidence, "small copies between host and device: ");
    verdict_add_cost(&finding->evidence, facts, finding->cost_ns);
    if (!parts.has_pageable)
        add_idle_part(facts, finding);
    str_addf(&finding->evidence, "; %lld under 64 KiB", (long long)parts.small_count);
    if (facts->rank->steps.len > 0)
        str_addf(&finding->evidence, " in %zu steps", facts->rank->steps.len);
    str_add(&finding->evidence, ", ");
    verdict_add_time(&finding->evidence, parts.small_ns);
    return finding->cost_ns > 0;
}

bool rule_exposed_copy(const VerdictFacts *facts, VerdictFinding *finding)
{
    CopyParts parts = copy_parts(facts);
    bool blocks = !parts.has_pageable && !many_small(facts, &parts);

    finding->cost_ns = facts->exposed_copy_ns * parts.rest + (blocks ? blocked_ns(facts) : 0);
    if (!parts.largest || finding->cost_ns <= 0)
        return false;
    str_add(&finding->evidence, "copies while nothing computes: ");
    verdict_add_cost(&finding->evidence, facts, finding->cost_ns);
    if (blocks)
        add_idle_part(facts, finding);
    str_addf(&finding->evidence, "; most in %s: %lld, ", parts.largest->kind, (long long)parts.largest->count);
    verdict_add_bytes(&finding->evidence, (double)parts.largest->bytes);
    if (!isnan(parts.largest->bandwidth_gbs))
        str_addf(&finding->evidence, " at %.1f GB/s", parts.largest->bandwidth_gbs);
    if (strcmp(parts.largest->kind, "HtoD") == 0)
        verdict_hint(finding, VERDICT_HINT_COPY_HTOD);
    else if (strcmp(parts.largest->kind, "DtoH") == 0)
        verdict_hint(finding, VERDICT_HINT_COPY_DTOH);
    else if (strcmp(parts.largest->kind, "DtoD") == 0)
        verdict_hint(finding, VERDICT_HINT_COPY_DTOD);
    else if (strcmp(parts.largest->kind, "set") == 0)
        verdict_hint(finding, VERDICT_HINT_COPY_SET);
    return true;
}

/* ---- communication ---- */

/* Without sizes: many and short ones. */
static bool many_short(const TraceRank *rank)
{
    double count = 0, ns = 0, steps = rank->steps.len > 0 ? (double)rank->steps.len : 1;

    for (size_t i = 0; i < rank->kernels.len; i++) {
        if (rank->kernels.at[i].class != TRACE_COMMUNICATION)
            continue;
        count += (double)rank->kernels.at[i].count;
        ns += (double)rank->kernels.at[i].total_ns;
    }
    return count > verdict_limit(VERDICT_LIMIT_MANY_COLLECTIVES) * steps &&
           ns < verdict_limit(VERDICT_LIMIT_SHORT_COLLECTIVE_NS) * count;
}

static bool mostly_small(const TraceRank *rank)
{
    size_t known = 0, small = 0;

    for (size_t i = 0; i < rank->collectives.len; i++) {
        int64_t bytes = rank->collectives.at[i].in_bytes;

        known += bytes > 0;
        small += bytes > 0 && (double)bytes < verdict_limit(VERDICT_LIMIT_SMALL_COLLECTIVE_BYTES);
    }
    return known > 0 ? (double)small > verdict_limit(VERDICT_LIMIT_SMALL_COLLECTIVE_SHARE) * (double)known
                     : many_short(rank);
}

static void add_kernels(Str *out, const TraceRank *rank, TraceClass class)
{
    size_t said = 0;

    for (size_t i = 0; i < rank->kernels.len && (double)said < verdict_limit(VERDICT_LIMIT_NAMED); i++) {
        const TraceKernel *kernel = &rank->kernels.at[i];

        if (kernel->class != class)
            continue;
        str_add(out, said++ == 0 ? "; most in " : ", ");
        verdict_add_name(out, kernel->name);
        str_addf(out, " (%lld, ", (long long)kernel->count);
        verdict_add_time(out, (double)kernel->total_ns);
        str_addc(out, ')');
    }
}

static bool is_late(const TraceReport *report)
{
    return report->straggler.rank >= 0 && report->ranks.len > 1 &&
           report->straggler.confidence >= verdict_limit(VERDICT_LIMIT_STRAGGLER_CONFIDENCE);
}

bool rule_exposed_communication(const VerdictFacts *facts, VerdictFinding *finding)
{
    finding->cost_ns = facts->exposed_communication_ns;
    if (finding->cost_ns <= 0)
        return false;
    str_add(&finding->evidence, "communication while nothing computes: ");
    verdict_add_cost(&finding->evidence, facts, finding->cost_ns);
    str_add(&finding->evidence, "; ");
    verdict_add_percent(&finding->evidence, facts->communication_ns - facts->exposed_communication_ns,
                        facts->communication_ns);
    str_add(&finding->evidence, " of ");
    verdict_add_time(&finding->evidence, facts->communication_ns);
    str_add(&finding->evidence, " overlaps");
    add_kernels(&finding->evidence, facts->rank, TRACE_COMMUNICATION);
    if (is_late(facts->report))
        verdict_hint(finding, VERDICT_HINT_COMM_STRAGGLER);
    else if (facts->report->ranks.len == 1)
        verdict_hint(finding, VERDICT_HINT_COMM_RANKS);
    if (mostly_small(facts->rank))
        verdict_hint(finding, VERDICT_HINT_COMM_BUCKETS);
    if (facts->exposed_communication_ns >= facts->communication_ns)
        verdict_hint(finding, VERDICT_HINT_COMM_NO_OVERLAP);
    verdict_hint(finding, VERDICT_HINT_COMM_LESS);
    return true;
}

static bool on_one_host(const TraceReport *report)
{
    for (size_t i = 0; i < report->ranks.len; i++)
        if (!*report->ranks.at[i].host || strcmp(report->ranks.at[i].host, report->ranks.at[0].host) != 0)
            return false;
    return report->ranks.len > 1;
}

/* All ranks of one host are given, and the GPU's links are known: only then can a bandwidth be called low. */
bool rule_low_bus_bandwidth(const VerdictFacts *facts, VerdictFinding *finding)
{
    double link = verdict_link_gbs(facts->rank), slow_ns = 0, could_ns = 0;
    const TraceCollectiveSum *worst = NULL;

    if (link <= 0 || facts->whole_communication_ns <= 0 || !on_one_host(facts->report))
        return false;
    for (size_t i = 0; i < facts->report->collectives.len; i++) {
        const TraceCollectiveSum *sum = &facts->report->collectives.at[i];

        if (sum->group_size != (int64_t)facts->report->ranks.len || sum->matched == 0 || isnan(sum->bus_gbs) ||
            (double)sum->bytes < verdict_limit(VERDICT_LIMIT_BUS_BYTES) ||
            sum->bus_gbs >= verdict_limit(VERDICT_LIMIT_BUS_SHARE) * link)
            continue;
        slow_ns += (double)sum->best_ns * (double)sum->matched;
        could_ns += (double)sum->best_ns * (double)sum->matched * sum->bus_gbs / link;
        if (!worst || sum->total_ns > worst->total_ns)
            worst = sum;
    }
    if (!worst)
        return false;
    finding->cost_ns = facts->exposed_communication_ns *
                       fmin(1, slow_ns * (double)facts->rank->devices.len / facts->whole_communication_ns);
    finding->gain = 1 - could_ns / slow_ns;
    str_add(&finding->evidence, "slow collectives exposed: ");
    verdict_add_cost(&finding->evidence, facts, finding->cost_ns);
    str_addf(&finding->evidence, "; %s of ", worst->name);
    verdict_add_bytes(&finding->evidence, (double)worst->bytes);
    str_addf(&finding->evidence,
             " over %lld ranks of one host reaches %.1f GB/s of bus bandwidth; %s has links of %.0f GB/s",
             (long long)worst->group_size, worst->bus_gbs, facts->rank->devices.at[0].name, link);
    return finding->cost_ns > 0;
}

/* What waiting for others can cost on the GPUs' own time: exposed communication, and idle in host waits. Mean over
 * the ranks that wait; `facts` is the first of all ranks'. */
static double waiting_ns(const VerdictFacts *facts, int64_t late_rank)
{
    const TraceReport *report = facts->report;
    double ns = 0, ranks = 0;

    for (size_t i = 0; i < report->ranks.len; i++) {
        if (report->ranks.at[i].rank == late_rank)
            continue;
        ns += facts[i].exposed_communication_ns + facts[i].idle_by_cause[TRACE_CAUSE_COLLECTIVE_WAIT];
        ranks++;
    }
    return ranks > 0 ? ns / ranks : 0;
}

bool rule_straggler(const VerdictFacts *facts, VerdictFinding *finding)
{
    static const struct {
        const char *cause;
        VerdictHint hint;
    } hints[] = {{"computes_late", VERDICT_HINT_LATE_COMPUTE},
                 {"host_late", VERDICT_HINT_LATE_HOST},
                 {"copies_late", VERDICT_HINT_LATE_COPY},
                 {"unknown", VERDICT_HINT_LATE_UNKNOWN}};
    const TraceStraggler *straggler = &facts->report->straggler;

    if (!is_late(facts->report))
        return false;
    finding->rank = straggler->rank;
    finding->cost_ns = fmin(straggler->percent_of_step / 100 * facts->step_ns, waiting_ns(facts, straggler->rank));
    str_addf(&finding->evidence, "rank %lld comes ", (long long)straggler->rank);
    verdict_add_time(&finding->evidence, straggler->late_ns);
    str_addf(&finding->evidence,
             " late to each collective (%s), last in %.0f %% of %lld; the others wait "
             "with nothing to compute ",
             straggler->cause, 100 * straggler->share, (long long)straggler->matched);
    verdict_add_cost(&finding->evidence, facts, finding->cost_ns);
    for (size_t i = 0; i < sizeof hints / sizeof hints[0]; i++)
        if (strcmp(hints[i].cause, straggler->cause) == 0)
            verdict_hint(finding, hints[i].hint);
    return finding->cost_ns > 0;
}
