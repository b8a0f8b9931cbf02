/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What all analyses of a sealed profile share, worked out once: which call launched which GPU operation, which host
 * event lies in which, what each name means, and where the steps are. Borrowed profile; read-only afterwards, so
 * several threads may use it. Cost: 10 bytes per host event, 4 more per operator and 13 per GPU operation, and while it
 * is made up to 12 more per call. Linear in events (and in steps).
 *
 * A host event lies in another of its lane where it starts inside it and ends with it or before; an end that sticks out
 * by TRACE_JITTER_NS or less is forgiven where most of the event is inside. What overlaps otherwise are neighbours.
 *
 * A GPU operation was launched by the call of its correlation. Where several calls have that number (runtime and driver
 * layer, or a number used again) it is the one that started last before the operation, so the innermost; where all
 * start later, the first. Calls that wait or allocate are taken only where no other has the number.
 */

#include <string.h>

#include "base/vec.h"
#include "engine/trace/classify.h"
#include "engine/trace/inference.h"
#include "model/profile.h"

enum { TRACE_JITTER_NS = 2000 }; /* start and duration cut to microseconds: an end is up to two of them early */

/* trace_is_tensor_core, trace_is_float_matrix, trace_is_aligned, trace_may_be_tensor_core, trace_is_helper */
enum {
    TRACE_KERNEL_TENSOR = 1,
    TRACE_KERNEL_FLOAT = 2,
    TRACE_KERNEL_ALIGNED = 4,
    TRACE_KERNEL_MAYBE = 8,
    TRACE_KERNEL_HELPER = 16
};

typedef struct TraceStep {
    const char *name;   /* "ProfilerStep#5"; of the profile */
    int64_t number;     /* 5; -1 where the name has none */
    int64_t start, end; /* of the annotation on the host */
    int64_t to;         /* end of the step's window: the next step's start; for the last, the end of the last operation
                           that was launched within it, and never before `end`. A step's window is [start, to). */
    TraceBatch batch;   /* of an inference engine's step */
    bool on_gpu;        /* known from the GPU's annotation alone */
} TraceStep;

typedef VEC(TraceStep) TraceSteps;

typedef struct TraceIndex {
    const Profile *profile;
    uint32_t *launch;     /* gpu row -> host row of the call that launched it, PROFILE_NONE. One call may have many */
    uint32_t *op;         /* gpu row -> host row of the innermost operator around the launch, else the operator of its
                             external id, else PROFILE_NONE */
    uint32_t *parent;     /* host row -> host row of the innermost event around it on its lane (a lower row), or NONE */
    uint8_t *kernel_name; /* name -> TRACE_KERNEL_* where a kernel has it */
    bool *graph_name;     /* name -> a call of this name launches a graph */
    uint8_t *gpu_class;   /* gpu row -> TraceClass */
    uint8_t *host_class;  /* host row -> TraceHostClass; an asynchronous copy from or to pageable memory is HOST_COPY */
    uint8_t *host_inside; /* host row -> the class of it or of the innermost event around it that says what the host
                             does (DATA to LOGGING); INITIALISING or LOADING for a call that was a first use; else as
                             host_class */
    size_t *lane_first;   /* lane -> first host row; lane_first[lanes.len] == host.len */
    uint32_t *op_at;      /* host row -> number of the innermost operator that it is or lies in, PROFILE_NONE */
    uint32_t *op_rows;    /* number of an operator -> host row, ascending */
    size_t op_count;
    uint32_t *stream_rows; /* gpu rows by lane, each lane's by start */
    size_t *stream_first;  /* lane -> first of stream_rows; stream_first[lanes.len] == gpu.len */
    TraceSteps steps;      /* by start; outermost annotations "ProfilerStep#N", one each, of the lane that has most */
    VEC(int32_t) devices;  /* that have operations, ascending */
    VEC(size_t) device_first;  /* devices.len + 1 entries: rows of the gpu table */
    uint64_t linked, unlinked; /* GPU operations with and without a known launch */
} TraceIndex;

/* `profile` is sealed and outlives the index, which is made by at most `threads` threads (0 and 1: the caller's alone)
 * and does not depend on how many. */
void trace_index_init(TraceIndex *index, const Profile *profile, unsigned int threads);
void trace_index_done(TraceIndex *index); /* accepts a zeroed one */

/* Bytes of memory held. */
size_t trace_index_bytes(const TraceIndex *index);

/* Widens the time *from..*to to all rows of a table. */
static inline void trace_widen(const ProfileEvents *table, int64_t *from, int64_t *to)
{
    for (size_t i = 0; i < table->len; i++) {
        const int64_t end = profile_end(table, i);

        *from = table->start[i] < *from ? table->start[i] : *from;
        *to = end > *to ? end : *to;
    }
}

/* Class of a GPU row. */
static inline TraceClass trace_gpu_class(const TraceIndex *index, size_t row)
{
    return (TraceClass)index->gpu_class[row];
}

/* Class of a host row. */
static inline TraceHostClass trace_host_class(const TraceIndex *index, size_t row)
{
    return (TraceHostClass)index->host_class[row];
}

/* Whether a host row's name begins with that. */
static inline bool trace_host_begins(const TraceIndex *index, uint32_t row, const char *beginning)
{
    return strncmp(profile_text(index->profile, index->profile->host.name[row], NULL), beginning, strlen(beginning)) ==
           0;
}

/* Whether a call waits for the device. Calls only: an operator that synchronises also spans the work before. */
static inline bool trace_waits_for_device(const TraceIndex *index, size_t row)
{
    return (index->host_class[row] == TRACE_HOST_SYNC || index->host_class[row] == TRACE_HOST_COPY) &&
           index->profile->host.kind[row] == PROFILE_CALL;
}

/* When the launch call of a GPU row began, INT64_MIN unknown. */
static inline int64_t trace_launch_start(const TraceIndex *index, size_t row)
{
    return index->launch[row] == PROFILE_NONE ? INT64_MIN : index->profile->host.start[index->launch[row]];
}

/* The operator that an operator lies in, both by number; PROFILE_NONE: in none. */
static inline uint32_t trace_operator_around(const TraceIndex *index, uint32_t op)
{
    const uint32_t parent = index->parent[index->op_rows[op]];

    return parent == PROFILE_NONE ? PROFILE_NONE : index->op_at[parent];
}

/* ---- index_first.c, for index.c ---- */

/* Marks in host_inside the calls that loaded a kernel's code or made a context. Needs launch, host_inside and steps. */
void trace_index_first(TraceIndex *index);

/* ---- steps (index_steps.c), for index.c ---- */

typedef VEC(uint32_t) TraceRows;

/* "ProfilerStep#5": what PyTorch's profiler writes. */
bool trace_is_step_name(const char *name, size_t len);

/* Fills steps from the host rows named as steps, else from GPU annotations. Needs launch. */
void trace_index_steps(TraceIndex *index, const TraceRows *step_rows);
