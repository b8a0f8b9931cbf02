/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A client of the simulated libcuda in a process of its own, on the node of test/unit/nvml_lib (H100s as ordinals 0, 1
 * and 3, a board for the desk as 2) whose clock stands. What goes wrong in the child is printed and ends it.
 */
#include <stdbool.h>
#include <stdint.h>

#include "cuda_abi.h"
#include "cuda_kernel.h"
#include "sim/core/control.h"
#include "sim/core/state.h"

enum { DESK = 2, LAST = 3, H100_SMS = 132 };

typedef struct Client {
    CudaTable cu;
    SimImage *image; /* the node, to change it */
    CUcontext context[4];
    CUstream stream;
    CUfunction kernels[CUDA_KERNEL_COUNT];
    CudaBlockResult *results; /* host memory that the GPU writes */
    volatile uint32_t *stop;
} Client;

typedef void (*Body)(Client *c);

/* Runs a body in a child process. Returns how it ended, as waitpid has it. */
int client_run(SimImage *image, Body body);
/* The same, and it has to end well; builds and removes the node around it. */
void client_case(Body body);

/* cuInit, contexts of ordinals 0 to count - 1, a stream and memory for results on the first, which is current. */
void client_open(Client *c, int count);
/* Makes a context and a stream of ordinal n current. */
void client_use(Client *c, int n);
CUfunction client_kernel(Client *c, CudaKernel kernel);
/* Launches and waits; the result of the wait. */
CUresult client_launch(Client *c, CudaKernel kernel, uint32_t blocks, CudaKernelArgs args);
/* The same, and fails unless it goes well; milliseconds by events. */
double client_time(Client *c, CudaKernel kernel, uint32_t blocks, CudaKernelArgs args);
CUdeviceptr client_alloc(Client *c, uint64_t bytes);
void client_put(Client *c, CUdeviceptr to, const void *from, uint64_t bytes);
void client_get(Client *c, void *to, CUdeviceptr from, uint64_t bytes);
uint64_t client_errors(const Client *c, uint32_t blocks);
uint64_t client_checksum(const Client *c, uint32_t blocks);
/* An op of the node, now. */
void client_op(Client *c, SimOp op);
void client_set(Client *c, uint32_t gpu, SimKey key, uint32_t value);

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            client_fail(__FILE__, __LINE__, #condition, 0, 0);                                                         \
    } while (0)
#define CHECK_INT(got, want)                                                                                           \
    do {                                                                                                               \
        const int64_t got_ = (int64_t)(got), want_ = (int64_t)(want);                                                  \
        if (got_ != want_)                                                                                             \
            client_fail(__FILE__, __LINE__, #got, (double)got_, (double)want_);                                        \
    } while (0)
/* Within `part` of what is wanted. */
#define CHECK_NEAR(got, want, part)                                                                                    \
    do {                                                                                                               \
        const double got_ = (double)(got), want_ = (double)(want);                                                     \
        if (!(got_ >= want_ - (part)*want_ && got_ <= want_ + (part)*want_))                                           \
            client_fail(__FILE__, __LINE__, #got, got_, want_);                                                        \
    } while (0)
_Noreturn void client_fail(const char *file, int line, const char *what, double got, double want);
