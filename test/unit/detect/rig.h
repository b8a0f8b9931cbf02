/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the tests of the detectors share: a healthy node whose GPUs train, time in ticks of a second, and the evidence
 * of the last tick by the built-in rules. A test changes what is wrong and says which rule must see it, where and when.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/duration.h"
#include "base/cleanup.h"
#include "engine/health/detect.h"

enum { RIG_EVIDENCE_MAX = 2048, RIG_NODE = -1, RIG_LINKS = 18, RIG_PROCESSES = 20 };

typedef struct RigEvidence {
    char rule[48];
    int gpu; /* by PCI address; RIG_NODE */
    Device device;
    FaultAction action;
    bool holds;
    int32_t pid;
    char text[EVENT_TEXT_CAP];
    IncidentCounter counter; /* the first */
} RigEvidence;

typedef struct Rig {
    Catalogue *catalogue;
    Detectors *detectors;
    Node node;
    int count;
    NodeGpu gpus[NODE_GPUS_MAX]; /* in the order of their number here; the node may have them in another */
    NodeGpu shown[NODE_GPUS_MAX];
    int order[NODE_GPUS_MAX];
    double rate[NODE_GPUS_MAX][METRIC_END]; /* counters rise so much every second */
    double exact[NODE_GPUS_MAX][METRIC_END];
    bool frozen[NODE_GPUS_MAX][METRIC_END]; /* not read anew */
    NodeLink links[NODE_GPUS_MAX][RIG_LINKS];
    double link_rate[NODE_GPUS_MAX][RIG_LINKS][NODE_LINK_ERROR_END];
    NodeProcess processes[NODE_GPUS_MAX][RIG_PROCESSES];
    double growth[NODE_GPUS_MAX][RIG_PROCESSES]; /* bytes a second */
    Reading instances[NODE_GPUS_MAX][NODE_INSTANCES_MAX];
    NodeSampler samplers[4];
    Facts facts;
    bool facts_stale;        /* no new look */
    bool any_evidence;       /* none is unexpected */
    uint64_t period_slow_ns; /* of lists */
    double aer_rate[NODE_GPUS_MAX];
    size_t evidence_count;
    RigEvidence evidence[RIG_EVIDENCE_MAX];
} Rig;

/* `site` more rules over the built-in ones, NULL none. The rig is large: it is allocated. */
Rig *rig_new(int gpus, const char *site);
void rig_free(Rig *rig);
int rig_close(void **state);

/* One tick after so many seconds; samples that are valid are read anew. */
void rig_tick(Rig *rig, double seconds);
/* Ticks of a second each. */
void rig_run(Rig *rig, unsigned seconds);
/* The same; fails on any evidence but that of `allowed` (NULL: of none). */
void rig_run_quiet(Rig *rig, unsigned seconds, const char *allowed);
/* Runs until the rule gives evidence on this GPU: the seconds that it took. Fails after `max`, or on evidence of
 * another rule than this and `allowed`. */
unsigned rig_until(Rig *rig, const char *rule, int gpu, unsigned max, const char *allowed);

/* Of the last tick; NULL: none. */
const RigEvidence *rig_evidence(const Rig *rig, const char *rule, int gpu);
size_t rig_count(const Rig *rig, const char *rule);

void rig_set(Rig *rig, int gpu, MetricId id, double value);
void rig_set_all(Rig *rig, MetricId id, double value);
void rig_absent(Rig *rig, int gpu, MetricId id, Absence why);
double rig_get(const Rig *rig, int gpu, MetricId id);
/* A state of the GPU, with what comes of it: values are absent unless it is UP; of LOST it fell off, of FAILED it is
 * refused. */
void rig_state(Rig *rig, int gpu, GpuState state, const char *why);
/* The node as at the beginning, and what was wrong with it is over; time goes on. */
void rig_mend(Rig *rig);
/* All values as at the beginning. */
void rig_heal(Rig *rig, int gpu);
void rig_process(Rig *rig, int gpu, uint32_t pid, double bytes, uint8_t sm, uint8_t memory);
void rig_no_process(Rig *rig, int gpu, uint32_t pid);
PciAddress rig_pci(int gpu);
/* The whole text holds this. */
void rig_says(const RigEvidence *evidence, const char *part);
