/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of CPUs and their text (model/cpulist.c). */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/cpulist.h"

static char text[CPULIST_TEXT_CAP];

static void texts(void **state)
{
    static const struct {
        const char *in, *out;
        uint32_t count;
    } rows[] = {
        {"", "", 0},
        {"\n", "", 0},
        {"0", "0", 1},
        {"0-23,48-71", "0-23,48-71", 48},
        {"0-23,48-71\n", "0-23,48-71", 48},
        {"3,1,2", "1-3", 3},
        {"5-5", "5", 1},
        {"0-10,5-20,20", "0-20", 21},
        {"63,64", "63-64", 2},
        {"0-8191", "0-8191", 8192},
        {"8191", "8191", 1},
        {"007", "7", 1},
        {"0,2,4,6", "0,2,4,6", 4},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        Cpulist list;

        assert_int_equal(cpulist_parse(rows[i].in, &list), 0);
        assert_int_equal(cpulist_count(&list), rows[i].count);
        assert_int_equal(cpulist_format(&list, text, sizeof text), strlen(rows[i].out));
        assert_string_equal(text, rows[i].out);
    }
}

static void bad_texts(void **state)
{
    static const struct {
        const char *in;
        int error;
    } rows[] = {
        {"a", -EINVAL},      {",", -EINVAL},      {"1,", -EINVAL},         {",1", -EINVAL},
        {"1,,2", -EINVAL},   {"1-", -EINVAL},     {"-1", -EINVAL},         {"1--2", -EINVAL},
        {"2-1", -EINVAL},    {"1 ", -EINVAL},     {" 1", -EINVAL},         {"1, 2", -EINVAL},
        {"1\n\n", -EINVAL},  {"1\n2", -EINVAL},   {"0-7:1/2", -EINVAL},    {"0x1", -EINVAL},
        {"8192", -ERANGE},   {"0-8192", -ERANGE}, {"4294967296", -ERANGE}, {"99999999999999999999", -ERANGE},
        {"1,8192", -ERANGE},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        Cpulist list = {.words = {42}};

        assert_int_equal(cpulist_parse(rows[i].in, &list), rows[i].error);
        assert_int_equal(list.words[0], 42);
    }
}

static void random_sets_round_trip(void **state)
{
    uint64_t seed = 88172645463325252u;

    (void)state;
    for (int round = 0; round < 200; round++) {
        Cpulist list = {0}, parsed;
        uint32_t cpu, counted = 0;

        for (int i = 0; i < round * 4; i++) {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            cpulist_add(&list, (uint32_t)(seed % CPULIST_CPUS_MAX));
        }
        assert_true(cpulist_format(&list, text, sizeof text) >= 0);
        assert_int_equal(cpulist_parse(text, &parsed), 0);
        assert_true(cpulist_equal(&list, &parsed));
        for (uint32_t from = 0; cpulist_next(&list, from, &cpu); from = cpu + 1) {
            assert_true(cpulist_has(&list, cpu));
            counted++;
        }
        assert_int_equal(counted, cpulist_count(&list));
    }
}

/* The longest text there is fits into CPULIST_TEXT_CAP. */
static void the_longest_text_fits(void **state)
{
    Cpulist list = {0};
    int length;

    (void)state;
    for (uint32_t cpu = 1; cpu < CPULIST_CPUS_MAX; cpu += 2)
        cpulist_add(&list, cpu);
    length = cpulist_format(&list, text, sizeof text);
    assert_true(length > 0 && (size_t)length < sizeof text);
    assert_int_equal(length, strlen(text));
}

static void small_buffers_are_refused(void **state)
{
    Cpulist list;
    char *exact = malloc(11);

    (void)state;
    assert_non_null(exact);
    assert_int_equal(cpulist_parse("0-23,48-71", &list), 0);
    assert_int_equal(cpulist_format(&list, exact, 11), 10);
    assert_string_equal(exact, "0-23,48-71");
    for (size_t size = 1; size < 11; size++) {
        assert_int_equal(cpulist_format(&list, exact, size), -ENOSPC);
        assert_string_equal(exact, "");
    }
    assert_int_equal(cpulist_format(&list, NULL, 0), -ENOSPC);
    free(exact);
}

static void members(void **state)
{
    Cpulist a, b, both, expected;
    uint32_t cpu = 7;

    (void)state;
    assert_int_equal(cpulist_parse("0-3,64-70", &a), 0);
    assert_int_equal(cpulist_parse("2-66", &b), 0);
    assert_int_equal(cpulist_parse("2-3,64-66", &expected), 0);
    both = cpulist_and(&a, &b);
    assert_true(cpulist_equal(&both, &expected));
    assert_false(cpulist_equal(&both, &a));
    assert_false(cpulist_has(&a, 4));
    assert_false(cpulist_has(&a, CPULIST_CPUS_MAX));
    assert_false(cpulist_has(&a, UINT32_MAX));
    assert_false(cpulist_next(&a, 71, &cpu));
    assert_false(cpulist_next(&a, UINT32_MAX, &cpu));
    assert_int_equal(cpu, 7);
    assert_true(cpulist_next(&a, 4, &cpu) && cpu == 64);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts),
        cmocka_unit_test(bad_texts),
        cmocka_unit_test(random_sets_round_trip),
        cmocka_unit_test(the_longest_text_fits),
        cmocka_unit_test(small_buffers_are_refused),
        cmocka_unit_test(members),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
