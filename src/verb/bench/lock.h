/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Locks of GPUs that are tested: a file for each in verb_runtime_dir (of a simulated node: in its own tree), held with
 * flock and thus free when its process has ended, however it did. The file has the process's number. */

#include "base/arena.h"
#include "base/err.h"

enum { BENCH_LOCKED = 1 };

/* Locks `name` (a UUID). *ret_fd is to be closed at the end. BENCH_LOCKED: another process has it; the error says
 * which. -errno. */
int bench_lock(const char *root, const char *name, Arena *arena, int *ret_fd, Err *err);
