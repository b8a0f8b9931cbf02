/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Inside engine/place: numbers by chance that are the same for the same seed (splitmix64). */

#include <stdint.h>

/* 0 < x <= 1; `state` begins with the seed. */
static inline double chance_draw(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    z ^= z >> 31;
    return (double)((z >> 11) + 1) / 9007199254740992.;
}
