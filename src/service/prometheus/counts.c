/* SPDX-License-Identifier: Apache-2.0 */
/* Counting over ticks (counts.h). */

#include "service/prometheus/counts.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "base/number.h"
#include "service/journal/journal.h"

const char *const clock_event_names[CLOCK_EVENTS] = {
    "gpu_idle",   "clocks_setting", "power_cap",      "hw_slowdown",    "sync_boost",
    "sw_thermal", "hw_thermal",     "hw_power_brake", "display_clocks",
};

/* ---- windows ---- */

static uint64_t bucket_width(uint64_t window_ns)
{
    uint64_t seconds = (window_ns + COUNT_BUCKETS * NS_PER_S - 1) / (COUNT_BUCKETS * NS_PER_S);

    return number_max_u64(seconds, 1) * NS_PER_S;
}

static void window_add(CountWindow *window, uint64_t width_ns, uint64_t time_ns, uint64_t count)
{
    uint64_t bucket = time_ns / width_ns;
    uint16_t *at = &window->count[bucket % COUNT_BUCKETS];

    if (bucket > window->newest) {
        uint64_t gone = number_min_u64(bucket - window->newest, COUNT_BUCKETS);

        for (uint64_t i = 0; i < gone; i++)
            window->count[(bucket - i) % COUNT_BUCKETS] = 0;
        window->newest = bucket;
    } else if (window->newest - bucket >= COUNT_BUCKETS) {
        return;
    }
    *at = (uint16_t)number_min_u64(*at + count, UINT16_MAX);
}

uint64_t count_window_sum(const CountWindow *window, uint64_t width_ns, uint64_t now_ns)
{
    uint64_t now = number_max_u64(now_ns / width_ns, window->newest);
    uint64_t age = now - window->newest, sum = 0;

    for (uint64_t i = age; i < COUNT_BUCKETS && i - age <= window->newest; i++)
        sum += window->count[(now - i) % COUNT_BUCKETS];
    return sum;
}

/* ---- GPUs ---- */

void counts_done(Counts *counts)
{
    for (size_t i = 0; i < counts->gpus.len; i++) {
        vec_done(&counts->gpus.at[i]->xids);
        free(counts->gpus.at[i]);
    }
    vec_done(&counts->gpus);
    vec_done(&counts->kept);
}

/* The same events in buckets of another width. */
static void rescale_window(CountWindow *window, uint64_t from_width_ns, uint64_t to_width_ns)
{
    const CountWindow from = *window;

    *window = (CountWindow){.newest = 0};
    for (uint64_t i = COUNT_BUCKETS; i-- > 0;) {
        const uint64_t bucket = from.newest - i;

        if (i <= from.newest && from.count[bucket % COUNT_BUCKETS])
            window_add(window, to_width_ns, bucket * from_width_ns, from.count[bucket % COUNT_BUCKETS]);
    }
}

static void rescale_gpu(const Counts *counts, GpuCounts *gpu, uint64_t xid_width_ns, uint64_t clock_width_ns)
{
    for (size_t i = 0; i < gpu->xids.len; i++)
        rescale_window(&gpu->xids.at[i].window, counts->xid_width_ns, xid_width_ns);
    for (size_t bit = 0; bit < CLOCK_EVENTS; bit++)
        rescale_window(&gpu->clock[bit].window, counts->clock_width_ns, clock_width_ns);
    rescale_window(&gpu->readings.window, counts->clock_width_ns, clock_width_ns);
}

void counts_set_windows(Counts *counts, uint64_t xid_window_ns, uint64_t clock_window_ns)
{
    const uint64_t xid_width_ns = bucket_width(xid_window_ns), clock_width_ns = bucket_width(clock_window_ns);

    for (size_t i = 0; i < counts->gpus.len; i++)
        rescale_gpu(counts, counts->gpus.at[i], xid_width_ns, clock_width_ns);
    counts->xid_width_ns = xid_width_ns;
    counts->clock_width_ns = clock_width_ns;
}

static GpuCounts *find_gpu_counts(const Counts *counts, PciAddress pci)
{
    for (size_t i = 0; i < counts->gpus.len; i++)
        if (pci_compare(counts->gpus.at[i]->pci, pci) == 0)
            return counts->gpus.at[i];
    return NULL;
}

const GpuCounts *counts_of(const Counts *counts, const Reading *gpu)
{
    return gpu->device.has_pci ? find_gpu_counts(counts, gpu->device.pci) : NULL;
}

static GpuCounts *find_or_add(Counts *counts, PciAddress pci)
{
    GpuCounts *gpu = find_gpu_counts(counts, pci);

    if (gpu)
        return gpu;
    if (counts->gpus.len == NODE_GPUS_MAX)
        return NULL;
    gpu = xcalloc(1, sizeof *gpu);
    gpu->pci = pci;
    vec_push(&counts->gpus, gpu);
    return gpu;
}

/* ---- a tick ---- */

static XidCount *find_xid(GpuCounts *gpu, uint64_t xid)
{
    size_t at = 0;
    XidCount *added;

    while (at < gpu->xids.len && gpu->xids.at[at].xid < xid)
        at++;
    if (at < gpu->xids.len && gpu->xids.at[at].xid == xid)
        return &gpu->xids.at[at];
    if (gpu->xids.len == COUNT_XIDS_MAX)
        return NULL;
    (void)vec_add(&gpu->xids);
    added = &gpu->xids.at[at];
    memmove(added + 1, added, (gpu->xids.len - 1 - at) * sizeof *added);
    *added = (XidCount){.xid = xid};
    return added;
}

void count_keep(const CountKeep *keep, uint64_t value, const char *fmt, ...)
{
    char key[JOURNAL_KEY_CAP];
    va_list args;

    if (!keep->put)
        return;
    va_start(args, fmt);
    vsnprintf(key, sizeof key, fmt, args);
    va_end(args);
    keep->put(keep->self, key, value);
}

void counts_restore_xid(Counts *counts, const XidKept *kept)
{
    vec_push(&counts->kept, *kept);
}

static void keep_xid(const GpuCounts *gpu, const XidCount *xid, const CountKeep *keep)
{
    if (gpu->uuid[0])
        count_keep(keep, xid->total, "xid/%s/%" PRIu64, gpu->uuid, xid->xid);
}

/* The GPU at this address is this one: what was counted of it before the start is added. */
static void set_uuid(Counts *counts, GpuCounts *gpu, const char *uuid, const CountKeep *keep)
{
    if (!uuid[0] || strcmp(gpu->uuid, uuid) == 0)
        return;
    if (gpu->uuid[0])
        gpu->xids.len = 0; /* another one was there */
    snprintf(gpu->uuid, sizeof gpu->uuid, "%s", uuid);
    const size_t counted = gpu->xids.len;
    for (size_t i = counts->kept.len; i-- > 0;) {
        const XidKept *kept = &counts->kept.at[i];
        XidCount *xid = strcmp(kept->uuid, uuid) == 0 ? find_xid(gpu, kept->xid) : NULL;

        if (!xid)
            continue;
        xid->total += kept->total;
        xid->first_ns = 0;
        xid->last_real_ns = number_max_u64(xid->last_real_ns, kept->last_real_ns);
        vec_remove(&counts->kept, i);
    }
    for (size_t i = 0; counted && i < gpu->xids.len; i++)
        keep_xid(gpu, &gpu->xids.at[i], keep);
}

uint64_t xid_count_shown(const Counts *counts, const XidCount *xid)
{
    return xid->first_ns && counts->now_ns < xid->first_ns + NS_PER_MIN ? 0 : xid->total;
}

void counts_add_xid(Counts *counts, const Event *event, const CountKeep *keep)
{
    GpuCounts *gpu = event->has_pci && event->code > 0 ? find_or_add(counts, event->pci) : NULL;
    XidCount *xid = gpu ? find_xid(gpu, (uint64_t)event->code) : NULL;

    if (!xid)
        return;
    if (xid->total == 0)
        xid->first_ns = number_max_u64(event->time_ns, number_max_u64(counts->now_ns, 1));
    xid->total++;
    if (event->time_ns >= xid->last_ns) { /* by the clock that does not jump */
        xid->last_ns = event->time_ns;
        xid->last_real_ns = event->real_ns;
    }
    window_add(&xid->window, counts->xid_width_ns, event->time_ns, 1);
    keep_xid(gpu, xid, keep);
}

/* Counts the second of time_ns once. */
static void count_second(ClockCount *clock, uint64_t width_ns, uint64_t time_ns)
{
    uint64_t second = time_ns / NS_PER_S;

    if (clock->last_second && second <= clock->last_second)
        return;
    clock->last_second = second;
    window_add(&clock->window, width_ns, time_ns, 1);
}

static void count_bits(GpuCounts *gpu, uint64_t width_ns, uint64_t time_ns, uint64_t bits)
{
    if (time_ns <= gpu->read_ns)
        return;
    count_second(&gpu->readings, width_ns, time_ns);
    for (size_t bit = 0; bit < CLOCK_EVENTS; bit++) {
        if (!(bits >> bit & 1))
            continue;
        count_second(&gpu->clock[bit], width_ns, time_ns);
        gpu->clock[bit].edges += gpu->bits_known && !(gpu->bits >> bit & 1);
    }
    gpu->bits = bits;
    gpu->bits_known = true;
    gpu->read_ns = time_ns;
}

static void count_clocks(Counts *counts, GpuCounts *counted, const NodeGpu *gpu, int fast)
{
    const Sample *sample = &gpu->reading.sample[METRIC_CLOCKS_EVENT_REASONS];
    int64_t bits;

    for (size_t i = 0; i < gpu->fast_count; i++) {
        const FastReading *reading = &gpu->fast[i];

        if (fast >= 0 && fast < READING_FAST_CAP && reading->valid >> fast & 1 && reading->value[fast] >= 0)
            count_bits(counted, counts->clock_width_ns, reading->time_ns, (uint64_t)reading->value[fast]);
    }
    if (sample_int64(sample, &bits))
        count_bits(counted, counts->clock_width_ns, sample->time_ns, (uint64_t)bits);
}

void counts_tick(Counts *counts, const Node *node, const CountKeep *keep)
{
    int fast = metric_fast_index(METRIC_CLOCKS_EVENT_REASONS);

    counts->now_ns = node->time_ns;
    for (size_t i = 0; i < node->gpu_count; i++) {
        const NodeGpu *gpu = &node->gpus[i];
        GpuCounts *counted = gpu->reading.device.has_pci ? find_or_add(counts, gpu->reading.device.pci) : NULL;

        if (!counted)
            continue;
        set_uuid(counts, counted, gpu->reading.device.uuid, keep);
        count_clocks(counts, counted, gpu, fast);
    }
}
