/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Cells by their numbers on the axis, the newest so many of them: blocks in a circle. As the oldest block goes when a
 * new one begins, there is one more than cells alone would need. Pure, one thread.
 */

#include <stddef.h>
#include <stdint.h>

#include "engine/store/block.h"

/* Blocks for a ring that holds its newest `cells` cells. */
#define RING_BLOCKS(cells) (((cells)-1 + BLOCK_CELLS - 1) / BLOCK_CELLS + 1)

typedef struct Ring {
    Block *blocks;
    size_t count;
    Slab *slab;
} Ring;

/* Put cell `number`: the one after the newest, the newest again, or after ring_clear any, which is `first` then. */
void ring_put(const Ring *ring, uint64_t first, uint64_t number, CellMinute cell);
void ring_clear(const Ring *ring);

/* Reads cells that the ring holds, quickly where they are near each other. */
typedef struct RingReader {
    const Ring *ring;
    uint64_t block; /* the one that `cells` is of; RING_NO_BLOCK */
    BlockCells cells;
} RingReader;

#define RING_NO_BLOCK UINT64_MAX

void ring_reader_init(RingReader *reader, const Ring *ring);
CellMinute ring_read(RingReader *reader, uint64_t number);
