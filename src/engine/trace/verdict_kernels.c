/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about what computes: types, shapes, and how full the GPU is. */
#include <math.h>
#include <string.h>

#include "engine/trace/verdict.h"

/* The time in a step of what takes `ns` of all compute time. */
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
