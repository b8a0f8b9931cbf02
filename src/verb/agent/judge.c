/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/agent/judge.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/duration.h"
#include "base/cleanup.h"
#include "service/incident/incident.h"
#include "source/proc/task.h"
#include "verb/agent/faults.h"

CLEANUP_POINTER(Catalogue, catalogue_free);
CLEANUP_POINTER(Maintenance, maintenance_free);

enum { EARLY_MAX = 4096, BUNDLE_MAX = 8 << 20, BUNDLE_EVENTS = 64, GRACE_MS = 500 };

#define EARLY_NS (3 * NS_PER_S)
#define BUNDLE_AFTER_NS (60 * NS_PER_S)

/* The clocks of the board and of the wall, as callbacks of those who are given the Judge. */
static uint64_t get_now_ns(void *self)
{
    const Judge *judge = self;

    return board_now(judge->sampling->board);
}

static uint64_t get_real_ns(void *self)
{
    const Judge *judge = self;

    return sampling_real_ns(judge->sampling);
}

/* The machine's own clock: how long an XID waits for its line, whatever the board's clock does. */
static uint64_t get_arrival_ns(void)
{
    return clock_monotonic(clock_kernel());
}

/* --- changes ------------------------------------------------------------------------------------------------------ */

static void log_change(const Judge *judge, const Incident *incident, IncidentChange change)
{
    const bool over = change == INCIDENT_CHANGE_CLEARED;
    const LogLevel level = incident->severity >= SEVERITY_ERROR && !over ? LOG_LEVEL_ERROR : LOG_LEVEL_WARN;

    if (change == INCIDENT_CHANGE_UPDATED)
        return;
    log_write(judge->log, over ? LOG_LEVEL_INFO : level, "incident %s %s: %s%s%s", incident->id,
              incident_change_key(change), incident->title, over ? "; " : "; what to do: ",
              over ? incident_end_text(incident->end) : fault_actions[incident->action].text);
}

/* Puts the evidence as it is now into the journal. */
static void put_bundle(Judge *judge, const Incident *incident)
{
    BundleEvent events[BUNDLE_EVENTS];
    const Node *node = board_reader_node(judge->sampling->reader);
    const uint64_t from = judge->event_count > BUNDLE_EVENTS ? judge->event_count - BUNDLE_EVENTS : 0;
    size_t count = 0;
    CLEANUP(str_done) Str text = {0};

    for (uint64_t n = from; n < judge->event_count; n++) {
        const JudgeEvent *event = &judge->events[n % JUDGE_EVENTS];

        events[count++] = (BundleEvent){.event = &event->event, .incident = event->incident};
    }
    str_init(&text, BUNDLE_MAX);
    incident_bundle(incident, node, judge->store, events, count, &text);
    journal_put_bundle(judge->journal, incident->id, text.text, text.len);
}

/* IncidentChanged: a change goes to the journal, and once it is there to the alerts. */
static void handle_change(void *self, const Incident *incident, IncidentChange change)
{
    Judge *judge = self;
    JudgeChange waits = {.change = change, .incident = *incident};

    log_change(judge, incident, change);
    judge->incident_changes++;
    waits.ticket = journal_put_incident(judge->journal, incident);
    vec_push(&judge->changes, waits);
    if (change == INCIDENT_CHANGE_OPENED && incident->severity >= SEVERITY_WARNING) {
        JudgeBundle later = {.due_ns = get_now_ns(judge) + BUNDLE_AFTER_NS};

        put_bundle(judge, incident); /* behind the incident: writing it takes longer than the alert may wait */
        memcpy(later.incident, incident->id, sizeof later.incident);
        vec_push(&judge->bundles, later);
    }
}

/* JournalAcked: the change is on disk, or cannot be for now. Either way the alerts get it. */
static void handle_ack(void *self, uint64_t ticket, bool on_disk)
{
    Judge *judge = self;
    size_t due = 0;

    (void)on_disk;
    while (due < judge->changes.len && judge->changes.at[due].ticket <= ticket) {
        const JudgeChange *waits = &judge->changes.at[due++];

        if (judge->alerts)
            alerts_update(judge->alerts, &waits->incident);
        if (judge->changed)
            judge->changed(judge->self, &waits->incident, waits->change);
    }
    if (due == 0)
        return;
    memmove(judge->changes.at, judge->changes.at + due, (judge->changes.len - due) * sizeof judge->changes.at[0]);
    judge->changes.len -= due;
}

/* The minute after the opening, for those whose time has come. */
static void put_late_bundles(Judge *judge, uint64_t now_ns)
{
    for (size_t i = judge->bundles.len; i-- > 0;) {
        const Incident *incident;

        if (judge->bundles.at[i].due_ns > now_ns)
            continue;
        incident = incidents_find(judge->incidents, judge->bundles.at[i].incident);
        if (incident)
            put_bundle(judge, incident);
        vec_remove(&judge->bundles, i);
    }
}

/* --- events ------------------------------------------------------------------------------------------------------- */

/* The incident of an event: one that lasted then, about its device, with its code among those it has seen. */
static const char *find_incident_of(const Judge *judge, const Event *event)
{
    for (size_t i = 0; i < incidents_count(judge->incidents); i++) {
        const Incident *incident = incidents_at(judge->incidents, i);
        const Device *device = &incident->device;

        if (incident->state == INCIDENT_CLEARED || event->time_ns < incident->first_ns ||
            event->time_ns > incident->last_evidence_ns)
            continue;
        if (device->has_pci && event->has_pci && pci_compare(device->pci, event->pci) != 0)
            continue;
        if (event->code ? incident_has_code(incident, event->code) : event->has_pci && device->has_pci)
            return incident->id;
    }
    return "";
}

/* The position in the logs is saved behind the events that were read up to there. */
static void save_position(Judge *judge)
{
    KmsgState state;

    if (!judge->kmsg || !judge->ready)
        return;
    kmsg_state(judge->kmsg, &state);
    if (state.sequence == judge->position_sequence)
        return;
    judge->position_sequence = state.sequence;
    journal_put_position(judge->journal, state.boot_id, state.sequence, state.fabric_offset, state.fabric_inode);
}

/* Events go to the journal once their incidents are known. */
static void assign_events(Judge *judge)
{
    if (judge->event_assigned == judge->event_count)
        return;
    while (judge->event_assigned < judge->event_count) {
        JudgeEvent *kept = &judge->events[judge->event_assigned++ % JUDGE_EVENTS];

        snprintf(kept->incident, sizeof kept->incident, "%s", find_incident_of(judge, &kept->event));
        journal_put_event(judge->journal, &kept->event, kept->incident, board_reader_node(judge->sampling->reader));
        if (judge->happened)
            judge->happened(judge->self, kept);
    }
    save_position(judge);
}

static void add_event(Judge *judge, const Event *event)
{
    if (judge->event_count - judge->event_assigned == JUDGE_EVENTS)
        assign_events(judge); /* before the ring is full */
    incidents_add_event(judge->incidents, event);
    judge->events[judge->event_count % JUDGE_EVENTS] = (JudgeEvent){.number = judge->event_count + 1, .event = *event};
    judge->event_count++;
}

static void handle_timer(uv_timer_t *timer)
{
    judge_advance(timer->data);
}

/* XIDs of the library whose line has not come in time; the timer is set for the next one. */
static void add_late_xids(Judge *judge)
{
    uint64_t wait_ns;
    Event event;

    while (xid_merge_next(&judge->xids, get_arrival_ns(), &event))
        add_event(judge, &event);
    if (xid_merge_wait(&judge->xids, get_arrival_ns(), &wait_ns))
        uv_timer_start(&judge->timer, handle_timer, wait_ns / NS_PER_MS + 1, 0);
}

void judge_advance(Judge *judge)
{
    const uint64_t real_ns = get_real_ns(judge);

    add_late_xids(judge);
    maintenance_advance(judge->maintenance, real_ns);
    incidents_advance(judge->incidents, get_now_ns(judge), real_ns);
    assign_events(judge);
}

/* KmsgEvent. Lines that the loop has read together are judged together. */
static void handle_line(void *self, const Event *event)
{
    Judge *judge = self;

    if (!judge->ready) {
        vec_push(&judge->early, *event);
        return;
    }
    xid_merge_add(&judge->xids, event, true, get_arrival_ns());
    add_event(judge, event);
    uv_timer_start(&judge->timer, handle_timer, 0, 0);
}

/* Alerts name GPUs by index and UUID: log lines wait until those are known, for EARLY_NS at most. */
static void add_early_lines(Judge *judge, const Node *node)
{
    bool known = node->gpu_count > 0;

    if (judge->ready)
        return;
    for (size_t i = 0; i < node->gpu_count; i++)
        known &= node->gpus[i].reading.device.uuid[0] != '\0';
    if (!known && judge->early.len < EARLY_MAX && node->time_ns - judge->opened_ns < EARLY_NS)
        return;
    judge->ready = true;
    for (size_t i = 0; i < judge->early.len; i++)
        handle_line(judge, &judge->early.at[i]);
    vec_done(&judge->early);
}

static void add_library_xid(Judge *judge, const XidEvent *from)
{
    const uint64_t now = get_now_ns(judge), real = get_real_ns(judge);
    const FactsLog log = host_facts(judge->host)->log;
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
    if (xid_merge_add(&judge->xids, &event, log == FACTS_LOG_KMSG || log == FACTS_LOG_JOURNAL, get_arrival_ns()))
        add_event(judge, &event);
}

/* XIDs that samplers have put onto the board; the view counts lost ones. */
static bool read_library_xids(Judge *judge)
{
    bool any = false;

    for (size_t i = 0; i < NODE_SAMPLERS_MAX; i++) {
        XidEvent some[BOARD_EVENTS_LEN];
        uint64_t lost;
        const size_t n = board_read_events(&judge->sampling->board->samplers[i], &judge->event_heads[i], some, &lost);

        for (size_t k = 0; k < n; k++)
            add_library_xid(judge, &some[k]);
        any |= n > 0;
    }
    return any;
}

/* Samplers have news: their events are read between two ticks. */
static void handle_news(void *self)
{
    Judge *judge = self;

    if (judge->ready && read_library_xids(judge))
        judge_advance(judge);
}

/* What the agent itself saw, now. */
static Event make_own_event(Judge *judge, EventKind kind, const char *text)
{
    Event event;

    event_init(&event, kind, EVENT_FROM_AGENT);
    event.time_ns = get_now_ns(judge);
    event.real_ns = get_real_ns(judge);
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

/* Evidence of a detector, with the name of its process. */
static void handle_evidence(void *self, const Evidence *evidence)
{
    Judge *judge = self;
    Evidence named = *evidence;
    char pid[16];
    Err err;

    if (evidence->pid > 0 && !evidence->process[0]) {
        const char *root = judge->config->o.root;

        snprintf(pid, sizeof pid, "%d", evidence->pid);
        if (proc_text(root ? root : "", pid, "comm", named.process, sizeof named.process, &err) == 0)
            named.process[strcspn(named.process, "\n")] = '\0';
        else
            named.process[0] = '\0';
    }
    incidents_add_evidence(judge->incidents, &named);
}

/* --- a tick ------------------------------------------------------------------------------------------------------- */

static void fill_log_facts(const Judge *judge, Facts *facts)
{
    KmsgState state = {0};

    if (judge->kmsg)
        kmsg_state(judge->kmsg, &state);
    facts->log = judge->kmsg ? state.log : FACTS_LOG_OFF;
    memcpy(facts->log_why, state.why, sizeof facts->log_why);
    facts->log_lost = state.lost;
    facts->fabric_log = state.fabric_log;
}

static void update_host(Judge *judge, const Node *node)
{
    pid_t samplers[NODE_SAMPLERS_MAX];
    uint32_t pids[HOST_PROCESSES_MAX];
    size_t count = 0;

    for (size_t i = 0; i < node->sampler_count; i++)
        if (node->samplers[i].pid > 0)
            samplers[count++] = node->samplers[i].pid;
    host_set_processes(judge->host, pids, node_pids(node, pids, HOST_PROCESSES_MAX));
    host_tick(judge->host, node->time_ns, samplers, count);
    fill_log_facts(judge, host_facts(judge->host));
}

/* A damaged file was begun anew: writes what is in memory into the new one. */
static void refill_journal(Judge *judge)
{
    JournalState state;

    journal_state(judge->journal, &state);
    if (strcmp(state.set_aside, judge->set_aside) == 0)
        return;
    snprintf(judge->set_aside, sizeof judge->set_aside, "%s", state.set_aside);
    log_write(judge->log, LOG_LEVEL_ERROR, "the journal was damaged (%s); it was set aside as '%s' and begun anew",
              state.why, state.set_aside);
    for (size_t i = 0; i < incidents_count(judge->incidents); i++)
        journal_put_incident(judge->journal, incidents_at(judge->incidents, i));
    remembered_refill(&judge->remembered);
}

size_t judge_forget_missing(Judge *judge, const Incident *incident, const char *who)
{
    if (strcmp(incident->class, "gpu-missing") != 0)
        return 0;
    return remembered_forget(&judge->remembered, board_reader_node(judge->sampling->reader), &incident->device, who);
}

void judge_tick(Judge *judge, const Node *node)
{
    incidents_set_node(judge->incidents, node);
    update_host(judge, node);
    add_early_lines(judge, node);
    if (judge->ready)
        read_library_xids(judge);
    detectors_tick(judge->detectors, node, host_facts(judge->host),
                   &(DetectorSink){.evidence = handle_evidence, .reset = handle_reset, .self = judge});
    judge_advance(judge);
    save_position(judge);
    remembered_tick(&judge->remembered, node);
    put_late_bundles(judge, node->time_ns);
    refill_journal(judge);
}

void judge_add_wanted(const Judge *judge, BoardPlan *plan)
{
    detectors_wanted(judge->detectors, plan->wanted);
    plan->want_links = detectors_want_links(judge->detectors);
    plan->want_processes = true; /* of every GPU, to be shown */
}

uint64_t judge_each_event(const Judge *judge, uint64_t from, void (*fn)(void *self, const JudgeEvent *event),
                          void *self)
{
    const uint64_t oldest = judge->event_count > JUDGE_EVENTS ? judge->event_count - JUDGE_EVENTS : 0;

    for (uint64_t n = from > oldest ? from : oldest; n < judge->event_count; n++)
        fn(self, &judge->events[n % JUDGE_EVENTS]);
    return judge->event_count;
}

/* --- opening and closing ------------------------------------------------------------------------------------------ */

static int load_catalogue(const AgentConfig *config, Catalogue **ret, Err *err)
{
    const OptList *files = &config->o.fault_files;

    TRY(faults_load(files->items, files->len, ret, err));
    malloc_trim(0); /* reading needs ten times its size */
    return 0;
}

int judge_check(const AgentConfig *config, Err *err)
{
    CLEANUP(catalogue_free_at) Catalogue *catalogue = NULL;
    CLEANUP(maintenance_free_at) Maintenance *maintenance = maintenance_new();

    TRY(load_catalogue(config, &catalogue, err));
    TRY(maintenance_configure(maintenance, config->o.maintenance, err));
    return alerts_check(config->o.alerts, err);
}

static void restore_from_journal(Judge *judge, JournalKept *kept)
{
    Err err = {0};

    if (journal_kept(judge->journal, kept, &err) < 0) {
        log_write(judge->log, LOG_LEVEL_ERROR, "the journal could not be read: %s; what it holds is not known",
                  err.text);
        return;
    }
    for (size_t i = 0; i < kept->windows.len; i++) {
        char id[INCIDENT_ID_CAP];

        if (maintenance_start(judge->maintenance, &kept->windows.at[i], get_real_ns(judge), id, &err) < 0)
            log_write(judge->log, LOG_LEVEL_WARN, "a maintenance window of the journal is left out: %s", err.text);
    }
    incidents_restore(judge->incidents, kept->incidents.at, kept->incidents.len, get_now_ns(judge), get_real_ns(judge));
}

static int open_journal(Judge *judge, uv_loop_t *loop, Err *err)
{
    const AgentOptions *o = &judge->config->o;
    const JournalConfig config = {.path = agent_journal_path(judge->config),
                                  .keep_ns = o->journal_keep_ns,
                                  .max_bytes = o->journal_max_bytes,
                                  .patience_ns = o->journal_patience_ns};
    JournalConfig none = config;
    JournalState state;
    int rc = journal_open(loop, &config, handle_ack, judge, &judge->journal, err);

    if (rc == -EBUSY) {
        log_write(judge->log, LOG_LEVEL_WARN, "%s; this one keeps nothing", err->text);
        none.path = "";
        rc = journal_open(loop, &none, handle_ack, judge, &judge->journal, err);
    }
    if (rc < 0)
        return rc;
    journal_state(judge->journal, &state);
    if (state.health == JOURNAL_MEMORY)
        log_write(judge->log, LOG_LEVEL_ERROR, "the journal goes on in memory: %s", state.why);
    return 0;
}

static void open_log(Judge *judge, uv_loop_t *loop, const JournalKept *kept)
{
    const AgentOptions *o = &judge->config->o;
    KmsgConfig config = {.kmsg = agent_kmsg_path(judge->config),
                         .journalctl = o->journalctl ? o->journalctl : "",
                         .fabric_log = agent_fabric_log_path(judge->config),
                         .root = o->root ? o->root : "",
                         .sequence = kept->sequence,
                         .fabric_offset = kept->fabric_offset,
                         .fabric_inode = kept->fabric_inode,
                         .now_ns = get_now_ns,
                         .real_ns = get_real_ns,
                         .clock = judge};
    VEC(const char *) patterns = {0};

    memcpy(config.boot_id, kept->boot_id, sizeof config.boot_id);
    for (size_t i = 0; i < judge->catalogue->rule_count; i++) {
        const FaultRule *rule = &judge->catalogue->rules[i];

        if (rule->match == FAULT_ON_EVENT && rule->event == EVENT_LINE && rule->contains[0])
            vec_push(&patterns, rule->contains);
    }
    config.patterns = patterns.at;
    config.pattern_count = patterns.len;
    judge->kmsg = kmsg_open(loop, &config, handle_line, judge);
    vec_done(&patterns);
}

static int open_alerts(Judge *judge, uv_loop_t *loop, const JournalKept *kept, Err *err)
{
    const AlertsConfig config = {.tree = judge->config->o.alerts,
                                 .hostname = board_reader_node(judge->sampling->reader)->hostname,
                                 .external_url = judge->config->o.external_url ? judge->config->o.external_url : "",
                                 .now_ns = get_now_ns,
                                 .real_ns = get_real_ns,
                                 .clock = judge,
                                 .clock_speed = judge->config->o.clock_speed,
                                 .journal = judge->journal,
                                 .kept = kept,
                                 .log = judge->log};
    VEC(Incident) open = {0};

    TRY(alerts_new(loop, &config, &judge->alerts, err));
    for (size_t i = 0; i < incidents_count(judge->incidents); i++)
        if (incidents_at(judge->incidents, i)->state == INCIDENT_OPEN)
            vec_push(&open, *incidents_at(judge->incidents, i));
    alerts_resume(judge->alerts, open.at, open.len);
    vec_done(&open);
    return 0;
}

/* The journal is of another boot: the node was rebooted since. */
static void note_reboot(Judge *judge, const JournalKept *kept)
{
    KmsgState state;
    Event event;

    kmsg_state(judge->kmsg, &state);
    if (!kept->boot_id[0] || !state.boot_id[0] || strcmp(kept->boot_id, state.boot_id) == 0)
        return;
    event = make_own_event(judge, EVENT_REBOOT, "the node was started anew since the agent last ran");
    const uint64_t up = clock_monotonic(clock_kernel());
    event.real_ns = event.real_ns > up ? event.real_ns - up : event.real_ns;
    add_event(judge, &event);
}

int judge_open(Judge *judge, uv_loop_t *loop, AgentConfig *config, Sampling *sampling, Store *store, const Log *log,
               Err *err)
{
    JournalKept kept = {0};

    *judge = (Judge){.log = log, .sampling = sampling, .store = store, .config = config};
    judge->events = xcalloc(JUDGE_EVENTS, sizeof *judge->events);
    uv_timer_init(loop, &judge->timer);
    uv_unref((uv_handle_t *)&judge->timer);
    judge->timer.data = judge;
    processes_on_events(sampling->processes, handle_news, judge);
    judge->opened_ns = get_now_ns(judge);
    TRY(load_catalogue(config, &judge->catalogue, err));
    judge->maintenance = maintenance_new();
    TRY(maintenance_configure(judge->maintenance, config->o.maintenance, err));
    judge->incidents = incidents_new(judge->catalogue, judge->maintenance, handle_change, judge);
    judge->detectors = detectors_new(judge->catalogue, NULL);
    TRY(open_journal(judge, loop, err));
    restore_from_journal(judge, &kept);
    remembered_open(&judge->remembered, &kept, judge->journal, sampling, log);
    const HostConfig host = {.root = config->o.root ? config->o.root : "", .period_ns = config->o.slow_ns};
    int rc = host_open(&host, &judge->host, err);
    if (rc == 0) {
        open_log(judge, loop, &kept);
        rc = open_alerts(judge, loop, &kept, err);
    }
    if (rc == 0) {
        note_reboot(judge, &kept);
        const Event start = make_own_event(judge, EVENT_AGENT_START, "the agent was started");
        add_event(judge, &start);
    }
    journal_kept_done(&kept);
    return rc;
}

int judge_reload(Judge *judge, AgentConfig *config, Err *err)
{
    Catalogue *catalogue = NULL;

    judge->config = config; /* the old one is freed, even if this fails */
    TRY(load_catalogue(config, &catalogue, err));
    int rc = maintenance_configure(judge->maintenance, config->o.maintenance, err);
    if (rc == 0)
        rc = alerts_reconfigure(judge->alerts, config->o.alerts, err);
    if (rc < 0) {
        catalogue_free(catalogue);
        return rc;
    }
    judge->detectors = detectors_new(catalogue, judge->detectors);
    incidents_set_catalogue(judge->incidents, catalogue);
    catalogue_free(judge->catalogue);
    judge->catalogue = catalogue;
    return 0;
}

/* Alerts that are not delivered stay in the journal. */
static void handle_alerts_closed(void *self)
{
    Judge *judge = self;

    journal_close(TAKE(judge->journal));
    detectors_free(TAKE(judge->detectors));
    incidents_free(TAKE(judge->incidents));
    maintenance_free(TAKE(judge->maintenance));
    catalogue_free(TAKE(judge->catalogue));
    remembered_done(&judge->remembered);
    vec_done(&judge->changes);
    vec_done(&judge->early);
    vec_done(&judge->bundles);
    free(TAKE(judge->events));
    judge->closed(judge->closed_self);
}

void judge_close(Judge *judge, void (*closed)(void *self), void *self)
{
    if (!judge->events) { /* it was never opened */
        closed(self);
        return;
    }
    judge->closed = closed;
    judge->closed_self = self;
    judge->changed = NULL;
    judge->happened = NULL;
    uv_close((uv_handle_t *)&judge->timer, NULL);
    processes_on_events(judge->sampling->processes, NULL, NULL);
    kmsg_close(TAKE(judge->kmsg));
    host_close(TAKE(judge->host));
    if (judge->alerts)
        alerts_close(TAKE(judge->alerts), GRACE_MS, handle_alerts_closed, judge);
    else
        handle_alerts_closed(judge);
}
