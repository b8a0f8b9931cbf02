/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A snapshot of the node without an agent: samplers, host facts, detectors, incidents and activities of its own, as in
 * the agent. Blocks, with deadlines. One thread.
 */

#include "base/err.h"
#include "base/cleanup.h"
#include "model/snapshot.h"

typedef struct LocalNodeOptions {
    const char *library; /* "" : as the linker finds it */
    const char *root;    /* NULL: / */
    uint64_t limit_ns;   /* how long to wait for a GPU that does not answer; 0: a few seconds */
} LocalNodeOptions;

typedef struct LocalNode LocalNode;

int local_node_new(const LocalNodeOptions *options, LocalNode **ret, Err *err);
void local_node_free(LocalNode *local); /* ends the samplers; accepts NULL */
CLEANUP_POINTER(LocalNode, local_node_free);

/* Lets the samplers work until every GPU was tried and rates are known, a few seconds at most. The snapshot is valid
 * until the next call. */
const Snapshot *local_node_wait(LocalNode *local);

/* For repeated use: lets the samplers work for so long; what is known now, without waiting. */
void local_node_run(LocalNode *local, uint64_t for_ns);
const Snapshot *local_node_read(LocalNode *local);
