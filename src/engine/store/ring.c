/* SPDX-License-Identifier: Apache-2.0 */
/* Packing seconds and minutes into cells, cells into words of one bit each, and back. A row is such a word at the place
 * of its bit. */
#include "engine/store/ring.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

uint32_t slab_alloc(Slab *slab)
{
    uint32_t unit = slab->free;

    slab->used++;
    if (unit == SLAB_NONE) {
        assert(slab->touched < slab->count);
        return slab->touched++;
    }
    slab->free = slab->next[unit];
    return unit;
}

void slab_release(Slab *slab, uint32_t unit, size_t count)
{
    for (; count > 0; count--) {
        uint32_t after = slab->next[unit];

        slab->next[unit] = slab->free;
        slab->free = unit;
        slab->used--;
        unit = after;
    }
}

enum { VALID_BITS = 6, PLACE_MAX = 1023 };

#define ABSENT_BITS UINT64_C(0x7ff8000000000000) /* a quiet NaN */
#define REASON_BITS UINT64_C(0xff)

static uint64_t bits_of(double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double double_of(uint64_t bits)
{
    double value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

uint64_t cell_second_value(double value)
{
    return isnan(value) ? cell_second_absence(ABSENCE_NO_DATA) : bits_of(value);
}

uint64_t cell_second_absence(Absence why)
{
    return ABSENT_BITS | why;
}

bool cell_second_read(uint64_t cell, double *ret_value, Absence *ret_why)
{
    double value = double_of(cell);

    if (isnan(value)) {
        *ret_why = (Absence)(cell & REASON_BITS);
        return false;
    }
    *ret_value = value;
    return true;
}

/* The nearest float. A finite value stays finite. */
static float float_of(double value)
{
    if (isfinite(value) && fabs(value) > (double)FLT_MAX)
        return value < 0 ? -FLT_MAX : FLT_MAX;
    return (float)value;
}

/* The place of the mean between low and high, in steps. With an infinite end it is one of the ends. */
static unsigned place_of(double mean, double low, double high)
{
    double span = high - low;

    if (!(span > 0) || !isfinite(span))
        return mean >= high ? PLACE_MAX : 0;
    if (mean <= low)
        return 0;
    if (mean >= high)
        return PLACE_MAX;
    return (unsigned)lround((mean - low) / span * PLACE_MAX);
}

static uint16_t minute_bits(unsigned extra, unsigned valid_seconds)
{
    assert(valid_seconds <= 60 && extra <= PLACE_MAX);
    return (uint16_t)(extra << VALID_BITS | valid_seconds);
}

CellMinute cell_gauge(const CellGauge *gauge, unsigned valid_seconds)
{
    float ends[2] = {float_of(gauge->min), float_of(gauge->max)};
    CellMinute cell;

    memcpy(&cell.data, ends, sizeof cell.data);
    cell.bits = minute_bits(place_of(gauge->mean, (double)ends[0], (double)ends[1]), valid_seconds);
    return cell;
}

CellGauge cell_gauge_read(CellMinute cell)
{
    unsigned place = cell.bits >> VALID_BITS;
    float ends[2];
    CellGauge gauge;

    memcpy(ends, &cell.data, sizeof ends);
    gauge = (CellGauge){.min = (double)ends[0], .max = (double)ends[1]};
    if (place == 0)
        gauge.mean = gauge.min;
    else if (place == PLACE_MAX)
        gauge.mean = gauge.max;
    else
        gauge.mean = gauge.min + (gauge.max - gauge.min) * place / PLACE_MAX;
    return gauge;
}

CellMinute cell_counter(double last, bool jumped, unsigned valid_seconds)
{
    return (CellMinute){.data = bits_of(last), .bits = minute_bits(jumped, valid_seconds)};
}

double cell_counter_read(CellMinute cell, bool *ret_jumped)
{
    *ret_jumped = cell.bits >> VALID_BITS != 0;
    return double_of(cell.data);
}

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
        uint32_t unit = slab_alloc(slab);

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
    slab_release(slab, block->unit, units_of(block->data_varies, block->bits_varies));
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

void cells_put(Cells ring, uint64_t first, uint64_t number, CellMinute cell)
{
    Block *block = &ring.blocks[number / BLOCK_CELLS % ring.count];
    unsigned at = number % BLOCK_CELLS;

    if (at == 0 || number == first)
        block_begin(block, ring.slab, cell);
    else
        block_put(block, ring.slab, at, cell);
}

void cells_clear(Cells ring)
{
    for (size_t i = 0; i < ring.count; i++)
        block_clear(&ring.blocks[i], ring.slab);
}

void cells_reader_init(CellsReader *reader, Cells ring)
{
    reader->ring = ring;
    reader->block = RING_NO_BLOCK;
}

CellMinute cells_read(CellsReader *reader, uint64_t number)
{
    uint64_t block = number / BLOCK_CELLS;
    unsigned at = number % BLOCK_CELLS;

    if (block != reader->block) {
        block_read(&reader->ring.blocks[block % reader->ring.count], reader->ring.slab, &reader->cells);
        reader->block = block;
    }
    return (CellMinute){.data = reader->cells.data[at], .bits = reader->cells.bits[at]};
}
