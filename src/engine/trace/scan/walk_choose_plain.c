/* SPDX-License-Identifier: Apache-2.0 */
/* The one walk of processors that have none of their own. */
#include "base/cleanup.h"
#include "engine/trace/scan/walk.h"

const Walker walkers[] = {{.name = "plain", .event = walk_event_plain, .usable = walk_always_usable}};
const size_t walkers_count = ARRAY_LEN(walkers);
