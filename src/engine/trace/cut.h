/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Copies the events of a trace that a TraceAsk means into a smaller trace, byte by byte. Reads and writes through a
 * table of functions. One thread at a time. */

#include <stdint.h>

#include "engine/trace/pick.h"
#include "engine/trace/scan/scan.h"

/* Both return 0 or -errno; load begins at the start of the text each time. */
typedef struct TraceCutFile {
    void *context;
    int (*load)(void *context, const TraceScanOptions *options, Profile *into, Err *err);
    int (*write)(void *context, const char *bytes, size_t len, Err *err);
} TraceCutFile;

typedef struct TraceCut {
    const TraceAsk *ask;
    const char *path; /* for texts */
    size_t memory;    /* bytes of profile that the search for the window may take */
    /* out */
    uint64_t events, copied;
    uint64_t lost; /* of the profile that was read */
} TraceCut;

/* 0 or -errno. */
int trace_cut(TraceCut *cut, const TraceCutFile *file, Err *err);
