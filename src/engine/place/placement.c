/* SPDX-License-Identifier: Apache-2.0 */
/* The cluster's state and the search. Each kind of request remembers of each node its score, or the most that this can
 * be, until the node changes: a decision takes in the nodes that changed since the last one of its kind, and scores
 * only those that are in front. */
#include "engine/place/placement.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/number.h"
#include "base/vec.h"
#include "engine/place/instance.h"
#include "engine/place/policy.h"

#define TYPICAL_SHARE 0.95

/* What a kind knows of a node. */
typedef enum CellKnown { CELL_FULL, CELL_BOUND, CELL_SCORED } CellKnown;

typedef struct Cell {
    double score;     /* without what it gets for its place; CELL_BOUND: no score of it is higher */
    uint32_t version; /* of the node's state that it is of; 0: of none */
    uint16_t gpus;    /* CELL_SCORED, as is start */
    uint8_t start;
    uint8_t known; /* CELL_FULL: the request does not fit */
} Cell;

/* Nodes stand in the order of equal scores, each at its place. `winners` is a tournament: [1] is the place of the best
 * node, [i] of the better of [2i] and [2i+1], where [leaves + place] would be a place alone. */
typedef struct Kind {
    ClusterRequest request;
    Cell *cells;       /* one per place */
    uint32_t *winners; /* NULL until the first decision */
    uint64_t seen;     /* changes of nodes that are in it */
} Kind;

struct Placement {
    const PlacementMode *mode;
    size_t count;
    ClusterNode *nodes;
    PlacementState *states;
    Usable *usable;        /* typical.len for each node */
    uint32_t *order;       /* the place of each node */
    uint32_t *in_order;    /* the node at each place */
    double *concentration; /* of each place */
    uint32_t *shapes;      /* of each node: the first place whose node is equal to it but for its name */
    uint32_t leaves;       /* of a tournament: a power of two */
    uint32_t *changes;     /* places whose nodes changed, a ring of `leaves` */
    uint64_t changed;      /* in all */
    uint64_t random;
    uint64_t gpu_milli, allocated;
    double fragmentation, power_w; /* sums over the nodes */
    double scarcity[CLUSTER_MODELS_MAX];
    VEC(Kind) kinds;
    VEC(Typical) typical;
};

/* --- requests --------------------------------------------------------------------------------------------------- */

static bool is_same_request(const ClusterRequest *a, const ClusterRequest *b)
{
    return a->cpu_milli == b->cpu_milli && a->memory_mib == b->memory_mib && a->gpu_milli == b->gpu_milli &&
           a->gpu_count == b->gpu_count && a->mig == b->mig && a->models == b->models && a->rules == b->rules &&
           a->no_spot == b->no_spot;
}

/* Memory does not count for what is typical (FGD, ATC'23). */
static bool is_same_typical(const ClusterRequest *a, const ClusterRequest *b)
{
    return a->cpu_milli == b->cpu_milli && a->gpu_milli == b->gpu_milli && a->gpu_count == b->gpu_count &&
           a->mig == b->mig && a->models_written == b->models_written;
}

/* The most frequent first; of equally frequent ones the largest. */
static int compare_typical(const void *a, const void *b)
{
    const Typical *x = a, *y = b;
    const int by_count = number_compare_u64(y->count, x->count);
    const int by_cpu = number_compare_u64(y->request.cpu_milli, x->request.cpu_milli);
    const int by_milli = number_compare_u64(y->request.gpu_milli, x->request.gpu_milli);
    const int by_gpus = number_compare_u64(y->request.gpu_count, x->request.gpu_count);
    const int by_mig = number_compare_u64(y->request.mig, x->request.mig);

    return by_count   ? by_count
           : by_cpu   ? by_cpu
           : by_milli ? by_milli
           : by_gpus  ? by_gpus
           : by_mig   ? by_mig
                      : number_compare_u64(y->request.models_written, x->request.models_written);
}

static void count_typical(Placement *placement, const ClusterRequest *request)
{
    for (size_t i = 0; i < placement->typical.len; i++)
        if (is_same_typical(&placement->typical.at[i].request, request)) {
            placement->typical.at[i].count++;
            return;
        }
    vec_push(&placement->typical, ((Typical){.request = *request, .count = 1}));
}

/* After a change: what scores are made of, and a new version. */
static void refresh_state(Placement *placement, size_t node)
{
    PlacementState *s = &placement->states[node];

    placement->fragmentation -= s->fragmentation;
    placement->power_w -= s->power_w;
    s->version++;
    s->fragmentation = fragment_measure(&placement->nodes[node], s, placement->typical.at, placement->typical.len,
                                        &placement->usable[node * placement->typical.len]);
    s->power_w = fragment_power_w(&placement->nodes[node], s);
    placement->changes[placement->changed++ % placement->leaves] = placement->order[node];
    placement->fragmentation += s->fragmentation;
    placement->power_w += s->power_w;
}

/* Of each model the share of all typical demand that only it and few others can serve, to its share of the GPUs. */
static void measure_scarcity(Placement *placement)
{
    double gpus[CLUSTER_MODELS_MAX] = {0}, demand[CLUSTER_MODELS_MAX] = {0}, all = 0;

    for (size_t i = 0; i < placement->count; i++)
        gpus[placement->nodes[i].model] += placement->nodes[i].gpu_count;
    for (size_t i = 0; i < placement->typical.len; i++) {
        const Typical *t = &placement->typical.at[i];
        const double asked = t->share * t->request.gpu_milli * t->request.gpu_count / CLUSTER_GPU;
        double allowed = 0;

        all += asked;
        for (unsigned m = 0; m < CLUSTER_MODELS_MAX; m++)
            allowed += t->request.models >> m & 1 ? gpus[m] : 0;
        for (unsigned m = 0; m < CLUSTER_MODELS_MAX && allowed > 0; m++)
            demand[m] += t->request.models >> m & 1 ? asked * gpus[m] / allowed : 0;
    }
    for (unsigned m = 0; m < CLUSTER_MODELS_MAX; m++)
        placement->scarcity[m] =
            gpus[m] > 0 && all > 0 ? demand[m] / all / (gpus[m] * CLUSTER_GPU / (double)placement->gpu_milli) : 0;
}

void placement_set_typical(Placement *placement, const ClusterRequest *requests, size_t count)
{
    size_t kept = 0, covered = 0;

    vec_clear(&placement->typical);
    for (size_t i = 0; i < count; i++)
        count_typical(placement, &requests[i]);
    vec_sort(&placement->typical, compare_typical);
    while (kept < placement->typical.len && (double)covered / (double)count < TYPICAL_SHARE)
        covered += placement->typical.at[kept++].count;
    placement->typical.len = kept;
    for (size_t i = 0; i < kept; i++) /* divided as published: another last bit changes integer scores */
        placement->typical.at[i].share =
            (double)placement->typical.at[i].count / (double)count / ((double)covered / (double)count);
    measure_scarcity(placement);
    for (size_t i = 0; i < kept; i++)
        if (placement->typical.at[i].request.mig)
            placement->typical.at[i].request.gpu_milli = UINT16_MAX;
    free(placement->usable);
    placement->usable = xcalloc(placement->count * kept + 1, sizeof *placement->usable);
    for (size_t i = 0; i < placement->count; i++)
        refresh_state(placement, i);
}

uint32_t placement_add_kind(Placement *placement, const ClusterRequest *request)
{
    for (size_t i = 0; i < placement->kinds.len; i++)
        if (is_same_request(&placement->kinds.at[i].request, request))
            return (uint32_t)i;
    vec_push(&placement->kinds, ((Kind){.request = *request, .cells = xcalloc(placement->count, sizeof(Cell))}));
    return (uint32_t)placement->kinds.len - 1;
}

/* --- nodes ------------------------------------------------------------------------------------------------------ */

/* Milli that are left on all GPUs. */
static uint32_t sum_gpus(const ClusterNode *node, const PlacementLeft *left)
{
    uint32_t sum = 0;

    for (unsigned k = 0; k < node->gpu_count; k++)
        sum += instance_left(node, left, k);
    return sum;
}

static void init_state(PlacementState *s, const ClusterNode *node)
{
    s->left.cpu_milli = node->cpu_milli;
    s->left.memory_mib = node->memory_mib;
    for (unsigned k = 0; k < node->gpu_count; k++)
        if (instance_is_on(node, k))
            s->left.mig_used[k] = instance_first_used(node, k);
        else if (!(node->gpus_broken >> k & 1))
            s->left.gpu_milli[k] = CLUSTER_GPU;
    s->gpu_sum = sum_gpus(node, &s->left);
}

/* Nodes that are equal but for their names are of one shape: those in the same state are scored once. */
static void find_shapes(Placement *placement)
{
    Map first;

    map_init(&first);
    for (uint32_t place = 0; place < placement->count; place++) {
        ClusterNode node;

        memcpy(&node, &placement->nodes[placement->in_order[place]], sizeof node);
        node.name = NULL;
        memset(node.domain, 0, sizeof node.domain);
        const uintptr_t found = (uintptr_t)map_getn(&first, (const char *)&node, sizeof node);
        placement->shapes[place] = found ? (uint32_t)(found - 1) : place;
        if (!found)
            map_putn(&first, (const char *)&node, sizeof node, (void *)((uintptr_t)place + 1));
    }
    map_done(&first);
}

Placement *placement_new(const ClusterNode *nodes, size_t count, const uint32_t *order, const PlacementMode *mode)
{
    Placement *placement = xcalloc(1, sizeof *placement);

    placement->mode = mode;
    placement->count = count;
    for (placement->leaves = 1; placement->leaves < count;)
        placement->leaves *= 2;
    placement->nodes = xcalloc(count, sizeof *placement->nodes);
    placement->states = xcalloc(count, sizeof *placement->states);
    placement->usable = xcalloc(1, sizeof *placement->usable);
    placement->order = xcalloc(count, sizeof *placement->order);
    placement->in_order = xcalloc(count, sizeof *placement->in_order);
    placement->concentration = xcalloc(count, sizeof *placement->concentration);
    placement->shapes = xcalloc(count, sizeof *placement->shapes);
    placement->changes = xcalloc(placement->leaves, sizeof *placement->changes);
    for (size_t i = 0; i < count; i++) {
        placement->nodes[i] = nodes[i];
        placement->order[i] = order ? order[i] : (uint32_t)i;
        placement->in_order[placement->order[i]] = (uint32_t)i;
        placement->concentration[i] = mode->weight[PLACEMENT_CONCENTRATION] * (double)i / (double)count;
        init_state(&placement->states[i], &nodes[i]);
        placement->gpu_milli += placement->states[i].gpu_sum;
        refresh_state(placement, i);
    }
    find_shapes(placement);
    return placement;
}

void placement_free(Placement *placement)
{
    if (!placement)
        return;
    for (size_t i = 0; i < placement->kinds.len; i++) {
        free(placement->kinds.at[i].cells);
        free(placement->kinds.at[i].winners);
    }
    vec_done(&placement->kinds);
    vec_done(&placement->typical);
    free(placement->nodes);
    free(placement->states);
    free(placement->usable);
    free(placement->order);
    free(placement->in_order);
    free(placement->concentration);
    free(placement->shapes);
    free(placement->changes);
    free(placement);
}

int32_t placement_change_left(const ClusterNode *node, const ClusterRequest *r, PlacementChoice choice, int sign,
                              PlacementLeft *left)
{
    int32_t milli = 0;

    left->cpu_milli = (uint32_t)((int64_t)left->cpu_milli + sign * (int64_t)r->cpu_milli);
    left->memory_mib = (uint32_t)((int64_t)left->memory_mib + sign * (int64_t)r->memory_mib);
    left->pods = (uint32_t)((int64_t)left->pods - sign);
    if (r->mig) {
        const MigProfile *p = instance_profile(node, r);

        return p && choice.gpus
                   ? instance_change(node, p, left, (unsigned)__builtin_ctz(choice.gpus), choice.start, sign)
                   : 0;
    }
    for (unsigned gpus = choice.gpus; gpus; gpus &= gpus - 1) {
        uint16_t *gpu = &left->gpu_milli[__builtin_ctz(gpus)];

        *gpu = (uint16_t)(*gpu + sign * r->gpu_milli);
        milli += sign * r->gpu_milli;
    }
    return milli;
}

/* Gives (+1) or takes (-1) what a request has. Returns the milli that are free now and were not. */
static int32_t change_state(PlacementState *s, const ClusterNode *node, const ClusterRequest *r, PlacementChoice choice,
                            int sign)
{
    const int32_t milli = placement_change_left(node, r, choice, sign, &s->left);

    s->gpu_sum = (uint32_t)((int64_t)s->gpu_sum + milli);
    if (r->gpu_count > 0) {
        uint16_t *tag = &s->tags[r->gpu_milli < CLUSTER_GPU ? 0 : r->gpu_count];

        *tag = (uint16_t)(*tag - sign);
    }
    return milli;
}

/* --- the search ------------------------------------------------------------------------------------------------- */

static double score_case(const PlacementMode *mode, PlacementCase *c, uint16_t gpus, uint8_t start)
{
    double sum = 0;

    c->gpus = gpus;
    if (c->node->mig)
        c->after = *c->before;
    else
        memcpy(&c->after, c->before, offsetof(PlacementState, left.mig_used));
    change_state(&c->after, c->node, c->request, (PlacementChoice){.gpus = gpus, .start = start}, -1);
    if (mode->score)
        return mode->score(c);
    for (PlacementTerm term = 0; term < PLACEMENT_TERM_END; term++)
        if (mode->weight[term] != 0 && term != PLACEMENT_CONCENTRATION)
            sum += mode->weight[term] * placement_term(c, term);
    return sum;
}

/* The first `n` of them, or all. */
static uint16_t take_first(uint16_t gpus, unsigned n)
{
    uint16_t left = gpus;

    while (n-- > 0)
        left &= (uint16_t)(left - 1);
    return gpus & (uint16_t)~left;
}

/* Of islands with enough for `n` that with the fewest idle GPUs, else that with the most. */
static bool is_better_island(uint16_t idle, uint16_t than, unsigned n)
{
    const unsigned a = (unsigned)__builtin_popcount(idle), b = (unsigned)__builtin_popcount(than);

    return a >= n ? b < n || a < b : a > b;
}

/* `n` idle GPUs, of as few islands as possible, of which those with the most idle ones are used up first; where none is
 * known the first ones. 0: there are fewer. */
static uint16_t find_idle(const ClusterNode *node, const PlacementState *s, unsigned n)
{
    uint16_t idle = 0, gpus = 0;

    for (unsigned i = 0; i < node->gpu_count; i++)
        idle |= (uint16_t)((s->left.gpu_milli[i] == CLUSTER_GPU) << i);
    if ((unsigned)__builtin_popcount(idle) < n)
        return 0;
    for (unsigned wanted; (wanted = n - (unsigned)__builtin_popcount(gpus)) > 0;) {
        const uint16_t left = idle & (uint16_t)~gpus;
        uint16_t best = 0;

        for (unsigned i = 0; i < CLUSTER_ISLANDS_MAX && node->islands[i]; i++)
            if (is_better_island(node->islands[i] & left, best, wanted))
                best = node->islands[i] & left;
        gpus |= take_first(best ? best : left, wanted);
    }
    return gpus;
}

/* The GPU with the least left that a part fits on; 0: none. */
static uint16_t find_tightest(const ClusterNode *node, const PlacementState *s, uint16_t milli)
{
    unsigned best = CLUSTER_GPUS_MAX;

    for (unsigned i = 0; i < node->gpu_count; i++)
        if (s->left.gpu_milli[i] >= milli &&
            (best == CLUSTER_GPUS_MAX || s->left.gpu_milli[i] < s->left.gpu_milli[best]))
            best = i;
    if (best == CLUSTER_GPUS_MAX)
        return 0;
    return (uint16_t)(1u << best);
}

/* A part of the GPU on which it scores highest; of GPUs with as much left the first stands for all. */
static void score_each_gpu(const PlacementMode *mode, PlacementCase *c, Cell *cell)
{
    const uint16_t *left = c->before->left.gpu_milli;

    for (unsigned i = 0; i < c->node->gpu_count; i++) {
        unsigned first = 0;

        while (left[first] != left[i])
            first++;
        if (left[i] < c->request->gpu_milli || first < i)
            continue;
        const double score = score_case(mode, c, (uint16_t)(1u << i), 0);
        if (cell->known == CELL_FULL || score > cell->score) {
            cell->score = score;
            cell->gpus = (uint16_t)(1u << i);
            cell->known = CELL_SCORED;
        }
    }
}

/* The GPU and start where an instance scores highest; of equal scores those that take the fewest placements of large
 * profiles away, then the lowest. */
static void score_each_start(const PlacementMode *mode, PlacementCase *c, Cell *cell)
{
    const MigProfile *p = instance_profile(c->node, c->request);
    uint8_t best[MIG_GRID_MAX + 1], loss[MIG_GRID_MAX + 1];

    for (unsigned i = 0; i < c->node->gpu_count; i++) {
        const uint32_t used = c->before->left.mig_used[i];

        for (uint32_t starts = instance_starts(c->node, p, i, used); starts; starts &= starts - 1) {
            const uint8_t start = (uint8_t)__builtin_ctz(starts);
            const double score = score_case(mode, c, (uint16_t)(1u << i), start);

            instance_loss(c->node->mig->board, used, c->after.left.mig_used[i], loss);
            if (cell->known == CELL_SCORED &&
                (score < cell->score || (score == cell->score && memcmp(loss, best, sizeof loss) >= 0)))
                continue;
            memcpy(best, loss, sizeof best);
            cell->score = score;
            cell->gpus = (uint16_t)(1u << i);
            cell->start = start;
            cell->known = CELL_SCORED;
        }
    }
}

/* The node's GPUs aside. */
static bool has_room(const ClusterNode *node, const PlacementLeft *left, const ClusterRequest *r)
{
    return left->cpu_milli >= r->cpu_milli && left->memory_mib >= r->memory_mib &&
           left->pods < PLACEMENT_NODE_PODS_MAX && !node->closed && !(node->spot && r->no_spot) &&
           (r->gpu_count == 0 || !r->models || r->models >> node->model & 1) && (!r->mig || instance_profile(node, r));
}

/* How many pods of this kind have room on a node with so much left. */
static uint32_t count_room(const Placement *placement, const ClusterRequest *r, uint32_t node,
                           const PlacementLeft *left)
{
    uint32_t room = PLACEMENT_NODE_PODS_MAX - left->pods, on_gpus = 0;

    if (!has_room(&placement->nodes[node], left, r) || !cluster_allows(r, node))
        return 0;
    room = r->cpu_milli && left->cpu_milli / r->cpu_milli < room ? left->cpu_milli / r->cpu_milli : room;
    room = r->memory_mib && left->memory_mib / r->memory_mib < room ? left->memory_mib / r->memory_mib : room;
    if (r->mig)
        return (uint32_t)number_min_u64(
            room, instance_room(&placement->nodes[node], instance_profile(&placement->nodes[node], r), left));
    for (unsigned i = 0; i < placement->nodes[node].gpu_count && r->gpu_count > 0; i++)
        on_gpus += (uint32_t)(left->gpu_milli[i] / r->gpu_milli);
    return r->gpu_count > 0 && on_gpus / r->gpu_count < room ? on_gpus / r->gpu_count : room;
}

static void score_node(const Placement *placement, const ClusterRequest *r, uint32_t node, Cell *cell)
{
    PlacementCase c = {.node = &placement->nodes[node],
                       .typical = placement->typical.at,
                       .typical_count = placement->typical.len,
                       .usable = &placement->usable[(size_t)node * placement->typical.len],
                       .request = r,
                       .before = &placement->states[node],
                       .scarcity = placement->scarcity[placement->nodes[node].model]};
    const bool shares = r->gpu_count == 1 && r->gpu_milli < CLUSTER_GPU;

    *cell = (Cell){.version = c.before->version};
    if (!has_room(c.node, &c.before->left, r) || !cluster_allows(r, node))
        return;
    if (r->mig) {
        score_each_start(placement->mode, &c, cell);
        return;
    }
    if (shares && !placement->mode->tightest) {
        score_each_gpu(placement->mode, &c, cell);
        return;
    }
    const uint16_t gpus = shares             ? find_tightest(c.node, c.before, r->gpu_milli)
                          : r->gpu_count > 0 ? find_idle(c.node, c.before, r->gpu_count)
                                             : 0;
    if (r->gpu_count > 0 && !gpus)
        return;
    cell->known = CELL_SCORED;
    cell->gpus = gpus;
    cell->score = score_case(placement->mode, &c, gpus, 0);
}

/* A place beyond the last node, and one that has no room: never the best. */
static double value_place(const Placement *placement, const Kind *kind, uint32_t place)
{
    if (place >= placement->count || kind->cells[place].known == CELL_FULL)
        return -INFINITY;
    return kind->cells[place].score - placement->concentration[place];
}

static uint32_t winner_at(const Placement *placement, const Kind *kind, uint32_t i)
{
    return i < placement->leaves ? kind->winners[i] : i - placement->leaves;
}

/* After a change of the place's value: each match up to the first that another place wins as before. */
static void update_winners(const Placement *placement, Kind *kind, uint32_t place)
{
    double value = value_place(placement, kind, place);
    uint32_t winner = place;

    for (uint32_t i = placement->leaves + place; i > 1; i /= 2) {
        const uint32_t rival = winner_at(placement, kind, i ^ 1);
        const double rival_value = value_place(placement, kind, rival);

        if (rival_value > value || (rival_value == value && rival < winner)) {
            winner = rival;
            value = rival_value;
        }
        if (kind->winners[i / 2] == winner && winner != place)
            return;
        kind->winners[i / 2] = winner;
    }
}

/* True: the first node of this shape is in the same state, and was scored. */
static bool is_like_first(const Placement *placement, const Kind *kind, uint32_t place, uint32_t first)
{
    const uint32_t node = placement->in_order[place], other = placement->in_order[first];
    const PlacementState *s = &placement->states[node], *like = &placement->states[other];

    return first < place && kind->cells[first].version == like->version && kind->cells[first].known == CELL_SCORED &&
           kind->request.rule_count == 0 && placement->nodes[node].closed == placement->nodes[other].closed &&
           memcmp(&s->left, &like->left,
                  placement->nodes[node].mig ? sizeof s->left : offsetof(PlacementLeft, mig_used)) == 0 &&
           memcmp(s->tags, like->tags, sizeof s->tags) == 0;
}

static void score_place(const Placement *placement, Kind *kind, uint32_t place)
{
    const uint32_t node = placement->in_order[place], first = placement->shapes[place];

    if (is_like_first(placement, kind, place, first))
        kind->cells[place] = kind->cells[first];
    else
        score_node(placement, &kind->request, node, &kind->cells[place]);
    kind->cells[place].version = placement->states[node].version;
}

/* Where scores have a bound most nodes are never scored: the most they could have is less than what the best has.
 * False where the place's value is as before. */
static bool bound_place(const Placement *placement, Kind *kind, uint32_t place)
{
    const uint32_t node = placement->in_order[place];
    const PlacementState *s = &placement->states[node];
    Cell *cell = &kind->cells[place];
    const bool was_full = cell->known == CELL_FULL;

    if (cell->version == s->version)
        return false;
    if (!placement_has_bound(placement->mode))
        score_place(placement, kind, place);
    else if (count_room(placement, &kind->request, node, &s->left) == 0)
        *cell = (Cell){.version = s->version};
    else
        *cell = (Cell){.score = placement_bound(placement->mode, s, &kind->request,
                                                placement->scarcity[placement->nodes[node].model]),
                       .version = s->version,
                       .known = CELL_BOUND};
    return !was_full || cell->known != CELL_FULL;
}

/* A tournament where all places are full: the first one wins. */
static uint32_t *new_winners(const Placement *placement)
{
    uint32_t *winners = xcalloc(placement->leaves, sizeof *winners);

    for (uint32_t i = placement->leaves - 1; i > 0; i--)
        winners[i] = 2 * i < placement->leaves ? winners[2 * i] : 2 * i - placement->leaves;
    return winners;
}

/* Takes in what changed since the last decision of this kind. */
static void update_kind(Placement *placement, Kind *kind)
{
    const uint64_t behind = placement->changed - kind->seen;
    const bool all = !kind->winners || behind > placement->leaves;

    if (!kind->winners)
        kind->winners = new_winners(placement);
    for (uint64_t i = 0; i < (all ? placement->count : behind); i++) {
        const uint32_t place = all ? (uint32_t)i : placement->changes[(kind->seen + i) % placement->leaves];

        if (bound_place(placement, kind, place))
            update_winners(placement, kind, place);
    }
    kind->seen = placement->changed;
}

/* UINT32_MAX: no place fits. */
static uint32_t find_best(const Placement *placement, Kind *kind)
{
    for (;;) {
        const uint32_t best = winner_at(placement, kind, 1);

        if (best >= placement->count || kind->cells[best].known == CELL_FULL)
            return UINT32_MAX;
        if (kind->cells[best].known == CELL_SCORED)
            return best;
        score_place(placement, kind, best);
        update_winners(placement, kind, best);
    }
}

/* Scales to the integers 0 to 100, as kube-scheduler's plugins do. */
static double scale_score(const PlacementMode *mode, double score, double least, double most)
{
    const double whole = floor(score), scaled = most > least ? trunc((whole - least) * 100 / (most - least)) : 100;

    return mode->mix > 0 ? mode->mix * scaled + (1 - mode->mix) * (score - whole) * 1024 : scaled;
}

/* The first of the places that have the highest score once scores are scaled; UINT32_MAX: none fits. */
static uint32_t find_scaled(const Placement *placement, const Kind *kind)
{
    double least = INFINITY, most = -INFINITY, best_score = -INFINITY;
    uint32_t best = UINT32_MAX;

    for (uint32_t i = 0; i < placement->count; i++)
        if (kind->cells[i].known == CELL_SCORED) {
            least = fmin(least, floor(kind->cells[i].score));
            most = fmax(most, floor(kind->cells[i].score));
        }
    for (uint32_t i = 0; i < placement->count; i++)
        if (kind->cells[i].known == CELL_SCORED &&
            scale_score(placement->mode, kind->cells[i].score, least, most) > best_score) {
            best_score = scale_score(placement->mode, kind->cells[i].score, least, most);
            best = i;
        }
    return best;
}

/* Any of the places that fit, each as likely as the others; UINT32_MAX: none. */
static uint32_t find_random(Placement *placement, const Kind *kind)
{
    uint32_t best = UINT32_MAX, fitting = 0;

    for (uint32_t i = 0; i < placement->count; i++)
        if (kind->cells[i].known == CELL_SCORED) {
            placement->random = placement->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            if ((placement->random >> 33) % ++fitting == 0)
                best = i;
        }
    return best;
}

static PlacementChoice choice_at(const Placement *placement, const Kind *kind, uint32_t place)
{
    return (PlacementChoice){
        .node = placement->in_order[place], .gpus = kind->cells[place].gpus, .start = kind->cells[place].start};
}

bool placement_decide(Placement *placement, uint32_t kind_id, PlacementChoice *ret)
{
    Kind *kind = &placement->kinds.at[kind_id];

    update_kind(placement, kind);
    const uint32_t best = placement->mode->random      ? find_random(placement, kind)
                          : placement->mode->normalise ? find_scaled(placement, kind)
                                                       : find_best(placement, kind);
    if (best == UINT32_MAX)
        return false;
    *ret = choice_at(placement, kind, best);
    return true;
}

bool placement_decide_among(Placement *placement, uint32_t kind_id, const uint32_t *nodes, size_t count,
                            PlacementChoice *ret)
{
    Kind *kind = &placement->kinds.at[kind_id];
    double best_value = -INFINITY;
    uint32_t best = UINT32_MAX;

    update_kind(placement, kind);
    for (size_t i = 0; i < count; i++) {
        const uint32_t place = placement->order[nodes[i]];

        if (kind->cells[place].known == CELL_BOUND) {
            score_place(placement, kind, place);
            update_winners(placement, kind, place);
        }
        const double value = value_place(placement, kind, place);
        if (value > best_value || (value == best_value && place < best)) {
            best_value = value;
            best = place;
        }
    }
    if (best == UINT32_MAX || kind->cells[best].known == CELL_FULL)
        return false;
    *ret = choice_at(placement, kind, best);
    return true;
}

uint32_t placement_capacity(const Placement *placement, uint32_t kind, uint32_t node)
{
    return placement_room(placement, kind, node, &placement->states[node].left);
}

uint32_t placement_room(const Placement *placement, uint32_t kind, uint32_t node, const PlacementLeft *left)
{
    return count_room(placement, &placement->kinds.at[kind].request, node, left);
}

bool placement_fits(const Placement *placement, uint32_t kind, PlacementChoice choice)
{
    const ClusterRequest *r = &placement->kinds.at[kind].request;
    const ClusterNode *node = &placement->nodes[choice.node];
    const PlacementLeft *left = &placement->states[choice.node].left;

    if (count_room(placement, r, choice.node, left) == 0 || __builtin_popcount(choice.gpus) != r->gpu_count)
        return false;
    for (unsigned gpus = choice.gpus; gpus; gpus &= gpus - 1) {
        const unsigned i = (unsigned)__builtin_ctz(gpus);

        if (r->mig ? !(instance_starts(node, instance_profile(node, r), i, left->mig_used[i]) >> choice.start & 1)
                   : left->gpu_milli[i] < r->gpu_milli)
            return false;
    }
    return true;
}

void placement_close(Placement *placement, uint32_t node, bool closed)
{
    if (placement->nodes[node].closed == closed)
        return;
    placement->nodes[node].closed = closed;
    refresh_state(placement, node);
}

static void change_node(Placement *placement, uint32_t kind, PlacementChoice choice, int sign)
{
    const ClusterRequest *r = &placement->kinds.at[kind].request;

    const int32_t free = change_state(&placement->states[choice.node], &placement->nodes[choice.node], r, choice, sign);
    const int32_t milli = r->mig ? free : sign * r->gpu_milli * r->gpu_count; /* of GPUs that are not known too */

    refresh_state(placement, choice.node);
    placement->allocated = (uint64_t)((int64_t)placement->allocated - milli);
}

void placement_bind(Placement *placement, uint32_t kind, PlacementChoice choice)
{
    change_node(placement, kind, choice, -1);
}

void placement_release(Placement *placement, uint32_t kind, PlacementChoice choice)
{
    change_node(placement, kind, choice, 1);
}

/* --- sums ------------------------------------------------------------------------------------------------------- */

uint64_t placement_gpu_milli(const Placement *placement)
{
    return placement->gpu_milli;
}

uint64_t placement_gpu_milli_allocated(const Placement *placement)
{
    return placement->allocated;
}

double placement_fragmentation(const Placement *placement)
{
    return placement->fragmentation;
}

double placement_power_w(const Placement *placement)
{
    return placement->power_w;
}

PlacementLeft placement_left(const Placement *placement, size_t node)
{
    return placement->states[node].left;
}

/* --- a cluster on which others decide too ------------------------------------------------------------------------- */

void placement_set_left(Placement *placement, uint32_t node, const PlacementLeft *left)
{
    PlacementState *s = &placement->states[node];

    s->left = *left;
    s->gpu_sum = sum_gpus(&placement->nodes[node], left);
    refresh_state(placement, node);
}

bool placement_score(const Placement *placement, const ClusterRequest *request, uint32_t node, double *ret_score,
                     uint16_t *ret_gpus)
{
    Cell cell;

    score_node(placement, request, node, &cell);
    if (cell.known == CELL_FULL)
        return false;
    *ret_score = cell.score - placement->concentration[placement->order[node]];
    *ret_gpus = cell.gpus;
    return true;
}
