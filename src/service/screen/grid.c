/* SPDX-License-Identifier: Apache-2.0 */
#include "service/screen/grid.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/utf8.h"

enum { FORMAT_MAX = 4 * GRID_WIDTH_MAX };

static int clamp_int(int64_t value, int64_t low, int64_t high)
{
    return (int)(value < low ? low : value > high ? high : value);
}

/* --- the screen --------------------------------------------------------------------------------------------------- */

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

/* --- cells -------------------------------------------------------------------------------------------------------- */

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

static void put_one(const Grid *grid, int64_t x, int64_t y, Ink ink, const char *text)
{
    Cell *cell = cell_at(grid, x, y);

    if (x > 0 && !cell->text[0]) /* the other half of a wide character becomes a blank */
        memcpy(cell[-1].text, " ", 2);
    if (x + 1 < grid->width && !cell[1].text[0])
        memcpy(cell[1].text, " ", 2);
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

/* --- characters --------------------------------------------------------------------------------------------------- */

/* ASCII replacements of what screens and texts draw, and of Latin letters. */
static const struct {
    uint32_t first, last;
    char stand_in;
} PLAIN[] = {
    {0x00a0, 0x00a0, ' '}, {0x00b0, 0x00b0, '\''}, {0x00b5, 0x00b5, 'u'},  {0x00b7, 0x00b7, '.'}, {0x00d7, 0x00d7, 'x'},
    {0x00c0, 0x00c5, 'A'}, {0x00c7, 0x00c7, 'C'},  {0x00c8, 0x00cb, 'E'},  {0x00cc, 0x00cf, 'I'}, {0x00d1, 0x00d1, 'N'},
    {0x00d2, 0x00d6, 'O'}, {0x00d8, 0x00d8, 'O'},  {0x00d9, 0x00dc, 'U'},  {0x00dd, 0x00dd, 'Y'}, {0x00df, 0x00df, 's'},
    {0x00e0, 0x00e5, 'a'}, {0x00e7, 0x00e7, 'c'},  {0x00e8, 0x00eb, 'e'},  {0x00ec, 0x00ef, 'i'}, {0x00f1, 0x00f1, 'n'},
    {0x00f2, 0x00f6, 'o'}, {0x00f8, 0x00f8, 'o'},  {0x00f9, 0x00fc, 'u'},  {0x00fd, 0x00fd, 'y'}, {0x00ff, 0x00ff, 'y'},
    {0x03bc, 0x03bc, 'u'}, {0x2010, 0x2015, '-'},  {0x2018, 0x2019, '\''}, {0x201c, 0x201d, '"'}, {0x2022, 0x2022, '*'},
    {0x2026, 0x2026, '~'}, {0x2039, 0x2039, '<'},  {0x203a, 0x203a, '>'},  {0x2190, 0x2190, '<'}, {0x2191, 0x2191, '^'},
    {0x2192, 0x2192, '>'}, {0x2193, 0x2193, 'v'},  {0x2212, 0x2212, '-'},  {0x2248, 0x2248, '~'}, {0x2264, 0x2264, '<'},
    {0x2265, 0x2265, '>'}, {0x2500, 0x2500, '-'},  {0x2502, 0x2502, '|'},  {0x250c, 0x254b, '+'}, {0x2550, 0x2550, '='},
    {0x2551, 0x2551, '|'}, {0x256d, 0x2570, '+'},  {0x2573, 0x2573, 'X'},  {0x2581, 0x2583, '.'}, {0x2584, 0x2587, ':'},
    {0x2588, 0x258b, '#'}, {0x258c, 0x258f, '|'},  {0x25b2, 0x25b5, '^'},  {0x25bc, 0x25bf, 'v'}, {0x2713, 0x2714, '+'},
    {0x2715, 0x2718, 'x'}, {0x2801, 0x28ff, ':'},
};

static char stand_in(uint32_t c)
{
    for (size_t i = 0; i < ARRAY_LEN(PLAIN); i++)
        if (c >= PLAIN[i].first && c <= PLAIN[i].last)
            return PLAIN[i].stand_in;
    return '?';
}

/* The next character, its bytes and its width; an invalid byte counts as one unprintable character. */
static size_t next_character(const char *text, uint32_t *ret_c, int *ret_width)
{
    size_t len = utf8_read(text, strnlen(text, UTF8_MAX), ret_c);
    *ret_width = len ? utf8_columns(*ret_c) : -1;
    return len ? len : 1;
}

static void add_combining(const char **text, bool utf8, Glyph *glyph)
{
    size_t used = strlen(glyph->text);
    while (**text) {
        uint32_t c = 0;
        int width = 0;
        size_t len = next_character(*text, &c, &width);
        if (width != 0)
            return;
        if (utf8 && used + len < sizeof glyph->text) {
            memcpy(glyph->text + used, *text, len);
            used += len;
            glyph->text[used] = '\0';
        }
        *text += len;
    }
}

bool glyph_next(const char **text, bool utf8, Glyph *ret)
{
    uint32_t c = 0;
    int width = 0;
    size_t len = 0;
    do {
        if (!**text)
            return false;
        len = next_character(*text, &c, &width);
        *text += len;
    } while (width == 0);
    bool known = width > 0;
    memset(ret->text, 0, sizeof ret->text);
    ret->width = known ? width : 1;
    if (known && (utf8 || c < 0x80))
        memcpy(ret->text, *text - len, len);
    else
        ret->text[0] = known ? stand_in(c) : '?';
    add_combining(text, utf8 && known, ret);
    return true;
}

/* --- text --------------------------------------------------------------------------------------------------------- */

/* Draws from column `x` of the area, which may be left of it, up to `end` (NULL: all); returns the column after it. */
static int64_t put_text(Grid *grid, Area area, int64_t x, int y, Ink ink, const char *text, const char *end)
{
    Area clip = cell_visible(grid, area);
    Glyph glyph;
    while (x < area.width && text != end && glyph_next(&text, grid->utf8, &glyph)) {
        cell_put(grid, clip, area.x + x, (int64_t)area.y + y, ink, glyph.text, glyph.width);
        x += glyph.width;
    }
    return x;
}

int grid_text(Grid *grid, Area area, int x, int y, Ink ink, const char *text)
{
    const int room = clamp_int((int64_t)area.width - x, 0, INT32_MAX);
    if (grid_text_width(text) <= room)
        return (int)put_text(grid, area, x, y, ink, text, NULL);
    const char *end = text + grid_text_fit(text, room - 1, room * 3 / 4);
    put_text(grid, area, put_text(grid, area, x, y, ink, text, end), y, ink, "…", NULL);
    return x > area.width ? x : area.width;
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
    put_text(grid, area, (int64_t)x - grid_text_width(text), y, ink, text, NULL);
}

int grid_text_width(const char *text)
{
    int width = 0;
    Glyph glyph;
    while (glyph_next(&text, true, &glyph))
        width = clamp_int((int64_t)width + glyph.width, 0, INT32_MAX);
    return width;
}

size_t grid_text_fit(const char *text, int room, int least)
{
    size_t words = 0, all = 0;
    const char *at = text;
    int columns = 0;
    Glyph glyph;

    while (glyph_next(&at, true, &glyph)) {
        columns += glyph.width;
        if (columns > room)
            return words ? words : all;
        all = (size_t)(at - text);
        if (*at == ' ' && columns >= least)
            words = all;
    }
    return all;
}

/* --- areas -------------------------------------------------------------------------------------------------------- */

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
            cell_at(grid, x, y)->reverse = cell_at(grid, x, y)->ink < INK_BAR;
}

Area grid_box(Grid *grid, Area area, Ink ink, const char *title)
{
    const int right = area.x + area.width - 1, bottom = area.y + area.height - 1;
    Area inside = {.x = area.x + (area.width > 0), .y = area.y + (area.height > 0)};
    inside.width = area.width > 2 ? area.width - 2 : 0;
    inside.height = area.height > 2 ? area.height - 2 : 0;
    if (area.width < 2 || area.height < 2)
        return inside;
    const struct {
        Area area;
        const char *text;
    } pieces[] = {
        {{area.x, area.y, area.width, 1}, "─"},  {{area.x, bottom, area.width, 1}, "─"},
        {{area.x, area.y, 1, area.height}, "│"}, {{right, area.y, 1, area.height}, "│"},
        {{area.x, area.y, 1, 1}, "╭"},           {{right, area.y, 1, 1}, "╮"},
        {{area.x, bottom, 1, 1}, "╰"},           {{right, bottom, 1, 1}, "╯"},
    };
    for (size_t i = 0; i < ARRAY_LEN(pieces); i++)
        grid_fill(grid, pieces[i].area, ink, pieces[i].text);
    if (title && *title && area.width > 6) {
        Area room = {.x = area.x + 2, .y = area.y, .width = area.width - 4, .height = 1};
        grid_textf(grid, room, 0, 0, ink, " %s ", title);
    }
    return inside;
}

/* --- colours ------------------------------------------------------------------------------------------------------ */

enum { BLACK, RED, GREEN, YELLOW, BLUE, MAGENTA, CYAN, USUAL = -1 };

enum { NONE = 0, BOLD = 1, DIM = 2, UNDERLINE = 4 }; /* emphasis */

const char *const theme_names[THEME_END + 1] = {
    [THEME_AUTO] = "auto",
    [THEME_DARK] = "dark",
    [THEME_LIGHT] = "light",
    [THEME_COLOUR_BLIND] = "colour-blind",
};

typedef struct InkRow {
    int many[THEME_END];    /* colour of 256 */
    int dark, light;        /* of 8, on a dark background and on a light one */
    unsigned with, without; /* emphasis with colours (of 8: DIM is left to those who have no grey) and with none */
} InkRow;

#define ALL_USUAL                                                                                                      \
    {                                                                                                                  \
        USUAL, USUAL, USUAL, USUAL                                                                                     \
    }

static const InkRow INKS[INK_END] = {
    [INK_PLAIN] = {ALL_USUAL, USUAL, USUAL, NONE, NONE},
    [INK_DIM] = {{243, 247, 241, 243}, USUAL, USUAL, DIM, DIM},
    [INK_STRONG] = {ALL_USUAL, USUAL, USUAL, BOLD, BOLD},
    [INK_TITLE] = {{31, 81, 24, 31}, CYAN, BLUE, BOLD, BOLD},
    [INK_FRAME] = {{243, 241, 245, 243}, USUAL, USUAL, DIM, DIM},
    [INK_GOOD] = {{28, 77, 22, 32}, GREEN, GREEN, NONE, NONE},
    [INK_WARN] = {{130, 214, 94, 130}, YELLOW, MAGENTA, BOLD, UNDERLINE},
    [INK_BAD] = {{160, 203, 124, 163}, RED, RED, BOLD, BOLD | UNDERLINE},
    [INK_KEY] = {{31, 81, 24, 31}, CYAN, BLUE, BOLD, BOLD},
    [INK_BAR] = {{30, 44, 30, 30}, CYAN, BLUE, NONE, NONE},
    [INK_SERIES_A] = {{32, 75, 25, 32}, CYAN, BLUE, NONE, NONE},
    [INK_SERIES_B] = {{163, 213, 127, 97}, MAGENTA, MAGENTA, NONE, BOLD},
    [INK_BAND] = {{243, 241, 245, 243}, USUAL, USUAL, DIM, DIM},
    [INK_TRACK] = {{243, 241, 245, 243}, USUAL, USUAL, DIM, DIM},
    [INK_MARK] = {ALL_USUAL, USUAL, USUAL, BOLD, BOLD},
    [INK_FILL] = {{30, 37, 30, 30}, CYAN, BLUE, NONE, NONE},
    [INK_FILL + 1] = {{31, 38, 31, 31}, CYAN, BLUE, NONE, NONE},
    [INK_FILL + 2] = {{32, 75, 25, 32}, CYAN, BLUE, NONE, NONE},
    [INK_FILL_LAST] = {{63, 105, 56, 63}, CYAN, BLUE, NONE, NONE},
};

int palette_colours(int colours)
{
    return colours >= 256 ? 256 : colours >= 16 ? 16 : colours >= 8 ? 8 : 0;
}

InkStyle palette_style(Ink ink, int colours, bool light, Theme theme)
{
    const InkRow *row = &INKS[ink < INK_END ? ink : INK_PLAIN];
    unsigned emphasis = colours ? row->with : row->without;
    InkStyle style = {.colour = USUAL, .bold = emphasis & BOLD, .underline = emphasis & UNDERLINE};
    if (colours >= 256)
        style.colour = row->many[theme];
    else if (colours)
        style.colour = theme == THEME_LIGHT || (light && theme != THEME_DARK) ? row->light : row->dark;
    style.dim = (emphasis & DIM) && style.colour == USUAL;
    return style;
}

bool palette_is_light(const char *colorfgbg)
{
    const char *background = colorfgbg ? strrchr(colorfgbg, ';') : NULL;
    if (!background || !background[1])
        return false;
    char *end = NULL;
    long number = strtol(background + 1, &end, 10);
    return !*end && (number == 7 || (number >= 9 && number <= 15));
}

/* --- printing ----------------------------------------------------------------------------------------------------- */

static bool is_blank(const Cell *cell)
{
    return cell->text[0] == ' ' && !cell->text[1];
}

/* The ANSI codes of a cell with the sixteen standard colours, "" plain. */
static const char *cell_codes(const Cell *cell, char out[32])
{
    const InkStyle style = palette_style((Ink)cell->ink, 16, false, THEME_AUTO);
    const bool shown = cell->reverse || !is_blank(cell);
    char colour[16] = "";

    if (style.colour >= 0)
        snprintf(colour, sizeof colour, ";%d", 30 + style.colour);
    snprintf(out, 32, "%s%s%s%s", cell->reverse ? ";7" : "", shown && style.bold ? ";1" : "",
             shown && style.dim ? ";2" : "", shown ? colour : "");
    return out;
}

/* A row up to the last cell that shows something; a reversed blank does so where reversal is shown. */
static void print_row(const Cell *row, int width, bool coloured, Str *out)
{
    char now[32] = "", codes[32] = "";

    while (width > 0 && is_blank(&row[width - 1]) && !(coloured && row[width - 1].reverse))
        width--;
    for (int x = 0; x < width; x++) {
        const bool half = !row[x].text[0];

        if (coloured && strcmp(cell_codes(&row[x], codes), now) != 0)
            str_addf(out, "\033[0%sm", strcpy(now, codes));
        str_add(out, half && (x == 0 || !row[x - 1].text[0]) ? " " : row[x].text); /* the half of nothing */
    }
    str_add(out, now[0] ? "\033[0m\n" : "\n");
}

void grid_print(const Grid *grid, bool coloured, Str *out)
{
    for (int y = 0; y < grid->height; y++)
        print_row(grid_at(grid, 0, y), grid->width, coloured, out);
}
