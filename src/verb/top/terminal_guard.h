/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Restores the terminal however the program ends, and makes signals pollable. State of the process, as signals are: one
 * at a time. Does not use ncurses.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum { GUARD_RESTORE_MAX = 512 };

typedef struct GuardSeen {
    int end;     /* SIGINT, SIGTERM or SIGHUP; 0 none */
    bool stop;   /* SIGTSTP */
    bool resume; /* SIGCONT */
    bool resize; /* SIGWINCH */
} GuardSeen;

/* Remembers the terminal's modes, sets stderr aside where it is a terminal, takes the signals. `in` and `out`: its
 * descriptors. */
int guard_start(int in, int out, Err *err);
/* The bytes that restore the screen, written if the program ends without guard_stop. */
void guard_restore_with(const char *bytes, size_t len);
/* Restores everything and writes out the kept stderr. */
void guard_stop(void);

/* Readable if guard_take has something. */
int guard_fd(void);
/* What came since the last call; an end stays. */
GuardSeen guard_take(void);
/* Stops the program as Ctrl-Z does, with the terminal's modes given back; returns when it goes on. */
void guard_pause(void);
