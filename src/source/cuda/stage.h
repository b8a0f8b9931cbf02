/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What stoker-bench does: stages, one after the other. A stage sends what it finds as soon as it knows it, and returns
 * 0, -EIO (a call of CUDA failed, kept in Cuda), -EINTR (a stop was requested) or -EPIPE (the parent is gone). What it
 * allocated is released by its caller. One thread.
 */

#include "source/cuda/gpu.h"
#include "source/cuda/options.h"
#include "source/cuda/send.h"

typedef struct BenchProcess {
    BenchOptions options;
    BenchSender sender;
    Cuda cuda;
    uint32_t gpu_count;
    CudaGpu gpus[BENCH_GPUS_MAX];
} BenchProcess;

/* All stages, from the library's start to the end of contexts. `process` has its options, sender and an initialised
 * Cuda; with a table in it no library is loaded. The program's exit code. */
int bench_process_run(BenchProcess *process, const CudaTable *table);

/* Of each GPU. */
int bench_stage_patterns(BenchProcess *process, CudaGpu *gpu);
int bench_stage_memory(BenchProcess *process, CudaGpu *gpu);
int bench_stage_probes(BenchProcess *process, CudaGpu *gpu);
int bench_stage_gemm(BenchProcess *process, CudaGpu *gpu);
int bench_stage_burn(BenchProcess *process, CudaGpu *gpu);
int bench_stage_fresh(BenchProcess *process, CudaGpu *gpu);
int bench_stage_victim(BenchProcess *process, CudaGpu *gpu);
int bench_stage_fill(BenchProcess *process, CudaGpu *gpu);
int bench_stage_flood(BenchProcess *process, CudaGpu *gpu);
int bench_stage_library(BenchProcess *process, CudaGpu *gpu);
/* A launch that reads for so long what stays in the L2, of a buffer of so many bytes; its count is 0 where the L2 is
 * not known. */
int bench_prepare_l2(CudaGpu *gpu, CUdeviceptr at, uint64_t buffer_bytes, uint32_t ms, CudaLaunch *ret);
/* Of all together. */
int bench_stage_host(BenchProcess *process);
int bench_stage_pairs(BenchProcess *process);
int bench_stage_collectives(BenchProcess *process);
