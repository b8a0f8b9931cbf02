/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Colours of inks on a terminal. With 256 colours they have medium brightness and are legible on black and on white (a
 * test computes the contrast); with fewer, the background is that of COLORFGBG, else dark. Needs no ncurses.
 */

#include <stdbool.h>

#include "service/screen/grid.h"

typedef struct InkStyle {
    int colour; /* number for the terminal; -1: its usual one */
    bool bold, dim, underline;
} InkStyle;

/* How many of its colours are used of a terminal that has `colours`: 256, 16, 8 or 0. */
int palette_colours(int colours);
InkStyle palette_style(Ink ink, int colours, bool light);
/* COLORFGBG of the environment ("0;15": foreground; background), NULL: not set. */
bool palette_is_light(const char *colorfgbg);
