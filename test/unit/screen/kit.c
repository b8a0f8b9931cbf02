/* SPDX-License-Identifier: Apache-2.0 */
#include "test/unit/screen/kit.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/utf8.h"
#include "test/unit/screen/print.h"

void assert_picture(const Grid *grid, bool inks, const char *expected)
{
    CLEANUP(str_done) Str text;
    str_init(&text, 1 << 20);
    print_inks(grid, inks, &text);
    if (strcmp(text.text, expected) != 0)
        fail_msg("the screen is\n%s-- and should be\n%s", text.text, expected);
}

static bool is_one_glyph(const char *text, bool utf8, int width)
{
    Glyph glyph;
    const char *rest = text;
    return glyph_next(&rest, utf8, &glyph) && !*rest && strcmp(glyph.text, text) == 0 && glyph.width == width;
}

void assert_whole(const Grid *grid)
{
    for (int y = 0; y < grid->height; y++)
        for (int x = 0; x < grid->width; x++) {
            const Cell *cell = grid_at(grid, x, y), *right = grid_at(grid, x + 1, y), *left = grid_at(grid, x - 1, y);
            assert_non_null(memchr(cell->text, '\0', sizeof cell->text));
            if (!cell->text[0] && !(left && left->text[0]))
                fail_msg("%d,%d: the right half of nothing", x, y);
            if (cell->text[0] && !is_one_glyph(cell->text, grid->utf8, right && !right->text[0] ? 2 : 1))
                fail_msg("%d,%d: '%s' is not one whole character", x, y, cell->text);
        }
}

uint64_t dice_throw(Dice *dice, uint64_t sides)
{
    dice->state ^= dice->state << 13;
    dice->state ^= dice->state >> 7;
    dice->state ^= dice->state << 17;
    return dice->state % sides;
}

int dice_between(Dice *dice, int low, int high)
{
    return low + (int)dice_throw(dice, (uint64_t)(high - low + 1));
}

void dice_text(Dice *dice, char *out, size_t size)
{
    static const char *const PARTS[] = {"a",
                                        "Z",
                                        " ",
                                        "0",
                                        "ü",
                                        "漢",
                                        "한",
                                        "🚀",
                                        "e\xcc\x81",
                                        "\xcc\x88",
                                        "\n",
                                        "\033[2J",
                                        "\x80",
                                        "\xe6\xbc",
                                        "\xff",
                                        "\xe2\x80\xae",
                                        "│",
                                        "⣿",
                                        "x\xcc\x81\xcc\x82\xcc\x83\xcc\x84\xcc\x85\xcc\x86\xcc\x87"};
    size_t used = 0, parts = dice_throw(dice, 40);
    out[0] = '\0';
    for (size_t i = 0; i < parts; i++) {
        const char *part = PARTS[dice_throw(dice, ARRAY_LEN(PARTS))];
        size_t len = strlen(part);
        if (used + len >= size)
            return;
        memcpy(out + used, part, len + 1);
        used += len;
    }
}

static int odd_number(Dice *dice)
{
    static const int FAR[] = {INT32_MIN, INT32_MAX, -1000000, 1000000};
    return dice_throw(dice, 20) == 0 ? FAR[dice_throw(dice, ARRAY_LEN(FAR))] : dice_between(dice, -6, 34);
}

Area dice_area(Dice *dice)
{
    return (Area){odd_number(dice), odd_number(dice), odd_number(dice), odd_number(dice)};
}

void dice_grid(Dice *dice, Grid *grid)
{
    char text[200];
    grid_init(grid, dice_between(dice, 1, 30), dice_between(dice, 1, 12), dice_throw(dice, 3) != 0);
    for (int y = 0; y < grid->height; y++) {
        dice_text(dice, text, sizeof text);
        grid_text(grid, grid_area(grid), 0, y, (Ink)dice_throw(dice, INK_END), text);
    }
}

void grid_copy(const Grid *from, Grid *to)
{
    grid_init(to, from->width, from->height, from->utf8);
    memcpy(to->cells, from->cells, (size_t)from->width * (size_t)from->height * sizeof *to->cells);
}

static bool is_in(Area area, int x, int y)
{
    return x >= area.x && y >= area.y && x < (int64_t)area.x + area.width && y < (int64_t)area.y + area.height;
}

/* Its other half lay within the area. */
static bool was_cut(const Grid *before, Area area, int x, int y)
{
    const Cell *right = grid_at(before, x + 1, y);
    if (!grid_at(before, x, y)->text[0])
        return is_in(area, x - 1, y);
    return right && !right->text[0] && is_in(area, x + 1, y);
}

void assert_untouched(const Grid *before, const Grid *after, Area area)
{
    for (int y = 0; y < before->height; y++)
        for (int x = 0; x < before->width; x++) {
            const Cell *old = grid_at(before, x, y), *new = grid_at(after, x, y);
            bool same = strcmp(old->text, new->text) == 0 && old->ink == new->ink && old->reverse == new->reverse;
            bool blanked = strcmp(new->text, " ") == 0 && was_cut(before, area, x, y);
            if (!is_in(area, x, y) && !same && !blanked)
                fail_msg("%d,%d of %dx%d was changed by what is drawn into %d,%d %dx%d", x, y, before->width,
                         before->height, area.x, area.y, area.width, area.height);
        }
}
