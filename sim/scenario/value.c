/* SPDX-License-Identifier: Apache-2.0 */
/* Small parsers of the scenario language. Pure. */
#include "sim/scenario/value.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"

/* Copies text without a '+' before and a unit behind; 0 when what is left is empty or too long. */
static size_t bare_number(const char *text, const char *unit, char *out, size_t size)
{
    if (text[0] == '+' && text[1] != '-')
        text++;
    size_t len = strlen(text), tail = unit ? strlen(unit) : 0;
    if (tail && len > tail && strcmp(text + len - tail, unit) == 0)
        len -= tail;
    while (len && text[len - 1] == ' ')
        len--;
    if (len == 0 || len >= size)
        return 0;
    memcpy(out, text, len);
    out[len] = '\0';
    return len;
}

int value_whole(const char *text, const char *unit, int hex, int64_t *ret)
{
    char number[48];
    uint64_t bits = 0;
    if (!bare_number(text, unit, number, sizeof number))
        return -EINVAL;
    if (hex && strncmp(number, "0x", 2) == 0) {
        if (number_parse_hex(number, INT64_MAX, &bits, NULL) < 0)
            return -EINVAL;
        *ret = (int64_t)bits;
        return 0;
    }
    return number_parse_i64(number, INT64_MIN, INT64_MAX, ret, NULL) < 0 ? -EINVAL : 0;
}

int value_real(const char *text, const char *unit, double *ret)
{
    char number[64];
    double value = 0, scale = 1;
    size_t len = bare_number(text, unit, number, sizeof number);
    if (len > 1 && number[len - 1] == '%') {
        number[--len] = '\0';
        scale = 100;
    }
    if (!len || number_parse_double(number, -1e300, 1e300, &value, NULL) < 0)
        return -EINVAL;
    *ret = value / scale;
    return 0;
}

int value_bool(const char *text, uint32_t *ret)
{
    static const char *const words[] = {"no", "yes", "off", "on", "false", "true"};
    for (uint32_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(text, words[i]) == 0) {
            *ret = i & 1;
            return 0;
        }
    return -EINVAL;
}

/* One number or range at *text, which is moved behind it. */
static int range_add(const char **text, uint32_t highest, uint64_t *set)
{
    uint64_t ends[2] = {0, 0};
    size_t len = strspn(*text, "0123456789");
    if (number_parsen_u64(*text, len, 0, highest, &ends[0], NULL) < 0)
        return -EINVAL;
    ends[1] = ends[0];
    *text += len;
    if (**text == '-') {
        len = strspn(++*text, "0123456789");
        if (number_parsen_u64(*text, len, ends[0], highest, &ends[1], NULL) < 0)
            return -EINVAL;
        *text += len;
    }
    for (uint64_t i = ends[0]; i <= ends[1]; i++)
        *set |= UINT64_C(1) << i;
    return 0;
}

int value_indexes(const char *text, uint32_t highest, uint64_t *ret)
{
    uint64_t set = 0;
    if (strcmp(text, "all") == 0) {
        *ret = UINT64_MAX;
        return 0;
    }
    if (highest > 62) /* a full set must differ from "all" */
        highest = 62;
    for (;;) {
        if (range_add(&text, highest, &set) < 0)
            return -EINVAL;
        if (*text == '\0')
            break;
        if (*text++ != ',')
            return -EINVAL;
        text += strspn(text, " ");
    }
    *ret = set;
    return 0;
}

/* Days since 1970 of a date of the Gregorian calendar. */
static int64_t days_of(int64_t y, int64_t m, int64_t d)
{
    y -= m <= 2;
    int64_t era = y / 400, year = y - era * 400;
    int64_t day = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
    return era * 146097 + year * 365 + year / 4 - year / 100 + day - 719468;
}

static int month_days(int y, int m)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int leap = m == 2 && y % 4 == 0 && (y % 100 != 0 || y % 400 == 0);
    return days[m - 1] + leap;
}

int value_time(const char *text, uint64_t *ret_us)
{
    int y = 0, mo = 0, d = 0, h = 0, mi = 0, s = 0;
    if (strlen(text) != 20 || text[19] != 'Z' || strspn(text, "0123456789-T:Z") != 20 ||
        sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d", &y, &mo, &d, &h, &mi, &s) != 6)
        return -EINVAL;
    if (text[4] != '-' || text[7] != '-' || text[10] != 'T' || text[13] != ':' || text[16] != ':')
        return -EINVAL;
    if (y < 1971 || y > 2100 || mo < 1 || mo > 12 || d < 1 || d > month_days(y, mo))
        return -EINVAL;
    if (h < 0 || h > 23 || mi < 0 || mi > 59 || s < 0 || s > 59)
        return -EINVAL;
    *ret_us = ((uint64_t)days_of(y, mo, d) * 86400 + (uint64_t)(h * 3600 + mi * 60 + s)) * 1000000;
    return 0;
}
