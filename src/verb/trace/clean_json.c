/* SPDX-License-Identifier: Apache-2.0 */
/* One walk over the text; `from` is where the stretch begins that is right so far and not yet copied. */
#include "verb/trace/clean_json.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

typedef struct Clean {
    const char *at, *end, *from;
    Str *out;
} Clean;

static void copy_up_to(Clean *c, const char *to)
{
    str_addn(c->out, c->from, (size_t)(to - c->from));
    c->from = to;
}

/* What stands from at to `to` is replaced by `text`. */
static void replace(Clean *c, const char *to, const char *text)
{
    copy_up_to(c, c->at);
    str_add(c->out, text);
    c->at = c->from = to;
}

static void blanks(Clean *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\r' || *c->at == '\t'))
        c->at++;
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
}

static bool escape(Clean *c)
{
    const char *at = c->at;

    if (at + 1 >= c->end)
        return false;
    if (at[1] && strchr("\"\\/bfnrt", at[1])) {
        c->at += 2;
        return true;
    }
    if (at[1] == 'u' && c->end - at >= 6 && is_hex(at[2]) && is_hex(at[3]) && is_hex(at[4]) && is_hex(at[5])) {
        c->at += 6;
        return true;
    }
    replace(c, at + 1, "\\\\");
    return true;
}

static bool text(Clean *c)
{
    for (c->at++; c->at < c->end;) {
        unsigned char b = (unsigned char)*c->at;
        uint32_t character;
        size_t n;
        char room[8];
        if (b == '"') {
            c->at++;
            return true;
        }
        if (b == '\\') {
            if (!escape(c))
                return false;
        } else if (b < 0x20) {
            snprintf(room, sizeof room, "\\u%04x", b);
            replace(c, c->at + 1, room);
        } else if (b < 0x80) {
            c->at++;
        } else if ((n = utf8_read(c->at, (size_t)(c->end - c->at), &character)) > 0) {
            c->at += n;
        } else {
            replace(c, c->at + 1, UTF8_REPLACEMENT);
        }
    }
    return false;
}

static bool is_number(const char *at, const char *end)
{
    const char *p = at;

    if (p < end && *p == '-')
        p++;
    const char *digits = p;
    while (p < end && *p >= '0' && *p <= '9')
        p++;
    if (p == digits || (*digits == '0' && p - digits > 1))
        return false;
    if (p < end && *p == '.') {
        const char *fraction = ++p;
        while (p < end && *p >= '0' && *p <= '9')
            p++;
        if (p == fraction)
            return false;
    }
    if (p < end && (*p | 0x20) == 'e') {
        p++;
        if (p < end && (*p == '+' || *p == '-'))
            p++;
        const char *exponent = p;
        while (p < end && *p >= '0' && *p <= '9')
            p++;
        if (p == exponent)
            return false;
    }
    return p == end;
}

static bool is_word(const char *at, size_t len, const char *word)
{
    return strlen(word) == len && memcmp(at, word, len) == 0;
}

static bool bare(Clean *c)
{
    const char *at = c->at, *p = at;

    while (p < c->end && !strchr(" \n\r\t,:]}[{\"", *p) && (unsigned char)*p >= 0x20 && (unsigned char)*p < 0x80)
        p++;
    size_t len = (size_t)(p - at);
    if (len == 0 || memchr(at, '\\', len))
        return false;
    if (is_number(at, p) || is_word(at, len, "true") || is_word(at, len, "false") || is_word(at, len, "null")) {
        c->at = p;
        return true;
    }
    copy_up_to(c, at);
    str_addc(c->out, '"');
    c->from = at;
    copy_up_to(c, p);
    str_addc(c->out, '"');
    c->at = p;
    return true;
}

/* A comma that nothing follows goes; the brackets' contents are walked without recursion. */
typedef struct Open {
    char close[CLEAN_DEPTH_MAX];
    int depth;
} Open;

/* Before a value, inside `open`: reads "key": where it is an object. */
static bool key(Clean *c)
{
    if (c->at >= c->end || *c->at != '"' || !text(c))
        return false;
    blanks(c);
    if (c->at >= c->end || *c->at != ':')
        return false;
    c->at++;
    blanks(c);
    return true;
}

/* After a value: closes what ends here and stands at the next value, or with depth 0 at the end. */
static bool after_value(Clean *c, Open *open)
{
    while (open->depth > 0) {
        blanks(c);
        if (c->at >= c->end)
            return false;
        if (*c->at == open->close[open->depth - 1]) {
            open->depth--;
            c->at++;
            continue;
        }
        if (*c->at != ',')
            return false;
        const char *comma = c->at++;
        blanks(c);
        if (c->at < c->end && *c->at == open->close[open->depth - 1]) {
            const char *close = c->at;
            c->at = comma;
            replace(c, comma + 1, "");
            c->at = close;
            continue;
        }
        return open->close[open->depth - 1] == ']' || key(c);
    }
    return true;
}

/* A bracket opens: stands at its first value, or behind its end where it is empty. */
static bool begin_nest(Clean *c, Open *open, bool *ret_empty)
{
    char close = *c->at == '{' ? '}' : ']';

    c->at++;
    blanks(c);
    *ret_empty = c->at < c->end && *c->at == close;
    if (*ret_empty) {
        c->at++;
        return true;
    }
    if (open->depth == CLEAN_DEPTH_MAX)
        return false;
    open->close[open->depth++] = close;
    return close == ']' || key(c);
}

static bool value(Clean *c)
{
    Open open = {.depth = 0};

    do {
        bool done = true;
        blanks(c);
        if (c->at >= c->end)
            return false;
        if (*c->at == '{' || *c->at == '[') {
            if (!begin_nest(c, &open, &done))
                return false;
        } else if (!(*c->at == '"' ? text(c) : bare(c))) {
            return false;
        }
        if (done && !after_value(c, &open))
            return false;
    } while (open.depth > 0);
    return true;
}

bool clean_json(const char *bytes, size_t len, Str *out)
{
    size_t before = out->len;
    Clean c = {.at = bytes, .end = bytes + len, .from = bytes, .out = out};
    bool fine = value(&c);

    if (fine) {
        copy_up_to(&c, c.at);
        blanks(&c);
        fine = c.at == c.end;
    }
    if (!fine)
        str_cut(out, before);
    return fine && !out->overflow;
}
