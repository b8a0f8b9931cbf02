/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker place simulate`: a cluster and its jobs over time, by a plan. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "service/place/plan.h"
#include "service/place/simulate_report.h"
#include "source/openb/openb.h"
#include "source/slurm/history.h"
#include "verb/place/place.h"
#include "verb/trace/outfile.h"

enum { REPORT_MAX = 16 << 20, ADVICE_SEEDS = 10 };

typedef struct SimulateVerbOptions {
    OptList modes, add, quota, mig;
    const char *page;
    double load, budget;
    uint64_t seed;
    bool advise, example, json;
} SimulateVerbOptions;

static const OptSpec simulate_opts[] = {
    OPT_ROW("mode", OPT_LIST, SimulateVerbOptions, modes, .metavar = "MODE,...",
            .help = "instead of the plan's; several are shown side by side"),
    OPT_ROW("load", OPT_DOUBLE, SimulateVerbOptions, load, .max = 100, .help = "instead of the plan's"),
    OPT_ROW("seed", OPT_UINT, SimulateVerbOptions, seed, .help = "instead of the plan's"),
    OPT_ROW("add", OPT_LIST, SimulateVerbOptions, add, .metavar = "16xH100x8,...",
            .help = "what if there were these nodes too: shown beside the plan as it is"),
    OPT_ROW("quota", OPT_LIST, SimulateVerbOptions, quota, .metavar = "QUEUE=GPUS,...",
            .help = "what if queues had these quotas: shown beside the plan as it is"),
    OPT_ROW("mig", OPT_LIST, SimulateVerbOptions, mig, .metavar = "NAME=NODES,...",
            .help = "what if so many of the nodes of a name were in MIG mode too: shown beside the plan as it is"),
    OPT_ROW("advise", OPT_BOOL, SimulateVerbOptions, advise,
            .help = "which of the plan's offers makes jobs wait least for the same money"),
    OPT_ROW("budget", OPT_DOUBLE, SimulateVerbOptions, budget, .max = 1e9,
            .help = "for --advise, money an hour (without: the price of the dearest offer's node)"),
    OPT_ROW("page", OPT_STRING, SimulateVerbOptions, page, .metavar = "FILE", .help = "write a page with curves"),
    OPT_ROW("example", OPT_BOOL, SimulateVerbOptions, example, .help = "print a plan to begin with"),
    OPT_ROW("json", OPT_BOOL, SimulateVerbOptions, json, .help = "as JSON"),
};

typedef struct Runs {
    VerbCall *call;
    SimulateRun at[SIMULATE_RUNS_MAX];
    size_t count;
} Runs;

static int compare_arrivals(const void *a, const void *b)
{
    const ClusterJob *x = a, *y = b;
    const int by_time = (x->submitted_s > y->submitted_s) - (x->submitted_s < y->submitted_s);

    return by_time ? by_time : strcmp(x->name, y->name);
}

/* The jobs of the plan's file, sorted by arrival where they are to be played as they were. */
static int read_jobs(const Plan *plan, Arena *arena, Cluster *cluster, Err *err)
{
    if (plan->sacct) {
        CLEANUP(str_done) Str text = str_limited(SLURM_CLUSTER_TEXT_MAX);
        SlurmHistory history;

        TRY(file_read(plan->jobs_file, SLURM_CLUSTER_TEXT_MAX, &text, err));
        TRY(slurm_history_read(&(SlurmText){plan->jobs_file, text.text, text.len}, cluster, arena, &history, err));
        cluster->jobs = history.jobs;
        cluster->job_count = history.count;
    } else {
        OpenbWorkload work = {.models = cluster->models, .model_count = cluster->model_count};

        TRY(openb_read_pods(plan->jobs_file, arena, &work, err));
        cluster->jobs = work.jobs;
        cluster->job_count = work.pod_count;
    }
    return cluster->job_count ? 0 : err_set(err, -EINVAL, "%s: no job in it", plan->jobs_file);
}

static int sort_jobs(const Plan *plan, Arena *arena, Cluster *cluster, Err *err)
{
    ClusterJob *jobs = arena_memdup(arena, cluster->jobs, cluster->job_count * sizeof *jobs);

    for (size_t i = 0; i < cluster->job_count; i++)
        if (jobs[i].duration_s == 0)
            return err_set(err, -EINVAL,
                           "%s: of '%s' it does not say how long it ran; give 'load' to draw times by chance",
                           plan->jobs_file, jobs[i].name);
    qsort(jobs, cluster->job_count, sizeof *jobs, compare_arrivals);
    cluster->jobs = jobs;
    return 0;
}

/* Of the plan's file at their own times, or by chance, in shapes of the file or of the plan. */
static int make_jobs(const Plan *plan, Arena *arena, Cluster *cluster, Err *err)
{
    GenerateOptions generate = plan->generate;
    uint64_t milli = 0;

    if (plan->jobs_file)
        TRY(read_jobs(plan, arena, cluster, err));
    if (plan->jobs_file && generate.load <= 0)
        return sort_jobs(plan, arena, cluster, err);
    if (plan->jobs_file) {
        GenerateShape *shapes = arena_calloc(arena, cluster->job_count, sizeof *shapes);

        for (size_t i = 0; i < cluster->job_count; i++)
            shapes[i] = (GenerateShape){cluster->jobs[i].roles[0].request, cluster->jobs[i].roles[0].min, 1};
        generate.shapes = shapes;
        generate.shape_count = cluster->job_count;
    }
    for (size_t i = 0; i < cluster->node_count; i++)
        milli += (uint64_t)cluster->nodes[i].gpu_count * CLUSTER_GPU;
    cluster->jobs = generate_jobs(&generate, milli, arena);
    cluster->job_count = generate.jobs;
    return 0;
}

/* Runs one plan; `jobs` NULL: its own jobs, else those of another cluster. */
static int add_run(Runs *runs, const Plan *plan, const PlacementMode *mode, const char *label, const Cluster *jobs,
                   Err *err)
{
    Arena *arena = runs->call->arena;
    Cluster *cluster = arena_calloc(arena, 1, sizeof *cluster);
    OpenbWorkload work = {0};
    Simulation *result;

    if (runs->count == SIMULATE_RUNS_MAX)
        return err_set(err, -EINVAL, "more than %d runs side by side", SIMULATE_RUNS_MAX);
    if (plan->nodes_file)
        TRY(openb_read_nodes(plan->nodes_file, arena, &work, err));
    const Cluster before = {
        .nodes = work.nodes, .node_count = work.node_count, .models = work.models, .model_count = work.model_count};
    TRY(plan_build(plan, &before, arena, cluster, err));
    if (jobs) {
        cluster->jobs = jobs->jobs;
        cluster->job_count = jobs->job_count;
    } else {
        TRY(make_jobs(plan, arena, cluster, err));
    }
    TRY(simulate_run(cluster, NULL, mode, &plan->simulate, arena, &result, err));
    runs->at[runs->count++] = (SimulateRun){label, cluster, result};
    return 0;
}

static int run_modes(Runs *runs, const SimulateVerbOptions *o, const Plan *plan, Err *err)
{
    if (o->modes.len == 0)
        return add_run(runs, plan, plan->mode, placement_mode_name(plan->mode), NULL, err);
    for (size_t i = 0; i < o->modes.len; i++) {
        const PlacementMode *mode = placement_mode_find(o->modes.items[i]);

        if (!mode)
            return err_set(err, -EINVAL, "--mode: no mode '%s'; 'stoker place modes' lists them", o->modes.items[i]);
        TRY(add_run(runs, plan, mode, o->modes.items[i], runs->count ? runs->at[0].cluster : NULL, err));
    }
    return 0;
}

/* The same jobs with nodes or quotas that are not there. */
static int run_what_if(Runs *runs, const SimulateVerbOptions *o, const Plan *plan, Err *err)
{
    Plan other = *plan;
    const PlacementMode *mode = o->modes.len ? placement_mode_find(o->modes.items[0]) : plan->mode;

    if (o->add.len + o->quota.len + o->mig.len == 0)
        return 0;
    for (size_t i = 0; i < o->add.len; i++)
        TRY(plan_add_nodes(&other, o->add.items[i], runs->call->arena, err));
    for (size_t i = 0; i < o->mig.len; i++)
        TRY(plan_set_mig(&other, o->mig.items[i], runs->call->arena, err));
    if (plan->queue_count > 0)
        other.queues = arena_memdup(runs->call->arena, plan->queues, plan->queue_count * sizeof *plan->queues);
    for (size_t i = 0; i < o->quota.len; i++)
        TRY(plan_set_quota(&other, o->quota.items[i], err));
    return add_run(runs, &other, mode, "what if", runs->at[0].cluster, err);
}

/* The plan as it is, and with each offer's nodes: with as many as the money is enough for. */
static int run_offers_once(Runs *runs, const Plan *plan, double budget, SimulateOffer *offers, Err *err)
{
    TRY(add_run(runs, plan, plan->mode, "as it is", NULL, err));
    for (size_t i = 0; i < plan->offers.len; i++) {
        const PlanNodes *offer = &plan->offers.at[i];
        const uint64_t count = offer->node.price > 0 ? (uint64_t)(budget / offer->node.price) : 0;
        Plan other = *plan;

        if (count == 0)
            continue;
        plan_append(&other, offer, count, runs->call->arena);
        offers[runs->count].label =
            arena_printf(runs->call->arena, "%llu x %s", (unsigned long long)count, offer->name);
        offers[runs->count].price = (double)count * offer->node.price;
        TRY(add_run(runs, &other, plan->mode, offers[runs->count].label, runs->at[0].cluster, err));
    }
    return runs->count > 1 ? 0 : err_set(err, -EINVAL, "--advise: no offer has a price within %.2f an hour", budget);
}

/* Adds one seed's runs; `count`: seeds with this one. */
static void add_to_offers(const Runs *runs, size_t count, SimulateOffer *offers)
{
    for (size_t i = 0; i < runs->count; i++) {
        const Simulation *result = runs->at[i].result;
        const double less_h = simulate_waited_h(runs->at[0].result) - simulate_waited_h(result);
        const double off = less_h - offers[i].less_h, weight = 1 / (double)count;
        const double money = offers[i].price * (double)(result->end_s - result->begin_s) / 3600;

        offers[i].less_h += off * weight; /* Welford; less_spread_h is the sum of squares until the end */
        offers[i].less_spread_h += off * (less_h - offers[i].less_h);
        offers[i].wait_p95_s += (result->classes[SIMULATE_ALL].wait_p95_s - offers[i].wait_p95_s) * weight;
        offers[i].less_for_money += money > 0 ? (less_h / money - offers[i].less_for_money) * weight : 0;
    }
}

/* Over several seeds: one more node or less changes the order of everything that comes after. */
static int advise_purchase(VerbCall *call, const SimulateVerbOptions *o, Plan *plan, Str *out)
{
    SimulateOffer offers[SIMULATE_RUNS_MAX] = {{.label = "as it is"}};
    double budget = o->budget;
    size_t count = 0;

    if (plan->offers.len == 0)
        return err_set(&call->err, -EINVAL, "--advise: the plan has no 'offers'");
    for (size_t i = 0; i < plan->offers.len && o->budget <= 0; i++)
        budget = fmax(budget, plan->offers.at[i].node.price);
    for (size_t seed = 1; seed <= ADVICE_SEEDS; seed++) {
        Runs *runs = arena_calloc(call->arena, 1, sizeof *runs);

        runs->call = call;
        TRY(run_offers_once(runs, plan, budget, offers, &call->err));
        add_to_offers(runs, seed, offers);
        count = runs->count;
        plan->simulate.seed = ++plan->generate.seed;
    }
    for (size_t i = 0; i < count; i++)
        offers[i].less_spread_h = sqrt(offers[i].less_spread_h / (ADVICE_SEEDS - 1));
    simulate_rank_offers(offers, count);
    (o->json ? simulate_offers_json : simulate_offers_text)(offers, count, out);
    return 0;
}

static int write_page(const Runs *runs, const char *path, const char *plan, Err *err)
{
    CLEANUP(str_done) Str page = str_limited(REPORT_MAX);
    CLEANUP(outfile_drop_at) OutFile *out = NULL;
    const char *slash = strrchr(plan, '/');

    simulate_page(runs->at, runs->count, slash ? slash + 1 : plan, &page);
    TRY(outfile_open(path, &out, err));
    TRY(outfile_write(out, page.text, page.len, err));
    return outfile_commit(TAKE(out), err);
}

static int simulate_run_verb(VerbCall *call, const void *options)
{
    const SimulateVerbOptions *o = options;
    CLEANUP(str_done) Str out = str_limited(REPORT_MAX);
    Runs *runs = arena_calloc(call->arena, 1, sizeof *runs);
    const YamlNode *root;
    Plan plan;

    if (o->example) {
        fputs(plan_example, stdout);
        return EXIT_FINE;
    }
    if (call->args.len != 1)
        return verb_failf(call, EXIT_USAGE, "needs a plan; 'stoker place simulate --example' prints one");
    runs->call = call;
    if (yaml_load_file(call->args.items[0], call->arena, &root, &call->err) < 0 ||
        plan_read(call->args.items[0], root, verb_data_path(call->arena, "mig/boards.yaml"), call->arena, &plan,
                  &call->err) < 0)
        return verb_fail(call, EXIT_USAGE);
    if (o->load > 0)
        plan.generate.load = o->load;
    if (o->seed > 0)
        plan.generate.seed = plan.simulate.seed = o->seed;
    if (o->advise) {
        if (advise_purchase(call, o, &plan, &out) < 0)
            return verb_fail(call, EXIT_USAGE);
    } else {
        if (run_modes(runs, o, &plan, &call->err) < 0 || run_what_if(runs, o, &plan, &call->err) < 0 ||
            (o->page && write_page(runs, o->page, call->args.items[0], &call->err) < 0))
            return verb_fail(call, EXIT_USAGE);
        (o->json ? simulate_json : simulate_text)(runs->at, runs->count, &out);
    }
    fwrite(out.text, 1, out.len, stdout);
    return EXIT_FINE;
}

const Verb verb_place_simulate = {
    .name = "simulate",
    .summary = "a cluster and its jobs over time: waits, lost work, power, price",
    .usage = "PLAN [--mode MODE,...] [--add NODES] [--quota QUEUE=GPUS] [--mig NAME=NODES] [--advise] [--page FILE] "
             "[--json]",
    .description =
        "Plays a plan: jobs arrive, wait in queues, start, are stopped for others, end; nodes fail and come back. "
        "The plan is a YAML file; --example prints one. Jobs come from a file with openb's columns, from what sacct "
        "printed, or by chance. The "
        "same "
        "plan and seed give the same result.\n\n"
        "Shown are the GPUs in use, how long jobs waited, what was lost by stops and failures, power and price. "
        "Several "
        "modes stand side by side; --add, --quota and --mig show the plan beside what would be if. --advise tries the "
        "plan's "
        "offers, each with the nodes that the same money buys, over ten seeds, and puts the one first that makes jobs "
        "wait least.\n\n"
        "It changes nothing and needs no GPU.",
    .examples = "stoker place simulate --example > plan.yaml\n"
                "stoker place simulate plan.yaml --page plan.html\n"
                "stoker place simulate plan.yaml --mode churn,spread,fgd\n"
                "stoker place simulate plan.yaml --add 4xH100x8\n"
                "stoker place simulate plan.yaml --advise",
    .exit_codes = "0  played\n"
                  "2  the command line or the plan is wrong, or a file cannot be read",
    VERB_OPTS(simulate_opts, SimulateVerbOptions),
    .run = simulate_run_verb,
};
