/* SPDX-License-Identifier: Apache-2.0 */
/* Probes: when one is sent, what its answer means, and what becomes of one that does not end. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "world.h"

#define PERIOD_NS (5 * NS_PER_MIN)

static World w;

static int set_up(void **state)
{
    (void)state;
    w.probe_ns = PERIOD_NS;
    world_init(&w, 4);
    world_run(&w, 10 * NS_PER_S);
    return 0;
}

static int set_up_without(void **state)
{
    (void)state;
    w.probe_ns = 0;
    world_init(&w, 4);
    world_run(&w, 10 * NS_PER_S);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    world_done(&w);
    return 0;
}

static const NodeProbe *said(void)
{
    return &supervisor_view(w.supervisor)->probe;
}

static void refuse(void)
{
    w.probe_says = BOARD_DRIVER_INIT_FAILED;
    w.probe_trouble = NODE_DRIVER_REFUSES;
}

static void serve(void)
{
    w.probe_says = BOARD_DRIVER_RELEASED;
    w.probe_trouble = NODE_DRIVER_FINE;
}

static void next_probe(uint64_t within_ns)
{
    const uint32_t before = w.probes;
    const uint64_t end = w.now_ns + within_ns;

    while (w.probes == before) {
        if (w.now_ns > end)
            fail_msg("no probe was sent");
        world_step(&w);
    }
    world_run(&w, NS_PER_S);
}

/* One sampler with all GPUs, and nothing said of the driver. */
static void assert_calm(void)
{
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(world_gpu(&w, i)->state, GPU_UP);
        assert_int_equal(world_owner(&w, i), world_owner(&w, 0));
    }
    assert_string_equal(supervisor_view(w.supervisor)->driver_why, "");
    assert_int_equal(w.starts, 1);
}

static void sent_now_and_then(void **state)
{

    (void)state;
    assert_int_equal(w.probes, 0);
    world_run(&w, NS_PER_H);
    assert_in_range(w.probes, 11, 12);
    assert_int_equal(said()->count, 0);
    assert_int_equal(world_running(&w), 1);
    assert_int_equal(supervisor_view(w.supervisor)->started, 1); /* samplers */
    assert_calm();
}

/* The library of a sampler knows the GPUs that were there as it was initialised: one that is added later is missing on
 * the bus for that sampler, and not for a new client. */
static void sees_a_gpu_that_was_added(void **state)
{
    (void)state;
    world_done(&w);
    w.probe_ns = 5 * NS_PER_MIN;
    world_init(&w, 3);
    w.found_len = 3;
    w.found_only = true;
    for (uint32_t i = 0; i < 4; i++)
        w.found[i] = world_pci(i);
    world_run(&w, NS_PER_S);
    world_bus(&w, 0xf);
    world_until(&w, 3, GPU_MISSING, 5 * NS_PER_S);
    assert_int_equal(w.probes, 0);
    world_run(&w, 40 * NS_PER_S); /* the driver does not have it: after 5, 10, 20, 40 s */
    assert_in_range(w.probes, 3, 4);
    assert_int_equal(w.starts, 1);
    w.found_len = 4;
    assert_in_range(world_until(&w, 3, GPU_UP, NS_PER_MIN), 0, 45 * NS_PER_S);
    assert_int_equal(w.starts, 2);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(world_gpu(&w, i)->state, GPU_UP);
    next_probe(5 * NS_PER_MIN + NS_PER_S); /* as seldom as before */
    assert_int_equal(w.starts, 2);
}

static void turned_off(void **state)
{
    (void)state;
    world_run(&w, NS_PER_DAY / 8);
    assert_int_equal(w.probes, 0);
}

static void refused_twice(void **state)
{
    (void)state;
    refuse();
    next_probe(PERIOD_NS);
    assert_int_equal(said()->count, 1);
    assert_false(world_logged(&w, "Probe"));
    next_probe(10 * NS_PER_S); /* soon after the first */
    assert_int_equal(said()->count, 2);
    assert_int_equal(said()->driver, NODE_DRIVER_REFUSES);
    assert_int_equal(said()->code, 999);
    assert_string_equal(said()->why, "new clients are refused: Unknown Error (error 999)");
    assert_true(world_logged(&w, "new clients are refused"));
    const uint32_t sent = w.probes;
    world_run(&w, 10 * NS_PER_MIN);
    assert_in_range(w.probes - sent, 9, 11); /* every minute */
    assert_calm();
    serve();
    next_probe(NS_PER_MIN);
    assert_int_equal(said()->driver, NODE_DRIVER_FINE);
    assert_int_equal(said()->count, 0);
    assert_string_equal(said()->why, "");
    assert_true(world_logged(&w, "serves new clients again"));
}

static void refused_once(void **state)
{
    (void)state;
    refuse();
    next_probe(PERIOD_NS);
    serve();
    next_probe(10 * NS_PER_S);
    assert_int_equal(said()->count, 0);
    refuse(); /* long after: it is the first again */
    next_probe(PERIOD_NS);
    assert_int_equal(said()->count, 1);
}

/* It is ended and tells something of the driver, and nothing of any GPU. */
static void one_that_hangs(void **state)
{
    (void)state;
    w.probe_hangs = true;
    next_probe(PERIOD_NS);
    assert_int_equal(said()->count, 0);
    world_run(&w, 10 * NS_PER_S);
    assert_int_equal(w.kills, 1);
    assert_int_equal(said()->count, 1);
    assert_int_equal(said()->driver, NODE_DRIVER_HANGS);
    assert_string_equal(said()->why, "a new client gets no answer: nvmlInitWithFlags did not return in time");
    world_run(&w, 20 * NS_PER_S);
    assert_int_equal(w.kills, 2);
    assert_int_equal(said()->count, 2);
    assert_calm();
}

static void one_that_does_not_end(void **state)
{
    (void)state;
    w.probe_hangs = w.probe_unkillable = true;
    next_probe(PERIOD_NS);
    world_run(&w, NS_PER_H);
    assert_int_equal(w.probes, 1); /* no second one beside it */
    assert_int_equal(said()->count, 2);
    assert_int_equal(said()->driver, NODE_DRIVER_HANGS);
    assert_int_equal(world_in_state(&w, SAMPLER_ABANDONED), 1);
    assert_string_equal(world_sampler(&w, SAMPLER_ABANDONED)->function, "nvmlInitWithFlags");
    assert_calm();
    w.probe_hangs = w.probe_unkillable = false;
    next_probe(NS_PER_MIN);
    assert_int_equal(said()->count, 0);
    assert_int_equal(world_in_state(&w, SAMPLER_ABANDONED), 0);
}

/* What did not get to the driver, or has no library to load, says nothing of it. */
static void ends_without_an_answer(void **state)
{
    (void)state;
    w.probe_stopped = true;
    next_probe(PERIOD_NS);
    world_run(&w, 30 * NS_PER_S);
    assert_int_equal(w.kills, 1);
    w.probe_stopped = false;
    w.probe_crashes = true;
    next_probe(PERIOD_NS);
    next_probe(PERIOD_NS);
    w.probe_crashes = false;
    w.probe_says = BOARD_DRIVER_NO_LIBRARY;
    w.probe_trouble = NODE_DRIVER_NO_LIBRARY;
    next_probe(PERIOD_NS);
    next_probe(PERIOD_NS);
    assert_int_equal(said()->count, 0);
    assert_calm();
}

static void not_in_trouble(void **state)
{
    (void)state;
    w.gpus[2].hangs = true;
    world_run(&w, NS_PER_H);
    assert_int_equal(w.probes, 0);
    w.gpus[2].hangs = false;
    world_run(&w, NS_PER_MIN * 3);
    w.gpus[2].outcome = BOARD_LOST;
    world_run(&w, 30 * NS_PER_S);
    const uint32_t sent = w.probes;
    world_run(&w, NS_PER_H);
    assert_int_equal(w.probes, sent);
    w.gpus[2].outcome = BOARD_FINE;
    next_probe(PERIOD_NS);
}

static void not_without_a_driver(void **state)
{
    (void)state;
    w.crashes = true;
    world_run(&w, NS_PER_S);
    w.init_fails = true;
    w.crashes = false;
    world_run(&w, NS_PER_H);
    assert_int_equal(w.probes, 0);
}

static void not_while_the_driver_is_let_go(void **state)
{
    (void)state;
    supervisor_release(w.supervisor, board_at(w.board, w.now_ns) + NS_PER_H);
    world_run(&w, NS_PER_H - NS_PER_S);
    assert_int_equal(w.probes, 0);
    world_run(&w, 10 * NS_PER_S);
    next_probe(PERIOD_NS);
    assert_int_equal(said()->count, 0);
}

/* One that is at work is ended at once when the driver is to be let go, and what was said before is forgotten. */
static void a_release_ends_it(void **state)
{
    (void)state;
    refuse();
    next_probe(PERIOD_NS);
    assert_int_equal(said()->count, 1);
    w.probe_hangs = true;
    next_probe(10 * NS_PER_S);
    assert_int_equal(world_running(&w), 2);
    supervisor_release(w.supervisor, board_at(w.board, w.now_ns) + NS_PER_MIN);
    world_run(&w, 2 * WORLD_STEP);
    assert_int_equal(w.kills, 1);
    world_run(&w, 2 * WORLD_STEP);
    assert_int_equal(world_running(&w), 1);
    assert_int_equal(said()->count, 0);
    assert_int_equal(atomic_load(&w.board->samplers[0].driver), BOARD_DRIVER_RELEASED);
    for (uint32_t i = 1; i < NODE_SAMPLERS_MAX; i++)
        assert_int_equal(atomic_load(&w.board->samplers[i].driver), BOARD_DRIVER_UNKNOWN);
}

/* A sampler that starts is a new client too. */
static void a_new_sampler_is_an_answer(void **state)
{
    (void)state;
    refuse();
    next_probe(PERIOD_NS);
    next_probe(10 * NS_PER_S);
    assert_int_equal(said()->count, 2);
    w.crashes = true;
    world_step(&w);
    w.crashes = false;
    serve();
    world_run(&w, 5 * NS_PER_S);
    assert_int_equal(said()->count, 0);
}

static void stopped_with_one_at_work(void **state)
{
    (void)state;
    w.probe_hangs = true;
    next_probe(PERIOD_NS);
    assert_int_equal(world_running(&w), 2);
    for (int i = 0; i < 40 && !supervisor_stop(w.supervisor); i++) {
        w.now_ns += WORLD_STEP;
        for (uint32_t k = 0; k < NODE_SAMPLERS_MAX; k++)
            if (w.processes[k].running && (w.processes[k].killed || (w.processes[k].closed && !w.processes[k].probe)))
                w.processes[k].running = false;
    }
    assert_int_equal(world_running(&w), 0);
    assert_true(supervisor_stop(w.supervisor));
}

#define RULE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RULE(sent_now_and_then),
        cmocka_unit_test_setup_teardown(turned_off, set_up_without, tear_down),
        RULE(sees_a_gpu_that_was_added),
        RULE(refused_twice),
        RULE(refused_once),
        RULE(one_that_hangs),
        RULE(one_that_does_not_end),
        RULE(ends_without_an_answer),
        RULE(not_in_trouble),
        RULE(not_without_a_driver),
        RULE(not_while_the_driver_is_let_go),
        RULE(a_release_ends_it),
        RULE(a_new_sampler_is_an_answer),
        RULE(stopped_with_one_at_work),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
