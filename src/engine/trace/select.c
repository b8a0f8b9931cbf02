/* SPDX-License-Identifier: Apache-2.0 */
/* Selection by digits: the values that share the wanted one's leading bits are kept, digit after digit, from the first
 * bit in which any two differ. */
#include "engine/trace/select.h"

#include <stdlib.h>

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

int64_t trace_median(int64_t *at, size_t len)
{
    int64_t low, high;

    if (!len)
        return -1;
    low = trace_select(at, len, (len - 1) / 2);
    if (len % 2)
        return low;
    high = trace_select(at, len, len / 2);
    return low + (int64_t)(((uint64_t)high - (uint64_t)low) / 2);
}

int trace_by_double(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double trace_median_of_doubles(double *at, size_t len)
{
    if (len == 0)
        return 0;
    qsort(at, len, sizeof(*at), trace_by_double);
    return len % 2 ? at[len / 2] : (at[len / 2 - 1] + at[len / 2]) / 2;
}

int64_t trace_percentile(int64_t *at, size_t len, unsigned int percent)
{
    const size_t rank = (len * percent + 99) / 100;

    return len ? trace_select(at, len, rank ? rank - 1 : 0) : -1;
}

TraceLongest trace_find_longest(int64_t *at, size_t len, size_t keep)
{
    TraceLongest longest = {.over = keep ? INT64_MIN : INT64_MAX};
    size_t over = 0;

    if (!keep || len <= keep)
        return longest;
    longest.over = trace_select(at, len, len - keep);
    for (size_t i = 0; i < len; i++) {
        over += at[i] > longest.over;
        longest.ties += at[i] == longest.over;
    }
    longest.kept = keep - over;
    return longest;
}

bool trace_is_longest(TraceLongest *longest, int64_t length)
{
    size_t seen = longest->seen;

    if (length != longest->over || longest->ties == 0)
        return length > longest->over;
    longest->seen++;
    return seen * longest->kept / longest->ties != (seen + 1) * longest->kept / longest->ties;
}
