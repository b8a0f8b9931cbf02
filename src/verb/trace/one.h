/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* One file to one TraceRank: read, choose, analyse; in one piece where memory allows, otherwise in windows of time. */

#include <stdatomic.h>
#include <stdbool.h>

#include "engine/trace/analyse.h"
#include "verb/trace/input.h"
#include "verb/trace/pick.h"

typedef struct TraceOne {
    const char *path;
    int64_t number; /* rank of a file that names none */
    unsigned int threads;
    size_t memory; /* bytes for this file's profile and its analysis */
    const TraceAsk *ask;
    const TraceConfig *config;
    Arena *arena;                     /* for the texts of the rank, and notes: an array, one for each thread */
    atomic_uint_fast64_t *read_bytes; /* counts as it reads, may be NULL */
    atomic_uint_fast64_t *pass;       /* how many times the file is read in all, may be NULL */
    const bool *stop;
    const TraceKnown *known; /* of a file of several ranks, and which of them is meant (0 all); set by merged.c */
    unsigned int owner;
    const char *note; /* out: what the reader of the report must know of this file, NULL nothing */
} TraceOne;

enum { TRACE_ONE_OTHER_RANK = 1 }; /* the file's rank is not asked for */

typedef VEC(TraceRank) TraceRanks;

/* Adds the file's rank, or the ranks that were merged into it. 0, TRACE_ONE_OTHER_RANK, -errno. */
int trace_one(TraceOne *one, TraceRanks *ret, Err *err);

/* `input` from its beginning, as one rank: in one piece, or in windows. As trace_one. */
int trace_one_piece(TraceOne *one, TraceInput *input, TraceRank *ret, Err *err);

/* How an index of the file's profile is analysed: all of its time, with the file's threads and what is left of its
 * memory. */
TraceJob trace_one_job(const TraceOne *one, const TraceIndex *index);

/* Of one->memory, what the scanner may fill; the rest is for index and analysis. */
size_t trace_one_scan_memory(const TraceOne *one);

/* The second way, in windows.c: reads `input` (rewound) again and again. */
int trace_windows(TraceOne *one, TraceInput *input, TraceRank *ret, Err *err);

/* The window of time that one->ask means, found without keeping the profile in memory. Rewinds. */
int trace_windows_bounds(TraceOne *one, TraceInput *input, int64_t *ret_from, int64_t *ret_to, Err *err);
