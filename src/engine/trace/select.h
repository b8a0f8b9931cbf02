/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The n-th smallest of many numbers without sorting them, and medians from it. The numbers are counted in a histogram
 * as they come, in classes that are at most 1/64 wide of their value; then the numbers of one class alone are looked
 * into. Pure. */

#include <stddef.h>
#include <stdint.h>

enum { TRACE_HISTOGRAM_BITS = 6, TRACE_HISTOGRAM_CLASSES = (64 - TRACE_HISTOGRAM_BITS + 1) << TRACE_HISTOGRAM_BITS };

typedef struct TraceHistogram {
    uint64_t total;
    uint64_t counts[TRACE_HISTOGRAM_CLASSES];
} TraceHistogram;

/* `value` is not below 0. */
void trace_histogram_add(TraceHistogram *histogram, int64_t value);

/* The value that would be at[nth] if `at`, the numbers of the histogram, were sorted. nth < total. Linear. */
int64_t trace_select_of(const TraceHistogram *histogram, const int64_t *at, size_t nth);

/* Mean of the two middle values, rounded down (the middle one of an odd number); of none -1. */
int64_t trace_median(const TraceHistogram *histogram, const int64_t *at);

/* The smallest value that at least `percent` % of all are not above; of none -1. */
int64_t trace_percentile(const TraceHistogram *histogram, const int64_t *at, unsigned int percent);
