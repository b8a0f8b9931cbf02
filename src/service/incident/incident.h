/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Incidents and events for people and programs: JSON (the API, `--json`, webhooks, bundles) and text for a terminal.
 * Pure: structs in, text out, and back. One thread.
 */

#include <jansson.h>

#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "engine/health/incidents.h"
#include "engine/store/store.h"
#include "model/event.h"
#include "model/incident.h"
#include "model/node.h"

/*
 * One incident as a JSON object on one line, without a newline: id, revision, state, class, rule, code (null: none),
 * codes, cause, severity, scope, action, action_text, route, title, verdict, runbook (null: none), device (key, kind,
 * index, uuid, serial, pci, model, link), part (null, or pci and link of the switch), instance (null, or gpu_instance
 * and compute_instance), process (null, or pid and name), job, owners, affected, driver, count, echo_count, first,
 * opened, updated, cleared (RFC 3339, null: not yet), ended_by, escalations, reopened, before_start, maintenance (null
 * or the window's id), evidence (a list of at, origin, code, echo, severity, text), counters (name, before, after).
 * docs/incidents.schema.json describes it.
 */
void incident_json(const Incident *incident, Str *out);
/* {"incidents":[...],"node":...,"time":...} */
void incidents_json(const Incident *const *incidents, size_t count, const char *hostname, uint64_t real_ns, Str *out);
/* One event as a JSON object on one line: kind, time, origin, code, pci, gpu (index, null), instance, link, pid,
 * process, word, text, incident (null), before_start. `node` may be NULL. */
void event_json(const Event *event, const char *incident_id, const Node *node, Str *out);

/* Says whose work it hits: "job 4711 of alice, pod serving/chat-0"; nothing where that is not known. */
void incident_affected(const Incident *incident, Str *out);

typedef struct IncidentStyle {
    size_t width; /* columns; at least 40 are used */
    bool colour, utf8;
    uint64_t real_ns; /* now, for ages */
} IncidentStyle;

/* All of them into `out`, the most urgent ones first: open before cleared, the worse before the milder, who is told at
 * once before who reads it later, the newer before the older. */
void incidents_urgent(const Incident *const *incidents, size_t count, const Incident **out);

/* A table, the most urgent open one first: severity, thing, what, since when, how often, what to do. */
void incidents_text(const Incident *const *incidents, size_t count, const IncidentStyle *style, Str *out);
/* An open incident for first-time readers: fault, action, urgency, whose work, evidence, and where to read on.
 * `waiters`: who waits because of it ("7 GPUs wait for GPU 3"), or "". */
void incident_card(const Incident *incident, const char *waiters, const IncidentStyle *style, Str *out);
/* One with everything: verdict, action, evidence, counters, codes, history. */
void incident_sheet(const Incident *incident, const IncidentStyle *style, Str *out);

/* --- and back: what the above wrote, read by another process ------------------------------------------------------ */

/* An event as event_json writes it. */
typedef struct EventSeen {
    Event event;
    char incident[INCIDENT_ID_CAP]; /* "" none */
    uint32_t gpu;                   /* its index, DEVICE_NO_NUMBER where not known */
} EventSeen;

typedef VEC(Incident) IncidentList;
typedef VEC(EventSeen) EventSeenList;

/* The node and time of the list; "" and 0 for a single incident. */
typedef struct IncidentsHead {
    char node[256];
    uint64_t real_ns;
} IncidentsHead;

/* Reads what incidents_json or incident_json wrote and adds it to `list`; ret_head may be NULL. Monotonic instants,
 * which mean nothing elsewhere, are 0. -EINVAL where it is no such JSON; the list is then as before. */
int incidents_read(const char *text, size_t len, IncidentList *list, IncidentsHead *ret_head, Err *err);
/* The same of the JSON that was read already; NULL is no such JSON. */
int incidents_read_json(const json_t *root, IncidentList *list, IncidentsHead *ret_head, Err *err);
/* Number to ask from for the next events, and the start of the agent that counts so. */
typedef struct EventsHead {
    uint64_t next, started_real_ns;
} EventsHead;
/* The same of one event_json, or of /api/v1/events. */
int events_read(const char *text, size_t len, EventSeenList *list, EventsHead *ret_head, Err *err);
/* event_json of one that was read. */
void event_seen_json(const EventSeen *seen, Str *out);
/* One line, without its newline: "2026-01-05T08:00:03.000Z  GPU 3  XID 79  GPU has fallen off the bus". */
void event_seen_text(const EventSeen *seen, const IncidentStyle *style, Str *out);

/* Whether it is about this device: an index, a UUID, a PCI address, a device key, "node". Of a GPU those on its
 * instances and links too. */
bool incident_is_about(const Incident *incident, const char *device);
bool event_is_about(const EventSeen *seen, const char *device);

/* The black box: the incident, the last minutes of seconds of its GPU (all series that the store has of it, at most
 * BUNDLE_SECONDS) up to the node's time, the node's state and recent events, as one JSON object. `events`: each as
 * event_json writes it, with commas between. */
enum { BUNDLE_SECONDS = 300 };
void incident_bundle(const Incident *incident, const Node *node, const Store *store, const char *events, Str *out);
