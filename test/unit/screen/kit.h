/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Pictures of grids as text, and numbers by chance that are the same in each run. */

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "service/screen/grid.h"

/* Fails with both where the grid does not print as `expected`. */
void assert_picture(const Grid *grid, bool inks, const char *expected);

/* Fails where a character is half there, or is none, or a cell holds more than it may. */
void assert_whole(const Grid *grid);

typedef struct Dice {
    uint64_t state;
} Dice;

uint64_t dice_throw(Dice *dice, uint64_t sides); /* 0..sides-1 */
int dice_between(Dice *dice, int low, int high); /* both included */
/* Bytes of all kinds: ASCII, wide, combining, control, cut and wrong UTF-8. */
void dice_text(Dice *dice, char *out, size_t size);
Area dice_area(Dice *dice);
/* A grid with something in every cell. */
void dice_grid(Dice *dice, Grid *grid);

/* Fails where a cell outside of the area is other than before, but for the half of a wide one that was cut there. */
void assert_untouched(const Grid *before, const Grid *after, Area area);
void grid_copy(const Grid *from, Grid *to);
