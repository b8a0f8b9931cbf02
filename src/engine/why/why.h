/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Why each GPU and MIG instance is as fast as it is: verdicts (model/why.h) from the last minute of its counters, from
 * the processes on it and from what engine/activity says, which it never contradicts. Pure: time is that of the node.
 * One thread.
 */

#include "engine/activity/activity.h"
#include "engine/store/store.h"
#include "model/snapshot.h"
#include "model/why.h"

/* What is remembered from tick to tick: processor time and states of processes. */
typedef struct Whys Whys;

Whys *whys_new(void);
void whys_free(Whys *whys); /* accepts NULL */

/* The metrics that this needs: a bit per MetricId, added to `wanted`. */
void whys_add_wanted(uint64_t wanted[METRIC_SET_WORDS]);

/* Follows the processes and decides for every GPU and instance of the snapshot's node, and writes it there; once per
 * tick, after activities_update. A device is decided again every `every` ticks, and when its activity changed. The
 * verdicts stay valid until the next call. */
void whys_update(Whys *whys, const Snapshot *snapshot, const Store *store, uint32_t every);

/* --- decide.c: the decision; rule.h has the rules. Numbers in, verdicts out. Knows neither store nor snapshot. -----
 */

/* What is read of each second; shares are 0 to 1. NaN: no reading in that second. */
typedef enum WhySeries {
    WHY_OF_SM,
    WHY_OF_UTIL,
    WHY_OF_TENSOR,
    WHY_OF_FP32,
    WHY_OF_FP64,
    WHY_OF_OCCUPANCY,
    WHY_OF_DRAM,
    WHY_OF_COPY,    /* memory controller busy */
    WHY_OF_POWER,   /* of the limit */
    WHY_OF_CLOCK,   /* of the highest SM clock */
    WHY_OF_REASONS, /* bits of nvmlClocksEventReasons, as a number */
    WHY_OF_LINK,    /* NVLink, bytes per second, both directions */
    WHY_OF_PCIE_TX, /* bytes per second */
    WHY_OF_PCIE_RX,
    WHY_OF_PCIE_GEN, /* generation that the link runs at */
    WHY_OF_VIDEO,    /* the busier of encoder and decoder */
    WHY_SERIES_END,
} WhySeries;

/* A process on the GPU. */
typedef struct WhyProcess {
    uint32_t pid;
    const char *owner;            /* whose work it is; NULL: not known */
    char state;                   /* R, S, D, ...; 0: not known */
    double state_s;               /* how long it has been in that state at every look */
    double cores;                 /* processor time per time; NaN: not known, as all below */
    double sm;                    /* its share of the multiprocessors' time by the driver, 0 to 1 */
    double children, child_cores; /* child processes without a GPU (loaders), and their cores together */
    double written;               /* bytes per second */
} WhyProcess;

enum { WHY_STALLS_MAX = 12, WHY_SHARERS_MAX = 8 };

/* A time without work that is over. */
typedef struct WhyStall {
    double ago_s, length_s; /* since it began; how long it was */
    double written;         /* bytes that its processes wrote meanwhile; NaN: not known */
} WhyStall;

/* A network adapter of the node over about the last minute; bytes per second. */
typedef struct WhyAdapter {
    const char *name;
    double sent, received, link; /* link: in one direction; NaN: not known */
    double retries, notices;     /* per second: packets sent again; congestion notices */
} WhyAdapter;

/* Another instance of the same board. */
typedef struct WhySibling {
    const char *owner; /* whose work it is; NULL: not known */
    uint32_t gpu_instance, compute_instance;
    double sm; /* of the board's multiprocessors, mean over its window */
} WhySibling;

/* Another GPU that works for the same job. */
typedef struct WhyPeer {
    uint32_t index;
    double sm; /* mean over its window */
} WhyPeer;

typedef struct WhyInput {
    const Activity *activity;
    bool instance;                                  /* a MIG instance */
    double rows[WHY_SERIES_END][ACTIVITY_WINDOW_S]; /* the last minute, the oldest second first */
    double pcie_lanes;
    double limit_share;                            /* power limit in force, of the default one */
    double memory_used, memory_total, memory_rise; /* bytes; bytes per second while it grows steadily, else 0 */
    double io_pressure, cpu_pressure;              /* share of the time in which some task of the node waited (PSI) */
    double board_sm,
        board_power; /* of an instance: its part of the board's multiprocessors; power of the board's limit */
    size_t process_count, peer_count, stall_count, sibling_count, adapter_count;
    const WhyProcess *processes;
    const WhyPeer *peers;
    const WhyStall *stalls; /* the oldest first */
    const WhySibling *siblings;
    const WhyAdapter *adapters; /* none: their counters are not read */
} WhyInput;

void why_decide(const WhyInput *input, Why *ret);

/* Whether nothing runs in a second with these readings (NaN: none), and whether so long a time of it is a stall. */
bool why_is_pause(double sm, double util);
bool why_is_stall(double seconds);
