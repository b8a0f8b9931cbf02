/* SPDX-License-Identifier: Apache-2.0 */
/* Our own families of each GPU, those included that have no values. Pure, one thread. */

#include "service/prometheus/own.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "base/owner.h"
#include "service/prometheus/page.h"

enum { NUMBER_TEXT_MAX = 24 };

/* A GPU with its labels, for each line. */
#define EACH_GPU(page, target, gpu)                                                                                    \
    for (const Target *target = (page)->targets->gpus, *end_ = target + (page)->targets->gpu_count; target < end_;     \
         target++)                                                                                                     \
        for (const NodeGpu *gpu = page_gpu((page), target); gpu; gpu = NULL)

static Label label(const char *name, const char *value)
{
    return (Label){.name = name, .value = value, .group = LABEL_ATTRIBUTE};
}

/* ---- state ---- */

static void up(Page *page, const Family *family)
{
    EACH_GPU(page, target, gpu)
    {
        const Label reason = label("reason", gpu_state_key(gpu->state));
        bool is_up = gpu->state == GPU_UP;

        page_extra(page, family, target, &reason, !is_up, is_up);
    }
}

static void state(Page *page, const Family *family)
{
    EACH_GPU(page, target, gpu)
    {
        const Label key = label("state", gpu_state_key(gpu->state));

        page_extra(page, family, target, &key, 1, 1);
    }
}

/* One series per word, the one that holds is 1. */
static void activity(Page *page, const Family *family)
{
    EACH_GPU(page, target, gpu)
    for (ActivityWord word = 0; word < ACTIVITY_END; word++) {
        const Label key = label("activity", activity_key(word));

        page_extra(page, family, target, &key, 1, gpu->activity.word == word);
    }
}

static void state_since(Page *page, const Family *family)
{
    EACH_GPU(page, target, gpu)
    page_target(page, family, target, page_real_seconds(page, gpu->state_since_ns));
}

static size_t add(Label *labels, size_t count, const char *name, const char *value)
{
    if (!*value)
        return count;
    labels[count] = label(name, value);
    return count + 1;
}

static void info(Page *page, const Family *family)
{
    EACH_GPU(page, target, gpu)
    {
        const Reading *reading = &gpu->reading;
        char minor[NUMBER_TEXT_MAX] = "";
        Label labels[12];
        size_t n = 0;

        if (reading->device.minor != DEVICE_NO_NUMBER)
            snprintf(minor, sizeof minor, "%" PRIu32, reading->device.minor);
        n = add(labels, n, "architecture",
                reading->device.arch == DEVICE_ARCH_UNKNOWN ? "" : device_arch_text(reading->device.arch));
        n = add(labels, n, "board", reading->device.board);
        n = add(labels, n, "brand", reading->text[READING_BRAND]);
        n = add(labels, n, "driver_version", page->node->driver_version);
        n = add(labels, n, "inforom_version", reading->text[READING_INFOROM_IMAGE_VER]);
        n = add(labels, n, "mig", gpu->state == GPU_UP ? (reading->mig ? "on" : "off") : "");
        n = add(labels, n, "minor", minor);
        n = add(labels, n, "name", reading->device.name);
        n = add(labels, n, "nvml_version", page->node->nvml_version);
        n = add(labels, n, "serial",
                reading->device.serial[0] ? reading->device.serial : reading->text[READING_SERIAL]);
        n = add(labels, n, "vbios_version", reading->text[READING_VBIOS_VERSION]);
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

static void number(Page *page, const Family *family)
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

static void gpm(Page *page, const Family *family)
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
            const Label xid_label = label("xid", text);

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
static bool missing(const Page *page, const Reading *reading, MetricId id, Absence *ret_why)
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
        return missing(page, &gpu->reading, id, ret_why);
    for (size_t i = 0; i < gpu->instance_count; i++)
        if (gpu->instances[i].instance_head && missing(page, &gpu->instances[i], id, ret_why))
            return true;
    return false;
}

/* Of GPUs that are up alone: what stoker_gpu_up says of the others goes for all their metrics. */
static void unavailable(Page *page, const Family *family)
{
    const Families *families = page->families;

    EACH_GPU(page, target, gpu)
    for (size_t i = 0; gpu->state == GPU_UP && i < families->len; i++) {
        const Family *of = &families->at[i];
        Absence why;

        if (!of->from_metric || (page->config->profile == EXPORTER_BOTH && of->view == LABELS_NEWER))
            continue;
        if (missing_of_gpu(page, gpu, of->metric.metric, &why))
            page_extra(page, family, target, (Label[]){label("metric", of->name), label("reason", absence_key(why))}, 2,
                       1);
    }
}

#define GPU_FIELD(field) .at = offsetof(NodeGpu, field)

const OwnFamily own_gpu_families[] = {
    {"stoker_gpm_supported", FAMILY_GAUGE, "Whether the GPU offers performance monitoring through its driver",
     .write = gpm},
    {"stoker_gpu_activity", FAMILY_GAUGE, "What the GPU does: 1 for the word that holds, 0 for the others",
     .write = activity},
    {"stoker_gpu_failed_passes_total", FAMILY_COUNTER, "Times the driver refused to answer for the GPU", number,
     GPU_FIELD(failed_passes)},
    {"stoker_gpu_fast_readings_lost_total", FAMILY_COUNTER, "Fast readings that were overwritten before they were used",
     number, GPU_FIELD(fast_lost)},
    {"stoker_gpu_info", FAMILY_GAUGE, "What the GPU is, for joining; the value is always 1", .write = info},
    {"stoker_gpu_last_sample_age_seconds", FAMILY_GAUGE, "Time since the GPU was last sampled",
     .write = last_sample_age},
    {"stoker_gpu_missed_calls_total", FAMILY_COUNTER, "Driver calls for the GPU that missed their deadline", number,
     GPU_FIELD(missed_calls)},
    {"stoker_gpu_own_sampler", FAMILY_GAUGE, "Whether the GPU is sampled apart from the others", .write = own_sampler},
    {"stoker_gpu_pass_seconds", FAMILY_GAUGE, "How long the last complete sampling of the GPU took",
     .write = pass_seconds},
    {"stoker_gpu_state", FAMILY_GAUGE, "The state the GPU is in; the value is always 1", .write = state},
    {"stoker_gpu_state_since_seconds", FAMILY_GAUGE, "When the GPU came into its state, in seconds since 1970",
     .write = state_since},
    {"stoker_gpu_up", FAMILY_GAUGE, "Whether the GPU is sampled as it should be", .write = up},
    {"stoker_metric_unavailable", FAMILY_GAUGE, "A metric that is asked for and not there, with the reason",
     .write = unavailable},
    {"stoker_xid_errors_total", FAMILY_COUNTER, "XIDs of the GPU since this program was started", .write = xid_errors},
    {"stoker_xid_last_timestamp_seconds", FAMILY_GAUGE, "When the XID was last seen, in seconds since 1970",
     .write = xid_last},
};
const size_t own_gpu_family_count = ARRAY_LEN(own_gpu_families);
