/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes of a GPU at pace NORMAL: the driver's lists of compute, graphics and MPS processes as one, with memory and
 * share of the GPU. A process in several lists comes once, as a compute process. The whole list is absent where the
 * driver refuses one of its parts, so a missing process is really not there. Of more than NODE_PROCESSES_MAX those
 * with the most memory are kept, and the count says all. All other values, and the GPUs after this one, wait for the
 * lists: where these are slow they are read at pace SLOW alone.
 */
#include "source/nvml/readers.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/duration.h"
#include "base/number.h"
#include "base/vec.h"
#include "source/nvml/library.h"

enum {
    ROOM_FIRST = 32,  /* entries that the first try has room for */
    ROOM_MAX = 16384, /* a longer list is not believed */
    ROOM_MORE = 16,   /* beyond what the driver wants, as lists grow between two calls */
    TRIES = 4,
    SLOW_READS = 3, /* in a row: one may be an accident of the machine */
    LARGE_ENTRIES = 535, /* drivers that shipped _v3 with entries of 32 bytes by mistake */
};

#define SLOW_READ_NS (50 * NS_PER_MS)

typedef enum Kind { KIND_COMPUTE, KIND_GRAPHICS, KIND_MPS, KIND_END } Kind;

typedef VEC(NodeProcess) Found;

/* ---- lists ---- */

static nvmlReturn_t call_list(NvmlGpu *gpu, Kind kind, unsigned int *count, nvmlProcessInfo_t *infos)
{
    const bool older = gpu->reader->library.driver_major == LARGE_ENTRIES;

#define LIST(fn)                                                                                                       \
    (older ? NVML_GPU_CALL(gpu, fn##_v2, (gpu->handle, count, infos))                                                  \
           : NVML_GPU_CALL(gpu, fn##_v3, (gpu->handle, count, infos)))
    switch (kind) {
    case KIND_COMPUTE:
        return LIST(nvmlDeviceGetComputeRunningProcesses);
    case KIND_GRAPHICS:
        return LIST(nvmlDeviceGetGraphicsRunningProcesses);
    default:
        return LIST(nvmlDeviceGetMPSComputeRunningProcesses);
    }
#undef LIST
}

static void add_process(Found *found, Kind kind, const nvmlProcessInfo_t *info)
{
    static const unsigned long long untold = (unsigned long long)NVML_VALUE_NOT_AVAILABLE;

    vec_push(found, ((NodeProcess){.pid = info->pid,
                                   .gpu_instance = info->gpuInstanceId,
                                   .compute_instance = info->computeInstanceId,
                                   .graphics = kind == KIND_GRAPHICS,
                                   .used_bytes = info->usedGpuMemory == untold ? UINT64_MAX : info->usedGpuMemory,
                                   .sm_percent = UINT8_MAX,
                                   .memory_percent = UINT8_MAX}));
}

/* Repeats the call with more room until the list fits. */
static nvmlReturn_t read_list(NvmlGpu *gpu, Kind kind, Found *found)
{
    unsigned int room = ROOM_FIRST;
    nvmlReturn_t r = NVML_ERROR_INSUFFICIENT_SIZE;

    for (int i = 0; i < TRIES && r == NVML_ERROR_INSUFFICIENT_SIZE && room <= ROOM_MAX; i++) {
        CLEANUP_FREE nvmlProcessInfo_t *infos = xcalloc(room, sizeof *infos);
        unsigned int count = room;

        r = call_list(gpu, kind, &count, infos);
        for (unsigned int k = 0; r == NVML_SUCCESS && k < count && k < room; k++)
            add_process(found, kind, &infos[k]);
        room = count < ROOM_MAX ? count + ROOM_MORE : ROOM_MAX + 1;
    }
    return r;
}

/* Boards without graphics or MPS have no such processes; without any list there is none. */
static bool is_without(nvmlReturn_t r)
{
    return r == NVML_ERROR_NOT_SUPPORTED || r == NVML_ERROR_FUNCTION_NOT_FOUND;
}

static nvmlReturn_t read_lists(NvmlGpu *gpu, Found *found)
{
    nvmlReturn_t first = NVML_SUCCESS;
    int lists = 0;

    for (Kind kind = KIND_COMPUTE; kind < KIND_END; kind++) {
        const nvmlReturn_t r = read_list(gpu, kind, found);

        if (r != NVML_SUCCESS && (!is_without(r) || gpu->target.trouble))
            return r;
        if (kind == KIND_COMPUTE)
            first = r;
        lists += r == NVML_SUCCESS;
    }
    return lists > 0 ? NVML_SUCCESS : first;
}

/* ---- one list ---- */

static int by_pid(const void *a, const void *b)
{
    const NodeProcess *x = a, *y = b;
    int c = number_compare_u64(x->pid, y->pid);

    c = c ? c : number_compare_u64(x->gpu_instance, y->gpu_instance);
    c = c ? c : number_compare_u64(x->compute_instance, y->compute_instance);
    return c ? c : x->graphics - y->graphics;
}

/* By memory, largest first; unknown last. */
static int by_memory(const void *a, const void *b)
{
    const NodeProcess *x = a, *y = b;
    const int c = number_compare_u64(y->used_bytes + 1, x->used_bytes + 1); /* UINT64_MAX becomes 0 */

    return c ? c : by_pid(a, b);
}

static bool is_same(const NodeProcess *a, const NodeProcess *b)
{
    return a->pid == b->pid && a->gpu_instance == b->gpu_instance && a->compute_instance == b->compute_instance;
}

/* Sorts and removes duplicates: both lists count the same memory. */
static void join_lists(Found *found)
{
    size_t kept = 0;

    if (found->len > 1)
        qsort(found->at, found->len, sizeof found->at[0], by_pid);
    for (size_t i = 0; i < found->len; i++) {
        NodeProcess *before = kept ? &found->at[kept - 1] : NULL;

        if (!before || !is_same(before, &found->at[i]))
            found->at[kept++] = found->at[i];
        else if (before->used_bytes == UINT64_MAX)
            before->used_bytes = found->at[i].used_bytes;
    }
    found->len = kept;
}

static void keep_list(NvmlGpu *gpu, Found *found)
{
    BoardProcessList *list = &gpu->processes.list;

    sample_set_int64(&list->count, nvml_gpu_now(gpu), (int64_t)found->len);
    list->len = found->len < NODE_PROCESSES_MAX ? (uint32_t)found->len : NODE_PROCESSES_MAX;
    if (found->len > NODE_PROCESSES_MAX) {
        qsort(found->at, found->len, sizeof found->at[0], by_memory);
        qsort(found->at, list->len, sizeof found->at[0], by_pid);
    }
    memset(list->processes, 0, sizeof list->processes);
    if (list->len > 0)
        memcpy(list->processes, found->at, list->len * sizeof found->at[0]);
}

/* ---- shares ---- */

typedef struct Shares {
    nvmlProcessUtilizationSample_t *samples;
    unsigned int count;
} Shares;

/* Samples of the window; NOT_FOUND where nothing ran. */
static nvmlReturn_t read_samples(NvmlGpu *gpu, Shares *ret)
{
    unsigned int room = ROOM_FIRST;
    nvmlReturn_t r = NVML_ERROR_INSUFFICIENT_SIZE;

    for (int i = 0; i < TRIES && r == NVML_ERROR_INSUFFICIENT_SIZE && room <= ROOM_MAX; i++) {
        free(ret->samples);
        ret->samples = xcalloc(room, sizeof *ret->samples);
        ret->count = room;
        r = NVML_GPU_CALL(gpu, nvmlDeviceGetProcessUtilization,
                          (gpu->handle, ret->samples, &ret->count, gpu->processes.since_us));
        if (r == NVML_SUCCESS && ret->count > room)
            ret->count = room;
        if (r == NVML_ERROR_INSUFFICIENT_SIZE)
            room = ret->count < ROOM_MAX ? ret->count + ROOM_MORE : ROOM_MAX + 1;
    }
    return r;
}

/* The newest sample of a process, NULL: it was idle. Drivers are known to report shares above 100: ignored. */
static const nvmlProcessUtilizationSample_t *newest_of(const Shares *shares, uint32_t pid)
{
    const nvmlProcessUtilizationSample_t *newest = NULL;

    for (unsigned int i = 0; i < shares->count; i++) {
        const nvmlProcessUtilizationSample_t *s = &shares->samples[i];
        if (s->pid == pid && s->smUtil <= 100 && s->memUtil <= 100 && (!newest || s->timeStamp > newest->timeStamp))
            newest = s;
    }
    return newest;
}

/*
 * Shares are asked for since the newest sample of a read that is a second old or more. The driver does not sample more
 * often on some boards: what is newer than the read just before may be nothing, and a busy process would look idle.
 */
static void begin_window(NvmlProcesses *processes, uint64_t now)
{
    if (!processes->next_us || now - processes->next_ns < NS_PER_S)
        return;
    processes->since_us = processes->next_us;
    processes->next_us = 0;
}

static void keep_newest(NvmlProcesses *processes, uint64_t now, const Shares *shares)
{
    if (processes->next_us)
        return;
    processes->next_ns = now;
    for (unsigned int i = 0; i < shares->count; i++)
        processes->next_us = number_max_u64(processes->next_us, shares->samples[i].timeStamp);
}

static void set_shares(NvmlGpu *gpu)
{
    BoardProcessList *list = &gpu->processes.list;
    Shares shares = {.samples = NULL};
    const uint64_t now = nvml_gpu_now(gpu);
    nvmlReturn_t r;

    begin_window(&gpu->processes, now);
    r = read_samples(gpu, &shares);

    if (r == NVML_ERROR_NOT_FOUND)
        shares.count = 0;
    for (uint32_t i = 0; (r == NVML_SUCCESS || r == NVML_ERROR_NOT_FOUND) && i < list->len; i++) {
        const nvmlProcessUtilizationSample_t *sample = newest_of(&shares, list->processes[i].pid);
        list->processes[i].sm_percent = sample ? (uint8_t)sample->smUtil : 0;
        list->processes[i].memory_percent = sample ? (uint8_t)sample->memUtil : 0;
    }
    if (r == NVML_SUCCESS)
        keep_newest(&gpu->processes, now, &shares);
    free(shares.samples);
}

/* ---- the whole ---- */

static void set_absent(NvmlGpu *gpu, Absence why)
{
    BoardProcessList *list = &gpu->processes.list;

    memset(list, 0, sizeof *list);
    sample_set_absent(&list->count, nvml_gpu_now(gpu), why);
    gpu->processes.changed = true;
}

static void read_processes(NvmlGpu *gpu)
{
    Found found = {0};
    const nvmlReturn_t r = read_lists(gpu, &found);
    const Absence why = nvml_gpu_count_answer(gpu, r);

    if (r != NVML_SUCCESS) {
        set_absent(gpu, why);
    } else {
        join_lists(&found);
        keep_list(gpu, &found);
        if (gpu->processes.list.len > 0 && !gpu->reading.mig)
            set_shares(gpu);
        gpu->processes.changed = true;
    }
    vec_done(&found);
}

void nvml_processes_read(NvmlGpu *gpu, bool slow_pace)
{
    NvmlProcesses *processes = &gpu->processes;
    const uint64_t start_ns = board_kernel_now();

    if (!gpu->reader->plan.board.want_processes || gpu->target.trouble ||
        (processes->slow_reads >= SLOW_READS && !slow_pace))
        return;
    read_processes(gpu);
    processes->slow_reads = board_kernel_now() - start_ns >= SLOW_READ_NS ? processes->slow_reads + 1 : 0;
}

void nvml_processes_set_absent(NvmlGpu *gpu, Absence why)
{
    if (gpu->processes.list.count.valid || gpu->processes.list.count.absence != ABSENCE_NOT_YET)
        set_absent(gpu, why);
}
