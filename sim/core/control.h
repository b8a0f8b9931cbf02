/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Opening the image, its clock, and changing the node. Changes take the image's robust lock, append an op at the
 * present virtual time and plan the future anew; a writer that dies is recovered by the next one from the ops.
 */
#include "sim/core/image.h"

/* Outcomes of an op; the numbers are those of nvmlReturn_t, so that a client's call can return them as they are. */
typedef enum SimOutcome {
    SIM_OK = 0,
    SIM_BAD_ARGUMENT = 2,
    SIM_NOT_SUPPORTED = 3,
    SIM_NOT_FOUND = 6,
    SIM_IN_USE = 19,
    SIM_NO_ROOM = 23, /* NVML_ERROR_INSUFFICIENT_RESOURCES */
    SIM_FULL = 20,    /* the image has no place for more ops */
} SimOutcome;

/* Creates `path` (size fits gpu_count) with zeroed contents, magic, lock and a paused clock at 0; maps it.
 * NULL on failure with errno set; ENOSPC where the file system has less than 32 MiB left. */
SimImage *sim_image_create(const char *path, uint32_t gpu_count);

/* Maps an existing image, checking magic, layout and size. NULL with errno: ENOENT, EPROTO for a wrong layout, ... */
SimImage *sim_image_open(const char *path);
void sim_image_close(SimImage *image);

/* Adds a string to the image's texts before sim_plan_build; returns its offset, 0 when full. */
uint32_t sim_text_add(SimImage *image, const char *text);
const char *sim_text(const SimImage *image, uint32_t offset);

/* Adds an op while the image is being built (any order); 0 or -ENOSPC. */
int sim_op_add(SimImage *image, const SimOp *op);
/* Sorts the ops and plans everything from t = 0. Call once after boards, gpus, works and ops are in place. */
void sim_plan_build(SimImage *image);

/* Applies an op now (op->t_ns is set to the present virtual time), or at `op->t_ns` when that lies in the future and
 * `later` is set. `text` may be NULL. For creations ret_id (may be NULL) gets the new id. */
SimOutcome sim_op_apply(SimImage *image, SimOp *op, const char *text, int later, uint32_t *ret_id);

/* Adds a work to a running node (`sim inject work`); returns its index or SIM_NONE when full. Start it by an op. */
int32_t sim_work_add(SimImage *image, const SimWork *work);
/* Lends a live process to a work (0 takes it back). */
void sim_work_lend_pid(SimImage *image, int32_t work, uint32_t pid);

/* The clock. Virtual time only moves forward. */
uint64_t sim_clock_now(SimImage *image);                    /* virtual ns since the scenario's start */
uint64_t sim_clock_wall_us(SimImage *image, uint64_t t_ns); /* microseconds since 1970 for a virtual time */
double sim_clock_speed(SimImage *image);
void sim_clock_set_speed(SimImage *image, double speed); /* 0 pauses */
int sim_clock_advance(SimImage *image, uint64_t by_ns);  /* steps forward; -EOVERFLOW when too far */
void sim_clock_reach(SimImage *image, uint64_t t_ns);    /* forward to t_ns, unless it is later already */
/* Sleeps until virtual time t_ns, a change of plan or clock, or real_timeout_ms (< 0: none). */
void sim_clock_wait(SimImage *image, uint64_t t_ns, int real_timeout_ms);

/* ---- MIG arithmetic, pure ---- */
/* Where the driver would put a new GPU instance of board->profiles[profile]: the free start that spoils the fewest
 * larger profiles. Returns the start or SIM_NONE when none is free. `start` >= 0 asks for that one only. */
int sim_mig_place(const SimBoard *board, const SimCond *cond, uint32_t profile, int start);
/* Number of instances of that profile that could still be created one after the other. */
uint32_t sim_mig_capacity(const SimBoard *board, const SimCond *cond, uint32_t profile);
/* id the driver gives to an instance of that size and start. */
uint32_t sim_mig_gi_id(const SimBoard *board, const SimCond *cond, uint32_t size, uint32_t start);
/* Slices and SMs of a compute instance profile (NVML index) inside a GPU instance profile; 0 slices: not offered. */
uint32_t sim_ci_slices(const SimProfile *profile, uint32_t ci_index, uint32_t *ret_sm);
int sim_ci_place(const SimBoard *board, const SimCond *cond, const SimGi *gi, uint32_t slices, int start);
/* The i-th MIG device (compute instance) in the order clients see: 1 found (positions in cond->gi and cond->ci), 0 not.
 */
int sim_mig_device(const SimCond *cond, uint32_t i, uint32_t *ret_gi, uint32_t *ret_ci);
/* "MIG-xxxxxxxx-...": stable for the same GPU, instance ids and placement. buf of at least 48 bytes. */
void sim_mig_uuid(const SimGpuId *gpu, const SimGi *gi, const SimCi *ci, char *buf);

/* ---- NVSwitches ---- */
/* How many a node with this board shows on the PCI bus; 0 where links do not end in switches, and from Blackwell on. */
uint32_t sim_switch_count(const SimBoard *board);
/* Bus of the n-th, in domain 0, device 0. */
uint32_t sim_switch_bus(const SimBoard *board, uint32_t n);
