/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Room for the cells of all series, in units of one size, over memory that the store reserves: a unit that was never
 * taken costs nothing, the one given back last is taken next. There are as many as all rings together can ever need, so
 * taking cannot fail. Pure, one thread.
 */

#include <stddef.h>
#include <stdint.h>

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

/* What is in the unit is what was left there. */
uint32_t slab_take(Slab *slab);
/* Gives `count` units back, chained by `next` from `unit` on. */
void slab_give(Slab *slab, uint32_t unit, size_t count);
