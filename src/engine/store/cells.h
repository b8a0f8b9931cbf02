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

typedef struct Cells {
    Block *blocks;
    size_t count;
    Slab *slab;
} Cells;

/* Put cell `number`: the one after the newest, the newest again, or after cells_clear any, which is `first` then. */
void cells_put(const Cells *ring, uint64_t first, uint64_t number, CellMinute cell);
void cells_clear(const Cells *ring);

/* Reads cells that the ring holds, quickly where they are near each other. */
typedef struct CellsReader {
    const Cells *ring;
    uint64_t block; /* the one that `cells` is of; RING_NO_BLOCK */
    BlockCells cells;
} CellsReader;

#define RING_NO_BLOCK UINT64_MAX

void cells_reader_init(CellsReader *reader, const Cells *ring);
CellMinute cells_read(CellsReader *reader, uint64_t number);
