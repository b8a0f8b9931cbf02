/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libcuda.so.1 for the test of stoker-real: memory of the host, and kernels that are known by their entry and done
 * here with the arguments that they were given. What is called out of order is an error, as it is there.
 *
 * FAKE_CUDA_ADDRESS   PCI address of its one device
 * FAKE_CUDA_START     a shell command when a kernel is found or memory is held; %s in it is the entry, or "hold"
 * FAKE_CUDA_STOP      a shell command when the context is released
 * FAKE_CUDA_WRONG     the entry whose kernel counts wrongly
 * FAKE_CUDA_REFUSE    a function that fails with 999
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cuda_abi.h"

#define EXPORT __attribute__((visibility("default")))

enum {
    NOT_INITIALISED = 3,
    NO_CONTEXT = 201,
    NOT_FOUND = 500,
    BAD_PTX = 218,
    BAD_ARGUMENT = 1,
    FREE_BYTES = 256 << 20
};

static char entry[64] = "hold";
static int ready, current, started;

static CudaResult check_call(const char *name, int needs_context)
{
    const char *refused = getenv("FAKE_CUDA_REFUSE");

    if (refused && strcmp(refused, name) == 0)
        return 999;
    return !ready ? NOT_INITIALISED : needs_context && !current ? NO_CONTEXT : 0;
}

static void run_command(const char *variable)
{
    const char *command = getenv(variable), *place = command ? strstr(command, "%s") : NULL;
    char text[1024];

    if (!command)
        return;
    if (place)
        snprintf(text, sizeof text, "%.*s%s%s", (int)(place - command), command, entry, place + 2);
    else
        snprintf(text, sizeof text, "%s", command);
    if (system(text) != 0)
        fprintf(stderr, "fake_cuda: '%s' failed\n", text);
}

#define FAKE(name, ...)                                                                                                \
    EXPORT CudaResult name(__VA_ARGS__);                                                                               \
    EXPORT CudaResult name(__VA_ARGS__)
#define CHECK(needs_context)                                                                                           \
    do {                                                                                                               \
        const CudaResult check_ = check_call(__func__, needs_context);                                                 \
        if (check_)                                                                                                    \
            return check_;                                                                                             \
    } while (0)

FAKE(cuInit, unsigned int flags)
{
    ready = 1;
    CHECK(0);
    return flags ? BAD_ARGUMENT : 0;
}

FAKE(cuDriverGetVersion, int *version)
{
    *version = 13000;
    return 0;
}

FAKE(cuGetErrorName, CudaResult result, const char **name)
{
    *name = result == 999 ? "CUDA_ERROR_UNKNOWN" : "CUDA_ERROR_OTHER";
    return 0;
}

FAKE(cuDeviceGetCount, int *count)
{
    CHECK(0);
    *count = 1;
    return 0;
}

FAKE(cuDeviceGet, CudaDevice *device, int ordinal)
{
    CHECK(0);
    *device = ordinal;
    return ordinal == 0 ? 0 : 101;
}

FAKE(cuDeviceGetName, char *name, int length, CudaDevice device)
{
    CHECK(0);
    snprintf(name, (size_t)length, "Fake %d", device);
    return 0;
}

FAKE(cuDeviceGetPCIBusId, char *address, int length, CudaDevice device)
{
    const char *said = getenv("FAKE_CUDA_ADDRESS");

    CHECK(0);
    snprintf(address, (size_t)length, "%s", said ? said : "0000:1B:00.0");
    return device;
}

FAKE(cuDeviceGetAttribute, int *value, int attribute, CudaDevice device)
{
    CHECK(0);
    *value = attribute == CUDA_ATTRIBUTE_MULTIPROCESSORS    ? 132
             : attribute == CUDA_ATTRIBUTE_CAPABILITY_MAJOR ? 9
             : attribute == CUDA_ATTRIBUTE_MEMORY_CLOCK_KHZ ? 2619000
             : attribute == CUDA_ATTRIBUTE_BUS_WIDTH_BITS   ? 5120
             : attribute == CUDA_ATTRIBUTE_CLOCK_KHZ        ? 1980000
                                                            : 0;
    return device;
}

FAKE(cuDevicePrimaryCtxSetFlags_v2, CudaDevice device, unsigned int flags)
{
    CHECK(0);
    return device || flags != CUDA_CONTEXT_BLOCKING_SYNC ? BAD_ARGUMENT : 0;
}

FAKE(cuDevicePrimaryCtxRetain, CudaContext *context, CudaDevice device)
{
    CHECK(0);
    *context = (CudaContext)entry;
    return device;
}

FAKE(cuDevicePrimaryCtxRelease_v2, CudaDevice device)
{
    CHECK(0);
    run_command("FAKE_CUDA_STOP");
    return device;
}

FAKE(cuCtxSetCurrent, CudaContext context)
{
    CHECK(0);
    current = context == (CudaContext)entry;
    return current ? 0 : NO_CONTEXT;
}

FAKE(cuCtxSynchronize, void)
{
    CHECK(1);
    return 0;
}

/* Reads the entry's name out of the text, as a compiler does. */
FAKE(cuModuleLoadDataEx, CudaModule *module, const void *image, unsigned int count, const int *options, void **values)
{
    const char *at = strstr(image, ".visible .entry ");

    CHECK(1);
    if (!at || count != 2 || options[0] != CUDA_JIT_ERROR_LOG || options[1] != CUDA_JIT_ERROR_LOG_BYTES) {
        snprintf(values[0], (size_t)values[1], "no entry in the text");
        return BAD_PTX;
    }
    at += strlen(".visible .entry ");
    snprintf(entry, sizeof entry, "%.*s", (int)strcspn(at, "("), at);
    *module = (CudaModule)entry;
    return 0;
}

FAKE(cuModuleGetFunction, CudaFunction *function, CudaModule module, const char *name)
{
    CHECK(1);
    if (strcmp(name, entry) != 0 || module != (CudaModule)entry)
        return NOT_FOUND;
    *function = (CudaFunction)entry;
    started = 1;
    run_command("FAKE_CUDA_START");
    return 0;
}

static void *host_of(CudaPointer pointer)
{
    union {
        CudaPointer number;
        void *pointer;
    } both = {.number = pointer};

    return both.pointer;
}

#define ARGUMENT(i, type) (*(const type *)parameters[i])

static void run_kernel(uint64_t blocks, uint64_t threads, void **parameters)
{
    uint64_t *out = host_of(ARGUMENT(0, CudaPointer)), counted = 1;
    const char *wrong = getenv("FAKE_CUDA_WRONG");

    if (strcmp(entry, "copy") == 0) {
        memcpy(out, host_of(ARGUMENT(1, CudaPointer)), ARGUMENT(2, uint64_t) * 16);
        if (wrong && strcmp(wrong, entry) == 0)
            memset(out, 0, 16);
        return;
    }
    if (strcmp(entry, "spin") == 0) {
        const struct timespec pause = {.tv_nsec = (long)ARGUMENT(1, uint64_t)};

        nanosleep(&pause, NULL);
    } else if (strcmp(entry, "matmul") == 0) { /* 1.0 times 2.0, 16 deep: all sums are right, or none */
        const double sum = 16.0 * 2 * ARGUMENT(1, uint32_t);
        const int known = ARGUMENT(2, uint32_t) == 0x3c003c00 && ARGUMENT(3, uint32_t) == 0x40004000;
        const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};

        counted = known && (float)sum == ARGUMENT(4, float) ? blocks * threads * 32 : 0;
        nanosleep(&pause, NULL);
    }
    out[0] += wrong && strcmp(wrong, entry) == 0 ? 0 : counted;
}

FAKE(cuLaunchKernel, CudaFunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
     unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes, CudaStream stream,
     void **parameters, void **extra)
{
    CHECK(1);
    if (function != (CudaFunction)entry || !grid_x || !block_x || block_x > 1024 || grid_y != 1 || grid_z != 1 ||
        block_y != 1 || block_z != 1 || shared_bytes || stream || extra)
        return BAD_ARGUMENT;
    run_kernel(grid_x, block_x, parameters);
    return 0;
}

FAKE(cuMemGetInfo_v2, size_t *free_bytes, size_t *total_bytes)
{
    CHECK(1);
    *free_bytes = FREE_BYTES;
    *total_bytes = 2 * (size_t)FREE_BYTES;
    return 0;
}

FAKE(cuMemAlloc_v2, CudaPointer *pointer, size_t bytes)
{
    union {
        void *pointer;
        CudaPointer number;
    } both = {.pointer = bytes > FREE_BYTES ? NULL : calloc(1, bytes)};

    CHECK(1);
    *pointer = both.number;
    if (bytes >= 1 << 20 && !started) {
        started = 1;
        run_command("FAKE_CUDA_START");
    }
    return both.pointer ? 0 : 2;
}

FAKE(cuMemFree_v2, CudaPointer pointer)
{
    CHECK(1);
    free(host_of(pointer));
    return 0;
}

FAKE(cuMemsetD32_v2, CudaPointer to, unsigned int value, size_t words)
{
    unsigned int *at = host_of(to);

    CHECK(1);
    for (size_t i = 0; i < words; i++)
        at[i] = value;
    return 0;
}

FAKE(cuMemcpyDtoH_v2, void *to, CudaPointer from, size_t bytes)
{
    CHECK(1);
    memcpy(to, host_of(from), bytes);
    return 0;
}
