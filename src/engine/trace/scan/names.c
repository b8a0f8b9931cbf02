/* SPDX-License-Identifier: Apache-2.0 */
/* A small table in front of the profile's names: a trace says the same few thousand texts millions of times. It looks
 * at a few words of a text to find its place and at all of it to be sure. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/trace/scan/inside.h"

NameCache *names_new(void)
{
    NameCache *names = xcalloc(1, sizeof *names);

    arena_init(&names->raw, 64 << 10);
    names->turn = 1;
    return names;
}

void names_forget(NameCache *names)
{
    arena_reset(&names->raw);
    if (++names->turn == 0)
        memset(names->entry, 0, sizeof names->entry);
    names->turn += names->turn == 0;
}

void names_free(NameCache *names)
{
    if (!names)
        return;
    arena_done(&names->raw);
    free(names->room);
    free(names);
}

static inline uint64_t word_at(const char *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof v);
    return v;
}

/* Long names of kernels often begin and end alike: their middle counts as well. */
static inline uint32_t place_of(const char *p, uint32_t len)
{
    const uint64_t even = UINT64_C(0x9e3779b97f4a7c15), odd = UINT64_C(0xbf58476d1ce4e5b9);
    uint64_t h = len;

    if (len > 32)
        h += (word_at(p + len / 2) ^ (word_at(p + len / 4) << 1)) * odd ^ word_at(p + len / 4 * 3);
    if (len >= 8)
        h = (h ^ word_at(p)) * even ^ word_at(p + len - 8);
    else if (len)
        h ^= word_at(p) << (64 - 8 * len);
    h ^= h >> 31;
    return (uint32_t)(h * odd >> 52) % NAME_CACHE;
}

static uint32_t put_name(NameCache *names, Profile *profile, const Slice *slice, bool *ret_cut)
{
    NameEntry *entry = &names->entry[place_of(slice->at, slice->len)];

    if (slice->kind != SLICE_ESCAPED && slice->len <= TRACE_NAME_BYTES_MAX) {
        entry->name = profile_name(profile, slice->at, slice->len);
        entry->raw = profile_text(profile, entry->name, NULL);
        entry->len = slice->len;
        entry->kind = slice->kind;
        entry->turn = names->turn;
        return entry->name;
    }
    if (!names->room)
        names->room = xmalloc(TRACE_NAME_BYTES_MAX + 16);
    const size_t len = value_unescape(slice, names->room, TRACE_NAME_BYTES_MAX);
    const uint32_t name = profile_name(profile, names->room, len);

    *ret_cut |= slice->kind == SLICE_ESCAPED ? len >= TRACE_NAME_BYTES_MAX - 4 && slice->len > TRACE_NAME_BYTES_MAX
                                             : slice->len > TRACE_NAME_BYTES_MAX;
    if (slice->len <= 1024 && names->raw.used < 4 << 20) {
        entry->raw = arena_strndup(&names->raw, slice->at, slice->len);
        entry->len = slice->len;
        entry->name = name;
        entry->kind = slice->kind;
        entry->turn = names->turn;
    }
    return name;
}

uint32_t names_seen(const NameCache *names, const Slice *slice)
{
    const NameEntry *entry = &names->entry[place_of(slice->at, slice->len)];

    if (entry->turn == names->turn && entry->len == slice->len && entry->kind == slice->kind &&
        memcmp(entry->raw, slice->at, slice->len) == 0)
        return entry->name;
    return PROFILE_NONE;
}

uint32_t names_get(NameCache *names, Profile *profile, const Slice *slice, bool *ret_cut)
{
    const uint32_t name = names_seen(names, slice);

    return name != PROFILE_NONE ? name : put_name(names, profile, slice, ret_cut);
}
