/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of byte strings: open addressing over a power of two, at most half full. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "model/profile_inside.h"

enum { SLOTS_MIN = 256, TEXT_BLOCK = 64 * 1024 };

static struct ProfileSlot *slot_of(const ProfileSet *set, uint32_t hash, const void *bytes, size_t len)
{
    const size_t mask = set->slot_count - 1;

    for (size_t i = hash & mask;; i = (i + 1) & mask) {
        struct ProfileSlot *slot = &set->slots[i];

        if (!slot->id)
            return slot;
        if (slot->hash == hash && set->lens.at[slot->id - 1] == len &&
            memcmp(set->texts.at[slot->id - 1], bytes, len) == 0)
            return slot;
    }
}

static void grow_slots(ProfileSet *set)
{
    const size_t old = set->slot_count;
    struct ProfileSlot *slots = set->slots;

    set->slot_count = old ? old * 2 : SLOTS_MIN;
    set->slots = xcalloc(set->slot_count, sizeof(*set->slots));
    for (size_t i = 0; i < old; i++) {
        if (!slots[i].id)
            continue;
        size_t at = slots[i].hash & (set->slot_count - 1);

        while (set->slots[at].id)
            at = (at + 1) & (set->slot_count - 1);
        set->slots[at] = slots[i];
    }
    free(slots);
}

uint32_t profile_set_put(ProfileSet *set, const void *bytes, size_t len, bool *ret_new)
{
    if (!set->arena.block_bytes) {
        arena_init(&set->arena, TEXT_BLOCK);
        set->seed = (uint64_t)(uintptr_t)set ^ 0x9e3779b97f4a7c15U;
    }
    if ((set->texts.len + 1) * 2 > set->slot_count)
        grow_slots(set);
    const uint32_t hash = (uint32_t)map_hash(bytes, len, set->seed);
    struct ProfileSlot *slot = slot_of(set, hash, bytes, len);

    *ret_new = !slot->id;
    if (!slot->id) {
        char *copy = arena_alloc(&set->arena, len + 1);

        memcpy(copy, bytes, len);
        vec_push(&set->texts, copy);
        vec_push(&set->lens, (uint32_t)len);
        set->bytes += len + 1;
        *slot = (struct ProfileSlot){.hash = hash, .id = (uint32_t)set->texts.len};
    }
    return slot->id - 1;
}

uint32_t profile_set_find(const ProfileSet *set, const void *bytes, size_t len)
{
    if (!set->slot_count)
        return PROFILE_NONE;
    const struct ProfileSlot *slot = slot_of(set, (uint32_t)map_hash(bytes, len, set->seed), bytes, len);

    return slot->id ? slot->id - 1 : PROFILE_NONE;
}

void profile_set_done(ProfileSet *set)
{
    arena_done(&set->arena);
    vec_done(&set->texts);
    vec_done(&set->lens);
    free(set->slots);
    *set = (ProfileSet){0};
}

size_t profile_set_bytes(const ProfileSet *set)
{
    const size_t per_text = sizeof(const char *) + sizeof(uint32_t) + ARENA_ALIGN;

    return set->bytes + set->texts.len * per_text + set->slot_count * sizeof(*set->slots);
}
