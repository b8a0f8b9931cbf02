/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One GPU under test: its context, kernels, and what a stage has allocated on it. Everything that a stage asks for is
 * kept in a list and released in one go after the stage, however it ended. Functions return 0, -EIO (the failure is
 * kept in Cuda) or -EINTR (a stop was requested). One thread.
 */

#include "base/vec.h"
#include "cuda_kernel.h"
#include "source/cuda/cuda.h"

/* Results of kernels, in host memory that the GPU writes. */
typedef struct CudaResults {
    CudaBlockResult *at;
    CUdeviceptr address;
    uint32_t cap; /* blocks */
} CudaResults;

typedef struct CudaLaunch {
    CudaKernel kernel;
    uint32_t grid;
    uint32_t shared_bytes;      /* dynamic */
    const CudaResults *results; /* NULL: the GPU's own */
    CudaKernelArgs args;        /* result and stop are filled in */
} CudaLaunch;

typedef enum CudaTextState { CUDA_TEXT_UNTRIED, CUDA_TEXT_LOADED, CUDA_TEXT_ABSENT } CudaTextState;

typedef struct CudaGpu {
    Cuda *cuda;
    uint32_t place;
    CUdevice device;
    CUcontext context; /* NULL: not held */
    BenchDevice facts;
    double start_ms;       /* to the first context */
    uint32_t shared_bytes; /* dynamic shared memory with which one block alone fits on an SM */
    CUstream stream;
    CUevent begin, end;
    CudaResults results;
    CUdeviceptr stop_address;
    CudaTextState texts[CUDA_TEXT_COUNT];
    CUresult text_results[CUDA_TEXT_COUNT]; /* why it is absent: 222, 209; 0: it is not for this GPU */
    CUmodule modules[CUDA_TEXT_COUNT];
    CUfunction functions[CUDA_KERNEL_COUNT];
    bool exclusive[CUDA_KERNEL_COUNT]; /* may be launched with shared_bytes */
    /* of the stage */
    VEC(CUdeviceptr) memory;
    VEC(void *) pinned;
    VEC(CUevent) events;
} CudaGpu;

enum { CUDA_RESULTS_CAP = 16384 };

/* Takes the device's primary context and what all stages need. Whatever comes back, cuda_gpu_stop is due. */
int cuda_gpu_start(CudaGpu *gpu, Cuda *cuda, uint32_t place);
void cuda_gpu_stop(CudaGpu *gpu);
/* Makes its context the current one. */
int cuda_gpu_select(CudaGpu *gpu);

/* Rounded to 16 bytes by the caller. cuda_gpu_try_memory: 1 where there is not so much. */
int cuda_gpu_memory(CudaGpu *gpu, uint64_t bytes, CUdeviceptr *ret);
int cuda_gpu_try_memory(CudaGpu *gpu, uint64_t bytes, CUdeviceptr *ret);
/* Host memory that does not move; all GPUs know it. */
int cuda_gpu_pinned(CudaGpu *gpu, uint64_t bytes, void **ret);
int cuda_gpu_results(CudaGpu *gpu, uint32_t blocks, CudaResults *ret);
int cuda_gpu_event(CudaGpu *gpu, CUevent *ret);
/* Waits for what runs and releases all that the four above gave. */
void cuda_gpu_release(CudaGpu *gpu);
/* Bytes that a stage may have: `percent` of what is free, and `keep_mib` of it left in any case. */
int cuda_gpu_budget(CudaGpu *gpu, uint32_t percent, uint32_t keep_mib, uint64_t *ret);

/* Loads the text of the kernel. 1: this GPU, or its driver, cannot run it. */
int cuda_gpu_load(CudaGpu *gpu, CudaKernel kernel);
const char *cuda_text_name(CudaText text);
CudaText cuda_gpu_text(const CudaGpu *gpu, CudaKernel kernel); /* in which this GPU finds it */
const char *cuda_kernel_name(CudaKernel kernel);
/* Operations of one block in one round; 0: it is no probe. */
double cuda_kernel_operations(CudaKernel kernel);

/* Queues a kernel that was loaded; its results of before are cleared. */
int cuda_gpu_launch(CudaGpu *gpu, const CudaLaunch *launch);
int cuda_gpu_record(CudaGpu *gpu, CUevent event);
/* Waits for the event and gives the time since `begin`. */
int cuda_gpu_elapsed(CudaGpu *gpu, CUevent begin, CUevent end, double *ret_ms);
int cuda_gpu_synchronize(CudaGpu *gpu);
/* Runs it `times` in a row and waits. */
int cuda_gpu_run(CudaGpu *gpu, const CudaLaunch *launch, uint32_t times, double *ret_ms);
/* The results of the launch. */
const CudaBlockResult *cuda_gpu_results_of(const CudaGpu *gpu, const CudaLaunch *launch);

/* A clock, by what blocks counted: zeroed at first; NAN where nothing was added. */
typedef struct CudaClock {
    double clocks, ns;
} CudaClock;
void cuda_clock_add(CudaClock *clock, const CudaBlockResult *results, uint32_t blocks);
double cuda_clock_mhz(const CudaClock *clock);
