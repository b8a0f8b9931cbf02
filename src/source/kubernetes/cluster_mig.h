/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * MIG instances, which the API counts by profile: resources nvidia.com/mig-1g.10gb. Where on a node's GPUs they are it
 * does not say, so that a node gets as many instances, each on a slice of its own of GPUs that stand for the real ones,
 * and no others can be made. Pure; one thread.
 */

#include "base/arena.h"
#include "base/map.h"
#include "base/vec.h"
#include "model/cluster.h"
#include "source/kubernetes/field.h"

/* Names of profiles that nodes and pods use, numbered from 1, and layouts of nodes. */
typedef struct KubeMig {
    Arena *arena;
    VEC(const char *) names;
    Map layouts; /* "first GPU and counts" -> ClusterMig */
} KubeMig;

void kube_mig_init(KubeMig *mig, Arena *arena);
void kube_mig_done(KubeMig *mig);

/* So many instances of each profile. */
typedef struct KubeInstances {
    struct {
        uint8_t profile; /* number of its name */
        double count;
    } at[MIG_PROFILE_MAX];
    size_t len;
} KubeInstances;

/* Those in a list of resources, over what is known of them in *ret. False where there are more profiles or names than
 * have room. */
int kube_mig_read(KubeMig *mig, const KubeField *resources, KubeInstances *ret, bool *ret_complete, Err *err);
void kube_instances_add(KubeInstances *to, const KubeInstances *more);
void kube_instances_max(KubeInstances *to, const KubeInstances *other);
double kube_instances_sum(const KubeInstances *instances);

/* Gives a node that has its whole GPUs its instances behind them, as many as have room. */
void kube_mig_give(KubeMig *mig, const KubeInstances *instances, ClusterNode *node);
