/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker dashboard`: prints the installed Grafana dashboards, and the list of counters that they need. The files are
 * made at build time by data/dashboards/make.py. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/cleanup.h"
#include "verb/verb.h"

enum { FILE_BYTES_MAX = 16 << 20, FILE_MODE = 0644, FOLDER_MODE = 0755, UID_LEN_MAX = 40, BOARDS_MAX = 32 };

static const char *const naming_names[] = {"stoker", "dcgm", NULL};
static const char *const naming_files[] = {"stoker", "stoker-dcgm"};

typedef struct GrafanaOptions {
    const char *datasource, *all;
    int names;
    bool exported, list;
} GrafanaOptions;

static const OptSpec grafana_opts[] = {
    OPT_ROW("names", OPT_ENUM, GrafanaOptions, names, .def = "stoker", .names = naming_names,
            .help = "whose metrics: Stoker's where it has them, or only those that dcgm-exporter has too"),
    OPT_ROW("datasource", OPT_STRING, GrafanaOptions, datasource, .metavar = "UID",
            .help = "uid of the data source in Grafana; without: a list to choose from on the dashboard"),
    OPT_ROW(
        "exported", OPT_BOOL, GrafanaOptions, exported,
        .help =
            "pods are in the labels exported_pod and exported_namespace, as a scrape without honor_labels makes them"),
    OPT_ROW("all", OPT_STRING, GrafanaOptions, all, .metavar = "DIR",
            .help = "write every dashboard as a file in DIR, and print the names of the files"),
    OPT_ROW("list", OPT_BOOL, GrafanaOptions, list, .help = "list the dashboards"),
};

/* --- the installed files ------------------------------------------------------------------------------------------ */

static int read_installed(VerbCall *call, const char *name, Str *out)
{
    const char *path = verb_data_path(call->arena, arena_printf(call->arena, "dashboards/%s", name));

    return file_read(path, FILE_BYTES_MAX, out, &call->err);
}

/* The names of list.txt: the first word of each line. */
typedef struct BoardNames {
    const char *at[BOARDS_MAX];
    size_t len;
} BoardNames;

static int read_names(VerbCall *call, BoardNames *ret)
{
    CLEANUP(str_done) Str list = {0};

    *ret = (BoardNames){.len = 0};
    str_init(&list, FILE_BYTES_MAX);
    TRY(read_installed(call, "list.txt", &list));
    for (const char *line = list.text; *line && ret->len < BOARDS_MAX;) {
        const char *end = strchrnul(line, '\n');

        ret->at[ret->len++] = arena_printf(call->arena, "%.*s", (int)strcspn(line, " \n"), line);
        line = *end ? end + 1 : end;
    }
    return 0;
}

/* Appends `text` with the data source named: no variable to choose it, no link that hands one on. */
static void add_with_source(Str *out, const char *text, const char *uid)
{
    static const char variable[] = "{\"type\": \"datasource\"", hand_on[] = "&var-datasource=${datasource}",
                      chosen[] = "${datasource}";

    while (*text) {
        const size_t len = strcspn(text, "$&\n");

        str_addn(out, text, len);
        text += len;
        if (strncmp(text, hand_on, sizeof hand_on - 1) == 0) {
            text += sizeof hand_on - 1;
        } else if (strncmp(text, chosen, sizeof chosen - 1) == 0) {
            str_add(out, uid);
            text += sizeof chosen - 1;
        } else if (text[0] == '\n' && strncmp(text + 1, variable, sizeof variable - 1) == 0) {
            text += 1 + strcspn(text + 1, "\n");
        } else if (*text) {
            str_addc(out, *text++);
        }
    }
}

static int add_board(VerbCall *call, const GrafanaOptions *o, const char *name, Str *out)
{
    const char *file =
        arena_printf(call->arena, "%s-%s%s.json", naming_files[o->names], name, o->exported ? ".exported" : "");
    CLEANUP(str_done) Str text = {0};

    str_init(&text, FILE_BYTES_MAX);
    TRY(read_installed(call, file, &text));
    if (o->datasource)
        add_with_source(out, text.text, o->datasource);
    else
        str_addn(out, text.text, text.len);
    return str_check(out, "the dashboard", &call->err);
}

static int write_boards(VerbCall *call, const GrafanaOptions *o, const BoardNames *names, Str *paths)
{
    CLEANUP(str_done) Str out = {0};

    str_init(&out, FILE_BYTES_MAX);
    TRY(file_make_dirs(o->all, FOLDER_MODE, &call->err));
    for (size_t i = 0; i < names->len; i++) {
        const char *path = arena_printf(call->arena, "%s/%s-%s.json", o->all, naming_files[o->names], names->at[i]);

        str_clear(&out);
        TRY(add_board(call, o, names->at[i], &out));
        TRY(file_write(path, out.text, out.len, FILE_MODE, &call->err));
        str_addf(paths, "%s\n", path);
    }
    return 0;
}

/* --- the command line --------------------------------------------------------------------------------------------- */

static int check_words(VerbCall *call, const GrafanaOptions *o)
{
    const size_t forms = (size_t)o->list + (o->all != NULL) + (call->args.len > 0);

    if (call->args.len > 1)
        return verb_failf(call, EXIT_USAGE, "takes one name, got '%s' too", call->args.items[1]);
    if (forms > 1)
        return verb_failf(call, EXIT_USAGE, "a name, --all and --list do not go together");
    if (o->datasource && !verb_is_id(o->datasource, UID_LEN_MAX))
        return verb_failf(
            call, EXIT_USAGE,
            "--datasource '%s' is not a uid: letters, digits, '-' and '_', at most %d; Grafana shows it in the "
            "address of the data source's page",
            o->datasource, UID_LEN_MAX);
    return EXIT_FINE;
}

static int fail_unknown(VerbCall *call, const char *name, const BoardNames *names)
{
    const char *list = "";

    for (size_t i = 0; i < names->len; i++)
        list = arena_printf(call->arena, "%s%s%s", list, i ? ", " : "", names->at[i]);
    return verb_failf(call, EXIT_USAGE, "there is no dashboard '%s': %s", name, list);
}

static int grafana_run(VerbCall *call, const void *options)
{
    const GrafanaOptions *o = options;
    const char *name = call->args.len ? call->args.items[0] : NULL;
    CLEANUP(str_done) Str out = {0};
    bool known = !name;
    BoardNames names;
    const int wrong = check_words(call, o);
    int rc;

    if (wrong)
        return wrong;
    if (read_names(call, &names) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    for (size_t i = 0; !known && i < names.len; i++)
        known = strcmp(names.at[i], name) == 0;
    if (!known)
        return fail_unknown(call, name, &names);
    str_init(&out, FILE_BYTES_MAX);
    if (o->list)
        rc = read_installed(call, "list.txt", &out);
    else if (o->all)
        rc = write_boards(call, o, &names, &out);
    else
        rc = add_board(call, o, name ? name : names.at[0], &out);
    if (rc < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    fwrite(out.text, 1, out.len, stdout);
    return verb_end(call, EXIT_FINE);
}

static void add_board_names(Arena *arena, Str *out)
{
    VerbCall call = {.arena = arena};
    BoardNames names;

    if (read_names(&call, &names) < 0)
        return;
    for (size_t i = 0; i < names.len; i++)
        str_addf(out, "%s\n", names.at[i]);
}

static const Verb verb_grafana = {
    .name = "grafana",
    .summary = "print a dashboard for Grafana",
    .usage = "[NAME | --all DIR | --list] [--names stoker|dcgm] [--datasource UID] [--exported]",
    .description =
        "Prints the JSON model of one dashboard, 'executive' by default: executive (capacity, use and cost), "
        "cost (owners and cost), "
        "on-call (current problems), debug (everything, by kind of failure), gpu (one GPU) and job (one "
        "job, namespace or pod). For Grafana 10 and later, over Prometheus or a compatible store. With "
        "--names dcgm the queries use only metrics that dcgm-exporter has, for fleets that still run it. "
        "Import the file, or put a folder of them where Grafana provisions dashboards from.",
    .examples = "stoker dashboard grafana on-call > on-call.json\n"
                "stoker dashboard grafana --names dcgm --all /var/lib/grafana/dashboards",
    .exit_codes = "0  it is printed\n"
                  "2  the command line is wrong\n"
                  "3  a file could not be read or written",
    VERB_OPTS(grafana_opts, GrafanaOptions),
    .run = grafana_run,
    .add_values = add_board_names,
};

static int counters_run(VerbCall *call, const void *options)
{
    CLEANUP(str_done) Str out = {0};

    (void)options;
    str_init(&out, FILE_BYTES_MAX);
    if (read_installed(call, "counters.csv", &out) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    fwrite(out.text, 1, out.len, stdout);
    return verb_end(call, EXIT_FINE);
}

static const Verb verb_counters = {
    .name = "counters",
    .summary = "print the list of counters that the dashboards need",
    .usage = "",
    .description =
        "Prints the metrics that are on by default and those that panels need beyond them, as the CSV that "
        "stoker agent and dcgm-exporter take with -f. Panels that need more than the default name the metric.",
    .examples = "stoker dashboard counters > /etc/stoker/counters.csv && stoker agent -f /etc/stoker/counters.csv",
    .exit_codes = "0  it is printed\n"
                  "2  the command line is wrong\n"
                  "3  it could not be read or written",
    .no_args = "",
    .run = counters_run,
};

static const Verb *const subs[] = {&verb_grafana, &verb_counters, NULL};

const Verb verb_dashboard = {
    .name = "dashboard",
    .summary = "print Grafana dashboards",
    .examples = "stoker dashboard grafana --list",
    .subs = subs,
};
