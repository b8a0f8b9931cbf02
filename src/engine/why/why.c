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
#include "engine/why/roof.h"
#include "model/facts.h"

enum { GROWTH_MINUTES = 10, GROWTH_LEAST = 8, OWNER_CAP = 256 };

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
    char owner[OWNER_CAP]; /* whose work it is; "": not known */
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

/* The last times without work of a device, while the same process holds it. */
typedef struct Stalls {
    uint32_t pid;
    uint64_t start_ns;              /* of that process */
    uint64_t since_ns, since_bytes; /* of the one that goes on: when it began (0: none), what was written until then */
    size_t count;
    struct {
        uint64_t since_ns, until_ns, base_bytes;
        double written; /* NaN: the processes were not looked at since */
    } at[WHY_STALLS_MAX];
} Stalls;

typedef struct Slot {
    char uuid[DEVICE_UUID_CAP];
    size_t process_count;
    Share processes[NODE_PROCESSES_MAX];
    size_t instance_count;
    Activity *decided; /* what the verdicts were made for: of the GPU, then of its instances */
    Why *verdicts;     /* in the same order */
    Stalls *stalls;    /* in the same order */
} Slot;

/* What an adapter has carried, at two earlier looks and at the last one. */
enum { FLOW_STEP_S = 30 };
typedef struct Flow {
    FactsAdapter older, newer, last;
    uint64_t older_ns, newer_ns;
} Flow;

struct Whys {
    size_t flow_count;
    Flow flows[FACTS_ADAPTERS_MAX];
    uint64_t flows_ns; /* of the last look */
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
        free(whys->gpus[i].decided);
        free(whys->gpus[i].verdicts);
        free(whys->gpus[i].stalls);
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
                                      METRIC_FB_TOTAL, METRIC_MEMORY_BUS_WIDTH};

    for (RoofSeries k = 0; k < ROOF_SERIES_END; k++)
        metric_set_add(wanted, roof_metrics[k]);
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

/* As stoker who tells owners from one another: the steps of a job are one's, pods of a name in two namespaces two's. */
static void write_owner(const ProcessOwner *owner, char text[OWNER_CAP])
{
    if (owner->job[0])
        snprintf(text, OWNER_CAP, "%.*s", (int)strcspn(owner->job, "."), owner->job);
    else if (owner->pod_uid[0] && owner->pod[0])
        snprintf(text, OWNER_CAP, "%.63s/%.180s", owner->namespace, owner->pod);
    else if (owner->pod_uid[0])
        snprintf(text, OWNER_CAP, "pod %s", owner->pod_uid);
    else if (owner->container[0])
        snprintf(text, OWNER_CAP, "container %.12s", owner->container);
    else
        snprintf(text, OWNER_CAP, "%s", owner->user);
}

static void follow_process(Follow *f, const ProcessOwner *owner, uint64_t now_ns)
{
    const uint64_t passed = now_ns - f->base_ns;

    write_owner(owner, f->owner);
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

/* --- the network -------------------------------------------------------------------------------------------------- */

static bool has_fallen(const FactsAdapter *now, const FactsAdapter *before)
{
    return now->sent_bytes < before->sent_bytes || now->received_bytes < before->received_bytes ||
           now->retries < before->retries || now->congestion_notices < before->congestion_notices;
}

/* Rates are from half a minute to a minute old: counted from the older of two looks, half a minute apart. */
static Flow follow_adapter(const Flow *before, const FactsAdapter *now, uint64_t now_ns)
{
    Flow flow = before ? *before : (Flow){0};

    if (!before || has_fallen(now, &before->last))
        flow = (Flow){.older = *now, .newer = *now, .older_ns = now_ns, .newer_ns = now_ns};
    if (now_ns - flow.newer_ns >= FLOW_STEP_S * NS_PER_S) {
        flow.older = flow.newer;
        flow.older_ns = flow.newer_ns;
        flow.newer = *now;
        flow.newer_ns = now_ns;
    }
    flow.last = *now;
    return flow;
}

static void follow_adapters(Whys *whys, const Facts *facts)
{
    Flow flows[FACTS_ADAPTERS_MAX];

    for (size_t i = 0; i < facts->adapter_count; i++) {
        const Flow *before = NULL;

        for (size_t k = 0; k < whys->flow_count && !before; k++)
            if (strcmp(whys->flows[k].last.name, facts->adapters[i].name) == 0)
                before = &whys->flows[k];
        flows[i] = follow_adapter(before, &facts->adapters[i], facts->time_ns);
    }
    memcpy(whys->flows, flows, facts->adapter_count * sizeof *flows);
    whys->flow_count = facts->adapter_count;
    whys->flows_ns = facts->time_ns;
}

/* Those that were looked at for a second at least. */
static size_t list_adapters(const Whys *whys, WhyAdapter out[FACTS_ADAPTERS_MAX])
{
    size_t count = 0;

    for (size_t i = 0; i < whys->flow_count; i++) {
        const Flow *f = &whys->flows[i];
        const uint64_t passed = whys->flows_ns - f->older_ns;

        if (passed < NS_PER_S)
            continue;
        out[count++] = (WhyAdapter){
            .name = f->last.name,
            .sent = NS_PER_S * rise_of(f->last.sent_bytes, f->older.sent_bytes, passed),
            .received = NS_PER_S * rise_of(f->last.received_bytes, f->older.received_bytes, passed),
            .link = f->last.link,
            .retries = NS_PER_S * rise_of(f->last.retries, f->older.retries, passed),
            .notices = NS_PER_S * rise_of(f->last.congestion_notices, f->older.congestion_notices, passed),
        };
    }
    return count;
}

/* --- one device --------------------------------------------------------------------------------------------------- */

static const char *name_owner(const Follow *f)
{
    return f && f->owner[0] ? f->owner : NULL;
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
            .owner = name_owner(f),
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

/* What tells one job from another, of the first process that has one; NULL. The ranks of a step wait for each other. */
static const char *find_job(const Snapshot *snapshot, const NodeGpu *gpu)
{
    for (size_t i = 0; i < gpu->process_count; i++) {
        const ProcessOwner *owner = process_list_find(&snapshot->processes, gpu->processes[i].pid);
        const char *job = !owner              ? ""
                          : owner->job[0]     ? owner->job
                          : owner->pod_uid[0] ? owner->pod_uid
                                              : owner->container;

        if (job[0])
            return job;
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

/* --- times without work ------------------------------------------------------------------------------------------- */

/* What the processes of the device have written since they began, by the last look; UINT64_MAX: not known. */
static uint64_t sum_written(const Snapshot *snapshot, const NodeGpu *gpu, const Reading *instance)
{
    uint64_t sum = UINT64_MAX;

    for (size_t i = 0; i < gpu->process_count; i++) {
        const ProcessOwner *owner = instance && !node_process_is_on(&gpu->processes[i], &instance->device)
                                        ? NULL
                                        : process_list_find(&snapshot->processes, gpu->processes[i].pid);

        if (owner && owner->written_bytes != UINT64_MAX)
            sum = (sum == UINT64_MAX ? 0 : sum) + owner->written_bytes;
    }
    return sum;
}

static const ProcessOwner *find_holder(const Snapshot *snapshot, const NodeGpu *gpu, const Reading *instance)
{
    for (size_t i = 0; i < gpu->process_count; i++)
        if (!instance || node_process_is_on(&gpu->processes[i], &instance->device))
            return process_list_find(&snapshot->processes, gpu->processes[i].pid);
    return NULL;
}

static void end_stall(Stalls *s, uint64_t now_ns)
{
    if (s->count == WHY_STALLS_MAX)
        memmove(&s->at[0], &s->at[1], --s->count * sizeof s->at[0]);
    s->at[s->count].since_ns = s->since_ns;
    s->at[s->count].until_ns = now_ns;
    s->at[s->count].base_bytes = s->since_bytes;
    s->at[s->count++].written = NAN;
}

/* What was written meanwhile is known at the first look after it. */
static void count_written(Stalls *s, const Snapshot *snapshot, const NodeGpu *gpu, const Reading *instance)
{
    uint64_t now = UINT64_MAX;

    for (size_t i = 0; i < s->count; i++) {
        if (!isnan(s->at[i].written) || s->at[i].base_bytes == UINT64_MAX ||
            snapshot->processes.time_ns < s->at[i].until_ns)
            continue;
        if (now == UINT64_MAX)
            now = sum_written(snapshot, gpu, instance);
        if (now != UINT64_MAX && now >= s->at[i].base_bytes)
            s->at[i].written = (double)(now - s->at[i].base_bytes);
    }
}

static void follow_stalls(Stalls *s, const Snapshot *snapshot, const NodeGpu *gpu, const Reading *instance)
{
    const Reading *reading = instance ? instance : &gpu->reading;
    const double sm = read_metric(reading, METRIC_PROF_SM_ACTIVE);
    const double util =
        instance ? read_metric(reading, METRIC_PROF_GR_ENGINE_ACTIVE) : read_metric(reading, METRIC_GPU_UTIL) / 100;
    const ProcessOwner *holder = find_holder(snapshot, gpu, instance);
    const uint64_t now_ns = snapshot->node->time_ns;

    if (!holder || !holder->start_ns || (isnan(sm) && isnan(util)))
        return; /* not known at this moment */
    if (holder->pid != s->pid || holder->start_ns != s->start_ns)
        *s = (Stalls){.pid = holder->pid, .start_ns = holder->start_ns};
    if (why_is_pause(sm, util)) {
        if (!s->since_ns) {
            s->since_ns = now_ns;
            s->since_bytes = sum_written(snapshot, gpu, instance);
        }
        return;
    }
    if (s->since_ns && why_is_stall((double)(now_ns - s->since_ns) / NS_PER_S))
        end_stall(s, now_ns);
    s->since_ns = 0;
    count_written(s, snapshot, gpu, instance);
}

static size_t list_stalls(const Stalls *s, uint64_t now_ns, WhyStall out[WHY_STALLS_MAX])
{
    for (size_t i = 0; i < s->count; i++)
        out[i] = (WhyStall){.ago_s = (double)(now_ns - s->at[i].since_ns) / NS_PER_S,
                            .length_s = (double)(s->at[i].until_ns - s->at[i].since_ns) / NS_PER_S,
                            .written = s->at[i].written};
    return s->count;
}

/* --- the board of an instance ------------------------------------------------------------------------------------- */

static size_t list_siblings(const Whys *whys, const Snapshot *snapshot, const NodeGpu *gpu, const Reading *instance,
                            WhySibling *out)
{
    size_t count = 0;

    for (size_t i = 0; i < gpu->instance_count; i++) {
        const Reading *other = &gpu->instances[i];
        const ProcessOwner *holder = other == instance ? NULL : find_holder(snapshot, gpu, other);

        if (holder)
            out[count++] =
                (WhySibling){.owner = name_owner(find_follow(whys, holder->pid)),
                             .gpu_instance = other->device.gpu_instance,
                             .compute_instance = other->device.compute_instance,
                             .sm = node_activity(gpu, other)->sm_active * reading_mig_share(&gpu->reading, other)};
    }
    return count;
}

/* Clock and power are the board's, and so are the reasons of a low clock. */
static void read_board(const Store *store, const NodeGpu *gpu, uint64_t now_ns, WhyInput *in)
{
    static const SecondsSource of_board[] = {
        {0, METRIC_POWER_USAGE, 1, METRIC_ENFORCED_POWER_LIMIT, false},
        {1, METRIC_SM_CLOCK, 1, METRIC_MAX_SM_CLOCK, false},
        {2, METRIC_CLOCKS_EVENT_REASONS, 1, METRIC_END, false},
    };
    double rows[ARRAY_LEN(of_board)][ACTIVITY_WINDOW_S];

    seconds_read(store, &gpu->reading, now_ns, of_board, ARRAY_LEN(of_board), rows);
    in->board_power = seconds_mean(rows[0], 0);
    memcpy(in->rows[WHY_OF_CLOCK], rows[1], sizeof rows[1]);
    memcpy(in->rows[WHY_OF_REASONS], rows[2], sizeof rows[2]);
}

/* --- the roof ----------------------------------------------------------------------------------------------------- */

/* Clocks and the width of the memory are the board's. */
static void estimate_roof(const Store *store, uint64_t now_ns, const NodeGpu *gpu, const Reading *instance, Why *why)
{
    const Reading *reading = instance ? instance : &gpu->reading;
    RoofInput in = {.gpu_name = gpu->reading.device.name,
                    .window_s = why->window_s,
                    .instance = instance,
                    .profile = reading->profile,
                    .instance_share =
                        read_metric(reading, METRIC_FB_TOTAL) / read_metric(&gpu->reading, METRIC_FB_TOTAL),
                    .bus_bits = read_metric(&gpu->reading, METRIC_MEMORY_BUS_WIDTH)};

    for (RoofSeries k = 0; k < ROOF_SERIES_END; k++) {
        const bool of_board = k == ROOF_OF_SM_CLOCK || k == ROOF_OF_MEMORY_CLOCK;
        const Reading *from = of_board ? &gpu->reading : reading;
        const Sample *now = &from->sample[roof_metrics[k]];
        const SecondsSource source = {0, roof_metrics[k], 1, METRIC_END, false};

        seconds_read(store, from, now_ns, &source, 1, &in.rows[k]);
        in.absent[k] = now->valid ? NULL : absences[now->absence].text;
    }
    roof_estimate(&in, &why->roof);
}

/* Of a GPU, or of its instance (NULL: the GPU itself). */
static void decide_device(const Whys *whys, const Snapshot *snapshot, const Store *store, const NodeGpu *gpu,
                          const Reading *instance, const Activity *activity, const Stalls *stalls, Why *ret)
{
    const Reading *reading = instance ? instance : &gpu->reading;
    const Facts *facts = snapshot->facts;
    WhyProcess processes[NODE_PROCESSES_MAX];
    WhyPeer peers[NODE_GPUS_MAX];
    WhyStall past[WHY_STALLS_MAX];
    WhySibling siblings[NODE_INSTANCES_MAX];
    WhyAdapter adapters[FACTS_ADAPTERS_MAX];
    WhyInput in = {
        .activity = activity,
        .instance = instance,
        .pcie_lanes = read_metric(&gpu->reading, METRIC_PCIE_LINK_WIDTH),
        .limit_share = read_metric(&gpu->reading, METRIC_ENFORCED_POWER_LIMIT) /
                       read_metric(&gpu->reading, METRIC_POWER_MGMT_LIMIT_DEF),
        .memory_used = read_metric(reading, METRIC_FB_USED) * MIB,
        .memory_total = read_metric(reading, METRIC_FB_TOTAL) * MIB,
        .memory_rise = find_growth(store, reading, snapshot->node->time_ns),
        .io_pressure = facts && facts->pressure_known ? facts->io_pressure : (double)NAN,
        .cpu_pressure = facts && facts->pressure_known ? facts->cpu_pressure : (double)NAN,
        .board_sm = instance ? activity->sm_active * reading_mig_share(&gpu->reading, instance) : (double)NAN,
        .board_power = NAN,
        .processes = processes,
        .peers = peers,
        .stalls = past,
        .siblings = siblings,
        .adapters = adapters,
    };

    in.process_count = list_processes(whys, snapshot, gpu, instance, processes);
    in.peer_count = instance ? 0 : list_peers(snapshot, gpu, peers);
    in.adapter_count = list_adapters(whys, adapters);
    in.stall_count = list_stalls(stalls, snapshot->node->time_ns, past);
    in.sibling_count = instance ? list_siblings(whys, snapshot, gpu, instance, siblings) : 0;
    seconds_read(store, reading, snapshot->node->time_ns, sources, ARRAY_LEN(sources), in.rows);
    if (instance)
        read_board(store, gpu, snapshot->node->time_ns, &in);
    why_decide(&in, ret);
    if (activity->word == ACTIVITY_WORKING || activity->word == ACTIVITY_WAITING)
        estimate_roof(store, snapshot->node->time_ns, gpu, instance, ret);
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
    free(slot->decided);
    free(slot->verdicts);
    free(slot->stalls);
    *slot = (Slot){.instance_count = gpu->instance_count};
    memcpy(slot->uuid, gpu->reading.device.uuid, sizeof slot->uuid);
    slot->decided = xcalloc(gpu->instance_count + 1, sizeof *slot->decided);
    slot->verdicts = xcalloc(gpu->instance_count + 1, sizeof *slot->verdicts);
    slot->stalls = xcalloc(gpu->instance_count + 1, sizeof *slot->stalls);
    return true;
}

/* Of a GPU that the others of its job wait for in each step: how many, and how fast that lets them be. */
static void note_waiters(const Snapshot *snapshot, NodeGpu *gpu)
{
    WhyPeer peers[NODE_GPUS_MAX];

    for (uint32_t i = 0; i < gpu->verdicts->count; i++) {
        const WhyVerdict *late = &gpu->verdicts->verdicts[i];

        if (late->cause != WHY_STRAGGLER || !(gpu->activity.sm_active > late->share))
            continue;
        gpu->activity.waiters = (uint32_t)list_peers(snapshot, gpu, peers);
        gpu->activity.waiters_speed = 1 - late->share / gpu->activity.sm_active;
    }
}

void whys_update(Whys *whys, const Snapshot *snapshot, const Store *store, uint32_t every)
{
    const Node *node = snapshot->node;

    whys->ticks++;
    if (snapshot->processes.time_ns != whys->looked_ns) {
        follow_all(whys, &snapshot->processes);
        whys->looked_ns = snapshot->processes.time_ns;
    }
    if (snapshot->facts && snapshot->facts->time_ns != whys->flows_ns)
        follow_adapters(whys, snapshot->facts);
    for (size_t i = 0; i < node->gpu_count; i++) {
        NodeGpu *gpu = &node->gpus[i];
        Slot *slot = &whys->gpus[i];
        const bool due = make_room(slot, gpu) || (whys->ticks + i) % every == 0;

        smooth_shares(slot, gpu);
        for (size_t k = 0; k <= gpu->instance_count; k++) {
            const Reading *instance = k == 0 ? NULL : &gpu->instances[k - 1];
            const Activity *activity = node_activity(gpu, instance);

            follow_stalls(&slot->stalls[k], snapshot, gpu, instance);
            if (!due && !is_other(activity, &slot->decided[k]))
                continue;
            slot->decided[k] = *activity;
            decide_device(whys, snapshot, store, gpu, instance, activity, &slot->stalls[k], &slot->verdicts[k]);
        }
        gpu->verdicts = slot->verdicts;
        gpu->instance_verdicts = slot->verdicts + 1;
        note_waiters(snapshot, gpu);
    }
}
