/* SPDX-License-Identifier: Apache-2.0 */
/* The cluster's state and the search. Each kind of request remembers the score of each node until that node changes:
 * a decision is one pass over the nodes, and scores those anew that changed since the last one of its kind. */
#include "engine/place/placement.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/number.h"
#include "base/vec.h"
#include "engine/place/policy.h"

#define TYPICAL_SHARE 0.95

/* What a kind knows of a node. */
typedef struct Cell {
    double score;
    uint32_t version; /* of the node's state that it is of; 0: of none */
    uint16_t gpus;
    bool fits;
} Cell;

typedef struct Kind {
    ClusterRequest request;
    Cell *cells; /* one per node */
} Kind;

struct Placement {
    const PlacementMode *mode;
    size_t count;
    ClusterNode *nodes;
    PlacementState *states;
    Usable *usable;     /* typical.len for each node */
    uint32_t *order;    /* of each node */
    uint32_t *in_order; /* the nodes, by order */
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
           a->gpu_count == b->gpu_count && a->models == b->models && a->rules == b->rules;
}

/* Memory does not count for what is typical (FGD, ATC'23). */
static bool is_same_typical(const ClusterRequest *a, const ClusterRequest *b)
{
    return a->cpu_milli == b->cpu_milli && a->gpu_milli == b->gpu_milli && a->gpu_count == b->gpu_count &&
           a->models_written == b->models_written;
}

/* The most frequent first; of equally frequent ones the largest. */
static int compare_typical(const void *a, const void *b)
{
    const Typical *x = a, *y = b;
    const int by_count = number_compare_u64(y->count, x->count);
    const int by_cpu = number_compare_u64(y->request.cpu_milli, x->request.cpu_milli);
    const int by_milli = number_compare_u64(y->request.gpu_milli, x->request.gpu_milli);
    const int by_gpus = number_compare_u64(y->request.gpu_count, x->request.gpu_count);

    return by_count   ? by_count
           : by_cpu   ? by_cpu
           : by_milli ? by_milli
           : by_gpus  ? by_gpus
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

Placement *placement_new(const ClusterNode *nodes, size_t count, const uint32_t *order, const PlacementMode *mode)
{
    Placement *placement = xcalloc(1, sizeof *placement);

    placement->mode = mode;
    placement->count = count;
    placement->nodes = xcalloc(count, sizeof *placement->nodes);
    placement->states = xcalloc(count, sizeof *placement->states);
    placement->usable = xcalloc(1, sizeof *placement->usable);
    placement->order = xcalloc(count, sizeof *placement->order);
    placement->in_order = xcalloc(count, sizeof *placement->in_order);
    for (size_t i = 0; i < count; i++) {
        PlacementState *s = &placement->states[i];

        placement->nodes[i] = nodes[i];
        s->cpu_left = nodes[i].cpu_milli;
        s->memory_left = nodes[i].memory_mib;
        for (unsigned k = 0; k < nodes[i].gpu_count; k++)
            if (!(nodes[i].gpus_broken >> k & 1)) {
                s->gpu_left[k] = CLUSTER_GPU;
                s->gpu_sum += CLUSTER_GPU;
            }
        placement->gpu_milli += s->gpu_sum;
        placement->order[i] = order ? order[i] : (uint32_t)i;
        placement->in_order[placement->order[i]] = (uint32_t)i;
        refresh_state(placement, i);
    }
    return placement;
}

void placement_free(Placement *placement)
{
    if (!placement)
        return;
    for (size_t i = 0; i < placement->kinds.len; i++)
        free(placement->kinds.at[i].cells);
    vec_done(&placement->kinds);
    vec_done(&placement->typical);
    free(placement->nodes);
    free(placement->states);
    free(placement->usable);
    free(placement->order);
    free(placement->in_order);
    free(placement);
}

/* Gives (+1) or takes (-1) what a request has. */
static void change_state(PlacementState *s, const ClusterRequest *r, uint16_t gpus, int sign)
{
    s->cpu_left = (uint32_t)((int64_t)s->cpu_left + sign * (int64_t)r->cpu_milli);
    s->memory_left = (uint32_t)((int64_t)s->memory_left + sign * (int64_t)r->memory_mib);
    s->pods = (uint32_t)((int64_t)s->pods - sign);
    for (unsigned i = 0; i < CLUSTER_GPUS_MAX; i++)
        if (gpus >> i & 1) {
            s->gpu_left[i] = (uint16_t)(s->gpu_left[i] + sign * r->gpu_milli);
            s->gpu_sum = (uint32_t)((int64_t)s->gpu_sum + sign * r->gpu_milli);
        }
    if (r->gpu_count > 0) {
        uint16_t *tag = &s->tags[r->gpu_milli < CLUSTER_GPU ? 0 : r->gpu_count];

        *tag = (uint16_t)(*tag - sign);
    }
}

/* --- the search ------------------------------------------------------------------------------------------------- */

static double score_case(const PlacementMode *mode, PlacementCase *c, uint16_t gpus)
{
    double sum = 0;

    c->gpus = gpus;
    c->after = *c->before;
    change_state(&c->after, c->request, gpus, -1);
    if (mode->score)
        return mode->score(c);
    for (PlacementTerm term = 0; term < PLACEMENT_TERM_END; term++)
        if (mode->weight[term] != 0)
            sum += mode->weight[term] * placement_term(c, term);
    return sum;
}

/* The first `n` idle GPUs; 0: there are fewer. */
static uint16_t find_idle(const ClusterNode *node, const PlacementState *s, unsigned n)
{
    uint16_t gpus = 0;

    for (unsigned i = 0; i < node->gpu_count && n > 0; i++)
        if (s->gpu_left[i] == CLUSTER_GPU) {
            gpus = (uint16_t)(gpus | 1u << i);
            n--;
        }
    return n == 0 ? gpus : 0;
}

/* The GPU with the least left that a part fits on; 0: none. */
static uint16_t find_tightest(const ClusterNode *node, const PlacementState *s, uint16_t milli)
{
    unsigned best = CLUSTER_GPUS_MAX;

    for (unsigned i = 0; i < node->gpu_count; i++)
        if (s->gpu_left[i] >= milli && (best == CLUSTER_GPUS_MAX || s->gpu_left[i] < s->gpu_left[best]))
            best = i;
    if (best == CLUSTER_GPUS_MAX)
        return 0;
    return (uint16_t)(1u << best);
}

/* A part of the GPU on which it scores highest; of GPUs with as much left the first stands for all. */
static void score_each_gpu(const PlacementMode *mode, PlacementCase *c, Cell *cell)
{
    const uint16_t *left = c->before->gpu_left;

    for (unsigned i = 0; i < c->node->gpu_count; i++) {
        unsigned first = 0;

        while (left[first] != left[i])
            first++;
        if (left[i] < c->request->gpu_milli || first < i)
            continue;
        const double score = score_case(mode, c, (uint16_t)(1u << i));
        if (!cell->fits || score > cell->score)
            *cell = (Cell){.score = score, .version = cell->version, .gpus = (uint16_t)(1u << i), .fits = true};
    }
}

static bool is_allowed(const ClusterRequest *r, uint32_t node)
{
    for (unsigned i = 0; i < r->rule_count; i++)
        if (!(r->rules[i].nodes[node / 64] >> node % 64 & 1))
            return false;
    return true;
}

/* The node's GPUs aside. */
static bool has_room(const ClusterNode *node, const PlacementState *s, const ClusterRequest *r)
{
    return s->cpu_left >= r->cpu_milli && s->memory_left >= r->memory_mib && s->pods < PLACEMENT_NODE_PODS_MAX &&
           !node->closed && (r->gpu_count == 0 || !r->models || r->models >> node->model & 1);
}

static void score_node(const Placement *placement, const Kind *kind, uint32_t node, Cell *cell)
{
    const ClusterRequest *r = &kind->request;
    PlacementCase c = {.node = &placement->nodes[node],
                       .typical = placement->typical.at,
                       .typical_count = placement->typical.len,
                       .usable = &placement->usable[(size_t)node * placement->typical.len],
                       .request = r,
                       .before = &placement->states[node],
                       .scarcity = placement->scarcity[placement->nodes[node].model],
                       .order = (double)placement->order[node] / (double)placement->count};
    const bool shares = r->gpu_count == 1 && r->gpu_milli < CLUSTER_GPU;

    *cell = (Cell){.version = c.before->version};
    if (!has_room(c.node, c.before, r) || !is_allowed(r, node))
        return;
    if (shares && !placement->mode->tightest) {
        score_each_gpu(placement->mode, &c, cell);
        return;
    }
    const uint16_t gpus = shares             ? find_tightest(c.node, c.before, r->gpu_milli)
                          : r->gpu_count > 0 ? find_idle(c.node, c.before, r->gpu_count)
                                             : 0;
    if (r->gpu_count > 0 && !gpus)
        return;
    cell->fits = true;
    cell->gpus = gpus;
    cell->score = score_case(placement->mode, &c, gpus);
}

/* Scales to the integers 0 to 100, as kube-scheduler's plugins do. */
static double scale_score(double score, double least, double most)
{
    return most > least ? trunc((score - least) * 100 / (most - least)) : 100;
}

bool placement_decide(Placement *placement, uint32_t kind_id, PlacementChoice *ret)
{
    Kind *kind = &placement->kinds.at[kind_id];
    double least = INFINITY, most = -INFINITY, best_score = -INFINITY;
    uint32_t best = UINT32_MAX;

    for (size_t i = 0; i < placement->count; i++) {
        const uint32_t node = placement->in_order[i];
        Cell *cell = &kind->cells[node];

        if (cell->version != placement->states[node].version)
            score_node(placement, kind, node, cell);
        if (!cell->fits)
            continue;
        least = fmin(least, cell->score);
        if (cell->score > most) {
            most = cell->score;
            best = node;
        }
    }
    if (best == UINT32_MAX)
        return false;
    for (size_t i = 0; placement->mode->normalise && i < placement->count; i++) {
        const Cell *cell = &kind->cells[placement->in_order[i]];

        if (cell->fits && scale_score(cell->score, least, most) > best_score) {
            best_score = scale_score(cell->score, least, most);
            best = placement->in_order[i];
        }
    }
    *ret = (PlacementChoice){.node = best, .gpus = kind->cells[best].gpus};
    return true;
}

static void change_node(Placement *placement, uint32_t kind, PlacementChoice choice, int sign)
{
    const ClusterRequest *r = &placement->kinds.at[kind].request;

    change_state(&placement->states[choice.node], r, choice.gpus, sign);
    refresh_state(placement, choice.node);
    placement->allocated = (uint64_t)((int64_t)placement->allocated - (int64_t)sign * r->gpu_milli * r->gpu_count);
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
    const PlacementState *s = &placement->states[node];
    PlacementLeft left = {.cpu_milli = s->cpu_left, .memory_mib = s->memory_left, .pods = s->pods};

    memcpy(left.gpu_milli, s->gpu_left, sizeof left.gpu_milli);
    return left;
}

/* --- a cluster on which others decide too ------------------------------------------------------------------------- */

void placement_set_left(Placement *placement, uint32_t node, const PlacementLeft *left)
{
    PlacementState *s = &placement->states[node];

    s->cpu_left = left->cpu_milli;
    s->memory_left = left->memory_mib;
    s->pods = left->pods;
    s->gpu_sum = 0;
    for (unsigned i = 0; i < CLUSTER_GPUS_MAX; i++) {
        s->gpu_left[i] = left->gpu_milli[i];
        s->gpu_sum += left->gpu_milli[i];
    }
    refresh_state(placement, node);
}

bool placement_score(const Placement *placement, const ClusterRequest *request, uint32_t node, double *ret_score,
                     uint16_t *ret_gpus)
{
    const Kind kind = {.request = *request};
    Cell cell;

    score_node(placement, &kind, node, &cell);
    if (cell.fits) {
        *ret_score = cell.score;
        *ret_gpus = cell.gpus;
    }
    return cell.fits;
}
