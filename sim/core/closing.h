/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Inside the planner: one GPU while it is being closed (close.c), and what decides its clocks and patterns (heat.c,
 * job.c). */
#include "sim/core/work.h"

/* One GPU while it is being closed. */
typedef struct Closing {
    const SimBoard *board;
    const SimGpuId *id;
    SimSeg *seg;
    double temp_now;
    uint32_t hot; /* thermal level that has just been reached */
    PatternUse use[SIM_SLOT_MAX];
    SimPattern pattern[SIM_SLOT_MAX];
} Closing;

static inline const SimWork *closing_work(const SimImage *image, const Closing *c, uint32_t i)
{
    return &image->works[c->seg->slots[i].work];
}

/* Sets what limits each work, before any pattern is built. */
void uses_init(Closing *c);
/* Resistance, time constant and air of the segment that begins; the die does not follow the air at once. */
void thermal_path(Closing *c, double old_ambient);
/* Builds the patterns at the highest clock that settings and faults allow, heat left aside. */
void closing_free_run(const SimImage *image, Closing *c);
/* Decides the thermal level and the clock ratio; leaves the patterns built at it. */
void heat_decide(const SimImage *image, Closing *c);
/* When the GPU, on its present course, next gets too hot. */
void heat_foresee(Closing *c);
/* The memory clock as part of the highest. */
double dram_ratio(const SimBoard *board, const SimCond *cond);
/* The segment's course changes by itself at t_ns, unless something comes earlier. */
void dyn_set(SimSeg *seg, uint64_t t_ns, SimDyn what);

/* Ranks of a job wait for the slowest; `all` has a place for each GPU, those of open ones in use. */
void jobs_settle(const SimImage *image, Closing *all, const PlanGpu *gpus);
