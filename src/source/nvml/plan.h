/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The agent's plan, made ready for reading: which calls are made at which pace, which fields go into the one
 * nvmlDeviceGetFieldValues of a pace, which GPM metrics are read. Made again when the plan or the driver changes; the
 * same for all GPUs. One thread.
 */

#include <stdbool.h>
#include <stdint.h>

#include "nvml_abi.h"
#include "source/board/board.h"

enum {
    NVML_LINKS_MAX = 36,
    NVML_FIELDS_MAX = 256, /* entries of one nvmlDeviceGetFieldValues; a test holds the catalogue to it */
    NVML_USES_MAX = 96,
    NVML_GPM_MAX = 96,
    NVML_NO_FIELD = UINT16_MAX,
};

typedef struct NvmlField {
    uint16_t id;
    bool per_link; /* scope is a link: read only of GPUs that have it */
    uint32_t scope;
} NvmlField;

/* What a metric is made of: entry `first`, plus entry `second` where there is one; or the sum of `links` entries from
 * `first` on. */
typedef struct NvmlFieldUse {
    MetricId metric;
    uint16_t first, second, links;
} NvmlFieldUse;

typedef struct NvmlBatch {
    uint16_t field_count, use_count;
    NvmlField fields[NVML_FIELDS_MAX];
    NvmlFieldUse uses[NVML_USES_MAX];
} NvmlBatch;

typedef struct NvmlGpmList {
    uint16_t count;
    MetricId metrics[NVML_GPM_MAX];
} NvmlGpmList;

typedef struct NvmlPlan {
    BoardPlan board;
    uint32_t number; /* counts up with every change */
    NvmlBatch batches[METRIC_PACE_DERIVE];
    NvmlGpmList gpm_gpu, gpm_instance; /* of a whole GPU, of a GPU instance */
    bool lacking[METRIC_END];          /* fields and GPM metrics that this driver does not know yet */
} NvmlPlan;

/* A driver_major of 0 is taken for one that knows everything. */
void nvml_plan_make(NvmlPlan *plan, const BoardPlan *board, unsigned int driver_major);

static inline bool nvml_plan_wants(const NvmlPlan *plan, MetricId id)
{
    return board_wants(&plan->board, id);
}
/* The plan's period of a pace, or the usual one where it has none. */
uint64_t nvml_plan_period(const NvmlPlan *plan, MetricPace pace);
