/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Pods as jobs: each alone, or with the others of its gang (PyTorchJob, JobSet, Indexed Job, pod group, ...). Which
 * objects are gangs, and where their roles and their pods' labels are, is one table in cluster_jobs.c. Pure.
 */

#include "base/map.h"
#include "source/kubernetes/cluster.h"
#include "source/kubernetes/cluster_object.h"
#include "source/kubernetes/cluster_claims.h"
#include "source/kubernetes/cluster_mig.h"
#include "source/kubernetes/cluster_rules.h"

typedef struct KubeJobs {
    const KubeObject *objects;
    size_t object_count;
    const Map *nodes;        /* name -> ClusterNode, of `first_node` and behind */
    const Map *local_queues; /* "namespace/name" -> name of the ClusterQueue */
    const ClusterNode *first_node;
    const bool *shared_nodes; /* per node: its GPUs are given out in parts */
    KubeRules *rules;
    KubeMig *mig;
    KubeClaims *claims;
    Arena *arena;   /* of what is returned */
    Arena *scratch; /* of what is not */
    KubeLeftOut *left_out;
} KubeJobs;

int kube_jobs_read(const KubeJobs *jobs, const ClusterJob **ret, size_t *ret_count, Err *err);
