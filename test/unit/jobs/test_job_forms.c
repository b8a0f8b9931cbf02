/* SPDX-License-Identifier: Apache-2.0 */
/* Reports as JSON, text, a line and a page, each whole: what golden/ has. The JSON is what the others are made from. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "service/jobs/job_report.h"
#include "test/unit/golden.h"

enum { FORM_MAX = 1 << 20 };

static const JobReport *reports[2];
static JobReports all;
static const uint64_t now = UINT64_C(1767618000) * NS_PER_S; /* 2026-01-05 13:00 */

static int open_reports(void **state)
{
    CLEANUP(str_done) Str json = str_limited(FORM_MAX);
    Err err = {0};
    (void)state;

    assert_int_equal(file_read(GOLDEN "/reports.json", FORM_MAX, &json, NULL), 0);
    assert_int_equal(jobs_read(json.text, json.len, &all, &err), 0);
    assert_int_equal(all.len, 2);
    reports[0] = &all.at[0];
    reports[1] = &all.at[1];
    return 0;
}

static int close_reports(void **state)
{
    (void)state;
    job_reports_done(&all);
    return 0;
}

/* What was read is written as it was, and the sums with it. */
static void as_json(void **state)
{
    CLEANUP(str_done) Str out = str_limited(FORM_MAX);
    (void)state;

    jobs_json(reports, 2, "node-7", now, &out);
    assert_golden(GOLDEN "/reports.json", &out);
}

static void as_text(void **state)
{
    CLEANUP(str_done) Str out = str_limited(FORM_MAX);
    const JobStyle style = {.width = 100, .real_ns = now};
    (void)state;

    jobs_text(reports, 2, &style, &out);
    for (size_t i = 0; i < 2; i++) {
        str_addc(&out, '\n');
        job_text(reports[i], &style, &out);
    }
    assert_golden(GOLDEN "/reports.txt", &out);
}

static void as_a_line(void **state)
{
    CLEANUP(str_done) Str out = str_limited(FORM_MAX);
    (void)state;

    for (size_t i = 0; i < 2; i++) {
        job_line(reports[i], &out);
        str_addc(&out, '\n');
    }
    assert_golden(GOLDEN "/lines.txt", &out);
}

static void as_a_page(void **state)
{
    CLEANUP(str_done) Str out = str_limited(FORM_MAX);
    (void)state;

    job_html(reports[0], now, &out);
    assert_golden(GOLDEN "/report.html", &out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_json),
        cmocka_unit_test(as_text),
        cmocka_unit_test(as_a_line),
        cmocka_unit_test(as_a_page),
    };

    return cmocka_run_group_tests(tests, open_reports, close_reports);
}
