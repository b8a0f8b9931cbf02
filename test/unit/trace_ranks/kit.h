/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Small profiles by hand, in whole microseconds: threads are lanes of process 1, streams of device 0 unless told. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/trace/analyse.h"

#define US INT64_C(1000)
#define MS INT64_C(1000000)
#define SECOND INT64_C(1000000000)

typedef struct Kit {
    Profile profile;
    TraceIndex index;
    TraceConfig config;
    Arena arena;
    TraceRank rank;
    bool sealed;
} Kit;

void kit_init(Kit *kit);
void kit_done(Kit *kit);
uint32_t kit_name(Kit *kit, const char *text); /* PROFILE_NONE for NULL */

/* A host event; `link`: correlation of calls. */
void kit_host(Kit *kit, ProfileKind kind, int64_t thread, const char *name, int64_t start_us, int64_t us,
              uint32_t link);
/* A kernel (copies: names that begin with "Memcpy") launched by the call with that correlation, 0 unknown. */
void kit_gpu(Kit *kit, int32_t device, int64_t stream, const char *name, int64_t start_us, int64_t us, uint32_t link);
/* A launch call of 5 us and its kernel. */
void kit_launched(Kit *kit, int64_t thread, int64_t call_us, int64_t stream, const char *name, int64_t start_us,
                  int64_t us, uint32_t link);

/* What a collective's arguments are; zeroed members are unknown. */
typedef struct KitCollective {
    const char *name, *dtype, *group, *ranks;
    int64_t in, out, size, sequence, source, target; /* 0: unknown; ranks and sequence are given plus 1 */
} KitCollective;
void kit_collective_kernel(Kit *kit, int64_t stream, const char *name, int64_t start_us, int64_t us, uint32_t link,
                           const KitCollective *detail);
void kit_collective_op(Kit *kit, int64_t thread, int64_t start_us, int64_t us, const KitCollective *detail);

void kit_seal(Kit *kit);
typedef void (*KitAnalysis)(const TraceJob *job, TraceRank *rank);
void kit_run(Kit *kit, KitAnalysis analysis, TraceRank *rank);
void kit_rank_done(TraceRank *rank);

/* Random numbers that are the same everywhere. */
typedef struct KitRandom {
    uint64_t state;
} KitRandom;
uint64_t kit_random(KitRandom *random);
int64_t kit_between(KitRandom *random, int64_t low, int64_t high); /* both included */
