/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/place/schedule.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/number.h"
#include "engine/place/schedule_inside.h"

/* --- life ------------------------------------------------------------------------------------------------------- */

static uint32_t count_pods_max(const Cluster *cluster)
{
    size_t most = 1;

    for (size_t i = 0; i < cluster->job_count; i++)
        if (gang_pods_max(&cluster->jobs[i]) > most)
            most = gang_pods_max(&cluster->jobs[i]);
    return (uint32_t)most;
}

int schedule_new(const Cluster *cluster, const uint32_t *order, const PlacementMode *mode,
                 const ScheduleOptions *options, Schedule **ret, Err *err)
{
    Placement *placement = placement_new(cluster->nodes, cluster->node_count, order, mode);
    Shares *shares;
    const int status = shares_new(cluster->queues, cluster->queue_count, placement_gpu_milli(placement),
                                  options->half_life_s, options->past_weight, &shares, err);

    if (status < 0) {
        placement_free(placement);
        return status;
    }
    Schedule *s = xcalloc(1, sizeof *s);
    *s = (Schedule){.cluster = cluster,
                    .options = *options,
                    .placement = placement,
                    .gangs = gangs_new(cluster, placement, options->domains),
                    .shares = shares,
                    .jobs = xcalloc(cluster->job_count + 1, sizeof *s->jobs),
                    .kinds = xcalloc(cluster->job_count + 1, sizeof *s->kinds),
                    .queues = xcalloc(cluster->job_count + 1, sizeof *s->queues),
                    .waiting = xcalloc(cluster->queue_count + 1, sizeof *s->waiting),
                    .cursors = xcalloc(cluster->queue_count + 1, sizeof *s->cursors),
                    .asked = xcalloc(cluster->queue_count + 1, sizeof *s->asked),
                    .on_node = xcalloc(cluster->node_count + 1, sizeof *s->on_node),
                    .reserved = NO_JOB,
                    .reserved_nodes = xcalloc(cluster->node_count / 64 + 1, sizeof *s->reserved_nodes),
                    .lefts = xcalloc(cluster->node_count + 1, sizeof *s->lefts),
                    .saved = xcalloc(cluster->node_count + 1, sizeof *s->saved),
                    .hopeless = xcalloc(cluster->job_count + 1, sizeof *s->hopeless),
                    .places = xcalloc(count_pods_max(cluster), sizeof *s->places)};
    for (size_t i = 0; i < cluster->job_count; i++)
        s->queues[i] = shares_find(shares, cluster->jobs[i].queue);
    *ret = s;
    return 0;
}

void schedule_free(Schedule *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->cluster->job_count; i++)
        free(s->jobs[i].places);
    for (size_t i = 0; i <= s->cluster->queue_count; i++)
        vec_done(&s->waiting[i]);
    for (size_t i = 0; i < s->cluster->node_count; i++)
        vec_done(&s->on_node[i]);
    vec_done(&s->running);
    vec_done(&s->ends);
    vec_done(&s->refused);
    vec_done(&s->victims);
    vec_done(&s->passing);
    vec_done(&s->started);
    gangs_free(s->gangs);
    shares_free(s->shares);
    placement_free(s->placement);
    free(s->jobs);
    free(s->kinds);
    free(s->queues);
    free(s->waiting);
    free(s->cursors);
    free(s->asked);
    free(s->on_node);
    free(s->reserved_nodes);
    free(s->lefts);
    free(s->saved);
    free(s->hopeless);
    free(s->places);
    free(s);
}

Placement *schedule_placement(Schedule *s)
{
    return s->placement;
}

const Gangs *schedule_gangs(const Schedule *s)
{
    return s->gangs;
}

const Shares *schedule_shares(const Schedule *s)
{
    return s->shares;
}

const ScheduleJob *schedule_job(const Schedule *s, uint32_t job)
{
    return &s->jobs[job];
}

const uint32_t *schedule_started(const Schedule *s, size_t *ret_count)
{
    *ret_count = s->started.len;
    return s->started.at;
}

uint32_t schedule_reserved(const Schedule *s, uint64_t *ret_at_s)
{
    *ret_at_s = s->reserved_at_s;
    return s->reserved;
}

uint64_t schedule_waiting_milli(const Schedule *s)
{
    uint64_t sum = 0;

    for (size_t i = 0; i <= s->cluster->queue_count; i++)
        sum += s->asked[i];
    return sum;
}

size_t schedule_waiting(const Schedule *s)
{
    return s->waiting_count;
}

/* --- ends ------------------------------------------------------------------------------------------------------- */

static bool is_sooner(const ScheduleEnd *a, const ScheduleEnd *b)
{
    return a->at_s != b->at_s ? a->at_s < b->at_s : a->job < b->job;
}

static void swap_ends(ScheduleEnd *a, ScheduleEnd *b)
{
    const ScheduleEnd kept = *a;

    *a = *b;
    *b = kept;
}

static void push_end(Schedule *s, uint32_t job)
{
    if (s->jobs[job].expected_s == UINT64_MAX)
        return;
    vec_push(&s->ends, ((ScheduleEnd){s->jobs[job].expected_s, job}));
    for (size_t i = s->ends.len - 1; i > 0 && is_sooner(&s->ends.at[i], &s->ends.at[(i - 1) / 2]); i = (i - 1) / 2)
        swap_ends(&s->ends.at[i], &s->ends.at[(i - 1) / 2]);
}

static void pop_end(Schedule *s)
{
    ScheduleEnd *ends = s->ends.at;

    ends[0] = ends[--s->ends.len];
    for (size_t i = 0, child = 1; child < s->ends.len; child = 2 * i + 1) {
        if (child + 1 < s->ends.len && is_sooner(&ends[child + 1], &ends[child]))
            child++;
        if (!is_sooner(&ends[child], &ends[i]))
            return;
        swap_ends(&ends[i], &ends[child]);
        i = child;
    }
}

uint64_t schedule_next_end(Schedule *s, uint32_t *ret_job)
{
    while (s->ends.len > 0) {
        const ScheduleEnd *end = &s->ends.at[0];
        const ScheduleJob *r = &s->jobs[end->job];

        if (r->state == SCHEDULE_JOB_RUNS && r->expected_s == end->at_s) {
            *ret_job = end->job;
            return end->at_s;
        }
        pop_end(s);
    }
    return UINT64_MAX;
}

/* --- one job ---------------------------------------------------------------------------------------------------- */

uint64_t schedule_milli_held(const Schedule *s, uint32_t job)
{
    return gang_places_milli(&s->cluster->jobs[job], s->jobs[job].places, s->jobs[job].place_count);
}

/* How fast it runs with so many of its pods, beside all of them. */
static double speed_of(const ClusterJob *job, size_t pods)
{
    return (double)pods / (double)gang_pods_max(job);
}

static uint64_t end_of(const Schedule *s, uint32_t job, size_t pods, uint64_t now_s)
{
    const ClusterJob *j = &s->cluster->jobs[job];

    if (j->duration_s == 0)
        return UINT64_MAX;
    return now_s + (uint64_t)ceil(fmax(0, (double)j->duration_s - s->jobs[job].done_s) / speed_of(j, pods));
}

static void remove_job(Jobs *jobs, uint32_t job)
{
    for (size_t i = 0; i < jobs->len; i++)
        if (jobs->at[i] == job) {
            vec_remove(jobs, i);
            return;
        }
}

static void note_on_nodes(Schedule *s, uint32_t job)
{
    for (size_t i = 0; i < s->jobs[job].place_count; i++) {
        Jobs *on = &s->on_node[s->jobs[job].places[i].node];

        remove_job(on, job);
        vec_push(on, job);
    }
}

static void forget_on_nodes(Schedule *s, uint32_t job)
{
    for (size_t i = 0; i < s->jobs[job].place_count; i++)
        remove_job(&s->on_node[s->jobs[job].places[i].node], job);
}

/* Takes a running job off its nodes, or puts it back as if nothing had been. */
void schedule_detach(Schedule *s, uint32_t job)
{
    gangs_release(s->gangs, s->kinds[job], s->jobs[job].places, s->jobs[job].place_count);
    shares_give_back(s->shares, s->queues[job], schedule_milli_held(s, job));
    forget_on_nodes(s, job);
    s->room_came = true;
}

void schedule_attach(Schedule *s, uint32_t job)
{
    gangs_bind(s->gangs, s->kinds[job], s->jobs[job].places, s->jobs[job].place_count);
    shares_use(s->shares, s->queues[job], schedule_milli_held(s, job));
    note_on_nodes(s, job);
}

/* Progress is seconds of the job's duration, as with all its pods; below 0 while it comes back. */
static double find_progress(const Schedule *s, uint32_t job, uint64_t now_s)
{
    const ScheduleJob *r = &s->jobs[job];

    return r->done_s + (double)(now_s - r->since_s) * speed_of(&s->cluster->jobs[job], r->place_count);
}

/* At its last checkpoint. */
static double find_kept(const Schedule *s, uint32_t job, uint64_t now_s)
{
    const ClusterJob *j = &s->cluster->jobs[job];
    const ScheduleJob *r = &s->jobs[job];

    if (j->checkpoint_s == 0)
        return 0;
    return fmax(r->kept_s, find_progress(s, job, now_s - (now_s - r->since_s) % j->checkpoint_s));
}

/* Progress and GPU time until now become part of its account. */
static void settle_job(Schedule *s, uint32_t job, uint64_t now_s)
{
    ScheduleJob *r = &s->jobs[job];

    r->used_gpu_s += (double)(now_s - r->since_s) * (double)schedule_milli_held(s, job) / CLUSTER_GPU;
    r->done_s = find_progress(s, job, now_s);
    r->since_s = now_s;
}

double schedule_lost_work(const Schedule *s, uint32_t job, uint64_t now_s)
{
    const ClusterJob *j = &s->cluster->jobs[job];

    return (find_progress(s, job, now_s) - find_kept(s, job, now_s) + (double)j->restart_s) *
           (double)gang_gpu_milli(j, true) / CLUSTER_GPU;
}

int schedule_compare_waiting(const Schedule *s, uint32_t a, uint32_t b)
{
    const ClusterJob *x = &s->cluster->jobs[a], *y = &s->cluster->jobs[b];

    return x->priority != y->priority         ? (x->priority < y->priority) - (x->priority > y->priority)
           : x->submitted_s != y->submitted_s ? number_compare_u64(x->submitted_s, y->submitted_s)
                                              : number_compare_u64(a, b);
}

size_t schedule_lane(const Schedule *s, uint32_t job)
{
    return s->queues[job] < 0 ? s->cluster->queue_count : (size_t)s->queues[job];
}

static void let_wait(Schedule *s, uint32_t job, uint64_t now_s)
{
    Jobs *lane = &s->waiting[schedule_lane(s, job)];
    size_t low = 0, high = lane->len;

    while (low < high) {
        const size_t middle = (low + high) / 2;

        if (schedule_compare_waiting(s, lane->at[middle], job) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    vec_push(lane, job);
    memmove(&lane->at[low + 1], &lane->at[low], (lane->len - 1 - low) * sizeof *lane->at);
    lane->at[low] = job;
    s->jobs[job].state = SCHEDULE_JOB_WAITS;
    s->jobs[job].since_s = now_s;
    s->waiting_count++;
    s->asked[schedule_lane(s, job)] += gang_gpu_milli(&s->cluster->jobs[job], false);
}

static void end_wait(Schedule *s, uint32_t job, uint64_t now_s)
{
    ScheduleJob *r = &s->jobs[job];

    r->waited_s += now_s - r->since_s;
    r->first_s = r->stops == 0 ? now_s : r->first_s;
    remove_job(&s->waiting[schedule_lane(s, job)], job);
    s->waiting_count--;
    s->asked[schedule_lane(s, job)] -= gang_gpu_milli(&s->cluster->jobs[job], false);
    if (s->reserved == job)
        s->reserved = NO_JOB;
}

static bool is_short_of_pods(const Schedule *s, uint32_t job)
{
    return s->jobs[job].place_count > 0 && s->jobs[job].place_count < gang_pods_max(&s->cluster->jobs[job]);
}

static void set_places(Schedule *s, uint32_t job, size_t count, uint64_t now_s)
{
    ScheduleJob *r = &s->jobs[job];

    forget_on_nodes(s, job);
    s->short_of_pods -= is_short_of_pods(s, job);
    r->places = xrealloc(r->places, count, sizeof *r->places);
    memcpy(r->places, s->places, count * sizeof *r->places);
    r->place_count = count;
    r->since_s = now_s;
    r->expected_s = end_of(s, job, count, now_s);
    s->short_of_pods += is_short_of_pods(s, job);
    push_end(s, job);
    shares_use(s->shares, s->queues[job], schedule_milli_held(s, job));
    note_on_nodes(s, job);
}

void schedule_start(Schedule *s, uint32_t job, size_t count, uint64_t now_s)
{
    end_wait(s, job, now_s);
    s->jobs[job].state = SCHEDULE_JOB_RUNS;
    set_places(s, job, count, now_s);
    vec_push(&s->running, job);
    vec_push(&s->started, job);
}

void schedule_resize(Schedule *s, uint32_t job, size_t count, uint64_t now_s)
{
    const ClusterJob *j = &s->cluster->jobs[job];
    ScheduleJob *r = &s->jobs[job];

    settle_job(s, job, now_s);
    r->kept_s = fmax(r->kept_s, r->done_s);
    r->done_s -= (double)j->restart_s;
    r->lost_gpu_s += (double)j->restart_s * (double)gang_gpu_milli(j, true) / CLUSTER_GPU;
    set_places(s, job, count, now_s);
}

static void leave_running(Schedule *s, uint32_t job)
{
    remove_job(&s->running, job);
    s->short_of_pods -= is_short_of_pods(s, job);
    s->jobs[job].place_count = 0;
}

/* Of a running job that was detached. */
void schedule_stop(Schedule *s, uint32_t job, uint64_t now_s)
{
    ScheduleJob *r = &s->jobs[job];
    const double kept_s = find_kept(s, job, now_s);

    r->lost_gpu_s += schedule_lost_work(s, job, now_s);
    settle_job(s, job, now_s);
    r->kept_s = kept_s;
    r->done_s = kept_s - (double)s->cluster->jobs[job].restart_s;
    r->stops++;
    leave_running(s, job);
    let_wait(s, job, now_s);
}

void schedule_submit(Schedule *s, uint32_t job, uint64_t now_s)
{
    const ClusterJob *j = &s->cluster->jobs[job];

    for (unsigned i = 0; i < j->role_count; i++)
        s->kinds[job][i] = placement_add_kind(s->placement, &j->roles[i].request);
    let_wait(s, job, now_s);
}

void schedule_end(Schedule *s, uint32_t job, uint64_t now_s)
{
    schedule_detach(s, job);
    settle_job(s, job, now_s);
    leave_running(s, job);
    s->jobs[job].state = SCHEDULE_JOB_DONE;
    s->jobs[job].since_s = now_s;
}

void schedule_lose_node(Schedule *s, uint32_t node, uint64_t now_s)
{
    placement_close(s->placement, node, true);
    while (s->on_node[node].len > 0) {
        const uint32_t job = s->on_node[node].at[0];

        schedule_detach(s, job);
        schedule_stop(s, job, now_s);
    }
}

void schedule_return_node(Schedule *s, uint32_t node)
{
    placement_close(s->placement, node, s->cluster->nodes[node].closed);
    s->room_came = true;
    memset(s->hopeless, 0, s->cluster->job_count * sizeof *s->hopeless);
}

bool schedule_has_quota(const Schedule *s, uint32_t job)
{
    return s->queues[job] < 0 ||
           gang_gpu_milli(&s->cluster->jobs[job], false) <= shares_available(s->shares, s->queues[job]);
}

const uint64_t *schedule_kept_nodes(const Schedule *s, uint32_t job, uint64_t now_s)
{
    const ClusterJob *j = &s->cluster->jobs[job];

    if (s->reserved == NO_JOB || s->reserved == job || s->cluster->jobs[s->reserved].priority < j->priority ||
        end_of(s, job, gang_pods_min(j), now_s) <= s->reserved_at_s)
        return NULL;
    return s->reserved_nodes;
}
