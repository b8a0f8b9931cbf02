/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The catalogue's table and its two indexes, by text and by DCGM id: sorted once, then only read. Any thread.
 */

#include "model/metric.h"

#include <assert.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* the columns of metric.def */
#define METRIC_TYPE_GAUGE METRIC_GAUGE, .csv_type = METRIC_GAUGE
#define METRIC_TYPE_COUNTER METRIC_COUNTER, .csv_type = METRIC_COUNTER
#define METRIC_TYPE_LABEL METRIC_LABEL, .csv_type = METRIC_LABEL
#define METRIC_TYPE_GAUGE_WAS_COUNTER METRIC_GAUGE, .csv_type = METRIC_COUNTER
#define METRIC_FLAG_ON true
#define METRIC_FLAG_OFF false
#define METRIC_FLAG_KEEP true
#define METRIC_FLAG_DROP false

#define CALL(name) .kind = METRIC_FROM_CALL, .function = (name)
#define EVENT(name) .kind = METRIC_FROM_EVENT, .function = (name)
#define FIELD(number) .kind = METRIC_FROM_FIELD, .id = (number)
#define FIELD_OF(number, of) .kind = METRIC_FROM_FIELD, .id = (number), .scope = (of)
#define FIELD_PAIR(one, two, of) .kind = METRIC_FROM_FIELD, .id = (one), .second_id = (two), .scope = (of)
#define GPM(number) .kind = METRIC_FROM_GPM, .id = (number)
#define DERIVED .kind = METRIC_FROM_DERIVED

#define UNCHANGED .text = NULL
#define SAME(name) .text = (name)
#define BASE(name, number, base_unit, by) .text = (name), .dcgm_id = (number), .unit = UNIT_##base_unit, .factor = (by)

static const Metric metrics[] = {
#define METRIC(row, dcgm, text, kind, in_unit, value_kind, of, from, how_often, default_on, keep, newer_name,          \
               help_text)                                                                                              \
    [METRIC_##row] = {                                                                                                 \
        .id = METRIC_##row,                                                                                            \
        .name = text,                                                                                                  \
        .dcgm_id = dcgm,                                                                                               \
        .type = METRIC_TYPE_##kind,                                                                                    \
        .unit = UNIT_##in_unit,                                                                                        \
        .value = METRIC_##value_kind,                                                                                  \
        .scope = METRIC_SCOPE_##of,                                                                                    \
        .source = {from},                                                                                              \
        .pace = METRIC_PACE_##how_often,                                                                               \
        .on = METRIC_FLAG_##default_on,                                                                                \
        .history = METRIC_FLAG_##keep,                                                                                 \
        .newer = {newer_name},                                                                                         \
        .help = help_text,                                                                                             \
    },
#include "model/metric.def"
#undef METRIC
};

static const struct {
    MetricId metric;
    const char *text;
} aliases[] = {
#define METRIC_ALIAS(of, name) {.metric = METRIC_##of, .text = name},
#include "model/metric_alias.def"
#undef METRIC_ALIAS
};

enum { ALIAS_COUNT = sizeof aliases / sizeof aliases[0], NAMES_MAX = 2 * METRIC_END + ALIAS_COUNT };

/* Written by build_index alone. */
static MetricName by_text[NAMES_MAX];
static size_t by_text_count;
static pthread_once_t index_once = PTHREAD_ONCE_INIT;

static int compare_texts(const void *a, const void *b)
{
    return strcmp(((const MetricName *)a)->text, ((const MetricName *)b)->text);
}

static void add_to_index(MetricName name)
{
    by_text[by_text_count++] = name;
}

static void build_index(void)
{
    for (size_t i = 0; i < METRIC_END; i++) {
        const Metric *metric = &metrics[i];

        add_to_index(metric_name(metric->id, METRIC_NAME_CLASSIC));
        if (metric->newer.text)
            add_to_index(metric_name(metric->id, METRIC_NAME_NEWER));
    }
    for (size_t i = 0; i < ALIAS_COUNT; i++) {
        MetricName name = metric_name(aliases[i].metric, METRIC_NAME_CLASSIC);

        name.naming = METRIC_NAME_ALIAS;
        name.text = aliases[i].text;
        add_to_index(name);
    }
    qsort(by_text, by_text_count, sizeof by_text[0], compare_texts);
}

const Metric *metric_get(MetricId id)
{
    assert(id < METRIC_END);
    return &metrics[id];
}

MetricName metric_name(MetricId id, MetricNaming naming)
{
    const Metric *metric = metric_get(id);
    MetricName name = {.metric = id,
                       .naming = naming,
                       .text = metric->name,
                       .dcgm_id = metric->dcgm_id,
                       .unit = metric->unit,
                       .factor = 1};

    assert(naming != METRIC_NAME_ALIAS);
    if (naming == METRIC_NAME_CLASSIC || !metric->newer.text)
        return name;
    name.text = metric->newer.text;
    if (metric->newer.dcgm_id != 0)
        name.dcgm_id = metric->newer.dcgm_id;
    if (metric->newer.factor != 0) {
        name.unit = metric->newer.unit;
        name.factor = metric->newer.factor;
    }
    return name;
}

const MetricName *metric_find(const char *text)
{
    MetricName key = {.text = text};

    pthread_once(&index_once, build_index);
    return bsearch(&key, by_text, by_text_count, sizeof by_text[0], compare_texts);
}

int metric_fast_index(MetricId id)
{
    int index = 0;

    if (metric_get(id)->pace != METRIC_PACE_FAST)
        return -1;
    for (MetricId m = 0; m < id; m++)
        index += metrics[m].pace == METRIC_PACE_FAST;
    return index;
}

MetricId metric_fast_at(int index)
{
    for (MetricId m = 0; m < METRIC_END; m++)
        if (metrics[m].pace == METRIC_PACE_FAST && index-- == 0)
            return m;
    return METRIC_END;
}

const struct UnitRow metric_units[] = {
#define UNIT(id, ...) [UNIT_##id] = {__VA_ARGS__},
#include "model/unit.def"
#undef UNIT
};
