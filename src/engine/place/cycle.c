/* SPDX-License-Identifier: Apache-2.0 */
/* What starts now: the waiting jobs in their order, one after the other. */
#include <string.h>

#include "engine/place/schedule_inside.h"

/* --- starting --------------------------------------------------------------------------------------------------- */

/* `kept`: reserved nodes were left out. */
static Refused *refused_at(Schedule *s, const ClusterJob *j, uint32_t kind, bool kept)
{
    const size_t i = kind * 32u + j->tier * 8u + j->tier_required * 4u + j->apart * 2u + kept;

    while (s->refused.len <= i)
        vec_push(&s->refused, ((Refused){0}));
    return &s->refused.at[i];
}

static bool was_refused(Schedule *s, const ClusterJob *j, uint32_t kind, bool kept)
{
    const Refused *refused = refused_at(s, j, kind, kept);

    return refused->cycle == s->cycle && j->roles[0].min >= refused->pods;
}

/* Gives up pods beyond the needed ones that the quota has no room for. */
static size_t keep_quota(Schedule *s, uint32_t job, size_t count)
{
    const size_t needed = gang_pods_min(&s->cluster->jobs[job]);

    while (count > needed &&
           gang_places_milli(&s->cluster->jobs[job], s->places, count) > shares_available(s->shares, s->queues[job])) {
        count--;
        gangs_release(s->gangs, s->kinds[job], &s->places[count], 1);
        s->cycle++;
    }
    return count;
}

/* True: it has started. */
static bool try_start(Schedule *s, uint32_t job, uint64_t now_s)
{
    const ClusterJob *j = &s->cluster->jobs[job];
    const uint32_t kind = s->kinds[job][0];

    if (!schedule_has_quota(s, job) || was_refused(s, j, kind, false))
        return false;
    const uint64_t *kept = schedule_kept_nodes(s, job, now_s);
    if (kept && was_refused(s, j, kind, true))
        return false;
    size_t count = gangs_place(s->gangs, j, s->kinds[job], kept, s->places);
    if (count == 0) {
        if (j->role_count == 1)
            *refused_at(s, j, kind, kept) = (Refused){s->cycle, j->roles[0].min};
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

/* Where no room came since the last cycle, and nothing may be stopped, those that waited then wait on. */
static uint32_t next_job(Schedule *s, uint64_t now_s)
{
    uint32_t best = NO_JOB;

    for (size_t lane = 0; lane <= s->cluster->queue_count; lane++) {
        const Jobs *jobs = &s->waiting[lane];

        while (!s->room_came && s->options.backfill && !s->options.preempt && s->cursors[lane] < jobs->len &&
               s->jobs[jobs->at[s->cursors[lane]]].since_s < now_s)
            s->cursors[lane]++;
        if (s->cursors[lane] < jobs->len && (best == NO_JOB || goes_before(s, jobs->at[s->cursors[lane]], best)))
            best = jobs->at[s->cursors[lane]];
    }
    return best;
}

static void begin_cycle(Schedule *s)
{
    memset(s->cursors, 0, (s->cluster->queue_count + 1) * sizeof *s->cursors);
    s->cycle++;
}

/* In the middle of one, when there is room that was not. */
static void begin_anew(Schedule *s)
{
    s->room_came = true;
    begin_cycle(s);
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
    s->cycle++;
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
    while ((job = next_job(s, now_s)) != NO_JOB) {
        const bool stopped_now = s->jobs[job].stops > 0 && s->jobs[job].since_s == now_s;

        const uint32_t reserved = s->reserved;

        if (try_start(s, job, now_s)) {
            changed = true;
            if (reserved == job) /* others may use what was reserved beyond its needs */
                begin_anew(s);
        } else if (s->options.preempt && !stopped_now && schedule_preempt(s, job, now_s)) {
            changed = true;
            begin_anew(s);
        } else if (s->options.backfill) {
            s->cursors[schedule_lane(s, job)]++;
            if (is_to_reserve(s, job, now_s))
                reserve_for(s, job);
            if (reserved != NO_JOB && reserved != s->reserved) /* its nodes are free for others */
                begin_anew(s);
        } else {
            break;
        }
    }
    s->room_came = false;
    return (s->waiting_count == 0 && s->short_of_pods > 0 && grow_jobs(s, now_s)) || changed;
}
