/* SPDX-License-Identifier: Apache-2.0 */
/* Series of measured metrics. Pure, one thread. */

#include "service/prometheus/series.h"

#include <stdio.h>

#include "service/prometheus/health.h"
#include "service/prometheus/xid_text.h"

enum { NUMBER_TEXT_MAX = 24 };

const Reading *series_reading(const Page *page, const Target *target, MetricId id)
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

/* The pace that says how long a value lasts: a derived one as long as what it comes from. */
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
        sample = series_sample(series_reading(page, target, id), id, &room);
        if (!sample || !page_fresh(page, sample, pace))
            continue;
        if (as_is && sample_int64(sample, &whole))
            page_int64(page, family, target->body[family->view].text, target->body[family->view].len, whole);
        else if (sample_double(sample, &value))
            page_target(page, family, target, page_scaled(value, family->metric.factor));
    }
}

static void write_xid(Page *page, const Family *family)
{
    for (size_t i = 0; i < page->targets->series_count; i++) {
        const Target *target = &page->targets->series[i];
        char number[NUMBER_TEXT_MAX];
        int64_t xid;

        if (!target->shown ||
            !sample_int64(&series_reading(page, target, METRIC_XID_ERRORS)->sample[METRIC_XID_ERRORS], &xid))
            continue;
        snprintf(number, sizeof number, "%lld", (long long)xid);
        page_extra(page, family, target,
                   (Label[]){{.name = "err_code", .value = number, .group = LABEL_ATTRIBUTE},
                             {.name = "err_msg", .value = xid_text(xid), .group = LABEL_ATTRIBUTE}},
                   2, (double)xid);
    }
}

FamilyWrite *series_writer(MetricId id)
{
    switch (id) {
    case METRIC_XID_ERRORS:
        return write_xid;
    case METRIC_EXP_XID_ERRORS_COUNT:
        return exp_xid_errors_count;
    case METRIC_EXP_XID_ERRORS_TOTAL:
        return exp_xid_errors_total;
    case METRIC_EXP_CLOCK_EVENTS_COUNT:
        return exp_clock_events_count;
    case METRIC_EXP_CLOCK_EVENTS_TOTAL:
        return exp_clock_events_total;
    case METRIC_EXP_GPU_HEALTH_STATUS:
        return exp_gpu_health_status;
    case METRIC_EXP_P2P_STATUS:
        return exp_p2p_status;
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
