/* SPDX-License-Identifier: Apache-2.0 */
/* What readings promise about each other: integrals, power and energy, windows, counters. For every kind and board. */
#include "node.h"

#include <math.h>
#include <string.h>

#include "random_op.h"

#define TICK_S (SIM_TICK_NS / 1e9)

typedef void (*EachNode)(SimImage *image, const char *board, const char *kind);

/* Calls fn with a node per board and kind of work; kinds run alone. */
static void each_kind(EachNode fn)
{
    for (const char *const *board = node_boards(); *board; board++) {
        for (uint32_t k = 0; sim_kind_name(k); k++) {
            SimImage *image = node_of(*board, 1);
            node_run(image, sim_kind_name(k), 0);
            sim_plan_build(image);
            fn(image, *board, sim_kind_name(k));
            sim_image_close(image);
        }
    }
}

/* ---- integrals ---- */

static void never_decrease(SimImage *image, uint32_t gpu, double end_s, int looks, uint64_t *seed)
{
    double last[SIM_CH_COUNT] = {0}, cum[SIM_CH_COUNT], t = 0;
    for (int i = 0; i < looks; i++) {
        t += 2 * node_rand(seed) * end_s / looks;
        sim_cum_at(image, gpu, node_ns(t), cum);
        for (int c = 0; c < SIM_CH_COUNT; c++) {
            if (cum[c] < last[c] * (1 - 1e-12) - 1e-9)
                fail_msg("gpu %u: channel %d falls from %.12g to %.12g at %.9f s", gpu, c, last[c], cum[c], t);
            last[c] = cum[c];
        }
    }
}

static void alone_never_decrease(SimImage *image, const char *board, const char *kind)
{
    (void)board, (void)kind;
    uint64_t seed = 5;
    never_decrease(image, 0, 20, 300 / TEST_SLOW, &seed);
}

static void integrals_never_decrease(void **state)
{
    (void)state;
    each_kind(alone_never_decrease);
}

static void integrals_never_decrease_across_segments(void **state)
{
    (void)state;
    uint64_t seed = 99;
    for (int round = 0; round < 40 / TEST_SLOW; round++) {
        SimImage *image = random_node();
        for (int i = 0; i < 40; i++)
            node_op(image, 60 * node_rand(&seed), random_op(&seed));
        sim_plan_build(image);
        assert_int_equal(image->segs_dropped, 0);
        for (uint32_t g = 0; g < RANDOM_GPUS; g++)
            never_decrease(image, g, 80, 500, &seed);
        sim_image_close(image);
    }
}

/* The same through the sensors, whose time steps in ticks and at changes; energy starts again with a reset. */
static void sensors_never_go_back(void **state)
{
    (void)state;
    uint64_t seed = 100;
    for (int round = 0; round < 20 / TEST_SLOW; round++) {
        SimImage *image = random_node();
        for (int i = 0; i < 30; i++)
            node_op(image, 20 * node_rand(&seed), random_op(&seed));
        sim_plan_build(image);
        for (uint32_t g = 0; g < RANDOM_GPUS; g++) {
            uint64_t t_ns = 0, since = 0;
            double energy = 0, throttle[8] = {0};
            for (double t = 0; t < 22; t += 0.02 * node_rand(&seed)) {
                const SimNow *now = node_at(image, g, t);
                assert_true(now->t_ns >= t_ns && now->t_ns <= node_ns(t));
                assert_true(now->from_ns <= node_ns(t) && node_ns(t) < now->until_ns);
                if (now->cond.volatile_since_ns == since)
                    assert_true(now->energy_mj >= energy - 1e-3);
                for (int i = 0; i < 8; i++) {
                    double most = throttle[i] + (double)(now->t_ns - t_ns) * (1 + 1e-9) + 1;
                    if (now->throttle_ns[i] < throttle[i] - 1 || now->throttle_ns[i] > most)
                        fail_msg("throttle counter %d: %.0f after %.0f in %.0f ns", i, now->throttle_ns[i], throttle[i],
                                 (double)(now->t_ns - t_ns));
                    throttle[i] = now->throttle_ns[i];
                }
                t_ns = now->t_ns;
                energy = now->energy_mj;
                since = now->cond.volatile_since_ns;
            }
        }
        sim_image_close(image);
    }
}

/* ---- power and energy ---- */

static double worst;

static void energy_of(SimImage *image, const char *board, const char *kind)
{
    const int ticks = 2500 / TEST_SLOW;
    double joule = 0, first = node_at(image, 0, 0)->energy_mj / 1000;
    for (int i = 0; i < ticks; i++) {
        const SimNow *now = node_at(image, 0, i * TICK_S);
        assert_true(now->watt <= now->limit_w && now->watt_mean <= now->limit_w && now->watt > 0);
        joule += now->watt * TICK_S;
    }
    double energy = node_at(image, 0, ticks * TICK_S)->energy_mj / 1000 - first;
    double error = fabs(energy / joule - 1);
    worst = error > worst ? error : worst;
    if (error > 0.01)
        fail_msg("%s on %s: energy %.1f J, integral of power %.1f J", kind, board, energy, joule);
}

static void energy_is_the_integral_of_power(void **state)
{
    (void)state;
    each_kind(energy_of);
    print_message("# worst error %.3f %%\n", worst * 100);
}

/* What all sensors say stays within what a GPU can do, whatever happens to it. */
static void readings_stay_in_range(void **state)
{
    (void)state;
    uint64_t seed = 31;
    for (int round = 0; round < 30 / TEST_SLOW; round++) {
        SimImage *image = random_node();
        for (int i = 0; i < 40; i++)
            node_op(image, 30 * node_rand(&seed), random_op(&seed));
        sim_plan_build(image);
        for (int i = 0; i < 400; i++) {
            uint32_t g = node_pick(&seed, RANDOM_GPUS);
            const SimNow *now = node_at(image, g, 40 * node_rand(&seed));
            const SimBoard *b = &image->boards[image->gpus[g].board];
            assert_true(now->watt > 0 && now->watt <= now->limit_w && now->watt_mean > 0 &&
                        now->watt_mean <= now->limit_w);
            assert_true(now->sm_mhz <= b->sm_clock_max && now->mem_mhz <= b->mem_clock_max);
            if (now->video_mhz > b->video_clock_max || now->sm_mhz == 0)
                fail_msg("%s: SM %u MHz, video %u of %u MHz", b->key, now->sm_mhz, now->video_mhz, b->video_clock_max);
            assert_true(now->temp_c > 0 && now->temp_c < b->temp_shutdown + 2 && now->mem_temp_c >= now->temp_c);
            assert_true(now->fan_percent <= 100 && now->pcie_gen <= b->gpu_max_pcie_gen);
            assert_true(now->used_mib >= 0 && now->used_mib <= b->memory_mib - b->reserved_mib + 1);
            double used = 0;
            for (uint32_t p = 0; p < now->proc_count; p++)
                used += now->proc[p].mem_mib;
            assert_true(fabs(used - now->used_mib) < 1e-6);
            for (int c = 0; c < SIM_CH_PCIE_TX; c++)
                assert_true(now->win[c] >= 0 && now->win[c] <= 1);
        }
        sim_image_close(image);
    }
}

/* ---- windows ---- */

static void window_of(SimImage *image, const char *board, const char *kind)
{
    uint64_t seed = 8;
    for (int i = 0; i < 40 / TEST_SLOW; i++) {
        const SimNow *now = node_at(image, 0, 1 + 20 * node_rand(&seed));
        double after[SIM_CH_COUNT], before[SIM_CH_COUNT];
        sim_cum_at(image, 0, now->t_ns, after);
        sim_cum_at(image, 0, now->t_ns - SIM_WINDOW_NS, before);
        for (int c = 0; c < SIM_CH_COUNT; c++) {
            double mean = (after[c] - before[c]) / (SIM_WINDOW_NS / 1e9);
            if (fabs(mean - now->win[c]) > 1e-9 + 1e-9 * fabs(mean) + 1e-14 * after[c])
                fail_msg("%s on %s: window of channel %d is %g, mean %g", kind, board, c, now->win[c], mean);
            if (fabs(after[c] - now->cum[c]) > 1e-9 * fabs(after[c]) + 1e-9)
                fail_msg("%s on %s: integral of channel %d is %g, not %g", kind, board, c, now->cum[c], after[c]);
            if (now->proc_count == 1 &&
                fabs(now->proc[0].win[c] - now->win[c]) > 1e-9 + 1e-6 * fabs(mean) + 1e-14 * after[c] &&
                c != SIM_CH_CLOCK)
                fail_msg("%s on %s: its only process has %g of channel %d, the GPU %g", kind, board,
                         now->proc[0].win[c], c, now->win[c]);
        }
    }
}

static void windows_are_means(void **state)
{
    (void)state;
    each_kind(window_of);
}

/* A load that stops is gone from the window 160 ms later, and half of it 80 ms later. */
static void windows_forget(void **state)
{
    (void)state;
    SimImage *image = node_of("h100-sxm-80gb", 1);
    int32_t work = node_run(image, "burn", 0);
    node_op(image, 2, (SimOp){.type = SIM_OP_WORK_STOP, .gpu = SIM_NONE, .a = {work}});
    sim_plan_build(image);
    assert_true(fabs(node_at(image, 0, 1.99)->win[SIM_CH_KERNEL] - 1) < 1e-6);
    assert_true(fabs(node_at(image, 0, 2.08)->win[SIM_CH_KERNEL] - 0.5) < 1e-6);
    assert_true(node_at(image, 0, 2.08)->act[SIM_CH_KERNEL] < 1e-9);
    assert_true(node_at(image, 0, 2.16)->win[SIM_CH_KERNEL] < 1e-9);
    assert_true(node_at(image, 0, 2.16)->reasons & 1); /* idle */
    assert_false(node_at(image, 0, 1.99)->reasons & 1);
    sim_image_close(image);
}

/* Works in turns: together they keep the GPU busy for no more than all of the time. */
static void shared_gpu_is_busy_at_most_always(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"train", "train"}, {"inference", "quantized"}, {"train-starved", "train-starved"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        SimImage *image = node_of("h100-sxm-80gb", 1);
        node_run(image, pairs[i][0], 0);
        node_run(image, pairs[i][1], 0);
        sim_plan_build(image);
        double cum[SIM_CH_COUNT];
        sim_cum_at(image, 0, node_ns(100), cum);
        if (cum[SIM_CH_KERNEL] > 100.5 || cum[SIM_CH_SW_CAP] > 100)
            fail_msg("%s and %s: kernels resident for %.2f s of 100, held down for %.2f", pairs[i][0], pairs[i][1],
                     cum[SIM_CH_KERNEL], cum[SIM_CH_SW_CAP]);
        sim_image_close(image);
    }
}

/* ---- throttle counters ---- */

static void counters_count_the_time_held_down(void **state)
{
    (void)state;
    SimImage *image = node_of("h100-sxm-80gb", 1);
    node_run(image, "burn", 0);
    node_op(image, 5, (SimOp){.type = SIM_OP_SET, .a = {SIM_KEY_POWER_BRAKE}, .u = 1});
    node_op(image, 8, (SimOp){.type = SIM_OP_SET, .a = {SIM_KEY_POWER_BRAKE}, .u = 0});
    node_op(image, 10, (SimOp){.type = SIM_OP_SET, .a = {SIM_KEY_HW_SLOWDOWN}, .u = 1});
    node_op(image, 14, (SimOp){.type = SIM_OP_SET, .a = {SIM_KEY_HW_SLOWDOWN}, .u = 0});
    node_op(image, 20, (SimOp){.type = SIM_OP_SET, .a = {SIM_KEY_POWER_LIMIT_MW}, .u = 300000});
    sim_plan_build(image);
    assert_true(node_at(image, 0, 6)->reasons == (0x80 | 0x8));
    assert_int_equal(node_at(image, 0, 6)->sm_mhz, 1980 / 2);
    assert_true(node_at(image, 0, 11)->reasons & 0x40);
    const SimNow *now = node_at(image, 0, 18);
    assert_true(fabs(now->throttle_ns[7] - 3e9) < 1 && fabs(now->throttle_ns[6] - 4e9) < 1);
    assert_true(fabs(now->throttle_ns[1] - 4e9) < 1);
    double capped = node_at(image, 0, 20)->throttle_ns[0];
    now = node_at(image, 0, 30);
    assert_true(now->reasons & 0x4);
    assert_true(fabs(now->throttle_ns[0] - capped - 10e9) < 1e6); /* a stress test far above its limit: all the time */
    assert_true(now->watt_mean <= 300 && now->watt_mean > 297);
    assert_true(now->sm_mhz < 1500);
    sim_image_close(image);
}

/* ---- snapshots ---- */

static void snapshot_follows_clock_and_plan(void **state)
{
    (void)state;
    SimImage *image = node_of("h100-sxm-80gb", 2);
    node_run(image, "burn", 0);
    sim_plan_build(image);
    const SimNow *now = sim_state_now(image, 0);
    double energy = now->energy_mj;
    node_step(image, 1);
    now = sim_state_now(image, 0);
    assert_true(now->energy_mj > energy + 300e3);
    assert_ptr_equal(now, sim_state_now(image, 0));
    assert_int_equal(now->cond.lost, 0);
    node_do(image, (SimOp){.type = SIM_OP_LOST, .gpu = 0});
    assert_int_equal(sim_state_now(image, 0)->cond.lost, 1);
    assert_int_equal(sim_state_now(image, 1)->cond.lost, 0);
    sim_image_close(image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integrals_never_decrease),
        cmocka_unit_test(integrals_never_decrease_across_segments),
        cmocka_unit_test(sensors_never_go_back),
        cmocka_unit_test(energy_is_the_integral_of_power),
        cmocka_unit_test(readings_stay_in_range),
        cmocka_unit_test(windows_are_means),
        cmocka_unit_test(windows_forget),
        cmocka_unit_test(shared_gpu_is_busy_at_most_always),
        cmocka_unit_test(counters_count_the_time_held_down),
        cmocka_unit_test(snapshot_follows_clock_and_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
