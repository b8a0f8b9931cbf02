/* SPDX-License-Identifier: Apache-2.0 */
/* hta/: a small table worked out by hand, numbers as pandas describes them, and rows that nobody should have. The
 * definitions are held against a second implementation in test/scenario/trace. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/trace/hta/differ.h"
#include "engine/trace/hta/frame.h"

static void add(HtaRows *rows, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add(HtaRows *rows, const char *fmt, ...)
{
    char text[512];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    hta_rows_add(rows, text, strlen(text));
}

/* Times in microseconds. */
static void add_launch(HtaRows *rows, int link, int at, const char *kernel, int start, int duration, int stream)
{
    add(rows,
        "{\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"ts\":%d,\"dur\":2,\"args\":{\"correlation\":%d}}",
        at, link);
    add(rows, "{\"cat\":\"kernel\",\"name\":\"%s\",\"ts\":%d,\"dur\":%d,\"args\":{\"correlation\":%d,\"stream\":%d}}",
        kernel, start, duration, link, stream);
}

static void test_describe(void **state)
{
    HtaNumbers numbers = {0};
    HtaDescribe told;

    (void)state;
    told = hta_describe(&numbers);
    assert_int_equal(told.count, 0);
    assert_true(isnan(told.mean));
    vec_push(&numbers, 4.0);
    told = hta_describe(&numbers);
    assert_true(told.mean == 4 && isnan(told.std) && told.p25 == 4 && told.max == 4);
    vec_push(&numbers, 1.0);
    vec_push(&numbers, 2.0);
    vec_push(&numbers, 3.0);
    told = hta_describe(&numbers);
    assert_true(told.mean == 2.5 && told.min == 1 && told.p25 == 1.75 && told.p50 == 2.5 && told.p75 == 3.25);
    assert_true(fabs(told.std - 1.2909944487358056) < 1e-15);
    assert_true(hta_round(2.5, 0) == 2 && hta_round(0.125, 2) == 0.12 && hta_round(33.335, 2) == 33.34);
    vec_done(&numbers);
}

/* us:   10   20   30   40   50   60   70   80
 *       |gemm 10-30| |all-reduce 25-45|  |gemm 70-80| */
static void test_by_hand(void **state)
{
    HtaRows rows;
    const HtaRows *all = &rows;
    HtaReport report;
    const HtaRank *rank;

    (void)state;
    hta_rows_init(&rows, 0);
    add(&rows, "{\"ph\":\"M\"}");
    add_launch(&rows, 1, 5, "gemm", 10, 20, 7);
    add_launch(&rows, 2, 8, "ncclKernel_AllReduce", 25, 20, 20);
    add_launch(&rows, 3, 50, "gemm", 70, 10, 7);
    hta_report_init(&report, &all, 1, NULL);
    rank = &report.ranks.at[0];
    assert_false(report.filtered);
    assert_int_equal(rank->temporal.kernel_ns, 70000);
    assert_int_equal(rank->temporal.idle_ns, 25000);
    assert_int_equal(rank->temporal.compute_ns, 30000);
    assert_int_equal(rank->temporal.non_compute_ns, 15000);
    assert_true(rank->temporal.idle_pctg == 35.71);
    assert_true(rank->overlap_pctg == 25);
    assert_int_equal(rank->idle.len, 3); /* stream 7: host_wait and other; stream 20: other */
    assert_string_equal(rank->idle.at[0].category, "host_wait");
    assert_int_equal(rank->idle.at[0].idle_ns, 40000);
    assert_string_equal(rank->idle.at[1].category, "other");
    assert_int_equal(rank->idle.at[1].intervals.count, 0);
    assert_int_equal(report.types.len, 3);
    assert_string_equal(report.types.at[0].type, "COMPUTATION");
    assert_int_equal(report.types.at[0].sum_ns, 25000);
    assert_string_equal(report.types.at[2].type, "COMPUTATION overlapping COMMUNICATION");
    assert_int_equal(report.types.at[2].sum_ns, 5000);
    assert_true(report.types.at[0].percentage == 55.6);
    assert_int_equal(report.kernels.len, 2);
    assert_true(report.kernels.at[0].mean_ns == 15000);
    assert_int_equal(rank->queues.len, 2);
    assert_true(rank->queues.at[0].length.max == 1 && rank->queues.at[0].length.count == 4);
    assert_int_equal(rank->launches.cpu_ns.count, 3);
    assert_true(rank->launches.delay_ns.max == 18000);
    assert_int_equal(report.stragglers.len, 0);
    assert_true(report.straggler_why[0]);
    hta_report_done(&report);
    hta_rows_done(&rows);
}

static void test_full_queue(void **state)
{
    HtaOptions options = hta_options_default;
    HtaRows rows;
    const HtaRows *all = &rows;
    HtaReport report;

    (void)state;
    hta_rows_init(&rows, 0);
    add(&rows, "{\"ph\":\"M\"}");
    for (int i = 0; i < 4; i++)
        add_launch(&rows, i + 1, 10 * i, "gemm", 100 + 10 * i, 5, 7);
    options.queue_length = 3; /* from the third launch at 20 to the second start at 110 */
    hta_report_init(&report, &all, 1, &options);
    assert_int_equal(report.ranks.at[0].queues.at[0].full_ns, 90000);
    assert_true(fabs(report.ranks.at[0].queues.at[0].full_share - 90.0 / 130) < 1e-12);
    hta_report_done(&report);
    hta_rows_done(&rows);
}

static void test_bandwidth(void **state)
{
    HtaRows rows;
    const HtaRows *all = &rows;
    HtaReport report;
    const HtaBandwidthRow *row;

    (void)state;
    hta_rows_init(&rows, 0);
    add(&rows, "{\"cat\":\"gpu_memcpy\",\"name\":\"Memcpy HtoD (a)\",\"ts\":10,\"dur\":10,\"args\":{\"stream\":7,"
               "\"memory bandwidth (GB/s)\":4}}");
    add(&rows, "{\"cat\":\"gpu_memcpy\",\"name\":\"Memcpy HtoD (b)\",\"ts\":15,\"dur\":0,\"args\":{\"stream\":7,"
               "\"memory bandwidth (GB/s)\":2}}");
    hta_report_init(&report, &all, 1, NULL);
    assert_int_equal(report.ranks.at[0].bandwidth.len, 1);
    row = &report.ranks.at[0].bandwidth.at[0];
    assert_string_equal(row->name, "Memcpy HtoD");
    assert_int_equal(row->points.len, 4);
    assert_int_equal(row->points.at[2].start, 16000); /* one without duration lasts a microsecond */
    assert_int_equal(row->gbs.count, 3);
    assert_true(row->gbs.max == 6 && row->gbs.min == 4);
    hta_report_done(&report);
    hta_rows_done(&rows);
}

/* Sums stay within their type, nothing is read beyond its end; sanitizers watch. */
static void test_hostile_rows(void **state)
{
    static const char *const times[] = {"0",
                                        "-9e99",
                                        "9e99",
                                        "-2305843009213693.951",
                                        "2305843009213693.951",
                                        "1",
                                        "-1",
                                        "1152921504606846.976",
                                        "1700000000000000"};
    static const char *const names[] = {
        "ncclKernel_x", "Memcpy HtoD",     "k", "ProfilerStep#1", "ProfilerStep#99999999999999999999",
        "ProfilerStep", "cudaLaunchKernel"};
    HtaRows rows[2];
    const HtaRows *all[] = {&rows[0], &rows[1]};
    HtaDifferences differences = {0};
    TraceReport own = {0};
    HtaReport report;

    (void)state;
    for (int rank = 0; rank < 2; rank++) {
        hta_rows_init(&rows[rank], 0);
        rows[rank].rank = rank;
        for (unsigned i = 0; i < 2000; i++)
            add(&rows[rank],
                "{\"cat\":\"%s\",\"name\":\"%s\",\"ts\":%s,\"dur\":%s,\"args\":{\"correlation\":%u,\"stream\":%d,"
                "\"memory "
                "bandwidth (GB/s)\":%s}}",
                i % 3 ? "kernel" : "cuda_runtime", names[i % 7], times[i % 9], times[i / 9 % 9], i % 11,
                i % 3 ? (int)(i % 4) : -1, i % 5 ? "1e299" : "-1e299");
    }
    for (int last = 0; last < 2; last++) {
        HtaOptions options = hta_options_default;
        options.last_step = last;
        hta_report_init(&report, all, 2, &options);
        assert_int_equal(report.ranks.len, 2);
        hta_differ(&report, &own, &report.arena, &differences);
        assert_int_equal(differences.len, 0);
        hta_report_done(&report);
    }
    for (int rank = 0; rank < 2; rank++)
        hta_rows_done(&rows[rank]);
}

static void test_nothing(void **state)
{
    HtaRows rows;
    const HtaRows *all = &rows;
    HtaReport report;

    (void)state;
    hta_rows_init(&rows, 0);
    hta_report_init(&report, &all, 1, NULL);
    assert_false(report.ranks.at[0].has_gpu);
    assert_true(isnan(report.ranks.at[0].overlap_pctg));
    hta_report_done(&report);
    hta_report_done(&report);
    hta_report_init(&report, NULL, 0, NULL);
    hta_report_done(&report);
    hta_rows_done(&rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_describe),  cmocka_unit_test(test_by_hand),      cmocka_unit_test(test_full_queue),
        cmocka_unit_test(test_bandwidth), cmocka_unit_test(test_hostile_rows), cmocka_unit_test(test_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
