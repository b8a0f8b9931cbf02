/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A sign: something that speaks for a fault, seen at one instant on one thing. Events give one each; a detector gives
 * one at every tick for as long as its condition holds. Signs are what incidents are made of. Plain values, one thread.
 */

#include "engine/health/catalogue.h"
#include "model/incident.h"

enum { SIGN_COUNTERS = 4 };

typedef struct Sign {
    FaultVerdict verdict; /* rule and words; verdict.rule->fault is its class */
    bool holds;           /* a condition that holds now, to be repeated at every tick; else a moment */
    uint64_t time_ns, real_ns;
    Device device;      /* what it is about: kind, PCI address, instance or link; identity may be missing */
    int32_t code;       /* 0 none */
    const Event *event; /* behind it, NULL of conditions; borrowed for the call */
    int32_t pid;        /* -1 none */
    char process[EVENT_NAME_CAP];
    char text[EVENT_TEXT_CAP]; /* evidence, one sentence with numbers: "8 of 16 lanes at 78 % utilisation" */
    size_t counter_count;
    IncidentCounter counters[SIGN_COUNTERS];
} Sign;
