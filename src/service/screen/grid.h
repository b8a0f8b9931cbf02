/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A screen as a grid of character cells, drawn by pure code and shown by a terminal (verb/top/terminal.h) or printed as
 * text. A cell has an ink (the meaning of its text), not a colour: the terminal chooses the colour.
 * What is drawn outside of the grid or of the area is cut off. Knows no GPU. One thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attribute.h"
#include "base/str.h"

enum { GRID_WIDTH_MAX = 512, GRID_HEIGHT_MAX = 256, CELL_TEXT_CAP = 12 };

/* The meaning of a text. */
typedef enum Ink {
    INK_PLAIN,
    INK_DIM,    /* labels, units, what is unavailable */
    INK_STRONG, /* important */
    INK_TITLE,  /* headings */
    INK_FRAME,  /* of what has a title */
    INK_GOOD,
    INK_WARN,
    INK_BAD,
    INK_KEY, /* a key to press */
    INK_BAR, /* from here on drawings, which the cursor's line leaves as they are */
    INK_SERIES_A,
    INK_SERIES_B,
    INK_BAND,  /* between minimum and maximum */
    INK_TRACK, /* the rest of a bar */
    INK_MARK,  /* within a bar */
    INK_FILL,  /* below a line: so many inks, from the lower edge of a plot to the upper one */
    INK_FILL_LAST = INK_FILL + 3,
    INK_END,
} Ink;

typedef struct Cell {
    char text[CELL_TEXT_CAP]; /* one character with what combines with it, UTF-8; "" the right half of a wide one */
    uint8_t ink;              /* Ink */
    bool reverse;             /* the selected line, the cursor */
} Cell;

typedef struct Area {
    int x, y, width, height;
} Area;

typedef struct Grid {
    int width, height;
    bool utf8;   /* else only ASCII is drawn: boxes, bars and plots have plain forms */
    Cell *cells; /* row by row */
} Grid;

/* An empty screen; width and height are brought into 1..GRID_*_MAX. */
void grid_init(Grid *grid, int width, int height, bool utf8);
void grid_done(Grid *grid);
/* Another size; everything is blank after. */
void grid_resize(Grid *grid, int width, int height);
void grid_clear(Grid *grid);
Area grid_area(const Grid *grid);
const Cell *grid_at(const Grid *grid, int x, int y);

/* Text from column x of row y of the area (both from 0 within it). One that is too long for the area ends with an
 * ellipsis, behind a word if that leaves a quarter of the room empty at most. Control and format characters and what is
 * no UTF-8 become '?'. Without utf8 what is not ASCII too, or what stands for it (arrows, frames, blocks, marks, Latin
 * letters) in as many columns. A cell is afterwards what was drawn last, not reversed. Half of a wide character is
 * never drawn: a blank is. Returns the column after it. */
int grid_text(Grid *grid, Area area, int x, int y, Ink ink, const char *text);
int grid_textf(Grid *grid, Area area, int x, int y, Ink ink, const char *format, ...) PRINTF_LIKE(6, 7);
/* The same, ending at column x (exclusive). Cut at the left edge of the area. */
void grid_right(Grid *grid, Area area, int x, int y, Ink ink, const char *text);
void grid_fill(Grid *grid, Area area, Ink ink, const char *text); /* every cell of it */
void grid_reverse(Grid *grid, Area area);                         /* of what is text */
/* A frame around the area's edge with a title; returns what is inside. */
Area grid_box(Grid *grid, Area area, Ink ink, const char *title);

/* Columns that a text takes on a terminal. */
int grid_text_width(const char *text);
/* Bytes of it that `room` columns hold: whole words if these take at least `least` columns, else as much as there is
 * room for. */
size_t grid_text_fit(const char *text, int room, int least);

/* The screen as lines of text without trailing blanks, each ended by a newline, with ANSI colours (`coloured`) or
 * without: `stoker top --once`. */
void grid_print(const Grid *grid, bool coloured, Str *out);

/* --- colours on a terminal ---------------------------------------------------------------------------------------- */

/* Colours of a terminal with 256 of them. With fewer, the background is that of the theme or of COLORFGBG, else dark. A
 * test computes the contrasts. */
typedef enum Theme {
    THEME_AUTO,         /* medium brightness, legible on black and on white */
    THEME_DARK,         /* bright, on a dark background */
    THEME_LIGHT,        /* dark, on a light background */
    THEME_COLOUR_BLIND, /* as auto, with blue and magenta for green and red */
    THEME_END,
} Theme;

extern const char *const theme_names[THEME_END + 1]; /* NULL ends */

typedef struct InkStyle {
    int colour; /* number for the terminal; -1: its usual one */
    bool bold, dim, underline;
} InkStyle;

/* How many of its colours are used of a terminal that has `colours`: 256, 16, 8 or 0. */
int palette_colours(int colours);
InkStyle palette_style(Ink ink, int colours, bool light, Theme theme);
/* COLORFGBG of the environment ("0;15": foreground; background), NULL: not set. */
bool palette_is_light(const char *colorfgbg);

/* --- bars and history plots (plot.c) -------------------------------------------------------------------------------
 * Braille (2 x 4 dots a cell) or block characters with UTF-8, else blocks of plain ASCII. A point has minimum, mean and
 * maximum; an absent one draws nothing, other than zero. Pure. */

/* One column of dots; NAN: no value. */
typedef struct PlotPoint {
    float min, mean, max;
} PlotPoint;

typedef enum PlotStyle { PLOT_BRAILLE, PLOT_BLOCK } PlotStyle;

typedef struct PlotSeries {
    const PlotPoint *points; /* plot_columns() of them, the oldest first */
    Ink ink;
    bool filled; /* all below the line, in the inks INK_FILL by height */
} PlotSeries;

/* How many points a plot of this area has across: two per cell in braille, one in blocks and ASCII. */
size_t plot_columns(const Grid *grid, Area area, PlotStyle style);

/* Draws series over one another into the area, which is the plot alone (axes and labels are the caller's): `low` is its
 * lower edge, `high` its upper one. The mean is the line (braille) or the bar (block), the first series over the others
 * in blocks, filled ones below lines in braille; there the band from minimum
 * to maximum is drawn with INK_BAND behind it where it is higher than a dot. Values beyond the edges are drawn at
 * them; a zero is the lowest dot or eighth. */
void plot_draw(Grid *grid, Area area, PlotStyle style, const PlotSeries *series, size_t count, float low, float high);

/* One line: the share `part` of 0..1 of the area's width, filled with `ink`, in eighths of a cell with UTF-8, '#'
 * without; the rest is INK_TRACK. NAN: dots alone, which says absent. `second` (NAN none) is a mark within the bar. */
void plot_bar(Grid *grid, Area area, Ink ink, float part, float second);

/* A sparkline of one row: eight heights a cell with UTF-8, ASCII ".:-=+*#" without; one point per cell, the newest
 * at the right edge. */
void plot_spark(Grid *grid, Area area, Ink ink, const PlotPoint *points, size_t count, float low, float high);

/* --- single cells, for the other files of this folder ------------------------------------------------------------- */

/* Clips the area to the grid; the result may be empty. */
Area cell_visible(const Grid *grid, Area area);

/* Writes one character of `width` columns at x, y, if all of it lies within `clip` (from cell_visible). A wide
 * character that is cut by `clip` leaves a blank there. Overwriting half of a wide character blanks its other half. */
void cell_put(Grid *grid, Area clip, int64_t x, int64_t y, Ink ink, const char *text, int width);

/* One character of a text: with its combining characters, its width, and its ASCII replacement. */
typedef struct Glyph {
    char text[CELL_TEXT_CAP]; /* "?" for an unprintable one */
    int width;                /* 1 or 2 columns */
} Glyph;

/* Takes the next one off *text; false at its end. Drops combining characters without a base and those that do not fit
 * into a cell. */
bool glyph_next(const char **text, bool utf8, Glyph *ret);
