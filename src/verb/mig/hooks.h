/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Hooks of mig-parted's format v1: programs that run around the steps of an apply. Blocks. One thread. */

#include "base/arena.h"
#include "base/err.h"
#include "base/subproc.h"

typedef enum MigHookPoint { MIG_HOOK_START, MIG_HOOK_MODE, MIG_HOOK_CONFIG, MIG_HOOK_EXIT, MIG_HOOK_END } MigHookPoint;

typedef struct MigHooks MigHooks;

/* Reads {version: v1, hooks: {...}}; the result lies in the arena. -EINVAL with the place. */
int mig_hooks_read(const char *path, Arena *arena, const MigHooks **ret, Err *err);

/* Runs the programs of a point in their order, until one fails: -EIO, with its name. `hooks` NULL: none. */
int mig_hooks_run(const MigHooks *hooks, MigHookPoint point, Err *err);

/* Runs one program to its end: -EIO where it fails, or takes longer and had to be ended. With spec->pipe_out its output
 * goes to stderr where it fails, else nowhere. */
int mig_run_program(const SubprocSpec *spec, uint64_t timeout_ms, Err *err);
