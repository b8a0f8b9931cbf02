/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The n-th smallest of many numbers without sorting them, and what follows from it. All reorder `at`. Pure. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The value that would be at[nth] if `at` were sorted. nth < len. Linear, whatever the order. */
int64_t trace_select(int64_t *at, size_t len, size_t nth);

/* Mean of the two middle values, rounded down (the middle one of an odd number); of none -1. */
int64_t trace_median(int64_t *at, size_t len);

/* The same of doubles; of none 0. */
double trace_median_of_doubles(double *at, size_t len);
int trace_by_double(const void *a, const void *b); /* for qsort */

/* The smallest value that at least `percent` % of all are not above; of none -1. */
int64_t trace_percentile(int64_t *at, size_t len, unsigned int percent);

/* Which are the `keep` longest: those over `over`, and `kept` of the `ties` of that length, spread evenly. */
typedef struct TraceLongest {
    int64_t over;
    size_t ties, kept, seen;
} TraceLongest;

TraceLongest trace_find_longest(int64_t *at, size_t len, size_t keep);
bool trace_is_longest(TraceLongest *longest, int64_t length); /* once each, in order */
