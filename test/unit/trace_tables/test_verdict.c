/* SPDX-License-Identifier: Apache-2.0 */
/* Verdicts (engine/trace/verdict*.c, verdict.def): each rule says its word where it must, and not where it nearly must.
 * A healthy rank of four steps of 100 ms is the beginning of each case; the case spoils one thing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "engine/trace/verdict.h"

#define MS 1000000

enum { STEPS = 4, STEP_MS = 100 };

static TraceRank *add_rank(TraceReport *report, int64_t number)
{
    TraceRank *rank;

    vec_push(&report->ranks, ((TraceRank){.rank = number,
                                          .rank_known = true,
                                          .file = "r.json",
                                          .framework = "pytorch",
                                          .backend = "nccl",
                                          .host = "node1",
                                          .events = 100000}));
    rank = &report->ranks.at[report->ranks.len - 1];
    vec_push(&rank->devices, ((TraceDevice){.name = "NVIDIA A100-SXM4-80GB",
                                            .major = 8,
                                            .span_ns = (int64_t)STEPS * STEP_MS * MS,
                                            .busy_ns = (int64_t)STEPS * 98 * MS,
                                            .idle_ns = (int64_t)STEPS * 2 * MS,
                                            .compute_ns = (int64_t)STEPS * 98 * MS,
                                            .kernel_sum_ns = (int64_t)STEPS * 98 * MS,
                                            .operation_count = 400}));
    for (int i = 0; i < STEPS; i++) {
        TraceStepRow *step = vec_add(&rank->steps);
        TraceStepDevice *device;

        step->name = "ProfilerStep#1";
        step->number = i;
        step->start = (int64_t)i * STEP_MS * MS;
        step->to = step->start + (int64_t)STEP_MS * MS;
        step->duration_ns = (int64_t)STEP_MS * MS;
        device = vec_add(&step->devices);
        device->window_ns = (int64_t)STEP_MS * MS;
        device->busy_ns = device->compute_ns = 98 * MS;
        device->idle_ns = 2 * MS;
        device->operation_count = 100;
        device->idle_by_cause[TRACE_CAUSE_SHORT] = (TraceCauseSum){.count = 100, .total_ns = 2 * MS};
    }
    vec_push(&rank->kernels, ((TraceKernel){.name = "ampere_bf16_s16816gemm_bf16_128x128",
                                            .count = 400,
                                            .total_ns = (int64_t)STEPS * 98 * MS,
                                            .tensor_core = true,
                                            .occupancy_percent = NAN,
                                            .blocks_per_sm = NAN,
                                            .sm_efficiency = NAN}));
    return rank;
}

/* ---- what can be spoiled; `x` is milliseconds per step unless said otherwise ---- */

static void idle_of_rank(TraceRank *rank, TraceCause cause, double x)
{
    for (size_t i = 0; i < rank->steps.len; i++) {
        TraceStepDevice *device = &rank->steps.at[i].devices.at[0];

        device->idle_by_cause[cause].total_ns += (int64_t)(x * MS);
        device->idle_by_cause[cause].count++;
        device->idle_ns += (int64_t)(x * MS);
        device->busy_ns -= (int64_t)(x * MS);
        device->compute_ns -= (int64_t)(x * MS);
    }
    vec_push(&rank->gaps, ((TraceGap){.start = 0,
                                      .end = (int64_t)(x * MS),
                                      .cause = cause,
                                      .before = "a",
                                      .after = "b",
                                      .host = "what the host did",
                                      .host_ns = (int64_t)(x * MS),
                                      .thread = "1"}));
}

static void idle(TraceReport *report, TraceCause cause, double x)
{
    for (size_t r = 0; r < report->ranks.len; r++)
        idle_of_rank(&report->ranks.at[r], cause, x);
}

static TraceRank *only(TraceReport *report)
{
    return &report->ranks.at[0];
}

static void data_loading(TraceReport *report, double x)
{
    idle(report, TRACE_CAUSE_DATA_LOADING, x);
}

static void host_bound(TraceReport *report, double x)
{
    idle(report, TRACE_CAUSE_HOST_BOUND, x);
}

/* An optimizer's step in each step, of 400 operations in which the shortest kernel takes 1 us: 0.4 ms. x: ms idle
 * before them in the first step alone. */
static void optimizer(TraceReport *report, double x)
{
    TraceRank *rank = only(report);

    idle(report, TRACE_CAUSE_HOST_BOUND, x / STEPS);
    rank->gaps.at[0].end *= STEPS;
    rank->gaps.at[0].optimizer = true;
    rank->optimizer = (TraceOptimizer){.steps = STEPS, .operations = (int64_t)STEPS * 400};
    rank->kernels.at[0].min_ns = 1000;
}

/* 200 each: a fused one with many parameters. */
static void fused_optimizer(TraceReport *report, double x)
{
    optimizer(report, x);
    only(report)->optimizer.operations = (int64_t)STEPS * 200;
}

/* The gap's cause is no matter of launches. */
static void optimizer_behind_python(TraceReport *report, double x)
{
    optimizer(report, x);
    only(report)->gaps.at[0].cause = TRACE_CAUSE_PYTHON;
}

/* Steps of an engine between which Python runs. */
static void decode_gap(TraceReport *report, double x)
{
    TraceRank *rank = only(report);

    idle(report, TRACE_CAUSE_PYTHON, x);
    rank->gaps.at[0].end *= STEPS;
    rank->gaps.at[0].between = true;
    vec_push(&rank->inference, ((TraceInference){.kind = TRACE_STEP_DECODE,
                                                 .steps = STEPS,
                                                 .total_ns = (int64_t)STEPS * STEP_MS * MS,
                                                 .mean_ns = (double)STEP_MS * MS,
                                                 .between_mean_ns = x * MS,
                                                 .graph_steps = STEPS - 1,
                                                 .eager_sequences = ""}));
    vec_push(&rank->decode_gaps, ((TraceDecodeGap){.name = "schedule", .count = STEPS, .total_ns = 20 * MS}));
}

static void eager_decode_gap(TraceReport *report, double x)
{
    decode_gap(report, x);
    only(report)->inference.at[0].eager_sequences = "3";
}

/* x: idle between kernels, 100 gaps per step; most kernels are short. */
static void short_kernels(TraceReport *report, double x)
{
    idle(report, TRACE_CAUSE_SHORT, x);
    only(report)->kernels.at[0].short_count = 300;
}

static void long_kernels(TraceReport *report, double x)
{
    idle(report, TRACE_CAUSE_SHORT, x);
    only(report)->kernels.at[0].short_count = 100;
}

static void queued(TraceReport *report, double x)
{
    idle(report, TRACE_CAUSE_QUEUED, x);
}

static void queued_streams(TraceReport *report, double x)
{
    queued(report, x);
    only(report)->devices.at[0].stream_count = 2;
}

/* Few and long waits in the queue: no matter of launches, however short the kernels. */
static void queued_short(TraceReport *report, double x)
{
    idle(report, TRACE_CAUSE_QUEUED, x);
    only(report)->kernels.at[0].short_count = 300;
}

static void synchronisation(TraceReport *report, double x)
{
    idle(report, TRACE_CAUSE_SYNCHRONISATION, x);
    vec_push(&only(report)->calls, ((TraceCall){.name = "cudaStreamSynchronize",
                                                .inner = "aten::_local_scalar_dense",
                                                .outer = "aten::item",
                                                .class = TRACE_HOST_SYNC,
                                                .count = 8,
                                                .total_ns = 3 * MS,
                                                .step_count = 8,
                                                .step_ns = 3 * MS}));
}

static void allocator(TraceReport *report, double x)
{
    idle(report, TRACE_CAUSE_ALLOCATOR, x);
}

static TraceCopy *copy(TraceReport *report, const char *kind, const char *source, int64_t count)
{
    vec_push(&only(report)->copies, ((TraceCopy){.kind = kind,
                                                 .source = source,
                                                 .target = "device",
                                                 .count = count,
                                                 .bytes = count * 10000000,
                                                 .total_ns = count * MS,
                                                 .exposed_ns = count * MS,
                                                 .bandwidth_gbs = 10}));
    return &only(report)->copies.at[only(report)->copies.len - 1];
}

static void exposed_copy(TraceReport *report, double x)
{
    for (size_t i = 0; i < STEPS; i++) {
        TraceStepDevice *device = &only(report)->steps.at[i].devices.at[0];

        device->compute_ns -= (int64_t)(x * MS);
        device->exposed_copy_ns += (int64_t)(x * MS);
    }
}

static void pageable(TraceReport *report, double x)
{
    exposed_copy(report, x);
    copy(report, "HtoD", "pageable", 40);
}

static void pageable_blocking(TraceReport *report, double x)
{
    idle(report, TRACE_CAUSE_COPY, x);
    copy(report, "HtoD", "pageable", 40);
}

static void pinned(TraceReport *report, double x)
{
    exposed_copy(report, x);
    copy(report, "HtoD", "pinned", 40);
}

/* All of them small: 4 steps of 20, or x = 0: of 19. */
static void small(TraceReport *report, double x)
{
    TraceCopy *row;

    exposed_copy(report, 5);
    row = copy(report, "DtoH", "device", x > 0 ? 80 : 79);
    row->small_count = row->count;
    row->small_ns = row->total_ns;
}

static void collective_wait(TraceReport *report, double x)
{
    idle(report, TRACE_CAUSE_COLLECTIVE_WAIT, x);
}

static void gloo(TraceReport *report, double x)
{
    idle(report, TRACE_CAUSE_COLLECTIVE_WAIT, x);
    vec_push(&only(report)->annotations, ((TraceAnnotation){.name = "gloo:all_reduce", .count = 4}));
}

static void compile(TraceReport *report, double x)
{
    idle(report, TRACE_CAUSE_COMPILE, x);
}

static void python(TraceReport *report, double x)
{
    idle(report, TRACE_CAUSE_PYTHON, x);
}

static void loading(TraceReport *report, double x)
{
    idle(report, TRACE_CAUSE_LOADING, x);
}

static void initialising(TraceReport *report, double x)
{
    idle(report, TRACE_CAUSE_INITIALISING, x);
}

static void tokenising(TraceReport *report, double x)
{
    idle(report, TRACE_CAUSE_TOKENISING, x);
}

static void collecting(TraceReport *report, double x)
{
    idle(report, TRACE_CAUSE_COLLECTING, x);
}

static void checkpoint(TraceReport *report, double x)
{
    idle(report, TRACE_CAUSE_CHECKPOINT, x);
}

static void logging(TraceReport *report, double x)
{
    idle(report, TRACE_CAUSE_LOGGING, x);
}

static void before_profile(TraceReport *report, double x)
{
    idle(report, TRACE_CAUSE_BEFORE_PROFILE, x);
}

static void unknown(TraceReport *report, double x)
{
    idle(report, TRACE_CAUSE_UNKNOWN, x);
}

static void unknown_with_operators(TraceReport *report, double x)
{
    idle(report, TRACE_CAUSE_UNKNOWN, x);
    vec_push(&only(report)->operators, ((TraceOperator){.name = "aten::add", .count = 1, .misaligned_dims = ""}));
}

static void communication(TraceReport *report, double x)
{
    for (size_t r = 0; r < report->ranks.len; r++) {
        TraceRank *rank = &report->ranks.at[r];

        rank->devices.at[0].communication_ns = (int64_t)(STEPS * x * MS);
        for (size_t i = 0; i < STEPS; i++) {
            TraceStepDevice *device = &rank->steps.at[i].devices.at[0];

            device->compute_ns -= (int64_t)(x * MS);
            device->communication_ns = device->exposed_communication_ns = (int64_t)(x * MS);
        }
    }
}

/* x: collectives per step of 20 us each, sizes not recorded. */
static void collectives(TraceReport *report, double x)
{
    communication(report, 20);
    vec_push(&only(report)->kernels, ((TraceKernel){.name = "ncclKernel_AllReduce",
                                                    .class = TRACE_COMMUNICATION,
                                                    .count = (int64_t)(x * STEPS),
                                                    .total_ns = (int64_t)(x * STEPS * 20000),
                                                    .occupancy_percent = NAN,
                                                    .blocks_per_sm = NAN,
                                                    .sm_efficiency = NAN}));
}

/* x: ns of each of 101 collectives per step, sizes not recorded. */
static void long_collectives(TraceReport *report, double x)
{
    collectives(report, 101);
    only(report)->kernels.at[only(report)->kernels.len - 1].total_ns = (int64_t)(101 * STEPS * x);
}

/* x: collectives below 1 MiB among 20 of known size; many short ones of another do not count then. */
static void sized_collectives(TraceReport *report, double x)
{
    collectives(report, 200);
    for (int i = 0; i < 21; i++)
        vec_push(&only(report)->collectives, ((TraceCollective){.in_bytes = i == 20 ? -1
                                                                            : i < x ? (1 << 20) - 1
                                                                                    : 1 << 20}));
}

/* x: GB/s that collectives of 100 MiB between two ranks of a host reach on links of 300. */
static void bus(TraceReport *report, double x)
{
    add_rank(report, 1);
    communication(report, 9);
    vec_push(&report->collectives, ((TraceCollectiveSum){.name = "allreduce",
                                                         .group = "default",
                                                         .group_size = 2,
                                                         .bytes = 100 << 20,
                                                         .count = 8,
                                                         .matched = 4,
                                                         .total_ns = 8 * 9 * MS,
                                                         .best_ns = 9 * MS,
                                                         .algorithm_gbs = x,
                                                         .bus_gbs = x}));
}

static void bus_of_two_hosts(TraceReport *report, double x)
{
    bus(report, x);
    report->ranks.at[1].host = "node2";
}

static void bus_of_an_unknown_gpu(TraceReport *report, double x)
{
    bus(report, x);
    only(report)->devices.at[0].name = "";
}

static void straggler(TraceReport *report, double x)
{
    add_rank(report, 1);
    communication(report, 9);
    report->straggler = (TraceStraggler){.rank = 1,
                                         .label = "rank 1",
                                         .cause = "host_late",
                                         .host_cause = "data_loading",
                                         .late_step_ns = x * MS,
                                         .share = 0.9,
                                         .matched = 40,
                                         .confidence = 0.9,
                                         .percent_of_step = x};
    vec_push(&report->straggler.ranks, 1);
}

/* x: of the wait, milliseconds in which the others compute nothing. */
static void hidden_straggler(TraceReport *report, double x)
{
    straggler(report, 50);
    for (size_t i = 0; i < STEPS; i++)
        only(report)->steps.at[i].devices.at[0].exposed_communication_ns = (int64_t)(x * MS);
}

/* x: milliseconds per step in which the rank waits for others. */
static void waiting(TraceReport *report, double x)
{
    communication(report, x);
    vec_push(&report->rank_times, ((TraceRankTime){.waiting_ns = x * MS}));
}

static void bubble(TraceReport *report, double x)
{
    waiting(report, x);
    vec_push(&only(report)->collectives, ((TraceCollective){.name = "send", .matched = true}));
}

static void perhaps_a_straggler(TraceReport *report, double x)
{
    straggler(report, x);
    report->straggler.confidence = 0.4;
}

/* x: milliseconds per step of matrix work in float. */
static void float_work(TraceReport *report, double x)
{
    only(report)->kernels.at[0].tensor_core = false;
    vec_push(&only(report)->operators, ((TraceOperator){.name = "aten::mm",
                                                        .count = 4,
                                                        .matrix = true,
                                                        .device_self_ns = (int64_t)(STEPS * x * MS),
                                                        .float_ns = (int64_t)(STEPS * x * MS),
                                                        .misaligned_count = -1,
                                                        .misaligned_dims = ""}));
}

/* A matrix operator that does nothing in float is not named. */
static void float_beside_another(TraceReport *report, double x)
{
    float_work(report, x);
    vec_push(&only(report)->operators, ((TraceOperator){.name = "aten::bmm",
                                                        .count = 4,
                                                        .matrix = true,
                                                        .device_self_ns = MS,
                                                        .tensor_core_ns = MS,
                                                        .misaligned_count = -1,
                                                        .misaligned_dims = ""}));
}

static void float_kernels(TraceReport *report, double x)
{
    only(report)->kernels.at[0].tensor_core = false;
    vec_push(&only(report)->kernels, ((TraceKernel){.name = "volta_sgemm",
                                                    .count = 4,
                                                    .total_ns = (int64_t)(STEPS * x * MS),
                                                    .float_matrix = true,
                                                    .occupancy_percent = NAN,
                                                    .blocks_per_sm = NAN,
                                                    .sm_efficiency = NAN}));
}

/* What lies behind the last kernel is none. */
static void float_behind_the_last(TraceReport *report, double x)
{
    float_kernels(report, x);
    only(report)->kernels.len--;
}

static void float_on_old(TraceReport *report, double x)
{
    float_work(report, x);
    only(report)->devices.at[0].name = "Tesla P100-PCIE-16GB";
    only(report)->devices.at[0].major = 6;
}

static void float_on_volta(TraceReport *report, double x)
{
    float_work(report, x);
    only(report)->devices.at[0].name = "Tesla V100-SXM2-32GB";
    only(report)->devices.at[0].major = 7;
}

static void float_on_unnamed(TraceReport *report, double x)
{
    float_work(report, x);
    only(report)->devices.at[0].name = "";
    only(report)->devices.at[0].major = -1;
}

/* A GPU that the table does not know: how much faster its tensor cores are is not known. */
static void float_on_new(TraceReport *report, double x)
{
    float_work(report, x);
    only(report)->devices.at[0].name = "NVIDIA X900";
    only(report)->devices.at[0].major = 19;
}

static void float_beside_tensor_cores(TraceReport *report, double x)
{
    float_work(report, x);
    only(report)->operators.at[0].tensor_core_ns = only(report)->operators.at[0].float_ns + 1;
}

static void misaligned(TraceReport *report, double x)
{
    vec_push(&only(report)->operators, ((TraceOperator){.name = "aten::mm",
                                                        .count = 40,
                                                        .matrix = true,
                                                        .device_self_ns = (int64_t)(STEPS * x * MS),
                                                        .tensor_core_ns = (int64_t)(STEPS * x * MS),
                                                        .shaped_count = 40,
                                                        .misaligned_count = 10,
                                                        .misaligned_ns = (int64_t)(STEPS * x * MS),
                                                        .misaligned_dims = "[[8, 9], [9, 8]]"}));
}

static void misaligned_off_tensor_cores(TraceReport *report, double x)
{
    misaligned(report, x);
    only(report)->operators.at[0].tensor_core_ns = 0;
    only(report)->operators.at[0].misaligned_dims = "[\n  [\n    8,\n    9\n  ],\n  [9, 8]\n]";
}

/* x: share of the multiprocessors that have a block. */
static void few_blocks(TraceReport *report, double x)
{
    TraceKernel *kernel = &only(report)->kernels.at[0];

    kernel->blocks_per_sm = kernel->sm_efficiency = x;
    kernel->blocks_ns = kernel->total_ns;
    kernel->empty_ns = (1 - x) * (double)kernel->total_ns;
}

/* The same beside other kernels all the time. */
static void few_blocks_beside_others(TraceReport *report, double x)
{
    few_blocks(report, x);
    only(report)->kernels.at[0].empty_ns = 0;
}

static void few_blocks_mostly_idle(TraceReport *report, double x)
{
    idle(report, TRACE_CAUSE_HOST_BOUND, 60);
    few_blocks(report, x);
}

/* x: occupancy, percent. */
static void few_warps(TraceReport *report, double x)
{
    TraceKernel *kernel = &only(report)->kernels.at[0];

    kernel->tensor_core = false;
    kernel->blocks_per_sm = 8;
    kernel->sm_efficiency = 1;
    kernel->blocks_ns = kernel->occupancy_ns = kernel->total_ns;
    kernel->occupancy_percent = x;
}

static void few_warps_of_a_matrix_kernel(TraceReport *report, double x)
{
    few_warps(report, x);
    only(report)->kernels.at[0].tensor_unknown = true;
}

static void few_warps_on_tensor_cores(TraceReport *report, double x)
{
    few_warps(report, x);
    only(report)->kernels.at[0].tensor_core = true;
}

/* x: percent of memory. */
static void memory(TraceReport *report, double x)
{
    vec_push(&only(report)->memory, ((TraceMemoryDevice){.device = 0,
                                                         .peak_allocated = 10,
                                                         .peak_reserved = (int64_t)(x * 10),
                                                         .capacity_bytes = 1000,
                                                         .totals = true,
                                                         .peak_op = "aten::empty"}));
}

static void data_parallel(TraceReport *report, double x)
{
    vec_push(
        &only(report)->annotations,
        ((TraceAnnotation){.name = x > 0 ? "DataParallel.forward" : "DistributedDataParallel.forward", .count = 4}));
}

static void no_gpu(TraceReport *report, double x)
{
    if (x <= 0)
        return;
    for (size_t i = 0; i < STEPS; i++)
        vec_done(&only(report)->steps.at[i].devices);
    vec_clear(&only(report)->devices);
    vec_clear(&only(report)->kernels);
}

/* x: events lost of 100000. */
static void lost(TraceReport *report, double x)
{
    only(report)->lost = (uint64_t)x;
    only(report)->lost_by_reason[PROFILE_LOSS_NO_TIME] = (uint64_t)x;
}

static void dropped_by_the_profiler(TraceReport *report, double x)
{
    only(report)->lost_by_reason[PROFILE_LOSS_PROFILER] = (uint64_t)x;
}

/* x in each of two causes that stay below what they are said from. */
static void spread(TraceReport *report, double x)
{
    idle(report, TRACE_CAUSE_HOST_BOUND, x);
    idle(report, TRACE_CAUSE_PYTHON, x);
}

static void nothing(TraceReport *report, double x)
{
    (void)report;
    (void)x;
}

/* ---- the cases ---- */

typedef struct Case {
    const char *id;
    void (*spoil)(TraceReport *report, double x);
    double x;
    bool fires;
    double percent; /* < 0: not looked at */
    const char *evidence;
    const char *advice; /* a part of it; NULL: not looked at */
} Case;

static const Case cases[] = {
    {"data-loading", data_loading, 5.1, true, 5.1,
     "GPU idle while input is loaded: 5.10 ms of a step of 100 ms (5.1 %); in the gaps the host was in what the host "
     "did (5.10 ms in 1 gap)",
     NULL},
    {"data-loading", data_loading, 4.9, false, 0, NULL, NULL},
    {"data-loading", host_bound, 50, false, 0, NULL, NULL},
    {"launch-bound", host_bound, 5.1, true, 5.1,
     "GPU idle while the host prepares and launches work: 5.10 ms of a step of 100 ms (5.1 %); in the gaps the host "
     "was in what the host did (5.10 ms in 1 gap); 100 GPU operations per step, the GPU works 929 us per operation",
     NULL},
    {"launch-bound", host_bound, 4.9, false, 0, NULL, NULL},
    {"launch-bound", unknown, 50, false, 0, NULL, NULL},
    {"short-kernels", short_kernels, 2, true, 4,
     "GPU idle between operations that were launched in time: 4.00 ms of a step of 100 ms (4.0 %); 300 of 400 kernels "
     "(75.0 %) are short; 100 GPU operations per step",
     NULL},
    {"short-kernels", short_kernels, 0.5, false, 0, NULL, NULL},
    {"short-kernels", long_kernels, 20, false, 0, NULL, NULL},
    {"optimizer", optimizer, 2.8, true, 1.1,
     "the optimizer's many launches: 1.10 ms of a step of 100 ms (1.1 %); 400 GPU operations per Optimizer.step, each "
     "with the time of the shortest kernel (1.00 us) and the idle time before it (700 us in all)",
     "foreach=True"},
    {"optimizer", optimizer, 2.3, false, 0, NULL, NULL},
    {"optimizer", fused_optimizer, 30, false, 0, NULL, NULL},
    {"optimizer", optimizer_behind_python, 30, false, 0, NULL, NULL},
    {"launch-bound", optimizer, 30, false, 0, NULL, NULL},
    {"launch-bound", fused_optimizer, 30, true, 7.5,
     "GPU idle while the host prepares and launches work: 7.50 ms of a step of 100 ms (7.5 %); in the gaps the host "
     "was in what the host did (7.50 ms in 1 gap); once: one idle time of 30.0 ms, between two operations; 100 GPU "
     "operations per step, the GPU works 905 us per operation",
     NULL},
    {"stream-wait", queued, 6, true, 6,
     "GPU idle with work launched and not started: 6.00 ms of a step of 100 ms (6.0 %); the longest gap, 6.00 ms, "
     "before b",
     NULL},
    {"stream-wait", queued, 6, true, 6,
     "GPU idle with work launched and not started: 6.00 ms of a step of 100 ms (6.0 %); the longest gap, 6.00 ms, "
     "before b",
     "All work is on one stream"},
    {"stream-wait", queued_streams, 6, true, 6,
     "GPU idle with work launched and not started: 6.00 ms of a step of 100 ms (6.0 %); the longest gap, 6.00 ms, "
     "before b",
     "waits between streams"},
    {"stream-wait", queued, 4, false, 0, NULL, NULL},
    {"stream-wait", queued_short, 6, true, 6,
     "GPU idle with work launched and not started: 6.00 ms of a step of 100 ms (6.0 %); the longest gap, 6.00 ms, "
     "before b",
     NULL},
    {"synchronisation", synchronisation, 2.1, true, 2.1,
     "GPU idle after the host waited for it: 2.10 ms of a step of 100 ms (2.1 %); in the gaps the host was in what the "
     "host did (2.10 ms in 1 gap); calls: cudaStreamSynchronize in aten::_local_scalar_dense of aten::item (8, 3.00 "
     "ms)",
     NULL},
    {"synchronisation", synchronisation, 2.1, true, 2.1,
     "GPU idle after the host waited for it: 2.10 ms of a step of 100 ms (2.1 %); in the gaps the host was in what the "
     "host did (2.10 ms in 1 gap); calls: cudaStreamSynchronize in aten::_local_scalar_dense of aten::item (8, 3.00 "
     "ms)",
     ".item()"},
    {"synchronisation", synchronisation, 1.9, false, 0, NULL, NULL},
    {"allocator", allocator, 1.1, true, 1.1,
     "GPU idle while memory is allocated or freed: 1.10 ms of a step of 100 ms (1.1 %); in the gaps the host was in "
     "what the host did (1.10 ms in 1 gap)",
     "expandable_segments"},
    {"allocator", allocator, 0.9, false, 0, NULL, NULL},
    {"pageable-copy", pageable, 2.1, true, 2.1,
     "pageable copies keep the GPU from computing: 2.10 ms of a step of 100 ms (2.1 %); in all 381 MiB at 10.0 GB/s",
     NULL},
    {"pageable-copy", pageable, 1.9, false, 0, NULL, NULL},
    {"pageable-copy", pageable_blocking, 3, true, 3,
     "pageable copies keep the GPU from computing: 3.00 ms of a step of 100 ms (3.0 %), of it idle while the host was "
     "in a copy 3.00 ms; in the gaps the host was in what the host did (3.00 ms in 1 gap); in all 381 MiB at 10.0 GB/s",
     "pin_memory"},
    {"pageable-copy", pinned, 50, false, 0, NULL, NULL},
    {"exposed-copy", pinned, 5.1, true, 5.1,
     "copies while nothing computes: 5.10 ms of a step of 100 ms (5.1 %); most in HtoD: 40, 381 MiB at 10.0 GB/s",
     "stream of its own"},
    {"exposed-copy", pinned, 4.9, false, 0, NULL, NULL},
    {"exposed-copy", pageable, 50, false, 0, NULL, NULL},
    {"small-copies", small, 1, true, 5,
     "small copies between host and device: 5.00 ms of a step of 100 ms (5.0 %); 80 under 64 KiB in 4 steps, 80.0 ms",
     NULL},
    {"small-copies", small, 0, false, 0, NULL, NULL},
    {"collective-wait", collective_wait, 2.1, true, 2.1,
     "GPU idle while the host waits for other ranks: 2.10 ms of a step of 100 ms (2.1 %); in the gaps the host was in "
     "what the host did (2.10 ms in 1 gap)",
     NULL},
    {"collective-wait", collective_wait, 1.9, false, 0, NULL, NULL},
    {"collective-wait", gloo, 50, false, 0, NULL, NULL}, /* gloo's */
    {"gloo", gloo, 1.1, true, 1.1,
     "GPU idle while gloo communicates on the host: 1.10 ms of a step of 100 ms (1.1 %); in the gaps the host was in "
     "what the host did (1.10 ms in 1 gap)",
     "NCCL"},
    {"gloo", gloo, 0.9, false, 0, NULL, NULL},
    {"gloo", collective_wait, 50, false, 0, NULL, NULL},
    {"compile", compile, 1.1, true, 1.1,
     "GPU idle while code is compiled: 1.10 ms of a step of 100 ms (1.1 %); in the gaps the host was in what "
     "the host did (1.10 ms in 1 gap)",
     "TORCH_LOGS=recompiles"},
    {"compile", compile, 0.9, false, 0, NULL, NULL},
    {"module-loading", loading, 1.1, true, 1.1,
     "GPU idle while code is loaded to it: 1.10 ms of a step of 100 ms (1.1 %); in the gaps the host was in what the "
     "host did (1.10 ms in 1 gap)",
     "CUDA_MODULE_LOADING"},
    {"module-loading", loading, 0.9, false, 0, NULL, NULL},
    {"initialisation", initialising, 1.1, true, 1.1,
     "GPU idle while a context or a library is made ready: 1.10 ms of a step of 100 ms (1.1 %); in the gaps the host "
     "was in what the host did (1.10 ms in 1 gap)",
     "once per process"},
    {"initialisation", initialising, 0.9, false, 0, NULL, NULL},
    {"tokenising", tokenising, 5.1, true, 5.1,
     "GPU idle while text is tokenised: 5.10 ms of a step of 100 ms (5.1 %); in the gaps the host was in what the host "
     "did (5.10 ms in 1 gap)",
     "tokenise ahead"},
    {"tokenising", tokenising, 4.9, false, 0, NULL, NULL},
    {"garbage-collection", collecting, 2.1, true, 2.1,
     "GPU idle while Python collects garbage: 2.10 ms of a step of 100 ms (2.1 %); in the gaps the host was in what "
     "the host did (2.10 ms in 1 gap)",
     "gc.freeze"},
    {"garbage-collection", collecting, 1.9, false, 0, NULL, NULL},
    {"checkpoint", checkpoint, 2.1, true, 2.1,
     "GPU idle while a checkpoint is written or read: 2.10 ms of a step of 100 ms (2.1 %); in the gaps the host was in "
     "what the host did (2.10 ms in 1 gap)",
     "async_save"},
    {"checkpoint", checkpoint, 1.9, false, 0, NULL, NULL},
    {"logging", logging, 2.1, true, 2.1,
     "GPU idle while something is logged: 2.10 ms of a step of 100 ms (2.1 %); in the gaps the host was in what the "
     "host did (2.10 ms in 1 gap)",
     "every N steps"},
    {"logging", logging, 1.9, false, 0, NULL, NULL},
    {"before-profile", before_profile, 5.1, true, 5.1,
     "GPU idle as far as the profile shows, behind work that was launched before it began: 5.10 ms of a step of 100 ms "
     "(5.1 %); in the gaps the host was in what the host did (5.10 ms in 1 gap)",
     "schedule with warmup"},
    {"before-profile", before_profile, 4.9, false, 0, NULL, NULL},
    {"decode-gap", decode_gap, 5.1, true, 5.1,
     "GPU idle between decode steps while the host prepares the next: 5.10 ms of a step of 100 ms (5.1 %); 4 decode "
     "steps "
     "of 100 ms, 5.10 ms idle before each; in the gaps the host was in schedule (20.0 ms in 4 gaps)",
     "--async-scheduling"},
    {"decode-gap", decode_gap, 4.9, false, 0, NULL, NULL},
    {"python", decode_gap, 5.1, false, 0, NULL, NULL},
    {"python", python, 5.1, true, 5.1,
     "GPU idle while Python runs: 5.10 ms of a step of 100 ms (5.1 %); in the gaps the host was in what the host did "
     "(5.10 ms in 1 gap)",
     NULL},
    {"python", python, 4.9, false, 0, NULL, NULL},
    {"idle-unknown", unknown, 5.1, true, 5.1,
     "GPU idle for a reason that the profile does not hold: 5.10 ms of a step of 100 ms (5.1 %); in the gaps the host "
     "was in what the host did (5.10 ms in 1 gap)",
     "ProfilerActivity.CPU"},
    {"idle-unknown", unknown_with_operators, 5.1, true, 5.1,
     "GPU idle for a reason that the profile does not hold: 5.10 ms of a step of 100 ms (5.1 %); in the gaps the host "
     "was in what the host did (5.10 ms in 1 gap)",
     "with_stack"},
    {"idle-unknown", unknown, 4.9, false, 0, NULL, NULL},
    {"exposed-communication", communication, 10.1, true, 10.1,
     "communication while nothing computes: 10.1 ms of a step of 100 ms (10.1 %); 0.0 % of 10.1 ms overlaps, "
     "and 87.9 ms of compute could hide more",
     NULL},
    {"exposed-communication", communication, 9.9, false, 0, NULL, NULL},
    {"exposed-communication", collectives, 200, true, 20,
     "communication while nothing computes: 20.0 ms of a step of 100 ms (20.0 %); 0.0 % of 20.0 ms overlaps, and 78.0 "
     "ms of compute could hide more; most in ncclKernel_AllReduce (800, 16.0 ms)",
     "larger buckets"},
    {"low-bus-bandwidth", bus, 30, true, 9,
     "slow collectives exposed: 9.00 ms of a step of 100 ms (9.0 %); allreduce of 100 MiB over 2 ranks of one host "
     "reaches 30.0 GB/s of bus bandwidth; NVIDIA A100-SXM4-80GB has links of 300 GB/s",
     NULL},
    {"low-bus-bandwidth", bus, 80, false, 0, NULL, NULL},
    {"low-bus-bandwidth", bus_of_two_hosts, 30, false, 0, NULL, NULL},
    {"low-bus-bandwidth", bus_of_an_unknown_gpu, 30, false, 0, NULL, NULL},
    {"pipeline-bubble", bubble, 10.1, true, 10.1,
     "waiting for other stages while nothing computes: 10.1 ms of a step of 100 ms (10.1 %)", NULL},
    {"pipeline-bubble", waiting, 20, false, 0, NULL, NULL},
    {"pipeline-bubble", bubble, 9.9, false, 0, NULL, NULL},
    {"exposed-communication", bubble, 20, false, 0, NULL, NULL},
    {"straggler", straggler, 1.1, true, 1.1,
     "rank 1: 1.10 ms late per step, its host is late (data loading); last in 90 % of 40 collectives; if it were as "
     "the "
     "others, a step would take 98.9 ms instead of 100 ms",
     NULL},
    {"straggler", straggler, 0.9, false, 0, NULL, NULL},
    {"straggler", hidden_straggler, 3, true, 3,
     "rank 1: 50.0 ms late per step, its host is late (data loading); last in 90 % of 40 collectives; if it were as "
     "the "
     "others, a step would take 97.0 ms instead of 100 ms",
     NULL},
    {"straggler", hidden_straggler, 0.9, false, 0, NULL, NULL},
    {"straggler", perhaps_a_straggler, 50, false, 0, NULL, NULL},
    {"mixed-precision", float_work, 10.1, true, 10.1,
     "matrix work in 32-bit float without tensor cores: 10.1 ms of a step of 100 ms (10.1 %); most in aten::mm (40.4 "
     "ms); on tensor cores 0 ns; NVIDIA A100-SXM4-80GB has them, 16 times as fast at most",
     NULL},
    {"mixed-precision", float_work, 9.9, false, 0, NULL, NULL},
    {"mixed-precision", float_beside_another, 10.1, true, 10.1,
     "matrix work in 32-bit float without tensor cores: 10.1 ms of a step of 100 ms (10.1 %); most in aten::mm (40.4 "
     "ms); on tensor cores 1.00 ms; NVIDIA A100-SXM4-80GB has them, 16 times as fast at most",
     NULL},
    {"mixed-precision", float_work, 10.1, true, 10.1,
     "matrix work in 32-bit float without tensor cores: 10.1 ms of a step of 100 ms (10.1 %); most in aten::mm (40.4 "
     "ms); on tensor cores 0 ns; NVIDIA A100-SXM4-80GB has them, 16 times as fast at most",
     "TF32"},
    {"mixed-precision", float_on_volta, 10.1, true, 10.1,
     "matrix work in 32-bit float without tensor cores: 10.1 ms of a step of 100 ms (10.1 %); most in aten::mm (40.4 "
     "ms); on tensor cores 0 ns; Tesla V100-SXM2-32GB has them, 7.96 times as fast at most",
     "no bfloat16"},
    {"mixed-precision", float_on_new, 20, false, 0, NULL, NULL},
    {"mixed-precision", float_on_old, 50, false, 0, NULL, NULL},
    {"mixed-precision", float_on_unnamed, 50, false, 0, NULL, NULL},
    {"mixed-precision", float_beside_tensor_cores, 40, false, 0, NULL, NULL},
    {"mixed-precision", float_behind_the_last, 30, false, 0, NULL, NULL},
    {"mixed-precision", float_kernels, 30, true, 30,
     "matrix work in 32-bit float without tensor cores: 30.0 ms of a step of 100 ms (30.0 %); most in volta_sgemm (120 "
     "ms); on tensor cores 0 ns; NVIDIA A100-SXM4-80GB has them, 16 times as fast at most",
     NULL},
    {"misaligned", misaligned, 5.1, true, 5.1,
     "10 of 40 matrix operators have dimensions that do not suit tensor cores: 5.10 ms of a step of 100 ms (5.1 %); "
     "most in aten::mm [[8, 9], [9, 8]]",
     NULL},
    {"misaligned", misaligned_off_tensor_cores, 5.1, true, 5.1,
     "10 of 40 matrix operators have dimensions that do not suit tensor cores: 5.10 ms of a step of 100 ms (5.1 %); "
     "most in aten::mm [[8, 9], [9, 8]]",
     NULL},
    {"misaligned", misaligned, 4.9, false, 0, NULL, NULL},
    {"low-sm-efficiency", few_blocks, 0.8, true, 19.6,
     "multiprocessors without a block while kernels run: 19.6 ms of a step of 100 ms (19.6 %); "
     "ampere_bf16_s16816gemm_bf16_128x128 (0.80 blocks per multiprocessor, 392 ms)",
     NULL},
    {"low-sm-efficiency", few_blocks, 0.95, false, 0, NULL, NULL},
    {"low-sm-efficiency", few_blocks_beside_others, 0.5, false, 0, NULL, NULL},
    {"low-sm-efficiency", few_blocks_mostly_idle, 0.5, false, 0, NULL, NULL},
    {"low-occupancy", few_warps, 20, true, 78.4,
     "kernels with few warps: 78.4 ms of a step of 100 ms (78.4 %); ampere_bf16_s16816gemm_bf16_128x128 (occupancy 20 "
     "%, 392 ms)",
     NULL},
    {"low-occupancy", few_warps, 26, false, 0, NULL, NULL},
    {"low-occupancy", few_warps_of_a_matrix_kernel, 10, false, 0, NULL, NULL},
    {"low-occupancy", few_warps_on_tensor_cores, 10, false, 0, NULL, NULL},
    {"memory-full", memory, 91, true, 0, "device 0: peak 910 B reserved of 1000 B (91.0 %) in aten::empty", NULL},
    {"memory-full", memory, 89, false, 0, NULL, NULL},
    {"data-parallel", data_parallel, 1, true, 0, "DataParallel.forward in a process with 1 GPU",
     "DistributedDataParallel"},
    {"data-parallel", data_parallel, 0, false, 0, NULL, NULL},
    {"no-gpu-work", no_gpu, 1, true, 0, "100000 events, none of a GPU", NULL},
    {"no-gpu-work", no_gpu, 0, false, 0, NULL, NULL},
    {"lost-records", lost, 101, true, 0, "no time: 101; 101 of 100000 events not used", NULL},
    {"lost-records", lost, 99, false, 0, NULL, NULL},
    {"lost-records", dropped_by_the_profiler, 1, true, 0, "dropped by profiler: 1; 0 of 100000 events not used", NULL},
    {"lost-records", dropped_by_the_profiler, 0, false, 0, NULL, NULL},
    {"idle-spread", spread, 4.5, true, 11,
     "GPU idle: 11.0 ms of a step of 100 ms (11.0 %); of it host bound 4.50 ms, python 4.50 ms, short 2.00 ms", NULL},
    {"idle-spread", spread, 3.5, false, 0, NULL, NULL},
    {"idle-spread", spread, 20, false, 0, NULL, NULL}, /* each has its own verdict */
    {"gpu-well-used", nothing, 0, true, 0,
     "GPU busy 98.0 ms of a step of 100 ms (98.0 %), computing 98.0 %; most in ampere_bf16_s16816gemm_bf16_128x128 "
     "(100.0 % of kernel time)",
     NULL},
    {"gpu-well-used", host_bound, 4, true, 0,
     "GPU busy 94.0 ms of a step of 100 ms (94.0 %), computing 94.0 %; most in ampere_bf16_s16816gemm_bf16_128x128 "
     "(100.0 % of kernel time)",
     NULL},
    {"gpu-well-used", host_bound, 8.5, false, 0, NULL, NULL},
    {"gpu-well-used", data_loading, 5.1, false, 0, NULL, NULL}, /* busy enough, and something to do */
};

static const TraceVerdict *find(const TraceReport *report, const char *id)
{
    for (size_t i = 0; i < report->verdicts.len; i++)
        if (strcmp(report->verdicts.at[i].id, id) == 0)
            return &report->verdicts.at[i];
    return NULL;
}

/* The verdict that there must be. */
static const TraceVerdict *said(const TraceReport *report, const char *id)
{
    static const TraceVerdict none;
    const TraceVerdict *verdict = find(report, id);

    assert_non_null(verdict);
    return verdict ? verdict : &none;
}

static void check(const Case *c)
{
    const TraceVerdict *verdict;
    TraceReport report;

    trace_report_init(&report);
    add_rank(&report, 0);
    c->spoil(&report, c->x);
    trace_verdicts(&report);
    verdict = find(&report, c->id);
    if (!verdict == c->fires)
        fail_msg("%s at %g %s", c->id, c->x, c->fires ? "is silent" : verdict->evidence);
    if (verdict && c->percent >= 0 && fabs(verdict->percent_of_step - c->percent) > 1e-6)
        fail_msg("%s at %g: %g %% instead of %g", c->id, c->x, verdict->percent_of_step, c->percent);
    if (verdict && strcmp(verdict->evidence, c->evidence) != 0)
        fail_msg("%s at %g does not say\n%s\nbut\n%s", c->id, c->x, c->evidence, verdict->evidence);
    if (verdict && c->advice && !strstr(verdict->advice, c->advice))
        fail_msg("%s at %g does not advise '%s' but '%s'", c->id, c->x, c->advice, verdict->advice);
    for (size_t i = 0; i < report.verdicts.len; i++) {
        assert_true(report.verdicts.at[i].gain_percent <= report.verdicts.at[i].percent_of_step);
        assert_true(report.verdicts.at[i].percent_of_step <= 100);
        assert_true(i == 0 || report.verdicts.at[i - 1].percent_of_step >= report.verdicts.at[i].percent_of_step);
    }
    trace_report_done(&report);
}

static void rules_say_what_the_data_shows_and_no_more(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check(&cases[i]);
}

static void each_rule_has_a_case_and_a_near_miss(void **state)
{
    (void)state;
    for (size_t id = 0; id < VERDICT_COUNT; id++) {
        bool fires = false, misses = false;

        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            bool same = strcmp(cases[i].id, verdict_rules[id].id) == 0;

            fires |= same && cases[i].fires;
            misses |= same && !cases[i].fires;
        }
        if (!fires || !misses)
            fail_msg("%s is not tested", verdict_rules[id].id);
        assert_true(*verdict_rules[id].advice && *verdict_rules[id].reason);
    }
}

static void idle_verdicts_cost_no_more_than_the_idle(void **state)
{
    (void)state;
    for (int round = 0; round < 200; round++) {
        TraceReport report;
        double sum = 0, idle_ns;

        trace_report_init(&report);
        add_rank(&report, 0);
        for (int cause = 0; cause < TRACE_CAUSE_COUNT; cause++)
            idle(&report, (TraceCause)cause, (double)(round * 31 % (7 + cause) + cause) / 3);
        if (round % 2)
            copy(&report, "HtoD", "pageable", 4);
        if (round % 3)
            only(&report)->kernels.at[0].short_count = 400;
        if (round % 5 == 0)
            gloo(&report, 1);
        idle_ns = (double)only(&report)->steps.at[0].devices.at[0].idle_ns;
        trace_verdicts(&report);
        for (size_t i = 0; i < report.verdicts.len; i++)
            sum += (double)report.verdicts.at[i].cost_ns;
        assert_true(report.verdicts.len > 1);
        assert_true(sum <= idle_ns * (1 + 1e-9));
        trace_report_done(&report);
    }
}

/* ---- hints ---- */

#define HINT(NAME, text) [VERDICT_HINT_##NAME] = text,
static const char *const hints[VERDICT_HINT_COUNT] = {
#include "engine/trace/verdict.def"
};

static void host_in(TraceReport *report, const char *name)
{
    data_loading(report, 20);
    only(report)->gaps.at[0].host = name;
}

static void one_process(TraceReport *report, double x)
{
    (void)x;
    host_in(report, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__");
}

static void workers(TraceReport *report, double x)
{
    (void)x;
    host_in(report, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__");
}

static void loading_pageable(TraceReport *report, double x)
{
    data_loading(report, 20);
    copy(report, "HtoD", x > 0 ? "pageable" : "pinned", 4);
}

static void graphs(TraceReport *report, double x)
{
    host_bound(report, 20);
    only(report)->launch.graph_launches = (int64_t)x;
}

/* x: percent of memory. */
static void room(TraceReport *report, double x)
{
    host_bound(report, 20);
    memory(report, x);
}

static void unknown_room(TraceReport *report, double x)
{
    room(report, x);
    only(report)->memory.at[0].totals = false;
}

static void compiled(TraceReport *report, double x)
{
    host_bound(report, 20);
    only(report)->kernels.at[0].short_count = x > 0 ? 300 : 100;
}

static void compiled_already(TraceReport *report, double x)
{
    compiled(report, x);
    vec_push(&only(report)->annotations, ((TraceAnnotation){.name = "Torch-Compiled Region: 0/0", .count = 4}));
}

static void call_in(TraceReport *report, TraceHostClass class, const char *name, const char *operator)
{
    vec_push(&only(report)->calls, ((TraceCall){.name = name,
                                                .inner = operator,
                                                .outer = operator,
                                                .class = class,
                                                .count = 8,
                                                .total_ns = 3 * MS,
                                                .step_count = 8,
                                                .step_ns = 3 * MS}));
}

static void sync_in(TraceReport *report, const char *operator)
{
    idle(report, TRACE_CAUSE_SYNCHRONISATION, 20);
    call_in(report, TRACE_HOST_SYNC, "cudaDeviceSynchronize", operator);
}

static void sync_item(TraceReport *report, double x)
{
    (void)x;
    sync_in(report, "aten::item");
}

static void sync_nonzero(TraceReport *report, double x)
{
    (void)x;
    sync_in(report, "aten::nonzero");
}

static void sync_copy(TraceReport *report, double x)
{
    (void)x;
    sync_in(report, "aten::copy_");
}

static void sync_explicit(TraceReport *report, double x)
{
    (void)x;
    sync_in(report, "");
}

static void frees(TraceReport *report, double x)
{
    allocator(report, 20);
    call_in(report, TRACE_HOST_ALLOCATOR, x > 0 ? "cudaFree" : "cudaMalloc", "");
}

static void host_allocates(TraceReport *report, double x)
{
    allocator(report, 20);
    call_in(report, TRACE_HOST_ALLOCATOR, x > 0 ? "cudaHostAlloc" : "cudaMalloc", "");
}

static void exposed(TraceReport *report, const char *kind)
{
    exposed_copy(report, 20);
    copy(report, kind, "pinned", 40);
}

static void copies_in(TraceReport *report, double x)
{
    (void)x;
    exposed(report, "HtoD");
}

static void copies_out(TraceReport *report, double x)
{
    (void)x;
    exposed(report, "DtoH");
}

static void copies_within(TraceReport *report, double x)
{
    (void)x;
    exposed(report, "DtoD");
}

static void sets(TraceReport *report, double x)
{
    (void)x;
    exposed(report, "set");
}

/* Half of it while something computes. */
static void overlapped(TraceReport *report, double x)
{
    communication(report, x);
    for (size_t i = 0; i < STEPS; i++)
        only(report)->steps.at[i].devices.at[0].communication_ns *= 2;
}

static void two_ranks(TraceReport *report, double x)
{
    add_rank(report, 1);
    communication(report, x);
}

static void late(TraceReport *report, const char *cause)
{
    straggler(report, 20);
    communication(report, 20);
    report->straggler.cause = cause;
}

static void late_compute(TraceReport *report, double x)
{
    (void)x;
    late(report, "computes_late");
}

static void late_host(TraceReport *report, double x)
{
    (void)x;
    late(report, "host_late");
}

static void late_transfers(TraceReport *report, double x)
{
    (void)x;
    late(report, "transfers_late");
}

static void late_copies(TraceReport *report, double x)
{
    (void)x;
    late(report, "copies_late");
}

static void late_somehow(TraceReport *report, double x)
{
    (void)x;
    late(report, "unknown");
}

/* All of it in one idle time, or in two. */
static void once(TraceReport *report, double x)
{
    host_bound(report, 5);
    only(report)->gaps.at[0].end = (int64_t)(x * MS);
}

static const struct HintCase {
    VerdictHint hint;
    const char *id;
    void (*spoil)(TraceReport *report, double x);
    double x;
    bool given;
} hint_cases[] = {
    {VERDICT_HINT_ONCE, "launch-bound", once, 10, true},
    {VERDICT_HINT_ONCE, "launch-bound", once, 9.9, false},
    {VERDICT_HINT_GRAPHS, "launch-bound", once, 10, false},
    {VERDICT_HINT_LOADER_SINGLE, "data-loading", one_process, 0, true},
    {VERDICT_HINT_LOADER_SINGLE, "data-loading", workers, 0, false},
    {VERDICT_HINT_LOADER_WORKERS, "data-loading", workers, 0, true},
    {VERDICT_HINT_LOADER_WORKERS, "data-loading", one_process, 0, false},
    {VERDICT_HINT_LOADER_ANY, "data-loading", data_loading, 20, true},
    {VERDICT_HINT_LOADER_ANY, "data-loading", workers, 0, false},
    {VERDICT_HINT_LOADER_PIN, "data-loading", loading_pageable, 1, true},
    {VERDICT_HINT_LOADER_PIN, "data-loading", loading_pageable, 0, false},
    {VERDICT_HINT_GRAPHS, "launch-bound", graphs, 0, true},
    {VERDICT_HINT_GRAPHS, "launch-bound", graphs, 1, false},
    {VERDICT_HINT_GRAPHS_MORE, "launch-bound", graphs, 1, true},
    {VERDICT_HINT_GRAPHS_MORE, "launch-bound", graphs, 0, false},
    {VERDICT_HINT_GRAPHS_ENGINE, "decode-gap", eager_decode_gap, 10, true},
    {VERDICT_HINT_GRAPHS_ENGINE, "decode-gap", decode_gap, 10, false},
    {VERDICT_HINT_BATCH_ROOM, "launch-bound", room, 0, true},
    {VERDICT_HINT_BATCH_ROOM, "launch-bound", room, 50, true},
    {VERDICT_HINT_BATCH_ROOM, "launch-bound", room, 51, false},
    {VERDICT_HINT_BATCH_ROOM, "launch-bound", unknown_room, 10, false},
    {VERDICT_HINT_COMPILE, "launch-bound", compiled, 1, true},
    {VERDICT_HINT_COMPILE, "launch-bound", compiled, 0, false},
    {VERDICT_HINT_COMPILE, "launch-bound", compiled_already, 1, false},
    {VERDICT_HINT_QUEUED_STREAMS, "stream-wait", queued_streams, 20, true},
    {VERDICT_HINT_QUEUED_STREAMS, "stream-wait", queued, 20, false},
    {VERDICT_HINT_QUEUED_ALONE, "stream-wait", queued, 20, true},
    {VERDICT_HINT_QUEUED_ALONE, "stream-wait", queued_streams, 20, false},
    {VERDICT_HINT_SYNC_ITEM, "synchronisation", sync_item, 0, true},
    {VERDICT_HINT_SYNC_ITEM, "synchronisation", sync_copy, 0, false},
    {VERDICT_HINT_SYNC_NONZERO, "synchronisation", sync_nonzero, 0, true},
    {VERDICT_HINT_SYNC_NONZERO, "synchronisation", sync_item, 0, false},
    {VERDICT_HINT_SYNC_COPY, "synchronisation", sync_copy, 0, true},
    {VERDICT_HINT_SYNC_COPY, "synchronisation", sync_nonzero, 0, false},
    {VERDICT_HINT_SYNC_EXPLICIT, "synchronisation", sync_explicit, 0, true},
    {VERDICT_HINT_SYNC_EXPLICIT, "synchronisation", sync_item, 0, false},
    {VERDICT_HINT_ALLOC_FREE, "allocator", frees, 1, true},
    {VERDICT_HINT_ALLOC_FREE, "allocator", frees, 0, false},
    {VERDICT_HINT_ALLOC_HOST, "allocator", host_allocates, 1, true},
    {VERDICT_HINT_ALLOC_HOST, "allocator", host_allocates, 0, false},
    {VERDICT_HINT_COPY_HTOD, "exposed-copy", copies_in, 0, true},
    {VERDICT_HINT_COPY_HTOD, "exposed-copy", copies_out, 0, false},
    {VERDICT_HINT_COPY_DTOH, "exposed-copy", copies_out, 0, true},
    {VERDICT_HINT_COPY_DTOH, "exposed-copy", copies_in, 0, false},
    {VERDICT_HINT_COPY_DTOD, "exposed-copy", copies_within, 0, true},
    {VERDICT_HINT_COPY_DTOD, "exposed-copy", sets, 0, false},
    {VERDICT_HINT_COPY_SET, "exposed-copy", sets, 0, true},
    {VERDICT_HINT_COPY_SET, "exposed-copy", copies_within, 0, false},
    {VERDICT_HINT_BFLOAT16, "mixed-precision", float_work, 20, true},
    {VERDICT_HINT_BFLOAT16, "mixed-precision", float_on_volta, 20, false},
    {VERDICT_HINT_FLOAT16, "mixed-precision", float_on_volta, 20, true},
    {VERDICT_HINT_FLOAT16, "mixed-precision", float_work, 20, false},
    {VERDICT_HINT_TF32, "mixed-precision", float_work, 20, true},
    {VERDICT_HINT_TF32, "mixed-precision", float_on_volta, 20, false},
    {VERDICT_HINT_COMM_BUCKETS, "exposed-communication", collectives, 101, true},
    {VERDICT_HINT_COMM_BUCKETS, "exposed-communication", collectives, 100, false},
    {VERDICT_HINT_COMM_BUCKETS, "exposed-communication", long_collectives, 999999, true},
    {VERDICT_HINT_COMM_BUCKETS, "exposed-communication", long_collectives, 1000000, false},
    {VERDICT_HINT_COMM_BUCKETS, "exposed-communication", sized_collectives, 11, true},
    {VERDICT_HINT_COMM_BUCKETS, "exposed-communication", sized_collectives, 10, false},
    {VERDICT_HINT_COMM_NO_OVERLAP, "exposed-communication", communication, 20, true},
    {VERDICT_HINT_COMM_NO_OVERLAP, "exposed-communication", overlapped, 20, false},
    {VERDICT_HINT_COMM_RANKS, "exposed-communication", communication, 20, true},
    {VERDICT_HINT_COMM_RANKS, "exposed-communication", two_ranks, 20, false},
    {VERDICT_HINT_COMM_STRAGGLER, "exposed-communication", late_host, 0, true},
    {VERDICT_HINT_COMM_STRAGGLER, "exposed-communication", two_ranks, 20, false},
    {VERDICT_HINT_COMM_LESS, "exposed-communication", communication, 20, true},
    {VERDICT_HINT_COMM_LESS, "launch-bound", host_bound, 20, false},
    {VERDICT_HINT_LATE_COMPUTE, "straggler", late_compute, 0, true},
    {VERDICT_HINT_LATE_COMPUTE, "straggler", late_host, 0, false},
    {VERDICT_HINT_LATE_HOST, "straggler", late_host, 0, true},
    {VERDICT_HINT_LATE_HOST, "straggler", late_compute, 0, false},
    {VERDICT_HINT_LATE_COPY, "straggler", late_copies, 0, true},
    {VERDICT_HINT_LATE_COPY, "straggler", late_somehow, 0, false},
    {VERDICT_HINT_LATE_TRANSFER, "straggler", late_transfers, 0, true},
    {VERDICT_HINT_LATE_TRANSFER, "straggler", late_copies, 0, false},
    {VERDICT_HINT_LATE_UNKNOWN, "straggler", late_somehow, 0, true},
    {VERDICT_HINT_LATE_UNKNOWN, "straggler", late_copies, 0, false},
    {VERDICT_HINT_RECORD_CPU, "idle-unknown", unknown, 20, true},
    {VERDICT_HINT_RECORD_CPU, "idle-unknown", unknown_with_operators, 20, false},
    {VERDICT_HINT_RECORD_STACK, "idle-unknown", unknown_with_operators, 20, true},
    {VERDICT_HINT_RECORD_STACK, "idle-unknown", unknown, 20, false},
};

static void hints_are_given_where_they_fit_and_nowhere_else(void **state)
{
    bool given[VERDICT_HINT_COUNT] = {false}, kept_back[VERDICT_HINT_COUNT] = {false};

    (void)state;
    for (size_t i = 0; i < sizeof hint_cases / sizeof hint_cases[0]; i++) {
        const struct HintCase *c = &hint_cases[i];
        TraceReport report;

        trace_report_init(&report);
        add_rank(&report, 0);
        c->spoil(&report, c->x);
        trace_verdicts(&report);
        if ((strstr(said(&report, c->id)->advice, hints[c->hint]) != NULL) != c->given)
            fail_msg("%s, case %zu: %s '%s'", c->id, i, c->given ? "lacks" : "has", hints[c->hint]);
        *(c->given ? &given[c->hint] : &kept_back[c->hint]) = true;
        trace_report_done(&report);
    }
    for (size_t hint = 0; hint < VERDICT_HINT_COUNT; hint++)
        if (!given[hint] || !kept_back[hint])
            fail_msg("'%s' is not tested", hints[hint]);
}

/* Why a bandwidth of 30 GB/s has no verdict is said, and only where the host is not known. */
static void a_bandwidth_that_cannot_be_judged(void **state)
{
    static const char *const hosts[] = {"", "node1", "node2"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(hosts); i++) {
        TraceReport report;

        trace_report_init(&report);
        add_rank(&report, 0);
        bus(&report, 30);
        report.ranks.at[1].host = hosts[i];
        trace_verdicts(&report);
        assert_int_equal(find(&report, "low-bus-bandwidth") != NULL, i == 1);
        assert_int_equal(report.notes.len, i == 0);
        if (i == 0)
            assert_non_null(strstr(report.notes.at[0], "rank 1 does not name its host"));
        trace_report_done(&report);
    }
}

/* Percentages are of the steps behind a warm-up, and so is what the report calls a step. */
static void a_step_is_the_same_everywhere(void **state)
{
    TraceReport report;

    (void)state;
    trace_report_init(&report);
    add_rank(&report, 0);
    only(&report)->steps.at[0].start -= (int64_t)900 * MS;
    trace_verdicts(&report);
    assert_true(only(&report)->warm_up);
    assert_true(fabs(report.measured_step_ns - 100.0 * MS) < 1e-3);
    assert_non_null(strstr(said(&report, "gpu-well-used")->evidence, "of a step of 100 ms"));
    trace_report_done(&report);
}

/* Advice of one platform has no words of another's. */
static void advice_fits_the_platform(void **state)
{
    static const struct {
        const char *framework, *call; /* a call of the runtime */
        bool rocm;
        const char *words[8]; /* of others */
    } platforms[] = {
        {"xla", "cuLaunchKernel", false, {"torch", "Torch", "TORCH", "DataLoader", "pin_memory", "DDP", "no_sync"}},
        {"nsys", "cudaLaunchKernel", false, {"torch", "Torch", "TORCH", "DataLoader", "pin_memory", "DDP", "no_sync"}},
        {"pytorch", "runFunction", false, {"torch.", "CUDA", "foreach", "GradScaler"}},
        {"pytorch", "hipLaunchKernel", true, {"CUDA_MODULE_LOADING", "NVLink", "XID", "tensor cores: use"}},
    };
    static const VerdictId of_torch[] = {VERDICT_DATA_PARALLEL, VERDICT_GLOO}; /* by names of PyTorch's */

    (void)state;
    for (size_t p = 0; p < ARRAY_LEN(platforms); p++)
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
            TraceReport report;

            if (!cases[i].fires || strcmp(cases[i].id, verdict_rules[of_torch[0]].id) == 0 ||
                strcmp(cases[i].id, verdict_rules[of_torch[1]].id) == 0)
                continue;
            trace_report_init(&report);
            add_rank(&report, 0);
            only(&report)->framework = platforms[p].framework;
            only(&report)->rocm = platforms[p].rocm;
            vec_push(&only(&report)->calls,
                     ((TraceCall){.name = platforms[p].call, .inner = "", .outer = "", .class = TRACE_HOST_OTHER}));
            cases[i].spoil(&report, cases[i].x);
            if (cases[i].spoil == synchronisation) /* its call is of CUDA */
                only(&report)->calls.len = 1;
            trace_verdicts(&report);
            for (size_t v = 0; v < report.verdicts.len; v++)
                for (size_t w = 0; w < ARRAY_LEN(platforms[p].words) && platforms[p].words[w]; w++)
                    if (strstr(report.verdicts.at[v].advice, platforms[p].words[w]))
                        fail_msg("%s, %s: %s", platforms[p].framework, platforms[p].call, report.verdicts.at[v].advice);
            trace_report_done(&report);
        }
}

/* Gains are what the GPU can do at most. */
static void gains_fit_the_gpu(void **state)
{
    static const struct {
        void (*spoil)(TraceReport *report, double x);
        const char *id, *gpu;
        int major, minor;
        double gain;
    } gains[] = {
        {float_work, "mixed-precision", "Tesla V100-SXM2-32GB", 7, 0, 20 * (1 - 15.7 / 125)},
        {float_work, "mixed-precision", "NVIDIA GeForce RTX 2080 Ti", 7, 5, 20 * 3.0 / 4},
        {float_work, "mixed-precision", "NVIDIA A100-SXM4-80GB", 8, 0, 20 * 15.0 / 16},
        {float_work, "mixed-precision", "NVIDIA A10", 8, 6, 20 * (1 - 31.2 / 125)},
        {float_work, "mixed-precision", "a name of the cloud's", 9, 0, 20 * 14.0 / 15},
        {misaligned, "misaligned", "NVIDIA A100-SXM4-80GB", 8, 0, 15},
        {misaligned_off_tensor_cores, "misaligned", "Tesla V100-SXM2-32GB", 7, 0, 20 * (1 - 15.7 / 125)},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(gains); i++) {
        TraceReport report;

        trace_report_init(&report);
        add_rank(&report, 0);
        gains[i].spoil(&report, 20);
        only(&report)->devices.at[0].name = gains[i].gpu;
        only(&report)->devices.at[0].major = gains[i].major;
        only(&report)->devices.at[0].minor = gains[i].minor;
        trace_verdicts(&report);
        if (fabs(said(&report, gains[i].id)->gain_percent - gains[i].gain) > 1e-9)
            fail_msg("%s on %s: %g instead of %g", gains[i].id, gains[i].gpu, said(&report, gains[i].id)->gain_percent,
                     gains[i].gain);
        trace_report_done(&report);
    }
}

/* Several causes in one gap of 40 ms, of which most is data loading: each costs its part, and only a long Python part
 * counts. */
static void a_gap_of_several_causes_is_divided(void **state)
{
    TraceReport report;
    TraceGap *gap;

    (void)state;
    trace_report_init(&report);
    add_rank(&report, 0);
    data_loading(&report, 10);
    gap = &only(&report)->gaps.at[0];
    gap->end = 40 * MS;
    gap->slice_ns[TRACE_CAUSE_DATA_LOADING] = 23 * MS;
    gap->slice_ns[TRACE_CAUSE_ALLOCATOR] = 12 * MS;
    gap->slice_ns[TRACE_CAUSE_PYTHON] = TRACE_LONG_PYTHON_NS - 1;
    gap->slice_ns[TRACE_CAUSE_HOST_BOUND] = 4 * MS + 1;
    trace_verdicts(&report);
    assert_true(fabs(said(&report, "data-loading")->percent_of_step - 7) < 1e-9);
    assert_true(fabs(said(&report, "allocator")->percent_of_step - 3) < 1e-9);
    assert_non_null(strstr(said(&report, "allocator")->evidence, "once: one idle time of 12.0 ms"));
    assert_null(strstr(said(&report, "allocator")->evidence, "in the gaps the host was in"));
    assert_null(find(&report, "launch-bound"));
    trace_report_done(&report);
}

/* Overlap gives no more than there is compute beside which nothing communicates, and never the last of several
 * operations. */
static void communication_is_hidden_behind_compute(void **state)
{
    static const struct {
        double exposed, operations, gain;
    } jobs[] = {{20, 0, 20}, {20, 1, 20}, {20, 4, 15}, {60, 0, 38}, {60, 4, 38}, {40, 4, 30}};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(jobs); i++) {
        TraceReport report;

        trace_report_init(&report);
        add_rank(&report, 0);
        communication(&report, jobs[i].exposed);
        vec_push(&only(&report)->kernels, ((TraceKernel){.name = "nccl",
                                                         .class = TRACE_COMMUNICATION,
                                                         .count = (int64_t)(STEPS * jobs[i].operations),
                                                         .total_ns = (int64_t)(STEPS * jobs[i].exposed * MS),
                                                         .occupancy_percent = NAN,
                                                         .blocks_per_sm = NAN,
                                                         .sm_efficiency = NAN}));
        trace_verdicts(&report);
        assert_true(fabs(said(&report, "exposed-communication")->gain_percent - jobs[i].gain) < 1e-9);
        trace_report_done(&report);
    }
}

/* Waiting of 30 ms beside own work of 64: what is left are 12 ms of four stages, half of it where nothing is known. */
static void a_bubble_shrinks_to_that_of_more_batches(void **state)
{
    static const struct {
        double own_ms;
        int64_t stages;
        double gain;
    } jobs[] = {{64, 4, 18}, {64, -1, 15}, {NAN, 4, 15}, {8, 4, 28.5}};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(jobs); i++) {
        TraceReport report;

        trace_report_init(&report);
        add_rank(&report, 0);
        bubble(&report, 30);
        report.rank_times.at[0].own_ns = jobs[i].own_ms * MS;
        only(&report)->collectives.at[0].group_size = jobs[i].stages;
        trace_verdicts(&report);
        assert_true(fabs(said(&report, "pipeline-bubble")->gain_percent - jobs[i].gain) < 1e-9);
        trace_report_done(&report);
    }
}

/* The rank that the others wait for, late by 8 ms of data loading, and what idle time the profile has of which rank:
 * one verdict where that is why. */
static void what_makes_a_rank_late_is_one_verdict_with_it(void **state)
{
    static const struct {
        size_t rank;
        TraceCause cause;
        const char *host_cause, *id;
        bool one;
    } roots[] = {{1, TRACE_CAUSE_DATA_LOADING, "data_loading", "data-loading", true},
                 {1, TRACE_CAUSE_PYTHON, "python", "python", true},
                 {1, TRACE_CAUSE_PYTHON, "data_loading", "python", false},
                 {0, TRACE_CAUSE_DATA_LOADING, "data_loading", "data-loading", false},
                 {1, TRACE_CAUSE_HOST_BOUND, "host_bound", "launch-bound", false}}; /* names nothing to change */

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(roots); i++) {
        TraceReport report;

        trace_report_init(&report);
        add_rank(&report, 0);
        straggler(&report, 8);
        report.straggler.host_cause = roots[i].host_cause;
        idle_of_rank(&report.ranks.at[roots[i].rank], roots[i].cause, 20);
        trace_verdicts(&report);
        const TraceVerdict *root = said(&report, roots[i].id);
        assert_int_equal(find(&report, "straggler") == NULL, roots[i].one);
        assert_int_equal(strstr(root->evidence, "; the other ranks wait for rank 1: 8.00 ms late per step") != NULL,
                         roots[i].one);
        assert_true(fabs(root->percent_of_step - 20) < 1e-9);
        assert_true(fabs(root->gain_percent - (roots[i].one ? 8 : 20)) < 1e-9);
        trace_report_done(&report);
    }
}

/* Two groups of late ranks are two verdicts: each with what it costs alone, and what mending it gives in that order. */
static void each_group_of_late_ranks_has_a_verdict(void **state)
{
    TraceReport report;
    size_t count = 0;

    (void)state;
    trace_report_init(&report);
    add_rank(&report, 0);
    straggler(&report, 4);
    report.straggler.cost_percent = 6;
    vec_push(&report.more_stragglers, ((TraceStraggler){.rank = 2,
                                                        .label = "rank 2",
                                                        .cause = "computes_late",
                                                        .late_step_ns = 2 * MS,
                                                        .matched = 40,
                                                        .confidence = 0.9,
                                                        .percent_of_step = 2,
                                                        .cost_percent = 2}));
    vec_push(&report.more_stragglers.at[0].ranks, 2);
    trace_verdicts(&report);
    for (size_t i = 0; i < report.verdicts.len; i++) {
        const TraceVerdict *verdict = &report.verdicts.at[i];
        const bool first = verdict->rank == 1;

        if (strcmp(verdict->id, "straggler") != 0)
            continue;
        count++;
        assert_true(fabs(verdict->percent_of_step - (first ? 6 : 2)) < 1e-9);
        assert_true(fabs(verdict->gain_percent - (first ? 4 : 2)) < 1e-9);
        assert_non_null(strstr(verdict->evidence, first ? "if it were as the others, a step would take 96.0 ms"
                                                        : "if it were as the others too, a step would take 94.0 ms"));
    }
    assert_int_equal(count, 2);
    trace_report_done(&report);
}

static void a_slow_first_step_is_not_judged(void **state)
{
    TraceStepRow *first;
    TraceReport report;

    (void)state;
    trace_report_init(&report);
    add_rank(&report, 0);
    first = &only(&report)->steps.at[0];
    first->start -= (int64_t)900 * MS;
    first->devices.at[0].window_ns += (int64_t)900 * MS;
    first->devices.at[0].idle_ns += (int64_t)900 * MS;
    first->devices.at[0].idle_by_cause[TRACE_CAUSE_COMPILE].total_ns = (int64_t)900 * MS;
    trace_verdicts(&report);
    assert_null(find(&report, "compile"));
    assert_non_null(find(&report, "gpu-well-used"));
    assert_int_equal(report.notes.len, 1);
    assert_non_null(strstr(report.notes.at[0], "10.0 times"));
    trace_report_done(&report);

    /* Not so much longer: it counts. */
    trace_report_init(&report);
    add_rank(&report, 0);
    first = &only(&report)->steps.at[0];
    first->start -= (int64_t)40 * MS;
    first->devices.at[0].window_ns += (int64_t)40 * MS;
    first->devices.at[0].idle_ns += (int64_t)40 * MS;
    first->devices.at[0].idle_by_cause[TRACE_CAUSE_COMPILE].total_ns = (int64_t)40 * MS;
    trace_verdicts(&report);
    assert_non_null(find(&report, "compile"));
    assert_int_equal(report.notes.len, 0);
    trace_report_done(&report);
}

static void without_steps_the_span_is_judged(void **state)
{
    TraceReport report;
    TraceRank *rank;

    (void)state;
    trace_report_init(&report);
    rank = add_rank(&report, 0);
    for (size_t i = 0; i < STEPS; i++)
        vec_done(&rank->steps.at[i].devices);
    vec_clear(&rank->steps);
    rank->idle_by_cause[TRACE_CAUSE_PYTHON] = (TraceCauseSum){.count = 1, .total_ns = (int64_t)40 * MS};
    trace_verdicts(&report);
    assert_true(fabs(said(&report, "python")->percent_of_step - 10) < 1e-9);
    assert_non_null(strstr(said(&report, "python")->evidence, "40.0 ms of 400 ms (10.0 %)"));
    trace_report_done(&report);
}

static void ranks_are_judged_together_or_one_alone(void **state)
{
    TraceReport report;

    (void)state;
    trace_report_init(&report);
    add_rank(&report, 0);
    add_rank(&report, 1);
    python(&report, 10); /* both */
    trace_verdicts(&report);
    assert_int_equal(said(&report, "python")->rank, -1);
    assert_true(fabs(said(&report, "python")->percent_of_step - 10) < 1e-9);
    assert_non_null(strstr(said(&report, "python")->evidence, "rank 0: "));
    trace_report_done(&report);

    trace_report_init(&report);
    add_rank(&report, 0);
    python(&report, 20); /* the first of three alone */
    add_rank(&report, 1);
    add_rank(&report, 2);
    trace_verdicts(&report);
    assert_int_equal(said(&report, "python")->rank, 0);
    assert_true(fabs(said(&report, "python")->percent_of_step - 20) < 1e-9);
    trace_report_done(&report);
}

/* A rank that is hardly worse than the others is not singled out, and one of two that both are just there is not alone.
 */
static void a_rank_must_stand_out_to_be_named(void **state)
{
    static const struct {
        double first, second;
        bool said;
        int64_t rank;
    } pairs[] = {{5.1, 4.5, false, 0}, {5.4, 4.8, true, -1}, {9, 1, true, 0}, {9, 2, true, 0}, {9, 6, true, -1}};

    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        const TraceVerdict *verdict;
        TraceReport report;

        trace_report_init(&report);
        add_rank(&report, 0);
        python(&report, pairs[i].first - pairs[i].second);
        add_rank(&report, 1);
        python(&report, pairs[i].second);
        trace_verdicts(&report);
        verdict = find(&report, "python");
        assert_int_equal(verdict != NULL, pairs[i].said);
        if (verdict)
            assert_int_equal(verdict->rank, pairs[i].rank);
        trace_report_done(&report);
    }
}

static void an_empty_report_says_nothing(void **state)
{
    TraceReport report;

    (void)state;
    trace_report_init(&report);
    trace_verdicts(&report);
    assert_int_equal(report.verdicts.len, 0);
    trace_report_done(&report);
}

static void long_names_are_cut_between_characters(void **state)
{
    TraceReport report;

    (void)state;
    trace_report_init(&report);
    add_rank(&report, 0);
    host_in(&report, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\xc3\xa9z");
    trace_verdicts(&report);
    assert_non_null(strstr(report.verdicts.at[0].evidence,
                           " aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa... ("));
    trace_report_done(&report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_say_what_the_data_shows_and_no_more),
        cmocka_unit_test(each_rule_has_a_case_and_a_near_miss),
        cmocka_unit_test(idle_verdicts_cost_no_more_than_the_idle),
        cmocka_unit_test(hints_are_given_where_they_fit_and_nowhere_else),
        cmocka_unit_test(gains_fit_the_gpu),
        cmocka_unit_test(advice_fits_the_platform),
        cmocka_unit_test(a_bandwidth_that_cannot_be_judged),
        cmocka_unit_test(a_step_is_the_same_everywhere),
        cmocka_unit_test(a_gap_of_several_causes_is_divided),
        cmocka_unit_test(communication_is_hidden_behind_compute),
        cmocka_unit_test(a_bubble_shrinks_to_that_of_more_batches),
        cmocka_unit_test(what_makes_a_rank_late_is_one_verdict_with_it),
        cmocka_unit_test(each_group_of_late_ranks_has_a_verdict),
        cmocka_unit_test(a_slow_first_step_is_not_judged),
        cmocka_unit_test(without_steps_the_span_is_judged),
        cmocka_unit_test(ranks_are_judged_together_or_one_alone),
        cmocka_unit_test(a_rank_must_stand_out_to_be_named),
        cmocka_unit_test(an_empty_report_says_nothing),
        cmocka_unit_test(long_names_are_cut_between_characters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
