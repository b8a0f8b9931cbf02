/* SPDX-License-Identifier: Apache-2.0 */
/* Made-up runs: a healthy node of H100s with the noise that healthy boards have, and faults that are put into it. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "engine/bench/judge.h"

#define STAGE(name) (1u << BENCH_STAGE_##name)

enum {
    SMS = 132,
    WINDOWS = 5,
    READY = STAGE(START) | STAGE(PATTERNS) | STAGE(MEMORY) | STAGE(PROBES) | STAGE(GEMM) | STAGE(BURN) | STAGE(HOST) |
            STAGE(PAIRS) | STAGE(COLLECTIVES),
};

/* Of a healthy H100 SXM; noise: half of the range in per cent by which boards of a model differ (model/bench.h). */
static const struct {
    BenchMeasureId id;
    double value, noise;
} healthy[] = {
    {BENCH_CONTEXT, 310, 10},        {BENCH_MEMORY_WRITE, 3050, 0.05}, {BENCH_MEMORY_READ, 3205, 0.05},
    {BENCH_MEMORY_COPY, 2930, 0.05}, {BENCH_MEMORY_TRIAD, 2985, 0.05}, {BENCH_MEMORY_LATENCY, 570, 0.5},
    {BENCH_L2_READ, 7050, 0.05},     {BENCH_FMA_FP32, 66.4, 0.005},    {BENCH_FMA_FP64, 33.2, 0.005},
    {BENCH_MMA_FP16, 672, 0.005},    {BENCH_MMA_BF16, 672, 0.005},     {BENCH_WGMMA_BF16, 1020, 0.005},
    {BENCH_GEMM_BF16, 605, 0.2},     {BENCH_BURN, 590, 0.2},           {BENCH_HOST_TO_GPU, 54.8, 0.2},
    {BENCH_GPU_TO_HOST, 52.6, 0.2},  {BENCH_HOST_TO_ALL, 41, 5},       {BENCH_RING, 350, 0.2},
    {BENCH_ALL_TO_ALL, 330, 0.2},    {BENCH_ALL_REDUCE, 300, 0.2},
};

static const double boost_mhz = 1980, load_mhz = 1755, load_noise = 0.5, pair_gbs = 390, pair_noise = 0.2;

static inline uint64_t next_random(uint64_t *seed)
{
    uint64_t z = (*seed += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* A factor within so many per cent of 1. */
static inline double wobble(uint64_t *seed, double percent)
{
    return 1 + percent / 100 * (2 * (double)(next_random(seed) >> 11) / 9007199254740992.0 - 1);
}

/* The windows of one measure hardly differ. */
static inline BenchMeasure make_measure(BenchMeasureId id, uint32_t gpu, uint32_t peer, double value, uint64_t *seed)
{
    BenchMeasure m = {.id = id, .gpu = gpu, .peer = peer, .count = WINDOWS, .sm_mhz = boost_mhz};

    for (uint32_t i = 0; i < WINDOWS; i++)
        m.samples[i] = value * wobble(seed, 0.002);
    return m;
}

static inline void add_sms(BenchMeasure *m, uint64_t *seed)
{
    m->sm_count = SMS;
    for (uint32_t s = 0; s < SMS; s++)
        m->per_clock[s] = (float)(m->samples[0] * 1e6 / m->sm_mhz / SMS * wobble(seed, 0.01));
}

static inline void add_gpu_measures(BenchRun *run, uint32_t gpu, uint64_t *seed)
{
    const double held = load_mhz * wobble(seed, load_noise);

    for (size_t i = 0; i < ARRAY_LEN(healthy); i++) {
        const BenchMeasureId id = healthy[i].id;
        BenchMeasure m = make_measure(id, gpu, BENCH_NONE, healthy[i].value * wobble(seed, healthy[i].noise), seed);

        if (bench_measures[id].part == BENCH_PART_COLLECTIVE && run->gpus.len < 2)
            continue;
        if (id == BENCH_BURN || id == BENCH_GEMM_BF16) { /* its rate follows the clock */
            m.sm_mhz = held;
            for (uint32_t w = 0; w < m.count; w++)
                m.samples[w] *= held / load_mhz;
        }
        if (id == BENCH_FMA_FP32 || id == BENCH_MMA_BF16 || id == BENCH_WGMMA_BF16)
            add_sms(&m, seed);
        vec_push(&run->measures, m);
    }
}

static inline void add_gpu(BenchRun *run, uint32_t index)
{
    BenchGpu *g = vec_add(&run->gpus);
    BenchDevice *d = &g->device;

    g->index = index;
    g->known = true;
    g->ended = READY;
    d->ecc = true;
    g->limit_w = 700;
    g->temp_slowdown_c = 87;
    snprintf(g->vbios, sizeof g->vbios, "96.00.89.00.01");
    snprintf(d->uuid, sizeof d->uuid, "GPU-%.40s-%08" PRIx32, run->node, index);
    snprintf(d->name, sizeof d->name, "NVIDIA H100 80GB HBM3");
    snprintf(d->pci, sizeof d->pci, "0000:%02x:00.0", 0x1b + index * 0x11);
    d->major = 9;
    d->sm_count = SMS;
    d->sm_clock_mhz = 1980;
    d->memory_clock_mhz = 2619;
    d->bus_bits = 5120;
    d->cuda_version = 13000;
    d->ecc = true;
    d->memory_bytes = UINT64_C(85520809984);
    d->free_bytes = UINT64_C(84900000000);
    d->l2_bytes = 50 << 20;
    for (BenchStage s = BENCH_STAGE_MEMORY; s <= BENCH_STAGE_COLLECTIVES; s++)
        g->watch[g->watch_count++] = (BenchWatch){.stage = s,
                                                  .samples = 10,
                                                  .sm_mhz = s == BENCH_STAGE_BURN ? load_mhz : boost_mhz,
                                                  .power_w = s == BENCH_STAGE_BURN ? 699 : 400,
                                                  .temp_c = 61,
                                                  .memory_temp_c = 70,
                                                  .limit_w = 700,
                                                  .reasons = s == BENCH_STAGE_BURN ? 4 : 0,
                                                  .pcie_gen = 5,
                                                  .pcie_width = 16};
    for (int c = 0; c < BENCH_COUNTER_END; c++)
        g->before[c] = g->after[c] = 0;
}

/* A healthy node after `stoker bench ready`. */
static inline BenchRun make_run(const char *node, uint32_t gpus, uint64_t *seed)
{
    BenchRun run = {.real_ns = UINT64_C(1764000000000000000), .seconds = 18.4, .stages = READY};

    snprintf(run.rung, sizeof run.rung, "ready");
    snprintf(run.node, sizeof run.node, "%s", node);
    snprintf(run.driver, sizeof run.driver, "580.95.05");
    snprintf(run.version, sizeof run.version, "1.0");
    snprintf(run.data, sizeof run.data, "normal");
    for (uint32_t i = 0; i < gpus; i++)
        add_gpu(&run, i);
    for (uint32_t i = 0; i < gpus; i++)
        add_gpu_measures(&run, i, seed);
    for (uint32_t i = 0; i < gpus; i++)
        for (uint32_t k = 0; k < gpus; k++)
            if (i != k)
                vec_push(&run.measures, make_measure(BENCH_PEER, i, k, pair_gbs * wobble(seed, pair_noise), seed));
    return run;
}

/* Its windows times a factor. */
static inline BenchMeasure *scale_pair(BenchRun *run, BenchMeasureId id, uint32_t gpu, uint32_t peer, double factor)
{
    BenchMeasure *m = (BenchMeasure *)(uintptr_t)bench_run_find(run, id, gpu, peer);

    assert_non_null(m);
    for (uint32_t i = 0; i < m->count; i++)
        m->samples[i] *= factor;
    return m;
}

static inline BenchMeasure *scale_measure(BenchRun *run, BenchMeasureId id, uint32_t gpu, double factor)
{
    return scale_pair(run, id, gpu, BENCH_NONE, factor);
}

/* What is made from memory is slower, too. */
static inline void slow_memory(BenchRun *run, uint32_t gpu, double factor)
{
    for (BenchMeasureId id = BENCH_MEMORY_WRITE; id <= BENCH_MEMORY_TRIAD; id++)
        scale_measure(run, id, gpu, factor);
    scale_measure(run, BENCH_GEMM_BF16, gpu, 1 - (1 - factor) / 2);
}

/* Clock under load, and the rate that follows it. */
static inline void lower_clock(BenchRun *run, uint32_t gpu, double mhz, uint64_t reasons)
{
    for (size_t i = 0; i < 2; i++) {
        BenchMeasure *m = scale_measure(run, i ? BENCH_BURN : BENCH_GEMM_BF16, gpu, 1);

        for (uint32_t w = 0; w < m->count; w++)
            m->samples[w] *= mhz / m->sm_mhz;
        m->sm_mhz = mhz;
    }
    for (uint32_t i = 0; i < run->gpus.at[gpu].watch_count; i++)
        if (run->gpus.at[gpu].watch[i].stage == BENCH_STAGE_BURN)
            run->gpus.at[gpu].watch[i].reasons = reasons;
}

static inline BenchError *add_error(BenchRun *run, BenchErrorKind kind, BenchStage stage, uint32_t gpu, uint32_t peer)
{
    BenchError *e = vec_add(&run->errors);

    *e = (BenchError){
        .kind = kind, .stage = stage, .gpu = gpu, .peer = peer, .sm = BENCH_NONE, .measure = BENCH_MEASURE_END};
    return e;
}

static inline BenchError *add_wrong(BenchRun *run, BenchStage stage, uint32_t gpu, uint32_t peer, const char *what)
{
    BenchError *e = add_error(run, BENCH_ERROR_MISCOMPARE, stage, gpu, peer);

    e->count = 3;
    e->address = 4096;
    e->want = 0x55555555;
    e->got = 0x55555557;
    e->path = stage >= BENCH_STAGE_HOST;
    snprintf(e->what, sizeof e->what, "%s", what);
    return e;
}

static inline void add_xid(BenchGpu *gpu, uint32_t code, FaultCause cause, FaultSeverity severity, const char *name)
{
    BenchXid *xid = &gpu->xids[gpu->xid_count++];

    *xid = (BenchXid){.code = code, .fault = true, .cause = cause, .severity = severity};
    snprintf(xid->name, sizeof xid->name, "%s", name);
}

/* Neither the stage nor those after it ended; nothing of them is there. */
static inline void cut_stages(BenchRun *run, uint32_t gpu, BenchStage from)
{
    size_t kept = 0;

    run->gpus.at[gpu].ended = (1u << from) - 1;
    for (size_t i = 0; i < run->measures.len; i++) {
        const BenchMeasure *m = &run->measures.at[i];
        const bool late = bench_measures[m->id].part >= BENCH_PART_HOST_LINK || m->id == BENCH_BURN ||
                          (from <= BENCH_STAGE_PATTERNS && m->id != BENCH_CONTEXT);

        if ((m->gpu == gpu || m->peer == gpu) && late)
            continue;
        run->measures.at[kept++] = *m;
    }
    run->measures.len = kept;
}
