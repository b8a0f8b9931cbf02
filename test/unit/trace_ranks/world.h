/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A job of several ranks as it might have been, with what really happened known: each rank computes, comes to a
 * collective, and all leave it together. Then what each one's own clock and profiler saw of it. */

#include "kit.h"

enum { WORLD_RANKS_MAX = 16 };
enum { WORLD_COMPUTES, WORLD_IDLES, WORLD_COPIES };

typedef struct World {
    int ranks, steps, layers; /* layers: collectives per step of each kind of group */
    int tensor_parallel;      /* 0: one group of all; else groups of so many, and data-parallel ones across them */
    bool pipeline;            /* stages of one rank each, send and receive between neighbours, then an all_reduce */
    bool sequences;           /* "Seq" was recorded */
    bool same_sizes;          /* all collectives of a step are equally large */
    bool same_kind;           /* all are all_reduces */
    bool steps_recorded;      /* ProfilerSteps are known */
    int64_t compute_ns;       /* before each collective */
    int64_t jitter_ns;        /* of that, uniform to either side, per rank */
    int64_t end_jitter_ns;    /* of ends */
    int late_rank;            /* -1 none */
    int64_t late_ns;          /* before each collective */
    bool late_once;           /* before the first of each step alone, by late_ns * layers */
    int late_by;              /* WORLD_COMPUTES, ... */
    int64_t skew_ns[WORLD_RANKS_MAX];                            /* the rank's clock is ahead by this */
    double drift[WORLD_RANKS_MAX];                               /* ns per ns */
    int64_t base_ns[WORLD_RANKS_MAX];                            /* zero of the file's clock */
    int first_step[WORLD_RANKS_MAX], last_step[WORLD_RANKS_MAX]; /* recorded; last 0: all */
    int drop_percent[WORLD_RANKS_MAX];                           /* of the rows, at random */
    uint64_t seed;
} World;

World world_plain(int ranks); /* 10 steps of 8 layers, 500 us each, 20 us jitter */
void world_make(const World *world, TraceReport *report);
void world_done(TraceReport *report);
