/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The steps of inference engines, known by the names of their ranges (inference.def). */

#include <stdbool.h>
#include <stdint.h>

typedef enum TraceStepKind {
    TRACE_STEP_OTHER, /* no step of an inference engine */
    TRACE_STEP_PREFILL,
    TRACE_STEP_DECODE,
    TRACE_STEP_MIXED, /* both */
    TRACE_STEP_KIND_COUNT
} TraceStepKind;
extern const char *const trace_step_words[TRACE_STEP_KIND_COUNT]; /* "" for OTHER */

typedef struct TraceBatch {
    TraceStepKind kind;
    int64_t sequences; /* -1 unknown */
    int64_t tokens;    /* that the step computes, -1 unknown */
} TraceBatch;

/* What the name of a range says of the step; false: it names none, or one without sequences. */
bool trace_read_batch(const char *name, TraceBatch *ret);
