/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A snapshot of the node without an agent: samplers, host facts, detectors, incidents and activities of its own, as in
 * the agent. They live as long as the glance. Blocks, with deadlines. One thread.
 */

#include "base/err.h"
#include "base/cleanup.h"
#include "model/snapshot.h"

typedef struct GlanceOptions {
    const char *library; /* "" : as the linker finds it */
    const char *root;    /* NULL: / */
    uint64_t limit_ns;   /* how long to wait for a GPU that does not answer; 0: a few seconds */
} GlanceOptions;

typedef struct Glance Glance;

int glance_new(const GlanceOptions *options, Glance **ret, Err *err);
void glance_free(Glance *glance); /* ends the samplers; accepts NULL */
CLEANUP_POINTER(Glance, glance_free);

/* Lets the samplers work until every GPU was tried and rates are known, a few seconds at most. The snapshot is valid
 * until the next call. */
const Snapshot *glance_see(Glance *glance);

/* For repeated use: lets the samplers work for so long; what is known now, without waiting. */
void glance_turn(Glance *glance, uint64_t for_ns);
const Snapshot *glance_now(Glance *glance);
