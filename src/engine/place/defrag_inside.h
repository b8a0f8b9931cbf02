/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Inside engine/place: the state of a search for moves, which defrag.c sets up and defrag_search.c works on. */

#include "base/vec.h"
#include "engine/place/defrag.h"

#define NO_POD UINT32_MAX

enum { OPTION_PODS_MAX = CLUSTER_GPUS_MAX };

/* A running pod. What it holds is less than it asks for where its node has no more. */
typedef struct Pod {
    uint32_t job, number; /* in its job's places */
    uint32_t kind;        /* of what it asks for */
    ClusterRequest held;
    ClusterPlace from, to;
    uint32_t twin; /* an equal pod of the same node that loses no more and goes first; NO_POD */
    bool movable, out, placed;
} Pod;

/* Pods of a node without which a request has room there. */
typedef struct Option {
    uint32_t node, rank; /* in its list */
    uint32_t pods[OPTION_PODS_MAX], count;
    uint32_t idle; /* GPUs of the node */
    uint64_t lost;
    bool hard; /* one of them has room nowhere now */
} Option;

typedef VEC(Option) Options;
typedef VEC(uint32_t) Numbers;

/* A plan that was found. */
typedef struct Found {
    DefragMove *moves;
    ClusterPlace *places;
    size_t count;
    uint64_t lost;
} Found;

typedef struct GoalPod {
    const ClusterRequest *request;
    uint32_t kind;
    uint8_t role;
} GoalPod;

/* `lefts`: with all goal pods and moved pods where they are to be, and moved ones gone from where they were. */
typedef struct Search {
    const Cluster *cluster;
    Arena *arena;
    const ClusterJob *goal;
    GoalPod goals[DEFRAG_GOAL_MAX];
    ClusterPlace goal_places[DEFRAG_GOAL_MAX];
    size_t goal_count;
    Placement *placement; /* for kinds, and what fits */
    Pod *pods;
    size_t pod_count;
    uint32_t *on_node, *first; /* movable pods by node, cheapest first: those of node n from first[n] on */
    PlacementLeft *before, *lefts, *turn;
    uint32_t *changed;   /* of each node: how often it differs from `before` */
    uint32_t *job_first; /* of each job its pods are one behind the other */
    uint32_t *outs;      /* of each job: pods that move */
    uint64_t *losses;    /* of each job: GPU milli seconds */
    bool *unknown;       /* of each job: it is not known what it loses */
    bool *bound;         /* of each job: it is to be in one domain of its tier */
    uint64_t *spare;     /* of each kind: pods that have room now */
    Options *bases;      /* of each kind: options of all nodes as they are */
    size_t kind_count;
    Numbers homeless;                           /* pods that move, in the order in which they are placed */
    uint64_t lost;                              /* of their jobs */
    uint32_t first_domain, last_domain, domain; /* that the goal may use, is tried in; 0: anywhere */
    bool by_moves;                              /* options with fewest moves first, else those that lose least */
    bool large;                                 /* cluster */
    bool brief;                                 /* leaves out what is dear to try */
    bool capped, cut;                           /* something was left out; of the options of a node as it is */
    int64_t budget, combo;                      /* steps left, in all and for one choice of goal nodes */
    VEC(Found) found;
} Search;

/* Tries all, or what the budget allows, with options in one order. */
void defrag_search(Search *s);

/* Takes (-1) what a request holds at a place from what is left of its node, or gives it back (+1). */
void defrag_change(const Search *s, PlacementLeft *left, const ClusterRequest *r, const ClusterPlace *place, int sign);
/* The GPUs with least left that have room; 0: there are none, or none are asked for. */
uint16_t defrag_choose_gpus(const ClusterNode *node, const PlacementLeft *left, const ClusterRequest *r);
const ClusterRequest *defrag_request(const Search *s, const Pod *pod); /* that it asks for */
