/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where a request for GPUs goes in a cluster. A node has CPU, memory and GPUs that can be shared by thousandths; each
 * node that a request fits gets a score, and the highest one wins; of equal scores the first node in a given order.
 * Deterministic and pure: no clock, no I/O, no allocation per decision. One thread per Placement.
 *
 * Published policies can be chosen beside our own modes, so that both are measured on the same work.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "model/cluster.h"

enum { PLACEMENT_NODE_PODS_MAX = 1001 /* on one node */ };

typedef struct PlacementChoice {
    uint32_t node; /* its index */
    uint16_t gpus; /* a bit per GPU of the node */
    uint8_t start; /* memory slice, of a MIG instance */
} PlacementChoice;

static inline PlacementChoice placement_choice(const ClusterPlace *place)
{
    return (PlacementChoice){.node = place->node, .gpus = place->gpus, .start = place->start};
}

/* What a mode weighs. The score of a node is the sum of weight times term; higher is better. WORD(id, key, text) */
#define PLACEMENT_TERM_TABLE(WORD)                                                                                     \
    WORD(PLACEMENT_FRAGMENTATION, "fragmentation", "GPUs that become usable for typical requests, less those lost")    \
    WORD(PLACEMENT_CONCENTRATION, "concentration", "0 for the first node in the order, -1 for the last")               \
    WORD(PLACEMENT_CPU_DEFICIT, "cpu-deficit", "-10 cores that its free GPUs then lack at 12 cores a GPU")             \
    WORD(PLACEMENT_SCARCITY, "scarcity", "less: how much of the demand can be served by the node's model alone")       \
    WORD(PLACEMENT_POWER, "power", "-100 W that the node then draws more")                                             \
    WORD(PLACEMENT_SPREAD, "spread", "less: the part of the node's GPUs, or of its CPUs without GPUs, then in use")    \
    WORD(PLACEMENT_COST, "cost", "less: the price of the GPUs that it takes, by the hour")

typedef enum PlacementTerm { PLACEMENT_TERM_TABLE(WORD_ID) PLACEMENT_TERM_END } PlacementTerm;
extern const WordRow placement_terms[PLACEMENT_TERM_END];

typedef struct PlacementMode PlacementMode;

extern const PlacementMode *const placement_modes[];        /* NULL-ended */
const PlacementMode *placement_mode_find(const char *name); /* NULL: no such mode */
const char *placement_mode_name(const PlacementMode *mode);
const char *placement_mode_text(const PlacementMode *mode);
/* NULL: it is a published policy, which weighs nothing. */
const double *placement_mode_weights(const PlacementMode *mode);
/* One of other weights; it and a copy of its name lie in the arena. */
const PlacementMode *placement_mode_new(const char *name, const double weights[PLACEMENT_TERM_END], Arena *arena);

typedef struct Placement Placement;

/* `nodes`: copied. `order`: the place of each node among equal scores, a permutation of 0..count-1; NULL: as given. */
Placement *placement_new(const ClusterNode *nodes, size_t count, const uint32_t *order, const PlacementMode *mode);
void placement_free(Placement *placement); /* accepts NULL */

/* The requests that fragmentation is measured by: of `requests` the kinds that make up 95 %, by how often each occurs.
 * Before the first decision. */
void placement_set_typical(Placement *placement, const ClusterRequest *requests, size_t count);

/* A number for requests that are equal, which decisions are made with. Allocates for a kind that is new. */
uint32_t placement_add_kind(Placement *placement, const ClusterRequest *request);

/* False where no node has room; *ret is then untouched. Time: a search tree of each kind takes in the nodes that
 * changed since its last decision, the logarithm of all nodes for each; the kind's first decision scores every node. */
bool placement_decide(Placement *placement, uint32_t kind, PlacementChoice *ret);
/* The best of these nodes alone, each of which is scored. */
bool placement_decide_among(Placement *placement, uint32_t kind, const uint32_t *nodes, size_t count,
                            PlacementChoice *ret);
/* How many pods of this kind a node still has room for, others aside. */
uint32_t placement_capacity(const Placement *placement, uint32_t kind, uint32_t node);
/* Whether it could be bound just so. */
bool placement_fits(const Placement *placement, uint32_t kind, PlacementChoice choice);
/* Nothing new is placed on a closed node. What is there stays. */
void placement_close(Placement *placement, uint32_t node, bool closed);
void placement_bind(Placement *placement, uint32_t kind, PlacementChoice choice);    /* takes what was decided */
void placement_release(Placement *placement, uint32_t kind, PlacementChoice choice); /* gives it back */

/* Sums over the cluster, in the order of the nodes. */
uint64_t placement_gpu_milli(const Placement *placement);           /* there are */
uint64_t placement_gpu_milli_allocated(const Placement *placement); /* in use */
double
placement_fragmentation(const Placement *placement); /* GPU milli that a typical request cannot use (FGD, ATC'23) */
double placement_power_w(const Placement *placement);

/* What is left of a node, for tests and explanations. */
typedef struct PlacementLeft {
    uint32_t cpu_milli, memory_mib, pods;
    uint16_t gpu_milli[CLUSTER_GPUS_MAX]; /* of a GPU in MIG mode 0 */
    uint32_t mig_used[CLUSTER_GPUS_MAX];  /* of a GPU in MIG mode: a bit per memory slice, and engines above them */
} PlacementLeft;
PlacementLeft placement_left(const Placement *placement, size_t node);
/* How many pods of a kind had room on a node of which so much were left; its being closed counts. */
uint32_t placement_room(const Placement *placement, uint32_t kind, uint32_t node, const PlacementLeft *left);
/* Gives (+1) or takes (-1) a pod's room on a node of which so much is left. Returns the GPU milli that are free now and
 * were not, or less than 0. */
int32_t placement_change_left(const ClusterNode *node, const ClusterRequest *request, PlacementChoice choice, int sign,
                              PlacementLeft *left);

/* --- a cluster on which others decide too ------------------------------------------------------------------------- */

/* Sets what is left of a node, whoever has taken the rest, which the sum of what is allocated does not learn. */
void placement_set_left(Placement *placement, uint32_t node, const PlacementLeft *left);
/* How good a node is for a request, higher is better, and the GPUs that it would get there. False: it has no room. */
bool placement_score(const Placement *placement, const ClusterRequest *request, uint32_t node, double *ret_score,
                     uint16_t *ret_gpus);
