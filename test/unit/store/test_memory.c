/* SPDX-License-Identifier: Apache-2.0 */
/* What the history costs: pages that are there, and allocations per sample (none). The linker leads malloc and its like
 * through the functions here. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/duration.h"
#include "engine/store/store.h"
#include "engine/store/window.h"

enum { GPUS = 8, METRICS = 40, SERIES = GPUS * METRICS, BUDGET = 6 * 1024 * 1024 };

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

    assert_true(mapped_bytes == store_bytes(series_max) && mapped == (void *)store);
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
    assert_true(store_bytes(SERIES) <= BUDGET + STORE_DEVICES_MAX * 1024);
    check_budget(SERIES, BUDGET);
}

/* Room that is not used costs the rest of a page here and there. */
static void room_for_more_costs_little(void **state)
{
    (void)state;
    check_budget(4 * SERIES, BUDGET + 16 * (size_t)sysconf(_SC_PAGESIZE));
}

static void room_alone_costs_nothing(void **state)
{
    Store *store = store_new(10000);

    (void)state;
    assert_true(resident_bytes() <= 4 * 4096);
    store_free(store);
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
        assert_int_equal(windows_take(windows, name, node.time_ns, out, NODE_GPUS_MAX, &span), GPUS);
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
        cmocka_unit_test(a_day_of_eight_gpus_fits), cmocka_unit_test(room_for_more_costs_little),
        cmocka_unit_test(room_alone_costs_nothing), cmocka_unit_test(windows_allocate_nothing),
        cmocka_unit_test(the_count_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
