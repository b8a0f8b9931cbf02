/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels and copies by name (engine/trace/kernels.c, tables.h). */
#include "kit.h"

#include <math.h>
#include <string.h>

static void near(double value, double want)
{
    assert_true(fabs(value - want) <= 1e-9 * fmax(1, fabs(want)));
}

static void kernels_are_summed_by_name(void **state)
{
    ProfileLaunch wide = {.grid = {80, 1, 1},
                          .block = {256, 1, 1},
                          .registers = 32,
                          .occupancy_percent = 50,
                          .blocks_per_sm = 2,
                          .warps_per_sm = 16,
                          .collective = PROFILE_NONE};
    ProfileLaunch narrow = {.grid = {20, 1, 1},
                            .block = {256, 1, 1},
                            .registers = 40,
                            .occupancy_percent = 10,
                            .blocks_per_sm = 0.5F,
                            .warps_per_sm = 4,
                            .collective = PROFILE_NONE};
    const TraceKernel *row;
    Kit kit;

    (void)state;
    kit_init(&kit);
    kit_kernel(&kit, 0, 7, "add", 0, 2, 0, &wide);
    kit_kernel(&kit, 0, 7, "add", 10, 4, 0, &wide);
    kit_kernel(&kit, 1, 7, "add", 10, 12, 0, &narrow); /* overlaps on another device: counts whole */
    kit_kernel(&kit, 0, 7, "ampere_sgemm_128x64_tn", 30, 100, 0, NULL);
    kit_kernel(&kit, 0, 7, "add", 40, 0, 0, &wide); /* without duration */
    kit_seal(&kit);
    kit_run(&kit, trace_kernels, &kit.rank);
    assert_int_equal(kit.rank.kernels.len, 2);
    assert_string_equal(kit.rank.kernels.at[0].name, "ampere_sgemm_128x64_tn"); /* most time first */
    assert_true(kit.rank.kernels.at[0].float_matrix);
    assert_int_equal(kit.rank.kernels.at[0].shapes, 0);
    assert_true(isnan(kit.rank.kernels.at[0].occupancy_percent));
    assert_int_equal(kit.rank.kernels.at[0].registers, -1);

    row = kit_find_kernel(&kit.rank, "add");
    assert_int_equal(row->count, 4);
    assert_int_equal(row->total_ns, 18 * US);
    assert_int_equal(row->min_ns, 0);
    assert_int_equal(row->max_ns, 12 * US);
    near(row->mean_ns, 4.5 * US);
    near(row->sd_ns, sqrt((2.5 * 2.5 + 0.5 * 0.5 + 7.5 * 7.5 + 4.5 * 4.5) / 3) * US);
    assert_int_equal(row->short_count, 3);
    assert_false(row->float_matrix);
    assert_int_equal(row->shapes, 2);
    assert_int_equal(row->grid[0], 20); /* of the longest */
    assert_int_equal(row->registers, 40);
    near(row->occupancy_percent, (6 * 50 + 12 * 10) / 18.0);
    near(row->blocks_per_sm, (6 * 2 + 12 * 0.5) / 18.0);
    near(row->sm_efficiency, (6 * 1 + 12 * 0.5) / 18.0);
    assert_int_equal(row->device_count, 2);
    kit_done(&kit);
}

/* Half of the multiprocessors are without a block, for 10 us of them alone, for the rest beside another kernel: those
 * may work on that. */
static void empty_multiprocessors_beside_another_kernel(void **state)
{
    ProfileLaunch half = {.grid = {40, 1, 1}, .block = {256, 1, 1}, .blocks_per_sm = 0.5F, .collective = PROFILE_NONE};
    ProfileLaunch full = {.grid = {80, 1, 1}, .block = {256, 1, 1}, .blocks_per_sm = 1, .collective = PROFILE_NONE};
    Kit kit;

    (void)state;
    kit_init(&kit);
    kit_kernel(&kit, 0, 7, "gemm", 0, 20, 0, &half);
    kit_kernel(&kit, 0, 20, "ncclDevKernel_AllReduce", 5, 30, 0, NULL); /* [5, 35) */
    kit_kernel(&kit, 0, 7, "gemm", 30, 10, 0, &half);                   /* 5 us beside it */
    kit_kernel(&kit, 0, 7, "wide", 50, 10, 0, &full);
    kit_kernel(&kit, 1, 7, "ncclDevKernel_AllReduce", 0, 60, 0, NULL); /* another device */
    kit_seal(&kit);
    kit_run(&kit, trace_kernels, &kit.rank);
    near(kit_find_kernel(&kit.rank, "gemm")->empty_ns, (5 + 5) * 0.5 * US);
    near(kit_find_kernel(&kit.rank, "wide")->empty_ns, 0);
    near(kit_find_kernel(&kit.rank, "gemm")->sm_efficiency, 0.5);
    kit_done(&kit);
}

static void assert_shape_shown(const ProfileLaunch *launches, size_t count, const ProfileLaunch *shown)
{
    const TraceKernel *row;
    Kit kit;

    kit_init(&kit);
    for (size_t i = 0; i < count; i++)
        kit_kernel(&kit, 0, 7, "add", (int64_t)i * 10, 4, 0, &launches[i]);
    kit_seal(&kit);
    kit_run(&kit, trace_kernels, &kit.rank);
    row = kit_find_kernel(&kit.rank, "add");
    assert_memory_equal(row->grid, shown->grid, sizeof row->grid);
    assert_memory_equal(row->block, shown->block, sizeof row->block);
    assert_int_equal(row->registers, shown->registers);
    assert_int_equal(row->shared_bytes, shown->shared_bytes);
    kit_done(&kit);
}

static void of_equally_long_launches_the_smaller_is_shown(void **state)
{
    const ProfileLaunch plain = {.grid = {9, 1, 1},
                                 .block = {64, 1, 1},
                                 .registers = 32,
                                 .shared_bytes = 16,
                                 .occupancy_percent = -1,
                                 .blocks_per_sm = -1,
                                 .collective = PROFILE_NONE};
    ProfileLaunch pair[2];

    (void)state;
    for (int what = 0; what < 4; what++) {
        pair[0] = pair[1] = plain;
        if (what == 0) {
            pair[1].grid[0] = 8;
            pair[1].block[0] = 65;
        } else if (what == 1) {
            pair[1].block[0] = 63;
            pair[1].registers = 33;
        } else if (what == 2) {
            pair[1].registers = 31;
            pair[1].shared_bytes = 17;
        } else {
            pair[1].shared_bytes = 15;
        }
        assert_shape_shown(pair, 2, &pair[1]);
        assert_shape_shown((const ProfileLaunch[]){pair[1], pair[0]}, 2, &pair[1]);
    }
}

static void one_kernel_has_no_spread(void **state)
{
    Kit kit;

    (void)state;
    kit_init(&kit);
    kit_kernel(&kit, 0, 7, "a", 0, 10, 0, NULL);
    kit_seal(&kit);
    kit_run(&kit, trace_kernels, &kit.rank);
    assert_true(kit.rank.kernels.at[0].sd_ns == 0);
    kit_done(&kit);
}

static void sums_stop_at_the_end_of_numbers(void **state)
{
    Kit kit;

    (void)state;
    kit_init(&kit);
    for (int i = 0; i < 8; i++)
        profile_add(&kit.profile, &(ProfileEvent){.kind = PROFILE_KERNEL,
                                                  .start = i,
                                                  .duration = (INT64_C(1) << 61) - 1,
                                                  .name = kit_name(&kit, "endless"),
                                                  .lane = profile_stream(&kit.profile, 0, 7),
                                                  .extra = PROFILE_NONE});
    kit_seal(&kit);
    kit_run(&kit, trace_kernels, &kit.rank);
    assert_int_equal(kit.rank.kernels.at[0].count, 8);
    assert_true(kit.rank.kernels.at[0].total_ns == INT64_MAX);
    kit_done(&kit);
}

/*   copy     |--------10--------|
 *   kernel        |---4---|           |--
 *   copy 2        |----------8----------|   (another stream)   */
static void copies_have_bandwidth_and_exposed_time(void **state)
{
    const TraceCopy *row;
    Kit kit;

    (void)state;
    kit_init(&kit);
    kit_copy(&kit, 0, 7, "Memcpy HtoD (Pageable -> Device)", 0, 10, 1000 * 1000);
    kit_copy(&kit, 0, 9, "Memcpy HtoD (Pinned -> Device)", 2, 8, 64 * 1024);
    kit_copy(&kit, 0, 9, "Memcpy HtoD (Pinned -> Device)", 20, 1, 64 * 1024 - 1);
    kit_copy(&kit, 0, 9, "Memcpy HtoD (Pinned -> Device)", 30, 0, 100); /* no duration: no bandwidth */
    kit_copy(&kit, 0, 9, "Memset (Device)", 40, 5, -1);
    kit_kernel(&kit, 0, 11, "k", 3, 4, 0, NULL);
    kit_kernel(&kit, 1, 11, "k", 0, 100, 0, NULL); /* another device covers nothing here */
    kit_seal(&kit);
    kit_run(&kit, trace_copies, &kit.rank);
    assert_int_equal(kit.rank.copies.len, 3);

    row = kit_find_copy(&kit.rank, "HtoD", "pageable");
    assert_string_equal(row->target, "device");
    assert_int_equal(row->count, 1);
    assert_int_equal(row->small_count, 0);
    near(row->bandwidth_gbs, 100); /* a megabyte in 10 us */
    assert_int_equal(row->exposed_ns, 6 * US);

    row = kit_find_copy(&kit.rank, "HtoD", "pinned");
    assert_int_equal(row->count, 3);
    assert_int_equal(row->bytes, 2 * 64 * 1024 - 1 + 100);
    assert_int_equal(row->sized_bytes, 2 * 64 * 1024 - 1);
    assert_int_equal(row->sized_ns, 9 * US);
    assert_int_equal(row->small_count, 2);
    assert_int_equal(row->small_ns, 1 * US);
    assert_int_equal(row->min_ns, 0);
    assert_int_equal(row->exposed_ns, 4 * US + 1 * US);

    row = kit_find_copy(&kit.rank, "set", "");
    assert_int_equal(row->bytes, 0);
    assert_true(isnan(row->bandwidth_gbs));
    assert_int_equal(row->exposed_ns, 5 * US);
    kit_done(&kit);
}

/* Many copies at once, which end in another order than they began. */
static void many_copies_are_open(void **state)
{
    enum { COPIES = 12, SPAN = 400 };

    (void)state;
    for (int round = 0; round < 50; round++) {
        bool computes[SPAN] = {false};
        int64_t exposed = 0;
        Kit kit;

        kit_init(&kit);
        for (int i = 0; i < 8; i++) {
            const int start = (i * 97 + round * 31) % 360, us = 1 + (i * 13 + round * 7) % 40;

            kit_kernel(&kit, 0, 50 + i, "k", start, us, 0, NULL);
            memset(computes + start, true, (size_t)us * sizeof *computes);
        }
        for (int i = 0; i < COPIES; i++) {
            const int start = (i * 37 + round * 11) % 90, us = 1 + (i * i * 53 + round * 29) % 300;

            kit_copy(&kit, 0, i, "Memcpy HtoD (Pinned -> Device)", start, us, 1);
            for (int at = start; at < start + us; at++)
                exposed += computes[at] ? 0 : US;
        }
        kit_seal(&kit);
        kit_run(&kit, trace_copies, &kit.rank);
        assert_int_equal(kit_find_copy(&kit.rank, "HtoD", "pinned")->exposed_ns, exposed);
        kit_done(&kit);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_are_summed_by_name),
        cmocka_unit_test(empty_multiprocessors_beside_another_kernel),
        cmocka_unit_test(of_equally_long_launches_the_smaller_is_shown),
        cmocka_unit_test(one_kernel_has_no_spread),
        cmocka_unit_test(sums_stop_at_the_end_of_numbers),
        cmocka_unit_test(copies_have_bandwidth_and_exposed_time),
        cmocka_unit_test(many_copies_are_open),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
