/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Rings of cells, packed without loss. A cell is a second (8 bytes) or a minute (10 bytes) of a series. 64 neighbours
 * are a block: the first cell, and a word for each bit that is not the same in all of them; bit k of that word says
 * whether the bit differs in cell k. So equal cells take no words, small integers about a dozen, values with arbitrary
 * fractions nearly all. The words lie in units of the slab, chained from Block.unit on, by rising bit. Pure, one
 * thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/sample.h"

/*
 * The slab: room for the words of all series in units of one size, over memory that the store reserves. A unit that was
 * never taken costs nothing; the unit given back last is taken next. There are as many as all rings together can need,
 * so taking cannot fail.
 */
enum { SLAB_WORDS = 8 };

#define SLAB_NONE UINT32_MAX

typedef struct SlabUnit {
    uint64_t word[SLAB_WORDS];
} SlabUnit;

typedef struct Slab {
    SlabUnit *units;
    uint32_t *next;   /* of each unit: the one after it in its chain; its owner sets it */
    uint32_t count;   /* units there is room for */
    uint32_t touched; /* units from here on were never taken */
    uint32_t used;    /* units taken now */
    uint32_t free;    /* first of those given back; SLAB_NONE */
} Slab;

/* The unit's content is undefined. */
uint32_t slab_alloc(Slab *slab);
/* Returns `count` units, chained by `next` from `unit` on. */
void slab_release(Slab *slab, uint32_t unit, size_t count);

/*
 * Cells. A second is the double itself, so integers up to 2^53 keep every digit (an energy counter of 5e10 mJ among
 * them); the reason for an absent value is a NaN with the reason in its payload. A minute of a counter is its last
 * value as a double; its increase follows from the minute before (series.c). A minute of a gauge is minimum and maximum
 * as floats (24 bits: 7 digits, integers up to 16,777,216 exactly) and the place of the mean between them in 1023
 * steps: off by at most 0.05 % of maximum - minimum.
 */
/* A second in which nothing was added; read as ABSENCE_NOT_YET. */
#define CELL_SECOND_GAP UINT64_C(0x7ff8000000000100)

uint64_t cell_second_value(double value);
uint64_t cell_second_absence(Absence why);
/* True with the value, or false with the reason. */
bool cell_second_read(uint64_t cell, double *ret_value, Absence *ret_why);

/* The 16 bits beside the 8 bytes of a minute: valid seconds (0..60), and 10 bits of another thing. */
typedef struct CellMinute {
    uint64_t data;
    uint16_t bits;
} CellMinute;

static inline unsigned cell_valid_seconds(uint16_t bits)
{
    return bits & 63u;
}

typedef struct CellGauge {
    double min, mean, max;
} CellGauge;

CellMinute cell_gauge(const CellGauge *gauge, unsigned valid_seconds);
CellGauge cell_gauge_read(CellMinute cell);

/* `jumped`: the increase cannot be had from the minute before. */
CellMinute cell_counter(double last, bool jumped, unsigned valid_seconds);
double cell_counter_read(CellMinute cell, bool *ret_jumped);

/* Blocks. Zeroed memory is a block without cells. */
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

/*
 * Rings: the newest cells by their numbers on the axis, as blocks in a circle. The oldest block goes when a new one
 * begins, so there is one more than the cells alone would need.
 */
/* Blocks for a ring that holds its newest `cells` cells. */
#define RING_BLOCKS(cells) (((cells)-1 + BLOCK_CELLS - 1) / BLOCK_CELLS + 1)

typedef struct Cells {
    Block *blocks;
    size_t count;
    Slab *slab;
} Cells;

/* Sets cell `number`: the one after the newest, the newest again, or after cells_clear any, which is `first` then. */
void cells_put(Cells ring, uint64_t first, uint64_t number, CellMinute cell);
void cells_clear(Cells ring);

/* Reads cells that the ring holds, quickly where they are near each other. */
typedef struct CellsReader {
    Cells ring;
    uint64_t block; /* the one that `cells` is of; RING_NO_BLOCK */
    BlockCells cells;
} CellsReader;

#define RING_NO_BLOCK UINT64_MAX

void cells_reader_init(CellsReader *reader, Cells ring);
CellMinute cells_read(CellsReader *reader, uint64_t number);
