/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers without the C library where they are plain, and exactly where they are not. */
#include "engine/trace/scan/inside.h"

#include <math.h>
#include <string.h>

#include "base/number.h"
#include "base/cleanup.h"
#include "base/utf8.h"

enum { WORD_MAX = 64, DIGITS_MAX = 19, EXPONENT_MAX = 400 };

enum { POINT = '.' ^ '0' };
#define ZEROS UINT64_C(0x3030303030303030)

/* Eight digits at once, each a byte 0..9, the last one on top. False where one of them is no digit. */
static inline bool eight_digits(uint64_t v, uint64_t *ret)
{
    if (((v + UINT64_C(0x7676767676767676)) | v) & UINT64_C(0x8080808080808080))
        return false;
    v = v * 10 + (v >> 8);
    v = (v & UINT64_C(0x000000ff000000ff)) * UINT64_C(0x000f424000000064) +
        ((v >> 16) & UINT64_C(0x000000ff000000ff)) * UINT64_C(0x0000271000000001);
    *ret = v >> 32;
    return true;
}

/* 1..8 digits. */
static inline bool few_digits(const char *at, unsigned int len, uint64_t *ret)
{
    return eight_digits((value_eight_bytes(at) ^ ZEROS) << (64 - 8 * len), ret);
}

/* 1..16 digits and nothing else. */
static inline bool plain_digits(const char *at, unsigned int len, uint64_t *ret)
{
    uint64_t high = 0, low;

    if (len - 1 >= 16)
        return false;
    if (len > 8) {
        if (!few_digits(at, len - 8, &high))
            return false;
        at += len - 8;
        len = 8;
    }
    if (!few_digits(at, len, &low))
        return false;
    *ret = high * 100000000 + low;
    return true;
}

/* Digits, a point and three more digits, as nanoseconds. The last eight bytes are four digits, the point and three
 * digits, or zeros in front of them. */
static inline bool plain_thousandths(const char *at, unsigned int len, uint64_t *ret)
{
    uint64_t v, high = 0, low;

    if (len - 5 > 19 - 5)
        return false;
    v = len < 8 ? (value_eight_bytes(at) ^ ZEROS) << (64 - 8 * len) : value_eight_bytes(at + len - 8) ^ ZEROS;
    if ((v >> 32 & 0xff) != POINT || !eight_digits((v << 8 & UINT64_C(0xffffffff00)) | v >> 40 << 40, &low) ||
        (len > 8 && !plain_digits(at, len - 8, &high)))
        return false;
    *ret = high * 10000000 + low;
    return true;
}

/* A decimal number: sign, up to 19 digits that count, and a power of ten. */
typedef struct Decimal {
    bool negative;
    bool fraction; /* it has digits behind a point */
    uint64_t digits;
    int64_t power;
} Decimal;

static bool read_exponent(const char *p, const char *end, int64_t *power)
{
    bool negative = false;
    int64_t e = 0;

    if (p < end && (*p == '+' || *p == '-'))
        negative = *p++ == '-';
    if (p == end)
        return false;
    for (; p < end; p++) {
        if (*p < '0' || *p > '9')
            return false;
        if (e < EXPONENT_MAX * 10)
            e = e * 10 + (*p - '0');
    }
    *power += negative ? -e : e;
    return true;
}

static bool read_decimal(const Slice *slice, Decimal *d)
{
    const char *p = slice->at, *end = p + slice->len;
    unsigned int count = 0;
    bool any = false, point = false;

    *d = (Decimal){0};
    if (p < end && (*p == '-' || *p == '+'))
        d->negative = *p++ == '-';
    for (; p < end; p++) {
        if (*p == '.' && !point) {
            point = true;
            continue;
        }
        if (*p < '0' || *p > '9')
            break;
        any = true;
        d->fraction |= point;
        if (count >= DIGITS_MAX) {
            d->power += !point;
            continue;
        }
        d->digits = d->digits * 10 + (uint64_t)(*p - '0');
        count += d->digits != 0;
        d->power -= point;
    }
    if (!any)
        return false;
    if (p < end)
        return (*p | 0x20) == 'e' && read_exponent(p + 1, end, &d->power);
    return true;
}

/* digits * 10^power, rounded half away from zero or cut off, at most `max`. */
static uint64_t scale_digits(uint64_t digits, int64_t power, bool round, uint64_t max)
{
    unsigned int last = 0;

    if (digits == 0)
        return 0;
    for (; power > 0; power--) {
        if (digits > max / 10)
            return max;
        digits *= 10;
    }
    for (; power < 0 && (digits || last); power++) {
        last = (unsigned int)(digits % 10);
        digits /= 10;
    }
    digits += round && power == 0 && last >= 5;
    return digits < max ? digits : max;
}

static bool read_hex(const Slice *slice, int64_t *ret)
{
    uint64_t value;

    if (slice->len < 3 || slice->len > 18 || slice->at[0] != '0' || (slice->at[1] | 0x20) != 'x' ||
        number_parsen_hex(slice->at, slice->len, UINT64_MAX, &value, NULL) < 0)
        return false;
    *ret = (int64_t)value;
    return true;
}

/* All other integers. Not inlined, to save stack in the common case. */
__attribute__((noinline)) static bool odd_integer(const Slice *slice, int64_t *ret)
{
    const uint64_t too_large = UINT64_MAX / 10 * 10; /* its last digit does not fit a Decimal */
    uint64_t value;
    Decimal d;

    if (slice->kind == SLICE_NEST || slice->len > WORD_MAX)
        return false;
    if (read_hex(slice, ret))
        return true;
    /* twenty digits do not fit a Decimal, but do fit uint64_t */
    if (slice->len == NUMBER_U64_MAX && number_parsen_u64(slice->at, slice->len, 0, UINT64_MAX, &value, NULL) == 0) {
        *ret = (int64_t)value;
        return true;
    }
    if (!read_decimal(slice, &d))
        return false;
    value = scale_digits(d.digits, d.power, false, too_large);
    if (value == too_large || (d.negative && value > (uint64_t)INT64_MAX))
        return false;
    *ret = d.negative ? -(int64_t)value : (int64_t)value;
    return true;
}

bool value_integer(const Slice *slice, int64_t *ret)
{
    return plain_digits(slice->at, slice->len, (uint64_t *)ret) || odd_integer(slice, ret);
}

__attribute__((noinline)) static bool odd_nanoseconds(const Slice *slice, int64_t *ret_ns, bool *ret_fraction)
{
    uint64_t ns;
    Decimal d;

    if (slice->kind == SLICE_NEST || slice->len > WORD_MAX || !read_decimal(slice, &d))
        return false;
    *ret_fraction |= d.fraction;
    ns = scale_digits(d.digits, d.power + 3, true, (uint64_t)TIME_MAX);
    *ret_ns = d.negative ? -(int64_t)ns : (int64_t)ns;
    return true;
}

bool value_nanoseconds(const Slice *slice, int64_t *ret_ns, bool *ret_fraction)
{
    uint64_t us;

    if (plain_thousandths(slice->at, slice->len, (uint64_t *)ret_ns)) { /* eighteen digits: below TIME_MAX */
        *ret_fraction = true;
        return true;
    }
    if (!plain_digits(slice->at, slice->len, &us))
        return odd_nanoseconds(slice, ret_ns, ret_fraction);
    *ret_ns = us <= (uint64_t)TIME_MAX / 1000 ? (int64_t)us * 1000 : TIME_MAX;
    return true;
}

/* Up to fifteen digits are an exact double, as is the power of ten that they are divided by: so the one rounding is the
 * right one. */
static bool plain_double(const Slice *slice, double *ret)
{
    static const double powers[] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    Decimal d;

    if (slice->len > ARRAY_LEN(powers) || *slice->at == '+' || !read_decimal(slice, &d) || d.power > 0 ||
        d.power <= -(int64_t)ARRAY_LEN(powers) || d.digits >= UINT64_C(1000000000000000))
        return false;
    *ret = (double)d.digits / powers[-d.power];
    *ret = d.negative ? -*ret : *ret;
    return true;
}

double value_double(const Slice *slice)
{
    double value;

    if (plain_double(slice, &value))
        return value;
    if (slice->kind == SLICE_NEST || slice->len > WORD_MAX ||
        number_parsen_double(slice->at, slice->len, -HUGE_VAL, HUGE_VAL, &value, NULL) < 0 || !isfinite(value))
        return NAN;
    return value;
}

void value_triple(const Slice *slice, uint32_t ret[3])
{
    const char *p = slice->at, *end = p + slice->len;
    unsigned int i = 0;

    ret[0] = ret[1] = ret[2] = 0;
    if (slice->kind != SLICE_NEST || *p++ != '[')
        return;
    for (; p < end && i < 3; p++) {
        if (*p >= '0' && *p <= '9') {
            const uint64_t value = (uint64_t)ret[i] * 10 + (uint64_t)(*p - '0');

            ret[i] = value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
        } else if (*p == ',') {
            i++;
        } else if (!walk_blank(*p)) {
            break;
        }
    }
}

static bool read_unit(const char *p, const char *end, uint32_t *ret)
{
    uint32_t value = 0;

    if (end - p < 6 || p[0] != '\\' || p[1] != 'u')
        return false;
    for (unsigned int i = 2; i < 6; i++) {
        const char letter = (char)(p[i] | 0x20);

        if (p[i] >= '0' && p[i] <= '9')
            value = value * 16 + (uint32_t)(p[i] - '0');
        else if (letter >= 'a' && letter <= 'f')
            value = value * 16 + (uint32_t)(letter - 'a' + 10);
        else
            return false;
    }
    *ret = value;
    return true;
}

/* One escape at p ('\\'): writes what it means and gives the bytes that it takes. */
static size_t unescape_one(const char *p, const char *end, char *out, size_t *n)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    uint32_t c, low;
    const char *known = end - p >= 2 && p[1] ? strchr(from, p[1]) : NULL;

    if (known) {
        out[(*n)++] = to[known - from];
        return 2;
    }
    if (!read_unit(p, end, &c)) {
        out[(*n)++] = '\\';
        return 1;
    }
    if (c >= 0xd800 && c < 0xdc00 && read_unit(p + 6, end, &low) && low >= 0xdc00 && low < 0xe000) {
        *n += utf8_write(out + *n, 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00));
        return 12;
    }
    *n += utf8_write(out + *n, c);
    return 6;
}

size_t value_unescape(const Slice *slice, char *room, size_t max)
{
    const char *p = slice->at, *end = p + slice->len;
    size_t n = 0;

    while (p < end && n < max) {
        if (slice->kind == SLICE_ESCAPED && *p == '\\')
            p += unescape_one(p, end, room, &n);
        else
            room[n++] = *p++;
    }
    if (p < end || n > max) { /* cut: not within a character */
        n = n < max ? n : max;
        for (size_t back = 0; back < 4 && n > back; back++) {
            const unsigned char c = (unsigned char)room[n - 1 - back];

            if (c >= 0xc0) {
                const size_t need = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;

                n = back + 1 < need ? n - 1 - back : n;
                break;
            }
            if (c < 0x80)
                break;
        }
    }
    return n;
}
