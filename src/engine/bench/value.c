/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/bench/value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/human.h"
#include "model/peak.h"

double bench_value(const BenchRun *run, const BenchMeasure *m)
{
    const BenchMeasureRow *row = &bench_measures[m->id];
    const double value = bench_measure_median(m);

    for (uint32_t i = 0; i < m->count && i < BENCH_SAMPLES_MAX; i++)
        if (!isfinite(m->samples[i]) || m->samples[i] <= 0)
            return NAN;
    if (!row->per_clock || !(value > 0))
        return value;
    if (!(m->sm_mhz > 0) || !isfinite(m->sm_mhz) || m->gpu >= run->gpus.len)
        return NAN;
    if (row->part == BENCH_PART_L2)
        return value * 1e3 / m->sm_mhz;
    const uint32_t sm_count = run->gpus.at[m->gpu].device.sm_count;
    return sm_count ? value * 1e6 / m->sm_mhz / sm_count : NAN;
}

const char *bench_value_unit(unsigned id)
{
    if (id == BENCH_CLOCK)
        return "MHz";
    if (!bench_measures[id].per_clock)
        return bench_measures[id].unit;
    return bench_measures[id].part == BENCH_PART_L2 ? "bytes per clock" : "operations per clock and SM";
}

/* Of the copies from or with a GPU the median. */
static void add_pairs(const BenchRun *run, BenchTable *table, BenchMeasureId id)
{
    double values[BENCH_GPUS_MAX];

    for (size_t gpu = 0; gpu < table->gpu_count; gpu++) {
        size_t count = 0;

        for (size_t i = 0; i < run->measures.len && count < BENCH_GPUS_MAX; i++) {
            const BenchMeasure *m = &run->measures.at[i];
            const bool with = !run->gpus.at[gpu].shared && (m->gpu == gpu || (id == BENCH_PEER_BOTH && m->peer == gpu));
            const double value = m->id == id && with && m->peer != BENCH_NONE ? bench_value(run, m) : (double)NAN;

            if (value > 0)
                values[count++] = value;
        }
        table->at[gpu][id] = bench_median(values, count, NULL);
    }
}

BenchTable bench_table_make(const BenchRun *run)
{
    BenchTable table = {run->gpus.len, xcalloc(run->gpus.len + 1, sizeof *table.at)};

    for (size_t i = 0; i < table.gpu_count; i++)
        for (size_t c = 0; c < BENCH_COLUMNS; c++)
            table.at[i][c] = NAN;
    for (size_t i = 0; i < run->measures.len; i++) {
        const BenchMeasure *m = &run->measures.at[i];

        if (m->gpu >= table.gpu_count || m->peer != BENCH_NONE || run->gpus.at[m->gpu].shared)
            continue;
        table.at[m->gpu][m->id] = bench_value(run, m);
        if (m->id == BENCH_BURN && m->sm_mhz > 0)
            table.at[m->gpu][BENCH_CLOCK] = m->sm_mhz;
    }
    add_pairs(run, &table, BENCH_PEER);
    add_pairs(run, &table, BENCH_PEER_BOTH);
    add_pairs(run, &table, BENCH_PEER_SM);
    return table;
}

double bench_median(double *values, size_t count, double *ret_spread_percent)
{
    const double median = bench_sort_median(values, count);

    if (!ret_spread_percent)
        return median;
    double *distances = xmalloc((count + 1) * sizeof *distances);
    for (size_t i = 0; i < count; i++)
        distances[i] = fabs(values[i] - median);
    *ret_spread_percent = 100 * bench_sort_median(distances, count) / median;
    free(distances);
    return median;
}

bool bench_uses_memory(unsigned column)
{
    return column < BENCH_MEASURE_END &&
           (bench_measures[column].part == BENCH_PART_MEMORY || (column >= BENCH_GEMM_BF16 && column <= BENCH_BURN));
}

double bench_behind(unsigned id, double value, double reference)
{
    const bool less_is_better = id < BENCH_MEASURE_END && bench_measures[id].less_is_better;

    return 100 * (less_is_better ? value / reference - 1 : 1 - value / reference);
}

void bench_model(const char *name, char out[BENCH_NAME_CAP])
{
    const Peak *peak = peak_find(name);
    const char *maker = "NVIDIA ", *mig = strstr(name, " MIG ");

    if (strncmp(name, maker, strlen(maker)) == 0)
        name += strlen(maker);
    if (peak && mig)
        snprintf(out, BENCH_NAME_CAP, "%s %s", peak->word, mig + strlen(" MIG "));
    else
        snprintf(out, BENCH_NAME_CAP, "%s", peak ? peak->word : name[0] ? name : "GPU");
}

void bench_label(BenchMeasureId id, char out[BENCH_NAME_CAP])
{
    size_t n = 0;

    for (const char *c = bench_measures[id].label; *c; c++)
        if (*c != ',')
            out[n++] = *c;
    out[n] = '\0';
}

void bench_number(double value, char out[BENCH_NAME_CAP])
{
    char grouped[HUMAN_MAX];

    if (!isfinite(value))
        snprintf(out, BENCH_NAME_CAP, "-");
    else if (fabs(value) >= 999.5 && fabs(value) < 1e15)
        snprintf(out, BENCH_NAME_CAP, "%s", human_count(grouped, llround(value)));
    else
        snprintf(out, BENCH_NAME_CAP, "%.*f", fabs(value) >= 100 ? 0 : fabs(value) >= 10 ? 1 : 2, value);
}
