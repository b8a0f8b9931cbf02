/* SPDX-License-Identifier: Apache-2.0 */
/* The one walk of processors that have none of their own. */
#include "base/cleanup.h"
#include "engine/trace/scan/walk.h"

static bool always_usable(void)
{
    return true;
}

const Walker walkers[] = {{.name = "plain", .event = walk_event_plain, .usable = always_usable}};
const size_t walkers_count = ARRAY_LEN(walkers);
