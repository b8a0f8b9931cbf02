/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Builds small profiles by hand, in whole microseconds (a nanosecond where the name says so), and runs one analysis on
 * them. Threads are numbers from 100 on, streams below that on device 0. One thread. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/trace/analyse.h"

typedef struct Kit {
    Profile profile;
    TraceIndex index;
    Arena arena;
    TraceRank rank;
    bool sealed;
} Kit;

void kit_init(Kit *kit);
void kit_done(Kit *kit);

uint32_t kit_name(Kit *kit, const char *text);

/* An event on a thread; `link` is the correlation of calls, the external id of operators. */
void kit_host(Kit *kit, ProfileKind kind, int64_t thread, const char *name, int64_t start_us, int64_t us,
              uint32_t link);
/* An operator with recorded inputs. */
void kit_op(Kit *kit, int64_t thread, const char *name, int64_t start_us, int64_t us, const char *dims,
            const char *types);
/* The same with its "Concrete Inputs", NULL or "" for none. */
void kit_op_of(Kit *kit, int64_t thread, const char *name, int64_t start_us, int64_t us, const char *dims,
               const char *types, const char *arguments);
/* A kernel that the call with this correlation launched; 0: nobody knows. `launch` may be NULL. */
void kit_kernel(Kit *kit, int32_t device, int64_t stream, const char *name, int64_t start_us, int64_t us, uint32_t link,
                const ProfileLaunch *launch);
void kit_copy(Kit *kit, int32_t device, int64_t stream, const char *name, int64_t start_us, int64_t us, int64_t bytes);
/* A range as the GPU saw it. */
void kit_mark(Kit *kit, int32_t device, int64_t stream, const char *name, int64_t start_us, int64_t us);
/* An allocation; totals -1: not recorded. */
void kit_memory(Kit *kit, int16_t device, int64_t thread, int64_t start_us, int64_t bytes, int64_t allocated,
                int64_t reserved);

/* Seals and indexes. */
void kit_seal(Kit *kit);

typedef void (*KitAnalysis)(const TraceJob *job, TraceRank *rank);

/* Runs an analysis into `rank` (zeroed before by the caller). */
void kit_run(Kit *kit, KitAnalysis analysis, TraceRank *rank);

/* Rows of a rank by name, failing where there is none. */
const TraceKernel *kit_find_kernel(const TraceRank *rank, const char *name);
const TraceOperator *kit_find_operator(const TraceRank *rank, const char *name);
const TraceAnnotation *kit_find_annotation(const TraceRank *rank, const char *name, bool on_gpu);
const TraceCopy *kit_find_copy(const TraceRank *rank, const char *kind, const char *source);

#define US 1000
