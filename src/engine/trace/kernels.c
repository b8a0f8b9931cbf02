/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels by name. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "engine/trace/analyse.h"
#include "engine/trace/tables.h"
#include "engine/trace/classify.h"

enum { SHAPE_SEED = 1, DISTINCT_RECENT = 1024 };

/* Whether a number was seen with a row before. */
typedef struct Distinct {
    Map seen;
    uint64_t recent[DISTINCT_RECENT]; /* pairs seen lately, so that most need no look at `seen` */
} Distinct;

static void distinct_init(Distinct *distinct)
{
    memset(distinct->recent, 0, sizeof distinct->recent);
    map_u64_init(&distinct->seen);
}

static void distinct_done(Distinct *distinct)
{
    map_done(&distinct->seen);
}

/* True the first time. */
static bool distinct_add(Distinct *distinct, uint32_t row, uint64_t key)
{
    static char present;
    uint64_t mixed = ((key ^ (uint64_t)row * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xd6e8feb86659fd93)) | 1;
    uint64_t *recent = &distinct->recent[(mixed >> 40) % DISTINCT_RECENT];

    if (*recent == mixed)
        return false;
    *recent = mixed;
    return !map_u64_put(&distinct->seen, mixed, &present);
}

/* Of a row while it is made: sums of value x time, and where the last of its kernels ran. */
typedef struct Making {
    double occupancy, blocks, efficiency;
    double squares;   /* sum of squared deviations */
    int64_t shape_ns; /* duration of the launch that the row's grid is of, -1 */
    uint32_t lane;    /* + 1; 0 none yet */
} Making;

typedef struct Kernels {
    const TraceJob *job;
    TraceNamed named;
    VEC(TraceKernel) rows;
    VEC(Making) making;
    uint32_t *launch_row;     /* launch -> the row that has its shape already, + 1 */
    Distinct shapes, devices; /* which were seen with which row */
} Kernels;

static TraceKernel new_kernel(const TraceJob *job, size_t gpu_row)
{
    const Profile *profile = job->index->profile;
    size_t len;
    const char *name = profile_text(profile, profile->gpu.name[gpu_row], &len);
    bool tensor_core = trace_is_tensor_core(name, len);

    return (TraceKernel){.name = arena_strndup(job->arena, name, len),
                         .class = trace_gpu_class(job->index, gpu_row),
                         .min_ns = INT64_MAX,
                         .tensor_core = tensor_core,
                         .float_matrix = trace_is_float_matrix(name, len),
                         .occupancy_percent = NAN,
                         .blocks_per_sm = NAN,
                         .sm_efficiency = NAN,
                         .registers = -1,
                         .shared_bytes = -1};
}

static int compare_shapes(const TraceKernel *a, const TraceKernel *b)
{
    int order = memcmp(a->grid, b->grid, sizeof a->grid);

    if (order == 0)
        order = memcmp(a->block, b->block, sizeof a->block);
    if (order == 0)
        order = a->registers < b->registers ? -1 : a->registers > b->registers;
    return order ? order : a->shared_bytes < b->shared_bytes ? -1 : a->shared_bytes > b->shared_bytes;
}

/* Takes the launch shape of `from`, which lasted `ns`, where it was longer; of equally long ones the smaller shape. */
static void keep_shape(TraceKernel *into, const TraceKernel *from, Making *making, int64_t ns)
{
    if (ns < making->shape_ns || (ns == making->shape_ns && compare_shapes(into, from) <= 0))
        return;
    memcpy(into->grid, from->grid, sizeof into->grid);
    memcpy(into->block, from->block, sizeof into->block);
    into->registers = from->registers;
    into->shared_bytes = from->shared_bytes;
    making->shape_ns = ns;
}

static void add_shape(Kernels *kernels, uint32_t number, uint32_t detail, int64_t duration)
{
    const ProfileLaunch *launch = &kernels->job->index->profile->launches.at[detail];
    TraceKernel *row = &kernels->rows.at[number];
    Making *making = &kernels->making.at[number];
    uint32_t shape[6];

    if (duration >= making->shape_ns) {
        TraceKernel seen = {.registers = launch->registers > 0 ? (int64_t)launch->registers : -1,
                            .shared_bytes = (int64_t)launch->shared_bytes};

        memcpy(seen.grid, launch->grid, sizeof seen.grid);
        memcpy(seen.block, launch->block, sizeof seen.block);
        keep_shape(row, &seen, making, duration);
    }
    if (kernels->launch_row[detail] == number + 1)
        return;
    kernels->launch_row[detail] = number + 1;
    memcpy(shape, launch->grid, sizeof launch->grid);
    memcpy(shape + 3, launch->block, sizeof launch->block);
    row->shapes += distinct_add(&kernels->shapes, number, map_hash(shape, sizeof shape, SHAPE_SEED));
}

static void add_launch(Kernels *kernels, uint32_t number, uint32_t detail, int64_t duration)
{
    const ProfileLaunch *launch = &kernels->job->index->profile->launches.at[detail];
    TraceKernel *row = &kernels->rows.at[number];
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

static void add_device(Kernels *kernels, uint32_t number, uint32_t lane)
{
    Making *making = &kernels->making.at[number];

    if (making->lane == lane + 1)
        return;
    making->lane = lane + 1;
    kernels->rows.at[number].device_count +=
        distinct_add(&kernels->devices, number, (uint32_t)kernels->job->index->profile->lanes.at[lane].device);
}

static void add_kernel(Kernels *kernels, size_t gpu_row)
{
    const Profile *profile = kernels->job->index->profile;
    int64_t duration = profile->gpu.duration[gpu_row];
    uint32_t number = trace_named_row(&kernels->named, profile->gpu.name[gpu_row]);
    uint32_t extra = profile->gpu.extra[gpu_row];
    TraceKernel *row;

    if (number == kernels->rows.len) {
        vec_push(&kernels->rows, new_kernel(kernels->job, gpu_row));
        vec_push(&kernels->making, (Making){.shape_ns = -1});
    }
    row = &kernels->rows.at[number];
    row->count++;
    row->total_ns = trace_sum(row->total_ns, duration);
    row->min_ns = duration < row->min_ns ? duration : row->min_ns;
    row->max_ns = duration > row->max_ns ? duration : row->max_ns;
    row->short_count += (uint64_t)duration < kernels->job->config->short_kernel_ns;
    add_device(kernels, number, profile->gpu.lane[gpu_row]);
    if (extra < profile->launches.len)
        add_launch(kernels, number, extra, duration);
}

static void set_means(TraceKernel *row, const Making *making)
{
    row->mean_ns = (double)row->total_ns / (double)row->count;
    if (row->occupancy_ns > 0)
        row->occupancy_percent = making->occupancy / (double)row->occupancy_ns;
    if (row->blocks_ns > 0) {
        row->blocks_per_sm = making->blocks / (double)row->blocks_ns;
        row->sm_efficiency = making->efficiency / (double)row->blocks_ns;
    }
}

/* Second pass, with the means known: deviations. */
static void add_spread(Kernels *kernels)
{
    const ProfileEvents *gpu = &kernels->job->index->profile->gpu;

    for (size_t i = 0; i < kernels->rows.len; i++)
        set_means(&kernels->rows.at[i], &kernels->making.at[i]);
    for (size_t i = 0; i < gpu->len; i++) {
        if (gpu->kind[i] != PROFILE_KERNEL)
            continue;
        const uint32_t number = trace_named_row(&kernels->named, gpu->name[i]);
        const double apart = (double)gpu->duration[i] - kernels->rows.at[number].mean_ns;

        kernels->making.at[number].squares += apart * apart;
    }
}

static int compare_kernels(const void *left, const void *right)
{
    const TraceKernel *a = left, *b = right;

    if (a->total_ns != b->total_ns)
        return a->total_ns > b->total_ns ? -1 : 1;
    return strcmp(a->name, b->name);
}

void trace_kernels(const TraceJob *job, TraceRank *rank)
{
    Kernels kernels = {.job = job, .launch_row = xcalloc(job->index->profile->launches.len + 1, sizeof(uint32_t))};

    trace_named_init(&kernels.named, job->index->profile);
    distinct_init(&kernels.shapes);
    distinct_init(&kernels.devices);
    for (size_t i = 0; i < job->index->profile->gpu.len; i++)
        if (job->index->profile->gpu.kind[i] == PROFILE_KERNEL)
            add_kernel(&kernels, i);
    add_spread(&kernels);
    for (uint32_t i = 0; i < kernels.rows.len; i++) {
        TraceKernel *row = &kernels.rows.at[i];

        row->sd_ns = row->count > 1 ? sqrt(kernels.making.at[i].squares / (double)(row->count - 1)) : 0;
        vec_push(&rank->kernels, *row);
    }
    if (rank->kernels.len > 1)
        qsort(rank->kernels.at, rank->kernels.len, sizeof *rank->kernels.at, compare_kernels);
    distinct_done(&kernels.shapes);
    distinct_done(&kernels.devices);
    trace_named_done(&kernels.named);
    vec_done(&kernels.rows);
    vec_done(&kernels.making);
    free(kernels.launch_row);
}

/* ---- copies ---- */

/* Copies and sets by direction and by the memory at both ends. */

enum { SMALL_COPY_BYTES = 64 * 1024 };

static const char *const kind_words[PROFILE_COPY_KIND_COUNT] = {
    [PROFILE_COPY_UNKNOWN] = "unknown", [PROFILE_COPY_HTOD] = "HtoD", [PROFILE_COPY_DTOH] = "DtoH",
    [PROFILE_COPY_DTOD] = "DtoD",       [PROFILE_COPY_PTOP] = "PtoP", [PROFILE_COPY_HTOH] = "HtoH",
    [PROFILE_COPY_SET] = "set"};
static const char *const memory_words[PROFILE_MEMORY_KIND_COUNT] = {
    [PROFILE_MEMORY_UNKNOWN] = "",      [PROFILE_MEMORY_PAGEABLE] = "pageable", [PROFILE_MEMORY_PINNED] = "pinned",
    [PROFILE_MEMORY_DEVICE] = "device", [PROFILE_MEMORY_ARRAY] = "array",       [PROFILE_MEMORY_MANAGED] = "managed"};

/* A copy that has not ended yet. */
typedef struct Open {
    int64_t end, covered; /* covered: as it began */
    uint32_t row;
} Open;

typedef struct Copies {
    const TraceJob *job;
    uint32_t row[PROFILE_COPY_KIND_COUNT][PROFILE_MEMORY_KIND_COUNT][PROFILE_MEMORY_KIND_COUNT]; /* number + 1 */
    VEC(TraceCopy) rows;
    TraceCover cover; /* of everything but copies, on one device */
    VEC(Open) open;   /* a heap, the first to end on top */
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
        vec_push(&copies->rows, ((TraceCopy){.kind = kind_words[copy->kind],
                                             .source = memory_words[copy->source],
                                             .target = memory_words[copy->target],
                                             .min_ns = INT64_MAX,
                                             .bandwidth_gbs = NAN}));
        *row = (uint32_t)copies->rows.len;
    }
    assert(copies->rows.at);
    return *row - 1;
}

static void add_copy(TraceCopy *row, const ProfileCopy *copy, int64_t duration)
{
    row->count++;
    row->total_ns = trace_sum(row->total_ns, duration);
    row->min_ns = duration < row->min_ns ? duration : row->min_ns;
    row->max_ns = duration > row->max_ns ? duration : row->max_ns;
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

static void heap_push(Copies *copies, Open open)
{
    size_t i = copies->open.len;

    vec_push(&copies->open, open);
    for (; i > 0 && copies->open.at[(i - 1) / 2].end > open.end; i = (i - 1) / 2)
        copies->open.at[i] = copies->open.at[(i - 1) / 2];
    copies->open.at[i] = open;
}

static Open heap_pop(Copies *copies)
{
    Open top = copies->open.at[0], last = copies->open.at[--copies->open.len];
    size_t i = 0, child;

    while ((child = 2 * i + 1) < copies->open.len) {
        if (child + 1 < copies->open.len && copies->open.at[child + 1].end < copies->open.at[child].end)
            child++;
        if (copies->open.at[child].end >= last.end)
            break;
        copies->open.at[i] = copies->open.at[child];
        i = child;
    }
    if (copies->open.len > 0)
        copies->open.at[i] = last;
    return top;
}

/* Settles the copies that end at or before `time`: everything that covers them has come. */
static void close_until(Copies *copies, int64_t time)
{
    while (copies->open.len > 0 && copies->open.at[0].end <= time) {
        Open open = heap_pop(copies);
        int64_t covered = trace_cover_until(&copies->cover, open.end) - open.covered;
        TraceCopy *row = &copies->rows.at[open.row];

        row->exposed_ns = trace_sum(row->exposed_ns, -covered);
    }
}

/* Starts to watch how much of the copy's time is covered. */
static void open_copy(Copies *copies, uint32_t row, int64_t start, int64_t end)
{
    if (end <= start)
        return;
    copies->rows.at[row].exposed_ns = trace_sum(copies->rows.at[row].exposed_ns, end - start);
    heap_push(copies, (Open){.end = end, .covered = trace_cover_until(&copies->cover, start), .row = row});
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

        add_copy(&copies->rows.at[row], &copy, end - start);
        open_copy(copies, row, start, end);
    }
}

static int compare_copies(const void *left, const void *right)
{
    const TraceCopy *a = left, *b = right;
    int order;

    if (a->total_ns != b->total_ns)
        return a->total_ns > b->total_ns ? -1 : 1;
    order = strcmp(a->kind, b->kind);
    if (order == 0)
        order = strcmp(a->source, b->source);
    return order ? order : strcmp(a->target, b->target);
}

static void finish_copies(TraceRank *rank)
{
    for (size_t i = 0; i < rank->copies.len; i++) {
        TraceCopy *row = &rank->copies.at[i];

        row->bandwidth_gbs = row->sized_ns > 0 ? (double)row->sized_bytes / (double)row->sized_ns : NAN;
    }
    if (rank->copies.len > 1)
        qsort(rank->copies.at, rank->copies.len, sizeof *rank->copies.at, compare_copies);
}

void trace_copies(const TraceJob *job, TraceRank *rank)
{
    const TraceIndex *index = job->index;
    Copies copies = {.job = job};

    for (size_t device = 0; device < index->devices.len; device++) {
        copies.cover = (TraceCover){0};
        for (size_t i = index->device_first.at[device]; i < index->device_first.at[device + 1]; i++)
            add_row(&copies, i);
        close_until(&copies, INT64_MAX);
    }
    for (size_t i = 0; i < copies.rows.len; i++)
        vec_push(&rank->copies, copies.rows.at[i]);
    finish_copies(rank);
    vec_done(&copies.rows);
    vec_done(&copies.open);
}
