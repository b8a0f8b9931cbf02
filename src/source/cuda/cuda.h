/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The CUDA driver's library: found at run time, called through a table. The first call that fails is kept until it is
 * reported; some failures (sticky ones) leave the process with no use of the driver but to end. One thread; a signal
 * handler may call cuda_request_stop.
 */

#include <errno.h>
#include <signal.h>
#include <stdbool.h>

#include "cuda_abi.h"
#include "model/bench.h"

typedef struct Cuda {
    CudaTable table;
    void *handle;       /* NULL: the table is the caller's */
    const char *failed; /* function of the first failure since the last report; NULL: none */
    CUresult result;    /* of it */
    uint32_t failed_gpu;
    uint32_t current; /* place of the GPU whose context is current; BENCH_NONE: none */
    bool sticky;      /* no call succeeds any more */
    volatile sig_atomic_t stopping;
    volatile uint32_t *volatile stop_words[BENCH_GPUS_MAX]; /* by place; what kernels look at */
} Cuda;

void cuda_init(Cuda *cuda);
/* Sets the environment that tests need, loads the library ("": libcuda.so.1) and fills the table. -ENOENT: there is no
 * library, or it lacks a function; `failed` names "dlopen" (result 0) or the function (result CUDA_NOT_FOUND). */
int cuda_open(Cuda *cuda, const char *library);
void cuda_close(Cuda *cuda);
/* A function of a library, and its place in a table of pointers. */
typedef struct CudaSymbol {
    const char *name;
    size_t offset;
} CudaSymbol;
/* Fills such a table, in whole or up to the first that is missing: -ENOENT, and a failure CUDA_NOT_FOUND of it. */
int cuda_fill_table(Cuda *cuda, void *library, const CudaSymbol *wanted, size_t count, void *table);

/* Keeps a failure of `function`. Returns `result`. */
CUresult cuda_check(Cuda *cuda, const char *function, CUresult result);
/* Whether it leaves the context without use. */
bool cuda_result_is_sticky(CUresult result);

/* A call whose every failure is one; the second form leaves the function with -EIO. `args` in their parentheses. */
#define CUDA_CALL(cuda, fn, args) cuda_check((cuda), #fn, (cuda)->table.fn args)
#define CUDA_TRY(cuda, fn, args)                                                                                       \
    do {                                                                                                               \
        if (CUDA_CALL(cuda, fn, args) != CUDA_SUCCESS)                                                                 \
            return -EIO;                                                                                               \
    } while (0)

/* Makes running kernels and those that come return early. May be called by a signal handler. */
void cuda_request_stop(Cuda *cuda);

/* What CUDA says of a device without a context: all of BenchDevice but free_bytes. -EIO. */
int cuda_read_device(Cuda *cuda, CUdevice device, BenchDevice *ret);
