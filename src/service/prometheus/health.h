/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * DCGM_EXP_GPU_HEALTH_STATUS: the open incidents of a GPU in DCGM's words, by subsystem (health.def). A subsystem of
 * which nothing is read is unknown, not healthy. Pure, any thread.
 */

#include <stdbool.h>

#include "model/incident.h"
#include "model/node.h"

/* HEALTH_WATCH(id), in DCGM's order */
#define HEALTH_WATCH_TABLE(HEALTH_WATCH)                                                                               \
    HEALTH_WATCH(PCIE)                                                                                                 \
    HEALTH_WATCH(NVLINK)                                                                                               \
    HEALTH_WATCH(PMU)                                                                                                  \
    HEALTH_WATCH(MCU)                                                                                                  \
    HEALTH_WATCH(MEM)                                                                                                  \
    HEALTH_WATCH(SM)                                                                                                   \
    HEALTH_WATCH(INFOROM)                                                                                              \
    HEALTH_WATCH(THERMAL)                                                                                              \
    HEALTH_WATCH(POWER)                                                                                                \
    HEALTH_WATCH(DRIVER)                                                                                               \
    HEALTH_WATCH(ALL)

typedef enum HealthWatch {
#define HEALTH_WATCH(id) HEALTH_##id,
    HEALTH_WATCH_TABLE(HEALTH_WATCH)
#undef HEALTH_WATCH
        HEALTH_END,
} HealthWatch;

typedef enum HealthResult { HEALTH_PASS = 0, HEALTH_WARN = 10, HEALTH_FAIL = 20 } HealthResult;

typedef struct Health {
    bool known;
    HealthResult result;
    const char *code; /* DCGM's name of the worst finding, "" where it is a pass */
} Health;

extern const char *const health_watch_names[HEALTH_END];

/* Of a GPU. ALL is the worst of the known ones. */
void health_of_gpu(const NodeGpu *gpu, const Incident *const *incidents, size_t count, Health health[HEALTH_END]);

/* Whether this metric has to be read for it. */
bool health_needs(MetricId id);
