/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Inside sim/core: the writers' lock, the planner's parts, and the closed forms that the planner and the readers share.
 */
#include "sim/core/image.h"

/* The image's robust lock. Taking it over from a dead writer plans everything anew from the ops. */
void plan_lock(SimImage *image);
void plan_unlock(SimImage *image);
/* Lets sleepers look again. */
void clock_wake(SimImage *image);

/* Plans anew from t_ns on, keeping the past; ops from index first_new on have not been played. All ops of t_ns
 * itself are played again, so that the outcome is that of planning everything at once. The lock is held. */
void plan_from(SimImage *image, uint64_t t_ns, uint32_t first_new);

/* The segment of `gpu` in force at t_ns, copied as far as its slots go. The caller retries around it (seq.h). */
void seg_load(const SimImage *image, uint32_t gpu, uint64_t t_ns, SimSeg *ret);
const SimSeg *seg_table(const SimImage *image, uint32_t gpu);
/* Its place in the table. */
uint32_t seg_find(const SimImage *image, uint32_t gpu, uint64_t t_ns);
/* The pattern of a slot, in shared memory. */
const SimPattern *seg_pattern(const SimImage *image, const SimSlot *slot);
/* Seconds from the segment's start to t_ns. */
double seg_seconds(const SimSeg *seg, uint64_t t_ns);
/* Integrals of the whole GPU at t_ns, and as the result its energy in joule. */
double seg_cum(const SimImage *image, const SimSeg *seg, uint64_t t_ns, double out[SIM_CH_COUNT]);

/* Closed forms of one slot at t_ns >= its origin. The pattern may be shared memory. */
typedef struct SlotAt {
    double cum[SIM_CH_COUNT];
    double rate[SIM_CH_COUNT];
    double heat; /* from the pattern since origin_ns, in kelvin */
    double sm_mhz, mem_mhz, video_mhz;
    uint32_t phase;
    double phase_part; /* fraction of the phase that is over */
} SlotAt;
enum { SLOT_CUM = 1, SLOT_HEAT = 2 };
void slot_at(const SimPattern *pattern, const SimSlot *slot, uint64_t t_ns, int want, SlotAt *ret);

/* Adds a slot's integrals (or rates), seen from the whole GPU. */
void slot_to_gpu(const SimSlot *slot, const double in[SIM_CH_COUNT], double out[SIM_CH_COUNT]);

/* The throttle counters at t_ns, without the power cap's, which follows from the works. */
void seg_throttle(const SimSeg *seg, uint64_t t_ns, double ret[8]);

/* Brings the counters of a condition forward by dt seconds. */
void cond_forward(SimCond *cond, double dt);

/* ---- patterns ---- */
/* What limits a work on its GPU during a segment. */
typedef struct PatternUse {
    const SimBoard *board;
    double clock_ratio; /* of the highest SM clock, before the power limit */
    double min_ratio;
    double budget_w; /* for this work above the GPU's base power */
    double dram_ratio, link_ratio, pcie_ratio;
    double share, mem_share;
    double stretch; /* time slicing: >= 1 */
    double wait_s;  /* for slower ranks, at the barrier */
    double leak;    /* silicon spread on dynamic power */
    double kelvin_per_watt, tau_s;
    double
        cap_part; /* of the time held down by the power limit that counts for this work: together at most all of it */
    int hung;     /* the other ranks are gone: spinning in the collective */
} PatternUse;
void pattern_build(const SimWork *work, const PatternUse *use, SimPattern *ret);
/* Seconds of one period without waiting, and the mean and peak power of a period. */
double pattern_seconds(const SimWork *work, const PatternUse *use);
double pattern_mean_w(const SimPattern *pattern);
double pattern_peak_w(const SimPattern *pattern);

/* ---- conditions ---- */
/* A GPU as it comes up: settings and counters at driver load. */
void cond_init(SimCond *cond, const SimBoard *board);
/* Applies an op to the condition of its GPU; works and events are the planner's. `t_ns` is the op's time. */
void cond_apply(SimCond *cond, const SimBoard *board, const SimOp *op, uint64_t t_ns);
/* What a GPU reset puts right. */
void cond_reset(SimCond *cond, const SimBoard *board, uint64_t t_ns);

/* ---- one GPU being planned (gpu.c) ---- */
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
/* Adds a work, in the place of `instead` (SIM_NONE: a new process) if that runs here; 0 when it cannot be placed (no
 * such MIG device, no slot left). */
int gpu_work_start(SimImage *image, uint32_t gpu, PlanGpu *g, int32_t work, int32_t instead);
/* Ends a work (or all for SIM_NONE, or those of one GPU instance); returns how many ended. */
int gpu_work_stop(PlanGpu *g, int32_t work, int32_t gi_id);
/* Sets what a work that runs holds. */
void gpu_work_memory(PlanGpu *g, int32_t work, double mib);
/* Seconds until the memory that a slot shares with others (the GPU's or its instance's) is full at the present rate;
 * SIM_NEVER_S without a leak. */
#define SIM_NEVER_S 1e18
double slot_full_s(const SimBoard *board, const SimSeg *seg, uint32_t slot);

/* Closes all GPUs of `gpus` that are open: decides clocks and patterns, works out who waits for whom, publishes. */
void gpus_close(SimImage *image, PlanGpu *gpus, int driver_up);
/* Opens at t_ns every GPU that shares a job with an open one. */
void gpus_open_jobs(SimImage *image, PlanGpu *gpus, uint64_t t_ns);
