/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The agent's judgement: logs, facts and readings go into the incidents; what they say goes into the journal, and from
 * there to those who are told. Everything is on the loop's thread; what can wait for a disk or a network is in the
 * journal and the alerts.
 */

#include <uv.h>

#include "base/log.h"
#include "base/vec.h"
#include "engine/health/detect.h"
#include "engine/health/incidents.h"
#include "engine/store/store.h"
#include "service/alert/alert.h"
#include "service/journal/journal.h"
#include "source/host/host.h"
#include "source/kmsg/kmsg.h"
#include "verb/agent/config.h"
#include "verb/agent/eyes.h"
#include "verb/agent/remembered.h"

enum { JUDGE_EVENTS = 1024 };

/* An event that was kept, with the incident that it went into. */
typedef struct JudgeEvent {
    uint64_t number; /* counts up from 1 */
    Event event;
    char incident[INCIDENT_ID_CAP];
} JudgeEvent;

/* A change that waits until it is on disk. */
typedef struct JudgeTold {
    uint64_t ticket;
    IncidentChange change;
    Incident incident;
} JudgeTold;

/* A bundle whose minute after the fact is still to come. */
typedef struct JudgeBox {
    char incident[INCIDENT_ID_CAP];
    uint64_t due_ns;
} JudgeBox;

/* What a GPU had counted at the last look, to see that it began anew. */
typedef struct JudgeGpu {
    PciAddress pci;
    double energy_mj; /* since the driver was loaded or the GPU was reset */
} JudgeGpu;

typedef struct Judge {
    const Log *log;
    Eyes *eyes; /* borrowed, as the next */
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
    JudgeEvent *events;                  /* a ring of JUDGE_EVENTS, by number */
    uint64_t event_count, event_settled; /* taken; those of them whose incident is known */
    VEC(JudgeTold) told;
    VEC(JudgeBox) boxes;
    JudgeGpu gpus[NODE_GPUS_MAX];
    size_t gpu_count;
    char set_aside[256];                     /* what the journal said last */
    uv_idle_t idle;                          /* runs once after lines were read */
    uint32_t event_heads[NODE_SAMPLERS_MAX]; /* of the board's rings of them */
    VEC(Event) early;                        /* lines read before the GPUs were known */
    bool ready;                              /* they are */
    uint64_t opened_ns;
    uint64_t position_sequence;
    uint64_t incident_changes; /* told since start, for whoever watches */
    void (*changed)(void *self, const Incident *incident, IncidentChange change); /* it is on disk, or cannot be */
    void (*happened)(void *self, const JudgeEvent *event);
    void *self;
    void (*closed)(void *self); /* of judge_close */
    void *closed_self;
} Judge;

/* Reads the catalogue and everything else of the configuration that this is about; for --check-config too. */
int judge_check(const AgentConfig *config, Err *err);

int judge_open(Judge *judge, uv_loop_t *loop, AgentConfig *config, Eyes *eyes, Store *store, const Log *log, Err *err);
/* After a reload of the configuration: what is bad stays as it was. */
int judge_reload(Judge *judge, AgentConfig *config, Err *err);
/* Metrics, links and processes that are needed. */
void judge_wants(const Judge *judge, BoardPlan *plan);
/* One tick, after the eyes have looked. */
void judge_turn(Judge *judge, const Node *node);
/* Settles incidents and maintenance as of now, between two ticks. */
void judge_settle(Judge *judge);
/* Tries to deliver what is due, writes what is queued, and ends; then `closed` is called, from within or from the loop.
 * Until then the eyes and the store must stay. Accepts a zeroed one. */
void judge_close(Judge *judge, void (*closed)(void *self), void *self);

/* An incident was cleared by hand: a GPU that it missed is not to be missed again. Returns how many it were. */
size_t judge_cleared(Judge *judge, const Incident *incident, const char *who);

/* The facts of the last look, with the condition of the logs. */
const Facts *judge_facts(const Judge *judge);
/* Who the processes on the GPUs are. */
ProcessList judge_processes(const Judge *judge);
/* Where GPUs and network adapters are. */
PlaceList judge_places(const Judge *judge);
/* Events from number `from` on (0: the oldest that is kept); returns the next number. */
uint64_t judge_each_event(const Judge *judge, uint64_t from, void (*fn)(void *self, const JudgeEvent *event),
                          void *self);
