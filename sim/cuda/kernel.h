/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Stoker's kernels (cuda_kernel.h): how long they take, what they do to memory, and the results of their blocks. They
 * are known by name; what is small is computed for real, the rest follows from what the contents are.
 */
#include "sim/cuda/queue.h"

/* Of a product, beside what CudaKernelArgs.flags has: as fast as the vendor's library (cublaslt.c). */
enum { CU_PRODUCT_OF_LIBRARY = 1 << 8 };

/* CUDA_KERNEL_COUNT: not one of them. */
CudaKernel cu_kernel_find(const char *name);
/* Queues it. */
void cu_kernel_queue(CUstream stream, CudaKernel kernel, uint32_t blocks, const CudaKernelArgs *args);
