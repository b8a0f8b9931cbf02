/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Processes of this machine: their command lines, and signals to them. Command lines are read by a thread of its own,
 * because /proc/PID/cmdline waits for a lock that a process hanging in the driver may hold; then only command lines are
 * missing. For one thread.
 */

#include "base/err.h"
#include "model/process.h"
#include "service/top/top.h"

typedef struct CommandLines CommandLines;

CommandLines *command_lines_new(const char *root); /* as process_identify takes it */
/* Leaves a thread that hangs behind, with what it uses. Accepts NULL. */
void command_lines_free(CommandLines *commands);

/* Writes the known ones into the list and asks for the others. Does nothing where boot_id is not that of the root's own
 * kernel: the pids are another machine's. */
void command_lines_fill(CommandLines *commands, const char *boot_id, ProcessOwner *list, size_t count);

/* Sends a signal to the process that was seen, and to no other that has its pid by now. `boot_id` is of the kernel that
 * counts the pid, NULL or "" where unknown. -ESRCH where the process has ended, -EPERM where this user may not, -EINVAL
 * where its start or its kernel is unknown, -EXDEV where the kernel is not ours. */
int process_signal(const TopSignal *signal, const char *boot_id, Err *err);
