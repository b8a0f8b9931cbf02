/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/trace/nest.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "engine/trace/analyse.h"

/* ---- members ---- */

static void find_members(TraceNest *nest, ProfileKind kind)
{
    const ProfileEvents *host = &nest->index->profile->host;
    const uint32_t *parent = nest->index->parent;
    size_t count = 0;
    uint32_t *at, *rows;

    for (size_t row = 0; row < host->len; row++)
        count += host->kind[row] == kind;
    nest->at = nest->own[0] = at = xmalloc((host->len + 1) * sizeof *at);
    nest->rows = nest->own[1] = rows = xmalloc((count + 1) * sizeof *rows);
    for (uint32_t row = 0; row < host->len; row++) {
        at[row] = parent[row] == PROFILE_NONE ? PROFILE_NONE : at[parent[row]];
        if (host->kind[row] != kind)
            continue;
        at[row] = (uint32_t)nest->len;
        rows[nest->len++] = row;
    }
}

/* ---- which are within none of their name ---- */

typedef struct Open {
    uint32_t member, name;
} Open;

typedef struct Walk {
    uint32_t *count; /* name -> how many of the open members have it; the last for PROFILE_NONE */
    VEC(Open) open;
} Walk;

/* Closes open members until `around` is the innermost; with PROFILE_NONE all. */
static void close_until(Walk *walk, uint32_t around)
{
    while (walk->open.len > 0 && walk->open.at[walk->open.len - 1].member != around)
        walk->count[walk->open.at[--walk->open.len].name]--;
}

static void find_outer(TraceNest *nest)
{
    const uint32_t *names = nest->index->profile->host.name;
    const uint32_t none = (uint32_t)profile_name_count(nest->index->profile);
    Walk walk = {.count = xcalloc((size_t)none + 1, sizeof *walk.count)};

    nest->outer = xcalloc(nest->len / 64 + 1, sizeof *nest->outer);
    for (uint32_t member = 0; member < nest->len; member++) {
        const uint32_t name = names[nest->rows[member]];
        const Open open = {.member = member, .name = name < none ? name : none};

        close_until(&walk, trace_nest_around(nest, member));
        if (walk.count[open.name]++ == 0)
            nest->outer[member / 64] |= UINT64_C(1) << (member % 64);
        if (walk.open.len == walk.open.cap) /* rare: no call for each member */
            vec_reserve(&walk.open, walk.open.len + 1);
        walk.open.at[walk.open.len++] = open;
    }
    free(walk.count);
    vec_done(&walk.open);
}

void trace_nest_init(TraceNest *nest, const TraceIndex *index, ProfileKind kind)
{
    *nest = (TraceNest){.index = index};
    if (kind == PROFILE_OP) {
        nest->at = index->op_at;
        nest->rows = index->op_rows;
        nest->len = index->op_count;
    } else {
        find_members(nest, kind);
    }
    find_outer(nest);
}

void trace_nest_done(TraceNest *nest)
{
    free(nest->own[0]);
    free(nest->own[1]);
    free(nest->outer);
    *nest = (TraceNest){0};
}

void trace_nest_gather(const TraceNest *nest, int64_t *values)
{
    for (size_t i = nest->len; i-- > 0;) {
        uint32_t around = trace_nest_around(nest, (uint32_t)i);

        if (around != PROFILE_NONE)
            values[around] = trace_sum(values[around], values[i]);
    }
}
