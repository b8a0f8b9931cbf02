/* SPDX-License-Identifier: Apache-2.0 */
/* What a number of a profile means (engine/trace/scan/value.c), also where it is written in an odd way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "engine/trace/scan/inside.h"

enum { FRONT = 16 };

/* With room in front and behind, which the readers may touch; other digits there, which they must not count. */
static Slice make_slice(const char *text, char room[256])
{
    memset(room, '7', 255);
    memcpy(room + FRONT, text, strlen(text));
    return (Slice){.at = room + FRONT, .len = (uint32_t)strlen(text), .kind = SLICE_WORD};
}

#define NONE INT64_MIN
#define LAST ((INT64_C(1) << 61) - 1) /* TIME_MAX */

static const struct {
    const char *text;
    int64_t value; /* NONE: no integer */
} integers[] = {
    {"0", 0},
    {"7", 7},
    {"-5", -5},
    {"+5", 5},
    {"12345678", 12345678},
    {"123456789", 123456789},
    {"1234567890123456", 1234567890123456},
    {"12345678901234567", 12345678901234567},
    {"-12345678901234567", -12345678901234567},
    {"9223372036854775807", INT64_MAX},
    {"9223372036854775808", INT64_MIN}, /* NONE too: of an unsigned id the same bits */
    {"18446744073709551615", -1},
    {"18446744073709551616", NONE},
    {"-9223372036854775807", -INT64_MAX},
    {"-9223372036854775809", NONE},
    {"1e3", 1000},
    {"1.9", 1},
    {"-1.9", -1},
    {"1.5e1", 15},
    {"12e-1", 1},
    {"1e19", INT64_C(-8446744073709551616)},
    {"1e20", NONE},
    {"-1e19", NONE},
    {"0x1F", 31},
    {"0Xff", 255},
    {"0xffffffffffffffff", -1},
    {"0x", NONE},
    {"0xzz", NONE},
    {"0x1ffffffffffffffff", NONE},
    {"1x", NONE},
    {"x", NONE},
    {"-", NONE},
    {".", NONE},
    {"", NONE},
    {"1e", NONE},
    {"1.2.3", NONE},
    {"true", NONE},
};

static const struct {
    const char *text;
    int64_t ns; /* NONE: no time */
    bool fraction;
} times[] = {
    {"0", 0, false},
    {"5", 5000, false},
    {"-5", -5000, false},
    {"1.5", 1500, true},
    {"0.001", 1, true},
    {"0.0005", 1, true},
    {"0.00049", 0, true},
    {"-0.0005", -1, true},
    {"1.234", 1234, true},
    {"12.345", 12345, true},
    {"1234.567", 1234567, true},
    {"12345.678", 12345678, true},
    {"1234567890.123", 1234567890123, true},
    {"12345678901234.567", 12345678901234567, true},
    {"123456789012345.678", 123456789012345678, true},
    {"1234567890123456.789", 1234567890123456789, true},
    {"12345678901234567.891", LAST, true},
    {"999999999999999999.999", LAST, true},
    {"9999999999999999999.999", LAST, true},
    {"-999999999999999999.999", -LAST, true},
    {"2305843009213692", 2305843009213692000, false},
    {"2305843009213693", 2305843009213693000, false},
    {"2305843009213694", LAST, false},
    {"99999999999999999", LAST, false},
    {"1.5e3", 1500000, true},
    {"15e-1", 1500, false},
    {"1e400", LAST, false},
    {"1e-400", 0, false},
    {"1,5", NONE, false},
    {"12.3x5", NONE, false},
    {"x234.567", NONE, false},
    {"", NONE, false},
};

static const struct {
    const char *text;
    double value; /* NAN: no number */
} doubles[] = {
    {"0", 0},
    {"0.1", 0.1},
    {"-2.5", -2.5},
    {"123456789012345", 123456789012345.0},
    {"1e3", 1e3},
    {"0.30000000000000004", 0.30000000000000004},
    {"1e-7", 1e-7},
    {"1.7976931348623157e308", 1.7976931348623157e308},
    {"1e999", NAN},
    {"nan", NAN},
    {"x", NAN},
    {"", NAN},
    {"0.00000000000015", 1.5e-13},
};

static void test_integers(void **state)
{
    char room[256];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(integers); i++) {
        const Slice slice = make_slice(integers[i].text, room);
        int64_t value = NONE;

        if (!value_integer(&slice, &value))
            value = NONE;
        if (value != integers[i].value)
            fail_msg("%s: %lld", integers[i].text, (long long)value);
    }
}

static void test_times(void **state)
{
    char room[256];

    (void)state;
    assert_int_equal(LAST, TIME_MAX);
    for (size_t i = 0; i < ARRAY_LEN(times); i++) {
        const Slice slice = make_slice(times[i].text, room);
        int64_t ns = NONE;
        bool fraction = false;

        if (!value_nanoseconds(&slice, &ns, &fraction))
            ns = NONE;
        if (ns != times[i].ns || (ns != NONE && fraction != times[i].fraction))
            fail_msg("%s: %lld %d", times[i].text, (long long)ns, fraction);
    }
}

static void test_doubles(void **state)
{
    char room[256];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(doubles); i++) {
        const Slice slice = make_slice(doubles[i].text, room);
        const double value = value_double(&slice);

        if (isnan(doubles[i].value) ? !isnan(value) : memcmp(&value, &doubles[i].value, sizeof value) != 0)
            fail_msg("%s: %.17g", doubles[i].text, value);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_doubles),
    };

    return cmocka_run_group_tests_name("values", tests, NULL, NULL);
}
