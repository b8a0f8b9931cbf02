/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which few running pods to move, and where, so that a waiting job or a block of GPUs has room. Advice: nothing is
 * changed. Pure; results lie in the caller's arena; any thread.
 *
 * Moved are only pods of preemptible jobs, each at most once. A job of which a pod moves stops as a whole: it loses the
 * work since its last checkpoint and what its restart takes, with all its GPUs, once. A job that demands one domain, or
 * its pods apart, has that afterwards.
 *
 * Search: goal pods are given nodes, the pods in their way are taken out in smallest sets, and each of these is placed
 * where there is room, or where others move in turn. Branches are cut that cannot have fewer moves or lose less work
 * than a plan that was found. In small clusters all is tried; in large ones the cheapest choices are, within a budget
 * of steps. Every plan was carried out, move by move, in a Placement of its own.
 */

#include "base/arena.h"
#include "engine/place/placement.h"

enum {
    DEFRAG_PLANS_MAX = 3,
    DEFRAG_SIZES = 4,       /* 1, 2, 4 and 8 GPUs */
    DEFRAG_BLOCK = 8,       /* GPUs of a node that are to be idle, where nothing else is asked for */
    DEFRAG_GOAL_MAX = 1024, /* pods */
};

/* What is idle on nodes that are open. GPUs that do not work count nowhere. */
typedef struct DefragIdle {
    uint32_t gpus, idle;         /* in all; with nothing on them */
    uint32_t scattered;          /* idle ones on nodes with fewer idle GPUs than `block` */
    uint64_t parts_milli;        /* free on GPUs that are in use */
    uint32_t fits[DEFRAG_SIZES]; /* pods of 1 << i GPUs that fit, each size alone, cores and memory aside */
} DefragIdle;

typedef struct DefragMove {
    uint32_t job, pod; /* its number in the job's places */
    ClusterPlace from, to;
} DefragMove;

typedef struct DefragPlan {
    const DefragMove *moves; /* in an order in which each has room at its turn */
    size_t move_count;
    const ClusterPlace *places; /* of the goal's pods afterwards */
    double lost_gpu_s;
    uint32_t jobs_stopped;
    uint32_t jobs_unknown; /* of these it is not known what they lose */
    DefragIdle after;      /* before the goal's pods are there */
} DefragPlan;

/* WORD(id, key, text) */
#define DEFRAG_TABLE(WORD)                                                                                             \
    WORD(DEFRAG_FOUND, "found", "moves make room")                                                                     \
    WORD(DEFRAG_FITS, "fits", "there is room now, without moves")                                                      \
    WORD(DEFRAG_NOT_ENOUGH, "not-enough", "fewer GPUs are idle than it needs: moves cannot help")                      \
    WORD(DEFRAG_PINNED, "pinned", "no running job may be moved")                                                       \
    WORD(DEFRAG_NONE, "none", "no moves make room")                                                                    \
    WORD(DEFRAG_GIVEN_UP, "given-up", "no moves were found within the search's limit")

typedef enum DefragOutcome { DEFRAG_TABLE(WORD_ID) DEFRAG_OUTCOME_END } DefragOutcome;
extern const WordRow defrag_outcomes[DEFRAG_OUTCOME_END];

typedef struct Defrag {
    DefragOutcome outcome;
    ClusterJob goal;           /* `min` of each role are its pods; name NULL: a block of GPUs */
    uint32_t goal_pods, block; /* GPUs of its largest pod */
    bool complete;             /* no plan has fewer moves than these, nor loses less work */
    bool gpus_known;           /* of every running pod with GPUs it is known which these are */
    size_t movable;            /* running pods */
    DefragIdle now;
    DefragPlan plans[DEFRAG_PLANS_MAX]; /* the one that loses least work first, each with fewer moves than the last */
    size_t plan_count;
} Defrag;

/* A goal of `count` times `gpus` idle GPUs on one node. */
ClusterJob defrag_block(uint8_t gpus, uint32_t count);
/* The largest waiting job that does not fit and needs no more GPUs than are idle, else a whole node. */
ClusterJob defrag_default(const Cluster *cluster);

/* `goal`: pods of it that run already stay, and the others are the goal. Quotas do not count: moves change none. */
void defrag_find(const Cluster *cluster, const ClusterJob *goal, uint64_t now_s, Arena *arena, Defrag *ret);
