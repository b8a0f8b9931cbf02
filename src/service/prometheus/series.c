/* SPDX-License-Identifier: Apache-2.0 */
/* Series of measured metrics; the DCGM_EXP_ families, per GPU and never per instance; minimum, mean and maximum of the
 * fast metrics since a scraper's last scrape. Pure but for memory, one thread. */
#include "service/prometheus/page.h"

#include <math.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/duration.h"
#include "engine/health/incidents.h"

/* ---- measured metrics ---- */

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

/* ---- the parts of several owners ---- */

#define MIB 1048576.0

static bool is_part_of(const Page *page, const Target *target, const Holding *holding)
{
    const NodeGpu *gpu = page_gpu(page, target);
    const uint32_t instance = target->instance == TARGET_WHOLE_GPU
                                  ? DEVICE_NO_NUMBER
                                  : gpu->instances[target->instance].device.gpu_instance;

    return holding->gpu == target->gpu && holding->gpu_instance == instance &&
           strcmp(holding->owner.pod, target->pod) == 0 && strcmp(holding->owner.namespace, target->namespace) == 0 &&
           strcmp(holding->owner.container, target->container) == 0;
}

/* What of the device's value is this owner's: of utilisation and memory, by the driver's samples and lists of its
 * processes, else by its share. A sharer must not show what all do together. False: that is not known. */
static bool read_part(const Page *page, const Target *target, MetricId id, double whole, double *ret)
{
    const Snapshot *snapshot = page->input->snapshot;
    double sum = 0, used;
    bool any = false;

    if (id == METRIC_FB_USED_PERCENT) { /* as much of it as of the memory in use */
        if (!sample_double(&reading_of_target(page, target, METRIC_FB_USED)->sample[METRIC_FB_USED], &used) ||
            !read_part(page, target, METRIC_FB_USED, used, ret))
            return false;
        *ret = used > 0 ? whole * *ret / used : 0;
        return true;
    }
    for (size_t i = 0; i < snapshot->holding_count; i++) {
        const Holding *holding = &snapshot->holdings[i];

        if (!is_part_of(page, target, holding))
            continue;
        any = true;
        if (holding->process_count == 0)
            continue;
        if (id == METRIC_FB_USED)
            sum += (double)holding->memory_bytes / MIB;
        else
            sum += isnan(holding->sm_share) ? whole * holding->share : 100 * holding->sm_share;
    }
    *ret = sum / target->replicas;
    return any;
}

static bool is_divided(const Target *target, MetricId id)
{
    return target->pod && (id == METRIC_GPU_UTIL || id == METRIC_FB_USED || id == METRIC_FB_USED_PERCENT);
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
        if (is_divided(target, id)) {
            if (sample_double(sample, &value) && read_part(page, target, id, value, &value))
                page_value(page, family, target, page_scaled(value, family->metric.factor));
        } else if (as_is && sample_int64(sample, &whole))
            page_int64(page, family, target, whole);
        else if (sample_double(sample, &value))
            page_value(page, family, target, page_scaled(value, family->metric.factor));
    }
}

static void write_links(Page *page, const Family *family)
{
    const MetricId id = family->metric.metric;

    for (size_t i = 0; i < page->targets->link_count; i++) {
        const Target *target = &page->targets->links[i];
        const Sample *sample = &page_gpu(page, target)->links[target->link].ports[id - METRIC_NVLINK_PPCNT_FIRST];
        int64_t value;

        if (page_fresh(page, sample, metric_get(id)->pace) && sample_int64(sample, &value))
            page_int64(page, family, target, value);
    }
}

/* What the catalogue calls an XID. */
static const char *xid_name(const Page *page, int64_t xid)
{
    enum { RULES_MAX = 8 };
    const FaultRule *rules[RULES_MAX] = {NULL};

    if (xid == 0)
        return "No Error";
    if (page->input->catalogue && xid > 0 && xid <= INT32_MAX)
        catalogue_find_code(page->input->catalogue, EVENT_XID, (int32_t)xid, 0, rules, RULES_MAX);
    return rules[0] ? rules[0]->name : "Unknown Error";
}

/* The last XID; 0 while events are listened for and none came. */
static bool last_xid(const Sample *sample, int64_t *ret)
{
    *ret = 0;
    return sample_int64(sample, ret) || (!sample->valid && sample->absence == ABSENCE_NO_DATA);
}

static void write_xid(Page *page, const Family *family)
{
    for (size_t i = 0; i < page->targets->series_count; i++) {
        const Target *target = &page->targets->series[i];
        Line line = {.len = 0};
        int64_t xid;

        if (!target->shown ||
            !last_xid(&reading_of_target(page, target, METRIC_XID_ERRORS)->sample[METRIC_XID_ERRORS], &xid))
            continue;
        line_add_number(&line, "err_code", (uint64_t)xid);
        line_add(&line, "err_msg", xid_name(page, xid));
        page_line(page, family, target, &line, (double)xid);
    }
}

/* ---- health in DCGM's words ---- */

static const WordRow health_watches[] = {HEALTH_TABLE(WORD_ROW)};

/* DCGM's watch and error code for a class of incidents; others go by their cause. */
static const struct {
    const char *class;
    HealthWatch watch;
    const char *code;
} classes[] = {
    {"gpu-lost", HEALTH_PCIE, "DCGM_FR_FALLEN_OFF_BUS"},
    {"gpu-missing", HEALTH_PCIE, "DCGM_FR_FALLEN_OFF_BUS"},
    {"pcie-degraded", HEALTH_PCIE, "DCGM_FR_PCIE_GENERATION"},
    {"pcie-errors", HEALTH_PCIE, "DCGM_FR_PCI_REPLAY_RATE"},
    {"nvlink-down", HEALTH_NVLINK, "DCGM_FR_NVLINK_DOWN"},
    {"nvlink-errors", HEALTH_NVLINK, "DCGM_FR_NVLINK_ERROR_CRITICAL"},
    {"c2c-error", HEALTH_NVLINK, "DCGM_FR_NVLINK_ERROR_CRITICAL"},
    {"fabric", HEALTH_NVLINK, "DCGM_FR_FABRIC_MANAGER_TRAINING_ERROR"},
    {"nvswitch", HEALTH_NVLINK, "DCGM_FR_NVSWITCH_FATAL_ERROR"},
    {"nvswitch-errors", HEALTH_NVLINK, "DCGM_FR_NVSWITCH_NON_FATAL_ERROR"},
    {"ecc-uncorrectable", HEALTH_MEM, "DCGM_FR_VOLATILE_DBE_DETECTED"},
    {"ecc-contained", HEALTH_MEM, "DCGM_FR_XID_ERROR"},
    {"ecc-storm", HEALTH_MEM, "DCGM_FR_XID_ERROR"},
    {"row-remap-pending", HEALTH_MEM, "DCGM_FR_PENDING_ROW_REMAP"},
    {"row-remap-failed", HEALTH_MEM, "DCGM_FR_ROW_REMAP_FAILURE"},
    {"row-remap-low", HEALTH_MEM, "DCGM_FR_UNCORRECTABLE_ROW_REMAP_LIMIT"},
    {"page-retirement", HEALTH_MEM, "DCGM_FR_PENDING_PAGE_RETIREMENTS"},
    {"sram-threshold", HEALTH_MEM, "DCGM_FR_SRAM_THRESHOLD"},
    {"firmware-error", HEALTH_PMU, "DCGM_FR_XID_ERROR"},
    {"engine-error", HEALTH_SM, "DCGM_FR_XID_ERROR"},
    {"gpu-fault-suspected", HEALTH_SM, "DCGM_FR_XID_ERROR"},
    {"inforom-corrupt", HEALTH_INFOROM, "DCGM_FR_CORRUPT_INFOROM"},
    {"thermal", HEALTH_THERMAL, "DCGM_FR_CLOCKS_EVENT_THERMAL"},
    {"thermal-margin", HEALTH_THERMAL, "DCGM_FR_CLOCKS_EVENT_THERMAL"},
    {"fan", HEALTH_THERMAL, "DCGM_FR_CLOCKS_EVENT_THERMAL"},
    {"power-brake", HEALTH_POWER, "DCGM_FR_CLOCKS_EVENT_POWER"},
    {"power-cabling", HEALTH_POWER, "DCGM_FR_CLOCKS_EVENT_POWER"},
    {"gsp-failure", HEALTH_DRIVER, "DCGM_FR_XID_ERROR"},
    {"reset-required", HEALTH_DRIVER, "DCGM_FR_GPU_RECOVERY_RESET"},
    {"driver-hang", HEALTH_DRIVER, "DCGM_FR_NVML_API"},
    {"driver-error", HEALTH_DRIVER, "DCGM_FR_NVML_API"},
};

/* HEALTH_END: no watch has it. */
static const HealthWatch watch_by_cause[CAUSE_END] = {
    [CAUSE_APPLICATION] = HEALTH_END, [CAUSE_DRIVER] = HEALTH_DRIVER,     [CAUSE_MEMORY] = HEALTH_MEM,
    [CAUSE_BUS] = HEALTH_PCIE,        [CAUSE_LINK] = HEALTH_NVLINK,       [CAUSE_THERMAL] = HEALTH_THERMAL,
    [CAUSE_POWER] = HEALTH_POWER,     [CAUSE_FIRMWARE] = HEALTH_PMU,      [CAUSE_FABRIC] = HEALTH_NVLINK,
    [CAUSE_HOST] = HEALTH_DRIVER,     [CAUSE_CONFIGURATION] = HEALTH_END, [CAUSE_OPERATOR] = HEALTH_END,
    [CAUSE_UNKNOWN] = HEALTH_SM,
};

/* What has to be read for a watch to be a pass; METRIC_END: nothing, it goes by the logs. Nothing finds faults of the
 * MCU. */
static const MetricId gates[HEALTH_ALL] = {
    [HEALTH_PCIE] = METRIC_PCIE_REPLAY_COUNTER,
    [HEALTH_NVLINK] = METRIC_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL,
    [HEALTH_PMU] = METRIC_END,
    [HEALTH_MCU] = METRIC_END,
    [HEALTH_MEM] = METRIC_ECC_DBE_VOL_TOTAL,
    [HEALTH_SM] = METRIC_END,
    [HEALTH_INFOROM] = METRIC_END,
    [HEALTH_THERMAL] = METRIC_CLOCKS_EVENT_REASONS,
    [HEALTH_POWER] = METRIC_CLOCKS_EVENT_REASONS,
    [HEALTH_DRIVER] = METRIC_END,
};

static void add_result(Health *health, HealthResult result, const char *code)
{
    health->known = true;
    if (result <= health->result)
        return;
    health->result = result;
    health->code = code;
}

static void add_incident(const Incident *incident, Health health[HEALTH_END])
{
    const HealthResult result = incident->severity >= SEVERITY_ERROR ? HEALTH_FAIL : HEALTH_WARN;
    const HealthWatch watch = watch_by_cause[incident->cause];

    for (size_t i = 0; i < ARRAY_LEN(classes); i++)
        if (strcmp(classes[i].class, incident->class) == 0) {
            add_result(&health[classes[i].watch], result, classes[i].code);
            return;
        }
    if (watch != HEALTH_END)
        add_result(&health[watch], result, incident->code ? "DCGM_FR_XID_ERROR" : "DCGM_FR_UNKNOWN");
}

void health_of_gpu(const NodeGpu *gpu, const Incident *const *incidents, size_t count, Health health[HEALTH_END])
{
    for (HealthWatch w = 0; w < HEALTH_END; w++)
        health[w] = (Health){.code = ""};
    for (HealthWatch w = 0; w < HEALTH_ALL && gpu->state == GPU_UP; w++)
        if (w != HEALTH_MCU && (gates[w] == METRIC_END || gpu->reading.sample[gates[w]].valid))
            add_result(&health[w], HEALTH_PASS, "");
    for (size_t i = 0; i < count; i++)
        if (incident_is_problem(incidents[i]) && incident_hits(incidents[i], &gpu->reading.device))
            add_incident(incidents[i], health);
    for (HealthWatch w = 0; w < HEALTH_ALL; w++)
        if (health[w].known)
            add_result(&health[HEALTH_ALL], health[w].result, health[w].code);
}

/* ---- DCGM_EXP_ families ---- */

/* `counted` is NULL where nothing was ever seen of this GPU. */
typedef void ExpWrite(Page *page, const Family *family, const Target *target, const GpuCounts *counted);

/* A count in a window, whose length is a label. */
static void write_in_window(Page *page, const Family *family, const Target *target, uint64_t window_ns, Line *line,
                            uint64_t count)
{
    line_add_number(line, "window_size_in_ms", window_ns / NS_PER_MS);
    page_line(page, family, target, line, (double)count);
}

static void write_xid_count(Page *page, const Family *family, const Target *target, const GpuCounts *counted)
{
    const uint64_t window_ns = page->config->xid_window_ns;
    bool any = false;

    for (size_t i = 0; counted && i < counted->xids.len; i++) {
        const XidCount *xid = &counted->xids.at[i];
        const uint64_t count = count_window_sum(&xid->window, page->counts->xid_width_ns, page->node->time_ns);

        if (!count)
            continue;
        Line line = {.len = 0};

        any = true;
        line_add_number(&line, "xid", xid->xid);
        write_in_window(page, family, target, window_ns, &line, count);
    }
    /* 0 only where the driver would have reported events */
    if (!any && page_gpu(page, target)->state == GPU_UP)
        write_in_window(page, family, target, window_ns, &(Line){.len = 0}, 0);
}

static void write_xid_total(Page *page, const Family *family, const Target *target, const GpuCounts *counted)
{
    for (size_t i = 0; counted && i < counted->xids.len; i++) {
        Line line = {.len = 0};

        line_add_number(&line, "xid", counted->xids.at[i].xid);
        page_line(page, family, target, &line, (double)counted->xids.at[i].total);
    }
}

static void write_clock_count(Page *page, const Family *family, const Target *target, const GpuCounts *counted)
{
    const uint64_t now = page->node->time_ns, width = page->counts->clock_width_ns;
    const uint64_t window_ns = page->config->clock_events_window_ns;
    bool any = false;

    if (!counted || !count_window_sum(&counted->readings.window, width, now))
        return;
    for (size_t bit = 0; bit < CLOCK_EVENTS; bit++) {
        const uint64_t count = count_window_sum(&counted->clock[bit].window, width, now);

        if (!count)
            continue;
        Line line = {.len = 0};

        any = true;
        line_add(&line, "clock_event", clock_event_names[bit]);
        write_in_window(page, family, target, window_ns, &line, count);
    }
    if (!any)
        write_in_window(page, family, target, window_ns, &(Line){.len = 0}, 0);
}

static void write_clock_total(Page *page, const Family *family, const Target *target, const GpuCounts *counted)
{
    for (size_t bit = 0; counted && counted->bits_known && bit < CLOCK_EVENTS; bit++) {
        Line line = {.len = 0};

        line_add(&line, "clock_event", clock_event_names[bit]);
        page_line(page, family, target, &line, (double)counted->clock[bit].edges);
    }
}

static void write_health(Page *page, const Family *family, const Target *target, const GpuCounts *counted UNUSED)
{
    const Snapshot *snapshot = page->input->snapshot;
    Health found[HEALTH_END];

    health_of_gpu(page_gpu(page, target), snapshot->incidents, snapshot->incident_count, found);
    for (HealthWatch w = 0; w < HEALTH_END; w++) {
        Line line = {.len = 0};

        if (!found[w].known)
            continue;
        line_add(&line, "health_error_code", found[w].code);
        line_add(&line, "health_watch", health_watches[w].key);
        page_line(page, family, target, &line, (double)found[w].result);
    }
}

static void write_peers(Page *page, const Family *family, const Target *target, const GpuCounts *counted UNUSED)
{
    const NodeGpu *gpu = page_gpu(page, target);

    for (size_t i = 0; i < gpu->peer_count; i++) {
        const NodePeer *peer = &gpu->peers[i];
        Line line = {.len = 0};
        int64_t status;

        if (!page_fresh(page, &peer->status, METRIC_PACE_SLOW) || !sample_int64(&peer->status, &status))
            continue;
        line_add(&line, "link_status", peer_statuses[status].text);
        line_add_number(&line, "peer_gpu", peer->index);
        page_line(page, family, target, &line, (double)status);
    }
}

/* What each is derived from; METRIC_END: the gates of health. */
static const struct {
    MetricId id, needs;
    ExpWrite *write;
} exp_families[] = {
    {METRIC_EXP_XID_ERRORS_COUNT, METRIC_XID_ERRORS, write_xid_count},
    {METRIC_EXP_XID_ERRORS_TOTAL, METRIC_XID_ERRORS, write_xid_total},
    {METRIC_EXP_CLOCK_EVENTS_COUNT, METRIC_CLOCKS_EVENT_REASONS, write_clock_count},
    {METRIC_EXP_CLOCK_EVENTS_TOTAL, METRIC_CLOCKS_EVENT_REASONS, write_clock_total},
    {METRIC_EXP_GPU_HEALTH_STATUS, METRIC_END, write_health},
    {METRIC_EXP_P2P_STATUS, METRIC_EXP_P2P_STATUS, write_peers},
};

/* ARRAY_LEN(exp_families): it is none of them. */
static size_t find_exp(MetricId id)
{
    size_t i = 0;

    while (i < ARRAY_LEN(exp_families) && exp_families[i].id != id)
        i++;
    return i;
}

static void write_exp(Page *page, const Family *family)
{
    ExpWrite *write = exp_families[find_exp(family->metric.metric)].write;

    for (size_t i = 0; i < page->targets->series_count; i++) {
        const Target *target = &page->targets->series[i];

        if (target->derives)
            write(page, family, target, counts_of(page->counts, &page_gpu(page, target)->reading));
    }
}

/* ---- of all ---- */

FamilyWrite *series_writer(MetricId id)
{
    if (id == METRIC_XID_ERRORS)
        return write_xid;
    if (metric_get(id)->scope == METRIC_SCOPE_LINK)
        return write_links;
    return find_exp(id) < ARRAY_LEN(exp_families) ? write_exp : write_metric;
}

void series_want(MetricId id, uint64_t wanted[METRIC_SET_WORDS])
{
    const size_t exp = find_exp(id);

    metric_set_add(wanted, id);
    if (id == METRIC_FB_USED_PERCENT) {
        metric_set_add(wanted, METRIC_FB_TOTAL);
        metric_set_add(wanted, METRIC_FB_USED);
        metric_set_add(wanted, METRIC_FB_RESERVED);
    } else if (exp < ARRAY_LEN(exp_families) && exp_families[exp].needs != METRIC_END) {
        metric_set_add(wanted, exp_families[exp].needs);
    } else if (exp < ARRAY_LEN(exp_families)) {
        for (HealthWatch w = 0; w < HEALTH_ALL; w++)
            if (gates[w] != METRIC_END)
                metric_set_add(wanted, gates[w]);
    }
}

/* ---- since a scraper's last scrape ---- */

typedef enum Part { PART_MAX, PART_MEAN, PART_MIN, PART_END } Part;

static const struct {
    MetricId id;
    const char *name;
} scrape_names[] = {
    {METRIC_SM_CLOCK, "stoker_sm_clock_hertz"},        {METRIC_MEM_CLOCK, "stoker_memory_clock_hertz"},
    {METRIC_POWER_USAGE, "stoker_power_watts"},        {METRIC_POWER_USAGE_INSTANT, "stoker_power_instant_watts"},
    {METRIC_GPU_UTIL, "stoker_gpu_utilization_ratio"}, {METRIC_MEM_COPY_UTIL, "stoker_memory_utilization_ratio"},
};

const char *scrape_base_name(MetricId id)
{
    for (size_t i = 0; i < ARRAY_LEN(scrape_names); i++)
        if (scrape_names[i].id == id)
            return scrape_names[i].name;
    return NULL;
}

void scrape_make(ScrapeFamilies *families)
{
    static const char *const parts[PART_END] = {"max", "mean", "min"};
    static const char *const words[PART_END] = {"highest", "mean", "lowest"};
    Arena *arena = &families->arena;

    for (int fast = 0; fast < READING_FAST_CAP; fast++) {
        MetricId id = metric_fast_at(fast);
        const char *base = id == METRIC_END ? NULL : scrape_base_name(id);

        for (Part part = 0; base && part < PART_END; part++)
            families->at[fast][part] = family_make(
                arena_printf(arena, "%s_%s", base, parts[part]), COUNTER_GAUGE,
                arena_printf(arena, "%s; %s since this scraper came last", metric_get(id)->help, words[part]), arena);
    }
    families->window =
        family_make("stoker_window_seconds", COUNTER_GAUGE,
                    "Time since this scraper came last, which the lowest, mean and highest values are about", arena);
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
    double factor = metric_units[metric_get(metric_fast_at(fast))->unit].factor;

    for (size_t i = 0; i < page->targets->gpu_count; i++) {
        const Target *target = &page->targets->gpus[i];
        const WindowGpu *window = window_of(windows, count, &page_gpu(page, target)->reading);

        if (window && window->value[fast].count)
            page_value(page, family, target, page_scaled(part_of(&window->value[fast], part), factor));
    }
}

void scrape_write(Page *page, const ScrapeFamilies *families, const WindowGpu *windows, size_t count, uint64_t span_ns)
{
    for (int fast = 0; fast < READING_FAST_CAP; fast++)
        for (Part part = 0; families->at[fast][0].name && part < PART_END; part++)
            write_part(page, &families->at[fast][part], fast, part, windows, count);
    if (count)
        page_value(page, &families->window, NULL, (double)span_ns / (double)NS_PER_S);
}
