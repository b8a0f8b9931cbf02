/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* How often durations occur, in classes that are at most 1/64 wide of their value. Pure. */

#include <stddef.h>
#include <stdint.h>

enum { TRACE_HISTOGRAM_BITS = 6, TRACE_HISTOGRAM_CLASSES = (64 - TRACE_HISTOGRAM_BITS + 1) << TRACE_HISTOGRAM_BITS };

typedef struct TraceHistogram {
    uint64_t total;
    uint64_t counts[TRACE_HISTOGRAM_CLASSES];
} TraceHistogram;

/* `value` is not below 0. */
void trace_histogram_add(TraceHistogram *histogram, int64_t value);

/* A class of a histogram: its least and its highest value, how many values it has and how many classes below have. */
typedef struct TraceHistogramClass {
    int64_t low, high;
    uint64_t count, below;
} TraceHistogramClass;

/* That of the value that `nth` values are below; nth < total. */
TraceHistogramClass trace_histogram_class_of(const TraceHistogram *histogram, uint64_t nth);
