/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/place/trial.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/number.h"
#include "base/vec.h"
#include "engine/place/gang.h"
#include "engine/place/instance.h"

typedef struct Bound {
    size_t job;
    uint32_t kind;
    PlacementChoice choice;
} Bound;

struct Trial {
    const Cluster *cluster;
    Placement *placement;
    Shares *shares;
    VEC(Bound) held; /* by running jobs, in the order of the jobs */
    size_t *first;   /* of each job in `held` */
    VEC(Bound) tried;
    GangTier tiers[CLUSTER_TIER_END]; /* made when first asked for */
    size_t overfull;
};

/* --- running jobs ----------------------------------------------------------------------------------------------- */

static void choose_instance(const ClusterNode *node, const PlacementLeft *left, const ClusterRequest *asked,
                            ClusterPlace *place)
{
    const MigProfile *profile = instance_profile(node, asked);
    PlacementChoice choice = {.gpus = 0};

    if (profile)
        (void)instance_choose(node, profile, left, &choice);
    place->gpus = choice.gpus;
    place->start = choice.start;
}

static uint16_t choose_gpus(const ClusterNode *node, const PlacementLeft *left, const ClusterRequest *asked,
                            uint16_t recorded)
{
    uint16_t gpus = 0;

    for (unsigned i = 0; i < node->gpu_count && __builtin_popcount(gpus) < asked->gpu_count; i++)
        if ((!recorded || recorded >> i & 1) && left->gpu_milli[i] >= asked->gpu_milli)
            gpus = (uint16_t)(gpus | 1u << i);
    return gpus;
}

ClusterRequest trial_hold(const ClusterNode *node, const PlacementLeft *left, const ClusterRequest *asked,
                          ClusterPlace *place)
{
    if (asked->mig)
        choose_instance(node, left, asked, place);
    else
        place->gpus = choose_gpus(node, left, asked, place->gpus);
    return (ClusterRequest){.cpu_milli = (uint32_t)number_min_u64(asked->cpu_milli, left->cpu_milli),
                            .memory_mib = (uint32_t)number_min_u64(asked->memory_mib, left->memory_mib),
                            .gpu_milli = asked->gpu_milli,
                            .gpu_count = (uint8_t)__builtin_popcount(place->gpus),
                            .mig = place->gpus ? asked->mig : 0};
}

/* Without the rules, which do not matter to what runs, so that there are few kinds of request. */
static void hold_place(Trial *trial, size_t job, const ClusterPlace *place)
{
    const ClusterRequest *asked = &trial->cluster->jobs[job].roles[place->role].request;
    const ClusterNode *node = &trial->cluster->nodes[place->node];
    const PlacementLeft left = placement_left(trial->placement, place->node);
    const uint16_t broken = place->gpus & node->gpus_broken;
    ClusterPlace held = *place;
    const ClusterRequest fitting = trial_hold(node, &left, asked, &held);

    trial->overfull += fitting.cpu_milli < asked->cpu_milli || fitting.memory_mib < asked->memory_mib ||
                       fitting.gpu_count + __builtin_popcount(broken) < asked->gpu_count;
    const Bound bound = {job, placement_add_kind(trial->placement, &fitting), placement_choice(&held)};
    placement_bind(trial->placement, bound.kind, bound.choice);
    vec_push(&trial->held, bound);
}

int trial_new(const Cluster *cluster, Trial **ret, Err *err)
{
    Shares *shares;

    TRY(shares_new(cluster->queues, cluster->queue_count, 0, 0, 0, &shares, err));
    Trial *trial = xcalloc(1, sizeof *trial);
    trial->cluster = cluster;
    trial->shares = shares;
    trial->placement = placement_new(cluster->nodes, cluster->node_count, NULL, placement_mode_find("first-fit"));
    trial->first = xcalloc(cluster->job_count + 1, sizeof *trial->first);
    for (size_t i = 0; i < cluster->job_count; i++) {
        const ClusterJob *job = &cluster->jobs[i];

        for (size_t k = 0; k < job->place_count; k++)
            hold_place(trial, i, &job->places[k]);
        trial->first[i + 1] = trial->held.len;
        shares_use(shares, shares_find(shares, job->queue), gang_places_milli(job, job->places, job->place_count));
    }
    *ret = trial;
    return 0;
}

void trial_free(Trial *trial)
{
    if (!trial)
        return;
    for (ClusterTier tier = 0; tier < CLUSTER_TIER_END; tier++)
        gang_tier_done(&trial->tiers[tier]);
    placement_free(trial->placement);
    shares_free(trial->shares);
    vec_done(&trial->held);
    vec_done(&trial->tried);
    free(trial->first);
    free(trial);
}

size_t trial_overfull(const Trial *trial)
{
    return trial->overfull;
}

const Placement *trial_placement(const Trial *trial)
{
    return trial->placement;
}

const Shares *trial_shares(const Trial *trial)
{
    return trial->shares;
}

void trial_end(Trial *trial, size_t job)
{
    const ClusterJob *ended = &trial->cluster->jobs[job];

    for (size_t i = trial->first[job]; i < trial->first[job + 1]; i++)
        placement_release(trial->placement, trial->held.at[i].kind, trial->held.at[i].choice);
    shares_give_back(trial->shares, shares_find(trial->shares, ended->queue),
                     gang_places_milli(ended, ended->places, ended->place_count));
}

/* --- the waiting one -------------------------------------------------------------------------------------------- */

static const GangTier *find_tier(Trial *trial, ClusterTier tier)
{
    if (!trial->tiers[tier].first)
        gang_tier_make(trial->cluster, tier, &trial->tiers[tier]);
    return &trial->tiers[tier];
}

/* The roles with the most GPUs first: what is small finds room beside them. */
static void sort_roles(const ClusterJob *job, uint8_t order[CLUSTER_ROLES_MAX])
{
    for (uint8_t i = 0; i < job->role_count; i++) {
        uint8_t at = i;

        for (; at > 0 && job->roles[order[at - 1]].request.gpu_count < job->roles[i].request.gpu_count; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

static bool bind_pod(Trial *trial, uint32_t kind, const GangTier *domains, uint32_t domain, bool apart)
{
    Bound bound = {.kind = kind};
    const bool fits = domains
                          ? placement_decide_among(trial->placement, kind, &domains->nodes[domains->first[domain]],
                                                   domains->first[domain + 1] - domains->first[domain], &bound.choice)
                          : placement_decide(trial->placement, kind, &bound.choice);

    if (!fits)
        return false;
    placement_bind(trial->placement, kind, bound.choice);
    if (apart) /* until it is taken back */
        placement_close(trial->placement, bound.choice.node, true);
    vec_push(&trial->tried, bound);
    return true;
}

uint32_t trial_bind(Trial *trial, const ClusterJob *job, uint32_t domain, uint8_t *ret_role)
{
    const GangTier *domains = domain ? find_tier(trial, job->tier) : NULL;
    uint8_t order[CLUSTER_ROLES_MAX] = {0};
    uint32_t bound = 0;

    sort_roles(job, order);
    for (unsigned i = 0; i < job->role_count; i++) {
        const ClusterRole *role = &job->roles[order[i]];
        const uint32_t kind = placement_add_kind(trial->placement, &role->request);

        for (uint32_t pod = 0; pod < role->min; pod++, bound++)
            if (!bind_pod(trial, kind, domains, domain, job->apart)) {
                *ret_role = order[i];
                return bound;
            }
    }
    *ret_role = order[0];
    return bound;
}

void trial_take_back(Trial *trial)
{
    for (size_t i = 0; i < trial->tried.len; i++) {
        placement_close(trial->placement, trial->tried.at[i].choice.node, false);
        placement_release(trial->placement, trial->tried.at[i].kind, trial->tried.at[i].choice);
    }
    vec_clear(&trial->tried);
}

uint32_t trial_count(Trial *trial, const ClusterJob *job, uint32_t domain)
{
    uint8_t role = 0;
    const uint32_t count = trial_bind(trial, job, domain, &role);

    trial_take_back(trial);
    return count;
}

bool trial_fits(Trial *trial, const ClusterJob *job)
{
    const uint32_t pods = gang_pods_min(job);

    if (shares_available(trial->shares, shares_find(trial->shares, job->queue)) < gang_gpu_milli(job, false))
        return false;
    if (!job->tier_required || job->tier >= CLUSTER_TIER_END)
        return trial_count(trial, job, 0) == pods;
    for (uint32_t d = 1; d <= trial->cluster->domain_counts[job->tier]; d++)
        if (trial_count(trial, job, d) == pods)
            return true;
    return false;
}
