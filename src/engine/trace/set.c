/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/trace/set.h"

#include <stdlib.h>
#include <string.h>

void trace_set_maker_init(TraceSetMaker *maker)
{
    memset(maker, 0, sizeof *maker);
    map_u64_init(&maker->seen);
}

void trace_set_maker_done(TraceSetMaker *maker)
{
    map_done(&maker->seen);
    vec_done(&maker->pairs);
}

void trace_set_maker_add(TraceSetMaker *maker, uint32_t row, uint64_t key)
{
    static char present;
    uint64_t mixed = ((key ^ (uint64_t)row * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xd6e8feb86659fd93)) | 1;
    uint64_t *recent = &maker->recent[(mixed >> 40) % TRACE_SET_RECENT];

    if (*recent == mixed)
        return;
    *recent = mixed;
    if (map_u64_put(&maker->seen, mixed, &present))
        return;
    vec_push(&maker->pairs, ((TraceSetPair){.key = key, .row = row}));
}

static int compare_pairs(const void *left, const void *right)
{
    const TraceSetPair *a = left, *b = right;

    if (a->row != b->row)
        return a->row < b->row ? -1 : 1;
    return a->key < b->key ? -1 : a->key > b->key;
}

TraceSet trace_set_maker_take(TraceSetMaker *maker, uint32_t row, Arena *arena)
{
    size_t first, end;
    uint64_t *keys;

    if (maker->taken == 0 && maker->pairs.len > 0)
        qsort(maker->pairs.at, maker->pairs.len, sizeof *maker->pairs.at, compare_pairs);
    first = maker->taken;
    while (first < maker->pairs.len && maker->pairs.at[first].row < row)
        first++;
    for (end = first; end < maker->pairs.len && maker->pairs.at[end].row == row; end++)
        ;
    maker->taken = end;
    if (end == first)
        return (TraceSet){0};
    keys = arena_calloc(arena, end - first, sizeof *keys);
    for (size_t i = first; i < end; i++)
        keys[i - first] = maker->pairs.at[i].key;
    return (TraceSet){.at = keys, .len = end - first};
}

static size_t unite(TraceSet a, TraceSet b, uint64_t *out)
{
    size_t i = 0, j = 0, len = 0;

    while (i < a.len || j < b.len) {
        bool from_a = j == b.len || (i < a.len && a.at[i] <= b.at[j]);
        uint64_t key = from_a ? a.at[i] : b.at[j];

        if (out)
            out[len] = key;
        len++;
        if (i < a.len && a.at[i] == key)
            i++;
        if (j < b.len && b.at[j] == key)
            j++;
    }
    return len;
}

TraceSet trace_set_union(TraceSet a, TraceSet b, Arena *arena)
{
    size_t len = unite(a, b, NULL);
    uint64_t *keys;

    if (len == a.len)
        return a;
    if (len == b.len)
        return b;
    keys = arena_calloc(arena, len, sizeof *keys);
    unite(a, b, keys);
    return (TraceSet){.at = keys, .len = len};
}
