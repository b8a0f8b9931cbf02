/* SPDX-License-Identifier: Apache-2.0 */
/* The text as a whole (service/report/text*.c): what stands in it, and that it keeps to its width. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "sample.h"
#include "service/report/table.h"
#include "service/report/report.h"
#include "../report_sink.h"

static char *text_of(const TraceReport *report, ReportOptions options)
{
    Str str;
    Err err;

    str_init(&str, 1 << 24);
    assert_int_equal(trace_text(report, &options, report_sink_str(&str), &err), 0);
    return str_take(&str);
}

static void assert_has(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("'%s' is not in:\n%s", part, text ? text : "");
}

static void assert_has_not(const char *text, const char *part)
{
    if (strstr(text, part))
        fail_msg("'%s' is in:\n%s", part, text ? text : "");
}

static void what_is_read_first_comes_first(void **state)
{
    TraceReport report;
    char *text;

    (void)state;
    sample_report(&report, &(SampleSize){.ranks = 1, .steps = 8, .slices = 9, .kernels = 24, .threads = 2});
    text = text_of(&report, (ReportOptions){.width = 100});
    assert_has(text, "stoker trace  rank_0.pt.trace.json.gz, 4,093,241 events, 1.00 GiB, 420 ms\n");
    assert_has(text, "GPU 0 NVIDIA H100 80GB HBM3, rank 0, trainer-0, pytorch, nccl\n");
    assert_has(text, "  # compute 59.6 %   = exposed communication 11.9 %   ~ exposed copy 3.0 %   . idle 25.5 %\n");
    assert_has(text, "  1   13.3 %  data-loading              gain up to 12.1 %, rank 1\n");
    assert_has(text, "  idle: data loading      160 ms  11.0 %");
    assert_true(strstr(text, "Verdict") < strstr(text, "Where the time went"));
    assert_true(strstr(text, "Where the time went") < strstr(text, "Kernels"));
    assert_has_not(text, "Across ranks");
    free(text);
    trace_report_done(&report);
}

static void losses_and_stragglers_are_said(void **state)
{
    TraceReport report;
    char *text;

    (void)state;
    sample_report(&report, &sample_small);
    text = text_of(&report, (ReportOptions){.width = 100});
    assert_has(text, "412 events lost of rank_1.pt.trace.json.gz: 1 truncated, 411 duplicate\n");
    assert_has(text, "truncated at byte 1073741820, event 4093241: {\"ph\": \"X\", \"na\n");
    assert_has(text, "Straggler: rank 1, its host or its data come late\n");
    assert_has(text, "Rank 1  rank_1.pt.trace.json.gz"); /* the straggler's tables are shown */
    assert_has_not(text, "\nRank 0");
    free(text);
    text = text_of(&report, (ReportOptions){.width = 100, .verbose = true});
    assert_has(text, "\nRank 0");
    assert_has(text, "Annotations");
    free(text);
    trace_report_done(&report);
}

static void an_empty_profile_says_so(void **state)
{
    TraceReport report;
    char *text;

    (void)state;
    sample_empty(&report);
    text = text_of(&report, (ReportOptions){.width = 100});
    assert_has(text, "No GPU operation in this profile.");
    assert_has(text, "Nothing stands out in this profile.");
    free(text);
    trace_report_done(&report);
}

static void one_step_shows_that_step_alone(void **state)
{
    TraceReport report;
    char *text;

    (void)state;
    sample_report(&report, &sample_small);
    text = text_of(&report, (ReportOptions){.width = 100, .one_step = true, .step = 7, .also = "only step 7"});
    assert_has(text, "only step 7\n");
    assert_has(text, "  ProfilerStep#7");
    assert_has_not(text, "ProfilerStep#6");
    assert_has(text, "Critical path  ProfilerStep#7\n");
    free(text);
    trace_report_done(&report);
}

static void top_counts_rows(void **state)
{
    TraceReport report;
    char *text;

    (void)state;
    sample_report(&report, &sample_small);
    text = text_of(&report, (ReportOptions){.width = 100, .top = 3});
    assert_has(text, "Kernels  3 of 24, ");
    assert_has(text, "Steps  3 of 8, the slowest\n");
    free(text);
    trace_report_done(&report);
}

static void assert_line_of_steps(TraceReport *report, unsigned width, const char *line)
{
    char *text = text_of(report, (ReportOptions){.width = width, .utf8 = true});

    if (line)
        assert_has(text, line);
    else
        assert_has_not(text, "each step, the longest");
    free(text);
}

static void steps_that_differ_are_drawn(void **state)
{
    TraceReport report;
    TraceRank *rank;

    (void)state;
    sample_report(&report, &(SampleSize){.ranks = 1, .steps = 40, .slices = 9, .kernels = 24, .threads = 2});
    rank = &report.ranks.at[0];
    for (size_t i = 0; i < 40; i++)
        rank->steps.at[i].to = rank->steps.at[i].start + (i == 13 ? 80 : 10) * INT64_C(1000000);
    /* two of them in a column: the longer one */
    assert_line_of_steps(&report, 60, "\n  ▁▁▁▁▁▁█▁▁▁▁▁▁▁▁▁▁▁▁▁  each step, the longest 80.0 ms\n");
    rank->steps.len = 8;
    for (size_t i = 0; i < 8; i++)
        rank->steps.at[i].to = rank->steps.at[i].start + (int64_t)(i + 1) * 10000000;
    assert_line_of_steps(&report, 100, "\n  ▁▂▃▄▅▆▇█  each step, the longest 80.0 ms\n");
    rank->steps.len = 2;
    assert_line_of_steps(&report, 100, NULL);
    rank->steps.len = 3;
    for (size_t i = 0; i < 3; i++)
        rank->steps.at[i].to = rank->steps.at[i].start + (i == 1 ? 90 : 100);
    assert_line_of_steps(&report, 100, "\n  ███  each step, the longest 100 ns\n");
    rank->steps.at[1].to = rank->steps.at[1].start + 91;
    assert_line_of_steps(&report, 100, NULL);
    rank->steps.len = 40;
    trace_report_done(&report);
}

/* Every line of every width: not over it, nothing that is not asked for. */
static void check_lines(const char *text, const ReportOptions *options)
{
    while (*text) {
        size_t len = strcspn(text, "\n");
        char line[4096];

        assert_true(len < sizeof(line));
        memcpy(line, text, len);
        line[len] = '\0';
        if (clean_width(line) > options->width)
            fail_msg("%zu columns where %u are: '%s'", clean_width(line), options->width, line);
        for (size_t i = 0; i < len; i++) {
            assert_true((unsigned char)line[i] >= 0x20 && line[i] != 0x7f);
            assert_true(options->utf8 || (unsigned char)line[i] < 0x80);
        }
        text += len + (text[len] == '\n');
    }
}

static void lines_keep_to_the_width(void **state)
{
    static const unsigned widths[] = {60, 61, 72, 80, 100, 133, 180, 240, 300};
    void (*const samples[])(TraceReport *) = {sample_empty, sample_hostile};

    (void)state;
    for (size_t s = 0; s < 4; s++) {
        TraceReport report;

        if (s < 2)
            samples[s](&report);
        else
            sample_report(
                &report,
                &(SampleSize){.ranks = s == 2 ? 2 : 40, .steps = 20, .slices = 9, .kernels = 40, .threads = 2});
        for (size_t i = 0; i < 4 * sizeof(widths) / sizeof(widths[0]); i++) {
            ReportOptions options = {.width = widths[i / 4], .utf8 = i & 1, .verbose = i & 2, .top = 50};
            char *text = text_of(&report, options);

            check_lines(text, &options);
            free(text);
        }
        trace_report_done(&report);
    }
}

static void colours_change_nothing_else(void **state)
{
    TraceReport report;
    char *plain, *coloured;
    size_t to = 0;

    (void)state;
    sample_report(&report, &sample_small);
    plain = text_of(&report, (ReportOptions){.width = 100, .utf8 = true});
    coloured = text_of(&report, (ReportOptions){.width = 100, .utf8 = true, .colour = true});
    assert_has_not(plain, "\033");
    for (size_t i = 0; coloured[i];) {
        if (coloured[i] == '\033')
            i += strcspn(coloured + i, "m") + 1;
        else
            coloured[to++] = coloured[i++];
    }
    coloured[to] = '\0';
    assert_string_equal(coloured, plain);
    free(plain);
    free(coloured);
    trace_report_done(&report);
}

static void differences_are_signed(void **state)
{
    TraceDiff diff;
    Str str;
    Err err;

    (void)state;
    sample_diff(&diff);
    str_init(&str, 1 << 20);
    assert_int_equal(trace_diff_text(&diff, &(ReportOptions){.width = 120}, report_sink_str(&str), &err), 0);
    assert_has(str.text, "  step      171 ms  182 ms    +11.4 ms   +6.7 %\n");
    assert_has(str.text, "-625 us   -8.3 %");
    assert_has(str.text, "     new  ");
    assert_has(str.text, "    gone  ");
    str_done(&str);
    vec_done(&diff.kernels);
    vec_done(&diff.operators);
    vec_done(&diff.modules);
}

/* More is red and less is green, from one per cent on; what did not change has no colour. */
static void differences_have_colours(void **state)
{
    static const struct {
        int64_t before, after;
        const char *code; /* of the differences */
    } cases[] = {{1000, 1011, "\033[31m"}, {1000, 989, "\033[32m"}, {1000, 1005, NULL}, {0, 0, NULL}};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const TraceDiff diff = {.step_before_ns = (double)NAN,
                                .step_after_ns = (double)NAN,
                                .idle_before_ns = cases[i].before * 1000000,
                                .idle_after_ns = cases[i].after * 1000000};
        CLEANUP(str_done) Str str = str_limited(1 << 20);
        Err err;

        assert_int_equal(
            trace_diff_text(&diff, &(ReportOptions){.width = 120, .colour = true}, report_sink_str(&str), &err), 0);
        const char *row = strstr(str.text, "GPU idle");
        assert_non_null(row);
        assert_int_equal(strstr(row, "\033[3") != NULL, cases[i].code != NULL);
        if (cases[i].code)
            assert_non_null(strstr(row, cases[i].code));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_read_first_comes_first),
                                       cmocka_unit_test(losses_and_stragglers_are_said),
                                       cmocka_unit_test(an_empty_profile_says_so),
                                       cmocka_unit_test(one_step_shows_that_step_alone),
                                       cmocka_unit_test(top_counts_rows),
                                       cmocka_unit_test(steps_that_differ_are_drawn),
                                       cmocka_unit_test(lines_keep_to_the_width),
                                       cmocka_unit_test(colours_change_nothing_else),
                                       cmocka_unit_test(differences_are_signed),
                                       cmocka_unit_test(differences_have_colours)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
