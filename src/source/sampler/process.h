/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One sampler's process, ours or one that systemd made for us: start, pid and end. Signals go only to a child of ours
 * that was not reaped yet, or to one whose pid the kernel reported, through its pidfd, and whose user is ours. For
 * processes.c alone; no loop in here.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/subproc.h"
#include "source/sampler/protocol.h"

typedef struct Process {
    bool used;
    bool foreign; /* not our child */
    Subproc child;
    pid_t pid;  /* 0: unknown */
    int pid_fd; /* of a foreign one; -1 */
    bool may_kill;
} Process;

/* An unused one. */
void process_init(Process *process);

/* Starts `program`; *ret_fd is our end of its socket. -errno. */
int process_start(Process *process, const char *program, int *ret_fd, Err *err);
/* Connects to `path`. -errno; -EAGAIN where too many wait there already. */
int process_connect(Process *process, const char *path, int *ret_fd, Err *err);

/* Sends the hello and the board. -errno. */
int process_send_hello(int fd, const SamplerHello *hello, int board_fd, Err *err);

/* Reads a reply (the first, or a later one that announces events), if there is one: 0, -EAGAIN, -EPIPE where the
 * process is gone, -EPROTO where it is invalid. The first one gives a foreign process its pid. */
int process_read_reply(Process *process, int fd, Err *err);

void process_kill(Process *process);
/* Whether it has ended; a child is reaped, and *ret_end says how it ended. `open`: its socket is, the only sign of life
 * of one without a pid. */
bool process_gone(Process *process, bool open, SubprocEnd *ret_end);
void process_done(Process *process);
