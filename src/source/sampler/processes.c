/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SupervisorOps on a libuv loop. A Link is the open socket of a sampler; it lives until libuv has closed its handle,
 * which may be after the sampler's slot was reused. Everything else is in the Place of its slot.
 */

#include "source/sampler/processes.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "base/cleanup.h"
#include "source/proc/task.h"
#include "source/sampler/process.h"

enum { TURN_MS = 50, USAGE_MS = 5000 };

typedef struct Link {
    uv_poll_t poll;
    Processes *processes;
    uint32_t slot;
    int fd;
} Link;

typedef struct Usage {
    pid_t pid;
    uint64_t read_ms; /* 0: never */
    uint64_t rss_bytes, cpu_ns;
} Usage;

typedef struct Place {
    Process process;
    Link *link; /* NULL: closed */
    Usage usage;
} Place;

struct Processes {
    uv_loop_t *loop;
    uv_timer_t *timer; /* allocated, since it outlives Processes in the loop */
    Supervisor *supervisor;
    const char *program, *socket;
    const Log *log;
    int board_fd;
    bool running;
    void (*done)(void *self);
    void *done_self;
    void (*news)(void *self);
    void *news_self;
    Place places[NODE_SAMPLERS_MAX];
};

/* ---- links ---- */

static void free_link(uv_handle_t *handle)
{
    free(handle->data);
}

static void close_link(Place *place)
{
    Link *link = TAKE(place->link);

    if (!link)
        return;
    uv_close((uv_handle_t *)&link->poll, free_link);
    fd_close(&link->fd);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    Link *link = poll->data;
    Processes *p = link->processes;
    uint32_t slot = link->slot;
    Place *place = &p->places[slot];
    Err err = {0};
    int rc = status < 0 ? -EPIPE : process_read_reply(&place->process, link->fd, &err);

    (void)events;
    if (rc == -EAGAIN)
        return;
    if (rc < 0) {
        if (rc == -EPROTO)
            log_write(p->log, LOG_LEVEL_ERROR, "Sampler %d: %s.", (int)place->process.pid, err.text);
        close_link(place);
        supervisor_note_close(p->supervisor, slot);
        supervisor_pass(p->supervisor);
        return;
    }
    if (place->process.foreign && place->process.pid)
        supervisor_set_pid(p->supervisor, slot, place->process.pid);
    if (p->news)
        p->news(p->news_self);
}

static int open_link(Processes *p, uint32_t slot, int fd, Err *err)
{
    Link *link = xcalloc(1, sizeof(*link));
    int rc = uv_poll_init(p->loop, &link->poll, fd);

    if (rc < 0) {
        free(link);
        return err_set(err, rc, "watch a sampler's socket: %s", uv_strerror(rc));
    }
    link->processes = p;
    link->slot = slot;
    link->fd = fd;
    link->poll.data = link;
    p->places[slot].link = link;
    uv_poll_start(&link->poll, UV_READABLE | UV_DISCONNECT, on_readable);
    return 0;
}

/* ---- SupervisorOps ---- */

static uint64_t ops_now(void *self)
{
    (void)self;
    return board_kernel_now();
}

static int ops_start(void *self, const SamplerHello *hello, pid_t *ret_pid, Err *err)
{
    Processes *p = self;
    Place *place = &p->places[hello->slot];
    int fd, rc;

    assert(!place->process.used && !place->link);
    TRY(p->socket ? process_connect(&place->process, p->socket, &fd, err)
                  : process_start(&place->process, p->program, &fd, err));
    rc = process_send_hello(fd, hello, p->board_fd, err);
    if (rc >= 0)
        rc = open_link(p, hello->slot, fd, err);
    place->usage = (Usage){.pid = 0};
    *ret_pid = place->process.pid;
    if (rc < 0) {
        /* It is there all the same: the supervisor sees that its socket is closed, and waits for its end. */
        log_write(p->log, LOG_LEVEL_WARN, "Sampler %d: %s.", (int)place->process.pid, err->text);
        fd_close(&fd);
        process_kill(&place->process);
    }
    return 0;
}

static void ops_kill(void *self, uint32_t slot, pid_t pid)
{
    Processes *p = self;

    (void)pid;
    process_kill(&p->places[slot].process);
    close_link(&p->places[slot]);
}

static bool ops_gone(void *self, uint32_t slot, pid_t pid, SubprocEnd *ret_end)
{
    const Processes *p = self;
    Place *place = &((Processes *)self)->places[slot];

    (void)pid;
    if (!process_gone(&place->process, p->places[slot].link != NULL, ret_end))
        return false;
    process_done(&place->process);
    return true;
}

static void ops_forget(void *self, uint32_t slot)
{
    close_link(&((Processes *)self)->places[slot]);
}

static void ops_wchan(void *self, pid_t pid, char text[NODE_WCHAN_CAP])
{
    (void)self;
    text[0] = '\0';
    if (pid > 0)
        proc_task_wchan("", pid, text, NODE_WCHAN_CAP);
}

static void ops_log(void *self, int level, const char *text)
{
    log_write(((Processes *)self)->log, (LogLevel)level, "%s", text);
}

static const SupervisorOps ops = {
    .now_ns = ops_now,
    .start = ops_start,
    .kill = ops_kill,
    .gone = ops_gone,
    .forget = ops_forget,
    .wchan = ops_wchan,
    .log = ops_log,
};

/* ---- the whole ---- */

static void free_timer(uv_handle_t *handle)
{
    free(handle);
}

static void on_turn(uv_timer_t *timer)
{
    Processes *p = timer->data;

    if (!p->done) {
        supervisor_pass(p->supervisor);
    } else if (supervisor_stop(p->supervisor)) {
        uv_timer_stop(timer);
        p->done(p->done_self);
    }
}

int processes_new(uv_loop_t *loop, Board *board, int board_fd, const ProcessesSpec *spec, Processes **ret, Err *err)
{
    Processes *p;

    assert(spec->program || spec->socket);
    if (spec->library && strlen(spec->library) >= SAMPLER_LIBRARY_CAP)
        return err_set(err, -ENAMETOOLONG, "the path of the driver's library is too long");
    if (spec->dcgm && strlen(spec->dcgm->library) >= SAMPLER_LIBRARY_CAP)
        return err_set(err, -ENAMETOOLONG, "the path of DCGM's library is too long");
    if (spec->dcgm && strlen(spec->dcgm->address) >= SAMPLER_ADDRESS_CAP)
        return err_set(err, -ENAMETOOLONG, "the address of DCGM's host engine is too long");
    p = xcalloc(1, sizeof(*p));
    p->loop = loop;
    p->program = spec->program;
    p->socket = spec->socket;
    p->log = spec->log;
    p->board_fd = board_fd;
    for (size_t i = 0; i < NODE_SAMPLERS_MAX; i++)
        process_init(&p->places[i].process);
    p->timer = xcalloc(1, sizeof(*p->timer));
    uv_timer_init(loop, p->timer);
    p->timer->data = p;
    p->supervisor =
        supervisor_new(board, spec->limits ? spec->limits : &supervisor_default_limits, &ops, p, spec->library);
    if (spec->dcgm)
        supervisor_use_dcgm(p->supervisor, spec->dcgm);
    *ret = p;
    return 0;
}

Supervisor *processes_supervisor(Processes *p)
{
    return p->supervisor;
}

void processes_on_events(Processes *p, void (*news)(void *self), void *self)
{
    p->news = news;
    p->news_self = self;
}

void processes_run(Processes *p)
{
    uv_timer_start(p->timer, on_turn, 0, TURN_MS);
}

void processes_stop(Processes *p, void (*done)(void *self), void *self)
{
    p->done = done;
    p->done_self = self;
    uv_timer_start(p->timer, on_turn, 0, TURN_MS);
}

void processes_free(Processes *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < NODE_SAMPLERS_MAX; i++) {
        close_link(&p->places[i]);
        process_done(&p->places[i].process);
    }
    uv_close((uv_handle_t *)p->timer, free_timer);
    supervisor_free(p->supervisor);
    free(p);
}

/* ---- usage ---- */

static void refresh_usage(Usage *usage, pid_t pid, uint64_t now_ms)
{
    ProcTask task;

    if (usage->pid == pid && usage->read_ms && now_ms - usage->read_ms < USAGE_MS)
        return;
    *usage = (Usage){.pid = pid, .read_ms = now_ms ? now_ms : 1};
    if (proc_task_read("", pid, &task, NULL) < 0)
        return;
    usage->rss_bytes = task.rss_bytes;
    usage->cpu_ns = task.cpu_ns;
}

void processes_usage(Processes *p, NodeSampler *samplers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < NODE_SAMPLERS_MAX && samplers[i].pid > 0; k++) {
            Place *place = &p->places[k];

            if (!place->process.used || place->process.pid != samplers[i].pid)
                continue;
            refresh_usage(&place->usage, samplers[i].pid, uv_now(p->loop));
            samplers[i].rss_bytes = place->usage.rss_bytes;
            samplers[i].cpu_ns = place->usage.cpu_ns;
        }
}
