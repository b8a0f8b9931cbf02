/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic by shape and what the board could do (engine/trace/flops.c, flops.def, shapes.c; model/peak.c, peak.def).
 */
#include "kit.h"

#include <math.h>
#include <string.h>

#include "engine/trace/flops.h"

#define HALF "[\"c10::Half\",\"c10::Half\",\"c10::Half\",\"c10::Half\"]"

static bool count(const char *op, const char *dims, const char *types, const char *arguments, Flops *ret)
{
    const unsigned rule = flops_rule(op, strlen(op));

    return rule > 0 && flops_count(rule, dims, types, arguments, ret);
}

static void formulas(void **state)
{
    static const struct {
        const char *op, *dims, *types, *arguments;
        double flops, bytes;
        PeakType type;
    } cases[] = {
        {"aten::mm", "[[2, 3], [3, 5]]", "[\"float\", \"float\"]", "", 60, 4 * (6 + 15 + 10), PEAK_FP32},
        {"aten::addmm", "[[5], [2, 3], [3, 5], [], []]", HALF, "", 60, 2 * (6 + 15 + 10), PEAK_FP16},
        {"aten::bmm", "[[7, 2, 3], [7, 3, 5]]", "[\"c10::BFloat16\", \"c10::BFloat16\"]", "", 420, 2 * 7 * 31,
         PEAK_BF16},
        {"aten::baddbmm", "[[7, 2, 5], [7, 2, 3], [7, 3, 5]]", "[\"double\", \"double\", \"double\"]", "", 420,
         8 * 7 * 31, PEAK_FP64},
        /* bytes of 8-bit floats come out as 16 bits, 8-bit numbers as 32 */
        {"aten::_scaled_mm", "[[16, 32], [32, 16]]", "[\"c10::Float8_e4m3fn\", \"c10::Float8_e4m3fn\"]", "", 16384,
         512 + 512 + 2 * 256, PEAK_FP8},
        {"aten::_int_mm", "[[16, 32], [32, 16]]", "[\"signed char\", \"signed char\"]", "", 16384, 1024 + 4 * 256,
         PEAK_INT8},
        /* two 4-bit floats per byte of the depth */
        {"aten::_scaled_mm", "[[16, 32], [32, 16]]", "[\"c10::Float4_e2m1fn_x2\", \"c10::Float4_e2m1fn_x2\"]", "",
         32768, 512 + 512 + 2 * 256, PEAK_FP4},
        {"aten::_grouped_mm", "[[10, 3], [4, 3, 5], [4]]", HALF, "", 300, 2 * (30 + 60 + 50), PEAK_FP16},
        {"aten::_grouped_mm", "[[4, 2, 3], [3, 10], [4]]", HALF, "", 120, 2 * (24 + 30 + 20), PEAK_FP16},
        /* 8 images of 3 x 10 x 12, 4 filters of 3 x 3 x 3, stride 2, padding 1, dilation 1: 5 x 6 positions */
        {"aten::cudnn_convolution", "[[8, 3, 10, 12], [4, 3, 3, 3], [], [], []]", HALF,
         "[\"\", \"\", \"[1, 1]\", \"[2, 2]\", \"[1, 1]\", \"1\"]", 2 * 8 * 30 * 108, 2 * (2880 + 108 + 8 * 4 * 30),
         PEAK_FP16},
        /* dilation 2: a window of 5, so 4 x 5 positions */
        {"aten::miopen_convolution", "[[8, 3, 10, 12], [4, 3, 3, 3], []]", HALF,
         "[\"\", \"\", \"\", \"[1, 1]\", \"[2, 2]\", \"[2, 2]\", \"1\"]", 2 * 8 * 20 * 108,
         2 * (2880 + 108 + 8 * 4 * 20), PEAK_FP16},
        /* in groups of one channel */
        {"aten::_conv_depthwise2d", "[[1, 4, 5, 5], [4, 1, 3, 3], [], [], [], [], []]", HALF,
         "[\"\", \"\", \"[3, 3]\", \"\", \"[1, 1]\", \"[0, 0]\", \"[1, 1]\"]", 2 * 9 * 36, 2 * (100 + 36 + 36),
         PEAK_FP16},
        {"aten::cudnn_convolution_transpose", "[[8, 3, 5, 5], [3, 4, 2, 2]]", HALF, "", 2 * 8 * 25 * 48, NAN,
         PEAK_FP16},
        {"aten::convolution_backward", "[[8, 4, 5, 6], [8, 3, 10, 12], [4, 3, 3, 3]]", HALF,
         "[\"\", \"\", \"\", \"[0]\", \"[2, 2]\", \"[1, 1]\", \"[1, 1]\", \"False\", \"[0, 0]\", \"1\", \"[True, True, "
         "False]\"]",
         2 * 2 * 8 * 30 * 108, 2 * (2 * 960 + 108 + 2880 + 2880 + 108), PEAK_FP16},
        {"aten::convolution_backward", "[[8, 4, 5, 6], [8, 3, 10, 12], [4, 3, 3, 3]]", HALF,
         "[\"\", \"\", \"\", \"[0]\", \"[2, 2]\", \"[1, 1]\", \"[1, 1]\", \"False\", \"[0, 0]\", \"1\", \"[False, "
         "True, True]\"]",
         2 * 8 * 30 * 108, 2 * (960 + 2880 + 108), PEAK_FP16},
        {"aten::convolution_backward", "[[8, 4, 10, 10], [8, 3, 5, 5], [3, 4, 2, 2]]", HALF,
         "[\"\", \"\", \"\", \"[0]\", \"[2, 2]\", \"[0, 0]\", \"[1, 1]\", \"True\", \"[0, 0]\", \"1\", \"[True, False, "
         "False]\"]",
         2 * 8 * 25 * 48, 2 * (3200 + 48 + 600), PEAK_FP16},
        /* 2 x 3 heads, 16 queries, 8 keys of 4, values of 4 */
        {"aten::_scaled_dot_product_flash_attention", "[[2, 3, 16, 4], [2, 3, 8, 4], [2, 3, 8, 4]]", HALF,
         "[\"\", \"\", \"\", \"0.\", \"False\", \"False\", \"\"]", 2 * 6 * 128 * 8, 2 * (384 + 192 + 192 + 384),
         PEAK_FP16},
        {"aten::_scaled_dot_product_efficient_attention", "[[2, 3, 16, 4], [2, 3, 16, 4], [2, 3, 16, 4], []]", HALF,
         "[\"\", \"\", \"\", \"\", \"True\", \"0.\", \"True\", \"\"]", 6 * 256 * 8, 2 * 4 * 384, PEAK_FP16},
        {"aten::_scaled_dot_product_cudnn_attention_backward",
         "[[2, 3, 16, 4], [2, 3, 16, 4], [2, 3, 16, 4], [2, 3, 16, 4]]", HALF,
         "[\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"16\",\"16\",\"0.\",\"False\",\"\"]",
         2 * 6 * 256 * 20, 2 * (5 * 384 + 3 * 384), PEAK_FP16},
        /* fewer heads of keys and values: each is met by the queries of several */
        {"flash_attn::_flash_attn_forward", "[[2, 16, 6, 4], [2, 16, 3, 4], [2, 16, 3, 4]]", HALF,
         "[\"\", \"\", \"\", \"0.\", \"0.5\", \"True\", \"-1\", \"-1\", \"0.\"]", 2 * 6 * 256 * 8,
         2 * (768 + 384 + 384 + 768), PEAK_FP16},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Flops flops;

        if (!count(cases[i].op, cases[i].dims, cases[i].types, cases[i].arguments, &flops))
            fail_msg("%s %s", cases[i].op, cases[i].dims);
        if (flops.flops != cases[i].flops || flops.type != cases[i].type ||
            (flops.bytes != cases[i].bytes && !(isnan(flops.bytes) && isnan(cases[i].bytes))))
            fail_msg("%s %s: %.0f FLOP, %.0f bytes", cases[i].op, cases[i].dims, flops.flops, flops.bytes);
    }
}

static void unknown_stays_unknown(void **state)
{
    static const char *const cases[][4] = {
        {"aten::mm", "", HALF, ""},
        {"aten::mm", "[[2, 3], [3, 5]]", "", ""},
        {"aten::mm", "[[2, 3], [4, 5]]", HALF, ""},
        {"aten::mm", "[[2, 3], []]", HALF, ""},
        {"aten::mm", "[[2, 3], [3, 5]]", "[\"c10::complex<float>\", \"c10::complex<float>\"]", ""},
        {"aten::mm", "[[2, 3], [3, 5]]", "[\"long int\", \"long int\"]", ""},
        {"aten::bmm", "[[7, 2, 3], [6, 3, 5]]", HALF, ""},
        {"aten::matmul", "[[2, 3], [3, 5]]", HALF, ""},
        {"aten::cudnn_convolution", "[[8, 3, 10, 12], [4, 3, 3, 3]]", HALF, ""},
        {"aten::cudnn_convolution", "[[8, 3, 2, 2], [4, 3, 3, 3]]", HALF,
         "[\"\", \"\", \"[0, 0]\", \"[1, 1]\", \"[1, 1]\"]"},
        {"aten::cudnn_convolution", "[[8, 3, 10, 12], [4, 3, 3, 3]]", HALF,
         "[\"\", \"\", \"[0, 0]\", \"[0, 0]\", \"[1, 1]\"]"},
        {"aten::convolution_backward", "[[8, 4, 5, 6], [8, 3, 10, 12], [4, 3, 3, 3]]", HALF, ""},
        /* whether it is causal is not recorded; causal of two lengths depends on the version */
        {"aten::_scaled_dot_product_flash_attention", "[[2, 3, 16, 4], [2, 3, 8, 4], [2, 3, 8, 4]]", HALF, ""},
        {"aten::_scaled_dot_product_flash_attention", "[[2, 3, 16, 4], [2, 3, 8, 4], [2, 3, 8, 4]]", HALF,
         "[\"\", \"\", \"\", \"0.\", \"True\", \"False\", \"\"]"},
        {"flash_attn::_flash_attn_forward", "[[2, 16, 6, 4], [2, 16, 3, 4], [2, 16, 3, 4]]", HALF,
         "[\"\", \"\", \"\", \"0.\", \"0.5\", \"True\", \"128\", \"0\", \"0.\"]"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Flops flops;

        if (count(cases[i][0], cases[i][1], cases[i][2], cases[i][3], &flops))
            fail_msg("%s %s", cases[i][0], cases[i][1]);
    }
}

static void boards(void **state)
{
    static const char *const cases[][2] = {
        {"NVIDIA H100 80GB HBM3", "H100 SXM"},
        {"NVIDIA H100 PCIe", "H100 PCIe"},
        {"NVIDIA H100 NVL", "H100 NVL"},
        {"NVIDIA A100-SXM4-40GB", "A100 40GB"},
        {"NVIDIA A10", "A10"},
        {"NVIDIA H200", "H200 SXM"},
        {"NVIDIA A100-SXM4-80GB", "A100 SXM 80GB"},
        {"NVIDIA A100 80GB PCIe", "A100 PCIe 80GB"},
        {"NVIDIA L40S", "L40S"},
        {"NVIDIA B200", "B200"},
        {"NVIDIA GB200", "GB200"},
        {"Tesla V100-SXM2-32GB", "V100 SXM2"},
        {"Tesla T4", "T4"},
        {"AMD Instinct MI300X", "MI300X"},
        {"NVIDIA A10G", NULL},
        {"AMD Radeon Graphics", NULL},
        {"NVIDIA A100-PG509-200", NULL},
        {"", NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const Peak *peak = peak_find(cases[i][0]);

        if (cases[i][1] ? !peak || strcmp(peak->board, cases[i][1]) != 0 : peak != NULL)
            fail_msg("%s: %s", cases[i][0], peak ? peak->board : "none");
    }
    assert_true(peak_find("NVIDIA H100 80GB HBM3")->tflops[PEAK_BF16] == 989);
}

static void tensor_cores_of_a_gpu(void **state)
{
    static const struct {
        const char *name;
        bool amd;
        int major, minor;
        double times;
    } cases[] = {
        {"NVIDIA H100 80GB HBM3", false, 9, 0, 989.0 / 67}, /* a board with a row */
        {"NVIDIA H100 80GB HBM3", false, -1, -1, 989.0 / 67},
        {"NVIDIA GeForce RTX 4090", false, 8, 9, 2},
        {"NVIDIA GeForce RTX 4080", false, 8, 9, 2}, /* by its family */
        {"NVIDIA RTX 4000 Ada Generation", false, 8, 9, 4},
        {"NVIDIA A10G", false, 8, 6, 4},
        {"NVIDIA H20", false, 9, 0, 3.4},
        {"NVIDIA H800", false, 9, 0, 15},
        {"NVIDIA GeForce GTX 1650", false, 7, 5, 0},
        {"Tesla P100-PCIE-16GB", false, 6, 0, 0},
        {"a name of the cloud's", false, -1, -1, 0},
        {"AMD Instinct MI300X", true, 9, 4, 8}, /* whose numbers are no compute capability */
        {"AMD Instinct MI250X", true, 9, 0, 8},
        {"AMD Radeon Graphics", true, 9, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const double times = peak_find_tensor_speed(cases[i].name, cases[i].amd, cases[i].major, cases[i].minor);

        if (fabs(times - cases[i].times) > 0.01)
            fail_msg("%s: %g instead of %g", cases[i].name, times, cases[i].times);
    }
}

static void add_device(Kit *kit, const char *name, uint32_t sm_count)
{
    vec_push(&kit->profile.devices, ((ProfileDevice){.name = kit_name(kit, name), .sm_count = sm_count}));
}

static void launch(Kit *kit, int64_t call_us, uint32_t link, const char *kernel, int64_t start_us, int64_t us)
{
    kit_host(kit, PROFILE_CALL, 100, "cudaLaunchKernel", call_us, 1, link);
    kit_kernel(kit, 0, 7, kernel, start_us, us, link, NULL);
}

/* Two steps of 1 ms. A matmul copies its input and calls mm (1000 x 1000 x 1000, 2 GFLOP, 10 us and 5 us of split-K
 * sums); in step 2 also a relu. */
static void fill_steps(Kit *kit)
{
    for (int step = 0; step < 2; step++) {
        const int64_t at = step * 1000;
        const uint32_t link = (uint32_t)step * 10 + 1;

        kit_host(kit, PROFILE_ANNOTATION, 100, step ? "ProfilerStep#2" : "ProfilerStep#1", at, 1000, 0);
        kit_op(kit, 100, "aten::matmul", at + 10, 90, "[[1000, 1000], [1000, 1000]]", HALF);
        kit_op(kit, 100, "aten::clone", at + 11, 8, "[[1000, 1000]]", HALF);
        launch(kit, at + 12, link, "copy_kernel", at + 110, 3);
        kit_op(kit, 100, "aten::mm", at + 20, 70, "[[1000, 1000],\n [1000, 1000]]", HALF);
        launch(kit, at + 30, link + 1, "sm90_xmma_gemm_f16", at + 120, 10);
        launch(kit, at + 40, link + 2, "splitKreduce_kernel", at + 130, 5);
    }
    kit_op(kit, 100, "aten::relu", 1200, 20, "[[1000, 1000]]", HALF);
    launch(kit, 1205, 31, "relu_kernel", 1300, 20);
    kit_op(kit, 100, "aten::mm", 1400, 20, "[[4, 4], [4, 4]]", HALF); /* on the host */
}

static const TraceShape *find_shape(const TraceRank *rank, const char *op)
{
    for (size_t i = 0; i < rank->shapes.len; i++)
        if (strcmp(rank->shapes.at[i].op, op) == 0)
            return &rank->shapes.at[i];
    fail_msg("no row of %s", op);
    return NULL;
}

static void run_shapes(Kit *kit)
{
    const TraceJob job = {.index = &kit->index, .config = &trace_config_default, .arena = &kit->arena};

    trace_steps_prepare(&job, &kit->rank);
    trace_shapes(&job, &kit->rank);
}

static void assert_near(double value, double expected)
{
    if (!(fabs(value - expected) <= fabs(expected) * 1e-12))
        fail_msg("%.17g, not %.17g", value, expected);
}

static void arithmetic_and_time_belong_to_the_call(void **state)
{
    Kit kit;

    (void)state;
    kit_init(&kit);
    add_device(&kit, "NVIDIA H100 80GB HBM3", 132);
    fill_steps(&kit);
    kit_seal(&kit);
    run_shapes(&kit);
    const TraceShape *mm = find_shape(&kit.rank, "aten::mm"), *relu = find_shape(&kit.rank, "aten::relu");

    assert_int_equal(kit.rank.shapes.len, 3); /* clone, too; matmul has nothing of its own */
    assert_string_equal(mm->dims, "[[1000,1000],[1000,1000]]");
    assert_string_equal(mm->type, "fp16");
    assert_string_equal(mm->kernel, "sm90_xmma_gemm_f16");
    assert_int_equal(mm->count, 2);
    assert_int_equal(mm->kernel_count, 4);
    assert_int_equal(mm->total_ns, 30 * US);
    assert_int_equal(mm->helper_ns, 10 * US);
    assert_near(mm->flops, 2e9);
    assert_near(mm->bytes, 6e6);
    assert_near(mm->tflops, 4e9 / 30e-6 / 1e12);
    assert_near(mm->peak_percent, 100 * mm->tflops / 989);
    assert_string_equal(mm->bound, "compute"); /* 333 FLOP a byte at 3352 GB/s are 1117 TFLOP/s */
    assert_near(mm->roof_tflops, 989);
    assert_int_equal(relu->total_ns, 20 * US);
    assert_true(isnan(relu->flops) && isnan(relu->tflops) && isnan(relu->roof_percent));
    assert_string_equal(relu->type, "");
    assert_int_equal(kit.rank.roof.matrix_ns, 30 * US);
    assert_int_equal(kit.rank.roof.known_ns, 30 * US);
    assert_near(kit.rank.roof.flops_per_step, 2e9);
    assert_near(kit.rank.steps.at[0].devices.at[0].flops, 2e9);
    assert_near(kit.rank.steps.at[0].devices.at[0].mfu_percent, 100 * 2e9 / 989e12 / 1e-3);
    assert_near(kit.rank.roof.mfu_percent, 100 * 4e9 / 989e12 / 2e-3);
    kit_done(&kit);
}

/* A quarter of the multiprocessors: that share of the arithmetic, and nothing known of the memory. */
static void slices_have_a_share(void **state)
{
    Kit kit;

    (void)state;
    kit_init(&kit);
    add_device(&kit, "NVIDIA H100 80GB HBM3", 33);
    fill_steps(&kit);
    kit_seal(&kit);
    run_shapes(&kit);
    assert_string_equal(kit.rank.roof.board, "25 % of H100 SXM");
    assert_near(kit.rank.roof.tflops[PEAK_FP16], 989. / 4);
    assert_true(isnan(kit.rank.roof.memory_gbs));
    assert_string_equal(find_shape(&kit.rank, "aten::mm")->bound, "");
    kit_done(&kit);
}

static void unknown_boards_have_no_use(void **state)
{
    Kit kit;

    (void)state;
    kit_init(&kit);
    add_device(&kit, "A board", 100);
    fill_steps(&kit);
    kit_seal(&kit);
    run_shapes(&kit);
    assert_string_equal(kit.rank.roof.board, "");
    assert_true(isnan(kit.rank.roof.mfu_percent) && isnan(kit.rank.steps.at[1].devices.at[0].mfu_percent));
    assert_near(find_shape(&kit.rank, "aten::mm")->tflops, 4e9 / 30e-6 / 1e12);
    kit_done(&kit);
}

/* Vectors as wide as the depth, in float: on tensor cores by the kernel's name it is TF32, and the memory is the roof.
 */
static void memory_may_be_the_roof(void **state)
{
    Kit kit;

    (void)state;
    kit_init(&kit);
    add_device(&kit, "NVIDIA A100-SXM4-40GB", 108);
    kit_op_of(&kit, 100, "aten::mm", 0, 20, "[[8, 1000], [1000, 1000]]", "[\"float\", \"float\"]", NULL);
    launch(&kit, 5, 1, "ampere_s1688gemm_128x128", 50, 4);
    kit_seal(&kit);
    run_shapes(&kit);
    const TraceShape *mm = find_shape(&kit.rank, "aten::mm");
    const double bytes = 4. * (8000 + 1000000 + 8000);

    assert_string_equal(mm->type, "tf32");
    assert_string_equal(mm->bound, "memory");
    assert_near(mm->roof_tflops, 16e6 / bytes * 1555 / 1000);
    assert_near(mm->roof_percent, 100 * 16e6 / 4e-6 / 1e12 / mm->roof_tflops);
    assert_near(kit.rank.roof.mfu_percent, 100 * 16e6 / 156e12 / 4e-6); /* of the span: there are no steps */
    kit_done(&kit);
}

/* Attention counts where its shapes are, though another operator inside launches the kernel. */
static void inner_operators_work_for_the_outer(void **state)
{
    Kit kit;

    (void)state;
    kit_init(&kit);
    kit_op_of(&kit, 100, "aten::_scaled_dot_product_flash_attention", 0, 50,
              "[[2, 3, 16, 4], [2, 3, 16, 4], [2, 3, 16, 4]]", HALF, "[\"\", \"\", \"\", \"0.\", \"True\"]");
    kit_op(&kit, 100, "aten::_flash_attention_forward", 10, 30, "[[2, 16, 3, 4]]", HALF);
    launch(&kit, 15, 1, "flash_fwd_kernel", 60, 7);
    kit_seal(&kit);
    run_shapes(&kit);
    assert_int_equal(kit.rank.shapes.len, 1);
    assert_near(kit.rank.shapes.at[0].flops, 6 * 256 * 8);
    assert_int_equal(kit.rank.shapes.at[0].total_ns, 7 * US);
    kit_done(&kit);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensor_cores_of_a_gpu),
        cmocka_unit_test(formulas),
        cmocka_unit_test(unknown_stays_unknown),
        cmocka_unit_test(boards),
        cmocka_unit_test(arithmetic_and_time_belong_to_the_call),
        cmocka_unit_test(slices_have_a_share),
        cmocka_unit_test(unknown_boards_have_no_use),
        cmocka_unit_test(memory_may_be_the_roof),
        cmocka_unit_test(inner_operators_work_for_the_outer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
