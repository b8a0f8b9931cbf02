/* SPDX-License-Identifier: Apache-2.0 */
/* The members of the object around a trace's event list. The text is cut where the list stood and closed again. */
#include <string.h>

#include "base/owner.h"
#include "verb/trace/clean_json.h"
#include "verb/trace/cut.h"

enum { AROUND_MAX = 64 << 20 };

static size_t without_blanks(const char *bytes, size_t len)
{
    while (len > 0 && strchr(" \n\r\t", bytes[len - 1]) && bytes[len - 1])
        len--;
    return len;
}

/* Strips `c` and the blanks before it off the end. */
static bool strip(const char *bytes, size_t *len, char c)
{
    *len = without_blanks(bytes, *len);
    if (*len == 0 || bytes[*len - 1] != c)
        return false;
    *len = without_blanks(bytes, *len - 1);
    return true;
}

/* An object's text to its members. */
static bool members_of(const char *object, size_t len, Str *out)
{
    CLEANUP(str_done) Str clean = {0};

    str_init(&clean, AROUND_MAX);
    if (!clean_json(object, len, &clean))
        return false;
    const char *open = memchr(clean.text, '{', clean.len);
    size_t end = without_blanks(clean.text, clean.len);
    if (!open || end < 2)
        return false;
    size_t from = (size_t)(open + 1 - clean.text);
    from += strspn(clean.text + from, " \n\r\t");
    end = without_blanks(clean.text, end - 1);
    if (end > from)
        str_addn(out, clean.text + from, end - from);
    return true;
}

/* `{ members, "traceEvents": [` */
bool trace_cut_head(const char *bytes, size_t len, Str *out)
{
    static const char list[] = "\"traceEvents\"";
    CLEANUP(str_done) Str object = {0};

    if (!strip(bytes, &len, '['))
        return false;
    if (len == 0) /* a bare list */
        return true;
    if (!strip(bytes, &len, ':') || len < sizeof list - 1 ||
        memcmp(bytes + len - (sizeof list - 1), list, sizeof list - 1) != 0)
        return false;
    len -= sizeof list - 1;
    str_init(&object, AROUND_MAX);
    str_addn(&object, bytes, len);
    str_addc(&object, '}');
    return !object.overflow && members_of(object.text, object.len, out);
}

/* `], members }` */
bool trace_cut_tail(const char *bytes, size_t len, Str *out)
{
    CLEANUP(str_done) Str object = {0};
    const char *at = bytes, *end = bytes + without_blanks(bytes, len);

    while (at < end && strchr(" \n\r\t,", *at))
        at++;
    if (at == end || *at != ']')
        return false;
    at++;
    while (at < end && strchr(" \n\r\t", *at))
        at++;
    if (at == end || (*at == '}' && at + 1 == end)) /* a bare list; nothing behind the list */
        return true;
    if (*at != ',')
        return false;
    str_init(&object, AROUND_MAX);
    str_addc(&object, '{');
    str_addn(&object, at + 1, (size_t)(end - at - 1));
    return !object.overflow && members_of(object.text, object.len, out);
}
