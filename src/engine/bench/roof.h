/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The roofline of a GPU, of what was measured on it: bandwidths, and what each type of arithmetic reaches at the clock
 * that was held. Pure. */

#include "engine/bench/value.h"

/* The most that one type of arithmetic reached. */
typedef struct BenchCeiling {
    BenchMeasureId id;
    double tera, sm_mhz;    /* 10^12 operations per second, at this clock */
    double ridge, l2_ridge; /* operations per byte from which memory, or the L2 cache, is not the limit; NAN */
    double sheet_tera, share_percent; /* the data sheet's, and what of it was reached; NAN: it does not say */
} BenchCeiling;

typedef struct BenchRoof {
    double memory_gbs, l2_gbs;              /* NAN: not measured */
    double sheet_gbs, memory_share_percent; /* NAN: not known */
    size_t count;
    BenchCeiling ceilings[BENCH_MEASURE_END]; /* the highest first */
} BenchRoof;

BenchRoof bench_roof(const BenchRun *run, uint32_t gpu);
