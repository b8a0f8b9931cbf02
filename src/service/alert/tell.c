/* SPDX-License-Identifier: Apache-2.0 */
/* One incident at one receiver: what is to be told follows from what was told and how things are. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/number.h"
#include "base/owner.h"
#include "service/alert/inside.h"

static const char *const change_keys[] = {"",        "opened", "escalated", "cleared", "reopened", "opened-and-cleared",
                                          "repeated"};

const char *tell_change_key(TellChange change)
{
    return change_keys[change];
}

Tell *tell_new(Item *item, Receiver *receiver)
{
    Tell *tell = xcalloc(1, sizeof(*tell));

    tell->item = item;
    tell->receiver = receiver;
    tell->labels = xstrdup("{}");
    tell->group_labels = xstrdup("{}");
    vec_push(&item->tells, tell);
    vec_push(&receiver->tells, tell);
    return tell;
}

static void leave_messages(const Tell *tell)
{
    for (Message *message = tell->receiver->messages; message; message = message->next)
        for (size_t i = 0; i < message->tells.len; i++)
            if (message->tells.at[i].tell == tell)
                message->tells.at[i].tell = NULL;
    for (size_t e = 0; e < ALERT_URLS_MAX; e++) {
        Endpoint *endpoint = &tell->receiver->endpoints[e];

        for (size_t i = 0; i < endpoint->sent_len; i++)
            if (endpoint->sent[i].tell == tell)
                endpoint->sent[i] = (struct EndpointSent){0};
    }
}

void tell_free(Tell *tell, bool forget)
{
    Receiver *receiver = tell->receiver;

    leave_messages(tell);
    for (size_t i = 0; i < receiver->tells.len; i++) {
        if (receiver->tells.at[i] == tell) {
            vec_remove(&receiver->tells, i);
            break;
        }
    }
    if (forget && tell->saved)
        journal_put_outbox(receiver->alerts->config.journal, receiver->name, tell->item->incident.id, "", 0);
    free(tell->labels);
    free(tell->group_labels);
    free(tell);
}

void tell_save(Tell *tell)
{
    Alerts *alerts = tell->receiver->alerts;
    bool keep = tell->told.state == TOLD_OPEN || tell->told.unsure || tell->change != TELL_NONE;
    const char *id = tell->item->incident.id;

    if (keep) {
        CLEANUP(str_done) Str text = {0};

        str_init(&text, ALERT_BODY_MAX);
        kept_write(tell, &text);
        journal_put_outbox(alerts->config.journal, tell->receiver->name, id, text.text, text.len);
    } else if (tell->saved) {
        journal_put_outbox(alerts->config.journal, tell->receiver->name, id, "", 0);
    }
    tell->saved = keep;
}

static TellChange wanted(const Tell *tell, bool may)
{
    const Incident *incident = &tell->item->incident;
    bool open = incident->state == INCIDENT_OPEN;

    switch (tell->told.state) {
    case TOLD_NOTHING:
        if (open)
            return !may ? TELL_NONE : incident->reopened ? TELL_REOPENED : TELL_OPENED;
        return tell->told.unsure || (may && tell->change != TELL_NONE) ? TELL_MISSED : TELL_NONE;
    case TOLD_OPEN:
        if (!open)
            return TELL_CLEARED; /* who was told of the beginning is told of the end, silenced or not */
        if (may && tell->told.unsure)
            return TELL_REOPENED;
        return may && incident->escalations > tell->told.escalations ? TELL_ESCALATED : TELL_NONE;
    case TOLD_CLEARED:
        if (open)
            return may ? TELL_REOPENED : TELL_NONE;
        return tell->told.unsure ? TELL_MISSED : TELL_NONE;
    case TOLD_END:
        break;
    }
    return TELL_NONE;
}

/* An Alertmanager is told of states again and again; here only since when one is over. */
static void settle_state(Tell *tell)
{
    bool over = tell->item->incident.state == INCIDENT_CLEARED || !tell->route;

    if (!over)
        tell->ended_ns = 0;
    else if (!tell->ended_ns)
        tell->ended_ns = number_max_u64(1, alert_now(tell->receiver->alerts));
}

void tell_settle(Tell *tell, bool anew)
{
    TellChange change;

    if (tell->receiver->kind == RECEIVER_ALERTMANAGER) {
        settle_state(tell);
        return;
    }
    change = wanted(tell, tell->route && !tell->item->incident.silenced);
    if (change == tell->change) {
        if (anew && change != TELL_NONE)
            tell_save(tell);
        return;
    }
    if (tell->change == TELL_NONE)
        tell->since_ns = number_max_u64(1, alert_now(tell->receiver->alerts));
    tell->change = change;
    tell_save(tell);
}

void tell_try(Tell *tell, ToldState state)
{
    if (tell->told.unsure || (state == TOLD_OPEN) == (tell->told.state == TOLD_OPEN))
        return;
    tell->told.unsure = true;
    tell_save(tell);
}

void tell_restore(Tell *tell, const Told *told, uint64_t since_ns, char *labels)
{
    tell->told = *told;
    tell->since_ns = since_ns;
    free(tell->labels);
    tell->labels = labels;
    tell->saved = true;
    if (tell->receiver->kind == RECEIVER_ALERTMANAGER)
        return;
    tell->change = TELL_OPENED; /* otherwise it would not have been kept */
    tell->change = wanted(tell, true);
}

static bool is_under_way(const Tell *tell)
{
    for (size_t e = 0; e < ALERT_URLS_MAX; e++)
        for (size_t i = 0; i < tell->receiver->endpoints[e].sent_len; i++)
            if (tell->receiver->endpoints[e].sent[i].tell == tell)
                return true;
    return tell->message != NULL;
}

bool tell_is_over(const Tell *tell)
{
    bool open = tell->item->incident.state == INCIDENT_OPEN;

    if (is_under_way(tell) || tell->item->restored)
        return false;
    if (open && (tell->route || tell->told.state == TOLD_OPEN || tell->told.unsure))
        return false;
    if (tell->receiver->kind != RECEIVER_ALERTMANAGER)
        return tell->change == TELL_NONE;
    return tell->told.state == TOLD_NOTHING || alert_now(tell->receiver->alerts) - tell->ended_ns >= ALERT_RESOLVED_NS;
}

void item_free(Item *item, bool forget)
{
    for (size_t i = 0; i < item->tells.len; i++)
        tell_free(item->tells.at[i], forget);
    vec_done(&item->tells);
    free(item);
}

/* An Alertmanager takes no notice of the end of what it never heard of. */
static void note_unheard(const Tell *tell)
{
    if (tell->receiver->kind != RECEIVER_ALERTMANAGER || !tell->route)
        return;
    if (tell->told.state == TOLD_OPEN)
        receiver_dropped(tell->receiver, 1, "it was over for 15 minutes and the Alertmanager could not be told");
    else if (tell->told.state == TOLD_NOTHING && !tell->item->incident.silenced)
        receiver_dropped(tell->receiver, 1, "it was over before the Alertmanager could be told of it");
}

void item_sweep(Alerts *alerts, Item *item)
{
    for (size_t i = 0; i < item->tells.len;) {
        Tell *tell = item->tells.at[i];

        if (!tell_is_over(tell)) {
            i++;
            continue;
        }
        note_unheard(tell);
        vec_remove(&item->tells, i);
        tell_free(tell, true);
    }
    if (!item->tells.len && item->incident.state == INCIDENT_CLEARED && !item->restored) {
        map_del(&alerts->items, item->incident.id);
        item_free(item, true);
    }
}
