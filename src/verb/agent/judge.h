/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The agent's judge: logs, facts and readings go into the incidents; changes of those go to the journal, and once they
 * are on disk to the alerts. Everything runs on the loop's thread; what can wait for a disk or a network is in the
 * journal and the alerts.
 *
 *   kernel line -> handle_line -> incidents_add_event; then judge_advance -> incidents_advance -> handle_change
 *   -> journal_put_incident -> handle_ack -> alerts_update
 */

#include <uv.h>

#include "base/log.h"
#include "base/vec.h"
#include "engine/health/detect.h"
#include "engine/health/incidents.h"
#include "engine/health/xid_merge.h"
#include "engine/store/store.h"
#include "service/alert/alert.h"
#include "service/journal/journal.h"
#include "source/host/host.h"
#include "source/kmsg/kmsg.h"
#include "verb/agent/config.h"
#include "verb/agent/sampling.h"
#include "verb/agent/remembered.h"

enum { JUDGE_EVENTS = 1024 };

/* An event that was kept, with the incident that it went into. */
typedef struct JudgeEvent {
    uint64_t number; /* counts up from 1 */
    Event event;
    char incident[INCIDENT_ID_CAP];
} JudgeEvent;

/* A change that waits until it is on disk. */
typedef struct JudgeChange {
    uint64_t ticket;
    IncidentChange change;
    Incident incident;
} JudgeChange;

/* A bundle that is written again a minute after its incident opened. */
typedef struct JudgeBundle {
    char incident[INCIDENT_ID_CAP];
    uint64_t due_ns;
} JudgeBundle;

typedef struct Judge {
    const Log *log;
    Sampling *sampling; /* borrowed, as the next */
    Store *store;
    AgentConfig *config;
    Catalogue *catalogue;
    Maintenance *maintenance;
    Incidents *incidents;
    Detectors *detectors;
    Host *host;
    Kmsg *kmsg;
    Journal *journal;
    Remembered remembered;
    Alerts *alerts;
    JudgeEvent *events;                   /* a ring of JUDGE_EVENTS, by number */
    uint64_t event_count, event_assigned; /* received; those of them whose incident is known */
    XidMerge xids;
    uv_timer_t timer; /* to judge_advance: at once after lines were read, or when an XID has waited for its line */
    VEC(JudgeChange) changes;
    VEC(JudgeBundle) bundles;
    char set_aside[256];                     /* the journal's damaged file, as last reported */
    uint32_t event_heads[NODE_SAMPLERS_MAX]; /* of the board's rings of them */
    VEC(Event) early;                        /* lines read before the GPUs were known */
    bool ready;                              /* they are known now */
    uint64_t opened_ns;
    uint64_t position_sequence;
    uint64_t incident_changes; /* since start */
    /* for the exporter and the event stream: a change once it is on disk or cannot be; an event */
    void (*changed)(void *self, const Incident *incident, IncidentChange change);
    void (*happened)(void *self, const JudgeEvent *event);
    void *self;
    void (*closed)(void *self); /* of judge_close */
    void *closed_self;
} Judge;

/* Reads the catalogue and the other parts of the configuration that the judge needs; for --check-config too. */
int judge_check(const AgentConfig *config, Err *err);

int judge_open(Judge *judge, uv_loop_t *loop, AgentConfig *config, Sampling *sampling, Store *store, const Log *log,
               Err *err);
/* After a reload of the configuration; on errors the old one stays. */
int judge_reload(Judge *judge, AgentConfig *config, Err *err);
/* Adds the metrics, links and processes that are needed to the plan. */
void judge_add_wanted(const Judge *judge, BoardPlan *plan);
/* One tick, after the sampling have looked. */
void judge_tick(Judge *judge, const Node *node);
/* Opens and ends incidents and applies maintenance as of now, between two ticks. */
void judge_advance(Judge *judge);
/* Tries to deliver due alerts, writes the queue of the journal and ends; then calls `closed`, from within or from the
 * loop. The sampling and the store must last until then. Accepts a zeroed one. */
void judge_close(Judge *judge, void (*closed)(void *self), void *self);

/* A "GPU missing" incident was cleared by hand: forgets its GPUs. Returns how many. */
size_t judge_forget_missing(Judge *judge, const Incident *incident, const char *who);

/* Events from number `from` on (0: the oldest that is kept); returns the next number. */
uint64_t judge_each_event(const Judge *judge, uint64_t from, void (*fn)(void *self, const JudgeEvent *event),
                          void *self);
