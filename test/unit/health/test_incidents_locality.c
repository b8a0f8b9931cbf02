/* SPDX-License-Identifier: Apache-2.0 */
/* When an application XID makes the GPU suspect, and when it does not (engine/health/locality.c). */
#include "kit.h"

#include <stdio.h>

static void warp(Kit *kit, int gpu, int gpc, int tpc, int32_t pid, const char *process)
{
    Event event = kit_xid(kit, gpu, 13);

    event.gpc = gpc;
    event.tpc = tpc;
    event.pid = pid;
    strcpy(event.process, process);
    kit_give(kit, &event);
    kit_turn(kit);
}

static bool suspected(const Kit *kit, int gpu)
{
    const Incident *it = kit_find(kit, "gpu-fault-suspected", gpu);

    return it && it->state == INCIDENT_OPEN;
}

static void the_same_unit_twice(void **state)
{
    Kit *kit = *state;
    const Incident *it;

    warp(kit, 1, 7, 2, 100, "python");
    assert_false(suspected(kit, 1));
    kit_tick(kit, HOUR);
    warp(kit, 1, 7, 2, 200, "python");
    assert_true(suspected(kit, 1));
    it = kit_open_one(kit, "gpu-fault-suspected", 1);
    assert_string_equal(it->first[0].text,
                        "XID 13 came 2 times at GPC 7, TPC 2 of this GPU within a day and nowhere else");
    assert_int_equal(it->route, ROUTE_TICKET); /* never a page */
}

static void two_programs_at_one_unit(void **state)
{
    Kit *kit = *state;

    warp(kit, 1, 7, 2, 100, "python");
    kit_tick(kit, HOUR);
    warp(kit, 1, 7, 2, 200, "vllm");
    assert_true(suspected(kit, 1));
}

static void one_fall_has_many_lines(void **state)
{
    Kit *kit = *state;

    for (int i = 0; i < 100; i++) {
        warp(kit, 1, 7, 2, 100, "python");
        kit_advance(kit, SECOND);
    }
    assert_false(suspected(kit, 1));
}

static void other_units_are_the_program(void **state)
{
    Kit *kit = *state;

    for (int i = 0; i < 4; i++) {
        warp(kit, 1, i, 0, 100 + i, "python");
        kit_tick(kit, HOUR);
    }
    warp(kit, 1, 3, 0, 300, "python"); /* the same unit again, but it was everywhere */
    assert_false(suspected(kit, 1));
}

static void other_gpus_are_the_program(void **state)
{
    Kit *kit = *state;

    for (int i = 0; i < 3; i++) {
        warp(kit, 1, 7, 2, 100 + i, "python");
        warp(kit, 2, 7, 2, 200 + i, "python");
        kit_tick(kit, HOUR);
    }
    assert_false(suspected(kit, 1));
    assert_false(suspected(kit, 2));
}

static void a_day_later_is_too_late(void **state)
{
    Kit *kit = *state;

    warp(kit, 1, 7, 2, 100, "python");
    kit_tick(kit, 25 * HOUR);
    warp(kit, 1, 7, 2, 200, "python");
    assert_false(suspected(kit, 1));
}

static void an_unknown_unit_says_nothing(void **state)
{
    Kit *kit = *state;

    warp(kit, 1, -1, -1, 100, "python");
    kit_tick(kit, HOUR);
    warp(kit, 1, -1, -1, 200, "vllm");
    assert_false(suspected(kit, 1));
}

static void two_programs_fault_on_one_gpu(void **state)
{
    Kit *kit = *state;

    kit_app(kit, 1, 31, 100, "python");
    kit_tick(kit, HOUR);
    kit_app(kit, 1, 31, 200, "vllm");
    assert_true(suspected(kit, 1));
    assert_string_equal(kit_open_one(kit, "gpu-fault-suspected", 1)->first[0].text,
                        "XID 31 came on this GPU under 'python' and under 'vllm' within a day, and of neither "
                        "elsewhere");
}

static void one_program_started_again_and_again(void **state)
{
    Kit *kit = *state;

    for (int i = 0; i < 20; i++) {
        kit_app(kit, 1, 31, 100 + i, "python");
        kit_tick(kit, 30 * MINUTE);
    }
    assert_false(suspected(kit, 1));
}

static void a_program_that_faults_everywhere(void **state)
{
    Kit *kit = *state;

    kit_app(kit, 2, 31, 90, "python");
    kit_tick(kit, HOUR);
    kit_app(kit, 1, 31, 100, "python");
    kit_tick(kit, HOUR);
    kit_app(kit, 1, 31, 200, "vllm");
    assert_false(suspected(kit, 1));
}

static void other_application_xids_never(void **state)
{
    Kit *kit = *state;

    for (int i = 0; i < 10; i++) {
        kit_app(kit, 1, 43, 100 + i, i % 2 ? "python" : "vllm");
        kit_app(kit, 1, 45, 100 + i, i % 2 ? "python" : "vllm");
        kit_tick(kit, HOUR);
    }
    assert_int_equal(kit->told_count, 0);
}

static void many_programs_do_not_overflow_it(void **state)
{
    Kit *kit = *state;
    char name[16];

    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "p%d", i);
        for (int gpu = 0; gpu < 2; gpu++)
            kit_app(kit, gpu, 31, i, name);
        kit_tick(kit, MINUTE);
    }
    assert_true(incidents_count(kit->incidents) <= INCIDENTS_MAX);
}

#define ONE(test) cmocka_unit_test_setup_teardown(test, kit_open, kit_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ONE(the_same_unit_twice),
        ONE(two_programs_at_one_unit),
        ONE(one_fall_has_many_lines),
        ONE(other_units_are_the_program),
        ONE(other_gpus_are_the_program),
        ONE(a_day_later_is_too_late),
        ONE(an_unknown_unit_says_nothing),
        ONE(two_programs_fault_on_one_gpu),
        ONE(one_program_started_again_and_again),
        ONE(a_program_that_faults_everywhere),
        ONE(other_application_xids_never),
        ONE(many_programs_do_not_overflow_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
