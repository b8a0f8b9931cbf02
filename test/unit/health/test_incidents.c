/* SPDX-License-Identifier: Apache-2.0 */
/* One incident per fault and thing: keys, bursts, echoes, the driver's own verdict, two sources (engine/health/
 * incidents_take.c, incidents_grow.c, incidents_add_event.c, incidents_key.c). */
#include <math.h>

#include "kit.h"

#define NO_LINK DEVICE_NO_NUMBER

static void an_xid_opens_one_incident_with_its_words(void **state)
{
    Kit *kit = *state;
    const Incident *it;

    kit_say(kit, 3, 79);
    assert_int_equal(kit->told_count, 1);
    it = kit_open_one(kit, "gpu-lost", 3);
    assert_string_equal(it->title, "GPU 3 (0000:13:00.0) has fallen off the bus");
    assert_string_equal(it->verdict, "XID 79 in the kernel log at 00:00:00 UTC. Do as the page of gpu-lost says.");
    assert_string_equal(it->device.uuid, "GPU-00000003");
    assert_string_equal(it->driver_version, "570.86.15");
    assert_string_equal(it->rule, "xid-79");
    assert_int_equal(it->severity, SEVERITY_FATAL);
    assert_int_equal(it->route, ROUTE_PAGE);
    assert_int_equal(it->count, 1);
    assert_false(it->before);
}

static void a_burst_is_counted_and_told_once_a_minute(void **state)
{
    Kit *kit = *state;
    const Incident *it;

    for (int i = 0; i < 5000; i++) { /* 8 minutes and 20 seconds */
        kit_advance(kit, SECOND / 10);
        kit_say(kit, 1, 119);
    }
    it = kit_open_one(kit, "gsp-failure", 1);
    assert_int_equal(it->count, 5000);
    assert_int_equal(kit_told(kit, INCIDENT_CHANGE_OPENED, NULL), 1);
    assert_int_equal(kit_told(kit, INCIDENT_CHANGE_UPDATED, NULL), 8);
    assert_int_equal(kit->told_count, 9);
    assert_int_equal(it->first_len, INCIDENT_FIRST);
    assert_int_equal(it->last_len, INCIDENT_LAST);
    assert_true(it->last[INCIDENT_LAST - 1].real_ns == kit->real_ns);
}

static void every_45_seconds_is_one_incident(void **state)
{
    Kit *kit = *state;

    for (int i = 0; i < 200; i++) {
        kit_say(kit, 4, 119);
        for (int s = 0; s < 45; s++)
            kit_tick(kit, SECOND);
    }
    assert_int_equal(kit_told(kit, INCIDENT_CHANGE_OPENED, NULL), 1);
    assert_int_equal(kit_told(kit, INCIDENT_CHANGE_CLEARED, NULL), 0);
    assert_int_equal(kit_open_one(kit, "gsp-failure", 4)->count, 200);
}

static void a_lost_gpu_takes_what_follows(void **state)
{
    Kit *kit = *state;
    const Incident *it;
    Event recovery;

    kit_say(kit, 2, 79);
    for (int i = 0; i < 45; i++)
        kit_say(kit, 2, 45);
    kit_say(kit, 2, 119);
    recovery = kit_xid(kit, 2, 154);
    recovery.recovery_action = 2;
    kit_give(kit, &recovery);
    kit_turn(kit);
    it = kit_open_one(kit, "gpu-lost", 2);
    assert_int_equal(it->count, 1);
    assert_int_equal(it->echo_count, 47);
    assert_int_equal(it->code_count, 4);
    assert_int_equal(it->action,
                     ACTION_DRAIN_AND_REBOOT); /* as deep as the driver says; to drain first is the class's */
    assert_int_equal(kit_open_count(kit), 1);
    assert_int_equal(kit_told(kit, INCIDENT_CHANGE_OPENED, NULL), 1);
    assert_int_equal(it->first[0].code, 79);
    assert_false(it->first[0].echo);
    assert_true(it->first[1].echo);
    kit_tick(kit, MINUTE);
    assert_string_equal(it->verdict, "XID 79 in the kernel log at 00:00:00 UTC; with XID 45, 119, 154. "
                                     "Do as the page of gpu-lost says.");
    Incident bare = *it; /* of which no evidence was kept */
    bare.first_len = 0;
    incident_text(&bare, double_class_at(0));
    assert_string_equal(bare.verdict, "XID 45, 119, 154. Do as the page of gpu-lost says.");
}

static void another_gpu_is_another_incident(void **state)
{
    Kit *kit = *state;

    kit_say(kit, 2, 79);
    kit_say(kit, 3, 119);
    assert_int_equal(kit_open_count(kit), 2);
    assert_int_equal(kit_open_one(kit, "gpu-lost", 2)->echo_count, 0);
}

static void long_after_the_parent_it_is_no_echo(void **state)
{
    Kit *kit = *state;

    kit_say(kit, 2, 48);
    kit_tick(kit, 61 * SECOND);
    kit_say(kit, 2, 63);
    assert_int_equal(kit_open_count(kit), 2);
}

static void what_came_first_goes_under_its_parent(void **state)
{
    Kit *kit = *state;
    const Incident *it;
    size_t at;

    kit_say(kit, 2, 63);
    kit_advance(kit, 5 * SECOND);
    at = kit->told_count;
    kit_say(kit, 2, 48);
    assert_int_equal(kit->told_count, at + 2);
    assert_int_equal(kit->told[at].change, INCIDENT_CHANGE_OPENED);
    assert_string_equal(kit->told[at].incident.class, "ecc-uncorrectable");
    assert_int_equal(kit->told[at + 1].change, INCIDENT_CHANGE_CLEARED);
    assert_int_equal(kit->told[at + 1].incident.end, INCIDENT_END_MERGED);
    it = kit_open_one(kit, "ecc-uncorrectable", 2);
    assert_int_equal(it->echo_count, 1);
    assert_int_equal(it->action, ACTION_DRAIN_AND_RESET);
    assert_int_equal(it->first[0].code, 63); /* evidence in the order of time */
    assert_int_equal(kit_open_count(kit), 1);
}

/* A condition that went under its parent keeps the parent near for as long as it holds, and is one echo of it. */
static void what_holds_under_a_parent_keeps_it_near(void **state)
{
    Kit *kit = *state;
    const Incident *it;

    kit_hold_for(kit, "row-remap-pending", 2, NO_LINK, 5 * SECOND);
    kit_say(kit, 2, 48);
    kit_hold_for(kit, "row-remap-pending", 2, NO_LINK, 3 * MINUTE);
    it = kit_open_one(kit, "ecc-uncorrectable", 2);
    assert_int_equal(it->echo_count, 1);
    kit_tick(kit, 59 * SECOND);
    kit_say(kit, 2, 94);
    assert_int_equal(kit_open_count(kit), 1);
    assert_int_equal(it->echo_count, 2);
    assert_int_equal(it->count, 1);
}

static void an_incident_hits_its_gpu_alone(void **state)
{
    Kit *kit = *state;
    Device gpu, bare;
    Incident it;

    kit_say(kit, 2, 79);
    it = *kit_open_one(kit, "gpu-lost", 2);
    device_init(&bare, DEVICE_GPU);
    gpu = bare;
    gpu.has_pci = true;
    gpu.pci = kit_pci(2);
    assert_true(incident_hits(&it, &gpu));
    assert_false(incident_hits(&it, &bare));
    gpu.pci = kit_pci(3);
    assert_false(incident_hits(&it, &gpu));
    it.scope = SCOPE_FABRIC;
    assert_true(incident_hits(&it, &gpu) && incident_hits(&it, &bare));
    it.scope = SCOPE_GPU;
    it.device = bare; /* of a GPU, and nobody knows of which one */
    assert_false(incident_hits(&it, &gpu));
    assert_false(incident_hits(&it, &bare));
    it.device.kind = DEVICE_NODE;
    assert_true(incident_hits(&it, &gpu) && incident_hits(&it, &bare));
}

static void what_was_told_as_worse_stays(void **state)
{
    Kit *kit = *state;

    kit_say(kit, 2, 64);
    kit_advance(kit, 5 * SECOND);
    kit_say(kit, 2, 48);
    assert_int_equal(kit_open_count(kit), 2);
    assert_int_equal(kit_told(kit, INCIDENT_CHANGE_CLEARED, NULL), 0);
}

static void what_was_read_in_one_go_is_told_once(void **state)
{
    Kit *kit = *state;
    static const int32_t codes[] = {63, 45, 94, 171, 172, 48, 95};

    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        Event event = kit_xid(kit, 5, codes[i]);

        kit_give(kit, &event);
    }
    assert_int_equal(kit->told_count, 0);
    kit_turn(kit);
    assert_int_equal(kit->told_count, 1);
    assert_int_equal(kit_open_one(kit, "ecc-uncorrectable", 5)->count, 4);
    assert_int_equal(kit_open_one(kit, "ecc-uncorrectable", 5)->echo_count, 3);
    assert_int_equal(kit_open_one(kit, "ecc-uncorrectable", 5)->code_count, 7);
}

static void what_is_explained_makes_nothing_worse(void **state)
{
    Kit *kit = *state;
    const Incident *it;

    kit_app(kit, 1, 94, 4711, "python");
    kit_hold(kit, "ecc-uncorrectable", 1, DEVICE_NO_NUMBER);
    kit_turn(kit);
    assert_null(kit_find(kit, "ecc-uncorrectable", 1));
    it = kit_open_one(kit, "ecc-contained", 1);
    assert_int_equal(it->echo_count, 1);
    assert_int_equal(it->action, ACTION_RESTART_APP);
    assert_int_equal(it->route, ROUTE_USER);
    kit_hold(kit, "ecc-uncorrectable", 2, DEVICE_NO_NUMBER); /* nobody has explained this one */
    kit_turn(kit);
    kit_open_one(kit, "ecc-uncorrectable", 2);
    kit_say(kit, 1, 95); /* and this is no echo of what went before */
    assert_int_equal(kit_open_one(kit, "ecc-uncorrectable", 1)->route, ROUTE_TICKET);
}

/* An agent that was started later sees a count that is not zero, and not since when. */
static void a_count_of_before_is_explained_at_any_time(void **state)
{
    const uint64_t later[] = {10 * MINUTE, 2 * HOUR}; /* it stands; it is quiet since an hour */
    Kit *kit = *state;
    Evidence evidence = {
        .verdict = fault_verdict(double_condition("ecc-uncorrectable")), .pid = -1, .counter_count = 1};

    kit_app(kit, 1, 94, 4711, "python");
    for (size_t i = 0; i < sizeof later / sizeof later[0]; i++) {
        kit_tick(kit, later[i]);
        for (int gpu = 1; gpu <= 2; gpu++) {
            device_init(&evidence.device, DEVICE_GPU);
            evidence.device.has_pci = true;
            evidence.device.pci = kit_pci(gpu);
            evidence.time_ns = kit->now_ns;
            evidence.real_ns = kit->real_ns;
            evidence.counters[0] = (IncidentCounter){"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", NAN, 1};
            incidents_add_evidence(kit->incidents, &evidence);
        }
        kit_turn(kit);
        assert_null(kit_find(kit, "ecc-uncorrectable", 1));
        kit_open_one(kit, "ecc-uncorrectable", 2); /* nobody has explained this one */
    }
    assert_int_equal(kit_find(kit, "ecc-contained", 1)->state, INCIDENT_CLEARED);
}

static void a_worse_echo_escalates_its_parent(void **state)
{
    Kit *kit = *state;
    const Incident *it;

    kit_say(kit, 5, 48);
    assert_int_equal(kit_open_one(kit, "ecc-uncorrectable", 5)->route, ROUTE_TICKET);
    kit_say(kit, 5, 64);
    it = kit_open_one(kit, "ecc-uncorrectable", 5);
    assert_int_equal(it->severity, SEVERITY_FATAL);
    assert_int_equal(it->action, ACTION_DRAIN_AND_RMA);
    assert_int_equal(it->route, ROUTE_PAGE);
    assert_int_equal(it->escalations, 1);
    assert_int_equal(kit_told(kit, INCIDENT_CHANGE_ESCALATED, NULL), 1);
    assert_non_null(strstr(it->verdict, "Do: Drain and replace this GPU."));
    kit_say(kit, 5, 94); /* a milder one does not lower it */
    assert_int_equal(kit_open_one(kit, "ecc-uncorrectable", 5)->action, ACTION_DRAIN_AND_RMA);
    assert_int_equal(kit_told(kit, INCIDENT_CHANGE_ESCALATED, NULL), 1);
}

static void a_storm_of_45_is_nobodys_business(void **state)
{
    Kit *kit = *state;

    for (int i = 0; i < 13120; i++) {
        Event event = kit_xid(kit, i % KIT_GPUS, 45);

        event.pid = i;
        if (i % 100 == 0)
            kit_tick(kit, SECOND / 10);
        kit_give(kit, &event);
    }
    kit_turn(kit);
    assert_int_equal(kit->told_count, 0);
    assert_int_equal(kit_open_count(kit), 0);
    assert_true(incidents_count(kit->incidents) <= KIT_GPUS);
    kit_tick(kit, 2 * MINUTE);
    assert_int_equal(incidents_count(kit->incidents), 0);
}

static void a_storm_of_45_before_its_cause_is_counted_there(void **state)
{
    Kit *kit = *state;
    const Incident *it;

    for (int i = 0; i < 500; i++)
        kit_say(kit, 6, 45);
    kit_advance(kit, SECOND);
    kit_say(kit, 6, 79);
    it = kit_open_one(kit, "gpu-lost", 6);
    assert_int_equal(it->echo_count, 500);
    assert_int_equal(kit->told_count, 1);
    assert_int_equal(it->severity, SEVERITY_FATAL);
}

static void a_45_goes_where_it_says(void **state)
{
    Kit *kit = *state;
    Event event;

    event = kit_xid(kit, 1, 149);
    event.link = 8;
    kit_give(kit, &event);
    kit_say(kit, 1, 48);
    kit_advance(kit, 3 * MINUTE); /* too late for an echo that says nothing */
    event = kit_xid(kit, 1, 45);
    event.caused_by = 149;
    kit_give(kit, &event);
    kit_turn(kit);
    assert_int_equal(kit_open_one(kit, "nvlink-down", 1)->echo_count, 1);
    assert_int_equal(kit_open_one(kit, "ecc-uncorrectable", 1)->echo_count, 0);
}

static void a_fatal_switch_is_one_incident_of_the_node(void **state)
{
    Kit *kit = *state;
    Event event;
    const Incident *it;

    event = kit_xid(kit, 0, 74); /* one GPU is quicker than the switch's line */
    event.link = 9;
    kit_give(kit, &event);
    kit_turn(kit);
    kit_advance(kit, SECOND);
    event_init(&event, EVENT_SXID, EVENT_FROM_KMSG);
    event.time_ns = kit->now_ns;
    event.real_ns = kit->real_ns;
    event.has_pci = true;
    event.pci = (PciAddress){0, 0xc1, 0, 0};
    event.code = 20034;
    event.link = 33;
    kit_give(kit, &event);
    kit_turn(kit);
    for (int i = 0; i < KIT_GPUS; i++) {
        for (uint32_t link = 0; link < 18; link++) {
            event = kit_xid(kit, i, 74);
            event.link = link;
            kit_give(kit, &event);
        }
        kit_say(kit, i, 45);
    }
    kit_hold_for(kit, "fabric", -1, NO_LINK, 10 * MINUTE);
    assert_int_equal(kit_open_count(kit), 1);
    it = kit_find(kit, "nvswitch", -1);
    assert_non_null(it);
    assert_int_equal(it->count, 1);
    assert_int_equal(it->echo_count, 1 + KIT_GPUS * 19 + 1);
    assert_string_equal(it->title, "Switch 0000:c1:00.0 has failed");
    assert_int_equal(kit_told(kit, INCIDENT_CHANGE_OPENED, NULL), 2); /* the early one was told, and merged */
    for (int i = 0; i < KIT_GPUS; i++) {                              /* every GPU was reset */
        event = kit_xid(kit, i, 0);
        event.kind = EVENT_RESET;
        event.origin = EVENT_FROM_AGENT;
        kit_give(kit, &event);
        assert_int_equal(kit_open_count(kit), i < KIT_GPUS - 1);
    }
}

static void links_of_one_gpu_are_two_things(void **state)
{
    Kit *kit = *state;
    Event event = kit_xid(kit, 1, 74);

    event.link = 3;
    kit_give(kit, &event);
    kit_turn(kit);
    kit_hold_for(kit, "nvlink-errors", 1, 4, 2 * MINUTE); /* another link: not its echo */
    assert_int_equal(kit_open_count(kit), 2);
    kit_hold_for(kit, "nvlink-errors", 1, 3, 90 * SECOND); /* long after: not either */
    assert_int_equal(kit_open_count(kit), 3);
    assert_string_equal(kit_open_one(kit, "nvlink-down", 1)->title, "NVLink 3 of GPU 1 (0000:11:00.0) is down");
}

static void a_link_to_a_lost_neighbour_is_an_echo(void **state)
{
    Kit *kit = *state;
    Event event = kit_xid(kit, 1, 74);

    kit_say(kit, 0, 79);
    event.link = 3;
    kit_give(kit, &event);
    kit_turn(kit);
    assert_int_equal(kit_open_count(kit), 1);
    kit_advance(kit, 5 * MINUTE); /* a fault of its own */
    event = kit_xid(kit, 1, 74);
    event.link = 4;
    kit_give(kit, &event);
    kit_turn(kit);
    assert_int_equal(kit_open_count(kit), 2);
}

static void a_link_class_without_a_link_falls_to_the_gpu(void **state)
{
    Kit *kit = *state;

    kit_say(kit, 1, 74);
    assert_int_equal(kit_open_one(kit, "nvlink-down", 1)->device.kind, DEVICE_GPU);
}

static void programs_and_instances_are_keys_where_the_class_says(void **state)
{
    Kit *kit = *state;
    Event event = kit_xid(kit, 1, 31);

    kit_app(kit, 1, 31, 100, "python");
    kit_app(kit, 1, 31, 101, "python"); /* the same program again */
    kit_app(kit, 1, 13, 101, "python"); /* another code */
    kit_app(kit, 1, 13, 200, "vllm");   /* another program */
    assert_int_equal(kit_open_count(kit), 3);
    event.gpu_instance = 5;
    event.compute_instance = 0;
    strcpy(event.process, "python");
    kit_give(kit, &event);
    kit_turn(kit);
    assert_int_equal(kit_open_count(kit), 4);
    assert_int_equal(kit_find(kit, "app-fault", 1)->device.kind, DEVICE_COMPUTE_INSTANCE);
    assert_string_equal(kit_find(kit, "app-fault", 1)->device.parent_uuid, "GPU-00000001");
    assert_string_equal(kit_find(kit, "app-fault", 1)->title,
                        "MIG instance 5/0 of GPU 1 (0000:11:00.0): a program failed (XID 31, python)");
}

static void the_drivers_word_opens_where_nothing_is_known(void **state)
{
    Kit *kit = *state;
    Event event = kit_xid(kit, 1, 154);

    event.recovery_action = 4;
    kit_give(kit, &event);
    kit_turn(kit);
    assert_int_equal(kit_open_one(kit, "reset-required", 1)->action, ACTION_DRAIN_AND_RESET);
    event.time_ns = kit->now_ns += SECOND;
    event.recovery_action = 2;
    kit_give(kit, &event);
    kit_turn(kit);
    assert_int_equal(kit_open_one(kit, "reset-required", 1)->action, ACTION_DRAIN_AND_REBOOT);
    assert_int_equal(kit_told(kit, INCIDENT_CHANGE_ESCALATED, NULL), 1);
    event.time_ns = kit->now_ns += SECOND;
    event.recovery_action = 0; /* taken back */
    kit_give(kit, &event);
    assert_int_equal(kit_open_count(kit), 0);
}

static void the_drivers_none_opens_nothing(void **state)
{
    Kit *kit = *state;
    Event event = kit_xid(kit, 1, 154);

    event.recovery_action = 0;
    kit_give(kit, &event);
    kit_turn(kit);
    assert_int_equal(kit->told_count, 0);
}

static void the_drivers_word_is_not_the_programs(void **state)
{
    Kit *kit = *state;
    Event event = kit_xid(kit, 1, 154);

    kit_app(kit, 1, 31, 100, "python");
    event.recovery_action = 1;
    kit_give(kit, &event);
    kit_turn(kit);
    assert_int_equal(kit_open_one(kit, "app-fault", 1)->action, ACTION_CHECK_APP);
    assert_int_equal(kit_open_one(kit, "reset-required", 1)->action, ACTION_RESET_GPU);
}

static void the_state_and_the_line_are_one(void **state)
{
    Kit *kit = *state;
    const Incident *it;

    kit_say(kit, 1, 79);
    kit->gpus[1].state = GPU_LOST;
    kit_hold_for(kit, "gpu-lost", 1, NO_LINK, MINUTE);
    it = kit_open_one(kit, "gpu-lost", 1);
    assert_int_equal(it->count, 2);
    assert_int_equal(kit_told(kit, INCIDENT_CHANGE_OPENED, NULL), 1);
    assert_non_null(strstr(it->verdict, "XID 79 in the kernel log at 00:00:00 UTC"));
    kit_tick(kit, 2 * MINUTE);
    assert_non_null(strstr(kit_find(kit, "gpu-lost", 1)->verdict, "then gpu-lost holds at 00:00:01 UTC"));
}

static void a_check_on_trial_tells_nobody_and_takes_nothing(void **state)
{
    Kit *kit = *state;

    kit_say(kit, 1, 109);
    assert_int_equal(kit_open_one(kit, "trial", 1)->route, ROUTE_NONE);
    kit_say(kit, 1, 110);
    assert_int_equal(kit_open_one(kit, "under-trial", 1)->route, ROUTE_TICKET);
    kit_say(kit, 1, 120); /* a class that is off */
    assert_int_equal(kit_open_count(kit), 2);
}

static void unknown_codes_are_kept(void **state)
{
    Kit *kit = *state;

    kit_say(kit, 1, 990);
    kit_say(kit, 1, 991);
    assert_int_equal(kit_open_count(kit), 2);
}

/* --- which parent ------------------------------------------------------------------------------------------------- */

static void say_on_switch(Kit *kit)
{
    Event event;

    event_init(&event, EVENT_SXID, EVENT_FROM_KMSG);
    event.time_ns = kit->now_ns;
    event.real_ns = kit->real_ns;
    event.has_pci = true;
    event.pci = (PciAddress){0, 0xc1, 0, 0};
    event.code = 20034;
    kit_give(kit, &event);
    kit_turn(kit);
}

/* An XID 45 of GPU 1, which several open incidents explain. */
static void say_echo(Kit *kit, int32_t caused_by)
{
    Event event = kit_xid(kit, 1, 45);

    event.caused_by = caused_by;
    kit_give(kit, &event);
    kit_turn(kit);
}

static void the_parent_that_is_named_comes_before_a_worse_one(void **state)
{
    Kit *kit = *state;

    kit_say(kit, 1, 48);
    kit_advance(kit, SECOND);
    kit_say(kit, 1, 119);
    say_echo(kit, 48);
    assert_int_equal(kit_open_one(kit, "ecc-uncorrectable", 1)->echo_count, 1);
    assert_int_equal(kit_open_one(kit, "gsp-failure", 1)->echo_count, 0);
}

static void the_parent_on_the_same_gpu_comes_before_that_of_the_node(void **state)
{
    Kit *kit = *state;

    kit_say(kit, 1, 48);
    kit_advance(kit, SECOND);
    say_on_switch(kit); /* worse and later */
    say_echo(kit, 0);
    assert_int_equal(kit_open_one(kit, "ecc-uncorrectable", 1)->echo_count, 1);
    assert_int_equal(kit_find(kit, "nvswitch", -1)->echo_count, 0);
}

static void the_worse_parent_comes_before_the_later_one(void **state)
{
    Kit *kit = *state;

    kit_say(kit, 1, 119);
    kit_advance(kit, SECOND);
    kit_say(kit, 1, 48);
    say_echo(kit, 0);
    assert_int_equal(kit_open_one(kit, "gsp-failure", 1)->echo_count, 1);
    assert_int_equal(kit_open_one(kit, "ecc-uncorrectable", 1)->echo_count, 0);
}

static void of_two_parents_that_are_as_bad_the_later_one_takes_it(void **state)
{
    static const int32_t orders[][2] = {{48, 74}, {74, 48}};

    for (int i = 0; i < 2; i++) {
        Kit kit;

        (void)state;
        kit_init(&kit);
        kit_tick(&kit, 0);
        kit_say(&kit, 1, orders[i][0]);
        kit_advance(&kit, SECOND);
        kit_say(&kit, 1, orders[i][1]);
        say_echo(&kit, 0);
        assert_int_equal(kit_open_one(&kit, "nvlink-down", 1)->echo_count, i == 0);
        assert_int_equal(kit_open_one(&kit, "ecc-uncorrectable", 1)->echo_count, i == 1);
        kit_done(&kit);
    }
}

static void a_child_long_before_its_parent_stays_alone(void **state)
{
    static const uint64_t before_s[] = {59, 60, 61, 3600};

    (void)state;
    for (size_t i = 0; i < sizeof before_s / sizeof before_s[0]; i++) {
        Kit kit;

        kit_init(&kit);
        kit_tick(&kit, 0);
        kit_say(&kit, 2, 63);
        kit_advance(&kit, before_s[i] * SECOND);
        kit_say(&kit, 2, 48);
        assert_int_equal(kit_open_count(&kit), before_s[i] <= 60 ? 1 : 2);
        assert_int_equal(kit_open_one(&kit, "ecc-uncorrectable", 2)->echo_count, before_s[i] <= 60);
        kit_done(&kit);
    }
}

/* A condition that was attached to a parent goes on there over a pause, and after a longer one it is a fault of its
 * own. */
static void a_condition_under_a_parent_outlasts_a_pause(void **state)
{
    Kit *kit = *state;

    say_on_switch(kit);
    kit_hold_for(kit, "fabric", -1, NO_LINK, 5 * MINUTE);
    assert_int_equal(kit_find(kit, "nvswitch", -1)->echo_count, 1);
    for (int s = 0; s < 119; s++)
        kit_tick(kit, SECOND);
    kit_hold_for(kit, "fabric", -1, NO_LINK, 5 * MINUTE);
    assert_int_equal(kit_open_count(kit), 1);
    assert_int_equal(kit_find(kit, "nvswitch", -1)->echo_count, 1);
    for (int s = 0; s < 121; s++)
        kit_tick(kit, SECOND);
    kit_hold_for(kit, "fabric", -1, NO_LINK, 5 * MINUTE);
    assert_int_equal(kit_open_count(kit), 2);
    assert_int_equal(kit_find(kit, "nvswitch", -1)->echo_count, 1);
}

static void codes_beyond_the_room_are_left_out(void **state)
{
    static const int32_t codes[] = {79, 48, 95, 171, 172, 119, 154, 74, 149, 45, 43, 31, 13, 64, 63};
    Kit *kit = *state;
    const Incident *it;

    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        kit_say(kit, 1, codes[i]);
    it = kit_open_one(kit, "gpu-lost", 1);
    assert_int_equal(it->echo_count, sizeof codes / sizeof codes[0] - 1);
    assert_int_equal(it->code_count, INCIDENT_CODES);
    assert_memory_equal(it->codes, codes, sizeof it->codes);
    assert_int_equal(it->first_len, INCIDENT_FIRST);
    assert_int_equal(it->first[0].code, 79);
}

static void errors_of_other_devices_are_not_a_gpus(void **state)
{
    Kit *kit = *state;
    Event event = kit_xid(kit, 1, 0);

    event.kind = EVENT_AER;
    kit_give(kit, &event);
    kit_turn(kit);
    assert_non_null(kit_open_one(kit, "pcie-errors", 1));
    event.pci = (PciAddress){0, 0, 3, 1};
    kit_give(kit, &event);
    kit_turn(kit);
    assert_int_equal(kit_open_count(kit), 1);
}

static void the_newest_comes_first_and_ids_rise(void **state)
{
    Kit *kit = *state;

    for (int i = 0; i < KIT_GPUS; i++) {
        kit->real_ns -= HOUR; /* the wall clock goes back */
        kit_say(kit, i, 48);
    }
    kit_advance(kit, SECOND);
    kit_hold(kit, "pcie-degraded", 0, NO_LINK);
    kit_turn(kit);
    assert_int_equal(incidents_count(kit->incidents), KIT_GPUS + 1);
    for (size_t i = 0; i < KIT_GPUS - 1; i++)
        assert_true(strcmp(incidents_at(kit->incidents, i)->id, incidents_at(kit->incidents, i + 1)->id) > 0);
    assert_int_equal(incidents_at(kit->incidents, KIT_GPUS)->state, INCIDENT_PENDING);
    assert_ptr_equal(incidents_find(kit->incidents, incidents_at(kit->incidents, 2)->id),
                     incidents_at(kit->incidents, 2));
    assert_null(incidents_find(kit->incidents, ""));
    assert_null(incidents_find(kit->incidents, "nosuch"));
}

static void a_rule_of_one_gpu_names_it_though_its_class_is_of_the_node(void **state)
{
    Kit *kit = *state;
    FaultRule rule = *double_condition("host-memory");
    Evidence evidence = {.time_ns = kit->now_ns, .real_ns = kit->real_ns, .pid = -1, .text = "slow"};

    rule.scope = SCOPE_GPU;
    evidence.verdict = fault_verdict(&rule);
    device_init(&evidence.device, DEVICE_GPU);
    evidence.device.has_pci = true;
    evidence.device.pci = kit_pci(2);
    incidents_add_evidence(kit->incidents, &evidence);
    kit_turn(kit);
    assert_int_equal(kit_open_one(kit, "host-memory", 2)->scope, SCOPE_GPU);
}

#define ONE(test) cmocka_unit_test_setup_teardown(test, kit_open, kit_close)

/* What may go on with a thing that has an incident, and what counts as a problem. */
static void what_an_incident_leaves_to_do(void **state)
{
    static const struct {
        IncidentState state;
        FaultSeverity severity;
        FaultAction action;
        FaultCause cause;
        IncidentUse use;
        bool problem;
    } cases[] = {
        {INCIDENT_OPEN, SEVERITY_INFO, ACTION_RESET_GPU, CAUSE_MEMORY, INCIDENT_USE_GOES_ON, false},
        {INCIDENT_OPEN, SEVERITY_WARNING, ACTION_RESET_GPU, CAUSE_MEMORY, INCIDENT_USE_GOES_ON, true},
        {INCIDENT_OPEN, SEVERITY_ERROR, ACTION_RESET_GPU, CAUSE_MEMORY, INCIDENT_USE_NO_NEW_WORK, true},
        {INCIDENT_OPEN, SEVERITY_ERROR, ACTION_NONE, CAUSE_MEMORY, INCIDENT_USE_GOES_ON, true},
        {INCIDENT_OPEN, SEVERITY_ERROR, ACTION_WATCH, CAUSE_MEMORY, INCIDENT_USE_GOES_ON, true},
        {INCIDENT_OPEN, SEVERITY_ERROR, ACTION_CHECK_APP, CAUSE_MEMORY, INCIDENT_USE_GOES_ON, true},
        {INCIDENT_OPEN, SEVERITY_ERROR, ACTION_RESTART_APP, CAUSE_MEMORY, INCIDENT_USE_GOES_ON, true},
        {INCIDENT_OPEN, SEVERITY_ERROR, ACTION_CHECK_MONITOR, CAUSE_MEMORY, INCIDENT_USE_GOES_ON, true},
        {INCIDENT_OPEN, SEVERITY_FATAL, ACTION_WATCH, CAUSE_MEMORY, INCIDENT_USE_NONE, true},
        {INCIDENT_OPEN, SEVERITY_FATAL, ACTION_RESET_GPU, CAUSE_APPLICATION, INCIDENT_USE_GOES_ON, true},
        {INCIDENT_CLEARED, SEVERITY_FATAL, ACTION_RESET_GPU, CAUSE_MEMORY, INCIDENT_USE_GOES_ON, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const Incident it = {
            .state = cases[i].state, .severity = cases[i].severity, .action = cases[i].action, .cause = cases[i].cause};

        if (incident_use(&it) != cases[i].use || incident_is_problem(&it) != cases[i].problem)
            fail_msg("case %zu: use %d, problem %d", i, incident_use(&it), incident_is_problem(&it));
    }
}

static void an_incident_hits_its_instance_alone(void **state)
{
    const Kit *kit = *state;
    const Device *gpu = &kit->gpus[1].reading.device;
    Incident it = {.device = *gpu, .scope = SCOPE_GPU};

    assert_true(incident_hits_instance(&it, gpu, 3));
    it.device.gpu_instance = 3;
    assert_true(incident_hits_instance(&it, gpu, 3));
    assert_false(incident_hits_instance(&it, gpu, 4));
    assert_true(incident_hits_instance(&it, gpu, DEVICE_NO_NUMBER));
    assert_false(incident_hits_instance(&it, &kit->gpus[2].reading.device, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ONE(an_xid_opens_one_incident_with_its_words),
        ONE(a_burst_is_counted_and_told_once_a_minute),
        ONE(every_45_seconds_is_one_incident),
        ONE(a_lost_gpu_takes_what_follows),
        ONE(another_gpu_is_another_incident),
        ONE(long_after_the_parent_it_is_no_echo),
        ONE(what_came_first_goes_under_its_parent),
        ONE(what_holds_under_a_parent_keeps_it_near),
        ONE(an_incident_hits_its_gpu_alone),
        ONE(what_was_told_as_worse_stays),
        ONE(what_was_read_in_one_go_is_told_once),
        ONE(what_is_explained_makes_nothing_worse),
        ONE(a_count_of_before_is_explained_at_any_time),
        ONE(a_worse_echo_escalates_its_parent),
        ONE(a_storm_of_45_is_nobodys_business),
        ONE(a_storm_of_45_before_its_cause_is_counted_there),
        ONE(a_45_goes_where_it_says),
        ONE(a_fatal_switch_is_one_incident_of_the_node),
        ONE(links_of_one_gpu_are_two_things),
        ONE(a_link_to_a_lost_neighbour_is_an_echo),
        ONE(a_link_class_without_a_link_falls_to_the_gpu),
        ONE(programs_and_instances_are_keys_where_the_class_says),
        ONE(the_drivers_word_opens_where_nothing_is_known),
        ONE(the_drivers_none_opens_nothing),
        ONE(the_drivers_word_is_not_the_programs),
        ONE(the_state_and_the_line_are_one),
        ONE(a_check_on_trial_tells_nobody_and_takes_nothing),
        ONE(unknown_codes_are_kept),
        ONE(the_parent_that_is_named_comes_before_a_worse_one),
        ONE(the_parent_on_the_same_gpu_comes_before_that_of_the_node),
        ONE(the_worse_parent_comes_before_the_later_one),
        ONE(of_two_parents_that_are_as_bad_the_later_one_takes_it),
        ONE(a_child_long_before_its_parent_stays_alone),
        ONE(what_an_incident_leaves_to_do),
        ONE(an_incident_hits_its_instance_alone),
        ONE(a_condition_under_a_parent_outlasts_a_pause),
        ONE(codes_beyond_the_room_are_left_out),
        ONE(errors_of_other_devices_are_not_a_gpus),
        ONE(the_newest_comes_first_and_ids_rise),
        ONE(a_rule_of_one_gpu_names_it_though_its_class_is_of_the_node),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
