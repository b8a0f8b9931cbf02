/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker rules`: prints the installed alerting rules for Prometheus. The files are made from the fault catalogue at
 * build time by data/rules/make.py: "# group NAME" begins a group, "# runbook CLASS" marks the place of a link. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/cleanup.h"
#include "service/runbook/runbook.h"
#include "verb/verb.h"

enum { FILE_BYTES_MAX = 16 << 20, FILE_MODE = 0644, FOLDER_MODE = 0755, URL_CAP = 1024, FILLED_CAP = 2 * URL_CAP };

#define RULE_FILE "stoker-rules.yaml"
#define TEST_FILE "stoker-rules-test.yaml"
#define TEST_HOST "node-7" /* of make.py's test cases */

static const char *const metrics_names[] = {"stoker", "dcgm", NULL};

typedef struct RulesOptions {
    const char *group, *tests, *base;
    int metrics;
} RulesOptions;

static const OptSpec rules_opts[] = {
    OPT_ROW("metrics", OPT_ENUM, RulesOptions, metrics, .def = "stoker", .names = metrics_names,
            .help = "whose metrics the rules use: Stoker's, or only those that dcgm-exporter has too"),
    OPT_ROW("group", OPT_STRING, RulesOptions, group, .short_flag = 'g', .metavar = "NAME",
            .help = "one group only: stoker-incidents, stoker-readings or stoker-monitor"),
    OPT_ROW("tests", OPT_STRING, RulesOptions, tests, .metavar = "DIR",
            .help = "write them as DIR/" RULE_FILE ", and cases for promtool test rules as DIR/" TEST_FILE),
    OPT_ROW("external_url", OPT_STRING, RulesOptions, base, .metavar = "URL",
            .help = "where agents are reached, such as 'http://{hostname}:9400/', for links to their runbooks"),
};

/* Appends a link to the agents' own page of a class; {hostname} in the base becomes `hostname`. */
static void add_link(Str *out, const char *base, const char *class, const char *hostname)
{
    static const char mark[] = "{hostname}";
    char url[URL_CAP], filled[FILLED_CAP];
    const char *at;

    runbook_url(base, class, url, sizeof url);
    at = strstr(url, mark);
    snprintf(filled, sizeof filled, "%.*s%s%s", at ? (int)(at - url) : 0, url, at ? hostname : "",
             at ? at + strlen(mark) : url);
    str_add(out, "runbook_url: ");
    str_add_json(out, filled);
    str_addc(out, '\n');
}

/* Appends the lines of `text`, of one group if one is named, with links if a base is named. Returns the number of
 * groups. */
static size_t add_rules(Str *out, const char *text, const RulesOptions *o, const char *hostname)
{
    static const char group[] = "# group ", runbook[] = "# runbook ";
    bool wanted = true;
    size_t groups = 0;

    while (*text) {
        const size_t indent = strspn(text, " "), len = strcspn(text, "\n");
        const char *line = text + indent;
        char word[URL_CAP];

        snprintf(word, sizeof word, "%.*s", (int)(len - indent), line);
        if (strncmp(word, group, sizeof group - 1) == 0) {
            wanted = !o->group || strcmp(word + sizeof group - 1, o->group) == 0;
            groups += wanted;
        } else if (strncmp(word, runbook, sizeof runbook - 1) == 0) {
            if (wanted && o->base) {
                str_addn(out, text, indent);
                add_link(out, o->base, word + sizeof runbook - 1, hostname);
            }
        } else if (wanted) {
            str_addn(out, text, len + (text[len] == '\n'));
        }
        text += len + (text[len] == '\n');
    }
    return groups;
}

static int read_installed(VerbCall *call, const char *metrics, const char *end, Str *out)
{
    str_init(out, FILE_BYTES_MAX);
    return file_read(verb_data_path(call->arena, arena_printf(call->arena, "rules/%s%s.yaml", metrics, end)),
                     FILE_BYTES_MAX, out, &call->err);
}

static int write_files(VerbCall *call, const RulesOptions *o, const Str *rules)
{
    CLEANUP(str_done) Str installed = {0}, tests = {0};
    const char *dir = o->tests;

    TRY(read_installed(call, metrics_names[o->metrics], "-test", &installed));
    str_init(&tests, FILE_BYTES_MAX);
    add_rules(&tests, installed.text, o, TEST_HOST);
    TRY(file_make_dirs(dir, FOLDER_MODE, &call->err));
    TRY(file_write(arena_printf(call->arena, "%s/" RULE_FILE, dir), rules->text, rules->len, FILE_MODE, &call->err));
    return file_write(arena_printf(call->arena, "%s/" TEST_FILE, dir), tests.text, tests.len, FILE_MODE, &call->err);
}

static int rules_run(VerbCall *call, const void *options)
{
    const RulesOptions *o = options;
    const char *metrics = metrics_names[o->metrics];
    CLEANUP(str_done) Str installed = {0}, rules = {0};

    if (read_installed(call, metrics, "", &installed) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    str_init(&rules, FILE_BYTES_MAX);
    if (add_rules(&rules, installed.text, o, "{{ $labels.hostname }}") == 0)
        return verb_failf(call, EXIT_USAGE,
                          "no group '%s' with --metrics %s; there are stoker-incidents, stoker-readings and "
                          "stoker-monitor, for dcgm only stoker-readings",
                          o->group, metrics);
    if (o->tests && write_files(call, o, &rules) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    fwrite(rules.text, 1, rules.len, stdout);
    return verb_end(call, EXIT_FINE);
}

const Verb verb_rules = {
    .name = "rules",
    .summary = "print Prometheus alerting rules",
    .usage = "[--metrics stoker|dcgm] [--group NAME] [--external-url URL] [--tests DIR]",
    .description =
        "For central alerting. Group stoker-incidents has an alert for each class of the fault catalogue over "
        "stoker_incident_open, and one for classes that a site adds. Group stoker-readings has the detectors that "
        "PromQL can express over plain metrics; an alert is silent while an incident of its class is open. Group "
        "stoker-monitor watches the agents. With --metrics dcgm only plain metrics are used, under the names that "
        "dcgm-exporter has too. Severity, route, class and cause are labels. keep_firing_for needs Prometheus 2.42.",
    .examples = "stoker rules --external-url 'http://{hostname}:9400/' > /etc/prometheus/rules/stoker.yaml\n"
                "stoker rules --tests out > /dev/null && promtool test rules out/" TEST_FILE,
    .exit_codes = "0  they are printed\n"
                  "2  the command line is wrong\n"
                  "3  a file could not be read or written",
    VERB_OPTS(rules_opts, RulesOptions),
    .no_args = "",
    .run = rules_run,
};
