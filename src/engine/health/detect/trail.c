/* SPDX-License-Identifier: Apache-2.0 */
/* The recent past of a number, and of the reasons that hold clocks down. */
#include <math.h>
#include <string.h>

#include "engine/health/detect/detector.h"

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

bool trail_count_metric(Trail *trail, const DetectCase *c, MetricId id, uint64_t window_ns)
{
    double value;

    if (!detect_value(c, id, &value))
        return false;
    trail_count(trail, detect_sample(c, id)->time_ns, value, window_ns);
    return true;
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
    span.rate = span.sum / span.seconds;
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
    *ret = span.rate;
    return true;
}

/* --- clocks held down --------------------------------------------------------------------------------------------- */

static const struct {
    uint64_t bits;
    MetricId counters[2];
} reasons[HELD_REASON_END] = {
    [HELD_HEAT] = {CLOCK_REASON_SW_HEAT | CLOCK_REASON_HW_HEAT,
                   {METRIC_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS, METRIC_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS}},
    [HELD_BRAKE] = {CLOCK_REASON_POWER_BRAKE, {METRIC_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS, METRIC_END}},
    [HELD_LIMIT] = {CLOCK_REASON_POWER_CAP, {METRIC_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS, METRIC_END}},
    [HELD_ANY] = {CLOCK_REASON_POWER_CAP | CLOCK_REASON_HW_SLOWDOWN | CLOCK_REASON_SYNC_BOOST | CLOCK_REASON_SW_HEAT |
                      CLOCK_REASON_HW_HEAT | CLOCK_REASON_POWER_BRAKE,
                  {METRIC_END, METRIC_END}},
};

double detect_fast_mean(const NodeGpu *gpu, MetricId id, uint64_t bits, double now)
{
    const int at = metric_fast_index(id);
    double sum = 0;
    size_t count = 0;

    for (size_t i = 0; at >= 0 && i < gpu->fast_count; i++)
        if (gpu->fast[i].valid >> at & 1) {
            sum += bits ? ((uint64_t)gpu->fast[i].value[at] & bits) != 0 : gpu->fast[i].value[at];
            count++;
        }
    if (count)
        return sum / (double)count;
    return bits ? ((uint64_t)now & bits) != 0 : now;
}

bool held_step(const DetectCase *c, HeldReason reason, uint64_t window_ns, Held *held)
{
    bool any = false;
    double value;

    for (size_t i = 0; i < ARRAY_LEN(held->counted); i++) {
        const MetricId id = reasons[reason].counters[i];

        if (id == METRIC_END || !detect_value(c, id, &value))
            continue;
        trail_count(&held->counted[i], detect_sample(c, id)->time_ns, value / NS_PER_S, window_ns);
        any = true;
    }
    if (detect_value(c, METRIC_CLOCKS_EVENT_REASONS, &value)) {
        trail_gauge(&held->sampled, detect_sample(c, METRIC_CLOCKS_EVENT_REASONS)->time_ns,
                    detect_fast_mean(c->gpu, METRIC_CLOCKS_EVENT_REASONS, reasons[reason].bits, value), window_ns);
        any = true;
    }
    return any;
}

bool held_share(const Held *held, uint64_t window_ns, double *ret)
{
    const Trail *const trails[] = {&held->counted[0], &held->counted[1], &held->sampled};
    double share = -1, one;

    for (size_t i = 0; i < ARRAY_LEN(trails); i++)
        if (trail_rate(trails[i], window_ns, 0.5, &one))
            share = fmax(share, one);
    if (share < 0)
        return false;
    *ret = fmin(share, 1);
    return true;
}
