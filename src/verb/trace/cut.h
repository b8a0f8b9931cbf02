/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Copying what is meant of a trace into a smaller one. */

#include <stdint.h>

#include "base/str.h"
#include "verb/trace/input.h"
#include "verb/trace/outfile.h"
#include "verb/trace/pick.h"

typedef struct TraceCut {
    const TraceAsk *ask;
    const char *path;
    unsigned int threads;
    size_t memory;
    const bool *stop;
    /* out */
    uint64_t events, copied, unreadable; /* met, written, left out because no JSON could be made of them */
    uint64_t lost;                       /* of the profile that was read */
    bool metadata_lost;                  /* what stands around the event list could not be read */
} TraceCut;

/* Reads `input`, writes the trace. 0, -errno, TRACE_CUT_OTHER_RANK. */
enum { TRACE_CUT_OTHER_RANK = 1 };
int trace_cut(TraceCut *cut, TraceInput *input, OutFile *out, Err *err);

/* What stands around the event list as members of an object, without its braces, for the head (before the list) and
 * the tail (behind it) of the text. "" where there is nothing; false where it is not readable. */
bool trace_cut_head(const char *bytes, size_t len, Str *out);
bool trace_cut_tail(const char *bytes, size_t len, Str *out);
