/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Where the simulator's parts lie (beside the program: in the build tree or where it was installed), which simulated
 * nodes run, and starting one. Texts lie in the caller's arena.
 */
#include "base/arena.h"
#include "base/err.h"
#include "sim/core/image.h"
#include "verb/verb.h"

typedef struct SimPlace {
    const char *scenario_dirs[4], *board_dirs[4]; /* NULL-ended; own files (STOKER_SIM_DATA) first */
    const char *libraries;                        /* holds r535, r550, r590, r610 */
    const char *tools;                            /* holds nvidia-smi */
    const char *programs;                         /* holds stoker itself */
} SimPlace;

/* -ENOENT when the simulator is not beside the program. */
int sim_place_find(Arena *arena, SimPlace *ret, Err *err);

/* Opens `path` if given, else $STOKER_SIM, else the only one that runs. */
int sim_place_open(Arena *arena, const char *path, SimImage **ret, Err *err);
/* The row that says which; `Of` has a member `image`. */
#define SIM_IMAGE_OPT(Of)                                                                                              \
    OPT_ROW("image", OPT_STRING, Of, image, .metavar = "FILE",                                                         \
            .help = "the node's image; default: $STOKER_SIM or the only node that runs")

/* What a client needs: the image, the folder of the node's files (NULL: none), strict mode (NULL: off). */
typedef struct SimClient {
    const char *image, *root, *strict;
} SimClient;

/* The driver's library that answers for this node. */
const char *sim_place_library(Arena *arena, const SimPlace *place, const SimImage *image);

/* Environment of a client, "NAME=value", NULL-ended: also library and tool paths. */
const char *const *sim_place_env(Arena *arena, const SimPlace *place, const SimImage *image, const SimClient *client);

/* Prints the same as lines that a POSIX shell evaluates, with `indent` before each. */
void sim_place_exports(Arena *arena, const SimPlace *place, const SimImage *image, const SimClient *client,
                       const char *indent);

typedef struct StartOptions {
    const char *image, *start, *driver, *strict;
    uint64_t seed;
    double speed;
} StartOptions;

/* Rows of `sim run` and `sim env`; struct `owner` embeds a StartOptions as `member`. */
#define START_OPTS(owner, member)                                                                                      \
    OPT_ROW("speed", OPT_DOUBLE, owner, member.speed, .def = "1", .min = 0, .max = 1e6, .metavar = "N",                \
            .help = "virtual seconds per real second; 0: paused"),                                                     \
        OPT_ROW("start", OPT_STRING, owner, member.start, .metavar = "TIME",                                           \
                .help = "wall time at which the scenario starts (RFC 3339), or 'now'; default: as it says"),           \
        OPT_ROW("seed", OPT_UINT, owner, member.seed, .metavar = "N",                                                  \
                .help = "other serial numbers, noise and spread; default: the scenario's"),                            \
        OPT_ROW("driver", OPT_STRING, owner, member.driver, .metavar = "VERSION",                                      \
                .help = "driver version, e.g. 535.261.03; default: the scenario's"),                                   \
        OPT_ROW("image", OPT_STRING, owner, member.image, .metavar = "FILE",                                           \
                .help = "where the node's image is made; default: a folder of this user in memory"),                   \
        OPT_ROW("strict", OPT_STRING, owner, member.strict, .metavar = "FILE",                                         \
                .help = "report what clients do wrong to FILE, or to 'stderr'")

/* Compiles a scenario; its clock stands at 0 until the caller sets o->speed. 0, or an exit code after an error was
 * printed. `running` names the image after this process, so that it goes with it. */
int sim_start(VerbCall *call, const StartOptions *o, const char *scenario, bool running, const SimPlace *place,
              SimImage **ret, const char **ret_path);
