/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our own families: of the node, its samplers and this program (what is unknown is left out); of each GPU, those
 * without values included; and one series per physical GPU that counts nothing twice: memory summed over the GPU
 * instances, everything of the whole GPU once. Pure, one thread.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "base/cleanup.h"
#include "service/prometheus/page.h"

enum { NUMBER_TEXT_MAX = 24 };

static double scale_value(const OwnFamily *own, uint64_t value)
{
    return own->scale > 0 ? (double)value / own->scale : (double)value;
}

static uint64_t number_at(const void *of, size_t at)
{
    uint64_t number;

    memcpy(&number, (const char *)of + at, sizeof number);
    return number;
}

/* ---- of this program ---- */

static void self_number(Page *page, const Family *family)
{
    if (page->self)
        page_plain(page, family, scale_value(family->own, number_at(page->self, family->own->at)));
}

/* A 0 means that it could not be read. */
static void self_known(Page *page, const Family *family)
{
    if (page->self && number_at(page->self, family->own->at))
        self_number(page, family);
}

static void build_info(Page *page, const Family *family)
{
    const Label label = {.name = "version", .value = page->self ? page->self->version : NULL};

    if (label.value)
        page_labelled(page, family, &label, 1, 1);
}

static void config_fine(Page *page, const Family *family)
{
    if (page->self)
        page_plain(page, family, page->self->config_fine);
}

static bool pods_on(const Page *page)
{
    return page->self && page->self->pods_state && strcmp(page->self->pods_state, "off") != 0;
}

static void pods_state(Page *page, const Family *family)
{
    if (page->self && page->self->pods_state)
        page_labelled(page, family, &(Label){.name = "state", .value = page->self->pods_state}, 1, 1);
}

static void pods_number(Page *page, const Family *family)
{
    if (pods_on(page))
        self_number(page, family);
}

static void pods_age(Page *page, const Family *family)
{
    if (pods_on(page) && page->self->pods_age_ns != UINT64_MAX)
        self_number(page, family);
}

/* ---- of the node ---- */

static void node_count(Page *page, const Family *family)
{
    uint32_t count;

    memcpy(&count, (const char *)page->node + family->own->at, sizeof count);
    page_plain(page, family, count);
}

static void node_number(Page *page, const Family *family)
{
    page_plain(page, family, scale_value(family->own, number_at(page->node, family->own->at)));
}

static void write_released(Page *page, const Family *family)
{
    page_plain(page, family, page->node->release_until_ns != 0);
}

static void driver_up(Page *page, const Family *family)
{
    page_plain(page, family, page->node->driver_why[0] == '\0');
}

/* ---- samplers ---- */

static void sampler_states(Page *page, const Family *family)
{
    size_t count[SAMPLER_STATE_END] = {0};

    for (size_t i = 0; i < page->node->sampler_count; i++)
        count[page->node->samplers[i].state]++;
    for (SamplerState state = SAMPLER_STARTING; state < SAMPLER_STATE_END; state++)
        page_labelled(page, family, &(Label){.name = "state", .value = sampler_state_key(state)}, 1,
                      (double)count[state]);
}

static void sampler_stuck(Page *page, const Family *family)
{
    for (size_t i = 0; i < page->node->sampler_count; i++) {
        const NodeSampler *sampler = &page->node->samplers[i];
        char slot[NUMBER_TEXT_MAX], bus_id[PCI_TEXT_CAP];
        Label labels[4];
        size_t count = 0;
        PciAddress pci;

        if (sampler->state < SAMPLER_STUCK)
            continue;
        snprintf(slot, sizeof slot, "%zu", i);
        if (sampler->function[0])
            labels[count++] = (Label){.name = "function", .value = sampler->function};
        if (sampler->gpu[0]) {
            bool form = pci_parse(sampler->gpu, &pci) == 0;

            labels[count++] =
                (Label){.name = "pci_bus_id", .value = form ? pci_format(pci, PCI_FORM_NVML, bus_id) : sampler->gpu};
        }
        labels[count++] = (Label){.name = "slot", .value = slot};
        if (sampler->wchan[0])
            labels[count++] = (Label){.name = "wchan", .value = sampler->wchan};
        page_labelled(page, family, labels, count,
                      (double)(page->node->time_ns - sampler->since_ns) / (double)NS_PER_S);
    }
}

static void sampler_number(Page *page, const Family *family)
{
    for (size_t i = 0; i < page->node->sampler_count; i++) {
        const NodeSampler *sampler = &page->node->samplers[i];
        uint64_t number = number_at(sampler, family->own->at);
        char slot[NUMBER_TEXT_MAX];

        if (sampler->state == SAMPLER_FREE || !number)
            continue;
        snprintf(slot, sizeof slot, "%zu", i);
        page_labelled(page, family, &(Label){.name = "slot", .value = slot}, 1, scale_value(family->own, number));
    }
}

#define SELF(field) .at = offsetof(ExporterSelf, field)
#define NODE(field) .at = offsetof(Node, field)
#define SAMPLER(field) .at = offsetof(NodeSampler, field)

const OwnFamily own_node_families[] = {
    {"process_cpu_seconds_total", FAMILY_COUNTER, "CPU time of this process", self_known, SELF(cpu_ns), .scale = 1e9},
    {"process_open_fds", FAMILY_GAUGE, "File descriptors this process has open", self_known, SELF(open_fds)},
    {"process_resident_memory_bytes", FAMILY_GAUGE, "Memory this process keeps resident", self_known, SELF(rss_bytes)},
    {"process_start_time_seconds", FAMILY_GAUGE, "When this process started, in seconds since 1970", self_known,
     SELF(start_real_ns), .scale = 1e9},
    {"stoker_build_info", FAMILY_GAUGE, "Which version this is; the value is always 1", .write = build_info},
    {"stoker_config_last_reload_successful", FAMILY_GAUGE, "Whether the configuration was last read without an error",
     .write = config_fine},
    {"stoker_config_reload_failures_total", FAMILY_COUNTER, "Times the configuration could not be read again",
     self_number, SELF(config_reload_failures)},
    {"stoker_config_reloads_total", FAMILY_COUNTER, "Times the configuration was read again", self_number,
     SELF(config_reloads)},
    {"stoker_csv_rows_left_out", FAMILY_GAUGE, "Rows of the list of metrics that could not be used", self_number,
     SELF(counters_left_out)},
    {"stoker_driver_up", FAMILY_GAUGE, "Whether the driver and its library can be used", .write = driver_up},
    {"stoker_events_lost_total", FAMILY_COUNTER, "Events of the driver that were overwritten before they were read",
     node_number, NODE(events_lost)},
    {"stoker_gpus_expected", FAMILY_GAUGE, "GPUs this node should have: as configured, or as on the PCI bus",
     node_count, NODE(gpus_expected)},
    {"stoker_gpus_found", FAMILY_GAUGE, "GPUs the driver gives access to", node_count, NODE(gpus_found)},
    {"stoker_gpus_on_bus", FAMILY_GAUGE, "GPUs on the PCI bus", node_count, NODE(gpus_on_bus)},
    {"stoker_http_auth_failures_total", FAMILY_COUNTER, "Requests with missing or wrong credentials", self_number,
     SELF(http_auth_failures)},
    {"stoker_http_connections", FAMILY_GAUGE, "HTTP connections open now", self_number, SELF(http_connections)},
    {"stoker_http_refused_total", FAMILY_COUNTER, "Requests and connections refused because there were too many",
     self_number, SELF(http_refused)},
    {"stoker_http_requests_total", FAMILY_COUNTER, "HTTP requests answered", self_number, SELF(http_requests)},
    {"stoker_late_ticks_total", FAMILY_COUNTER, "Ticks that began later than they should have", self_number,
     SELF(late_ticks)},
    {"stoker_pods_age_seconds", FAMILY_GAUGE, "Time since the owners of devices were last learned", pods_age,
     SELF(pods_age_ns), .scale = 1e9},
    {"stoker_pods_failures_total", FAMILY_COUNTER, "Times the kubelet could not be asked for the owners of devices",
     pods_number, SELF(pods_failures)},
    {"stoker_pods_mapped", FAMILY_GAUGE, "Pods that have a device", pods_number, SELF(pods_count)},
    {"stoker_pods_state", FAMILY_GAUGE, "How the mapping of devices to pods is doing; the value is always 1",
     .write = pods_state},
    {"stoker_released", FAMILY_GAUGE, "Whether the driver is let go for maintenance", .write = write_released},
    {"stoker_sampler_cpu_seconds_total", FAMILY_COUNTER, "CPU time of a process that talks to the driver",
     sampler_number, SAMPLER(cpu_ns), .scale = 1e9},
    {"stoker_sampler_resident_memory_bytes", FAMILY_GAUGE,
     "Memory that a process that talks to the driver keeps resident", sampler_number, SAMPLER(rss_bytes)},
    {"stoker_sampler_stuck_seconds", FAMILY_GAUGE, "How long a sampler has been stuck in a call, and where",
     .write = sampler_stuck},
    {"stoker_samplers", FAMILY_GAUGE, "Processes that talk to the driver, by what they do", .write = sampler_states},
    {"stoker_samplers_abandoned_total", FAMILY_COUNTER, "Samplers given up because they could not be ended",
     node_number, NODE(samplers_abandoned)},
    {"stoker_samplers_started_total", FAMILY_COUNTER, "Samplers started", node_number, NODE(samplers_started)},
    {"stoker_store_memory_bytes", FAMILY_GAUGE, "Memory of the history", self_number, SELF(store_bytes)},
    {"stoker_store_refused_total", FAMILY_COUNTER, "Series the history had no room for", self_number,
     SELF(store_refused)},
    {"stoker_store_series", FAMILY_GAUGE, "Series in the history", self_number, SELF(store_series)},
    {"stoker_ticks_total", FAMILY_COUNTER, "Ticks of this program", self_number, SELF(ticks)},
};
const size_t own_node_family_count = ARRAY_LEN(own_node_families);

/* A GPU with its labels, for each line. */
#define EACH_GPU(page, target, gpu)                                                                                    \
    for (const Target *target = (page)->targets->gpus, *end_ = target + (page)->targets->gpu_count; target < end_;     \
         target++)                                                                                                     \
        for (const NodeGpu *gpu = page_gpu((page), target); gpu; gpu = NULL)

static Label make_attribute(const char *name, const char *value)
{
    return (Label){.name = name, .value = value, .group = LABEL_ATTRIBUTE};
}

/* ---- state ---- */

static void write_up(Page *page, const Family *family)
{
    EACH_GPU(page, target, gpu)
    {
        const Label reason = make_attribute("reason", gpu_state_key(gpu->state));
        bool is_up = gpu->state == GPU_UP;

        page_extra(page, family, target, &reason, !is_up, is_up);
    }
}

static void write_state(Page *page, const Family *family)
{
    EACH_GPU(page, target, gpu)
    {
        const Label key = make_attribute("state", gpu_state_key(gpu->state));

        page_extra(page, family, target, &key, 1, 1);
    }
}

/* One series per word, the one that holds is 1. */
static void write_activity(Page *page, const Family *family)
{
    EACH_GPU(page, target, gpu)
    for (ActivityWord word = 0; word < ACTIVITY_END; word++) {
        const Label key = make_attribute("activity", activity_key(word));

        page_extra(page, family, target, &key, 1, gpu->activity.word == word);
    }
}

static void state_since(Page *page, const Family *family)
{
    EACH_GPU(page, target, gpu)
    page_target(page, family, target, page_real_seconds(page, gpu->state_since_ns));
}

static size_t add_label(Label *labels, size_t count, const char *name, const char *value)
{
    if (!*value)
        return count;
    labels[count] = make_attribute(name, value);
    return count + 1;
}

static void write_info(Page *page, const Family *family)
{
    EACH_GPU(page, target, gpu)
    {
        const Reading *reading = &gpu->reading;
        char minor[NUMBER_TEXT_MAX] = "";
        Label labels[12];
        size_t n = 0;

        if (reading->device.minor != DEVICE_NO_NUMBER)
            snprintf(minor, sizeof minor, "%" PRIu32, reading->device.minor);
        n = add_label(labels, n, "architecture",
                      reading->device.arch == DEVICE_ARCH_UNKNOWN ? "" : device_arch_text(reading->device.arch));
        n = add_label(labels, n, "board", reading->device.board);
        n = add_label(labels, n, "brand", reading->text[READING_BRAND]);
        n = add_label(labels, n, "driver_version", page->node->driver_version);
        n = add_label(labels, n, "inforom_version", reading->text[READING_INFOROM_IMAGE_VER]);
        n = add_label(labels, n, "mig", gpu->state == GPU_UP ? (reading->mig ? "on" : "off") : "");
        n = add_label(labels, n, "minor", minor);
        n = add_label(labels, n, "name", reading->device.name);
        n = add_label(labels, n, "nvml_version", page->node->nvml_version);
        n = add_label(labels, n, "serial",
                      reading->device.serial[0] ? reading->device.serial : reading->text[READING_SERIAL]);
        n = add_label(labels, n, "vbios_version", reading->text[READING_VBIOS_VERSION]);
        page_extra(page, family, target, labels, n, 1);
    }
}

/* ---- sampling ---- */

static void last_sample_age(Page *page, const Family *family)
{
    uint64_t now = page->node->time_ns;

    EACH_GPU(page, target, gpu)
    if (gpu->last_sample_ns)
        page_target(page, family, target,
                    now > gpu->last_sample_ns ? (double)(now - gpu->last_sample_ns) / (double)NS_PER_S : 0);
}

static void write_number(Page *page, const Family *family)
{
    EACH_GPU(page, target, gpu)
    {
        uint64_t value;

        memcpy(&value, (const char *)gpu + family->own->at, sizeof value);
        page_target(page, family, target, (double)value);
    }
}

static void pass_seconds(Page *page, const Family *family)
{
    EACH_GPU(page, target, gpu)
    if (gpu->pass_ns)
        page_target(page, family, target, (double)gpu->pass_ns / (double)NS_PER_S);
}

static void own_sampler(Page *page, const Family *family)
{
    EACH_GPU(page, target, gpu)
    page_target(page, family, target, gpu->own_sampler);
}

static void write_gpm(Page *page, const Family *family)
{
    EACH_GPU(page, target, gpu)
    if (gpu->gpm_known)
        page_target(page, family, target, gpu->gpm);
}

/* ---- XIDs ---- */

static void each_xid(Page *page, const Family *family, bool last)
{
    EACH_GPU(page, target, gpu)
    {
        const GpuCounts *counted = counts_of(page->counts, &gpu->reading);
        char text[NUMBER_TEXT_MAX];

        for (size_t i = 0; counted && i < counted->xids.len; i++) {
            const XidCount *xid = &counted->xids.at[i];
            const Label xid_label = make_attribute("xid", text);

            snprintf(text, sizeof text, "%" PRIu64, xid->xid);
            page_extra(page, family, target, &xid_label, 1,
                       last ? (double)xid->last_real_ns / (double)NS_PER_S : (double)xid->total);
        }
    }
}

static void xid_errors(Page *page, const Family *family)
{
    each_xid(page, family, false);
}

static void xid_last(Page *page, const Family *family)
{
    each_xid(page, family, true);
}

/* ---- why a metric is not there ---- */

/* Whether a metric's value is missing here, and why. An XID that never came is not missing. */
static bool is_missing(const Page *page, const Reading *reading, MetricId id, Absence *ret_why)
{
    const Metric *metric = metric_get(id);
    Sample room = {0};
    const Sample *sample = series_sample(reading, id, &room);

    if (!sample)
        sample = &reading->sample[METRIC_FB_TOTAL];
    if (page_fresh(page, sample, metric->pace))
        return false;
    *ret_why = sample->valid ? ABSENCE_TIMED_OUT : (Absence)sample->absence;
    return metric->pace != METRIC_PACE_EVENTS || *ret_why != ABSENCE_NOT_YET;
}

/* The status of any other GPU. Alone, a GPU has none. */
static bool missing_peer(const Page *page, const NodeGpu *gpu, Absence *ret_why)
{
    for (size_t i = 0; i < gpu->peer_count; i++) {
        const Sample *status = &gpu->peers[i].status;

        *ret_why = status->valid ? ABSENCE_TIMED_OUT : (Absence)status->absence;
        if (!page_fresh(page, status, METRIC_PACE_SLOW))
            return true;
    }
    *ret_why = page->node->gpu_count > 1 ? ABSENCE_NOT_YET : ABSENCE_NOT_SUPPORTED;
    return gpu->peer_count == 0;
}

static bool missing_of_gpu(const Page *page, const NodeGpu *gpu, MetricId id, Absence *ret_why)
{
    MetricScope scope = metric_get(id)->scope;
    bool of_instance = scope == METRIC_SCOPE_GPU_INSTANCE || scope == METRIC_SCOPE_COMPUTE_INSTANCE;

    if (id == METRIC_EXP_P2P_STATUS)
        return missing_peer(page, gpu, ret_why);
    if (metric_get(id)->source.kind == METRIC_FROM_DERIVED && id != METRIC_FB_USED_PERCENT)
        return false;
    if (!of_instance || !gpu->instance_count)
        return is_missing(page, &gpu->reading, id, ret_why);
    for (size_t i = 0; i < gpu->instance_count; i++)
        if (gpu->instances[i].instance_head && is_missing(page, &gpu->instances[i], id, ret_why))
            return true;
    return false;
}

/* Of GPUs that are up alone: what stoker_gpu_up says of the others goes for all their metrics. */
static void write_unavailable(Page *page, const Family *family)
{
    const Families *families = page->families;

    EACH_GPU(page, target, gpu)
    for (size_t i = 0; gpu->state == GPU_UP && i < families->len; i++) {
        const Family *of = &families->at[i];
        Absence why;

        if (!of->from_metric || (page->config->profile == EXPORTER_BOTH && of->view == LABELS_NEWER))
            continue;
        if (missing_of_gpu(page, gpu, of->metric.metric, &why))
            page_extra(page, family, target,
                       (Label[]){make_attribute("metric", of->name), make_attribute("reason", absence_key(why))}, 2, 1);
    }
}

#define GPU_FIELD(field) .at = offsetof(NodeGpu, field)

const OwnFamily own_gpu_families[] = {
    {"stoker_gpm_supported", FAMILY_GAUGE, "Whether the GPU offers performance monitoring through its driver",
     .write = write_gpm},
    {"stoker_gpu_activity", FAMILY_GAUGE, "What the GPU does: 1 for the word that holds, 0 for the others",
     .write = write_activity},
    {"stoker_gpu_failed_passes_total", FAMILY_COUNTER, "Times the driver refused to answer for the GPU", write_number,
     GPU_FIELD(failed_passes)},
    {"stoker_gpu_fast_readings_lost_total", FAMILY_COUNTER, "Fast readings that were overwritten before they were used",
     write_number, GPU_FIELD(fast_lost)},
    {"stoker_gpu_info", FAMILY_GAUGE, "What the GPU is, for joining; the value is always 1", .write = write_info},
    {"stoker_gpu_last_sample_age_seconds", FAMILY_GAUGE, "Time since the GPU was last sampled",
     .write = last_sample_age},
    {"stoker_gpu_missed_calls_total", FAMILY_COUNTER, "Driver calls for the GPU that missed their deadline",
     write_number, GPU_FIELD(missed_calls)},
    {"stoker_gpu_own_sampler", FAMILY_GAUGE, "Whether the GPU is sampled apart from the others", .write = own_sampler},
    {"stoker_gpu_pass_seconds", FAMILY_GAUGE, "How long the last complete sampling of the GPU took",
     .write = pass_seconds},
    {"stoker_gpu_state", FAMILY_GAUGE, "The state the GPU is in; the value is always 1", .write = write_state},
    {"stoker_gpu_state_since_seconds", FAMILY_GAUGE, "When the GPU came into its state, in seconds since 1970",
     .write = state_since},
    {"stoker_gpu_up", FAMILY_GAUGE, "Whether the GPU is sampled as it should be", .write = write_up},
    {"stoker_metric_unavailable", FAMILY_GAUGE, "A metric that is asked for and not there, with the reason",
     .write = write_unavailable},
    {"stoker_xid_errors_total", FAMILY_COUNTER, "XIDs of the GPU since this program was started", .write = xid_errors},
    {"stoker_xid_last_timestamp_seconds", FAMILY_GAUGE, "When the XID was last seen, in seconds since 1970",
     .write = xid_last},
};
const size_t own_gpu_family_count = ARRAY_LEN(own_gpu_families);

/* The sum over the GPU instances; false where one of them is unknown, as a part is not a sum. */
static bool sum_instances(const Page *page, const NodeGpu *gpu, const Metric *metric, double *ret)
{
    double all = 0, one;

    for (size_t i = 0; i < gpu->instance_count; i++) {
        const Reading *instance = &gpu->instances[i];

        if (!instance->instance_head)
            continue;
        if (!page_fresh(page, &instance->sample[metric->id], metric->pace) ||
            !sample_double(&instance->sample[metric->id], &one))
            return false;
        all += one;
    }
    *ret = all;
    return true;
}

static bool total_of(const Page *page, const NodeGpu *gpu, const Metric *metric, double *ret)
{
    const Sample *sample = &gpu->reading.sample[metric->id];

    if (metric->scope == METRIC_SCOPE_COMPUTE_INSTANCE && gpu->instance_count)
        return sum_instances(page, gpu, metric, ret);
    return page_fresh(page, sample, metric->pace) && sample_double(sample, ret);
}

static void write_total(Page *page, const Family *family)
{
    const Metric *metric = metric_get(family->own->metric);

    for (size_t i = 0; i < page->targets->gpu_count; i++) {
        const Target *target = &page->targets->gpus[i];
        double value;

        if (total_of(page, page_gpu(page, target), metric, &value))
            page_target(page, family, target, page_scaled(value, unit_factor(metric->unit)));
    }
}

static void write_instances(Page *page, const Family *family)
{
    for (size_t i = 0; i < page->targets->gpu_count; i++) {
        const Target *target = &page->targets->gpus[i];
        const NodeGpu *gpu = page_gpu(page, target);
        size_t count = 0;

        for (size_t k = 0; k < gpu->instance_count; k++)
            count += gpu->instances[k].instance_head;
        if (gpu->state == GPU_UP)
            page_target(page, family, target, (double)count);
    }
}

const OwnFamily own_total_families[] = {
    {"stoker_gpu_energy_joules_total", FAMILY_COUNTER, "Energy the board used since the driver was loaded", write_total,
     .metric = METRIC_TOTAL_ENERGY_CONSUMPTION},
    {"stoker_gpu_fb_capacity_bytes", FAMILY_GAUGE, "Memory of the GPU, or of its instances together", write_total,
     .metric = METRIC_FB_TOTAL},
    {"stoker_gpu_fb_free_bytes", FAMILY_GAUGE, "Memory free on the GPU, or on its instances together", write_total,
     .metric = METRIC_FB_FREE},
    {"stoker_gpu_fb_reserved_bytes", FAMILY_GAUGE, "Memory reserved on the GPU, or on its instances together",
     write_total, .metric = METRIC_FB_RESERVED},
    {"stoker_gpu_fb_used_bytes", FAMILY_GAUGE, "Memory in use on the GPU, or on its instances together", write_total,
     .metric = METRIC_FB_USED},
    {"stoker_gpu_instances", FAMILY_GAUGE, "GPU instances the GPU is split into", .write = write_instances},
    {"stoker_gpu_memory_clock_hertz", FAMILY_GAUGE, "Frequency of the memory", write_total, .metric = METRIC_MEM_CLOCK},
    {"stoker_gpu_memory_temperature_celsius", FAMILY_GAUGE, "Temperature of the memory", write_total,
     .metric = METRIC_MEMORY_TEMP},
    {"stoker_gpu_power_watts", FAMILY_GAUGE, "Power the board draws", write_total, .metric = METRIC_POWER_USAGE},
    {"stoker_gpu_sm_clock_hertz", FAMILY_GAUGE, "Frequency of the multiprocessors", write_total,
     .metric = METRIC_SM_CLOCK},
    {"stoker_gpu_temperature_celsius", FAMILY_GAUGE, "Temperature of the GPU core", write_total,
     .metric = METRIC_GPU_TEMP},
};
const size_t own_total_family_count = ARRAY_LEN(own_total_families);
