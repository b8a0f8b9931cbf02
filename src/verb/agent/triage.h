/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The agent's triage: logs, facts and readings go into the incidents; changes of those go to the journal, and once they
 * are on disk to the alerts. Everything runs on the loop's thread; what can wait for a disk or a network is in the
 * journal and the alerts.
 * CONTRIBUTING.md lists the functions from a line of the kernel log to an alert.
 */

#include <uv.h>

#include "base/log.h"
#include "base/vec.h"
#include "engine/health/detect.h"
#include "engine/health/incidents.h"
#include "engine/health/under_test.h"
#include "engine/health/xid_merge.h"
#include "engine/mig/watch.h"
#include "engine/owner/holdings.h"
#include "engine/store/store.h"
#include "service/alert/alert.h"
#include "service/journal/journal.h"
#include "source/host/host.h"
#include "source/kmsg/kmsg.h"
#include "verb/agent/config.h"
#include "verb/agent/owners.h"
#include "verb/agent/sampling.h"
#include "verb/agent/remembered.h"

enum { TRIAGE_EVENTS = 1024 };

/* An event that was kept, with the incident that it went into. */
typedef struct TriageEvent {
    uint64_t number; /* counts up from 1 */
    Event event;
    char incident[INCIDENT_ID_CAP];
} TriageEvent;

/* A change that waits until it is on disk. */
typedef struct TriageChange {
    uint64_t ticket;
    IncidentChange change;
    Incident incident;
} TriageChange;

/* A bundle that is written again a minute after its incident opened. */
typedef struct TriageBundle {
    char incident[INCIDENT_ID_CAP];
    uint64_t due_ns;
} TriageBundle;

typedef struct Triage {
    const Log *log;
    Sampling *sampling; /* borrowed, as the next */
    Store *store;
    AgentConfig *config;
    Catalogue *catalogue;
    Maintenance *maintenance;
    UnderTest under_test; /* set by the agent */
    Incidents *incidents;
    Detectors *detectors;
    IdleWatch *idle;
    Host *host;
    Kmsg *kmsg;
    Journal *journal;
    Remembered remembered;
    MigWatch *layouts;
    JournalCounts counts; /* as the journal had them, for the exporter */
    LedgerRows ledger;    /* the last rows of it, for the ledger */
    uint64_t ledger_id;   /* the largest of its rows */
    VEC(char *) jobs;     /* job reports of the journal, for the agent */
    VEC(char *) bench;    /* active tests of the journal, for the agent */
    bool resumed;         /* the journal says up to where the kernel log was read before */
    Owners owners;
    Holdings *holdings;
    Snapshot declared; /* pods and jobs, set by the agent before each tick; the rest is empty */
    Alerts *alerts;
    TriageEvent *events;                  /* a ring of TRIAGE_EVENTS, by number */
    uint64_t event_count, event_assigned; /* received; those of them whose incident is known */
    XidMerge xids;
    uv_timer_t timer; /* to triage_advance: at once after lines were read, or when an XID has waited for its line */
    VEC(TriageChange) changes;
    VEC(TriageBundle) bundles;
    char set_aside[256];                     /* the journal's damaged file, as last reported */
    bool journal_fails;                      /* it is not written, as last reported */
    uint32_t event_heads[NODE_SAMPLERS_MAX]; /* of the board's rings of them */
    VEC(Event) early;                        /* lines read before the GPUs were known */
    bool ready;                              /* they are known now */
    uint64_t opened_ns;
    LogPosition position; /* as the journal has it */
    /* for the exporter and the event stream: a change once it is on disk or cannot be; an event */
    void (*changed)(void *self, const Incident *incident, IncidentChange change);
    void (*happened)(void *self, const TriageEvent *event);
    void *self;
    void (*closed)(void *self); /* of triage_close */
    void *closed_self;
} Triage;

/* Reads the catalogue and the other parts of the configuration that it needs; for --check-config. What is allowed
 * and hardly meant is appended to `notes` (NULL: not told), a line each. */
int triage_check(const AgentConfig *config, Str *notes, Err *err);

int triage_open(Triage *triage, uv_loop_t *loop, AgentConfig *config, Sampling *sampling, Store *store, const Log *log,
                Err *err);
/* After a reload of the configuration; on errors the old one stays. */
int triage_reload(Triage *triage, AgentConfig *config, Err *err);
/* Adds the metrics, links and processes that are needed to the plan. */
void triage_add_wanted(const Triage *triage, BoardPlan *plan);
/* One tick, after the sampling have looked. */
void triage_tick(Triage *triage, const Node *node);
/* Owners that hold a device idle, each tick, after the activities were decided. */
void triage_watch_idle(Triage *triage, const Snapshot *snapshot);
/* Opens and ends incidents and applies maintenance as of now, between two ticks. */
void triage_advance(Triage *triage);
/* Keeps a counter's value in the journal; `self` is the Triage. */
void triage_put_count(void *self, const char *key, uint64_t value);

/* Tries to deliver due alerts, writes the queue of the journal and ends; then calls `closed`, from within or from the
 * loop. The sampling and the store must last until then. Accepts a zeroed one. */
void triage_close(Triage *triage, void (*closed)(void *self), void *self);

/* What `stoker mig` says of a change of a GPU's layout. */
void triage_tell_layout(Triage *triage, const char *uuid, const MigNotice *notice);

/* A "GPU missing" incident was cleared by hand: forgets its GPUs. Returns how many. */
size_t triage_forget_missing(Triage *triage, const Incident *incident, const char *who);

/* Appends the events from number `from` on (0: the oldest that is kept) as elements of a JSON array; returns the next
 * number. */
uint64_t triage_events_json(const Triage *triage, uint64_t from, Str *out);
