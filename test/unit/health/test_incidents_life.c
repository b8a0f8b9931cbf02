/* SPDX-License-Identifier: Apache-2.0 */
/* How incidents open, end and come back; what the journal gives back; boards and drivers that change; maintenance
 * (engine/health/incidents.c, incidents_life.c, incident_text.c). */
#include "kit.h"

#include <errno.h>
#include <stdio.h>

#include "engine/health/incidents.h"

#define NO_LINK DEVICE_NO_NUMBER

static Event other(const Kit *kit, EventKind kind, int gpu)
{
    Event event = kit_xid(kit, gpu < 0 ? 0 : gpu, 0);

    event.kind = kind;
    event.origin = EVENT_FROM_AGENT;
    event.has_pci = gpu >= 0;
    return event;
}

static void give_other(Kit *kit, EventKind kind, int gpu)
{
    Event event = other(kit, kind, gpu);

    kit_give(kit, &event);
    kit_turn(kit);
}

static void a_condition_must_hold_for_its_time(void **state)
{
    Kit *kit = *state;

    kit_hold_for(kit, "pcie-degraded", 1, NO_LINK, 60 * SECOND); /* its first instant is one second in */
    assert_int_equal(kit->told_count, 0);
    kit_tick(kit, SECOND); /* gone once: it begins anew */
    assert_int_equal(incidents_count(kit->incidents), 0);
    kit_hold_for(kit, "pcie-degraded", 1, NO_LINK, 60 * SECOND);
    assert_int_equal(kit->told_count, 0);
    kit_hold_for(kit, "pcie-degraded", 1, NO_LINK, SECOND);
    assert_int_equal(kit->told_count, 1);
    assert_true(kit->told[0].incident.opened_ns == kit->told[0].incident.first_ns + MINUTE);
}

static void a_condition_is_over_when_gone_long_enough(void **state)
{
    Kit *kit = *state;

    kit_hold_for(kit, "pcie-degraded", 1, NO_LINK, 10 * MINUTE);
    assert_int_equal(kit_open_one(kit, "pcie-degraded", 1)->count, 1); /* one condition, not one per tick */
    assert_int_equal(kit->told_count, 1);
    for (int i = 0; i < 119; i++)
        kit_tick(kit, SECOND);
    assert_int_equal(kit_open_count(kit), 1);
    kit_tick(kit, SECOND);
    assert_int_equal(kit_open_count(kit), 0);
    assert_int_equal(kit_find(kit, "pcie-degraded", 1)->end, INCIDENT_END_GONE);
}

static void what_flaps_is_one_incident(void **state)
{
    Kit *kit = *state;
    const Incident *it;
    uint64_t begun[20];

    for (int i = 0; i < 20; i++) {
        begun[i] = kit->real_ns;
        kit_hold_for(kit, "pcie-degraded", 1, NO_LINK, 2 * MINUTE);
        for (int s = 0; s < 240; s++)
            kit_tick(kit, SECOND);
    }
    it = kit_find(kit, "pcie-degraded", 1);
    assert_int_equal(it->reopened, 19);
    assert_int_equal(it->count, 20);
    /* The evidence of its beginning and of its end is kept. */
    assert_in_range(it->first[0].real_ns, begun[0], begun[1] - 1);
    assert_in_range(it->last[0].real_ns, begun[18], kit->real_ns);
    assert_int_equal(kit_told(kit, INCIDENT_CHANGE_OPENED, NULL), 1);
    assert_int_equal(kit_told(kit, INCIDENT_CHANGE_REOPENED, NULL), 19);
    assert_int_equal(incidents_count(kit->incidents), 1);
    for (int s = 0; s < 900; s++) /* after its time it is a new one */
        kit_tick(kit, SECOND);
    kit_hold_for(kit, "pcie-degraded", 1, NO_LINK, 2 * MINUTE);
    assert_int_equal(kit_told(kit, INCIDENT_CHANGE_OPENED, NULL), 2);
    assert_int_equal(kit_find(kit, "pcie-degraded", 1)->reopened, 0);
}

static void what_flaps_faster_than_keep_stays_open(void **state)
{
    Kit *kit = *state;

    kit_hold_for(kit, "pcie-degraded", 1, NO_LINK, 2 * MINUTE);
    for (int i = 0; i < 20; i++) {
        for (int s = 0; s < 30; s++)
            kit_tick(kit, SECOND);
        kit_hold_for(kit, "pcie-degraded", 1, NO_LINK, 5 * SECOND);
    }
    assert_int_equal(kit_told(kit, INCIDENT_CHANGE_CLEARED, NULL), 0);
    assert_int_equal(kit_open_one(kit, "pcie-degraded", 1)->count, 21);
}

static void events_are_over_when_quiet(void **state)
{
    Kit *kit = *state;

    kit_app(kit, 1, 31, 5, "python");
    kit_tick(kit, 10 * MINUTE - SECOND);
    assert_int_equal(kit_open_count(kit), 1);
    kit_tick(kit, SECOND);
    assert_int_equal(kit_open_count(kit), 0);
    assert_int_equal(kit_find(kit, "app-fault", 1)->end, INCIDENT_END_QUIET);
}

static void each_end_ends_what_it_is_strong_enough_for(void **state)
{
    static const struct {
        EventKind kind;
        int gpu;
        size_t left; /* of gpu-lost RESET, driver-error DRIVER, host-memory REBOOT, inforom REPLACED, suspected HAND */
    } rows[] = {
        {EVENT_RESET, 1, 4},   {EVENT_RESET, 2, 5},    {EVENT_MODULE_LOADED, -1, 3},
        {EVENT_REBOOT, -1, 2}, {EVENT_REPLACED, 1, 1}, {EVENT_MODULE_UNLOADED, -1, 5},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        Kit kit;
        Event event;

        kit_init(&kit);
        kit_tick(&kit, 0);
        kit_say(&kit, 1, 46);
        kit_tick(&kit, 2 * MINUTE);
        kit_say(&kit, 1, 79);
        event = other(&kit, EVENT_MCE, -1);
        kit_give(&kit, &event);
        kit_hold(&kit, "inforom-corrupt", 1, NO_LINK);
        kit_hold(&kit, "gpu-fault-suspected", 1, NO_LINK);
        kit_turn(&kit);
        assert_int_equal(kit_open_count(&kit), 5);
        kit_advance(&kit, SECOND);
        give_other(&kit, rows[i].kind, rows[i].gpu);
        assert_int_equal(kit_open_count(&kit), rows[i].left);
        kit_done(&kit);
    }
}

/* A reset is dated: what was seen after it goes on. */
static void a_reset_ends_nothing_that_came_later(void **state)
{
    static const EventKind kinds[] = {EVENT_RESET, EVENT_MODULE_LOADED};

    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        Event event;
        Kit kit;

        kit_init(&kit);
        kit_tick(&kit, 0);
        event = other(&kit, kinds[i], 1);
        kit_advance(&kit, SECOND);
        kit_say(&kit, 1, 79);
        kit_give(&kit, &event); /* it is read late */
        kit_turn(&kit);
        assert_int_equal(kit_open_count(&kit), 1);
        event.time_ns = kit.now_ns;
        event.real_ns = kit.real_ns;
        kit_give(&kit, &event);
        assert_int_equal(kit_open_count(&kit), 0);
        kit_done(&kit);
    }
}

static void a_condition_that_needs_a_reset_waits_for_it(void **state)
{
    Kit *kit = *state;

    kit_hold_for(kit, "row-remap-pending", 1, NO_LINK, MINUTE);
    for (int i = 0; i < 3600; i++)
        kit_tick(kit, SECOND); /* it no longer holds, and yet */
    assert_int_equal(kit_open_count(kit), 1);
    give_other(kit, EVENT_RESET, 1);
    assert_int_equal(kit_open_count(kit), 0);
    assert_int_equal(kit_find(kit, "row-remap-pending", 1)->end, INCIDENT_END_RESET);
}

static void old_readings_after_a_reset_do_not_reopen(void **state)
{
    Kit *kit = *state;

    kit_hold_for(kit, "row-remap-pending", 1, NO_LINK, MINUTE);
    give_other(kit, EVENT_RESET, 1);
    kit_hold_for(kit, "row-remap-pending", 1, NO_LINK, 5 * SECOND);
    assert_int_equal(kit_open_count(kit), 0);
    kit_hold_for(kit, "row-remap-pending", 1, NO_LINK, 20 * SECOND); /* it did not help */
    assert_int_equal(kit_open_one(kit, "row-remap-pending", 1)->reopened, 1);
}

static void a_gpu_that_answers_again_was_reset(void **state)
{
    Kit *kit = *state;

    kit_say(kit, 1, 79);
    kit_tick(kit, SECOND); /* the driver has not noticed yet: still up, no reset */
    assert_int_equal(kit_open_count(kit), 1);
    kit->gpus[1].state = GPU_LOST;
    kit_hold_for(kit, "gpu-lost", 1, NO_LINK, MINUTE);
    kit->gpus[1].state = GPU_RELEASED;
    kit_tick(kit, SECOND);
    assert_int_equal(kit_open_count(kit), 1);
    kit->gpus[1].state = GPU_UP;
    kit_tick(kit, SECOND);
    assert_int_equal(kit_open_count(kit), 0);
    assert_int_equal(kit_find(kit, "gpu-lost", 1)->end, INCIDENT_END_RESET);
}

static void a_gpu_that_hung_was_not_reset(void **state)
{
    Kit *kit = *state;

    kit_say(kit, 1, 119);
    kit->gpus[1].state = GPU_HUNG;
    kit_tick(kit, SECOND);
    kit->gpus[1].state = GPU_UP;
    kit_tick(kit, SECOND);
    assert_int_equal(kit_open_count(kit), 1);
}

static void another_board_ends_what_the_old_one_had(void **state)
{
    Kit *kit = *state;

    kit_hold_for(kit, "inforom-corrupt", 1, NO_LINK, 2 * SECOND);
    kit_hold_for(kit, "inforom-corrupt", 2, NO_LINK, 2 * SECOND);
    kit_say(kit, 1, 48);
    strcpy(kit->gpus[1].reading.device.uuid, "GPU-new");
    kit_tick(kit, SECOND);
    assert_int_equal(kit_open_count(kit), 1);
    assert_int_equal(kit_find(kit, "inforom-corrupt", 1)->end, INCIDENT_END_REPLACED);
    assert_int_equal(kit_find(kit, "ecc-uncorrectable", 1)->end, INCIDENT_END_REPLACED);
    kit_say(kit, 1, 48); /* of the new one: not the old one's again */
    assert_int_equal(kit_told(kit, INCIDENT_CHANGE_REOPENED, NULL), 0);
    assert_string_equal(kit_open_one(kit, "ecc-uncorrectable", 1)->device.uuid, "GPU-new");
}

static void another_driver_is_a_reload(void **state)
{
    Kit *kit = *state;

    kit_say(kit, 1, 46);
    kit_tick(kit, SECOND);
    assert_int_equal(kit_open_count(kit), 1);
    strcpy(kit->node.driver_version, "");
    kit_tick(kit, SECOND); /* not known for a while: nothing */
    assert_int_equal(kit_open_count(kit), 1);
    strcpy(kit->node.driver_version, "575.1");
    kit_tick(kit, SECOND);
    assert_int_equal(kit_find(kit, "driver-error", 1)->end, INCIDENT_END_DRIVER_RELOAD);
}

static void a_reload_of_the_configuration(void **state)
{
    Kit *kit = *state;

    kit_say(kit, 1, 48);
    kit_app(kit, 2, 31, 5, "python");
    double_hide("app-fault", true);
    incidents_set_catalogue(kit->incidents, (const Catalogue *)&kit->node);
    double_hide("app-fault", false);
    assert_int_equal(kit_open_count(kit), 1);
    assert_int_equal(kit_find(kit, "app-fault", 2)->end, INCIDENT_END_HAND);
    assert_int_equal(kit_open_one(kit, "ecc-uncorrectable", 1)->count, 1);
    kit_say(kit, 1, 48);
    assert_int_equal(kit_open_one(kit, "ecc-uncorrectable", 1)->count, 2);
}

static void clearing_by_hand(void **state)
{
    Kit *kit = *state;
    char id[INCIDENT_ID_CAP];
    const Incident *it;
    Err err = {0};

    kit_say(kit, 1, 48);
    memcpy(id, kit_open_one(kit, "ecc-uncorrectable", 1)->id, sizeof id);
    kit_advance(kit, SECOND);
    assert_int_equal(incidents_clear(kit->incidents, "000000000", "eve", kit->now_ns, kit->real_ns, &err), -ENOENT);
    assert_int_equal(incidents_clear(kit->incidents, id, "eve", kit->now_ns, kit->real_ns, &err), 0);
    assert_int_equal(incidents_clear(kit->incidents, id, "eve", kit->now_ns, kit->real_ns, &err), -EALREADY);
    it = incidents_find(kit->incidents, id);
    assert_int_equal(it->end, INCIDENT_END_HAND);
    assert_string_equal(it->first[1].text, "cleared by hand by eve");
    kit_advance(kit, SECOND);
    kit_say(kit, 1, 48); /* and here it is again */
    assert_int_equal(incidents_find(kit->incidents, id)->reopened, 1);
    assert_int_equal(incidents_find(kit->incidents, id)->end, INCIDENT_END_NOT_ENDED);
}

/* --- from before the start --- */

static Event from_before(const Kit *kit, int gpu, int32_t code, uint64_t ago)
{
    Event event = kit_xid(kit, gpu, code);

    event.before = true;
    event.time_ns -= ago;
    event.real_ns -= ago;
    return event;
}

static void what_is_still_on_from_before_is_told_when_all_is_read(void **state)
{
    Kit *kit = *state;
    Event event = from_before(kit, 1, 79, HOUR);

    kit_give(kit, &event);
    event = from_before(kit, 1, 119, HOUR - SECOND);
    kit_give(kit, &event);
    event = from_before(kit, 2, 31, HOUR);
    kit_give(kit, &event);
    kit_turn(kit);
    assert_int_equal(kit->told_count, 0);
    kit_tick(kit, SECOND);
    kit_tick(kit, SECOND);
    assert_int_equal(kit->told_count, 1);
    assert_true(kit_open_one(kit, "gpu-lost", 1)->before);
    assert_int_equal(kit_open_one(kit, "gpu-lost", 1)->echo_count, 1);
    assert_int_equal(incidents_count(kit->incidents), 1); /* the program's was over long ago */
}

static void what_a_reset_ended_before_is_not_told(void **state)
{
    Kit *kit = *state;
    Event event = from_before(kit, 1, 79, HOUR);

    kit_give(kit, &event);
    kit_turn(kit); /* read in two goes */
    event = from_before(kit, 1, 0, 30 * MINUTE);
    event.kind = EVENT_MODULE_LOADED;
    event.has_pci = false;
    kit_give(kit, &event);
    event = from_before(kit, 2, 48, 20 * MINUTE); /* and after it: on */
    kit_give(kit, &event);
    kit_tick(kit, SECOND);
    kit_tick(kit, 2 * SECOND);
    assert_int_equal(kit->told_count, 1);
    assert_int_equal(kit_open_one(kit, "ecc-uncorrectable", 2)->before, true);
}

/* --- the journal --- */

static size_t keep(const Kit *kit, Incident *kept, size_t cap)
{
    size_t count = 0;

    for (size_t i = 0; i < incidents_count(kit->incidents) && count < cap; i++)
        if (incidents_at(kit->incidents, i)->state != INCIDENT_PENDING)
            kept[count++] = *incidents_at(kit->incidents, i);
    return count;
}

/* The agent is started anew, `away` later. */
static void restart(Kit *from, Kit *to, uint64_t away)
{
    Incident kept[32];
    size_t count = keep(from, kept, 32);

    kit_init(to);
    to->now_ns = from->now_ns + away;
    to->real_ns = from->real_ns + away;
    incidents_restore(to->incidents, kept, count, to->now_ns, to->real_ns);
}

static void what_was_open_goes_on_and_is_not_told_again(void **state)
{
    Kit *kit = *state, next;
    Event event;
    char id[INCIDENT_ID_CAP];

    kit_say(kit, 1, 48);
    kit_say(kit, 1, 63);
    kit_hold_for(kit, "pcie-degraded", 2, NO_LINK, 2 * MINUTE);
    memcpy(id, kit_open_one(kit, "ecc-uncorrectable", 1)->id, sizeof id);
    restart(kit, &next, 10 * SECOND);
    event = kit_xid(kit, 1, 48); /* the log is read again from boot */
    event.before = true;
    event.time_ns -= 2 * MINUTE;
    event.real_ns -= 2 * MINUTE;
    kit_give(&next, &event);
    event.code = 63;
    kit_give(&next, &event);
    kit_hold_for(&next, "pcie-degraded", 2, NO_LINK, 5 * MINUTE);
    assert_int_equal(next.told_count, 0);
    assert_int_equal(kit_open_count(&next), 2);
    assert_string_equal(kit_open_one(&next, "ecc-uncorrectable", 1)->id, id);
    assert_int_equal(kit_open_one(&next, "ecc-uncorrectable", 1)->count, 1);
    assert_int_equal(kit_open_one(&next, "pcie-degraded", 2)->count, 1);
    kit_say(&next, 1, 95); /* one more goes there */
    assert_int_equal(kit_open_one(&next, "ecc-uncorrectable", 1)->count, 2);
    kit_say(&next, 3, 48);
    assert_true(strcmp(kit_open_one(&next, "ecc-uncorrectable", 3)->id, id) > 0);
    kit_done(&next);
}

static void what_is_gone_after_a_restart_ends_after_a_while(void **state)
{
    Kit *kit = *state, next;

    kit_hold_for(kit, "pcie-degraded", 2, NO_LINK, 2 * MINUTE);
    restart(kit, &next, HOUR);
    for (int i = 0; i < 119; i++)
        kit_tick(&next, SECOND);
    assert_int_equal(kit_open_count(&next), 1);
    kit_tick(&next, SECOND);
    assert_int_equal(kit_find(&next, "pcie-degraded", 2)->end, INCIDENT_END_GONE);
    kit_done(&next);
}

static void ids_rise_over_a_restart_with_a_clock_gone_back(void **state)
{
    Kit *kit = *state, next;

    kit_say(kit, 1, 48);
    restart(kit, &next, 0);
    next.real_ns -= 1000 * HOUR;
    kit_say(&next, 2, 48);
    assert_true(
        strcmp(kit_open_one(&next, "ecc-uncorrectable", 2)->id, kit_open_one(&next, "ecc-uncorrectable", 1)->id) > 0);
    kit_done(&next);
}

static void a_reboot_ends_what_was_before_it(void **state)
{
    Kit *kit = *state, next;
    Event event;

    kit_say(kit, 1, 79);
    kit_hold_for(kit, "inforom-corrupt", 2, NO_LINK, 2 * SECOND);
    restart(kit, &next, 10 * MINUTE);
    next.now_ns = 3 * MINUTE; /* the kernel's clock began anew */
    event = other(&next, EVENT_REBOOT, -1);
    event.before = true;
    event.time_ns = 0;
    event.real_ns = next.real_ns - 3 * MINUTE;
    kit_give(&next, &event);
    kit_turn(&next);
    assert_int_equal(kit_open_count(&next), 1);
    assert_int_equal(kit_find(&next, "gpu-lost", 1)->end, INCIDENT_END_REBOOT);
    kit_done(&next);
}

static void a_board_that_moved_takes_its_incidents_with_it(void **state)
{
    Kit *kit = *state, next;
    Device device;

    kit_hold_for(kit, "inforom-corrupt", 1, NO_LINK, 2 * SECOND);
    kit_hold_for(kit, "inforom-corrupt", 3, NO_LINK, 2 * SECOND);
    restart(kit, &next, HOUR);
    device = next.gpus[1].reading.device; /* boards 1 and 2 change places, and 3 is a new one */
    strcpy(next.gpus[1].reading.device.uuid, next.gpus[2].reading.device.uuid);
    strcpy(next.gpus[2].reading.device.uuid, device.uuid);
    strcpy(next.gpus[3].reading.device.uuid, "GPU-new");
    kit_tick(&next, SECOND);
    assert_int_equal(kit_open_count(&next), 1);
    assert_non_null(kit_open_one(&next, "inforom-corrupt", 2));
    assert_int_equal(kit_find(&next, "inforom-corrupt", 3)->end, INCIDENT_END_REPLACED);
    kit_done(&next);
}

static void what_was_reset_while_the_agent_was_away(void **state)
{
    Kit *kit = *state, next;

    kit_say(kit, 1, 79);
    kit_say(kit, 2, 119);
    restart(kit, &next, HOUR);
    next.gpus[1].state = GPU_STARTING;
    kit_tick(&next, SECOND);
    assert_int_equal(kit_open_count(&next), 2);
    next.gpus[1].state = GPU_UP; /* it could not be, without a reset */
    kit_tick(&next, SECOND);
    assert_int_equal(kit_open_count(&next), 1);
    assert_int_equal(kit_find(&next, "gpu-lost", 1)->end, INCIDENT_END_RESET);
    kit_done(&next);
    restart(kit, &next, HOUR);
    next.gpus[1].state = GPU_LOST;
    strcpy(next.node.driver_version, "575.1"); /* reloaded meanwhile: all is over; what is still lost will be seen */
    kit_tick(&next, SECOND);
    assert_int_equal(kit_open_count(&next), 0);
    kit_done(&next);
}

/* --- maintenance --- */

static void maintenance_silences_and_says_so(void **state)
{
    Kit *kit = *state;
    MaintenanceWindow window = {.reason = "new fans", .gpus = 1u << 1, .until_real_ns = kit->real_ns + HOUR};
    char id[INCIDENT_ID_CAP];
    const Incident *it;
    Err err = {0};

    kit_say(kit, 1, 48);
    kit_say(kit, 2, 48);
    assert_int_equal(maintenance_start(kit->maintenance, &window, kit->real_ns, id, &err), 0);
    kit_tick(kit, SECOND);
    assert_int_equal(kit_told(kit, INCIDENT_CHANGE_SILENCED, NULL), 1);
    it = kit_open_one(kit, "ecc-uncorrectable", 1);
    assert_true(it->silenced);
    assert_string_equal(it->window, id);
    assert_false(kit_open_one(kit, "ecc-uncorrectable", 2)->silenced);
    kit_tick(kit, SECOND);
    kit_say(kit, 1, 46); /* opens silenced */
    assert_true(kit->told[kit->told_count - 1].incident.silenced);
    assert_int_equal(kit_told(kit, INCIDENT_CHANGE_SILENCED, NULL), 1);
    kit_tick(kit, HOUR);
    assert_int_equal(kit_told(kit, INCIDENT_CHANGE_SILENCED, NULL), 3);
    assert_false(kit_open_one(kit, "ecc-uncorrectable", 1)->silenced);
    assert_string_equal(kit_open_one(kit, "ecc-uncorrectable", 1)->window, "");
}

/* --- bounds --- */

static void the_table_is_bounded_and_keeps_what_is_worst(void **state)
{
    Kit *kit = *state;

    for (int i = 0; i < INCIDENTS_MAX + 50; i++) {
        kit_say(kit, 1, 1000 + i);
        kit_advance(kit, SECOND / 100);
    }
    assert_int_equal(incidents_count(kit->incidents), INCIDENTS_MAX);
    kit_say(kit, 2, 79);
    assert_non_null(kit_open_one(kit, "gpu-lost", 2));
    assert_int_equal(incidents_count(kit->incidents), INCIDENTS_MAX);
    assert_int_equal(kit_told(kit, INCIDENT_CHANGE_OPENED, NULL),
                     INCIDENTS_MAX + 1); /* 50 found no room, one gave its */
    assert_int_equal(kit_told(kit, INCIDENT_CHANGE_CLEARED, NULL), 1);
    kit_tick(kit, 61 * MINUTE); /* all over */
    assert_int_equal(kit_open_count(kit), 1);
    kit_app(kit, 1, 31, 5, "one-more");
    assert_int_equal(kit_open_count(kit), 2);
    kit_tick(kit, 49 * HOUR);
    assert_int_equal(incidents_count(kit->incidents), 2);
}

static void ids_sort_by_time(void **state)
{
    char a[INCIDENT_ID_CAP], b[INCIDENT_ID_CAP];
    uint64_t last;

    (void)state;
    last = incident_id_next(0, UINT64_C(1767225600000) * 1000000, a);
    assert_string_equal(a, "1kdvdna00");
    assert_true(incident_id_number(a) == last);
    last = incident_id_next(last, 0, b);
    assert_string_equal(b, "1kdvdna01");
    incident_id_next(0, 0, b);
    assert_string_equal(b, "000000001");
    assert_int_equal(incident_id_number("cfg-1"), 0);
    assert_int_equal(incident_id_number("zzzzzzzzzzzzzz"), 0);
    assert_int_equal(incident_id_number("00000000l"), 0);
}

#define ONE(test) cmocka_unit_test_setup_teardown(test, kit_open, kit_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ONE(a_condition_must_hold_for_its_time),
        ONE(a_condition_is_over_when_gone_long_enough),
        ONE(what_flaps_is_one_incident),
        ONE(what_flaps_faster_than_keep_stays_open),
        ONE(events_are_over_when_quiet),
        ONE(each_end_ends_what_it_is_strong_enough_for),
        ONE(a_reset_ends_nothing_that_came_later),
        ONE(a_condition_that_needs_a_reset_waits_for_it),
        ONE(old_readings_after_a_reset_do_not_reopen),
        ONE(a_gpu_that_answers_again_was_reset),
        ONE(a_gpu_that_hung_was_not_reset),
        ONE(another_board_ends_what_the_old_one_had),
        ONE(another_driver_is_a_reload),
        ONE(a_reload_of_the_configuration),
        ONE(clearing_by_hand),
        ONE(what_is_still_on_from_before_is_told_when_all_is_read),
        ONE(what_a_reset_ended_before_is_not_told),
        ONE(what_was_open_goes_on_and_is_not_told_again),
        ONE(what_is_gone_after_a_restart_ends_after_a_while),
        ONE(ids_rise_over_a_restart_with_a_clock_gone_back),
        ONE(a_reboot_ends_what_was_before_it),
        ONE(a_board_that_moved_takes_its_incidents_with_it),
        ONE(what_was_reset_while_the_agent_was_away),
        ONE(maintenance_silences_and_says_so),
        ONE(the_table_is_bounded_and_keeps_what_is_worst),
        ONE(ids_sort_by_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
