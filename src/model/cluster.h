/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A cluster as placement sees it: nodes, what is asked of them, and jobs that wait or run. Plain data; texts and lists
 * are borrowed, mostly from the arena of whoever read them. A source fills it (openb, Kubernetes, Slurm), engine/place
 * decides on it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/mig.h"
#include "model/word.h"

enum {
    CLUSTER_GPUS_MAX = 16, /* of a node */
    CLUSTER_MODELS_MAX = 64,
    CLUSTER_ISLANDS_MAX = 4, /* of a node */
    CLUSTER_ROLES_MAX = 4,
    CLUSTER_RULES_MAX = 4,
    CLUSTER_GPU = 1000,           /* milli of a whole GPU */
    CLUSTER_MIG_SLICES_MAX = 16,  /* memory slices of a board that jobs get MIG instances of, ... */
    CLUSTER_MIG_ENGINES_MAX = 15, /* ... and engines of a kind */
    CLUSTER_MIG_NAMES_MAX = 255,  /* names of MIG profiles that requests have */
};

/* Groups of nodes that are near each other, from near to far. WORD(id, key) */
#define CLUSTER_TIER_TABLE(WORD)                                                                                       \
    WORD(CLUSTER_NVLINK, "nvlink") /* one NVLink domain over several nodes */                                          \
    WORD(CLUSTER_RACK, "rack")                                                                                         \
    WORD(CLUSTER_BLOCK, "block")

typedef enum ClusterTier { CLUSTER_TIER_TABLE(WORD_ID) CLUSTER_TIER_END } ClusterTier;
extern const WordRow cluster_tiers[CLUSTER_TIER_END];

/* Annotations with numbers of GPUs, as NVML counts them: "0,3". */
#define CLUSTER_GPUS_KEY "stoker.dev/gpus"                /* of a pod: which were chosen for it */
#define CLUSTER_UNHEALTHY_KEY "stoker.dev/gpus-unhealthy" /* of a node: which cannot be used; absent: none */
#define CLUSTER_LINKS_KEY "stoker.dev/gpu-links" /* of a node: how near its GPUs are (engine/place/gpu_links.h) */
enum { CLUSTER_GPUS_CAP = 40 };                  /* of such a text, with all of them */

/* "0,3" as bits, "" as 0. False where it is another text or names a GPU from CLUSTER_GPUS_MAX on. */
bool cluster_read_gpus(const char *text, uint16_t *ret);
/* Returns `to`. */
const char *cluster_write_gpus(uint16_t gpus, char to[CLUSTER_GPUS_CAP]);
/* A MIG instance that is there before any job of the cluster runs. */
typedef struct ClusterInstance {
    uint8_t gpu;
    uint8_t profile; /* index into the board's profiles */
    uint8_t start;   /* memory slice */
    bool used;       /* by somebody else: its slices are not to be given out */
} ClusterInstance;

/* The GPUs in MIG mode of a node; equal nodes share it. */
typedef struct ClusterMig {
    const MigBoard *board; /* of all of them; within CLUSTER_MIG_SLICES_MAX and CLUSTER_MIG_ENGINES_MAX */
    uint16_t gpus;         /* a bit per GPU in MIG mode: these have MIG instances alone, the others none */
    bool fixed;            /* only `instances` are given out; else others are made where slices are free */
    const ClusterInstance *instances;
    size_t instance_count;
    /* By the number that a request has of a name: index into the board's profiles plus 1; 0: the board has none. */
    uint8_t profiles[CLUSTER_MIG_NAMES_MAX + 1];
} ClusterMig;

typedef struct ClusterNode {
    const char *name;
    const ClusterMig *mig; /* NULL: no GPU in MIG mode */
    uint32_t cpu_milli;    /* 1000 is a core */
    uint32_t memory_mib;
    uint8_t gpu_count;    /* at most CLUSTER_GPUS_MAX */
    uint8_t model;        /* of its GPUs: a number below CLUSTER_MODELS_MAX */
    uint16_t gpus_broken; /* a bit per GPU that is not to be given out */
    /* GPUs that are near each other, as by NVLink or in a NUMA node: a bit each, each GPU in one; 0: no further one */
    uint16_t islands[CLUSTER_ISLANDS_MAX];
    bool closed; /* cordoned or drained: nothing new may start */
    bool spot;   /* can be taken away */
    double gpu_idle_w, gpu_full_w;
    double price;                      /* of the whole node for an hour; 0: not known */
    uint32_t domain[CLUSTER_TIER_END]; /* numbers from 1 within each tier; 0: in none */
} ClusterNode;

/* Nodes that a request may use by one rule of its own: node selector, affinity, taints, partition. */
typedef struct ClusterRule {
    const uint64_t *nodes; /* a bit per node of the cluster */
    const char *text;      /* what it demands: "node selector disk=nvme", "taint maintenance=:NoSchedule" */
} ClusterRule;

typedef struct ClusterRequest {
    uint32_t cpu_milli, memory_mib;
    uint16_t gpu_milli; /* of each GPU, at most CLUSTER_GPU; less only of one GPU */
    uint8_t gpu_count;
    uint8_t mig; /* number of a profile's name, from 1: one instance, gpu_count 1, gpu_milli about its share of a GPU,
                    0 where it counts against no quota of GPUs */
    uint8_t rule_count;
    bool no_spot;             /* not on nodes that can be taken away */
    uint64_t models;          /* a bit per allowed model; 0: any */
    uint16_t models_written;  /* the list as it was written: a number in the order of all lists' texts */
    const ClusterRule *rules; /* all must allow a node; equal requests share one list */
} ClusterRequest;

/* The first of its rules that excludes the node with this number; the number of rules: none does. */
static inline uint8_t cluster_find_rule(const ClusterRequest *request, size_t node)
{
    uint8_t i = 0;

    while (i < request->rule_count && request->rules[i].nodes[node / 64] >> node % 64 & 1)
        i++;
    return i;
}

static inline bool cluster_allows(const ClusterRequest *request, size_t node)
{
    return cluster_find_rule(request, node) == request->rule_count;
}

/* Of all its GPUs. */
static inline uint64_t cluster_request_milli(const ClusterRequest *request)
{
    return (uint64_t)request->gpu_count * request->gpu_milli;
}

/* Pods of a job that ask for the same. At least `min` of them must run for the job to run; up to `max` are of use. */
typedef struct ClusterRole {
    const char *name; /* "worker"; "" */
    ClusterRequest request;
    uint32_t min, max;
} ClusterRole;

/* Where one pod of a job runs. */
typedef struct ClusterPlace {
    uint32_t node;
    uint16_t gpus; /* a bit per GPU; 0: of a pod with GPUs, which ones is not known */
    uint8_t role;
    uint8_t start; /* memory slice, of a pod with a MIG instance */
} ClusterPlace;

/* One pod, or a gang of pods of which none is of use without the others. Times are seconds of one clock, 0: not known.
 */
typedef struct ClusterJob {
    const char *name;  /* as its user calls it: "team-a/train-7", "4711" */
    const char *queue; /* whose quota it counts against; NULL: none */
    const char *kind;  /* "Pod", "PyTorchJob", "JobSet", "Slurm job" */
    const char *said;  /* what its scheduler says of why it waits, in its words; NULL: nothing */
    ClusterRole roles[CLUSTER_ROLES_MAX];
    uint8_t role_count;
    uint8_t tier;       /* the domain that it is to stay within; CLUSTER_TIER_END: anywhere */
    bool tier_required; /* it does not run elsewhere; else preferred */
    bool apart;         /* each of its pods runs on another node */
    bool preemptible;   /* it may be stopped for others; false too where a disruption budget forbids it */
    int32_t priority;   /* larger is more important */
    uint64_t submitted_s, started_s;
    uint64_t duration_s;        /* how long it runs with all its pods, or its time limit */
    uint64_t checkpoint_s;      /* between two checkpoints; 0: it keeps nothing when stopped */
    uint64_t restart_s;         /* until it is again where it was */
    uint64_t deadline_s;        /* when it has to have ended */
    const ClusterPlace *places; /* of its pods that run; NULL: it waits */
    size_t place_count;
} ClusterJob;

/* A group of users' share of the cluster, in GPU milli. Kueue's ClusterQueue and Cohort, KAI's Queue. */
typedef struct ClusterQueue {
    const char *name;
    const char *parent;                      /* NULL: none */
    uint64_t nominal;                        /* its own (KAI: deserved quota) */
    uint64_t borrowing_limit, lending_limit; /* over its own, of its own; UINT64_MAX: no limit */
    double weight;                           /* its part of what nobody claims as his own (over-quota weight) */
} ClusterQueue;

typedef struct Cluster {
    const ClusterNode *nodes;
    const ClusterJob *jobs;
    const ClusterQueue *queues;
    size_t node_count, job_count, queue_count;
    const char *const *models; /* names, by number */
    size_t model_count;
    const char *const *profiles; /* names of MIG profiles, by number less 1 */
    size_t profile_count;
    const char *const *domains[CLUSTER_TIER_END]; /* names, by number less 1 */
    size_t domain_counts[CLUSTER_TIER_END];
} Cluster;
