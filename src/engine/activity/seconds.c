/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/activity/activity.h"

#include <math.h>

#include "base/duration.h"

/* Fills the minute with a metric of the store, times `scale`. */
static void read_metric(const Store *store, const char *key, const SecondsSource *source, double scale, uint64_t now_ns,
                        double out[ACTIVITY_WINDOW_S])
{
    const uint64_t now_s = now_ns / NS_PER_S;
    const uint64_t from_s = now_s >= ACTIVITY_WINDOW_S ? now_s - ACTIVITY_WINDOW_S + 1 : 0;
    const StoreSeries series = store_find(store, key, source->metric);
    StoreSecond seconds[ACTIVITY_WINDOW_S];
    size_t count = 0;

    for (int i = 0; i < ACTIVITY_WINDOW_S; i++)
        out[i] = NAN;
    if (series >= 0)
        count = store_seconds(store, series, from_s * NS_PER_S, now_ns, seconds, ACTIVITY_WINDOW_S);
    for (size_t i = 0; i < count; i++) {
        const uint64_t at = seconds[i].time_ns / NS_PER_S + ACTIVITY_WINDOW_S - 1 - now_s;

        if (seconds[i].valid && at < ACTIVITY_WINDOW_S)
            out[at] = seconds[i].value * scale;
    }
}

/* Of a counter: what it grew by since the second before that has a value, per second. */
static void count_to_rate(double values[ACTIVITY_WINDOW_S])
{
    double before = NAN;
    int before_at = 0;

    for (int i = 0; i < ACTIVITY_WINDOW_S; i++) {
        const double value = values[i];

        if (!isfinite(value))
            continue;
        values[i] = value >= before ? (value - before) / (i - before_at) : (double)NAN;
        before = value;
        before_at = i;
    }
}

static double limit_scale(const Reading *reading, MetricId id)
{
    double limit;

    if (id == METRIC_END)
        return 1;
    return sample_double(&reading->sample[id], &limit) && limit > 0 ? 1 / limit : (double)NAN;
}

void seconds_read(const Store *store, const Reading *reading, uint64_t now_ns, const SecondsSource *sources,
                  size_t count, double (*rows)[ACTIVITY_WINDOW_S])
{
    double values[ACTIVITY_WINDOW_S];
    char key[DEVICE_KEY_CAP];

    if (device_key(&reading->device, key) < 0)
        key[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        static const SecondsSource of_engine = {
            .metric = METRIC_PROF_GR_ENGINE_ACTIVE, .scale = 1, .limit = METRIC_END};
        const bool part = sources[i].metric == METRIC_GPU_UTIL && device_is_part(&reading->device);
        const SecondsSource *source = part ? &of_engine : &sources[i];
        const bool first = i == 0 || sources[i - 1].into != sources[i].into;
        const bool add = !first && source->counter && sources[i - 1].counter;
        double *into = rows[sources[i].into];

        read_metric(store, key, source, source->scale * limit_scale(reading, source->limit), now_ns, values);
        if (source->counter)
            count_to_rate(values);
        for (int k = 0; k < ACTIVITY_WINDOW_S; k++)
            into[k] = first ? values[k] : add ? into[k] + values[k] : fmax(into[k], values[k]);
    }
}

double seconds_mean(const double row[ACTIVITY_WINDOW_S], int from)
{
    double sum = 0;
    int count = 0;

    for (int i = from; i < ACTIVITY_WINDOW_S; i++)
        if (isfinite(row[i])) {
            sum += row[i];
            count++;
        }
    return count ? sum / count : (double)NAN;
}
