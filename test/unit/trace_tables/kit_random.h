/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Profiles that look random and are the same in every run. One thread. */

#include "kit.h"

typedef struct KitRandom {
    uint64_t state; /* not 0 */
} KitRandom;

/* 0..end-1 */
int64_t kit_below(KitRandom *random, int64_t end);

typedef struct KitRecipe {
    uint64_t seed;
    bool totals; /* of memory */
} KitRecipe;

/* Events of all kinds on a few threads and streams, and sealed; `backwards`: the same ones in the other order. */
void kit_fill_random(Kit *kit, const KitRecipe *recipe, bool backwards);
