/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Inside the planner: a plan in the making (plan.c) and playing what happens in it (play.c). */
#include "sim/core/work.h"

enum { TRAIN_MAX = 256, DYN_MAX = 20000 };

typedef struct Train { /* an op with times > 1, somewhere in its course */
    uint32_t op;
    uint64_t next_ns;
    uint32_t left;
} Train;

typedef struct Plan {
    SimImage *image;
    PlanGpu gpu[SIM_GPU_MAX];
    SimNodeSeg node;
    uint32_t order[SIM_OP_MAX]; /* ops still to come, by time, then by arrival */
    uint32_t todo, next;
    uint64_t from_ns;   /* where this planning goes on */
    uint32_t first_new; /* ops from here on are played for the first time */
    Train trains[TRAIN_MAX];
    uint32_t train_count;
} Plan;

/* Plays an op at t_ns: opens the GPUs it touches, changes them, writes its event. */
void op_play(Plan *p, const SimOp *op, uint64_t t_ns);
/* Plays what a GPU's own course brings: too hot, out of memory. */
void dyn_play(Plan *p, uint32_t gpu, uint64_t t_ns);
/* Publishes the node's condition from t_ns on. */
void node_publish(Plan *p, uint64_t t_ns);
int driver_up(const Plan *p);
