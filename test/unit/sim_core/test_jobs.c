/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs over several GPUs: ranks wait for the slowest and hang when one dies. Memory that leaks ends in a death. */
#include "node.h"

#include <math.h>

enum { RANKS = 4 };

static SimImage *job(double slow_of_2)
{
    SimImage *image = node_of("h100-sxm-80gb", RANKS);
    for (int32_t r = 0; r < RANKS; r++) {
        int32_t work = node_work(image, (NodeWork){.kind = "train",
                                                   .gpu = r,
                                                   .mig = SIM_NONE,
                                                   .job = 0,
                                                   .rank = (uint32_t)r,
                                                   .ranks = RANKS,
                                                   .slow = r == 2 ? slow_of_2 : 1});
        node_op(image, 0, (SimOp){.type = SIM_OP_WORK_START, .gpu = SIM_NONE, .a = {work}});
    }
    return image;
}

static double steps(SimImage *image, uint32_t gpu, double from_s, double to_s)
{
    double a[SIM_CH_COUNT], b[SIM_CH_COUNT];
    sim_cum_at(image, gpu, node_ns(from_s), a);
    sim_cum_at(image, gpu, node_ns(to_s), b);
    return b[SIM_CH_STEPS] - a[SIM_CH_STEPS];
}

static void ranks_wait_for_the_slowest(void **state)
{
    (void)state;
    SimImage *even = job(1), *uneven = job(1.5);
    sim_plan_build(even);
    sim_plan_build(uneven);
    double fast = steps(even, 0, 10, 60), slow = steps(uneven, 2, 10, 60);
    assert_true(fast > 100 && slow < fast * 0.8);
    for (uint32_t g = 0; g < RANKS; g++) {
        assert_true(fabs(steps(even, g, 10, 60) - fast) < 1.01);
        assert_true(fabs(steps(uneven, g, 10, 60) - slow) < 1.01);
    }
    /* those who wait look busy and need less power */
    assert_true(node_at(uneven, 0, 30)->watt_mean < node_at(uneven, 2, 30)->watt_mean + 60);
    double sm[2] = {0};
    for (int i = 0; i < 100; i++) {
        sm[0] += node_at(uneven, 0, 30 + i * 0.13)->win[SIM_CH_SM];
        sm[1] += node_at(uneven, 2, 30 + i * 0.13)->win[SIM_CH_SM];
        assert_true(node_at(uneven, 0, 30 + i * 0.13)->win[SIM_CH_KERNEL] > 0.9);
    }
    assert_true(sm[0] < sm[1] * 0.9);
    sim_image_close(even);
    sim_image_close(uneven);
}

/* One GPU is held down: the whole job slows, by as much. */
static void a_slow_gpu_slows_the_job(void **state)
{
    (void)state;
    SimImage *image = job(1);
    node_op(image, 60, (SimOp){.type = SIM_OP_SET, .gpu = 1, .a = {SIM_KEY_LOCK_SM_MAX}, .u = 990});
    sim_plan_build(image);
    double before = steps(image, 3, 10, 50), after = steps(image, 3, 70, 110);
    assert_true(after < before * 0.75);
    for (uint32_t g = 0; g < RANKS; g++)
        assert_true(fabs(steps(image, g, 70, 110) - after) < 1.01);
    sim_image_close(image);
}

static void ranks_hang_when_one_dies(void **state)
{
    (void)state;
    SimImage *image = job(1);
    node_op(image, 20, (SimOp){.type = SIM_OP_XID, .gpu = 1, .a = {31, SIM_NONE, SIM_NONE, 1}});
    sim_plan_build(image);
    assert_true(steps(image, 0, 5, 20) > 20);
    const SimNow *now = node_at(image, 1, 25);
    assert_true(now->proc_count == 0 && now->win[SIM_CH_KERNEL] == 0);
    for (uint32_t g = 0; g < RANKS; g++) {
        assert_true(steps(image, g, 20.1, 60) < 1e-9);
        if (g == 1)
            continue;
        now = node_at(image, g, 25);
        assert_int_equal(now->proc_count, 1);
        assert_true(fabs(now->win[SIM_CH_KERNEL] - 1) < 1e-9 && now->win[SIM_CH_SM] < 0.2);
        assert_true(now->watt_mean < 250);
    }
    /* it comes back: all go on */
    node_step(image, 70);
    node_do(image, (SimOp){.type = SIM_OP_WORK_START, .gpu = SIM_NONE, .a = {1}});
    for (uint32_t g = 0; g < RANKS; g++)
        assert_true(steps(image, g, 75, 95) > 20);
    sim_image_close(image);
}

static void a_leak_ends_in_a_death(void **state)
{
    (void)state;
    SimImage *image = node_of("t4", 1);
    const double room = image->boards[0].memory_mib - image->boards[0].reserved_mib;
    int32_t keeper =
        node_work(image, (NodeWork){.kind = "decode", .gpu = 0, .mig = SIM_NONE, .job = SIM_NONE, .memory_mib = 4000});
    int32_t leaker = node_work(
        image,
        (NodeWork){
            .kind = "leak", .gpu = 0, .mig = SIM_NONE, .job = SIM_NONE, .memory_mib = 1000, .leak_mib_per_s = 100});
    node_op(image, 0, (SimOp){.type = SIM_OP_WORK_START, .gpu = SIM_NONE, .a = {keeper}});
    node_op(image, 1, (SimOp){.type = SIM_OP_WORK_START, .gpu = SIM_NONE, .a = {leaker}});
    sim_plan_build(image);
    double death = 1 + (room - 5000) / 100;
    const SimNow *now = node_at(image, 0, 11);
    assert_true(fabs(now->used_mib - 6000) < 2.1); /* as of the tick */
    now = node_at(image, 0, death - 0.05);
    assert_int_equal(now->proc_count, 2);
    assert_true(now->used_mib > room - 20 && now->used_mib <= room);
    assert_true(now->proc[1].peak_mib >= now->proc[1].mem_mib);
    now = node_at(image, 0, death + 0.05);
    assert_int_equal(now->proc_count, 1);
    assert_int_equal(now->proc[0].work, keeper);
    assert_true(fabs(now->used_mib - 4000) < 1e-6);
    /* it can start again */
    node_step(image, death + 10);
    node_do(image, (SimOp){.type = SIM_OP_WORK_START, .gpu = SIM_NONE, .a = {leaker}});
    node_step(image, 10);
    assert_true(fabs(sim_state_now(image, 0)->used_mib - 6000) < 2.1);
    sim_image_close(image);
}

static void processes_have_integrals_of_their_own(void **state)
{
    (void)state;
    SimImage *image = node_of("h100-sxm-80gb", 1);
    int32_t a = node_run(image, "train", 0), b = node_run(image, "quantized", 0);
    node_op(image, 10, (SimOp){.type = SIM_OP_WORK_STOP, .gpu = SIM_NONE, .a = {a}});
    node_op(image, 12, (SimOp){.type = SIM_OP_WORK_START, .gpu = SIM_NONE, .a = {a}});
    sim_plan_build(image);
    for (double t = 0.5; t < 20; t += 0.77) {
        const SimNow *now = node_at(image, 0, t);
        double sum = 0;
        for (uint32_t i = 0; i < now->proc_count; i++)
            sum += now->proc[i].cum[SIM_CH_SM];
        assert_true(sum <= now->cum[SIM_CH_SM] * (1 + 1e-9));
        if (t < 10)
            assert_true(fabs(sum - now->cum[SIM_CH_SM]) < 1e-6);
        for (uint32_t i = 0; i < now->proc_count; i++)
            if (now->proc[i].work == a)
                assert_int_equal(now->proc[i].started_ns, t < 10 ? 0 : 12 * SIM_NS);
    }
    assert_int_equal(sim_work_pid(image, b), image->works[b].fixed_pid);
    sim_work_lend_pid(image, b, 4242);
    assert_int_equal(sim_work_pid(image, b), 4242);
    sim_work_lend_pid(image, b, 0);
    assert_int_equal(sim_work_pid(image, b), image->works[b].fixed_pid);
    assert_int_equal(sim_work_pid(image, SIM_NONE), 0);
    assert_int_equal(sim_work_pid(image, SIM_WORK_MAX), 0);
    sim_image_close(image);
}

/* Works on MIG devices: each has its instance, integrals of an instance are relative to it, destroying it ends them. */
static void instances_have_integrals_of_their_own(void **state)
{
    (void)state;
    SimImage *image = node_of("h100-sxm-80gb", 1);
    node_op(image, 0, (SimOp){.type = SIM_OP_MIG_MODE, .gpu = 0, .a = {1}});
    for (int32_t i = 0; i < 2; i++) /* 3g and 2g */
        node_op(image, 0, (SimOp){.type = SIM_OP_GI_CREATE, .gpu = 0, .a = {4 - i, SIM_NONE}});
    sim_plan_build(image);
    node_step(image, 0.001);
    const SimCond *cond = &sim_state_now(image, 0)->cond;
    int32_t gi[2] = {(int32_t)cond->gi[0].id, (int32_t)cond->gi[1].id}, work[2];
    for (int i = 0; i < 2; i++) {
        node_do(image, (SimOp){.type = SIM_OP_CI_CREATE, .gpu = 0, .a = {gi[i], i ? 1 : 2, SIM_NONE}});
    }
    SimWork w = {.gpu = 0, .job = SIM_NONE, .slow = 1, .memory_mib = 100, .kind = "burn"};
    assert_int_equal(sim_kind_fill(&w, &image->boards[0], &(SimKindParam){.ranks = 1}), 0);
    for (int i = 0; i < 2; i++) {
        w.mig = i;
        work[i] = sim_work_add(image, &w);
        node_do(image, (SimOp){.type = SIM_OP_WORK_START, .gpu = SIM_NONE, .a = {work[i]}});
    }
    node_step(image, 10);
    const SimNow *now = sim_state_now(image, 0);
    assert_int_equal(now->proc_count, 2);
    double share = (double)(now->cond.ci[0].sm + now->cond.ci[1].sm) / image->boards[0].sm_count;
    assert_true(fabs(now->act[SIM_CH_KERNEL] - share) < 1e-6);
    uint64_t t = sim_clock_now(image);
    for (int i = 0; i < 2; i++) {
        double cum[SIM_CH_COUNT];
        sim_gi_cum_at(image, 0, (uint32_t)gi[i], t, cum);
        assert_true(fabs(cum[SIM_CH_KERNEL] - 10) < 1e-3);
    }
    node_do(image,
            (SimOp){.type = SIM_OP_CI_DESTROY, .gpu = 0, .a = {gi[0], 0}}); /* a fault, not a client: not refused */
    now = sim_state_now(image, 0);
    assert_true(now->proc_count == 1 && now->proc[0].gi == gi[1]);
    node_do(image, (SimOp){.type = SIM_OP_GI_DESTROY, .gpu = 0, .a = {gi[1]}});
    assert_int_equal(sim_state_now(image, 0)->proc_count, 0);
    sim_image_close(image);
}

/* Two works on one MIG device take turns on its SMs and share its memory; those next door notice nothing. */
static void one_instance_is_shared(void **state)
{
    (void)state;
    SimImage *image = node_of("h100-sxm-80gb", 1);
    node_op(image, 0, (SimOp){.type = SIM_OP_MIG_MODE, .gpu = 0, .a = {1}});
    for (int32_t i = 0; i < 2; i++) /* two 3g */
        node_op(image, 0, (SimOp){.type = SIM_OP_GI_CREATE, .gpu = 0, .a = {4, SIM_NONE}});
    NodeWork work = {.kind = "decode", .gpu = 0, .job = SIM_NONE, .memory_mib = 1000};
    int32_t two[2] = {node_work(image, work), node_work(image, work)};
    work.mig = 1;
    int32_t alone = node_work(image, work);
    work = (NodeWork){.kind = "leak", .gpu = 0, .mig = 0, .job = SIM_NONE, .memory_mib = 500, .leak_mib_per_s = 100};
    int32_t leaker = node_work(image, work);
    sim_plan_build(image);
    node_step(image, 0.001);
    const SimCond *cond = &sim_state_now(image, 0)->cond;
    const SimProfile *profile = &image->boards[0].profiles[cond->gi[0].profile];
    uint32_t ids[2] = {cond->gi[0].id, cond->gi[1].id};
    for (int i = 0; i < 2; i++)
        node_do(image, (SimOp){.type = SIM_OP_CI_CREATE, .gpu = 0, .a = {(int32_t)ids[i], 2, SIM_NONE}});
    for (int i = 0; i < 2; i++)
        node_do(image, (SimOp){.type = SIM_OP_WORK_START, .gpu = SIM_NONE, .a = {two[i]}});
    node_do(image, (SimOp){.type = SIM_OP_WORK_START, .gpu = SIM_NONE, .a = {alone}});
    node_step(image, 20);
    const SimNow *now = sim_state_now(image, 0);
    assert_int_equal(now->proc_count, 3);
    double first = now->proc[0].cum[SIM_CH_STEPS], second = now->proc[1].cum[SIM_CH_STEPS];
    double free_run = now->proc[2].cum[SIM_CH_STEPS];
    assert_true(fabs(first - second) < 1.01 && first < free_run * 0.56 && first > free_run * 0.44);
    double shared = now->proc[0].cum[SIM_CH_KERNEL] + now->proc[1].cum[SIM_CH_KERNEL];
    assert_true(shared <= 20.01 * profile->sm / image->boards[0].sm_count);
    /* the leak fills its instance, not the GPU */
    node_do(image, (SimOp){.type = SIM_OP_WORK_START, .gpu = SIM_NONE, .a = {leaker}});
    double death = (profile->memory_mib - 2500.0) / 100;
    node_step(image, death - 0.1);
    assert_int_equal(sim_state_now(image, 0)->proc_count, 4);
    node_step(image, 0.2);
    assert_int_equal(sim_state_now(image, 0)->proc_count, 3);
    sim_image_close(image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_wait_for_the_slowest),
        cmocka_unit_test(a_slow_gpu_slows_the_job),
        cmocka_unit_test(ranks_hang_when_one_dies),
        cmocka_unit_test(a_leak_ends_in_a_death),
        cmocka_unit_test(processes_have_integrals_of_their_own),
        cmocka_unit_test(instances_have_integrals_of_their_own),
        cmocka_unit_test(one_instance_is_shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
