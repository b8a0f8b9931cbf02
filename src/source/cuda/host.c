/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between host and GPUs: each GPU alone, then all at once, out of memory that the driver has pinned near the
 * GPU. What was copied is compared, both ways.
 */
#include <ctype.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/number.h"
#include "base/str.h"
#include "source/cuda/links.h"

#define HOST_BYTES (UINT64_C(64) << 20)
/* A window is short: eight GPUs are measured one after the other, and events resolve half a microsecond. */
enum { CPULIST_MAX = 64 * 1024, SHARE = 4, WINDOW_MS = 5 };

typedef struct HostLink {
    CudaGpu *gpu;
    CUdeviceptr device;
    uint32_t *host;
    uint32_t times[2]; /* copies of a window, to the GPU and from it */
    CUevent marks[BENCH_SAMPLES_MAX + 1];
} HostLink;

typedef struct HostStage {
    BenchProcess *process;
    uint64_t bytes;
    HostLink links[BENCH_GPUS_MAX];
} HostStage;

/* ---- pinned memory ---- */

static void add_processor(void *at, uint64_t number)
{
    CPU_SET((size_t)number, (cpu_set_t *)at);
}

/* Goes to the processors next to the GPU, so that memory comes from there. False: they are not known, or not ours. */
static bool move_near(const BenchProcess *process, const CudaGpu *gpu)
{
    CLEANUP(str_done) Str path = str_limited(PATH_MAX), list = str_limited(CPULIST_MAX);
    cpu_set_t near;

    str_addf(&path, "%s/sys/bus/pci/devices/", process->options.root);
    for (const char *c = gpu->facts.pci; *c; c++)
        str_addc(&path, (char)tolower((unsigned char)*c));
    str_add(&path, "/local_cpulist");
    CPU_ZERO(&near);
    if (file_read(path.text, CPULIST_MAX, &list, NULL) < 0 ||
        !number_walk_list(list.text, CPU_SETSIZE - 1, add_processor, &near))
        return false;
    return CPU_COUNT(&near) > 0 && sched_setaffinity(0, sizeof near, &near) == 0;
}

static int pin_near(const BenchProcess *process, CudaGpu *gpu, uint64_t bytes, uint32_t **ret)
{
    cpu_set_t before;
    void *at = NULL;
    const bool known = sched_getaffinity(0, sizeof before, &before) == 0;
    const bool moved = known && move_near(process, gpu);
    const int rc = cuda_gpu_pinned(gpu, bytes, &at);

    if (rc == 0)
        memset(at, 0, bytes);
    if (moved)
        sched_setaffinity(0, sizeof before, &before);
    *ret = at;
    return rc;
}

static int prepare_link(HostStage *h, CudaGpu *gpu)
{
    HostLink *link = &h->links[gpu->place];

    link->gpu = gpu;
    TRY(cuda_gpu_select(gpu));
    TRY(cuda_gpu_load(gpu, CUDA_MEMORY_WRITE));
    TRY(cuda_gpu_load(gpu, CUDA_MEMORY_VERIFY));
    TRY(cuda_gpu_memory(gpu, h->bytes, &link->device));
    TRY(pin_near(h->process, gpu, h->bytes, &link->host));
    for (uint32_t i = 0; i <= h->process->options.windows; i++)
        TRY(cuda_gpu_event(gpu, &link->marks[i]));
    return 0;
}

/* ---- rates ---- */

static int queue_copies(const HostStage *h, const HostLink *link, bool from, uint32_t times)
{
    Cuda *cuda = link->gpu->cuda;

    for (uint32_t i = 0; i < times; i++)
        if (from)
            CUDA_TRY(cuda, cuMemcpyDtoHAsync_v2, (link->host, link->device, h->bytes, link->gpu->stream));
        else
            CUDA_TRY(cuda, cuMemcpyHtoDAsync_v2, (link->device, link->host, h->bytes, link->gpu->stream));
    return 0;
}

static int queue_windows(const HostStage *h, const HostLink *link, bool from, uint32_t windows)
{
    TRY(cuda_gpu_select(link->gpu));
    TRY(cuda_gpu_record(link->gpu, link->marks[0]));
    for (uint32_t i = 0; i < windows; i++) {
        TRY(queue_copies(h, link, from, link->times[from]));
        TRY(cuda_gpu_record(link->gpu, link->marks[i + 1]));
    }
    return 0;
}

static int read_windows(HostStage *h, const HostLink *link, bool from, BenchMeasureId id)
{
    BenchMeasure measure = bench_measure_of(id, link->gpu->place, BENCH_NONE);
    double ms = 0;

    TRY(cuda_gpu_select(link->gpu));
    measure.bytes = h->bytes * link->times[from];
    for (; measure.count < h->process->options.windows; measure.count++) {
        TRY(cuda_gpu_elapsed(link->gpu, link->marks[measure.count], link->marks[measure.count + 1], &ms));
        measure.samples[measure.count] = (double)measure.bytes / ms / 1e6;
    }
    return bench_send_measure(&h->process->sender, &measure);
}

static int find_times(HostStage *h, HostLink *link, bool from)
{
    double ms = 0;

    link->times[from] = 1;
    for (int i = 0; i < 2; i++) {
        TRY(queue_windows(h, link, from, 1));
        TRY(cuda_gpu_elapsed(link->gpu, link->marks[0], link->marks[1], &ms));
    }
    link->times[from] = (uint32_t)(WINDOW_MS / ms) + 1;
    return 0;
}

static int measure_alone(HostStage *h, HostLink *link, bool from)
{
    TRY(find_times(h, link, from));
    TRY(queue_windows(h, link, from, h->process->options.windows));
    return read_windows(h, link, from, from ? BENCH_GPU_TO_HOST : BENCH_HOST_TO_GPU);
}

static int measure_together(HostStage *h, bool from)
{
    for (uint32_t i = 0; i < h->process->gpu_count; i++)
        TRY(queue_windows(h, &h->links[i], from, h->process->options.windows));
    for (uint32_t i = 0; i < h->process->gpu_count; i++)
        TRY(read_windows(h, &h->links[i], from, from ? BENCH_ALL_TO_HOST : BENCH_HOST_TO_ALL));
    return 0;
}

/* ---- data ---- */

static uint32_t find_seed(const HostLink *link)
{
    return cuda_hash(link->gpu->place + 1);
}

/* Compares what came to the host with what the GPU wrote, and puts it right. */
static void compare_host(const HostStage *h, const HostLink *link, BenchError *error)
{
    const uint32_t seed = find_seed(link);

    for (uint64_t i = 0; i < h->bytes / 4; i++) {
        const uint32_t want = cuda_pattern_word(CUDA_PATTERN_RANDOM, seed, i), got = link->host[i];

        if (got == want)
            continue;
        link->host[i] = want;
        if (error->count++ > 0)
            continue;
        error->address = i * 4;
        error->want = want;
        error->got = got;
    }
}

static CudaLaunch pattern_launch(const HostStage *h, const HostLink *link, CudaKernel kernel)
{
    return (CudaLaunch){
        .kernel = kernel,
        .grid = link->gpu->facts.sm_count,
        .args = {.a = link->device, .count = h->bytes / 16, .pattern = CUDA_PATTERN_RANDOM, .seed = find_seed(link)}};
}

/* GPU to host: written by the GPU, compared by the host. */
static int copy_out(HostStage *h, const HostLink *link, BenchError *error)
{
    const CudaLaunch launch = pattern_launch(h, link, CUDA_MEMORY_WRITE);
    double ms = 0;

    TRY(cuda_gpu_run(link->gpu, &launch, 1, &ms));
    memset(link->host, 0, h->bytes);
    TRY(queue_copies(h, link, true, 1));
    TRY(cuda_gpu_synchronize(link->gpu));
    compare_host(h, link, error);
    return 0;
}

/* Host to GPU: what the host has just compared, compared by the GPU. */
static int copy_in(HostStage *h, const HostLink *link, BenchError *error)
{
    const CudaLaunch launch = pattern_launch(h, link, CUDA_MEMORY_VERIFY);
    Cuda *cuda = link->gpu->cuda;
    double ms = 0;

    CUDA_TRY(cuda, cuMemsetD8Async, (link->device, 0, h->bytes, link->gpu->stream));
    TRY(queue_copies(h, link, false, 1));
    TRY(cuda_gpu_run(link->gpu, &launch, 1, &ms));
    links_add_blocks(error, cuda_gpu_results_of(link->gpu, &launch), launch.grid, 0);
    return 0;
}

/* Copies and compares, once more after an error. */
static int check_copy(HostStage *h, const HostLink *link, BenchMeasureId id,
                      int (*copy)(HostStage *h, const HostLink *link, BenchError *error))
{
    BenchError error = links_error(id, link->gpu->place, BENCH_NONE), again = error;

    TRY(copy(h, link, &error));
    if (error.count == 0)
        return 0;
    TRY(copy(h, link, &again));
    error.repeats = links_repeats(&error, &again);
    return bench_send_error(&h->process->sender, &error);
}

/* ---- the stage ---- */

static int run_host(HostStage *h)
{
    BenchProcess *process = h->process;

    TRY(links_choose_bytes(process, HOST_BYTES, SHARE, &h->bytes)); /* one size: all together end together */
    for (uint32_t i = 0; i < process->gpu_count; i++)
        TRY(prepare_link(h, &process->gpus[i]));
    for (uint32_t i = 0; i < process->gpu_count; i++) {
        TRY(cuda_gpu_select(&process->gpus[i]));
        TRY(check_copy(h, &h->links[i], BENCH_GPU_TO_HOST, copy_out));
        TRY(check_copy(h, &h->links[i], BENCH_HOST_TO_GPU, copy_in));
        TRY(measure_alone(h, &h->links[i], false));
        TRY(measure_alone(h, &h->links[i], true));
    }
    TRY(measure_together(h, false));
    return measure_together(h, true);
}

int bench_stage_host(BenchProcess *process)
{
    CLEANUP_FREE HostStage *h = xcalloc(1, sizeof *h);

    h->process = process;
    return run_host(h);
}
