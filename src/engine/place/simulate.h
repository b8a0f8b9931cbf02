/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A cluster over time: jobs arrive, wait, run and end, nodes fail and come back. Deterministic: the same input and seed
 * give the same result. Pure; the caller's thread.
 */

#include "engine/place/schedule.h"

enum { SIMULATE_POINTS = 400 };

typedef struct SimulateOptions {
    ScheduleOptions schedule;
    uint64_t seed;
    double node_mtbf_s, node_repair_s; /* mean times; 0: nodes do not fail */
    double spot_mtbf_s, spot_return_s; /* the same of spot nodes being taken away */
} SimulateOptions;

/* What is measured all the time. WORD(id, key) */
#define SIMULATE_SERIES_TABLE(WORD)                                                                                    \
    WORD(SERIES_ALLOCATED, "allocated_percent")                                                                        \
    WORD(SERIES_FRAGMENTED, "fragmented_percent")                                                                      \
    WORD(SERIES_POWER, "power_w")                                                                                      \
    WORD(SERIES_WAITING_JOBS, "waiting_jobs")                                                                          \
    WORD(SERIES_WAITING_GPUS, "waiting_gpus")                                                                          \
    WORD(SERIES_NODES_DOWN, "nodes_down")

typedef enum SimulateSeries { SIMULATE_SERIES_TABLE(WORD_ID) SERIES_END } SimulateSeries;
extern const WordRow simulate_series[SERIES_END];

/* WORD(id, key) of jobs, by the GPUs that they need */
#define SIMULATE_CLASS_TABLE(WORD)                                                                                     \
    WORD(SIMULATE_ALL, "all")                                                                                          \
    WORD(SIMULATE_CPU_ONLY, "cpu-only")                                                                                \
    WORD(SIMULATE_SHARED, "shared-gpu")                                                                                \
    WORD(SIMULATE_ONE, "1-gpu")                                                                                        \
    WORD(SIMULATE_SOME, "2-to-7-gpus")                                                                                 \
    WORD(SIMULATE_MANY, "8-gpus-or-more")

typedef enum SimulateClass { SIMULATE_CLASS_TABLE(WORD_ID) SIMULATE_CLASS_END } SimulateClass;
extern const WordRow simulate_classes[SIMULATE_CLASS_END];

/* Jobs of one kind. Waits: until the first start, of those that have started. */
typedef struct SimulateJobs {
    uint64_t jobs, ended, never; /* never: did not start */
    double wait_mean_s, wait_p50_s, wait_p95_s, wait_max_s;
    double gpu_hours, lost_gpu_hours; /* held; of these, lost by stops */
    uint64_t stops, late;             /* late: not ended by their deadline */
} SimulateJobs;

typedef struct Simulation {
    uint64_t begin_s, arrivals_end_s, end_s; /* the first and the last job come, the last ends */
    uint64_t stretch_s;                      /* of time, that each point is the mean of */
    double points[SIMULATE_POINTS][SERIES_END];
    size_t point_count;
    double mean[SERIES_END];  /* while jobs came */
    double energy_kwh, price; /* until the end; the price of all nodes */
    uint64_t node_failures;
    uint64_t gangs, gang_tiers[CLUSTER_TIER_END + 2]; /* jobs of several pods, by where they first ran: on one node, in
                                                         one domain of each tier, or over several */
    SimulateJobs classes[SIMULATE_CLASS_END];
    SimulateJobs *queues; /* of each queue of the cluster */
} Simulation;

/* A job that keeps nothing when it is stopped may never end: after the last arrival it goes on for at most this many
 * times the time of the arrivals, or of the longest job. */
enum { SIMULATE_REST = 4 };

/* Jobs of `cluster` come at their submitted_s, sorted by it. The result's lists lie in the arena. -EINVAL: queues. */
int simulate_run(const Cluster *cluster, const uint32_t *order, const PlacementMode *mode,
                 const SimulateOptions *options, Arena *arena, Simulation **ret, Err *err);
