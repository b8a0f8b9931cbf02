/* SPDX-License-Identifier: Apache-2.0 */
#include "kit.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "test/unit/nvml_lib/node.h"

/* made by src/source/cuda/kernels.py */
extern const char *const cuda_texts[CUDA_TEXT_COUNT];

enum { RESULTS_MAX = 20000 };

static const struct {
    const char *name;
    CudaText text;
    uint32_t threads;
} kernels[CUDA_KERNEL_COUNT] = {
#define KERNEL_ROW(id, name, text, threads, operations) [id] = {name, text, threads},
    CUDA_KERNEL_TABLE(KERNEL_ROW)
#undef KERNEL_ROW
};

_Noreturn void client_fail(const char *file, int line, const char *what, double got, double want)
{
    fprintf(stderr, "# %s:%d: %s: %.9g, not %.9g\n", file, line, what, got, want);
    _exit(1);
}

static void load_library(Client *c)
{
    void *library = dlopen(CUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL);

    if (!library)
        fprintf(stderr, "# %s\n", dlerror());
    CHECK(library);
#define FUNCTION_LOAD(name, arguments)                                                                                 \
    *(void **)&c->cu.name = dlsym(library, #name);                                                                     \
    CHECK(c->cu.name);
    CUDA_FUNCTION_TABLE(FUNCTION_LOAD)
#undef FUNCTION_LOAD
}

int client_run(SimImage *image, Body body)
{
    static Client client;
    int status = -1;

    fflush(NULL);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_NAME, "bench-client");
        client = (Client){.image = image};
        load_library(&client);
        body(&client);
        exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

void client_case(Body body)
{
    SimImage *image = node_new(590);
    const int status = client_run(image, body);

    node_free(image);
    assert_int_equal(status, 0);
}

void client_use(Client *c, int n)
{
    CHECK_INT(c->cu.cuCtxSetCurrent(c->context[n]), 0);
    CHECK_INT(c->cu.cuStreamCreate(&c->stream, CUDA_STREAM_NON_BLOCKING), 0);
    memset(c->kernels, 0, sizeof c->kernels);
}

void client_open(Client *c, int count)
{
    void *memory;

    CHECK_INT(c->cu.cuInit(0), 0);
    for (int n = 0; n < count; n++)
        CHECK_INT(c->cu.cuDevicePrimaryCtxRetain(&c->context[n], n), 0);
    client_use(c, 0);
    CHECK_INT(c->cu.cuMemHostAlloc(&memory, RESULTS_MAX * sizeof *c->results + 64, CUDA_HOST_MAPPED), 0);
    c->results = memory;
    c->stop = (volatile uint32_t *)(c->results + RESULTS_MAX);
}

CUfunction client_kernel(Client *c, CudaKernel kernel)
{
    CUmodule module;

    if (c->kernels[kernel])
        return c->kernels[kernel];
    CHECK_INT(c->cu.cuModuleLoadDataEx(&module, cuda_texts[kernels[kernel].text], 0, NULL, NULL), 0);
    CHECK_INT(c->cu.cuModuleGetFunction(&c->kernels[kernel], module, kernels[kernel].name), 0);
    return c->kernels[kernel];
}

static void queue_kernel(Client *c, CudaKernel kernel, uint32_t blocks, CudaKernelArgs args)
{
    void *params[] = {&args};

    memset(c->results, 0, blocks * sizeof *c->results);
    args.result = (uint64_t)(uintptr_t)c->results;
    args.stop = (uint64_t)(uintptr_t)c->stop;
    CHECK_INT(c->cu.cuLaunchKernel(client_kernel(c, kernel), blocks, 1, 1, kernels[kernel].threads, 1, 1, 0, c->stream,
                                   params, NULL),
              0);
}

CUresult client_launch(Client *c, CudaKernel kernel, uint32_t blocks, CudaKernelArgs args)
{
    queue_kernel(c, kernel, blocks, args);
    return c->cu.cuStreamSynchronize(c->stream);
}

double client_time(Client *c, CudaKernel kernel, uint32_t blocks, CudaKernelArgs args)
{
    CUevent begin, end;
    float ms;

    client_kernel(c, kernel);
    CHECK_INT(c->cu.cuEventCreate(&begin, 0), 0);
    CHECK_INT(c->cu.cuEventCreate(&end, 0), 0);
    CHECK_INT(c->cu.cuEventRecord(begin, c->stream), 0);
    queue_kernel(c, kernel, blocks, args);
    CHECK_INT(c->cu.cuEventRecord(end, c->stream), 0);
    CHECK_INT(c->cu.cuEventSynchronize(end), 0);
    CHECK_INT(c->cu.cuEventElapsedTime(&ms, begin, end), 0);
    CHECK_INT(c->cu.cuEventDestroy_v2(begin), 0);
    CHECK_INT(c->cu.cuEventDestroy_v2(end), 0);
    return (double)ms;
}

CUdeviceptr client_alloc(Client *c, uint64_t bytes)
{
    CUdeviceptr at = 0;

    CHECK_INT(c->cu.cuMemAlloc_v2(&at, bytes), 0);
    CHECK(at != 0 && at % 256 == 0);
    return at;
}

void client_put(Client *c, CUdeviceptr to, const void *from, uint64_t bytes)
{
    CHECK_INT(c->cu.cuMemcpyHtoDAsync_v2(to, from, bytes, c->stream), 0);
}

void client_get(Client *c, void *to, CUdeviceptr from, uint64_t bytes)
{
    CHECK_INT(c->cu.cuMemcpyDtoHAsync_v2(to, from, bytes, c->stream), 0);
    CHECK_INT(c->cu.cuStreamSynchronize(c->stream), 0);
}

uint64_t client_errors(const Client *c, uint32_t blocks)
{
    uint64_t errors = 0;

    for (uint32_t b = 0; b < blocks; b++)
        errors += c->results[b].errors;
    return errors;
}

uint64_t client_checksum(const Client *c, uint32_t blocks)
{
    uint64_t sum = 0;

    for (uint32_t b = 0; b < blocks; b++)
        sum = sum * 31 + c->results[b].checksum;
    return sum;
}

void client_op(Client *c, SimOp op)
{
    op.origin = SIM_FROM_INJECT;
    CHECK_INT(sim_op_apply(c->image, &op, NULL, 0, NULL), SIM_OK);
}

void client_set(Client *c, uint32_t gpu, SimKey key, uint32_t value)
{
    client_op(c, (SimOp){.type = SIM_OP_SET, .gpu = (int32_t)gpu, .a = {(int32_t)key}, .u = value});
}
