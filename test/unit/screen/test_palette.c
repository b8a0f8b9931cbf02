/* SPDX-License-Identifier: Apache-2.0 */
/* Covers the palette of src/service/screen/grid.c: what is drawn can be read on black and on white, and without
 * colours. */
#include "service/screen/grid.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Relative luminance of colour 16..255 of xterm's palette (WCAG 2.1; xterm's 256colres). */
static double luminance(int colour)
{
    static const int STEPS[] = {0, 95, 135, 175, 215, 255};
    int cube = colour - 16, grey = 8 + (colour - 232) * 10, parts[3];
    parts[0] = colour >= 232 ? grey : STEPS[cube / 36];
    parts[1] = colour >= 232 ? grey : STEPS[cube / 6 % 6];
    parts[2] = colour >= 232 ? grey : STEPS[cube % 6];
    double linear[3];
    for (int i = 0; i < 3; i++) {
        double part = parts[i] / 255.0;
        linear[i] = part <= 0.03928 ? part / 12.92 : pow((part + 0.055) / 1.055, 2.4);
    }
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
}

/* The least contrast of an ink: on black and on white, or on the background that the theme is for. Frames and drawings
 * need less there than texts. */
static void check_contrast(Ink ink, Theme theme)
{
    const InkStyle style = palette_style(ink, 256, false, theme);
    const double least = theme == THEME_AUTO || theme == THEME_COLOUR_BLIND ? 3.8
                         : ink == INK_FRAME || ink >= INK_BAR               ? 3
                                                                            : 4.5;

    if (style.colour < 0)
        return;                             /* the terminal's usual one */
    assert_in_range(style.colour, 16, 255); /* the first sixteen are whatever their owner made of them */
    const double here = luminance(style.colour), on_black = (here + 0.05) / 0.05, on_white = 1.05 / (here + 0.05);
    if ((theme != THEME_LIGHT && on_black < least) || (theme != THEME_DARK && on_white < least))
        fail_msg("theme %s, ink %d, colour %d: contrast %.1f on black, %.1f on white", theme_names[theme], ink,
                 style.colour, on_black, on_white);
}

static void every_ink_can_be_read(void **state)
{
    (void)state;
    for (int theme = 0; theme < THEME_END; theme++)
        for (int ink = 0; ink < INK_END; ink++)
            check_contrast((Ink)ink, (Theme)theme);
}

static bool same(InkStyle a, InkStyle b)
{
    return a.colour == b.colour && a.bold == b.bold && a.dim == b.dim && a.underline == b.underline;
}

static void check_severities(int colours, bool light, Theme theme)
{
    const InkStyle plain = palette_style(INK_PLAIN, colours, light, theme),
                   good = palette_style(INK_GOOD, colours, light, theme),
                   warn = palette_style(INK_WARN, colours, light, theme),
                   bad = palette_style(INK_BAD, colours, light, theme);

    assert_false(same(good, warn) || same(good, bad) || same(warn, bad) || same(plain, bad) || same(plain, warn));
    assert_int_equal(plain.colour, -1);
    if (!colours)
        assert_int_equal(bad.colour, -1);
}

static void what_is_wrong_looks_other_than_what_is_well(void **state)
{
    static const int COLOURS[] = {256, 16, 8, 0};
    (void)state;
    for (size_t i = 0; i < sizeof COLOURS / sizeof COLOURS[0]; i++)
        for (int light = 0; light < 2; light++)
            for (int theme = 0; theme < THEME_END; theme++)
                check_severities(COLOURS[i], light, (Theme)theme);
}

static void no_yellow_on_white(void **state)
{
    (void)state;
    for (int ink = 0; ink < INK_END; ink++) {
        assert_int_not_equal(palette_style((Ink)ink, 16, true, THEME_AUTO).colour, 3);
        assert_int_not_equal(palette_style((Ink)ink, 16, false, THEME_LIGHT).colour, 3);
    }
    assert_int_equal(palette_style(INK_WARN, 16, true, THEME_DARK).colour, 3);
}

static void the_background_is_what_colorfgbg_says(void **state)
{
    static const char *const LIGHT[] = {"0;15", "0;default;15", "8;7"}, *const DARK[] = {"15;0", "7;8", "",
                                                                                         "x;y",  "0;",  "15"};
    (void)state;
    for (size_t i = 0; i < sizeof LIGHT / sizeof LIGHT[0]; i++)
        assert_true(palette_is_light(LIGHT[i]));
    for (size_t i = 0; i < sizeof DARK / sizeof DARK[0]; i++)
        assert_false(palette_is_light(DARK[i]));
    assert_false(palette_is_light(NULL));
}

static void as_many_colours_as_there_is_a_table_for(void **state)
{
    static const int MANY[][2] = {{1 << 24, 256}, {256, 256}, {88, 16}, {16, 16}, {8, 8}, {7, 0}, {0, 0}, {-1, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof MANY / sizeof MANY[0]; i++)
        assert_int_equal(palette_colours(MANY[i][0]), MANY[i][1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_ink_can_be_read),
        cmocka_unit_test(what_is_wrong_looks_other_than_what_is_well),
        cmocka_unit_test(no_yellow_on_white),
        cmocka_unit_test(the_background_is_what_colorfgbg_says),
        cmocka_unit_test(as_many_colours_as_there_is_a_table_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
