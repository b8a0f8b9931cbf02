/* SPDX-License-Identifier: Apache-2.0 */
/* The /metrics page: its families, made once per configuration (the rows of the CSV, what we add to them, and our own),
 * and putting a page together. Pure but for memory, one thread. */

#include "service/prometheus/exporter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/map.h"
#include "base/number.h"
#include "base/vec.h"
#include "service/prometheus/page.h"

const char *const exporter_profile_names[] = {
    [EXPORTER_4_8_3] = "4.8.3", [EXPORTER_4_8_2] = "4.8.2", [EXPORTER_4_9] = "4.9", [EXPORTER_BOTH] = "both", NULL,
};

struct Exporter {
    ExporterConfig config;
    Counters counters;
    Arena arena;          /* of the families */
    VEC(Family) families; /* 4.8.2: in the order of the CSV; else by name */
    VEC(LabelRow) labels; /* rows of the CSV that are labels */
    ScrapeFamilies scrape;
    Targets targets;
    Counts counts;
    IncidentCounts incident_counts;
    CountKeep keep;
    bool resumed;
    uint64_t fresh_ns[METRIC_PACE_END];
    bool has_links; /* a family is about links */
};

/* ---- families ---- */

/* One making of the list. */
typedef struct Maker {
    Exporter *exporter;
    Map names; /* of families; every value is the map itself */
} Maker;

/* NULL where a family of this name is there already. */
static Family *add_family(Maker *maker, const char *name, CounterType type, const char *help)
{
    Exporter *exporter = maker->exporter;

    if (map_put(&maker->names, name, &maker->names))
        return NULL;
    vec_push(&exporter->families, family_make(name, type, help, &exporter->arena));
    return &exporter->families.at[exporter->families.len - 1];
}

static void add_metric(Maker *maker, MetricName name, CounterType type, const char *help, LabelView view)
{
    Family *family = add_family(maker, name.text, type, help);

    if (!family)
        return;
    family->metric = name;
    family->from_metric = true;
    family->view = view;
    family->write = series_writer(name.metric);
    maker->exporter->has_links |= metric_get(name.metric)->scope == METRIC_SCOPE_LINK;
    family->fixed = maker->exporter->config.profile == EXPORTER_4_8_2 && view != LABELS_OWN;
}

static CounterType measured_type(const Metric *metric)
{
    return metric->type == METRIC_COUNTER ? COUNTER_COUNTER : COUNTER_GAUGE;
}

static void add_row(Maker *maker, const CounterRow *row)
{
    const ExporterProfile profile = maker->exporter->config.profile;
    const Metric *metric = metric_get(row->name.metric);
    /* what was written as an alias or as a newer name already stays so */
    const MetricName newer =
        row->name.naming == METRIC_NAME_CLASSIC ? metric_name(row->name.metric, METRIC_NAME_NEWER) : row->name;
    const bool renamed = strcmp(newer.text, row->name.text) != 0;
    CounterType type = row->type;

    if (type == COUNTER_LABEL) {
        vec_push(&maker->exporter->labels,
                 ((LabelRow){.metric = row->name.metric, .name = row->name.text, .newer_name = newer.text}));
        return;
    }
    /* 4.8.3 corrected the types of its own rows */
    if (!row->line && profile != EXPORTER_4_8_2)
        type = measured_type(metric);
    if (profile != EXPORTER_4_9)
        add_metric(maker, row->name, type, row->help, LABELS_CLASSIC);
    if (profile == EXPORTER_4_9 || (profile == EXPORTER_BOTH && renamed))
        add_metric(maker, newer, type, renamed ? metric->help : row->help, LABELS_NEWER);
}

/* What 4.9 has among its default rows and 4.8 has not. */
static void add_new_defaults(Maker *maker)
{
    const ExporterProfile profile = maker->exporter->config.profile;

    if (profile == EXPORTER_4_9 || profile == EXPORTER_BOTH)
        add_metric(maker, metric_name(METRIC_FB_TOTAL, METRIC_NAME_NEWER), COUNTER_GAUGE,
                   metric_get(METRIC_FB_TOTAL)->help, LABELS_NEWER);
}

static const struct {
    MetricId id;
    const char *name;
} own_metrics[] = {
#define OWN_METRIC(id, name) {METRIC_##id, name},
#include "service/prometheus/own_metric.def"
#undef OWN_METRIC
};

/* Metrics of the catalogue that are ours and on, and others that are exported under names of our own. */
static void add_own_metrics(Maker *maker)
{
    for (size_t i = 0; i < ARRAY_LEN(own_metrics); i++) {
        const Metric *metric = metric_get(own_metrics[i].id);
        const MetricName name = {.metric = metric->id,
                                 .naming = METRIC_NAME_ALIAS,
                                 .text = own_metrics[i].name,
                                 .unit = metric->unit,
                                 .factor = metric_units[metric->unit].factor};

        add_metric(maker, name, measured_type(metric), metric->help, LABELS_OWN);
    }
    for (MetricId id = 0; id < METRIC_END; id++) {
        const Metric *metric = metric_get(id);

        if (metric->on && strncmp(metric->name, "stoker_", 7) == 0)
            add_metric(maker, metric_name(id, METRIC_NAME_CLASSIC), measured_type(metric), metric->help, LABELS_OWN);
    }
}

static void write_each_gpu(Page *page, const Family *family)
{
    for (size_t i = 0; i < page->targets->gpu_count; i++) {
        const Target *target = &page->targets->gpus[i];

        family->own->write_gpu(page, family, target, page_gpu(page, target));
    }
}

static void add_own(Maker *maker, const OwnFamily *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        Family *family = add_family(maker, list[i].name, list[i].type, list[i].help);

        if (!family)
            continue;
        family->own = &list[i];
        family->write = list[i].write_gpu ? write_each_gpu : list[i].write;
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const Family *)a)->name, ((const Family *)b)->name);
}

static void make_families(Exporter *exporter)
{
    Maker maker = {.exporter = exporter};
    bool built_in = false;

    map_init(&maker.names);
    for (size_t i = 0; i < exporter->counters.rows.len; i++) {
        add_row(&maker, &exporter->counters.rows.at[i]);
        built_in |= !exporter->counters.rows.at[i].line;
    }
    if (built_in)
        add_new_defaults(&maker);
    add_own_metrics(&maker);
    add_own(&maker, own_families, own_family_count);
    add_own(&maker, own_incident_families, own_incident_family_count);
    if (exporter->config.owners_max > 0)
        add_own(&maker, own_owner_families, own_owner_family_count);
    if (exporter->config.mig_totals)
        add_own(&maker, own_total_families, own_total_family_count);
    if (labels_sorted(exporter->config.profile))
        vec_sort(&exporter->families, by_name);
    map_done(&maker.names);
}

/* ---- the exporter ---- */

Exporter *exporter_new(const ExporterConfig *config, Counters *counters, Exporter *before)
{
    Exporter *exporter = xcalloc(1, sizeof *exporter);

    exporter->config = *config;
    exporter->counters = *counters;
    counters_init(counters);
    for (MetricPace pace = 0; pace < METRIC_PACE_END; pace++)
        exporter->fresh_ns[pace] = reading_fresh_ns(pace, config->period_ns[pace]);
    make_families(exporter);
    scrape_make(&exporter->scrape);
    if (before) {
        exporter->counts = before->counts;
        exporter->incident_counts = before->incident_counts;
        exporter->keep = before->keep;
        exporter->resumed = before->resumed;
        before->counts = (Counts){0};
        before->incident_counts = (IncidentCounts){0};
        exporter_free(before);
    }
    counts_set_windows(&exporter->counts, config->xid_window_ns, config->clock_events_window_ns);
    return exporter;
}

void exporter_free(Exporter *exporter)
{
    if (!exporter)
        return;
    vec_done(&exporter->incident_counts.at);
    counts_done(&exporter->counts);
    arena_done(&exporter->targets.arena);
    arena_done(&exporter->scrape.arena);
    arena_done(&exporter->arena);
    vec_done(&exporter->families);
    vec_done(&exporter->labels);
    counters_done(&exporter->counters);
    free(exporter);
}

void exporter_wanted(const Exporter *exporter, uint64_t wanted[METRIC_SET_WORDS])
{
    memset(wanted, 0, METRIC_SET_WORDS * sizeof *wanted);
    for (size_t i = 0; i < exporter->families.len; i++)
        if (exporter->families.at[i].from_metric)
            series_want(exporter->families.at[i].metric.metric, wanted);
    for (size_t i = 0; i < exporter->labels.len; i++)
        series_want(exporter->labels.at[i].metric, wanted);
    for (size_t i = 0; exporter->config.mig_totals && i < own_total_family_count; i++)
        series_want(own_total_families[i].metric, wanted);
    series_want(METRIC_XID_ERRORS, wanted);
}

void exporter_tick(Exporter *exporter, const Node *node)
{
    counts_tick(&exporter->counts, node, &exporter->keep);
}

static void restore_count(Exporter *exporter, const JournalCount *count)
{
    char key[JOURNAL_KEY_CAP], *rest = key;
    XidKept xid = {.total = count->value, .last_real_ns = count->real_ns};

    snprintf(key, sizeof key, "%s", count->key);
    const char *what = strsep(&rest, "/");
    if (!rest)
        return;
    if (strcmp(what, "opened") == 0 || strcmp(what, "cleared") == 0) {
        incident_counts_restore(&exporter->incident_counts, what[0] == 'o', rest, count->value);
        return;
    }
    const char *of = strsep(&rest, "/");
    const int kind = word_find(event_kinds, EVENT_KIND_END, of);
    const int origin = rest ? word_find(event_origins, EVENT_ORIGIN_END, rest) : -1;
    if (strcmp(what, "event") == 0 && kind >= 0 && origin >= 0)
        exporter->incident_counts.events[kind][origin] = count->value;
    else if (strcmp(what, "xid") == 0 && rest && number_parse_u64(rest, 1, INT32_MAX, &xid.xid, NULL) == 0) {
        snprintf(xid.uuid, sizeof xid.uuid, "%s", of);
        counts_restore_xid(&exporter->counts, &xid);
    }
}

void exporter_restore(Exporter *exporter, const JournalCount *counts, size_t count, bool resumed, const CountKeep *keep)
{
    exporter->keep = *keep;
    exporter->resumed = resumed;
    for (size_t i = 0; i < count; i++)
        restore_count(exporter, &counts[i]);
}

void exporter_event(Exporter *exporter, const Event *event)
{
    uint64_t *total = &exporter->incident_counts.events[event->kind][event->origin];

    if (event->before && !exporter->resumed)
        return;
    count_keep(&exporter->keep, ++*total, "event/%s/%s", event_kinds[event->kind].key,
               event_origins[event->origin].key);
    if (event->kind == EVENT_XID)
        counts_add_xid(&exporter->counts, event, &exporter->keep);
}

void exporter_incident(Exporter *exporter, const Incident *incident, IncidentChange change)
{
    incident_counts_change(&exporter->incident_counts, incident, change, &exporter->keep);
}

static Page begin_page(const Exporter *exporter, const ExporterInput *input, const Node *node, ExporterFormat format,
                       Str *out)
{
    return (Page){
        .config = &exporter->config,
        .input = input,
        .node = node,
        .targets = &exporter->targets,
        .families = exporter->families.at,
        .family_count = exporter->families.len,
        .counts = &exporter->counts,
        .incident_counts = &exporter->incident_counts,
        .fresh_ns = exporter->fresh_ns,
        .format = format,
        .out = out,
    };
}

void exporter_page(Exporter *exporter, const ExporterInput *input, ExporterFormat format, Str *out)
{
    const LabelInput labels = {
        .config = &exporter->config,
        .rows = exporter->labels.at,
        .row_count = exporter->labels.len,
        .allocations = input->snapshot->allocations,
        .jobs = input->jobs,
        .job_count = input->job_count,
        .links = exporter->has_links,
    };
    Page page = begin_page(exporter, input, input->snapshot->node, format, out);

    incident_counts_expect(&exporter->incident_counts, input->catalogue);
    targets_update(&exporter->targets, page.node, &labels);
    for (size_t i = 0; i < exporter->families.len; i++)
        exporter->families.at[i].write(&page, &exporter->families.at[i]);
}

/* The targets are those of the last page: a GPU that has come since waits for the next one. */
void exporter_window(Exporter *exporter, const Node *node, const WindowGpu *windows, size_t count, uint64_t span_ns,
                     ExporterFormat format, Str *out)
{
    Page page = begin_page(exporter, NULL, node, format, out);

    if (exporter->targets.node_gpus == node->gpu_count)
        scrape_write(&page, &exporter->scrape, windows, count, span_ns);
    if (format == EXPORTER_OPENMETRICS)
        str_add(out, "# EOF\n");
}
