/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Where a cluster's nodes are, as objects of Kueue and of Volcano. Both go by labels of nodes; those that nodes lack
 * are comments with the command that sets them. Pure; any thread.
 */

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "model/cluster.h"

enum { TOPOLOGY_TEXT_MAX = 64 << 20 };

/* Whether a node has a tier's label, of the right value. */
typedef struct TopologySet {
    bool tier[CLUSTER_TIER_END];
} TopologySet;

/* A domain of a tier has the name that the label has as its value. */
typedef struct Topology {
    const Cluster *cluster;
    const char *labels[CLUSTER_TIER_END];
    const TopologySet *set;          /* by node */
    const char *const *model_labels; /* by model: the label of nodes that names it; NULL: none does */
} Topology;

/* Gives nodes of `to` the domain that the same node of `from` has, of each tier of which they have none. */
void topology_merge(const Cluster *from, Arena *arena, Cluster *to);

/* A Topology for each set of tiers that nodes of a model have, and a ResourceFlavor for each model: those of which
 * there are many GPUs for the demand that names them first. -EINVAL: a name is no value of a label. */
int topology_render_kueue(const Topology *t, Str *to, Err *err);
/* HyperNodes: racks are of tier 1 (NVLink domains where there are none), blocks of tier 2, as `stoker job render` has
 * them. -EINVAL: the same, or a rack is in two blocks. */
int topology_render_volcano(const Topology *t, Arena *arena, Str *to, Err *err);
