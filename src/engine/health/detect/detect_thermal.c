/* SPDX-License-Identifier: Apache-2.0 */
/* Heat: throttled clocks, the margin before that, fans. The power brake is detected the same way. */
#include "engine/health/detect/detect_inside.h"
#include "engine/health/detect/held.h"

#include <math.h>
#include <string.h>

/* ---- throttle ---- */

typedef struct ThrottleMem {
    DetectVerdict verdict;
    Held held;
} ThrottleMem;

static const char *const held_by[] = {"heat", "the power brake", "the power limit"};

static void throttle_each(DetectWatch *watch, const DetectTurn *turn, const DetectSeen *seen)
{
    ThrottleMem *mem = detect_memory(watch, seen->slot);
    const HeldReason reason = (HeldReason)detect_param(watch, THROTTLE_REASON);
    const uint64_t window_ns = detect_time(watch, THROTTLE_WINDOW);
    const double limit = detect_param(watch, THROTTLE_SHARE) * (mem->verdict.holds ? 0.6 : 1);
    double share, celsius = NAN, clock = NAN;
    char span[DURATION_TEXT_MAX];

    if (!held_step(turn, seen, reason, window_ns, &mem->held)) {
        detect_absent(turn, &mem->verdict, seen, detect_sample(seen, METRIC_CLOCKS_EVENT_REASONS));
        return;
    }
    if (!held_share(&mem->held, window_ns, &share)) {
        detect_silent(turn, &mem->verdict, seen);
        return;
    }
    if (share < limit) {
        detect_fine(turn, &mem->verdict);
        return;
    }
    detect_value(turn, seen, METRIC_GPU_TEMP, &celsius);
    detect_value(turn, seen, METRIC_SM_CLOCK, &clock);
    detect_holds(turn, &mem->verdict, "%s held its clocks down for %.0f %% of the last %s; %.0f C, SM clock %.0f MHz",
                 held_by[reason], share * 100, detect_span_text(window_ns, span), celsius, clock);
}

const DetectImpl detect_throttle = {
    .size = sizeof(ThrottleMem),
    .each = throttle_each,
    .metrics = (const MetricId[]){METRIC_CLOCKS_EVENT_REASONS, METRIC_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS,
                                  METRIC_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS,
                                  METRIC_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS,
                                  METRIC_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS, METRIC_GPU_TEMP,
                                  METRIC_SM_CLOCK, METRIC_END},
};

/* ---- thermal-margin ---- */

typedef struct ThermalMem {
    DetectVerdict verdict;
    uint64_t since_ns; /* how long the fan has been bad; 0: it is not */
} ThermalMem;

/* The driver's own margin; else the core's distance from where it slows down. */
static bool margin_of(const DetectTurn *turn, const DetectSeen *seen, double *ret)
{
    double now, limit;

    if (detect_value(turn, seen, METRIC_GPU_TEMP_LIMIT, ret))
        return true;
    if (!detect_value(turn, seen, METRIC_GPU_TEMP, &now) || !detect_value(turn, seen, METRIC_SLOWDOWN_TEMP, &limit) ||
        limit <= 0)
        return false;
    *ret = limit - now;
    return true;
}

static void margin_each(DetectWatch *watch, const DetectTurn *turn, const DetectSeen *seen)
{
    ThermalMem *mem = detect_memory(watch, seen->slot);
    const double back = mem->verdict.holds ? detect_param(watch, THERMAL_MARGIN_BACK) : 0;
    double left, celsius = NAN;

    if (!margin_of(turn, seen, &left)) {
        detect_absent(turn, &mem->verdict, seen, detect_sample(seen, METRIC_GPU_TEMP));
        return;
    }
    detect_value(turn, seen, METRIC_GPU_TEMP, &celsius);
    if (left <= detect_param(watch, THERMAL_MARGIN_KELVIN) + back)
        detect_holds(turn, &mem->verdict, "%.0f °C below slowdown, at %.0f °C", left, celsius);
    else
        detect_fine(turn, &mem->verdict);
}

const DetectImpl detect_thermal_margin = {
    .size = sizeof(ThermalMem),
    .each = margin_each,
    .metrics = (const MetricId[]){METRIC_GPU_TEMP_LIMIT, METRIC_GPU_TEMP, METRIC_SLOWDOWN_TEMP, METRIC_END},
};

/* ---- fan ---- */

typedef struct FanNow {
    double speed, target, celsius; /* NaN: not known */
} FanNow;

static bool fan_now(const DetectTurn *turn, const DetectSeen *seen, FanNow *ret)
{
    double fans;

    *ret = (FanNow){NAN, NAN, NAN};
    if (detect_value(turn, seen, METRIC_FANS, &fans) && fans < 1)
        return false;
    if (!detect_value(turn, seen, METRIC_FAN_SLOWEST, &ret->speed))
        detect_value(turn, seen, METRIC_FAN_SPEED, &ret->speed);
    else
        detect_value(turn, seen, METRIC_FAN_TARGET, &ret->target);
    detect_value(turn, seen, METRIC_GPU_TEMP, &ret->celsius);
    return !isnan(ret->speed);
}

/* Cards stop their fans while they are cool; comparisons with NaN are false. */
static bool is_fan_bad(const DetectWatch *watch, const FanNow *now)
{
    const bool stands = now->speed <= 0 && (now->celsius >= detect_param(watch, FAN_CELSIUS) || now->target > 0);

    return stands || now->target - now->speed >= 100 * detect_param(watch, FAN_BEHIND);
}

static void fan_each(DetectWatch *watch, const DetectTurn *turn, const DetectSeen *seen)
{
    ThermalMem *mem = detect_memory(watch, seen->slot);
    FanNow now;

    if (!fan_now(turn, seen, &now)) {
        mem->since_ns = 0;
        detect_absent(turn, &mem->verdict, seen, detect_sample(seen, METRIC_FAN_SPEED));
        return;
    }
    if (!is_fan_bad(watch, &now)) {
        mem->since_ns = 0;
        detect_fine(turn, &mem->verdict);
        return;
    }
    if (mem->since_ns == 0)
        mem->since_ns = turn->now_ns;
    if (detect_since(turn->now_ns, mem->since_ns) < detect_time(watch, FAN_WINDOW))
        detect_silent(turn, &mem->verdict, seen);
    else if (isnan(now.target))
        detect_holds(turn, &mem->verdict, "its fan runs at %.0f %% while the GPU is at %.0f C", now.speed, now.celsius);
    else
        detect_holds(turn, &mem->verdict, "a fan runs at %.0f %% where it should at %.0f %%; the GPU is at %.0f C",
                     now.speed, now.target, now.celsius);
}

const DetectImpl detect_fan = {
    .size = sizeof(ThermalMem),
    .each = fan_each,
    .metrics = (const MetricId[]){METRIC_FANS, METRIC_FAN_SPEED, METRIC_FAN_SLOWEST, METRIC_FAN_TARGET, METRIC_GPU_TEMP,
                                  METRIC_END},
};
