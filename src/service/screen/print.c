/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <string.h>

#include "base/owner.h"
#include "service/screen/grid.h"

/* What the inks are where the colours are those sixteen that every terminal's owner has set up to be readable. */
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
