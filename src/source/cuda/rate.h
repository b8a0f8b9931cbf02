/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* How fast a kernel does its work: launches in a row that fill windows of at least 20 ms. One thread. */

#include "source/cuda/gpu.h"

enum { RATE_WINDOW_MS = 20, RATE_WARM_MS = 100 };

/* Runs it until RATE_WARM_MS of its time have passed, so that clocks are up. */
int rate_warm_up(CudaGpu *gpu, const CudaLaunch *launch);
/* Finds how many rounds of a launch take `ms`, tried with so many first, and puts them into it. */
int rate_find_rounds(CudaGpu *gpu, CudaLaunch *launch, uint32_t first, double ms);
/* Finds how many launches fill a window. */
int rate_find_times(CudaGpu *gpu, const CudaLaunch *launch, uint32_t *ret);
/* Samples of `windows` windows, in work per millisecond of one launch's `work`, and the clock. `kernel` was loaded. */
int rate_sample(CudaGpu *gpu, const CudaLaunch *launch, uint32_t windows, double work, BenchMeasure *measure);
