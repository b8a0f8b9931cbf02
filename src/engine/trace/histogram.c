/* SPDX-License-Identifier: Apache-2.0 */

/* Values below 64 have a class each; above, each power of two is cut into 64. */

#include "engine/trace/histogram.h"

enum { PARTS = 1 << TRACE_HISTOGRAM_BITS };

static size_t class_of(uint64_t value)
{
    unsigned int shift;

    if (value < PARTS)
        return (size_t)value;
    shift = 63 - (unsigned int)__builtin_clzll(value) - TRACE_HISTOGRAM_BITS;
    return ((size_t)(shift + 1) << TRACE_HISTOGRAM_BITS) + (size_t)(value >> shift) - PARTS;
}

static uint64_t middle_of(size_t class)
{
    unsigned int shift;

    if (class < PARTS)
        return class;
    shift = (unsigned int)(class >> TRACE_HISTOGRAM_BITS) - 1;
    return (((uint64_t)PARTS + (class & (PARTS - 1))) << shift) + (((uint64_t)1 << shift) - 1) / 2;
}

void trace_histogram_add(TraceHistogram *histogram, int64_t value)
{
    histogram->counts[class_of((uint64_t)value)]++;
    histogram->total++;
}

void trace_histogram_join(TraceHistogram *into, const TraceHistogram *more)
{
    for (size_t i = 0; i < TRACE_HISTOGRAM_CLASSES; i++)
        into->counts[i] += more->counts[i];
    into->total += more->total;
}

int64_t trace_histogram_nth(const TraceHistogram *histogram, uint64_t nth)
{
    uint64_t below = 0;

    for (size_t i = 0; i < TRACE_HISTOGRAM_CLASSES; i++) {
        below += histogram->counts[i];
        if (below > nth)
            return (int64_t)middle_of(i);
    }
    return -1;
}
