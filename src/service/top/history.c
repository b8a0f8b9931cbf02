/* SPDX-License-Identifier: Apache-2.0 */
#include "service/top/history.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/duration.h"
#include "base/number.h"

typedef struct Line {
    Device device;
    MetricId metric;
    StoreSeries series;
    bool wanted, filled; /* its past was asked for; has come */
    uint64_t newest_ns;  /* of the newest second, 0: none */
    uint64_t last_ns;    /* of the last snapshot with a value, 0: the last one had none */
    double last;
} Line;

struct History {
    pthread_mutex_t lock;
    bool has_past;
    Store *store;
    uint64_t pace_ns, last_ns; /* last_ns: of the last snapshot */
    size_t count, found;       /* found: the line that was found last */
    Line lines[HISTORY_SERIES_MAX];
    StoreSecond read[STORE_SECONDS]; /* of the series that is read, and the same as minutes */
    StoreMinute seconds[STORE_SECONDS], minutes[STORE_MINUTES];
};

static const PlotPoint no_point = {NAN, NAN, NAN};

History *history_new(bool has_past)
{
    History *history = xcalloc(1, sizeof *history);

    pthread_mutex_init(&history->lock, NULL);
    history->has_past = has_past;
    history->store = store_new(HISTORY_SERIES_MAX);
    return history;
}

void history_free(History *history)
{
    if (!history)
        return;
    pthread_mutex_destroy(&history->lock);
    store_free(history->store);
    free(history);
}

static History *lock_history(History *history)
{
    pthread_mutex_lock(&history->lock);
    return history;
}

static void unlock_history(History *const *history)
{
    pthread_mutex_unlock(&(*history)->lock);
}

/* --- series ------------------------------------------------------------------------------------------------------- */

static void open_series(History *history, Line *line)
{
    char key[DEVICE_KEY_CAP];

    device_key(&line->device, key);
    line->series = store_open(history->store, key, line->metric, 0);
    line->wanted = line->filled = !history->has_past;
    line->newest_ns = line->last_ns = 0;
}

/* Makes it where it is missing; NULL: no room or no key. Views ask for the same series in the same order each time: the
 * search begins at the last one. */
static Line *find_line(History *history, const Device *device, MetricId metric)
{
    char key[DEVICE_KEY_CAP];

    for (size_t i = 0; i < history->count; i++) {
        const size_t at = (history->found + i) % history->count;

        if (history->lines[at].metric == metric && device_equal(&history->lines[at].device, device)) {
            history->found = at;
            return &history->lines[at];
        }
    }
    if (history->count == HISTORY_SERIES_MAX || device_key(device, key) < 0)
        return NULL;
    Line *line = &history->lines[history->count++];
    *line = (Line){.device = *device, .metric = metric};
    open_series(history, line);
    return line;
}

/* --- snapshots ---------------------------------------------------------------------------------------------------- */

const Reading *history_find_reading(const Node *node, const Device *device)
{
    for (size_t g = 0; g < node->gpu_count; g++) {
        const NodeGpu *gpu = &node->gpus[g];

        if (device_equal(&gpu->reading.device, device))
            return &gpu->reading;
        for (size_t i = 0; device->kind != DEVICE_GPU && i < gpu->instance_count; i++)
            if (device_equal(&gpu->instances[i].device, device))
                return &gpu->instances[i];
    }
    return NULL;
}

static void add_value(const History *history, Line *line, uint64_t real_ns, double value)
{
    Sample sample;

    sample_set_double(&sample, real_ns, value);
    store_add(history->store, line->series, real_ns, &sample);
    line->newest_ns = number_max_u64(line->newest_ns, real_ns);
}

static void add_reading(const History *history, Line *line, const Reading *reading, uint64_t real_ns)
{
    double value;

    if (line->last_ns && real_ns - line->last_ns <= history->pace_ns / 2 * 5)
        for (uint64_t s = line->last_ns / NS_PER_S + 1; s < real_ns / NS_PER_S; s++)
            add_value(history, line, s * NS_PER_S, line->last);
    line->last_ns = 0;
    if (!reading || !sample_double(&reading->sample[line->metric], &value))
        return;
    add_value(history, line, real_ns, value);
    line->last_ns = real_ns;
    line->last = value;
}

bool history_add(History *history, const Node *node, uint64_t pace_ns, uint64_t jump_ns)
{
    const uint64_t real_ns = node->real_ns;

    CLEANUP(unlock_history) History *locked UNUSED = lock_history(history);
    const bool jumps = history->last_ns && (real_ns < history->last_ns || real_ns - history->last_ns > jump_ns);
    if (jumps) {
        store_free(history->store);
        history->store = store_new(HISTORY_SERIES_MAX);
        for (size_t i = 0; i < history->count; i++)
            open_series(history, &history->lines[i]);
    }
    if (real_ns == history->last_ns)
        return false;
    history->last_ns = real_ns;
    history->pace_ns = number_max_u64(pace_ns, NS_PER_S);
    for (Line *line = history->lines; line < history->lines + history->count; line++)
        if (line->filled)
            add_reading(history, line, history_find_reading(node, &line->device), real_ns);
    return jumps;
}

/* --- the past before the first snapshot --------------------------------------------------------------------------- */

bool history_next_wanted(History *history, HistoryWant *ret)
{
    CLEANUP(unlock_history) History *locked UNUSED = lock_history(history);
    for (Line *line = history->lines; line < history->lines + history->count; line++)
        if (!line->wanted) {
            line->wanted = true;
            *ret = (HistoryWant){line->device, line->metric};
            return true;
        }
    return false;
}

void history_fill(History *history, const HistoryWant *series, uint64_t from_ns, uint64_t until_ns, PlotPoint point)
{
    CLEANUP(unlock_history) History *locked UNUSED = lock_history(history);
    Line *line = find_line(history, &series->device, series->metric);

    if (!line || line->series < 0 || !isfinite(point.mean))
        return;
    const uint64_t length = until_ns - from_ns, unit = length < NS_PER_MIN ? NS_PER_S : NS_PER_MIN;
    const uint64_t first = from_ns / unit, count = number_max_u64(length / unit, 1);
    for (uint64_t n = first; n < first + count; n++) {
        const StoreMinute minute = {.time_ns = n * unit,
                                    .valid_seconds = 60,
                                    .min = (double)point.min,
                                    .mean = (double)point.mean,
                                    .max = (double)point.max};

        if (unit == NS_PER_S)
            add_value(history, line, n * unit, (double)point.mean);
        else
            store_add_minute(history->store, line->series, &minute);
    }
}

void history_end_fill(History *history, const HistoryWant *series)
{
    CLEANUP(unlock_history) History *locked UNUSED = lock_history(history);
    Line *line = find_line(history, &series->device, series->metric);

    if (line)
        line->filled = true;
}

size_t history_count_open(History *history)
{
    size_t count = 0;

    CLEANUP(unlock_history) History *locked UNUSED = lock_history(history);
    for (const Line *line = history->lines; line < history->lines + history->count; line++)
        count += !line->filled;
    return count;
}

/* --- points ------------------------------------------------------------------------------------------------------- */

/* What is kept of a series in an interval, in seconds or in minutes. */
typedef struct Slots {
    uint64_t unit_ns;
    size_t count;
    const StoreMinute *at;
} Slots;

static Slots read_seconds(History *history, const Line *line, uint64_t from_ns, uint64_t to_ns)
{
    const size_t count = store_seconds(history->store, line->series, from_ns, to_ns, history->read, STORE_SECONDS);

    for (size_t i = 0; i < count; i++) {
        const StoreSecond *s = &history->read[i];

        history->seconds[i] = (StoreMinute){
            .time_ns = s->time_ns, .valid_seconds = s->valid, .min = s->value, .mean = s->value, .max = s->value};
    }
    return (Slots){NS_PER_S, count, history->seconds};
}

/* The slots that begin in [from_ns, to_ns) together or, where that is shorter than a slot, the one it lies in. */
static PlotPoint fold_slots(const Slots *slots, uint64_t from_ns, uint64_t to_ns)
{
    const uint64_t unit = slots->unit_ns, last = (to_ns - 1) / unit;
    const uint64_t first = number_min_u64((from_ns + unit - 1) / unit, last);
    const uint64_t base = slots->at[0].time_ns / unit;
    double min = INFINITY, sum = 0, max = -INFINITY;
    size_t known = 0;

    for (uint64_t n = number_max_u64(first, base); n <= last && n - base < slots->count; n++) {
        const StoreMinute *slot = &slots->at[n - base];

        if (slot->valid_seconds == 0)
            continue;
        min = fmin(min, slot->min);
        max = fmax(max, slot->max);
        sum += slot->mean;
        known++;
    }
    return known ? (PlotPoint){(float)min, (float)(sum / (double)known), (float)max} : no_point;
}

void history_read_points(History *history, const Device *device, MetricId metric, uint64_t to_ns, uint64_t span_ns,
                         PlotPoint *out, size_t columns)
{
    CLEANUP(unlock_history) History *locked UNUSED = lock_history(history);
    const Line *line = find_line(history, device, metric);
    const uint64_t step = number_max_u64(columns ? span_ns / columns : 1, NS_PER_MS);
    const uint64_t end = to_ns / step + 1; /* columns since 1970 */
    const uint64_t start_ns = (end - number_min_u64(columns, end)) * step;
    Slots seconds = {0}, minutes = {.unit_ns = NS_PER_MIN, .at = history->minutes};
    uint64_t kept_from = 0;

    if (line && line->series >= 0) {
        const uint64_t newest = line->newest_ns, kept = (STORE_SECONDS - 1) * NS_PER_S;

        /* the oldest instant that seconds are kept of; before it minutes stand in */
        kept_from =
            newest == 0 || span_ns > STORE_SECONDS * NS_PER_S ? UINT64_MAX : newest - number_min_u64(newest, kept);
        seconds = read_seconds(history, line, start_ns, end * step);
        if (start_ns < kept_from)
            minutes.count =
                store_minutes(history->store, line->series, start_ns, end * step, history->minutes, STORE_MINUTES);
    }
    for (size_t i = 0; i < columns; i++) {
        const uint64_t from = (end - number_min_u64(columns - i, end)) * step;

        out[i] = seconds.count ? fold_slots(&seconds, from, from + step) : no_point;
        if (isnan(out[i].mean) && from < kept_from && minutes.count)
            out[i] = fold_slots(&minutes, from, from + step);
    }
}
