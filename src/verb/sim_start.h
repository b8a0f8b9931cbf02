/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What `sim run` and `sim env` share: the options that shape a node, and starting it. */
#include "verb/sim_place.h"
#include "verb/verb.h"

typedef struct StartOptions {
    const char *image, *start, *driver, *strict;
    uint64_t seed;
    double speed;
} StartOptions;

/* Rows for the option tables; struct `owner` embeds a StartOptions as `member`. */
#define START_OPTS(owner, member)                                                                                      \
    {.key = "speed",                                                                                                   \
     .type = OPT_DOUBLE,                                                                                               \
     .flags = OPT_CLI_ONLY,                                                                                            \
     .off = offsetof(owner, member.speed),                                                                             \
     .def = "1",                                                                                                       \
     .min = 0,                                                                                                         \
     .max = 1e6,                                                                                                       \
     .metavar = "N",                                                                                                   \
     .help = "virtual seconds per real second; 0: paused"},                                                            \
        {.key = "start",                                                                                               \
         .type = OPT_STRING,                                                                                           \
         .flags = OPT_CLI_ONLY,                                                                                        \
         .off = offsetof(owner, member.start),                                                                         \
         .metavar = "TIME",                                                                                            \
         .help = "wall time at which the scenario starts (RFC 3339), or 'now'; default: as it says"},                  \
        {.key = "seed",                                                                                                \
         .type = OPT_UINT,                                                                                             \
         .flags = OPT_CLI_ONLY,                                                                                        \
         .off = offsetof(owner, member.seed),                                                                          \
         .metavar = "N",                                                                                               \
         .help = "other serial numbers, noise and spread; default: the scenario's"},                                   \
        {.key = "driver",                                                                                              \
         .type = OPT_STRING,                                                                                           \
         .flags = OPT_CLI_ONLY,                                                                                        \
         .off = offsetof(owner, member.driver),                                                                        \
         .metavar = "VERSION",                                                                                         \
         .help = "driver version, e.g. 535.261.03; default: the scenario's"},                                          \
        {.key = "image",                                                                                               \
         .type = OPT_STRING,                                                                                           \
         .flags = OPT_CLI_ONLY,                                                                                        \
         .off = offsetof(owner, member.image),                                                                         \
         .metavar = "FILE",                                                                                            \
         .help = "where the node's image is made; default: a folder of this user in memory"},                          \
    {                                                                                                                  \
        .key = "strict", .flags = OPT_CLI_ONLY, .type = OPT_STRING, .off = offsetof(owner, member.strict),             \
        .metavar = "FILE", .help = "report what clients do wrong to FILE, or to 'stderr'"                              \
    }

/* Compiles a scenario; its clock stands at 0 until the caller sets o->speed. 0, or an exit code after an error was
 * printed. `running` names the image after this process, so that it goes with it. */
int sim_start(VerbCall *call, const StartOptions *o, const char *scenario, bool running, const SimPlace *place,
              SimImage **ret, const char **ret_path);
