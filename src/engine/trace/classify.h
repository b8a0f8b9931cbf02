/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What a name means: the class of a GPU operation, whether a kernel uses tensor cores, what a host event does. One
 * table each (classify.def), matched in order. Pure; any thread. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/profile.h"

typedef enum TraceClass {
    TRACE_COMPUTE,
    TRACE_COMMUNICATION, /* collectives and point-to-point: NCCL, RCCL, symmetric memory, custom all-reduce, NVSHMEM,
                            DeepEP, HCCL */
    TRACE_COPY,          /* copies and sets, and the runtimes' own copy and fill kernels */
    TRACE_CLASS_COUNT
} TraceClass;

/* Class of a GPU operation of this kind and name. */
TraceClass trace_classify(ProfileKind kind, const char *name, size_t len);

/* Whether a kernel of this name runs on tensor cores (NVIDIA) or matrix cores (AMD), as far as names tell. */
bool trace_is_tensor_core(const char *name, size_t len);
/* Whether it multiplies matrices, and its name does not tell on what. */
bool trace_may_be_tensor_core(const char *name, size_t len);
/* Whether a kernel of this name only prepares or finishes what another one multiplies, as far as names tell. */
bool trace_is_helper(const char *name, size_t len);
/* Whether an operator could use them (matrix products, convolutions, attention). */
bool trace_is_matrix_op(const char *name, size_t len);

typedef enum TraceHostClass {
    TRACE_HOST_OTHER,
    TRACE_HOST_OP,         /* operator */
    TRACE_HOST_LAUNCH,     /* a call that puts work on a stream: kernels, graphs, asynchronous copies and sets */
    TRACE_HOST_SYNC,       /* waits for the GPU: stream, device, event synchronisation, .item() */
    TRACE_HOST_COPY,       /* a copy that blocks the host */
    TRACE_HOST_ALLOCATOR,  /* cudaMalloc, cudaFree, host and pool allocation */
    TRACE_HOST_DATA,       /* data loading */
    TRACE_HOST_COLLECTIVE, /* waits for other ranks: barriers, gloo, work wait, store */
    TRACE_HOST_COMPILE,    /* torch.compile, Inductor, Triton */
    TRACE_HOST_TOKENISING,
    TRACE_HOST_COLLECTING,   /* Python's garbage collector */
    TRACE_HOST_CHECKPOINT,   /* saves or loads the model's state */
    TRACE_HOST_LOGGING,      /* log, TensorBoard and the like */
    TRACE_HOST_LOADING,      /* loads code to the GPU: modules, and the first launch of a kernel */
    TRACE_HOST_INITIALISING, /* makes a context or a library's handle */
    TRACE_HOST_RUNTIME,      /* any other call of the runtime or driver */
    TRACE_HOST_PYTHON,       /* a Python function */
    TRACE_HOST_MARK,         /* annotations without a kind of work (ProfilerStep, NVTX) */
    TRACE_HOST_CLASS_COUNT
} TraceHostClass;

TraceHostClass trace_classify_host(ProfileKind kind, const char *name, size_t len);

/* Words for outputs: "compute", "communication", "copy"; "op", "launch", ... */
extern const char *const trace_class_words[TRACE_CLASS_COUNT];
extern const char *const trace_host_words[TRACE_HOST_CLASS_COUNT];

/* What the recorded shapes and types of a matrix operator's inputs say: whether tensor cores could take them, and
 * whether the dimensions suit them. Any thread. */

enum {
    TRACE_SHAPE_KNOWN = 1,      /* an operator of a known kind, shapes and types recorded */
    TRACE_SHAPE_FLOAT = 2,      /* the matrices are 32-bit float (types are enough) */
    TRACE_SHAPE_TYPED = 4,      /* the matrices' type is recorded and known */
    TRACE_SHAPE_MISALIGNED = 8, /* depth or columns are no multiple of 8 (16-bit types) or 16 (8-bit types). Rows do not
                                   count: elements of a row lie side by side, not rows */
};

/* Which inputs of the operator are matrices, and how their dimensions make the product. */
typedef enum TraceShapeRule {
    TRACE_SHAPE_NONE,
    TRACE_SHAPE_PRODUCT,       /* mm, bmm, matmul: inputs 0 and 1, the last two dimensions */
    TRACE_SHAPE_ADDED,         /* addmm, baddbmm: inputs 1 and 2 */
    TRACE_SHAPE_LINEAR,        /* linear: x (..., k) and weight (n, k) */
    TRACE_SHAPE_CONVOLUTION,   /* channels of input 1 of weight (out, in / groups, ...) */
    TRACE_SHAPE_CONV_BACKWARD, /* convolution_backward: inputs 1 and 2 */
    TRACE_SHAPE_RULE_COUNT
} TraceShapeRule;

/* Whether a kernel of this name multiplies matrices in 32-bit float on the ordinary cores. */
bool trace_is_float_matrix(const char *name, size_t len);

/* Whether a kernel of this name reads 16 bytes at once, so that its matrices are aligned whatever their shapes: by the
 * elements that the name says ("align8", "ldg8"), or because it is of a kind that cannot do otherwise (nvjet). */
bool trace_is_aligned(const char *name, size_t len);

TraceShapeRule trace_shape_rule(const char *op, size_t len);

/* TRACE_SHAPE_* of dims ("[[32, 128], [128, 64]]") and types ("[\"float\", \"float\"]"); "" not recorded. Dimensions of
 * 1 are not checked: that is a product with a vector. */
unsigned trace_shape_check(TraceShapeRule rule, const char *dims, const char *types);

enum { TRACE_DIMS_MAX = 8 };

typedef struct TraceDims {
    int64_t at[TRACE_DIMS_MAX];
    size_t len;
} TraceDims;

/* The n-th element of a list in brackets: its first byte and one past its last. False if the list is shorter. */
bool trace_find_element(const char *list, size_t n, const char **ret_from, const char **ret_to);

/* The n-th element where that is a list of numbers, in quotes or not ("[[32, 128], ...]", "[\"[1, 1]\", ...]"): false
 * for anything else, also for an empty list. */
bool trace_read_dims(const char *list, size_t n, TraceDims *ret);

/* What the names of collectives mean, whoever wrote them (collectives.c): frameworks ("_allgather_base"), annotations
 * ("nccl:all_gather") or kernels ("ncclDevKernel_AllGather_RING_LL"). Any thread. */

typedef enum CollectiveKind {
    COLLECTIVE_ALL_REDUCE,
    COLLECTIVE_REDUCE_SCATTER,
    COLLECTIVE_ALL_GATHER,
    COLLECTIVE_ALL_TO_ALL,
    COLLECTIVE_BROADCAST,
    COLLECTIVE_BARRIER,
    COLLECTIVE_SEND_RECV, /* both in one kernel */
    COLLECTIVE_SEND,
    COLLECTIVE_RECV,
    COLLECTIVE_GATHER,
    COLLECTIVE_SCATTER,
    COLLECTIVE_REDUCE,
    COLLECTIVE_UNKNOWN,
    COLLECTIVE_KIND_COUNT
} CollectiveKind;

CollectiveKind collective_kind(const char *name, size_t len);

/* Whether no rank can end it before all ranks have begun: then ends coincide, and the rank that came last has the
 * shortest part. */
bool collective_joins_all(CollectiveKind kind);

/* The size that bandwidths are defined on, as in nccl-tests: one rank's contribution for all_reduce, broadcast,
 * reduce and point-to-point, the sum over all ranks for the others. -1 unknown. */
int64_t collective_bytes(CollectiveKind kind, int64_t in_bytes, int64_t out_bytes, int64_t group_size);

/* Bus bandwidth = algorithm bandwidth * factor; NaN where there is none. */
double collective_bus_factor(CollectiveKind kind, int64_t group_size);

/* Bytes of an element of a framework's type ("Float", "c10::BFloat16", "torch.int64"), 0 unknown. */
int64_t collective_dtype_bytes(const char *dtype, size_t len);

/* Whether a path of a Python file (what follows it does not matter) is neither of PyTorch, Triton and numpy nor of
 * Python's own library. */
bool trace_is_user_path(const char *path);
