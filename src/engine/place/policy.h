/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Inside engine/place: the state of a node, and how a policy scores it. */

#include "engine/place/placement.h"

enum { PLACEMENT_TAGS = CLUSTER_GPUS_MAX + 1 }; /* pods by kind of GPU request: 0 shared, k: k whole GPUs */

typedef struct PlacementState {
    uint32_t version;
    uint32_t gpu_sum; /* milli left on all GPUs */
    double fragmentation, power_w;
    uint16_t tags[PLACEMENT_TAGS];
    PlacementLeft left; /* the last, as what MIG needs is its end and of no use on most nodes */
} PlacementState;

typedef struct Typical {
    ClusterRequest request; /* of a MIG instance with more gpu_milli than a GPU has: it has no room outside MIG mode */
    double share;           /* of all, 0 to 1 */
    size_t count;
} Typical;

/* Of a node and a typical request: GPUs that have room for it, and milli on those that have not. */
typedef struct Usable {
    uint32_t fit, rest;
} Usable;

/* One way to place a request: on `node`, on the GPUs `gpus`. `after` has all but its version, fragmentation and power.
 */
typedef struct PlacementCase {
    const ClusterNode *node;
    const ClusterRequest *request;
    const PlacementState *before;
    PlacementState after;
    uint16_t gpus;
    const Typical *typical;
    size_t typical_count;
    const Usable *usable; /* of the node before, for each typical request */
    double scarcity;      /* of the node's model */
} PlacementCase;

struct PlacementMode {
    const char *name, *text;
    double weight[PLACEMENT_TERM_END];
    double (*score)(const PlacementCase *c); /* of a published policy; NULL: by weight */
    bool normalise; /* the integer parts of the scores of all nodes that fit are scaled to the integers 0 to 100 */
    double mix;     /* of the scaled part; the rest is of the fraction, in 1024ths. 0: all is scaled */
    bool random;    /* any node that fits */
    bool tightest;  /* a shared GPU is the fullest that fits; else the one with the highest score */
};

/* GPU milli that typical requests cannot use on a node in this state (FGD, ATC'23). Fills usable for each of them. */
double fragment_measure(const ClusterNode *node, const PlacementState *state, const Typical *typical, size_t count,
                        Usable *ret_usable);
/* The same after the request of a case. */
double fragment_measure_after(const PlacementCase *c);
double fragment_power_w(const ClusterNode *node, const PlacementState *state);

double placement_term(const PlacementCase *c, PlacementTerm term);
/* Whether the scores of a mode have a bound: it is not a published policy, and no weight but that of scarcity and
 * concentration is negative. */
bool placement_has_bound(const PlacementMode *mode);
/* A request that has room on a node in this state gets no higher score there. For modes that have one. */
double placement_bound(const PlacementMode *mode, const PlacementState *state, const ClusterRequest *request,
                       double scarcity);
