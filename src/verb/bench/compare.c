/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker bench diff` and `fleet`: results of earlier tests beside each other. */
#include <stdio.h>

#include "base/alloc.h"
#include "verb/bench/bench_verbs.h"

enum { REPORT_MAX = 16 << 20, FILES_MAX = 4096 };

int bench_read_run(VerbCall *call, const char *path, BenchRun *ret)
{
    CLEANUP(str_done) Str text = str_limited(BENCH_TEXT_MAX);

    *ret = (BenchRun){.real_ns = 0};
    TRY(verb_read_file(path, BENCH_TEXT_MAX, &text, &call->err));
    if (bench_read_json(text.text ? text.text : "", text.len, ret, &call->err) < 0)
        return err_add(&call->err, "%s", path);
    return 0;
}

static int diff_run(VerbCall *call, const void *options UNUSED)
{
    CLEANUP(str_done) Str out = str_limited(REPORT_MAX);
    CLEANUP(bench_run_done) BenchRun before = {.real_ns = 0}, after = {.real_ns = 0};

    if (call->args.len != 2)
        return verb_failf(call, EXIT_USAGE, "takes two files: an earlier result and a later one");
    if (bench_read_run(call, call->args.items[0], &before) < 0 || bench_read_run(call, call->args.items[1], &after) < 0)
        return verb_fail(call, EXIT_USAGE);
    const size_t worse = bench_write_diff(&before, &after, &out);
    fwrite(out.text, 1, out.len, stdout);
    return worse ? EXIT_FINDING : EXIT_FINE;
}

static int fleet_run(VerbCall *call, const void *options UNUSED)
{
    CLEANUP(str_done) Str out = str_limited(REPORT_MAX);
    size_t read = 0;

    if (call->args.len == 0 || call->args.len > FILES_MAX)
        return verb_failf(call, EXIT_USAGE,
                          "takes results of 'stoker bench ... --output FILE' of several nodes, at most %d", FILES_MAX);
    BenchRun *runs = arena_calloc(call->arena, call->args.len, sizeof *runs);
    while (read < call->args.len && bench_read_run(call, call->args.items[read], &runs[read]) == 0)
        read++;
    const size_t found = read == call->args.len ? bench_write_fleet(runs, read, &out) : 0;
    for (size_t i = 0; i < call->args.len; i++)
        bench_run_done(&runs[i]);
    if (read < call->args.len)
        return verb_fail(call, EXIT_USAGE);
    fwrite(out.text, 1, out.len, stdout);
    return found ? EXIT_FINDING : EXIT_FINE;
}

const Verb verb_bench_diff = {
    .name = "diff",
    .summary = "compare two results: what changed of each GPU",
    .usage = "BEFORE AFTER",
    .description = "Prints each measure of each GPU in both results, and marks what became worse by more than healthy "
                   "GPUs vary. GPUs are matched by UUID, else by index.",
    .examples = "stoker bench diff monday.json friday.json",
    .exit_codes = "0  nothing became worse\n"
                  "1  something did\n"
                  "2  the command line is wrong, or a file cannot be read",
    .run = diff_run,
};

const Verb verb_bench_fleet = {
    .name = "fleet",
    .summary = "compare results of many nodes: which GPUs are behind the others of their model",
    .usage = "FILE...",
    .description = "Prints the median and the spread of each measure over all GPUs of a model, and the GPUs that are "
                   "behind, the worst first.",
    .examples = "stoker bench fleet node-*.json",
    .exit_codes = "0  no GPU is behind\n"
                  "1  some are\n"
                  "2  the command line is wrong, or a file cannot be read",
    .run = fleet_run,
};
