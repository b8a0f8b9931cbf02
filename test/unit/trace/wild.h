/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Random profiles: nested events on a few threads, launches on a few devices and streams that overlap, wait, lack their
 * launch, take no time or start before their call; steps or none. Times are multiples of `unit`. */

#include "build.h"
#include "random.h"

typedef struct WildShape {
    uint64_t seed;
    int64_t unit;   /* ns */
    int64_t length; /* units */
    unsigned int threads, devices, streams;
    bool steps;
    uint64_t shuffle; /* another order of the same events; 0: as they were made */
} WildShape;

/* Fills and seals. */
void wild_build(Build *b, const WildShape *shape);

/* A shape from a seed. */
WildShape wild_shape(uint64_t seed);
