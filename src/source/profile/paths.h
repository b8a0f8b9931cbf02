/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The profiles that an argument of the command line means. */

#include "base/arena.h"
#include "base/err.h"
#include "base/vec.h"

typedef struct ProfilePaths {
    VEC(const char *) files;
    VEC(const char *) notes; /* what was met in a folder and left out, a sentence each */
} ProfilePaths;

/* Appends the files that an argument means: a file is itself, a folder is every profile in it and in folders below it,
 * by name as a person counts (rank_2 before rank_10). Of the sessions that JAX keeps in plugins/profile the newest one
 * counts. What is no regular file is left out. Texts lie in the arena. -errno; -ENOENT where a folder has no profile,
 * -E2BIG where it has too many folders. */
int profile_paths_add(ProfilePaths *paths, const char *path, Arena *arena, Err *err);
void profile_paths_done(ProfilePaths *paths);
