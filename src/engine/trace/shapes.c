/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators by the shapes of their inputs, the arithmetic of those that flops.def knows, and how near both come to what
 * the GPU's board can do. Linear in operators and GPU operations; each shape is looked into once. Takes 5 bytes per
 * operator.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/map.h"
#include "engine/trace/analyse.h"
#include "engine/trace/flops.h"
#include "engine/trace/tables.h"

enum { FOUND_CACHE = 1024 };

/* What is summed of a row while it is made. */
typedef struct Making {
    int64_t tensor_ns, maybe_ns; /* of kernels on tensor cores, and of those of which it is not known */
    int64_t longest_ns;          /* of the longest kernel */
    uint32_t kernel;             /* its name */
    const ProfileOp *op;
    bool known;
    Flops flops;
    double ideal_ns; /* of a call, at the peak of its type; NaN unknown */
} Making;

/* A call whose arithmetic is known: on the device's n-th row, in a step or -1. */
typedef struct Work {
    uint32_t number; /* of its row */
    uint32_t nth;
    int32_t step;
} Work;

/* A name and a detail with their row + 1; 0: none. */
typedef struct Found {
    uint32_t name, detail, number;
} Found;

typedef struct Shapes {
    const TraceJob *job;
    TraceRank *rank;
    Map numbers;              /* name and detail -> row + 1 */
    Found found[FOUND_CACHE]; /* stands before it: the last one that came to a place */
    VEC(Making) making;
    uint8_t *rules;  /* name -> flops_rule + 1; 0: not looked up */
    uint32_t *owner; /* operator -> the innermost one around it, or it itself, whose arithmetic counts; PROFILE_NONE */
    uint64_t *seen;  /* bits by operator: it is counted */
    VEC(Work) works; /* calls whose arithmetic is known */
} Shapes;

static void find_rule(Shapes *shapes, uint32_t name)
{
    size_t len;
    const char *text = profile_text(shapes->job->index->profile, name, &len);

    shapes->rules[name] = (uint8_t)(flops_rule(text, len) + 1);
}

static inline unsigned rule_of(Shapes *shapes, uint32_t name)
{
    if (!shapes->rules[name])
        find_rule(shapes, name);
    return shapes->rules[name] - 1U;
}

static Making make_row(Shapes *shapes, uint32_t name, uint32_t detail)
{
    const Profile *profile = shapes->job->index->profile;
    Making making = {.kernel = PROFILE_NONE, .op = &profile->ops.at[detail]};
    const unsigned rule = rule_of(shapes, name);

    making.known = rule > 0 && flops_count(rule, profile_text(profile, making.op->dims, NULL),
                                           profile_text(profile, making.op->types, NULL),
                                           profile_text(profile, making.op->arguments, NULL), &making.flops);
    return making;
}

/* The row of an operator's name and shapes; PROFILE_NONE where they are not recorded. */
static uint32_t find_row(Shapes *shapes, uint32_t host_row)
{
    const Profile *profile = shapes->job->index->profile;
    const uint32_t name = profile->host.name[host_row], detail = profile->host.extra[host_row];
    const uint64_t key = (uint64_t)name << 32 | detail;
    uintptr_t number;

    if (detail >= profile->ops.len || profile->ops.at[detail].dims == PROFILE_NONE)
        return PROFILE_NONE;
    Found *found = &shapes->found[(name * 31 + detail) % FOUND_CACHE];

    if (found->number && found->name == name && found->detail == detail)
        return found->number - 1;
    number = (uintptr_t)map_u64_get(&shapes->numbers, key);
    if (number == 0) {
        vec_push(&shapes->making, make_row(shapes, name, detail));
        vec_push(&shapes->rank->shapes, ((TraceShape){.op = trace_copy_text(shapes->job, name)}));
        number = shapes->making.len;
        map_u64_put(&shapes->numbers, key, (void *)number); /* NOLINT(performance-no-int-to-ptr) */
    }
    *found = (Found){name, detail, (uint32_t)number};
    return (uint32_t)number - 1;
}

static uint32_t row_of(Shapes *shapes, uint32_t op)
{
    return find_row(shapes, shapes->job->index->op_rows[op]);
}

static bool is_known(Shapes *shapes, uint32_t op)
{
    const TraceIndex *index = shapes->job->index;
    uint32_t number;

    if (rule_of(shapes, index->profile->host.name[index->op_rows[op]]) == 0)
        return false;
    number = row_of(shapes, op);
    return number != PROFILE_NONE && shapes->making.at[number].known;
}

/* Of operators within each other whose arithmetic is known the innermost counts. */
static void find_owners(Shapes *shapes)
{
    enum { KNOWN = 1, AROUND = 2 }; /* AROUND: a known one lies inside */
    const TraceIndex *index = shapes->job->index;
    CLEANUP_FREE uint8_t *is = xcalloc(index->op_count + 1, sizeof *is);

    for (uint32_t op = (uint32_t)index->op_count; op-- > 0;) {
        is[op] |= is_known(shapes, op) ? KNOWN : 0;
        if (!is[op])
            continue;
        const uint32_t around = trace_operator_around(index, op);

        if (around != PROFILE_NONE)
            is[around] |= AROUND;
    }
    for (uint32_t op = 0; op < index->op_count; op++) {
        const uint32_t around = trace_operator_around(index, op);

        shapes->owner[op] = is[op] == KNOWN ? op : around != PROFILE_NONE ? shapes->owner[around] : PROFILE_NONE;
    }
}

/* The operator whose row a GPU operation belongs to, PROFILE_NONE. */
static uint32_t find_operator(const Shapes *shapes, size_t gpu_row)
{
    const TraceIndex *index = shapes->job->index;
    const uint32_t op = index->op[gpu_row] == PROFILE_NONE ? PROFILE_NONE : index->op_at[index->op[gpu_row]];

    if (op == PROFILE_NONE || trace_gpu_class(index, gpu_row) == TRACE_COMMUNICATION)
        return PROFILE_NONE;
    return shapes->owner[op] != PROFILE_NONE ? shapes->owner[op] : op;
}

/* Counts the operator's call at its first GPU operation. */
static void add_call(Shapes *shapes, uint32_t op, uint32_t number, size_t nth, int64_t start)
{
    const uint64_t bit = UINT64_C(1) << (op % 64);

    if (shapes->seen[op / 64] & bit)
        return;
    shapes->seen[op / 64] |= bit;
    shapes->rank->shapes.at[number].count++;
    if (shapes->making.at[number].known)
        vec_push(&shapes->works, ((Work){number, (uint32_t)nth, trace_step_at(shapes->rank, start)}));
}

/* Adds a GPU operation, of which `says` is TRACE_KERNEL_*, to a row. */
static void add_time(Shapes *shapes, uint32_t number, size_t gpu_row, unsigned says)
{
    const ProfileEvents *gpu = &shapes->job->index->profile->gpu;
    const int64_t duration = gpu->duration[gpu_row];
    Making *making = &shapes->making.at[number];
    TraceShape *row = &shapes->rank->shapes.at[number];

    row->kernel_count++;
    row->total_ns = trace_sum(row->total_ns, duration);
    if (making->known && (gpu->kind[gpu_row] != PROFILE_KERNEL ||
                          (says & (TRACE_KERNEL_HELPER | TRACE_KERNEL_TENSOR)) == TRACE_KERNEL_HELPER))
        row->helper_ns = trace_sum(row->helper_ns, duration);
    if (says & TRACE_KERNEL_TENSOR)
        making->tensor_ns = trace_sum(making->tensor_ns, duration);
    if (says & TRACE_KERNEL_MAYBE)
        making->maybe_ns = trace_sum(making->maybe_ns, duration);
    if (making->kernel == PROFILE_NONE || duration > making->longest_ns) {
        making->kernel = gpu->name[gpu_row];
        making->longest_ns = duration;
    }
}

static void add_operation(Shapes *shapes, size_t nth, size_t gpu_row)
{
    const TraceIndex *index = shapes->job->index;
    const ProfileEvents *gpu = &index->profile->gpu;
    const uint32_t op = find_operator(shapes, gpu_row), number = op == PROFILE_NONE ? op : row_of(shapes, op);
    const unsigned says = gpu->kind[gpu_row] == PROFILE_KERNEL ? index->kernel_name[gpu->name[gpu_row]] : 0;
    const bool known = number != PROFILE_NONE && shapes->making.at[number].known;
    TraceRoof *roof = &shapes->rank->roof;

    if (known || says & (TRACE_KERNEL_TENSOR | TRACE_KERNEL_FLOAT | TRACE_KERNEL_MAYBE))
        roof->matrix_ns = trace_sum(roof->matrix_ns, gpu->duration[gpu_row]);
    if (known)
        roof->known_ns = trace_sum(roof->known_ns, gpu->duration[gpu_row]);
    if (number == PROFILE_NONE)
        return;
    add_call(shapes, op, number, nth, gpu->start[gpu_row]);
    add_time(shapes, number, gpu_row, says);
}

/* ---- the roof ---- */

/* A slice of a board (MIG, a partition) has the share of its multiprocessors; what it has of the memory is not known.
 */
static const double SLICE = 0.8;

static void find_roof(const Shapes *shapes)
{
    const Profile *profile = shapes->job->index->profile;
    TraceRoof *roof = &shapes->rank->roof;
    const Peak *peak = NULL;
    double share = 1;

    *roof = (TraceRoof){.board = "", .memory_gbs = NAN, .flops_per_step = NAN, .mfu_percent = NAN};
    for (size_t type = 0; type < PEAK_TYPE_COUNT; type++)
        roof->tflops[type] = NAN;
    for (size_t i = 0; i < profile->devices.len; i++) {
        const ProfileDevice *device = &profile->devices.at[i];
        const Peak *found = peak_find(profile_text(profile, device->name, NULL));

        if (!found || (peak && found != peak))
            return;
        peak = found;
        if (device->sm_count > 0)
            share = fmin(share, (double)device->sm_count / peak->sm_count);
    }
    if (!peak)
        return;
    share = share < SLICE ? share : 1;
    roof->board = share < 1 ? arena_printf(shapes->job->arena, "%.0f %% of %s", 100 * share, peak->board) : peak->board;
    roof->memory_gbs = share < 1 ? NAN : peak->memory_gbs;
    for (size_t type = 0; type < PEAK_TYPE_COUNT; type++)
        roof->tflops[type] = peak->tflops[type] > 0 ? share * peak->tflops[type] : NAN;
}

/* Arithmetic of a row beside what the board can do: time in ns, so 1000 of a ns are a TFLOP/s. */
static void finish_arithmetic(const TraceRoof *roof, Making *making, TraceShape *row)
{
    PeakType type = making->flops.type;

    if (type == PEAK_FP32 && 2 * making->tensor_ns > row->total_ns)
        type = PEAK_TF32;
    const bool known = type != PEAK_FP32 || 2 * trace_sum(making->tensor_ns, making->maybe_ns) <= row->total_ns;
    const double peak = known ? roof->tflops[type] : (double)NAN;

    row->type = peak_type_words[type];
    row->flops = making->flops.flops;
    row->bytes = making->flops.bytes;
    row->intensity = row->bytes > 0 ? row->flops / row->bytes : NAN;
    if (row->total_ns > 0)
        row->tflops = row->flops * (double)row->count / (double)row->total_ns / 1000;
    const double by_memory = row->intensity * roof->memory_gbs / 1000;

    if (!isnan(peak) && !isnan(by_memory)) {
        row->bound = by_memory < peak ? "memory" : "compute";
        row->roof_tflops = fmin(by_memory, peak);
    }
    row->peak_percent = 100 * row->tflops / peak;
    row->roof_percent = 100 * row->tflops / row->roof_tflops;
    making->ideal_ns = row->flops / peak / 1000;
}

static void finish_rows(Shapes *shapes)
{
    TraceTexts texts, lists;

    trace_texts_init(&texts, shapes->job);
    trace_texts_init(&lists, shapes->job);
    for (size_t i = 0; i < shapes->making.len; i++) {
        Making *making = &shapes->making.at[i];
        TraceShape *row = &shapes->rank->shapes.at[i];

        row->dims = trace_list_text(&lists, making->op->dims);
        row->types = trace_list_text(&lists, making->op->types);
        row->arguments = trace_list_text(&lists, making->op->arguments);
        row->kernel = trace_text(&texts, making->kernel);
        row->type = row->bound = "";
        row->flops = row->bytes = row->intensity = row->tflops = NAN;
        row->roof_tflops = row->roof_percent = row->peak_percent = NAN;
        if (making->known)
            finish_arithmetic(&shapes->rank->roof, making, row);
    }
    trace_texts_done(&texts);
    trace_texts_done(&lists);
}

/* ---- steps ---- */

/* Sums of a device in a step, or of a device where there are no steps. */
typedef struct Cell {
    double flops, ideal_ns, window_ns;
} Cell;

static int64_t device_span(const TraceIndex *index, size_t nth)
{
    const ProfileEvents *gpu = &index->profile->gpu;
    const size_t first = index->device_first.at[nth];
    int64_t last = gpu->start[first];

    for (size_t i = first; i < index->device_first.at[nth + 1]; i++)
        last = trace_larger(last, profile_end(gpu, i));
    return last - gpu->start[first];
}

static void fill_cells(const Shapes *shapes, Cell *cells, size_t count)
{
    const TraceRank *rank = shapes->rank;
    const size_t devices = shapes->job->index->devices.len;

    for (size_t i = 0; i < count; i++) {
        const TraceStepRow *step = rank->steps.len ? &rank->steps.at[i / devices] : NULL;

        cells[i].window_ns = (double)(step ? step->to - step->start : device_span(shapes->job->index, i % devices));
    }
    for (size_t i = 0; i < shapes->works.len; i++) {
        const Work *work = &shapes->works.at[i];
        const Making *making = &shapes->making.at[work->number];

        if (rank->steps.len && work->step < 0)
            continue;
        Cell *cell = &cells[(rank->steps.len ? (size_t)work->step * devices : 0) + work->nth];

        cell->flops += making->flops.flops;
        cell->ideal_ns += making->ideal_ns;
    }
}

/* The step's row of the device that the n-th cell is of, NULL none. */
static TraceStepDevice *step_device(const TraceRank *rank, size_t devices, size_t cell)
{
    TraceStepRow *step = rank->steps.len ? &rank->steps.at[cell / devices] : NULL;

    return step && cell % devices < step->devices.len ? &step->devices.at[cell % devices] : NULL;
}

/* Arithmetic per step and device, and its share of what the board could have done in that time. */
static void find_use(const Shapes *shapes)
{
    TraceRank *rank = shapes->rank;
    const bool known = rank->roof.known_ns > 0;
    const size_t devices = shapes->job->index->devices.len, first = trace_warm_up(rank) ? devices : 0;
    const size_t count = devices * (rank->steps.len ? rank->steps.len : 1);
    CLEANUP_FREE Cell *cells = xcalloc(count + 1, sizeof *cells);
    Cell sum = {0};

    fill_cells(shapes, cells, count);
    for (size_t i = 0; i < count; i++) {
        TraceStepDevice *device = step_device(rank, devices, i);

        if (device) {
            device->flops = known ? cells[i].flops : (double)NAN;
            device->mfu_percent = known ? 100 * cells[i].ideal_ns / cells[i].window_ns : (double)NAN;
        }
        if (i >= first) {
            sum.flops += cells[i].flops;
            sum.ideal_ns += cells[i].ideal_ns;
            sum.window_ns += cells[i].window_ns;
        }
    }
    if (!known)
        return;
    rank->roof.flops_per_step = sum.flops / (double)(count - first);
    rank->roof.mfu_percent = 100 * sum.ideal_ns / sum.window_ns;
}

static int compare_rows(const void *a, const void *b)
{
    const TraceShape *x = a, *y = b;
    const int64_t keys[][2] = {{y->total_ns, x->total_ns},
                               {strcmp(x->op, y->op), 0},
                               {strcmp(x->dims, y->dims), 0},
                               {strcmp(x->types, y->types), 0},
                               {strcmp(x->arguments, y->arguments), 0}};
    return trace_compare(keys, ARRAY_LEN(keys));
}

/* Those that worked on the host alone go. */
static void keep_rows(TraceRank *rank)
{
    size_t kept = 0;

    for (size_t i = 0; i < rank->shapes.len; i++)
        if (rank->shapes.at[i].count > 0)
            rank->shapes.at[kept++] = rank->shapes.at[i];
    rank->shapes.len = kept;
    vec_sort(&rank->shapes, compare_rows);
}

void trace_shapes(const TraceJob *job, TraceRank *rank)
{
    const TraceIndex *index = job->index;
    Shapes shapes = {.job = job,
                     .rank = rank,
                     .rules = xcalloc(profile_name_count(index->profile) + 1, sizeof *shapes.rules),
                     .owner = xmalloc((index->op_count + 1) * sizeof *shapes.owner),
                     .seen = xcalloc(index->op_count / 64 + 1, sizeof *shapes.seen)};

    map_u64_init(&shapes.numbers);
    find_roof(&shapes);
    find_owners(&shapes);
    for (size_t nth = 0; nth < index->devices.len; nth++)
        for (size_t i = index->device_first.at[nth]; i < index->device_first.at[nth + 1]; i++)
            add_operation(&shapes, nth, i);
    finish_rows(&shapes);
    find_use(&shapes);
    keep_rows(rank);
    map_done(&shapes.numbers);
    vec_done(&shapes.making);
    vec_done(&shapes.works);
    free(shapes.rules);
    free(shapes.owner);
    free(shapes.seen);
}
