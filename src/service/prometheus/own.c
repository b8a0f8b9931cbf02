/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our own families: of the node, its samplers and this program (what is unknown is left out); of each GPU, those
 * without values included; and one series per physical GPU that counts nothing twice: memory summed over the GPU
 * instances, everything of the whole GPU once. Pure, one thread.
 */
#include "service/prometheus/page.h"

#include <math.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/duration.h"

/* ---- this program ---- */

static void write_self(Page *page, const Family *family)
{
    page_field(page, family, NULL, NULL, &page->input->self);
}

static void write_build_info(Page *page, const Family *family)
{
    Line line = {.len = 0};

    line_add(&line, "version", page->input->self.version);
    page_line(page, family, NULL, &line, 1);
}

static void write_pods_state(Page *page, const Family *family)
{
    Line line = {.len = 0};

    line_add(&line, "state", page->input->self.pods_state);
    page_line(page, family, NULL, &line, 1);
}

static void write_api_states(Page *page, const Family *family)
{
    const ExporterSelf *self = &page->input->self;

    for (size_t i = 0; i < self->api_read_count; i++) {
        Line line = {.len = 0};

        line_add(&line, "read", self->api_reads[i].read);
        line_add(&line, "state", self->api_reads[i].state);
        page_line(page, family, NULL, &line, 1);
    }
}

static void write_placed(Page *page, const Family *family)
{
    const ExporterSelf *self = &page->input->self;

    for (size_t i = 0; i < self->placed_count; i++) {
        Line line = {.len = 0};

        line_add(&line, "outcome", self->placed[i].outcome);
        page_line(page, family, NULL, &line, (double)self->placed[i].count);
    }
}

/* Nothing where the mapping is off; an age only where they were learned. */
static void write_pods(Page *page, const Family *family)
{
    const ExporterSelf *self = &page->input->self;

    if (strcmp(self->pods_state, "off") != 0 &&
        (family->own->at != offsetof(ExporterSelf, pods_age_ns) || self->pods_age_ns != UINT64_MAX))
        write_self(page, family);
}

/* ---- the node ---- */

static void write_node(Page *page, const Family *family)
{
    page_field(page, family, NULL, NULL, page->node);
}

static void write_released(Page *page, const Family *family)
{
    page_value(page, family, NULL, page->node->release_until_ns != 0);
}

static void write_driver_up(Page *page, const Family *family)
{
    page_value(page, family, NULL, page->node->driver_why[0] == '\0');
}

/* ---- samplers ---- */

static void write_sampler_states(Page *page, const Family *family)
{
    size_t count[SAMPLER_STATE_END] = {0};

    for (size_t i = 0; i < page->node->sampler_count; i++)
        count[page->node->samplers[i].state]++;
    for (SamplerState state = SAMPLER_STARTING; state < SAMPLER_STATE_END; state++) {
        Line line = {.len = 0};

        line_add(&line, "state", sampler_states[state].key);
        page_line(page, family, NULL, &line, (double)count[state]);
    }
}

static void write_sampler_stuck(Page *page, const Family *family)
{
    for (size_t i = 0; i < page->node->sampler_count; i++) {
        const NodeSampler *sampler = &page->node->samplers[i];
        char bus_id[PCI_TEXT_CAP];
        Line line = {.len = 0};
        PciAddress pci;

        if (sampler->state < SAMPLER_STUCK)
            continue;
        line_add(&line, "function", sampler->function);
        line_add(&line, "pci_bus_id",
                 pci_parse(sampler->gpu, &pci) == 0 ? pci_format(pci, PCI_FORM_NVML, bus_id) : sampler->gpu);
        line_add_number(&line, "slot", i);
        line_add(&line, "wchan", sampler->wchan);
        page_line(page, family, NULL, &line, (double)(page->node->time_ns - sampler->since_ns) / (double)NS_PER_S);
    }
}

static void write_sampler(Page *page, const Family *family)
{
    for (size_t i = 0; i < page->node->sampler_count; i++) {
        const NodeSampler *sampler = &page->node->samplers[i];
        Line line = {.len = 0};

        if (sampler->state == SAMPLER_FREE)
            continue;
        line_add_number(&line, "slot", i);
        page_field(page, family, NULL, &line, sampler);
    }
}

/* ---- a GPU ---- */

static void write_gpu(Page *page, const Family *family, const Target *target, const NodeGpu *gpu)
{
    page_field(page, family, target, NULL, gpu);
}

static void write_up(Page *page, const Family *family, const Target *target, const NodeGpu *gpu)
{
    const bool is_up = gpu->state == GPU_UP;
    Line line = {.len = 0};

    line_add(&line, "reason", is_up ? "" : gpu_states[gpu->state].key);
    page_line(page, family, target, &line, is_up);
}

static void write_state(Page *page, const Family *family, const Target *target, const NodeGpu *gpu)
{
    Line line = {.len = 0};

    line_add(&line, "state", gpu_states[gpu->state].key);
    page_line(page, family, target, &line, 1);
}

/* One series per word, the one that holds is 1. */
static void write_activity(Page *page, const Family *family, const Target *target, const NodeGpu *gpu)
{
    for (ActivityWord word = 0; word < ACTIVITY_END; word++) {
        Line line = {.len = 0};

        line_add(&line, "activity", activity_words[word].key);
        page_line(page, family, target, &line, gpu->activity.word == word);
    }
}

/* Estimates of a GPU that works; a GPU without one has no series. */
static void write_flops(Page *page, const Family *family, const Target *target, const NodeGpu *gpu)
{
    const Roof *roof = &node_why(gpu, NULL)->roof;

    if (roof->text[0] && isfinite(roof->flops))
        page_value(page, family, target, roof->flops);
}

static void write_memory_bytes(Page *page, const Family *family, const Target *target, const NodeGpu *gpu)
{
    const Roof *roof = &node_why(gpu, NULL)->roof;

    if (roof->text[0] && isfinite(roof->bytes))
        page_value(page, family, target, roof->bytes);
}

static void write_state_since(Page *page, const Family *family, const Target *target, const NodeGpu *gpu)
{
    page_value(page, family, target, (double)node_real_ns(page->node, gpu->state_since_ns) / (double)NS_PER_S);
}

static void write_info(Page *page, const Family *family, const Target *target, const NodeGpu *gpu)
{
    const Reading *reading = &gpu->reading;
    const Device *device = &reading->device;
    Line line = {.len = 0};

    line_add(&line, "architecture", device->arch == DEVICE_ARCH_UNKNOWN ? "" : device_arch_text(device->arch));
    line_add(&line, "board", device->board);
    line_add(&line, "brand", reading->text[READING_BRAND]);
    line_add(&line, "driver_version", page->node->driver_version);
    line_add(&line, "inforom_version", reading->text[READING_INFOROM_IMAGE_VER]);
    line_add(&line, "mig", gpu->state == GPU_UP ? (reading->mig ? "on" : "off") : "");
    if (device->minor != DEVICE_NO_NUMBER)
        line_add_number(&line, "minor", device->minor);
    line_add(&line, "name", device->name);
    line_add(&line, "nvml_version", page->node->nvml_version);
    line_add(&line, "serial", device->serial[0] ? device->serial : reading->text[READING_SERIAL]);
    line_add(&line, "vbios_version", reading->text[READING_VBIOS_VERSION]);
    page_line(page, family, target, &line, 1);
}

static void write_last_sample_age(Page *page, const Family *family, const Target *target, const NodeGpu *gpu)
{
    const uint64_t now = page->node->time_ns;

    if (gpu->last_sample_ns)
        page_value(page, family, target,
                   now > gpu->last_sample_ns ? (double)(now - gpu->last_sample_ns) / (double)NS_PER_S : 0);
}

static void write_gpm(Page *page, const Family *family, const Target *target, const NodeGpu *gpu)
{
    if (gpu->gpm_known)
        page_value(page, family, target, gpu->gpm);
}

/* Each of its XIDs. */
static void write_xids(Page *page, const Family *family, const Target *target, const NodeGpu *gpu)
{
    const GpuCounts *counted = counts_of(page->counts, &gpu->reading);

    for (size_t i = 0; counted && i < counted->xids.len; i++) {
        Line line = {.len = 0};

        line_add_number(&line, "xid", counted->xids.at[i].xid);
        page_line(page, family, target, &line, (double)xid_count_shown(page->counts, &counted->xids.at[i]));
    }
}

/* When each of them was last seen. */
static void write_xid_times(Page *page, const Family *family, const Target *target, const NodeGpu *gpu)
{
    const GpuCounts *counted = counts_of(page->counts, &gpu->reading);

    for (size_t i = 0; counted && i < counted->xids.len; i++) {
        Line line = {.len = 0};

        line_add_number(&line, "xid", counted->xids.at[i].xid);
        page_field(page, family, target, &line, &counted->xids.at[i]);
    }
}

/* All of them, and 0 before the first: rate() and increase() need a value from before. */
static void write_xid_sum(Page *page, const Family *family, const Target *target, const NodeGpu *gpu)
{
    const GpuCounts *counted = counts_of(page->counts, &gpu->reading);
    uint64_t sum = 0;

    for (size_t i = 0; counted && i < counted->xids.len; i++)
        sum += counted->xids.at[i].total;
    page_value(page, family, target, (double)sum);
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
    return metric->pace != METRIC_PACE_EVENTS || (*ret_why != ABSENCE_NOT_YET && *ret_why != ABSENCE_NO_DATA);
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
static void write_unavailable(Page *page, const Family *family, const Target *target, const NodeGpu *gpu)
{
    for (size_t i = 0; gpu->state == GPU_UP && i < page->family_count; i++) {
        const Family *of = &page->families[i];
        Absence why;

        if (!of->from_metric || (page->config->profile == EXPORTER_BOTH && of->view == LABELS_NEWER) ||
            !missing_of_gpu(page, gpu, of->metric.metric, &why))
            continue;
        if (of->view == LABELS_OWN && (why == ABSENCE_NOT_SUPPORTED || why == ABSENCE_MIG_MODE))
            continue;           /* nobody has asked for it */
        Line line = {.len = 0}; /* made for few: it is large */

        line_add(&line, "metric", of->name);
        line_add(&line, "reason", absences[why].key);
        page_line(page, family, target, &line, 1);
    }
}

#define SELF(field) OWN_FIELD(ExporterSelf, field)
#define NODE(field) OWN_FIELD(Node, field)
#define SAMPLER(field) OWN_FIELD(NodeSampler, field)
#define GPU(field) OWN_FIELD(NodeGpu, field)
#define XID(field) OWN_FIELD(XidCount, field)

const OwnFamily own_families[] = {
    {"process_cpu_seconds_total", COUNTER_COUNTER, "CPU time of this process", write_self, SELF(cpu_ns),
     .skip_zero = true, .scale = 1e9},
    {"process_open_fds", COUNTER_GAUGE, "File descriptors this process has open", write_self, SELF(open_fds),
     .skip_zero = true},
    {"process_resident_memory_bytes", COUNTER_GAUGE, "Memory this process keeps resident", write_self, SELF(rss_bytes),
     .skip_zero = true},
    {"process_start_time_seconds", COUNTER_GAUGE, "When this process started, in seconds since 1970", write_self,
     SELF(start_real_ns), .skip_zero = true, .scale = 1e9},
    {"stoker_build_info", COUNTER_GAUGE, "Which version this is; the value is always 1", .write = write_build_info},
    {"stoker_config_last_reload_successful", COUNTER_GAUGE, "Whether the configuration was last read without an error",
     write_self, SELF(config_fine)},
    {"stoker_config_reload_failures_total", COUNTER_COUNTER, "Times the configuration could not be read again",
     write_self, SELF(config_reload_failures)},
    {"stoker_config_reloads_total", COUNTER_COUNTER, "Times the configuration was read again", write_self,
     SELF(config_reloads)},
    {"stoker_csv_rows_left_out", COUNTER_GAUGE, "Rows of the list of metrics that could not be used", write_self,
     SELF(counters_left_out)},
    {"stoker_driver_up", COUNTER_GAUGE, "Whether the driver and its library can be used", .write = write_driver_up},
    {"stoker_events_lost_total", COUNTER_COUNTER, "Events of the driver that were overwritten before they were read",
     write_node, NODE(events_lost)},
    {"stoker_gpus_expected", COUNTER_GAUGE, "GPUs this node should have: as configured, or as on the PCI bus",
     write_node, NODE(gpus_expected)},
    {"stoker_gpus_found", COUNTER_GAUGE, "GPUs the driver gives access to", write_node, NODE(gpus_found)},
    {"stoker_gpus_on_bus", COUNTER_GAUGE, "GPUs on the PCI bus", write_node, NODE(gpus_on_bus)},
    {"stoker_http_auth_failures_total", COUNTER_COUNTER, "Requests with missing or wrong credentials", write_self,
     SELF(http_auth_failures)},
    {"stoker_http_connections", COUNTER_GAUGE, "HTTP connections open now", write_self, SELF(http_connections)},
    {"stoker_http_refused_total", COUNTER_COUNTER, "Requests and connections refused because there were too many",
     write_self, SELF(http_refused)},
    {"stoker_http_requests_total", COUNTER_COUNTER, "HTTP requests answered", write_self, SELF(http_requests)},
    {"stoker_late_ticks_total", COUNTER_COUNTER, "Ticks that began later than they should have", write_self,
     SELF(late_ticks)},
    {"stoker_kubelet_placed_total", COUNTER_COUNTER,
     "Containers that stoker kubelet gave GPUs, by whether a scheduler had chosen these", .write = write_placed},
    {"stoker_kubernetes_api_state", COUNTER_GAUGE,
     "How reading from the cluster's API server is doing; the value is always 1", .write = write_api_states},
    {"stoker_pods_age_seconds", COUNTER_GAUGE, "Time since the owners of devices were last learned", write_pods,
     SELF(pods_age_ns), .scale = 1e9},
    {"stoker_pods_failures_total", COUNTER_COUNTER, "Times the kubelet could not be asked for the owners of devices",
     write_pods, SELF(pods_failures)},
    {"stoker_pods_mapped", COUNTER_GAUGE, "Pods that have a device", write_pods, SELF(pods_count)},
    {"stoker_pods_state", COUNTER_GAUGE, "How the mapping of devices to pods is doing; the value is always 1",
     .write = write_pods_state},
    {"stoker_released", COUNTER_GAUGE, "Whether the driver is let go for maintenance", .write = write_released},
    {"stoker_sampler_cpu_seconds_total", COUNTER_COUNTER, "CPU time of a process that talks to the driver",
     write_sampler, SAMPLER(cpu_ns), .skip_zero = true, .scale = 1e9},
    {"stoker_sampler_resident_memory_bytes", COUNTER_GAUGE,
     "Memory that a process that talks to the driver keeps resident", write_sampler, SAMPLER(rss_bytes),
     .skip_zero = true},
    {"stoker_sampler_stuck_seconds", COUNTER_GAUGE, "How long a sampler has been stuck in a call, and where",
     .write = write_sampler_stuck},
    {"stoker_samplers", COUNTER_GAUGE, "Processes that talk to the driver, by what they do",
     .write = write_sampler_states},
    {"stoker_samplers_abandoned_total", COUNTER_COUNTER, "Samplers given up because they could not be ended",
     write_node, NODE(samplers_abandoned)},
    {"stoker_samplers_started_total", COUNTER_COUNTER, "Samplers started", write_node, NODE(samplers_started)},
    {"stoker_store_memory_bytes", COUNTER_GAUGE, "Memory of the history", write_self, SELF(store_bytes)},
    {"stoker_store_refused_total", COUNTER_COUNTER, "Series the history had no room for", write_self,
     SELF(store_refused)},
    {"stoker_store_series", COUNTER_GAUGE, "Series in the history", write_self, SELF(store_series)},
    {"stoker_ticks_total", COUNTER_COUNTER, "Ticks of this program", write_self, SELF(ticks)},
    {"stoker_gpm_supported", COUNTER_GAUGE, "Whether the GPU offers performance monitoring through its driver",
     .write_gpu = write_gpm},
    {"stoker_gpu_activity", COUNTER_GAUGE, "What the GPU does: 1 for the word that holds, 0 for the others",
     .write_gpu = write_activity},
    {"stoker_gpu_estimated_flops", COUNTER_GAUGE,
     "Operations a second, estimated from the activity of the pipes; of tensor cores as FP16 unless told apart",
     .write_gpu = write_flops},
    {"stoker_gpu_estimated_memory_bytes_per_second", COUNTER_GAUGE,
     "Bytes a second of the GPU's memory, estimated from its activity", .write_gpu = write_memory_bytes},
    {"stoker_gpu_failed_passes_total", COUNTER_COUNTER, "Times the driver refused to answer for the GPU",
     .write_gpu = write_gpu, GPU(failed_passes)},
    {"stoker_gpu_fast_readings_lost_total", COUNTER_COUNTER,
     "Fast readings that were overwritten before they were used", .write_gpu = write_gpu, GPU(fast_lost)},
    {"stoker_gpu_info", COUNTER_GAUGE, "What the GPU is, for joining; the value is always 1", .write_gpu = write_info},
    {"stoker_gpu_last_sample_age_seconds", COUNTER_GAUGE, "Time since the GPU was last sampled",
     .write_gpu = write_last_sample_age},
    {"stoker_gpu_missed_calls_total", COUNTER_COUNTER, "Driver calls for the GPU that missed their deadline",
     .write_gpu = write_gpu, GPU(missed_calls)},
    {"stoker_gpu_own_sampler", COUNTER_GAUGE, "Whether the GPU is sampled apart from the others",
     .write_gpu = write_gpu, GPU(own_sampler)},
    {"stoker_gpu_pass_seconds", COUNTER_GAUGE, "How long the last complete sampling of the GPU took",
     .write_gpu = write_gpu, GPU(pass_ns), .skip_zero = true, .scale = 1e9},
    {"stoker_gpu_state", COUNTER_GAUGE, "The state the GPU is in; the value is always 1", .write_gpu = write_state},
    {"stoker_gpu_state_since_seconds", COUNTER_GAUGE, "When the GPU came into its state, in seconds since 1970",
     .write_gpu = write_state_since},
    {"stoker_gpu_up", COUNTER_GAUGE, "Whether the GPU is sampled as it should be", .write_gpu = write_up},
    {"stoker_gpu_xid_errors_total", COUNTER_COUNTER, "XIDs of the GPU, of any number", .write_gpu = write_xid_sum},
    {"stoker_metric_unavailable", COUNTER_GAUGE, "A metric that is asked for and not there, with the reason",
     .write_gpu = write_unavailable},
    {"stoker_xid_errors_total", COUNTER_COUNTER, "XIDs of the GPU by number; a new one is 0 for its first minute",
     .write_gpu = write_xids},
    {"stoker_xid_last_timestamp_seconds", COUNTER_GAUGE, "When the XID was last seen, in seconds since 1970",
     .write_gpu = write_xid_times, XID(last_real_ns), .scale = 1e9},
};
const size_t own_family_count = ARRAY_LEN(own_families);

/* ---- what counts nothing twice ---- */

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

static void write_total(Page *page, const Family *family, const Target *target, const NodeGpu *gpu)
{
    const Metric *metric = metric_get(family->own->metric);
    double value;

    if (total_of(page, gpu, metric, &value))
        page_value(page, family, target, page_scaled(value, metric_units[metric->unit].factor));
}

static void write_instances(Page *page, const Family *family, const Target *target, const NodeGpu *gpu)
{
    size_t count = 0;

    for (size_t i = 0; i < gpu->instance_count; i++)
        count += gpu->instances[i].instance_head;
    if (gpu->state == GPU_UP)
        page_value(page, family, target, (double)count);
}

const OwnFamily own_total_families[] = {
    {"stoker_gpu_energy_joules_total", COUNTER_COUNTER, "Energy the board used since the driver was loaded",
     .write_gpu = write_total, .metric = METRIC_TOTAL_ENERGY_CONSUMPTION},
    {"stoker_gpu_fb_capacity_bytes", COUNTER_GAUGE, "Memory of the GPU, or of its instances together",
     .write_gpu = write_total, .metric = METRIC_FB_TOTAL},
    {"stoker_gpu_fb_free_bytes", COUNTER_GAUGE, "Memory free on the GPU, or on its instances together",
     .write_gpu = write_total, .metric = METRIC_FB_FREE},
    {"stoker_gpu_fb_reserved_bytes", COUNTER_GAUGE, "Memory reserved on the GPU, or on its instances together",
     .write_gpu = write_total, .metric = METRIC_FB_RESERVED},
    {"stoker_gpu_fb_used_bytes", COUNTER_GAUGE, "Memory in use on the GPU, or on its instances together",
     .write_gpu = write_total, .metric = METRIC_FB_USED},
    {"stoker_gpu_instances", COUNTER_GAUGE, "GPU instances the GPU is split into", .write_gpu = write_instances},
    {"stoker_gpu_memory_clock_hertz", COUNTER_GAUGE, "Frequency of the memory", .write_gpu = write_total,
     .metric = METRIC_MEM_CLOCK},
    {"stoker_gpu_memory_temperature_celsius", COUNTER_GAUGE, "Temperature of the memory", .write_gpu = write_total,
     .metric = METRIC_MEMORY_TEMP},
    {"stoker_gpu_power_watts", COUNTER_GAUGE, "Power the board draws", .write_gpu = write_total,
     .metric = METRIC_POWER_USAGE},
    {"stoker_gpu_sm_clock_hertz", COUNTER_GAUGE, "Frequency of the multiprocessors", .write_gpu = write_total,
     .metric = METRIC_SM_CLOCK},
    {"stoker_gpu_temperature_celsius", COUNTER_GAUGE, "Temperature of the GPU core", .write_gpu = write_total,
     .metric = METRIC_GPU_TEMP},
};
const size_t own_total_family_count = ARRAY_LEN(own_total_families);
