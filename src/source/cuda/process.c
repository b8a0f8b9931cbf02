/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "source/cuda/rate.h"
#include "source/cuda/stage.h"
#include "source/cuda/worker.h"

enum { WAIT_MS = 20 };

static int send_failure(BenchProcess *process)
{
    Cuda *cuda = &process->cuda;
    const bool of_one = process->options.links && cuda->failed_gpu != BENCH_NONE;
    BenchError error;

    if (!cuda->failed)
        return 0;
    error = bench_error_of(BENCH_ERROR_CALL,
                           of_one                   ? cuda->failed_gpu
                           : process->options.links ? BENCH_NONE
                                                    : 0,
                           BENCH_NONE, cuda->failed);
    error.code = cuda->result;
    cuda->failed = NULL;
    cuda->result = CUDA_SUCCESS;
    return bench_send_error(&process->sender, &error);
}

/* ---- start ---- */

static int send_older_text(BenchProcess *process, const CudaGpu *gpu, CudaText text)
{
    BenchError error = bench_error_of(BENCH_ERROR_OLDER_TEXT, gpu->place, BENCH_NONE, cuda_text_name(text));

    error.code = gpu->text_results[text];
    return bench_send_error(&process->sender, &error);
}

/* Kernels of arithmetic; all others are in the base. To compile those for Hopper takes seconds. */
static bool needs_arithmetic(const BenchOptions *options)
{
    for (uint32_t i = 0; i < options->stage_count; i++)
        if (options->stages[i] == BENCH_STAGE_PROBES || options->stages[i] == BENCH_STAGE_GEMM ||
            options->stages[i] == BENCH_STAGE_BURN || options->stages[i] == BENCH_STAGE_VICTIM ||
            options->stages[i] == BENCH_STAGE_FLOOD)
            return true;
    return false;
}

/* All texts that are for this GPU and will be needed, so that the time of their compilation is no stage's. Without the
 * base nothing can be done; without another one its kernels are left out. */
static int load_texts(BenchProcess *process, CudaGpu *gpu)
{
    bool tried[CUDA_TEXT_COUNT] = {0};

    for (CudaKernel kernel = 0; kernel < CUDA_KERNEL_COUNT; kernel++) {
        const CudaText text = cuda_gpu_text(gpu, kernel);
        int rc;

        if (tried[text] || (text != CUDA_TEXT_BASE && !needs_arithmetic(&process->options)))
            continue;
        tried[text] = true;
        rc = cuda_gpu_load(gpu, kernel);
        if (text == CUDA_TEXT_BASE && rc != 0) {
            if (rc > 0)
                cuda_check(gpu->cuda, "cuModuleLoadDataEx",
                           gpu->text_results[text] ? gpu->text_results[text] : CUDA_NO_BINARY);
            return -EIO;
        }
        if (rc > 0 && gpu->text_results[text])
            TRY(send_older_text(process, gpu, text));
        if (rc < 0)
            TRY(gpu->cuda->sticky ? -EIO : send_failure(process));
    }
    return 0;
}

static int start_gpu(BenchProcess *process, uint32_t place, double init_ms)
{
    CudaGpu *gpu = &process->gpus[place];
    BenchMeasure measure = bench_measure_of(BENCH_CONTEXT, place, BENCH_NONE);

    process->gpu_count = place + 1;
    TRY(cuda_gpu_start(gpu, &process->cuda, place));
    TRY(bench_send_device(&process->sender, place, &gpu->facts));
    measure.samples[measure.count++] = init_ms + gpu->start_ms;
    TRY(bench_send_measure(&process->sender, &measure));
    return load_texts(process, gpu);
}

static int start_gpus(BenchProcess *process)
{
    Cuda *cuda = &process->cuda;
    const uint64_t begin_ns = clock_read(CLOCK_MONOTONIC);
    double init_ms;
    int count = 0;

    CUDA_TRY(cuda, cuInit, (0));
    init_ms = (double)(clock_read(CLOCK_MONOTONIC) - begin_ns) / NS_PER_MS;
    CUDA_TRY(cuda, cuDeviceGetCount, (&count));
    if (count < 1)
        cuda_check(cuda, "cuDeviceGetCount", CUDA_NO_DEVICE);
    if (count < 1)
        return -EIO;
    for (uint32_t place = 0; place < (process->options.links ? (uint32_t)count : 1); place++) {
        if (place == BENCH_GPUS_MAX)
            break;
        if (cuda->stopping)
            return -EINTR;
        TRY(start_gpu(process, place, init_ms));
    }
    return 0;
}

static int open_library(BenchProcess *process, const CudaTable *table)
{
    if (!table)
        TRY(cuda_open(&process->cuda, process->options.library));
    else
        process->cuda.table = *table;
    if (process->options.mps[0])
        setenv("CUDA_MPS_PIPE_DIRECTORY", process->options.mps, 1);
    return 0;
}

static int run_start(BenchProcess *process, const CudaTable *table)
{
    TRY(bench_send_stage(&process->sender, BENCH_STAGE_START));
    TRY(open_library(process, table));
    return start_gpus(process);
}

/* ---- stages ---- */

static int (*const gpu_stages[BENCH_STAGE_COUNT])(BenchProcess *process, CudaGpu *gpu) = {
    [BENCH_STAGE_PATTERNS] = bench_stage_patterns, [BENCH_STAGE_MEMORY] = bench_stage_memory,
    [BENCH_STAGE_PROBES] = bench_stage_probes,     [BENCH_STAGE_GEMM] = bench_stage_gemm,
    [BENCH_STAGE_BURN] = bench_stage_burn,         [BENCH_STAGE_FRESH] = bench_stage_fresh,
    [BENCH_STAGE_VICTIM] = bench_stage_victim,     [BENCH_STAGE_FILL] = bench_stage_fill,
    [BENCH_STAGE_FLOOD] = bench_stage_flood,       [BENCH_STAGE_LIBRARY] = bench_stage_library,
};

static int (*const link_stages[BENCH_STAGE_COUNT])(BenchProcess *process) = {
    [BENCH_STAGE_HOST] = bench_stage_host,
    [BENCH_STAGE_PAIRS] = bench_stage_pairs,
    [BENCH_STAGE_COLLECTIVES] = bench_stage_collectives,
};

static int run_stage(BenchProcess *process, BenchStage stage)
{
    TRY(bench_send_stage(&process->sender, stage));
    if (process->cuda.stopping)
        return -EINTR;
    return gpu_stages[stage] ? gpu_stages[stage](process, &process->gpus[0]) : link_stages[stage](process);
}

/* What a stage came to, after which all that it held is released. 0: go on with the next one. */
static int end_stage(BenchProcess *process, int rc)
{
    for (uint32_t i = 0; i < process->gpu_count; i++)
        cuda_gpu_release(&process->gpus[i]);
    TRY(send_failure(process));
    if (rc == -EINTR) {
        const BenchError stopped =
            bench_error_of(BENCH_ERROR_STOPPED, process->options.links ? BENCH_NONE : 0, BENCH_NONE, "");

        TRY(bench_send_error(&process->sender, &stopped));
        return -EINTR;
    }
    return process->cuda.sticky ? -EIO : rc == -EPIPE ? rc : 0;
}

/* GPUs of a node are at work meanwhile: the start of all their contexts takes seconds. */
static void wait_for_go(const Cuda *cuda)
{
    const struct timespec turn = {.tv_nsec = WAIT_MS * NS_PER_MS};
    sigset_t go;

    sigemptyset(&go);
    sigaddset(&go, SIGUSR1);
    while (!cuda->stopping && sigtimedwait(&go, NULL, &turn) < 0)
        ;
}

static int run_stages(BenchProcess *process)
{
    if (process->options.wait)
        wait_for_go(&process->cuda);
    for (uint32_t i = 0; i < process->options.stage_count; i++)
        TRY(end_stage(process, run_stage(process, process->options.stages[i])));
    return 0;
}

/* Their end may take long, or never come back: it is a stage like others. */
static void stop_gpus(BenchProcess *process)
{
    (void)bench_send_stage(&process->sender, BENCH_STAGE_END_OF_WORK);
    for (uint32_t i = process->gpu_count; i-- > 0;)
        cuda_gpu_stop(&process->gpus[i]);
    (void)send_failure(process);
    cuda_close(&process->cuda);
}

int bench_process_run(BenchProcess *process, const CudaTable *table)
{
    const int rc = run_start(process, table);

    if (end_stage(process, rc) == 0 && rc == 0)
        (void)run_stages(process);
    stop_gpus(process);
    return process->sender.gone ? BENCH_WORKER_EXIT_GONE : 0;
}
