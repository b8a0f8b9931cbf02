/* SPDX-License-Identifier: Apache-2.0 */
/* Random profiles: devices, gaps, steps and queues against the naive model, and the same in any order of
 * events. */

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "naive.h"
#include "wild.h"

enum { ROUNDS = 60 };

#define SAME(a, b, member) assert_int_equal((a)->member, (b)->member)

static void same_device(const TraceDevice *a, const TraceDevice *b)
{
    SAME(a, b, first);
    SAME(a, b, last);
    SAME(a, b, span_ns);
    SAME(a, b, busy_ns);
    SAME(a, b, idle_ns);
    SAME(a, b, compute_ns);
    SAME(a, b, communication_ns);
    SAME(a, b, copy_ns);
    SAME(a, b, communication_overlapped_ns);
    SAME(a, b, exposed_communication_ns);
    SAME(a, b, exposed_copy_ns);
    SAME(a, b, kernel_sum_ns);
    SAME(a, b, gap_count);
    SAME(a, b, max_gap_ns);
    SAME(a, b, operation_count);
    SAME(a, b, kernel_count);
    SAME(a, b, zero_count);
}

static void devices_are_as_naive(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        WildShape shape = wild_shape(seed);
        TraceRank rank;
        Build b;

        wild_build(&b, &shape);
        build_rank(&b, &rank);
        assert_int_equal(rank.devices.len, b.index.devices.len);
        for (size_t nth = 0; nth < b.index.devices.len; nth++) {
            TraceDevice device;

            naive_device(&b, shape.unit, nth, &device);
            assert_int_equal(rank.devices.at[nth].device, b.index.devices.at[nth]);
            same_device(&rank.devices.at[nth], &device);
        }
        build_rank_done(&rank);
        build_done(&b);
    }
}

static const TraceGap *gap_at(const TraceRank *rank, int32_t device, int64_t start)
{
    static const TraceGap none;

    for (size_t i = 0; i < rank->gaps.len; i++)
        if (rank->gaps.at[i].device == device && rank->gaps.at[i].start == start)
            return &rank->gaps.at[i];
    fail_msg("no gap at %lld", (long long)start);
    return &none;
}

static void gaps_are_as_naive(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        WildShape shape = wild_shape(seed);
        size_t found = 0;
        TraceRank rank;
        Build b;

        wild_build(&b, &shape);
        build_rank(&b, &rank);
        for (size_t nth = 0; nth < b.index.devices.len; nth++) {
            NaiveGaps gaps = {0};

            naive_gaps(&b, shape.unit, nth, &gaps);
            found += gaps.len;
            for (size_t i = 0; i < gaps.len; i++) {
                const TraceGap *gap = gap_at(&rank, b.index.devices.at[nth], gaps.at[i].start);

                SAME(gap, &gaps.at[i], end);
                SAME(gap, &gaps.at[i], synced);
                for (int cause = 0; cause < TRACE_CAUSE_COUNT; cause++)
                    if (gap->slice_ns[cause] != gaps.at[i].slice_ns[cause])
                        fail_msg("seed %d, gap [%lld, %lld), %s: %lld, not %lld", (int)seed, (long long)gap->start,
                                 (long long)gap->end, trace_cause_words[cause], (long long)gap->slice_ns[cause],
                                 (long long)gaps.at[i].slice_ns[cause]);
                SAME(gap, &gaps.at[i], cause);
            }
            vec_done(&gaps);
        }
        assert_int_equal(found, rank.gaps.len);
        build_rank_done(&rank);
        build_done(&b);
    }
}

static void causes_partition_idle(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        WildShape shape = wild_shape(seed);
        int64_t idle = 0, blamed = 0, gaps = 0, count = 0;
        TraceRank rank;
        Build b;

        wild_build(&b, &shape);
        b.config.gap_threshold_ns = 10;
        build_rank(&b, &rank);
        for (size_t i = 0; i < rank.devices.len; i++) {
            const TraceDevice *device = &rank.devices.at[i];

            assert_int_equal(device->busy_ns + device->idle_ns, device->span_ns);
            assert_int_equal(device->compute_ns + device->exposed_communication_ns + device->exposed_copy_ns,
                             device->busy_ns);
            assert_int_equal(device->communication_overlapped_ns + device->exposed_communication_ns,
                             device->communication_ns);
            idle += device->idle_ns;
            count += device->gap_count;
        }
        for (int cause = 0; cause < TRACE_CAUSE_COUNT; cause++) {
            blamed += rank.idle_by_cause[cause].total_ns;
            gaps += rank.idle_by_cause[cause].count;
        }
        assert_int_equal(blamed, idle);
        assert_int_equal(gaps, count);
        for (size_t i = 0; i < rank.gaps.len; i++) {
            const TraceGap *gap = &rank.gaps.at[i];
            int64_t sum = 0;

            for (int cause = 0; cause < TRACE_CAUSE_COUNT; cause++)
                sum += gap->slice_ns[cause];
            assert_int_equal(sum, gap->end - gap->start);
            assert_int_equal(gap->cause == TRACE_CAUSE_SHORT, gap->end - gap->start < 10);
            if (i)
                assert_true(gap->end - gap->start <= gap[-1].end - gap[-1].start);
        }
        build_rank_done(&rank);
        build_done(&b);
    }
}

static void steps_are_as_naive(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        WildShape shape = wild_shape(seed);
        TraceRank rank;
        Build b;

        shape.steps = true;
        wild_build(&b, &shape);
        build_rank(&b, &rank);
        assert_int_equal(rank.steps.len, b.index.steps.len);
        for (size_t step = 0; step < rank.steps.len; step++)
            for (size_t nth = 0; nth < b.index.devices.len; nth++) {
                const TraceStepDevice *device = &rank.steps.at[step].devices.at[nth];
                int64_t idle = 0;
                NaiveStep naive;

                naive_step(&b, shape.unit, step, nth, &naive);
                SAME(device, &naive, window_ns);
                SAME(device, &naive, busy_ns);
                SAME(device, &naive, idle_ns);
                SAME(device, &naive, compute_ns);
                SAME(device, &naive, communication_ns);
                SAME(device, &naive, copy_ns);
                SAME(device, &naive, exposed_communication_ns);
                SAME(device, &naive, exposed_copy_ns);
                SAME(device, &naive, operation_count);
                for (int cause = 0; cause < TRACE_CAUSE_COUNT; cause++) {
                    assert_int_equal(device->idle_by_cause[cause].total_ns, naive.idle_by_cause[cause]);
                    idle += naive.idle_by_cause[cause];
                }
                assert_int_equal(idle, naive.idle_ns);
            }
        build_rank_done(&rank);
        build_done(&b);
    }
}

static void queues_are_as_naive(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= ROUNDS / 4; seed++) {
        WildShape shape = wild_shape(seed);
        TraceRank rank;
        Build b;

        shape.length = shape.length < 500 ? shape.length : 500;
        wild_build(&b, &shape);
        build_rank(&b, &rank);
        for (size_t i = 0; i < rank.queues.len; i++) {
            const TraceQueue *queue = &rank.queues.at[i];
            TraceQueue naive;

            naive_queue(&b, shape.unit, queue->device, queue->stream, &naive);
            SAME(queue, &naive, operation_count);
            SAME(queue, &naive, busy_ns);
            SAME(queue, &naive, max_length);
            SAME(queue, &naive, empty_launches);
            assert_true(fabs(queue->mean_length - naive.mean_length) < 1e-9);
        }
        build_rank_done(&rank);
        build_done(&b);
    }
}

/* ---- a whole result against another ---- */

static void same_gap(const TraceGap *a, const TraceGap *b)
{
    SAME(a, b, device);
    SAME(a, b, start);
    SAME(a, b, end);
    SAME(a, b, cause);
    SAME(a, b, synced);
    SAME(a, b, host_ns);
    SAME(a, b, step);
    assert_memory_equal(a->slice_ns, b->slice_ns, sizeof(a->slice_ns));
    assert_string_equal(a->before, b->before);
    assert_string_equal(a->after, b->after);
    assert_string_equal(a->host, b->host);
    assert_string_equal(a->thread, b->thread);
}

static void same_sums(const TraceCauseSum *a, const TraceCauseSum *b)
{
    for (int cause = 0; cause < TRACE_CAUSE_COUNT; cause++) {
        SAME(&a[cause], &b[cause], count);
        SAME(&a[cause], &b[cause], total_ns);
        SAME(&a[cause], &b[cause], max_ns);
    }
}

static void same_steps(const TraceRank *a, const TraceRank *b)
{
    assert_int_equal(a->steps.len, b->steps.len);
    for (size_t i = 0; i < a->steps.len; i++) {
        const TraceStepRow *x = &a->steps.at[i], *y = &b->steps.at[i];

        assert_string_equal(x->name, y->name);
        SAME(x, y, start);
        SAME(x, y, to);
        SAME(x, y, duration_ns);
        SAME(x, y, devices.len);
        for (size_t k = 0; k < x->devices.len; k++) {
            const TraceStepDevice *d = &x->devices.at[k], *e = &y->devices.at[k];

            SAME(d, e, device);
            SAME(d, e, window_ns);
            SAME(d, e, busy_ns);
            SAME(d, e, idle_ns);
            SAME(d, e, compute_ns);
            SAME(d, e, communication_ns);
            SAME(d, e, copy_ns);
            SAME(d, e, exposed_communication_ns);
            SAME(d, e, exposed_copy_ns);
            SAME(d, e, operation_count);
            same_sums(d->idle_by_cause, e->idle_by_cause);
        }
    }
}

static void same_launch(const TraceLaunch *a, const TraceLaunch *b)
{
    SAME(a, b, linked);
    SAME(a, b, unlinked);
    SAME(a, b, max_ns);
    SAME(a, b, negative);
    SAME(a, b, call_count);
    SAME(a, b, call_ns);
    SAME(a, b, call_max_ns);
    SAME(a, b, graph_launches);
    SAME(a, b, graph_operations);
    SAME(a, b, short_kernels);
    SAME(a, b, short_kernel_ns);
    SAME(a, b, launch_bound_kernels);
    SAME(a, b, median_ns);
    SAME(a, b, p99_ns);
    SAME(a, b, call_median_ns);
    SAME(a, b, call_p99_ns);
}

static void same_queues(const TraceRank *a, const TraceRank *b)
{
    assert_int_equal(a->queues.len, b->queues.len);
    for (size_t i = 0; i < a->queues.len; i++) {
        const TraceQueue *x = &a->queues.at[i], *y = &b->queues.at[i];

        SAME(x, y, device);
        SAME(x, y, stream);
        SAME(x, y, operation_count);
        SAME(x, y, busy_ns);
        SAME(x, y, max_length);
        SAME(x, y, full_ns);
        SAME(x, y, empty_launches);
        assert_true(fabs(x->mean_length - y->mean_length) < 1e-9);
    }
    assert_int_equal(a->queue_points.len, b->queue_points.len);
    for (size_t i = 0; i < a->queue_points.len; i++) {
        SAME(&a->queue_points.at[i], &b->queue_points.at[i], device);
        SAME(&a->queue_points.at[i], &b->queue_points.at[i], start);
        SAME(&a->queue_points.at[i], &b->queue_points.at[i], width_ns);
        assert_true(fabs(a->queue_points.at[i].length - b->queue_points.at[i].length) < 1e-9);
    }
}

static void same_rank(const TraceRank *a, const TraceRank *b)
{
    assert_int_equal(a->devices.len, b->devices.len);
    for (size_t i = 0; i < a->devices.len; i++) {
        SAME(&a->devices.at[i], &b->devices.at[i], device);
        SAME(&a->devices.at[i], &b->devices.at[i], stream_count);
        SAME(&a->devices.at[i], &b->devices.at[i], tensor_core_ns);
        same_device(&a->devices.at[i], &b->devices.at[i]);
    }
    same_sums(a->idle_by_cause, b->idle_by_cause);
    assert_int_equal(a->gaps.len, b->gaps.len);
    for (size_t i = 0; i < a->gaps.len; i++)
        same_gap(&a->gaps.at[i], &b->gaps.at[i]);
    same_steps(a, b);
    same_launch(&a->launch, &b->launch);
    same_queues(a, b);
}

static void order_does_not_matter(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        WildShape shape = wild_shape(seed);
        TraceRank one, other;
        Build a, b;

        wild_build(&a, &shape);
        shape.shuffle = seed * 12345;
        wild_build(&b, &shape);
        a.config.gaps_kept = b.config.gaps_kept = 20;
        build_rank(&a, &one);
        build_rank(&b, &other);
        assert_true(one.gaps.len <= 20);
        same_rank(&one, &other);
        build_rank_done(&one);
        build_rank_done(&other);
        build_done(&a);
        build_done(&b);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_are_as_naive),  cmocka_unit_test(gaps_are_as_naive),
        cmocka_unit_test(causes_partition_idle), cmocka_unit_test(steps_are_as_naive),
        cmocka_unit_test(queues_are_as_naive),   cmocka_unit_test(order_does_not_matter),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
