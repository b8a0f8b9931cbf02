/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine/why: each limit of a verdict, exactly at it and the next number beyond it; how sure the verdict is, its share
 * of the time and the number that it cites.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "engine/why/why.h"

enum { PROCESSES = 3, PEERS = 6, LAST = ACTIVITY_WINDOW_S - 1, SECONDS = 10 };

#define NONE 1e-12 /* a reading, and next to nothing */

/* The verdict that is expected first. */
typedef struct Expected {
    WhyCause cause;
    WhyConfidence confidence;
    double share;     /* 0: not looked at */
    const char *text; /* a part of it; NULL: not looked at */
} Expected;

/* What one device reports in one second; 0: no reading. */
typedef struct Numbers {
    double sm, util, tensor, fp32, fp64, occ, dram, power, clock, reasons, link, tx, rx, gen, video;
} Numbers;

/* One number of a situation is put to its limit, and to the next number towards `beyond`. */
typedef struct Limit {
    ActivityWord word;
    ActivityCause waits_for;
    uint32_t window_s; /* 0: a whole one */
    Numbers numbers;
    size_t varied; /* offset in Numbers */
    double limit, beyond;
    Expected at, behind;
} Limit;

#define UP 1e300
#define DOWN 0
#define OF(member) offsetof(Numbers, member)
#define ON_WORK ACTIVITY_WORKING, ACTIVITY_CAUSE_NONE, 0
#define ON_WAIT ACTIVITY_WAITING, ACTIVITY_CAUSE_NONE, 0
#define ON_LAUNCHES ACTIVITY_WAITING, ACTIVITY_CAUSE_LAUNCHES, 0
#define ON_SPIN ACTIVITY_WAITING, ACTIVITY_CAUSE_LAUNCHES, 20
#define ON_IDLE ACTIVITY_IDLE_HELD, ACTIVITY_CAUSE_NONE, 0
#define UNCLEAR                                                                                                        \
    {                                                                                                                  \
        WHY_UNCLEAR, WHY_LOW, 0, NULL                                                                                  \
    }
#define SPIN .sm = .1, .util = 1, .tensor = .001, .dram = .001, .link = 1e6

static const Limit limits[] = {
    /* tensor cores */
    {ON_WORK, {.sm = .9, .util = 1}, OF(tensor), .15, DOWN, {WHY_TENSOR_CORES, WHY_MEDIUM, .9, "active 15 %"}, UNCLEAR},
    {ON_WORK,
     {.sm = .9, .util = 1},
     OF(tensor),
     .3,
     DOWN,
     {WHY_TENSOR_CORES, WHY_HIGH, .9, "active 30 %"},
     {WHY_TENSOR_CORES, WHY_MEDIUM, 0, NULL}},
    {ON_WORK,
     {.sm = .9, .util = 1},
     OF(tensor),
     .02,
     UP,
     {WHY_NO_TENSOR_CORES, WHY_MEDIUM, .9, "without tensor cores"},
     UNCLEAR},
    {ON_WORK,
     {.sm = .9, .util = 1, .tensor = .1},
     OF(fp32),
     .2,
     DOWN,
     {WHY_NO_TENSOR_CORES, WHY_MEDIUM, .9, "in FP32: that pipe is active 20 %"},
     UNCLEAR},
    {ON_WORK,
     {.sm = .9, .util = 1, .tensor = .01},
     OF(fp32),
     .2,
     DOWN,
     {WHY_NO_TENSOR_CORES, WHY_HIGH, .9, "in FP32"},
     {WHY_NO_TENSOR_CORES, WHY_MEDIUM, .9, "without tensor cores: they are active 1 %"}},
    {ON_WORK,
     {.sm = .9, .util = 1, .fp32 = .3},
     OF(tensor),
     .02,
     UP,
     {WHY_NO_TENSOR_CORES, WHY_HIGH, .9, "in FP32"},
     {WHY_NO_TENSOR_CORES, WHY_MEDIUM, 0, NULL}},
    {ON_WORK,
     {.sm = .9, .util = 1, .fp32 = .3},
     OF(tensor),
     .15,
     DOWN,
     {WHY_TENSOR_CORES, WHY_MEDIUM, 0, NULL},
     {WHY_NO_TENSOR_CORES, WHY_MEDIUM, 0, NULL}},
    {ON_WORK,
     {.sm = .9, .util = 1, .tensor = .5},
     OF(fp64),
     .1,
     DOWN,
     {WHY_FP64, WHY_HIGH, .9, "FP64 pipe active 10 %"},
     {WHY_TENSOR_CORES, WHY_HIGH, 0, NULL}},

    /* device memory */
    {ON_WORK,
     {.sm = .9, .util = 1, .tensor = .1},
     OF(dram),
     .6,
     DOWN,
     {WHY_DEVICE_MEMORY, WHY_MEDIUM, .6, "active 60 %"},
     UNCLEAR},
    {ON_WORK,
     {.sm = .9, .util = 1, .tensor = .1},
     OF(dram),
     .75,
     DOWN,
     {WHY_DEVICE_MEMORY, WHY_HIGH, .75, NULL},
     {WHY_DEVICE_MEMORY, WHY_MEDIUM, 0, NULL}},
    {ON_WORK,
     {.sm = .9, .util = 1, .tensor = .5},
     OF(dram),
     .75,
     DOWN,
     {WHY_DEVICE_MEMORY, WHY_HIGH, 0, NULL},
     {WHY_TENSOR_CORES, WHY_HIGH, 0, NULL}},

    /* too little work per kernel */
    {ON_WORK,
     {.util = 1, .tensor = .1},
     OF(sm),
     .6,
     UP,
     {WHY_SMALL_BATCH, WHY_MEDIUM, .4, "60 % of the multipro"},
     UNCLEAR},
    {ON_WORK, {.util = 1, .tensor = .1}, OF(sm), .25, UP, UNCLEAR, {WHY_SMALL_BATCH, WHY_MEDIUM, .75, NULL}},
    {ON_WORK, {.sm = .45, .tensor = .1}, OF(util), .9, DOWN, {WHY_SMALL_BATCH, WHY_MEDIUM, .5, NULL}, UNCLEAR},
    {ON_WORK,
     {.sm = 1, .util = 1, .tensor = .1},
     OF(occ),
     .15,
     UP,
     {WHY_SMALL_BATCH, WHY_MEDIUM, 1, "hold 15 % of the warps"},
     UNCLEAR},
    {ON_WORK,
     {.sm = .5, .util = 1, .tensor = .1},
     OF(fp32),
     .2,
     DOWN,
     {WHY_NO_TENSOR_CORES, WHY_MEDIUM, 0, NULL},
     {WHY_SMALL_BATCH, WHY_MEDIUM, .5, NULL}},
    {ON_LAUNCHES,
     {.sm = .5, .util = 1},
     OF(tensor),
     .15,
     DOWN,
     {WHY_LAUNCHES, WHY_MEDIUM, 0, NULL},
     {WHY_SMALL_BATCH, WHY_MEDIUM, 0, NULL}},
    {ON_LAUNCHES,
     {.sm = .5, .util = 1},
     OF(fp64),
     .1,
     DOWN,
     {WHY_LAUNCHES, WHY_MEDIUM, 0, NULL},
     {WHY_SMALL_BATCH, WHY_MEDIUM, 0, NULL}},
    {ON_LAUNCHES,
     {.sm = .5, .util = 1, .tensor = .5},
     OF(dram),
     .75,
     DOWN,
     {WHY_DEVICE_MEMORY, WHY_HIGH, 0, NULL},
     {WHY_LAUNCHES, WHY_MEDIUM, 0, NULL}},

    /* launches */
    {ON_WAIT, {.util = 1, .tensor = .1}, OF(sm), .25, UP, {WHY_LAUNCHES, WHY_MEDIUM, .75, "keep 25 % of"}, UNCLEAR},
    {ON_LAUNCHES,
     {.util = 1, .tensor = .1},
     OF(sm),
     .1,
     UP,
     {WHY_LAUNCHES, WHY_HIGH, .9, "keep 10 % of"},
     {WHY_LAUNCHES, WHY_MEDIUM, 0, NULL}},
    {ON_LAUNCHES,
     {.util = 1, .tensor = .1},
     OF(sm),
     .0995,
     DOWN,
     {WHY_LAUNCHES, WHY_HIGH, 0, "keep 10 % of"},
     {WHY_LAUNCHES, WHY_HIGH, 0, "keep 9.9 % of"}},
    {ON_LAUNCHES,
     {.sm = .05, .tensor = .1},
     OF(util),
     .9,
     DOWN,
     {WHY_LAUNCHES, WHY_HIGH, .85, "100 % busy by util"},
     {WHY_LAUNCHES, WHY_MEDIUM, .85, "one runs 90 % of the time, and 5 % of"}},
    {ON_LAUNCHES,
     {.util = .5},
     OF(sm),
     .6,
     UP,
     {WHY_LAUNCHES, WHY_MEDIUM, NONE, NULL},
     {WHY_LAUNCHES, WHY_MEDIUM, 0, NULL}},
    /* what may be a spin is not called launches before it has gone on for long enough */
    {ON_SPIN, {SPIN}, OF(sm), .03, DOWN, UNCLEAR, {WHY_LAUNCHES, WHY_HIGH, 0, NULL}},
    {ON_SPIN, {SPIN, .fp32 = .3}, OF(sm), .3, UP, UNCLEAR, {WHY_LAUNCHES, WHY_MEDIUM, 0, NULL}},
    {ON_SPIN, {SPIN}, OF(tensor), .005, UP, UNCLEAR, {WHY_LAUNCHES, WHY_HIGH, 0, NULL}},
    {ON_SPIN, {SPIN}, OF(util), .95, DOWN, UNCLEAR, {WHY_LAUNCHES, WHY_MEDIUM, 0, NULL}},
    {ON_SPIN, {SPIN}, OF(dram), .02, UP, UNCLEAR, {WHY_LAUNCHES, WHY_HIGH, 0, NULL}},
    {ON_SPIN, {SPIN}, OF(link), 10e6, UP, UNCLEAR, {WHY_LAUNCHES, WHY_HIGH, 0, NULL}},

    /* input */
    {ON_WORK,
     {.sm = .6, .tensor = .5},
     OF(util),
     .75,
     UP,
     {WHY_INPUT, WHY_MEDIUM, .25, "no kernel runs 25 %"},
     {WHY_TENSOR_CORES, WHY_HIGH, 0, NULL}},
    {ON_WAIT, {.sm = .5, .tensor = .5}, OF(util), .6, UP, {WHY_INPUT, WHY_MEDIUM, .4, "waits for its input"}, UNCLEAR},

    /* video */
    {ON_WORK,
     {.sm = .1, .util = 1, .tensor = .1},
     OF(video),
     .2,
     DOWN,
     {WHY_VIDEO, WHY_HIGH, .2, "work 20 %"},
     UNCLEAR},
    {ON_WORK,
     {.util = 1, .tensor = .1, .video = .5},
     OF(sm),
     .35,
     DOWN,
     {WHY_SMALL_BATCH, WHY_MEDIUM, 0, NULL},
     {WHY_VIDEO, WHY_HIGH, .5, NULL}},

    /* PCIe, of 16 lanes; the figures of the generations are PCI-SIG's */
    {ON_IDLE,
     {.util = NONE, .gen = 5},
     OF(rx),
     31.52e9,
     DOWN,
     {WHY_PCIE, WHY_MEDIUM, .5, "50 %"},
     {WHY_IDLE_HELD, WHY_HIGH, 1, NULL}},
    {ON_IDLE,
     {.util = NONE, .gen = 5},
     OF(tx),
     31.52e9,
     DOWN,
     {WHY_PCIE, WHY_MEDIUM, .5, NULL},
     {WHY_IDLE_HELD, WHY_HIGH, 0, NULL}},
    {ON_IDLE,
     {.util = NONE, .gen = 3},
     OF(tx),
     7.88e9,
     DOWN,
     {WHY_PCIE, WHY_MEDIUM, .5, NULL},
     {WHY_IDLE_HELD, WHY_HIGH, 0, NULL}},
    {ON_IDLE,
     {.util = NONE, .gen = 2},
     OF(tx),
     4e9,
     DOWN,
     {WHY_PCIE, WHY_MEDIUM, .5, NULL},
     {WHY_IDLE_HELD, WHY_HIGH, 0, NULL}},
    {ON_IDLE,
     {.util = NONE, .gen = 1},
     OF(tx),
     2e9,
     DOWN,
     {WHY_PCIE, WHY_MEDIUM, .5, NULL},
     {WHY_IDLE_HELD, WHY_HIGH, 0, NULL}},
    {ON_IDLE,
     {.util = NONE, .tx = 1e9},
     OF(gen),
     1,
     DOWN,
     {WHY_IDLE_HELD, WHY_HIGH, 0, NULL},
     {WHY_IDLE_HELD, WHY_HIGH, 0, NULL}},

    /* an exchange */
    {ON_WORK,
     {.util = 1, .tensor = .05, .link = 50e9},
     OF(sm),
     .45,
     UP,
     {WHY_NETWORK, WHY_MEDIUM, 1, "100 %"},
     {WHY_SMALL_BATCH, WHY_MEDIUM, 0, NULL}},
    {ON_WORK, {.sm = .4, .tensor = .05, .link = 50e9}, OF(util), .9, DOWN, {WHY_NETWORK, WHY_MEDIUM, 0, NULL}, UNCLEAR},
    {ON_WORK,
     {.sm = .4, .util = 1, .link = 50e9},
     OF(tensor),
     .1,
     UP,
     {WHY_NETWORK, WHY_MEDIUM, 0, NULL},
     {WHY_SMALL_BATCH, WHY_MEDIUM, 0, NULL}},
    {ON_WORK,
     {.sm = .4, .util = 1, .tensor = .05},
     OF(link),
     5e9,
     DOWN,
     {WHY_NETWORK, WHY_MEDIUM, 0, NULL},
     {WHY_SMALL_BATCH, WHY_MEDIUM, 0, NULL}},

    /* what holds the clocks down */
    {ON_WORK,
     {.sm = .9, .util = 1, .tensor = .5, .reasons = 0x20},
     OF(clock),
     .85,
     UP,
     {WHY_THROTTLED, WHY_HIGH, 1, "by heat 100 % of the time, to 85 %"},
     {WHY_TENSOR_CORES, WHY_HIGH, 0, NULL}},
    {ON_WORK,
     {.sm = .9, .util = 1, .tensor = .5, .reasons = 0x80},
     OF(clock),
     .85,
     UP,
     {WHY_THROTTLED, WHY_HIGH, 1, "by a power brake from outside 100 %"},
     {WHY_TENSOR_CORES, WHY_HIGH, 0, NULL}},
    {ON_WORK,
     {.sm = .9, .util = 1, .tensor = .5, .reasons = 0x4},
     OF(clock),
     .6,
     UP,
     {WHY_THROTTLED, WHY_HIGH, 1, "by its power limit 100 % of the time, to 60 %"},
     {WHY_TENSOR_CORES, WHY_HIGH, 0, NULL}},

    /* without profiling counters */
    {ON_WORK,
     {.util = .95},
     OF(power),
     .55,
     DOWN,
     {WHY_UNCLEAR, WHY_LOW, .95, "with the power of real work"},
     {WHY_UNCLEAR, WHY_LOW, .95, "a kernel runs 95 % of the time; without"}},
    {ON_WAIT,
     {.power = .2},
     OF(util),
     .9,
     DOWN,
     {WHY_UNCLEAR, WHY_LOW, .9, "yet it draws little power"},
     {WHY_UNCLEAR, WHY_LOW, .9, "no cause stands out"}},
};

typedef struct Rig {
    Activity activity;
    WhyProcess processes[PROCESSES];
    WhyPeer peers[PEERS];
    WhyInput in;
    Why why;
} Rig;

static Rig rig;

static void reset(ActivityWord word, ActivityCause waits_for)
{
    memset(&rig, 0, sizeof rig);
    rig.activity = (Activity){.word = word, .cause = waits_for, .window_s = ACTIVITY_WINDOW_S};
    for (size_t k = 0; k < WHY_SERIES_END; k++)
        for (int i = 0; i < ACTIVITY_WINDOW_S; i++)
            rig.in.rows[k][i] = NAN;
    rig.in.activity = &rig.activity;
    rig.in.pcie_lanes = 16;
    rig.in.limit_share = rig.in.io_pressure = rig.in.cpu_pressure = NAN;
    rig.in.memory_used = rig.in.memory_total = NAN;
    for (size_t i = 0; i < PROCESSES; i++)
        rig.processes[i] = (WhyProcess){.pid = 100 + (uint32_t)i,
                                        .state = 'S',
                                        .cores = NAN,
                                        .sm = NAN,
                                        .children = NAN,
                                        .child_cores = NAN,
                                        .written = NAN};
    rig.in.processes = rig.processes;
    rig.in.peers = rig.peers;
}

/* The last seconds are like this; there is no reading before, unless an earlier call gave one. */
static void put_seconds(int count, const Numbers *n)
{
    const double values[WHY_SERIES_END] = {
        [WHY_OF_SM] = n->sm,           [WHY_OF_UTIL] = n->util,    [WHY_OF_TENSOR] = n->tensor,
        [WHY_OF_FP32] = n->fp32,       [WHY_OF_FP64] = n->fp64,    [WHY_OF_OCCUPANCY] = n->occ,
        [WHY_OF_DRAM] = n->dram,       [WHY_OF_POWER] = n->power,  [WHY_OF_CLOCK] = n->clock,
        [WHY_OF_REASONS] = n->reasons, [WHY_OF_LINK] = n->link,    [WHY_OF_PCIE_TX] = n->tx,
        [WHY_OF_PCIE_RX] = n->rx,      [WHY_OF_PCIE_GEN] = n->gen, [WHY_OF_VIDEO] = n->video,
    };

    for (int i = ACTIVITY_WINDOW_S - count; i < ACTIVITY_WINDOW_S; i++)
        for (size_t k = 0; k < WHY_SERIES_END; k++)
            rig.in.rows[k][i] = values[k] != 0 ? values[k] : (double)NAN;
}

static const WhyVerdict *decide(void)
{
    why_decide(&rig.in, &rig.why);
    return &rig.why.verdicts[0];
}

/* The verdict of this cause; one of no cause. */
static const WhyVerdict *find_verdict(WhyCause cause)
{
    static const WhyVerdict nothing = {.cause = WHY_END};

    for (uint32_t i = 0; i < rig.why.count; i++)
        if (rig.why.verdicts[i].cause == cause)
            return &rig.why.verdicts[i];
    return &nothing;
}

static double cited(const WhyVerdict *v, const char *label)
{
    for (uint32_t i = 0; i < v->evidence_count; i++)
        if (strcmp(v->evidence[i].label, label) == 0)
            return v->evidence[i].value;
    return NAN;
}

/* What the first verdict cites of somebody. */
static double cited_of(const char *label, const char *name)
{
    const WhyVerdict *v = &rig.why.verdicts[0];

    for (uint32_t i = 0; i < v->evidence_count; i++)
        if (strcmp(v->evidence[i].label, label) == 0 && v->evidence[i].name > 0 &&
            strcmp(v->names[v->evidence[i].name - 1], name) == 0)
            return v->evidence[i].value;
    return NAN;
}

static bool is_near(double a, double b)
{
    return fabs(a - b) < 1e-6 * fmax(1, fabs(b));
}

static void expect(const Expected *e, const char *what, size_t row)
{
    const WhyVerdict *v = decide();

    if (v->cause != e->cause || v->confidence != e->confidence || (e->share > 0 && !is_near(v->share, e->share)) ||
        (e->text && !strstr(v->text, e->text)))
        fail_msg("row %zu, %s: %s (%s), share %g: %s", row, what, why_causes[v->cause].key,
                 why_confidences[v->confidence].key, v->share, v->text);
}

/* A GPU that computes on its tensor cores, with nothing to say beside it. */
static void reset_to_training(void)
{
    reset(ACTIVITY_WORKING, ACTIVITY_CAUSE_NONE);
    put_seconds(1, &(Numbers){.sm = .9, .util = 1, .tensor = .5});
}

static void each_limit_counts_from_where_it_stands(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
        const Limit *l = &limits[i];
        Numbers n = l->numbers;
        double *varied = (double *)(void *)((char *)&n + l->varied);

        reset(l->word, l->waits_for);
        if (l->window_s)
            rig.activity.window_s = l->window_s;
        *varied = l->limit;
        put_seconds(1, &n); /* one reading is its own mean, to the last digit */
        expect(&l->at, "at the limit", i);
        *varied = nextafter(l->limit, l->beyond);
        put_seconds(1, &n);
        expect(&l->behind, "beyond the limit", i);
    }
}

/* Half of the link is half of it in the faster direction, whatever the seconds say of the generation. */
static void a_link_is_as_fast_as_it_has_been(void **state)
{
    (void)state;
    reset(ACTIVITY_IDLE_HELD, ACTIVITY_CAUSE_NONE);
    put_seconds(SECONDS, &(Numbers){.util = NONE, .rx = 50e9, .tx = 1e9, .gen = 1});
    put_seconds(SECONDS / 2, &(Numbers){.util = NONE, .rx = 50e9, .tx = 1e9, .gen = 5});
    assert_int_equal(decide()->cause, WHY_PCIE);
    assert_true(is_near(decide()->share, 50 / 63.04));
    assert_int_equal(decide()->confidence, WHY_HIGH); /* over 0.7 */
    assert_true(is_near(cited(decide(), "what the link can carry"), 63.04e9));
    put_seconds(SECONDS, &(Numbers){.util = NONE, .rx = 44.12e9, .gen = 5}); /* just under it */
    assert_int_equal(decide()->confidence, WHY_MEDIUM);
    put_seconds(SECONDS, &(Numbers){.util = NONE, .rx = 100e9, .gen = 5});
    assert_true(decide()->share <= 1);
    rig.in.pcie_lanes = NAN;
    assert_int_equal(decide()->cause, WHY_IDLE_HELD);
}

/* Of the seconds with a reading: two in ten are a fifth. */
static void shares_are_of_the_seconds_that_were_read(void **state)
{
    static const struct {
        uint32_t bit;
        int least; /* seconds of ten */
        const char *text;
    } holds[] = {
        {0x8, 2, "by heat 20 %"},      {0x20, 2, "by heat 20 %"},      {0x40, 2, "by heat 20 %"},
        {0x80, 2, "by a power brake"}, {0x4, 5, "by its power limit"}, {0x1, SECONDS + 1, ""},
        {0x2, SECONDS + 1, ""},        {0x10, SECONDS + 1, ""},        {0x100, SECONDS + 1, ""},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(holds); i++)
        for (int held = 1; held <= SECONDS; held++) {
            Numbers n = {.sm = .9, .util = 1, .tensor = .5, .clock = 1, .reasons = NONE};

            reset(ACTIVITY_WORKING, ACTIVITY_CAUSE_NONE);
            put_seconds(SECONDS, &n);
            n.clock = .5;
            n.reasons = holds[i].bit;
            put_seconds(held, &n);
            assert_int_equal(decide()->cause, held >= holds[i].least ? WHY_THROTTLED : WHY_TENSOR_CORES);
            if (held == holds[i].least) {
                assert_non_null(strstr(decide()->text, holds[i].text));
                assert_non_null(strstr(decide()->text, "to 50 % of the highest")); /* the clock of those seconds */
                assert_true(is_near(decide()->share, held / (double)SECONDS));
                assert_true(is_near(cited(decide(), "time with that clock reason"), held / (double)SECONDS));
            }
        }
    for (int moving = 1; moving <= SECONDS; moving++) {
        reset(ACTIVITY_WORKING, ACTIVITY_CAUSE_NONE);
        put_seconds(SECONDS, &(Numbers){.sm = .9, .util = 1, .tensor = .5, .link = 1e9});
        put_seconds(moving, &(Numbers){.sm = .2, .util = 1, .tensor = .01, .link = 100e9});
        assert_true((decide()->cause == WHY_NETWORK) == (moving >= 4));
    }
}

/* A brake from outside is named before the heat beside it. A limit that somebody lowered counts from a clock on at
 * which the board's own one does not. */
static void what_holds_the_clocks_is_named(void **state)
{
    Numbers n = {.sm = .9, .util = 1, .tensor = .5, .clock = .5, .reasons = 0x80 | 0x20};

    (void)state;
    reset(ACTIVITY_WORKING, ACTIVITY_CAUSE_NONE);
    put_seconds(SECONDS, &n);
    assert_non_null(strstr(decide()->text, "power brake"));
    n.reasons = 0x4;
    n.clock = .85;
    put_seconds(1, &n);
    for (int i = ACTIVITY_WINDOW_S - SECONDS; i < LAST; i++)
        rig.in.rows[WHY_OF_REASONS][i] = NAN;
    assert_int_equal(decide()->cause, WHY_TENSOR_CORES);
    rig.in.limit_share = .9;
    assert_non_null(strstr(decide()->text, "by a lowered power limit 100 % of the time, to 85 %"));
    assert_true(is_near(cited(decide(), "power limit, of the default"), .9));
    rig.in.limit_share = nextafter(.9, 1);
    assert_int_equal(decide()->cause, WHY_TENSOR_CORES);
    rig.in.limit_share = .5;
    n.clock = nextafter(.85, 1);
    put_seconds(1, &n);
    assert_int_equal(decide()->cause, WHY_TENSOR_CORES);
    n.clock = .6;
    put_seconds(1, &n);
    rig.in.limit_share = 1;
    assert_non_null(strstr(decide()->text, "by its power limit"));
    assert_true(isnan(cited(decide(), "power limit, of the default")));
}

static void a_process_that_hangs_is_stuck_after_half_a_minute(void **state)
{
    static const struct {
        char state;
        bool hangs;
        const char *text;
    } states[] = {{'D', true, "waiting in the kernel (state D) for 30 s"},
                  {'T', true, "stopped (state T) for 30 s"},
                  {'Z', true, "a zombie (state Z) for 30 s"},
                  {'S', false, ""},
                  {'R', false, ""}};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(states); i++) {
        reset(ACTIVITY_IDLE_HELD, ACTIVITY_CAUSE_NONE);
        put_seconds(1, &(Numbers){.util = NONE});
        rig.in.process_count = 2; /* one of them is enough */
        rig.processes[1].state = states[i].state;
        rig.processes[1].state_s = nextafter(30, 0);
        assert_int_equal(decide()->cause, WHY_IDLE_HELD);
        rig.processes[1].state_s = 30;
        assert_int_equal(decide()->cause, states[i].hangs ? WHY_STUCK : WHY_IDLE_HELD);
        if (states[i].hangs) {
            assert_non_null(strstr(decide()->text, states[i].text));
            assert_non_null(strstr(decide()->text, "process 101"));
            assert_int_equal(decide()->confidence, WHY_HIGH);
            assert_true(is_near(decide()->share, 1) && is_near(cited(decide(), "seconds in that state"), 30));
        }
    }
}

/* Pauses of three seconds and more, in which its processes write 20 MB/s together. */
static void a_checkpoint_is_a_pause_that_writes(void **state)
{
    (void)state;
    for (int pause = 1; pause <= 5; pause++) {
        reset(ACTIVITY_WORKING, ACTIVITY_CAUSE_NONE);
        put_seconds(20, &(Numbers){.sm = .9, .util = 1, .tensor = .5});
        put_seconds(pause, &(Numbers){.sm = .02, .util = .05});
        rig.in.process_count = 3;
        rig.processes[0].written = 10e6;
        rig.processes[2].written = 10e6;
        assert_true((decide()->cause == WHY_CHECKPOINT) == (pause >= 3));
        if (pause == 4) {
            assert_non_null(strstr(decide()->text, "stalls for 4 s of 60 while its program writes 20 MB/s"));
            assert_true(is_near(decide()->share, .2) && decide()->confidence == WHY_MEDIUM);
            assert_true(is_near(cited(decide(), "written by its processes"), 20e6));
        }
        rig.processes[2].written = nextafter(10e6, 0) - 1;
        assert_int_not_equal(decide()->cause, WHY_CHECKPOINT);
    }
    /* Not a pause: its multiprocessors work, or a kernel runs. */
    rig.processes[0].written = 1e9;
    put_seconds(5, &(Numbers){.sm = nextafter(.02, 1), .util = .05});
    assert_int_not_equal(decide()->cause, WHY_CHECKPOINT);
    put_seconds(5, &(Numbers){.sm = .02, .util = nextafter(.05, 1)});
    assert_int_not_equal(decide()->cause, WHY_CHECKPOINT);
}

/* What it does between two checkpoints is told beside them, and their time is no wait for input. A stall that is over and
 * in the window is one too, when its processes write no more. */
static void between_checkpoints_it_works(void **state)
{
    WhyStall stall = {.ago_s = 30, .length_s = 10, .written = 200e6};

    (void)state;
    reset(ACTIVITY_WORKING, ACTIVITY_CAUSE_NONE);
    put_seconds(20, &(Numbers){.sm = .9, .util = 1, .tensor = .5});
    put_seconds(8, &(Numbers){.sm = .01, .util = .01});
    rig.in.process_count = 1;
    rig.processes[0].written = 20e6;
    assert_int_equal(decide()->cause, WHY_CHECKPOINT);
    assert_int_equal(rig.why.count, 2);
    assert_int_equal(rig.why.verdicts[1].cause, WHY_TENSOR_CORES);
    assert_true(is_near(why_first_part(&rig.why), .4));
    rig.processes[0].written = 0; /* it waits then: its program wrote nothing */
    assert_int_equal(decide()->cause, WHY_INPUT);
    assert_true(why_first_part(&rig.why) == 1);
    rig.in.stalls = &stall;
    rig.in.stall_count = 1;
    assert_int_equal(decide()->cause, WHY_CHECKPOINT);
    assert_int_equal(rig.why.verdicts[1].cause, WHY_TENSOR_CORES);
    assert_non_null(strstr(decide()->text, "stalls for 8 s of 60 while its program writes 20 MB/s"));
    stall.written = nextafter(200e6, 0);
    assert_int_equal(decide()->cause, WHY_INPUT);
    stall.written = 200e6;
    stall.ago_s = 70; /* it ended when the window began */
    assert_int_equal(decide()->cause, WHY_INPUT);
}

/* Beside another answer: a tenth of the time without a kernel, copies, and memory that is nearly full. */
static void what_is_true_beside_the_answer_is_told(void **state)
{
    Numbers n = {.sm = .8, .util = .9, .tensor = .5, .gen = 5, .rx = 31.52e9};

    (void)state;
    reset(ACTIVITY_WORKING, ACTIVITY_CAUSE_NONE);
    rig.in.memory_total = 100e9;
    rig.in.memory_used = 98e9;
    put_seconds(1, &n);
    assert_int_equal(decide()->cause, WHY_TENSOR_CORES);
    assert_int_equal(find_verdict(WHY_INPUT)->cause, WHY_INPUT);
    assert_true(is_near(find_verdict(WHY_INPUT)->share, .1));
    assert_int_equal(find_verdict(WHY_PCIE)->cause, WHY_PCIE);
    assert_int_equal(find_verdict(WHY_MEMORY_FULL)->cause, WHY_MEMORY_FULL);
    assert_int_equal(find_verdict(WHY_MEMORY_FULL)->confidence, WHY_LOW);
    assert_true(isnan(find_verdict(WHY_MEMORY_FULL)->share));
    assert_non_null(strstr(find_verdict(WHY_MEMORY_FULL)->text, "98 % of its memory"));
    assert_true(is_near(cited(find_verdict(WHY_MEMORY_FULL), "memory used"), 98e9));
    assert_true(is_near(cited(find_verdict(WHY_MEMORY_FULL), "memory"), 100e9));
    n.util = nextafter(.9, 1);
    n.rx = nextafter(31.52e9, 0);
    rig.in.memory_used = nextafter(98e9, 0);
    put_seconds(1, &n);
    assert_int_equal(decide()->cause, WHY_TENSOR_CORES);
    assert_int_equal(rig.why.count, 1);
}

static void memory_that_grows_runs_out_in_half_an_hour(void **state)
{
    const double mib = 1048576;

    (void)state;
    reset_to_training();
    rig.in.memory_total = 20000 * mib;
    rig.in.memory_used = 2000 * mib;
    rig.in.memory_rise = 10 * mib; /* 1,800 s */
    assert_int_equal(decide()->cause, WHY_MEMORY_FULL);
    assert_int_equal(decide()->confidence, WHY_MEDIUM);
    assert_non_null(strstr(decide()->text, "runs out in about 30 min: 17.6 GiB are left and it grows by 600 MiB/min"));
    assert_true(isnan(decide()->share));
    assert_true(is_near(cited(decide(), "memory used"), 2000 * mib));
    assert_true(is_near(cited(decide(), "memory"), 20000 * mib));
    assert_true(is_near(cited(decide(), "growth"), 10 * mib));
    rig.in.memory_rise = nextafter(10 * mib, 0);
    assert_int_equal(decide()->cause, WHY_TENSOR_CORES);
    rig.in.memory_rise = 0;
    rig.in.memory_used = 20000 * mib; /* nothing is left, and it does not grow */
    assert_int_equal(decide()->cause, WHY_TENSOR_CORES);
}

/* Two owners with a tenth each. Processes without a known owner are nobody's neighbours. */
static void neighbours_are_two_owners_that_compute(void **state)
{
    (void)state;
    reset_to_training();
    rig.in.process_count = 3;
    rig.processes[1].owner = "first";
    rig.processes[2].owner = "other";
    rig.processes[0].sm = .5;
    rig.processes[1].sm = .4;
    rig.processes[2].sm = .1;
    assert_int_equal(decide()->cause, WHY_NEIGHBOUR);
    assert_int_equal(decide()->confidence, WHY_HIGH);
    assert_true(is_near(decide()->share, .1));
    assert_non_null(strstr(decide()->text, "process 101 of first takes 40 % and process 102 of other 10 %"));
    assert_true(is_near(cited_of("multiprocessors' time", "first"), .4));
    assert_true(is_near(cited_of("multiprocessors' time", "other"), .1));
    rig.processes[2].sm = nextafter(.1, 0);
    assert_int_equal(decide()->cause, WHY_TENSOR_CORES);
    rig.processes[2].sm = .4;
    rig.processes[2].owner = "first";
    assert_int_equal(decide()->cause, WHY_TENSOR_CORES);
    /* Processes of one owner are one neighbour, by their sum; each of three has its part with its name. */
    rig.processes[0].owner = rig.processes[2].owner = "other";
    rig.processes[0].sm = rig.processes[2].sm = .06;
    assert_int_equal(decide()->cause, WHY_NEIGHBOUR);
    assert_true(is_near(cited_of("multiprocessors' time", "other"), .12));
    rig.processes[0].owner = "third";
    rig.processes[0].sm = rig.processes[2].sm = .2;
    assert_int_equal(decide()->cause, WHY_NEIGHBOUR);
    assert_true(is_near(cited_of("multiprocessors' time", "first"), .4));
    assert_true(is_near(cited_of("multiprocessors' time", "other"), .2));
    assert_true(is_near(cited_of("multiprocessors' time", "third"), .2));
}

/* Where the driver has no samples per process, programs of two owners that run are told of, as a guess. */
static void neighbours_without_samples_are_a_guess(void **state)
{
    (void)state;
    reset_to_training();
    rig.in.process_count = 2;
    rig.processes[0].owner = "first";
    rig.processes[1].owner = "other";
    rig.processes[0].cores = 1;
    rig.processes[1].cores = .3;
    assert_int_equal(decide()->cause, WHY_TENSOR_CORES);
    const WhyVerdict *beside = find_verdict(WHY_NEIGHBOUR);
    assert_int_equal(beside->confidence, WHY_LOW);
    assert_non_null(strstr(beside->text, "programs of first and of other run on it"));
    assert_string_equal(beside->names[beside->evidence[1].name - 1], "other");
    assert_true(is_near(beside->evidence[1].value, .3));
    rig.processes[1].cores = nextafter(.3, 0); /* it sleeps */
    (void)decide();
    assert_int_equal(find_verdict(WHY_NEIGHBOUR)->cause, WHY_END);
    rig.processes[1].cores = 1;
    rig.processes[0].sm = .9; /* the driver tells */
    (void)decide();
    assert_int_equal(find_verdict(WHY_NEIGHBOUR)->cause, WHY_END);
}

/* An instance at a low clock, while the board is at its power limit and others take more of it. */
static void a_board_is_shared_by_its_power(void **state)
{
    static const WhySibling siblings[] = {
        {"own", 1, 0, .9}, {"seven", 2, 0, .3}, {"eight", 3, 0, .1}, {NULL, 4, 0, .9}};

    (void)state;
    reset(ACTIVITY_WORKING, ACTIVITY_CAUSE_NONE);
    rig.in.instance = true;
    rig.in.siblings = siblings;
    rig.in.sibling_count = ARRAY_LEN(siblings);
    rig.in.board_sm = .2;
    rig.in.board_power = .99;
    rig.in.limit_share = 1;
    rig.in.process_count = 1;
    rig.processes[0].owner = "own";
    put_seconds(10, &(Numbers){.sm = .9, .util = 1, .tensor = .5, .clock = .85, .reasons = 4});
    put_seconds(5, &(Numbers){.sm = .9, .util = 1, .tensor = .5, .clock = .99, .reasons = NONE});
    assert_int_equal(decide()->cause, WHY_NEIGHBOUR);
    assert_int_equal(decide()->confidence, WHY_MEDIUM);
    assert_true(is_near(decide()->share, .5));
    assert_non_null(strstr(decide()->text, "seven on MIG 2/0 has 30 % of the board at work"));
    assert_true(is_near(cited_of("multiprocessors of the board", "seven"), .3));
    assert_true(is_near(cited(decide(), "multiprocessors of the board, by others"), .4));
    assert_true(is_near(cited(decide(), "multiprocessors of the board, by itself"), .2));
    assert_true(is_near(cited(decide(), "power of the board (of its limit)"), .99));
    rig.in.board_sm = .4; /* it takes as much as they */
    assert_int_equal(decide()->cause, WHY_TENSOR_CORES);
    rig.in.board_sm = .2;
    rig.in.limit_share = .9; /* the limit was lowered, which is the cause */
    assert_int_equal(decide()->cause, WHY_THROTTLED);
    rig.in.limit_share = 1;
    put_seconds(6, &(Numbers){.sm = .9, .util = 1, .tensor = .5, .clock = .99, .reasons = NONE});
    assert_int_equal(decide()->cause, WHY_TENSOR_CORES); /* for less than half of the time */
    put_seconds(10, &(Numbers){.sm = .9, .util = 1, .tensor = .5, .clock = .87, .reasons = 4});
    assert_int_equal(decide()->cause, WHY_TENSOR_CORES); /* as fast as alone */
    put_seconds(10, &(Numbers){.sm = .9, .util = 1, .tensor = .5, .clock = .5, .reasons = 0x20});
    assert_int_equal(decide()->cause, WHY_THROTTLED); /* hot, whoever works */
}

/* What the adapters carry says whether it is the network or NVLink. */
static void adapters_tell_the_network_from_nvlink(void **state)
{
    WhyAdapter adapters[] = {
        {"idle", 1, 1, 50e9, 0, 0}, {"mlx5_7", 5e9, 25e9, 50e9, 3, 0}, {"blind", 90e9, 1, NAN, 0, 0}};
    const Numbers exchange = {.sm = .2, .util = 1, .tensor = .01, .link = 50e9};

    (void)state;
    reset(ACTIVITY_WORKING, ACTIVITY_CAUSE_NONE);
    put_seconds(10, &exchange);
    assert_int_equal(decide()->cause, WHY_NETWORK);
    assert_non_null(strstr(decide()->text, "counters are not to be read on this node"));
    rig.in.adapters = adapters;
    rig.in.adapter_count = ARRAY_LEN(adapters);
    assert_non_null(strstr(decide()->text, "adapter mlx5_7 carries 50 % of its link"));
    assert_int_equal(decide()->confidence, WHY_MEDIUM);
    assert_true(is_near(cited_of("received", "mlx5_7"), 25e9) && is_near(cited_of("link", "mlx5_7"), 50e9) &&
                is_near(cited_of("packets sent again, per second", "mlx5_7"), 3));
    assert_true(isnan(cited_of("congestion notices, per second", "mlx5_7")));
    adapters[1].received = nextafter(25e9, 0);
    assert_non_null(strstr(decide()->text, "no adapter is full here; the fullest, mlx5_7,"));
    adapters[1].sent = 37.5e9; /* in one direction, the fuller */
    assert_int_equal(decide()->confidence, WHY_HIGH);
    adapters[1].sent = nextafter(37.5e9, 0);
    assert_int_equal(decide()->confidence, WHY_MEDIUM);
    adapters[1].sent = adapters[1].received = 1e9;
    assert_non_null(strstr(decide()->text, "at rest, so it is NVLink"));
    adapters[1].sent = nextafter(1e9, 2e9);
    assert_non_null(strstr(decide()->text, "no adapter is full here"));
    /* Kernels that spin while an adapter is full: a collective that hangs is not excluded. */
    reset(ACTIVITY_WAITING, ACTIVITY_CAUSE_COLLECTIVE);
    put_seconds(40, &(Numbers){.sm = .1, .util = 1, .tensor = .001, .dram = .001});
    rig.in.adapters = adapters;
    rig.in.adapter_count = ARRAY_LEN(adapters);
    assert_int_equal(decide()->cause, WHY_COLLECTIVE);
    adapters[1].sent = 25e9;
    assert_int_equal(decide()->cause, WHY_NETWORK);
    assert_int_equal(decide()->confidence, WHY_MEDIUM);
    assert_int_equal(decide()->between[0], WHY_COLLECTIVE);
    assert_non_null(strstr(decide()->text, "yet it waits for the network: adapter mlx5_7 carries 50 %"));
    adapters[1].sent = nextafter(25e9, 0);
    assert_int_equal(decide()->cause, WHY_COLLECTIVE);
    assert_int_equal(decide()->confidence, WHY_HIGH);
}

static void put_stalls(WhyStall *stalls, size_t count, double every_s, double length_s, double written)
{
    for (size_t i = 0; i < count; i++)
        stalls[i] = (WhyStall){100 + every_s * (double)(count - 1 - i), length_s, written};
    rig.in.stalls = stalls;
    rig.in.stall_count = count;
}

/* Stalls that write come again after the same time: how often, how long, what it costs. */
static void checkpoints_have_a_rhythm(void **state)
{
    WhyStall stalls[4];

    (void)state;
    reset(ACTIVITY_WORKING, ACTIVITY_CAUSE_NONE);
    put_seconds(20, &(Numbers){.sm = .9, .util = 1, .tensor = .5});
    put_stalls(stalls, 3, 1800, 40, 800e6);
    assert_int_equal(decide()->cause, WHY_TENSOR_CORES);
    const WhyVerdict *v = find_verdict(WHY_CHECKPOINT);
    assert_non_null(strstr(v->text, "stalls every 30 min for 40 s while its program writes 0.8 GB: 2.2 % of the time"));
    assert_int_equal(v->confidence, WHY_HIGH);
    assert_true(is_near(v->share, 40.0 / 1800));
    assert_true(is_near(cited(v, "from one to the next"), 1800) && is_near(cited(v, "length of one"), 40) &&
                is_near(cited(v, "stalls that wrote"), 3) && is_near(cited(v, "written in one"), 800e6));
    /* One that wrote nothing does not count: a shuffle of the data, say. */
    stalls[1].written = 799e6;
    (void)decide();
    assert_int_equal(find_verdict(WHY_CHECKPOINT)->cause, WHY_END);
    stalls[1].written = NAN;
    (void)decide();
    assert_int_equal(find_verdict(WHY_CHECKPOINT)->cause, WHY_END);
    stalls[1].written = 800e6;
    stalls[1].ago_s += 460; /* 1,340 and 2,260 s: by chance */
    (void)decide();
    assert_int_equal(find_verdict(WHY_CHECKPOINT)->cause, WHY_END);
    stalls[1].ago_s -= 20; /* 1,360 and 2,240 s */
    (void)decide();
    assert_int_equal(find_verdict(WHY_CHECKPOINT)->cause, WHY_CHECKPOINT);
    put_stalls(stalls, 2, 1800, 40, 800e6);
    (void)decide();
    assert_int_equal(find_verdict(WHY_CHECKPOINT)->cause, WHY_END);
    put_stalls(stalls, 4, 39.9, 4, 800e6); /* the last is more than 2.5 intervals ago */
    (void)decide();
    assert_int_equal(find_verdict(WHY_CHECKPOINT)->cause, WHY_END);
    put_stalls(stalls, 4, 40.1, 4, 800e6);
    (void)decide();
    assert_int_equal(find_verdict(WHY_CHECKPOINT)->cause, WHY_CHECKPOINT);
    /* In the midst of one the pause is the answer, and the rhythm makes it sure. */
    put_seconds(5, &(Numbers){.sm = .01, .util = .01});
    rig.in.process_count = 1;
    rig.processes[0].written = 20e6;
    assert_int_equal(decide()->cause, WHY_CHECKPOINT);
    assert_int_equal(decide()->confidence, WHY_HIGH);
    assert_non_null(strstr(
        decide()->text,
        "stalls for 5 s of 60 while its program writes 20 MB/s: a checkpoint, every 40 s for 4 s, 10.0 % of the time"));
}

/* What the host says of a program that starves its GPU. */
static void the_host_is_blamed_by_its_numbers(void **state)
{
    static const struct {
        double children, child_cores, io, cores;
        WhyConfidence confidence;
        const char *text;
    } hosts[] = {
        {4, 3.2, .9, 1, WHY_HIGH, "its 4 child processes (loaders) use all"},
        {4, 3.19, .2, 1, WHY_HIGH, "tasks wait for I/O 20 % of the time"},
        {4, 3.19, .19, .9, WHY_HIGH, "its process uses 0.9 cores"},
        {4, 3.19, .19, .89, WHY_MEDIUM, "% of the time"},
        {0, 0, .19, .3, WHY_MEDIUM, "% of the time"},
        {0, 0, .19, .29, WHY_MEDIUM, "its process mostly sleeps"},
        {0, 0, .19, .001, WHY_MEDIUM, "its process mostly sleeps"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(hosts); i++) {
        reset(ACTIVITY_WAITING, ACTIVITY_CAUSE_INPUT);
        put_seconds(1, &(Numbers){.sm = .2, .util = .3});
        rig.in.process_count = 2;
        rig.in.io_pressure = hosts[i].io;
        rig.in.cpu_pressure = .07;
        for (size_t k = 0; k < 2; k++) { /* children of both count together, and the busier of the two */
            rig.processes[k].children = hosts[i].children / 2;
            rig.processes[k].child_cores = hosts[i].child_cores / 2;
            rig.processes[k].cores = k == 0 ? hosts[i].cores : 0;
        }
        const WhyVerdict *v = decide();
        assert_int_equal(v->cause, WHY_INPUT);
        if (!strstr(v->text, hosts[i].text) || v->confidence != hosts[i].confidence)
            fail_msg("row %zu: %s (%s)", i, v->text, why_confidences[v->confidence].key);
        if (strstr(hosts[i].text, "% of") == hosts[i].text)
            assert_null(strchr(v->text, ';'));
        assert_true(is_near(v->share, .7));
        assert_true(is_near(cited(v, "processor time of its busiest process"), hosts[i].cores));
        assert_true(hosts[i].children > 0 ? is_near(cited(v, "processor time of their children"), hosts[i].child_cores)
                                          : isnan(cited(v, "processor time of their children")));
        assert_true(is_near(cited(v, "time in which a task waited for I/O"), hosts[i].io));
        assert_true(is_near(cited(v, "time in which a task waited for a core"), .07));
    }
}

/* One rank of three and more stands apart by 0.05, and by three deviations of the others. */
static void a_rank_stands_apart_by_its_sm_activity(void **state)
{
    static const struct {
        double own, peers[PEERS];
        size_t count;
        WhyCause beside; /* 0: none */
        double share;
        const char *text;
    } ranks[] = {
        {.9, {.7, .7}, 2, WHY_STRAGGLER, .2, "computes 20 % of the time longer than they"},
        {.9, {.7}, 1, 0, 0, ""},
        {.7, {.7, .9}, 2, WHY_OTHER_RANK, .2, "for GPU 21 of its job, which computes 20 %"},
        {.7, {.9, .7}, 2, WHY_OTHER_RANK, .2, "for GPU 20 of its job, which computes 20 %"},
        {.7501, {.7, .7}, 2, WHY_STRAGGLER, .0501, ""},
        {.75, {.7, .7}, 2, 0, 0, ""},
        {.9, {.9, .7, .7, .7, .7}, 5, 0, 0, ""},
        {.9, {.7, NAN}, 2, 0, 0, ""},
        /* median .6 of four is between two; deviations .02, so that 0.089 is needed */
        {.68, {.58, .6, .62, .6}, 4, 0, 0, ""},
        {.7, {.58, .6, .62, .6}, 4, WHY_STRAGGLER, .1, ""},
        {.7, {.58, .62, .6}, 3, WHY_STRAGGLER, .09, ""},
        {.62, {.58, .6, .62, .7}, 4, 0, 0, ""},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(ranks); i++) {
        reset(ACTIVITY_WORKING, ACTIVITY_CAUSE_NONE);
        put_seconds(1, &(Numbers){.sm = ranks[i].own, .util = 1, .tensor = .5});
        rig.in.peer_count = ranks[i].count;
        for (size_t k = 0; k < ranks[i].count; k++)
            rig.peers[k] = (WhyPeer){20 + (uint32_t)k, ranks[i].peers[k]};
        assert_int_equal(decide()->cause, WHY_TENSOR_CORES);
        const WhyVerdict *v = &rig.why.verdicts[1];
        const WhyCause found = rig.why.count > 1 ? v->cause : 0;

        if (found != ranks[i].beside || rig.why.count > 2)
            fail_msg("row %zu: %s", i, why_causes[found].key);
        if (!found)
            continue;
        if (!is_near(v->share, ranks[i].share) || !strstr(v->text, ranks[i].text))
            fail_msg("row %zu: share %g: %s", i, v->share, v->text);
        assert_int_equal(v->confidence, WHY_MEDIUM);
        if (found == WHY_OTHER_RANK)
            assert_true(is_near(cited(v, "SM active of the late rank"), .9));
        else
            assert_true(is_near(cited(v, "SM active of its job's GPUs, median"), ranks[i].own - ranks[i].share));
        rig.in.rows[WHY_OF_UTIL][LAST] = nextafter(.9, 0); /* it does not wait by spinning */
        (void)decide();
        assert_int_equal(find_verdict(WHY_STRAGGLER)->cause, WHY_END);
        assert_int_equal(find_verdict(WHY_OTHER_RANK)->cause, WHY_END);
    }
}

/* What it may be as well, in the order of the rules. */
static void what_cannot_be_told_apart_is_listed(void **state)
{
    static const struct {
        ActivityWord word;
        Numbers numbers;
        WhyCause between[WHY_BETWEEN_MAX]; /* up to the first 0 */
    } cases[] = {
        {ACTIVITY_WORKING, {.util = 1}, {WHY_TENSOR_CORES, WHY_NO_TENSOR_CORES, WHY_DEVICE_MEMORY, WHY_SMALL_BATCH}},
        {ACTIVITY_WAITING, {.util = 1}, {WHY_LAUNCHES, WHY_COLLECTIVE}},
        {ACTIVITY_WAITING, {.util = .8}, {WHY_INPUT, WHY_LAUNCHES}},
        {ACTIVITY_WORKING, {.util = 1, .sm = .5, .tensor = .1}, {WHY_LAUNCHES}},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        uint32_t count = 0;

        reset(cases[i].word, ACTIVITY_CAUSE_NONE);
        put_seconds(1, &cases[i].numbers);
        const WhyVerdict *v = decide();
        for (; count < WHY_BETWEEN_MAX && cases[i].between[count]; count++)
            assert_int_equal(v->between[count], cases[i].between[count]);
        assert_int_equal(v->between_count, count);
    }
}

/* A spin that has not gone on for long enough: the way to know is told. From then on it is launches. */
static void a_spin_is_told_from_launches_after_half_a_minute(void **state)
{
    (void)state;
    reset(ACTIVITY_WAITING, ACTIVITY_CAUSE_LAUNCHES);
    put_seconds(1, &(Numbers){SPIN});
    rig.activity.window_s = 29;
    assert_int_equal(decide()->cause, WHY_UNCLEAR);
    assert_non_null(strstr(decide()->text, "30 s of readings tell"));
    rig.activity.window_s = 30;
    assert_int_equal(decide()->cause, WHY_LAUNCHES);
    rig.activity.cause = ACTIVITY_CAUSE_NONE; /* more multiprocessors than launches keep at work */
    rig.in.rows[WHY_OF_SM][LAST] = .5;
    assert_int_equal(decide()->cause, WHY_UNCLEAR);
    assert_null(strstr(decide()->text, "readings tell"));
    rig.activity.window_s = 29;
    assert_non_null(strstr(decide()->text, "readings tell"));
    rig.activity.window_s = 30;
    rig.in.rows[WHY_OF_SM][LAST] = NAN;
    assert_int_equal(decide()->cause, WHY_UNCLEAR);
    assert_non_null(strstr(decide()->text, "without SM activity that cannot be told"));
}

/* Facts are certain after a second, what is measured is not. */
static void few_seconds_make_facts_no_less_sure(void **state)
{
    static const struct {
        ActivityWord word;
        ActivityCause waits_for;
        WhyCause cause;
        WhyConfidence sure;
    } words[] = {
        {ACTIVITY_UNKNOWN, ACTIVITY_CAUSE_NONE, WHY_UNKNOWN, WHY_LOW},
        {ACTIVITY_FREE, ACTIVITY_CAUSE_NONE, WHY_FREE, WHY_HIGH},
        {ACTIVITY_UNUSABLE, ACTIVITY_CAUSE_NONE, WHY_UNUSABLE, WHY_HIGH},
        {ACTIVITY_IDLE_HELD, ACTIVITY_CAUSE_NONE, WHY_IDLE_HELD, WHY_HIGH},
        {ACTIVITY_WORKING, ACTIVITY_CAUSE_NONE, WHY_FP64, WHY_MEDIUM},
        {ACTIVITY_WAITING, ACTIVITY_CAUSE_COLLECTIVE, WHY_COLLECTIVE, WHY_MEDIUM},
        {ACTIVITY_WAITING, ACTIVITY_CAUSE_OTHER_RANK, WHY_OTHER_RANK, WHY_MEDIUM},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        reset(words[i].word, words[i].waits_for);
        rig.activity.window_s = 9;
        snprintf(rig.activity.text, sizeof rig.activity.text, "waits for GPU 7");
        put_seconds(1, &(Numbers){.sm = .1, .util = 1, .fp64 = .5});
        rig.in.memory_used = 5e9;
        const WhyVerdict *v = decide();
        assert_int_equal(v->cause, words[i].cause);
        assert_int_equal(v->confidence, words[i].sure);
        assert_true(words[i].cause == WHY_UNKNOWN     ? isnan(v->share)
                    : words[i].cause == WHY_IDLE_HELD ? v->share == 0 /* it worked in the only second */
                    : words[i].cause == WHY_FP64      ? is_near(v->share, .1)
                                                      : is_near(v->share, 1));
        if (words[i].cause == WHY_IDLE_HELD)
            assert_true(is_near(cited(v, "memory held"), 5e9));
        if (words[i].cause == WHY_OTHER_RANK)
            assert_non_null(strstr(v->text, "yet idle: it waits for GPU 7"));
        if (words[i].cause == WHY_COLLECTIVE)
            assert_non_null(strstr(v->text, "it spins in a collective; 10 % of the multiprocessors"));
        rig.activity.window_s = 10;
        assert_int_equal(decide()->confidence, words[i].cause == WHY_UNKNOWN ? WHY_LOW : WHY_HIGH);
        assert_int_equal(rig.why.window_s, 10);
    }
}

/* The numbers of a slice are called by what is read of it. */
static void a_slice_cites_its_engine(void **state)
{
    (void)state;
    for (int instance = 0; instance < 2; instance++) {
        reset(ACTIVITY_FREE, ACTIVITY_CAUSE_NONE);
        rig.in.instance = instance;
        put_seconds(1, &(Numbers){.sm = .3, .util = .4});
        const WhyVerdict *v = decide();
        assert_true(is_near(cited(v, "SM active"), .3));
        assert_true(is_near(cited(v, instance ? "engine active" : "utilisation"), .4));
        assert_true(isnan(cited(v, instance ? "utilisation" : "engine active")));
    }
}

/* What was before the window is not looked at. */
static void only_the_window_counts(void **state)
{
    (void)state;
    reset(ACTIVITY_WORKING, ACTIVITY_CAUSE_NONE);
    put_seconds(SECONDS + 1, &(Numbers){.sm = .9, .util = 1, .fp64 = 1});
    put_seconds(SECONDS, &(Numbers){.sm = .9, .util = 1, .fp64 = NONE, .tensor = .5});
    rig.activity.window_s = SECONDS;
    assert_int_equal(decide()->cause, WHY_TENSOR_CORES);
    assert_int_equal(decide()->confidence, WHY_HIGH);
    rig.activity.window_s = 0; /* of a word that needs no window: all that was read */
    put_seconds(ACTIVITY_WINDOW_S, &(Numbers){.sm = .9, .util = 1, .fp64 = NONE, .tensor = NONE});
    put_seconds(1, &(Numbers){.sm = .9, .util = 1, .fp64 = NONE, .tensor = .9});
    assert_int_equal(decide()->cause, WHY_NO_TENSOR_CORES); /* 0.9 in one of 60 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_limit_counts_from_where_it_stands),
        cmocka_unit_test(a_link_is_as_fast_as_it_has_been),
        cmocka_unit_test(shares_are_of_the_seconds_that_were_read),
        cmocka_unit_test(what_holds_the_clocks_is_named),
        cmocka_unit_test(a_process_that_hangs_is_stuck_after_half_a_minute),
        cmocka_unit_test(a_checkpoint_is_a_pause_that_writes),
        cmocka_unit_test(between_checkpoints_it_works),
        cmocka_unit_test(what_is_true_beside_the_answer_is_told),
        cmocka_unit_test(memory_that_grows_runs_out_in_half_an_hour),
        cmocka_unit_test(neighbours_are_two_owners_that_compute),
        cmocka_unit_test(neighbours_without_samples_are_a_guess),
        cmocka_unit_test(a_board_is_shared_by_its_power),
        cmocka_unit_test(checkpoints_have_a_rhythm),
        cmocka_unit_test(adapters_tell_the_network_from_nvlink),
        cmocka_unit_test(the_host_is_blamed_by_its_numbers),
        cmocka_unit_test(a_rank_stands_apart_by_its_sm_activity),
        cmocka_unit_test(what_cannot_be_told_apart_is_listed),
        cmocka_unit_test(a_spin_is_told_from_launches_after_half_a_minute),
        cmocka_unit_test(few_seconds_make_facts_no_less_sure),
        cmocka_unit_test(a_slice_cites_its_engine),
        cmocka_unit_test(only_the_window_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
