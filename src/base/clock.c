/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's clocks, and instants as text. */
#include "base/clock.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

uint64_t clock_read(clockid_t id)
{
    struct timespec now;

    if (clock_gettime(id, &now) < 0)
        return 0;
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static uint64_t kernel_monotonic(const Clock *clock UNUSED)
{
    return clock_read(CLOCK_BOOTTIME);
}

static uint64_t kernel_real(const Clock *clock UNUSED)
{
    return clock_read(CLOCK_REALTIME);
}

static void kernel_sleep(Clock *clock UNUSED, uint64_t ns)
{
    struct timespec left = {.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};

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

/* True if `text` begins with what `shape` says: 'd' is any digit, every other character is itself. */
static bool has_shape(const char *text, const char *shape)
{
    for (; *shape; shape++, text++)
        if (*shape == 'd' ? *text < '0' || *text > '9' : *text != *shape)
            return false;
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
    int64_t sign = *at == '-' ? -1 : 1, hours, minutes;

    *ret_s = 0;
    if ((*at == 'Z' || *at == 'z') && !at[1])
        return true;
    if ((*at != '+' && *at != '-') || !has_shape(at + 1, "dd:dd") || at[6])
        return false;
    hours = (at[1] - '0') * 10 + (at[2] - '0');
    minutes = (at[4] - '0') * 10 + (at[5] - '0');
    *ret_s = sign * (hours * 3600 + minutes * 60);
    return hours < 24 && minutes < 60;
}

/* The date and time of day; false if a field is out of its range. strptime alone would take blanks and fewer digits. */
static bool take_date(const char **at, struct tm *ret)
{
    const char *text = *at, *date_end = text + strlen("2025-01-31"), *end = date_end + strlen("T12:00:00");

    *ret = (struct tm){0};
    if (!has_shape(text, "dddd-dd-dd") || !*date_end || !strchr("Tt ", *date_end) ||
        !has_shape(date_end + 1, "dd:dd:dd"))
        return false;
    *at = end;
    return strptime(text, "%Y-%m-%d", ret) == date_end && strptime(date_end + 1, "%H:%M:%S", ret) == end &&
           ret->tm_sec <= 60;
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
