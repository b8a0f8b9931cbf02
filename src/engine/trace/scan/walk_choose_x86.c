/* SPDX-License-Identifier: Apache-2.0 */
/* Which walks there are on x86-64. One with AVX-512 was no faster than AVX2: values are short. */
#include "base/cleanup.h"
#include "engine/trace/scan/walk.h"

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}

const Walker walkers[] = {
    {.name = "avx2", .event = walk_event_avx2, .usable = has_avx2},
    {.name = "plain", .event = walk_event_plain, .usable = walk_always_usable},
};
const size_t walkers_count = ARRAY_LEN(walkers);
