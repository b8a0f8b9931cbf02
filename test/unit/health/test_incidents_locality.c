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

    warp(kit, 1, 7, 2, 100, "trainer");
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

    kit_app(kit, 1, 31, 100, "trainer");
    kit_tick(kit, HOUR);
    kit_app(kit, 1, 31, 200, "vllm");
    assert_true(suspected(kit, 1));
    assert_string_equal(kit_open_one(kit, "gpu-fault-suspected", 1)->first[0].text,
                        "XID 31 came on this GPU under 'trainer' and under 'vllm' within a day, and of neither "
                        "elsewhere");
}

/* One of them failed, and took the other with it. */
static void two_programs_at_once_are_one_failure(void **state)
{
    Kit *kit = *state;

    kit_app(kit, 1, 31, 100, "trainer");
    kit_tick(kit, 5 * SECOND);
    kit_app(kit, 1, 31, 200, "vllm");
    assert_false(suspected(kit, 1));
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

    kit_app(kit, 2, 31, 90, "trainer");
    kit_tick(kit, HOUR);
    kit_app(kit, 1, 31, 100, "trainer");
    kit_tick(kit, HOUR);
    kit_app(kit, 1, 31, 200, "vllm");
    assert_false(suspected(kit, 1));
}

/* vllm-project/vllm issue 40652: lines of one process, which the driver names by the thread that faults. */
static void one_process_under_two_names(void **state)
{
    static const char *const names[] = {"VLLM::Worker", "VLLM::Worker_TP"};
    Kit *kit = *state;

    for (int i = 0; i < 4; i++) {
        kit_app(kit, 1, 31, 22884, names[i % 2]);
        kit_tick(kit, MINUTE);
    }
    assert_false(suspected(kit, 1));
    for (int i = 0; i < 4; i++) {
        warp(kit, 2, 7, 2, 22884, names[i % 2]);
        kit_tick(kit, 30 * SECOND);
    }
    assert_false(suspected(kit, 2));
}

/* One PyTorch script: the interpreter's name at first, the one of torch's main thread later. */
static void names_that_many_programs_have_are_no_proof(void **state)
{
    static const char *const pairs[][2] = {
        {"python", "pt_main_thread"},
        {"pt_main_thread", "python3.11"},
        {"python", "vllm"},
        {"vllm", "pt_autograd_0"},
        {"trainer", ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        Kit kit;

        kit_init(&kit);
        kit_tick(&kit, 0);
        kit_app(&kit, 1, 31, 100, pairs[i][0]);
        kit_tick(&kit, HOUR);
        kit_app(&kit, 1, 31, 200, pairs[i][1]);
        assert_false(suspected(&kit, 1));
        kit_done(&kit);
    }
}

/* --- with owners --- */

static Owner working[KIT_GPUS];

static uint32_t find_working(void *self, const Device *device, int32_t pid, Owner out[INCIDENT_OWNERS])
{
    (void)self;
    (void)device;
    for (size_t i = 0; i < KIT_GPUS; i++)
        if (working[i].pid == pid) {
            out[0] = working[i];
            return 1;
        }
    return 0;
}

/* Two processes, an hour apart; whether the GPU is suspect then. */
static bool is_suspect_of(const Owner *first, const char *name, const Owner *second, const char *name2)
{
    bool suspect;
    Kit kit;

    memset(working, 0, sizeof working);
    working[0] = *first;
    working[1] = *second;
    kit_init(&kit);
    incidents_set_owners(kit.incidents, find_working, NULL);
    kit_tick(&kit, 0);
    kit_app(&kit, 1, 31, first->pid, name);
    kit_tick(&kit, HOUR);
    if (first->pid == second->pid)
        working[0] = *second;
    kit_app(&kit, 1, 31, second->pid, name2);
    suspect = suspected(&kit, 1);
    kit_done(&kit);
    return suspect;
}

static void jobs_tell_programs_apart(void **state)
{
    const Owner a = {.pid = 100, .start_ns = 1, .user = "alice", .job = "1"};
    const Owner b = {.pid = 200, .start_ns = 2, .user = "bob", .job = "2"};
    const Owner again = {.pid = 200, .start_ns = 2, .user = "alice", .job = "1"};
    const Owner bare = {.pid = 100, .start_ns = 1, .user = "alice"}, bare_b = {.pid = 200, .user = "bob"};
    const Owner bare_a = {.pid = 200, .start_ns = 2, .user = "alice"};

    (void)state;
    assert_true(is_suspect_of(&a, "python", &b, "python"));
    assert_false(is_suspect_of(&a, "trainer", &again, "checker"));  /* of one job */
    assert_true(is_suspect_of(&bare, "python", &bare_b, "python")); /* two people's */
    assert_false(is_suspect_of(&bare, "python", &bare_a, "vllm"));
    assert_true(is_suspect_of(&bare, "trainer", &bare_a, "checker"));
}

/* The kernel gives a pid again: by its start it is another process. */
static void a_pid_that_was_given_again(void **state)
{
    const Owner a = {.pid = 100, .start_ns = 1, .user = "alice"}, b = {.pid = 100, .start_ns = 2, .user = "bob"};
    const Owner unknown = {.pid = 100, .user = "bob"};

    (void)state;
    assert_true(is_suspect_of(&a, "trainer", &b, "checker"));
    assert_false(is_suspect_of(&a, "trainer", &a, "checker"));
    assert_false(is_suspect_of(&a, "trainer", &unknown, "checker"));
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
        ONE(two_programs_at_once_are_one_failure),
        ONE(one_program_started_again_and_again),
        ONE(a_program_that_faults_everywhere),
        ONE(one_process_under_two_names),
        ONE(names_that_many_programs_have_are_no_proof),
        ONE(jobs_tell_programs_apart),
        ONE(a_pid_that_was_given_again),
        ONE(other_application_xids_never),
        ONE(many_programs_do_not_overflow_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
