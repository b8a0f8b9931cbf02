/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The agent at work: one loop that ticks, serves and never calls a driver. This struct is what the files of this folder
 * share; each part has one file that writes it. One thread.
 */

#include <signal.h>
#include <uv.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/vec.h"
#include "engine/activity/activity.h"
#include "engine/store/store.h"
#include "engine/store/window.h"
#include "service/api/api.h"
#include "service/prometheus/exporter.h"
#include "service/runbook/runbook.h"
#include "source/podresources/hpc.h"
#include "source/podresources/podresources.h"
#include "verb/agent/config.h"
#include "verb/agent/control.h"
#include "verb/agent/sampling.h"
#include "verb/agent/triage.h"
#include "wire/http/server.h"

enum { AGENT_STREAMS_MAX = 64 };

/* The page that all scrapes of a tick share. */
typedef struct AgentPage {
    Str text;
    uint64_t tick; /* 0: not made yet */
} AgentPage;

typedef struct Agent {
    uv_loop_t loop;
    Log log;
    int argc; /* for reloads */
    char **argv;
    AgentConfig *config;  /* in force */
    AgentConfig *started; /* what it was started with; the sampling hold on to it */
    AgentConfig *applied; /* what agent_apply did last; NULL at first */
    AgentConfig *looked;  /* whose devices were looked for on the node; NULL at first */

    /* sources */
    Sampling sampling;
    PodResources *pods; /* NULL: off */
    Hpc jobs;           /* dir NULL: off */
    LogLimit jobs_limit;

    /* what is kept */
    Store *store;
    Windows *windows;
    Activities *activities;
    uint64_t ticks, late_ticks, last_tick_ns, start_ns, start_real_ns;
    Triage triage;

    /* doors */
    HttpServer *http;
    Control *control;
    Exporter *exporter;
    AgentPage pages[2]; /* by ExporterFormat */
    Str runbooks;       /* packed, read at start */
    HttpStream *streams[AGENT_STREAMS_MAX];
    size_t stream_count;

    /* turns of the loop */
    uv_timer_t tick_timer, reload_timer;
    uv_signal_t signals[3];
    uint64_t files_sum; /* of the files that are read again when they change */
    bool has_terminal;  /* SIGHUP ends the agent */
    bool stopping, handles_closed;
    uint64_t reloads, reload_failures;
    bool config_fine;
} Agent;

/* answers.c: HTTP requests and the event stream; `self` is the Agent. */
void agent_handle(void *self, HttpRequest *request);
void agent_stream_tick(Agent *agent);

/* The callbacks of the triage: metrics and the stream. */
void agent_incident_changed(void *self, const Incident *incident, IncidentChange change);
void agent_event_happened(void *self, const TriageEvent *event);
/* What HTTP and the control socket answer. `device` NULL: any; else an index, a UUID, a PCI address or a device key. */
void agent_incidents_json(const Agent *agent, bool open_only, const char *device, Str *out);
void agent_maintenance_json(const Agent *agent, Str *out);
/* `query`: device, metrics, resolution, from, to, NULL where not given (api_history_query). 200, or 404 or 400 with the
 * reason in *err; `hint` ends that of a device that there is not. */
unsigned agent_history_json(const Agent *agent, const char *const query[5], const char *hint, Str *out, Err *err);
void agent_events_json(const Agent *agent, uint64_t from, Str *out);

/* requests.c: all that is known as of the last tick; `incidents` is room for the open ones. */
Snapshot agent_snapshot(const Agent *agent, const Incident *incidents[INCIDENTS_MAX]);
/* requests.c: the control socket's words; `self` is the Agent. */
int agent_control(void *self, const char *const *words, size_t count, bool owner, Str *out);

/* reload.c: SIGHUP and changed files. The old configuration stays in force where the new one is bad. */
void agent_reload(Agent *agent, const char *why);
void agent_watch_files(Agent *agent);
/* Starts and stops what the configuration turns on and off while the agent runs. */
int agent_apply(Agent *agent, Err *err);
