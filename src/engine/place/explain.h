/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Why a job waits, and what would let it run. Pure; results lie in the caller's arena and borrow the cluster's texts;
 * any thread.
 */

#include "base/arena.h"
#include "base/err.h"
#include "engine/place/change.h"

/* From what never changes by itself to what changes soonest. A node is short of the first in this order, a class of
 * nodes and the cluster of what their best node is short of; of all that a job lacks the first is its main cause.
 * WORD(id, key, text) */
#define EXPLAIN_TABLE(WORD)                                                                                            \
    WORD(EXPLAIN_RULE, "rule", "excluded by ") /* the rule */                                                          \
    WORD(EXPLAIN_MODEL, "gpu-model", "not an allowed GPU model")                                                       \
    WORD(EXPLAIN_CLOSED, "closed", "cordoned or drained")                                                              \
    WORD(EXPLAIN_GPUS_NEVER, "too-few-gpus", "too few working GPUs per node")                                          \
    WORD(EXPLAIN_MIG_NEVER, "no-mig-profile", "no MIG instance of this profile")                                       \
    WORD(EXPLAIN_CPU_NEVER, "too-few-cpus", "too few cores per node, even when empty")                                 \
    WORD(EXPLAIN_MEMORY_NEVER, "too-little-memory", "too little memory per node, even when empty")                     \
    WORD(EXPLAIN_CLUSTER_NEVER, "cluster-too-small", "the cluster cannot hold all its pods, even when empty")          \
    WORD(EXPLAIN_DOMAIN_NEVER, "domain-too-small", "no domain can hold all its pods, even when empty")                 \
    WORD(EXPLAIN_QUOTA_NEVER, "quota-too-small", "more than its queue may ever use")                                   \
    WORD(EXPLAIN_QUOTA, "quota", "the quota of its queue is in use")                                                   \
    WORD(EXPLAIN_GPUS, "gpus-in-use", "GPUs in use")                                                                   \
    WORD(EXPLAIN_MIG, "mig-in-use", "its MIG instances are in use")                                                    \
    WORD(EXPLAIN_SCATTERED, "gpus-scattered", "enough GPUs free, but not on one node")                                 \
    WORD(EXPLAIN_CPU, "cpus-in-use", "cores in use")                                                                   \
    WORD(EXPLAIN_MEMORY, "memory-in-use", "memory in use")                                                             \
    WORD(EXPLAIN_PODS, "pods", "as many pods as a node may have")                                                      \
    WORD(EXPLAIN_GANG, "gang", "room for some of its pods only")                                                       \
    WORD(EXPLAIN_TOPOLOGY, "topology", "not enough room within one domain")                                            \
    WORD(EXPLAIN_NOTHING, "nothing", "it fits now")

typedef enum ExplainCause { EXPLAIN_TABLE(WORD_ID) EXPLAIN_CAUSE_END } ExplainCause;
extern const WordRow explain_causes[EXPLAIN_CAUSE_END];

/* Of `have` there is less than the job wants. By cause: GPUs (GPU milli where a pod asks for a part), CPU milli, memory
 * MiB, pods; of quotas GPU milli; of SCATTERED free GPU milli in all, and what the job wants; 0 and 1 for yes and no.
 */
typedef struct ExplainReason {
    ExplainCause cause;
    uint64_t have, want; /* of a cause of nodes: of the best node */
    uint32_t nodes;      /* that are short of this; 0: it is a cause of the job as a whole */
    uint8_t rule;        /* RULE: its number in the role's request */
} ExplainReason;

/* Nodes that are alike for this job. */
typedef struct ExplainClass {
    uint32_t example; /* one of them */
    uint32_t nodes;
    uint32_t gpus, gpus_free; /* whole ones that work; of these with nothing on them */
    uint32_t mig, mig_free;   /* MIG instances of the profile that it asks for */
    ExplainReason reason;     /* what the best of them is short of; NOTHING: it has room */
} ExplainClass;

typedef struct ExplainDomain {
    uint32_t domain; /* its number, from 1 */
    uint32_t pods;   /* that fit now */
} ExplainDomain;

typedef struct ExplainHolder {
    size_t job;
    uint32_t gpus; /* or MIG instances of its profile, on nodes that the waiting job could use */
    uint32_t node; /* one of these */
} ExplainHolder;

/* WORD(id, key) */
#define EXPLAIN_START_TABLE(WORD)                                                                                      \
    WORD(EXPLAIN_NOW, "now")                                                                                           \
    WORD(EXPLAIN_AT, "at")                 /* when jobs whose end is known have ended */                               \
    WORD(EXPLAIN_NOT_BEFORE, "not-before") /* others have to end too, of which it is not known when */                 \
    WORD(EXPLAIN_UNKNOWN, "unknown")       /* when the end of none of those is known */                                \
    WORD(EXPLAIN_NEVER, "never")           /* not even when all have ended */

typedef enum ExplainStart { EXPLAIN_START_TABLE(WORD_ID) EXPLAIN_START_END } ExplainStart;
extern const WordRow explain_starts[EXPLAIN_START_END];

enum {
    EXPLAIN_REASONS_MAX = EXPLAIN_CAUSE_END,
    EXPLAIN_DOMAINS_MAX = 4,
    EXPLAIN_HOLDERS_MAX = 8,
};

typedef struct Explanation {
    size_t job;
    uint64_t gpu_milli;                         /* that it needs */
    uint32_t pods_running;                      /* it waits for the others, which the numbers below are of */
    uint32_t pods, pods_fit;                    /* that it needs; that fit now, topology and quota aside */
    uint8_t role;                               /* the first that does not fit */
    bool impossible;                            /* not even in an empty cluster with all nodes open and whole */
    ExplainReason reasons[EXPLAIN_REASONS_MAX]; /* the main cause, then the others; at least NOTHING */
    size_t reason_count;
    ExplainClass *classes; /* the one with most room first */
    size_t class_count;
    ExplainDomain domains[EXPLAIN_DOMAINS_MAX]; /* those with most room; none where any node will do */
    size_t domain_count;
    uint64_t quota_used, quota_nominal, quota_borrowing, quota_lacks; /* of its queue, GPU milli */
    Change changes[CHANGES_MAX];
    size_t change_count;
    ExplainHolder holders[EXPLAIN_HOLDERS_MAX]; /* the largest first */
    size_t holder_count;
    ExplainStart start;
    uint64_t start_s; /* AT, NOT_BEFORE */
    size_t start_job; /* whose end lets it start then */
    size_t in_front;  /* waiting jobs that come first, by priority and age */
    size_t overfull;  /* pods of running jobs that their nodes have no room for, by what is known of both */
} Explanation;

/* Fewer of its pods run than it needs. */
bool explain_waits(const ClusterJob *job);

/* `job`: its number, of one that waits; where some of its pods run, these stay, and the others are explained as a job
 * of their own, in any domain. -EINVAL for one that does not wait, and where the cluster's queues are wrong. Time: one
 * Placement of the cluster for each attempt at a change, some tens. */
int explain_job(const Cluster *cluster, size_t job, uint64_t now_s, Arena *arena, Explanation *ret, Err *err);
