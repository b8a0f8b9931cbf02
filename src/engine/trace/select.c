/* SPDX-License-Identifier: Apache-2.0 */
/* Selection by digits: the values that share the wanted one's leading bits are kept, digit after digit, from the first
 * bit in which any two differ. */
#include "engine/trace/select.h"

#include <assert.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/owner.h"

/* A class of a histogram: its least and its highest value, how many values it has and how many classes below have. */
typedef struct HistogramClass {
    int64_t low, high;
    uint64_t count, below;
} HistogramClass;

/* Values below 64 have a class each; above, each power of two is cut into 64. */

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

static HistogramClass find_class(const TraceHistogram *histogram, uint64_t nth)
{
    uint64_t below = 0;
    size_t class = 0;

    for (; class + 1 < TRACE_HISTOGRAM_CLASSES && below + histogram->counts[class] <= nth; class ++)
        below += histogram->counts[class];
    return (HistogramClass){.low = (int64_t)low_of(class),
                            .high = (int64_t)(low_of(class) + (((uint64_t)1 << shift_of(class)) - 1)),
                            .count = histogram->counts[class],
                            .below = below};
}

/* ---- selection ---- */

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS };

/* Order of int64 as that of uint64. */
static uint64_t key_of(int64_t value)
{
    return (uint64_t)value ^ (uint64_t)1 << 63;
}

/* How many low bits are not equal in all values. */
static unsigned int bits_that_differ(const int64_t *at, size_t len)
{
    uint64_t differ = 0;

    for (size_t i = 1; i < len; i++)
        differ |= key_of(at[i]) ^ key_of(at[0]);
    return differ ? 64 - (unsigned int)__builtin_clzll(differ) : 0;
}

static int64_t select_nth(int64_t *at, size_t len, size_t nth)
{
    unsigned int bits;

    while ((bits = bits_that_differ(at, len)) > 0) {
        unsigned int shift = bits > DIGIT_BITS ? bits - DIGIT_BITS : 0;
        size_t counts[DIGITS] = {0}, digit = 0, kept = 0;

        for (size_t i = 0; i < len; i++)
            counts[key_of(at[i]) >> shift & (DIGITS - 1)]++;
        while (nth >= counts[digit])
            nth -= counts[digit++];
        for (size_t i = 0; i < len; i++)
            if ((key_of(at[i]) >> shift & (DIGITS - 1)) == digit) {
                int64_t swap = at[kept];

                at[kept++] = at[i];
                at[i] = swap;
            }
        len = kept;
    }
    return at[nth];
}

int64_t trace_select_of(const TraceHistogram *histogram, const int64_t *at, size_t nth)
{
    const HistogramClass class = find_class(histogram, nth);
    CLEANUP_FREE int64_t *inside = xmalloc((class.count + 1) * sizeof(*inside));
    size_t kept = 0;

    for (size_t i = 0; i < histogram->total && kept < class.count; i++) {
        inside[kept] = at[i];
        kept += (size_t)(at[i] >= class.low && at[i] <= class.high);
    }
    assert(kept == class.count && nth - class.below < kept);
    return select_nth(inside, kept, nth - class.below);
}

int64_t trace_median(const TraceHistogram *histogram, const int64_t *at)
{
    const size_t len = histogram->total;
    int64_t low, high;

    if (!len)
        return -1;
    low = trace_select_of(histogram, at, (len - 1) / 2);
    if (len % 2)
        return low;
    high = trace_select_of(histogram, at, len / 2);
    return low + (high - low) / 2;
}

int64_t trace_percentile(const TraceHistogram *histogram, const int64_t *at, unsigned int percent)
{
    const size_t len = histogram->total, rank = (len * percent + 99) / 100;

    if (!len)
        return -1;
    return trace_select_of(histogram, at, rank ? rank - 1 : 0);
}
