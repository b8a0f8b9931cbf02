/* SPDX-License-Identifier: Apache-2.0 */
/* One byte over a socket pair asks; the signals that were pending are the answer, and are taken from the queue. */
#include "verb/run/witness.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ANSWER_S = 2 }; /* it was stopped or starved: the signal is taken as ours alone */

/* The signals that are pending, a bit for each; real-time signals are not passed on, and not asked for. */
static uint64_t collect_signals(const sigset_t *all)
{
    static const struct timespec now = {0};
    uint64_t seen = 0;
    int signal;

    while ((signal = sigtimedwait(all, NULL, &now)) > 0)
        if (signal < 64)
            seen |= UINT64_C(1) << signal;
    return seen;
}

static _Noreturn void run_witness(int fd, const sigset_t *all)
{
    char byte;

    while (read(fd, &byte, 1) == 1) {
        const uint64_t seen = collect_signals(all);

        if (write(fd, &seen, sizeof seen) != (ssize_t)sizeof seen)
            break;
    }
    _exit(0);
}

int witness_start(Witness *witness, Err *err)
{
    const struct timeval limit = {.tv_sec = ANSWER_S};
    const pid_t parent = getpid();
    sigset_t all, before;
    int ends[2];

    *witness = (Witness){.fd = -1};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return err_errno(err, "make a socket pair");
    setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    const pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_NAME, "stoker-signals");
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(0);
        close(ends[0]);
        run_witness(ends[1], &all);
    }
    const int rc = pid < 0 ? err_errno(err, "start a process") : 0;
    sigprocmask(SIG_SETMASK, &before, NULL);
    close(ends[1]);
    if (rc < 0)
        close(ends[0]);
    else
        *witness = (Witness){.pid = pid, .fd = ends[0]};
    return rc;
}

bool witness_saw(Witness *witness, int signal)
{
    uint64_t seen = 0;

    if (witness->pid <= 0)
        return false;
    /* A signal is put to all processes of a group under the kernel's lock of its task list (kernel/signal.c,
     * kill_something_info), which setpgid() takes alone (kernel/sys.c): behind it, no process of the group lacks it. */
    (void)setpgid(0, getpgrp());
    if (send(witness->fd, "?", 1, MSG_NOSIGNAL) != 1 ||
        TEMP_FAILURE_RETRY(recv(witness->fd, &seen, sizeof seen, MSG_WAITALL)) != (ssize_t)sizeof seen) {
        witness_end(witness); /* an answer that comes late would be taken for that of the next */
        return false;
    }
    witness->seen |= seen;
    seen = witness->seen & UINT64_C(1) << signal;
    witness->seen &= ~seen;
    return seen;
}

void witness_note_end(Witness *witness, pid_t pid)
{
    if (witness->pid != pid || pid <= 0)
        return;
    close(witness->fd);
    *witness = (Witness){.fd = -1};
}

void witness_end(Witness *witness)
{
    if (witness->pid <= 0)
        return;
    const pid_t pid = witness->pid;
    kill(pid, SIGKILL);
    (void)TEMP_FAILURE_RETRY(waitpid(pid, NULL, 0));
    witness_note_end(witness, pid);
}
