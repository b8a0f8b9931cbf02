/* SPDX-License-Identifier: Apache-2.0 */
/* The PCIe link: lanes, generation, replays, what AER counts. */
#include "engine/health/detect/detect_inside.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- lanes and generations ---- */

/* Megatransfers per second by generation (PCIe base specification). */
static const uint32_t speeds_mts[] = {0, 2500, 5000, 8000, 16000, 32000, 64000};

static double generation_of(uint32_t speed_mts)
{
    for (size_t i = ARRAY_LEN(speeds_mts) - 1; i > 0; i--)
        if (speed_mts >= speeds_mts[i])
            return (double)i;
    return NAN;
}

static double is_known(uint32_t number)
{
    return number ? (double)number : NAN;
}

typedef struct Link {
    double now, can; /* NaN: not known */
} Link;

/* fmin ignores NaN. If driver and bus disagree, the better value counts, since reading a link may wake it up. */
static Link link_of(const DetectTurn *turn, const DetectSeen *seen, bool width)
{
    const FactsGpu *facts =
        seen->facts && seen->facts->present && !seen->facts->asleep && !seen->facts->config_lost ? seen->facts : NULL;
    Link link = {NAN, NAN};

    if (!detect_value(turn, seen, width ? METRIC_PCIE_LINK_WIDTH : METRIC_PCIE_LINK_GEN, &link.now) || link.now <= 0)
        link.now = NAN;
    if (!detect_value(turn, seen, width ? METRIC_PCIE_MAX_LINK_WIDTH : METRIC_PCIE_MAX_LINK_GEN, &link.can) ||
        link.can <= 0)
        link.can = NAN;
    if (!facts)
        return link;
    if (width) {
        link.now = fmax(link.now, is_known(facts->current.width));
        link.can = fmin(link.can, fmin(is_known(facts->max.width), is_known(facts->slot.width)));
    } else {
        link.now = fmax(link.now, generation_of(facts->current.speed_mts));
        link.can = fmin(link.can, fmin(generation_of(facts->max.speed_mts), generation_of(facts->slot.speed_mts)));
    }
    return link;
}

typedef struct LinkMem {
    DetectVerdict verdict;
    Trail sent, received; /* bytes */
    uint64_t since_ns;    /* under load all the time and slower than it can be since then; 0: not */
} LinkMem;

static bool load_of(const DetectTurn *turn, const DetectSeen *seen, double *ret)
{
    if (!detect_value(turn, seen, METRIC_GPU_UTIL, ret))
        return false;
    *ret /= 100;
    return true;
}

static void width_each(DetectWatch *watch, const DetectTurn *turn, const DetectSeen *seen)
{
    LinkMem *mem = detect_memory(watch, seen->slot);
    double load = NAN;

    if (seen->gpu->state != GPU_UP) {
        detect_silent(turn, &mem->verdict, seen);
        return;
    }
    const Link link = link_of(turn, seen, true);
    if (isnan(link.now) || isnan(link.can)) {
        detect_absent(turn, &mem->verdict, seen, detect_sample(seen, METRIC_PCIE_LINK_WIDTH));
        return;
    }
    if (link.now >= link.can) {
        detect_fine(turn, &mem->verdict);
        return;
    }
    if (load_of(turn, seen, &load))
        detect_holds(turn, &mem->verdict, "%.0f of %.0f PCIe lanes, at %.0f %% utilisation", link.now, link.can,
                     load * 100);
    else
        detect_holds(turn, &mem->verdict, "%.0f of %.0f PCIe lanes", link.now, link.can);
    detect_counter(&mem->verdict, metric_get(METRIC_PCIE_LINK_WIDTH)->name, link.can, link.now);
}

const DetectImpl detect_pcie_width = {
    .size = sizeof(LinkMem),
    .each = width_each,
    .metrics = (const MetricId[]){METRIC_PCIE_LINK_WIDTH, METRIC_PCIE_MAX_LINK_WIDTH, METRIC_GPU_UTIL, METRIC_END},
};

/* Bytes per second over the last ten seconds or so, both ways. */
static double traffic_of(const DetectTurn *turn, const DetectSeen *seen, LinkMem *mem)
{
    const uint64_t window_ns = 10 * NS_PER_S;
    double sent, received, out = 0, in = 0;

    if (detect_value(turn, seen, METRIC_PCIE_TX_BYTES_COUNT, &sent))
        trail_count(&mem->sent, detect_sample(seen, METRIC_PCIE_TX_BYTES_COUNT)->time_ns, sent, window_ns);
    if (detect_value(turn, seen, METRIC_PCIE_RX_BYTES_COUNT, &received))
        trail_count(&mem->received, detect_sample(seen, METRIC_PCIE_RX_BYTES_COUNT)->time_ns, received, window_ns);
    trail_rate(&mem->sent, window_ns, 0.3, &out);
    trail_rate(&mem->received, window_ns, 0.3, &in);
    return out + in;
}

/* Without load the generation says nothing, neither good nor bad: what was seen under load stays for as long as the
 * class keeps it, and the link's own highest generation ends it at any time. */
static void speed_each(DetectWatch *watch, const DetectTurn *turn, const DetectSeen *seen)
{
    LinkMem *mem = detect_memory(watch, seen->slot);
    double load = 0;

    if (seen->gpu->state != GPU_UP) {
        mem->since_ns = 0;
        detect_silent(turn, &mem->verdict, seen);
        return;
    }
    const Link link = link_of(turn, seen, false);
    const double traffic = traffic_of(turn, seen, mem);
    if (isnan(link.now) || isnan(link.can)) {
        mem->since_ns = 0;
        detect_absent(turn, &mem->verdict, seen, detect_sample(seen, METRIC_PCIE_LINK_GEN));
        return;
    }
    load_of(turn, seen, &load);
    const bool busy =
        load >= detect_param(watch, PCIE_SPEED_LOAD) || traffic >= detect_param(watch, PCIE_SPEED_TRAFFIC);
    if (link.now >= link.can || !busy)
        mem->since_ns = 0;
    else if (mem->since_ns == 0)
        mem->since_ns = turn->now_ns;
    if (link.now >= link.can)
        detect_fine(turn, &mem->verdict);
    else if (!busy || detect_since(turn->now_ns, mem->since_ns) < detect_time(watch, PCIE_SPEED_WINDOW))
        detect_silent(turn, &mem->verdict, seen);
    else {
        detect_holds(turn, &mem->verdict,
                     "PCIe generation %.0f of %.0f, at %.0f %% utilisation and %.1f GB/s over PCIe", link.now, link.can,
                     load * 100, traffic / 1e9);
        detect_counter(&mem->verdict, metric_get(METRIC_PCIE_LINK_GEN)->name, link.can, link.now);
    }
}

const DetectImpl detect_pcie_speed = {
    .size = sizeof(LinkMem),
    .each = speed_each,
    .metrics = (const MetricId[]){METRIC_PCIE_LINK_GEN, METRIC_PCIE_MAX_LINK_GEN, METRIC_GPU_UTIL,
                                  METRIC_PCIE_TX_BYTES_COUNT, METRIC_PCIE_RX_BYTES_COUNT, METRIC_END},
};

/* ---- pcie-replay ---- */

typedef struct CountMem {
    DetectVerdict verdict;
    Trail errors;
} CountMem;

/* DCGM's limits: so many a minute for each lane of the generation that the link can do. */
static double usual_replays(const DetectTurn *turn, const DetectSeen *seen)
{
    static const double per_lane[] = {0, 0.15, 0.3, 0.48, 0.96, 1.92, 3.84};
    const double generation = link_of(turn, seen, false).can, lanes = link_of(turn, seen, true).can;

    if (isnan(generation) || isnan(lanes))
        return 16; /* generation 4, 16 lanes */
    return ceil(per_lane[generation < 1 ? 1 : generation > 6 ? 6 : (int)generation] * lanes);
}

static void replay_each(DetectWatch *watch, const DetectTurn *turn, const DetectSeen *seen)
{
    CountMem *mem = detect_memory(watch, seen->slot);
    const Sample *sample = detect_sample(seen, METRIC_PCIE_REPLAY_COUNTER);
    const uint64_t window_ns = detect_time(watch, PCIE_REPLAY_WINDOW);
    double replays, limit = detect_param(watch, PCIE_REPLAY_RATE);
    TrailSpan span;

    if (!detect_value(turn, seen, METRIC_PCIE_REPLAY_COUNTER, &replays)) {
        detect_absent(turn, &mem->verdict, seen, sample);
        return;
    }
    trail_count(&mem->errors, sample->time_ns, replays, window_ns);
    if (!trail_span(&mem->errors, window_ns, 0.5, &span)) {
        detect_silent(turn, &mem->verdict, seen);
        return;
    }
    if (limit <= 0)
        limit = usual_replays(turn, seen);
    const double rate = span.sum / span.seconds * 60;
    if (rate < limit * (mem->verdict.holds ? 0.5 : 1) || span.rises < 2) {
        detect_fine(turn, &mem->verdict);
        return;
    }
    detect_holds(turn, &mem->verdict,
                 "%.0f PCIe replays a minute over %.0f s, where %.0f are usual at most; %.0f in all", rate,
                 span.seconds, limit, replays);
    detect_counter(&mem->verdict, metric_get(METRIC_PCIE_REPLAY_COUNTER)->name, replays - span.sum, replays);
}

const DetectImpl detect_pcie_replay = {
    .size = sizeof(CountMem),
    .each = replay_each,
    .metrics = (const MetricId[]){METRIC_PCIE_REPLAY_COUNTER, METRIC_PCIE_LINK_GEN, METRIC_PCIE_MAX_LINK_GEN,
                                  METRIC_PCIE_LINK_WIDTH, METRIC_PCIE_MAX_LINK_WIDTH, METRIC_END},
};

/* ---- aer ---- */

static double aer_of(const FactsGpu *facts, bool corrected)
{
    if (corrected)
        return (double)(facts->aer[FACTS_AER_CORRECTABLE] + facts->port_aer[FACTS_AER_CORRECTABLE]);
    return (double)(facts->aer[FACTS_AER_NONFATAL] + facts->aer[FACTS_AER_FATAL] + facts->port_aer[FACTS_AER_NONFATAL] +
                    facts->port_aer[FACTS_AER_FATAL]);
}

static void aer_each(DetectWatch *watch, const DetectTurn *turn, const DetectSeen *seen)
{
    CountMem *mem = detect_memory(watch, seen->slot);
    const bool corrected = (int)detect_param(watch, AER_KIND) == 0;
    const uint64_t window_ns = detect_time(watch, AER_WINDOW);
    const double limit = detect_param(watch, AER_RATE);
    TrailSpan span;

    if (!seen->facts || !seen->facts->has_aer || seen->facts->asleep) {
        detect_silent(turn, &mem->verdict, seen);
        return;
    }
    const double errors = aer_of(seen->facts, corrected);
    trail_count(&mem->errors, turn->facts->time_ns, errors, window_ns);
    if (!trail_span(&mem->errors, window_ns, corrected ? 0.2 : 0, &span)) {
        detect_silent(turn, &mem->verdict, seen);
        return;
    }
    if (span.sum / span.seconds * 60 <= limit * (mem->verdict.holds ? 0.5 : 1) || (corrected && span.rises < 2)) {
        detect_fine(turn, &mem->verdict);
        return;
    }
    detect_holds(turn, &mem->verdict, "%.0f %s PCIe errors (AER) within %.0f s, of the GPU and the port above it",
                 span.sum, corrected ? "corrected" : "uncorrected", span.seconds);
    detect_counter(&mem->verdict, corrected ? "aer_correctable" : "aer_uncorrected", errors - span.sum, errors);
}

const DetectImpl detect_aer = {.size = sizeof(CountMem), .each = aer_each};
