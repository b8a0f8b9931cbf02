/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Incidents, events, maintenance, journal and alerts on the page. What is open is taken from the incidents themselves,
 * so that a series is there while its incident is and no longer; what is counted is counted here. Memory and
 * cardinality are bounded: INCIDENT_SERIES_MAX open ones are shown, the most urgent first, INCIDENT_COUNTS_MAX
 * combinations are counted. Pure but for memory, one thread.
 */
#include "service/prometheus/page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "engine/health/maintenance.h"

/* ---- counting ---- */

static IncidentCount *count_of(IncidentCounts *counts, const char *class, FaultCause cause, FaultSeverity severity)
{
    for (size_t i = 0; i < counts->at.len; i++) {
        IncidentCount *count = &counts->at.at[i];

        if (count->cause == cause && count->severity == severity && strcmp(count->class, class) == 0)
            return count;
    }
    if (counts->at.len == INCIDENT_COUNTS_MAX)
        return NULL;
    IncidentCount *count = vec_add(&counts->at);
    snprintf(count->class, sizeof count->class, "%s", class);
    count->cause = cause;
    count->severity = severity;
    return count;
}

/* One that comes back was opened once more. */
void incident_counts_change(IncidentCounts *counts, const Incident *incident, IncidentChange change,
                            const CountKeep *keep)
{
    const bool opened = change == INCIDENT_CHANGE_OPENED || change == INCIDENT_CHANGE_REOPENED;
    IncidentCount *count;

    if (!opened && change != INCIDENT_CHANGE_CLEARED)
        return;
    count = count_of(counts, incident->class, incident->cause, incident->severity);
    if (!count)
        return;
    *(opened ? &count->opened : &count->cleared) += 1;
    count_keep(keep, opened ? count->opened : count->cleared, "%s/%s/%s/%s", opened ? "opened" : "cleared",
               fault_causes[count->cause].key, fault_severities[count->severity].key, count->class);
}

void incident_counts_restore(IncidentCounts *counts, bool opened, char *rest, uint64_t value)
{
    const char *cause_key = strsep(&rest, "/"), *severity_key = rest ? strsep(&rest, "/") : "";
    const int cause = word_find(fault_causes, CAUSE_END, cause_key);
    const int severity = word_find(fault_severities, SEVERITY_END, severity_key);
    IncidentCount *count =
        rest && cause >= 0 && severity >= 0 ? count_of(counts, rest, (FaultCause)cause, (FaultSeverity)severity) : NULL;

    if (count)
        *(opened ? &count->opened : &count->cleared) = value;
}

void incident_counts_expect(IncidentCounts *counts, const Catalogue *catalogue)
{
    if (!catalogue || counts->expected == catalogue)
        return;
    counts->expected = catalogue;
    for (size_t i = 0; i < catalogue->rule_count; i++) {
        const FaultRule *rule = &catalogue->rules[i];

        if (rule->enabled && rule->fault && rule->fault->enabled)
            (void)count_of(counts, rule->fault->id, rule->cause, rule->severity);
    }
}

/* Whether an incident is on this GPU, on an instance or a link of it. */
static bool incident_on_gpu(const Incident *incident, const Reading *gpu)
{
    return incident->device.kind != DEVICE_NODE && incident->device.has_pci && gpu->device.has_pci &&
           pci_compare(incident->device.pci, gpu->device.pci) == 0;
}

/* ---- what is open ---- */

static void add_hostname(const Page *page, Line *line)
{
    if (!page->config->no_hostname)
        line_add(line, page->config->profile == EXPORTER_4_8_2 ? "Hostname" : "hostname", page->node->hostname);
}

/* A thing that has no series of its own: the node, a switch, a GPU that is gone. */
static void add_device(const Page *page, const Device *device, Line *line, char pci[PCI_TEXT_CAP])
{
    add_hostname(page, line);
    if (device->kind == DEVICE_NODE)
        return;
    if (device->index != DEVICE_NO_NUMBER)
        line_add_number(line, "gpu", device->index);
    line_add(line, page->config->old_namespace ? "uuid" : "UUID", device->uuid[0] ? device->uuid : device->parent_uuid);
    if (device->has_pci)
        line_add(line, "pci_bus_id", pci_format(device->pci, PCI_FORM_NVML, pci));
}

static const Target *target_of(const Page *page, const Incident *incident)
{
    for (size_t i = 0; i < page->targets->gpu_count; i++)
        if (incident_on_gpu(incident, &page_gpu(page, &page->targets->gpus[i])->reading))
            return &page->targets->gpus[i];
    return NULL;
}

static void write_incident(Page *page, const Family *family, const Incident *incident)
{
    const Target *target = target_of(page, incident);
    const Device *device = &incident->device;
    char pci[PCI_TEXT_CAP];
    Line line = {.len = 0};

    if (device->gpu_instance != DEVICE_NO_NUMBER) {
        line_add_number(&line, "GPU_I_ID", device->gpu_instance);
        line.at[0].group = LABEL_INSTANCE; /* its place in 4.8.2's order */
    }
    line_add(&line, "action", fault_actions[incident->action].key);
    line_add(&line, "cause", fault_causes[incident->cause].key);
    line_add(&line, "class", incident->class);
    if (device->link != DEVICE_NO_NUMBER)
        line_add_number(&line, "link", device->link);
    line_add(&line, "route", fault_routes[incident->route].key);
    line_add(&line, "severity", fault_severities[incident->severity].key);
    if (!target)
        add_device(page, device, &line, pci);
    page_line(page, family, target, &line, 1);
}

/* The same labels: the same class on the same thing, as of two programs. They are one series. */
static bool same_series(const Incident *a, const Incident *b)
{
    const Device *x = &a->device, *y = &b->device;

    return strcmp(a->class, b->class) == 0 && a->cause == b->cause && a->severity == b->severity &&
           a->action == b->action && a->route == b->route && x->gpu_instance == y->gpu_instance && x->link == y->link &&
           x->index == y->index && x->has_pci == y->has_pci && pci_compare(x->pci, y->pci) == 0 &&
           strcmp(x->uuid, y->uuid) == 0 && (x->kind == DEVICE_NODE) == (y->kind == DEVICE_NODE);
}

static int more_urgent(const void *a, const void *b)
{
    const Incident *x = *(const Incident *const *)a, *y = *(const Incident *const *)b;

    if (x->severity != y->severity)
        return (int)y->severity - (int)x->severity;
    if (x->route != y->route)
        return (int)y->route - (int)x->route;
    return strcmp(x->id, y->id);
}

/* Writes the open incidents, the most urgent first; at most INCIDENT_SERIES_MAX. */
static void write_incidents(Page *page, const Family *family, bool silenced_only)
{
    const Snapshot *snapshot = page->input->snapshot;
    const size_t count = snapshot->incident_count;
    CLEANUP_FREE const Incident **open = xmalloc((count + 1) * sizeof *open);
    size_t written = 0;

    if (count)
        memcpy(open, snapshot->incidents, count * sizeof *open);
    qsort(open, count, sizeof *open, more_urgent);
    for (size_t i = 0; i < count && written < INCIDENT_SERIES_MAX; i++) {
        bool is_twin = false;

        if (silenced_only && !open[i]->silenced)
            continue;
        for (size_t k = 0; k < written && !is_twin; k++)
            is_twin = same_series(open[i], open[k]);
        if (is_twin)
            continue;
        write_incident(page, family, open[i]);
        open[written++] = open[i]; /* at most i */
    }
}

static void write_open(Page *page, const Family *family)
{
    write_incidents(page, family, false);
}

static void write_silenced(Page *page, const Family *family)
{
    write_incidents(page, family, true);
}

static void write_open_count(Page *page, const Family *family)
{
    page_value(page, family, NULL, (double)page->input->snapshot->incident_count);
}

static void write_gpu_health(Page *page, const Family *family, const Target *target, const NodeGpu *gpu)
{
    const Snapshot *snapshot = page->input->snapshot;
    FaultSeverity worst = SEVERITY_INFO;

    for (size_t i = 0; i < snapshot->incident_count; i++)
        if (snapshot->incidents[i]->severity > worst && incident_on_gpu(snapshot->incidents[i], &gpu->reading))
            worst = snapshot->incidents[i]->severity;
    page_value(page, family, target, (double)worst);
}

/* ---- what was counted ---- */

static void write_counts(Page *page, const Family *family)
{
    for (size_t i = 0; i < page->incident_counts->at.len; i++) {
        const IncidentCount *count = &page->incident_counts->at.at[i];
        Line line = {.len = 0};

        line_add(&line, "cause", fault_causes[count->cause].key);
        line_add(&line, "class", count->class);
        line_add(&line, "severity", fault_severities[count->severity].key);
        page_field(page, family, NULL, &line, count);
    }
}

/* Where events of a kind are seen, if any are. */
static bool is_expected(const Page *page, EventKind kind, EventOrigin origin)
{
    switch (kind) {
    case EVENT_REBOOT:
    case EVENT_RESET:
    case EVENT_REPLACED:
    case EVENT_MIG_LAYOUT:
    case EVENT_AGENT_START:
        return origin == EVENT_FROM_AGENT;
    case EVENT_FABRIC_LOG:
        return origin == EVENT_FROM_FABRIC_LOG;
    case EVENT_XID:
        return origin == EVENT_FROM_NVML || origin == page->input->self.log_origin;
    default:
        return origin == page->input->self.log_origin;
    }
}

static void write_events(Page *page, const Family *family)
{
    for (EventKind kind = 0; kind < EVENT_KIND_END; kind++)
        for (EventOrigin origin = 0; origin < EVENT_ORIGIN_END; origin++) {
            Line line = {.len = 0};

            if (!page->incident_counts->events[kind][origin] && !is_expected(page, kind, origin))
                continue;
            line_add(&line, "kind", event_kinds[kind].key);
            line_add(&line, "origin", event_origins[origin].key);
            page_line(page, family, NULL, &line, (double)page->incident_counts->events[kind][origin]);
        }
}

/* ---- maintenance ---- */

static void write_window(Page *page, const Family *family, const char *id, int gpu)
{
    Line line = {.len = 0};

    if (gpu < 0)
        line_add(&line, "gpu", "all");
    else
        line_add_number(&line, "gpu", (uint64_t)gpu);
    add_hostname(page, &line);
    line_add(&line, "id", id);
    page_line(page, family, NULL, &line, 1);
}

static void write_maintenance(Page *page, const Family *family)
{
    const Maintenance *maintenance = page->input->snapshot->maintenance;

    for (size_t i = 0; maintenance && i < maintenance_count(maintenance); i++) {
        const MaintenanceWindow *window = maintenance_at(maintenance, i);

        if (window->active && window->gpus == 0)
            write_window(page, family, window->id, -1);
        for (int gpu = 0; window->active && gpu < 64; gpu++)
            if (window->gpus >> gpu & 1)
                write_window(page, family, window->id, gpu);
    }
}

/* ---- logs, journal, alerts ---- */

static void write_log_lost(Page *page, const Family *family)
{
    page_value(page, family, NULL, (double)page->input->self.kernel_log_lost);
}

static void write_journal_up(Page *page, const Family *family)
{
    if (page->input->journal)
        page_value(page, family, NULL, page->input->journal->health == JOURNAL_FINE);
}

static void write_journal(Page *page, const Family *family)
{
    if (page->input->journal)
        page_field(page, family, NULL, NULL, page->input->journal);
}

static void write_receivers(Page *page, const Family *family)
{
    for (size_t i = 0; i < page->input->receiver_count; i++) {
        const AlertsReceiverState *receiver = &page->input->receivers[i];
        Line line = {.len = 0};

        line_add(&line, "kind", receiver->kind);
        line_add(&line, "receiver", receiver->name);
        page_field(page, family, NULL, &line, receiver);
    }
}

#define COUNT(field) OWN_FIELD(IncidentCount, field)
#define JOURNAL(field) OWN_FIELD(JournalState, field)
#define RECEIVER(field) OWN_FIELD(AlertsReceiverState, field)

const OwnFamily own_incident_families[] = {
    {"stoker_alerts_dropped_total", COUNTER_COUNTER, "Notifications given up", write_receivers, RECEIVER(dropped)},
    {"stoker_alerts_failed_total", COUNTER_COUNTER, "Tries to deliver a notification that failed", write_receivers,
     RECEIVER(failed)},
    {"stoker_alerts_last_delivery_timestamp_seconds", COUNTER_GAUGE,
     "When a receiver last took a notification, in seconds since 1970; 0: never", write_receivers,
     RECEIVER(last_ok_real_ns), .scale = 1e9},
    {"stoker_alerts_queued", COUNTER_GAUGE, "Notifications on their way", write_receivers, RECEIVER(queued)},
    {"stoker_alerts_receiver_up", COUNTER_GAUGE, "Whether a receiver took what it was sent last", write_receivers,
     RECEIVER(fine)},
    {"stoker_alerts_sent_total", COUNTER_COUNTER, "Notifications delivered", write_receivers, RECEIVER(sent)},
    {"stoker_events_total", COUNTER_COUNTER, "Events that were noticed, by kind and by where they were seen",
     .write = write_events},
    {"stoker_gpu_health", COUNTER_GAUGE,
     "The worst open incident of the GPU: 0 none that matters, 1 warning, 2 error, 3 fatal",
     .write_gpu = write_gpu_health},
    {"stoker_incident_open", COUNTER_GAUGE, "An incident that is open; the series ends with it", .write = write_open},
    {"stoker_incident_silenced", COUNTER_GAUGE, "An open incident of which nobody is told, as maintenance covers it",
     .write = write_silenced},
    {"stoker_incidents_cleared_total", COUNTER_COUNTER, "Incidents that ended", write_counts, COUNT(cleared)},
    {"stoker_incidents_open", COUNTER_GAUGE, "Incidents that are open", .write = write_open_count},
    {"stoker_incidents_opened_total", COUNTER_COUNTER, "Incidents that were opened, those that came back included",
     write_counts, COUNT(opened)},
    {"stoker_journal_bytes", COUNTER_GAUGE, "Size of the journal's file", write_journal, JOURNAL(file_bytes)},
    {"stoker_journal_commit_seconds", COUNTER_GAUGE, "How long the journal's last commit took", write_journal,
     JOURNAL(last_commit_ns), .scale = 1e9},
    {"stoker_journal_commits_total", COUNTER_COUNTER, "Times the journal was written to disk", write_journal,
     JOURNAL(commits)},
    {"stoker_journal_dropped_total", COUNTER_COUNTER, "Changes the journal gave up, as too many waited for the disk",
     write_journal, JOURNAL(dropped)},
    {"stoker_journal_failures_total", COUNTER_COUNTER, "Times the disk refused what the journal wrote", write_journal,
     JOURNAL(failures)},
    {"stoker_journal_queued", COUNTER_GAUGE, "Changes that wait for the disk", write_journal, JOURNAL(queued)},
    {"stoker_journal_up", COUNTER_GAUGE, "Whether what happens is kept on disk; 0: in memory alone",
     .write = write_journal_up},
    {"stoker_journal_written_total", COUNTER_COUNTER, "Changes that are on disk", write_journal, JOURNAL(written)},
    {"stoker_kernel_log_lost_total", COUNTER_COUNTER, "Lines of the kernel log overwritten before they were read",
     .write = write_log_lost},
    {"stoker_maintenance_active", COUNTER_GAUGE, "A maintenance window that is in force, of a GPU or of all",
     .write = write_maintenance},
};
const size_t own_incident_family_count = ARRAY_LEN(own_incident_families);
