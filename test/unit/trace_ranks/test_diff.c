/* SPDX-License-Identifier: Apache-2.0 */
/* Difference of two profiles: diff.c. */
#include <math.h>
#include <string.h>

#include "world.h"

static void add_kernel(TraceRank *rank, const char *name, int64_t count, int64_t total_us)
{
    vec_push(&rank->kernels, ((TraceKernel){.name = name, .count = count, .total_ns = total_us * US}));
}

static void add_operator(TraceRank *rank, const char *name, int64_t device_us, int64_t host_us)
{
    vec_push(
        &rank->operators,
        ((TraceOperator){.name = name, .count = 1, .device_self_ns = device_us * US, .host_self_ns = host_us * US}));
}

static TraceReport report_of(int ranks, int steps, double step_ns)
{
    TraceReport report = {.step_ns = step_ns};
    for (int i = 0; i < ranks; i++) {
        vec_push(&report.ranks, ((TraceRank){.rank = i}));
        TraceRank *rank = &report.ranks.at[i];
        vec_push(&rank->devices, ((TraceDevice){.busy_ns = 10 * US, .idle_ns = 5 * US}));
        for (int k = 0; k < steps; k++)
            vec_push(&rank->steps, ((TraceStepRow){.name = "s"}));
    }
    return report;
}

static const TraceDiffRow *row(const TraceDiff *diff, const char *name)
{
    for (size_t i = 0; i < diff->kernels.len; i++) {
        if (strcmp(diff->kernels.at[i].name, name) == 0)
            return &diff->kernels.at[i];
    }
    fail_msg("no row %s", name);
    return NULL;
}

/* Before: 1 rank of 2 steps; after: 2 ranks of 5. gemm 100 us -> 2 * 300 us: per step 50 -> 60. */
static void per_step(void **state)
{
    (void)state;
    Arena arena = {0};
    TraceDiff diff;
    TraceReport before = report_of(1, 2, 1000), after = report_of(2, 5, 1200);
    add_kernel(&before.ranks.at[0], "gemm", 10, 100);
    add_kernel(&before.ranks.at[0], "same", 2, 20);
    add_kernel(&before.ranks.at[0], "gone", 1, 8);
    for (int i = 0; i < 2; i++) {
        add_kernel(&after.ranks.at[i], "gemm", 25, 300);
        add_kernel(&after.ranks.at[i], "same", 5, 50);
        add_kernel(&after.ranks.at[i], "new", 1, 25);
    }
    trace_diff(&before, &after, &arena, &diff);
    assert_true(diff.per_step);
    assert_true(diff.step_before_ns == 1000 && diff.step_after_ns == 1200);
    assert_int_equal(diff.busy_after_ns, 20 * US);
    assert_int_equal(diff.idle_before_ns, 5 * US);
    assert_int_equal(diff.kernels.len, 4);
    assert_string_equal(diff.kernels.at[0].name, "gemm"); /* + 10 */
    assert_string_equal(diff.kernels.at[1].name, "new");  /* + 5 */
    assert_string_equal(diff.kernels.at[2].name, "same"); /* 0 */
    assert_string_equal(diff.kernels.at[3].name, "gone"); /* - 4 */
    assert_int_equal(diff.kernels.at[0].count_after, 50);
    assert_true(diff.kernels.at[0].per_step_before_ns == 50e3);
    assert_true(diff.kernels.at[0].per_step_after_ns == 60e3);
    trace_diff_done(&diff);
    world_done(&before);
    world_done(&after);
    arena_done(&arena);
}

/* Another instantiation is the same kernel where nothing else could be meant; several are one row under the short
 * name. What has its exact name on both sides stays apart. */
static void renamed_kernels(void **state)
{
    (void)state;
    Arena arena = {0};
    TraceDiff diff;
    TraceReport before = report_of(1, 0, 0), after = report_of(1, 0, 0);
    add_kernel(&before.ranks.at[0], "void at::native::add<float, (anonymous namespace)::F<2>>(int, float*)", 1, 10);
    add_kernel(&after.ranks.at[0], "void at::native::add<__half, (anonymous namespace)::F<4>>(long, int)", 1, 30);
    add_kernel(&before.ranks.at[0], "(anonymous namespace)::k<1>(X)", 1, 1);
    add_kernel(&after.ranks.at[0], "(anonymous namespace)::other<1>(X)", 1, 1);
    add_kernel(&before.ranks.at[0], "mul<1>", 1, 5);
    add_kernel(&before.ranks.at[0], "mul<2>", 1, 5);
    add_kernel(&after.ranks.at[0], "mul<3>", 1, 6);
    add_kernel(&after.ranks.at[0], "mul<4>", 1, 6);
    add_kernel(&before.ranks.at[0], "div<1>", 1, 5);
    add_kernel(&after.ranks.at[0], "div<1>", 1, 6);
    add_kernel(&after.ranks.at[0], "div<2>", 1, 7);
    trace_diff(&before, &after, &arena, &diff);
    assert_false(diff.per_step);
    assert_true(isnan(diff.step_before_ns));
    const TraceDiffRow *add = row(&diff, "void at::native::add<__half, (anonymous namespace)::F<4>>(long, int)");
    assert_int_equal(add->total_before_ns, 10 * US);
    assert_int_equal(add->total_after_ns, 30 * US);
    assert_true(isnan(add->per_step_after_ns));
    assert_int_equal(row(&diff, "(anonymous namespace)::k<1>(X)")->count_after, 0);
    assert_int_equal(row(&diff, "(anonymous namespace)::other<1>(X)")->count_before, 0);
    assert_int_equal(row(&diff, "mul")->total_before_ns, 10 * US);
    assert_int_equal(row(&diff, "mul")->total_after_ns, 12 * US);
    assert_int_equal(row(&diff, "div<1>")->total_before_ns, 5 * US);
    assert_int_equal(row(&diff, "div<2>")->total_before_ns, 0);
    assert_int_equal(diff.kernels.len, 6);
    int64_t sums[2] = {0};
    for (size_t i = 0; i < diff.kernels.len; i++) { /* nothing is lost or counted twice */
        sums[0] += diff.kernels.at[i].total_before_ns;
        sums[1] += diff.kernels.at[i].total_after_ns;
    }
    assert_int_equal(sums[0], 26 * US);
    assert_int_equal(sums[1], 56 * US);
    trace_diff_done(&diff);
    world_done(&before);
    world_done(&after);
    arena_done(&arena);
}

static void add_origin(TraceRank *rank, const char *kernel, const char *op, const char *dims, const char *module,
                       int us)
{
    vec_push(
        &rank->origins,
        ((TraceOrigin){
            .kernel = kernel, .op = op, .dims = dims, .module = module, .line = "", .count = 1, .total_ns = us * US}));
}

static const TraceDiffRow *find_module(const TraceDiff *diff, const char *name)
{
    for (size_t i = 0; i < diff->modules.len; i++)
        if (strcmp(diff->modules.at[i].name, name) == 0)
            return &diff->modules.at[i];
    fail_msg("no row %s", name);
    return NULL;
}

/* A kernel that alone does what another one alone did before is that one renamed; where two could be meant they stay
 * apart. */
static void kernels_of_one_call_are_renamed(void **state)
{
    (void)state;
    Arena arena = {0};
    TraceDiff diff;
    TraceReport before = report_of(1, 0, 0), after = report_of(1, 0, 0);
    TraceRank *a = &before.ranks.at[0], *b = &after.ranks.at[0];
    add_kernel(a, "ampere_gemm", 1, 10);
    add_kernel(b, "nvjet_tst", 1, 7);
    add_kernel(a, "two_1", 1, 3);
    add_kernel(b, "two_2", 1, 4);
    add_kernel(b, "two_3", 1, 5);
    add_origin(a, "ampere_gemm", "aten::mm", "[[8,8],[8,8]]", "", 10);
    add_origin(b, "nvjet_tst", "aten::mm", "[[8,8],[8,8]]", "", 7);
    add_origin(a, "two_1", "aten::mm", "[[4,4],[4,4]]", "", 3);
    add_origin(b, "two_2", "aten::mm", "[[4,4],[4,4]]", "", 4);
    add_origin(b, "two_3", "aten::mm", "[[4,4],[4,4]]", "", 5);
    trace_diff(&before, &after, &arena, &diff);
    assert_int_equal(diff.kernels.len, 4);
    assert_string_equal(row(&diff, "nvjet_tst")->was, "ampere_gemm");
    assert_int_equal(row(&diff, "nvjet_tst")->total_before_ns, 10 * US);
    assert_int_equal(row(&diff, "nvjet_tst")->total_after_ns, 7 * US);
    assert_int_equal(row(&diff, "two_1")->count_after, 0);
    assert_string_equal(row(&diff, "two_2")->was, "");
    trace_diff_done(&diff);
    world_done(&before);
    world_done(&after);
    arena_done(&arena);
}

/* Operators within modules: slower, new, gone, and moved under a wrapper. */
static void modules_are_aligned(void **state)
{
    (void)state;
    Arena arena = {0};
    TraceDiff diff;
    TraceReport before = report_of(1, 0, 0), after = report_of(1, 0, 0);
    TraceRank *a = &before.ranks.at[0], *b = &after.ranks.at[0];
    add_origin(a, "gemm_1", "aten::mm", "", "Net_0/Block_0/Linear_0", 10);
    add_origin(a, "sums", "aten::mm", "", "Net_0/Block_0/Linear_0", 2);
    add_origin(b, "gemm_2", "aten::mm", "", "Net_0/Block_0/Linear_0", 15);
    add_origin(a, "gelu", "aten::gelu", "", "Net_0/Block_0/GELU_0", 3);
    add_origin(b, "gelu", "aten::gelu", "", "Wrapper_0/Net_0/Block_0/GELU_0", 4);
    add_origin(a, "drop", "aten::dropout", "", "Net_0/Dropout_0", 6);
    add_origin(b, "norm", "aten::norm", "", "Net_0/Norm_0", 5);
    add_origin(b, "outside", "aten::add", "", "", 5);
    trace_diff(&before, &after, &arena, &diff);
    assert_int_equal(diff.modules.len, 4);
    assert_string_equal(diff.modules.at[0].name, "Net_0/Norm_0: aten::norm");
    assert_int_equal(find_module(&diff, "Net_0/Block_0/Linear_0: aten::mm")->total_before_ns, 12 * US);
    assert_int_equal(find_module(&diff, "Net_0/Block_0/Linear_0: aten::mm")->total_after_ns, 15 * US);
    assert_string_equal(find_module(&diff, "Wrapper_0/Net_0/Block_0/GELU_0: aten::gelu")->was,
                        "Net_0/Block_0/GELU_0: aten::gelu");
    assert_int_equal(find_module(&diff, "Net_0/Dropout_0: aten::dropout")->count_after, 0);
    trace_diff_done(&diff);
    world_done(&before);
    world_done(&after);
    arena_done(&arena);
}

/* Operators by GPU time; by host time where neither profile has a GPU. Odd names do no harm. */
static void operators_and_odd_names(void **state)
{
    (void)state;
    for (int gpu = 0; gpu < 2; gpu++) {
        Arena arena = {0};
        TraceDiff diff;
        TraceReport before = report_of(1, 0, 0), after = report_of(1, 0, 0);
        add_operator(&before.ranks.at[0], "aten::mm", gpu * 10, 3);
        add_operator(&after.ranks.at[0], "aten::mm", gpu * 40, 5);
        add_kernel(&before.ranks.at[0], "", 1, 1);
        add_kernel(&before.ranks.at[0], "<", 1, 1);
        add_kernel(&before.ranks.at[0], "a>b)", 1, 1);
        add_kernel(&after.ranks.at[0], "<<<(", 1, 1);
        add_kernel(&after.ranks.at[0], "f<&X::operator->>", 1, 1);
        trace_diff(&before, &after, &arena, &diff);
        assert_int_equal(diff.operators.len, 1);
        assert_int_equal(diff.operators.at[0].total_before_ns, (gpu ? 10 : 3) * US);
        assert_int_equal(diff.operators.at[0].total_after_ns, (gpu ? 40 : 5) * US);
        trace_diff_done(&diff);
        world_done(&before);
        world_done(&after);
        arena_done(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(per_step),
        cmocka_unit_test(renamed_kernels),
        cmocka_unit_test(kernels_of_one_call_are_renamed),
        cmocka_unit_test(modules_are_aligned),
        cmocka_unit_test(operators_and_odd_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
