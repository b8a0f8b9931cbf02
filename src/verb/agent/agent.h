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
#include "engine/jobs/jobs.h"
#include "engine/ledger/ledger.h"
#include "engine/store/store.h"
#include "engine/store/window.h"
#include "engine/why/why.h"
#include "service/api/api.h"
#include "service/kubelet/kubelet.h"
#include "service/prometheus/exporter.h"
#include "service/runbook/runbook.h"
#include "source/kubernetes/kubernetes.h"
#include "source/podresources/hpc.h"
#include "source/podresources/podresources.h"
#include "source/slurm/slurm.h"
#include "verb/agent/config.h"
#include "verb/agent/control.h"
#include "verb/agent/pages.h"
#include "verb/agent/sampling.h"
#include "verb/agent/triage.h"
#include "wire/http/server.h"

enum { AGENT_STREAMS_MAX = 64 };

typedef struct Agent Agent;
typedef struct LedgerPulls LedgerPulls;
typedef struct SelfAnswers SelfAnswers;
typedef struct JobRoom JobRoom;
typedef struct BenchRoom BenchRoom;

/* Rows of the ledger that change no more, and are in the journal as they are. */
typedef struct LedgerClosed {
    uint64_t below;          /* their ids are */
    uint64_t next, next_put; /* the next limit, and the ticket with which all below it is on the disk */
    uint64_t last_put;       /* ticket of the last row */
} LedgerClosed;

/* What the API server is asked. */
typedef struct Cluster {
    KubeApi *api;       /* NULL: nothing */
    KubePods *pods;     /* NULL: no labels */
    KubeSlices *slices; /* NULL: no DRA */
    size_t pods_read;
    KubeRead reads[KUBE_READS_MAX];
    size_t count;
    uint64_t counters_sum; /* of the ConfigMap that was tried last */
    void (*use_counters)(Agent *agent, const char *text);
    Arena arena;
} Cluster;

struct Agent {
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
    Cluster cluster;
    Hpc jobs;       /* dir NULL: off */
    Slurm *slurm;   /* NULL: off */
    bool jobs_told; /* they could be read when last tried */
    struct AgentPlaced {
        uint64_t told_ns;  /* by `stoker kubelet --follow-placement`, as the next; 0: not told */
        const char *state; /* of its list of pods: a key of kube_states */
        uint64_t counts[CHOSEN_OUTCOME_END];
    } placed;
    LogLimit jobs_limit;

    /* what is kept */
    Store *store;
    Windows *windows;
    Activities *activities;
    Ledger *ledger;
    LedgerClosed ledger_closed;
    LedgerPulls *pulls;    /* NULL: nobody has asked for rows */
    SelfAnswers *self;     /* NULL: nobody has asked for himself */
    JobRoom *jobs_room;    /* job reports */
    BenchRoom *bench_room; /* results of active tests */
    Whys *whys;
    uint64_t ticks, late_ticks, last_tick_ns, start_ns, start_real_ns;
    Triage triage;

    /* doors */
    HttpServer *http;
    Control *control;
    Exporter *exporter;
    Pages pages;        /* as of now */
    size_t metrics_len; /* of the last page of metrics */
    Str runbooks;       /* packed, read at start */
    struct EventStream {
        HttpStream *stream;
        bool packed; /* by gzip */
    } streams[AGENT_STREAMS_MAX];
    size_t stream_count;

    /* turns of the loop */
    uv_timer_t tick_timer, reload_timer;
    uv_signal_t signals[3];
    uint64_t files_sum; /* of the files that are read again when they change */
    bool has_terminal;  /* SIGHUP ends the agent */
    bool stopping, handles_closed;
    uint64_t reloads, reload_failures;
    bool config_fine;
};

/* self.c: /api/v1/self. 1: the answer is in *out; 0: it comes with a later tick. -ENOTCONN for a client that came over
 * TCP, -ESRCH where it is not known who asks, -EBUSY. */
int agent_answer_self(Agent *agent, HttpRequest *request, Str *out, Err *err);
void agent_tick_self(Agent *agent);
void agent_close_self(Agent *agent); /* when the doors are closed */

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

/* requests.c: all that is known as of the last tick; `incidents` is room for the open ones, NULL: without them. */
Snapshot agent_snapshot(const Agent *agent, const Incident *incidents[INCIDENTS_MAX]);
/* requests.c: the control socket's words; `self` is the Agent. */
int agent_control(void *self, const char *const *words, size_t count, bool owner, Str *out);

/* ledger.c: after the triage was opened; each tick, after the activities were decided. */
void agent_open_ledger(Agent *agent);
void agent_tick_ledger(Agent *agent, const Snapshot *snapshot);
/* Answers with the rows that change no more, from the id `since` on, within a tick or two. -ENOENT without a journal,
 * -EBUSY; the request is not answered then. */
int agent_pull_ledger(Agent *agent, HttpRequest *request, uint64_t since, Err *err);
void agent_close_ledger(Agent *agent); /* when the doors are closed */

/* jobs.c: job reports, after the triage was opened; each tick, after the verdicts; before the journal is closed. */
void agent_open_jobs(Agent *agent);
void agent_tick_jobs(Agent *agent, const Snapshot *snapshot);
void agent_stop_jobs(Agent *agent);
void agent_close_jobs(Agent *agent);
/* Those that run and the last that ended; with `name` the last one that it names: false, and nothing written, where
 * there is none. */
bool agent_jobs_json(const Agent *agent, const char *name, Str *out);

/* bench.c: active tests; after the triage was opened, and when the doors are closed. */
void agent_open_bench(Agent *agent);
void agent_close_bench(Agent *agent);
/* Before the faults are looked for. */
void agent_show_tests(const Agent *agent, const Node *node);
/* The GPU or MIG device is under test for so long; 0: no more. -ENOENT where there is none, -ENOSPC. */
int agent_begin_bench(Agent *agent, const char *uuid, uint64_t seconds, Err *err);
/* A test has ended: takes its result from the file, which is not removed. */
int agent_end_bench(Agent *agent, const char *path, Err *err);
/* The runs that are kept, the newest first, each on a line; the newest one, of this device where it is not NULL, or
 * null; metrics of the newest one. */
void agent_bench_history(const Agent *agent, Str *out);
void agent_bench_json(const Agent *agent, const char *device, Str *out);
void agent_bench_metrics(const Agent *agent, Str *out);

/* cluster.c: starts what the options want, after cluster_close where something ran; ends it. `use_counters`: the
 * ConfigMap of counters is another one. */
int cluster_open(Agent *agent, void (*use_counters)(Agent *agent, const char *text), Err *err);
void cluster_close(Agent *agent);
/* How each reading is doing. */
void cluster_fill_self(const Agent *agent, ExporterSelf *self);
/* For PodResourcesConfig; `self` is the Agent. */
void cluster_want_pods(void *self);
void cluster_label_row(void *self, Allocation *row);
bool cluster_find_device(void *self, const AllocationClaim *claim, AllocationDevice *ret, const char **ret_profile);

/* reload.c: SIGHUP and changed files. The old configuration stays in force where the new one is bad. */
void agent_reload(Agent *agent, const char *why);
void agent_watch_files(Agent *agent);
/* Starts and stops what the configuration turns on and off while the agent runs. */
int agent_apply(Agent *agent, Err *err);
