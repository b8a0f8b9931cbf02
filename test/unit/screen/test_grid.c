/* SPDX-License-Identifier: Apache-2.0 */
/* Covers src/service/screen/grid.c. */
#include "test/unit/screen/kit.h"

#include <locale.h>
#include <string.h>
#include <wchar.h>

#include "base/cleanup.h"
#include "base/utf8.h"

static void widths_are_those_of_the_c_library(void **state)
{
    (void)state;
    if (!setlocale(LC_CTYPE, "C.UTF-8"))
        fail_msg("no C.UTF-8");
    size_t others = 0;
    for (uint32_t c = 1; c <= 0x10ffff; c++) {
        int theirs = wcwidth((wchar_t)c), ours = utf8_columns(c);
        if (theirs < 0 || (c >= 0xd800 && c < 0xe000))
            continue; /* assigned to nothing that they know */
        if (ours < 0)
            continue; /* formats and separators: they are shown as '?' here */
        others += theirs != ours;
    }
    setlocale(LC_CTYPE, "C");
    assert_int_equal(others, 0);
}

static void what_acts_on_the_terminal_is_never_drawn(void **state)
{
    static const char *const TEXTS[] = {"\033[2J",      "a\tb",         "\x7f",     "\xc2\x9b",
                                        "\xe2\x80\xae", "\xe2\x80\x8d", "\xff\xfe", "\xed\xa0\x80"};
    static const char *const DRAWN[] = {"?[2J", "a?b", "?", "?", "?", "?", "??", "???"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(TEXTS); i++) {
        Grid grid;
        CLEANUP(str_done) Str line;
        str_init(&line, 100);
        grid_init(&grid, 8, 1, true);
        grid_text(&grid, grid_area(&grid), 0, 0, INK_PLAIN, TEXTS[i]);
        str_addf(&line, "%s\n", DRAWN[i]);
        assert_picture(&grid, false, line.text);
        grid_done(&grid);
    }
}

static void text_is_cut_at_both_edges_of_its_area(void **state)
{
    Grid grid;
    (void)state;
    grid_init(&grid, 12, 5, true);
    Area area = {.x = 2, .y = 1, .width = 6, .height = 4};
    grid_fill(&grid, grid_area(&grid), INK_DIM, ".");
    assert_int_equal(grid_text(&grid, area, 0, 0, INK_PLAIN, "abcdefghij"), 6);
    assert_int_equal(grid_text(&grid, area, -3, 1, INK_PLAIN, "abcdefghijkl"), 6);
    grid_right(&grid, area, 6, 2, INK_PLAIN, "abcdefgh");
    grid_right(&grid, area, 4, 3, INK_PLAIN, "12");
    assert_int_equal(grid_text(&grid, area, 0, 9, INK_PLAIN, "outside"), 6);
    assert_int_equal(grid_text(&grid, area, 9, 0, INK_PLAIN, "outside"), 9);
    assert_picture(&grid, false,
                   "............\n"
                   "..abcde…....\n"
                   "..defgh…....\n"
                   "..cdefgh....\n"
                   "....12......\n");
    grid_done(&grid);
}

/* Behind a word where that leaves a quarter of the room empty at most. */
static void a_long_text_ends_with_an_ellipsis(void **state)
{
    Grid grid;
    (void)state;
    grid_init(&grid, 16, 5, true);
    assert_int_equal(grid_text(&grid, grid_area(&grid), 0, 0, INK_PLAIN, "check fans and airflow"), 16);
    grid_text(&grid, grid_area(&grid), 0, 1, INK_PLAIN, "pod lab/notebook-00");
    grid_text(&grid, grid_area(&grid), 0, 2, INK_PLAIN, "as wide as it is");
    grid_text(&grid, grid_area(&grid), 15, 3, INK_PLAIN, "ab");
    assert_int_equal(grid_text(&grid, grid_area(&grid), 16, 4, INK_PLAIN, "ab"), 16);
    assert_picture(&grid, false,
                   "check fans and…\n"
                   "pod lab/noteboo…\n"
                   "as wide as it is\n"
                   "               …\n"
                   "\n");
    grid_done(&grid);
    assert_int_equal(grid_text_fit("one two", 7, 1), 7);
    assert_int_equal(grid_text_fit("one two", 6, 1), 3);
    assert_int_equal(grid_text_fit("one two", 6, 4), 6);
    assert_int_equal(grid_text_fit("漢字", 3, 1), 3);
}

static void wide_characters_are_whole_or_blank(void **state)
{
    Grid grid;
    (void)state;
    grid_init(&grid, 8, 5, true);
    Area area = {.x = 0, .y = 0, .width = 5, .height = 5};
    assert_int_equal(grid_text(&grid, area, 0, 0, INK_PLAIN, "漢字漢字"), 5);
    grid_text(&grid, area, -1, 1, INK_PLAIN, "漢字");
    grid_text(&grid, area, 0, 2, INK_PLAIN, "漢字");
    grid_text(&grid, area, 1, 2, INK_PLAIN, "ab");
    grid_text(&grid, area, 0, 3, INK_PLAIN, "e\xcc\x81\xcc\xa3x"); /* with two marks */
    grid_text(&grid, area, 0, 4, INK_PLAIN, "abcd");
    grid_text(&grid, area, 1, 4, INK_PLAIN, "漢");
    assert_picture(&grid, false,
                   "漢字…\n"
                   " 字\n"
                   " ab\n"
                   "e\xcc\x81\xcc\xa3x\n"
                   "a漢d\n");
    assert_whole(&grid);
    assert_int_equal(grid_text_width("漢字e\xcc\x81x"), 6);
    assert_int_equal(grid_text_width("\xcc\x81"), 0);
    grid_done(&grid);
}

static void without_utf8_everything_has_a_plain_form(void **state)
{
    Grid grid;
    (void)state;
    grid_init(&grid, 24, 5, false);
    grid_box(&grid, grid_area(&grid), INK_TITLE, "GPU 0 · 61 °C");
    Area inside = {.x = 1, .y = 1, .width = 22, .height = 3};
    assert_int_equal(grid_text(&grid, inside, 0, 0, INK_PLAIN, "↑3 µs → …漢é e\xcc\x81☃"), 15);
    assert_int_equal(grid_text_width("↑3 µs → …漢é e\xcc\x81☃"), 15);
    grid_fill(&grid, (Area){1, 2, 3, 1}, INK_BAR, "█");
    grid_fill(&grid, (Area){1, 3, 3, 1}, INK_BAR, "漢");
    assert_picture(&grid, false,
                   "+- GPU 0 . 61 'C ------+\n"
                   "|^3 us > ~??e e?       |\n"
                   "|###                   |\n"
                   "|??                    |\n"
                   "+----------------------+\n");
    grid_done(&grid);
}

static void a_box_says_what_is_inside(void **state)
{
    Grid grid;
    (void)state;
    grid_init(&grid, 14, 4, true);
    Area inside = grid_box(&grid, grid_area(&grid), INK_TITLE, "a long title indeed");
    assert_memory_equal(&inside, (&(Area){1, 1, 12, 2}), sizeof inside);
    inside = grid_box(&grid, (Area){2, 1, 6, 2}, INK_DIM, "x");
    assert_memory_equal(&inside, (&(Area){3, 2, 4, 0}), sizeof inside);
    assert_picture(&grid, true,
                   "╭─ a long…───╮\n"
                   "tt t ttttttttt\n"
                   "│ ╭────╮     │\n"
                   "t dddddd     t\n"
                   "│ ╰────╯     │\n"
                   "t dddddd     t\n"
                   "╰────────────╯\n"
                   "tttttttttttttt\n");
    inside = grid_box(&grid, (Area){3, 3, 1, 1}, INK_DIM, NULL);
    assert_int_equal(inside.width, 0);
    assert_int_equal(inside.height, 0);
    grid_done(&grid);
}

/* A box is two cells in each direction at least, its title three more. */
static void a_box_needs_some_room(void **state)
{
    static const struct {
        int width, height;
        const char *picture;
        Area inside;
    } cases[] = {
        {0, 0, ".......\n.......\n.......\n", {0, 0, 0, 0}}, {1, 3, ".......\n.......\n.......\n", {1, 1, 0, 1}},
        {7, 1, ".......\n.......\n.......\n", {1, 1, 5, 0}}, {2, 2, "╭╮.....\n╰╯.....\n.......\n", {1, 1, 0, 0}},
        {3, 3, "╭─╮....\n│.│....\n╰─╯....\n", {1, 1, 1, 1}}, {6, 2, "╭────╮.\n╰────╯.\n.......\n", {1, 1, 4, 0}},
        {7, 3, "╭─ a ─╮\n│.....│\n╰─────╯\n", {1, 1, 5, 1}},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        Grid grid;

        grid_init(&grid, 7, 3, true);
        grid_fill(&grid, grid_area(&grid), INK_DIM, ".");
        const Area inside = grid_box(&grid, (Area){.width = cases[i].width, .height = cases[i].height}, INK_PLAIN, "a");
        assert_picture(&grid, false, cases[i].picture);
        assert_memory_equal(&inside, &cases[i].inside, sizeof inside);
        grid_done(&grid);
    }
}

static void inks_are_printed_below_their_line(void **state)
{
    Grid grid;
    CLEANUP(str_done) Str text;
    (void)state;
    grid_init(&grid, 16, 3, true);
    int x = grid_text(&grid, grid_area(&grid), 0, 0, INK_PLAIN, "GPU ");
    x = grid_textf(&grid, grid_area(&grid), x, 0, INK_BAD, "%d lost", 3);
    grid_text(&grid, grid_area(&grid), 0, 1, INK_PLAIN, "plain");
    grid_text(&grid, grid_area(&grid), 0, 2, INK_GOOD, "ok 漢");
    grid_reverse(&grid, (Area){0, 2, 7, 9});
    grid_text(&grid, grid_area(&grid), 8, 2, INK_SERIES_A, "s");
    assert_picture(&grid, true,
                   "GPU 3 lost\n"
                   "... b bbbb\n"
                   "plain\n"
                   "ok 漢   s\n"
                   "GGGGG## 1\n");
    str_init(&text, 1000);
    grid_print(&grid, true, &text);
    assert_string_equal(text.text, "GPU \033[0;1;31m3\033[0m \033[0;1;31mlost\033[0m\nplain\n"
                                   "\033[0;7;32mok 漢\033[0;7m  \033[0m \033[0;36ms\033[0m\n");
    str_clear(&text);
    grid_print(&grid, false, &text);
    assert_null(strchr(text.text, '\033'));
    grid_done(&grid);
}

static void a_size_is_brought_into_its_range(void **state)
{
    Grid grid;
    (void)state;
    grid_init(&grid, 0, -5, true);
    assert_int_equal(grid.width, 1);
    assert_int_equal(grid.height, 1);
    grid_text(&grid, grid_area(&grid), 0, 0, INK_BAD, "漢");
    grid_resize(&grid, 100000, 100000);
    assert_int_equal(grid.width, GRID_WIDTH_MAX);
    assert_int_equal(grid.height, GRID_HEIGHT_MAX);
    assert_whole(&grid);
    assert_null(grid_at(&grid, GRID_WIDTH_MAX, 0));
    assert_null(grid_at(&grid, 0, -1));
    grid_done(&grid);
    grid_done(&grid);
}

/* Draws something into the area. */
static void draw_by_chance(Dice *dice, Grid *grid, Area area)
{
    char text[400];
    int x = dice_between(dice, -40, 40), y = dice_between(dice, -4, 14);
    Ink ink = (Ink)dice_throw(dice, INK_END);
    dice_text(dice, text, sizeof text);
    switch (dice_throw(dice, 6)) {
    case 0:
        grid_text(grid, area, x, y, ink, text);
        break;
    case 1:
        grid_textf(grid, area, x, y, ink, "%s%s", text, text);
        break;
    case 2:
        grid_right(grid, area, x, y, ink, text);
        break;
    case 3:
        grid_fill(grid, area, ink, text);
        break;
    case 4:
        grid_reverse(grid, area);
        break;
    default:
        grid_box(grid, area, ink, text);
    }
}

static void nothing_is_drawn_outside_of_the_area(void **state)
{
    Dice dice = {88172645463325252};
    (void)state;
    for (int i = 0; i < 20000; i++) {
        Grid grid, before;
        dice_grid(&dice, &grid);
        grid_copy(&grid, &before);
        Area area = dice_area(&dice);
        draw_by_chance(&dice, &grid, area);
        assert_whole(&grid);
        assert_untouched(&before, &grid, area);
        grid_done(&grid);
        grid_done(&before);
    }
}

static void the_column_after_a_text_is_where_the_next_one_goes(void **state)
{
    Dice dice = {362436069};
    (void)state;
    for (int i = 0; i < 5000; i++) {
        char text[300];
        Grid grid;
        dice_text(&dice, text, sizeof text);
        grid_init(&grid, 40, 1, dice_throw(&dice, 2));
        int x = dice_between(&dice, -50, 50), width = grid_text_width(text);
        int after = grid_text(&grid, grid_area(&grid), x, 0, INK_PLAIN, text);
        int expected = x + width > 40 ? (x > 40 ? x : 40) : x + width;
        assert_int_equal(after, expected);
        grid_done(&grid);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(widths_are_those_of_the_c_library),
        cmocka_unit_test(what_acts_on_the_terminal_is_never_drawn),
        cmocka_unit_test(text_is_cut_at_both_edges_of_its_area),
        cmocka_unit_test(a_long_text_ends_with_an_ellipsis),
        cmocka_unit_test(wide_characters_are_whole_or_blank),
        cmocka_unit_test(without_utf8_everything_has_a_plain_form),
        cmocka_unit_test(a_box_says_what_is_inside),
        cmocka_unit_test(a_box_needs_some_room),
        cmocka_unit_test(inks_are_printed_below_their_line),
        cmocka_unit_test(a_size_is_brought_into_its_range),
        cmocka_unit_test(nothing_is_drawn_outside_of_the_area),
        cmocka_unit_test(the_column_after_a_text_is_where_the_next_one_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
