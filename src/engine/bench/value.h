/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Values of a run as they are judged, and their statistics. Pure. */

#include "model/bench.h"

/* A column behind the measures: the SM clock held under load. */
enum { BENCH_CLOCK = BENCH_MEASURE_END, BENCH_COLUMNS };

/* For each GPU of a run its judged values, of copies between GPUs the median of its own; NAN: there is none. `at` is
 * the caller's (free). */
typedef struct BenchTable {
    size_t gpu_count;
    double (*at)[BENCH_COLUMNS];
} BenchTable;

BenchTable bench_table_make(const BenchRun *run);

/* The median of its samples, and where it is judged per clock the work in a clock: operations per SM, or bytes. NAN:
 * there is no usable value, which one that is not over 0 is neither. */
double bench_value(const BenchRun *run, const BenchMeasure *measure);
/* Of what `value` is: "GB/s", "operations per clock and SM". `id` may be BENCH_CLOCK. */
const char *bench_value_unit(unsigned id);

/* Median, and the median distance from it in per cent of it (may be NULL). Sorts `values`. NAN for none. */
double bench_median(double *values, size_t count, double *ret_spread_percent);

/* How many per cent a value is worse than a reference; below 0: better. `id` may be BENCH_CLOCK. */
double bench_behind(unsigned id, double value, double reference);

/* A rate or time of the GPU's memory, or of matrix products that come from it. */
bool bench_uses_memory(unsigned column);

/* "H100" of "NVIDIA H100 80GB HBM3", "H100 1g.10gb" of a MIG device of it. */
void bench_model(const char *name, char out[BENCH_NAME_CAP]);
/* "memory read" of a measure's label "memory, read". */
void bench_label(BenchMeasureId id, char out[BENCH_NAME_CAP]);
/* "3,013", "55.4", "1.84"; "-" for NAN. */
void bench_number(double value, char out[BENCH_NAME_CAP]);
