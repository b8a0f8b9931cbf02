/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The scanner of trace JSON (the Chrome trace event format as PyTorch's profiler and others write it): bytes in, in
 * pieces of any size, a Profile out. Never builds a tree; what it holds beside the profile is one event's bytes at
 * most. It goes on after faults: what was skipped and why is in profile->losses. One thread per scan;
 * trace_scan_parallel runs several over parts of one text. Results do not depend on pieces or threads once the profile
 * is sealed.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "model/profile.h"

enum {
    TRACE_EVENT_BYTES_MAX = 16 << 20, /* one event, its braces included; longer ones are skipped */
    TRACE_NAME_BYTES_MAX = 64 << 10,  /* longer names are cut */
};

/* An event as it stands in the text, for copying. Valid during the callback. */
typedef struct TraceRaw {
    const char *bytes; /* from '{' to '}' */
    size_t len;
    uint64_t offset;  /* in the text */
    char phase;       /* 'X', 'B', 'M', 's', ...; 0 unknown */
    bool kept;        /* it became a row (or detail) of the profile */
    ProfileKind kind; /* of a kept complete event */
    bool has_time;
    int64_t start, duration; /* ns; of half an event those of the whole, if it is known which is the other half */
    uint32_t link;           /* correlation (or flow id) as a profile has it, 0 none */
    int32_t device;          /* of what ran on a GPU, -1 unknown */
    int64_t stream;          /* the same */
} TraceRaw;

/* What is known of a text only at its end: which threads are a GPU's streams (by names alone), the numbers of ids over
 * 32 bits, and which begin belongs to which end. One reading fills it, another one uses it from the first event on.
 * Read-only while it is used, so several threads may. */
typedef struct TraceKnown TraceKnown;

TraceKnown *trace_known_new(void);
void trace_known_free(TraceKnown *known); /* accepts NULL */

typedef struct TraceScanOptions {
    bool skip_host;     /* keep GPU operations, annotations and steps alone */
    bool skip_python;   /* no python_function */
    int64_t from, to;   /* keep only what touches [from, to); both 0: all. Calls and everything else alike */
    size_t memory_max;  /* bytes of profile; over it the scan stops with -ENOSPC. 0: no limit */
    size_t piece_bytes; /* of trace_scan_parallel; 0: what is fastest */
    void (*raw)(void *context, const TraceRaw *raw); /* every event in the order of the text, kept or not; may be NULL;
                                                        with it trace_scan_parallel runs one thread */
    void (*member)(void *context, const char *bytes, size_t len); /* with raw: the members around the event list */
    void *context;
    const TraceKnown *known; /* of the same text, NULL nothing */
    TraceKnown *learn;       /* filled at the end; may be NULL */
} TraceScanOptions;

/* A text from its beginning on: read gives the next bytes, up to `len` (0 at the end, -errno). One thread at a time
 * reads. */
typedef struct TraceSource {
    ssize_t (*read)(void *context, void *buffer, size_t len, Err *err);
    void *context;
    const bool *stop; /* becomes true where the user interrupts: -EINTR; may be NULL */
} TraceSource;

/* Reads all of `source` into `into` with up to `threads` threads. The text's own faults are losses; an error is an
 * unreadable source, no trace, memory or an interruption. Does not seal. */
int trace_scan_parallel(const TraceSource *source, const TraceScanOptions *options, unsigned int threads, Profile *into,
                        Err *err);
