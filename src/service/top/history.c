/* SPDX-License-Identifier: Apache-2.0 */
#include "service/top/history.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "base/number.h"

typedef struct Line {
    Device device;
    MetricId metric;
    StoreSeries series;
    bool wanted, filled;  /* its past was asked for; has come */
    size_t gpu, instance; /* where the last snapshot had it */
    uint64_t newest_ns;   /* of the newest second, 0: none */
    uint64_t last_ns;     /* of the last snapshot with a value, 0: the last one had none */
    double last;
} Line;

struct History {
    Store *store;
    uint64_t pace_ns, last_ns; /* last_ns: of the last snapshot */
    uint32_t epoch;            /* how often it was emptied */
    size_t count, found;       /* found: the line that was found last */
    Line lines[HISTORY_SERIES_MAX];
    StoreSecond seconds[STORE_SECONDS]; /* of the series that is read */
    StoreMinute minutes[STORE_MINUTES];
};

static const PlotPoint no_point = {NAN, NAN, NAN};

History *history_new(void)
{
    History *history = xcalloc(1, sizeof *history);

    history->pace_ns = NS_PER_S;
    history->store = store_new(HISTORY_SERIES_MAX);
    return history;
}

void history_free(History *history)
{
    if (!history)
        return;
    store_free(history->store);
    free(history);
}

void history_set_pace(History *history, uint64_t interval_ns)
{
    history->pace_ns = number_max_u64(interval_ns, NS_PER_S);
}

size_t history_count_series(const History *history)
{
    return history->count;
}

/* --- series ------------------------------------------------------------------------------------------------------- */

static void open_series(History *history, Line *line)
{
    char key[DEVICE_KEY_CAP];

    device_key(&line->device, key);
    line->series = store_open(history->store, key, line->metric, 0);
    line->wanted = line->filled = false;
    line->newest_ns = line->last_ns = 0;
}

/* Views ask for the same series in the same order each time: the search begins behind the last one. */
static Line *find_line(History *history, const Device *device, MetricId metric)
{
    for (size_t i = 1; i <= history->count; i++) {
        const size_t at = (history->found + i) % history->count;

        if (history->lines[at].metric == metric && device_equal(&history->lines[at].device, device)) {
            history->found = at;
            return &history->lines[at];
        }
    }
    return NULL;
}

static Line *make_line(History *history, const Device *device, MetricId metric)
{
    char key[DEVICE_KEY_CAP];
    Line *line;

    if (history->count == HISTORY_SERIES_MAX || device_key(device, key) < 0)
        return NULL;
    line = &history->lines[history->count++];
    *line = (Line){.device = *device, .metric = metric};
    open_series(history, line);
    return line;
}

static void empty_history(History *history)
{
    store_free(history->store);
    history->store = store_new(HISTORY_SERIES_MAX);
    history->epoch++;
    for (size_t i = 0; i < history->count; i++)
        open_series(history, &history->lines[i]);
}

/* --- snapshots ---------------------------------------------------------------------------------------------------- */

static const Reading *reading_at(const Node *node, const Line *line)
{
    if (line->gpu >= node->gpu_count)
        return NULL;
    const NodeGpu *gpu = &node->gpus[line->gpu];
    if (line->device.kind == DEVICE_GPU)
        return device_equal(&gpu->reading.device, &line->device) ? &gpu->reading : NULL;
    return line->instance < gpu->instance_count && device_equal(&gpu->instances[line->instance].device, &line->device)
               ? &gpu->instances[line->instance]
               : NULL;
}

/* Looks where it was the last time, then everywhere. */
static const Reading *find_reading(const Node *node, Line *line)
{
    const Reading *reading = reading_at(node, line);

    for (size_t g = 0; !reading && g < node->gpu_count; g++) {
        const size_t count = line->device.kind == DEVICE_GPU ? 1 : node->gpus[g].instance_count;

        line->gpu = g;
        for (line->instance = 0; !reading && line->instance < count; line->instance += !reading)
            reading = reading_at(node, line);
    }
    return reading;
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

void history_add(History *history, const Node *node, uint64_t jump_ns)
{
    const uint64_t real_ns = node->real_ns;

    if (history->last_ns && (real_ns < history->last_ns || real_ns - history->last_ns > jump_ns))
        empty_history(history);
    if (real_ns == history->last_ns)
        return;
    history->last_ns = real_ns;
    for (size_t i = 0; i < history->count; i++)
        if (history->lines[i].filled)
            add_reading(history, &history->lines[i], find_reading(node, &history->lines[i]), real_ns);
}

/* --- the past before the first snapshot --------------------------------------------------------------------------- */

bool history_next_wanted(History *history, HistoryWant *ret)
{
    for (size_t i = 0; i < history->count; i++) {
        Line *line = &history->lines[i];

        if (line->wanted)
            continue;
        line->wanted = true;
        *ret = (HistoryWant){.device = line->device, .metric = line->metric, .ref = {(uint32_t)i, history->epoch}};
        return true;
    }
    return false;
}

static Line *line_of(History *history, HistoryRef ref)
{
    return ref.epoch == history->epoch && ref.series < history->count ? &history->lines[ref.series] : NULL;
}

void history_fill(History *history, HistoryRef ref, uint64_t from_ns, uint64_t until_ns, PlotPoint point)
{
    Line *line = line_of(history, ref);

    if (!line || !isfinite(point.mean))
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

void history_end_fill(History *history, HistoryRef ref)
{
    Line *line = line_of(history, ref);

    if (line)
        line->filled = true;
}

/* --- points ------------------------------------------------------------------------------------------------------- */

/* The values of some seconds or minutes together. */
typedef struct Fold {
    double min, sum, max;
    size_t count;
} Fold;

static void fold_in(Fold *fold, double min, double mean, double max)
{
    fold->min = fold->count ? fmin(fold->min, min) : min;
    fold->max = fold->count ? fmax(fold->max, max) : max;
    fold->sum += mean;
    fold->count++;
}

static PlotPoint fold_point(const Fold *fold)
{
    if (fold->count == 0)
        return no_point;
    return (PlotPoint){(float)fold->min, (float)(fold->sum / (double)fold->count), (float)fold->max};
}

/* The slots that begin in [from_ns, to_ns) or, where that is shorter than a slot, the one it lies in; as places in an
 * array whose first element begins at first_ns. */
static bool slots_of(uint64_t from_ns, uint64_t to_ns, uint64_t unit_ns, uint64_t first_ns, size_t count,
                     size_t *ret_from, size_t *ret_end)
{
    const uint64_t base = first_ns / unit_ns, last = (to_ns - 1) / unit_ns;
    const uint64_t first = number_min_u64((from_ns + unit_ns - 1) / unit_ns, last);

    if (count == 0 || last < base)
        return false;
    *ret_from = first > base ? (size_t)(first - base) : 0;
    *ret_end = (size_t)number_min_u64(last - base + 1, count);
    return *ret_from < *ret_end;
}

static PlotPoint fold_seconds(const History *history, size_t count, uint64_t from_ns, uint64_t to_ns)
{
    size_t from, end;
    Fold fold = {.count = 0};

    if (!slots_of(from_ns, to_ns, NS_PER_S, history->seconds[0].time_ns, count, &from, &end))
        return no_point;
    for (size_t i = from; i < end; i++)
        if (history->seconds[i].valid)
            fold_in(&fold, history->seconds[i].value, history->seconds[i].value, history->seconds[i].value);
    return fold_point(&fold);
}

static PlotPoint fold_minutes(const History *history, size_t count, uint64_t from_ns, uint64_t to_ns)
{
    size_t from, end;
    Fold fold = {.count = 0};

    if (!slots_of(from_ns, to_ns, NS_PER_MIN, history->minutes[0].time_ns, count, &from, &end))
        return no_point;
    for (size_t i = from; i < end; i++)
        if (history->minutes[i].valid_seconds > 0)
            fold_in(&fold, history->minutes[i].min, history->minutes[i].mean, history->minutes[i].max);
    return fold_point(&fold);
}

/* The oldest instant that seconds are kept of; before it minutes stand in. */
static uint64_t seconds_begin(const Line *line)
{
    if (line->newest_ns == 0)
        return UINT64_MAX;
    return line->newest_ns - number_min_u64(line->newest_ns, (STORE_SECONDS - 1) * NS_PER_S);
}

void history_read_points(History *history, const Device *device, MetricId metric, uint64_t to_ns, uint64_t span_ns,
                         PlotPoint *out, size_t columns)
{
    Line *line = find_line(history, device, metric);
    const uint64_t step = number_max_u64(columns ? span_ns / columns : 1, NS_PER_MS);
    const uint64_t end = to_ns / step + 1; /* columns since 1970 */
    const uint64_t start_ns = (end - number_min_u64(columns, end)) * step;
    size_t seconds = 0, minutes = 0;

    if (!line)
        line = make_line(history, device, metric);
    if (!line || line->series < 0) {
        for (size_t i = 0; i < columns; i++)
            out[i] = no_point;
        return;
    }
    const uint64_t kept_from = span_ns > STORE_SECONDS * NS_PER_S ? UINT64_MAX : seconds_begin(line);
    seconds = store_seconds(history->store, line->series, start_ns, end * step, history->seconds, STORE_SECONDS);
    if (start_ns < kept_from)
        minutes = store_minutes(history->store, line->series, start_ns, end * step, history->minutes, STORE_MINUTES);
    for (size_t i = 0; i < columns; i++) {
        const uint64_t from = (end - number_min_u64(columns - i, end)) * step;

        out[i] = fold_seconds(history, seconds, from, from + step);
        if (isnan(out[i].mean) && from < kept_from)
            out[i] = fold_minutes(history, minutes, from, from + step);
    }
}
