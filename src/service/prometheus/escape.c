/* SPDX-License-Identifier: Apache-2.0 */
/* Escaping for the exposition formats. Pure, any thread. */

#include "service/prometheus/escape.h"

#include <string.h>

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
