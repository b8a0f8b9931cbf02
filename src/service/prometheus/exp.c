/* SPDX-License-Identifier: Apache-2.0 */
/* DCGM_EXP_ families: what is counted and judged, per GPU and never per instance. Pure, one thread. */

#include <inttypes.h>
#include <stdio.h>

#include "base/duration.h"
#include "service/prometheus/health.h"
#include "service/prometheus/series.h"

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
    char window_text[NUMBER_TEXT_MAX], xid_text[NUMBER_TEXT_MAX];
    const Label size = window_label(window_text, page->config->xid_window_ns);
    bool any = false;

    for (size_t i = 0; counted && i < counted->xids.len; i++) {
        const XidCount *xid = &counted->xids.at[i];
        uint64_t count =
            window ? count_window_sum(&xid->window, page->counts->xid_width_ns, page->node->time_ns) : xid->total;

        if (!count)
            continue;
        any = true;
        snprintf(xid_text, sizeof xid_text, "%" PRIu64, xid->xid);
        if (window)
            page_extra(page, family, target, (Label[]){size, make_label("xid", xid_text)}, 2, (double)count);
        else
            page_extra(page, family, target, (Label[]){make_label("xid", xid_text)}, 1, (double)count);
    }
    /* none is a zero only where the driver would have told */
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

    const HealthInput of = {.gpu = page_gpu(page, target),
                            .counted = counted,
                            .xid_width_ns = page->counts->xid_width_ns,
                            .now_ns = page->node->time_ns,
                            .judged = page->faults != NULL,
                            .incidents = page->faults ? page->faults->incidents : NULL,
                            .incident_count = page->faults ? page->faults->incident_count : 0};

    health_judge(&of, found);
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
        page_extra(page, family, target,
                   (Label[]){make_label("link_status", peer_status_label((PeerStatus)status)), make_label("peer_gpu", index)}, 2,
                   (double)status);
    }
}

void exp_xid_errors_count(Page *page, const Family *family)
{
    each_gpu(page, family, xid_count);
}

void exp_xid_errors_total(Page *page, const Family *family)
{
    each_gpu(page, family, xid_total);
}

void exp_clock_events_count(Page *page, const Family *family)
{
    each_gpu(page, family, clock_count);
}

void exp_clock_events_total(Page *page, const Family *family)
{
    each_gpu(page, family, clock_total);
}

void exp_gpu_health_status(Page *page, const Family *family)
{
    each_gpu(page, family, write_health);
}

void exp_p2p_status(Page *page, const Family *family)
{
    each_gpu(page, family, write_peers);
}
