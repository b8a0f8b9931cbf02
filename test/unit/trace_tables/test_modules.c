/* SPDX-License-Identifier: Apache-2.0 */
/* From kernel to operator, module and line (engine/trace/modules.c). */
#include "kit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void launch(Kit *kit, int64_t thread, int64_t call_us, uint32_t link, const char *kernel, int64_t us)
{
    kit_host(kit, PROFILE_CALL, thread, "cudaLaunchKernel", call_us, 1, link);
    kit_kernel(kit, 0, 7, kernel, 10000 + (int64_t)link * 100, us, link, NULL);
}

static void add_node(Kit *kit, uint32_t op_id, uint32_t sequence, uint32_t forward_thread)
{
    vec_push(&kit->profile.nodes, ((ProfileNode){op_id, sequence, forward_thread}));
}

/* Forward on thread 100: Net holds Linear and works itself; backward on thread 200, where there is no Python. */
static void fill_passes(Kit *kit)
{
    kit_host(kit, PROFILE_PYTHON, 100, "train.py(10): main", 0, 1000, 0);
    launch(kit, 100, 5, 101, "clear", 2);
    kit_host(kit, PROFILE_PYTHON, 100, "nn.Module: Net_0", 10, 190, 0);
    kit_host(kit, PROFILE_OP, 100, "aten::t", 12, 4, 3); /* takes no part: only looked at the number */
    kit_host(kit, PROFILE_PYTHON, 100, "nn.Module: Linear_0", 20, 40, 0);
    kit_host(kit, PROFILE_PYTHON, 100, "torch/nn/modules/linear.py(124): forward", 22, 36, 0);
    kit_host(kit, PROFILE_OP, 100, "aten::addmm", 25, 30, 1);
    launch(kit, 100, 30, 102, "gemm", 10);
    kit_host(kit, PROFILE_PYTHON, 100, "/opt/lib/python3.11/site-packages/shop/model.py(5): forward", 80, 40, 0);
    kit_host(kit, PROFILE_OP, 100, "aten::relu", 85, 20, 2);
    launch(kit, 100, 90, 103, "relu", 4);
    kit_host(kit, PROFILE_OP, 200, "autograd::engine::evaluate_function: AddmmBackward0", 300, 50, 11);
    kit_host(kit, PROFILE_OP, 200, "aten::mm", 310, 30, 12);
    launch(kit, 200, 320, 104, "gemm", 20);
    kit_host(kit, PROFILE_OP, 200, "autograd::engine::evaluate_function: LostBackward0", 400, 50, 13);
    launch(kit, 200, 420, 105, "lost", 3);
    add_node(kit, 3, 7, 0);
    add_node(kit, 1, 7, 0);
    add_node(kit, 2, 8, 0);
    add_node(kit, 11, 7, 1);
    add_node(kit, 13, 99, 1);
}

static const TraceModule *find_module(const TraceRank *rank, const char *path)
{
    for (size_t i = 0; i < rank->modules.len; i++)
        if (strcmp(rank->modules.at[i].path, path) == 0)
            return &rank->modules.at[i];
    fail_msg("no module %s", path);
    return NULL;
}

static const TraceOrigin *find_origin(const TraceRank *rank, const char *kernel, bool backward)
{
    for (size_t i = 0; i < rank->origins.len; i++)
        if (strcmp(rank->origins.at[i].kernel, kernel) == 0 && rank->origins.at[i].backward == backward)
            return &rank->origins.at[i];
    fail_msg("no origin of %s", kernel);
    return NULL;
}

static void both_passes_count_for_the_module(void **state)
{
    Kit kit;

    (void)state;
    kit_init(&kit);
    fill_passes(&kit);
    kit_seal(&kit);
    kit_run(&kit, trace_modules, &kit.rank);
    const TraceModule *net = find_module(&kit.rank, "Net_0"), *linear = find_module(&kit.rank, "Net_0/Linear_0");

    assert_int_equal(kit.rank.modules.len, 2);
    assert_ptr_equal(net, &kit.rank.modules.at[0]);
    assert_int_equal(net->total_ns, 34 * US);
    assert_int_equal(net->own_ns, 4 * US);
    assert_int_equal(net->backward_ns, 20 * US);
    assert_int_equal(net->own_backward_ns, 0);
    assert_int_equal(net->calls, 1);
    assert_true(isnan(net->per_step_ns));
    assert_string_equal(linear->name, "Linear_0");
    assert_int_equal(linear->depth, 1);
    assert_int_equal(linear->own_ns, 30 * US);
    assert_int_equal(linear->own_backward_ns, 20 * US);
    assert_int_equal(linear->kernel_count, 2);
    assert_int_equal(kit.rank.origin_sum.total_ns, 39 * US);
    assert_int_equal(kit.rank.origin_sum.module_ns, 34 * US);
    assert_int_equal(kit.rank.origin_sum.backward_ns, 23 * US);
    assert_int_equal(kit.rank.origin_sum.joined_ns, 20 * US);
    kit_done(&kit);
}

static void kernels_have_an_operator_and_a_line(void **state)
{
    Kit kit;

    (void)state;
    kit_init(&kit);
    fill_passes(&kit);
    kit_seal(&kit);
    kit_run(&kit, trace_kernels, &kit.rank);
    kit_run(&kit, trace_modules, &kit.rank);
    trace_name_launchers(&kit.rank);
    assert_string_equal(kit_find_kernel(&kit.rank, "gemm")->op, "aten::mm");             /* 20 us against 10 */
    assert_string_equal(kit_find_kernel(&kit.rank, "gemm")->line, "train.py(10): main"); /* not the library's */
    assert_string_equal(kit_find_kernel(&kit.rank, "relu")->line,
                        "/opt/lib/python3.11/site-packages/shop/model.py(5): forward");
    assert_string_equal(kit_find_kernel(&kit.rank, "clear")->op, "");
    assert_string_equal(kit_find_kernel(&kit.rank, "lost")->line, "");
    assert_string_equal(find_origin(&kit.rank, "gemm", true)->module, "Net_0/Linear_0");
    assert_string_equal(find_origin(&kit.rank, "gemm", true)->line, "train.py(10): main");
    assert_string_equal(find_origin(&kit.rank, "gemm", false)->op, "aten::addmm");
    assert_string_equal(find_origin(&kit.rank, "lost", true)->module, "");
    kit_done(&kit);
}

/* Work done again in the backward pass stands at the module's usual place, and is no work of the backward pass. */
static void modules_called_alone_have_their_place(void **state)
{
    Kit kit;

    (void)state;
    kit_init(&kit);
    fill_passes(&kit);
    kit_host(&kit, PROFILE_OP, 200, "autograd::engine::evaluate_function: CheckpointBackward", 500, 90, 14);
    kit_host(&kit, PROFILE_PYTHON, 200, "nn.Module: Linear_0", 510, 40, 0);
    kit_host(&kit, PROFILE_OP, 200, "aten::addmm", 520, 20, 15);
    launch(&kit, 200, 525, 106, "gemm", 10);
    add_node(&kit, 14, 8, 1);
    kit_seal(&kit);
    kit_run(&kit, trace_modules, &kit.rank);
    const TraceModule *linear = find_module(&kit.rank, "Net_0/Linear_0");

    assert_int_equal(kit.rank.modules.len, 2);
    assert_int_equal(linear->calls, 2);
    assert_int_equal(linear->own_ns, 40 * US);
    assert_int_equal(linear->own_backward_ns, 20 * US);
    kit_done(&kit);
}

/* Two threads with the same numbers: which of them the backward pass belongs to is not known. A third number tells. */
static void threads_are_told_apart_by_their_numbers(void **state)
{
    for (int known = 0; known < 2; known++) {
        Kit kit;

        (void)state;
        kit_init(&kit);
        fill_passes(&kit);
        kit_host(&kit, PROFILE_OP, 300, "aten::addmm", 25, 30, 21);
        add_node(&kit, 21, 7, 0);
        if (known) {
            kit_host(&kit, PROFILE_OP, 200, "autograd::engine::evaluate_function: ReluBackward0", 600, 20, 22);
            add_node(&kit, 22, 8, 1);
        }
        kit_seal(&kit);
        kit_run(&kit, trace_modules, &kit.rank);
        assert_int_equal(kit.rank.origin_sum.joined_ns, known ? 20 * US : 0);
        assert_int_equal(kit.rank.origin_sum.backward_ns, 23 * US);
        kit_done(&kit);
    }
}

static void deep_trees_end(void **state)
{
    char name[64];
    Kit kit;

    (void)state;
    kit_init(&kit);
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof name, "nn.Module: M_%d", i);
        kit_host(&kit, PROFILE_PYTHON, 100, name, i, 1000 - 2 * i, 0);
    }
    launch(&kit, 100, 300, 1, "k", 5);
    kit_seal(&kit);
    kit_run(&kit, trace_modules, &kit.rank);
    assert_int_equal(kit.rank.modules.len, 64);
    assert_int_equal(kit.rank.modules.at[63].own_ns, 5 * US);
    assert_int_equal(kit.rank.modules.at[0].total_ns, 5 * US);
    kit_done(&kit);
}

/* Larger ones first, each before what is in it. */
static void rows_are_in_the_order_of_the_tree(void **state)
{
    static const char *const order[] = {"Big_0", "Big_0/B_0", "Big_0/A_0", "Small_0", "Small_0/C_0"};
    Kit kit;

    (void)state;
    kit_init(&kit);
    kit_host(&kit, PROFILE_PYTHON, 100, "nn.Module: Small_0", 0, 100, 0);
    kit_host(&kit, PROFILE_PYTHON, 100, "nn.Module: C_0", 10, 20, 0);
    launch(&kit, 100, 12, 1, "k", 5);
    kit_host(&kit, PROFILE_PYTHON, 100, "nn.Module: Big_0", 200, 100, 0);
    kit_host(&kit, PROFILE_PYTHON, 100, "nn.Module: A_0", 210, 20, 0);
    launch(&kit, 100, 212, 2, "k", 3);
    kit_host(&kit, PROFILE_PYTHON, 100, "nn.Module: B_0", 240, 20, 0);
    launch(&kit, 100, 242, 3, "k", 7);
    kit_seal(&kit);
    kit_run(&kit, trace_modules, &kit.rank);
    assert_int_equal(kit.rank.modules.len, 5);
    for (size_t i = 0; i < 5; i++)
        assert_string_equal(kit.rank.modules.at[i].path, order[i]);
    kit_done(&kit);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_passes_count_for_the_module),
        cmocka_unit_test(kernels_have_an_operator_and_a_line),
        cmocka_unit_test(modules_called_alone_have_their_place),
        cmocka_unit_test(threads_are_told_apart_by_their_numbers),
        cmocka_unit_test(deep_trees_end),
        cmocka_unit_test(rows_are_in_the_order_of_the_tree),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
