/* SPDX-License-Identifier: Apache-2.0 */
/* Cells to words of one bit each and back. A row is such a word at the place of its bit. */

#include "engine/store/block.h"

#include <assert.h>
#include <string.h>

/* The words of a block, one after the other. */
typedef struct Walk {
    const Slab *slab;
    uint32_t unit;
    unsigned count;  /* words taken of this unit */
    uint64_t *words; /* of this unit */
} Walk;

static Walk walk_from(const Slab *slab, uint32_t unit)
{
    return (Walk){.slab = slab, .unit = unit, .words = slab->units[unit].word};
}

static inline uint64_t *next_word(Walk *walk)
{
    if (walk->count == SLAB_WORDS)
        *walk = walk_from(walk->slab, walk->slab->next[walk->unit]);
    return &walk->words[walk->count++];
}

static size_t units_of(uint64_t data_varies, unsigned bits_varies)
{
    int words = __builtin_popcountll(data_varies) + __builtin_popcount(bits_varies);

    return ((size_t)words + SLAB_WORDS - 1) / SLAB_WORDS;
}

/* Rows of bits that are the same in all cells become 0. */
static void load_rows(Walk *walk, uint64_t varies, uint64_t rows[64])
{
    memset(rows, 0, 64 * sizeof *rows);
    for (; varies; varies &= varies - 1)
        rows[__builtin_ctzll(varies)] = *next_word(walk);
}

static void save_rows(Walk *walk, uint64_t varies, const uint64_t rows[64])
{
    for (; varies; varies &= varies - 1)
        *next_word(walk) = rows[__builtin_ctzll(varies)];
}

/* Makes room for bits that were the same in all cells until now. */
static void widen_block(Block *block, Slab *slab, uint64_t data_varies, uint16_t bits_varies)
{
    size_t more = units_of(data_varies, bits_varies) - units_of(block->data_varies, block->bits_varies);
    Walk walk = walk_from(slab, block->unit);
    uint64_t data[64], bits[64];

    load_rows(&walk, block->data_varies, data);
    load_rows(&walk, block->bits_varies, bits);
    for (; more > 0; more--) {
        uint32_t unit = slab_take(slab);

        slab->next[unit] = block->unit;
        block->unit = unit;
    }
    block->data_varies = data_varies;
    block->bits_varies = bits_varies;
    walk = walk_from(slab, block->unit);
    save_rows(&walk, data_varies, data);
    save_rows(&walk, bits_varies, bits);
}

/* Returns where the walk has come to. By value, since the walk then stays in registers: twice as fast. */
static Walk put_bits(Walk walk, uint64_t varies, uint64_t differs, unsigned at)
{
    for (; varies; varies &= varies - 1) {
        uint64_t *word = next_word(&walk);

        *word = (*word & ~(UINT64_C(1) << at)) | (differs >> __builtin_ctzll(varies) & 1) << at;
    }
    return walk;
}

void block_put(Block *block, Slab *slab, unsigned at, CellMinute cell)
{
    uint64_t data = cell.data ^ block->data;
    uint16_t bits = cell.bits ^ block->bits;
    Walk walk;

    assert(at < BLOCK_CELLS);
    if (block->data_varies == 0 && block->bits_varies == 0 && data == 0 && bits == 0)
        return;
    if ((data & ~block->data_varies) || (bits & ~block->bits_varies))
        widen_block(block, slab, data | block->data_varies, bits | block->bits_varies);
    walk = put_bits(walk_from(slab, block->unit), block->data_varies, data, at);
    put_bits(walk, block->bits_varies, bits, at);
}

void block_begin(Block *block, Slab *slab, CellMinute cell)
{
    block_clear(block, slab);
    block->data = cell.data;
    block->bits = cell.bits;
}

void block_clear(Block *block, Slab *slab)
{
    slab_give(slab, block->unit, units_of(block->data_varies, block->bits_varies));
    *block = (Block){.data = 0};
}

/* Bit c of row r becomes bit r of row c: in each square the two quarters beside the diagonal change places, then the
 * same within each quarter. */
static void transpose_bits(uint64_t rows[64])
{
    uint64_t low = UINT32_MAX; /* the columns that are the low half of a square */

    for (unsigned half = 32; half > 0; half /= 2, low ^= low << half)
        for (unsigned square = 0; square < 64; square += 2 * half)
            for (unsigned r = square; r < square + half; r++) {
                uint64_t change = (rows[r] >> half ^ rows[r + half]) & low;

                rows[r] ^= change << half;
                rows[r + half] ^= change;
            }
}

void block_read(const Block *block, const Slab *slab, BlockCells *ret)
{
    Walk walk = walk_from(slab, block->unit);
    uint64_t bits[64];

    load_rows(&walk, block->data_varies, ret->data);
    if (block->data_varies)
        transpose_bits(ret->data);
    load_rows(&walk, block->bits_varies, bits);
    if (block->bits_varies)
        transpose_bits(bits);
    for (unsigned i = 0; i < BLOCK_CELLS; i++) {
        ret->data[i] ^= block->data;
        ret->bits[i] = block->bits ^ (uint16_t)bits[i];
    }
}
