/* SPDX-License-Identifier: Apache-2.0 */
/* Which walks there are on arm64. */
#include "base/cleanup.h"
#include "engine/trace/scan/walk.h"

static bool always_usable(void)
{
    return true;
}

const Walker walkers[] = {
    {.name = "neon", .event = walk_event_neon, .usable = always_usable},
    {.name = "plain", .event = walk_event_plain, .usable = always_usable},
};
const size_t walkers_count = ARRAY_LEN(walkers);
