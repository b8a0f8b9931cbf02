/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files of this folder share. */

#include <jansson.h>

#include "base/map.h"
#include "engine/allocator/allocator.h"

/* Lines of code while a snapshot is read. Lists of frames are shared by many blocks: each is looked at once. */
typedef struct AllocatorNames {
    Arena *arena;
    Map by_frames; /* json_t * as a number -> const char * */
    Map by_text;   /* -> const char *; so equal names are one pointer */
} AllocatorNames;

/* The innermost line of the user's code, else the innermost frame at all, "" none. In the arena. */
const char *allocator_site(AllocatorNames *names, const json_t *entry);
/* Adds a block to its site; by_site: name as a number -> index + 1, a map of numbers. */
void allocator_add_site(AllocatorSites *sites, Map *by_site, const char *name, int64_t bytes);
void allocator_sort_sites(AllocatorSites *sites);

/* A member as bytes: `other` where it is missing or no number, 0 to 2^40. */
int64_t allocator_bytes(const json_t *object, const char *key, int64_t other);
uint64_t allocator_address(const json_t *object, const char *key);
/* Whether a block is in use: allocated, or freed and awaited by another stream (*ret_awaiting). */
bool allocator_is_active(const json_t *block, bool *ret_awaiting);

/* Fills the part of *device about events; `segments` are the snapshot's. */
void allocator_replay(const json_t *segments, const json_t *events, AllocatorNames *names, AllocatorDevice *device);
