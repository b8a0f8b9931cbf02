/* SPDX-License-Identifier: Apache-2.0 */
/* See incidents.h. */
#include "service/prometheus/incidents.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "base/cleanup.h"
#include "service/prometheus/page.h"

enum { NUMBER_TEXT_MAX = 24, OPEN_LABELS = 12 };

/* ---- counting ---- */

void incident_counts_done(IncidentCounts *counts)
{
    vec_done(&counts->at);
}

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
void incident_counts_change(IncidentCounts *counts, const Incident *incident, IncidentChange change)
{
    const bool opened = change == INCIDENT_CHANGE_OPENED || change == INCIDENT_CHANGE_REOPENED;
    IncidentCount *count;

    counts->changes[change]++;
    if (!opened && change != INCIDENT_CHANGE_CLEARED)
        return;
    count = count_of(counts, incident->class, incident->cause, incident->severity);
    if (count && opened)
        count->opened++;
    else if (count)
        count->cleared++;
}

void incident_counts_event(IncidentCounts *counts, const Event *event)
{
    counts->events[event->kind][event->origin]++;
}

void incident_counts_adopt(IncidentCounts *counts, const IncidentCounts *before)
{
    vec_clear(&counts->at);
    for (size_t i = 0; i < before->at.len; i++)
        vec_push(&counts->at, before->at.at[i]);
    memcpy(counts->events, before->events, sizeof counts->events);
    memcpy(counts->changes, before->changes, sizeof counts->changes);
}

/* Whether an incident is on this GPU, on an instance or a link of it. */
static bool incident_on_gpu(const Incident *incident, const Reading *gpu)
{
    return incident->device.kind != DEVICE_NODE && incident->device.has_pci && gpu->device.has_pci &&
           pci_compare(incident->device.pci, gpu->device.pci) == 0;
}

/* ---- labels ---- */

typedef struct Labels {
    Label at[OPEN_LABELS];
    size_t len;
    char room[4][NUMBER_TEXT_MAX + PCI_TEXT_CAP];
} Labels;

static void put_label(Labels *labels, const char *name, const char *value, LabelGroup group)
{
    if (value[0] && labels->len < OPEN_LABELS)
        labels->at[labels->len++] =
            (Label){.name = name, .value = value, .group = (uint8_t)group, .views = LABELS_ALL_VIEWS};
}

static void put_number(Labels *labels, size_t room, const char *name, uint32_t number, LabelGroup group)
{
    if (number == DEVICE_NO_NUMBER)
        return;
    snprintf(labels->room[room], sizeof labels->room[room], "%" PRIu32, number);
    put_label(labels, name, labels->room[room], group);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const Label *)a)->name, ((const Label *)b)->name);
}

static void put_hostname(const Page *page, Labels *labels)
{
    if (!page->config->no_hostname)
        put_label(labels, page->config->profile == EXPORTER_4_8_2 ? "Hostname" : "hostname", page->node->hostname,
                  LABEL_HOSTNAME);
}

static const Target *target_of(const Page *page, const Incident *incident)
{
    for (size_t i = 0; i < page->targets->gpu_count; i++)
        if (incident_on_gpu(incident, &page_gpu(page, &page->targets->gpus[i])->reading))
            return &page->targets->gpus[i];
    return NULL;
}

/* Of a thing that has no series of its own: the node, a switch, a GPU that is gone. */
static void put_device(const Page *page, const Incident *incident, Labels *labels)
{
    const Device *device = &incident->device;

    put_hostname(page, labels);
    if (device->kind == DEVICE_NODE)
        return;
    put_number(labels, 2, "gpu", device->index, LABEL_GPU);
    put_label(labels, page->config->old_namespace ? "uuid" : "UUID",
              device->uuid[0] ? device->uuid : device->parent_uuid, LABEL_UUID);
    if (device->has_pci)
        put_label(labels, "pci_bus_id", pci_format(device->pci, PCI_FORM_NVML, labels->room[3]), LABEL_BUS_ID);
}

static void put_verdict(const Incident *incident, Labels *labels)
{
    put_label(labels, "action", fault_actions[incident->action].key, LABEL_ATTRIBUTE);
    put_label(labels, "cause", fault_causes[incident->cause].key, LABEL_ATTRIBUTE);
    put_label(labels, "class", incident->class, LABEL_ATTRIBUTE);
    put_label(labels, "route", fault_routes[incident->route].key, LABEL_ATTRIBUTE);
    put_label(labels, "severity", fault_severities[incident->severity].key, LABEL_ATTRIBUTE);
    put_number(labels, 0, "GPU_I_ID", incident->device.gpu_instance, LABEL_INSTANCE);
    put_number(labels, 1, "link", incident->device.link, LABEL_ATTRIBUTE);
}

/* ---- what is open ---- */

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

/* The open incidents that have a series, the most urgent first; at most INCIDENT_SERIES_MAX. */
static size_t open_series(const Page *page, bool silenced_only, const Incident *out[INCIDENT_SERIES_MAX])
{
    const ExporterFaults *faults = page->faults;
    CLEANUP_FREE const Incident **open = calloc(faults->incident_count + 1, sizeof *open);
    size_t count = 0, kept = 0;

    for (size_t i = 0; open && i < faults->incident_count; i++)
        if (faults->incidents[i]->state == INCIDENT_OPEN)
            open[count++] = faults->incidents[i];
    if (count)
        qsort(open, count, sizeof *open, more_urgent);
    for (size_t i = 0; i < count && kept < INCIDENT_SERIES_MAX; i++) {
        bool double_one = silenced_only && !open[i]->silenced;

        for (size_t k = 0; k < kept && !double_one; k++)
            double_one = same_series(open[i], out[k]);
        if (!double_one)
            out[kept++] = open[i];
    }
    return kept;
}

static void write_open(Page *page, const Family *family, const Incident *incident)
{
    const Target *target = target_of(page, incident);
    Labels labels = {.len = 0};

    put_verdict(incident, &labels);
    if (!target)
        put_device(page, incident, &labels);
    qsort(labels.at, labels.len, sizeof labels.at[0], by_name);
    if (target)
        page_extra(page, family, target, labels.at, labels.len, 1);
    else
        page_labelled(page, family, labels.at, labels.len, 1);
}

static void incident_open(Page *page, const Family *family)
{
    const Incident *open[INCIDENT_SERIES_MAX];
    const size_t count = page->faults ? open_series(page, false, open) : 0;

    for (size_t i = 0; i < count; i++)
        write_open(page, family, open[i]);
}

static void incident_silenced(Page *page, const Family *family)
{
    const Incident *open[INCIDENT_SERIES_MAX];
    const size_t count = page->faults ? open_series(page, true, open) : 0;

    for (size_t i = 0; i < count; i++)
        write_open(page, family, open[i]);
}

static void incidents_open(Page *page, const Family *family)
{
    size_t count = 0;

    for (size_t i = 0; page->faults && i < page->faults->incident_count; i++)
        count += page->faults->incidents[i]->state == INCIDENT_OPEN;
    if (page->faults)
        page_plain(page, family, (double)count);
}

/* ---- what was counted ---- */

static void each_count(Page *page, const Family *family, bool opened)
{
    const IncidentCounts *counts = page->incident_counts;

    for (size_t i = 0; counts && i < counts->at.len; i++) {
        const IncidentCount *count = &counts->at.at[i];
        const Label labels[] = {
            {.name = "cause", .value = fault_causes[count->cause].key},
            {.name = "class", .value = count->class},
            {.name = "severity", .value = fault_severities[count->severity].key},
        };

        page_labelled(page, family, labels, ARRAY_LEN(labels), (double)(opened ? count->opened : count->cleared));
    }
}

static void opened_total(Page *page, const Family *family)
{
    each_count(page, family, true);
}

static void cleared_total(Page *page, const Family *family)
{
    each_count(page, family, false);
}

static void events_total(Page *page, const Family *family)
{
    const IncidentCounts *counts = page->incident_counts;

    for (EventKind kind = 0; counts && kind < EVENT_KIND_END; kind++)
        for (EventOrigin origin = 0; origin < EVENT_ORIGIN_END; origin++) {
            const Label labels[] = {
                {.name = "kind", .value = event_kind_key(kind)},
                {.name = "origin", .value = event_origin_key(origin)},
            };

            if (counts->events[kind][origin])
                page_labelled(page, family, labels, ARRAY_LEN(labels), (double)counts->events[kind][origin]);
        }
}

/* ---- health of each GPU ---- */

static void gpu_health(Page *page, const Family *family)
{
    for (size_t g = 0; page->faults && g < page->targets->gpu_count; g++) {
        const Target *target = &page->targets->gpus[g];
        FaultSeverity worst = SEVERITY_INFO;

        for (size_t i = 0; i < page->faults->incident_count; i++) {
            const Incident *incident = page->faults->incidents[i];

            if (incident->state == INCIDENT_OPEN && incident->severity > worst &&
                incident_on_gpu(incident, &page_gpu(page, target)->reading))
                worst = incident->severity;
        }
        page_target(page, family, target, (double)worst);
    }
}

/* ---- maintenance ---- */

static void write_window(Page *page, const Family *family, const MaintenanceWindow *window, const char *gpu)
{
    Labels labels = {.len = 0};

    put_label(&labels, "gpu", gpu, LABEL_GPU);
    put_hostname(page, &labels);
    put_label(&labels, "id", window->id, LABEL_ATTRIBUTE);
    qsort(labels.at, labels.len, sizeof labels.at[0], by_name);
    page_labelled(page, family, labels.at, labels.len, 1);
}

static void maintenance_active(Page *page, const Family *family)
{
    const Maintenance *maintenance = page->faults ? page->faults->maintenance : NULL;

    for (size_t i = 0; maintenance && i < maintenance_count(maintenance); i++) {
        const MaintenanceWindow *window = maintenance_at(maintenance, i);

        if (!window->active)
            continue;
        if (window->gpus == 0)
            write_window(page, family, window, "all");
        for (int gpu = 0; gpu < 64; gpu++) {
            char text[NUMBER_TEXT_MAX];

            snprintf(text, sizeof text, "%d", gpu);
            if (window->gpus >> gpu & 1)
                write_window(page, family, window, text);
        }
    }
}

/* ---- logs, journal, alerts ---- */

static void log_lost(Page *page, const Family *family)
{
    if (page->faults)
        page_plain(page, family, (double)page->faults->kernel_log_lost);
}

static void journal_up(Page *page, const Family *family)
{
    const JournalState *journal = page->faults ? page->faults->journal : NULL;

    if (journal && journal->health != JOURNAL_OFF)
        page_plain(page, family, journal->health == JOURNAL_FINE);
}

static void journal_number(Page *page, const Family *family)
{
    const JournalState *journal = page->faults ? page->faults->journal : NULL;
    uint64_t number;

    if (!journal || journal->health == JOURNAL_OFF)
        return;
    memcpy(&number, (const char *)journal + family->own->at, sizeof number);
    page_plain(page, family, family->own->scale > 0 ? (double)number / family->own->scale : (double)number);
}

static void each_receiver(Page *page, const Family *family, double (*value)(const AlertsReceiverState *, size_t at))
{
    for (size_t i = 0; page->faults && i < page->faults->receiver_count; i++) {
        const AlertsReceiverState *receiver = &page->faults->receivers[i];
        const Label labels[] = {{.name = "kind", .value = receiver->kind},
                                {.name = "receiver", .value = receiver->name}};

        page_labelled(page, family, labels, ARRAY_LEN(labels), value(receiver, family->own->at));
    }
}

static double receiver_number(const AlertsReceiverState *receiver, size_t at)
{
    uint64_t number;

    memcpy(&number, (const char *)receiver + at, sizeof number);
    return (double)number;
}

static double receiver_fine(const AlertsReceiverState *receiver, size_t at)
{
    (void)at;
    return receiver->fine;
}

static double receiver_last(const AlertsReceiverState *receiver, size_t at)
{
    (void)at;
    return (double)receiver->last_ok_real_ns / (double)NS_PER_S;
}

static void alerts_number(Page *page, const Family *family)
{
    each_receiver(page, family, receiver_number);
}

static void alerts_up(Page *page, const Family *family)
{
    each_receiver(page, family, receiver_fine);
}

static void alerts_last(Page *page, const Family *family)
{
    each_receiver(page, family, receiver_last);
}

#define JOURNAL(field) .at = offsetof(JournalState, field)
#define RECEIVER(field) .at = offsetof(AlertsReceiverState, field)

const OwnFamily own_incident_families[] = {
    {"stoker_alerts_dropped_total", FAMILY_COUNTER, "Notifications given up", alerts_number, RECEIVER(dropped)},
    {"stoker_alerts_failed_total", FAMILY_COUNTER, "Tries to deliver a notification that failed", alerts_number,
     RECEIVER(failed)},
    {"stoker_alerts_last_delivery_timestamp_seconds", FAMILY_GAUGE,
     "When a receiver last took a notification, in seconds since 1970; 0: never", .write = alerts_last},
    {"stoker_alerts_queued", FAMILY_GAUGE, "Notifications on their way", alerts_number, RECEIVER(queued)},
    {"stoker_alerts_receiver_up", FAMILY_GAUGE, "Whether a receiver took what it was sent last", .write = alerts_up},
    {"stoker_alerts_sent_total", FAMILY_COUNTER, "Notifications delivered", alerts_number, RECEIVER(sent)},
    {"stoker_events_total", FAMILY_COUNTER, "Events that were noticed, by kind and by where they were seen",
     .write = events_total},
    {"stoker_gpu_health", FAMILY_GAUGE,
     "The worst open incident of the GPU: 0 none that matters, 1 warning, 2 error, 3 fatal", .write = gpu_health},
    {"stoker_incident_open", FAMILY_GAUGE, "An incident that is open; the series ends with it", .write = incident_open},
    {"stoker_incident_silenced", FAMILY_GAUGE, "An open incident of which nobody is told, as maintenance covers it",
     .write = incident_silenced},
    {"stoker_incidents_cleared_total", FAMILY_COUNTER, "Incidents that ended", .write = cleared_total},
    {"stoker_incidents_open", FAMILY_GAUGE, "Incidents that are open", .write = incidents_open},
    {"stoker_incidents_opened_total", FAMILY_COUNTER, "Incidents that were opened, those that came back included",
     .write = opened_total},
    {"stoker_journal_bytes", FAMILY_GAUGE, "Size of the journal's file", journal_number, JOURNAL(file_bytes)},
    {"stoker_journal_commit_seconds", FAMILY_GAUGE, "How long the journal's last commit took", journal_number,
     JOURNAL(last_commit_ns), .scale = 1e9},
    {"stoker_journal_commits_total", FAMILY_COUNTER, "Times the journal was written to disk", journal_number,
     JOURNAL(commits)},
    {"stoker_journal_dropped_total", FAMILY_COUNTER, "Changes the journal gave up, as too many waited for the disk",
     journal_number, JOURNAL(dropped)},
    {"stoker_journal_failures_total", FAMILY_COUNTER, "Times the disk refused what the journal wrote", journal_number,
     JOURNAL(failures)},
    {"stoker_journal_queued", FAMILY_GAUGE, "Changes that wait for the disk", journal_number, JOURNAL(queued)},
    {"stoker_journal_up", FAMILY_GAUGE, "Whether what happens is kept on disk; 0: in memory alone",
     .write = journal_up},
    {"stoker_journal_written_total", FAMILY_COUNTER, "Changes that are on disk", journal_number, JOURNAL(written)},
    {"stoker_kernel_log_lost_total", FAMILY_COUNTER, "Lines of the kernel log overwritten before they were read",
     .write = log_lost},
    {"stoker_maintenance_active", FAMILY_GAUGE, "A maintenance window that is in force, of a GPU or of all",
     .write = maintenance_active},
};
const size_t own_incident_family_count = ARRAY_LEN(own_incident_families);
