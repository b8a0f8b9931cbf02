/* SPDX-License-Identifier: Apache-2.0 */
/* Commands: run without a shell, with the notification as JSON in descriptor 3 and its main facts in the environment.
 * The loop watches the child; one that takes too long is ended, then killed, then left behind. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/owner.h"
#include "service/alert/inside.h"

enum { LOOK_MS = 100, KILL_AFTER_MS = 1000, LEAVE_AFTER_MS = 6000 };

typedef struct AlertChild {
    Alerts *alerts;
    Message *message; /* NULL: nobody waits for it any more */
    Subproc process;
    uv_poll_t poll;
    uv_timer_t timer;
    uint64_t started_ms, timeout_ms;
    int handles;
    bool ended, termed;
} AlertChild;

static void on_closed(uv_handle_t *handle)
{
    AlertChild *child = handle->data;
    Alerts *alerts = child->alerts;

    if (--child->handles == 0) {
        subproc_done(&child->process);
        free(child);
    }
    alert_handle_closed(alerts);
}

static void close_child(AlertChild *child)
{
    if (child->ended)
        return;
    child->ended = true;
    if (child->process.pid_fd >= 0)
        uv_close((uv_handle_t *)&child->poll, on_closed);
    uv_close((uv_handle_t *)&child->timer, on_closed);
}

static void finish(AlertChild *child, Outcome outcome, const char *why)
{
    Message *message = child->message;

    child->message = NULL;
    close_child(child);
    if (message)
        notify_done(message, outcome, 0, why);
}

/* Whether it has ended, and if so how. */
static bool look(AlertChild *child)
{
    SubprocEnd end = {0};
    char how[SUBPROC_TEXT_MAX], why[160];

    if (child->ended || subproc_wait(&child->process, 0, &end, NULL) != 0)
        return child->ended;
    end.timed_out = child->termed;
    subproc_describe(&end, how);
    snprintf(why, sizeof(why), "command: %s", how);
    finish(child, end.exited && end.exit_code == 0 && !child->termed ? OUTCOME_DELIVERED : OUTCOME_FAILED, why);
    return true;
}

static void on_ended(uv_poll_t *poll, int status UNUSED, int events UNUSED)
{
    look(poll->data);
}

static void on_timer(uv_timer_t *timer)
{
    AlertChild *child = timer->data;
    uint64_t ran_ms = uv_now(child->alerts->loop) - child->started_ms;

    if (look(child) || ran_ms < child->timeout_ms)
        return;
    if (ran_ms >= child->timeout_ms + LEAVE_AFTER_MS) {
        finish(child, OUTCOME_FAILED, "command: cannot be killed, left behind");
        return;
    }
    kill(-child->process.pid, ran_ms >= child->timeout_ms + KILL_AFTER_MS ? SIGKILL : SIGTERM);
    child->termed = true;
}

static void watch(AlertChild *child)
{
    uv_timer_init(child->alerts->loop, &child->timer);
    child->timer.data = child;
    child->handles = 1;
    child->alerts->handles++;
    child->started_ms = uv_now(child->alerts->loop);
    uv_timer_start(&child->timer, on_timer, LOOK_MS, LOOK_MS);
    if (child->process.pid_fd < 0)
        return;
    uv_poll_init(child->alerts->loop, &child->poll, child->process.pid_fd);
    child->poll.data = child;
    child->handles++;
    child->alerts->handles++;
    uv_poll_start(&child->poll, UV_READABLE, on_ended);
}

typedef VEC(const char *) Texts;

static void put(Arena *arena, Texts *env, const char *name, const char *value)
{
    vec_push(env, arena_printf(arena, "STOKER_%s=%s", name, value));
}

static void put_facts(const Message *message, Arena *arena, Texts *env)
{
    const MessageTell *told = &message->tells.at[0];
    const Incident *incident = &told->tell->item->incident;
    const Device *device = &incident->device;
    char text[512];

    put(arena, env, "RECEIVER", message->receiver->name);
    put(arena, env, "KEY", message->key);
    put(arena, env, "CHANGE", tell_change_key(told->change));
    put(arena, env, "HOSTNAME", message->receiver->alerts->hostname);
    put(arena, env, "INCIDENTS", arena_printf(arena, "%zu", message->tells.len));
    put(arena, env, "INCIDENT", incident->id);
    put(arena, env, "CLASS", incident->class);
    put(arena, env, "CODE", arena_printf(arena, "%d", incident->code));
    put(arena, env, "CAUSE", fault_causes[incident->cause].key);
    put(arena, env, "SEVERITY", fault_severities[incident->severity].key);
    put(arena, env, "ACTION", fault_actions[incident->action].key);
    put(arena, env, "ROUTE", fault_routes[incident->route].key);
    put(arena, env, "STATE", incident_state_key(incident->state));
    put(arena, env, "TITLE", incident->title);
    put(arena, env, "VERDICT", incident->verdict);
    put(arena, env, "COUNT", arena_printf(arena, "%llu", (unsigned long long)incident->count));
    put(arena, env, "UUID", *device->parent_uuid ? device->parent_uuid : device->uuid);
    put(arena, env, "GPU", device->index == DEVICE_NO_NUMBER ? "" : arena_printf(arena, "%u", device->index));
    put(arena, env, "PCI_BUS_ID", device->has_pci ? pci_format(device->pci, PCI_FORM_NVML, text) : "");
    payload_runbook(told->tell->receiver->alerts, told->tell->route, incident, text, sizeof(text));
    put(arena, env, "RUNBOOK", text);
    payload_link(message->receiver->alerts, incident, text, sizeof(text));
    put(arena, env, "URL", text);
}

static int body_fd(const Message *message, Err *err)
{
    CLEANUP_FD int fd = memfd_create("stoker-alert", MFD_CLOEXEC);

    if (fd < 0 || write(fd, message->body.text, message->body.len) != (ssize_t)message->body.len ||
        lseek(fd, 0, SEEK_SET) != 0)
        return err_errno(err, "make a file in memory");
    return owner_take_fd(&fd);
}

static int run(Message *message, Subproc *ret, Err *err)
{
    const ReceiverConfig *config = message->receiver->config;
    CLEANUP(arena_done) Arena arena = {0};
    CLEANUP_FD int fd = body_fd(message, err);
    Texts env = {0};
    int rc;

    if (fd < 0)
        return fd;
    for (size_t i = 0; config->env[i]; i++)
        vec_push(&env, config->env[i]);
    put_facts(message, &arena, &env);
    vec_push(&env, NULL);
    rc = subproc_start(
        &(SubprocSpec){.argv = config->argv, .env = env.at, .pass_fds = &fd, .pass_count = 1, .die_with_us = true}, ret,
        err);
    vec_done(&env);
    return rc;
}

static void start(Message *message)
{
    AlertChild *child = xcalloc(1, sizeof(*child));
    Err err = {0};

    if (run(message, &child->process, &err) < 0) {
        free(child);
        notify_done(message, OUTCOME_FAILED, 0, err.text);
        return;
    }
    child->alerts = message->receiver->alerts;
    child->timeout_ms = message->receiver->config->timeout_ns / NS_PER_MS;
    child->message = message;
    message->child = child;
    watch(child);
}

/* The agent ends, or the receiver is no more. */
static void cancel(Message *message)
{
    AlertChild *child = message->child;

    child->message = NULL;
    subproc_stop(&child->process, 0, &(SubprocEnd){0}, NULL);
    close_child(child);
}

const SenderOps command_ops = {start, cancel};
