/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Bars and history plots in cells: braille (2 x 4 dots a cell) or block characters with UTF-8, plain ASCII without. A
 * point has minimum, mean and maximum; an absent one draws nothing, other than zero. Pure.
 */

#include "service/screen/grid.h"

/* One column of dots; NAN: no value. */
typedef struct PlotPoint {
    float min, mean, max;
} PlotPoint;

typedef enum PlotStyle { PLOT_BRAILLE, PLOT_BLOCK } PlotStyle;

typedef struct PlotSeries {
    const PlotPoint *points; /* plot_columns() of them, the oldest first */
    Ink ink;
} PlotSeries;

/* How many points a plot of this area has across: two per cell in braille, one in blocks and ASCII. */
size_t plot_columns(const Grid *grid, Area area, PlotStyle style);

/* Draws series over one another into the area, which is the plot alone (axes and labels are the caller's): `low` is its
 * lower edge, `high` its upper one. The mean is the line (braille) or the bar (block); in braille the band from minimum
 * to maximum is drawn with INK_BAND behind it where it is higher than a dot. Values beyond the edges are drawn at
 * them; a zero is the lowest dot or eighth. */
void plot_draw(Grid *grid, Area area, PlotStyle style, const PlotSeries *series, size_t count, float low, float high);

/* One line: the share `part` of 0..1 of the area's width, filled with `ink`, in eighths of a cell with UTF-8, '#'
 * without; the rest is dim. NAN: all dim dots, which says absent. `second` (NAN none) is a mark within the bar. */
void plot_bar(Grid *grid, Area area, Ink ink, float part, float second);

/* A sparkline of one row: eight heights a cell with UTF-8, ASCII ".:-=+*#" without; one point per cell, the newest
 * at the right edge. */
void plot_spark(Grid *grid, Area area, Ink ink, const PlotPoint *points, size_t count, float low, float high);
