/* SPDX-License-Identifier: Apache-2.0 */
/* Walks the table of units (model/unit.def, unit.c). */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "model/unit.h"

static void symbols_lead_back(void **state)
{
    (void)state;
    for (Unit unit = 0; unit < UNIT_END; unit++) {
        Unit found = UNIT_END;

        assert_true(strlen(unit_symbol(unit)) > 0);
        assert_true(unit_find(unit_symbol(unit), &found));
        assert_int_equal(found, unit);
    }
}

static void unknown_symbols_are_refused(void **state)
{
    static const char *const misses[] = {"", "mhz", "MHz ", "GHz", "byte", "hertz"};
    Unit unit = UNIT_WATT;

    (void)state;
    for (size_t i = 0; i < sizeof misses / sizeof misses[0]; i++)
        assert_false(unit_find(misses[i], &unit));
    assert_int_equal(unit, UNIT_WATT);
}

/* Each base unit is itself in the table with factor 1, and counted things have no base but factor 1. */
static void bases_are_whole(void **state)
{
    static const char *const bases[] = {"celsius",          "watts", "joules", "hertz", "bytes",
                                        "bytes_per_second", "ratio", "seconds"};

    (void)state;
    for (Unit unit = 0; unit < UNIT_END; unit++) {
        const char *suffix = unit_suffix(unit);
        bool known = suffix[0] == '\0' && unit_factor(unit) == 1;
        bool has_one = known;

        for (size_t i = 0; i < sizeof bases / sizeof bases[0]; i++)
            known = known || strcmp(bases[i], suffix) == 0;
        for (Unit other = 0; other < UNIT_END; other++)
            has_one = has_one || (strcmp(unit_suffix(other), suffix) == 0 && unit_factor(other) == 1);
        assert_true(known && has_one);
    }
}

static void ratios(void **state)
{
    static const struct {
        Unit from, to;
        double expected;
    } rows[] = {
        {UNIT_MEGAHERTZ, UNIT_HERTZ, 1e6},
        {UNIT_MILLIJOULE, UNIT_JOULE, 1e-3},
        {UNIT_MEBIBYTE, UNIT_BYTE, 1048576},
        {UNIT_BYTE, UNIT_MEBIBYTE, 1 / 1048576.},
        {UNIT_PERCENT, UNIT_RATIO, 0.01},
        {UNIT_NANOSECOND, UNIT_SECOND, 1e-9},
        {UNIT_NVLINK_MB_PER_SECOND, UNIT_BYTES_PER_SECOND, 1024000},
        {UNIT_KB_PER_SECOND, UNIT_BYTES_PER_SECOND, 1000},
        {UNIT_ROWS, UNIT_ROWS, 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double ratio = 0;

        assert_true(unit_ratio(rows[i].from, rows[i].to, &ratio));
        assert_true(fabs(ratio - rows[i].expected) <= 1e-12 * rows[i].expected);
    }
}

static void different_quantities_do_not_convert(void **state)
{
    static const Unit rows[][2] = {{UNIT_WATT, UNIT_JOULE},
                                   {UNIT_BYTE, UNIT_BYTES_PER_SECOND},
                                   {UNIT_ROWS, UNIT_PAGES},
                                   {UNIT_COUNT, UNIT_RATIO},
                                   {UNIT_TEXT, UNIT_CELSIUS}};
    double ratio = 7;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_false(unit_ratio(rows[i][0], rows[i][1], &ratio));
    assert_true(ratio == 7);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(symbols_lead_back),
        cmocka_unit_test(unknown_symbols_are_refused),
        cmocka_unit_test(bases_are_whole),
        cmocka_unit_test(ratios),
        cmocka_unit_test(different_quantities_do_not_convert),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
