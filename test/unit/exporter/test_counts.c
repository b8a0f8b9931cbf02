/* SPDX-License-Identifier: Apache-2.0 */
/* The edges of what is counted over ticks (service/prometheus/counts.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "kit.h"
#include "service/prometheus/counts.h"

enum { POWER_CAP = 2, XID = 7 };

#define START (UINT64_C(1000000) * NS_PER_S)

static uint64_t xids_at(const Counts *counts, uint64_t now_ns)
{
    return count_window_sum(&counts->gpus.at[0]->xids.at[0].window, counts->xid_width_ns, now_ns);
}

static void add_xid(Counts *counts, const Kit *kit, uint64_t time_ns)
{
    const Event event = kit_xid(kit, 0, XID, time_ns);

    counts_add_xid(counts, &event, &(CountKeep){.put = NULL});
}

/* An XID that is told late counts where it belongs; one older than the window must not become a new one. */
static void a_late_xid_counts_within_its_window(void **state)
{
    Counts counts = {0};
    Kit kit;

    (void)state;
    kit_node(&kit, 1);
    kit.node.time_ns = START;
    counts_set_windows(&counts, 300 * NS_PER_S, 300 * NS_PER_S);
    add_xid(&counts, &kit, START);
    assert_int_equal(xids_at(&counts, START), 1);
    add_xid(&counts, &kit, START - 299 * NS_PER_S);
    assert_int_equal(xids_at(&counts, START), 2);
    assert_int_equal(xids_at(&counts, START + NS_PER_S), 1);
    add_xid(&counts, &kit, START - 300 * NS_PER_S);
    add_xid(&counts, &kit, START - 301 * NS_PER_S);
    assert_int_equal(xids_at(&counts, START), 2);
    assert_int_equal(counts.gpus.at[0]->xids.at[0].total, 4); /* since the start, all */
    assert_true(counts.gpus.at[0]->xids.at[0].last_ns == START);
    counts_done(&counts);
    kit_done(&kit);
}

/* After a pause of more than the whole window nothing old is left in it. */
static void a_long_pause_empties_the_window(void **state)
{
    Counts counts = {0};
    Kit kit;

    (void)state;
    kit_node(&kit, 1);
    kit.node.time_ns = START;
    counts_set_windows(&counts, 300 * NS_PER_S, 300 * NS_PER_S);
    for (uint64_t i = 0; i < 300; i++)
        add_xid(&counts, &kit, START + i * NS_PER_S);
    assert_int_equal(xids_at(&counts, START + 299 * NS_PER_S), 300);
    add_xid(&counts, &kit, START + 10000 * NS_PER_S);
    assert_int_equal(xids_at(&counts, START + 10000 * NS_PER_S), 1);
    counts_done(&counts);
    kit_done(&kit);
}

static void set_reasons(Counts *counts, Kit *kit, int64_t bits)
{
    kit->node.time_ns += NS_PER_S;
    sample_set_int64(&kit->gpus[0].reading.sample[METRIC_CLOCKS_EVENT_REASONS], kit->node.time_ns, bits);
    counts_tick(counts, &kit->node, &(CountKeep){.put = NULL});
}

/* What is on at the first reading may have been on for long: no edge. */
static void a_clock_event_at_the_first_reading_is_no_edge(void **state)
{
    const int64_t bit = 1 << POWER_CAP;
    Counts counts = {0};
    Kit kit;

    (void)state;
    kit_node(&kit, 1);
    kit.node.time_ns = START;
    counts_set_windows(&counts, 300 * NS_PER_S, 300 * NS_PER_S);
    set_reasons(&counts, &kit, bit);
    assert_int_equal(counts.gpus.at[0]->clock[POWER_CAP].edges, 0);
    set_reasons(&counts, &kit, bit);
    assert_int_equal(counts.gpus.at[0]->clock[POWER_CAP].edges, 0);
    set_reasons(&counts, &kit, 0);
    set_reasons(&counts, &kit, bit);
    assert_int_equal(counts.gpus.at[0]->clock[POWER_CAP].edges, 1);
    assert_int_equal(
        count_window_sum(&counts.gpus.at[0]->clock[POWER_CAP].window, counts.clock_width_ns, kit.node.time_ns), 3);
    counts_done(&counts);
    kit_done(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_late_xid_counts_within_its_window),
        cmocka_unit_test(a_long_pause_empties_the_window),
        cmocka_unit_test(a_clock_event_at_the_first_reading_is_no_edge),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
