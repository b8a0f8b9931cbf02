/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One character of a text as a terminal shows it: with its combining characters, its width, and its ASCII replacement.
 * Widths are of Unicode 14, whatever the locale. Pure; any thread.
 */

#include "service/screen/grid.h"

typedef struct Glyph {
    char text[CELL_TEXT_CAP]; /* "?" for an unprintable one */
    int width;                /* 1 or 2 columns */
} Glyph;

/* Takes the next one off *text; false at its end. Drops combining characters without a base and those that do not fit
 * into a cell. */
bool glyph_next(const char **text, bool utf8, Glyph *ret);

/* Columns of a character: 0 for a combining one, -1 for one that must not reach a terminal. */
int glyph_width(uint32_t c);
