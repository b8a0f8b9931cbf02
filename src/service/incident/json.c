/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/number.h"
#include "service/incident/incident.h"

static void key(Str *out, const char *name)
{
    str_addf(out, ",\"%s\":", name);
}

/* Empty: null. */
static void text(Str *out, const char *name, const char *value)
{
    key(out, name);
    if (value[0])
        str_add_json(out, value);
    else
        str_add(out, "null");
}

/* 0: null. */
static void time_of(Str *out, const char *name, uint64_t real_ns)
{
    char at[CLOCK_TEXT_MAX];

    key(out, name);
    if (real_ns == 0) {
        str_add(out, "null");
        return;
    }
    clock_format(at, real_ns);
    str_addf(out, "\"%s\"", at);
}

static void number_or_null(Str *out, const char *name, uint32_t value)
{
    key(out, name);
    if (value == DEVICE_NO_NUMBER)
        str_add(out, "null");
    else
        str_addf(out, "%u", value);
}

static void real(Str *out, const char *name, double value)
{
    char digits[NUMBER_DOUBLE_MAX];

    key(out, name);
    if (isfinite(value))
        str_addn(out, digits, number_write_double(digits, value));
    else
        str_add(out, "null");
}

static void add_device(const Device *device, Str *out)
{
    char name[DEVICE_KEY_CAP] = "", pci[PCI_TEXT_CAP] = "";

    if (device_key(device, name) < 0)
        name[0] = '\0';
    if (device->has_pci)
        pci_format(device->pci, PCI_FORM_SYSFS, pci);
    str_add(out, ",\"device\":{\"key\":");
    str_add_json(out, name);
    text(out, "kind", device_kind_text(device->kind));
    number_or_null(out, "index", device->index);
    text(out, "uuid", device->uuid[0] ? device->uuid : device->parent_uuid);
    text(out, "serial", device->serial);
    text(out, "pci", pci);
    text(out, "model", device->name);
    number_or_null(out, "link", device->link);
    str_addc(out, '}');
    key(out, "instance");
    if (device->gpu_instance == DEVICE_NO_NUMBER) {
        str_add(out, "null");
        return;
    }
    str_addf(out, "{\"gpu_instance\":%u", device->gpu_instance);
    number_or_null(out, "compute_instance", device->compute_instance);
    str_addc(out, '}');
}

static void add_verdict(const Incident *incident, Str *out)
{
    text(out, "class", incident->class);
    text(out, "rule", incident->rule);
    number_or_null(out, "code", incident->code ? (uint32_t)incident->code : DEVICE_NO_NUMBER);
    str_add(out, ",\"codes\":[");
    for (uint32_t i = 0; i < incident->code_count; i++)
        str_addf(out, "%s%d", i ? "," : "", incident->codes[i]);
    str_addc(out, ']');
    text(out, "cause", fault_causes[incident->cause].key);
    text(out, "severity", fault_severities[incident->severity].key);
    text(out, "scope", fault_scopes[incident->scope].key);
    text(out, "action", fault_actions[incident->action].key);
    text(out, "action_text", fault_actions[incident->action].text);
    text(out, "route", fault_routes[incident->route].key);
    text(out, "title", incident->title);
    text(out, "verdict", incident->verdict);
    text(out, "runbook", incident->runbook);
}

static void add_process(const Incident *incident, Str *out)
{
    key(out, "process");
    if (incident->pid < 0 && !incident->process[0]) {
        str_add(out, "null");
        return;
    }
    str_add(out, "{\"pid\":");
    if (incident->pid < 0)
        str_add(out, "null");
    else
        str_addf(out, "%d", incident->pid);
    text(out, "name", incident->process);
    str_addc(out, '}');
}

static void add_signs(const IncidentSign *signs, uint32_t count, bool *comma, Str *out)
{
    for (uint32_t i = 0; i < count; i++) {
        str_addf(out, "%s{\"origin\":\"%s\"", *comma ? "," : "", event_origin_key(signs[i].origin));
        time_of(out, "at", signs[i].real_ns);
        number_or_null(out, "code", signs[i].code ? (uint32_t)signs[i].code : DEVICE_NO_NUMBER);
        str_addf(out, ",\"echo\":%s", signs[i].echo ? "true" : "false");
        text(out, "text", signs[i].text);
        str_addc(out, '}');
        *comma = true;
    }
}

static void add_evidence(const Incident *incident, Str *out)
{
    bool comma = false;

    str_add(out, ",\"evidence\":[");
    add_signs(incident->first, incident->first_len, &comma, out);
    add_signs(incident->last, incident->last_len, &comma, out);
    str_add(out, "],\"counters\":[");
    for (uint32_t i = 0; i < incident->counter_len; i++) {
        str_addf(out, "%s{\"name\":", i ? "," : "");
        str_add_json(out, incident->counters[i].name);
        real(out, "before", incident->counters[i].before);
        real(out, "after", incident->counters[i].after);
        str_addc(out, '}');
    }
    str_addc(out, ']');
}

void incident_json(const Incident *incident, Str *out)
{
    str_add(out, "{\"id\":");
    str_add_json(out, incident->id);
    str_addf(out, ",\"revision\":%llu", (unsigned long long)incident->revision);
    text(out, "state", incident_state_key(incident->state));
    add_verdict(incident, out);
    add_device(&incident->device, out);
    add_process(incident, out);
    text(out, "job", incident->job);
    text(out, "driver", incident->driver_version);
    str_addf(out, ",\"count\":%llu,\"echo_count\":%llu", (unsigned long long)incident->count,
             (unsigned long long)incident->echo_count);
    time_of(out, "first", incident->first_real_ns);
    time_of(out, "opened", incident->opened_real_ns);
    time_of(out, "updated", incident->updated_real_ns);
    time_of(out, "cleared", incident->cleared_real_ns);
    text(out, "ended_by", incident_end_key(incident->end));
    str_addf(out, ",\"escalations\":%u,\"reopened\":%u,\"before_start\":%s", incident->escalations, incident->reopened,
             incident->before ? "true" : "false");
    text(out, "maintenance", incident->silenced ? incident->window : "");
    add_evidence(incident, out);
    str_addc(out, '}');
}

void incidents_json(const Incident *const *incidents, size_t count, const char *hostname, uint64_t real_ns, Str *out)
{
    str_add(out, "{\"incidents\":[");
    for (size_t i = 0; i < count; i++) {
        if (i)
            str_addc(out, ',');
        incident_json(incidents[i], out);
    }
    str_addc(out, ']');
    text(out, "node", hostname);
    time_of(out, "time", real_ns);
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
    str_addf(out, "{\"kind\":\"%s\"", event_kind_key(event->kind));
    time_of(out, "time", event->real_ns);
    text(out, "origin", event_origin_key(event->origin));
    number_or_null(out, "code", event->code ? (uint32_t)event->code : DEVICE_NO_NUMBER);
    text(out, "pci", pci);
    number_or_null(out, "gpu", seen->gpu);
    text(out, "uuid", event->uuid);
    number_or_null(out, "gpu_instance", event->gpu_instance);
    number_or_null(out, "compute_instance", event->compute_instance);
    number_or_null(out, "link", event->link);
    number_or_null(out, "pid", event->pid < 0 ? DEVICE_NO_NUMBER : (uint32_t)event->pid);
    text(out, "process", event->process);
    text(out, "word", event_word_key(event->word));
    text(out, "text", event->text);
    text(out, "incident", seen->incident);
    str_addf(out, ",\"before_start\":%s}", event->before ? "true" : "false");
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
