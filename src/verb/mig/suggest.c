/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker mig suggest`: which layouts would hold the work of the ledger. Changes nothing. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/duration.h"
#include "service/journal/journal.h"
#include "service/mig/mig_suggest.h"
#include "verb/mig/mig.h"
#include "verb/past.h"

#define SHORTAGE_CLASS "memory-leak"

enum { OUT_MAX = 64 << 20 };

typedef struct SuggestOptions {
    MigVerbOptions mig; /* first, for MIG_NODE_OPTS */
    const char *since, *gpu, *journal;
} SuggestOptions;

static const OptSpec suggest_opts[] = {
    OPT_ROW("since", OPT_STRING, SuggestOptions, since, .metavar = "TIME", .def = "24h",
            .help = "the work since then: 24h, or 2026-01-31T08:00:00Z"),
    OPT_ROW("gpu", OPT_STRING, SuggestOptions, gpu, .short_flag = 'g', .metavar = "GPU",
            .help = "only this GPU: an index or a UUID"),
    OPT_ROW("json", OPT_BOOL, SuggestOptions, mig.json, .help = "as JSON (docs/mig.schema.json)"),
    OPT_ROW("board", OPT_STRING, SuggestOptions, mig.board, .metavar = "NAME",
            .help = "without a driver: every GPU of the ledger is one of this board, as H100-80GB"),
    OPT_ROW("control", OPT_STRING, SuggestOptions, mig.control, .metavar = "FILE",
            .help = "the agent's control socket"),
    OPT_ROW("journal", OPT_STRING, SuggestOptions, journal, .env = "STOKER_JOURNAL", .metavar = "FILE",
            .help = "the agent's journal; without: the one that the agent names"),
    MIG_NODE_OPTS,
};

/* The node of a table begins without GPUs: the ledger adds them. */
static int open_node(MigSession *session, VerbCall *call, const MigVerbOptions *options, MigPast *past)
{
    const int code =
        options->board ? mig_session_open_board(session, call, options) : mig_session_open(session, call, options);
    if (code != EXIT_FINE)
        return code;
    past->node = arena_memdup(call->arena, session->node, sizeof *session->node);
    past->table = session->plan.table;
    if (past->table)
        past->node->count = 0;
    return EXIT_FINE;
}

static int add_shortages(const Past *places, MigPast *past)
{
    IncidentList list = {0};
    IncidentsHead head;
    const int rc = past_incidents(places, true, past->since_real_ns, &list, &head);
    char device[DEVICE_KEY_CAP];
    for (size_t i = 0; rc == 0 && i < list.len; i++) {
        const Incident *one = &list.at[i];
        if (strcmp(one->class, SHORTAGE_CLASS) != 0 || device_key(&one->device, device) < 0)
            continue;
        const size_t owners = one->owner_count <= INCIDENT_OWNERS ? one->owner_count : 0;
        mig_past_add_shortage(past, device, one->owners, owners);
    }
    vec_done(&list);
    return rc;
}

static int read_past(VerbCall *call, const SuggestOptions *o, MigPast *past)
{
    const PastOptions options = {.control = o->mig.control, .journal = o->journal, .root = o->mig.root};
    const JournalLedgerQuery query = {.from_real_ns = past->since_real_ns, .to_real_ns = UINT64_MAX};
    Past places;
    TRY(past_open(call, &options, &places));
    past->agent = places.agent;
    const int rc =
        places.journal[0] ? journal_read_ledger(places.journal, &query, mig_past_add, past, &call->err) : -ENOENT;
    if (rc == -ENOENT && places.agent)
        return err_set(&call->err, rc, "the agent keeps no journal, and so no ledger (its option --journal)");
    if (rc < 0)
        return rc == -ENOENT ? past_fail_nothing(&places) : rc;
    mig_past_finish(past);
    return add_shortages(&places, past);
}

/* -ENOENT: the node has no such GPU. */
static int read_asked(VerbCall *call, const char *name, const MigNode *node, bool asked[MIG_GPUS_MAX])
{
    bool found = false;
    for (size_t i = 0; i < node->count; i++) {
        char index[16];
        snprintf(index, sizeof index, "%u", node->gpus[i].index);
        asked[i] = !name || strcmp(name, index) == 0 || strcasecmp(name, node->gpus[i].uuid) == 0;
        found |= asked[i];
    }
    return found || !name ? 0 : err_set(&call->err, -ENOENT, "--gpu: there is no GPU '%.60s'", name);
}

static int print_suggestion(VerbCall *call, const SuggestOptions *o, MigPast *past)
{
    bool asked[MIG_GPUS_MAX];
    if (read_asked(call, o->gpu, past->node, asked) < 0)
        return verb_fail(call, EXIT_USAGE);
    CLEANUP(str_done) Str out = str_limited(OUT_MAX);
    MigSuggestion *s = arena_alloc(call->arena, sizeof *s);
    mig_suggest(past->node, asked, past->demands.at, past->demands.len, past->uses.at, past->uses.len, call->arena, s);
    (o->mig.json ? mig_suggest_json : mig_suggest_text)(past, s, &out);
    fwrite(out.len ? out.text : "", 1, out.len, stdout);
    return EXIT_FINE;
}

static int suggest_run(VerbCall *call, const void *options)
{
    const SuggestOptions *o = options;
    char node_name[256] = "";
    MigPast past = {.node_name = node_name, .arena = call->arena};
    if (past_since(o->since, clock_real(clock_kernel()), &past.since_real_ns, &call->err) < 0)
        return verb_fail(call, EXIT_USAGE);
    past.period = arena_printf(
        call->arena, duration_parse(o->since, &(uint64_t){0}, NULL) == 0 ? "the last %s" : "the time since %s",
        o->since);
    (void)gethostname(node_name, sizeof node_name - 1);
    CLEANUP(mig_session_close_at) MigSession *session = arena_alloc(call->arena, sizeof *session);
    int code = open_node(session, call, &o->mig, &past);
    if (code != EXIT_FINE)
        return code;
    mig_past_init(&past);
    code = read_past(call, o, &past) < 0 ? verb_fail(call, EXIT_UNKNOWN) : print_suggestion(call, o, &past);
    mig_past_done(&past);
    return code;
}

const Verb verb_mig_suggest = {
    .name = "suggest",
    .summary = "which layouts would hold the work of the last day",
    .usage = "[--since TIME] [--gpu GPU] [--json]",
    .description =
        "Reads from the agent's ledger who held which GPU or instance, the most memory and the busiest minute of each, "
        "and finds the layouts that hold all that was there at once on the fewest GPUs. It says what becomes free and "
        "what the risks are, and prints the command that plans the change. Work that held several GPUs at once, needs "
        "a whole one or ran short of memory on one keeps it; where nothing is gained the layout stays. Nothing is "
        "changed.",
    .examples = "stoker mig suggest\n"
                "stoker mig suggest --since 7d --gpu 0\n"
                "stoker mig suggest --json | jq -r .command\n"
                "stoker mig suggest --journal journal.db --board H100-80GB",
    .exit_codes = "0  it is printed, also where nothing is to be changed\n"
                  "2  the command line is wrong, or there is no such GPU\n"
                  "3  the driver does not answer, or there is no ledger",
    VERB_OPTS(suggest_opts, SuggestOptions),
    .no_args = "",
    .run = suggest_run,
};
