/* SPDX-License-Identifier: Apache-2.0 */
/* What a second and a minute keep of their values (engine/store/cell.c). */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <string.h>

#include "engine/store/ring.h"
#include "random.h"

static void seconds_keep_every_bit(void **state)
{
    static const double values[] = {
        0,        -0.0,    1,        -1,        0.1,    312.457,           50000000123,      DBL_MAX,
        -DBL_MAX, DBL_MIN, INFINITY, -INFINITY, 5e-324, 9007199254740992., 9007199254740991.};
    Absence why = ABSENCE_END;

    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        double value = 7;

        assert_true(cell_second_read(cell_second_value(values[i]), &value, &why));
        assert_memory_equal(&value, &values[i], sizeof value);
    }
    assert_int_equal(why, ABSENCE_END);
}

static void seconds_keep_reasons(void **state)
{
    double value = 7;

    (void)state;
    for (Absence i = 0; i < ABSENCE_END; i++) {
        Absence why = ABSENCE_END;

        assert_false(cell_second_read(cell_second_absence(i), &value, &why));
        assert_int_equal(why, i);
        assert_true(cell_second_absence(i) != CELL_SECOND_GAP);
    }
    {
        Absence why = ABSENCE_END;

        assert_false(cell_second_read(CELL_SECOND_GAP, &value, &why));
        assert_int_equal(why, ABSENCE_NOT_YET);
        assert_false(cell_second_read(cell_second_value(NAN), &value, &why));
        assert_int_equal(why, ABSENCE_NO_DATA);
    }
    assert_true(value == 7);
}

static void gauges_keep_their_promise(void **state)
{
    Random random = {42};

    (void)state;
    for (int i = 0; i < 200000; i++) {
        double scale = pow(10, (double)random_below(&random, 30) - 10);
        double a = ((double)random_below(&random, 2000001) - 1000000) * scale;
        double b = a + (double)random_below(&random, 1000001) * scale * (random_once(&random, 4) ? 1e-6 : 1);
        double mean = a + (b - a) * (double)random_below(&random, 1001) / 1000;
        double step = 6e-8 * fmax(fabs(a), fabs(b));
        unsigned valid = 1 + (unsigned)random_below(&random, 60);
        CellMinute cell = cell_gauge(&(CellGauge){.min = a, .mean = mean, .max = b}, valid);
        CellGauge got = cell_gauge_read(cell);

        assert_int_equal(cell_valid_seconds(cell.bits), valid);
        assert_true(fabs(got.min - a) <= step && fabs(got.max - b) <= step);
        assert_true(got.min <= got.mean && got.mean <= got.max);
        assert_true(fabs(got.mean - mean) <= (b - a) / 2046 * 1.0001 + 2 * step);
    }
}

/* What people look at most comes back as it went in: percent, degrees, MiB of memory, MHz. */
static void whole_numbers_stay_whole(void **state)
{
    static const double ends[][2] = {{0, 100}, {34, 34}, {-5, 12}, {0, 81559}, {1980, 1980}, {16777215, 16777216}};

    (void)state;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        CellGauge gauge = {.min = ends[i][0], .mean = ends[i][1], .max = ends[i][1]};
        CellGauge got = cell_gauge_read(cell_gauge(&gauge, 60));

        assert_true(got.min == ends[i][0] && got.max == ends[i][1] && got.mean == ends[i][1]);
        gauge.mean = gauge.min;
        got = cell_gauge_read(cell_gauge(&gauge, 60));
        assert_true(got.mean == ends[i][0]);
    }
}

static void infinities_and_giants(void **state)
{
    static const struct {
        CellGauge in, out;
    } rows[] = {
        {{-INFINITY, -INFINITY, 5}, {-INFINITY, -INFINITY, 5}},
        {{3, INFINITY, INFINITY}, {3, INFINITY, INFINITY}},
        {{INFINITY, INFINITY, INFINITY}, {INFINITY, INFINITY, INFINITY}},
        {{-INFINITY, NAN, INFINITY}, {-INFINITY, -INFINITY, INFINITY}},
        {{1e300, 1e300, 1e300}, {(double)FLT_MAX, (double)FLT_MAX, (double)FLT_MAX}},
        {{-1e300, -1e300, -1e300}, {-(double)FLT_MAX, -(double)FLT_MAX, -(double)FLT_MAX}},
        {{1e-300, 2e-300, 3e-300}, {0, 0, 0}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CellGauge got = cell_gauge_read(cell_gauge(&rows[i].in, 1));

        assert_true(got.min == rows[i].out.min && got.mean == rows[i].out.mean && got.max == rows[i].out.max);
    }
}

static void counters_keep_every_bit(void **state)
{
    static const double values[] = {0, 1, 50000000123, 9007199254740991., 0.1, 1e300};

    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        for (unsigned jumped = 0; jumped < 2; jumped++)
            for (unsigned valid = 1; valid <= 60; valid++) {
                CellMinute cell = cell_counter(values[i], jumped, valid);
                bool got = !jumped;

                assert_true(cell_counter_read(cell, &got) == values[i]);
                assert_int_equal(got, jumped);
                assert_int_equal(cell_valid_seconds(cell.bits), valid);
            }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(seconds_keep_every_bit),    cmocka_unit_test(seconds_keep_reasons),
        cmocka_unit_test(gauges_keep_their_promise), cmocka_unit_test(whole_numbers_stay_whole),
        cmocka_unit_test(infinities_and_giants),     cmocka_unit_test(counters_keep_every_bit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
