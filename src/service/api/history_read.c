/* SPDX-License-Identifier: Apache-2.0 */
#include "service/api/snapshot_read.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/duration.h"
#include "base/cleanup.h"

CLEANUP_POINTER(json_t, json_decref);

enum { POINTS_MAX = 1 << 22 };

/* Columns of a row beside its time (history.c). */
enum { SECOND_VALUE = 1, MINUTE_MIN = 1, MINUTE_MEAN = 2, MINUTE_MAX = 3 };

static float number_at(const json_t *row, size_t column)
{
    const json_t *value = json_array_get(row, column);

    return json_is_number(value) ? (float)json_number_value(value) : NAN;
}

static void read_point(const json_t *row, bool minutes, HistoryPoint *point)
{
    if (minutes) {
        point->min = number_at(row, MINUTE_MIN);
        point->mean = number_at(row, MINUTE_MEAN);
        point->max = number_at(row, MINUTE_MAX);
    } else {
        point->min = point->mean = point->max = number_at(row, SECOND_VALUE);
    }
}

static int read_series(const json_t *series, bool minutes, HistoryPoints *points, Err *err)
{
    const char *name = json_string_value(json_object_get(series, "metric"));
    const json_t *rows = json_object_get(series, "points");
    const MetricName *found = name ? metric_find(name) : NULL;

    if (!name || !json_is_array(rows))
        return err_set(err, -EINVAL, "a series of the history has no 'metric' or no 'points'");
    if (!found || metric_get(found->metric)->type == METRIC_COUNTER)
        return 0;
    if (json_array_size(rows) > POINTS_MAX - points->len)
        return err_set(err, -EINVAL, "the history has more than %d points", POINTS_MAX);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const json_t *time = json_array_get(row, 0);
        const double seconds = json_is_number(time) ? json_number_value(time) : -1;

        if (!(seconds >= 0) || seconds > 1e10)
            return err_set(err, -EINVAL, "%s: a point of the history has no time", name);
        HistoryPoint *point = vec_add(points);
        point->metric = found->metric;
        point->real_ns = (uint64_t)llround(seconds * 1e3) * NS_PER_MS;
        read_point(row, minutes, point);
    }
    return 0;
}

static int read_all(const json_t *root, HistoryPoints *points, Err *err)
{
    const json_t *list = json_object_get(root, "series");
    const char *resolution = json_string_value(json_object_get(root, "resolution"));

    if (!json_is_array(list) || !resolution)
        return err_set(err, -EINVAL, "this is no JSON of a history");
    for (size_t i = 0; i < json_array_size(list); i++)
        TRY(read_series(json_array_get(list, i), strcmp(resolution, "minute") == 0, points, err));
    return 0;
}

int history_read(const char *text, size_t len, HistoryPoints *points, Err *err)
{
    json_error_t error;
    CLEANUP(json_decref_at) json_t *root = json_loadb(text, len, 0, &error);
    const size_t before = points->len;

    if (!root)
        return err_set(err, -EINVAL, "byte %d of the JSON: %s", error.position, error.text);
    const int rc = read_all(root, points, err);
    if (rc < 0)
        points->len = before;
    return rc;
}
