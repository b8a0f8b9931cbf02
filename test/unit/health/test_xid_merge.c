/* SPDX-License-Identifier: Apache-2.0 */
/* An XID of the driver's library and its line in the kernel log count once (engine/health/xid_merge.c). */
#include "kit.h"

#include "engine/health/xid_merge.h"

#define START (1000 * SECOND)

static Event make_xid(EventOrigin origin, int gpu, int32_t code)
{
    Event event;

    event_init(&event, EVENT_XID, origin);
    event.has_pci = true;
    event.pci = kit_pci(gpu);
    event.code = code;
    return event;
}

static bool add(XidMerge *merge, EventOrigin origin, int gpu, int32_t code, uint64_t now_ns)
{
    const Event event = make_xid(origin, gpu, code);

    return xid_merge_add(merge, &event, true, now_ns);
}

static size_t count_due(XidMerge *merge, uint64_t now_ns)
{
    Event event;
    size_t count = 0;

    while (xid_merge_next(merge, now_ns, &event)) {
        assert_int_equal(event.origin, EVENT_FROM_NVML);
        count++;
    }
    return count;
}

static void the_line_is_used_whichever_comes_first(void **state)
{
    XidMerge merge = {0};

    (void)state;
    assert_false(add(&merge, EVENT_FROM_NVML, 1, 48, START));
    assert_true(add(&merge, EVENT_FROM_KMSG, 1, 48, START + SECOND));
    assert_true(add(&merge, EVENT_FROM_KMSG, 2, 48, START + 2 * SECOND));
    assert_false(add(&merge, EVENT_FROM_NVML, 2, 48, START + 3 * SECOND));
    assert_int_equal(count_due(&merge, START + HOUR), 0);
}

static uint64_t find_wait(const XidMerge *merge, uint64_t now_ns)
{
    uint64_t wait_ns = UINT64_MAX;

    assert_true(xid_merge_wait(merge, now_ns, &wait_ns));
    return wait_ns;
}

static void an_event_without_a_line_is_used_when_its_time_is_up(void **state)
{
    XidMerge merge = {0};
    uint64_t wait_ns;

    (void)state;
    assert_false(add(&merge, EVENT_FROM_NVML, 1, 48, START));
    assert_false(add(&merge, EVENT_FROM_NVML, 1, 79, START + SECOND));
    assert_int_equal(find_wait(&merge, START + SECOND), XID_MERGE_NS - SECOND);
    assert_int_equal(count_due(&merge, START + XID_MERGE_NS - 1), 0);
    assert_int_equal(count_due(&merge, START + XID_MERGE_NS), 1);
    assert_int_equal(find_wait(&merge, START + XID_MERGE_NS), SECOND); /* each waits its own time */
    assert_int_equal(find_wait(&merge, START + HOUR), 0);
    assert_int_equal(count_due(&merge, START + SECOND + XID_MERGE_NS), 1);
    assert_false(xid_merge_wait(&merge, START + HOUR, &wait_ns));
    assert_true(add(&merge, EVENT_FROM_KMSG, 1, 48, START + 3 * SECOND)); /* too late to be the same */
}

static void an_event_long_after_a_line_is_another(void **state)
{
    XidMerge merge = {0};

    (void)state;
    assert_true(add(&merge, EVENT_FROM_JOURNAL, 1, 48, START));
    assert_false(add(&merge, EVENT_FROM_NVML, 1, 48, START + XID_MERGE_NS));
    assert_int_equal(count_due(&merge, START + 2 * XID_MERGE_NS), 1);
}

static void another_gpu_or_code_is_another(void **state)
{
    XidMerge merge = {0};

    (void)state;
    assert_false(add(&merge, EVENT_FROM_NVML, 1, 48, START));
    assert_true(add(&merge, EVENT_FROM_KMSG, 2, 48, START));
    assert_true(add(&merge, EVENT_FROM_KMSG, 1, 63, START));
    assert_int_equal(count_due(&merge, START + XID_MERGE_NS), 1);
}

static void each_counts_for_one(void **state)
{
    XidMerge merge = {0};

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_true(add(&merge, EVENT_FROM_KMSG, 1, 45, START));
    for (int i = 0; i < 5; i++)
        assert_false(add(&merge, EVENT_FROM_NVML, 1, 45, START));
    assert_int_equal(count_due(&merge, START + XID_MERGE_NS), 2);
}

static void nothing_waits_for_a_log_that_cannot_be_read(void **state)
{
    const Event event = make_xid(EVENT_FROM_NVML, 1, 48);
    XidMerge merge = {0};

    (void)state;
    assert_true(xid_merge_add(&merge, &event, false, START));
    assert_int_equal(count_due(&merge, START + HOUR), 0);
}

static void other_events_and_old_lines_pass(void **state)
{
    Event event = make_xid(EVENT_FROM_KMSG, 1, 48);
    XidMerge merge = {0};

    (void)state;
    event.before = true;
    assert_true(xid_merge_add(&merge, &event, true, START));
    assert_false(add(&merge, EVENT_FROM_NVML, 1, 48, START)); /* that line is no match */
    event_init(&event, EVENT_OOM_KILL, EVENT_FROM_KMSG);
    assert_true(xid_merge_add(&merge, &event, true, START));
    assert_int_equal(count_due(&merge, START + XID_MERGE_NS), 1);
}

static void a_flood_is_bounded_and_loses_nothing(void **state)
{
    XidMerge merge = {0};
    size_t used = 0;

    (void)state;
    for (int i = 0; i < 10 * XID_MERGE_MAX; i++)
        used += add(&merge, EVENT_FROM_NVML, 1, 1 + i, START);
    assert_int_equal(used, 9 * XID_MERGE_MAX);
    assert_int_equal(count_due(&merge, START + XID_MERGE_NS), XID_MERGE_MAX);
    for (int i = 0; i < 10 * XID_MERGE_MAX; i++)
        assert_true(add(&merge, EVENT_FROM_KMSG, 1, 1 + i, START + HOUR));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_line_is_used_whichever_comes_first),
        cmocka_unit_test(an_event_without_a_line_is_used_when_its_time_is_up),
        cmocka_unit_test(an_event_long_after_a_line_is_another),
        cmocka_unit_test(another_gpu_or_code_is_another),
        cmocka_unit_test(each_counts_for_one),
        cmocka_unit_test(nothing_waits_for_a_log_that_cannot_be_read),
        cmocka_unit_test(other_events_and_old_lines_pass),
        cmocka_unit_test(a_flood_is_bounded_and_loses_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
