/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Where the simulator's parts lie (beside the program: in the build tree or where it was installed) and which simulated
 * nodes run. Texts lie in the caller's arena.
 */
#include "base/arena.h"
#include "base/err.h"
#include "sim/core/image.h"

typedef struct SimPlace {
    const char *scenario_dirs[4], *board_dirs[4]; /* NULL-ended; own files (STOKER_SIM_DATA) first */
    const char *libraries;                        /* holds r535, r590, r610 */
    const char *tools;                            /* holds nvidia-smi */
    const char *programs;                         /* holds stoker itself */
} SimPlace;

/* -ENOENT when the simulator is not beside the program. */
int sim_place_find(Arena *arena, SimPlace *ret, Err *err);

/* The folder of images of running nodes, made if missing: private to this user. */
int sim_place_images(Arena *arena, const char **ret, Err *err);

/* Opens the node that is meant: `path` if given, else $STOKER_SIM, else the only one that runs. */
int sim_place_open(Arena *arena, const char *path, SimImage **ret, const char **ret_path, Err *err);

/* What a client is told: the image, the folder of the node's files (NULL: none), strict mode (NULL: off). */
typedef struct SimClient {
    const char *image, *root, *strict;
} SimClient;

/* Environment of a client, "NAME=value", NULL-ended: also library and tool paths. */
const char *const *sim_place_env(Arena *arena, const SimPlace *place, const SimImage *image, const SimClient *client);

/* Prints the same as lines that a POSIX shell evaluates, with `indent` before each. */
void sim_place_exports(Arena *arena, const SimPlace *place, const SimImage *image, const SimClient *client,
                       const char *indent);
