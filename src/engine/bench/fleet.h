/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the GPUs of a model measure on many nodes. Pure. */

#include "engine/bench/value.h"

typedef struct BenchFleetRow {
    char model[BENCH_NAME_CAP]; /* the driver's name */
    uint32_t column;            /* BenchMeasureId, or BENCH_CLOCK */
    uint32_t limit_w;           /* of BENCH_CLOCK: their power limit; else 0 */
    bool without_ecc;           /* of a value that uses the memory: their ECC is off; else false */
    uint32_t nodes, gpus;
    double median, spread_percent; /* of the medians of nodes; as bench_value */
    double least, most;
} BenchFleetRow;

typedef struct BenchFleet {
    VEC(BenchFleetRow) rows; /* by model and column */
} BenchFleet;

/* Of a node with several runs the last one counts; runs without a name of their node count all. */
void bench_fleet_make(const BenchRun *const *runs, size_t count, BenchFleet *ret);
/* Whether the i-th run is not the last one of its node. */
bool bench_fleet_is_old(const BenchRun *const *runs, size_t count, size_t i);
void bench_fleet_done(BenchFleet *fleet);

/* Of GPUs of the same model and settings; NULL: there is none. */
const BenchFleetRow *bench_fleet_find(const BenchFleet *fleet, const BenchGpu *gpu, unsigned column);
