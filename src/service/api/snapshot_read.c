/* SPDX-License-Identifier: Apache-2.0 */
#include "service/api/snapshot_read.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "engine/health/maintenance.h"
#include "service/api/fields.h"
#include "service/json/members.h"

typedef struct Reader {
    SnapshotBuffer *to;
    MemberReader in;
} Reader;

/* --- fields ------------------------------------------------------------------------------------------------------- */

static Absence get_absence(Reader *r, const json_t *object, const char *name)
{
    const int why = member_word(&r->in, object, name, absences, ABSENCE_END);

    return why >= 0 ? (Absence)why : member_get(object, name) ? ABSENCE_FAILED : ABSENCE_NO_DATA;
}

static void set_number(void *at, size_t size, uint64_t value)
{
    if (size == sizeof(uint8_t))
        *(uint8_t *)at = (uint8_t)value;
    else if (size == sizeof(uint32_t))
        *(uint32_t *)at = (uint32_t)value;
    else
        *(uint64_t *)at = value;
}

/* NAN where it is not known. */
static void read_share(Reader *r, const json_t *object, const char *name, double *ret)
{
    *ret = NAN;
    member_real(&r->in, object, name, ret);
}

static void read_fields(Reader *r, const json_t *from, const Field *field, void *to)
{
    for (; field->name; field++) {
        void *at = (char *)to + field->at;
        uint64_t number;

        switch (field->kind) {
        case FIELD_TEXT:
            member_copy_text(&r->in, from, field->name, at, field->size);
            break;
        case FIELD_POINTER:
            *(const char **)at = member_text(&r->in, from, field->name);
            break;
        case FIELD_BOOL:
            member_bool(&r->in, from, field->name, at);
            break;
        case FIELD_NUMBER:
            if (member_u64(&r->in, from, field->name, field->max, &number))
                set_number(at, field->size, number);
            break;
        case FIELD_SHARE:
            read_share(r, from, field->name, at);
            break;
        case FIELD_SECONDS:
            member_seconds(&r->in, from, field->name, at);
            break;
        case FIELD_TIME:
            member_time(&r->in, from, field->name, at);
            break;
        }
    }
}

/* --- lists -------------------------------------------------------------------------------------------------------- */

static void read_link(Reader *r, const json_t *from, NodeLink *link)
{
    const json_t *errors = member_object(&r->in, from, "errors");
    const char *remote = member_text(&r->in, from, "remote");
    const uint64_t now = r->to->node.time_ns;
    PciAddress pci;
    uint64_t count;
    bool up;

    if (member_bool(&r->in, from, "active", &up))
        sample_set_int64(&link->active, now, up);
    else
        sample_set_absent(&link->active, now, get_absence(r, from, "absent"));
    for (size_t i = 0; i < NODE_LINK_ERROR_END; i++)
        if (member_u64(&r->in, errors, node_link_errors[i].key, INT64_MAX, &count))
            sample_set_int64(&link->errors[i], now, (int64_t)count);
    if (!remote)
        return;
    if (pci_parse(remote, &pci) == 0)
        sample_set_int64(&link->remote, now, pci_pack(pci));
    else
        member_fail(&r->in, "remote", "PCI address");
}

/* Links that the board does not have are not told of. */
static void read_links(Reader *r, const json_t *from, NodeGpu *gpu)
{
    const json_t *list = member_list(&r->in, from, "nvlinks", NODE_LINKS_MAX);
    NodeLink *links;

    if (!list)
        return;
    links = arena_calloc(&r->to->arena, NODE_LINKS_MAX, sizeof *links);
    for (size_t i = 0; i < NODE_LINKS_MAX; i++)
        sample_set_absent(&links[i].active, r->to->node.time_ns, ABSENCE_NOT_SUPPORTED);
    gpu->link_count = 1;
    gpu->links = links;
    for (size_t at = 0; at < json_array_size(list); at++) {
        const json_t *one = json_array_get(list, at);
        uint64_t number;

        if (!member_u64(&r->in, one, "link", NODE_LINKS_MAX - 1, &number)) {
            member_fail(&r->in, "link", "number of a link");
            return;
        }
        read_link(r, one, &links[number]);
        if (number >= gpu->link_count)
            gpu->link_count = (uint32_t)number + 1;
    }
}

static void read_peer(Reader *r, const json_t *from, NodePeer *peer)
{
    const int status = member_word(&r->in, from, "nvlink_status", peer_statuses, PEER_STATUS_END);
    const uint64_t now = r->to->node.time_ns;
    uint64_t age = 0;

    if (!member_u32(&r->in, from, "gpu", &peer->index))
        member_fail(&r->in, "gpu", "number of a GPU");
    member_seconds(&r->in, from, "age_seconds", &age);
    sample_set_absent(&peer->status, now, get_absence(r, from, "absent"));
    if (status >= 0)
        sample_set_int64(&peer->status, now > age ? now - age : 0, status);
}

static void read_peers(Reader *r, const json_t *from, NodeGpu *gpu)
{
    const json_t *list = member_list(&r->in, from, "peers", NODE_GPUS_MAX);
    NodePeer *peers;

    if (!list)
        return;
    peers = arena_calloc(&r->to->arena, json_array_size(list), sizeof *peers);
    gpu->peers = peers;
    for (size_t at = 0; at < json_array_size(list); at++)
        read_peer(r, json_array_get(list, at), &peers[gpu->peer_count++]);
}

static void read_process_owner(Reader *r, const json_t *from, ProcessOwner *owner)
{
    const char *state = member_text(&r->in, from, "state");

    read_fields(r, from, process_owner_fields, owner);
    read_fields(r, from, process_usage_fields, owner);
    owner->state = state ? state[0] : '\0';
}

static void read_process(Reader *r, const json_t *from, NodeProcess *process)
{
    const char *kind = member_text(&r->in, from, "kind");
    ProcessOwner owner;

    *process = (NodeProcess){.gpu_instance = DEVICE_NO_NUMBER,
                             .compute_instance = DEVICE_NO_NUMBER,
                             .graphics = kind && strcmp(kind, "graphics") == 0,
                             .used_bytes = UINT64_MAX,
                             .sm_percent = UINT8_MAX,
                             .memory_percent = UINT8_MAX};
    if (!member_get(from, "pid"))
        member_fail(&r->in, "pid", "number of a process");
    read_fields(r, from, process_fields, process);
    process_owner_init(&owner, process->pid);
    read_process_owner(r, from, &owner);
    if (owner.start_ns || owner.name[0])
        vec_push(&r->to->processes, owner);
}

static void read_processes(Reader *r, const json_t *from, NodeGpu *gpu)
{
    const json_t *list = member_list(&r->in, from, "processes", NODE_PROCESSES_MAX);
    const uint64_t now = r->to->node.time_ns;
    NodeProcess *processes;
    uint64_t count;

    if (!list) {
        if (member_text(&r->in, from, "processes_absent"))
            sample_set_absent(&gpu->process_list, now, get_absence(r, from, "processes_absent"));
        return;
    }
    processes = arena_calloc(&r->to->arena, json_array_size(list), sizeof *processes);
    gpu->processes = processes;
    for (size_t at = 0; at < json_array_size(list); at++)
        read_process(r, json_array_get(list, at), &processes[gpu->process_count++]);
    count = gpu->process_count;
    member_u64(&r->in, from, "process_count", INT64_MAX, &count);
    sample_set_int64(&gpu->process_list, now, (int64_t)count);
}

static void read_owners(Reader *r, const json_t *from, const Device *device)
{
    const json_t *list = member_list(&r->in, from, "owners", 4096);

    for (size_t at = 0; device->uuid[0] && at < json_array_size(list); at++) {
        const json_t *one = json_array_get(list, at);
        Allocation owner = {.device = {.minor = DEVICE_NO_NUMBER,
                                       .gpu_instance = DEVICE_NO_NUMBER,
                                       .compute_instance = DEVICE_NO_NUMBER}};

        memcpy(owner.device.uuid, device->uuid, sizeof owner.device.uuid);
        read_fields(r, one, allocation_fields, &owner);
        allocation_table_add(&r->to->allocations, &owner);
    }
}

static void read_sampler(Reader *r, const json_t *from, NodeSampler *sampler)
{
    const int state = member_word(&r->in, from, "state", sampler_states, SAMPLER_STATE_END);

    if (state < 0)
        member_fail(&r->in, "state", "state of a sampler");
    else
        sampler->state = (SamplerState)state;
    read_fields(r, from, sampler_fields, sampler);
}

static void read_samplers(Reader *r, const json_t *root)
{
    const json_t *list = member_list(&r->in, root, "samplers", NODE_SAMPLERS_MAX);
    NodeSampler *samplers = arena_calloc(&r->to->arena, json_array_size(list), sizeof *samplers);

    snprintf(r->in.place, sizeof r->in.place, "samplers");
    r->to->node.samplers = samplers;
    for (size_t at = 0; at < json_array_size(list); at++)
        read_sampler(r, json_array_get(list, at), &samplers[r->to->node.sampler_count++]);
}

static void fill_place(Reader *r, const json_t *from, Place *place)
{
    const char *path = member_text(&r->in, from, "pcie_path");
    const PciAddress pci = place->pci;

    place->numa_node = -1;
    read_fields(r, from, place_fields, place);
    if (path && !place_set_path(place, path))
        member_fail(&r->in, "pcie_path", "path of PCI functions");
    place->pci = pci;
}

static void read_place(Reader *r, const json_t *from, const Device *gpu)
{
    Place place = {.pci = gpu->pci};

    fill_place(r, from, &place);
    if (gpu->has_pci && (place.path[0] || place.cpus[0] || place.numa_node >= 0))
        vec_push(&r->to->places, place);
}

static void read_adapters(Reader *r, const json_t *root)
{
    const json_t *list = member_list(&r->in, member_object(&r->in, root, "node"), "adapters", PLACE_ADAPTERS_MAX);

    snprintf(r->in.place, sizeof r->in.place, "adapters");
    for (size_t at = 0; at < json_array_size(list); at++) {
        const json_t *one = json_array_get(list, at);
        const char *pci = member_text(&r->in, one, "pci");
        Place place = {0};

        MEMBER_COPY_TEXT(&r->in, one, "name", place.adapter);
        if (!place.adapter[0] || !pci || pci_parse(pci, &place.pci) < 0)
            member_fail(&r->in, place.adapter[0] ? "pci" : "name", "name and PCI address of an adapter");
        fill_place(r, one, &place);
        vec_push(&r->to->places, place);
    }
}

/* --- a reading ---------------------------------------------------------------------------------------------------- */

static uint64_t instant_before(const Reader *r, uint64_t age_ns)
{
    return r->to->node.time_ns > age_ns ? r->to->node.time_ns - age_ns : 0;
}

static void read_sample(Reader *r, const json_t *from, const char *name, const Metric *metric, Sample *sample)
{
    const json_t *value = member_get(from, "value");
    uint64_t age = 0;

    if (!json_is_object(from) || (value && !json_is_number(value))) {
        member_fail(&r->in, name, "value of a metric");
        return;
    }
    member_seconds(&r->in, from, "age_seconds", &age);
    if (!value)
        sample_set_absent(sample, r->to->node.time_ns, get_absence(r, from, "absent"));
    else if (json_is_integer(value) && metric->value == METRIC_INT64)
        sample_set_int64(sample, instant_before(r, age), json_integer_value(value));
    else
        sample_set_double(sample, instant_before(r, age), json_number_value(value));
}

static void read_metrics(Reader *r, const json_t *from, Reading *reading)
{
    const char *name;
    json_t *one;

    json_object_foreach(member_object(&r->in, from, "metrics"), name, one)
    {
        const MetricName *found = metric_find(name);

        if (found && found->naming == METRIC_NAME_CLASSIC && metric_get(found->metric)->type != METRIC_LABEL)
            read_sample(r, one, name, metric_get(found->metric), &reading->sample[found->metric]);
    }
}

static void read_identity(Reader *r, const json_t *from, Device *device)
{
    const char *pci = member_text(&r->in, from, "pci");

    device->vendor = DEVICE_NVIDIA;
    member_u32(&r->in, from, "index", &device->index);
    read_fields(r, from, device_fields, device);
    if (!pci)
        return;
    device->has_pci = pci_parse(pci, &device->pci) == 0;
    if (!device->has_pci)
        member_fail(&r->in, "pci", "PCI address");
}

static void read_texts(Reader *r, const json_t *from, Reading *reading)
{
    for (MetricId id = 0; id < METRIC_END; id++) {
        const ReadingText slot = reading_text_of(id);

        if (slot != READING_TEXT_END)
            MEMBER_COPY_TEXT(&r->in, from, metric_get(id)->name, reading->text[slot]);
    }
}

/* A word, cause or basis that this program does not know is none. */
static void read_activity(Reader *r, const json_t *device, Activity *ret)
{
    const json_t *from = member_object(&r->in, device, "activity");
    const int word = member_word(&r->in, from, "word", activity_words, ACTIVITY_END);
    const int cause = member_word(&r->in, from, "cause", activity_causes, ACTIVITY_CAUSE_END);
    const int basis = member_word(&r->in, from, "basis", activity_bases, ACTIVITY_BASIS_END);

    ret->word = word < 0 ? ACTIVITY_UNKNOWN : (ActivityWord)word;
    ret->cause = cause < 0 ? ACTIVITY_CAUSE_NONE : (ActivityCause)cause;
    ret->basis = basis < 0 ? ACTIVITY_BASIS_NONE : (ActivityBasis)basis;
    read_fields(r, from, activity_fields, ret);
    read_fields(r, from, activity_share_fields, ret);
    const json_t *day = member_object(&r->in, from, "day_seconds");
    for (ActivityWord known = 0; known < ACTIVITY_END; known++)
        member_u32(&r->in, day, activity_words[known].key, &ret->day_s[known]);
}

/* False where its cause is one that this program does not know. */
static bool read_answer(Reader *r, const json_t *from, WhyVerdict *ret)
{
    const char *cause = member_text(&r->in, from, "cause");
    const int known = cause ? why_find(cause) : -1;
    const int confidence = member_word(&r->in, from, "confidence", why_confidences, WHY_CONFIDENCE_END);

    if (known < 0)
        return false;
    ret->cause = (WhyCause)known;
    ret->confidence = confidence < 0 ? WHY_LOW : (WhyConfidence)confidence;
    MEMBER_COPY_TEXT(&r->in, from, "text", ret->text);
    read_share(r, from, "share", &ret->share);
    return true;
}

/* None where the first is not known; of those beside it the known ones. */
static void read_verdict(Reader *r, const json_t *device, Why *ret)
{
    const json_t *from = member_object(&r->in, device, "verdict");

    if (!read_answer(r, from, &ret->verdicts[0]))
        return;
    ret->count = 1;
    member_u32(&r->in, from, "window_s", &ret->window_s);
    const json_t *list = member_list(&r->in, from, "beside", WHY_VERDICTS_MAX - 1);
    for (size_t i = 0; i < json_array_size(list) && ret->count < WHY_VERDICTS_MAX; i++)
        ret->count += read_answer(r, json_array_get(list, i), &ret->verdicts[ret->count]);
    const json_t *roof = member_object(&r->in, from, "roof");
    const int nearest = member_word(&r->in, roof, "nearest", roof_kinds, ROOF_END);
    ret->roof.nearest = nearest < 0 ? ROOF_UNKNOWN : (RoofKind)nearest;
    read_fields(r, roof, roof_fields, &ret->roof);
}

static void read_instance(Reader *r, const json_t *from, const Device *gpu, Reading *instance)
{
    reading_init(instance, DEVICE_COMPUTE_INSTANCE);
    instance->device.pci = gpu->pci;
    instance->device.has_pci = gpu->has_pci;
    memcpy(instance->device.parent_uuid, gpu->uuid, sizeof gpu->uuid);
    read_identity(r, from, &instance->device);
    MEMBER_COPY_TEXT(&r->in, from, "profile", instance->profile);
    read_metrics(r, from, instance);
    read_owners(r, from, &instance->device);
}

static void read_instances(Reader *r, const json_t *from, NodeGpu *gpu)
{
    const json_t *list = member_list(&r->in, from, "instances", NODE_INSTANCES_MAX);

    Why *verdicts = arena_calloc(&r->to->arena, json_array_size(list), sizeof *verdicts);

    gpu->instances = arena_calloc(&r->to->arena, json_array_size(list), sizeof *gpu->instances);
    gpu->instance_verdicts = verdicts;
    for (size_t at = 0; at < json_array_size(list); at++) {
        const json_t *one = json_array_get(list, at);
        const size_t i = gpu->instance_count++;
        Reading *instance = &gpu->instances[i];

        read_instance(r, one, &gpu->reading.device, instance);
        if (json_object_get(one, "activity") && !gpu->instance_activity)
            gpu->instance_activity = arena_calloc(&r->to->arena, json_array_size(list), sizeof *gpu->instance_activity);
        if (gpu->instance_activity)
            read_activity(r, one, &gpu->instance_activity[i]);
        read_verdict(r, one, &verdicts[i]);
        instance->instance_head = i == 0 || instance[-1].device.gpu_instance != instance->device.gpu_instance;
    }
}

/* --- a GPU and the node ------------------------------------------------------------------------------------------- */

static void read_state(Reader *r, const json_t *from, NodeGpu *gpu)
{
    const int state = member_word(&r->in, from, "state", gpu_states, GPU_STATE_END);
    uint64_t age;

    if (state < 0)
        member_fail(&r->in, "state", "state of a GPU");
    else
        gpu->state = (GpuState)state;
    read_fields(r, from, gpu_fields, gpu);
    if (member_seconds(&r->in, from, "last_sample_age_seconds", &age))
        gpu->last_sample_ns = instant_before(r, age);
    gpu->gpm_known = member_bool(&r->in, from, "gpm", &gpu->gpm);
}

static void read_gpu(Reader *r, const json_t *from, size_t i, NodeGpu *gpu)
{
    reading_init(&gpu->reading, DEVICE_GPU);
    snprintf(r->in.place, sizeof r->in.place, "gpus[%zu]", i);
    read_identity(r, from, &gpu->reading.device);
    read_place(r, from, &gpu->reading.device);
    read_state(r, from, gpu);
    read_activity(r, from, &gpu->activity);
    Why *verdict = arena_calloc(&r->to->arena, 1, sizeof *verdict);
    read_verdict(r, from, verdict);
    gpu->verdicts = verdict;
    read_texts(r, from, &gpu->reading);
    read_owners(r, from, &gpu->reading.device);
    read_metrics(r, from, &gpu->reading);
    read_peers(r, from, gpu);
    read_links(r, from, gpu);
    read_processes(r, from, gpu);
    read_instances(r, from, gpu);
}

static void read_head(Reader *r, const json_t *root, Node *node)
{
    const json_t *from = member_object(&r->in, root, "node");
    uint64_t released;

    snprintf(r->in.place, sizeof r->in.place, "node");
    if (!member_time(&r->in, root, "time", &node->real_ns) || node->real_ns == 0)
        member_fail(&r->in, "time", "time");
    node->time_ns = node->real_ns;
    member_u64(&r->in, root, "tick", INT64_MAX, &node->tick);
    read_fields(r, from, node_fields, node);
    node->driver = node->driver_why[0] ? NODE_DRIVER_REFUSES : NODE_DRIVER_FINE;
    if (member_seconds(&r->in, from, "released_for_seconds", &released))
        node->release_until_ns = node->time_ns + released;
}

static int compare_pids(const void *a, const void *b)
{
    const ProcessOwner *one = a, *other = b;

    return (one->pid > other->pid) - (one->pid < other->pid);
}

/* A process is told of by each GPU that it is on. */
static void sort_processes(SnapshotBuffer *to)
{
    ProcessOwner *list = to->processes.at;
    size_t kept = 0;

    vec_sort(&to->processes, compare_pids);
    for (size_t i = 0; i < to->processes.len; i++)
        if (kept == 0 || list[kept - 1].pid != list[i].pid)
            list[kept++] = list[i];
    to->processes.len = kept;
}

/* The GPU of a holding: by UUID, else by index. False: there is none. */
static bool find_gpu(Reader *r, const json_t *from, size_t *ret)
{
    const Node *node = &r->to->node;
    const char *uuid = member_text(&r->in, from, "uuid");
    uint32_t index = DEVICE_NO_NUMBER;

    member_u32(&r->in, from, "gpu", &index);
    for (size_t i = 0; i < node->gpu_count; i++) {
        const Device *device = &node->gpus[i].reading.device;

        *ret = i;
        if (uuid ? strcmp(uuid, device->uuid) == 0 : index != DEVICE_NO_NUMBER && index == device->index)
            return true;
    }
    return false;
}

static void read_owner(Reader *r, const json_t *from, Owner *owner)
{
    uint64_t pid;

    *owner = (Owner){.pid = -1};
    read_fields(r, from, owner_fields, owner);
    if (member_u64(&r->in, from, "pid", INT32_MAX, &pid))
        owner->pid = (int32_t)pid;
}

static void read_workload(Reader *r, const json_t *from, Workload *workload)
{
    MEMBER_COPY_TEXT(&r->in, from, "kind", workload->kind);
    MEMBER_COPY_TEXT(&r->in, from, "name", workload->name);
    member_bool(&r->in, from, "derived", &workload->derived);
}

static void read_holding(Reader *r, const json_t *from, Holding *holding)
{
    const json_t *instance = member_object(&r->in, from, "instance");
    const json_t *processes = member_list(&r->in, from, "processes", NODE_PROCESSES_MAX);
    const int state = member_word(&r->in, from, "state", holding_states, HOLDING_STATE_END);
    const int how = member_word(&r->in, from, "attribution", attributions, ATTRIBUTION_END);
    const int basis = member_word(&r->in, from, "basis", holding_bases, HOLDING_BASIS_END);
    const int grant = member_word(&r->in, from, "grant", holding_grants, HOLDING_GRANT_END);
    HoldingProcess *list = arena_calloc(&r->to->arena, json_array_size(processes) + 1, sizeof *list);

    member_u32(&r->in, instance, "gpu_instance", &holding->gpu_instance);
    member_u32(&r->in, instance, "compute_instance", &holding->compute_instance);
    read_owner(r, member_object(&r->in, from, "owner"), &holding->owner);
    read_workload(r, member_object(&r->in, from, "workload"), &holding->workload);
    holding->state = state >= 0 ? (HoldingState)state : HOLDING_USED;
    holding->basis = basis >= 0 ? (HoldingBasis)basis : HOLDING_BY_PROCESS;
    holding->grant = grant >= 0 ? (HoldingGrant)grant : HOLDING_GRANT_NONE;
    holding->attribution = how >= 0 ? (Attribution)how : ATTRIBUTION_UNKNOWN;
    read_share(r, from, "share", &holding->share);
    read_share(r, from, "sm_share", &holding->sm_share);
    member_u64(&r->in, from, "memory_bytes", INT64_MAX, &holding->memory_bytes);
    for (size_t i = 0; i < json_array_size(processes); i++)
        read_fields(r, json_array_get(processes, i), holding_process_fields, &list[i]);
    holding->process_count = json_array_size(processes);
    holding->processes = list;
}

/* Of a GPU that is not in the list nothing is held. */
static void read_holdings(Reader *r, const json_t *root)
{
    const json_t *list = member_list(&r->in, root, "holdings", NODE_GPUS_MAX * NODE_PROCESSES_MAX);

    for (size_t i = 0; i < json_array_size(list) && r->in.rc == 0; i++) {
        const json_t *from = json_array_get(list, i);
        Holding holding = {.gpu_instance = DEVICE_NO_NUMBER, .compute_instance = DEVICE_NO_NUMBER};

        snprintf(r->in.place, sizeof r->in.place, "holdings[%zu]", i);
        if (!find_gpu(r, from, &holding.gpu))
            continue;
        read_holding(r, from, &holding);
        vec_push(&r->to->holdings, holding);
    }
}

static void read_jobs(Reader *r, const json_t *root)
{
    const json_t *list = member_list(&r->in, root, "jobs", NODE_GPUS_MAX * NODE_PROCESSES_MAX);

    snprintf(r->in.place, sizeof r->in.place, "jobs");
    MEMBER_COPY_TEXT(&r->in, root, "unlisted_why", r->to->holders_why);
    for (size_t i = 0; i < json_array_size(list); i++)
        read_fields(r, json_array_get(list, i), job_info_fields, vec_add(&r->to->jobs));
}

static void read_node(Reader *r, const json_t *root)
{
    Node *node = &r->to->node;
    const json_t *gpus;

    if (!json_is_object(root))
        member_fail(&r->in, "this", "JSON of a node");
    read_head(r, root, node);
    gpus = member_list(&r->in, root, "gpus", NODE_GPUS_MAX);
    if (!gpus)
        member_fail(&r->in, "gpus", "list");
    node->gpus = arena_calloc(&r->to->arena, json_array_size(gpus), sizeof *node->gpus);
    for (size_t i = 0; i < json_array_size(gpus) && r->in.rc == 0; i++)
        read_gpu(r, json_array_get(gpus, i), i, &node->gpus[node->gpu_count++]);
    read_adapters(r, root);
    read_samplers(r, root);
    read_holdings(r, root);
    read_jobs(r, root);
    sort_processes(r->to);
}

/* --- beside the node ---------------------------------------------------------------------------------------------- */

static void read_incidents(Reader *r, const json_t *root)
{
    if (r->in.rc == 0 && json_is_array(json_object_get(root, "incidents")))
        r->in.rc = incidents_read_json(root, &r->to->incidents, NULL, r->in.err);
}

static void read_window(Reader *r, const json_t *from, MaintenanceWindow *window)
{
    const json_t *gpus = json_object_get(from, "gpus"), *uuids = json_object_get(from, "uuids");

    for (size_t i = 0; i < json_array_size(gpus); i++) { /* "all" leaves it empty */
        const json_int_t index = json_integer_value(json_array_get(gpus, i));

        if (json_is_integer(json_array_get(gpus, i)) && index >= 0 && index < 64)
            window->gpus |= UINT64_C(1) << index;
    }
    for (size_t i = 0; i < json_array_size(uuids) && i < MAINTENANCE_UUIDS; i++)
        if (json_is_string(json_array_get(uuids, i)))
            snprintf(window->uuids[i], sizeof window->uuids[i], "%s", json_string_value(json_array_get(uuids, i)));
    member_time(&r->in, from, "from", &window->from_real_ns);
    member_time(&r->in, from, "until", &window->until_real_ns);
    member_bool(&r->in, from, "recurring", &window->recurring);
    member_bool(&r->in, from, "active", &window->active);
    MEMBER_COPY_TEXT(&r->in, from, "id", window->id);
    MEMBER_COPY_TEXT(&r->in, from, "reason", window->reason);
    MEMBER_COPY_TEXT(&r->in, from, "who", window->who);
}

/* Windows that are over are skipped. */
static void read_maintenance(Reader *r, const json_t *root)
{
    const json_t *list = json_object_get(root, "maintenance");

    snprintf(r->in.place, sizeof r->in.place, "maintenance");
    for (size_t i = 0; i < json_array_size(list); i++) {
        MaintenanceWindow window = {.gpus = 0};

        read_window(r, json_array_get(list, i), &window);
        if (window.until_real_ns > r->to->node.real_ns)
            (void)maintenance_add(r->to->maintenance, &window, NULL);
    }
}

/* --- the buffer --------------------------------------------------------------------------------------------------- */

/* jansson's allocator: while a thread reads a snapshot, its JSON lies in the buffer's arena. Saves a fifth of the time.
 */
static _Thread_local Arena *json_arena;

static void *allocate_json(size_t size)
{
    return json_arena ? arena_alloc(json_arena, size) : malloc(size);
}

static void free_json(void *at)
{
    if (!json_arena)
        free(at);
}

static void set_json_allocator(void)
{
    json_set_alloc_funcs(allocate_json, free_json);
}

SnapshotBuffer *snapshot_buffer_new(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    SnapshotBuffer *buffer = xcalloc(1, sizeof *buffer);

    pthread_once(&once, set_json_allocator);
    arena_init(&buffer->arena, 256 << 10);
    allocation_table_init(&buffer->allocations);
    str_init(&buffer->text, SNAPSHOT_TEXT_MAX);
    return buffer;
}

static void clear_buffer(SnapshotBuffer *buffer)
{
    arena_reset(&buffer->arena);
    allocation_table_clear(&buffer->allocations);
    vec_clear(&buffer->processes);
    vec_clear(&buffer->holdings);
    vec_clear(&buffer->jobs);
    vec_clear(&buffer->places);
    vec_clear(&buffer->incidents);
    maintenance_free(TAKE(buffer->maintenance));
    buffer->boot_id[0] = buffer->holders_why[0] = '\0';
    memset(&buffer->node, 0, sizeof buffer->node);
    memset(&buffer->snapshot, 0, sizeof buffer->snapshot);
}

void snapshot_buffer_free(SnapshotBuffer *buffer)
{
    if (!buffer)
        return;
    clear_buffer(buffer);
    arena_done(&buffer->arena);
    allocation_table_done(&buffer->allocations);
    vec_done(&buffer->processes);
    vec_done(&buffer->holdings);
    vec_done(&buffer->jobs);
    vec_done(&buffer->places);
    vec_done(&buffer->incidents);
    vec_done(&buffer->open);
    str_done(&buffer->text);
    free(buffer);
}

void snapshot_list_open(SnapshotBuffer *buffer)
{
    vec_clear(&buffer->open);
    for (size_t i = 0; i < buffer->incidents.len; i++)
        if (buffer->incidents.at[i].state == INCIDENT_OPEN)
            vec_push(&buffer->open, &buffer->incidents.at[i]);
    buffer->snapshot.incidents = buffer->open.at;
    buffer->snapshot.incident_count = buffer->open.len;
}

static void point_snapshot(SnapshotBuffer *buffer, bool pods_told, uint64_t boot_real_ns)
{
    buffer->snapshot = (Snapshot){.node = &buffer->node,
                                  .allocations = &buffer->allocations,
                                  .pods_told = pods_told,
                                  .processes = {.at = buffer->processes.at, .len = buffer->processes.len},
                                  .places = {buffer->places.at, buffer->places.len},
                                  .holdings = buffer->holdings.at,
                                  .holding_count = buffer->holdings.len,
                                  .job_infos = {buffer->jobs.at, buffer->jobs.len},
                                  .holders_why = buffer->holders_why,
                                  .boot_id = buffer->boot_id,
                                  .boot_real_ns = boot_real_ns,
                                  .maintenance = buffer->maintenance};
    snapshot_list_open(buffer);
}

static int read_tree(SnapshotBuffer *buffer, const char *text, size_t len, Err *err)
{
    Reader r = {.to = buffer, .in = {.place = "node", .err = err}};
    json_error_t error;
    const json_t *root = json_loadb(text, len, 0, &error); /* in the arena: not freed */
    uint64_t boot_real_ns = 0;
    bool pods_told = false;

    if (!root)
        return err_set(err, -EINVAL, "byte %d of the JSON: %s", error.position, error.text);
    buffer->maintenance = maintenance_new();
    read_node(&r, json_is_array(json_object_get(root, "gpus")) ? root : json_object_get(root, "node"));
    read_incidents(&r, root);
    read_maintenance(&r, root);
    member_bool(&r.in, root, "pods_told", &pods_told);
    member_time(&r.in, root, "boot", &boot_real_ns);
    MEMBER_COPY_TEXT(&r.in, root, "boot_id", buffer->boot_id);
    if (r.in.rc == 0)
        point_snapshot(buffer, pods_told, boot_real_ns);
    return r.in.rc;
}

int snapshot_read(SnapshotBuffer *buffer, const char *text, size_t len, Err *err)
{
    clear_buffer(buffer);
    json_arena = &buffer->arena;
    const int rc = read_tree(buffer, text, len, err);
    json_arena = NULL;
    if (rc < 0)
        clear_buffer(buffer);
    return rc;
}
