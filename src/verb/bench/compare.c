/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker bench diff` and `fleet`: results of earlier tests beside each other. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "verb/bench/agent.h"
#include "verb/bench/bench_verbs.h"

enum { REPORT_MAX = 64 << 20 };

typedef struct CompareOptions {
    LookOptions look; /* of diff the control socket */
    bool json;
} CompareOptions;

static const OptSpec fleet_opts[] = {OPT_ROW("json", OPT_BOOL, CompareOptions, json, .help = "as JSON")};
static const OptSpec diff_opts[] = {OPT_ROW("json", OPT_BOOL, CompareOptions, json, .help = "as JSON"),
                                    OPT_ROW("control", OPT_STRING, CompareOptions, look.control, .metavar = "FILE",
                                            .help = "the agent's control socket, for the runs that it keeps")};

int bench_read_run(VerbCall *call, const char *path, BenchRun *ret)
{
    CLEANUP(str_done) Str text = str_limited(BENCH_TEXT_MAX);

    *ret = (BenchRun){.real_ns = 0};
    TRY(verb_read_file(path, BENCH_TEXT_MAX, &text, &call->err));
    if (bench_read_json(text.text ? text.text : "", text.len, ret, &call->err) < 0)
        return err_add(&call->err, "%s", path);
    return 0;
}

static int show_report(VerbCall *call, const Str *out, bool found)
{
    if (str_check(out, "the report", &call->err) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    fwrite(out->text, 1, out->len, stdout);
    return found ? EXIT_FINDING : EXIT_FINE;
}

static int show_diff(VerbCall *call, const BenchRun *before, const BenchRun *after, bool json)
{
    CLEANUP(str_done) Str out = str_limited(REPORT_MAX);
    CLEANUP(bench_diff_done) BenchDiff diff = {.worse = 0};

    bench_diff(before, after, &diff);
    (json ? bench_write_diff_json : bench_write_diff)(before, after, &diff, &out);
    return show_report(call, &out, diff.worse > 0);
}

/* The newest of those that the agent keeps, from place `from` on, of the same test as `like`; NULL: there is none. */
static const BenchRun *find_kept(const BenchHistory *kept, size_t from, const BenchRun *like)
{
    while (from < kept->count && strcmp(kept->list[from]->rung, like->rung) != 0)
        from++;
    return from < kept->count ? kept->list[from] : NULL;
}

/* `file` NULL: the last run that the agent keeps, and the one of the same test before it. */
static int diff_kept(VerbCall *call, const CompareOptions *o, const BenchRun *file)
{
    CLEANUP(bench_history_done) BenchHistory kept = {.count = 0};

    if (bench_agent_history(&o->look, call->arena, &kept, &call->err) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    const BenchRun *after = file ? find_kept(&kept, 0, file) : kept.count ? kept.list[0] : NULL;
    const BenchRun *before = file ? file : after ? find_kept(&kept, 1, after) : NULL;
    if (!before || !after)
        return verb_failf(call, EXIT_UNKNOWN, "no agent runs here that keeps %s; give two files",
                          file ? "a result of the same test" : "two results of one test");
    return show_diff(call, before, after, o->json);
}

static int diff_run(VerbCall *call, const void *options)
{
    const CompareOptions *o = options;
    CLEANUP(bench_run_done) BenchRun before = {.real_ns = 0}, after = {.real_ns = 0};

    if (call->args.len > 2)
        return verb_failf(call, EXIT_USAGE, "takes two files at most: an earlier result and a later one");
    if ((call->args.len > 0 && bench_read_run(call, call->args.items[0], &before) < 0) ||
        (call->args.len > 1 && bench_read_run(call, call->args.items[1], &after) < 0))
        return verb_fail(call, EXIT_USAGE);
    if (call->args.len < 2)
        return diff_kept(call, o, call->args.len ? &before : NULL);
    return show_diff(call, &before, &after, o->json);
}

static int show_fleet(VerbCall *call, const BenchRun *const *runs, size_t count, bool json)
{
    CLEANUP(str_done) Str out = str_limited(REPORT_MAX);
    CLEANUP(bench_ranking_done) BenchRanking ranking = {.behind = 0};

    bench_rank(runs, count, &ranking);
    (json ? bench_write_fleet_json : bench_write_fleet)(&ranking, &out);
    return show_report(call, &out, ranking.behind > 0);
}

static int fleet_run(VerbCall *call, const void *options)
{
    const CompareOptions *o = options;
    size_t read = 0;

    if (call->args.len == 0 || call->args.len > BENCH_RUNS_MAX)
        return verb_failf(call, EXIT_USAGE,
                          "takes results of 'stoker bench ... --output FILE' of several nodes, at most %d",
                          BENCH_RUNS_MAX);
    BenchRun *runs = arena_calloc(call->arena, call->args.len, sizeof *runs);
    const BenchRun **list = arena_calloc(call->arena, call->args.len, sizeof(BenchRun *));
    for (; read < call->args.len && bench_read_run(call, call->args.items[read], &runs[read]) == 0; read++)
        list[read] = &runs[read];
    const int code = read == call->args.len ? show_fleet(call, list, read, o->json) : verb_fail(call, EXIT_USAGE);
    for (size_t i = 0; i < call->args.len; i++)
        bench_run_done(&runs[i]);
    return code;
}

const Verb verb_bench_diff = {
    .name = "diff",
    .summary = "compare two results: what changed of each GPU",
    .usage = "[BEFORE [AFTER]] [--json]",
    .description =
        "Prints each measure of each GPU in both results, and marks what became worse by more than healthy "
        "GPUs vary. GPUs are matched by UUID, else by index. Without AFTER the last run of the same test that the "
        "agent keeps is the later one; without BEFORE, too, its last run is compared with the one before.",
    .examples = "stoker bench diff\n"
                "stoker bench diff monday.json friday.json\n"
                "stoker bench diff monday.json friday.json --json | jq '.changes[] | select(.severity)'",
    .exit_codes = "0  nothing became worse\n"
                  "1  something did\n"
                  "2  the command line is wrong, or a file cannot be read\n"
                  "3  the agent keeps no such run, or none answers",
    VERB_OPTS(diff_opts, CompareOptions),
    .run = diff_run,
};

const Verb verb_bench_fleet = {
    .name = "fleet",
    .summary = "compare results of many nodes: which GPUs are behind the others of their model",
    .usage = "FILE... [--json]",
    .description = "Prints the median and the spread of each measure over all GPUs of a model, and the GPUs that are "
                   "behind, the worst first.",
    .examples = "stoker bench fleet node-*.json\n"
                "stoker bench fleet node-*.json --json | jq '.nodes[] | select(.verdict == \"not-fit\").node'",
    .exit_codes = "0  no GPU is behind\n"
                  "1  some are\n"
                  "2  the command line is wrong, or a file cannot be read",
    VERB_OPTS(fleet_opts, CompareOptions),
    .run = fleet_run,
};
