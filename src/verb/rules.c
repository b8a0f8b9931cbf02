/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker rules`: the fault catalogue as Prometheus' alerting rules. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/owner.h"
#include "engine/health/detect.h"
#include "service/runbook/runbook.h"
#include "verb/agent/faults.h"
#include "verb/rules/rules.h"
#include "verb/verb.h"
#include "version.h"

enum { OUT_MAX = 16 << 20, FILE_MODE = 0644, FOLDER_MODE = 0755 };

#define RULE_FILE "stoker-rules.yaml"
#define TEST_FILE "stoker-rules-test.yaml"

enum { METRICS_STOKER, METRICS_DCGM };
static const char *const metrics_names[] = {"stoker", "dcgm", NULL};

typedef struct RulesOptions {
    const char *group, *tests, *base;
    int metrics;
    OptList faults;
} RulesOptions;

static const OptSpec rules_opts[] = {
    {.key = "metrics",
     .flags = OPT_CLI_ONLY,
     .type = OPT_ENUM,
     .off = offsetof(RulesOptions, metrics),
     .def = "stoker",
     .names = metrics_names,
     .help = "whose metrics the rules go by: Stoker's, or those alone that dcgm-exporter has too"},
    {.key = "group",
     .short_flag = 'g',
     .flags = OPT_CLI_ONLY,
     .type = OPT_STRING,
     .off = offsetof(RulesOptions, group),
     .metavar = "NAME",
     .help = "one group only: stoker-incidents, stoker-readings or stoker-monitor"},
    {.key = "tests",
     .flags = OPT_CLI_ONLY,
     .type = OPT_STRING,
     .off = offsetof(RulesOptions, tests),
     .metavar = "DIR",
     .help = "write them as DIR/" RULE_FILE ", and cases for promtool test rules as DIR/" TEST_FILE},
    {.key = "external_url",
     .flags = OPT_CLI_ONLY,
     .type = OPT_STRING,
     .off = offsetof(RulesOptions, base),
     .metavar = "URL",
     .help = "where agents are reached, such as 'http://{hostname}:9400/', for links to their runbooks"},
    {.key = "faults",
     .flags = OPT_CLI_ONLY,
     .type = OPT_LIST,
     .off = offsetof(RulesOptions, faults),
     .metavar = "FILE",
     .help = "files or folders of your own that stand over the built-in catalogue"},
};

OWNER_POINTER(Catalogue, catalogue_free);

enum { URL_CAP = 1024 };

/* Links to the agents' own pages, where the catalogue gives none. */
static void link_runbooks(const char *base, Arena *arena, AlertList *list)
{
    for (size_t i = 0; i < list->len; i++) {
        char url[URL_CAP];

        if (list->at[i].runbook[0])
            continue;
        runbook_url(base, list->at[i].class, url, sizeof url);
        list->at[i].runbook = arena_strdup(arena, url);
    }
}

static bool is_group(const char *name)
{
    for (size_t i = 0; rules_groups[i]; i++)
        if (strcmp(rules_groups[i], name) == 0)
            return true;
    return false;
}

static int write_files(const char *dir, const Str *rules, const Str *tests, Arena *arena, Err *err)
{
    TRY(file_make_dirs(dir, FOLDER_MODE, err));
    TRY(file_write(arena_printf(arena, "%s/" RULE_FILE, dir), rules->text, rules->len, FILE_MODE, err));
    return file_write(arena_printf(arena, "%s/" TEST_FILE, dir), tests->text, tests->len, FILE_MODE, err);
}

static int write_all(VerbCall *call, const RulesOptions *o, const AlertList *list)
{
    CLEANUP(str_done) Str rules = {0}, tests = {0};
    size_t count = 0;

    for (size_t i = 0; i < list->len; i++)
        count += !o->group || strcmp(list->at[i].group, o->group) == 0;
    if (count == 0)
        return verb_failf(call, EXIT_USAGE, "group '%s' has no rule with --metrics %s", o->group,
                          metrics_names[o->metrics]);
    str_init(&rules, OUT_MAX);
    str_init(&tests, OUT_MAX);
    rules_write(list, o->group, "Made by stoker rules (" STOKER_VERSION "), for Prometheus 2.42 and later.", &rules);
    rules_write_tests(list, o->group, RULE_FILE, &tests);
    if (o->tests && write_files(o->tests, &rules, &tests, call->arena, &call->err) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    fwrite(rules.text, 1, rules.len, stdout);
    return EXIT_FINE;
}

static int rules_run(VerbCall *call, const void *options)
{
    const RulesOptions *o = options;
    CLEANUP(catalogue_free_at) Catalogue *catalogue = NULL;
    AlertList list = {0};
    size_t count = 0;

    if (call->args.len > 0)
        return verb_failf(call, EXIT_USAGE, "takes no argument, got '%s'", call->args.items[0]);
    if (o->group && !is_group(o->group))
        return verb_failf(call, EXIT_USAGE, "there is no group '%s': stoker-incidents, stoker-readings, stoker-monitor",
                          o->group);
    const DetectorSpec *specs = detector_specs(&count);
    int rc = faults_load(o->faults.items, o->faults.len, specs, count, &catalogue, &call->err);
    if (rc < 0)
        return verb_fail(call, rc == -EINVAL ? EXIT_USAGE : EXIT_UNKNOWN);
    if (o->metrics == METRICS_STOKER)
        rules_incidents(catalogue, call->arena, &list);
    rules_readings(catalogue, o->metrics == METRICS_DCGM, call->arena, &list);
    if (o->metrics == METRICS_STOKER)
        rules_monitor(call->arena, &list);
    if (o->base)
        link_runbooks(o->base, call->arena, &list);
    const int code = write_all(call, o, &list);
    vec_done(&list);
    return code;
}

const Verb verb_rules = {
    .name = "rules",
    .summary = "print the same judgement as Prometheus' alerting rules",
    .usage = "[--metrics stoker|dcgm] [--group NAME] [--external-url URL] [--tests DIR]",
    .description =
        "For those who alert centrally. Group stoker-incidents has an alert per class of fault over "
        "stoker_incident_open: the node has judged already. Group stoker-readings says in PromQL what can be said of "
        "plain metrics, and is silent where an incident tells it. Group stoker-monitor watches the agents. With "
        "--metrics dcgm only plain metrics are used, under the names that dcgm-exporter has too. Severity, route, "
        "class and cause are labels. keep_firing_for needs Prometheus 2.42.",
    .examples = "stoker rules --external-url 'http://{hostname}:9400/' > /etc/prometheus/rules/stoker.yaml\n"
                "stoker rules --tests out > /dev/null && promtool test rules out/" TEST_FILE,
    .exit_codes = "0  they are printed\n"
                  "2  the command line, or a file of yours, is wrong\n"
                  "3  a file could not be read or written",
    .opts = rules_opts,
    .opt_count = ARRAY_LEN(rules_opts),
    .opt_size = sizeof(RulesOptions),
    .run = rules_run,
};
