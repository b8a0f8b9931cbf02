/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers what the rules need: the last minute from the store, the processes from the snapshot. */
#include "engine/why/why.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/duration.h"
#include "model/facts.h"

enum { GROWTH_MINUTES = 10, GROWTH_LEAST = 8 };

#define MIB 1048576.0
/* Processor time is measured over at least and at most so long. */
#define CORES_LEAST_NS NS_PER_S
#define CORES_MOST_NS (15 * NS_PER_S)
/* The driver's samples per process are noisy: their mean over about half a minute. */
static const double sm_step = 1.0 / 30;

/* A process on a GPU, by pid and start. */
typedef struct Follow {
    uint32_t pid;
    uint64_t start_ns;
    char state;
    uint64_t state_ns;             /* since when */
    uint64_t base_ns, base_cpu_ns; /* processor time is counted from here */
    uint64_t base_child_cpu_ns, base_written;
    uint32_t children;
    double cores, child_cores, written; /* NaN: not known yet */
} Follow;

/* A process's share of one device: the driver's samples, smoothed. */
typedef struct Share {
    uint32_t pid;
    double sm;
} Share;

typedef struct Slot {
    char uuid[DEVICE_UUID_CAP];
    size_t process_count;
    Share processes[NODE_PROCESSES_MAX];
    size_t instance_count;
    Activity *judged; /* what the verdicts were made for: of the GPU, then of its instances */
    Why *verdicts;    /* in the same order */
} Slot;

struct Whys {
    size_t count;
    Follow *at; /* by pid */
    uint64_t ticks, looked_ns;
    Slot gpus[NODE_GPUS_MAX]; /* by position in the node */
};

Whys *whys_new(void)
{
    return xcalloc(1, sizeof(Whys));
}

void whys_free(Whys *whys)
{
    if (!whys)
        return;
    for (size_t i = 0; i < NODE_GPUS_MAX; i++) {
        free(whys->gpus[i].judged);
        free(whys->gpus[i].verdicts);
    }
    free(whys->at);
    free(whys);
}

static const SecondsSource sources[] = {
    {WHY_OF_SM, METRIC_PROF_SM_ACTIVE, 1, METRIC_END, false},
    {WHY_OF_UTIL, METRIC_GPU_UTIL, 0.01, METRIC_END, false},
    {WHY_OF_TENSOR, METRIC_PROF_PIPE_TENSOR_ACTIVE, 1, METRIC_END, false},
    {WHY_OF_FP32, METRIC_PROF_PIPE_FP32_ACTIVE, 1, METRIC_END, false},
    {WHY_OF_FP64, METRIC_PROF_PIPE_FP64_ACTIVE, 1, METRIC_END, false},
    {WHY_OF_OCCUPANCY, METRIC_PROF_SM_OCCUPANCY, 1, METRIC_END, false},
    {WHY_OF_DRAM, METRIC_PROF_DRAM_ACTIVE, 1, METRIC_END, false},
    {WHY_OF_COPY, METRIC_MEM_COPY_UTIL, 0.01, METRIC_END, false},
    {WHY_OF_POWER, METRIC_POWER_USAGE, 1, METRIC_ENFORCED_POWER_LIMIT, false},
    {WHY_OF_CLOCK, METRIC_SM_CLOCK, 1, METRIC_MAX_SM_CLOCK, false},
    {WHY_OF_REASONS, METRIC_CLOCKS_EVENT_REASONS, 1, METRIC_END, false},
    {WHY_OF_LINK, METRIC_NVLINK_TX_BYTES_COUNT, 1, METRIC_END, true},
    {WHY_OF_LINK, METRIC_NVLINK_RX_BYTES_COUNT, 1, METRIC_END, true},
    {WHY_OF_PCIE_TX, METRIC_PROF_PCIE_TX_BYTES, 1, METRIC_END, false},
    {WHY_OF_PCIE_TX, METRIC_PCIE_TX_BYTES_COUNT, 1, METRIC_END, true},
    {WHY_OF_PCIE_RX, METRIC_PROF_PCIE_RX_BYTES, 1, METRIC_END, false},
    {WHY_OF_PCIE_RX, METRIC_PCIE_RX_BYTES_COUNT, 1, METRIC_END, true},
    {WHY_OF_PCIE_GEN, METRIC_PCIE_LINK_GEN, 1, METRIC_END, false},
    {WHY_OF_VIDEO, METRIC_ENC_UTIL, 0.01, METRIC_END, false},
    {WHY_OF_VIDEO, METRIC_DEC_UTIL, 0.01, METRIC_END, false},
};

void whys_add_wanted(uint64_t wanted[METRIC_SET_WORDS])
{
    static const MetricId others[] = {METRIC_PCIE_LINK_WIDTH, METRIC_POWER_MGMT_LIMIT_DEF, METRIC_FB_USED,
                                      METRIC_FB_TOTAL};

    for (size_t i = 0; i < ARRAY_LEN(sources); i++) {
        metric_set_add(wanted, sources[i].metric);
        metric_set_add(wanted, sources[i].limit);
    }
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        metric_set_add(wanted, others[i]);
}

/* --- processes over time ------------------------------------------------------------------------------------------ */

static Follow *find_follow(const Whys *whys, uint32_t pid)
{
    size_t low = 0, high = whys->count;

    while (low < high) {
        const size_t mid = (low + high) / 2;

        if (whys->at[mid].pid < pid)
            low = mid + 1;
        else
            high = mid;
    }
    return low < whys->count && whys->at[low].pid == pid ? &whys->at[low] : NULL;
}

/* Per nanosecond. */
static double rise_of(uint64_t now, uint64_t before, uint64_t passed_ns)
{
    return now >= before ? (double)(now - before) / (double)passed_ns : (double)NAN;
}

/* What its processor time and writes are counted from. */
static void set_base(Follow *f, const ProcessOwner *owner, uint64_t now_ns)
{
    f->base_ns = now_ns;
    f->base_cpu_ns = owner->cpu_ns;
    f->base_child_cpu_ns = owner->child_cpu_ns;
    f->base_written = owner->written_bytes;
    f->children = owner->children;
}

static void follow_process(Follow *f, const ProcessOwner *owner, uint64_t now_ns)
{
    const uint64_t passed = now_ns - f->base_ns;

    if (owner->state != f->state) {
        f->state = owner->state;
        f->state_ns = now_ns;
    }
    if (passed < CORES_LEAST_NS)
        return;
    f->cores = rise_of(owner->cpu_ns, f->base_cpu_ns, passed);
    f->child_cores =
        owner->children == f->children ? rise_of(owner->child_cpu_ns, f->base_child_cpu_ns, passed) : (double)NAN;
    f->written = owner->written_bytes == UINT64_MAX || f->base_written == UINT64_MAX
                     ? (double)NAN
                     : NS_PER_S * rise_of(owner->written_bytes, f->base_written, passed);
    if (passed >= CORES_MOST_NS || owner->children != f->children)
        set_base(f, owner, now_ns);
}

/* The processes of the last look, which are in order of their pids. */
static void follow_all(Whys *whys, const ProcessList *list)
{
    const Whys before = *whys;

    whys->count = 0;
    whys->at = list->len > 0 ? xcalloc(list->len, sizeof *whys->at) : NULL;
    for (size_t i = 0; i < list->len; i++) {
        const ProcessOwner *owner = &list->at[i];
        const Follow *old = find_follow(&before, owner->pid);
        Follow *f = &whys->at[whys->count];

        if (!owner->start_ns)
            continue;
        if (old && old->start_ns == owner->start_ns)
            *f = *old;
        else {
            *f = (Follow){.pid = owner->pid,
                          .start_ns = owner->start_ns,
                          .state = owner->state,
                          .state_ns = list->time_ns,
                          .cores = NAN,
                          .child_cores = NAN,
                          .written = NAN};
            set_base(f, owner, list->time_ns);
        }
        follow_process(f, owner, list->time_ns);
        whys->count++;
    }
    free(before.at);
}

static void smooth_shares(Slot *slot, const NodeGpu *gpu)
{
    const Slot before = *slot;

    slot->process_count = 0;
    for (size_t i = 0; i < gpu->process_count && slot->process_count < NODE_PROCESSES_MAX; i++) {
        const NodeProcess *process = &gpu->processes[i];
        const double now = process->sm_percent == UINT8_MAX ? (double)NAN : process->sm_percent / 100.0;
        double sm = now;

        for (size_t k = 0; k < before.process_count; k++)
            if (before.processes[k].pid == process->pid && isfinite(before.processes[k].sm))
                sm = before.processes[k].sm + (isfinite(now) ? (now - before.processes[k].sm) * sm_step : 0);
        slot->processes[slot->process_count++] = (Share){process->pid, sm};
    }
}

/* --- one device --------------------------------------------------------------------------------------------------- */

/* Whose work a process is: what tells one job from another; NULL where that is not known. */
static const char *name_owner(const ProcessOwner *owner)
{
    return !owner                ? NULL
           : owner->job[0]       ? owner->job
           : owner->pod_uid[0]   ? (owner->pod[0] ? owner->pod : owner->pod_uid)
           : owner->container[0] ? owner->container
           : owner->user[0]      ? owner->user
                                 : NULL;
}

static double find_share(const Slot *slot, uint32_t pid)
{
    for (size_t i = 0; i < slot->process_count; i++)
        if (slot->processes[i].pid == pid)
            return slot->processes[i].sm;
    return NAN;
}

static size_t list_processes(const Whys *whys, const Snapshot *snapshot, const NodeGpu *gpu, const Reading *instance,
                             WhyProcess *out)
{
    size_t count = 0;

    for (size_t i = 0; i < gpu->process_count && count < NODE_PROCESSES_MAX; i++) {
        const NodeProcess *process = &gpu->processes[i];
        const Follow *f = find_follow(whys, process->pid);

        if (instance && !node_process_is_on(process, &instance->device))
            continue;
        out[count++] = (WhyProcess){
            .pid = process->pid,
            .owner = name_owner(process_list_find(&snapshot->processes, process->pid)),
            .state = f ? f->state : 0,
            .state_s = f ? (double)(whys->looked_ns - f->state_ns) / NS_PER_S : 0,
            .cores = f ? f->cores : (double)NAN,
            .sm = find_share(&whys->gpus[gpu - snapshot->node->gpus], process->pid),
            .children = f ? f->children : 0,
            .child_cores = f ? f->child_cores : (double)NAN,
            .written = f ? f->written : (double)NAN,
        };
    }
    return count;
}

/* The job of the first process that has one; NULL. */
static const char *find_job(const Snapshot *snapshot, const NodeGpu *gpu)
{
    for (size_t i = 0; i < gpu->process_count; i++) {
        const ProcessOwner *owner = process_list_find(&snapshot->processes, gpu->processes[i].pid);

        if (owner && (owner->job[0] || owner->pod_uid[0] || owner->container[0]))
            return name_owner(owner);
    }
    return NULL;
}

static size_t list_peers(const Snapshot *snapshot, const NodeGpu *gpu, WhyPeer *out)
{
    const char *job = find_job(snapshot, gpu);
    size_t count = 0;

    for (size_t i = 0; job && i < snapshot->node->gpu_count; i++) {
        const NodeGpu *other = &snapshot->node->gpus[i];
        const char *theirs = other == gpu ? NULL : find_job(snapshot, other);

        if (theirs && strcmp(theirs, job) == 0 && other->activity.word == ACTIVITY_WORKING)
            out[count++] = (WhyPeer){other->reading.device.index, other->activity.sm_active};
    }
    return count;
}

/* Bytes per second that memory in use grew by in the last minutes, where it grew in nearly each of them. */
static double find_growth(const Store *store, const Reading *reading, uint64_t now_ns)
{
    const uint64_t span = GROWTH_MINUTES * NS_PER_MIN;
    StoreMinute minutes[GROWTH_MINUTES + 1];
    char key[DEVICE_KEY_CAP];
    size_t known = 0, rises = 0, falls = 0;
    StoreMinute first = {0}, last = {0};

    if (device_key(&reading->device, key) < 0)
        return 0;
    const StoreSeries series = store_find(store, key, METRIC_FB_USED);
    const size_t count = series < 0 ? 0
                                    : store_minutes(store, series, now_ns > span ? now_ns - span : 0, now_ns, minutes,
                                                    ARRAY_LEN(minutes));
    for (size_t i = 0; i < count; i++) {
        if (minutes[i].valid_seconds == 0)
            continue;
        if (known++ == 0)
            first = minutes[i];
        else {
            rises += minutes[i].mean > last.mean;
            falls += minutes[i].mean < last.mean;
        }
        last = minutes[i];
    }
    if (known < GROWTH_LEAST || falls > 0 || rises + 1 < known - 1)
        return 0;
    return (last.mean - first.mean) * MIB / ((double)(last.time_ns - first.time_ns) / NS_PER_S);
}

static double read_metric(const Reading *reading, MetricId id)
{
    double value;

    return sample_double(&reading->sample[id], &value) ? value : (double)NAN;
}

/* Of a GPU, or of its instance (NULL: the GPU itself). */
static void decide_device(const Whys *whys, const Snapshot *snapshot, const Store *store, const NodeGpu *gpu,
                          const Reading *instance, const Activity *activity, Why *ret)
{
    const Reading *reading = instance ? instance : &gpu->reading;
    const Facts *facts = snapshot->facts;
    WhyProcess processes[NODE_PROCESSES_MAX];
    WhyPeer peers[NODE_GPUS_MAX];
    WhyInput in = {
        .activity = activity,
        .instance = instance,
        .pcie_lanes = read_metric(&gpu->reading, METRIC_PCIE_LINK_WIDTH),
        .limit_share =
            read_metric(reading, METRIC_ENFORCED_POWER_LIMIT) / read_metric(reading, METRIC_POWER_MGMT_LIMIT_DEF),
        .memory_used = read_metric(reading, METRIC_FB_USED) * MIB,
        .memory_total = read_metric(reading, METRIC_FB_TOTAL) * MIB,
        .memory_rise = find_growth(store, reading, snapshot->node->time_ns),
        .io_pressure = facts && facts->pressure_known ? facts->io_pressure : (double)NAN,
        .cpu_pressure = facts && facts->pressure_known ? facts->cpu_pressure : (double)NAN,
        .processes = processes,
        .peers = peers,
    };

    in.process_count = list_processes(whys, snapshot, gpu, instance, processes);
    in.peer_count = instance ? 0 : list_peers(snapshot, gpu, peers);
    seconds_read(store, reading, snapshot->node->time_ns, sources, ARRAY_LEN(sources), in.rows);
    why_decide(&in, ret);
}

/* --- the node ----------------------------------------------------------------------------------------------------- */

static bool is_other(const Activity *a, const Activity *b)
{
    return a->word != b->word || a->cause != b->cause || a->basis != b->basis || strcmp(a->incident, b->incident) != 0;
}

/* Room for the verdicts of a GPU and its instances; another GPU or layout begins anew. True: it did. */
static bool make_room(Slot *slot, const NodeGpu *gpu)
{
    if (slot->verdicts && slot->instance_count == gpu->instance_count &&
        strcmp(slot->uuid, gpu->reading.device.uuid) == 0)
        return false;
    free(slot->judged);
    free(slot->verdicts);
    *slot = (Slot){.instance_count = gpu->instance_count};
    memcpy(slot->uuid, gpu->reading.device.uuid, sizeof slot->uuid);
    slot->judged = xcalloc(gpu->instance_count + 1, sizeof *slot->judged);
    slot->verdicts = xcalloc(gpu->instance_count + 1, sizeof *slot->verdicts);
    return true;
}

void whys_update(Whys *whys, const Snapshot *snapshot, const Store *store, uint32_t every)
{
    const Node *node = snapshot->node;

    whys->ticks++;
    if (snapshot->processes.time_ns != whys->looked_ns) {
        follow_all(whys, &snapshot->processes);
        whys->looked_ns = snapshot->processes.time_ns;
    }
    for (size_t i = 0; i < node->gpu_count; i++) {
        NodeGpu *gpu = &node->gpus[i];
        Slot *slot = &whys->gpus[i];
        const bool due = make_room(slot, gpu) || (whys->ticks + i) % every == 0;

        smooth_shares(slot, gpu);
        for (size_t k = 0; k <= gpu->instance_count; k++) {
            const Reading *instance = k == 0 ? NULL : &gpu->instances[k - 1];
            const Activity *activity = node_activity(gpu, instance);

            if (!due && !is_other(activity, &slot->judged[k]))
                continue;
            slot->judged[k] = *activity;
            decide_device(whys, snapshot, store, gpu, instance, activity, &slot->verdicts[k]);
        }
        gpu->verdicts = slot->verdicts;
        gpu->instance_verdicts = slot->verdicts + 1;
    }
}
