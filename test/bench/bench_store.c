/* SPDX-License-Identifier: Apache-2.0 */
/* The history, the windows between scrapes, and gzip of a page: per sample against reading the clock twice, gzip
 * against zlib, where the machine has it, at the level that HTTP servers use. */
#include "bench.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/duration.h"
#include "base/gzip.h"
#include "engine/store/store.h"
#include "engine/store/window.h"

enum { GPUS = 8, METRICS = 40, SERIES = GPUS * METRICS, PAGE_BYTES = 70000, ZLIB_LEVEL = 6 };

static Store *store;
static StoreSeries series[SERIES];
static uint64_t now = 5 * NS_PER_DAY;        /* of the store: no leaps, which it would have to fill */
static uint64_t window_now = 5 * NS_PER_DAY; /* of the windows */
static StoreMinute minutes[STORE_MINUTES];
static StoreSecond seconds[STORE_SECONDS];
static Windows *windows;
static NodeGpu gpus[GPUS];
static FastReading fast[10];
static WindowGpu taken[GPUS];
static Str page, packed, room;
static int (*zlib_pack)(unsigned char *to, unsigned long *to_len, const unsigned char *from, unsigned long from_len,
                        int level);

static void two_clocks(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        bench_use(&t);
        clock_gettime(CLOCK_MONOTONIC, &t);
        bench_use(&t);
    }
}

/* One sample of the tick that never ends: each series in turn, then the next second. */
static void add(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        Sample sample = {0};
        if (i % SERIES == 0)
            now += NS_PER_S;
        sample_set_int64(&sample, now, (int64_t)(i * 2654435761u % 1000));
        store_add(store, series[i % SERIES], now, &sample);
    }
}

static void add_fast(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (i % SERIES == 0)
            now += NS_PER_S / 10;
        store_add_fast(store, series[i % SERIES], now, (double)(i % 700));
    }
}

static void read_minutes(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        store_minutes(store, series[i % SERIES], 0, UINT64_MAX, minutes, STORE_MINUTES);
        bench_use(minutes);
    }
}

static void read_seconds(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        store_seconds(store, series[i % SERIES], 0, UINT64_MAX, seconds, STORE_SECONDS);
        bench_use(seconds);
    }
}

/* windows_read of a scraper with a name of its own. */
static size_t read_named(Windows *of, const char *name, uint64_t now_ns, WindowGpu *into, size_t cap, uint64_t *ret)
{
    WindowSpan span;
    const size_t count = windows_read(of, &(WindowScraper){.name = name, .named = true}, now_ns, into, cap, &span);

    *ret = span.ns;
    return count;
}

static void window_tick(size_t n)
{
    Node node = {.gpu_count = GPUS, .gpus = gpus};
    for (size_t i = 0; i < n; i++) {
        window_now += NS_PER_S;
        node.time_ns = window_now;
        for (size_t k = 0; k < 10; k++)
            fast[k].time_ns = window_now - (10 - k) * NS_PER_S / 10;
        windows_add(windows, &node);
    }
}

static void window_take(size_t n)
{
    uint64_t span;
    for (size_t i = 0; i < n; i++) {
        window_now += NS_PER_S;
        read_named(windows, "3", window_now, taken, GPUS, &span);
        bench_use(taken);
    }
}

static void pack(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        str_clear(&packed);
        if (gzip_pack(page.text, page.len, &packed, NULL) < 0)
            abort();
    }
}

static void unpack(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        str_clear(&room);
        if (gzip_unpack(packed.text, packed.len, &room, NULL) < 0)
            abort();
    }
}

static void pack_zlib(size_t n)
{
    static unsigned char out[2 * PAGE_BYTES];
    unsigned long len = sizeof out;
    for (size_t i = 0; i < n; i++, len = sizeof out)
        if (zlib_pack(out, &len, (const unsigned char *)page.text, page.len, ZLIB_LEVEL) != 0)
            abort();
}

static void open_store(void)
{
    size_t count = 0;
    store = store_new(SERIES);
    for (int gpu = 0; gpu < GPUS; gpu++)
        for (MetricId metric = 0; count < (size_t)(gpu + 1) * METRICS; metric++) {
            char key[DEVICE_KEY_CAP];
            snprintf(key, sizeof key, "gpu/GPU-7c2e3f1a-0b4d-4c7e-9f10-3a5b6c7d8e9%d", gpu);
            series[count] = store_open(store, key, metric, now);
            count += series[count] >= 0;
        }
    for (size_t minute = 0; minute < STORE_MINUTES; minute++, now += 59 * NS_PER_S)
        add(SERIES);
    add((size_t)SERIES * STORE_SECONDS);
}

/* All scrapers have a place. */
static void open_windows(void)
{
    uint64_t span;
    windows = windows_new();
    for (uint8_t i = 0; i < GPUS; i++) {
        reading_init(&gpus[i].reading, DEVICE_GPU);
        gpus[i].reading.device.has_pci = true;
        gpus[i].reading.device.pci.bus = i;
        gpus[i].fast = fast;
        gpus[i].fast_count = 10;
    }
    for (size_t k = 0; k < 10; k++)
        fast[k] = (FastReading){.valid = UINT32_MAX, .value = {1500, 1593, 300.25, 310.5, 97, 40, 4}};
    for (int i = 0; i < WINDOW_SCRAPERS; i++) {
        char name[12];
        snprintf(name, sizeof name, "%d", i);
        read_named(windows, name, window_now, taken, GPUS, &span);
    }
}

static void make_page(void)
{
    str_init(&page, 1 << 20);
    str_init(&packed, 1 << 20);
    str_init(&room, 1 << 20);
    for (MetricId metric = 0; page.len < PAGE_BYTES; metric = (metric + 1) % METRIC_END) {
        str_addf(&page, "# HELP %s %s\n# TYPE %s gauge\n", metric_get(metric)->name, metric_get(metric)->help,
                 metric_get(metric)->name);
        for (unsigned gpu = 0; gpu < GPUS; gpu++)
            str_addf(&page,
                     "%s{gpu=\"%u\",UUID=\"GPU-%08x-0b4d-4c7e-9f10-3a5b6c7d8e9f\",pci_bus_id=\"00000000:%02X:00.0\","
                     "device=\"nvidia%u\",modelName=\"NVIDIA H100 80GB HBM3\",Hostname=\"node-17\"} %u.%03u\n",
                     metric_get(metric)->name, gpu, (gpu + 1) * 2654435761u, 16 + gpu * 8, gpu,
                     (unsigned)page.len * 2654435761u % 700, (unsigned)page.len % 1000);
    }
    pack(1);
}

int main(void)
{
    static const Bench list[] = {
        {"2 x clock_gettime", two_clocks, NULL, 0},
        {"store_add", add, NULL, 0},
        {"store_add_fast", add_fast, NULL, 0},
        {"store_minutes", read_minutes, NULL, 0},
        {"store_seconds", read_seconds, NULL, 0},
        {"windows_add", window_tick, NULL, 0},
        {"windows_take", window_take, NULL, 0},
        {"gzip_pack", pack, NULL, 0},
        {"gzip_unpack", unpack, NULL, 0},
        {"zlib compress2", pack_zlib, NULL, 0}, /* last: left out where there is no zlib */
    };
    void *zlib = dlopen("libz.so.1", RTLD_NOW);
    void *compress2 = zlib ? dlsym(zlib, "compress2") : NULL;
    open_store();
    open_windows();
    make_page();
    *(void **)&zlib_pack = compress2;
    bench_all(list, sizeof list / sizeof *list - (compress2 ? 0 : 1));
    printf("{\"name\": \"page bytes\", \"value\": %zu}\n", page.len);
    printf("{\"name\": \"packed bytes\", \"value\": %zu}\n", packed.len);
    store_free(store);
    windows_free(windows);
    str_done(&page);
    str_done(&packed);
    str_done(&room);
    return 0;
}
