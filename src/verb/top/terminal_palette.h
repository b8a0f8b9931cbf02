/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What inks look like on a terminal. With 256 colours they are of middling brightness, so that they read on black and
 * on white alike (a test computes the contrast); with fewer, what the background is is taken from COLORFGBG, else it is
 * dark. Needs no ncurses.
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
