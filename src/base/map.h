/* SPDX-License-Identifier: Apache-2.0 */
/* A hash map from text, or from uint64_t, to void *. Open addressing over an index; the entries lie in the order they
 * were put, which is the order of map_next. Keys of text are copied; values are the caller's. The hash is keyed with
 * random bytes per map, so keys from outside cannot be chosen to collide. The owner embeds it.
 * One thread at a time. A map is of one kind, chosen at its init. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct MapEntry {
    uint64_t id;  /* the number, or the hash of the text */
    char *key;    /* the text, owned by the map; NULL in a map of numbers */
    uint32_t len; /* bytes of the text */
    bool live;    /* false: removed, waits for the next growth */
    void *value;
} MapEntry;

typedef struct Map {
    MapEntry *entries;
    size_t used;     /* entries ever put since the last growth, live or not */
    size_t len;      /* live entries */
    uint32_t *index; /* slots: 0 empty, otherwise entry number + 1 */
    size_t slots;    /* power of two, 0 before the first put */
    uint64_t seed;
    bool numbers; /* keys are uint64_t */
} Map;

/* An empty map of text keys (map_init) or of numbers (map_u64_init). Allocates nothing yet. */
void map_init(Map *map);
void map_u64_init(Map *map);

/* Frees entries, keys and index, not the values. Accepts a zeroed one; the map must be initialised again. */
void map_done(Map *map);

/* The value at a key, NULL if there is none. map_getn takes `len` bytes that need no NUL. */
void *map_get(const Map *map, const char *key);
void *map_getn(const Map *map, const char *key, size_t len);
void *map_u64_get(const Map *map, uint64_t key);

/* Sets the value (not NULL) at a key and returns the one it replaces, NULL if the key is new. */
void *map_put(Map *map, const char *key, void *value);
void *map_putn(Map *map, const char *key, size_t len, void *value);
void *map_u64_put(Map *map, uint64_t key, void *value);

/* Removes a key and returns its value, NULL if there was none. */
void *map_del(Map *map, const char *key);

/* Walks the live entries in the order of putting: start with *cursor = 0, NULL at the end. Deleting any entry during
 * the walk is fine, putting is not. */
const MapEntry *map_next(const Map *map, size_t *cursor);

/* A 64-bit hash of `len` bytes under a seed: two 64x64 -> 128 bit multiplications per 16 bytes, folded. Not for
 * anything that is stored or sent. */
uint64_t map_hash(const void *data, size_t len, uint64_t seed);
