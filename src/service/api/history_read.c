/* SPDX-License-Identifier: Apache-2.0 */
#include "service/api/history_read.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/duration.h"
#include "base/owner.h"

OWNER_POINTER(json_t, json_decref);

enum { POINTS_MAX = 1 << 22 };

/* Columns of a row beside its time, by kind of series (history.c). */
enum { SECOND_VALUE = 1, MINUTE_MIN = 1, MINUTE_MEAN = 2, MINUTE_MAX = 3, COUNTER_INCREASE = 2, COUNTER_VALID = 3 };

typedef struct Before {
    bool known;
    double time, value;
} Before;

static bool read_number(const json_t *row, size_t column, double *ret)
{
    const json_t *value = json_array_get(row, column);

    if (!json_is_number(value))
        return false;
    *ret = json_number_value(value);
    return true;
}

static float number_at(const json_t *row, size_t column)
{
    double value;

    return read_number(row, column, &value) ? (float)value : NAN;
}

static void all_three(HistoryPoint *point, double value)
{
    point->min = point->mean = point->max = (float)value;
}

/* A minute's increase is since the last minute in which the counter was read. The first one and the running one are as
 * long as they were read. */
static void read_increase(const json_t *row, double time, bool last, Before *before, HistoryPoint *point)
{
    double increase, seconds = 0;

    all_three(point, (double)NAN);
    if (!read_number(row, COUNTER_INCREASE, &increase) || !read_number(row, COUNTER_VALID, &seconds) || seconds <= 0)
        return;
    if (before->known && !last)
        seconds = time - before->time;
    else if (before->known)
        seconds += time - before->time - 60;
    if (seconds > 0)
        all_three(point, increase / seconds);
    *before = (Before){.known = true, .time = time};
}

static void read_minute(const json_t *row, double time, bool last, const Metric *metric, Before *before,
                        HistoryPoint *point)
{
    if (metric->type == METRIC_COUNTER) {
        read_increase(row, time, last, before, point);
        return;
    }
    point->min = number_at(row, MINUTE_MIN);
    point->mean = number_at(row, MINUTE_MEAN);
    point->max = number_at(row, MINUTE_MAX);
}

/* Of a counter the growth since the second before that is known. */
static void read_second(const json_t *row, double time, const Metric *metric, Before *before, HistoryPoint *point)
{
    double now;

    all_three(point, (double)NAN);
    if (!read_number(row, SECOND_VALUE, &now))
        return;
    if (metric->type != METRIC_COUNTER)
        all_three(point, now);
    else if (before->known && time > before->time && now >= before->value)
        all_three(point, (now - before->value) / (time - before->time));
    *before = (Before){true, time, now};
}

static int read_series(const json_t *series, bool minutes, HistoryPoints *points, HistoryHead *head, Err *err)
{
    const char *name = json_string_value(json_object_get(series, "metric"));
    const json_t *rows = json_object_get(series, "points");
    const MetricName *found = name ? metric_find(name) : NULL;
    Before before = {0};

    if (!name || !json_is_array(rows))
        return err_set(err, -EINVAL, "a series of the history has no 'metric' or no 'points'");
    if (!found)
        return 0;
    if (json_array_size(rows) > POINTS_MAX - points->len)
        return err_set(err, -EINVAL, "the history has more than %d points", POINTS_MAX);
    head->series++;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        double time;

        if (!read_number(row, 0, &time) || !(time >= 0) || time > 1e10)
            return err_set(err, -EINVAL, "%s: a point of the history has no time", name);
        HistoryPoint *point = vec_add(points);
        point->metric = found->metric;
        point->real_ns = (uint64_t)llround(time * 1e3) * NS_PER_MS;
        if (minutes)
            read_minute(row, time, i + 1 == json_array_size(rows), metric_get(found->metric), &before, point);
        else
            read_second(row, time, metric_get(found->metric), &before, point);
    }
    return 0;
}

static int read_all(const json_t *root, HistoryPoints *points, HistoryHead *head, Err *err)
{
    const json_t *list = json_object_get(root, "series");
    const char *resolution = json_string_value(json_object_get(root, "resolution"));

    if (!json_is_array(list) || !resolution)
        return err_set(err, -EINVAL, "this is no JSON of a history");
    head->minutes = strcmp(resolution, "minute") == 0;
    for (size_t i = 0; i < json_array_size(list); i++)
        TRY(read_series(json_array_get(list, i), head->minutes, points, head, err));
    return 0;
}

int history_read(const char *text, size_t len, HistoryPoints *points, HistoryHead *ret, Err *err)
{
    json_error_t error;
    CLEANUP(json_decref_at) json_t *root = json_loadb(text, len, 0, &error);
    const size_t before = points->len;
    HistoryHead head = {0};

    if (!root)
        return err_set(err, -EINVAL, "byte %d of the JSON: %s", error.position, error.text);
    const int rc = read_all(root, points, &head, err);
    if (rc < 0)
        points->len = before;
    else
        *ret = head;
    return rc;
}
