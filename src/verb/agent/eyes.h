/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The agent's eyes: board, samplers, supervisor and view on a loop, with the timers that drive them. Also what `stoker
 * status` opens for a moment where no agent runs. One thread.
 */

#include <uv.h>

#include "base/log.h"
#include "source/board/board.h"
#include "source/sampler/processes.h"
#include "source/sampler/supervisor.h"
#include "verb/agent/config.h"
#include "verb/agent/view.h"

typedef struct Eyes {
    uv_loop_t *loop;
    const Log *log;
    const AgentConfig *config; /* of the start */
    Board *board;
    int board_fd;
    Processes *processes;
    Supervisor *supervisor; /* of the processes */
    View *view;
    uv_timer_t scan_timer;
    int64_t expected;
    PciAddress bus[NODE_GPUS_MAX]; /* GPUs of the last scan, those given to virtual machines too */
    size_t bus_count;
    bool bus_seen;          /* there is a PCI bus to be seen */
    uint64_t start_real_ns; /* wall clock at the start, for a clock that runs faster */
    int64_t real_step_ns;   /* a test's step of the wall clock */
    bool started;
} Eyes;

/* Opens them: the PCI bus is scanned and the first sampler is started. `config` and `log` are borrowed for good. */
int eyes_open(Eyes *eyes, uv_loop_t *loop, AgentConfig *config, const Log *log, Err *err);

/* Looks at the PCI bus at once; it is looked at every five seconds anyway. */
void eyes_scan(Eyes *eyes);

/* Makes the view of this instant; see view_turn. */
const Node *eyes_look(Eyes *eyes);

/* The wall clock of the node's view, now. */
uint64_t eyes_real(const Eyes *eyes);

/* Ends the samplers; `done` is called from the loop when that is over, whether or not all could be ended. */
void eyes_stop(Eyes *eyes, void (*done)(void *self), void *self);
/* Frees; then the loop is run to its end. Accepts zeroed ones. */
void eyes_close(Eyes *eyes);

/* How many GPUs this node should have, from the configuration or from what the container runtime was told
 * (NVIDIA_VISIBLE_DEVICES); below 0: as many as are on the bus. */
int64_t eyes_expected(const AgentOptions *options, const char *visible_devices);
