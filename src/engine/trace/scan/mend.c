/* SPDX-License-Identifier: Apache-2.0 */
/* Damaged text: where to go on behind a fault, and what an event with a fault in it probably said. A stray quote in a
 * text is told from its end by what follows: an end is followed by the next key. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/owner.h"
#include "engine/trace/scan/inside.h"

enum {
    BLANKS_MAX = 64,       /* between the parts of what is looked for */
    KEY_MAX = 64,          /* of args in damaged events */
    NEST_BUDGET = 1 << 20, /* bytes walked over for nothing in one event */
};

static const char *const event_keys[] = {"ph", "cat", "name", "pid", "tid", "ts", "dur", "args", "id", "s", "bp"};

/* --- places ------------------------------------------------------------------------------------------------------- */

typedef enum Sure { NO, YES, CUT } Sure; /* CUT: the text ends before it can be told */

/* Over blanks: CUT at the end, NO where there are too many. */
static Sure over_blanks(const char **p, const char *end)
{
    const char *from = *p;

    while (*p < end && walk_blank(**p) && *p - from <= BLANKS_MAX)
        ++*p;
    if (*p == end)
        return CUT;
    return *p - from <= BLANKS_MAX ? YES : NO;
}

/* `"key" :` at p, one of an event's own keys; `first`: one that an event begins with and little else does, and no
 * quote is missing. */
static Sure key_here(const char *p, const char *end, bool first)
{
    if (p == end)
        return CUT;
    if (*p++ != '"')
        return NO;
    for (size_t i = 0; i < ARRAY_LEN(event_keys) - (first ? 3 : 0); i++) {
        const char *key = event_keys[i], *q = p;

        while (q < end && *key && *q == *key)
            q++, key++;
        if (q == end)
            return CUT;
        if (*key || (*q != '"' && (first || *q != ':')))
            continue;
        q += *q == '"'; /* the quote behind it may be missing where the place is sure */
        const Sure sure = over_blanks(&q, end);

        return sure != YES ? sure : *q == ':' ? YES : NO;
    }
    return NO;
}

/* The last byte before p that is no blank; 0: none near. */
static char before(const char *p, const char *origin)
{
    const char *from = p;

    while (p > origin && walk_blank(p[-1]) && from - p <= BLANKS_MAX)
        p--;
    return p > origin ? p[-1] : 0;
}

static Sure event_here(const char *p, const char *end, const char *origin)
{
    const char *q = p + 1;

    if (before(p, origin) == ':')
        return NO;
    const Sure sure = over_blanks(&q, end);

    return sure == YES ? key_here(q, end, true) : sure;
}

/* "} ]" and then '}' or ', "' or nothing more. */
static Sure end_here(const char *p, const char *end, const char *origin, bool final)
{
    const char *q = p + 1;

    if (before(p, origin) != '}')
        return NO;
    Sure sure = over_blanks(&q, end);

    if (sure == CUT)
        return final ? YES : CUT;
    if (sure == NO || *q == '}')
        return *q == '}' ? YES : NO;
    if (*q++ != ',')
        return NO;
    sure = over_blanks(&q, end);
    return sure == YES ? (*q == '"' ? YES : NO) : sure;
}

/* `"traceEvents" : [` */
static Sure list_here(const char *p, const char *end)
{
    static const char key[] = "\"traceEvents\"";

    for (size_t i = 0; i < sizeof key - 1; i++, p++) {
        if (p == end)
            return CUT;
        if (*p != key[i])
            return NO;
    }
    Sure sure = over_blanks(&p, end);

    if (sure != YES || *p++ != ':')
        return sure == CUT ? CUT : NO;
    sure = over_blanks(&p, end);
    return sure == YES ? (*p == '[' ? YES : NO) : sure;
}

const char *mend_event(const char *from, const char *end, const char *origin)
{
    for (const char *p = from; (p = memchr(p, '{', (size_t)(end - p))); p++)
        if (event_here(p, end, origin) == YES)
            return p;
    return NULL;
}

const char *mend_place(const char *from, const char *end, const char *origin, bool final)
{
    for (const char *p = from; p < end; p++) {
        Sure sure = NO;

        if (*p == '{')
            sure = event_here(p, end, origin);
        else if (*p == ']')
            sure = end_here(p, end, origin, final);
        else if (*p == '"')
            sure = list_here(p, end);
        if (sure == YES)
            return p;
        if (sure == CUT && !final)
            return NULL;
    }
    return NULL;
}

/* --- events ------------------------------------------------------------------------------------------------------- */

typedef struct Mender {
    const char *p, *end;
    char *out;
    size_t len, cap;
    size_t budget;
    bool args; /* within "args" */
} Mender;

static void put(Mender *m, const char *bytes, size_t len)
{
    if (m->len + len > m->cap) {
        m->cap = (m->len + len) * 2 + 1024;
        m->out = xrealloc(m->out, m->cap, 1);
    }
    memcpy(m->out + m->len, bytes, len);
    m->len += len;
}

static bool escape_stands(const char *p, const char *end)
{
    if (end - p < 2 || !strchr("\"\\/bfnrtu", p[1]) || !p[1])
        return false;
    if (p[1] != 'u')
        return true;
    for (int i = 2; i < 6; i++)
        if (p + i >= end || !strchr("0123456789abcdefABCDEF", p[i]) || !p[i])
            return false;
    return true;
}

/* A text as JSON wants it: quotes and what is below a blank escaped, wrong escapes made backslashes. */
static void put_text(Mender *m, const char *p, const char *end)
{
    static const char hex[] = "0123456789abcdef";

    put(m, "\"", 1);
    while (p < end) {
        const unsigned char c = (unsigned char)*p;

        if (c == '\\' && escape_stands(p, end)) {
            put(m, p, 2);
            p += 2;
            continue;
        }
        if (c == '\\' || c == '"')
            put(m, "\\", 1);
        if (c < ' ')
            put(m, (const char[]){'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]}, 6);
        else
            put(m, p, 1);
        p++;
    }
    put(m, "\"", 1);
}

static bool skip_blanks(Mender *m)
{
    while (m->p < m->end && walk_blank(*m->p))
        m->p++;
    return m->p < m->end;
}

static bool key_byte(char c)
{
    return walk_word_byte(c) || memchr(" %()&#@", c, 7);
}

/* `"key" :` at p, whatever this level's keys look like. */
static bool key_follows(const Mender *m, const char *p)
{
    if (!m->args)
        return key_here(p, m->end, false) == YES;
    if (p == m->end || *p++ != '"')
        return false;
    const char *from = p;

    while (p < m->end && p - from < KEY_MAX && key_byte(*p))
        p++;
    if (p == from || p == m->end || *p++ != '"')
        return false;
    while (p < m->end && walk_blank(*p))
        p++;
    return p < m->end && *p == ':';
}

/* What may follow a value: a comma and a key, the end of this object, or a key without its comma. */
static bool value_ends(const Mender *m, const char *p)
{
    while (p < m->end && walk_blank(*p))
        p++;
    if (p == m->end)
        return false;
    if (*p == '}' || *p == '"')
        return *p == '}' || key_follows(m, p);
    if (*p++ != ',')
        return false;
    while (p < m->end && (walk_blank(*p) || *p == ','))
        p++;
    return p < m->end && (*p == '}' || key_follows(m, p) || (*p != '"' && key_byte(*p)));
}

/* A '}' that ends an object, by what is behind it. */
static bool object_ends(const Mender *m, const char *p)
{
    for (p++; p < m->end && walk_blank(*p); p++)
        ;
    return p == m->end || *p == ',' || *p == '}' || *p == ']';
}

static const char *back_over_blanks(const char *p, const char *from)
{
    while (p > from && walk_blank(p[-1]))
        p--;
    return p;
}

/* A text with faults in it: it ends where a comma and a key, or the object's end, follow; with its quote or without.
 * NULL: nowhere. *ret_after: behind its quote. */
static const char *damaged_text_end(const Mender *m, const char *from, const char **ret_after)
{
    for (const char *p = from; p < m->end; p++) {
        const char *key = p + 1;

        if (*p != ',' && *p != '}')
            continue;
        const char *back = back_over_blanks(p, from);
        const bool quote = back > from && back[-1] == '"';

        if (*p == ',') {
            while (key < m->end && walk_blank(*key))
                key++;
            if (!key_follows(m, key))
                continue;
        } else if (!quote || !object_ends(m, p)) {
            continue;
        }
        *ret_after = back;
        return back - quote;
    }
    return NULL;
}

static bool mend_text(Mender *m, const char *from)
{
    const char *after = NULL, *end;
    SliceKind kind;
    const char *strict = m->p[0] == '"' ? walk_text(from, m->end, &kind) : NULL;

    if (strict && value_ends(m, strict)) {
        put_text(m, from, strict - 1);
        m->p = strict;
        return true;
    }
    end = damaged_text_end(m, from, &after);
    if (!end)
        return false;
    put_text(m, from, end);
    m->p = after;
    return true;
}

static bool number_stands(const char *p, const char *end)
{
    const char *digits;

    p += p < end && *p == '-';
    digits = p;
    while (p < end && *p >= '0' && *p <= '9')
        p++;
    if (p == digits || (*digits == '0' && p > digits + 1))
        return false;
    if (p < end && *p == '.') {
        digits = ++p;
        while (p < end && *p >= '0' && *p <= '9')
            p++;
        if (p == digits)
            return false;
    }
    if (p < end && (*p | 0x20) == 'e') {
        p++;
        p += p < end && (*p == '+' || *p == '-');
        digits = p;
        while (p < end && *p >= '0' && *p <= '9')
            p++;
        if (p == digits)
            return false;
    }
    return p == end;
}

static bool word_is(const char *p, size_t len, const char *word)
{
    return len == strlen(word) && memcmp(p, word, len) == 0;
}

/* A number or a word; "N/A", "nan" and nothing at all become null. A quote behind it: the one before it is missing. */
static bool mend_word(Mender *m)
{
    const char *from = m->p, *p = from;

    while (p < m->end && walk_word_byte(*p))
        p++;
    if (p < m->end && *p == '"' && p > from && !key_follows(m, p))
        return mend_text(m, from);
    if (!value_ends(m, p)) {
        const char *after;

        return p > from && damaged_text_end(m, from, &after) ? mend_text(m, from) : false;
    }
    const size_t len = (size_t)(p - from);

    if (number_stands(from, p) || word_is(from, len, "true") || word_is(from, len, "false"))
        put(m, from, len);
    else
        put(m, "null", 4);
    m->p = p;
    return true;
}

static bool mend_members(Mender *m);

static bool mend_value(Mender *m, bool is_args)
{
    const char *fault;

    if (!skip_blanks(m))
        return false;
    if (*m->p == '"')
        return mend_text(m, m->p + 1);
    if (*m->p != '{' && *m->p != '[')
        return mend_word(m);
    if (is_args && *m->p == '{') {
        m->args = true;
        const bool fine = mend_members(m);

        m->args = false;
        return fine;
    }
    const char *p = walk_nest(m->p, m->end, &fault);

    if (p && value_ends(m, p)) {
        put(m, m->p, (size_t)(p - m->p));
        m->p = p;
        return true;
    }
    /* Up to the next key of this level it says nothing. */
    const char *after;
    const char *stop = damaged_text_end(m, m->p + 1, &after);

    if (!stop || (size_t)(m->end - m->p) > m->budget)
        return false;
    m->budget -= (size_t)(m->end - m->p);
    put(m, "null", 4);
    m->p = after;
    return true;
}

/* A key with both quotes, or without one of them or both; *is_args: it is "args" of the event. */
static bool mend_key(Mender *m, bool *is_args)
{
    const bool quoted = *m->p == '"';
    const char *from = m->p + quoted, *p = from;

    while (p < m->end && *p != '"' && *p != ':' && *p != '\n' && p - from < 256)
        p++;
    if (p < m->end && quoted && *p != '"') { /* a colon within a key, or the quote behind it is missing */
        const char *q = memchr(p, '"', (size_t)(m->end - p));

        if (q && q + 1 < m->end && q - from < 256 && !memchr(p, ',', (size_t)(q - p)) && q[1] == ':')
            p = q;
    }
    if (p == m->end || p == from)
        return false;
    const char *end = back_over_blanks(p, from);

    if (end == from)
        return false;
    m->p = p + (*p == '"');
    if (!skip_blanks(m) || *m->p != ':')
        return false;
    m->p++;
    put_text(m, from, end);
    put(m, ":", 1);
    *is_args = !m->args && end - from == 4 && memcmp(from, "args", 4) == 0;
    return true;
}

/* From '{' to behind '}'. */
static bool mend_members(Mender *m)
{
    bool first = true;

    m->p++;
    put(m, "{", 1);
    for (;;) {
        bool is_args;

        while (skip_blanks(m) && *m->p == ',')
            m->p++;
        if (m->p == m->end)
            return false;
        if (*m->p == '}')
            break;
        if (!first)
            put(m, ",", 1);
        first = false;
        if (!mend_key(m, &is_args) || !mend_value(m, is_args))
            return false;
    }
    m->p++;
    put(m, "}", 1);
    return true;
}

size_t mend_write(TraceScan *scan, const char *p, const char *end, const char **ret_after)
{
    Mender m = {.p = p, .end = end, .out = scan->mended, .cap = scan->mended_cap, .budget = NEST_BUDGET};
    const bool fine = mend_members(&m);
    const size_t len = m.len;

    for (int i = 0; i < SCAN_PAD; i++)
        put(&m, "", 1);
    scan->mended = m.out;
    scan->mended_cap = m.cap;
    *ret_after = m.p;
    return fine ? len : 0;
}
