/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory bandwidth: buffers far larger than the L2, each kernel repeated back to back. Latency: one thread follows
 * links from line to line. The L2's own bandwidth: a quarter of it, read again and again.
 */
#include <string.h>

#include "base/cleanup.h"
#include "base/number.h"
#include "source/cuda/rate.h"
#include "source/cuda/stage.h"

#define MIB UINT64_C(1048576)
#define BUFFER_MAX (2048 * MIB)
#define CHAIN_MIN (32 * MIB)
#define CHAIN_MAX (1024 * MIB)
#define LINE_BYTES UINT64_C(256) /* a link in each: no two of them in one sector, line or burst */
#define PIECE_BYTES (8 * MIB)
#define CHASE_ROUNDS 32768
#define L2_FIRST_ROUNDS 256

enum { BLOCKS_PER_SM = 2, BUFFERS = 3, L2_TIMES = 10, L2_LAUNCH_MS = 5 };

/* Bytes that a kernel moves for each byte of its buffers, as STREAM counts: what the program asks for. */
static const struct {
    BenchMeasureId id;
    CudaKernel kernel;
    uint32_t moves;
} kinds[] = {
    {BENCH_MEMORY_WRITE, CUDA_MEMORY_WRITE, 1},
    {BENCH_MEMORY_READ, CUDA_MEMORY_READ, 1},
    {BENCH_MEMORY_COPY, CUDA_MEMORY_COPY, 2},
    {BENCH_MEMORY_TRIAD, CUDA_MEMORY_TRIAD, 3},
};

static int measure_kinds(BenchProcess *process, CudaGpu *gpu, const CUdeviceptr *buffers, uint64_t bytes)
{
    CudaLaunch launch = {
        .grid = gpu->facts.sm_count * BLOCKS_PER_SM,
        .args = {.a = buffers[0], .b = buffers[1], .c = buffers[2], .count = bytes / 16, .rounds = 1},
    };

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        BenchMeasure measure = bench_measure_of(kinds[i].id, gpu->place, BENCH_NONE);

        launch.kernel = kinds[i].kernel;
        measure.bytes = bytes * kinds[i].moves;
        TRY(cuda_gpu_load(gpu, launch.kernel));
        if (i == 0)
            TRY(rate_warm_up(gpu, &launch));
        TRY(rate_sample(gpu, &launch, process->options.windows, (double)measure.bytes / 1e6, &measure));
        TRY(bench_send_measure(&process->sender, &measure));
    }
    return 0;
}

/* ---- latency ---- */

/* The links of one piece: a linear congruence that visits all lines, whose number is a power of two (Hull and Dobell:
 * the factor 1 modulo 4, the increment odd). */
static void write_links(char *piece, uint64_t first_line, uint64_t lines, uint64_t all_lines)
{
    for (uint64_t i = 0; i < lines; i++) {
        const uint64_t next = ((first_line + i) * 0x9e3779b5 + 0x6d2b79f5) % all_lines;
        const uint32_t index = (uint32_t)(next * (LINE_BYTES / sizeof(uint32_t)));

        memcpy(piece + i * LINE_BYTES, &index, sizeof index);
    }
}

static int write_chain(CudaGpu *gpu, CUdeviceptr at, uint64_t bytes)
{
    const uint64_t lines = PIECE_BYTES / LINE_BYTES;
    Cuda *cuda = gpu->cuda;
    void *piece = NULL;

    TRY(cuda_gpu_pinned(gpu, PIECE_BYTES, &piece));
    memset(piece, 0, PIECE_BYTES);
    for (uint64_t done = 0; done < bytes; done += PIECE_BYTES) {
        write_links(piece, done / LINE_BYTES, lines, bytes / LINE_BYTES);
        CUDA_TRY(cuda, cuMemcpyHtoDAsync_v2, (at + done, piece, PIECE_BYTES, gpu->stream));
        TRY(cuda_gpu_synchronize(gpu));
    }
    return 0;
}

/* A power of two, four times the L2 where the buffer has it. */
static uint64_t size_chain(uint64_t l2_bytes, uint64_t buffer_bytes)
{
    const uint64_t most =
        number_min_u64(number_min_u64(buffer_bytes, CHAIN_MAX), number_max_u64(4 * l2_bytes, CHAIN_MIN));
    uint64_t bytes = PIECE_BYTES;

    while (bytes * 2 <= most)
        bytes *= 2;
    return bytes;
}

static int measure_latency(BenchProcess *process, CudaGpu *gpu, CUdeviceptr at, uint64_t buffer_bytes)
{
    BenchMeasure measure = bench_measure_of(BENCH_MEMORY_LATENCY, gpu->place, BENCH_NONE);
    CudaLaunch launch = {.kernel = CUDA_MEMORY_CHASE, .grid = 1, .args = {.a = at, .rounds = CHASE_ROUNDS}};
    CudaClock clock = {0};
    double ms = 0;

    measure.bytes = size_chain(gpu->facts.l2_bytes, buffer_bytes);
    launch.args.count = measure.bytes / 4;
    TRY(write_chain(gpu, at, measure.bytes));
    TRY(cuda_gpu_load(gpu, launch.kernel));
    for (uint32_t i = 0; i < process->options.windows + 1; i++) {
        TRY(cuda_gpu_run(gpu, &launch, 1, &ms));
        if (i == 0) /* its loading */
            continue;
        measure.samples[measure.count++] = ms * 1e6 / CHASE_ROUNDS;
        cuda_clock_add(&clock, cuda_gpu_results_of(gpu, &launch), 1);
    }
    measure.sm_mhz = cuda_clock_mhz(&clock);
    return bench_send_measure(&process->sender, &measure);
}

/* ---- L2 ---- */

int bench_prepare_l2(CudaGpu *gpu, CUdeviceptr at, uint64_t buffer_bytes, uint32_t ms, CudaLaunch *ret)
{
    const uint64_t bytes = number_min_u64(gpu->facts.l2_bytes / 4, buffer_bytes) / 4096 * 4096;

    *ret = (CudaLaunch){.kernel = CUDA_MEMORY_READ,
                        .grid = gpu->facts.sm_count * BLOCKS_PER_SM,
                        .args = {.a = at, .count = bytes / 16}};
    return bytes ? rate_find_rounds(gpu, ret, L2_FIRST_ROUNDS, ms) : 0;
}

static int measure_l2(BenchProcess *process, CudaGpu *gpu, CUdeviceptr at, uint64_t buffer_bytes)
{
    BenchMeasure measure = bench_measure_of(BENCH_L2_READ, gpu->place, BENCH_NONE);
    CudaLaunch launch;

    TRY(bench_prepare_l2(gpu, at, buffer_bytes, L2_LAUNCH_MS, &launch));
    measure.bytes = launch.args.count * 16;
    if (measure.bytes == 0)
        return 0;
    TRY(rate_sample(gpu, &launch, process->options.windows, (double)measure.bytes * launch.args.rounds / 1e6,
                    &measure));
    return bench_send_measure(&process->sender, &measure);
}

/* At least ten times the L2 for what is to come out of memory, three buffers of one size. */
static int size_buffers(BenchProcess *process, CudaGpu *gpu, uint64_t *ret)
{
    const uint64_t good = number_max_u64(gpu->facts.l2_bytes * L2_TIMES, BUFFER_MAX);
    uint64_t budget = 0;

    TRY(cuda_gpu_budget(gpu, process->options.memory_percent, process->options.keep_mib, &budget));
    *ret = number_min_u64(budget / BUFFERS, good) / (2 * MIB) * (2 * MIB);
    return 0;
}

int bench_stage_memory(BenchProcess *process, CudaGpu *gpu)
{
    CUdeviceptr buffers[BUFFERS] = {0};
    uint64_t bytes = 0;

    TRY(size_buffers(process, gpu, &bytes));
    bytes = number_max_u64(bytes, PIECE_BYTES); /* less is no memory at all: then the allocation says so */
    for (int i = 0; i < BUFFERS; i++)
        TRY(cuda_gpu_memory(gpu, bytes, &buffers[i]));
    TRY(measure_kinds(process, gpu, buffers, bytes));
    TRY(measure_latency(process, gpu, buffers[0], bytes));
    return measure_l2(process, gpu, buffers[1], bytes);
}
