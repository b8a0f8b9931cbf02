/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One scan of the node, and how it follows from the one before. Any thread.
 *
 * Of each process one file is read (its first thread's), and more only of those that sleep uninterruptibly; none of
 * these files takes a lock that a hanging process could hold. No device is woken up.
 */

#include <stdint.h>

#include "base/err.h"
#include "base/vec.h"
#include "model/facts.h"
#include "model/place.h"
#include "model/process.h"
#include "source/proc/who.h"

/* Processes that hang in the driver, and its services. */
enum { HOST_TASKS_MAX = 65536, HOST_FDS_MAX = 1024 };

/* Where the GPUs and the network adapters for RDMA are in the node, from sysfs. */
typedef VEC(Place) HostPlaces;

typedef VEC(ProcessOwner) HostProcesses;

typedef struct HostScan {
    int rc;                                   /* of the PCI bus: where it is below 0, facts has no GPUs */
    Err err;                                  /* then */
    Facts facts;                              /* since_ns and ours of tasks are not filled */
    uint64_t stuck_start_ns[FACTS_STUCK_MAX]; /* when each stuck task began: with its pid, who it is */
    HostProcesses processes;                  /* by pid */
    HostPlaces places; /* GPUs in the order of `facts`, then at most PLACE_ADAPTERS_MAX adapters by name */
    PodNames pods;     /* those that are known */
} HostScan;

/* `processes` of *ret are those to be found out about: their pids are read, the rest is filled. The room of `places` is
 * used again. */
void host_scan_read(const char *root, HostScan *ret);

/* Makes the facts those of `fresh`, of a scan begun at time_ns: GPUs that were there before stay as absent ones (all of
 * them as they were, where the bus could not be read), tasks keep since when they hang, the members about logs stay.
 * The places become those of `fresh`, whose room may be taken; GPUs that are no longer there stay where they were. */
void host_scan_merge(HostScan *known, HostScan *fresh, uint64_t time_ns);
