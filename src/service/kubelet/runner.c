/* SPDX-License-Identifier: Apache-2.0 */
#include "service/kubelet/runner.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/duration.h"
#include "base/subproc.h"

enum { TICK_MS = 20, TEXT_CAP = 300 };
#define LIMIT_NS (15 * NS_PER_S) /* a kubelet waits 45 s for a claim */

typedef struct Order {
    Arena arena; /* of its texts */
    RunnerSpec spec;
    struct Order *next;
} Order;

struct Runner {
    const char *driver_root;
    uv_timer_t timer;
    Order *first;
    Subproc child; /* pid 0: none runs */
    uint64_t deadline_ns;
};

static const char *enter_root(void *self)
{
    const Runner *runner = self;

    if (!runner->driver_root[0] || !runner->first->spec.of_driver)
        return NULL;
    return chroot(runner->driver_root) < 0 || chdir("/") < 0 ? "chroot for" : NULL;
}

static int start_program(Runner *runner, Err *err)
{
    runner->deadline_ns = uv_hrtime() + LIMIT_NS;
    return subproc_start(&(SubprocSpec){.argv = runner->first->spec.argv,
                                        .pipe_out = true,
                                        .die_with_us = true,
                                        .prepare = enter_root,
                                        .self = runner},
                         &runner->child, err);
}

static void free_order(Order *order)
{
    arena_done(&order->arena);
    free(order);
}

static void finish_order(Runner *runner, const char *out, const Err *err)
{
    Order *order = runner->first;

    runner->first = order->next;
    if (order->spec.done)
        order->spec.done(order->spec.self, out, err);
    free_order(order);
}

/* What it printed, in one line. */
static void read_text(const Subproc *child, char to[TEXT_CAP])
{
    const ssize_t len = read(child->out_fd, to, TEXT_CAP - 1);
    size_t end = len > 0 ? (size_t)len : 0;

    to[end] = '\0';
    for (char *at = to; *at; at++)
        *at = (char)((unsigned char)*at < ' ' ? ' ' : *at);
    while (end > 0 && to[end - 1] == ' ')
        to[--end] = '\0';
}

static void on_end(Runner *runner, const SubprocEnd *end)
{
    char how[SUBPROC_TEXT_MAX], text[TEXT_CAP];
    const RunnerSpec *spec = &runner->first->spec;
    Err err = {0};

    read_text(&runner->child, text);
    subproc_done(&runner->child);
    subproc_describe(end, how);
    if (!end->exited || end->exit_code != 0)
        (void)err_set(&err, -EIO, "%.200s: %s %s: %.200s", spec->what, spec->of_driver ? spec->argv[0] : "the program",
                      how, text);
    finish_order(runner, text, err.code ? &err : NULL);
}

static void on_timer(uv_timer_t *timer)
{
    Runner *runner = timer->data;
    SubprocEnd end = {0};
    Err err = {0};

    if (!runner->first) {
        uv_timer_stop(timer);
    } else if (!runner->child.pid) {
        if (start_program(runner, &err) < 0)
            finish_order(runner, "", &err);
    } else if (subproc_wait(&runner->child, 0, &end, NULL) != SUBPROC_RUNNING) {
        on_end(runner, &end);
    } else if (uv_hrtime() >= runner->deadline_ns) {
        (void)kill(-runner->child.pid, SIGKILL);
    }
}

Runner *runner_new(uv_loop_t *loop, const char *driver_root)
{
    Runner *runner = xcalloc(1, sizeof *runner);

    runner->driver_root = driver_root;
    uv_timer_init(loop, &runner->timer);
    runner->timer.data = runner;
    return runner;
}

void runner_add(Runner *runner, const RunnerSpec *spec)
{
    Order **end = &runner->first, *order = xcalloc(1, sizeof *order);

    order->spec = *spec;
    order->spec.what = arena_strdup(&order->arena, spec->what);
    for (size_t i = 0; i < RUNNER_ARGS_MAX && spec->argv[i]; i++)
        order->spec.argv[i] = arena_strdup(&order->arena, spec->argv[i]);
    while (*end)
        end = &(*end)->next;
    *end = order;
    uv_timer_start(&runner->timer, on_timer, 0, TICK_MS);
}

void runner_forget(Runner *runner, const void *self)
{
    for (Order *order = runner->first; order; order = order->next)
        if (order->spec.self == self)
            order->spec.done = NULL;
}

static void on_timer_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void runner_close(Runner *runner)
{
    if (!runner)
        return;
    if (runner->child.pid)
        (void)subproc_stop(&runner->child, 0, &(SubprocEnd){0}, NULL);
    subproc_done(&runner->child);
    for (Order *order = runner->first, *next; order; order = next) {
        next = order->next;
        free_order(order);
    }
    uv_close((uv_handle_t *)&runner->timer, on_timer_closed);
}
