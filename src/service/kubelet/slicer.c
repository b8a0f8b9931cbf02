/* SPDX-License-Identifier: Apache-2.0 */
#include "service/kubelet/slicer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/duration.h"
#include "base/subproc.h"

enum { TICK_MS = 20, TEXT_CAP = 300 };
#define LIMIT_NS (15 * NS_PER_S) /* a kubelet waits 45 s for a claim */

typedef struct Order {
    char uuid[DEVICE_UUID_CAP];
    ClaimSlice slice;
    void (*done)(void *self, const Err *err);
    void *self;
    struct Order *next;
} Order;

struct Slicer {
    const char *driver_root;
    uv_timer_t timer;
    Order *first;
    Subproc child; /* pid 0: none runs */
    uint64_t deadline_ns;
};

static const char *enter_root(void *self)
{
    const Slicer *slicer = self;

    if (!slicer->driver_root[0])
        return NULL;
    return chroot(slicer->driver_root) < 0 || chdir("/") < 0 ? "chroot for" : NULL;
}

static int start_program(Slicer *slicer, Err *err)
{
    char slice[8];
    const char *const argv[] = {"nvidia-smi", "compute-policy", "-i", slicer->first->uuid, "--set-timeslice", slice,
                                NULL};

    snprintf(slice, sizeof slice, "%d", (int)slicer->first->slice);
    slicer->deadline_ns = uv_hrtime() + LIMIT_NS;
    return subproc_start(
        &(SubprocSpec){.argv = argv, .pipe_out = true, .die_with_us = true, .prepare = enter_root, .self = slicer},
        &slicer->child, err);
}

static void finish_order(Slicer *slicer, const Err *err)
{
    Order *order = slicer->first;

    slicer->first = order->next;
    if (order->done)
        order->done(order->self, err);
    free(order);
}

/* What it printed, in one line. */
static void read_text(const Subproc *child, char to[TEXT_CAP])
{
    const ssize_t len = read(child->out_fd, to, TEXT_CAP - 1);

    to[len > 0 ? len : 0] = '\0';
    for (char *at = to; *at; at++)
        *at = (char)((unsigned char)*at < ' ' ? ' ' : *at);
}

static void on_end(Slicer *slicer, const SubprocEnd *end)
{
    char how[SUBPROC_TEXT_MAX], text[TEXT_CAP];
    Err err = {0};

    read_text(&slicer->child, text);
    subproc_done(&slicer->child);
    subproc_describe(end, how);
    if (!end->exited || end->exit_code != 0)
        (void)err_set(&err, -EIO, "the time slice of %.60s cannot be set: nvidia-smi: %s: %.200s", slicer->first->uuid,
                      how, text);
    finish_order(slicer, err.code ? &err : NULL);
}

static void on_timer(uv_timer_t *timer)
{
    Slicer *slicer = timer->data;
    SubprocEnd end = {0};
    Err err = {0};

    if (!slicer->first) {
        uv_timer_stop(timer);
    } else if (!slicer->child.pid) {
        if (start_program(slicer, &err) < 0)
            finish_order(slicer, &err);
    } else if (subproc_wait(&slicer->child, 0, &end, NULL) != SUBPROC_RUNNING) {
        on_end(slicer, &end);
    } else if (uv_hrtime() >= slicer->deadline_ns) {
        (void)kill(-slicer->child.pid, SIGKILL);
    }
}

Slicer *slicer_new(uv_loop_t *loop, const char *driver_root)
{
    Slicer *slicer = xcalloc(1, sizeof *slicer);

    slicer->driver_root = driver_root;
    uv_timer_init(loop, &slicer->timer);
    slicer->timer.data = slicer;
    return slicer;
}

void slicer_set(Slicer *slicer, const char *uuid, ClaimSlice slice, void (*done)(void *self, const Err *err),
                void *self)
{
    Order **end = &slicer->first, *order = xcalloc(1, sizeof *order);

    snprintf(order->uuid, sizeof order->uuid, "%s", uuid);
    order->slice = slice;
    order->done = done;
    order->self = self;
    while (*end)
        end = &(*end)->next;
    *end = order;
    uv_timer_start(&slicer->timer, on_timer, 0, TICK_MS);
}

void slicer_forget(Slicer *slicer, const void *self)
{
    for (Order *order = slicer->first; order; order = order->next)
        if (order->self == self)
            order->done = NULL;
}

static void on_timer_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void slicer_close(Slicer *slicer)
{
    if (!slicer)
        return;
    if (slicer->child.pid)
        (void)subproc_stop(&slicer->child, 0, &(SubprocEnd){0}, NULL);
    subproc_done(&slicer->child);
    for (Order *order = slicer->first, *next; order; order = next) {
        next = order->next;
        free(order);
    }
    uv_close((uv_handle_t *)&slicer->timer, on_timer_closed);
}
