/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A signal to the process that was seen, and to no other that has its number by now. */

#include "base/err.h"
#include "service/top/top.h"

/* `boot_id` is of the kernel whose pid it is, NULL or "" where that is not known: a pid of another machine, or of a
 * simulated one, is not ours. -ESRCH where it has ended, -EPERM where this user may not, -EINVAL where its start or its
 * kernel is not known, -EXDEV where that is another than ours. */
int signal_send(const TopSignal *signal, const char *boot_id, Err *err);
