/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Whether a GPU may be tested now. Pure. */

#include <stdbool.h>
#include <stddef.h>

#include "model/snapshot.h"

enum {
    BENCH_HOT_BELOW_C = 15, /* a GPU that is hotter than so many degrees below its slowdown is not loaded */
    BENCH_STOP_BELOW_C = 3, /* a test ends at so many */
};

typedef struct BenchRefuseQuery {
    const Snapshot *snapshot; /* of this node; holdings of an agent, where one answers */
    const NodeGpu *gpu;
    const Reading *instance; /* a MIG device; NULL: the whole GPU */
    bool in_use;             /* also where something runs or is to run */
    bool jobs_only; /* the snapshot is older than one that was asked about already: only its jobs and pods count */
    const char *job, *pod; /* that this test is part of: no reason against it; NULL: none */
} BenchRefuseQuery;

/* True: it must not be tested; `why` gets a sentence. */
bool bench_refuse(const BenchRefuseQuery *query, char *why, size_t cap);

/* The temperature at which the GPU slows itself down; NAN where the driver does not tell. */
double bench_slowdown_c(const Reading *reading);
