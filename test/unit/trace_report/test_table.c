/* SPDX-License-Identifier: Apache-2.0 */
/* Tables, bars and paragraphs on a terminal (service/report/table.c, pen.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "service/report/table.h"
#include "../report_sink.h"

/* What `make` prints with these options. */
static const char *printed(void (*make)(Pen *pen), ReportOptions options)
{
    static Str str;
    Pen pen;

    str_done(&str);
    str_init(&str, 1 << 16);
    pen_init(&pen, &options, report_sink_str(&str), NULL);
    make(&pen);
    assert_int_equal(pen_done(&pen), 0);
    return str.text;
}

static void two_rows(Pen *pen)
{
    static const Column columns[] = {HEAD("time", RIGHT, 0), HEAD("kind", LEFT, 0), HEAD("more", RIGHT, 1),
                                     HEAD("never", LEFT, 0), HEAD("name", NAME, 0)};
    Table table;
    TableCell *cell;

    table_init(&table, pen, columns, 5);
    cell = table_row(&table);
    cell[0].text = "1.00 ms";
    cell[1].text = "a";
    cell[2].text = "1,234,567,890,123";
    cell[4].text = "first_kernel_of_all_with_a_long_name";
    cell = table_row(&table);
    cell[0].text = "20 ns";
    cell[1].text = "bcd";
    cell[1].style = STYLE_BAD;
    cell[2].text = "4";
    cell[4].text = "second";
    table_print(&table);
}

static void columns_line_up(void **state)
{
    (void)state;
    assert_string_equal(printed(two_rows, (ReportOptions){.width = 80}),
                        "     time  kind               more  name\n"
                        "  1.00 ms  a     1,234,567,890,123  first_kernel_of_all_with_a_long_name\n"
                        "    20 ns  bcd                   4  second\n");
}

typedef struct Named {
    const char *name, *op;
} Named;

static void foreign_row(Pen *pen)
{
#define ROW Named
    static const Column columns[] = {COLUMN("operator", LEFT, 0, SHOWN(TEXT, KNOWN_TEXT, op)),
                                     COLUMN("name", NAME, 0, SHOWN(TEXT, TEXT, name))};
#undef ROW
    Table table;

    table_init(&table, pen, columns, 2);
    table_fill(&table, &(Named){.name = "a\033[31mb", .op = "c\033[2Jd\n"});
    table_print(&table);
}

static void texts_of_every_column_are_cleaned(void **state)
{
    (void)state;
    assert_string_equal(printed(foreign_row, (ReportOptions){.width = 60}), "  operator  name\n"
                                                                            "  c?[2Jd    a?[31mb\n");
}

static void columns_go_before_names_are_cut(void **state)
{
    (void)state;
    assert_string_equal(printed(two_rows, (ReportOptions){.width = 60}),
                        "     time  kind  name\n"
                        "  1.00 ms  a     first_kernel_of_all_with_a_long_name\n"
                        "    20 ns  bcd   second\n");
}

static void colour_comes_when_asked_for(void **state)
{
    (void)state;
    assert_string_equal(printed(two_rows, (ReportOptions){.width = 60, .colour = true}),
                        "     \033[2mtime\033[0m  \033[2mkind\033[0m  \033[2mname\033[0m\n"
                        "  1.00 ms  a     first_kernel_of_all_with_a_long_name\n"
                        "    20 ns  \033[1;31mbcd\033[0m   second\n");
}

static void bars(Pen *pen)
{
    const BarPart parts[] = {{50, STYLE_PLAIN, '#', "A", ""},
                             {25, STYLE_PLAIN, '=', "B", ""},
                             {0, STYLE_PLAIN, '!', "!", ""},
                             {25, STYLE_PLAIN, '.', "C", ""}};

    pen_bar(pen, parts, 4, 100, 8);
    out_add(&pen->out, "|");
    pen_bar(pen, parts, 4, 100, 10);
    out_add(&pen->out, "|");
    pen_bar(pen, parts, 4, 0, 10);
    out_add(&pen->out, "|");
    pen_gauge(pen, STYLE_PLAIN, 0.5, 3);
    out_add(&pen->out, "|");
    pen_gauge(pen, STYLE_PLAIN, 7, 3);
    out_add(&pen->out, "|");
}

static void bars_are_as_long_as_they_should_be(void **state)
{
    (void)state;
    assert_string_equal(printed(bars, (ReportOptions){.width = 80}), "####==..|#####===..||##|###|");
    assert_string_equal(printed(bars, (ReportOptions){.width = 80, .utf8 = true}),
                        "AAAABBCC|AAAAABBBCC||\xe2\x96\x88\xe2\x96\x8c|\xe2\x96\x88\xe2\x96\x88\xe2\x96\x88|");
}

static void paragraph(Pen *pen)
{
    out_add(&pen->out, "> ");
    pen_wrap(pen, STYLE_PLAIN, 2,
             "The GPU waited for 24.3 ms of each of the steps, which is 13 % of the whole time of it all");
}

static void lines_do_not_end_within_a_number_and_its_unit(void **state)
{
    (void)state;
    assert_string_equal(printed(paragraph, (ReportOptions){.width = 60}),
                        "> The GPU waited for 24.3 ms of each of the steps, which is\n"
                        "  13 % of the whole time of it all\n");
}

static void long_word(Pen *pen)
{
    pen_wrap(pen, STYLE_PLAIN, 0, "a 0123456789012345678901234567890123456789012345678901234567890123456789 b\nc");
}

static void words_longer_than_a_line_are_broken(void **state)
{
    (void)state;
    assert_string_equal(printed(long_word, (ReportOptions){.width = 60}),
                        "a\n012345678901234567890123456789012345678901234567890123456789\n0123456789 b c\n");
}

static void widths_are_taken_into_their_limits(void **state)
{
    Pen pen;
    Str str;

    (void)state;
    str_init(&str, 16);
    pen_init(&pen, &(ReportOptions){.width = 10}, report_sink_str(&str), NULL);
    assert_int_equal(pen.options.width, REPORT_WIDTH_MIN);
    assert_int_equal(pen.options.top, REPORT_TOP_DEFAULT);
    assert_int_equal(pen_done(&pen), 0);
    pen_init(&pen, &(ReportOptions){.width = 1000, .top = 3}, report_sink_str(&str), NULL);
    assert_int_equal(pen.options.width, REPORT_WIDTH_MAX);
    assert_int_equal(pen.options.top, 3);
    assert_int_equal(pen_done(&pen), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(columns_line_up),
                                       cmocka_unit_test(texts_of_every_column_are_cleaned),
                                       cmocka_unit_test(columns_go_before_names_are_cut),
                                       cmocka_unit_test(colour_comes_when_asked_for),
                                       cmocka_unit_test(bars_are_as_long_as_they_should_be),
                                       cmocka_unit_test(lines_do_not_end_within_a_number_and_its_unit),
                                       cmocka_unit_test(words_longer_than_a_line_are_broken),
                                       cmocka_unit_test(widths_are_taken_into_their_limits)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
