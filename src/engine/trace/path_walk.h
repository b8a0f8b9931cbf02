/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The walk of the critical path: from the end of a window back to its start, always to what the present thing waited
 * for last. Every nanosecond is given to one kind and one name. One thread at a time. */

#include "engine/trace/path_order.h"
#include "engine/trace/report.h"

/* Called for [time - ns, time) going back; `name` is of the profile, PROFILE_NONE where no event was there. */
typedef void (*PathTake)(void *context, TracePathKind kind, uint32_t name, int64_t ns);

/* Walks [from, to). Windows come last first. The parts handed to `take` sum to to - from exactly. */
void path_walk(PathOrder *order, int64_t from, int64_t to, PathTake take, void *context);
