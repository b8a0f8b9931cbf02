/* SPDX-License-Identifier: Apache-2.0 */
/* Values and their absence (model/sample.c). */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "model/sample.h"

static void zeroed_memory_is_no_value(void **state)
{
    Sample sample;
    double d = 7;
    int64_t i = 7;
    uint64_t age = 7;

    (void)state;
    memset(&sample, 0, sizeof sample);
    assert_false(sample_double(&sample, &d));
    assert_false(sample_int64(&sample, &i));
    assert_false(sample_age(&sample, 100, &age));
    assert_true(d == 7 && i == 7 && age == 7);
    assert_int_equal(sample.absence, ABSENCE_NOT_YET);
}

static void a_zero_is_a_value(void **state)
{
    Sample sample = {0};
    double d = 7;
    int64_t i = 7;

    (void)state;
    sample_set_int64(&sample, 10, 0);
    assert_true(sample_int64(&sample, &i) && i == 0);
    assert_true(sample_double(&sample, &d) && d == 0);
}

static void integers_keep_every_bit(void **state)
{
    static const int64_t values[] = {INT64_MIN, -1, 1, INT64_MAX, (INT64_C(1) << 53) + 1};
    Sample sample = {0};

    (void)state;
    for (size_t k = 0; k < sizeof values / sizeof values[0]; k++) {
        int64_t i = 0;

        sample_set_int64(&sample, 10 + k, values[k]);
        assert_true(sample_int64(&sample, &i));
        assert_true(i == values[k]);
        assert_int_equal(sample.time_ns, 10 + k);
    }
}

static void a_double_is_not_an_integer(void **state)
{
    Sample sample = {0};
    double d = 0;
    int64_t i = 7;

    (void)state;
    sample_set_double(&sample, 10, 30.982);
    assert_false(sample_int64(&sample, &i));
    assert_int_equal(i, 7);
    assert_true(sample_double(&sample, &d) && d == 30.982);
    sample_set_double(&sample, 11, INFINITY);
    assert_true(sample_double(&sample, &d) && isinf(d));
}

static void nan_is_no_value(void **state)
{
    Sample sample = {0};
    double d = 7;

    (void)state;
    sample_set_double(&sample, 10, 1);
    sample_set_double(&sample, 11, NAN);
    assert_false(sample_double(&sample, &d));
    assert_true(d == 7);
    assert_int_equal(sample.absence, ABSENCE_NO_DATA);
    assert_int_equal(sample.time_ns, 11);
}

static void an_absent_sample_forgets_its_number(void **state)
{
    Sample sample = {0};
    double d = 7;

    (void)state;
    for (Absence why = 0; why < ABSENCE_END; why++) {
        sample_set_int64(&sample, 10, 42);
        sample_set_absent(&sample, 20, why);
        assert_false(sample_double(&sample, &d));
        assert_int_equal(sample.absence, why);
        assert_int_equal(sample.time_ns, 20);
        assert_int_equal(sample.value.i, 0);
        sample_set_int64(&sample, 30, 5);
        assert_true(sample_double(&sample, &d) && d == 5);
    }
}

static void age(void **state)
{
    Sample sample = {0};
    uint64_t ns = 0;

    (void)state;
    sample_set_int64(&sample, 100, 1);
    assert_true(sample_age(&sample, 350, &ns) && ns == 250);
    assert_true(sample_age(&sample, 100, &ns) && ns == 0);
    assert_true(sample_age(&sample, 99, &ns) && ns == 0);
}

static void reasons_lead_back(void **state)
{
    (void)state;
    for (Absence i = 0; i < ABSENCE_END; i++) {
        const char *key = absences[i].key;

        assert_true(strlen(key) > 0 && strspn(key, "abcdefghijklmnopqrstuvwxyz_") == strlen(key));
        assert_int_equal(word_find(absences, ABSENCE_END, key), i);
        for (Absence k = i + 1; k < ABSENCE_END; k++)
            assert_string_not_equal(absences[i].text, absences[k].text);
    }
    assert_int_equal(word_find(absences, ABSENCE_END, ""), -1);
    assert_int_equal(word_find(absences, ABSENCE_END, "GPU_LOST"), -1);
    assert_int_equal(word_find(absences, ABSENCE_END, "gpu_los"), -1);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(zeroed_memory_is_no_value),
        cmocka_unit_test(a_zero_is_a_value),
        cmocka_unit_test(integers_keep_every_bit),
        cmocka_unit_test(a_double_is_not_an_integer),
        cmocka_unit_test(nan_is_no_value),
        cmocka_unit_test(an_absent_sample_forgets_its_number),
        cmocka_unit_test(age),
        cmocka_unit_test(reasons_lead_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
