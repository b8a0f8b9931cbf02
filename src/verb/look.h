/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What verbs have in common that ask the running agent and, where none runs, look at the node themselves. */

#include <stdbool.h>

#include "verb/verb.h"

/* Options that all these verbs have; a verb's options hold it as `look`. */
typedef struct LookOptions {
    const char *control, *library, *root; /* NULL: not given */
    bool alone;
} LookOptions;

#define LOOK_OPTS(Of)                                                                                                  \
    {.key = "alone",                                                                                                   \
     .flags = OPT_CLI_ONLY,                                                                                            \
     .type = OPT_BOOL,                                                                                                 \
     .off = offsetof(Of, look.alone),                                                                                  \
     .help = "look for yourself even where an agent runs"},                                                            \
        {.key = "control",                                                                                             \
         .flags = OPT_CLI_ONLY,                                                                                        \
         .type = OPT_STRING,                                                                                           \
         .off = offsetof(Of, look.control),                                                                            \
         .metavar = "FILE",                                                                                            \
         .help = "the agent's control socket"},                                                                        \
        {.key = "driver-library",                                                                                      \
         .flags = OPT_CLI_ONLY,                                                                                        \
         .type = OPT_STRING,                                                                                           \
         .off = offsetof(Of, look.library),                                                                            \
         .env = "STOKER_DRIVER_LIBRARY",                                                                               \
         .metavar = "FILE",                                                                                            \
         .help = "without an agent: the driver's library"},                                                            \
    {                                                                                                                  \
        .key = "root", .flags = OPT_CLI_ONLY, .type = OPT_STRING, .off = offsetof(Of, look.root),                      \
        .env = "STOKER_ROOT", .metavar = "DIR", .help = "without an agent: read /proc and /sys below DIR"              \
    }
