/* SPDX-License-Identifier: Apache-2.0 */
/* Durations from and to text. */
#include "base/duration.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/number.h"
#include "base/cleanup.h"

typedef struct Unit {
    const char *name;
    uint64_t ns;
    bool exact_only; /* written only where the whole duration is a multiple */
} Unit;

/* From large to small, the order in which they may follow each other. */
static const Unit units[] = {
    {"y", NS_PER_YEAR, true}, {"w", NS_PER_WEEK, true}, {"d", NS_PER_DAY, false},
    {"h", NS_PER_H, false},   {"m", NS_PER_MIN, false}, {"s", NS_PER_S, false},
    {"ms", NS_PER_MS, false}, {"us", NS_PER_US, false}, {"ns", 1, false},
};

static size_t count_span(const char *text, size_t len, bool digits)
{
    size_t n = 0;

    while (n < len && (text[n] >= '0' && text[n] <= '9') == digits)
        n++;
    return n;
}

static size_t find_unit(const char *name, size_t len)
{
    size_t i = 0;

    while (i < ARRAY_LEN(units) && (strlen(units[i].name) != len || memcmp(units[i].name, name, len) != 0))
        i++;
    return i;
}

static int no_duration(const char *text, size_t len, Err *err)
{
    return err_set(err, -EINVAL, "'%.*s' is not a duration such as 100ms, 30s, 1h30m or 1d", (int)(len < 60 ? len : 60),
                   text);
}

int duration_parse(const char *text, uint64_t *ret_ns, Err *err)
{
    const size_t len = strlen(text);
    uint64_t sum = 0;
    size_t at = 0, next = 0;

    if (len == 1 && text[0] == '0') {
        *ret_ns = 0;
        return 0;
    }
    if (!len)
        return no_duration(text, len, err);
    while (at < len) {
        size_t digits = count_span(text + at, len - at, true);
        size_t letters = count_span(text + at + digits, len - at - digits, false);
        size_t unit = find_unit(text + at + digits, letters);
        uint64_t number = 0, part;

        if (!digits || unit == ARRAY_LEN(units) || unit < next)
            return no_duration(text, len, err);
        if (number_parsen_u64(text + at, digits, 0, UINT64_MAX, &number, NULL) < 0 ||
            __builtin_mul_overflow(number, units[unit].ns, &part) || __builtin_add_overflow(sum, part, &sum))
            return err_set(err, -ERANGE, "'%.*s' is longer than 584 years", (int)(len < 60 ? len : 60), text);
        next = unit + 1;
        at += digits + letters;
    }
    *ret_ns = sum;
    return 0;
}

size_t duration_format(char out[DURATION_TEXT_MAX], uint64_t ns)
{
    size_t len = 0;

    if (!ns)
        return (size_t)(stpcpy(out, "0s") - out);
    for (size_t i = 0; i < ARRAY_LEN(units) && ns; i++) {
        uint64_t count = ns / units[i].ns;

        if (!count || (units[i].exact_only && ns % units[i].ns))
            continue;
        len += number_write_u64(out + len, count);
        len += (size_t)(stpcpy(out + len, units[i].name) - (out + len));
        ns %= units[i].ns;
    }
    return len;
}

const char *duration_format_s(char out[DURATION_TEXT_MAX], double seconds)
{
    static const double most = 1e10; /* 317 years: within uint64_t as nanoseconds */

    duration_format(out, (uint64_t)llround(fmin(fmax(seconds, 0), most)) * NS_PER_S);
    return out;
}
