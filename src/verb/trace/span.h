/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Words of the command line that say which numbers or which time is meant. Pure. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { TRACE_RANGES_MAX = 64 };

/* A set of numbers: "3", "0-3,8". Empty: nothing was asked for. */
typedef struct TraceNumbers {
    int64_t first[TRACE_RANGES_MAX], last[TRACE_RANGES_MAX];
    size_t len;
} TraceNumbers;

/* -EINVAL; `what` names the option in the text. NULL gives the empty set. */
int trace_numbers_parse(const char *text, const char *what, TraceNumbers *ret, Err *err);
bool trace_numbers_has(const TraceNumbers *numbers, int64_t number); /* the empty set has all */

/* A moment: "1.5s", "200ms", "1m30s" after the profile's first event, or a whole number without a unit: nanoseconds of
 * the file's own clock. */
typedef struct TraceMoment {
    bool given, relative;
    int64_t ns;
} TraceMoment;

int trace_moment_parse(const char *text, const char *what, TraceMoment *ret, Err *err);
