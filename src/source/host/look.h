/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* One look at the node, and how it follows from the one before. Any thread. */

#include "base/err.h"
#include "base/vec.h"
#include "model/facts.h"
#include "model/process.h"
#include "source/host/places.h"
#include "source/host/tasks.h"
#include "source/proc/pods.h"

typedef VEC(ProcessOwner) HostProcesses;

typedef struct HostLook {
    int rc;  /* of the PCI bus: where it is below 0, facts has no GPUs */
    Err err; /* then */
    Facts facts;
    HostTasks tasks;
    HostProcesses processes; /* by pid */
    HostPlaces places;
    PodNames *pods; /* those that are known; NULL: none yet. Owned, as processes is */
} HostLook;

/* `processes` of *ret are those to be found out about: their pids are read, the rest is filled. The room of `places` is
 * used again. */
void host_look_make(const char *root, HostLook *ret);

/* Makes the facts those of `fresh`, of a look begun at time_ns: GPUs that were there before stay as absent ones (all of
 * them as they were, where the bus could not be read), tasks keep since when they hang, the members about logs stay. */
void host_look_take(HostLook *known, const HostLook *fresh, uint64_t time_ns);
