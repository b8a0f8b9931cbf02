/* SPDX-License-Identifier: Apache-2.0 */
#include "service/prometheus/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "base/utf8.h"

static const char *escape_of(char c, EscapeKind kind)
{
    switch (c) {
    case '\\':
        return "\\\\";
    case '\n':
        return "\\n";
    case '"':
        return kind == ESCAPE_HELP ? NULL : "\\\"";
    default:
        return NULL;
    }
}

/* Bytes that need nothing: the most of nearly every text. */
static size_t plain_len(const char *text)
{
    size_t len = 0;

    while ((signed char)text[len] > '\n' && text[len] != '"' && text[len] != '\\')
        len++;
    return len;
}

void escape_add(Str *out, const char *text, EscapeKind kind)
{
    for (;;) {
        size_t plain = plain_len(text), len;
        uint32_t c;
        const char *escape;

        str_addn(out, text, plain);
        text += plain;
        if (!*text)
            return;
        escape = escape_of(*text, kind);
        len = utf8_read(text, strnlen(text, UTF8_MAX), &c);
        if (escape)
            str_add(out, escape);
        else if (len)
            str_addn(out, text, len);
        else
            str_add(out, UTF8_REPLACEMENT);
        text += len ? len : 1;
    }
}

/* Go's limit for plain notation of a shortest number (strconv, %e is used from exponent 6 on). */
static const double PLAIN_LIMIT = 1e6;

/* Rewrites `len` bytes of plain notation, at least 1e6 in size, with an exponent. */
static size_t with_exponent(char *out, const char *text, size_t len)
{
    const char *point = memchr(text, '.', len);
    size_t whole = point ? (size_t)(point - text) : len;
    size_t at = 0, digits = 0;
    char digit[NUMBER_DOUBLE_MAX] = "0";

    if (*text == '-') {
        out[at++] = '-';
        text++;
        len--;
        whole--;
    }
    for (size_t i = 0; i < len; i++)
        if (text[i] != '.')
            digit[digits++] = text[i];
    while (digits > 1 && digit[digits - 1] == '0')
        digits--;
    out[at++] = digit[0];
    if (digits > 1) {
        out[at++] = '.';
        memcpy(out + at, digit + 1, digits - 1);
        at += digits - 1;
    }
    whole--;
    memcpy(out + at, "e+", 2);
    at += 2;
    out[at++] = (char)('0' + whole / 10);
    out[at++] = (char)('0' + whole % 10);
    return at;
}

size_t value_write_go(char out[VALUE_TEXT_MAX], double value)
{
    char text[NUMBER_DOUBLE_MAX];
    size_t len;

    if (value == 0) {
        out[0] = '0';
        return 1;
    }
    if (!(fabs(value) >= PLAIN_LIMIT) || isinf(value))
        return number_write_double(out, value);
    len = number_write_double(text, value);
    if (!memchr(text, 'e', len))
        return with_exponent(out, text, len);
    memcpy(out, text, len);
    return len;
}

size_t value_write_fixed(char out[VALUE_TEXT_MAX], double value)
{
    double size = fabs(value);
    uint64_t thousandths = size < 1e9 ? (uint64_t)(size * 1000 + 0.5) : 0;
    size_t len = 0;
    int written;

    if (!isfinite(value))
        return number_write_double(out, value);
    /* Below 1e9 a double lies nearer to its shortest text than half of the sixth decimal: whole thousandths, which most
     * measurements are, need no correct rounding of their own. */
    if (thousandths && (double)thousandths / 1000 == size) {
        if (value < 0)
            out[len++] = '-';
        len += number_write_u64(out + len, thousandths / 1000);
        out[len++] = '.';
        for (uint64_t unit = 100; unit; unit /= 10)
            out[len++] = (char)('0' + thousandths / unit % 10);
        memcpy(out + len, "000", 3);
        return len + 3;
    }
    written = snprintf(out, VALUE_TEXT_MAX, "%f", value);
    return written > 0 ? (size_t)written : 0;
}
