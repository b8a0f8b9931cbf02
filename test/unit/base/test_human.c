/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as people read them (base/human.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/human.h"

static void durations_have_three_digits(void **state)
{
    static const struct {
        double ns;
        const char *text;
    } rows[] = {{0, "0 ns"},         {845, "845 ns"},      {999, "999 ns"},      {1000, "1.00 us"},
                {1234, "1.23 us"},   {12345, "12.3 us"},   {123456, "123 us"},   {999400, "999 us"},
                {999500, "1.00 ms"}, {9.996e6, "10.0 ms"}, {9.994e6, "9.99 ms"}, {99.96e6, "100 ms"},
                {1.5e9, "1.50 s"},   {3600e9, "3600 s"},   {-4100, "-4.10 us"},  {NAN, "-"},
                {INFINITY, "-"}};
    char text[HUMAN_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_string_equal(human_ns(text, rows[i].ns), rows[i].text);
}

static void ages_have_one_unit(void **state)
{
    static const uint64_t s = 1000000000;
    char text[HUMAN_MAX];

    (void)state;
    assert_string_equal(human_age(text, 0), "0 s");
    assert_string_equal(human_age(text, 120 * s - 1), "119 s");
    assert_string_equal(human_age(text, 120 * s), "2 min");
    assert_string_equal(human_age(text, 7199 * s), "119 min");
    assert_string_equal(human_age(text, 7200 * s), "2 h");
    assert_string_equal(human_age(text, 172799 * s), "47 h");
    assert_string_equal(human_age(text, 172800 * s), "2 d");
}

static void other_units(void **state)
{
    char text[HUMAN_MAX];

    (void)state;
    assert_string_equal(human_bytes(text, 512), "512 B");
    assert_string_equal(human_bytes(text, 1023), "1023 B");
    assert_string_equal(human_bytes(text, 1024), "1.00 KiB");
    assert_string_equal(human_bytes(text, 1.5 * 1073741824), "1.50 GiB");
    assert_string_equal(human_bytes(text, -3 * 1048576.0), "-3.00 MiB");
    assert_string_equal(human_count(text, 0), "0");
    assert_string_equal(human_count(text, 999), "999");
    assert_string_equal(human_count(text, 4093241), "4,093,241");
    assert_string_equal(human_count(text, INT64_MAX), "9,223,372,036,854,775,807");
    assert_string_equal(human_count(text, -1), "-");
    assert_string_equal(human_percent(text, 12.34), "12.3 %");
    assert_string_equal(human_percent(text, NAN), "-");
    assert_string_equal(human_share(text, 1, 4), "25.0 %");
    assert_string_equal(human_share(text, 1, 0), "-");
    assert_string_equal(human_plural(1), "");
    assert_string_equal(human_plural(0), "s");
    assert_string_equal(human_rate(text, 52.14), "52.1 GB/s");
    assert_string_equal(human_rate(text, NAN), "-");
}

/* Whatever the number, the text ends within its room. */
static void hostile_numbers_fit(void **state)
{
    static const double values[] = {1.7e308, -1.7e308, 9.3e18, -9.3e18, 4.9e-324};
    char text[HUMAN_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        assert_true(strlen(human_ns(text, values[i])) < HUMAN_MAX);
        assert_true(strlen(human_bytes(text, values[i])) < HUMAN_MAX);
        assert_true(strlen(human_percent(text, values[i])) < HUMAN_MAX);
        assert_true(strlen(human_rate(text, values[i])) < HUMAN_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(durations_have_three_digits),
                                       cmocka_unit_test(ages_have_one_unit), cmocka_unit_test(other_units),
                                       cmocka_unit_test(hostile_numbers_fit)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
