/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The JSON of the agent's HTTP interface, and what fails /healthz and /readyz. Pure: a Node or the store in,
 * text out. Every value carries its unit and age; what is absent carries its reason. One thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "engine/store/store.h"
#include "model/node.h"
#include "model/snapshot.h"

enum { API_CAUSES_MAX = 320 };

/* Why the node is not fit to be relied on. */
typedef struct NodeCause {
    char key[INCIDENT_CLASS_CAP]; /* class of an incident; state of a GPU that no incident explains yet: "starting",
                                     "hung"; "released" */
    char text[INCIDENT_TEXT_CAP + 256];
    const Incident *incident; /* NULL: none */
    const NodeGpu *gpu;       /* NULL: the node, or a thing that is not in its list of GPUs */
} NodeCause;

/* Open incidents that take something out of use or blind the agent, then GPUs that give no data and that no such
 * incident explains; with `ready` the driver let go for maintenance too. Returns how many, at most `cap`. */
size_t api_causes(const Snapshot *snapshot, bool ready, NodeCause *out, size_t cap);
/* {"status":"ok"|"failing","gpus":{...},"causes":[{"cause":...,"text":...,"incident":...}]} for /healthz, and with
 * `ready` for /readyz. Returns whether it is ok. */
bool api_health_json(const Snapshot *snapshot, bool ready, Str *out);

/* /api/v1/gpus: the node, its devices, who has them and where they are. */
void api_gpus(const Snapshot *snapshot, Str *out);
/* The member "node" with nothing in it that changes by itself but the time, if that is wanted, as snapshot_read does:
 * who the devices are, where, and whether they are there. */
void api_devices(const Snapshot *snapshot, bool time, Str *out);

/* "roof":{...} of what a device does; a number that is not known is left out; null: no work runs. */
void api_roof(const Roof *roof, Str *out);
/* "owner":{...} of a holding. */
void api_owner(const Owner *owner, Str *out);
/* "instance":{"gpu_instance":7,"compute_instance":0} of a MIG instance; null of a whole GPU. */
void api_instance(const Device *device, Str *out);
/* One row of who holds what, as an element: {"gpu":0,"instance":null,"owner":{...},...} (docs/who.schema.json). */
void api_holding(const Snapshot *snapshot, const Holding *holding, Str *out);

/* One job as the workload manager tells of it, as an element. */
void api_job(const JobInfo *job, Str *out);

/* One GPU or MIG device by index ("3"), UUID or PCI address. NULL where there is none; *ret_gpu is its GPU. */
const Reading *api_find(const Node *node, const char *id, const NodeGpu **ret_gpu);

typedef struct HistoryQuery {
    const char *metrics;     /* names with commas between; NULL: every series that is kept */
    bool minutes;            /* minutes, else seconds */
    uint64_t from_ns, to_ns; /* wall clock */
} HistoryQuery;

/* Reads the query parameters of a history request: `metric`, `resolution` (second, minute), `from`, `to` (RFC 3339,
 * Unix seconds, or a duration before now: "-10m"); NULL where not given. -EINVAL with what is allowed. */
int api_history_query(const char *metric, const char *resolution, const char *from, const char *to, uint64_t real_ns,
                      HistoryQuery *ret, Err *err);
/* /api/v1/gpus/{id}/history: the series that are kept, and under `missing` which of the metrics asked for are not and
 * why. -ENOENT where none of them is a metric at all. */
int api_history(const Node *node, const Store *store, const Reading *reading, const HistoryQuery *query, Str *out,
                Err *err);

/* The data of one tick for the event stream: a JSON object on one line, a number or null per metric and GPU that it may
 * have, the ages of counters and the fast readings of the tick beside. */
void api_tick(const Node *node, Str *out);

/* A list of where everything is, for who has no browser. `base` leads from where it is served to where its links begin:
 * "../", or "" where that is the same place. */
void api_index(const Node *node, const char *version, const char *base, Str *out);
