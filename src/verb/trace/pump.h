/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reads a stream ahead in a thread of its own, so that unpacking and parsing go on at the same time. The ring is small
 * enough to stay in the cache. One thread reads from a pump. */

#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

enum { PUMP_BLOCK = 256 * 1024, PUMP_BLOCKS = 4 };

typedef struct Pump Pump;

/* As read(2): how many bytes, 0 at the end, -errno. Called from the pump's thread alone. */
typedef ssize_t (*PumpRead)(void *context, void *buffer, size_t len, Err *err);

/* NULL where no thread can be had: the caller reads for itself then. */
Pump *pump_start(PumpRead read, void *context);
ssize_t pump_read(Pump *pump, void *buffer, size_t len, Err *err);

/* Ends the thread; a read that is under way is waited for. Accepts NULL. */
void pump_stop(Pump *pump);
