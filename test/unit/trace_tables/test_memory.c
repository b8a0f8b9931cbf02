/* SPDX-License-Identifier: Apache-2.0 */
/* Memory by device (engine/trace/memory.c). */
#include "kit.h"

static void totals_of_the_file_are_taken(void **state)
{
    const TraceMemoryDevice *row;
    Kit kit;

    (void)state;
    kit_init(&kit);
    vec_push(&kit.profile.devices, ((ProfileDevice){.id = 0, .name = kit_name(&kit, "GPU"), .memory_bytes = 8000}));
    kit_memory(&kit, 0, 100, 0, 100, 1100, 2000); /* 1000 were there before */
    kit_memory(&kit, 0, 100, 10, 500, 1600, 4000);
    kit_memory(&kit, 0, 100, 20, -500, 1100, 4000);
    kit_memory(&kit, 0, 100, 30, 300, 1400, 4000);
    kit_memory(&kit, -1, 100, 5, 64, 64, -1);
    kit_host(&kit, PROFILE_OP, 100, "aten::linear", 5, 10, 0);
    kit_host(&kit, PROFILE_OP, 100, "aten::empty", 9, 2, 0);
    kit_host(&kit, PROFILE_CALL, 100, "cudaMalloc", 10, 1, 0);
    kit_seal(&kit);
    kit_run(&kit, trace_memory, &kit.rank);
    assert_int_equal(kit.rank.memory.len, 2);
    assert_int_equal(kit.rank.memory.at[0].device, -1);
    assert_int_equal(kit.rank.memory.at[0].peak_allocated, 64);
    assert_int_equal(kit.rank.memory.at[0].capacity_bytes, -1);
    row = &kit.rank.memory.at[1];
    assert_int_equal(row->device, 0);
    assert_true(row->totals);
    assert_int_equal(row->peak_allocated, 1600);
    assert_int_equal(row->peak_reserved, 4000);
    assert_int_equal(row->peak_at, 10 * US);
    assert_string_equal(row->peak_op, "aten::empty");
    assert_int_equal(row->allocations, 3);
    assert_int_equal(row->releases, 1);
    assert_int_equal(row->allocated_bytes, 900);
    assert_int_equal(row->growth_bytes, 300);
    assert_int_equal(row->capacity_bytes, 8000);
    assert_int_equal(row->points.len, 4);
    kit_done(&kit);
}

static void without_totals_sizes_are_summed(void **state)
{
    const TraceMemoryDevice *row;
    Kit kit;

    (void)state;
    kit_init(&kit);
    kit_memory(&kit, 1, 100, 0, -100, -1, -1); /* given back what was there before */
    kit_memory(&kit, 1, 100, 10, 500, -1, -1);
    kit_memory(&kit, 1, 100, 20, -50, -1, -1);
    kit_seal(&kit);
    kit_run(&kit, trace_memory, &kit.rank);
    row = &kit.rank.memory.at[0];
    assert_false(row->totals);
    assert_int_equal(row->peak_allocated, 400);
    assert_int_equal(row->peak_reserved, -1);
    assert_int_equal(row->growth_bytes, 450);
    assert_string_equal(row->peak_op, "");
    kit_done(&kit);
}

static void points_keep_the_largest_of_each_part(void **state)
{
    int64_t largest = 0;
    Kit kit;

    (void)state;
    kit_init(&kit);
    for (int64_t i = 0; i < 5120; i++)
        kit_memory(&kit, 0, 100, i, 1, i % 10 == 7 ? 1000 + i : 10, 5000);
    kit_seal(&kit);
    kit_run(&kit, trace_memory, &kit.rank);
    assert_true(kit.rank.memory.at[0].points.len <= 512);
    assert_true(kit.rank.memory.at[0].points.len >= 500);
    for (size_t i = 0; i < kit.rank.memory.at[0].points.len; i++) {
        assert_true(kit.rank.memory.at[0].points.at[i].allocated >= 1000);
        assert_true(kit.rank.memory.at[0].points.at[i].allocated > largest);
        largest = kit.rank.memory.at[0].points.at[i].allocated;
    }
    assert_int_equal(largest, kit.rank.memory.at[0].peak_allocated);
    kit_done(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(totals_of_the_file_are_taken),
        cmocka_unit_test(without_totals_sizes_are_summed),
        cmocka_unit_test(points_keep_the_largest_of_each_part),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
