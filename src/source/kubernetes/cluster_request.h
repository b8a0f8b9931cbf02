/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What a pod asks for by its spec: cores, memory and GPUs of all its containers, and its rules for nodes. Pure. */

#include "source/kubernetes/cluster_claims.h"
#include "source/kubernetes/cluster_mig.h"
#include "source/kubernetes/cluster_rules.h"

/* KUBE_REQUEST_OUTSIDE: it asks for time-sliced GPUs or several MIG instances alone, or for more than CLUSTER_GPUS_MAX;
 * *ret is the rest, without GPUs, and *ret_instances are its MIG instances. */
enum { KUBE_REQUEST_OUTSIDE = 1 };
int kube_request_read(KubeRules *rules, KubeMig *mig, const KubeField *spec, ClusterRequest *ret,
                      KubeInstances *ret_instances, Err *err);
/* Adds GPUs of claims. False: that makes a request that cannot be said; it stays. */
bool kube_request_add_claimed(ClusterRequest *request, const KubeClaimed *claimed);
/* Whole ones. */
int kube_request_count_gpus(const KubeField *spec, double *ret, Err *err);

/* The whole GPUs in a list of resources, under any vendor's name; *ret stays where there are none. */
int kube_read_gpus(const KubeField *resources, double *ret, Err *err);
