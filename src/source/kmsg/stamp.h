/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * When a line of a log file was written, by the time in front of it. Pure but for the machine's time zone, in which
 * syslog and `dmesg -T` write and which they do not name. Any thread.
 */

#include <stddef.h>
#include <stdint.h>

typedef enum StampKind {
    STAMP_NONE, /* the line has no time */
    STAMP_BOOT, /* since boot: "[ 1234.567890] " */
    STAMP_REAL, /* of the wall clock: syslog, ISO 8601, "dmesg -T" */
    STAMP_KIND_END
} StampKind;

typedef struct Stamp {
    StampKind kind;
    uint64_t ns;
} Stamp;

/* A line that has both is dated by the wall clock. Syslog leaves the year out: it is the last one in which that day is
 * not after `real_ns`, the wall clock of now (a day later counts as now: zones differ). Parts of a second of the wall
 * clock are left out. */
Stamp stamp_read(const char *line, size_t len, uint64_t real_ns);
