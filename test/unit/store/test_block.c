/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of cells, and the units that they take and give back (engine/store/ring.c). */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/store/ring.h"
#include "random.h"

enum { UNITS = 4 * BLOCK_UNITS_WIDEST, ROUNDS = 400 };

typedef struct Room {
    SlabUnit units[UNITS];
    uint32_t next[UNITS];
    Slab slab;
} Room;

static Slab *empty(Room *room)
{
    room->slab = (Slab){.units = room->units, .next = room->next, .count = UNITS, .free = SLAB_NONE};
    for (size_t i = 0; i < UNITS * SLAB_WORDS; i++)
        room->units[i / SLAB_WORDS].word[i % SLAB_WORDS] = UINT64_C(0xa5a5a5a5a5a5a5a5);
    return &room->slab;
}

static CellMinute random_cell(Random *random, const CellMinute *base, CellMinute mask)
{
    return (CellMinute){.data = base->data ^ (random_u64(random) & mask.data),
                        .bits = (uint16_t)(base->bits ^ (random_u64(random) & mask.bits))};
}

static void check(const Block *block, const Slab *slab, const CellMinute *expected, unsigned count)
{
    BlockCells got;

    block_read(block, slab, &got);
    for (unsigned i = 0; i < count; i++) {
        assert_true(got.data[i] == expected[i].data);
        assert_int_equal(got.bits[i], expected[i].bits);
    }
}

static void cells_come_back_as_they_were(void **state)
{
    static const CellMinute masks[] = {
        {0, 0},
        {0, 1},
        {0, UINT16_MAX},
        {1, 0},
        {UINT64_C(1) << 63, UINT16_C(1) << 15},
        {UINT64_C(0x00fff00000000000), 0},
        {UINT64_C(0x8000000100000001), 0x8001},
        {UINT64_MAX, 0},
        {UINT64_MAX, UINT16_MAX},
    };
    static Room room;
    Slab *slab = empty(&room);
    Random random = {11};
    Block block = {.data = 0};

    (void)state;
    for (size_t round = 0; round < ROUNDS; round++) {
        CellMinute mask = masks[random_below(&random, sizeof masks / sizeof masks[0])];
        CellMinute base = {.data = random_u64(&random), .bits = (uint16_t)random_u64(&random)};
        CellMinute cells[BLOCK_CELLS];

        block_begin(&block, slab, base);
        cells[0] = base;
        for (unsigned i = 1; i < BLOCK_CELLS; i++) {
            for (uint64_t again = random_below(&random, 3) + 1; again > 0; again--) {
                cells[i] = random_once(&random, 3) ? cells[i - 1] : random_cell(&random, &base, mask);
                block_put(&block, slab, i, cells[i]);
            }
            if (round % 16 == 0)
                check(&block, slab, cells, i + 1);
        }
        check(&block, slab, cells, BLOCK_CELLS);
        assert_true(slab->used <= BLOCK_UNITS_WIDEST);
        if (mask.data == 0 && mask.bits == 0)
            assert_int_equal(slab->used, 0);
        if (mask.bits == 0)
            assert_true(slab->used <= BLOCK_UNITS_WIDE);
    }
    block_clear(&block, slab);
    assert_int_equal(slab->used, 0);
    assert_true(slab->touched <= BLOCK_UNITS_WIDEST);
}

/* A unit holds the words of eight bits. */
static void room_is_by_bits_that_vary(void **state)
{
    static Room room;
    Slab *slab = empty(&room);
    Block block = {.data = 0};

    (void)state;
    block_begin(&block, slab, (CellMinute){.data = 7, .bits = 9});
    for (unsigned i = 1; i < BLOCK_CELLS; i++)
        block_put(&block, slab, i, (CellMinute){.data = 7, .bits = 9});
    assert_int_equal(slab->used, 0);
    block_put(&block, slab, 63, (CellMinute){.data = 7 ^ 0xfe, .bits = 9});
    assert_int_equal(slab->used, 1);
    block_put(&block, slab, 63, (CellMinute){.data = 7, .bits = 8});
    assert_int_equal(slab->used, 1);
    block_put(&block, slab, 63, (CellMinute){.data = 6, .bits = 9});
    assert_int_equal(slab->used, 2);
    block_begin(&block, slab, (CellMinute){.data = 1});
    assert_int_equal(slab->used, 0);
}

/* What was given back last is taken next, so that memory that was never needed stays untouched. */
static void units_are_used_again(void **state)
{
    static Room room;
    Slab *slab = empty(&room);
    uint32_t units[3];

    (void)state;
    for (size_t i = 0; i < 3; i++)
        units[i] = slab_alloc(slab);
    assert_int_equal(slab->touched, 3);
    slab->next[units[2]] = units[0];
    slab_release(slab, units[2], 2);
    slab_release(slab, units[1], 0);
    assert_int_equal(slab->used, 1);
    assert_int_equal(slab_alloc(slab), units[0]);
    assert_int_equal(slab_alloc(slab), units[2]);
    assert_int_equal(slab->touched, 3);
    assert_int_equal(slab_alloc(slab), 3);
    assert_int_equal(slab->used, 4);
}

/* The newest so many cells are there wherever among its blocks a ring stands, and the blocks are no more than needed.
 */
static void rings_hold_their_newest(void **state)
{
    enum { CELLS = 100, BLOCKS = RING_BLOCKS(CELLS) };
    static Room room;
    Slab *slab = empty(&room);
    Block blocks[BLOCKS] = {{.data = 0}};
    Cells ring = {.blocks = blocks, .count = BLOCKS, .slab = slab};
    uint64_t first = 1000000;

    (void)state;
    assert_int_equal(BLOCKS, 3);
    assert_int_equal(RING_BLOCKS(1), 1);
    assert_int_equal(RING_BLOCKS(65), 2);
    assert_int_equal(RING_BLOCKS(66), 3);
    for (size_t round = 0; round < 5; round++, first += 12345) {
        for (uint64_t n = first; n < first + 1000; n++) {
            CellsReader reader;

            cells_put(ring, first, n, (CellMinute){.data = ~n, .bits = 1});
            cells_put(ring, first, n, (CellMinute){.data = n, .bits = (uint16_t)(n * 7)});
            cells_reader_init(&reader, ring);
            for (uint64_t old = n - first < CELLS ? first : n - CELLS + 1; old <= n; old++) {
                assert_int_equal(cells_read(&reader, old).data, old);
                assert_int_equal(cells_read(&reader, old).bits, (uint16_t)(old * 7));
            }
        }
        assert_true(slab->used > 0);
        cells_clear(ring);
        assert_int_equal(slab->used, 0);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_come_back_as_they_were),
        cmocka_unit_test(room_is_by_bits_that_vary),
        cmocka_unit_test(units_are_used_again),
        cmocka_unit_test(rings_hold_their_newest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
