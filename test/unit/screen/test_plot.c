/* SPDX-License-Identifier: Apache-2.0 */
/* Covers src/service/screen/plot.c. */
#include "test/unit/screen/kit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "service/screen/grid.h"

enum { COLUMNS_MAX = 200 };

static PlotPoint flat(float value)
{
    return (PlotPoint){value, value, value};
}

/* A grid that is the plot alone, from numbers. */
static void draw(Grid *grid, int height, bool utf8, PlotStyle style, const PlotPoint *points, size_t count)
{
    int width = (int)(style == PLOT_BRAILLE && utf8 ? (count + 1) / 2 : count);
    grid_init(grid, width, height, utf8);
    assert_int_equal(plot_columns(grid, grid_area(grid), style),
                     (style == PLOT_BRAILLE && utf8 ? 2 : 1) * (size_t)width);
    plot_draw(grid, grid_area(grid), style, &(PlotSeries){points, INK_SERIES_A, false}, 1, 0, 100);
}

static void a_line_is_joined_and_ends_where_nothing_is_known(void **state)
{
    PlotPoint points[12];
    static const float VALUES[] = {0, 0, 100, 100, NAN, NAN, 50, 50, NAN, 0, 100, NAN};
    Grid grid;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(VALUES); i++)
        points[i] = flat(VALUES[i]);
    draw(&grid, 2, true, PLOT_BRAILLE, points, ARRAY_LEN(points));
    assert_picture(&grid, true,
                   " ⡏ ⣀ ⡇\n"
                   " 1 1 1\n"
                   "⣀⠇  ⢀⠇\n"
                   "11  11\n");
    grid_done(&grid);
}

static void a_zero_is_seen_and_what_is_absent_is_not(void **state)
{
    const PlotPoint points[] = {flat(0), flat(0), flat(NAN), flat(NAN), flat(0), flat(0)};
    static const char *const PICTURES[][2] = {{"⣀ ⣀\n", "..  ..\n"}, {"▁▁  ▁▁\n", "..  ..\n"}};
    (void)state;
    for (int style = PLOT_BRAILLE; style <= PLOT_BLOCK; style++)
        for (int ascii = 0; ascii < 2; ascii++) {
            Grid grid;
            draw(&grid, 1, !ascii, (PlotStyle)style, points, ARRAY_LEN(points));
            assert_picture(&grid, false, PICTURES[style][ascii]);
            grid_done(&grid);
        }
}

static void the_band_is_behind_the_line(void **state)
{
    PlotPoint points[8];
    Grid grid;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(points); i++)
        points[i] = i < 4 ? (PlotPoint){0, 10, 100} : flat(10);
    draw(&grid, 3, true, PLOT_BRAILLE, points, ARRAY_LEN(points));
    assert_picture(&grid, true,
                   "⡪⡪\n"
                   "~~\n"
                   "⡪⡪\n"
                   "~~\n"
                   "⠤⠤⠤⠤\n"
                   "1111\n");
    grid_done(&grid);
}

static void lines_that_cross_keep_their_dots(void **state)
{
    const PlotPoint up[] = {flat(0), flat(100)}, down[] = {flat(100), flat(0)};
    const PlotSeries series[] = {{up, INK_SERIES_A, false}, {down, INK_SERIES_B, false}};
    Grid grid;
    (void)state;
    grid_init(&grid, 1, 1, true);
    plot_draw(&grid, grid_area(&grid), PLOT_BRAILLE, series, 2, 0, 100);
    assert_picture(&grid, true, "⣹\n2\n");
    grid_done(&grid);
}

/* What is filled is in the inks of its height; a line is over it, and the band above both. */
static void a_filled_plot_is_below_the_lines(void **state)
{
    const PlotPoint all[] = {flat(100), flat(100), flat(100), flat(100)};
    const PlotPoint low[] = {flat(0), flat(0), flat(0), flat(0)};
    const PlotPoint wide[] = {{0, 50, 100}, {0, 50, 100}};
    const PlotSeries series[] = {{all, INK_SERIES_A, true}, {low, INK_SERIES_B, false}};
    Grid grid;
    (void)state;
    grid_init(&grid, 2, 4, true);
    plot_draw(&grid, grid_area(&grid), PLOT_BRAILLE, series, 2, 0, 100);
    assert_picture(&grid, true, "⣿⣿\n66\n⣿⣿\n55\n⣿⣿\n44\n⣿⣿\n22\n");
    grid_clear(&grid);
    plot_draw(&grid, grid_area(&grid), PLOT_BLOCK, series, 2, 0, 100);
    assert_picture(&grid, true, "██\n66\n██\n55\n██\n44\n██\n33\n");
    grid_done(&grid);
    grid_init(&grid, 1, 2, true);
    plot_draw(&grid, grid_area(&grid), PLOT_BRAILLE, &(PlotSeries){wide, INK_SERIES_A, true}, 1, 0, 100);
    assert_picture(&grid, true, "⣀\n5\n⣿\n3\n");
    grid_done(&grid);
}

static void blocks_rise_in_eighths(void **state)
{
    PlotPoint points[9];
    Grid grid;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(points); i++)
        points[i] = flat((float)i * 12.5F);
    draw(&grid, 2, true, PLOT_BLOCK, points, ARRAY_LEN(points));
    assert_picture(&grid, false,
                   "     ▂▄▆█\n"
                   "▁▂▄▆█████\n");
    grid_done(&grid);
    draw(&grid, 2, false, PLOT_BLOCK, points, ARRAY_LEN(points));
    assert_picture(&grid, false,
                   "     .:##\n"
                   "..:######\n");
    grid_done(&grid);
}

static void values_beyond_the_edges_are_at_them(void **state)
{
    const PlotPoint points[] = {flat(-50), flat(-INFINITY), flat(NAN), flat(250), flat(INFINITY)};
    Grid grid;
    (void)state;
    draw(&grid, 1, true, PLOT_BLOCK, points, ARRAY_LEN(points));
    assert_picture(&grid, false, "▁▁ ██\n");
    plot_draw(&grid, grid_area(&grid), PLOT_BLOCK, &(PlotSeries){points, INK_BAR, false}, 1, 5, 5);
    grid_clear(&grid);
    plot_draw(&grid, grid_area(&grid), PLOT_BLOCK, &(PlotSeries){points, INK_BAR, false}, 1, 5, 5);
    assert_picture(&grid, false, "▁▁ ▁▁\n");
    grid_done(&grid);
}

static void bars_say_how_much_and_whether_it_is_known(void **state)
{
    static const struct {
        float part, second;
        const char *fine, *plain;
    } BARS[] = {
        {0, NAN, "────────\n", "--------\n"},       {0.001F, NAN, "▏───────\n", "|-------\n"},
        {0.5F, NAN, "████────\n", "####----\n"},    {0.5F + 3 / 64.0F, NAN, "████▍───\n", "####----\n"},
        {0.9999F, NAN, "███████▉\n", "########\n"}, {1, NAN, "████████\n", "########\n"},
        {7, NAN, "████████\n", "########\n"},       {NAN, NAN, "········\n", "........\n"},
        {0.25F, 0.8F, "██────│─\n", "##----|-\n"},  {1, 1, "███████│\n", "#######|\n"},
        {-1, 0, "│───────\n", "|-------\n"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(BARS); i++)
        for (int ascii = 0; ascii < 2; ascii++) {
            Grid grid;
            grid_init(&grid, 8, 1, !ascii);
            plot_bar(&grid, grid_area(&grid), INK_BAR, BARS[i].part, BARS[i].second);
            assert_picture(&grid, false, ascii ? BARS[i].plain : BARS[i].fine);
            grid_done(&grid);
        }
}

static void a_spark_shows_the_newest_at_the_right(void **state)
{
    PlotPoint points[10];
    Grid grid;
    (void)state;
    for (size_t i = 0; i < 10; i++)
        points[i] = flat(i == 5 ? NAN : (float)i);
    grid_init(&grid, 12, 2, true);
    plot_spark(&grid, grid_area(&grid), INK_BAR, points, 10, 0, 9);
    plot_spark(&grid, (Area){0, 1, 4, 1}, INK_BAR, points, 10, 0, 9);
    assert_picture(&grid, false,
                   "  ▁▂▃▃▄ ▆▆▇█\n"
                   "▆▆▇█\n");
    grid_done(&grid);
    grid_init(&grid, 10, 1, false);
    plot_spark(&grid, grid_area(&grid), INK_BAR, points, 10, 0, 9);
    assert_picture(&grid, false, ".::-= +**#\n");
    grid_done(&grid);
}

static float odd_value(Dice *dice)
{
    static const float ODD[] = {NAN, INFINITY, -INFINITY, 0, -0.0F, 1e38F, -1e38F, 1e-38F};
    return dice_throw(dice, 4) == 0 ? ODD[dice_throw(dice, ARRAY_LEN(ODD))] : (float)dice_between(dice, -20, 120);
}

static PlotPoint *points_by_chance(Dice *dice, size_t count)
{
    PlotPoint *points = xcalloc(count, sizeof *points);
    for (size_t i = 0; i < count; i++)
        points[i] = (PlotPoint){odd_value(dice), odd_value(dice), odd_value(dice)};
    return points;
}

static void draw_by_chance(Dice *dice, Grid *grid, Area area)
{
    PlotStyle style = dice_throw(dice, 2) ? PLOT_BLOCK : PLOT_BRAILLE;
    size_t count = plot_columns(grid, area, style);
    CLEANUP_FREE PlotPoint *a = points_by_chance(dice, count);
    CLEANUP_FREE PlotPoint *b = points_by_chance(dice, count);
    const PlotSeries series[] = {{a, INK_SERIES_A, true}, {b, INK_SERIES_B, false}};
    float low = odd_value(dice), high = odd_value(dice);
    switch (dice_throw(dice, 3)) {
    case 0:
        plot_draw(grid, area, style, series, 2, low, high);
        break;
    case 1:
        plot_bar(grid, area, INK_BAR, low / 100, high / 100);
        break;
    default:
        plot_spark(grid, area, INK_BAR, a, dice_throw(dice, count + 1), low, high);
    }
}

static void nothing_is_drawn_outside_of_the_area(void **state)
{
    Dice dice = {521288629};
    (void)state;
    for (int i = 0; i < 20000; i++) {
        Grid grid, before;
        Area area = dice_area(&dice);
        area.width = area.width > COLUMNS_MAX ? COLUMNS_MAX : area.width;
        dice_grid(&dice, &grid);
        grid_copy(&grid, &before);
        draw_by_chance(&dice, &grid, area);
        assert_whole(&grid);
        assert_untouched(&before, &grid, area);
        grid_done(&grid);
        grid_done(&before);
    }
}

/* Whatever the values: a column with a value shows something, one without shows nothing. */
static void each_known_column_is_seen_and_no_other(void **state)
{
    Dice dice = {5783321};
    (void)state;
    for (int round = 0; round < 2000; round++) {
        PlotPoint points[30];
        Grid grid;
        PlotStyle style = dice_throw(&dice, 2) ? PLOT_BLOCK : PLOT_BRAILLE;
        bool utf8 = style == PLOT_BLOCK && dice_throw(&dice, 2);
        for (size_t i = 0; i < ARRAY_LEN(points); i++)
            points[i] = flat(odd_value(&dice));
        draw(&grid, dice_between(&dice, 1, 6), utf8, style, points, ARRAY_LEN(points));
        for (int x = 0; x < grid.width; x++) {
            bool seen = false;
            for (int y = 0; y < grid.height; y++)
                seen |= strcmp(grid_at(&grid, x, y)->text, " ") != 0;
            assert_int_equal(seen, !isnan(points[x].mean));
        }
        grid_done(&grid);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_is_joined_and_ends_where_nothing_is_known),
        cmocka_unit_test(a_zero_is_seen_and_what_is_absent_is_not),
        cmocka_unit_test(the_band_is_behind_the_line),
        cmocka_unit_test(lines_that_cross_keep_their_dots),
        cmocka_unit_test(a_filled_plot_is_below_the_lines),
        cmocka_unit_test(blocks_rise_in_eighths),
        cmocka_unit_test(values_beyond_the_edges_are_at_them),
        cmocka_unit_test(bars_say_how_much_and_whether_it_is_known),
        cmocka_unit_test(a_spark_shows_the_newest_at_the_right),
        cmocka_unit_test(nothing_is_drawn_outside_of_the_area),
        cmocka_unit_test(each_known_column_is_seen_and_no_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
