/* SPDX-License-Identifier: Apache-2.0 */
/* Covers src/base/arena.c and src/base/redzone.h. */
#include "base/arena.h"

#include <string.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/redzone.h"

static void test_aligned_zeroed_apart(void **state)
{
    Arena arena;
    unsigned char *last = NULL;
    size_t last_size = 0;

    (void)state;
    arena_init(&arena, 2048);
    for (size_t size = 0; size < 5000; size += 7) {
        unsigned char *memory = arena_alloc(&arena, size);

        assert_int_equal((uintptr_t)memory % ARENA_ALIGN, 0);
        for (size_t i = 0; i < size; i++)
            assert_int_equal(memory[i], 0);
        memset(memory, 0xff, size);
        for (size_t i = 0; i < last_size; i++)
            assert_int_equal(last[i], 0xff);
        last = memory;
        last_size = size;
    }
    arena_done(&arena);
    arena_done(&arena);
}

/* After a reset the same needs are met from the same memory, zeroed again. */
static void test_reset_reuses(void **state)
{
    Arena arena = {0};
    void *first[200];

    (void)state;
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < 200; i++) {
            unsigned char *memory = arena_alloc(&arena, 300);

            assert_int_equal(memory[299], 0);
            memory[299] = 1;
            if (round == 0)
                first[i] = memory;
            assert_ptr_equal(memory, first[i]);
        }
        assert_true(arena.used >= 200 * 300);
        arena_reset(&arena);
        assert_int_equal(arena.used, 0);
    }
    arena_done(&arena);
}

static void test_large_ones_are_freed(void **state)
{
    Arena arena;

    (void)state;
    arena_init(&arena, 0);
    memset(arena_alloc(&arena, 1 << 20), 1, 1 << 20);
    assert_non_null(arena.large);
    arena_reset(&arena);
    assert_null(arena.large);
    arena_done(&arena);
}

static void test_texts(void **state)
{
    Arena arena = {0};
    char *cut = arena_strndup(&arena, "abcdef", 3), *copy = arena_strdup(&arena, "");
    char *text = arena_printf(&arena, "%s-%d", cut, 42);

    (void)state;
    assert_string_equal(cut, "abc");
    assert_string_equal(copy, "");
    assert_string_equal(text, "abc-42");
    assert_memory_equal(arena_memdup(&arena, "xy", 2), "xy", 2);
    arena_done(&arena);
}

/* Under AddressSanitizer what was not handed out is poisoned; without it nothing is. */
static void test_red_zones(void **state)
{
    const int checked = REDZONE_BYTES > 0;
    Arena arena = {0};
    char *a = arena_alloc(&arena, 20), *b = arena_alloc(&arena, 5);

    (void)state;
    assert_false(redzone_hit(a + 19));
    assert_int_equal(redzone_hit(a + 20), checked);
    assert_int_equal(redzone_hit(b - 1), checked);
    assert_false(redzone_hit(b));
    assert_false(redzone_hit(b + 4));
    assert_int_equal(redzone_hit(b + 5), checked);
    arena_reset(&arena);
    assert_int_equal(redzone_hit(a), checked);
    assert_int_equal(redzone_hit(b), checked);
    arena_done(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_aligned_zeroed_apart),
        cmocka_unit_test(test_reset_reuses),
        cmocka_unit_test(test_large_ones_are_freed),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_red_zones),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
