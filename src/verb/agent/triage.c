/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/agent/triage.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/duration.h"
#include "base/cleanup.h"
#include "base/number.h"
#include "service/incident/incident.h"
#include "source/pci/pci.h"
#include "source/proc/task.h"

CLEANUP_POINTER(Catalogue, catalogue_free);
CLEANUP_POINTER(Maintenance, maintenance_free);

enum { EARLY_MAX = 4096, BUNDLE_MAX = 8 << 20, BUNDLE_EVENTS = 64, GRACE_MS = 500 };

#define EARLY_NS (3 * NS_PER_S)
#define BUNDLE_AFTER_NS (60 * NS_PER_S)

static uint64_t get_now_ns(const Triage *triage)
{
    return clock_monotonic(&triage->sampling->clock);
}

static uint64_t get_real_ns(const Triage *triage)
{
    return clock_real(&triage->sampling->clock);
}

/* The machine's own clock: how long an XID waits for its line, whatever the board's clock does. */
static uint64_t get_arrival_ns(void)
{
    return clock_monotonic(clock_kernel());
}

/* --- changes ------------------------------------------------------------------------------------------------------ */

static void log_change(const Triage *triage, const Incident *incident, IncidentChange change)
{
    const bool over = change == INCIDENT_CHANGE_CLEARED;
    const LogLevel level = incident->severity >= SEVERITY_ERROR && !over ? LOG_LEVEL_ERROR : LOG_LEVEL_WARN;

    if (change == INCIDENT_CHANGE_UPDATED)
        return;
    log_write(triage->log, over ? LOG_LEVEL_INFO : level, "incident %s %s: %s%s%s", incident->id,
              incident_changes[change].key, incident->title,
              over ? "; " : "; what to do: ", over ? incident_ends[incident->end].text : incident_action(incident));
}

/* Puts the evidence as it is now into the journal. */
static void put_bundle(Triage *triage, const Incident *incident)
{
    const uint64_t from = triage->event_count > BUNDLE_EVENTS ? triage->event_count - BUNDLE_EVENTS : 0;
    CLEANUP(str_done) Str text = {0};
    CLEANUP(str_done) Str events = {0};

    str_init(&text, BUNDLE_MAX);
    str_init(&events, BUNDLE_MAX);
    triage_events_json(triage, from, &events);
    incident_bundle(incident, board_reader_node(triage->sampling->reader), triage->store, events.text, &text);
    journal_put_bundle(triage->journal, incident->id, text.text, text.len);
}

/* IncidentChanged: a change goes to the journal, and once it is there to the alerts. */
static void handle_change(void *self, const Incident *incident, IncidentChange change)
{
    Triage *triage = self;
    TriageChange waits = {.change = change, .incident = *incident};

    log_change(triage, incident, change);
    waits.ticket = journal_put_incident(triage->journal, incident);
    vec_push(&triage->changes, waits);
    if (change != INCIDENT_CHANGE_CLEARED && incident->severity >= SEVERITY_WARNING)
        remembered_put(&triage->remembered, board_reader_node(triage->sampling->reader), &incident->device,
                       get_real_ns(triage));
    if (change == INCIDENT_CHANGE_OPENED && incident->severity >= SEVERITY_WARNING) {
        TriageBundle later = {.due_ns = get_now_ns(triage) + BUNDLE_AFTER_NS};

        put_bundle(triage, incident); /* behind the incident: writing it takes longer than the alert may wait */
        memcpy(later.incident, incident->id, sizeof later.incident);
        vec_push(&triage->bundles, later);
    }
}

/* JournalAcked: changes are on disk, or cannot be for now. Either way the alerts get them. */
static void handle_ack(void *self, uint64_t ticket)
{
    Triage *triage = self;
    size_t due = 0;

    while (due < triage->changes.len && triage->changes.at[due].ticket <= ticket) {
        const TriageChange *waits = &triage->changes.at[due++];

        if (triage->alerts)
            alerts_update(triage->alerts, &waits->incident);
        if (triage->changed)
            triage->changed(triage->self, &waits->incident, waits->change);
    }
    if (due == 0)
        return;
    memmove(triage->changes.at, triage->changes.at + due, (triage->changes.len - due) * sizeof triage->changes.at[0]);
    triage->changes.len -= due;
}

/* The minute after the opening, for those whose time has come. */
static void put_late_bundles(Triage *triage, uint64_t now_ns)
{
    for (size_t i = triage->bundles.len; i-- > 0;) {
        const Incident *incident;

        if (triage->bundles.at[i].due_ns > now_ns)
            continue;
        incident = incidents_find(triage->incidents, triage->bundles.at[i].incident);
        if (incident)
            put_bundle(triage, incident);
        vec_remove(&triage->bundles, i);
    }
}

/* --- events ------------------------------------------------------------------------------------------------------- */

/* The incident of an event: one that lasted then, about its device, with its code among those it has seen. */
static const char *find_incident_of(const Triage *triage, const Event *event)
{
    for (size_t i = 0; i < incidents_count(triage->incidents); i++) {
        const Incident *incident = incidents_at(triage->incidents, i);
        const Device *device = &incident->device;

        if (event->kind == EVENT_MIG_LAYOUT || incident->state == INCIDENT_CLEARED ||
            event->time_ns < incident->first_ns || event->time_ns > incident->last_evidence_ns)
            continue;
        if (device->has_pci && event->has_pci && pci_compare(device->pci, event->pci) != 0)
            continue;
        if (event->code ? incident_has_code(incident, event->code) : event->has_pci && device->has_pci)
            return incident->id;
    }
    return "";
}

static bool is_same_position(const LogPosition *a, const LogPosition *b)
{
    return strcmp(a->boot_id, b->boot_id) == 0 && a->read == b->read && a->next == b->next &&
           a->fabric_offset == b->fabric_offset && a->fabric_inode == b->fabric_inode;
}

/* The position in the logs is saved behind the events that were read up to there. */
static void save_position(Triage *triage)
{
    KmsgState state;

    if (!triage->kmsg || !triage->ready)
        return;
    kmsg_state(triage->kmsg, &state);
    if (is_same_position(&state.position, &triage->position))
        return;
    triage->position = state.position;
    journal_put_position(triage->journal, &triage->position);
}

/* Events go to the journal once their incidents are known. */
static void assign_events(Triage *triage)
{
    if (triage->event_assigned == triage->event_count)
        return;
    while (triage->event_assigned < triage->event_count) {
        TriageEvent *kept = &triage->events[triage->event_assigned++ % TRIAGE_EVENTS];

        snprintf(kept->incident, sizeof kept->incident, "%s", find_incident_of(triage, &kept->event));
        journal_put_event(triage->journal, &kept->event, kept->incident, board_reader_node(triage->sampling->reader));
        if (triage->happened)
            triage->happened(triage->self, kept);
    }
    save_position(triage);
}

/* Keeps an event until its incident is known, and for those who ask later. */
static void keep_event(Triage *triage, const Event *event)
{
    if (triage->event_count - triage->event_assigned == TRIAGE_EVENTS)
        assign_events(triage); /* before the ring is full */
    triage->events[triage->event_count % TRIAGE_EVENTS] =
        (TriageEvent){.number = triage->event_count + 1, .event = *event};
    triage->event_count++;
}

static void add_event(Triage *triage, const Event *event)
{
    keep_event(triage, event);
    incidents_add_event(triage->incidents, event);
}

static void advance_incidents(uv_timer_t *timer);

/* XIDs of the library whose line has not come in time; the timer is set for the next one. */
static void add_late_xids(Triage *triage)
{
    uint64_t wait_ns;
    Event event;

    while (xid_merge_next(&triage->xids, get_arrival_ns(), &event))
        add_event(triage, &event);
    if (xid_merge_wait(&triage->xids, get_arrival_ns(), &wait_ns))
        uv_timer_start(&triage->timer, advance_incidents, wait_ns / NS_PER_MS + 1, 0);
}

static void advance_incidents(uv_timer_t *timer)
{
    Triage *triage = timer->data;
    const uint64_t real_ns = get_real_ns(triage);

    add_late_xids(triage);
    maintenance_advance(triage->maintenance, real_ns);
    incidents_advance(triage->incidents, get_now_ns(triage), real_ns);
    assign_events(triage);
}

void triage_advance(Triage *triage)
{
    advance_incidents(&triage->timer);
}

/* Of a GPU under test the event says so. */
static void mark_event(const Triage *triage, Event *event)
{
    if (event->has_pci && !event->before && under_test_runs(&triage->under_test, event->pci, get_now_ns(triage)))
        under_test_mark(event->text);
}

/* KmsgEvent. Lines that the loop has read together are assigned together. */
static void handle_line(void *self, const Event *line)
{
    Triage *triage = self;
    Event event = *line;

    if (!triage->ready) {
        vec_push(&triage->early, event);
        return;
    }
    mark_event(triage, &event);
    xid_merge_add(&triage->xids, &event, true, get_arrival_ns());
    keep_event(triage, &event);
    incidents_add_event(triage->incidents, &event);
    uv_timer_start(&triage->timer, advance_incidents, 0, 0);
}

/* Alerts name GPUs by index and UUID: log lines wait until those are known, for EARLY_NS at most. */
static void add_early_lines(Triage *triage, const Node *node)
{
    bool known = node->gpu_count > 0 && host_facts(triage->host)->time_ns > 0;

    if (triage->ready)
        return;
    for (size_t i = 0; i < node->gpu_count; i++)
        known &= node->gpus[i].reading.device.uuid[0] != '\0';
    if (!known && triage->early.len < EARLY_MAX && node->time_ns - triage->opened_ns < EARLY_NS)
        return;
    triage->ready = true;
    for (size_t i = 0; i < triage->early.len; i++)
        handle_line(triage, &triage->early.at[i]);
    vec_done(&triage->early);
}

static void add_library_xid(Triage *triage, const XidEvent *from)
{
    const uint64_t now = get_now_ns(triage), real = get_real_ns(triage);
    const FactsLog log = host_facts(triage->host)->log;
    Event event;

    event_init(&event, EVENT_XID, EVENT_FROM_NVML);
    event.time_ns = from->time_ns;
    event.real_ns = real - (now > from->time_ns ? now - from->time_ns : 0);
    event.has_pci = true;
    event.pci = from->gpu;
    event.gpu_instance = from->gpu_instance;
    event.compute_instance = from->compute_instance;
    event.code = (int32_t)from->xid;
    snprintf(event.text, sizeof event.text, "XID %d, reported by the driver's library", event.code);
    mark_event(triage, &event);
    if (xid_merge_add(&triage->xids, &event, log == FACTS_LOG_KMSG || log == FACTS_LOG_JOURNAL, get_arrival_ns()))
        add_event(triage, &event);
}

/* XIDs that samplers have put onto the board; the view counts lost ones. */
static bool read_library_xids(Triage *triage)
{
    bool any = false;

    for (size_t i = 0; i < NODE_SAMPLERS_MAX; i++) {
        XidEvent some[BOARD_EVENTS_LEN];
        uint64_t lost;
        const size_t n = board_read_events(&triage->sampling->board->samplers[i], &triage->event_heads[i], some, &lost);

        for (size_t k = 0; k < n; k++)
            add_library_xid(triage, &some[k]);
        any |= n > 0;
    }
    return any;
}

/* Samplers have news: their events are read between two ticks. */
static void handle_news(void *self)
{
    Triage *triage = self;

    if (triage->ready && read_library_xids(triage))
        triage_advance(triage);
}

/* What the agent itself saw, now. */
static Event make_own_event(Triage *triage, EventKind kind, const char *text)
{
    Event event;

    event_init(&event, kind, EVENT_FROM_AGENT);
    event.time_ns = get_now_ns(triage);
    event.real_ns = get_real_ns(triage);
    snprintf(event.text, sizeof event.text, "%s", text);
    return event;
}

/* A detector has seen that a GPU was reset: no log says it. */
static void handle_reset(void *self, const NodeGpu *gpu)
{
    Event event =
        make_own_event(self, EVENT_RESET, "its counters began anew: it was reset, or its driver was loaded again");

    event.has_pci = true;
    event.pci = gpu->reading.device.pci;
    add_event(self, &event);
}

/* RememberedReset. Dated as early as it can have been (the journal's clock is a second off at most): what came later
 * may have come behind it. */
static void handle_past_reset(void *self, const NodeGpu *gpu, uint64_t since_real_ns)
{
    Event event = make_own_event(self, EVENT_RESET,
                                 "its energy counter began anew while no agent ran: it was reset, or its driver was "
                                 "loaded again");
    const uint64_t at_ns = number_min_u64(since_real_ns + NS_PER_S, event.real_ns), ago_ns = event.real_ns - at_ns;

    event.before = true;
    event.real_ns = at_ns;
    event.time_ns = event.time_ns > ago_ns ? event.time_ns - ago_ns : 0;
    event.has_pci = true;
    event.pci = gpu->reading.device.pci;
    add_event(self, &event);
}

/* MigWatchSink.known: the layout goes to the journal, a change of it is an event. */
static void handle_layout(void *self, const char *uuid, const char *layout, const char *change, uint32_t pid)
{
    Triage *triage = self;
    const Node *node = board_reader_node(triage->sampling->reader);

    remembered_set_layout(&triage->remembered, uuid, layout, change, get_real_ns(triage));
    if (!change)
        return;
    Event event = make_own_event(triage, EVENT_MIG_LAYOUT, change);
    snprintf(event.uuid, sizeof event.uuid, "%s", uuid);
    if (pid > 0)
        event.pid = (int32_t)pid;
    for (size_t i = 0; i < node->gpu_count; i++) {
        const Device *device = &node->gpus[i].reading.device;

        if (strcmp(device->uuid, uuid) == 0 && device->has_pci) {
            event.has_pci = true;
            event.pci = device->pci;
        }
    }
    log_write(triage->log, LOG_LEVEL_INFO, "MIG layout of %s: %s", uuid, change);
    add_event(triage, &event);
}

/* MigWatchSink.runs */
static bool is_running(void *self UNUSED, uint32_t pid)
{
    return kill((pid_t)pid, 0) == 0 || errno != ESRCH;
}

void triage_tell_layout(Triage *triage, const char *uuid, const MigNotice *notice)
{
    mig_watch_tell(triage->layouts, uuid, notice);
    triage_advance(triage);
}

/* Whether an incident of this class is open on the thing. */
static bool has_open(const Triage *triage, const Evidence *evidence)
{
    for (size_t i = 0; evidence->verdict.fault && i < incidents_count(triage->incidents); i++) {
        const Incident *it = incidents_at(triage->incidents, i);

        if (it->state == INCIDENT_OPEN && strcmp(it->class, evidence->verdict.fault->id) == 0 &&
            incident_hits(it, &evidence->device))
            return true;
    }
    return false;
}

/* Evidence of a detector, with the name of its process. Of the load of a test it is none, but that what was wrong
 * before goes on. */
static void handle_evidence(void *self, const Evidence *evidence)
{
    Triage *triage = self;
    Evidence named = *evidence;
    char pid[16];
    Err err;

    if (under_test_explains(&triage->under_test, evidence, get_now_ns(triage)) && !has_open(triage, evidence))
        return;
    if (evidence->device.has_pci && under_test_runs(&triage->under_test, evidence->device.pci, get_now_ns(triage)))
        under_test_mark(named.text);
    if (evidence->pid > 0 && !evidence->process[0]) {
        const char *root = triage->config->o.root;

        snprintf(pid, sizeof pid, "%d", evidence->pid);
        if (proc_text(root ? root : "", pid, "comm", named.process, sizeof named.process, &err) == 0)
            named.process[strcspn(named.process, "\n")] = '\0';
        else
            named.process[0] = '\0';
    }
    incidents_add_evidence(triage->incidents, &named);
}

/* --- a tick ------------------------------------------------------------------------------------------------------- */

static void fill_log_facts(const Triage *triage, Facts *facts)
{
    KmsgState state = {0};

    if (triage->kmsg)
        kmsg_state(triage->kmsg, &state);
    facts->log = triage->kmsg ? state.log : FACTS_LOG_OFF;
    memcpy(facts->log_why, state.why, sizeof facts->log_why);
    facts->log_lost = state.lost;
    facts->fabric_log = state.fabric_log;
}

/* Says once that the journal is not written, and once that it is again. One that never could be written counts as a
 * fault where its path was given, or the disk is full: by default there need be no place for it. */
static void watch_journal(Triage *triage, Facts *facts)
{
    const char *asked = triage->config->o.journal;
    JournalState state;
    Err err;

    journal_state(triage->journal, &state);
    const bool fails = state.health == JOURNAL_MEMORY;
    const bool counts = state.commits > 0 || state.error == -ENOSPC || (asked && asked[0]);
    snprintf(facts->journal_why, sizeof facts->journal_why, "%.*s", FACTS_WHY_CAP - 1,
             fails && counts ? state.why : "");
    if (fails == triage->journal_fails)
        return;
    triage->journal_fails = fails;
    if (fails) {
        (void)err_set(&err, state.error, "the journal is not written: %s; it goes on in memory", state.why);
        (void)opt_add_place(&triage->config->set, "journal.path", 0, &err);
        log_write(triage->log, LOG_LEVEL_ERROR, "%s", err.text);
    } else
        log_write(triage->log, LOG_LEVEL_INFO, "the journal is written again");
}

/* Whether a lost GPU is still on the bus, a scan after its loss tells. */
static uint64_t find_last_loss(const Node *node)
{
    uint64_t last = 0;

    for (size_t i = 0; i < node->gpu_count; i++)
        if (node->gpus[i].state == GPU_LOST)
            last = number_max_u64(last, node->gpus[i].state_since_ns);
    return last;
}

static void update_host(Triage *triage, const Node *node)
{
    pid_t samplers[NODE_SAMPLERS_MAX];
    uint32_t pids[HOST_PROCESSES_MAX];
    size_t count = 0;

    for (size_t i = 0; i < node->sampler_count; i++)
        if (node->samplers[i].pid > 0)
            samplers[count++] = node->samplers[i].pid;
    host_set_processes(triage->host, pids, node_pids(node, pids, HOST_PROCESSES_MAX));
    host_want_holders(triage->host, holdings_want_holders(triage->holdings, node));
    host_want_scan(triage->host, find_last_loss(node));
    host_tick(triage->host, node->time_ns, samplers, count);
    fill_log_facts(triage, host_facts(triage->host));
    watch_journal(triage, host_facts(triage->host));
    const PlaceList places = host_places(triage->host);
    incidents_set_host(triage->incidents, &places, host_facts(triage->host)->boot_real_ns);
}

/* A damaged file was begun anew: writes what is in memory into the new one. */
static void refill_journal(Triage *triage)
{
    JournalState state;

    journal_state(triage->journal, &state);
    if (strcmp(state.set_aside, triage->set_aside) == 0)
        return;
    snprintf(triage->set_aside, sizeof triage->set_aside, "%s", state.set_aside);
    log_write(triage->log, LOG_LEVEL_ERROR, "the journal was damaged (%s); it was set aside as '%s' and begun anew",
              state.why, state.set_aside);
    for (size_t i = 0; i < incidents_count(triage->incidents); i++)
        journal_put_incident(triage->journal, incidents_at(triage->incidents, i));
    remembered_refill(&triage->remembered);
    journal_put_position(triage->journal, &triage->position);
}

size_t triage_forget_missing(Triage *triage, const Incident *incident, const char *who)
{
    if (strcmp(incident->class, "gpu-missing") != 0)
        return 0;
    return remembered_forget(&triage->remembered, board_reader_node(triage->sampling->reader), &incident->device, who);
}

static void update_holdings(Triage *triage, const Node *node)
{
    const HostUnlisted unlisted = host_unlisted(triage->host);
    Snapshot seen = triage->declared;
    size_t count;

    seen.node = node;
    seen.facts = host_facts(triage->host);
    seen.processes = host_processes(triage->host);
    seen.holders = unlisted.holders;
    seen.job_devices = unlisted.devices;
    seen.job_device_count = unlisted.device_count;
    seen.ended_jobs = unlisted.ended;
    seen.ended_job_count = unlisted.ended_count;
    seen.steps_told = unlisted.steps_told;
    holdings_update(triage->holdings, &seen);
    const Holding *holdings = holdings_list(triage->holdings, &count);
    owners_note(&triage->owners, node, holdings, count);
}

void triage_tick(Triage *triage, const Node *node)
{
    incidents_set_node(triage->incidents, node);
    update_host(triage, node);
    update_holdings(triage, node);
    add_early_lines(triage, node);
    /* Before the detectors: after a stall of the agent a counter's rise may be older than the time it waits for its
     * line. */
    kmsg_look(triage->kmsg);
    if (triage->ready) {
        read_library_xids(triage);
        add_late_xids(triage);
    }
    detectors_tick(triage->detectors, node, host_facts(triage->host),
                   &(DetectorSink){.evidence = handle_evidence, .reset = handle_reset, .self = triage});
    mig_watch_tick(triage->layouts, node);
    triage_advance(triage);
    save_position(triage);
    remembered_tick(&triage->remembered, node);
    remembered_show_changes(&triage->remembered, node);
    put_late_bundles(triage, node->time_ns);
    refill_journal(triage);
}

void triage_watch_idle(Triage *triage, const Snapshot *snapshot)
{
    const Incident *open[INCIDENTS_MAX];
    const IdleLook look = {.node = snapshot->node,
                           .holdings = snapshot->holdings,
                           .holding_count = snapshot->holding_count,
                           .jobs = &snapshot->job_infos,
                           .policies = triage->config->idle,
                           .prices = triage->config->prices,
                           .open = open,
                           .open_count = incidents_list_open(triage->incidents, open),
                           .class = catalogue_class(triage->catalogue, IDLE_CLASS)};

    idle_watch_update(triage->idle, &look, handle_evidence, triage);
    if (look.policies)
        triage_advance(triage);
}

void triage_add_wanted(const Triage *triage, BoardPlan *plan)
{
    plan->want_links = detectors_wanted(triage->detectors, plan->wanted);
    plan->want_processes = true; /* of every GPU, to be shown */
}

uint64_t triage_events_json(const Triage *triage, uint64_t from, Str *out)
{
    const uint64_t oldest = triage->event_count > TRIAGE_EVENTS ? triage->event_count - TRIAGE_EVENTS : 0;

    for (uint64_t n = number_max_u64(from, oldest); n < triage->event_count; n++) {
        const TriageEvent *event = &triage->events[n % TRIAGE_EVENTS];

        event_json(&event->event, event->incident, board_reader_node(triage->sampling->reader), out);
    }
    return triage->event_count;
}

/* --- opening and closing ------------------------------------------------------------------------------------------ */

static int load_catalogue(const AgentConfig *config, Catalogue **ret, Err *err)
{
    TRY(faults_load(&config->o.fault_files, &config->set, ret, err));
    malloc_trim(0); /* reading needs ten times its size */
    return 0;
}

/* How many GPUs an index can name: as many as are expected or on the bus; 0: not known. */
static uint32_t count_gpus(const AgentOptions *options)
{
    size_t on_bus = 0;
    Err err;

    if (pci_scan(options->root ? options->root : "", NULL, 0, &on_bus, NULL, &err) < 0)
        on_bus = 0;
    return options->gpus_expected > (int64_t)on_bus ? (uint32_t)options->gpus_expected : (uint32_t)on_bus;
}

/* Indices of a node of so many GPUs; instances are known to the driver alone. */
static void check_devices(const AgentConfig *config, uint32_t gpus, Str *notes)
{
    CLEANUP_FREE NodeGpu *list = xcalloc(gpus + 1, sizeof *list);
    const Node node = {.gpus = list, .gpu_count = gpus};
    ExporterDevices devices = config->exporter.devices;
    char room[1024];
    Str missing;

    str_init_room(&missing, room, sizeof room);
    devices.instance_id_count = 0;
    for (uint32_t i = 0; i < gpus; i++)
        list[i].reading.device.index = i;
    exporter_devices_add_missing(&devices, &node, &missing);
    if (missing.len)
        str_addf(notes, "devices: '%s' names what this node of %u GPUs lacks: %s\n", config->o.devices, gpus,
                 missing.text);
}

int triage_check(const AgentConfig *config, Str *notes, Err *err)
{
    CLEANUP(catalogue_free_at) Catalogue *catalogue = NULL;
    CLEANUP(maintenance_free_at) Maintenance *maintenance = maintenance_new();

    TRY(load_catalogue(config, &catalogue, err));
    TRY(maintenance_configure(maintenance, config->o.maintenance, err));
    const uint32_t gpus = count_gpus(&config->o);
    if (gpus > 0)
        check_devices(config, gpus, notes);
    return alerts_check(config->o.alerts, catalogue, gpus, notes, err);
}

static void restore_from_journal(Triage *triage, JournalKept *kept)
{
    Err err = {0};

    if (journal_kept(triage->journal, kept, &err) < 0) {
        log_write(triage->log, LOG_LEVEL_ERROR, "the journal could not be read: %s; what it holds is not known",
                  err.text);
        return;
    }
    for (size_t i = 0; i < kept->windows.len; i++) {
        char id[INCIDENT_ID_CAP];

        if (maintenance_start(triage->maintenance, &kept->windows.at[i], get_real_ns(triage), id, &err) < 0)
            log_write(triage->log, LOG_LEVEL_WARN, "a maintenance window of the journal is left out: %s", err.text);
    }
    incidents_restore(triage->incidents, kept->incidents.at, kept->incidents.len, get_now_ns(triage),
                      get_real_ns(triage));
}

static int open_journal(Triage *triage, uv_loop_t *loop, Err *err)
{
    const AgentOptions *o = &triage->config->o;
    JournalConfig config = {.path = agent_journal_path(triage->config),
                            .keep_ns = o->journal_keep_ns,
                            .keep_ledger_ns = o->ledger_keep_ns,
                            .keep_jobs_ns = o->jobs_keep_ns,
                            .max_bytes = o->journal_max_bytes,
                            .patience_ns = o->journal_patience_ns};
    int rc = journal_open(loop, &config, handle_ack, triage, &triage->journal, err);

    if (rc == -EBUSY) {
        (void)opt_add_place(&triage->config->set, "journal.path", 0, err);
        log_write(triage->log, LOG_LEVEL_WARN, "%s; this one keeps nothing", err->text);
        config.path = "";
        rc = journal_open(loop, &config, handle_ack, triage, &triage->journal, err);
    }
    return rc;
}

static void open_log(Triage *triage, uv_loop_t *loop, const JournalKept *kept)
{
    const AgentOptions *o = &triage->config->o;
    KmsgConfig config = {.kmsg = agent_kmsg_path(triage->config),
                         .journalctl = o->journalctl ? o->journalctl : "",
                         .fabric_log = agent_fabric_log_path(triage->config),
                         .root = o->root ? o->root : "",
                         .position = kept->position,
                         .clock = &triage->sampling->clock};
    VEC(const char *) patterns = {0};

    for (size_t i = 0; i < triage->catalogue->rule_count; i++) {
        const FaultRule *rule = &triage->catalogue->rules[i];

        if (rule->event == EVENT_LINE && rule->contains[0])
            vec_push(&patterns, rule->contains);
    }
    config.patterns = patterns.at;
    config.pattern_count = patterns.len;
    triage->kmsg = kmsg_open(loop, &config, handle_line, triage);
    vec_done(&patterns);
}

static int open_alerts(Triage *triage, uv_loop_t *loop, const JournalKept *kept, Err *err)
{
    const AlertsConfig config = {.tree = triage->config->o.alerts,
                                 .catalogue = triage->catalogue,
                                 .hostname = board_reader_node(triage->sampling->reader)->hostname,
                                 .external_url = triage->config->o.external_url ? triage->config->o.external_url : "",
                                 .clock = &triage->sampling->clock,
                                 .clock_speed = triage->config->o.clock_speed,
                                 .journal = triage->journal,
                                 .kept = kept,
                                 .log = triage->log};
    const Incident *open[INCIDENTS_MAX];

    TRY(alerts_new(loop, &config, &triage->alerts, err));
    alerts_resume(triage->alerts, open, incidents_list_open(triage->incidents, open));
    return 0;
}

/* The journal is of another boot: the node was rebooted since. */
static void note_reboot(Triage *triage, const JournalKept *kept)
{
    const char *before = kept->position.boot_id, *now;
    KmsgState state;
    Event event;

    kmsg_state(triage->kmsg, &state);
    now = state.position.boot_id;
    if (!before[0] || !now[0] || strcmp(before, now) == 0)
        return;
    remembered_note_reboot(&triage->remembered);
    event = make_own_event(triage, EVENT_REBOOT, "the node was started anew since the agent last ran");
    const uint64_t up = clock_monotonic(clock_kernel());
    event.real_ns = event.real_ns > up ? event.real_ns - up : event.real_ns;
    add_event(triage, &event);
}

int triage_open(Triage *triage, uv_loop_t *loop, AgentConfig *config, Sampling *sampling, Store *store, const Log *log,
                Err *err)
{
    JournalKept kept = {0};

    *triage = (Triage){.log = log, .sampling = sampling, .store = store, .config = config};
    triage->events = xcalloc(TRIAGE_EVENTS, sizeof *triage->events);
    triage->holdings = holdings_new();
    triage->idle = idle_watch_new();
    uv_timer_init(loop, &triage->timer);
    uv_unref((uv_handle_t *)&triage->timer);
    triage->timer.data = triage;
    processes_on_events(sampling->processes, handle_news, triage);
    triage->opened_ns = get_now_ns(triage);
    TRY(load_catalogue(config, &triage->catalogue, err));
    triage->maintenance = maintenance_new();
    TRY(maintenance_configure(triage->maintenance, config->o.maintenance, err));
    triage->incidents = incidents_new(triage->catalogue, triage->maintenance, handle_change, triage);
    incidents_set_owners(triage->incidents, owners_find, &triage->owners);
    triage->detectors = detectors_new(triage->catalogue, NULL);
    TRY(open_journal(triage, loop, err));
    restore_from_journal(triage, &kept);
    remembered_open(&triage->remembered, &kept, triage->journal, sampling, log, handle_past_reset, triage);
    triage->layouts = mig_watch_new(&(MigWatchSink){.known = handle_layout, .runs = is_running, .self = triage});
    for (size_t i = 0; i < kept.gpus.len; i++)
        mig_watch_recall(triage->layouts, kept.gpus.at[i].device.uuid, kept.gpus.at[i].mig_layout);
    const HostConfig host = {.root = config->o.root ? config->o.root : "", .period_ns = config->o.slow_ns};
    int rc = host_open(&host, &triage->host, err);
    if (rc == 0) {
        open_log(triage, loop, &kept);
        rc = open_alerts(triage, loop, &kept, err);
    }
    if (rc == 0) {
        note_reboot(triage, &kept);
        const Event start = make_own_event(triage, EVENT_AGENT_START, "the agent was started");
        add_event(triage, &start);
    }
    triage->position = kept.position;
    triage->resumed = kept.position.read;
    triage->counts = kept.counts;
    kept.counts = (JournalCounts){0};
    triage->ledger = kept.ledger;
    triage->ledger_id = kept.ledger_id;
    kept.ledger = (LedgerRows){0};
    for (size_t i = 0; i < kept.jobs.len; i++)
        vec_push(&triage->jobs, kept.jobs.at[i]);
    vec_clear(&kept.jobs);
    for (size_t i = 0; i < kept.bench.len; i++)
        vec_push(&triage->bench, kept.bench.at[i]);
    vec_clear(&kept.bench);
    journal_kept_done(&kept);
    return rc;
}

void triage_put_count(void *self, const char *key, uint64_t value)
{
    Triage *triage = self;

    journal_put_count(triage->journal, key, value, get_real_ns(triage));
}

int triage_reload(Triage *triage, AgentConfig *config, Err *err)
{
    Catalogue *catalogue = NULL;

    triage->config = config; /* the old one is freed, even if this fails */
    TRY(load_catalogue(config, &catalogue, err));
    int rc = maintenance_configure(triage->maintenance, config->o.maintenance, err);
    if (rc == 0)
        rc = alerts_reconfigure(triage->alerts, config->o.alerts, catalogue, err);
    if (rc < 0) {
        catalogue_free(catalogue);
        return rc;
    }
    triage->detectors = detectors_new(catalogue, triage->detectors);
    incidents_set_catalogue(triage->incidents, catalogue);
    catalogue_free(triage->catalogue);
    triage->catalogue = catalogue;
    return 0;
}

/* Alerts that are not delivered stay in the journal. */
static void handle_alerts_closed(void *self)
{
    Triage *triage = self;

    journal_close(TAKE(triage->journal));
    detectors_free(TAKE(triage->detectors));
    incidents_free(TAKE(triage->incidents));
    maintenance_free(TAKE(triage->maintenance));
    catalogue_free(TAKE(triage->catalogue));
    remembered_done(&triage->remembered);
    mig_watch_free(TAKE(triage->layouts));
    vec_done(&triage->counts);
    vec_done(&triage->ledger);
    for (size_t i = 0; i < triage->jobs.len; i++)
        free(triage->jobs.at[i]);
    vec_done(&triage->jobs);
    for (size_t i = 0; i < triage->bench.len; i++)
        free(triage->bench.at[i]);
    vec_done(&triage->bench);
    owners_done(&triage->owners);
    holdings_free(TAKE(triage->holdings));
    idle_watch_free(TAKE(triage->idle));
    vec_done(&triage->changes);
    vec_done(&triage->early);
    vec_done(&triage->bundles);
    free(TAKE(triage->events));
    triage->closed(triage->closed_self);
}

void triage_close(Triage *triage, void (*closed)(void *self), void *self)
{
    Device node;

    if (!triage->events) { /* it was never opened */
        closed(self);
        return;
    }
    device_init(&node, DEVICE_NODE);
    remembered_put(&triage->remembered, board_reader_node(triage->sampling->reader), &node, get_real_ns(triage));
    triage->closed = closed;
    triage->closed_self = self;
    triage->changed = NULL;
    triage->happened = NULL;
    uv_close((uv_handle_t *)&triage->timer, NULL);
    processes_on_events(triage->sampling->processes, NULL, NULL);
    kmsg_close(TAKE(triage->kmsg));
    host_close(TAKE(triage->host));
    if (triage->alerts)
        alerts_close(TAKE(triage->alerts), GRACE_MS, handle_alerts_closed, triage);
    else
        handle_alerts_closed(triage);
}
