/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Which files are meant by the arguments of `stoker trace`: a file is itself, a folder is every profile in it. */

#include "base/arena.h"
#include "base/err.h"
#include "base/opt.h"
#include "base/vec.h"

typedef VEC(const char *) TraceFiles;

/* Appends to `files`, texts in the arena; within a folder in the order a person counts (rank_2 before rank_10). -errno;
 * -ENOENT where a folder has no profile. */
int trace_files_add(TraceFiles *files, const char *path, Arena *arena, Err *err);
