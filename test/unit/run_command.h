/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a command to its end and collects its output, for tests. */
#pragma once

#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cleanup.h"
#include "base/subproc.h"

static inline uint64_t run_now_ms(void)
{
    return clock_monotonic(clock_kernel()) / NS_PER_MS;
}

/* Takes what the pipe holds; closes it at its end. */
static inline void drain(int *fd, Str *into)
{
    char step[16 * 1024];

    while (*fd >= 0) {
        ssize_t got = read(*fd, step, sizeof(step));
        size_t room;

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN)
            return;
        if (got <= 0) {
            fd_close(fd);
            return;
        }
        room = into->max - into->len;
        str_addn(into, step, (size_t)got < room ? (size_t)got : room);
        into->overflow |= (size_t)got > room;
    }
}

/* Collects output until both pipes are at their end, the child has ended, or the deadline. True at the deadline. */
static inline bool collect(Subproc *child, uint64_t deadline, Str *out, Str *errout)
{
    for (;;) {
        struct pollfd fds[] = {{.fd = child->out_fd, .events = POLLIN},
                               {.fd = child->err_fd, .events = POLLIN},
                               {.fd = child->pid_fd, .events = POLLIN}};
        uint64_t now = run_now_ms();
        bool ended;

        if (child->out_fd < 0 && child->err_fd < 0)
            return false;
        if (now >= deadline)
            return true;
        if (poll(fds, ARRAY_LEN(fds), deadline - now < 1000 ? (int)(deadline - now) : 1000) < 0)
            continue;
        /* Looked at before the pipes are drained: what an ended child wrote is in them by then. A grandchild may hold
         * them open for ever. */
        ended = fds[2].revents != 0;
        drain(&child->out_fd, out);
        drain(&child->err_fd, errout);
        if (ended)
            return false;
    }
}

static inline void init_sink(Str *sink, Str **at)
{
    str_init(sink, 0);
    if (!*at)
        *at = sink;
}

/* Runs a command until its end or for at most timeout_ms; then its group is killed and end.timed_out set. Output is
 * appended to `out` and `errout` (each an initialised Str, or NULL: dropped); what is over their ceiling is dropped,
 * their overflow flag says so, and the child is not blocked by it. 0 whatever the exit code; SUBPROC_STUCK; -errno
 * where it could not be started. */
static inline int run_command(const SubprocSpec *spec, uint64_t timeout_ms, Str *out, Str *errout, SubprocEnd *ret_end,
                              Err *err)
{
    CLEANUP(subproc_done) Subproc child = {0};
    SubprocSpec piped = *spec;
    uint64_t deadline = run_now_ms() + timeout_ms, now;
    Str sinks[2];
    bool late;
    int rc;

    init_sink(&sinks[0], &out);
    init_sink(&sinks[1], &errout);
    piped.pipe_out = piped.pipe_err = true;
    TRY(subproc_start(&piped, &child, err));
    late = collect(&child, deadline, out, errout);
    now = run_now_ms();
    rc = late ? SUBPROC_RUNNING : subproc_wait(&child, deadline > now ? deadline - now : 0, ret_end, err);
    if (rc != SUBPROC_RUNNING)
        return rc;
    rc = subproc_stop(&child, 0, ret_end, err);
    if (rc)
        return rc;
    drain(&child.out_fd, out);
    drain(&child.err_fd, errout);
    ret_end->timed_out = true;
    return 0;
}
