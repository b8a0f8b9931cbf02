/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Many files to one TraceReport: several at a time, each with threads of its own, and then the results over all
 * ranks. The report does not depend on the number of threads nor on which file finished first. */

#include "engine/trace/analyse.h"
#include "engine/trace/pick.h"
#include "source/profile/input.h"

typedef struct TraceRun {
    const char *path; /* what errors on stderr begin with */
    const ProfilePaths *files;
    const TraceAsk *ask;
    const TraceConfig *config;
    unsigned int threads; /* 0: one per core */
    uint64_t memory;      /* bytes for all profiles, 0: half of what this machine or container has */
    bool progress;
} TraceRun;

/* Where the texts of a file's rank lie: an arena for each of its threads. */
typedef struct TraceArenas {
    Arena *at;
    size_t len;
} TraceArenas;

typedef struct TraceResult {
    TraceReport report;
    TraceArenas *arenas; /* of each file */
    size_t arenas_len;
    size_t analysed, failed;
    bool stopped; /* the user interrupted: the report is empty */
} TraceResult;

/* Half of what this machine or container has: bytes that --memory 0 stands for. */
uint64_t trace_run_memory(void);

/* Prints to stderr why a file could not be read. */
void trace_run(const TraceRun *run, TraceResult *ret);
void trace_result_done(TraceResult *result);
