/* SPDX-License-Identifier: Apache-2.0 */
#include "naive.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/duration.h"

void naive_init(Naive *naive, bool counter)
{
    *naive = (Naive){.counter = counter,
                     .seconds = xcalloc(NAIVE_SECONDS, sizeof(NaiveSecond)),
                     .minutes = xcalloc(NAIVE_MINUTES, sizeof(NaiveMinute))};
}

void naive_done(Naive *naive)
{
    free(naive->seconds);
    free(naive->minutes);
}

static void see_minute(Naive *naive, uint64_t minute)
{
    assert_true(minute < NAIVE_MINUTES);
    if (!naive->any_minute || (minute > naive->newest_minute && minute - naive->newest_minute >= STORE_MINUTES))
        naive->first_minute = minute;
    if (!naive->any_minute || minute > naive->newest_minute)
        naive->newest_minute = minute;
    naive->any_minute = true;
}

static void fold(NaiveFold *into, double value)
{
    into->min = into->count == 0 ? value : fmin(into->min, value);
    into->max = into->count == 0 ? value : fmax(into->max, value);
    into->sum += value;
    into->count++;
}

static bool minute_open(const Naive *naive, uint64_t minute)
{
    return minute >= naive->first_minute && minute + 1 >= naive->newest_minute;
}

void naive_add(Naive *naive, uint64_t now_ns, const Sample *sample)
{
    NaiveSecond *second = &naive->seconds[now_ns / NS_PER_S];
    NaiveMinute *minute = &naive->minutes[now_ns / NS_PER_MIN];

    if (naive->any && now_ns < naive->added_ns)
        return;
    naive->any = true;
    naive->added_ns = now_ns;
    naive->newest_second = now_ns / NS_PER_S;
    *second = (NaiveSecond){.added = true, .why = sample->absence};
    second->valid = sample_double(sample, &second->value);
    see_minute(naive, now_ns / NS_PER_MIN);
    if (!second->valid || (!naive->counter && !minute_open(naive, now_ns / NS_PER_MIN)))
        return;
    minute->second[now_ns / NS_PER_S % 60] = true;
    fold(&minute->slow, second->value);
    if (naive->known && second->value < naive->last)
        minute->reset = true;
    if (naive->known)
        minute->increase += second->value < naive->last ? second->value : second->value - naive->last;
    naive->known = true;
    naive->last = second->value;
    minute->last = second->value;
}

void naive_add_fast(Naive *naive, uint64_t time_ns, double value)
{
    NaiveMinute *minute = &naive->minutes[time_ns / NS_PER_MIN];

    if (naive->counter)
        return;
    see_minute(naive, time_ns / NS_PER_MIN);
    if (!minute_open(naive, time_ns / NS_PER_MIN))
        return;
    minute->second[time_ns / NS_PER_S % 60] = true;
    fold(&minute->fast, value);
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void naive_check_seconds(const Naive *naive, const Store *store, StoreSeries series, uint64_t from_ns, uint64_t to_ns,
                         size_t cap)
{
    static StoreSecond got[STORE_SECONDS];
    size_t count = store_seconds(store, series, from_ns, to_ns, got, cap), at = 0, expected = 0;
    uint64_t from = larger(from_ns / NS_PER_S, larger(naive->newest_second, STORE_SECONDS) - STORE_SECONDS + 1);
    uint64_t to = smaller(to_ns / NS_PER_S, naive->newest_second);

    assert_true(count <= cap);
    for (uint64_t s = from; naive->any && from_ns <= to_ns && s <= to && at < cap; s++) {
        const NaiveSecond *second = &naive->seconds[s];

        if (at == 0 && !second->added)
            continue;
        at++;
        if (second->added)
            expected = at;
        if (at > count)
            continue;
        assert_int_equal(got[at - 1].time_ns, s * NS_PER_S);
        assert_int_equal(got[at - 1].valid, second->valid);
        if (second->valid)
            assert_true(got[at - 1].value == second->value);
        else
            assert_int_equal(got[at - 1].why, second->added ? second->why : ABSENCE_NOT_YET);
    }
    assert_int_equal(count, expected);
}

static void check_gauge(const NaiveMinute *minute, const StoreMinute *got)
{
    const NaiveFold *of = minute->fast.count > 0 ? &minute->fast : &minute->slow;
    double float_step = 6e-8 * fmax(fabs(of->min), fabs(of->max)), mean = of->sum / (double)of->count;

    assert_true(fabs(got->min - of->min) <= float_step);
    assert_true(fabs(got->max - of->max) <= float_step);
    assert_true(fabs(got->mean - mean) <= (of->max - of->min) / 2000 + 2 * float_step);
    assert_true(got->min <= got->mean && got->mean <= got->max);
    assert_true(got->increase == 0);
}

/* A reset that was followed by NAIVE_REMEMBERED others in later minutes is no longer known. */
static bool remembered(const Naive *naive, uint64_t minute)
{
    size_t later = 0;

    for (uint64_t m = minute + 1; m < naive->newest_minute; m++)
        later += naive->minutes[m].reset;
    return later < NAIVE_REMEMBERED;
}

static void check_counter(const Naive *naive, uint64_t at, const StoreMinute *got)
{
    const NaiveMinute *minute = &naive->minutes[at];

    assert_true(got->min == minute->last && got->mean == minute->last && got->max == minute->last);
    if (!minute->reset || remembered(naive, at))
        assert_true(got->increase == minute->increase);
    else
        assert_true(got->increase == minute->last);
}

void naive_check_minutes(const Naive *naive, const Store *store, StoreSeries series, uint64_t from_ns, uint64_t to_ns,
                         size_t cap)
{
    static StoreMinute got[STORE_MINUTES];
    size_t count = store_minutes(store, series, from_ns, to_ns, got, cap), at = 0, expected = 0;
    uint64_t from = larger(from_ns / NS_PER_MIN, larger(naive->newest_minute, STORE_MINUTES) - STORE_MINUTES + 1);
    uint64_t to = smaller(to_ns / NS_PER_MIN, naive->newest_minute);

    assert_true(count <= cap);
    for (uint64_t m = from; naive->any_minute && from_ns <= to_ns && m <= to && at < cap; m++) {
        const NaiveMinute *minute = &naive->minutes[m];
        unsigned valid = 0;

        for (size_t s = 0; s < 60; s++)
            valid += minute->second[s];
        if (at == 0 && valid == 0)
            continue;
        at++;
        if (valid > 0)
            expected = at;
        if (at > count)
            continue;
        assert_int_equal(got[at - 1].time_ns, m * NS_PER_MIN);
        assert_int_equal(got[at - 1].valid_seconds, valid);
        if (valid == 0)
            assert_true(got[at - 1].min == 0 && got[at - 1].mean == 0 && got[at - 1].max == 0 &&
                        got[at - 1].increase == 0);
        else if (naive->counter)
            check_counter(naive, m, &got[at - 1]);
        else
            check_gauge(minute, &got[at - 1]);
    }
    assert_int_equal(count, expected);
}
