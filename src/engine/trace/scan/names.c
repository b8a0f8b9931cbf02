/* SPDX-License-Identifier: Apache-2.0 */
/* A small table in front of the profile's names: a trace says the same few thousand texts millions of times. It looks
 * at a few words of a text to find its place and at all of it to be sure. A place has a neighbour, so that two texts
 * of one place do not drive each other out by turns. */
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

/* What was in the text's place goes to the neighbour. */
static void put_entry(NameCache *names, const Slice *slice, const char *raw, uint32_t name)
{
    const uint32_t place = place_of(slice->at, slice->len);

    names->entry[place ^ 1] = names->entry[place];
    names->entry[place] =
        (NameEntry){.raw = raw, .len = slice->len, .name = name, .kind = slice->kind, .turn = names->turn};
}

static uint32_t put_name(NameCache *names, Profile *profile, const Slice *slice, bool *ret_cut)
{
    if (slice->kind != SLICE_ESCAPED && slice->len <= TRACE_NAME_BYTES_MAX) {
        const uint32_t name = profile_name(profile, slice->at, slice->len);

        put_entry(names, slice, profile_text(profile, name, NULL), name);
        return name;
    }
    if (!names->room)
        names->room = xmalloc(TRACE_NAME_BYTES_MAX + 16);
    const size_t len = value_unescape(slice, names->room, TRACE_NAME_BYTES_MAX);
    const uint32_t name = profile_name(profile, names->room, len);

    *ret_cut |= slice->kind == SLICE_ESCAPED ? len >= TRACE_NAME_BYTES_MAX - 4 && slice->len > TRACE_NAME_BYTES_MAX
                                             : slice->len > TRACE_NAME_BYTES_MAX;
    if (slice->len <= 1024 && names->raw.used < 4 << 20)
        put_entry(names, slice, arena_strndup(&names->raw, slice->at, slice->len), name);
    return name;
}

static inline bool is_entry_of(const NameCache *names, const NameEntry *entry, const Slice *slice)
{
    return entry->turn == names->turn && entry->len == slice->len && entry->kind == slice->kind &&
           memcmp(entry->raw, slice->at, slice->len) == 0;
}

uint32_t names_seen(const NameCache *names, const Slice *slice)
{
    const uint32_t place = place_of(slice->at, slice->len);

    if (is_entry_of(names, &names->entry[place], slice))
        return names->entry[place].name;
    if (is_entry_of(names, &names->entry[place ^ 1], slice))
        return names->entry[place ^ 1].name;
    return PROFILE_NONE;
}

uint32_t names_get(NameCache *names, Profile *profile, const Slice *slice, bool *ret_cut)
{
    const uint32_t name = names_seen(names, slice);

    return name != PROFILE_NONE ? name : put_name(names, profile, slice, ret_cut);
}
