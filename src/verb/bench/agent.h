/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What `stoker bench` tells the agent of the node, and learns from it. Where none answers, or none is to be asked,
 * nothing is done and 0 returned; <0: it refused, which hinders no test. Blocks for seconds at most.
 */

#include "base/arena.h"
#include "base/err.h"
#include "base/opt.h"
#include "engine/bench/judge.h"
#include "verb/agent/local_node.h"

/* The run's GPUs are under test for so long; 0: no more, without a result. */
int bench_agent_begin(const LookOptions *look, Arena *arena, const BenchRun *run, uint64_t seconds, Err *err);
/* The test of the run that this JSON is of has ended. */
int bench_agent_end(const LookOptions *look, Arena *arena, const char *json, size_t len, Err *err);

/* Earlier runs of the node, the newest first, as BenchReferences wants them. */
typedef struct BenchHistory {
    size_t count;
    BenchRun runs[BENCH_HISTORY_MAX];
    const BenchRun *list[BENCH_HISTORY_MAX];
} BenchHistory;
int bench_agent_history(const LookOptions *look, Arena *arena, BenchHistory *ret, Err *err);
void bench_history_done(BenchHistory *history);
