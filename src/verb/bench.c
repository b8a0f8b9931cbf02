/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker bench`: active tests of GPUs, their memory and their links. */
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "verb/bench/agent.h"
#include "verb/bench/test.h"
#include "verb/bench/bench_verbs.h"

enum { REPORT_MAX = 64 << 20, WINDOWS = 5, MEMORY_PERCENT = 90, READY_BURN_S = 8, READY_LIMIT_S = 30, LIMIT_S = 300 };

#define STAGE(name) (1u << BENCH_STAGE_##name)

typedef struct BenchOptions {
    LookOptions look;
    OptList gpus, types, fleet;
    const char *library, *output, *shape, *page;
    uint64_t limit_ns;
    bool json, in_use;
} BenchOptions;

#define BENCH_OPTS                                                                                                     \
    OPT_ROW("gpu", OPT_LIST, BenchOptions, gpus, .short_flag = 'g', .metavar = "GPU", .env = "SLURM_JOB_GPUS",         \
            .help = "only these GPUs or MIG devices: an index, a UUID or a PCI address; without: all"),                \
        OPT_ROW("in-use", OPT_BOOL, BenchOptions, in_use,                                                              \
                .help = "also test GPUs on which something runs or that a job has; it is slowed down, and results "    \
                        "with it"),                                                                                    \
        OPT_ROW("limit", OPT_DURATION, BenchOptions, limit_ns, .min = 1e9, .max = 2 * 86400e9,                         \
                .help = "stop after this time, whatever has been tested (without: ready 30s, burn 5m more than it "    \
                        "burns, others 5m)"),                                                                          \
        OPT_ROW("output", OPT_STRING, BenchOptions, output, .short_flag = 'o', .metavar = "FILE",                      \
                .help = "also keep the results as JSON in FILE, for 'stoker bench diff' and 'fleet'"),                 \
        OPT_ROW("fleet", OPT_LIST, BenchOptions, fleet, .metavar = "FILE",                                             \
                .help = "also compare with these results of other nodes"),                                             \
        OPT_ROW("json", OPT_BOOL, BenchOptions, json, .help = "as JSON"),                                              \
        OPT_ROW("cuda-library", OPT_STRING, BenchOptions, library, .env = "STOKER_CUDA_LIBRARY", .metavar = "FILE",    \
                .help = "libcuda, instead of the one that the linker finds"),                                          \
        LOOK_OPTS(BenchOptions)

static const OptSpec test_opts[] = {BENCH_OPTS};

static const OptSpec matmul_opts[] = {
    OPT_ROW("shape", OPT_STRING, BenchOptions, shape, .metavar = "MxNxK",
            .help = "of the matrix product: multiples of 128, 128 and 32 (without: 8192x8192x8192)"),
    OPT_ROW("type", OPT_LIST, BenchOptions, types, .metavar = "MEASURE",
            .help = "only these: fma.fp32, mma.bf16, wgmma.fp8, ...; without: all that the GPU has"),
    BENCH_OPTS,
};

static const OptSpec roof_opts[] = {
    OPT_ROW("page", OPT_STRING, BenchOptions, page, .metavar = "FILE", .help = "also write a page with a picture"),
    BENCH_OPTS,
};

static void show_progress(void *self, const char *text)
{
    (void)self;
    fprintf(stderr, "\r\033[K%s ...", text);
}

static const char *join_types(VerbCall *call, const OptList *types)
{
    Str text = str_limited(1024);

    for (size_t i = 0; i < types->len; i++)
        str_addf(&text, "%s%s", i ? "," : "", types->items[i]);
    const char *joined = types->len ? arena_strdup(call->arena, text.text) : NULL;
    str_done(&text);
    return joined;
}

static int keep_result(VerbCall *call, const BenchOptions *o, const BenchRun *run, const BenchJudgement *judgement)
{
    CLEANUP(str_done) Str out = str_limited(REPORT_MAX), page = str_limited(REPORT_MAX);

    if (o->output) {
        bench_write_json(run, judgement, &out);
        TRY(file_write(o->output, out.text, out.len, 0644, &call->err));
    }
    if (o->page) {
        bench_write_roof_page(run, &page);
        TRY(file_write(o->page, page.text, page.len, 0644, &call->err));
    }
    return 0;
}

/* What GPUs of other nodes measure; before the test, since a file may be wrong. */
static int read_fleet(VerbCall *call, const OptList *files, BenchFleet *ret)
{
    const BenchRun **list = arena_calloc(call->arena, files->len + 1, sizeof(BenchRun *));
    BenchRun *runs = arena_calloc(call->arena, files->len + 1, sizeof *runs);
    int rc = 0;

    for (size_t i = 0; i < files->len && rc == 0; i++) {
        rc = bench_read_run(call, files->items[i], &runs[i]);
        list[i] = &runs[i];
    }
    if (rc == 0)
        bench_fleet_make(list, files->len, ret);
    for (size_t i = 0; i < files->len; i++)
        bench_run_done(&runs[i]);
    return rc;
}

/* The judgement, by the node's earlier runs too, which the run joins; what the agent refuses is a note. */
static void judge_run(VerbCall *call, const BenchOptions *o, const BenchFleet *fleet, const BenchRun *run,
                      BenchJudgement *judgement)
{
    CLEANUP(str_done) Str json = str_limited(REPORT_MAX);
    CLEANUP(bench_history_done) BenchHistory history = {.count = 0};
    Err err = {0};

    (void)bench_agent_history(&o->look, call->arena, &history, NULL);
    bench_judge(run, &(BenchReferences){.history = history.list, .history_count = history.count, .fleet = fleet},
                judgement);
    bench_write_json(run, judgement, &json);
    if (bench_agent_end(&o->look, call->arena, json.text, json.len, &err) < 0)
        fprintf(stderr, "not kept by the agent: %s\n", err.text);
}

typedef void WriteRun(const BenchRun *run, const BenchJudgement *judgement, Str *out);

/* Runs a test and shows it. Returns an exit code. */
static int run_plan(VerbCall *call, const BenchOptions *o, BenchPlan plan, WriteRun *write)
{
    CLEANUP(bench_run_done) BenchRun run = {0};
    CLEANUP(bench_judgement_done) BenchJudgement judgement = {0};
    CLEANUP(bench_fleet_done) BenchFleet fleet = {0};
    CLEANUP(str_done) Str out = str_limited(REPORT_MAX);

    if (read_fleet(call, &o->fleet, &fleet) < 0)
        return verb_fail(call, EXIT_USAGE);
    plan.usual_limit_ns = plan.limit_ns;
    plan.limit_ns = o->limit_ns ? o->limit_ns : plan.limit_ns;
    plan.windows = WINDOWS;
    plan.memory_percent = MEMORY_PERCENT;
    plan.probes = join_types(call, &o->types);
    plan.shape = o->shape;
    plan.gpus = o->gpus;
    plan.in_use = o->in_use;
    plan.cuda_library = o->library;
    plan.look = &o->look;
    if (!o->json && isatty(STDERR_FILENO))
        plan.progress = show_progress;
    const int rc = bench_test_run(&plan, call->arena, &run, &call->err);
    if (plan.progress)
        fputs("\r\033[K", stderr);
    if (rc != 0)
        return verb_fail(call, rc == -EINVAL ? EXIT_USAGE : EXIT_UNKNOWN);
    judge_run(call, o, &fleet, &run, &judgement);
    if (o->json)
        bench_write_json(&run, &judgement, &out);
    else
        write(&run, &judgement, &out);
    fwrite(out.text, 1, out.len, stdout);
    if (keep_result(call, o, &run, &judgement) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    return judgement.verdict == BENCH_FIT       ? EXIT_FINE
           : judgement.verdict == BENCH_NOT_FIT ? EXIT_FINDING
                                                : EXIT_UNKNOWN;
}

static int ready_run(VerbCall *call, const void *options)
{
    return run_plan(call, options,
                    (BenchPlan){.rung = "ready",
                                .gpu_stages = STAGE(PATTERNS) | STAGE(MEMORY) | STAGE(PROBES) | STAGE(BURN),
                                .link_stages = STAGE(HOST) | STAGE(PAIRS) | STAGE(COLLECTIVES),
                                .burn_ns = READY_BURN_S * NS_PER_S,
                                .limit_ns = READY_LIMIT_S * NS_PER_S},
                    bench_write_text);
}

static int memory_run(VerbCall *call, const void *options)
{
    return run_plan(
        call, options,
        (BenchPlan){.rung = "memory", .gpu_stages = STAGE(PATTERNS) | STAGE(MEMORY), .limit_ns = LIMIT_S * NS_PER_S},
        bench_write_text);
}

static int matmul_run(VerbCall *call, const void *options)
{
    return run_plan(call, options,
                    (BenchPlan){.rung = "matmul",
                                .gpu_stages = STAGE(PROBES) | STAGE(GEMM),
                                .limit_ns = LIMIT_S * NS_PER_S,
                                .after = bench_compare_library},
                    bench_write_text);
}

static int links_run(VerbCall *call, const void *options)
{
    return run_plan(call, options,
                    (BenchPlan){.rung = "links",
                                .link_stages = STAGE(HOST) | STAGE(PAIRS) | STAGE(COLLECTIVES),
                                .limit_ns = LIMIT_S * NS_PER_S},
                    bench_write_text);
}

static int burn_run(VerbCall *call, const void *options)
{
    uint64_t for_ns = 600 * NS_PER_S;

    if (call->args.len > 1)
        return verb_failf(call, EXIT_USAGE, "how long? one duration such as 10m");
    if (call->args.len == 1 && (duration_parse(call->args.items[0], &for_ns, &call->err) < 0 || for_ns < NS_PER_S ||
                                for_ns > 86400 * NS_PER_S))
        return verb_failf(call, EXIT_USAGE, "'%.40s' is no duration from 1s to 24h", call->args.items[0]);
    return run_plan(
        call, options,
        (BenchPlan){
            .rung = "burn", .gpu_stages = STAGE(BURN), .burn_ns = for_ns, .limit_ns = for_ns + LIMIT_S * NS_PER_S},
        bench_write_text);
}

static void write_roof(const BenchRun *run, const BenchJudgement *judgement, Str *out)
{
    bench_write_roof(run, out);
    for (size_t i = 0; i < judgement->findings.len; i++)
        str_addf(out, "%s\n", judgement->findings.at[i].text);
}

static int roof_run(VerbCall *call, const void *options)
{
    return run_plan(call, options,
                    (BenchPlan){.rung = "roof",
                                .gpu_stages = STAGE(MEMORY) | STAGE(PROBES) | STAGE(GEMM),
                                .limit_ns = LIMIT_S * NS_PER_S},
                    write_roof);
}

#define CODES                                                                                                          \
    "0  every GPU is fit\n"                                                                                            \
    "1  something is slow or wrong; the report names it\n"                                                             \
    "2  the command line is wrong\n"                                                                                   \
    "3  not tested (in use, refused), or it could not be told"

static const Verb verb_ready = {
    .name = "ready",
    .summary = "say within 30 s whether the GPUs of this node are fit for work",
    .usage = "[--gpu GPU]... [--json] [--output FILE]",
    .description =
        "Tests all GPUs at once: the start of CUDA, memory by patterns and its bandwidth, the arithmetic of each SM "
        "with exact results, 8 s of load under watch, copies from and to the host, copies between all pairs of GPUs "
        "with their data checked, and an exact all-reduce. Judges each GPU by its own history, the other GPUs of its "
        "model and what is known of its board, and names the part that is slow or wrong.\n\n"
        "It refuses, and touches nothing, where something runs on a GPU, a job has it, or its state is known to be "
        "bad. It stops within a second when another process comes, and before a GPU gets too hot. It changes no "
        "setting. A test this short finds no fault that needs minutes of heat: 'stoker bench burn' does.",
    .examples = "stoker bench ready\n"
                "stoker bench ready --gpu 0 --gpu 3 --json | jq .verdict\n"
                "stoker bench ready -o $(hostname).json    # then: stoker bench fleet *.json",
    .exit_codes = CODES,
    VERB_OPTS(test_opts, BenchOptions),
    .no_args = "",
    .run = ready_run,
};

static const Verb verb_memory = {
    .name = "memory",
    .summary = "test memory: patterns, bandwidth, L2, latency",
    .usage = "[--gpu GPU]... [--json] [--output FILE]",
    .description = "Writes and checks eight patterns over 90 % of the free memory, then measures write, read, copy and "
                   "triad bandwidth, that of the L2 cache, and latency.",
    .examples = "stoker bench memory --gpu 3",
    .exit_codes = CODES,
    VERB_OPTS(test_opts, BenchOptions),
    .no_args = "",
    .run = memory_run,
};

static const Verb verb_matmul = {
    .name = "matmul",
    .summary = "measure arithmetic: each type of tensor core and of multiply-add, per SM, and a matrix product",
    .usage = "[--type MEASURE]... [--shape MxNxK] [--gpu GPU]... [--json] [--output FILE]",
    .description = "Measures what each type of instruction reaches on each SM (exact results are checked), the clock "
                   "held meanwhile, and a matrix product from memory with normally distributed data; where there is "
                   "a libcublasLt, the same product by it, which is not judged.",
    .examples = "stoker bench matmul --type wgmma.bf16 --type mma.fp8\n"
                "stoker bench matmul --shape 4096x4096x8192",
    .exit_codes = CODES,
    VERB_OPTS(matmul_opts, BenchOptions),
    .no_args = "",
    .run = matmul_run,
};

static const Verb verb_links = {
    .name = "links",
    .summary = "measure links: host copies, all pairs of GPUs, ring, all-to-all, all-reduce",
    .usage = "[--gpu GPU]... [--json] [--output FILE]",
    .description =
        "Copies between the host and each GPU alone and all together, between all pairs of GPUs one way and "
        "both ways, by copy engine and by SMs, in a ring, all to all, and an exact all-reduce. All data are "
        "checked. Copies that go through the host, pairs without access and pairs that corrupt data are named.",
    .examples = "stoker bench links\n"
                "stoker bench links --json | jq '.measures[] | select(.measure == \"peer\")'",
    .exit_codes = CODES,
    VERB_OPTS(test_opts, BenchOptions),
    .no_args = "",
    .run = links_run,
};

static const Verb verb_burn = {
    .name = "burn",
    .summary = "load the GPUs for minutes and check every result",
    .usage = "[DURATION] [--gpu GPU]... [--json] [--output FILE]",
    .description =
        "Multiplies matrices for so long (without: 10m), with random and with exact data in turn, compares "
        "every result, and names the SM of a wrong one. The rate and the clock of the last seconds are judged.",
    .examples = "stoker bench burn 1h --gpu 5",
    .exit_codes = CODES,
    VERB_OPTS(test_opts, BenchOptions),
    .run = burn_run,
};

static const Verb verb_roof = {
    .name = "roof",
    .summary = "measure the roofline: what memory and arithmetic give, and where one limits the other",
    .usage = "[--page FILE] [--gpu GPU]... [--json] [--output FILE]",
    .description = "Measures the bandwidth of memory and of the L2 cache, what each type of arithmetic reaches at the "
                   "clock held meanwhile, and how many operations for each byte it takes until memory is not the "
                   "limit.",
    .examples = "stoker bench roof --gpu 0 --page roof.html",
    .exit_codes = CODES,
    VERB_OPTS(roof_opts, BenchOptions),
    .no_args = "",
    .run = roof_run,
};

static const Verb *const subs[] = {
    &verb_ready, &verb_memory,    &verb_matmul,     &verb_links,       &verb_burn,
    &verb_roof,  &verb_bench_mig, &verb_bench_diff, &verb_bench_fleet, NULL,
};

const Verb verb_bench = {
    .name = "bench",
    .summary = "test GPUs, their memory and their links, and say what is slow or wrong",
    .usage = "ready | memory | matmul | links | burn | roof | mig | diff | fleet",
    .description = "Active tests: they load the GPU. See 'stoker bench ready --help' first.",
    .examples = "stoker bench ready\n"
                "stoker bench fleet node-*.json",
    .subs = subs,
};
