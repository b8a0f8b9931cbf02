/* SPDX-License-Identifier: Apache-2.0 */
#include "service/report/clean.h"

#include <string.h>

#include "base/utf8.h"

size_t clean_next(const char *text, size_t len, uint32_t *ret)
{
    const size_t bytes = utf8_read(text, len, ret);

    if (bytes)
        return bytes;
    *ret = CLEAN_BAD;
    return 1;
}

typedef struct Range {
    uint32_t from, to;
} Range;

/* Unicode 15: general categories Mn and Me of the scripts met in names, and format characters. */
static const Range none[] = {{0x300, 0x36f},   {0x483, 0x489},   {0x591, 0x5bd},     {0x610, 0x61a},
                             {0x64b, 0x65f},   {0x93c, 0x93c},   {0x941, 0x948},     {0x94d, 0x94d},
                             {0xe31, 0xe31},   {0xe34, 0xe3a},   {0x1ab0, 0x1aff},   {0x1dc0, 0x1dff},
                             {0x200b, 0x200d}, {0x2060, 0x2060}, {0x20d0, 0x20f0},   {0xfe00, 0xfe0f},
                             {0xfe20, 0xfe2f}, {0xfeff, 0xfeff}, {0x1f3fb, 0x1f3ff}, {0xe0100, 0xe01ef}};
/* Unicode 15: East Asian Width W and F, by block. */
static const Range wide[] = {{0x1100, 0x115f},   {0x2e80, 0x303e},   {0x3041, 0x33ff},   {0x3400, 0x4dbf},
                             {0x4e00, 0x9fff},   {0xa000, 0xa4cf},   {0xa960, 0xa97f},   {0xac00, 0xd7a3},
                             {0xf900, 0xfaff},   {0xfe30, 0xfe6f},   {0xff00, 0xff60},   {0xffe0, 0xffe6},
                             {0x16fe0, 0x18cff}, {0x1b000, 0x1b2ff}, {0x1f300, 0x1f64f}, {0x1f680, 0x1f6ff},
                             {0x1f900, 0x1f9ff}, {0x1fa70, 0x1faff}, {0x20000, 0x3fffd}};

static bool is_within(uint32_t c, const Range *ranges, size_t count)
{
    for (size_t i = 0; i < count && ranges[i].from <= c; i++)
        if (c <= ranges[i].to)
            return true;
    return false;
}

unsigned clean_columns(uint32_t c)
{
    if (c < 0x300)
        return 1;
    if (is_within(c, none, sizeof(none) / sizeof(none[0])))
        return 0;
    return is_within(c, wide, sizeof(wide) / sizeof(wide[0])) ? 2 : 1;
}

size_t clean_width(const char *text)
{
    size_t len = strlen(text), columns = 0;

    for (size_t at = 0; at < len;) {
        uint32_t c;

        at += clean_next(text + at, len - at, &c);
        columns += clean_columns(c == CLEAN_BAD ? '?' : c);
    }
    return columns;
}

/* C0, DEL and C1, line and paragraph ends, and the marks and brackets that turn the direction (UAX 9). */
static bool leads_astray(uint32_t c)
{
    return c == CLEAN_BAD || c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || (c >= 0x200e && c <= 0x200f) ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0xfeff;
}

void clean_add(Str *str, const char *text, bool utf8)
{
    size_t len = strlen(text);

    for (size_t at = 0, step; at < len; at += step) {
        uint32_t c;

        step = clean_next(text + at, len - at, &c);
        if (c == '\n' || c == '\t')
            str_addc(str, ' ');
        else if (leads_astray(c))
            str_add(str, utf8 ? UTF8_REPLACEMENT : "?");
        else if (c >= 0x80 && !utf8)
            str_addc(str, '?');
        else
            str_addn(str, text + at, step);
    }
}
