/* SPDX-License-Identifier: Apache-2.0 */
#include "base/number.h"
#include "source/cuda/rate.h"

enum { TIMES_MAX = 8192, TRIES_MAX = 6, WARM_MAX = 1000 };

int rate_warm_up(CudaGpu *gpu, const CudaLaunch *launch)
{
    double ms = 0, sum_ms = 0;

    for (int i = 0; i < WARM_MAX && sum_ms < RATE_WARM_MS; i++) {
        TRY(cuda_gpu_run(gpu, launch, 8, &ms));
        sum_ms += ms;
    }
    return 0;
}

int rate_find_rounds(CudaGpu *gpu, CudaLaunch *launch, uint32_t first, double ms)
{
    double took_ms = 0;

    launch->args.rounds = first;
    for (int i = 0; i < 2; i++) /* the first one pays for its loading */
        TRY(cuda_gpu_run(gpu, launch, 1, &took_ms));
    launch->args.rounds = (uint32_t)number_max_u64((uint64_t)(first * ms / took_ms), 1);
    return 0;
}

int rate_find_times(CudaGpu *gpu, const CudaLaunch *launch, uint32_t *ret)
{
    uint32_t times = 1;
    double ms = 0;

    TRY(cuda_gpu_run(gpu, launch, 1, &ms)); /* the first one pays for its loading */
    for (int i = 0; i < TRIES_MAX; i++) {
        TRY(cuda_gpu_run(gpu, launch, times, &ms));
        if (ms >= RATE_WINDOW_MS || times == TIMES_MAX)
            break;
        times = (uint32_t)number_min_u64((uint64_t)(times * RATE_WINDOW_MS * 1.1 / ms) + 1, TIMES_MAX);
    }
    *ret = times;
    return 0;
}

int rate_sample(CudaGpu *gpu, const CudaLaunch *launch, uint32_t windows, double work, BenchMeasure *measure)
{
    CudaClock clock = {0};
    uint32_t times = 0;
    double ms = 0;

    TRY(rate_find_times(gpu, launch, &times));
    for (measure->count = 0; measure->count < windows; measure->count++) {
        TRY(cuda_gpu_run(gpu, launch, times, &ms));
        measure->samples[measure->count] = work * times / ms;
        cuda_clock_add(&clock, cuda_gpu_results_of(gpu, launch), launch->grid);
    }
    measure->sm_mhz = cuda_clock_mhz(&clock);
    return 0;
}
