/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A cluster (model/cluster.h) from what `kubectl get nodes,pods,... -A -o json` prints: a List of mixed kinds, lists of
 * one kind, or single objects, one behind the other, in one text or several. Read: Node, Pod, PodDisruptionBudget; Job,
 * StatefulSet, JobSet, PyTorchJob, MPIJob, RayJob, RayCluster, Volcano's Job, PodGroup; Kueue's ClusterQueue, Cohort,
 * LocalQueue and Workload; KAI's Queue; ResourceSlice, ResourceClaim and ResourceClaimTemplate. Other kinds are
 * skipped. An object that comes twice counts once. Watts and prices of nodes are left 0. Pure; any thread.
 *
 * Annotations of a pod, or of the object that made it: stoker.dev/gpus "0,3" (which GPUs it has),
 * stoker.dev/checkpoint-interval "30m", stoker.dev/restart-cost "5m", stoker.dev/duration "12h",
 * stoker.dev/deadline "2026-12-24T18:00:00Z". Of a node: stoker.dev/gpus-unhealthy "3,5".
 */

#include "base/arena.h"
#include "base/err.h"
#include "model/cluster.h"

enum {
    KUBE_CLUSTER_BYTES_MAX = 1 << 30, /* of one text */
    KUBE_CLUSTER_NODES_MAX = 65536,
};

typedef struct KubeText {
    const char *name; /* what errors call it */
    const char *text;
    size_t len;
} KubeText;

/* The labels of a node that name its domains; NULL: none does. */
typedef struct KubeNodeLabels {
    const char *tier[CLUSTER_TIER_END];
} KubeNodeLabels;

/* What the cluster of the model cannot hold. */
typedef struct KubeLeftOut {
    const KubeNodeLabels *labels;    /* by node */
    const char *const *model_labels; /* by model: the label of nodes that names it; NULL: none does */
    size_t shared_nodes;             /* time-sliced, or MIG under the name of GPUs: they count as nodes without GPUs */
    /* Waiting for time-sliced GPUs, several MIG instances, MIG devices of claims or more than CLUSTER_GPUS_MAX; a
     * running one occupies cores, memory and its MIG instances alone. */
    size_t pods;
    size_t claims;      /* pods with a ResourceClaim that is not in the input: as if they did not name it */
    size_t gangs;       /* with a role that asks for such; their other pods are jobs of their own */
    size_t elsewhere;   /* pods on nodes that are not in the input */
    size_t annotations; /* of stoker.dev that are not of their form: as if they were not there */
    size_t roles;       /* of gangs with more than CLUSTER_ROLES_MAX; their pods are jobs of their own */
} KubeLeftOut;

/* All lies in `arena`. Jobs of gangs come first, in the order of their objects. A cohort is the queue "cohort NAME".
 * -EINVAL: an error names input, object and field; -E2BIG: over a cap. */
int kube_cluster_read(const KubeText *texts, size_t count, Arena *arena, Cluster *ret, KubeLeftOut *ret_left_out,
                      Err *err);
