/* SPDX-License-Identifier: Apache-2.0 */
/* Links: NVLinks that are down or have errors and the fabric behind them; the PCIe link's lanes, generation, replays,
 * and what AER counts. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/health/detect/detector.h"

/* --- nvlink-state ------------------------------------------------------------------------------------------------- */

typedef struct LinksMemory {
    uint32_t was_up;                  /* bits of links that were up since the GPU is known */
    uint64_t down_ns[NODE_LINKS_MAX]; /* since when a link is down; 0: it is not */
} LinksMemory;

enum { LINK_UNKNOWN = -1, LINK_DOWN = 0, LINK_UP = 1 };

static int find_link_state(const DetectCase *c, uint32_t link)
{
    const NodeGpu *gpu = c->gpu;
    int64_t up;

    if (gpu->state != GPU_UP || !gpu->links || link >= gpu->link_count || link >= NODE_LINKS_MAX ||
        !detect_fresh(c, &gpu->links[link].active, METRIC_PACE_SLOW) || !sample_int64(&gpu->links[link].active, &up))
        return LINK_UNKNOWN;
    return up ? LINK_UP : LINK_DOWN;
}

static uint32_t find_links_up(const DetectCase *c)
{
    uint32_t up = 0;

    for (uint32_t link = 0; link < NODE_LINKS_MAX; link++)
        up |= (uint32_t)(find_link_state(c, link) == LINK_UP) << link;
    return up;
}

/* All peers of the same product have this link up, and there are three at least: then the board has it. A GPU without
 * any link up among such with links is one without a bridge, unless there are switches. */
static bool is_up_on_peers(const DetectCase *c, uint32_t link, uint32_t own_up)
{
    size_t up = 0;

    if (own_up == 0 && !c->tick->facts->has_switches)
        return false;
    for (size_t i = 0; i < c->tick->count; i++) {
        const DetectCase peer = detect_peer(c, i);

        if (peer.gpu == c->gpu || strcmp(peer.gpu->reading.device.name, c->gpu->reading.device.name) != 0)
            continue;
        const int state = find_link_state(&peer, link);
        if (state == LINK_DOWN)
            return false;
        up += state == LINK_UP;
    }
    return up >= 3;
}

/* Without switches a link ends at another GPU: one that is away takes the links to it along. */
static bool is_peer_away(const DetectCase *c)
{
    for (size_t i = 0; i < c->tick->count && !c->tick->facts->has_switches; i++)
        if (c->tick->gpus[i].gpu != c->gpu && c->tick->gpus[i].gpu->state != GPU_UP)
            return true;
    return false;
}

/* Which links are down that should be up, after their time. */
static uint32_t find_links_down(const DetectCase *c, uint32_t up)
{
    LinksMemory *memory = c->memory;
    uint32_t bad = 0;

    for (uint32_t link = 0; link < NODE_LINKS_MAX; link++) {
        const bool down = find_link_state(c, link) == LINK_DOWN;
        const uint64_t lasts_ns = detect_lasts(c, down, &memory->down_ns[link]);

        if (down && (memory->was_up >> link & 1 || is_up_on_peers(c, link, up)) &&
            lasts_ns >= detect_time(c, NVLINK_STATE_DOWN))
            bad |= UINT32_C(1) << link;
    }
    return bad;
}

/* "4, 7 and 9"; those that do not fit are left out. */
static void list_links(uint32_t links, char *out, size_t cap)
{
    size_t len = 0;
    int left = __builtin_popcount(links);

    out[0] = '\0';
    for (uint32_t link = 0; link < NODE_LINKS_MAX && len + 16 < cap; link++)
        if (links >> link & 1)
            len += (size_t)snprintf(out + len, cap - len, "%s%" PRIu32, len ? --left == 1 ? " and " : ", " : "", link);
}

static DetectOutcome check_links(const DetectCase *c)
{
    LinksMemory *memory = c->memory;
    const bool here = c->gpu->state == GPU_UP && c->gpu->link_count > 0;
    const uint32_t up = here ? find_links_up(c) : 0;
    const int up_count = __builtin_popcount(up);
    char list[96];

    if (here && up == 0 && find_link_state(c, 0) == LINK_UNKNOWN)
        return detect_absent(c, &c->gpu->links[0].active);
    if (!here || detect_age(c, c->up_ns) < detect_time(c, NVLINK_STATE_SETTLE) ||
        (is_peer_away(c) && !c->finding->holds)) {
        memset(memory->down_ns, 0, sizeof memory->down_ns);
        return DETECT_NO_DATA;
    }
    const uint32_t bad = find_links_down(c, up);
    memory->was_up |= up;
    if (!bad)
        return DETECT_FINE;
    list_links(bad, list, sizeof list);
    return detect_hold(c, "NVLink %s of %" PRIu32 " %s down, %d %s up", list, c->gpu->link_count,
                       __builtin_popcount(bad) == 1 ? "is" : "are", up_count, up_count == 1 ? "is" : "are");
}

const DetectImpl detect_nvlink_state = {.size = sizeof(LinksMemory), .of_gpu = check_links, .links = true};

/* --- nvlink-errors ------------------------------------------------------------------------------------------------ */

enum { KIND_CRC, KIND_REPLAY, KIND_RECOVERY, KIND_END };

typedef struct LinkMemory {
    DetectFinding finding;
    Trail errors[KIND_END];
} LinkMemory;

static const struct {
    const char *text;
    NodeLinkError counters[2];
    size_t param;
} kinds[KIND_END] = {
    {"checksum errors", {NODE_LINK_CRC_FLIT, NODE_LINK_CRC_DATA}, NVLINK_ERRORS_CRC},
    {"replays", {NODE_LINK_REPLAY, NODE_LINK_REPLAY}, NVLINK_ERRORS_REPLAYS},
    {"recoveries", {NODE_LINK_RECOVERY, NODE_LINK_RECOVERY}, NVLINK_ERRORS_RECOVERIES},
};

/* Both counters as one, where there are two; false where there is none. */
static bool count_errors(const DetectCase *c, const NodeLink *link, int kind, Trail *trail)
{
    const size_t count = kinds[kind].counters[0] == kinds[kind].counters[1] ? 1 : 2;
    uint64_t time_ns = 0;
    double sum = 0, value;

    for (size_t i = 0; i < count; i++) {
        const Sample *sample = &link->errors[kinds[kind].counters[i]];

        if (!detect_fresh(c, sample, METRIC_PACE_SLOW) || !sample_double(sample, &value))
            continue;
        sum += value;
        time_ns = sample->time_ns;
    }
    if (time_ns)
        trail_count(trail, time_ns, sum, detect_time(c, NVLINK_ERRORS_WINDOW));
    return time_ns != 0;
}

/* The kind of error that is furthest over its limit is reported. */
static DetectOutcome check_link_errors(const DetectCase *c, LinkMemory *memory, uint32_t at)
{
    TrailSpan span, worst = {0};
    int of = -1;
    double over = 1;
    bool enough = false;

    if (c->gpu->state != GPU_UP || !c->gpu->links || at >= c->gpu->link_count)
        return DETECT_NO_DATA;
    for (int kind = 0; kind < KIND_END; kind++) {
        Trail *trail = &memory->errors[kind];
        const double limit = detect_limit(c, kinds[kind].param, 0.5);

        if (!count_errors(c, &c->gpu->links[at], kind, trail) ||
            !trail_span(trail, detect_time(c, NVLINK_ERRORS_WINDOW), 0.5, &span))
            continue;
        enough = true;
        if (span.rises >= 2 && span.rate / limit >= over) {
            over = span.rate / limit;
            worst = span;
            of = kind;
        }
    }
    if (of < 0)
        return enough ? DETECT_FINE : DETECT_NO_DATA;
    detect_hold(c, "NVLink %" PRIu32 " has %.3g %s a second over %.0f s; %.0f in all", at, worst.rate, kinds[of].text,
                worst.seconds, memory->errors[of].last);
    return detect_counter(c, kinds[of].text, memory->errors[of].last - worst.sum, memory->errors[of].last);
}

/* Each link has a finding of its own. */
static DetectOutcome check_errors(const DetectCase *c)
{
    LinkMemory *links = c->memory;
    Device device = c->gpu->reading.device;

    device_make_part(&device, DEVICE_LINK);
    for (uint32_t at = 0; at < NODE_LINKS_MAX; at++) {
        DetectCase link = *c;

        link.finding = &links[at].finding;
        device.link = at;
        detect_settle(&link, check_link_errors(&link, &links[at], at));
        detect_report(&link, &device, -1);
    }
    return DETECT_SAME;
}

const DetectImpl detect_nvlink_errors = {
    .size = sizeof(LinkMemory) * NODE_LINKS_MAX, .of_gpu = check_errors, .links = true};

/* --- fabric-state ------------------------------------------------------------------------------------------------- */

/* DCGM's numbers, as the sampler gives them. */
enum { FABRIC_NOT_STARTED = 1, FABRIC_IN_PROGRESS = 2, FABRIC_REGISTERED = 3, FABRIC_FAILED = 4 };

/* nvmlGpuFabricInfoV_t: healthSummary 2 unhealthy, 3 limited capacity; healthMask in fields, of two bits each where 1
 * is yes, but the last one of four where 0 and 1 are none (nvml.h). */
static const struct {
    uint8_t shift, width;
    const char *text;
} health[] = {
    {0, 2, "its bandwidth is degraded"}, {2, 2, "its route is being recovered"},
    {4, 2, "its route is unhealthy"},    {6, 2, "it recovers from an access timeout"},
    {8, 4, "it is configured wrongly"},
};

static const char *find_illness(const DetectCase *c)
{
    int64_t mask, summary;

    if (detect_int(c, METRIC_FABRIC_HEALTH_MASK, &mask))
        for (size_t i = 0; i < ARRAY_LEN(health); i++) {
            const uint64_t field = (uint64_t)mask >> health[i].shift & ((1U << health[i].width) - 1);

            if (health[i].width == 4 ? field > 1 : field == 1)
                return health[i].text;
        }
    if (detect_int(c, METRIC_FABRIC_HEALTH_SUMMARY, &summary) && (summary == 2 || summary == 3))
        return summary == 2 ? "it is unhealthy" : "its capacity is limited";
    return NULL;
}

/* The memory: since when it is not registered. */
static DetectOutcome check_fabric(const DetectCase *c)
{
    const Facts *facts = c->tick->facts;
    const bool known = c->tick->facts_known;
    int64_t status = 0;
    const bool given = detect_int(c, METRIC_FABRIC_MANAGER_STATUS, &status);
    const bool waits = status == FABRIC_NOT_STARTED || status == FABRIC_IN_PROGRESS;
    const uint64_t lasts_ns = detect_lasts(c, waits, c->memory);
    const char *ill = find_illness(c);
    char span[DURATION_TEXT_MAX];

    if (!given)
        return detect_absent(c, detect_sample(c, METRIC_FABRIC_MANAGER_STATUS));
    if (status == FABRIC_FAILED)
        return detect_hold(c, "its registration with the NVLink fabric failed");
    if (status == FABRIC_NOT_STARTED && known && !facts->has_switches && !facts->fabric_manager)
        return DETECT_FINE; /* there is nothing to register with */
    if (waits && lasts_ns < detect_time(c, FABRIC_STATE_SETTLE))
        return DETECT_NO_DATA;
    if (waits)
        return detect_hold(c, "its registration with the NVLink fabric %s for %s%s",
                           status == FABRIC_IN_PROGRESS ? "has been in progress" : "has not been started",
                           detect_span_text(lasts_ns, span),
                           known && facts->proc_known && !facts->fabric_manager ? "; nv-fabricmanager does not run"
                                                                                : "");
    return ill ? detect_hold(c, "the NVLink fabric says of it: %s", ill) : DETECT_FINE;
}

const DetectImpl detect_fabric_state = {
    .size = sizeof(uint64_t),
    .of_gpu = check_fabric,
    .metrics = DETECT_METRICS(METRIC_FABRIC_MANAGER_STATUS, METRIC_FABRIC_HEALTH_MASK, METRIC_FABRIC_HEALTH_SUMMARY)};

/* --- fabric-service ----------------------------------------------------------------------------------------------- */

static bool is_any_gpu_used(const DetectTick *tick)
{
    for (size_t i = 0; i < tick->count; i++)
        if (tick->gpus[i].up_ns && tick->gpus[i].gpu->process_count > 0)
            return true;
    return false;
}

/* The memory: whether IMEX was seen running. A scheduler may start it for a job and end it afterwards, so that it is
 * missed only under the processes that had it. */
static DetectOutcome check_fabric_service(const DetectCase *c)
{
    const Facts *facts = c->tick->facts;
    bool *had_imex = c->memory;

    if (!c->tick->facts_known || !facts->all_tasks || c->tick->released || !detect_is_any_up(c->tick, UINT64_MAX))
        return DETECT_NO_DATA;
    if (detect_choice(c, FABRIC_SERVICE_WHAT) == 0)
        return facts->has_switches && facts->module_loaded && !facts->fabric_manager
                   ? detect_hold(c, "nv-fabricmanager does not run, and the node has NVSwitches")
                   : DETECT_FINE;
    *had_imex = facts->imex || (*had_imex && is_any_gpu_used(c->tick));
    return *had_imex && !facts->imex ? detect_hold(c, "nvidia-imex does not run any more, and programs use the GPUs")
                                     : DETECT_FINE;
}

const DetectImpl detect_fabric_service = {.size = sizeof(bool), .of_node = check_fabric_service};

/* --- pcie-width --------------------------------------------------------------------------------------------------- */

/* Megatransfers per second by generation (PCIe base specification). */
static const uint32_t speeds_mts[] = {0, 2500, 5000, 8000, 16000, 32000, 64000};

static double find_generation(uint32_t speed_mts)
{
    for (size_t i = ARRAY_LEN(speeds_mts) - 1; i > 0; i--)
        if (speed_mts >= speeds_mts[i])
            return (double)i;
    return NAN;
}

static double find_lanes(uint32_t number)
{
    return number ? (double)number : NAN;
}

typedef struct PcieLink {
    double now, can; /* NaN: not known */
} PcieLink;

static double find_positive(const DetectCase *c, MetricId id)
{
    double value;

    return detect_value(c, id, &value) && value > 0 ? value : (double)NAN;
}

/* Lanes, or the generation. fmin ignores NaN. If driver and bus disagree, the better value counts, since reading a link
 * may wake it up. */
static PcieLink find_link(const DetectCase *c, bool width)
{
    const FactsGpu *facts =
        c->facts && c->facts->present && !c->facts->asleep && !c->facts->config_lost ? c->facts : NULL;
    PcieLink link = {find_positive(c, width ? METRIC_PCIE_LINK_WIDTH : METRIC_PCIE_LINK_GEN),
                     find_positive(c, width ? METRIC_PCIE_MAX_LINK_WIDTH : METRIC_PCIE_MAX_LINK_GEN)};

    if (facts && width) {
        link.now = fmax(link.now, find_lanes(facts->current.width));
        link.can = fmin(link.can, fmin(find_lanes(facts->max.width), find_lanes(facts->slot.width)));
    } else if (facts) {
        link.now = fmax(link.now, find_generation(facts->current.speed_mts));
        link.can = fmin(link.can, fmin(find_generation(facts->max.speed_mts), find_generation(facts->slot.speed_mts)));
    }
    return link;
}

static DetectOutcome check_width(const DetectCase *c)
{
    const PcieLink link = find_link(c, true);
    double load;

    if (c->gpu->state != GPU_UP)
        return DETECT_NO_DATA;
    if (isnan(link.now) || isnan(link.can))
        return detect_absent(c, detect_sample(c, METRIC_PCIE_LINK_WIDTH));
    if (link.now >= link.can)
        return DETECT_FINE;
    if (detect_value(c, METRIC_GPU_UTIL, &load))
        detect_hold(c, "%.0f of %.0f PCIe lanes, at %.0f %% utilisation", link.now, link.can, load);
    else
        detect_hold(c, "%.0f of %.0f PCIe lanes", link.now, link.can);
    return detect_counter(c, metric_get(METRIC_PCIE_LINK_WIDTH)->name, link.can, link.now);
}

const DetectImpl detect_pcie_width = {
    .of_gpu = check_width,
    .metrics = DETECT_METRICS(METRIC_PCIE_LINK_WIDTH, METRIC_PCIE_MAX_LINK_WIDTH, METRIC_GPU_UTIL)};

/* --- pcie-speed --------------------------------------------------------------------------------------------------- */

typedef struct SpeedMemory {
    Trail sent, received; /* bytes */
    uint64_t since_ns;    /* under load all the time and slower than it can be since then; 0: not */
} SpeedMemory;

/* Bytes per second over the last ten seconds or so, both ways. */
static double find_traffic(const DetectCase *c)
{
    SpeedMemory *memory = c->memory;
    const uint64_t window_ns = 10 * NS_PER_S;
    double out = 0, in = 0;

    trail_count_metric(&memory->sent, c, METRIC_PCIE_TX_BYTES_COUNT, window_ns);
    trail_count_metric(&memory->received, c, METRIC_PCIE_RX_BYTES_COUNT, window_ns);
    trail_rate(&memory->sent, window_ns, 0.3, &out);
    trail_rate(&memory->received, window_ns, 0.3, &in);
    return out + in;
}

/* Without load the generation says nothing, neither good nor bad: what was seen under load stays for as long as the
 * class keeps it, and the link's own highest generation ends it at any time. */
static DetectOutcome check_speed(const DetectCase *c)
{
    SpeedMemory *memory = c->memory;
    const bool is_up = c->gpu->state == GPU_UP;
    const PcieLink link = is_up ? find_link(c, false) : (PcieLink){NAN, NAN};
    const double traffic = is_up ? find_traffic(c) : 0;
    double load = 0;

    detect_value(c, METRIC_GPU_UTIL, &load);
    const bool busy = load / 100 >= detect_param(c, PCIE_SPEED_LOAD) || traffic >= detect_param(c, PCIE_SPEED_TRAFFIC);
    const uint64_t lasts_ns = detect_lasts(c, busy && link.now < link.can, &memory->since_ns);

    if (!is_up)
        return DETECT_NO_DATA;
    if (isnan(link.now) || isnan(link.can))
        return detect_absent(c, detect_sample(c, METRIC_PCIE_LINK_GEN));
    if (link.now >= link.can)
        return DETECT_FINE;
    if (!busy || lasts_ns < detect_time(c, PCIE_SPEED_WINDOW))
        return DETECT_NO_DATA;
    detect_hold(c, "PCIe generation %.0f of %.0f, at %.0f %% utilisation and %.1f GB/s over PCIe", link.now, link.can,
                load, traffic / 1e9);
    return detect_counter(c, metric_get(METRIC_PCIE_LINK_GEN)->name, link.can, link.now);
}

const DetectImpl detect_pcie_speed = {.size = sizeof(SpeedMemory),
                                      .of_gpu = check_speed,
                                      .metrics = DETECT_METRICS(METRIC_PCIE_LINK_GEN, METRIC_PCIE_MAX_LINK_GEN,
                                                                METRIC_GPU_UTIL, METRIC_PCIE_TX_BYTES_COUNT,
                                                                METRIC_PCIE_RX_BYTES_COUNT)};

/* --- pcie-replay -------------------------------------------------------------------------------------------------- */

/* DCGM's limits: so many a minute for each lane of the generation that the link can do. */
static double find_usual_replays(const DetectCase *c)
{
    static const double per_lane[] = {0, 0.15, 0.3, 0.48, 0.96, 1.92, 3.84};
    const double generation = find_link(c, false).can, lanes = find_link(c, true).can;

    if (isnan(generation) || isnan(lanes))
        return 16; /* generation 4, 16 lanes */
    return ceil(per_lane[generation < 1 ? 1 : generation > 6 ? 6 : (int)generation] * lanes);
}

static DetectOutcome check_replays(const DetectCase *c)
{
    const uint64_t window_ns = detect_time(c, PCIE_REPLAY_WINDOW);
    double replays, limit = detect_param(c, PCIE_REPLAY_RATE);
    TrailSpan span;

    if (!detect_value(c, METRIC_PCIE_REPLAY_COUNTER, &replays))
        return detect_absent(c, detect_sample(c, METRIC_PCIE_REPLAY_COUNTER));
    trail_count_metric(c->memory, c, METRIC_PCIE_REPLAY_COUNTER, window_ns);
    if (!trail_span(c->memory, window_ns, 0.5, &span))
        return DETECT_NO_DATA;
    if (limit <= 0)
        limit = find_usual_replays(c);
    if (span.rate * 60 < limit * (c->finding->holds ? 0.5 : 1) || span.rises < 2)
        return DETECT_FINE;
    detect_hold(c, "%.0f PCIe replays a minute over %.0f s, where %.0f are usual at most; %.0f in all", span.rate * 60,
                span.seconds, limit, replays);
    return detect_counter(c, metric_get(METRIC_PCIE_REPLAY_COUNTER)->name, replays - span.sum, replays);
}

const DetectImpl detect_pcie_replay = {.size = sizeof(Trail),
                                       .of_gpu = check_replays,
                                       .metrics = DETECT_METRICS(METRIC_PCIE_REPLAY_COUNTER, METRIC_PCIE_LINK_GEN,
                                                                 METRIC_PCIE_MAX_LINK_GEN, METRIC_PCIE_LINK_WIDTH,
                                                                 METRIC_PCIE_MAX_LINK_WIDTH)};

/* --- aer ---------------------------------------------------------------------------------------------------------- */

static double sum_errors(const FactsGpu *facts, FactsAer kind)
{
    return (double)(facts->aer[kind] + facts->port_aer[kind]);
}

static DetectOutcome check_aer(const DetectCase *c)
{
    const bool corrected = detect_choice(c, AER_KIND) == 0;
    const uint64_t window_ns = detect_time(c, AER_WINDOW);
    TrailSpan span;

    if (!c->facts || !c->facts->has_aer || c->facts->asleep)
        return DETECT_NO_DATA;
    const double errors = corrected ? sum_errors(c->facts, FACTS_AER_CORRECTABLE)
                                    : sum_errors(c->facts, FACTS_AER_NONFATAL) + sum_errors(c->facts, FACTS_AER_FATAL);
    trail_count(c->memory, c->tick->facts->time_ns, errors, window_ns);
    if (!trail_span(c->memory, window_ns, corrected ? 0.2 : 0, &span))
        return DETECT_NO_DATA;
    if (span.rate * 60 <= detect_limit(c, AER_RATE, 0.5) || (corrected && span.rises < 2))
        return DETECT_FINE;
    detect_hold(c, "%.0f %s PCIe errors (AER) within %.0f s, of the GPU and the port above it", span.sum,
                corrected ? "corrected" : "uncorrected", span.seconds);
    return detect_counter(c, corrected ? "aer_correctable" : "aer_uncorrected", errors - span.sum, errors);
}

const DetectImpl detect_aer = {.size = sizeof(Trail), .of_gpu = check_aer};
