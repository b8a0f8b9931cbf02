/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Incidents and nodes to write about. */

#include "base/duration.h"
#include "service/incident/incident.h"

#define KIT_REAL (UINT64_C(1767600003) * NS_PER_S) /* 2026-01-05T08:00:03Z */

/* A GPU 3 that fell off the bus, with an echo and a counter; open since KIT_REAL. */
Incident kit_incident(void);
/* One of this class, severity and state on GPU `index`. */
Incident kit_incident_of(const char *class, FaultSeverity severity, IncidentState state, uint32_t index);
/* An XID 79 of GPU 3. */
Event kit_event(void);
/* A node with `count` GPUs at 0000:(1b+i):00.0 that are up. */
Node kit_node(NodeGpu *gpus, size_t count);
/* Any incident: texts with quotes, controls and broken UTF-8, numbers at their ends. */
Incident kit_random(uint64_t *seed);
uint64_t kit_next(uint64_t *seed);
