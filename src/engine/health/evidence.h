/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Evidence: one observation that speaks for a fault, at one instant on one thing. An event is one; a detector gives
 * one at every tick for as long as its condition holds. Incidents are made of evidence. Plain values, one thread.
 */

#include "engine/health/catalogue.h"
#include "model/incident.h"

enum { EVIDENCE_COUNTERS = 4 };

/* What it is about: evidence of one key goes into one incident. Made by incidents.c. */
typedef struct IncidentKey {
    const FaultClass *class; /* of the catalogue in force; NULL: it is gone from there */
    uint64_t place;          /* of the whole GPU or switch; 0 the node */
    uint64_t process;        /* hash; 0 unless the class is by process */
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
    char text[EVENT_TEXT_CAP]; /* one sentence with numbers: "8 of 16 lanes at 78 % utilisation" */
    size_t counter_count;
    IncidentCounter counters[EVIDENCE_COUNTERS];
    /* set by incidents.c: a detector leaves these as zeroes */
    EventOrigin origin;
    bool before;       /* from before the agent's start */
    bool decides;      /* its action is the driver's own word */
    int32_t caused_by; /* code of the XID that it says it follows; 0 none */
    IncidentKey key;
} Evidence;
