/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A device's time as a row of segments in which the same classes run. Operations come by start, and a class runs as
 * long as any of its operations so far does, so three ends are all that is remembered: constant cost per operation
 * however many overlap. Between operations a segment with mask 0 is idle; each ends where an operation starts, one
 * without duration too.
 */

#include "engine/trace/analyse.h"

enum { TRACE_SWEEP_MASKS = 1 << TRACE_CLASS_COUNT };

typedef struct TraceSweep {
    const TraceIndex *index;
    size_t row, last;
    int64_t at;             /* all before is told */
    int64_t next, next_end; /* of the operation at `row`; INT64_MAX behind the last */
    int64_t end[TRACE_CLASS_COUNT];
} TraceSweep;

typedef struct TraceSegment {
    int64_t start, end;
    unsigned int mask; /* bits 1 << TraceClass */
} TraceSegment;

/* The device is given by its place in index->devices. */
void trace_sweep_init(TraceSweep *sweep, const TraceIndex *index, size_t device);

/* The next segment, never empty, adjoining the one before; false behind the last operation. */
bool trace_sweep_next(TraceSweep *sweep, TraceSegment *ret);
