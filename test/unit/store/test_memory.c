/* SPDX-License-Identifier: Apache-2.0 */
/* What the history costs: pages that are there, and allocations per sample (none). The linker leads malloc and its like
 * through the functions here. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/duration.h"
#include "engine/store/ring.h"
#include "engine/store/store.h"
#include "engine/store/window.h"
#include "random.h"

enum { GPUS = 8, METRICS = 40, SERIES = GPUS * METRICS, BUDGET = 6 * 1024 * 1024, WORST = 24 * 1024, COSTS_SERIES = 2 };

#define START (5 * NS_PER_DAY)

static size_t calls;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_mmap64(void *at, size_t size, int protection, int flags, int fd, off_t offset);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_mmap64(void *at, size_t size, int protection, int flags, int fd, off_t offset);

/* mmap where off_t has 64 bits, as everywhere here. */
static void *mapped;
static size_t mapped_bytes;

void *__wrap_malloc(size_t size)
{
    calls++;
    return __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    calls++;
    return __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    calls++;
    return __real_realloc(old, size);
}

void *__wrap_mmap64(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    calls++;
    mapped = __real_mmap64(at, size, protection, flags, fd, offset);
    mapped_bytes = size;
    return mapped;
}

/* Of the mapping that was made last. */
static size_t resident_bytes(void)
{
    static unsigned char pages[1 << 16];
    size_t page = (size_t)sysconf(_SC_PAGESIZE), count = (mapped_bytes + page - 1) / page, here = 0;

    assert_true(count <= sizeof pages);
    assert_int_equal(mincore(mapped, mapped_bytes, pages), 0);
    for (size_t i = 0; i < count; i++)
        here += pages[i] & 1u;
    return here * page;
}

static void open_all(Store *store, StoreSeries series[SERIES])
{
    size_t count = 0;

    for (int gpu = 0; gpu < GPUS; gpu++) {
        MetricId metric = 0;

        for (int m = 0; m < METRICS; metric++) {
            char key[DEVICE_KEY_CAP];

            if (!metric_get(metric)->history)
                continue;
            snprintf(key, sizeof key, "gpu/GPU-7c2e3f1a-0b4d-4c7e-9f10-3a5b6c7d8e9%d", gpu);
            series[count] = store_open(store, key, metric, START);
            assert_true(series[count++] >= 0);
            m++;
        }
    }
}

/* A tick as the agent makes it: a sample for every series, ten fast readings for some. */
static void tick(Store *store, const StoreSeries series[SERIES], uint64_t now_ns)
{
    for (size_t i = 0; i < SERIES; i++) {
        Sample sample = {0};

        sample_set_int64(&sample, now_ns, (int64_t)((now_ns / NS_PER_S * (i + 1)) % 1000));
        store_add(store, series[i], now_ns, &sample);
        for (uint64_t k = 0; k < 10 && i % METRICS < 7; k++)
            store_add_fast(store, series[i], now_ns - k * NS_PER_S / 10, (double)(i + k));
    }
}

static void check_budget(size_t series_max, size_t budget)
{
    static StoreMinute minutes[STORE_MINUTES];
    static StoreSecond seconds[STORE_SECONDS];
    Store *store = store_new(series_max);
    StoreSeries series[SERIES];
    size_t before, full;

    assert_true(mapped == (void *)store && mapped_bytes <= series_max * (size_t)WORST);
    before = calls;
    open_all(store, series);
    for (uint64_t s = 0; s < 600; s++)
        tick(store, series, START + s * NS_PER_S);
    assert_true(resident_bytes() < BUDGET / 2);
    for (uint64_t m = 10; m < 2 * STORE_MINUTES; m++)
        tick(store, series, START + m * NS_PER_MIN);
    for (uint64_t s = 0; s < 600; s++)
        tick(store, series, START + 2 * STORE_MINUTES * NS_PER_MIN + s * NS_PER_S);
    full = resident_bytes();
    print_message("%zu series of room for %zu: %zu bytes, %zu each\n", (size_t)SERIES, series_max, full, full / SERIES);
    assert_true(full <= budget);
    for (size_t i = 0; i < SERIES; i++) {
        assert_int_equal(store_minutes(store, series[i], 0, UINT64_MAX, minutes, STORE_MINUTES), STORE_MINUTES);
        assert_int_equal(store_seconds(store, series[i], 0, UINT64_MAX, seconds, STORE_SECONDS), STORE_SECONDS);
    }
    assert_int_equal(calls, before);
    assert_int_equal(resident_bytes(), full);
    store_free(store);
}

static void a_day_of_eight_gpus_fits(void **state)
{
    (void)state;
    check_budget(SERIES, BUDGET);
}

/* Room that is not used costs the rest of a page here and there. */
static void room_for_more_costs_little(void **state)
{
    (void)state;
    check_budget(4 * SERIES, BUDGET + 16 * (size_t)sysconf(_SC_PAGESIZE));
}

/* What one series is like: its value at this second. */
typedef double (*Kind)(Random *random);

static double same(Random *random)
{
    (void)random;
    return 1980;
}

static double percent(Random *random)
{
    return 90 + (double)random_below(random, 11);
}

static double watts(Random *random)
{
    return (double)(300000 + random_below(random, 400000)) / 1000;
}

static double bytes_a_second(Random *random)
{
    return (double)(20000000000 + random_below(random, 1000000000));
}

static double ratio(Random *random)
{
    return 0.6 + (double)random_below(random, UINT64_C(1) << 40) / (double)(UINT64_C(1) << 40) / 7;
}

static double energy(Random *random)
{
    static double spent = 5e10;

    return spent += (double)random_below(random, 1000000);
}

/* Of any size that a float has, and no two bits have anything to do with each other. */
static double anything(Random *random)
{
    double value;

    do {
        uint64_t bits = random_u64(random);

        memcpy(&value, &bits, sizeof value);
    } while (!(fabs(value) > 1e-38 && fabs(value) < 1e38));
    return value;
}

/* The bytes of a store in which all series have had values of one kind for a day and an hour. */
static StoreMemory memory_of(MetricType type, Kind kind)
{
    static Random random = {7};
    Store *store = store_new(COSTS_SERIES);
    uint64_t now = START;
    StoreSeries series[COSTS_SERIES];
    StoreMemory memory;
    size_t count = 0;

    for (MetricId metric = 0; count < COSTS_SERIES; metric++)
        if (metric_get(metric)->history && metric_get(metric)->type == type)
            series[count++] = store_open(store, "gpu/1", metric, now);
    for (size_t s = 0; s < 25 * 3600; s++, now += NS_PER_S)
        for (size_t i = 0; i < COSTS_SERIES; i++) {
            Sample sample = {0};

            sample_set_double(&sample, now, kind(&random));
            store_add(store, series[i], now, &sample);
        }
    memory = store_memory(store);
    assert_true(memory.taken <= mapped_bytes && memory.cells < memory.taken);
    assert_true(resident_bytes() <= memory.taken + 8 * (size_t)sysconf(_SC_PAGESIZE));
    store_free(store);
    return memory;
}

static void a_series_costs_what_it_varies(void **state)
{
    static const struct {
        const char *name;
        MetricType type;
        Kind kind;
        size_t least, most; /* bytes of a series, with half a device */
    } rows[] = {
        {"the same all day", METRIC_GAUGE, same, 0, 1800},
        {"whole percents", METRIC_GAUGE, percent, 2000, 7000},
        {"watts with three decimals", METRIC_GAUGE, watts, 8000, 19000},
        {"bytes a second", METRIC_GAUGE, bytes_a_second, 8000, 19000},
        {"ratios", METRIC_GAUGE, ratio, 8000, 19000},
        {"millijoules", METRIC_COUNTER, energy, 4000, 14000},
        {"random bits", METRIC_GAUGE, anything, 8000, WORST},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        StoreMemory memory = memory_of(rows[i].type, rows[i].kind);
        size_t each = memory.taken / COSTS_SERIES;

        print_message("%s: %zu bytes, of them %zu for cells\n", rows[i].name, each, memory.cells / COSTS_SERIES);
        assert_true(each >= rows[i].least && each <= rows[i].most);
        assert_true(rows[i].kind != same || memory.cells == 0);
    }
}

/* All bits vary that can: what was reserved is enough, and not much more than that. */
static void the_worst_fits(void **state)
{
    Store *store = store_new(1);
    StoreSeries series = store_open(store, "gpu/1", METRIC_POWER_USAGE, START);
    Random random = {99};
    StoreMemory memory;
    uint64_t valid = 0;

    (void)state;
    for (uint64_t s = 0; s < 25 * 3600; s++) {
        Sample sample = {0};

        if (s % 60 == 0)
            valid = random_once(&random, 2) ? 2 : 1 + random_below(&random, 60);
        sample_set_double(&sample, START + s * NS_PER_S, s % 60 < valid ? anything(&random) : NAN);
        store_add(store, series, START + s * NS_PER_S, &sample);
    }
    memory = store_memory(store);
    print_message("the worst: %zu bytes, room for %zu\n", memory.taken, mapped_bytes);
    assert_true(memory.taken <= mapped_bytes);
    assert_true(memory.taken > mapped_bytes / 10 * 9);
    store_free(store);
}

static void add_many(Store *store, StoreSeries series, uint64_t from_ns, size_t count, Kind kind)
{
    static Random random = {5};

    for (size_t s = 0; s < count; s++) {
        Sample sample = {0};

        sample_set_double(&sample, from_ns + s * NS_PER_S, kind(&random));
        store_add(store, series, from_ns + s * NS_PER_S, &sample);
    }
}

/* A series takes nothing for one value wherever on the axis it begins, and gives back at once what a gap made old. */
static void a_fresh_start_costs_nothing(void **state)
{
    (void)state;
    for (uint64_t s = 1; s < 130; s += 16) {
        uint64_t start = START + s * NS_PER_MIN; /* whole minutes: all have sixty seconds */
        Store *store = store_new(1);
        StoreSeries series = store_open(store, "gpu/1", METRIC_POWER_USAGE, start);

        add_many(store, series, start, 200, same);
        assert_int_equal(store_memory(store).cells, 0);
        add_many(store, series, start + NS_PER_H, 200, ratio);
        assert_true(store_memory(store).cells > 500);
        add_many(store, series, start + 3 * NS_PER_DAY, 20, same);
        assert_int_equal(store_memory(store).cells, 0);
        store_free(store);
    }
}

/* A series that is forgotten gives back what it took. */
static void the_forgotten_give_back(void **state)
{
    Store *store = store_new(1);
    StoreSeries series = store_open(store, "gpu/1", METRIC_POWER_USAGE, START);

    (void)state;
    add_many(store, series, START, (size_t)2 * 3600, ratio);
    assert_true(store_memory(store).cells > 5000);
    assert_true(store_open(store, "gpu/2", METRIC_POWER_USAGE, START + 2 * NS_PER_DAY) >= 0);
    assert_int_equal(store_memory(store).cells, 0);
    store_free(store);
}

static void room_alone_costs_nothing(void **state)
{
    Store *store = store_new(10000);

    (void)state;
    assert_true(resident_bytes() <= 4 * 4096);
    store_free(store);
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

static void windows_allocate_nothing(void **state)
{
    static WindowGpu out[NODE_GPUS_MAX];
    static NodeGpu gpus[GPUS];
    static FastReading fast[10];
    Node node = {.gpu_count = GPUS, .gpus = gpus};
    Windows *windows = windows_new();
    size_t before = calls;
    uint64_t span;

    (void)state;
    for (uint8_t i = 0; i < GPUS; i++) {
        reading_init(&gpus[i].reading, DEVICE_GPU);
        gpus[i].reading.device.has_pci = true;
        gpus[i].reading.device.pci.bus = i;
        gpus[i].fast = fast;
        gpus[i].fast_count = 10;
    }
    for (uint64_t s = 0; s < 500; s++) {
        char name[32];

        node.time_ns = START + s * NS_PER_S;
        for (size_t k = 0; k < 10; k++)
            fast[k] = (FastReading){.time_ns = node.time_ns - k * NS_PER_S / 10, .valid = 127};
        windows_add(windows, &node);
        snprintf(name, sizeof name, "10.0.0.%d", (int)(s % 40));
        assert_int_equal(read_named(windows, name, node.time_ns, out, NODE_GPUS_MAX, &span), GPUS);
    }
    assert_int_equal(calls, before);
    windows_free(windows);
}

/* The counters above do see what allocates. */
static void the_count_counts(void **state)
{
    size_t before = calls;
    Windows *windows = windows_new();

    (void)state;
    assert_true(calls >= before + 2);
    before = calls;
    store_free(store_new(1));
    assert_int_equal(calls, before + 1);
    windows_free(windows);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_day_of_eight_gpus_fits),
        cmocka_unit_test(room_for_more_costs_little),
        cmocka_unit_test(a_series_costs_what_it_varies),
        cmocka_unit_test(the_worst_fits),
        cmocka_unit_test(a_fresh_start_costs_nothing),
        cmocka_unit_test(the_forgotten_give_back),
        cmocka_unit_test(room_alone_costs_nothing),
        cmocka_unit_test(windows_allocate_nothing),
        cmocka_unit_test(the_count_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
