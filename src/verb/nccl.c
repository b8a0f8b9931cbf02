/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker nccl`: logs, topologies, benchmarks and flight recorders of a job, and what is wrong with it. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/owner.h"
#include "service/report/nccl.h"
#include "verb/nccl/read.h"
#include "verb/verb.h"

enum { OUTPUT_MAX = 1 << 30 };

typedef struct NcclOptions {
    bool json, csv, verbose;
    int colour;
    uint64_t width;
} NcclOptions;

static const OptSpec nccl_opts[] = {
    {.key = "json",
     .flags = OPT_CLI_ONLY,
     .type = OPT_BOOL,
     .off = offsetof(NcclOptions, json),
     .help = "everything that was found out, as JSON"},
    {.key = "csv",
     .flags = OPT_CLI_ONLY,
     .type = OPT_BOOL,
     .off = offsetof(NcclOptions, csv),
     .help = "the tables of nccl-tests as CSV"},
    {.key = "verbose",
     .short_flag = 'v',
     .flags = OPT_CLI_ONLY,
     .type = OPT_BOOL,
     .off = offsetof(NcclOptions, verbose),
     .help = "all communicators, rings, settings and topologies"},
    {.key = "width",
     .flags = OPT_CLI_ONLY,
     .type = OPT_UINT,
     .off = offsetof(NcclOptions, width),
     .max = 1000,
     .metavar = "COLUMNS",
     .help = "width of the text; 0: the terminal's"},
    {.key = "colour",
     .flags = OPT_CLI_ONLY,
     .type = OPT_ENUM,
     .off = offsetof(NcclOptions, colour),
     .def = "auto",
     .names = verb_colour_names,
     .help = "colours in the text"},
};

OWNER_POINTER(NcclJob, nccl_free);

static void write_report(const NcclOptions *o, const NcclReport *report, Str *out)
{
    NcclStyle style = {.width = o->width ? (size_t)o->width : verb_width(), .verbose = o->verbose};

    if (o->json)
        nccl_report_json(report, out);
    else if (o->csv)
        nccl_report_csv(report, out);
    else {
        style.colour = verb_coloured(o->colour, true);
        style.utf8 = verb_utf8();
        nccl_report_text(report, &style, out);
    }
}

static int read_all(VerbCall *call, NcclJob *job)
{
    Progress progress;
    uint64_t total = 0;
    int rc = 0;

    for (size_t i = 0; i < call->args.len; i++)
        total += nccl_read_bytes(call->args.items[i]);
    progress_begin(&progress, isatty(STDERR_FILENO), total);
    for (size_t i = 0; i < call->args.len && rc == 0; i++)
        rc = nccl_read(job, call->args.items[i], &progress, &call->err);
    progress_end(&progress);
    return rc;
}

static int nccl_run(VerbCall *call, const void *options)
{
    const NcclOptions *o = options;
    CLEANUP(nccl_free_at) NcclJob *job = NULL;
    CLEANUP(str_done) Str out = {0};

    if (call->args.len == 0)
        return verb_failf(call, EXIT_USAGE, "needs at least one file, folder or '-'");
    if (o->json && o->csv)
        return verb_failf(call, EXIT_USAGE, "--json and --csv exclude each other");
    job = nccl_new();
    if (read_all(call, job) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    const NcclReport *report = nccl_finish(job);
    str_init(&out, OUTPUT_MAX);
    write_report(o, report, &out);
    if (str_check(&out, "the report", &call->err) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    fwrite(out.text, 1, out.len, stdout);
    return verb_end(call, nccl_exit_code(report));
}

const Verb verb_nccl = {
    .name = "nccl",
    .summary = "what is wrong with a job's communication: logs, topology, nccl-tests, flight recorder",
    .usage = "[--json | --csv] FILE...",
    .description =
        "Reads any mix of NCCL and RCCL logs (NCCL_DEBUG=INFO), topology and graph XML (NCCL_TOPO_DUMP_FILE, "
        "NCCL_GRAPH_DUMP_FILE), output of nccl-tests (text or -J), and dumps of PyTorch's flight recorder (JSON or "
        "pickle, which is never executed). What a file is, its content says; gzip is unpacked; a folder stands for the "
        "files in it, - for stdin.\n\n"
        "Says what is wrong, where that stands, and what to set; then which way data takes between ranks, rings and "
        "trees, "
        "settings, the topology as a tree, and bandwidths.",
    .examples = "stoker nccl rank*.log\n"
                "stoker nccl job.log topo.xml             # and check one against the other\n"
                "stoker nccl /tmp/nccl_trace_rank_*       # who is behind in a deadlock\n"
                "stoker nccl --csv 8gpus.txt 16gpus.txt   # tables of nccl-tests\n"
                "kubectl logs job/train | stoker nccl - --json | jq '.findings[].id'",
    .exit_codes = "0  nothing wrong was found\n"
                  "1  something is wrong; the text says what\n"
                  "2  the command line is wrong\n"
                  "3  could not tell: a file cannot be read, or nothing in it is of NCCL",
    .opts = nccl_opts,
    .opt_count = ARRAY_LEN(nccl_opts),
    .opt_size = sizeof(NcclOptions),
    .run = nccl_run,
};
