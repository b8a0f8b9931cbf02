/* SPDX-License-Identifier: Apache-2.0 */
/* Operators by name. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/trace/named.h"
#include "engine/trace/nest.h"
#include "engine/trace/shapes.h"
#include "engine/trace/analyse.h"

typedef struct Operators {
    const TraceJob *job;
    TraceNest nest;
    TraceNamed named;
    VEC(TraceOperator) rows;
    VEC(uint8_t) rules;   /* row -> TraceShapeRule */
    uint32_t *judged;     /* detail -> 5 bits per rule: 1 judged, then TRACE_SHAPE_* */
    int64_t *device_ns;   /* member -> GPU time launched by it */
    int64_t *dims_ns;     /* detail -> GPU time of misaligned operators with it */
    uint32_t *dims_row;   /* detail -> row of the first of them */
    uint8_t *kernel_says; /* name -> 1 known, 2 tensor core, 4 float matrix product */
} Operators;

enum { JUDGED_BITS = 5, SAYS_KNOWN = 1, SAYS_TENSOR = 2, SAYS_FLOAT = 4 };

_Static_assert(TRACE_SHAPE_RULE_COUNT *JUDGED_BITS <= 32, "a word per detail");

__attribute__((noinline)) static void add_row(Operators *operators, uint32_t name)
{
    size_t len;
    const char *text = profile_text(operators->job->index->profile, name, &len);

    vec_push(&operators->rows, ((TraceOperator){.name = arena_strndup(operators->job->arena, text, len),
                                                .matrix = trace_is_matrix_op(text, len),
                                                .misaligned_dims = ""}));
    vec_push(&operators->rules, (uint8_t)trace_shape_rule(text, len));
}

static inline uint32_t row_of(Operators *operators, uint32_t name)
{
    uint32_t number = trace_named_row(&operators->named, name);

    if (number == operators->rows.len)
        add_row(operators, name);
    return number;
}

/* TRACE_SHAPE_* of an operator's inputs; each detail is looked into once per rule. */
static unsigned judge_shape(Operators *operators, uint32_t row, uint32_t detail)
{
    const Profile *profile = operators->job->index->profile;
    unsigned shift = operators->rules.at[row] * (unsigned)JUDGED_BITS;

    if (detail >= profile->ops.len)
        return 0;
    if (!(operators->judged[detail] >> shift & 1)) {
        const ProfileOp *op = &profile->ops.at[detail];
        unsigned result =
            trace_shape_judge((TraceShapeRule)operators->rules.at[row], profile_text(profile, op->dims, NULL),
                              profile_text(profile, op->types, NULL));

        operators->judged[detail] |= (result << 1 | 1u) << shift;
    }
    return operators->judged[detail] >> (shift + 1) & 15u;
}

static void count_shape(Operators *operators, uint32_t number, uint32_t detail)
{
    TraceOperator *row = &operators->rows.at[number];
    unsigned shape = row->matrix ? judge_shape(operators, number, detail) : 0;

    row->shaped_count += (shape & TRACE_SHAPE_KNOWN) != 0;
    row->misaligned_count += (shape & TRACE_SHAPE_MISALIGNED) != 0;
}

static void add_host_times(Operators *operators)
{
    const TraceNest *nest = &operators->nest;
    const ProfileEvents *host = &operators->job->index->profile->host;

    for (uint32_t member = 0; member < nest->len; member++) {
        uint32_t row = nest->rows[member], around = trace_nest_around(nest, member), number;
        int64_t duration = host->duration[row];
        TraceOperator *op;

        number = row_of(operators, host->name[row]);
        op = &operators->rows.at[number];
        op->count++;
        op->host_self_ns = trace_sum(op->host_self_ns, duration);
        if (trace_nest_is_outer(nest, member))
            op->host_ns = trace_sum(op->host_ns, duration);
        count_shape(operators, number, host->extra[row]);
        if (around != PROFILE_NONE) {
            number = row_of(operators, host->name[nest->rows[around]]);
            op = &operators->rows.at[number];
            op->host_self_ns = trace_sum(op->host_self_ns, -duration);
        }
    }
}

static unsigned kernel_says(Operators *operators, uint32_t name)
{
    uint8_t *says;
    size_t len;
    const char *text;

    if (name >= operators->named.names)
        return 0;
    says = &operators->kernel_says[name];
    if (*says == 0) {
        text = profile_text(operators->job->index->profile, name, &len);
        *says = SAYS_KNOWN;
        if (trace_is_tensor_core(text, len))
            *says |= SAYS_TENSOR;
        else if (trace_is_float_matrix(text, len))
            *says |= SAYS_FLOAT;
    }
    return *says;
}

/* What a GPU operation says of the operator that launched it and of nobody inside that. */
static void add_self(Operators *operators, uint32_t number, size_t gpu_row, uint32_t detail)
{
    const ProfileEvents *gpu = &operators->job->index->profile->gpu;
    TraceOperator *row = &operators->rows.at[number];
    int64_t duration = gpu->duration[gpu_row];
    unsigned says, shape;

    row->kernel_count++;
    row->device_self_ns = trace_sum(row->device_self_ns, duration);
    if (gpu->kind[gpu_row] != PROFILE_KERNEL)
        return;
    says = kernel_says(operators, gpu->name[gpu_row]);
    if (says & SAYS_TENSOR)
        row->tensor_core_ns = trace_sum(row->tensor_core_ns, duration);
    if (!row->matrix || trace_gpu_class(operators->job->index, gpu_row) != TRACE_COMPUTE)
        return;
    shape = judge_shape(operators, number, detail);
    if (!(says & SAYS_TENSOR) && (shape & TRACE_SHAPE_TYPED ? shape & TRACE_SHAPE_FLOAT : says & SAYS_FLOAT))
        row->float_ns = trace_sum(row->float_ns, duration);
    if (shape & TRACE_SHAPE_MISALIGNED) {
        row->misaligned_ns = trace_sum(row->misaligned_ns, duration);
        if (operators->dims_row[detail] == 0)
            operators->dims_row[detail] = number + 1;
        if (operators->dims_row[detail] == number + 1)
            operators->dims_ns[detail] = trace_sum(operators->dims_ns[detail], duration);
    }
}

static void add_device_times(Operators *operators)
{
    const TraceIndex *index = operators->job->index;
    const ProfileEvents *host = &index->profile->host, *gpu = &index->profile->gpu;
    TraceNest *nest = &operators->nest;

    for (size_t i = 0; i < gpu->len; i++) {
        uint32_t member = index->op[i] == PROFILE_NONE ? PROFILE_NONE : nest->at[index->op[i]], row;

        if (member == PROFILE_NONE)
            continue;
        row = nest->rows[member];
        operators->device_ns[member] = trace_sum(operators->device_ns[member], gpu->duration[i]);
        add_self(operators, row_of(operators, host->name[row]), i, host->extra[row]);
    }
    trace_nest_gather(nest, operators->device_ns);
    for (uint32_t member = 0; member < nest->len; member++) {
        TraceOperator *row;
        uint32_t number;

        if (operators->device_ns[member] == 0 || !trace_nest_is_outer(nest, member))
            continue;
        number = row_of(operators, host->name[nest->rows[member]]);
        row = &operators->rows.at[number];
        row->device_ns = trace_sum(row->device_ns, operators->device_ns[member]);
    }
}

/* Takes the shapes with more GPU time; of equal ones the first by text. */
static void take_dims(TraceOperator *row, const char *dims, int64_t ns)
{
    if (ns < row->misaligned_dims_ns || !*dims ||
        (ns == row->misaligned_dims_ns && *row->misaligned_dims && strcmp(row->misaligned_dims, dims) <= 0))
        return;
    row->misaligned_dims = dims;
    row->misaligned_dims_ns = ns;
}

static void add_dims(Operators *operators)
{
    const Profile *profile = operators->job->index->profile;

    for (size_t i = 0; i < profile->ops.len; i++) {
        size_t len;
        const char *dims;

        if (operators->dims_row[i] == 0)
            continue;
        dims = profile_text(profile, profile->ops.at[i].dims, &len);
        take_dims(&operators->rows.at[operators->dims_row[i] - 1], arena_strndup(operators->job->arena, dims, len),
                  operators->dims_ns[i]);
    }
}

static int compare_operators(const void *left, const void *right)
{
    const TraceOperator *a = left, *b = right;

    if (a->device_self_ns != b->device_self_ns)
        return a->device_self_ns > b->device_self_ns ? -1 : 1;
    if (a->host_self_ns != b->host_self_ns)
        return a->host_self_ns > b->host_self_ns ? -1 : 1;
    return strcmp(a->name, b->name);
}

static void finish_operators(TraceRank *rank)
{
    for (size_t i = 0; i < rank->operators.len; i++)
        if (rank->operators.at[i].shaped_count == 0)
            rank->operators.at[i].misaligned_count = -1;
    if (rank->operators.len > 1)
        qsort(rank->operators.at, rank->operators.len, sizeof *rank->operators.at, compare_operators);
}

void trace_operators(const TraceJob *job, TraceRank *rank)
{
    const Profile *profile = job->index->profile;
    Operators operators = {.job = job,
                           .judged = xcalloc(profile->ops.len + 1, sizeof(uint32_t)),
                           .dims_ns = xcalloc(profile->ops.len + 1, sizeof(int64_t)),
                           .dims_row = xcalloc(profile->ops.len + 1, sizeof(uint32_t))};

    trace_named_init(&operators.named, profile);
    operators.kernel_says = xcalloc(operators.named.names + 1, 1);
    trace_nest_init(&operators.nest, job->index, PROFILE_OP);
    operators.device_ns = xcalloc(operators.nest.len + 1, sizeof(int64_t));
    add_host_times(&operators);
    add_device_times(&operators);
    add_dims(&operators);
    for (size_t i = 0; i < operators.rows.len; i++)
        vec_push(&rank->operators, operators.rows.at[i]);
    finish_operators(rank);
    trace_nest_done(&operators.nest);
    trace_named_done(&operators.named);
    vec_done(&operators.rows);
    vec_done(&operators.rules);
    free(operators.judged);
    free(operators.device_ns);
    free(operators.dims_ns);
    free(operators.dims_row);
    free(operators.kernel_says);
}
