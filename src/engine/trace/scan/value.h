/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What slices mean: numbers, times, texts. Pure. Eight bytes behind a slice must be readable (SCAN_PAD sees to it). */

#include <stdbool.h>
#include <stdint.h>

#include "engine/trace/scan/walk.h"

/* Times are kept below this, so that a start and a duration can be added. */
#define TIME_MAX ((INT64_C(1) << 61) - 1)

/* An integer as a word or a text, decimal or 0x...; a fraction is cut off, 2^63..2^64-1 become negative, larger ones
 * do not count. False: something else. */
bool value_integer(const Slice *slice, int64_t *ret);

/* Microseconds, exactly: nanoseconds rounded to the nearest (half away from 0) and kept within TIME_MAX.
 * *ret_fraction becomes true where there are digits below a microsecond, and stays else. */
bool value_nanoseconds(const Slice *slice, int64_t *ret_ns, bool *ret_fraction);

/* A finite number; NaN otherwise. */
double value_double(const Slice *slice);

/* Up to three integers of a list, 0 for what is missing. */
void value_triple(const Slice *slice, uint32_t ret[3]);

/* The text of a slice without its escapes, at most `max` bytes; a wrong escape stays as it is. `room` holds at least
 * min(slice->len, max) + 4 bytes. Returns the length. A lone surrogate becomes its three bytes. */
size_t value_unescape(const Slice *slice, char *room, size_t max);
