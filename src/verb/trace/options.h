/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Options shared by the verbs about profiles: rows for their tables, and their parsed form. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/opt.h"
#include "engine/trace/pick.h"

typedef struct TraceAskOptions {
    const char *from, *to, *step, *rank, *stream, *device;
    bool cpu, python;
} TraceAskOptions;

/* Rows of a table whose struct `options_type` has a TraceAskOptions `ask`. */
#define TRACE_ASK_OPTS(options_type)                                                                                   \
    {.key = "step",                                                                                                    \
     .flags = OPT_CLI_ONLY,                                                                                            \
     .type = OPT_STRING,                                                                                               \
     .off = offsetof(options_type, ask.step),                                                                          \
     .metavar = "STEP",                                                                                                \
     .help = "these profiler steps alone: a number, a range (3-7), a list, a name, or 'last'"},                        \
        {.key = "from",                                                                                                \
         .flags = OPT_CLI_ONLY,                                                                                        \
         .type = OPT_STRING,                                                                                           \
         .off = offsetof(options_type, ask.from),                                                                      \
         .metavar = "TIME",                                                                                            \
         .help = "from this time on: 1.5s after the profile's first event, or nanoseconds of its own clock"},          \
        {.key = "to",                                                                                                  \
         .flags = OPT_CLI_ONLY,                                                                                        \
         .type = OPT_STRING,                                                                                           \
         .off = offsetof(options_type, ask.to),                                                                        \
         .metavar = "TIME",                                                                                            \
         .help = "before this time"},                                                                                  \
        {.key = "rank",                                                                                                \
         .flags = OPT_CLI_ONLY,                                                                                        \
         .type = OPT_STRING,                                                                                           \
         .off = offsetof(options_type, ask.rank),                                                                      \
         .metavar = "RANKS",                                                                                           \
         .help = "these ranks alone: 0, 0-3, 0,4"},                                                                    \
        {.key = "stream",                                                                                              \
         .flags = OPT_CLI_ONLY,                                                                                        \
         .type = OPT_STRING,                                                                                           \
         .off = offsetof(options_type, ask.stream),                                                                    \
         .metavar = "STREAMS",                                                                                         \
         .help = "of GPU operations those on these streams alone"},                                                    \
        {.key = "device",                                                                                              \
         .flags = OPT_CLI_ONLY,                                                                                        \
         .type = OPT_STRING,                                                                                           \
         .off = offsetof(options_type, ask.device),                                                                    \
         .metavar = "DEVICES",                                                                                         \
         .help = "of GPU operations those on these devices alone"},                                                    \
        {.key = "cpu",                                                                                                 \
         .flags = OPT_CLI_ONLY,                                                                                        \
         .type = OPT_BOOL,                                                                                             \
         .off = offsetof(options_type, ask.cpu),                                                                       \
         .def = "true",                                                                                                \
         .help = "with what CPU threads did; --no-cpu leaves their ranges (steps, annotations) alone"},                \
    {                                                                                                                  \
        .key = "python", .flags = OPT_CLI_ONLY, .type = OPT_BOOL, .off = offsetof(options_type, ask.python),           \
        .def = "true", .help = "with Python functions"                                                                 \
    }

/* -EINVAL names the option. Texts of `options` stay borrowed. */
int trace_ask_parse(const TraceAskOptions *options, TraceAsk *ret, Err *err);
