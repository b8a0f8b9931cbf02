/* SPDX-License-Identifier: Apache-2.0 */
#include "source/kmsg/stamp.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/duration.h"

enum { FRONT_MAX = 128, YEAR_BASE = 1900, MICROS = 6 };

static bool set_real(time_t seconds, Stamp *ret)
{
    if (seconds < 0 || (uint64_t)seconds > UINT64_MAX / NS_PER_S)
        return false;
    *ret = (Stamp){STAMP_REAL, (uint64_t)seconds * NS_PER_S};
    return true;
}

static time_t read_local(struct tm tm)
{
    tm.tm_isdst = -1;
    return mktime(&tm);
}

/* "2026-11-23T19:25:02.123456+00:00", with a blank for the T, a comma for the point, "Z", "+0000" or no zone. */
static bool read_iso(const char *text, Stamp *ret)
{
    struct tm tm = {0};
    const char *at = isdigit((unsigned char)text[0]) ? strptime(text, "%Y-%m-%d", &tm) : NULL;

    at = at && (*at == 'T' || *at == ' ') ? strptime(at + 1, "%H:%M:%S", &tm) : NULL;
    if (!at)
        return false;
    at += *at == '.' || *at == ',' ? 1 + strspn(at + 1, "0123456789") : 0;
    if (!strptime(at, "%z", &tm))
        return set_real(read_local(tm), ret);
    const long east_s = tm.tm_gmtoff;
    return set_real(timegm(&tm) - east_s, ret);
}

/* "[Mon Nov 23 19:25:02 2026] " */
static bool read_dated(const char *text, Stamp *ret)
{
    struct tm tm = {0};
    const char *end = strptime(text, "[%a %b %d %H:%M:%S %Y]", &tm);

    return end && set_real(read_local(tm), ret);
}

/* "Nov 23 19:25:02 host kernel: " */
static bool read_syslog(const char *text, uint64_t real_ns, Stamp *ret)
{
    const time_t now = (time_t)(real_ns / NS_PER_S), day = 24 * 3600;
    struct tm tm = {0}, today;
    const char *end = isalpha((unsigned char)text[0]) ? strptime(text, "%b %d %H:%M:%S ", &tm) : NULL;

    if (!end || !localtime_r(&now, &today))
        return false;
    tm.tm_year = today.tm_year;
    time_t at = read_local(tm);
    if (at > now + day) {
        tm.tm_year--;
        at = read_local(tm);
    }
    return set_real(at, ret);
}

/* "[ 1234.567890] ", also behind a level ("<4>[...]", "kern  :warn  : [...]"). */
static bool read_boot_time(const char *text, Stamp *ret)
{
    for (const char *at = strchr(text, '['); at; at = strchr(at + 1, '[')) {
        unsigned long long seconds, micros;
        char close;

        if (!isdigit((unsigned char)at[1 + strspn(at + 1, " ")]) ||
            sscanf(at, "[%9llu.%6llu%c", &seconds, &micros, &close) != 3 || close != ']')
            continue;
        const char *point = strchr(at, '.');
        uint64_t part_ns = micros * NS_PER_US;
        for (size_t digits = strspn(point + 1, "0123456789"); digits < MICROS; digits++)
            part_ns *= 10;
        *ret = (Stamp){STAMP_BOOT, seconds * NS_PER_S + part_ns};
        return true;
    }
    return false;
}

Stamp stamp_read(const char *line, size_t len, uint64_t real_ns)
{
    char front[FRONT_MAX + 1];
    Stamp stamp = {STAMP_NONE, 0};

    len = len < FRONT_MAX ? len : FRONT_MAX;
    memcpy(front, line, len);
    front[len] = '\0';
    if (!read_iso(front, &stamp) && !read_dated(front, &stamp) && !read_syslog(front, real_ns, &stamp))
        (void)read_boot_time(front, &stamp);
    return stamp;
}
