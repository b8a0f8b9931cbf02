/* SPDX-License-Identifier: Apache-2.0 */
/* Heat, power and clocks: clocks held down or low without a reason, the margin before that, fans. */
#include <math.h>
#include <string.h>

#include "engine/health/detect/detector.h"

/* --- throttle ----------------------------------------------------------------------------------------------------- */

static DetectOutcome check_throttle(const DetectCase *c)
{
    static const char *const held_by[] = {"heat", "the power brake", "the power limit"};
    const HeldReason reason = (HeldReason)detect_choice(c, THROTTLE_REASON);
    const uint64_t window_ns = detect_time(c, THROTTLE_WINDOW);
    double share, celsius = NAN, clock = NAN;
    char span[DURATION_TEXT_MAX];

    if (!held_step(c, reason, window_ns, c->memory))
        return detect_absent(c, detect_sample(c, METRIC_CLOCKS_EVENT_REASONS));
    if (!held_share(c->memory, window_ns, &share))
        return DETECT_NO_DATA;
    if (share < detect_limit(c, THROTTLE_SHARE, 0.6))
        return DETECT_FINE;
    detect_value(c, METRIC_GPU_TEMP, &celsius);
    detect_value(c, METRIC_SM_CLOCK, &clock);
    return detect_hold(c, "%s held its clocks down for %.0f %% of the last %s; %.0f C, SM clock %.0f MHz",
                       held_by[reason], share * 100, detect_span_text(window_ns, span), celsius, clock);
}

const DetectImpl detect_throttle = {
    .size = sizeof(Held),
    .of_gpu = check_throttle,
    .metrics =
        DETECT_METRICS(METRIC_CLOCKS_EVENT_REASONS, METRIC_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS,
                       METRIC_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS, METRIC_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS,
                       METRIC_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS, METRIC_GPU_TEMP, METRIC_SM_CLOCK)};

/* --- power-limit -------------------------------------------------------------------------------------------------- */

/* A limited GPU that has little to do is no finding, and does not count among those that are well either. */
static DetectOutcome check_power_limit(const DetectCase *c)
{
    const uint64_t window_ns = detect_time(c, POWER_LIMIT_WINDOW);
    double now, usual, share;

    if (!detect_value(c, METRIC_ENFORCED_POWER_LIMIT, &now) || !detect_value(c, METRIC_POWER_MGMT_LIMIT_DEF, &usual))
        return detect_absent(c, detect_sample(c, METRIC_ENFORCED_POWER_LIMIT));
    if (!held_step(c, HELD_LIMIT, window_ns, c->memory) || !held_share(c->memory, window_ns, &share))
        return DETECT_NO_DATA;
    if (now >= usual * detect_param(c, POWER_LIMIT_BELOW))
        return DETECT_FINE;
    if (share < detect_limit(c, POWER_LIMIT_SHARE, 0.5))
        return DETECT_NEVER;
    detect_hold(c,
                "its power limit is %.0f W where the board's own is %.0f W, and held its clocks down for %.0f %% of "
                "the time",
                now, usual, share * 100);
    return detect_counter(c, metric_get(METRIC_ENFORCED_POWER_LIMIT)->name, usual, now);
}

const DetectImpl detect_power_limit = {
    .size = sizeof(Held),
    .of_gpu = check_power_limit,
    .metrics = DETECT_METRICS(METRIC_ENFORCED_POWER_LIMIT, METRIC_POWER_MGMT_LIMIT_DEF, METRIC_CLOCKS_EVENT_REASONS,
                              METRIC_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS)};

/* --- clocks-peers ------------------------------------------------------------------------------------------------- */

#define HELD_TOO_MUCH 0.2 /* a clock that is held down for a known reason so often is that reason's affair */

typedef struct PeersMemory {
    Trail clock, load;
    Held held;
    bool known;       /* of this tick: it has enough to do, and can be compared */
    bool held_down;   /* by heat or power, which explains a low clock; its own, not its peers' */
    double mean, max; /* MHz */
} PeersMemory;

static bool is_comparable(const DetectCase *c)
{
    PeersMemory *memory = c->memory;
    const uint64_t window_ns = detect_time(c, CLOCKS_PEERS_WINDOW);
    const uint64_t time_ns = detect_sample(c, METRIC_SM_CLOCK)->time_ns;
    const double enough = detect_param(c, CLOCKS_PEERS_LOAD);
    double clock, load, mean_load, held = 0;

    if (!detect_value(c, METRIC_SM_CLOCK, &clock) || !detect_value(c, METRIC_GPU_UTIL, &load))
        return false;
    trail_gauge(&memory->clock, time_ns, detect_fast_mean(c->gpu, METRIC_SM_CLOCK, 0, clock), window_ns);
    trail_gauge(&memory->load, time_ns, load / 100, window_ns);
    held_step(c, HELD_ANY, window_ns, &memory->held);
    if (!detect_value(c, METRIC_MAX_SM_CLOCK, &memory->max))
        memory->max = 0;
    if (!trail_rate(&memory->clock, window_ns, 0.8, &memory->mean) ||
        !trail_rate(&memory->load, window_ns, 0.8, &mean_load) || mean_load < enough || load / 100 < enough / 2)
        return false;
    memory->held_down = held_share(&memory->held, window_ns, &held) && held >= HELD_TOO_MUCH;
    return true;
}

static DetectOutcome measure_clocks(const DetectCase *c)
{
    for (size_t i = 0; i < c->tick->count; i++) {
        const DetectCase of = detect_peer(c, i);

        ((PeersMemory *)of.memory)->known = is_comparable(&of);
    }
    return DETECT_SAME;
}

static size_t find_peers_clocks(const DetectCase *c, double *clocks)
{
    const PeersMemory *own = c->memory;
    size_t count = 0;

    for (size_t i = 0; i < c->tick->count; i++) {
        const DetectCase peer = detect_peer(c, i);
        const PeersMemory *memory = peer.memory;

        /* the maxima are whole megahertz: different ones are different boards */
        if (peer.gpu != c->gpu && memory->known && memcmp(&memory->max, &own->max, sizeof own->max) == 0 &&
            strcmp(peer.gpu->reading.device.name, c->gpu->reading.device.name) == 0)
            clocks[count++] = memory->mean;
    }
    return count;
}

static DetectOutcome compare_clock(const DetectCase *c)
{
    const PeersMemory *memory = c->memory;
    const Sample *sample = detect_sample(c, METRIC_SM_CLOCK);
    double clocks[NODE_GPUS_MAX], limit = detect_param(c, CLOCKS_PEERS_BELOW);

    if (!memory->known) /* idle or no data: nothing to compare */
        return c->gpu->state == GPU_UP && detect_fresh(c, sample, METRIC_PACE_FAST) ? DETECT_FINE
                                                                                    : detect_absent(c, sample);
    const size_t count = find_peers_clocks(c, clocks);
    const double median = detect_median(clocks, count);
    if (c->finding->holds)
        limit += (1 - limit) / 4;
    if (memory->held_down || (double)count < detect_param(c, CLOCKS_PEERS_PEERS) || memory->mean >= limit * median)
        return DETECT_FINE;
    return detect_hold(c,
                       "SM clock %.0f MHz on average, %.0f %% below the median of %zu peers under load (%.0f MHz), "
                       "with neither heat nor power as a reason",
                       memory->mean, (1 - memory->mean / median) * 100, count, median);
}

const DetectImpl detect_clocks_peers = {
    .size = sizeof(PeersMemory),
    .of_node = measure_clocks,
    .of_gpu = compare_clock,
    .metrics = DETECT_METRICS(METRIC_SM_CLOCK, METRIC_MAX_SM_CLOCK, METRIC_GPU_UTIL, METRIC_CLOCKS_EVENT_REASONS)};

/* --- thermal-margin ----------------------------------------------------------------------------------------------- */

/* The driver's own margin; else the core's distance from where it slows down. */
static bool find_margin(const DetectCase *c, double *ret)
{
    double now, limit;

    if (detect_value(c, METRIC_GPU_TEMP_LIMIT, ret))
        return true;
    if (!detect_value(c, METRIC_GPU_TEMP, &now) || !detect_value(c, METRIC_SLOWDOWN_TEMP, &limit) || limit <= 0)
        return false;
    *ret = limit - now;
    return true;
}

static DetectOutcome check_margin(const DetectCase *c)
{
    const double back = c->finding->holds ? detect_param(c, THERMAL_MARGIN_BACK) : 0;
    double left, celsius = NAN;

    if (!find_margin(c, &left))
        return detect_absent(c, detect_sample(c, METRIC_GPU_TEMP));
    if (left > detect_param(c, THERMAL_MARGIN_KELVIN) + back)
        return DETECT_FINE;
    detect_value(c, METRIC_GPU_TEMP, &celsius);
    return detect_hold(c, "%.0f °C below slowdown, at %.0f °C", left, celsius);
}

const DetectImpl detect_thermal_margin = {
    .of_gpu = check_margin, .metrics = DETECT_METRICS(METRIC_GPU_TEMP_LIMIT, METRIC_GPU_TEMP, METRIC_SLOWDOWN_TEMP)};

/* --- fan ---------------------------------------------------------------------------------------------------------- */

/* The memory: since when a fan has been bad. Cards stop their fans while they are cool; comparisons with NaN are
 * false. */
static DetectOutcome check_fan(const DetectCase *c)
{
    double fans, speed = NAN, target = NAN, celsius = NAN;

    if (!(detect_value(c, METRIC_FANS, &fans) && fans < 1)) {
        if (!detect_value(c, METRIC_FAN_SLOWEST, &speed))
            detect_value(c, METRIC_FAN_SPEED, &speed);
        else
            detect_value(c, METRIC_FAN_TARGET, &target);
        detect_value(c, METRIC_GPU_TEMP, &celsius);
    }
    const bool stands = speed <= 0 && (celsius >= detect_param(c, FAN_CELSIUS) || target > 0);
    const bool bad = stands || target - speed >= 100 * detect_param(c, FAN_BEHIND);
    const uint64_t lasts_ns = detect_lasts(c, bad, c->memory);

    if (isnan(speed))
        return detect_absent(c, detect_sample(c, METRIC_FAN_SPEED));
    if (!bad)
        return DETECT_FINE;
    if (lasts_ns < detect_time(c, FAN_WINDOW))
        return DETECT_NO_DATA;
    if (isnan(target))
        return detect_hold(c, "its fan runs at %.0f %% while the GPU is at %.0f C", speed, celsius);
    return detect_hold(c, "a fan runs at %.0f %% where it should at %.0f %%; the GPU is at %.0f C", speed, target,
                       celsius);
}

const DetectImpl detect_fan = {
    .size = sizeof(uint64_t),
    .of_gpu = check_fan,
    .metrics = DETECT_METRICS(METRIC_FANS, METRIC_FAN_SPEED, METRIC_FAN_SLOWEST, METRIC_FAN_TARGET, METRIC_GPU_TEMP)};
