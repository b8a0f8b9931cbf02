/* SPDX-License-Identifier: Apache-2.0 */
/* Child processes. A child gets a process group of its own, the descriptors it is given and no others, and dies with
 * its group. pid_fd and the pipes fit any poll loop. Every wait has a deadline; a child that cannot be killed (state D)
 * is an outcome, not a hang. Any thread; a Subproc belongs to one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum { SUBPROC_FDS_MAX = 8, SUBPROC_STOP_MS = 500 };

typedef struct SubprocSpec {
    const char *const *argv; /* NULL-terminated; argv[0] is searched in PATH unless it has a '/' */
    const char *const *env;  /* "NAME=value" added to or replacing ours; "NAME" removes; NULL-terminated or NULL */
    const int *pass_fds;     /* become descriptors 3, 4, ... of the child */
    size_t pass_count;       /* at most SUBPROC_FDS_MAX */
    bool pipe_out, pipe_err; /* pipes to read from; otherwise ours */
    bool die_with_us;        /* SIGKILL when the thread that started it ends (prctl PR_SET_PDEATHSIG) */
    /* Called in the child before exec with `self`, NULL: nothing. System calls alone. NULL: go on; otherwise the step
     * that failed ("mount /dev/shm for", at most 27 bytes), with errno. */
    const char *(*prepare)(void *self);
    void *self;
} SubprocSpec;

typedef struct Subproc {
    pid_t pid;  /* 0: none */
    int pid_fd; /* readable when the child has ended; -1 where the kernel has no pidfd_open */
    int out_fd; /* read end, non-blocking, or -1 */
    int err_fd;
} Subproc;

typedef struct SubprocEnd {
    bool exited; /* ended by itself: exit_code; otherwise by signal */
    int exit_code;
    int signal;
    bool timed_out; /* the deadline passed and we killed it */
} SubprocEnd;

/* Outcomes > 0. */
enum {
    SUBPROC_RUNNING = 1, /* not ended yet */
    SUBPROC_STUCK = 2,   /* does not end even on SIGKILL; abandoned */
};

/* Starts a child; stdin is /dev/null. -errno, that of exec too ("run 'x': No such file or directory"), and then
 * nothing is left behind. */
int subproc_start(const SubprocSpec *spec, Subproc *ret_child, Err *err);

/* Waits at most timeout_ms (0: only looks). 0 and *ret_end, or SUBPROC_RUNNING. After 0 the child is gone: pid 0.
 * -ESRCH where it was gone before. */
int subproc_wait(Subproc *child, uint64_t timeout_ms, SubprocEnd *ret_end, Err *err);

/* Ends the child's group: SIGTERM, after grace_ms SIGKILL, and waits SUBPROC_STOP_MS more. 0, or SUBPROC_STUCK, then
 * the child is still there and the caller may call again or abandon it with subproc_done. -ESRCH as above. */
int subproc_stop(Subproc *child, uint64_t grace_ms, SubprocEnd *ret_end, Err *err);

/* Closes the descriptors and forgets the child, which goes on if it still runs. Accepts an empty (zeroed) one. */
void subproc_done(Subproc *child);

/* "exit code 3", "killed by signal 9 (Killed)" or "timed out", into `out`. */
enum { SUBPROC_TEXT_MAX = 64 };
void subproc_describe(const SubprocEnd *end, char out[SUBPROC_TEXT_MAX]);
