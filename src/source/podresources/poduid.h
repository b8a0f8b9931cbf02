/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The UIDs of the pods that hold a device, kept up to date from the kubelet's folder of logs (poddir.h). It is read
 * when the list of pods changes and again every `again`, as a pod made anew under its old name gets another UID. Each
 * reading is a thread of its own and at most one is under way: a disk that hangs costs neither a turn of the loop, nor
 * a thread of libuv's, nor the agent's end. While the folder cannot be read, UIDs stay as they are and pods that come
 * have none; the log says so once. On the loop's thread.
 */

#include <uv.h>

#include "base/log.h"
#include "model/owner.h"
#include "source/proc/pods.h"

typedef struct PodUidsConfig {
    const char *dir;               /* /var/log/pods, below the agent's root */
    uint64_t again_ns;             /* 5 s */
    uint64_t late_ns;              /* a reading that takes longer is said in the log */
    const Log *log;                /* may be NULL */
    void (*on_change)(void *self); /* pod_uids_get says something else now */
    void *self;
    int (*read)(const char *path, const Map *pods, Err *err); /* NULL: poddir_read; any thread */
} PodUidsConfig;

typedef struct PodUids PodUids;

PodUids *pod_uids_new(uv_loop_t *loop, const PodUidsConfig *config);
/* No on_change is called any more; `closed` is, when the loop has closed the handle, whatever a reading does. */
void pod_uids_close(PodUids *uids, void (*closed)(void *self), void *self);

/* These pods are of interest from now on; they are looked for at once. What is known of a pod that is no longer among
 * them is forgotten. The table is not kept. */
void pod_uids_want(PodUids *uids, const OwnerTable *table);
/* To be called about every second: starts what is due and says what is late. */
void pod_uids_tick(PodUids *uids);
/* "" where unknown; valid until the loop turns. */
const char *pod_uids_get(const PodUids *uids, const char *namespace, const char *pod);
