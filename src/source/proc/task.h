/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Files of /proc/PID, see proc(5): what a process costs, also one that hangs in the kernel. `root` stands before
 * "/proc", "" for the real one. None of the files takes a lock that a process hanging in the kernel could hold. Any
 * thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum { PROC_PATH_CAP = 4096, PROC_NAME_CAP = 64 };

typedef struct ProcTask {
    char name[PROC_NAME_CAP]; /* the kernel's short one, as the process chose it */
    char state;               /* R, S, D, T, Z, ... */
    pid_t parent;
    uint64_t cpu_ns;
    uint64_t start_ns; /* after boot; with the pid it identifies a process */
    uint64_t virtual_bytes, rss_bytes;
} ProcTask;

/* `name` is "self" or a pid. -errno, *ret untouched; -ENOENT or -ESRCH where there is no such process; -EBADMSG. */
int proc_stat(const char *root, const char *name, ProcTask *ret, Err *err);
int proc_task_read(const char *root, pid_t pid, ProcTask *ret, Err *err);

/* When the machine was started, wall clock, by ROOT/proc/stat. */
int proc_boot_ns(const char *root, uint64_t *ret_real_ns, Err *err);

/* Reads ROOT/proc/<name>/<file>, cut to what fits into text. -errno. */
int proc_text(const char *root, const char *name, const char *file, char *text, size_t cap, Err *err);

/* ---- this process itself, as the process_* metrics of Prometheus have it ---- */

typedef struct ProcSelf {
    uint64_t cpu_ns; /* user and system, of this process whatever the root; exact, where /proc counts hundredths */
    uint64_t rss_bytes, virtual_bytes;
    uint64_t open_fds, max_fds; /* max_fds UINT64_MAX: no limit */
    uint64_t start_real_ns;     /* wall clock */
} ProcSelf;

/* -errno, *ret untouched. */
int proc_self_read(const char *root, ProcSelf *ret, Err *err);

/* ---- another process, seen from outside ---- */

/* Where in the kernel it waits, "" where that cannot be known: the function's name from wchan or, where that is
 * hidden, from stack (both need rights over the process), else the number of its system call as "syscall 16". */
void proc_task_wchan(const char *root, pid_t pid, char *text, size_t cap);
