/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Temperature against a fine numeric integration of dT/dt = (R * P - (T - ambient)) / tau, where P is the slope of the
 * energy counter; and what the GPU does when it gets too hot.
 */
#include "node.h"

#include <math.h>
#include <string.h>

#define TICK_S (SIM_TICK_NS / 1e9)
enum { SW_THERMAL = 0x20, HW_THERMAL = 0x40, NOISE_MK = 300 };

/* Thermal resistance and air of a condition, by the book. */
static double resistance(const SimBoard *board, const SimCond *cond)
{
    return board->kelvin_per_watt / (cond->set[SIM_KEY_COOLING_PERMILLE] / 1000.0) *
           (cond->set[SIM_KEY_FAN_FAILED] ? 2.2 : 1);
}

static double air(const SimBoard *board, const SimCond *cond)
{
    return board->ambient_c + (int32_t)cond->set[SIM_KEY_AMBIENT_MC] / 1000.0;
}

/* Integrates from tick to tick and compares; returns the reasons that were seen. */
static uint64_t follow_model(SimImage *image, double end_s)
{
    const SimBoard *board = &image->boards[0];
    const SimNow *now = node_at(image, 0, 0);
    double energy = now->energy_mj, r = resistance(board, &now->cond), ambient = air(board, &now->cond);
    double temp = ambient + r * board->idle_w;
    uint64_t t_ns = 0, reasons = 0;
    for (double t = 0.0001; t < end_s; t += TICK_S / 2) { /* twice per tick: changes within one count at once */
        now = node_at(image, 0, t);
        if (now->t_ns == t_ns)
            continue;
        double dt = (double)(now->t_ns - t_ns) / 1e9, watt = (now->energy_mj - energy) / 1000 / dt;
        double settles = ambient + r * watt;
        temp = settles + (temp - settles) * exp(-dt / board->tau_s);
        if (fabs(temp - now->temp_c) > 0.5)
            fail_msg("%s: %.2f degrees at %.2f s, the model says %.2f", board->key, now->temp_c, t, temp);
        t_ns = now->t_ns;
        energy = now->energy_mj;
        r = resistance(board, &now->cond);
        ambient = air(board, &now->cond);
        reasons |= now->reasons;
    }
    return reasons;
}

static void temperature_follows_the_model(void **state)
{
    (void)state;
    static const char *const kinds[] = {"burn", "train-starved", "inference", "desktop"};
    uint64_t reasons = 0;
    for (const char *const *board = node_boards(); *board; board++) {
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            SimImage *image = node_of(*board, 1);
            int32_t work = node_run(image, kinds[k], 0);
            int32_t other = node_work(image, (NodeWork){.kind = "train", .gpu = 0, .mig = SIM_NONE, .job = SIM_NONE});
            node_op(image, 60.013, (SimOp){.type = SIM_OP_SET, .a = {SIM_KEY_AMBIENT_MC}, .u = 30000});
            node_op(image, 110.5, (SimOp){.type = SIM_OP_WORK_START, .gpu = SIM_NONE, .a = {other}});
            node_op(image, 140.007,
                    (SimOp){.type = SIM_OP_SET, .a = {SIM_KEY_POWER_LIMIT_MW}, .u = image->boards[0].power_min_mw});
            node_op(image, 170, (SimOp){.type = SIM_OP_SET, .a = {SIM_KEY_AMBIENT_MC}, .u = (uint32_t)-10000});
            node_op(image, 180, (SimOp){.type = SIM_OP_SET, .a = {SIM_KEY_COOLING_PERMILLE}, .u = 500});
            node_op(image, 230, (SimOp){.type = SIM_OP_WORK_STOP, .gpu = SIM_NONE, .a = {work}});
            node_op(image, 240, (SimOp){.type = SIM_OP_SET, .a = {SIM_KEY_COOLING_PERMILLE}, .u = 1000});
            sim_plan_build(image);
            reasons |= follow_model(image, 260);
            assert_int_equal(image->segs_dropped, 0);
            sim_image_close(image);
        }
    }
    assert_true(reasons & SW_THERMAL); /* else nothing was tested */
}

/* One air on a planned node: few changes, and what it comes to in an hour. */
static void settle(SimImage *image, const char *board, uint32_t mk, int *throttled, int *lost)
{
    image->ops[image->op_count - 1].u = mk;
    sim_plan_build(image);
    if (image->seg_count[0] > 8)
        fail_msg("%s, air %u mK warmer: %u segments", board, mk, image->seg_count[0]);
    const SimNow *now = node_at(image, 0, 3600);
    uint32_t lines = 0;
    for (uint32_t e = 0; e < image->event_count; e++)
        lines += image->events[e].type == 8 && image->events[e].data == 79;
    assert_int_equal(lines, now->cond.lost != 0);
    *throttled += (now->reasons & (SW_THERMAL | HW_THERMAL)) != 0;
    *lost += now->cond.lost != 0;
    if (now->cond.lost)
        return;
    if (now->temp_c > image->boards[0].temp_slowdown + 1 && !(now->reasons & HW_THERMAL))
        fail_msg("%s, air %u mK warmer: stays at %.1f degrees", board, mk, now->temp_c);
    if (now->temp_c > image->boards[0].temp_gpu_max + 1)
        assert_true(now->reasons & (SW_THERMAL | HW_THERMAL));
}

/* In air from mild to oven: the GPU settles, with few changes, and never above its limits; or it falls off the bus
 * once.
 */
static void every_air_settles(void **state)
{
    (void)state;
    static const char *const kinds[] = {"burn", "train-starved"};
    int throttled = 0, lost = 0;
    for (const char *const *board = node_boards(); *board; board++) {
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            SimImage *image = node_of(*board, 1);
            node_run(image, kinds[k], 0);
            node_op(image, 1, (SimOp){.type = SIM_OP_SET, .a = {SIM_KEY_AMBIENT_MC}});
            for (uint32_t mk = 0; mk < 90000; mk += 200 * TEST_SLOW)
                settle(image, *board, mk, &throttled, &lost);
            sim_image_close(image);
        }
    }
    assert_true(throttled > 0 && lost > 0);
}

/* The counters of thermal throttling run while the reason is shown, and the clock is lower meanwhile. */
static void throttling_is_counted(void **state)
{
    (void)state;
    SimImage *image = node_of("h100-sxm-80gb", 1);
    node_run(image, "burn", 0);
    node_op(image, 10, (SimOp){.type = SIM_OP_SET, .a = {SIM_KEY_AMBIENT_MC}, .u = 32000});
    node_op(image, 200, (SimOp){.type = SIM_OP_SET, .a = {SIM_KEY_AMBIENT_MC}, .u = 0});
    sim_plan_build(image);
    double on = 0, first = 0;
    uint32_t mhz_before = node_at(image, 0, 9)->sm_mhz;
    for (double t = 0.0001; t < 300; t += TICK_S) {
        const SimNow *now = node_at(image, 0, t);
        if (!(now->reasons & (SW_THERMAL | HW_THERMAL)))
            continue;
        first = first > 0 ? first : t;
        on += TICK_S;
        assert_true(now->sm_mhz < mhz_before || now->reasons & 4);
    }
    assert_true(first > 10 && on > 10);
    const SimNow *now = node_at(image, 0, 300);
    assert_true(fabs(now->throttle_ns[1] / 1e9 - on) < 0.1);
    assert_false(now->reasons & (SW_THERMAL | HW_THERMAL));
    assert_int_equal(node_at(image, 0, 300)->sm_mhz, mhz_before);
    sim_image_close(image);
}

/* Memory runs warmer the more it is used. */
static void memory_temperature_follows_its_use(void **state)
{
    (void)state;
    SimImage *image = node_new((const char *const[]){"h200-sxm-141gb", "h200-sxm-141gb", NULL});
    const double offset = image->boards[0].mem_temp_offset_c;
    node_run(image, "idle-context", 0);
    node_run(image, "noisy", 1);
    sim_plan_build(image);
    const SimNow *now = node_at(image, 0, 100);
    assert_true(fabs(now->mem_temp_c - now->temp_c - 0.4 * offset) < 0.01);
    now = node_at(image, 1, 100);
    assert_true(now->mem_temp_c - now->temp_c > 0.8 * offset && now->mem_temp_c - now->temp_c <= offset);
    sim_image_close(image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(temperature_follows_the_model),
        cmocka_unit_test(every_air_settles),
        cmocka_unit_test(throttling_is_counted),
        cmocka_unit_test(memory_temperature_follows_its_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
