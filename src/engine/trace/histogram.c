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

/* How wide a class is: 1 << shift. */
static unsigned int shift_of(size_t class)
{
    return class < PARTS ? 0 : (unsigned int)(class >> TRACE_HISTOGRAM_BITS) - 1;
}

static uint64_t low_of(size_t class)
{
    return class < PARTS ? class : ((uint64_t)PARTS + (class & (PARTS - 1))) << shift_of(class);
}

void trace_histogram_add(TraceHistogram *histogram, int64_t value)
{
    histogram->counts[class_of((uint64_t)value)]++;
    histogram->total++;
}

TraceHistogramClass trace_histogram_class_of(const TraceHistogram *histogram, uint64_t nth)
{
    uint64_t below = 0;
    size_t class = 0;

    for (; class + 1 < TRACE_HISTOGRAM_CLASSES && below + histogram->counts[class] <= nth; class ++)
        below += histogram->counts[class];
    return (TraceHistogramClass){.low = (int64_t)low_of(class),
                                 .high = (int64_t)(low_of(class) + (((uint64_t)1 << shift_of(class)) - 1)),
                                 .count = histogram->counts[class],
                                 .below = below};
}
