/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels by name. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/cleanup.h"
#include "engine/trace/analyse.h"
#include "engine/trace/tables.h"
#include "engine/trace/classify.h"

enum { SHAPE_SEED = 1 };

/* An operation that has not ended yet, of whose time it is watched how much something covers. */
typedef struct Open {
    int64_t end, covered; /* covered: as it began */
    uint32_t row;
} Open;
typedef VEC(Open) Opens; /* a heap, the first to end on top */

static void heap_push(Opens *opens, Open open)
{
    size_t i = opens->len;

    vec_push(opens, open);
    for (; i > 0 && opens->at[(i - 1) / 2].end > open.end; i = (i - 1) / 2)
        opens->at[i] = opens->at[(i - 1) / 2];
    opens->at[i] = open;
}

static Open heap_pop(Opens *opens)
{
    Open top = opens->at[0], last = opens->at[--opens->len];
    size_t i = 0, child;

    while ((child = 2 * i + 1) < opens->len) {
        if (child + 1 < opens->len && opens->at[child + 1].end < opens->at[child].end)
            child++;
        if (opens->at[child].end >= last.end)
            break;
        opens->at[i] = opens->at[child];
        i = child;
    }
    if (opens->len > 0)
        opens->at[i] = last;
    return top;
}

/* Of a row while it is made: sums of value x time, and where the last of its kernels ran. */
typedef struct Making {
    double occupancy, blocks, efficiency;
    double squares;             /* sum of squared deviations */
    const ProfileLaunch *shape; /* the longest launch with a known shape; NULL none yet */
    int64_t shape_ns;           /* its duration */
    size_t device;              /* number of the last kernel's, + 1; 0 none yet */
} Making;

typedef struct Kernels {
    const TraceJob *job;
    TraceRank *rank;
    TraceNamed named;
    VEC(Making) making;
    uint32_t *launch_row; /* launch -> the row that has its shape already, + 1 */
    Map shapes;           /* which were seen with which row */
    /* of the current device */
    TraceCover several; /* times in which two kernels or more run */
    int64_t last_end;   /* of all kernels so far */
    Opens open;         /* kernels with fewer blocks than multiprocessors; row: of the GPU table */
} Kernels;

static TraceKernel new_kernel(const TraceJob *job, size_t gpu_row)
{
    const Profile *profile = job->index->profile;
    size_t len;
    const char *name = profile_text(profile, profile->gpu.name[gpu_row], &len);

    return (TraceKernel){.name = arena_strndup(job->arena, name, len),
                         .class = trace_gpu_class(job->index, gpu_row),
                         .op = "",
                         .line = "",
                         .min_ns = INT64_MAX,
                         .tensor_core = trace_is_tensor_core(name, len),
                         .tensor_unknown = trace_may_be_tensor_core(name, len),
                         .float_matrix = trace_is_float_matrix(name, len),
                         .occupancy_percent = NAN,
                         .blocks_per_sm = NAN,
                         .sm_efficiency = NAN,
                         .registers = -1,
                         .shared_bytes = -1};
}

static int compare_shapes(const ProfileLaunch *x, const ProfileLaunch *y)
{
    const int64_t keys[][2] = {{memcmp(x->grid, y->grid, sizeof x->grid), 0},
                               {memcmp(x->block, y->block, sizeof x->block), 0},
                               {x->registers, y->registers},
                               {x->shared_bytes, y->shared_bytes}};
    return trace_compare(keys, ARRAY_LEN(keys));
}

/* The row's shape is that of its longest launch; of equally long ones the smaller. */
static void add_shape(Kernels *kernels, uint32_t number, uint32_t detail, int64_t duration)
{
    const ProfileLaunch *launch = &kernels->job->index->profile->launches.at[detail];
    Making *making = &kernels->making.at[number];
    struct {
        uint32_t grid[3], block[3], row;
    } shape = {.row = number};

    if (!making->shape || duration > making->shape_ns ||
        (duration == making->shape_ns && compare_shapes(launch, making->shape) < 0)) {
        making->shape = launch;
        making->shape_ns = duration;
    }
    if (kernels->launch_row[detail] == number + 1)
        return;
    kernels->launch_row[detail] = number + 1;
    memcpy(shape.grid, launch->grid, sizeof shape.grid);
    memcpy(shape.block, launch->block, sizeof shape.block);
    kernels->rank->kernels.at[number].shapes +=
        map_u64_put(&kernels->shapes, map_hash(&shape, sizeof shape, SHAPE_SEED), kernels) == NULL;
}

static void add_launch(Kernels *kernels, uint32_t number, uint32_t detail, int64_t duration)
{
    const ProfileLaunch *launch = &kernels->job->index->profile->launches.at[detail];
    TraceKernel *row = &kernels->rank->kernels.at[number];
    Making *making = &kernels->making.at[number];

    if (launch->grid[0] > 0)
        add_shape(kernels, number, detail, duration);
    if (launch->occupancy_percent >= 0 && duration > 0) {
        making->occupancy += (double)launch->occupancy_percent * (double)duration;
        row->occupancy_ns = trace_sum(row->occupancy_ns, duration);
    }
    if (launch->blocks_per_sm >= 0 && duration > 0) {
        double blocks = (double)launch->blocks_per_sm;

        making->blocks += blocks * (double)duration;
        making->efficiency += fmin(blocks, 1) * (double)duration;
        row->blocks_ns = trace_sum(row->blocks_ns, duration);
    }
}

static float blocks_of(const Kernels *kernels, size_t gpu_row)
{
    const Profile *profile = kernels->job->index->profile;
    const uint32_t detail = profile->gpu.extra[gpu_row];

    return detail < profile->launches.len ? profile->launches.at[detail].blocks_per_sm : -1;
}

/* Counts the multiprocessors that were empty in kernels that end at or before `time`, while they ran alone. */
static void close_kernels(Kernels *kernels, int64_t time)
{
    const ProfileEvents *gpu = &kernels->job->index->profile->gpu;

    while (kernels->open.len > 0 && kernels->open.at[0].end <= time) {
        const Open open = heap_pop(&kernels->open);
        const int64_t covered = trace_cover_until(&kernels->several, open.end) - open.covered;
        TraceKernel *row = &kernels->rank->kernels.at[trace_named_row(&kernels->named, gpu->name[open.row])];

        row->empty_ns += (1 - (double)blocks_of(kernels, open.row)) * (double)(gpu->duration[open.row] - covered);
    }
}

static void watch_kernel(Kernels *kernels, size_t gpu_row)
{
    const ProfileEvents *gpu = &kernels->job->index->profile->gpu;
    const int64_t start = gpu->start[gpu_row], end = profile_end(gpu, gpu_row);
    const float blocks = blocks_of(kernels, gpu_row);

    close_kernels(kernels, start);
    if (blocks >= 0 && blocks < 1 && end > start)
        heap_push(&kernels->open,
                  (Open){.end = end, .covered = trace_cover_until(&kernels->several, start), .row = (uint32_t)gpu_row});
    trace_cover_add(&kernels->several, start, trace_smaller(end, kernels->last_end));
    kernels->last_end = trace_larger(kernels->last_end, end);
}

static void add_kernel(Kernels *kernels, size_t device, size_t gpu_row)
{
    const Profile *profile = kernels->job->index->profile;
    int64_t duration = profile->gpu.duration[gpu_row];
    uint32_t number = trace_named_row(&kernels->named, profile->gpu.name[gpu_row]);
    uint32_t extra = profile->gpu.extra[gpu_row];
    TraceKernel *row;

    if (number == kernels->rank->kernels.len) {
        vec_push(&kernels->rank->kernels, new_kernel(kernels->job, gpu_row));
        vec_push(&kernels->making, (Making){0});
    }
    row = &kernels->rank->kernels.at[number];
    trace_add_event(row, duration);
    row->short_count += (uint64_t)duration < kernels->job->config->short_kernel_ns;
    row->device_count += kernels->making.at[number].device != device + 1; /* rows come by device */
    kernels->making.at[number].device = device + 1;
    if (extra < profile->launches.len)
        add_launch(kernels, number, extra, duration);
}

static void finish_row(TraceKernel *row, const Making *making)
{
    if (making->shape) {
        memcpy(row->grid, making->shape->grid, sizeof row->grid);
        memcpy(row->block, making->shape->block, sizeof row->block);
        row->registers = making->shape->registers > 0 ? (int64_t)making->shape->registers : -1;
        row->shared_bytes = making->shape->shared_bytes;
    }
    row->mean_ns = (double)row->total_ns / (double)row->count;
    if (row->occupancy_ns > 0)
        row->occupancy_percent = making->occupancy / (double)row->occupancy_ns;
    if (row->blocks_ns > 0) {
        row->blocks_per_sm = making->blocks / (double)row->blocks_ns;
        row->sm_efficiency = making->efficiency / (double)row->blocks_ns;
    }
}

/* Means, and in a second pass, with those known, deviations. */
static void finish_kernels(Kernels *kernels)
{
    const ProfileEvents *gpu = &kernels->job->index->profile->gpu;
    TraceKernel *rows = kernels->rank->kernels.at;

    for (size_t i = 0; i < kernels->rank->kernels.len; i++)
        finish_row(&rows[i], &kernels->making.at[i]);
    for (size_t i = 0; i < gpu->len; i++) {
        if (gpu->kind[i] != PROFILE_KERNEL)
            continue;
        const uint32_t number = trace_named_row(&kernels->named, gpu->name[i]);
        const double apart = (double)gpu->duration[i] - rows[number].mean_ns;

        kernels->making.at[number].squares += apart * apart;
    }
    for (size_t i = 0; i < kernels->rank->kernels.len; i++)
        rows[i].sd_ns = rows[i].count > 1 ? sqrt(kernels->making.at[i].squares / (double)(rows[i].count - 1)) : 0;
}

static int compare_kernels(const void *a, const void *b)
{
    const TraceKernel *x = a, *y = b;
    const int64_t keys[][2] = {{y->total_ns, x->total_ns}, {strcmp(x->name, y->name), 0}};
    return trace_compare(keys, ARRAY_LEN(keys));
}

void trace_kernels(const TraceJob *job, TraceRank *rank)
{
    const Profile *profile = job->index->profile;
    Kernels kernels = {
        .job = job, .rank = rank, .launch_row = xcalloc(profile->launches.len + 1, sizeof(*kernels.launch_row))};

    trace_named_init(&kernels.named, profile);
    map_u64_init(&kernels.shapes);
    for (size_t device = 0; device < job->index->devices.len; device++) {
        kernels.several = (TraceCover){0};
        kernels.last_end = INT64_MIN;
        for (size_t i = job->index->device_first.at[device]; i < job->index->device_first.at[device + 1]; i++)
            if (profile->gpu.kind[i] == PROFILE_KERNEL) {
                watch_kernel(&kernels, i);
                add_kernel(&kernels, device, i);
            }
        close_kernels(&kernels, INT64_MAX);
    }
    finish_kernels(&kernels);
    vec_sort(&rank->kernels, compare_kernels);
    map_done(&kernels.shapes);
    trace_named_done(&kernels.named);
    vec_done(&kernels.making);
    vec_done(&kernels.open);
    free(kernels.launch_row);
}

/* ---- copies ---- */

/* Copies and sets by direction and by the memory at both ends. */

enum { SMALL_COPY_BYTES = 64 * 1024 };

const char *const trace_copy_words[PROFILE_COPY_KIND_COUNT] = {
    [PROFILE_COPY_UNKNOWN] = "unknown", [PROFILE_COPY_HTOD] = "HtoD", [PROFILE_COPY_DTOH] = "DtoH",
    [PROFILE_COPY_DTOD] = "DtoD",       [PROFILE_COPY_PTOP] = "PtoP", [PROFILE_COPY_HTOH] = "HtoH",
    [PROFILE_COPY_SET] = "set"};
static const char *const memory_words[PROFILE_MEMORY_KIND_COUNT] = {
    [PROFILE_MEMORY_UNKNOWN] = "",      [PROFILE_MEMORY_PAGEABLE] = "pageable", [PROFILE_MEMORY_PINNED] = "pinned",
    [PROFILE_MEMORY_DEVICE] = "device", [PROFILE_MEMORY_ARRAY] = "array",       [PROFILE_MEMORY_MANAGED] = "managed"};

typedef struct Copies {
    const TraceJob *job;
    uint32_t row[PROFILE_COPY_KIND_COUNT][PROFILE_MEMORY_KIND_COUNT][PROFILE_MEMORY_KIND_COUNT]; /* number + 1 */
    TraceRank *rank;
    TraceCover cover; /* of everything but copies, on one device */
    Opens open;
} Copies;

static ProfileCopy copy_detail(const Profile *profile, size_t gpu_row)
{
    uint32_t extra = profile->gpu.extra[gpu_row];
    ProfileCopy copy = {.bytes = -1};

    if (extra < profile->copies.len)
        copy = profile->copies.at[extra];
    if (profile->gpu.kind[gpu_row] == PROFILE_SET)
        copy.kind = PROFILE_COPY_SET;
    if (copy.kind >= PROFILE_COPY_KIND_COUNT)
        copy.kind = PROFILE_COPY_UNKNOWN;
    if (copy.source >= PROFILE_MEMORY_KIND_COUNT)
        copy.source = PROFILE_MEMORY_UNKNOWN;
    if (copy.target >= PROFILE_MEMORY_KIND_COUNT)
        copy.target = PROFILE_MEMORY_UNKNOWN;
    return copy;
}

static uint32_t row_of(Copies *copies, const ProfileCopy *copy)
{
    uint32_t *row = &copies->row[copy->kind][copy->source][copy->target];

    if (*row == 0) {
        vec_push(&copies->rank->copies, ((TraceCopy){.kind = trace_copy_words[copy->kind],
                                                     .source = memory_words[copy->source],
                                                     .target = memory_words[copy->target],
                                                     .min_ns = INT64_MAX,
                                                     .bandwidth_gbs = NAN}));
        *row = (uint32_t)copies->rank->copies.len;
    }
    return *row - 1;
}

static void add_copy(TraceCopy *row, const ProfileCopy *copy, int64_t duration)
{
    trace_add_event(row, duration);
    if (copy->bytes < 0)
        return;
    row->bytes = trace_sum(row->bytes, copy->bytes);
    if (copy->bytes < SMALL_COPY_BYTES) {
        row->small_count++;
        row->small_ns = trace_sum(row->small_ns, duration);
    }
    if (duration > 0) {
        row->sized_bytes = trace_sum(row->sized_bytes, copy->bytes);
        row->sized_ns = trace_sum(row->sized_ns, duration);
    }
}

/* Settles the copies that end at or before `time`: everything that covers them has come. */
static void close_until(Copies *copies, int64_t time)
{
    while (copies->open.len > 0 && copies->open.at[0].end <= time) {
        Open open = heap_pop(&copies->open);
        int64_t covered = trace_cover_until(&copies->cover, open.end) - open.covered;
        TraceCopy *row = &copies->rank->copies.at[open.row];

        row->exposed_ns = trace_sum(row->exposed_ns, -covered);
    }
}

/* Starts to watch how much of the copy's time is covered. */
static void open_copy(Copies *copies, uint32_t row, int64_t start, int64_t end)
{
    if (end <= start)
        return;
    copies->rank->copies.at[row].exposed_ns = trace_sum(copies->rank->copies.at[row].exposed_ns, end - start);
    heap_push(&copies->open, (Open){.end = end, .covered = trace_cover_until(&copies->cover, start), .row = row});
}

static void add_row(Copies *copies, size_t gpu_row)
{
    const Profile *profile = copies->job->index->profile;
    int64_t start = profile->gpu.start[gpu_row], end = profile_end(&profile->gpu, gpu_row);
    uint8_t kind = profile->gpu.kind[gpu_row];

    close_until(copies, start);
    if (trace_gpu_class(copies->job->index, gpu_row) != TRACE_COPY) {
        trace_cover_add(&copies->cover, start, end);
    } else if (kind == PROFILE_COPY || kind == PROFILE_SET) {
        ProfileCopy copy = copy_detail(profile, gpu_row);
        const uint32_t row = row_of(copies, &copy);

        add_copy(&copies->rank->copies.at[row], &copy, end - start);
        open_copy(copies, row, start, end);
    }
}

static int compare_copies(const void *a, const void *b)
{
    const TraceCopy *x = a, *y = b;
    const int64_t keys[][2] = {{y->total_ns, x->total_ns},
                               {strcmp(x->kind, y->kind), 0},
                               {strcmp(x->source, y->source), 0},
                               {strcmp(x->target, y->target), 0}};
    return trace_compare(keys, ARRAY_LEN(keys));
}

void trace_copies(const TraceJob *job, TraceRank *rank)
{
    const TraceIndex *index = job->index;
    Copies copies = {.job = job, .rank = rank};

    for (size_t device = 0; device < index->devices.len; device++) {
        copies.cover = (TraceCover){0};
        for (size_t i = index->device_first.at[device]; i < index->device_first.at[device + 1]; i++)
            add_row(&copies, i);
        close_until(&copies, INT64_MAX);
    }
    for (size_t i = 0; i < rank->copies.len; i++) {
        TraceCopy *row = &rank->copies.at[i];

        row->bandwidth_gbs = row->sized_ns > 0 ? (double)row->sized_bytes / (double)row->sized_ns : NAN;
    }
    vec_sort(&rank->copies, compare_copies);
    vec_done(&copies.open);
}
