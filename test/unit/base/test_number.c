/* SPDX-License-Identifier: Apache-2.0 */
/* Covers src/base/number.c and src/base/pow10.py. */
#include "base/number.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"

enum { DOUBLES = 1000 * 1000 };

static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static void test_u64(void **state)
{
    static const struct {
        const char *text;
        int rc;
        uint64_t value;
    } rows[] = {
        {"0", 0, 0},         {"42", 0, 42},
        {"007", 0, 7},       {"18446744073709551615", 0, UINT64_MAX},
        {"", -EINVAL, 0},    {"18446744073709551616", -ERANGE, 0},
        {" 1", -EINVAL, 0},  {"99999999999999999999999", -ERANGE, 0},
        {"1 ", -EINVAL, 0},  {"1x", -EINVAL, 0},
        {"-1", -EINVAL, 0},  {"+1", -EINVAL, 0},
        {"1.0", -EINVAL, 0}, {"0x10", -EINVAL, 0},
        {"1\n", -EINVAL, 0},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        uint64_t value = 77;
        Err err = {0};

        assert_int_equal(number_parse_u64(rows[i].text, 0, UINT64_MAX, &value, &err), rows[i].rc);
        assert_int_equal(value, rows[i].rc ? 77 : rows[i].value);
        assert_int_equal(err.code, rows[i].rc);
    }
}

static void test_ranges(void **state)
{
    uint64_t u = 77;
    int64_t i = 77;
    double d = 77;
    Err err = {0};

    (void)state;
    assert_int_equal(number_parse_u64("9", 10, 20, &u, &err), -ERANGE);
    assert_string_equal(err.text, "9 is not in 10..20");
    assert_int_equal(number_parse_u64("21", 10, 20, &u, NULL), -ERANGE);
    assert_int_equal(number_parse_u64("10", 10, 20, &u, NULL), 0);
    assert_int_equal(number_parse_i64("-6", -5, 5, &i, NULL), -ERANGE);
    assert_int_equal(number_parse_i64("-5", -5, 5, &i, NULL), 0);
    assert_int_equal(i, -5);
    assert_int_equal(number_parse_double("1.01", 0, 1, &d, NULL), -ERANGE);
    assert_int_equal(number_parse_double("Inf", 0, 1, &d, NULL), -ERANGE);
    assert_true(d == 77);
    assert_int_equal(number_parse_double("+Inf", 0, INFINITY, &d, NULL), 0);
    assert_true(isinf(d));
    assert_int_equal(number_parse_double("1e309", -INFINITY, INFINITY, &d, NULL), -ERANGE);
}

static void test_i64(void **state)
{
    static const struct {
        const char *text;
        int rc;
        int64_t value;
    } rows[] = {
        {"-9223372036854775808", 0, INT64_MIN},
        {"9223372036854775807", 0, INT64_MAX},
        {"-0", 0, 0},
        {"-9223372036854775809", -ERANGE, 0},
        {"9223372036854775808", -ERANGE, 0},
        {"-99999999999999999999", -ERANGE, 0},
        {"-", -EINVAL, 0},
        {"--1", -EINVAL, 0},
        {"", -EINVAL, 0},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int64_t value = 77;

        assert_int_equal(number_parse_i64(rows[i].text, INT64_MIN, INT64_MAX, &value, NULL), rows[i].rc);
        assert_true(value == (rows[i].rc ? 77 : rows[i].value));
    }
}

static void test_hex(void **state)
{
    static const struct {
        const char *text;
        int rc;
        uint64_t value;
    } rows[] = {
        {"0", 0, 0},
        {"fF", 0, 255},
        {"0x1a", 0, 26},
        {"0XdeadBEEF", 0, 0xdeadbeef},
        {"", -EINVAL, 0},
        {"0x", -EINVAL, 0},
        {"g", -EINVAL, 0},
        {"-1", -EINVAL, 0},
        {"ffffffffffffffff", 0, UINT64_MAX},
        {"10000000000000000", -ERANGE, 0},
        {"1 ", -EINVAL, 0},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        uint64_t value = 77;

        assert_int_equal(number_parsen_hex(rows[i].text, strlen(rows[i].text), UINT64_MAX, &value, NULL), rows[i].rc);
        assert_int_equal(value, rows[i].rc ? 77 : rows[i].value);
    }
}

static void test_write_whole(void **state)
{
    uint64_t seed = 99;

    (void)state;
    for (int i = 0; i < 20000; i++) {
        uint64_t value = i ? next_random(&seed) >> i % 64 : 0;
        char text[NUMBER_U64_MAX + 1], expected[32];

        text[number_write_u64(text, value)] = '\0';
        snprintf(expected, sizeof(expected), "%llu", (unsigned long long)value);
        assert_string_equal(text, expected);
        text[number_write_i64(text, (int64_t)value)] = '\0';
        snprintf(expected, sizeof(expected), "%lld", (long long)value);
        assert_string_equal(text, expected);
    }
    char text[NUMBER_I64_MAX];
    assert_int_equal(number_write_i64(text, INT64_MIN), 20);
    assert_memory_equal(text, "-9223372036854775808", 20);
}

static void test_double_syntax(void **state)
{
    static const char *const good[] = {"0",
                                       "-0",
                                       "1",
                                       "1.",
                                       ".5",
                                       "-.5e1",
                                       "1e5",
                                       "1E-5",
                                       "1e+5",
                                       "0.1",
                                       "1e22",
                                       "1e23",
                                       "4.9e-324",
                                       "2.2250738585072011e-308",
                                       "1.7976931348623157e308",
                                       "9007199254740993",
                                       "123456789012345678901234567890",
                                       "0.000000000000000000000000000000000000000000000000000000000001",
                                       "6929495644600919.5",
                                       "1e-400",
                                       "00000000000000000000000000000000000000012.5"};
    static const char *const bad[] = {"",   " 1",  "1 ",  "+1",    "1x", "0x1p3", "nan", "NaN", "inf",
                                      "1e", "1e+", "--1", "1.2.3", ".",  "-",     "e5",  "1,5", "1e5x"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        double value = 77, expected = strtod(good[i], NULL);

        assert_int_equal(number_parse_double(good[i], -INFINITY, INFINITY, &value, NULL), 0);
        assert_memory_equal(&value, &expected, sizeof(value));
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        double value = 77;

        assert_int_equal(number_parse_double(bad[i], -INFINITY, INFINITY, &value, NULL), -EINVAL);
        assert_true(value == 77);
    }
}

/* The digit that decides may stand far behind: 1 + 2^-53 is a tie, which any digit after it breaks upwards. */
static void test_double_far_digits(void **state)
{
    static const char tie[] = "1.00000000000000011102230246251565404236316680908203125";
    char text[2000];
    double value;

    (void)state;
    assert_int_equal(number_parse_double(tie, 0, 2, &value, NULL), 0);
    assert_true(value == 1.0);
    memset(text, '0', sizeof(text));
    memcpy(text, tie, strlen(tie));
    memcpy(text + sizeof(text) - 2, "1", 2);
    assert_int_equal(number_parse_double(text, 0, 2, &value, NULL), 0);
    assert_true(value == 1.0 + 0x1p-52);
    memset(text, '9', 1900);
    memcpy(text + 1900, "e-1900", 7);
    assert_int_equal(number_parse_double(text, 0, 2, &value, NULL), 0);
    assert_true(value == 1.0);
}

static void check_double(double value)
{
    char text[NUMBER_DOUBLE_MAX + 1], shorter[40], longest[40];
    size_t len = number_write_double(text, value), digits = 0;
    double back;

    assert_true(len <= NUMBER_DOUBLE_MAX);
    text[len] = '\0';
    assert_int_equal(number_parse_double(text, -INFINITY, INFINITY, &back, NULL), 0);
    assert_memory_equal(&back, &value, sizeof(value));
    snprintf(longest, sizeof(longest), "%.17g", value);
    assert_true(len <= strlen(longest));
    /* no text with one digit fewer reads back as the same value */
    for (const char *at = text; *at && *at != 'e'; at++)
        digits += *at >= '0' && *at <= '9' && (digits || *at != '0');
    for (const char *at = text + strcspn(text, "e"); !strchr(text, '.') && at > text && at[-1] == '0'; at--)
        digits--;
    if (digits > 1) {
        snprintf(shorter, sizeof(shorter), "%.*e", (int)digits - 2, value);
        assert_true(strtod(shorter, NULL) != value);
    }
}

static void test_double_round_trip(void **state)
{
    uint64_t seed = 20250131;

    (void)state;
    for (int i = 0; i < DOUBLES; i++) {
        uint64_t bits = next_random(&seed);
        double value;

        memcpy(&value, &bits, sizeof(value));
        if (isfinite(value))
            check_double(value);
    }
    /* what measurements look like: few decimals */
    for (int i = 0; i < DOUBLES / 10; i++)
        check_double((double)(int64_t)(next_random(&seed) % 10000000) / 1000);
}

static void test_double_edges(void **state)
{
    static const struct {
        double value;
        const char *text;
    } rows[] = {
        {0, "0"},
        {-0.0, "-0"},
        {1, "1"},
        {-1, "-1"},
        {0.1, "0.1"},
        {0.3, "0.3"},
        {100, "100"},
        {1e6, "1000000"},
        {123456.789, "123456.789"},
        {1e15, "1000000000000000"},
        {1e16, "10000000000000000"},
        {1e17, "1e+17"},
        {12345678901234567890.0, "1.2345678901234567e+19"},
        {0.0001, "0.0001"},
        {0.00001, "1e-05"},
        {1.5e300, "1.5e+300"},
        {9007199254740991, "9007199254740991"},
        {9007199254740994, "9007199254740994"},
        {2e-308, "2e-308"},
        {5e-324, "5e-324"},
        {2.2250738585072014e-308, "2.2250738585072014e-308"},
        {-1.7976931348623157e308, "-1.7976931348623157e+308"},
        {9.5367431640625e-07, "9.5367431640625e-07"},
        {NAN, "NaN"},
        {INFINITY, "+Inf"},
        {-INFINITY, "-Inf"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[NUMBER_DOUBLE_MAX + 1];

        text[number_write_double(text, rows[i].value)] = '\0';
        assert_string_equal(text, rows[i].text);
    }
    for (int exponent = -1074; exponent < 1024; exponent++) {
        double power = ldexp(1, exponent);

        check_double(power);
        check_double(nextafter(power, 0) > 0 ? nextafter(power, 0) : power);
        check_double(nextafter(power, INFINITY));
    }
}

static void add_number(void *at, uint64_t number)
{
    char *text = at;
    sprintf(text + strlen(text), "%d ", (int)number);
}

static void test_lists(void **state)
{
    (void)state;
    static const struct {
        const char *list, *numbers; /* NULL: it is none */
    } rows[] = {{"", ""},      {"\n", ""},          {"0-3,8\n", "0 1 2 3 8 "},
                {"7", "7 "},   {"2,1,1", "2 1 1 "}, {"9", "9 "},
                {"10", NULL},  {"0-10", NULL},      {"3-1", NULL},
                {"a", NULL},   {"1-", NULL},        {"-1", NULL},
                {"1 2", NULL}, {"+1", NULL},        {",1", NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char found[100] = "";
        assert_int_equal(number_walk_list(rows[i].list, 9, add_number, found), rows[i].numbers != NULL);
        if (rows[i].numbers)
            assert_string_equal(found, rows[i].numbers);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_u64),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_i64),
        cmocka_unit_test(test_hex),
        cmocka_unit_test(test_write_whole),
        cmocka_unit_test(test_double_syntax),
        cmocka_unit_test(test_double_edges),
        cmocka_unit_test(test_double_far_digits),
        cmocka_unit_test(test_double_round_trip),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
