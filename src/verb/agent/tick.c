/* SPDX-License-Identifier: Apache-2.0 */
/* One second of the agent: the view is made, judged, kept and shown. */
#include <string.h>

#include "base/cleanup.h"
#include "verb/agent/agent.h"

/* What the agent itself wants, whatever is exported: for the history, `stoker status` and the JSON. */
static const MetricId wanted[] = {
    METRIC_SM_CLOCK,
    METRIC_MEM_CLOCK,
    METRIC_MAX_SM_CLOCK,
    METRIC_GPU_TEMP,
    METRIC_MEMORY_TEMP,
    METRIC_SLOWDOWN_TEMP,
    METRIC_POWER_USAGE,
    METRIC_ENFORCED_POWER_LIMIT,
    METRIC_TOTAL_ENERGY_CONSUMPTION,
    METRIC_GPU_UTIL,
    METRIC_MEM_COPY_UTIL,
    METRIC_ENC_UTIL,
    METRIC_DEC_UTIL,
    METRIC_FB_TOTAL,
    METRIC_FB_USED,
    METRIC_FB_FREE,
    METRIC_FB_RESERVED,
    METRIC_CLOCKS_EVENT_REASONS,
    METRIC_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS,
    METRIC_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS,
    METRIC_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS,
    METRIC_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS,
    METRIC_XID_ERRORS,
    METRIC_ECC_SBE_VOL_TOTAL,
    METRIC_ECC_DBE_VOL_TOTAL,
    METRIC_UNCORRECTABLE_REMAPPED_ROWS,
    METRIC_CORRECTABLE_REMAPPED_ROWS,
    METRIC_ROW_REMAP_FAILURE,
    METRIC_ROW_REMAP_PENDING,
    METRIC_GPU_RECOVERY_ACTION,
    METRIC_PCIE_REPLAY_COUNTER,
    METRIC_PCIE_LINK_GEN,
    METRIC_PCIE_LINK_WIDTH,
    METRIC_PCIE_MAX_LINK_GEN,
    METRIC_PCIE_MAX_LINK_WIDTH,
    METRIC_PROF_GR_ENGINE_ACTIVE,
    METRIC_PROF_SM_ACTIVE,
    METRIC_PROF_SM_OCCUPANCY,
    METRIC_PROF_PIPE_TENSOR_ACTIVE,
    METRIC_PROF_DRAM_ACTIVE,
    METRIC_PCIE_TX_BYTES_COUNT,
    METRIC_PCIE_RX_BYTES_COUNT,
    METRIC_NVLINK_TX_BYTES_COUNT,
    METRIC_NVLINK_RX_BYTES_COUNT,
    METRIC_DRIVER_VERSION,
    METRIC_NVML_VERSION,
    METRIC_VBIOS_VERSION,
    METRIC_SERIAL,
    METRIC_BRAND,
    METRIC_MIG_MODE,
    METRIC_PERSISTENCE_MODE,
};

void agent_plan(Agent *agent)
{
    BoardPlan plan = {0};
    const ExporterConfig *e = &agent->config->exporter;

    exporter_wanted(agent->exporter, plan.wanted);
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
        plan.wanted[wanted[i] / 64] |= UINT64_C(1) << (wanted[i] % 64);
    judge_add_wanted(&agent->judge, &plan);
    memcpy(plan.period_ns, e->period_ns, sizeof plan.period_ns);
    board_set_plan(agent->sampling.board, &plan);
}

/* The HPC job files: a stat each where nothing changed. */
static void read_jobs(Agent *agent)
{
    Err err;
    int rc = hpc_update(&agent->jobs, &err);

    if (rc == 0)
        return;
    if (rc < 0 && log_limit(&agent->jobs_limit, clock_monotonic(clock_kernel()), &(uint64_t){0}))
        log_write(&agent->log, LOG_LEVEL_WARN, "%s", err.text);
    vec_clear(&agent->job_list);
    for (size_t i = 0; i < agent->jobs.table.len; i++) {
        const HpcJob *job = &agent->jobs.table.at[i];

        vec_push(&agent->job_list, ((ExporterJob){.gpu = job->gpu, .instance = job->gpu_instance, .job = job->job}));
    }
}

static void decide_activities(Agent *agent)
{
    const Incident *incidents[INCIDENTS_MAX];
    const Snapshot snapshot = agent_snapshot(agent, incidents);

    activities_update(agent->activities, &snapshot, agent->store);
}

void agent_tick(Agent *agent)
{
    const Node *node = sampling_read(&agent->sampling);
    uint64_t now = node->time_ns;

    agent->ticks++;
    if (agent->last_tick_ns && now - agent->last_tick_ns > 2 * NS_PER_S)
        agent->late_ticks++;
    agent->last_tick_ns = now;
    if (agent->jobs_on)
        read_jobs(agent);
    store_add_node(agent->store, node);
    judge_tick(&agent->judge, node);
    decide_activities(agent);
    windows_add(agent->windows, node);
    exporter_tick(agent->exporter, node);
    agent_stream_tick(agent);
}
