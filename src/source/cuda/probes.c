/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probes: an instruction repeated out of registers, one block on each SM. The work of an SM per clock is a constant of
 * the hardware, so that a slow or missing SM is seen by itself, and every result is known.
 */
#include <string.h>

#include "base/cleanup.h"
#include "base/number.h"
#include "source/cuda/rate.h"
#include "source/cuda/stage.h"

enum { FIRST_ROUNDS = 256, WINDOW_TARGET_MS = 22, TRIES_MAX = 8, WRONG_MAX = 8, IDS_MAX = 1024 };
#define ROUNDS_MAX 67108864.0

/* In the order of preference: of several kernels of a measure the first one that the GPU can run is it. */
static const struct {
    BenchMeasureId id;
    CudaKernel kernel;
} probes[] = {
    {BENCH_FMA_FP32, CUDA_PROBE_FMA32},      {BENCH_FMA_FP64, CUDA_PROBE_FMA64},
    {BENCH_MMA_FP16, CUDA_PROBE_MMA_F16},    {BENCH_MMA_BF16, CUDA_PROBE_MMA_BF16},
    {BENCH_MMA_TF32, CUDA_PROBE_MMA_TF32},   {BENCH_MMA_INT8, CUDA_PROBE_MMA_INT8},
    {BENCH_MMA_INT8, CUDA_PROBE_MMA_S8},     {BENCH_MMA_FP64, CUDA_PROBE_MMA_F64},
    {BENCH_MMA_FP8, CUDA_PROBE_MMA_FP8},     {BENCH_WGMMA_BF16, CUDA_PROBE_WGMMA_BF16},
    {BENCH_WGMMA_FP8, CUDA_PROBE_WGMMA_FP8}, {BENCH_TCGEN05_BF16, CUDA_PROBE_TCGEN05_BF16},
};

typedef struct Probe {
    BenchProcess *process;
    CudaGpu *gpu;
    CudaLaunch launch;
    double clocks[BENCH_SMS_MAX], work[BENCH_SMS_MAX]; /* of each SM, over all windows */
    CudaClock clock;
    uint32_t seen;                    /* SMs that answered in the last window */
    CudaBlockResult wrong[WRONG_MAX]; /* the first block with errors of each SM */
    uint64_t wrong_count[WRONG_MAX];
    uint32_t wrongs;
    uint64_t more; /* errors of other SMs */
    BenchMeasure measure;
} Probe;

/* ---- rounds ---- */

/* A window is one launch. */
static int find_rounds(Probe *p)
{
    double ms = 0, rounds;

    p->launch.args.rounds = 1;
    TRY(cuda_gpu_run(p->gpu, &p->launch, 1, &ms)); /* its loading */
    p->launch.args.rounds = FIRST_ROUNDS;
    for (int i = 0; i < TRIES_MAX; i++) {
        TRY(cuda_gpu_run(p->gpu, &p->launch, 1, &ms));
        if (ms >= RATE_WINDOW_MS && ms < 2 * RATE_WINDOW_MS)
            break;
        rounds = p->launch.args.rounds * WINDOW_TARGET_MS / ms;
        p->launch.args.rounds = (uint32_t)(rounds < 1 ? 1 : rounds > ROUNDS_MAX ? ROUNDS_MAX : rounds);
    }
    return 0;
}

/* ---- results ---- */

static void note_wrong(Probe *p, const CudaBlockResult *result)
{
    for (uint32_t i = 0; i < p->wrongs; i++) {
        if (p->wrong[i].smid != result->smid)
            continue;
        p->wrong_count[i] += result->errors;
        return;
    }
    if (p->wrongs == WRONG_MAX) {
        p->more += result->errors;
        return;
    }
    p->wrong[p->wrongs] = *result;
    p->wrong_count[p->wrongs++] = result->errors;
}

/* A block's rate by its own time, so that a slow SM counts as one, not as all. */
static double add_block(Probe *p, const CudaBlockResult *result, double work, double ms)
{
    const double own_ms = result->end_ns > result->begin_ns ? (double)(result->end_ns - result->begin_ns) / 1e6 : ms;

    if (result->errors > 0)
        note_wrong(p, result);
    if (result->clocks > 0 && result->smid < BENCH_SMS_MAX) {
        p->clocks[result->smid] += (double)result->clocks;
        p->work[result->smid] += work;
    }
    return result->clocks > 0 ? work / own_ms : 0;
}

static int run_window(Probe *p)
{
    const CudaBlockResult *results = cuda_gpu_results_of(p->gpu, &p->launch);
    const double work = cuda_kernel_operations(p->launch.kernel) * p->launch.args.rounds;
    bool seen[IDS_MAX] = {0};
    double ms = 0, rate = 0;

    TRY(cuda_gpu_run(p->gpu, &p->launch, 1, &ms));
    p->seen = 0;
    for (uint32_t i = 0; i < p->launch.grid; i++) {
        rate += add_block(p, &results[i], work, ms);
        if (results[i].clocks == 0 || results[i].smid >= IDS_MAX || seen[results[i].smid])
            continue;
        seen[results[i].smid] = true;
        p->seen++;
    }
    cuda_clock_add(&p->clock, results, p->launch.grid);
    p->measure.samples[p->measure.count++] = rate / 1e9;
    return 0;
}

/* By the SM's number, which has gaps on real boards: SMs that were left out when the chip was made. */
static void fill_per_clock(Probe *p)
{
    p->measure.sm_mhz = cuda_clock_mhz(&p->clock);
    p->measure.sm_count = (uint32_t)number_min_u64(p->gpu->facts.sm_count, BENCH_SMS_MAX);
    for (uint32_t i = 0; i < BENCH_SMS_MAX; i++) {
        if (p->clocks[i] <= 0)
            continue;
        p->measure.per_clock[i] = (float)(p->work[i] / p->clocks[i]);
        p->measure.sm_count = (uint32_t)number_max_u64(p->measure.sm_count, i + 1);
    }
}

/* ---- errors ---- */

static bool result_repeats(const Probe *p, const CudaBlockResult *wrong)
{
    const CudaBlockResult *results = cuda_gpu_results_of(p->gpu, &p->launch);

    for (uint32_t i = 0; i < p->launch.grid; i++)
        if (results[i].errors > 0 && results[i].smid == wrong->smid)
            return results[i].got == wrong->got && results[i].first_bad == wrong->first_bad;
    return false;
}

static int send_wrong(Probe *p)
{
    BenchError error =
        bench_error_of(BENCH_ERROR_MISCOMPARE, p->gpu->place, BENCH_NONE, cuda_kernel_name(p->launch.kernel));
    double ms = 0;

    error.measure = p->measure.id;
    if (p->wrongs > 0)
        TRY(cuda_gpu_run(p->gpu, &p->launch, 1, &ms));
    for (uint32_t i = 0; i < p->wrongs; i++) {
        const CudaBlockResult *wrong = &p->wrong[i];

        error.sm = wrong->smid;
        error.count = p->wrong_count[i];
        error.address = wrong->first_bad;
        error.want = wrong->want;
        error.got = wrong->got;
        error.repeats = result_repeats(p, wrong);
        TRY(bench_send_error(&p->process->sender, &error));
    }
    if (p->more == 0)
        return 0;
    error.sm = BENCH_NONE;
    error.count = p->more;
    error.repeats = false;
    return bench_send_error(&p->process->sender, &error);
}

static int send_missing(Probe *p)
{
    BenchError error =
        bench_error_of(BENCH_ERROR_MISSING_SM, p->gpu->place, BENCH_NONE, cuda_kernel_name(p->launch.kernel));

    error.measure = p->measure.id;
    error.want = p->gpu->facts.sm_count;
    error.got = p->seen;
    error.count = error.want - error.got;
    return bench_send_error(&p->process->sender, &error);
}

/* ---- the stage ---- */

static int run_probe(BenchProcess *process, CudaGpu *gpu, BenchMeasureId id, CudaKernel kernel, bool *ret_warm)
{
    Probe p = {.process = process, .gpu = gpu, .measure = bench_measure_of(id, gpu->place, BENCH_NONE)};

    p.launch = (CudaLaunch){.kernel = kernel, .grid = gpu->facts.sm_count, .shared_bytes = gpu->shared_bytes};
    TRY(find_rounds(&p));
    if (!*ret_warm)
        TRY(rate_warm_up(gpu, &p.launch));
    *ret_warm = true;
    for (uint32_t i = 0; i < process->options.windows; i++)
        TRY(run_window(&p));
    fill_per_clock(&p);
    TRY(bench_send_measure(&process->sender, &p.measure));
    TRY(send_wrong(&p));
    return p.seen < gpu->facts.sm_count ? send_missing(&p) : 0;
}

int bench_stage_probes(BenchProcess *process, CudaGpu *gpu)
{
    const BenchOptions *o = &process->options;
    BenchMeasureId last = BENCH_MEASURE_END;
    bool warm = false;

    for (size_t i = 0; i < ARRAY_LEN(probes); i++) {
        int rc;

        if (probes[i].id == last || !(o->all_probes || o->probes[probes[i].id]))
            continue;
        rc = cuda_gpu_load(gpu, probes[i].kernel);
        if (rc > 0)
            continue;
        TRY(rc);
        TRY(run_probe(process, gpu, probes[i].id, probes[i].kernel, &warm));
        last = probes[i].id;
    }
    return 0;
}
