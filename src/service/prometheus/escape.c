/* SPDX-License-Identifier: Apache-2.0 */
/* Escaping for the exposition formats. Pure, any thread. */

#include "service/prometheus/escape.h"

#include <string.h>

/* Bytes of the UTF-8 sequence at `at` (RFC 3629 section 4); 0 where there is none. A NUL ends every sequence. */
static size_t utf8_len(const unsigned char *at)
{
    static const struct {
        unsigned char first, last, second_min, second_max, len;
    } forms[] = {
        {0x01, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
        {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };

    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (at[0] < forms[i].first || at[0] > forms[i].last)
            continue;
        if (forms[i].len > 1 && (at[1] < forms[i].second_min || at[1] > forms[i].second_max))
            return 0;
        for (size_t k = 2; k < forms[i].len; k++)
            if (at[k] < 0x80 || at[k] > 0xbf)
                return 0;
        return forms[i].len;
    }
    return 0;
}

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
        const char *escape;

        str_addn(out, text, plain);
        text += plain;
        if (!*text)
            return;
        escape = escape_of(*text, kind);
        len = utf8_len((const unsigned char *)text);
        if (escape)
            str_add(out, escape);
        else if (len)
            str_addn(out, text, len);
        else
            str_add(out, "\xef\xbf\xbd");
        text += len ? len : 1;
    }
}
