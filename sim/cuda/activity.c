/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The works of this process. They are claimed from those of earlier processes where there are such, since a node has
 * room for SIM_WORK_MAX. The kind changes with what filled most of the last 100 ms, not with each launch: each change
 * is an op of the node, whose number is limited too.
 */
#include "sim/cuda/activity.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define ENTRY "cuda" /* SimWork.entry of all of them */
#define WINDOW_S 0.1
#define FIRST_S 0.001         /* an idle context is busy after so much work */
#define REST_NS (SIM_NS / 10) /* and idle after so long without any */
#define SHOWN_STEP_MIB 64.0   /* smaller changes of memory wait for a larger one */

/* What each activity does to a GPU, as fractions of what it can (as in sim/core/kinds.c). Fitted to published power
 * draws: a matrix product meets the limit, streaming memory takes 80 to 85 % of it, copies little. */
typedef struct ActivityRow {
    const char *kind;
    SimBound bound;
    double kernel, sm, occ, hmma, fp32, integer, dram, dram_t, pcie, link;
} ActivityRow;

/* clang-format off */
static const ActivityRow rows[CU_ACTIVITIES] = {
    [CU_IDLE]   = {.kind = "cuda-idle",   .bound = SIM_BOUND_FIXED},
    [CU_MEMORY] = {.kind = "cuda-memory", .bound = SIM_BOUND_DRAM,  .kernel = 1, .sm = 0.98, .occ = 0.9, .fp32 = 0.3, .integer = 0.3, .dram = 0.93, .dram_t = 0.99},
    [CU_FLOAT]  = {.kind = "cuda-float",  .bound = SIM_BOUND_CORE,  .kernel = 1, .sm = 0.99, .occ = 0.5, .fp32 = 0.97, .integer = 0.02},
    [CU_TENSOR] = {.kind = "cuda-tensor", .bound = SIM_BOUND_CORE,  .kernel = 1, .sm = 0.99, .occ = 0.2, .hmma = 0.55, .integer = 0.02},
    [CU_GEMM]   = {.kind = "cuda-gemm",   .bound = SIM_BOUND_CORE,  .kernel = 1, .sm = 0.99, .occ = 0.6, .hmma = 0.72, .fp32 = 0.2, .integer = 0.15, .dram = 0.62, .dram_t = 0.98},
    [CU_COPY]   = {.kind = "cuda-copy",   .bound = SIM_BOUND_PCIE,  .dram = 0.03, .dram_t = 0.05, .pcie = 1},
    [CU_PEER]   = {.kind = "cuda-peer",   .bound = SIM_BOUND_LINK,  .dram = 0.20, .dram_t = 0.25, .link = 0.9},
};
/* clang-format on */

/* --- the works --------------------------------------------------------------------------------------------------- */

static SimPhase make_phase(const ActivityRow *row, const SimBoard *board)
{
    const double lane = board->pcie_gen <= 2 ? 250e6 * board->pcie_gen : 985e6 * (double)(1u << (board->pcie_gen - 3));
    SimPhase p = {.seconds = 1, .bound = row->bound};

    p.act[SIM_CH_KERNEL] = row->kernel;
    p.act[SIM_CH_SM] = row->sm;
    p.act[SIM_CH_OCC] = row->occ;
    p.act[SIM_CH_HMMA] = p.act[SIM_CH_TENSOR] = row->hmma;
    p.act[SIM_CH_FP32] = row->fp32;
    p.act[SIM_CH_INT] = row->integer;
    p.act[SIM_CH_DRAM] = row->dram;
    p.act[SIM_CH_DRAM_T] = row->dram_t;
    p.act[SIM_CH_PCIE_TX] = p.act[SIM_CH_PCIE_RX] = row->pcie * lane * board->pcie_width * 0.44; /* half each way */
    p.act[SIM_CH_NVL_TX] = p.act[SIM_CH_NVL_RX] = row->link * 1e6 * board->link_mbytes_per_s * board->link_count;
    return p;
}

static void fill_work(const CuDevice *device, CuActivity kind, SimWork *work)
{
    char name[17] = "";

    prctl(PR_GET_NAME, name);
    *work = (SimWork){.gpu = (int32_t)device->gpu,
                      .mig = device->mig,
                      .job = SIM_NONE,
                      .before = SIM_NONE,
                      .uid = getuid(),
                      .slow = 1,
                      .phase_count = 1,
                      .owner = {.rss_mib = 400, .cores = 1}};
    snprintf(work->entry, sizeof work->entry, ENTRY);
    snprintf(work->kind, sizeof work->kind, "%s", rows[kind].kind);
    snprintf(work->name, sizeof work->name, "%s", name);
    snprintf(work->owner.command, sizeof work->owner.command, "%s", name);
    snprintf(work->owner.cgroup, sizeof work->owner.cgroup, "/");
    work->phases[0] = make_phase(&rows[kind], device->board);
    work->live_pid = (uint32_t)getpid();
    work->fixed_pid = (uint32_t)getpid();
}

/* A work of an earlier process that did the same; SIM_NONE: there is none. */
static int32_t claim_work(SimImage *image, const SimWork *like)
{
    for (uint32_t i = 0; i < image->work_count && i < SIM_WORK_MAX; i++) {
        SimWork *work = &image->works[i];
        uint32_t nobody = 0;

        if (strcmp(work->entry, ENTRY) != 0 || strcmp(work->kind, like->kind) != 0 || work->gpu != like->gpu ||
            work->mig != like->mig)
            continue;
        if (!atomic_compare_exchange_strong(&work->live_pid, &nobody, (uint32_t)getpid()))
            continue;
        memcpy(work->name, like->name, sizeof work->name);
        work->owner = like->owner;
        work->uid = like->uid;
        work->fixed_pid = like->fixed_pid;
        return (int32_t)i;
    }
    return SIM_NONE;
}

static int32_t find_slot(CuDevice *device, CuActivity kind)
{
    static SimWork made; /* under the lock */
    SimImage *image = cu_process.image;
    int32_t *slot = &device->work.slot[kind];

    if (*slot != SIM_NONE)
        return *slot;
    fill_work(device, kind, &made);
    *slot = claim_work(image, &made);
    if (*slot == SIM_NONE)
        *slot = sim_work_add(image, &made);
    return *slot;
}

/* Any of its works: at a time before a switch the node still shows the one before. */
bool cu_activity_is_own(const CuDevice *device, int32_t work)
{
    for (CuActivity kind = 0; kind < CU_ACTIVITIES; kind++)
        if (device->work.slot[kind] != SIM_NONE && work == device->work.slot[kind])
            return true;
    return false;
}

static bool is_shown(CuDevice *device, const SimNow *now)
{
    for (uint32_t i = 0; i < now->proc_count; i++)
        if (cu_activity_is_own(device, now->proc[i].work))
            return true;
    return false;
}

static double held_mib(const CuDevice *device)
{
    return CU_CONTEXT_MIB + (double)device->held_bytes / 1048576;
}

/* From now on the process does `kind`. */
static void switch_kind(CuDevice *device, CuActivity kind, uint64_t t_ns)
{
    SimImage *image = cu_process.image;
    CuWork *work = &device->work;
    const int32_t slot = find_slot(device, kind);
    SimOp op = {.type = SIM_OP_WORK_START, .gpu = SIM_NONE, .a = {slot}, .origin = SIM_FROM_CLIENT};

    memset(work->busy_s, 0, sizeof work->busy_s);
    work->window_s = 0;
    if (slot == SIM_NONE)
        return;
    if (sim_clock_speed(image) <= 0)
        sim_clock_reach(image, t_ns);
    work->shown_mib = image->works[slot].memory_mib = held_mib(device);
    if (work->runs && work->slot[work->kind] != slot)
        op.a[1] = 1 + work->slot[work->kind];
    if (sim_op_apply(image, &op, NULL, 0, NULL) != SIM_OK)
        return;
    work->kind = kind;
    work->lag_ns = op.t_ns > t_ns ? op.t_ns - t_ns : 0;
    work->runs = is_shown(device, cu_state(device, t_ns));
}

void cu_activity_begin(CuDevice *device)
{
    CuWork *work = &device->work;

    *work = (CuWork){.end_ns = cu_now()};
    for (CuActivity kind = 0; kind < CU_ACTIVITIES; kind++)
        work->slot[kind] = SIM_NONE;
    work->event_at = sim_event_index_after(cu_process.image, sim_clock_now(cu_process.image));
    switch_kind(device, CU_IDLE, cu_now());
}

static void stop_work(SimImage *image, int32_t slot)
{
    SimOp stop = {.type = SIM_OP_WORK_STOP, .gpu = SIM_NONE, .a = {slot}, .origin = SIM_FROM_CLIENT};

    sim_op_apply(image, &stop, NULL, 0, NULL);
}

void cu_activity_end(CuDevice *device)
{
    SimImage *image = cu_process.image;
    CuWork *work = &device->work;

    if (work->runs)
        stop_work(image, work->slot[work->kind]);
    work->runs = false;
    for (CuActivity kind = 0; kind < CU_ACTIVITIES; kind++)
        if (work->slot[kind] != SIM_NONE)
            sim_work_lend_pid(image, work->slot[kind], 0);
}

void cu_activity_clean(SimImage *image)
{
    for (uint32_t i = 0; i < image->work_count && i < SIM_WORK_MAX; i++) {
        uint32_t pid = atomic_load(&image->works[i].live_pid);

        if (pid == 0 || strcmp(image->works[i].entry, ENTRY) != 0 || kill((pid_t)pid, 0) == 0 || errno != ESRCH)
            continue;
        stop_work(image, (int32_t)i);
        atomic_compare_exchange_strong(&image->works[i].live_pid, &pid, 0);
    }
}

/* --- what it does ------------------------------------------------------------------------------------------------ */

static CuActivity find_main(const CuWork *work)
{
    CuActivity most = work->kind;

    for (CuActivity kind = 0; kind < CU_ACTIVITIES; kind++)
        if (work->busy_s[kind] > work->busy_s[most])
            most = kind;
    return most;
}

void cu_activity_note(CuDevice *device, CuActivity kind, double seconds, uint64_t t_ns)
{
    CuWork *work = &device->work;
    const uint64_t end_ns = t_ns + (uint64_t)(seconds * 1e9);

    if (work->end_ns < end_ns)
        work->end_ns = end_ns;
    work->busy_s[kind] += seconds;
    work->window_s += seconds;
    if (!work->runs || work->window_s < (work->kind == CU_IDLE ? FIRST_S : WINDOW_S))
        return;
    const CuActivity most = find_main(work);
    if (most != work->kind)
        switch_kind(device, most, t_ns);
    memset(work->busy_s, 0, sizeof work->busy_s);
    work->window_s = 0;
}

void cu_activity_rest(CuDevice *device)
{
    CuWork *work = &device->work;

    if (work->runs && work->kind != CU_IDLE && cu_now() > work->end_ns + REST_NS)
        switch_kind(device, CU_IDLE, cu_now());
}

void cu_activity_memory(CuDevice *device)
{
    CuWork *work = &device->work;
    const double mib = held_mib(device), change = mib - work->shown_mib;
    SimOp op = {.type = SIM_OP_WORK_MEMORY,
                .gpu = SIM_NONE,
                .a = {work->slot[work->kind]},
                .x = mib,
                .origin = SIM_FROM_CLIENT};

    if (!work->runs || (change > -SHOWN_STEP_MIB && change < SHOWN_STEP_MIB && device->held_bytes > 0))
        return;
    work->shown_mib = mib;
    sim_op_apply(cu_process.image, &op, NULL, 0, NULL);
}

/* --- what the node does to it ------------------------------------------------------------------------------------ */

/* What a process gets that an XID ends. */
static CUresult result_of_xid(uint64_t xid)
{
    static const struct {
        uint64_t xid;
        CUresult result;
    } known[] = {{31, CUDA_ILLEGAL_ADDRESS},   {48, CUDA_ECC_UNCORRECTABLE},    {63, CUDA_ECC_UNCORRECTABLE},
                 {64, CUDA_ECC_UNCORRECTABLE}, {74, CUDA_NVLINK_UNCORRECTABLE}, {94, CUDA_ECC_UNCORRECTABLE},
                 {95, CUDA_ECC_UNCORRECTABLE}, {140, CUDA_ECC_UNCORRECTABLE},   {149, CUDA_NVLINK_UNCORRECTABLE}};

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].xid == xid)
            return known[i].result;
    return CUDA_LAUNCH_FAILED;
}

/* The first XID of the GPU since the context. */
static CUresult find_xid(const CuDevice *device)
{
    enum { EVENT_XID = 8 };
    SimImage *image = cu_process.image;
    SimEvent event;

    for (uint32_t at = device->work.event_at; (at = sim_event_next(image, at, sim_clock_now(image), &event, NULL)) > 0;)
        if (event.type == EVENT_XID && event.gpu == (int32_t)device->gpu)
            return result_of_xid(event.data);
    return CUDA_LAUNCH_FAILED;
}

CUresult cu_activity_check(CuDevice *device, uint64_t t_ns)
{
    const SimNow *now = cu_state(device, t_ns);

    if (device->sticky == CUDA_SUCCESS && device->work.runs && (now->cond.lost || !is_shown(device, now))) {
        device->work.runs = false;
        device->sticky = find_xid(device);
    }
    return device->sticky;
}

double cu_activity_others_mib(CuDevice *device)
{
    const SimNow *now = cu_state(device, cu_now());
    const int32_t own = device->work.runs ? device->work.slot[device->work.kind] : SIM_NONE;
    double mib = device->gi == SIM_NONE ? now->cond.set[SIM_KEY_ORPHAN_MIB] : 0;

    for (uint32_t i = 0; i < now->proc_count; i++)
        if (now->proc[i].work != own && now->proc[i].gi == device->gi)
            mib += now->proc[i].mem_mib;
    return mib;
}
