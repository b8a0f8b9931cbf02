/* SPDX-License-Identifier: Apache-2.0 */
/* Tables as CSV (service/report/trace_fields.c, field.c); what other programs read of them is in test_report_csv.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "sample.h"
#include "service/report/field.h"
#include "service/report/report.h"
#include "../report_sink.h"

static const char *table(const TraceReport *report, const char *name)
{
    static Str str;
    Err err;

    str_done(&str);
    str_init(&str, 1 << 24);
    assert_int_equal(trace_csv(report, name, report_sink_str(&str), &err), 0);
    return str.text;
}

static void every_table_has_a_header_and_its_rows(void **state)
{
    SampleSize size = sample_small;
    TraceReport report;

    (void)state;
    size.ranks = 3;
    sample_report(&report, &size);
    for (size_t i = 0; trace_csv_tables[i]; i++) {
        const char *text = table(&report, trace_csv_tables[i]), *end = strstr(text, "\r\n");

        assert_non_null(end);
        assert_true(end > text);
        assert_true(end[2]); /* the sample has rows for each */
        assert_string_equal(text + strlen(text) - 2, "\r\n");
    }
    trace_report_done(&report);
}

static void values_stand_under_their_names(void **state)
{
    static const char rows[] = "rank,kind,source,target,count,bytes,total_ns,min_ns,max_ns,sized_bytes,sized_ns,"
                               "bandwidth_gbs,small_count,small_ns,exposed_ns\r\n"
                               "7,set,,device,128,0,2000000,1000,40000,0,0,,0,0,0\r\n";
    TraceReport report;
    TraceRank *rank;

    (void)state;
    sample_empty(&report);
    rank = &report.ranks.at[0];
    rank->rank = 7;
    vec_push(&rank->copies, ((TraceCopy){.kind = "set",
                                         .source = "",
                                         .target = "device",
                                         .count = 128,
                                         .total_ns = 2000000,
                                         .min_ns = 1000,
                                         .max_ns = 40000,
                                         .bandwidth_gbs = 0.0 / 0.0}));
    assert_string_equal(table(&report, "copies"), rows);
    trace_report_done(&report);
}

static void texts_are_quoted_where_they_must_be(void **state)
{
    static const struct {
        const char *text, *cell;
    } rows[] = {{"plain", "plain"},       {"", ""},
                {"a,b", "\"a,b\""},       {"say \"x\"", "\"say \"\"x\"\"\""},
                {"a\nb", "\"a\nb\""},     {" lead", "\" lead\""},
                {"\xff", "\xef\xbf\xbd"}, {"a b", "a b"}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        Str str;

        str_init(&str, 4096);
        csv_add_text(&str, rows[i].text);
        str_cut(&str, str.len - 1); /* the comma behind it */
        assert_string_equal(str.text, rows[i].cell);
        str_done(&str);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_table_has_a_header_and_its_rows),
                                       cmocka_unit_test(values_stand_under_their_names),
                                       cmocka_unit_test(texts_are_quoted_where_they_must_be)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
