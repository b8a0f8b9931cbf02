/* SPDX-License-Identifier: Apache-2.0 */
/* Routes: reading them, and whether one takes an incident. */
#include <errno.h>
#include <fnmatch.h>
#include <stddef.h>
#include <string.h>

#include "base/duration.h"
#include "base/number.h"
#include "base/owner.h"
#include "service/alert/config.h"

/* Those of Alertmanager. */
#define GROUP_WAIT "30s"
#define GROUP_INTERVAL "5m"
#define REPEAT_INTERVAL "4h"

static const char *const severity_names[] = {
#define SEVERITY(id, key, text) key,
    FAULT_SEVERITY_TABLE(SEVERITY)
#undef SEVERITY
        NULL,
};

typedef struct Section {
    OptList routes, causes, classes, gpus, receivers, group_by;
    int severity;
    const YamlNode *match, *labels;
    const char *receiver, *runbook;
    bool go_on;
    uint64_t wait_ns, interval_ns, repeat_ns;
} Section;

#define AT(field) .off = offsetof(Section, field)
static const OptSpec route_opts[] = {
    {.key = "match.route", .type = OPT_LIST, AT(routes), .help = "page, ticket, user, none"},
    {.key = "match.class", .type = OPT_LIST, AT(classes), .help = "classes, with * and ?"},
    {.key = "match.cause", .type = OPT_LIST, AT(causes), .help = "causes"},
    {.key = "match.severity",
     .type = OPT_ENUM,
     AT(severity),
     .names = severity_names,
     .def = "info",
     .help = "at least"},
    {.key = "match.gpu", .type = OPT_LIST, AT(gpus), .help = "indices or UUIDs"},
    {.key = "match.labels", .type = OPT_NODE, AT(match), .help = "labels and their values, with * and ?"},
    {.key = "receiver", .type = OPT_STRING, AT(receiver), .help = "who is told"},
    {.key = "receivers", .type = OPT_LIST, AT(receivers), .help = "who is told"},
    {.key = "labels", .type = OPT_NODE, AT(labels), .help = "labels to add"},
    {.key = "runbook", .type = OPT_STRING, AT(runbook), .help = "URL instead of the catalogue's"},
    {.key = "continue", .type = OPT_BOOL, AT(go_on), .help = "look at the next routes too"},
    {.key = "group_by", .type = OPT_LIST, AT(group_by), .def = "class", .help = "labels of a group"},
    {.key = "group_wait", .type = OPT_DURATION, AT(wait_ns), .def = GROUP_WAIT, .help = "wait of a group's first"},
    {.key = "group_interval", .type = OPT_DURATION, AT(interval_ns), .def = GROUP_INTERVAL, .help = "between two"},
    {.key = "repeat_interval", .type = OPT_DURATION, AT(repeat_ns), .def = REPEAT_INTERVAL, .help = "0: never"},
};
#undef AT

static int read_words(const YamlNode *node, const OptList *words, const FaultWord *table, int count, const char *what,
                      unsigned int *ret, Err *err)
{
    for (size_t i = 0; i < words->len; i++) {
        int found = fault_word_find(table, count, words->items[i]);

        if (found < 0)
            return yaml_fail(node, err, "'%.40s' is no %s", words->items[i], what);
        *ret |= 1U << found;
    }
    return 0;
}

static int add_receiver(const YamlNode *node, const AlertTree *tree, const char *name, RouteConfig *route, Err *err)
{
    for (size_t i = 0; i < tree->receiver_count; i++) {
        if (strcmp(tree->receivers[i].name, name) != 0)
            continue;
        for (size_t k = 0; k < route->receiver_count; k++)
            if (route->receivers[k] == i)
                return 0;
        route->receivers[route->receiver_count++] = i;
        return 0;
    }
    return yaml_fail(node, err, "there is no receiver '%.60s'", name);
}

static int read_receivers(const YamlNode *node, const AlertTree *tree, const Section *in, RouteConfig *route, Err *err)
{
    const YamlNode *list = yaml_get(node, "receivers");

    if (in->receiver)
        TRY(add_receiver(yaml_get(node, "receiver"), tree, in->receiver, route, err));
    for (size_t i = 0; i < in->receivers.len; i++)
        TRY(add_receiver(list, tree, in->receivers.items[i], route, err));
    if (!in->receiver && !list)
        return yaml_fail(node, err, "a route needs 'receiver' or 'receivers' ([] for nobody)");
    return 0;
}

static int read_gpus(const YamlNode *node, const Section *in, RouteConfig *route, Err *err)
{
    for (size_t i = 0; i < in->gpus.len; i++) {
        const char *text = in->gpus.items[i];

        if (number_parse_u64(text, 0, 4096, &(uint64_t){0}, NULL) < 0 && strncmp(text, "GPU-", 4) != 0)
            return yaml_fail(node, err, "'%.60s' is neither a GPU's index nor its UUID", text);
    }
    route->gpus = in->gpus;
    return 0;
}

static int read_group(const YamlNode *node, const Section *in, RouteConfig *route, Err *err)
{
    route->group_each = in->group_by.len == 1 && !strcmp(in->group_by.items[0], "...");
    for (size_t i = 0; i < in->group_by.len && !route->group_each; i++)
        if (!alert_label_name_fits(in->group_by.items[i]))
            return yaml_fail(yaml_get(node, "group_by"), err, "'%.60s' is no name of a label", in->group_by.items[i]);
    route->group_by = in->group_by;
    route->has_wait = yaml_get(node, "group_wait") != NULL;
    route->has_repeat = yaml_get(node, "repeat_interval") != NULL;
    route->group_wait_ns = in->wait_ns;
    route->group_interval_ns = in->interval_ns;
    route->repeat_ns = in->repeat_ns;
    return 0;
}

static int read_route(const YamlNode *node, AlertTree *tree, RouteConfig *route, Err *err)
{
    Section in = {0};
    OptSet set = {.opts = route_opts, .count = ARRAY_LEN(route_opts), .into = &in, .arena = &tree->arena};
    const YamlNode *match = yaml_get(node, "match");

    TRY(yaml_want(node, YAML_MAP, "routes", err));
    TRY(opt_defaults(&set, err));
    TRY(opt_yaml(&set, node, err));
    TRY(read_words(yaml_get(match, "route"), &in.routes, fault_routes, ROUTE_END, "route (page, ticket, user, none)",
                   &route->routes, err));
    TRY(read_words(yaml_get(match, "cause"), &in.causes, fault_causes, CAUSE_END, "cause", &route->causes, err));
    if (!in.routes.len)
        route->routes = ~(1U << ROUTE_NONE);
    if (!in.causes.len)
        route->causes = ~0U;
    route->severity = (FaultSeverity)in.severity;
    route->classes = in.classes;
    route->go_on = in.go_on;
    route->runbook = in.runbook;
    TRY(read_gpus(yaml_get(match, "gpu"), &in, route, err));
    TRY(alert_labels_read(in.match, "match.labels", &tree->arena, &route->match, err));
    TRY(alert_labels_read(in.labels, "labels", &tree->arena, &route->labels, err));
    TRY(read_group(node, &in, route, err));
    return read_receivers(node, tree, &in, route, err);
}

/* Where the configuration has receivers and no routes, everybody is told of all but what nobody shall be. */
static int add_only_route(AlertTree *tree, Err *err)
{
    RouteConfig *route = arena_calloc(&tree->arena, 1, sizeof(*route));
    Section in = {0};
    OptSet set = {.opts = route_opts, .count = ARRAY_LEN(route_opts), .into = &in, .arena = &tree->arena};

    TRY(opt_defaults(&set, err));
    *route = (RouteConfig){.routes = ~(1U << ROUTE_NONE), .causes = ~0U};
    TRY(read_group(NULL, &in, route, err));
    for (; route->receiver_count < tree->receiver_count; route->receiver_count++)
        route->receivers[route->receiver_count] = route->receiver_count;
    tree->routes = route;
    tree->route_count = 1;
    return 0;
}

int alert_routes_read(const YamlNode *list, AlertTree *tree, Err *err)
{
    if (yaml_is_null(list))
        return tree->receiver_count ? add_only_route(tree, err) : 0;
    TRY(yaml_want(list, YAML_SEQ, "routes", err));
    if (list->len > ALERT_ROUTES_MAX)
        return yaml_fail(list, err, "more than %d routes", ALERT_ROUTES_MAX);
    tree->routes = arena_calloc(&tree->arena, list->len + 1, sizeof(*tree->routes));
    for (; tree->route_count < list->len; tree->route_count++)
        TRY(read_route(list->items[tree->route_count], tree, &tree->routes[tree->route_count], err));
    return 0;
}

static bool is_one_of(const OptList *globs, const char *text)
{
    for (size_t i = 0; i < globs->len; i++)
        if (fnmatch(globs->items[i], text, 0) == 0)
            return true;
    return !globs->len;
}

static bool is_gpu(const OptList *gpus, const AlertLabels *labels)
{
    const char *index = alert_labels_get(labels, "gpu"), *uuid = alert_labels_get(labels, "UUID");

    for (size_t i = 0; i < gpus->len; i++)
        if ((*index && !strcmp(gpus->items[i], index)) || (*uuid && !strcmp(gpus->items[i], uuid)))
            return true;
    return !gpus->len;
}

bool alert_route_takes(const RouteConfig *route, const Incident *incident, const AlertLabels *labels)
{
    if (!(route->routes & 1U << incident->route) || !(route->causes & 1U << incident->cause) ||
        incident->severity < route->severity)
        return false;
    for (size_t i = 0; i < route->match.len; i++)
        if (fnmatch(route->match.at[i].value, alert_labels_get(labels, route->match.at[i].name), 0) != 0)
            return false;
    return is_one_of(&route->classes, incident->class) && is_gpu(&route->gpus, labels);
}

uint64_t alert_route_wait(const RouteConfig *route, const Incident *incident)
{
    return incident->route == ROUTE_PAGE && !route->has_wait ? 0 : route->group_wait_ns;
}
