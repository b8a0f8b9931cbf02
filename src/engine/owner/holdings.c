/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/owner/holdings.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/number.h"
#include "base/vec.h"
#include "model/facts.h"

/* A process that the driver lists. */
typedef struct Seen {
    NodeProcess process;
    uint64_t busy_ns; /* when it ran last, or was seen first */
    Owner owner;      /* by /proc; its container is an id */
    char pod_uid[PROCESS_POD_UID_CAP], container_name[PROCESS_NAME_CAP];
    bool unlisted;  /* the driver does not list it, but it has the GPU open */
    size_t holding; /* that it is counted in; SIZE_MAX: none */
} Seen;

typedef VEC(Seen) SeenList;

typedef struct GpuSlot {
    PciAddress pci;
    char uuid[DEVICE_UUID_CAP];
    bool listed;             /* its processes were listed once */
    bool held;               /* something held it when its activity was decided last */
    uint64_t held_instances; /* the same of its MIG instances: a bit for each, by position */
    SeenList seen, before;
} GpuSlot;

/* What is known of a holding while it is made. */
typedef struct Mark {
    bool declared, unresolved; /* a process whose container has no name yet is in it */
    bool unmanaged, listed;
    size_t first;     /* of its processes in the list */
    uint64_t busy_ns; /* the latest of its processes */
    uint32_t sm;      /* percent, of all its processes */
    bool sm_unknown;  /* of one of them */
} Mark;

struct Holdings {
    VEC(Holding) at;
    VEC(Mark) marks; /* of each */
    VEC(HoldingProcess) processes;
    size_t slot_count;
    GpuSlot slots[NODE_GPUS_MAX];
    uint64_t time_ns;
};

/* One GPU or MIG instance. */
typedef struct Subject {
    const Snapshot *snapshot;
    size_t position;
    const NodeGpu *gpu;
    const Reading *instance; /* NULL: the whole GPU */
    GpuSlot *slot;
    size_t start;        /* of its holdings */
    bool server_sampled; /* the driver samples the work of MPS clients at their server */
} Subject;

Holdings *holdings_new(void)
{
    return xcalloc(1, sizeof(Holdings));
}

void holdings_free(Holdings *holdings)
{
    for (size_t i = 0; holdings && i < holdings->slot_count; i++) {
        vec_done(&holdings->slots[i].seen);
        vec_done(&holdings->slots[i].before);
    }
    if (holdings) {
        vec_done(&holdings->at);
        vec_done(&holdings->marks);
        vec_done(&holdings->processes);
    }
    free(holdings);
}

/* --- observed ----------------------------------------------------------------------------------------------------- */

static GpuSlot *find_slot(Holdings *holdings, const Device *device)
{
    GpuSlot *slot;

    for (size_t i = 0; i < holdings->slot_count; i++)
        if (device_is_gpu(device, holdings->slots[i].uuid, holdings->slots[i].pci))
            return &holdings->slots[i];
    slot = &holdings->slots[holdings->slot_count < NODE_GPUS_MAX ? holdings->slot_count++ : NODE_GPUS_MAX - 1];
    slot->pci = device->pci;
    memcpy(slot->uuid, device->uuid, sizeof slot->uuid);
    slot->listed = slot->held = false;
    slot->held_instances = 0;
    vec_clear(&slot->seen);
    return slot;
}

static const Seen *find_seen(const SeenList *list, const NodeProcess *process)
{
    for (size_t i = 0; i < list->len; i++) {
        const NodeProcess *old = &list->at[i].process;

        if (old->pid == process->pid && old->gpu_instance == process->gpu_instance &&
            old->compute_instance == process->compute_instance)
            return &list->at[i];
    }
    return NULL;
}

static void set_identity(Seen *seen, const ProcessOwner *who)
{
    Owner *owner = &seen->owner;

    owner->start_ns = who->start_ns;
    snprintf(owner->user, sizeof owner->user, "%s", who->user);
    snprintf(owner->job, sizeof owner->job, "%.*s", (int)strcspn(who->job, "."), who->job);
    snprintf(owner->pod, sizeof owner->pod, "%s", who->pod);
    snprintf(owner->namespace, sizeof owner->namespace, "%s", who->namespace);
    snprintf(owner->container, sizeof owner->container, "%s", who->container);
    snprintf(owner->process, sizeof owner->process, "%.*s", EVENT_NAME_CAP - 1, who->name);
    memcpy(seen->pod_uid, who->pod_uid, sizeof seen->pod_uid);
    memcpy(seen->container_name, who->container_name, sizeof seen->container_name);
}

static bool is_listed(const Node *node, uint32_t pid)
{
    for (size_t i = 0; i < node->gpu_count; i++)
        for (size_t k = 0; k < node->gpus[i].process_count; k++)
            if (node->gpus[i].processes[k].pid == pid)
                return true;
    return false;
}

static bool is_busy(const NodeProcess *process)
{
    return process->sm_percent != UINT8_MAX && process->sm_percent > 0;
}

static bool may_be_held_unlisted(const GpuSlot *slot, const NodeGpu *gpu)
{
    return slot->held && gpu->state == GPU_UP && gpu->process_list.valid && gpu->process_count == 0 &&
           gpu->instance_count == 0;
}

bool holdings_want_holders(const Holdings *holdings, const Node *node)
{
    for (size_t i = 0; i < node->gpu_count; i++)
        for (size_t k = 0; k < holdings->slot_count; k++)
            if (device_is_gpu(&node->gpus[i].reading.device, holdings->slots[k].uuid, holdings->slots[k].pci) &&
                may_be_held_unlisted(&holdings->slots[k], &node->gpus[i]))
                return true;
    return false;
}

/* Those who have the GPU open, where the driver lists nobody and something is held: a program whose parent is gone, or
 * one that the driver hides. Any program that computes has all GPUs open that it may use, so that the open file alone
 * tells nothing where others are listed, or where nothing is held. */
static void note_holders(GpuSlot *slot, const NodeGpu *gpu, const Snapshot *snapshot)
{
    const uint32_t minor = gpu->reading.device.minor;

    for (size_t i = 0; may_be_held_unlisted(slot, gpu) && minor < 64 && i < snapshot->holders.len; i++) {
        const ProcessOwner *who = &snapshot->holders.at[i];

        if (!(who->open_gpus >> minor & 1) || !who->start_ns || is_listed(snapshot->node, who->pid))
            continue;
        Seen *seen = vec_add(&slot->seen);
        seen->process = (NodeProcess){.pid = who->pid,
                                      .gpu_instance = DEVICE_NO_NUMBER,
                                      .compute_instance = DEVICE_NO_NUMBER,
                                      .used_bytes = UINT64_MAX,
                                      .sm_percent = UINT8_MAX,
                                      .memory_percent = UINT8_MAX};
        seen->owner.pid = (int32_t)who->pid;
        seen->busy_ns = snapshot->node->time_ns;
        seen->unlisted = true;
        set_identity(seen, who);
    }
}

/* Where activities are decided behind the join, as in the agent, the node has none yet and it is those of before. */
static void note_held(GpuSlot *slot, const NodeGpu *gpu)
{
    slot->held |= gpu->activity.held;
    for (size_t i = 0; i < gpu->instance_count && i < 64 && gpu->instance_activity; i++)
        slot->held_instances |= (uint64_t)gpu->instance_activity[i].held << i;
}

/* Brings what is known of the GPU's processes up to date. */
static void note_processes(GpuSlot *slot, const NodeGpu *gpu, const Snapshot *snapshot)
{
    const SeenList before = slot->seen;

    if (gpu->state == GPU_GONE)
        vec_clear(&slot->seen);
    if (gpu->state != GPU_UP || !gpu->process_list.valid)
        return;
    slot->seen = slot->before;
    slot->before = before;
    slot->listed = true;
    vec_clear(&slot->seen);
    for (size_t i = 0; i < gpu->process_count; i++) {
        const NodeProcess *process = &gpu->processes[i];
        const ProcessOwner *who = process_list_find(&snapshot->processes, process->pid);
        const Seen *old = find_seen(&before, process);
        const uint64_t now = snapshot->node->time_ns;
        Seen *seen = vec_add(&slot->seen);

        if (old)
            *seen = *old;
        seen->process = *process;
        seen->owner.pid = (int32_t)process->pid;
        if (!old || is_busy(process))
            seen->busy_ns = now;
        seen->unlisted = false;
        if (who && who->start_ns)
            set_identity(seen, who);
    }
    note_holders(slot, gpu, snapshot);
}

/* For a caller in another pid namespace the driver lists no process at all, and /proc shows none. */
static bool is_hidden(const Subject *s)
{
    const Facts *facts = s->snapshot->facts;

    return facts && facts->proc_known && !facts->all_tasks && s->gpu->state == GPU_UP && s->gpu->process_list.valid &&
           s->gpu->process_count == 0;
}

static bool is_held(const Subject *s)
{
    const size_t position = s->instance ? (size_t)(s->instance - s->gpu->instances) : 0;

    return !s->instance ? s->slot->held : position < 64 && s->slot->held_instances >> position & 1;
}

static bool is_on_instance(const Subject *s, const NodeProcess *process)
{
    const Device *device = &s->instance->device;

    if (process->gpu_instance != device->gpu_instance)
        return false;
    return process->compute_instance == DEVICE_NO_NUMBER ? s->instance->instance_head
                                                         : process->compute_instance == device->compute_instance;
}

static bool is_on(const Subject *s, const NodeProcess *process)
{
    return !s->instance || is_on_instance(s, process);
}

/* NVIDIA's MPS server and its control daemon hold the GPU for their clients. */
static bool is_server(const Seen *seen)
{
    static const char name[] = "nvidia-cuda-mps";

    return strncmp(seen->owner.process, name, sizeof name - 1) == 0;
}

/* --- declared ----------------------------------------------------------------------------------------------------- */

static bool is_same_pod(const Owner *owner, const Allocation *row)
{
    return strcmp(owner->pod, row->pod) == 0 && strcmp(owner->namespace, row->namespace) == 0;
}

static bool is_given(const Subject *s, const Allocation *row)
{
    return allocation_device_is(&row->device, &s->gpu->reading, s->instance) ||
           (s->instance && allocation_device_is(&row->device, &s->gpu->reading, NULL));
}

static bool is_jobs(const Subject *s, const JobAllocation *job)
{
    return job->gpu == s->gpu->reading.device.index &&
           (job->gpu_instance == DEVICE_NO_NUMBER ||
            (s->instance && job->gpu_instance == s->instance->device.gpu_instance));
}

/* By UUIDs alone on a MIG instance: a number is that of a GPU. */
static bool is_jobs_device(const Subject *s, const JobDevice *row)
{
    return allocation_device_is(&row->device, &s->gpu->reading, s->instance);
}

static bool has_devices(const Snapshot *snapshot, const char *job)
{
    for (size_t i = 0; i < snapshot->job_device_count; i++)
        if (strcmp(snapshot->job_devices[i].job, job) == 0)
            return true;
    return false;
}

/* The name of the process's container: as the kubelet's link to its log says, where the pod has a container of this
 * name with devices; else the only one that was given this device, else the only one of the pod that was given any.
 * False: one of several. */
static bool find_container(const Subject *s, const char *name, Owner *owner)
{
    const AllocationTable *table = s->snapshot->allocations;
    const char *only[2] = {NULL, NULL}; /* of those with this device; of all */
    bool several[2] = {false, false};

    for (size_t i = 0; i < table->len; i++) {
        const Allocation *row = &table->at[i];

        if (!is_same_pod(owner, row))
            continue;
        if (name[0] && strcmp(name, row->container) == 0) {
            snprintf(owner->container, sizeof owner->container, "%s", name);
            return true;
        }
        for (int k = is_given(s, row) ? 0 : 1; k < 2; k++) {
            several[k] |= only[k] && strcmp(only[k], row->container) != 0;
            only[k] = row->container;
        }
    }
    const int k = only[0] ? 0 : 1;
    if (!only[k] || several[k])
        return false;
    snprintf(owner->container, sizeof owner->container, "%s", only[k]);
    return true;
}

/* --- the join ----------------------------------------------------------------------------------------------------- */

static bool has_work(const Owner *owner)
{
    return owner->job[0] || owner->pod[0] || owner->container[0];
}

/* Two processes of one job, pod or container, or of one user outside all of these. */
static bool is_same_work(const Owner *a, const Owner *b)
{
    if (!has_work(a) && !has_work(b))
        return strcmp(a->user, b->user) == 0;
    return strcmp(a->job, b->job) == 0 && strcmp(a->pod, b->pod) == 0 && strcmp(a->namespace, b->namespace) == 0 &&
           strcmp(a->container, b->container) == 0;
}

static size_t find_holding(const Holdings *holdings, const Subject *s, const Owner *owner)
{
    for (size_t i = s->start; i < holdings->at.len; i++)
        if (is_same_work(&holdings->at.at[i].owner, owner))
            return i;
    return SIZE_MAX;
}

static size_t add_holding(Holdings *holdings, const Subject *s, const Owner *owner)
{
    vec_push(&holdings->at,
             ((Holding){.gpu = s->position,
                        .gpu_instance = s->instance ? s->instance->device.gpu_instance : DEVICE_NO_NUMBER,
                        .compute_instance = s->instance ? s->instance->device.compute_instance : DEVICE_NO_NUMBER,
                        .owner = *owner,
                        .basis = HOLDING_BY_GRANT,
                        .sm_share = (double)NAN}));
    vec_push(&holdings->marks, ((Mark){.listed = s->slot->listed && !is_hidden(s)}));
    return holdings->at.len - 1;
}

static void add_declared_owner(Holdings *holdings, const Subject *s, const Owner *owner, HoldingGrant grant)
{
    size_t i = find_holding(holdings, s, owner);

    if (i == SIZE_MAX)
        i = add_holding(holdings, s, owner);
    holdings->marks.at[i].declared = true;
    if (holdings->at.at[i].grant == HOLDING_GRANT_NONE)
        holdings->at.at[i].grant = grant;
}

static void add_declared_job(Holdings *holdings, const Subject *s, const char *job, HoldingGrant grant)
{
    Owner owner = {.pid = -1};

    snprintf(owner.job, sizeof owner.job, "%s", job);
    add_declared_owner(holdings, s, &owner, grant);
}

static void add_declared(Holdings *holdings, const Subject *s)
{
    const AllocationTable *pods = s->snapshot->allocations;

    for (size_t i = 0; pods && i < pods->len; i++) {
        Owner owner = {.pid = -1};

        if (!is_given(s, &pods->at[i]))
            continue;
        snprintf(owner.pod, sizeof owner.pod, "%s", pods->at[i].pod);
        snprintf(owner.namespace, sizeof owner.namespace, "%s", pods->at[i].namespace);
        snprintf(owner.container, sizeof owner.container, "%s", pods->at[i].container);
        add_declared_owner(holdings, s, &owner, HOLDING_GRANT_KUBELET);
    }
    for (size_t i = 0; i < s->snapshot->job_count; i++)
        if (is_jobs(s, &s->snapshot->jobs[i]))
            add_declared_job(holdings, s, s->snapshot->jobs[i].job, HOLDING_GRANT_JOB_FILE);
    for (size_t i = 0; i < s->snapshot->job_device_count; i++)
        if (is_jobs_device(s, &s->snapshot->job_devices[i]))
            add_declared_job(holdings, s, s->snapshot->job_devices[i].job, HOLDING_GRANT_ENVIRON);
}

/* Names the pod and the container of a process. A job's processes are one work whatever container they use. */
static void resolve_owner(const Subject *s, const Seen *seen, Owner *owner, bool *ret_unresolved)
{
    const Allocation *pod = allocation_find_pod(s->snapshot->allocations, seen->pod_uid, &s->gpu->reading);

    *ret_unresolved = false;
    if (pod) {
        snprintf(owner->pod, sizeof owner->pod, "%s", pod->pod);
        snprintf(owner->namespace, sizeof owner->namespace, "%s", pod->namespace);
    } else if (owner->job[0]) {
        owner->container[0] = '\0';
    }
    if (owner->pod[0] && s->snapshot->allocations)
        *ret_unresolved = !find_container(s, seen->container_name, owner);
}

/* Where the device was given to one owner alone, a process that cannot be identified is taken for its own. */
static size_t find_only_declared(const Holdings *holdings, const Subject *s)
{
    size_t only = SIZE_MAX;

    for (size_t i = s->start; i < holdings->at.len; i++) {
        if (!holdings->marks.at[i].declared)
            continue;
        if (only != SIZE_MAX)
            return SIZE_MAX;
        only = i;
    }
    return only;
}

/* Whether one whose work this is must have been declared by a source that answers. A job was put there by the workload
 * manager: it is unmanaged where its own GPUs are known, and this is none of them. */
static bool is_unmanaged(const Snapshot *snapshot, const Owner *owner)
{
    if (snapshot->jobs_told)
        return true;
    return owner->job[0] ? has_devices(snapshot, owner->job) : snapshot->pods_told || snapshot->steps_told;
}

static void count_process(Holdings *holdings, const Subject *s, const Seen *seen)
{
    Holding *holding = &holdings->at.at[seen->holding];
    Mark *mark = &holdings->marks.at[seen->holding];

    if (holding->process_count++ == 0) {
        memcpy(holding->owner.user, seen->owner.user, sizeof holding->owner.user);
        memcpy(holding->owner.process, seen->owner.process, sizeof holding->owner.process);
        holding->owner.pid = seen->owner.pid;
        holding->owner.start_ns = seen->owner.start_ns;
    }
    if (holding->basis != HOLDING_BY_PROCESS)
        holding->basis = seen->unlisted ? HOLDING_BY_OPEN_FILE : HOLDING_BY_PROCESS;
    mark->busy_ns = number_max_u64(mark->busy_ns, seen->busy_ns);
    if (seen->process.used_bytes != UINT64_MAX)
        holding->memory_bytes += seen->process.used_bytes;
    if (seen->process.sm_percent == UINT8_MAX || s->server_sampled)
        mark->sm_unknown = true;
    else
        mark->sm += seen->process.sm_percent;
}

/* The holding that a process is part of; made where there is none. */
static size_t choose_holding(Holdings *holdings, const Subject *s, const Seen *seen)
{
    Owner owner = seen->owner;
    bool unresolved = false;
    size_t i = SIZE_MAX;

    if (owner_is_known(&owner))
        resolve_owner(s, seen, &owner, &unresolved);
    else
        i = find_only_declared(holdings, s);
    if (i == SIZE_MAX)
        i = find_holding(holdings, s, &owner);
    if (i == SIZE_MAX) {
        i = add_holding(holdings, s, &owner);
        holdings->marks.at[i].unresolved = unresolved;
        holdings->marks.at[i].unmanaged = is_unmanaged(s->snapshot, &owner);
    }
    return i;
}

/* Whether this process counts: not a server beside its clients. */
static bool is_counted(const Subject *s, const Seen *seen)
{
    if (!is_on(s, &seen->process))
        return false;
    for (size_t i = 0; is_server(seen) && i < s->slot->seen.len; i++)
        if (is_on(s, &s->slot->seen.at[i].process) && !is_server(&s->slot->seen.at[i]))
            return false;
    return true;
}

/* The server runs something and none of its clients does: it is their work, and whose of them is not known. */
static bool is_server_sampled(const Subject *s)
{
    bool server = false;

    for (size_t i = 0; i < s->slot->seen.len; i++) {
        const Seen *seen = &s->slot->seen.at[i];

        if (!is_on(s, &seen->process) || !is_busy(&seen->process))
            continue;
        if (!is_server(seen))
            return false;
        server = true;
    }
    return server;
}

static void remove_holding(Holdings *holdings, const Subject *s, size_t i)
{
    vec_remove(&holdings->at, i);
    vec_remove(&holdings->marks, i);
    for (size_t k = 0; k < s->slot->seen.len; k++)
        if (s->slot->seen.at[k].holding != SIZE_MAX && s->slot->seen.at[k].holding > i)
            s->slot->seen.at[k].holding--;
}

/* Whether a process of this declared container's pod is there whose container has no name: it may be this one's. */
static bool may_be_there(const Holdings *holdings, const Subject *s, size_t declared)
{
    bool found = false;

    for (size_t i = s->start; i < holdings->at.len; i++) {
        const Owner *a = &holdings->at.at[i].owner, *b = &holdings->at.at[declared].owner;

        if (!holdings->marks.at[i].unresolved || strcmp(a->pod, b->pod) != 0 || strcmp(a->namespace, b->namespace) != 0)
            continue;
        holdings->marks.at[i].unmanaged = false;
        found = true;
    }
    return found;
}

/* Of several containers of a pod with this device it may not be known which has which process: those that were
 * declared and have none are left out then. */
static void drop_unresolved(Holdings *holdings, const Subject *s)
{
    for (size_t i = holdings->at.len; i-- > s->start;)
        if (holdings->marks.at[i].declared && may_be_there(holdings, s, i) && holdings->at.at[i].process_count == 0)
            remove_holding(holdings, s, i);
}

static bool has_ended(const Snapshot *snapshot, const char *job)
{
    for (size_t i = 0; i < snapshot->ended_job_count; i++)
        if (strcmp(snapshot->ended_jobs[i].job, job) == 0)
            return true;
    return false;
}

/* A job that has ended holds what its processes still use: its files stay until the epilog removed them, and its
 * environment was read some seconds ago. */
static void drop_ended(Holdings *holdings, const Subject *s)
{
    for (size_t i = holdings->at.len; i-- > s->start;)
        if (holdings->at.at[i].process_count == 0 && holdings->at.at[i].owner.job[0] &&
            has_ended(s->snapshot, holdings->at.at[i].owner.job))
            remove_holding(holdings, s, i);
}

/* The processes of a holding lie together, in the order of the driver's list. */
static void list_processes(Holdings *holdings, const Subject *s)
{
    for (size_t i = s->start; i < holdings->at.len; i++) {
        holdings->marks.at[i].first = holdings->processes.len;
        for (size_t k = 0; k < s->slot->seen.len; k++) {
            const Owner *owner = &s->slot->seen.at[k].owner;
            HoldingProcess *process;

            if (s->slot->seen.at[k].holding != i)
                continue;
            process = vec_add(&holdings->processes);
            process->pid = s->slot->seen.at[k].process.pid;
            process->start_ns = owner->start_ns;
            memcpy(process->name, owner->process, sizeof process->name);
            memcpy(process->user, owner->user, sizeof process->user);
        }
    }
}

static void set_shares(Holdings *holdings, const Subject *s)
{
    const size_t count = holdings->at.len - s->start;
    bool sampled = true;
    uint32_t sum = 0;

    for (size_t i = s->start; i < holdings->at.len; i++) {
        sampled &= !holdings->marks.at[i].sm_unknown;
        sum += holdings->marks.at[i].sm;
    }
    sampled &= sum > 0;
    for (size_t i = s->start; i < holdings->at.len; i++) {
        const Mark *mark = &holdings->marks.at[i];
        Holding *holding = &holdings->at.at[i];
        const bool known = owner_is_known(&holding->owner);

        if (holding->process_count > 0 && !mark->sm_unknown)
            holding->sm_share = fmin(mark->sm, 100) / 100;
        holding->share = count == 1 ? 1 : sampled ? (double)mark->sm / sum : 1.0 / (double)count;
        holding->attribution = !known        ? ATTRIBUTION_UNKNOWN
                               : count > 1   ? (sampled ? ATTRIBUTION_SAMPLED : ATTRIBUTION_EVEN)
                               : s->instance ? ATTRIBUTION_MIG
                                             : ATTRIBUTION_EXCLUSIVE;
    }
}

/* What the workload manager says of a job; its user where no process told of one. */
static void add_job_infos(Holdings *holdings, const Subject *s)
{
    for (size_t i = s->start; i < holdings->at.len; i++) {
        Owner *owner = &holdings->at.at[i].owner;
        const JobInfo *info = job_info_find(&s->snapshot->job_infos, owner->job);

        if (!info)
            continue;
        memcpy(owner->account, info->account, sizeof owner->account);
        if (holdings->marks.at[i].declared)
            holdings->at.at[i].given_real_ns = info->started_real_ns;
        if (!owner->user[0])
            memcpy(owner->user, info->user, sizeof owner->user);
    }
}

static void set_workload(const Snapshot *snapshot, Holding *holding)
{
    const AllocationTable *table = snapshot->allocations;

    for (size_t i = 0; table && i < table->len; i++)
        if (table->at[i].owner_name[0] && is_same_pod(&holding->owner, &table->at[i])) {
            snprintf(holding->workload.kind, sizeof holding->workload.kind, "%s", table->at[i].owner_kind);
            snprintf(holding->workload.name, sizeof holding->workload.name, "%s", table->at[i].owner_name);
            return;
        }
    (void)workload_from_pod(holding->owner.pod, &holding->workload);
}

/* Somebody holds the device, and who it could be is hidden. */
static void add_hidden_holder(Holdings *holdings, const Subject *s)
{
    static const Owner unknown = {.pid = -1};

    if (holdings->at.len > s->start || !is_hidden(s) || !is_held(s))
        return;
    const size_t i = add_holding(holdings, s, &unknown);
    holdings->at.at[i].basis = HOLDING_BY_MEMORY;
    holdings->marks.at[i].unmanaged = is_unmanaged(s->snapshot, &unknown);
}

static void join_device(Holdings *holdings, Subject *s)
{
    s->start = holdings->at.len;
    s->server_sampled = is_server_sampled(s);
    add_declared(holdings, s);
    for (size_t i = 0; i < s->slot->seen.len; i++) {
        Seen *seen = &s->slot->seen.at[i];

        if (!is_counted(s, seen))
            continue;
        seen->holding = choose_holding(holdings, s, seen);
        count_process(holdings, s, seen);
    }
    drop_unresolved(holdings, s);
    drop_ended(holdings, s);
    add_hidden_holder(holdings, s);
    list_processes(holdings, s);
    add_job_infos(holdings, s);
    for (size_t i = s->start; i < holdings->at.len; i++)
        if (holdings->at.at[i].owner.pod[0])
            set_workload(s->snapshot, &holdings->at.at[i]);
    set_shares(holdings, s);
}

void holdings_update(Holdings *holdings, const Snapshot *snapshot)
{
    vec_clear(&holdings->at);
    vec_clear(&holdings->marks);
    vec_clear(&holdings->processes);
    holdings->time_ns = snapshot->node->time_ns;
    for (size_t i = 0; i < snapshot->node->gpu_count; i++) {
        const NodeGpu *gpu = &snapshot->node->gpus[i];
        GpuSlot *slot = find_slot(holdings, &gpu->reading.device);
        Subject s = {.snapshot = snapshot, .position = i, .gpu = gpu, .slot = slot};

        note_held(slot, gpu);
        note_processes(slot, gpu, snapshot);
        for (size_t k = 0; k < slot->seen.len; k++)
            slot->seen.at[k].holding = SIZE_MAX;
        for (size_t k = 0; k < gpu->instance_count; k++) {
            s.instance = &gpu->instances[k];
            join_device(holdings, &s);
        }
        if (gpu->instance_count == 0)
            join_device(holdings, &s);
    }
    for (size_t i = 0; i < holdings->at.len; i++)
        holdings->at.at[i].processes = holdings->processes.at + holdings->marks.at[i].first;
    holdings_decide_states(holdings, snapshot->node);
}

/* --- states ------------------------------------------------------------------------------------------------------- */

static ActivityWord word_of(const Holding *holding, const Node *node)
{
    const NodeGpu *gpu = &node->gpus[holding->gpu];

    const Reading *instance = node_find_instance(gpu, holding->gpu_instance, holding->compute_instance);

    if (holding->gpu_instance != DEVICE_NO_NUMBER && !instance)
        return ACTIVITY_UNKNOWN;
    return node_activity(gpu, instance)->word;
}

static bool is_idle(ActivityWord word)
{
    return word == ACTIVITY_IDLE_HELD || word == ACTIVITY_FREE;
}

/* Others run on the device, and this one has not for a while. */
static bool is_only_holding(const Holdings *holdings, size_t i)
{
    const Mark *mark = &holdings->marks.at[i];

    return holdings->at.at[i].share < 1 && holdings->at.at[i].process_count > 0 && !mark->sm_unknown &&
           holdings->time_ns - mark->busy_ns >= HOLDING_IDLE_NS;
}

void holdings_decide_states(Holdings *holdings, const Node *node)
{
    for (size_t i = 0; i < node->gpu_count; i++) {
        GpuSlot *slot = find_slot(holdings, &node->gpus[i].reading.device);

        slot->held = false;
        slot->held_instances = 0;
        note_held(slot, &node->gpus[i]);
    }
    for (size_t i = 0; i < holdings->at.len; i++) {
        const Mark *mark = &holdings->marks.at[i];
        Holding *holding = &holdings->at.at[i];
        const ActivityWord word = word_of(holding, node);

        if (mark->unmanaged)
            holding->state = HOLDING_UNMANAGED;
        else if (holding->process_count == 0 && holding->basis != HOLDING_BY_MEMORY &&
                 (mark->listed || (word != ACTIVITY_WORKING && word != ACTIVITY_WAITING)))
            holding->state = HOLDING_RESERVED;
        else
            holding->state = is_idle(word) || is_only_holding(holdings, i) ? HOLDING_IDLE_HELD : HOLDING_USED;
    }
}

const Holding *holdings_list(const Holdings *holdings, size_t *ret_count)
{
    *ret_count = holdings->at.len;
    return holdings->at.at;
}

ActivityWord holding_activity(const Holding *holding, const Node *node)
{
    const ActivityWord word = word_of(holding, node);
    const bool holds = holding->state == HOLDING_IDLE_HELD || holding->state == HOLDING_RESERVED;

    return holds && (word == ACTIVITY_WORKING || word == ACTIVITY_WAITING) ? ACTIVITY_IDLE_HELD : word;
}
