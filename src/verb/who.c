/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker who`: who holds which GPU, from the running agent or, without one, from samplers of its own. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "service/api/snapshot_read.h"
#include "service/who/who.h"
#include "verb/agent/control.h"
#include "verb/agent/local_node.h"
#include "verb/verb.h"

enum { ASK_MS = 3000 };

typedef struct WhoOptions {
    LookOptions look;
    const char *by, *gpu;
    bool json;
} WhoOptions;

static const OptSpec who_opts[] = {
    OPT_ROW("by", OPT_STRING, WhoOptions, by, .metavar = "KEY",
            .help = "sum up by user, job, pod, namespace, account or container"),
    OPT_ROW("gpu", OPT_STRING, WhoOptions, gpu, .short_flag = 'g', .metavar = "GPU",
            .help = "only this GPU or MIG device: an index, a UUID or a PCI address"),
    OPT_ROW("json", OPT_BOOL, WhoOptions, json, .help = "as JSON"),
    LOOK_OPTS(WhoOptions),
};

/* The agent's snapshot, or one of our own where none runs. NULL: call->err says why not. */
static const Snapshot *find_snapshot(VerbCall *call, const LookOptions *look, SnapshotBuffer *buffer, LocalNode **local)
{
    int rc = -ENOENT, code;

    if (!look->alone)
        rc = control_ask(control_path(look->control, call->arena), "status json", ASK_MS, &buffer->text, &code,
                         &call->err);
    if (rc == 0)
        return snapshot_read(buffer, buffer->text.text, buffer->text.len, &call->err) < 0 ? NULL : &buffer->snapshot;
    if (!look->alone && (look->control || (rc != -ENOENT && rc != -ECONNREFUSED)))
        return NULL;
    if (local_node_new(look->library, look->root, 0, local, &call->err) < 0)
        return NULL;
    return local_node_wait(*local);
}

static int print_holdings(VerbCall *call, const WhoOptions *o, const Snapshot *snapshot)
{
    CLEANUP(str_done) Str out = str_limited(CONTROL_REPLY_MAX);
    WhoQuery query;

    if (who_query_read(snapshot, o->by, o->gpu, &query, &call->err) < 0)
        return verb_fail(call, EXIT_USAGE);
    if (o->json)
        who_json(snapshot, &query, &out);
    else
        who_text(snapshot, &query, &out);
    fwrite(out.text, 1, out.len, stdout);
    if (snapshot->node->gpu_count == 0 && snapshot->node->driver_why[0])
        return verb_failf(call, EXIT_UNKNOWN, "the driver does not answer: %s", snapshot->node->driver_why);
    return EXIT_FINE;
}

static int who_run(VerbCall *call, const void *options)
{
    const WhoOptions *o = options;
    CLEANUP(local_node_free_at) LocalNode *local = NULL;
    SnapshotBuffer *buffer = snapshot_buffer_new();
    const Snapshot *snapshot = find_snapshot(call, &o->look, buffer, &local);
    const int code = snapshot ? print_holdings(call, o, snapshot) : verb_fail(call, EXIT_UNKNOWN);

    snapshot_buffer_free(buffer);
    return code;
}

const Verb verb_who = {
    .name = "who",
    .summary = "who holds each GPU, who uses it, and who only sits on it",
    .usage = "[--by KEY] [--gpu GPU] [--json]",
    .description =
        "Joins what was declared (pods of the kubelet, jobs of a workload manager) with what is observed (processes on "
        "each GPU with their user, container, pod and job). States: used; idle_held: there, and nothing runs; "
        "unmanaged: on a GPU that it was not given; reserved: given, and no process yet. Owners of one GPU or MIG "
        "instance share it; the column BY says how each share was found: exclusive, mig, sampled, even or unknown. "
        "Asks the running agent; where none runs it looks for itself, and then knows processes alone.",
    .examples = "stoker who\n"
                "stoker who --by user\n"
                "stoker who --gpu 3 --json | jq '.allocations[].owner'",
    .exit_codes = "0  it is shown\n"
                  "2  the command line is wrong, or there is no such GPU\n"
                  "3  could not tell: neither an agent nor the driver answers",
    VERB_OPTS(who_opts, WhoOptions),
    .no_args = "",
    .run = who_run,
};
