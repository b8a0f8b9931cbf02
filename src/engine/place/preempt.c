/* SPDX-License-Identifier: Apache-2.0 */
/* Which running jobs make room for a waiting one. All is tried on the placement and the shares themselves, and undone
 * where it does not lead to a start. */
#include <math.h>
#include <string.h>

#include "engine/place/schedule_inside.h"

/* Whether a queue may take back what it is due, for a job of it: its own quota, or its fair share. */
static bool is_due(const Schedule *s, int queue, uint64_t more)
{
    return shares_is_nominal(s->shares, queue, more) || shares_saturation(s->shares, queue, (int64_t)more) <= 1;
}

static bool may_stop(const Schedule *s, uint32_t victim, uint32_t job)
{
    const ClusterJob *v = &s->cluster->jobs[victim], *j = &s->cluster->jobs[job];
    const int from = s->queues[victim], to = s->queues[job];
    const uint64_t more = gang_gpu_milli(j, false);

    if (!v->preemptible)
        return false;
    if (from == to || from < 0 || to < 0)
        return v->priority < j->priority;
    return is_due(s, to, more) && !shares_is_nominal(s->shares, from, 0) &&
           (shares_is_nominal(s->shares, to, more) ||
            shares_saturation(s->shares, from, -(int64_t)schedule_milli_held(s, victim)) >=
                shares_saturation(s->shares, to, (int64_t)more));
}

/* Pods beyond the needed ones give way to any job that is not less important. */
static bool may_shrink(const Schedule *s, uint32_t victim, uint32_t job)
{
    const ClusterJob *v = &s->cluster->jobs[victim], *j = &s->cluster->jobs[job];
    const int from = s->queues[victim], to = s->queues[job];

    if (s->jobs[victim].place_count <= gang_pods_min(v))
        return false;
    if (from == to || from < 0 || to < 0)
        return v->priority <= j->priority;
    return is_due(s, to, gang_gpu_milli(j, false)) && !shares_is_nominal(s->shares, from, 0);
}

/* Binds the needed pods alone: others are not stopped for more. Returns how many; 0: no room, or no quota. */
static size_t place_needed(Schedule *s, uint32_t job, uint64_t now_s)
{
    const size_t needed = gang_pods_min(&s->cluster->jobs[job]);
    size_t count = 0;

    if (schedule_has_quota(s, job))
        count =
            gangs_place(s->gangs, &s->cluster->jobs[job], s->kinds[job], schedule_kept_nodes(s, job, now_s), s->places);
    if (count <= needed)
        return count;
    gangs_release(s->gangs, s->kinds[job], &s->places[needed], count - needed);
    return needed;
}

/* Orders victims: the first one is stopped first. */
static double cost_of(const Schedule *s, uint32_t victim, uint64_t now_s)
{
    if (s->options.by_age)
        return -(double)s->jobs[victim].since_s;
    return schedule_lost_work(s, victim, now_s);
}

static bool is_victim(const Schedule *s, uint32_t job)
{
    for (size_t i = 0; i < s->victims.len; i++)
        if (s->victims.at[i] == job)
            return true;
    return false;
}

/* The cheapest job that may be stopped for `job`, of those on a node (or of all); NO_JOB: none. */
static uint32_t find_victim(const Schedule *s, const Jobs *among, uint32_t job, uint64_t now_s)
{
    uint32_t best = NO_JOB;

    for (size_t i = 0; i < among->len; i++) {
        const uint32_t victim = among->at[i];

        if (!is_victim(s, victim) && may_stop(s, victim, job) &&
            (best == NO_JOB || cost_of(s, victim, now_s) < cost_of(s, best, now_s) ||
             (cost_of(s, victim, now_s) == cost_of(s, best, now_s) && victim > best)))
            best = victim;
    }
    return best;
}

static void add_victim(Schedule *s, uint32_t victim)
{
    schedule_detach(s, victim);
    vec_push(&s->victims, victim);
}

/* The cheapest jobs of one node whose end makes room for a pod there: their cost for each pod, INFINITY where there are
 * none. They are then at s->passing. */
static double price_node(Schedule *s, uint32_t node, uint32_t job, unsigned role, uint64_t now_s)
{
    PlacementLeft left = placement_left(s->placement, node);
    const uint32_t before = schedule_room(s, job, role, node, &left);
    const size_t victims = s->victims.len;
    double cost = 0;

    vec_clear(&s->passing);
    while (schedule_room(s, job, role, node, &left) == before) {
        const uint32_t victim = find_victim(s, &s->on_node[node], job, now_s);

        if (victim == NO_JOB)
            break;
        cost += cost_of(s, victim, now_s);
        vec_push(&s->victims, victim); /* so that it is not found again */
        vec_push(&s->passing, victim);
        for (size_t i = 0; i < s->jobs[victim].place_count; i++)
            if (s->jobs[victim].places[i].node == node)
                placement_change_left(&s->cluster->nodes[node],
                                      &s->cluster->jobs[victim].roles[s->jobs[victim].places[i].role].request,
                                      placement_choice(&s->jobs[victim].places[i]), 1, &left);
    }
    s->victims.len = victims;
    const uint32_t after = schedule_room(s, job, role, node, &left);
    return after > before ? cost / (after - before) : INFINITY;
}

/* Stops jobs until so many pods of a role have room in a domain of a tier. False: there is no way. */
static bool free_room(Schedule *s, uint32_t job, unsigned role, unsigned tier, uint32_t domain, uint64_t now_s)
{
    const uint64_t *kept = schedule_kept_nodes(s, job, now_s);

    for (;;) {
        double best_price = INFINITY;
        uint64_t room = 0;
        uint32_t best = 0;

        for (uint32_t node = 0; node < s->cluster->node_count; node++) {
            if ((tier < CLUSTER_TIER_END && s->cluster->nodes[node].domain[tier] != domain) ||
                (kept && kept[node / 64] >> node % 64 & 1))
                continue;
            const PlacementLeft left = placement_left(s->placement, node);
            room += schedule_room(s, job, role, node, &left);
            const double price = s->on_node[node].len > 0 ? price_node(s, node, job, role, now_s) : INFINITY;
            if (price < best_price) {
                best_price = price;
                best = node;
            }
        }
        if (room >= s->cluster->jobs[job].roles[role].min)
            return true;
        if (isinf(best_price))
            return false;
        price_node(s, best, job, role, now_s);
        for (size_t i = 0; i < s->passing.len; i++)
            add_victim(s, s->passing.at[i]);
    }
}

/* Jobs whose queues have more than they are due, until the quota has room. */
static bool free_quota(Schedule *s, uint32_t job, uint64_t now_s)
{
    while (!schedule_has_quota(s, job)) {
        const uint64_t before = shares_available(s->shares, s->queues[job]);
        const uint32_t victim = find_victim(s, &s->running, job, now_s);

        if (victim == NO_JOB)
            return false;
        add_victim(s, victim);
        if (shares_available(s->shares, s->queues[job]) <= before)
            return false; /* not by these */
    }
    return true;
}

static void put_back_victims(Schedule *s)
{
    while (s->victims.len > 0)
        schedule_attach(s, s->victims.at[--s->victims.len]);
}

static double victims_cost(const Schedule *s, uint64_t now_s)
{
    double sum = 0;

    for (size_t i = 0; i < s->victims.len; i++)
        sum += cost_of(s, s->victims.at[i], now_s);
    return sum;
}

static bool free_all_roles(Schedule *s, uint32_t job, unsigned tier, uint32_t domain, uint64_t now_s)
{
    for (unsigned role = 0; role < s->cluster->jobs[job].role_count; role++)
        if (!free_room(s, job, role, tier, domain, now_s))
            return false;
    return true;
}

/* The domain of the job's tier where least work is lost. 0: there is none. */
static uint32_t find_cheapest_domain(Schedule *s, uint32_t job, uint64_t now_s)
{
    const unsigned tier = s->cluster->jobs[job].tier;
    double best_cost = INFINITY;
    uint32_t best = 0;

    for (uint32_t domain = 1; domain <= s->cluster->domain_counts[tier]; domain++) {
        if (free_quota(s, job, now_s) && free_all_roles(s, job, tier, domain, now_s) &&
            victims_cost(s, now_s) < best_cost) {
            best_cost = victims_cost(s, now_s);
            best = domain;
        }
        put_back_victims(s);
    }
    return best;
}

static bool can_attach(Schedule *s, uint32_t job)
{
    const ScheduleJob *r = &s->jobs[job];
    size_t bound = 0;

    while (bound < r->place_count &&
           placement_fits(s->placement, s->kinds[job][r->places[bound].role], placement_choice(&r->places[bound]))) {
        gangs_bind(s->gangs, s->kinds[job], &r->places[bound], 1);
        bound++;
    }
    gangs_release(s->gangs, s->kinds[job], r->places, bound);
    return bound == r->place_count;
}

/* Beside the job, whose pods are bound, some victims may have room after all: those that lose most first. */
static void spare_victims(Schedule *s, uint32_t job)
{
    const uint64_t need = gang_places_milli(&s->cluster->jobs[job], s->places, gang_pods_min(&s->cluster->jobs[job]));

    for (size_t i = s->victims.len; i-- > 0;) {
        const uint32_t victim = s->victims.at[i];

        if (!can_attach(s, victim))
            continue;
        schedule_attach(s, victim);
        if (need <= shares_available(s->shares, s->queues[job]))
            vec_remove(&s->victims, i);
        else
            schedule_detach(s, victim);
    }
}

/* --- pods beyond the needed ones -------------------------------------------------------------------------------- */

static void bind_extra(Schedule *s, uint32_t job, const ClusterPlace *places, size_t count)
{
    gangs_bind(s->gangs, s->kinds[job], places, count);
    shares_use(s->shares, s->queues[job], gang_places_milli(&s->cluster->jobs[job], places, count));
}

static void release_extra(Schedule *s, uint32_t job, const ClusterPlace *places, size_t count)
{
    gangs_release(s->gangs, s->kinds[job], places, count);
    shares_give_back(s->shares, s->queues[job], gang_places_milli(&s->cluster->jobs[job], places, count));
}

/* Of a job that was cut to its needed pods: those that still have room go on as if nothing had been. */
static void regrow_job(Schedule *s, uint32_t job, uint64_t now_s)
{
    const ScheduleJob *r = &s->jobs[job];
    const size_t needed = gang_pods_min(&s->cluster->jobs[job]);
    size_t count = needed;

    memcpy(s->places, r->places, needed * sizeof *s->places);
    for (size_t i = needed; i < r->place_count; i++) {
        const ClusterPlace *place = &r->places[i];

        if (!placement_fits(s->placement, s->kinds[job][place->role], placement_choice(place)) ||
            gang_places_milli(&s->cluster->jobs[job], place, 1) > shares_available(s->shares, s->queues[job]))
            continue;
        bind_extra(s, job, place, 1);
        s->places[count++] = *place;
    }
    if (count == r->place_count)
        return;
    shares_give_back(s->shares, s->queues[job], gang_places_milli(&s->cluster->jobs[job], s->places, count));
    schedule_resize(s, job, count, now_s);
}

/* True: the job has started where pods beyond the needed ones of others were. */
static bool start_by_shrinking(Schedule *s, uint32_t job, uint64_t now_s)
{
    vec_clear(&s->passing);
    for (size_t i = 0; i < s->running.len; i++)
        if (may_shrink(s, s->running.at[i], job))
            vec_push(&s->passing, s->running.at[i]);
    if (s->passing.len == 0)
        return false;
    for (size_t i = 0; i < s->passing.len; i++) {
        const uint32_t other = s->passing.at[i];
        const size_t needed = gang_pods_min(&s->cluster->jobs[other]);

        release_extra(s, other, &s->jobs[other].places[needed], s->jobs[other].place_count - needed);
    }
    const size_t count = place_needed(s, job, now_s);
    if (count > 0)
        schedule_start(s, job, count, now_s);
    for (size_t i = 0; i < s->passing.len; i++)
        regrow_job(s, s->passing.at[i], now_s);
    return count > 0;
}

/* --- whole jobs ------------------------------------------------------------------------------------------------- */

bool schedule_preempt(Schedule *s, uint32_t job, uint64_t now_s)
{
    const ClusterJob *j = &s->cluster->jobs[job];
    const bool domains = j->tier < CLUSTER_TIER_END && j->tier_required;
    size_t count = 0;

    if (start_by_shrinking(s, job, now_s))
        return true;
    const uint32_t domain = domains ? find_cheapest_domain(s, job, now_s) : 0;
    if (domains && domain == 0)
        return false;
    if (free_quota(s, job, now_s) && free_all_roles(s, job, domains ? j->tier : CLUSTER_TIER_END, domain, now_s))
        count = place_needed(s, job, now_s);
    if (count == 0) {
        put_back_victims(s);
        return false;
    }
    spare_victims(s, job);
    for (size_t i = 0; i < s->victims.len; i++)
        schedule_stop(s, s->victims.at[i], now_s);
    vec_clear(&s->victims);
    schedule_start(s, job, count, now_s);
    return true;
}
