/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of devices and series over one mapping: heads, devices, the blocks of all rings, then the slab of what they
 * hold. Pages of the mapping are taken when first written: those of the slab as cells need them.
 */

#include "engine/store/store.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/duration.h"
#include "engine/store/series.h"

enum { INDEX_BITS = 18, GENERATIONS = 1 << (31 - INDEX_BITS), NO_HEAD = -1, REGION_ALIGN = 64 };

_Static_assert(STORE_SERIES_MAX == 1 << INDEX_BITS, "an index fills its bits of the handle");
_Static_assert((uint64_t)STORE_SERIES_MAX *SERIES_UNITS < SLAB_NONE, "units have numbers");

typedef struct Head {
    Series series;
    uint64_t alive_ns;   /* newest instant at which something was added */
    int32_t next_free;   /* of a free one: the next free one */
    uint16_t metric;     /* MetricId */
    uint16_t device;     /* index into devices */
    uint16_t generation; /* part of the handle; goes on when the series changes */
    bool used;
} Head;

typedef struct StoreDevice {
    uint32_t series_count; /* 0: a free entry */
    char key[DEVICE_KEY_CAP];
    int32_t head[METRIC_END]; /* index + 1; 0: no series */
} StoreDevice;

struct Store {
    size_t series_max, devices_max, bytes;
    size_t series_count, device_count;
    size_t heads_touched; /* heads from here on were never used */
    int32_t free_head;    /* first of the free ones before that */
    uint64_t refused;
    uint64_t none_dead_until; /* no series can be dead before this instant */
    Head *heads;
    StoreDevice *devices;
    uint16_t *by_key;   /* device_count indices of devices, sorted by key */
    SeriesRings *rings; /* of each head */
    Slab slab;
};

/* Where the parts of a store lie in its mapping. */
typedef struct Layout {
    size_t heads, devices, by_key, rings, next, units, end;
} Layout;

static size_t devices_for(size_t series_max)
{
    return series_max < STORE_DEVICES_MAX ? series_max : STORE_DEVICES_MAX;
}

static size_t align_after(size_t at, size_t count, size_t size)
{
    return (at + count * size + REGION_ALIGN - 1) / REGION_ALIGN * REGION_ALIGN;
}

static Layout layout_of(size_t series_max)
{
    Layout at;

    assert(series_max > 0 && series_max <= STORE_SERIES_MAX);
    at.heads = align_after(0, 1, sizeof(Store));
    at.devices = align_after(at.heads, series_max, sizeof(Head));
    at.by_key = align_after(at.devices, devices_for(series_max), sizeof(StoreDevice));
    at.rings = align_after(at.by_key, devices_for(series_max), sizeof(uint16_t));
    at.next = align_after(at.rings, series_max, sizeof(SeriesRings));
    at.units = align_after(at.next, series_max * SERIES_UNITS, sizeof(uint32_t));
    at.end = align_after(at.units, series_max * SERIES_UNITS, sizeof(SlabUnit));
    return at;
}

Store *store_new(size_t series_max)
{
    Layout at = layout_of(series_max);
    char *memory = mmap(NULL, at.end, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    Store *store;

    if (memory == MAP_FAILED)
        abort();
    (void)madvise(memory, at.end, MADV_NOHUGEPAGE); /* a kernel without huge pages refuses, and that is as good */
    store = (Store *)(void *)memory;
    *store = (Store){
        .series_max = series_max,
        .devices_max = devices_for(series_max),
        .bytes = at.end,
        .free_head = NO_HEAD,
        .heads = (Head *)(void *)(memory + at.heads),
        .devices = (StoreDevice *)(void *)(memory + at.devices),
        .by_key = (uint16_t *)(void *)(memory + at.by_key),
        .rings = (SeriesRings *)(void *)(memory + at.rings),
        .slab = {.units = (SlabUnit *)(void *)(memory + at.units),
                 .next = (uint32_t *)(void *)(memory + at.next),
                 .count = (uint32_t)(series_max * SERIES_UNITS),
                 .free = SLAB_NONE},
    };
    return store;
}

void store_free(Store *store)
{
    if (store)
        munmap(store, store->bytes);
}

StoreMemory store_memory(const Store *store)
{
    const Slab *slab = &store->slab;
    size_t unit = sizeof(SlabUnit) + sizeof *slab->next;
    size_t fixed = sizeof *store + store->heads_touched * (sizeof(Head) + sizeof(SeriesRings)) +
                   store->device_count * (sizeof(StoreDevice) + sizeof *store->by_key);

    return (StoreMemory){.taken = fixed + slab->touched * unit, .cells = slab->used * unit};
}

size_t store_series_count(const Store *store)
{
    return store->series_count;
}

uint64_t store_refused(const Store *store)
{
    return store->refused;
}

static StoreSeries handle_of(const Store *store, size_t index)
{
    return (StoreSeries)((size_t)store->heads[index].generation << INDEX_BITS | index);
}

/* NULL for an invalid handle, or one of a series that was evicted. */
static Head *head_at(const Store *store, StoreSeries series)
{
    size_t index = (size_t)(series & (STORE_SERIES_MAX - 1));
    Head *head;

    if (series < 0 || index >= store->heads_touched)
        return NULL;
    head = &store->heads[index];
    return head->used && handle_of(store, index) == series ? head : NULL;
}

/* Where the key is in by_key, or would be. */
static size_t place_of(const Store *store, const char *key, bool *ret_found)
{
    size_t low = 0, high = store->device_count;

    *ret_found = false;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(store->devices[store->by_key[middle]].key, key);

        if (order == 0) {
            *ret_found = true;
            return middle;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static StoreDevice *find_device(const Store *store, const char *key)
{
    bool found;
    size_t place = place_of(store, key, &found);

    return found ? &store->devices[store->by_key[place]] : NULL;
}

/* Only where there is room for one. */
static StoreDevice *add_device(Store *store, const char *key)
{
    bool found;
    size_t place = place_of(store, key, &found), index = 0;
    StoreDevice *device;

    assert(!found && store->device_count < store->devices_max);
    while (store->devices[index].series_count > 0)
        index++;
    memmove(&store->by_key[place + 1], &store->by_key[place], (store->device_count - place) * sizeof *store->by_key);
    store->by_key[place] = (uint16_t)index;
    store->device_count++;
    device = &store->devices[index];
    memset(device, 0, sizeof *device);
    memcpy(device->key, key, strlen(key) + 1);
    return device;
}

static void drop_device(Store *store, const StoreDevice *device)
{
    bool found;
    size_t place = place_of(store, device->key, &found);

    assert(found);
    store->device_count--;
    memmove(&store->by_key[place], &store->by_key[place + 1], (store->device_count - place) * sizeof *store->by_key);
}

static void drop_series(Store *store, Head *head)
{
    StoreDevice *device = &store->devices[head->device];

    series_done(&head->series);
    device->head[head->metric] = 0;
    if (--device->series_count == 0)
        drop_device(store, device);
    head->used = false;
    head->generation = (uint16_t)((head->generation + 1) % GENERATIONS);
    head->next_free = store->free_head;
    store->free_head = (int32_t)(head - store->heads);
    store->series_count--;
}

/* Drops the series that was silent for longest, if that is a day or more. */
static bool drop_dead(Store *store, uint64_t now_ns)
{
    Head *oldest = NULL;

    if (now_ns < store->none_dead_until)
        return false;
    for (size_t i = 0; i < store->heads_touched; i++) {
        Head *head = &store->heads[i];

        if (head->used && (!oldest || head->alive_ns < oldest->alive_ns))
            oldest = head;
    }
    if (!oldest)
        return false;
    store->none_dead_until = oldest->alive_ns + NS_PER_DAY;
    if (now_ns < store->none_dead_until)
        return false;
    drop_series(store, oldest);
    return true;
}

static size_t allocate_series_head(Store *store)
{
    size_t index;

    if (store->free_head == NO_HEAD)
        return store->heads_touched++;
    index = (size_t)store->free_head;
    store->free_head = store->heads[index].next_free;
    return index;
}

/* Whether one more series fits, of a device that is there already or not. */
static bool has_room(const Store *store, bool device_known)
{
    return store->series_count < store->series_max && (device_known || store->device_count < store->devices_max);
}

StoreSeries store_open(Store *store, const char *device_key, MetricId metric, uint64_t now_ns)
{
    StoreSeries found = store_find(store, device_key, metric);
    StoreDevice *device;
    Head *head;
    size_t index;

    if (found >= 0)
        return found;
    if (!metric_get(metric)->history)
        return STORE_NOT_KEPT;
    assert(strlen(device_key) < DEVICE_KEY_CAP);
    while (!has_room(store, find_device(store, device_key) != NULL))
        if (!drop_dead(store, now_ns)) {
            store->refused++;
            return STORE_NO_ROOM;
        }
    device = find_device(store, device_key);
    if (!device)
        device = add_device(store, device_key);
    index = allocate_series_head(store);
    head = &store->heads[index];
    *head = (Head){.series = {.rings = &store->rings[index],
                              .slab = &store->slab,
                              .counter = metric_get(metric)->type == METRIC_COUNTER},
                   .alive_ns = now_ns,
                   .metric = (uint16_t)metric,
                   .device = (uint16_t)(device - store->devices),
                   .generation = head->generation,
                   .used = true};
    device->head[metric] = (int32_t)index + 1;
    device->series_count++;
    store->series_count++;
    return handle_of(store, index);
}

StoreSeries store_find(const Store *store, const char *device_key, MetricId metric)
{
    const StoreDevice *device = find_device(store, device_key);

    assert(metric < METRIC_END);
    if (device && device->head[metric] > 0)
        return handle_of(store, (size_t)device->head[metric] - 1);
    return STORE_NOT_KEPT;
}

/* The series to add to as of this instant; NULL as head_at. */
static Series *wake_series(Store *store, StoreSeries series, uint64_t time_ns)
{
    Head *head = head_at(store, series);

    if (!head)
        return NULL;
    if (time_ns > head->alive_ns)
        head->alive_ns = time_ns;
    return &head->series;
}

void store_add(Store *store, StoreSeries series, uint64_t now_ns, const Sample *sample)
{
    Series *to = wake_series(store, series, now_ns);

    if (to)
        series_add(to, now_ns, sample);
}

void store_add_fast(Store *store, StoreSeries series, uint64_t time_ns, double value)
{
    Series *to = wake_series(store, series, time_ns);

    if (to)
        series_add_fast(to, time_ns, value);
}

void store_add_minute(Store *store, StoreSeries series, const StoreMinute *minute)
{
    Series *to = wake_series(store, series, minute->time_ns);

    if (to)
        series_add_minute(to, minute);
}

size_t store_seconds(const Store *store, StoreSeries series, uint64_t from_ns, uint64_t to_ns, StoreSecond *out,
                     size_t cap)
{
    const Head *head = head_at(store, series);

    return head ? series_seconds(&head->series, from_ns, to_ns, out, cap) : 0;
}

size_t store_minutes(const Store *store, StoreSeries series, uint64_t from_ns, uint64_t to_ns, StoreMinute *out,
                     size_t cap)
{
    const Head *head = head_at(store, series);

    return head ? series_minutes(&head->series, from_ns, to_ns, out, cap) : 0;
}

void store_each(const Store *store, void (*fn)(void *self, StoreSeries series, const char *device_key, MetricId metric),
                void *self)
{
    for (size_t i = 0; i < store->device_count; i++) {
        const StoreDevice *device = &store->devices[store->by_key[i]];

        for (MetricId metric = 0; metric < METRIC_END; metric++)
            if (device->head[metric] > 0)
                fn(self, handle_of(store, (size_t)device->head[metric] - 1), device->key, metric);
    }
}

/* --- a whole node ------------------------------------------------------------------------------------------------- */

static void add_reading(Store *store, uint64_t now_ns, const Reading *reading, const char *key)
{
    for (MetricId id = 0; id < METRIC_END; id++) {
        const Sample *sample = &reading->sample[id];

        if (!metric_get(id)->history || (!sample->valid && sample->absence == ABSENCE_NOT_YET))
            continue;
        StoreSeries series = sample->valid ? store_open(store, key, id, now_ns)
                                           : store_find(store, key, id); /* no ring for what never was */
        if (series >= 0)
            store_add(store, series, now_ns, sample);
    }
}

static void add_fast_readings(Store *store, const NodeGpu *gpu, const char *key)
{
    for (int k = 0; metric_fast_at(k) != METRIC_END; k++) {
        StoreSeries series = store_find(store, key, metric_fast_at(k));

        for (size_t i = 0; series >= 0 && i < gpu->fast_count; i++)
            if (gpu->fast[i].valid >> k & 1)
                store_add_fast(store, series, gpu->fast[i].time_ns, gpu->fast[i].value[k]);
    }
}

void store_add_node(Store *store, const Node *node)
{
    char key[DEVICE_KEY_CAP];

    for (size_t i = 0; i < node->gpu_count; i++) {
        const NodeGpu *gpu = &node->gpus[i];

        if (device_key(&gpu->reading.device, key) < 0)
            continue;
        add_reading(store, node->time_ns, &gpu->reading, key);
        add_fast_readings(store, gpu, key);
        for (size_t k = 0; k < gpu->instance_count; k++)
            if (device_key(&gpu->instances[k].device, key) >= 0)
                add_reading(store, node->time_ns, &gpu->instances[k], key);
    }
}
