/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: plans of simulations. One that is small enough is played: no more GPUs are in use than there are, and
 * every job is counted once. */
#include <stdlib.h>
#include <string.h>

#include "service/place/plan.h"

enum { NODES_MAX = 64, JOBS_MAX = 60, PODS_MAX = 64, MTBF_MIN_S = 3600 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int holds)
{
    if (!holds)
        abort();
}

static bool is_small(const Plan *plan)
{
    uint64_t nodes = 0;

    for (size_t i = 0; i < plan->nodes.len; i++)
        nodes += plan->nodes.at[i].count;
    for (size_t i = 0; i < plan->generate.shape_count; i++)
        if (plan->generate.shapes[i].pods > PODS_MAX)
            return false;
    return nodes > 0 && nodes <= NODES_MAX && !plan->nodes_file && !plan->jobs_file && plan->generate.load > 0.01 &&
           plan->generate.p90_s < 1e7;
}

/* Few jobs, and nodes that fail seldom: a history of some hundred steps. */
static void play_plan(Plan *plan, Arena *arena)
{
    const Cluster none = {0};
    Cluster cluster;
    Simulation *result;
    Err err;
    uint64_t counted = 0;

    if (plan_build(plan, &none, arena, &cluster, &err) < 0)
        return;
    if (plan->generate.jobs > JOBS_MAX)
        plan->generate.jobs = JOBS_MAX;
    if (plan->simulate.node_mtbf_s < MTBF_MIN_S)
        plan->simulate.node_mtbf_s = 0;
    if (plan->simulate.spot_mtbf_s < MTBF_MIN_S)
        plan->simulate.spot_mtbf_s = 0;
    cluster.jobs = generate_jobs(&plan->generate, (uint64_t)NODES_MAX * CLUSTER_GPU, arena);
    cluster.job_count = plan->generate.jobs;
    if (simulate_run(&cluster, NULL, plan->mode, &plan->simulate, arena, &result, &err) < 0)
        return; /* its queues */
    for (size_t i = 0; i < result->point_count; i++)
        must(result->points[i][SERIES_ALLOCATED] >= 0 && result->points[i][SERIES_ALLOCATED] <= 100.0001);
    for (SimulateClass class = SIMULATE_ALL + 1; class < SIMULATE_CLASS_END; class ++)
        counted += result->classes[class].jobs;
    must(counted == cluster.job_count && result->classes[SIMULATE_ALL].jobs == counted);
    must(result->classes[SIMULATE_ALL].ended + result->classes[SIMULATE_ALL].never <= counted);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const YamlNode *root;
    Arena arena = {0};
    Plan plan;
    Err err;

    if (yaml_load("plan.yaml", (const char *)data, size, &arena, &root, &err) == 0 &&
        plan_read("plan.yaml", root, SIM_DATA_DIR "/../../data/mig/boards.yaml", &arena, &plan, &err) == 0 &&
        is_small(&plan))
        play_plan(&plan, &arena);
    arena_done(&arena);
    return 0;
}
