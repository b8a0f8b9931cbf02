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
    Arena *arena;                     /* for the texts of the rank, and notes */
    atomic_uint_fast64_t *read_bytes; /* counts as it reads, may be NULL */
    atomic_uint_fast64_t *pass;       /* how many times the file is read in all, may be NULL */
    const bool *stop;
    const char *note; /* out: what the reader of the report must know of this file, NULL nothing */
} TraceOne;

enum { TRACE_ONE_OTHER_RANK = 1 }; /* the file's rank is not asked for */

/* 0, TRACE_ONE_OTHER_RANK, -errno. */
int trace_one(TraceOne *one, TraceRank *ret, Err *err);

/* Of one->memory, what the scanner may fill; the rest is for index and analysis. */
size_t trace_one_scan_memory(const TraceOne *one);

/* The second way, in windows.c: reads `input` (rewound) again and again. */
int trace_windows(TraceOne *one, TraceInput *input, TraceRank *ret, Err *err);

/* The window of time that one->ask means, found without keeping the profile in memory. Rewinds. */
int trace_windows_bounds(TraceOne *one, TraceInput *input, int64_t *ret_from, int64_t *ret_to, Err *err);
