/* SPDX-License-Identifier: Apache-2.0 */
/* Properties over random input: promises over streams (stream.c), the same result whichever of log and library comes
 * first, and the same after a restart as without. */
#include "kit.h"

#include <stdlib.h>

#include "engine/health/xid_merge.h"
#include "stream.h"
#include "../slow.h"

static uint64_t draw(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static void promises_hold_over_random_streams(void **state)
{
    enum { BYTES = 3000 };
    uint8_t data[BYTES];
    uint64_t seed = 88172645463325252u;

    (void)state;
    for (int run = 0; run < 60 / TEST_SLOW; run++) {
        for (size_t i = 0; i < BYTES; i++)
            data[i] = (uint8_t)(draw(&seed) >> 24);
        stream_run(data, BYTES);
    }
}

static int by_thing(const void *a, const void *b)
{
    const Incident *left = a, *right = b;
    int order = strcmp(left->class, right->class);
    char a_key[DEVICE_KEY_CAP] = "", b_key[DEVICE_KEY_CAP] = "";

    device_key(&left->device, a_key);
    device_key(&right->device, b_key);
    if (order == 0)
        order = strcmp(a_key, b_key);
    if (order == 0)
        order = left->code - right->code;
    if (order == 0)
        order = strcmp(left->process, right->process);
    return order != 0 ? order : strcmp(left->id, right->id);
}

static size_t open_ones(const Kit *kit, Incident *out)
{
    size_t count = 0;

    for (size_t i = 0; i < incidents_count(kit->incidents); i++)
        if (incidents_at(kit->incidents, i)->state == INCIDENT_OPEN)
            out[count++] = *incidents_at(kit->incidents, i);
    qsort(out, count, sizeof *out, by_thing);
    return count;
}

static void assert_same(const Kit *left, const Kit *right)
{
    Incident *a = calloc(INCIDENTS_MAX, sizeof *a), *b = calloc(INCIDENTS_MAX, sizeof *b);
    size_t count = open_ones(left, a);

    assert_int_equal(open_ones(right, b), count);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(a[i].class, b[i].class);
        assert_true(device_equal(&a[i].device, &b[i].device));
        assert_int_equal(a[i].code, b[i].code);
        assert_string_equal(a[i].process, b[i].process);
        assert_int_equal(a[i].severity, b[i].severity);
        assert_int_equal(a[i].action, b[i].action);
        assert_int_equal(a[i].route, b[i].route);
        assert_int_equal(a[i].count, b[i].count);
        assert_int_equal(a[i].echo_count, b[i].echo_count);
        assert_int_equal(a[i].code_count, b[i].code_count);
        assert_true(a[i].last_evidence_ns == b[i].last_evidence_ns);
    }
    free(a);
    free(b);
}

static Event random_xid(Kit *kit, uint64_t *seed)
{
    static const int32_t codes[] = {79, 48, 63, 64, 94, 95, 119, 45, 31, 13, 74, 149, 46, 154};
    static const char *const programs[] = {"python", "vllm", "train"};
    Event event = kit_xid(kit, (int)(draw(seed) % 3), codes[draw(seed) % (sizeof codes / sizeof codes[0])]);

    if (event.code == 74)
        event.link = (uint32_t)(draw(seed) % 2);
    if (event.code == 31 || event.code == 13 || event.code == 45)
        strcpy(event.process, programs[draw(seed) % 3]);
    if (event.code == 154)
        event.recovery_action = 1 + (int32_t)(draw(seed) % 2);
    return event;
}

/* The event of the driver's library for the same XID. */
static Event of_library(const Event *log)
{
    Event event;

    event_init(&event, EVENT_XID, EVENT_FROM_NVML);
    event.time_ns = log->time_ns;
    event.real_ns = log->real_ns;
    event.has_pci = true;
    event.pci = log->pci;
    event.code = log->code;
    strcpy(event.text, "told by the library");
    return event;
}

static void give_merged(Kit *kit, XidMerge *merge, const Event *event)
{
    if (xid_merge_add(merge, event, true, kit->now_ns))
        kit_give(kit, event);
    kit_turn(kit);
}

/* Whichever comes first, up to XID_MERGE_NS before the other. */
static void log_and_library_are_as_the_log_alone(void **state)
{
    XidMerge *merge = calloc(1, sizeof *merge);

    (void)state;
    for (uint64_t run = 1; run <= 60 / TEST_SLOW; run++) {
        Kit both, alone;
        uint64_t seed = run * 7919;
        Event late;

        kit_init(&both);
        kit_init(&alone);
        for (int i = 0; i < 40; i++) {
            uint64_t past = (6 + draw(&seed) % 40) * SECOND, apart = draw(&seed) % XID_MERGE_NS;
            bool log_first = draw(&seed) % 2;
            Event log, library;

            kit_tick(&both, past);
            kit_tick(&alone, past);
            log = random_xid(&both, &seed);
            library = of_library(&log);
            give_merged(&both, merge, log_first ? &log : &library);
            if (log_first) {
                kit_give(&alone, &log);
                kit_turn(&alone);
            }
            kit_tick(&both, apart);
            kit_tick(&alone, apart);
            assert_false(xid_merge_next(merge, both.now_ns, &late));
            if (!log_first)
                log.time_ns += apart, log.real_ns += apart;
            give_merged(&both, merge, log_first ? &library : &log);
            if (!log_first) {
                kit_give(&alone, &log);
                kit_turn(&alone);
            }
        }
        assert_same(&both, &alone);
        kit_done(&both);
        kit_done(&alone);
    }
    free(merge);
}

static void a_restart_changes_nothing(void **state)
{
    static const int32_t codes[] = {48, 63, 64, 94, 95, 119, 74, 149, 46}; /* a GPU that answers is not lost */

    (void)state;
    for (uint64_t run = 1; run <= 60 / TEST_SLOW; run++) {
        Kit one, two;
        uint64_t seed = run * 15485863;

        kit_init(&one);
        kit_init(&two);
        for (int i = 0; i < 60; i++) {
            uint64_t past = draw(&seed) % 50 * SECOND;
            int gpu = (int)(draw(&seed) % 3);
            int32_t code = codes[draw(&seed) % (sizeof codes / sizeof codes[0])];

            kit_tick(&one, past);
            kit_tick(&two, past);
            if (draw(&seed) % 12 == 0)
                code = 0;
            if (draw(&seed) % 8 == 0) { /* it is started anew, with what the journal has */
                Incident *kept = calloc(INCIDENTS_MAX, sizeof *kept);
                size_t count = 0;

                for (size_t k = 0; k < incidents_count(two.incidents); k++)
                    kept[count++] = *incidents_at(two.incidents, k);
                incidents_free(two.incidents);
                two.incidents = incidents_new((const Catalogue *)&two.node, NULL, NULL, NULL);
                incidents_restore(two.incidents, kept, count, two.now_ns, two.real_ns);
                free(kept);
            }
            for (Kit *kit = &one; kit; kit = kit == &one ? &two : NULL) {
                Event event = kit_xid(kit, gpu, code);

                if (code == 0)
                    event.kind = EVENT_RESET;
                kit_give(kit, &event);
                kit_turn(kit);
            }
        }
        assert_same(&one, &two);
        kit_done(&one);
        kit_done(&two);
    }
}

static void a_jumping_wall_clock_does_no_harm(void **state)
{
    (void)state;
    for (uint64_t run = 1; run <= 30 / TEST_SLOW; run++) {
        Kit steady, jumping;
        uint64_t seed = run * 32452843, coin = run;

        kit_init(&steady);
        kit_init(&jumping);
        for (int i = 0; i < 60; i++) {
            uint64_t past = draw(&seed) % 200 * SECOND;
            Event event;

            kit_tick(&steady, past);
            jumping.real_ns += (draw(&coin) % 48) * HOUR - 24 * HOUR;
            kit_tick(&jumping, past);
            event = random_xid(&steady, &seed);
            kit_give(&steady, &event);
            kit_turn(&steady);
            event.real_ns = jumping.real_ns;
            kit_give(&jumping, &event);
            kit_turn(&jumping);
        }
        assert_same(&steady, &jumping);
        kit_done(&steady);
        kit_done(&jumping);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(promises_hold_over_random_streams),
        cmocka_unit_test(log_and_library_are_as_the_log_alone),
        cmocka_unit_test(a_restart_changes_nothing),
        cmocka_unit_test(a_jumping_wall_clock_does_no_harm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
