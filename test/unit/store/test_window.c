/* SPDX-License-Identifier: Apache-2.0 */
/* What happened between scrapes (engine/store/window.c), against a list of all readings. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "base/cleanup.h"
#include "engine/store/window.h"
#include "random.h"

enum { GPUS = 70, READINGS_MAX = 200000 };

#define START (2 * NS_PER_DAY + 3 * NS_PER_S)

typedef struct Seen {
    uint64_t time_ns;
    unsigned gpu;
    int metric;
    double value;
} Seen;

/* A node of which GPUs come and go, and all that its GPUs ever read. */
typedef struct Rig {
    Random random;
    Windows *windows;
    uint64_t now_ns;
    bool there[GPUS];
    int metric_count;
    size_t count;
} Rig;

static Seen readings[READINGS_MAX];
static NodeGpu gpus[GPUS];
static FastReading fast[GPUS][16];
static WindowGpu out[GPUS];

static PciAddress address(unsigned gpu)
{
    return (PciAddress){.domain = gpu / 8, .bus = (uint8_t)(gpu * 3 + 1)};
}

static void rig_start(Rig *rig, uint64_t seed, unsigned gpu_count)
{
    *rig = (Rig){.random = {seed}, .windows = windows_new(), .now_ns = START};
    while (metric_fast_at(rig->metric_count) != METRIC_END)
        rig->metric_count++;
    for (unsigned gpu = 0; gpu < gpu_count; gpu++)
        rig->there[gpu] = true;
}

static void rig_stop(Rig *rig)
{
    windows_free(rig->windows);
}

static double some_value(Rig *rig, unsigned gpu)
{
    return (double)random_below(&rig->random, 100000) / 8 - 1000 + gpu;
}

/* One fast reading of a GPU, noted in the list. */
static void read_gpu(Rig *rig, unsigned gpu, uint64_t time_ns, FastReading *ret)
{
    *ret = (FastReading){.time_ns = time_ns, .valid = UINT32_MAX & ~1u};
    for (int m = 0; m < READING_FAST_CAP; m++) {
        ret->value[m] = some_value(rig, gpu);
        if (random_once(&rig->random, 5))
            ret->valid &= ~(1u << m);
        if (random_once(&rig->random, 20))
            ret->value[m] = NAN;
        if (m >= rig->metric_count || !(ret->valid >> m & 1) || isnan(ret->value[m]))
            continue;
        assert_true(rig->count < READINGS_MAX);
        readings[rig->count++] = (Seen){.time_ns = time_ns, .gpu = gpu, .metric = m, .value = ret->value[m]};
    }
}

/* One tick: each GPU that is there has `per_tick` readings of the last second. */
static void rig_tick(Rig *rig, size_t per_tick)
{
    Node node = {.time_ns = rig->now_ns, .gpus = gpus};

    for (unsigned gpu = 0; gpu < GPUS; gpu++) {
        NodeGpu *at = &gpus[node.gpu_count];

        if (!rig->there[gpu])
            continue;
        reading_init(&at->reading, DEVICE_GPU);
        at->reading.device.has_pci = true;
        at->reading.device.pci = address(gpu);
        at->fast = fast[node.gpu_count];
        at->fast_count = per_tick;
        for (size_t i = 0; i < per_tick; i++)
            read_gpu(rig, gpu, rig->now_ns - (per_tick - i) * NS_PER_S / 10 + NS_PER_S / 20, &fast[node.gpu_count][i]);
        node.gpu_count++;
    }
    windows_add(rig->windows, &node);
}

/* windows_read of a scraper with a name of its own. */
static size_t read_named(Windows *windows, const char *name, uint64_t now_ns, WindowGpu *into, size_t cap,
                         uint64_t *ret)
{
    WindowSpan span;
    const size_t count = windows_read(windows, &(WindowScraper){.name = name, .named = true}, now_ns, into, cap, &span);

    *ret = span.ns;
    return count;
}

/* A scraper as it should see things. */
typedef struct Scraper {
    const char *name;
    bool known;
    size_t from; /* its window holds the readings from here on */
    uint64_t opened_ns;
} Scraper;

static void check_value(const WindowValue *got, unsigned gpu, int metric, const size_t range[2], uint64_t since_ns)
{
    double min = 0, max = 0, sum = 0;
    size_t count = 0;

    for (size_t i = range[0]; i < range[1]; i++) {
        const Seen *r = &readings[i];

        if (r->gpu != gpu || r->metric != metric || r->time_ns < since_ns)
            continue;
        min = count == 0 || r->value < min ? r->value : min;
        max = count == 0 || r->value > max ? r->value : max;
        sum += r->value;
        count++;
    }
    assert_int_equal(got->count, count);
    if (count > 0) {
        assert_true(got->min == min && got->max == max);
        assert_true(fabs(got->sum - sum) <= 1e-9 * (fabs(sum) + 1e6));
    }
}

static void take_and_check(Rig *rig, Scraper *scraper)
{
    uint64_t span = 1, since = 0;
    size_t count = read_named(rig->windows, scraper->name, rig->now_ns, out, GPUS, &span), found = 0;
    size_t range[2] = {scraper->known ? scraper->from : 0, rig->count};

    if (scraper->known) {
        assert_int_equal(span, rig->now_ns - scraper->opened_ns);
    } else {
        assert_true(span <= 60 * NS_PER_S);
        since = rig->now_ns - span;
    }
    for (unsigned gpu = 0; gpu < GPUS; gpu++) {
        size_t at = 0;

        if (!rig->there[gpu])
            continue;
        while (at < count && pci_compare(out[at].gpu, address(gpu)) != 0)
            at++;
        assert_true(at < count);
        for (int m = 0; m < READING_FAST_CAP; m++)
            check_value(&out[at].value[m], gpu, m, range, since);
        found++;
    }
    assert_int_equal(found, count);
    *scraper = (Scraper){.name = scraper->name, .known = true, .from = rig->count, .opened_ns = rig->now_ns};
}

static void two_scrapers_see_what_is_theirs(void **state)
{
    Scraper a = {.name = "10.0.0.1 Prometheus/2.53"}, b = {.name = "10.0.0.2 vmagent"};
    Rig rig;

    (void)state;
    rig_start(&rig, 1, 4);
    for (int s = 1; s < 200; s++) {
        rig.now_ns += NS_PER_S;
        rig_tick(&rig, 10);
        if (s % 30 == 7)
            take_and_check(&rig, &a);
        if (s % 10 == 3)
            take_and_check(&rig, &b);
    }
    rig_stop(&rig);
}

/* A load that is on for half of each second: one sample per second sees 0 or 100, the window sees both and the mean. */
static void a_sawtooth_shows(void **state)
{
    int metric = metric_fast_index(METRIC_GPU_UTIL);
    Windows *windows = windows_new();
    NodeGpu gpu = {.fast_count = 10};
    Node node = {.gpu_count = 1, .gpus = &gpu};
    uint64_t span = 0;

    (void)state;
    assert_true(metric >= 0);
    reading_init(&gpu.reading, DEVICE_GPU);
    gpu.reading.device.has_pci = true;
    for (uint64_t s = 0; s <= 60; s++) {
        FastReading tick[10] = {{.time_ns = 0}};

        node.time_ns = START + s * NS_PER_S;
        for (size_t i = 0; i < 10; i++) {
            tick[i] = (FastReading){.time_ns = node.time_ns - (10 - i) * NS_PER_S / 10, .valid = 1u << metric};
            tick[i].value[metric] = i < 5 ? 100 : 0;
        }
        gpu.fast = tick;
        windows_add(windows, &node);
        if (s == 30 || s == 60)
            assert_int_equal(read_named(windows, "prometheus", node.time_ns, out, GPUS, &span), 1);
    }
    assert_int_equal(span, 30 * NS_PER_S);
    assert_int_equal(out[0].value[metric].count, 300);
    assert_true(out[0].value[metric].min == 0 && out[0].value[metric].max == 100);
    assert_true(out[0].value[metric].sum / 300 == 50);
    for (int m = 0; m < READING_FAST_CAP; m++)
        assert_true(m == metric || out[0].value[m].count == 0);
    windows_free(windows);
}

static void a_new_scraper_gets_the_last_minute(void **state)
{
    Rig rig;

    (void)state;
    rig_start(&rig, 3, 3);
    for (unsigned s = 1; s < 180; s++) {
        char name[32];
        Scraper scraper = {.name = name};
        uint64_t span = 0;

        rig.now_ns += NS_PER_S + (s % 7) * NS_PER_MS;
        rig_tick(&rig, 10);
        snprintf(name, sizeof name, "new %u", s);
        take_and_check(&rig, &scraper);
        snprintf(name, sizeof name, "another %u", s);
        assert_int_equal(read_named(rig.windows, name, rig.now_ns, out, GPUS, &span), 3);
        if (s > 61)
            assert_in_range(span, 55 * NS_PER_S, 60 * NS_PER_S);
        else
            assert_true(span <= s * (NS_PER_S + 7 * NS_PER_MS));
    }
    rig_stop(&rig);
}

/* After hours in which nothing was read, nothing old is taken for the last minute. */
static void silence_leaves_nothing(void **state)
{
    Scraper scraper = {.name = "late"};
    Rig rig;

    (void)state;
    rig_start(&rig, 4, 2);
    rig_tick(&rig, 10);
    for (uint64_t hours = 1; hours < 5; hours++) {
        char name[16];

        rig.now_ns += hours * NS_PER_H;
        snprintf(name, sizeof name, "late %u", (unsigned)hours);
        scraper = (Scraper){.name = name};
        take_and_check(&rig, &scraper);
        rig_tick(&rig, 0);
        assert_int_equal(out[0].value[1].count, 0);
    }
    rig_stop(&rig);
}

static void before_the_first_tick(void **state)
{
    Windows *windows = windows_new();
    uint64_t span = 77;

    (void)state;
    assert_int_equal(read_named(windows, "early", START, out, GPUS, &span), 0);
    assert_int_equal(span, 0);
    assert_int_equal(read_named(windows, "early", START + NS_PER_S, out, GPUS, &span), 0);
    assert_int_equal(span, NS_PER_S);
    windows_free(windows);
    windows_free(NULL);
}

/* A scraper that asks again at once (Prometheus does, after a broken connection) misses nothing. */
static void again_at_once_is_the_same_window(void **state)
{
    static WindowGpu again[GPUS];
    Scraper scraper = {.name = "one"};
    uint64_t span = 0, first;
    Rig rig;

    (void)state;
    rig_start(&rig, 5, 2);
    for (int i = 0; i < 40; i++) {
        rig.now_ns += NS_PER_S;
        rig_tick(&rig, 10);
    }
    take_and_check(&rig, &scraper);
    memcpy(again, out, sizeof out);
    first = rig.now_ns;
    rig.now_ns += 40 * NS_PER_MS;
    rig_tick(&rig, 1);                           /* of the next window */
    for (uint64_t ms = 40; ms < 100; ms += 30) { /* as often as it likes */
        uint64_t before = span;

        rig.now_ns = first + ms * NS_PER_MS;
        assert_int_equal(read_named(rig.windows, "one", rig.now_ns, out, GPUS, &span), 2);
        assert_true(before == 0 || before == span);
        assert_memory_equal(out, again, 2 * sizeof out[0]);
    }
    rig.now_ns = first + 100 * NS_PER_MS;
    take_and_check(&rig, &scraper); /* the next one, with all of it */
    assert_true(span != 100 * NS_PER_MS);
    rig_stop(&rig);
}

/* Who gives no name is known by address and program while the connection is kept. Others of the same address and
 * program, and who makes a new connection each time, get the last minute: nobody takes what another has not seen. */
static void who_cannot_be_told_apart_gets_the_minute(void **state)
{
    static const struct {
        uint64_t at_s, connection;
        bool named;
        uint64_t span_s; /* 0: the last minute */
    } scrapes[] = {
        {100, 1, false, 0},  {115, 1, false, 15}, {130, 1, false, 15},                     /* one alone */
        {137, 2, false, 0},  {145, 1, false, 0},  {152, 2, false, 0},  {160, 1, false, 0}, /* two */
        {175, 1, false, 15}, {190, 3, false, 0},  {205, 4, false, 0},  /* a new connection each time */
        {264, 5, false, 0},  {324, 6, false, 60}, {400, 7, false, 76}, /* from a minute on all since the last */
        {410, 8, true, 0},   {417, 9, true, 7},   {418, 10, true, 1},  /* a name is believed */
    };
    Rig rig;
    uint64_t windows = 0;

    (void)state;
    rig_start(&rig, 7, 2);
    const uint64_t start = rig.now_ns;
    for (size_t i = 0; i < ARRAY_LEN(scrapes); i++) {
        WindowScraper who = {.name = "10.0.0.1 Prometheus/3.5.3", .connection = scrapes[i].connection};
        WindowSpan span;

        if (scrapes[i].named)
            who = (WindowScraper){.name = "a", .named = true, .connection = scrapes[i].connection};
        while (rig.now_ns < start + scrapes[i].at_s * NS_PER_S) {
            rig.now_ns += NS_PER_S;
            rig_tick(&rig, 10);
        }
        assert_int_equal(windows_read(rig.windows, &who, rig.now_ns, out, GPUS, &span), 2);
        if (scrapes[i].span_s) {
            assert_int_equal(span.ns, scrapes[i].span_s * NS_PER_S);
            assert_true(span.window > windows);
            windows = span.window;
        } else {
            assert_in_range(span.ns, 55 * NS_PER_S, 60 * NS_PER_S);
            assert_true((span.window == 0) == !scrapes[i].named);
        }
        for (int m = 0; m < READING_FAST_CAP; m++)
            check_value(&out[0].value[m], 0, m, (size_t[]){0, rig.count}, rig.now_ns - span.ns);
    }
    rig_stop(&rig);
}

static void a_clock_at_zero_is_a_clock(void **state)
{
    Windows *windows = windows_new();
    uint64_t span = 7;

    (void)state;
    assert_int_equal(read_named(windows, "a", 0, out, GPUS, &span), 0);
    assert_int_equal(span, 0);
    assert_int_equal(read_named(windows, "a", NS_PER_S, out, GPUS, &span), 0);
    assert_int_equal(span, NS_PER_S);
    windows_free(windows);
}

/* Sixteen are known; the seventeenth takes the place of the one not seen for longest, which then is new. */
static void sixteen_scrapers_have_a_place(void **state)
{
    Scraper scrapers[WINDOW_SCRAPERS + 1];
    char names[WINDOW_SCRAPERS + 1][32];
    Rig rig;

    (void)state;
    rig_start(&rig, 6, 2);
    for (size_t i = 0; i <= WINDOW_SCRAPERS; i++) {
        snprintf(names[i], sizeof names[i], "10.0.0.%zu curl", i);
        scrapers[i] = (Scraper){.name = names[i]};
    }
    for (int s = 1; s < 300; s++) {
        rig.now_ns += NS_PER_S;
        rig_tick(&rig, 3);
        if (s < 200) /* all but the last one, in turn: each is remembered */
            take_and_check(&rig, &scrapers[s % WINDOW_SCRAPERS]);
        if (s == 200) {
            scrapers[200 % WINDOW_SCRAPERS].known = false; /* seen 16 s ago, by now the longest */
            take_and_check(&rig, &scrapers[WINDOW_SCRAPERS]);
        }
        if (s > 200 && s % WINDOW_SCRAPERS != 200 % WINDOW_SCRAPERS)
            take_and_check(&rig, &scrapers[s % WINDOW_SCRAPERS]);
        if (s == 290)
            take_and_check(&rig, &scrapers[WINDOW_SCRAPERS]);
    }
    take_and_check(&rig, &scrapers[200 % WINDOW_SCRAPERS]);
    rig_stop(&rig);
}

/* Names that share their first 191 bytes are still two. */
static void long_names_are_told_apart(void **state)
{
    char names[2][400];
    Scraper a = {.name = names[0]}, b = {.name = names[1]};
    Rig rig;

    (void)state;
    memset(names, 'x', sizeof names);
    names[0][399] = names[1][398] = names[1][399] = '\0';
    rig_start(&rig, 7, 1);
    for (int s = 1; s < 50; s++) {
        rig.now_ns += NS_PER_S;
        rig_tick(&rig, 2);
        if (s % 7 == 0)
            take_and_check(&rig, &a);
        if (s % 5 == 0)
            take_and_check(&rig, &b);
    }
    rig_stop(&rig);
}

/* GPUs are pulled and put back: what was read of one that is back in time was kept, one that is away is not shown, and
 * the order is the node's. */
static void gpus_come_and_go(void **state)
{
    Scraper a = {.name = "a"}, b = {.name = "b"};
    Rig rig;

    (void)state;
    rig_start(&rig, 8, 8);
    for (int s = 1; s < 400; s++) {
        rig.now_ns += NS_PER_S;
        if (random_once(&rig.random, 5)) {
            unsigned gpu = (unsigned)random_below(&rig.random, 12);

            rig.there[gpu] = !rig.there[gpu];
        }
        rig_tick(&rig, 2);
        if (random_once(&rig.random, 12))
            take_and_check(&rig, &a);
        if (random_once(&rig.random, 40))
            take_and_check(&rig, &b);
    }
    rig_stop(&rig);
}

/* More GPUs in turn than there are rows: new ones are whole, those that stay lose nothing. */
static void rows_are_given_on(void **state)
{
    Scraper a = {.name = "a"};
    Rig rig;

    (void)state;
    rig_start(&rig, 9, NODE_GPUS_MAX);
    rig.now_ns += NS_PER_S;
    rig_tick(&rig, 1);
    take_and_check(&rig, &a);
    for (unsigned k = 0; k < GPUS - NODE_GPUS_MAX; k++) {
        rig.now_ns += NS_PER_S;
        rig_tick(&rig, 1);
        rig.there[k + 5] = false; /* one goes and one that was never seen comes, in the same tick */
        rig.there[NODE_GPUS_MAX + k] = true;
        rig.now_ns += NS_PER_S;
        rig_tick(&rig, 1);
        take_and_check(&rig, &a);
    }
    rig_stop(&rig);
}

static void what_cannot_be_held_is_left_out(void **state)
{
    static NodeGpu many[NODE_GPUS_MAX + 6];
    Windows *windows = windows_new();
    Node node = {.time_ns = START, .gpu_count = NODE_GPUS_MAX + 6, .gpus = many};
    uint64_t span;

    (void)state;
    for (unsigned i = 0; i < NODE_GPUS_MAX + 6; i++) {
        reading_init(&many[i].reading, DEVICE_GPU);
        many[i].reading.device.has_pci = i != 3;
        many[i].reading.device.pci = address(i);
    }
    windows_add(windows, &node);
    assert_int_equal(read_named(windows, "a", START, out, GPUS, &span), NODE_GPUS_MAX);
    assert_int_equal(pci_compare(out[3].gpu, address(4)), 0);
    assert_int_equal(read_named(windows, "a", START, out, 2, &span), 2);
    assert_int_equal(read_named(windows, "a", START, out, 0, &span), 0);
    windows_free(windows);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_scrapers_see_what_is_theirs),
        cmocka_unit_test(a_sawtooth_shows),
        cmocka_unit_test(a_new_scraper_gets_the_last_minute),
        cmocka_unit_test(silence_leaves_nothing),
        cmocka_unit_test(before_the_first_tick),
        cmocka_unit_test(again_at_once_is_the_same_window),
        cmocka_unit_test(who_cannot_be_told_apart_gets_the_minute),
        cmocka_unit_test(a_clock_at_zero_is_a_clock),
        cmocka_unit_test(sixteen_scrapers_have_a_place),
        cmocka_unit_test(long_names_are_told_apart),
        cmocka_unit_test(gpus_come_and_go),
        cmocka_unit_test(rows_are_given_on),
        cmocka_unit_test(what_cannot_be_held_is_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
