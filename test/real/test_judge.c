/* SPDX-License-Identifier: Apache-2.0 */
/* When two readings are the same, at each limit. Covers test/real/judge.c. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "real.h"

typedef struct Case {
    double before, smi, after, limit;
    bool counter;
    CompareVerdict verdict;
    double difference; /* NAN: none */
} Case;

static const Case cases[] = {
    /* within the range, at the limit on both sides, just over it */
    {50, 51, 52, 2, false, COMPARE_SAME, 0},
    {50, 48, 50, 2, false, COMPARE_SAME, -2},
    {50, 47.9, 50, 2, false, COMPARE_DIFFERS, -2.1},
    {50, 52, 50, 2, false, COMPARE_SAME, 2},
    {50, 52.1, 50, 2, false, COMPARE_DIFFERS, 2.1},
    /* falling and rising alike */
    {52, 51, 50, 2, false, COMPARE_SAME, 0},
    /* Stoker's own readings lie at the limit from each other, or further: nothing to judge */
    {50, 60, 52, 2, false, COMPARE_DIFFERS, 8},
    {50, 60, 52.1, 2, false, COMPARE_MOVING, 7.9},
    {50, 51, 52.1, 2, false, COMPARE_MOVING, 0},
    /* a limit of nothing */
    {5, 5, 5, 0, false, COMPARE_SAME, 0},
    {5, 4, 5, 0, false, COMPARE_DIFFERS, -1},
    {5, 4, 4, 0, false, COMPARE_MOVING, 0},
    /* counters move and are judged all the same; they must not fall */
    {10, 15, 20, 0, true, COMPARE_SAME, 0},
    {10, 9, 20, 0, true, COMPARE_DIFFERS, -1},
    {10, 21, 20, 0, true, COMPARE_DIFFERS, 1},
    {20, 15, 10, 0, true, COMPARE_DIFFERS, 0},
    /* one of them is missing */
    {NAN, NAN, NAN, 1, false, COMPARE_NEITHER, NAN},
    {NAN, 1, NAN, 1, false, COMPARE_ONLY_SMI, NAN},
    {1, 1, NAN, 1, false, COMPARE_ONLY_SMI, NAN},
    {1, NAN, 1, 1, false, COMPARE_ONLY_STOKER, NAN},
};

static void test_limits(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const Case *c = &cases[i];
        double difference = 99;

        print_message("case %zu\n", i);
        assert_int_equal(compare_judge(c->before, c->smi, c->after, c->limit, c->counter, &difference), c->verdict);
        if (isnan(c->difference))
            assert_true(isnan(difference));
        else
            assert_true(fabs(difference - c->difference) < 1e-9);
    }
}

static void test_texts(void **state)
{
    static const struct {
        const char *text;
        double number;
    } texts[] = {{"41", 41},
                 {"698.21", 698.21},
                 {"Enabled", 1},
                 {"Disabled", 0},
                 {"Default", 0},
                 {"P0", 0},
                 {"P8", 8},
                 {"Yes", 1},
                 {"No", 0},
                 {"Exclusive_Process", 3},
                 {"0x0000000000000004", 4},
                 {"-3", -3},
                 {"None", 0},
                 {"Exclusive_Thread", 1},
                 {"Prohibited", 2}};
    static const char *const none[] = {"[N/A]",  "N/A", "",   "[Not Supported]", "[Unknown Error]", "12 W",
                                       "Pascal", "nan", "inf"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        assert_true(compare_read_text(texts[i].text) == texts[i].number);
    for (size_t i = 0; i < ARRAY_LEN(none); i++)
        assert_true(isnan(compare_read_text(none[i])));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_limits), cmocka_unit_test(test_texts)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
