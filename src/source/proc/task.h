/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What can be seen of another process from outside, also of one that hangs in the kernel. Reads /proc; any thread. */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

typedef struct ProcTask {
    char state; /* R, S, D, T, Z, ... */
    uint64_t rss_bytes, cpu_ns;
    uint64_t start_ns; /* after boot: with the pid it names one process for ever */
} ProcTask;

/* `root` stands before "/proc", "" for the real one. -errno, *ret untouched. */
int proc_task_read(const char *root, pid_t pid, ProcTask *ret, Err *err);

/* Where in the kernel it waits, "" where that cannot be known: the function's name from wchan or, where that is
 * hidden, from stack (both need rights over the process), else the number of its system call as "syscall 16". */
void proc_task_wchan(const char *root, pid_t pid, char *text, size_t cap);
