/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Makes the TraceSets of many rows at once: which numbers were seen with which row. One thread. */

#include "base/map.h"
#include "engine/trace/report.h"

enum { TRACE_SET_RECENT = 1024 };

typedef struct TraceSetPair {
    uint64_t key;
    uint32_t row;
} TraceSetPair;

typedef struct TraceSetMaker {
    Map seen;
    VEC(TraceSetPair) pairs;
    uint64_t recent[TRACE_SET_RECENT]; /* pairs seen lately, so that most need no look at `seen` */
    size_t taken;
} TraceSetMaker;

void trace_set_maker_init(TraceSetMaker *maker);
void trace_set_maker_done(TraceSetMaker *maker);
void trace_set_maker_add(TraceSetMaker *maker, uint32_t row, uint64_t key);

/* After the last add: the set of a row, asked for in ascending order of rows, each once. */
TraceSet trace_set_maker_take(TraceSetMaker *maker, uint32_t row, Arena *arena);

/* What is in either. */
TraceSet trace_set_union(TraceSet a, TraceSet b, Arena *arena);
