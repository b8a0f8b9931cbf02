/* SPDX-License-Identifier: Apache-2.0 */
#include "service/api/history_read.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/duration.h"
#include "base/owner.h"
#include "wire/json/tree.h"

enum { POINTS_MAX = 1 << 22 };

/* Columns of a row beside its time, by kind of series (history.c). */
enum { SECOND_VALUE = 1, MINUTE_MIN = 1, MINUTE_MEAN = 2, MINUTE_MAX = 3, COUNTER_INCREASE = 2, COUNTER_VALID = 3 };

typedef struct Before {
    bool known;
    double time, value;
} Before;

static const JsonItem *at(const JsonItem *row, size_t column)
{
    const JsonItem *one = json_first(row);

    for (; one && column > 0; column--)
        one = one->next;
    return one;
}

static float number_at(const JsonItem *row, size_t column)
{
    double value;

    return json_number(at(row, column), &value) ? (float)value : NAN;
}

static void all_three(HistoryPoint *point, double value)
{
    point->min = point->mean = point->max = (float)value;
}

/* A minute's increase is since the last minute in which the counter was read. The first one and the running one are as
 * long as they were read. */
static void read_increase(const JsonItem *row, double time, Before *before, HistoryPoint *point)
{
    double increase, seconds = 0;

    all_three(point, (double)NAN);
    if (!json_number(at(row, COUNTER_INCREASE), &increase) || !json_number(at(row, COUNTER_VALID), &seconds) ||
        seconds <= 0)
        return;
    if (before->known && row->next)
        seconds = time - before->time;
    else if (before->known)
        seconds += time - before->time - 60;
    if (seconds > 0)
        all_three(point, increase / seconds);
    *before = (Before){.known = true, .time = time};
}

static void read_minute(const JsonItem *row, double time, const Metric *metric, Before *before, HistoryPoint *point)
{
    if (metric->type == METRIC_COUNTER) {
        read_increase(row, time, before, point);
        return;
    }
    point->min = number_at(row, MINUTE_MIN);
    point->mean = number_at(row, MINUTE_MEAN);
    point->max = number_at(row, MINUTE_MAX);
}

/* Of a counter the growth since the second before that is known. */
static void read_second(const JsonItem *row, double time, const Metric *metric, Before *before, HistoryPoint *point)
{
    double now;

    all_three(point, (double)NAN);
    if (!json_number(at(row, SECOND_VALUE), &now))
        return;
    if (metric->type != METRIC_COUNTER)
        all_three(point, now);
    else if (before->known && time > before->time && now >= before->value)
        all_three(point, (now - before->value) / (time - before->time));
    *before = (Before){true, time, now};
}

static int read_series(const JsonItem *series, bool minutes, HistoryPoints *points, HistoryHead *head, Err *err)
{
    const char *name = json_text(json_member(series, "metric"));
    const JsonItem *rows = json_member(series, "points");
    const MetricName *found = name ? metric_find(name) : NULL;
    Before before = {0};

    if (!name || !json_is(rows, JSON_IS_LIST))
        return err_set(err, -EINVAL, "a series of the history has no 'metric' or no 'points'");
    if (!found)
        return 0;
    if (rows->count > POINTS_MAX - points->len)
        return err_set(err, -EINVAL, "the history has more than %d points", POINTS_MAX);
    head->series++;
    for (const JsonItem *row = rows->first; row; row = row->next) {
        double time;

        if (!json_number(json_first(row), &time) || !(time >= 0) || time > 1e10)
            return err_set(err, -EINVAL, "%s: a point of the history has no time", name);
        HistoryPoint *point = vec_add(points);
        point->metric = found->metric;
        point->real_ns = (uint64_t)llround(time * 1e3) * NS_PER_MS;
        if (minutes)
            read_minute(row, time, metric_get(found->metric), &before, point);
        else
            read_second(row, time, metric_get(found->metric), &before, point);
    }
    return 0;
}

static int read_all(const JsonItem *root, HistoryPoints *points, HistoryHead *head, Err *err)
{
    const JsonItem *list = json_member(root, "series");
    const char *resolution = json_text(json_member(root, "resolution"));

    if (!json_is(list, JSON_IS_LIST) || !resolution)
        return err_set(err, -EINVAL, "this is no JSON of a history");
    head->minutes = strcmp(resolution, "minute") == 0;
    for (const JsonItem *one = list->first; one; one = one->next)
        TRY(read_series(one, head->minutes, points, head, err));
    return 0;
}

int history_read(const char *text, size_t len, HistoryPoints *points, HistoryHead *ret, Err *err)
{
    CLEANUP(arena_done) Arena arena = {0};
    const JsonItem *root = NULL;
    const size_t before = points->len;
    HistoryHead head = {0};

    TRY(json_tree_read(text, len, &arena, &root, err));
    const int rc = read_all(root, points, &head, err);
    if (rc < 0)
        points->len = before;
    else
        *ret = head;
    return rc;
}
