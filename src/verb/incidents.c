/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker incidents`: open and cleared incidents and their evidence. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/cleanup.h"
#include "service/journal/journal.h"
#include "verb/agent/control.h"
#include "verb/past.h"
#include "verb/trace/outfile.h"

enum { OUT_MAX = 256 << 20 };

typedef struct ListOptions {
    PastOptions past;
    bool all, json;
    const char *device, *since;
} ListOptions;

typedef struct ShowOptions {
    PastOptions past;
    bool json;
    const char *bundle;
} ShowOptions;

static const OptSpec list_opts[] = {
    OPT_ROW("all", OPT_BOOL, ListOptions, all, .short_flag = 'a', .help = "also incidents that are over"),
    OPT_ROW("since", OPT_STRING, ListOptions, since, .metavar = "TIME",
            .help = "also incidents that changed since then: 1d, or 2026-01-05T08:00:00Z"),
    OPT_ROW("device", OPT_STRING, ListOptions, device, .short_flag = 'd', .metavar = "GPU",
            .help = "only incidents of this GPU (index, UUID, PCI address), switch, or 'node'"),
    OPT_ROW("json", OPT_BOOL, ListOptions, json, .help = "as JSON"),
    PAST_OPTS(ListOptions),
};

static const OptSpec show_opts[] = {
    OPT_ROW("json", OPT_BOOL, ShowOptions, json, .help = "as JSON"),
    OPT_ROW(
        "bundle", OPT_STRING, ShowOptions, bundle, .short_flag = 'b', .metavar = "FILE",
        .help =
            "write the evidence and the readings around it to FILE, as JSON (.gz: compressed, -: to standard output)"),
    PAST_OPTS(ShowOptions),
};

static const OptSpec clear_opts[] = {PAST_OPTS(ShowOptions)};

/* --- the list ----------------------------------------------------------------------------------------------------- */

static void print_list(const IncidentList *list, const IncidentsHead *head, bool json)
{
    VEC(const Incident *) pointers = {0};
    const IncidentStyle style = past_style(head->real_ns);
    CLEANUP(str_done) Str out = {0};

    for (size_t i = 0; i < list->len; i++)
        vec_push(&pointers, &list->at[i]);
    str_init(&out, OUT_MAX);
    if (json)
        incidents_json(pointers.at, pointers.len, head->node, head->real_ns, &out);
    else
        incidents_text(pointers.at, pointers.len, &style, &out);
    fwrite(out.text, 1, out.len, stdout);
    vec_done(&pointers);
}

static int list_them(VerbCall *call, const ListOptions *o, IncidentList *list)
{
    IncidentsHead head;
    uint64_t since = 0;
    bool open = false;
    Past past;

    if (o->since && past_since(o->since, clock_real(clock_kernel()), &since, &call->err) < 0)
        return verb_failf(call, EXIT_USAGE, "--since: '%s' is neither a duration (1d) nor an instant", o->since);
    if (past_open(call, &o->past, &past) < 0 || past_incidents(&past, o->all || o->since, since, list, &head) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    for (size_t i = list->len; o->device && i-- > 0;)
        if (!incident_is_about(&list->at[i], o->device))
            vec_remove(list, i);
    for (size_t i = 0; i < list->len; i++)
        open |= list->at[i].state == INCIDENT_OPEN && list->at[i].severity >= SEVERITY_WARNING;
    print_list(list, &head, o->json);
    return open ? EXIT_FINDING : EXIT_FINE;
}

static int incidents_run(VerbCall *call, const void *options)
{
    IncidentList list = {0};

    const int code = list_them(call, options, &list);
    vec_done(&list);
    return code;
}

/* --- one ---------------------------------------------------------------------------------------------------------- */

static int write_bundle(VerbCall *call, const Past *past, const char *id, const char *path)
{
    CLEANUP(str_done) Str bundle = {0};
    CLEANUP(outfile_drop_at) OutFile *out = NULL;

    str_init(&bundle, OUT_MAX);
    int rc = past->journal[0] ? journal_read_bundle(past->journal, id, &bundle, &call->err) : -ENOENT;
    if (rc == -ENOENT)
        return verb_failf(call, EXIT_UNKNOWN, "no black box is kept of '%s'%s", id,
                          past->journal[0] ? "" : ": there is no journal");
    if (rc < 0 || outfile_open(path, &out, &call->err) < 0 ||
        outfile_write(out, bundle.text, bundle.len, &call->err) < 0 || outfile_commit(TAKE(out), &call->err) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    return EXIT_FINE;
}

static void print_one(const Incident *incident, bool json)
{
    const IncidentStyle style = past_style(clock_real(clock_kernel()));
    CLEANUP(str_done) Str out = {0};

    str_init(&out, OUT_MAX);
    if (json) {
        incident_json(incident, &out);
        str_addc(&out, '\n');
    } else {
        incident_sheet(incident, &style, &out);
    }
    fwrite(out.text, 1, out.len, stdout);
}

static int one_id(VerbCall *call)
{
    if (call->args.len != 1)
        return verb_failf(call, EXIT_USAGE, "which one? it takes the id of one incident");
    if (!verb_is_id(call->args.items[0], INCIDENT_ID_CAP - 1))
        return verb_failf(call, EXIT_USAGE, "'%.40s' is no id of an incident", call->args.items[0]);
    return EXIT_FINE;
}

static int show_run(VerbCall *call, const void *options)
{
    const ShowOptions *o = options;
    IncidentList list = {0};
    Past past;
    int code = one_id(call);

    if (code != EXIT_FINE)
        return code;
    if (past_open(call, &o->past, &past) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    if (past_incident(&past, call->args.items[0], &list) < 0)
        code = verb_fail(call, EXIT_UNKNOWN);
    else if (o->bundle)
        code = write_bundle(call, &past, call->args.items[0], o->bundle);
    if (code == EXIT_FINE && !(o->bundle && strcmp(o->bundle, "-") == 0))
        print_one(&list.at[0], o->json);
    vec_done(&list);
    return code;
}

static int clear_run(VerbCall *call, const void *options)
{
    const ShowOptions *o = options;
    CLEANUP(str_done) Str out = {0};
    char line[CONTROL_LINE_MAX];
    int code = one_id(call);

    if (code != EXIT_FINE)
        return code;
    snprintf(line, sizeof line, "clear %s %s", call->args.items[0], past_who(call->arena));
    str_init(&out, CONTROL_REPLY_MAX);
    code = past_order(call, o->past.control, line, &out);
    if (code == EXIT_FINE)
        fputs(out.text, stdout);
    return code;
}

static const Verb verb_show = {
    .name = "show",
    .summary = "one incident with its evidence",
    .usage = "[--json] [--bundle FILE] ID",
    .description =
        "Shows everything about one incident: verdict, what to do, evidence, counters before and after, and its "
        "timeline. --bundle also writes a file with the incident, the events around it and the last minutes of every "
        "reading of its GPU.",
    .examples = "stoker incidents show 1jf8v3k2m0\n"
                "stoker incidents show 1jf8v3k2m0 --bundle rma-1650.json.gz",
    .exit_codes = "0  it is shown\n"
                  "2  the command line is wrong\n"
                  "3  there is no such incident, it has no bundle, or there is neither an agent nor a journal",
    VERB_OPTS(show_opts, ShowOptions),
    .run = show_run,
};

static const Verb verb_clear = {
    .name = "clear",
    .summary = "end an incident by hand",
    .usage = "ID",
    .description =
        "Marks an incident as over. Most incidents end by themselves, when their cause is gone or the GPU was reset. "
        "Use this for an incident that only a person can end, or when you know that the fault is repaired. New "
        "evidence reopens it. Only root and the agent's own user may do this.",
    .examples = "stoker incidents clear 1jf8v3k2m0",
    .exit_codes = "0  it is over\n"
                  "2  the command line is wrong\n"
                  "3  there is no such open incident, no agent answers, or you lack permission",
    VERB_OPTS(clear_opts, ShowOptions),
    .run = clear_run,
};

static const Verb *const subs[] = {&verb_show, &verb_clear, NULL};

const Verb verb_incidents = {
    .name = "incidents",
    .summary = "what is wrong with which GPU, since when, and what to do",
    .usage = "[--all] [--since TIME] [--device GPU] [--json] | show ID | clear ID",
    .description =
        "Lists the open incidents, the most severe first. There is one incident for each fault of a GPU, even if it "
        "wrote many lines to the log. --all and --since also list incidents that are over. Asks the running agent; "
        "older incidents are read from its journal, and all of them if no agent runs.",
    .examples = "stoker incidents\n"
                "stoker incidents --since 1d --device 3\n"
                "stoker incidents --json | jq -r '.incidents[] | [.id, .class, .title] | @tsv'",
    .exit_codes = "0  none is open, or none that matters\n"
                  "1  an incident of severity warning or worse is open\n"
                  "2  the command line is wrong\n"
                  "3  neither an agent nor a journal answers",
    VERB_OPTS(list_opts, ListOptions),
    .no_args = "; 'show ID' and 'clear ID' take one",
    .run = incidents_run,
    .subs = subs,
};
