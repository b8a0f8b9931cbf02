/* SPDX-License-Identifier: Apache-2.0 */
/* The search for moves: branch and bound. Each level undoes what it did. */
#include <string.h>

#include "base/cleanup.h"
#include "base/number.h"
#include "engine/place/defrag_inside.h"

enum {
    TARGETS_MAX = 12, /* of a pod, to be brief */
    DETOURS_MAX = 16, /* nodes where others have to move for it, to be brief */
    CANDIDATES_MAX = 64,
    ENUMERATE_MAX = 20000, /* steps for one node */
    NODE_OPTIONS_MAX = 32, /* kept of a node in a large cluster */
    LIST_MAX = 100000,     /* options in memory, to be brief, of all goal pods together */
    ORDER_MAX = 20000,     /* steps */
};

/* --- nodes -------------------------------------------------------------------------------------------------------- */

void defrag_change(const Search *s, PlacementLeft *left, const ClusterRequest *r, const ClusterPlace *place, int sign)
{
    placement_change_left(&s->cluster->nodes[place->node], r, placement_choice(place), sign, left);
}

uint16_t defrag_choose_gpus(const ClusterNode *node, const PlacementLeft *left, const ClusterRequest *r)
{
    uint16_t gpus = 0;

    for (unsigned n = 0; n < r->gpu_count; n++) {
        unsigned best = CLUSTER_GPUS_MAX;

        for (unsigned i = 0; i < node->gpu_count; i++)
            if (!(gpus >> i & 1) && left->gpu_milli[i] >= r->gpu_milli &&
                (best == CLUSTER_GPUS_MAX || left->gpu_milli[i] < left->gpu_milli[best]))
                best = i;
        if (best == CLUSTER_GPUS_MAX)
            return 0;
        gpus = (uint16_t)(gpus | 1u << best);
    }
    return gpus;
}

const ClusterRequest *defrag_request(const Search *s, const Pod *pod)
{
    return &s->cluster->jobs[pod->job].roles[pod->from.role].request;
}

/* --- bounds ------------------------------------------------------------------------------------------------------- */

/* A plan is known that has no more moves and loses no more. */
static bool is_beaten(const Search *s, size_t moves, uint64_t lost)
{
    for (size_t i = 0; i < s->found.len; i++)
        if (s->found.at[i].count <= moves && s->found.at[i].lost <= lost)
            return true;
    return false;
}

static bool is_over(const Search *s)
{
    return s->budget <= 0 || s->combo <= 0 || is_beaten(s, s->homeless.len, s->lost);
}

static void count_steps(Search *s, int64_t steps)
{
    s->budget -= steps;
    s->combo -= steps;
}

/* What would be lost besides, were these taken out. */
static uint64_t price_pods(const Search *s, const uint32_t *pods, size_t count)
{
    uint64_t lost = 0;

    for (size_t i = 0; i < count; i++) {
        const uint32_t job = s->pods[pods[i]].job;
        bool paid = s->outs[job] > 0;

        for (size_t k = 0; k < i && !paid; k++)
            paid = s->pods[pods[k]].job == job;
        lost += paid ? 0 : s->losses[job];
    }
    return lost;
}

/* --- changes ------------------------------------------------------------------------------------------------------ */

static void take_out(Search *s, uint32_t number)
{
    Pod *pod = &s->pods[number];

    pod->out = true;
    s->lost += s->outs[pod->job]++ == 0 ? s->losses[pod->job] : 0;
    defrag_change(s, &s->lefts[pod->from.node], &pod->held, &pod->from, 1);
    s->changed[pod->from.node]++;
    vec_push(&s->homeless, number);
}

/* In the reverse order of take_out. */
static void put_back(Search *s, size_t count)
{
    for (; count > 0; count--) {
        Pod *pod = &s->pods[s->homeless.at[--s->homeless.len]];

        pod->out = false;
        s->lost -= --s->outs[pod->job] == 0 ? s->losses[pod->job] : 0;
        defrag_change(s, &s->lefts[pod->from.node], &pod->held, &pod->from, -1);
        s->changed[pod->from.node]--;
    }
}

static void take_out_option(Search *s, const Option *option)
{
    for (uint32_t i = 0; i < option->count; i++)
        take_out(s, option->pods[i]);
}

static void bind_pod(Search *s, uint32_t number, uint32_t node, uint16_t gpus)
{
    Pod *pod = &s->pods[number];

    pod->to = (ClusterPlace){.node = node, .gpus = gpus, .role = pod->from.role};
    pod->placed = true;
    defrag_change(s, &s->lefts[node], defrag_request(s, pod), &pod->to, -1);
    s->changed[node]++;
}

static void unbind_pod(Search *s, uint32_t number)
{
    Pod *pod = &s->pods[number];

    pod->placed = false;
    defrag_change(s, &s->lefts[pod->to.node], defrag_request(s, pod), &pod->to, 1);
    s->changed[pod->to.node]--;
}

/* --- options ------------------------------------------------------------------------------------------------------ */

typedef struct Enumeration {
    Search *s;
    uint32_t kind, node;
    PlacementLeft left;
    uint32_t candidates[CANDIDATES_MAX], taken[OPTION_PODS_MAX];
    size_t candidate_count, taken_count;
    unsigned steps;
    bool initial; /* as nothing had been taken out */
    Options *out;
} Enumeration;

static bool has_room(const Enumeration *e, const PlacementLeft *left)
{
    return placement_room(e->s->placement, e->kind, e->node, left) > 0;
}

static void give_left(const Enumeration *e, PlacementLeft *left, uint32_t number, int sign)
{
    defrag_change(e->s, left, &e->s->pods[number].held, &e->s->pods[number].from, sign);
}

/* Without any one of them there is no room. */
static bool is_smallest(const Enumeration *e)
{
    PlacementLeft left = e->left;

    for (size_t i = 0; i < e->taken_count; i++) {
        give_left(e, &left, e->taken[i], -1);
        if (has_room(e, &left))
            return false;
        give_left(e, &left, e->taken[i], 1);
    }
    return true;
}

static bool is_taken(const Enumeration *e, uint32_t number)
{
    for (size_t i = 0; i < e->taken_count; i++)
        if (e->taken[i] == number)
            return true;
    return !e->initial && e->s->pods[number].out;
}

/* Were all further candidates taken, there would be room. */
static bool can_reach(const Enumeration *e, size_t i)
{
    PlacementLeft left = e->left;

    for (; i < e->candidate_count; i++)
        give_left(e, &left, e->candidates[i], 1);
    return has_room(e, &left);
}

static void add_option(Enumeration *e)
{
    const Search *s = e->s;
    Option option = {.node = e->node, .count = (uint32_t)e->taken_count};

    for (unsigned i = 0; i < s->cluster->nodes[e->node].gpu_count; i++)
        option.idle += e->left.gpu_milli[i] == CLUSTER_GPU;
    for (size_t i = 0; i < e->taken_count; i++) {
        option.pods[i] = e->taken[i];
        option.hard |= s->spare[s->pods[e->taken[i]].kind] == 0;
    }
    option.lost = price_pods(s, option.pods, option.count);
    vec_push(e->out, option);
}

static void enumerate_sets(Enumeration *e, size_t i)
{
    if (has_room(e, &e->left)) {
        if (is_smallest(e))
            add_option(e);
        return;
    }
    if (i == e->candidate_count || !can_reach(e, i))
        return;
    if (e->taken_count == OPTION_PODS_MAX || e->steps++ > ENUMERATE_MAX) {
        e->s->capped = e->s->cut = true;
        return;
    }
    const uint32_t number = e->candidates[i], twin = e->s->pods[number].twin;

    if (twin == NO_POD || is_taken(e, twin)) {
        e->taken[e->taken_count++] = number;
        give_left(e, &e->left, number, 1);
        enumerate_sets(e, i + 1);
        give_left(e, &e->left, number, -1);
        e->taken_count--;
    }
    enumerate_sets(e, i + 1);
}

/* Whether a pod holds anything that the node has too little of: else it is in no smallest set. */
static bool is_helpful(const Enumeration *e, const ClusterRequest *r, const Pod *pod)
{
    unsigned gpus = 0;

    for (unsigned i = 0; i < e->s->cluster->nodes[e->node].gpu_count; i++)
        gpus += e->left.gpu_milli[i] >= r->gpu_milli;
    return (gpus < r->gpu_count && pod->from.gpus) || (e->left.cpu_milli < r->cpu_milli && pod->held.cpu_milli > 0) ||
           (e->left.memory_mib < r->memory_mib && pod->held.memory_mib > 0) || e->left.pods >= PLACEMENT_NODE_PODS_MAX;
}

static int compare_options(const void *a, const void *b, void *search)
{
    const Search *s = search;
    const Option *x = a, *y = b;
    const int by_hard = x->hard - y->hard, by_lost = number_compare_u64(x->lost, y->lost);
    const int by_count = number_compare_u64(x->count, y->count);
    const int by_idle = number_compare_u64(x->idle, y->idle), by_node = number_compare_u64(x->node, y->node);
    const int by_cost = s->by_moves ? (by_count ? by_count : by_lost) : by_lost ? by_lost : by_count;

    if (by_hard || by_cost)
        return by_hard ? by_hard : by_cost;
    if (by_idle || by_node)
        return by_idle ? by_idle : by_node;
    return memcmp(x->pods, y->pods, sizeof x->pods);
}

static void sort_options(Search *s, Options *options)
{
    if (options->len > 1)
        qsort_r(options->at, options->len, sizeof *options->at, compare_options, s);
}

/* Of the options of one node, those from `begin` on, the best few. */
static void keep_best(Search *s, Options *options, size_t begin)
{
    if (!s->large || options->len - begin <= NODE_OPTIONS_MAX)
        return;
    qsort_r(options->at + begin, options->len - begin, sizeof *options->at, compare_options, s);
    options->len = begin + NODE_OPTIONS_MAX;
    s->capped = s->cut = true;
}

static void collect_node(Search *s, uint32_t kind, const ClusterRequest *r, uint32_t node, bool initial, Options *out)
{
    Enumeration e = {.s = s, .kind = kind, .node = node, .initial = initial, .out = out};
    const size_t before = out->len;

    e.left = initial ? s->before[node] : s->lefts[node];
    for (uint32_t i = s->first[node]; i < s->first[node + 1]; i++) {
        const Pod *pod = &s->pods[s->on_node[i]];

        if ((!initial && pod->out) || !is_helpful(&e, r, pod))
            continue;
        if (e.candidate_count == CANDIDATES_MAX) {
            s->capped = s->cut = true;
            break;
        }
        e.candidates[e.candidate_count++] = s->on_node[i];
    }
    enumerate_sets(&e, 0);
    count_steps(s, e.steps + 1);
    keep_best(s, out, before);
}

static const Options *list_options(Search *s, uint32_t kind, const ClusterRequest *r)
{
    Options *base = &s->bases[kind];

    if (base->at)
        return base;
    vec_reserve(base, 1);
    for (uint32_t node = 0; node < s->cluster->node_count; node++)
        collect_node(s, kind, r, node, true, base);
    sort_options(s, base);
    for (uint32_t i = 0; i < base->len; i++)
        base->at[i].rank = i + 1;
    return base;
}

static bool is_within(const Search *s, uint32_t node, unsigned tier, uint32_t domain)
{
    return domain == 0 || s->cluster->nodes[node].domain[tier] == domain;
}

/* As the nodes are now: those of `rank` and later of the nodes that are as they were, and all of the others. */
static void collect_options(Search *s, uint32_t kind, const ClusterRequest *r, uint32_t rank, Options *out)
{
    const Options *base = list_options(s, kind, r);
    const size_t most = s->brief ? LIST_MAX / s->goal_count : SIZE_MAX;

    for (size_t i = rank; i < base->len; i++)
        if (s->changed[base->at[i].node] == 0) {
            if (out->len == most) {
                s->capped = true;
                break;
            }
            vec_push(out, base->at[i]);
            out->at[out->len - 1].lost = price_pods(s, base->at[i].pods, base->at[i].count);
        }
    for (uint32_t node = 0; node < s->cluster->node_count; node++)
        if (s->changed[node] > 0) {
            const size_t before = out->len;

            collect_node(s, kind, r, node, false, out);
            for (size_t i = before; i < out->len; i++)
                out->at[i].rank = rank;
        }
    sort_options(s, out);
    count_steps(s, (int64_t)out->len);
}

/* --- plans ----------------------------------------------------------------------------------------------------------
 */

/* At its turn a pod of whole GPUs gets those that are idle then. */
static bool make_turn(Search *s, Pod *pod)
{
    PlacementLeft *left = &s->turn[pod->to.node];
    const ClusterRequest *r = defrag_request(s, pod);

    defrag_change(s, &s->turn[pod->from.node], &pod->held, &pod->from, 1);
    const bool part = r->gpu_milli < CLUSTER_GPU && pod->to.gpus;
    const uint16_t gpus = part ? pod->to.gpus : defrag_choose_gpus(&s->cluster->nodes[pod->to.node], left, r);
    if (placement_room(s->placement, pod->kind, pod->to.node, left) > 0 &&
        (!part || left->gpu_milli[__builtin_ctz(gpus)] >= r->gpu_milli)) {
        pod->to.gpus = gpus;
        defrag_change(s, left, r, &pod->to, -1);
        return true;
    }
    defrag_change(s, &s->turn[pod->from.node], &pod->held, &pod->from, -1);
    return false;
}

static void undo_turn(Search *s, const Pod *pod)
{
    defrag_change(s, &s->turn[pod->to.node], defrag_request(s, pod), &pod->to, 1);
    defrag_change(s, &s->turn[pod->from.node], &pod->held, &pod->from, -1);
}

/* Orders the moves from `done` on so that each has room at its turn. */
static bool order_moves(Search *s, uint32_t *moves, size_t done, unsigned *steps)
{
    if (done == s->homeless.len)
        return true;
    for (size_t i = done; i < s->homeless.len && ++*steps < ORDER_MAX; i++) {
        const uint32_t number = moves[i];
        const uint16_t gpus = s->pods[number].to.gpus;

        if (!make_turn(s, &s->pods[number]))
            continue;
        memmove(&moves[done + 1], &moves[done], (i - done) * sizeof *moves);
        moves[done] = number;
        if (order_moves(s, moves, done + 1, steps))
            return true;
        memmove(&moves[done], &moves[done + 1], (i - done) * sizeof *moves);
        moves[i] = number;
        undo_turn(s, &s->pods[number]);
        s->pods[number].to.gpus = gpus;
    }
    return false;
}

/* The goal's pods on what is free after the moves. */
static bool bind_goal(Search *s)
{
    for (size_t i = 0; i < s->goal_count; i++) {
        ClusterPlace *place = &s->goal_places[i];
        PlacementLeft *left = &s->turn[place->node];

        if (placement_room(s->placement, s->goals[i].kind, place->node, left) == 0)
            return false;
        place->gpus = defrag_choose_gpus(&s->cluster->nodes[place->node], left, s->goals[i].request);
        defrag_change(s, left, s->goals[i].request, place, -1);
    }
    return true;
}

static void drop_beaten(Search *s, const Found *by)
{
    for (size_t i = s->found.len; i-- > 0;)
        if (by->count <= s->found.at[i].count && by->lost <= s->found.at[i].lost)
            vec_remove(&s->found, i);
}

static void keep_plan(Search *s, const uint32_t *order)
{
    Found plan = {.count = s->homeless.len, .lost = s->lost};

    plan.places = arena_memdup(s->arena, s->goal_places, s->goal_count * sizeof *plan.places);
    plan.moves = arena_calloc(s->arena, plan.count + 1, sizeof *plan.moves);
    for (size_t i = 0; i < plan.count; i++) {
        const Pod *pod = &s->pods[order[i]];

        plan.moves[i] = (DefragMove){pod->job, pod->number, pod->from, pod->to};
    }
    drop_beaten(s, &plan);
    vec_push(&s->found, plan);
}

/* All pods have a place: a plan, if there is an order. */
static void add_plan(Search *s)
{
    const size_t count = s->homeless.len;
    CLEANUP_VEC Numbers order = {0};
    CLEANUP_VEC VEC(uint16_t) planned = {0};
    unsigned steps = 0;

    for (size_t i = 0; i < count; i++) {
        vec_push(&order, s->homeless.at[i]);
        vec_push(&planned, s->pods[s->homeless.at[i]].to.gpus);
    }
    memcpy(s->turn, s->before, s->cluster->node_count * sizeof *s->turn);
    if (order_moves(s, order.at, 0, &steps) && bind_goal(s))
        keep_plan(s, order.at);
    for (size_t i = 0; i < count; i++)
        s->pods[s->homeless.at[i]].to.gpus = planned.at[i];
    s->capped |= steps >= ORDER_MAX;
    count_steps(s, steps + (int64_t)s->cluster->node_count / 8);
}

/* --- places for pods that move ------------------------------------------------------------------------------------ */

typedef struct Target {
    uint32_t node;
    uint16_t gpus;
    uint32_t waste; /* the least first */
} Target;

typedef VEC(Target) Targets;

static int compare_targets(const void *a, const void *b)
{
    const Target *x = a, *y = b;
    const int by_waste = number_compare_u64(x->waste, y->waste), by_node = number_compare_u64(x->node, y->node);

    return by_waste ? by_waste : by_node ? by_node : number_compare_u64(x->gpus, y->gpus);
}

/* The domain of its tier that a pod has to be in, by the other pods of its job; 0: any. */
static uint32_t find_domain(const Search *s, const Pod *pod)
{
    const ClusterJob *job = &s->cluster->jobs[pod->job];

    for (size_t i = 0; i < job->place_count && s->bound[pod->job]; i++) {
        const Pod *other = &s->pods[s->job_first[pod->job] + i];

        if (!other->out || other->placed)
            return s->cluster->nodes[other->out ? other->to.node : other->from.node].domain[job->tier];
    }
    return 0;
}

/* A pod of the same job is there or is to be there. */
static bool has_sibling(const Search *s, const Pod *pod, uint32_t node)
{
    const uint32_t first = s->job_first[pod->job];

    for (uint32_t i = first; i < first + s->cluster->jobs[pod->job].place_count; i++)
        if (s->pods[i].placed ? s->pods[i].to.node == node : !s->pods[i].out && s->pods[i].from.node == node)
            return true;
    return false;
}

static bool is_open_to(const Search *s, const Pod *pod, uint32_t node, uint32_t domain)
{
    const unsigned tier = s->cluster->jobs[pod->job].tier;

    if (s->cluster->jobs[pod->job].apart && has_sibling(s, pod, node))
        return false;
    return is_within(s, node, tier, domain) && (!s->bound[pod->job] || s->cluster->nodes[node].domain[tier] != 0);
}

/* Idle GPUs of a node count as waste, and those that a part of one would break most. Outside the domain where the rest
 * of the job is they count more. */
static uint32_t measure_waste(const Search *s, const Pod *pod, uint32_t node, uint16_t gpus)
{
    const ClusterNode *n = &s->cluster->nodes[node], *from = &s->cluster->nodes[pod->from.node];
    const ClusterJob *job = &s->cluster->jobs[pod->job];
    const ClusterRequest *r = defrag_request(s, pod);
    uint32_t waste = 0;

    for (unsigned i = 0; i < n->gpu_count; i++)
        waste += s->lefts[node].gpu_milli[i] == CLUSTER_GPU;
    waste +=
        r->gpu_milli < CLUSTER_GPU && gpus && s->lefts[node].gpu_milli[__builtin_ctz(gpus)] == CLUSTER_GPU ? 32 : 0;
    if (job->tier < CLUSTER_TIER_END && job->place_count > 1 && n->domain[job->tier] != from->domain[job->tier])
        waste += 64;
    return waste;
}

/* To be brief one node stands for those that are alike. */
static bool is_like_another(const Search *s, const Targets *targets, const Target *target)
{
    for (size_t i = 0; i < targets->len; i++)
        if (targets->at[i].waste == target->waste &&
            memcmp(&s->lefts[targets->at[i].node], &s->lefts[target->node], sizeof *s->lefts) == 0)
            return true;
    return false;
}

static void add_target(Search *s, const Pod *pod, uint32_t node, uint16_t gpus, Targets *targets)
{
    const Target target = {node, gpus, measure_waste(s, pod, node, gpus)};

    if (!s->brief || !is_like_another(s, targets, &target))
        vec_push(targets, target);
}

/* Nodes with room; of a part of a GPU each GPU that differs. On its own node only such a part can move. */
static void collect_targets(Search *s, const Pod *pod, Targets *targets)
{
    const ClusterRequest *r = defrag_request(s, pod);
    const bool part = r->gpu_count > 0 && r->gpu_milli < CLUSTER_GPU;
    const uint32_t domain = find_domain(s, pod);

    for (uint32_t node = 0; node < s->cluster->node_count; node++) {
        const PlacementLeft *left = &s->lefts[node];
        const bool home = node == pod->from.node;

        if ((home && !part) || !is_open_to(s, pod, node, domain) ||
            placement_room(s->placement, pod->kind, node, left) == 0)
            continue;
        if (!part)
            add_target(s, pod, node, defrag_choose_gpus(&s->cluster->nodes[node], left, r), targets);
        for (unsigned i = 0; part && i < s->cluster->nodes[node].gpu_count; i++)
            if (left->gpu_milli[i] >= r->gpu_milli && !(home && pod->from.gpus >> i & 1))
                add_target(s, pod, node, (uint16_t)(1u << i), targets);
    }
    vec_sort(targets, compare_targets);
    if (s->brief && targets->len > TARGETS_MAX)
        targets->len = TARGETS_MAX;
    count_steps(s, (int64_t)s->cluster->node_count);
}

static void place_homeless(Search *s, size_t i);

static size_t try_targets(Search *s, size_t i)
{
    const uint32_t number = s->homeless.at[i];
    CLEANUP_VEC Targets targets = {0};

    collect_targets(s, &s->pods[number], &targets);
    for (size_t k = 0; k < targets.len && !is_over(s); k++) {
        bind_pod(s, number, targets.at[k].node, targets.at[k].gpus);
        place_homeless(s, i + 1);
        unbind_pod(s, number);
    }
    return targets.len;
}

/* Onto a node where others have to go first. */
static void try_detours(Search *s, size_t i)
{
    const uint32_t number = s->homeless.at[i];
    const ClusterRequest *r = defrag_request(s, &s->pods[number]);
    const uint32_t domain = find_domain(s, &s->pods[number]);
    CLEANUP_VEC Options options = {0};
    size_t tried = 0;

    collect_options(s, s->pods[number].kind, r, 0, &options);
    for (size_t k = 0; k < options.len && !is_over(s); k++) {
        const Option *option = &options.at[k];

        if (option->count == 0 || option->node == s->pods[number].from.node ||
            !is_open_to(s, &s->pods[number], option->node, domain) ||
            is_beaten(s, s->homeless.len + option->count, s->lost + option->lost))
            continue;
        if (s->brief && ++tried > DETOURS_MAX) {
            s->capped = true;
            break;
        }
        take_out_option(s, option);
        bind_pod(s, number, option->node,
                 defrag_choose_gpus(&s->cluster->nodes[option->node], &s->lefts[option->node], r));
        place_homeless(s, i + 1);
        unbind_pod(s, number);
        put_back(s, option->count);
    }
}

/* The others of a job that demands one domain go too, so that it can go to another. */
static void try_whole_job(Search *s, size_t i)
{
    const uint32_t job = s->pods[s->homeless.at[i]].job;
    const uint32_t first = s->job_first[job], end = first + (uint32_t)s->cluster->jobs[job].place_count;
    uint32_t taken = 0;

    for (uint32_t k = first; k < end; k++)
        if (s->pods[k].placed)
            return;
    for (uint32_t k = first; k < end; k++)
        if (!s->pods[k].out) {
            take_out(s, k);
            taken++;
        }
    if (taken > 0)
        place_homeless(s, i);
    put_back(s, taken);
}

/* Gives the pods from `i` on new places. */
static void place_homeless(Search *s, size_t i)
{
    if (is_over(s))
        return;
    if (i == s->homeless.len) {
        add_plan(s);
        return;
    }
    const size_t targets = try_targets(s, i);

    if (is_over(s))
        return;
    if (s->brief && targets > 0) {
        s->capped = true;
        return;
    }
    try_detours(s, i);
    if (s->bound[s->pods[s->homeless.at[i]].job] && !is_over(s))
        try_whole_job(s, i);
}

/* --- the goal -------------------------------------------------------------------------------------------------------
 */

static int compare_sizes(const void *a, const void *b, void *search)
{
    const Search *s = search;
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    const ClusterRequest *r = defrag_request(s, &s->pods[x]), *q = defrag_request(s, &s->pods[y]);
    const int by_gpus = number_compare_u64(cluster_request_milli(q), cluster_request_milli(r));
    const int by_cpu = number_compare_u64(q->cpu_milli, r->cpu_milli);

    return by_gpus ? by_gpus : by_cpu ? by_cpu : number_compare_u64(x, y);
}

/* The largest pods first: they are the hardest to place. */
static void place_victims(Search *s)
{
    const size_t count = s->homeless.len;
    CLEANUP_VEC Numbers kept = {0};

    for (size_t i = 0; i < count; i++)
        vec_push(&kept, s->homeless.at[i]);
    if (count > 1)
        qsort_r(s->homeless.at, count, sizeof *s->homeless.at, compare_sizes, s);
    s->combo = s->brief ? (int64_t)s->cluster->node_count * 400 : INT64_MAX;
    place_homeless(s, 0);
    s->capped |= s->combo <= 0;
    s->combo = INT64_MAX;
    for (size_t i = 0; i < count; i++)
        s->homeless.at[i] = kept.at[i];
}

/* Pods of a goal that has them apart are neither on one node nor beside those that run. */
static bool is_goal_on(const Search *s, size_t k, uint32_t node)
{
    bool found = false;

    for (size_t i = 0; i < k && !found; i++)
        found = s->goal_places[i].node == node;
    for (size_t i = 0; i < s->goal->place_count && !found; i++)
        found = s->goal->places[i].node == node;
    return found;
}

/* Each set of nodes is tried once: the pods of a role get options in the order of their rank. */
static void place_goal(Search *s, size_t k, uint32_t rank)
{
    if (k == s->goal_count) {
        place_victims(s);
        return;
    }
    const GoalPod *goal = &s->goals[k];
    CLEANUP_VEC Options options = {0};

    collect_options(s, goal->kind, goal->request, k > 0 && goal[-1].role == goal->role ? rank : 0, &options);
    for (size_t i = 0; i < options.len && !is_over(s); i++) {
        const Option *option = &options.at[i];

        if (!is_within(s, option->node, s->goal->tier, s->domain) ||
            (s->goal->apart && is_goal_on(s, k, option->node)) ||
            is_beaten(s, s->homeless.len + option->count, s->lost + option->lost))
            continue;
        take_out_option(s, option);
        PlacementLeft *left = &s->lefts[option->node];
        const uint16_t gpus = defrag_choose_gpus(&s->cluster->nodes[option->node], left, goal->request);
        const ClusterPlace place = {.node = option->node, .gpus = gpus, .role = goal->role};
        s->goal_places[k] = place;
        defrag_change(s, left, goal->request, &place, -1);
        s->changed[option->node]++;
        place_goal(s, k + 1, option->rank);
        s->changed[option->node]--;
        defrag_change(s, left, goal->request, &place, 1);
        put_back(s, option->count);
    }
}

void defrag_search(Search *s)
{
    const int64_t share = s->budget / (int64_t)(s->last_domain - s->first_domain + 1);

    for (size_t kind = 0; kind < s->kind_count; kind++) {
        sort_options(s, &s->bases[kind]);
        for (uint32_t i = 0; i < s->bases[kind].len; i++)
            s->bases[kind].at[i].rank = i + 1;
    }
    for (s->domain = s->first_domain; s->domain <= s->last_domain; s->domain++) {
        s->budget = share;
        place_goal(s, 0, 0);
        s->capped |= s->budget <= 0;
    }
}
