/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Numbers that look random and are the same in every run. One thread. */

#include <stdint.h>

typedef struct Random {
    uint64_t state; /* not 0 */
} Random;

static inline uint64_t random_below(Random *random, uint64_t end)
{
    random->state ^= random->state << 13;
    random->state ^= random->state >> 7;
    random->state ^= random->state << 17;
    return (random->state * UINT64_C(0x2545f4914f6cdd1d) >> 16) % end;
}

static inline int random_once(Random *random, uint64_t every)
{
    return random_below(random, every) == 0;
}
