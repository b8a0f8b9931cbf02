/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the names of collectives mean, whoever wrote them: frameworks ("_allgather_base"), annotations
 * ("nccl:all_gather") or kernels ("ncclDevKernel_AllGather_RING_LL"). Pure; any thread. */

#include <stdbool.h>
#include <stddef.h>

#include "engine/trace/report.h"

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
