/* SPDX-License-Identifier: Apache-2.0 */
/* Links, nesting and steps (engine/trace/index*.c). */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "build.h"

static uint32_t launch_of(const Build *b, const char *kernel, size_t nth)
{
    return b->index.launch[build_gpu_row(b, kernel, nth)];
}

static void links_by_correlation(void **state)
{
    Build b;

    (void)state;
    build_init(&b);
    build_op(&b, 1, 0, 100, "aten::mm");
    build_op(&b, 1, 5, 50, "aten::inner");
    build_launch(&b, 1, 10, 20, 0, 7, 50, 200, "gemm");
    build_kernel(&b, 0, 7, 300, 10, "lost", 99);
    build_gpu(&b, PROFILE_KERNEL, 0, 7, 400, 10, "by id", 0, 17);
    build_host(&b, PROFILE_OP, 1, 200, 10, "aten::external", 17);
    build_seal(&b);
    assert_int_equal(launch_of(&b, "gemm", 0), build_host_row(&b, "cudaLaunchKernel", 0));
    assert_int_equal(b.index.op[build_gpu_row(&b, "gemm", 0)], build_host_row(&b, "aten::inner", 0));
    assert_int_equal(launch_of(&b, "lost", 0), PROFILE_NONE);
    assert_int_equal(b.index.op[build_gpu_row(&b, "lost", 0)], PROFILE_NONE);
    assert_int_equal(launch_of(&b, "by id", 0), PROFILE_NONE);
    assert_int_equal(b.index.op[build_gpu_row(&b, "by id", 0)], build_host_row(&b, "aten::external", 0));
    assert_int_equal(b.index.linked, 1);
    assert_int_equal(b.index.unlinked, 2);
    build_done(&b);
}

static size_t bytes_of(size_t ops, size_t calls, size_t kernels)
{
    Build b;

    build_init(&b);
    for (size_t i = 0; i < ops; i++)
        build_op(&b, 1, (int64_t)i * 10, 5, "aten::mm");
    for (size_t i = 0; i < calls; i++)
        build_call(&b, 2, (int64_t)i * 10, 5, "cudaLaunchKernel", 0);
    for (size_t i = 0; i < kernels; i++)
        build_kernel(&b, 0, 7, (int64_t)i * 10, 5, "gemm", 0);
    build_seal(&b);
    const size_t bytes = trace_index_bytes(&b.index);
    build_done(&b);
    return bytes;
}

/* What an index takes is so much for each event; an operator takes more than a call. */
static void bytes_by_events(void **state)
{
    const size_t op = bytes_of(1, 0, 0), call = bytes_of(0, 1, 0), kernel = bytes_of(0, 0, 1);

    (void)state;
    assert_int_equal(bytes_of(0, 0, 0), 0);
    assert_in_range(call, 1, op - 1);
    assert_in_range(kernel, 1, 1000);
    assert_int_equal(bytes_of(10, 3, 0), 10 * op + 3 * call);
    assert_int_equal(bytes_of(10, 3, 7), 10 * op + 3 * call + 7 * kernel);
}

/* One call, three kernels. */
static void graph_launch(void **state)
{
    Build b;

    (void)state;
    build_init(&b);
    build_call(&b, 1, 0, 30, "cudaGraphLaunch", 5);
    for (int i = 0; i < 3; i++)
        build_kernel(&b, 0, 7, 40 + 10 * i, 5, "node", 5);
    build_seal(&b);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(launch_of(&b, "node", i), build_host_row(&b, "cudaGraphLaunch", 0));
    assert_int_equal(b.index.linked, 3);
    build_done(&b);
}

/* The same number in the runtime's call and in the driver's inside it; used again later; and on a call that waits. */
static void numbers_used_again(void **state)
{
    Build b;

    (void)state;
    build_init(&b);
    build_call(&b, 1, 0, 20, "cudaLaunchKernel", 5);
    build_call(&b, 1, 5, 10, "cuLaunchKernel", 5);
    build_kernel(&b, 0, 7, 50, 10, "first", 5);
    build_call(&b, 1, 100, 20, "cudaLaunchKernelExC", 5);
    build_kernel(&b, 0, 7, 150, 10, "second", 5);
    build_call(&b, 1, 140, 5, "cudaStreamSynchronize", 5);
    build_call(&b, 0, 145, 2, "cudaEventSynchronize", 5);
    build_kernel(&b, 0, 7, 3, 1, "skewed", 6);
    build_call(&b, 1, 300, 5, "cudaMemsetAsync", 6);
    build_seal(&b);
    assert_int_equal(launch_of(&b, "first", 0), build_host_row(&b, "cuLaunchKernel", 0));
    assert_int_equal(launch_of(&b, "second", 0), build_host_row(&b, "cudaLaunchKernelExC", 0));
    assert_int_equal(launch_of(&b, "skewed", 0), build_host_row(&b, "cudaMemsetAsync", 0)); /* starts later: taken */
    build_done(&b);
}

/* The last call that starts at or before the operation, in whatever order the threads stand. */
static void a_call_of_the_same_moment(void **state)
{
    static const int64_t starts[][2] = {{5, 10}, {10, 5}, {10, 15}, {15, 10}, {10, 10}};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(starts); i++) {
        Build b;

        build_init(&b);
        build_call(&b, 1, starts[i][0], 2, "cudaLaunchKernel", 5);
        build_call(&b, 2, starts[i][1], 2, "cudaLaunchKernel", 5);
        build_kernel(&b, 0, 7, 10, 10, "k", 5);
        build_seal(&b);
        assert_int_equal(b.profile.host.start[launch_of(&b, "k", 0)], 10);
        build_done(&b);
    }
}

/* So many calls of one number that they are searched, and numbers that lie far apart. */
static void many_of_one_number(void **state)
{
    Build b;

    (void)state;
    build_init(&b);
    for (int i = 0; i < 50; i++)
        build_call(&b, 1 + i % 3, 100 * i, 10, "cudaLaunchKernel", 4000000000U);
    for (int i = 0; i < 50; i++)
        build_kernel(&b, 0, 7, 100 * i + 50, 10, "k", 4000000000U);
    build_call(&b, 1, 10000, 10, "cudaLaunchKernel", 1);
    build_kernel(&b, 0, 7, 10050, 10, "k", 1);
    build_seal(&b);
    assert_int_equal(b.index.linked, 51);
    for (size_t i = 0; i < 51; i++) {
        uint32_t row = build_gpu_row(&b, "k", i);

        assert_int_equal(b.profile.host.start[b.index.launch[row]], b.profile.gpu.start[row] - 50);
    }
    build_done(&b);
}

static void pageable_copies_block(void **state)
{
    Build b;

    (void)state;
    build_init(&b);
    build_call(&b, 1, 0, 20, "cudaMemcpyAsync", 1);
    build_copy(&b, 0, 7, 10, 10, 64, "Memcpy HtoD (Pageable -> Device)", 1);
    build_call(&b, 1, 30, 20, "cudaMemcpyAsync", 2);
    build_copy(&b, 0, 7, 60, 10, 64, "Memcpy HtoD (Pinned -> Device)", 2);
    build_seal(&b);
    assert_int_equal(trace_host_class(&b.index, build_host_row(&b, "cudaMemcpyAsync", 0)), TRACE_HOST_COPY);
    assert_int_equal(trace_host_class(&b.index, build_host_row(&b, "cudaMemcpyAsync", 1)), TRACE_HOST_LAUNCH);
    assert_int_equal(trace_gpu_class(&b.index, 0), TRACE_COPY);
    build_done(&b);
}

static uint32_t parent_of(const Build *b, const char *name)
{
    return b->index.parent[build_host_row(b, name, 0)];
}

static void nesting(void **state)
{
    Build b;

    (void)state;
    build_init(&b);
    build_range(&b, 1, 0, 100000, "outer");
    build_op(&b, 1, 10, 5000, "child");
    build_op(&b, 1, 20, 4991, "sticks out by one");    /* ends at 5011, its parent at 5010 */
    build_op(&b, 1, 6000, 10000, "first");             /* to 16000 */
    build_op(&b, 1, 11000, 10000, "overlaps by half"); /* to 21000: beside */
    build_op(&b, 1, 15000, 100, "in the second");
    build_op(&b, 2, 20, 10, "other thread");
    build_op(&b, 1, 100000, 0, "empty behind");
    build_op(&b, 1, 0, 0, "empty at the start");
    build_seal(&b);
    assert_int_equal(parent_of(&b, "outer"), PROFILE_NONE);
    assert_int_equal(parent_of(&b, "child"), build_host_row(&b, "outer", 0));
    assert_int_equal(parent_of(&b, "sticks out by one"), build_host_row(&b, "child", 0));
    assert_int_equal(parent_of(&b, "first"), build_host_row(&b, "outer", 0));
    assert_int_equal(parent_of(&b, "overlaps by half"), build_host_row(&b, "outer", 0));
    assert_int_equal(parent_of(&b, "in the second"), build_host_row(&b, "overlaps by half", 0));
    assert_int_equal(parent_of(&b, "other thread"), PROFILE_NONE);
    assert_int_equal(parent_of(&b, "empty behind"), PROFILE_NONE);
    assert_int_equal(parent_of(&b, "empty at the start"), build_host_row(&b, "outer", 0));
    build_done(&b);
}

static void what_lies_in_data_loading(void **state)
{
    Build b;

    (void)state;
    build_init(&b);
    build_range(&b, 1, 0, 1000, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__");
    build_op(&b, 1, 10, 100, "aten::stack");
    build_call(&b, 1, 20, 10, "cudaHostAlloc", 1);
    build_op(&b, 1, 2000, 100, "aten::cat");
    build_seal(&b);
    assert_int_equal(b.index.host_inside[build_host_row(&b, "aten::stack", 0)], TRACE_HOST_DATA);
    assert_int_equal(b.index.host_inside[build_host_row(&b, "cudaHostAlloc", 0)], TRACE_HOST_DATA);
    assert_int_equal(b.index.host_class[build_host_row(&b, "cudaHostAlloc", 0)], TRACE_HOST_ALLOCATOR);
    assert_int_equal(b.index.host_inside[build_host_row(&b, "aten::cat", 0)], TRACE_HOST_OP);
    build_done(&b);
}

static void check_step(const Build *b, size_t i, const char *name, int64_t number, int64_t start, int64_t to)
{
    assert_string_equal(b->index.steps.at[i].name, name);
    assert_int_equal(b->index.steps.at[i].number, number);
    assert_int_equal(b->index.steps.at[i].start, start);
    assert_int_equal(b->index.steps.at[i].to, to);
}

/* Written twice, nested, of the same name again, and of another thread. */
static void steps(void **state)
{
    Build b;

    (void)state;
    build_init(&b);
    build_range(&b, 1, 100, 100, "ProfilerStep#4");
    build_range(&b, 1, 100, 100, "ProfilerStep#4");
    build_range(&b, 1, 101, 90, "ProfilerStep#4");
    build_range(&b, 1, 210, 90, "ProfilerStep#5");
    build_range(&b, 1, 300, 100, "ProfilerStep#5");
    build_range(&b, 2, 150, 100, "ProfilerStep#4"); /* another thread's, over the others */
    build_range(&b, 2, 10, 20, "ProfilerStep#3");   /* another thread's, beside them */
    build_launch(&b, 1, 390, 5, 0, 7, 420, 50, "last");
    build_launch(&b, 1, 405, 5, 0, 7, 480, 50, "behind");
    build_seal(&b);
    assert_int_equal(b.index.steps.len, 4);
    check_step(&b, 0, "ProfilerStep#3", 3, 10, 100);
    check_step(&b, 1, "ProfilerStep#4", 4, 100, 210);
    check_step(&b, 2, "ProfilerStep#5", 5, 210, 300);
    check_step(&b, 3, "ProfilerStep#5", 5, 300, 470);
    assert_int_equal(b.index.steps.at[1].end, 200);
    assert_false(b.index.steps.at[0].on_gpu);
    build_done(&b);
}

static void steps_of_the_gpu_alone(void **state)
{
    Build b;

    (void)state;
    build_init(&b);
    build_mark(&b, 0, 7, 100, 50, "ProfilerStep#1");
    build_mark(&b, 0, 20, 90, 40, "ProfilerStep#1");
    build_mark(&b, 0, 7, 200, 50, "ProfilerStep#2");
    build_kernel(&b, 0, 7, 240, 40, "last", 0);
    build_seal(&b);
    assert_int_equal(b.index.steps.len, 2);
    check_step(&b, 0, "ProfilerStep#1", 1, 90, 200);
    assert_int_equal(b.index.steps.at[0].end, 150);
    check_step(&b, 1, "ProfilerStep#2", 2, 200, 280);
    assert_true(b.index.steps.at[0].on_gpu);
    build_done(&b);
}

static void nothing(void **state)
{
    Build b;

    (void)state;
    build_init(&b);
    build_seal(&b);
    assert_int_equal(b.index.steps.len, 0);
    assert_int_equal(b.index.devices.len, 0);
    assert_int_equal(b.index.device_first.len, 1);
    build_done(&b);
}

static void devices(void **state)
{
    Build b;

    (void)state;
    build_init(&b);
    build_kernel(&b, 3, 7, 10, 5, "a", 0);
    build_kernel(&b, 1, 7, 20, 5, "b", 0);
    build_kernel(&b, 3, 8, 5, 5, "c", 0);
    build_seal(&b);
    assert_int_equal(b.index.devices.len, 2);
    assert_int_equal(b.index.devices.at[0], 1);
    assert_int_equal(b.index.devices.at[1], 3);
    assert_int_equal(b.index.device_first.at[1], 1);
    assert_int_equal(b.index.device_first.at[2], 3);
    build_done(&b);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_by_correlation),
        cmocka_unit_test(bytes_by_events),
        cmocka_unit_test(graph_launch),
        cmocka_unit_test(numbers_used_again),
        cmocka_unit_test(a_call_of_the_same_moment),
        cmocka_unit_test(many_of_one_number),
        cmocka_unit_test(pageable_copies_block),
        cmocka_unit_test(nesting),
        cmocka_unit_test(what_lies_in_data_loading),
        cmocka_unit_test(steps),
        cmocka_unit_test(steps_of_the_gpu_alone),
        cmocka_unit_test(nothing),
        cmocka_unit_test(devices),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
