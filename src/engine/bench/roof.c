/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/bench/roof.h"

#include <math.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "model/peak.h"

static const struct {
    BenchMeasureId id;
    PeakType type;
} types[] = {
    {BENCH_FMA_FP32, PEAK_FP32},     {BENCH_FMA_FP64, PEAK_FP64},     {BENCH_MMA_FP16, PEAK_FP16},
    {BENCH_MMA_BF16, PEAK_BF16},     {BENCH_MMA_TF32, PEAK_TF32},     {BENCH_MMA_INT8, PEAK_INT8},
    {BENCH_MMA_FP64, PEAK_FP64},     {BENCH_MMA_FP8, PEAK_FP8},       {BENCH_WGMMA_BF16, PEAK_BF16},
    {BENCH_WGMMA_FP8, PEAK_FP8},     {BENCH_TCGEN05_BF16, PEAK_BF16}, {BENCH_GEMM_BF16, PEAK_BF16},
    {BENCH_GEMM_LIBRARY, PEAK_BF16},
};

static double read_median(const BenchRun *run, BenchMeasureId id, uint32_t gpu)
{
    const BenchMeasure *m = bench_run_find(run, id, gpu, BENCH_NONE);
    const double value = m ? bench_measure_median(m) : (double)NAN;

    return value > 0 ? value : (double)NAN;
}

static double keep_known(double value)
{
    return value > 0 ? value : (double)NAN;
}

/* Where the sheet's fp64 is that of tensor cores, multiply-adds reach half of it (A100, H100, B200). */
static double find_sheet(const Peak *peak, const BenchDevice *d, BenchMeasureId id, PeakType type)
{
    const bool halved = id == BENCH_FMA_FP64 && d->minor == 0 && (d->major == 8 || d->major == 9);

    return peak ? keep_known(peak->tflops[type] / (halved ? 2 : 1)) : (double)NAN;
}

static int compare_ceilings(const void *a, const void *b)
{
    const BenchCeiling *x = a, *y = b;

    if (x->tera > y->tera || x->tera < y->tera)
        return x->tera > y->tera ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

BenchRoof bench_roof(const BenchRun *run, uint32_t gpu)
{
    const BenchDevice *d = &run->gpus.at[gpu].device;
    const Peak *peak = peak_find(d->name);
    BenchRoof roof = {.memory_gbs = read_median(run, BENCH_MEMORY_READ, gpu),
                      .l2_gbs = read_median(run, BENCH_L2_READ, gpu),
                      .sheet_gbs = peak ? keep_known(peak->memory_gbs) : (double)NAN};

    roof.memory_share_percent = 100 * roof.memory_gbs / roof.sheet_gbs;
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        const BenchMeasure *m = bench_run_find(run, types[i].id, gpu, BENCH_NONE);
        const double tera = read_median(run, types[i].id, gpu);

        if (!m || !isfinite(tera))
            continue;
        BenchCeiling *c = &roof.ceilings[roof.count++];
        *c = (BenchCeiling){.id = types[i].id,
                            .tera = tera,
                            .sm_mhz = m->sm_mhz,
                            .ridge = tera * 1e3 / roof.memory_gbs,
                            .l2_ridge = tera * 1e3 / roof.l2_gbs,
                            .sheet_tera = find_sheet(peak, d, types[i].id, types[i].type)};
        c->share_percent = 100 * tera / c->sheet_tera;
    }
    qsort(roof.ceilings, roof.count, sizeof *roof.ceilings, compare_ceilings);
    return roof;
}
