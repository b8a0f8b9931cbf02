/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of numbers and moments from text. */
#include "verb/trace/span.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "base/owner.h"

enum { FRACTION_DIGITS = 9 };

static const int64_t moment_max = INT64_C(1) << 61; /* as the scanner's */

/* Reads digits into *ret; returns what follows, NULL where there are none or too many. Times since 1970 have 19. */
static const char *digits(const char *at, int64_t *ret)
{
    int64_t value = 0;
    size_t n = strspn(at, "0123456789");

    if (n == 0)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        if (value > moment_max / 10)
            return NULL;
        value = value * 10 + (at[i] - '0');
    }
    *ret = value;
    return at + n;
}

int trace_numbers_parse(const char *text, const char *what, TraceNumbers *ret, Err *err)
{
    TraceNumbers numbers = {0};

    for (const char *at = text; at;) {
        int64_t first = 0, last;
        const char *end = digits(at, &first);
        last = first;
        if (end && *end == '-')
            end = digits(end + 1, &last);
        if (!end || (*end && *end != ',') || last < first)
            return err_set(err, -EINVAL, "%s: '%s' is no number, range (3-7) or list of these (0,4-6)", what, text);
        if (numbers.len == TRACE_RANGES_MAX)
            return err_set(err, -EINVAL, "%s: more than %d ranges", what, TRACE_RANGES_MAX);
        numbers.first[numbers.len] = first;
        numbers.last[numbers.len++] = last;
        at = *end ? end + 1 : NULL;
    }
    *ret = numbers;
    return 0;
}

bool trace_numbers_has(const TraceNumbers *numbers, int64_t number)
{
    for (size_t i = 0; i < numbers->len; i++)
        if (number >= numbers->first[i] && number <= numbers->last[i])
            return true;
    return numbers->len == 0;
}

/* "1.5s": a decimal number and one unit. False where it is something else. */
static bool decimal(const char *text, int64_t *ret)
{
    static const struct {
        const char *name;
        int64_t ns;
    } units[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}, {"m", 60000000000}, {"h", 3600000000000}};
    int64_t whole, scale = 0;
    const char *at = digits(text, &whole), *fraction = NULL;
    size_t fraction_len = 0;

    if (at && *at == '.') {
        fraction = at + 1;
        fraction_len = strspn(fraction, "0123456789");
        at = fraction + fraction_len;
    }
    for (size_t i = 0; at && i < ARRAY_LEN(units); i++)
        if (strcmp(at, units[i].name) == 0)
            scale = units[i].ns;
    if (scale == 0 || whole > moment_max / scale)
        return false;
    *ret = whole * scale;
    for (size_t i = 0; i < fraction_len && i < FRACTION_DIGITS + 4; i++) {
        scale /= 10;
        *ret += (fraction[i] - '0') * scale;
    }
    return true;
}

int trace_moment_parse(const char *text, const char *what, TraceMoment *ret, Err *err)
{
    bool minus = text && text[0] == '-';
    uint64_t span;
    int64_t ns;

    if (!text) {
        *ret = (TraceMoment){0};
        return 0;
    }
    const char *rest = digits(text + minus, &ns);
    if (rest && !*rest && ns <= moment_max)
        *ret = (TraceMoment){.given = true, .ns = minus ? -ns : ns};
    else if (decimal(text, &ns))
        *ret = (TraceMoment){.given = true, .relative = true, .ns = ns};
    else if (duration_parse(text, &span, NULL) == 0 && span < (uint64_t)moment_max)
        *ret = (TraceMoment){.given = true, .relative = true, .ns = (int64_t)span};
    else
        return err_set(err, -EINVAL,
                       "%s: '%s' is no time; give one after the profile's first event, such as 1.5s or 200ms, or "
                       "nanoseconds of the profile's own clock as a whole number",
                       what, text);
    return 0;
}
