/* SPDX-License-Identifier: Apache-2.0 */
/* Growable text. Invariant: text[len] is a NUL, len <= max; cap is 0 while text is the shared empty one. */
#include "base/str.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"

enum { STR_CAP_MIN = 64 };

/* What an empty Str points to. Never written to. */
static char nothing[1];

Str str_limited(size_t max_bytes)
{
    return (Str){.text = nothing, .max = max_bytes < SIZE_MAX / 4 ? max_bytes : SIZE_MAX / 4};
}

void str_init(Str *str, size_t max_bytes)
{
    *str = str_limited(max_bytes);
}

void str_init_room(Str *str, char *room, size_t size)
{
    assert(size > 0);
    *str = (Str){.text = room, .cap = size, .max = size - 1};
    room[0] = '\0';
}

void str_done(Str *str)
{
    if (str->cap)
        free(str->text);
    str_init(str, str->max);
}

void str_clear(Str *str)
{
    str->len = 0;
    str->overflow = false;
    if (str->cap)
        str->text[0] = '\0';
}

bool str_reserve(Str *str, size_t more)
{
    size_t wanted;

    if (more > str->max - str->len) {
        str->overflow = true;
        return false;
    }
    wanted = str->len + more + 1;
    if (wanted <= str->cap)
        return true;
    if (wanted < str->cap * 2)
        wanted = str->cap * 2;
    if (wanted < STR_CAP_MIN)
        wanted = STR_CAP_MIN;
    if (wanted > str->max + 1)
        wanted = str->max + 1;
    str->text = xrealloc(str->cap ? str->text : NULL, wanted, 1);
    str->cap = wanted;
    str->text[str->len] = '\0';
    return true;
}

void str_addn(Str *str, const char *text, size_t len)
{
    if (!len || !str_reserve(str, len))
        return;
    memcpy(str->text + str->len, text, len);
    str->len += len;
    str->text[str->len] = '\0';
}

void str_add(Str *str, const char *text)
{
    str_addn(str, text, strlen(text));
}

void str_addc(Str *str, char c)
{
    str_addn(str, &c, 1);
}

void str_addv(Str *str, const char *fmt, va_list args)
{
    va_list again;
    int len;

    va_copy(again, args);
    len = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    if (len < 0) {
        str->overflow = true;
        return;
    }
    if (!len || !str_reserve(str, (size_t)len))
        return;
    vsnprintf(str->text + str->len, (size_t)len + 1, fmt, args);
    str->len += (size_t)len;
}

void str_addf(Str *str, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    str_addv(str, fmt, args);
    va_end(args);
}

void str_add_wrapped(Str *str, const char *text, size_t at, size_t indent, size_t width)
{
    for (bool first = true; *text; first = false) {
        size_t len = strcspn(text, " \n");

        if (strncmp(text + len, " %", 2) == 0) /* belongs to the number before it */
            len += 1 + strcspn(text + len + 1, " \n");
        const size_t columns = utf8_count(text, len);
        if (!first && at + 1 + columns > width) {
            str_addf(str, "\n%*s", (int)indent, "");
            at = indent;
        } else if (!first) {
            str_addc(str, ' ');
            at++;
        }
        str_addn(str, text, len);
        at += columns;
        text += len;
        text += strspn(text, " \n");
    }
    str_addc(str, '\n');
}

void str_cut(Str *str, size_t len)
{
    assert(len <= str->len);
    str->len = len;
    if (str->cap)
        str->text[len] = '\0';
}

char *str_take(Str *str)
{
    char *text = str->cap ? str->text : xstrdup("");

    str_init(str, str->max);
    return text;
}

int str_check(const Str *str, const char *what, Err *err)
{
    if (!str->overflow)
        return 0;
    return err_set(err, -EFBIG, "%s is larger than %zu bytes", what, str->max);
}

void str_add_escaped(Str *str, const char *text, const char *end, const char *const escapes[STR_ESCAPES])
{
    const char *from = text;

    for (;;) {
        uint32_t wide;
        size_t width = 0;

        while (text != end && (signed char)*text > 0 && !escapes[(unsigned char)*text])
            text++;
        if (text != end && (signed char)*text < 0)
            width = utf8_read(text, end ? (size_t)(end - text) : strnlen(text, UTF8_MAX), &wide);
        text += width;
        if (width)
            continue;
        str_addn(str, from, (size_t)(text - from));
        if (text == end || (!end && !*text))
            return;
        str_add(str, (signed char)*text < 0 ? UTF8_REPLACEMENT : escapes[(unsigned char)*text]);
        from = ++text;
    }
}

void str_addn_json(Str *str, const char *text, size_t len)
{
    static const char *const escapes[STR_ESCAPES] = {
        "\\u0000", "\\u0001", "\\u0002", "\\u0003", "\\u0004", "\\u0005",      "\\u0006",      "\\u0007", "\\b",
        "\\t",     "\\n",     "\\u000b", "\\f",     "\\r",     "\\u000e",      "\\u000f",      "\\u0010", "\\u0011",
        "\\u0012", "\\u0013", "\\u0014", "\\u0015", "\\u0016", "\\u0017",      "\\u0018",      "\\u0019", "\\u001a",
        "\\u001b", "\\u001c", "\\u001d", "\\u001e", "\\u001f", ['"'] = "\\\"", ['\\'] = "\\\\"};

    str_addc(str, '"');
    str_add_escaped(str, text, text + len, escapes);
    str_addc(str, '"');
}

void str_add_json(Str *str, const char *text)
{
    str_addn_json(str, text, strlen(text));
}

void str_add_html(Str *str, const char *text)
{
    static const char *const escapes[STR_ESCAPES] = {['<'] = "&lt;", ['>'] = "&gt;", ['&'] = "&amp;"};

    str_add_escaped(str, text, NULL, escapes);
}

bool str_ends_with(const char *text, const char *end)
{
    const size_t len = strlen(text), want = strlen(end);

    return len >= want && strcmp(text + len - want, end) == 0;
}
