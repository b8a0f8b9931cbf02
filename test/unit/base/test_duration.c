/* SPDX-License-Identifier: Apache-2.0 */
/* Covers src/base/duration.c. */
#include "base/duration.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"

static void test_parse(void **state)
{
    static const struct {
        const char *text;
        uint64_t ns;
    } rows[] = {
        {"0", 0},
        {"0s", 0},
        {"100ms", 100 * NS_PER_MS},
        {"1s", NS_PER_S},
        {"5m", 5 * NS_PER_MIN},
        {"2h", 2 * NS_PER_H},
        {"1d", NS_PER_DAY},
        {"1w", NS_PER_WEEK},
        {"1y", NS_PER_YEAR},
        {"1h30m", NS_PER_H + 30 * NS_PER_MIN},
        {"1w2d3h4m5s6ms", NS_PER_WEEK + 2 * NS_PER_DAY + 3 * NS_PER_H + 4 * NS_PER_MIN + 5 * NS_PER_S + 6 * NS_PER_MS},
        {"90m", 90 * NS_PER_MIN},
        {"7us8ns", 7008},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        uint64_t ns = 1;

        assert_int_equal(duration_parse(rows[i].text, &ns, NULL), 0);
        assert_int_equal(ns, rows[i].ns);
    }
}

static void test_refuses(void **state)
{
    static const char *const texts[] = {"",     " 1s",  "1s ",    "1",  "s",   "1x", "1.5s",  "-1s", "+1s",
                                        "1m1h", "1s1s", "1h 30m", "1S", "1hs", "00", "1ms1s", "١s",  "1m2"};
    static const char *const large[] = {"585y", "99999999999999999999s", "18446744073709551615s", "584y400d"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        uint64_t ns = 77;
        Err err = {0};

        assert_int_equal(duration_parse(texts[i], &ns, &err), -EINVAL);
        assert_int_equal(ns, 77);
        assert_non_null(strstr(err.text, texts[i]));
    }
    for (size_t i = 0; i < ARRAY_LEN(large); i++) {
        uint64_t ns = 77;

        assert_int_equal(duration_parse(large[i], &ns, NULL), -ERANGE);
        assert_int_equal(ns, 77);
    }
}

static void check_format(uint64_t ns, const char *expected)
{
    char text[DURATION_TEXT_MAX];
    size_t len = duration_format(text, ns);
    uint64_t back = ~ns;

    if (expected)
        assert_string_equal(text, expected);
    assert_int_equal(strlen(text), len);
    assert_int_equal(duration_parse(text, &back, NULL), 0);
    assert_int_equal(back, ns);
}

static void test_format(void **state)
{
    uint64_t ns = 1;

    (void)state;
    check_format(0, "0s");
    check_format(100 * NS_PER_MS, "100ms");
    check_format(90 * NS_PER_MIN, "1h30m");
    check_format(NS_PER_WEEK, "1w");
    check_format(8 * NS_PER_DAY, "8d");
    check_format(2 * NS_PER_YEAR, "2y");
    check_format(UINT64_MAX, NULL);
    for (int i = 0; i < 10000; i++) {
        ns = ns * 6364136223846793005 + 1442695040888963407;
        check_format(ns >> i % 64, NULL);
    }
}

static void test_seconds(void **state)
{
    char text[DURATION_TEXT_MAX];

    (void)state;
    assert_string_equal(duration_format_s(text, 89.5), "1m30s");
    assert_string_equal(duration_format_s(text, -3), "0s");
    assert_string_equal(duration_format_s(text, NAN), "0s");
    assert_ptr_equal(duration_format_s(text, INFINITY), text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_format),
        cmocka_unit_test(test_seconds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
