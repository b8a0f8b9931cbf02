/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The named kinds of work: what a training step, a decode or a hung collective does to a GPU, as phases of activity.
 */
#include "sim/core/image.h"

typedef struct SimKindParam {
    double step_s;    /* 0 = the kind's own */
    double intensity; /* 0..1, 0 = the kind's own; scales activity, not time */
    double load;      /* requests: busy fraction 0..1, 0 = own */
    uint32_t ranks;   /* ranks of the job: 1 = no communication phase */
    uint64_t seed;
} SimKindParam;

/* The kinds, in the order of the documentation: "train", "train-starved", ... NULL after the last. */
const char *sim_kind_name(uint32_t i);
const char *sim_kind_about(uint32_t i);
/* Memory the kind holds by default, as a fraction of the GPU's memory. */
double sim_kind_memory(const char *kind);
/* Fills work->phases, phase_count, proc_type and leak defaults for `kind` on `board`; 0 or -EINVAL for an unknown kind.
 */
int sim_kind_fill(SimWork *work, const SimBoard *board, const SimKindParam *param);
