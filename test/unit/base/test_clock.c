/* SPDX-License-Identifier: Apache-2.0 */
/* Covers src/base/clock.c. */
#include "base/clock.h"

#include <errno.h>
#include <string.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "../fake_clock.h"

static void test_fake_stands_still(void **state)
{
    ClockFake fake;
    Clock *clock = &fake.clock;

    (void)state;
    clock_fake_init(&fake, 5, 1000);
    assert_int_equal(clock_monotonic(clock), 5);
    assert_int_equal(clock_monotonic(clock), 5);
    clock_fake_advance(&fake, NS_PER_S);
    assert_int_equal(clock_monotonic(clock), NS_PER_S + 5);
    assert_int_equal(clock_real(clock), NS_PER_S + 1000);
    clock_fake_set_real(&fake, 3);
    assert_int_equal(clock_real(clock), 3);
    assert_int_equal(clock_monotonic(clock), NS_PER_S + 5);
    clock_sleep(clock, 7);
    assert_int_equal(clock_monotonic(clock), NS_PER_S + 12);
    assert_int_equal(clock_real(clock), 10);
}

static void test_kernel_goes_on(void **state)
{
    Clock *clock = clock_kernel();
    uint64_t before = clock_monotonic(clock);

    (void)state;
    clock_sleep(clock, NS_PER_MS);
    assert_true(clock_monotonic(clock) >= before + NS_PER_MS);
    assert_true(clock_real(clock) > 50 * NS_PER_YEAR);
}

static void test_parse_and_format(void **state)
{
    static const struct {
        const char *text, *shown;
        uint64_t ns;
    } rows[] = {
        {"1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000Z", 0},
        {"2025-01-31T12:00:00Z", "2025-01-31T12:00:00.000Z", UINT64_C(1738324800) * NS_PER_S},
        {"2025-01-31t12:00:00.5z", "2025-01-31T12:00:00.500Z", UINT64_C(1738324800) * NS_PER_S + NS_PER_S / 2},
        {"2025-01-31 14:00:00.123456789+02:00", "2025-01-31T12:00:00.123Z",
         UINT64_C(1738324800) * NS_PER_S + 123456789},
        {"2025-01-31T08:30:00-03:30", "2025-01-31T12:00:00.000Z", UINT64_C(1738324800) * NS_PER_S},
        {"2024-02-29T00:00:00Z", "2024-02-29T00:00:00.000Z", UINT64_C(1709164800) * NS_PER_S},
        {"2016-12-31T23:59:60Z", "2017-01-01T00:00:00.000Z", UINT64_C(1483228800) * NS_PER_S},
        {"1970-01-01T00:00:00.1234567891234Z", "1970-01-01T00:00:00.123Z", 123456789},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[CLOCK_TEXT_MAX];
        uint64_t ns = 1;

        assert_int_equal(clock_parse(rows[i].text, &ns, NULL), 0);
        assert_int_equal(ns, rows[i].ns);
        assert_int_equal(clock_format(text, ns), strlen(rows[i].shown));
        assert_string_equal(text, rows[i].shown);
    }
}

static void test_refuses(void **state)
{
    static const char *const texts[] = {
        "",
        "2025",
        "2025-01-31",
        "2025-01-31T12:00Z",
        "2025-01-31T12:00:00",
        "2025-13-01T00:00:00Z",
        "2025-00-01T00:00:00Z",
        "2025-01-00T00:00:00Z",
        "2025-02-29T00:00:00Z",
        "2025-02-30T00:00:60Z",
        "2025-01-01T24:00:00Z",
        "2025-01-01T00:00:00.Z",
        "2025-01-01T00:00:00Zx",
        "2025-01-01T00:00:00+0200",
        "2025-1-1T00:00:00Z",
        " 2025-01-01T00:00:00Z",
    };
    static const char *const outside[] = {"1969-12-31T23:59:59Z", "1970-01-01T00:00:00+01:00", "2600-01-01T00:00:00Z"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        uint64_t ns = 77;

        assert_int_equal(clock_parse(texts[i], &ns, NULL), -EINVAL);
        assert_int_equal(ns, 77);
    }
    for (size_t i = 0; i < ARRAY_LEN(outside); i++) {
        uint64_t ns = 77;

        assert_int_equal(clock_parse(outside[i], &ns, NULL), -ERANGE);
        assert_int_equal(ns, 77);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fake_stands_still),
        cmocka_unit_test(test_kernel_goes_on),
        cmocka_unit_test(test_parse_and_format),
        cmocka_unit_test(test_refuses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
