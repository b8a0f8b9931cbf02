/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1/gpus, everything that is known now, and one tick as the event stream carries it. Metrics that were never
 * asked for are left out: they say nothing about the device. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/number.h"
#include "engine/owner/holdings.h"
#include "service/api/api.h"
#include "service/api/fields.h"

enum { OWNER_NAME_MAX = 1024 };

/* ---- fields ---- */

static void add_text(Str *out, const char *name, const char *text)
{
    if (text && text[0])
        json_add_text(out, name, text);
}

static uint64_t read_number(const void *at, size_t size)
{
    switch (size) {
    case sizeof(uint8_t):
        return *(const uint8_t *)at;
    case sizeof(uint32_t):
        return *(const uint32_t *)at;
    default:
        return *(const uint64_t *)at;
    }
}

/* A share has four digits. */
static void add_share(Str *out, const char *name, double share)
{
    if (!isfinite(share))
        return;
    json_add_key(out, name);
    str_addf(out, "%.4g", share);
}

static void add_fields(Str *out, const Field *field, const void *from, const Node *node)
{
    for (; field->name; field++) {
        const void *at = (const char *)from + field->at;

        if (field->kind == FIELD_TEXT)
            add_text(out, field->name, at);
        else if (field->kind == FIELD_POINTER)
            add_text(out, field->name, *(const char *const *)at);
        else if (field->kind == FIELD_SHARE)
            add_share(out, field->name, *(const double *)at);
        else if (field->skip_zero && read_number(at, field->size) == 0)
            continue;
        else if (field->kind == FIELD_BOOL)
            json_add_bool(out, field->name, *(const bool *)at);
        else if (field->kind == FIELD_SECONDS)
            json_add_seconds(out, field->name, *(const uint64_t *)at);
        else if (field->kind == FIELD_TIME)
            json_add_time(out, field->name, node_real_ns(node, *(const uint64_t *)at));
        else if (read_number(at, field->size) <= field->max)
            json_add_u64(out, field->name, read_number(at, field->size));
    }
}

/* ---- devices ---- */

void json_add_device(Str *out, const Device *device)
{
    char pci[PCI_TEXT_CAP];

    if (device->index == DEVICE_NO_NUMBER)
        json_add_null(out, "index");
    else
        json_add_u64(out, "index", device->index);
    add_fields(out, device_fields, device, NULL);
    if (device->has_pci)
        json_add_text(out, "pci", pci_format(device->pci, PCI_FORM_NVML, pci));
}

static void add_activity(Str *out, const Node *node, const Activity *activity)
{
    json_open(out, "activity", '{');
    json_add_text(out, "word", activity_words[activity->word].key);
    add_text(out, "cause", activity_causes[activity->cause].key);
    json_add_text(out, "basis", activity_bases[activity->basis].key);
    add_fields(out, activity_fields, activity, node);
    if (activity->window_s > 0)
        add_fields(out, activity_share_fields, activity, node);
    json_open(out, "day_seconds", '{');
    for (ActivityWord word = 0; word < ACTIVITY_END; word++)
        json_add_u64(out, activity_words[word].key, activity->day_s[word]);
    json_close(out, '}');
    json_close(out, '}');
}

static void add_answer(Str *out, const WhyVerdict *answer, const WhyVerdict *noticed)
{
    json_add_text(out, "cause", why_causes[answer->cause].key);
    json_add_text(out, "title", why_causes[answer->cause].title);
    json_add_text(out, "text", answer->text);
    json_add_double(out, "share", answer->share);
    json_add_text(out, "confidence", why_confidences[answer->confidence].key);
    add_text(out, "advice", why_causes[answer->cause].advice);
    add_text(out, "next", why_causes[answer->cause].next);
    json_add_bool(out, "noticed", answer == noticed);
}

void api_roof(const Roof *roof, Str *out)
{
    if (!roof->text[0]) {
        json_add_null(out, "roof");
        return;
    }
    json_open(out, "roof", '{');
    json_add_text(out, "nearest", roof_kinds[roof->nearest].key);
    add_fields(out, roof_fields, roof, NULL);
    json_close(out, '}');
}

/* What takes its time, in short; /api/v1/why has it with its numbers. Nothing where it is not decided. */
static void add_verdict(Str *out, const NodeGpu *gpu, const Reading *instance)
{
    const Why *why = node_why(gpu, instance);
    const WhyVerdict *noticed = node_is_noticed(gpu, instance) ? node_notice(gpu, instance) : NULL;

    if (why->count == 0)
        return;
    json_open(out, "verdict", '{');
    add_answer(out, &why->verdicts[0], noticed);
    json_add_u64(out, "window_s", why->window_s);
    json_open(out, "beside", '[');
    for (uint32_t i = 1; i < why->count; i++) {
        json_open(out, NULL, '{');
        add_answer(out, &why->verdicts[i], noticed);
        json_close(out, '}');
    }
    json_close(out, ']');
    if (why->roof.text[0])
        api_roof(&why->roof, out);
    json_close(out, '}');
}

/* Its number, or null. */
static void add_sample(Str *out, const char *name, const Sample *sample)
{
    int64_t whole;
    double value;

    if (sample_int64(sample, &whole))
        json_add_i64(out, name, whole);
    else
        json_add_double(out, name, sample_double(sample, &value) ? value : NAN);
}

static bool was_asked(const Sample *sample)
{
    return sample->valid || sample->absence != ABSENCE_NOT_YET;
}

static void add_metrics(Str *out, const Node *node, const Reading *reading)
{
    json_open(out, "metrics", '{');
    for (MetricId id = 0; id < METRIC_END; id++) {
        const Metric *metric = metric_get(id);
        const Sample *sample = &reading->sample[id];
        uint64_t age;

        if (metric->type == METRIC_LABEL || !was_asked(sample))
            continue;
        json_open(out, metric->name, '{');
        if (sample_age(sample, node->time_ns, &age)) {
            add_sample(out, "value", sample);
            json_add_text(out, "unit", metric_units[metric->unit].symbol);
            json_add_seconds(out, "age_seconds", age);
        } else {
            json_add_null(out, "value");
            json_add_text(out, "absent", absences[sample->absence].key);
            json_add_text(out, "text", absences[sample->absence].text);
        }
        json_close(out, '}');
    }
    json_close(out, '}');
}

static void add_texts(Str *out, const Reading *reading)
{
    for (MetricId id = 0; id < METRIC_END; id++) {
        ReadingText slot = reading_text_of(id);

        if (slot != READING_TEXT_END && slot != READING_SERIAL)
            add_text(out, metric_get(id)->name, reading->text[slot]);
    }
}

static void add_allocations(Str *out, const AllocationTable *allocations, const Reading *gpu, const Reading *instance)
{
    bool any = false;

    for (size_t i = 0; allocations && i < allocations->len; i++) {
        const Allocation *allocation = &allocations->at[i];

        if (!allocation_device_is(&allocation->device, gpu, instance))
            continue;
        if (!any)
            json_open(out, "owners", '[');
        any = true;
        json_open(out, NULL, '{');
        json_add_text(out, "kind", "pod");
        add_fields(out, allocation_fields, allocation, NULL);
        json_close(out, '}');
    }
    if (any)
        json_close(out, ']');
}

/* ---- what a GPU has several of ---- */

/* None where nobody asks for them. */
static void add_peers(Str *out, const Node *node, const NodeGpu *gpu)
{
    bool any = false;

    for (size_t i = 0; i < gpu->peer_count; i++) {
        const NodePeer *peer = &gpu->peers[i];
        int64_t status;
        uint64_t age;

        if (!was_asked(&peer->status))
            continue;
        if (!any)
            json_open(out, "peers", '[');
        any = true;
        json_open(out, NULL, '{');
        json_add_u64(out, "gpu", peer->index);
        if (sample_int64(&peer->status, &status) && sample_age(&peer->status, node->time_ns, &age)) {
            json_add_text(out, "nvlink_status", peer_statuses[status].key);
            json_add_seconds(out, "age_seconds", age);
        } else {
            json_add_null(out, "nvlink_status");
            json_add_text(out, "absent", absences[peer->status.absence].key);
        }
        json_close(out, '}');
    }
    if (any)
        json_close(out, ']');
}

static void add_link(Str *out, uint32_t number, const NodeLink *link)
{
    char pci[PCI_TEXT_CAP];
    PciAddress at;
    int64_t up, remote;

    json_open(out, NULL, '{');
    json_add_u64(out, "link", number);
    if (sample_int64(&link->active, &up)) {
        json_add_bool(out, "active", up != 0);
    } else {
        json_add_null(out, "active");
        json_add_text(out, "absent", absences[link->active.absence].key);
    }
    if (sample_int64(&link->remote, &remote) && pci_unpack(remote, &at))
        json_add_text(out, "remote", pci_format(at, PCI_FORM_SYSFS, pci));
    json_open(out, "errors", '{');
    for (size_t i = 0; i < NODE_LINK_ERROR_END; i++)
        if (link->errors[i].valid)
            add_sample(out, node_link_errors[i].key, &link->errors[i]);
    json_close(out, '}');
    json_close(out, '}');
}

static void add_links(Str *out, const NodeGpu *gpu)
{
    if (gpu->link_count == 0)
        return;
    json_open(out, "nvlinks", '[');
    for (uint32_t i = 0; i < gpu->link_count; i++) {
        const Sample *active = &gpu->links[i].active;

        if (active->valid || active->absence != ABSENCE_NOT_SUPPORTED) /* else the board has no such link */
            add_link(out, i, &gpu->links[i]);
    }
    json_close(out, ']');
}

static void add_process_owner(Str *out, const ProcessOwner *owner, const Allocation *pod)
{
    const char state[] = {owner->state, '\0'};
    ProcessOwner shown = *owner;

    if (pod) {
        snprintf(shown.pod, sizeof shown.pod, "%s", pod->pod);
        snprintf(shown.namespace, sizeof shown.namespace, "%s", pod->namespace);
    }
    add_fields(out, process_owner_fields, &shown, NULL);
    if (owner->start_ns == 0)
        return;
    add_text(out, "state", state);
    add_fields(out, process_usage_fields, owner, NULL);
}

static void add_processes(Str *out, const Snapshot *snapshot, const NodeGpu *gpu)
{
    int64_t count;

    if (!sample_int64(&gpu->process_list, &count)) {
        if (gpu->process_list.absence != ABSENCE_NOT_YET) {
            json_add_null(out, "processes");
            json_add_text(out, "processes_absent", absences[gpu->process_list.absence].key);
        }
        return;
    }
    json_add_i64(out, "process_count", count);
    json_open(out, "processes", '[');
    for (size_t i = 0; i < gpu->process_count; i++) {
        const NodeProcess *process = &gpu->processes[i];
        const ProcessOwner *owner = process_list_find(&snapshot->processes, process->pid);

        json_open(out, NULL, '{');
        json_add_text(out, "kind", process->graphics ? "graphics" : "compute");
        add_fields(out, process_fields, process, NULL);
        if (owner)
            add_process_owner(out, owner, allocation_find_pod(snapshot->allocations, owner->pod_uid, &gpu->reading));
        json_close(out, '}');
    }
    json_close(out, ']');
}

static void add_instances(Str *out, const Snapshot *snapshot, const NodeGpu *gpu)
{
    json_open(out, "instances", '[');
    for (size_t i = 0; i < gpu->instance_count; i++) {
        const Reading *instance = &gpu->instances[i];

        json_open(out, NULL, '{');
        json_add_device(out, &instance->device);
        add_text(out, "profile", instance->profile);
        if (gpu->instance_activity)
            add_activity(out, snapshot->node, &gpu->instance_activity[i]);
        add_verdict(out, gpu, &gpu->instances[i]);
        add_allocations(out, snapshot->allocations, &gpu->reading, instance);
        add_metrics(out, snapshot->node, instance);
        json_close(out, '}');
    }
    json_close(out, ']');
}

/* ---- who holds what ---- */

void api_owner(const Owner *owner, Str *out)
{
    CLEANUP(str_done) Str name = str_limited(OWNER_NAME_MAX);

    json_open(out, "owner", '{');
    for (const Field *field = owner_fields; field->name; field++) {
        const char *text = (const char *)owner + field->at;

        json_add_text(out, field->name, text[0] ? text : NULL);
    }
    owner_add_text(owner, &name);
    json_add_text(out, "text", name.text);
    if (owner->pid >= 0)
        json_add_i64(out, "pid", owner->pid);
    else
        json_add_null(out, "pid");
    json_close(out, '}');
}

static void add_workload(Str *out, const Workload *workload)
{
    if (!workload->name[0]) {
        json_add_null(out, "workload");
        return;
    }
    json_open(out, "workload", '{');
    json_add_text(out, "kind", workload->kind[0] ? workload->kind : NULL);
    json_add_text(out, "name", workload->name);
    json_add_bool(out, "derived", workload->derived);
    json_close(out, '}');
}

void api_instance(const Device *device, Str *out)
{
    if (device->gpu_instance == DEVICE_NO_NUMBER) {
        json_add_null(out, "instance");
        return;
    }
    json_open(out, "instance", '{');
    json_add_u64(out, "gpu_instance", device->gpu_instance);
    if (device->compute_instance == DEVICE_NO_NUMBER)
        json_add_null(out, "compute_instance");
    else
        json_add_u64(out, "compute_instance", device->compute_instance);
    json_close(out, '}');
}

void api_holding(const Snapshot *snapshot, const Holding *holding, Str *out)
{
    const Device *gpu = &snapshot->node->gpus[holding->gpu].reading.device;

    json_open(out, NULL, '{');
    if (gpu->index == DEVICE_NO_NUMBER)
        json_add_null(out, "gpu");
    else
        json_add_u64(out, "gpu", gpu->index);
    json_add_text(out, "uuid", gpu->uuid[0] ? gpu->uuid : NULL);
    api_instance(&(Device){.gpu_instance = holding->gpu_instance, .compute_instance = holding->compute_instance}, out);
    api_owner(&holding->owner, out);
    add_workload(out, &holding->workload);
    json_add_text(out, "state", holding_states[holding->state].key);
    json_add_text(out, "basis", holding_bases[holding->basis].key);
    json_add_text(out, "grant", holding_grants[holding->grant].key);
    json_add_text(out, "attribution", attributions[holding->attribution].key);
    json_add_text(out, "activity", activity_words[holding_activity(holding, snapshot->node)].key);
    json_add_double(out, "share", holding->share);
    json_add_double(out, "sm_share", holding->sm_share);
    json_add_u64(out, "memory_bytes", holding->memory_bytes);
    json_open(out, "processes", '[');
    for (size_t i = 0; i < holding->process_count; i++) {
        json_open(out, NULL, '{');
        add_fields(out, holding_process_fields, &holding->processes[i], NULL);
        json_close(out, '}');
    }
    json_close(out, ']');
    json_close(out, '}');
}

void api_job(const JobInfo *job, Str *out)
{
    json_open(out, NULL, '{');
    add_fields(out, job_info_fields, job, NULL);
    json_close(out, '}');
}

static void add_jobs(Str *out, const Snapshot *snapshot)
{
    if (snapshot->job_infos.len == 0)
        return;
    json_open(out, "jobs", '[');
    for (size_t i = 0; i < snapshot->job_infos.len; i++)
        api_job(&snapshot->job_infos.at[i], out);
    json_close(out, ']');
}

static void add_holdings(Str *out, const Snapshot *snapshot)
{
    if (snapshot->holders_why && snapshot->holders_why[0])
        json_add_text(out, "unlisted_why", snapshot->holders_why);
    if (snapshot->holding_count == 0)
        return;
    json_open(out, "holdings", '[');
    for (size_t i = 0; i < snapshot->holding_count; i++)
        api_holding(snapshot, &snapshot->holdings[i], out);
    json_close(out, ']');
}

/* ---- the node ---- */

static void add_place(Str *out, const Place *place)
{
    add_fields(out, place_fields, place, NULL);
    add_text(out, "pcie_path", place->path);
}

static void add_adapters(Str *out, const PlaceList *places)
{
    char pci[PCI_TEXT_CAP];
    bool any = false;

    for (size_t i = 0; i < places->len; i++) {
        const Place *place = &places->at[i];

        if (!place->adapter[0])
            continue;
        if (!any)
            json_open(out, "adapters", '[');
        any = true;
        json_open(out, NULL, '{');
        json_add_text(out, "name", place->adapter);
        json_add_text(out, "pci", pci_format(place->pci, PCI_FORM_SYSFS, pci));
        add_place(out, place);
        json_close(out, '}');
    }
    if (any)
        json_close(out, ']');
}

/* Opens the object of a GPU: who it is, where, and whether it is there. */
static void open_gpu(Str *out, const Snapshot *snapshot, const NodeGpu *gpu)
{
    const Device *device = &gpu->reading.device;
    const Place *place = device->has_pci ? place_list_gpu(&snapshot->places, device->pci) : NULL;

    json_open(out, NULL, '{');
    json_add_device(out, device);
    if (place)
        add_place(out, place);
    json_add_text(out, "state", gpu_states[gpu->state].key);
}

static void add_gpu(Str *out, const Snapshot *snapshot, const NodeGpu *gpu)
{
    const Node *node = snapshot->node;

    open_gpu(out, snapshot, gpu);
    add_activity(out, node, &gpu->activity);
    add_verdict(out, gpu, NULL);
    if (gpu->last_sample_ns)
        json_add_seconds(out, "last_sample_age_seconds",
                         node->time_ns > gpu->last_sample_ns ? node->time_ns - gpu->last_sample_ns : 0);
    add_fields(out, gpu_fields, gpu, node);
    if (gpu->gpm_known)
        json_add_bool(out, "gpm", gpu->gpm);
    add_texts(out, &gpu->reading);
    add_allocations(out, snapshot->allocations, &gpu->reading, NULL);
    add_metrics(out, node, &gpu->reading);
    add_peers(out, node, gpu);
    add_links(out, gpu);
    add_processes(out, snapshot, gpu);
    add_instances(out, snapshot, gpu);
    json_close(out, '}');
}

void api_gpus(const Snapshot *snapshot, Str *out)
{
    const Node *node = snapshot->node;

    str_addc(out, '{');
    json_add_time(out, "time", node->real_ns);
    json_add_u64(out, "tick", node->tick);
    json_open(out, "node", '{');
    add_fields(out, node_fields, node, node);
    if (node->release_until_ns > node->time_ns)
        json_add_seconds(out, "released_for_seconds", node->release_until_ns - node->time_ns);
    add_adapters(out, &snapshot->places);
    json_close(out, '}');
    json_open(out, "gpus", '[');
    for (size_t i = 0; i < node->gpu_count; i++)
        add_gpu(out, snapshot, &node->gpus[i]);
    json_close(out, ']');
    json_open(out, "samplers", '[');
    for (size_t i = 0; i < node->sampler_count; i++) {
        json_open(out, NULL, '{');
        json_add_text(out, "state", sampler_states[node->samplers[i].state].key);
        add_fields(out, sampler_fields, &node->samplers[i], node);
        json_close(out, '}');
    }
    json_close(out, ']');
    add_holdings(out, snapshot);
    add_jobs(out, snapshot);
    str_add(out, "}\n");
}

/* ---- devices alone ---- */

/* The one metric that `stoker kubelet` needs; its age would make each answer another one. */
static void add_memory_size(Str *out, const Reading *reading)
{
    const Sample *sample = &reading->sample[METRIC_FB_TOTAL];
    int64_t mebibytes;

    json_open(out, "metrics", '{');
    if (was_asked(sample)) {
        json_open(out, metric_get(METRIC_FB_TOTAL)->name, '{');
        if (sample_int64(sample, &mebibytes))
            json_add_i64(out, "value", mebibytes);
        else
            json_add_text(out, "absent", absences[sample->absence].key);
        json_close(out, '}');
    }
    json_close(out, '}');
}

static void add_device_alone(Str *out, const Snapshot *snapshot, const NodeGpu *gpu)
{
    open_gpu(out, snapshot, gpu);
    json_add_bool(out, "mig", gpu->reading.mig);
    json_add_bool(out, "drained", gpu->drained);
    add_memory_size(out, &gpu->reading);
    add_links(out, gpu);
    json_open(out, "instances", '[');
    for (size_t i = 0; i < gpu->instance_count; i++) {
        json_open(out, NULL, '{');
        json_add_device(out, &gpu->instances[i].device);
        add_text(out, "profile", gpu->instances[i].profile);
        json_close(out, '}');
    }
    json_close(out, ']');
    json_close(out, '}');
}

void api_devices(const Snapshot *snapshot, bool time, Str *out)
{
    const Node *node = snapshot->node;

    json_open(out, "node", '{');
    if (time)
        json_add_time(out, "time", node->real_ns);
    json_open(out, "node", '{');
    json_add_text(out, "hostname", node->hostname);
    add_text(out, "driver_version", node->driver_version);
    add_adapters(out, &snapshot->places);
    json_close(out, '}');
    json_open(out, "gpus", '[');
    for (size_t i = 0; i < node->gpu_count; i++)
        add_device_alone(out, snapshot, &node->gpus[i]);
    json_close(out, ']');
    json_close(out, '}');
}

/* ---- a tick ---- */

/* What this device will not have in the next second either is not worth a null in each. */
static bool is_told_each_tick(MetricId id, const Sample *sample)
{
    if (metric_get(id)->type == METRIC_LABEL || !metric_get(id)->history)
        return false;
    if (sample->valid)
        return true;
    switch (sample->absence) {
    case ABSENCE_NOT_YET:
    case ABSENCE_NOT_SUPPORTED:
    case ABSENCE_DRIVER_LACKS:
    case ABSENCE_DEPRECATED:
    case ABSENCE_TURNED_OFF:
        return false;
    default:
        return true;
    }
}

/* The ages of counters that have counted something: how fast one grows is known only by when it was sampled. */
static void add_counter_ages(Str *out, const Node *node, const Reading *reading)
{
    bool any = false;

    for (MetricId id = 0; id < METRIC_END; id++) {
        const Sample *sample = &reading->sample[id];
        double value;
        uint64_t age;

        if (metric_get(id)->type != METRIC_COUNTER || !is_told_each_tick(id, sample) ||
            !sample_double(sample, &value) || value == 0 || !sample_age(sample, node->time_ns, &age))
            continue;
        if (!any)
            json_open(out, "counter_age_seconds", '{');
        any = true;
        json_add_seconds(out, metric_get(id)->name, age);
    }
    if (any)
        json_close(out, '}');
}

static void add_values(Str *out, const Node *node, const Reading *reading)
{
    json_open(out, "metrics", '{');
    for (MetricId id = 0; id < METRIC_END; id++)
        if (is_told_each_tick(id, &reading->sample[id]))
            add_sample(out, metric_get(id)->name, &reading->sample[id]);
    json_close(out, '}');
    add_counter_ages(out, node, reading);
}

/* "fast":{"NAME":[...],...,"age_seconds":[...]}: what happened within the tick. */
static void add_fast(Str *out, const Node *node, const NodeGpu *gpu)
{
    if (gpu->fast_count == 0)
        return;
    json_open(out, "fast", '{');
    json_open(out, "age_seconds", '[');
    for (size_t i = 0; i < gpu->fast_count; i++)
        json_add_seconds(out, NULL, node->time_ns > gpu->fast[i].time_ns ? node->time_ns - gpu->fast[i].time_ns : 0);
    json_close(out, ']');
    for (int k = 0; metric_fast_at(k) != METRIC_END; k++) {
        json_open(out, metric_get(metric_fast_at(k))->name, '[');
        for (size_t i = 0; i < gpu->fast_count; i++)
            json_add_double(out, NULL, gpu->fast[i].valid >> k & 1 ? gpu->fast[i].value[k] : NAN);
        json_close(out, ']');
    }
    json_close(out, '}');
}

static void add_gpu_tick(Str *out, const Node *node, const NodeGpu *gpu)
{
    json_open(out, NULL, '{');
    json_add_device(out, &gpu->reading.device);
    json_add_text(out, "state", gpu_states[gpu->state].key);
    add_text(out, "why", gpu->why);
    add_activity(out, node, &gpu->activity);
    add_verdict(out, gpu, NULL);
    add_values(out, node, &gpu->reading);
    add_fast(out, node, gpu);
    json_open(out, "instances", '[');
    for (size_t i = 0; i < gpu->instance_count; i++) {
        json_open(out, NULL, '{');
        json_add_device(out, &gpu->instances[i].device);
        if (gpu->instance_activity)
            add_activity(out, node, &gpu->instance_activity[i]);
        add_verdict(out, gpu, &gpu->instances[i]);
        add_values(out, node, &gpu->instances[i]);
        json_close(out, '}');
    }
    json_close(out, ']');
    json_close(out, '}');
}

void api_tick(const Node *node, Str *out)
{
    str_addc(out, '{');
    json_add_time(out, "time", node->real_ns);
    json_add_u64(out, "tick", node->tick);
    json_open(out, "gpus", '[');
    for (size_t i = 0; i < node->gpu_count; i++)
        add_gpu_tick(out, node, &node->gpus[i]);
    json_close(out, ']');
    json_close(out, '}');
}

/* ---- a device by its name ---- */

static bool is_device(const Device *device, const char *id, const PciAddress *pci, bool is_pci)
{
    if (device->uuid[0] && strcasecmp(device->uuid, id) == 0)
        return true;
    return is_pci && device->kind == DEVICE_GPU && device->has_pci && pci_compare(device->pci, *pci) == 0;
}

const Reading *api_find(const Node *node, const char *id, const NodeGpu **ret_gpu)
{
    PciAddress pci;
    uint64_t index;
    bool is_pci = pci_parse(id, &pci) == 0;
    bool is_index = number_parse_u64(id, 0, UINT32_MAX - 1, &index, NULL) == 0;

    for (size_t i = 0; i < node->gpu_count; i++) {
        const NodeGpu *gpu = &node->gpus[i];

        *ret_gpu = gpu;
        if (is_device(&gpu->reading.device, id, &pci, is_pci) || (is_index && gpu->reading.device.index == index))
            return &gpu->reading;
        for (size_t k = 0; k < gpu->instance_count; k++)
            if (is_device(&gpu->instances[k].device, id, &pci, is_pci))
                return &gpu->instances[k];
    }
    *ret_gpu = NULL;
    return NULL;
}
