/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Inside verb/place: a cluster's objects from its API server, once. */

#include "base/vec.h"
#include "source/kubernetes/cluster.h"
#include "verb/verb.h"

typedef VEC(KubeText) PlaceTexts;

/* Lists all kinds that kube_cluster_read reads; texts lie in the call's arena. `kubeconfig` NULL or "": the service
 * account of a pod, outside of one ~/.kube/config. A kind that the server does not have is skipped, one that it does
 * not let list is named on stderr; of nodes and pods both are errors, as is a server that does not answer. */
int place_fetch_texts(VerbCall *call, const char *kubeconfig, PlaceTexts *ret);
