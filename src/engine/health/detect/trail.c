/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/health/detect/trail.h"

#include <string.h>

#include "base/duration.h"

void trail_forget(Trail *trail)
{
    memset(trail, 0, sizeof *trail);
}

static size_t find_place(const Trail *trail, size_t i)
{
    return (trail->first + i) % TRAIL_POINTS;
}

static void push_point(Trail *trail, uint64_t time_ns)
{
    size_t at = find_place(trail, trail->len);

    if (trail->len == TRAIL_POINTS)
        trail->first = (uint8_t)find_place(trail, 1);
    else
        trail->len++;
    trail->at[at].time_ns = time_ns;
    trail->at[at].total = trail->total;
}

/* Seconds since the value before; below 0 where this one is no news. */
static double step_bucket(Trail *trail, uint64_t time_ns, uint64_t window_ns)
{
    if (trail->last_ns != 0 && time_ns <= trail->last_ns)
        return -1;
    if (trail->last_ns != 0 && time_ns - trail->last_ns > window_ns)
        trail_forget(trail);
    return trail->last_ns == 0 ? 0 : (double)(time_ns - trail->last_ns) / NS_PER_S;
}

static void keep_point(Trail *trail, uint64_t time_ns, double value, uint64_t window_ns)
{
    const uint64_t apart_ns = window_ns / (TRAIL_POINTS - 2);

    trail->last_ns = time_ns;
    trail->last = value;
    if (trail->len == 0 || time_ns - trail->at[find_place(trail, trail->len - 1U)].time_ns >= apart_ns)
        push_point(trail, time_ns);
}

void trail_count(Trail *trail, uint64_t time_ns, double value, uint64_t window_ns)
{
    const double seconds = step_bucket(trail, time_ns, window_ns);

    if (seconds < 0)
        return;
    if (seconds > 0 && value > trail->last)
        trail->total += value - trail->last;
    keep_point(trail, time_ns, value, window_ns);
}

void trail_gauge(Trail *trail, uint64_t time_ns, double value, uint64_t window_ns)
{
    const double seconds = step_bucket(trail, time_ns, window_ns);

    if (seconds < 0)
        return;
    trail->total += value * seconds;
    keep_point(trail, time_ns, value, window_ns);
}

bool trail_span(const Trail *trail, uint64_t window_ns, double part, TrailSpan *ret)
{
    const uint64_t apart_ns = window_ns / (TRAIL_POINTS - 2);
    const uint64_t back_ns = window_ns + apart_ns;
    TrailSpan span = {0};
    double before = 0;

    for (size_t i = 0; i < trail->len; i++) {
        const size_t at = find_place(trail, i);

        if (trail->last_ns - trail->at[at].time_ns > back_ns)
            continue;
        if (span.from_ns == 0) {
            span.from_ns = trail->at[at].time_ns;
            span.sum = trail->total - trail->at[at].total;
        } else if (trail->at[at].total > before) {
            span.rises++;
        }
        before = trail->at[at].total;
    }
    if (span.from_ns == 0 || trail->last_ns == span.from_ns)
        return false;
    if (trail->total > before)
        span.rises++;
    span.seconds = (double)(trail->last_ns - span.from_ns) / NS_PER_S;
    if (span.seconds * NS_PER_S < part * (double)window_ns)
        return false;
    *ret = span;
    return true;
}

bool trail_rate(const Trail *trail, uint64_t window_ns, double part, double *ret)
{
    TrailSpan span;

    if (!trail_span(trail, window_ns, part, &span))
        return false;
    *ret = span.sum / span.seconds;
    return true;
}
