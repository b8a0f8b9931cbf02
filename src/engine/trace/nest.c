/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/trace/nest.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "engine/trace/named.h"
#include "engine/trace/sum.h"

typedef struct Walk {
    TraceNest *nest;
    ProfileKind kind;
    TraceNamed names;
    VEC(uint32_t) open;  /* row of a name -> how many of the open members have it */
    VEC(uint32_t) stack; /* open members */
} Walk;

/* How many open members have this one's name. */
static uint32_t *open_of(Walk *walk, uint32_t member)
{
    uint32_t name = walk->nest->index->profile->host.name[walk->nest->rows[member]];
    uint32_t row = trace_named_row(&walk->names, name);

    if (row == walk->open.len)
        vec_push(&walk->open, 0);
    return &walk->open.at[row];
}

/* Closes open members until `around` is the innermost. */
static void close_until(Walk *walk, uint32_t around)
{
    while (walk->stack.len > 0 && walk->stack.at[walk->stack.len - 1] != around)
        (*open_of(walk, walk->stack.at[--walk->stack.len]))--;
}

static void walk_row(Walk *walk, uint32_t row)
{
    TraceNest *nest = walk->nest;
    uint32_t parent = nest->index->parent[row];
    uint32_t around = parent == PROFILE_NONE ? PROFILE_NONE : nest->at[parent];
    uint32_t member, *open;

    if (nest->index->profile->host.kind[row] != walk->kind) {
        nest->at[row] = around;
        return;
    }
    close_until(walk, around);
    member = (uint32_t)nest->len++;
    nest->rows[member] = row;
    nest->at[row] = member;
    open = open_of(walk, member);
    if ((*open)++ == 0)
        nest->outer[member / 64] |= UINT64_C(1) << (member % 64);
    vec_push(&walk->stack, member);
}

void trace_nest_init(TraceNest *nest, const TraceIndex *index, ProfileKind kind)
{
    const ProfileEvents *host = &index->profile->host;
    Walk walk = {.nest = nest, .kind = kind};
    size_t count = 0;

    for (size_t i = 0; i < host->len; i++)
        count += host->kind[i] == kind;
    *nest = (TraceNest){.index = index,
                        .at = xmalloc((host->len + 1) * sizeof *nest->at),
                        .rows = xmalloc((count + 1) * sizeof *nest->rows),
                        .outer = xcalloc(count / 64 + 1, sizeof *nest->outer)};
    trace_named_init(&walk.names, index->profile);
    for (size_t lane = 0; lane < index->profile->lanes.len; lane++) {
        for (size_t i = index->lane_first[lane]; i < index->lane_first[lane + 1]; i++)
            walk_row(&walk, (uint32_t)i);
        close_until(&walk, PROFILE_NONE);
    }
    trace_named_done(&walk.names);
    vec_done(&walk.open);
    vec_done(&walk.stack);
}

void trace_nest_done(TraceNest *nest)
{
    free(nest->at);
    free(nest->rows);
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
