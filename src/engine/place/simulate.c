/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/place/simulate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/place/chance.h"

const WordRow simulate_classes[SIMULATE_CLASS_END] = {SIMULATE_CLASS_TABLE(WORD_ROW)};
const WordRow simulate_series[SERIES_END] = {SIMULATE_SERIES_TABLE(WORD_ROW)};

#define NO_NODE UINT32_MAX

typedef struct Run {
    const Cluster *cluster;
    const SimulateOptions *options;
    Schedule *schedule;
    Simulation *result;
    uint64_t now_s, last_s;
    uint64_t *node_chance; /* of each node: another node changes nothing for it */
    uint64_t *node_next_s; /* when each node fails or is back; UINT64_MAX: never */
    bool *node_down;
    uint32_t next_node;
    size_t arrived, nodes_down;
} Run;

/* --- nodes ------------------------------------------------------------------------------------------------------ */

static void plan_node(Run *run, uint32_t node)
{
    const SimulateOptions *o = run->options;
    const bool spot = run->cluster->nodes[node].spot, down = run->node_down[node];
    const double mean_s = down ? (spot ? o->spot_return_s : o->node_repair_s) : spot ? o->spot_mtbf_s : o->node_mtbf_s;

    run->node_next_s[node] = mean_s > 0
                                 ? run->now_s + 1 + (uint64_t)(-log(chance_draw(&run->node_chance[node])) * mean_s)
                             : down ? run->now_s + 1
                                    : UINT64_MAX;
}

/* Of all nodes, or of those that are down. */
static void find_next_node(Run *run, bool down)
{
    run->next_node = NO_NODE;
    for (uint32_t i = 0; i < run->cluster->node_count; i++)
        if (run->node_next_s[i] != UINT64_MAX && (!down || run->node_down[i]) &&
            (run->next_node == NO_NODE || run->node_next_s[i] < run->node_next_s[run->next_node]))
            run->next_node = i;
}

/* The next node fails, or is back. */
static void turn_node(Run *run)
{
    const uint32_t node = run->next_node;

    run->node_down[node] = !run->node_down[node];
    if (run->node_down[node]) {
        schedule_lose_node(run->schedule, node, run->now_s);
        run->result->node_failures++;
        run->nodes_down++;
    } else {
        schedule_return_node(run->schedule, node);
        run->nodes_down--;
    }
    plan_node(run, node);
    find_next_node(run, false);
}

/* --- what is measured ------------------------------------------------------------------------------------------- */

static void read_series(const Run *run, double ret[SERIES_END])
{
    const Placement *placement = schedule_placement(run->schedule);
    const double all = fmax((double)placement_gpu_milli(placement), 1);

    ret[SERIES_ALLOCATED] = 100 * (double)placement_gpu_milli_allocated(placement) / all;
    ret[SERIES_FRAGMENTED] = 100 * placement_fragmentation(placement) / all;
    ret[SERIES_POWER] = placement_power_w(placement);
    ret[SERIES_WAITING_JOBS] = (double)schedule_waiting(run->schedule);
    ret[SERIES_WAITING_GPUS] = (double)schedule_waiting_milli(run->schedule) / CLUSTER_GPU;
    ret[SERIES_NODES_DOWN] = (double)run->nodes_down;
}

/* Two stretches become one: there is room for later ones. */
static void merge_points(Simulation *result)
{
    for (size_t i = 0; i < SIMULATE_POINTS; i++)
        for (size_t k = 0; k < SERIES_END; k++) {
            const double value = result->points[i][k];

            result->points[i][k] = 0;
            result->points[i / 2][k] += value;
        }
    result->stretch_s *= 2;
}

/* Nothing changes until then. Points are sums until the end. */
static void pass_time(Run *run, uint64_t until_s)
{
    Simulation *result = run->result;
    double now[SERIES_END];

    read_series(run, now);
    result->energy_kwh += (double)(until_s - run->now_s) * now[SERIES_POWER] / 3.6e6;
    while (run->now_s < until_s) {
        const size_t i = (size_t)((run->now_s - result->begin_s) / result->stretch_s);
        const uint64_t end_s = result->begin_s + (i + 1) * result->stretch_s;
        uint64_t to_s = end_s < until_s ? end_s : until_s;

        if (i >= SIMULATE_POINTS) {
            merge_points(result);
            continue;
        }
        if (run->now_s < result->arrivals_end_s && to_s > result->arrivals_end_s)
            to_s = result->arrivals_end_s;
        for (size_t k = 0; k < SERIES_END; k++) {
            result->points[i][k] += (double)(to_s - run->now_s) * now[k];
            if (to_s <= result->arrivals_end_s)
                result->mean[k] += (double)(to_s - run->now_s) * now[k];
        }
        result->point_count = i + 1;
        run->now_s = to_s;
    }
}

static void note_gangs(Run *run)
{
    size_t count;
    const uint32_t *started = schedule_started(run->schedule, &count);

    for (size_t i = 0; i < count; i++) {
        const ScheduleJob *r = schedule_job(run->schedule, started[i]);

        if (r->stops > 0 || r->place_count < 2)
            continue;
        run->result->gangs++;
        run->result->gang_tiers[gangs_tier(schedule_gangs(run->schedule), r->places, r->place_count) + 1]++;
    }
}

static SimulateClass class_of(const ClusterJob *job)
{
    const uint64_t milli = gang_gpu_milli(job, false);

    return milli == 0                ? SIMULATE_CPU_ONLY
           : milli < CLUSTER_GPU     ? SIMULATE_SHARED
           : milli == CLUSTER_GPU    ? SIMULATE_ONE
           : milli < 8 * CLUSTER_GPU ? SIMULATE_SOME
                                     : SIMULATE_MANY;
}

static int compare_double(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static bool has_started(const ScheduleJob *r)
{
    return r->state == SCHEDULE_JOB_RUNS || r->state == SCHEDULE_JOB_DONE || r->stops > 0;
}

/* Of the jobs of a class, or of a queue where that is not NULL. */
static void sum_jobs(const Run *run, SimulateClass class, const char *queue, SimulateJobs *ret)
{
    double *waits = xcalloc(run->cluster->job_count + 1, sizeof *waits), sum = 0;
    size_t started = 0;

    for (uint32_t i = 0; i < run->cluster->job_count; i++) {
        const ClusterJob *job = &run->cluster->jobs[i];
        const ScheduleJob *r = schedule_job(run->schedule, i);

        if (queue ? !job->queue || strcmp(job->queue, queue) != 0 : class != SIMULATE_ALL && class_of(job) != class)
            continue;
        ret->jobs++;
        ret->ended += r->state == SCHEDULE_JOB_DONE;
        ret->never += !has_started(r);
        ret->gpu_hours += r->used_gpu_s / 3600;
        ret->lost_gpu_hours += r->lost_gpu_s / 3600;
        ret->stops += r->stops;
        ret->late += job->deadline_s > 0 && (r->state != SCHEDULE_JOB_DONE || r->since_s > job->deadline_s);
        if (has_started(r))
            waits[started++] = (double)(r->first_s - job->submitted_s);
    }
    qsort(waits, started, sizeof *waits, compare_double);
    for (size_t i = 0; i < started; i++)
        sum += waits[i];
    if (started > 0) {
        ret->wait_mean_s = sum / (double)started;
        ret->wait_p50_s = waits[(started - 1) / 2];
        ret->wait_p95_s = waits[(size_t)(0.95 * (double)(started - 1))];
        ret->wait_max_s = waits[started - 1];
    }
    free(waits);
}

static void finish_run(Run *run, Arena *arena)
{
    Simulation *result = run->result;
    const double arrivals_s = fmax((double)(result->arrivals_end_s - result->begin_s), 1);

    result->end_s = run->now_s;
    for (size_t i = 0; i < result->point_count; i++) {
        const uint64_t begin_s = result->begin_s + i * result->stretch_s, end_s = begin_s + result->stretch_s;

        for (size_t k = 0; k < SERIES_END; k++)
            result->points[i][k] /= (double)((end_s < run->now_s ? end_s : run->now_s) - begin_s);
    }
    for (size_t k = 0; k < SERIES_END; k++)
        result->mean[k] /= arrivals_s;
    for (size_t i = 0; i < run->cluster->node_count; i++)
        result->price += run->cluster->nodes[i].price * (double)(run->now_s - result->begin_s) / 3600;
    for (SimulateClass class = 0; class < SIMULATE_CLASS_END; class ++)
        sum_jobs(run, class, NULL, &result->classes[class]);
    result->queues = arena_calloc(arena, run->cluster->queue_count + 1, sizeof *result->queues);
    for (size_t i = 0; i < run->cluster->queue_count; i++)
        sum_jobs(run, SIMULATE_ALL, run->cluster->queues[i].name, &result->queues[i]);
}

/* --- the run ---------------------------------------------------------------------------------------------------- */

/* Everything that happens at the next instant at which something does. False: nothing does any more. */
static bool step_run(Run *run)
{
    const Cluster *cluster = run->cluster;
    uint32_t ending = UINT32_MAX;
    uint64_t next_s = schedule_next_end(run->schedule, &ending);

    if (run->arrived < cluster->job_count && cluster->jobs[run->arrived].submitted_s < next_s)
        next_s = cluster->jobs[run->arrived].submitted_s;
    if (next_s == UINT64_MAX && schedule_waiting(run->schedule) > 0)
        find_next_node(run, true); /* one that is back may still help those that wait */
    else if (next_s == UINT64_MAX)
        return false;
    if (run->next_node != NO_NODE && run->node_next_s[run->next_node] < next_s)
        next_s = run->node_next_s[run->next_node];
    if (next_s > run->last_s)
        return false;
    pass_time(run, next_s);
    while (schedule_next_end(run->schedule, &ending) <= run->now_s)
        schedule_end(run->schedule, ending, run->now_s);
    while (run->next_node != NO_NODE && run->node_next_s[run->next_node] <= run->now_s)
        turn_node(run);
    while (run->arrived < cluster->job_count && cluster->jobs[run->arrived].submitted_s <= run->now_s)
        schedule_submit(run->schedule, (uint32_t)run->arrived++, run->now_s);
    schedule_run(run->schedule, run->now_s);
    note_gangs(run);
    return true;
}

static uint64_t find_last(const Run *run)
{
    uint64_t most_s = run->result->arrivals_end_s - run->result->begin_s;

    for (size_t i = 0; i < run->cluster->job_count; i++)
        if (run->cluster->jobs[i].duration_s > most_s)
            most_s = run->cluster->jobs[i].duration_s;
    return run->result->arrivals_end_s + SIMULATE_REST * most_s;
}

static void set_typical(Run *run)
{
    ClusterRequest *requests = xcalloc(run->cluster->job_count + 1, sizeof *requests);

    for (size_t i = 0; i < run->cluster->job_count; i++)
        requests[i] = run->cluster->jobs[i].roles[0].request;
    placement_set_typical(schedule_placement(run->schedule), requests, run->cluster->job_count);
    free(requests);
}

int simulate_run(const Cluster *cluster, const uint32_t *order, const PlacementMode *mode,
                 const SimulateOptions *options, Arena *arena, Simulation **ret, Err *err)
{
    Run run = {.cluster = cluster, .options = options};
    const uint64_t begin_s = cluster->job_count ? cluster->jobs[0].submitted_s : 0;

    TRY(schedule_new(cluster, order, mode, &options->schedule, &run.schedule, err));
    run.result = arena_calloc(arena, 1, sizeof *run.result);
    *run.result =
        (Simulation){.begin_s = begin_s,
                     .arrivals_end_s = cluster->job_count ? cluster->jobs[cluster->job_count - 1].submitted_s : 0,
                     .stretch_s = 1};
    run.now_s = begin_s;
    run.last_s = find_last(&run);
    run.node_next_s = xcalloc(cluster->node_count + 1, sizeof *run.node_next_s);
    run.node_chance = xcalloc(cluster->node_count + 1, sizeof *run.node_chance);
    run.node_down = xcalloc(cluster->node_count + 1, sizeof *run.node_down);
    set_typical(&run);
    for (uint32_t i = 0; i < cluster->node_count; i++) {
        run.node_chance[i] = options->seed + (i + 1) * UINT64_C(0xd1342543de82ef95);
        plan_node(&run, i);
    }
    find_next_node(&run, false);
    while (step_run(&run))
        ;
    finish_run(&run, arena);
    schedule_free(run.schedule);
    free(run.node_next_s);
    free(run.node_chance);
    free(run.node_down);
    *ret = run.result;
    return 0;
}
