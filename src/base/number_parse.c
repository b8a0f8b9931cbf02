/* SPDX-License-Identifier: Apache-2.0 */
/* Strict parsers. Doubles of up to 2^53 and powers of ten up to 22 are computed exactly; the others go to strtod as
 * an integer with an exponent, a shape that no locale changes. */
#include "base/number.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DIGITS_MAX = 780,      /* significant digits that can decide a rounding: 767, and the rest as one */
    EXPONENT_MAX = 100000, /* beyond it every double is 0 or infinite; keeps sums in an int */
};

/* Text quoted in a message, short enough for any Err. */
static int shown(size_t len)
{
    return len > 60 ? 60 : (int)len;
}

static int not_a(const char *what, const char *text, size_t len, Err *err)
{
    if (!len)
        return err_set(err, -EINVAL, "empty, %s is expected", what);
    return err_set(err, -EINVAL, "'%.*s' is not %s", shown(len), text, what);
}

/* The digits as a number. 0, -EINVAL or -ERANGE. */
static int read_digits(const char *text, size_t len, uint64_t *ret)
{
    uint64_t value = 0;
    bool over = false;

    if (!len)
        return -EINVAL;
    for (size_t i = 0; i < len; i++) {
        unsigned digit = (unsigned)(text[i] - '0');

        if (digit > 9)
            return -EINVAL;
        over |= __builtin_mul_overflow(value, UINT64_C(10), &value);
        over |= __builtin_add_overflow(value, digit, &value);
    }
    if (over)
        return -ERANGE;
    *ret = value;
    return 0;
}

int number_parsen_u64(const char *text, size_t len, uint64_t min, uint64_t max, uint64_t *ret, Err *err)
{
    uint64_t value = 0;
    int rc = read_digits(text, len, &value);

    if (rc == -EINVAL)
        return not_a("a whole number without sign", text, len, err);
    if (rc < 0 || value < min || value > max)
        return err_set(err, -ERANGE, "%.*s is not in %" PRIu64 "..%" PRIu64, shown(len), text, min, max);
    *ret = value;
    return 0;
}

int number_parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *ret, Err *err)
{
    return number_parsen_u64(text, strlen(text), min, max, ret, err);
}

int number_parse_i64(const char *text, int64_t min, int64_t max, int64_t *ret, Err *err)
{
    bool negative = text[0] == '-';
    uint64_t limit = negative ? (uint64_t)INT64_MAX + 1 : (uint64_t)INT64_MAX, magnitude = 0;
    int rc = read_digits(text + negative, strlen(text + negative), &magnitude);
    int64_t value;

    if (rc == -EINVAL)
        return not_a("a whole number", text, strlen(text), err);
    value = magnitude > limit ? 0 : (int64_t)(negative ? 0 - magnitude : magnitude);
    if (rc < 0 || magnitude > limit || value < min || value > max)
        return err_set(err, -ERANGE, "%.60s is not in %" PRId64 "..%" PRId64, text, min, max);
    *ret = value;
    return 0;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

int number_parsen_hex(const char *text, size_t len, uint64_t max, uint64_t *ret, Err *err)
{
    const size_t front = len > 1 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X') ? 2 : 0;
    uint64_t value = 0;
    bool over = false;

    if (len == front)
        return not_a("a hexadecimal number", text, len, err);
    for (size_t i = front; i < len; i++) {
        int digit = hex_digit(text[i]);

        if (digit < 0)
            return not_a("a hexadecimal number", text, len, err);
        over |= value >> 60 != 0;
        value = value << 4 | (unsigned)digit;
    }
    if (over || value > max)
        return err_set(err, -ERANGE, "%.*s is over 0x%" PRIx64, shown(len), text, max);
    *ret = value;
    return 0;
}

int number_parse_hex(const char *text, uint64_t max, uint64_t *ret, Err *err)
{
    return number_parsen_hex(text, strlen(text), max, ret, err);
}

/* A decimal text taken apart: digits * 10^exponent. */
typedef struct Parts {
    char digits[DIGITS_MAX + 1];
    size_t count; /* significant digits kept, without leading zeros */
    size_t seen;  /* digits in all */
    int exponent;
    bool negative;
} Parts;

static void take_digit(Parts *parts, char digit, bool fraction)
{
    parts->seen++;
    if (parts->count < DIGITS_MAX) {
        if (parts->count || digit != '0')
            parts->digits[parts->count++] = digit;
        parts->exponent -= fraction;
        return;
    }
    /* What was dropped only says that the number is a little larger than the kept digits. */
    if (digit != '0')
        parts->digits[DIGITS_MAX - 1] = '1';
    if (!fraction && parts->exponent < EXPONENT_MAX)
        parts->exponent++;
}

static bool take_exponent(Parts *parts, const char *at, const char *end)
{
    bool negative = at < end && *at == '-';
    int value = 0;

    if (at < end && (*at == '-' || *at == '+'))
        at++;
    if (at == end)
        return false;
    for (; at < end; at++) {
        if (*at < '0' || *at > '9')
            return false;
        if (value < EXPONENT_MAX)
            value = value * 10 + (*at - '0');
    }
    parts->exponent += negative ? -value : value;
    return true;
}

static bool take_apart(const char *text, size_t len, Parts *parts)
{
    const char *at = text, *end = text + len;
    bool fraction = false;

    if (at < end && *at == '-') {
        parts->negative = true;
        at++;
    }
    for (; at < end && *at != 'e' && *at != 'E'; at++) {
        if (*at == '.' && !fraction)
            fraction = true;
        else if (*at >= '0' && *at <= '9')
            take_digit(parts, *at, fraction);
        else
            return false;
    }
    if (!parts->seen)
        return false;
    return at == end || take_exponent(parts, at + 1, end);
}

/* Both factors are exact doubles, so that the one rounding of * or / is the right one. */
static bool join_exactly(const Parts *parts, double *ret)
{
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    uint64_t digits = 0;

    if (!parts->count) {
        *ret = 0;
        return true;
    }
    if (parts->count > 15 || parts->exponent < -22 || parts->exponent > 22)
        return false;
    read_digits(parts->digits, parts->count, &digits);
    *ret = parts->exponent < 0 ? (double)digits / powers[-parts->exponent] : (double)digits * powers[parts->exponent];
    return true;
}

static double join(const Parts *parts)
{
    char text[DIGITS_MAX + 24];
    double value;

    if (!join_exactly(parts, &value)) {
        snprintf(text, sizeof(text), "%.*se%d", (int)parts->count, parts->digits, parts->exponent);
        value = strtod(text, NULL);
    }
    return parts->negative ? -value : value;
}

static bool read_infinity(const char *text, size_t len, double *ret)
{
    if (len == 3 && !memcmp(text, "Inf", 3))
        *ret = INFINITY;
    else if (len == 4 && !memcmp(text, "+Inf", 4))
        *ret = INFINITY;
    else if (len == 4 && !memcmp(text, "-Inf", 4))
        *ret = -INFINITY;
    else
        return false;
    return true;
}

int number_parsen_double(const char *text, size_t len, double min, double max, double *ret, Err *err)
{
    Parts parts = {.count = 0};
    bool infinite;
    double value;

    infinite = read_infinity(text, len, &value);
    if (!infinite) {
        if (!take_apart(text, len, &parts))
            return not_a("a number", text, len, err);
        value = join(&parts);
    }
    if (value < min || value > max || (isinf(value) && !infinite))
        return err_set(err, -ERANGE, "%.*s is not in %g..%g", shown(len), text, min, max);
    *ret = value;
    return 0;
}

int number_parse_double(const char *text, double min, double max, double *ret, Err *err)
{
    return number_parsen_double(text, strlen(text), min, max, ret, err);
}
