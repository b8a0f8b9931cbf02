/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* One file to one TraceRank: read, choose, analyse. The reader is chosen by the file's first bytes. */

#include <stdatomic.h>
#include <stdbool.h>

#include "engine/trace/analyse.h"
#include "engine/trace/pick.h"
#include "engine/trace/scan/scan.h"
#include "source/profile/input.h"

typedef struct TraceOne {
    const char *path;
    int64_t number; /* rank of a file that names none */
    unsigned int threads;
    size_t memory; /* bytes for this file's profile and its analysis */
    const TraceAsk *ask;
    const TraceConfig *config;
    Arena *arena;                     /* for the texts of the rank, and the note: an array, one for each thread */
    atomic_uint_fast64_t *read_bytes; /* counts as it reads, may be NULL */
    const bool *stop;
    const char *note; /* out: what the reader of the report must know of this file, NULL nothing */
} TraceOne;

enum { TRACE_ONE_OTHER_RANK = 1 }; /* the file's rank was not chosen */

/* 0, TRACE_ONE_OTHER_RANK, -errno; -ENOSPC where the profile needs more than one->memory. */
int trace_one(TraceOne *one, TraceRank *ret, Err *err);

/* Fills `into` (initialised, not sealed). What the compression lost is among the profile's losses. Errors as
 * trace_scan_parallel's; -EOPNOTSUPP where options->raw is set and the file is not trace JSON. */
int trace_load(ProfileInput *input, const bool *stop, const TraceScanOptions *options, unsigned int threads,
               Profile *into, Err *err);

/* The rank that the beginning of a trace names, -1 where it does not. */
int64_t trace_load_rank(ProfileInput *input);
