/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Inside verb/place: a cluster from files with what kubectl or scontrol print, or from the API server. */

#include "source/kubernetes/cluster.h"
#include "verb/verb.h"

#define PLACE_CLUSTER_OPT(type)                                                                                        \
    OPT_ROW("cluster", OPT_LIST, type, files, .flags = OPT_WHOLE, .metavar = "FILE",                                   \
            .help = "what kubectl or scontrol printed of the cluster; may be given several times; '-' is stdin "       \
                    "(without: the API server is asked)"),                                                             \
        OPT_ROW("kubeconfig", OPT_STRING, type, kubeconfig, VERB_KUBECONFIG)
#define PLACE_AT_OPT(type)                                                                                             \
    OPT_ROW("at", OPT_STRING, type, at, .metavar = "TIME", .help = "when that was (RFC 3339); default: now")

typedef struct PlaceCluster {
    Cluster cluster;
    size_t part_pods, shared_nodes;  /* with time-sliced GPUs or several MIG instances: not in the cluster */
    const KubeNodeLabels *labels;    /* by node; NULL: it is a cluster of Slurm */
    const char *const *model_labels; /* by model */
} PlaceCluster;

/* From the files, without any from the API server that `kubeconfig` names. In the call's arena; what is left out is
 * said on stderr. -EINVAL, -E2BIG, -EIO or that of a file. */
int place_read_cluster(VerbCall *call, const OptList *files, const char *kubeconfig, PlaceCluster *ret);
/* A waiting job by "team-a/train-7", or "train-7" where no other is called so. -ENOENT, -EINVAL. */
int place_find_waiting(const PlaceCluster *read, const char *name, size_t *ret, Err *err);
/* `at` as --at has it; NULL: now. */
int place_read_time(const char *at, uint64_t *ret_s, Err *err);
