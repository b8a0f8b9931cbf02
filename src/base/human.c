/* SPDX-License-Identifier: Apache-2.0 */
#include "base/human.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct Scale {
    const char *unit;
    double size;
} Scale;

static char *write_dash(char out[HUMAN_MAX])
{
    return strcpy(out, "-");
}

/* Digits after the point so that three are shown. */
static int count_digits(double value)
{
    return value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
}

/* `scales` from small to large; the first has no fraction. */
static char *write_scaled(char out[HUMAN_MAX], double value, const Scale *scales, size_t count, double step)
{
    double size = fabs(value);
    size_t i = 0;

    if (!isfinite(value))
        return write_dash(out);
    while (i + 1 < count && size / scales[i].size >= step - 0.5)
        i++;
    snprintf(out, HUMAN_MAX, "%s%.*f %s", value < 0 ? "-" : "", i ? count_digits(size / scales[i].size) : 0,
             size / scales[i].size, scales[i].unit);
    return out;
}

char *human_ns(char out[HUMAN_MAX], double ns)
{
    const Scale scales[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};

    return write_scaled(out, ns, scales, 4, 1000);
}

char *human_age(char out[HUMAN_MAX], uint64_t ns)
{
    const unsigned long long s = ns / 1000000000;

    if (s < 120)
        snprintf(out, HUMAN_MAX, "%llu s", s);
    else if (s < 120 * 60)
        snprintf(out, HUMAN_MAX, "%llu min", s / 60);
    else if (s < 48 * 3600)
        snprintf(out, HUMAN_MAX, "%llu h", s / 3600);
    else
        snprintf(out, HUMAN_MAX, "%llu d", s / 86400);
    return out;
}

char *human_bytes(char out[HUMAN_MAX], double bytes)
{
    static const Scale scales[] = {{"B", 1},
                                   {"KiB", 1024.0},
                                   {"MiB", 1048576.0},
                                   {"GiB", 1073741824.0},
                                   {"TiB", 1099511627776.0},
                                   {"PiB", 1125899906842624.0}};

    return write_scaled(out, bytes, scales, 6, 1024);
}

char *human_count(char out[HUMAN_MAX], int64_t count)
{
    char digits[HUMAN_MAX];
    int len, at = 0;

    if (count < 0)
        return write_dash(out);
    len = snprintf(digits, sizeof(digits), "%" PRId64, count);
    for (int i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0)
            out[at++] = ',';
        out[at++] = digits[i];
    }
    out[at] = '\0';
    return out;
}

char *human_rate(char out[HUMAN_MAX], double gbs)
{
    if (!isfinite(gbs))
        return write_dash(out);
    snprintf(out, HUMAN_MAX, "%.*f GB/s", count_digits(fabs(gbs)), fmin(gbs, 1e12));
    return out;
}

char *human_percent(char out[HUMAN_MAX], double percent)
{
    if (!isfinite(percent))
        return write_dash(out);
    snprintf(out, HUMAN_MAX, "%.1f %%", fmax(fmin(percent, 1e12), -1e12));
    return out;
}

char *human_share(char out[HUMAN_MAX], double part, double whole)
{
    return human_percent(out, whole > 0 ? 100 * part / whole : NAN);
}

const char *human_plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}
