/* SPDX-License-Identifier: Apache-2.0 */
/* Faults from before the agent's start against the readings of now (engine/health/incidents_life.c). */
#include "kit.h"

#include <math.h>
#include <stdio.h>

#define NO_LINK DEVICE_NO_NUMBER

enum { GPU = 1, MOST = 8 };

static const MetricId tellings[] = {METRIC_GPU_RECOVERY_ACTION, METRIC_ECC_DBE_VOL_TOTAL, METRIC_ROW_REMAP_PENDING,
                                    METRIC_RETIRED_PENDING};

/* All is well on every GPU, and was read now. */
static void read_well(Kit *kit)
{
    for (int g = 0; g < KIT_GPUS; g++) {
        kit->gpus[g].last_sample_ns = kit->now_ns;
        for (size_t i = 0; i < sizeof tellings / sizeof tellings[0]; i++)
            sample_set_int64(&kit->gpus[g].reading.sample[tellings[i]], kit->now_ns, 0);
    }
}

static void say_before(Kit *kit, int gpu, int32_t code, uint64_t ago)
{
    Event event = kit_xid(kit, gpu, code);

    event.before = true;
    event.time_ns -= ago;
    event.real_ns -= ago;
    kit_give(kit, &event);
}

/* All was read, and then some. */
static void tick_for(Kit *kit, uint64_t seconds, bool reads)
{
    for (uint64_t i = 0; i < seconds; i++) {
        kit_advance(kit, SECOND);
        if (reads)
            read_well(kit);
        kit_tick(kit, 0);
    }
}

static void what_was_repaired_before_the_start_is_told_to_nobody(void **state)
{
    Kit *kit = *state;

    read_well(kit);
    say_before(kit, 3, 79, HOUR);
    say_before(kit, 5, 119, HOUR - MINUTE);
    say_before(kit, 5, 154, HOUR - MINUTE);
    say_before(kit, 1, 48, HOUR - 2 * MINUTE);
    say_before(kit, 1, 63, HOUR - 2 * MINUTE);
    say_before(kit, 2, 94, HOUR - 3 * MINUTE);
    say_before(kit, 4, 74, HOUR - 4 * MINUTE);
    say_before(kit, 6, 46, HOUR - 5 * MINUTE);
    tick_for(kit, 100, true);
    assert_int_equal(kit->told_count, 0);
    assert_int_equal(incidents_count(kit->incidents), 0); /* nor is any of it held back */
    kit_say(kit, 5, 119);                                 /* and once more, now: that is another thing */
    assert_int_equal(kit_told(kit, INCIDENT_CHANGE_OPENED, "gsp-failure"), 1);
    assert_false(kit_open_one(kit, "gsp-failure", 5)->before);
}

/* One line from an hour ago; what is told two seconds after it was read, and after more than the longest wait. */
static void play_line(int32_t code, void (*change)(Kit *kit, int with), int with, size_t ret_told[2])
{
    Kit kit;

    kit_init(&kit);
    for (uint64_t i = 0; i < 100; i++) {
        kit_advance(&kit, SECOND);
        read_well(&kit);
        change(&kit, with);
        kit_tick(&kit, 0);
        if (i == 0)
            say_before(&kit, GPU, code, HOUR);
        if (i == 4)
            ret_told[0] = kit.told_count;
    }
    ret_told[1] = kit.told_count;
    kit_done(&kit);
}

static void assert_line(int32_t code, void (*change)(Kit *kit, int with), int with, size_t soon, size_t late)
{
    size_t told[2];

    play_line(code, change, with, told);
    if (told[0] != soon || told[1] != late)
        fail_msg("XID %d with %d: %zu told soon, %zu late", code, with, told[0], told[1]);
}

static void set_reading(Kit *kit, int with)
{
    sample_set_int64(&kit->gpus[GPU].reading.sample[tellings[with]], kit->now_ns, 1);
}

static void set_other_reading(Kit *kit, int with)
{
    sample_set_int64(&kit->gpus[GPU + 1].reading.sample[tellings[with]], kit->now_ns, 1);
}

/* The driver's word counts for all, the memory's for the memory; another GPU's for none. */
static void what_a_reading_speaks_for_stands(void **state)
{
    static const struct {
        int32_t code;
        bool memory;
    } rows[] = {{119, false}, {74, false}, {46, false}, {48, true}, {63, true}};

    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++)
        for (int i = 0; i < 4; i++) {
            const bool speaks = i == 0 || rows[r].memory;

            assert_line(rows[r].code, set_reading, i, speaks, speaks);
            assert_line(rows[r].code, set_other_reading, i, 0, 0);
        }
}

static void set_state(Kit *kit, int with)
{
    kit->gpus[GPU].state = (GpuState)with;
}

static void what_does_not_answer_stands(void **state)
{
    static const GpuState down[] = {GPU_LOST, GPU_HUNG, GPU_FAILED, GPU_MISSING, GPU_GONE};
    static const GpuState unknown[] = {GPU_STARTING, GPU_NO_DRIVER, GPU_RELEASED};

    (void)state;
    for (size_t i = 0; i < sizeof down / sizeof down[0]; i++)
        assert_line(119, set_state, (int)down[i], 1, 1);
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++)
        assert_line(119, set_state, (int)unknown[i], 0, 1);
    assert_line(119, set_state, GPU_UP, 0, 0);
}

static void take_reading(Kit *kit, int with)
{
    const Absence why = (Absence)with;

    for (size_t i = 0; i < sizeof tellings / sizeof tellings[0]; i++)
        sample_set_absent(&kit->gpus[GPU].reading.sample[tellings[i]], kit->now_ns, why);
}

/* An old driver has no recovery action: firmware that answers is refuted by that, the others by nothing. */
static void where_nothing_can_be_read_the_line_stands(void **state)
{
    (void)state;
    assert_line(119, take_reading, ABSENCE_DRIVER_LACKS, 0, 0);
    assert_line(79, take_reading, ABSENCE_DRIVER_LACKS, 0, 0);
    assert_line(48, take_reading, ABSENCE_DRIVER_LACKS, 1, 1);
    assert_line(74, take_reading, ABSENCE_DRIVER_LACKS, 1, 1);
    assert_line(48, take_reading, ABSENCE_NOT_YET, 0, 1);
    assert_line(119, take_reading, ABSENCE_NOT_YET, 0, 1);
}

static void take_action_alone(Kit *kit, int with)
{
    (void)with;
    sample_set_absent(&kit->gpus[GPU].reading.sample[METRIC_GPU_RECOVERY_ACTION], kit->now_ns, ABSENCE_DRIVER_LACKS);
}

static void a_count_of_none_is_proof_for_memory(void **state)
{
    (void)state;
    assert_line(48, take_action_alone, 0, 0, 0);
    assert_line(74, take_action_alone, 0, 1, 1);
}

/* What only another board ends, no reading of this one does. */
static void what_needs_another_board_stands(void **state)
{
    (void)state;
    assert_line(64, set_state, GPU_UP, 1, 1);
}

static NodeLink links[2];

static void take_link(Kit *kit, int with)
{
    for (int i = 0; i < 2; i++)
        sample_set_int64(&links[i].active, kit->now_ns, i != with);
    kit->gpus[GPU].links = links;
    kit->gpus[GPU].link_count = 2;
}

static void a_link_that_is_down_speaks(void **state)
{
    (void)state;
    assert_line(74, take_link, 1, 1, 1);
    assert_line(119, take_link, 1, 0, 0);
    assert_line(74, take_link, 2, 0, 0);
}

/* A reading from about the fault's own time says nothing yet: the next one does. */
static void a_reading_must_be_later_than_the_fault(void **state)
{
    Kit *kit = *state;

    read_well(kit);
    kit_tick(kit, 0);
    say_before(kit, GPU, 48, SECOND);
    tick_for(kit, 8, false);
    assert_int_equal(incidents_count(kit->incidents), 1);
    tick_for(kit, 2, true);
    assert_int_equal(kit->told_count, 0);
    assert_int_equal(incidents_count(kit->incidents), 0);

    say_before(kit, GPU + 1, 48, SECOND);
    tick_for(kit, 45, false);
    assert_int_equal(kit->told_count, 0);
    tick_for(kit, 15, false); /* it does not come */
    assert_int_equal(kit->told_count, 1);
}

/* It is said again while the readings are waited for. */
static void what_goes_on_is_told_at_once(void **state)
{
    Kit *kit = *state;

    say_before(kit, GPU, 119, HOUR);
    kit->gpus[GPU].state = GPU_STARTING;
    tick_for(kit, 5, true);
    assert_int_equal(kit->told_count, 0);
    kit_say(kit, GPU, 119);
    assert_int_equal(kit_open_one(kit, "gsp-failure", GPU)->count, 2);
}

static void a_fabric_is_judged_by_all_its_gpus(void **state)
{
    (void)state;
    for (int with = 0; with < 2; with++) {
        Event event;
        Kit kit;

        kit_init(&kit);
        read_well(&kit);
        kit_tick(&kit, 0);
        event = kit_xid(&kit, GPU, 20034);
        event.kind = EVENT_SXID;
        event.before = true;
        event.time_ns -= HOUR;
        event.real_ns -= HOUR;
        kit_give(&kit, &event);
        if (with)
            set_reading(&kit, 0);
        tick_for(&kit, 5, false);
        assert_int_equal(kit.told_count, with);
        kit_done(&kit);
    }
}

/* --- from the journal --- */

/* The agent is started anew, an hour later. */
static void restart(const Kit *from, Kit *to)
{
    Incident kept[MOST];
    size_t count = 0;

    for (size_t i = 0; i < incidents_count(from->incidents) && count < MOST; i++)
        if (incidents_at(from->incidents, i)->state != INCIDENT_PENDING)
            kept[count++] = *incidents_at(from->incidents, i);
    kit_init(to);
    to->now_ns = from->now_ns + HOUR;
    to->real_ns = from->real_ns + HOUR;
    incidents_restore(to->incidents, kept, count, to->now_ns, to->real_ns);
}

static void what_the_driver_asked_for_and_no_longer_does_is_over(void **state)
{
    Kit *kit = *state, next;

    kit_say(kit, GPU, 119);
    kit_say(kit, GPU, 154);
    kit_say(kit, 2, 119); /* here it asked for nothing: its silence is no news */
    restart(kit, &next);
    tick_for(&next, 5, true);
    assert_int_equal(kit_find(&next, "gsp-failure", GPU)->end, INCIDENT_END_RESET);
    kit_open_one(&next, "gsp-failure", 2);
    assert_int_equal(next.told_count, 1);
    kit_done(&next);
}

static void what_it_still_asks_for_goes_on(void **state)
{
    Kit *kit = *state, next;

    kit_say(kit, GPU, 119);
    kit_say(kit, GPU, 154);
    restart(kit, &next);
    for (int i = 0; i < 100; i++) {
        kit_advance(&next, SECOND);
        read_well(&next);
        set_reading(&next, 0);
        kit_tick(&next, 0);
    }
    kit_open_one(&next, "gsp-failure", GPU);
    assert_int_equal(next.told_count, 0);
    kit_done(&next);
}

/* The counter that stood in the incident says whether the memory was reset. */
static void a_count_that_began_anew_ends_it(void **state)
{
    Kit *kit = *state, next;
    Evidence evidence = {.verdict = fault_verdict(double_condition("ecc-uncorrectable")), .pid = -1};

    for (int gpu = GPU; gpu <= GPU + 1; gpu++) {
        evidence.time_ns = kit->now_ns;
        evidence.real_ns = kit->real_ns;
        device_init(&evidence.device, DEVICE_GPU);
        evidence.device.has_pci = true;
        evidence.device.pci = kit_pci(gpu);
        evidence.counter_count = gpu == GPU; /* the other came by a line alone */
        evidence.counters[0] = (IncidentCounter){"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", 0, 2};
        incidents_add_evidence(kit->incidents, &evidence);
    }
    kit_turn(kit);
    restart(kit, &next);
    tick_for(&next, 5, true);
    assert_int_equal(kit_find(&next, "ecc-uncorrectable", GPU)->end, INCIDENT_END_RESET);
    kit_open_one(&next, "ecc-uncorrectable", GPU + 1);
    kit_done(&next);
}

/* The first look after a restart at a count that was told, and maybe cleared by hand, before. */
static void a_count_that_is_known_is_no_news(void **state)
{
    static const struct {
        bool cleared;
        double before, after;
        size_t told;
    } rows[] = {{false, NAN, 2, 0}, {true, NAN, 2, 0}, {true, NAN, 3, 1}, {true, NAN, 1, 1}, {true, 1, 2, 1}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        Evidence evidence = {
            .verdict = fault_verdict(double_condition("ecc-uncorrectable")), .pid = -1, .counter_count = 1};
        Kit kit, next;

        kit_init(&kit);
        kit_tick(&kit, 0);
        device_init(&evidence.device, DEVICE_GPU);
        evidence.device.has_pci = true;
        evidence.device.pci = kit_pci(GPU);
        evidence.time_ns = kit.now_ns;
        evidence.real_ns = kit.real_ns;
        evidence.counters[0] = (IncidentCounter){"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", 0, 2};
        incidents_add_evidence(kit.incidents, &evidence);
        kit_turn(&kit);
        if (rows[i].cleared)
            incidents_clear(kit.incidents, kit_open_one(&kit, "ecc-uncorrectable", GPU)->id, "eve", kit.now_ns,
                            kit.real_ns, NULL);
        restart(&kit, &next);
        kit_tick(&next, 0);
        evidence.time_ns = next.now_ns;
        evidence.real_ns = next.real_ns;
        evidence.counters[0].before = rows[i].before;
        evidence.counters[0].after = rows[i].after;
        incidents_add_evidence(next.incidents, &evidence);
        kit_tick(&next, SECOND);
        if (next.told_count != rows[i].told)
            fail_msg("row %zu: %zu told", i, next.told_count);
        kit_done(&kit);
        kit_done(&next);
    }
}

/* In one life of the agent only a reset that it sees ends what it told. */
static void what_came_since_the_start_is_not_judged_so(void **state)
{
    Kit *kit = *state;

    read_well(kit);
    kit_tick(kit, 0);
    kit_say(kit, GPU, 119);
    kit_say(kit, GPU, 154);
    tick_for(kit, 200, true);
    kit_open_one(kit, "gsp-failure", GPU);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_repaired_before_the_start_is_told_to_nobody, kit_open, kit_close),
        cmocka_unit_test(what_a_reading_speaks_for_stands),
        cmocka_unit_test(what_does_not_answer_stands),
        cmocka_unit_test(where_nothing_can_be_read_the_line_stands),
        cmocka_unit_test(a_count_of_none_is_proof_for_memory),
        cmocka_unit_test(what_needs_another_board_stands),
        cmocka_unit_test(a_link_that_is_down_speaks),
        cmocka_unit_test_setup_teardown(a_reading_must_be_later_than_the_fault, kit_open, kit_close),
        cmocka_unit_test_setup_teardown(what_goes_on_is_told_at_once, kit_open, kit_close),
        cmocka_unit_test(a_fabric_is_judged_by_all_its_gpus),
        cmocka_unit_test_setup_teardown(what_the_driver_asked_for_and_no_longer_does_is_over, kit_open, kit_close),
        cmocka_unit_test_setup_teardown(what_it_still_asks_for_goes_on, kit_open, kit_close),
        cmocka_unit_test_setup_teardown(a_count_that_began_anew_ends_it, kit_open, kit_close),
        cmocka_unit_test(a_count_that_is_known_is_no_news),
        cmocka_unit_test_setup_teardown(what_came_since_the_start_is_not_judged_so, kit_open, kit_close),
    };

    return cmocka_run_group_tests_name("health incidents_past", tests, NULL, NULL);
}
