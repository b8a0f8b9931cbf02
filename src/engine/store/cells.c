/* SPDX-License-Identifier: Apache-2.0 */
/* Where a cell lies, and when a block begins anew. */

#include "engine/store/cells.h"

void cells_put(const Cells *ring, uint64_t first, uint64_t number, CellMinute cell)
{
    Block *block = &ring->blocks[number / BLOCK_CELLS % ring->count];
    unsigned at = number % BLOCK_CELLS;

    if (at == 0 || number == first)
        block_begin(block, ring->slab, cell);
    else
        block_put(block, ring->slab, at, cell);
}

void cells_clear(const Cells *ring)
{
    for (size_t i = 0; i < ring->count; i++)
        block_clear(&ring->blocks[i], ring->slab);
}

void cells_reader_init(CellsReader *reader, const Cells *ring)
{
    reader->ring = ring;
    reader->block = RING_NO_BLOCK;
}

CellMinute cells_read(CellsReader *reader, uint64_t number)
{
    const Cells *ring = reader->ring;
    uint64_t block = number / BLOCK_CELLS;
    unsigned at = number % BLOCK_CELLS;

    if (block != reader->block) {
        block_read(&ring->blocks[block % ring->count], ring->slab, &reader->cells);
        reader->block = block;
    }
    return (CellMinute){.data = reader->cells.data[at], .bits = reader->cells.bits[at]};
}
