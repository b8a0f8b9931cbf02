/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Changes to a waiting job or to its cluster, and the smallest of them that let the job run. Each one found was applied
 * and the job placed in it. Pure; results lie in the caller's arena; any thread.
 */

#include "base/arena.h"
#include "model/cluster.h"

/* From the cheapest to the dearest. WORD(id, key, text) */
#define CHANGE_TABLE(WORD)                                                                                             \
    WORD(CHANGE_CPU, "lower-cpu", "ask for fewer cores per pod")                                                       \
    WORD(CHANGE_MEMORY, "lower-memory", "ask for less memory per pod")                                                 \
    WORD(CHANGE_GPUS, "lower-gpus", "ask for fewer GPUs per pod")                                                      \
    WORD(CHANGE_PROFILE, "other-mig-profile", "ask for a MIG instance of another profile")                             \
    WORD(CHANGE_PODS, "lower-pods", "start with fewer pods, where the job can grow")                                   \
    WORD(CHANGE_MODELS, "allow-models", "allow other GPU models")                                                      \
    WORD(CHANGE_RULES, "drop-rules", "drop demands on the node, tolerate its taints")                                  \
    WORD(CHANGE_TOPOLOGY, "prefer-topology", "prefer one domain instead of demanding it")                              \
    WORD(CHANGE_OPEN, "uncordon", "open closed nodes")                                                                 \
    WORD(CHANGE_REPAIR, "repair", "repair the broken GPUs of nodes")                                                   \
    WORD(CHANGE_QUOTA, "add-quota", "raise the queue's own quota")                                                     \
    WORD(CHANGE_END, "end-jobs", "end preemptible jobs of the same or lower priority")                                 \
    WORD(CHANGE_ADD, "add-nodes", "add nodes like one that there is")

typedef enum ChangeKind { CHANGE_TABLE(WORD_ID) CHANGE_END_OF_TABLE } ChangeKind;
extern const WordRow change_kinds[CHANGE_END_OF_TABLE];

enum { CHANGE_STEPS_MAX = 3, CHANGES_MAX = 3 };

typedef struct ChangeStep {
    ChangeKind kind;
    uint8_t role;      /* whose request it is */
    uint64_t from, to; /* CPU milli, memory MiB, GPUs, pods, quota in GPU milli, nodes added, domains demanded */
    /* Models, rules of the role, nodes, jobs; one number of a profile's name; of ADD one node that the new ones are
     * like. */
    const uint32_t *items;
    size_t count;
} ChangeStep;

/* Steps that are all needed. */
typedef struct Change {
    ChangeStep steps[CHANGE_STEPS_MAX];
    size_t step_count;
} Change;

/* The cluster after it, in the arena; what did not change is shared. Jobs keep their numbers, one that is ended waits.
 * New nodes come last, open and whole, in the domains of the node that they are like; of the rules only those of `job`
 * know of them. */
void change_apply(const Cluster *cluster, size_t job, const Change *change, Arena *arena, Cluster *ret);

/* Of a waiting job: up to CHANGES_MAX changes of as few steps as possible (at most CHANGE_STEPS_MAX) that let it run at
 * `now_s`, the cheapest first; their number. `role`: whose request is to be lowered. A value is changed by no more than
 * is needed, in whole cores, GiB and GPUs; a set has nothing that is not needed. The cluster's queues are right. */
size_t change_find(const Cluster *cluster, size_t job, uint8_t role, uint64_t now_s, Arena *arena,
                   Change ret[CHANGES_MAX]);

/* What ending a running job loses: seconds since its last checkpoint, or since its start, and those until it is again
 * where it was. UINT32_MAX: not known. */
uint64_t change_lost_s(const ClusterJob *job, uint64_t now_s);
