/* SPDX-License-Identifier: Apache-2.0 */
#include "model/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const BenchMeasureRow bench_measures[BENCH_MEASURE_END] = {
#define MEASURE_ROW(id, key, label, unit, part, per_clock, less, notice, degraded, fault)                              \
    [id] = {key, label, unit, part, per_clock, less, notice, degraded, fault},
    BENCH_MEASURE_TABLE(MEASURE_ROW)
#undef MEASURE_ROW
};

BenchMeasureId bench_measure_find(const char *key)
{
    for (int i = 0; i < BENCH_MEASURE_END; i++)
        if (strcmp(bench_measures[i].key, key) == 0)
            return (BenchMeasureId)i;
    return BENCH_MEASURE_END;
}

void bench_run_done(BenchRun *run)
{
    vec_done(&run->gpus);
    vec_done(&run->measures);
    vec_done(&run->errors);
}

const BenchMeasure *bench_run_find(const BenchRun *run, BenchMeasureId id, uint32_t gpu, uint32_t peer)
{
    for (size_t i = 0; i < run->measures.len; i++) {
        const BenchMeasure *m = &run->measures.at[i];

        if (m->id == id && m->gpu == gpu && m->peer == peer)
            return m;
    }
    return NULL;
}

static int compare_samples(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double bench_sort_median(double *values, size_t count)
{
    if (count == 0)
        return NAN;
    qsort(values, count, sizeof *values, compare_samples);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

double bench_measure_median(const BenchMeasure *measure)
{
    double sorted[BENCH_SAMPLES_MAX];
    const size_t count = measure->count < BENCH_SAMPLES_MAX ? measure->count : BENCH_SAMPLES_MAX;

    memcpy(sorted, measure->samples, count * sizeof *sorted);
    return bench_sort_median(sorted, count);
}
