/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The command lines of processes, read by a thread of its own: /proc/PID/cmdline waits for a lock that a process
 * hanging in the driver may hold, and then only command lines are missing. For one thread, but for what its own does.
 */

#include "model/process.h"

typedef struct Commands Commands;

Commands *commands_new(const char *root); /* as process_who takes it */
/* Leaves a thread that hangs behind, with what it uses. Accepts NULL. */
void commands_free(Commands *commands);

/* Writes those that are known into the list and asks for the others. Nothing is done where the pids are not those of
 * the root's own kernel, which boot_id tells. */
void commands_put(Commands *commands, const char *boot_id, ProcessOwner *list, size_t count);
