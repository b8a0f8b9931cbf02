/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/nccl/span.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/number.h"

Span span_of(const char *text)
{
    return (Span){text, strlen(text)};
}

Span span_from(Span s, size_t begin)
{
    if (s.len == 0)
        return s; /* which may be of nothing at all */
    return begin < s.len ? (Span){s.at + begin, s.len - begin} : (Span){s.at + s.len, 0};
}

Span span_cut(Span s, size_t begin, size_t end)
{
    if (end < s.len)
        s.len = end;
    return span_from(s, begin);
}

bool span_starts(Span s, const char *literal)
{
    size_t len = strlen(literal);

    return s.len >= len && len && memcmp(s.at, literal, len) == 0;
}

bool span_starts_any(Span s, const char *const *literals, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (span_starts(s, literals[i]))
            return true;
    return false;
}

bool span_is(Span s, const char *literal)
{
    return s.len == strlen(literal) && span_starts(s, literal);
}

size_t span_find(Span s, const char *literal)
{
    const char *at = s.len ? memmem(s.at, s.len, literal, strlen(literal)) : NULL;

    return at ? (size_t)(at - s.at) : SPAN_NOWHERE;
}

size_t span_find_last(Span s, const char *literal)
{
    size_t len = strlen(literal);

    for (size_t end = s.len; end >= len; end--)
        if (memcmp(s.at + end - len, literal, len) == 0)
            return end - len;
    return SPAN_NOWHERE;
}

bool span_has(Span s, const char *literal)
{
    return span_find(s, literal) != SPAN_NOWHERE;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

void span_blanks(Span *s)
{
    size_t n = 0;

    while (n < s->len && is_blank(s->at[n]))
        n++;
    *s = span_from(*s, n);
}

bool span_skip(Span *s, const char *literal)
{
    if (!span_starts(*s, literal))
        return false;
    *s = span_from(*s, strlen(literal));
    return true;
}

bool span_next(Span *s, const char *literal)
{
    Span t = *s;

    span_blanks(&t);
    if (!span_skip(&t, literal))
        return false;
    *s = t;
    return true;
}

bool span_after(Span *s, const char *literal)
{
    size_t at = span_find(*s, literal);

    if (at == SPAN_NOWHERE)
        return false;
    *s = span_from(*s, at + strlen(literal));
    return true;
}

bool span_u64(Span *s, uint64_t *ret)
{
    Span t = *s;

    span_blanks(&t);
    size_t n = 0;
    while (n < t.len && t.at[n] >= '0' && t.at[n] <= '9')
        n++;
    if (n == 0 || number_parsen_u64(t.at, n, 0, UINT64_MAX, ret, NULL) < 0)
        return false;
    *s = span_from(t, n);
    return true;
}

bool span_i64(Span *s, int64_t *ret)
{
    Span t = *s;
    uint64_t value;

    span_blanks(&t);
    bool minus = span_skip(&t, "-");
    if ((minus && t.len && is_blank(t.at[0])) || !span_u64(&t, &value) || value > INT64_MAX)
        return false;
    *ret = minus ? -(int64_t)value : (int64_t)value;
    *s = t;
    return true;
}

void span_i64_after(Span s, const char *literal, int64_t *ret)
{
    if (span_after(&s, literal))
        span_i64(&s, ret);
}

bool span_int(Span *s, int *ret)
{
    Span t = *s;
    int64_t value;

    if (!span_i64(&t, &value) || value < INT_MIN || value > INT_MAX)
        return false;
    *ret = (int)value;
    *s = t;
    return true;
}

bool span_hex(Span *s, uint64_t *ret)
{
    Span t = *s;
    size_t n = 0;

    span_blanks(&t);
    span_skip(&t, "0x");
    while (n < t.len && memchr("0123456789abcdefABCDEF", t.at[n], 22))
        n++;
    if (n == 0 || n > NUMBER_HEX_MAX || number_parsen_hex(t.at, n, UINT64_MAX, ret, NULL) < 0)
        return false;
    *s = span_from(t, n);
    return true;
}

bool span_double(Span *s, double *ret)
{
    Span t = *s;
    size_t n = 0;

    span_blanks(&t);
    while (n < t.len && (strchr("+-.eE", t.at[n]) ? t.at[n] != '\0' : t.at[n] >= '0' && t.at[n] <= '9'))
        n++;
    if (n == 0 || number_parsen_double(t.at, n, -HUGE_VAL, HUGE_VAL, ret, NULL) < 0)
        return false;
    *s = span_from(t, n);
    return true;
}

Span span_word(Span *s)
{
    size_t n = 0;

    span_blanks(s);
    while (n < s->len && !is_blank(s->at[n]))
        n++;
    Span word = span_cut(*s, 0, n);
    *s = span_from(*s, n);
    return word;
}

Span span_until(Span *s, char c)
{
    const char *at = s->len ? memchr(s->at, c, s->len) : NULL;
    Span head = at ? span_cut(*s, 0, (size_t)(at - s->at)) : *s;

    *s = span_from(*s, head.len + (at != NULL));
    return head;
}

Span span_trim(Span s)
{
    span_blanks(&s);
    while (s.len && is_blank(s.at[s.len - 1]))
        s.len--;
    return s;
}
