/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks without a reason: against peers, and held down by a power limit that somebody has set. */
#include "engine/health/detect/detect_inside.h"
#include "engine/health/detect/held.h"

#include <string.h>

/* ---- clocks-peers ---- */

#define HELD_TOO_MUCH 0.2 /* a clock that is held down for a known reason so often is that reason's affair */

typedef struct PeersMem {
    DetectVerdict verdict;
    Trail clock, load;
    Held held;
    bool known;       /* of this tick: it has enough to do, and can be compared */
    bool held_down;   /* by heat or power, which explains a low clock; its own, not its peers' */
    double mean, max; /* MHz */
} PeersMem;

/* The SM clock of the past second: the mean of the fast readings, where there are any. */
static double clock_now(const NodeGpu *gpu, double one)
{
    const int at = metric_fast_index(METRIC_SM_CLOCK);
    double sum = 0;
    size_t count = 0;

    for (size_t i = 0; at >= 0 && i < gpu->fast_count; i++)
        if (gpu->fast[i].valid >> at & 1) {
            sum += gpu->fast[i].value[at];
            count++;
        }
    return count ? sum / (double)count : one;
}

static bool is_comparable(const DetectWatch *watch, const DetectTurn *turn, const DetectSeen *seen, PeersMem *mem)
{
    const uint64_t window_ns = detect_time(watch, CLOCKS_PEERS_WINDOW);
    const Sample *sample = detect_sample(seen, METRIC_SM_CLOCK);
    double clock, load, mean_load, held = 0;

    if (!detect_value(turn, seen, METRIC_SM_CLOCK, &clock) || !detect_value(turn, seen, METRIC_GPU_UTIL, &load))
        return false;
    trail_gauge(&mem->clock, sample->time_ns, clock_now(seen->gpu, clock), window_ns);
    trail_gauge(&mem->load, sample->time_ns, load / 100, window_ns);
    held_step(turn, seen, HELD_ANY, window_ns, &mem->held);
    if (!detect_value(turn, seen, METRIC_MAX_SM_CLOCK, &mem->max))
        mem->max = 0;
    if (!trail_rate(&mem->clock, window_ns, 0.8, &mem->mean) || !trail_rate(&mem->load, window_ns, 0.8, &mean_load) ||
        mean_load < detect_param(watch, CLOCKS_PEERS_LOAD) || load / 100 < detect_param(watch, CLOCKS_PEERS_LOAD) / 2)
        return false;
    mem->held_down = held_share(&mem->held, window_ns, &held) && held >= HELD_TOO_MUCH;
    return true;
}

static void peers_look(DetectWatch *watch, const DetectTurn *turn)
{
    for (size_t i = 0; i < turn->count; i++) {
        PeersMem *mem = detect_memory(watch, turn->at[i].slot);

        mem->known = is_comparable(watch, turn, &turn->at[i], mem);
    }
}

static size_t peers_of(const DetectWatch *watch, const DetectTurn *turn, const DetectSeen *of, double *clocks)
{
    const PeersMem *own = detect_memory(watch, of->slot);
    size_t count = 0;

    for (size_t i = 0; i < turn->count; i++) {
        const DetectSeen *seen = &turn->at[i];
        const PeersMem *mem = detect_memory(watch, seen->slot);

        /* the maxima are whole megahertz: different ones are different boards */
        if (seen != of && mem->known && memcmp(&mem->max, &own->max, sizeof mem->max) == 0 &&
            strcmp(seen->gpu->reading.device.name, of->gpu->reading.device.name) == 0)
            clocks[count++] = mem->mean;
    }
    return count;
}

static void peers_each(DetectWatch *watch, const DetectTurn *turn, const DetectSeen *seen)
{
    PeersMem *mem = detect_memory(watch, seen->slot);
    double clocks[NODE_GPUS_MAX], limit = detect_param(watch, CLOCKS_PEERS_BELOW);

    if (!mem->known) { /* idle or no data: nothing to compare */
        if (seen->gpu->state == GPU_UP && detect_fresh(turn, detect_sample(seen, METRIC_SM_CLOCK), METRIC_PACE_FAST))
            detect_fine(turn, &mem->verdict);
        else
            detect_absent(turn, &mem->verdict, seen, detect_sample(seen, METRIC_SM_CLOCK));
        return;
    }
    const size_t count = peers_of(watch, turn, seen, clocks);
    if (mem->verdict.holds)
        limit += (1 - limit) / 4;
    const double median = detect_median(clocks, count);
    if (mem->held_down || (double)count < detect_param(watch, CLOCKS_PEERS_PEERS) || mem->mean >= limit * median) {
        detect_fine(turn, &mem->verdict);
        return;
    }
    detect_holds(
        turn, &mem->verdict,
        "SM clock %.0f MHz on average, %.0f %% below the median of %zu peers under load (%.0f MHz), with neither "
        "heat nor power as a reason",
        mem->mean, (1 - mem->mean / median) * 100, count, median);
}

const DetectImpl detect_clocks_peers = {
    .size = sizeof(PeersMem),
    .look = peers_look,
    .each = peers_each,
    .metrics = (const MetricId[]){METRIC_SM_CLOCK, METRIC_MAX_SM_CLOCK, METRIC_GPU_UTIL, METRIC_CLOCKS_EVENT_REASONS,
                                  METRIC_END},
};

/* ---- power-limit ---- */

typedef struct LimitMem {
    DetectVerdict verdict;
    Held held;
} LimitMem;

static void limit_each(DetectWatch *watch, const DetectTurn *turn, const DetectSeen *seen)
{
    LimitMem *mem = detect_memory(watch, seen->slot);
    const uint64_t window_ns = detect_time(watch, POWER_LIMIT_WINDOW);
    double now, usual, share;

    if (!detect_value(turn, seen, METRIC_ENFORCED_POWER_LIMIT, &now) ||
        !detect_value(turn, seen, METRIC_POWER_MGMT_LIMIT_DEF, &usual)) {
        detect_absent(turn, &mem->verdict, seen, detect_sample(seen, METRIC_ENFORCED_POWER_LIMIT));
        return;
    }
    if (!held_step(turn, seen, HELD_LIMIT, window_ns, &mem->held) || !held_share(&mem->held, window_ns, &share)) {
        detect_silent(turn, &mem->verdict, seen);
        return;
    }
    if (now >= usual * detect_param(watch, POWER_LIMIT_BELOW) ||
        share < detect_param(watch, POWER_LIMIT_SHARE) * (mem->verdict.holds ? 0.5 : 1)) {
        detect_fine(turn, &mem->verdict);
        return;
    }
    detect_holds(turn, &mem->verdict,
                 "its power limit is %.0f W where the board's own is %.0f W, and held its clocks down "
                 "for %.0f %% of the time",
                 now, usual, share * 100);
    detect_counter(&mem->verdict, metric_get(METRIC_ENFORCED_POWER_LIMIT)->name, usual, now);
}

const DetectImpl detect_power_limit = {
    .size = sizeof(LimitMem),
    .each = limit_each,
    .metrics = (const MetricId[]){METRIC_ENFORCED_POWER_LIMIT, METRIC_POWER_MGMT_LIMIT_DEF, METRIC_CLOCKS_EVENT_REASONS,
                                  METRIC_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS, METRIC_END},
};
