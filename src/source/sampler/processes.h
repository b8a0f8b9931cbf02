/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The samplers as real processes on a libuv loop: starts `stoker-sampler`, or connects to a socket behind which systemd
 * starts one per connection, hands each the board, hears when it ends, and drives the supervisor with a timer. Nothing
 * here waits for a sampler. Owned by the loop's thread.
 *
 *     processes_new, supervisor_set_bus(processes_supervisor(p), ...), processes_run
 *     ... processes_stop(p, done, self); from done or later: processes_free; then the loop is run to its end
 */

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "base/err.h"
#include "base/log.h"
#include "source/sampler/supervisor.h"

typedef struct Processes Processes;

typedef struct ProcessesSpec {
    const char *program;            /* path of stoker-sampler; searched in PATH where it has no '/' */
    const char *socket;             /* path of a listening SOCK_SEQPACKET unix socket to use instead, or NULL */
    const char *library;            /* of the driver; NULL or "": as the linker searches */
    const SupervisorDcgm *dcgm;     /* NULL: libdcgm is left alone */
    const SupervisorLimits *limits; /* NULL: the default */
    const Log *log;                 /* NULL: silent */
} ProcessesSpec;

/* Makes the supervisor too; starts nothing. `board`, `board_fd`, the log and the texts are borrowed until
 * processes_free. -ENAMETOOLONG where a path is too long. */
int processes_new(uv_loop_t *loop, Board *board, int board_fd, const ProcessesSpec *spec, Processes **ret, Err *err);

/* For the bus, release and views. Not for supervisor_stop. */
Supervisor *processes_supervisor(Processes *processes);

/* Calls `news` from the loop whenever a sampler has put events on the board; NULL: never. */
void processes_on_events(Processes *processes, void (*news)(void *self), void *self);

/* Runs supervisor_pass now and every 50 ms. */
void processes_run(Processes *processes);

/* Ends all samplers: sockets are closed, those that are left get SIGKILL after 500 ms, those that do not end then stay
 * behind. `done` is called from the loop, once. */
void processes_stop(Processes *processes, void (*done)(void *self), void *self);

/* Frees; open handles are closed when the loop runs next. Accepts NULL. */
void processes_free(Processes *processes);

/* Fills rss_bytes and cpu_ns of a view's samplers; each process is looked at once in 5 s at most. */
void processes_usage(Processes *processes, NodeSampler *samplers, size_t count);
