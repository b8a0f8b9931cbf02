/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The host events of one kind (operators, annotations) as the forest they make on their lanes. Members are numbered in
 * the order of the host table, so a member's number is above that of the member around it. Linear in host events. That
 * of operators is the index's own; another's takes 4 bytes per host event and 4 per member.
 */

#include "engine/trace/index.h"

typedef struct TraceNest {
    const TraceIndex *index;
    const uint32_t *at;   /* host row -> the member that the row is, or the innermost around it; PROFILE_NONE */
    const uint32_t *rows; /* member -> host row */
    uint64_t *outer;      /* bits by member: none of its name is around it */
    size_t len;
    uint32_t *own[2]; /* at and rows, where they are not the index's */
} TraceNest;

void trace_nest_init(TraceNest *nest, const TraceIndex *index, ProfileKind kind);
void trace_nest_done(TraceNest *nest);

/* The member around a member, PROFILE_NONE. */
static inline uint32_t trace_nest_around(const TraceNest *nest, uint32_t member)
{
    uint32_t parent = nest->index->parent[nest->rows[member]];

    return parent == PROFILE_NONE ? PROFILE_NONE : nest->at[parent];
}

static inline bool trace_nest_is_outer(const TraceNest *nest, uint32_t member)
{
    return nest->outer[member / 64] >> (member % 64) & 1;
}

/* Adds to each member's value those of all members inside it. */
void trace_nest_gather(const TraceNest *nest, int64_t *values);
