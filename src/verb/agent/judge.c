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
#include "base/owner.h"
#include "service/incident/incident.h"
#include "source/proc/stat.h"
#include "verb/agent/faults.h"

OWNER_POINTER(Catalogue, catalogue_free);
OWNER_POINTER(Maintenance, maintenance_free);

enum { BUNDLE_MAX = 8 << 20, BOX_EVENTS = 64, GRACE_MS = 500 };

#define BOX_AFTER_NS (60 * NS_PER_S)

static uint64_t judge_now(void *clock)
{
    const Judge *judge = clock;

    return board_now(judge->eyes->board);
}

static uint64_t judge_real(void *clock)
{
    const Judge *judge = clock;

    return eyes_real(judge->eyes);
}

/* --- telling ------------------------------------------------------------------------------------------------------ */

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

static void note_box(Judge *judge, const Incident *incident)
{
    JudgeBox box = {.due_ns = judge_now(judge) + BOX_AFTER_NS};

    memcpy(box.incident, incident->id, sizeof box.incident);
    vec_push(&judge->boxes, box);
}

static void keep_bundle(Judge *judge, const Incident *incident)
{
    BundleEvent events[BOX_EVENTS];
    const Node *node = view_node(judge->eyes->view);
    const uint64_t from = judge->event_count > BOX_EVENTS ? judge->event_count - BOX_EVENTS : 0;
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

static void told(void *self, const Incident *incident, IncidentChange change)
{
    Judge *judge = self;
    JudgeTold waits = {.change = change, .incident = *incident};

    log_change(judge, incident, change);
    judge->incident_changes++;
    if (change == INCIDENT_CHANGE_OPENED && incident->severity >= SEVERITY_WARNING) {
        keep_bundle(judge, incident);
        note_box(judge, incident);
    }
    waits.ticket = journal_put_incident(judge->journal, incident, change);
    vec_push(&judge->told, waits);
}

/* It is on disk, or the journal has said that it cannot be: now it may be told. */
static void acked(void *self, uint64_t ticket, bool on_disk)
{
    Judge *judge = self;
    size_t due = 0;

    (void)on_disk;
    while (due < judge->told.len && judge->told.at[due].ticket <= ticket) {
        const JudgeTold *waits = &judge->told.at[due++];

        if (judge->alerts)
            alerts_tell(judge->alerts, &waits->incident, waits->change);
        if (judge->changed)
            judge->changed(judge->self, &waits->incident, waits->change);
    }
    if (due == 0)
        return;
    memmove(judge->told.at, judge->told.at + due, (judge->told.len - due) * sizeof judge->told.at[0]);
    judge->told.len -= due;
}

/* --- events ------------------------------------------------------------------------------------------------------- */

static bool has_code(const Incident *incident, int32_t code)
{
    for (uint32_t i = 0; i < incident->code_count; i++)
        if (incident->codes[i] == code)
            return true;
    return false;
}

/* The incident that took the event: one that lasted then, about its device, with its code among those it has seen. */
static const char *taken_by(const Judge *judge, const Event *event)
{
    for (size_t i = 0; i < incidents_count(judge->incidents); i++) {
        const Incident *incident = incidents_at(judge->incidents, i);
        const Device *device = &incident->device;

        if (incident->state == INCIDENT_CLEARED || event->time_ns < incident->first_ns ||
            event->time_ns > incident->last_sign_ns)
            continue;
        if (device->has_pci && event->has_pci && pci_compare(device->pci, event->pci) != 0)
            continue;
        if (event->code ? has_code(incident, event->code) : event->has_pci && device->has_pci)
            return incident->id;
    }
    return "";
}

static void take_event(Judge *judge, const Event *event)
{
    incidents_event(judge->incidents, event);
    judge->events[judge->event_count % JUDGE_EVENTS] = (JudgeEvent){.number = judge->event_count + 1, .event = *event};
    judge->event_count++;
}

/* How far the logs were read goes with what was read of them. */
static void save_position(Judge *judge)
{
    KmsgState state;

    if (!judge->kmsg)
        return;
    kmsg_state(judge->kmsg, &state);
    if (state.sequence == judge->position_sequence)
        return;
    judge->position_sequence = state.sequence;
    journal_put_position(judge->journal, state.boot_id, state.sequence, state.fabric_offset, state.fabric_inode);
}

/* Once it is known where events belong. */
static void settle_events(Judge *judge)
{
    if (judge->event_settled == judge->event_count)
        return;
    if (judge->event_count - judge->event_settled > JUDGE_EVENTS)
        judge->event_settled = judge->event_count - JUDGE_EVENTS;
    while (judge->event_settled < judge->event_count) {
        JudgeEvent *kept = &judge->events[judge->event_settled++ % JUDGE_EVENTS];

        snprintf(kept->incident, sizeof kept->incident, "%s", taken_by(judge, &kept->event));
        journal_put_event(judge->journal, &kept->event, kept->incident);
        if (judge->happened)
            judge->happened(judge->self, kept);
    }
    save_position(judge);
}

static void turn(Judge *judge, uint64_t now_ns, uint64_t real_ns)
{
    maintenance_turn(judge->maintenance, real_ns);
    incidents_turn(judge->incidents, now_ns, real_ns);
    settle_events(judge);
}

void judge_settle(Judge *judge)
{
    turn(judge, judge_now(judge), judge_real(judge));
}

/* The lines that the loop has read in one go are judged together. */
static void lines_read(uv_idle_t *idle)
{
    Judge *judge = idle->data;

    uv_idle_stop(idle);
    judge_settle(judge);
}

static void line_came(void *self, const Event *event)
{
    Judge *judge = self;

    take_event(judge, event);
    uv_idle_start(&judge->idle, lines_read);
}

static void take_driver_events(Judge *judge, const Node *node)
{
    for (size_t i = 0; i < node->event_count; i++) {
        const XidEvent *from = &node->events[i];
        Event event;

        event_init(&event, EVENT_XID, EVENT_FROM_NVML);
        event.time_ns = from->time_ns;
        event.real_ns = node->real_ns - (node->time_ns > from->time_ns ? node->time_ns - from->time_ns : 0);
        event.has_pci = true;
        event.pci = from->gpu;
        event.gpu_instance = from->gpu_instance;
        event.compute_instance = from->compute_instance;
        event.code = (int32_t)from->xid;
        snprintf(event.text, sizeof event.text, "XID %d, reported by the driver's library", event.code);
        take_event(judge, &event);
    }
}

static JudgeGpu *gpu_of(Judge *judge, PciAddress pci)
{
    for (size_t i = 0; i < judge->gpu_count; i++)
        if (pci_compare(judge->gpus[i].pci, pci) == 0)
            return &judge->gpus[i];
    if (judge->gpu_count == NODE_GPUS_MAX)
        return NULL;
    judge->gpus[judge->gpu_count] = (JudgeGpu){.pci = pci};
    return &judge->gpus[judge->gpu_count++];
}

static void tell_reset(Judge *judge, const Node *node, PciAddress pci)
{
    Event event;

    event_init(&event, EVENT_RESET, EVENT_FROM_AGENT);
    event.time_ns = node->time_ns;
    event.real_ns = node->real_ns;
    event.has_pci = true;
    event.pci = pci;
    snprintf(event.text, sizeof event.text, "its counters began anew: it was reset, or its driver was loaded again");
    take_event(judge, &event);
}

/* A reset leaves no line in any log; what counts from it on begins at 0 again. */
static void look_for_resets(Judge *judge, const Node *node)
{
    for (size_t i = 0; i < node->gpu_count; i++) {
        const Reading *reading = &node->gpus[i].reading;
        JudgeGpu *gpu = gpu_of(judge, reading->device.pci);
        double energy;

        if (!gpu || !sample_double(&reading->sample[METRIC_TOTAL_ENERGY_CONSUMPTION], &energy))
            continue;
        if (energy < gpu->energy_mj)
            tell_reset(judge, node, gpu->pci);
        gpu->energy_mj = energy;
    }
}

static void sign_given(void *self, const Sign *sign)
{
    Judge *judge = self;
    Sign named = *sign;
    char pid[16];
    Err err;

    if (sign->pid > 0 && !sign->process[0]) {
        const char *root = judge->config->o.root;

        snprintf(pid, sizeof pid, "%d", sign->pid);
        if (proc_text(root ? root : "", pid, "comm", named.process, sizeof named.process, &err) == 0)
            named.process[strcspn(named.process, "\n")] = '\0';
        else
            named.process[0] = '\0';
    }
    incidents_sign(judge->incidents, &named);
}

/* --- a tick ------------------------------------------------------------------------------------------------------- */

static void fill_logs(const Judge *judge, Facts *facts)
{
    KmsgState state = {0};

    if (judge->kmsg)
        kmsg_state(judge->kmsg, &state);
    facts->log = judge->kmsg ? state.log : FACTS_LOG_OFF;
    memcpy(facts->log_why, state.why, sizeof facts->log_why);
    facts->log_lost = state.lost;
    facts->fabric_log = state.fabric_log;
}

static void look_at_host(Judge *judge, const Node *node)
{
    pid_t samplers[NODE_SAMPLERS_MAX];
    size_t count = 0;

    for (size_t i = 0; i < node->sampler_count; i++)
        if (node->samplers[i].pid > 0)
            samplers[count++] = node->samplers[i].pid;
    host_turn(judge->host, node->time_ns, samplers, count);
    fill_logs(judge, host_facts(judge->host));
}

static void close_boxes(Judge *judge, uint64_t now_ns)
{
    for (size_t i = judge->boxes.len; i-- > 0;) {
        const Incident *incident;

        if (judge->boxes.at[i].due_ns > now_ns)
            continue;
        incident = incidents_find(judge->incidents, judge->boxes.at[i].incident);
        if (incident)
            keep_bundle(judge, incident);
        vec_remove(&judge->boxes, i);
    }
}

/* A damaged file was begun anew: what is still known goes into the new one. */
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
        journal_put_incident(judge->journal, incidents_at(judge->incidents, i), INCIDENT_CHANGE_UPDATED);
}

void judge_turn(Judge *judge, const Node *node)
{
    incidents_look(judge->incidents, node);
    look_at_host(judge, node);
    take_driver_events(judge, node);
    look_for_resets(judge, node);
    detectors_turn(judge->detectors, node, host_facts(judge->host), sign_given, judge);
    turn(judge, node->time_ns, node->real_ns);
    save_position(judge);
    close_boxes(judge, node->time_ns);
    refill_journal(judge);
}

void judge_wants(const Judge *judge, BoardPlan *plan)
{
    detectors_wanted(judge->detectors, plan->wanted);
    plan->want_links = detectors_want_links(judge->detectors);
    plan->want_processes = detectors_want_processes(judge->detectors);
}

const Facts *judge_facts(const Judge *judge)
{
    return host_facts(judge->host);
}

uint64_t judge_each_event(const Judge *judge, uint64_t from, void (*fn)(void *self, const JudgeEvent *event),
                          void *self)
{
    const uint64_t oldest = judge->event_count > JUDGE_EVENTS ? judge->event_count - JUDGE_EVENTS : 0;

    for (uint64_t n = from > oldest ? from : oldest; n < judge->event_count; n++)
        fn(self, &judge->events[n % JUDGE_EVENTS]);
    return judge->event_count;
}

/* --- opening ------------------------------------------------------------------------------------------------------ */

static int load_catalogue(const AgentConfig *config, Catalogue **ret, Err *err)
{
    const OptList *files = &config->o.fault_files;
    size_t count = 0;
    const DetectorSpec *specs = detector_specs(&count);

    TRY(faults_load(files->items, files->len, specs, count, ret, err));
    malloc_trim(0); /* reading it took ten times as much as it is */
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

static void restore(Judge *judge, JournalKept *kept)
{
    Err err = {0};

    if (journal_kept(judge->journal, kept, &err) < 0) {
        log_write(judge->log, LOG_LEVEL_ERROR, "the journal could not be read: %s; what it holds is not known",
                  err.text);
        return;
    }
    for (size_t i = 0; i < kept->windows.len; i++) {
        char id[INCIDENT_ID_CAP];

        if (maintenance_start(judge->maintenance, &kept->windows.at[i], judge_real(judge), id, &err) < 0)
            log_write(judge->log, LOG_LEVEL_WARN, "a maintenance window of the journal is left out: %s", err.text);
    }
    incidents_restore(judge->incidents, kept->incidents.at, kept->incidents.len, judge_now(judge), judge_real(judge));
}

static int open_journal(Judge *judge, uv_loop_t *loop, Err *err)
{
    const AgentOptions *o = &judge->config->o;
    const JournalConfig config = {.path = agent_journal_path(judge->config),
                                  .keep_ns = o->journal_keep_ns,
                                  .max_bytes = o->journal_max_bytes,
                                  .patience_ns = o->journal_patience_ns,
                                  .log = judge->log};
    JournalConfig none = config;
    const int rc = journal_open(loop, &config, acked, judge, &judge->journal, err);

    if (rc != -EBUSY)
        return rc;
    log_write(judge->log, LOG_LEVEL_WARN, "%s; this one keeps nothing", err->text);
    none.path = "";
    return journal_open(loop, &none, acked, judge, &judge->journal, err);
}

static void say_journal(const Judge *judge)
{
    JournalState state;

    journal_state(judge->journal, &state);
    if (state.health == JOURNAL_MEMORY)
        log_write(judge->log, LOG_LEVEL_ERROR, "the journal goes on in memory: %s", state.why);
}

static int open_log(Judge *judge, uv_loop_t *loop, const JournalKept *kept, Err *err)
{
    const AgentOptions *o = &judge->config->o;
    KmsgConfig config = {.kmsg = agent_kmsg_path(judge->config),
                         .journalctl = o->journalctl ? o->journalctl : "",
                         .fabric_log = agent_fabric_log_path(judge->config),
                         .root = o->root ? o->root : "",
                         .sequence = kept->sequence,
                         .fabric_offset = kept->fabric_offset,
                         .fabric_inode = kept->fabric_inode,
                         .now_ns = judge_now,
                         .real_ns = judge_real,
                         .clock = judge,
                         .log = judge->log};
    VEC(const char *) patterns = {0};

    memcpy(config.boot_id, kept->boot_id, sizeof config.boot_id);
    for (size_t i = 0; i < catalogue_rule_count(judge->catalogue); i++) {
        const FaultRule *rule = catalogue_rule_at(judge->catalogue, i);

        if (rule->match == FAULT_ON_EVENT && rule->event == EVENT_LINE && rule->contains[0])
            vec_push(&patterns, rule->contains);
    }
    config.patterns = patterns.at;
    config.pattern_count = patterns.len;
    const int rc = kmsg_open(loop, &config, line_came, judge, &judge->kmsg, err);
    vec_done(&patterns);
    return rc;
}

static int open_alerts(Judge *judge, uv_loop_t *loop, Err *err)
{
    const AlertsConfig config = {.tree = judge->config->o.alerts,
                                 .hostname = view_node(judge->eyes->view)->hostname,
                                 .external_url = judge->config->o.external_url ? judge->config->o.external_url : "",
                                 .now_ns = judge_now,
                                 .real_ns = judge_real,
                                 .clock = judge,
                                 .clock_speed = judge->config->o.clock_speed,
                                 .journal = judge->journal,
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

/* The boot that the journal knows is not this one: what a reboot ends has ended. */
static void note_reboot(Judge *judge, const JournalKept *kept)
{
    KmsgState state;
    Event event;

    kmsg_state(judge->kmsg, &state);
    if (!kept->boot_id[0] || !state.boot_id[0] || strcmp(kept->boot_id, state.boot_id) == 0)
        return;
    event_init(&event, EVENT_REBOOT, EVENT_FROM_AGENT);
    event.time_ns = judge_now(judge);
    const uint64_t real = judge_real(judge), up = clock_monotonic(clock_kernel());
    event.real_ns = real > up ? real - up : real;
    snprintf(event.text, sizeof event.text, "the node was started anew since the agent last ran");
    take_event(judge, &event);
}

static void note_start(Judge *judge)
{
    Event event;

    event_init(&event, EVENT_AGENT_START, EVENT_FROM_AGENT);
    event.time_ns = judge_now(judge);
    event.real_ns = judge_real(judge);
    snprintf(event.text, sizeof event.text, "the agent was started");
    take_event(judge, &event);
}

int judge_open(Judge *judge, uv_loop_t *loop, AgentConfig *config, Eyes *eyes, Store *store, const Log *log, Err *err)
{
    JournalKept kept = {0};

    *judge = (Judge){.log = log, .eyes = eyes, .store = store, .config = config};
    judge->events = xcalloc(JUDGE_EVENTS, sizeof *judge->events);
    uv_idle_init(loop, &judge->idle);
    judge->idle.data = judge;
    TRY(load_catalogue(config, &judge->catalogue, err));
    judge->maintenance = maintenance_new();
    TRY(maintenance_configure(judge->maintenance, config->o.maintenance, err));
    judge->incidents = incidents_new(judge->catalogue, judge->maintenance, told, judge);
    judge->detectors = detectors_new(judge->catalogue, NULL);
    TRY(open_journal(judge, loop, err));
    say_journal(judge);
    restore(judge, &kept);
    const HostConfig host = {.root = config->o.root ? config->o.root : "", .period_ns = config->o.slow_ns};
    int rc = host_open(&host, &judge->host, err);
    if (rc == 0)
        rc = open_log(judge, loop, &kept, err);
    if (rc == 0)
        rc = open_alerts(judge, loop, err);
    if (rc == 0) {
        note_reboot(judge, &kept);
        note_start(judge);
    }
    journal_kept_done(&kept);
    return rc;
}

int judge_reload(Judge *judge, AgentConfig *config, Err *err)
{
    Catalogue *catalogue = NULL;

    judge->config = config; /* the old one goes, whatever comes of this */
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

/* Those who are told have heard what there was to hear: what they have not is in the journal. */
static void alerts_closed(void *self)
{
    Judge *judge = self;

    journal_close(TAKE(judge->journal));
    detectors_free(TAKE(judge->detectors));
    incidents_free(TAKE(judge->incidents));
    maintenance_free(TAKE(judge->maintenance));
    catalogue_free(TAKE(judge->catalogue));
    vec_done(&judge->told);
    vec_done(&judge->boxes);
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
    uv_close((uv_handle_t *)&judge->idle, NULL);
    kmsg_close(TAKE(judge->kmsg));
    host_close(TAKE(judge->host));
    if (judge->alerts)
        alerts_close(TAKE(judge->alerts), GRACE_MS, alerts_closed, judge);
    else
        alerts_closed(judge);
}
