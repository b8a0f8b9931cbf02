/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The tables of the journal's file, schema version 2. Not for others. */

#include "engine/health/maintenance.h"
#include "model/event.h"
#include "model/incident.h"
#include "service/journal/journal.h"
#include "service/journal/row.h"

extern const RowTable table_incidents; /* struct Incident; one more column: evidence */
extern const RowTable table_events;    /* struct Event; one more: incident */
extern const RowTable table_windows;   /* struct MaintenanceWindow; one more: uuids */
extern const RowTable table_gpus;      /* struct JournalGpu; one more: pci. Since version 2 */
extern const char tables_rest[];       /* SQL of the tables that are no struct, and of the indexes */

/* An empty one to read into. */
void table_incident_init(Incident *incident);

/* Signs, counters and codes as JSON, and back. What cannot be read stays empty. */
void table_evidence_write(const Incident *incident, Str *out);
void table_evidence_read(const char *json, size_t len, Incident *incident);
