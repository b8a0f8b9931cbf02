/* SPDX-License-Identifier: Apache-2.0 */
/* Bars and history plots. */
#include "service/screen/grid.h"

#include <math.h>
#include <string.h>

#include "base/utf8.h"

enum { DOTS_ACROSS = 2, DOTS_DOWN = 4, EIGHTHS = 8 };
enum { LAYER_BANDS, LAYER_FILLS, LAYER_LINES }; /* of a plot in braille, the lowest first */

/* The dots of a braille character, the lowest first (Unicode chart 2800), of its left and its right column. */
static const uint8_t DOT[DOTS_ACROSS][DOTS_DOWN] = {{0x40, 0x04, 0x02, 0x01}, {0x80, 0x20, 0x10, 0x08}};
static const char *const RISING[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
static const char *const GROWING[] = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"};

/* Rows of dots of a plot, counted from below; empty where low > high. */
typedef struct Span {
    int64_t low, high;
} Span;

static const Span NOTHING = {.low = 1, .high = 0};

typedef struct Plot {
    Grid *grid;
    Area area, clip;
    float low, high;
    int64_t rows; /* dots from its lower edge to its upper one */
} Plot;

size_t plot_columns(const Grid *grid, Area area, PlotStyle style)
{
    size_t width = area.width > 0 ? (size_t)area.width : 0;
    return style == PLOT_BRAILLE && grid->utf8 ? width * DOTS_ACROSS : width;
}

/* Position of a value between the edges, limited to 0..1. */
static float share_of(float value, float low, float high)
{
    if (!(high > low))
        return 0;
    float part = (value - low) / (high - low);
    return !(part > 0) ? 0 : part > 1 ? 1 : part;
}

static int64_t row_of(const Plot *plot, float value)
{
    return llroundf(share_of(value, plot->low, plot->high) * (float)(plot->rows - 1));
}

/* --- lines -------------------------------------------------------------------------------------------------------- */

/* At a column: the line, with its connection to the column before, or the band from minimum to maximum. */
static Span span_at(const Plot *plot, const PlotSeries *series, bool band, size_t column)
{
    const PlotPoint *point = &series->points[column];
    if (isnan(point->mean))
        return NOTHING;
    if (band) {
        Span all = {row_of(plot, point->min), row_of(plot, point->max)};
        return all.high > all.low ? all : NOTHING;
    }
    int64_t row = row_of(plot, point->mean);
    if (series->filled)
        return (Span){0, row};
    if (column == 0 || isnan(point[-1].mean))
        return (Span){row, row};
    int64_t before = row_of(plot, point[-1].mean);
    return (Span){before < row ? before + 1 : row, before > row ? before - 1 : row};
}

/* Of a series in a line of cells. */
static Ink choose_ink(const Plot *plot, const PlotSeries *series, int y)
{
    const int64_t above = (int64_t)plot->area.y + plot->area.height - 1 - y, steps = INK_FILL_LAST - INK_FILL + 1;

    return series->filled ? (Ink)(INK_FILL + above * steps / plot->area.height) : series->ink;
}

static void put_dot(const Plot *plot, int x, int y, Ink ink, const char *text)
{
    cell_put(plot->grid, plot->clip, x, y, ink, text, 1);
}

/* Of a band every other dot, lighter than a line even without colours. */
static unsigned span_dots(Span span, bool band, int64_t lowest, int side)
{
    unsigned dots = 0;
    for (int i = 0; i < DOTS_DOWN; i++)
        if (lowest + i >= span.low && lowest + i <= span.high && !(band && (i + side) % 2))
            dots |= DOT[side][i];
    return dots;
}

/* One cell's width of a series in braille: its two columns of points. */
static void draw_fine(const Plot *plot, const PlotSeries *series, bool band, int x)
{
    const int64_t bottom = (int64_t)plot->area.y + plot->area.height - 1;
    int64_t low = plot->rows, high = -1; /* of both */
    Span spans[DOTS_ACROSS];
    uint32_t c = 0;

    for (size_t side = 0; side < DOTS_ACROSS; side++) {
        size_t column = (size_t)((int64_t)x - plot->area.x) * DOTS_ACROSS + side;
        const Span span = spans[side] = span_at(plot, series, band, column);

        low = span.low <= span.high && span.low < low ? span.low : low;
        high = span.low <= span.high && span.high > high ? span.high : high;
    }
    if (high < low)
        return;
    const int64_t top = bottom - high / DOTS_DOWN, foot = bottom - low / DOTS_DOWN;
    const int64_t first = top > plot->clip.y ? top : plot->clip.y, end = (int64_t)plot->clip.y + plot->clip.height;
    for (int64_t at = first; at <= foot && at < end; at++) {
        const int y = (int)at; /* within the grid */
        int64_t lowest = (bottom - y) * DOTS_DOWN;
        unsigned dots = 0;
        for (int side = 0; side < DOTS_ACROSS; side++)
            dots |= span_dots(spans[side], band, lowest, side);
        if (!dots)
            continue;
        const Cell *cell = grid_at(plot->grid, x, y);
        if (!band && !series->filled && cell->ink != INK_BAND && utf8_read(cell->text, strlen(cell->text), &c) &&
            c > 0x2800 && c < 0x2900)
            dots |= c - 0x2800; /* where lines cross */
        char text[UTF8_MAX + 1] = "";
        utf8_write(text, 0x2800 + dots);
        put_dot(plot, x, y, band ? INK_BAND : choose_ink(plot, series, y), text);
    }
}

/* --- blocks ------------------------------------------------------------------------------------------------------- */

static void draw_blocks(const Plot *plot, const PlotSeries *series)
{
    for (int x = plot->clip.x; x < plot->clip.x + plot->clip.width; x++) {
        float mean = series->points[(int64_t)x - plot->area.x].mean;
        if (isnan(mean))
            continue;
        int64_t filled = llroundf(share_of(mean, plot->low, plot->high) * (float)plot->area.height * EIGHTHS);
        filled = filled ? filled : 1; /* zero is visible, absent is not */
        for (int y = plot->clip.y; y < plot->clip.y + plot->clip.height; y++) {
            int64_t here = filled - ((int64_t)plot->area.y + plot->area.height - 1 - y) * EIGHTHS;
            if (here > 0 && plot->grid->utf8)
                put_dot(plot, x, y, choose_ink(plot, series, y), RISING[here < EIGHTHS ? here : EIGHTHS]);
            else if (here > 0)
                put_dot(plot, x, y, choose_ink(plot, series, y), here > 5 ? "#" : here > 2 ? ":" : ".");
        }
    }
}

void plot_draw(Grid *grid, Area area, PlotStyle style, const PlotSeries *series, size_t count, float low, float high)
{
    Plot plot = {.grid = grid, .area = area, .clip = cell_visible(grid, area), .low = low, .high = high};
    plot.rows = (int64_t)area.height * DOTS_DOWN;
    for (size_t i = count; i-- > 0 && (style == PLOT_BLOCK || !grid->utf8);)
        draw_blocks(&plot, &series[i]);
    for (int layer = LAYER_BANDS; layer <= LAYER_LINES && style == PLOT_BRAILLE && grid->utf8; layer++)
        for (size_t i = 0; i < count; i++)
            for (int x = plot.clip.x; x < plot.clip.x + plot.clip.width; x++)
                if (layer == LAYER_BANDS || series[i].filled == (layer == LAYER_FILLS))
                    draw_fine(&plot, &series[i], layer == LAYER_BANDS, x);
}

/* --- one line ----------------------------------------------------------------------------------------------------- */

void plot_bar(Grid *grid, Area area, Ink ink, float part, float second)
{
    const Plot plot = {.grid = grid, .clip = cell_visible(grid, area)};
    const int64_t all = (int64_t)area.width * EIGHTHS;
    int64_t filled = isnan(part) ? 0 : llroundf(share_of(part, 0, 1) * (float)all);
    filled = part > 0 && filled == 0 ? 1 : part < 1 && filled == all ? all - 1 : filled; /* not 0, not all */
    int64_t mark = isnan(second) ? -1 : (int64_t)(share_of(second, 0, 1) * (float)area.width);
    mark -= mark == area.width; /* the last cell is full at its right edge */
    for (int x = plot.clip.x; x < plot.clip.x + plot.clip.width; x++) {
        const int64_t here = filled - ((int64_t)x - area.x) * EIGHTHS;

        if (mark == (int64_t)x - area.x)
            put_dot(&plot, x, area.y, INK_MARK, grid->utf8 ? "│" : "|");
        else if (isnan(part))
            put_dot(&plot, x, area.y, INK_TRACK, grid->utf8 ? "·" : ".");
        else if (grid->utf8 && here > 0)
            put_dot(&plot, x, area.y, ink, GROWING[here < EIGHTHS ? here : EIGHTHS]);
        else if (here >= EIGHTHS / 2 || (here > 0 && here == filled)) /* '|': small, but not 0 */
            put_dot(&plot, x, area.y, ink, here >= EIGHTHS / 2 ? "#" : "|");
        else
            put_dot(&plot, x, area.y, INK_TRACK, grid->utf8 ? "─" : "-");
    }
}

void plot_spark(Grid *grid, Area area, Ink ink, const PlotPoint *points, size_t count, float low, float high)
{
    static const char PLAIN[] = ".:-=+*#";
    const Plot plot = {.grid = grid, .clip = cell_visible(grid, area)};
    for (int x = plot.clip.x; x < plot.clip.x + plot.clip.width; x++) {
        int64_t i = (int64_t)x - area.x - area.width + (int64_t)count; /* the newest is at the right edge */
        if (i < 0 || isnan(points[i].mean))
            continue;
        float part = share_of(points[i].mean, low, high);
        char plain[2] = {PLAIN[(size_t)(part * (sizeof PLAIN - 2) + 0.5F)]};
        put_dot(&plot, x, area.y, ink, grid->utf8 ? RISING[1 + lroundf(part * (EIGHTHS - 1))] : plain);
    }
}
