/* SPDX-License-Identifier: Apache-2.0 */
/* Time as a table of functions, so that a test can stop and push it (test/unit/fake_clock.h). Two instants, both
 * uint64_t nanoseconds: monotonic (counts from boot, with suspend, never goes back; for deadlines and intervals) and
 * real (since 1970-01-01 UTC, may jump; for what a user reads). Any thread. */
#pragma once

#include <stdint.h>
#include <time.h>

#include "base/duration.h"

typedef struct Clock Clock;

typedef struct ClockOps {
    uint64_t (*monotonic_ns)(const Clock *clock);
    uint64_t (*real_ns)(const Clock *clock);
    void (*sleep_ns)(Clock *clock, uint64_t duration_ns);
} ClockOps;

struct Clock {
    const ClockOps *ops;
};

enum { CLOCK_TEXT_MAX = 32 }; /* bytes of an RFC 3339 text with the NUL */

/* A clock of the kernel by its id, in nanoseconds: CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID, ... */
uint64_t clock_read(clockid_t id);

/* The kernel's clocks: CLOCK_BOOTTIME and CLOCK_REALTIME. */
Clock *clock_kernel(void);

uint64_t clock_monotonic(const Clock *clock);
uint64_t clock_real(const Clock *clock);

/* Sleeps. Returns early for no signal. */
void clock_sleep(Clock *clock, uint64_t duration_ns);

/* Writes a real instant as RFC 3339 in UTC with milliseconds, "2025-01-31T12:00:00.000Z". Returns the length. */
size_t clock_format(char out[CLOCK_TEXT_MAX], uint64_t real_ns);

/* Parses RFC 3339 with an optional fraction (nanoseconds are kept) and with Z or a +hh:mm offset; years 1970 to 2554,
 * where uint64_t ends. -EINVAL, and -ERANGE where the instant does not fit. */
int clock_parse(const char *text, uint64_t *ret_real_ns, Err *err);
