/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Small profiles written as one reads them: threads by number, devices and streams by number, times in nanoseconds.
 *
 *     Build b;
 *     build_init(&b);
 *     build_op(&b, 1, 0, 100, "aten::mm");
 *     build_launch(&b, 1, 10, 20, 0, 7, 50, 200, "gemm");    thread 1 calls at 10 for 20; the kernel runs at 50 for 200
 *     build_seal(&b);                                        b.index is ready
 *     ... build_done(&b);
 */

#include "base/arena.h"
#include "engine/trace/analyse.h"

typedef struct Build {
    Profile profile;
    TraceIndex index;
    TraceConfig config;
    Arena arena;
    uint32_t correlation; /* last given by build_launch */
    bool sealed;
} Build;

void build_init(Build *b);
void build_done(Build *b);
void build_seal(Build *b); /* seals the profile and makes the index */

/* One host event of any kind. `link`: correlation of a call, external id of an operator, 0 none. */
void build_host(Build *b, ProfileKind kind, int64_t thread, int64_t start, int64_t duration, const char *name,
                uint32_t link);
void build_op(Build *b, int64_t thread, int64_t start, int64_t duration, const char *name);
void build_range(Build *b, int64_t thread, int64_t start, int64_t duration, const char *name);
void build_python(Build *b, int64_t thread, int64_t start, int64_t duration, const char *name);
void build_call(Build *b, int64_t thread, int64_t start, int64_t duration, const char *name, uint32_t correlation);

/* One GPU operation: correlation and external id may be 0. */
void build_gpu(Build *b, ProfileKind kind, int32_t device, int64_t stream, int64_t start, int64_t duration,
               const char *name, uint32_t correlation, uint32_t external);
void build_kernel(Build *b, int32_t device, int64_t stream, int64_t start, int64_t duration, const char *name,
                  uint32_t correlation);
/* A copy whose name says kind and memories, "Memcpy HtoD (Pageable -> Device)". */
void build_copy(Build *b, int32_t device, int64_t stream, int64_t start, int64_t duration, int64_t bytes,
                const char *name, uint32_t correlation);
/* A kernel with what is known of its launch. */
void build_shaped(Build *b, int32_t device, int64_t stream, int64_t start, int64_t duration, const char *name,
                  float blocks_per_sm, float occupancy_percent);

/* A call of cudaLaunchKernel and its kernel; returns their correlation. */
uint32_t build_launch(Build *b, int64_t thread, int64_t call_start, int64_t call_duration, int32_t device,
                      int64_t stream, int64_t start, int64_t duration, const char *name);
/* An annotation of the GPU. */
void build_mark(Build *b, int32_t device, int64_t stream, int64_t start, int64_t duration, const char *name);

/* The rows of the sealed table with this name, the n-th in its order; fails the test where there is none. */
uint32_t build_host_row(const Build *b, const char *name, size_t nth);
uint32_t build_gpu_row(const Build *b, const char *name, size_t nth);

/* Devices, gaps, steps, launches and queues. End with build_rank_done. */
void build_rank(Build *b, TraceRank *ret);
void build_rank_done(TraceRank *rank);
