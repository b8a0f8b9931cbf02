/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers from and to text, independent of the locale. Parsers are strict: the whole text must match, no blanks, no
 * leading '+', and the value must lie in min..max. Writers write into the caller's buffer, put no NUL and return
 * the length. Any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
    NUMBER_U64_MAX = 20,    /* bytes of 18446744073709551615 */
    NUMBER_I64_MAX = 20,    /* bytes of -9223372036854775808 */
    NUMBER_DOUBLE_MAX = 24, /* bytes of -2.2250738585072014e-308 */
    NUMBER_HEX_MAX = 16,    /* digits of ffffffffffffffff */
};

/* Decimal digits only. -EINVAL for another shape, -ERANGE outside min..max (inclusive). */
int number_parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *ret, Err *err);

/* As number_parse_u64, a leading '-' allowed. */
int number_parse_i64(const char *text, int64_t min, int64_t max, int64_t *ret, Err *err);

/* Decimal notation with optional fraction and exponent ("1", "-0.5", ".5", "1e-3"), correctly rounded. "Inf", "+Inf"
 * and "-Inf" are accepted where min..max holds them; NaN and hexadecimal are not. -EINVAL, -ERANGE. */
int number_parse_double(const char *text, double min, double max, double *ret, Err *err);

/* As their namesakes for the first `len` bytes of `text`, which needs no NUL. */
int number_parsen_u64(const char *text, size_t len, uint64_t min, uint64_t max, uint64_t *ret, Err *err);
int number_parsen_double(const char *text, size_t len, double min, double max, double *ret, Err *err);

/* Calls for each number of a list such as "0-3,8", the kernel's form of processors, up to its end or a newline. False:
 * it is no such list, or a number is over `max`; calls may have been made. An empty list is fine. */
bool number_walk_list(const char *list, uint64_t max, void (*each)(void *at, uint64_t number), void *at);

/* Hexadecimal digits, either case, with or without "0x". -EINVAL, -ERANGE over max. */
int number_parsen_hex(const char *text, size_t len, uint64_t max, uint64_t *ret, Err *err);

/* Write without a NUL and return the length. */
size_t number_write_u64(char out[NUMBER_U64_MAX], uint64_t value);
size_t number_write_i64(char out[NUMBER_I64_MAX], int64_t value);

/* The shortest decimal text that reads back as exactly `value`; of those the closest. Plain notation from 1e-4 to
 * under 1e17, otherwise "1.5e+20". NaN is "NaN", infinities are "+Inf" and "-Inf", as Prometheus writes them.
 * No NUL; returns the length, at most NUMBER_DOUBLE_MAX. */
size_t number_write_double(char out[NUMBER_DOUBLE_MAX], double value);

/* The same digits as Go's strconv prints them with 'g' and precision -1, which is what Prometheus' libraries write:
 * with an exponent below 1e-4 and from 1e6 on ("1e+06", "1.29931554972e+11"), and 0 for both zeroes. */
size_t number_write_go(char out[NUMBER_DOUBLE_MAX], double value);

/* Below 0, 0 or above 0. */
static inline int number_compare_u64(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static inline uint64_t number_min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t number_max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}
