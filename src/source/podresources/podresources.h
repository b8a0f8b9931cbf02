/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which pod has which device, from the kubelet's pod-resources socket (v1, gRPC). Asked every
 * `period`; a failed or slow answer leaves the last table in force until it is `keep` old, and is counted. A socket
 * that was made anew (a kubelet that restarted) is asked within a second, whatever becomes of a call to the old one. On
 * the loop's thread; nothing blocks.
 */

#include <uv.h>

#include "base/err.h"
#include "base/log.h"
#include "model/allocation.h"
#include "source/proc/who.h"

typedef struct PodResourcesConfig {
    const char *socket;                /* /var/lib/kubelet/pod-resources/kubelet.sock */
    const char *const *resource_names; /* besides nvidia.com/gpu and nvidia.com/mig-*; "nvidia.com/gpu.shared" */
    size_t resource_name_count;
    uint64_t period_ns;   /* 5 s */
    uint64_t timeout_ns;  /* of one call, 5 s */
    uint64_t keep_ns;     /* 60 s */
    size_t reply_bytes;   /* 64 MiB at most */
    const char *pod_logs; /* where the pods' UIDs are read (below); NULL: they stay unknown */
    const Log *log;
    void (*on_table)(void *self); /* another table is in force, or it went for its age; may be NULL */
    /* Gives a row its labels, and says which device a driver of dynamic resource allocation means, with the profile of
     * a MIG device; false for one that is no GPU or not known yet. NULL: no labels, claims are not read. */
    void (*add_labels)(void *self, Allocation *row);
    bool (*find_device)(void *self, const AllocationClaim *claim, AllocationDevice *ret, const char **ret_profile);
    void *self;
} PodResourcesConfig;

typedef enum PodResourcesState {
    PODRESOURCES_WAITING, /* no answer yet */
    PODRESOURCES_OK,
    PODRESOURCES_NO_SOCKET,
    PODRESOURCES_UNREACHABLE, /* refused, closed, or the kubelet's restart is not over */
    PODRESOURCES_TIMED_OUT,
    PODRESOURCES_BAD_REPLY,
} PodResourcesState;

typedef struct PodResources PodResources;

int podresources_new(uv_loop_t *loop, const PodResourcesConfig *config, PodResources **ret, Err *err);
void podresources_close(PodResources *pods); /* frees it when the loop has closed its handles */
/* The last table, empty once it is too old; sorted by device, then namespace, pod and container, without doubles.
 * Valid until the loop turns. */
const AllocationTable *podresources_table(const PodResources *pods);
/* add_labels says something else now; find_device does: the kubelet is asked at once. */
void podresources_label_again(PodResources *pods);
void podresources_ask_again(PodResources *pods);
PodResourcesState podresources_state(const PodResources *pods);
const char *podresources_state_key(PodResourcesState state); /* "ok", "no_socket", ... */
/* Age of the last good answer (UINT64_MAX: none yet), calls that failed, pods that hold a device in the last answer. */
void podresources_counts(const PodResources *pods, uint64_t *ret_age_ns, uint64_t *ret_failures, size_t *ret_pods);

/* What an answer held, and what of it was left out. */
typedef struct PodResourcesFound {
    size_t pods;       /* that hold a device */
    size_t odd_ids;    /* device ids that cannot be understood */
    size_t odd_pods;   /* that hold a device, with a pod, namespace or container name that cannot be one */
    char odd_why[160]; /* what is odd about the first of these */
} PodResourcesFound;

/* Decodes one ListPodResourcesResponse (protobuf) into `table`: devices of the resource names that count, and those of
 * claims that find_device knows. -EBADMSG
 * where it is damaged, -E2BIG where it names more than 65,536 devices or would take more than 48 MiB to read; the table
 * is empty then, and *ret untouched. */
int podresources_decode(const uint8_t *bytes, size_t len, const PodResourcesConfig *config, AllocationTable *table,
                        PodResourcesFound *ret, Err *err);

/* ---- UIDs of pods (poduid.c) ---- */

/*
 * The UIDs of the pods that hold a device, kept up to date from the kubelet's folder of logs (source/proc/who.h). It
 * is read when the list of pods changes and again every `again`, as a pod made anew under its old name gets another
 * UID. A worker reads, one reading at a time: a disk that hangs costs neither a turn of the loop nor the agent's end.
 * While the folder cannot be read, UIDs stay as they are and pods that come have none; the log says so once. One
 * thread.
 */
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
