/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's clocks, and instants as text. */
#include "base/clock.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"

uint64_t clock_read(clockid_t id)
{
    struct timespec now;

    if (clock_gettime(id, &now) < 0)
        return 0;
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static uint64_t kernel_monotonic(const Clock *clock)
{
    (void)clock;
    return clock_read(CLOCK_BOOTTIME);
}

static uint64_t kernel_real(const Clock *clock)
{
    (void)clock;
    return clock_read(CLOCK_REALTIME);
}

static void kernel_sleep(Clock *clock, uint64_t ns)
{
    struct timespec left = {.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};

    (void)clock;
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR) {
    }
}

Clock *clock_kernel(void)
{
    static const ClockOps ops = {.monotonic_ns = kernel_monotonic, .real_ns = kernel_real, .sleep_ns = kernel_sleep};
    static Clock clock = {.ops = &ops};

    return &clock;
}

uint64_t clock_monotonic(const Clock *clock)
{
    return clock->ops->monotonic_ns(clock);
}

uint64_t clock_real(const Clock *clock)
{
    return clock->ops->real_ns(clock);
}

void clock_sleep(Clock *clock, uint64_t duration_ns)
{
    clock->ops->sleep_ns(clock, duration_ns);
}

size_t clock_format(char out[CLOCK_TEXT_MAX], uint64_t real_ns)
{
    time_t seconds = (time_t)(real_ns / NS_PER_S);
    struct tm tm;
    size_t len;

    gmtime_r(&seconds, &tm);
    len = strftime(out, CLOCK_TEXT_MAX, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out + len, CLOCK_TEXT_MAX - len, ".%03uZ", (unsigned)(real_ns % NS_PER_S / NS_PER_MS));
    return len + 5;
}

/* `count` digits at *at as a number in 0..max, followed by `then` (NUL: by anything). Moves *at on. */
static bool take_field(const char **at, size_t count, unsigned max, char then, unsigned *ret)
{
    uint64_t value;
    size_t len = strspn(*at, "0123456789");

    if (len < count || number_parsen_u64(*at, count, 0, max, &value, NULL) < 0)
        return false;
    *at += count;
    if (then && *(*at)++ != then)
        return false;
    *ret = (unsigned)value;
    return true;
}

/* ".123" as nanoseconds; digits after the ninth are dropped. */
static bool take_fraction(const char **at, uint64_t *ret_ns)
{
    uint64_t scale = NS_PER_S / 10;
    size_t len;

    *ret_ns = 0;
    if (**at != '.')
        return true;
    (*at)++;
    len = strspn(*at, "0123456789");
    for (size_t i = 0; i < len; i++, scale /= 10)
        *ret_ns += (uint64_t)((*at)[i] - '0') * scale;
    *at += len;
    return len > 0;
}

/* "Z" or "+hh:mm" at the end of the text, as seconds east of UTC. */
static bool take_offset(const char *at, int64_t *ret_s)
{
    int64_t sign = *at == '-' ? -1 : 1;
    unsigned hours, minutes;

    *ret_s = 0;
    if ((*at == 'Z' || *at == 'z') && !at[1])
        return true;
    if (*at != '+' && *at != '-')
        return false;
    at++;
    if (!take_field(&at, 2, 23, ':', &hours) || !take_field(&at, 2, 59, '\0', &minutes) || *at)
        return false;
    *ret_s = sign * (int64_t)(hours * 3600 + minutes * 60);
    return true;
}

/* Fields of the date and time of day; true if they make a day of the calendar. */
static bool take_date(const char **at, struct tm *ret)
{
    unsigned year, month, day, hour, minute, second;

    if (!take_field(at, 4, 9999, '-', &year) || !take_field(at, 2, 12, '-', &month) ||
        !take_field(at, 2, 31, '\0', &day) || (**at != 'T' && **at != 't' && **at != ' '))
        return false;
    (*at)++;
    if (!take_field(at, 2, 23, ':', &hour) || !take_field(at, 2, 59, ':', &minute) ||
        !take_field(at, 2, 60, '\0', &second))
        return false;
    *ret = (struct tm){.tm_year = (int)year - 1900,
                       .tm_mon = (int)month - 1,
                       .tm_mday = (int)day,
                       .tm_hour = (int)hour,
                       .tm_min = (int)minute,
                       .tm_sec = (int)second};
    return month > 0 && day > 0;
}

int clock_parse(const char *text, uint64_t *ret_real_ns, Err *err)
{
    struct tm tm, checked;
    const char *at = text;
    uint64_t fraction, ns;
    int64_t offset, seconds;

    if (!take_date(&at, &tm) || !take_fraction(&at, &fraction) || !take_offset(at, &offset))
        return err_set(err, -EINVAL, "'%.60s' is not a time such as 2025-01-31T12:00:00Z", text);
    checked = tm;
    checked.tm_sec = 0; /* 60 in a leap second, which must not turn the day over */
    seconds = timegm(&checked) + tm.tm_sec;
    if (checked.tm_mday != tm.tm_mday)
        return err_set(err, -EINVAL, "'%.60s' is not a day of the calendar", text);
    seconds -= offset;
    if (seconds < 0 || __builtin_mul_overflow((uint64_t)seconds, NS_PER_S, &ns) ||
        __builtin_add_overflow(ns, fraction, &ns))
        return err_set(err, -ERANGE, "'%.60s' is not between 1970 and 2554", text);
    *ret_real_ns = ns;
    return 0;
}
