/* SPDX-License-Identifier: Apache-2.0 */
/* Notifications to webhooks, commands and the journal: when a group is due, what goes into one, and what becomes of
 * it. A turn looks at every tell of the receiver once. */
#include <gnutls/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/number.h"
#include "base/owner.h"
#include "service/alert/inside.h"

static const SenderOps *ops_of(const Receiver *receiver)
{
    static const SenderOps *const ops[] = {
        [RECEIVER_WEBHOOK] = &webhook_ops, [RECEIVER_COMMAND] = &command_ops, [RECEIVER_JOURNALD] = &journald_ops};

    return ops[receiver->kind];
}

Group *group_of(Receiver *receiver, const char *key, const char *labels)
{
    Group *group;

    for (size_t i = 0; i < receiver->groups.len; i++)
        if (!strcmp(receiver->groups.at[i]->key, key))
            return receiver->groups.at[i];
    group = xcalloc(1, sizeof(*group));
    group->receiver = receiver;
    group->key = xstrdup(key);
    group->labels = xstrdup(labels);
    vec_push(&receiver->groups, group);
    return group;
}

static bool is_open(const Tell *tell)
{
    return tell->told.state == TOLD_OPEN && tell->item->incident.state == INCIDENT_OPEN && tell->route &&
           !tell->item->incident.silenced;
}

/* Too old to be of use: it is over, and could not be told for as long as the configuration says. */
static void give_up(Tell *tell)
{
    const Receiver *receiver = tell->receiver;
    uint64_t cleared = tell->item->incident.cleared_real_ns, now = alert_real(receiver->alerts);

    if (tell->item->incident.state != INCIDENT_CLEARED || !cleared || now < cleared ||
        now - cleared < receiver->config->keep_ns)
        return;
    receiver_dropped(tell->receiver, 1, "it has been over for too long (keep)");
    tell->told.state = TOLD_CLEARED;
    tell->told.unsure = false;
    tell->change = TELL_NONE;
    tell_save(tell);
}

/* When this tell's news may go out, its group's last notification considered. */
static uint64_t due_of(const Tell *tell, const Group *group)
{
    uint64_t due = tell->since_ns + tell->wait_ns;
    bool at_once = tell->change == TELL_ESCALATED || tell->receiver->kind == RECEIVER_JOURNALD;

    if (group->last_sent_ns && tell->route && !at_once)
        due = number_max_u64(due, group->last_sent_ns + tell->route->group_interval_ns);
    return number_max_u64(due, group->retry_ns);
}

static void reckon_tell(Tell *tell)
{
    Group *group = tell->group;

    group->members++;
    if (tell->message) {
        group->busy = true;
        return;
    }
    if (tell->change != TELL_NONE)
        give_up(tell);
    if (tell->change != TELL_NONE) {
        group->due_ns = number_min_u64(group->due_ns, due_of(tell, group));
        group->page |= tell->item->incident.route == ROUTE_PAGE;
    } else if (is_open(tell) && tell->receiver->kind != RECEIVER_JOURNALD && tell->route->repeat_ns) {
        group->repeat_due_ns = number_min_u64(
            group->repeat_due_ns, number_max_u64(group->last_sent_ns + tell->route->repeat_ns, group->retry_ns));
    }
}

static void reckon(Receiver *receiver)
{
    for (size_t i = 0; i < receiver->groups.len; i++) {
        Group *group = receiver->groups.at[i];

        group->members = 0;
        group->due_ns = group->repeat_due_ns = ALERT_NEVER;
        group->page = group->busy = false;
    }
    for (size_t i = 0; i < receiver->tells.len; i++)
        if (!receiver->tells.at[i]->item->restored)
            reckon_tell(receiver->tells.at[i]);
        else if (receiver->tells.at[i]->group)
            receiver->tells.at[i]->group->members++;
    for (size_t i = 0; i < receiver->groups.len;) {
        Group *group = receiver->groups.at[i];

        if (group->members || group->under_way) {
            i++;
            continue;
        }
        free(group->key);
        free(group->labels);
        free(group);
        vec_remove(&receiver->groups, i);
    }
}

static uint64_t group_due(const Group *group)
{
    return group->busy ? ALERT_NEVER : number_min_u64(group->due_ns, group->repeat_due_ns);
}

/* Of the groups that are due the one with a page, then the one that waits longest. */
static Group *choose(const Receiver *receiver, uint64_t now_ns)
{
    Group *best = NULL;

    for (size_t i = 0; i < receiver->groups.len; i++) {
        Group *group = receiver->groups.at[i];

        if (group_due(group) > now_ns)
            continue;
        if (!best || (group->page && !best->page) || (group->page == best->page && group_due(group) < group_due(best)))
            best = group;
    }
    return best;
}

static void add_tell(Message *message, Tell *tell, TellChange change)
{
    const Incident *incident = &tell->item->incident;
    const ToldState state = incident->state == INCIDENT_OPEN ? TOLD_OPEN : TOLD_CLEARED;

    vec_push(&message->tells, ((MessageTell){.tell = tell,
                                             .change = change,
                                             .told = {.state = state,
                                                      .revision = incident->revision,
                                                      .escalations = incident->escalations,
                                                      .real_ns = alert_real(message->receiver->alerts)}}));
    tell->message = message;
    tell_try(tell, state);
}

/* The changes of a group; where there are none it is a repetition of all that is open. */
static void add_group(Message *message, Group *group, uint64_t now_ns)
{
    Receiver *receiver = message->receiver;
    bool repeat = group->due_ns > now_ns;
    size_t most = receiver->kind == RECEIVER_JOURNALD ? 1 : ALERT_MESSAGE_MAX;

    vec_push(&message->groups, group);
    group->under_way++;
    group->busy = true;
    for (size_t i = 0; i < receiver->tells.len && message->tells.len < most; i++) {
        Tell *tell = receiver->tells.at[i];

        if (tell->group != group || tell->message || tell->item->restored)
            continue;
        if (repeat ? is_open(tell) : tell->change != TELL_NONE)
            add_tell(message, tell, repeat ? TELL_REPEATED : tell->change);
    }
}

static unsigned int weight(const MessageTell *told)
{
    const Incident *incident = &told->tell->item->incident;

    return (incident->state == INCIDENT_OPEN) * 1000U + (unsigned int)incident->route * 100 +
           (unsigned int)incident->severity;
}

/* The worst comes first. */
static void sort_message(Message *message)
{
    size_t worst = 0;
    MessageTell first = message->tells.at[0];

    for (size_t i = 1; i < message->tells.len; i++)
        if (weight(&message->tells.at[i]) > weight(&message->tells.at[worst]))
            worst = i;
    message->tells.at[0] = message->tells.at[worst];
    message->tells.at[worst] = first;
}

/* Of the incident's state and not of a revision, which another process, killed in between, may have seen as another. */
void notify_key(const MessageTell *told, Str *out)
{
    const Tell *tell = told->tell;
    const Incident *incident = &tell->item->incident;

    str_addf(out, "%s-%u.", incident->id, incident->reopened);
    if (incident->state != INCIDENT_OPEN)
        str_add(out, "end");
    else
        str_addf(out, "%u", incident->escalations);
    if (told->change == TELL_REPEATED)
        str_addf(out, "-r%llu", (unsigned long long)(tell->told.real_ns / NS_PER_S));
}

static void set_key(Message *message)
{
    CLEANUP(str_done) Str keys = {0};
    unsigned char hash[32] = {0};
    size_t first_len;

    str_init(&keys, ALERT_MESSAGE_MAX * ALERT_KEY_CAP);
    notify_key(&message->tells.at[0], &keys);
    first_len = keys.len;
    snprintf(message->key, sizeof(message->key), "%s", keys.text);
    if (message->tells.len == 1)
        return;
    for (size_t i = 1; i < message->tells.len; i++) {
        str_addc(&keys, ' ');
        notify_key(&message->tells.at[i], &keys);
    }
    gnutls_hash_fast(GNUTLS_DIG_SHA256, keys.text, keys.len, hash);
    snprintf(message->key, sizeof(message->key), "%.*s+%02x%02x%02x%02x%02x%02x", (int)first_len, keys.text, hash[0],
             hash[1], hash[2], hash[3], hash[4], hash[5]);
}

static void message_free(Message *message)
{
    for (size_t i = 0; i < message->groups.len; i++)
        message->groups.at[i]->under_way--;
    vec_done(&message->tells);
    vec_done(&message->groups);
    str_done(&message->body);
    free(message);
}

static void send_message(Receiver *receiver, Group *group, uint64_t now_ns)
{
    Message *message = xcalloc(1, sizeof(*message));

    message->receiver = receiver;
    str_init(&message->body, ALERT_BODY_MAX);
    add_group(message, group, now_ns);
    /* Those that had to wait for the rate go together. */
    while (receiver->throttled && message->tells.len < ALERT_MESSAGE_MAX && receiver->kind != RECEIVER_JOURNALD) {
        group = choose(receiver, now_ns);
        if (!group)
            break;
        add_group(message, group, now_ns);
    }
    receiver->throttled = false;
    if (!message->tells.len) {
        message_free(message);
        return;
    }
    sort_message(message);
    set_key(message);
    payload_message(message, &message->tells.at[0], &message->body);
    message->next = receiver->messages;
    receiver->messages = message;
    receiver->in_flight++;
    ops_of(receiver)->start(message);
}

/* 0 where a notification may go, else when. */
static uint64_t take_token(Receiver *receiver, uint64_t now_ns)
{
    const ReceiverConfig *config = receiver->config;
    double most = (double)config->rate_count, each_ns;

    if (!config->rate_count)
        return 0;
    each_ns = (double)config->rate_ns / most;
    receiver->tokens += (double)(now_ns - receiver->tokens_ns) / each_ns;
    receiver->tokens_ns = now_ns;
    if (receiver->tokens > most)
        receiver->tokens = most;
    if (receiver->tokens < 1) {
        receiver->throttled = true;
        return now_ns + (uint64_t)((1 - receiver->tokens) * each_ns) + 1;
    }
    receiver->tokens--;
    return 0;
}

uint64_t notify_turn(Receiver *receiver, uint64_t now_ns)
{
    uint64_t next = ALERT_NEVER;
    Group *group;

    reckon(receiver);
    while (receiver->in_flight < ALERT_IN_FLIGHT_MAX && (group = choose(receiver, now_ns))) {
        uint64_t later = take_token(receiver, now_ns);

        if (later)
            return later;
        send_message(receiver, group, now_ns);
    }
    for (size_t i = 0; i < receiver->groups.len; i++)
        if (receiver->in_flight < ALERT_IN_FLIGHT_MAX)
            next = number_min_u64(next, group_due(receiver->groups.at[i]));
    return next;
}

static void settle_tell(MessageTell *told, bool heard)
{
    Tell *tell = told->tell;

    if (!tell)
        return;
    tell->message = NULL;
    if (!heard)
        return;
    tell->told = told->told;
    tell->change = TELL_NONE;
    tell_settle(tell, false);
    if (tell->change == TELL_NONE)
        tell_save(tell);
}

static void settle_group(Group *group, Outcome outcome, uint64_t retry_after_ms)
{
    uint64_t now_ns = alert_now(group->receiver->alerts);

    if (outcome == OUTCOME_FAILED) {
        group->retry_ns = now_ns + alert_backoff(++group->tries, ALERT_BACKOFF_MAX_NS, retry_after_ms);
        return;
    }
    group->last_sent_ns = number_max_u64(1, now_ns);
    group->tries = 0;
    group->retry_ns = 0;
}

static void unlink_message(Message *message)
{
    Message **at = &message->receiver->messages;

    while (*at != message)
        at = &(*at)->next;
    *at = message->next;
    message->receiver->in_flight--;
}

void notify_done(Message *message, Outcome outcome, uint64_t retry_after_ms, const char *why)
{
    Receiver *receiver = message->receiver;
    bool recovered = receiver->troubled && outcome == OUTCOME_DELIVERED;

    unlink_message(message);
    if (outcome == OUTCOME_DELIVERED)
        receiver_fine(receiver, 1);
    else if (outcome == OUTCOME_FAILED)
        receiver_trouble(receiver, why);
    else
        receiver_rejected(receiver, message->tells.len, why);
    for (size_t i = 0; i < message->groups.len; i++)
        settle_group(message->groups.at[i], outcome, retry_after_ms);
    for (size_t i = 0; i < message->tells.len; i++)
        settle_tell(&message->tells.at[i], outcome != OUTCOME_FAILED);
    for (size_t i = 0; i < receiver->groups.len && recovered; i++)
        receiver->groups.at[i]->retry_ns = 0; /* it is back: nobody waits any longer */
    message_free(message);
    alert_kick(receiver->alerts);
}

void notify_cancel(Receiver *receiver)
{
    while (receiver->messages) {
        Message *message = receiver->messages;

        ops_of(receiver)->cancel(message);
        unlink_message(message);
        for (size_t i = 0; i < message->tells.len; i++)
            settle_tell(&message->tells.at[i], false);
        message_free(message);
    }
}
