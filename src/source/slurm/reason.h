/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Why Slurm lets a job wait: its words (squeue(1), "JOB REASON CODES"), in plain English, and what to do. Const. */

#include <stddef.h>

typedef struct SlurmReason {
    const char *word; /* each '*' stands for any characters */
    const char *meaning, *remedy;
} SlurmReason;

/* The row of a Reason of scontrol or squeue; NULL: there is none. */
const SlurmReason *slurm_reason_find(const char *word, size_t len);
extern const SlurmReason slurm_reasons[];
extern const size_t slurm_reason_count;
