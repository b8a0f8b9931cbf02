/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Incidents, events, maintenance, journal and alerts on the page. What is open is taken from the incidents themselves,
 * so that a series is there while its incident is and no longer; what is counted is counted here. Memory and
 * cardinality are bounded: INCIDENT_SERIES_MAX open ones are shown, the most urgent first, INCIDENT_COUNTS_MAX
 * combinations are counted. Pure but for memory, one thread.
 */

#include "model/event.h"
#include "model/incident.h"
#include "service/prometheus/families.h"

enum { INCIDENT_SERIES_MAX = 128, INCIDENT_COUNTS_MAX = 256 };

/* Opened incidents of one kind. */
typedef struct IncidentCount {
    char class[INCIDENT_CLASS_CAP];
    FaultCause cause;
    FaultSeverity severity;
    uint64_t opened, cleared;
} IncidentCount;

typedef struct IncidentCounts {
    VEC(IncidentCount) at;
    uint64_t events[EVENT_KIND_END][EVENT_ORIGIN_END];
    uint64_t changes[INCIDENT_CHANGE_REOPENED + 1];
} IncidentCounts;

void incident_counts_done(IncidentCounts *counts);
void incident_counts_change(IncidentCounts *counts, const Incident *incident, IncidentChange change);
void incident_counts_event(IncidentCounts *counts, const Event *event);
void incident_counts_adopt(IncidentCounts *counts, const IncidentCounts *before);

extern const OwnFamily own_incident_families[];
extern const size_t own_incident_family_count;
