/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Maintenance windows: while one covers a device, its incidents are marked and not sent. Some are started by hand and
 * end by themselves, some recur by the configuration. Pure: the wall clock is an argument. One thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "base/yaml.h"
#include "model/incident.h"

enum { MAINTENANCE_MAX = 64, MAINTENANCE_REASON_CAP = 160, MAINTENANCE_WHO_CAP = 64, MAINTENANCE_UUIDS = 8 };

typedef struct MaintenanceWindow {
    char id[INCIDENT_ID_CAP]; /* of one by hand: sorts by time; of a recurring one "cfg-1" */
    char reason[MAINTENANCE_REASON_CAP];
    char who[MAINTENANCE_WHO_CAP]; /* who started it: user name or uid; "configuration" */
    uint64_t gpus;                 /* bit per NVML index; 0: the whole node */
    char uuids[MAINTENANCE_UUIDS]
              [DEVICE_UUID_CAP];          /* of GPUs named by UUID or known then, so that an index may change; "" end */
    uint64_t from_real_ns, until_real_ns; /* of a recurring one: its present or next occurrence */
    bool recurring, active;
} MaintenanceWindow;

typedef struct Maintenance Maintenance;

Maintenance *maintenance_new(void);
void maintenance_free(Maintenance *maintenance);

/* The recurring ones from the configuration: a list of mappings {days: [mon, sat] or daily, from: "02:00", for: 2h,
 * gpus: [0, 1] or all, reason: ..., zone: utc or local}. NULL: none. -EINVAL or -ERANGE names file, line and column;
 * the old ones stay. */
int maintenance_configure(Maintenance *maintenance, const YamlNode *list, Err *err);
/* By hand. -ENOSPC beyond MAINTENANCE_MAX. *ret_id is its id. */
int maintenance_start(Maintenance *maintenance, const MaintenanceWindow *window, uint64_t real_ns,
                      char ret_id[INCIDENT_ID_CAP], Err *err);
/* Adds a window of another process, to be shown: such a copy is never advanced. -ENOSPC. */
int maintenance_add(Maintenance *maintenance, const MaintenanceWindow *window, Err *err);
/* Ends one now; "all" ends all that were started by hand. -ENOENT. A recurring one is skipped until its next time. */
int maintenance_stop(Maintenance *maintenance, const char *id, uint64_t real_ns, Err *err);
/* Updates which windows are active at this instant and drops those that are over. */
void maintenance_advance(Maintenance *maintenance, uint64_t real_ns);

size_t maintenance_count(const Maintenance *maintenance);
const MaintenanceWindow *maintenance_at(const Maintenance *maintenance, size_t i);
/* The active window that covers this device (a GPU's instances and links with it; a window of the node covers all; a
 * window of some GPUs does not cover the node), NULL none. */
const MaintenanceWindow *maintenance_covers(const Maintenance *maintenance, const Device *device);
