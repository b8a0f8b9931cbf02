/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels by name. Events count in the scope that they start in, whole. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "engine/trace/named.h"
#include "engine/trace/set.h"
#include "engine/trace/shapes.h"
#include "engine/trace/sum.h"

enum { SHAPE_SEED = 1 };

/* Of a row while it is made: sums of value x time, and where the last of its kernels ran. */
typedef struct Making {
    double occupancy, blocks, efficiency;
    uint32_t lane; /* + 1; 0 none yet */
} Making;

typedef struct Kernels {
    const TraceJob *job;
    TraceNamed named;
    VEC(TraceKernel) rows;
    VEC(Making) making;
    uint32_t *launch_row; /* launch -> the row that has its shape already, + 1 */
    TraceSetMaker shapes, devices;
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
                         .shared_bytes = -1,
                         .shape_ns = -1};
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

/* Takes the launch shape of `from` where its launch was longer; of equally long ones the smaller shape. */
static void take_shape(TraceKernel *into, const TraceKernel *from)
{
    if (from->shape_ns < into->shape_ns ||
        (from->shape_ns == into->shape_ns && (from->shape_ns < 0 || compare_shapes(into, from) <= 0)))
        return;
    memcpy(into->grid, from->grid, sizeof into->grid);
    memcpy(into->block, from->block, sizeof into->block);
    into->registers = from->registers;
    into->shared_bytes = from->shared_bytes;
    into->shape_ns = from->shape_ns;
}

static void add_shape(Kernels *kernels, uint32_t number, uint32_t detail, int64_t duration)
{
    const ProfileLaunch *launch = &kernels->job->index->profile->launches.at[detail];
    TraceKernel *row = &kernels->rows.at[number];
    uint32_t shape[6];

    if (duration >= row->shape_ns) {
        TraceKernel seen = {.shape_ns = duration,
                            .registers = launch->registers > 0 ? (int64_t)launch->registers : -1,
                            .shared_bytes = (int64_t)launch->shared_bytes};

        memcpy(seen.grid, launch->grid, sizeof seen.grid);
        memcpy(seen.block, launch->block, sizeof seen.block);
        take_shape(row, &seen);
    }
    if (kernels->launch_row[detail] == number + 1)
        return;
    kernels->launch_row[detail] = number + 1;
    memcpy(shape, launch->grid, sizeof launch->grid);
    memcpy(shape + 3, launch->block, sizeof launch->block);
    trace_set_maker_add(&kernels->shapes, number, map_hash(shape, sizeof shape, SHAPE_SEED));
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
    trace_set_maker_add(&kernels->devices, number, (uint32_t)kernels->job->index->profile->lanes.at[lane].device);
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
        vec_push(&kernels->making, (Making){0});
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

static bool counts(const TraceJob *job, size_t gpu_row)
{
    const ProfileEvents *gpu = &job->index->profile->gpu;

    return gpu->kind[gpu_row] == PROFILE_KERNEL && trace_scope_has(job->scope, gpu->start[gpu_row]);
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

/* The means are known: now what lies around them. */
static void add_spread(Kernels *kernels)
{
    const ProfileEvents *gpu = &kernels->job->index->profile->gpu;

    for (size_t i = 0; i < kernels->rows.len; i++)
        set_means(&kernels->rows.at[i], &kernels->making.at[i]);
    for (size_t i = 0; i < gpu->len; i++) {
        TraceKernel *row;
        double apart;

        if (!counts(kernels->job, i))
            continue;
        row = &kernels->rows.at[trace_named_row(&kernels->named, gpu->name[i])];
        apart = (double)gpu->duration[i] - row->mean_ns;
        row->m2 += apart * apart;
    }
}

static int compare_kernels(const void *left, const void *right)
{
    const TraceKernel *a = left, *b = right;

    if (a->total_ns != b->total_ns)
        return a->total_ns > b->total_ns ? -1 : 1;
    return strcmp(a->name, b->name);
}

static void finish_row(TraceKernel *row)
{
    row->sd_ns = row->count > 1 ? sqrt(row->m2 / (double)(row->count - 1)) : 0;
    row->shapes = (int64_t)row->shape_keys.len;
    row->device_count = (int32_t)row->device_keys.len;
}

static void sort_kernels(TraceRank *rank)
{
    if (rank->kernels.len > 1)
        qsort(rank->kernels.at, rank->kernels.len, sizeof *rank->kernels.at, compare_kernels);
}

void trace_kernels(const TraceJob *job, TraceRank *rank)
{
    Kernels kernels = {.job = job, .launch_row = xcalloc(job->index->profile->launches.len + 1, sizeof(uint32_t))};

    trace_named_init(&kernels.named, job->index->profile);
    trace_set_maker_init(&kernels.shapes);
    trace_set_maker_init(&kernels.devices);
    for (size_t i = 0; i < job->index->profile->gpu.len; i++)
        if (counts(job, i))
            add_kernel(&kernels, i);
    add_spread(&kernels);
    for (uint32_t i = 0; i < kernels.rows.len; i++) {
        TraceKernel *row = &kernels.rows.at[i];

        row->shape_keys = trace_set_maker_take(&kernels.shapes, i, job->arena);
        row->device_keys = trace_set_maker_take(&kernels.devices, i, job->arena);
        finish_row(row);
        vec_push(&rank->kernels, *row);
    }
    sort_kernels(rank);
    trace_set_maker_done(&kernels.shapes);
    trace_set_maker_done(&kernels.devices);
    trace_named_done(&kernels.named);
    vec_done(&kernels.rows);
    vec_done(&kernels.making);
    free(kernels.launch_row);
}

/* Sums; mean and spread of both together after Chan, Golub and LeVeque (1979). */
static void join_kernel(TraceKernel *into, const TraceKernel *from, Arena *arena)
{
    double a = (double)into->count, b = (double)from->count, apart = from->mean_ns - into->mean_ns;

    into->m2 += from->m2 + apart * apart * a * b / (a + b);
    into->count += from->count;
    into->total_ns = trace_sum(into->total_ns, from->total_ns);
    into->mean_ns = (double)into->total_ns / (double)into->count;
    into->min_ns = from->min_ns < into->min_ns ? from->min_ns : into->min_ns;
    into->max_ns = from->max_ns > into->max_ns ? from->max_ns : into->max_ns;
    into->short_count += from->short_count;
    into->occupancy_percent =
        trace_weighted(into->occupancy_percent, into->occupancy_ns, from->occupancy_percent, from->occupancy_ns);
    into->occupancy_ns = trace_sum(into->occupancy_ns, from->occupancy_ns);
    into->blocks_per_sm = trace_weighted(into->blocks_per_sm, into->blocks_ns, from->blocks_per_sm, from->blocks_ns);
    into->sm_efficiency = trace_weighted(into->sm_efficiency, into->blocks_ns, from->sm_efficiency, from->blocks_ns);
    into->blocks_ns = trace_sum(into->blocks_ns, from->blocks_ns);
    into->shape_keys = trace_set_union(into->shape_keys, from->shape_keys, arena);
    into->device_keys = trace_set_union(into->device_keys, from->device_keys, arena);
    take_shape(into, from);
    finish_row(into);
}

void trace_kernels_merge(TraceRank *into, TraceRank *next, const TraceConfig *config, Arena *arena)
{
    Map rows;

    (void)config;
    map_init(&rows);
    for (size_t i = 0; i < into->kernels.len; i++)
        map_put(&rows, into->kernels.at[i].name, (void *)(i + 1));
    for (size_t i = 0; i < next->kernels.len; i++) {
        size_t row = (size_t)map_get(&rows, next->kernels.at[i].name);

        if (row > 0)
            join_kernel(&into->kernels.at[row - 1], &next->kernels.at[i], arena);
        else
            vec_push(&into->kernels, next->kernels.at[i]);
    }
    map_done(&rows);
    sort_kernels(into);
}
