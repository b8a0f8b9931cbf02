/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Clusters and workloads in the CSV format of openb (Alibaba's cluster-trace-gpu-v2023), plain or gzip:
 *   nodes: sn,cpu_milli,memory_mib,gpu,model[,gpu_idle_w,gpu_full_w]
 *   pods:  name,cpu_milli,memory_mib,num_gpu,gpu_milli[,gpu_spec,creation_time,deletion_time]; gpu_spec is "A|B",
 * empty: any model; times in seconds. Ours beside them: pods,queue,priority,preemptible,checkpoint_s,restart_s Columns
 * are found by their names; others are skipped. An order is a text of whole numbers: how many pods come, how many nodes
 * there are, one number that is skipped; then the number of each pod that comes, among the pods sorted by name, then
 * each node's place among nodes with equal scores. Blocks: not for a loop. Errors name file and line.
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
    ClusterJob *jobs;     /* the same as jobs, with what the file says of their times */
    const char *const *models;
    size_t model_count;
    uint32_t *order;      /* numbers of pods, as they come */
    uint32_t *node_order; /* of each node, as placement_new takes it; NULL: as in the file */
} OpenbWorkload;

/* `order_path` NULL: the pods come by name, once. -EINVAL where a file is not of this format. */
int openb_read(const char *nodes_path, const char *pods_path, const char *order_path, Arena *arena, OpenbWorkload *ret,
               Err *err);
/* The nodes and models alone; then the pods, whose models are among those of `work`. */
int openb_read_nodes(const char *path, Arena *arena, OpenbWorkload *ret, Err *err);
int openb_read_pods(const char *path, Arena *arena, OpenbWorkload *work, Err *err);
