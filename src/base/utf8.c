/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

#include <locale.h>
#include <stdlib.h>
#include <wchar.h>

#include "base/cleanup.h"

size_t utf8_read(const char *text, size_t len, uint32_t *ret)
{
    const unsigned char *at = (const unsigned char *)text, first = len ? at[0] : 0xff;
    const size_t need = first < 0x80   ? 1
                        : first < 0xc2 ? 0
                        : first < 0xe0 ? 2
                        : first < 0xf0 ? 3
                        : first < 0xf5 ? 4
                                       : 0;
    uint32_t c = need == 1 ? first : first & (0xffu >> (need + 1));

    if (!need || need > len)
        return 0;
    for (size_t i = 1; i < need; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (at[i] & 0x3f);
    }
    if ((need == 3 && c < 0x800) || (need == 4 && c < 0x10000) || (c >= 0xd800 && c <= 0xdfff) || c > 0x10ffff)
        return 0;
    *ret = c;
    return need;
}

size_t utf8_write(char out[UTF8_MAX], uint32_t c)
{
    const size_t need = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char marks[] = {0, 0, 0xc0, 0xe0, 0xf0};

    for (size_t i = need - 1; i > 0; i--, c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(marks[need] | c);
    return need;
}

/* Format characters (category Cf of Unicode) that a terminal obeys or drops. */
static const uint32_t FORMATS[][2] = {
    {0x00ad, 0x00ad}, {0x061c, 0x061c}, {0x180e, 0x180e},   {0x200b, 0x200f},   {0x2028, 0x202e},   {0x2060, 0x206f},
    {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0x13430, 0x13438}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe007f},
};

size_t utf8_count(const char *text, size_t len)
{
    size_t count = 0;

    for (size_t i = 0; i < len; i++)
        count += ((unsigned char)text[i] & 0xc0) != 0x80;
    return count;
}

int utf8_columns(uint32_t c)
{
    static locale_t utf8;

    if (c < 0x80)
        return c < 0x20 || c == 0x7f ? -1 : 1;
    for (size_t i = 0; i < ARRAY_LEN(FORMATS); i++)
        if (c >= FORMATS[i][0] && c <= FORMATS[i][1])
            return -1;
    if (!utf8 && !(utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0)))
        return 1;
    const locale_t before = uselocale(utf8);
    const int width = wcwidth((wchar_t)c);
    uselocale(before);
    return width;
}
