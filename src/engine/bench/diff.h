/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Two runs of the same GPUs: what changed. Pure; one thread. */

#include "engine/bench/judge.h"

/* WORD(id, key, text) */
#define BENCH_CHANGE_TABLE(WORD)                                                                                       \
    WORD(BENCH_CHANGED, "changed", "changed")                                                                          \
    WORD(BENCH_APPEARED, "appeared", "was not there before")                                                           \
    WORD(BENCH_VANISHED, "vanished", "is not there any more")

typedef enum BenchChangeKind { BENCH_CHANGE_TABLE(WORD_ID) BENCH_CHANGE_END } BenchChangeKind;

extern const WordRow bench_changes[BENCH_CHANGE_END];

/* A value of a GPU, or with column BENCH_COLUMNS the GPU itself. */
typedef struct BenchChange {
    BenchChangeKind kind;
    uint32_t before_gpu, after_gpu; /* places in the runs; BENCH_NONE: it is not there */
    uint32_t column;                /* BenchMeasureId, or BENCH_CLOCK */
    double before, after;           /* as bench_value; NAN: none */
    double worse_percent;           /* below 0: better; NAN */
    bool beyond;                    /* worse by more than a limit: */
    BenchSeverity severity;
} BenchChange;

typedef struct BenchDiff {
    VEC(BenchChange) changes;             /* by GPU of the later run, and by measure */
    VEC(BenchFinding) appeared, vanished; /* findings of each run by itself */
    size_t worse;                         /* changes beyond a limit, GPUs and values that vanished, new findings of
                                             more than a notice */
    bool other_data;                      /* the rates of arithmetic are not comparable */
} BenchDiff;

/* GPUs are matched by UUID; those left over by index where the model is the same. */
void bench_diff(const BenchRun *before, const BenchRun *after, BenchDiff *ret);
void bench_diff_done(BenchDiff *diff);
