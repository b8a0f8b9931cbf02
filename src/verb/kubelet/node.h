/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Labels and a condition of this node, kept by the API server: GPUsHealthy is True while every device that is offered
 * is healthy; which GPUs are not, its annotation stoker.dev/gpus-unhealthy names, and stoker.dev/gpu-links how near
 * they are to each other and to the network. Labels that were set here and are not wanted any more are taken away;
 * which those are, an annotation of the node keeps. On the loop's thread.
 */

#include <uv.h>

#include "base/log.h"
#include "engine/kubelet/offer.h"

typedef struct NodeKeeper NodeKeeper;

typedef struct NodeKeeperConfig {
    const char *node;       /* its name in the cluster */
    const char *account;    /* the folder of the service account */
    const char *kubeconfig; /* instead; NULL: none */
    uint64_t period_ns;     /* between two looks at the node */
    bool write;             /* labels and condition are written; else the node is only read */
    const char *label;      /* whose value `labelled` is told, at first and when it changes; "" where it is absent */
    void (*labelled)(void *self, const char *value);
    void *self;
    const Log *log;
} NodeKeeperConfig;

int node_keeper_new(uv_loop_t *loop, const NodeKeeperConfig *config, NodeKeeper **ret, Err *err);
void node_keeper_close(NodeKeeper *keeper); /* accepts NULL */
/* What the node is to have from now on; `labels` as offer_labels writes them. */
void node_keeper_set_labels(NodeKeeper *keeper, const Str *labels);
void node_keeper_set_health(NodeKeeper *keeper, const Offer *offer, const Snapshot *snapshot);
