/* SPDX-License-Identifier: Apache-2.0 */
/* A cluster over time: small histories whose figures are counted by hand, the example plan told whole, and what is
 * wrong with plans that cannot be played. */
#include "../golden.h"

#include <math.h>
#include <stdio.h>

#include "service/place/plan.h"
#include "service/place/simulate_report.h"

static Arena arena;

static int start_anew(void **state)
{
    (void)state;
    arena_reset(&arena);
    return 0;
}

static ClusterJob make_job(uint32_t pods, uint8_t gpus, uint64_t submitted_s, uint64_t duration_s)
{
    ClusterJob job = {
        .name = "j", .role_count = 1, .tier = CLUSTER_TIER_END, .submitted_s = submitted_s, .duration_s = duration_s};

    job.roles[0] = (ClusterRole){.name = "",
                                 .request = {.gpu_count = gpus, .gpu_milli = CLUSTER_GPU, .cpu_milli = 1000},
                                 .min = pods,
                                 .max = pods};
    return job;
}

static Simulation *play(ClusterNode *nodes, size_t node_count, ClusterJob *jobs, size_t job_count,
                        SimulateOptions options)
{
    const Cluster cluster = {.nodes = nodes, .node_count = node_count, .jobs = jobs, .job_count = job_count};
    Simulation *result = NULL;
    Err err;

    assert_int_equal(simulate_run(&cluster, NULL, placement_mode_find("pack"), &options, &arena, &result, &err), 0);
    return result;
}

static bool is_near(double a, double b)
{
    return fabs(a - b) < 1e-6 * fmax(1, fabs(b));
}

/* One node of two GPUs: 100 s of both, then one job after the other, one of which waits. */
static void figures_are_those_counted_by_hand(void **state)
{
    ClusterNode node = {
        .name = "n", .cpu_milli = 16000, .gpu_count = 2, .gpu_idle_w = 50, .gpu_full_w = 500, .price = 36};
    ClusterJob jobs[] = {make_job(1, 2, 1000, 100), make_job(1, 1, 1050, 100), make_job(2, 1, 1060, 100),
                         make_job(1, 1, 1100, 40)};
    jobs[0].deadline_s = 1100;
    jobs[1].deadline_s = 1199;
    jobs[2].deadline_s = 1300;
    const Simulation *s = play(&node, 1, jobs, 4, (SimulateOptions){.schedule = {.backfill = true}});

    (void)state;
    /* 1000-1100: job 0; 1100-1200: job 1, and job 3 until 1140 beside it; 1200-1300: job 2, both pods */
    assert_int_equal(s->begin_s, 1000);
    assert_int_equal(s->arrivals_end_s, 1100);
    assert_int_equal(s->end_s, 1300);
    assert_true(is_near(s->mean[SERIES_ALLOCATED], 100));
    assert_true(is_near(s->mean[SERIES_WAITING_JOBS], (50 + 40) / 100.));
    assert_true(is_near(s->mean[SERIES_WAITING_GPUS], (50 + 2 * 40) / 100.));
    assert_int_equal(s->classes[SIMULATE_ALL].jobs, 4);
    assert_int_equal(s->classes[SIMULATE_ALL].ended, 4);
    assert_true(is_near(s->classes[SIMULATE_ALL].wait_mean_s, (0 + 50 + 140 + 0) / 4.));
    assert_true(is_near(s->classes[SIMULATE_ALL].wait_max_s, 140));
    assert_true(is_near(s->classes[SIMULATE_ONE].wait_max_s, 50));
    assert_true(is_near(s->classes[SIMULATE_SOME].gpu_hours, (200 + 200) / 3600.));
    assert_true(is_near(s->classes[SIMULATE_ALL].gpu_hours, (200 + 100 + 200 + 40) / 3600.));
    assert_true(is_near(s->price, 36 * 300 / 3600.));
    assert_int_equal(s->classes[SIMULATE_ALL].late, 1);
    /* GPUs 1000 W, 1000 W, 550 W and 1000 W; a socket of 16 cores with work 120 W, all the time */
    assert_true(is_near(s->energy_kwh, (100 * 1120 + 40 * 1120 + 60 * (550 + 120) + 100 * 1120) / 3.6e6));
    assert_int_equal(s->gangs, 1);
    assert_int_equal(s->gang_tiers[0], 1);
    assert_int_equal(s->point_count, 300); /* a point for each second, as there is room */
    assert_true(is_near(s->points[110][SERIES_ALLOCATED], 100) && is_near(s->points[150][SERIES_ALLOCATED], 50));
}

/* More seconds than points: each is the mean of a longer stretch, and the sum stays. */
static void a_long_history_has_coarser_points(void **state)
{
    ClusterNode node = {.name = "n", .cpu_milli = 16000, .gpu_count = 2};
    ClusterJob jobs[] = {make_job(1, 2, 0, 1000), make_job(1, 1, 2000, 3000)};
    const Simulation *s = play(&node, 1, jobs, 2, (SimulateOptions){.schedule = {.backfill = true}});
    double sum = 0;

    (void)state;
    assert_int_equal(s->stretch_s, 16);
    assert_int_equal(s->point_count, (5000 + 15) / 16);
    for (size_t i = 0; i + 1 < s->point_count; i++)
        sum += s->points[i][SERIES_ALLOCATED] * 16;
    sum += s->points[s->point_count - 1][SERIES_ALLOCATED] * (5000 - 16. * (double)(s->point_count - 1));
    assert_true(is_near(sum, 100 * 1000 + 50 * 3000));
}

static void failures_cost_what_was_not_kept(void **state)
{
    ClusterNode nodes[8] = {{0}};
    ClusterJob jobs[40];
    const SimulateOptions often = {
        .schedule = {.backfill = true}, .seed = 3, .node_mtbf_s = 20000, .node_repair_s = 500};
    double lost[2];

    (void)state;
    for (size_t i = 0; i < 8; i++)
        nodes[i] = (ClusterNode){.name = "n", .cpu_milli = 64000, .gpu_count = 8};
    for (size_t keeps = 0; keeps < 2; keeps++) {
        for (size_t i = 0; i < 40; i++) {
            jobs[i] = make_job(1, 8, i * 500, 3000);
            jobs[i].checkpoint_s = keeps ? 300 : 0;
            jobs[i].restart_s = 60;
        }
        const Simulation *s = play(nodes, 8, jobs, 40, often), *again = play(nodes, 8, jobs, 40, often);
        const SimulateJobs *all = &s->classes[SIMULATE_ALL];

        assert_true(s->node_failures > 5 && all->stops > 2);
        assert_int_equal(all->ended, 40);
        lost[keeps] = all->lost_gpu_hours;
        assert_true(
            is_near(all->gpu_hours - all->lost_gpu_hours, 40 * 8 * 3000 / 3600.)); /* all that was wanted was done */
        assert_int_equal(s->end_s, again->end_s);
        assert_memory_equal(s->points, again->points, sizeof s->points);
    }
    assert_true(lost[1] < lost[0] / 2);
    assert_true(is_near(generate_checkpoint_s(60, 12000), 1200));
    assert_true(is_near(generate_checkpoint_s(60, 10), 60));
}

/* A job that keeps nothing and is longer than its node lives does not go on for ever. */
static void what_never_ends_is_given_up(void **state)
{
    ClusterNode node = {.name = "n", .cpu_milli = 64000, .gpu_count = 8, .spot = true};
    ClusterJob jobs[] = {make_job(1, 8, 0, 100000)};
    const Simulation *s =
        play(&node, 1, jobs, 1,
             (SimulateOptions){.schedule = {.backfill = true}, .seed = 1, .spot_mtbf_s = 1000, .spot_return_s = 10});

    (void)state;
    assert_int_equal(s->classes[SIMULATE_ALL].ended, 0);
    assert_int_equal(s->classes[SIMULATE_ALL].never, 0);
    assert_true(s->end_s <= SIMULATE_REST * 100000);
    jobs[0].roles[0].request.no_spot = true;
    s = play(&node, 1, jobs, 1, (SimulateOptions){.schedule = {.backfill = true}, .spot_mtbf_s = 1000});
    assert_int_equal(s->classes[SIMULATE_ALL].never, 1);
}

/* Of 20,000 jobs by chance: half are no longer than the median, nine tenths no longer than p90, and the load is what
 * was asked for. */
static void jobs_by_chance_are_as_asked(void **state)
{
    const GenerateShape shapes[] = {{.request = {.gpu_count = 1, .gpu_milli = CLUSTER_GPU}, .pods = 1, .weight = 3},
                                    {.request = {.gpu_count = 8, .gpu_milli = CLUSTER_GPU}, .pods = 2, .weight = 1}};
    const GenerateClass classes[] = {{.name = "a", .weight = 1, .tier = CLUSTER_RACK},
                                     {.name = "b", .weight = 4, .tier = CLUSTER_TIER_END, .priority = 7}};
    const GenerateOptions options = {.shapes = shapes,
                                     .classes = classes,
                                     .shape_count = 2,
                                     .class_count = 2,
                                     .jobs = 20000,
                                     .seed = 5,
                                     .load = 0.7,
                                     .median_s = 600,
                                     .p90_s = 7200};
    const ClusterJob *jobs = generate_jobs(&options, 100 * CLUSTER_GPU, &arena);
    size_t below_median = 0, below_p90 = 0, large = 0, important = 0;
    double work = 0;

    (void)state;
    for (size_t i = 0; i < options.jobs; i++) {
        below_median += jobs[i].duration_s <= 600;
        below_p90 += jobs[i].duration_s <= 7200;
        large += jobs[i].roles[0].min == 2;
        important += jobs[i].priority == 7;
        work += (double)jobs[i].duration_s * (jobs[i].roles[0].min == 2 ? 16 : 1);
        assert_true(i == 0 || jobs[i - 1].submitted_s <= jobs[i].submitted_s);
        assert_int_equal(jobs[i].tier == CLUSTER_RACK, jobs[i].roles[0].min == 2 && jobs[i].priority == 0);
    }
    assert_true(fabs((double)below_median / 20000 - 0.5) < 0.02);
    assert_true(fabs((double)below_p90 / 20000 - 0.9) < 0.02);
    assert_true(fabs((double)large / 20000 - 0.25) < 0.02);
    assert_true(fabs((double)important / 20000 - 0.8) < 0.02);
    assert_true(fabs(work / 100 / (double)jobs[options.jobs - 1].submitted_s - 0.7) < 0.01);
}

/* Checkpoints as often as is best: more often for a job of many nodes, and each makes it longer. */
static void checkpoints_are_as_often_as_is_best(void **state)
{
    const GenerateShape shapes[] = {{.request = {.gpu_count = 8, .gpu_milli = CLUSTER_GPU}, .pods = 4, .weight = 1}};
    GenerateClass classes[] = {{.name = "a", .weight = 1, .tier = CLUSTER_TIER_END}};
    const GenerateOptions options = {.shapes = shapes,
                                     .classes = classes,
                                     .shape_count = 1,
                                     .class_count = 1,
                                     .jobs = 50,
                                     .load = 1,
                                     .mtbf_s = 48000,
                                     .median_s = 6000,
                                     .p90_s = 72000};
    const ClusterJob *plain = generate_jobs(&options, CLUSTER_GPU, &arena);

    (void)state;
    classes[0].checkpoint_cost_s = 60;
    const ClusterJob *kept = generate_jobs(&options, CLUSTER_GPU, &arena);
    for (size_t i = 0; i < 50; i++) {
        assert_int_equal(plain[i].checkpoint_s, 0);
        assert_int_equal(kept[i].checkpoint_s, 1200); /* sqrt(2 * 60 * 48000 / 4) */
        assert_int_equal(kept[i].duration_s, plain[i].duration_s + plain[i].duration_s / 20);
    }
}

/* --- plans ------------------------------------------------------------------------------------------------------ */

static int read_plan(const char *text, Plan *ret, Err *err)
{
    const YamlNode *root;

    TRY(yaml_load("plan.yaml", text, strlen(text), &arena, &root, err));
    return plan_read("folder/plan.yaml", root, BOARDS, &arena, ret, err);
}

static void the_example_is_told_whole(void **state)
{
    CLEANUP(str_done) Str out = str_limited(GOLDEN_MAX);
    const Cluster none = {0};
    SimulateOffer offers[] = {
        {"1 x cheap", 10, 3600, 100, 20, 0.01}, {"as it is", 0, 7200, 0, 0, 0}, {"2 x dear", 40, 1800, 500, 30, 0.02}};
    SimulateRun runs[2];
    Plan plan;
    Err err;

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        Cluster *cluster = arena_calloc(&arena, 1, sizeof *cluster);
        Simulation *result = NULL;

        assert_int_equal(read_plan(plan_example, &plan, &err), 0);
        if (i == 1) {
            assert_int_equal(plan_add_nodes(&plan, "2xH100x8", &arena, &err), 0);
            assert_int_equal(plan_set_quota(&plan, "research=112", &err), 0);
        }
        assert_int_equal(plan_build(&plan, &none, &arena, cluster, &err), 0);
        plan.generate.jobs = 400;
        cluster->jobs = generate_jobs(&plan.generate, 160 * CLUSTER_GPU, &arena);
        cluster->job_count = 400;
        assert_int_equal(simulate_run(cluster, NULL, plan.mode, &plan.simulate, &arena, &result, &err), 0);
        runs[i] = (SimulateRun){i ? "what <if>" : "pack", cluster, result};
    }
    simulate_text(runs, 2, &out);
    simulate_rank_offers(offers, 3);
    assert_string_equal(offers[1].label, "2 x dear");
    simulate_offers_text(offers, 3, &out);
    simulate_offers_json(offers, 3, &out);
    assert_golden(DATA "/simulate.txt", &out);
    str_clear(&out);
    simulate_json(runs, 1, &out);
    assert_golden(DATA "/simulate.json", &out);
    str_clear(&out);
    simulate_page(runs, 2, "a <plan>", &out);
    assert_non_null(strstr(out.text, "a &lt;plan&gt;"));
    assert_non_null(strstr(out.text, "what &lt;if&gt;"));
    assert_null(strstr(out.text, "<plan>"));
}

/* Two of three nodes: there are as many nodes as before, and more of them in MIG mode. */
static void nodes_can_be_put_into_mig_mode(void **state)
{
    static const char text[] =
        "nodes:\n- {name: a, count: 3, model: H100-80GB}\n- {name: b, model: H100-80GB, mig: true}\n";
    const Cluster none = {0};
    Cluster cluster;
    size_t in_mig_mode = 0;
    Plan plan, other;
    Err err;

    (void)state;
    assert_int_equal(read_plan(text, &plan, &err), 0);
    other = plan;
    assert_int_equal(plan_set_mig(&other, "a=2", &arena, &err), 0);
    assert_int_equal(plan_build(&other, &none, &arena, &cluster, &err), 0);
    for (size_t i = 0; i < cluster.node_count; i++)
        in_mig_mode += cluster.nodes[i].mig != NULL;
    assert_int_equal(cluster.node_count, 4);
    assert_int_equal(in_mig_mode, 3);
    assert_int_equal(plan.nodes.at[0].count, 3); /* the plan is as it was */
}

static void files_lie_beside_the_plan(void **state)
{
    Plan plan;
    Err err;

    (void)state;
    assert_int_equal(read_plan("nodes: nodes.csv\njobs: {file: /data/jobs.csv}\n", &plan, &err), 0);
    assert_string_equal(plan.nodes_file, "folder/nodes.csv");
    assert_string_equal(plan.jobs_file, "/data/jobs.csv");
    assert_true(plan.generate.load == 0); /* at their own times */
    assert_int_equal(read_plan("nodes: [{model: A}]\n", &plan, &err), 0);
    assert_true(plan.generate.load > 0);
}

static void weights_change_a_mode(void **state)
{
    Plan plan;
    Err err;

    (void)state;
    assert_int_equal(
        read_plan("nodes: [{model: A}]\nschedule: {mode: pack, weights: {cost: 2.5, power: 0}}\n", &plan, &err), 0);
    const double *weights = placement_mode_weights(plan.mode);
    const double *pack = placement_mode_weights(placement_mode_find("pack"));
    for (size_t i = 0; i < PLACEMENT_TERM_END; i++)
        assert_true(is_near(weights[i], i == PLACEMENT_COST ? 2.5 : i == PLACEMENT_POWER ? 0 : pack[i]));
    assert_string_equal(placement_mode_name(plan.mode), "pack with weights");
}

/* Of one H100 in MIG mode. */
static Simulation *play_instances(const char *sizes, const uint64_t (*times)[2], size_t count)
{
    ClusterJob *jobs = arena_calloc(&arena, count, sizeof *jobs);
    const Cluster none = {0};
    Cluster cluster;
    Plan plan;
    Err err;

    const char *text =
        arena_printf(&arena, "nodes: [{model: h100-80gb, mig: true, gpus: 1}]\njobs: {sizes: [%s]}", sizes);
    assert_int_equal(read_plan(text, &plan, &err), 0);
    assert_int_equal(plan_build(&plan, &none, &arena, &cluster, &err), 0);
    assert_int_equal(plan.generate.shape_count, count);
    for (size_t i = 0; i < count; i++) {
        jobs[i] = make_job(1, 1, times[i][0], times[i][1]);
        jobs[i].roles[0].request = plan.generate.shapes[i].request;
    }
    return play((ClusterNode *)(uintptr_t)cluster.nodes, 1, jobs, count,
                (SimulateOptions){.schedule = {.backfill = true}});
}

/* The 7g.80gb waits for the first instance; what ends before starts beside it, what ends later waits for both. */
static void instances_wait_for_slices(void **state)
{
    const Simulation *s =
        play_instances("{mig: 4g.40gb}, {mig: 7g.80gb}, {mig: 3g.40gb}, {mig: 1g.10gb}, {mig: 4g.40gb}",
                       (const uint64_t[][2]){{1000, 100}, {1001, 10}, {1002, 200}, {1003, 50}, {1004, 10}}, 5);

    (void)state;
    assert_true(is_near(s->classes[SIMULATE_ONE].wait_max_s, 1100 - 1001));
    assert_true(is_near(s->classes[SIMULATE_SHARED].wait_max_s, 1110 - 1002));
    assert_true(is_near(s->classes[SIMULATE_SHARED].wait_mean_s, (0 + (1110 - 1002) + 0 + (1110 - 1004)) / 4.));
    assert_int_equal(s->end_s, 1310);
}

/* A job of a 3g and a 4g: kept free for it is a GPU on which both have room, though the 3g comes first. */
static void reservations_leave_room_for_large_instances(void **state)
{
    const Cluster none = {0};
    Cluster cluster;
    Plan plan;
    Err err;

    (void)state;
    assert_int_equal(read_plan("nodes: [{model: H100-80GB, mig: true, gpus: 1}]\n"
                               "jobs: {sizes: [{mig: 1g.10gb}, {mig: 3g.40gb}, {mig: 4g.40gb}]}",
                               &plan, &err),
                     0);
    assert_int_equal(plan_build(&plan, &none, &arena, &cluster, &err), 0);
    ClusterJob jobs[] = {make_job(1, 1, 1000, 100), make_job(1, 1, 1001, 50), make_job(1, 1, 1002, 500)};
    jobs[0].roles[0].request = jobs[2].roles[0].request = plan.generate.shapes[0].request;
    jobs[1].role_count = 2;
    jobs[1].roles[1] = jobs[1].roles[0];
    jobs[1].roles[0].request = plan.generate.shapes[1].request;
    jobs[1].roles[1].request = plan.generate.shapes[2].request;
    const Simulation *s =
        play((ClusterNode *)(uintptr_t)cluster.nodes, 1, jobs, 3, (SimulateOptions){.schedule = {.backfill = true}});
    assert_int_equal(s->end_s, 1150 + 500); /* the last waits for the job before it */
}

static void sizes_name_profiles(void **state)
{
    Plan plan;
    Err err;

    (void)state;
    assert_int_equal(read_plan("nodes: [{model: A100-40GB, mig: true}, {model: H100-80GB, mig: true}, {model: A}]\n"
                               "jobs: {sizes: [{mig: 1g.10gb}, {mig: 3g.40gb, cpus: 3, memory: 1GiB}, {gpus: 1}]}",
                               &plan, &err),
                     0);
    const ClusterRequest *small = &plan.generate.shapes[0].request, *large = &plan.generate.shapes[1].request;
    const ClusterMig *a100 = plan.nodes.at[0].node.mig, *h100 = plan.nodes.at[1].node.mig;
    /* the same name is of two slices on one board and of one on the other */
    assert_int_equal(a100->board->profiles[a100->profiles[small->mig] - 1].size, 2);
    assert_int_equal(h100->board->profiles[h100->profiles[small->mig] - 1].size, 1);
    assert_int_equal(a100->profiles[large->mig], 0);
    assert_int_equal(h100->board->profiles[h100->profiles[large->mig] - 1].size, 4);
    assert_int_equal(small->gpu_milli, 250);
    assert_int_equal(small->cpu_milli, 2000);
    assert_int_equal(small->memory_mib, 8192);
    assert_int_equal(large->cpu_milli, 3000);
    assert_int_equal(large->memory_mib, 1024);
    assert_int_equal(plan.generate.shapes[2].request.mig, 0);
    assert_null(plan.nodes.at[2].node.mig);
}

static void wrong_plans_are_told_with_their_place(void **state)
{
    static const char *const cases[][2] = {
        {"", "folder/plan.yaml: the file is empty"},
        {"jobs: {}", "plan.yaml:1:1: a plan needs 'nodes'"},
        {"nodes: [{gpus: 8}]", "plan.yaml:1:9: nodes need a 'model' of their GPUs"},
        {"nodes: [{model: A, gpus: 17}]", "plan.yaml:1:26: 'gpus'"},
        {"nodes: [{model: A}]\nqueues: [{gpus: 8}]", "plan.yaml:2:10: a queue needs a 'name'"},
        {"nodes: [{model: A}]\njobs: {sizes: [{gpus: 1.5}]}", "plan.yaml:2:16: gpus: 1.5: more than one GPU"},
        {"nodes: [{model: A}]\njobs: {sizes: []}", "plan.yaml:2:15: sizes: at least one is needed"},
        {"nodes: [{model: A}]\njobs: {users: [{queue: q}]}", "plan.yaml:2:15: the plan has no queue 'q'"},
        {"nodes: [{model: A}]\njobs: {run_time: {median: 2h, p90: 1h}}", "run_time: p90 must be longer"},
        {"nodes: [{model: A}]\nschedule: {mode: best}", "no mode 'best'"},
        {"nodes: [{model: A}]\nschedule: {mode: fgd, weights: {power: 1}}", "is a published policy, which has none"},
        {"nodes: [{model: A}]\nschedule: {weights: {speed: 1}}", "plan.yaml:2:22: weights: no term 'speed'"},
        {"nodes: [{model: A}]\nschedule: {weights: {power: -1}}", "plan.yaml:2:29: weights: 'power' must be a number"},
        {"nodes: [{model: A}]\noffer: []", "plan.yaml:2:1: unknown key 'offer'"},
        {"nodes: [{model: A, mig: true}]",
         "plan.yaml:1:17: mig: the placements of GPU model 'A' are not known; they are"},
        {"nodes: [{model: RTX-PRO-5000-Blackwell, mig: true}]", "of GPU model 'RTX-PRO-5000-Blackwell' are not known"},
        {"nodes: [{model: A}]\njobs: {sizes: [{mig: 1g.10gb}]}", "2:22: mig: the plan has no nodes with 'mig: true'"},
        {"nodes: [{model: A30-24GB, mig: true}]\njobs: {sizes: [{mig: 1g.10gb}]}",
         "plan.yaml:2:22: mig: no profile '1g.10gb'; A30-24GB has 1g.6gb, 1g.6gb+me, 2g.12gb, 2g.12gb+me, 4g.24gb"},
        {"nodes: [{model: A30-24GB, mig: true}]\njobs: {sizes: [{mig: 1c.2g.12gb}]}", "no profile '1c.2g.12gb'"},
        {"nodes: [{model: A30-24GB, mig: true}]\njobs: {sizes: [{mig: 1g.6gb, gpus: 1}]}", "2:36: either 'gpus' or"},
    };
    Plan plan;
    Err err;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_true(read_plan(cases[i][0], &plan, &err) < 0);
        if (!strstr(err.text, cases[i][1]))
            fail_msg("'%s' has not '%s'", err.text, cases[i][1]);
    }
    assert_int_equal(read_plan("nodes: [{model: H100}]", &plan, &err), 0);
    assert_true(plan_add_nodes(&plan, "16H100", &arena, &err) < 0);
    assert_true(plan_add_nodes(&plan, "16xB200x8", &arena, &err) < 0);
    assert_non_null(strstr(err.text, "GPU model 'B200'"));
    assert_true(plan_add_nodes(&plan, "16xH100x99", &arena, &err) < 0);
    assert_true(plan_set_quota(&plan, "q=8", &err) < 0);
    assert_true(plan_set_mig(&plan, "H100=1", &arena, &err) < 0);
    assert_non_null(strstr(err.text, "no nodes of GPU model 'H100' with 'mig: true'"));
    assert_true(plan_set_mig(&plan, "H100=2", &arena, &err) < 0);
    assert_true(plan_set_mig(&plan, "H100", &arena, &err) < 0);
    assert_true(plan_set_quota(&plan, "q", &err) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(figures_are_those_counted_by_hand, start_anew),
        cmocka_unit_test_setup(a_long_history_has_coarser_points, start_anew),
        cmocka_unit_test_setup(failures_cost_what_was_not_kept, start_anew),
        cmocka_unit_test_setup(what_never_ends_is_given_up, start_anew),
        cmocka_unit_test_setup(jobs_by_chance_are_as_asked, start_anew),
        cmocka_unit_test_setup(checkpoints_are_as_often_as_is_best, start_anew),
        cmocka_unit_test_setup(the_example_is_told_whole, start_anew),
        cmocka_unit_test_setup(nodes_can_be_put_into_mig_mode, start_anew),
        cmocka_unit_test_setup(files_lie_beside_the_plan, start_anew),
        cmocka_unit_test_setup(weights_change_a_mode, start_anew),
        cmocka_unit_test_setup(instances_wait_for_slices, start_anew),
        cmocka_unit_test_setup(reservations_leave_room_for_large_instances, start_anew),
        cmocka_unit_test_setup(sizes_name_profiles, start_anew),
        cmocka_unit_test_setup(wrong_plans_are_told_with_their_place, start_anew),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);

    arena_done(&arena);
    return failed;
}
