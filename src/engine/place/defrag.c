/* SPDX-License-Identifier: Apache-2.0 */
/* What there is to move, the plans that are shown of those found, and the proof that they can be carried out. */
#include "engine/place/defrag.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/number.h"
#include "engine/place/gang.h"
#include "engine/place/change.h"
#include "engine/place/defrag_inside.h"
#include "engine/place/instance.h"
#include "engine/place/trial.h"

enum {
    SMALL_NODES = 16,  /* up to here the search leaves nothing out */
    STEPS = 10000000,  /* for each order of options */
    NODE_STEPS = 1000, /* and for each node: with 1,200 of them half a second */
};

CLEANUP_POINTER(Placement, placement_free);
CLEANUP_POINTER(Trial, trial_free);

const WordRow defrag_outcomes[DEFRAG_OUTCOME_END] = {DEFRAG_TABLE(WORD_ROW)};

/* --- nodes ----------------------------------------------------------------------------------------------------------
 */

static unsigned count_idle(const ClusterNode *node, const PlacementLeft *left)
{
    unsigned idle = 0;

    for (unsigned i = 0; i < node->gpu_count; i++)
        idle += left->gpu_milli[i] == CLUSTER_GPU;
    return idle;
}

static void measure_idle(const Cluster *cluster, const Placement *placement, unsigned block, DefragIdle *ret)
{
    *ret = (DefragIdle){.gpus = 0};
    for (size_t n = 0; n < cluster->node_count; n++) {
        const ClusterNode *node = &cluster->nodes[n];
        const PlacementLeft left = placement_left(placement, n);
        const unsigned idle = count_idle(node, &left);

        if (node->closed)
            continue;
        ret->idle += idle;
        ret->scattered += idle < block ? idle : 0;
        for (unsigned i = 0; i < node->gpu_count; i++) {
            ret->gpus += !(node->gpus_broken >> i & 1) && !instance_is_on(node, i);
            ret->parts_milli += left.gpu_milli[i] < CLUSTER_GPU ? left.gpu_milli[i] : 0;
        }
        for (unsigned i = 0; i < DEFRAG_SIZES; i++)
            ret->fits[i] += idle >> i;
    }
}

/* --- goals ----------------------------------------------------------------------------------------------------------
 */

ClusterJob defrag_block(uint8_t gpus, uint32_t count)
{
    ClusterJob job = {.role_count = 1, .tier = CLUSTER_TIER_END};

    job.roles[0] = (ClusterRole){
        .name = "", .request = {.gpu_count = gpus, .gpu_milli = gpus ? CLUSTER_GPU : 0}, .min = count, .max = count};
    return job;
}

typedef struct Waiting {
    uint64_t milli;
    size_t job;
} Waiting;

static int compare_waiting(const void *a, const void *b)
{
    const Waiting *x = a, *y = b;
    const int by_size = number_compare_u64(y->milli, x->milli);

    return by_size ? by_size : number_compare_u64(x->job, y->job);
}

static uint8_t largest_node(const Cluster *cluster)
{
    uint8_t most = 1;

    for (size_t i = 0; i < cluster->node_count; i++)
        if (!cluster->nodes[i].closed && instance_whole_gpus(&cluster->nodes[i]) > most)
            most = (uint8_t)instance_whole_gpus(&cluster->nodes[i]);
    return most < DEFRAG_BLOCK ? most : (uint8_t)DEFRAG_BLOCK;
}

ClusterJob defrag_default(const Cluster *cluster)
{
    Cluster free = *cluster;
    CLEANUP(trial_free_at) Trial *trial = NULL;
    CLEANUP_VEC VEC(Waiting) waiting = {0};
    DefragIdle idle;

    free.queues = NULL;
    free.queue_count = 0;
    if (trial_new(&free, &trial, NULL) < 0)
        return defrag_block(largest_node(cluster), 1);
    measure_idle(cluster, trial_placement(trial), 1, &idle);
    for (size_t i = 0; i < cluster->job_count; i++) {
        const uint64_t milli = gang_gpu_milli(&cluster->jobs[i], false);

        if (cluster->jobs[i].place_count == 0 && milli > 0 && milli <= idle.idle * (uint64_t)CLUSTER_GPU)
            vec_push(&waiting, ((Waiting){milli, i}));
    }
    vec_sort(&waiting, compare_waiting);
    for (size_t i = 0; i < waiting.len; i++)
        if (!trial_fits(trial, &cluster->jobs[waiting.at[i].job]))
            return cluster->jobs[waiting.at[i].job];
    return defrag_block(largest_node(cluster), 1);
}

/* Of a job that runs in part, the pods that wait. */
static ClusterJob rest_of(const ClusterJob *job)
{
    ClusterJob rest = *job;

    for (size_t i = 0; i < job->place_count; i++)
        rest.roles[job->places[i].role].min -= rest.roles[job->places[i].role].min > 0;
    return rest;
}

/* Those that the goal may use: all of its tier, or the one where some of its pods run. */
static void set_domains(Search *s)
{
    const ClusterJob *goal = s->goal;

    if (!goal->tier_required || goal->tier >= CLUSTER_TIER_END)
        return;
    s->first_domain = 1;
    s->last_domain = (uint32_t)s->cluster->domain_counts[goal->tier];
    if (goal->place_count > 0)
        s->first_domain = s->last_domain = s->cluster->nodes[goal->places[0].node].domain[goal->tier];
}

/* --- running pods ---------------------------------------------------------------------------------------------------
 */

/* What it holds of its node: GPUs of the record, else any. */
static void hold_pod(Search *s, Pod *pod)
{
    const ClusterRequest *asked = defrag_request(s, pod);
    const ClusterNode *node = &s->cluster->nodes[pod->from.node];
    PlacementLeft *left = &s->before[pod->from.node];

    pod->held = trial_hold(node, left, asked, &pod->from);
    defrag_change(s, left, &pod->held, &pod->from, -1);
}

/* Those whose GPUs are known first. Returns whether all are. */
static bool hold_pods(Search *s)
{
    bool known = true;

    for (size_t i = 0; i < s->cluster->node_count; i++)
        s->before[i] = placement_left(s->placement, i);
    for (int unknown = 0; unknown < 2; unknown++)
        for (size_t i = 0; i < s->pod_count; i++) {
            const ClusterJob *job = &s->cluster->jobs[s->pods[i].job];
            const ClusterRequest *r = defrag_request(s, &s->pods[i]);
            const bool is_unknown = job->places[s->pods[i].number].gpus == 0;

            known &= !is_unknown || r->gpu_count == 0 || r->mig;
            if (is_unknown == unknown)
                hold_pod(s, &s->pods[i]);
        }
    return known;
}

static int compare_pods(const void *a, const void *b, void *search)
{
    const Search *s = search;
    const Pod *x = &s->pods[*(const uint32_t *)a], *y = &s->pods[*(const uint32_t *)b];
    const int by_node = number_compare_u64(x->from.node, y->from.node);
    const int by_lost = number_compare_u64(s->losses[x->job], s->losses[y->job]);

    return by_node ? by_node : by_lost ? by_lost : (x > y) - (x < y);
}

/* Alone in their jobs, whole GPUs, and they hold as much as they ask for: the one that loses less goes first. */
static bool is_twin(const Search *s, const Pod *a, const Pod *b)
{
    const ClusterRequest *r = defrag_request(s, a);

    return a->kind == b->kind && s->cluster->jobs[a->job].place_count == 1 &&
           s->cluster->jobs[b->job].place_count == 1 && (r->gpu_count == 0 || r->gpu_milli == CLUSTER_GPU) &&
           a->held.gpu_count == b->held.gpu_count && a->held.cpu_milli == b->held.cpu_milli &&
           a->held.memory_mib == b->held.memory_mib;
}

static void sort_pods(Search *s)
{
    size_t count = 0;

    for (uint32_t i = 0; i < s->pod_count; i++)
        if (s->pods[i].movable) {
            s->on_node[count++] = i;
            s->first[s->pods[i].from.node + 1]++;
        }
    for (size_t n = 0; n < s->cluster->node_count; n++)
        s->first[n + 1] += s->first[n];
    qsort_r(s->on_node, count, sizeof *s->on_node, compare_pods, s);
    for (size_t i = 0; i < count; i++)
        for (size_t k = s->first[s->pods[s->on_node[i]].from.node]; k < i; k++)
            if (is_twin(s, &s->pods[s->on_node[k]], &s->pods[s->on_node[i]]))
                s->pods[s->on_node[i]].twin = s->on_node[k];
}

/* In one domain now, as it demands. */
static bool is_bound(const Cluster *cluster, const ClusterJob *job)
{
    bool bound = job->tier_required && job->tier < CLUSTER_TIER_END;

    for (size_t i = 0; i < job->place_count && bound; i++) {
        const uint32_t domain = cluster->nodes[job->places[i].node].domain[job->tier];

        bound = domain != 0 && domain == cluster->nodes[job->places[0].node].domain[job->tier];
    }
    return bound;
}

static uint32_t add_kind(Search *s, const ClusterRequest *r)
{
    const uint32_t kind = placement_add_kind(s->placement, r);

    s->kind_count = number_max_u64(s->kind_count, kind + 1);
    return kind;
}

static void list_pods(Search *s, uint64_t now_s)
{
    for (uint32_t j = 0; j < s->cluster->job_count; j++) {
        const ClusterJob *job = &s->cluster->jobs[j];
        const uint64_t milli = gang_places_milli(job, job->places, job->place_count);

        s->job_first[j] = (uint32_t)s->pod_count;
        s->bound[j] = is_bound(s->cluster, job);
        for (uint32_t i = 0; i < job->place_count; i++)
            s->pods[s->pod_count++] = (Pod){.job = j,
                                            .number = i,
                                            .kind = add_kind(s, &job->roles[job->places[i].role].request),
                                            .from = job->places[i],
                                            .twin = NO_POD,
                                            .movable = job->preemptible && s->goal->places != job->places &&
                                                       !job->roles[job->places[i].role].request.mig};
        s->losses[j] = milli * change_lost_s(job, now_s);
        s->unknown[j] = milli > 0 && change_lost_s(job, now_s) >= UINT32_MAX;
    }
}

/* Pods by their GPUs, the largest first. */
static void list_goals(Search *s, Defrag *ret)
{
    for (unsigned gpus = CLUSTER_GPUS_MAX + 1; gpus-- > 0;)
        for (uint8_t role = 0; role < s->goal->role_count; role++) {
            const ClusterRequest *r = &s->goal->roles[role].request;

            for (uint32_t i = 0; r->gpu_count == gpus && i < s->goal->roles[role].min; i++) {
                ret->goal_pods++;
                if (s->goal_count < DEFRAG_GOAL_MAX)
                    s->goals[s->goal_count++] = (GoalPod){r, add_kind(s, r), role};
            }
        }
    ret->block = s->goal_count > 0 ? s->goals[0].request->gpu_count : 0;
}

/* --- plans ----------------------------------------------------------------------------------------------------------
 */

/* As it is now. */
static Placement *fill_placement(const Search *s, uint32_t *held)
{
    Placement *placement =
        placement_new(s->cluster->nodes, s->cluster->node_count, NULL, placement_mode_find("first-fit"));

    for (size_t i = 0; i < s->pod_count; i++) {
        const ClusterPlace *place = &s->pods[i].from;

        held[i] = placement_add_kind(placement, &s->pods[i].held);
        placement_bind(placement, held[i], placement_choice(place));
    }
    return placement;
}

static bool bind_checked(Placement *placement, const ClusterRequest *request, const ClusterPlace *place)
{
    const uint32_t kind = placement_add_kind(placement, request);
    const PlacementChoice choice = placement_choice(place);

    if (!placement_fits(placement, kind, choice))
        return false;
    placement_bind(placement, kind, choice);
    return true;
}

/* Carries a plan out. False: it does not work. */
static bool replay_plan(const Search *s, const DefragPlan *plan, unsigned block, DefragIdle *ret_after)
{
    CLEANUP_FREE uint32_t *held = xcalloc(s->pod_count + 1, sizeof *held);
    CLEANUP(placement_free_at) Placement *placement = fill_placement(s, held);

    for (size_t i = 0; i < plan->move_count; i++) {
        const DefragMove *move = &plan->moves[i];
        const uint32_t pod = s->job_first[move->job] + move->pod;

        placement_release(placement, held[pod], placement_choice(&move->from));
        if (!bind_checked(placement, defrag_request(s, &s->pods[pod]), &move->to))
            return false;
    }
    measure_idle(s->cluster, placement, block, ret_after);
    for (size_t i = 0; i < s->goal_count; i++)
        if (!bind_checked(placement, s->goals[i].request, &plan->places[i]))
            return false;
    return true;
}

static void price_plan(const Search *s, DefragPlan *plan)
{
    for (size_t i = 0; i < plan->move_count; i++) {
        const uint32_t job = plan->moves[i].job;
        bool counted = false;

        for (size_t k = 0; k < i && !counted; k++)
            counted = plan->moves[k].job == job;
        if (counted)
            continue;
        plan->jobs_stopped++;
        if (s->unknown[job])
            plan->jobs_unknown++;
        else
            plan->lost_gpu_s += (double)s->losses[job] / CLUSTER_GPU;
    }
}

static int compare_found(const void *a, const void *b)
{
    const Found *x = a, *y = b;

    return number_compare_u64(x->lost, y->lost);
}

/* The one that loses least, the one with fewest moves, and between them the one with the smallest product of both. */
static void choose_plans(const Search *s, Defrag *ret)
{
    const size_t last = s->found.len - 1;
    size_t chosen[DEFRAG_PLANS_MAX] = {0, last, last}, count = number_min_u64(s->found.len, 2);

    for (size_t i = 1; i < last; i++) {
        const Found *plan = &s->found.at[i], *best = &s->found.at[chosen[1]];

        if (count == 2 || (double)plan->count * (double)plan->lost < (double)best->count * (double)best->lost) {
            chosen[1] = i;
            count = 3;
        }
    }
    for (size_t i = 0; i < count; i++) {
        const Found *found = &s->found.at[chosen[i]];
        DefragPlan *plan = &ret->plans[ret->plan_count];

        *plan = (DefragPlan){.moves = found->moves, .move_count = found->count, .places = found->places};
        price_plan(s, plan);
        ret->plan_count += replay_plan(s, plan, ret->block, &plan->after);
    }
}

/* --- the search -----------------------------------------------------------------------------------------------------
 */

static void search_init(Search *s)
{
    const Cluster *c = s->cluster;
    size_t pods = 0;

    for (size_t i = 0; i < c->job_count; i++)
        pods += c->jobs[i].place_count;
    s->placement = placement_new(c->nodes, c->node_count, NULL, placement_mode_find("first-fit"));
    s->pods = arena_calloc(s->arena, pods + 1, sizeof *s->pods);
    s->on_node = arena_calloc(s->arena, pods + 1, sizeof *s->on_node);
    s->first = arena_calloc(s->arena, c->node_count + 1, sizeof *s->first);
    s->changed = arena_calloc(s->arena, c->node_count + 1, sizeof *s->changed);
    s->before = arena_calloc(s->arena, c->node_count + 1, sizeof *s->before);
    s->lefts = arena_calloc(s->arena, c->node_count + 1, sizeof *s->lefts);
    s->turn = arena_calloc(s->arena, c->node_count + 1, sizeof *s->turn);
    s->job_first = arena_calloc(s->arena, c->job_count + 1, sizeof *s->job_first);
    s->outs = arena_calloc(s->arena, c->job_count + 1, sizeof *s->outs);
    s->losses = arena_calloc(s->arena, c->job_count + 1, sizeof *s->losses);
    s->bound = arena_calloc(s->arena, c->job_count + 1, sizeof *s->bound);
    s->large = c->node_count > SMALL_NODES;
    s->unknown = arena_calloc(s->arena, c->job_count + 1, sizeof *s->unknown);
}

static void search_done(Search *s)
{
    for (size_t i = 0; s->bases && i < s->kind_count; i++)
        vec_done(&s->bases[i]);
    vec_done(&s->homeless);
    vec_done(&s->found);
    placement_free(s->placement);
}

/* How much more of each kind there is room for. */
static void count_spare(Search *s)
{
    s->bases = arena_calloc(s->arena, s->kind_count + 1, sizeof *s->bases);
    s->spare = arena_calloc(s->arena, s->kind_count + 1, sizeof *s->spare);
    for (uint32_t kind = 0; kind < s->kind_count; kind++)
        for (uint32_t node = 0; node < s->cluster->node_count; node++)
            s->spare[kind] += placement_room(s->placement, kind, node, &s->before[node]);
}

/* First what is cheap to try, in both orders; then, in a small cluster, all that is left. */
static void run_search(Search *s, Defrag *ret)
{
    const int passes = s->large ? 2 : 3;

    for (int pass = 0; pass < passes && (pass == 0 || s->capped); pass++) {
        s->by_moves = pass == 1;
        s->brief = pass < 2;
        s->budget = STEPS + (int64_t)s->cluster->node_count * NODE_STEPS;
        s->combo = INT64_MAX;
        s->capped = s->cut;
        defrag_search(s);
    }
    vec_sort(&s->found, compare_found);
    if (s->found.len > 0)
        choose_plans(s, ret);
    ret->complete = !s->capped;
    ret->outcome = DEFRAG_FOUND;
    if (ret->plan_count == 0)
        ret->outcome = s->capped ? DEFRAG_GIVEN_UP : ret->movable == 0 ? DEFRAG_PINNED : DEFRAG_NONE;
    else if (ret->plans[0].move_count == 0)
        ret->outcome = DEFRAG_FITS;
}

static void measure_now(const Search *s, Defrag *ret)
{
    CLEANUP_FREE uint32_t *held = xcalloc(s->pod_count + 1, sizeof *held);
    CLEANUP(placement_free_at) Placement *placement = fill_placement(s, held);

    for (size_t i = 0; i < s->pod_count; i++)
        ret->movable += s->pods[i].movable;
    measure_idle(s->cluster, placement, ret->block, &ret->now);
}

void defrag_find(const Cluster *cluster, const ClusterJob *goal, uint64_t now_s, Arena *arena, Defrag *ret)
{
    Search *s = arena_calloc(arena, 1, sizeof *s);

    *ret = (Defrag){.goal = rest_of(goal), .complete = true};
    s->cluster = cluster;
    s->arena = arena;
    s->goal = &ret->goal;
    search_init(s);
    list_goals(s, ret);
    list_pods(s, now_s);
    ret->gpus_known = hold_pods(s);
    sort_pods(s);
    set_domains(s);
    memcpy(s->lefts, s->before, cluster->node_count * sizeof *s->lefts);
    measure_now(s, ret);
    count_spare(s);
    const uint64_t parts_milli = ret->block <= 1 ? ret->now.parts_milli : 0;
    if (gang_gpu_milli(&ret->goal, false) > ret->now.idle * (uint64_t)CLUSTER_GPU + parts_milli)
        ret->outcome = DEFRAG_NOT_ENOUGH;
    else if (ret->goal_pods > DEFRAG_GOAL_MAX)
        ret->outcome = DEFRAG_GIVEN_UP, ret->complete = false;
    else
        run_search(s, ret);
    search_done(s);
}
