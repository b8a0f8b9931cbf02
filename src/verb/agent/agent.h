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
#include "engine/store/store.h"
#include "engine/store/window.h"
#include "service/api/api.h"
#include "service/prometheus/exporter.h"
#include "source/podresources/hpc.h"
#include "source/podresources/podresources.h"
#include "verb/agent/config.h"
#include "verb/agent/control.h"
#include "verb/agent/eyes.h"
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
    AgentConfig *started; /* what it was started with; the eyes hold on to it */
    AgentConfig *applied; /* what agent_apply did last; NULL at first */

    /* sources */
    Eyes eyes;
    PodResources *pods; /* NULL: off */
    Hpc jobs;
    bool jobs_on;
    VEC(ExporterJob) job_list;
    LogLimit jobs_limit;

    /* what is kept */
    Store *store;
    Windows *windows;
    uint64_t ticks, late_ticks, last_tick_ns, start_ns, start_real_ns;
    Health health;

    /* doors */
    HttpServer *http;
    Control *control;
    Exporter *exporter;
    AgentPage pages[2]; /* by ExporterFormat */
    HttpStream *streams[AGENT_STREAMS_MAX];
    size_t stream_count;

    /* turns of the loop */
    uv_timer_t tick_timer, reload_timer;
    uv_signal_t signals[3];
    uint64_t files_sum; /* of the files that are read again when they change */
    bool stopping, handles_closed;
    uint64_t reloads, reload_failures;
    bool config_fine;
} Agent;

/* tick.c: one second. */
void agent_tick(Agent *agent);
/* Sets the board's plan from the exporter and what the agent itself wants. */
void agent_plan(Agent *agent);

/* answers.c: HTTP requests; `self` is the Agent. */
void agent_handle(void *self, HttpRequest *request);
void agent_stream_tick(Agent *agent);

/* requests.c: the control socket's words; `self` is the Agent. */
int agent_control(void *self, const char *const *words, size_t count, bool owner, Str *out);

/* reload.c: SIGHUP and changed files. The old configuration stays in force where the new one is bad. */
void agent_reload(Agent *agent, const char *why);
void agent_watch_files(Agent *agent);
/* Starts and stops what the configuration turns on and off while the agent runs. */
int agent_apply(Agent *agent, Err *err);
