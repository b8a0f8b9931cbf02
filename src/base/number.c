/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers from and to text. Parsers are strict: the shape is checked here, strtod in the locale "C" converts. The
 * double writer is the Schubfach method (R. Giulietti, "The Schubfach way to render doubles", 2020): scale the rounding
 * interval of the double by a power of ten with 128 bits, rounding to odd, and take the shortest decimal inside. The
 * table of powers is made at build time by pow10.py. */
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
#include "base/pow10_table.h"

/* -- reading ---------------------------------------------------------------------------------------------------------
 */

/* Text quoted in a message, short enough for any Err. */
static int limit_shown(size_t len)
{
    return len > 60 ? 60 : (int)len;
}

static int not_a(const char *what, const char *text, size_t len, Err *err)
{
    if (!len)
        return err_set(err, -EINVAL, "empty, %s is expected", what);
    return err_set(err, -EINVAL, "'%.*s' is not %s", limit_shown(len), text, what);
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
        return err_set(err, -ERANGE, "%.*s is not in %" PRIu64 "..%" PRIu64, limit_shown(len), text, min, max);
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

/* Digits at *at, which goes on behind them. */
static bool take_number(const char **at, uint64_t min, uint64_t max, uint64_t *ret)
{
    const size_t len = strspn(*at, "0123456789");
    const bool fine = number_parsen_u64(*at, len, min, max, ret, NULL) == 0;
    *at += len;
    return fine;
}

bool number_walk_list(const char *list, uint64_t max, void (*each)(void *at, uint64_t number), void *at)
{
    while (*list && *list != '\n') {
        uint64_t first, last;
        if (!take_number(&list, 0, max, &first))
            return false;
        last = first;
        if (*list == '-' && (list++, !take_number(&list, first, max, &last)))
            return false;
        if (*list && *list != '\n' && *list++ != ',')
            return false;
        for (uint64_t number = first; number <= last; number++)
            each(at, number);
    }
    return true;
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
        return err_set(err, -ERANGE, "%.*s is over 0x%" PRIx64, limit_shown(len), text, max);
    *ret = value;
    return 0;
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
    const size_t sign = len == 4 && (*text == '+' || *text == '-');

    *ret = sign && *text == '-' ? -INFINITY : INFINITY;
    return len == sign + 3 && !memcmp(text + sign, "Inf", 3);
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
        return err_set(err, -ERANGE, "%.*s is not in %g..%g", limit_shown(len), text, min, max);
    *ret = value;
    return 0;
}

int number_parse_double(const char *text, double min, double max, double *ret, Err *err)
{
    return number_parsen_double(text, strlen(text), min, max, ret, err);
}

/* -- writing ---------------------------------------------------------------------------------------------------------
 */

__extension__ typedef unsigned __int128 Wide;

typedef struct Decimal {
    uint64_t digits;
    int exponent; /* value = digits * 10^exponent */
} Decimal;

static size_t write_u64(char *out, uint64_t value)
{
    static const char pairs[] =
        "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748"
        "49505152535455565758596061626364656667686970717273747576777879808182838485868788899091929394959697"
        "9899";
    char text[NUMBER_U64_MAX];
    size_t at = sizeof(text);

    while (value >= 100) {
        at -= 2;
        memcpy(text + at, pairs + 2 * (value % 100), 2);
        value /= 100;
    }
    if (value >= 10) {
        at -= 2;
        memcpy(text + at, pairs + 2 * value, 2);
    } else {
        text[--at] = (char)('0' + value);
    }
    memcpy(out, text + at, sizeof(text) - at);
    return sizeof(text) - at;
}

size_t number_write_u64(char out[NUMBER_U64_MAX], uint64_t value)
{
    return write_u64(out, value);
}

size_t number_write_i64(char out[NUMBER_I64_MAX], int64_t value)
{
    if (value >= 0)
        return write_u64(out, (uint64_t)value);
    out[0] = '-';
    return 1 + write_u64(out + 1, 0 - (uint64_t)value);
}

/* floor(e * log10(2)), floor(e * log10(2) - log10(4/3)) and floor(e * log2(10)), exact over the exponents of doubles
 * (the paper, section 9.5). Shifting a negative int right is arithmetic in gcc and clang. */
static int floor_log10_pow2(int e)
{
    return (e * 1262611) >> 22;
}

static int floor_log10_three_quarters_pow2(int e)
{
    return (e * 1262611 - 524031) >> 22;
}

static int floor_log2_pow10(int e)
{
    return (e * 1741647) >> 19;
}

/* The upper 64 bits of power * factor / 2^64; the lowest bit is set where anything below was lost. */
static uint64_t round_to_odd(const uint64_t power[2], uint64_t factor)
{
    Wide low = (Wide)power[1] * factor;
    Wide high = (Wide)power[0] * factor + (uint64_t)(low >> 64);

    return (uint64_t)(high >> 64) | ((uint64_t)high > 1);
}

/* The shortest decimal in the rounding interval of significand * 2^exponent. `closer`: the lower neighbour lies at
 * half the distance of the upper one. */
static Decimal find_shortest(uint64_t significand, int exponent, bool closer)
{
    int k = closer ? floor_log10_three_quarters_pow2(exponent) : floor_log10_pow2(exponent);
    int shift = exponent + floor_log2_pow10(-k) + 1;
    const uint64_t *power = pow10_table[-k - POW10_FIRST];
    bool open = significand % 2; /* an even significand wins ties, so that its bounds read back as it */
    uint64_t lower = round_to_odd(power, (4 * significand - 2 + closer) << shift) + open;
    uint64_t value = round_to_odd(power, 4 * significand << shift);
    uint64_t upper = round_to_odd(power, (4 * significand + 2) << shift) - open;
    uint64_t s = value / 4;

    if (s >= 10) {
        uint64_t tens = s / 10;
        bool down = lower <= 40 * tens, up = 40 * tens + 40 <= upper;

        if (down != up)
            return (Decimal){tens + up, k + 1};
    }
    bool down = lower <= 4 * s, up = 4 * s + 4 <= upper;
    if (down != up)
        return (Decimal){s + up, k};
    uint64_t middle = 4 * s + 2;
    return (Decimal){s + (value > middle || (value == middle && s % 2)), k};
}

static size_t write_exponent(char *out, int exponent)
{
    unsigned magnitude = (unsigned)(exponent < 0 ? -exponent : exponent);

    out[0] = 'e';
    out[1] = exponent < 0 ? '-' : '+';
    if (magnitude < 10)
        out[2] = '0';
    return (magnitude < 10 ? 3 : 2) + write_u64(out + (magnitude < 10 ? 3 : 2), magnitude);
}

/* Writes `count` digits so that the point lies after `point` of them; point may be under 1 or over count. */
static size_t write_plain(char *out, const char *digits, int count, int point)
{
    char *at = out;

    if (point <= 0) {
        *at++ = '0';
        *at++ = '.';
        memset(at, '0', (size_t)-point);
        at += -point;
        memcpy(at, digits, (size_t)count);
        return (size_t)(at - out) + (size_t)count;
    }
    if (point >= count) {
        memcpy(at, digits, (size_t)count);
        memset(at + count, '0', (size_t)(point - count));
        return (size_t)point;
    }
    memcpy(at, digits, (size_t)point);
    at[point] = '.';
    memcpy(at + point + 1, digits + point, (size_t)(count - point));
    return (size_t)count + 1;
}

/* Plain with up to `plain` digits before the point. */
static size_t write_decimal(char *out, Decimal decimal, int plain)
{
    char digits[NUMBER_U64_MAX];
    int count = (int)write_u64(digits, decimal.digits);
    int point = count + decimal.exponent;
    size_t len;

    while (count > 1 && digits[count - 1] == '0')
        count--;
    if (point > -4 && point <= plain)
        return write_plain(out, digits, count, point);
    out[0] = digits[0];
    len = 1;
    if (count > 1) {
        out[len++] = '.';
        memcpy(out + len, digits + 1, (size_t)count - 1);
        len += (size_t)count - 1;
    }
    return len + write_exponent(out + len, point - 1);
}

/* Measurements are whole thousandths more often than not. k / 1000 with k < 10^15 that gives the value back is its
 * shortest text: no two decimals of up to 15 digits are the same double. */
static bool find_thousandths(double value, Decimal *ret)
{
    uint64_t thousandths;

    if (value >= 1e12)
        return false;
    thousandths = (uint64_t)(value * 1000 + 0.5);
    if (!thousandths || (double)thousandths / 1000 != value)
        return false;
    *ret = (Decimal){thousandths, -3};
    return true;
}

static size_t write_special(char *out, double value)
{
    const char *text = isnan(value) ? "NaN" : value > 0 ? "+Inf" : "-Inf";
    size_t len = strlen(text);

    memcpy(out, text, len);
    return len;
}

/* Whole numbers below `whole`, which has no more than `plain` digits, are written as such. */
static size_t write_double(char *out, double value, int plain, double whole)
{
    const uint64_t hidden = UINT64_C(1) << 52;
    uint64_t bits, fraction;
    int exponent;
    size_t sign;
    Decimal decimal;

    if (!isfinite(value))
        return write_special(out, value);
    memcpy(&bits, &value, sizeof(bits));
    fraction = bits & (hidden - 1);
    exponent = (int)(bits >> 52 & 0x7ff);
    sign = bits >> 63;
    if (sign)
        out[0] = '-';
    value = fabs(value);
    if (value < whole && value == (double)(uint64_t)value)
        return sign + write_u64(out + sign, (uint64_t)value);
    if (!find_thousandths(value, &decimal))
        decimal = exponent ? find_shortest(fraction | hidden, exponent - 1075, !fraction && exponent > 1)
                           : find_shortest(fraction, 1 - 1075, false);
    return sign + write_decimal(out + sign, decimal, plain);
}

size_t number_write_double(char out[NUMBER_DOUBLE_MAX], double value)
{
    return write_double(out, value, 17, 1e15);
}

size_t number_write_go(char out[NUMBER_DOUBLE_MAX], double value)
{
    return write_double(out, value == 0 ? 0 : value, 6, 1e6);
}
