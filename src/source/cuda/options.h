/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The arguments of stoker-bench, see worker.h. Plain data. */

#include "base/err.h"
#include "model/bench.h"

typedef struct BenchOptions {
    bool links; /* several GPUs together; else one */
    BenchStage stages[BENCH_STAGE_COUNT];
    uint32_t stage_count;
    uint32_t seconds, windows, memory_percent, keep_mib, delay_ms, wait;
    bool probes[BENCH_MEASURE_END];
    bool all_probes;
    uint32_t m, n, k; /* 0: not given */
    BenchFlood flood; /* of the stage flood */
    const char *mps;  /* pipe directory of the MPS daemon to use; "": none */
    const char *library, *root;
} BenchOptions;

/* Reads `argv` behind the program's name; texts in it are borrowed. -EINVAL or -ERANGE with a sentence. */
int bench_options_parse(int argc, char **argv, BenchOptions *ret, Err *err);
