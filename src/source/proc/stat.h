/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The files of /proc/PID that self.c and task.c both read. `root` stands before "/proc", "" for the real one. None of
 * them takes a lock that a process hanging in the kernel could hold.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { PROC_PATH_CAP = 4096 };

typedef struct ProcStat {
    char state; /* R, S, D, T, Z, ... */
    uint64_t cpu_ns;
    uint64_t start_ns; /* after boot */
    uint64_t virtual_bytes, rss_bytes;
} ProcStat;

/* `name` is "self" or a pid. -errno; -ENOENT or -ESRCH where there is no such process; -EBADMSG. */
int proc_stat(const char *root, const char *name, ProcStat *ret, Err *err);

/* Reads ROOT/proc/<name>/<file>, cut to what fits into text. -errno. */
int proc_text(const char *root, const char *name, const char *file, char *text, size_t cap, Err *err);
