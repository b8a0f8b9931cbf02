/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A running cluster as the scheduler extender needs it: the GPUs and cores of each node, and which pod has which. Fed
 * with single objects of the Kubernetes API as they come, change and go. What is left of a node goes into a Placement
 * at once; that is made anew only where a node comes or goes. Memory is not looked at: kube-scheduler has checked it,
 * and no mode scores it. One thread; no clock, no I/O.
 *
 * A pod's annotation stoker.dev/gpus says which GPUs it has. Of one without it the number counts and which ones is not
 * known: the node's free GPUs are then fewer than those that nobody has by name. A node's annotation
 * stoker.dev/gpus-unhealthy, of `stoker kubelet --update-node`, says which cannot be used, and stoker.dev/gpu-links
 * which go well together.
 *
 * A node that has none of the resource has the GPUs of its ResourceSlices, of which the scheduler chooses which ones a
 * pod gets: they are counted, and have no names. What ResourceClaims have is in use. The slices say its model where no
 * label does.
 */

#include <jansson.h>

#include "base/err.h"
#include "base/str.h"
#include "engine/place/placement.h"

#define LIVE_PLACED_BY_KEY "stoker.dev/placed-by"

enum { LIVE_NODES_MAX = 16384, LIVE_PODS_MAX = 400000, LIVE_UID_MAX = 63 };
enum { LIVE_OBJECTS_MAX = 400000 }; /* slices, and claims that are allocated */

typedef struct Live Live;

/* `resource`: "nvidia.com/gpu"; copied. */
Live *live_new(const char *resource, const PlacementMode *mode);
void live_free(Live *live); /* accepts NULL */

/* The cluster's nodes and its pods: a list (begin, add for each, end: what was not in it is gone) or one change. `live`
 * is a Live. A pod that ended or has no node is as good as gone. -EBADMSG, -E2BIG. */
void live_begin_nodes(void *live);
int live_add_node(void *live, const json_t *node, Err *err);
bool live_end_nodes(void *live);
int live_change_node(void *live, const json_t *node, bool gone, Err *err);
void live_begin_pods(void *live);
int live_add_pod(void *live, const json_t *pod, Err *err);
bool live_end_pods(void *live);
int live_change_pod(void *live, const json_t *pod, bool gone, Err *err);

/* The same of ResourceSlices and ResourceClaims; without them nodes and pods are as they are. */
void live_begin_slices(void *live);
int live_add_slice(void *live, const json_t *slice, Err *err);
bool live_end_slices(void *live);
int live_change_slice(void *live, const json_t *slice, bool gone, Err *err);
void live_begin_claims(void *live);
int live_add_claim(void *live, const json_t *claim, Err *err);
bool live_end_claims(void *live);
int live_change_claim(void *live, const json_t *claim, bool gone, Err *err);

/* What a pod asks of any node that suits it otherwise. gpu_count 0: no GPU, or more than a node can have
 * (CLUSTER_GPUS_MAX). */
ClusterRequest live_read_request(const Live *live, const json_t *pod);

typedef struct LiveNode LiveNode;

/* A node by its name; NULL: there is none. Valid until the next change. */
const LiveNode *live_find(const Live *live, const char *name, size_t len);

typedef enum LiveFit {
    LIVE_UNKNOWN,   /* no such node, or one of which nothing is decided: its GPUs are shared or too many */
    LIVE_FITS,      /* by its GPUs */
    LIVE_FULL,      /* others have them */
    LIVE_TOO_SMALL, /* it has not so many that can be used, whoever goes */
} LiveFit;

/* *ret_score: of one that fits; higher is better. `node` may be NULL. */
LiveFit live_judge(Live *live, const ClusterRequest *request, const LiveNode *node, double *ret_score);
/* Why a node is full or too small, for the pod's owner: "2 of 8 GPUs free, 4 wanted". */
void live_explain(const LiveNode *node, const ClusterRequest *request, Str *out);

/* Takes GPUs of a node for the pod with this UID until it is seen on its node, or until `until_ns`. Again for the same
 * node gives the same. *ret_gpus: a bit each; 0: the node is LIVE_UNKNOWN and nothing is taken, or its GPUs have no
 * names. -EBUSY. */
int live_reserve(Live *live, const char *uid, const ClusterRequest *request, const char *node, uint64_t until_ns,
                 uint16_t *ret_gpus, Err *err);
/* Gives back what was reserved and not yet seen. */
void live_release(Live *live, const char *uid);
/* Every second or so: gives back what was reserved until now or before, and renews what is typical. */
void live_tick(Live *live, uint64_t now_ns);

typedef struct LiveCounts {
    bool known; /* both lists were read */
    uint64_t nodes, gpu_nodes, pods, reserved;
} LiveCounts;
LiveCounts live_counts(const Live *live);
