/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * DCGM_EXP_GPU_HEALTH_STATUS: health by subsystem, from a table of rules over what is read anyway (health.def) and
 * from the open incidents of the GPU (health_class.def), which stand for its XIDs. A watch
 * of which nothing can be said - no rule, or no value for any of its rules - is unknown, not healthy. Every rule lets
 * go of its verdict when its cause is gone; XIDs count for as long as the XID window. Pure, any thread.
 */

#include <stdbool.h>

#include "model/incident.h"
#include "service/prometheus/counts.h"

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

/* What is judged from. */
typedef struct HealthInput {
    const NodeGpu *gpu;
    const GpuCounts *counted; /* NULL: nothing */
    uint64_t xid_width_ns, now_ns;
    bool judged; /* incidents are known; where they are not, XIDs count themselves */
    const Incident *const *incidents;
    size_t incident_count;
} HealthInput;

/* Judges a GPU. ALL is the worst of the known ones. */
void health_judge(const HealthInput *of, Health health[HEALTH_END]);

/* Whether a rule reads this metric. */
bool health_needs(MetricId id);
