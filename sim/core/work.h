/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Inside the planner: one GPU being planned, and turning its condition and works into the next segment. */
#include "sim/core/plan.h"

typedef enum SimDyn { SIM_DYN_NONE, SIM_DYN_HEAT, SIM_DYN_SHUTDOWN, SIM_DYN_MEMORY } SimDyn;

/* Where a slot is in its pattern: phase and the part of it that is over. FRESH: take the work's offset. */
typedef struct SlotPos {
    uint32_t phase;
    double part;
} SlotPos;
#define SLOT_FRESH UINT32_MAX

typedef struct PlanGpu {
    SimSeg seg; /* closed (as published) while open = 0; brought to seg.t_ns and editable while open = 1 */
    int open;
    double energy_j;           /* total, while open */
    double heat[SIM_SLOT_MAX]; /* kelvin per slot, while open */
    SlotPos pos[SIM_SLOT_MAX];
    uint32_t hot; /* thermal level that has just been reached, while open */
} PlanGpu;

/* Brings the GPU to t_ns and opens it for edits; nothing if it is open already. */
void gpu_open(SimImage *image, PlanGpu *g, uint64_t t_ns);
/* Adds a work; 0 when it cannot be placed (no such MIG device, no slot left). */
int gpu_work_start(SimImage *image, uint32_t gpu, PlanGpu *g, int32_t work);
/* Ends a work (or all for SIM_NONE, or those of one GPU instance); returns how many ended. */
int gpu_work_stop(PlanGpu *g, int32_t work, int32_t gi_id);
int gpu_find(const PlanGpu *g, int32_t work);
/* Seconds until what a slot shares with others (the GPU's memory, or its instance's) is full at the present rate; none
 * leaks: SIM_NEVER_S. */
#define SIM_NEVER_S 1e18
double slot_full_s(const SimBoard *board, const SimSeg *seg, uint32_t slot);

/* Closes all GPUs of `gpus` that are open: decides clocks and patterns, works out who waits for whom, publishes. */
void gpus_close(SimImage *image, PlanGpu *gpus, int driver_up);
/* Opens at t_ns every GPU that shares a job with an open one. */
void gpus_open_jobs(SimImage *image, PlanGpu *gpus, uint64_t t_ns);
