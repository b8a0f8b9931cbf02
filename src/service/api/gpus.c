/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1/gpus: everything that is known now. */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/number.h"
#include "service/api/api.h"
#include "service/api/lists.h"
#include "service/api/write.h"

static void write_metric(Str *out, const Node *node, const Metric *metric, const Sample *sample)
{
    uint64_t age;

    str_addf(out, "\"%s\":{", metric->name);
    if (sample_age(sample, node->time_ns, &age)) {
        str_add(out, "\"value\":");
        write_sample(out, sample);
        str_addf(out, ",\"unit\":\"%s\",\"age_seconds\":", unit_symbol(metric->unit));
        write_seconds(out, age);
    } else {
        str_addf(out, "\"value\":null,\"absent\":\"%s\",\"text\":\"%s\"", absence_key(sample->absence),
                 absence_text(sample->absence));
    }
    str_addc(out, '}');
}

/* Metrics that were never asked for are left out: they say nothing about the device. */
static void write_metrics(Str *out, const Node *node, const Reading *reading)
{
    bool first = true;

    str_add(out, ",\"metrics\":{");
    for (MetricId id = 0; id < METRIC_END; id++) {
        const Sample *sample = &reading->sample[id];

        if (metric_get(id)->type == METRIC_LABEL || (!sample->valid && sample->absence == ABSENCE_NOT_YET))
            continue;
        if (!first)
            str_addc(out, ',');
        first = false;
        write_metric(out, node, metric_get(id), sample);
    }
    str_addc(out, '}');
}

static void write_texts(Str *out, const Reading *reading)
{
    for (MetricId id = 0; id < METRIC_END; id++) {
        ReadingText slot = reading_text_of(id);

        if (slot != READING_TEXT_END && slot != READING_SERIAL)
            write_text(out, metric_get(id)->name, reading->text[slot]);
    }
}

static void write_owners(Str *out, const OwnerTable *owners, const Reading *gpu, const Reading *instance)
{
    bool first = true;

    for (size_t i = 0; owners && i < owners->len; i++) {
        const Owner *o = &owners->at[i];

        if (!owner_device_is(&o->device, gpu, instance))
            continue;
        str_add(out, first ? ",\"owners\":[{" : ",{");
        str_add(out, "\"kind\":\"pod\"");
        write_text(out, "pod", o->pod);
        write_text(out, "namespace", o->namespace);
        write_text(out, "container", o->container);
        write_text(out, "pod_uid", o->pod_uid);
        write_text(out, "replica", o->device.replica);
        str_addc(out, '}');
        first = false;
    }
    if (!first)
        str_addc(out, ']');
}

static bool was_asked(const Sample *sample)
{
    return sample->valid || sample->absence != ABSENCE_NOT_YET;
}

static void write_peer(Str *out, const Node *node, const NodePeer *peer)
{
    int64_t status;
    uint64_t age;

    str_addf(out, "{\"gpu\":%" PRIu32 ",\"nvlink_status\":", peer->index);
    if (sample_int64(&peer->status, &status) && sample_age(&peer->status, node->time_ns, &age)) {
        str_addf(out, "\"%s\",\"age_seconds\":", peer_status_key((PeerStatus)status));
        write_seconds(out, age);
    } else {
        str_addf(out, "null,\"absent\":\"%s\"", absence_key(peer->status.absence));
    }
    str_addc(out, '}');
}

/* None where nobody asks for them. */
static void write_peers(Str *out, const Node *node, const NodeGpu *gpu)
{
    bool first = true;

    for (size_t i = 0; i < gpu->peer_count; i++) {
        if (!was_asked(&gpu->peers[i].status))
            continue;
        str_add(out, first ? ",\"peers\":[" : ",");
        write_peer(out, node, &gpu->peers[i]);
        first = false;
    }
    if (!first)
        str_addc(out, ']');
}

static void write_instances(Str *out, const Node *node, const NodeGpu *gpu, const OwnerTable *owners)
{
    str_add(out, ",\"instances\":[");
    for (size_t i = 0; i < gpu->instance_count; i++) {
        const Reading *instance = &gpu->instances[i];

        str_add(out, i ? ",{" : "{");
        write_identity(out, &instance->device);
        write_text(out, "profile", instance->profile);
        if (gpu->instance_activity)
            write_activity(out, node, &gpu->instance_activity[i]);
        write_owners(out, owners, &gpu->reading, instance);
        write_metrics(out, node, instance);
        str_addc(out, '}');
    }
    str_addc(out, ']');
}

static void write_place(Str *out, const Place *place)
{
    if (place->numa_node >= 0)
        str_addf(out, ",\"numa_node\":%" PRId32, place->numa_node);
    write_text(out, "cpus", place->cpus);
    write_text(out, "pcie_path", place->path);
}

static void write_adapters(Str *out, const PlaceList *places)
{
    char pci[PCI_TEXT_CAP];
    bool first = true;

    for (size_t i = 0; i < places->len; i++) {
        const Place *place = &places->at[i];

        if (!place->adapter[0])
            continue;
        str_add(out, first ? ",\"adapters\":[{\"name\":" : ",{\"name\":");
        str_add_json(out, place->adapter);
        write_text(out, "pci", pci_format(place->pci, PCI_FORM_SYSFS, pci));
        write_place(out, place);
        str_addc(out, '}');
        first = false;
    }
    if (!first)
        str_addc(out, ']');
}

static void write_gpu(Str *out, const Node *node, const NodeGpu *gpu, const ApiBeside *beside)
{
    const Place *place = gpu->reading.device.has_pci ? place_list_gpu(&beside->places, gpu->reading.device.pci) : NULL;

    str_addc(out, '{');
    write_identity(out, &gpu->reading.device);
    if (place)
        write_place(out, place);
    str_addf(out, ",\"state\":\"%s\"", gpu_state_key(gpu->state));
    write_time(out, node, "since", gpu->state_since_ns);
    write_text(out, "why", gpu->why);
    write_activity(out, node, &gpu->activity);
    if (gpu->last_sample_ns) {
        str_add(out, ",\"last_sample_age_seconds\":");
        write_seconds(out, node->time_ns > gpu->last_sample_ns ? node->time_ns - gpu->last_sample_ns : 0);
    }
    str_addf(out, ",\"mig\":%s,\"own_sampler\":%s,\"missed_calls\":%" PRIu64 ",\"failed_passes\":%" PRIu64,
             gpu->reading.mig ? "true" : "false", gpu->own_sampler ? "true" : "false", gpu->missed_calls,
             gpu->failed_passes);
    if (gpu->drained)
        str_add(out, ",\"drained\":true");
    if (gpu->gpm_known)
        str_addf(out, ",\"gpm\":%s", gpu->gpm ? "true" : "false");
    write_texts(out, &gpu->reading);
    write_owners(out, beside->owners, &gpu->reading, NULL);
    write_metrics(out, node, &gpu->reading);
    write_peers(out, node, gpu);
    write_links(out, gpu);
    write_processes(out, gpu, beside);
    write_instances(out, node, gpu, beside->owners);
    str_addc(out, '}');
}

static void write_sampler(Str *out, const Node *node, const NodeSampler *s)
{
    str_addf(out, "{\"state\":\"%s\",\"pid\":%d,\"gpus\":%" PRIu32, sampler_state_key(s->state), (int)s->pid,
             s->gpu_count);
    write_time(out, node, "since", s->since_ns);
    write_text(out, "stuck_gpu", s->gpu);
    write_text(out, "stuck_function", s->function);
    write_text(out, "wchan", s->wchan);
    if (s->rss_bytes)
        str_addf(out, ",\"rss_bytes\":%" PRIu64, s->rss_bytes);
    str_addc(out, '}');
}

void api_gpus(const Node *node, const ApiBeside *beside, Str *out)
{
    char now[CLOCK_TEXT_MAX];

    clock_format(now, node->real_ns);
    str_addf(out, "{\"time\":\"%s\",\"tick\":%" PRIu64 ",\"node\":{\"hostname\":", now, node->tick);
    str_add_json(out, node->hostname);
    write_text(out, "driver_version", node->driver_version);
    write_text(out, "nvml_version", node->nvml_version);
    write_text(out, "driver_why", node->driver_why);
    str_addf(out, ",\"gpus_expected\":%" PRIu32 ",\"gpus_found\":%" PRIu32 ",\"gpus_on_bus\":%" PRIu32,
             node->gpus_expected, node->gpus_found, node->gpus_on_bus);
    if (node->release_until_ns > node->time_ns) {
        str_add(out, ",\"released_for_seconds\":");
        write_seconds(out, node->release_until_ns - node->time_ns);
    }
    write_adapters(out, &beside->places);
    str_add(out, "},\"gpus\":[");
    for (size_t i = 0; i < node->gpu_count; i++) {
        if (i)
            str_addc(out, ',');
        write_gpu(out, node, &node->gpus[i], beside);
    }
    str_add(out, "],\"samplers\":[");
    for (size_t i = 0; i < node->sampler_count; i++) {
        if (i)
            str_addc(out, ',');
        write_sampler(out, node, &node->samplers[i]);
    }
    str_add(out, "]}\n");
}

static bool is_device(const Device *device, const char *id, const PciAddress *pci, bool is_pci)
{
    if (device->uuid[0] && strcmp(device->uuid, id) == 0)
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
