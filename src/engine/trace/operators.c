/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "engine/trace/analyse.h"
#include "engine/trace/tables.h"
#include "engine/trace/classify.h"

/*
 * The host events of one kind (operators, annotations) as the forest they make on their lanes. Members are numbered in
 * the order of the host table, so a member's number is above that of the member around it. Linear in host events. That
 * of operators is the index's own; another's takes 4 bytes per host event and 4 per member.
 */

typedef struct Nest {
    const TraceIndex *index;
    const uint32_t *at;   /* host row -> the member that the row is, or the innermost around it; PROFILE_NONE */
    const uint32_t *rows; /* member -> host row */
    uint64_t *outer;      /* bits by member: none of its name is around it */
    size_t len;
    uint32_t *own[2]; /* at and rows, where they are not the index's */
} Nest;

/* The member around a member, PROFILE_NONE. */
static inline uint32_t nest_around(const Nest *nest, uint32_t member)
{
    uint32_t parent = nest->index->parent[nest->rows[member]];

    return parent == PROFILE_NONE ? PROFILE_NONE : nest->at[parent];
}

static inline bool nest_is_outer(const Nest *nest, uint32_t member)
{
    return nest->outer[member / 64] >> (member % 64) & 1;
}

/* ---- members ---- */

static void find_members(Nest *nest, ProfileKind kind)
{
    const ProfileEvents *host = &nest->index->profile->host;
    const uint32_t *parent = nest->index->parent;
    size_t count = 0;
    uint32_t *at, *rows;

    for (size_t row = 0; row < host->len; row++)
        count += host->kind[row] == kind;
    nest->at = nest->own[0] = at = xmalloc((host->len + 1) * sizeof *at);
    nest->rows = nest->own[1] = rows = xmalloc((count + 1) * sizeof *rows);
    for (uint32_t row = 0; row < host->len; row++) {
        at[row] = parent[row] == PROFILE_NONE ? PROFILE_NONE : at[parent[row]];
        if (host->kind[row] != kind)
            continue;
        at[row] = (uint32_t)nest->len;
        rows[nest->len++] = row;
    }
}

/* ---- members within none of their own name ---- */

/* Members come in the order of the host table, so those that are open are the last one and those around it. */
static void find_outer(Nest *nest)
{
    const uint32_t *names = nest->index->profile->host.name;
    /* name -> how many open members have it */
    CLEANUP_FREE uint32_t *open = xcalloc(profile_name_count(nest->index->profile) + 1, sizeof *open);
    uint32_t last = PROFILE_NONE;

    nest->outer = xcalloc(nest->len / 64 + 1, sizeof *nest->outer);
    for (uint32_t member = 0; member < nest->len; member++) {
        const uint32_t around = nest_around(nest, member);

        for (; last != around; last = nest_around(nest, last))
            open[names[nest->rows[last]]]--;
        if (open[names[nest->rows[member]]]++ == 0)
            nest->outer[member / 64] |= UINT64_C(1) << (member % 64);
        last = member;
    }
}

static void nest_init(Nest *nest, const TraceIndex *index, ProfileKind kind)
{
    *nest = (Nest){.index = index};
    if (kind == PROFILE_OP) {
        nest->at = index->op_at;
        nest->rows = index->op_rows;
        nest->len = index->op_count;
    } else {
        find_members(nest, kind);
    }
    find_outer(nest);
}

static void nest_done(Nest *nest)
{
    free(nest->own[0]);
    free(nest->own[1]);
    free(nest->outer);
    *nest = (Nest){0};
}

static void nest_gather(const Nest *nest, int64_t *values)
{
    for (size_t i = nest->len; i-- > 0;) {
        uint32_t around = nest_around(nest, (uint32_t)i);

        if (around != PROFILE_NONE)
            values[around] = trace_sum(values[around], values[i]);
    }
}

/* ---- operators ---- */

/* Operators by name. */

/* What is known of a detail: of the shapes and types of an operator's inputs. */
typedef struct Shape {
    int64_t dims_ns;   /* GPU time of misaligned operators with it */
    uint32_t dims_row; /* row of the first of them, + 1 */
    uint32_t checked;  /* 5 bits per rule: 1 checked, then TRACE_SHAPE_* */
} Shape;

typedef struct Operators {
    const TraceJob *job;
    Nest nest;
    TraceNamed named;
    TraceRank *rank;
    VEC(uint8_t) rules; /* row -> TraceShapeRule */
    Shape *shapes;      /* by detail */
    int64_t *device_ns; /* member -> GPU time launched by it */
} Operators;

enum { CHECKED_BITS = 5 };

_Static_assert(TRACE_SHAPE_RULE_COUNT *CHECKED_BITS <= 32, "a word per detail");

__attribute__((noinline)) static void add_row(Operators *operators, uint32_t name)
{
    size_t len;
    const char *text = profile_text(operators->job->index->profile, name, &len);

    vec_push(&operators->rank->operators, ((TraceOperator){.name = arena_strndup(operators->job->arena, text, len),
                                                           .matrix = trace_is_matrix_op(text, len),
                                                           .misaligned_dims = ""}));
    vec_push(&operators->rules, (uint8_t)trace_shape_rule(text, len));
}

static inline uint32_t row_of(Operators *operators, uint32_t name)
{
    uint32_t number = trace_named_row(&operators->named, name);

    if (number == operators->rank->operators.len)
        add_row(operators, name);
    return number;
}

/* TRACE_SHAPE_* of an operator's inputs; each detail is looked into once per rule. */
static unsigned find_shape(Operators *operators, uint32_t row, uint32_t detail)
{
    const Profile *profile = operators->job->index->profile;
    unsigned shift = operators->rules.at[row] * (unsigned)CHECKED_BITS;

    if (detail >= profile->ops.len)
        return 0;
    if (!(operators->shapes[detail].checked >> shift & 1)) {
        const ProfileOp *op = &profile->ops.at[detail];
        unsigned result =
            trace_shape_check((TraceShapeRule)operators->rules.at[row], profile_text(profile, op->dims, NULL),
                              profile_text(profile, op->types, NULL));

        operators->shapes[detail].checked |= (result << 1 | 1u) << shift;
    }
    return operators->shapes[detail].checked >> (shift + 1) & 15u;
}

static void count_shape(Operators *operators, uint32_t number, uint32_t detail)
{
    TraceOperator *row = &operators->rank->operators.at[number];
    unsigned shape = row->matrix ? find_shape(operators, number, detail) : 0;

    row->shaped_count += (shape & TRACE_SHAPE_KNOWN) != 0;
    row->misaligned_count += (shape & TRACE_SHAPE_MISALIGNED) != 0;
}

static void add_host_times(Operators *operators)
{
    const Nest *nest = &operators->nest;
    const ProfileEvents *host = &operators->job->index->profile->host;

    for (uint32_t member = 0; member < nest->len; member++) {
        uint32_t row = nest->rows[member], around = nest_around(nest, member), number;
        int64_t duration = host->duration[row];
        TraceOperator *op;

        number = row_of(operators, host->name[row]);
        op = &operators->rank->operators.at[number];
        op->count++;
        op->host_self_ns = trace_sum(op->host_self_ns, duration);
        if (nest_is_outer(nest, member))
            op->host_ns = trace_sum(op->host_ns, duration);
        count_shape(operators, number, host->extra[row]);
        if (around != PROFILE_NONE) {
            number = row_of(operators, host->name[nest->rows[around]]);
            op = &operators->rank->operators.at[number];
            op->host_self_ns = trace_sum(op->host_self_ns, -duration);
        }
    }
}

/* Adds a GPU operation to the operator that launched it directly. */
static void add_self(Operators *operators, uint32_t number, size_t gpu_row, uint32_t detail)
{
    const ProfileEvents *gpu = &operators->job->index->profile->gpu;
    TraceOperator *row = &operators->rank->operators.at[number];
    int64_t duration = gpu->duration[gpu_row];
    unsigned says, shape;

    row->kernel_count++;
    row->device_self_ns = trace_sum(row->device_self_ns, duration);
    if (gpu->kind[gpu_row] != PROFILE_KERNEL)
        return;
    says = operators->job->index->kernel_name[gpu->name[gpu_row]];
    if (says & TRACE_KERNEL_TENSOR)
        row->tensor_core_ns = trace_sum(row->tensor_core_ns, duration);
    if (!row->matrix || trace_gpu_class(operators->job->index, gpu_row) != TRACE_COMPUTE)
        return;
    shape = find_shape(operators, number, detail);
    if (!(says & TRACE_KERNEL_TENSOR) &&
        (shape & TRACE_SHAPE_TYPED ? shape & TRACE_SHAPE_FLOAT : says & TRACE_KERNEL_FLOAT))
        row->float_ns = trace_sum(row->float_ns, duration);
    if ((shape & TRACE_SHAPE_MISALIGNED) && !(says & TRACE_KERNEL_ALIGNED)) {
        row->misaligned_ns = trace_sum(row->misaligned_ns, duration);
        Shape *seen = &operators->shapes[detail];

        if (seen->dims_row == 0)
            seen->dims_row = number + 1;
        if (seen->dims_row == number + 1)
            seen->dims_ns = trace_sum(seen->dims_ns, duration);
    }
}

static void add_device_times(Operators *operators)
{
    const TraceIndex *index = operators->job->index;
    const ProfileEvents *host = &index->profile->host, *gpu = &index->profile->gpu;
    Nest *nest = &operators->nest;

    for (size_t i = 0; i < gpu->len; i++) {
        uint32_t member = index->op[i] == PROFILE_NONE ? PROFILE_NONE : nest->at[index->op[i]], row;

        if (member == PROFILE_NONE)
            continue;
        row = nest->rows[member];
        operators->device_ns[member] = trace_sum(operators->device_ns[member], gpu->duration[i]);
        add_self(operators, row_of(operators, host->name[row]), i, host->extra[row]);
    }
    nest_gather(nest, operators->device_ns);
    for (uint32_t member = 0; member < nest->len; member++) {
        TraceOperator *row;
        uint32_t number;

        if (operators->device_ns[member] == 0 || !nest_is_outer(nest, member))
            continue;
        number = row_of(operators, host->name[nest->rows[member]]);
        row = &operators->rank->operators.at[number];
        row->device_ns = trace_sum(row->device_ns, operators->device_ns[member]);
    }
}

/* Takes the shapes with more GPU time; of equal ones the first by text. */
static void keep_dims(TraceOperator *row, const char *dims, int64_t ns)
{
    if (ns < row->misaligned_dims_ns ||
        (ns == row->misaligned_dims_ns && *row->misaligned_dims && strcmp(row->misaligned_dims, dims) <= 0))
        return;
    row->misaligned_dims = dims;
    row->misaligned_dims_ns = ns;
}

static void add_dims(Operators *operators)
{
    const Profile *profile = operators->job->index->profile;

    for (size_t i = 0; i < profile->ops.len; i++) {
        const Shape *shape = &operators->shapes[i];

        if (shape->dims_row)
            keep_dims(&operators->rank->operators.at[shape->dims_row - 1],
                      trace_copy_text(operators->job, profile->ops.at[i].dims), shape->dims_ns);
    }
}

static int compare_operators(const void *a, const void *b)
{
    const TraceOperator *x = a, *y = b;
    const int64_t keys[][2] = {
        {y->device_self_ns, x->device_self_ns}, {y->host_self_ns, x->host_self_ns}, {strcmp(x->name, y->name), 0}};
    return trace_compare(keys, ARRAY_LEN(keys));
}

void trace_operators(const TraceJob *job, TraceRank *rank)
{
    const Profile *profile = job->index->profile;
    Operators operators = {.job = job, .rank = rank, .shapes = xcalloc(profile->ops.len + 1, sizeof(Shape))};

    trace_named_init(&operators.named, profile);
    nest_init(&operators.nest, job->index, PROFILE_OP);
    operators.device_ns = xcalloc(operators.nest.len + 1, sizeof(int64_t));
    add_host_times(&operators);
    add_device_times(&operators);
    add_dims(&operators);
    for (size_t i = 0; i < rank->operators.len; i++)
        if (rank->operators.at[i].shaped_count == 0)
            rank->operators.at[i].misaligned_count = -1;
    vec_sort(&rank->operators, compare_operators);
    nest_done(&operators.nest);
    trace_named_done(&operators.named);
    vec_done(&operators.rules);
    free(operators.shapes);
    free(operators.device_ns);
}

/* ---- annotations ---- */

/* Annotations by name: of the host, with what was launched from inside them on their thread; of the GPU, with what
 * ran on their stream meanwhile. What lies in two ranges of one name counts once. */

typedef struct Annotations {
    const TraceJob *job;
    TraceRank *rank;
    TraceNamed named;
    size_t first; /* of the rank's rows: that of number 0 */
    bool on_gpu;
} Annotations;

static size_t row_for(Annotations *annotations, uint32_t name)
{
    const size_t row = annotations->first + trace_named_row(&annotations->named, name);

    if (row == annotations->rank->annotations.len)
        vec_push(&annotations->rank->annotations, ((TraceAnnotation){.name = trace_copy_text(annotations->job, name),
                                                                     .on_gpu = annotations->on_gpu,
                                                                     .min_ns = INT64_MAX,
                                                                     .busy_ns = annotations->on_gpu ? 0 : -1}));
    return row;
}

static void add_host(Annotations *annotations)
{
    const TraceIndex *index = annotations->job->index;
    const ProfileEvents *host = &index->profile->host, *gpu = &index->profile->gpu;
    int64_t *device_ns, *operations;
    Nest nest;

    nest_init(&nest, index, PROFILE_ANNOTATION);
    device_ns = xcalloc(nest.len + 1, sizeof *device_ns);
    operations = xcalloc(nest.len + 1, sizeof *operations);
    for (size_t i = 0; i < gpu->len; i++) {
        uint32_t row = index->launch[i] != PROFILE_NONE ? index->launch[i] : index->op[i];
        uint32_t member = row == PROFILE_NONE ? PROFILE_NONE : nest.at[row];

        if (member == PROFILE_NONE)
            continue;
        device_ns[member] = trace_sum(device_ns[member], gpu->duration[i]);
        operations[member]++;
    }
    nest_gather(&nest, device_ns);
    nest_gather(&nest, operations);
    for (uint32_t member = 0; member < nest.len; member++) {
        size_t at = nest.rows[member];
        const size_t number = row_for(annotations, host->name[at]);
        TraceAnnotation *row = &annotations->rank->annotations.at[number];

        trace_add_event(row, host->duration[at]);
        if (nest_is_outer(&nest, member)) {
            row->device_ns = trace_sum(row->device_ns, device_ns[member]);
            row->operation_count += operations[member];
        }
    }
    nest_done(&nest);
    free(device_ns);
    free(operations);
}

/* Where a part of a stream's time begins or ends whose GPU work belongs to a row: parts of one name do not overlap.
 * What had come on the stream is subtracted at a part's start and added at its end. */
typedef struct Mark {
    int64_t time;
    size_t row;
    int64_t sign; /* -1 start, 1 end */
} Mark;

typedef VEC(Mark) Marks;

/* The ranges of a lane; the table's rows first..end-1 are the lane's, by start. */
static void collect_marks(Annotations *annotations, size_t first, size_t end, Marks *marks)
{
    const ProfileEvents *mark = &annotations->job->index->profile->mark;
    VEC(int64_t) until = {0}; /* row -> where its last part on this lane ends */

    vec_clear(marks);
    for (size_t i = first; i < end; i++) {
        const size_t row = row_for(annotations, mark->name[i]), number = row - annotations->first;
        const int64_t to = profile_end(mark, i);

        while (until.len <= number)
            vec_push(&until, INT64_MIN);
        trace_add_event(&annotations->rank->annotations.at[row], mark->duration[i]);
        const int64_t from = trace_larger(mark->start[i], until.at[number]);

        if (to <= from)
            continue;
        until.at[number] = to;
        vec_push(marks, ((Mark){.time = from, .row = row, .sign = -1}));
        vec_push(marks, ((Mark){.time = to, .row = row, .sign = 1}));
    }
    vec_done(&until);
    vec_sort(marks, trace_by_number);
}

/* The lane's operations (rows[0..count-1] of the GPU table, by start) against its ranges. */
static void add_lane(Annotations *annotations, const Marks *marks, const uint32_t *rows, size_t count)
{
    const ProfileEvents *gpu = &annotations->job->index->profile->gpu;
    TraceCover cover = {0};
    int64_t total = 0;
    size_t next = 0;

    for (size_t i = 0; i < marks->len; i++) {
        const Mark *mark = &marks->at[i];
        TraceAnnotation *row = &annotations->rank->annotations.at[mark->row];

        for (; next < count && gpu->start[rows[next]] < mark->time; next++) {
            total = trace_sum(total, gpu->duration[rows[next]]);
            trace_cover_add(&cover, gpu->start[rows[next]], profile_end(gpu, rows[next]));
        }
        row->busy_ns = trace_sum(row->busy_ns, mark->sign * trace_cover_until(&cover, mark->time));
        row->device_ns = trace_sum(row->device_ns, mark->sign * total);
        row->operation_count += mark->sign * (int64_t)next;
    }
}

static void add_gpu(Annotations *annotations)
{
    const Profile *profile = annotations->job->index->profile;
    const size_t *first = annotations->job->index->stream_first;
    Marks marks = {0};

    for (size_t i = 0, end; i < profile->mark.len; i = end) {
        uint32_t number = profile->mark.lane[i];

        for (end = i; end < profile->mark.len && profile->mark.lane[end] == number; end++)
            ;
        collect_marks(annotations, i, end, &marks);
        add_lane(annotations, &marks, annotations->job->index->stream_rows + first[number],
                 first[number + 1] - first[number]);
    }
    vec_done(&marks);
}

static int compare_annotations(const void *a, const void *b)
{
    const TraceAnnotation *x = a, *y = b;
    const int64_t keys[][2] = {{y->total_ns, x->total_ns}, {x->on_gpu, y->on_gpu}, {strcmp(x->name, y->name), 0}};
    return trace_compare(keys, ARRAY_LEN(keys));
}

void trace_annotations(const TraceJob *job, TraceRank *rank)
{
    for (int on_gpu = 0; on_gpu < 2; on_gpu++) {
        Annotations annotations = {.job = job, .rank = rank, .first = rank->annotations.len, .on_gpu = on_gpu};

        trace_named_init(&annotations.named, job->index->profile);
        if (on_gpu)
            add_gpu(&annotations);
        else
            add_host(&annotations);
        trace_named_done(&annotations.named);
    }
    vec_sort(&rank->annotations, compare_annotations);
}
