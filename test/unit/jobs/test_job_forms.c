/* SPDX-License-Identifier: Apache-2.0 */
/* Reports as JSON, text, a line, a page and a comment of jobstats, each whole: what golden/ has. The JSON is what the
 * others are made from. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <gnutls/gnutls.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/gzip.h"
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

/* What is kept of a job's readings alone; "null" where one is not known. */
#define GPU(index, instance, util, sm, peak, device_peak, total)                                                       \
    "{\"gpu\":" index ",\"instance\":" instance ",\"uuid\":\"u-" index                                                 \
    "\",\"held_s\":100,\"memory_total_bytes\":" total ",\"memory_peak_bytes\":" peak                                   \
    ",\"known_s\":{\"utilization\":100,\"sm_active\":100},\"device\":{\"utilization\":" util ",\"sm_active\":" sm      \
    ",\"memory_peak_bytes\":" device_peak "}}"
#define HOST(cpu, cpus, peak, limit)                                                                                   \
    "{\"cpu_s\":" cpu ",\"cpus\":" cpus ",\"memory_peak_bytes\":" peak ",\"memory_limit_bytes\":" limit "}"
#define REPORT(node, elapsed, nodes, host, gpus)                                                                       \
    "{\"version\":1,\"id\":\"" node "\",\"kind\":\"job\",\"job\":\"7\",\"node\":\"" node "\",\"elapsed_s\":" elapsed   \
    ",\"nodes\":" nodes ",\"host\":" host ",\"gpus\":[" gpus "]}"

/* The JSON within the comment, and what it lacks. */
static void add_comment(const char *json, Str *to)
{
    CLEANUP(str_done) Str comment = str_limited(FORM_MAX);
    const JobReport *list[4];
    JobReports read = {0};
    gnutls_datum_t packed;
    Err err = {0};

    assert_int_equal(jobs_read(json, strlen(json), &read, &err), 0);
    for (size_t i = 0; i < read.len; i++)
        list[i] = &read.at[i];
    assert_int_equal(job_comment(list, read.len, &comment, &err), 0);
    assert_int_equal(strncmp(comment.text, "JS1:", 4), 0);
    const gnutls_datum_t text = {(unsigned char *)comment.text + 4, (unsigned)comment.len - 4};
    assert_int_equal(gnutls_base64_decode2(&text, &packed), 0);
    assert_int_equal(gzip_unpack((const char *)packed.data, packed.size, to, &err), 0);
    gnutls_free(packed.data);
    str_addc(to, '\n');
    job_comment_gaps(list, read.len, to);
    job_reports_done(&read);
}

static void as_a_comment_of_jobstats(void **state)
{
    CLEANUP(str_done) Str out = str_limited(FORM_MAX);
    (void)state;

    add_comment(
        "{\"jobs\":[" REPORT("n1", "600.4", "3", HOST("7200.26", "16", "12", "64"),
                             GPU("0", "null", "0.9634", "0.5", "20", "30", "80") "," GPU(
                                 "3", "{\"gpu_instance\":7,\"compute_instance\":0}", "null", "0.25", "20", "null",
                                 "40")) "," REPORT("n2", "604.6", "3", HOST("1", "2", "3", "4"),
                                                   GPU("1", "null", "null", "null", "null", "null", "80") "," GPU(
                                                       "2", "null", "0", "null", "5", "null", "null")) "]}",
        &out);
    add_comment("{\"jobs\":[" REPORT("n1", "1", "2", HOST("1", "2", "3", "4"),
                                     "") "," REPORT("n2", "0", "2", HOST("1", "2", "3", "4"), "") "]}",
                &out);
    add_comment("{\"jobs\":[" REPORT("n1", "1", "1", HOST("null", "2", "3", "4"), "") "," REPORT(
                    "n2", "1", "1", HOST("1", "null", "3", "4"),
                    "") "," REPORT("n3", "1", "1", HOST("1", "2", "null", "4"),
                                   "") "," REPORT("n4", "1", "1", HOST("1", "2", "3", "null"), "") "]}",
                &out);
    job_comment_gaps(NULL, 0, &out); /* of no report nothing is lacking */
    assert_golden(GOLDEN "/comments.txt", &out);
}

/* What is left out of texts: the nodes of a job on one, money that is not known or of nothing. */
static void what_is_not_worth_a_word_is_left_out(void **state)
{
    static const struct {
        const char *members;
        bool nodes, cost;
    } cases[] = {
        {"\"nodes\":1,\"cost\":2,\"currency\":\"EUR\",\"priced_s\":1", false, true},
        {"\"nodes\":2,\"cost\":0,\"currency\":\"EUR\",\"priced_s\":0", true, false},
        {"\"nodes\":null,\"cost\":2,\"currency\":\"?\",\"priced_s\":1", false, false},
        {"\"cost\":2,\"currency\":null,\"priced_s\":1", false, false},
    };
    (void)state;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CLEANUP(str_done) Str text = str_limited(FORM_MAX), line = str_limited(FORM_MAX);
        JobReports read = {0};
        char json[1024];
        Err err = {0};

        snprintf(json, sizeof json, "{\"version\":1,\"id\":\"r\",\"kind\":\"job\",\"job\":\"7\",\"elapsed_s\":60,%s}",
                 cases[i].members);
        if (jobs_read(json, strlen(json), &read, &err) < 0)
            fail_msg("%s", err.text);
        job_text(&read.at[0], &(JobStyle){.width = 100, .real_ns = now}, &text);
        job_line(&read.at[0], &line);
        assert_int_equal(strstr(text.text, "\n  nodes     ") != NULL, cases[i].nodes);
        assert_int_equal(strstr(line.text, " cost=2.00EUR") != NULL, cases[i].cost);
        assert_int_equal(strstr(line.text, " cost=") != NULL, cases[i].cost);
        job_reports_done(&read);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_json),
        cmocka_unit_test(as_text),
        cmocka_unit_test(as_a_line),
        cmocka_unit_test(as_a_page),
        cmocka_unit_test(as_a_comment_of_jobstats),
        cmocka_unit_test(what_is_not_worth_a_word_is_left_out),
    };

    return cmocka_run_group_tests(tests, open_reports, close_reports);
}
