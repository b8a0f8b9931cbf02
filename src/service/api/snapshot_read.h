/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A Snapshot from JSON: what status_json wrote, or api_gpus alone, in another process or long ago. Unknown members are
 * ignored and missing ones leave their field empty; a member of a wrong type or out of range is an error that names
 * it. Pure. One thread.
 *
 * Both clocks of the node are its wall clock: time_ns equals real_ns, and ages stay as long as they were. Events, fast
 * readings, the probe and the driver's error numbers are not in the JSON and stay empty.
 */

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "model/snapshot.h"
#include "service/api/api.h"
#include "service/incident/incident.h"

enum { SNAPSHOT_TEXT_MAX = 64 << 20 };

/* A snapshot with the memory that it lies in. The caller owns it; all it points to is valid until the next read. */
typedef struct SnapshotBuffer {
    Snapshot snapshot; /* borrows from what follows */
    Arena arena;
    Node node;
    AllocationTable allocations;
    VEC(ProcessOwner) processes; /* each pid once */
    VEC(Holding) holdings;
    VEC(JobInfo) jobs;
    VEC(Place) places;
    IncidentList incidents;
    VEC(const Incident *) open; /* of the incidents */
    Maintenance *maintenance;
    char boot_id[40];
    char holders_why[160];
    Str text; /* the caller's: the JSON that it was read from */
} SnapshotBuffer;

SnapshotBuffer *snapshot_buffer_new(void);
void snapshot_buffer_free(SnapshotBuffer *buffer); /* accepts NULL */

/* -EINVAL says what is wrong; the snapshot is empty then. */
int snapshot_read(SnapshotBuffer *buffer, const char *text, size_t len, Err *err);
/* Lists the open incidents in the snapshot again, after buffer->incidents was changed. */
void snapshot_list_open(SnapshotBuffer *buffer);

/* ---- the JSON of api_history (history_read.c): its gauges, without the reasons of what is missing ---- */

/* A second or a minute; NAN: nothing was known. */
typedef struct HistoryPoint {
    MetricId metric;
    uint64_t real_ns; /* its start, wall clock */
    float min, mean, max;
} HistoryPoint;

typedef VEC(HistoryPoint) HistoryPoints;

/* Appends what the JSON holds, series by series. -EINVAL says what is wrong; the points are as before then. */
int history_read(const char *text, size_t len, HistoryPoints *points, Err *err);
