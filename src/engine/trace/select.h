/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The n-th smallest of many numbers without sorting them, and medians from it. Pure. */

#include <stddef.h>
#include <stdint.h>

#include "engine/trace/histogram.h"

/* The value that would be at[nth] if `at` were sorted; reorders `at`. nth < len. Linear, whatever the order. */
int64_t trace_select(int64_t *at, size_t len, size_t nth);

/* The same of the values that a histogram is of, all of them in `at`: those of one of its classes alone are looked
 * into. */
int64_t trace_select_of(const TraceHistogram *histogram, const int64_t *at, size_t nth);

/* Mean of the two middle values, rounded down (the middle one of an odd number); of none -1. */
int64_t trace_median(const TraceHistogram *histogram, const int64_t *at);

/* The smallest value that at least `percent` % of all are not above; of none -1. */
int64_t trace_percentile(const TraceHistogram *histogram, const int64_t *at, unsigned int percent);
