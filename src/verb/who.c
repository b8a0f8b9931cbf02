/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker who`: who holds which GPU, from the running agent or, without one, from samplers of its own. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "service/api/snapshot_read.h"
#include "service/journal/journal.h"
#include "service/who/who.h"
#include "verb/agent/control.h"
#include "verb/agent/local_node.h"
#include "verb/past.h"
#include "verb/verb.h"

enum { ASK_MS = 3000 };

typedef struct WhoOptions {
    LookOptions look;
    const char *by, *gpu, *since, *journal;
    bool json;
} WhoOptions;

static const OptSpec who_opts[] = {
    OPT_ROW("by", OPT_STRING, WhoOptions, by, .metavar = "KEY",
            .help = "sum up by user, job, pod, namespace, account or container"),
    OPT_ROW("gpu", OPT_STRING, WhoOptions, gpu, .short_flag = 'g', .metavar = "GPU",
            .help = "only this GPU or MIG device: an index, a UUID or a PCI address"),
    OPT_ROW("since", OPT_STRING, WhoOptions, since, .metavar = "TIME",
            .help = "who held the GPUs since then, from the ledger: 24h, or 2026-01-31T08:00:00Z"),
    OPT_ROW("journal", OPT_STRING, WhoOptions, journal, .env = "STOKER_JOURNAL", .metavar = "FILE",
            .help = "with --since: the agent's journal; without: the running agent's"),
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

    const int rc = who_query_read(snapshot, o->by, o->gpu, &query, &call->err);
    if (rc < 0)
        return verb_fail(call, rc == -EIO ? EXIT_UNKNOWN : EXIT_USAGE);
    if (o->json)
        who_json(snapshot, &query, &out);
    else
        who_text(snapshot, &query, &out);
    fwrite(out.text, 1, out.len, stdout);
    if (snapshot->node->gpu_count == 0 && snapshot->node->driver_why[0])
        return verb_failf(call, EXIT_UNKNOWN, "the driver does not answer: %s", snapshot->node->driver_why);
    return who_is_known(snapshot, &query) ? EXIT_FINE : EXIT_UNKNOWN;
}

/* --- since some time ---------------------------------------------------------------------------------------------- */

/* The device of --gpu, which the node's GPUs of now tell. */
static int find_device(VerbCall *call, const WhoOptions *o, char device[DEVICE_KEY_CAP])
{
    CLEANUP(local_node_free_at) LocalNode *local = NULL;
    SnapshotBuffer *buffer = snapshot_buffer_new();
    const Snapshot *snapshot = find_snapshot(call, &o->look, buffer, &local);
    WhoQuery query;
    int rc = snapshot ? who_query_read(snapshot, NULL, o->gpu, &query, &call->err) : -EIO;

    if (rc == 0)
        rc = device_key(query.instance ? &query.instance->device : &query.gpu->reading.device, device);
    snapshot_buffer_free(buffer);
    return rc;
}

static int read_past(VerbCall *call, const WhoOptions *o, WhoPast *past)
{
    const PastOptions options = {.control = o->look.control, .journal = o->journal, .root = o->look.root};
    const JournalLedgerQuery query = {.from_real_ns = past->since_real_ns, .to_real_ns = UINT64_MAX, .merge = true};
    Past places;

    if (o->gpu && find_device(call, o, past->device) < 0)
        return -EINVAL;
    TRY(past_open(call, &options, &places));
    const int rc =
        places.journal[0] ? journal_read_ledger(places.journal, &query, who_past_add, past, &call->err) : -ENOENT;
    if (rc == -ENOENT && places.agent)
        return err_set(&call->err, rc, "the agent keeps no journal, and so no ledger (its option --journal)");
    return rc == -ENOENT ? past_fail_nothing(&places) : rc;
}

static int print_past(VerbCall *call, const WhoOptions *o)
{
    const int by = o->by ? word_find(owner_keys, OWNER_KEY_END, o->by) : OWNER_KEY_END;
    const uint64_t now = clock_real(clock_kernel());
    char node[256] = "";
    WhoPast past = {.by = (OwnerKey)by, .now_real_ns = now, .node = node};
    CLEANUP(str_done) Str out = str_limited(CONTROL_REPLY_MAX);

    if (by < 0 || past_since(o->since, now, &past.since_real_ns, &call->err) < 0)
        return by < 0 ? verb_failf(call, EXIT_USAGE,
                                   "--by '%.40s': user, job, pod, namespace, account or container is allowed", o->by)
                      : verb_fail(call, EXIT_USAGE);
    (void)gethostname(node, sizeof node - 1);
    who_past_init(&past);
    const int rc = read_past(call, o, &past);
    who_past_finish(&past);
    if (rc == 0)
        (o->json ? who_past_json : who_past_text)(&past, &out);
    who_past_done(&past);
    fwrite(out.len ? out.text : "", 1, out.len, stdout);
    return rc == 0 ? EXIT_FINE : verb_fail(call, rc == -EINVAL ? EXIT_USAGE : EXIT_UNKNOWN);
}

static int who_run(VerbCall *call, const void *options)
{
    const WhoOptions *o = options;

    if (o->since)
        return print_past(call, o);
    CLEANUP(local_node_free_at) LocalNode *local = NULL;
    SnapshotBuffer *buffer = snapshot_buffer_new();
    const Snapshot *snapshot = find_snapshot(call, &o->look, buffer, &local);
    const int code = snapshot ? print_holdings(call, o, snapshot) : verb_fail(call, EXIT_UNKNOWN);

    snapshot_buffer_free(buffer);
    return code;
}

const Verb verb_who = {
    .name = "who",
    .summary = "who holds each GPU, and who uses it or holds it idle",
    .usage = "[--by KEY] [--gpu GPU] [--since TIME] [--json]",
    .description =
        "Combines what was declared (pods of the kubelet, jobs of a workload manager) with what is observed (the "
        "processes on each GPU with user, container, pod and job). States: used; idle_held: it has processes there, "
        "and nothing runs; unmanaged: it uses a GPU that was not given to it; reserved: the GPU was given to it, and "
        "it has no process there yet. Several owners of a GPU or MIG instance share it; the column BY says how each "
        "share was found: exclusive, mig, sampled, even or unknown. Asks the running agent. Without an agent it reads "
        "the driver itself and knows only processes. With --since it sums up the ledger in the agent's journal "
        "instead: the GPU hours that each owner held of each device.",
    .examples = "stoker who\n"
                "stoker who --by user\n"
                "stoker who --by user --since 24h\n"
                "stoker who --gpu 3 --json | jq '.allocations[].owner'",
    .exit_codes = "0  it is shown\n"
                  "2  the command line is wrong, or there is no such GPU\n"
                  "3  unknown: neither an agent nor the driver answers, or not for these GPUs",
    VERB_OPTS(who_opts, WhoOptions),
    .no_args = "",
    .run = who_run,
};
