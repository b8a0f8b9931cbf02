/* SPDX-License-Identifier: Apache-2.0 */
/* Who is told of an incident, under which labels, in which group. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/owner.h"
#include "service/alert/inside.h"

enum { LABELS_BYTES_MAX = 64 * 1024 };

static Tell *find_tell(const Item *item, const Receiver *receiver)
{
    for (size_t i = 0; i < item->tells.len; i++)
        if (item->tells.at[i]->receiver == receiver)
            return item->tells.at[i];
    return NULL;
}

static char *json_of(const AlertLabels *labels)
{
    Str text;

    str_init(&text, LABELS_BYTES_MAX);
    alert_labels_json(labels, &text);
    return str_take(&text);
}

static void set_labels(Tell *tell, const AlertLabels *labels)
{
    CLEANUP_FREE char *json = json_of(labels);

    if (!strcmp(json, tell->labels))
        return;
    if (tell->receiver->kind == RECEIVER_ALERTMANAGER && tell->told.state == TOLD_OPEN)
        alertmanager_renamed(tell);
    free(tell->labels);
    tell->labels = TAKE(json);
}

static void set_group(Tell *tell, size_t route_number, const AlertLabels *labels)
{
    const RouteConfig *route = tell->route;
    CLEANUP(str_done) Str key = {0};
    AlertLabels by = {0};

    str_init(&key, LABELS_BYTES_MAX);
    for (size_t i = 0; i < route->group_by.len && !route->group_each; i++)
        alert_labels_set(&by, route->group_by.items[i], alert_labels_get(labels, route->group_by.items[i]));
    if (route->group_each)
        by = *labels;
    free(tell->group_labels);
    tell->group_labels = json_of(&by);
    str_addf(&key, "%zu", route_number);
    str_add(&key, route->group_each || tell->receiver->kind == RECEIVER_JOURNALD ? tell->item->incident.id
                                                                                 : tell->group_labels);
    tell->group = group_of(tell->receiver, key.text, tell->group_labels);
}

static void lead(Item *item, Receiver *receiver, size_t route_number, const AlertLabels *labels)
{
    const AlertTree *tree = receiver->alerts->tree;
    const RouteConfig *route = &tree->routes[route_number];
    Tell *tell = find_tell(item, receiver);
    AlertLabels all = *labels;

    if (!tell)
        tell = tell_new(item, receiver);
    if (tell->route)
        return; /* by a route before */
    tell->route = route;
    tell->wait_ns = receiver->kind == RECEIVER_JOURNALD ? 0 : alert_route_wait(route, &item->incident);
    for (size_t i = 0; i < route->labels.len; i++)
        alert_labels_set(&all, route->labels.at[i].name, route->labels.at[i].value);
    set_labels(tell, &all);
    if (receiver->kind != RECEIVER_ALERTMANAGER)
        set_group(tell, route_number, &all);
}

void alert_route(Alerts *alerts, Item *item)
{
    const AlertTree *tree = alerts->tree;
    AlertLabels labels;

    arena_reset(&alerts->scratch);
    alert_labels_of(&item->incident, alerts->hostname, &alerts->scratch, &labels);
    for (size_t i = 0; i < tree->labels.len; i++)
        alert_labels_set(&labels, tree->labels.at[i].name, tree->labels.at[i].value);
    for (size_t i = 0; i < item->tells.len; i++)
        item->tells.at[i]->route = NULL;
    for (size_t r = 0; r < tree->route_count; r++) {
        const RouteConfig *route = &tree->routes[r];

        if (!alert_route_takes(route, &item->incident, &labels))
            continue;
        for (size_t i = 0; i < route->receiver_count; i++)
            lead(item, alerts->receivers.at[route->receivers[i]], r, &labels);
        if (!route->go_on)
            break;
    }
    for (size_t i = 0; i < item->tells.len; i++) {
        Tell *tell = item->tells.at[i];

        if (!tell->group && tell->receiver->kind != RECEIVER_ALERTMANAGER)
            tell->group = group_of(tell->receiver, "", "{}");
        tell_settle(tell, true);
    }
}
