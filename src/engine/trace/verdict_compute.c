/* SPDX-License-Identifier: Apache-2.0 */
/* Rules of what computes: types, shapes, and how full the GPU is. */
#include "engine/trace/verdict.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "base/cleanup.h"
#include "engine/trace/tables.h"

/* The share of a step of work that takes `ns` of all compute time. */
static double of_compute(const TraceFacts *facts, double ns)
{
    return facts->whole_compute_ns > 0 ? facts->compute_ns * fmin(1, ns / facts->whole_compute_ns) : 0;
}

static double tensor_core_speed(const TraceRank *rank)
{
    const TraceDevice *device = rank->devices.at;

    return rank->devices.len > 0 ? peak_find_tensor_speed(device->name, rank->rocm, device->major, device->minor) : 0;
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

/* Operators are in the order of their GPU time, kernels too. */
static void add_float_names(Str *out, const TraceRank *rank, bool by_operator)
{
    const TraceOperator *operators = rank->operators.at;
    const TraceKernel *kernels = rank->kernels.at;
    size_t said = 0;

    for (size_t i = 0; i < (by_operator ? rank->operators.len : rank->kernels.len); i++) {
        if (by_operator ? !operators[i].matrix || operators[i].float_ns <= 0 : !kernels[i].float_matrix)
            continue;
        if (!verdict_begin_name(out, &said, "; most in "))
            return;
        str_addf(out, "%s (%s)", NAME_TEXT(by_operator ? operators[i].name : kernels[i].name),
                 TIME_TEXT(by_operator ? operators[i].float_ns : kernels[i].total_ns));
    }
}

bool rule_mixed_precision(const TraceFacts *facts, VerdictFinding *finding)
{
    const Matrices work = matrix_work(facts->rank);
    const double times = tensor_core_speed(facts->rank);
    const TraceDevice *device = facts->rank->devices.at;

    if (work.float_ns <= 0 || times <= 1 ||
        work.tensor_ns > verdict_limits.TENSOR_CORE_IDLE * (work.tensor_ns + work.float_ns))
        return false;
    finding->cost_ns = of_compute(facts, work.float_ns);
    verdict_add_cost(facts, finding, "matrix work in 32-bit float without tensor cores: ");
    add_float_names(&finding->evidence, facts->rank, work.by_operator);
    str_addf(&finding->evidence, "; on tensor cores %s", TIME_TEXT(work.tensor_ns));
    if (*device->name)
        str_addf(&finding->evidence, "; %s has them, %.3g times as fast at most", device->name, times);
    finding->gain = 1 - 1 / times;
    if (!facts->rank->rocm && device->major == 7) {
        verdict_add_hint(finding, VERDICT_HINT_FLOAT16);
    } else {
        verdict_add_hint(finding, VERDICT_HINT_BFLOAT16);
        if (!facts->rank->rocm && device->major >= 8)
            verdict_add_hint(finding, VERDICT_HINT_TF32);
    }
    return finding->cost_ns > 0;
}

/* Shapes as the file has them, in its own line breaks and blanks: "[[96, 788], []]". */
static void add_compact(Str *out, const char *shapes)
{
    const size_t begin = out->len;

    for (const char *c = shapes; *c && out->len - begin < VERDICT_NAME_BYTES; c++)
        if (!isspace((unsigned char)*c))
            str_addf(out, "%c%s", *c, *c == ',' ? " " : "");
    if (out->len - begin >= VERDICT_NAME_BYTES)
        str_add(out, "...");
}

/* What alignment could give: on tensor cores wider loads, off them the tensor cores. */
static double misaligned_gain(const TraceFacts *facts, double misaligned_ns, double on_tensor_cores_ns)
{
    const double share = fmin(1, on_tensor_cores_ns / misaligned_ns);

    return share * verdict_limits.WIDER_LOADS + (1 - share) * (1 - 1 / tensor_core_speed(facts->rank));
}

bool rule_misaligned(const TraceFacts *facts, VerdictFinding *finding)
{
    const TraceOperator *worst = NULL;
    int64_t count = 0, shaped = 0;
    double ns = 0, tensor_ns = 0;

    for (size_t i = 0; i < facts->rank->operators.len; i++) {
        const TraceOperator *row = &facts->rank->operators.at[i];

        if (row->misaligned_count < 0 || row->device_self_ns <= 0)
            continue;
        shaped += row->shaped_count;
        if (row->misaligned_ns <= 0) /* the kernels' names say that they are aligned */
            continue;
        count += row->misaligned_count;
        ns += (double)row->misaligned_ns;
        tensor_ns += fmin((double)row->misaligned_ns, (double)row->tensor_core_ns);
        if (!worst || row->misaligned_ns > worst->misaligned_ns)
            worst = row;
    }
    if (!worst || tensor_core_speed(facts->rank) <= 1)
        return false;
    finding->cost_ns = of_compute(facts, ns);
    finding->gain = misaligned_gain(facts, ns, tensor_ns);
    str_addf(&finding->evidence,
             "%lld of %lld matrix operators have dimensions that do not suit tensor cores: ", (long long)count,
             (long long)shaped);
    verdict_add_cost(facts, finding, "");
    str_addf(&finding->evidence, "; most in %s ", NAME_TEXT(worst->name));
    add_compact(&finding->evidence, worst->misaligned_dims);
    return finding->cost_ns > 0;
}

static double empty_ns(const TraceKernel *kernel)
{
    return kernel->class == TRACE_COMPUTE ? kernel->empty_ns : 0;
}

/* Enough blocks, few warps, and no matrix kernel: those do well with few. */
static double starved_ns(const TraceKernel *kernel)
{
    const bool starved = kernel->class == TRACE_COMPUTE && !kernel->tensor_core && !kernel->tensor_unknown &&
                         !kernel->float_matrix && kernel->occupancy_percent < verdict_limits.OCCUPANCY_LOW &&
                         kernel->blocks_per_sm >= 1;

    return starved ? (double)kernel->occupancy_ns * (1 - kernel->occupancy_percent / 100) : 0;
}

static void describe_blocks(Str *out, const TraceKernel *kernel)
{
    str_addf(out, "%.2f blocks per multiprocessor", kernel->blocks_per_sm);
}

static void describe_warps(Str *out, const TraceKernel *kernel)
{
    str_addf(out, "occupancy %.0f %%", kernel->occupancy_percent);
    if (kernel->registers > 0)
        str_addf(out, ", %lld registers", (long long)kernel->registers);
}

/* Kernels that leave a part of the GPU unused: how much of a kernel's time (0: it does not), and how. */
static bool find_slack(const TraceFacts *facts, VerdictFinding *finding, const char *what,
                       double (*kernel_lost_ns)(const TraceKernel *kernel),
                       void (*describe)(Str *out, const TraceKernel *kernel))
{
    const TraceRank *rank = facts->rank;
    double lost_ns = 0;
    size_t said = 0;

    for (size_t i = 0; i < rank->kernels.len; i++)
        lost_ns += kernel_lost_ns(&rank->kernels.at[i]);
    if (lost_ns <= 0 || facts->busy_ns < verdict_limits.SM_BUSY_SHARE * facts->step_ns)
        return false;
    finding->cost_ns = of_compute(facts, lost_ns);
    verdict_add_cost(facts, finding, what);
    for (size_t i = 0; i < rank->kernels.len; i++) {
        const TraceKernel *kernel = &rank->kernels.at[i];

        if (kernel_lost_ns(kernel) <= 0)
            continue;
        if (!verdict_begin_name(&finding->evidence, &said, "; "))
            break;
        str_addf(&finding->evidence, "%s (", NAME_TEXT(kernel->name));
        describe(&finding->evidence, kernel);
        str_addf(&finding->evidence, ", %s)", TIME_TEXT(kernel->total_ns));
    }
    return true;
}

bool rule_low_sm_efficiency(const TraceFacts *facts, VerdictFinding *finding)
{
    return find_slack(facts, finding, "multiprocessors without a block while kernels run: ", empty_ns, describe_blocks);
}

bool rule_low_occupancy(const TraceFacts *facts, VerdictFinding *finding)
{
    return find_slack(facts, finding, "kernels with few warps: ", starved_ns, describe_warps);
}
