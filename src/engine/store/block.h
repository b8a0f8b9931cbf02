/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * 64 cells side by side in a ring, kept as the first of them and a word for each bit that is not the same in all: bit k
 * of that word says whether the bit differs in cell k. So cells that are all the same take no words at all, small
 * integers about a dozen, values with arbitrary fractions nearly all; and every cell is kept exactly. The words lie in
 * units of the slab, chained from `unit` on, by rising bit. Zeroed memory is a block without cells. Pure, one thread.
 */

#include <stdint.h>

#include "engine/store/cell.h"
#include "engine/store/slab.h"

enum {
    BLOCK_CELLS = 64,
    BLOCK_DATA_BITS = 64,
    BLOCK_UNITS_WIDE = BLOCK_DATA_BITS / SLAB_WORDS,                           /* of cells whose 16 bits are always 0 */
    BLOCK_UNITS_WIDEST = (BLOCK_DATA_BITS + 16 + SLAB_WORDS - 1) / SLAB_WORDS, /* of any cells */
};

typedef struct Block {
    uint64_t data, data_varies; /* of the first cell; bit b is set: not the same in all cells */
    uint16_t bits, bits_varies; /* the same for CellMinute.bits */
    uint32_t unit;              /* only where something varies */
} Block;

typedef struct BlockCells {
    uint64_t data[BLOCK_CELLS];
    uint16_t bits[BLOCK_CELLS];
} BlockCells;

/* Forgets all cells; all are this one now. */
void block_begin(Block *block, Slab *slab, CellMinute cell);
void block_put(Block *block, Slab *slab, unsigned at, CellMinute cell);
void block_read(const Block *block, const Slab *slab, BlockCells *ret);
void block_clear(Block *block, Slab *slab);
