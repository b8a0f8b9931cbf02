/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "service/incident/incident.h"

/* Empty: null. */
static void add_text(Str *out, const char *name, const char *value)
{
    json_add_text(out, name, value[0] ? value : NULL);
}

static void add_number(Str *out, const char *name, uint32_t value)
{
    if (value == DEVICE_NO_NUMBER)
        json_add_null(out, name);
    else
        json_add_u64(out, name, value);
}

static void add_device(const Device *device, Str *out)
{
    char name[DEVICE_KEY_CAP] = "", pci[PCI_TEXT_CAP] = "";

    if (device_key(device, name) < 0)
        name[0] = '\0';
    if (device->has_pci)
        pci_format(device->pci, PCI_FORM_SYSFS, pci);
    json_open(out, "device", '{');
    json_add_text(out, "key", name);
    add_text(out, "kind", device_kind_text(device->kind));
    add_number(out, "index", device->index);
    add_text(out, "uuid", device->uuid[0] ? device->uuid : device->parent_uuid);
    add_text(out, "serial", device->serial);
    add_text(out, "pci", pci);
    add_text(out, "model", device->name);
    add_number(out, "link", device->link);
    json_close(out, '}');
    if (device->gpu_instance == DEVICE_NO_NUMBER) {
        json_add_null(out, "instance");
        return;
    }
    json_open(out, "instance", '{');
    json_add_u64(out, "gpu_instance", device->gpu_instance);
    add_number(out, "compute_instance", device->compute_instance);
    json_close(out, '}');
}

static void add_verdict(const Incident *incident, Str *out)
{
    add_text(out, "class", incident->class);
    add_text(out, "rule", incident->rule);
    add_number(out, "code", incident->code ? (uint32_t)incident->code : DEVICE_NO_NUMBER);
    json_open(out, "codes", '[');
    for (uint32_t i = 0; i < incident->code_count; i++)
        json_add_i64(out, NULL, incident->codes[i]);
    json_close(out, ']');
    add_text(out, "cause", fault_causes[incident->cause].key);
    add_text(out, "severity", fault_severities[incident->severity].key);
    add_text(out, "scope", fault_scopes[incident->scope].key);
    add_text(out, "action", fault_actions[incident->action].key);
    add_text(out, "action_text", fault_actions[incident->action].text);
    add_text(out, "route", fault_routes[incident->route].key);
    add_text(out, "title", incident->title);
    add_text(out, "verdict", incident->verdict);
    add_text(out, "runbook", incident->runbook);
}

static void add_process(const Incident *incident, Str *out)
{
    if (incident->pid < 0 && !incident->process[0]) {
        json_add_null(out, "process");
        return;
    }
    json_open(out, "process", '{');
    add_number(out, "pid", incident->pid < 0 ? DEVICE_NO_NUMBER : (uint32_t)incident->pid);
    add_text(out, "name", incident->process);
    json_close(out, '}');
}

static void add_evidence_list(const IncidentEvidence *evidence, uint32_t count, Str *out)
{
    for (uint32_t i = 0; i < count; i++) {
        json_open(out, NULL, '{');
        json_add_text(out, "origin", event_origin_key(evidence[i].origin));
        json_add_time(out, "at", evidence[i].real_ns);
        add_number(out, "code", evidence[i].code ? (uint32_t)evidence[i].code : DEVICE_NO_NUMBER);
        json_add_bool(out, "echo", evidence[i].echo);
        add_text(out, "text", evidence[i].text);
        json_close(out, '}');
    }
}

static void add_evidence(const Incident *incident, Str *out)
{
    json_open(out, "evidence", '[');
    add_evidence_list(incident->first, incident->first_len, out);
    add_evidence_list(incident->last, incident->last_len, out);
    json_close(out, ']');
    json_open(out, "counters", '[');
    for (uint32_t i = 0; i < incident->counter_len; i++) {
        json_open(out, NULL, '{');
        json_add_text(out, "name", incident->counters[i].name);
        json_add_double(out, "before", incident->counters[i].before);
        json_add_double(out, "after", incident->counters[i].after);
        json_close(out, '}');
    }
    json_close(out, ']');
}

void incident_json(const Incident *incident, Str *out)
{
    json_open(out, NULL, '{');
    json_add_text(out, "id", incident->id);
    json_add_u64(out, "revision", incident->revision);
    add_text(out, "state", incident_state_key(incident->state));
    add_verdict(incident, out);
    add_device(&incident->device, out);
    add_process(incident, out);
    add_text(out, "job", incident->job);
    add_text(out, "driver", incident->driver_version);
    json_add_u64(out, "count", incident->count);
    json_add_u64(out, "echo_count", incident->echo_count);
    json_add_time(out, "first", incident->first_real_ns);
    json_add_time(out, "opened", incident->opened_real_ns);
    json_add_time(out, "updated", incident->updated_real_ns);
    json_add_time(out, "cleared", incident->cleared_real_ns);
    add_text(out, "ended_by", incident_end_key(incident->end));
    json_add_u64(out, "escalations", incident->escalations);
    json_add_u64(out, "reopened", incident->reopened);
    json_add_bool(out, "before_start", incident->before);
    add_text(out, "maintenance", incident->silenced ? incident->window : "");
    add_evidence(incident, out);
    json_close(out, '}');
}

void incidents_json(const Incident *const *incidents, size_t count, const char *hostname, uint64_t real_ns, Str *out)
{
    json_open(out, NULL, '{');
    json_open(out, "incidents", '[');
    for (size_t i = 0; i < count; i++)
        incident_json(incidents[i], out);
    json_close(out, ']');
    add_text(out, "node", hostname);
    json_add_time(out, "time", real_ns);
    str_add(out, "}\n");
}

const char *event_word_key(EventWord word)
{
    static const char *const words[] = {"", "correctable", "nonfatal", "fatal"};

    return words[word];
}

static const NodeGpu *gpu_of(const Event *event, const Node *node)
{
    for (size_t i = 0; node && event->has_pci && i < node->gpu_count; i++)
        if (node->gpus[i].reading.device.has_pci && pci_compare(node->gpus[i].reading.device.pci, event->pci) == 0)
            return &node->gpus[i];
    return NULL;
}

void event_seen_json(const EventSeen *seen, Str *out)
{
    const Event *event = &seen->event;
    char pci[PCI_TEXT_CAP] = "";

    if (event->has_pci)
        pci_format(event->pci, PCI_FORM_SYSFS, pci);
    json_open(out, NULL, '{');
    json_add_text(out, "kind", event_kind_key(event->kind));
    json_add_time(out, "time", event->real_ns);
    add_text(out, "origin", event_origin_key(event->origin));
    add_number(out, "code", event->code ? (uint32_t)event->code : DEVICE_NO_NUMBER);
    add_text(out, "pci", pci);
    add_number(out, "gpu", seen->gpu);
    add_text(out, "uuid", event->uuid);
    add_number(out, "gpu_instance", event->gpu_instance);
    add_number(out, "compute_instance", event->compute_instance);
    add_number(out, "link", event->link);
    add_number(out, "pid", event->pid < 0 ? DEVICE_NO_NUMBER : (uint32_t)event->pid);
    add_text(out, "process", event->process);
    add_text(out, "word", event_word_key(event->word));
    add_text(out, "text", event->text);
    add_text(out, "incident", seen->incident);
    json_add_bool(out, "before_start", event->before);
    json_close(out, '}');
}

void event_json(const Event *event, const char *incident_id, const Node *node, Str *out)
{
    const NodeGpu *gpu = gpu_of(event, node);
    EventSeen seen = {.event = *event, .gpu = gpu ? gpu->reading.device.index : DEVICE_NO_NUMBER};

    if (gpu && gpu->reading.device.uuid[0])
        memcpy(seen.event.uuid, gpu->reading.device.uuid, sizeof seen.event.uuid);
    snprintf(seen.incident, sizeof seen.incident, "%s", incident_id);
    event_seen_json(&seen, out);
}
