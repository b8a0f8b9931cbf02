/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The detectors: what is wrong by the readings, beyond what any log says. Each looks at the node, the facts and its own
 * memory of the ticks before, and gives evidence for each thing on which its condition holds now; `for`, `keep` and
 * what it means are the catalogue's. A detector never takes an absent or stale value for a good or a bad one: without
 * data it holds its peace, and keeps what it knew.
 *
 * The table of detectors with their parameters is detect.def; adding one is a row and a function. Pure: time, readings
 * and facts are arguments. Memory is bounded and allocated when it is made. One thread.
 */

#include "engine/health/catalogue.h"
#include "model/facts.h"
#include "model/incident.h"
#include "model/node.h"

/* --- evidence ------------------------------------------------------------------------------------------------------
 * One observation that speaks for a fault, at one instant on one thing. An event is one; a detector gives one at every
 * tick for as long as its condition holds. Incidents are made of evidence. */

enum { EVIDENCE_COUNTERS = 4 };

/* What it is about: evidence of one key goes into one incident. Made by incidents.c. */
typedef struct IncidentKey {
    const FaultClass *class; /* of the catalogue in force; NULL: it is gone from there */
    uint64_t place;          /* of the whole GPU or switch; 0 the node */
    uint64_t process;        /* hash, of the owner too; 0 unless the class is by one of them */
    uint32_t kind, link, gpu_instance, compute_instance;
    int32_t code; /* 0 unless the class is by code */
} IncidentKey;

typedef struct Evidence {
    FaultVerdict verdict;
    bool holds; /* a condition that holds now, to be repeated at every tick; else a moment */
    uint64_t time_ns, real_ns;
    Device device; /* what it is about: kind, PCI address, instance or link; identity may be missing */
    int32_t code;  /* 0 none */
    int32_t pid;   /* -1 none */
    char process[EVENT_NAME_CAP];
    const Owner *owner;        /* who alone it is about; NULL: whose work is on the device */
    char text[EVENT_TEXT_CAP]; /* one sentence with numbers: "8 of 16 lanes at 78 % utilisation" */
    size_t counter_count;
    IncidentCounter counters[EVIDENCE_COUNTERS];
    /* set by incidents.c: a detector leaves these as zeroes */
    EventOrigin origin;
    bool before;       /* from before the agent's start */
    bool decides;      /* its action is the driver's own word */
    int32_t caused_by; /* code of the XID that it says it follows; 0 none */
    IncidentPart part; /* of a fault of the fabric: the switch that reports it */
    IncidentKey key;
} Evidence;

/* --- detectors ---------------------------------------------------------------------------------------------------- */

typedef struct Detectors Detectors;

/* What a tick gives. Both are called synchronously. */
typedef struct DetectorSink {
    void (*evidence)(void *self, const Evidence *evidence);
    void (*reset)(void *self, const NodeGpu *gpu); /* a GPU was reset since the tick before; NULL: not wanted */
    void *self;
} DetectorSink;

/* With the detector rules of this catalogue (borrowed). Takes over the state of `before` (may be NULL) and frees it. */
Detectors *detectors_new(const Catalogue *catalogue, Detectors *before);
void detectors_free(Detectors *detectors);

/* The metrics that the enabled detectors need: a bit per MetricId, added to `wanted`. Returns whether any wants the
 * state of each NVLink. */
bool detectors_wanted(const Detectors *detectors, uint64_t wanted[METRIC_SET_WORDS]);

/* One tick. `facts` may be older than the node. */
void detectors_tick(Detectors *detectors, const Node *node, const Facts *facts, const DetectorSink *sink);

/* Memory that is left on a GPU between two jobs: in use on a whole GPU with an empty process list, and not less than
 * the detector memory-orphaned counts by default. Of a moment: there is no time to wait for the detector's window. */
bool detect_left_memory(const NodeGpu *gpu, double *ret_mib);
