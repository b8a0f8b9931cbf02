/* SPDX-License-Identifier: Apache-2.0 */
#include "sample.h"

#include <math.h>
#include <string.h>

#define US INT64_C(1000)
#define MS INT64_C(1000000)

const SampleSize sample_small = {.ranks = 2, .steps = 8, .slices = 900, .kernels = 24, .threads = 3};

const char sample_hostile_name[] =
    "</script><b>\"x\" & 'y',\n\x01\x1b[31m\xff\xfe \xe2\x80\xae <!-- \xe4\xb8\xad\xf0\x9f\x98\x80";

static const struct {
    const char *name;
    TraceClass class;
    bool tensor_core;
    int share; /* per mille of the compute or communication time */
} kernels[] = {
    {"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_"
     "cublas",
     TRACE_COMPUTE, true, 310},
    {"sm90_xmma_gemm_bf16bf16_bf16f32_f32_nn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_"
     "cublas",
     TRACE_COMPUTE, true, 160},
    {"void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, cutlass::bfloat16_t, "
     "Flash_kernel_traits<128, 128, 64, 4, cutlass::bfloat16_t> >, true, true, false, false, true, true, false, "
     "false>(flash::Flash_fwd_params)",
     TRACE_COMPUTE, true, 120},
    {"void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<128, 64, 128, 8, 2, 4, 2, false, "
     "false, "
     "cutlass::bfloat16_t> >(flash::Flash_bwd_params)",
     TRACE_COMPUTE, true, 110},
    {"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", TRACE_COMMUNICATION, false, 620},
    {"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>, "
     "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul>)",
     TRACE_COMPUTE, false, 70},
    {"void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<c10::BFloat16, c10::BFloat16, "
     "c10::BFloat16, at::native::binary_internal::MulFunctor<float> >, std::array<char*, 3ul> >(int, "
     "at::native::BinaryFunctor<c10::BFloat16, c10::BFloat16, c10::BFloat16, "
     "at::native::binary_internal::MulFunctor<float> >, std::array<char*, 3ul>)",
     TRACE_COMPUTE, false, 60},
    {"ncclDevKernel_ReduceScatter_Sum_bf16_RING_SIMPLE(ncclDevKernelArgsStorage<4096ul>)", TRACE_COMMUNICATION, false,
     380},
    {"void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous "
     "namespace)::TensorListMetadata<4>, at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4>, "
     "float>(...)",
     TRACE_COMPUTE, false, 55},
    {"triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_7", TRACE_COMPUTE, false, 40},
    {"void cunn_SoftMaxForward<8, c10::BFloat16, float, float, at::native::(anonymous "
     "namespace)::LogSoftMaxForwardEpilogue>(float*, c10::BFloat16 const*, int)",
     TRACE_COMPUTE, false, 30},
    {"void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::func_wrapper_t<float, "
     "at::native::sum_functor<float, float, float>::operator()(at::TensorIterator&)::{lambda(float, float)#1}>, "
     "unsigned "
     "int, float, 4> >(at::native::ReduceOp<float>)",
     TRACE_COMPUTE, false, 25},
};

static const char *const host_names[] = {"enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
                                         "aten::item",
                                         "cudaStreamSynchronize",
                                         "cudaLaunchKernel",
                                         "Optimizer.step#AdamW.step",
                                         "cudaMalloc",
                                         "aten::linear",
                                         "torch/_dynamo/eval_frame.py(55): inner"};

/* A fixed sequence of numbers, the same everywhere. */
static uint64_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

typedef struct Maker {
    TraceReport *report;
    TraceRank *rank;
    const SampleSize *size;
    int64_t step_ns, span_ns, busy_ns, idle_ns;
    uint64_t state;
} Maker;

/* Of 1000 ns of idle time, per cause. */
static const int cause_share[TRACE_CAUSE_COUNT] = {
    [TRACE_CAUSE_DATA_LOADING] = 430, [TRACE_CAUSE_HOST_BOUND] = 210, [TRACE_CAUSE_SYNCHRONISATION] = 90,
    [TRACE_CAUSE_COPY] = 40,          [TRACE_CAUSE_ALLOCATOR] = 10,   [TRACE_CAUSE_COLLECTIVE_WAIT] = 70,
    [TRACE_CAUSE_PYTHON] = 35,        [TRACE_CAUSE_QUEUED] = 60,      [TRACE_CAUSE_UNKNOWN] = 15,
    [TRACE_CAUSE_SHORT] = 40};

static void causes_of(int64_t idle_ns, int64_t count, TraceCauseSum sums[TRACE_CAUSE_COUNT])
{
    int64_t left = idle_ns;

    for (int i = TRACE_CAUSE_COUNT - 1; i >= 0; i--) {
        int64_t total = i ? idle_ns * cause_share[i] / 1000 : left;

        left -= total;
        sums[i].total_ns += total;
        sums[i].count += total ? count * (i == TRACE_CAUSE_SHORT ? 40 : 2) : 0;
        if (sums[i].max_ns < total / (i == TRACE_CAUSE_SHORT ? 400 : 3))
            sums[i].max_ns = total / (i == TRACE_CAUSE_SHORT ? 400 : 3);
    }
}

static void add_device(Maker *maker)
{
    TraceDevice *device = vec_add(&maker->rank->devices);

    device->device = (int32_t)maker->rank->rank;
    device->name = "NVIDIA H100 80GB HBM3";
    device->major = 9;
    device->sm_count = 132;
    device->memory_bytes = INT64_C(80) << 30;
    device->last = device->span_ns = maker->span_ns;
    device->busy_ns = maker->busy_ns;
    device->idle_ns = maker->idle_ns;
    device->compute_ns = maker->busy_ns * 80 / 100;
    device->exposed_copy_ns = maker->busy_ns * 4 / 100;
    device->exposed_communication_ns = maker->busy_ns - device->compute_ns - device->exposed_copy_ns;
    device->communication_overlapped_ns = maker->busy_ns * 12 / 100;
    device->communication_ns = device->exposed_communication_ns + device->communication_overlapped_ns;
    device->copy_ns = device->exposed_copy_ns + 3 * MS;
    device->kernel_sum_ns = device->compute_ns + device->communication_ns + 2 * MS;
    device->tensor_core_ns = device->compute_ns * 70 / 100;
    device->gap_count = 412 * (int64_t)maker->size->steps;
    device->max_gap_ns = maker->idle_ns / 14;
    device->operation_count = 1310 * (int64_t)maker->size->steps;
    device->kernel_count = 1250 * (int64_t)maker->size->steps;
    device->stream_count = 3;
    device->zero_count = 2;
    device->sm_efficiency = 0.873;
    device->occupancy = 0.412;
    causes_of(maker->idle_ns, 9 * (int64_t)maker->size->steps, maker->rank->idle_by_cause);
}

static void add_steps(Maker *maker)
{
    int64_t at = 0;

    for (size_t i = 0; i < maker->size->steps; i++) {
        TraceStepRow *step = vec_add(&maker->rank->steps);
        TraceStepDevice *device = vec_add(&step->devices);
        int64_t window = i + 1 == maker->size->steps
                             ? maker->span_ns - at
                             : maker->step_ns + (int64_t)(next(&maker->state) % 9) * MS - 4 * MS;

        step->name = arena_printf(&maker->report->arena, "ProfilerStep#%zu", i + 5);
        step->number = (int64_t)i + 5;
        step->start = at;
        step->duration_ns = window - 300 * US;
        step->to = at + window;
        at += window;
        device->device = (int32_t)maker->rank->rank;
        device->window_ns = window;
        device->idle_ns = (int64_t)((double)window * (double)maker->idle_ns / (double)maker->span_ns);
        device->busy_ns = window - device->idle_ns;
        device->compute_ns = device->busy_ns * 80 / 100;
        device->exposed_copy_ns = device->busy_ns * 4 / 100;
        device->exposed_communication_ns = device->busy_ns - device->compute_ns - device->exposed_copy_ns;
        device->communication_ns = device->exposed_communication_ns + device->busy_ns * 12 / 100;
        device->copy_ns = device->exposed_copy_ns;
        device->operation_count = 1310;
        causes_of(device->idle_ns, 9, device->idle_by_cause);
    }
}

static int64_t by_length(const TraceGap *a, const TraceGap *b)
{
    return (b->end - b->start) - (a->end - a->start);
}

static int compare_gaps(const void *a, const void *b)
{
    int64_t d = by_length(a, b);

    return d < 0 ? -1 : d > 0;
}

/* Gaps that begin 5 % into each step, one of each cause in turn. */
static void add_gaps(Maker *maker)
{
    static const TraceCause order[] = {TRACE_CAUSE_DATA_LOADING,    TRACE_CAUSE_HOST_BOUND, TRACE_CAUSE_SYNCHRONISATION,
                                       TRACE_CAUSE_COLLECTIVE_WAIT, TRACE_CAUSE_QUEUED,     TRACE_CAUSE_COPY};

    for (size_t i = 0; i < maker->size->steps; i++) {
        int64_t at = maker->rank->steps.at[i].start + maker->step_ns / 20;

        for (size_t j = 0; j < sizeof(order) / sizeof(order[0]); j++) {
            TraceGap *gap = vec_add(&maker->rank->gaps);
            int64_t length = j ? (int64_t)(200 + next(&maker->state) % 900) * US
                               : maker->idle_ns * 2 / 5 / (int64_t)maker->size->steps;

            gap->device = (int32_t)maker->rank->rank;
            gap->start = at;
            gap->end = at + length;
            gap->cause = order[j];
            gap->slice_ns[order[j]] = length - length / 8;
            gap->slice_ns[TRACE_CAUSE_PYTHON] += length / 8;
            gap->synced = order[j] == TRACE_CAUSE_SYNCHRONISATION;
            gap->before = kernels[j].name;
            gap->after = kernels[j + 4].name;
            gap->host = host_names[j];
            gap->host_ns = length - length / 8;
            gap->thread = "4711 (pt_main_thread)";
            gap->step = (int32_t)i;
            at += length + maker->step_ns / 9;
        }
    }
    qsort(maker->rank->gaps.at, maker->rank->gaps.len, sizeof(TraceGap), compare_gaps);
}

/* The host wrote a file behind the last kernel. */
static void add_edge(Maker *maker)
{
    const int64_t end = maker->rank->devices.len ? maker->rank->devices.at[0].last : 0;

    vec_push(&maker->rank->edges, ((TraceGap){.device = (int32_t)maker->rank->rank,
                                              .start = end,
                                              .end = end + 150 * US,
                                              .cause = TRACE_CAUSE_PYTHON,
                                              .slice_ns[TRACE_CAUSE_PYTHON] = 150 * US,
                                              .before = kernels[0].name,
                                              .after = "",
                                              .host = host_names[0],
                                              .host_ns = 150 * US,
                                              .thread = "4711 (pt_main_thread)",
                                              .step = -1}));
}

static int compare_kernels(const void *a, const void *b)
{
    const TraceKernel *left = a, *right = b;

    return left->total_ns > right->total_ns ? -1 : left->total_ns < right->total_ns;
}

static void add_kernels(Maker *maker)
{
    enum { NAMED = sizeof(kernels) / sizeof(kernels[0]) };
    const TraceDevice *device = &maker->rank->devices.at[0];

    for (size_t i = 0; i < maker->size->kernels; i++) {
        TraceKernel *kernel = vec_add(&maker->rank->kernels);
        bool communication = i < NAMED && kernels[i].class == TRACE_COMMUNICATION;
        int64_t all = communication ? device->communication_ns : device->compute_ns;

        kernel->name = i < NAMED ? kernels[i].name
                                 : arena_printf(&maker->report->arena, "triton_poi_fused_add_gelu_mul_view_%zu", i);
        kernel->class = i < NAMED ? kernels[i].class : TRACE_COMPUTE;
        kernel->count = (int64_t)maker->size->steps * (i < 8 ? 64 : 16);
        kernel->total_ns = i < NAMED ? all / 1000 * kernels[i].share : all / 1000 / (int64_t)(i - NAMED + 2);
        kernel->mean_ns = (double)kernel->total_ns / (double)kernel->count;
        kernel->sd_ns = kernel->mean_ns / 7;
        kernel->min_ns = (int64_t)(kernel->mean_ns * 0.8);
        kernel->max_ns = (int64_t)(kernel->mean_ns * 1.9);
        kernel->short_count = kernel->mean_ns < 10000 ? kernel->count / 2 : 0;
        kernel->tensor_core = i < NAMED && kernels[i].tensor_core;
        memcpy(kernel->grid, (uint32_t[3]){communication ? 24 : 1056, i % 3 ? 1 : 32, 1}, sizeof(kernel->grid));
        memcpy(kernel->block, (uint32_t[3]){communication ? 640 : 256, 1, 1}, sizeof(kernel->block));
        kernel->shapes = 1 + (int64_t)i % 4;
        kernel->occupancy_percent = communication ? NAN : 31.5 + (double)i;
        kernel->blocks_per_sm = 8;
        kernel->sm_efficiency = 1;
        kernel->registers = 168;
        kernel->shared_bytes = 65536;
        kernel->device_count = 1;
    }
    qsort(maker->rank->kernels.at, maker->rank->kernels.len, sizeof(TraceKernel), compare_kernels);
}

static void add_copies(Maker *maker)
{
    static const struct {
        const char *kind, *source, *target;
        int64_t bytes, gbs;
    } rows[] = {{"HtoD", "pageable", "device", 805306368, 6},
                {"HtoD", "pinned", "device", 402653184, 52},
                {"DtoH", "device", "pageable", 4194304, 4},
                {"DtoD", "device", "device", 2147483648, 1480}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        TraceCopy *copy = vec_add(&maker->rank->copies);

        *copy = (TraceCopy){.kind = rows[i].kind,
                            .source = rows[i].source,
                            .target = rows[i].target,
                            .count = 64,
                            .bytes = rows[i].bytes,
                            .total_ns = rows[i].bytes / rows[i].gbs,
                            .sized_bytes = rows[i].bytes,
                            .min_ns = 2 * US,
                            .max_ns = rows[i].bytes / rows[i].gbs / 8};
        copy->sized_ns = copy->total_ns;
        copy->bandwidth_gbs = (double)copy->sized_bytes / (double)copy->sized_ns;
        copy->small_count = i == 2 ? 60 : 0;
    }
    vec_push(&maker->rank->copies, ((TraceCopy){.kind = "set",
                                                .source = "",
                                                .target = "device",
                                                .count = 128,
                                                .total_ns = 2 * MS,
                                                .min_ns = US,
                                                .max_ns = 40 * US,
                                                .bandwidth_gbs = NAN}));
}

static void add_names(Maker *maker)
{
    static const char *const ops[] = {"aten::mm",    "aten::_scaled_dot_product_flash_attention",
                                      "aten::add_",  "c10d::allreduce_",
                                      "aten::mul",   "aten::_foreach_addcdiv_",
                                      "aten::copy_", "aten::_log_softmax"};
    static const char *const notes[] = {"forward", "backward", "Optimizer.step#AdamW.step", "DataParallel.forward"};
    const TraceDevice *device = &maker->rank->devices.at[0];

    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
        vec_push(&maker->rank->operators,
                 ((TraceOperator){.name = ops[i],
                                  .count = 640 - 40 * (int64_t)i,
                                  .host_ns = 90 * MS / (int64_t)(i + 1),
                                  .host_self_ns = 50 * MS / (int64_t)(i + 1),
                                  .device_ns = device->compute_ns * 40 / 100 / (int64_t)(i + 1),
                                  .device_self_ns = device->compute_ns * 40 / 100 / (int64_t)(i + 1),
                                  .kernel_count = 640,
                                  .tensor_core_ns = i < 2 ? device->compute_ns * 12 / 100 : 0,
                                  .matrix = i < 2,
                                  .shaped_count = i < 2 ? 600 : 0,
                                  .misaligned_count = i == 0  ? 16
                                                      : i < 2 ? 0
                                                              : -1,
                                  .misaligned_dims = i ? "" : "[[4096, 1023], [1023, 4096]]"}));
    for (size_t i = 0; i < 2; i++)
        vec_push(&maker->rank->shapes, ((TraceShape){.op = ops[i * 2],
                                                     .dims = i ? "[[4096,1024],[],[]]" : "[[4096,1024],[1024,4096]]",
                                                     .types = "[\"c10::BFloat16\",\"c10::BFloat16\"]",
                                                     .arguments = "",
                                                     .kernel = "nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_TNT",
                                                     .count = 320,
                                                     .total_ns = (64 - 40 * (int64_t)i) * MS,
                                                     .kernel_count = 640,
                                                     .helper_ns = i ? 0 : 4 * MS,
                                                     .type = i ? "" : "bf16",
                                                     .bound = i ? "" : "compute",
                                                     .flops = i ? NAN : 34359738368,
                                                     .bytes = i ? NAN : 50331648,
                                                     .intensity = i ? NAN : 682.6666666666666,
                                                     .tflops = i ? NAN : 171.79869184,
                                                     .roof_tflops = i ? NAN : 989,
                                                     .roof_percent = i ? NAN : 17.4,
                                                     .peak_percent = i ? NAN : 17.4}));
    maker->rank->roof = (TraceRoof){.board = "H100 SXM",
                                    .memory_gbs = 3352,
                                    .tflops = {67, 67, 495, 989, 989, 1979, 1979, NAN},
                                    .matrix_ns = 80 * MS,
                                    .known_ns = 64 * MS,
                                    .flops_per_step = 1.374e12,
                                    .mfu_percent = 8.2};
    for (int i = 0; i < 3; i++)
        vec_push(&maker->rank->modules, ((TraceModule){.path = i == 0   ? "Net_0"
                                                               : i == 1 ? "Net_0/Attention_0"
                                                                        : "Net_0/Linear_0",
                                                       .name = i == 0   ? "Net_0"
                                                               : i == 1 ? "Attention_0"
                                                                        : "Linear_0",
                                                       .depth = i > 0,
                                                       .calls = 8 << i,
                                                       .kernel_count = 640,
                                                       .own_ns = (10 + 20 * i) * MS,
                                                       .total_ns = (i ? 10 + 20 * i : 90) * MS,
                                                       .own_backward_ns = 5 * i * MS,
                                                       .backward_ns = (i ? 5 * i : 15) * MS,
                                                       .per_step_ns = (i ? 10 + 20 * i : 90) * 1e6 / 8}));
    vec_push(&maker->rank->origins, ((TraceOrigin){.kernel = "nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_TNT",
                                                   .op = ops[0],
                                                   .dims = "[[4096,1024],[1024,4096]]",
                                                   .module = "Net_0/Linear_0",
                                                   .line = "train.py(12): step",
                                                   .backward = true,
                                                   .count = 320,
                                                   .total_ns = 64 * MS}));
    for (int i = 0; i < 2; i++)
        vec_push(&maker->rank->inference, ((TraceInference){.kind = i ? TRACE_STEP_DECODE : TRACE_STEP_PREFILL,
                                                            .steps = i ? 96 : 1,
                                                            .tokens = i ? 3000 : 4096,
                                                            .mean_sequences = i ? 31.25 : 2,
                                                            .sequences_min = i ? 30 : 2,
                                                            .sequences_max = i ? 32 : 2,
                                                            .timed = i ? 95 : 0,
                                                            .total_ns = i ? 950 * MS : 0,
                                                            .mean_ns = i ? 10e6 : NAN,
                                                            .median_ns = i ? 9 * MS : -1,
                                                            .p99_ns = i ? 14 * MS : -1,
                                                            .tokens_per_second = i ? 3125 : NAN,
                                                            .token_ns = i ? 10e6 : NAN,
                                                            .idle_ns = 96 * MS,
                                                            .between_count = i ? 95 : 0,
                                                            .between_ns = i ? 95 * MS : 0,
                                                            .between_mean_ns = i ? 1e6 : NAN,
                                                            .gpu_ns = 800 * MS,
                                                            .graph_ns = i ? 700 * MS : 0,
                                                            .graph_percent = i ? 87.5 : 0,
                                                            .graph_steps = i ? 90 : 0,
                                                            .eager_sequences = i ? "30, 31" : ""}));
    vec_push(&maker->rank->decode_gaps, ((TraceDecodeGap){.name = host_names[0], .count = 95, .total_ns = 95 * MS}));
    maker->rank->origin_sum =
        (TraceOriginSum){.total_ns = 128 * MS, .module_ns = 90 * MS, .backward_ns = 20 * MS, .joined_ns = 15 * MS};
    for (int64_t i = 0; i < 6; i++)
        vec_push(&maker->rank->calls, ((TraceCall){.name = i ? host_names[3] : host_names[2],
                                                   .inner = ops[i],
                                                   .outer = "",
                                                   .class = i ? TRACE_HOST_LAUNCH : TRACE_HOST_SYNC,
                                                   .count = 640 / (i + 1),
                                                   .total_ns = 40 * MS / (i + 1),
                                                   .min_ns = 2 * US,
                                                   .max_ns = 3 * MS,
                                                   .step_count = 600 / (i + 1),
                                                   .step_ns = 38 * MS / (i + 1)}));
    for (size_t i = 0; i < sizeof(notes) / sizeof(notes[0]); i++)
        vec_push(&maker->rank->annotations, ((TraceAnnotation){.name = notes[i],
                                                               .on_gpu = i == 3,
                                                               .count = 8,
                                                               .total_ns = maker->span_ns / (int64_t)(i + 3),
                                                               .min_ns = 2 * MS,
                                                               .max_ns = maker->step_ns / (int64_t)(i + 2),
                                                               .device_ns = device->busy_ns / (int64_t)(i + 3),
                                                               .busy_ns = i == 3 ? device->busy_ns / 7 : -1}));
}

static void add_launches(Maker *maker)
{
    int64_t count = maker->rank->devices.at[0].operation_count;

    maker->rank->launch = (TraceLaunch){.linked = count - 12,
                                        .unlinked = 12,
                                        .median_ns = 5120,
                                        .p99_ns = 412 * US,
                                        .max_ns = 9 * MS,
                                        .negative = 3,
                                        .call_count = count,
                                        .call_ns = count * 4300,
                                        .call_median_ns = 3900,
                                        .call_p99_ns = 22 * US,
                                        .call_max_ns = 3 * MS,
                                        .short_kernels = count / 3,
                                        .short_kernel_ns = count / 3 * 4100,
                                        .launch_bound_kernels = count / 5};
    for (int64_t stream = 7; stream < 22; stream += 7)
        vec_push(&maker->rank->queues, ((TraceQueue){.device = (int32_t)maker->rank->rank,
                                                     .stream = stream,
                                                     .operation_count = count / stream,
                                                     .busy_ns = maker->busy_ns / stream * 6,
                                                     .max_length = 1100 / stream,
                                                     .mean_length = 33.4,
                                                     .full_ns = stream == 7 ? 2 * MS : 0,
                                                     .empty_launches = count / 9}));
    for (int64_t i = 0; i < 128; i++)
        vec_push(&maker->rank->queue_points, ((TraceQueuePoint){.start = maker->span_ns / 128 * i,
                                                                .width_ns = maker->span_ns / 128,
                                                                .device = (int32_t)maker->rank->rank,
                                                                .length = 20 + 15 * sin((double)i / 5)}));
}

static void add_collectives(Maker *maker)
{
    for (size_t i = 0; i < maker->size->steps * 8; i++) {
        int64_t start = (int64_t)i * (maker->span_ns / (int64_t)(maker->size->steps * 8)) + 3 * MS;

        vec_push(&maker->rank->collectives, ((TraceCollective){.name = i % 2 ? "allreduce" : "reduce_scatter",
                                                               .dtype = "BFloat16",
                                                               .group = "0",
                                                               .kernel = kernels[4].name,
                                                               .group_size = (int64_t)maker->size->ranks,
                                                               .sequence = (int64_t)i + 1,
                                                               .in_bytes = 33554432,
                                                               .out_bytes = 33554432,
                                                               .start = start,
                                                               .end = start + 900 * US,
                                                               .launch = i ? start - 80 * US : INT64_MIN,
                                                               .device = (int32_t)maker->rank->rank,
                                                               .stream = 21,
                                                               .ordinal = (int64_t)i / 2,
                                                               .ranks = "[0, 1]",
                                                               .peer = -1,
                                                               .parts = 1}));
    }
}

static void add_paths(Maker *maker)
{
    for (size_t i = 0; i < maker->rank->steps.len; i++) {
        TracePath *path = vec_add(&maker->rank->paths);
        int64_t total = maker->rank->steps.at[i].to - maker->rank->steps.at[i].start;

        path->what = maker->rank->steps.at[i].name;
        path->total_ns = total;
        path->by_kind_ns[TRACE_PATH_DATA] = total * 20 / 100;
        path->by_kind_ns[TRACE_PATH_HOST] = total * 9 / 100;
        path->by_kind_ns[TRACE_PATH_COMMUNICATION] = total * 12 / 100;
        path->by_kind_ns[TRACE_PATH_LAUNCH] = total * 3 / 100;
        path->by_kind_ns[TRACE_PATH_COMPUTE] =
            total - total * 20 / 100 - total * 9 / 100 - total * 12 / 100 - total * 3 / 100;
        vec_push(&path->names,
                 ((TracePathName){
                     .name = kernels[0].name, .kind = TRACE_PATH_COMPUTE, .count = 64, .total_ns = total * 30 / 100}));
        vec_push(&path->names,
                 ((TracePathName){
                     .name = host_names[0], .kind = TRACE_PATH_DATA, .count = 1, .total_ns = total * 20 / 100}));
    }
}

static void add_memory(Maker *maker)
{
    TraceMemoryDevice *memory = vec_add(&maker->rank->memory);

    *memory = (TraceMemoryDevice){.device = (int32_t)maker->rank->rank,
                                  .peak_allocated = INT64_C(58) << 30,
                                  .peak_reserved = INT64_C(71) << 30,
                                  .peak_at = maker->span_ns / 3,
                                  .allocations = 18211,
                                  .releases = 18190,
                                  .allocated_bytes = INT64_C(913) << 30,
                                  .growth_bytes = 3 << 20,
                                  .capacity_bytes = INT64_C(80) << 30,
                                  .peak_op = "aten::_log_softmax",
                                  .reserved_at_peak = INT64_C(70) << 30,
                                  .by_category = {[TRACE_MEMORY_BEFORE] = INT64_C(31) << 30,
                                                  [TRACE_MEMORY_ACTIVATION] = INT64_C(26) << 30,
                                                  [TRACE_MEMORY_TEMPORARY] = INT64_C(1) << 30}};
    vec_push(&memory->holders, ((TraceMemoryHolder){.name = "aten::_scaled_dot_product_flash_attention",
                                                    .category = TRACE_MEMORY_ACTIVATION,
                                                    .bytes = INT64_C(26) << 30,
                                                    .blocks = 96}));
    vec_push(
        &memory->holders,
        ((TraceMemoryHolder){
            .name = "aten::_log_softmax", .category = TRACE_MEMORY_TEMPORARY, .bytes = INT64_C(1) << 30, .blocks = 1}));
    for (int64_t i = 0; i < 256; i++)
        vec_push(&memory->points,
                 ((TraceMemoryPoint){.start = maker->span_ns / 256 * i,
                                     .allocated = (INT64_C(40) << 30) +
                                                  (int64_t)((double)(INT64_C(18) << 30) * fabs(sin((double)i / 10))),
                                     .reserved = INT64_C(71) << 30}));
}

/* Whether a gap covers a time. */
static bool idle_at(const Maker *maker, int64_t time)
{
    for (size_t i = 0; i < maker->rank->gaps.len && i < 2 * maker->size->steps; i++)
        if (maker->rank->gaps.at[i].start <= time && time < maker->rank->gaps.at[i].end)
            return true;
    return false;
}

static void fill_lane(Maker *maker, TraceTimelineLane *lane, size_t index)
{
    size_t depth = 0;
    int64_t at = 0, step = maker->span_ns / (int64_t)maker->size->slices;

    lane->first = 0;
    lane->bucket_ns = maker->span_ns / 1024 + 1;
    for (int i = 0; i < 1024; i++) {
        bool gap = i % (1024 / (int)maker->size->steps) < 1024 / (int)maker->size->steps / 5;
        uint8_t busy = (uint8_t)(gap ? 10 : 120 + next(&maker->state) % 100);

        vec_push(&lane->busy, (uint8_t)(lane->gpu && index == 1 ? 0 : busy));
        vec_push(&lane->busy, (uint8_t)(lane->gpu && index == 1 ? busy : i % 7 ? 0 : 30));
        vec_push(&lane->busy, (uint8_t)(i % 50 == 0 ? 25 : 0));
    }
    for (size_t i = 0; i < maker->size->slices; i++, at += step) {
        TraceSlice *slice;

        if (lane->gpu && idle_at(maker, at))
            continue;
        slice = vec_add(&lane->slices);
        depth = lane->gpu ? 0 : i % 3;
        slice->start = at + (int64_t)depth * step / 20;
        slice->end =
            depth ? slice->start + step * (3 - (int64_t)depth) / 2 : slice->start + step * (lane->gpu ? 9 : 28) / 10;
        slice->text = (uint32_t)(next(&maker->state) % maker->rank->timeline.texts.len);
        slice->kind = lane->gpu ? (uint8_t)(index == 1 ? TRACE_COMMUNICATION : TRACE_COMPUTE)
                                : (uint8_t)(1 + next(&maker->state) % (TRACE_HOST_CLASS_COUNT - 1));
        slice->depth = (uint8_t)depth;
    }
    lane->slices_left_out = 12345;
}

static void add_timeline(Maker *maker)
{
    TraceTimeline *timeline = &maker->rank->timeline;

    for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++)
        vec_push(&timeline->texts, kernels[i].name);
    for (size_t i = 0; i < sizeof(host_names) / sizeof(host_names[0]); i++)
        vec_push(&timeline->texts, host_names[i]);
    for (size_t i = 0; i < 2 + maker->size->threads; i++) {
        TraceTimelineLane *lane = vec_add(&timeline->lanes);

        lane->gpu = i < 2;
        lane->device = lane->gpu ? (int32_t)maker->rank->rank : -1;
        lane->name = lane->gpu ? (i ? "stream 21" : "stream 7")
                               : arena_printf(&maker->report->arena, "thread %zu (%s)", 4709 + i,
                                              i == 2 ? "pt_main_thread" : "pt_autograd_0");
        fill_lane(maker, lane, i);
    }
}

static void add_rank(TraceReport *report, const SampleSize *size, int64_t number)
{
    Maker maker = {.report = report, .rank = vec_add(&report->ranks), .size = size, .state = (uint64_t)number + 7};
    TraceRank *rank = maker.rank;

    maker.step_ns = 182 * MS + 400 * US;
    maker.span_ns = maker.step_ns * (int64_t)size->steps;
    maker.busy_ns = maker.span_ns / 1000 * (number == 1 ? 690 : 745);
    maker.idle_ns = maker.span_ns - maker.busy_ns;
    rank->rank = number;
    rank->rank_known = true;
    rank->file = arena_printf(&report->arena, "rank_%lld.pt.trace.json.gz", (long long)number);
    rank->world_size = (int64_t)size->ranks;
    rank->framework = "pytorch";
    rank->backend = "nccl";
    rank->host = "trainer-0";
    rank->bytes = 1073741824;
    rank->events = 4093241;
    rank->ignored = 120331;
    rank->with_stack = rank->with_shapes = rank->with_memory = true;
    rank->base_ns = INT64_C(1719800000000000000);
    rank->clock_offset_ns = number * 13 * US;
    rank->clock_aligned = true;
    rank->memory_bytes = 245000000;
    if (number == 1) {
        rank->lost = 412;
        rank->lost_by_reason[PROFILE_LOSS_TRUNCATED] = 1;
        rank->lost_by_reason[PROFILE_LOSS_DUPLICATE] = 411;
        vec_push(&rank->losses, ((TraceLossRow){.reason = "duplicate", .excerpt = "", .byte = 18823, .event = 77}));
        vec_push(&rank->losses,
                 ((TraceLossRow){
                     .reason = "truncated", .excerpt = "{\"ph\": \"X\", \"na", .byte = 1073741820, .event = 4093241}));
    }
    add_device(&maker);
    add_steps(&maker);
    add_gaps(&maker);
    add_edge(&maker);
    add_kernels(&maker);
    add_copies(&maker);
    add_names(&maker);
    add_launches(&maker);
    add_collectives(&maker);
    add_paths(&maker);
    add_memory(&maker);
    add_timeline(&maker);
    for (int i = 0; i < TRACE_CAUSE_COUNT; i++) {
        report->gaps_by_cause[i].count += rank->idle_by_cause[i].count;
        report->gaps_by_cause[i].total_ns += rank->idle_by_cause[i].total_ns;
        if (report->gaps_by_cause[i].max_ns < rank->idle_by_cause[i].max_ns)
            report->gaps_by_cause[i].max_ns = rank->idle_by_cause[i].max_ns;
    }
    vec_push(&report->rank_times, ((TraceRankTime){.rank = number,
                                                   .step_ns = 182.4e6,
                                                   .compute_ns = number == 1 ? 118e6 : 112e6,
                                                   .communication_ns = 38e6,
                                                   .exposed_communication_ns = number == 1 ? 12e6 : 22e6,
                                                   .idle_ns = number == 1 ? 56.5e6 : 46e6,
                                                   .late_ns = number == 1 ? 8.1e6 : 0.2e6,
                                                   .late_compute_ns = number == 2 ? 4.4e6 : 0.1e6,
                                                   .late_idle_ns = number == 1 ? 12.1e6 : 0,
                                                   .last_share = number == 1 ? 0.91 : 0.09,
                                                   .slowest_share = number == 1 ? 0.6 : 0.4}));
}

static void add_verdicts(TraceReport *report)
{
    vec_push(&report->verdicts,
             ((TraceVerdict){
                 .id = "data-loading",
                 .percent_of_step = 13.3,
                 .gain_percent = 12.1,
                 .rank = 1,
                 .cost_ns = 24260000,
                 .evidence = "The GPU of rank 1 waited 24.3 ms of each step of 182.4 ms while "
                             "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__ ran on thread 4711.",
                 .advice = "Use more loader workers (num_workers), pin_memory=True and a larger prefetch_factor; "
                           "move decoding off the main process."}));
    vec_push(&report->verdicts,
             ((TraceVerdict){
                 .id = "exposed-communication",
                 .percent_of_step = 11.9,
                 .gain_percent = 11.9,
                 .rank = -1,
                 .cost_ns = 21700000,
                 .evidence = "All-reduce ran 21.7 ms per step while nothing computed; buckets of 25 MiB.",
                 .advice = "Overlap gradients with the backward pass: smaller first bucket, larger bucket_cap_mb."}));
    vec_push(&report->verdicts,
             ((TraceVerdict){
                 .id = "pageable-copies",
                 .percent_of_step = 2.9,
                 .gain_percent = 2.5,
                 .rank = -1,
                 .cost_ns = 5290000,
                 .evidence = "64 HtoD copies of 768 MiB from pageable memory at 6.0 GB/s; pinned ones reach 52 GB/s.",
                 .advice = "Pin the loader's memory and copy with non_blocking=True."}));
}

void sample_report(TraceReport *report, const SampleSize *size)
{
    trace_report_init(report);
    for (size_t i = 0; i < size->ranks; i++)
        add_rank(report, size, (int64_t)i);
    for (int i = 0; i < 2; i++)
        vec_push(&report->collectives, ((TraceCollectiveSum){.name = i ? "reduce_scatter" : "allreduce",
                                                             .group = "0",
                                                             .group_size = (int64_t)size->ranks,
                                                             .bytes = 33554432,
                                                             .count = 64,
                                                             .total_ns = 57 * MS,
                                                             .matched = 32,
                                                             .best_ns = 900 * US,
                                                             .algorithm_gbs = 37.3,
                                                             .bus_gbs = i ? 18.6 : 37.3,
                                                             .skew_median_ns = 410 * US,
                                                             .skew_max_ns = 9 * MS,
                                                             .wait_ns = 130 * MS}));
    if (size->ranks > 1)
        report->straggler = (TraceStraggler){.rank = 1,
                                             .group = "rank",
                                             .label = "rank 1",
                                             .cause = "host_late",
                                             .host_cause = "data_loading",
                                             .late_ns = 8.1e6,
                                             .late_step_ns = 12.4e6,
                                             .share = 0.91,
                                             .matched = 64,
                                             .confidence = 0.97,
                                             .percent_of_step = 6.2,
                                             .alone_percent = 6.2};
    if (size->ranks > 1)
        vec_push(&report->straggler.ranks, 1);
    else
        report->straggler = (TraceStraggler){.rank = -1, .cause = ""};
    if (size->ranks > 2) {
        vec_push(&report->more_stragglers, ((TraceStraggler){.rank = 2,
                                                             .group = "rank",
                                                             .label = "rank 2",
                                                             .cause = "computes_late",
                                                             .host_cause = "",
                                                             .late_ns = 2.2e6,
                                                             .late_step_ns = 4.4e6,
                                                             .share = 0.07,
                                                             .matched = 64,
                                                             .confidence = 0.95,
                                                             .percent_of_step = 2.4,
                                                             .cost_percent = 2.4,
                                                             .alone_percent = 0.1}));
        vec_push(&report->more_stragglers.at[0].ranks, 2);
    }
    add_verdicts(report);
    report->step_ns = 182.4e6;
    report->measured_step_ns = report->step_ns;
    report->seconds = 0.42;
    vec_push(&report->notes, "clocks of 2 ranks were aligned on 64 collectives");
}

void sample_empty(TraceReport *report)
{
    TraceRank *rank;

    trace_report_init(report);
    rank = vec_add(&report->ranks);
    rank->file = "empty.json";
    rank->framework = rank->backend = rank->host = "";
    rank->world_size = -1;
    rank->launch.median_ns = rank->launch.p99_ns = rank->launch.max_ns = -1;
    rank->launch.call_median_ns = rank->launch.call_p99_ns = rank->launch.call_max_ns = -1;
    report->straggler = (TraceStraggler){.rank = -1, .cause = "", .late_ns = NAN, .percent_of_step = NAN};
    report->step_ns = NAN;
    report->measured_step_ns = report->step_ns;
}

void sample_hostile(TraceReport *report)
{
    static const SampleSize one = {.ranks = 1, .steps = 2, .slices = 20, .kernels = 8, .threads = 2};
    const char *name = sample_hostile_name;
    TraceRank *rank;

    sample_report(report, &one);
    rank = &report->ranks.at[0];
    rank->file = rank->host = rank->framework = rank->backend = name;
    rank->devices.at[0].name = name;
    rank->kernels.at[0].name = rank->operators.at[0].name = rank->annotations.at[0].name = name;
    rank->steps.at[0].name = rank->paths.at[0].what = rank->paths.at[0].names.at[0].name = name;
    rank->gaps.at[0].host = rank->gaps.at[0].before = rank->gaps.at[0].after = rank->gaps.at[0].thread = name;
    rank->copies.at[0].kind = rank->copies.at[0].source = name;
    rank->collectives.at[0].name = rank->collectives.at[0].group = name;
    rank->memory.at[0].peak_op = name;
    rank->memory.at[0].holders.at[0].name = name;
    rank->timeline.texts.at[0] = rank->timeline.lanes.at[0].name = name;
    vec_push(&rank->losses, ((TraceLossRow){.reason = "syntax", .excerpt = name, .byte = UINT64_MAX, .event = 1}));
    rank->lost = rank->lost_by_reason[PROFILE_LOSS_SYNTAX] = 1;
    report->verdicts.at[0].evidence = report->verdicts.at[0].advice = name;
    report->collectives.at[0].name = name;
    vec_push(&report->notes, name);
    rank->devices.at[0].first = INT64_MIN / 2;
    rank->devices.at[0].last = INT64_MAX / 2;
    rank->devices.at[0].span_ns = INT64_MAX / 1024;
    rank->timeline.lanes.at[0].slices.at[0].start = -(INT64_C(1) << 62);
    rank->timeline.lanes.at[0].slices.at[0].text = UINT32_MAX;
    rank->gaps.at[1].start = -(INT64_C(1) << 62);
    rank->kernels.at[1].mean_ns = INFINITY;
}

void sample_diff(TraceDiff *diff)
{
    *diff = (TraceDiff){.step_before_ns = 171e6,
                        .step_after_ns = 182.4e6,
                        .busy_before_ns = 1050 * MS,
                        .busy_after_ns = 1090 * MS,
                        .idle_before_ns = 318 * MS,
                        .idle_after_ns = 370 * MS,
                        .per_step = true};
    for (size_t i = 0; i < 8; i++) {
        int64_t before = i == 6 ? 0 : (90 - 10 * (int64_t)i) * MS,
                after = i == 7 ? 0 : before + (40 - 15 * (int64_t)i) * MS;

        if (i == 6)
            after = 2 * MS;
        vec_push(&diff->kernels, ((TraceDiffRow){.name = kernels[i].name,
                                                 .count_before = before ? 512 : 0,
                                                 .count_after = after ? 512 + 64 * (int64_t)(i % 2) : 0,
                                                 .total_before_ns = before,
                                                 .total_after_ns = after,
                                                 .per_step_before_ns = (double)before / 8,
                                                 .per_step_after_ns = (double)after / 8}));
    }
    vec_push(&diff->modules, ((TraceDiffRow){.name = "Wrapper_0/Net_0/Linear_0: aten::mm",
                                             .was = "Net_0/Linear_0: aten::mm",
                                             .count_before = 320,
                                             .count_after = 320,
                                             .total_before_ns = 80 * MS,
                                             .total_after_ns = 88 * MS,
                                             .per_step_before_ns = 10e6,
                                             .per_step_after_ns = 11e6}));
    vec_push(&diff->operators, ((TraceDiffRow){.name = "aten::mm",
                                               .count_before = 640,
                                               .count_after = 640,
                                               .total_before_ns = 300 * MS,
                                               .total_after_ns = 340 * MS,
                                               .per_step_before_ns = 37.5e6,
                                               .per_step_after_ns = 42.5e6}));
}
