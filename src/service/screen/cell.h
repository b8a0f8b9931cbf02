/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Writing single cells, for the files of this folder. One thread. */

#include "service/screen/grid.h"

/* Clips the area to the grid; the result may be empty. */
Area cell_visible(const Grid *grid, Area area);

/* Writes one character of `width` columns at x, y, if all of it lies within `clip` (from cell_visible). A wide
 * character that is cut by `clip` leaves a blank there. Overwriting half of a wide character blanks its other half. */
void cell_put(Grid *grid, Area clip, int64_t x, int64_t y, Ink ink, const char *text, int width);
