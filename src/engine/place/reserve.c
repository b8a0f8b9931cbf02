/* SPDX-License-Identifier: Apache-2.0 */
/* When and where a job that finds no room could start as running ones end. */
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "engine/place/instance.h"
#include "engine/place/schedule_inside.h"

uint32_t schedule_room(const Schedule *s, uint32_t job, unsigned role, uint32_t node, const PlacementLeft *left)
{
    const uint32_t room = placement_room(s->placement, s->kinds[job][role], node, left);

    return s->cluster->jobs[job].apart && room > 1 ? 1 : room;
}

/* Takes a pod's room from s->lefts at a node. */
static void take_room(Schedule *s, const ClusterRequest *r, uint32_t node)
{
    const ClusterNode *on = &s->cluster->nodes[node];
    PlacementLeft *left = &s->lefts[node];
    PlacementChoice choice = {.node = node};
    unsigned gpus = r->mig ? 0 : r->gpu_count;

    if (r->mig)
        instance_choose(on, instance_profile(on, r), left, &choice);
    for (unsigned i = 0; i < CLUSTER_GPUS_MAX && gpus > 0; i++)
        if (left->gpu_milli[i] >= r->gpu_milli) {
            choice.gpus = (uint16_t)(choice.gpus | 1u << i);
            gpus--;
        }
    placement_change_left(on, r, choice, -1, left);
}

/* Whether the needed pods of a job fit on s->lefts within a domain of a tier (CLUSTER_TIER_END: anywhere); then these
 * nodes are reserved. */
static bool reserve_in(Schedule *s, uint32_t job, unsigned tier, uint32_t domain)
{
    const ClusterJob *j = &s->cluster->jobs[job];
    const size_t words = s->cluster->node_count / 64 + 1;
    bool fits = true;

    memset(s->reserved_nodes, 0, words * sizeof *s->reserved_nodes);
    memcpy(s->saved, s->lefts, s->cluster->node_count * sizeof *s->saved);
    for (unsigned role = 0; role < j->role_count && fits; role++) {
        uint32_t pods = j->roles[role].min;

        for (uint32_t node = 0; node < s->cluster->node_count && pods > 0; node++) {
            if (tier < CLUSTER_TIER_END && s->cluster->nodes[node].domain[tier] != domain)
                continue;
            while (pods > 0 && !(j->apart && s->reserved_nodes[node / 64] >> node % 64 & 1) &&
                   schedule_room(s, job, role, node, &s->lefts[node]) > 0) {
                take_room(s, &j->roles[role].request, node);
                s->reserved_nodes[node / 64] |= UINT64_C(1) << node % 64;
                pods--;
            }
        }
        fits = pods == 0;
    }
    memcpy(s->lefts, s->saved, s->cluster->node_count * sizeof *s->lefts);
    return fits;
}

static bool reserve_somewhere(Schedule *s, uint32_t job)
{
    const ClusterJob *j = &s->cluster->jobs[job];

    if (j->tier == CLUSTER_TIER_END || !j->tier_required)
        return reserve_in(s, job, CLUSTER_TIER_END, 0);
    for (uint32_t domain = 1; domain <= s->cluster->domain_counts[j->tier]; domain++)
        if (reserve_in(s, job, j->tier, domain))
            return true;
    return false;
}

static int compare_ends(const void *a, const void *b, void *schedule)
{
    const Schedule *s = schedule;
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    const int by_end = number_compare_u64(s->jobs[x].expected_s, s->jobs[y].expected_s);

    return by_end ? by_end : number_compare_u64(x, y);
}

/* How many more pods of the job's first role have room on s->lefts once a running job has ended. */
static int64_t end_on_lefts(Schedule *s, uint32_t ending, uint32_t job)
{
    int64_t more = 0;

    for (size_t i = 0; i < s->jobs[ending].place_count; i++) {
        const ClusterPlace *place = &s->jobs[ending].places[i];
        PlacementLeft *left = &s->lefts[place->node];

        more -= schedule_room(s, job, 0, place->node, left);
        placement_change_left(&s->cluster->nodes[place->node], &s->cluster->jobs[ending].roles[place->role].request,
                              placement_choice(place), 1, left);
        more += schedule_room(s, job, 0, place->node, left);
    }
    return more;
}

/* The earliest time at which the job fits as running ones end, and the nodes. */
void schedule_reserve(Schedule *s, uint32_t job)
{
    int64_t room = 0;

    s->reserved = NO_JOB;
    for (uint32_t node = 0; node < s->cluster->node_count; node++) {
        s->lefts[node] = placement_left(s->placement, node);
        room += schedule_room(s, job, 0, node, &s->lefts[node]);
    }
    vec_clear(&s->passing);
    for (size_t i = 0; i < s->running.len; i++)
        vec_push(&s->passing, s->running.at[i]);
    if (s->passing.len > 1)
        qsort_r(s->passing.at, s->passing.len, sizeof *s->passing.at, compare_ends, s);
    for (size_t i = 0; i < s->passing.len && s->jobs[s->passing.at[i]].expected_s != UINT64_MAX; i++) {
        room += end_on_lefts(s, s->passing.at[i], job);
        if (room >= s->cluster->jobs[job].roles[0].min && reserve_somewhere(s, job)) {
            s->reserved = job;
            s->reserved_at_s = s->jobs[s->passing.at[i]].expected_s;
            return;
        }
    }
}
