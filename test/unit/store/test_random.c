/* SPDX-License-Identifier: Apache-2.0 */
/* Random histories against the naive series (engine/store/series.c, series_read.c, ring.c). */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/duration.h"
#include "naive.h"
#include "random.h"
#include "../slow.h"

enum { ROUNDS = 12 / TEST_SLOW, STEPS = 6000, MOOD_STEPS = 150, REST_BYTES = 300 };

/* What the values are like for a while. */
typedef enum Mood { MOOD_ANY, MOOD_SAME, MOOD_ABSENT, MOOD_SMALL, MOOD_FRACTION, MOOD_END } Mood;

typedef struct Rig {
    Random random;
    Store *store;
    StoreSeries series;
    Naive naive;
    uint64_t now_ns;
    uint64_t resets_every; /* 0: a gauge */
    bool moody;
    Mood mood; /* MOOD_ANY for those that are not moody */
    Absence why;
    double value;
} Rig;

/* Mostly a second; sometimes within one, sometimes back, sometimes minutes, hours or more than a day of nothing. */
static uint64_t next_instant(Rig *rig)
{
    uint64_t jitter = random_below(&rig->random, NS_PER_S / 5);

    switch (random_below(&rig->random, 400)) {
    case 0:
        return rig->now_ns + random_below(&rig->random, 20) * NS_PER_MIN;
    case 1:
        return random_once(&rig->random, 8) ? rig->now_ns + random_below(&rig->random, 23) * NS_PER_H : rig->now_ns;
    case 2:
        return random_once(&rig->random, 30) ? rig->now_ns + NS_PER_DAY + random_below(&rig->random, NS_PER_DAY)
                                             : rig->now_ns;
    case 3:
    case 4:
        return rig->now_ns - random_below(&rig->random, 100 * NS_PER_S);
    case 5:
    case 6:
    case 7:
        return rig->now_ns + random_below(&rig->random, 70) * NS_PER_S;
    default:
        return rig->now_ns + (random_once(&rig->random, 10) ? jitter : NS_PER_S + jitter - NS_PER_S / 10);
    }
}

static void change_mood(Rig *rig)
{
    rig->mood = (Mood)random_below(&rig->random, MOOD_END);
    rig->why = (Absence)random_below(&rig->random, ABSENCE_END);
    if (rig->resets_every == 0)
        rig->value = random_once(&rig->random, 2) ? 0 : (double)random_below(&rig->random, 1000);
}

/* The same value, the same reason, small steps or fractions (of a counter: it grows by them). */
static Sample sample_in_mood(Rig *rig, uint64_t now_ns)
{
    Sample sample = {0};
    double base = rig->resets_every ? rig->value : 0;

    if (rig->mood == MOOD_ABSENT) {
        sample_set_absent(&sample, now_ns, rig->why);
        return sample;
    }
    if (rig->mood == MOOD_SMALL)
        rig->value = base + (double)random_below(&rig->random, 16);
    else if (rig->mood == MOOD_FRACTION)
        rig->value = base + (double)random_below(&rig->random, 1000) / 8;
    sample_set_double(&sample, now_ns, rig->value);
    return sample;
}

static Sample next_sample(Rig *rig, uint64_t now_ns)
{
    Sample sample = {0};

    if (rig->moody && random_once(&rig->random, MOOD_STEPS))
        change_mood(rig);
    if (rig->mood != MOOD_ANY)
        return sample_in_mood(rig, now_ns);
    if (random_once(&rig->random, 15)) {
        sample_set_absent(&sample, now_ns, (Absence)random_below(&rig->random, ABSENCE_END));
        return sample;
    }
    if (rig->resets_every == 0) {
        if (random_once(&rig->random, 3))
            sample_set_int64(&sample, now_ns, (int64_t)random_below(&rig->random, 100000));
        else
            sample_set_double(&sample, now_ns, (double)random_below(&rig->random, 700000) / 1000 - 100);
        return sample;
    }
    if (random_once(&rig->random, rig->resets_every))
        rig->value = (double)random_below(&rig->random, 1000);
    else
        rig->value += (double)random_below(&rig->random, UINT64_C(1) << 32);
    sample_set_int64(&sample, now_ns, (int64_t)rig->value);
    return sample;
}

static void step(Rig *rig)
{
    uint64_t now = next_instant(rig);
    Sample sample = next_sample(rig, now);

    store_add(rig->store, rig->series, now, &sample);
    naive_add(&rig->naive, now, &sample);
    if (now > rig->now_ns)
        rig->now_ns = now;
    for (size_t i = rig->mood != MOOD_SAME && random_once(&rig->random, 3) ? 10 : 0; i > 0; i--) {
        uint64_t time = now - random_below(&rig->random, 90) * NS_PER_S / 60 + random_below(&rig->random, NS_PER_MS);
        double value = (double)random_below(&rig->random, 100000) / 7;

        store_add_fast(rig->store, rig->series, time, value);
        naive_add_fast(&rig->naive, time, value);
    }
}

static void check(Rig *rig)
{
    uint64_t spans[] = {2 * NS_PER_DAY, NS_PER_H, 11 * NS_PER_MIN, NS_PER_MIN};
    uint64_t span = spans[random_below(&rig->random, 4)];
    uint64_t to = rig->now_ns + NS_PER_MIN - random_below(&rig->random, span);
    uint64_t from = to - random_below(&rig->random, span);

    naive_check_seconds(&rig->naive, rig->store, rig->series, from, to, STORE_SECONDS);
    naive_check_minutes(&rig->naive, rig->store, rig->series, from, to, STORE_MINUTES);
    naive_check_seconds(&rig->naive, rig->store, rig->series, from, to, random_below(&rig->random, 50));
    naive_check_minutes(&rig->naive, rig->store, rig->series, from, to, random_below(&rig->random, 50));
    naive_check_seconds(&rig->naive, rig->store, rig->series, 0, UINT64_MAX, STORE_SECONDS);
    naive_check_minutes(&rig->naive, rig->store, rig->series, 0, UINT64_MAX, STORE_MINUTES);
}

/* After a day of nothing but one value all that was taken before is given back. What is left is where minutes with one
 * second meet those with sixty. */
static void rest(Rig *rig)
{
    for (size_t i = 0; i < 25 * 60 + 3600; i++) {
        Sample sample = {0};

        rig->now_ns += i < 25 * 60 ? NS_PER_MIN : NS_PER_S;
        sample_set_double(&sample, rig->now_ns, rig->value);
        store_add(rig->store, rig->series, rig->now_ns, &sample);
        naive_add(&rig->naive, rig->now_ns, &sample);
    }
    check(rig);
    assert_true(store_memory(rig->store).cells <= REST_BYTES);
}

static void round_of(uint64_t seed, MetricId metric, uint64_t resets_every, bool moody)
{
    Rig rig = {.random = {seed * 7919 + 1}, .store = store_new(3), .resets_every = resets_every, .moody = moody};

    assert_int_equal(metric_get(metric)->type, resets_every ? METRIC_COUNTER : METRIC_GAUGE);
    rig.now_ns = 3 * NS_PER_DAY + random_below(&rig.random, NS_PER_DAY);
    store_open(rig.store, "gpu/other", metric, rig.now_ns);
    rig.series = store_open(rig.store, "gpu/GPU-1", metric, rig.now_ns);
    assert_true(rig.series >= 0);
    naive_init(&rig.naive, resets_every != 0);
    check(&rig);
    for (size_t i = 0; i < STEPS && rig.now_ns < 38 * NS_PER_DAY; i++) {
        step(&rig);
        if (i < 50 || random_once(&rig.random, 400))
            check(&rig);
    }
    check(&rig);
    assert_true(store_memory(rig.store).cells > 0);
    rest(&rig);
    naive_done(&rig.naive);
    store_free(rig.store);
}

static void gauges(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++)
        round_of(seed, METRIC_POWER_USAGE, 0, false);
}

static void counters(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++)
        round_of(seed, METRIC_TOTAL_ENERGY_CONSUMPTION, 1000, false);
}

/* So many resets that the old ones are forgotten. */
static void restless_counters(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++)
        round_of(seed, METRIC_PCIE_REPLAY_COUNTER, 40, false);
}

static void moody_gauges(void **state)
{
    (void)state;
    for (uint64_t seed = 100; seed <= 100 + ROUNDS; seed++)
        round_of(seed, METRIC_POWER_USAGE, 0, true);
}

static void moody_counters(void **state)
{
    (void)state;
    for (uint64_t seed = 100; seed <= 100 + ROUNDS; seed++)
        round_of(seed, METRIC_TOTAL_ENERGY_CONSUMPTION, 1000, true);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(gauges),       cmocka_unit_test(counters),       cmocka_unit_test(restless_counters),
        cmocka_unit_test(moody_gauges), cmocka_unit_test(moody_counters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
