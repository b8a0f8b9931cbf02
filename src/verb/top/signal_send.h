/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A signal to the process that was seen, and to no other that has its number by now. */

#include "base/err.h"
#include "service/top/top.h"

/* -ESRCH where it has ended, -EPERM where this user may not, -EINVAL where its start is not known. */
int signal_send(const TopSignal *signal, Err *err);
