/* SPDX-License-Identifier: Apache-2.0 */
/* The /metrics page: what is kept between pages, and putting one together. Pure but for memory, one thread. */

#include "service/prometheus/exporter.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "service/prometheus/families.h"
#include "service/prometheus/page.h"

const char *const exporter_profile_names[] = {
    [EXPORTER_4_8_3] = "4.8.3", [EXPORTER_4_8_2] = "4.8.2", [EXPORTER_4_9] = "4.9", [EXPORTER_BOTH] = "both", NULL,
};

struct Exporter {
    ExporterConfig config;
    Counters counters;
    Families families;
    ScrapeFamilies scrape;
    Targets targets;
    Counts counts;
    IncidentCounts incident_counts;
    ExporterFaults faults;
    bool judged;
    uint64_t fresh_ns[METRIC_PACE_END];
};

Exporter *exporter_new(const ExporterConfig *config, Counters *counters)
{
    Exporter *exporter = xcalloc(1, sizeof *exporter);

    exporter->config = *config;
    exporter->counters = *counters;
    counters_init(counters);
    for (MetricPace pace = 0; pace < METRIC_PACE_END; pace++)
        exporter->fresh_ns[pace] = reading_fresh_ns(pace, config->period_ns[pace]);
    families_make(&exporter->families, &exporter->config, &exporter->counters);
    scrape_make(&exporter->scrape);
    targets_init(&exporter->targets);
    counts_init(&exporter->counts, config->xid_window_ns, config->clock_events_window_ns);
    return exporter;
}

void exporter_free(Exporter *exporter)
{
    if (!exporter)
        return;
    incident_counts_done(&exporter->incident_counts);
    counts_done(&exporter->counts);
    targets_done(&exporter->targets);
    scrape_done(&exporter->scrape);
    families_done(&exporter->families);
    counters_done(&exporter->counters);
    free(exporter);
}

void exporter_wanted(const Exporter *exporter, uint64_t wanted[(METRIC_END + 63) / 64])
{
    const Families *families = &exporter->families;

    memset(wanted, 0, (METRIC_END + 63) / 64 * sizeof *wanted);
    for (size_t i = 0; i < families->len; i++)
        if (families->at[i].from_metric)
            series_want(families->at[i].metric.metric, wanted);
    for (size_t i = 0; i < families->label_row_count; i++)
        series_want(families->label_rows[i].metric, wanted);
    for (size_t i = 0; exporter->config.mig_totals && i < own_total_family_count; i++)
        series_want(own_total_families[i].metric, wanted);
    series_want(METRIC_XID_ERRORS, wanted);
}

void exporter_tick(Exporter *exporter, const Node *node)
{
    counts_tick(&exporter->counts, node);
}

void exporter_adopt(Exporter *exporter, const Exporter *before)
{
    if (!before)
        return;
    counts_adopt(&exporter->counts, &before->counts);
    incident_counts_adopt(&exporter->incident_counts, &before->incident_counts);
}

void exporter_event(Exporter *exporter, const Event *event)
{
    if (event->before)
        return;
    incident_counts_event(&exporter->incident_counts, event);
    if (event->kind == EVENT_XID)
        counts_add_xid(&exporter->counts, event);
}

void exporter_incident(Exporter *exporter, const Incident *incident, IncidentChange change)
{
    incident_counts_change(&exporter->incident_counts, incident, change);
}

void exporter_faults(Exporter *exporter, const ExporterFaults *faults)
{
    exporter->judged = faults != NULL;
    if (faults)
        exporter->faults = *faults;
}

static Page page_begin(const Exporter *exporter, const Node *node, const ExporterSelf *self, ExporterFormat format,
                       Str *out)
{
    return (Page){
        .config = &exporter->config,
        .node = node,
        .self = self,
        .targets = &exporter->targets,
        .families = &exporter->families,
        .counts = &exporter->counts,
        .incident_counts = &exporter->incident_counts,
        .faults = exporter->judged ? &exporter->faults : NULL,
        .fresh_ns = exporter->fresh_ns,
        .format = format,
        .out = out,
    };
}

void exporter_page(Exporter *exporter, const Node *node, const OwnerTable *owners, const ExporterJob *jobs,
                   size_t job_count, const ExporterSelf *self, ExporterFormat format, Str *out)
{
    const LabelInput input = {
        .config = &exporter->config,
        .rows = exporter->families.label_rows,
        .row_count = exporter->families.label_row_count,
        .owners = owners,
        .jobs = jobs,
        .job_count = job_count,
    };
    Page page = page_begin(exporter, node, self, format, out);

    targets_update(&exporter->targets, node, &input);
    for (size_t i = 0; i < exporter->families.len; i++)
        exporter->families.at[i].write(&page, &exporter->families.at[i]);
}

/* The targets are those of the last page: a GPU that has come since waits for the next one. */
void exporter_window(Exporter *exporter, const Node *node, const WindowGpu *windows, size_t count, uint64_t span_ns,
                     ExporterFormat format, Str *out)
{
    Page page = page_begin(exporter, node, NULL, format, out);

    if (exporter->targets.node_gpus == node->gpu_count)
        scrape_write(&page, &exporter->scrape, windows, count, span_ns);
    if (format == EXPORTER_OPENMETRICS)
        str_add(out, "# EOF\n");
}
