/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A snapshot of the node without an agent: samplers, host facts, detectors, incidents and activities of its own, as in
 * the agent. Blocks, with deadlines. One thread.
 */

#include <uv.h>

#include "base/err.h"
#include "base/cleanup.h"
#include "engine/health/catalogue.h"
#include "model/snapshot.h"
#include "verb/verb.h"

/* Options of the verbs that ask the running agent and, where none runs, look at the node themselves; a verb's options
 * hold it as `look`. */
typedef struct LookOptions {
    const char *control, *library, *root; /* NULL: not given */
    bool alone;
} LookOptions;

#define LOOK_OPTS(Of)                                                                                                  \
    OPT_ROW("alone", OPT_BOOL, Of, look.alone, .help = "look for yourself even where an agent runs"),                  \
        OPT_ROW("control", OPT_STRING, Of, look.control, .metavar = "FILE", .help = "the agent's control socket"),     \
        OPT_ROW("driver-library", OPT_STRING, Of, look.library, .env = "STOKER_DRIVER_LIBRARY", .metavar = "FILE",     \
                .help = "without an agent: the driver's library"),                                                     \
        OPT_ROW("root", OPT_STRING, Of, look.root, .env = "STOKER_ROOT", .metavar = "DIR",                             \
                .help = "without an agent: read /proc and /sys below DIR")

typedef struct LocalNode LocalNode;

/* `library`: of the driver, NULL: as the linker finds it; `root`: NULL: /. `limit_ns`: how long to wait for a GPU that
 * does not answer; 0: a few seconds. */
int local_node_new(const char *library, const char *root, uint64_t limit_ns, LocalNode **ret, Err *err);
void local_node_free(LocalNode *local); /* ends the samplers; accepts NULL */
CLEANUP_POINTER(LocalNode, local_node_free);

/* Reads power, clocks and throttle reasons every 0.1 s, temperatures and processes every 0.2 s, and counters every
 * second: for a test that lasts seconds. Before the first look. */
void local_node_hurry(LocalNode *local);

/* Lets the samplers work until every GPU was tried and rates are known, a few seconds at most. The snapshot is valid
 * until the next call. */
const Snapshot *local_node_wait(LocalNode *local);

/* The loop that it runs, for what else has to be done meanwhile. */
uv_loop_t *local_node_loop(LocalNode *local);

/* local_node_run returns early once `fd`, borrowed, can be read. */
void local_node_watch(LocalNode *local, int fd);
/* XIDs that the driver reported since the last call, or since the start; at most `cap`, the rest is lost. */
size_t local_node_xids(LocalNode *local, XidEvent *out, size_t cap);
/* What the fault catalogue says of one; false: by itself it is no fault. */
bool local_node_explain(const LocalNode *local, const XidEvent *xid, FaultVerdict *ret);

/* For repeated use: lets the samplers work for so long; what is known now, without waiting. */
void local_node_run(LocalNode *local, uint64_t for_ns);
const Snapshot *local_node_read(LocalNode *local);
