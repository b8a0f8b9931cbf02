/* SPDX-License-Identifier: Apache-2.0 */

/* Selection by digits: the values that share the wanted one's leading bits are kept, digit after digit, from the first
 * bit in which any two differ. */

#include "engine/trace/select.h"

#include <assert.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/owner.h"

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

int64_t trace_select(int64_t *at, size_t len, size_t nth)
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
    const TraceHistogramClass class = trace_histogram_class_of(histogram, nth);
    CLEANUP_FREE int64_t *inside = xmalloc((class.count + 1) * sizeof(*inside));
    size_t kept = 0;

    for (size_t i = 0; i < histogram->total && kept < class.count; i++) {
        inside[kept] = at[i];
        kept += (size_t)(at[i] >= class.low && at[i] <= class.high);
    }
    assert(kept == class.count && nth - class.below < kept);
    return trace_select(inside, kept, nth - class.below);
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
