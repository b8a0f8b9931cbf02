/* SPDX-License-Identifier: Apache-2.0 */
/* The history as its users see it (engine/store/store.c and what it is made of). */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "engine/store/store.h"

#define START (3 * NS_PER_DAY + 7 * NS_PER_MIN) /* at the start of a minute */

static void add(Store *store, StoreSeries series, uint64_t now_ns, double value)
{
    Sample sample = {0};

    sample_set_double(&sample, now_ns, value);
    store_add(store, series, now_ns, &sample);
}

static void add_absent(Store *store, StoreSeries series, uint64_t now_ns, Absence why)
{
    Sample sample = {0};

    sample_set_absent(&sample, now_ns, why);
    store_add(store, series, now_ns, &sample);
}

static StoreSeries open_series(Store *store, MetricId metric)
{
    StoreSeries series = store_open(store, "gpu/GPU-1", metric, START);

    assert_true(series >= 0);
    return series;
}

static StoreMinute minute_at(const Store *store, StoreSeries series, uint64_t time_ns)
{
    StoreMinute minute = {.time_ns = 1};

    assert_int_equal(store_minutes(store, series, time_ns, time_ns, &minute, 1), 1);
    assert_int_equal(minute.time_ns, time_ns / NS_PER_MIN * NS_PER_MIN);
    return minute;
}

static void an_empty_store_answers(void **state)
{
    Store *store = store_new(10);
    StoreSeries series = open_series(store, METRIC_POWER_USAGE);
    StoreSecond second;
    StoreMinute minute;

    (void)state;
    assert_int_equal(store_seconds(store, series, 0, UINT64_MAX, &second, 1), 0);
    assert_int_equal(store_minutes(store, series, 0, UINT64_MAX, &minute, 1), 0);
    for (StoreSeries none = -3; none < 20; none++)
        if (none != series) {
            add(store, none, START, 1);
            store_add_fast(store, none, START, 1);
            assert_int_equal(store_seconds(store, none, 0, UINT64_MAX, &second, 1), 0);
            assert_int_equal(store_minutes(store, none, 0, UINT64_MAX, &minute, 1), 0);
        }
    add(store, INT32_MAX, START, 1);
    store_free(store);
    store_free(NULL);
}

static void series_are_found_again(void **state)
{
    Store *store = store_new(1000);
    StoreSeries power = open_series(store, METRIC_POWER_USAGE);

    (void)state;
    assert_int_equal(store_open(store, "gpu/GPU-1", METRIC_POWER_USAGE, START + 5), power);
    assert_int_equal(store_find(store, "gpu/GPU-1", METRIC_POWER_USAGE), power);
    assert_true(store_find(store, "gpu/GPU-1", METRIC_GPU_UTIL) < 0);
    assert_true(store_find(store, "gpu/GPU-", METRIC_POWER_USAGE) < 0);
    assert_true(store_find(store, "", METRIC_POWER_USAGE) < 0);
    {
        char longer[2 * DEVICE_KEY_CAP];

        memset(longer, 'g', sizeof longer);
        longer[sizeof longer - 1] = '\0';
        assert_true(store_find(store, longer, METRIC_POWER_USAGE) < 0);
    }
    assert_int_equal(store_open(store, "gpu/GPU-1", METRIC_SERIAL, START), STORE_NOT_KEPT);
    assert_int_equal(store_open(store, "gpu/GPU-1", METRIC_MAX_SM_CLOCK, START), STORE_NOT_KEPT);
    assert_true(store_open(store, "gpu/GPU-2", METRIC_POWER_USAGE, START) != power);
    assert_int_equal(store_series_count(store), 2);
    assert_int_equal(store_refused(store), 0);
    store_free(store);
}

typedef struct Seen {
    size_t count;
    char key[DEVICE_KEY_CAP];
    MetricId metric;
    const Store *store;
} Seen;

static void see(void *self, StoreSeries series, const char *key, MetricId metric)
{
    Seen *seen = self;

    if (seen->count++ > 0) {
        int order = strcmp(seen->key, key);

        assert_true(order < 0 || (order == 0 && seen->metric < metric));
    }
    snprintf(seen->key, sizeof seen->key, "%s", key);
    seen->metric = metric;
    assert_int_equal(store_find(seen->store, key, metric), series);
}

static void each_goes_by_key_and_metric(void **state)
{
    static const int order[] = {5, 11, 2, 0, 9, 3, 10, 1, 8, 4, 7, 6};
    Store *store = store_new(5000);
    Seen seen = {.store = store};
    size_t expected = 0;

    (void)state;
    for (size_t i = 0; i < 12; i++)
        for (MetricId metric = METRIC_END; metric-- > 0;) {
            char key[32];

            snprintf(key, sizeof key, "gpu/%d", order[i]);
            expected += store_open(store, key, metric, START) >= 0;
        }
    store_each(store, see, &seen);
    assert_int_equal(seen.count, expected);
    assert_int_equal(store_series_count(store), expected);
    assert_true(expected > 12 * 50);
    store_free(store);
}

/* An energy counter of months keeps its last digit, in seconds and minutes, and so does what it grew by. */
static void energy_keeps_its_last_digit(void **state)
{
    Store *store = store_new(10);
    StoreSeries series = open_series(store, METRIC_TOTAL_ENERGY_CONSUMPTION);
    const int64_t start = 50000000001;
    StoreSecond seconds[300];

    (void)state;
    for (int64_t s = 0; s < 300; s++) {
        Sample sample = {0};

        sample_set_int64(&sample, START, start + 3 * s);
        store_add(store, series, START + (uint64_t)s * NS_PER_S, &sample);
    }
    assert_int_equal(store_seconds(store, series, 0, UINT64_MAX, seconds, 300), 300);
    for (int64_t s = 0; s < 300; s++)
        assert_true(seconds[s].valid && seconds[s].value == (double)(start + 3 * s));
    for (uint64_t m = 0; m < 5; m++) {
        StoreMinute minute = minute_at(store, series, START + m * NS_PER_MIN);

        assert_true(minute.max == (double)(start + 3 * (60 * (int64_t)m + 59)));
        assert_true(minute.increase == (m == 0 ? 3 * 59 : 3 * 60));
        assert_int_equal(minute.valid_seconds, 60);
    }
    store_free(store);
}

static void counters_that_begin_anew(void **state)
{
    Store *store = store_new(10);
    StoreSeries series = open_series(store, METRIC_PCIE_REPLAY_COUNTER);

    (void)state;
    add(store, series, START, 100);
    add(store, series, START + 10 * NS_PER_S, 130);
    add(store, series, START + 20 * NS_PER_S, 7); /* the driver was loaded again, and counted 7 since */
    add(store, series, START + 30 * NS_PER_S, 9);
    assert_true(minute_at(store, series, START).increase == 30 + 7 + 2);
    assert_true(minute_at(store, series, START).max == 9);
    add(store, series, START + 60 * NS_PER_S, 10);
    assert_true(minute_at(store, series, START).increase == 30 + 7 + 2);
    assert_true(minute_at(store, series, START + NS_PER_MIN).increase == 1);
    add_absent(store, series, START + 90 * NS_PER_S, ABSENCE_GPU_LOST);
    add(store, series, START + 3 * NS_PER_H, 25); /* it went on while nobody could look */
    assert_true(minute_at(store, series, START + 3 * NS_PER_H).increase == 15);
    add(store, series, START + 30 * NS_PER_H, 125); /* a gap longer than the ring */
    assert_true(minute_at(store, series, START + 30 * NS_PER_H).increase == 100);
    add(store, series, START + 31 * NS_PER_H, 3);
    assert_true(minute_at(store, series, START + 31 * NS_PER_H).increase == 3);
    store_free(store);
}

static void gauges_fold_what_is_valid(void **state)
{
    Store *store = store_new(10);
    StoreSeries series = open_series(store, METRIC_GPU_TEMP);
    StoreMinute minute;

    (void)state;
    add(store, series, START, 30);
    add(store, series, START + NS_PER_S, 40);
    add_absent(store, series, START + 2 * NS_PER_S, ABSENCE_TIMED_OUT);
    add(store, series, START + 3 * NS_PER_S, -4);
    minute = minute_at(store, series, START + 59 * NS_PER_S);
    assert_true(minute.min == -4 && minute.max == 40 && fabs(minute.mean - 22) <= 0.03);
    assert_true(minute.increase == 0);
    assert_int_equal(minute.valid_seconds, 3);
    store_free(store);
}

/* A burst of a tenth of a second shows in the minute although no second's sample saw it. */
static void fast_readings_show_bursts(void **state)
{
    Store *store = store_new(10);
    StoreSeries series = open_series(store, METRIC_POWER_USAGE);
    StoreMinute minute;

    (void)state;
    for (uint64_t tick = 0; tick < 600; tick++) {
        uint64_t now = START + tick * NS_PER_S / 10;

        if (tick % 10 == 0)
            add(store, series, now, 100);
        store_add_fast(store, series, now + 1, tick % 10 == 5 ? 700 : 100);
    }
    store_add_fast(store, series, START, NAN);
    minute = minute_at(store, series, START);
    assert_true(minute.min == 100 && minute.max == 700 && fabs(minute.mean - 160) <= 0.5);
    assert_int_equal(minute.valid_seconds, 60);
    store_free(store);
}

/* Fast readings of the last second of a minute arrive when the next minute has begun; so they count where they belong,
 * and those that are later than a minute do not. */
static void late_fast_readings_find_their_minute(void **state)
{
    Store *store = store_new(10);
    StoreSeries series = open_series(store, METRIC_POWER_USAGE);

    (void)state;
    add(store, series, START, 100);
    add(store, series, START + NS_PER_MIN, 100);
    store_add_fast(store, series, START + 59 * NS_PER_S, 300);
    assert_true(minute_at(store, series, START).max == 300);
    assert_true(minute_at(store, series, START + NS_PER_MIN).max == 100);
    add(store, series, START + 2 * NS_PER_MIN, 100);
    store_add_fast(store, series, START + 59 * NS_PER_S, 900);
    assert_true(minute_at(store, series, START).max == 300);
    store_free(store);
}

static void fast_readings_of_counters_are_none(void **state)
{
    Store *store = store_new(10);
    StoreSeries series = open_series(store, METRIC_TOTAL_ENERGY_CONSUMPTION);
    StoreMinute minute;

    (void)state;
    store_add_fast(store, series, START, 5);
    assert_int_equal(store_minutes(store, series, 0, UINT64_MAX, &minute, 1), 0);
    store_free(store);
}

static void a_second_keeps_its_last_sample(void **state)
{
    Store *store = store_new(10);
    StoreSeries series = open_series(store, METRIC_GPU_UTIL);
    StoreSecond second;

    (void)state;
    add(store, series, START, 10);
    add(store, series, START + 900 * NS_PER_MS, 90);
    add(store, series, START + 800 * NS_PER_MS, 50); /* from the past: dropped */
    assert_int_equal(store_seconds(store, series, START, START, &second, 1), 1);
    assert_true(second.valid && second.value == 90);
    assert_true(minute_at(store, series, START).min == 10);
    assert_int_equal(minute_at(store, series, START).valid_seconds, 1);
    add_absent(store, series, START + 950 * NS_PER_MS, ABSENCE_IN_USE);
    assert_int_equal(store_seconds(store, series, START, START, &second, 1), 1);
    assert_false(second.valid);
    assert_int_equal(second.why, ABSENCE_IN_USE);
    store_free(store);
}

static void gaps_are_told_inside_only(void **state)
{
    Store *store = store_new(10);
    StoreSeries series = open_series(store, METRIC_GPU_UTIL);
    StoreSecond seconds[100];
    StoreMinute minutes[10];

    (void)state;
    add(store, series, START + 10 * NS_PER_S, 1);
    add(store, series, START + 14 * NS_PER_S, 2);
    assert_int_equal(store_seconds(store, series, START, START + NS_PER_MIN, seconds, 100), 5);
    assert_true(seconds[0].valid && seconds[4].valid);
    for (size_t i = 1; i < 4; i++) {
        assert_int_equal(seconds[i].time_ns, START + (10 + i) * NS_PER_S);
        assert_false(seconds[i].valid);
        assert_int_equal(seconds[i].why, ABSENCE_NOT_YET);
    }
    assert_int_equal(store_seconds(store, series, START + 11 * NS_PER_S, START + 13 * NS_PER_S, seconds, 100), 0);
    assert_int_equal(store_seconds(store, series, START + 12 * NS_PER_S, START + NS_PER_MIN, seconds, 100), 1);
    assert_int_equal(store_seconds(store, series, START, START + 13 * NS_PER_S, seconds, 100), 1);
    assert_int_equal(store_seconds(store, series, START + NS_PER_MIN, START, seconds, 100), 0);
    assert_int_equal(store_seconds(store, series, START, START + NS_PER_MIN, seconds, 2), 1);

    add(store, series, START + 3 * NS_PER_MIN, 3);
    assert_int_equal(store_minutes(store, series, START, START + NS_PER_H, minutes, 10), 4);
    assert_int_equal(minutes[1].valid_seconds, 0);
    assert_true(minutes[1].min == 0 && minutes[1].max == 0 && minutes[1].mean == 0);
    assert_int_equal(minutes[3].valid_seconds, 1);
    store_free(store);
}

/* Ten minutes of seconds and a day of minutes, no more; and a device that vanished keeps what it had. */
static void rings_hold_what_they_say(void **state)
{
    static StoreSecond seconds[2 * STORE_SECONDS];
    static StoreMinute minutes[2 * STORE_MINUTES];
    Store *store = store_new(10);
    StoreSeries series = open_series(store, METRIC_FB_USED), gone;
    uint64_t end = START;

    (void)state;
    gone = store_open(store, "gpu/GPU-2", METRIC_FB_USED, START);
    add(store, gone, START, 5);
    for (uint64_t s = 0; s < 100000; s += s < 90000 ? 20 : 1) {
        end = START + s * NS_PER_S;
        add(store, series, end, (double)(s % 81559));
    }
    assert_int_equal(store_seconds(store, series, 0, UINT64_MAX, seconds, 2 * STORE_SECONDS), STORE_SECONDS);
    assert_int_equal(seconds[STORE_SECONDS - 1].time_ns, end);
    assert_true(seconds[0].value == (double)((100000 - STORE_SECONDS) % 81559));
    assert_int_equal(store_minutes(store, series, 0, UINT64_MAX, minutes, 2 * STORE_MINUTES), STORE_MINUTES);
    assert_int_equal(minutes[STORE_MINUTES - 1].time_ns, end / NS_PER_MIN * NS_PER_MIN);
    assert_int_equal(minutes[0].valid_seconds, 3);
    assert_int_equal(minutes[STORE_MINUTES - 2].valid_seconds, 60);
    assert_int_equal(store_seconds(store, gone, 0, UINT64_MAX, seconds, 10), 1);
    assert_int_equal(store_minutes(store, gone, 0, UINT64_MAX, minutes, 10), 1);
    assert_true(minutes[0].max == 5);
    store_free(store);
}

/* What is read of a minute does not change when it closes. */
static void closing_changes_no_answer(void **state)
{
    Store *store = store_new(10);
    StoreSeries series = open_series(store, METRIC_POWER_USAGE);
    StoreMinute before, after;

    (void)state;
    for (uint64_t s = 0; s < 60; s++)
        add(store, series, START + s * NS_PER_S, 300.123 + (double)(s * s % 17));
    before = minute_at(store, series, START);
    for (uint64_t m = 1; m < 5; m++) {
        add(store, series, START + m * NS_PER_MIN, 1);
        after = minute_at(store, series, START);
        assert_true(before.min == after.min && before.mean == after.mean && before.max == after.max);
        assert_int_equal(before.valid_seconds, after.valid_seconds);
    }
    store_free(store);
}

static void no_room_is_counted(void **state)
{
    Store *store = store_new(2);
    StoreSeries a = open_series(store, METRIC_GPU_TEMP), b = open_series(store, METRIC_GPU_UTIL);

    (void)state;
    assert_true(a >= 0 && b >= 0);
    for (uint64_t i = 1; i <= 10; i++) {
        assert_int_equal(store_open(store, "gpu/GPU-1", METRIC_FB_USED, START + i), STORE_NO_ROOM);
        assert_int_equal(store_refused(store), i);
    }
    assert_int_equal(store_open(store, "gpu/GPU-9", METRIC_SERIAL, START), STORE_NOT_KEPT);
    assert_int_equal(store_refused(store), 10);
    assert_int_equal(store_open(store, "gpu/GPU-1", METRIC_GPU_TEMP, START), a);
    assert_int_equal(store_series_count(store), 2);
    store_free(store);
}

static void the_dead_give_their_room(void **state)
{
    Store *store = store_new(3);
    StoreSeries temp = open_series(store, METRIC_GPU_TEMP), util = open_series(store, METRIC_GPU_UTIL), used, next;
    StoreSecond second;
    StoreMinute minute;
    Seen seen = {.store = store};

    (void)state;
    used = store_open(store, "gpu/GPU-0", METRIC_FB_USED, START);
    add(store, temp, START + NS_PER_H, 30);
    add(store, util, START + 2 * NS_PER_H, 40);
    add_absent(store, used, START + 3 * NS_PER_H, ABSENCE_GPU_LOST); /* a reason is a sample */
    assert_int_equal(store_open(store, "gpu/GPU-1", METRIC_FB_FREE, START + 25 * NS_PER_H - 1), STORE_NO_ROOM);
    next = store_open(store, "gpu/GPU-1", METRIC_FB_FREE, START + 25 * NS_PER_H);
    assert_true(next >= 0);
    assert_int_equal(store_find(store, "gpu/GPU-1", METRIC_GPU_TEMP), STORE_NOT_KEPT);
    assert_int_equal(store_find(store, "gpu/GPU-1", METRIC_GPU_UTIL), util);

    /* the old handle means nothing, the new series has no past */
    assert_true(next != temp);
    add(store, temp, START + 25 * NS_PER_H, 31);
    assert_int_equal(store_seconds(store, next, 0, UINT64_MAX, &second, 1), 0);
    assert_int_equal(store_minutes(store, next, 0, UINT64_MAX, &minute, 1), 0);
    assert_int_equal(store_minutes(store, temp, 0, UINT64_MAX, &minute, 1), 0);

    /* the device that has no series left is gone too */
    assert_int_equal(store_open(store, "gpu/GPU-2", METRIC_FB_FREE, START + 26 * NS_PER_H - 1), STORE_NO_ROOM);
    add(store, util, START + 26 * NS_PER_H, 1);
    assert_true(store_open(store, "gpu/GPU-2", METRIC_FB_FREE, START + 27 * NS_PER_H) >= 0);
    assert_int_equal(store_find(store, "gpu/GPU-0", METRIC_FB_USED), STORE_NOT_KEPT);
    store_each(store, see, &seen);
    assert_int_equal(seen.count, 3);
    assert_int_equal(store_refused(store), 2);
    store_free(store);
}

/* MIG devices of new names every hour, for weeks: the store stays within its room and always takes the newest. */
static void names_that_never_return(void **state)
{
    Store *store = store_new(30);

    (void)state;
    for (uint64_t hour = 0; hour < 2000; hour++) {
        char key[64];
        StoreSeries series;

        snprintf(key, sizeof key, "gpu/GPU-%u/gi/%u", (unsigned)(hour * 2654435761u), (unsigned)hour % 7);
        series = store_open(store, key, METRIC_FB_USED, START + hour * NS_PER_H);
        assert_true(series >= 0);
        add(store, series, START + hour * NS_PER_H, (double)hour);
        assert_true(minute_at(store, series, START + hour * NS_PER_H).max == (double)hour);
        assert_true(store_series_count(store) <= 30);
    }
    assert_int_equal(store_refused(store), 0);
    store_free(store);
}

/* More devices than there is room for, although there is room for series. */
static void devices_have_a_limit(void **state)
{
    Store *store = store_new(STORE_DEVICES_MAX + 100);

    (void)state;
    for (unsigned i = 0; i < STORE_DEVICES_MAX; i++) {
        char key[32];

        snprintf(key, sizeof key, "gpu/%u", i);
        assert_true(store_open(store, key, METRIC_GPU_TEMP, START) >= 0);
    }
    assert_int_equal(store_open(store, "gpu/more", METRIC_GPU_TEMP, START + 1), STORE_NO_ROOM);
    assert_true(store_open(store, "gpu/7", METRIC_GPU_UTIL, START + 1) >= 0);
    assert_true(store_open(store, "gpu/more", METRIC_GPU_TEMP, START + NS_PER_DAY) >= 0);
    store_free(store);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_store_answers),
        cmocka_unit_test(series_are_found_again),
        cmocka_unit_test(each_goes_by_key_and_metric),
        cmocka_unit_test(energy_keeps_its_last_digit),
        cmocka_unit_test(counters_that_begin_anew),
        cmocka_unit_test(gauges_fold_what_is_valid),
        cmocka_unit_test(fast_readings_show_bursts),
        cmocka_unit_test(late_fast_readings_find_their_minute),
        cmocka_unit_test(fast_readings_of_counters_are_none),
        cmocka_unit_test(a_second_keeps_its_last_sample),
        cmocka_unit_test(gaps_are_told_inside_only),
        cmocka_unit_test(rings_hold_what_they_say),
        cmocka_unit_test(closing_changes_no_answer),
        cmocka_unit_test(no_room_is_counted),
        cmocka_unit_test(the_dead_give_their_room),
        cmocka_unit_test(names_that_never_return),
        cmocka_unit_test(devices_have_a_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
