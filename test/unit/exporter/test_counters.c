/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the list of metrics (service/prometheus/counters.c and csv.c). */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/cleanup.h"
#include "service/prometheus/counters.h"

static int read_text(Counters *counters, const char *text, bool strict, Err *err)
{
    counters_init(counters);
    return counters_read(counters, text, strlen(text), "c.csv", strict, err);
}

typedef struct Case {
    const char *what, *text;
    const char *names; /* of the rows, each with a ';' behind */
    unsigned warning;  /* line of the first one, 0: none */
} Case;

static const Case cases[] = {
    {"plain", "DCGM_FI_DEV_GPU_TEMP, gauge, Temperature\n", "DCGM_FI_DEV_GPU_TEMP;", 0},
    {"no final newline", "DCGM_FI_DEV_GPU_TEMP, gauge, Temperature", "DCGM_FI_DEV_GPU_TEMP;", 0},
    {"CRLF", "DCGM_FI_DEV_GPU_TEMP, gauge, a\r\n\r\nDCGM_FI_DEV_SM_CLOCK, gauge, b\r\n",
     "DCGM_FI_DEV_GPU_TEMP;DCGM_FI_DEV_SM_CLOCK;", 0},
    {"CR at the end", "DCGM_FI_DEV_GPU_TEMP, gauge, a\r", "DCGM_FI_DEV_GPU_TEMP;", 0},
    {"BOM",
     "\xef\xbb\xbf"
     "DCGM_FI_DEV_GPU_TEMP, gauge, a\n",
     "DCGM_FI_DEV_GPU_TEMP;", 0},
    {"BOM and comment", "\xef\xbb\xbf# x\nDCGM_FI_DEV_GPU_TEMP, gauge, a\n", "DCGM_FI_DEV_GPU_TEMP;", 0},
    {"comment and empty line", "# a, \"b\n\n#\nDCGM_FI_DEV_GPU_TEMP, gauge, a\n", "DCGM_FI_DEV_GPU_TEMP;", 0},
    {"comment not at column 0", "  # x\nDCGM_FI_DEV_GPU_TEMP, gauge, a\n", "DCGM_FI_DEV_GPU_TEMP;", 1},
    {"comment of three fields", "  # x, y, z\nDCGM_FI_DEV_GPU_TEMP, gauge, a\n", "DCGM_FI_DEV_GPU_TEMP;", 0},
    {"blanks before the comma", "DCGM_FI_DEV_DEC_UTIL , gauge, a\n", "DCGM_FI_DEV_DEC_UTIL;", 0},
    {"quoted help", "DCGM_FI_DEV_GPU_TEMP, gauge,\"a, b\"\n", "DCGM_FI_DEV_GPU_TEMP;", 0},
    {"blank before the quote", "DCGM_FI_DEV_GPU_TEMP, gauge, \"a, b\"\nDCGM_FI_DEV_SM_CLOCK, gauge, b\n",
     "DCGM_FI_DEV_SM_CLOCK;", 1},
    {"quoted name", "\"DCGM_FI_DEV_GPU_TEMP\",\"gauge\",\"a\"\n", "DCGM_FI_DEV_GPU_TEMP;", 0},
    {"text behind a quote", "DCGM_FI_DEV_GPU_TEMP,gauge,\"a\" b\nDCGM_FI_DEV_SM_CLOCK,gauge,b\n",
     "DCGM_FI_DEV_SM_CLOCK;", 1},
    {"open quote costs its row", "DCGM_FI_DEV_GPU_TEMP,gauge,\"a\nDCGM_FI_DEV_SM_CLOCK,gauge,b\n",
     "DCGM_FI_DEV_SM_CLOCK;", 1},
    {"too few fields", "DCGM_FI_DEV_GPU_TEMP, gauge\nDCGM_FI_DEV_SM_CLOCK, gauge, b\n", "DCGM_FI_DEV_SM_CLOCK;", 1},
    {"too many fields", "DCGM_FI_DEV_SM_CLOCK, gauge, b\nDCGM_FI_DEV_GPU_TEMP, gauge, a, b\n", "DCGM_FI_DEV_SM_CLOCK;",
     2},
    {"unknown name", "DCGM_FI_DEV_SM_CLOCK, gauge, b\n\nDCGM_FI_NO, gauge, x\n", "DCGM_FI_DEV_SM_CLOCK;", 3},
    {"unknown type", "DCGM_FI_DEV_SM_CLOCK, gauge, b\nDCGM_FI_DEV_GPU_TEMP, Gauge, x\n", "DCGM_FI_DEV_SM_CLOCK;", 2},
    {"derived rows have any type", "DCGM_EXP_XID_ERRORS_COUNT, what, x\n", "DCGM_EXP_XID_ERRORS_COUNT;", 0},
    {"twice", "DCGM_FI_DEV_SM_CLOCK, gauge, b\nDCGM_FI_DEV_SM_CLOCK, gauge, c\n", "DCGM_FI_DEV_SM_CLOCK;", 2},
    {"two names of one metric", "DCGM_FI_DEV_SM_CLOCK, gauge, b\ndcgm_sm_clock, gauge, c\n",
     "DCGM_FI_DEV_SM_CLOCK;dcgm_sm_clock;", 0},
    {"a text as a gauge", "DCGM_FI_DEV_SM_CLOCK, gauge, b\nDCGM_FI_DRIVER_VERSION, gauge, c\n", "DCGM_FI_DEV_SM_CLOCK;",
     2},
    {"newer name", "DCGM_FI_DEV_SM_CLOCK_HERTZ, gauge, b\n", "DCGM_FI_DEV_SM_CLOCK_HERTZ;", 0},
    {"all types",
     "DCGM_FI_DEV_SM_CLOCK,gauge,b\nDCGM_FI_DEV_MEM_CLOCK,counter,b\nDCGM_FI_DEV_GPU_TEMP,histogram,b\n"
     "DCGM_FI_DEV_FB_USED,summary,b\nDCGM_FI_DRIVER_VERSION,label,b\n",
     "DCGM_FI_DEV_SM_CLOCK;DCGM_FI_DEV_MEM_CLOCK;DCGM_FI_DEV_GPU_TEMP;DCGM_FI_DEV_FB_USED;DCGM_FI_DRIVER_VERSION;", 0},
    {"nothing", "", "", 0},
    {"comments alone", "# a\n\n# b", "", 0},
};

static void rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        Counters counters;
        char names[512] = "";
        Err err = {0};

        print_message("# %s\n", cases[i].what);
        assert_int_equal(read_text(&counters, cases[i].text, false, &err), 0);
        for (size_t k = 0; k < counters.rows.len; k++) {
            strcat(names, counters.rows.at[k].name.text);
            strcat(names, ";");
            assert_true(counters.rows.at[k].line > 0);
        }
        assert_string_equal(names, cases[i].names);
        assert_int_equal(counters.warnings.len, cases[i].warning != 0);
        if (cases[i].warning) {
            assert_int_equal(counters.warnings.at[0].line, cases[i].warning);
            assert_true(strncmp(counters.warnings.at[0].text, "c.csv:", 6) == 0);
        }
        counters_done(&counters);
    }
}

/* What the exporter itself would not start with. */
static void strict_refuses_what_costs_a_row(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        Counters counters;
        Err err = {0};
        int rc = read_text(&counters, cases[i].text, true, &err);

        print_message("# %s\n", cases[i].what);
        assert_int_equal(rc, cases[i].warning ? -22 : 0);
        if (cases[i].warning) {
            assert_int_equal(counters.rows.len, 0);
            assert_true(strncmp(err.text, "c.csv:", 6) == 0);
        }
        counters_done(&counters);
    }
}

static void help_texts(void **state)
{
    static const struct {
        const char *text, *help;
    } helps[] = {
        {"DCGM_FI_DEV_GPU_TEMP, gauge,  a b \n", "a b"},
        {"DCGM_FI_DEV_GPU_TEMP, gauge,\"a, \"\"b\"\"\"\n", "a, \"b\""},
        {"DCGM_FI_DEV_GPU_TEMP, gauge,\"a\r\n# b\nc\"\n", "a\n# b\nc"},
        {"DCGM_FI_DEV_GPU_TEMP, gauge,\n", ""},
        {"DCGM_FI_DEV_GPU_TEMP, gauge,\"\"\n", ""},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(helps); i++) {
        Counters counters;
        Err err = {0};

        assert_int_equal(read_text(&counters, helps[i].text, true, &err), 0);
        assert_int_equal(counters.rows.len, 1);
        assert_string_equal(counters.rows.at[0].help, helps[i].help);
        counters_done(&counters);
    }
}

static void a_file_of_which_nothing_is_understood(void **state)
{
    Counters counters;
    Err err = {0};

    (void)state;
    assert_int_equal(read_text(&counters, "what is this\nand this, too\n", false, &err), -22);
    assert_non_null(strstr(err.text, "c.csv:1:"));
    assert_int_equal(counters.rows.len, 0);
    counters_done(&counters);
}

static void lines_are_counted_over_quoted_ones(void **state)
{
    Counters counters;
    Err err = {0};

    (void)state;
    assert_int_equal(read_text(&counters,
                               "#\nDCGM_FI_DEV_GPU_TEMP,gauge,\"a\n\nb\"\n\nDCGM_FI_DEV_SM_CLOCK,gauge,c\nNO,gauge,d\n",
                               false, &err),
                     0);
    assert_int_equal(counters.rows.at[0].line, 2);
    assert_int_equal(counters.rows.at[1].line, 6);
    assert_int_equal(counters.warnings.at[0].line, 7);
    counters_done(&counters);
}

static void a_row_that_is_too_large(void **state)
{
    static char text[100000];
    Counters counters;
    Err err = {0};

    (void)state;
    memset(text, 'x', sizeof text);
    memcpy(text + sizeof text - 41, "\nDCGM_FI_DEV_GPU_TEMP,gauge,temperature\n", 41);
    assert_int_equal(read_text(&counters, text, false, &err), 0);
    assert_int_equal(counters.rows.len, 1);
    assert_int_equal(counters.warnings.len, 1);
    counters_done(&counters);
}

static void the_default_rows(void **state)
{
    Counters counters;

    (void)state;
    counters_init(&counters);
    counters_default(&counters);
    assert_int_equal(counters.rows.len, 26);
    assert_string_equal(counters.rows.at[0].name.text, "DCGM_FI_DEV_SM_CLOCK");
    for (size_t i = 0; i < counters.rows.len; i++) {
        assert_int_equal(counters.rows.at[i].line, 0);
        assert_true(counters.rows.at[i].help[0] != '\0');
    }
    counters_done(&counters);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows),
        cmocka_unit_test(strict_refuses_what_costs_a_row),
        cmocka_unit_test(help_texts),
        cmocka_unit_test(a_file_of_which_nothing_is_understood),
        cmocka_unit_test(lines_are_counted_over_quoted_ones),
        cmocka_unit_test(a_row_that_is_too_large),
        cmocka_unit_test(the_default_rows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
