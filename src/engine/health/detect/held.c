/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/health/detect/held.h"

/* Bits of nvmlClocksEventReasons (nvml.h): 0x4 software power cap, 0x8 hardware slowdown of any kind, 0x10 sync boost,
 * 0x20 and 0x40 heat by software and hardware, 0x80 power brake. */
static const struct {
    uint64_t bits;
    MetricId counters[2];
} reasons[HELD_REASON_END] = {
    [HELD_HEAT] = {0x60,
                   {METRIC_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS, METRIC_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS}},
    [HELD_BRAKE] = {0x80, {METRIC_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS, METRIC_END}},
    [HELD_LIMIT] = {0x4, {METRIC_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS, METRIC_END}},
    [HELD_ANY] = {0x4 | 0x8 | 0x10 | 0x20 | 0x40 | 0x80, {METRIC_END, METRIC_END}},
};

/* The fast readings since the tick before, where there are any: the share of them with the bit. */
static double bits_set(const NodeGpu *gpu, uint64_t now, uint64_t bits)
{
    const int at = metric_fast_index(METRIC_CLOCKS_EVENT_REASONS);
    size_t all = 0, set = 0;

    for (size_t i = 0; at >= 0 && i < gpu->fast_count; i++)
        if (gpu->fast[i].valid >> at & 1) {
            all++;
            set += ((uint64_t)gpu->fast[i].value[at] & bits) != 0;
        }
    return all ? (double)set / (double)all : (now & bits) != 0;
}

bool held_step(const DetectTurn *turn, const DetectSeen *seen, HeldReason reason, uint64_t window_ns, Held *held)
{
    bool any = false;
    double value;
    int64_t now;

    for (size_t i = 0; i < ARRAY_LEN(held->counted); i++) {
        const MetricId id = reasons[reason].counters[i];

        if (id == METRIC_END || !detect_value(turn, seen, id, &value))
            continue;
        trail_count(&held->counted[i], detect_sample(seen, id)->time_ns, value / NS_PER_S, window_ns);
        any = true;
    }
    if (detect_int(turn, seen, METRIC_CLOCKS_EVENT_REASONS, &now)) {
        trail_gauge(&held->sampled, detect_sample(seen, METRIC_CLOCKS_EVENT_REASONS)->time_ns,
                    bits_set(seen->gpu, (uint64_t)now, reasons[reason].bits), window_ns);
        any = true;
    }
    return any;
}

static void take_larger(const Trail *trail, uint64_t window_ns, bool *any, double *share)
{
    double one;

    if (!trail_rate(trail, window_ns, 0.5, &one))
        return;
    if (!*any || one > *share)
        *share = one > 1 ? 1 : one;
    *any = true;
}

bool held_share(const Held *held, uint64_t window_ns, double *ret)
{
    bool any = false;
    double share = 0;

    for (size_t i = 0; i < ARRAY_LEN(held->counted); i++)
        take_larger(&held->counted[i], window_ns, &any, &share);
    take_larger(&held->sampled, window_ns, &any, &share);
    if (any)
        *ret = share;
    return any;
}
