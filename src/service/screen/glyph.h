/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One character of a text as a terminal shows it: with what combines with it, its width, and what stands for it where
 * only ASCII is drawn. Widths are of Unicode 14, whatever the locale. Pure; any thread.
 */

#include "service/screen/grid.h"

typedef struct Glyph {
    char text[CELL_TEXT_CAP]; /* "?" for what is not to be shown as it is */
    int width;                /* 1 or 2 columns */
} Glyph;

/* Takes the next one off *text; false at its end. What combines with nothing before it is left out, and so is what does
 * not fit into a cell any more. */
bool glyph_next(const char **text, bool utf8, Glyph *ret);

/* Columns of a character: 0 where it combines with the one before, -1 where it must not reach a terminal. */
int glyph_width(uint32_t c);
