/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Places the pods of a job all or none, as near to each other as it asks: in one domain of its tier, the fullest one
 * that has room; where that is only preferred, else in the fewest such domains of one of the next tier. Pure; one
 * thread per Gangs.
 */

#include "engine/place/placement.h"

typedef struct Gangs Gangs;

/* The nodes of each domain of a tier: those of domain d (0: in none) are nodes[first[d]] to nodes[first[d + 1] - 1]. */
typedef struct GangTier {
    uint32_t *nodes, *first; /* owned; NULL: not made */
} GangTier;

void gang_tier_make(const Cluster *cluster, ClusterTier tier, GangTier *ret);
void gang_tier_done(GangTier *tier);

/* Which domain of those that have room. */
typedef enum GangDomains {
    GANG_FULLEST,  /* which keeps others whole: what KAI does, and Kueue's LeastFreeCapacity */
    GANG_EMPTIEST, /* Kueue's BestFit */
    GANG_NEAREST,  /* none: pod by pod, near those placed before, as Volcano's soft mode; a required one: the fullest */
    GANG_IGNORED,  /* pods go where the mode has them, as without topology */
} GangDomains;

/* `cluster` and `placement` are borrowed; the nodes of both are the same. */
Gangs *gangs_new(const Cluster *cluster, Placement *placement, GangDomains domains);
void gangs_free(Gangs *gangs); /* accepts NULL */

/* Binds at least the least number of pods of each role of `job`, and up to the most where there is room; `kinds`: of
 * each role, as placement_add_kind gives it; `kept_free`: a bit per node that must not be used, NULL: none. *ret, with
 * room for all pods, has the places in the order of binding, the needed ones first. Returns how many pods were bound;
 * 0: they do not fit, and nothing is bound. */
size_t gangs_place(Gangs *gangs, const ClusterJob *job, const uint32_t *kinds, const uint64_t *kept_free,
                   ClusterPlace *ret);
/* Frees `count` of its places, or binds them again where nothing has been bound in between. */
void gangs_release(Gangs *gangs, const uint32_t *kinds, const ClusterPlace *places, size_t count);
void gangs_bind(Gangs *gangs, const uint32_t *kinds, const ClusterPlace *places, size_t count);

uint32_t gang_pods_min(const ClusterJob *job);
uint32_t gang_pods_max(const ClusterJob *job);
uint64_t gang_gpu_milli(const ClusterJob *job, bool most); /* of its least number of pods, or of its most */
uint64_t gang_places_milli(const ClusterJob *job, const ClusterPlace *places, size_t count); /* GPUs of these places */
/* The narrowest tier whose domain has all of these places; -1: one node; CLUSTER_TIER_END: none. */
int gangs_tier(const Gangs *gangs, const ClusterPlace *places, size_t count);
