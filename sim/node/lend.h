/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Live processes for the works of a simulated node, so that a pid shown by NVML is one that /proc knows: each is a copy
 * of this process that sleeps under the work's name and command line (and user, where we are root) as long as the work
 * runs in virtual time. They die with the thread that started them. Someone who kills one has ended the work.
 * One thread, which has no other threads beside it when it calls (it forks).
 */
#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "sim/core/image.h"

typedef struct LendProc {
    pid_t pid;           /* 0: none */
    bool killed;         /* ended by someone else: that life of the work is over */
    uint64_t started_ns; /* which life of the work it stands for */
} LendProc;

typedef struct Lend {
    SimImage *image;          /* borrowed */
    uintptr_t args, args_end; /* where the kernel reads a command line; 0: unknown */
    LendProc works[SIM_WORK_MAX];
} Lend;

/* Nothing is started yet. */
void lend_start(Lend *lend, SimImage *image);
/* Starts and ends processes so that those of virtual time t_ns are there, and lends their pids; a process that someone
 * has killed stops its work, now. Returns how many processes began or ended; -errno where one could not be started (the
 * others are as they should be). */
int lend_update(Lend *lend, uint64_t t_ns, Err *err);
/* Ends all of them and takes their pids back. Accepts a zeroed Lend. */
void lend_stop(Lend *lend);
