/* SPDX-License-Identifier: Apache-2.0 */
#include "test/unit/screen/print.h"

#include <ctype.h>
#include <string.h>

#include "base/cleanup.h"

static bool is_blank(const Cell *cell)
{
    return strcmp(cell->text, " ") == 0;
}

static char letter_of(const Cell *cell)
{
    static const char letters[INK_END + 1] = ".dstfgwbkm12~_|3456";
    const char letter = cell->ink < INK_END ? letters[cell->ink] : '?';

    if (cell->reverse)
        return isalpha((unsigned char)letter) ? (char)toupper((unsigned char)letter) : '#';
    return is_blank(cell) ? ' ' : letter;
}

static void add_inks(const Cell *row, int end, Str *out)
{
    bool other = false;

    while (end > 0 && is_blank(&row[end - 1]) && !row[end - 1].reverse)
        end--;
    for (int x = 0; x < end; x++)
        other |= row[x].reverse || (row[x].ink != INK_PLAIN && !is_blank(&row[x]));
    for (int x = 0; x < end && other; x++)
        str_addc(out, letter_of(&row[x]));
    if (other)
        str_addc(out, '\n');
}

void print_inks(const Grid *grid, bool inks, Str *out)
{
    CLEANUP(str_done) Str text = {0};

    str_init(&text, 1 << 22);
    grid_print(grid, false, &text);
    const char *line = text.text;
    for (int y = 0; y < grid->height; y++) {
        const size_t len = strcspn(line, "\n") + 1;

        str_addn(out, line, len);
        line += len;
        if (inks)
            add_inks(grid_at(grid, 0, y), grid->width, out);
    }
}
