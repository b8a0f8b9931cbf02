/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a command did with its GPUs, for people and programs: the end of `stoker run` as text, as JSON
 * (docs/run.schema.json), and as a line of JSON per interval. Pure; nothing is decided here. One thread.
 */

#include "base/str.h"
#include "engine/usage/usage.h"

/* The run itself. */
typedef struct UsageRun {
    const char *version;      /* of Stoker */
    const char *command;      /* the program's name without its folder; arguments may hold secrets */
    uint64_t started_real_ns; /* wall clock */
    uint64_t wall_ns, interval_ns;
    int exit_status;          /* as a shell has it: 128 + signal, 126 or 127 where it could not be started */
    int signal;               /* that ended it; 0: none */
    const char *const *notes; /* sentences about the measurement: what is missing and why */
    size_t note_count;
} UsageRun;

/* A few lines per GPU that was used, the worst of it last. `utf8`: characters beyond ASCII. */
void usage_text(const Usage *usage, const UsageRun *run, bool utf8, Str *out);

/* One object, ended by a newline. What is not known is null. */
void usage_json(const Usage *usage, const UsageRun *run, Str *out);

/* One line of the series: what is on each device that the group holds at this tick, right after usage_update with the
 * same node. */
void usage_json_line(const Usage *usage, const Node *node, Str *out);

/* The same for a process that asks about itself: with its pid and name. */
void usage_json_self(const Usage *usage, const Node *node, uint32_t pid, const char *name, Str *out);
