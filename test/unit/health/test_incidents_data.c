/* SPDX-License-Identifier: Apache-2.0 */
/* Well-known sequences of lines over the built-in catalogue: how many incidents they are, of what, and what to do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/health/incidents.h"

#define SECOND UINT64_C(1000000000)

typedef struct Play {
    Catalogue *catalogue;
    Incidents *incidents;
    uint64_t now_ns, real_ns;
    size_t opened, pages;
} Play;

static void on_told(void *self, const Incident *incident, IncidentChange change)
{
    Play *play = self;

    if (change == INCIDENT_CHANGE_OPENED || change == INCIDENT_CHANGE_REOPENED) {
        play->opened++;
        play->pages += incident->route == ROUTE_PAGE;
    }
}

static int begin(void **state)
{
    static Play play;
    Err err = {0};

    play = (Play){.now_ns = 3600 * SECOND, .real_ns = UINT64_C(1767225600) * SECOND};
    if (catalogue_new(NULL, 0, &play.catalogue, &err) < 0)
        fail_msg("%s", err.text);
    play.incidents = incidents_new(play.catalogue, NULL, on_told, &play);
    *state = &play;
    return 0;
}

static int end(void **state)
{
    Play *play = *state;

    incidents_free(play->incidents);
    catalogue_free(play->catalogue);
    return 0;
}

static Event line(Play *play, EventKind kind, uint8_t bus, int32_t code, const char *text)
{
    Event event;

    event_init(&event, kind, EVENT_FROM_KMSG);
    event.time_ns = play->now_ns;
    event.real_ns = play->real_ns;
    event.has_pci = true;
    event.pci = (PciAddress){0, bus, 0, 0};
    event.code = code;
    strcpy(event.text, text);
    return event;
}

static void give(Play *play, const Event *event)
{
    incidents_add_event(play->incidents, event);
    incidents_advance(play->incidents, play->now_ns, play->real_ns);
}

static void say(Play *play, uint8_t bus, int32_t code, const char *text)
{
    Event event = line(play, EVENT_XID, bus, code, text);

    give(play, &event);
    play->now_ns += SECOND / 10;
    play->real_ns += SECOND / 10;
}

static void wait(Play *play, uint64_t seconds)
{
    play->now_ns += seconds * SECOND;
    play->real_ns += seconds * SECOND;
    incidents_advance(play->incidents, play->now_ns, play->real_ns);
}

/* The only open one. */
static const Incident *only(const Play *play, const char *class)
{
    const Incident *found = NULL;

    for (size_t i = 0; i < incidents_count(play->incidents); i++) {
        const Incident *it = incidents_at(play->incidents, i);

        if (it->state != INCIDENT_OPEN)
            continue;
        if (found)
            fail_msg("'%s' is open beside '%s'", it->title, found->title);
        found = it;
    }
    assert_non_null(found);
    assert_string_equal(found->class, class);
    return found;
}

static void off_the_bus(void **state)
{
    Play *play = *state;
    Event event;
    const Incident *it;

    say(play, 0x4e, 79, "GPU has fallen off the bus.");
    for (int i = 0; i < 40; i++)
        say(play, 0x4e, 45, "Ch 00000008");
    for (int i = 0; i < 5; i++) {
        say(play, 0x4e, 119, "Timeout after 6s of waiting for RPC response from GPU4 GSP!");
        wait(play, 45);
    }
    event =
        line(play, EVENT_XID, 0x4e, 154, "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)");
    event.recovery_action = 2;
    give(play, &event);
    it = only(play, "gpu-lost");
    assert_int_equal(it->severity, SEVERITY_FATAL);
    assert_int_equal(it->route, ROUTE_PAGE);
    assert_int_equal(it->count, 1);
    assert_int_equal(play->opened, 1);
    assert_int_equal(it->action, ACTION_DRAIN_AND_REBOOT);
}

static void a_double_bit_error(void **state)
{
    static const int32_t codes[] = {48, 63, 45, 94, 95, 171, 172, 45};
    Play *play = *state;
    const Incident *it;

    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        say(play, 0x4e, codes[i], "a line");
    it = only(play, "ecc-uncorrectable");
    assert_int_equal(play->pages, 0);
    assert_int_equal(it->cause, CAUSE_MEMORY);
    say(play, 0x4e, 64, "Row Remapper Error: (0x00000002eebc4100) - All reserved rows for bank are remapped");
    it = only(play, "row-remap-failed"); /* now it is known what was behind it */
    assert_int_equal(it->echo_count, 8);
    assert_string_equal(it->verdict + strlen(it->verdict) - 11, "the vendor.");
    assert_int_equal(it->action, ACTION_DRAIN_AND_RMA);
    assert_int_equal(it->route, ROUTE_PAGE);
}

static void a_storm_of_45(void **state)
{
    Play *play = *state;

    for (int i = 0; i < 13120; i++) {
        Event event = line(play, EVENT_XID, (uint8_t)(0x10 + i % 8), 45, "Ch 00000008");

        incidents_add_event(play->incidents, &event);
        if (i % 64 == 0)
            wait(play, 1);
    }
    wait(play, 1);
    assert_int_equal(play->opened, 0);
}

static void a_gsp_that_hangs(void **state)
{
    Play *play = *state;

    for (int i = 0; i < 100; i++) {
        say(play, 0x4e, 119, "Timeout after 6s of waiting for RPC response from GPU4 GSP!");
        wait(play, 45);
    }
    assert_int_equal(only(play, "gsp-failure")->count, 100);
    assert_int_equal(play->opened, 1);
}

static void a_fatal_switch(void **state)
{
    Play *play = *state;
    Event event = line(play, EVENT_SXID, 0xc1, 20034, "Fatal, Link 33 LTSSM Fault Up");

    event.word = EVENT_FATAL;
    event.link = 33;
    give(play, &event);
    for (uint8_t bus = 0x10; bus < 0x18; bus++) {
        event = line(play, EVENT_XID, bus, 74, "NVLink: fatal error detected on link 9");
        event.link = 9;
        give(play, &event);
        say(play, bus, 45, "Ch 00000008");
    }
    assert_int_equal(only(play, "nvswitch")->severity, SEVERITY_FATAL);
    assert_int_equal(play->opened, 1);
}

static void programs_are_nobodys_page(void **state)
{
    static const int32_t codes[] = {8, 13, 31, 43, 45, 68, 69};
    Play *play = *state;

    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        Event event = line(play, EVENT_XID, (uint8_t)(0x10 + i), codes[i], "pid=5, name=python");

        event.pid = 5;
        strcpy(event.process, "python");
        give(play, &event);
    }
    assert_int_equal(play->pages, 0);
    for (size_t i = 0; i < incidents_count(play->incidents); i++)
        assert_true(incidents_at(play->incidents, i)->route <= ROUTE_USER);
}

static void every_xid_has_sentences(void **state)
{
    Play *play = *state;

    for (int32_t code = 1; code <= 176; code++) {
        say(play, (uint8_t)code, code, "a line");
        wait(play, 60);
    }
    for (size_t i = 0; i < incidents_count(play->incidents); i++) {
        const Incident *it = incidents_at(play->incidents, i);

        if (it->state == INCIDENT_PENDING)
            continue;
        assert_true(strlen(it->title) > 20 && strlen(it->verdict) > 20);
        if (strncmp(it->title, "GPU", 3) != 0)
            assert_non_null(strstr(it->title, "GPU 0000:"));
    }
}

#define ONE(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ONE(off_the_bus),    ONE(a_double_bit_error),        ONE(a_storm_of_45),           ONE(a_gsp_that_hangs),
        ONE(a_fatal_switch), ONE(programs_are_nobodys_page), ONE(every_xid_has_sentences),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
