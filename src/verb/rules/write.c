/* SPDX-License-Identifier: Apache-2.0 */
/* Alerting rules and their tests as YAML. Texts are written as JSON strings, which YAML reads. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "verb/rules/rules.h"

enum { MINUTE = 1, FIRE_MIN = 12, OVER_MIN = 45, LATEST_MIN = 55 };

#define HOST "node-7"
#define OF_NODE "hostname=\"" HOST "\""
#define OF_GPU "UUID=\"GPU-3\",gpu=\"3\",hostname=\"" HOST "\",pci_bus_id=\"00000000:61:00.0\""

static void add_text(Str *out, const char *indent, const char *key, const char *text)
{
    str_addf(out, "%s%s: ", indent, key);
    str_add_json(out, text);
    str_addc(out, '\n');
}

static void add_span(Str *out, const char *key, uint64_t ns)
{
    char span[DURATION_TEXT_MAX];

    if (ns == 0)
        return;
    duration_format(span, ns);
    str_addf(out, "        %s: %s\n", key, span);
}

/* A link; {hostname} in it is the series' label, or in a test what that is. */
static void add_runbook(Str *out, const char *indent, const Alert *alert, const char *hostname)
{
    static const char mark[] = "{hostname}";
    const char *at = strstr(alert->runbook, mark);
    char url[1024];

    if (!alert->runbook[0])
        return;
    snprintf(url, sizeof url, "%.*s%s%s", at ? (int)(at - alert->runbook) : 0, alert->runbook, at ? hostname : "",
             at ? at + strlen(mark) : alert->runbook);
    add_text(out, indent, "runbook_url", url);
}

static void add_rule(Str *out, const Alert *alert)
{
    str_addf(out, "      - alert: %s\n", alert->name);
    add_text(out, "        ", "expr", alert->expr);
    add_span(out, "for", alert->for_ns);
    add_span(out, "keep_firing_for", alert->keep_ns);
    if (alert->severity) {
        str_add(out, "        labels:\n");
        add_text(out, "          ", "severity", alert->severity);
        add_text(out, "          ", "route", alert->route);
        add_text(out, "          ", "class", alert->class);
        add_text(out, "          ", "cause", alert->cause);
    }
    str_add(out, "        annotations:\n          summary: ");
    {
        char summary[512];

        snprintf(summary, sizeof summary,
                 "{{ if $labels.gpu }}GPU {{ $labels.gpu }} of {{ end }}{{ $labels.hostname }}: %s", alert->text);
        str_add_json(out, summary);
        str_addc(out, '\n');
    }
    add_text(out, "          ", "description", alert->advice);
    add_runbook(out, "          ", alert, "{{ $labels.hostname }}");
}

void rules_write(const AlertList *list, const char *group, const char *about, Str *out)
{
    str_addf(out, "# %s\ngroups:\n", about);
    for (size_t g = 0; rules_groups[g]; g++) {
        bool open = false;

        if (group && strcmp(group, rules_groups[g]) != 0)
            continue;
        for (size_t i = 0; i < list->len; i++) {
            if (strcmp(list->at[i].group, rules_groups[g]) != 0)
                continue;
            if (!open)
                str_addf(out, "  - name: %s\n    rules:\n", rules_groups[g]);
            open = true;
            add_rule(out, &list->at[i]);
        }
    }
}

/* --- tests -------------------------------------------------------------------------------------------------------- */

static const char *thing(const Alert *alert)
{
    return alert->of_node ? OF_NODE : OF_GPU;
}

static void add_series(Str *out, const Alert *alert, const AlertSeries *series)
{
    for (size_t i = 0; i < ALERT_SERIES && series[i].name; i++) {
        char text[512];

        snprintf(text, sizeof text, "%s{%s%s%s}", series[i].name, thing(alert), series[i].labels[0] ? "," : "",
                 series[i].labels);
        str_add(out, "      - series: ");
        str_add_json(out, text);
        str_addf(out, "\n        values: '%s'\n", series[i].values);
    }
}

/* `a="x",b="y"` as a mapping; a name that `without` has is left out. */
static void add_labels(Str *out, const char *labels, bool without)
{
    static const char *const own[] = {"severity", "route", "class", "cause"};

    while (*labels) {
        const size_t name = strcspn(labels, "="), all = name + 2 + strcspn(labels + name + 2, "\"") + 1;
        bool skip = false;

        for (size_t i = 0; without && i < sizeof own / sizeof own[0]; i++)
            skip |= strlen(own[i]) == name && strncmp(own[i], labels, name) == 0;
        if (!skip)
            str_addf(out, "              %.*s: %.*s\n", (int)name, labels, (int)(all - name - 1), labels + name + 1);
        labels += all + (labels[all] == ',');
    }
}

static void add_expected(Str *out, const Alert *alert)
{
    char summary[512];

    str_add(out, "          - exp_labels:\n");
    add_labels(out, thing(alert), false);
    add_labels(out, alert->sick[0].labels, alert->severity != NULL);
    if (alert->severity)
        str_addf(out,
                 "              severity: \"%s\"\n              route: \"%s\"\n              class: \"%s\"\n"
                 "              cause: \"%s\"\n",
                 alert->severity, alert->route, alert->class, alert->cause);
    str_add(out, "            exp_annotations:\n");
    snprintf(summary, sizeof summary, "%s" HOST ": %s", alert->of_node ? "" : "GPU 3 of ", alert->text);
    add_text(out, "              ", "summary", summary);
    add_text(out, "              ", "description", alert->advice);
    add_runbook(out, "              ", alert, HOST);
}

static void add_look(Str *out, const Alert *alert, uint64_t minute, bool fires)
{
    str_addf(out, "      - eval_time: %" PRIu64 "m\n        alertname: %s\n", minute, alert->name);
    if (!fires) {
        str_add(out, "        exp_alerts: []\n");
        return;
    }
    str_add(out, "        exp_alerts:\n");
    add_expected(out, alert);
}

static void begin_test(Str *out, const Alert *alert, const char *what)
{
    str_addf(out, "  - interval: 1m\n    name: '%s: %s'\n    input_series:\n", alert->name, what);
}

static void add_tests(Str *out, const Alert *alert)
{
    const uint64_t fires = FIRE_MIN + (alert->for_ns + NS_PER_MIN - 1) / NS_PER_MIN;

    if (fires < LATEST_MIN) {
        begin_test(out, alert, "it fires");
        add_series(out, alert, alert->sick);
        str_add(out, "    alert_rule_test:\n");
        add_look(out, alert, fires, true);
        if (alert->ends)
            add_look(out, alert, OVER_MIN, false);
    }
    if (alert->quiet[0].name) {
        begin_test(out, alert, "nobody is told twice, or in maintenance");
        add_series(out, alert, alert->sick);
        add_series(out, alert, alert->quiet);
        str_add(out, "    alert_rule_test:\n");
        add_look(out, alert, fires, false);
    }
    begin_test(out, alert, "near it, and not it");
    add_series(out, alert, alert->well);
    str_add(out, "    alert_rule_test:\n");
    add_look(out, alert, fires, false);
}

void rules_write_tests(const AlertList *list, const char *group, const char *rule_file, Str *out)
{
    str_addf(out, "# Tests of %s: promtool test rules FILE\nrule_files:\n  - %s\nevaluation_interval: 1m\ntests:\n",
             rule_file, rule_file);
    for (size_t i = 0; i < list->len; i++)
        if (!group || strcmp(group, list->at[i].group) == 0)
            add_tests(out, &list->at[i]);
}
