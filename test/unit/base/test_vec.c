/* SPDX-License-Identifier: Apache-2.0 */
/* Covers src/base/vec.c. */
#include "base/vec.h"
#include "base/redzone.h"

#include <string.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

typedef struct Row {
    int id;
    double value;
} Row;

typedef VEC(int) Ints;
typedef VEC(Row) Rows;

static void test_push_keeps_order(void **state)
{
    Ints ints = {0};
    size_t moves = 0;

    (void)state;
    for (int i = 0; i < 10000; i++) {
        size_t cap = ints.cap;

        vec_push(&ints, i);
        moves += cap != ints.cap;
    }
    assert_int_equal(ints.len, 10000);
    for (int i = 0; i < 10000; i++)
        assert_int_equal(ints.at[i], i);
    assert_true(moves < 16); /* doubling, not stepping */
    vec_clear(&ints);
    assert_int_equal(ints.len, 0);
    assert_true(ints.cap >= 10000);
    vec_done(&ints);
    assert_null(ints.at);
    vec_done(&ints);
}

static void test_add_is_zeroed(void **state)
{
    Rows rows = {0};
    Row *row;

    (void)state;
    vec_push(&rows, ((Row){.id = 1, .value = 2}));
    vec_clear(&rows);
    row = vec_add(&rows);
    assert_int_equal(row->id, 0);
    assert_true(row->value == 0);
    assert_ptr_equal(row, &rows.at[0]);
    assert_int_equal(rows.len, 1);
    vec_done(&rows);
}

static void test_remove_closes_the_gap(void **state)
{
    static const int expected[] = {1, 2, 4, 5};
    Ints ints = {0};

    (void)state;
    for (int i = 0; i < 7; i++)
        vec_push(&ints, i);
    vec_remove(&ints, 6);
    vec_remove(&ints, 3);
    vec_remove(&ints, 0);
    assert_int_equal(ints.len, 4);
    assert_memory_equal(ints.at, expected, sizeof(expected));
    vec_done(&ints);
}

/* Under AddressSanitizer the room behind the last element is poisoned; without it nothing is. */
static void test_unused_room_is_closed(void **state)
{
    const int checked = REDZONE_BYTES > 0;
    Rows rows = {0};

    (void)state;
    for (int i = 1; i < 6; i++) {
        vec_push(&rows, (Row){.id = i});
        assert_false(redzone_hit(&rows.at[i - 1].value));
        assert_int_equal(redzone_hit(&rows.at[i]), checked);
    }
    vec_reserve(&rows, 7);
    assert_false(redzone_hit(&rows.at[5]));
    assert_false(redzone_hit(&rows.at[6].value));
    assert_int_equal(redzone_hit(&rows.at[7]), checked);
    vec_clear(&rows);
    assert_int_equal(redzone_hit(&rows.at[0]), checked);
    vec_reserve(&rows, 20);
    assert_false(redzone_hit(&rows.at[19].value));
    assert_int_equal(redzone_hit(&rows.at[20]), checked);
    vec_done(&rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_push_keeps_order),
        cmocka_unit_test(test_add_is_zeroed),
        cmocka_unit_test(test_remove_closes_the_gap),
        cmocka_unit_test(test_unused_room_is_closed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
