/* SPDX-License-Identifier: Apache-2.0 */
/* engine/place/schedule: what must hold at every instant of random histories, and small scenes of which the right
 * outcome is known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "engine/place/schedule.h"

enum { NODES_MAX = 16, JOBS_MAX = 200, GPUS = 8 };
#define NEVER UINT32_MAX

typedef struct Scene {
    Cluster cluster;
    ClusterNode nodes[NODES_MAX];
    ClusterJob jobs[JOBS_MAX];
    ClusterQueue queues[4];
    ScheduleOptions options;
    Schedule *schedule;
    uint64_t now_s, seed;
    size_t arrived;
    uint32_t promised; /* job that had a reservation, and for when */
    uint64_t promised_at_s;
} Scene;

/* Nodes of 8 GPUs, 4 in a rack and 8 in a block. */
static void begin(Scene *w, size_t nodes)
{
    *w = (Scene){.options = {.backfill = true, .preempt = true}, .promised = NEVER};
    for (size_t i = 0; i < nodes; i++)
        w->nodes[i] = (ClusterNode){.name = "n",
                                    .cpu_milli = 96000,
                                    .memory_mib = 1 << 20,
                                    .gpu_count = GPUS,
                                    .domain = {0, (uint32_t)i / 4 + 1, (uint32_t)i / 8 + 1}};
    w->cluster = (Cluster){.nodes = w->nodes, .jobs = w->jobs, .queues = w->queues, .node_count = nodes};
    w->cluster.domain_counts[CLUSTER_RACK] = (nodes + 3) / 4;
    w->cluster.domain_counts[CLUSTER_BLOCK] = (nodes + 7) / 8;
}

/* `pods` pods of `gpus` GPUs each. */
static ClusterJob *add_job(Scene *w, uint32_t pods, uint8_t gpus, uint64_t submitted_s, uint64_t duration_s)
{
    ClusterJob *job = &w->jobs[w->cluster.job_count++];

    *job = (ClusterJob){.name = "j",
                        .role_count = 1,
                        .tier = CLUSTER_TIER_END,
                        .preemptible = true,
                        .submitted_s = submitted_s,
                        .duration_s = duration_s};
    job->roles[0] = (ClusterRole){
        .name = "",
        .min = pods,
        .max = pods,
        .request = {.cpu_milli = 8000u * gpus, .memory_mib = 1024, .gpu_count = gpus, .gpu_milli = CLUSTER_GPU}};
    return job;
}

static void start_scene(Scene *w)
{
    Err err;

    assert_int_equal(schedule_new(&w->cluster, NULL, placement_mode_find("pack"), &w->options, &w->schedule, &err), 0);
}

static const ScheduleJob *job_of(const Scene *w, uint32_t job)
{
    return schedule_job(w->schedule, job);
}

static bool runs(const Scene *w, uint32_t job)
{
    return job_of(w, job)->state == SCHEDULE_JOB_RUNS;
}

/* --- what always holds ------------------------------------------------------------------------------------------ */

/* Counted from the jobs' places alone. */
static void assert_nothing_over_allocated(const Scene *w)
{
    uint32_t cpu[NODES_MAX] = {0}, gpus[NODES_MAX] = {0};
    uint64_t milli = 0;

    for (uint32_t i = 0; i < w->cluster.job_count; i++)
        for (size_t k = 0; k < job_of(w, i)->place_count; k++) {
            const ClusterPlace *place = &job_of(w, i)->places[k];
            const ClusterRequest *r = &w->jobs[i].roles[place->role].request;

            assert_true(runs(w, i));
            assert_int_equal(__builtin_popcount(place->gpus), r->gpu_count);
            assert_int_equal(gpus[place->node] & place->gpus, 0);
            gpus[place->node] |= place->gpus;
            cpu[place->node] += r->cpu_milli;
            milli += (uint64_t)r->gpu_count * r->gpu_milli;
        }
    for (size_t i = 0; i < w->cluster.node_count; i++)
        assert_true(cpu[i] <= w->nodes[i].cpu_milli && gpus[i] < 1u << GPUS);
    assert_int_equal(milli, placement_gpu_milli_allocated(schedule_placement(w->schedule)));
}

static void assert_gangs_whole(const Scene *w)
{
    for (uint32_t i = 0; i < w->cluster.job_count; i++) {
        const ClusterJob *job = &w->jobs[i];
        const ScheduleJob *r = job_of(w, i);

        if (!runs(w, i)) {
            assert_int_equal(r->place_count, 0);
            continue;
        }
        assert_true(r->place_count >= job->roles[0].min && r->place_count <= job->roles[0].max);
        for (size_t k = 1; k < r->place_count && job->apart; k++)
            for (size_t m = 0; m < k; m++)
                assert_int_not_equal(r->places[k].node, r->places[m].node);
        for (size_t k = 1; k < r->place_count && job->tier_required; k++)
            assert_int_equal(w->nodes[r->places[k].node].domain[job->tier],
                             w->nodes[r->places[0].node].domain[job->tier]);
    }
}

static void assert_quotas_kept(const Scene *w)
{
    uint64_t used[4] = {0}, all = 0, nominal = 0;

    for (uint32_t i = 0; i < w->cluster.job_count; i++)
        for (size_t q = 0; q < w->cluster.queue_count; q++)
            if (w->jobs[i].queue && strcmp(w->jobs[i].queue, w->queues[q].name) == 0)
                used[q] += job_of(w, i)->place_count * w->jobs[i].roles[0].request.gpu_count * CLUSTER_GPU;
    for (size_t q = 1; q < w->cluster.queue_count; q++) { /* [0] is their cohort */
        assert_int_equal(shares_used(schedule_shares(w->schedule), (int)q), used[q]);
        assert_true(w->queues[q].borrowing_limit == UINT64_MAX ||
                    used[q] <= w->queues[q].nominal + w->queues[q].borrowing_limit);
        all += used[q];
        nominal += w->queues[q].nominal;
    }
    assert_true(w->cluster.queue_count == 0 || all <= nominal + w->queues[0].nominal);
}

/* No job waits that is more important than one of its queue that has just started, asks for no more of the same and is
 * not longer. */
static void assert_no_inversion(const Scene *w, uint32_t started)
{
    const ClusterJob *job = &w->jobs[started];

    for (uint32_t i = 0; i < w->arrived; i++) {
        const ClusterJob *other = &w->jobs[i];

        if (job_of(w, i)->state != SCHEDULE_JOB_WAITS || job_of(w, i)->stops > 0 || other->queue != job->queue ||
            other->priority <= job->priority || other->tier != CLUSTER_TIER_END || job_of(w, started)->stops > 0)
            continue;
        assert_false(other->roles[0].request.gpu_count == job->roles[0].request.gpu_count &&
                     other->roles[0].max <= job->roles[0].min && other->duration_s <= job->duration_s);
    }
}

/* A job with a reservation starts by then. */
static void assert_promise_kept(Scene *w)
{
    uint64_t at_s;
    const uint32_t job = schedule_reserved(w->schedule, &at_s);

    if (w->promised != NEVER && job_of(w, w->promised)->state == SCHEDULE_JOB_WAITS)
        assert_true(w->now_s < w->promised_at_s && job == w->promised);
    if (job != w->promised) {
        w->promised = job;
        w->promised_at_s = at_s;
    }
}

/* Runs until all that can end has; `equals`: no job is more important than another. Returns a number that is another
 * for another history. */
static uint64_t play(Scene *w, bool equals)
{
    uint64_t history = 0;

    start_scene(w);
    for (;;) {
        uint32_t ending = NEVER;
        uint64_t next_s = schedule_next_end(w->schedule, &ending);
        size_t count;

        if (w->arrived < w->cluster.job_count && w->jobs[w->arrived].submitted_s < next_s)
            next_s = w->jobs[w->arrived].submitted_s;
        if (next_s == UINT64_MAX)
            break;
        w->now_s = next_s;
        while (schedule_next_end(w->schedule, &ending) <= w->now_s)
            schedule_end(w->schedule, ending, w->now_s);
        while (w->arrived < w->cluster.job_count && w->jobs[w->arrived].submitted_s <= w->now_s)
            schedule_submit(w->schedule, (uint32_t)w->arrived++, w->now_s);
        schedule_run(w->schedule, w->now_s);
        assert_nothing_over_allocated(w);
        assert_gangs_whole(w);
        assert_quotas_kept(w);
        if (equals)
            assert_promise_kept(w);
        const uint32_t *started = schedule_started(w->schedule, &count);
        for (size_t i = 0; i < count; i++) {
            if (runs(w, started[i]))
                assert_no_inversion(w, started[i]);
            history = history * 31 + started[i] * 7 + w->now_s;
        }
    }
    return history;
}

static uint32_t below(Scene *w, uint32_t n)
{
    w->seed = w->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(w->seed >> 33) % n;
}

static void make_random(Scene *w, uint64_t seed, bool queues)
{
    static const uint8_t gpus[] = {1, 1, 2, 4, 8, 8};
    uint64_t at_s = 0;

    begin(w, 12);
    w->seed = seed;
    if (queues) {
        w->queues[0] = (ClusterQueue){"all", NULL, 0, UINT64_MAX, UINT64_MAX, 1};
        w->queues[1] = (ClusterQueue){"a", "all", 40 * CLUSTER_GPU, UINT64_MAX, UINT64_MAX, 1};
        w->queues[2] = (ClusterQueue){"b", "all", 40 * CLUSTER_GPU, 24 * CLUSTER_GPU, 16 * CLUSTER_GPU, 2};
        w->queues[3] = (ClusterQueue){"c", "all", 16 * CLUSTER_GPU, UINT64_MAX, UINT64_MAX, 1};
        w->cluster.queue_count = 4;
    }
    for (size_t i = 0; i < 120; i++) {
        const uint8_t each = gpus[below(w, ARRAY_LEN(gpus))];
        ClusterJob *job = add_job(w, each >= 4 ? 1 + below(w, 4) : 1, each, at_s, 60 + below(w, 3000));

        at_s += below(w, 120);
        job->priority = (int32_t)below(w, 3);
        job->preemptible = below(w, 4) > 0;
        job->checkpoint_s = below(w, 2) * 300;
        job->restart_s = below(w, 2) * 60;
        job->queue = queues ? w->queues[1 + below(w, 3)].name : NULL;
        if (job->roles[0].min > 1 && below(w, 2)) {
            job->tier = CLUSTER_RACK;
            job->tier_required = below(w, 2);
        }
        job->apart = below(w, 3) == 0;
        if (below(w, 4) == 0)
            job->roles[0].max += 2;
    }
}

static void random_histories_keep_the_rules(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        Scene w;
        uint64_t first;

        make_random(&w, seed, seed % 2);
        w.options.half_life_s = seed % 4 == 1 ? 1800 : 0;
        w.options.past_weight = 1;
        first = play(&w, false);
        for (uint32_t i = 0; i < w.cluster.job_count; i++)
            assert_int_equal(job_of(&w, i)->state, SCHEDULE_JOB_DONE);
        schedule_free(w.schedule);
        make_random(&w, seed, seed % 2); /* the same again */
        w.options.half_life_s = seed % 4 == 1 ? 1800 : 0;
        w.options.past_weight = 1;
        assert_int_equal(play(&w, false), first);
        schedule_free(w.schedule);
    }
}

/* Jobs end when they are expected to, and nothing is stopped: of jobs of equal priority every promise is kept, whatever
 * backfill does. */
static void no_job_starves(void **state)
{
    (void)state;
    for (uint64_t seed = 100; seed <= 160; seed++) {
        Scene w;

        make_random(&w, seed, false);
        w.options.preempt = false;
        for (size_t i = 0; i < w.cluster.job_count; i++) {
            w.jobs[i].roles[0].max = w.jobs[i].roles[0].min;
            w.jobs[i].priority = seed % 2 ? 0 : w.jobs[i].priority;
        }
        play(&w, seed % 2);
        for (uint32_t i = 0; i < w.cluster.job_count; i++)
            assert_int_equal(job_of(&w, i)->state, SCHEDULE_JOB_DONE);
        schedule_free(w.schedule);
    }
}

/* --- scenes ----------------------------------------------------------------------------------------------------- */

/* The jobs so far run from 0 on; then the last one comes at its time. */
static void play_until(Scene *w, uint64_t until_s)
{
    while (w->arrived < w->cluster.job_count && w->jobs[w->arrived].submitted_s <= until_s) {
        w->now_s = w->jobs[w->arrived].submitted_s;
        schedule_submit(w->schedule, (uint32_t)w->arrived++, w->now_s);
        schedule_run(w->schedule, w->now_s);
        assert_nothing_over_allocated(w);
        assert_gangs_whole(w);
    }
}

static void backfill_does_not_delay_the_first(void **state)
{
    Scene w;
    uint64_t at_s;

    (void)state;
    begin(&w, 2);
    add_job(&w, 1, 8, 0, 1000);
    add_job(&w, 2, 8, 10, 1000); /* waits until 1000 for both nodes */
    add_job(&w, 1, 8, 20, 980);  /* ends by then */
    add_job(&w, 1, 1, 30, 2000);
    start_scene(&w);
    play_until(&w, 100);
    assert_int_equal(schedule_reserved(w.schedule, &at_s), 1);
    assert_int_equal(at_s, 1000);
    assert_true(runs(&w, 0) && !runs(&w, 1) && runs(&w, 2) && !runs(&w, 3));
    schedule_free(w.schedule);

    begin(&w, 2);
    add_job(&w, 1, 8, 0, 1000);
    add_job(&w, 2, 8, 10, 1000);
    add_job(&w, 1, 8, 20, 981); /* would end a second too late */
    start_scene(&w);
    play_until(&w, 100);
    assert_false(runs(&w, 2));
    schedule_free(w.schedule);

    begin(&w, 2);
    w.options.backfill = false;
    add_job(&w, 1, 8, 0, 1000);
    add_job(&w, 2, 8, 10, 1000);
    add_job(&w, 1, 8, 20, 10);
    start_scene(&w);
    play_until(&w, 100);
    assert_false(runs(&w, 2));
    schedule_free(w.schedule);
}

/* A job that could never run takes no reservation and holds nobody up. */
static void what_never_fits_stops_and_delays_nobody(void **state)
{
    Scene w;
    uint64_t at_s;

    (void)state;
    begin(&w, 2);
    add_job(&w, 1, 8, 0, 1000);
    add_job(&w, 3, 8, 10, 1000)->priority = 9;
    add_job(&w, 1, 8, 20, 5000);
    start_scene(&w);
    play_until(&w, 100);
    assert_int_equal(schedule_reserved(w.schedule, &at_s), NEVER);
    assert_true(runs(&w, 0) && !runs(&w, 1) && runs(&w, 2));
    assert_int_equal(job_of(&w, 0)->stops, 0);
    schedule_free(w.schedule);
}

/* Of three jobs on three nodes the one that loses least is stopped, and no other. */
static void the_victim_loses_least(void **state)
{
    static const struct {
        uint64_t checkpoint_s[3], restart_s[3];
        bool preemptible[3], by_age;
        uint32_t victim;
    } cases[] = {
        {{0, 0, 0}, {0, 0, 0}, {true, true, true}, false, 2},      /* the youngest has done least */
        {{300, 700, 0}, {0, 0, 0}, {true, true, true}, false, 0},  /* 1000 % 300 = 100 s; 200 s; 800 s */
        {{900, 0, 0}, {0, 0, 0}, {true, true, true}, false, 0},    /* 100 s; 900 s; 800 s */
        {{900, 0, 0}, {5000, 0, 0}, {true, true, true}, false, 2}, /* it would take long to come back */
        {{0, 0, 0}, {0, 0, 0}, {true, true, false}, false, 1},     /* the youngest may not be stopped */
        {{900, 0, 0}, {0, 0, 0}, {true, true, true}, true, 2},     /* others go by age */
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        Scene w;

        begin(&w, 3);
        w.options.by_age = cases[i].by_age;
        for (size_t k = 0; k < 3; k++) {
            ClusterJob *job = add_job(&w, 1, 8, 100 * k, 10000);

            job->checkpoint_s = cases[i].checkpoint_s[k];
            job->restart_s = cases[i].restart_s[k];
            job->preemptible = cases[i].preemptible[k];
        }
        add_job(&w, 1, 8, 1000, 100)->priority = 1;
        start_scene(&w);
        play_until(&w, 1000);
        assert_true(runs(&w, 3));
        for (uint32_t k = 0; k < 3; k++) {
            assert_int_equal(job_of(&w, k)->stops, k == cases[i].victim);
            assert_int_equal(runs(&w, k), k != cases[i].victim);
        }
        schedule_free(w.schedule);
    }
}

static void a_gang_is_stopped_whole_and_only_for_what_then_runs(void **state)
{
    Scene w;

    (void)state;
    begin(&w, 4);
    add_job(&w, 2, 8, 0, 10000); /* two nodes */
    add_job(&w, 1, 8, 1, 10000); /* one, younger, but costs as much a node */
    add_job(&w, 1, 8, 2, 10000)->preemptible = false;
    add_job(&w, 2, 8, 1000, 100)->priority = 1; /* needs two: of the gang, both */
    start_scene(&w);
    play_until(&w, 1000);
    assert_true(runs(&w, 3) && runs(&w, 2));
    assert_int_equal(job_of(&w, 0)->stops + job_of(&w, 1)->stops, 1 + !runs(&w, 1));
    assert_int_equal(job_of(&w, 0)->stops, 1);
    schedule_free(w.schedule);

    begin(&w, 2);
    add_job(&w, 1, 8, 0, 10000);
    add_job(&w, 1, 8, 1, 10000)->preemptible = false;
    add_job(&w, 2, 8, 1000, 100)->priority = 1; /* one of the two may not be stopped: nor is the other */
    start_scene(&w);
    play_until(&w, 1000);
    assert_true(runs(&w, 0) && runs(&w, 1) && !runs(&w, 2));
    assert_int_equal(job_of(&w, 0)->stops, 0);
    schedule_free(w.schedule);
}

/* Eight small jobs on eight nodes: a whole node is wanted, and only those of one node are stopped. */
static void no_more_is_stopped_than_needed(void **state)
{
    Scene w;
    unsigned stops = 0;

    (void)state;
    begin(&w, 4);
    for (size_t i = 0; i < 8; i++)
        add_job(&w, 1, 4, i, 10000);
    add_job(&w, 1, 8, 1000, 100)->priority = 1;
    start_scene(&w);
    play_until(&w, 1000);
    assert_true(runs(&w, 8));
    for (uint32_t i = 0; i < 8; i++)
        stops += job_of(&w, i)->stops;
    assert_int_equal(stops, 2);
    schedule_free(w.schedule);
}

/* A gang that must be in one rack: the jobs of the rack that lose least. */
static void the_cheapest_rack_is_cleared(void **state)
{
    Scene w;

    (void)state;
    begin(&w, 8);
    for (size_t i = 0; i < 8; i++)
        add_job(&w, 1, 8, i, 10000)->restart_s = i < 4   ? 100
                                                 : i < 6 ? 1
                                                         : 900; /* mean 100 in the first, 450 in the second */
    ClusterJob *gang = add_job(&w, 4, 8, 1000, 100);
    gang->priority = 1;
    gang->tier = CLUSTER_RACK;
    gang->tier_required = true;
    start_scene(&w);
    play_until(&w, 1000);
    assert_true(runs(&w, 8));
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(job_of(&w, i)->stops, i < 4);
    schedule_free(w.schedule);
}

/* A queue takes back its own quota from one that borrowed it, and not more. */
static void quotas_are_taken_back(void **state)
{
    Scene w;

    (void)state;
    begin(&w, 4);
    w.queues[0] = (ClusterQueue){"all", NULL, 0, UINT64_MAX, UINT64_MAX, 1};
    w.queues[1] = (ClusterQueue){"a", "all", 16 * CLUSTER_GPU, UINT64_MAX, UINT64_MAX, 1};
    w.queues[2] = (ClusterQueue){"b", "all", 16 * CLUSTER_GPU, UINT64_MAX, UINT64_MAX, 1};
    w.cluster.queue_count = 3;
    for (size_t i = 0; i < 4; i++)
        add_job(&w, 1, 8, i, 10000)->queue = "a";
    for (size_t i = 0; i < 3; i++)
        add_job(&w, 1, 8, 1000 + i, 10000)->queue = "b";
    start_scene(&w);
    play_until(&w, 2000);
    for (uint32_t i = 0; i < 7; i++)
        assert_int_equal(runs(&w, i),
                         i < 2 || i == 4 || i == 5); /* the youngest two of a are stopped; b's third waits */
    schedule_free(w.schedule);
}

/* An elastic job takes what is free, gives way without being stopped, and takes it again. */
static void an_elastic_job_shrinks_and_grows(void **state)
{
    Scene w;
    uint32_t ending = 1;

    (void)state;
    begin(&w, 4);
    ClusterJob *elastic = add_job(&w, 1, 8, 0, 10000);
    elastic->roles[0].max = 4;
    elastic->restart_s = 10;
    add_job(&w, 2, 8, 100, 1000);
    start_scene(&w);
    play_until(&w, 0);
    assert_int_equal(job_of(&w, 0)->place_count, 4);
    assert_int_equal(job_of(&w, 0)->expected_s, 10000);
    play_until(&w, 100);
    assert_true(runs(&w, 1));
    assert_int_equal(job_of(&w, 0)->place_count, 2);
    assert_int_equal(job_of(&w, 0)->stops, 0);
    assert_int_equal(job_of(&w, 0)->expected_s, 100 + (10000 - 100 + 10) * 2); /* half as fast */
    assert_int_equal(schedule_next_end(w.schedule, &ending), 1100);
    schedule_end(w.schedule, 1, 1100);
    assert_true(schedule_run(w.schedule, 1100));
    assert_int_equal(job_of(&w, 0)->place_count, 4);
    schedule_free(w.schedule);
}

static void a_lost_node_costs_the_work_since_the_checkpoint(void **state)
{
    Scene w;

    (void)state;
    begin(&w, 3);
    ClusterJob *gang = add_job(&w, 2, 8, 0, 10000);
    gang->checkpoint_s = 600;
    gang->restart_s = 50;
    start_scene(&w);
    play_until(&w, 0);
    schedule_lose_node(w.schedule, job_of(&w, 0)->places[1].node, 1000);
    assert_int_equal(job_of(&w, 0)->state, SCHEDULE_JOB_WAITS);
    assert_true(job_of(&w, 0)->lost_gpu_s == 16 * (400 + 50));
    schedule_run(w.schedule, 1000); /* on the two nodes that are left */
    assert_true(runs(&w, 0));
    assert_int_equal(job_of(&w, 0)->expected_s, 1000 + 10000 - 600 + 50);
    schedule_free(w.schedule);
}

static void gangs_stay_near(void **state)
{
    Scene w;
    const ClusterPlace *places;

    (void)state;
    begin(&w, 16);
    add_job(&w, 1, 8, 0, 10000); /* a node of the first rack */
    for (size_t i = 1; i <= 3; i++) {
        ClusterJob *gang = add_job(&w, i == 3 ? 6 : 3, 8, i, 10000);

        gang->tier = CLUSTER_RACK;
        gang->tier_required = i < 3;
    }
    start_scene(&w);
    play_until(&w, 10);
    places = job_of(&w, 1)->places; /* the fullest rack that has room */
    assert_int_equal(w.nodes[places[0].node].domain[CLUSTER_RACK],
                     w.nodes[job_of(&w, 0)->places[0].node].domain[CLUSTER_RACK]);
    assert_int_equal(gangs_tier(schedule_gangs(w.schedule), places, 3), CLUSTER_RACK);
    assert_int_equal(gangs_tier(schedule_gangs(w.schedule), job_of(&w, 2)->places, 3), CLUSTER_RACK);
    assert_int_equal(gangs_tier(schedule_gangs(w.schedule), job_of(&w, 3)->places, 6), CLUSTER_BLOCK);
    schedule_free(w.schedule);
}

/* Volcano's soft mode, beside a mode that would spread the pods. */
static void each_pod_goes_near_those_before_it(void **state)
{
    static const uint32_t near[] = {0, 0, 4, 5, 6, 7, 4}, spread[] = {0, 4, 5, 6, 7, 8, 9};
    ClusterPlace places[7];
    Scene w;

    (void)state;
    begin(&w, 16);
    for (size_t i = 0; i < 16; i++)
        w.nodes[i].domain[CLUSTER_BLOCK] = 1;
    ClusterJob *gang = add_job(&w, 7, 4, 0, 100);
    gang->tier = CLUSTER_RACK;
    for (GangDomains how = GANG_NEAREST; how <= GANG_IGNORED; how++) {
        Placement *placement = placement_new(w.nodes, 16, NULL, placement_mode_find("spread"));
        const uint32_t whole = placement_add_kind(placement, &(ClusterRequest){.gpu_count = 8, .gpu_milli = 1000});
        const uint32_t kind = placement_add_kind(placement, &gang->roles[0].request);
        Gangs *gangs = gangs_new(&w.cluster, placement, how);

        for (uint32_t i = 1; i < 4; i++) /* of the first rack one node is left */
            placement_bind(placement, whole, (PlacementChoice){.node = i, .gpus = 0xff});
        assert_int_equal(gangs_place(gangs, gang, &kind, NULL, places), 7);
        for (size_t i = 0; i < 7; i++)
            assert_int_equal(places[i].node, how == GANG_NEAREST ? near[i] : spread[i]);
        gangs_release(gangs, &kind, places, 7);
        gang->tier_required = true; /* then the rack is chosen first */
        assert_int_equal(gangs_place(gangs, gang, &kind, NULL, places), 7);
        assert_int_equal(gangs_tier(gangs, places, 7), CLUSTER_RACK);
        gang->tier_required = false;
        gangs_free(gangs);
        placement_free(placement);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_histories_keep_the_rules),
        cmocka_unit_test(no_job_starves),
        cmocka_unit_test(backfill_does_not_delay_the_first),
        cmocka_unit_test(what_never_fits_stops_and_delays_nobody),
        cmocka_unit_test(the_victim_loses_least),
        cmocka_unit_test(a_gang_is_stopped_whole_and_only_for_what_then_runs),
        cmocka_unit_test(no_more_is_stopped_than_needed),
        cmocka_unit_test(the_cheapest_rack_is_cleared),
        cmocka_unit_test(quotas_are_taken_back),
        cmocka_unit_test(an_elastic_job_shrinks_and_grows),
        cmocka_unit_test(a_lost_node_costs_the_work_since_the_checkpoint),
        cmocka_unit_test(gangs_stay_near),
        cmocka_unit_test(each_pod_goes_near_those_before_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
