/* SPDX-License-Identifier: Apache-2.0 */
/* Alerts: which receivers an incident goes to, when something is due; starting, reloading and ending. */
#include "service/alert/alert.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/number.h"
#include "base/cleanup.h"
#include "service/alert/delivery.h"

enum { SLEEP_MAX_MS = 3600 * 1000, LABELS_BYTES_MAX = 64 * 1024 };

void alerts_place(Alerts *alerts, const char *url)
{
    if (alerts->has_external_url)
        return;
    free(alerts->external_url);
    alerts->external_url = xstrdup(url);
}

/* --- receivers ---------------------------------------------------------------------------------------------------- */

/* Takes another configuration; endpoints begin anew, as URLs may have changed. Nothing may be under way to them. */
static void configure_receiver(Receiver *receiver, ReceiverConfig *config)
{
    receiver->config = config;
    for (size_t i = 0; i < ALERT_URLS_MAX; i++)
        receiver->endpoints[i] = (Endpoint){.receiver = receiver, .index = i};
    for (size_t i = 0; i < receiver->deliveries.len; i++) {
        Delivery *delivery = receiver->deliveries.at[i];

        memset(delivery->posted, 0, sizeof(delivery->posted));
    }
    receiver_retry_now(receiver);
}

static Receiver *make_receiver(Alerts *alerts, ReceiverConfig *config)
{
    Receiver *receiver = xcalloc(1, sizeof(*receiver));

    receiver->alerts = alerts;
    receiver->name = xstrdup(config->name);
    receiver->kind = config->kind;
    receiver->ops = senders_find(config->kind);
    configure_receiver(receiver, config);
    return receiver;
}

static void free_receiver(Receiver *receiver)
{
    for (size_t i = 0; i < receiver->ghosts.len; i++)
        free(receiver->ghosts.at[i].labels);
    vec_done(&receiver->ghosts);
    reports_free(receiver, false);
    vec_done(&receiver->deliveries);
    free(receiver->name);
    free(receiver);
}

/* --- items -------------------------------------------------------------------------------------------------------- */

static void free_item(AlertItem *item, bool forget)
{
    for (size_t i = 0; i < item->deliveries.len; i++)
        delivery_free(item->deliveries.at[i], forget);
    vec_done(&item->deliveries);
    free(item);
}

/* Evicts the oldest cleared item when there are too many; false: all are open. */
static bool make_room(Alerts *alerts)
{
    const MapEntry *entry;
    AlertItem *oldest = NULL;
    size_t cursor = 0;

    if (alerts->items.len < ALERT_ITEMS_MAX)
        return true;
    while ((entry = map_next(&alerts->items, &cursor))) {
        AlertItem *item = entry->value;

        if (item->incident.state == INCIDENT_CLEARED && (!oldest || item->order < oldest->order))
            oldest = item;
    }
    if (!oldest)
        return false;
    for (size_t i = 0; i < oldest->deliveries.len; i++)
        if (oldest->deliveries.at[i]->change != DELIVERY_NONE)
            receiver_note_dropped(oldest->deliveries.at[i]->receiver, 1, "too many wait");
    map_del(&alerts->items, oldest->incident.id);
    free_item(oldest, true);
    return true;
}

static AlertItem *add_item(Alerts *alerts, const Incident *incident)
{
    AlertItem *item;

    if (!make_room(alerts)) {
        log_write(alerts->config.log, LOG_LEVEL_ERROR, "alerts: %d incidents are open, '%s' is not sent",
                  ALERT_ITEMS_MAX, incident->id);
        return NULL;
    }
    item = xcalloc(1, sizeof(*item));
    item->incident = *incident;
    item->order = ++alerts->order;
    map_put(&alerts->items, incident->id, item);
    return item;
}

/* An Alertmanager ignores the end of an alert that it never had: such an incident is missed. */
static void note_missed(const Delivery *delivery)
{
    if (delivery->receiver->kind != RECEIVER_ALERTMANAGER || !delivery->route)
        return;
    if (delivery->heard.state == HEARD_OPEN)
        receiver_note_dropped(delivery->receiver, 1,
                              "it was over for 15 minutes and the Alertmanager could not be reached");
    else if (delivery->heard.state == HEARD_NOTHING && !delivery->item->incident.silenced)
        receiver_note_dropped(delivery->receiver, 1, "it was over before the Alertmanager could be reached");
}

/* Removes deliveries that are over, and a cleared item with its last one. */
static void sweep_item(Alerts *alerts, AlertItem *item)
{
    for (size_t i = 0; i < item->deliveries.len;) {
        Delivery *delivery = item->deliveries.at[i];

        if (!delivery_is_over(delivery)) {
            i++;
            continue;
        }
        note_missed(delivery);
        vec_remove(&item->deliveries, i);
        delivery_free(delivery, true);
    }
    if (!item->deliveries.len && item->incident.state == INCIDENT_CLEARED && !item->restored) {
        map_del(&alerts->items, item->incident.id);
        free_item(item, true);
    }
}

/* --- routes ------------------------------------------------------------------------------------------------------- */

static Delivery *find_delivery(const AlertItem *item, const Receiver *receiver)
{
    for (size_t i = 0; i < item->deliveries.len; i++)
        if (item->deliveries.at[i]->receiver == receiver)
            return item->deliveries.at[i];
    return NULL;
}

static void set_labels(Delivery *delivery, const AlertLabels *labels)
{
    CLEANUP(str_done) Str json = {0};

    str_init(&json, LABELS_BYTES_MAX);
    alert_labels_json(labels, &json);
    if (!strcmp(json.text, delivery->labels))
        return;
    if (delivery->receiver->kind == RECEIVER_ALERTMANAGER && delivery->heard.state == HEARD_OPEN)
        alertmanager_end_old_labels(delivery);
    free(delivery->labels);
    delivery->labels = str_take(&json);
}

static void add_to_receiver(AlertItem *item, Receiver *receiver, const RouteConfig *route, const AlertLabels *labels)
{
    Delivery *delivery = find_delivery(item, receiver);
    AlertLabels all = *labels;

    if (!delivery)
        delivery = delivery_new(item, receiver);
    if (delivery->route)
        return; /* an earlier route leads here */
    delivery->route = route;
    for (size_t i = 0; i < route->labels.len; i++)
        alert_labels_set(&all, route->labels.at[i].name, route->labels.at[i].value);
    set_labels(delivery, &all);
}

/* Gives the item to the receivers of its routes, with its labels, and takes the routes from the others. */
static void route_item(Alerts *alerts, AlertItem *item)
{
    const AlertTree *tree = alerts->tree;
    AlertLabels labels;

    arena_reset(&alerts->scratch);
    alert_labels_of(&item->incident, alerts->hostname, &alerts->scratch, &labels);
    for (size_t i = 0; i < tree->labels.len; i++)
        alert_labels_set(&labels, tree->labels.at[i].name, tree->labels.at[i].value);
    for (size_t i = 0; i < item->deliveries.len; i++)
        item->deliveries.at[i]->route = NULL;
    for (size_t r = 0; r < tree->route_count; r++) {
        const RouteConfig *route = &tree->routes[r];

        if (!alert_route_matches(route, &item->incident, &labels))
            continue;
        for (size_t i = 0; i < route->receiver_count; i++)
            add_to_receiver(item, alerts->receivers.at[route->receivers[i]], route, &labels);
        if (!route->go_on)
            break;
    }
}

/* --- time --------------------------------------------------------------------------------------------------------- */

static void handle_closed(uv_handle_t *handle)
{
    alerts_release(handle->data);
}

static void drop_items(Alerts *alerts)
{
    const MapEntry *entry;
    size_t cursor = 0;

    while ((entry = map_next(&alerts->items, &cursor)))
        free_item(entry->value, false);
    map_done(&alerts->items);
}

/* Undelivered news stay in the outbox. */
static void end_alerts(Alerts *alerts)
{
    if (alerts->closed)
        return;
    alerts->closed = true;
    for (size_t i = 0; i < alerts->receivers.len; i++) {
        delivery_cancel_all(alerts->receivers.at[i]);
        reports_cancel(alerts->receivers.at[i]);
        alertmanager_cancel(alerts->receivers.at[i]);
    }
    drop_items(alerts);
    for (size_t i = 0; i < alerts->receivers.len; i++)
        free_receiver(alerts->receivers.at[i]);
    vec_done(&alerts->receivers);
    alert_tree_free(alerts->tree);
    arena_done(&alerts->scratch);
    fetch_close(alerts->fetch);
    uv_close((uv_handle_t *)&alerts->timer, handle_closed);
    uv_close((uv_handle_t *)&alerts->grace, handle_closed);
}

static bool is_idle(const Alerts *alerts, uint64_t next, uint64_t now_ns)
{
    for (size_t i = 0; i < alerts->receivers.len; i++) {
        const Receiver *receiver = alerts->receivers.at[i];

        if (receiver->in_flight || receiver->report_call)
            return false;
        for (size_t e = 0; e < ALERT_URLS_MAX; e++)
            if (receiver->endpoints[e].call)
                return false;
    }
    return next > now_ns;
}

static void set_timer(Alerts *alerts, uint64_t next, uint64_t now_ns)
{
    double ms;

    if (next == ALERT_NEVER) {
        uv_timer_stop(&alerts->timer);
        return;
    }
    ms = next > now_ns ? (double)(next - now_ns) / alerts->config.clock_speed / 1e6 : 0;
    uv_update_time(alerts->loop);
    uv_timer_start(&alerts->timer, alerts->send_due, ms > SLEEP_MAX_MS ? SLEEP_MAX_MS : (uint64_t)ms + 1, 0);
}

static void send_due(uv_timer_t *timer)
{
    Alerts *alerts = timer->data;
    uint64_t next = ALERT_NEVER, now_ns = alerts_now(alerts);
    const MapEntry *entry;
    size_t cursor = 0;

    if (!alerts->resumed || alerts->closed)
        return;
    for (size_t i = 0; i < alerts->receivers.len; i++) {
        Receiver *receiver = alerts->receivers.at[i];

        next = number_min_u64(next, receiver->ops->send_due(receiver, now_ns));
        next = number_min_u64(next, reports_send_due(receiver, now_ns));
    }
    while ((entry = map_next(&alerts->items, &cursor)))
        sweep_item(alerts, entry->value);
    if (alerts->closing && is_idle(alerts, next, now_ns))
        end_alerts(alerts);
    else if (!uv_is_active((uv_handle_t *)&alerts->timer)) /* else it was woken meanwhile */
        set_timer(alerts, next, now_ns);
}

/* --- configuration ------------------------------------------------------------------------------------------------ */

int alerts_check(const YamlNode *node, const Catalogue *catalogue, uint32_t gpus, Str *notes, Err *err)
{
    AlertTree *tree = NULL;

    TRY(alert_tree_new(node, catalogue, &tree, err));
    if (notes)
        alert_tree_add_notes(tree, catalogue, gpus, notes);
    alert_tree_free(tree);
    return 0;
}

static Receiver *find_receiver(const Alerts *alerts, const char *name)
{
    for (size_t i = 0; i < alerts->receivers.len; i++)
        if (!strcmp(alerts->receivers.at[i]->name, name))
            return alerts->receivers.at[i];
    return NULL;
}

static void remove_receiver(Alerts *alerts, Receiver *receiver)
{
    const MapEntry *entry;
    size_t cursor = 0, unheard = 0;

    while ((entry = map_next(&alerts->items, &cursor))) {
        AlertItem *item = entry->value;

        for (size_t i = 0; i < item->deliveries.len; i++) {
            Delivery *delivery = item->deliveries.at[i];

            if (delivery->receiver != receiver)
                continue;
            unheard += delivery->change != DELIVERY_NONE;
            vec_remove(&item->deliveries, i);
            delivery_free(delivery, true);
            break;
        }
    }
    unheard += reports_free(receiver, true);
    if (unheard)
        receiver_note_dropped(receiver, unheard, "it is no longer in the configuration");
    alertmanager_cancel(receiver);
    free_receiver(receiver);
}

static bool is_in_tree(const AlertTree *tree, const Receiver *receiver)
{
    for (size_t i = 0; i < tree->receiver_count; i++)
        if (receiver->config == &tree->receivers[i])
            return true;
    return false;
}

/* Receivers are known by name and kind: those of both trees go on. */
static void set_tree(Alerts *alerts, AlertTree *tree)
{
    Receiver *receivers[ALERT_RECEIVERS_MAX];
    AlertTree *old_tree = alerts->tree;
    const MapEntry *entry;
    size_t cursor = 0;

    for (size_t i = 0; i < tree->receiver_count; i++) {
        ReceiverConfig *config = &tree->receivers[i];

        receivers[i] = find_receiver(alerts, config->name);
        if (!receivers[i] || receivers[i]->kind != config->kind) {
            receivers[i] = make_receiver(alerts, config);
            continue;
        }
        alertmanager_cancel(receivers[i]);
        configure_receiver(receivers[i], config);
    }
    for (size_t i = 0; i < alerts->receivers.len; i++)
        if (!is_in_tree(tree, alerts->receivers.at[i]))
            remove_receiver(alerts, alerts->receivers.at[i]);
    vec_clear(&alerts->receivers);
    for (size_t i = 0; i < tree->receiver_count; i++)
        vec_push(&alerts->receivers, receivers[i]);
    alerts->tree = tree;
    while ((entry = map_next(&alerts->items, &cursor))) {
        const AlertItem *item = entry->value;
        const Incident incident = item->incident;

        if (!item->restored)
            alerts_update(alerts, &incident);
    }
    alert_tree_free(old_tree);
    alerts_wake(alerts);
}

static bool needs_http(const AlertTree *tree)
{
    for (size_t i = 0; i < tree->receiver_count; i++)
        if (tree->receivers[i].kind == RECEIVER_ALERTMANAGER || tree->receivers[i].kind == RECEIVER_WEBHOOK)
            return true;
    return false;
}

static void log_notes(const Alerts *alerts, const AlertTree *tree, const Catalogue *catalogue)
{
    CLEANUP(str_done) Str notes = str_limited(65536);

    alert_tree_add_notes(tree, catalogue, 0, &notes);
    for (char *rest = notes.text, *line; (line = strsep(&rest, "\n")) && *line;)
        log_write(alerts->config.log, LOG_LEVEL_WARN, "%s", line);
}

int alerts_reconfigure(Alerts *alerts, const YamlNode *node, const Catalogue *catalogue, Err *err)
{
    AlertTree *tree = NULL;

    TRY(alert_tree_new(node, catalogue, &tree, err));
    const int rc = needs_http(tree) && !alerts->fetch ? fetch_new(alerts->loop, &alerts->fetch, err) : 0;
    if (rc < 0)
        alert_tree_free(tree);
    else
        set_tree(alerts, tree);
    if (rc == 0)
        log_notes(alerts, tree, catalogue);
    return rc;
}

/* --- starting and ending ------------------------------------------------------------------------------------------ */

/* False: its receiver is gone or is another one of this name, or it is unreadable. */
static bool restore_delivery(Alerts *alerts, const JournalNews *news)
{
    Receiver *receiver = find_receiver(alerts, news->receiver);
    Delivery kept = {.receiver = receiver};
    Incident incident;
    AlertItem *item;

    if (reports_are_kept_by(news->key))
        return receiver && receiver->kind == RECEIVER_WEBHOOK && reports_restore(receiver, news->key, news->text);
    if (!receiver || delivery_read_kept(news->text, &kept, &incident) < 0)
        return false;
    item = map_get(&alerts->items, incident.id);
    if (!item)
        item = add_item(alerts, &incident);
    if (item) {
        item->restored = true;
        if (incident.revision > item->incident.revision)
            item->incident = incident;
        delivery_restore(delivery_new(item, receiver), &kept);
    }
    free(kept.labels);
    return true;
}

static void restore_outbox(Alerts *alerts, const JournalKept *kept)
{
    size_t gone = 0, unreadable = 0;

    for (size_t i = 0; kept && i < kept->outbox.len; i++) {
        const JournalNews *news = &kept->outbox.at[i];

        if (restore_delivery(alerts, news))
            continue;
        if (find_receiver(alerts, news->receiver))
            unreadable++;
        else
            gone++;
        journal_put_outbox(alerts->config.journal, news->receiver, news->key, "", 0);
    }
    if (gone + unreadable)
        log_write(alerts->config.log, LOG_LEVEL_WARN,
                  "alerts: %zu kept notifications are given up: %zu for receivers that are gone, %zu unreadable",
                  gone + unreadable, gone, unreadable);
}

int alerts_new(uv_loop_t *loop, const AlertsConfig *config, Alerts **ret, Err *err)
{
    Alerts *alerts;
    AlertTree *empty = NULL;
    int rc;

    TRY(alert_tree_new(NULL, NULL, &empty, err));
    alerts = xcalloc(1, sizeof(*alerts));
    alerts->loop = loop;
    alerts->config = *config;
    alerts->config.tree = NULL;
    alerts->config.catalogue = NULL;
    alerts->config.kept = NULL;
    if (!(alerts->config.clock_speed > 0))
        alerts->config.clock_speed = 1;
    alerts->hostname = xstrdup(config->hostname);
    alerts->has_external_url = config->external_url && *config->external_url;
    alerts->external_url = alerts->has_external_url ? xstrdup(config->external_url) : NULL;
    if (!alerts->has_external_url && asprintf(&alerts->external_url, "http://%s/", config->hostname) < 0)
        abort();
    alerts->tree = empty;
    map_init(&alerts->items);
    uv_timer_init(loop, &alerts->timer);
    uv_timer_init(loop, &alerts->grace);
    alerts->send_due = send_due;
    alerts->timer.data = alerts->grace.data = alerts;
    alerts->handles = 2;
    rc = alerts_reconfigure(alerts, config->tree, config->catalogue, err);
    if (rc < 0) {
        end_alerts(alerts);
        return rc;
    }
    restore_outbox(alerts, config->kept);
    *ret = alerts;
    return 0;
}

/* The time to the next repetition goes on over a restart. */
static void resume_repeats(AlertItem *item)
{
    for (size_t i = 0; i < item->deliveries.len; i++) {
        Delivery *delivery = item->deliveries.at[i];
        const Alerts *alerts = delivery->receiver->alerts;
        uint64_t now_ns = alerts_now(alerts), real_ns = alerts_real(alerts), heard_ns = delivery->heard.real_ns;
        uint64_t age = heard_ns < real_ns ? real_ns - heard_ns : 0;

        if (heard_ns)
            delivery->last_sent_ns = age < now_ns ? now_ns - age : 1;
    }
}

/* It ended after it was kept as open. Receivers that heard of the beginning may have heard of the end too, from a
 * process that was killed before it could keep that. */
static void mark_unsure(const AlertItem *item)
{
    for (size_t i = 0; i < item->deliveries.len; i++)
        if (item->deliveries.at[i]->heard.state == HEARD_OPEN)
            item->deliveries.at[i]->heard.unsure = true;
}

/* It was open when it was kept and is no longer: it ended while we were not running. */
static void clear_restored(Alerts *alerts, const AlertItem *item)
{
    Incident incident = item->incident;

    if (incident.state == INCIDENT_OPEN) {
        mark_unsure(item);
        incident.state = INCIDENT_CLEARED;
        incident.revision++;
        incident.cleared_real_ns = incident.updated_real_ns = alerts_real(alerts);
    }
    alerts_update(alerts, &incident);
}

void alerts_resume(Alerts *alerts, const Incident *const *open, size_t count)
{
    const MapEntry *entry;
    size_t cursor = 0;

    for (size_t i = 0; i < count; i++) {
        const AlertItem *item = map_get(&alerts->items, open[i]->id);

        if (item && open[i]->reopened > item->incident.reopened)
            mark_unsure(item);
        alerts_update(alerts, open[i]);
    }
    while ((entry = map_next(&alerts->items, &cursor))) {
        AlertItem *item = entry->value;

        if (item->restored)
            clear_restored(alerts, item);
        resume_repeats(item);
    }
    alerts->resumed = true;
    alerts_wake(alerts);
}

void alerts_update(Alerts *alerts, const Incident *incident)
{
    AlertItem *item = map_get(&alerts->items, incident->id);

    if (alerts->closing || incident->state == INCIDENT_PENDING)
        return;
    if (!item && incident->state == INCIDENT_OPEN)
        item = add_item(alerts, incident);
    if (!item || incident->revision < item->incident.revision)
        return;
    item->incident = *incident; /* what is to be sent follows from the states before and after */
    item->restored = false;
    route_item(alerts, item);
    for (size_t i = 0; i < item->deliveries.len; i++)
        delivery_update(item->deliveries.at[i]);
    if (alerts->resumed)
        sweep_item(alerts, item);
    alerts_wake(alerts);
}

static void handle_grace(uv_timer_t *timer)
{
    end_alerts(timer->data);
}

void alerts_close(Alerts *alerts, uint64_t grace_ms, void (*closed)(void *self), void *self)
{
    if (!alerts) {
        if (closed)
            closed(self);
        return;
    }
    alerts->on_closed = closed;
    alerts->self = self;
    alerts->closing = true;
    if (!alerts->resumed || !grace_ms) {
        end_alerts(alerts);
        return;
    }
    uv_update_time(alerts->loop);
    uv_timer_start(&alerts->grace, handle_grace, grace_ms, 0);
    alerts_wake(alerts);
}

static uint64_t count_queued(const Receiver *receiver)
{
    uint64_t queued = receiver->reports.len;

    for (size_t i = 0; i < receiver->deliveries.len; i++) {
        const Delivery *delivery = receiver->deliveries.at[i];

        if (receiver->kind == RECEIVER_ALERTMANAGER)
            queued += alertmanager_is_waiting(delivery);
        else
            queued += delivery->change != DELIVERY_NONE;
    }
    return queued;
}

size_t alerts_receivers(const Alerts *alerts, AlertsReceiverState *out, size_t cap)
{
    for (size_t i = 0; i < alerts->receivers.len && i < cap; i++) {
        const Receiver *receiver = alerts->receivers.at[i];

        out[i] = (AlertsReceiverState){.name = receiver->name,
                                       .kind = receiver_kind_key(receiver->kind),
                                       .sent = receiver->sent,
                                       .failed = receiver->failed,
                                       .dropped = receiver->dropped,
                                       .queued = count_queued(receiver),
                                       .last_ok_real_ns = receiver->last_ok_real_ns,
                                       .fine = !receiver->troubled};
        snprintf(out[i].why, sizeof(out[i].why), "%s", receiver->why);
    }
    return alerts->receivers.len;
}
