/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "verb/top/terminal_inside.h"

void terminal_forget_shown(Terminal *terminal)
{
    size_t count = (size_t)terminal->width * (size_t)terminal->height;
    terminal->shown = xrealloc(terminal->shown, count, sizeof *terminal->shown);
    memset(terminal->shown, 0, count * sizeof *terminal->shown);
}

/* The characters of a cell for ncurses. Where the C library thinks otherwise about a character's width, ncurses would
 * lose its place: '?' then. */
static void to_wide(const Terminal *terminal, const char *text, int width, wchar_t out[CCHARW_MAX + 1])
{
    size_t len = strnlen(text, CELL_TEXT_CAP), count = 0, n;
    uint32_t c = 0;
    while (count < CCHARW_MAX && (n = utf8_read(text, len, &c)) > 0) {
        int columns = terminal->utf8 || c < 0x80 ? wcwidth((wchar_t)c) : -1;
        if (columns == (count ? 0 : width))
            out[count++] = (wchar_t)c;
        else if (count == 0)
            break;
        text += n;
        len -= n;
    }
    if (count == 0)
        out[count++] = L'?';
    out[count] = L'\0';
}

static void put_cell(const Terminal *terminal, int x, int y, const Cell *cell, int width)
{
    wchar_t wide[CCHARW_MAX + 1];
    cchar_t shown;
    short ink = cell->ink < INK_END ? cell->ink : INK_PLAIN;
    to_wide(terminal, cell->text, width, wide);
    attr_t attributes = terminal->attributes[ink] | (cell->reverse ? A_REVERSE : 0);
    setcchar(&shown, wide, attributes, terminal->colours ? (short)(ink + 1) : (short)0, NULL);
    mvadd_wch(y, x, &shown); /* of the last cell it says ERR, as the cursor cannot go on; the cell is set */
    if (width == 2 && wcwidth(wide[0]) == 1)
        mvadd_wch(y, x + 1, &shown);
}

static bool is_same(const Cell *a, const Cell *b)
{
    return a->ink == b->ink && a->reverse == b->reverse && memcmp(a->text, b->text, sizeof a->text) == 0;
}

static void show_row(Terminal *terminal, const Grid *grid, int y)
{
    int width = grid->width < terminal->width ? grid->width : terminal->width;
    const Cell *row = grid_at(grid, 0, y);
    Cell *shown = &terminal->shown[(size_t)y * (size_t)terminal->width];
    for (int x = 0; x < width; x++) {
        bool wide = x + 1 < width && !row[x + 1].text[0];
        bool changed = !is_same(&row[x], &shown[x]) || (wide && !is_same(&row[x + 1], &shown[x + 1]));
        if (changed && row[x].text[0])
            put_cell(terminal, x, y, &row[x], wide ? 2 : 1);
    }
    memcpy(shown, row, (size_t)width * sizeof *shown);
}

static void show_small(Terminal *terminal)
{
    static const Cell WORD = {.text = " "};
    char text[96];
    erase();
    snprintf(text, sizeof text, "%dx%d is too small: %dx%d", terminal->width, terminal->height, TERMINAL_WIDTH_MIN,
             TERMINAL_HEIGHT_MIN);
    for (int x = 0; text[x] && x < terminal->width; x++) {
        Cell cell = WORD;
        cell.text[0] = text[x];
        put_cell(terminal, x, terminal->height / 2, &cell, 1);
    }
    refresh();
}

void terminal_show(Terminal *terminal, const Grid *grid)
{
    if (terminal->gone)
        return;
    bool small = terminal->width < TERMINAL_WIDTH_MIN || terminal->height < TERMINAL_HEIGHT_MIN;
    if (small != terminal->small || small) {
        erase();
        terminal_forget_shown(terminal);
    }
    terminal->small = small;
    if (small) {
        show_small(terminal);
        return;
    }
    for (int y = 0; y < grid->height && y < terminal->height; y++)
        show_row(terminal, grid, y);
    refresh();
}

void terminal_redraw(Terminal *terminal)
{
    (void)terminal;
    clearok(curscr, TRUE);
}
