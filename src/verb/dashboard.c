/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker dashboard`: Grafana dashboards, and the list of counters that they need. */
#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/owner.h"
#include "service/dashboard/dashboard.h"
#include "verb/verb.h"

enum { OUT_MAX = 16 << 20, FILE_MODE = 0644, FOLDER_MODE = 0755, UID_LEN_MAX = 40, NAMES_LEN_MAX = 256 };

typedef struct GrafanaOptions {
    const char *datasource, *all;
    int names;
    bool exported, list, markdown;
} GrafanaOptions;

static const OptSpec grafana_opts[] = {
    {.key = "names",
     .flags = OPT_CLI_ONLY,
     .type = OPT_ENUM,
     .off = offsetof(GrafanaOptions, names),
     .def = "stoker",
     .names = dashboard_names,
     .help = "whose metrics: Stoker's where it has them, or those alone that dcgm-exporter has too"},
    {.key = "datasource",
     .flags = OPT_CLI_ONLY,
     .type = OPT_STRING,
     .off = offsetof(GrafanaOptions, datasource),
     .metavar = "UID",
     .help = "uid of the data source in Grafana; without: a list to choose from on the dashboard"},
    {.key = "exported",
     .flags = OPT_CLI_ONLY,
     .type = OPT_BOOL,
     .off = offsetof(GrafanaOptions, exported),
     .help = "pods are in the labels exported_pod and exported_namespace, as a scrape without honor_labels makes them"},
    {.key = "all",
     .flags = OPT_CLI_ONLY,
     .type = OPT_STRING,
     .off = offsetof(GrafanaOptions, all),
     .metavar = "DIR",
     .help = "write every dashboard as a file in DIR, and print the names of the files"},
    {.key = "list",
     .flags = OPT_CLI_ONLY,
     .type = OPT_BOOL,
     .off = offsetof(GrafanaOptions, list),
     .help = "the dashboards there are"},
    {.key = "markdown",
     .flags = OPT_CLI_ONLY,
     .type = OPT_BOOL,
     .off = offsetof(GrafanaOptions, markdown),
     .help = "with --list: every panel, as a page of documentation"},
};

static bool is_uid(const char *text)
{
    const size_t len = strlen(text);

    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)text[i]) && text[i] != '-' && text[i] != '_')
            return false;
    return len > 0 && len <= UID_LEN_MAX;
}

static void list_all(bool markdown, Str *out)
{
    if (markdown) {
        dashboard_write_markdown(out);
        return;
    }
    for (size_t i = 0; i < dashboard_count(); i++)
        str_addf(out, "%-10s %s\n", dashboard_name(dashboard_at(i)), dashboard_text(dashboard_at(i)));
}

static int write_files(VerbCall *call, const char *dir, const DashboardOptions *options, Str *said)
{
    CLEANUP(str_done) Str out = {0};

    str_init(&out, OUT_MAX);
    TRY(file_make_dirs(dir, FOLDER_MODE, &call->err));
    for (size_t i = 0; i < dashboard_count(); i++) {
        const char *uid = dashboard_uid(dashboard_at(i), options->names, call->arena);
        const char *path = arena_printf(call->arena, "%s/%s.json", dir, uid);

        str_clear(&out);
        dashboard_write(dashboard_at(i), options, &out);
        TRY(file_write(path, out.text, out.len, FILE_MODE, &call->err));
        str_addf(said, "%s\n", path);
    }
    return 0;
}

static int fail_unknown(VerbCall *call, const char *name)
{
    char names[NAMES_LEN_MAX];
    Str list;

    str_init_room(&list, names, sizeof names);
    for (size_t i = 0; i < dashboard_count(); i++)
        str_addf(&list, "%s%s", i ? ", " : "", dashboard_name(dashboard_at(i)));
    return verb_failf(call, EXIT_USAGE, "there is no dashboard '%s': %s", name, names);
}

static int wrong_words(VerbCall *call, const GrafanaOptions *o)
{
    const size_t forms = (size_t)o->list + (o->all != NULL) + (call->args.len > 0);

    if (call->args.len > 1)
        return verb_failf(call, EXIT_USAGE, "takes one name, got '%s' too", call->args.items[1]);
    if (forms > 1)
        return verb_failf(call, EXIT_USAGE, "a name, --all and --list do not go together");
    if (o->markdown && !o->list)
        return verb_failf(call, EXIT_USAGE, "--markdown goes with --list");
    if (o->datasource && !is_uid(o->datasource))
        return verb_failf(
            call, EXIT_USAGE,
            "--datasource '%s' is no uid: letters, digits, '-' and '_', at most %d; Grafana shows it in the "
            "address of the data source's page",
            o->datasource, UID_LEN_MAX);
    return EXIT_FINE;
}

static int grafana_run(VerbCall *call, const void *options)
{
    const GrafanaOptions *o = options;
    const DashboardOptions how = {
        .names = (DashboardNames)o->names, .datasource = o->datasource, .exported = o->exported};
    const Dashboard *dashboard = dashboard_at(0);
    CLEANUP(str_done) Str out = {0};
    const int wrong = wrong_words(call, o);

    if (wrong)
        return wrong;
    if (call->args.len && !(dashboard = dashboard_find(call->args.items[0])))
        return fail_unknown(call, call->args.items[0]);
    str_init(&out, OUT_MAX);
    if (o->all && write_files(call, o->all, &how, &out) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    if (o->list)
        list_all(o->markdown, &out);
    else if (!o->all)
        dashboard_write(dashboard, &how, &out);
    fwrite(out.text, 1, out.len, stdout);
    return verb_end(call, EXIT_FINE);
}

static const Verb verb_grafana = {
    .name = "grafana",
    .summary = "print a dashboard for Grafana",
    .usage = "[NAME | --all DIR | --list] [--names stoker|dcgm] [--datasource UID] [--exported]",
    .description = "Prints the JSON model of one dashboard, 'executive' where none is named: executive (capacity, use "
                   "and cost), on-call "
                   "(what is wrong now), debug (everything, by kind of failure), gpu (one GPU) and job (one job, "
                   "namespace or pod). For "
                   "Grafana 10 and later, over Prometheus or what speaks its language. With --names dcgm the queries "
                   "use no metric that "
                   "dcgm-exporter does not have, for fleets that still run it. Import the file, or put a folder of "
                   "them where Grafana "
                   "provisions dashboards from.",
    .examples = "stoker dashboard grafana on-call > on-call.json\n"
                "stoker dashboard grafana --names dcgm --all /var/lib/grafana/dashboards",
    .exit_codes = "0  it is printed\n"
                  "2  the command line is wrong\n"
                  "3  a file could not be written",
    .opts = grafana_opts,
    .opt_count = ARRAY_LEN(grafana_opts),
    .opt_size = sizeof(GrafanaOptions),
    .run = grafana_run,
};

static int counters_run(VerbCall *call, const void *options)
{
    CLEANUP(str_done) Str out = {0};

    (void)options;
    if (call->args.len > 0)
        return verb_failf(call, EXIT_USAGE, "takes no argument, got '%s'", call->args.items[0]);
    str_init(&out, OUT_MAX);
    dashboard_write_counters(&out);
    fwrite(out.text, 1, out.len, stdout);
    return verb_end(call, EXIT_FINE);
}

static const Verb verb_counters = {
    .name = "counters",
    .summary = "print the list of counters that the dashboards need",
    .usage = "",
    .description =
        "Prints the metrics that are on by default and those that panels ask for beyond them, as the CSV that "
        "stoker agent and dcgm-exporter take with -f. Without it some panels say which metric they miss.",
    .examples = "stoker dashboard counters > /etc/stoker/counters.csv && stoker agent -f /etc/stoker/counters.csv",
    .exit_codes = "0  it is printed\n"
                  "2  the command line is wrong\n"
                  "3  it could not be written",
    .run = counters_run,
};

static const Verb *const subs[] = {&verb_grafana, &verb_counters, NULL};

const Verb verb_dashboard = {
    .name = "dashboard",
    .summary = "print Grafana dashboards",
    .examples = "stoker dashboard grafana --list",
    .subs = subs,
};
