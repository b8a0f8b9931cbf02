/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Nodes of a cluster and what is asked of them, as placement sees them: plain data. */

#include <stdint.h>

enum { CLUSTER_GPUS_MAX = 16, CLUSTER_MODELS_MAX = 64, CLUSTER_GPU = 1000 /* milli of a whole GPU */ };

typedef struct ClusterNode {
    const char *name;   /* borrowed */
    uint32_t cpu_milli; /* 1000 is a core */
    uint32_t memory_mib;
    uint8_t gpu_count; /* at most CLUSTER_GPUS_MAX */
    uint8_t model;     /* of its GPUs: a number below CLUSTER_MODELS_MAX */
    double gpu_idle_w, gpu_full_w;
} ClusterNode;

typedef struct ClusterRequest {
    uint32_t cpu_milli, memory_mib;
    uint16_t gpu_milli; /* of each GPU, at most CLUSTER_GPU; less only of one GPU */
    uint8_t gpu_count;
    uint64_t models;         /* a bit per allowed model; 0: any */
    uint16_t models_written; /* the list as it was written: a number in the order of all lists' texts */
} ClusterRequest;
