/* SPDX-License-Identifier: Apache-2.0 */
/* What starts now: the waiting jobs in their order, one after the other. */
#include <string.h>

#include "engine/place/schedule_inside.h"

/* --- starting --------------------------------------------------------------------------------------------------- */

static bool was_refused(const Schedule *s, const ClusterJob *j, uint32_t kind, bool kept)
{
    for (size_t i = 0; i < s->refused.len; i++) {
        const Refused *r = &s->refused.at[i];

        if (r->kind == kind && r->kept == kept && r->tier == j->tier && r->tier_required == j->tier_required &&
            j->roles[0].min >= r->pods)
            return true;
    }
    return false;
}

/* Gives up pods beyond the needed ones that the quota has no room for. */
static size_t keep_quota(Schedule *s, uint32_t job, size_t count)
{
    const size_t needed = gang_pods_min(&s->cluster->jobs[job]);

    while (count > needed &&
           schedule_milli_of(s, job, s->places, count) > shares_available(s->shares, s->queues[job])) {
        count--;
        gangs_release(s->gangs, s->kinds[job], &s->places[count], 1);
        vec_clear(&s->refused);
    }
    return count;
}

/* True: it has started. */
static bool try_start(Schedule *s, uint32_t job, uint64_t now_s)
{
    const ClusterJob *j = &s->cluster->jobs[job];
    const uint64_t *kept = schedule_kept_nodes(s, job, now_s);

    if (!schedule_has_quota(s, job) || was_refused(s, j, s->kinds[job][0], kept))
        return false;
    size_t count = gangs_place(s->gangs, j, s->kinds[job], kept, s->places);
    if (count == 0) {
        if (j->role_count == 1)
            vec_push(&s->refused, ((Refused){.kind = s->kinds[job][0],
                                             .pods = j->roles[0].min,
                                             .tier = j->tier,
                                             .tier_required = j->tier_required,
                                             .kept = kept}));
        return false;
    }
    count = keep_quota(s, job, count);
    schedule_start(s, job, count, now_s);
    return true;
}

/* --- a cycle ---------------------------------------------------------------------------------------------------- */

/* True: a's next job goes before b's. */
static bool goes_before(const Schedule *s, uint32_t a, uint32_t b)
{
    const uint64_t need_a = gang_gpu_milli(&s->cluster->jobs[a], false);
    const uint64_t need_b = gang_gpu_milli(&s->cluster->jobs[b], false);
    const bool own_a = shares_is_nominal(s->shares, s->queues[a], need_a);
    const bool own_b = shares_is_nominal(s->shares, s->queues[b], need_b);
    const double full_a = shares_saturation(s->shares, s->queues[a], 0);
    const double full_b = shares_saturation(s->shares, s->queues[b], 0);

    return own_a != own_b ? own_a : full_a != full_b ? full_a < full_b : schedule_compare_waiting(s, a, b) < 0;
}

static uint32_t next_job(const Schedule *s)
{
    uint32_t best = NO_JOB;

    for (size_t lane = 0; lane <= s->cluster->queue_count; lane++) {
        const Jobs *jobs = &s->waiting[lane];

        if (s->cursors[lane] < jobs->len && (best == NO_JOB || goes_before(s, jobs->at[s->cursors[lane]], best)))
            best = jobs->at[s->cursors[lane]];
    }
    return best;
}

static void begin_cycle(Schedule *s)
{
    memset(s->cursors, 0, (s->cluster->queue_count + 1) * sizeof *s->cursors);
    vec_clear(&s->refused);
}

static void divide_shares(Schedule *s)
{
    if (s->cluster->queue_count == 0)
        return;
    uint64_t *asked = s->asked;
    for (size_t i = 0; i < s->running.len; i++)
        asked[schedule_lane(s, s->running.at[i])] += schedule_milli_held(s, s->running.at[i]);
    shares_divide(s->shares, asked);
    for (size_t i = 0; i < s->running.len; i++)
        asked[schedule_lane(s, s->running.at[i])] -= schedule_milli_held(s, s->running.at[i]);
}

/* Whether the reservation is to be for this job, which found no room. */
static bool is_to_reserve(const Schedule *s, uint32_t job, uint64_t now_s)
{
    return !s->hopeless[job] && schedule_has_quota(s, job) &&
           (s->reserved == NO_JOB || (s->reserved == job && s->reserved_at_s <= now_s) ||
            s->cluster->jobs[s->reserved].priority < s->cluster->jobs[job].priority);
}

static void reserve_for(Schedule *s, uint32_t job)
{
    schedule_reserve(s, job);
    s->hopeless[job] = s->reserved == NO_JOB;
    vec_clear(&s->refused);
}

/* A running job is placed anew with more pods where that gains more than the restart costs. True: it was. */
static bool grow_job(Schedule *s, uint32_t job, uint64_t now_s)
{
    const ClusterJob *j = &s->cluster->jobs[job];
    const ScheduleJob *r = &s->jobs[job];

    if (r->place_count >= gang_pods_max(j) || r->since_s == now_s || r->expected_s < now_s + 10 * j->restart_s)
        return false;
    schedule_detach(s, job);
    const size_t count = keep_quota(s, job, gangs_place(s->gangs, j, s->kinds[job], NULL, s->places));
    if (count > r->place_count) {
        schedule_resize(s, job, count, now_s);
        return true;
    }
    gangs_release(s->gangs, s->kinds[job], s->places, count);
    schedule_attach(s, job);
    return false;
}

static bool grow_jobs(Schedule *s, uint64_t now_s)
{
    bool grown = false;

    for (size_t i = 0; i < s->running.len; i++)
        grown |= grow_job(s, s->running.at[i], now_s);
    return grown;
}

bool schedule_run(Schedule *s, uint64_t now_s)
{
    bool changed = false;
    uint32_t job;

    vec_clear(&s->started);
    shares_advance(s->shares, now_s);
    divide_shares(s);
    begin_cycle(s);
    while ((job = next_job(s)) != NO_JOB) {
        const bool stopped_now = s->jobs[job].stops > 0 && s->jobs[job].since_s == now_s;

        const bool had_reservation = s->reserved == job;

        if (try_start(s, job, now_s)) {
            changed = true;
            if (had_reservation) /* others may use what was reserved beyond its needs */
                begin_cycle(s);
        } else if (s->options.preempt && !stopped_now && schedule_preempt(s, job, now_s)) {
            changed = true;
            begin_cycle(s);
        } else if (s->options.backfill) {
            if (is_to_reserve(s, job, now_s))
                reserve_for(s, job);
            s->cursors[schedule_lane(s, job)]++;
        } else {
            break;
        }
    }
    return (s->waiting_count == 0 && s->short_of_pods > 0 && grow_jobs(s, now_s)) || changed;
}
