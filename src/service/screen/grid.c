/* SPDX-License-Identifier: Apache-2.0 */
#include "service/screen/grid.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "service/screen/glyph.h"

enum { FORMAT_MAX = 4 * GRID_WIDTH_MAX, FAR = 1 << 20 };

static int clamp_int(int64_t value, int64_t low, int64_t high)
{
    return (int)(value < low ? low : value > high ? high : value);
}

/* --- the screen ----------------------------------------------------------------------------------------------------
 */

void grid_init(Grid *grid, int width, int height, bool utf8)
{
    *grid = (Grid){.utf8 = utf8};
    grid_resize(grid, width, height);
}

void grid_done(Grid *grid)
{
    free(grid->cells);
    *grid = (Grid){.utf8 = grid->utf8};
}

void grid_resize(Grid *grid, int width, int height)
{
    grid->width = clamp_int(width, 1, GRID_WIDTH_MAX);
    grid->height = clamp_int(height, 1, GRID_HEIGHT_MAX);
    grid->cells = xrealloc(grid->cells, (size_t)grid->width * (size_t)grid->height, sizeof *grid->cells);
    grid_clear(grid);
}

void grid_clear(Grid *grid)
{
    size_t count = (size_t)grid->width * (size_t)grid->height;
    for (size_t i = 0; i < count; i++)
        grid->cells[i] = (Cell){.text = " ", .ink = INK_PLAIN};
}

Area grid_area(const Grid *grid)
{
    return (Area){.width = grid->width, .height = grid->height};
}

static Cell *cell_at(const Grid *grid, int64_t x, int64_t y)
{
    return &grid->cells[y * grid->width + x];
}

const Cell *grid_at(const Grid *grid, int x, int y)
{
    bool inside = x >= 0 && y >= 0 && x < grid->width && y < grid->height;
    return inside ? cell_at(grid, x, y) : NULL;
}

/* --- cells ---------------------------------------------------------------------------------------------------------
 */

Area cell_visible(const Grid *grid, Area area)
{
    int left = clamp_int(area.x, 0, grid->width), top = clamp_int(area.y, 0, grid->height);
    int right = clamp_int((int64_t)area.x + area.width, left, grid->width);
    int bottom = clamp_int((int64_t)area.y + area.height, top, grid->height);
    return (Area){.x = left, .y = top, .width = right - left, .height = bottom - top};
}

static bool is_inside(Area clip, int64_t x)
{
    return x >= clip.x && x < clip.x + clip.width;
}

/* The other half of a wide character becomes a blank before this half is drawn over. */
static void part_halves(const Grid *grid, int64_t x, int64_t y)
{
    if (x > 0 && !cell_at(grid, x, y)->text[0])
        memcpy(cell_at(grid, x - 1, y)->text, " ", 2);
    if (x + 1 < grid->width && !cell_at(grid, x + 1, y)->text[0])
        memcpy(cell_at(grid, x + 1, y)->text, " ", 2);
}

static void put_one(const Grid *grid, int64_t x, int64_t y, Ink ink, const char *text)
{
    Cell *cell = cell_at(grid, x, y);
    part_halves(grid, x, y);
    *cell = (Cell){.ink = (uint8_t)ink};
    memcpy(cell->text, text, strnlen(text, sizeof cell->text - 1));
}

void cell_put(Grid *grid, Area clip, int64_t x, int64_t y, Ink ink, const char *text, int width)
{
    if (y < clip.y || y >= clip.y + clip.height)
        return;
    bool left = is_inside(clip, x), right = is_inside(clip, x + 1);
    if (width == 1) {
        if (left)
            put_one(grid, x, y, ink, text);
        return;
    }
    bool whole = left && right;
    if (right)
        put_one(grid, x + 1, y, ink, " ");
    if (left)
        put_one(grid, x, y, ink, whole ? text : " ");
    if (whole && grid->utf8)
        cell_at(grid, x + 1, y)->text[0] = '\0';
    else if (whole)
        put_one(grid, x + 1, y, ink, text);
}

/* --- text ----------------------------------------------------------------------------------------------------------
 */

/* Draws from column `x` of the area, which may be left of it; returns the column after the text, cut or not. */
static int64_t put_text(Grid *grid, Area area, int64_t x, int y, Ink ink, const char *text)
{
    Area clip = cell_visible(grid, area);
    Glyph glyph;
    while (x < area.width && glyph_next(&text, grid->utf8, &glyph)) {
        cell_put(grid, clip, area.x + x, (int64_t)area.y + y, ink, glyph.text, glyph.width);
        x += glyph.width;
    }
    return x;
}

int grid_text(Grid *grid, Area area, int x, int y, Ink ink, const char *text)
{
    int64_t after = put_text(grid, area, x, y, ink, text);
    return after > area.width ? clamp_int(area.width, x, INT32_MAX) : (int)after;
}

int grid_textf(Grid *grid, Area area, int x, int y, Ink ink, const char *format, ...)
{
    char text[FORMAT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return grid_text(grid, area, x, y, ink, text);
}

void grid_right(Grid *grid, Area area, int x, int y, Ink ink, const char *text)
{
    put_text(grid, area, (int64_t)x - grid_text_width(text), y, ink, text);
}

int grid_text_width(const char *text)
{
    int width = 0;
    Glyph glyph;
    while (glyph_next(&text, true, &glyph))
        width = clamp_int((int64_t)width + glyph.width, 0, INT32_MAX);
    return width;
}

/* --- areas ---------------------------------------------------------------------------------------------------------
 */

void grid_fill(Grid *grid, Area area, Ink ink, const char *text)
{
    Area clip = cell_visible(grid, area);
    Glyph glyph = {.text = " ", .width = 1};
    glyph_next(&text, grid->utf8, &glyph);
    for (int y = clip.y; y < clip.y + clip.height; y++)
        for (int x = clip.x; x < clip.x + clip.width; x += glyph.width)
            cell_put(grid, clip, x, y, ink, glyph.text, glyph.width);
}

void grid_reverse(Grid *grid, Area area)
{
    Area clip = cell_visible(grid, area);
    for (int y = clip.y; y < clip.y + clip.height; y++)
        for (int x = clip.x; x < clip.x + clip.width; x++)
            cell_at(grid, x, y)->reverse = true;
}

/* Limits the edges, so that arithmetic on them cannot overflow; the limits are far outside any grid. */
static Area clamp_far(Area area)
{
    int left = clamp_int(area.x, -FAR, FAR), top = clamp_int(area.y, -FAR, FAR);
    int right = clamp_int((int64_t)area.x + area.width, left, FAR),
        bottom = clamp_int((int64_t)area.y + area.height, top, FAR);
    return (Area){.x = left, .y = top, .width = right - left, .height = bottom - top};
}

/* The frame's horizontal lines with their corners. */
static void draw_edge(Grid *grid, Area area, int y, Ink ink, const char *const ends[2])
{
    Area clip = cell_visible(grid, area);
    for (int x = clip.x; x < clip.x + clip.width; x++)
        grid_text(grid, area, x - area.x, y, ink, "─");
    grid_text(grid, area, 0, y, ink, ends[0]);
    grid_text(grid, area, area.width - 1, y, ink, ends[1]);
}

Area grid_box(Grid *grid, Area area, Ink ink, const char *title)
{
    static const char *const TOP[] = {"┌", "┐"}, *const BOTTOM[] = {"└", "┘"};
    area = clamp_far(area);
    Area inside = {.x = area.x + (area.width > 0), .y = area.y + (area.height > 0)};
    inside.width = area.width > 2 ? area.width - 2 : 0;
    inside.height = area.height > 2 ? area.height - 2 : 0;
    if (area.width < 2 || area.height < 2)
        return inside;
    Area clip = cell_visible(grid, area);
    draw_edge(grid, area, 0, ink, TOP);
    draw_edge(grid, area, area.height - 1, ink, BOTTOM);
    for (int y = clip.y - area.y; y < clip.y - area.y + clip.height; y++) {
        if (y == 0 || y == area.height - 1)
            continue;
        grid_text(grid, area, 0, y, ink, "│");
        grid_text(grid, area, area.width - 1, y, ink, "│");
    }
    if (title && *title && area.width > 6) {
        Area room = {.x = area.x + 2, .y = area.y, .width = area.width - 4, .height = 1};
        int after = grid_text(grid, room, 1, 0, ink, title);
        grid_text(grid, room, 0, 0, ink, " ");
        grid_text(grid, room, after < room.width ? after : room.width - 1, 0, ink, " ");
    }
    return inside;
}

/* --- printing ----------------------------------------------------------------------------------------------------- */

/* Inks as ANSI codes of the sixteen standard colours. */
static const char *const SGR[] = {
    [INK_DIM] = "2",       [INK_STRONG] = "1",    [INK_TITLE] = "1;36", [INK_GOOD] = "32",     [INK_WARN] = "33",
    [INK_BAD] = "1;31",    [INK_KEY] = "1;36",    [INK_BAR] = "32",     [INK_SERIES_A] = "36", [INK_SERIES_B] = "35",
    [INK_SERIES_C] = "32", [INK_SERIES_D] = "33", [INK_BAND] = "2",
};

static const char LETTER[] = {
#define INK(id, letter) [INK_##id] = letter,
    INK_TABLE(INK)
#undef INK
};

static const char *text_of(const Cell *cell, const Cell *before)
{
    if (cell->text[0])
        return cell->text;
    return before && before->text[0] ? "" : " "; /* the half of nothing */
}

static bool is_blank(const Cell *cell)
{
    return cell->text[0] == ' ' && !cell->text[1];
}

/* Columns of a row up to the last that shows something; a reversed blank does so where reversal is shown. */
static int row_end(const Cell *row, int width, bool reversal)
{
    while (width > 0 && is_blank(&row[width - 1]) && !(reversal && row[width - 1].reverse))
        width--;
    return width;
}

static void add_row(const Cell *row, int end, Str *out)
{
    for (int x = 0; x < end; x++)
        str_add(out, text_of(&row[x], x ? &row[x - 1] : NULL));
    str_addc(out, '\n');
}

static char letter_of(const Cell *cell)
{
    char letter = cell->ink < INK_END ? LETTER[cell->ink] : '?';
    if (cell->reverse)
        return isalpha((unsigned char)letter) ? (char)toupper((unsigned char)letter) : '#';
    return is_blank(cell) ? ' ' : letter;
}

static void add_inks(const Cell *row, int end, Str *out)
{
    bool other = false;
    for (int x = 0; x < end; x++)
        other |= row[x].reverse || (row[x].ink != INK_PLAIN && !is_blank(&row[x]));
    if (!other)
        return;
    for (int x = 0; x < end; x++)
        str_addc(out, letter_of(&row[x]));
    str_addc(out, '\n');
}

void grid_print(const Grid *grid, bool inks, Str *out)
{
    for (int y = 0; y < grid->height; y++) {
        const Cell *row = grid_at(grid, 0, y);
        add_row(row, row_end(row, grid->width, false), out);
        if (inks)
            add_inks(row, row_end(row, grid->width, true), out);
    }
}

static const char *sgr_of(const Cell *cell)
{
    const char *sgr = cell->ink < ARRAY_LEN(SGR) && !(is_blank(cell) && !cell->reverse) ? SGR[cell->ink] : NULL;
    return sgr ? sgr : "";
}

static void add_coloured_row(const Cell *row, int end, Str *out)
{
    const char *now = "";
    bool reverse = false;
    for (int x = 0; x < end; x++) {
        const char *sgr = sgr_of(&row[x]);
        if (strcmp(sgr, now) != 0 || row[x].reverse != reverse)
            str_addf(out, "\033[0%s%s%sm", row[x].reverse ? ";7" : "", *sgr ? ";" : "", sgr);
        now = sgr;
        reverse = row[x].reverse;
        str_add(out, text_of(&row[x], x ? &row[x - 1] : NULL));
    }
    str_add(out, *now || reverse ? "\033[0m\n" : "\n");
}

void grid_print_ansi(const Grid *grid, bool coloured, Str *out)
{
    for (int y = 0; y < grid->height; y++) {
        const Cell *row = grid_at(grid, 0, y);
        if (coloured)
            add_coloured_row(row, row_end(row, grid->width, true), out);
        else
            add_row(row, row_end(row, grid->width, false), out);
    }
}
