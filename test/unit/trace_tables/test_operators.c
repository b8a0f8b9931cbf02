/* SPDX-License-Identifier: Apache-2.0 */
/* Operators, calls, annotations and shapes (engine/trace/operators.c, launches.c, classify.c). */
#include "kit.h"

#include <string.h>

#include "engine/trace/classify.h"

/*  thread 100:  outer [0,100)   inner [10,60)   outer [20,40) with a launch inside, one launch in inner, one in outer
 */
static void fill_nested(Kit *kit)
{
    kit_host(kit, PROFILE_OP, 100, "outer", 0, 100, 0);
    kit_host(kit, PROFILE_PYTHON, 100, "train.py(1): step", 5, 90, 0); /* between: changes nothing */
    kit_host(kit, PROFILE_OP, 100, "inner", 10, 50, 0);
    kit_host(kit, PROFILE_OP, 100, "outer", 20, 20, 0); /* of the same name as the outermost */
    kit_host(kit, PROFILE_CALL, 100, "cudaLaunchKernel", 25, 5, 1);
    kit_host(kit, PROFILE_CALL, 100, "cudaLaunchKernel", 50, 5, 2);
    kit_host(kit, PROFILE_CALL, 100, "cudaLaunchKernel", 70, 5, 3);
    kit_host(kit, PROFILE_OP, 200, "inner", 0, 30, 0); /* the backward thread */
    kit_host(kit, PROFILE_CALL, 200, "cudaLaunchKernel", 5, 5, 4);
    kit_kernel(kit, 0, 7, "k", 200, 1, 1, NULL);
    kit_kernel(kit, 0, 7, "k", 210, 10, 2, NULL);
    kit_kernel(kit, 0, 7, "k", 230, 100, 3, NULL);
    kit_kernel(kit, 0, 7, "k", 340, 1000, 4, NULL);
    kit_kernel(kit, 0, 7, "k", 2000, 10000, 99, NULL); /* nobody launched it */
}

static void operators_own_what_they_launch(void **state)
{
    const TraceOperator *outer, *inner;
    Kit kit;

    (void)state;
    kit_init(&kit);
    fill_nested(&kit);
    kit_seal(&kit);
    kit_run(&kit, trace_operators, &kit.rank);
    outer = kit_find_operator(&kit.rank, "outer");
    inner = kit_find_operator(&kit.rank, "inner");
    assert_int_equal(outer->count, 2);
    assert_int_equal(outer->host_ns, 100 * US); /* the one inside itself adds nothing */
    assert_int_equal(outer->host_self_ns, (100 - 50 + 20) * US);
    assert_int_equal(outer->device_ns, 111 * US); /* each once */
    assert_int_equal(outer->device_self_ns, 101 * US);
    assert_int_equal(outer->kernel_count, 2);
    assert_int_equal(inner->count, 2);
    assert_int_equal(inner->host_ns, 80 * US);
    assert_int_equal(inner->host_self_ns, 60 * US);
    assert_int_equal(inner->device_ns, 1011 * US);
    assert_int_equal(inner->device_self_ns, 1010 * US);
    assert_false(inner->matrix);
    assert_int_equal(inner->misaligned_count, -1);
    assert_string_equal(kit.rank.operators.at[0].name, "inner"); /* by GPU time of its own */
    kit_done(&kit);
}

/* An odd depth of a kernel that says itself that it reads 16 bytes at once: its operands lie the other way. */
static void the_kernel_settles_alignment(void **state)
{
    Kit kit;

    (void)state;
    kit_init(&kit);
    kit_op(&kit, 100, "aten::mm", 0, 10, "[[768, 787], [787, 768]]", "[\"c10::Half\", \"c10::Half\"]");
    kit_host(&kit, PROFILE_CALL, 100, "cudaLaunchKernel", 1, 2, 1);
    kit_kernel(&kit, 0, 7, "cutlass_80_tensorop_f16_s16816gemm_f16_64x64_nt_align8", 20, 5, 1, NULL);
    kit_op(&kit, 100, "aten::mm", 20, 10, "[[768, 787], [787, 768]]", "[\"c10::Half\", \"c10::Half\"]");
    kit_host(&kit, PROFILE_CALL, 100, "cudaLaunchKernel", 21, 2, 2);
    kit_kernel(&kit, 0, 7, "cutlass_80_tensorop_f16_s16816gemm_f16_64x64_tn_align1", 30, 7, 2, NULL);
    kit_seal(&kit);
    kit_run(&kit, trace_operators, &kit.rank);
    assert_int_equal(kit_find_operator(&kit.rank, "aten::mm")->misaligned_ns, 7 * US);
    kit_done(&kit);
}

/* Rows of one operator with misaligned shapes, each launches a kernel of so many microseconds. */
static void assert_worst_dims(const char *const *dims, const int *us, size_t count, const char *worst)
{
    Kit kit;

    kit_init(&kit);
    for (size_t i = 0; i < count; i++) {
        const int64_t at = (int64_t)i * 40;
        const uint32_t link = (uint32_t)i + 1;

        kit_op(&kit, 100, "aten::mm", at, 10, dims[i], "[\"c10::Half\", \"c10::Half\"]");
        kit_host(&kit, PROFILE_CALL, 100, "cudaLaunchKernel", at + 1, 2, link);
        kit_kernel(&kit, 0, 7, "ampere_fp16_s16816gemm_fp16_64x64_nn", at + 3, us[i], link, NULL);
    }
    kit_seal(&kit);
    kit_run(&kit, trace_operators, &kit.rank);
    assert_string_equal(kit_find_operator(&kit.rank, "aten::mm")->misaligned_dims, worst);
    kit_done(&kit);
}

static void shapes_with_most_time_are_named(void **state)
{
    static const char *const dims[] = {"[[8, 13], [13, 8]]", "[[8, 11], [11, 8]]", "[[8, 9], [9, 8]]"};

    (void)state;
    assert_worst_dims(dims, (const int[]){5, 9, 3}, 3, dims[1]);
    assert_worst_dims(dims, (const int[]){5, 3, 9}, 3, dims[2]);
    assert_worst_dims(dims, (const int[]){9, 5, 3}, 3, dims[0]);
    assert_worst_dims(dims, (const int[]){9, 9, 3}, 3, dims[1]); /* as long: the first by text */
    assert_worst_dims((const char *const[]){dims[2], dims[0]}, (const int[]){9, 9}, 2, dims[0]);
}

static void matrix_operators_tell_types_and_alignment(void **state)
{
    const TraceOperator *row;
    Kit kit;

    (void)state;
    kit_init(&kit);
    kit_op(&kit, 100, "aten::mm", 0, 10, "[[32, 64], [64, 128]]", "[\"float\", \"float\"]");
    kit_host(&kit, PROFILE_CALL, 100, "cudaLaunchKernel", 1, 2, 1);
    kit_kernel(&kit, 0, 7, "ampere_sgemm_128x64_nn", 20, 5, 1, NULL);
    kit_op(&kit, 100, "aten::mm", 20, 10, "[[32, 63], [63, 128]]", "[\"c10::Half\", \"c10::Half\"]");
    kit_host(&kit, PROFILE_CALL, 100, "cudaLaunchKernel", 21, 2, 2);
    kit_kernel(&kit, 0, 7, "ampere_fp16_s16816gemm_fp16_64x64_nn", 30, 7, 2, NULL);
    kit_op(&kit, 100, "aten::mm", 40, 10, "[[32, 64], [64, 128]]", "[\"c10::Half\", \"c10::Half\"]");
    kit_host(&kit, PROFILE_CALL, 100, "cudaLaunchKernel", 41, 2, 3);
    kit_kernel(&kit, 0, 7, "ampere_fp16_s16816gemm_fp16_64x64_nn", 40, 9, 3, NULL);
    kit_op(&kit, 100, "aten::mm", 60, 10, "", ""); /* nothing recorded, but the kernel's name says float */
    kit_host(&kit, PROFILE_CALL, 100, "cudaLaunchKernel", 61, 2, 4);
    kit_kernel(&kit, 0, 7, "volta_sgemm_64x64_nn", 70, 11, 4, NULL);
    kit_op(&kit, 100, "aten::add", 80, 10, "[[63], [63]]", "[\"c10::Half\", \"c10::Half\"]"); /* no matrices */
    kit_seal(&kit);
    kit_run(&kit, trace_operators, &kit.rank);
    row = kit_find_operator(&kit.rank, "aten::mm");
    assert_true(row->matrix);
    assert_int_equal(row->count, 4);
    assert_int_equal(row->shaped_count, 3);
    assert_int_equal(row->misaligned_count, 1);
    assert_int_equal(row->misaligned_ns, 7 * US);
    assert_string_equal(row->misaligned_dims, "[[32, 63], [63, 128]]");
    assert_int_equal(row->tensor_core_ns, 16 * US);
    assert_int_equal(row->float_ns, 16 * US);
    assert_int_equal(kit_find_operator(&kit.rank, "aten::add")->misaligned_count, -1);
    kit_done(&kit);
}

typedef struct ShapeCase {
    const char *op, *dims, *types;
    unsigned want;
} ShapeCase;

static void shapes_are_judged_by_the_operator(void **state)
{
    enum { KNOWN = TRACE_SHAPE_KNOWN | TRACE_SHAPE_TYPED, BAD = KNOWN | TRACE_SHAPE_MISALIGNED };
    static const ShapeCase cases[] = {
        {"aten::mm", "[[8, 16], [16, 24]]", "[\"c10::BFloat16\", \"c10::BFloat16\"]", KNOWN},
        {"aten::mm", "[[8, 16], [16, 25]]", "[\"c10::BFloat16\", \"c10::BFloat16\"]", BAD},
        {"aten::mm", "[[9, 16], [16, 24]]", "[\"c10::BFloat16\", \"c10::BFloat16\"]", KNOWN}, /* rows may be odd */
        {"aten::mm", "[[1, 16], [16, 24]]", "[\"c10::BFloat16\", \"c10::BFloat16\"]", KNOWN}, /* vector */
        {"aten::_scaled_mm", "[[8, 16], [16, 24]]", "[\"c10::Float8_e4m3fn\", \"c10::Float8_e4m3fn\"]", BAD},
        {"aten::_scaled_mm", "[[16, 16], [16, 32]]", "[\"c10::Float8_e4m3fn\", \"c10::Float8_e4m3fn\"]", KNOWN},
        {"aten::mm", "[[9, 17], [17, 25]]", "[\"float\", \"float\"]", KNOWN | TRACE_SHAPE_FLOAT}, /* not judged */
        {"aten::mm", "[[9, 17], [17, 25]]", "[\"double\", \"double\"]", KNOWN},
        {"aten::bmm", "[[3, 8, 16], [3, 16, 24]]", "[\"c10::Half\", \"c10::Half\"]", KNOWN}, /* the batch may be odd */
        {"aten::bmm", "[[3, 8, 15], [3, 15, 24]]", "[\"c10::Half\", \"c10::Half\"]", BAD},
        {"aten::addmm", "[[25], [8, 16], [16, 24], [], []]",
         "[\"c10::Half\", \"c10::Half\", \"c10::Half\", \"Scalar\", \"Scalar\"]", KNOWN},
        {"aten::addmm", "[[24], [8, 16], [16, 25], [], []]",
         "[\"c10::Half\", \"c10::Half\", \"c10::Half\", \"Scalar\", \"Scalar\"]", BAD},
        {"aten::linear", "[[4, 2, 16], [24, 16], [24]]", "[\"c10::Half\", \"c10::Half\", \"c10::Half\"]", KNOWN},
        {"aten::linear", "[[3, 3, 15], [24, 15], [24]]", "[\"c10::Half\", \"c10::Half\", \"c10::Half\"]", BAD},
        {"aten::conv2d", "[[5, 64, 7, 7], [128, 64, 3, 3], []]", "[\"c10::Half\", \"c10::Half\", \"\"]", KNOWN},
        {"aten::conv2d", "[[5, 3, 7, 7], [64, 3, 3, 3], []]", "[\"c10::Half\", \"c10::Half\", \"\"]", BAD},
        {"aten::conv2d", "[[5, 63, 7, 7], [63, 1, 3, 3], []]", "[\"c10::Half\", \"c10::Half\", \"\"]",
         TRACE_SHAPE_TYPED}, /* depthwise */
        {"aten::convolution_backward", "[[5, 64, 7, 7], [5, 32, 7, 7], [64, 32, 3, 3]]",
         "[\"c10::Half\", \"c10::Half\", \"c10::Half\"]", KNOWN},
        {"aten::matmul", "[[16], [16, 24]]", "[\"c10::Half\", \"c10::Half\"]", TRACE_SHAPE_TYPED}, /* a vector */
        {"aten::mm", "", "[\"float\", \"float\"]", TRACE_SHAPE_TYPED | TRACE_SHAPE_FLOAT},
        {"aten::mm", "[[8, 16], [16, 24]]", "", 0},
        {"aten::mm", "[[8, 16]", "[\"c10::Half\"", 0}, /* cut off */
        {"aten::cudnn_convolution_backward_weight", "", "[\"\", \"float\", \"float\", \"\"]",
         TRACE_SHAPE_TYPED | TRACE_SHAPE_FLOAT}, /* an unknown kind: its first tensor */
        {"aten::some_attention", "", "[\"Scalar\", \"c10::Half\", \"float\"]", TRACE_SHAPE_TYPED},
        {"aten::mm", "[[99999999999999999999, 1], [1, 2]]", "[\"c10::Half\", \"c10::Half\"]", TRACE_SHAPE_TYPED},
        {"aten::mm", "[[[1, 2], [3, 4]], [[5]]]", "[\"TensorList\", \"TensorList\"]", 0},
        {"aten::mm", "]][[", "]\"[", 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsigned got =
            trace_shape_check(trace_shape_rule(cases[i].op, strlen(cases[i].op)), cases[i].dims, cases[i].types);

        if (got != cases[i].want)
            fail_msg("%s %s %s: %u instead of %u", cases[i].op, cases[i].dims, cases[i].types, got, cases[i].want);
    }
    assert_int_equal(trace_shape_rule("aten::add", 9), TRACE_SHAPE_NONE);
    assert_true(trace_is_float_matrix("volta_sgemm_128x64_nn", 21));
    assert_false(trace_is_float_matrix("ampere_fp16_s16816gemm", 22));
}

static void calls_know_their_operators(void **state)
{
    const TraceCall *call;
    Kit kit;

    (void)state;
    kit_init(&kit);
    kit_host(&kit, PROFILE_ANNOTATION, 100, "ProfilerStep#1", 0, 100, 0);
    kit_host(&kit, PROFILE_OP, 100, "aten::item", 10, 30, 0);
    kit_host(&kit, PROFILE_OP, 100, "aten::_local_scalar_dense", 11, 28, 0);
    kit_host(&kit, PROFILE_CALL, 100, "cudaStreamSynchronize", 12, 20, 0);
    kit_host(&kit, PROFILE_CALL, 100, "cudaStreamSynchronize", 60, 5, 0);
    kit_host(&kit, PROFILE_CALL, 100, "cudaStreamSynchronize", 200, 7, 0); /* behind the step */
    kit_seal(&kit);
    kit_run(&kit, trace_calls, &kit.rank);
    assert_int_equal(kit.rank.calls.len, 2);
    call = &kit.rank.calls.at[0];
    assert_string_equal(call->name, "cudaStreamSynchronize");
    assert_string_equal(call->inner, "aten::_local_scalar_dense");
    assert_string_equal(call->outer, "aten::item");
    assert_int_equal(call->class, TRACE_HOST_SYNC);
    assert_int_equal(call->count, 1);
    call = &kit.rank.calls.at[1];
    assert_string_equal(call->inner, "");
    assert_string_equal(call->outer, "");
    assert_int_equal(call->count, 2);
    assert_int_equal(call->total_ns, 12 * US);
    assert_int_equal(call->min_ns, 5 * US);
    assert_int_equal(call->max_ns, 7 * US);
    assert_int_equal(call->step_count, 1);
    assert_int_equal(call->step_ns, 5 * US);
    kit_done(&kit);
}

static void host_ranges_own_what_their_thread_launches(void **state)
{
    const TraceAnnotation *row;
    Kit kit;

    (void)state;
    kit_init(&kit);
    kit_host(&kit, PROFILE_ANNOTATION, 100, "forward", 0, 100, 0);
    kit_host(&kit, PROFILE_ANNOTATION, 100, "forward", 10, 20, 0); /* in one of its name */
    kit_host(&kit, PROFILE_ANNOTATION, 100, "layer", 50, 20, 0);
    kit_host(&kit, PROFILE_CALL, 100, "cudaLaunchKernel", 15, 2, 1);
    kit_host(&kit, PROFILE_CALL, 100, "cudaLaunchKernel", 55, 2, 2);
    kit_host(&kit, PROFILE_CALL, 200, "cudaLaunchKernel", 56, 2, 3); /* meanwhile on another thread */
    kit_kernel(&kit, 0, 7, "k", 200, 3, 1, NULL);
    kit_kernel(&kit, 0, 7, "k", 210, 5, 2, NULL);
    kit_kernel(&kit, 0, 7, "k", 220, 9, 3, NULL);
    kit_seal(&kit);
    kit_run(&kit, trace_annotations, &kit.rank);
    row = kit_find_annotation(&kit.rank, "forward", false);
    assert_int_equal(row->count, 2);
    assert_int_equal(row->total_ns, 120 * US);
    assert_int_equal(row->min_ns, 20 * US);
    assert_int_equal(row->max_ns, 100 * US);
    assert_int_equal(row->device_ns, 8 * US);
    assert_int_equal(row->operation_count, 2);
    assert_int_equal(row->busy_ns, -1);
    assert_int_equal(kit_find_annotation(&kit.rank, "layer", false)->device_ns, 5 * US);
    kit_done(&kit);
}

/*  stream 7:  k [10,20)  k [15,30)  k [40,50)      range "r" [12,45) and inside it "r" [14,20), "s" [0,60)
 *  stream 9:  k [12,45) does not count                                                                      */
static void gpu_ranges_hold_what_runs_on_their_stream(void **state)
{
    const TraceAnnotation *row;
    Kit kit;

    (void)state;
    kit_init(&kit);
    kit_kernel(&kit, 0, 7, "k", 10, 10, 0, NULL);
    kit_kernel(&kit, 0, 7, "k", 15, 15, 0, NULL);
    kit_kernel(&kit, 0, 7, "k", 40, 10, 0, NULL);
    kit_kernel(&kit, 0, 9, "k", 12, 33, 0, NULL);
    kit_mark(&kit, 0, 7, "r", 12, 33);
    kit_mark(&kit, 0, 7, "r", 14, 6);
    kit_mark(&kit, 0, 7, "s", 0, 60);
    kit_host(&kit, PROFILE_ANNOTATION, 100, "r", 0, 5, 0); /* of the host: a row of its own */
    kit_seal(&kit);
    kit_run(&kit, trace_annotations, &kit.rank);
    row = kit_find_annotation(&kit.rank, "r", true);
    assert_int_equal(row->count, 2);
    assert_int_equal(row->busy_ns, (30 - 12 + 45 - 40) * US);
    assert_int_equal(row->device_ns, 25 * US); /* what starts inside */
    assert_int_equal(row->operation_count, 2);
    row = kit_find_annotation(&kit.rank, "s", true);
    assert_int_equal(row->busy_ns, 30 * US);
    assert_int_equal(row->device_ns, 35 * US);
    assert_int_equal(kit_find_annotation(&kit.rank, "r", false)->device_ns, 0);
    kit_done(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operators_own_what_they_launch),
        cmocka_unit_test(matrix_operators_tell_types_and_alignment),
        cmocka_unit_test(the_kernel_settles_alignment),
        cmocka_unit_test(shapes_with_most_time_are_named),
        cmocka_unit_test(shapes_are_judged_by_the_operator),
        cmocka_unit_test(calls_know_their_operators),
        cmocka_unit_test(host_ranges_own_what_their_thread_launches),
        cmocka_unit_test(gpu_ranges_hold_what_runs_on_their_stream),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
