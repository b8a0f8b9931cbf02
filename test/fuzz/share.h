/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Some checks of a target cost many times what reading the input does. While fuzzing they are made for a share of the
 * inputs, drawn by all of an input's bytes, so that the same input is always treated alike; a replay (FUZZ_REPLAY, set
 * by the build) makes every one. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline uint32_t share_dice(const uint8_t *data, size_t size)
{
    uint64_t hash = size;

    for (size_t i = 0; i < size; i++)
        hash = (hash ^ data[i]) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(hash >> 32);
}

/* True for one of `of` inputs; each call draws anew. */
static inline bool share_drawn(uint32_t *dice, uint32_t of)
{
    *dice = *dice * 1664525 + 1013904223;
    return FUZZ_REPLAY || (*dice >> 8) % of == 0;
}
