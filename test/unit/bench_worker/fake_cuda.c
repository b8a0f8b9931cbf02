/* SPDX-License-Identifier: Apache-2.0 */
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake_cuda.h"

enum { LAUNCH_US = 4, BLOCKS_OF_MEMORY = 4096 };

typedef struct FakeMemory {
    char *at;
    size_t bytes;
    FakeGpu *gpu;
} FakeMemory;

typedef struct FakeEvent {
    FakeGpu *gpu;
    uint64_t ns;
} FakeEvent;

typedef struct FakeFunction {
    CudaKernel kernel;
} FakeFunction;

/* The names that libcuda exports, for what links against us as for what loads us. */
#define PROTOTYPE(name, arguments) __attribute__((visibility("default"))) CUresult name arguments;
CUDA_FUNCTION_TABLE(PROTOTYPE)
#undef PROTOTYPE

Fake fake;
static FakeGpu *current;
static FakeMemory memory[BLOCKS_OF_MEMORY];
static const char *const kernel_names[] = {
#define KERNEL_NAME(id, name, ...) [id] = name,
    CUDA_KERNEL_TABLE(KERNEL_NAME)
#undef KERNEL_NAME
};
static const double kernel_operations[] = {
#define KERNEL_OPERATIONS(id, name, text, threads, operations) [id] = operations,
    CUDA_KERNEL_TABLE(KERNEL_OPERATIONS)
#undef KERNEL_OPERATIONS
};
static FakeFunction functions[CUDA_KERNEL_COUNT];

void fake_reset(void)
{
    fake = (Fake){.count = 1, .fail_function = FAKE_NONE, .refused_text = FAKE_NONE};
    current = NULL;
    for (int i = 0; i < FAKE_GPUS; i++)
        fake.gpus[i] = (FakeGpu){.free_bytes = 40 << 20,
                                 .total_bytes = 64 << 20,
                                 .major = 8,
                                 .now_ns = 1000,
                                 .gb_per_s = 4,
                                 .gemm_ms = 10,
                                 .stuck_word = FAKE_NONE,
                                 .missing_sm = FAKE_NONE,
                                 .slow_sm = FAKE_NONE,
                                 .wrong_sm = FAKE_NONE,
                                 .wrong_probe_sm = FAKE_NONE,
                                 .stuck_times = -1,
                                 .wrong_times = -1};
}

int fake_leaks(void)
{
    int contexts = 0;

    for (int i = 0; i < FAKE_GPUS; i++)
        contexts += fake.gpus[i].contexts;
    return contexts + fake.live_memory + fake.live_host + fake.live_events + fake.live_streams + fake.live_modules;
}

/* Those that a worker must take as the end of its context. */
static bool result_is_sticky(CUresult result)
{
    return result == CUDA_ECC_UNCORRECTABLE || result == CUDA_CONTAINED || result == CUDA_ILLEGAL_ADDRESS ||
           result == CUDA_LAUNCH_FAILED;
}

static CUresult count_use(CudaFunction function)
{
    fake.uses[function]++;
    if (fake.sticky)
        return fake.sticky;
    if (fake.fail_function != (int)function || fake.uses[function] != fake.fail_at)
        return CUDA_SUCCESS;
    if (result_is_sticky(fake.fail_result))
        fake.sticky = fake.fail_result;
    return fake.fail_result;
}

#define ENTER(function)                                                                                                \
    do {                                                                                                               \
        const CUresult result_ = count_use(CUDA_FN_##function);                                                        \
        if (result_ != CUDA_SUCCESS)                                                                                   \
            return result_;                                                                                            \
    } while (0)
#define NEED_CONTEXT()                                                                                                 \
    do {                                                                                                               \
        if (!current || current->contexts == 0)                                                                        \
            return CUDA_BAD_CONTEXT;                                                                                   \
    } while (0)

/* ---- devices and contexts ---- */

/* What of it is CUDA's, into the file FAKE_CUDA_ENVIRONMENT. */
static void write_environment(void)
{
    extern char **environ;
    const char *path = getenv("FAKE_CUDA_ENVIRONMENT");
    FILE *file = path ? fopen(path, "w") : NULL;

    for (char **entry = environ; file && *entry; entry++)
        if (strncmp(*entry, "CUDA_", 5) == 0)
            fprintf(file, "%s\n", *entry);
    if (file)
        fclose(file);
}

CUresult cuInit(unsigned int flags)
{
    if (fake.count == 0) { /* loaded as a library */
        fake_reset();
        write_environment();
    }
    ENTER(cuInit);
    return flags == 0 ? CUDA_SUCCESS : CUDA_BAD_ARGUMENT;
}

CUresult cuDriverGetVersion(int *version)
{
    ENTER(cuDriverGetVersion);
    *version = 13000;
    return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult result, const char **name)
{
    ENTER(cuGetErrorName);
    *name = result ? "?" : "CUDA_SUCCESS";
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
    ENTER(cuDeviceGetCount);
    *count = fake.count;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    ENTER(cuDeviceGet);
    *device = ordinal;
    return ordinal < fake.count ? CUDA_SUCCESS : CUDA_BAD_DEVICE;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
    ENTER(cuDeviceGetName);
    snprintf(name, (size_t)length, "FAKE %d", device);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    ENTER(cuDeviceGetUuid_v2);
    for (int i = 0; i < 16; i++)
        uuid->bytes[i] = (unsigned char)(i * 16 + device);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *id, int length, CUdevice device)
{
    ENTER(cuDeviceGetPCIBusId);
    snprintf(id, (size_t)length, "0000:%02X:00.0", 0x1b + device);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device)
{
    static const int rows[][2] = {
        {CUDA_ATTRIBUTE_SM_COUNT, FAKE_SMS},       {CUDA_ATTRIBUTE_CLOCK_KHZ, 1000000},
        {CUDA_ATTRIBUTE_L2_BYTES, 1 << 20},        {CUDA_ATTRIBUTE_MEMORY_CLOCK_KHZ, 1215000},
        {CUDA_ATTRIBUTE_BUS_WIDTH_BITS, 5120},     {CUDA_ATTRIBUTE_ECC, 1},
        {CUDA_ATTRIBUTE_SHARED_PER_SM, 164 << 10}, {CUDA_ATTRIBUTE_SHARED_OPTIN, 163 << 10},
    };

    ENTER(cuDeviceGetAttribute);
    *value = attribute == CUDA_ATTRIBUTE_MAJOR   ? fake.gpus[device].major
             : attribute == CUDA_ATTRIBUTE_MINOR ? fake.gpus[device].minor
                                                 : 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i][0] == attribute)
            *value = rows[i][1];
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    ENTER(cuDeviceTotalMem_v2);
    *bytes = fake.gpus[device].total_bytes;
    return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    ENTER(cuDeviceCanAccessPeer);
    *can = !fake.no_peer[device][peer];
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags)
{
    ENTER(cuDevicePrimaryCtxSetFlags_v2);
    return fake.gpus[device].contexts == 0 && flags == CUDA_CONTEXT_BLOCKING_SYNC ? CUDA_SUCCESS : CUDA_BAD_ARGUMENT;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    ENTER(cuDevicePrimaryCtxRetain);
    fake.gpus[device].contexts++;
    *context = (CUcontext)(void *)&fake.gpus[device];
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    fake.uses[CUDA_FN_cuDevicePrimaryCtxRelease_v2]++;
    fake.gpus[device].contexts--;
    return fake.sticky;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    ENTER(cuCtxSetCurrent);
    current = (FakeGpu *)(void *)context;
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void)
{
    ENTER(cuCtxSynchronize);
    NEED_CONTEXT();
    return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
    const FakeGpu *to = (FakeGpu *)(void *)peer;

    ENTER(cuCtxEnablePeerAccess);
    NEED_CONTEXT();
    return flags != 0                                          ? CUDA_BAD_ARGUMENT
           : fake.no_peer[current - fake.gpus][to - fake.gpus] ? CUDA_NO_PEER
                                                               : CUDA_SUCCESS;
}

/* ---- memory ---- */

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    ENTER(cuMemGetInfo_v2);
    NEED_CONTEXT();
    *free_bytes = current->free_bytes;
    *total = current->total_bytes;
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
    int place = 0;
    bool first = true;
    uint64_t held = 0;

    ENTER(cuMemAlloc_v2);
    NEED_CONTEXT();
    for (int i = 0; i < BLOCKS_OF_MEMORY; i++) {
        first = first && memory[i].gpu != current;
        held += memory[i].gpu == current ? memory[i].bytes : 0;
    }
    if (bytes > current->free_bytes || (current->refused_over && held + bytes > current->refused_over))
        return CUDA_OUT_OF_MEMORY;
    while (memory[place].gpu)
        place++;
    memory[place] = (FakeMemory){calloc(1, bytes), bytes, current};
    if (first)
        current->first = (uint32_t *)(void *)memory[place].at;
    *address = (CUdeviceptr)(uintptr_t)memory[place].at;
    current->free_bytes -= bytes;
    fake.live_memory++;
    fake.bytes += bytes;
    fake.most_bytes = fake.bytes > fake.most_bytes ? fake.bytes : fake.most_bytes;
    return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr address)
{
    const CUresult result = count_use(CUDA_FN_cuMemFree_v2);

    for (int i = 0; i < BLOCKS_OF_MEMORY; i++) {
        if (!memory[i].gpu || (CUdeviceptr)(uintptr_t)memory[i].at != address)
            continue;
        memory[i].gpu->free_bytes += memory[i].bytes;
        fake.bytes -= memory[i].bytes;
        free(memory[i].at);
        memory[i] = (FakeMemory){0};
        fake.live_memory--;
        return result;
    }
    return CUDA_BAD_ARGUMENT;
}

CUresult cuMemHostAlloc(void **at, size_t bytes, unsigned int flags)
{
    ENTER(cuMemHostAlloc);
    NEED_CONTEXT();
    *at = malloc(bytes);
    fake.live_host++;
    fake.pinned_on[current - fake.gpus] = sched_getcpu();
    return flags == (CUDA_HOST_MAPPED | CUDA_HOST_PORTABLE) ? CUDA_SUCCESS : CUDA_BAD_ARGUMENT;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *at, unsigned int flags)
{
    ENTER(cuMemHostGetDevicePointer_v2);
    NEED_CONTEXT();
    *address = (CUdeviceptr)(uintptr_t)at;
    return flags == 0 ? CUDA_SUCCESS : CUDA_BAD_ARGUMENT;
}

CUresult cuMemFreeHost(void *at)
{
    const CUresult result = count_use(CUDA_FN_cuMemFreeHost);

    free(at);
    fake.live_host--;
    return result;
}

static void *pointer_of(CUdeviceptr address)
{
    return (void *)(uintptr_t)address;
}

static void pass_time(FakeGpu *gpu, double ms)
{
    gpu->now_ns += (uint64_t)(ms * 1e6) + LAUNCH_US * 1000;
}

static void copy_bytes(void *to, const void *from, size_t bytes, bool corrupt)
{
    if (!fake.lazy)
        memcpy(to, from, bytes);
    if (corrupt && !fake.lazy)
        ((unsigned char *)to)[bytes / 2] ^= 0x10;
}

CUresult cuMemsetD8Async(CUdeviceptr address, unsigned char value, size_t bytes, CUstream stream)
{
    ENTER(cuMemsetD8Async);
    memset(pointer_of(address), value, bytes);
    pass_time((FakeGpu *)(void *)stream, 0.1);
    return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    ENTER(cuMemcpyHtoDAsync_v2);
    copy_bytes(pointer_of(to), from, bytes, fake.corrupt_to_gpu);
    pass_time((FakeGpu *)(void *)stream, (double)bytes / 2e6);
    return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    ENTER(cuMemcpyDtoHAsync_v2);
    copy_bytes(to, pointer_of(from), bytes, fake.corrupt_to_host);
    pass_time((FakeGpu *)(void *)stream, (double)bytes / 1e6);
    return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    ENTER(cuMemcpyDtoDAsync_v2);
    copy_bytes(pointer_of(to), pointer_of(from), bytes, false);
    pass_time((FakeGpu *)(void *)stream, (double)bytes / 4e6);
    return CUDA_SUCCESS;
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes,
                           CUstream stream)
{
    const ptrdiff_t i = (FakeGpu *)(void *)from_context - fake.gpus, j = (FakeGpu *)(void *)to_context - fake.gpus;
    const double share = fake.copy_share[i][j] > 0 ? fake.copy_share[i][j] : 1;

    ENTER(cuMemcpyPeerAsync);
    copy_bytes(pointer_of(to), pointer_of(from), bytes, fake.corrupt[i][j]);
    pass_time((FakeGpu *)(void *)stream, (double)bytes / 3e6 / share);
    return CUDA_SUCCESS;
}

/* ---- streams and events: a stream's time is its GPU's ---- */

CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
    ENTER(cuStreamCreate);
    NEED_CONTEXT();
    *stream = (CUstream)(void *)current;
    fake.live_streams++;
    return flags == CUDA_STREAM_NON_BLOCKING ? CUDA_SUCCESS : CUDA_BAD_ARGUMENT;
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
    const CUresult result = count_use(CUDA_FN_cuStreamDestroy_v2);

    fake.live_streams -= stream != NULL;
    return result;
}

CUresult cuStreamSynchronize(CUstream stream)
{
    ENTER(cuStreamSynchronize);
    return stream ? CUDA_SUCCESS : CUDA_BAD_ARGUMENT;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
    const FakeEvent *e = (FakeEvent *)(void *)event;
    FakeGpu *gpu = (FakeGpu *)(void *)stream;

    ENTER(cuStreamWaitEvent);
    gpu->now_ns = e->ns > gpu->now_ns ? e->ns : gpu->now_ns;
    return flags == 0 ? CUDA_SUCCESS : CUDA_BAD_ARGUMENT;
}

CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
    FakeEvent *e;

    ENTER(cuEventCreate);
    NEED_CONTEXT();
    e = calloc(1, sizeof *e);
    e->gpu = current;
    *event = (CUevent)(void *)e;
    fake.live_events++;
    return flags == CUDA_EVENT_BLOCKING_SYNC ? CUDA_SUCCESS : CUDA_BAD_ARGUMENT;
}

CUresult cuEventDestroy_v2(CUevent event)
{
    const CUresult result = count_use(CUDA_FN_cuEventDestroy_v2);

    free(event);
    fake.live_events--;
    return result;
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    FakeEvent *e = (FakeEvent *)(void *)event;

    ENTER(cuEventRecord);
    if (e->gpu != (FakeGpu *)(void *)stream || e->gpu != current)
        return CUDA_BAD_CONTEXT;
    e->ns = e->gpu->now_ns;
    return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent event)
{
    ENTER(cuEventQuery);
    return event ? CUDA_SUCCESS : CUDA_BAD_ARGUMENT;
}

CUresult cuEventSynchronize(CUevent event)
{
    ENTER(cuEventSynchronize);
    return event ? CUDA_SUCCESS : CUDA_BAD_ARGUMENT;
}

CUresult cuEventElapsedTime(float *ms, CUevent from, CUevent to)
{
    const FakeEvent *a = (FakeEvent *)(void *)from, *b = (FakeEvent *)(void *)to;

    ENTER(cuEventElapsedTime);
    *ms = (float)((double)(b->ns - a->ns) / 1e6);
    return a->gpu == b->gpu ? CUDA_SUCCESS : CUDA_BAD_ARGUMENT;
}

/* ---- kernels ---- */

CUresult cuModuleLoadDataEx(CUmodule *module, const void *text, unsigned int count, int *options, void **values)
{
    static const char *const targets[] = {
#define TEXT_TARGET(id, file, target, ...) target,
        CUDA_TEXT_TABLE(TEXT_TARGET)
#undef TEXT_TARGET
    };

    ENTER(cuModuleLoadDataEx);
    NEED_CONTEXT();
    (void)options, (void)values, (void)count;
    if (fake.refused_text != FAKE_NONE && strstr(text, targets[fake.refused_text]))
        return fake.refused_result;
    *module = (CUmodule)(void *)strdup(text);
    fake.live_modules++;
    fake.loaded_texts++;
    return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module)
{
    const CUresult result = count_use(CUDA_FN_cuModuleUnload);

    free(module);
    fake.live_modules--;
    return result;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    ENTER(cuModuleGetFunction);
    if (!strstr((char *)(void *)module, name))
        return CUDA_NOT_FOUND;
    for (CudaKernel i = 0; i < CUDA_KERNEL_COUNT; i++) {
        if (strcmp(kernel_names[i], name) != 0)
            continue;
        functions[i].kernel = i;
        *function = (CUfunction)(void *)&functions[i];
        return CUDA_SUCCESS;
    }
    return CUDA_NOT_FOUND;
}

CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value)
{
    ENTER(cuFuncSetAttribute);
    return function && attribute == CUDA_FUNCTION_MAX_DYNAMIC_SHARED && value <= 163 << 10 ? CUDA_SUCCESS
                                                                                           : CUDA_BAD_ARGUMENT;
}

static void note_error(CudaBlockResult *block, uint64_t index, uint32_t want, uint32_t got)
{
    if (block->errors++ > 0)
        return;
    block->first_bad = index;
    block->want = want;
    block->got = got;
}

/* A word as the GPU reads it. */
static uint32_t read_word(FakeGpu *gpu, const uint32_t *at)
{
    if (gpu->stuck_word == FAKE_NONE || gpu->stuck_times == 0 || at != gpu->first + gpu->stuck_word)
        return *at;
    gpu->stuck_times -= gpu->stuck_times > 0;
    return gpu->stuck_value;
}

static void run_pattern(FakeGpu *gpu, CudaKernel kernel, const CudaKernelArgs *a, CudaBlockResult *blocks,
                        uint32_t grid)
{
    const uint32_t flip = a->flags & CUDA_KERNEL_INVERTED || (kernel == CUDA_MEMORY_WRITE && a->flags) ? ~0u : 0;
    uint32_t *words = pointer_of(a->a);

    for (uint64_t i = 0; i < a->count * 4; i++) {
        const uint32_t want = cuda_pattern_word(a->pattern, a->seed, i) ^ flip;

        if (kernel == CUDA_MEMORY_VERIFY) {
            const uint32_t got = gpu->stuck_word == FAKE_NONE ? words[i] : read_word(gpu, &words[i]);
            if (got != want)
                note_error(&blocks[i / 4 / 1024 % grid], i, want, got);
        }
        if (kernel == CUDA_MEMORY_WRITE)
            words[i] = want;
        else if (a->flags & CUDA_KERNEL_INVERT)
            words[i] = ~want;
    }
}

static uint32_t hash_row(const uint32_t *words, uint64_t count)
{
    uint32_t hash = 1;

    for (uint64_t i = 0; i < count; i++)
        hash = hash * 31 + words[i];
    return hash;
}

/* No product, but depends on both as one does. */
static void run_gemm(FakeGpu *gpu, CudaKernel kernel, const CudaKernelArgs *a, CudaBlockResult *blocks, uint32_t grid)
{
    const uint32_t *left = pointer_of(a->a), *right = pointer_of(a->b);
    float *c = pointer_of(a->c);
    bool wrong = false;

    fake.gemms += kernel == CUDA_GEMM_BF16;
    for (uint32_t i = 0; i < a->m; i++) {
        const uint32_t row = hash_row(left + (uint64_t)i * a->k / 2, 8);
        for (uint32_t j = 0; j < a->n; j++)
            c[(uint64_t)i * a->n + j] = (float)((row ^ hash_row(right + (uint64_t)j * a->k / 2, 2)) & 0xffffff);
    }
    for (uint32_t tile = 0; kernel == CUDA_GEMM_BF16 && tile < grid; tile++) {
        float *first = c + (uint64_t)(tile / (a->n / 128)) * 128 * a->n + tile % (a->n / 128) * 128;
        if ((int)blocks[tile].smid == gpu->wrong_sm && gpu->wrong_times != 0 && fake.gemms > gpu->wrong_after) {
            *first += 1;
            wrong = true;
        }
        blocks[tile].checksum = (uint64_t)tile * 1000003 + (uint64_t)*first;
    }
    gpu->wrong_times -= wrong && gpu->wrong_times > 0;
}

static void run_words(CudaKernel kernel, const CudaKernelArgs *a, CudaBlockResult *blocks, uint32_t grid)
{
    float *fa = pointer_of(a->a);
    const float *fb = pointer_of(a->b);
    uint32_t *wa = pointer_of(a->a);
    const uint32_t *wb = pointer_of(a->b);

    for (uint64_t i = 0; kernel == CUDA_ADD_FLOAT && i < a->count * 4; i++)
        fa[i] += fb[i];
    for (uint64_t i = 0; (kernel == CUDA_FILL_NORMAL || kernel == CUDA_FILL_INTEGER) && i < a->count; i++)
        wa[i] = cuda_hash((uint32_t)i ^ a->seed);
    for (uint64_t i = 0; kernel == CUDA_COMPARE && i < a->count; i++)
        if (wa[i] != wb[i])
            note_error(&blocks[i % grid], i, wb[i], wa[i]);
    if (kernel == CUDA_MEMORY_COPY)
        memcpy(pointer_of(a->b), pointer_of(a->a), a->count * 16);
}

/* Follows the links as the GPU does: a chain that leaves its buffer, or goes in a small circle, is seen here. */
static void run_chase(const CudaKernelArgs *a)
{
    const uint32_t *links = pointer_of(a->a);
    uint32_t at = 0;

    for (uint32_t i = 0; i < a->rounds; i++) {
        at = at < a->count ? links[at] : 0;
        if (at >= a->count || (at == 0 && i + 1 < a->rounds && i + 1 != a->count / 64))
            fake.broken_chains++;
    }
}

static void run_kernel(FakeGpu *gpu, CudaKernel kernel, const CudaKernelArgs *a, CudaBlockResult *blocks, uint32_t grid)
{
    if (kernel == CUDA_MEMORY_WRITE || kernel == CUDA_MEMORY_VERIFY)
        run_pattern(gpu, kernel, a, blocks, grid);
    else if (kernel == CUDA_GEMM_BF16 || kernel == CUDA_GEMM_REFERENCE)
        run_gemm(gpu, kernel, a, blocks, grid);
    else if (kernel == CUDA_MEMORY_CHASE)
        run_chase(a);
    else
        run_words(kernel, a, blocks, grid);
}

/* Milliseconds of a kernel: of probes 1 TFLOP/s of all SMs together. */
static double time_kernel(const FakeGpu *gpu, CudaKernel kernel, const CudaKernelArgs *a)
{
    const double bytes = (double)a->count * 16;

    switch (kernel) {
    case CUDA_MEMORY_READ:
        return bytes * a->rounds / gpu->gb_per_s / 1e6;
    case CUDA_MEMORY_COPY:
        return bytes * 2 / gpu->gb_per_s / 1e6;
    case CUDA_MEMORY_TRIAD:
        return bytes * 3 / gpu->gb_per_s / 1e6;
    case CUDA_MEMORY_CHASE:
        return a->rounds * 500e-6;
    case CUDA_GEMM_BF16:
        return gpu->gemm_ms;
    case CUDA_MEMORY_WRITE:
        return bytes / gpu->gb_per_s / 1e6;
    case CUDA_MEMORY_VERIFY:
        return bytes * (a->flags & CUDA_KERNEL_INVERT ? 2 : 1) / gpu->gb_per_s / 1e6;
    default:
        return kernel_operations[kernel] > 0 ? kernel_operations[kernel] * FAKE_SMS * a->rounds / 1e9 : 1;
    }
}

/* A kernel that runs on and on, where a test of the program wants one: with FAKE_CUDA_LAUNCHES=n that is the n-th. Who
 * runs it is then written to the file FAKE_CUDA_RUNNING. */
static void wait_stop(const CudaKernelArgs *a)
{
    static int launches;
    const char *after = getenv("FAKE_CUDA_LAUNCHES"), *path = getenv("FAKE_CUDA_RUNNING");

    if (!after || ++launches != atoi(after))
        return;
    FILE *file = fopen(path, "w");
    if (!file)
        abort();
    fprintf(file, "%d\n", (int)getpid());
    fclose(file);
    while (!*(volatile uint32_t *)pointer_of(a->stop))
        usleep(1000);
}

static void fill_blocks(const FakeGpu *gpu, CudaKernel kernel, CudaBlockResult *blocks, uint32_t grid, double ms)
{
    for (uint32_t i = 0; i < grid; i++) {
        CudaBlockResult *block = &blocks[i];
        const bool probe = kernel_operations[kernel] > 0;
        double own_ms = ms;

        *block = (CudaBlockResult){.smid = i % FAKE_SMS * 2, .first_bad = UINT64_MAX}; /* every second number */
        if ((int)block->smid == gpu->missing_sm)
            block->smid = block->smid ? 0 : 2;
        if ((int)block->smid == gpu->slow_sm)
            own_ms = ms * 1.25;
        block->begin_ns = gpu->now_ns;
        block->end_ns = gpu->now_ns + (uint64_t)(own_ms * 1e6);
        block->clocks = (uint64_t)(own_ms * 1e6 * 1.4); /* 1400 MHz */
        if (probe && (int)block->smid == gpu->wrong_probe_sm)
            note_error(block, 7, 0x3f800000, 0x3f800001);
    }
}

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                        unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes,
                        CUstream stream, void **params, void **extra)
{
    const CudaKernel kernel = ((FakeFunction *)(void *)function)->kernel;
    const CudaKernelArgs *a = params[0];
    FakeGpu *gpu = (FakeGpu *)(void *)stream;
    CudaBlockResult *blocks = pointer_of(a->result);
    double ms;

    ENTER(cuLaunchKernel);
    NEED_CONTEXT();
    (void)grid_y, (void)grid_z, (void)block_x, (void)block_y, (void)block_z, (void)extra;
    if (gpu != current)
        return CUDA_BAD_CONTEXT;
    if (kernel_operations[kernel] > 0 && shared_bytes <= 164 << 9)
        return CUDA_BAD_ARGUMENT; /* two blocks would fit on an SM */
    if (fake.term_after && ++fake.launches == fake.term_after)
        raise(SIGTERM);
    if (*(uint32_t *)pointer_of(a->stop)) {
        for (uint32_t i = 0; i < grid_x; i++)
            blocks[i] = (CudaBlockResult){.stopped = 1, .first_bad = UINT64_MAX};
        fake.stopped_launches++;
        return CUDA_SUCCESS;
    }
    wait_stop(a);
    ms = time_kernel(gpu, kernel, a);
    fill_blocks(gpu, kernel, blocks, grid_x, ms);
    if (!fake.lazy)
        run_kernel(gpu, kernel, a, blocks, grid_x);
    pass_time(gpu, ms);
    fake.longest_kernel_ms = ms > fake.longest_kernel_ms ? ms : fake.longest_kernel_ms;
    return CUDA_SUCCESS;
}

const CudaTable fake_table = {
#define TABLE_MEMBER(name, arguments) .name = name,
    CUDA_FUNCTION_TABLE(TABLE_MEMBER)
#undef TABLE_MEMBER
};
