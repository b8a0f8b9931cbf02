/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* One event of a trace as HTA's table sees it: the few members that become its columns. Pure. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

typedef struct HtaEvent {
    const char *name, *category; /* without escapes, not NUL-terminated; NULL where they are missing */
    size_t name_len, category_len;
    bool has_start, has_duration; /* a number stands there */
    int64_t start, duration;      /* ns; below 0 where the file says so */
    int64_t stream;               /* args.stream as a number, -1 missing or no number ("0x0") */
    int64_t correlation;          /* args.correlation, -1 missing */
    double bandwidth;             /* args."memory bandwidth (GB/s)", 0 missing */
} HtaEvent;

/* Reads an event from '{' to '}'. Texts lie in `bytes` or, where they have escapes, in `room`, which is cleared first.
 * False: this is no object; what came before a fault inside is read. */
bool hta_event_read(const char *bytes, size_t len, Str *room, HtaEvent *ret);
