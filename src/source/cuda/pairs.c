/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between each two GPUs: by the copy engines, by the SMs of the GPU that has the data, and both ways at once.
 * Each pair has data of its own, so that what an earlier copy left is never taken for this one's.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/number.h"
#include "source/cuda/links.h"

#define PAIR_BYTES (UINT64_C(64) << 20)
enum { SHARE = 4, WINDOW_MS = 2, TIMES_MAX = 32, STAGED_SHARE = 2, BLOCKS_PER_SM = 2 };

typedef struct Side {
    CudaGpu *gpu;
    CUdeviceptr from, to;
} Side;

typedef struct Pairs {
    BenchProcess *process;
    uint64_t bytes;
    Side sides[BENCH_GPUS_MAX];
} Pairs;

/* One way of a pair. */
typedef struct Way {
    const Side *source, *target;
    bool access;               /* the source's SMs reach the target's memory */
    uint32_t times;            /* copies of a window */
    double copy_gb_s, sm_gb_s; /* medians */
} Way;

static BenchError pair_error(const Way *way, BenchErrorKind kind, const char *what)
{
    return bench_error_of(kind, way->source->gpu->place, way->target->gpu->place, what);
}

/* ---- access ---- */

static int send_no_peer(Pairs *p, const Way *way, const char *what, CUresult result)
{
    BenchError error = pair_error(way, BENCH_ERROR_NO_PEER, what);

    error.code = result;
    return bench_send_error(&p->process->sender, &error);
}

static int open_access(Pairs *p, Way *way)
{
    Cuda *cuda = way->source->gpu->cuda;
    CUresult result;
    int can = 0;

    TRY(cuda_gpu_select(way->source->gpu));
    CUDA_TRY(cuda, cuDeviceCanAccessPeer, (&can, way->source->gpu->device, way->target->gpu->device));
    if (!can)
        return send_no_peer(p, way, "cuDeviceCanAccessPeer", CUDA_SUCCESS);
    result = cuda->table.cuCtxEnablePeerAccess(way->target->gpu->context, 0);
    way->access = result == CUDA_SUCCESS || result == CUDA_PEER_ALREADY;
    if (way->access)
        return 0;
    if (result == CUDA_NO_PEER || result == CUDA_TOO_MANY_PEERS)
        return send_no_peer(p, way, "cuCtxEnablePeerAccess", result);
    cuda_check(cuda, "cuCtxEnablePeerAccess", result);
    return -EIO;
}

/* ---- data ---- */

static CudaLaunch pattern_launch(const Pairs *p, const CudaGpu *gpu, CudaKernel kernel, CUdeviceptr at, uint32_t seed)
{
    return (CudaLaunch){.kernel = kernel,
                        .grid = gpu->facts.sm_count * BLOCKS_PER_SM,
                        .args = {.a = at, .count = p->bytes / 16, .pattern = CUDA_PATTERN_RANDOM, .seed = seed}};
}

static int write_source(const Pairs *p, const Way *way, uint32_t seed)
{
    const CudaLaunch launch = pattern_launch(p, way->source->gpu, CUDA_MEMORY_WRITE, way->source->from, seed);
    double ms = 0;

    TRY(cuda_gpu_select(way->source->gpu));
    return cuda_gpu_run(way->source->gpu, &launch, 1, &ms);
}

static int verify_target(const Pairs *p, const Way *way, uint32_t seed, BenchError *error)
{
    const CudaLaunch launch = pattern_launch(p, way->target->gpu, CUDA_MEMORY_VERIFY, way->target->to, seed);
    double ms = 0;

    TRY(cuda_gpu_select(way->target->gpu));
    TRY(cuda_gpu_run(way->target->gpu, &launch, 1, &ms));
    links_add_blocks(error, cuda_gpu_results_of(way->target->gpu, &launch), launch.grid, 0);
    return 0;
}

/* ---- copies ---- */

static CudaLaunch copy_launch(const Pairs *p, const Way *way)
{
    return (CudaLaunch){.kernel = CUDA_MEMORY_COPY,
                        .grid = way->source->gpu->facts.sm_count * BLOCKS_PER_SM,
                        .args = {.a = way->source->from, .b = way->target->to, .count = p->bytes / 16, .rounds = 1}};
}

static int queue_copies(const Pairs *p, const Way *way, uint32_t times)
{
    CudaGpu *source = way->source->gpu;
    Cuda *cuda = source->cuda;

    for (uint32_t i = 0; i < times; i++)
        CUDA_TRY(
            cuda, cuMemcpyPeerAsync,
            (way->target->to, way->target->gpu->context, way->source->from, source->context, p->bytes, source->stream));
    return 0;
}

static int begin_copies(const Pairs *p, const Way *way, uint32_t times)
{
    TRY(cuda_gpu_select(way->source->gpu));
    TRY(cuda_gpu_record(way->source->gpu, way->source->gpu->begin));
    TRY(queue_copies(p, way, times));
    return cuda_gpu_record(way->source->gpu, way->source->gpu->end);
}

static int end_copies(const Way *way, double *ret_ms)
{
    TRY(cuda_gpu_select(way->source->gpu));
    return cuda_gpu_elapsed(way->source->gpu, way->source->gpu->begin, way->source->gpu->end, ret_ms);
}

/* By the engines, or by SMs. */
static int copy_window(const Pairs *p, const Way *way, bool by_sm, uint32_t times, double *ret_ms)
{
    const CudaLaunch launch = copy_launch(p, way);

    if (!by_sm) {
        TRY(begin_copies(p, way, times));
        return end_copies(way, ret_ms);
    }
    TRY(cuda_gpu_select(way->source->gpu));
    return cuda_gpu_run(way->source->gpu, &launch, times, ret_ms);
}

/* Copies data that the target never had, and compares; once more after an error. */
static int check_copy(Pairs *p, const Way *way, bool by_sm, uint32_t seed)
{
    const BenchMeasureId id = by_sm ? BENCH_PEER_SM : BENCH_PEER;
    BenchError error = links_error(id, way->source->gpu->place, way->target->gpu->place), again = error;
    double ms = 0;

    TRY(write_source(p, way, seed));
    TRY(copy_window(p, way, by_sm, 1, &ms));
    TRY(verify_target(p, way, seed, &error));
    if (error.count == 0)
        return 0;
    TRY(copy_window(p, way, by_sm, 1, &ms));
    TRY(verify_target(p, way, seed, &again));
    error.repeats = links_repeats(&error, &again);
    return bench_send_error(&p->process->sender, &error);
}

static int measure_way(Pairs *p, Way *way, bool by_sm, double *ret_gb_s)
{
    BenchMeasure measure =
        bench_measure_of(by_sm ? BENCH_PEER_SM : BENCH_PEER, way->source->gpu->place, way->target->gpu->place);
    double ms = 0;

    TRY(copy_window(p, way, by_sm, 1, &ms));
    way->times = (uint32_t)number_min_u64((uint64_t)(WINDOW_MS / ms) + 2, TIMES_MAX);
    measure.bytes = p->bytes * way->times;
    for (; measure.count < p->process->options.windows; measure.count++) {
        TRY(copy_window(p, way, by_sm, way->times, &ms));
        measure.samples[measure.count] = (double)measure.bytes / ms / 1e6;
    }
    *ret_gb_s = bench_measure_median(&measure);
    return bench_send_measure(&p->process->sender, &measure);
}

/* Through the host: there is no other way, or the engines are far slower than SMs on the same link. */
static int judge_staged(Pairs *p, const Way *way)
{
    BenchError error = pair_error(way, BENCH_ERROR_STAGED, "cuMemcpyPeerAsync");

    if (way->access && way->copy_gb_s * STAGED_SHARE >= way->sm_gb_s)
        return 0;
    error.measure = BENCH_PEER;
    return bench_send_error(&p->process->sender, &error);
}

static int run_way(Pairs *p, const Side *source, const Side *target)
{
    const uint32_t seed = cuda_hash(source->gpu->place * BENCH_GPUS_MAX + target->gpu->place + 1);
    Way way = {.source = source, .target = target};

    TRY(open_access(p, &way));
    TRY(check_copy(p, &way, false, seed));
    TRY(measure_way(p, &way, false, &way.copy_gb_s));
    if (way.access) {
        TRY(check_copy(p, &way, true, ~seed));
        TRY(measure_way(p, &way, true, &way.sm_gb_s));
    }
    return judge_staged(p, &way);
}

/* Both directions together, in GB/s of both; once for each pair. */
static int run_both(Pairs *p, const Side *one, const Side *other)
{
    const Way ways[] = {{.source = one, .target = other}, {.source = other, .target = one}};
    BenchMeasure measure = bench_measure_of(BENCH_PEER_BOTH, one->gpu->place, other->gpu->place);
    double ms = 0;
    uint32_t times;

    TRY(copy_window(p, &ways[0], false, 1, &ms));
    times = (uint32_t)number_min_u64((uint64_t)(WINDOW_MS / ms) + 2, TIMES_MAX);
    measure.bytes = p->bytes * times * ARRAY_LEN(ways);
    for (; measure.count < p->process->options.windows; measure.count++) {
        for (size_t i = 0; i < ARRAY_LEN(ways); i++)
            TRY(begin_copies(p, &ways[i], times));
        for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
            TRY(end_copies(&ways[i], &ms));
            measure.samples[measure.count] += (double)(p->bytes * times) / ms / 1e6;
        }
    }
    return bench_send_measure(&p->process->sender, &measure);
}

/* ---- the stage ---- */

static int prepare_sides(Pairs *p)
{
    TRY(links_choose_bytes(p->process, PAIR_BYTES, SHARE, &p->bytes));
    for (uint32_t i = 0; i < p->process->gpu_count; i++) {
        Side *side = &p->sides[i];

        side->gpu = &p->process->gpus[i];
        TRY(cuda_gpu_select(side->gpu));
        TRY(cuda_gpu_load(side->gpu, CUDA_MEMORY_WRITE));
        TRY(cuda_gpu_load(side->gpu, CUDA_MEMORY_VERIFY));
        TRY(cuda_gpu_load(side->gpu, CUDA_MEMORY_COPY));
        TRY(cuda_gpu_memory(side->gpu, p->bytes, &side->from));
        TRY(cuda_gpu_memory(side->gpu, p->bytes, &side->to));
    }
    return 0;
}

static int run_pairs(Pairs *p)
{
    const uint32_t count = p->process->gpu_count;

    TRY(prepare_sides(p));
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = 0; j < count; j++)
            if (i != j)
                TRY(run_way(p, &p->sides[i], &p->sides[j]));
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = i + 1; j < count; j++)
            TRY(run_both(p, &p->sides[i], &p->sides[j]));
    return 0;
}

int bench_stage_pairs(BenchProcess *process)
{
    CLEANUP_FREE Pairs *p = xcalloc(1, sizeof *p);

    p->process = process;
    return run_pairs(p);
}
