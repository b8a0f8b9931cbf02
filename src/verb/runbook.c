/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker runbook`: the page that says what to do, for a class of faults, an incident or a code. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "engine/health/incidents.h"
#include "service/runbook/runbook.h"
#include "verb/agent/config.h"
#include "verb/past.h"
#include "verb/xid.h"

enum { OUT_MAX = 16 << 20, LIKE_MAX = 8, NAMES_MAX = 512 };

typedef struct RunbookOptions {
    PastOptions past;
    bool json;
    const char *driver;
    OptList faults;
} RunbookOptions;

static const OptSpec runbook_opts[] = {
    OPT_ROW("json", OPT_BOOL, RunbookOptions, json, .help = "as JSON"),
    OPT_ROW("driver", OPT_STRING, RunbookOptions, driver, .metavar = "VERSION",
            .help = "the driver version that reported the code, such as 570.86; without: this node's"),
    OPT_ROW("faults", OPT_LIST, RunbookOptions, faults, .metavar = "FILE",
            .help = "files or folders of your own, which override the built-in catalogue"),
    PAST_OPTS(RunbookOptions),
};

CLEANUP_POINTER(Catalogue, catalogue_free);

/* --- the list ----------------------------------------------------------------------------------------------------- */

static void add_index_json(Str *out)
{
    json_open(out, NULL, '[');
    for (size_t i = 1; i < runbook_row_count; i++) {
        json_open(out, NULL, '{');
        json_add_text(out, "class", runbook_rows[i].class);
        json_add_text(out, "title", runbook_rows[i].title);
        json_close(out, '}');
    }
    json_close(out, ']');
    str_addc(out, '\n');
}

/* --- one page ----------------------------------------------------------------------------------------------------- */

static void add_json(const Runbook *runbook, const Str *text, Str *out)
{
    json_open(out, NULL, '{');
    json_add_text(out, "class", runbook->class);
    json_add_text(out, "title", runbook->title);
    json_add_text(out, "text", text->text);
    json_close(out, '}');
    str_addc(out, '\n');
}

/* Headings in bold; a line of shell in a block of code may begin like one. */
static void add_styled(const char *text, Str *out)
{
    bool code = false;

    while (*text) {
        const size_t len = strcspn(text, "\n");

        code ^= strncmp(text, "```", 3) == 0;
        if (*text == '#' && !code)
            str_addf(out, "\033[1m%.*s\033[0m", (int)len, text);
        else
            str_addn(out, text, len);
        text += len;
        if (*text)
            str_addc(out, *text++);
    }
}

/* `url`: the class's runbook in the catalogue, "": none. */
static int print_page(VerbCall *call, const RunbookOptions *o, const char *class, const char *url)
{
    const Runbook *runbook = runbook_find(class);
    CLEANUP(str_done) Str text = {0}, out = {0};
    CLEANUP(str_done) Str pack = {0};

    if (!runbook)
        return verb_failf(call, EXIT_FINDING, "class '%s' is none of the built-in ones and has no page here%s%s", class,
                          *url ? "; its runbook is " : "", url);
    str_init(&text, OUT_MAX);
    str_init(&out, OUT_MAX);
    if (runbook_open(&pack, verb_data_path(call->arena, RUNBOOK_FILE), &call->err) < 0 ||
        runbook_read(&pack, &runbook->text, &text, &call->err) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    if (o->json)
        add_json(runbook, &text, &out);
    else if (verb_coloured(VERB_COLOUR_AUTO, true))
        add_styled(text.text, &out);
    else
        str_addn(&out, text.text, text.len);
    fwrite(out.text, 1, out.len, stdout);
    return EXIT_FINE;
}

/* --- which page --------------------------------------------------------------------------------------------------- */

static int show_code(VerbCall *call, const RunbookOptions *o, const Catalogue *catalogue, const Event *event)
{
    uint32_t driver = 0;
    FaultVerdict verdict;
    const int code = xid_read_driver(call, o->driver, o->past.root, &driver);

    if (code != EXIT_FINE)
        return code;
    if (!catalogue_match(catalogue, event, driver, 0, &verdict) || !verdict.rule->fault)
        return verb_failf(call, EXIT_FINDING, "%d is no fault: there is no runbook; 'stoker xid %d' explains it",
                          event->code, event->code);
    return print_page(call, o, verdict.rule->fault->id, verdict.rule->fault->runbook);
}

static int show_incident(VerbCall *call, const RunbookOptions *o, const char *id)
{
    IncidentList list = {0};
    Past past;
    int code;

    if (past_open(call, &o->past, &past) < 0 || past_incident(&past, id, &list) < 0)
        code = verb_fail(call, EXIT_UNKNOWN);
    else
        code = print_page(call, o, list.at[0].class, list.at[0].runbook);
    vec_done(&list);
    return code;
}

/* Those whose names have the word in them, else the nearest one. */
static int fail_unknown(VerbCall *call, const char *word)
{
    const char *names[NAMES_MAX], *nearest;
    char room[512];
    size_t count = 0, like = 0;
    Str text;

    str_init_room(&text, room, sizeof room);
    for (; count + 1 < runbook_row_count && count < NAMES_MAX; count++) {
        names[count] = runbook_rows[count + 1].class;
        if (strstr(names[count], word) && like < LIKE_MAX)
            str_addf(&text, "%s%s", like++ ? ", " : "", names[count]);
    }
    nearest = like ? NULL : opt_nearest(word, names, count);
    if (nearest)
        str_add(&text, nearest);
    return verb_failf(call, EXIT_USAGE,
                      "'%.60s' is no class of faults, no id of an incident and no code%s%s%s; 'stoker runbook' lists "
                      "the classes",
                      word, text.len ? "; did you mean " : "", text.text, text.len ? "?" : "");
}

static int find_and_show(VerbCall *call, const RunbookOptions *o, const char *what)
{
    CLEANUP(catalogue_free_at) Catalogue *catalogue = NULL;
    Event event;
    const int rc = faults_load(&o->faults, NULL, &catalogue, &call->err);

    if (rc < 0)
        return verb_fail(call, rc == -EINVAL ? EXIT_USAGE : EXIT_UNKNOWN);
    const FaultClass *class = catalogue_class(catalogue, what);
    if (class)
        return print_page(call, o, class->id, class->runbook);
    if (xid_read_code(what, &event))
        return show_code(call, o, catalogue, &event);
    if (incident_id_number(what))
        return show_incident(call, o, what);
    return fail_unknown(call, what);
}

static int runbook_run(VerbCall *call, const void *options)
{
    const RunbookOptions *o = options;
    CLEANUP(str_done) Str out = {0};

    if (call->args.len > 0)
        return find_and_show(call, o, xid_join_words(call));
    str_init(&out, OUT_MAX);
    if (o->json)
        add_index_json(&out);
    else
        for (size_t i = 1; i < runbook_row_count; i++)
            str_addf(&out, "%-22s %s\n", runbook_rows[i].class, runbook_rows[i].title);
    fwrite(out.text, 1, out.len, stdout);
    return EXIT_FINE;
}

static void add_classes(Arena *arena UNUSED, Str *out)
{
    for (size_t i = 1; i < runbook_row_count; i++)
        str_addf(out, "%s\n", runbook_rows[i].class);
}

const Verb verb_runbook = {
    .name = "runbook",
    .summary = "what to do about a fault, step by step",
    .usage = "[--json] [CLASS|INCIDENT-ID|XID|LINE]",
    .description =
        "Prints the runbook of a class of faults: what it means, how to confirm it, what to do, when to replace the "
        "GPU, and when the fault is over. The argument is a class, an incident, or a code: a number (from 10000 on "
        "an SXid), xid:N, sxid:N, or a line of the kernel log in quotes. Without an argument it lists all classes. "
        "The agent serves the runbooks at /" RUNBOOK_PLACE "/.",
    .examples = "stoker runbook gpu-lost\n"
                "stoker runbook 79\n"
                "stoker runbook 1jf8v3k2m0    # of an incident",
    .exit_codes = "0  it is printed\n"
                  "1  the code is no fault, or the class is your own and has no runbook here\n"
                  "2  the command line or a file is wrong, or there is no such class\n"
                  "3  there is no such incident, there is neither an agent nor a journal, or a file could not be read",
    VERB_OPTS(runbook_opts, RunbookOptions),
    .run = runbook_run,
    .add_values = add_classes,
};
