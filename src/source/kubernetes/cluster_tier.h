/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Labels of nodes that name a domain, and the domain that a job is to stay within. Pure. */

#include "model/cluster.h"
#include "source/kubernetes/field.h"

/* The label with the number `i`, of a tier the best first; NULL behind the last. */
const char *kube_tier_label(size_t i, ClusterTier *ret);

/* What a label demands of a job that demands nothing yet; none where it is NULL or names no tier. */
void kube_tier_set(ClusterJob *job, const char *label, bool required);

/* The same of a pod's, or a template's, metadata and spec. The job has its name. */
int kube_tier_read(const KubeField *meta, const KubeField *spec, ClusterJob *job, Err *err);
