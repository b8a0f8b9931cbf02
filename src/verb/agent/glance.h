/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A look at the node without an agent: its own eyes, opened for as long as the glance lives. Blocks, with deadlines. */

#include "base/err.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "service/status/status.h"

typedef struct GlanceOptions {
    const char *library; /* "" : as the linker finds it */
    const char *root;    /* NULL: / */
    uint64_t limit_ns;   /* how long to wait for a GPU that does not answer; 0: a few seconds */
} GlanceOptions;

typedef struct Glance Glance;

int glance_new(const GlanceOptions *options, Glance **ret, Err *err);
void glance_free(Glance *glance); /* ends the samplers; accepts NULL */
CLEANUP_POINTER(Glance, glance_free);

/* Lets the samplers work until every GPU was tried and rates are known, at most a few seconds, and appends what is
 * seen. Returns an exit code. */
int glance_look(Glance *glance, bool json, const StatusStyle *style, Str *out);
/* The same for who wants to judge for himself; what comes back is valid until the next look. */
const Node *glance_see(Glance *glance, const Health **ret_health);

/* For who looks again and again: lets the samplers work for so long, and tells what is known now, without waiting. The
 * JSON of these, and of glance_look, has who the processes on the GPUs are. */
void glance_turn(Glance *glance, uint64_t for_ns);
int glance_tell(Glance *glance, bool json, const StatusStyle *style, Str *out);
