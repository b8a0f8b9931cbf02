/* SPDX-License-Identifier: Apache-2.0 */
/* Durations: uint64_t nanoseconds, and their text as Prometheus writes it: "100ms", "1s", "1h30m", "1w".
 * Any thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define NS_PER_US UINT64_C(1000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S UINT64_C(1000000000)
#define NS_PER_MIN (60 * NS_PER_S)
#define NS_PER_H (60 * NS_PER_MIN)
#define NS_PER_DAY (24 * NS_PER_H)
#define NS_PER_WEEK (7 * NS_PER_DAY)
#define NS_PER_YEAR (365 * NS_PER_DAY)

enum { DURATION_TEXT_MAX = 48 }; /* bytes that duration_format needs at most, with the NUL */

/* Parses whole numbers with units y, w, d, h, m, s, ms - each at most once, the larger ones first - or "0".
 * The whole text must match. us and ns are accepted too, which Prometheus does not. -EINVAL, -ERANGE on overflow. */
int duration_parse(const char *text, uint64_t *ret_ns, Err *err);

/* Writes the shortest text that duration_parse reads back as the same value ("0s" for 0), never with weeks or years
 * unless the duration is a whole number of them. Returns the length. */
size_t duration_format(char out[DURATION_TEXT_MAX], uint64_t ns);

/* The same of whole seconds, rounded, into `out`, which it returns. Less than 0 and NaN are "0s". */
const char *duration_format_s(char out[DURATION_TEXT_MAX], double seconds);
