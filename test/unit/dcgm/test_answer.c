/* SPDX-License-Identifier: Apache-2.0 */
/* What answers and blanks mean. */

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/cleanup.h"
#include "source/dcgm/abi.h"
#include "source/dcgm/dcgm.h"

static void test_reasons(void **state)
{
    static const struct {
        int answer;
        Absence why;
    } rows[] = {
        {-6, ABSENCE_NOT_SUPPORTED},   {-11, ABSENCE_TIMED_OUT},     {-13, ABSENCE_NOT_SUPPORTED},
        {-14, ABSENCE_NO_DATA},        {-17, ABSENCE_NO_PERMISSION}, {-18, ABSENCE_GPU_LOST},
        {-19, ABSENCE_RESET_REQUIRED}, {-22, ABSENCE_NOT_SUPPORTED}, {-25, ABSENCE_NO_LIBRARY},
        {-29, ABSENCE_NO_PERMISSION},  {-33, ABSENCE_NO_LIBRARY},    {-34, ABSENCE_IN_USE},
        {-36, ABSENCE_NOT_SUPPORTED},  {-44, ABSENCE_DRIVER_LACKS},  {-45, ABSENCE_GONE},
        {-46, ABSENCE_GONE},           {-54, ABSENCE_IN_USE},        {-57, ABSENCE_TIMED_OUT},
        {-12, ABSENCE_FAILED},         {-1234, ABSENCE_FAILED},      {17, ABSENCE_FAILED},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(dcgm_answer_absence(rows[i].answer, true), rows[i].why);
        assert_int_equal(dcgm_answer_absence(rows[i].answer, false), rows[i].why);
    }
}

/* One answer for two conditions; who asks makes the difference. */
static void test_profiling_library_error(void **state)
{
    (void)state;
    assert_int_equal(dcgm_answer_absence(-37, true), ABSENCE_IN_USE);
    assert_int_equal(dcgm_answer_absence(-37, false), ABSENCE_NO_PERMISSION);
}

static void test_words(void **state)
{
    (void)state;
    for (int code = -70; code <= 1; code++)
        assert_true(strlen(dcgm_answer_words(code)) > 3);
    assert_string_not_equal(dcgm_answer_words(-34), dcgm_answer_words(-12345));
}

static void test_errno(void **state)
{
    (void)state;
    assert_int_equal(dcgm_answer_errno(-12), -EPROTO);
    assert_int_equal(dcgm_answer_errno(-29), -EACCES);
    assert_int_equal(dcgm_answer_errno(-21), -EPIPE);
    assert_int_equal(dcgm_answer_errno(-3), -EIO);
}

/* What is about everything must not be tried field by field. */
static void test_about_fields(void **state)
{
    (void)state;
    assert_true(dcgm_answer_is_about_fields(-36));
    assert_true(dcgm_answer_is_about_fields(-13));
    assert_true(dcgm_answer_is_about_fields(-38));
    assert_false(dcgm_answer_is_about_fields(-34));
    assert_false(dcgm_answer_is_about_fields(-37));
    assert_false(dcgm_answer_is_about_fields(-29));
    assert_false(dcgm_answer_is_about_fields(-33));
    assert_false(dcgm_answer_is_about_fields(-9999));
}

static void test_blanks(void **state)
{
    static const Absence why[] = {ABSENCE_NO_DATA, ABSENCE_NO_DATA, ABSENCE_NOT_SUPPORTED, ABSENCE_NO_PERMISSION,
                                  ABSENCE_NO_DATA};
    Absence got = ABSENCE_END;

    (void)state;
    for (int i = 0; i < 5; i++) {
        assert_true(dcgm_blank_int64(0x7ffffffffffffff0 + i, &got));
        assert_int_equal(got, why[i]);
        assert_true(dcgm_blank_double(140737488355328.0 + i, &got));
        assert_int_equal(got, why[i]);
    }
    assert_true(dcgm_blank_int64(INT64_MAX, &got));
    assert_true(dcgm_blank_double(INFINITY, &got));
    assert_int_equal(got, ABSENCE_NO_DATA);
    assert_true(dcgm_blank_double(NAN, &got));
    assert_int_equal(got, ABSENCE_NO_DATA);
    got = ABSENCE_END;
    assert_false(dcgm_blank_int64(0x7fffffffffffffef, &got));
    assert_false(dcgm_blank_double(140737488355327.0, &got));
    assert_false(dcgm_blank_double(0, &got));
    assert_false(dcgm_blank_int64(-1, &got));
    assert_int_equal(got, ABSENCE_END);
}

static void test_absence_of_errors(void **state)
{
    (void)state;
    assert_int_equal(dcgm_absence(-ENOENT), ABSENCE_NO_LIBRARY);
    assert_int_equal(dcgm_absence(-ENOSYS), ABSENCE_NO_LIBRARY);
    assert_int_equal(dcgm_absence(-EACCES), ABSENCE_NO_PERMISSION);
    assert_int_equal(dcgm_absence(-ENODEV), ABSENCE_NOT_SUPPORTED);
    assert_int_equal(dcgm_absence(-EIO), ABSENCE_FAILED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reasons),
        cmocka_unit_test(test_profiling_library_error),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_errno),
        cmocka_unit_test(test_about_fields),
        cmocka_unit_test(test_blanks),
        cmocka_unit_test(test_absence_of_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
