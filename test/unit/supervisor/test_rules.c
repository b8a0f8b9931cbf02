/* SPDX-License-Identifier: Apache-2.0 */
/* Each rule of the supervisor (source/sampler/supervisor.h), on made-up processes and a made-up clock. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "world.h"

static World w;

static int set_up(void **state)
{
    (void)state;
    world_init(&w, 4);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    world_done(&w);
    return 0;
}

static void assert_driver(NodeDriver driver, int32_t code)
{
    assert_int_equal(supervisor_view(w.supervisor)->driver, driver);
    assert_int_equal(supervisor_view(w.supervisor)->driver_code, code);
}

static void assert_trouble(uint32_t gpu, GpuTrouble trouble, int32_t code)
{
    assert_int_equal(world_gpu(&w, gpu)->trouble, trouble);
    assert_int_equal(world_gpu(&w, gpu)->code, code);
}

/* Everything is as on a healthy node: one sampler, all GPUs with it. */
static void assert_healthy(uint32_t gpus)
{
    assert_int_equal(world_running(&w), 1);
    for (uint32_t i = 0; i < gpus; i++) {
        assert_int_equal(world_gpu(&w, i)->state, GPU_UP);
        assert_false(world_gpu(&w, i)->own_sampler);
        assert_int_equal(world_owner(&w, i), world_owner(&w, 0));
        assert_string_equal(world_gpu(&w, i)->why, "");
    }
    assert_string_equal(supervisor_view(w.supervisor)->driver_why, "");
    assert_driver(NODE_DRIVER_FINE, 0);
    for (uint32_t i = 0; i < gpus; i++)
        assert_trouble(i, GPU_TROUBLE_NONE, 0);
}

/* ---- the shared sampler ---- */

static void one_sampler_has_all_gpus(void **state)
{
    (void)state;
    assert_int_equal(w.starts, 0);
    assert_int_equal(world_gpu(&w, 3)->state, GPU_STARTING);
    world_step(&w);
    assert_int_equal(w.starts, 1);
    assert_false(w.processes[world_owner(&w, 0)].no_attach);
    assert_int_equal(world_in_state(&w, SAMPLER_STARTING), 1);
    world_run(&w, 200 * NS_PER_MS);
    assert_healthy(4);
    assert_int_equal(world_sampler(&w, SAMPLER_RUNNING)->gpu_count, 4);
    assert_true(world_gpu(&w, 0)->state_since_ns >= 5 * NS_PER_S);
    assert_true(world_gpu(&w, 0)->state_since_ns < 6 * NS_PER_S);
    world_run(&w, NS_PER_H);
    assert_int_equal(w.starts, 1);
    assert_int_equal(w.kills, 0);
}

static void a_dead_one_is_replaced_at_once(void **state)
{
    (void)state;
    world_run(&w, 2 * NS_PER_MIN);
    w.processes[world_owner(&w, 0)].running = false;
    supervisor_note_close(w.supervisor, world_owner(&w, 0));
    supervisor_pass(w.supervisor);
    assert_int_equal(w.starts, 2);
    world_run(&w, NS_PER_S);
    assert_healthy(4);

    w.mute = true; /* its end is found without the socket too */
    world_run(&w, 2 * NS_PER_MIN);
    w.processes[world_owner(&w, 0)].running = false;
    world_run(&w, NS_PER_S);
    assert_int_equal(w.starts, 3);
    assert_healthy(4);
}

static void one_that_closes_its_socket_is_as_good_as_dead(void **state)
{
    (void)state;
    world_run(&w, 2 * NS_PER_MIN);
    supervisor_note_close(w.supervisor, world_owner(&w, 0));
    supervisor_pass(w.supervisor);
    assert_int_equal(w.starts, 2);
    assert_int_equal(w.kills, 0); /* it may be about to end: how, is worth knowing */
    world_run(&w, NS_PER_S);
    assert_int_equal(w.kills, 0);
    assert_true(world_logged(&w, "Sampler 101 ended unexpectedly."));
    assert_healthy(4);

    w.deaf = true;
    supervisor_note_close(w.supervisor, world_owner(&w, 0));
    world_run(&w, NS_PER_S);
    assert_int_equal(w.kills, 1);
    assert_true(world_logged(&w, "Sampler 102 closed its socket and does not end; it is killed."));
    assert_healthy(4);
}

static void one_that_always_dies_is_started_ever_less(void **state)
{
    (void)state;
    w.crashes = true;
    world_run(&w, NS_PER_MIN);
    assert_in_range(w.starts, 8, 10); /* 0 0 0 0 1 3 7 15 31 */
    world_until(&w, 0, GPU_FAILED, NS_PER_S);
    world_assert_why(&w, 0, "times in a row; next try in ");
    w.starts = 0;
    world_run(&w, 10 * NS_PER_MIN);
    assert_in_range(w.starts, 9, 11);
    assert_true(world_logged(&w, "ended unexpectedly"));
    w.crashes = false;
    world_run(&w, 70 * NS_PER_S);
    assert_healthy(4);
}

/* The shared sampler is ended from outside, and found to be so with its socket or without. */
static void end_shared(bool socket_first)
{
    const uint32_t slot = world_owner(&w, 0);

    if (socket_first) {
        supervisor_note_close(w.supervisor, slot);
        supervisor_pass(w.supervisor);
    }
    w.processes[slot].running = false;
    world_step(&w);
}

/* Whoever kills a sampler takes the driver's blame: no number is older than a period, and the log says what it was. */
static void one_that_is_killed_costs_no_period(void **state)
{
    (void)state;
    world_run(&w, 2 * NS_PER_S);
    w.end = (SubprocEnd){.signal = SIGKILL};
    for (uint32_t turn = 0; turn < 60; turn++) { /* every ten seconds, and three times at once */
        for (uint32_t i = 0; i < (turn == 0 ? 3 : 1); i++) {
            const uint64_t last = atomic_load(&w.board->gpus[3].last_sample_ns);

            end_shared(turn % 2);
            world_run(&w, 200 * NS_PER_MS);
            assert_int_equal(world_gpu(&w, 3)->state, GPU_UP);
            assert_true(atomic_load(&w.board->gpus[3].last_sample_ns) - last < 500 * NS_PER_MS);
        }
        world_run(&w, 10 * NS_PER_S);
    }
    assert_true(world_logged(&w, "ended unexpectedly: killed by signal 9 (Killed)."));
    assert_false(world_logged(&w, "driver"));
    assert_int_equal(w.kills, 0);
    assert_healthy(4);
}

static void killed_again_and_again_it_waits_and_the_log_says_so(void **state)
{
    (void)state;
    world_run(&w, NS_PER_S);
    w.end = (SubprocEnd){.signal = SIGKILL};
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(world_gpu(&w, 3)->state, GPU_UP);
        end_shared(true);
    }
    assert_int_equal(world_gpu(&w, 3)->state, GPU_FAILED);
    world_assert_why(&w, 3, "the sampler ended 4 times in a row; next try in ");
    assert_trouble(3, GPU_TROUBLE_NO_SAMPLER, 0);
    assert_true(world_logged(&w, "no sampler runs for it"));
    assert_false(world_logged(&w, "driver"));
    world_run(&w, 2 * NS_PER_S);
    assert_healthy(4);
}

static void what_may_have_ended_it_is_said(void **state)
{
    (void)state;
    world_run(&w, NS_PER_S);
    w.end = (SubprocEnd){.signal = SIGSEGV};
    w.crash_gpu = 1;
    world_run(&w, 100 * NS_PER_MS);
    assert_true(world_logged(&w, "killed by signal 11 (Segmentation fault), in nvmlDeviceGetPowerUsage."));
    w.end = (SubprocEnd){.exited = true, .exit_code = 3};
    w.crash_gpu = UINT32_MAX;
    world_run(&w, 5 * NS_PER_S);
    end_shared(true);
    world_step(&w);
    assert_true(world_logged(&w, "ended unexpectedly: exit code 3."));
}

static void no_process_can_be_started(void **state)
{
    (void)state;
    w.start_fails = true;
    world_run(&w, NS_PER_MIN);
    assert_int_equal(world_gpu(&w, 2)->state, GPU_FAILED);
    world_assert_why(&w, 2, "no more processes");
    assert_non_null(strstr(supervisor_view(w.supervisor)->driver_why, "could not be started"));
    assert_driver(NODE_DRIVER_NO_SAMPLER, 0);
    assert_in_range(w.log_count, 5, 15);
    w.start_fails = false;
    world_run(&w, 70 * NS_PER_S);
    assert_healthy(4);
}

static void a_stopped_one_is_killed_and_replaced(void **state)
{
    uint32_t slot;

    (void)state;
    world_run(&w, 2 * NS_PER_MIN);
    slot = world_owner(&w, 0);
    w.processes[slot].stopped = true;
    world_run(&w, 3 * NS_PER_S);
    assert_int_equal(w.kills, 1);
    assert_false(w.processes[slot].running && w.processes[slot].pid == 101);
    assert_int_equal(w.starts, 2);
    assert_healthy(4);
}

static void a_machine_that_stood_still_hangs_nobody(void **state)
{
    (void)state;
    world_run(&w, NS_PER_S);
    w.gpus[1].hangs = true;
    world_step(&w);
    w.now_ns += NS_PER_MIN; /* all was stopped, with a call in progress */
    w.gpus[1].hangs = false;
    supervisor_pass(w.supervisor);
    world_run(&w, NS_PER_S);
    assert_int_equal(w.kills, 0);
    assert_int_equal(world_gpu(&w, 1)->missed_calls, 0);
    assert_healthy(4);
}

/* ---- one GPU hangs ---- */

static void a_hang_isolates_its_gpu_in_the_same_turn(void **state)
{
    uint32_t old;
    uint64_t took;

    (void)state;
    world_run(&w, NS_PER_S);
    old = world_owner(&w, 0);
    w.gpus[2].hangs = true;
    took = world_until(&w, 2, GPU_HUNG, NS_PER_S);
    assert_in_range(took, 500 * NS_PER_MS, 650 * NS_PER_MS);
    /* in this very turn: */
    assert_int_equal(world_owner(&w, 2), old);
    assert_int_equal(w.starts, 2);
    for (uint32_t i = 0; i < 4; i++)
        if (i != 2) {
            assert_int_not_equal(world_owner(&w, i), old);
            assert_int_equal(world_owner(&w, i), world_owner(&w, 0));
            assert_int_equal(world_gpu(&w, i)->state, GPU_UP);
            assert_false(world_gpu(&w, i)->own_sampler);
        }
    assert_true(w.processes[world_owner(&w, 0)].no_attach);
    assert_true(world_gpu(&w, 2)->own_sampler);
    assert_int_equal(world_gpu(&w, 2)->missed_calls, 1);
    world_assert_why(&w, 2, "nvmlDeviceGetPowerUsage has not returned for 500 ms");
    assert_string_equal(world_sampler(&w, SAMPLER_STUCK)->gpu, "00000000:12:00.0");
    assert_string_equal(world_sampler(&w, SAMPLER_STUCK)->function, "nvmlDeviceGetPowerUsage");
    assert_string_equal(world_sampler(&w, SAMPLER_STUCK)->wchan, "nv_wait_forever");
    world_run(&w, 2500 * NS_PER_MS);
    world_assert_why(&w, 2, "nvmlDeviceGetPowerUsage has not returned for 3 s");
    assert_int_equal(w.kills, 0);
}

static void a_call_with_a_longer_limit_is_given_it(void **state)
{
    uint32_t slot;

    (void)state;
    world_run(&w, NS_PER_S);
    slot = world_owner(&w, 0);
    atomic_store(&w.board->samplers[slot].call_limit_ms, 3000);
    w.gpus[0].hangs = true;
    assert_in_range(world_until(&w, 0, GPU_HUNG, 5 * NS_PER_S), 3 * NS_PER_S, 3200 * NS_PER_MS);
}

static void a_call_that_returns_keeps_its_own_sampler_and_rejoins(void **state)
{
    uint32_t own;

    (void)state;
    world_run(&w, NS_PER_S);
    w.gpus[2].hangs = true;
    world_until(&w, 2, GPU_HUNG, NS_PER_S);
    own = world_owner(&w, 2);
    world_run(&w, 2 * NS_PER_S);
    w.gpus[2].hangs = false;
    world_until(&w, 2, GPU_UP, 200 * NS_PER_MS);
    assert_int_equal(w.kills, 0);
    assert_int_equal(world_owner(&w, 2), own);
    assert_true(world_gpu(&w, 2)->own_sampler);
    world_run(&w, 59 * NS_PER_S);
    assert_true(world_gpu(&w, 2)->own_sampler);
    assert_int_equal(world_running(&w), 2);
    world_run(&w, 2 * NS_PER_S);
    assert_healthy(4);
    assert_int_equal(w.kills, 0); /* its sampler ended by itself */
    assert_int_equal(w.starts, 2);
    world_run(&w, 2 * NS_PER_S);
    w.processes[world_owner(&w, 0)].running = false; /* all is forgotten: the next one attaches as the first did */
    world_run(&w, NS_PER_S);
    assert_false(w.processes[world_owner(&w, 0)].no_attach);
}

/* Each call about the GPU takes so long, for so many calls. */
static void calls_take(uint32_t gpu, uint64_t ns, uint32_t calls)
{
    for (uint32_t i = 0; i < calls; i++) {
        w.gpus[gpu].hangs = true;
        world_run(&w, ns);
        w.gpus[gpu].hangs = false;
        world_step(&w);
    }
}

static void a_slow_one_is_not_hung_again_and_again(void **state)
{
    uint64_t since, missed;
    uint32_t lines;

    (void)state;
    world_run(&w, NS_PER_S);
    calls_take(2, 1500 * NS_PER_MS, 1);
    world_run(&w, 100 * NS_PER_MS);
    assert_int_equal(world_gpu(&w, 2)->state, GPU_UP);
    assert_true(world_gpu(&w, 2)->own_sampler);
    world_assert_why(&w, 2, "took as long as 1 s");
    assert_true(world_logged(&w, "is slow: "));
    since = world_gpu(&w, 2)->state_since_ns;
    missed = world_gpu(&w, 2)->missed_calls;
    lines = w.log_count;
    for (uint32_t i = 0; i < 200; i++) {
        calls_take(2, 1500 * NS_PER_MS, 1);
        assert_int_equal(world_gpu(&w, 2)->state, GPU_UP);
        assert_true(world_gpu(&w, 2)->own_sampler);
    }
    assert_int_equal(world_gpu(&w, 2)->state_since_ns, since);
    assert_int_equal(world_gpu(&w, 2)->missed_calls, missed + 200); /* each is counted */
    assert_int_equal(w.log_count, lines);
    assert_int_equal(w.kills, 0);
    assert_int_equal(w.starts, 2);
    assert_int_equal(world_gpu(&w, 1)->missed_calls, 0);
    world_run(&w, 59 * NS_PER_S);
    assert_true(world_gpu(&w, 2)->own_sampler);
    world_run(&w, 2 * NS_PER_S);
    assert_healthy(4);

    w.gpus[2].hangs = true; /* all is forgotten */
    assert_in_range(world_until(&w, 2, GPU_HUNG, NS_PER_S), 500 * NS_PER_MS, 600 * NS_PER_MS);
}

static void a_slow_one_that_hangs_is_hung(void **state)
{
    (void)state;
    world_run(&w, NS_PER_S);
    calls_take(2, 1500 * NS_PER_MS, 2);
    w.gpus[2].hangs = true;
    assert_in_range(world_until(&w, 2, GPU_HUNG, 6 * NS_PER_S), 2900 * NS_PER_MS, 3300 * NS_PER_MS);
    world_run(&w, 5100 * NS_PER_MS);
    assert_int_equal(w.kills, 1);
    w.gpus[2].hangs = false;
    world_until(&w, 2, GPU_UP, 5 * NS_PER_S);
    w.gpus[2].hangs = true; /* what was killed was no slow one */
    assert_in_range(world_until(&w, 2, GPU_HUNG, NS_PER_S), 500 * NS_PER_MS, 600 * NS_PER_MS);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(world_gpu(&w, i)->state, i == 2 ? GPU_HUNG : GPU_UP);
}

static void one_that_is_slower_and_slower_is_given_as_long_as_it_may_take(void **state)
{
    (void)state;
    world_run(&w, NS_PER_S);
    calls_take(2, 1 * NS_PER_S, 1);
    calls_take(2, 1900 * NS_PER_MS, 1); /* below twice that: not hung */
    assert_int_equal(world_gpu(&w, 2)->state, GPU_UP);
    assert_int_equal(world_gpu(&w, 2)->missed_calls, 2);
    calls_take(2, 4 * NS_PER_S, 1); /* more than twice the first: hung, and back */
    world_run(&w, 100 * NS_PER_MS);
    assert_int_equal(world_gpu(&w, 2)->state, GPU_UP);
    w.gpus[2].hangs = true; /* never longer than what is killed */
    assert_in_range(world_until(&w, 2, GPU_HUNG, 10 * NS_PER_S), 5400 * NS_PER_MS, 5700 * NS_PER_MS);
}

static void all_gpus_may_be_slow(void **state)
{
    (void)state;
    world_run(&w, NS_PER_S);
    for (uint32_t turn = 0; turn < 40; turn++) {
        for (uint32_t i = 0; i < 4; i++)
            w.gpus[i].hangs = true;
        world_run(&w, 1500 * NS_PER_MS);
        for (uint32_t i = 0; i < 4; i++)
            w.gpus[i].hangs = false;
        world_run(&w, 150 * NS_PER_MS);
        for (uint32_t i = 0; turn > 4 && i < 4; i++)
            assert_int_equal(world_gpu(&w, i)->state, GPU_UP);
    }
    assert_int_equal(world_running(&w), 4);
    assert_int_equal(w.kills, 0);
    world_run(&w, 62 * NS_PER_S);
    assert_healthy(4);
}

static void a_single_gpu_rejoins_without_a_new_process(void **state)
{
    (void)state;
    world_bus(&w, 1);
    world_run(&w, NS_PER_S);
    w.gpus[0].hangs = true;
    world_until(&w, 0, GPU_HUNG, NS_PER_S);
    assert_int_equal(w.starts, 1);
    w.gpus[0].hangs = false;
    world_run(&w, 62 * NS_PER_S);
    assert_healthy(1);
    assert_int_equal(w.starts, 1);
}

static void a_deaf_one_is_killed_after_rejoining(void **state)
{
    (void)state;
    world_run(&w, NS_PER_S);
    w.gpus[2].hangs = true;
    world_until(&w, 2, GPU_HUNG, NS_PER_S);
    w.gpus[2].hangs = false;
    w.deaf = true;
    world_run(&w, 62 * NS_PER_S);
    assert_int_equal(w.kills, 1);
    assert_healthy(4);
}

static void a_stuck_one_is_killed_and_the_gpu_tried_again(void **state)
{
    uint64_t first;

    (void)state;
    world_run(&w, NS_PER_S);
    w.gpus[2].hangs = true;
    world_until(&w, 2, GPU_HUNG, NS_PER_S);
    world_run(&w, 4900 * NS_PER_MS);
    assert_int_equal(w.kills, 0);
    world_run(&w, 200 * NS_PER_MS);
    assert_int_equal(w.kills, 1);
    assert_int_equal(world_owner(&w, 2), BOARD_NO_SLOT);
    assert_int_equal(world_gpu(&w, 2)->state, GPU_HUNG);
    world_assert_why(&w, 2, "; next try in ");
    assert_int_equal(w.starts, 2);
    world_run(&w, 1100 * NS_PER_MS);
    assert_int_equal(w.starts, 3);
    assert_true(w.processes[world_owner(&w, 2)].no_attach);
    assert_int_equal(world_gpu(&w, 2)->state, GPU_HUNG);
    first = world_gpu(&w, 2)->state_since_ns;
    world_run(&w, 20 * NS_PER_S);
    assert_int_equal(world_gpu(&w, 2)->state_since_ns, first); /* hung all the time */
    w.gpus[2].hangs = false;
    world_until(&w, 2, GPU_UP, 20 * NS_PER_S);
    world_run(&w, 62 * NS_PER_S);
    assert_healthy(4);
}

static void tries_come_ever_less(void **state)
{
    (void)state;
    world_run(&w, NS_PER_S);
    w.gpus[2].hangs = true;
    world_run(&w, 2 * NS_PER_MIN); /* each try takes 5.5 s, then 1 2 4 8 16 32 s */
    assert_in_range(w.starts, 2 + 5, 2 + 7);
    w.starts = 0;
    world_run(&w, NS_PER_H);
    assert_in_range(w.starts, 3600 / 67, 3600 / 64);
    assert_int_equal(world_in_state(&w, SAMPLER_ABANDONED), 0);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(world_gpu(&w, i)->state, i == 2 ? GPU_HUNG : GPU_UP);
    assert_true(w.log_count < 150); /* two lines a minute at most */
}

static void one_that_does_not_end_is_abandoned_and_named(void **state)
{

    (void)state;
    world_run(&w, NS_PER_S);
    w.gpus[2].hangs = w.gpus[2].unkillable = true;
    world_until(&w, 2, GPU_HUNG, NS_PER_S);
    world_run(&w, 5100 * NS_PER_MS);
    assert_int_equal(world_in_state(&w, SAMPLER_KILLED), 1);
    world_run(&w, 2100 * NS_PER_MS);
    assert_int_equal(world_in_state(&w, SAMPLER_ABANDONED), 1);
    assert_string_equal(world_sampler(&w, SAMPLER_ABANDONED)->wchan, "nv_wait_forever");
    assert_string_equal(world_sampler(&w, SAMPLER_ABANDONED)->gpu, "00000000:12:00.0");
    assert_int_equal(supervisor_view(w.supervisor)->abandoned, 1);
    assert_true(world_logged(&w, "waits in nv_wait_forever"));
}

static void a_gpu_is_not_tried_for_ever(void **state)
{
    (void)state;
    world_run(&w, NS_PER_S);
    w.gpus[2].hangs = w.gpus[2].unkillable = true;
    world_run(&w, 10 * NS_PER_MIN);
    assert_int_equal(world_in_state(&w, SAMPLER_ABANDONED), 3);
    assert_int_equal(w.starts, 2 + 2);
    world_assert_why(&w, 2, "does not end on SIGKILL, it waits in nv_wait_forever");
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(world_gpu(&w, i)->state, i == 2 ? GPU_HUNG : GPU_UP);

    w.gpus[2].hangs = false; /* the calls come back, the processes end, their slots are free again */
    world_until(&w, 2, GPU_UP, 2 * NS_PER_S);
    assert_int_equal(world_in_state(&w, SAMPLER_ABANDONED), 0);
    assert_true(world_logged(&w, "has ended at last"));
    world_run(&w, 62 * NS_PER_S);
    assert_healthy(4);
}

static void all_gpus_may_hang_one_after_another(void **state)
{
    (void)state;
    world_run(&w, NS_PER_S);
    for (uint32_t i = 0; i < 4; i++) {
        w.gpus[i].hangs = true;
        world_until(&w, i, GPU_HUNG, NS_PER_S);
        for (uint32_t k = i + 1; k < 4; k++)
            assert_int_equal(world_gpu(&w, k)->state, GPU_UP);
    }
    assert_int_equal(w.starts, 4);
    world_run(&w, NS_PER_MIN);
    for (uint32_t i = 0; i < 4; i++)
        w.gpus[i].hangs = false;
    for (uint32_t i = 0; i < 4; i++)
        world_until(&w, i, GPU_UP, 70 * NS_PER_S);
    world_run(&w, 3 * NS_PER_MIN);
    assert_healthy(4);
}

static void a_gpu_that_kills_its_sampler_is_isolated(void **state)
{
    (void)state;
    world_run(&w, NS_PER_S);
    w.crash_gpu = 1;
    world_run(&w, 3 * NS_PER_S);
    assert_true(world_gpu(&w, 1)->own_sampler);
    assert_int_equal(world_gpu(&w, 0)->state, GPU_UP);
    assert_false(world_gpu(&w, 0)->own_sampler);
    assert_int_equal(world_gpu(&w, 1)->state, GPU_FAILED);
    world_assert_why(&w, 1, "its own sampler ended; next try in ");
    assert_trouble(1, GPU_TROUBLE_NO_SAMPLER, 0);
    w.starts = 0;
    world_run(&w, 10 * NS_PER_MIN);
    assert_in_range(w.starts, 9, 16);
    w.crash_gpu = UINT32_MAX;
    world_run(&w, 3 * NS_PER_MIN);
    assert_healthy(4);
}

/* ---- the driver as a whole ---- */

static void init_hangs(void **state)
{
    (void)state;
    w.init_hangs = true;
    /* one that attaches, then one that does not */
    assert_in_range(world_until(&w, 0, GPU_HUNG, 7 * NS_PER_S), 4 * NS_PER_S, 4400 * NS_PER_MS);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(world_gpu(&w, i)->state, GPU_HUNG);
        world_assert_why(&w, i, "nvmlInitWithFlags has not returned for 3 s");
    }
    assert_string_equal(supervisor_view(w.supervisor)->driver_why, "nvmlInitWithFlags has not returned for 3 s");
    assert_driver(NODE_DRIVER_HANGS, 0);
    assert_int_equal(w.starts, 2);
    world_run(&w, 6 * NS_PER_S);
    assert_int_equal(w.kills, 2);
    assert_int_equal(w.starts, 3);
    assert_true(w.processes[world_owner(&w, 0)].no_attach);
    assert_int_equal(world_gpu(&w, 0)->state, GPU_HUNG);
    world_run(&w, 10 * NS_PER_MIN);
    assert_in_range(w.starts, 8, 18);
    w.init_hangs = false;
    world_run(&w, 70 * NS_PER_S);
    assert_healthy(4);
}

static void an_init_that_comes_back_is_taken(void **state)
{
    (void)state;
    w.init_hangs = true;
    world_until(&w, 0, GPU_HUNG, 7 * NS_PER_S);
    w.init_hangs = false;
    world_run(&w, NS_PER_S);
    assert_int_equal(w.starts, 2);
    assert_int_equal(w.kills, 0);
    assert_healthy(4);
}

/* One bad GPU makes an init hang that wakes all of them up. */
static void init_hangs_only_where_it_attaches(void **state)
{
    (void)state;
    w.init_hangs = w.init_hangs_attaching = true;
    assert_in_range(world_until(&w, 0, GPU_UP, 7 * NS_PER_S), 1 * NS_PER_S, 2 * NS_PER_S);
    world_run(&w, NS_PER_MIN);
    assert_int_equal(w.starts, 2);
    assert_int_equal(w.kills, 1);
    assert_healthy(4);
}

static void init_does_not_end_on_kill(void **state)
{
    (void)state;
    w.init_hangs = w.init_unkillable = true;
    world_run(&w, 10 * NS_PER_MIN);
    assert_int_equal(w.starts, 4); /* the one that attaches, then three that do not */
    assert_int_equal(world_in_state(&w, SAMPLER_ABANDONED), 4);
    assert_int_equal(world_gpu(&w, 0)->state, GPU_HUNG);
    w.init_hangs = false;
    world_run(&w, 5 * NS_PER_S);
    assert_healthy(4);
}

static void the_driver_is_not_there(void **state)
{
    (void)state;
    w.no_library = true;
    world_until(&w, 0, GPU_NO_DRIVER, NS_PER_S);
    world_assert_why(&w, 3, "no library here");
    assert_string_equal(supervisor_view(w.supervisor)->driver_why, "no library here");
    assert_driver(NODE_DRIVER_NO_LIBRARY, 0);
    world_run(&w, NS_PER_MIN);
    assert_int_equal(w.starts, 1);
    w.no_library = false;
    w.init_fails = true;
    world_run(&w, NS_PER_S);
    world_assert_why(&w, 0, "driver not loaded");
    assert_driver(NODE_DRIVER_UNLOADED, 9);
    w.init_fails = false;
    world_run(&w, NS_PER_S);
    assert_healthy(4);
}

static void a_hung_driver_that_then_refuses_is_not_hung(void **state)
{
    (void)state;
    w.init_hangs = true;
    world_until(&w, 0, GPU_HUNG, 8 * NS_PER_S);
    w.init_fails = true;
    world_until(&w, 0, GPU_NO_DRIVER, 20 * NS_PER_S);
    w.init_fails = w.init_hangs = false;
    world_run(&w, 20 * NS_PER_S);
    assert_healthy(4);
}

/* ---- GPUs ---- */

static void outcomes_become_states(void **state)
{
    (void)state;
    world_run(&w, NS_PER_S);
    w.gpus[0].outcome = BOARD_LOST;
    w.gpus[1].outcome = BOARD_RESET_REQUIRED;
    w.gpus[2].outcome = BOARD_NOT_FOUND;
    w.gpus[3].outcome = BOARD_REFUSED;
    w.gpus[3].code = 999;
    world_run(&w, 10 * NS_PER_MIN);
    assert_int_equal(world_gpu(&w, 0)->state, GPU_LOST);
    assert_int_equal(world_gpu(&w, 1)->state, GPU_LOST);
    world_assert_why(&w, 1, "reset");
    assert_trouble(0, GPU_TROUBLE_FELL_OFF, 0);
    assert_trouble(1, GPU_TROUBLE_RESET, 0);
    assert_trouble(2, GPU_TROUBLE_NONE, 0);
    assert_trouble(3, GPU_TROUBLE_REFUSED, 999);
    assert_int_equal(world_gpu(&w, 2)->state, GPU_MISSING);
    world_assert_why(&w, 2, "on the PCI bus, but");
    assert_int_equal(world_gpu(&w, 3)->state, GPU_FAILED);
    world_assert_why(&w, 3, "999");
    assert_int_equal(w.starts, 1);       /* its sampler goes on trying */
    w.gpus[1].outcome = BOARD_NOT_TRIED; /* by a new one: what was said stands */
    world_run(&w, NS_PER_S);
    world_assert_why(&w, 1, "reset");
    assert_trouble(1, GPU_TROUBLE_RESET, 0);
    for (uint32_t i = 0; i < 4; i++)
        w.gpus[i].outcome = BOARD_FINE;
    world_run(&w, NS_PER_S);
    assert_healthy(4);
}

static void gpus_come_and_go_on_the_bus(void **state)
{
    (void)state;
    world_run(&w, NS_PER_S);
    world_bus(&w, 0x1d); /* without 1, with 4 */
    world_run(&w, NS_PER_S);
    assert_int_equal(world_gpu(&w, 1)->state, GPU_GONE);
    assert_int_equal(world_owner(&w, 1), BOARD_NO_SLOT);
    assert_int_equal(world_gpu(&w, 4)->state, GPU_UP);
    assert_int_equal(atomic_load(&w.board->gpu_count), 5);
    world_bus(&w, 0x1f);
    assert_int_equal(world_gpu(&w, 1)->state, GPU_STARTING);
    world_run(&w, NS_PER_S);
    assert_int_equal(atomic_load(&w.board->gpu_count), 5);
    assert_healthy(5);
}

static void a_hung_gpu_that_leaves_the_bus_is_let_go(void **state)
{
    (void)state;
    world_run(&w, NS_PER_S);
    w.gpus[2].hangs = true;
    world_until(&w, 2, GPU_HUNG, NS_PER_S);
    world_bus(&w, 0xb);
    assert_int_equal(world_gpu(&w, 2)->state, GPU_GONE);
    world_run(&w, 2 * NS_PER_S);
    assert_int_equal(world_running(&w), 1);
    w.gpus[2].hangs = false;
    world_bus(&w, 0xf);
    world_run(&w, NS_PER_S);
    assert_healthy(4);
}

static void a_gpu_that_hangs_as_it_leaves_takes_nobody_along(void **state)
{
    (void)state;
    world_run(&w, NS_PER_S);
    w.gpus[2].hangs = true;
    world_step(&w);
    world_bus(&w, 0xb); /* in the middle of a call about it */
    world_run(&w, 2 * NS_PER_S);
    for (uint32_t i = 0; i < 4; i++)
        if (i != 2)
            assert_int_equal(world_gpu(&w, i)->state, GPU_UP);
    world_run(&w, 6 * NS_PER_S);
    assert_int_equal(world_running(&w), 1);
    assert_int_equal(w.kills, 1);
}

static void the_driver_may_know_more_than_the_bus(void **state)
{
    (void)state;
    world_bus(&w, 0);
    w.found[0] = world_pci(20);
    w.found[1] = world_pci(2);
    w.found_len = 2;
    world_run(&w, NS_PER_S);
    assert_int_equal(supervisor_view(w.supervisor)->found, 2);
    assert_int_equal(atomic_load(&w.board->gpu_count), 5);
    assert_int_equal(world_gpu(&w, 4)->state, GPU_UP);
    assert_int_equal(world_gpu(&w, 2)->state, GPU_GONE); /* it was on the bus and is not any more */
    world_bus(&w, 0);                                    /* one that was never there is not gone */
    world_run(&w, NS_PER_S);
    assert_int_equal(world_gpu(&w, 4)->state, GPU_UP);
    w.gpus[4].outcome = BOARD_NOT_FOUND;
    world_run(&w, NS_PER_S);
    assert_int_equal(world_gpu(&w, 4)->state, GPU_GONE);
}

static void a_remembered_gpu_is_gone_until_it_comes(void **state)
{
    (void)state;
    world_run(&w, NS_PER_S);
    assert_int_equal(supervisor_add_gone_gpu(w.supervisor, world_pci(2), false), UINT32_MAX); /* it is there */
    const uint32_t at = supervisor_add_gone_gpu(w.supervisor, world_pci(20), true);
    assert_int_equal(at, atomic_load(&w.board->gpu_count) - 1);
    world_run(&w, 3 * NS_PER_S);
    assert_int_equal(world_gpu(&w, at)->state, GPU_GONE);
    assert_int_equal(world_owner(&w, at), BOARD_NO_SLOT);
    assert_int_equal(atomic_load(&w.board->gpus[at].drained), 2);
    assert_false(supervisor_gpu_is_hidden(w.supervisor, at));
    assert_int_equal(supervisor_add_gone_gpu(w.supervisor, world_pci(20), false), at); /* as it was */
    assert_int_equal(atomic_load(&w.board->gpus[at].drained), 2);

    supervisor_hide_gone_gpu(w.supervisor, world_pci(20));
    world_run(&w, 3 * NS_PER_S);
    assert_true(supervisor_gpu_is_hidden(w.supervisor, at));
    const PciAddress late = world_pci(20);
    supervisor_set_bus(w.supervisor, &late, 1); /* the others leave */
    world_run(&w, 3 * NS_PER_S);
    assert_false(supervisor_gpu_is_hidden(w.supervisor, at));
    assert_int_not_equal(world_gpu(&w, at)->state, GPU_GONE);
    assert_int_not_equal(world_owner(&w, at), BOARD_NO_SLOT);
}

static void only_what_is_gone_is_forgotten(void **state)
{
    (void)state;
    world_run(&w, NS_PER_S);
    supervisor_hide_gone_gpu(w.supervisor, world_pci(1));
    supervisor_hide_gone_gpu(w.supervisor, world_pci(50));
    assert_false(supervisor_gpu_is_hidden(w.supervisor, 1));
    world_bus(&w, ~UINT64_C(2));
    assert_false(supervisor_gpu_is_hidden(w.supervisor, 1)); /* it went after that was said */
    supervisor_hide_gone_gpu(w.supervisor, world_pci(1));
    assert_true(supervisor_gpu_is_hidden(w.supervisor, 1));
    world_bus(&w, UINT64_MAX);
    assert_false(supervisor_gpu_is_hidden(w.supervisor, 1));
}

static void there_is_an_end_to_gpus(void **state)
{
    PciAddress many[100];

    (void)state;
    for (uint32_t i = 0; i < 100; i++)
        many[i] = world_pci(i);
    supervisor_set_bus(w.supervisor, many, 100);
    world_run(&w, NS_PER_S);
    assert_int_equal(atomic_load(&w.board->gpu_count), NODE_GPUS_MAX);
    assert_healthy(NODE_GPUS_MAX);
    supervisor_set_bus(w.supervisor, many, 100);
    assert_true(world_logged(&w, "more than 64"));
    assert_int_equal(w.log_count, 1);
}

static void there_is_an_end_to_slots(void **state)
{
    uint32_t up = 0;

    (void)state;
    world_bus(&w, UINT64_MAX);
    world_run(&w, NS_PER_S);
    for (uint32_t i = 0; i < 63; i++) {
        w.gpus[i].hangs = w.gpus[i].unkillable = true;
        world_until(&w, i, GPU_HUNG, NS_PER_S);
    }
    world_run(&w, NS_PER_H);
    assert_in_range(world_running(&w), NODE_SAMPLERS_MAX - 5, NODE_SAMPLERS_MAX);
    for (uint32_t i = 0; i < 64; i++)
        up += world_gpu(&w, i)->state == GPU_UP;
    assert_int_equal(up, 1);
    world_run(&w, 2 * NS_PER_MIN);
    w.processes[world_owner(&w, 63)].running = false; /* there is still a place for the shared one */
    world_run(&w, 2 * NS_PER_S);
    assert_int_equal(world_gpu(&w, 63)->state, GPU_UP);
    for (uint32_t i = 0; i < 63; i++)
        w.gpus[i].hangs = false;
    world_run(&w, 5 * NS_PER_MIN);
    assert_healthy(64);
}

/* ---- release and stop ---- */

static void the_driver_is_let_go(void **state)
{
    uint64_t until;

    (void)state;
    world_run(&w, NS_PER_S);
    until = board_at(w.board, w.now_ns) + 30 * NS_PER_S;
    supervisor_release(w.supervisor, until);
    world_run(&w, NS_PER_S);
    assert_int_equal(world_gpu(&w, 0)->state, GPU_RELEASED);
    world_assert_why(&w, 0, "let go for another 29 s");
    assert_int_equal(atomic_load(&w.board->release_until_ns), until);
    world_run(&w, 28 * NS_PER_S);
    assert_int_equal(world_gpu(&w, 0)->state, GPU_RELEASED);
    world_run(&w, 2 * NS_PER_S);
    assert_int_equal(atomic_load(&w.board->release_until_ns), 0);
    assert_healthy(4);
    assert_int_equal(w.starts, 1);

    supervisor_release(w.supervisor, board_at(w.board, w.now_ns) + NS_PER_H);
    world_run(&w, NS_PER_S);
    supervisor_release(w.supervisor, 0);
    world_run(&w, NS_PER_S);
    assert_healthy(4);
}

static void a_hung_gpu_is_not_tried_while_released(void **state)
{
    (void)state;
    world_run(&w, NS_PER_S);
    w.gpus[2].hangs = true;
    world_until(&w, 2, GPU_HUNG, NS_PER_S);
    supervisor_release(w.supervisor, board_at(w.board, w.now_ns) + 10 * NS_PER_MIN);
    world_run(&w, 9 * NS_PER_MIN);
    assert_int_equal(w.starts, 2);
    assert_int_equal(world_gpu(&w, 2)->state, GPU_HUNG);
    assert_int_equal(world_gpu(&w, 1)->state, GPU_RELEASED);
    w.gpus[2].hangs = false;
    world_run(&w, 4 * NS_PER_MIN);
    assert_healthy(4);
}

static void stop(void **state)
{
    (void)state;
    world_run(&w, NS_PER_S);
    w.gpus[2].hangs = w.gpus[2].unkillable = true;
    world_run(&w, 9 * NS_PER_S);
    assert_false(supervisor_stop(w.supervisor));
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(world_owner(&w, i), BOARD_NO_SLOT);
    world_run(&w, NS_PER_S);
    assert_int_equal(world_in_state(&w, SAMPLER_RUNNING), 0);
    w.starts = 0;
    world_run(&w, 5 * NS_PER_S);
    assert_true(supervisor_stop(w.supervisor)); /* the abandoned ones stay behind */
    assert_int_equal(w.starts, 0);
}

static void stop_kills_the_deaf(void **state)
{
    uint32_t turns = 0;

    (void)state;
    world_run(&w, NS_PER_S);
    w.deaf = true;
    while (!supervisor_stop(w.supervisor)) {
        world_step(&w);
        turns++;
    }
    assert_in_range(turns, 10, 14);
    assert_int_equal(w.kills, 1);
    assert_int_equal(world_running(&w), 0);
}

/* ---- nonsense on the board ---- */

/* ---- calls about two GPUs ---- */

static void a_pair_that_hangs_blames_neither(void **state)
{
    uint64_t before;

    (void)state;
    world_run(&w, 2 * NS_PER_S);
    w.pair_hangs = true;
    world_run(&w, 2 * NS_PER_S);
    w.pair_hangs = false;
    assert_int_equal(w.starts, 2); /* all went to a fresh one, and stay there */
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(world_gpu(&w, i)->state, GPU_UP);
        assert_false(world_gpu(&w, i)->own_sampler);
        assert_int_equal(world_gpu(&w, i)->missed_calls, 0);
    }
    assert_true(world_logged(&w, "neither is blamed"));
    assert_false(world_logged(&w, "as a whole"));
    before = atomic_load(&w.board->pairs_after_ns);
    assert_true(before > w.now_ns + 9 * NS_PER_MIN && before < w.now_ns + 10 * NS_PER_MIN);
    world_run(&w, 11 * NS_PER_MIN);
    assert_healthy(4);
    assert_int_equal(w.starts, 2);
}

static void a_pair_is_asked_again_after_a_while(void **state)
{
    (void)state;
    w.pair_hangs = true;
    world_run(&w, 9 * NS_PER_MIN);
    assert_int_equal(w.starts, 2);
    world_run(&w, 2 * NS_PER_MIN);
    assert_int_equal(w.starts, 3);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(world_gpu(&w, i)->state, GPU_UP);
}

static void the_gpu_that_hangs_is_found_by_its_own_call(void **state)
{
    (void)state;
    world_run(&w, 2 * NS_PER_S);
    w.pair_hangs = true;
    world_step(&w);
    w.gpus[2].hangs = true;
    world_until(&w, 2, GPU_HUNG, 2 * NS_PER_S);
    world_run(&w, 2 * NS_PER_S);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(world_gpu(&w, i)->state, i == 2 ? GPU_HUNG : GPU_UP);
    world_assert_why(&w, 2, "nvmlDeviceGetPowerUsage");
}

/* There is one at most, so that slots do not run out. */
static void no_pair_is_asked_while_one_does_not_end(void **state)
{
    (void)state;
    w.pair_hangs = w.pair_unkillable = true;
    world_run(&w, 60 * NS_PER_MIN);
    assert_int_equal(world_in_state(&w, SAMPLER_ABANDONED), 1);
    assert_int_equal(w.starts, 2);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(world_gpu(&w, i)->state, GPU_UP);
    w.pair_hangs = w.pair_unkillable = false;
    world_run(&w, NS_PER_S);
    assert_healthy(4);
    assert_true(atomic_load(&w.board->pairs_after_ns) < w.now_ns + 10 * NS_PER_MIN);
}

static void a_sampler_that_ends_in_a_pair(void **state)
{
    (void)state;
    world_run(&w, 2 * NS_PER_S);
    w.pair_crashes = true;
    world_run(&w, 5 * NS_PER_MIN);
    assert_int_equal(w.starts, 2);
    assert_healthy(4);
}

static void nonsense_is_survived(void **state)
{
    uint32_t slot;

    (void)state;
    world_run(&w, NS_PER_S);
    slot = world_owner(&w, 0);
    atomic_store(&w.board->samplers[slot].call_gpu, 4000000000U);
    atomic_store(&w.board->samplers[slot].call_function, 4000000000U);
    atomic_store(&w.board->samplers[slot].call_start_ns, 1);
    supervisor_pass(w.supervisor);
    assert_int_equal(world_sampler(&w, SAMPLER_STUCK)->gpu_count, 0);
    assert_string_equal(world_sampler(&w, SAMPLER_STUCK)->function, "a driver call");
    world_run(&w, NS_PER_S);
    assert_int_equal(world_gpu(&w, 0)->state, GPU_UP);

    slot = world_owner(&w, 0);
    atomic_store(&w.board->samplers[slot].call_start_ns, UINT64_MAX);
    atomic_store(&w.board->gpus[1].outcome, 77);
    atomic_store(&w.board->samplers[slot].driver, 99);
    supervisor_pass(w.supervisor);
    assert_int_equal(world_gpu(&w, 1)->state, GPU_FAILED);
    memset(&w.board->samplers[slot].found, 0xff, sizeof(w.board->samplers[slot].found));
    atomic_store(&w.board->samplers[slot].found_sequence, 100);
    supervisor_pass(w.supervisor);
    assert_int_equal(atomic_load(&w.board->gpu_count), 4);
}

int main(void)
{
#define RULE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        RULE(one_sampler_has_all_gpus),
        RULE(a_dead_one_is_replaced_at_once),
        RULE(one_that_closes_its_socket_is_as_good_as_dead),
        RULE(one_that_always_dies_is_started_ever_less),
        RULE(one_that_is_killed_costs_no_period),
        RULE(killed_again_and_again_it_waits_and_the_log_says_so),
        RULE(what_may_have_ended_it_is_said),
        RULE(no_process_can_be_started),
        RULE(a_stopped_one_is_killed_and_replaced),
        RULE(a_machine_that_stood_still_hangs_nobody),
        RULE(a_hang_isolates_its_gpu_in_the_same_turn),
        RULE(a_call_with_a_longer_limit_is_given_it),
        RULE(a_call_that_returns_keeps_its_own_sampler_and_rejoins),
        RULE(a_slow_one_is_not_hung_again_and_again),
        RULE(a_slow_one_that_hangs_is_hung),
        RULE(one_that_is_slower_and_slower_is_given_as_long_as_it_may_take),
        RULE(all_gpus_may_be_slow),
        RULE(a_single_gpu_rejoins_without_a_new_process),
        RULE(a_deaf_one_is_killed_after_rejoining),
        RULE(a_stuck_one_is_killed_and_the_gpu_tried_again),
        RULE(tries_come_ever_less),
        RULE(one_that_does_not_end_is_abandoned_and_named),
        RULE(a_gpu_is_not_tried_for_ever),
        RULE(all_gpus_may_hang_one_after_another),
        RULE(a_gpu_that_kills_its_sampler_is_isolated),
        RULE(init_hangs),
        RULE(an_init_that_comes_back_is_taken),
        RULE(init_hangs_only_where_it_attaches),
        RULE(init_does_not_end_on_kill),
        RULE(the_driver_is_not_there),
        RULE(a_hung_driver_that_then_refuses_is_not_hung),
        RULE(outcomes_become_states),
        RULE(gpus_come_and_go_on_the_bus),
        RULE(a_hung_gpu_that_leaves_the_bus_is_let_go),
        RULE(a_gpu_that_hangs_as_it_leaves_takes_nobody_along),
        RULE(the_driver_may_know_more_than_the_bus),
        RULE(there_is_an_end_to_gpus),
        RULE(a_remembered_gpu_is_gone_until_it_comes),
        RULE(only_what_is_gone_is_forgotten),
        RULE(there_is_an_end_to_slots),
        RULE(the_driver_is_let_go),
        RULE(a_hung_gpu_is_not_tried_while_released),
        RULE(stop),
        RULE(stop_kills_the_deaf),
        RULE(a_pair_that_hangs_blames_neither),
        RULE(a_pair_is_asked_again_after_a_while),
        RULE(the_gpu_that_hangs_is_found_by_its_own_call),
        RULE(no_pair_is_asked_while_one_does_not_end),
        RULE(a_sampler_that_ends_in_a_pair),
        RULE(nonsense_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
