/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Texts of single values that the scenario language adds to the numbers, sizes and durations of src/base: signs, units,
 * switches, sets of numbers, points in time. Any thread. All return 0, or -EINVAL and leave the result untouched.
 */
#include <stdint.h>

/* A whole number, with or without '+' or '-', optional unit behind it (NULL: none); `hex` allows 0x. */
int value_whole(const char *text, const char *unit, int hex, int64_t *ret);

/* A finite number, with or without '+', optional unit, or '%' which divides by 100. */
int value_real(const char *text, const char *unit, double *ret);

/* yes/no, on/off, true/false. *ret is 1 or 0. */
int value_bool(const char *text, uint32_t *ret);

/* A set of numbers 0..highest (at most 63): "3", "0-3", "0,2-4"; "all" gives UINT64_MAX. */
int value_indexes(const char *text, uint32_t highest, uint64_t *ret);

/* A point in time as in RFC 3339, in UTC: 2026-01-05T08:00:00Z. Microseconds since 1970; years 1971 to 2100. */
int value_time(const char *text, uint64_t *ret_us);
