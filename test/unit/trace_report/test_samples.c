/* SPDX-License-Identifier: Apache-2.0 */
/* Outputs of the sample reports as a whole: what golden/ has. */
#include "test/unit/golden_json.h"

#include "../report_sink.h"
#include "engine/trace/analyse.h"
#include "sample.h"
#include "service/report/report.h"

enum { OUTPUT_MAX = 1 << 22 };

static void make_one(TraceReport *report)
{
    sample_report(report, &(SampleSize){.ranks = 1, .steps = 8, .slices = 900, .kernels = 24, .threads = 3});
}

static void make_small(TraceReport *report)
{
    sample_report(report, &sample_small);
}

static void test_texts(void **state)
{
    static const struct {
        const char *name;
        void (*make)(TraceReport *report);
        ReportOptions options;
    } cases[] = {
        {"small", make_small, {.width = 100, .utf8 = true, .verbose = true}},
        {"one", make_one, {.width = 72}},
        {"empty", sample_empty, {.width = 80}},
        {"hostile", sample_hostile, {.width = 80, .verbose = true}},
        {"colour", make_one, {.width = 60, .colour = true, .utf8 = true, .top = 3, .also = "only step 5"}},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CLEANUP(str_done) Str output = str_limited(OUTPUT_MAX);
        TraceReport report;
        char path[256];

        cases[i].make(&report);
        assert_int_equal(trace_text(&report, &cases[i].options, report_sink_str(&output), NULL), 0);
        trace_report_done(&report);
        snprintf(path, sizeof path, GOLDEN "/%s.txt", cases[i].name);
        assert_golden(path, &output);
    }
}

static void test_text_of_a_difference(void **state)
{
    CLEANUP(str_done) Str output = str_limited(OUTPUT_MAX);
    TraceDiff diff;

    (void)state;
    sample_diff(&diff);
    assert_int_equal(trace_diff_text(&diff, &(ReportOptions){.width = 100}, report_sink_str(&output), NULL), 0);
    trace_diff_done(&diff);
    assert_golden(GOLDEN "/diff.txt", &output);
}

/* Of hostile the texts as CSV quotes them; JSON's are in test_report_json.py. */
static void test_json_and_csv(void **state)
{
    CLEANUP(str_done) Str output = str_limited(OUTPUT_MAX);
    CLEANUP(str_done) Str json = str_limited(OUTPUT_MAX);
    TraceReport report;

    (void)state;
    make_small(&report);
    assert_int_equal(trace_json(&report, report_sink_str(&json), NULL), 0);
    golden_add_json(&output, &json);
    assert_golden(GOLDEN "/small.json.txt", &output);
    trace_report_done(&report);
    str_cut(&output, 0);
    sample_hostile(&report);
    assert_int_equal(trace_csv(&report, "kernels", report_sink_str(&output), NULL), 0);
    assert_int_equal(trace_csv(&report, "copies", report_sink_str(&output), NULL), 0);
    trace_report_done(&report);
    assert_golden(GOLDEN "/hostile.csv", &output);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_texts), cmocka_unit_test(test_text_of_a_difference),
                                       cmocka_unit_test(test_json_and_csv)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
