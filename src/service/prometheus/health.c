/* SPDX-License-Identifier: Apache-2.0 */
/* See health.h. Pure, any thread. */

#include "service/prometheus/health.h"

#include <string.h>

#include "engine/health/incidents.h"

const char *const health_watch_names[HEALTH_END] = {
#define HEALTH_WATCH(id) [HEALTH_##id] = #id,
    HEALTH_WATCH_TABLE(HEALTH_WATCH)
#undef HEALTH_WATCH
};

/* DCGM's words for classes; a class that is not in it goes by its cause. */
static const struct {
    const char *class;
    HealthWatch watch;
    const char *code;
} classes[] = {
#define HEALTH_CLASS(class, watch, code) {class, HEALTH_##watch, code},
#include "service/prometheus/health.def"
#undef HEALTH_CLASS
};

/* HEALTH_END: no watch has it. */
static const HealthWatch watch_by_cause[CAUSE_END] = {
    [CAUSE_APPLICATION] = HEALTH_END, [CAUSE_DRIVER] = HEALTH_DRIVER,     [CAUSE_MEMORY] = HEALTH_MEM,
    [CAUSE_BUS] = HEALTH_PCIE,        [CAUSE_LINK] = HEALTH_NVLINK,       [CAUSE_THERMAL] = HEALTH_THERMAL,
    [CAUSE_POWER] = HEALTH_POWER,     [CAUSE_FIRMWARE] = HEALTH_PMU,      [CAUSE_FABRIC] = HEALTH_NVLINK,
    [CAUSE_HOST] = HEALTH_DRIVER,     [CAUSE_CONFIGURATION] = HEALTH_END, [CAUSE_OPERATOR] = HEALTH_END,
    [CAUSE_UNKNOWN] = HEALTH_SM,
};

/* What has to be read for a watch to be a pass; METRIC_END: nothing, it goes by the logs. Nothing finds faults of the
 * MCU. */
static const MetricId gates[HEALTH_ALL] = {
    [HEALTH_PCIE] = METRIC_PCIE_REPLAY_COUNTER,
    [HEALTH_NVLINK] = METRIC_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL,
    [HEALTH_PMU] = METRIC_END,
    [HEALTH_MCU] = METRIC_END,
    [HEALTH_MEM] = METRIC_ECC_DBE_VOL_TOTAL,
    [HEALTH_SM] = METRIC_END,
    [HEALTH_INFOROM] = METRIC_END,
    [HEALTH_THERMAL] = METRIC_CLOCKS_EVENT_REASONS,
    [HEALTH_POWER] = METRIC_CLOCKS_EVENT_REASONS,
    [HEALTH_DRIVER] = METRIC_END,
};

static void add_result(Health *health, HealthResult result, const char *code)
{
    health->known = true;
    if (result <= health->result)
        return;
    health->result = result;
    health->code = code;
}

static void add_incident(const Incident *incident, Health health[HEALTH_END])
{
    const HealthResult result = incident->severity >= SEVERITY_ERROR ? HEALTH_FAIL : HEALTH_WARN;
    const HealthWatch watch = watch_by_cause[incident->cause];

    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++)
        if (strcmp(classes[i].class, incident->class) == 0) {
            add_result(&health[classes[i].watch], result, classes[i].code);
            return;
        }
    if (watch != HEALTH_END)
        add_result(&health[watch], result, incident->code ? "DCGM_FR_XID_ERROR" : "DCGM_FR_UNKNOWN");
}

void health_of_gpu(const NodeGpu *gpu, const Incident *const *incidents, size_t count, Health health[HEALTH_END])
{
    for (HealthWatch w = 0; w < HEALTH_END; w++)
        health[w] = (Health){.code = ""};
    for (HealthWatch w = 0; w < HEALTH_ALL && gpu->state == GPU_UP; w++)
        if (w != HEALTH_MCU && (gates[w] == METRIC_END || gpu->reading.sample[gates[w]].valid))
            add_result(&health[w], HEALTH_PASS, "");
    for (size_t i = 0; i < count; i++)
        if (incident_is_problem(incidents[i]) && incident_hits(incidents[i], &gpu->reading.device))
            add_incident(incidents[i], health);
    for (HealthWatch w = 0; w < HEALTH_ALL; w++)
        if (health[w].known)
            add_result(&health[HEALTH_ALL], health[w].result, health[w].code);
}

bool health_needs(MetricId id)
{
    for (HealthWatch w = 0; w < HEALTH_ALL; w++)
        if (id == gates[w])
            return true;
    return false;
}
