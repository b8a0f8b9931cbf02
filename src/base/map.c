/* SPDX-License-Identifier: Apache-2.0 */
/* The map: `entries` in the order of putting, `index` an open-addressing table of positions in it, probed linearly and
 * kept at most two thirds full, removed entries included. A removed entry keeps its slot until the next growth. */
#include "base/map.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/alloc.h"

enum { MAP_SLOTS_MIN = 16 };

__extension__ typedef unsigned __int128 Wide;

/* Odd constants with well-spread bits: the fractions of the square roots of 2 and 3. */
static const uint64_t mix_a = 0x6a09e667f3bcc909, mix_b = 0xbb67ae8584caa73b;

static uint64_t fold_product(uint64_t a, uint64_t b)
{
    Wide product = (Wide)a * b;

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t load_bytes(const unsigned char *bytes, size_t len)
{
    uint64_t value = 0;

    memcpy(&value, bytes, len);
    return value;
}

uint64_t map_hash(const void *data, size_t len, uint64_t seed)
{
    const unsigned char *bytes = data;
    uint64_t hash = seed ^ mix_a;
    size_t left = len;

    for (; left > 16; left -= 16, bytes += 16)
        hash = fold_product(load_bytes(bytes, 8) ^ mix_b, load_bytes(bytes + 8, 8) ^ hash);
    if (left > 8)
        hash = fold_product(load_bytes(bytes, 8) ^ mix_b, load_bytes(bytes + 8, left - 8) ^ hash);
    else if (left)
        hash = fold_product(load_bytes(bytes, left) ^ mix_b, hash);
    return fold_product(hash ^ mix_a, len ^ mix_b);
}

/* One for the process: drawing takes a system call, and analyses make many small maps. */
static uint64_t random_seed(void)
{
    static _Atomic uint64_t drawn;
    uint64_t seed = drawn;

    /* Without entropy at early boot the map still works, only unkeyed. */
    if (!seed && getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != (ssize_t)sizeof(seed))
        return mix_b;
    drawn = seed;
    return seed;
}

void map_init(Map *map)
{
    *map = (Map){.seed = random_seed()};
}

void map_u64_init(Map *map)
{
    *map = (Map){.seed = random_seed(), .numbers = true};
}

void map_done(Map *map)
{
    for (size_t i = 0; i < map->used; i++)
        free(map->entries[i].key);
    free(map->entries);
    free(map->index);
    *map = (Map){.seed = map->seed, .numbers = map->numbers};
}

static size_t slot_of(const Map *map, uint64_t id)
{
    return (size_t)(map->numbers ? fold_product(id ^ map->seed, mix_a) : id) & (map->slots - 1);
}

static uint32_t room_of(size_t slots)
{
    return (uint32_t)(slots / 3 * 2);
}

/* The live entry with this identity and text, or NULL. */
static MapEntry *find_entry(const Map *map, uint64_t id, const char *key, size_t len)
{
    if (!map->len)
        return NULL;
    for (size_t slot = slot_of(map, id); map->index[slot]; slot = (slot + 1) & (map->slots - 1)) {
        MapEntry *entry = &map->entries[map->index[slot] - 1];

        if (!entry->live || entry->id != id)
            continue;
        if (map->numbers || (entry->len == len && !memcmp(entry->key, key, len)))
            return entry;
    }
    return NULL;
}

static void index_add(Map *map, uint32_t position)
{
    size_t slot = slot_of(map, map->entries[position].id);

    while (map->index[slot])
        slot = (slot + 1) & (map->slots - 1);
    map->index[slot] = position + 1;
}

/* Makes room for one more entry: drops the removed ones and doubles the index where the live ones need it. */
static void make_room(Map *map)
{
    size_t slots = map->slots ? map->slots : MAP_SLOTS_MIN, kept = 0;

    if (map->slots && map->used < room_of(map->slots))
        return;
    while (map->len + 1 > room_of(slots) / 4 * 3)
        slots *= 2;
    assert(slots <= UINT32_MAX);
    for (size_t i = 0; i < map->used; i++)
        if (map->entries[i].live)
            map->entries[kept++] = map->entries[i];
    map->used = kept;
    if (slots != map->slots) {
        free(map->index);
        map->index = xcalloc(slots, sizeof(*map->index));
        map->entries = xrealloc(map->entries, room_of(slots), sizeof(*map->entries));
        map->slots = slots;
    } else {
        memset(map->index, 0, slots * sizeof(*map->index));
    }
    for (size_t i = 0; i < kept; i++)
        index_add(map, (uint32_t)i);
}

static void *put_entry(Map *map, MapEntry new, const char *key)
{
    MapEntry *entry = find_entry(map, new.id, key, new.len);

    assert(new.value);
    if (entry) {
        void *old = entry->value;

        entry->value = new.value;
        return old;
    }
    make_room(map);
    if (!map->numbers)
        new.key = xmemdup0(key, new.len);
    new.live = true;
    map->entries[map->used] = new;
    index_add(map, (uint32_t)map->used);
    map->used++;
    map->len++;
    return NULL;
}

static void *delete_entry(Map *map, MapEntry *entry)
{
    void *old;

    if (!entry)
        return NULL;
    old = entry->value;
    free(entry->key);
    entry->key = NULL;
    entry->value = NULL;
    entry->live = false;
    map->len--;
    return old;
}

static MapEntry *find_text(const Map *map, const char *key, size_t len)
{
    assert(!map->numbers);
    return find_entry(map, map_hash(key, len, map->seed), key, len);
}

void *map_getn(const Map *map, const char *key, size_t len)
{
    const MapEntry *entry = find_text(map, key, len);

    return entry ? entry->value : NULL;
}

void *map_get(const Map *map, const char *key)
{
    return map_getn(map, key, strlen(key));
}

void *map_u64_get(const Map *map, uint64_t key)
{
    const MapEntry *entry;

    assert(map->numbers);
    entry = find_entry(map, key, "", 0);
    return entry ? entry->value : NULL;
}

void *map_putn(Map *map, const char *key, size_t len, void *value)
{
    assert(!map->numbers && len < UINT32_MAX);
    return put_entry(map, (MapEntry){.id = map_hash(key, len, map->seed), .len = (uint32_t)len, .value = value}, key);
}

void *map_put(Map *map, const char *key, void *value)
{
    return map_putn(map, key, strlen(key), value);
}

void *map_u64_put(Map *map, uint64_t key, void *value)
{
    assert(map->numbers);
    return put_entry(map, (MapEntry){.id = key, .value = value}, "");
}

void *map_del(Map *map, const char *key)
{
    return delete_entry(map, find_text(map, key, strlen(key)));
}

const MapEntry *map_next(const Map *map, size_t *cursor)
{
    while (*cursor < map->used) {
        const MapEntry *entry = &map->entries[(*cursor)++];

        if (entry->live)
            return entry;
    }
    return NULL;
}
