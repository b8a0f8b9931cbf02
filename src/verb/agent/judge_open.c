/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/agent/judge_inside.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/owner.h"
#include "verb/agent/faults.h"

OWNER_POINTER(Catalogue, catalogue_free);
OWNER_POINTER(Maintenance, maintenance_free);

enum { GRACE_MS = 500 };

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
    const int rc = journal_open(loop, &config, judge_acked, judge, &judge->journal, err);

    if (rc != -EBUSY)
        return rc;
    log_write(judge->log, LOG_LEVEL_WARN, "%s; this one keeps nothing", err->text);
    none.path = "";
    return journal_open(loop, &none, judge_acked, judge, &judge->journal, err);
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
    const int rc = kmsg_open(loop, &config, judge_line_came, judge, &judge->kmsg, err);
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
    judge_take_event(judge, &event);
}

static void note_start(Judge *judge)
{
    Event event;

    event_init(&event, EVENT_AGENT_START, EVENT_FROM_AGENT);
    event.time_ns = judge_now(judge);
    event.real_ns = judge_real(judge);
    snprintf(event.text, sizeof event.text, "the agent was started");
    judge_take_event(judge, &event);
}

int judge_open(Judge *judge, uv_loop_t *loop, AgentConfig *config, Eyes *eyes, Store *store, const Log *log, Err *err)
{
    JournalKept kept = {0};

    *judge = (Judge){.log = log, .eyes = eyes, .store = store, .config = config};
    judge->events = xcalloc(JUDGE_EVENTS, sizeof *judge->events);
    uv_idle_init(loop, &judge->idle);
    judge->idle.data = judge;
    processes_on_news(eyes->processes, judge_peek, judge);
    judge->opened_ns = judge_now(judge);
    TRY(load_catalogue(config, &judge->catalogue, err));
    judge->maintenance = maintenance_new();
    TRY(maintenance_configure(judge->maintenance, config->o.maintenance, err));
    judge->incidents = incidents_new(judge->catalogue, judge->maintenance, judge_told, judge);
    judge->detectors = detectors_new(judge->catalogue, NULL);
    TRY(open_journal(judge, loop, err));
    say_journal(judge);
    restore(judge, &kept);
    remembered_open(&judge->remembered, &kept, judge->journal, eyes, log);
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
    remembered_done(&judge->remembered);
    vec_done(&judge->told);
    vec_done(&judge->early);
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
    processes_on_news(judge->eyes->processes, NULL, NULL);
    kmsg_close(TAKE(judge->kmsg));
    host_close(TAKE(judge->host));
    if (judge->alerts)
        alerts_close(TAKE(judge->alerts), GRACE_MS, alerts_closed, judge);
    else
        alerts_closed(judge);
}
