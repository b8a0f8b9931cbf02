/* SPDX-License-Identifier: Apache-2.0 */
/* Writing through a sink, and JSON in a page (service/report/out.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/json.h"
#include "sample.h"
#include "service/report/out.h"
#include "service/report/report.h"
#include "../report_sink.h"

/* A sink that refuses from its n-th piece on. */
typedef struct Failing {
    size_t pieces, allowed, largest;
} Failing;

static int write_failing(void *context, const char *text, size_t len, Err *err)
{
    Failing *failing = context;

    (void)text;
    failing->pieces++;
    failing->largest = len > failing->largest ? len : failing->largest;
    return failing->pieces > failing->allowed ? err_set(err, -ENOSPC, "the disk is full") : 0;
}

typedef int (*Writer)(const TraceReport *report, ReportSink sink, Err *err);

static int write_text(const TraceReport *report, ReportSink sink, Err *err)
{
    return trace_text(report, &(ReportOptions){.width = 80, .verbose = true, .top = 1000}, sink, err);
}

static int write_gaps(const TraceReport *report, ReportSink sink, Err *err)
{
    return trace_csv(report, "gaps", sink, err);
}

static int write_page(const TraceReport *report, ReportSink sink, Err *err)
{
    return trace_html(report, "a page", sink, err);
}

static void the_first_error_ends_the_writing(void **state)
{
    static const SampleSize size = {.ranks = 2, .steps = 300, .slices = 50, .kernels = 400, .threads = 2};
    static const Writer writers[] = {write_text, trace_json, write_gaps, write_page};
    TraceReport report;

    (void)state;
    sample_report(&report, &size);
    for (size_t i = 0; i < sizeof(writers) / sizeof(writers[0]); i++) {
        Failing whole = {.allowed = SIZE_MAX};
        Err err = {0};

        assert_int_equal(writers[i](&report, (ReportSink){write_failing, &whole}, &err), 0);
        assert_true(whole.pieces > 1); /* large outputs come piece by piece */
        assert_true(whole.largest < 256 * 1024);
        for (size_t allowed = 0; allowed < whole.pieces; allowed++) {
            Failing failing = {.allowed = allowed};

            assert_int_equal(writers[i](&report, (ReportSink){write_failing, &failing}, &err), -ENOSPC);
            assert_string_equal(err.text, "the disk is full");
            assert_int_equal(failing.pieces, allowed + 1);
        }
    }
    trace_report_done(&report);
}

static void a_full_text_is_an_error(void **state)
{
    TraceReport report;
    Err err = {0};
    Str str;

    (void)state;
    sample_report(&report, &sample_small);
    str_init(&str, 100);
    assert_int_equal(trace_json(&report, report_sink_str(&str), &err), -EFBIG);
    assert_non_null(strstr(err.text, "larger than 100 bytes"));
    str_done(&str);
    trace_report_done(&report);
}

static void a_script_holds_no_tag(void **state)
{
    Str str;
    Out out;

    (void)state;
    str_init(&str, 4096);
    out_init(&out, report_sink_str(&str), NULL);
    out_set_script(&out, true);
    json_open(&out.room, NULL, '[');
    json_add_text(&out.room, NULL, "<<a</script>\"<");
    json_add_text(&out.room, NULL, "b");
    json_close(&out.room, ']');
    assert_int_equal(out_done(&out), 0);
    assert_string_equal(str.text, "[\"\\u003c\\u003ca\\u003c/script>\\\"\\u003c\",\"b\"]");
    str_done(&str);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_first_error_ends_the_writing),
                                       cmocka_unit_test(a_full_text_is_an_error),
                                       cmocka_unit_test(a_script_holds_no_tag)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
