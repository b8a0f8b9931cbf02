/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Runs one of Slurm's commands and reads what it prints, within a deadline. Blocks: not for a loop. */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

/* `argv`: the command, NULL-ended; argv[0] is searched in PATH. Times are printed in UTC where `utc`. -errno, that of
 * exec too; -ETIMEDOUT; -EIO where it ends with a code, then with the first line of what it said. */
int slurm_command_run(const char *const *argv, bool utc, uint64_t timeout_ms, Str *out, Err *err);
