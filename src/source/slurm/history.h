/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Jobs that ran, as `sacct -P --format=...` prints them with its header line, to be replayed. Columns, in any order:
 *   JobID Submit Start ElapsedRaw NNodes NCPUS Account Priority, and AllocTRES or ReqTRES
 * ReqMem is used where the TRES have no mem; others are passed over. Pure; any thread.
 */

#include "source/slurm/cluster.h"

typedef struct SlurmHistory {
    ClusterJob *jobs; /* in the text's order, with duration_s as it took; a role, or two where GPUs are uneven */
    size_t count;
    size_t steps, never_ran; /* lines without a job of their own, and jobs that never had nodes; both left out */
} SlurmHistory;

/* `cluster`: has the numbers of GPU types; NULL, or a type that it lacks: any type. Everything lies in the arena. An
 * empty text has no jobs. -EINVAL names the text and its line, or all columns that are missing; -E2BIG. */
int slurm_history_read(const SlurmText *text, const Cluster *cluster, Arena *arena, SlurmHistory *ret, Err *err);
