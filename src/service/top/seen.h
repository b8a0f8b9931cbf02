/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What `stoker top` draws from: one look at a node, wherever it came from (the agent, a look of one's own, a recording,
 * the agent's history). Plain and borrowed: made by a source, read by the views. One thread.
 */

#include "model/node.h"
#include "model/process.h"
#include "service/status/status.h"

typedef enum TopSource { TOP_AGENT, TOP_ALONE, TOP_RECORDING, TOP_STORE } TopSource;

typedef struct TopSeen {
    Snapshot status;     /* node, health, incidents, maintenance, owners; node is NULL before the first look */
    ProcessList processes; /* who the pids on the node's GPUs are */
    uint64_t real_ns;      /* the instant that is shown, wall clock */
    uint64_t boot_ns;      /* wall clock of the node's boot, which the processes' starts count from; 0: not known */
    TopSource source;
    const char *where;   /* "agent on node-7", the file's name, ... */
    const char *trouble; /* why there is nothing newer than this, "" where there is: it is shown as stale then */
    uint64_t age_ns;     /* how old it is when trouble is said */
    bool paused;
    double speed;            /* of a replay; 1 live */
    uint64_t from_ns, to_ns; /* of a replay: what it spans; 0 live */
} TopSeen;
