/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Writing single cells, for the files of this folder. One thread. */

#include "service/screen/grid.h"

/* What of the area lies within the grid; may be empty, never outside. */
Area cell_visible(const Grid *grid, Area area);

/* One character of `width` columns at x, y of the grid, where it lies within `clip` (of cell_visible) as a whole; of a
 * wide one that does not, a blank is left where it would be seen. Half of a wide one below it becomes a blank. */
void cell_put(Grid *grid, Area clip, int64_t x, int64_t y, Ink ink, const char *text, int width);
