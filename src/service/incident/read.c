/* SPDX-License-Identifier: Apache-2.0 */
/* Incidents and events from the JSON that json.c writes. What is missing or of another type is unknown. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/number.h"
#include "base/cleanup.h"
#include "service/incident/incident.h"

CLEANUP_POINTER(json_t, json_decref);

static void get_text(const json_t *object, const char *name, char *out, size_t cap)
{
    const char *text = json_string_value(json_object_get(object, name));

    snprintf(out, cap, "%s", text ? text : "");
}

#define GET_TEXT(object, name, field) get_text(object, name, field, sizeof(field))

static uint64_t get_number(const json_t *object, const char *name, uint64_t absent)
{
    const json_t *value = json_object_get(object, name);

    return json_is_integer(value) && json_integer_value(value) >= 0 ? (uint64_t)json_integer_value(value) : absent;
}

static uint32_t get_u32(const json_t *object, const char *name, uint32_t absent)
{
    const uint64_t value = get_number(object, name, absent);

    return value <= UINT32_MAX ? (uint32_t)value : absent;
}

static int32_t get_code(const json_t *object, const char *name, int32_t absent)
{
    const uint64_t value = get_number(object, name, UINT64_MAX);

    return value <= INT32_MAX ? (int32_t)value : absent;
}

static double get_real(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);

    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static uint64_t get_time(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    uint64_t at;

    return text && clock_parse(text, &at, NULL) == 0 ? at : 0;
}

static int get_word(const json_t *object, const char *name, const FaultWord *words, int count)
{
    const char *text = json_string_value(json_object_get(object, name));
    const int found = text ? fault_word_find(words, count, text) : -1;

    return found < 0 ? 0 : found;
}

static EventOrigin get_origin(const json_t *object)
{
    const char *text = json_string_value(json_object_get(object, "origin"));

    for (EventOrigin origin = 0; text && origin < EVENT_ORIGIN_END; origin++)
        if (strcmp(event_origin_key(origin), text) == 0)
            return origin;
    return EVENT_FROM_AGENT;
}

static bool get_pci(const json_t *object, PciAddress *ret)
{
    const char *text = json_string_value(json_object_get(object, "pci"));

    return text && pci_parse(text, ret) == 0;
}

/* --- incidents ---------------------------------------------------------------------------------------------------- */

/* "gpu/GPU-../link/3": what a part is part of. */
static void read_parent(const json_t *from, Device *device)
{
    const char *key = json_string_value(json_object_get(from, "key")), *parent = key ? strchr(key, '/') : NULL;
    PciAddress pci;

    if (!parent)
        return;
    snprintf(device->parent_uuid, sizeof device->parent_uuid, "%.*s", (int)strcspn(parent + 1, "/"), parent + 1);
    if (pci_parse(device->parent_uuid, &pci) == 0)
        device->parent_uuid[0] = '\0';
    if (strcmp(device->uuid, device->parent_uuid) == 0)
        device->uuid[0] = '\0';
}

static void read_device(const json_t *root, Device *device)
{
    const json_t *from = json_object_get(root, "device"), *instance = json_object_get(root, "instance");
    const char *kind = json_string_value(json_object_get(from, "kind"));

    device_init(device, DEVICE_NODE);
    if (kind)
        device_kind_find(kind, &device->kind);
    device->index = get_u32(from, "index", DEVICE_NO_NUMBER);
    device->link = get_u32(from, "link", DEVICE_NO_NUMBER);
    device->has_pci = get_pci(from, &device->pci);
    GET_TEXT(from, "uuid", device->uuid);
    if (device->kind != DEVICE_GPU && device->kind != DEVICE_SWITCH)
        read_parent(from, device);
    GET_TEXT(from, "serial", device->serial);
    GET_TEXT(from, "model", device->name);
    device->gpu_instance = get_u32(instance, "gpu_instance", DEVICE_NO_NUMBER);
    device->compute_instance = get_u32(instance, "compute_instance", DEVICE_NO_NUMBER);
}

static void read_verdict(const json_t *root, Incident *incident)
{
    const json_t *codes = json_object_get(root, "codes");

    GET_TEXT(root, "class", incident->class);
    GET_TEXT(root, "rule", incident->rule);
    incident->code = get_code(root, "code", 0);
    for (size_t i = 0; i < json_array_size(codes) && i < INCIDENT_CODES; i++) {
        const json_int_t code = json_integer_value(json_array_get(codes, i));

        if (code > 0 && code <= INT32_MAX)
            incident->codes[incident->code_count++] = (int32_t)code;
    }
    incident->cause = (FaultCause)get_word(root, "cause", fault_causes, CAUSE_END);
    incident->severity = (FaultSeverity)get_word(root, "severity", fault_severities, SEVERITY_END);
    incident->scope = (FaultScope)get_word(root, "scope", fault_scopes, SCOPE_END);
    incident->action = (FaultAction)get_word(root, "action", fault_actions, ACTION_END);
    incident->route = (FaultRoute)get_word(root, "route", fault_routes, ROUTE_END);
    GET_TEXT(root, "title", incident->title);
    GET_TEXT(root, "verdict", incident->verdict);
    GET_TEXT(root, "runbook", incident->runbook);
}

static void read_life(const json_t *root, Incident *incident)
{
    const json_t *process = json_object_get(root, "process");
    char text[INCIDENT_CLASS_CAP];

    incident->pid = get_code(process, "pid", -1);
    GET_TEXT(process, "name", incident->process);
    GET_TEXT(root, "job", incident->job);
    GET_TEXT(root, "driver", incident->driver_version);
    incident->count = get_number(root, "count", 0);
    incident->echo_count = get_number(root, "echo_count", 0);
    incident->first_real_ns = get_time(root, "first");
    incident->opened_real_ns = get_time(root, "opened");
    incident->updated_real_ns = get_time(root, "updated");
    incident->cleared_real_ns = get_time(root, "cleared");
    incident->escalations = get_u32(root, "escalations", 0);
    incident->reopened = get_u32(root, "reopened", 0);
    incident->before = json_is_true(json_object_get(root, "before_start"));
    GET_TEXT(root, "maintenance", incident->window);
    incident->silenced = incident->window[0] != '\0';
    GET_TEXT(root, "ended_by", text);
    for (IncidentEnd end = 0; end < INCIDENT_END_END; end++)
        if (strcmp(incident_end_key(end), text) == 0)
            incident->end = end;
}

static void read_evidence(const json_t *root, Incident *incident)
{
    const json_t *evidence = json_object_get(root, "evidence"), *counters = json_object_get(root, "counters");

    for (size_t i = 0; i < json_array_size(evidence) && i < INCIDENT_FIRST + INCIDENT_LAST; i++) {
        const json_t *from = json_array_get(evidence, i);
        IncidentEvidence *to =
            i < INCIDENT_FIRST ? &incident->first[incident->first_len++] : &incident->last[incident->last_len++];

        to->real_ns = get_time(from, "at");
        to->origin = get_origin(from);
        to->code = get_code(from, "code", 0);
        to->echo = json_is_true(json_object_get(from, "echo"));
        GET_TEXT(from, "text", to->text);
    }
    for (size_t i = 0; i < json_array_size(counters) && i < INCIDENT_COUNTERS; i++) {
        const json_t *from = json_array_get(counters, i);
        IncidentCounter *counter = &incident->counters[incident->counter_len++];

        GET_TEXT(from, "name", counter->name);
        counter->before = get_real(from, "before");
        counter->after = get_real(from, "after");
    }
}

static bool read_one(const json_t *root, Incident *ret)
{
    char state[INCIDENT_CLASS_CAP];

    *ret = (Incident){.pid = -1};
    GET_TEXT(root, "id", ret->id);
    GET_TEXT(root, "state", state);
    if (!ret->id[0] || !incident_state_find(state, &ret->state))
        return false;
    ret->revision = get_number(root, "revision", 0);
    read_device(root, &ret->device);
    read_verdict(root, ret);
    read_life(root, ret);
    read_evidence(root, ret);
    return true;
}

int incidents_read_json(const json_t *root, IncidentList *list, IncidentsHead *ret_head, Err *err)
{
    const size_t before = list->len;
    const json_t *many = json_object_get(root, "incidents");

    if (!json_is_object(root) || (many && !json_is_array(many)))
        return err_set(err, -EINVAL, "this is no JSON of incidents");
    for (size_t i = 0; i < (many ? json_array_size(many) : 1); i++) {
        Incident *incident = vec_add(list);

        if (!read_one(many ? json_array_get(many, i) : root, incident)) {
            list->len = before;
            return err_set(err, -EINVAL, "an incident in the JSON has no id or state");
        }
    }
    if (ret_head) {
        GET_TEXT(root, "node", ret_head->node);
        ret_head->real_ns = get_time(root, "time");
    }
    return 0;
}

int incidents_read(const char *text, size_t len, IncidentList *list, IncidentsHead *ret_head, Err *err)
{
    CLEANUP(json_decref_at) json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);

    return incidents_read_json(root, list, ret_head, err);
}

/* --- events ------------------------------------------------------------------------------------------------------- */

static bool read_event(const json_t *root, EventSeen *ret)
{
    const char *kind = json_string_value(json_object_get(root, "kind"));
    const char *word = json_string_value(json_object_get(root, "word"));
    Event *event = &ret->event;
    EventKind found;

    if (!kind || !event_kind_find(kind, &found))
        return false;
    event_init(event, found, get_origin(root));
    event->real_ns = get_time(root, "time");
    event->code = get_code(root, "code", 0);
    event->has_pci = get_pci(root, &event->pci);
    ret->gpu = get_u32(root, "gpu", DEVICE_NO_NUMBER);
    GET_TEXT(root, "uuid", event->uuid);
    event->gpu_instance = get_u32(root, "gpu_instance", DEVICE_NO_NUMBER);
    event->compute_instance = get_u32(root, "compute_instance", DEVICE_NO_NUMBER);
    event->link = get_u32(root, "link", DEVICE_NO_NUMBER);
    event->pid = get_code(root, "pid", -1);
    GET_TEXT(root, "process", event->process);
    for (EventWord w = EVENT_CORRECTABLE; word && w <= EVENT_FATAL; w++)
        if (strcmp(event_word_key(w), word) == 0)
            event->word = w;
    GET_TEXT(root, "text", event->text);
    GET_TEXT(root, "incident", ret->incident);
    event->before = json_is_true(json_object_get(root, "before_start"));
    return true;
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
    if (ret_head)
        *ret_head = (EventsHead){.next = get_number(root, "next", 0), .started_real_ns = get_time(root, "started")};
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
