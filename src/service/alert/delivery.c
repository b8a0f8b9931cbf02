/* SPDX-License-Identifier: Apache-2.0 */
/* One incident at one receiver: what is to be sent follows from what was heard and how things are. */
#include "service/alert/delivery.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/number.h"
#include "base/cleanup.h"
#include "service/incident/incident.h"
#include "service/runbook/runbook.h"

CLEANUP_POINTER(json_t, json_decref);

enum { KEPT_VERSION = 1, KEPT_BYTES_MAX = 1 << 20 };

const char *const delivery_change_keys[] = {
    "", "opened", "escalated", "cleared", "reopened", "opened-and-cleared", "repeated"};
static const WordRow heard_states[HEARD_END] = {{"nothing", NULL}, {"open", NULL}, {"cleared", NULL}};

/* --- texts -------------------------------------------------------------------------------------------------------- */

void delivery_write_evidence(const Incident *incident, size_t max, Str *out)
{
    size_t begin = out->len;

    for (uint32_t i = 0; i < incident->first_len + incident->last_len; i++) {
        const IncidentEvidence *evidence =
            i < incident->first_len ? &incident->first[i] : &incident->last[i - incident->first_len];
        char at[CLOCK_TEXT_MAX];

        if (out->len - begin + strlen(evidence->text) + CLOCK_TEXT_MAX > max)
            break;
        clock_format(at, evidence->real_ns);
        str_addf(out, "%s%s %s", i ? "\n" : "", at, evidence->text);
    }
}

void delivery_write_affected(const Incident *incident, char *out, size_t size)
{
    Str text;

    str_init_room(&text, out, size);
    incident_affected(incident, &text);
}

void delivery_write_link(const Alerts *alerts, const Incident *incident, char *out, size_t size)
{
    const char *url = alerts_url(alerts);
    size_t len = strlen(url);

    snprintf(out, size, "%s%s#/incidents/%s", url, len && url[len - 1] == '/' ? "" : "/", incident->id);
}

void delivery_write_runbook(const Delivery *delivery, char *out, size_t size)
{
    static const char mark[] = "{class}";
    const Incident *incident = &delivery->item->incident;
    const char *from = delivery->route && delivery->route->runbook ? delivery->route->runbook : incident->runbook;
    const char *at = strstr(from, mark);

    if (at)
        snprintf(out, size, "%.*s%s%s", (int)(at - from), from, incident->class, at + strlen(mark));
    else if (*from)
        snprintf(out, size, "%s", from);
    else
        runbook_url(alerts_url(delivery->receiver->alerts), incident->class, out, size);
}

/* The key of the state and not of a revision: the same news have the same key, even from a process that was killed in
 * between and counts revisions differently. */
static void set_key(Delivery *delivery)
{
    const Incident *incident = &delivery->item->incident;
    Sending *sending = &delivery->sending;
    Str key;

    str_init_room(&key, sending->key, sizeof sending->key);
    str_addf(&key, "%s-%u.", incident->id, incident->reopened);
    if (incident->state != INCIDENT_OPEN)
        str_add(&key, "end");
    else
        str_addf(&key, "%u", incident->escalations);
    if (sending->change == DELIVERY_REPEATED)
        str_addf(&key, "-r%llu", (unsigned long long)(delivery->heard.real_ns / NS_PER_S));
}

static void add_text(Str *out, const char *name, const char *value)
{
    json_add_text(out, name, *value ? value : NULL);
}

/* The notification as JSON, for webhooks and commands. */
static void set_body(Delivery *delivery)
{
    const Receiver *receiver = delivery->receiver;
    Str *out = &delivery->sending.body;
    char url[512];

    json_open(out, NULL, '{');
    json_add_i64(out, "version", ALERT_PAYLOAD_VERSION);
    add_text(out, "receiver", receiver->name);
    add_text(out, "key", delivery->sending.key);
    add_text(out, "hostname", receiver->alerts->hostname);
    add_text(out, "change", delivery_change_keys[delivery->sending.change]);
    delivery_write_link(receiver->alerts, &delivery->item->incident, url, sizeof url);
    add_text(out, "url", url);
    delivery_write_runbook(delivery, url, sizeof url);
    add_text(out, "runbook_url", url);
    json_add_key(out, "labels");
    str_add(out, delivery->labels);
    json_add_key(out, "incident");
    incident_json(&delivery->item->incident, out);
    json_close(out, '}');
}

/* --- the outbox --------------------------------------------------------------------------------------------------- */

static void write_kept(const Delivery *delivery, Str *out)
{
    const Alerts *alerts = delivery->receiver->alerts;
    const Heard *heard = &delivery->heard;
    uint64_t age = alerts_now(alerts) - delivery->since_ns;

    json_open(out, NULL, '{');
    json_add_i64(out, "v", KEPT_VERSION);
    json_add_text(out, "told", heard_states[heard->state].key);
    json_add_bool(out, "unsure", heard->unsure);
    json_add_u64(out, "told_revision", heard->revision);
    json_add_u64(out, "told_escalations", heard->escalations);
    json_add_u64(out, "told_at", heard->real_ns);
    json_add_u64(out, "since", alerts_real(alerts) - (delivery->since_ns ? age : 0));
    json_add_key(out, "labels");
    str_add(out, delivery->labels);
    json_add_key(out, "incident");
    incident_json(&delivery->item->incident, out);
    json_close(out, '}');
}

void delivery_save(Delivery *delivery)
{
    Alerts *alerts = delivery->receiver->alerts;
    bool keep = delivery->heard.state == HEARD_OPEN || delivery->heard.unsure || delivery->change != DELIVERY_NONE;
    const char *id = delivery->item->incident.id;

    if (keep) {
        CLEANUP(str_done) Str text = {0};

        str_init(&text, ALERT_BODY_MAX);
        write_kept(delivery, &text);
        journal_put_outbox(alerts->config.journal, delivery->receiver->name, id, text.text, text.len);
    } else if (delivery->saved) {
        journal_put_outbox(alerts->config.journal, delivery->receiver->name, id, "", 0);
    }
    delivery->saved = keep;
}

static uint64_t number_at(json_t *from, const char *key)
{
    json_int_t value = json_integer_value(json_object_get(from, key));

    return value > 0 ? (uint64_t)value : 0;
}

static bool read_incident(const json_t *from, Incident *ret)
{
    IncidentList list = {0};
    const bool fine = incidents_read_json(from, &list, NULL, NULL) == 0 && list.len == 1;

    if (fine)
        *ret = list.at[0];
    vec_done(&list);
    return fine;
}

int delivery_read_kept(const char *text, Delivery *ret, Incident *ret_incident)
{
    const uint64_t now_ns = alerts_now(ret->receiver->alerts), real_ns = alerts_real(ret->receiver->alerts);
    const size_t len = strlen(text);
    CLEANUP(json_decref_at) json_t *kept = len <= KEPT_BYTES_MAX ? json_loadb(text, len, 0, NULL) : NULL;
    uint64_t since_real_ns, age;

    if (!json_is_object(kept) || number_at(kept, "v") != KEPT_VERSION)
        return -EINVAL;
    const int state = word_find(heard_states, HEARD_END, json_string_value(json_object_get(kept, "told")));
    if (state < 0 || !json_is_object(json_object_get(kept, "labels")) ||
        !read_incident(json_object_get(kept, "incident"), ret_incident))
        return -EINVAL;
    ret->heard = (Heard){.state = (HeardState)state,
                         .unsure = json_is_true(json_object_get(kept, "unsure")),
                         .revision = number_at(kept, "told_revision"),
                         .escalations = (uint32_t)number_at(kept, "told_escalations"),
                         .real_ns = number_at(kept, "told_at")};
    since_real_ns = number_at(kept, "since");
    age = since_real_ns < real_ns ? real_ns - since_real_ns : 0;
    ret->since_ns = age < now_ns ? now_ns - age : 1;
    ret->labels = json_dumps(json_object_get(kept, "labels"), JSON_COMPACT | JSON_SORT_KEYS);
    return ret->labels ? 0 : -EINVAL;
}

/* --- what is to be sent ------------------------------------------------------------------------------------------- */

/* `allowed`: a route leads here and no maintenance window covers it. */
static DeliveryChange find_change(const Delivery *delivery, bool allowed)
{
    const Incident *incident = &delivery->item->incident;
    const Heard *heard = &delivery->heard;
    bool open = incident->state == INCIDENT_OPEN;

    switch (heard->state) {
    case HEARD_NOTHING:
        if (open)
            return !allowed ? DELIVERY_NONE : incident->reopened ? DELIVERY_REOPENED : DELIVERY_OPENED;
        return heard->unsure || (allowed && delivery->change != DELIVERY_NONE) ? DELIVERY_MISSED : DELIVERY_NONE;
    case HEARD_OPEN:
        if (!open)
            return DELIVERY_CLEARED; /* who heard of the beginning hears of the end, silenced or not */
        if (allowed && heard->unsure)
            return DELIVERY_REOPENED;
        return allowed && incident->escalations > heard->escalations ? DELIVERY_ESCALATED : DELIVERY_NONE;
    case HEARD_CLEARED:
        if (open)
            return allowed ? DELIVERY_REOPENED : DELIVERY_NONE;
        return heard->unsure ? DELIVERY_MISSED : DELIVERY_NONE;
    case HEARD_END:
        break;
    }
    return DELIVERY_NONE;
}

/* An Alertmanager gets the state again and again: only note when it is over. */
static void update_end(Delivery *delivery)
{
    bool over = delivery->item->incident.state == INCIDENT_CLEARED || !delivery->route;

    if (!over)
        delivery->ended_ns = 0;
    else if (!delivery->ended_ns)
        delivery->ended_ns = number_max_u64(1, alerts_now(delivery->receiver->alerts));
}

static void set_change(Delivery *delivery)
{
    const DeliveryChange before = delivery->change;

    delivery->change = find_change(delivery, delivery->route && !delivery->item->incident.silenced);
    if (before == DELIVERY_NONE && delivery->change != DELIVERY_NONE)
        delivery->since_ns = number_max_u64(1, alerts_now(delivery->receiver->alerts));
}

void delivery_update(Delivery *delivery)
{
    const DeliveryChange before = delivery->change;

    if (delivery->receiver->kind == RECEIVER_ALERTMANAGER) {
        update_end(delivery);
        return;
    }
    set_change(delivery);
    if (before != DELIVERY_NONE || delivery->change != DELIVERY_NONE)
        delivery_save(delivery);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

Delivery *delivery_new(AlertItem *item, Receiver *receiver)
{
    Delivery *delivery = xcalloc(1, sizeof *delivery);

    delivery->item = item;
    delivery->receiver = receiver;
    delivery->labels = xstrdup("{}");
    vec_push(&item->deliveries, delivery);
    vec_push(&receiver->deliveries, delivery);
    return delivery;
}

void delivery_restore(Delivery *delivery, Delivery *kept)
{
    delivery->heard = kept->heard;
    delivery->since_ns = kept->since_ns;
    free(delivery->labels);
    delivery->labels = TAKE(kept->labels);
    delivery->saved = true;
    if (delivery->receiver->kind == RECEIVER_ALERTMANAGER)
        return;
    delivery->change = DELIVERY_OPENED; /* otherwise it would not have been kept */
    delivery->change = find_change(delivery, true);
}

static void end_sending(Delivery *delivery)
{
    str_done(&delivery->sending.body);
    delivery->sending = (Sending){0};
    delivery->receiver->in_flight--;
}

static void cancel_sending(Delivery *delivery)
{
    if (!delivery->sending.active)
        return;
    delivery->receiver->ops->cancel(delivery);
    end_sending(delivery);
}

void delivery_cancel_all(Receiver *receiver)
{
    for (size_t i = 0; i < receiver->deliveries.len; i++)
        cancel_sending(receiver->deliveries.at[i]);
}

void delivery_free(Delivery *delivery, bool forget)
{
    Receiver *receiver = delivery->receiver;

    cancel_sending(delivery);
    for (size_t i = 0; i < receiver->deliveries.len; i++) {
        if (receiver->deliveries.at[i] == delivery) {
            vec_remove(&receiver->deliveries, i);
            break;
        }
    }
    if (forget && delivery->saved)
        journal_put_outbox(receiver->alerts->config.journal, receiver->name, delivery->item->incident.id, "", 0);
    free(delivery->labels);
    free(delivery);
}

static bool is_under_way(const Delivery *delivery)
{
    for (size_t e = 0; e < ALERT_URLS_MAX; e++)
        if (delivery->posted[e].posting)
            return true;
    return delivery->sending.active;
}

bool delivery_is_over(const Delivery *delivery)
{
    bool open = delivery->item->incident.state == INCIDENT_OPEN;

    if (is_under_way(delivery) || delivery->item->restored)
        return false;
    if (open && (delivery->route || delivery->heard.state == HEARD_OPEN || delivery->heard.unsure))
        return false;
    if (delivery->receiver->kind != RECEIVER_ALERTMANAGER)
        return delivery->change == DELIVERY_NONE;
    return delivery->heard.state == HEARD_NOTHING ||
           alerts_now(delivery->receiver->alerts) - delivery->ended_ns >= ALERT_RESOLVED_NS;
}

/* --- sending ------------------------------------------------------------------------------------------------------ */

/* Drops news of a cleared incident that could not be sent for as long as configured. */
static void drop_stale(Delivery *delivery)
{
    const Receiver *receiver = delivery->receiver;
    uint64_t cleared = delivery->item->incident.cleared_real_ns, now = alerts_real(receiver->alerts);

    if (delivery->change == DELIVERY_NONE || delivery->item->incident.state != INCIDENT_CLEARED || !cleared ||
        now < cleared || now - cleared < receiver->config->keep_ns)
        return;
    receiver_note_dropped(delivery->receiver, 1, "it has been over for too long (keep)");
    delivery->heard.state = HEARD_CLEARED;
    delivery->heard.unsure = false;
    delivery->change = DELIVERY_NONE;
    delivery_save(delivery);
}

static bool is_repeated(const Delivery *delivery)
{
    return delivery->receiver->kind != RECEIVER_JOURNALD && delivery->heard.state == HEARD_OPEN && delivery->route &&
           delivery->route->repeat_ns && delivery->item->incident.state == INCIDENT_OPEN &&
           !delivery->item->incident.silenced && delivery->item->incident.severity > SEVERITY_INFO;
}

static uint64_t find_due_ns(const Delivery *delivery)
{
    if (delivery->sending.active || delivery->item->restored)
        return ALERT_NEVER;
    if (delivery->change != DELIVERY_NONE)
        return number_max_u64(delivery->since_ns, delivery->retry_ns);
    return is_repeated(delivery)
               ? number_max_u64(delivery->last_sent_ns + delivery->route->repeat_ns, delivery->retry_ns)
               : ALERT_NEVER;
}

/* Of those that are due a page, then the one that waits longest. *ret_next: when the first of the others is due. */
static Delivery *choose_due(const Receiver *receiver, uint64_t now_ns, uint64_t *ret_next)
{
    Delivery *best = NULL;

    *ret_next = ALERT_NEVER;
    for (size_t i = 0; i < receiver->deliveries.len; i++) {
        Delivery *delivery = receiver->deliveries.at[i];
        uint64_t due = find_due_ns(delivery);
        bool page = delivery->item->incident.route == ROUTE_PAGE;
        bool best_page = best && best->item->incident.route == ROUTE_PAGE;

        if (due > now_ns)
            *ret_next = number_min_u64(*ret_next, due);
        else if (!best || (page && !best_page) || (page == best_page && due < find_due_ns(best)))
            best = delivery;
    }
    return best;
}

/* What is sent now may or may not be heard until the answer is there: that is kept first. */
static void note_try(Delivery *delivery, HeardState state)
{
    if (delivery->heard.unsure || (state == HEARD_OPEN) == (delivery->heard.state == HEARD_OPEN))
        return;
    delivery->heard.unsure = true;
    delivery_save(delivery);
}

/* Key and body of what is sent now. */
static void prepare_sending(Delivery *delivery)
{
    const Incident *incident = &delivery->item->incident;
    const HeardState state = incident->state == INCIDENT_OPEN ? HEARD_OPEN : HEARD_CLEARED;

    delivery->sending = (Sending){.active = true,
                                  .change = delivery->change != DELIVERY_NONE ? delivery->change : DELIVERY_REPEATED,
                                  .heard = {.state = state,
                                            .revision = incident->revision,
                                            .escalations = incident->escalations,
                                            .real_ns = alerts_real(delivery->receiver->alerts)}};
    delivery->receiver->in_flight++;
    note_try(delivery, state);
    str_init(&delivery->sending.body, ALERT_BODY_MAX);
    set_key(delivery);
    if (delivery->receiver->kind != RECEIVER_JOURNALD)
        set_body(delivery);
}

Delivery *delivery_begin_due(Receiver *receiver, uint64_t now_ns, uint64_t *ret_next)
{
    Delivery *delivery;

    for (size_t i = 0; i < receiver->deliveries.len; i++)
        if (!receiver->deliveries.at[i]->sending.active && !receiver->deliveries.at[i]->item->restored)
            drop_stale(receiver->deliveries.at[i]);
    *ret_next = ALERT_NEVER;
    if (receiver->in_flight == ALERT_IN_FLIGHT_MAX) /* the end of one of them wakes us */
        return NULL;
    delivery = choose_due(receiver, now_ns, ret_next);
    if (delivery)
        prepare_sending(delivery);
    return delivery;
}

static void note_outcome(Delivery *delivery, Outcome outcome, uint64_t retry_after_ms)
{
    uint64_t now_ns = alerts_now(delivery->receiver->alerts);

    if (outcome == OUTCOME_FAILED) {
        delivery->retry_ns = now_ns + alert_backoff_ns(++delivery->tries, ALERT_BACKOFF_MAX_NS, retry_after_ms);
        return;
    }
    delivery->last_sent_ns = number_max_u64(1, now_ns);
    delivery->tries = 0;
    delivery->retry_ns = 0;
}

void delivery_finish(Delivery *delivery, Outcome outcome, uint64_t retry_after_ms, const char *why)
{
    Receiver *receiver = delivery->receiver;
    const Heard heard = delivery->sending.heard;
    const bool recovered = receiver->troubled && outcome == OUTCOME_DELIVERED;

    end_sending(delivery);
    receiver_note_outcome(receiver, outcome, 1, why);
    note_outcome(delivery, outcome, retry_after_ms);
    if (outcome != OUTCOME_FAILED) {
        delivery->heard = heard;
        delivery->change = DELIVERY_NONE;
        set_change(delivery); /* the incident may have changed meanwhile */
        delivery_save(delivery);
    }
    if (recovered)
        receiver_retry_now(receiver);
    alerts_wake(receiver->alerts);
}
