/* SPDX-License-Identifier: Apache-2.0 */
#include "source/slurm/hostlist.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"

#define NUMBER_MAX UINT64_C(999999999)

typedef struct Expansion {
    void (*each)(void *at, const char *name, size_t len);
    void *at;
    char name[HOSTLIST_NAME_MAX + 1];
    size_t len, count, brackets;
    Err *err;
} Expansion;

static int expand_rest(Expansion *e, const char *text, size_t len);

static int refuse_list(const Expansion *e, const char *what, const char *text, size_t len)
{
    return err_set(e->err, -EINVAL, "%s in the node list at '%.*s'", what, (int)number_min_u64(len, 60), text);
}

static int append_part(Expansion *e, const char *text, size_t len)
{
    if (len > HOSTLIST_NAME_MAX - e->len)
        return refuse_list(e, "a name over 255 characters", text, len);
    memcpy(e->name + e->len, text, len);
    e->len += len;
    return 0;
}

static int emit_name(Expansion *e)
{
    if (e->len == 0)
        return 0;
    if (e->count++ == HOSTLIST_MAX)
        return err_set(e->err, -E2BIG, "more than %d names in a node list", HOSTLIST_MAX);
    e->name[e->len] = '\0';
    e->each(e->at, e->name, e->len);
    return 0;
}

/* "01-04" or "7" in a bracket, each followed by what stands behind the bracket. */
static int expand_range(Expansion *e, const char *range, size_t len, const char *rest, size_t rest_len)
{
    const char *dash = memchr(range, '-', len);
    const size_t width = dash ? (size_t)(dash - range) : len, kept = e->len;
    uint64_t first, last;
    char digits[16];

    if (number_parsen_u64(range, width, 0, NUMBER_MAX, &first, NULL) < 0 || width >= sizeof digits)
        return refuse_list(e, "no number", range, len);
    last = first;
    if (dash && number_parsen_u64(dash + 1, len - width - 1, first, NUMBER_MAX, &last, NULL) < 0)
        return refuse_list(e, "no range", range, len);
    for (uint64_t n = first; n <= last; n++) {
        const int written = snprintf(digits, sizeof digits, "%0*u", (int)width, (unsigned)n);

        TRY(append_part(e, digits, (size_t)written));
        TRY(expand_rest(e, rest, rest_len));
        e->len = kept;
    }
    return 0;
}

static int expand_bracket(Expansion *e, const char *open, size_t len)
{
    const char *close = memchr(open, ']', len), *at = open + 1;

    if (!close)
        return refuse_list(e, "no ']'", open, len);
    if (e->brackets == HOSTLIST_BRACKETS_MAX)
        return refuse_list(e, "more than 8 brackets in a name", open, len);
    e->brackets++;
    while (at <= close) {
        const char *comma = memchr(at, ',', (size_t)(close - at)), *end = comma ? comma : close;

        TRY(expand_range(e, at, (size_t)(end - at), close + 1, len - (size_t)(close + 1 - open)));
        at = end + 1;
    }
    e->brackets--;
    return 0;
}

/* What is left of one name. */
static int expand_rest(Expansion *e, const char *text, size_t len)
{
    const char *open = memchr(text, '[', len);
    const size_t plain = open ? (size_t)(open - text) : len;

    TRY(append_part(e, text, plain));
    return open ? expand_bracket(e, open, len - plain) : emit_name(e);
}

int hostlist_expand(const char *text, size_t len, void (*each)(void *at, const char *name, size_t len), void *at,
                    Err *err)
{
    Expansion e = {.each = each, .at = at, .err = err};
    size_t from = 0, depth = 0;

    for (size_t i = 0; i <= len; i++) {
        if (i < len && (text[i] != ',' || depth > 0)) {
            depth += text[i] == '[';
            depth -= text[i] == ']' && depth > 0;
            continue;
        }
        TRY(expand_rest(&e, text + from, i - from));
        e.len = 0;
        from = i + 1;
    }
    return 0;
}

/* --- from names to a list ----------------------------------------------------------------------------------------- */

/* Where the number at the end of a name begins; its length where it has none that a range can hold. */
static size_t find_number(const char *name)
{
    size_t at = strlen(name);

    for (size_t digits = 0; at > 0 && name[at - 1] >= '0' && name[at - 1] <= '9' && digits < 9; digits++)
        at--;
    return at > 0 && name[at - 1] >= '0' && name[at - 1] <= '9' ? strlen(name) : at;
}

static bool share_bracket(const char *a, const char *b)
{
    const size_t at = find_number(a);

    return a[at] && find_number(b) == at && b[at] && memcmp(a, b, at) == 0;
}

/* How many names from names[0] on count upwards, as a range writes them. */
static size_t count_range(const char *const *names, size_t count)
{
    const char *first = names[0] + find_number(names[0]);
    uint64_t number = 0;
    size_t n = 1;
    char digits[16];

    (void)number_parse_u64(first, 0, NUMBER_MAX, &number, NULL);
    for (; n < count && share_bracket(names[0], names[n]); n++) {
        snprintf(digits, sizeof digits, "%0*u", (int)strlen(first), (unsigned)(number + n));
        if (number + n > NUMBER_MAX || strcmp(digits, names[n] + find_number(names[n])) != 0)
            break;
    }
    return n;
}

void hostlist_add(const char *const *names, size_t count, Str *out)
{
    for (size_t i = 0; i < count;) {
        const size_t at = find_number(names[i]);
        size_t end = i + 1;

        str_add(out, i > 0 ? "," : "");
        while (end < count && share_bracket(names[i], names[end]))
            end++;
        if (end == i + 1) {
            str_add(out, names[i++]);
            continue;
        }
        str_addf(out, "%.*s[", (int)at, names[i]);
        for (size_t from = i; i < end;) {
            const size_t n = count_range(names + i, end - i);

            str_addf(out, "%s%s", i > from ? "," : "", names[i] + at);
            if (n > 1)
                str_addf(out, "-%s", names[i + n - 1] + at);
            i += n;
        }
        str_addc(out, ']');
    }
}
