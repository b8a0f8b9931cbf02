/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Inside engine/place: MIG instances on a node's GPUs. What is taken of a GPU is one word: a bit per memory slice, and
 * above them how many engines of each kind. An instance adds its own word to it, and takes it away at its end.
 *
 * Memory slices and engines decide: the limits of instances and of compute slices that boards have follow from these.
 */

#include "engine/place/placement.h"

/* NULL: the node's board has no profile of the name that the request has, or the request has none. */
static inline const MigProfile *instance_profile(const ClusterNode *node, const ClusterRequest *r)
{
    const unsigned at = node->mig ? node->mig->profiles[r->mig] : 0;

    return at ? &node->mig->board->profiles[at - 1] : NULL;
}

/* Whether a GPU of a node is in MIG mode. */
static inline bool instance_is_on(const ClusterNode *node, unsigned gpu)
{
    return node->mig && node->mig->gpus >> gpu & 1;
}

/* GPUs that are not in MIG mode. */
static inline unsigned instance_whole_gpus(const ClusterNode *node)
{
    return node->gpu_count - (node->mig ? (unsigned)__builtin_popcount(node->mig->gpus) : 0);
}

/* The word of a GPU in MIG mode on which no job runs. What is not to be given out is taken. */
uint32_t instance_first_used(const ClusterNode *node, unsigned gpu);
/* Milli that are left of a GPU: of one in MIG mode its free slices. */
uint32_t instance_left(const ClusterNode *node, const PlacementLeft *left, unsigned gpu);
/* Whether a request has room on a GPU, of a node with GPUs in MIG mode. */
bool instance_fits(const ClusterNode *node, const ClusterRequest *r, const PlacementLeft *left, unsigned gpu);
/* A bit per memory slice where an instance of a profile could begin. 0 for a GPU that is not in MIG mode, and
 * for no profile (NULL). */
uint32_t instance_starts(const ClusterNode *node, const MigProfile *profile, unsigned gpu, uint32_t used);
/* How many of a profile have room beside each other, on all GPUs of a node. */
uint32_t instance_room(const ClusterNode *node, const MigProfile *profile, const PlacementLeft *left);
/* The same when no job runs. 0 for no profile (NULL). */
uint32_t instance_total(const ClusterNode *node, const MigProfile *profile);
/* The GPU and start that take the fewest placements of large profiles away. False: there is none. */
bool instance_choose(const ClusterNode *node, const MigProfile *profile, const PlacementLeft *left,
                     PlacementChoice *ret);
/* Gives (+1) or takes (-1) an instance on a GPU. Returns the milli that are free now and were not, or less than 0. */
int32_t instance_change(const ClusterNode *node, const MigProfile *profile, PlacementLeft *left, unsigned gpu,
                        unsigned start, int sign);
/* The placements of larger profiles that an instance takes away, as mig_count_placements has them: of two words, the
 * less is better. */
void instance_loss(const MigBoard *board, uint32_t before, uint32_t after, uint8_t ret[MIG_GRID_MAX + 1]);
