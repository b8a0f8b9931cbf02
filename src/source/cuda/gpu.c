/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/number.h"
#include "source/cuda/gpu.h"
#include "source/cuda/texts.h"

typedef struct KernelRow {
    const char *name;
    CudaText text;
    uint32_t threads;
    double operations;
} KernelRow;

static const KernelRow kernels[CUDA_KERNEL_COUNT] = {
#define KERNEL_ROW(id, name, text, threads, operations) [id] = {name, text, threads, operations},
    CUDA_KERNEL_TABLE(KERNEL_ROW)
#undef KERNEL_ROW
};

static const struct {
    const char *name;
    uint32_t lowest, highest;
} texts[CUDA_TEXT_COUNT] = {
#define TEXT_ROW(id, file, target, lowest, highest) [id] = {file, lowest, highest},
    CUDA_TEXT_TABLE(TEXT_ROW)
#undef TEXT_ROW
};

static uint32_t find_capability(const CudaGpu *gpu)
{
    return gpu->facts.major * 10 + gpu->facts.minor;
}

const char *cuda_text_name(CudaText text)
{
    return texts[text].name;
}

const char *cuda_kernel_name(CudaKernel kernel)
{
    return kernels[kernel].name;
}

CudaText cuda_gpu_text(const CudaGpu *gpu, CudaKernel kernel)
{
    const CudaText text = kernels[kernel].text;

    return text == CUDA_TEXT_BLACKWELL && find_capability(gpu) == 103 ? CUDA_TEXT_BLACKWELL_103 : text;
}

double cuda_kernel_operations(CudaKernel kernel)
{
    return kernels[kernel].operations;
}

/* ---- start and stop ---- */

/* More than half of what an SM has; without the limit's name (very old drivers) what any kernel may have. */
static int read_shared_bytes(CudaGpu *gpu)
{
    Cuda *cuda = gpu->cuda;
    int per_sm = 0, most = 0;

    CUDA_TRY(cuda, cuDeviceGetAttribute, (&per_sm, CUDA_ATTRIBUTE_SHARED_PER_SM, gpu->device));
    CUDA_TRY(cuda, cuDeviceGetAttribute, (&most, CUDA_ATTRIBUTE_SHARED_OPTIN, gpu->device));
    if (per_sm > 0 && most > 0)
        gpu->shared_bytes = (uint32_t)number_min_u64((uint64_t)per_sm / 2 + 1024, (uint64_t)most);
    return 0;
}

static int pin_memory(CudaGpu *gpu, uint64_t bytes, void **ret)
{
    Cuda *cuda = gpu->cuda;
    void *at = NULL;

    CUDA_TRY(cuda, cuMemHostAlloc, (&at, bytes, CUDA_HOST_PORTABLE | CUDA_HOST_MAPPED));
    *ret = at;
    return 0;
}

static int map_memory(CudaGpu *gpu, void *at, CUdeviceptr *ret)
{
    Cuda *cuda = gpu->cuda;

    CUDA_TRY(cuda, cuMemHostGetDevicePointer_v2, (ret, at, 0));
    return 0;
}

/* The stop word lies behind the results. */
static int start_results(CudaGpu *gpu)
{
    const size_t bytes = CUDA_RESULTS_CAP * sizeof(CudaBlockResult);
    void *at = NULL;
    volatile uint32_t *stop;

    TRY(pin_memory(gpu, bytes + 64, &at));
    gpu->results = (CudaResults){.at = at, .cap = CUDA_RESULTS_CAP};
    memset(at, 0, bytes + 64);
    TRY(map_memory(gpu, at, &gpu->results.address));
    gpu->stop_address = gpu->results.address + bytes;
    stop = (volatile uint32_t *)(gpu->results.at + CUDA_RESULTS_CAP);
    gpu->cuda->stop_words[gpu->place] = stop;
    *stop = gpu->cuda->stopping ? 1 : 0; /* a signal may have come before */
    return 0;
}

static int retain_context(CudaGpu *gpu)
{
    Cuda *cuda = gpu->cuda;

    CUDA_TRY(cuda, cuDevicePrimaryCtxSetFlags_v2, (gpu->device, CUDA_CONTEXT_BLOCKING_SYNC));
    CUDA_TRY(cuda, cuDevicePrimaryCtxRetain, (&gpu->context, gpu->device));
    return cuda_gpu_select(gpu);
}

int cuda_gpu_start(CudaGpu *gpu, Cuda *cuda, uint32_t place)
{
    uint64_t begin_ns;
    size_t free_bytes = 0, all_bytes = 0;

    *gpu = (CudaGpu){.cuda = cuda, .place = place};
    cuda->current = place;
    CUDA_TRY(cuda, cuDeviceGet, (&gpu->device, (int)place));
    TRY(cuda_read_device(cuda, gpu->device, &gpu->facts));
    TRY(read_shared_bytes(gpu));
    begin_ns = clock_read(CLOCK_MONOTONIC);
    TRY(retain_context(gpu));
    gpu->start_ms = (double)(clock_read(CLOCK_MONOTONIC) - begin_ns) / NS_PER_MS;
    CUDA_TRY(cuda, cuMemGetInfo_v2, (&free_bytes, &all_bytes));
    gpu->facts.free_bytes = free_bytes;
    CUDA_TRY(cuda, cuStreamCreate, (&gpu->stream, CUDA_STREAM_NON_BLOCKING));
    CUDA_TRY(cuda, cuEventCreate, (&gpu->begin, CUDA_EVENT_BLOCKING_SYNC));
    CUDA_TRY(cuda, cuEventCreate, (&gpu->end, CUDA_EVENT_BLOCKING_SYNC));
    return start_results(gpu);
}

void cuda_gpu_stop(CudaGpu *gpu)
{
    Cuda *cuda = gpu->cuda;

    if (!gpu->context)
        return;
    cuda_gpu_release(gpu);
    cuda->stop_words[gpu->place] = NULL;
    if (gpu->results.at)
        (void)CUDA_CALL(cuda, cuMemFreeHost, (gpu->results.at));
    if (gpu->begin)
        (void)CUDA_CALL(cuda, cuEventDestroy_v2, (gpu->begin));
    if (gpu->end)
        (void)CUDA_CALL(cuda, cuEventDestroy_v2, (gpu->end));
    if (gpu->stream)
        (void)CUDA_CALL(cuda, cuStreamDestroy_v2, (gpu->stream));
    for (size_t i = 0; i < CUDA_TEXT_COUNT; i++)
        if (gpu->modules[i])
            (void)CUDA_CALL(cuda, cuModuleUnload, (gpu->modules[i]));
    (void)CUDA_CALL(cuda, cuDevicePrimaryCtxRelease_v2, (gpu->device));
    vec_done(&gpu->memory);
    vec_done(&gpu->pinned);
    vec_done(&gpu->events);
    gpu->context = NULL;
}

int cuda_gpu_select(CudaGpu *gpu)
{
    Cuda *cuda = gpu->cuda;

    cuda->current = gpu->place;
    CUDA_TRY(cuda, cuCtxSetCurrent, (gpu->context));
    return 0;
}

/* ---- of a stage ---- */

int cuda_gpu_try_memory(CudaGpu *gpu, uint64_t bytes, CUdeviceptr *ret)
{
    CUdeviceptr at = 0;
    const CUresult result = gpu->cuda->table.cuMemAlloc_v2(&at, bytes);

    if (result == CUDA_OUT_OF_MEMORY)
        return 1;
    if (cuda_check(gpu->cuda, "cuMemAlloc_v2", result) != CUDA_SUCCESS)
        return -EIO;
    vec_push(&gpu->memory, at);
    *ret = at;
    return 0;
}

int cuda_gpu_memory(CudaGpu *gpu, uint64_t bytes, CUdeviceptr *ret)
{
    const int rc = cuda_gpu_try_memory(gpu, bytes, ret);

    if (rc <= 0)
        return rc;
    cuda_check(gpu->cuda, "cuMemAlloc_v2", CUDA_OUT_OF_MEMORY);
    return -EIO;
}

int cuda_gpu_pinned(CudaGpu *gpu, uint64_t bytes, void **ret)
{
    TRY(pin_memory(gpu, bytes, ret));
    vec_push(&gpu->pinned, *ret);
    return 0;
}

int cuda_gpu_results(CudaGpu *gpu, uint32_t blocks, CudaResults *ret)
{
    void *at = NULL;

    TRY(cuda_gpu_pinned(gpu, blocks * sizeof(CudaBlockResult), &at));
    TRY(map_memory(gpu, at, &ret->address));
    ret->at = at;
    ret->cap = blocks;
    return 0;
}

int cuda_gpu_event(CudaGpu *gpu, CUevent *ret)
{
    Cuda *cuda = gpu->cuda;
    CUevent event = NULL;

    CUDA_TRY(cuda, cuEventCreate, (&event, CUDA_EVENT_BLOCKING_SYNC));
    vec_push(&gpu->events, event);
    *ret = event;
    return 0;
}

void cuda_gpu_release(CudaGpu *gpu)
{
    Cuda *cuda = gpu->cuda;

    if (!gpu->context)
        return;
    (void)cuda_gpu_select(gpu);
    if (gpu->memory.len + gpu->pinned.len > 0)
        (void)CUDA_CALL(cuda, cuCtxSynchronize, ());
    for (size_t i = 0; i < gpu->events.len; i++)
        (void)CUDA_CALL(cuda, cuEventDestroy_v2, (gpu->events.at[i]));
    for (size_t i = 0; i < gpu->memory.len; i++)
        (void)CUDA_CALL(cuda, cuMemFree_v2, (gpu->memory.at[i]));
    for (size_t i = 0; i < gpu->pinned.len; i++)
        (void)CUDA_CALL(cuda, cuMemFreeHost, (gpu->pinned.at[i]));
    vec_clear(&gpu->events);
    vec_clear(&gpu->memory);
    vec_clear(&gpu->pinned);
}

int cuda_gpu_budget(CudaGpu *gpu, uint32_t percent, uint32_t keep_mib, uint64_t *ret)
{
    Cuda *cuda = gpu->cuda;
    const uint64_t keep_bytes = (uint64_t)keep_mib << 20;
    size_t free_bytes = 0, all_bytes = 0;

    CUDA_TRY(cuda, cuMemGetInfo_v2, (&free_bytes, &all_bytes));
    *ret = free_bytes <= keep_bytes ? 0 : number_min_u64(free_bytes / 100 * percent, free_bytes - keep_bytes);
    return 0;
}

/* ---- kernels ---- */

static int load_text(CudaGpu *gpu, CudaText text)
{
    const uint32_t capability = find_capability(gpu);
    CUresult result;

    gpu->texts[text] = CUDA_TEXT_ABSENT;
    if (capability < texts[text].lowest || capability > texts[text].highest || !cuda_texts[text])
        return 0;
    result = gpu->cuda->table.cuModuleLoadDataEx(&gpu->modules[text], cuda_texts[text], 0, NULL, NULL);
    gpu->text_results[text] = result;
    if (result == CUDA_PTX_TOO_NEW || result == CUDA_NO_BINARY)
        return 0;
    if (cuda_check(gpu->cuda, "cuModuleLoadDataEx", result) != CUDA_SUCCESS)
        return -EIO;
    gpu->texts[text] = CUDA_TEXT_LOADED;
    return 0;
}

int cuda_gpu_load(CudaGpu *gpu, CudaKernel kernel)
{
    const CudaText text = cuda_gpu_text(gpu, kernel);
    Cuda *cuda = gpu->cuda;

    if (gpu->functions[kernel])
        return 0;
    if (gpu->texts[text] == CUDA_TEXT_UNTRIED)
        TRY(load_text(gpu, text));
    if (gpu->texts[text] == CUDA_TEXT_ABSENT)
        return 1;
    CUDA_TRY(cuda, cuModuleGetFunction, (&gpu->functions[kernel], gpu->modules[text], kernels[kernel].name));
    return 0;
}

const CudaBlockResult *cuda_gpu_results_of(const CudaGpu *gpu, const CudaLaunch *launch)
{
    return launch->results ? launch->results->at : gpu->results.at;
}

static int allow_shared(CudaGpu *gpu, const CudaLaunch *launch)
{
    Cuda *cuda = gpu->cuda;

    if (launch->shared_bytes == 0 || gpu->exclusive[launch->kernel])
        return 0;
    CUDA_TRY(cuda, cuFuncSetAttribute,
             (gpu->functions[launch->kernel], CUDA_FUNCTION_MAX_DYNAMIC_SHARED, (int)launch->shared_bytes));
    gpu->exclusive[launch->kernel] = true;
    return 0;
}

static int queue_kernel(CudaGpu *gpu, const CudaLaunch *launch)
{
    const CudaResults *results = launch->results ? launch->results : &gpu->results;
    Cuda *cuda = gpu->cuda;
    CudaKernelArgs args = launch->args;
    void *params[] = {&args};

    assert(launch->grid <= results->cap);
    args.result = results->address;
    args.stop = gpu->stop_address;
    CUDA_TRY(cuda, cuLaunchKernel,
             (gpu->functions[launch->kernel], launch->grid, 1, 1, kernels[launch->kernel].threads, 1, 1,
              launch->shared_bytes, gpu->stream, params, NULL));
    return 0;
}

int cuda_gpu_launch(CudaGpu *gpu, const CudaLaunch *launch)
{
    const CudaResults *results = launch->results ? launch->results : &gpu->results;

    memset(results->at, 0, launch->grid * sizeof *results->at);
    TRY(allow_shared(gpu, launch));
    return queue_kernel(gpu, launch);
}

int cuda_gpu_record(CudaGpu *gpu, CUevent event)
{
    Cuda *cuda = gpu->cuda;

    CUDA_TRY(cuda, cuEventRecord, (event, gpu->stream));
    return 0;
}

int cuda_gpu_elapsed(CudaGpu *gpu, CUevent begin, CUevent end, double *ret_ms)
{
    Cuda *cuda = gpu->cuda;
    float ms = 0;

    CUDA_TRY(cuda, cuEventSynchronize, (end));
    if (cuda->stopping)
        return -EINTR;
    CUDA_TRY(cuda, cuEventElapsedTime, (&ms, begin, end));
    *ret_ms = ms > 0.0005 ? (double)ms : 0.0005; /* its resolution */
    return 0;
}

int cuda_gpu_synchronize(CudaGpu *gpu)
{
    Cuda *cuda = gpu->cuda;

    CUDA_TRY(cuda, cuStreamSynchronize, (gpu->stream));
    return cuda->stopping ? -EINTR : 0;
}

int cuda_gpu_run(CudaGpu *gpu, const CudaLaunch *launch, uint32_t times, double *ret_ms)
{
    const CudaResults *results = launch->results ? launch->results : &gpu->results;

    memset(results->at, 0, launch->grid * sizeof *results->at);
    TRY(allow_shared(gpu, launch));
    TRY(cuda_gpu_record(gpu, gpu->begin));
    for (uint32_t i = 0; i < times; i++)
        TRY(queue_kernel(gpu, launch));
    TRY(cuda_gpu_record(gpu, gpu->end));
    return cuda_gpu_elapsed(gpu, gpu->begin, gpu->end, ret_ms);
}

/* ---- clock ---- */

void cuda_clock_add(CudaClock *clock, const CudaBlockResult *results, uint32_t blocks)
{
    for (uint32_t i = 0; i < blocks; i++) {
        if (results[i].end_ns <= results[i].begin_ns)
            continue;
        clock->clocks += (double)results[i].clocks;
        clock->ns += (double)(results[i].end_ns - results[i].begin_ns);
    }
}

double cuda_clock_mhz(const CudaClock *clock)
{
    return clock->ns > 0 ? clock->clocks / clock->ns * 1000 : NAN;
}
