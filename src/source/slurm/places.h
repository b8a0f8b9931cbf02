/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Where a cluster's nodes are. Each reader gives them domains; others that they had are gone. Everything lies in the
 * arena. -EINVAL and -E2BIG name the text and its line, and leave the cluster as it was. Pure; any thread. */

#include "base/arena.h"
#include "model/cluster.h"
#include "source/slurm/record.h"

enum { SLURM_SWITCHES_MAX = 16384 };

/* A CSV: node,nvlink,rack,block. Columns are found by name, one of the last three suffices. A node may be a list
 * ("gpu[01-18]"); an empty cell is no place; a node that the cluster lacks is an error. */
int slurm_places_read(const SlurmText *text, Arena *arena, Cluster *cluster, Err *err);

/* 'scontrol show topology' or a topology.conf: a leaf switch is a rack, the switch above it a block, a block of the
 * block plugin an NVLink domain. Nodes that the cluster lacks are passed over. */
int slurm_topology_read(const SlurmText *text, Arena *arena, Cluster *cluster, Err *err);
