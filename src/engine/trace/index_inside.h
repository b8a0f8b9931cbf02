/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Parts of the making of a TraceIndex; for index*.c alone. */

#include "engine/trace/index.h"
#include "engine/trace/step_name.h"

typedef VEC(uint32_t) TraceRows;

/* Host rows behind their number (correlation or external id). */
typedef struct LinkTable {
    uint32_t *first; /* slot -> first entry of rows; slots + 1 */
    uint32_t *rows;  /* host rows, by slot */
    uint32_t *ids;   /* slot -> number, ascending, where numbers lie far apart; else NULL */
    uint32_t least;  /* the number of slot 0 */
    uint32_t slots;
} LinkTable;

/* Numbers that are looked for: one bit for many, so others pass too. */
enum { LINK_FILTER_BITS = 20 };

typedef struct LinkFilter {
    uint64_t words[(1 << LINK_FILTER_BITS) / 64];
} LinkFilter;

/* index_link.c: the rows of a kind that have a number, with a filter those at least whose number it knows. */
void trace_link_init(LinkTable *table, const ProfileEvents *host, ProfileKind kind, const LinkFilter *filter);
void trace_link_done(LinkTable *table); /* accepts a zeroed one */

/* index_link.c: fills launch, op, linked, unlinked and the class of pageable copies. Needs the classes, op_at and
 * op_rows, and the calls' table. */
void trace_index_link(TraceIndex *index, const LinkTable *calls);

/* index_steps.c: fills steps from the host rows named as steps, else from GPU annotations. Needs launch. */
void trace_index_steps(TraceIndex *index, const TraceRows *step_rows);
