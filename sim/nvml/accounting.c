/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accounting: what each process did with a GPU, also after its end. Nothing is recorded: the plan's segments say who
 * ran when, and the state at a process' last instant says what it had done by then.
 *
 * The setting ACCOUNTING_EPOCH holds when accounting was enabled (milliseconds); the time of its last change is when
 * terminated processes were last forgotten.
 */
#include <string.h>

#include "sim/core/seq.h"
#include "sim/nvml/change.h"
#include "sim/nvml/getter.h"

enum { RUNS_MAX = 1024, BUFFER_SIZE = 4000 /* what the driver reports */ };

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
static void note(Runs *runs, int32_t work, uint64_t start_ns, uint64_t until_ns)
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
            note(ret, seq_get(table[i].slots[k].work), seq_get(table[i].slots[k].started_ns), until);
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
