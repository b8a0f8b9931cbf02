/* SPDX-License-Identifier: Apache-2.0 */
/* See glance.h. The loop is turned until what can be known is known. */
#include "verb/agent/glance.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "base/vec.h"
#include "engine/activity/activity.h"
#include "engine/health/detect.h"
#include "engine/health/incidents.h"
#include "source/host/host.h"
#include "source/host/scan.h"
#include "source/proc/pods.h"
#include "verb/agent/eyes.h"
#include "verb/agent/faults.h"

enum { LOOK_MS = 1500, LOOK_LATE_MS = 6000, TURN_MS = 20, PROCESSES_MAX = 1024, SERIES_MAX = 16384 };

struct Glance {
    uv_loop_t loop;
    uv_timer_t pace; /* so that the loop turns */
    Log log;
    AgentConfig *config;
    Eyes eyes;
    Store *store; /* the samples so far, for the activities */
    uint64_t stored_s;
    Activities *activities;
    Catalogue *catalogue;
    Maintenance *maintenance; /* none is kept */
    Incidents *incidents;
    Detectors *detectors;
    Host *host;
    VEC(const Incident *) open;
    Snapshot snapshot;
    uint64_t limit_ns;
    bool stopped;
    UserNames *users; /* NULL: nobody was asked for yet */
    PodNames *pods;
    HostBoot boot;
    VEC(ProcessOwner) processes; /* of the last JSON */
    HostPlaces places;           /* looked for when there are other GPUs than before */
    size_t places_of;
};

static void paced(uv_timer_t *timer)
{
    (void)timer;
}

static int make_config(const GlanceOptions *options, AgentConfig **ret, Err *err)
{
    TRY(agent_config_defaults(ret, err));
    (*ret)->o.library = arena_strdup(&(*ret)->arena, options->library);
    (*ret)->o.root = options->root ? arena_strdup(&(*ret)->arena, options->root) : NULL;
    return 0;
}

static void plan_everything(Board *board, const AgentConfig *config)
{
    BoardPlan plan = {.want_processes = true, .want_links = true};

    memset(&plan.wanted, 0xff, sizeof plan.wanted);
    memcpy(plan.period_ns, config->exporter.period_ns, sizeof plan.period_ns);
    for (MetricId id = 0; id < METRIC_END; id++)
        if (metric_get(id)->pace == METRIC_PACE_BLOCKING)
            plan.wanted[id / 64] &= ~(UINT64_C(1) << (id % 64));
    board_set_plan(board, &plan);
}

static void ignore_change(void *self, const Incident *incident, IncidentChange change)
{
    (void)self;
    (void)incident;
    (void)change;
}

/* One sample has to do: what is wrong is told at once. */
static int open_judge(Glance *glance, const GlanceOptions *options, Err *err)
{
    const HostConfig host = {.root = options->root ? options->root : "", .period_ns = glance->config->o.slow_ns};
    size_t count = 0;
    const DetectorSpec *specs = detector_specs(&count);

    TRY(faults_load(NULL, 0, specs, count, &glance->catalogue, err));
    catalogue_open_at_once(glance->catalogue);
    glance->incidents = incidents_new(glance->catalogue, glance->maintenance, ignore_change, glance);
    glance->detectors = detectors_new(glance->catalogue, NULL);
    return host_open(&host, &glance->host, err);
}

int glance_new(const GlanceOptions *options, Glance **ret, Err *err)
{
    Glance *glance = xcalloc(1, sizeof *glance);

    host_boot(options->root ? options->root : "", &glance->boot);
    glance->pods = pod_names_new();
    glance->store = store_new(SERIES_MAX);
    glance->activities = activities_new();
    glance->maintenance = maintenance_new();
    glance->limit_ns = options->limit_ns ? options->limit_ns : LOOK_LATE_MS * NS_PER_MS;
    uv_loop_init(&glance->loop);
    uv_timer_init(&glance->loop, &glance->pace);
    log_init(&glance->log, LOG_LEVEL_ERROR, LOG_FORMAT_TEXT, "stoker", clock_kernel());
    int rc = make_config(options, &glance->config, err);
    if (rc == 0)
        rc = open_judge(glance, options, err);
    if (rc == 0)
        rc = eyes_open(&glance->eyes, &glance->loop, glance->config, &glance->log, err);
    if (rc < 0) {
        glance_free(glance);
        return rc;
    }
    plan_everything(glance->eyes.board, glance->config);
    uv_timer_start(&glance->pace, paced, TURN_MS, TURN_MS);
    *ret = glance;
    return 0;
}

static void stopped(void *self)
{
    ((Glance *)self)->stopped = true;
}

void glance_free(Glance *glance)
{
    if (!glance)
        return;
    if (glance->eyes.started) {
        eyes_stop(&glance->eyes, stopped, glance);
        while (!glance->stopped)
            uv_run(&glance->loop, UV_RUN_ONCE);
    }
    eyes_close(&glance->eyes);
    uv_close((uv_handle_t *)&glance->pace, NULL);
    uv_run(&glance->loop, UV_RUN_DEFAULT);
    uv_loop_close(&glance->loop);
    agent_config_free(glance->config);
    user_names_free(glance->users);
    pod_names_free(glance->pods);
    host_close(glance->host);
    detectors_free(glance->detectors);
    incidents_free(glance->incidents);
    maintenance_free(glance->maintenance);
    catalogue_free(glance->catalogue);
    vec_done(&glance->open);
    activities_free(glance->activities);
    store_free(glance->store);
    vec_done(&glance->processes);
    vec_done(&glance->places);
    free(glance);
}

static void add_sign(void *self, const Sign *sign)
{
    incidents_add_sign(((Glance *)self)->incidents, sign);
}

/* What is wrong by this sample: detectors, catalogue and incidents as in the agent. */
static void judge_node(Glance *glance, const Node *node)
{
    const Incidents *all = glance->incidents;

    incidents_set_node(glance->incidents, node);
    host_tick(glance->host, node->time_ns, NULL, 0);
    detectors_turn(glance->detectors, node, host_facts(glance->host), add_sign, glance);
    incidents_advance(glance->incidents, node->time_ns, node->real_ns);
    vec_clear(&glance->open);
    for (size_t i = 0; i < incidents_count(all); i++)
        if (incidents_at(all, i)->state == INCIDENT_OPEN)
            vec_push(&glance->open, incidents_at(all, i));
}

/* The view of now; once a second its readings are stored and judged. */
static const Node *take_view(Glance *glance)
{
    const Node *node = eyes_look(&glance->eyes);

    if (node->time_ns / NS_PER_S != glance->stored_s) {
        store_add_node(glance->store, node);
        judge_node(glance, node);
    }
    glance->stored_s = node->time_ns / NS_PER_S;
    return node;
}

/* Who is on the GPUs, by pid. */
static void find_processes(Glance *glance, const Node *node)
{
    const char *root = glance->config->o.root ? glance->config->o.root : "";
    uint32_t pids[PROCESSES_MAX];
    const size_t count = process_pids_settle(pids, node_pids(node, pids, PROCESSES_MAX));

    vec_clear(&glance->processes);
    if (count == 0)
        return;
    if (!glance->users)
        glance->users = user_names_read(root);
    for (size_t i = 0; i < count; i++)
        process_owner_init(vec_add(&glance->processes), pids[i]);
    process_owners_fill(root, glance->users, glance->pods, glance->processes.at, count);
}

static void find_places(Glance *glance, const Node *node)
{
    const char *root = glance->config->o.root ? glance->config->o.root : "";
    PciAddress gpus[NODE_GPUS_MAX];
    size_t count = 0;

    for (size_t i = 0; i < node->gpu_count; i++)
        if (node->gpus[i].reading.device.has_pci)
            gpus[count++] = node->gpus[i].reading.device.pci;
    if (glance->places_of != count)
        host_places_read(root, gpus, count, &glance->places);
    glance->places_of = count;
}

static const Snapshot *make_snapshot(Glance *glance, const Node *node)
{
    store_add_node(glance->store, node);
    judge_node(glance, node);
    find_processes(glance, node);
    find_places(glance, node);
    glance->snapshot = (Snapshot){.node = node,
                                  .processes = {glance->processes.at, glance->processes.len},
                                  .places = {glance->places.at, glance->places.len},
                                  .boot_id = glance->boot.id,
                                  .boot_real_ns = glance->boot.real_ns,
                                  .incidents = glance->open.at,
                                  .incident_count = glance->open.len};
    activities_update(glance->activities, &glance->snapshot, glance->store);
    return &glance->snapshot;
}

/* Whether every GPU that will be sampled was. */
static bool seen_all(const Node *node)
{
    if (node->driver_why[0])
        return true;
    for (size_t i = 0; i < node->gpu_count; i++)
        if (node->gpus[i].state == GPU_STARTING)
            return false;
    return node->gpu_count > 0;
}

const Snapshot *glance_see(Glance *glance)
{
    Clock *clock = clock_kernel();
    uint64_t start = clock_monotonic(clock);
    const Node *node;

    /* a second and a half for rates, which need two readings; longer while a GPU has not answered */
    for (;;) {
        uint64_t passed = clock_monotonic(clock) - start;

        uv_run(&glance->loop, UV_RUN_ONCE);
        node = take_view(glance);
        if (passed > glance->limit_ns || (passed > LOOK_MS * NS_PER_MS && seen_all(node)))
            break;
    }
    return make_snapshot(glance, node);
}

const Snapshot *glance_now(Glance *glance)
{
    return make_snapshot(glance, take_view(glance));
}

void glance_turn(Glance *glance, uint64_t for_ns)
{
    Clock *clock = clock_kernel();
    const uint64_t start = clock_monotonic(clock);

    do
        uv_run(&glance->loop, UV_RUN_ONCE);
    while (clock_monotonic(clock) - start < for_ns);
}
