/* SPDX-License-Identifier: Apache-2.0 */
/* One second of the agent: the view is made, judged, kept and shown. */
#include <string.h>

#include "base/cleanup.h"
#include "verb/agent/agent.h"

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
