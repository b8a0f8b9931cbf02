/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a neighbour costs, both sides of it, each a process of its own. The victim measures what can be shared; the
 * aggressor loads one thing until it is stopped. Both use the same kernels. Memory isolation: the aggressor fills what
 * it can have with a pattern and gives it back; the victim's new memory must not hold it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cleanup.h"
#include "base/number.h"
#include "source/cuda/rate.h"
#include "source/cuda/stage.h"

#define MIB UINT64_C(1048576)
#define COPY_BYTES (16 * MIB)
#define LAUNCHES_NS (2 * NS_PER_S) /* of the launches, where they wait for a neighbour's turn */

enum { BLOCKS_PER_SM = 2, L2_TIMES = 10, BUFFER_MIN_MIB = 512, TRIES_MAX = 16, BATCH = 8, SETTLE_MS = 300 };
enum {
    LAUNCHES = 2000,
    LAUNCHES_MIN = 100,
    PROBE_FIRST_ROUNDS = 256,
    LAUNCH_MS = RATE_WINDOW_MS + 2,
    COPY_WINDOW_MS = 5,
    COPIES_MAX = 1024
};

/* Something to do again and again: a kernel or, with memory of the host, a copy. */
typedef struct Load {
    BenchMeasureId id;
    CudaLaunch launch;
    CUdeviceptr to;
    void *host;  /* NULL: a kernel */
    double work; /* of one: in the measure's unit and ms */
    uint64_t bytes;
} Load;

/* ---- loads ---- */

static int prepare_memory(BenchProcess *process, CudaGpu *gpu, CUdeviceptr *ret_at, uint64_t *ret_bytes)
{
    const uint64_t good = number_max_u64(gpu->facts.l2_bytes * L2_TIMES, BUFFER_MIN_MIB * MIB);
    uint64_t budget = 0;

    TRY(cuda_gpu_load(gpu, CUDA_MEMORY_READ));
    TRY(cuda_gpu_budget(gpu, process->options.memory_percent, process->options.keep_mib, &budget));
    *ret_bytes = number_max_u64(number_min_u64(budget / 4, good) / MIB, 1) * MIB;
    return cuda_gpu_memory(gpu, *ret_bytes, ret_at);
}

static int load_memory(BenchProcess *process, CudaGpu *gpu, Load *ret)
{
    CUdeviceptr at = 0;

    TRY(prepare_memory(process, gpu, &at, &ret->bytes));
    ret->id = BENCH_MEMORY_READ;
    ret->launch = (CudaLaunch){.kernel = CUDA_MEMORY_READ,
                               .grid = gpu->facts.sm_count * BLOCKS_PER_SM,
                               .args = {.a = at, .count = ret->bytes / 16, .rounds = 1}};
    ret->work = (double)ret->bytes / 1e6;
    return 0;
}

static int load_l2(BenchProcess *process, CudaGpu *gpu, Load *ret)
{
    CUdeviceptr at = 0;
    uint64_t bytes = 0;

    TRY(prepare_memory(process, gpu, &at, &bytes));
    TRY(bench_prepare_l2(gpu, at, bytes, LAUNCH_MS, &ret->launch));
    ret->id = BENCH_L2_READ;
    ret->bytes = ret->launch.args.count * 16;
    ret->work = (double)ret->bytes * ret->launch.args.rounds / 1e6;
    return 0;
}

/* bf16, or fp16 where a GPU has not got it. One block on each SM: they are spread evenly without more. */
static int load_compute(BenchProcess *process, CudaGpu *gpu, Load *ret)
{
    int rc;

    (void)process;
    ret->id = BENCH_MMA_BF16;
    ret->launch = (CudaLaunch){.kernel = CUDA_PROBE_MMA_BF16, .grid = gpu->facts.sm_count};
    rc = cuda_gpu_load(gpu, ret->launch.kernel);
    if (rc > 0) {
        ret->id = BENCH_MMA_FP16;
        ret->launch.kernel = CUDA_PROBE_MMA_F16;
        rc = cuda_gpu_load(gpu, ret->launch.kernel);
    }
    TRY(rc);
    TRY(rate_find_rounds(gpu, &ret->launch, PROBE_FIRST_ROUNDS, LAUNCH_MS));
    ret->work = cuda_kernel_operations(ret->launch.kernel) * ret->launch.args.rounds * ret->launch.grid / 1e9;
    return 0;
}

static int load_copy(BenchProcess *process, CudaGpu *gpu, Load *ret)
{
    (void)process;
    ret->id = BENCH_HOST_TO_GPU;
    ret->bytes = COPY_BYTES;
    ret->work = (double)COPY_BYTES / 1e6;
    TRY(cuda_gpu_memory(gpu, COPY_BYTES, &ret->to));
    TRY(cuda_gpu_pinned(gpu, COPY_BYTES, &ret->host));
    memset(ret->host, 0, COPY_BYTES);
    return 0;
}

static int (*const loads[BENCH_FLOOD_END])(BenchProcess *process, CudaGpu *gpu, Load *ret) = {
    [BENCH_FLOOD_MEMORY] = load_memory,
    [BENCH_FLOOD_L2] = load_l2,
    [BENCH_FLOOD_COMPUTE] = load_compute,
    [BENCH_FLOOD_COPY] = load_copy,
};

static int run_copies(CudaGpu *gpu, const Load *load, uint32_t times, double *ret_ms)
{
    Cuda *cuda = gpu->cuda;

    TRY(cuda_gpu_record(gpu, gpu->begin));
    for (uint32_t i = 0; i < times; i++)
        CUDA_TRY(cuda, cuMemcpyHtoDAsync_v2, (load->to, load->host, COPY_BYTES, gpu->stream));
    TRY(cuda_gpu_record(gpu, gpu->end));
    return cuda_gpu_elapsed(gpu, gpu->begin, gpu->end, ret_ms);
}

static int sample_copies(CudaGpu *gpu, const Load *load, uint32_t windows, BenchMeasure *measure)
{
    uint32_t times = 1;
    double ms = 0;

    for (int i = 0; i < 2; i++)
        TRY(run_copies(gpu, load, 1, &ms));
    times = (uint32_t)number_min_u64((uint64_t)(COPY_WINDOW_MS / ms) + 1, COPIES_MAX);
    for (; measure->count < windows; measure->count++) {
        TRY(run_copies(gpu, load, times, &ms));
        measure->samples[measure->count] = load->work * times / ms;
    }
    return 0;
}

static int send_rate(BenchProcess *process, CudaGpu *gpu, const Load *load, uint32_t windows)
{
    BenchMeasure measure = bench_measure_of(load->id, gpu->place, BENCH_NONE);

    measure.bytes = load->bytes;
    if (!load->host && load->launch.args.count == 0 && load->id == BENCH_L2_READ)
        return 0; /* the size of the L2 is not known */
    if (load->host) {
        TRY(sample_copies(gpu, load, windows, &measure));
    } else {
        TRY(rate_warm_up(gpu, &load->launch)); /* each load has a power, and so a clock, of its own */
        TRY(rate_sample(gpu, &load->launch, windows, load->work, &measure));
    }
    return bench_send_measure(&process->sender, &measure);
}

/* ---- the victim ---- */

static int compare_times(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* From the end of one block to that of the next, each launched when the host has seen the end of the one before: the
 * way there and back, by the GPU's own clock. */
static int time_launches(CudaGpu *gpu, double us[LAUNCHES], uint32_t *ret_count)
{
    CudaLaunch launch = {.kernel = CUDA_PROBE_MMA_F16, .grid = 1, .args = {.rounds = 1}};
    const CudaBlockResult *result = cuda_gpu_results_of(gpu, &launch);
    uint64_t first_ns = 0, last_ns = 0;

    TRY(cuda_gpu_load(gpu, launch.kernel));
    *ret_count = 0;
    for (uint32_t i = 0; i <= LAUNCHES && (i < LAUNCHES_MIN || last_ns - first_ns < LAUNCHES_NS); i++) {
        TRY(cuda_gpu_launch(gpu, &launch));
        TRY(cuda_gpu_synchronize(gpu));
        if (i == 0)
            first_ns = result->end_ns;
        else
            us[(*ret_count)++] = result->end_ns > last_ns ? (double)(result->end_ns - last_ns) / 1000 : 0;
        last_ns = result->end_ns;
    }
    return 0;
}

static int send_launches(BenchProcess *process, CudaGpu *gpu)
{
    BenchMeasure middle = bench_measure_of(BENCH_LAUNCH, gpu->place, BENCH_NONE);
    BenchMeasure late = bench_measure_of(BENCH_LAUNCH_P99, gpu->place, BENCH_NONE);
    double us[LAUNCHES];
    uint32_t count = 0;

    TRY(time_launches(gpu, us, &count));
    qsort(us, count, sizeof *us, compare_times);
    middle.samples[middle.count++] = us[count / 2];
    late.samples[late.count++] = us[(uint64_t)count * 99 / 100];
    TRY(bench_send_measure(&process->sender, &middle));
    return bench_send_measure(&process->sender, &late);
}

int bench_stage_victim(BenchProcess *process, CudaGpu *gpu)
{
    for (BenchFlood kind = 0; kind < BENCH_FLOOD_END; kind++) {
        Load load = {.host = NULL};

        TRY(loads[kind](process, gpu, &load));
        TRY(send_rate(process, gpu, &load, process->options.windows));
    }
    return send_launches(process, gpu);
}

/* ---- the aggressor ---- */

static int run_batch(CudaGpu *gpu, const Load *load, double *ret_ms)
{
    return load->host ? run_copies(gpu, load, BATCH, ret_ms) : cuda_gpu_run(gpu, &load->launch, BATCH, ret_ms);
}

int bench_stage_flood(BenchProcess *process, CudaGpu *gpu)
{
    const uint64_t end_ns = clock_read(CLOCK_MONOTONIC) + process->options.seconds * NS_PER_S;
    Load load = {.host = NULL};
    double ms = 0, settled_ms = 0;

    TRY(loads[process->options.flood](process, gpu, &load));
    while (settled_ms < SETTLE_MS) { /* its power and clock, before the victim comes */
        TRY(run_batch(gpu, &load, &ms));
        settled_ms += ms;
    }
    TRY(send_rate(process, gpu, &load, 1));
    while (clock_read(CLOCK_MONOTONIC) < end_ns)
        TRY(run_batch(gpu, &load, &ms));
    return 0;
}

/* ---- memory of another process ---- */

/* As much as there is at once: after a failure a little less. */
static int take_all(BenchProcess *process, CudaGpu *gpu, CUdeviceptr *ret_at, uint64_t *ret_bytes)
{
    int rc = 1;

    TRY(cuda_gpu_budget(gpu, process->options.memory_percent, process->options.keep_mib, ret_bytes));
    for (int i = 0; rc > 0 && i < TRIES_MAX; i++) {
        *ret_bytes = number_max_u64((i ? *ret_bytes / 4 * 3 : *ret_bytes) / MIB, 1) * MIB;
        rc = cuda_gpu_try_memory(gpu, *ret_bytes, ret_at);
    }
    return rc > 0 ? cuda_gpu_memory(gpu, *ret_bytes, ret_at) : rc;
}

/* All words but one bit set, in each word the next: hardly anybody's data, and the same in each page, wherever it
 * comes to lie. */
static CudaLaunch pattern_launch(const CudaGpu *gpu, CudaKernel kernel, CUdeviceptr at, uint64_t bytes)
{
    return (CudaLaunch){.kernel = kernel,
                        .grid = gpu->facts.sm_count * BLOCKS_PER_SM,
                        .args = {.a = at,
                                 .count = bytes / 16,
                                 .pattern = CUDA_PATTERN_WALK,
                                 .flags = kernel == CUDA_MEMORY_WRITE ? CUDA_KERNEL_INVERT : CUDA_KERNEL_INVERTED}};
}

int bench_stage_fill(BenchProcess *process, CudaGpu *gpu)
{
    CUdeviceptr at = 0;
    uint64_t bytes = 0;
    double ms = 0;

    TRY(take_all(process, gpu, &at, &bytes));
    TRY(cuda_gpu_load(gpu, CUDA_MEMORY_WRITE));
    const CudaLaunch launch = pattern_launch(gpu, CUDA_MEMORY_WRITE, at, bytes);
    return cuda_gpu_run(gpu, &launch, 1, &ms);
}

int bench_stage_fresh(BenchProcess *process, CudaGpu *gpu)
{
    BenchMeasure measure = bench_measure_of(BENCH_FOREIGN, gpu->place, BENCH_NONE);
    CUdeviceptr at = 0;
    uint64_t other = 0;
    double ms = 0;

    TRY(take_all(process, gpu, &at, &measure.bytes));
    TRY(cuda_gpu_load(gpu, CUDA_MEMORY_VERIFY));
    const CudaLaunch launch = pattern_launch(gpu, CUDA_MEMORY_VERIFY, at, measure.bytes);
    TRY(cuda_gpu_run(gpu, &launch, 1, &ms));
    for (uint32_t i = 0; i < launch.grid; i++)
        other += cuda_gpu_results_of(gpu, &launch)[i].errors;
    measure.samples[measure.count++] = (double)(measure.bytes / 4 - number_min_u64(other, measure.bytes / 4));
    return bench_send_measure(&process->sender, &measure);
}
