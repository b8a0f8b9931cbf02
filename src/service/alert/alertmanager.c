/* SPDX-License-Identifier: Apache-2.0 */
/* Alertmanagers, told as Prometheus tells them: what is open is sent again each `resend` with an end four times as far
 * ahead, so that it ends by itself when we do; what is over is sent for a quarter of an hour. Each URL is told on its
 * own: one that is down delays no other. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/number.h"
#include "base/owner.h"
#include "service/alert/inside.h"

enum { ENDS_AFTER_RESENDS = 4, EVIDENCE_MAX = 1500, URL_MAX = 1024 };

/* What the Alertmanager should hold of this alert; TOLD_NOTHING: it is not sent. */
static ToldState target(const Tell *tell)
{
    const Incident *incident = &tell->item->incident;

    if (tell->item->restored)
        return TOLD_NOTHING;
    if (incident->state == INCIDENT_OPEN && tell->route)
        /* One that it has goes on in silence too: to stop would let it tell people that all is well. */
        return incident->silenced && tell->told.state != TOLD_OPEN ? TOLD_NOTHING : TOLD_OPEN;
    return tell->told.state == TOLD_NOTHING ? TOLD_NOTHING : TOLD_CLEARED;
}

static uint64_t stamp_of(const Tell *tell, ToldState state)
{
    return map_hash(tell->labels, strlen(tell->labels), state) | 1;
}

/* Two incidents may look the same to it; then one that is over must not end the other. */
static bool another_is_open(const Receiver *receiver, const char *labels)
{
    for (size_t i = 0; i < receiver->tells.len; i++)
        if (target(receiver->tells.at[i]) == TOLD_OPEN && !strcmp(receiver->tells.at[i]->labels, labels))
            return true;
    return false;
}

static uint64_t tell_due(const Tell *tell, size_t e, ToldState state, uint64_t now_ns)
{
    if (state == TOLD_NOTHING)
        return ALERT_NEVER;
    if (tell->stamp[e] != stamp_of(tell, state))
        return now_ns;
    if (state == TOLD_CLEARED && now_ns - tell->ended_ns >= ALERT_RESOLVED_NS)
        return ALERT_NEVER;
    return tell->sent_ns[e] + tell->receiver->config->resend_ns;
}

static void add_instant(Str *out, const char *name, uint64_t real_ns)
{
    char at[CLOCK_TEXT_MAX];

    clock_format(at, real_ns);
    str_addf(out, ",\"%s\":\"%s\"", name, at);
}

static void add_annotation(Str *out, const char *name, const char *value)
{
    if (!*value)
        return;
    if (out->text[out->len - 1] != '{')
        str_addc(out, ',');
    str_add_json(out, name);
    str_addc(out, ':');
    str_add_json(out, value);
}

static void add_annotations(const Tell *tell, Str *out)
{
    const Incident *incident = &tell->item->incident;
    CLEANUP(str_done) Str evidence = {0};
    char text[512];

    str_init(&evidence, EVIDENCE_MAX);
    payload_evidence(incident, EVIDENCE_MAX, &evidence);
    str_add(out, ",\"annotations\":{");
    add_annotation(out, "summary", incident->title);
    add_annotation(out, "description", incident->verdict);
    add_annotation(out, "action", fault_actions[incident->action].text);
    payload_runbook(tell->receiver->alerts, tell->route, incident, text, sizeof(text));
    add_annotation(out, "runbook_url", text);
    add_annotation(out, "incident", incident->id);
    snprintf(text, sizeof(text), "%llu", (unsigned long long)incident->count);
    add_annotation(out, "count", text);
    add_annotation(out, "job", incident->job);
    add_annotation(out, "maintenance", incident->silenced ? incident->window : "");
    add_annotation(out, "evidence", evidence.text);
    str_addc(out, '}');
}

static void add_alert(const Tell *tell, ToldState state, Str *out)
{
    const Alerts *alerts = tell->receiver->alerts;
    const Incident *incident = &tell->item->incident;
    uint64_t now = alert_real(alerts), begin = incident->opened_real_ns ? incident->opened_real_ns : now, end;
    char url[URL_MAX];

    end = state == TOLD_OPEN                 ? now + ENDS_AFTER_RESENDS * tell->receiver->config->resend_ns
          : incident->state == INCIDENT_OPEN ? now /* no route leads here any more */
                                             : incident->cleared_real_ns;
    str_addf(out, "%s{\"labels\":%s", out->len > 1 ? "," : "", tell->labels);
    add_annotations(tell, out);
    add_instant(out, "startsAt", begin);
    add_instant(out, "endsAt", number_max_u64(begin, end));
    payload_link(alerts, incident, url, sizeof(url));
    str_add(out, ",\"generatorURL\":");
    str_add_json(out, url);
    str_addc(out, '}');
}

static void add_tells(Endpoint *endpoint, uint64_t now_ns, uint64_t *next, Str *out)
{
    const Receiver *receiver = endpoint->receiver;

    for (size_t i = 0; i < receiver->tells.len; i++) {
        Tell *tell = receiver->tells.at[i];
        ToldState state = target(tell);
        uint64_t due = tell_due(tell, endpoint->index, state, now_ns);

        if (due > now_ns) {
            *next = number_min_u64(*next, due);
            continue;
        }
        if (endpoint->sent_len == ALERT_MESSAGE_MAX)
            return;
        if (state == TOLD_OPEN || !another_is_open(receiver, tell->labels))
            add_alert(tell, state, out);
        endpoint->sent[endpoint->sent_len++] =
            (struct EndpointSent){.tell = tell, .stamp = stamp_of(tell, state), .state = state};
    }
}

static void add_ghosts(Endpoint *endpoint, uint64_t now_ns, uint64_t *next, Str *out)
{
    const Receiver *receiver = endpoint->receiver;

    for (size_t i = 0; i < receiver->ghosts.len; i++) {
        const Ghost *ghost = &receiver->ghosts.at[i];
        uint64_t due =
            ghost->sent[endpoint->index] ? ghost->sent_ns[endpoint->index] + receiver->config->resend_ns : now_ns;

        if (due > now_ns) {
            *next = number_min_u64(*next, due);
            continue;
        }
        if (endpoint->sent_len == ALERT_MESSAGE_MAX)
            return;
        if (!another_is_open(receiver, ghost->labels)) {
            str_addf(out, "%s{\"labels\":%s", out->len > 1 ? "," : "", ghost->labels);
            add_instant(out, "startsAt", ghost->opened_real_ns);
            add_instant(out, "endsAt", number_max_u64(ghost->opened_real_ns, ghost->ended_real_ns));
            str_addc(out, '}');
        }
        endpoint->sent[endpoint->sent_len++] = (struct EndpointSent){.ghost = ghost->number};
    }
}

static void heard(Endpoint *endpoint, const struct EndpointSent *sent, uint64_t now_ns)
{
    Receiver *receiver = endpoint->receiver;
    Tell *tell = sent->tell;

    for (size_t i = 0; i < receiver->ghosts.len && sent->ghost; i++) {
        if (receiver->ghosts.at[i].number == sent->ghost) {
            receiver->ghosts.at[i].sent[endpoint->index] = true;
            receiver->ghosts.at[i].sent_ns[endpoint->index] = now_ns;
        }
    }
    if (!tell)
        return;
    tell->sent_ns[endpoint->index] = now_ns;
    tell->stamp[endpoint->index] = sent->stamp;
    if (tell->told.state == sent->state)
        return;
    tell->told = (Told){
        .state = sent->state, .revision = tell->item->incident.revision, .real_ns = alert_real(receiver->alerts)};
    tell_save(tell);
}

static void settle(Endpoint *endpoint, Outcome outcome, uint64_t retry_after_ms, const char *why)
{
    Receiver *receiver = endpoint->receiver;
    uint64_t now_ns = alert_now(receiver->alerts);
    size_t count = endpoint->sent_len;

    endpoint->sent_len = 0;
    if (outcome == OUTCOME_FAILED) {
        receiver_trouble(receiver, why);
        endpoint->retry_ns = now_ns + alert_backoff(++endpoint->tries, ALERT_ENDPOINT_BACKOFF_MAX_NS, retry_after_ms);
        return;
    }
    endpoint->tries = 0;
    endpoint->retry_ns = 0;
    if (outcome == OUTCOME_DELIVERED)
        receiver_fine(receiver, 1);
    else
        receiver_rejected(receiver, count, why);
    /* What was refused comes again with the next round, not at once. */
    for (size_t i = 0; i < count; i++)
        heard(endpoint, &endpoint->sent[i], now_ns);
}

static void on_answer(void *self, const FetchAnswer *answer)
{
    Endpoint *endpoint = self;
    Receiver *receiver = endpoint->receiver;
    char why[160], where[160];
    Outcome outcome = receiver_outcome(receiver, answer, why);

    endpoint->call = NULL;
    snprintf(where, sizeof(where), "%.60s: %.90s", receiver->config->urls.items[endpoint->index], why);
    settle(endpoint, outcome, answer->retry_after_ms, where);
    alert_kick(receiver->alerts);
}

static void post(Endpoint *endpoint, const Str *body)
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
    receiver_request(receiver, url, headers, &request);
    request.body = body->text;
    request.body_len = body->len;
    if (fetch_send(receiver->alerts->fetch, &request, on_answer, endpoint, &endpoint->call, &err) < 0) {
        endpoint->call = NULL;
        settle(endpoint, OUTCOME_FAILED, 0, err.text);
    }
}

static uint64_t endpoint_turn(Endpoint *endpoint, uint64_t now_ns)
{
    uint64_t next = ALERT_NEVER;
    CLEANUP(str_done) Str body = {0};

    if (endpoint->call)
        return ALERT_NEVER;
    if (endpoint->retry_ns > now_ns)
        return endpoint->retry_ns;
    str_init(&body, ALERT_BODY_MAX);
    str_addc(&body, '[');
    endpoint->sent_len = 0;
    add_tells(endpoint, now_ns, &next, &body);
    add_ghosts(endpoint, now_ns, &next, &body);
    str_addc(&body, ']');
    if (!endpoint->sent_len)
        return next;
    if (body.len == 2) { /* all of it is said by others that are open */
        settle(endpoint, OUTCOME_DELIVERED, 0, "");
        return now_ns;
    }
    post(endpoint, &body);
    return endpoint->call ? ALERT_NEVER : endpoint->retry_ns;
}

static void forget_ghosts(Receiver *receiver, uint64_t now_ns)
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

uint64_t alertmanager_turn(Receiver *receiver, uint64_t now_ns)
{
    uint64_t next = ALERT_NEVER;

    forget_ghosts(receiver, now_ns);
    for (size_t i = 0; i < receiver->config->urls.len; i++)
        next = number_min_u64(next, endpoint_turn(&receiver->endpoints[i], now_ns));
    /* What is over is forgotten in time. */
    for (size_t i = 0; i < receiver->tells.len; i++)
        if (receiver->tells.at[i]->ended_ns)
            next =
                number_min_u64(next, number_max_u64(receiver->tells.at[i]->ended_ns + ALERT_RESOLVED_NS, now_ns + 1));
    return next;
}

void alertmanager_cancel(Receiver *receiver)
{
    for (size_t i = 0; i < ALERT_URLS_MAX; i++) {
        fetch_cancel(receiver->endpoints[i].call);
        receiver->endpoints[i].call = NULL;
        receiver->endpoints[i].sent_len = 0;
    }
}

void alertmanager_renamed(Tell *tell)
{
    Receiver *receiver = tell->receiver;
    const Alerts *alerts = receiver->alerts;
    const Incident *incident = &tell->item->incident;

    if (receiver->ghosts.len == ALERT_GHOSTS_MAX) { /* it ends by itself in a few minutes */
        free(receiver->ghosts.at[0].labels);
        vec_remove(&receiver->ghosts, 0);
    }
    vec_push(&receiver->ghosts, ((Ghost){.number = ++receiver->ghost_count,
                                         .labels = xstrdup(tell->labels),
                                         .opened_real_ns = incident->opened_real_ns,
                                         .ended_real_ns = alert_real(alerts),
                                         .ended_ns = alert_now(alerts)}));
}

bool alertmanager_waits(const Tell *tell)
{
    ToldState state = target(tell);

    for (size_t e = 0; e < tell->receiver->config->urls.len && state != TOLD_NOTHING; e++)
        if (tell->stamp[e] != stamp_of(tell, state))
            return true;
    return false;
}
