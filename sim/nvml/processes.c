/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who runs on a GPU: process lists, their utilisation, their names. All of it comes from the snapshot of the call's
 * instant. Any thread may call.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sim/core/seq.h"
#include "sim/nvml/getter.h"

enum { ALL_TYPES = -1, CMDLINE_MAX = 4096 };

/* On a MIG device only its own processes, on a GPU all. */
static int belongs_to_call(const NvmlCall *c, const SimProc *p)
{
    return !c->mig || (p->gi == (int32_t)c->gi.id && p->ci == (int32_t)c->ci.id);
}

static unsigned long long used_bytes(const SimProc *p)
{
    return (unsigned long long)(p->mem_mib * 1048576.0);
}

/* ---- lists ---- */
static unsigned int gather_processes(const NvmlCall *c, int type, nvmlProcessDetail_v1_t ret[SIM_SLOT_MAX])
{
    unsigned int n = 0;
    for (uint32_t i = 0; c->image->pids != SIM_PIDS_UNLISTED && i < c->now->proc_count; i++) {
        const SimProc *p = &c->now->proc[i];
        if (!belongs_to_call(c, p) || (type != ALL_TYPES && p->type != (uint32_t)type))
            continue;
        ret[n++] = (nvmlProcessDetail_v1_t){
            .pid = p->pid,
            .usedGpuMemory = used_bytes(p),
            .gpuInstanceId = (unsigned)p->gi, /* SIM_NONE reads as "not available" */
            .computeInstanceId = (unsigned)p->ci,
        };
    }
    return n;
}

/* How a list function writes its entries: v1 has no instance ids. */
static nvmlReturn_t list_processes(NvmlFn fn, nvmlDevice_t device, SimProcType type, unsigned int *count, void *out,
                                   int v1)
{
    NvmlCall c;
    nvmlReturn_t rc = nvml_enter_device(fn, device, NVML_TAKES_ANY, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    if (!count)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlProcessDetail_v1_t all[SIM_SLOT_MAX];
    unsigned int n = gather_processes(&c, (int)type, all);
    unsigned int room = *count;
    if (room >= n && n > 0 && !out)
        return NVML_ERROR_INVALID_ARGUMENT;
    *count = n;
    if (room < n)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    nvmlProcessInfo_v1_t *first = out;
    nvmlProcessInfo_v2_t *later = out;
    for (unsigned int i = 0; i < n; i++) {
        if (v1)
            first[i] = (nvmlProcessInfo_v1_t){.pid = all[i].pid, .usedGpuMemory = all[i].usedGpuMemory};
        else
            later[i] = (nvmlProcessInfo_v2_t){.pid = all[i].pid,
                                              .usedGpuMemory = all[i].usedGpuMemory,
                                              .gpuInstanceId = all[i].gpuInstanceId,
                                              .computeInstanceId = all[i].computeInstanceId};
    }
    return NVML_SUCCESS;
}

#define LIST(name, info, type, v1)                                                                                     \
    nvmlReturn_t name(nvmlDevice_t device, unsigned int *count, info *infos)                                           \
    {                                                                                                                  \
        return list_processes(NVML_FN_##name, device, type, count, infos, v1);                                         \
    }
LIST(nvmlDeviceGetComputeRunningProcesses, nvmlProcessInfo_v1_t, SIM_PROC_COMPUTE, 1)
LIST(nvmlDeviceGetComputeRunningProcesses_v2, nvmlProcessInfo_v2_t, SIM_PROC_COMPUTE, 0)
LIST(nvmlDeviceGetComputeRunningProcesses_v3, nvmlProcessInfo_t, SIM_PROC_COMPUTE, 0)
LIST(nvmlDeviceGetGraphicsRunningProcesses, nvmlProcessInfo_v1_t, SIM_PROC_GRAPHICS, 1)
LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlProcessInfo_v2_t, SIM_PROC_GRAPHICS, 0)
LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlProcessInfo_t, SIM_PROC_GRAPHICS, 0)
LIST(nvmlDeviceGetMPSComputeRunningProcesses, nvmlProcessInfo_v1_t, SIM_PROC_MPS, 1)
LIST(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlProcessInfo_v2_t, SIM_PROC_MPS, 0)
LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlProcessInfo_t, SIM_PROC_MPS, 0)

nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device, nvmlProcessDetailList_t *list_out)
{
    NvmlFn fn = NVML_FN_nvmlDeviceGetRunningProcessDetailList;
    NvmlCall c;
    nvmlReturn_t rc = nvml_enter_device(fn, device, NVML_TAKES_ANY, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    if (!list_out)
        return NVML_ERROR_INVALID_ARGUMENT;
    rc = nvml_check_tag(fn, list_out->version, nvmlProcessDetailList_v1);
    if (rc != NVML_SUCCESS)
        return rc;
    if (list_out->mode > NVML_PROCESS_MODE_ALL)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlProcessDetail_v1_t all[SIM_SLOT_MAX];
    unsigned int n =
        gather_processes(&c, list_out->mode == NVML_PROCESS_MODE_ALL ? ALL_TYPES : (int)list_out->mode, all);
    unsigned int room = list_out->numProcArrayEntries;
    if (room >= n && n > 0 && !list_out->procArray)
        return NVML_ERROR_INVALID_ARGUMENT;
    list_out->numProcArrayEntries = n;
    if (room < n)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    if (n > 0)
        memcpy(list_out->procArray, all, n * sizeof *all);
    return NVML_SUCCESS;
}

/* ---- utilisation ---- */
/* One sample per process that did something in the last window, if that window is newer than since_us. */
static unsigned int list_active(const NvmlCall *c, unsigned long long since_us,
                                nvmlProcessUtilizationInfo_v1_t ret[SIM_SLOT_MAX])
{
    unsigned long long stamp = nvml_stamp(c->image, c->now->t_ns);
    unsigned int n = 0;
    for (uint32_t i = 0; c->image->pids != SIM_PIDS_UNLISTED && stamp > since_us && i < c->now->proc_count; i++) {
        const SimProc *p = &c->now->proc[i];
        nvmlProcessUtilizationInfo_v1_t u = {
            .timeStamp = stamp,
            .pid = p->pid,
            .smUtil = nvml_percent(p->win[SIM_CH_KERNEL]),
            .memUtil = nvml_percent(p->win[SIM_CH_DRAM_T]),
            .encUtil = nvml_percent(p->win[SIM_CH_ENC]),
            .decUtil = nvml_percent(p->win[SIM_CH_DEC]),
            .jpgUtil = nvml_percent(p->win[SIM_CH_JPG]),
            .ofaUtil = nvml_percent(p->win[SIM_CH_OFA]),
        };
        if (u.smUtil | u.memUtil | u.encUtil | u.decUtil | u.jpgUtil | u.ofaUtil)
            ret[n++] = u;
    }
    return n;
}

/* Without an array always INSUFFICIENT_SIZE, also when nothing runs: clients take any other answer for "not there". */
nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *samples,
                                             unsigned int *count, unsigned long long since_us)
{
    NvmlCall c;
    nvmlReturn_t rc = nvml_enter_device(NVML_FN_nvmlDeviceGetProcessUtilization, device, NVML_TAKES_NO_MIG, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    if (!count)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlProcessUtilizationInfo_v1_t all[SIM_SLOT_MAX] = {0};
    unsigned int n = list_active(&c, since_us, all);
    if (!samples) {
        *count = n > 0 ? n : 1;
        return NVML_ERROR_INSUFFICIENT_SIZE;
    }
    if (n == 0) {
        *count = 0;
        return NVML_ERROR_NOT_FOUND;
    }
    unsigned int room = *count;
    *count = n;
    if (room < n)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned int i = 0; i < n; i++)
        samples[i] = (nvmlProcessUtilizationSample_t){.pid = all[i].pid,
                                                      .timeStamp = all[i].timeStamp,
                                                      .smUtil = all[i].smUtil,
                                                      .memUtil = all[i].memUtil,
                                                      .encUtil = all[i].encUtil,
                                                      .decUtil = all[i].decUtil};
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device, nvmlProcessesUtilizationInfo_t *info)
{
    NvmlFn fn = NVML_FN_nvmlDeviceGetProcessesUtilizationInfo;
    NvmlCall c;
    nvmlReturn_t rc = nvml_enter_device(fn, device, NVML_TAKES_NO_MIG, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    if (!info)
        return NVML_ERROR_INVALID_ARGUMENT;
    rc = nvml_check_tag(fn, info->version, nvmlProcessesUtilizationInfo_v1);
    if (rc != NVML_SUCCESS)
        return rc;
    nvmlProcessUtilizationInfo_v1_t all[SIM_SLOT_MAX];
    unsigned int n = list_active(&c, info->lastSeenTimeStamp, all);
    unsigned int room = info->procUtilArray ? info->processSamplesCount : 0;
    info->processSamplesCount = n;
    if (n == 0)
        return NVML_ERROR_NOT_FOUND;
    if (room < n)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(info->procUtilArray, all, n * sizeof *all);
    return NVML_SUCCESS;
}

/* ---- names ---- */
/* Reads the start of /proc/<pid>/<file>; the number of bytes, 0 when unreadable. */
static size_t proc_read(unsigned int pid, const char *file, char *buf, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/%s", pid, file);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, buf, size - 1);
    close(fd);
    if (n <= 0)
        return 0;
    buf[n] = 0;
    return (size_t)n;
}

/* The program as it was called, else the thread's name. 0 when there is no such process. */
static int live_name(unsigned int pid, char *buf, size_t size)
{
    if (proc_read(pid, "cmdline", buf, size) > 0 && buf[0])
        return 1;
    size_t n = proc_read(pid, "comm", buf, size);
    if (n > 0 && buf[n - 1] == '\n')
        buf[n - 1] = 0;
    return n > 0;
}

/* A work's process: the lent live one, else the name in the scenario. Its fixed pid may be the pid of
 * some stranger on this machine, so it is never looked up. */
nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length)
{
    SimImage *image;
    nvmlReturn_t rc = nvml_enter(NVML_FN_nvmlSystemGetProcessName, &image);
    if (rc != NVML_SUCCESS)
        return rc;
    if (!name || length == 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    char buf[CMDLINE_MAX];
    int32_t work = SIM_NONE;
    uint32_t works = seq_get(image->work_count);
    const uint64_t now_ns = sim_clock_now(image);
    for (uint32_t i = 0; i < works && i < SIM_WORK_MAX; i++)
        if (sim_work_pid(image, (int32_t)i) == pid && (work == SIM_NONE || image->works[i].from_ns <= now_ns))
            work = (int32_t)i; /* of those who had it the last */
    int lent = work == SIM_NONE || atomic_load(&image->works[work].live_pid) == pid;
    if (!lent || !live_name(pid, buf, sizeof buf)) {
        if (work == SIM_NONE)
            return NVML_ERROR_NOT_FOUND;
        snprintf(buf, sizeof buf, "%s", image->works[work].name);
    }
    snprintf(name, length, "%s", buf);
    return NVML_SUCCESS;
}

/* --- accounting -------------------------------------------------------------------------------------------------- */

/*
 * Accounting: what each process did with a GPU, also after its end. Nothing is recorded: the plan's segments say who
 * ran when, and the state at a process' last instant has its totals.
 *
 * The setting ACCOUNTING_EPOCH holds when accounting was enabled (milliseconds); the time of its last change is when
 * terminated processes were last forgotten.
 */

enum { RUNS_MAX = 1024, BUFFER_SIZE = 4000 /* as the driver reports */ };

/* One process, from its start to its end. */
typedef struct Run {
    int32_t work;
    uint64_t start_ns, end_ns; /* SIM_FOREVER: it still runs */
} Run;
typedef struct Runs {
    uint32_t count;
    Run run[RUNS_MAX];
} Runs;

/* ---- who ran when ---- */
static void note_run(Runs *runs, int32_t work, uint64_t start_ns, uint64_t until_ns)
{
    for (uint32_t i = runs->count; i-- > 0;) {
        if (runs->run[i].work == work && runs->run[i].start_ns == start_ns) {
            runs->run[i].end_ns = until_ns;
            return;
        }
    }
    if (runs->count == RUNS_MAX) { /* the oldest are forgotten, as in the driver's ring */
        memmove(&runs->run[0], &runs->run[1], (RUNS_MAX - 1) * sizeof runs->run[0]);
        runs->count--;
    }
    runs->run[runs->count++] = (Run){work, start_ns, until_ns};
}

static void runs_once(SimImage *image, uint32_t gpu, uint64_t now_ns, Runs *ret)
{
    const SimSeg *table = image->segs + (size_t)gpu * SIM_SEG_MAX;
    uint32_t count = seq_get(image->seg_count[gpu]);
    count = count < SIM_SEG_MAX ? count : SIM_SEG_MAX;
    ret->count = 0;
    for (uint32_t i = 0; i < count && seq_get(table[i].t_ns) <= now_ns; i++) {
        uint64_t next = i + 1 < count ? seq_get(table[i + 1].t_ns) : SIM_FOREVER;
        uint64_t until = next <= now_ns ? next : SIM_FOREVER;
        uint32_t slots = seq_get(table[i].slot_count);
        for (uint32_t k = 0; k < slots && k < SIM_SLOT_MAX; k++)
            note_run(ret, seq_get(table[i].slots[k].work), seq_get(table[i].slots[k].started_ns), until);
    }
}

/* The processes that accounting knows of, oldest first. */
static void runs_of(const NvmlCall *c, Runs *ret)
{
    uint32_t seq;
    do {
        seq = seq_begin(c->image);
        runs_once(c->image, c->gpu, c->now->t_ns, ret);
    } while (seq_retry(c->image, seq));
    const SimCond *cond = &c->now->cond;
    uint64_t enabled_ns = (uint64_t)cond->set[SIM_KEY_ACCOUNTING_EPOCH] * 1000000,
             cleared_ns = cond->accounting_since_ns;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < ret->count; i++)
        if (ret->run[i].start_ns >= enabled_ns && ret->run[i].end_ns > cleared_ns)
            ret->run[kept++] = ret->run[i];
    ret->count = kept;
}

/* What the process had done at its end, or has done by now. */
static void stats_of(const NvmlCall *c, const Run *run, nvmlAccountingStats_t *ret)
{
    int running = run->end_ns == SIM_FOREVER;
    uint64_t at_ns = running ? c->now->t_ns : run->end_ns - 1;
    double life_s = (double)(at_ns > run->start_ns ? at_ns - run->start_ns : 0) / 1e9;
    *ret = (nvmlAccountingStats_t){
        .time = running ? 0 : (run->end_ns - run->start_ns) / 1000000,
        .startTime = nvml_stamp(c->image, run->start_ns),
        .isRunning = running ? 1 : 0,
    };
    SimNow at;
    sim_state_at(c->image, c->gpu, at_ns, &at);
    for (uint32_t i = 0; i < at.proc_count; i++) {
        const SimProc *p = &at.proc[i];
        if (p->work != run->work || p->started_ns != run->start_ns)
            continue;
        ret->maxMemoryUsage = (unsigned long long)(p->peak_mib * 1048576.0);
        if (life_s > 0) {
            ret->gpuUtilization = nvml_percent(p->cum[SIM_CH_KERNEL] / life_s);
            ret->memoryUtilization = nvml_percent(p->cum[SIM_CH_DRAM_T] / life_s);
        }
    }
}

/* ---- exported ---- */
NVML_GETTER(nvmlDeviceGetAccountingMode, NVML_TAKES_GPU, nvmlEnableState_t, 1,
            (c.now->cond.set[SIM_KEY_ACCOUNTING] ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED))
NVML_GETTER(nvmlDeviceGetAccountingBufferSize, NVML_TAKES_GPU, unsigned int, 1, BUFFER_SIZE)

nvmlReturn_t nvmlDeviceSetAccountingMode(nvmlDevice_t device, nvmlEnableState_t mode)
{
    NvmlCall c;
    nvmlReturn_t rc = nvml_enter_device(NVML_FN_nvmlDeviceSetAccountingMode, device, NVML_TAKES_GPU, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    if ((unsigned)mode > NVML_FEATURE_ENABLED)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (mode == NVML_FEATURE_ENABLED && !c.now->cond.set[SIM_KEY_ACCOUNTING]) {
        rc = nvml_change_key(&c, SIM_KEY_ACCOUNTING_EPOCH, sim_clock_now(c.image) / 1000000);
        if (rc != NVML_SUCCESS)
            return rc;
    }
    return nvml_change_key(&c, SIM_KEY_ACCOUNTING, (uint64_t)mode);
}

nvmlReturn_t nvmlDeviceGetAccountingPids(nvmlDevice_t device, unsigned int *count, unsigned int *pids)
{
    NvmlCall c;
    nvmlReturn_t rc = nvml_enter_device(NVML_FN_nvmlDeviceGetAccountingPids, device, NVML_TAKES_GPU, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    if (!count)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!c.now->cond.set[SIM_KEY_ACCOUNTING])
        return NVML_ERROR_NOT_SUPPORTED;
    Runs runs;
    runs_of(&c, &runs);
    unsigned int all[RUNS_MAX], n = 0;
    for (uint32_t i = 0; i < runs.count; i++) {
        unsigned int pid = sim_work_pid(c.image, runs.run[i].work), known = 0;
        while (known < n && all[known] != pid)
            known++;
        if (known == n)
            all[n++] = pid;
    }
    unsigned int room = *count;
    if (room >= n && n > 0 && !pids)
        return NVML_ERROR_INVALID_ARGUMENT;
    *count = n;
    if (room < n)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    if (n > 0)
        memcpy(pids, all, n * sizeof *all);
    return NVML_SUCCESS;
}

/* Of a pid that came more than once, the last. */
nvmlReturn_t nvmlDeviceGetAccountingStats(nvmlDevice_t device, unsigned int pid, nvmlAccountingStats_t *stats)
{
    NvmlCall c;
    nvmlReturn_t rc = nvml_enter_device(NVML_FN_nvmlDeviceGetAccountingStats, device, NVML_TAKES_GPU, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    if (!stats)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!c.now->cond.set[SIM_KEY_ACCOUNTING])
        return NVML_ERROR_NOT_SUPPORTED;
    Runs runs;
    runs_of(&c, &runs);
    for (uint32_t i = runs.count; i-- > 0;) {
        if (sim_work_pid(c.image, runs.run[i].work) == pid) {
            stats_of(&c, &runs.run[i], stats);
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceClearAccountingPids(nvmlDevice_t device)
{
    NvmlCall c;
    nvmlReturn_t rc = nvml_enter_device(NVML_FN_nvmlDeviceClearAccountingPids, device, NVML_TAKES_GPU, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    return nvml_change_key(&c, SIM_KEY_ACCOUNTING_EPOCH, c.now->cond.set[SIM_KEY_ACCOUNTING_EPOCH]);
}
