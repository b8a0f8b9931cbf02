/* SPDX-License-Identifier: Apache-2.0 */
/* engine/place/explain: causes planted into a cluster of two blocks with three racks of four nodes are found, alone and
 * two at a time, and every change that is returned lets the job run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "engine/place/explain.h"
#include "engine/place/placement.h"
#include "service/place/why_report.h"
#include "test/unit/golden.h"

enum {
    NODES = 24,
    RACKS = 6,
    BLOCKS = 2,
    FREE_RACK = 5, /* of A100 */
    H100S = 20,
    WORLD_JOBS = 128,
    WORLD_PLACES = H100S * PLACEMENT_NODE_PODS_MAX + WORLD_JOBS * 8,
    GPUS = 8,
    CORES = 96,
    MEMORY_GIB = 1024,
    NOW_S = 1700000000, /* 2023-11-14 22:13:20 UTC */
};

typedef struct World {
    ClusterNode nodes[NODES];
    ClusterJob jobs[WORLD_JOBS]; /* [0] waits */
    ClusterPlace places[WORLD_PLACES];
    ClusterQueue queues[2];
    ClusterRule rules[2];
    uint64_t bits[2];
    size_t node_count, job_count, place_count;
    Arena arena;
} World;

static const char *const models[] = {"H100", "A100", "B200"};
static const char *const racks[] = {"r1", "r2", "r3", "r4", "r5", "r6"};
static const char *const blocks[] = {"b1", "b2"};

static Cluster world_cluster(const World *w)
{
    return (Cluster){.nodes = w->nodes,
                     .jobs = w->jobs,
                     .queues = w->queues,
                     .node_count = w->node_count,
                     .job_count = w->job_count,
                     .queue_count = 2,
                     .models = models,
                     .model_count = ARRAY_LEN(models),
                     .domains = {[CLUSTER_RACK] = racks, [CLUSTER_BLOCK] = blocks},
                     .domain_counts = {[CLUSTER_RACK] = RACKS, [CLUSTER_BLOCK] = BLOCKS}};
}

/* --- a check of our own ----------------------------------------------------------------------------------------- */

typedef struct Left {
    int64_t cpu, memory, pods, gpu[CLUSTER_GPUS_MAX];
} Left;

static void count_left(const Cluster *c, Left *left)
{
    for (size_t i = 0; i < c->node_count; i++) {
        left[i] = (Left){c->nodes[i].cpu_milli, c->nodes[i].memory_mib, PLACEMENT_NODE_PODS_MAX, {0}};
        for (unsigned k = 0; k < c->nodes[i].gpu_count; k++)
            left[i].gpu[k] = c->nodes[i].gpus_broken >> k & 1 ? 0 : CLUSTER_GPU;
    }
    for (size_t i = 0; i < c->job_count; i++)
        for (size_t k = 0; k < c->jobs[i].place_count; k++) {
            const ClusterPlace *place = &c->jobs[i].places[k];
            const ClusterRequest *r = &c->jobs[i].roles[place->role].request;
            Left *l = &left[place->node];

            l->cpu -= r->cpu_milli;
            l->memory -= r->memory_mib;
            l->pods--;
            for (unsigned g = 0; g < CLUSTER_GPUS_MAX; g++)
                l->gpu[g] -= place->gpus >> g & 1 ? r->gpu_milli : 0;
        }
}

static int64_t min_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Pods of the job's only role for which a node has room. */
static int64_t count_room(const Cluster *c, const ClusterJob *job, size_t node, const Left *left)
{
    const ClusterRequest *r = &job->roles[0].request;
    int64_t room = left->pods, gpus = 0;

    if (c->nodes[node].closed || (r->gpu_count > 0 && r->models && !(r->models >> c->nodes[node].model & 1)))
        return 0;
    for (unsigned i = 0; i < r->rule_count; i++)
        if (!(r->rules[i].nodes[node / 64] >> node % 64 & 1))
            return 0;
    room = r->cpu_milli ? min_of(room, left->cpu / r->cpu_milli) : room;
    room = r->memory_mib ? min_of(room, left->memory / r->memory_mib) : room;
    for (unsigned g = 0; g < c->nodes[node].gpu_count && r->gpu_count > 0; g++)
        gpus += left->gpu[g] > 0 ? left->gpu[g] / r->gpu_milli : 0;
    room = r->gpu_count > 0 ? min_of(room, gpus / r->gpu_count) : room;
    return room > 0 ? room : 0;
}

static bool has_quota(const Cluster *c, const ClusterJob *job)
{
    const ClusterRequest *r = &job->roles[0].request;
    int64_t left = INT64_MAX, asked = (int64_t)r->gpu_count * r->gpu_milli * job->roles[0].min;

    for (size_t i = 0; i < c->queue_count && job->queue; i++)
        if (strcmp(c->queues[i].name, job->queue) == 0)
            left = (int64_t)c->queues[i].nominal;
    for (size_t i = 0; i < c->job_count && job->queue; i++)
        if (c->jobs[i].queue && strcmp(c->jobs[i].queue, job->queue) == 0)
            left -= (int64_t)c->jobs[i].place_count * c->jobs[i].roles[0].request.gpu_milli *
                    c->jobs[i].roles[0].request.gpu_count;
    return asked == 0 || left >= asked;
}

static bool is_startable(const Cluster *c, size_t number)
{
    const ClusterJob *job = &c->jobs[number];
    const bool bound = job->tier_required && job->tier < CLUSTER_TIER_END;
    int64_t most = 0, room[RACKS + 1] = {0};
    Left *left = calloc(c->node_count, sizeof *left);

    count_left(c, left);
    for (size_t i = 0; i < c->node_count; i++)
        room[bound ? c->nodes[i].domain[job->tier] : 1] += count_room(c, job, i, &left[i]);
    for (size_t d = 1; d <= RACKS; d++)
        most = room[d] > most ? room[d] : most;
    free(left);
    return most >= job->roles[0].min && has_quota(c, job);
}

/* --- the cluster, and what is planted --------------------------------------------------------------------------- */

static void run_job(World *w, uint32_t node, unsigned gpus, uint32_t cores, uint32_t gib)
{
    ClusterPlace *place = &w->places[w->place_count++];

    assert_true(w->job_count < WORLD_JOBS);
    *place = (ClusterPlace){.node = node, .gpus = (uint16_t)((1u << gpus) - 1)};
    w->jobs[w->job_count] = (ClusterJob){
        .name = arena_printf(&w->arena, "team-b/run-%zu", w->job_count),
        .queue = "team-b",
        .roles = {{.name = "",
                   .request = {.cpu_milli = cores * 1000,
                               .memory_mib = gib * 1024,
                               .gpu_milli = CLUSTER_GPU,
                               .gpu_count = (uint8_t)gpus},
                   .min = 1,
                   .max = 1}},
        .role_count = 1,
        .tier = CLUSTER_TIER_END,
        .preemptible = true,
        .started_s = NOW_S - 600 - 60 * w->job_count,
        .duration_s = 36000,
        .checkpoint_s = 1800,
        .places = place,
        .place_count = 1,
    };
    w->job_count++;
}

static World *make_world(void)
{
    World *w = calloc(1, sizeof *w);

    assert_non_null(w);
    for (uint32_t i = 0; i < NODES; i++)
        w->nodes[i] = (ClusterNode){
            .name = arena_printf(&w->arena, "gpu-%02u", i + 1),
            .cpu_milli = CORES * 1000,
            .memory_mib = MEMORY_GIB * 1024,
            .gpu_count = GPUS,
            .model = i / 4 == FREE_RACK,
            .domain = {[CLUSTER_RACK] = i / 4 + 1, [CLUSTER_BLOCK] = i / 12 + 1},
        };
    w->node_count = NODES;
    w->queues[0] = (ClusterQueue){"team-a", NULL, 64 * CLUSTER_GPU, UINT64_MAX, UINT64_MAX, 1};
    w->queues[1] = (ClusterQueue){"team-b", NULL, 1000 * CLUSTER_GPU, UINT64_MAX, UINT64_MAX, 1};
    w->jobs[0] = (ClusterJob){
        .name = "team-a/train-7",
        .queue = "team-a",
        .roles = {{.name = "",
                   .request = {.cpu_milli = 32000,
                               .memory_mib = 256 * 1024,
                               .gpu_milli = CLUSTER_GPU,
                               .gpu_count = 8,
                               .models = 1,
                               .rules = w->rules},
                   .min = 2,
                   .max = 2}},
        .role_count = 1,
        .tier = CLUSTER_TIER_END,
        .submitted_s = NOW_S - 3600,
    };
    w->job_count = 1;
    return w;
}

static void free_world(World *w)
{
    arena_done(&w->arena);
    free(w);
}

static ClusterRequest *asked_of(World *w)
{
    return &w->jobs[0].roles[0].request;
}

static void plant_rule(World *w)
{
    w->bits[0] = 0;
    w->rules[0] = (ClusterRule){&w->bits[0], "node selector disk=nvme"};
    asked_of(w)->rule_count = 1;
}

static void plant_model(World *w)
{
    asked_of(w)->models = 1 << 2;
}

static void plant_closed(World *w)
{
    for (size_t i = 0; i < NODES; i++)
        w->nodes[i].closed = true;
}

static void plant_gpus_never(World *w)
{
    asked_of(w)->gpu_count = 16;
}

static void plant_broken(World *w)
{
    for (size_t i = 0; i < NODES; i++)
        w->nodes[i].gpus_broken = 1 << 3;
}

static void plant_cpu_never(World *w)
{
    asked_of(w)->cpu_milli = 200 * 1000;
}

static void plant_memory_never(World *w)
{
    asked_of(w)->memory_mib = 2048 * 1024;
}

static void set_pods(World *w, uint32_t pods)
{
    ClusterRole *role = &w->jobs[0].roles[0];

    role->min = role->min > pods ? role->min : pods;
    role->max = role->min;
}

static void demand_rack(World *w)
{
    w->jobs[0].tier = CLUSTER_RACK;
    w->jobs[0].tier_required = true;
}

static void plant_cluster_never(World *w)
{
    set_pods(w, 30);
}

static void plant_domain_never(World *w)
{
    demand_rack(w);
    set_pods(w, 6);
}

static void plant_quota_never(World *w)
{
    w->queues[0].nominal = 8 * CLUSTER_GPU;
}

static void plant_quota(World *w)
{
    for (uint32_t i = 0; i < 7; i++) {
        run_job(w, i, GPUS, 8, 8);
        w->jobs[w->job_count - 1].queue = "team-a";
    }
}

static void plant_gpus(World *w)
{
    for (uint32_t i = 0; i < H100S; i++)
        run_job(w, i, GPUS, 8, 8);
}

static void plant_scattered(World *w)
{
    for (uint32_t i = 0; i < H100S; i++)
        run_job(w, i, 1, 8, 8);
}

static void plant_cpu(World *w)
{
    for (uint32_t i = 0; i < H100S; i++)
        run_job(w, i, 0, 80, 8);
}

static void plant_memory(World *w)
{
    for (uint32_t i = 0; i < H100S; i++)
        run_job(w, i, 0, 8, 900);
}

/* One job of many pods that ask for nothing. */
static void plant_pods(World *w)
{
    run_job(w, 0, 0, 0, 0);
    for (uint32_t i = 1; i < H100S * PLACEMENT_NODE_PODS_MAX; i++)
        w->places[w->place_count++] = (ClusterPlace){.node = i % H100S};
    w->jobs[w->job_count - 1].place_count = H100S * PLACEMENT_NODE_PODS_MAX;
}

static void plant_gang(World *w)
{
    for (uint32_t i = 1; i < H100S; i++)
        run_job(w, i, GPUS, 8, 8);
}

/* One free node in each rack. */
static void plant_topology(World *w)
{
    demand_rack(w);
    for (uint32_t i = 0; i < H100S; i++)
        if (i % 4 != 0)
            run_job(w, i, GPUS, 8, 8);
}

/* In the order of the causes. */
static const struct {
    ExplainCause cause;
    void (*plant)(World *w);
} plants[] = {
    {EXPLAIN_RULE, plant_rule},
    {EXPLAIN_MODEL, plant_model},
    {EXPLAIN_CLOSED, plant_closed},
    {EXPLAIN_GPUS_NEVER, plant_gpus_never},
    {EXPLAIN_GPUS_NEVER, plant_broken},
    {EXPLAIN_CPU_NEVER, plant_cpu_never},
    {EXPLAIN_MEMORY_NEVER, plant_memory_never},
    {EXPLAIN_CLUSTER_NEVER, plant_cluster_never},
    {EXPLAIN_DOMAIN_NEVER, plant_domain_never},
    {EXPLAIN_QUOTA_NEVER, plant_quota_never},
    {EXPLAIN_QUOTA, plant_quota},
    {EXPLAIN_GPUS, plant_gpus},
    {EXPLAIN_SCATTERED, plant_scattered},
    {EXPLAIN_CPU, plant_cpu},
    {EXPLAIN_MEMORY, plant_memory},
    {EXPLAIN_PODS, plant_pods},
    {EXPLAIN_GANG, plant_gang},
    {EXPLAIN_TOPOLOGY, plant_topology},
};

/* --- checks ----------------------------------------------------------------------------------------------------- */

static void check_jobs_to_end(const Cluster *c, size_t job, const ChangeStep *step)
{
    for (size_t i = 0; i < step->count && step->kind == CHANGE_END; i++) {
        assert_true(c->jobs[step->items[i]].preemptible);
        assert_true(c->jobs[step->items[i]].priority <= c->jobs[job].priority);
    }
}

/* Of one step: less of it does not work. */
static void check_least(const Cluster *c, size_t job, const Change *change, Arena *arena)
{
    static const int64_t back[CHANGE_END_OF_TABLE] = {
        [CHANGE_CPU] = 1000, [CHANGE_MEMORY] = 1024,        [CHANGE_GPUS] = 1,
        [CHANGE_PODS] = 1,   [CHANGE_QUOTA] = -CLUSTER_GPU, [CHANGE_ADD] = -1,
    };
    Change less = *change;
    ChangeStep *step = &less.steps[0];
    Cluster changed;

    if (change->step_count > 1)
        return;
    step->to = (uint64_t)((int64_t)step->to + back[step->kind]);
    if (back[step->kind] != 0 && step->to != step->from) {
        change_apply(c, job, &less, arena, &changed);
        assert_false(is_startable(&changed, job));
    }
    for (size_t i = 0; i < change->steps[0].count && back[step->kind] == 0; i++) {
        uint32_t *items = arena_memdup(arena, change->steps[0].items, change->steps[0].count * sizeof *items);

        items[i] = items[change->steps[0].count - 1];
        step->items = items;
        step->count = change->steps[0].count - 1;
        change_apply(c, job, &less, arena, &changed);
        assert_false(is_startable(&changed, job));
    }
}

static void check_changes(const Cluster *c, size_t job, const Explanation *e, Arena *arena)
{
    for (size_t i = 0; i < e->change_count; i++) {
        Cluster changed;
        Explanation then;

        change_apply(c, job, &e->changes[i], arena, &changed);
        assert_true(is_startable(&changed, job));
        assert_int_equal(explain_job(&changed, job, NOW_S, arena, &then, NULL), 0);
        assert_int_equal(then.reasons[0].cause, EXPLAIN_NOTHING);
        for (size_t k = 0; k < e->changes[i].step_count; k++)
            check_jobs_to_end(c, job, &e->changes[i].steps[k]);
        check_least(c, job, &e->changes[i], arena);
    }
}

static void end_jobs_until(World *w, uint64_t end_s)
{
    for (size_t i = 0; i < w->job_count; i++)
        if (w->jobs[i].duration_s && w->jobs[i].started_s + w->jobs[i].duration_s <= end_s)
            w->jobs[i].place_count = 0;
}

/* It starts when those have ended that end until then, and not before. Ends jobs. */
static void check_start(World *w, const Explanation *e)
{
    const Cluster c = world_cluster(w);

    if (e->start != EXPLAIN_AT)
        return;
    end_jobs_until(w, e->start_s - 1);
    assert_false(is_startable(&c, 0));
    end_jobs_until(w, e->start_s);
    assert_true(is_startable(&c, 0));
}

static Explanation explain_world(World *w)
{
    const Cluster c = world_cluster(w);
    Explanation e;

    assert_int_equal(explain_job(&c, 0, NOW_S, &w->arena, &e, NULL), 0);
    assert_true(e.reason_count > 0 && e.reason_count <= EXPLAIN_REASONS_MAX);
    assert_int_equal(e.reasons[0].cause == EXPLAIN_NOTHING, is_startable(&c, 0));
    return e;
}

static void check_case(size_t a, size_t b)
{
    World *w = make_world();
    Cluster c;

    plants[a].plant(w);
    if (b != a)
        plants[b].plant(w);
    c = world_cluster(w);
    const Explanation e = explain_world(w);
    if (e.reasons[0].cause != plants[a].cause)
        fail_msg("%s with %s: said %s", explain_causes[plants[a].cause].key, explain_causes[plants[b].cause].key,
                 explain_causes[e.reasons[0].cause].key);
    if (e.change_count == 0)
        fail_msg("%s with %s: no change", explain_causes[plants[a].cause].key, explain_causes[plants[b].cause].key);
    assert_true(e.reasons[0].have < e.reasons[0].want || e.reasons[0].cause == EXPLAIN_SCATTERED);
    check_changes(&c, 0, &e, &w->arena);
    check_start(w, &e);
    free_world(w);
}

static void each_cause_alone_is_the_main_one(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(plants); i++)
        check_case(i, i);
}

/* With one node free and one GPU of it taken the free GPUs are no longer enough: not scattered but in use. */
static bool is_other_than_both(ExplainCause a, ExplainCause b)
{
    return a == EXPLAIN_SCATTERED && b == EXPLAIN_GANG;
}

static void of_two_causes_the_first_in_their_order_is_the_main_one(void **state)
{
    (void)state;
    for (size_t a = 0; a < ARRAY_LEN(plants); a++)
        for (size_t b = a + 1; b < ARRAY_LEN(plants); b++)
            if (!is_other_than_both(plants[a].cause, plants[b].cause))
                check_case(a, b);
}

/* --- random clusters -------------------------------------------------------------------------------------------- */

static uint32_t draw(uint64_t *seed, uint32_t below)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((*seed >> 33) % below);
}

static void draw_nodes(World *w, uint64_t *seed)
{
    for (size_t i = 0; i < NODES; i++) {
        w->nodes[i].gpu_count = (uint8_t)(4 * draw(seed, 3));
        w->nodes[i].model = (uint8_t)draw(seed, 2);
        w->nodes[i].closed = draw(seed, 10) == 0;
        w->nodes[i].gpus_broken = draw(seed, 8) == 0 ? (uint16_t)(1 << draw(seed, 4)) : 0;
        w->nodes[i].domain[CLUSTER_RACK] = draw(seed, RACKS + 1); /* 0: in none */
    }
}

static ClusterRequest draw_request(uint64_t *seed)
{
    static const uint8_t gpus[] = {0, 1, 1, 2, 4, 8};
    const uint8_t count = gpus[draw(seed, ARRAY_LEN(gpus))];

    return (ClusterRequest){.cpu_milli = 1000 * draw(seed, 50),
                            .memory_mib = 1024 * draw(seed, 500),
                            .gpu_milli = count == 1 && draw(seed, 2) ? 400 : CLUSTER_GPU,
                            .gpu_count = count};
}

/* On a node with room for it; none where that has none. */
static void draw_running(World *w, uint64_t *seed)
{
    const uint32_t node = draw(seed, NODES);
    const ClusterRequest r = draw_request(seed);
    Left left[NODES];
    Cluster c;
    uint16_t gpus = 0;
    unsigned found = 0;

    c = world_cluster(w);
    count_left(&c, left);
    for (unsigned g = 0; g < CLUSTER_GPUS_MAX && found < r.gpu_count; g++)
        if (left[node].gpu[g] >= r.gpu_milli) {
            gpus = (uint16_t)(gpus | 1u << g);
            found++;
        }
    if (found < r.gpu_count || left[node].cpu < r.cpu_milli || left[node].memory < r.memory_mib)
        return;
    run_job(w, node, r.gpu_count, 0, 0);
    ClusterJob *job = &w->jobs[w->job_count - 1];
    job->roles[0].request = r;
    w->places[w->place_count - 1].gpus = gpus;
    job->duration_s = draw(seed, 4) ? 20000 + draw(seed, 20000) : 0;
    job->preemptible = draw(seed, 2);
    job->priority = (int32_t)draw(seed, 3) - 1;
    job->queue = draw(seed, 2) ? "team-a" : "team-b";
}

static World *draw_world(uint64_t *seed)
{
    World *w = make_world();
    ClusterJob *job = &w->jobs[0];
    const uint32_t running = draw(seed, WORLD_JOBS - 1);

    draw_nodes(w, seed);
    for (uint32_t i = 0; i < running; i++)
        draw_running(w, seed);
    job->roles[0].request = draw_request(seed);
    job->roles[0].request.models = draw(seed, 4);
    job->roles[0].min = 1 + draw(seed, 5);
    job->roles[0].max = job->roles[0].min + draw(seed, 2);
    w->bits[0] = draw(seed, 1 << NODES);
    w->rules[0] = (ClusterRule){&w->bits[0], "taint team=b:NoSchedule"};
    asked_of(w)->rules = w->rules;
    asked_of(w)->rule_count = (uint8_t)draw(seed, 2);
    job->tier = draw(seed, 2) ? CLUSTER_RACK : CLUSTER_TIER_END;
    job->tier_required = draw(seed, 2);
    w->queues[0].nominal = CLUSTER_GPU * (20 + draw(seed, 60));
    return w;
}

static void random_clusters_are_explained_as_counted(void **state)
{
    size_t fitting = 0, changed = 0, starting = 0;

    (void)state;
    for (uint64_t i = 1; i <= 400; i++) {
        uint64_t seed = i;
        World *w = draw_world(&seed);
        const Cluster c = world_cluster(w);
        const Explanation e = explain_world(w);

        fitting += e.reasons[0].cause == EXPLAIN_NOTHING;
        changed += e.change_count > 0;
        starting += e.start == EXPLAIN_AT;
        assert_int_equal(e.overfull, 0);
        check_changes(&c, 0, &e, &w->arena);
        check_start(w, &e);
        free_world(w);
    }
    assert_true(fitting > 100 && changed > 100 && starting > 50); /* there is some of each */
    assert_true(fitting + changed == 400);
}

/* --- one by one ------------------------------------------------------------------------------------------------- */

static void of_several_jobs_the_one_that_loses_least_is_ended(void **state)
{
    World *w = make_world();
    Cluster c;

    (void)state;
    plant_gpus(w);
    asked_of(w)->gpu_count = 8;
    w->jobs[0].roles[0].min = w->jobs[0].roles[0].max = 1;
    for (size_t i = 1; i < w->job_count; i++)
        w->jobs[i].checkpoint_s = 0;
    w->jobs[1].preemptible = false; /* started last */
    w->jobs[2].priority = 1;
    w->jobs[9].checkpoint_s = 600; /* runs for 1140 s */
    c = world_cluster(w);
    const Explanation e = explain_world(w);
    assert_int_equal(e.changes[0].steps[0].kind, CHANGE_MODELS);
    assert_int_equal(e.changes[1].steps[0].kind, CHANGE_END);
    assert_int_equal(e.changes[1].steps[0].count, 1);
    assert_int_equal(e.changes[1].steps[0].items[0], 9);
    assert_int_equal(change_lost_s(&c.jobs[9], NOW_S), 540);
    assert_int_equal(change_lost_s(&c.jobs[3], NOW_S), 780);
    free_world(w);
}

/* Eight small jobs of one node that lose 100 s each, or one larger on another that loses 90 s, or 110 s. */
static void one_job_is_ended_rather_than_several_that_lose_more(void **state)
{
    World *w = make_world();

    (void)state;
    w->node_count = 2;
    w->jobs[0].roles[0].min = w->jobs[0].roles[0].max = 1;
    for (unsigned g = 0; g < GPUS; g++) {
        run_job(w, 0, 1, 1, 1);
        w->places[w->place_count - 1].gpus = (uint16_t)(1 << g);
        w->jobs[w->job_count - 1].started_s = NOW_S - 100;
    }
    run_job(w, 1, GPUS, 8, 8);
    w->jobs[9].started_s = NOW_S - 90;
    Explanation e = explain_world(w);
    assert_int_equal(e.changes[0].steps[0].kind, CHANGE_END);
    assert_int_equal(e.changes[0].steps[0].count, 1);
    assert_int_equal(e.changes[0].steps[0].items[0], 9);
    w->jobs[9].started_s = NOW_S - 110;
    e = explain_world(w);
    assert_int_equal(e.changes[0].steps[0].count, GPUS);
    free_world(w);
}

static void its_start_is_as_certain_as_the_ends(void **state)
{
    World *w = make_world();

    (void)state;
    plant_gpus(w);
    for (size_t i = 1; i <= H100S; i++)
        w->jobs[i].duration_s = 30000;
    Explanation e = explain_world(w);
    assert_int_equal(e.start, EXPLAIN_AT);
    assert_int_equal(e.start_s, w->jobs[H100S - 1].started_s + 30000); /* the second that ends */
    assert_int_equal(e.start_job, H100S - 1);
    for (size_t i = 1; i < H100S; i++)
        w->jobs[i].duration_s = i == 1 ? 700 : 0; /* unknown, and one that should have ended */
    w->jobs[1].started_s = NOW_S - 800;
    e = explain_world(w);
    assert_int_equal(e.start, EXPLAIN_UNKNOWN);
    w->jobs[0].roles[0].min = w->jobs[0].roles[0].max = H100S;
    w->queues[0].nominal = 1000 * CLUSTER_GPU;
    e = explain_world(w);
    assert_int_equal(e.start, EXPLAIN_NOT_BEFORE);
    assert_int_equal(e.start_s, w->jobs[H100S].started_s + 30000);
    w->jobs[0].roles[0].min = w->jobs[0].roles[0].max = H100S + 1;
    e = explain_world(w);
    assert_int_equal(e.start, EXPLAIN_NEVER);
    assert_true(e.impossible);
    free_world(w);
}

static void the_largest_holders_come_first(void **state)
{
    World *w = make_world();

    (void)state;
    for (uint32_t i = 0; i < H100S; i++)
        run_job(w, i, i == 13 ? 8 : 1, 1, 1);
    run_job(w, H100S, 8, 1, 1); /* on A100 */
    const Explanation e = explain_world(w);
    assert_int_equal(e.holder_count, EXPLAIN_HOLDERS_MAX);
    assert_int_equal(e.holders[0].job, 14);
    assert_int_equal(e.holders[0].gpus, 8);
    assert_int_equal(e.holders[0].node, 13);
    assert_int_equal(e.holders[1].job, 1);
    free_world(w);
}

/* The first nodes are closed, have a broken GPU or too few cores. */
static void new_nodes_are_like_one_that_helps(void **state)
{
    World *w = make_world();

    (void)state;
    w->node_count = 4;
    for (uint32_t i = 0; i < 4; i++) {
        run_job(w, i, GPUS, 8, 8);
        w->jobs[i + 1].preemptible = false;
    }
    w->nodes[0].cpu_milli = 16000;
    w->nodes[1].closed = true;
    w->nodes[1].gpus_broken = 1;
    const Explanation e = explain_world(w);
    assert_int_equal(e.change_count, 1);
    const ChangeStep *step = &e.changes[0].steps[0];
    assert_int_equal(step->kind, CHANGE_ADD);
    assert_int_equal(step->to, 2);
    assert_int_equal(step->items[0], 1);
    const Cluster c = world_cluster(w);
    check_changes(&c, 0, &e, &w->arena);
    free_world(w);
}

/* Racks with 1, 3, 0, 2, 1 and 1 free nodes. */
static void a_rack_that_lacks_little_gets_the_new_node(void **state)
{
    static const uint32_t taken[] = {3, 1, 4, 2, 3, 3};
    World *w = make_world();

    (void)state;
    demand_rack(w);
    set_pods(w, 4);
    for (uint32_t r = 0; r < ARRAY_LEN(taken); r++)
        for (uint32_t i = 0; i < taken[r]; i++) {
            run_job(w, 4 * r + i, GPUS, 8, 8);
            w->jobs[w->job_count - 1].preemptible = false;
        }
    Explanation e = explain_world(w);
    assert_int_equal(e.domain_count, EXPLAIN_DOMAINS_MAX);
    assert_int_equal(e.domains[0].domain, 2);
    assert_int_equal(e.domains[0].pods, 3);
    assert_int_equal(e.domains[1].domain, 4);
    assert_int_equal(e.domains[3].pods, 1);
    assert_int_equal(e.reasons[0].cause, EXPLAIN_TOPOLOGY);
    assert_int_equal(e.changes[0].steps[0].kind, CHANGE_GPUS);
    assert_int_equal(e.changes[1].steps[0].kind, CHANGE_TOPOLOGY);
    assert_int_equal(e.changes[2].steps[0].kind, CHANGE_ADD);
    assert_int_equal(e.changes[2].steps[0].to, 1);
    assert_int_equal(w->nodes[e.changes[2].steps[0].items[0]].domain[CLUSTER_RACK], 2);
    w->jobs[0].roles[0].max = 5; /* it can grow */
    e = explain_world(w);
    assert_int_equal(e.changes[1].steps[0].kind, CHANGE_PODS);
    assert_int_equal(e.changes[1].steps[0].to, 3);
    free_world(w);
}

static void a_queue_that_gets_quota_back_is_waited_for(void **state)
{
    World *w = make_world();

    (void)state;
    plant_quota(w);
    const Explanation e = explain_world(w);
    assert_int_equal(e.reasons[0].cause, EXPLAIN_QUOTA);
    assert_int_equal(e.quota_used, 56 * CLUSTER_GPU);
    assert_int_equal(e.quota_lacks, 8 * CLUSTER_GPU);
    assert_int_equal(e.start, EXPLAIN_AT);
    assert_int_equal(e.start_s, w->jobs[7].started_s + w->jobs[7].duration_s);
    free_world(w);
}

/* Own quota of 8, up to 4 of what others of its cohort leave: it lacks 4 of 16. */
static void what_can_be_borrowed_counts(void **state)
{
    World *w = make_world();
    Explanation e;

    (void)state;
    w->queues[0] = (ClusterQueue){"team-a", "team-b", 8 * CLUSTER_GPU, 4 * CLUSTER_GPU, UINT64_MAX, 1};
    const Cluster c = world_cluster(w);
    assert_int_equal(explain_job(&c, 0, NOW_S, &w->arena, &e, NULL), 0);
    assert_int_equal(e.reasons[0].cause, EXPLAIN_QUOTA_NEVER);
    assert_int_equal(e.reasons[0].have, 12 * CLUSTER_GPU);
    assert_int_equal(e.quota_borrowing, 4 * CLUSTER_GPU);
    assert_int_equal(e.changes[0].steps[0].kind, CHANGE_GPUS);
    assert_int_equal(e.changes[0].steps[0].to, 6);
    assert_int_equal(e.changes[1].steps[0].kind, CHANGE_QUOTA);
    assert_int_equal(e.changes[1].steps[0].to, 12 * CLUSTER_GPU);
    free_world(w);
}

/* What the system leaves of the memory differs; not all have enough of it. */
static void nodes_are_alike_whatever_is_left_to_them(void **state)
{
    World *w = make_world();

    (void)state;
    for (uint32_t i = 0; i < H100S; i++)
        w->nodes[i].memory_mib -= i;
    w->nodes[7].memory_mib = 1024;
    const Explanation e = explain_world(w);
    assert_int_equal(e.class_count, 3);
    assert_int_equal(e.classes[0].nodes, H100S - 1);
    assert_int_equal(e.classes[0].reason.cause, EXPLAIN_NOTHING);
    assert_int_equal(e.classes[1].nodes, 1);
    assert_int_equal(e.classes[1].reason.cause, EXPLAIN_MEMORY_NEVER);
    free_world(w);
}

static void what_can_be_opened_or_repaired_is_possible(void **state)
{
    World *w = make_world();

    (void)state;
    plant_closed(w);
    plant_broken(w);
    assert_false(explain_world(w).impossible);
    plant_cpu_never(w);
    assert_true(explain_world(w).impossible);
    free_world(w);
}

/* What can never be had is not said again as what is not free now. */
static void a_cause_is_named_once(void **state)
{
    World *w = make_world();

    (void)state;
    plant_quota_never(w);
    plant_domain_never(w);
    asked_of(w)->models = 0;
    const Explanation e = explain_world(w);
    assert_int_equal(e.reason_count, 2);
    assert_int_equal(e.reasons[0].cause, EXPLAIN_DOMAIN_NEVER);
    assert_int_equal(e.reasons[1].cause, EXPLAIN_QUOTA_NEVER);
    free_world(w);
}

/* Of nodes with 1, 3 and 2 free GPUs. */
static void the_best_node_is_measured(void **state)
{
    World *w = make_world();

    (void)state;
    w->node_count = 3;
    run_job(w, 0, 7, 1, 1);
    run_job(w, 1, 5, 1, 1);
    run_job(w, 2, 6, 1, 1);
    const Explanation e = explain_world(w);
    assert_int_equal(e.reasons[0].cause, EXPLAIN_GPUS);
    assert_int_equal(e.reasons[0].have, 3);
    assert_int_equal(e.reasons[0].nodes, 3);
    free_world(w);
}

/* A second pod on GPUs that are taken, and one whose GPUs are not known. */
static void a_wrong_record_is_counted_and_the_rest_explained(void **state)
{
    World *w = make_world();

    (void)state;
    w->node_count = 1;
    w->jobs[0].roles[0].min = w->jobs[0].roles[0].max = 1;
    asked_of(w)->gpu_count = 4;
    run_job(w, 0, 2, 8, 8);
    run_job(w, 0, 2, 100, 8);
    run_job(w, 0, 3, 0, 0);
    w->places[2].gpus = 0;
    const Cluster c = world_cluster(w);
    Explanation e;
    assert_int_equal(explain_job(&c, 0, NOW_S, &w->arena, &e, NULL), 0);
    assert_int_equal(e.overfull, 1);
    assert_int_equal(e.reasons[0].cause, EXPLAIN_GPUS);
    assert_int_equal(e.reasons[0].have, 3);
    assert_int_equal(e.reasons[0].want, 4);
    asked_of(w)->gpu_count = 3;
    assert_int_equal(explain_job(&c, 0, NOW_S, &w->arena, &e, NULL), 0);
    assert_int_equal(e.reasons[0].cause, EXPLAIN_CPU);
    assert_int_equal(e.reasons[0].have, 0);
    free_world(w);
}

static void waiting_jobs_in_front_are_counted(void **state)
{
    World *w = make_world();

    (void)state;
    for (size_t i = 1; i <= 4; i++)
        w->jobs[i] = (ClusterJob){.name = "x", .submitted_s = NOW_S - 3600 + i - 3, .priority = i == 4};
    w->job_count = 5;
    const Explanation e = explain_world(w);
    assert_int_equal(e.reasons[0].cause, EXPLAIN_NOTHING);
    assert_int_equal(e.in_front, 3); /* two are older, one is more important */
    assert_int_equal(e.change_count, 0);
    free_world(w);
}

/* A launcher without GPUs that finds no room for its cores. */
static void the_role_that_does_not_fit_is_explained(void **state)
{
    World *w = make_world();

    (void)state;
    w->jobs[0].roles[1] = w->jobs[0].roles[0];
    w->jobs[0].roles[0] = (ClusterRole){"launcher", {.cpu_milli = 200000}, 1, 1};
    w->jobs[0].role_count = 2;
    const Cluster c = world_cluster(w);
    Explanation e;
    assert_int_equal(explain_job(&c, 0, NOW_S, &w->arena, &e, NULL), 0);
    assert_int_equal(e.pods, 3);
    assert_int_equal(e.pods_fit, 2);
    assert_int_equal(e.role, 0);
    assert_int_equal(e.reasons[0].cause, EXPLAIN_CLUSTER_NEVER);
    assert_int_equal(e.reasons[2].cause, EXPLAIN_CPU_NEVER);
    assert_int_equal(e.changes[0].steps[0].kind, CHANGE_CPU);
    assert_int_equal(e.changes[0].steps[0].role, 0);
    assert_int_equal(e.changes[0].steps[0].to, 96000);
    free_world(w);
}

/* Half of a gang of four runs on the only nodes; then of one that is large enough. */
static void the_rest_of_a_gang_that_runs_in_part_is_explained(void **state)
{
    World *w = make_world();
    Explanation e;

    (void)state;
    w->node_count = 2;
    for (uint32_t i = 0; i < 2; i++)
        w->places[i] = (ClusterPlace){.node = i, .gpus = 0xff};
    w->jobs[0].places = w->places;
    w->jobs[0].place_count = 2;
    w->jobs[0].preemptible = true;
    w->jobs[0].roles[0].min = w->jobs[0].roles[0].max = 4;
    Cluster c = world_cluster(w);
    assert_int_equal(explain_job(&c, 0, NOW_S, &w->arena, &e, NULL), 0);
    assert_int_equal(e.reasons[0].cause, EXPLAIN_GPUS);
    assert_int_equal(e.pods_running, 2);
    assert_int_equal(e.pods, 2);
    assert_int_equal(e.holder_count, 1);
    assert_int_equal(e.holders[0].job, 0);
    assert_int_equal(e.changes[0].steps[0].kind, CHANGE_ADD);
    assert_int_equal(e.changes[0].steps[0].to, 2);
    w->node_count = 4;
    c = world_cluster(w);
    assert_int_equal(explain_job(&c, 0, NOW_S, &w->arena, &e, NULL), 0);
    assert_int_equal(e.reasons[0].cause, EXPLAIN_NOTHING);
    w->jobs[0].roles[0].min = 2;
    assert_true(explain_job(&c, 0, NOW_S, &w->arena, &e, NULL) < 0);
    free_world(w);
}

static void what_does_not_wait_is_an_error(void **state)
{
    World *w = make_world();
    Explanation e;
    Err err;

    (void)state;
    run_job(w, 0, 1, 1, 1);
    Cluster c = world_cluster(w);
    assert_true(explain_job(&c, 1, NOW_S, &w->arena, &e, &err) < 0);
    assert_string_equal(err.text, "job 'team-b/run-1' does not wait: it runs");
    w->queues[1].name = "team-a";
    c = world_cluster(w);
    assert_true(explain_job(&c, 0, NOW_S, &w->arena, &e, &err) < 0);
    assert_string_equal(err.text, "queue 'team-a' occurs twice");
    free_world(w);
}

static void a_cluster_without_nodes_lacks_all(void **state)
{
    World *w = make_world();

    (void)state;
    w->node_count = 0;
    const Explanation e = explain_world(w);
    assert_true(e.impossible);
    assert_int_equal(e.change_count, 0);
    free_world(w);
}

/* --- MIG instances ------------------------------------------------------------------------------------------------ */

static const char *const profiles[] = {"1g.10gb", "1g.20gb", "2g.20gb", "7g.80gb"};

/* A node with 7 instances of 1g.10gb and, where they are free, one of `other` on GPU 1; all of 1g.10gb are in use. */
static World *make_mig_world(uint8_t other, bool other_free)
{
    World *w = make_world();
    MigBoard *board = arena_calloc(&w->arena, 1, sizeof *board);
    ClusterMig *mig = arena_calloc(&w->arena, 1, sizeof *mig);
    ClusterInstance *instances = arena_calloc(&w->arena, 8, sizeof *instances);

    board->grid = 8;
    for (uint8_t i = 0; i < 2; i++)
        board->profiles[i] = (MigProfile){.size = 1, .starts = 0xff};
    board->profile_count = 2;
    for (uint8_t i = 0; i < 8; i++)
        instances[i] = (ClusterInstance){.gpu = i == 7, .profile = i == 7, .start = i % 7};
    *mig = (ClusterMig){.board = board, .gpus = 3, .fixed = true, .instances = instances, .instance_count = 8};
    mig->profiles[1] = 1;
    mig->profiles[other] = 2;
    w->nodes[1].mig = mig;
    for (unsigned i = 0; i < 7u + !other_free; i++) {
        run_job(w, 1, 0, 1, 1);
        w->jobs[w->job_count - 1].roles[0].request.gpu_count = 1;
        w->jobs[w->job_count - 1].roles[0].request.mig = i == 7 ? other : 1;
    }
    *asked_of(w) = (ClusterRequest){.cpu_milli = 1000, .gpu_count = 1, .mig = 1};
    w->jobs[0].roles[0].min = w->jobs[0].roles[0].max = 1;
    return w;
}

static Explanation explain_mig(World *w, Cluster *ret)
{
    Explanation e;

    *ret = world_cluster(w);
    ret->profiles = profiles;
    ret->profile_count = ARRAY_LEN(profiles);
    assert_int_equal(explain_job(ret, 0, NOW_S, &w->arena, &e, NULL), 0);
    for (size_t i = 0; i < e.change_count; i++) {
        Cluster changed;
        Explanation then;

        change_apply(ret, 0, &e.changes[i], &w->arena, &changed);
        assert_int_equal(explain_job(&changed, 0, NOW_S, &w->arena, &then, NULL), 0);
        assert_int_equal(then.reasons[0].cause, EXPLAIN_NOTHING);
    }
    return e;
}

static void a_mig_instance_of_another_profile_or_a_job_to_end_is_found(void **state)
{
    World *w = make_mig_world(3, true);
    Cluster c;
    Explanation e = explain_mig(w, &c);

    (void)state;
    assert_int_equal(e.reasons[0].cause, EXPLAIN_MIG);
    assert_int_equal(e.classes[0].mig, 7);
    assert_int_equal(e.classes[0].mig_free, 0);
    assert_int_equal(e.classes[0].gpus, 6);
    assert_int_equal(e.changes[0].steps[0].kind, CHANGE_PROFILE);
    assert_int_equal(e.changes[0].steps[0].items[0], 3);
    assert_int_equal(e.changes[1].steps[0].kind, CHANGE_END);
    assert_int_equal(e.changes[1].steps[0].count, 1);
    assert_int_equal(e.holder_count, 7);
    assert_int_equal(e.holders[0].gpus, 1);
    assert_int_equal(e.start, EXPLAIN_AT); /* the first of the seven ends */
    free_world(w);
    w = make_mig_world(3, false);
    e = explain_mig(w, &c);
    assert_int_equal(e.changes[0].steps[0].kind, CHANGE_END); /* nothing of another profile is free */
    assert_int_not_equal(e.changes[0].steps[0].items[0], 8);  /* nor does it help to end its holder */
    free_world(w);
}

static void the_nearest_profile_that_is_not_smaller_comes_first(void **state)
{
    World *w = make_mig_world(3, true);
    ClusterMig second = *w->nodes[1].mig, third = second;
    Cluster c;

    (void)state;
    second.profiles[1] = third.profiles[1] = 0;
    second.profiles[3] = third.profiles[3] = 0;
    second.profiles[2] = 2;
    third.profiles[4] = 2;
    w->nodes[2].mig = &third;
    w->nodes[3].mig = &second;
    asked_of(w)->mig = 1;
    Explanation e = explain_mig(w, &c);
    assert_int_equal(e.changes[0].steps[0].items[0], 2); /* as near as 2g.20gb, and the first of both */
    asked_of(w)->mig = 4;
    w->nodes[2].mig = NULL;
    e = explain_mig(w, &c);
    assert_int_equal(e.reasons[0].cause, EXPLAIN_MIG_NEVER);
    assert_true(e.impossible);
    assert_int_equal(e.changes[0].steps[0].items[0], 2); /* all are smaller */
    free_world(w);
}

static void whole_gpus_and_mig_instances_do_not_mix(void **state)
{
    World *w = make_mig_world(3, false);
    Cluster c;

    (void)state;
    for (uint32_t i = 0; i < NODES; i++)
        w->nodes[i].closed = i != 1;
    *asked_of(w) = (ClusterRequest){.gpu_count = 7, .gpu_milli = CLUSTER_GPU};
    Explanation e = explain_mig(w, &c);
    assert_int_equal(e.reasons[0].cause, EXPLAIN_GPUS_NEVER);
    assert_int_equal(e.reasons[0].have, 6);
    asked_of(w)->gpu_count = 6;
    e = explain_mig(w, &c);
    assert_int_equal(e.reasons[0].cause, EXPLAIN_NOTHING);
    run_job(w, 1, 0, 1, 1);
    w->jobs[w->job_count - 1].roles[0].request.gpu_count = 1;
    w->jobs[w->job_count - 1].roles[0].request.mig = 1;
    e = explain_mig(w, &c);
    assert_int_equal(e.overfull, 1); /* an eighth that holds one of seven */
    free_world(w);
}

/* --- text ------------------------------------------------------------------------------------------------------- */

static void plant_nothing(World *w)
{
    w->jobs[1] = (ClusterJob){.name = "team-a/older", .submitted_s = 1};
    w->job_count = 2;
}

static void plant_share(World *w)
{
    plant_gpus(w);
    *asked_of(w) =
        (ClusterRequest){.cpu_milli = 1500, .memory_mib = 512, .gpu_milli = 250, .gpu_count = 1, .models = 1};
    w->jobs[0].roles[0].min = w->jobs[0].roles[0].max = 1;
    for (size_t i = 1; i < w->job_count; i++)
        w->jobs[i].duration_s = 0;
}

static const struct {
    const char *name;
    void (*plants[2])(World *w);
} texts[] = {
    {"topology", {plant_topology, NULL}},
    {"scattered", {plant_scattered, NULL}},
    {"rule-and-quota", {plant_rule, plant_quota}},
    {"cpu-and-closed", {plant_closed, plant_cpu_never}},
    {"nothing", {plant_nothing, NULL}},
    {"share", {plant_share, NULL}},
    {"gang", {plant_gang, NULL}},
};

static void mig_texts_say_it(void **state)
{
    CLEANUP(str_done) Str out = str_limited(GOLDEN_MAX);
    World *w = make_mig_world(3, true);
    Cluster c;
    const Explanation e = explain_mig(w, &c);
    const WhyReport report = {&c, &e, NOW_S};

    (void)state;
    why_report_text(&report, &out);
    why_report_json(&report, &out);
    str_addc(&out, '\n');
    assert_golden(DATA "/why-mig.txt", &out);
    free_world(w);
}

static void texts_and_json_say_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        CLEANUP(str_done) Str out = str_limited(GOLDEN_MAX);
        World *w = make_world();

        for (size_t k = 0; k < 2 && texts[i].plants[k]; k++)
            texts[i].plants[k](w);
        const Cluster c = world_cluster(w);
        const Explanation e = explain_world(w);
        const WhyReport report = {&c, &e, NOW_S};
        why_report_text(&report, &out);
        if (i == 0) {
            why_report_json(&report, &out);
            str_addc(&out, '\n');
        }
        assert_golden(arena_printf(&w->arena, DATA "/why-%s.txt", texts[i].name), &out);
        free_world(w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_cause_alone_is_the_main_one),
        cmocka_unit_test(of_two_causes_the_first_in_their_order_is_the_main_one),
        cmocka_unit_test(random_clusters_are_explained_as_counted),
        cmocka_unit_test(of_several_jobs_the_one_that_loses_least_is_ended),
        cmocka_unit_test(one_job_is_ended_rather_than_several_that_lose_more),
        cmocka_unit_test(its_start_is_as_certain_as_the_ends),
        cmocka_unit_test(the_largest_holders_come_first),
        cmocka_unit_test(a_wrong_record_is_counted_and_the_rest_explained),
        cmocka_unit_test(waiting_jobs_in_front_are_counted),
        cmocka_unit_test(the_role_that_does_not_fit_is_explained),
        cmocka_unit_test(the_rest_of_a_gang_that_runs_in_part_is_explained),
        cmocka_unit_test(what_does_not_wait_is_an_error),
        cmocka_unit_test(a_cluster_without_nodes_lacks_all),
        cmocka_unit_test(new_nodes_are_like_one_that_helps),
        cmocka_unit_test(a_rack_that_lacks_little_gets_the_new_node),
        cmocka_unit_test(a_queue_that_gets_quota_back_is_waited_for),
        cmocka_unit_test(what_can_be_borrowed_counts),
        cmocka_unit_test(nodes_are_alike_whatever_is_left_to_them),
        cmocka_unit_test(what_can_be_opened_or_repaired_is_possible),
        cmocka_unit_test(a_cause_is_named_once),
        cmocka_unit_test(the_best_node_is_measured),
        cmocka_unit_test(texts_and_json_say_it),
        cmocka_unit_test(mig_texts_say_it),
        cmocka_unit_test(a_mig_instance_of_another_profile_or_a_job_to_end_is_found),
        cmocka_unit_test(the_nearest_profile_that_is_not_smaller_comes_first),
        cmocka_unit_test(whole_gpus_and_mig_instances_do_not_mix),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
