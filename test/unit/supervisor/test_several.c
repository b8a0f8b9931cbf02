/* SPDX-License-Identifier: Apache-2.0 */
/* Several GPUs that hang at once, and GPUs that hang as a sampler attaches to them: nobody waits for them. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "world.h"

static World w;

static int set_up(void **state)
{
    (void)state;
    world_init(&w, 8);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    world_done(&w);
    return 0;
}

/* One sampler has all GPUs, and all are up. */
static void assert_healthy(uint32_t gpus)
{
    assert_int_equal(world_running(&w), 1);
    for (uint32_t i = 0; i < gpus; i++) {
        assert_int_equal(world_gpu(&w, i)->state, GPU_UP);
        assert_false(world_gpu(&w, i)->own_sampler);
    }
}

/* What a user sees of several GPUs that hang at once: the healthy ones without a sample for `gap` at most, and the hung
 * ones neither up nor without a reason. */
static void watch_hangs(uint32_t gpus, uint64_t hung, uint64_t ns, uint64_t gap_ns)
{
    for (uint64_t end = w.now_ns + ns; w.now_ns < end;) {
        world_step(&w);
        for (uint32_t i = 0; i < gpus; i++) {
            const NodeGpu *gpu = world_gpu(&w, i);
            const uint64_t age = board_at(w.board, w.now_ns) - atomic_load(&w.board->gpus[i].last_sample_ns);

            if (!(hung >> i & 1) && (age > gap_ns || gpu->state != GPU_UP))
                fail_msg("GPU %u is %s, its last sample %u ms old", i, gpu_states[gpu->state].key,
                         (unsigned)(age / NS_PER_MS));
            if (hung >> i & 1 && age > 2100 * NS_PER_MS) {
                if (gpu->state == GPU_UP || !gpu->why[0])
                    fail_msg("GPU %u is %s, without a sample for %u ms: %s", i, gpu_states[gpu->state].key,
                             (unsigned)(age / NS_PER_MS), gpu->why);
            }
        }
    }
}

static void several_that_hang_at_once_do_not_starve_the_others(void **state)
{
    const uint64_t hung = 1U << 1 | 1U << 3 | 1U << 5;

    (void)state;
    w.attach_ms = 3000;
    world_run(&w, NS_PER_S);
    for (uint32_t i = 0; i < 8; i++)
        w.gpus[i].hangs = hung >> i & 1;
    watch_hangs(8, hung, 5 * NS_PER_S, NS_PER_S);
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(world_gpu(&w, i)->state, hung >> i & 1 ? GPU_HUNG : GPU_UP);
    assert_int_equal(w.starts, 2 + 6); /* one that keeps a hung one, then one for each other */
    watch_hangs(8, hung, 30 * NS_PER_S, NS_PER_S);
    assert_false(world_gpu(&w, 0)->own_sampler); /* the healthy ones are together again */
    assert_int_equal(world_owner(&w, 0), world_owner(&w, 7));
    for (uint32_t i = 0; i < 8; i++)
        w.gpus[i].hangs = false;
    world_run(&w, 2 * NS_PER_MIN);
    assert_healthy(8);
}

static void assert_all_hung(uint32_t gpus)
{
    for (uint32_t i = 0; i < gpus; i++) {
        assert_int_equal(world_gpu(&w, i)->state, GPU_HUNG);
        world_assert_why(&w, i, " return");
    }
}

static void eight_of_eight_that_hang_are_named_within_five_seconds(void **state)
{
    (void)state;
    w.attach_ms = 3000;
    world_run(&w, NS_PER_S);
    for (uint32_t i = 0; i < 8; i++) { /* within a second, as a person would do it */
        w.gpus[i].hangs = true;
        world_run(&w, 100 * NS_PER_MS);
    }
    world_run(&w, 5 * NS_PER_S - 100 * NS_PER_MS);
    assert_all_hung(8);
    for (uint32_t i = 0; i < 8; i++)
        w.gpus[i].hangs = false;
    world_run(&w, 3 * NS_PER_MIN);
    assert_healthy(8);
}

static void eight_that_hang_from_the_start_are_named_within_five_seconds(void **state)
{
    (void)state;
    w.attach_ms = 3000;
    w.init_hangs = w.init_hangs_attaching = true;
    for (uint32_t i = 0; i < 8; i++)
        w.gpus[i].hangs = true;
    world_run(&w, 5 * NS_PER_S);
    assert_all_hung(8);
}

static void one_that_attaches_slowly_comes_back_to_the_others_soon(void **state)
{
    (void)state;
    w.attach_ms = 3000;
    w.gpus[1].hangs = true;
    world_run(&w, NS_PER_S);
    assert_int_equal(world_gpu(&w, 0)->state, GPU_UP);
    assert_int_equal(world_gpu(&w, 1)->state, GPU_STARTING);
    assert_int_equal(world_gpu(&w, 7)->state, GPU_UP);
    world_assert_why(&w, 1, "not sampled yet; nvmlDeviceGetHandleByPciBusId_v2 has not returned for ");
    w.gpus[1].hangs = false;
    world_run(&w, 5 * NS_PER_S); /* not the minute of one that hung */
    assert_healthy(8);
    assert_int_equal(world_gpu(&w, 1)->missed_calls, 0);
    assert_int_equal(w.kills, 0);
}

/* As a check of the InfoROM, which is given longer than others: nobody else waits for it. */
static void a_long_call_keeps_no_other_gpu(void **state)
{
    (void)state;
    world_run(&w, NS_PER_S);
    atomic_store(&w.board->samplers[world_owner(&w, 0)].call_limit_ms, 3000);
    w.gpus[0].hangs = true;
    watch_hangs(8, 1, 2900 * NS_PER_MS, 700 * NS_PER_MS);
    assert_int_equal(w.starts, 2);
    assert_int_equal(world_owner(&w, 1), world_owner(&w, 7));
    w.gpus[0].hangs = false;
    world_run(&w, 5 * NS_PER_S);
    assert_healthy(8);
}

/* One whose calls return late is given longer, but is no more up without samples than another. */
static void a_slow_one_without_samples_is_not_up(void **state)
{
    (void)state;
    world_run(&w, NS_PER_S);
    w.gpus[2].hangs = true;
    world_run(&w, 4 * NS_PER_S);
    w.gpus[2].hangs = false;
    world_until(&w, 2, GPU_UP, NS_PER_S);
    w.gpus[2].hangs = true;
    world_run(&w, 2900 * NS_PER_MS);
    assert_int_equal(world_gpu(&w, 2)->state, GPU_UP);
    world_run(&w, 300 * NS_PER_MS);
    assert_int_equal(world_gpu(&w, 2)->state, GPU_STARTING);
    world_assert_why(&w, 2, "no sample for 3 s; nvmlDeviceGetPowerUsage has not returned for 3 s");
    world_run(&w, 2500 * NS_PER_MS);
    assert_int_equal(world_gpu(&w, 2)->state, GPU_HUNG);
}

/* A sampler that neither hangs nor gets anywhere. */
static void a_gpu_without_samples_is_not_up(void **state)
{
    (void)state;
    world_run(&w, NS_PER_S);
    const uint64_t last = atomic_load(&w.board->gpus[0].last_sample_ns);
    w.processes[world_owner(&w, 0)].stopped = true;
    for (int i = 0; i < 70; i++) { /* 3.5 s */
        atomic_store(&w.board->samplers[world_owner(&w, 0)].beat_ns, w.now_ns);
        world_step(&w);
        assert_int_equal(world_gpu(&w, 0)->state,
                         board_at(w.board, w.now_ns) - last > 3 * NS_PER_S ? GPU_STARTING : GPU_UP);
    }
    world_assert_why(&w, 0, "no sample for 3 s");
    w.processes[world_owner(&w, 0)].stopped = false;
    world_run(&w, 100 * NS_PER_MS);
    assert_healthy(8);
}

int main(void)
{
#define RULE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        RULE(several_that_hang_at_once_do_not_starve_the_others),
        RULE(eight_of_eight_that_hang_are_named_within_five_seconds),
        RULE(eight_that_hang_from_the_start_are_named_within_five_seconds),
        RULE(one_that_attaches_slowly_comes_back_to_the_others_soon),
        RULE(a_long_call_keeps_no_other_gpu),
        RULE(a_slow_one_without_samples_is_not_up),
        RULE(a_gpu_without_samples_is_not_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
