/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Many files to one TraceReport: several at a time, each with threads of its own, and then the results over all
 * ranks. The report does not depend on the number of threads nor on which file finished first. */

#include <stddef.h>

#include "base/opt.h"
#include "engine/trace/analyse.h"
#include "engine/trace/pick.h"
#include "source/profile/paths.h"

/* Options shared by the verbs about profiles: rows for their tables, and their parsed form. */

typedef struct TraceAskOptions {
    const char *from, *to, *step, *rank, *stream, *device;
    bool cpu, python;
} TraceAskOptions;

/* Rows of a table whose struct `options_type` has a TraceAskOptions `ask`. */
#define TRACE_ASK_OPTS(options_type)                                                                                   \
    OPT_ROW("step", OPT_STRING, options_type, ask.step, .metavar = "STEP",                                             \
            .help = "these profiler steps alone: a number, a range (3-7), a list, a name, or 'last'"),                 \
        OPT_ROW("from", OPT_STRING, options_type, ask.from, .metavar = "TIME",                                         \
                .help = "from this time on: 1.5s after the profile's first event, or nanoseconds of its own clock"),   \
        OPT_ROW("to", OPT_STRING, options_type, ask.to, .metavar = "TIME", .help = "before this time"),                \
        OPT_ROW("rank", OPT_STRING, options_type, ask.rank, .metavar = "RANKS",                                        \
                .help = "these ranks alone: 0, 0-3, 0,4"),                                                             \
        OPT_ROW("stream", OPT_STRING, options_type, ask.stream, .metavar = "STREAMS",                                  \
                .help = "of GPU operations those on these streams alone"),                                             \
        OPT_ROW("device", OPT_STRING, options_type, ask.device, .metavar = "DEVICES",                                  \
                .help = "of GPU operations those on these devices alone"),                                             \
        OPT_ROW("cpu", OPT_BOOL, options_type, ask.cpu, .def = "true",                                                 \
                .help = "with what CPU threads did; --no-cpu leaves their ranges (steps, annotations) alone"),         \
        OPT_ROW("python", OPT_BOOL, options_type, ask.python, .def = "true", .help = "with Python functions")

/* -EINVAL names the option. Texts of `options` stay borrowed. */
int trace_ask_parse(const TraceAskOptions *options, TraceAsk *ret, Err *err);

typedef struct TraceRun {
    const char *path; /* what errors on stderr begin with */
    const ProfilePaths *files;
    const TraceAsk *ask;
    const TraceConfig *config;
    unsigned int threads; /* 0: one per core */
    uint64_t memory;      /* bytes for all profiles, 0: half of what this machine or container has */
    bool progress;
} TraceRun;

typedef struct TraceResult {
    TraceReport report;
    Arena *arenas; /* where the texts of each file's rank lie: one for each thread that may be at it */
    size_t arenas_len;
    size_t analysed, failed;
    bool stopped; /* the user interrupted: the report is empty */
} TraceResult;

/* Half of what this machine or container has: bytes that --memory 0 stands for. */
uint64_t trace_run_memory(void);

/* Prints to stderr why a file could not be read. */
void trace_run(const TraceRun *run, TraceResult *ret);
void trace_result_done(TraceResult *result);
