/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker slurm`; `stoker slurm gres` prints Slurm's gres.conf of this node, or checks one against the hardware. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/duration.h"
#include "service/gres/gres_report.h"
#include "source/slurm/gres_node.h"
#include "verb/mig/mig.h"
#include "verb/slurm/slurm_verbs.h"

enum { REPORT_MAX = 4 << 20 };

typedef struct GresOptions {
    MigVerbOptions mig; /* first, for MIG_NODE_OPTS */
    const char *check, *node;
} GresOptions;

static const OptSpec gres_opts[] = {
    OPT_ROW("check", OPT_STRING, GresOptions, check, .metavar = "FILE", .help = "check this gres.conf; print none"),
    OPT_ROW("node", OPT_STRING, GresOptions, node, .metavar = "NAME",
            .help =
                "the node's name in Slurm: lines begin with NodeName=NAME; with --check, which lines count (without: "
                "the host's name)"),
    OPT_ROW("json", OPT_BOOL, GresOptions, mig.json, .help = "as JSON"),
    MIG_NODE_OPTS,
};

CLEANUP_POINTER(MigDriver, mig_driver_close);

static int read_node(VerbCall *call, const GresOptions *o, GresNode *ret)
{
    CLEANUP(mig_driver_close_at) MigDriver *driver = NULL;
    const GresNode *read;
    TRY(mig_driver_open(o->mig.library ? o->mig.library : "", o->mig.timeout_ns / NS_PER_MS, &driver, &call->err));
    TRY(mig_driver_read_gres(driver, &read, &call->err));
    *ret = *read;
    return gres_node_complete(o->mig.root ? o->mig.root : "", ret, &call->err);
}

/* The host's name up to the first dot, as slurmd takes it. */
static const char *find_host(Arena *arena)
{
    char name[256] = "";
    if (gethostname(name, sizeof name - 1) < 0)
        return "";
    return arena_strndup(arena, name, strcspn(name, "."));
}

static int check_file(VerbCall *call, const GresOptions *o, const GresNode *node, Str *out)
{
    GresConf *conf;
    const char *name = o->node ? o->node : find_host(call->arena);
    if (gres_conf_read(o->check, name, mig_read_file, call->arena, &conf, &call->err) < 0)
        return verb_fail(call, EXIT_USAGE);
    gres_check(node, call->arena, conf);
    (o->mig.json ? gres_problems_json : gres_problems_text)(conf, out);
    if (!conf->problem_count && !o->mig.json)
        str_addf(out, "%s fits this node\n", o->check);
    return conf->problem_count ? EXIT_FINDING : EXIT_FINE;
}

static int gres_run(VerbCall *call, const void *options)
{
    const GresOptions *o = options;
    CLEANUP(str_done) Str out = str_limited(REPORT_MAX);
    GresNode *node = arena_calloc(call->arena, 1, sizeof *node);
    int code = EXIT_FINE;
    if (read_node(call, o, node) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    if (o->check)
        code = check_file(call, o, node, &out);
    else if (o->mig.json)
        gres_conf_json(node, &out);
    else
        gres_conf_text(node, o->node, &out);
    fwrite(out.len ? out.text : "", 1, out.len, stdout);
    for (size_t i = 0; i < node->count && code == EXIT_FINE; i++)
        if (node->gpus[i].why[0])
            code = verb_failf(call, EXIT_UNKNOWN, "GPU %u: %s", node->gpus[i].index, node->gpus[i].why);
    return code;
}

static const Verb verb_slurm_gres = {
    .name = "gres",
    .summary = "print Slurm's gres.conf of this node, or check one",
    .usage = "[--check FILE] [--node NAME]",
    .description =
        "Prints a gres.conf with the GPUs and MIG instances of this node as the driver reports them now: device files, "
        "cores near each GPU, NVLinks between GPUs. A comment has the lines of slurm.conf that belong to it.\n\n"
        "With --check it compares a file and what it includes with the hardware. Each finding has the line, what the "
        "hardware has, and what slurmd does with the line. Only lines of gpu and NVIDIA's device files are compared. "
        "It needs no root and changes nothing.",
    .examples = "stoker slurm gres > /etc/slurm/gres.conf\n"
                "stoker slurm gres --check /etc/slurm/gres.conf\n"
                "stoker slurm gres --node gpu17 --check gres.conf --json",
    .exit_codes = "0  printed, or the file fits\n"
                  "1  the file does not fit\n"
                  "2  the command line is wrong, or the file cannot be read\n"
                  "3  the driver does not answer, or a GPU could not be read",
    VERB_OPTS(gres_opts, GresOptions),
    .no_args = "",
    .run = gres_run,
};

static const Verb *const subs[] = {&verb_slurm_gres, &verb_slurm_topology, NULL};

const Verb verb_slurm = {
    .name = "slurm",
    .summary = "configuration of Slurm, for this node and for a cluster",
    .examples = "stoker slurm gres --check /etc/slurm/gres.conf",
    .subs = subs,
};
