/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the tests of sim/core share: nodes built by hand from the boards of the tree, with a clock that stands. Silicon
 * and cooling are as the board says (no spread). One thread, unless a test says otherwise.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>

#include "sim/core/control.h"
#include "sim/core/kinds.h"
#include "sim/core/state.h"
#include "../slow.h"

/* The boards of the tree. The pointer lives as long as the process. */
const SimBoard *node_board(const char *key);
/* Keys of all boards, NULL-ended. */
const char *const *node_boards(void);

/* A node with one GPU per key (NULL-ended), without works or ops; not planned yet. The file is gone already. */
SimImage *node_new(const char *const *boards);
/* The same with `count` GPUs of one board. */
SimImage *node_of(const char *board, uint32_t count);

typedef struct NodeWork {
    const char *kind;
    int32_t gpu, mig, job; /* mig, job: SIM_NONE for none */
    uint32_t rank, ranks;
    double slow, memory_mib, leak_mib_per_s, load, offset_s;
} NodeWork;
/* Adds a work before sim_plan_build; returns its number. It does not start by itself. */
int32_t node_work(SimImage *image, NodeWork w);
/* A work of `kind` on a whole GPU that starts at t = 0. */
int32_t node_run(SimImage *image, const char *kind, int32_t gpu);

/* Adds an op at t_s seconds before sim_plan_build. */
void node_op(SimImage *image, double t_s, SimOp op);
/* Applies an op now as an injection and returns the outcome. */
SimOutcome node_apply(SimImage *image, SimOp op);
/* The same; fails the test unless it is accepted. */
void node_do(SimImage *image, SimOp op);

uint64_t node_ns(double s);
void node_step(SimImage *image, double s);
/* The state at t_s seconds. The result is overwritten by the next call. */
const SimNow *node_at(SimImage *image, uint32_t gpu, double t_s);

/* Pseudo-random numbers, the same in every run: [0, 1) and [0, n). */
double node_rand(uint64_t *seed);
uint32_t node_pick(uint64_t *seed, uint32_t n);
