/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Where nodes are, from a CSV: node,nvlink,rack,block. Columns are found by name, one of the last three suffices. A
 * node may be a range ("gpu[01-18]"); an empty cell is no place. Pure; any thread. */

#include "source/slurm/cluster.h"

/* Gives the cluster's nodes their domains; others that they had are gone. -EINVAL names the text and its line. */
int slurm_places_read(const SlurmText *text, Arena *arena, Cluster *cluster, Err *err);
