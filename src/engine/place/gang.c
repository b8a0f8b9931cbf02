/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/place/gang.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/number.h"

/* Nodes that belong together, a part of an array of nodes. */
typedef struct Group {
    uint32_t *nodes;
    size_t count;
    uint64_t room; /* pods of the job's largest role */
} Group;

struct Gangs {
    const Cluster *cluster;
    Placement *placement;
    GangDomains choice;
    GangTier tiers[CLUSTER_TIER_END];
    uint32_t *usable;      /* room for all nodes, for groups in the making */
    Group *groups, *parts; /* and for as many groups, and parts of one */
    ClusterTier leaf;      /* the narrowest tier with domains; CLUSTER_TIER_END: none has */
    uint32_t *held;        /* of each of its domains, 0 too: pods of the job */
};

/* --- domains ---------------------------------------------------------------------------------------------------- */

void gang_tier_make(const Cluster *cluster, ClusterTier tier, GangTier *ret)
{
    const size_t count = cluster->domain_counts[tier];

    ret->nodes = xcalloc(cluster->node_count + 1, sizeof *ret->nodes);
    ret->first = xcalloc(count + 3, sizeof *ret->first);
    for (size_t i = 0; i < cluster->node_count; i++)
        ret->first[cluster->nodes[i].domain[tier] + 2]++;
    for (size_t d = 2; d < count + 3; d++)
        ret->first[d] += ret->first[d - 1];
    for (size_t i = 0; i < cluster->node_count; i++) /* moves first[d + 1] from the begin of d to its end */
        ret->nodes[ret->first[cluster->nodes[i].domain[tier] + 1]++] = (uint32_t)i;
}

void gang_tier_done(GangTier *tier)
{
    free(tier->nodes);
    free(tier->first);
}

Gangs *gangs_new(const Cluster *cluster, Placement *placement, GangDomains domains)
{
    Gangs *gangs = xcalloc(1, sizeof *gangs);

    *gangs = (Gangs){.cluster = cluster,
                     .placement = placement,
                     .choice = domains,
                     .usable = xcalloc(cluster->node_count + 1, sizeof *gangs->usable),
                     .groups = xcalloc(cluster->node_count + 1, sizeof *gangs->groups),
                     .parts = xcalloc(cluster->node_count + 1, sizeof *gangs->parts)};
    for (ClusterTier tier = 0; tier < CLUSTER_TIER_END; tier++)
        gang_tier_make(cluster, tier, &gangs->tiers[tier]);
    while (gangs->leaf < CLUSTER_TIER_END && cluster->domain_counts[gangs->leaf] == 0)
        gangs->leaf++;
    if (gangs->leaf < CLUSTER_TIER_END)
        gangs->held = xcalloc(cluster->domain_counts[gangs->leaf] + 1, sizeof *gangs->held);
    return gangs;
}

void gangs_free(Gangs *gangs)
{
    if (!gangs)
        return;
    for (ClusterTier tier = 0; tier < CLUSTER_TIER_END; tier++)
        gang_tier_done(&gangs->tiers[tier]);
    free(gangs->usable);
    free(gangs->groups);
    free(gangs->parts);
    free(gangs->held);
    free(gangs);
}

int gangs_tier(const Gangs *gangs, const ClusterPlace *places, size_t count)
{
    const ClusterNode *nodes = gangs->cluster->nodes;
    bool one_node = true, within[CLUSTER_TIER_END];

    for (ClusterTier tier = 0; tier < CLUSTER_TIER_END; tier++)
        within[tier] = count > 0 && nodes[places[0].node].domain[tier] != 0;
    for (size_t i = 1; i < count; i++) {
        one_node = one_node && places[i].node == places[0].node;
        for (ClusterTier tier = 0; tier < CLUSTER_TIER_END; tier++)
            within[tier] = within[tier] && nodes[places[i].node].domain[tier] == nodes[places[0].node].domain[tier];
    }
    for (int tier = 0; !one_node && tier < CLUSTER_TIER_END; tier++)
        if (within[tier])
            return tier;
    return one_node ? -1 : CLUSTER_TIER_END;
}

/* --- jobs ------------------------------------------------------------------------------------------------------- */

uint32_t gang_pods_min(const ClusterJob *job)
{
    uint32_t sum = 0;

    for (unsigned i = 0; i < job->role_count; i++)
        sum += job->roles[i].min;
    return sum;
}

uint32_t gang_pods_max(const ClusterJob *job)
{
    uint32_t sum = 0;

    for (unsigned i = 0; i < job->role_count; i++)
        sum += job->roles[i].max;
    return sum;
}

uint64_t gang_gpu_milli(const ClusterJob *job, bool most)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < job->role_count; i++)
        sum += (most ? job->roles[i].max : job->roles[i].min) * cluster_request_milli(&job->roles[i].request);
    return sum;
}

uint64_t gang_places_milli(const ClusterJob *job, const ClusterPlace *places, size_t count)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += cluster_request_milli(&job->roles[places[i].role].request);
    return sum;
}

/* --- placing ---------------------------------------------------------------------------------------------------- */

typedef struct Try {
    Gangs *gangs;
    const ClusterJob *job;
    const uint32_t *kinds;
    const uint64_t *kept_free;
    ClusterPlace *places;
    size_t count;
    unsigned largest; /* role */
    bool near;        /* pod by pod */
} Try;

static bool is_kept_free(const Try *t, uint32_t node)
{
    return t->kept_free && t->kept_free[node / 64] >> node % 64 & 1;
}

/* The best node of all; where that is kept free, of those that are not. */
static bool decide_anywhere(const Try *t, unsigned role, PlacementChoice *ret)
{
    Placement *placement = t->gangs->placement;
    size_t count = 0;

    if (!placement_decide(placement, t->kinds[role], ret))
        return false;
    if (!is_kept_free(t, ret->node))
        return true;
    for (uint32_t node = 0; node < t->gangs->cluster->node_count; node++)
        if (!is_kept_free(t, node))
            t->gangs->usable[count++] = node;
    return placement_decide_among(placement, t->kinds[role], t->gangs->usable, count, ret);
}

/* Of `count` nodes the best of those in whose narrowest domain the most pods of the job are. */
static bool decide_by_held(const Try *t, unsigned role, const uint32_t *nodes, size_t count, PlacementChoice *ret)
{
    const Gangs *gangs = t->gangs;
    bool placed = false;

    for (size_t held = t->count + 1; held-- > 0 && !placed;) {
        size_t usable = 0;

        for (size_t i = 0; i < count; i++)
            if (gangs->held[gangs->cluster->nodes[nodes[i]].domain[gangs->leaf]] == held && !is_kept_free(t, nodes[i]))
                gangs->usable[usable++] = nodes[i];
        placed = usable > 0 && placement_decide_among(gangs->placement, t->kinds[role], gangs->usable, usable, ret);
    }
    return placed;
}

/* Volcano's network-topology-aware plugin in soft mode (v1.15), before all other scores: (top tier - tier) / (top tier
 * - lowest tier) of the narrowest domain that has the node and all pods so far; of equal ones the share of the job's
 * pods that its narrowest domain has. The first pod goes anywhere. */
static bool decide_near(const Try *t, unsigned role, PlacementChoice *ret)
{
    const Gangs *gangs = t->gangs;
    const ClusterNode *nodes = gangs->cluster->nodes;
    const int near = gangs_tier(gangs, t->places, t->count);
    bool placed = false;

    memset(gangs->held, 0, (gangs->cluster->domain_counts[gangs->leaf] + 1) * sizeof *gangs->held);
    for (size_t i = 0; i < t->count; i++) {
        const uint32_t domain = nodes[t->places[i].node].domain[gangs->leaf];

        gangs->held[domain] += domain > 0;
    }
    for (unsigned tier = near > (int)gangs->leaf ? (unsigned)near : gangs->leaf; tier < CLUSTER_TIER_END && !placed;
         tier++) {
        const GangTier *domains = &gangs->tiers[tier];
        const uint32_t domain = nodes[t->places[0].node].domain[tier];

        placed = domain > 0 && decide_by_held(t, role, &domains->nodes[domains->first[domain]],
                                              domains->first[domain + 1] - domains->first[domain], ret);
    }
    return placed || decide_by_held(t, role, gangs->tiers[0].nodes, gangs->cluster->node_count, ret);
}

/* In the first group that has room; without groups anywhere, or near the pods placed so far. */
static bool place_pod(Try *t, unsigned role, const Group *groups, size_t group_count)
{
    Placement *placement = t->gangs->placement;
    PlacementChoice choice;
    bool placed = false;

    if (!groups)
        placed = t->near && t->count > 0 ? decide_near(t, role, &choice) : decide_anywhere(t, role, &choice);
    for (size_t i = 0; i < group_count && !placed; i++)
        placed = placement_decide_among(placement, t->kinds[role], groups[i].nodes, groups[i].count, &choice);
    if (!placed)
        return false;
    placement_bind(placement, t->kinds[role], choice);
    if (t->job->apart) /* until all are placed */
        placement_close(placement, choice.node, true);
    t->places[t->count++] =
        (ClusterPlace){.node = choice.node, .gpus = choice.gpus, .role = (uint8_t)role, .start = choice.start};
    return true;
}

static void open_again(Try *t)
{
    for (size_t i = 0; i < t->count && t->job->apart; i++)
        placement_close(t->gangs->placement, t->places[i].node, false);
}

/* The largest role first: it is the hardest to place. */
static bool place_needed(Try *t, const Group *groups, size_t group_count)
{
    for (unsigned turn = 0; turn < t->job->role_count; turn++) {
        const unsigned role = turn == 0 ? t->largest : turn <= t->largest ? turn - 1 : turn;

        for (uint32_t i = 0; i < t->job->roles[role].min; i++)
            if (!place_pod(t, role, groups, group_count)) {
                open_again(t);
                gangs_release(t->gangs, t->kinds, t->places, t->count);
                t->count = 0;
                return false;
            }
    }
    return true;
}

static bool place_in(Try *t, const Group *groups, size_t group_count)
{
    if (!place_needed(t, groups, group_count))
        return false;
    for (unsigned role = 0; role < t->job->role_count; role++)
        for (uint32_t i = t->job->roles[role].min; i < t->job->roles[role].max; i++)
            if (!place_pod(t, role, groups, group_count))
                break;
    open_again(t);
    return true;
}

static uint32_t count_room(const Try *t, uint32_t node)
{
    const uint32_t room = placement_capacity(t->gangs->placement, t->kinds[t->largest], node);

    return t->job->apart && room > 1 ? 1 : room;
}

/* The nodes of a domain that may be used, put at `to`, and how many pods of the largest role have room on them. */
static Group gather_usable(const Try *t, const uint32_t *nodes, size_t count, uint32_t *to)
{
    Group group = {.nodes = to};

    for (size_t i = 0; i < count; i++)
        if (!is_kept_free(t, nodes[i])) {
            group.nodes[group.count++] = nodes[i];
            group.room += count_room(t, nodes[i]);
        }
    return group;
}

static int compare_least_room(const void *a, const void *b)
{
    const Group *x = a, *y = b;
    const int by_room = number_compare_u64(x->room, y->room);

    return by_room ? by_room : (x->nodes > y->nodes) - (x->nodes < y->nodes);
}

static int compare_most_room(const void *a, const void *b)
{
    return compare_least_room(b, a);
}

static int compare_domains(const void *a, const void *b, void *try)
{
    const Try *t = try;
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    const ClusterNode *nodes = t->gangs->cluster->nodes;
    const int by_domain = number_compare_u64(nodes[x].domain[t->job->tier], nodes[y].domain[t->job->tier]);

    return by_domain ? by_domain : number_compare_u64(x, y);
}

/* In the fewest domains of the job's tier that are in a group. */
static bool place_in_fewest(Try *t, const Group *group)
{
    Group *parts = t->gangs->parts;
    size_t count = 0;

    qsort_r(group->nodes, group->count, sizeof *group->nodes, compare_domains, t);
    for (size_t i = 0; i < group->count; i++) {
        const ClusterNode *node = &t->gangs->cluster->nodes[group->nodes[i]];
        const ClusterNode *before = i ? &t->gangs->cluster->nodes[group->nodes[i - 1]] : NULL;

        if (!before || before->domain[t->job->tier] != node->domain[t->job->tier])
            parts[count++] = (Group){.nodes = &group->nodes[i]};
        parts[count - 1].count++;
        parts[count - 1].room += count_room(t, group->nodes[i]);
    }
    qsort(parts, count, sizeof *parts, compare_most_room);
    return count > 0 && place_in(t, parts, count);
}

/* Within one domain of a tier, the fullest that has room. */
static bool place_in_one(Try *t, ClusterTier tier)
{
    const GangTier *domains = &t->gangs->tiers[tier];
    Group *groups = t->gangs->groups;
    size_t count = 0, used = 0;

    for (size_t i = 1; i <= t->gangs->cluster->domain_counts[tier]; i++) {
        groups[count] = gather_usable(t, &domains->nodes[domains->first[i]], domains->first[i + 1] - domains->first[i],
                                      t->gangs->usable + used);
        used += groups[count].count;
        count += groups[count].count > 0 && groups[count].room >= t->job->roles[t->largest].min;
    }
    qsort(groups, count, sizeof *groups, t->gangs->choice == GANG_EMPTIEST ? compare_most_room : compare_least_room);
    for (size_t i = 0; i < count; i++)
        if (tier == t->job->tier ? place_in(t, &groups[i], 1) : place_in_fewest(t, &groups[i]))
            return true;
    return false;
}

static bool place_anywhere(Try *t)
{
    if (t->job->tier == CLUSTER_TIER_END || t->gangs->choice == GANG_IGNORED || t->near)
        return place_in(t, NULL, 0);
    const Group usable = gather_usable(t, t->gangs->tiers[0].nodes, t->gangs->cluster->node_count, t->gangs->usable);
    return place_in_fewest(t, &usable);
}

static unsigned find_largest(const ClusterJob *job)
{
    unsigned largest = 0;

    for (unsigned i = 1; i < job->role_count; i++)
        if (cluster_request_milli(&job->roles[i].request) > cluster_request_milli(&job->roles[largest].request))
            largest = i;
    return largest;
}

size_t gangs_place(Gangs *gangs, const ClusterJob *job, const uint32_t *kinds, const uint64_t *kept_free,
                   ClusterPlace *ret)
{
    Try t = {.gangs = gangs,
             .job = job,
             .kinds = kinds,
             .kept_free = kept_free,
             .places = ret,
             .largest = find_largest(job),
             .near = gangs->choice == GANG_NEAREST && gangs->leaf < CLUSTER_TIER_END && job->tier < CLUSTER_TIER_END &&
                     !job->tier_required};

    for (unsigned tier = job->tier;
         tier < CLUSTER_TIER_END && !t.near && (job->tier_required || gangs->choice != GANG_IGNORED); tier++) {
        if (place_in_one(&t, tier))
            return t.count;
        if (job->tier_required)
            return 0;
    }
    place_anywhere(&t);
    return t.count;
}

void gangs_release(Gangs *gangs, const uint32_t *kinds, const ClusterPlace *places, size_t count)
{
    for (size_t i = 0; i < count; i++)
        placement_release(gangs->placement, kinds[places[i].role], placement_choice(&places[i]));
}

void gangs_bind(Gangs *gangs, const uint32_t *kinds, const ClusterPlace *places, size_t count)
{
    for (size_t i = 0; i < count; i++)
        placement_bind(gangs->placement, kinds[places[i].role], placement_choice(&places[i]));
}
