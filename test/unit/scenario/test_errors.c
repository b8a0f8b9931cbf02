/* SPDX-License-Identifier: Apache-2.0 */
/* Covers field.c, value.c, parse.c, gpus.c, work.c, timeline.c, truth.c: what a user reads when a file is wrong. */
#include <stdio.h>
#include <string.h>

#include "kit.h"
#include "sim/scenario/field.h"
#include "sim/scenario/field.h"

#define HEAD "about: x\ngpus: {board: h100-sxm-80gb, count: 2}\n"
#define TAIL "truth: []\n"

static const struct {
    const char *text, *error;
} bad[] = {
#include "bad.inc"
};

static void messages(void **state)
{
    Kit kit;
    (void)state;
    kit_init(&kit);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *error = kit_error(&kit, bad[i].text);
        size_t same = strcspn(bad[i].error, "*"); /* a list of what may be added to is written as "*" */
        if (strncmp(error, bad[i].error, same) != 0 || (!bad[i].error[same] && error[same]))
            fail_msg("'%s', not '%s'", error, bad[i].error);
    }
    kit_done(&kit);
}

static void caps(void **state)
{
    Kit kit;
    Str text;
    (void)state;
    kit_init(&kit);
    str_init(&text, 1 << 20);
    str_add(&text, HEAD "at:\n");
    for (int i = 0; i <= SCENARIO_STEPS_MAX; i++)
        str_add(&text, "- {time: 1s, do: lost, gpu: 0}\n");
    str_add(&text, TAIL);
    assert_string_equal(kit_error(&kit, text.text), "t.yaml:4:1: 'at' must have at most 2048 entries");
    str_clear(&text);
    str_add(&text, HEAD "work:\n");
    for (int i = 0; i <= SCENARIO_WORKS_MAX; i++)
        str_addf(&text, "- {name: w%d, kind: train, gpus: 0}\n", i);
    str_add(&text, TAIL);
    assert_string_equal(kit_error(&kit, text.text), "t.yaml:4:1: 'work' must have at most 64 entries");
    str_done(&text);
    kit_done(&kit);
}

static void values(void **state)
{
    int64_t whole = 7;
    double real = 7;
    uint64_t set = 7, us = 7;
    (void)state;
    assert_int_equal(value_whole("+12", NULL, 0, &whole), 0);
    assert_int_equal(whole, 12);
    assert_int_equal(value_whole("0x2330", NULL, 1, &whole), 0);
    assert_int_equal(whole, 0x2330);
    assert_int_equal(value_whole("0x2330", NULL, 0, &whole) < 0, 1);
    assert_int_equal(value_real("400W", "W", &real), 0);
    assert_true(real == 400);
    assert_int_equal(value_real("40%", NULL, &real), 0);
    assert_true(real == 0.4);
    assert_true(value_real("%", NULL, &real) < 0 && value_real("", NULL, &real) < 0 &&
                value_real("nan", NULL, &real) < 0);
    assert_int_equal(value_indexes("0,2-4, 7", 7, &set), 0);
    assert_int_equal(set, 0x9d);
    assert_true(value_indexes("0-8", 7, &set) < 0 && value_indexes("3-1", 7, &set) < 0 &&
                value_indexes("1,", 7, &set) < 0);
    assert_int_equal(set, 0x9d);
    assert_int_equal(value_time("2026-01-05T08:00:00Z", &us), 0);
    assert_int_equal(us, 1767600000000000);
    assert_int_equal(value_time("2000-02-29T23:59:59Z", &us), 0);
    assert_int_equal(us, 951868799000000);
    assert_true(value_time("2026-02-29T00:00:00Z", &us) < 0 && value_time("2026-01-05 08:00:00Z", &us) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages),
        cmocka_unit_test(caps),
        cmocka_unit_test(values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
