/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All GPUs at once: a ring, all to all, and an all-reduce of integers as float, whose result is exact and the same on
 * every GPU. What a window holds is queued on all GPUs while they wait for a gate, a kernel of the first GPU, so that
 * they begin together and none waits for the host.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/number.h"
#include "source/cuda/links.h"

#define LARGE_BYTES (UINT64_C(256) << 20)
#define SMALL_BYTES (UINT64_C(8) << 20)
/* Data repeat after so many bytes; no two parts of a GPU's data begin alike. */
#define TILE_BYTES ((UINT64_C(1) << 22) - 64)
#define TILE_WORDS (TILE_BYTES / 4)

enum { SHARE = 3, WINDOW_MS = 2, TIMES_MAX = 16, GATE_MS = 10, SLOTS = 2, ADD_GRID_PER_SM = 4, COMPARE_GRID = 64 };

typedef struct Member {
    CudaGpu *gpu;
    CUdeviceptr data;    /* `bytes` */
    CUdeviceptr scratch; /* SLOTS parts, for what others send */
    CUdeviceptr want;    /* a tile of the result */
    CUevent begin, end, done;
} Member;

typedef struct Collective {
    BenchProcess *process;
    uint32_t count;
    uint64_t part; /* bytes that each GPU reduces, of `count` parts */
    uint64_t most; /* the largest part */
    float *tile;   /* in pinned memory */
    CUevent gate;
    CudaLaunch gate_launch;
    Member members[BENCH_GPUS_MAX];
    BenchError errors[BENCH_GPUS_MAX][BENCH_GPUS_MAX], again[BENCH_GPUS_MAX][BENCH_GPUS_MAX];
} Collective;

/* Queues its work on all GPUs. */
typedef int Step(Collective *c);

/* ---- windows ---- */

static Member *find_member(Collective *c, uint32_t place)
{
    return &c->members[place % c->count];
}

static int queue_copy(const Member *from, CUdeviceptr source, const Member *to, CUdeviceptr target, uint64_t bytes,
                      const Member *on)
{
    Cuda *cuda = on->gpu->cuda;

    CUDA_TRY(cuda, cuMemcpyPeerAsync, (target, to->gpu->context, source, from->gpu->context, bytes, on->gpu->stream));
    return 0;
}

static int wait_event(const Member *member, CUevent event)
{
    Cuda *cuda = member->gpu->cuda;

    CUDA_TRY(cuda, cuStreamWaitEvent, (member->gpu->stream, event, 0));
    return 0;
}

/* All GPUs wait for the first one's kernel, whose time the host uses to queue what comes behind it. */
static int close_gate(Collective *c)
{
    CudaGpu *first = c->members[0].gpu;

    TRY(cuda_gpu_select(first));
    TRY(cuda_gpu_launch(first, &c->gate_launch));
    TRY(cuda_gpu_record(first, c->gate));
    for (uint32_t i = 0; i < c->count; i++) {
        TRY(cuda_gpu_select(c->members[i].gpu));
        TRY(wait_event(&c->members[i], c->gate));
        TRY(cuda_gpu_record(c->members[i].gpu, c->members[i].begin));
    }
    return 0;
}

/* Each GPU waits for what all have queued so far. */
static int join_members(Collective *c)
{
    for (uint32_t i = 0; i < c->count; i++) {
        TRY(cuda_gpu_select(c->members[i].gpu));
        TRY(cuda_gpu_record(c->members[i].gpu, c->members[i].done));
    }
    for (uint32_t i = 0; i < c->count; i++) {
        TRY(cuda_gpu_select(c->members[i].gpu));
        for (uint32_t k = 1; k < c->count; k++)
            TRY(wait_event(&c->members[i], find_member(c, i + k)->done));
    }
    return 0;
}

static int run_window(Collective *c, Step *step, uint32_t times, double *ret_ms)
{
    TRY(close_gate(c));
    for (uint32_t i = 0; i < times; i++)
        TRY(step(c));
    for (uint32_t i = 0; i < c->count; i++) {
        TRY(cuda_gpu_select(c->members[i].gpu));
        TRY(cuda_gpu_record(c->members[i].gpu, c->members[i].end));
    }
    for (uint32_t i = 0; i < c->count; i++) {
        TRY(cuda_gpu_select(c->members[i].gpu));
        TRY(cuda_gpu_elapsed(c->members[i].gpu, c->members[i].begin, c->members[i].end, &ret_ms[i]));
    }
    return 0;
}

/* Samples of each GPU into `measures`, by its own time; `bytes` of one step. */
static int sample_step(Collective *c, Step *step, uint64_t bytes, BenchMeasure *measures)
{
    double ms[BENCH_GPUS_MAX] = {0}, longest = 0;
    uint32_t times;

    TRY(run_window(c, step, 1, ms));
    for (uint32_t i = 0; i < c->count; i++)
        longest = ms[i] > longest ? ms[i] : longest;
    times = (uint32_t)number_min_u64((uint64_t)(WINDOW_MS / longest) + 2, TIMES_MAX);
    for (uint32_t w = 0; w < c->process->options.windows; w++) {
        TRY(run_window(c, step, times, ms));
        for (uint32_t i = 0; i < c->count; i++) {
            measures[i].bytes = bytes;
            measures[i].samples[measures[i].count++] = (double)(bytes * times) / ms[i] / 1e6;
        }
    }
    return 0;
}

static int send_measures(Collective *c, const BenchMeasure *measures)
{
    for (uint32_t i = 0; i < c->count; i++)
        TRY(bench_send_measure(&c->process->sender, &measures[i]));
    return 0;
}

static void start_measures(const Collective *c, BenchMeasureId id, BenchMeasure *measures)
{
    for (uint32_t i = 0; i < c->count; i++)
        measures[i] = bench_measure_of(id, c->members[i].gpu->place, BENCH_NONE);
}

/* ---- steps ---- */

/* Each GPU sends its first parts to the next one. */
static int queue_ring(Collective *c)
{
    for (uint32_t i = 0; i < c->count; i++) {
        const Member *from = &c->members[i], *to = find_member(c, i + 1);

        TRY(cuda_gpu_select(from->gpu));
        TRY(queue_copy(from, from->data, to, to->scratch, c->part * SLOTS, from));
    }
    return 0;
}

/* Each GPU sends a part to each other one, all in the same order from themselves on. */
static int queue_all_to_all(Collective *c)
{
    for (uint32_t k = 1; k < c->count; k++)
        for (uint32_t i = 0; i < c->count; i++) {
            const Member *from = &c->members[i], *to = find_member(c, i + k);

            TRY(cuda_gpu_select(from->gpu));
            TRY(queue_copy(from, from->data + c->part * ((i + k) % c->count), to, to->scratch + c->part * (k % SLOTS),
                           c->part, from));
        }
    return 0;
}

static int queue_add(const Member *member, CUdeviceptr sum, CUdeviceptr addend, uint64_t bytes)
{
    const CudaLaunch launch = {.kernel = CUDA_ADD_FLOAT,
                               .grid = member->gpu->facts.sm_count * ADD_GRID_PER_SM,
                               .args = {.a = sum, .b = addend, .count = bytes / 16}};

    return cuda_gpu_launch(member->gpu, &launch);
}

/* GPU i gathers part i of all others and adds it to its own. */
static int queue_reduce(Collective *c)
{
    for (uint32_t k = 1; k < c->count; k++)
        for (uint32_t i = 0; i < c->count; i++) {
            const Member *to = &c->members[i], *from = find_member(c, i + k);
            const CUdeviceptr slot = to->scratch + c->part * (k % SLOTS);

            TRY(cuda_gpu_select(to->gpu));
            TRY(queue_copy(from, from->data + c->part * i, to, slot, c->part, to));
            TRY(queue_add(to, to->data + c->part * i, slot, c->part));
        }
    return 0;
}

/* GPU i sends its sum to all others. */
static int queue_gather(Collective *c)
{
    for (uint32_t k = 1; k < c->count; k++)
        for (uint32_t i = 0; i < c->count; i++) {
            const Member *from = &c->members[i], *to = find_member(c, i + k);

            TRY(cuda_gpu_select(from->gpu));
            TRY(queue_copy(from, from->data + c->part * i, to, to->data + c->part * i, c->part, from));
        }
    return 0;
}

static int queue_all_reduce(Collective *c)
{
    TRY(queue_reduce(c));
    TRY(join_members(c));
    TRY(queue_gather(c));
    return join_members(c);
}

/* ---- data of the all-reduce ---- */

/* Whole numbers -8..7: sums of them are exact in any order. */
static float find_value(uint32_t place, uint64_t index)
{
    return (float)((int)((cuda_hash((uint32_t)index) + place * 7) & 15) - 8);
}

/* Of the tile, that are used. */
static uint64_t count_words(const Collective *c)
{
    return number_min_u64(TILE_WORDS, c->part * c->count / 4);
}

static int upload_tile(const Collective *c, const Member *member, CUdeviceptr to, uint64_t bytes)
{
    CudaGpu *gpu = member->gpu;
    Cuda *cuda = gpu->cuda;

    for (uint64_t done = 0; done < bytes; done += TILE_BYTES)
        CUDA_TRY(cuda, cuMemcpyHtoDAsync_v2,
                 (to + done, c->tile, number_min_u64(TILE_BYTES, bytes - done), gpu->stream));
    return cuda_gpu_synchronize(gpu); /* the tile is written anew for the next GPU */
}

static int fill_data(Collective *c)
{
    for (uint32_t i = 0; i < c->count; i++) {
        const Member *member = &c->members[i];

        for (uint64_t k = 0; k < count_words(c); k++)
            c->tile[k] = find_value(i, k);
        TRY(cuda_gpu_select(member->gpu));
        TRY(upload_tile(c, member, member->data, c->part * c->count));
    }
    return 0;
}

static int fill_want(Collective *c)
{
    for (uint64_t k = 0; k < count_words(c); k++) {
        c->tile[k] = 0;
        for (uint32_t i = 0; i < c->count; i++)
            c->tile[k] += find_value(i, k);
    }
    for (uint32_t i = 0; i < c->count; i++) {
        TRY(cuda_gpu_select(c->members[i].gpu));
        TRY(upload_tile(c, &c->members[i], c->members[i].want, count_words(c) * 4));
    }
    return 0;
}

/* Compares a part on a GPU with the sum. */
static int compare_part(Collective *c, const Member *member, uint32_t part, BenchError *error)
{
    const uint64_t end = c->part * (part + 1);
    CudaLaunch launch = {.kernel = CUDA_COMPARE, .grid = COMPARE_GRID};
    uint64_t bytes;
    double ms = 0;

    for (uint64_t at = c->part * part; at < end; at += bytes) {
        bytes = number_min_u64(TILE_BYTES - at % TILE_BYTES, end - at);
        launch.args.a = member->data + at;
        launch.args.b = member->want + at % TILE_BYTES;
        launch.args.count = bytes / 4;
        TRY(cuda_gpu_run(member->gpu, &launch, 1, &ms));
        links_add_blocks(error, cuda_gpu_results_of(member->gpu, &launch), launch.grid, at);
    }
    return 0;
}

/* One all-reduce of fresh data. Part k is summed by GPU k: errors[k][i] is what of it is wrong on GPU i. */
static int reduce_once(Collective *c, BenchError errors[][BENCH_GPUS_MAX])
{
    double ms[BENCH_GPUS_MAX];

    TRY(fill_data(c));
    TRY(run_window(c, queue_all_reduce, 1, ms));
    for (uint32_t i = 0; i < c->count; i++) {
        TRY(cuda_gpu_select(c->members[i].gpu));
        for (uint32_t k = 0; k < c->count; k++) {
            errors[k][i] = links_error(BENCH_ALL_REDUCE, k, i == k ? BENCH_NONE : i);
            TRY(compare_part(c, &c->members[i], k, &errors[k][i]));
        }
    }
    return 0;
}

/* Where a GPU's own sum is wrong the others have only copied it; else the way to each GPU with a wrong copy is. */
static int send_errors(Collective *c)
{
    for (uint32_t k = 0; k < c->count; k++)
        for (uint32_t i = 0; i < c->count; i++) {
            BenchError *error = &c->errors[k][i];

            if (error->count == 0 || (i != k && c->errors[k][k].count > 0))
                continue;
            error->repeats = links_repeats(error, &c->again[k][i]);
            TRY(bench_send_error(&c->process->sender, error));
        }
    return 0;
}

static int check_all_reduce(Collective *c)
{
    bool wrong = false;

    TRY(fill_want(c));
    TRY(reduce_once(c, c->errors));
    for (uint32_t k = 0; k < c->count; k++)
        for (uint32_t i = 0; i < c->count; i++)
            wrong = wrong || c->errors[k][i].count > 0;
    if (!wrong)
        return 0;
    TRY(reduce_once(c, c->again));
    return send_errors(c);
}

/* Exact at both sizes; the faster one is the rate, as bytes on the bus: 2 (n - 1) / n of those that are reduced. */
static int measure_all_reduce(Collective *c)
{
    const uint64_t parts[] = {number_min_u64(SMALL_BYTES / c->count / 1024 * 1024, c->most), c->most};
    BenchMeasure measures[ARRAY_LEN(parts)][BENCH_GPUS_MAX];
    double best[ARRAY_LEN(parts)];

    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        c->part = parts[i];
        start_measures(c, BENCH_ALL_REDUCE, measures[i]);
        TRY(check_all_reduce(c));
        TRY(sample_step(c, queue_all_reduce, 2 * (c->count - 1) * c->part, measures[i]));
        best[i] = bench_measure_median(&measures[i][0]);
    }
    return send_measures(c, measures[best[1] >= best[0]]);
}

/* ---- the stage ---- */

static int prepare_member(Collective *c, CudaGpu *gpu)
{
    Member *member = &c->members[gpu->place];

    member->gpu = gpu;
    TRY(cuda_gpu_select(gpu));
    TRY(cuda_gpu_load(gpu, CUDA_ADD_FLOAT));
    TRY(cuda_gpu_load(gpu, CUDA_COMPARE));
    TRY(cuda_gpu_memory(gpu, c->most * c->count, &member->data));
    TRY(cuda_gpu_memory(gpu, c->most * SLOTS, &member->scratch));
    TRY(cuda_gpu_memory(gpu, TILE_BYTES, &member->want));
    TRY(cuda_gpu_event(gpu, &member->begin));
    TRY(cuda_gpu_event(gpu, &member->end));
    return cuda_gpu_event(gpu, &member->done);
}

static int prepare_gate(Collective *c)
{
    CudaGpu *first = c->members[0].gpu;
    void *tile = NULL;
    double ms = 0;

    TRY(cuda_gpu_select(first));
    TRY(cuda_gpu_pinned(first, TILE_BYTES, &tile));
    c->tile = tile;
    TRY(cuda_gpu_event(first, &c->gate));
    TRY(cuda_gpu_load(first, CUDA_MEMORY_READ));
    c->gate_launch = (CudaLaunch){.kernel = CUDA_MEMORY_READ,
                                  .grid = first->facts.sm_count,
                                  .args = {.a = c->members[0].data, .count = c->most / 16, .rounds = 1}};
    for (int i = 0; i < 2; i++)
        TRY(cuda_gpu_run(first, &c->gate_launch, 1, &ms));
    c->gate_launch.args.rounds = (uint32_t)(GATE_MS / ms) + 1;
    return 0;
}

static int run_collectives(Collective *c)
{
    BenchMeasure measures[BENCH_GPUS_MAX];
    uint64_t bytes = 0;

    TRY(links_choose_bytes(c->process, LARGE_BYTES, SHARE, &bytes));
    c->most = bytes / c->count / 1024 * 1024;
    c->part = c->most;
    for (uint32_t i = 0; i < c->count; i++)
        TRY(prepare_member(c, &c->process->gpus[i]));
    TRY(prepare_gate(c));
    start_measures(c, BENCH_RING, measures);
    TRY(sample_step(c, queue_ring, c->part * SLOTS, measures));
    TRY(send_measures(c, measures));
    start_measures(c, BENCH_ALL_TO_ALL, measures);
    TRY(sample_step(c, queue_all_to_all, c->part * (c->count - 1), measures));
    TRY(send_measures(c, measures));
    return measure_all_reduce(c);
}

int bench_stage_collectives(BenchProcess *process)
{
    CLEANUP_FREE Collective *c = xcalloc(1, sizeof *c);

    c->process = process;
    c->count = process->gpu_count;
    return c->count < 2 ? 0 : run_collectives(c);
}
