/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine/activity: each limit exactly at it and at the next number beyond it, for a first decision and for the word in
 * force; the pauses that begin a window; the reasons as texts.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "engine/activity/activity.h"

#define NO (double)NAN
#define UP 1e300
#define DOWN (-1)

enum { LAST = ACTIVITY_WINDOW_S - 1, SPIN_SECOND = 30 /* the last one that is half a minute old */ };

/* What is read in a second. */
typedef struct Second {
    double sm, util, tensor, dram, power, clock, link, video;
} Second;

static void put_second(ActivitySeconds *s, int i, Second v)
{
    const double values[ACTIVITY_SERIES_END] = {
        [ACTIVITY_OF_SM] = v.sm,         [ACTIVITY_OF_UTIL] = v.util, [ACTIVITY_OF_VIDEO] = v.video,
        [ACTIVITY_OF_TENSOR] = v.tensor, [ACTIVITY_OF_DRAM] = v.dram, [ACTIVITY_OF_POWER] = v.power,
        [ACTIVITY_OF_CLOCK] = v.clock,   [ACTIVITY_OF_LINK] = v.link,
    };

    for (size_t k = 0; k < ACTIVITY_SERIES_END; k++)
        s->at[k][i] = values[k];
}

static void clear(ActivitySeconds *s)
{
    for (int i = 0; i < ACTIVITY_WINDOW_S; i++)
        put_second(s, i, (Second){NO, NO, NO, NO, NO, NO, NO, NO});
    s->held = true;
}

static void put_seconds(ActivitySeconds *s, int from, int to, Second v)
{
    for (int i = from; i < to; i++)
        put_second(s, i, v);
}

typedef struct Word {
    ActivityWord word;
    ActivityCause cause;
    ActivityBasis basis;
} Word;

#define SM ACTIVITY_BASIS_SM_ACTIVE
#define UTIL ACTIVITY_BASIS_UTILIZATION
#define WORKING(basis)                                                                                                 \
    {                                                                                                                  \
        ACTIVITY_WORKING, ACTIVITY_CAUSE_NONE, basis                                                                   \
    }
#define IDLE(basis)                                                                                                    \
    {                                                                                                                  \
        ACTIVITY_IDLE_HELD, ACTIVITY_CAUSE_NONE, basis                                                                 \
    }
#define WAITING(cause, basis)                                                                                          \
    {                                                                                                                  \
        ACTIVITY_WAITING, ACTIVITY_CAUSE_##cause, basis                                                                \
    }
#define FIRST                                                                                                          \
    {                                                                                                                  \
        ACTIVITY_UNKNOWN, ACTIVITY_CAUSE_NONE, ACTIVITY_BASIS_NONE                                                     \
    }

/* One number of a second is put to its limit, and to the next number towards `beyond`. */
static const struct {
    Word before;
    int second; /* the only one with readings */
    Second numbers;
    size_t varied; /* offset in Second */
    double limit, beyond;
    Word at, behind;
} limits[] = {
#define OF(member) offsetof(Second, member)
    /* work */
    {FIRST, LAST, {NO, 1, .1, NO, NO, NO, NO, NO}, OF(sm), .4, DOWN, WORKING(SM), WAITING(LAUNCHES, SM)},
    {WORKING(SM), LAST, {NO, 1, .1, NO, NO, NO, NO, NO}, OF(sm), .35, DOWN, WORKING(SM), WAITING(LAUNCHES, SM)},
    {IDLE(SM), LAST, {NO, 1, .1, NO, NO, NO, NO, NO}, OF(sm), .4, DOWN, WORKING(SM), WAITING(LAUNCHES, SM)},
    {FIRST, LAST, {NO, NO, NO, NO, .9, 1, NO, NO}, OF(util), .4, DOWN, WORKING(UTIL), WAITING(INPUT, UTIL)},
    {WORKING(UTIL), LAST, {NO, NO, NO, NO, .9, 1, NO, NO}, OF(util), .35, DOWN, WORKING(UTIL), WAITING(INPUT, UTIL)},
    {FIRST, LAST, {.1, 1, .1, NO, NO, NO, NO, NO}, OF(video), .2, DOWN, WORKING(SM), WAITING(LAUNCHES, SM)},

    /* little power at full utilisation */
    {FIRST, LAST, {NO, 1, NO, NO, NO, 1, NO, NO}, OF(power), .35, UP, WAITING(NONE, UTIL), WORKING(UTIL)},
    {WAITING(NONE, UTIL), LAST, {NO, 1, NO, NO, NO, 1, NO, NO}, OF(power), .38, UP, WAITING(NONE, UTIL), WORKING(UTIL)},
    {WAITING(NONE, SM), LAST, {NO, 1, NO, NO, NO, 1, NO, NO}, OF(power), .35, UP, WAITING(NONE, UTIL), WORKING(UTIL)},
    {WORKING(UTIL), LAST, {NO, 1, NO, NO, NO, 1, NO, NO}, OF(power), .35, UP, WAITING(NONE, UTIL), WORKING(UTIL)},
    {FIRST, LAST, {NO, 1, NO, NO, .2, NO, NO, NO}, OF(clock), .5, DOWN, WAITING(NONE, UTIL), WORKING(UTIL)},
    {FIRST, LAST, {NO, NO, NO, NO, .2, 1, NO, NO}, OF(util), .95, DOWN, WAITING(NONE, UTIL), WORKING(UTIL)},

    /* nothing runs */
    {FIRST, LAST, {NO, NO, NO, NO, NO, NO, NO, NO}, OF(sm), .01, UP, IDLE(SM), WAITING(NONE, SM)},
    {IDLE(SM), LAST, {NO, NO, NO, NO, NO, NO, NO, NO}, OF(sm), .02, UP, IDLE(SM), WAITING(NONE, SM)},
    {{ACTIVITY_FREE, ACTIVITY_CAUSE_NONE, SM},
     LAST,
     {NO, NO, NO, NO, NO, NO, NO, NO},
     OF(sm),
     .02,
     UP,
     IDLE(SM),
     WAITING(NONE, SM)},
    {WORKING(SM), LAST, {NO, NO, NO, NO, NO, NO, NO, NO}, OF(sm), .01, UP, IDLE(SM), WAITING(NONE, SM)},
    {FIRST, LAST, {NO, NO, NO, NO, NO, NO, NO, NO}, OF(util), .05, UP, IDLE(UTIL), WAITING(INPUT, UTIL)},
    {IDLE(UTIL), LAST, {NO, NO, NO, NO, NO, NO, NO, NO}, OF(util), .08, UP, IDLE(UTIL), WAITING(INPUT, UTIL)},
    {FIRST, LAST, {.01, NO, NO, NO, NO, NO, NO, NO}, OF(util), .05, UP, IDLE(SM), WAITING(LAUNCHES, SM)},

    /* causes */
    {FIRST, LAST, {NO, .5, .1, NO, NO, NO, NO, NO}, OF(sm), .125, UP, WAITING(LAUNCHES, SM), WAITING(INPUT, SM)},
    {WAITING(LAUNCHES, SM),
     LAST,
     {NO, .5, .1, NO, NO, NO, NO, NO},
     OF(sm),
     .15,
     UP,
     WAITING(LAUNCHES, SM),
     WAITING(INPUT, SM)},
    {WAITING(INPUT, SM),
     LAST,
     {NO, .5, .1, NO, NO, NO, NO, NO},
     OF(sm),
     .125,
     UP,
     WAITING(LAUNCHES, SM),
     WAITING(INPUT, SM)},
    {FIRST, LAST, {.3, NO, .1, NO, NO, NO, NO, NO}, OF(util), .6, UP, WAITING(INPUT, SM), WAITING(LAUNCHES, SM)},
    {WAITING(INPUT, SM),
     LAST,
     {.3, NO, .1, NO, NO, NO, NO, NO},
     OF(util),
     .7,
     UP,
     WAITING(INPUT, SM),
     WAITING(LAUNCHES, SM)},
    {WAITING(LAUNCHES, SM),
     LAST,
     {.33, NO, .1, NO, NO, NO, NO, NO},
     OF(util),
     .6,
     UP,
     WAITING(INPUT, SM),
     WAITING(LAUNCHES, SM)},
    {{ACTIVITY_WORKING, ACTIVITY_CAUSE_INPUT, SM}, /* a cause counts with its word alone */
     LAST,
     {.3, NO, .1, NO, NO, NO, NO, NO},
     OF(util),
     .6,
     UP,
     WAITING(INPUT, SM),
     WAITING(LAUNCHES, SM)},
    {FIRST, LAST, {.3, NO, .1, NO, NO, NO, NO, NO}, OF(util), 0, UP, WAITING(NONE, SM), WAITING(INPUT, SM)},

    /* a spin */
    {FIRST,
     SPIN_SECOND,
     {NO, 1, 0, 0, NO, NO, 0, NO},
     OF(sm),
     .03,
     DOWN,
     WAITING(COLLECTIVE, SM),
     WAITING(LAUNCHES, SM)},
    {FIRST, SPIN_SECOND, {NO, 1, 0, 0, NO, NO, 0, NO}, OF(sm), .3, UP, WAITING(COLLECTIVE, SM), WAITING(LAUNCHES, SM)},
    {FIRST,
     SPIN_SECOND,
     {.1, 1, NO, 0, NO, NO, 0, NO},
     OF(tensor),
     .005,
     UP,
     WAITING(COLLECTIVE, SM),
     WAITING(LAUNCHES, SM)},
    {FIRST,
     SPIN_SECOND,
     {.1, 1, 0, NO, NO, NO, 0, NO},
     OF(dram),
     .02,
     UP,
     WAITING(COLLECTIVE, SM),
     WAITING(LAUNCHES, SM)},
    {FIRST,
     SPIN_SECOND,
     {.1, NO, 0, 0, NO, NO, 0, NO},
     OF(util),
     .95,
     DOWN,
     WAITING(COLLECTIVE, SM),
     WAITING(LAUNCHES, SM)},
    {FIRST,
     SPIN_SECOND,
     {.1, 1, 0, 0, NO, NO, NO, NO},
     OF(link),
     10e6,
     UP,
     WAITING(COLLECTIVE, SM),
     WAITING(LAUNCHES, SM)},
};

static void expect(const ActivitySeconds *seconds, const Word *before, const Word *wanted, size_t row,
                   const char *where)
{
    const Activity was = {.word = before->word, .cause = before->cause, .basis = before->basis};
    Activity found;

    activity_decide(seconds, &was, &found);
    if (found.word != wanted->word || found.cause != wanted->cause || found.basis != wanted->basis)
        fail_msg("row %zu, %s the limit: %s %s by %s: %s", row, where, activity_words[found.word].key,
                 activity_causes[found.cause].key, activity_bases[found.basis].key, found.text);
}

static void each_limit_counts_from_where_it_stands(void **state)
{
    static ActivitySeconds seconds;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
        Second v = limits[i].numbers;
        double *varied = (double *)(void *)((char *)&v + limits[i].varied);

        clear(&seconds);
        *varied = limits[i].limit;
        put_second(&seconds, limits[i].second, v);
        expect(&seconds, &limits[i].before, &limits[i].at, i, "at");
        *varied = nextafter(limits[i].limit, limits[i].beyond);
        put_second(&seconds, limits[i].second, v);
        expect(&seconds, &limits[i].before, &limits[i].behind, i, "beyond");
    }
}

/* All of it has to be known, but for NVLink, and it has to last. */
static void a_spin_has_to_be_known_and_to_last(void **state)
{
    const Word first = FIRST, spins = WAITING(COLLECTIVE, SM), launches = WAITING(LAUNCHES, SM);
    static ActivitySeconds seconds;

    (void)state;
    clear(&seconds);
    put_second(&seconds, SPIN_SECOND, (Second){.1, 1, 0, 0, NO, NO, NO, NO});
    expect(&seconds, &first, &spins, 0, "within");
    put_second(&seconds, SPIN_SECOND, (Second){.1, 1, NO, 0, NO, NO, NO, NO});
    expect(&seconds, &first, &launches, 1, "within");
    put_second(&seconds, SPIN_SECOND, (Second){.1, 1, 0, NO, NO, NO, NO, NO});
    expect(&seconds, &first, &launches, 2, "within");
    clear(&seconds);
    put_seconds(&seconds, SPIN_SECOND + 1, ACTIVITY_WINDOW_S, (Second){.1, 1, 0, 0, NO, NO, NO, NO});
    expect(&seconds, &first, &launches, 3, "within"); /* 29 seconds */
    put_second(&seconds, SPIN_SECOND, (Second){.1, 1, 0, 0, NO, NO, NO, NO});
    expect(&seconds, &first, &spins, 4, "within");
    put_second(&seconds, SPIN_SECOND - 1, (Second){.1, 1, .5, .5, NO, NO, NO, NO}); /* what was before does not count */
    expect(&seconds, &first, &spins, 5, "within");
}

/* Twenty quiet seconds begin a window: the pause itself while it lasts, else what comes behind it. */
static void a_pause_begins_a_window(void **state)
{
    static const Second work = {.8, 1, .4, .4, .9, 1, NO, 0};
    static const struct {
        int work_s, rest_s, work_again_s;
        Second rest;
        uint32_t window_s;
    } minutes[] = {
        {41, 19, 0, {0, 0, 0, 0, .1, 1, NO, 0}, 60},
        {40, 20, 0, {0, 0, 0, 0, .1, 1, NO, 0}, 20},
        {30, 20, 10, {0, 0, 0, 0, .1, 1, NO, 0}, 10},
        {30, 19, 11, {0, 0, 0, 0, .1, 1, NO, 0}, 60},
        {20, 30, 10, {0, 0, 0, 0, .1, 1, NO, 0}, 10},
        {30, 30, 0, {.0199, .0799, 0, 0, .1, 1, NO, .199}, 30},
        {30, 30, 0, {.02, 0, 0, 0, .1, 1, NO, 0}, 60},
        {30, 30, 0, {0, .08, 0, 0, .1, 1, NO, 0}, 60},
        {30, 30, 0, {0, 0, 0, 0, .1, 1, NO, .2}, 60},
        {30, 30, 0, {NO, NO, NO, NO, NO, NO, NO, NO}, 30}, /* nothing is known: neither work nor a pause */
    };
    static ActivitySeconds seconds;
    const Activity before = {.word = ACTIVITY_WORKING};
    Activity found;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(minutes); i++) {
        const int rest = minutes[i].work_s, again = rest + minutes[i].rest_s;

        clear(&seconds);
        put_seconds(&seconds, 0, rest, work);
        put_seconds(&seconds, rest, again, minutes[i].rest);
        put_seconds(&seconds, again, again + minutes[i].work_again_s, work);
        activity_decide(&seconds, &before, &found);
        if (found.window_s != minutes[i].window_s)
            fail_msg("row %zu: %u s", i, found.window_s);
    }
    clear(&seconds); /* a second that is not known does not end a pause */
    put_seconds(&seconds, 0, 30, work);
    put_seconds(&seconds, 30, 60, (Second){0, 0, 0, 0, .1, 1, NO, 0});
    put_second(&seconds, 45, (Second){NO, NO, NO, NO, NO, NO, NO, NO});
    activity_decide(&seconds, &before, &found);
    assert_int_equal(found.window_s, 29);
    assert_int_equal(found.word, ACTIVITY_IDLE_HELD);
}

static void the_reason_is_told(void **state)
{
    static const struct {
        Second second;
        bool held;
        const char *text;
    } texts[] = {
        {{0, 0, 0, 0, .1, 1, NO, 0}, false, "no process, nothing runs"},
        {{0, 0, 0, 0, .1, 1, NO, 0}, true, "in use by a program and nothing runs"},
        {{.845, 1, .4, .4, .9, 1, NO, 0}, true, "SM active 84 %"},
        {{.1, .2, 0, .1, .3, 1, NO, .6}, true, "the video engines work, SM active 10 %"},
        {{.35, .2, 0, .1, .3, 1, NO, .6}, true, "SM active 35 %"},
        {{.2, .3, .1, .1, .3, 1, NO, 0}, true, "waits for input: a kernel runs 30 % of the time, SM active 20 %"},
        {{.0094, 1, .1, .1, .3, 1, NO, 0}, true, "small kernels: a kernel runs 100 % of the time, SM active 0.9 %"},
        {{.0095, 1, .1, .1, .3, 1, NO, 0}, true, "small kernels: a kernel runs 100 % of the time, SM active 1 %"},
        {{0, 1, .1, .1, .3, 1, NO, 0}, true, "small kernels: a kernel runs 100 % of the time, SM active 0 %"},
        {{.2, NO, .1, .1, .3, 1, NO, 0}, true, "SM active 20 %"},
        {{.1, 1, 0, 0, .3, 1, NO, 0},
         true,
         "spins in a collective: utilisation 100 %, SM active 10 %, no tensor work or traffic"},
        {{NO, .9, NO, NO, .7, 1, NO, NO}, true, "by utilisation: 90 %, at 70 % of its power"},
        {{NO, .9, NO, NO, NO, 1, NO, NO}, true, "by utilisation: 90 %, at unknown of its power"},
        {{NO, .3, NO, NO, .4, 1, NO, NO}, true, "by utilisation: a kernel runs 30 % of the time"},
        {{NO, 1, NO, NO, .2, 1, NO, NO}, true, "by utilisation: 100 %, yet only 20 % of its power"},
    };
    static ActivitySeconds seconds;
    const Activity before = {0};
    Activity found;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        clear(&seconds);
        put_second(&seconds, SPIN_SECOND, texts[i].second);
        seconds.held = texts[i].held;
        activity_decide(&seconds, &before, &found);
        assert_string_equal(found.text, texts[i].text);
        assert_int_equal(found.held, texts[i].held);
        assert_int_equal(found.window_s, 1);
    }
    clear(&seconds);
    activity_decide(&seconds, &before, &found);
    assert_true(found.word == ACTIVITY_UNKNOWN && found.basis == ACTIVITY_BASIS_NONE && found.window_s == 0);
    assert_string_equal(found.text, "");
}

static void a_mean_is_of_what_was_read(void **state)
{
    double row[ACTIVITY_WINDOW_S];

    (void)state;
    for (int i = 0; i < ACTIVITY_WINDOW_S; i++)
        row[i] = i < 30 ? 8 : NO;
    assert_true(isnan(seconds_mean(row, 30)));
    row[LAST] = 4;
    row[30] = 1;
    assert_true(seconds_mean(row, 30) == 2.5);
    assert_true(seconds_mean(row, 29) == 13 / 3.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_limit_counts_from_where_it_stands),
        cmocka_unit_test(a_spin_has_to_be_known_and_to_last),
        cmocka_unit_test(a_pause_begins_a_window),
        cmocka_unit_test(the_reason_is_told),
        cmocka_unit_test(a_mean_is_of_what_was_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
