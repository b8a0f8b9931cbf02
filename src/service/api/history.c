/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1/gpus/{id}/history: the store as JSON. Its axis is monotonic; times are told by the wall clock of now. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/duration.h"
#include "base/number.h"
#include "base/cleanup.h"
#include "service/api/api.h"
#include "service/api/write.h"

static int parse_time(const char *name, const char *text, uint64_t real_ns, uint64_t *ret, Err *err)
{
    uint64_t back, seconds;

    if (text[0] == '-' && duration_parse(text + 1, &back, NULL) == 0) {
        *ret = back < real_ns ? real_ns - back : 0;
        return 0;
    }
    if (number_parse_u64(text, 0, UINT64_MAX / NS_PER_S, &seconds, NULL) == 0) {
        *ret = seconds * NS_PER_S;
        return 0;
    }
    if (clock_parse(text, ret, NULL) == 0)
        return 0;
    return err_set(err, -EINVAL, "%s: '%.60s' is no time; 2026-01-31T12:00:00Z, Unix seconds or -10m are", name, text);
}

int api_history_query(const char *metric, const char *resolution, const char *from, const char *to, uint64_t real_ns,
                      HistoryQuery *ret, Err *err)
{
    HistoryQuery q = {.metrics = metric && metric[0] ? metric : NULL, .to_ns = real_ns};

    if (resolution && strcmp(resolution, "minute") == 0)
        q.minutes = true;
    else if (resolution && strcmp(resolution, "second") != 0)
        return err_set(err, -EINVAL, "resolution: '%.60s' is none; 'second' (ten minutes) and 'minute' (a day) are",
                       resolution);
    uint64_t span = q.minutes ? STORE_MINUTES * NS_PER_MIN : STORE_SECONDS * NS_PER_S;
    q.from_ns = real_ns > span ? real_ns - span : 0;
    if (from)
        TRY(parse_time("from", from, real_ns, &q.from_ns, err));
    if (to)
        TRY(parse_time("to", to, real_ns, &q.to_ns, err));
    if (q.from_ns > q.to_ns)
        return err_set(err, -EINVAL, "from is after to");
    *ret = q;
    return 0;
}

typedef struct Writing {
    const Node *node;
    const Store *store;
    const HistoryQuery *query;
    const char *device;
    Str *out;
    bool first;
    StoreSecond *seconds;
    StoreMinute *minutes;
} Writing;

/* A wall-clock instant on the store's axis; before its start is 0. */
static uint64_t to_monotonic(const Node *node, uint64_t real_ns)
{
    if (real_ns >= node->real_ns)
        return node->time_ns + (real_ns - node->real_ns);
    return node->real_ns - real_ns < node->time_ns ? node->time_ns - (node->real_ns - real_ns) : 0;
}

static void write_when(Str *out, const Node *node, uint64_t monotonic_ns)
{
    uint64_t age = node->time_ns > monotonic_ns ? node->time_ns - monotonic_ns : 0;

    write_seconds(out, node->real_ns > age ? node->real_ns - age : 0);
}

static void write_second_points(Writing *w, StoreSeries series, uint64_t from, uint64_t to)
{
    assert(w->seconds);
    size_t n = store_seconds(w->store, series, from, to, w->seconds, STORE_SECONDS);

    for (size_t i = 0; i < n; i++) {
        const StoreSecond *p = &w->seconds[i];

        str_add(w->out, i ? ",[" : "[");
        write_when(w->out, w->node, p->time_ns);
        str_addc(w->out, ',');
        if (p->valid)
            write_number(w->out, p->value);
        else
            str_addf(w->out, "null,\"%s\"", absence_key(p->why));
        str_addc(w->out, ']');
    }
}

static void write_minute_points(Writing *w, StoreSeries series, bool counter, uint64_t from, uint64_t to)
{
    assert(w->minutes);
    size_t n = store_minutes(w->store, series, from, to, w->minutes, STORE_MINUTES);

    for (size_t i = 0; i < n; i++) {
        const StoreMinute *p = &w->minutes[i];
        double values[3] = {p->min, p->mean, p->max};

        str_add(w->out, i ? ",[" : "[");
        write_when(w->out, w->node, p->time_ns);
        if (counter) {
            values[0] = p->mean;
            values[1] = p->increase;
        }
        for (int k = 0; k < (counter ? 2 : 3); k++) {
            str_addc(w->out, ',');
            if (p->valid_seconds)
                write_number(w->out, values[k]);
            else
                str_add(w->out, "null");
        }
        str_addf(w->out, ",%u]", p->valid_seconds);
    }
}

static const char *columns_of(const Writing *w, const Metric *metric)
{
    if (!w->query->minutes)
        return "[\"time\",\"value\"]";
    return metric->type == METRIC_COUNTER ? "[\"time\",\"last\",\"increase\",\"valid_seconds\"]"
                                          : "[\"time\",\"min\",\"mean\",\"max\",\"valid_seconds\"]";
}

static void write_series(Writing *w, StoreSeries series, MetricId id)
{
    const Metric *metric = metric_get(id);
    uint64_t from = to_monotonic(w->node, w->query->from_ns), to = to_monotonic(w->node, w->query->to_ns);

    str_addf(w->out, "%s{\"metric\":\"%s\",\"unit\":\"%s\",\"type\":\"%s\",\"columns\":%s,\"points\":[",
             w->first ? "" : ",", metric->name, unit_symbol(metric->unit), metric_type_text(metric->type),
             columns_of(w, metric));
    w->first = false;
    if (w->query->minutes)
        write_minute_points(w, series, metric->type == METRIC_COUNTER, from, to);
    else
        write_second_points(w, series, from, to);
    str_add(w->out, "]}");
}

static void write_each(void *self, StoreSeries series, const char *device, MetricId id)
{
    Writing *w = self;

    if (strcmp(device, w->device) == 0)
        write_series(w, series, id);
}

/* --- by name ------------------------------------------------------------------------------------------------------ */

/* The name that begins at `*at`, in the next `*ret_len` bytes, and where it is not empty whose it is (NULL: no
 * metric's); *at goes to what follows. False at the end. */
static bool next_name(const char **at, const char **ret_name, size_t *ret_len, const MetricName **ret_found)
{
    char name[128];

    *at += strspn(*at, ",");
    *ret_name = *at;
    *ret_len = strcspn(*at, ",");
    *at += *ret_len;
    *ret_found = NULL;
    if (*ret_len > 0 && *ret_len < sizeof name) {
        memcpy(name, *ret_name, *ret_len);
        name[*ret_len] = '\0';
        *ret_found = metric_find(name);
    }
    return *ret_len > 0;
}

/* Where nothing that was asked for is a metric, somebody meant something else. */
static int some_is_known(const char *metrics, Err *err)
{
    const MetricName *found;
    const char *at = metrics, *name;
    size_t len;

    while (next_name(&at, &name, &len, &found))
        if (found)
            return 0;
    return err_set(err, -ENOENT, "there is no metric '%.100s'", metrics);
}

/* What is kept. */
static void write_named(Writing *w)
{
    const MetricName *found;
    const char *at = w->query->metrics, *name;
    size_t len;

    while (next_name(&at, &name, &len, &found)) {
        StoreSeries series = found ? store_find(w->store, w->device, found->metric) : STORE_NOT_KEPT;

        if (series >= 0)
            write_series(w, series, found->metric);
    }
}

/* Why the store has no series of it: key and sentence. */
static const char *why_missing(const Reading *reading, const MetricName *found, const char **ret_text)
{
    *ret_text = "there is no metric of that name";
    if (!found)
        return "no_metric";
    *ret_text = "only its latest value is kept";
    if (!metric_get(found->metric)->history)
        return "not_kept";
    const Sample *sample = &reading->sample[found->metric];
    *ret_text = sample->valid ? "the history has no room for more series" : absence_text(sample->absence);
    return sample->valid ? "no_room" : absence_key(sample->absence);
}

/* What is not, and why. */
static void write_missing(Writing *w, const Reading *reading)
{
    const MetricName *found;
    const char *at = w->query->metrics, *name, *text;
    bool first = true;
    size_t len;

    while (next_name(&at, &name, &len, &found))
        if (!found || store_find(w->store, w->device, found->metric) < 0) {
            const char *why = why_missing(reading, found, &text);

            str_add(w->out, first ? "{\"metric\":" : ",{\"metric\":");
            str_addn_json(w->out, name, len);
            str_addf(w->out, ",\"why\":\"%s\",\"text\":\"%s\"}", why, text);
            first = false;
        }
}

int api_history(const Node *node, const Store *store, const Reading *reading, const HistoryQuery *query, Str *out,
                Err *err)
{
    char key[DEVICE_KEY_CAP];
    CLEANUP_FREE StoreSecond *seconds = NULL;
    CLEANUP_FREE StoreMinute *minutes = NULL;

    if (device_key(&reading->device, key) < 0)
        return err_set(err, -ENOENT, "this device has no identity yet");
    if (query->metrics)
        TRY(some_is_known(query->metrics, err));
    if (query->minutes)
        minutes = xmalloc(STORE_MINUTES * sizeof *minutes);
    else
        seconds = xmalloc(STORE_SECONDS * sizeof *seconds);
    Writing w = {.node = node,
                 .store = store,
                 .query = query,
                 .device = key,
                 .out = out,
                 .first = true,
                 .seconds = seconds,
                 .minutes = minutes};
    str_addc(out, '{');
    write_identity(out, &reading->device);
    str_addf(out, ",\"resolution\":\"%s\",\"series\":[", query->minutes ? "minute" : "second");
    if (query->metrics)
        write_named(&w);
    else
        store_each(store, write_each, &w);
    str_add(out, "],\"missing\":[");
    if (query->metrics)
        write_missing(&w, reading);
    str_add(out, "]}\n");
    return 0;
}
