/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rings of seconds and of minutes by the wall clock. A slot is addressed by its number since 1970 modulo the ring's
 * length; `newest` says which turn of the ring a slot belongs to: slots older than the ring's length behind it are
 * gone, those beyond it are not there yet.
 */
#include "service/top/history.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "base/map.h"
#include "base/number.h"

enum { TABLE_SLOTS = 2 * TOP_HISTORY_SERIES_MAX, FILLED_WEIGHT = 60 };

typedef struct Ring {
    uint64_t newest;  /* number of the newest slot; 0: empty */
    uint64_t folding; /* the slot that a look was put into last, and how many values are in it */
    uint32_t weight;
    uint32_t length;
    uint64_t unit_ns;
    PlotPoint *points;
} Ring;

typedef struct Series {
    Device device;
    MetricId metric;
    size_t gpu, instance; /* where the last look had it */
    bool filled;
    bool has_last;
    double last; /* the newest look's value, of a counter its reading */
    uint64_t last_ns;
    PlotPoint held; /* what the newest look put in */
    Ring seconds, minutes;
    PlotPoint points[TOP_HISTORY_SECONDS + TOP_HISTORY_MINUTES];
} Series;

struct TopHistory {
    uint64_t pace_ns;
    size_t count, looked_at; /* series from there on may be unfilled */
    Series *series[TOP_HISTORY_SERIES_MAX];
    uint32_t table[TABLE_SLOTS]; /* number of the series + 1, by hash */
};

static const PlotPoint nothing = {NAN, NAN, NAN};

/* --- a ring ------------------------------------------------------------------------------------------------------- */

static void ring_init(Ring *ring, PlotPoint *points, uint32_t length, uint64_t unit_ns)
{
    *ring = (Ring){.points = points, .length = length, .unit_ns = unit_ns};
    for (uint32_t i = 0; i < length; i++)
        points[i] = nothing;
}

static bool ring_has(const Ring *ring, uint64_t number)
{
    return number <= ring->newest && ring->newest - number < ring->length;
}

/* Too old for it; of an empty one everything is. */
static bool is_before(const Ring *ring, uint64_t number)
{
    return number + ring->length <= ring->newest || ring->newest == 0;
}

static PlotPoint *ring_at(const Ring *ring, uint64_t number)
{
    return &ring->points[number % ring->length];
}

/* Makes `number` one of the ring, forgetting what is too old then. */
static void ring_reach(Ring *ring, uint64_t number)
{
    uint64_t from = ring->newest + 1;

    if (number <= ring->newest)
        return;
    if (number - ring->newest > ring->length)
        from = number - ring->length + 1;
    for (uint64_t n = from; n <= number; n++)
        *ring_at(ring, n) = nothing;
    ring->newest = number;
}

static void fold(PlotPoint *into, PlotPoint point, uint32_t weight)
{
    if (isnan(into->mean) || weight == 0) {
        *into = point;
        return;
    }
    into->min = fminf(into->min, point.min);
    into->max = fmaxf(into->max, point.max);
    into->mean += (point.mean - into->mean) / (float)(weight + 1);
    into->mean = fminf(fmaxf(into->mean, into->min), into->max);
}

/* What a look says of an instant; what was there from before is what another look, or the store, has said of it. */
static void ring_add(Ring *ring, uint64_t number, PlotPoint point)
{
    ring_reach(ring, number);
    if (number != ring->folding)
        ring->weight = 0;
    ring->folding = number;
    fold(ring_at(ring, number), point, ring->weight++);
}

/* --- series ------------------------------------------------------------------------------------------------------- */

static uint64_t hash_of(const Device *device, MetricId metric)
{
    struct {
        uint32_t kind, metric, gpu_instance, compute_instance, domain, bus, slot, function;
    } key = {device->kind, metric, device->gpu_instance, device->compute_instance, 0, 0, 0, 0};

    if (!device->has_pci)
        return map_hash(device->uuid, strlen(device->uuid), metric);
    key.domain = device->pci.domain;
    key.bus = device->pci.bus;
    key.slot = device->pci.device;
    key.function = device->pci.function;
    return map_hash(&key, sizeof key, 1);
}

/* The series, or where in the table it would be. */
static Series *find(const TopHistory *history, const Device *device, MetricId metric, size_t *ret_slot)
{
    size_t slot = hash_of(device, metric) % TABLE_SLOTS;

    for (; history->table[slot]; slot = (slot + 1) % TABLE_SLOTS) {
        Series *series = history->series[history->table[slot] - 1];

        if (series->metric == metric && device_equal(&series->device, device))
            return series;
    }
    *ret_slot = slot;
    return NULL;
}

static Series *want(TopHistory *history, const Device *device, MetricId metric)
{
    size_t slot;
    Series *series = find(history, device, metric, &slot);

    if (series || history->count == TOP_HISTORY_SERIES_MAX || !device_equal(device, device))
        return series;
    series = xcalloc(1, sizeof *series);
    series->device = *device;
    series->metric = metric;
    ring_init(&series->seconds, series->points, TOP_HISTORY_SECONDS, NS_PER_S);
    ring_init(&series->minutes, series->points + TOP_HISTORY_SECONDS, TOP_HISTORY_MINUTES, NS_PER_MIN);
    history->series[history->count++] = series;
    history->table[slot] = (uint32_t)history->count;
    return series;
}

TopHistory *top_history_new(void)
{
    TopHistory *history = xcalloc(1, sizeof *history);

    history->pace_ns = NS_PER_S;
    return history;
}

void top_history_free(TopHistory *history)
{
    if (!history)
        return;
    for (size_t i = 0; i < history->count; i++)
        free(history->series[i]);
    free(history);
}

void top_history_pace(TopHistory *history, uint64_t interval_ns)
{
    history->pace_ns = interval_ns;
}

size_t top_history_series(const TopHistory *history)
{
    return history->count;
}

/* --- a look ------------------------------------------------------------------------------------------------------- */

static const Reading *reading_at(const Node *node, const Series *series)
{
    if (series->gpu >= node->gpu_count)
        return NULL;
    const NodeGpu *gpu = &node->gpus[series->gpu];
    if (series->device.kind == DEVICE_GPU)
        return device_equal(&gpu->reading.device, &series->device) ? &gpu->reading : NULL;
    return series->instance < gpu->instance_count &&
                   device_equal(&gpu->instances[series->instance].device, &series->device)
               ? &gpu->instances[series->instance]
               : NULL;
}

static const Reading *seek_in(const Node *node, Series *series)
{
    const size_t count = series->device.kind == DEVICE_GPU ? 1 : node->gpus[series->gpu].instance_count;

    for (series->instance = 0; series->instance < count; series->instance++) {
        const Reading *reading = reading_at(node, series);

        if (reading)
            return reading;
    }
    return NULL;
}

/* Where it was the last time, else wherever it is. */
static const Reading *reading_of(const Node *node, Series *series)
{
    const Reading *reading = reading_at(node, series);

    for (size_t g = 0; !reading && g < node->gpu_count; g++) {
        series->gpu = g;
        reading = seek_in(node, series);
    }
    return reading;
}

/* Fills the time between the look before and this one. */
static void bridge(const TopHistory *history, Series *series, uint64_t real_ns, PlotPoint point)
{
    const uint64_t most = number_max_u64(history->pace_ns, NS_PER_S) / 2 * 5;
    Ring *const rings[] = {&series->seconds, &series->minutes};

    if (!series->has_last || isnan(point.mean) || real_ns - series->last_ns > most)
        return;
    for (size_t i = 0; i < 2; i++)
        for (uint64_t n = series->last_ns / rings[i]->unit_ns + 1; n < real_ns / rings[i]->unit_ns; n++)
            ring_add(rings[i], n, point);
}

/* What the reading means: itself, or how fast a counter has grown since the look before. */
static PlotPoint meaning(const Series *series, uint64_t real_ns, double reads)
{
    float value = (float)reads;

    if (metric_get(series->metric)->type == METRIC_COUNTER) {
        if (!series->has_last || reads < series->last)
            return nothing;
        value = (float)((reads - series->last) / ((double)(real_ns - series->last_ns) / 1e9));
    }
    return (PlotPoint){value, value, value};
}

static void add_one(const TopHistory *history, Series *series, const Reading *reading, uint64_t real_ns)
{
    const bool counter = metric_get(series->metric)->type == METRIC_COUNTER;
    double reads;

    if (series->has_last && real_ns == series->last_ns)
        return;
    if (!reading || !sample_double(&reading->sample[series->metric], &reads)) {
        if (!counter)
            bridge(history, series, real_ns, series->held);
        series->has_last = false;
        return;
    }
    const PlotPoint point = meaning(series, real_ns, reads);
    bridge(history, series, real_ns, counter ? point : series->held);
    if (!isnan(point.mean)) {
        ring_add(&series->seconds, real_ns / NS_PER_S, point);
        ring_add(&series->minutes, real_ns / NS_PER_MIN, point);
    }
    series->has_last = true;
    series->held = point;
    series->last = reads;
    series->last_ns = real_ns;
}

/* A look from before what a ring reaches back to: a replay was turned back. */
static void turn_back(Ring *ring, uint64_t real_ns)
{
    const uint64_t number = real_ns / ring->unit_ns;

    if (number < ring->newest && !ring_has(ring, number))
        ring_init(ring, ring->points, ring->length, ring->unit_ns);
}

void top_history_add(TopHistory *history, const TopSeen *seen)
{
    const Node *node = seen->status.node;

    for (size_t i = 0; node && i < history->count; i++) {
        Series *series = history->series[i];

        if (seen->real_ns < series->last_ns)
            series->has_last = false;
        turn_back(&series->seconds, seen->real_ns);
        turn_back(&series->minutes, seen->real_ns);
        add_one(history, series, reading_of(node, series), seen->real_ns);
    }
}

/* --- the past before the first look ------------------------------------------------------------------------------- */

bool top_history_missing(TopHistory *history, const Device **ret_device, MetricId *ret_metric)
{
    while (history->looked_at < history->count && history->series[history->looked_at]->filled)
        history->looked_at++;
    if (history->looked_at == history->count)
        return false;
    *ret_device = &history->series[history->looked_at]->device;
    *ret_metric = history->series[history->looked_at]->metric;
    return true;
}

void top_history_fill(TopHistory *history, const Device *device, MetricId metric, uint64_t real_ns, uint64_t length_ns,
                      PlotPoint point)
{
    size_t slot;
    Series *series = find(history, device, metric, &slot);

    if (!series || !isfinite(point.mean))
        return;
    Ring *ring = length_ns >= NS_PER_MIN ? &series->minutes : &series->seconds;
    const uint64_t number = real_ns / ring->unit_ns;
    if (!ring_has(ring, number) && number < ring->newest)
        return;
    ring_reach(ring, number);
    PlotPoint *at = ring_at(ring, number);
    if (ring == &series->seconds) {
        if (isnan(at->mean))
            *at = point;
        return;
    }
    /* Who fills has seen all of the minute, where looks began within it. */
    *at = point;
    if (number >= ring->newest) {
        ring->folding = number;
        ring->weight = FILLED_WEIGHT;
    }
}

void top_history_filled(TopHistory *history, const Device *device, MetricId metric)
{
    size_t slot;
    Series *series = find(history, device, metric, &slot);

    if (series)
        series->filled = true;
}

void top_history_unfilled(TopHistory *history)
{
    for (size_t i = 0; i < history->count; i++)
        history->series[i]->filled = false;
    history->looked_at = 0;
}

/* --- points ------------------------------------------------------------------------------------------------------- */

/* What a ring knows of [from_ns, to_ns): slots that begin there or, where that is less than one, the one it is in. */
static PlotPoint range(const Ring *ring, uint64_t from_ns, uint64_t to_ns)
{
    uint64_t first = (from_ns + ring->unit_ns - 1) / ring->unit_ns, last = (to_ns - 1) / ring->unit_ns;
    PlotPoint sum = nothing;
    uint32_t weight = 0;

    if (first > last)
        first = last;
    if (ring->newest >= ring->length)
        first = number_max_u64(first, ring->newest - ring->length + 1);
    for (uint64_t n = first; n <= last && n <= ring->newest; n++)
        if (!isnan(ring_at(ring, n)->mean))
            fold(&sum, *ring_at(ring, n), weight++);
    return sum;
}

void top_history_points(TopHistory *history, const Device *device, MetricId metric, uint64_t to_ns, uint64_t span_ns,
                        PlotPoint *out, size_t columns)
{
    const Series *series = want(history, device, metric);
    const uint64_t step = number_max_u64(columns ? span_ns / columns : 1, NS_PER_MS);
    const uint64_t end = to_ns / step + 1; /* columns since 1970 */

    for (size_t i = 0; i < columns; i++) {
        const uint64_t from = (end - number_min_u64(columns - i, end)) * step;

        out[i] = nothing;
        if (!series)
            continue;
        out[i] = range(&series->seconds, from, from + step);
        if (isnan(out[i].mean) &&
            (span_ns > TOP_HISTORY_SECONDS * NS_PER_S || is_before(&series->seconds, from / NS_PER_S)))
            out[i] = range(&series->minutes, from, from + step);
    }
}
