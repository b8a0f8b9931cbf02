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
#include "engine/health/evidence.h"
#include "model/facts.h"
#include "model/node.h"

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

/* The metrics that the enabled detectors need: a bit per MetricId, added to `wanted`. */
void detectors_wanted(const Detectors *detectors, uint64_t wanted[(METRIC_END + 63) / 64]);
/* Whether any wants the state of each NVLink. */
bool detectors_want_links(const Detectors *detectors);

/* One tick. `facts` may be older than the node. */
void detectors_tick(Detectors *detectors, const Node *node, const Facts *facts, const DetectorSink *sink);
