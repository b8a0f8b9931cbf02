/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The UIDs of the pods that hold a device, kept up to date from the kubelet's folder of logs (source/proc/who.h). It
 * is read when the list of pods changes and again every `again`, as a pod made anew under its old name gets another
 * UID. A worker reads, one reading at a time: a disk that hangs costs neither a turn of the loop nor the agent's end.
 * While the folder cannot be read, UIDs stay as they are and pods that come have none; the log says so once. One
 * thread.
 */

#include "base/log.h"
#include "model/allocation.h"
#include "source/proc/who.h"

typedef struct PodUidsConfig {
    const char *dir;                                          /* /var/log/pods, below the agent's root; copied */
    uint64_t again_ns;                                        /* 5 s */
    uint64_t late_ns;                                         /* a reading that takes longer is said in the log */
    const Log *log;                                           /* may be NULL */
    int (*read)(const char *path, const Map *pods, Err *err); /* NULL: poddir_read; any thread */
} PodUidsConfig;

typedef struct PodUids PodUids;

int pod_uids_new(const PodUidsConfig *config, PodUids **ret, Err *err); /* -errno where no thread can be started */
void pod_uids_free(PodUids *uids);                                      /* accepts NULL */

/* These pods are of interest from now on; they are looked for at once. What is known of a pod that is no longer among
 * them is forgotten. The table is not kept. */
void pod_uids_want(PodUids *uids, const AllocationTable *table);
/* To be called about every second: takes results, starts what is due and says what is late. True where pod_uids_get
 * says something else now. */
bool pod_uids_tick(PodUids *uids);
/* "" where unknown; valid until the next tick. */
const char *pod_uids_get(const PodUids *uids, const char *namespace, const char *pod);
