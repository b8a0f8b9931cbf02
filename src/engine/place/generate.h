/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Jobs by chance, for a simulation: shapes drawn by weight, run times from a log-normal distribution, arrivals of a
 * Poisson process that offers the cluster a given load. The same input and seed give the same jobs. Pure.
 */

#include "base/arena.h"
#include "model/cluster.h"

typedef struct GenerateShape {
    ClusterRequest request; /* of a pod */
    uint32_t pods;
    double weight;
} GenerateShape;

/* Who sends jobs. */
typedef struct GenerateClass {
    const char *name, *queue; /* queue NULL: none */
    double weight;
    int64_t priority;
    bool preemptible, no_spot;
    uint64_t checkpoint_s, restart_s;
    uint64_t deadline_s;      /* after it was sent; 0: none */
    double checkpoint_cost_s; /* that one takes; with a checkpoint_s of 0 they are as often as is best */
    int tier;                 /* of jobs of several pods; CLUSTER_TIER_END: anywhere */
    bool tier_required;
} GenerateClass;

typedef struct GenerateOptions {
    const GenerateShape *shapes;
    const GenerateClass *classes;
    size_t shape_count, class_count;
    size_t jobs;
    uint64_t seed;
    double load;            /* GPU time that is asked for, beside that of all GPUs while jobs come */
    double mtbf_s;          /* of a node; 0: it does not fail */
    double median_s, p90_s; /* run time: half and nine tenths of the jobs are at most so long */
} GenerateOptions;

/* Sorted by arrival, from 0 on; in the arena. */
ClusterJob *generate_jobs(const GenerateOptions *options, uint64_t cluster_gpu_milli, Arena *arena);

/* The time between two checkpoints at which least is lost: the square root of twice what one costs times the mean time
 * between failures (Young 1974, Daly 2006), never under the cost. */
double generate_checkpoint_s(double cost_s, double mtbf_s);
