/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A node for the tests of instances, processes, events and settings, built by hand, with a clock that stands. Its works
 * do the same all the time, so that every integral is known: see rig.c for the figures. One thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "nvml_abi.h"
#include "sim/core/control.h"

enum { RIG_HOPPER, RIG_BUSY, RIG_AMPERE, RIG_DESK, RIG_BLACKWELL, RIG_GPUS };
enum { WORK_TRAINER, WORK_DECODER, WORK_DESKTOP, WORK_TENANT, WORK_COUNT };
enum { PID_TRAINER = 4000001, PID_DECODER, PID_DESKTOP, PID_TENANT }; /* above what Linux hands out by default */
/* The trainer's activity; its traffic in MiB per second. */
#define TRAINER_KERNEL 0.8
#define TRAINER_SM 0.5
#define TRAINER_TENSOR 0.25
#define TRAINER_DRAM_T 0.4
#define TRAINER_PCIE_MIB 512.0
#define TRAINER_LINK_MIB 1800.0

typedef struct Rig {
    SimImage *image;
    char path[64];
    nvmlDevice_t gpu[RIG_GPUS];
} Rig;

/* Builds the node, initialises the library on it, and lets three seconds pass. For cmocka's setup and teardown. */
int rig_setup(void **state);
int rig_teardown(void **state);

/* Applies an op now, as an injection; fails the test unless it is accepted. */
void rig_op(const Rig *rig, SimOp op);
void rig_step_ms(const Rig *rig, uint64_t ms);

/* Skips the test unless it may change the node. */
void rig_need_root(void);
/* Runs `call` with the rig in a child without privileges and returns its result. */
nvmlReturn_t rig_as_nobody(const Rig *rig, nvmlReturn_t (*call)(const Rig *rig));
