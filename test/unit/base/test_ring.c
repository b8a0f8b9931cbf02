/* SPDX-License-Identifier: Apache-2.0 */
/* Covers src/base/ring.c. */
#include "base/ring.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* For each capacity: after n pushes the ring holds the last min(n, cap), oldest first. */
static void test_keeps_the_newest(void **state)
{
    (void)state;
    for (size_t cap = 1; cap < 20; cap++) {
        Ring ring;

        assert_int_equal(ring_init(&ring, sizeof(int), cap, NULL), 0);
        assert_null(ring_newest(&ring));
        for (int n = 1; n < 60; n++) {
            size_t len = (size_t)n < cap ? (size_t)n : cap;

            assert_int_equal(*(int *)ring_push(&ring, &n), n);
            assert_int_equal(ring_len(&ring), len);
            for (size_t i = 0; i < len; i++)
                assert_int_equal(*(int *)ring_at(&ring, i), n - (int)len + 1 + (int)i);
            assert_int_equal(*(int *)ring_newest(&ring), n);
        }
        ring_done(&ring);
        ring_done(&ring);
    }
}

static void test_drop_and_clear(void **state)
{
    Ring ring;

    (void)state;
    assert_int_equal(ring_init(&ring, sizeof(int), 4, NULL), 0);
    for (int n = 0; n < 6; n++)
        ring_push(&ring, &n);
    ring_drop(&ring, 3);
    assert_int_equal(ring_len(&ring), 1);
    assert_int_equal(*(int *)ring_at(&ring, 0), 5);
    ring_clear(&ring);
    assert_int_equal(ring_len(&ring), 0);
    ring_done(&ring);
}

static void test_caps(void **state)
{
    Ring ring = {0};
    Err err = {0};

    (void)state;
    assert_int_equal(ring_init(&ring, 8, 0, &err), -EINVAL);
    assert_int_equal(ring_init(&ring, 0, 8, &err), -EINVAL);
    assert_int_equal(ring_init(&ring, 8, RING_CAP_MAX + 1, &err), -E2BIG);
    assert_null(ring.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keeps_the_newest),
        cmocka_unit_test(test_drop_and_clear),
        cmocka_unit_test(test_caps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
