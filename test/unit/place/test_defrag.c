/* SPDX-License-Identifier: Apache-2.0 */
/* engine/place/defrag: hand-made clusters, small random ones against all sequences of moves, and a large one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "service/place/defrag_report.h"
#include "test/unit/golden.h"

enum {
    NODES = 1200,
    JOBS = 5000,
    PLACES = 8000,
    GPUS = 8,
    CORES = 96,
    NOW_S = 1700000000,
};

typedef struct World {
    ClusterNode nodes[NODES];
    ClusterJob jobs[JOBS];
    ClusterPlace places[PLACES];
    char names[JOBS][24], node_names[NODES][24];
    size_t node_count, job_count, place_count;
    Arena arena;
    Defrag result;
    Cluster cluster;
} World;

static const char *const models[] = {"H100", "A100"};
static const char *const racks[] = {"r1", "r2"};

static World *world_new(void)
{
    return calloc(1, sizeof(World));
}

static void world_free(World *w)
{
    arena_done(&w->arena);
    free(w);
}

static ClusterNode *add_node(World *w, uint8_t gpus)
{
    ClusterNode *node = &w->nodes[w->node_count];

    snprintf(w->node_names[w->node_count], sizeof *w->node_names, "gpu-%zu", w->node_count + 1);
    *node = (ClusterNode){.name = w->node_names[w->node_count],
                          .cpu_milli = CORES * 1000,
                          .memory_mib = 1 << 20,
                          .gpu_count = gpus,
                          .domain = {[CLUSTER_RACK] = 1}};
    w->node_count++;
    return node;
}

/* A job of one role without pods, which loses `lost_s` seconds when it stops. */
static ClusterJob *add_job(World *w, const char *name, uint8_t gpus, uint64_t lost_s)
{
    ClusterJob *job = &w->jobs[w->job_count];

    snprintf(w->names[w->job_count], sizeof *w->names, "%s-%zu", name, w->job_count);
    w->job_count++;
    *job = (ClusterJob){.name = strchr(name, '/') ? name : w->names[w->job_count - 1],
                        .kind = "Pod",
                        .role_count = 1,
                        .tier = CLUSTER_TIER_END,
                        .preemptible = true,
                        .started_s = NOW_S - lost_s};
    job->roles[0] = (ClusterRole){
        .name = "",
        .request = {.cpu_milli = 1000, .memory_mib = 1024, .gpu_count = gpus, .gpu_milli = gpus ? CLUSTER_GPU : 0},
        .min = 1,
        .max = 1};
    return job;
}

/* Another pod of the job that was added last. */
static void add_place(World *w, uint32_t node, uint16_t gpus)
{
    ClusterJob *job = &w->jobs[w->job_count - 1];

    w->places[w->place_count] = (ClusterPlace){.node = node, .gpus = gpus};
    if (job->place_count++ == 0)
        job->places = &w->places[w->place_count];
    job->roles[0].min = job->roles[0].max = (uint32_t)job->place_count;
    w->place_count++;
}

static ClusterJob *add_pod(World *w, const char *name, uint32_t node, uint16_t gpus, uint64_t lost_s)
{
    ClusterJob *job = add_job(w, name, (uint8_t)__builtin_popcount(gpus), lost_s);

    add_place(w, node, gpus);
    return job;
}

static const Defrag *find(World *w, const ClusterJob *goal)
{
    w->cluster = (Cluster){.nodes = w->nodes,
                           .jobs = w->jobs,
                           .node_count = w->node_count,
                           .job_count = w->job_count,
                           .models = models,
                           .model_count = ARRAY_LEN(models),
                           .domains = {[CLUSTER_RACK] = racks},
                           .domain_counts = {[CLUSTER_RACK] = ARRAY_LEN(racks)}};
    const ClusterJob chosen = goal ? *goal : defrag_default(&w->cluster);
    defrag_find(&w->cluster, &chosen, NOW_S, &w->arena, &w->result);
    return &w->result;
}

static const Defrag *find_block(World *w, uint8_t gpus, uint32_t count)
{
    const ClusterJob goal = defrag_block(gpus, count);

    return find(w, &goal);
}

/* --- a check of our own ---------------------------------------------------------------------------------------------
 */

typedef struct Left {
    int64_t cpu, gpu[CLUSTER_GPUS_MAX];
} Left;

static void change_left(Left *left, const ClusterRequest *r, uint16_t gpus, int sign)
{
    left->cpu += sign * (int64_t)r->cpu_milli;
    for (unsigned i = 0; i < CLUSTER_GPUS_MAX; i++)
        left->gpu[i] += gpus >> i & 1 ? sign * r->gpu_milli : 0;
}

static void take_left(const ClusterNode *node, uint32_t number, Left *left, const ClusterRequest *r, uint16_t gpus)
{
    assert_false(node->closed);
    assert_int_equal(__builtin_popcount(gpus), r->gpu_count);
    for (unsigned i = 0; i < r->rule_count; i++)
        assert_true(r->rules[i].nodes[number / 64] >> number % 64 & 1);
    assert_true(!r->models || r->models >> node->model & 1);
    change_left(left, r, gpus, -1);
    assert_true(left->cpu >= 0);
    for (unsigned i = 0; i < CLUSTER_GPUS_MAX; i++)
        assert_true(left->gpu[i] >= 0);
}

static uint64_t sum_milli(const ClusterJob *job)
{
    return (uint64_t)job->place_count * job->roles[0].request.gpu_count * job->roles[0].request.gpu_milli;
}

static void check_gang(const World *w, const ClusterJob *job, const ClusterPlace *places)
{
    for (size_t k = 1; k < job->place_count; k++) {
        if (job->tier_required)
            assert_int_equal(w->nodes[places[k].node].domain[job->tier], w->nodes[places[0].node].domain[job->tier]);
        for (size_t i = 0; i < k && job->apart; i++)
            assert_int_not_equal(places[i].node, places[k].node);
    }
}

/* Carries it out, with places as they are recorded. */
static void check_plan(const World *w, const Defrag *d, const DefragPlan *plan)
{
    Left *left = calloc(w->node_count, sizeof *left);
    ClusterPlace *places = malloc(sizeof w->places);
    bool *stopped = calloc(w->job_count, sizeof *stopped);
    double lost = 0;

    memcpy(places, w->places, sizeof w->places);
    for (size_t i = 0; i < w->node_count; i++) {
        left[i].cpu = w->nodes[i].cpu_milli;
        for (unsigned k = 0; k < w->nodes[i].gpu_count; k++)
            left[i].gpu[k] = w->nodes[i].gpus_broken >> k & 1 ? 0 : CLUSTER_GPU;
    }
    for (size_t i = 0; i < w->job_count; i++)
        for (size_t k = 0; k < w->jobs[i].place_count; k++)
            change_left(&left[w->jobs[i].places[k].node], &w->jobs[i].roles[0].request, w->jobs[i].places[k].gpus, -1);
    for (size_t i = 0; i < plan->move_count; i++) {
        const DefragMove *move = &plan->moves[i];
        const ClusterJob *job = &w->jobs[move->job];
        ClusterPlace *place = &places[&job->places[move->pod] - w->places];

        assert_true(job->preemptible);
        assert_memory_equal(place, &move->from, sizeof *place);
        assert_memory_equal(&job->places[move->pod], &move->from, sizeof *place); /* it moves once */
        change_left(&left[place->node], &job->roles[0].request, place->gpus, 1);
        take_left(&w->nodes[move->to.node], move->to.node, &left[move->to.node], &job->roles[0].request, move->to.gpus);
        *place = move->to;
        if (!stopped[move->job])
            lost += (double)sum_milli(job) / CLUSTER_GPU * (double)(NOW_S - job->started_s + job->restart_s);
        stopped[move->job] = true;
    }
    for (size_t i = 0; i < w->job_count; i++)
        check_gang(w, &w->jobs[i], places + (w->jobs[i].places ? w->jobs[i].places - w->places : 0));
    for (size_t i = 0; i < d->goal_pods; i++) {
        const ClusterPlace *place = &plan->places[i];

        take_left(&w->nodes[place->node], place->node, &left[place->node], &d->goal.roles[0].request, place->gpus);
        if (d->goal.tier_required)
            assert_int_equal(w->nodes[place->node].domain[d->goal.tier],
                             w->nodes[plan->places[0].node].domain[d->goal.tier]);
    }
    assert_true(lost == plan->lost_gpu_s);
    free(left);
    free(places);
    free(stopped);
}

static void check_all(const World *w, const Defrag *d)
{
    for (size_t i = 0; i < d->plan_count; i++) {
        check_plan(w, d, &d->plans[i]);
        if (i > 0) {
            assert_true(d->plans[i].move_count < d->plans[i - 1].move_count);
            assert_true(d->plans[i].lost_gpu_s > d->plans[i - 1].lost_gpu_s);
        }
    }
    assert_true((d->plan_count > 0) == (d->outcome == DEFRAG_FOUND || d->outcome == DEFRAG_FITS));
}

/* --- hand-made ------------------------------------------------------------------------------------------------------
 */

/* A pod of one GPU blocks a node, and another node has room for it. */
static void make_lone(World *w)
{
    add_node(w, GPUS);
    add_node(w, GPUS);
    add_pod(w, "team-a/eval", 0, 0x04, 600);
    add_pod(w, "team-b/train", 1, 0x7f, 7200)->preemptible = false;
}

static void check_text(const World *w, const char *name)
{
    const DefragReport report = {.cluster = &w->cluster, .defrag = &w->result};
    CLEANUP(str_done) Str text = str_limited(GOLDEN_MAX);
    char path[512];

    defrag_report_text(&report, &text);
    snprintf(path, sizeof path, DATA "/defrag-%s.txt", name);
    assert_golden(path, &text);
}

static void test_lone(void **state)
{
    World *w = world_new();
    (void)state;

    make_lone(w);
    const Defrag *d = find_block(w, GPUS, 1);
    check_all(w, d);
    assert_int_equal(d->outcome, DEFRAG_FOUND);
    assert_int_equal(d->plan_count, 1);
    assert_int_equal(d->plans[0].move_count, 1);
    assert_int_equal(d->plans[0].moves[0].to.node, 1);
    assert_true(d->plans[0].lost_gpu_s == 600);
    assert_true(d->complete);
    assert_int_equal(d->now.idle, 8);
    assert_int_equal(d->now.scattered, 8);
    assert_int_equal(d->now.fits[3], 0);
    assert_int_equal(d->plans[0].after.scattered, 0);
    assert_int_equal(d->plans[0].after.fits[3], 1);
    check_text(w, "lone");
    world_free(w);
}

/* One pod that loses much, or two that lose little. */
static void make_two_ways(World *w)
{
    for (int i = 0; i < 3; i++)
        add_node(w, GPUS);
    add_pod(w, "team-a/long", 0, 0x03, 36000);
    add_pod(w, "team-a/short-1", 1, 0x01, 60);
    add_pod(w, "team-a/short-2", 1, 0x10, 120)->restart_s = 30;
    add_pod(w, "team-b/wall", 2, 0x3f, 0)->preemptible = false;
}

static void test_two_ways(void **state)
{
    World *w = world_new();
    (void)state;

    make_two_ways(w);
    const Defrag *d = find_block(w, GPUS, 1);
    check_all(w, d);
    assert_int_equal(d->plan_count, 2);
    assert_int_equal(d->plans[0].move_count, 2);
    assert_true(d->plans[0].lost_gpu_s == 60 + 150);
    assert_int_equal(d->plans[1].move_count, 1);
    assert_true(d->plans[1].lost_gpu_s == 72000);
    check_text(w, "two-ways");
    world_free(w);
}

/* A pod of 4 GPUs has room only when one of 2 has left: the target becomes free by an earlier move. */
static void make_chain(World *w)
{
    for (int i = 0; i < 3; i++)
        add_node(w, GPUS);
    add_pod(w, "team-a/big", 0, 0x0f, 100);
    add_pod(w, "team-b/wall", 1, 0x0f, 0)->preemptible = false;
    add_pod(w, "team-a/small", 1, 0x10, 100);
    add_pod(w, "team-b/wall", 2, 0x7f, 0)->preemptible = false;
}

static void test_chain(void **state)
{
    World *w = world_new();
    (void)state;

    make_chain(w);
    const Defrag *d = find_block(w, GPUS, 1);
    check_all(w, d);
    assert_int_equal(d->plan_count, 1);
    assert_int_equal(d->plans[0].move_count, 2);
    assert_int_equal(d->plans[0].moves[0].job, 2);
    assert_int_equal(d->plans[0].moves[1].job, 0);
    assert_int_equal(d->plans[0].moves[1].to.node, 1);
    check_text(w, "chain");
    world_free(w);
}

/* Of a gang one pod moves, and all of it is lost, once; its rack has to stay. */
static void test_gang(void **state)
{
    World *w = world_new();
    (void)state;

    for (int i = 0; i < 4; i++)
        add_node(w, GPUS)->domain[CLUSTER_RACK] = i < 2 ? 1 : 2;
    ClusterJob *gang = add_pod(w, "gang", 0, 0x01, 100);
    add_place(w, 0, 0x02);
    add_place(w, 1, 0x3f & ~0x3e);
    add_pod(w, "wall", 1, 0x3e, 0)->preemptible = false;
    add_pod(w, "wall", 3, 0x7f, 0)->preemptible = false;
    add_pod(w, "wall", 2, 0xfc, 0)->preemptible = false;
    const Defrag *d = find_block(w, GPUS, 1);
    check_all(w, d);
    assert_int_equal(d->plans[0].move_count, 2);
    assert_int_equal(d->plans[0].jobs_stopped, 1);
    assert_true(d->plans[0].lost_gpu_s == 300);

    gang->tier = CLUSTER_RACK;
    gang->tier_required = true;
    d = find_block(w, GPUS, 1);
    check_all(w, d);
    assert_int_equal(d->plans[0].moves[0].to.node, 1);
    assert_int_equal(d->plans[0].moves[1].to.node, 1);

    w->jobs[1].roles[0].request.gpu_count = 7; /* the rack is full: it goes to the other as a whole */
    w->places[3].gpus = 0xfe;
    d = find_block(w, GPUS, 1);
    check_all(w, d);
    assert_int_equal(d->outcome, DEFRAG_FOUND);
    assert_int_equal(d->plans[0].move_count, 3);
    assert_true(d->plans[0].lost_gpu_s == 300);
    world_free(w);
}

static void test_why_not(void **state)
{
    World *w = world_new();
    (void)state;

    make_lone(w);
    w->jobs[0].preemptible = false;
    assert_int_equal(find_block(w, GPUS, 1)->outcome, DEFRAG_PINNED);
    assert_int_equal(find_block(w, GPUS, 2)->outcome, DEFRAG_NOT_ENOUGH);
    assert_int_equal(find_block(w, 4, 1)->outcome, DEFRAG_FITS);
    w->jobs[0].preemptible = true;
    w->nodes[1].closed = true; /* its idle GPU is of no use */
    assert_int_equal(find_block(w, GPUS, 1)->outcome, DEFRAG_NOT_ENOUGH);
    add_node(w, 1);
    const uint64_t allowed = 0x3;
    const ClusterRule rule = {.nodes = &allowed, .text = "node selector"};
    w->jobs[0].roles[0].request.rules = &rule;
    w->jobs[0].roles[0].request.rule_count = 1;
    assert_int_equal(find_block(w, GPUS, 1)->outcome, DEFRAG_NONE);
    w->jobs[0].roles[0].request.rule_count = 0;
    assert_int_equal(find_block(w, GPUS, 1)->outcome, DEFRAG_FOUND);
    assert_int_equal(w->result.plans[0].moves[0].to.node, 2);
    world_free(w);
}

/* The largest waiting job that lacks room, not one that asks for more than is idle. */
static void test_default_goal(void **state)
{
    World *w = world_new();
    (void)state;

    make_lone(w);
    assert_null(find(w, NULL)->goal.name);
    add_job(w, "small", 4, 0);
    const size_t wants = w->job_count;
    add_job(w, "wants", 8, 0);
    add_job(w, "huge", 8, 0)->roles[0].min = 2;
    const Defrag *d = find(w, NULL);
    assert_string_equal(d->goal.name, w->jobs[wants].name);
    assert_int_equal(d->outcome, DEFRAG_FOUND);
    world_free(w);
}

/* Parts of GPUs: one moves beside another, on the same node. */
static void test_parts(void **state)
{
    World *w = world_new();
    (void)state;

    add_node(w, 2);
    for (int i = 0; i < 2; i++)
        add_pod(w, "part", 0, (uint16_t)(1 << i), 10)->roles[0].request.gpu_milli = 400;
    const ClusterJob goal = defrag_block(1, 1);
    assert_int_equal(find(w, &goal)->outcome, DEFRAG_FOUND);
    check_all(w, &w->result);
    assert_int_equal(w->result.now.parts_milli, 1200);
    assert_int_equal(w->result.plans[0].move_count, 1);
    assert_int_equal(w->result.plans[0].moves[0].to.node, 0);
    world_free(w);
}

/* Neither a record beyond what a node has nor one without GPUs is trusted. */
static void test_records(void **state)
{
    World *w = world_new();
    (void)state;

    make_lone(w);
    w->places[0].gpus = 0;
    const Defrag *d = find_block(w, GPUS, 1);
    assert_false(d->gpus_known);
    assert_int_equal(d->outcome, DEFRAG_FOUND);
    w->jobs[0].started_s = 0;
    d = find_block(w, GPUS, 1);
    assert_int_equal(d->plans[0].jobs_unknown, 1);
    assert_true(d->plans[0].lost_gpu_s == 0);
    add_pod(w, "double", 0, 0xff, 10);
    w->jobs[2].roles[0].request.cpu_milli = UINT32_MAX;
    d = find_block(w, GPUS, 1);
    assert_int_equal(d->now.idle, 1);
    assert_int_equal(d->outcome, DEFRAG_NOT_ENOUGH);
    world_free(w);
}

/* --- against all sequences of moves ---------------------------------------------------------------------------------
 */

enum { SMALL_PODS = 8, SMALL_STATES = 1 << (2 * SMALL_PODS), CASES = 600 };

typedef struct Small {
    unsigned nodes, pods, per_node;
    uint32_t job[SMALL_PODS], home[SMALL_PODS];
    uint8_t gpus[SMALL_PODS];
    uint32_t cpu[SMALL_PODS];
    unsigned goal_gpus, goal_count;
    uint32_t goal_cpu;
    bool goal_rack, goal_apart;
} Small;

static uint64_t draw(uint64_t *seed, uint64_t below)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (*seed >> 33) % below;
}

static bool is_on(const ClusterJob *job, uint32_t node)
{
    for (size_t i = 0; i < job->place_count; i++)
        if (job->places[i].node == node)
            return true;
    return false;
}

/* Nodes of 4 GPUs and 6 cores in two racks; jobs of one to three pods; as many as find room. */
static void make_small(World *w, Small *m, uint64_t *seed)
{
    unsigned idle[4], cores[4];

    *m = (Small){.nodes = 3 + (unsigned)draw(seed, 2), .per_node = 4};
    for (unsigned i = 0; i < m->nodes; i++) {
        ClusterNode *node = add_node(w, 4);

        node->domain[CLUSTER_RACK] = i % 2 + 1;
        node->cpu_milli = 6000;
        node->closed = draw(seed, 12) == 0;
        idle[i] = 4;
        cores[i] = 6;
    }
    for (unsigned tries = 0; tries < 7 && m->pods < SMALL_PODS; tries++) {
        const uint8_t gpus = (uint8_t)(draw(seed, 3) ? 1 : 2);
        const unsigned cpu = 1 + (unsigned)draw(seed, 2), wanted = draw(seed, 3) ? 1 : 3;
        ClusterJob *job = add_job(w, "job", gpus, 1 + draw(seed, 50));
        const uint64_t rack = draw(seed, 4) == 0 ? 1 + draw(seed, 2) : 0;

        job->roles[0].request.cpu_milli = cpu * 1000;
        job->preemptible = draw(seed, 6) > 0;
        job->tier = CLUSTER_RACK;
        job->tier_required = rack > 0;
        job->apart = draw(seed, 4) == 0;
        for (unsigned p = 0; p < wanted && m->pods < SMALL_PODS; p++) {
            const unsigned node = (unsigned)draw(seed, m->nodes);

            if (idle[node] < gpus || cores[node] < cpu || (rack && w->nodes[node].domain[CLUSTER_RACK] != rack) ||
                (job->apart && is_on(job, node)))
                continue;
            idle[node] -= gpus;
            cores[node] -= cpu;
            m->job[m->pods] = (uint32_t)w->job_count - 1;
            m->home[m->pods] = node;
            m->gpus[m->pods] = gpus;
            m->cpu[m->pods++] = cpu;
            add_place(w, node, (uint16_t)(((1u << gpus) - 1) << idle[node]));
        }
    }
    m->goal_gpus = 2 + (unsigned)draw(seed, 3);
    m->goal_count = 1 + (unsigned)draw(seed, 2);
    m->goal_cpu = (uint32_t)draw(seed, 4);
    m->goal_rack = draw(seed, 4) == 0;
    m->goal_apart = draw(seed, 4) == 0;
}

static unsigned node_of(uint32_t state, unsigned pod)
{
    return state >> (2 * pod) & 3;
}

static void count_small(const Small *m, uint32_t state, int idle[4], int cores[4])
{
    for (unsigned i = 0; i < m->nodes; i++) {
        idle[i] = 4;
        cores[i] = 6;
    }
    for (unsigned p = 0; p < m->pods; p++) {
        idle[node_of(state, p)] -= m->gpus[p];
        cores[node_of(state, p)] -= (int)m->cpu[p];
    }
}

static bool is_end(const World *w, const Small *m, uint32_t state)
{
    int idle[4], cores[4], room[3] = {0};

    count_small(m, state, idle, cores);
    for (unsigned i = 0; i < m->nodes; i++) {
        int fits = idle[i] / (int)m->goal_gpus;

        if (m->goal_cpu > 0 && cores[i] / (int)m->goal_cpu < fits)
            fits = cores[i] / (int)m->goal_cpu;
        fits = m->goal_apart && fits > 1 ? 1 : fits;
        room[m->goal_rack ? w->nodes[i].domain[CLUSTER_RACK] : 0] += w->nodes[i].closed ? 0 : fits;
    }
    for (unsigned p = 0; p < m->pods; p++)
        for (unsigned q = 0; q < p; q++) {
            const unsigned x = node_of(state, p), y = node_of(state, q);

            if (m->job[p] == m->job[q] &&
                ((w->jobs[m->job[p]].tier_required && x % 2 != y % 2) || (w->jobs[m->job[p]].apart && x == y)))
                return false;
        }
    return room[0] >= (int)m->goal_count || room[1] >= (int)m->goal_count || room[2] >= (int)m->goal_count;
}

static uint64_t price_state(const World *w, const Small *m, uint32_t state)
{
    uint64_t lost = 0;

    for (size_t j = 0; j < w->job_count; j++) {
        bool moved = false;

        for (unsigned p = 0; p < m->pods; p++)
            moved = moved || (m->job[p] == j && node_of(state, p) != m->home[p]);
        lost += moved ? sum_milli(&w->jobs[j]) / CLUSTER_GPU * (NOW_S - w->jobs[j].started_s) : 0;
    }
    return lost;
}

/* Least lost work for each number of moves; UINT64_MAX: no plan. */
static void try_everything(const World *w, const Small *m, uint64_t best[SMALL_PODS + 1])
{
    static uint32_t queue[SMALL_STATES];
    static uint8_t seen[SMALL_STATES];
    size_t head = 0, tail = 0;

    memset(seen, 0, sizeof seen);
    for (unsigned i = 0; i <= SMALL_PODS; i++)
        best[i] = UINT64_MAX;
    uint32_t start = 0;
    for (unsigned p = 0; p < m->pods; p++)
        start |= m->home[p] << (2 * p);
    queue[tail++] = start;
    seen[start] = 1;
    while (head < tail) {
        const uint32_t at = queue[head++];
        int idle[4], cores[4];
        unsigned moves = 0;

        count_small(m, at, idle, cores);
        for (unsigned p = 0; p < m->pods; p++)
            moves += node_of(at, p) != m->home[p];
        if (is_end(w, m, at) && price_state(w, m, at) < best[moves])
            best[moves] = price_state(w, m, at);
        for (unsigned p = 0; p < m->pods; p++)
            for (unsigned n = 0; n < m->nodes && node_of(at, p) == m->home[p]; n++) {
                const uint32_t next = (at & ~(3u << (2 * p))) | n << (2 * p);

                if (n == m->home[p] || idle[n] < m->gpus[p] || cores[n] < (int)m->cpu[p] || w->nodes[n].closed ||
                    !w->jobs[m->job[p]].preemptible || seen[next])
                    continue;
                seen[next] = 1;
                queue[tail++] = next;
            }
    }
}

static void check_small(World *w, const Small *m)
{
    uint64_t best[SMALL_PODS + 1], least = UINT64_MAX;
    unsigned fewest = SMALL_PODS + 1;
    ClusterJob goal = defrag_block((uint8_t)m->goal_gpus, m->goal_count);

    goal.roles[0].request.cpu_milli = m->goal_cpu * 1000;
    goal.tier = CLUSTER_RACK;
    goal.tier_required = m->goal_rack;
    goal.apart = m->goal_apart;
    const Defrag *d = find(w, &goal);
    check_all(w, d);
    try_everything(w, m, best);
    for (unsigned i = SMALL_PODS + 1; i-- > 0;)
        if (best[i] < UINT64_MAX) {
            fewest = i;
            least = best[i] < least ? best[i] : least;
        }
    assert_int_equal(d->plan_count > 0, fewest <= SMALL_PODS);
    assert_true(d->complete);
    if (d->plan_count == 0)
        return;
    const DefragPlan *last = &d->plans[d->plan_count - 1];
    assert_true(d->plans[0].lost_gpu_s == (double)least);
    assert_int_equal(last->move_count, fewest);
    assert_true(last->lost_gpu_s == (double)best[fewest]);
}

static void test_against_all(void **state)
{
    uint64_t seed = 7;
    unsigned moves[SMALL_PODS + 1] = {0}, several = 0;
    (void)state;

    for (unsigned i = 0; i < CASES; i++) {
        World *w = world_new();
        Small m;

        make_small(w, &m, &seed);
        check_small(w, &m);
        if (w->result.plan_count > 0)
            moves[w->result.plans[0].move_count]++;
        several += w->result.plan_count > 1;
        world_free(w);
    }
    assert_true(moves[1] > 50 && moves[2] > 20 && moves[3] > 5 && several > 5); /* so that it is a test */
}

/* --- a large one ----------------------------------------------------------------------------------------------------
 */

/* 1,200 nodes, of which many have a GPU free, and some half of one. */
static void make_large(World *w, unsigned fill)
{
    uint64_t seed = 11;
    uint16_t used[NODES] = {0};
    static const uint8_t sizes[] = {1, 1, 1, 1, 2, 2, 4, 8};

    for (unsigned i = 0; i < NODES; i++) {
        ClusterNode *node = add_node(w, i % 4 ? 4 : 8);

        node->domain[CLUSTER_RACK] = i / (NODES / 2) + 1;
    }
    for (unsigned i = 0; i < fill; i++) {
        const uint8_t gpus = sizes[draw(&seed, ARRAY_LEN(sizes))];

        for (unsigned tries = 0; tries < 40; tries++) {
            const uint32_t node = (uint32_t)draw(&seed, NODES);
            const unsigned first = (unsigned)__builtin_popcount(used[node]);

            if (first + gpus > w->nodes[node].gpu_count)
                continue;
            const uint16_t mask = (uint16_t)(((1u << gpus) - 1) << first);
            ClusterJob *job = add_pod(w, "job", node, mask, 1 + draw(&seed, 86400));

            job->preemptible = draw(&seed, 8) > 0;
            if (gpus == 1 && draw(&seed, 8) == 0)
                job->roles[0].request.gpu_milli = 500;
            used[node] |= mask;
            break;
        }
    }
}

static void test_large(void **state)
{
    World *w = world_new();
    (void)state;

    make_large(w, 2900);
    check_all(w, find_block(w, GPUS, 16));
    assert_int_equal(w->result.outcome, DEFRAG_FOUND);
    const Defrag first = *find_block(w, GPUS, 1);
    check_all(w, &first);
    assert_int_equal(first.outcome, DEFRAG_FOUND);
    assert_int_equal(find_block(w, GPUS, 1)->plan_count, first.plan_count); /* the same again */
    for (size_t k = 0; k < first.plan_count; k++)
        assert_memory_equal(first.plans[k].moves, w->result.plans[k].moves,
                            first.plans[k].move_count * sizeof *first.plans[k].moves);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lone),  cmocka_unit_test(test_two_ways), cmocka_unit_test(test_chain),
        cmocka_unit_test(test_gang),  cmocka_unit_test(test_why_not),  cmocka_unit_test(test_default_goal),
        cmocka_unit_test(test_parts), cmocka_unit_test(test_records),  cmocka_unit_test(test_against_all),
        cmocka_unit_test(test_large),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
