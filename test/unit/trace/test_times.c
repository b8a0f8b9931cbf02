/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, steps, launches and queues on traces that can be checked by hand (engine/trace/devices.c, launches.c,
 * queues.c, select.c). */

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "build.h"
#include "engine/trace/select.h"
#include "random.h"

/*
 * compute        0----100            150--200
 * communication       80-----160
 * copy                               (170--180)      220-230
 *                                                210: one without duration
 */
static void overlapping_streams(void **state)
{
    TraceRank rank;
    const TraceDevice *d;
    Build b;

    (void)state;
    build_init(&b);
    build_kernel(&b, 0, 7, 0, 100, "gemm", 0);
    build_kernel(&b, 0, 20, 80, 80, "ncclDevKernel_AllReduce", 0);
    build_kernel(&b, 0, 7, 150, 50, "ampere_s16816gemm", 0);
    build_copy(&b, 0, 21, 170, 10, 64, "Memcpy HtoD (Pinned -> Device)", 0);
    build_kernel(&b, 0, 7, 210, 0, "empty", 0);
    build_copy(&b, 0, 21, 220, 10, 64, "Memcpy HtoD (Pinned -> Device)", 0);
    build_seal(&b);
    build_rank(&b, &rank);
    assert_int_equal(rank.devices.len, 1);
    d = &rank.devices.at[0];
    assert_int_equal(d->first, 0);
    assert_int_equal(d->last, 230);
    assert_int_equal(d->span_ns, 230);
    assert_int_equal(d->busy_ns, 210);
    assert_int_equal(d->idle_ns, 20); /* 200-210, 210-220 */
    assert_int_equal(d->gap_count, 2);
    assert_int_equal(d->max_gap_ns, 10);
    assert_int_equal(d->compute_ns, 150);
    assert_int_equal(d->communication_ns, 80);
    assert_int_equal(d->copy_ns, 20);
    assert_int_equal(d->communication_overlapped_ns, 30); /* 80-100, 150-160 */
    assert_int_equal(d->exposed_communication_ns, 50);    /* 100-150 */
    assert_int_equal(d->exposed_copy_ns, 10);             /* 220-230 */
    assert_int_equal(d->tensor_core_ns, 50);
    assert_int_equal(d->kernel_sum_ns, 230);
    assert_int_equal(d->operation_count, 6);
    assert_int_equal(d->kernel_count, 4);
    assert_int_equal(d->zero_count, 1);
    assert_int_equal(d->stream_count, 3);
    assert_true(isnan(d->sm_efficiency) && isnan(d->occupancy));
    build_rank_done(&rank);
    build_done(&b);
}

static void several_devices(void **state)
{
    TraceRank rank;
    Build b;

    (void)state;
    build_init(&b);
    build_shaped(&b, 1, 7, 0, 100, "a", 0.5F, 25);
    build_shaped(&b, 1, 7, 100, 300, "b", 4, 75);
    build_kernel(&b, 0, 7, 50, 10, "c", 0);
    build_seal(&b);
    build_rank(&b, &rank);
    assert_int_equal(rank.devices.len, 2);
    assert_int_equal(rank.devices.at[0].device, 0);
    assert_int_equal(rank.devices.at[0].span_ns, 10);
    assert_int_equal(rank.devices.at[1].busy_ns, 400);
    assert_true(fabs(rank.devices.at[1].sm_efficiency - (0.5 * 100 + 1 * 300) / 400) < 1e-12);
    assert_true(fabs(rank.devices.at[1].occupancy - (0.25 * 100 + 0.75 * 300) / 400) < 1e-12);
    build_rank_done(&rank);
    build_done(&b);
}

/* Two steps; a kernel crosses the border, and the second step's window reaches to its last kernel's end. */
static void steps(void **state)
{
    const TraceStepDevice *d;
    TraceRank rank;
    Build b;

    (void)state;
    build_init(&b);
    build_range(&b, 1, 0, 90, "ProfilerStep#1");
    build_range(&b, 1, 100, 100, "ProfilerStep#2");
    build_launch(&b, 1, 10, 5, 0, 7, 20, 30, "a");
    build_launch(&b, 1, 60, 5, 0, 7, 80, 40, "b");
    build_launch(&b, 1, 190, 5, 0, 7, 210, 50, "c");
    build_seal(&b);
    build_rank(&b, &rank);
    assert_int_equal(rank.steps.len, 2);
    assert_string_equal(rank.steps.at[0].name, "ProfilerStep#1");
    assert_int_equal(rank.steps.at[0].duration_ns, 90);
    d = &rank.steps.at[0].devices.at[0];
    assert_int_equal(d->window_ns, 100);
    assert_int_equal(d->busy_ns, 50); /* 20-50, 80-100 */
    assert_int_equal(d->idle_ns, 50);
    assert_int_equal(d->operation_count, 2);
    assert_int_equal(rank.steps.at[1].to, 260);
    d = &rank.steps.at[1].devices.at[0];
    assert_int_equal(d->window_ns, 160);
    assert_int_equal(d->busy_ns, 70); /* 100-120, 210-260 */
    assert_int_equal(d->operation_count, 1);
    build_rank_done(&rank);
    build_done(&b);
}

static void launches(void **state)
{
    const TraceLaunch *l;
    TraceRank rank;
    Build b;

    (void)state;
    build_init(&b);
    b.config.short_kernel_ns = 20;
    build_launch(&b, 1, 0, 10, 0, 7, 15, 100, "a");   /* waits 5 */
    build_launch(&b, 1, 20, 10, 0, 7, 115, 5, "b");   /* waits 85, short, shorter than its call */
    build_launch(&b, 1, 130, 10, 0, 7, 125, 50, "c"); /* before its call */
    build_launch(&b, 1, 180, 10, 0, 7, 185, 50, "d"); /* during its call */
    build_call(&b, 1, 300, 30, "cudaGraphLaunch", 77);
    build_call(&b, 1, 305, 20, "cuGraphLaunch", 0); /* the driver's part of it */
    build_kernel(&b, 0, 7, 340, 10, "e", 77);       /* waits 10, short */
    build_kernel(&b, 0, 7, 350, 10, "f", 77);       /* waits 20, short */
    build_kernel(&b, 0, 7, 400, 10, "lost", 0);     /* short */
    build_seal(&b);
    build_rank(&b, &rank);
    l = &rank.launch;
    assert_int_equal(l->linked, 6);
    assert_int_equal(l->unlinked, 1);
    assert_int_equal(l->negative, 1);
    assert_int_equal(l->median_ns, 7); /* 0 0 5 10 20 85 */
    assert_int_equal(l->p99_ns, 85);
    assert_int_equal(l->max_ns, 85);
    assert_int_equal(l->call_count, 5);
    assert_int_equal(l->call_ns, 70);
    assert_int_equal(l->call_median_ns, 10);
    assert_int_equal(l->call_max_ns, 30);
    assert_int_equal(l->graph_launches, 1);
    assert_int_equal(l->graph_operations, 2);
    assert_int_equal(l->short_kernels, 4);
    assert_int_equal(l->short_kernel_ns, 35);
    assert_int_equal(l->launch_bound_kernels, 1);
    build_rank_done(&rank);
    build_done(&b);
}

static void queue(void **state)
{
    const TraceQueue *q;
    TraceRank rank;
    Build b;

    (void)state;
    build_init(&b);
    build_launch(&b, 1, 0, 5, 0, 7, 10, 50, "a");    /* 0-10 */
    build_launch(&b, 1, 6, 5, 0, 7, 60, 20, "b");    /* 6-60: nothing waits at 60 .. */
    build_launch(&b, 1, 100, 5, 0, 7, 120, 10, "c"); /* .. and at 100 the stream is idle */
    build_launch(&b, 1, 125, 5, 0, 7, 140, 10, "d"); /* c still runs */
    build_seal(&b);
    build_rank(&b, &rank);
    assert_int_equal(rank.queues.len, 1);
    q = &rank.queues.at[0];
    assert_int_equal(q->stream, 7);
    assert_int_equal(q->operation_count, 4);
    assert_int_equal(q->busy_ns, 90);
    assert_int_equal(q->max_length, 2);
    assert_true(fabs(q->mean_length - (10 + 54 + 20 + 15) / 140.0) < 1e-12);
    assert_int_equal(q->empty_launches, 2);
    assert_int_equal(q->full_ns, 0);
    build_rank_done(&rank);
    build_done(&b);
}

static void full_queue(void **state)
{
    double area = 0;
    TraceRank rank;
    Build b;

    (void)state;
    build_init(&b);
    for (int i = 0; i < 2000; i++)
        build_launch(&b, 1, 10 * i, 5, 0, 7, 100000 + 20 * i, 20, "k");
    build_seal(&b);
    build_rank(&b, &rank);
    assert_int_equal(rank.queues.at[0].max_length, 2000);
    /* from the 1024th launch at 10230 to the start that leaves 1023: the 977th, at 100000 + 20 x 976 */
    assert_int_equal(rank.queues.at[0].full_ns, 100000 + 20 * 976 - 10230);
    assert_true(rank.queue_points.len > 128 && rank.queue_points.len <= 512);
    for (size_t i = 0; i < rank.queue_points.len; i++)
        area += rank.queue_points.at[i].length * (double)rank.queue_points.at[i].width_ns;
    assert_true(fabs(area - 2000 * 100000.0 - 10.0 * 1999 * 1000) < 1);
    build_rank_done(&rank);
    build_done(&b);
}

static void nothing_on_the_gpu(void **state)
{
    TraceRank rank;
    Build b;

    (void)state;
    build_init(&b);
    build_range(&b, 1, 0, 100, "ProfilerStep#1");
    build_op(&b, 1, 10, 20, "aten::mm");
    build_seal(&b);
    build_rank(&b, &rank);
    assert_int_equal(rank.devices.len, 0);
    assert_int_equal(rank.steps.len, 1);
    assert_int_equal(rank.steps.at[0].devices.len, 0);
    assert_int_equal(rank.launch.median_ns, -1);
    build_rank_done(&rank);
    build_done(&b);
}

/* Times at the ends of what a reader gives. */
static void far_times(void **state)
{
    const int64_t far = INT64_C(1) << 61;
    TraceRank rank;
    Build b;

    (void)state;
    build_init(&b);
    build_launch(&b, 1, -far + 1, far - 1, 0, 7, -far + 1, 1, "a");
    build_launch(&b, 1, far - 10, far - 1, 0, 7, far - 1, far - 1, "b");
    build_seal(&b);
    build_rank(&b, &rank);
    assert_int_equal(rank.devices.at[0].busy_ns, far);
    assert_int_equal(rank.devices.at[0].idle_ns, 2 * far - 3);
    assert_true(rank.queue_points.len <= 512);
    build_rank_done(&rank);
    build_done(&b);
}

static int by_value(const void *a_, const void *b_)
{
    int64_t a = *(const int64_t *)a_, b = *(const int64_t *)b_;

    return (a > b) - (a < b);
}

static void selection(void **state)
{
    Random r = {99};

    (void)state;
    for (int round = 0; round < 200; round++) {
        int64_t values[64], sorted[64];
        size_t len = 1 + random_below(&r, 64), nth = random_below(&r, len), keep = random_below(&r, len + 2), kept = 0;

        for (size_t i = 0; i < len; i++)
            sorted[i] = values[i] = (int64_t)random_below(&r, 1 + (UINT64_C(1) << random_below(&r, 48)));
        qsort(sorted, len, sizeof(*sorted), by_value);
        assert_int_equal(trace_select(values, len, nth), sorted[nth]);
        assert_int_equal(trace_median(values, len), (sorted[(len - 1) / 2] + sorted[len / 2]) / 2);
        assert_int_equal(trace_percentile(values, len, 99), sorted[(len * 99 + 99) / 100 - 1]);
        TraceLongest longest = trace_find_longest(values, len, keep);
        for (size_t i = 0; i < len; i++) {
            bool is = trace_is_longest(&longest, values[i]);

            kept += is;
            assert_true(!is || values[i] >= sorted[keep < len ? len - keep : 0]);
        }
        assert_int_equal(kept, keep < len ? keep : len);
    }
    assert_int_equal(trace_median(NULL, 0), -1);
    assert_int_equal(trace_median((int64_t[]){INT64_MAX, -INT64_MAX}, 2), 0);
    assert_true(trace_median_of_doubles((double[]){3, 1, 2}, 3) == 2);
    assert_true(trace_median_of_doubles((double[]){4, 1, 3, 2}, 4) == 2.5);
    assert_true(trace_median_of_doubles(NULL, 0) == 0);
    assert_int_equal(trace_percentile(NULL, 0, 99), -1);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(overlapping_streams),
        cmocka_unit_test(several_devices),
        cmocka_unit_test(steps),
        cmocka_unit_test(launches),
        cmocka_unit_test(queue),
        cmocka_unit_test(full_queue),
        cmocka_unit_test(nothing_on_the_gpu),
        cmocka_unit_test(far_times),
        cmocka_unit_test(selection),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
