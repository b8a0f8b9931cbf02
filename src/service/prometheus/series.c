/* SPDX-License-Identifier: Apache-2.0 */
/* Series of measured metrics; the DCGM_EXP_ families, per GPU and never per instance; minimum, mean and maximum of the
 * fast metrics since a scraper's last scrape. Pure but for memory, one thread. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "service/prometheus/health.h"
#include "service/prometheus/page.h"

enum { NUMBER_TEXT_MAX = 24 };

typedef void ExpWrite(Page *page, const Family *family, const Target *target, const GpuCounts *counted);

static void each_gpu(Page *page, const Family *family, ExpWrite *write)
{
    for (size_t i = 0; i < page->targets->series_count; i++) {
        const Target *target = &page->targets->series[i];

        if (target->derives)
            write(page, family, target, counts_of(page->counts, &page_gpu(page, target)->reading));
    }
}

static Label make_label(const char *name, const char *value)
{
    return (Label){.name = name, .value = value, .group = LABEL_ATTRIBUTE};
}

static Label window_label(char text[NUMBER_TEXT_MAX], uint64_t window_ns)
{
    snprintf(text, NUMBER_TEXT_MAX, "%" PRIu64, window_ns / NS_PER_MS);
    return make_label("window_size_in_ms", text);
}

static void write_xids(Page *page, const Family *family, const Target *target, const GpuCounts *counted, bool window)
{
    char window_text[NUMBER_TEXT_MAX], number[NUMBER_TEXT_MAX];
    const Label size = window_label(window_text, page->config->xid_window_ns);
    bool any = false;

    for (size_t i = 0; counted && i < counted->xids.len; i++) {
        const XidCount *xid = &counted->xids.at[i];
        uint64_t count =
            window ? count_window_sum(&xid->window, page->counts->xid_width_ns, page->node->time_ns) : xid->total;

        if (!count)
            continue;
        any = true;
        snprintf(number, sizeof number, "%" PRIu64, xid->xid);
        if (window)
            page_extra(page, family, target, (Label[]){size, make_label("xid", number)}, 2, (double)count);
        else
            page_extra(page, family, target, (Label[]){make_label("xid", number)}, 1, (double)count);
    }
    /* 0 only where the driver would have reported events */
    if (!any && window && page_gpu(page, target)->state == GPU_UP)
        page_extra(page, family, target, &size, 1, 0);
}

static void xid_count(Page *page, const Family *family, const Target *target, const GpuCounts *counted)
{
    write_xids(page, family, target, counted, true);
}

static void xid_total(Page *page, const Family *family, const Target *target, const GpuCounts *counted)
{
    write_xids(page, family, target, counted, false);
}

static void clock_count(Page *page, const Family *family, const Target *target, const GpuCounts *counted)
{
    char text[NUMBER_TEXT_MAX];
    const Label size = window_label(text, page->config->clock_events_window_ns);
    uint64_t now = page->node->time_ns, width = page->counts->clock_width_ns;
    bool any = false;

    if (!counted || !count_window_sum(&counted->readings.window, width, now))
        return;
    for (size_t bit = 0; bit < CLOCK_EVENTS; bit++) {
        uint64_t count = count_window_sum(&counted->clock[bit].window, width, now);

        if (!count)
            continue;
        any = true;
        page_extra(page, family, target, (Label[]){make_label("clock_event", clock_event_names[bit]), size}, 2,
                   (double)count);
    }
    if (!any)
        page_extra(page, family, target, &size, 1, 0);
}

static void clock_total(Page *page, const Family *family, const Target *target, const GpuCounts *counted)
{
    for (size_t bit = 0; counted && counted->bits_known && bit < CLOCK_EVENTS; bit++)
        page_extra(page, family, target, (Label[]){make_label("clock_event", clock_event_names[bit])}, 1,
                   (double)counted->clock[bit].edges);
}

static void write_health(Page *page, const Family *family, const Target *target, const GpuCounts *counted)
{
    Health found[HEALTH_END];

    (void)counted;
    if (!page->faults)
        return;
    health_of_gpu(page_gpu(page, target), page->faults->incidents, page->faults->incident_count, found);
    for (HealthWatch w = 0; w < HEALTH_END; w++) {
        const Label labels[] = {make_label("health_error_code", found[w].code),
                                make_label("health_watch", health_watch_names[w])};
        size_t skip = found[w].result == HEALTH_PASS; /* no code */

        if (found[w].known)
            page_extra(page, family, target, labels + skip, 2 - skip, (double)found[w].result);
    }
}

static void write_peers(Page *page, const Family *family, const Target *target, const GpuCounts *counted)
{
    const NodeGpu *gpu = page_gpu(page, target);
    char index[NUMBER_TEXT_MAX];

    (void)counted;
    for (size_t i = 0; i < gpu->peer_count; i++) {
        const NodePeer *peer = &gpu->peers[i];
        int64_t status;

        if (!page_fresh(page, &peer->status, METRIC_PACE_SLOW) || !sample_int64(&peer->status, &status))
            continue;
        snprintf(index, sizeof index, "%" PRIu32, peer->index);
        page_extra(
            page, family, target,
            (Label[]){make_label("link_status", peer_status_label((PeerStatus)status)), make_label("peer_gpu", index)},
            2, (double)status);
    }
}

static void write_xid_errors_count(Page *page, const Family *family)
{
    each_gpu(page, family, xid_count);
}

static void write_xid_errors_total(Page *page, const Family *family)
{
    each_gpu(page, family, xid_total);
}

static void write_clock_events_count(Page *page, const Family *family)
{
    each_gpu(page, family, clock_count);
}

static void write_clock_events_total(Page *page, const Family *family)
{
    each_gpu(page, family, clock_total);
}

static void write_gpu_health_status(Page *page, const Family *family)
{
    each_gpu(page, family, write_health);
}

static void write_p2p_status(Page *page, const Family *family)
{
    each_gpu(page, family, write_peers);
}

/* The reading that has a metric's value for a target: of its instance, or of its GPU where the metric is the GPU's. */
static const Reading *reading_of_target(const Page *page, const Target *target, MetricId id)
{
    const NodeGpu *gpu = page_gpu(page, target);

    if (target->instance == TARGET_WHOLE_GPU)
        return &gpu->reading;
    switch (metric_get(id)->scope) {
    case METRIC_SCOPE_GPU_INSTANCE:
    case METRIC_SCOPE_COMPUTE_INSTANCE:
        return &gpu->instances[target->instance];
    default:
        return &gpu->reading;
    }
}

/* Share in use of the memory that is not reserved. */
static const Sample *used_share(const Reading *reading, Sample *room)
{
    const Sample *used = &reading->sample[METRIC_FB_USED];
    double total, taken, reserved;

    if (!sample_double(used, &taken) || !sample_double(&reading->sample[METRIC_FB_TOTAL], &total) ||
        !sample_double(&reading->sample[METRIC_FB_RESERVED], &reserved) || total <= reserved)
        return NULL;
    sample_set_double(room, used->time_ns, taken / (total - reserved));
    return room;
}

const Sample *series_sample(const Reading *reading, MetricId id, Sample *room)
{
    const Sample *sample = &reading->sample[id];

    if (id == METRIC_FB_USED_PERCENT && !sample->valid)
        return used_share(reading, room);
    return sample;
}

/* The pace that defines how long a value is fresh: that of its source for a derived one. */
static MetricPace pace_of(MetricId id)
{
    return id == METRIC_FB_USED_PERCENT ? metric_get(METRIC_FB_USED)->pace : metric_get(id)->pace;
}

static void write_metric(Page *page, const Family *family)
{
    MetricId id = family->metric.metric;
    MetricPace pace = pace_of(id);
    bool as_is = family->metric.factor == 1;

    for (size_t i = 0; i < page->targets->series_count; i++) {
        const Target *target = &page->targets->series[i];
        Sample room = {0};
        const Sample *sample;
        int64_t whole;
        double value;

        if (!target->shown)
            continue;
        sample = series_sample(reading_of_target(page, target, id), id, &room);
        if (!sample || !page_fresh(page, sample, pace))
            continue;
        if (as_is && sample_int64(sample, &whole))
            page_int64(page, family, target->body[family->view].text, target->body[family->view].len, whole);
        else if (sample_double(sample, &value))
            page_target(page, family, target, page_scaled(value, family->metric.factor));
    }
}

/* What the catalogue calls an XID. */
static const char *xid_name(const Page *page, int64_t xid)
{
    enum { RULES_MAX = 8 };
    const FaultRule *rules[RULES_MAX] = {NULL};

    if (xid == 0)
        return "No Error";
    if (page->faults && page->faults->catalogue && xid > 0 && xid <= INT32_MAX)
        catalogue_find_code(page->faults->catalogue, EVENT_XID, (int32_t)xid, 0, rules, RULES_MAX);
    return rules[0] ? rules[0]->name : "Unknown Error";
}

static void write_xid(Page *page, const Family *family)
{
    for (size_t i = 0; i < page->targets->series_count; i++) {
        const Target *target = &page->targets->series[i];
        char number[NUMBER_TEXT_MAX];
        int64_t xid;

        if (!target->shown ||
            !sample_int64(&reading_of_target(page, target, METRIC_XID_ERRORS)->sample[METRIC_XID_ERRORS], &xid))
            continue;
        snprintf(number, sizeof number, "%lld", (long long)xid);
        page_extra(page, family, target,
                   (Label[]){{.name = "err_code", .value = number, .group = LABEL_ATTRIBUTE},
                             {.name = "err_msg", .value = xid_name(page, xid), .group = LABEL_ATTRIBUTE}},
                   2, (double)xid);
    }
}

FamilyWrite *series_writer(MetricId id)
{
    switch (id) {
    case METRIC_XID_ERRORS:
        return write_xid;
    case METRIC_EXP_XID_ERRORS_COUNT:
        return write_xid_errors_count;
    case METRIC_EXP_XID_ERRORS_TOTAL:
        return write_xid_errors_total;
    case METRIC_EXP_CLOCK_EVENTS_COUNT:
        return write_clock_events_count;
    case METRIC_EXP_CLOCK_EVENTS_TOTAL:
        return write_clock_events_total;
    case METRIC_EXP_GPU_HEALTH_STATUS:
        return write_gpu_health_status;
    case METRIC_EXP_P2P_STATUS:
        return write_p2p_status;
    default:
        return write_metric;
    }
}

static void add_wanted(MetricId id, uint64_t wanted[(METRIC_END + 63) / 64])
{
    wanted[id / 64] |= UINT64_C(1) << (id % 64);
}

void series_want(MetricId id, uint64_t wanted[(METRIC_END + 63) / 64])
{
    add_wanted(id, wanted);
    switch (id) {
    case METRIC_FB_USED_PERCENT:
        add_wanted(METRIC_FB_TOTAL, wanted);
        add_wanted(METRIC_FB_USED, wanted);
        add_wanted(METRIC_FB_RESERVED, wanted);
        break;
    case METRIC_EXP_XID_ERRORS_COUNT:
    case METRIC_EXP_XID_ERRORS_TOTAL:
        add_wanted(METRIC_XID_ERRORS, wanted);
        break;
    case METRIC_EXP_CLOCK_EVENTS_COUNT:
    case METRIC_EXP_CLOCK_EVENTS_TOTAL:
        add_wanted(METRIC_CLOCKS_EVENT_REASONS, wanted);
        break;
    case METRIC_EXP_GPU_HEALTH_STATUS:
        for (MetricId needed = 0; needed < METRIC_END; needed++)
            if (health_needs(needed))
                add_wanted(needed, wanted);
        break;
    default:
        break;
    }
}

typedef enum Part { PART_MAX, PART_MEAN, PART_MIN, PART_END } Part;

const char *scrape_base_name(MetricId id)
{
    switch (id) {
    case METRIC_SM_CLOCK:
        return "stoker_sm_clock_hertz";
    case METRIC_MEM_CLOCK:
        return "stoker_memory_clock_hertz";
    case METRIC_POWER_USAGE:
        return "stoker_power_watts";
    case METRIC_POWER_USAGE_INSTANT:
        return "stoker_power_instant_watts";
    case METRIC_GPU_UTIL:
        return "stoker_gpu_utilization_ratio";
    case METRIC_MEM_COPY_UTIL:
        return "stoker_memory_utilization_ratio";
    default:
        return NULL;
    }
}

static Family make_family(Arena *arena, const char *name, const char *help)
{
    Family family = {.name = name, .name_len = strlen(name), .type = FAMILY_GAUGE, .help = help, .view = LABELS_OWN};

    page_make_head(&family, arena);
    return family;
}

void scrape_make(ScrapeFamilies *families)
{
    static const char *const parts[PART_END] = {"max", "mean", "min"};
    static const char *const words[PART_END] = {"highest", "mean", "lowest"};
    Arena *arena = &families->arena;

    memset(families, 0, sizeof *families);
    for (int fast = 0; fast < READING_FAST_CAP; fast++) {
        MetricId id = metric_fast_at(fast);
        const char *base = id == METRIC_END ? NULL : scrape_base_name(id);

        for (Part part = 0; base && part < PART_END; part++)
            families->at[fast][part] = make_family(
                arena, arena_printf(arena, "%s_%s", base, parts[part]),
                arena_printf(arena, "%s; %s since this scraper came last", metric_get(id)->help, words[part]));
    }
    families->window =
        make_family(arena, "stoker_window_seconds",
                    "Time since this scraper came last, which the lowest, mean and highest values are about");
}

void scrape_done(ScrapeFamilies *families)
{
    arena_done(&families->arena);
    memset(families, 0, sizeof *families);
}

static const WindowGpu *window_of(const WindowGpu *windows, size_t count, const Reading *gpu)
{
    for (size_t i = 0; gpu->device.has_pci && i < count; i++)
        if (pci_compare(windows[i].gpu, gpu->device.pci) == 0)
            return &windows[i];
    return NULL;
}

static double part_of(const WindowValue *value, Part part)
{
    switch (part) {
    case PART_MAX:
        return value->max;
    case PART_MIN:
        return value->min;
    default:
        return value->sum / (double)value->count;
    }
}

static void write_part(Page *page, const Family *family, int fast, Part part, const WindowGpu *windows, size_t count)
{
    double factor = unit_factor(metric_get(metric_fast_at(fast))->unit);

    for (size_t i = 0; i < page->targets->gpu_count; i++) {
        const Target *target = &page->targets->gpus[i];
        const WindowGpu *window = window_of(windows, count, &page_gpu(page, target)->reading);

        if (window && window->value[fast].count)
            page_target(page, family, target, page_scaled(part_of(&window->value[fast], part), factor));
    }
}

void scrape_write(Page *page, const ScrapeFamilies *families, const WindowGpu *windows, size_t count, uint64_t span_ns)
{
    for (int fast = 0; fast < READING_FAST_CAP; fast++)
        for (Part part = 0; families->at[fast][0].name && part < PART_END; part++)
            write_part(page, &families->at[fast][part], fast, part, windows, count);
    if (count)
        page_plain(page, &families->window, (double)span_ns / (double)NS_PER_S);
}
