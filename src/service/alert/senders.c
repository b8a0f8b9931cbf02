/* SPDX-License-Identifier: Apache-2.0 */
/* How notifications are sent. A webhook is a POST of the JSON, signed where there is a secret. A command is run without
 * a shell, with the JSON in descriptor 3 and its main facts in the environment; a timer watches the child, and one that
 * takes too long is terminated, then killed, then left behind. journald gets one datagram in its native protocol. */
#include <errno.h>
#include <gnutls/crypto.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/cleanup.h"
#include "base/subproc.h"
#include "service/alert/delivery.h"

/* --- webhooks ----------------------------------------------------------------------------------------------------- */

enum { SIGNATURE_BYTES = 32 };

/* "t=<seconds>,v1=<HMAC-SHA256 of "<seconds>.<body>" in hex>" */
static void sign_body(const char *secret, uint64_t second, const Str *body, char out[ALERT_HEADER_MAX])
{
    unsigned char mac[SIGNATURE_BYTES] = {0};
    gnutls_hmac_hd_t hmac;
    char t[32];
    int len = snprintf(t, sizeof(t), "%llu.", (unsigned long long)second), at;

    at = snprintf(out, ALERT_HEADER_MAX, "X-Stoker-Signature: t=%llu,v1=", (unsigned long long)second);
    if (gnutls_hmac_init(&hmac, GNUTLS_MAC_SHA256, secret, strlen(secret)) < 0)
        return;
    gnutls_hmac(hmac, t, (size_t)len);
    gnutls_hmac(hmac, body->text, body->len);
    gnutls_hmac_deinit(hmac, mac);
    for (size_t i = 0; i < sizeof(mac); i++, at += 2)
        snprintf(out + at, ALERT_HEADER_MAX - (size_t)at, "%02x", mac[i]);
}

static void handle_answer(void *self, const FetchAnswer *answer)
{
    Delivery *delivery = self;
    char why[ALERT_WHY_CAP];
    const Outcome outcome = receiver_read_answer(delivery->receiver, answer, why);

    delivery->sending.call = NULL;
    delivery_finish(delivery, outcome, answer->retry_after_ms, why);
}

void webhook_make_request(const Receiver *receiver, const char *key, const Str *body, WebhookRequest *ret)
{
    FetchRequest *request = &ret->request;

    receiver_make_request(receiver, receiver->config->urls.items[0], ret->headers, request);
    snprintf(ret->key, sizeof(ret->key), "Idempotency-Key: %s", key);
    ret->headers[request->header_count++] = ret->key;
    if (receiver->config->secrets[SECRET_SIGNING]) {
        sign_body(receiver->config->secrets[SECRET_SIGNING], alerts_real(receiver->alerts) / NS_PER_S, body,
                  ret->signature);
        ret->headers[request->header_count++] = ret->signature;
    }
    request->body = body->text;
    request->body_len = body->len;
}

static uint64_t send_webhooks(Receiver *receiver, uint64_t now_ns)
{
    Delivery *delivery;
    uint64_t next;

    while ((delivery = delivery_begin_due(receiver, now_ns, &next))) {
        Sending *sending = &delivery->sending;
        WebhookRequest made;
        Err err = {0};

        webhook_make_request(receiver, sending->key, &sending->body, &made);
        if (fetch_send(receiver->alerts->fetch, &made.request, handle_answer, delivery, &sending->call, &err) < 0)
            delivery_finish(delivery, OUTCOME_FAILED, 0, err.text);
    }
    return next;
}

static void cancel_webhook(Delivery *delivery)
{
    fetch_cancel(delivery->sending.call);
}

/* --- facts -------------------------------------------------------------------------------------------------------- */

enum { FACTS_MAX = 32 };

/* What commands have in their environment and the journal in its fields, without the "STOKER_" before each name. */
typedef struct FactList {
    struct Fact {
        const char *name, *value;
    } at[FACTS_MAX];
    size_t len;
} FactList;

static void add_fact(FactList *facts, const char *name, const char *value)
{
    facts->at[facts->len++] = (struct Fact){name, value};
}

static void list_facts(const Delivery *delivery, Arena *arena, FactList *ret)
{
    const Alerts *alerts = delivery->receiver->alerts;
    const Incident *incident = &delivery->item->incident;
    const Device *device = &incident->device;
    char text[512];

    ret->len = 0;
    add_fact(ret, "RECEIVER", delivery->receiver->name);
    add_fact(ret, "KEY", delivery->sending.key);
    add_fact(ret, "CHANGE", delivery_change_keys[delivery->sending.change]);
    add_fact(ret, "HOSTNAME", alerts->hostname);
    add_fact(ret, "INCIDENT", incident->id);
    add_fact(ret, "CLASS", incident->class);
    add_fact(ret, "CODE", arena_printf(arena, "%d", incident->code));
    add_fact(ret, "CAUSE", fault_causes[incident->cause].key);
    add_fact(ret, "SEVERITY", fault_severities[incident->severity].key);
    add_fact(ret, "ACTION", fault_actions[incident->action].key);
    add_fact(ret, "ROUTE", fault_routes[incident->route].key);
    add_fact(ret, "STATE", incident_states[incident->state].key);
    add_fact(ret, "TITLE", incident->title);
    add_fact(ret, "VERDICT", incident->verdict);
    delivery_write_affected(incident, text, sizeof(text));
    add_fact(ret, "AFFECTED", arena_strdup(arena, text));
    add_fact(ret, "USER", incident->owner_count > 0 ? incident->owners[0].user : "");
    add_fact(ret, "JOB", incident->job);
    add_fact(ret, "COUNT", arena_printf(arena, "%llu", (unsigned long long)incident->count));
    add_fact(ret, "UUID", *device->parent_uuid ? device->parent_uuid : device->uuid);
    add_fact(ret, "GPU", device->index == DEVICE_NO_NUMBER ? "" : arena_printf(arena, "%u", device->index));
    add_fact(ret, "PCI_BUS_ID",
             device->has_pci ? arena_strdup(arena, pci_format(device->pci, PCI_FORM_NVML, text)) : "");
    delivery_write_runbook(delivery, text, sizeof(text));
    add_fact(ret, "RUNBOOK", arena_strdup(arena, text));
    delivery_write_link(alerts, incident, text, sizeof(text));
    add_fact(ret, "URL", arena_strdup(arena, text));
}

/* --- commands ----------------------------------------------------------------------------------------------------- */

enum { CHECK_MS = 100, KILL_AFTER_MS = 1000, LEAVE_AFTER_MS = 6000 };

typedef struct AlertChild {
    Alerts *alerts;
    Delivery *delivery;
    Subproc process;
    uv_timer_t timer;
    uint64_t started_ms, timeout_ms;
    bool termed;
} AlertChild;

static void handle_child_closed(uv_handle_t *handle)
{
    AlertChild *child = handle->data;
    Alerts *alerts = child->alerts;

    subproc_done(&child->process);
    free(child);
    alerts_release(alerts);
}

static void finish_child(AlertChild *child, Outcome outcome, const char *why)
{
    uv_close((uv_handle_t *)&child->timer, handle_child_closed);
    delivery_finish(child->delivery, outcome, 0, why);
}

static void finish_ended_child(AlertChild *child, SubprocEnd end)
{
    char how[SUBPROC_TEXT_MAX], why[ALERT_WHY_CAP];

    end.timed_out = child->termed;
    subproc_describe(&end, how);
    snprintf(why, sizeof(why), "command: %s", how);
    finish_child(child, end.exited && end.exit_code == 0 && !child->termed ? OUTCOME_DELIVERED : OUTCOME_FAILED, why);
}

static void handle_child_timer(uv_timer_t *timer)
{
    AlertChild *child = timer->data;
    const uint64_t ran_ms = uv_now(child->alerts->loop) - child->started_ms;
    const pid_t group = child->process.pid;
    SubprocEnd end = {0};

    if (subproc_wait(&child->process, 0, &end, NULL) == 0) {
        if (child->termed)
            kill(-group, SIGKILL); /* what it started may ignore SIGTERM */
        finish_ended_child(child, end);
    } else if (ran_ms >= child->timeout_ms + LEAVE_AFTER_MS) {
        finish_child(child, OUTCOME_FAILED, "command: cannot be killed, left behind");
    } else if (ran_ms >= child->timeout_ms) {
        kill(-child->process.pid, ran_ms >= child->timeout_ms + KILL_AFTER_MS ? SIGKILL : SIGTERM);
        child->termed = true;
    }
}

static int make_body_fd(const Str *body, Err *err)
{
    CLEANUP_FD int fd = memfd_create("stoker-alert", MFD_CLOEXEC);

    if (fd < 0 || write(fd, body->text, body->len) != (ssize_t)body->len || lseek(fd, 0, SEEK_SET) != 0)
        return err_errno(err, "make a file in memory");
    return fd_take(&fd);
}

static int run_command(const Delivery *delivery, Subproc *ret, Err *err)
{
    const ReceiverConfig *config = delivery->receiver->config;
    CLEANUP(arena_done) Arena arena = {0};
    CLEANUP_FD int fd = make_body_fd(&delivery->sending.body, err);
    VEC(const char *) env = {0};
    FactList facts;
    int rc;

    if (fd < 0)
        return fd;
    for (size_t i = 0; config->env[i]; i++)
        vec_push(&env, config->env[i]);
    list_facts(delivery, &arena, &facts);
    for (size_t i = 0; i < facts.len; i++)
        vec_push(&env, arena_printf(&arena, "STOKER_%s=%s", facts.at[i].name, facts.at[i].value));
    vec_push(&env, NULL);
    rc = subproc_start(
        &(SubprocSpec){.argv = config->argv, .env = env.at, .pass_fds = &fd, .pass_count = 1, .die_with_us = true}, ret,
        err);
    vec_done(&env);
    return rc;
}

static void start_command(Delivery *delivery)
{
    AlertChild *child = xcalloc(1, sizeof(*child));
    Err err = {0};

    if (run_command(delivery, &child->process, &err) < 0) {
        free(child);
        delivery_finish(delivery, OUTCOME_FAILED, 0, err.text);
        return;
    }
    child->alerts = delivery->receiver->alerts;
    child->alerts->handles++;
    child->timeout_ms = delivery->receiver->config->timeout_ns / NS_PER_MS;
    child->started_ms = uv_now(child->alerts->loop);
    child->delivery = delivery;
    delivery->sending.child = child;
    uv_timer_init(child->alerts->loop, &child->timer);
    child->timer.data = child;
    uv_timer_start(&child->timer, handle_child_timer, CHECK_MS, CHECK_MS);
}

static uint64_t send_commands(Receiver *receiver, uint64_t now_ns)
{
    Delivery *delivery;
    uint64_t next;

    while ((delivery = delivery_begin_due(receiver, now_ns, &next)))
        start_command(delivery);
    return next;
}

static void cancel_command(Delivery *delivery)
{
    AlertChild *child = delivery->sending.child;

    subproc_stop(&child->process, 0, &(SubprocEnd){0}, NULL);
    uv_close((uv_handle_t *)&child->timer, handle_child_closed);
}

/* --- journald ----------------------------------------------------------------------------------------------------- */

enum { RECORD_MAX = 64 * 1024, EVIDENCE_MAX = 4000 };

static void add_field(Str *out, const char *name, const char *value)
{
    size_t len = strlen(value);

    if (!len)
        return;
    if (!strchr(value, '\n')) {
        str_addf(out, "%s=%s\n", name, value);
        return;
    }
    str_addf(out, "%s\n", name);
    for (int i = 0; i < 8; i++) /* its length, little-endian */
        str_addc(out, (char)(unsigned char)((uint64_t)len >> 8 * i));
    str_addf(out, "%s\n", value);
}

static const char *find_priority(const Incident *incident, DeliveryChange change)
{
    static const char *const of_severity[SEVERITY_END] = {
        [SEVERITY_INFO] = "5", [SEVERITY_WARNING] = "4", [SEVERITY_ERROR] = "3", [SEVERITY_FATAL] = "2"};

    return change == DELIVERY_CLEARED || change == DELIVERY_MISSED ? "5" : of_severity[incident->severity];
}

static void write_record(const Delivery *delivery, Str *out)
{
    const Incident *incident = &delivery->item->incident;
    const DeliveryChange change = delivery->sending.change;
    CLEANUP(arena_done) Arena arena = {0};
    CLEANUP(str_done) Str text = {0};
    FactList facts;

    str_init(&text, EVIDENCE_MAX);
    str_addf(&text, "%s: %s", delivery_change_keys[change], incident->title);
    if (change != DELIVERY_CLEARED && *incident->verdict)
        str_addf(&text, " %s", incident->verdict);
    add_field(out, "MESSAGE", text.text);
    add_field(out, "PRIORITY", find_priority(incident, change));
    add_field(out, "SYSLOG_IDENTIFIER", "stoker");
    list_facts(delivery, &arena, &facts);
    for (size_t i = 0; i < facts.len; i++)
        add_field(out, arena_printf(&arena, "STOKER_%s", facts.at[i].name), facts.at[i].value);
    add_field(out, "STOKER_LABELS", delivery->labels);
    str_clear(&text);
    delivery_write_evidence(incident, EVIDENCE_MAX, &text);
    add_field(out, "STOKER_EVIDENCE", text.text);
}

static int send_record(const char *path, const Str *record)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    CLEANUP_FD int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -errno;
    if (strlen(path) >= sizeof(address.sun_path))
        return -ENAMETOOLONG;
    strcpy(address.sun_path, path);
    if (sendto(fd, record->text, record->len, MSG_NOSIGNAL, (struct sockaddr *)&address, sizeof(address)) < 0)
        return -errno;
    return 0;
}

static uint64_t send_records(Receiver *receiver, uint64_t now_ns)
{
    const char *path = receiver->config->socket;
    Delivery *delivery;
    uint64_t next;

    while ((delivery = delivery_begin_due(receiver, now_ns, &next))) {
        CLEANUP(str_done) Str record = str_limited(RECORD_MAX);
        char why[ALERT_WHY_CAP] = "";

        write_record(delivery, &record);
        const int rc = send_record(path, &record);
        if (rc < 0)
            snprintf(why, sizeof(why), "send to '%.80s': %s", path, strerror(-rc));
        delivery_finish(delivery, rc == 0 ? OUTCOME_DELIVERED : OUTCOME_FAILED, 0, why);
    }
    return next;
}

/* --- the kinds ---------------------------------------------------------------------------------------------------- */

const SenderOps *senders_find(ReceiverKind kind)
{
    static const SenderOps ops[RECEIVER_KIND_END] = {
        [RECEIVER_ALERTMANAGER] = {alertmanager_send_due, NULL},
        [RECEIVER_WEBHOOK] = {send_webhooks, cancel_webhook},
        [RECEIVER_COMMAND] = {send_commands, cancel_command},
        [RECEIVER_JOURNALD] = {send_records, NULL},
    };

    return &ops[kind];
}
