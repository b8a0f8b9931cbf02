/* SPDX-License-Identifier: Apache-2.0 */
/* Maintenance windows by hand and by the configuration (engine/health/maintenance.c, maintenance_recur.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "engine/health/maintenance.h"

static uint64_t at(const char *text)
{
    uint64_t real_ns = 0;

    assert_int_equal(clock_parse(text, &real_ns, NULL), 0);
    return real_ns;
}

static const char *when(uint64_t real_ns)
{
    static char text[CLOCK_TEXT_MAX];

    clock_format(text, real_ns);
    return text;
}

static int configure(Maintenance *maintenance, const char *yaml, Err *err)
{
    Arena arena = {0};
    const YamlNode *root = NULL;
    int rc;

    assert_int_equal(yaml_load("stoker.yaml", yaml, strlen(yaml), &arena, &root, err), 0);
    rc = maintenance_configure(maintenance, root, err);
    arena_done(&arena);
    return rc;
}

static Maintenance *configured(const char *yaml)
{
    Maintenance *maintenance = maintenance_new();
    Err err = {0};
    int rc = configure(maintenance, yaml, &err);

    if (rc < 0)
        print_error("%s\n", err.text);
    assert_int_equal(rc, 0);
    return maintenance;
}

static Device gpu(uint32_t index, const char *uuid)
{
    Device device;

    device_init(&device, DEVICE_GPU);
    device.index = index;
    strcpy(device.uuid, uuid);
    return device;
}

static void by_hand_begins_and_ends(void **state)
{
    Maintenance *maintenance = maintenance_new();
    uint64_t now = at("2026-03-02T10:00:00Z");
    MaintenanceWindow window = {.reason = "fans", .who = "eve", .until_real_ns = now + 2 * NS_PER_H};
    Device node;
    char id[INCIDENT_ID_CAP], later[INCIDENT_ID_CAP];
    Err err = {0};

    (void)state;
    device_init(&node, DEVICE_NODE);
    assert_int_equal(maintenance_start(maintenance, &window, now, id, &err), 0);
    window.from_real_ns = now + NS_PER_H;
    assert_int_equal(maintenance_start(maintenance, &window, now, later, &err), 0);
    assert_true(strcmp(later, id) > 0);
    assert_int_equal(maintenance_count(maintenance), 2);
    assert_string_equal(maintenance_covers(maintenance, &node)->id, id);
    assert_false(maintenance_at(maintenance, 1)->active);
    maintenance_advance(maintenance, now + NS_PER_MIN);
    assert_false(maintenance_at(maintenance, 1)->active);
    maintenance_advance(maintenance, now + NS_PER_H);
    assert_true(maintenance_at(maintenance, 1)->active);
    assert_int_equal(maintenance_stop(maintenance, id, now, &err), 0);
    assert_int_equal(maintenance_stop(maintenance, id, now, &err), -ENOENT);
    assert_string_equal(maintenance_covers(maintenance, &node)->id, later);
    maintenance_advance(maintenance, now + 2 * NS_PER_H);
    assert_int_equal(maintenance_count(maintenance), 0);
    assert_null(maintenance_covers(maintenance, &node));
    assert_int_equal(maintenance_stop(maintenance, "all", now, &err), -ENOENT);
    maintenance_free(maintenance);
}

static void refusals_by_hand(void **state)
{
    Maintenance *maintenance = maintenance_new();
    MaintenanceWindow window = {.until_real_ns = 5};
    char id[INCIDENT_ID_CAP];
    Err err = {0};

    (void)state;
    assert_int_equal(maintenance_start(maintenance, &window, 5, id, &err), -EINVAL);
    window.until_real_ns = 100;
    window.from_real_ns = 100;
    assert_int_equal(maintenance_start(maintenance, &window, 5, id, &err), -EINVAL);
    window.from_real_ns = 0;
    strcpy(window.id, "1kdv5d400");
    assert_int_equal(maintenance_start(maintenance, &window, 5, id, &err), 0); /* as the journal kept it */
    assert_string_equal(id, "1kdv5d400");
    assert_int_equal(maintenance_start(maintenance, &window, 5, id, &err), -EEXIST);
    window.id[0] = '\0';
    assert_int_equal(maintenance_start(maintenance, &window, 5, id, &err), 0);
    assert_string_equal(id, "1kdv5d401");
    for (int i = 2; i < MAINTENANCE_MAX; i++)
        assert_int_equal(maintenance_start(maintenance, &window, 5, id, &err), 0);
    assert_int_equal(maintenance_start(maintenance, &window, 5, id, &err), -ENOSPC);
    assert_int_equal(maintenance_stop(maintenance, "all", 5, &err), 0);
    assert_int_equal(maintenance_count(maintenance), 0);
    maintenance_free(maintenance);
}

static void what_a_window_covers(void **state)
{
    Maintenance *maintenance = maintenance_new();
    MaintenanceWindow window = {.until_real_ns = 100, .gpus = 1u << 1 | 1u << 3};
    Device one = gpu(1, "GPU-a"), two = gpu(2, "GPU-b"), moved = gpu(7, "GPU-a"), node, part, port;
    char id[INCIDENT_ID_CAP];

    (void)state;
    device_init(&node, DEVICE_NODE);
    device_init(&port, DEVICE_SWITCH_LINK);
    device_init(&part, DEVICE_LINK);
    part.index = 1;
    strcpy(part.parent_uuid, "GPU-a");
    assert_int_equal(maintenance_start(maintenance, &window, 1, id, NULL), 0);
    assert_non_null(maintenance_covers(maintenance, &one));
    assert_non_null(maintenance_covers(maintenance, &part));
    assert_null(maintenance_covers(maintenance, &two));
    assert_null(maintenance_covers(maintenance, &node));
    assert_null(maintenance_covers(maintenance, &port));
    assert_null(maintenance_covers(maintenance, &moved));
    maintenance_stop(maintenance, id, 1, NULL);
    window.gpus = 1u << 1; /* known by its UUID: then its number does not count */
    strcpy(window.uuids[0], "GPU-a");
    assert_int_equal(maintenance_start(maintenance, &window, 1, id, NULL), 0);
    assert_non_null(maintenance_covers(maintenance, &moved));
    strcpy(one.uuid, "GPU-c");
    assert_null(maintenance_covers(maintenance, &one));
    window.gpus = 0; /* by UUID alone */
    maintenance_stop(maintenance, id, 1, NULL);
    assert_int_equal(maintenance_start(maintenance, &window, 1, id, NULL), 0);
    assert_non_null(maintenance_covers(maintenance, &moved));
    assert_null(maintenance_covers(maintenance, &node));
    memset(window.uuids, 0, sizeof window.uuids);
    window.until_real_ns = 200;
    assert_int_equal(maintenance_start(maintenance, &window, 1, id, NULL), 0);
    assert_non_null(maintenance_covers(maintenance, &port));
    assert_string_equal(maintenance_covers(maintenance, &moved)->id, id); /* the one that ends last */
    maintenance_free(maintenance);
}

static void a_recurring_window_comes_and_goes(void **state)
{
    Maintenance *maintenance =
        configured("- {days: [mon, sat], from: \"22:30\", for: 3h, zone: utc, reason: firmware}\n");
    const MaintenanceWindow *window;

    (void)state;
    maintenance_advance(maintenance, at("2026-03-02T10:00:00Z")); /* a Monday */
    window = maintenance_at(maintenance, 0);
    assert_string_equal(window->id, "cfg-1");
    assert_string_equal(window->reason, "firmware");
    assert_true(window->recurring);
    assert_false(window->active);
    assert_string_equal(when(window->from_real_ns), "2026-03-02T22:30:00.000Z");
    maintenance_advance(maintenance, at("2026-03-02T22:30:00Z"));
    assert_true(window->active);
    maintenance_advance(maintenance, at("2026-03-03T01:29:59Z")); /* over midnight */
    maintenance_advance(maintenance, at("2026-03-03T01:30:00Z"));
    assert_false(window->active);
    assert_string_equal(when(window->from_real_ns), "2026-03-07T22:30:00.000Z");
    maintenance_advance(maintenance, at("2026-03-02T23:00:00Z")); /* the clock goes back */
    assert_true(window->active);
    maintenance_free(maintenance);
}

static void stopping_a_recurring_one_skips_it_once(void **state)
{
    Maintenance *maintenance = configured("- {days: daily, from: \"02:00\", for: 2h, zone: utc}\n");
    const MaintenanceWindow *window = maintenance_at(maintenance, 0);
    Err err = {0};

    (void)state;
    maintenance_advance(maintenance, at("2026-03-02T03:00:00Z"));
    assert_true(window->active);
    assert_int_equal(maintenance_stop(maintenance, "cfg-1", at("2026-03-02T03:00:00Z"), &err), 0);
    assert_false(window->active);
    assert_string_equal(when(window->from_real_ns), "2026-03-03T02:00:00.000Z");
    assert_int_equal(configure(maintenance, "- {days: daily, from: \"02:00\", for: 2h, zone: utc}\n", &err), 0);
    maintenance_advance(maintenance, at("2026-03-02T03:01:00Z")); /* also over a reload */
    assert_false(maintenance_at(maintenance, 0)->active);
    maintenance_advance(maintenance, at("2026-03-03T02:00:00Z"));
    assert_true(maintenance_at(maintenance, 0)->active);
    maintenance_free(maintenance);
}

static void local_time_with_summer_time(void **state)
{
    static const struct {
        const char *now, *from, *until;
    } rows[] = {
        {"2026-03-27T12:00:00Z", "2026-03-28T01:30:00.000Z", "2026-03-28T03:30:00.000Z"}, /* winter: UTC+1 */
        {"2026-03-28T12:00:00Z", "2026-03-29T01:30:00.000Z", "2026-03-29T03:30:00.000Z"}, /* 02:30 does not exist */
        {"2026-03-29T12:00:00Z", "2026-03-30T00:30:00.000Z", "2026-03-30T02:30:00.000Z"}, /* summer: UTC+2 */
        {"2026-10-24T12:00:00Z", "2026-10-25T00:30:00.000Z", "2026-10-25T02:30:00.000Z"}, /* 02:30 comes twice */
        {"2026-10-25T12:00:00Z", "2026-10-26T01:30:00.000Z", "2026-10-26T03:30:00.000Z"},
    };
    char *zone = getenv("TZ") ? strdup(getenv("TZ")) : NULL;
    Maintenance *maintenance;

    (void)state;
    setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
    tzset();
    maintenance = configured("- {from: \"02:30\", for: 2h}\n");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const MaintenanceWindow *window = maintenance_at(maintenance, 0);

        maintenance_advance(maintenance, at(rows[i].now));
        assert_string_equal(when(window->until_real_ns), rows[i].until);
        assert_true(window->until_real_ns - window->from_real_ns == 2 * NS_PER_H);
        assert_string_equal(when(window->from_real_ns), rows[i].from);
    }
    maintenance_free(maintenance);
    if (zone)
        setenv("TZ", zone, 1);
    else
        unsetenv("TZ");
    tzset();
    free(zone);
}

static void every_second_of_a_month_agrees_with_counting(void **state)
{
    /* Daily from 23:00 for 25 h: always on; Wednesdays from 23:00 for 3 h: counted by hand. */
    Maintenance *always = configured("- {from: \"23:00\", for: 25h, zone: utc}\n");
    Maintenance *weekly = configured("- {days: wed, from: \"23:00\", for: 3h, zone: utc}\n");
    uint64_t from = at("2026-06-01T00:00:00Z");

    (void)state;
    for (uint64_t past = 0; past < 30 * NS_PER_DAY; past += 7 * NS_PER_MIN) {
        uint64_t now = from + past, of_week = past % NS_PER_WEEK; /* the first is a Monday */
        uint64_t begin = 2 * NS_PER_DAY + 23 * NS_PER_H;

        maintenance_advance(always, now);
        maintenance_advance(weekly, now);
        assert_true(maintenance_at(always, 0)->active);
        assert_int_equal(maintenance_at(weekly, 0)->active, of_week >= begin && of_week < begin + 3 * NS_PER_H);
    }
    maintenance_free(always);
    maintenance_free(weekly);
}

static void what_is_wrong_is_named_and_the_old_ones_stay(void **state)
{
    static const struct {
        const char *yaml, *text;
    } rows[] = {
        {"a: b\n", "stoker.yaml:1:1: 'maintenance' must be a list, not a mapping"},
        {"- {for: 2h}\n", "stoker.yaml:1:3: a window needs 'from', its time of day"},
        {"- {from: \"02:00\"}\n", "stoker.yaml:1:3: a window needs 'for', its length"},
        {"- {from: \"24:00\", for: 2h}\n", "stoker.yaml:1:10: 'from' must be a time of day such as \"02:30\""},
        {"- {from: \"2:5\", for: 2h}\n", "stoker.yaml:1:10: 'from' must be a time of day such as \"02:30\""},
        {"- {from: \"02:00\", for: 8d}\n", "stoker.yaml:1:24: 'for': '8d' is out of range, 1m to 1w is allowed"},
        {"- {from: \"02:00\", for: 2h, days: [mon, funday]}\n",
         "stoker.yaml:1:40: 'days': 'funday' is no day; use mon, tue, wed, thu, fri, sat, sun, or daily"},
        {"- {from: \"02:00\", for: 2h, days: []}\n", "stoker.yaml:1:34: 'days' names no day"},
        {"- {from: \"02:00\", for: 2h, gpus: [64]}\n",
         "stoker.yaml:1:34: 'gpus' must be all, or a list of numbers from 0 to 63 and of UUIDs"},
        {"- {from: \"02:00\", for: 2h, gpus: []}\n",
         "stoker.yaml:1:34: 'gpus' names no GPU; use all for the whole node"},
        {"- {from: \"02:00\", for: 2h, zone: moon}\n", "stoker.yaml:1:34: 'zone': 'moon' is none of local, utc"},
        {"- {from: \"02:00\", for: 2h, why: x}\n",
         "stoker.yaml:1:28: unknown key 'why'; allowed: days, from, for, gpus, reason, zone"},
    };
    Maintenance *maintenance =
        configured("- {from: \"02:00\", for: 2h, gpus: [0, GPU-a, 2]}\n- {from: \"05:00\", for: 1h}\n");

    (void)state;
    assert_int_equal(maintenance_at(maintenance, 0)->gpus, 5);
    assert_string_equal(maintenance_at(maintenance, 0)->uuids[0], "GPU-a");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        Err err = {0};

        assert_true(configure(maintenance, rows[i].yaml, &err) < 0);
        assert_string_equal(err.text, rows[i].text);
        assert_int_equal(maintenance_count(maintenance), 2);
    }
    assert_int_equal(maintenance_configure(maintenance, NULL, NULL), 0);
    assert_int_equal(maintenance_count(maintenance), 0);
    maintenance_free(maintenance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_hand_begins_and_ends),
        cmocka_unit_test(refusals_by_hand),
        cmocka_unit_test(what_a_window_covers),
        cmocka_unit_test(a_recurring_window_comes_and_goes),
        cmocka_unit_test(stopping_a_recurring_one_skips_it_once),
        cmocka_unit_test(local_time_with_summer_time),
        cmocka_unit_test(every_second_of_a_month_agrees_with_counting),
        cmocka_unit_test(what_is_wrong_is_named_and_the_old_ones_stay),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
