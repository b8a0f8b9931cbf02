/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The JSON of the agent's HTTP interface, and the judgement behind /healthz and /readyz. Pure: a Node or the store in,
 * text out. Every value carries its unit and age; what is absent carries its reason. One thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "engine/store/store.h"
#include "model/node.h"
#include "model/owner.h"
#include "model/place.h"
#include "model/process.h"

/* HEALTH_CAUSE(id, key, also fails readiness): why /healthz answers 503. */
#define HEALTH_CAUSE_TABLE(HEALTH_CAUSE)                                                                               \
    HEALTH_CAUSE(STARTING, "starting", true)                   /* not every GPU has been tried yet */                  \
    HEALTH_CAUSE(DRIVER, "driver", true)                       /* the driver or its library cannot be used */          \
    HEALTH_CAUSE(GPUS_MISSING, "gpus_missing", true)           /* found < expected */                                  \
    HEALTH_CAUSE(GPU_DOWN, "gpu_down", true)                   /* a GPU is hung, lost, missing or failing */           \
    HEALTH_CAUSE(SAMPLES_STALE, "samples_stale", true)         /* a GPU that is up has no fresh sample */              \
    HEALTH_CAUSE(SAMPLER_ABANDONED, "sampler_abandoned", true) /* a process that cannot be killed holds the driver */  \
    HEALTH_CAUSE(RELEASED, "released", true)                   /* let go for maintenance: not well, but meant so */

typedef enum HealthCauseId {
#define HEALTH_CAUSE(id, key, ready) HEALTH_##id,
    HEALTH_CAUSE_TABLE(HEALTH_CAUSE)
#undef HEALTH_CAUSE
        HEALTH_CAUSE_END,
} HealthCauseId;

enum { HEALTH_CAUSES_MAX = NODE_GPUS_MAX + NODE_SAMPLERS_MAX + 8, HEALTH_TEXT_CAP = 224 };

typedef struct HealthCause {
    HealthCauseId id;
    char text[HEALTH_TEXT_CAP]; /* a sentence: what is wrong with what, since when */
} HealthCause;

typedef struct Health {
    size_t count;
    HealthCause causes[HEALTH_CAUSES_MAX];
} Health;

/* What is wrong with the node as a monitored thing. `normal_ns` is the sampling period; a sample older than three of
 * them (at least 3 s) is stale. */
void api_judge(const Node *node, uint64_t normal_ns, Health *ret);
/* Whether these causes make the node not well (every cause but RELEASED) and not ready (every cause). */
bool health_is_well(const Health *health);
bool health_is_ready(const Health *health);
const char *health_cause_key(HealthCauseId id);

/* {"status":"ok"|"failing","causes":[...]} for /healthz and /readyz. */
void api_health(const Health *health, bool fine, const Node *node, Str *out);

/* What is known of the node beside what its driver tells: who has its devices by the kubelet, who the processes on its
 * GPUs are, where the GPUs are. */
typedef struct ApiBeside {
    const OwnerTable *owners; /* NULL: not known */
    ProcessList processes;
    PlaceList places;
} ApiBeside;

/* /api/v1/gpus: all that is known now. */
void api_gpus(const Node *node, const ApiBeside *beside, Str *out);

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

/* The data of one tick for the event stream: a JSON object on one line, a number or null per metric and GPU, the fast
 * readings of the tick beside. */
void api_tick(const Node *node, Str *out);

/* A list of where everything is, for who has no browser. `base` leads from where it is served to where its links begin:
 * "../", or "" where that is the same place. */
void api_index(const Node *node, const char *version, const char *base, Str *out);
