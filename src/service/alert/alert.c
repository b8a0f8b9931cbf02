/* SPDX-License-Identifier: Apache-2.0 */
/* Alerts: what is told to us, when something is due, starting, reloading and ending. */
#include "service/alert/alert.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/number.h"
#include "base/owner.h"
#include "service/alert/inside.h"

enum { SLEEP_MAX_MS = 3600 * 1000 };

uint64_t alert_now(const Alerts *alerts)
{
    return alerts->config.now_ns(alerts->config.clock);
}

uint64_t alert_real(const Alerts *alerts)
{
    return alerts->config.real_ns(alerts->config.clock);
}

const char *alert_url(const Alerts *alerts)
{
    return alerts->tree->external_url ? alerts->tree->external_url : alerts->external_url;
}

void alerts_place(Alerts *alerts, const char *url)
{
    if (alerts->placed)
        return;
    free(alerts->external_url);
    alerts->external_url = xstrdup(url);
}

void alert_handle_closed(Alerts *alerts)
{
    void (*on_closed)(void *self) = alerts->on_closed;
    void *self = alerts->self;

    if (--alerts->handles > 0)
        return;
    free(alerts->hostname);
    free(alerts->external_url);
    free(alerts);
    if (on_closed)
        on_closed(self);
}

static void on_handle_closed(uv_handle_t *handle)
{
    alert_handle_closed(handle->data);
}

static void drop_items(Alerts *alerts)
{
    const MapEntry *entry;
    size_t cursor = 0;

    while ((entry = map_next(&alerts->items, &cursor)))
        item_free(entry->value, false);
    map_done(&alerts->items);
}

/* The outbox keeps what is not delivered. */
static void end(Alerts *alerts)
{
    if (alerts->closed)
        return;
    alerts->closed = true;
    for (size_t i = 0; i < alerts->receivers.len; i++) {
        notify_cancel(alerts->receivers.at[i]);
        alertmanager_cancel(alerts->receivers.at[i]);
    }
    drop_items(alerts);
    for (size_t i = 0; i < alerts->receivers.len; i++)
        receiver_free(alerts->receivers.at[i]);
    vec_done(&alerts->receivers);
    alert_tree_free(alerts->tree);
    arena_done(&alerts->scratch);
    fetch_close(alerts->fetch);
    uv_close((uv_handle_t *)&alerts->timer, on_handle_closed);
    uv_close((uv_handle_t *)&alerts->grace, on_handle_closed);
}

static bool is_idle(const Alerts *alerts, uint64_t next, uint64_t now_ns)
{
    for (size_t i = 0; i < alerts->receivers.len; i++) {
        const Receiver *receiver = alerts->receivers.at[i];

        if (receiver->in_flight)
            return false;
        for (size_t e = 0; e < ALERT_URLS_MAX; e++)
            if (receiver->endpoints[e].call)
                return false;
    }
    return next > now_ns;
}

static void on_timer(uv_timer_t *timer);

static void set_timer(Alerts *alerts, uint64_t next, uint64_t now_ns)
{
    double ms;

    if (next == ALERT_NEVER) {
        uv_timer_stop(&alerts->timer);
        return;
    }
    ms = next > now_ns ? (double)(next - now_ns) / alerts->config.clock_speed / 1e6 : 0;
    uv_update_time(alerts->loop);
    uv_timer_start(&alerts->timer, on_timer, ms > SLEEP_MAX_MS ? SLEEP_MAX_MS : (uint64_t)ms + 1, 0);
}

static void turn(Alerts *alerts)
{
    uint64_t next = ALERT_NEVER, now_ns = alert_now(alerts);
    const MapEntry *entry;
    size_t cursor = 0;

    if (!alerts->resumed || alerts->closed)
        return;
    for (size_t i = 0; i < alerts->receivers.len; i++) {
        Receiver *receiver = alerts->receivers.at[i];

        next = number_min_u64(next, receiver->kind == RECEIVER_ALERTMANAGER ? alertmanager_turn(receiver, now_ns)
                                                                            : notify_turn(receiver, now_ns));
    }
    while ((entry = map_next(&alerts->items, &cursor)))
        item_sweep(alerts, entry->value);
    if (alerts->closing && is_idle(alerts, next, now_ns))
        end(alerts);
    else if (!uv_is_active((uv_handle_t *)&alerts->timer)) /* else something ended meanwhile and wants a turn */
        set_timer(alerts, next, now_ns);
}

static void on_timer(uv_timer_t *timer)
{
    turn(timer->data);
}

void alert_kick(Alerts *alerts)
{
    if (!alerts->closed)
        uv_timer_start(&alerts->timer, on_timer, 0, 0);
}

int alerts_check(const YamlNode *node, Err *err)
{
    AlertTree *tree = NULL;
    int rc = 0;

    TRY(alert_tree_new(node, &tree, err));
    for (size_t i = 0; i < tree->receiver_count && rc == 0; i++) {
        CLEANUP(secrets_done) Secrets secrets = {0};

        rc = secrets_read(&tree->receivers[i], &secrets, err);
        if (rc < 0)
            err_add(err, "alerts: receiver '%s'", tree->receivers[i].name);
    }
    alert_tree_free(tree);
    return rc;
}

/* Receivers of the new tree: those that go on, with their new secrets, and new ones. */
typedef struct Changing {
    Receiver *receivers[ALERT_RECEIVERS_MAX];
    Secrets secrets[ALERT_RECEIVERS_MAX]; /* of those that go on */
    size_t count;
} Changing;

static Receiver *find_receiver(const Alerts *alerts, const char *name)
{
    for (size_t i = 0; i < alerts->receivers.len; i++)
        if (!strcmp(alerts->receivers.at[i]->name, name))
            return alerts->receivers.at[i];
    return NULL;
}

static bool goes_on(const Alerts *alerts, const Receiver *receiver)
{
    for (size_t i = 0; i < alerts->receivers.len; i++)
        if (alerts->receivers.at[i] == receiver)
            return true;
    return false;
}

static void undo(const Alerts *alerts, Changing *changing)
{
    for (size_t i = 0; i < changing->count; i++) {
        if (!goes_on(alerts, changing->receivers[i]))
            receiver_free(changing->receivers[i]);
        secrets_done(&changing->secrets[i]);
    }
}

static int prepare(Alerts *alerts, const AlertTree *tree, Changing *ret, Err *err)
{
    bool http = false;

    for (size_t i = 0; i < tree->receiver_count; i++)
        http |= tree->receivers[i].kind == RECEIVER_ALERTMANAGER || tree->receivers[i].kind == RECEIVER_WEBHOOK;
    if (http && !alerts->fetch)
        TRY(fetch_new(alerts->loop, &alerts->fetch, err));
    for (; ret->count < tree->receiver_count; ret->count++) {
        const ReceiverConfig *config = &tree->receivers[ret->count];
        Receiver *old = find_receiver(alerts, config->name);

        if (old && old->kind == config->kind)
            TRY(secrets_read(config, &ret->secrets[ret->count], err));
        else
            old = receiver_new(alerts, config, err);
        if (!old)
            return err_add(err, "alerts: receiver '%s'", config->name);
        ret->receivers[ret->count] = old;
    }
    return 0;
}

static void remove_receiver(Alerts *alerts, Receiver *receiver)
{
    const MapEntry *entry;
    size_t cursor = 0, unheard = 0;

    while ((entry = map_next(&alerts->items, &cursor))) {
        Item *item = entry->value;

        for (size_t i = 0; i < item->tells.len; i++) {
            Tell *tell = item->tells.at[i];

            if (tell->receiver != receiver)
                continue;
            unheard += tell->change != TELL_NONE;
            vec_remove(&item->tells, i);
            tell_free(tell, true);
            break;
        }
    }
    if (unheard)
        receiver_dropped(receiver, unheard, "it is no longer in the configuration");
    receiver_free(receiver);
}

/* Endpoints begin anew: the URLs may be others. */
static void go_on(Receiver *receiver, const ReceiverConfig *config, Secrets *secrets)
{
    receiver->config = config;
    secrets_done(&receiver->secrets);
    receiver->secrets = *secrets;
    *secrets = (Secrets){0};
    alertmanager_cancel(receiver);
    for (size_t i = 0; i < ALERT_URLS_MAX; i++)
        receiver->endpoints[i] = (Endpoint){.receiver = receiver, .index = i};
    for (size_t i = 0; i < receiver->tells.len; i++)
        memset(receiver->tells.at[i]->stamp, 0, sizeof(receiver->tells.at[i]->stamp));
    for (size_t i = 0; i < receiver->groups.len; i++)
        receiver->groups.at[i]->retry_ns = 0;
}

static void route_all(Alerts *alerts)
{
    const MapEntry *entry;
    size_t cursor = 0;

    while ((entry = map_next(&alerts->items, &cursor)))
        if (!((Item *)entry->value)->restored)
            alert_route(alerts, entry->value);
}

/* From here on nothing fails. */
static void change(Alerts *alerts, AlertTree *tree, Changing *changing)
{
    AlertTree *old_tree = alerts->tree;

    for (size_t i = 0; i < alerts->receivers.len; i++) {
        Receiver *old = alerts->receivers.at[i];
        bool stays = false;

        for (size_t k = 0; k < changing->count; k++)
            stays |= changing->receivers[k] == old;
        if (!stays)
            remove_receiver(alerts, old);
    }
    vec_clear(&alerts->receivers);
    for (size_t i = 0; i < changing->count; i++) {
        Receiver *receiver = changing->receivers[i];

        if (receiver->config != &tree->receivers[i])
            go_on(receiver, &tree->receivers[i], &changing->secrets[i]);
        vec_push(&alerts->receivers, receiver);
    }
    alerts->tree = tree;
    route_all(alerts);
    alert_tree_free(old_tree);
    alert_kick(alerts);
}

int alerts_reconfigure(Alerts *alerts, const YamlNode *node, Err *err)
{
    AlertTree *tree = NULL;
    Changing changing = {0};
    int rc;

    TRY(alert_tree_new(node, &tree, err));
    rc = prepare(alerts, tree, &changing, err);
    if (rc < 0) {
        undo(alerts, &changing);
        alert_tree_free(tree);
        return rc;
    }
    change(alerts, tree, &changing);
    return 0;
}

/* Room for one more: an incident that is over gives its place. */
static bool make_room(Alerts *alerts)
{
    const MapEntry *entry;
    Item *oldest = NULL;
    size_t cursor = 0;

    if (alerts->items.len < ALERT_ITEMS_MAX)
        return true;
    while ((entry = map_next(&alerts->items, &cursor))) {
        Item *item = entry->value;

        if (item->incident.state == INCIDENT_CLEARED && (!oldest || item->order < oldest->order))
            oldest = item;
    }
    if (!oldest)
        return false;
    for (size_t i = 0; i < oldest->tells.len; i++)
        if (oldest->tells.at[i]->change != TELL_NONE)
            receiver_dropped(oldest->tells.at[i]->receiver, 1, "too many wait");
    map_del(&alerts->items, oldest->incident.id);
    item_free(oldest, true);
    return true;
}

static Item *add_item(Alerts *alerts, const Incident *incident)
{
    Item *item;

    if (!make_room(alerts)) {
        log_write(alerts->config.log, LOG_LEVEL_ERROR, "alerts: %d incidents are open, nobody is told of '%s'",
                  ALERT_ITEMS_MAX, incident->id);
        return NULL;
    }
    item = xcalloc(1, sizeof(*item));
    item->incident = *incident;
    item->order = ++alerts->order;
    map_put(&alerts->items, incident->id, item);
    return item;
}

typedef struct Unknown {
    char *receiver, *key;
} Unknown;

typedef struct Restoring {
    Alerts *alerts;
    VEC(Unknown) unknown; /* what nobody waits for any more, or cannot be read */
    size_t damaged;
} Restoring;

static void restore_one(void *self, const char *name, const char *key, const char *text, size_t len)
{
    Restoring *restoring = self;
    Alerts *alerts = restoring->alerts;
    Receiver *receiver = find_receiver(alerts, name);
    Incident incident;
    Told told;
    uint64_t since_ns;
    char *labels = NULL;
    Item *item;

    if (!receiver ||
        kept_read(text, len, alert_now(alerts), alert_real(alerts), &incident, &told, &since_ns, &labels) < 0) {
        restoring->damaged += receiver != NULL;
        vec_push(&restoring->unknown, ((Unknown){xstrdup(name), xstrdup(key)}));
        return;
    }
    item = map_get(&alerts->items, incident.id);
    if (!item)
        item = add_item(alerts, &incident);
    if (!item) {
        free(labels);
        return;
    }
    item->restored = true;
    if (incident.revision > item->incident.revision)
        item->incident = incident;
    tell_restore(tell_new(item, receiver), &told, since_ns, labels);
}

static int restore(Alerts *alerts, Err *err)
{
    Restoring restoring = {.alerts = alerts};
    int rc = journal_each_outbox(alerts->config.journal, restore_one, &restoring, err);

    for (size_t i = 0; i < restoring.unknown.len; i++) {
        journal_put_outbox(alerts->config.journal, restoring.unknown.at[i].receiver, restoring.unknown.at[i].key, "",
                           0);
        free(restoring.unknown.at[i].receiver);
        free(restoring.unknown.at[i].key);
    }
    if (restoring.unknown.len)
        log_write(alerts->config.log, LOG_LEVEL_WARN,
                  "alerts: %zu kept notifications are given up: %zu for receivers that are gone, %zu unreadable",
                  restoring.unknown.len, restoring.unknown.len - restoring.damaged, restoring.damaged);
    vec_done(&restoring.unknown);
    return rc;
}

int alerts_new(uv_loop_t *loop, const AlertsConfig *config, Alerts **ret, Err *err)
{
    Alerts *alerts;
    AlertTree *empty = NULL;
    Err why = {0};
    int rc;

    TRY(alert_tree_new(NULL, &empty, err));
    alerts = xcalloc(1, sizeof(*alerts));
    alerts->loop = loop;
    alerts->config = *config;
    alerts->config.tree = NULL;
    if (!(alerts->config.clock_speed > 0))
        alerts->config.clock_speed = 1;
    alerts->hostname = xstrdup(config->hostname);
    alerts->placed = config->external_url && *config->external_url;
    alerts->external_url = alerts->placed ? xstrdup(config->external_url) : NULL;
    if (!alerts->placed && asprintf(&alerts->external_url, "http://%s/", config->hostname) < 0)
        abort();
    alerts->tree = empty;
    map_init(&alerts->items);
    uv_timer_init(loop, &alerts->timer);
    uv_timer_init(loop, &alerts->grace);
    alerts->timer.data = alerts->grace.data = alerts;
    alerts->handles = 2;
    rc = alerts_reconfigure(alerts, config->tree, err);
    if (rc < 0) {
        end(alerts);
        return rc;
    }
    if (restore(alerts, &why) < 0)
        log_write(config->log, LOG_LEVEL_ERROR, "alerts: what is on its way cannot be read: %s", why.text);
    *ret = alerts;
    return 0;
}

/* A group that told something before the restart goes on waiting. */
static void resume_groups(Item *item)
{
    for (size_t i = 0; i < item->tells.len; i++) {
        const Tell *tell = item->tells.at[i];
        const Alerts *alerts = tell->receiver->alerts;
        uint64_t now_ns = alert_now(alerts), real_ns = alert_real(alerts), age;

        if (!tell->group || !tell->told.real_ns)
            continue;
        age = tell->told.real_ns < real_ns ? real_ns - tell->told.real_ns : 0;
        tell->group->last_sent_ns = number_max_u64(tell->group->last_sent_ns, age < now_ns ? now_ns - age : 1);
    }
}

/* It ended after it was kept as open. Who was told of the beginning may have been told of the end too, by a process
 * that was killed before it could keep that. */
static void doubt(const Item *item)
{
    for (size_t i = 0; i < item->tells.len; i++)
        if (item->tells.at[i]->told.state == TOLD_OPEN)
            item->tells.at[i]->told.unsure = true;
}

/* What was open when it was kept and is no longer: its end fell into our absence. */
static void end_restored(Alerts *alerts, Item *item)
{
    Incident *incident = &item->incident;

    if (incident->state == INCIDENT_OPEN) {
        doubt(item);
        incident->state = INCIDENT_CLEARED;
        incident->revision++;
        incident->cleared_real_ns = incident->updated_real_ns = alert_real(alerts);
    }
    item->restored = false;
    alert_route(alerts, item);
    resume_groups(item);
}

static Item *take(Alerts *alerts, const Incident *incident)
{
    Item *item = map_get(&alerts->items, incident->id);

    if (!item)
        return incident->state == INCIDENT_OPEN ? add_item(alerts, incident) : NULL;
    if (incident->revision < item->incident.revision)
        return NULL;
    item->incident = *incident;
    item->restored = false;
    return item;
}

void alerts_resume(Alerts *alerts, const Incident *open, size_t count)
{
    const MapEntry *entry;
    size_t cursor = 0;

    for (size_t i = 0; i < count; i++) {
        Item *item = map_get(&alerts->items, open[i].id);

        if (item && open[i].reopened > item->incident.reopened)
            doubt(item);
        item = open[i].state == INCIDENT_OPEN ? take(alerts, &open[i]) : NULL;
        if (!item)
            continue;
        alert_route(alerts, item);
        resume_groups(item);
    }
    while ((entry = map_next(&alerts->items, &cursor)))
        if (((Item *)entry->value)->restored)
            end_restored(alerts, entry->value);
    alerts->resumed = true;
    alert_kick(alerts);
}

void alerts_tell(Alerts *alerts, const Incident *incident, IncidentChange what UNUSED)
{
    Item *item;

    if (alerts->closing || incident->state == INCIDENT_PENDING)
        return;
    item = take(alerts, incident); /* what is to be told follows from the states before and after */
    if (!item)
        return;
    alert_route(alerts, item);
    if (alerts->resumed)
        item_sweep(alerts, item);
    alert_kick(alerts);
}

static void on_grace(uv_timer_t *timer)
{
    end(timer->data);
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
        end(alerts);
        return;
    }
    uv_update_time(alerts->loop);
    uv_timer_start(&alerts->grace, on_grace, grace_ms, 0);
    alert_kick(alerts);
}

static uint64_t count_queued(const Receiver *receiver)
{
    uint64_t queued = 0;

    for (size_t i = 0; i < receiver->tells.len; i++) {
        const Tell *tell = receiver->tells.at[i];

        if (receiver->kind == RECEIVER_ALERTMANAGER)
            queued += alertmanager_waits(tell);
        else
            queued += tell->change != TELL_NONE;
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
