/* SPDX-License-Identifier: Apache-2.0 */
/* Covers src/base/json_walk.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/json_walk.h"

static void values_come_one_by_one(void **state)
{
    static const char text[] = "{ \"a\" :\t[1, {\"b\": 2}]\n} tail";
    JsonWalk walk = {.at = text, .end = text + strlen(text), .what = "the answer"};
    Err err = {.text = ""};
    json_t *key, *first, *second;

    (void)state;
    assert_true(json_walk_take(&walk, '{'));
    assert_false(json_walk_take(&walk, '}'));
    assert_non_null(key = json_walk_value(&walk, &err));
    assert_true(json_walk_take(&walk, ':') && json_walk_take(&walk, '['));
    assert_non_null(first = json_walk_value(&walk, &err));
    assert_true(json_walk_take(&walk, ','));
    assert_non_null(second = json_walk_value(&walk, &err));
    assert_true(json_walk_take(&walk, ']') && json_walk_take(&walk, '}'));
    assert_string_equal(walk.at, " tail");
    assert_string_equal(json_string_value(key), "a");
    assert_int_equal(json_integer_value(first), 1);
    assert_int_equal(json_integer_value(json_object_get(second, "b")), 2);
    json_decref(key);
    json_decref(first);
    json_decref(second);
}

/* What lies behind its end is not read: it is another text's. */
static void it_stops_at_its_end(void **state)
{
    static const char text[] = "[ 12}";
    JsonWalk walk = {.at = text, .end = text + 2, .what = "the answer"};
    Err err = {.text = ""};

    (void)state;
    assert_true(json_walk_take(&walk, '['));
    assert_false(json_walk_take(&walk, '1'));
    assert_null(json_walk_value(&walk, &err));
    assert_non_null(strstr(err.text, "the answer is no JSON: "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_come_one_by_one),
        cmocka_unit_test(it_stops_at_its_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
