/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1/gpus/{id}/history: the store as JSON. Its axis is monotonic; times are told by the wall clock of now. */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/duration.h"
#include "base/json.h"
#include "base/number.h"
#include "base/vec.h"
#include "service/api/api.h"
#include "service/api/fields.h"

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

static void write_second_points(Writing *w, StoreSeries series, uint64_t from, uint64_t to)
{
    assert(w->seconds);
    size_t n = store_seconds(w->store, series, from, to, w->seconds, STORE_SECONDS);

    for (size_t i = 0; i < n; i++) {
        const StoreSecond *p = &w->seconds[i];

        json_open(w->out, NULL, '[');
        json_add_seconds(w->out, NULL, node_real_ns(w->node, p->time_ns));
        json_add_double(w->out, NULL, p->valid ? p->value : NAN);
        if (!p->valid)
            json_add_text(w->out, NULL, absences[p->why].key);
        json_close(w->out, ']');
    }
}

static void write_minute_points(Writing *w, StoreSeries series, bool counter, uint64_t from, uint64_t to)
{
    assert(w->minutes);
    size_t n = store_minutes(w->store, series, from, to, w->minutes, STORE_MINUTES);

    for (size_t i = 0; i < n; i++) {
        const StoreMinute *p = &w->minutes[i];
        const double gauge[] = {p->min, p->mean, p->max}, count[] = {p->mean, p->increase};

        json_open(w->out, NULL, '[');
        json_add_seconds(w->out, NULL, node_real_ns(w->node, p->time_ns));
        for (size_t k = 0; k < (counter ? ARRAY_LEN(count) : ARRAY_LEN(gauge)); k++)
            json_add_double(w->out, NULL, !p->valid_seconds ? NAN : counter ? count[k] : gauge[k]);
        json_add_u64(w->out, NULL, p->valid_seconds);
        json_close(w->out, ']');
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

    json_open(w->out, NULL, '{');
    json_add_text(w->out, "metric", metric->name);
    json_add_text(w->out, "unit", metric_units[metric->unit].symbol);
    json_add_text(w->out, "type", metric_types[metric->type].key);
    json_add_key(w->out, "columns");
    str_add(w->out, columns_of(w, metric));
    json_open(w->out, "points", '[');
    if (w->query->minutes)
        write_minute_points(w, series, metric->type == METRIC_COUNTER, from, to);
    else
        write_second_points(w, series, from, to);
    json_close(w->out, ']');
    json_close(w->out, '}');
}

static void write_each(void *self, StoreSeries series, const char *device, MetricId id)
{
    Writing *w = self;

    if (strcmp(device, w->device) == 0)
        write_series(w, series, id);
}

/* --- by name ------------------------------------------------------------------------------------------------------ */

/* A name that was asked for. */
typedef struct Asked {
    const char *name; /* `len` bytes */
    size_t len;
    const MetricName *found; /* NULL: no metric's */
    StoreSeries series;      /* below 0: none is kept */
} Asked;

typedef VEC(Asked) AskedList;

static void list_asked(const Writing *w, AskedList *ret)
{
    char name[128];

    for (const char *at = w->query->metrics; at && *at; at += strspn(at, ",")) {
        Asked asked = {.name = at, .len = strcspn(at, ","), .series = STORE_NOT_KEPT};

        at += asked.len;
        if (asked.len == 0 || asked.len >= sizeof name)
            name[0] = '\0';
        else
            snprintf(name, sizeof name, "%.*s", (int)asked.len, asked.name);
        asked.found = metric_find(name);
        if (asked.found)
            asked.series = store_find(w->store, w->device, asked.found->metric);
        if (asked.len)
            vec_push(ret, asked);
    }
}

/* Where nothing that was asked for is a metric, somebody meant something else. */
static bool is_any_known(const AskedList *asked)
{
    for (size_t i = 0; i < asked->len; i++)
        if (asked->at[i].found)
            return true;
    return false;
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
    *ret_text = sample->valid ? "the history has no room for more series" : absences[sample->absence].text;
    return sample->valid ? "no_room" : absences[sample->absence].key;
}

static void write_missing(const Writing *w, const Reading *reading, const Asked *asked)
{
    const char *text, *why = why_missing(reading, asked->found, &text);

    json_open(w->out, NULL, '{');
    json_add_key(w->out, "metric");
    str_addn_json(w->out, asked->name, asked->len);
    json_add_text(w->out, "why", why);
    json_add_text(w->out, "text", text);
    json_close(w->out, '}');
}

static void write_history(Writing *w, const Reading *reading, const AskedList *asked)
{
    json_open(w->out, NULL, '{');
    json_add_device(w->out, &reading->device);
    json_add_text(w->out, "resolution", w->query->minutes ? "minute" : "second");
    json_open(w->out, "series", '[');
    if (!w->query->metrics)
        store_each(w->store, write_each, w);
    for (size_t i = 0; i < asked->len; i++)
        if (asked->at[i].series >= 0)
            write_series(w, asked->at[i].series, asked->at[i].found->metric);
    json_close(w->out, ']');
    json_open(w->out, "missing", '[');
    for (size_t i = 0; i < asked->len; i++)
        if (asked->at[i].series < 0)
            write_missing(w, reading, &asked->at[i]);
    str_add(w->out, "]}\n");
}

int api_history(const Node *node, const Store *store, const Reading *reading, const HistoryQuery *query, Str *out,
                Err *err)
{
    char key[DEVICE_KEY_CAP];
    CLEANUP_FREE StoreSecond *seconds = query->minutes ? NULL : xmalloc(STORE_SECONDS * sizeof *seconds);
    CLEANUP_FREE StoreMinute *minutes = query->minutes ? xmalloc(STORE_MINUTES * sizeof *minutes) : NULL;
    Writing w = {.node = node,
                 .store = store,
                 .query = query,
                 .device = key,
                 .out = out,
                 .seconds = seconds,
                 .minutes = minutes};
    AskedList asked = {0};
    int rc = 0;

    if (device_key(&reading->device, key) < 0)
        return err_set(err, -ENOENT, "this device has no identity yet");
    list_asked(&w, &asked);
    if (query->metrics && !is_any_known(&asked))
        rc = err_set(err, -ENOENT, "there is no metric '%.100s'", query->metrics);
    else
        write_history(&w, reading, &asked);
    vec_done(&asked);
    return rc;
}
