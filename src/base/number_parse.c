/* SPDX-License-Identifier: Apache-2.0 */
/* Strict parsers: the shape is checked here, strtod in the locale "C" converts. */
#include "base/number.h"

#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

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

static size_t count_digits(const char *at, const char *end)
{
    size_t count = 0;

    while (at + count < end && at[count] >= '0' && at[count] <= '9')
        count++;
    return count;
}

/* True for "-1.5e+3" and its shorter forms, all that strtod then takes. */
static bool is_decimal(const char *at, const char *end)
{
    size_t whole, fraction = 0;

    at += at < end && *at == '-';
    whole = count_digits(at, end);
    at += whole;
    if (at < end && *at == '.') {
        fraction = count_digits(at + 1, end);
        at += 1 + fraction;
    }
    if (!whole && !fraction)
        return false;
    if (at == end)
        return true;
    if (*at != 'e' && *at != 'E')
        return false;
    at++;
    at += at < end && (*at == '-' || *at == '+');
    return at < end && count_digits(at, end) == (size_t)(end - at);
}

static locale_t c_locale;

static void make_c_locale(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

/* strtod wants a NUL behind the text. */
static double read_decimal(const char *text, size_t len)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    char room[64];
    char *copy = len < sizeof(room) ? room : xmalloc(len + 1);
    double value;

    pthread_once(&once, make_c_locale);
    memcpy(copy, text, len);
    copy[len] = '\0';
    value = strtod_l(copy, NULL, c_locale);
    if (copy != room)
        free(copy);
    return value;
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
    double value;
    bool infinite = read_infinity(text, len, &value);

    if (!infinite) {
        if (!is_decimal(text, text + len))
            return not_a("a number", text, len, err);
        value = read_decimal(text, len);
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
