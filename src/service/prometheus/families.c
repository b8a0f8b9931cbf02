/* SPDX-License-Identifier: Apache-2.0 */
/* Making the list of families. Pure but for memory, one thread. */

#include "service/prometheus/families.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "service/prometheus/incidents.h"
#include "service/prometheus/page.h"

/* One making of the list. */
typedef struct Maker {
    Families *families;
    const ExporterConfig *config;
    Map names; /* of families and label rows; every value is the map itself */
    size_t cap;
} Maker;

/* ---- rows ---- */

static bool claim_name(Maker *maker, const char *name)
{
    return !map_put(&maker->names, name, &maker->names);
}

static Family *add_family(Maker *maker, const char *name, FamilyType type, const char *help)
{
    Families *families = maker->families;
    Family *family;

    families->at = vec_grow(families->at, &maker->cap, families->len + 1, sizeof *families->at);
    family = &families->at[families->len++];
    *family = (Family){.name = name, .name_len = strlen(name), .type = type, .help = help};
    page_make_head(family, &families->arena);
    return family;
}

static FamilyType family_type(CounterType type)
{
    switch (type) {
    case COUNTER_GAUGE:
        return FAMILY_GAUGE;
    case COUNTER_COUNTER:
        return FAMILY_COUNTER;
    default:
        return FAMILY_UNTYPED;
    }
}

static void add_metric(Maker *maker, MetricName name, FamilyType type, const char *help, LabelView view)
{
    Family *family;

    if (!claim_name(maker, name.text))
        return;
    family = add_family(maker, name.text, type, help);
    family->metric = name;
    family->from_metric = true;
    family->view = view;
    family->write = series_writer(name.metric);
    family->fixed = maker->config->profile == EXPORTER_4_8_2 && view != LABELS_OWN;
}

/* The name under which 4.9 shows a row. What was written as an alias or as a newer name already stays so. */
static MetricName newer_name(const MetricName *name)
{
    return name->naming == METRIC_NAME_CLASSIC ? metric_name(name->metric, METRIC_NAME_NEWER) : *name;
}

static void add_label(Maker *maker, const CounterRow *row)
{
    MetricName newer = newer_name(&row->name);
    Families *families = maker->families;

    families->label_rows[families->label_row_count++] =
        (LabelRow){.metric = row->name.metric, .name = row->name.text, .newer_name = newer.text};
}

static void add_row(Maker *maker, const CounterRow *row)
{
    ExporterProfile profile = maker->config->profile;
    const Metric *metric = metric_get(row->name.metric);
    MetricName newer = newer_name(&row->name);
    FamilyType type = family_type(row->type);
    bool renamed = strcmp(newer.text, row->name.text) != 0;

    if (row->type == COUNTER_LABEL) {
        add_label(maker, row);
        return;
    }
    /* 4.8.3 corrected the types of its own rows */
    if (!row->line && profile != EXPORTER_4_8_2)
        type = metric->type == METRIC_COUNTER ? FAMILY_COUNTER : FAMILY_GAUGE;
    if (profile != EXPORTER_4_9)
        add_metric(maker, row->name, type, row->help, LABELS_CLASSIC);
    if (profile == EXPORTER_4_9 || (profile == EXPORTER_BOTH && renamed))
        add_metric(maker, newer, type, renamed ? metric->help : row->help, LABELS_NEWER);
}

/* What 4.9 has among its default rows and 4.8 has not. */
static void add_new_defaults(Maker *maker)
{
    MetricName name = metric_name(METRIC_FB_TOTAL, METRIC_NAME_NEWER);

    if (maker->config->profile == EXPORTER_4_9 || maker->config->profile == EXPORTER_BOTH)
        add_metric(maker, name, FAMILY_GAUGE, metric_get(METRIC_FB_TOTAL)->help, LABELS_NEWER);
}

/* Metrics of the catalogue that are ours and on. */
static void add_own_metrics(Maker *maker)
{
    for (MetricId id = 0; id < METRIC_END; id++) {
        const Metric *metric = metric_get(id);

        if (metric->on && strncmp(metric->name, "stoker_", 7) == 0)
            add_metric(maker, metric_name(id, METRIC_NAME_CLASSIC),
                       metric->type == METRIC_COUNTER ? FAMILY_COUNTER : FAMILY_GAUGE, metric->help, LABELS_OWN);
    }
}

static void add_own(Maker *maker, const OwnFamily *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        Family *family;

        if (!claim_name(maker, list[i].name))
            continue;
        family = add_family(maker, list[i].name, list[i].type, list[i].help);
        family->own = &list[i];
        family->write = list[i].write;
        family->view = LABELS_OWN;
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const Family *)a)->name, ((const Family *)b)->name);
}

void families_make(Families *families, const ExporterConfig *config, const Counters *counters)
{
    Maker maker = {.families = families, .config = config};
    bool built_in = false;

    memset(families, 0, sizeof *families);
    map_init(&maker.names);
    families->label_rows = arena_calloc(&families->arena, counters->len + 1, sizeof *families->label_rows);
    for (size_t i = 0; i < counters->len; i++) {
        add_row(&maker, &counters->rows[i]);
        built_in |= !counters->rows[i].line;
    }
    if (built_in)
        add_new_defaults(&maker);
    add_own_metrics(&maker);
    add_own(&maker, own_node_families, own_node_family_count);
    add_own(&maker, own_gpu_families, own_gpu_family_count);
    add_own(&maker, own_incident_families, own_incident_family_count);
    if (config->mig_totals)
        add_own(&maker, own_total_families, own_total_family_count);
    if (labels_sorted(config->profile))
        qsort(families->at, families->len, sizeof *families->at, by_name);
    map_done(&maker.names);
}

void families_done(Families *families)
{
    arena_done(&families->arena);
    free(families->at);
    memset(families, 0, sizeof *families);
}
