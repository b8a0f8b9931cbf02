/* SPDX-License-Identifier: Apache-2.0 */
/* Alertmanagers, as Prometheus feeds them: an open alert is sent again each `resend` with an end four times as far
 * ahead, so that it ends by itself when we do; a cleared one is sent for a quarter of an hour. Each URL is served on
 * its own: one that is down delays no other. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/number.h"
#include "base/cleanup.h"
#include "service/alert/delivery.h"

enum { ENDS_AFTER_RESENDS = 4, EVIDENCE_MAX = 1500, URL_MAX = 1024 };

/* What the Alertmanager should hold of this alert; HEARD_NOTHING: it is not sent. */
static HeardState find_target(const Delivery *delivery)
{
    const Incident *incident = &delivery->item->incident;

    if (delivery->item->restored)
        return HEARD_NOTHING;
    if (incident->state == INCIDENT_OPEN && delivery->route)
        /* One that it has goes on in silence too: to stop would let it delivery people that all is well. */
        return incident->silenced && delivery->heard.state != HEARD_OPEN ? HEARD_NOTHING : HEARD_OPEN;
    return delivery->heard.state == HEARD_NOTHING ? HEARD_NOTHING : HEARD_CLEARED;
}

static uint64_t make_stamp(const Delivery *delivery, HeardState state)
{
    return map_hash(delivery->labels, strlen(delivery->labels), state) | 1;
}

/* Two incidents may have the same labels; then the end of one must not end the other. */
static bool is_open_elsewhere(const Receiver *receiver, const char *labels)
{
    for (size_t i = 0; i < receiver->deliveries.len; i++)
        if (find_target(receiver->deliveries.at[i]) == HEARD_OPEN &&
            !strcmp(receiver->deliveries.at[i]->labels, labels))
            return true;
    return false;
}

/* Whether a URL needs an alert now; otherwise when, in *next. */
static bool is_due(const Posted *posted, uint64_t stamp, uint64_t resend_ns, uint64_t now_ns, uint64_t *next)
{
    const uint64_t due = posted->stamp == stamp ? posted->sent_ns + resend_ns : now_ns;

    if (due > now_ns)
        *next = number_min_u64(*next, due);
    return due <= now_ns;
}

static void add_annotation(Str *out, const char *name, const char *value)
{
    if (*value)
        json_add_text(out, name, value);
}

static void add_annotations(const Delivery *delivery, Str *out)
{
    const Incident *incident = &delivery->item->incident;
    CLEANUP(str_done) Str evidence = {0};
    char affected[1024], text[2048];

    str_init(&evidence, EVIDENCE_MAX);
    delivery_write_evidence(incident, EVIDENCE_MAX, &evidence);
    json_open(out, "annotations", '{');
    add_annotation(out, "summary", incident->title);
    delivery_write_affected(incident, affected, sizeof(affected));
    snprintf(text, sizeof(text), "%s%s%s%s", incident->verdict, affected[0] ? " Affected: " : "", affected,
             affected[0] ? "." : "");
    add_annotation(out, "description", text);
    add_annotation(out, "action", incident_action(incident));
    delivery_write_runbook(delivery, text, sizeof(text));
    add_annotation(out, "runbook_url", text);
    add_annotation(out, "incident", incident->id);
    snprintf(text, sizeof(text), "%llu", (unsigned long long)incident->count);
    add_annotation(out, "count", text);
    add_annotation(out, "job", incident->job);
    add_annotation(out, "affected", affected);
    add_annotation(out, "maintenance", incident->silenced ? incident->window : "");
    add_annotation(out, "evidence", evidence.text);
    str_addc(out, '}');
}

static void add_alert(const Delivery *delivery, HeardState state, Str *out)
{
    const Alerts *alerts = delivery->receiver->alerts;
    const Incident *incident = &delivery->item->incident;
    uint64_t now = alerts_real(alerts), begin = incident->opened_real_ns ? incident->opened_real_ns : now, end;
    char url[URL_MAX];

    end = state == HEARD_OPEN                ? now + ENDS_AFTER_RESENDS * delivery->receiver->config->resend_ns
          : incident->state == INCIDENT_OPEN ? now /* no route leads here any more */
                                             : incident->cleared_real_ns;
    json_open(out, NULL, '{');
    json_add_key(out, "labels");
    str_add(out, delivery->labels);
    add_annotations(delivery, out);
    json_add_time(out, "startsAt", begin);
    json_add_time(out, "endsAt", number_max_u64(begin, end));
    delivery_write_link(alerts, incident, url, sizeof(url));
    json_add_text(out, "generatorURL", url);
    json_close(out, '}');
}

static void note_posting(Endpoint *endpoint, Posted *posted, uint64_t stamp, HeardState state)
{
    posted->posting = stamp;
    posted->posting_state = state;
    endpoint->posting++;
}

static void add_deliveries(Endpoint *endpoint, uint64_t now_ns, uint64_t *next, Str *out)
{
    const Receiver *receiver = endpoint->receiver;

    for (size_t i = 0; i < receiver->deliveries.len; i++) {
        Delivery *delivery = receiver->deliveries.at[i];
        Posted *posted = &delivery->posted[endpoint->index];
        const HeardState state = find_target(delivery);
        const uint64_t stamp = make_stamp(delivery, state);

        if (state == HEARD_NOTHING ||
            (state == HEARD_CLEARED && posted->stamp == stamp && now_ns - delivery->ended_ns >= ALERT_RESOLVED_NS))
            continue;
        if (!is_due(posted, stamp, receiver->config->resend_ns, now_ns, next))
            continue;
        if (endpoint->posting == ALERT_BATCH_MAX)
            return;
        if (state == HEARD_OPEN || !is_open_elsewhere(receiver, delivery->labels))
            add_alert(delivery, state, out);
        note_posting(endpoint, posted, stamp, state);
    }
}

static void add_ghosts(Endpoint *endpoint, uint64_t now_ns, uint64_t *next, Str *out)
{
    const Receiver *receiver = endpoint->receiver;

    for (size_t i = 0; i < receiver->ghosts.len; i++) {
        Ghost *ghost = &receiver->ghosts.at[i];
        Posted *posted = &ghost->posted[endpoint->index];

        if (!is_due(posted, HEARD_CLEARED, receiver->config->resend_ns, now_ns, next))
            continue;
        if (endpoint->posting == ALERT_BATCH_MAX)
            return;
        if (!is_open_elsewhere(receiver, ghost->labels)) {
            json_open(out, NULL, '{');
            json_add_key(out, "labels");
            str_add(out, ghost->labels);
            json_add_time(out, "startsAt", ghost->opened_real_ns);
            json_add_time(out, "endsAt", number_max_u64(ghost->opened_real_ns, ghost->ended_real_ns));
            json_close(out, '}');
        }
        note_posting(endpoint, posted, HEARD_CLEARED, HEARD_CLEARED);
    }
}

/* Notes the end of a POST; true if the alert was in it and is there now. */
static bool take_posting(Posted *posted, bool sent, uint64_t now_ns)
{
    const uint64_t stamp = posted->posting;

    posted->posting = 0;
    if (!stamp || !sent)
        return false;
    posted->stamp = stamp;
    posted->sent_ns = now_ns;
    return true;
}

/* Nothing is under way to this URL any more. */
static void end_post(Endpoint *endpoint, bool sent, uint64_t now_ns)
{
    Receiver *receiver = endpoint->receiver;

    endpoint->call = NULL;
    endpoint->posting = 0;
    for (size_t i = 0; i < receiver->ghosts.len; i++)
        (void)take_posting(&receiver->ghosts.at[i].posted[endpoint->index], sent, now_ns);
    for (size_t i = 0; i < receiver->deliveries.len; i++) {
        Delivery *delivery = receiver->deliveries.at[i];
        const HeardState state = delivery->posted[endpoint->index].posting_state;

        if (!take_posting(&delivery->posted[endpoint->index], sent, now_ns) || delivery->heard.state == state)
            continue;
        delivery->heard = (Heard){
            .state = state, .revision = delivery->item->incident.revision, .real_ns = alerts_real(receiver->alerts)};
        delivery_save(delivery);
    }
}

static void finish_post(Endpoint *endpoint, Outcome outcome, uint64_t retry_after_ms, const char *why)
{
    Receiver *receiver = endpoint->receiver;
    const uint64_t now_ns = alerts_now(receiver->alerts);

    receiver_note_outcome(receiver, outcome, endpoint->posting, why);
    endpoint->tries = outcome == OUTCOME_FAILED ? endpoint->tries + 1 : 0;
    endpoint->retry_ns = outcome == OUTCOME_FAILED
                             ? now_ns + alert_backoff_ns(endpoint->tries, ALERT_ENDPOINT_BACKOFF_MAX_NS, retry_after_ms)
                             : 0;
    /* What was refused is sent again with the next round, not at once. */
    end_post(endpoint, outcome != OUTCOME_FAILED, now_ns);
}

static void on_answer(void *self, const FetchAnswer *answer)
{
    Endpoint *endpoint = self;
    Receiver *receiver = endpoint->receiver;
    char why[ALERT_WHY_CAP], where[ALERT_WHY_CAP];
    Outcome outcome = receiver_read_answer(receiver, answer, why);

    snprintf(where, sizeof(where), "%.60s: %.90s", receiver->config->urls.items[endpoint->index], why);
    finish_post(endpoint, outcome, answer->retry_after_ms, where);
    alerts_wake(receiver->alerts);
}

static void start_post(Endpoint *endpoint, const Str *body)
{
    Receiver *receiver = endpoint->receiver;
    const char *headers[ALERT_HEADERS_MAX + 8], *base = receiver->config->urls.items[endpoint->index];
    size_t len = strlen(base);
    char url[URL_MAX];
    FetchRequest request;
    Err err = {0};

    while (len && base[len - 1] == '/')
        len--;
    snprintf(url, sizeof(url), "%.*s/api/v2/alerts", (int)len, base);
    receiver_make_request(receiver, url, headers, &request);
    request.body = body->text;
    request.body_len = body->len;
    if (fetch_send(receiver->alerts->fetch, &request, on_answer, endpoint, &endpoint->call, &err) < 0)
        finish_post(endpoint, OUTCOME_FAILED, 0, err.text);
}

static uint64_t send_endpoint(Endpoint *endpoint, uint64_t now_ns)
{
    uint64_t next = ALERT_NEVER;
    CLEANUP(str_done) Str body = {0};

    if (endpoint->call)
        return ALERT_NEVER;
    if (endpoint->retry_ns > now_ns)
        return endpoint->retry_ns;
    str_init(&body, ALERT_BODY_MAX);
    str_addc(&body, '[');
    add_deliveries(endpoint, now_ns, &next, &body);
    add_ghosts(endpoint, now_ns, &next, &body);
    str_addc(&body, ']');
    if (!endpoint->posting)
        return next;
    if (body.len == 2) { /* all are ends of alerts that another incident keeps open */
        finish_post(endpoint, OUTCOME_DELIVERED, 0, "");
        return now_ns;
    }
    start_post(endpoint, &body);
    return endpoint->call ? ALERT_NEVER : endpoint->retry_ns;
}

static void drop_old_ghosts(Receiver *receiver, uint64_t now_ns)
{
    for (size_t i = 0; i < receiver->ghosts.len;) {
        if (now_ns - receiver->ghosts.at[i].ended_ns < ALERT_RESOLVED_NS) {
            i++;
            continue;
        }
        free(receiver->ghosts.at[i].labels);
        vec_remove(&receiver->ghosts, i);
    }
}

uint64_t alertmanager_send_due(Receiver *receiver, uint64_t now_ns)
{
    uint64_t next = ALERT_NEVER;

    drop_old_ghosts(receiver, now_ns);
    for (size_t i = 0; i < receiver->config->urls.len; i++)
        next = number_min_u64(next, send_endpoint(&receiver->endpoints[i], now_ns));
    /* Cleared ones are dropped in time. */
    for (size_t i = 0; i < receiver->deliveries.len; i++)
        if (receiver->deliveries.at[i]->ended_ns)
            next = number_min_u64(next,
                                  number_max_u64(receiver->deliveries.at[i]->ended_ns + ALERT_RESOLVED_NS, now_ns + 1));
    return next;
}

void alertmanager_cancel(Receiver *receiver)
{
    for (size_t i = 0; i < ALERT_URLS_MAX; i++) {
        fetch_cancel(receiver->endpoints[i].call);
        end_post(&receiver->endpoints[i], false, 0);
    }
}

void alertmanager_end_old_labels(Delivery *delivery)
{
    Receiver *receiver = delivery->receiver;
    const Alerts *alerts = receiver->alerts;
    const Incident *incident = &delivery->item->incident;

    if (receiver->ghosts.len == ALERT_GHOSTS_MAX) { /* that one ends by itself in a few minutes */
        free(receiver->ghosts.at[0].labels);
        vec_remove(&receiver->ghosts, 0);
    }
    vec_push(&receiver->ghosts, ((Ghost){.labels = xstrdup(delivery->labels),
                                         .opened_real_ns = incident->opened_real_ns,
                                         .ended_real_ns = alerts_real(alerts),
                                         .ended_ns = alerts_now(alerts)}));
}

bool alertmanager_is_waiting(const Delivery *delivery)
{
    HeardState state = find_target(delivery);

    for (size_t e = 0; e < delivery->receiver->config->urls.len && state != HEARD_NOTHING; e++)
        if (delivery->posted[e].stamp != make_stamp(delivery, state))
            return true;
    return false;
}
