/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor under random trouble, step by step. After every step world.c asserts that no GPU is held by two
 * samplers or by one that was killed; whenever all trouble ends, all must become as on a healthy node again.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "world.h"
#include "../slow.h"

enum { GPUS = 6, ROUNDS = 40 / TEST_SLOW, STEPS = 8000 };

static World w;
static unsigned seed;

static uint32_t pick(uint32_t n)
{
    return (uint32_t)rand_r(&seed) % n;
}

static void kill_one(void)
{
    uint32_t slot = pick(8);

    if (w.processes[slot].call_gpu >= GPUS) /* not hanging: ends at once, and no socket tells */
        w.processes[slot].running = false;
}

static void trouble(uint64_t *bus)
{
    uint32_t gpu = pick(GPUS);

    switch (pick(13)) {
    case 0:
    case 1:
        w.gpus[gpu].hangs = true;
        w.gpus[gpu].unkillable = pick(4) == 0;
        break;
    case 2:
    case 3:
    case 4:
        w.gpus[gpu].hangs = false;
        break;
    case 5:
        kill_one();
        break;
    case 6:
        w.processes[pick(8)].stopped = pick(2);
        break;
    case 7:
        *bus ^= UINT64_C(1) << gpu;
        world_bus(&w, *bus);
        break;
    case 8:
        w.init_hangs = pick(4) == 0;
        w.init_unkillable = pick(4) == 0;
        break;
    case 9:
        supervisor_release(w.supervisor, board_at(w.board, w.now_ns) + pick(20) * NS_PER_S);
        break;
    case 10:
        w.gpus[gpu].outcome = pick(BOARD_REFUSED) + 1;
        break;
    case 11:
        w.probe_hangs = pick(4) == 0;
        w.probe_unkillable = pick(4) == 0;
        w.probe_stopped = pick(8) == 0;
        w.probe_crashes = pick(4) == 0;
        w.probe_says = (BoardDriver)(1 + pick(BOARD_DRIVER_RELEASED));
        w.probe_trouble = (NodeDriver)pick(NODE_DRIVER_END + 1);
        break;
    default:
        w.start_fails = pick(8) == 0;
        w.crashes = pick(12) == 0;
        w.init_fails = pick(8) == 0;
        w.deaf = pick(4) == 0;
        w.mute = pick(2) == 0;
    }
}

static void heal(void)
{
    for (uint32_t i = 0; i < GPUS; i++)
        w.gpus[i] = (WorldGpu){.outcome = BOARD_FINE};
    for (uint32_t i = 0; i < NODE_SAMPLERS_MAX; i++)
        w.processes[i].stopped = false;
    w.probe_hangs = w.probe_unkillable = w.probe_stopped = w.probe_crashes = false;
    w.probe_says = BOARD_DRIVER_RELEASED;
    w.init_hangs = w.init_fails = w.crashes = w.start_fails = w.deaf = w.mute = false;
    supervisor_release(w.supervisor, 0);
    world_bus(&w, (1 << GPUS) - 1);
}

static void assert_healthy(void)
{
    for (uint32_t i = 0; i < GPUS; i++) {
        const NodeGpu *gpu = world_gpu(&w, i);

        if (gpu->state != GPU_UP || gpu->own_sampler)
            fail_msg("GPU %u is %s: %s", i, gpu_states[gpu->state].key, gpu->why);
    }
    assert_int_equal(world_running(&w), 1);
    assert_int_equal(supervisor_view(w.supervisor)->probe.driver, NODE_DRIVER_FINE);
    assert_int_equal(supervisor_view(w.supervisor)->probe.count, 0);
}

static void random_trouble_passes(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint64_t bus = (1 << GPUS) - 1;
        uint32_t calm = 1 + pick(200);

        seed = round + 1;
        w.probe_ns = pick(3) * 10 * NS_PER_S;
        world_init(&w, GPUS);
        for (uint32_t i = 0; i < STEPS; i++) {
            if (pick(calm) == 0)
                trouble(&bus);
            world_step(&w);
        }
        assert_true(w.starts < STEPS / 10); /* 400 s: not in a busy loop */
        heal();
        world_run(&w, 10 * NS_PER_MIN);
        assert_healthy();
        world_done(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_trouble_passes)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
