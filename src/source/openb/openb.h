/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Clusters and workloads in the CSV format of openb (Alibaba's cluster-trace-gpu-v2023), plain or gzip:
 *   nodes: sn,cpu_milli,memory_mib,gpu,model[,gpu_idle_w,gpu_full_w]
 *   pods:  name,cpu_milli,memory_mib,num_gpu,gpu_milli[,gpu_spec,...]; gpu_spec is "A|B", empty: any model
 * Columns are found by their names; others are skipped. An order is a text of whole numbers: how many pods come, how
 * many nodes there are, one number that is skipped; then the number of each pod that comes, among the pods sorted by
 * name, then each node's place among nodes with equal scores. Blocks: not for a loop. Errors name file and line.
 */

#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "model/cluster.h"

/* Everything lies in the arena that it was read into. */
typedef struct OpenbWorkload {
    size_t node_count, pod_count, order_count;
    ClusterNode *nodes;
    ClusterRequest *pods; /* sorted by name */
    uint32_t *order;      /* numbers of pods, as they come */
    uint32_t *node_order; /* of each node, as placement_new takes it; NULL: as in the file */
} OpenbWorkload;

/* `order_path` NULL: the pods come by name, once. -EINVAL where a file is not of this format. */
int openb_read(const char *nodes_path, const char *pods_path, const char *order_path, Arena *arena, OpenbWorkload *ret,
               Err *err);
