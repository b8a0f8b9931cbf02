/* SPDX-License-Identifier: Apache-2.0 */
/* The loop runs until every GPU was sampled and rates are known, or until the limit. */
#include "verb/agent/local_node.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "base/vec.h"
#include "engine/activity/activity.h"
#include "engine/health/detect.h"
#include "engine/health/incidents.h"
#include "engine/owner/holdings.h"
#include "engine/why/why.h"
#include "source/host/host.h"
#include "source/proc/who.h"
#include "verb/agent/sampling.h"

enum { WAIT_MS = 1500, LATE_MS = 6000, TURN_MS = 20, PROCESSES_MAX = 1024, SERIES_MAX = 16384 };

struct LocalNode {
    uv_loop_t loop;
    uv_timer_t pace; /* keeps the loop running */
    uv_poll_t watch;
    bool watching, called; /* called: what is watched can be read */
    uint32_t event_heads[NODE_SAMPLERS_MAX];
    Log log;
    AgentConfig *config;
    Sampling sampling;
    Store *store; /* the samples so far, for the activities */
    uint64_t stored_s;
    Activities *activities;
    Holdings *holdings;
    Whys *whys;
    Catalogue *catalogue;
    Maintenance *maintenance; /* none is kept */
    Incidents *incidents;
    Detectors *detectors;
    Host *host;
    const Incident *open[INCIDENTS_MAX];
    size_t open_count;
    Snapshot snapshot;
    uint64_t limit_ns;
    bool stopped;
    PodNames pods;
    VEC(ProcessOwner) processes; /* of the last snapshot */
};

static void ignore_timer(uv_timer_t *timer)
{
    (void)timer;
}

static void plan_everything(Board *board, const uint64_t period_ns[METRIC_PACE_END])
{
    BoardPlan plan = {.want_processes = true, .want_links = true};

    memset(&plan.wanted, 0xff, sizeof plan.wanted);
    memcpy(plan.period_ns, period_ns, sizeof plan.period_ns);
    for (MetricId id = 0; id < METRIC_END; id++)
        if (metric_get(id)->pace == METRIC_PACE_BLOCKING)
            plan.wanted[id / 64] &= ~(UINT64_C(1) << (id % 64));
    board_set_plan(board, &plan);
}

static int open_parts(LocalNode *local, const char *library, const char *root, Err *err)
{
    TRY(agent_config_defaults(&local->config, err));
    Arena *arena = &local->config->arena;
    AgentOptions *o = &local->config->o;
    o->library = arena_strdup(arena, library ? library : "");
    o->root = root ? arena_strdup(arena, root) : NULL;
    TRY(faults_load(&(OptList){0}, NULL, &local->catalogue, err));
    catalogue_open_at_once(local->catalogue); /* one sample must suffice: evidence counts at once */
    local->incidents = incidents_new(local->catalogue, local->maintenance, NULL, NULL);
    local->detectors = detectors_new(local->catalogue, NULL);
    TRY(host_open(&(HostConfig){.root = o->root, .period_ns = o->slow_ns}, &local->host, err));
    return sampling_open(&local->sampling, &local->loop, local->config, &local->log, err);
}

int local_node_new(const char *library, const char *root, uint64_t limit_ns, LocalNode **ret, Err *err)
{
    LocalNode *local = xcalloc(1, sizeof *local);

    local->store = store_new(SERIES_MAX);
    local->activities = activities_new();
    local->holdings = holdings_new();
    local->whys = whys_new();
    local->maintenance = maintenance_new();
    local->limit_ns = limit_ns ? limit_ns : LATE_MS * NS_PER_MS;
    uv_loop_init(&local->loop);
    uv_timer_init(&local->loop, &local->pace);
    log_init(&local->log, LOG_LEVEL_ERROR, LOG_FORMAT_TEXT, "stoker", clock_kernel());
    int rc = open_parts(local, library, root, err);
    if (rc < 0) {
        local_node_free(local);
        return rc;
    }
    plan_everything(local->sampling.board, local->config->exporter.period_ns);
    uv_timer_start(&local->pace, ignore_timer, TURN_MS, TURN_MS);
    *ret = local;
    return 0;
}

void local_node_hurry(LocalNode *local)
{
    uint64_t *period_ns = local->config->exporter.period_ns;

    period_ns[METRIC_PACE_FAST] = 100 * NS_PER_MS;
    period_ns[METRIC_PACE_NORMAL] = 200 * NS_PER_MS;
    period_ns[METRIC_PACE_SLOW] = NS_PER_S;
    plan_everything(local->sampling.board, period_ns);
}

static void note_stopped(void *self)
{
    ((LocalNode *)self)->stopped = true;
}

void local_node_free(LocalNode *local)
{
    if (!local)
        return;
    if (local->sampling.started) {
        sampling_stop(&local->sampling, note_stopped, local);
        while (!local->stopped)
            uv_run(&local->loop, UV_RUN_ONCE);
    }
    sampling_close(&local->sampling);
    uv_close((uv_handle_t *)&local->pace, NULL);
    if (local->watching)
        uv_close((uv_handle_t *)&local->watch, NULL);
    uv_run(&local->loop, UV_RUN_DEFAULT);
    uv_loop_close(&local->loop);
    agent_config_free(local->config);
    pod_names_done(&local->pods);
    host_close(local->host);
    detectors_free(local->detectors);
    incidents_free(local->incidents);
    maintenance_free(local->maintenance);
    catalogue_free(local->catalogue);
    whys_free(local->whys);
    activities_free(local->activities);
    holdings_free(local->holdings);
    store_free(local->store);
    vec_done(&local->processes);
    free(local);
}

static void add_evidence(void *self, const Evidence *evidence)
{
    incidents_add_evidence(((LocalNode *)self)->incidents, evidence);
}

/* Detectors, catalogue and incidents, as in the agent. */
static void detect_faults(LocalNode *local, const Node *node)
{
    incidents_set_node(local->incidents, node);
    host_tick(local->host, node->time_ns, NULL, 0);
    detectors_tick(local->detectors, node, host_facts(local->host),
                   &(DetectorSink){.evidence = add_evidence, .self = local});
    incidents_advance(local->incidents, node->time_ns, node->real_ns);
    local->open_count = incidents_list_open(local->incidents, local->open);
}

/* The node now; its readings are stored and checked for faults once a second. */
static const Node *sample_node(LocalNode *local)
{
    const Node *node = sampling_read(&local->sampling);

    if (node->time_ns / NS_PER_S != local->stored_s) {
        store_add_node(local->store, node);
        detect_faults(local, node);
    }
    local->stored_s = node->time_ns / NS_PER_S;
    return node;
}

/* The processes on the GPUs, by pid. */
static void find_processes(LocalNode *local, const Node *node)
{
    const char *root = local->config->o.root ? local->config->o.root : "";
    uint32_t pids[PROCESSES_MAX];
    const size_t count = process_pids_settle(pids, node_pids(node, pids, PROCESSES_MAX));

    vec_clear(&local->processes);
    for (size_t i = 0; i < count; i++)
        process_owner_init(vec_add(&local->processes), pids[i]);
    process_owners_fill(root, &local->pods, local->processes.at, count);
}

static const Snapshot *make_snapshot(LocalNode *local, const Node *node)
{
    store_add_node(local->store, node);
    detect_faults(local, node);
    find_processes(local, node);
    local->snapshot = (Snapshot){.node = node,
                                 .processes = {local->processes.at, local->processes.len, node->time_ns},
                                 .places = host_places(local->host),
                                 .facts = host_facts(local->host),
                                 .boot_id = host_facts(local->host)->boot_id,
                                 .boot_real_ns = host_facts(local->host)->boot_real_ns,
                                 .incidents = local->open,
                                 .incident_count = local->open_count};
    activities_update(local->activities, &local->snapshot, local->store);
    holdings_update(local->holdings, &local->snapshot);
    local->snapshot.holdings = holdings_list(local->holdings, &local->snapshot.holding_count);
    whys_update(local->whys, &local->snapshot, local->store, 1);
    return &local->snapshot;
}

/* Whether every GPU was sampled. */
static bool has_all_samples(const Node *node)
{
    if (node->driver_why[0])
        return true;
    for (size_t i = 0; i < node->gpu_count; i++)
        if (node->gpus[i].state == GPU_STARTING)
            return false;
    return node->gpu_count > 0;
}

const Snapshot *local_node_wait(LocalNode *local)
{
    Clock *clock = clock_kernel();
    uint64_t start = clock_monotonic(clock);
    const Node *node;

    /* a second and a half for rates, which need two readings; longer while a GPU has not answered */
    for (;;) {
        uint64_t passed = clock_monotonic(clock) - start;

        uv_run(&local->loop, UV_RUN_ONCE);
        node = sample_node(local);
        if (passed > local->limit_ns || (passed > WAIT_MS * NS_PER_MS && has_all_samples(node)))
            break;
    }
    return make_snapshot(local, node);
}

const Snapshot *local_node_read(LocalNode *local)
{
    return make_snapshot(local, sample_node(local));
}

void local_node_run(LocalNode *local, uint64_t for_ns)
{
    Clock *clock = clock_kernel();
    const uint64_t start = clock_monotonic(clock);

    do
        uv_run(&local->loop, UV_RUN_ONCE);
    while (!local->called && clock_monotonic(clock) - start < for_ns);
}

static void note_call(uv_poll_t *watch, int status, int events)
{
    LocalNode *local = watch->data;

    (void)status;
    (void)events;
    local->called = true;
    uv_poll_stop(watch);
}

uv_loop_t *local_node_loop(LocalNode *local)
{
    return &local->loop;
}

void local_node_watch(LocalNode *local, int fd)
{
    local->watching = uv_poll_init(&local->loop, &local->watch, fd) == 0;
    local->watch.data = local;
    if (local->watching)
        uv_poll_start(&local->watch, UV_READABLE, note_call);
}

size_t local_node_xids(LocalNode *local, XidEvent *out, size_t cap)
{
    size_t count = 0;

    for (size_t i = 0; i < NODE_SAMPLERS_MAX; i++) {
        XidEvent some[BOARD_EVENTS_LEN];
        uint64_t lost;
        const size_t n = board_read_events(&local->sampling.board->samplers[i], &local->event_heads[i], some, &lost);

        for (size_t k = 0; k < n && count < cap; k++)
            out[count++] = some[k];
    }
    return count;
}

bool local_node_explain(const LocalNode *local, const XidEvent *xid, FaultVerdict *ret)
{
    const Node *node = board_reader_node(local->sampling.reader);
    const NodeGpu *gpu = node_find_gpu(node, xid->gpu);
    Event event;

    event_init(&event, EVENT_XID, EVENT_FROM_NVML);
    event.code = (int32_t)xid->xid;
    return catalogue_match(local->catalogue, &event, (uint32_t)strtoul(node->driver_version, NULL, 10),
                           gpu ? gpu->reading.device.arch : 0, ret) &&
           ret->fault;
}
