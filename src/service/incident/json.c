/* SPDX-License-Identifier: Apache-2.0 */
/* Incidents and events as JSON, and back. What is missing or of another type when they are read stays unknown. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/duration.h"
#include "base/json.h"
#include "base/number.h"
#include "service/incident/incident.h"
#include "service/json/members.h"

CLEANUP_POINTER(json_t, json_decref);

/* --- incidents ---------------------------------------------------------------------------------------------------- */

static void convert_verdict(const Convert *f, Incident *incident)
{
    const json_t *codes;

    CONVERT_TEXT(f, "class", incident->class);
    CONVERT_TEXT(f, "rule", incident->rule);
    convert_code(f, "code", &incident->code, 0);
    const uint32_t count = convert_open_list(f, "codes", incident->code_count, INCIDENT_CODES, &codes);
    for (uint32_t i = 0; i < count; i++) {
        const json_int_t code = json_integer_value(json_array_get(codes, i));

        if (f->out)
            json_add_i64(f->out, NULL, incident->codes[i]);
        else if (code > 0 && code <= INT32_MAX)
            incident->codes[incident->code_count++] = (int32_t)code;
    }
    convert_close(f, ']');
    convert_word(f, "cause", &incident->cause, fault_causes, CAUSE_END);
    convert_word(f, "severity", &incident->severity, fault_severities, SEVERITY_END);
    convert_word(f, "scope", &incident->scope, fault_scopes, SCOPE_END);
    convert_word(f, "action", &incident->action, fault_actions, ACTION_END);
    if (f->out)
        json_add_text(f->out, "action_text", incident_action(incident));
    convert_word(f, "route", &incident->route, fault_routes, ROUTE_END);
    CONVERT_TEXT(f, "title", incident->title);
    CONVERT_TEXT(f, "verdict", incident->verdict);
    CONVERT_TEXT(f, "runbook", incident->runbook);
}

/* Of the key of a part, "gpu/GPU-../link/3", what it is part of. */
static void find_parent(const char *key, Device *device)
{
    const char *parent = strchr(key, '/');
    PciAddress pci;

    if (!parent || device->kind == DEVICE_GPU || device->kind == DEVICE_SWITCH)
        return;
    snprintf(device->parent_uuid, sizeof device->parent_uuid, "%.*s", (int)strcspn(parent + 1, "/"), parent + 1);
    if (pci_parse(device->parent_uuid, &pci) == 0)
        device->parent_uuid[0] = '\0';
    if (strcmp(device->uuid, device->parent_uuid) == 0)
        device->uuid[0] = '\0';
}

/* Without a UUID of its own it has that of its GPU. */
static void convert_device(const Convert *f, Device *device)
{
    const Convert own = convert_open(f, "device");
    char key[DEVICE_KEY_CAP] = "";

    if (f->out && device_key(device, key) < 0)
        key[0] = '\0';
    if (f->out && !device->uuid[0])
        memcpy(device->uuid, device->parent_uuid, sizeof device->uuid);
    CONVERT_TEXT(&own, "key", key);
    convert_word(&own, "kind", &device->kind, device_kinds, DEVICE_KIND_END);
    convert_number(&own, "index", &device->index);
    CONVERT_TEXT(&own, "uuid", device->uuid);
    CONVERT_TEXT(&own, "serial", device->serial);
    convert_pci(&own, &device->has_pci, &device->pci, PCI_FORM_SYSFS);
    CONVERT_TEXT(&own, "model", device->name);
    convert_number(&own, "link", &device->link);
    convert_close(f, '}');
    if (!f->out)
        find_parent(key, device);
    if (f->out && device->gpu_instance == DEVICE_NO_NUMBER) {
        json_add_null(f->out, "instance");
        return;
    }
    const Convert instance = convert_open(f, "instance");
    convert_number(&instance, "gpu_instance", &device->gpu_instance);
    convert_number(&instance, "compute_instance", &device->compute_instance);
    convert_close(f, '}');
}

static void convert_part(const Convert *f, IncidentPart *part)
{
    if (f->out && !part->known) {
        json_add_null(f->out, "part");
        return;
    }
    const Convert in = convert_open(f, "part");
    part->link = f->out ? part->link : DEVICE_NO_NUMBER;
    convert_pci(&in, &part->known, &part->pci, PCI_FORM_SYSFS);
    convert_number(&in, "link", &part->link);
    convert_close(f, '}');
}

static void convert_process(const Convert *f, Incident *incident)
{
    if (f->out && incident->pid < 0 && !incident->process[0]) {
        json_add_null(f->out, "process");
        return;
    }
    const Convert process = convert_open(f, "process");
    convert_code(&process, "pid", &incident->pid, -1);
    CONVERT_TEXT(&process, "name", incident->process);
    convert_close(f, '}');
}

/* With a sentence of the same, which is not read. */
static void convert_owners(const Convert *f, Incident *incident)
{
    char affected[2048] = "";
    const json_t *list;
    Str text;
    const uint32_t count = convert_open_list(
        f, "owners", (uint32_t)number_min_u64(incident->owner_count, INCIDENT_OWNERS), INCIDENT_OWNERS, &list);

    for (uint32_t i = 0; i < count; i++) {
        const Convert one = convert_open_element(f, list, i);
        Owner *owner = &incident->owners[i];

        CONVERT_TEXT(&one, "user", owner->user);
        CONVERT_TEXT(&one, "job", owner->job);
        CONVERT_TEXT(&one, "pod", owner->pod);
        CONVERT_TEXT(&one, "namespace", owner->namespace);
        CONVERT_TEXT(&one, "container", owner->container);
        CONVERT_TEXT(&one, "process", owner->process);
        convert_code(&one, "pid", &owner->pid, -1);
        convert_close(&one, '}');
    }
    convert_close(f, ']');
    if (f->out) {
        str_init_room(&text, affected, sizeof affected);
        incident_affected(incident, &text);
        json_add_text(f->out, "affected", affected[0] ? affected : NULL);
    } else {
        incident->owner_count = count;
    }
}

static void convert_evidence(const Convert *f, Incident *incident)
{
    const json_t *list;
    uint32_t count = convert_open_list(f, "evidence", incident->first_len + incident->last_len,
                                       INCIDENT_FIRST + INCIDENT_LAST, &list);

    if (!f->out) {
        incident->first_len = (uint32_t)number_min_u64(count, INCIDENT_FIRST);
        incident->last_len = count - incident->first_len;
    }
    for (uint32_t i = 0; i < count; i++) {
        const Convert one = convert_open_element(f, list, i);
        IncidentEvidence *evidence =
            i < incident->first_len ? &incident->first[i] : &incident->last[i - incident->first_len];

        if (!f->out)
            evidence->origin = EVENT_FROM_AGENT;
        convert_word(&one, "origin", &evidence->origin, event_origins, EVENT_ORIGIN_END);
        convert_time(&one, "at", &evidence->real_ns);
        convert_code(&one, "code", &evidence->code, 0);
        convert_bool(&one, "echo", &evidence->echo);
        convert_word(&one, "severity", &evidence->severity, fault_severities, SEVERITY_END);
        CONVERT_TEXT(&one, "text", evidence->text);
        convert_close(f, '}');
    }
    convert_close(f, ']');
    incident->counter_len = count = convert_open_list(f, "counters", incident->counter_len, INCIDENT_COUNTERS, &list);
    for (uint32_t i = 0; i < count; i++) {
        const Convert one = convert_open_element(f, list, i);

        if (!f->out)
            incident->counters[i].before = incident->counters[i].after = (double)NAN;
        CONVERT_TEXT(&one, "name", incident->counters[i].name);
        convert_real(&one, "before", &incident->counters[i].before);
        convert_real(&one, "after", &incident->counters[i].after);
        convert_close(f, '}');
    }
    convert_close(f, ']');
}

static void convert_incident(const Convert *f, Incident *incident)
{
    CONVERT_TEXT(f, "id", incident->id);
    convert_count(f, "revision", &incident->revision);
    convert_word(f, "state", &incident->state, incident_states, INCIDENT_STATE_END);
    convert_verdict(f, incident);
    convert_device(f, &incident->device);
    convert_part(f, &incident->part);
    convert_process(f, incident);
    CONVERT_TEXT(f, "job", incident->job);
    convert_owners(f, incident);
    CONVERT_TEXT(f, "driver", incident->driver_version);
    convert_count(f, "count", &incident->count);
    convert_count(f, "echo_count", &incident->echo_count);
    convert_time(f, "first", &incident->first_real_ns);
    convert_time(f, "opened", &incident->opened_real_ns);
    convert_time(f, "updated", &incident->updated_real_ns);
    convert_time(f, "cleared", &incident->cleared_real_ns);
    convert_word(f, "ended_by", &incident->end, incident_ends, INCIDENT_END_END);
    convert_number(f, "escalations", &incident->escalations);
    convert_number(f, "reopened", &incident->reopened);
    convert_bool(f, "before_start", &incident->before);
    CONVERT_TEXT(f, "maintenance", incident->window);
    convert_evidence(f, incident);
}

void incident_json(const Incident *incident, Str *out)
{
    Incident copy = *incident;

    json_open(out, NULL, '{');
    convert_incident(&(Convert){.out = out}, &copy);
    json_close(out, '}');
}

void incidents_json(const Incident *const *incidents, size_t count, const char *hostname, uint64_t real_ns, Str *out)
{
    json_open(out, NULL, '{');
    json_open(out, "incidents", '[');
    for (size_t i = 0; i < count; i++)
        incident_json(incidents[i], out);
    json_close(out, ']');
    json_add_text(out, "node", hostname[0] ? hostname : NULL);
    json_add_time(out, "time", real_ns);
    str_add(out, "}\n");
}

static bool read_incident(const json_t *root, Incident *ret)
{
    *ret = (Incident){.pid = -1, .state = INCIDENT_STATE_END};
    device_init(&ret->device, DEVICE_NODE);
    convert_incident(&(Convert){.in = root}, ret);
    ret->silenced = ret->window[0] != '\0';
    return ret->id[0] && ret->state != INCIDENT_STATE_END;
}

int incidents_read_json(const json_t *root, IncidentList *list, IncidentsHead *ret_head, Err *err)
{
    const size_t before = list->len;
    const json_t *many = json_object_get(root, "incidents");

    if (!json_is_object(root) || (many && !json_is_array(many)))
        return err_set(err, -EINVAL, "this is no JSON of incidents");
    for (size_t i = 0; i < (many ? json_array_size(many) : 1); i++) {
        if (!read_incident(many ? json_array_get(many, i) : root, vec_add(list))) {
            list->len = before;
            return err_set(err, -EINVAL, "an incident in the JSON has no id or state");
        }
    }
    if (ret_head) {
        *ret_head = (IncidentsHead){0};
        CONVERT_TEXT(&(Convert){.in = root}, "node", ret_head->node);
        convert_time(&(Convert){.in = root}, "time", &ret_head->real_ns);
    }
    return 0;
}

int incidents_read(const char *text, size_t len, IncidentList *list, IncidentsHead *ret_head, Err *err)
{
    CLEANUP(json_decref_at) json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);

    return incidents_read_json(root, list, ret_head, err);
}

/* --- events ------------------------------------------------------------------------------------------------------- */

static void convert_event(const Convert *f, EventSeen *seen)
{
    Event *event = &seen->event;

    convert_word(f, "kind", &event->kind, event_kinds, EVENT_KIND_END);
    convert_time(f, "time", &event->real_ns);
    convert_word(f, "origin", &event->origin, event_origins, EVENT_ORIGIN_END);
    convert_code(f, "code", &event->code, 0);
    convert_pci(f, &event->has_pci, &event->pci, PCI_FORM_SYSFS);
    convert_number(f, "gpu", &seen->gpu);
    CONVERT_TEXT(f, "uuid", event->uuid);
    convert_number(f, "gpu_instance", &event->gpu_instance);
    convert_number(f, "compute_instance", &event->compute_instance);
    convert_number(f, "link", &event->link);
    convert_code(f, "pid", &event->pid, -1);
    CONVERT_TEXT(f, "process", event->process);
    convert_word(f, "word", &event->word, event_words, EVENT_WORD_END);
    CONVERT_TEXT(f, "text", event->text);
    CONVERT_TEXT(f, "incident", seen->incident);
    convert_bool(f, "before_start", &event->before);
}

void event_seen_json(const EventSeen *seen, Str *out)
{
    EventSeen copy = *seen;

    json_open(out, NULL, '{');
    convert_event(&(Convert){.out = out}, &copy);
    json_close(out, '}');
}

void event_json(const Event *event, const char *incident_id, const Node *node, Str *out)
{
    const NodeGpu *gpu = node && event->has_pci ? node_find_gpu(node, event->pci) : NULL;
    EventSeen seen = {.event = *event, .gpu = gpu ? gpu->reading.device.index : DEVICE_NO_NUMBER};

    if (gpu && gpu->reading.device.uuid[0])
        memcpy(seen.event.uuid, gpu->reading.device.uuid, sizeof seen.event.uuid);
    snprintf(seen.incident, sizeof seen.incident, "%s", incident_id);
    event_seen_json(&seen, out);
}

static bool read_event(const json_t *root, EventSeen *ret)
{
    event_init(&ret->event, EVENT_KIND_END, EVENT_FROM_AGENT);
    ret->gpu = DEVICE_NO_NUMBER;
    convert_event(&(Convert){.in = root}, ret);
    return ret->event.kind != EVENT_KIND_END;
}

int events_read(const char *text, size_t len, EventSeenList *list, EventsHead *ret_head, Err *err)
{
    CLEANUP(json_decref_at) json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
    const json_t *many = json_object_get(root, "events");
    const size_t before = list->len;

    if (!json_is_object(root) || (many && !json_is_array(many)))
        return err_set(err, -EINVAL, "this is no JSON of events");
    for (size_t i = 0; i < (many ? json_array_size(many) : 1); i++) {
        if (!read_event(many ? json_array_get(many, i) : root, vec_add(list))) {
            list->len = before;
            return err_set(err, -EINVAL, "an event in the JSON has no kind that is known");
        }
    }
    if (ret_head) {
        *ret_head = (EventsHead){0};
        convert_count(&(Convert){.in = root}, "next", &ret_head->next);
        convert_time(&(Convert){.in = root}, "started", &ret_head->started_real_ns);
    }
    return 0;
}

/* --- which -------------------------------------------------------------------------------------------------------- */

static bool find_by_key(const char *device, uint32_t index, const char *uuid, const PciAddress *pci)
{
    PciAddress asked;
    uint64_t number;

    if (number_parse_u64(device, 0, NODE_GPUS_MAX, &number, NULL) == 0)
        return index == number;
    if (pci && pci_parse(device, &asked) == 0)
        return pci_compare(*pci, asked) == 0;
    return uuid[0] && strcmp(uuid, device) == 0;
}

bool incident_is_about(const Incident *incident, const char *device)
{
    const Device *of = &incident->device;
    const char *uuid = of->uuid[0] ? of->uuid : of->parent_uuid;
    char key[DEVICE_KEY_CAP] = "";

    if (device_key(of, key) >= 0 && strncmp(key, device, strlen(device)) == 0 &&
        (key[strlen(device)] == '\0' || key[strlen(device)] == '/'))
        return true;
    return of->kind != DEVICE_NODE && (find_by_key(device, of->index, uuid, of->has_pci ? &of->pci : NULL) ||
                                       (of->parent_uuid[0] && strcmp(of->parent_uuid, device) == 0));
}

bool event_is_about(const EventSeen *seen, const char *device)
{
    const Event *event = &seen->event;

    if (strcmp(device, "node") == 0)
        return !event->has_pci && seen->gpu == DEVICE_NO_NUMBER;
    return find_by_key(device, seen->gpu, event->uuid, event->has_pci ? &event->pci : NULL);
}

/* --- the black box ------------------------------------------------------------------------------------------------ */

typedef struct Series {
    const Store *store;
    const char *device; /* of which; its instances too */
    uint64_t now_ns, real_ns;
    Str *out;
} Series;

static void add_seconds(Series *s, StoreSeries series)
{
    StoreSecond seconds[BUNDLE_SECONDS];
    const uint64_t span = (BUNDLE_SECONDS - 1) * NS_PER_S;
    const size_t count =
        store_seconds(s->store, series, s->now_ns > span ? s->now_ns - span : 0, s->now_ns, seconds, BUNDLE_SECONDS);

    if (count)
        json_add_time(s->out, "from", s->real_ns - (s->now_ns - seconds[0].time_ns));
    json_open(s->out, "seconds", '[');
    for (size_t i = 0; i < count; i++)
        json_add_double(s->out, NULL, seconds[i].valid ? seconds[i].value : (double)NAN);
    json_close(s->out, ']');
}

static void add_series(void *self, StoreSeries series, const char *device_key, MetricId metric)
{
    Series *s = self;
    const size_t len = strlen(s->device);

    if (strncmp(device_key, s->device, len) != 0 || (device_key[len] && device_key[len] != '/'))
        return;
    json_open(s->out, NULL, '{');
    json_add_text(s->out, "device", device_key);
    json_add_text(s->out, "metric", metric_get(metric)->name);
    json_add_text(s->out, "unit", metric_units[metric_get(metric)->unit].symbol);
    add_seconds(s, series);
    json_close(s->out, '}');
}

static void add_gpus(const Node *node, Str *out)
{
    for (size_t i = 0; i < node->gpu_count; i++) {
        const NodeGpu *gpu = &node->gpus[i];
        char pci[PCI_TEXT_CAP];

        json_open(out, NULL, '{');
        if (gpu->reading.device.index == DEVICE_NO_NUMBER)
            json_add_null(out, "index");
        else
            json_add_u64(out, "index", gpu->reading.device.index);
        json_add_text(out, "pci", pci_format(gpu->reading.device.pci, PCI_FORM_SYSFS, pci));
        json_add_text(out, "state", gpu_states[gpu->state].key);
        json_add_text(out, "uuid", gpu->reading.device.uuid);
        json_add_text(out, "why", gpu->why);
        json_close(out, '}');
    }
}

void incident_bundle(const Incident *incident, const Node *node, const Store *store, const char *events, Str *out)
{
    const NodeGpu *gpu = incident->device.has_pci ? node_find_gpu(node, incident->device.pci) : NULL;
    char device[DEVICE_KEY_CAP] = "";
    Series series = {.store = store, .device = device, .now_ns = node->time_ns, .real_ns = node->real_ns, .out = out};

    json_open(out, NULL, '{');
    json_add_u64(out, "version", 1);
    json_add_time(out, "taken", node->real_ns);
    json_add_text(out, "node", node->hostname);
    json_add_text(out, "driver", node->driver_version);
    json_add_key(out, "incident");
    incident_json(incident, out);
    json_open(out, "gpus", '[');
    add_gpus(node, out);
    json_close(out, ']');
    json_open(out, "events", '[');
    str_add(out, events);
    json_close(out, ']');
    json_open(out, "series", '[');
    if (gpu && device_key(&gpu->reading.device, device) >= 0)
        store_each(store, add_series, &series);
    str_add(out, "]}\n");
}
