/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Runs of many nodes beside each other. Pure; one thread. */

#include "engine/bench/judge.h"

enum { BENCH_RUNS_MAX = 4096 };

typedef struct BenchRanked {
    const BenchRun *run;
    BenchJudgement judgement; /* with the fleet as a reference */
} BenchRanked;

typedef struct BenchRanking {
    BenchFleet fleet;
    VEC(BenchRanked) nodes; /* that with the worst GPU first; of a node with several runs the last one */
    size_t behind;          /* nodes with a GPU that is not fit */
} BenchRanking;

/* The runs are borrowed. */
void bench_rank(const BenchRun *const *runs, size_t count, BenchRanking *ret);
void bench_ranking_done(BenchRanking *ranking);
