/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A cluster as Slurm's commands print it (scontrol(1), topology.conf(5)); measured with 22.05, and the keys of 24.05:
 *   nodes:    scontrol show node --oneliner
 *   jobs:     scontrol show job --oneliner; with -d it tells which GPUs a job has, too
 *   topology: scontrol show topology, or a topology.conf
 * --oneliner may be left out: a line that begins with a blank belongs to the one before. Unknown keys are passed over.
 * Times have no zone there and are taken as UTC. A node's GPUs are of one type, that with the most of them. A leaf
 * switch is a rack, the switch above it a block, a block of the block plugin an NVLink domain. A pending array is one
 * job. Preemptible is a job that Slurm may requeue. Pure; any thread.
 */

#include "base/arena.h"
#include "base/err.h"
#include "model/cluster.h"
#include "source/slurm/record.h"

enum { SLURM_CLUSTER_TEXT_MAX = 256 << 20, SLURM_NOTES_MAX = 16 };

/* What a ClusterNode has no room for. Texts are "" where nothing is told. */
typedef struct SlurmNode {
    const char *state, *reason, *partitions, *features;
    uint32_t weight, cpus_allocated;
} SlurmNode;

typedef struct SlurmJob {
    const char *id; /* its own, of a task of an array too */
    const char *user, *partition, *qos, *reason, *dependency, *licenses;
    uint32_t priority;
    uint64_t expected_s; /* when Slurm expects a waiting job to start; 0: not told */
} SlurmJob;

typedef struct SlurmCluster {
    Cluster cluster; /* jobs that wait, with their reason in `said`, and those that run; `queue` is the account */
    const SlurmNode *nodes; /* as the cluster's */
    const SlurmJob *jobs;
    const char *notes[SLURM_NOTES_MAX]; /* what could not be represented as it is */
    size_t note_count, notes_left_out;
} SlurmCluster;

/* Everything lies in the arena. jobs and topology need not be given. -EINVAL or -E2BIG name the text and its line. */
int slurm_cluster_read(const SlurmText *nodes, const SlurmText *jobs, const SlurmText *topology, Arena *arena,
                       SlurmCluster *ret, Err *err);

/* The number of a job by its id or its name ("4711", "4711_3", "4711_[4-9]"); job_count where there is none. */
size_t slurm_cluster_find_job(const SlurmCluster *cluster, const char *id);

/* Gives a job `nodes` (at least 1) shares of `base` and of the GPUs. Where these do not divide by the nodes it has two
 * roles: the first has one GPU more. */
void slurm_add_shares(ClusterJob *job, const ClusterRequest *base, uint32_t nodes, uint32_t gpus);
