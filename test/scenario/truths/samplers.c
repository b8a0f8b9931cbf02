/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands in for source/sampler/processes.c: the samplers are the real ones, but they run in this process, one turn at a
 * time (samplers_turn), so that a node's hours pass in seconds. A driver call that hangs would hang us too. Probes are
 * processes of their own, since a driver may refuse new clients alone; each is waited for.
 */
#include "test/scenario/truths/samplers.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "source/sampler/child.h"
#include "source/sampler/process.h"

enum { PID_BASE = 4000000 }; /* above what a kernel gives */

typedef struct Slot {
    Child *child; /* NULL: none runs */
    int ours, its;
} Slot;

struct Processes {
    Supervisor *supervisor;
    int board_fd;
    const char *program;
    const Log *log;
    void (*news)(void *self);
    void *news_self;
    Slot slots[NODE_SAMPLERS_MAX];
};

static Processes *running;

static uint64_t read_now(void *self)
{
    (void)self;
    return board_kernel_now();
}

static void end_child(Slot *slot)
{
    child_free(slot->child);
    slot->child = NULL;
}

static int run_probe(const Processes *p, const SamplerHello *hello, Err *err)
{
    CLEANUP_FD int fd = -1;
    SamplerReply reply;
    Process process;

    process_init(&process);
    TRY(process_start(&process, p->program, &fd, err));
    TRY(process_send_hello(fd, hello, p->board_fd, err));
    while (recv(fd, &reply, sizeof reply, 0) > 0)
        continue;
    while (!process_gone(&process, false, &(SubprocEnd){0}))
        usleep(100);
    process_done(&process);
    return 0;
}

static int start_child(void *self, const SamplerHello *hello, pid_t *ret_pid, Err *err)
{
    Processes *p = self;
    Slot *slot = &p->slots[hello->slot];
    SamplerReply reply;
    int pair[2];

    *ret_pid = PID_BASE + (pid_t)hello->slot;
    if (hello->probe)
        return run_probe(p, hello, err);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return err_errno(err, "make a socket pair");
    slot->ours = pair[0];
    slot->its = pair[1];
    TRY(process_send_hello(slot->ours, hello, p->board_fd, err));
    TRY(child_connect(slot->its, &slot->child, err));
    if (recv(slot->ours, &reply, sizeof reply, 0) != sizeof reply)
        return err_errno(err, "read the sampler's reply");
    return 0;
}

static void kill_child(void *self, uint32_t slot, pid_t pid)
{
    (void)pid;
    end_child(&((Processes *)self)->slots[slot]);
}

static bool is_gone(void *self, uint32_t slot, pid_t pid, SubprocEnd *ret_end)
{
    (void)pid;
    (void)ret_end;
    return !((Processes *)self)->slots[slot].child;
}

static void close_sockets(void *self, uint32_t index)
{
    Slot *slot = &((Processes *)self)->slots[index];

    end_child(slot); /* the end of its socket is its end */
    if (slot->ours >= 0)
        close(slot->ours);
    if (slot->its >= 0)
        close(slot->its);
    slot->ours = slot->its = -1;
}

static void read_wchan(void *self, pid_t pid, char text[NODE_WCHAN_CAP])
{
    (void)self;
    (void)pid;
    text[0] = '\0';
}

static void write_log(void *self, int level, const char *text)
{
    log_write(((Processes *)self)->log, (LogLevel)level, "%s", text);
}

static const SupervisorOps ops = {.now_ns = read_now,
                                  .start = start_child,
                                  .kill = kill_child,
                                  .gone = is_gone,
                                  .forget = close_sockets,
                                  .wchan = read_wchan,
                                  .log = write_log};

void samplers_turn(void)
{
    SamplerReply reply;
    bool news = false;

    for (size_t i = 0; i < NODE_SAMPLERS_MAX; i++) {
        Slot *slot = &running->slots[i];

        if (!slot->child)
            continue;
        child_pass(slot->child);
        while (recv(slot->ours, &reply, sizeof reply, MSG_DONTWAIT) > 0)
            news = true;
    }
    supervisor_pass(running->supervisor);
    if (news && running->news)
        running->news(running->news_self);
}

/* --- source/sampler/processes.h ---------------------------------------------------------------------------------- */

int processes_new(uv_loop_t *loop, Board *board, int board_fd, const ProcessesSpec *spec, Processes **ret, Err *err)
{
    Processes *p = xcalloc(1, sizeof *p);

    (void)loop;
    (void)err;
    for (size_t i = 0; i < NODE_SAMPLERS_MAX; i++)
        p->slots[i].ours = p->slots[i].its = -1;
    p->board_fd = board_fd;
    p->program = spec->program;
    p->log = spec->log;
    p->supervisor = supervisor_new(board, spec->limits, &ops, p, spec->library);
    running = *ret = p;
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
    supervisor_pass(p->supervisor);
}

void processes_stop(Processes *p, void (*done)(void *self), void *self)
{
    for (uint32_t i = 0; i < NODE_SAMPLERS_MAX; i++)
        close_sockets(p, i);
    done(self);
}

void processes_free(Processes *p)
{
    if (!p)
        return;
    supervisor_free(p->supervisor);
    free(p);
    running = NULL;
}

void processes_usage(Processes *p, NodeSampler *samplers, size_t count)
{
    (void)p;
    (void)samplers;
    (void)count;
}
