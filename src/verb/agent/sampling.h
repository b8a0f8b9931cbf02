/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Sampling of the node: board, sampler processes, supervisor and board reader on a loop, with their timers. Used by the
 * agent and by a local node. One thread.
 */

#include <uv.h>

#include "base/log.h"
#include "source/board/board.h"
#include "source/sampler/processes.h"
#include "source/sampler/supervisor.h"
#include "verb/agent/config.h"
#include "verb/agent/board_reader.h"

typedef struct Sampling {
    Clock clock; /* the node's: the board's, and the wall clock beside it; valid once it is open */
    uv_loop_t *loop;
    const Log *log;
    const AgentConfig *config; /* of the start */
    Board *board;
    int board_fd;
    Processes *processes;
    Supervisor *supervisor; /* of the processes */
    BoardReader *reader;
    uv_timer_t scan_timer;
    int64_t expected;
    PciAddress bus[NODE_GPUS_MAX]; /* GPUs of the last scan, those given to virtual machines too */
    size_t bus_count;
    bool bus_seen;          /* the PCI bus is visible */
    uint64_t start_real_ns; /* wall clock at the start, for a clock that runs faster */
    int64_t real_step_ns;   /* a test's step of the wall clock */
    bool started;
} Sampling;

/* Opens them: the PCI bus is scanned and the first sampler is started. `config` and `log` are borrowed for good. */
int sampling_open(Sampling *sampling, uv_loop_t *loop, AgentConfig *config, const Log *log, Err *err);

/* Scans the PCI bus now; it is also scanned every five seconds. */
void sampling_scan_bus(Sampling *sampling);

/* The node now; see board_reader_read. */
const Node *sampling_read(Sampling *sampling);

/* Ends the samplers; `done` is called from the loop when that is over, whether or not all could be ended. */
void sampling_stop(Sampling *sampling, void (*done)(void *self), void *self);
/* Frees; then the loop is run to its end. Accepts zeroed ones. */
void sampling_close(Sampling *sampling);
