/* SPDX-License-Identifier: Apache-2.0 */
/* Which alerts there are. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "base/number.h"
#include "base/owner.h"
#include "model/metric.h"
#include "verb/rules/rules.h"

#define GROUP_INCIDENTS "stoker-incidents"
#define GROUP_READINGS "stoker-readings"
#define GROUP_MONITOR "stoker-monitor"

const char *const rules_groups[] = {GROUP_INCIDENTS, GROUP_READINGS, GROUP_MONITOR, NULL};

/* A gap of a scrape or a restart of the agent is no end. */
#define KEEP_NS (2 * NS_PER_MIN)

enum { EXPR_MAX = 2048, NAME_CAP = 128 };

/* "gpu-lost" to "StokerGpuLost" */
static const char *alert_name(Arena *arena, const char *front, const char *id)
{
    char name[NAME_CAP];
    size_t len = (size_t)snprintf(name, sizeof name, "%s", front);
    bool up = true;

    for (; *id && len + 1 < sizeof name; id++) {
        if (!isalnum((unsigned char)*id)) {
            up = true;
            continue;
        }
        name[len++] = (char)(up ? toupper((unsigned char)*id) : *id);
        up = false;
    }
    name[len] = '\0';
    return arena_strdup(arena, name);
}

static Alert alert_of(const FaultClass *fault, const char *group, const char *name)
{
    return (Alert){.group = group,
                   .name = name,
                   .class = fault->id,
                   .cause = fault_causes[fault->cause].key,
                   .text = fault->text,
                   .advice = fault->advice,
                   .runbook = fault->runbook,
                   .of_node = fault->scope == SCOPE_NODE || fault->scope == SCOPE_FABRIC};
}

/* --- incidents ---------------------------------------------------------------------------------------------------- */

static void add_incident(const FaultClass *fault, Arena *arena, AlertList *list)
{
    Alert alert = alert_of(fault, GROUP_INCIDENTS, alert_name(arena, "Stoker", fault->id));
    const char *labels = arena_printf(arena, "action=\"%s\",cause=\"%s\",class=\"%s\",route=\"%s\",severity=\"%s\"",
                                      fault_actions[fault->action].key, fault_causes[fault->cause].key, fault->id,
                                      fault_routes[fault->route].key, fault_severities[fault->severity].key);

    alert.expr = arena_printf(arena,
                              "stoker_incident_open{class=\"%s\",route!=\"none\"} unless "
                              "stoker_incident_silenced{class=\"%s\"}",
                              fault->id, fault->id);
    alert.keep_ns = KEEP_NS;
    alert.ends = true;
    alert.sick[0] = (AlertSeries){"stoker_incident_open", labels, "1x20 _x100"};
    alert.quiet[0] = (AlertSeries){"stoker_incident_silenced", labels, "1x120"};
    alert.well[0] =
        (AlertSeries){"stoker_incident_open",
                      "action=\"none\",cause=\"unknown\",class=\"another\",route=\"page\",severity=\"fatal\"", "1x120"};
    vec_push(list, alert);
}

void rules_incidents(const Catalogue *catalogue, Arena *arena, AlertList *list)
{
    for (size_t i = 0; i < catalogue_class_count(catalogue); i++) {
        const FaultClass *fault = catalogue_class_at(catalogue, i);

        if (fault->enabled && !fault->observe && fault->route != ROUTE_NONE)
            add_incident(fault, arena, list);
    }
}

/* --- readings ----------------------------------------------------------------------------------------------------- */

typedef enum Whose { BOTH, STOKER, DCGM } Whose;

typedef struct ReadingRow {
    const char *rule;
    Whose whose;
    const char *expr;
    AlertSeries sick[ALERT_SERIES], well[ALERT_SERIES];
} ReadingRow;

#define SERIES(name, labels, values)                                                                                   \
    {                                                                                                                  \
        name, labels, values                                                                                           \
    }
#define TWO(a, b) a, b
#define THREE(a, b, c) a, b, c
#define READING(rule, whose, expr, sick, well) {rule, whose, expr, {sick}, {well}},
static const ReadingRow readings[] = {
#include "verb/rules/readings.def"
#undef READING
};

static const double *param_of(const FaultRule *rule, const char *name, size_t len)
{
    for (size_t i = 0; i < rule->param_count; i++)
        if (strlen(rule->params[i].name) == len && strncmp(rule->params[i].name, name, len) == 0)
            return &rule->params[i].value;
    return NULL;
}

static void add_number(Str *out, double value)
{
    char digits[NUMBER_DOUBLE_MAX];

    str_addn(out, digits, number_write_double(digits, value));
}

/* {name/scale|default}, {name!|default} */
static const char *fill(Arena *arena, const FaultRule *rule, const char *text)
{
    char room[EXPR_MAX];
    Str out;

    str_init_room(&out, room, sizeof room);
    while (*text) {
        const size_t plain = strcspn(text, "{");
        const char *bar = text[plain] ? strchr(text + plain, '|') : NULL;
        const char *end = bar ? strchr(bar, '}') : NULL;

        /* a selector of labels has braces too, but no bar before its quotes */
        if (!end || memchr(text + plain, '"', (size_t)(bar - text) - plain)) {
            const size_t all = plain + (text[plain] != '\0');

            str_addn(&out, text, all);
            text += all;
            continue;
        }
        const char *name = text + plain + 1;
        const size_t len = strcspn(name, "/!|");
        const double *value = param_of(rule, name, len);
        double scale = 1;

        str_addn(&out, text, plain);
        if (name[len] == '/')
            scale = strtod(name + len + 1, NULL);
        if (value && isfinite(*value) && !(name[len] == '!' && *value == 0))
            add_number(&out, *value / scale);
        else
            str_addn(&out, bar + 1, (size_t)(end - bar - 1));
        text = end + 1;
    }
    return arena_strdup(arena, room);
}

/* Beside the incidents themselves a reading speaks only where there is none of its class: nobody is told twice. */
static void add_reading(const FaultRule *rule, const char *expr, bool dcgm, const ReadingRow *row, Arena *arena,
                        AlertList *list)
{
    const FaultClass *fault = rule->fault;
    Alert alert = alert_of(fault, GROUP_READINGS, alert_name(arena, "StokerReading", rule->id));

    alert.expr =
        dcgm ? expr : arena_printf(arena, "(%s) unless on (UUID) stoker_incident_open{class=\"%s\"}", expr, fault->id);
    alert.for_ns = rule->for_ns;
    alert.keep_ns = rule->keep_ns;
    alert.of_node = false;
    alert.text = rule->name;
    alert.severity = fault_severities[rule->severity].key;
    alert.route = fault_routes[rule->route].key;
    alert.cause = fault_causes[rule->cause].key;
    memcpy(alert.sick, row->sick, sizeof alert.sick);
    memcpy(alert.well, row->well, sizeof alert.well);
    if (!dcgm)
        alert.quiet[0] = (AlertSeries){"stoker_incident_open", arena_printf(arena, "class=\"%s\"", fault->id), "1x120"};
    vec_push(list, alert);
}

static bool is_told(const FaultRule *rule)
{
    return rule && rule->fault && rule->fault->enabled && !rule->fault->observe && rule->route != ROUTE_NONE;
}

/* A rule of the site over any metric, where its condition can be said. */
static void add_metric(const FaultRule *rule, bool dcgm, Arena *arena, AlertList *list)
{
    static const char *const forms[] = {"above", "below", "rate", "increase"};
    const double *metric = param_of(rule, "metric", 6);
    const MetricId id = metric && *metric >= 0 && *metric < METRIC_END ? (MetricId)*metric : METRIC_END;

    for (size_t i = 0; id != METRIC_END && i < ARRAY_LEN(forms); i++) {
        const double *limit = param_of(rule, forms[i], strlen(forms[i]));
        char number[NUMBER_DOUBLE_MAX + 1] = "", over[NUMBER_DOUBLE_MAX + 1] = "", under[NUMBER_DOUBLE_MAX + 1] = "";
        const char *name = metric_get(id)->name;
        ReadingRow row = {.rule = rule->id};

        if (!limit || !isfinite(*limit))
            continue;
        number[number_write_double(number, *limit)] = '\0';
        over[number_write_double(over, i >= 2 ? fabs(*limit) * 120 + 120 : *limit + fabs(*limit) + 1)] = '\0';
        under[number_write_double(under, *limit - fabs(*limit) - 1)] = '\0';
        row.sick[0] =
            (AlertSeries){name, "", arena_printf(arena, i >= 2 ? "0+%sx120" : "%sx120", i == 1 ? under : over)};
        row.well[0] = (AlertSeries){name, "", i >= 2 ? "0x120" : arena_printf(arena, "%sx120", i == 1 ? over : under)};
        add_reading(rule,
                    i < 2 ? arena_printf(arena, "%s %c %s", name, i == 0 ? '>' : '<', number)
                          : arena_printf(arena, "%s(%s[%s]) > %s", forms[i], name, i == 2 ? "5m" : "10m", number),
                    dcgm, &row, arena, list);
    }
}

void rules_readings(const Catalogue *catalogue, bool dcgm, Arena *arena, AlertList *list)
{
    for (size_t i = 0; i < ARRAY_LEN(readings); i++) {
        const FaultRule *rule = catalogue_rule(catalogue, readings[i].rule);

        if (is_told(rule) && readings[i].whose != (dcgm ? STOKER : DCGM))
            add_reading(rule, fill(arena, rule, readings[i].expr), dcgm, &readings[i], arena, list);
    }
    for (size_t i = 0; i < catalogue_rule_count(catalogue); i++) {
        const FaultRule *rule = catalogue_rule_at(catalogue, i);

        if (is_told(rule) && rule->match == FAULT_ON_DETECTOR && strcmp(rule->detector, "metric") == 0)
            add_metric(rule, dcgm, arena, list);
    }
}

/* --- those who watch ---------------------------------------------------------------------------------------------- */

void rules_monitor(Arena *arena, AlertList *list)
{
    static const struct {
        const char *name, *expr;
        uint64_t for_ns;
        const char *text, *advice;
        AlertSeries sick, well;
    } rows[] = {
        {"StokerAgentSilent",
         "changes(stoker_ticks_total[5m]) == 0",
         NS_PER_MIN,
         "the agent does not look any more",
         "Restart stoker on the node and look at its log.",
         {"stoker_ticks_total", "", "7x60"},
         {"stoker_ticks_total", "", "0+60x60"}},
        {"StokerJournalDown",
         "stoker_journal_up == 0",
         5 * NS_PER_MIN,
         "what happens is kept in memory alone, the disk does not take it",
         "Look at the disk that holds the journal; stoker agent says why in its log.",
         {"stoker_journal_up", "", "0x60"},
         {"stoker_journal_up", "", "1x60"}},
        {"StokerAlertsUndelivered",
         "stoker_alerts_receiver_up == 0",
         5 * NS_PER_MIN,
         "a receiver of the node's own alerts does not take them",
         "Look at the receiver and at the way to it; what is on its way is kept.",
         {"stoker_alerts_receiver_up", "kind=\"webhook\",receiver=\"ops\"", "0x60"},
         {"stoker_alerts_receiver_up", "kind=\"webhook\",receiver=\"ops\"", "1x60"}},
        {"StokerKernelLogLost",
         "increase(stoker_kernel_log_lost_total[15m]) > 0",
         0,
         "lines of the kernel log were overwritten before they could be read",
         "A fault may have gone unseen. Make the kernel's buffer larger (log_buf_len=).",
         {"stoker_kernel_log_lost_total", "", "0x5 0+20x60"},
         {"stoker_kernel_log_lost_total", "", "3x60"}},
        {"StokerConfigBad",
         "stoker_config_last_reload_successful == 0",
         5 * NS_PER_MIN,
         "the configuration cannot be read; the old one is in force",
         "stoker agent --check-config says what is wrong with it.",
         {"stoker_config_last_reload_successful", "", "0x60"},
         {"stoker_config_last_reload_successful", "", "1x60"}},
    };

    (void)arena;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const Alert alert = {.group = GROUP_MONITOR,
                             .name = rows[i].name,
                             .expr = rows[i].expr,
                             .for_ns = rows[i].for_ns,
                             .severity = fault_severities[SEVERITY_WARNING].key,
                             .route = fault_routes[ROUTE_TICKET].key,
                             .class = "monitor-blind",
                             .cause = fault_causes[CAUSE_HOST].key,
                             .text = rows[i].text,
                             .advice = rows[i].advice,
                             .runbook = "",
                             .of_node = true,
                             .sick = {rows[i].sick},
                             .well = {rows[i].well}};

        vec_push(list, alert);
    }
}
