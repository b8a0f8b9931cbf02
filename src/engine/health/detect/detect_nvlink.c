/* SPDX-License-Identifier: Apache-2.0 */
/* NVLinks that are down or have errors, and the fabric behind them. */
#include "engine/health/detect/detect_inside.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- nvlink-state ---- */

typedef struct StateMem {
    DetectVerdict verdict;
    uint32_t was_up;                  /* bits of links that were up since the GPU is known */
    uint64_t down_ns[NODE_LINKS_MAX]; /* since when a link is down; 0: it is not */
} StateMem;

enum { LINK_UNKNOWN = -1, LINK_DOWN = 0, LINK_UP = 1 };

static int link_state(const DetectTurn *turn, const NodeGpu *gpu, uint32_t link)
{
    int64_t up;

    if (gpu->state != GPU_UP || !gpu->links || link >= gpu->link_count || link >= NODE_LINKS_MAX ||
        !detect_fresh(turn, &gpu->links[link].active, METRIC_PACE_SLOW) || !sample_int64(&gpu->links[link].active, &up))
        return LINK_UNKNOWN;
    return up ? LINK_UP : LINK_DOWN;
}

static uint32_t links_up(const DetectTurn *turn, const NodeGpu *gpu)
{
    uint32_t up = 0;

    for (uint32_t link = 0; link < NODE_LINKS_MAX; link++)
        up |= (uint32_t)(link_state(turn, gpu, link) == LINK_UP) << link;
    return up;
}

/* All peers of the same product have this link up, and there are three at least: then the board has it. A GPU without
 * any link up among such with links is one without a bridge, unless there are switches. */
static bool is_up_on_peers(const DetectTurn *turn, const DetectSeen *of, uint32_t link, uint32_t own_up)
{
    size_t up = 0;

    if (own_up == 0 && !turn->facts->has_switches)
        return false;
    for (size_t i = 0; i < turn->count; i++) {
        const NodeGpu *gpu = turn->at[i].gpu;

        if (&turn->at[i] == of || strcmp(gpu->reading.device.name, of->gpu->reading.device.name) != 0)
            continue;
        const int state = link_state(turn, gpu, link);
        if (state == LINK_DOWN)
            return false;
        up += state == LINK_UP;
    }
    return up >= 3;
}

/* Without switches a link ends at another GPU: one that is away takes the links to it along. */
static bool is_peer_away(const DetectTurn *turn, const DetectSeen *of)
{
    for (size_t i = 0; i < turn->count && !turn->facts->has_switches; i++)
        if (&turn->at[i] != of && turn->at[i].gpu->state != GPU_UP)
            return true;
    return false;
}

/* Which links are down that should be up, after their time. */
static uint32_t links_down(DetectWatch *watch, const DetectTurn *turn, const DetectSeen *seen, StateMem *mem)
{
    const uint32_t up = links_up(turn, seen->gpu);
    uint32_t bad = 0;

    for (uint32_t link = 0; link < NODE_LINKS_MAX; link++) {
        if (link_state(turn, seen->gpu, link) != LINK_DOWN) {
            mem->down_ns[link] = 0;
            continue;
        }
        if (mem->down_ns[link] == 0)
            mem->down_ns[link] = turn->now_ns;
        if (!(mem->was_up >> link & 1) && !is_up_on_peers(turn, seen, link, up))
            continue;
        if (detect_since(turn->now_ns, mem->down_ns[link]) >= detect_time(watch, NVLINK_STATE_DOWN))
            bad |= UINT32_C(1) << link;
    }
    return bad;
}

/* "4, 7 and 9"; those that do not fit are counted. */
static void list_links(uint32_t links, char *out, size_t cap)
{
    size_t len = 0;
    int left = __builtin_popcount(links);

    out[0] = '\0';
    for (uint32_t link = 0; link < NODE_LINKS_MAX && len + 16 < cap; link++)
        if (links >> link & 1)
            len += (size_t)snprintf(out + len, cap - len, "%s%" PRIu32, len ? --left == 1 ? " and " : ", " : "", link);
}

static void state_each(DetectWatch *watch, const DetectTurn *turn, const DetectSeen *seen)
{
    StateMem *mem = detect_memory(watch, seen->slot);
    char list[96];

    if (seen->gpu->state != GPU_UP || seen->gpu->link_count == 0) {
        memset(mem->down_ns, 0, sizeof mem->down_ns);
        detect_silent(turn, &mem->verdict, seen);
        return;
    }
    if (link_state(turn, seen->gpu, 0) == LINK_UNKNOWN && links_up(turn, seen->gpu) == 0) {
        detect_absent(turn, &mem->verdict, seen, &seen->gpu->links[0].active);
        return;
    }
    const bool settled = detect_since(turn->now_ns, seen->up_ns) >= detect_time(watch, NVLINK_STATE_SETTLE);
    if (!settled || (is_peer_away(turn, seen) && !mem->verdict.holds)) {
        memset(mem->down_ns, 0, sizeof mem->down_ns);
        detect_silent(turn, &mem->verdict, seen);
        return;
    }
    const uint32_t bad = links_down(watch, turn, seen, mem);
    mem->was_up |= links_up(turn, seen->gpu);
    if (!bad) {
        detect_fine(turn, &mem->verdict);
        return;
    }
    list_links(bad, list, sizeof list);
    detect_holds(turn, &mem->verdict, "NVLink %s of %" PRIu32 " %s down, %d %s up", list, seen->gpu->link_count,
                 __builtin_popcount(bad) == 1 ? "is" : "are", __builtin_popcount(links_up(turn, seen->gpu)),
                 __builtin_popcount(links_up(turn, seen->gpu)) == 1 ? "is" : "are");
}

const DetectImpl detect_nvlink_state = {.size = sizeof(StateMem), .each = state_each, .links = true};

/* ---- nvlink-errors ---- */

enum { KIND_CRC, KIND_REPLAY, KIND_RECOVERY, KIND_END };

typedef struct ErrorsMem {
    DetectVerdict none; /* the links have their own */
    struct {
        DetectVerdict verdict;
        Trail errors[KIND_END];
    } links[NODE_LINKS_MAX];
} ErrorsMem;

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
static bool count_errors(const DetectTurn *turn, const NodeLink *link, int kind, uint64_t window_ns, Trail *trail)
{
    uint64_t time_ns = 0;
    double sum = 0, value;

    for (size_t i = 0; i < 2; i++) {
        const Sample *sample = &link->errors[kinds[kind].counters[i]];

        if ((i > 0 && kinds[kind].counters[i] == kinds[kind].counters[0]) ||
            !detect_fresh(turn, sample, METRIC_PACE_SLOW) || !sample_double(sample, &value))
            continue;
        sum += value;
        time_ns = sample->time_ns;
    }
    if (time_ns)
        trail_count(trail, time_ns, sum, window_ns);
    return time_ns != 0;
}

static void judge_link(DetectWatch *watch, const DetectTurn *turn, const DetectSeen *seen, ErrorsMem *mem, uint32_t at)
{
    const uint64_t window_ns = detect_time(watch, NVLINK_ERRORS_WINDOW);
    DetectVerdict *verdict = &mem->links[at].verdict;
    TrailSpan span, worst = {0};
    int of = -1;
    double over = 1;
    bool any = false, enough = false;

    for (int kind = 0; kind < KIND_END; kind++) {
        Trail *trail = &mem->links[at].errors[kind];
        const double limit = detect_param(watch, kinds[kind].param) * (verdict->holds ? 0.5 : 1);

        if (!count_errors(turn, &seen->gpu->links[at], kind, window_ns, trail))
            continue;
        any = true;
        if (!trail_span(trail, window_ns, 0.5, &span))
            continue;
        enough = true;
        if (span.rises >= 2 && span.sum / span.seconds / limit >= over) {
            over = span.sum / span.seconds / limit;
            worst = span;
            of = kind;
        }
    }
    if (!any || !enough) {
        detect_silent(turn, verdict, seen);
        return;
    }
    if (of < 0) {
        detect_fine(turn, verdict);
        return;
    }
    detect_holds(turn, verdict, "NVLink %" PRIu32 " has %.3g %s a second over %.0f s; %.0f in all", at,
                 worst.sum / worst.seconds, kinds[of].text, worst.seconds, mem->links[at].errors[of].last);
    detect_counter(verdict, kinds[of].text, mem->links[at].errors[of].last - worst.sum, mem->links[at].errors[of].last);
}

static void errors_each(DetectWatch *watch, const DetectTurn *turn, const DetectSeen *seen)
{
    ErrorsMem *mem = detect_memory(watch, seen->slot);
    const NodeGpu *gpu = seen->gpu;

    for (uint32_t at = 0; at < NODE_LINKS_MAX; at++) {
        DetectVerdict *verdict = &mem->links[at].verdict;

        if (gpu->state == GPU_UP && gpu->links && at < gpu->link_count)
            judge_link(watch, turn, seen, mem, at);
        else
            detect_silent(turn, verdict, seen);
        if (!verdict->holds)
            continue;
        Device link = gpu->reading.device;
        link.kind = DEVICE_LINK;
        link.link = at;
        memcpy(link.parent_uuid, link.uuid, sizeof link.parent_uuid);
        link.uuid[0] = '\0';
        detect_give_sign(turn, watch, verdict, &link, -1);
    }
}

const DetectImpl detect_nvlink_errors = {.size = sizeof(ErrorsMem), .each = errors_each, .links = true};

/* ---- fabric-state ---- */

typedef struct FabricMem {
    DetectVerdict verdict;
    uint64_t waits_ns; /* since when it is not registered; 0: it is */
} FabricMem;

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

static const char *health_text(const DetectTurn *turn, const DetectSeen *seen)
{
    int64_t mask, summary;

    if (detect_int(turn, seen, METRIC_FABRIC_HEALTH_MASK, &mask))
        for (size_t i = 0; i < ARRAY_LEN(health); i++) {
            const uint64_t field = (uint64_t)mask >> health[i].shift & ((1U << health[i].width) - 1);
            if (health[i].width == 4 ? field > 1 : field == 1)
                return health[i].text;
        }
    if (detect_int(turn, seen, METRIC_FABRIC_HEALTH_SUMMARY, &summary) && (summary == 2 || summary == 3))
        return summary == 2 ? "it is unhealthy" : "its capacity is limited";
    return NULL;
}

static void fabric_each(DetectWatch *watch, const DetectTurn *turn, const DetectSeen *seen)
{
    FabricMem *mem = detect_memory(watch, seen->slot);
    int64_t status;
    char span[DURATION_TEXT_MAX];

    if (!detect_int(turn, seen, METRIC_FABRIC_MANAGER_STATUS, &status)) {
        mem->waits_ns = 0;
        detect_absent(turn, &mem->verdict, seen, detect_sample(seen, METRIC_FABRIC_MANAGER_STATUS));
        return;
    }
    const bool waits = status == FABRIC_NOT_STARTED || status == FABRIC_IN_PROGRESS;
    const bool alone = turn->facts_known && !turn->facts->has_switches && !turn->facts->fabric_manager;
    const char *ill = health_text(turn, seen);
    if (!waits)
        mem->waits_ns = 0;
    else if (mem->waits_ns == 0)
        mem->waits_ns = turn->now_ns;
    const uint64_t since_ns = waits ? detect_since(turn->now_ns, mem->waits_ns) : 0;
    if (status == FABRIC_FAILED)
        detect_holds(turn, &mem->verdict, "its registration with the NVLink fabric failed");
    else if (status == FABRIC_NOT_STARTED && alone) /* nobody there to register with */
        detect_fine(turn, &mem->verdict);
    else if (waits && since_ns >= detect_time(watch, FABRIC_STATE_SETTLE))
        detect_holds(turn, &mem->verdict, "its registration with the NVLink fabric %s for %s%s",
                     status == FABRIC_IN_PROGRESS ? "has been in progress" : "has not been started",
                     detect_span_text(since_ns, span),
                     turn->facts_known && turn->facts->proc_known && !turn->facts->fabric_manager
                         ? "; nv-fabricmanager does not run"
                         : "");
    else if (waits)
        detect_silent(turn, &mem->verdict, seen);
    else if (ill)
        detect_holds(turn, &mem->verdict, "the NVLink fabric says of it: %s", ill);
    else
        detect_fine(turn, &mem->verdict);
}

const DetectImpl detect_fabric_state = {
    .size = sizeof(FabricMem),
    .each = fabric_each,
    .metrics = (const MetricId[]){METRIC_FABRIC_MANAGER_STATUS, METRIC_FABRIC_HEALTH_MASK, METRIC_FABRIC_HEALTH_SUMMARY,
                                  METRIC_END},
};
