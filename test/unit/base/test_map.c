/* SPDX-License-Identifier: Apache-2.0 */
/* Covers src/base/map.c. */
#include "base/map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"

enum { KEYS = 500, STEPS = 50000 };

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525 + 1013904223;
    return *seed >> 8;
}

/* Random puts and removals against a plain array as the model, for both kinds of keys. */
static void check_against_model(Map *map, int numbers)
{
    static char values[STEPS];
    void *model[KEYS] = {0};
    uint32_t seed = 7;
    size_t len = 0;

    for (size_t step = 0; step < STEPS; step++) {
        size_t id = next_random(&seed) % KEYS;
        void *value = &values[step], *old;
        char key[16];

        snprintf(key, sizeof(key), "key-%zu", id);
        if (numbers || next_random(&seed) % 3) {
            old = numbers ? map_u64_put(map, id << 40, value) : map_put(map, key, value);
            len += !model[id];
        } else {
            old = map_del(map, key);
            len -= model[id] != NULL;
            value = NULL;
        }
        assert_ptr_equal(old, model[id]);
        model[id] = value;
        assert_int_equal(map->len, len);
        id = next_random(&seed) % KEYS;
        snprintf(key, sizeof(key), "key-%zu", id);
        assert_ptr_equal(numbers ? map_u64_get(map, id << 40) : map_get(map, key), model[id]);
    }
    /* removals and puts in turn must not let it grow without end */
    assert_true(map->slots <= 2048);
}

static void test_texts(void **state)
{
    CLEANUP(map_done) Map map;

    (void)state;
    map_init(&map);
    check_against_model(&map, 0);
}

static void test_numbers(void **state)
{
    CLEANUP(map_done) Map map;

    (void)state;
    map_u64_init(&map);
    check_against_model(&map, 1);
}

static void test_order_of_putting(void **state)
{
    CLEANUP(map_done) Map map;
    char key[12], value;
    size_t cursor = 0;
    const MapEntry *entry;
    int expected = 0;

    (void)state;
    map_init(&map);
    for (int i = 0; i < 1000; i++) {
        snprintf(key, sizeof(key), "%d", i);
        map_put(&map, key, &value);
    }
    while ((entry = map_next(&map, &cursor))) {
        assert_int_equal(atoi(entry->key), expected++);
        map_del(&map, entry->key);
    }
    assert_int_equal(expected, 1000);
    assert_int_equal(map.len, 0);
}

static void test_keys_by_length(void **state)
{
    CLEANUP(map_done) Map map;
    char a, b;

    (void)state;
    map_init(&map);
    assert_null(map_get(&map, ""));
    map_putn(&map, "ab\0cd", 5, &a);
    map_put(&map, "", &b);
    assert_null(map_get(&map, "ab"));
    assert_ptr_equal(map_getn(&map, "ab\0cd", 5), &a);
    assert_ptr_equal(map_get(&map, ""), &b);
}

/* Every input bit moves about half of the output bits, for short and long keys: no bit is lost or kept. */
static void test_hash_spreads(void **state)
{
    unsigned char key[40];
    uint32_t seed = 1;

    (void)state;
    for (size_t len = 1; len <= sizeof(key); len++) {
        for (size_t bit = 0; bit < len * 8; bit++) {
            unsigned changed = 0;

            for (int trial = 0; trial < 32; trial++) {
                uint64_t before;

                for (size_t i = 0; i < len; i++)
                    key[i] = (unsigned char)next_random(&seed);
                before = map_hash(key, len, 5);
                key[bit / 8] ^= (unsigned char)(1 << bit % 8);
                changed += (unsigned)__builtin_popcountll(before ^ map_hash(key, len, 5));
            }
            assert_in_range(changed, 32 * 24, 32 * 40);
        }
    }
    assert_int_not_equal(map_hash("a", 1, 1), map_hash("a", 1, 2));
    assert_int_not_equal(map_hash("\0", 1, 1), map_hash("\0\0", 2, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_order_of_putting),
        cmocka_unit_test(test_keys_by_length),
        cmocka_unit_test(test_hash_spreads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
