/* SPDX-License-Identifier: Apache-2.0 */
/* Writers. The double writer is the Schubfach method (R. Giulietti, "The Schubfach way to render doubles", 2020):
 * scale the rounding interval of the double by a power of ten with 128 bits, rounding to odd, and take the shortest
 * decimal inside. The table of powers is made at build time by pow10.py. */
#include "base/number.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/pow10_table.h"

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
static Decimal shortest(uint64_t significand, int exponent, bool closer)
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

static size_t write_decimal(char *out, Decimal decimal)
{
    char digits[NUMBER_U64_MAX];
    int count = (int)write_u64(digits, decimal.digits);
    int point = count + decimal.exponent;
    size_t len;

    while (count > 1 && digits[count - 1] == '0')
        count--;
    if (point > -4 && point <= 17)
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

size_t number_write_double(char out[NUMBER_DOUBLE_MAX], double value)
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
    if (value < 1e15 && value == (double)(uint64_t)value)
        return sign + write_u64(out + sign, (uint64_t)value);
    if (!find_thousandths(value, &decimal))
        decimal = exponent ? shortest(fraction | hidden, exponent - 1075, !fraction && exponent > 1)
                           : shortest(fraction, 1 - 1075, false);
    return sign + write_decimal(out + sign, decimal);
}
