/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Sums of times that may come from a hostile file: they stop at the ends of int64 instead of overflowing. Pure. */

#include <stdbool.h>
#include <stdint.h>

#include "engine/trace/analyse.h"

static inline int64_t trace_sum(int64_t a, int64_t b)
{
    int64_t sum;

    if (!__builtin_add_overflow(a, b, &sum))
        return sum;
    return a < 0 ? INT64_MIN : INT64_MAX;
}

static inline bool trace_scope_has(TraceScope scope, int64_t time)
{
    return time >= scope.from && time < scope.to;
}

/* Mean of `a` with weight `a_weight` and `b` with weight `b_weight`; what has no weight may be NaN. NaN without any. */
static inline double trace_weighted(double a, int64_t a_weight, double b, int64_t b_weight)
{
    if (b_weight <= 0)
        return a;
    if (a_weight <= 0)
        return b;
    return (a * (double)a_weight + b * (double)b_weight) / ((double)a_weight + (double)b_weight);
}
