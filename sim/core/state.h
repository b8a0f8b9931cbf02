/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Reading the node: pure functions of the image and a virtual time. Any thread of any process may call them; they take
 * no lock unless a writer died in the middle of its work.
 */
#include "sim/core/image.h"

enum {
    SIM_TICK_NS = 20000000,    /* sensors refresh every 20 ms: readings within a tick are equal */
    SIM_WINDOW_NS = 160000000, /* utilisation is a mean over the last 160 ms */
};

/* One process on the GPU. */
typedef struct SimProc {
    int32_t work, gi, ci;
    uint32_t pid, type, uid; /* SimProcType */
    char name[32];
    double mem_mib, peak_mib;
    uint64_t started_ns;
    double win[SIM_CH_COUNT]; /* mean activity over the last window, GPU-relative */
    double cum[SIM_CH_COUNT]; /* integrals since its start, GPU-relative */
} SimProc;

/* Everything about one GPU at one instant. */
typedef struct SimNow {
    uint64_t t_ns;              /* time of the readings: the tick, or the change of condition within it */
    uint64_t from_ns, until_ns; /* virtual times for which they hold: [from, until) */
    uint32_t plan_seq;          /* of the plan they were read from */
    SimCond cond;               /* settings, with all counters brought forward to t_ns */
    double cum[SIM_CH_COUNT];   /* integrals since t = 0, GPU-relative; never decrease */
    double win[SIM_CH_COUNT];   /* means over the last window, 0..1 or bytes per second */
    double act[SIM_CH_COUNT];   /* at this very instant */
    double watt, watt_mean;     /* means of the last tick and of the last second; at most the enforced limit */
    double energy_mj;           /* since driver load or reset; its slope is the power */
    double temp_c, mem_temp_c, limit_w;
    uint32_t sm_mhz, mem_mhz, video_mhz, pstate;
    uint32_t pcie_gen, pcie_width;    /* now: the link saves power when idle */
    uint32_t fan_percent, fan_target; /* as it turns, as it should */
    uint64_t reasons;                 /* NVML clocks event reasons */
    double throttle_ns[8];            /* as in SimSeg, at t_ns */
    double used_mib;                  /* by processes and their contexts, without the driver's reservation */
    uint32_t proc_count;
    SimProc proc[SIM_SLOT_MAX];
} SimNow;

/* The state of `gpu` (0..gpu_count-1) at virtual time t_ns: sensors of the tick it lies in, conditions as of now. */
void sim_state_at(SimImage *image, uint32_t gpu, uint64_t t_ns, SimNow *ret);

/* The same for now, cached per thread until the tick or the plan changes. The pointer is valid until the next call by
 * this thread for the same gpu. */
const SimNow *sim_state_now(SimImage *image, uint32_t gpu);

/* Integrals at t_ns (not rounded), GPU-relative. */
void sim_cum_at(SimImage *image, uint32_t gpu, uint64_t t_ns, double ret[SIM_CH_COUNT]);

/* Integrals of one GPU instance at t_ns (not rounded), relative to that instance. */
void sim_gi_cum_at(SimImage *image, uint32_t gpu, uint32_t gi_id, uint64_t t_ns, double ret[SIM_CH_COUNT]);

/* The node's condition (driver, fabric manager, hang rules) at t_ns. */
void sim_node_at(SimImage *image, uint64_t t_ns, SimNodeSeg *ret);

/* The first event with index >= from and time <= until; copies it and returns its index + 1, or 0 when there is none
 * yet. *ret_next_ns gets the time of the next event after `until` (SIM_FOREVER when none). */
uint32_t sim_event_next(SimImage *image, uint32_t from, uint64_t until_ns, SimEvent *ret, uint64_t *ret_next_ns);

/* Index of the first event later than t_ns. */
uint32_t sim_event_index_after(SimImage *image, uint64_t t_ns);

/* The pid shown for a work: the live one if lent, else the fixed one. */
uint32_t sim_work_pid(SimImage *image, int32_t work);
