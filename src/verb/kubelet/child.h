/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A sub verb of `stoker kubelet` that calls the driver, run as a process of its own with the same options each time
 * something has changed: a driver that hangs holds up that process alone.
 */

#include <uv.h>

#include "base/log.h"
#include "verb/verb.h"

typedef struct Child {
    const VerbCall *call;
    const char *sub; /* "labels" */
    void (*done)(void *self, const Str *out);
    void *self;
    const Log *log;
    uv_process_t process;
    uv_timer_t limit;
    uv_pipe_t pipe;
    Str out;
    char room[4096];
    unsigned open; /* handles of a run that are not closed yet */
    bool due, fine;
    unsigned tries;    /* that failed, since one did not */
    uint64_t after_ns; /* not before */
} Child;

/* `done` gets what the process wrote, where it ended well. All is borrowed. */
void child_init(Child *child, uv_loop_t *loop);
/* To be run, when child_tick comes. */
void child_want(Child *child);
void child_tick(Child *child);
void child_close(Child *child);
