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
    OPT_ROW("alone", OPT_BOOL, Of, look.alone, .help = "look for yourself even where an agent runs"),                  \
        OPT_ROW("control", OPT_STRING, Of, look.control, .metavar = "FILE", .help = "the agent's control socket"),     \
        OPT_ROW("driver-library", OPT_STRING, Of, look.library, .env = "STOKER_DRIVER_LIBRARY", .metavar = "FILE",     \
                .help = "without an agent: the driver's library"),                                                     \
        OPT_ROW("root", OPT_STRING, Of, look.root, .env = "STOKER_ROOT", .metavar = "DIR",                             \
                .help = "without an agent: read /proc and /sys below DIR")
