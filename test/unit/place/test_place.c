/* SPDX-License-Identifier: Apache-2.0 */
/* engine/place beside a naive model of its own: every decision of random small clusters, for each mode whose rule fits
 * into a few lines. And what must hold whatever the mode. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "engine/place/placement.h"

enum { NODES = 9, REQUESTS = 14, STEPS = 160, CLUSTERS = 40 };

typedef struct Left {
    double cpu, memory, gpu[CLUSTER_GPUS_MAX];
} Left;

typedef struct World {
    ClusterNode nodes[NODES];
    ClusterRequest requests[REQUESTS];
    uint32_t order[NODES], kinds[REQUESTS];
    Left left[NODES];
    const PlacementMode *mode;
    Placement *placement;
    uint64_t seed;
} World;

static uint32_t below(World *w, uint32_t n)
{
    w->seed = w->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(w->seed >> 33) % n;
}

static void make_request(World *w, ClusterRequest *r)
{
    static const uint8_t counts[] = {0, 1, 1, 1, 1, 2, 4};

    *r = (ClusterRequest){.cpu_milli = 500 * (1 + below(w, 16)), .memory_mib = 1024 * (1 + below(w, 8))};
    r->gpu_count = counts[below(w, ARRAY_LEN(counts))];
    r->gpu_milli = r->gpu_count == 0                  ? 0
                   : r->gpu_count == 1 && below(w, 2) ? (uint16_t)(10 * (1 + below(w, 99)))
                                                      : CLUSTER_GPU;
    r->models = r->gpu_count && below(w, 4) == 0 ? UINT64_C(1) << below(w, 2) : 0;
    r->models_written = (uint16_t)r->models;
}

static void make_world(World *w, uint64_t seed, const char *mode)
{
    *w = (World){.seed = seed};
    for (uint32_t i = 0; i < NODES; i++) {
        w->nodes[i] = (ClusterNode){.name = "n",
                                    .cpu_milli = 8000 * (1 + below(w, 8)),
                                    .memory_mib = 16384 * (1 + below(w, 4)),
                                    .gpu_count = (uint8_t)(below(w, 3) * 2 + below(w, 2) * 4),
                                    .model = (uint8_t)below(w, 2),
                                    .gpu_idle_w = 30,
                                    .gpu_full_w = 300};
        w->left[i] = (Left){.cpu = w->nodes[i].cpu_milli, .memory = w->nodes[i].memory_mib};
        for (unsigned k = 0; k < w->nodes[i].gpu_count; k++)
            w->left[i].gpu[k] = CLUSTER_GPU;
        w->order[i] = i;
    }
    for (uint32_t i = NODES - 1; i > 0; i--) { /* a permutation */
        const uint32_t k = below(w, i + 1), other = w->order[k];

        w->order[k] = w->order[i];
        w->order[i] = other;
    }
    for (size_t i = 0; i < REQUESTS; i++)
        make_request(w, &w->requests[i]);
    w->mode = placement_mode_find(mode);
    w->placement = placement_new(w->nodes, NODES, w->order, w->mode);
    placement_set_typical(w->placement, w->requests, REQUESTS);
    for (size_t i = 0; i < REQUESTS; i++)
        w->kinds[i] = placement_add_kind(w->placement, &w->requests[i]);
}

/* --- the naive model -------------------------------------------------------------------------------------------- */

static Left take_request(Left left, const ClusterRequest *r, unsigned gpus)
{
    left.cpu -= r->cpu_milli;
    left.memory -= r->memory_mib;
    for (unsigned k = 0; k < CLUSTER_GPUS_MAX; k++)
        left.gpu[k] -= gpus >> k & 1 ? r->gpu_milli : 0;
    return left;
}

/* What each of the requests could not use; all of these are typical, as they occur about once. */
static double unusable(const World *w, size_t node, const Left *left)
{
    double sum = 0;

    for (size_t i = 0; i < REQUESTS; i++) {
        const ClusterRequest *r = &w->requests[i];
        double all = 0, rest = 0;
        unsigned fit = 0;

        for (unsigned k = 0; k < w->nodes[node].gpu_count; k++) {
            all += left->gpu[k];
            fit += left->gpu[k] >= r->gpu_milli;
            rest += left->gpu[k] < r->gpu_milli ? left->gpu[k] : 0;
        }
        const bool usable = r->gpu_count > 0 && (!r->models || r->models >> w->nodes[node].model & 1) &&
                            left->cpu >= r->cpu_milli && fit >= r->gpu_count;
        sum += (usable ? rest : all) / REQUESTS;
    }
    return sum;
}

static double lacks_cpu(const World *w, size_t node, const Left *left)
{
    double all = 0;

    for (unsigned k = 0; k < w->nodes[node].gpu_count; k++)
        all += left->gpu[k];
    return fmax(0, 12 * all / 1000 - left->cpu / 1000) / 10;
}

/* Demand that names models, shared among those by their GPUs, to the GPUs of this one; as a share of all to a share. */
static double scarcity(const World *w, unsigned model)
{
    double demand = 0, all = 0, gpus[2] = {0};

    for (size_t i = 0; i < NODES; i++)
        gpus[w->nodes[i].model] += w->nodes[i].gpu_count;
    for (size_t i = 0; i < REQUESTS; i++) {
        const ClusterRequest *r = &w->requests[i];
        const double asked = (double)r->gpu_milli * r->gpu_count;
        double allowed = 0;

        for (unsigned m = 0; m < 2; m++)
            allowed += r->models >> m & 1 ? gpus[m] : 0;
        all += asked;
        demand += r->models >> model & 1 && allowed > 0 ? asked * gpus[model] / allowed : 0;
    }
    return gpus[model] > 0 ? demand / all / (gpus[model] / (gpus[0] + gpus[1])) : 0;
}

static double score_pack(const World *w, size_t node, const Left *before, const Left *after)
{
    return (unusable(w, node, before) - unusable(w, node, after)) / 1000 - 10. * w->order[node] / NODES -
           0.5 * (lacks_cpu(w, node, after) - lacks_cpu(w, node, before)) - 0.4 * scarcity(w, w->nodes[node].model);
}

static double score_first_fit(const World *w, size_t node, const Left *before, const Left *after)
{
    (void)before, (void)after;
    return -(double)w->order[node];
}

/* Whether GPUs can be those of a request on a node. */
static bool can_be(const World *w, size_t node, const ClusterRequest *r, unsigned gpus)
{
    const Left *left = &w->left[node];

    if ((unsigned)__builtin_popcount(gpus) != r->gpu_count || gpus >> w->nodes[node].gpu_count ||
        left->cpu < r->cpu_milli || left->memory < r->memory_mib ||
        (r->gpu_count && r->models && !(r->models >> w->nodes[node].model & 1)))
        return false;
    for (unsigned k = 0; k < w->nodes[node].gpu_count; k++)
        if (gpus >> k & 1 && left->gpu[k] < r->gpu_milli)
            return false;
    return true;
}

/* The highest score of all nodes and sets of GPUs; NaN: there is none. */
static double best_score(const World *w, const ClusterRequest *r,
                         double (*score)(const World *w, size_t node, const Left *before, const Left *after))
{
    double best = NAN;

    for (size_t i = 0; i < NODES; i++)
        for (unsigned gpus = 0; gpus < 1u << w->nodes[i].gpu_count; gpus++) {
            if (!can_be(w, i, r, gpus))
                continue;
            const Left after = take_request(w->left[i], r, gpus);
            best = fmax(best, score(w, i, &w->left[i], &after));
        }
    return best;
}

/* --- beside it -------------------------------------------------------------------------------------------------- */

typedef struct Bound {
    size_t request;
    PlacementChoice choice;
} Bound;

static void assert_left(const World *w)
{
    for (size_t i = 0; i < NODES; i++) {
        const PlacementLeft left = placement_left(w->placement, i);

        assert_int_equal(left.cpu_milli, w->left[i].cpu);
        assert_int_equal(left.memory_mib, w->left[i].memory);
        for (unsigned k = 0; k < w->nodes[i].gpu_count; k++)
            assert_int_equal(left.gpu_milli[k], w->left[i].gpu[k]);
    }
}

/* The search among all nodes finds what the search tree found, and a node has room where its capacity says so. */
static void assert_ways_agree(const World *w, uint32_t kind, PlacementChoice choice)
{
    const char *name = placement_mode_name(w->mode);
    const bool plain = strcmp(name, "random") != 0 && strcmp(name, "best-fit") != 0 && strncmp(name, "pwr", 3) != 0;
    uint32_t nodes[NODES];
    PlacementChoice other;

    for (uint32_t i = 0; i < NODES; i++) {
        nodes[i] = i;
        assert_int_equal(placement_capacity(w->placement, kind, i) > 0,
                         placement_decide_among(w->placement, kind, &i, 1, &other));
    }
    assert_true(placement_decide_among(w->placement, kind, nodes, NODES, &other));
    assert_true(!plain || (other.node == choice.node && other.gpus == choice.gpus));
    assert_false(placement_decide_among(w->placement, kind, nodes, 0, &other));
}

/* As many pods fit on a node as its capacity says. */
static void capacity_is_what_fits(void **state)
{
    World w;

    (void)state;
    make_world(&w, 11, "pack");
    for (size_t i = 0; i < REQUESTS; i++)
        for (uint32_t node = 0; node < NODES; node++) {
            PlacementChoice choices[64];
            uint32_t count = 0;

            const uint32_t capacity = placement_capacity(w.placement, w.kinds[i], node);
            while (count < 64 && placement_decide_among(w.placement, w.kinds[i], &node, 1, &choices[count]))
                placement_bind(w.placement, w.kinds[i], choices[count++]);
            assert_int_equal(count, capacity);
            while (count > 0)
                placement_release(w.placement, w.kinds[i], choices[--count]);
        }
    placement_free(w.placement);
}

/* One request after the other, and now and then one that ends. */
static void play(uint64_t seed, const char *mode,
                 double (*score)(const World *w, size_t node, const Left *before, const Left *after))
{
    World w;
    Bound bound[STEPS];
    size_t count = 0;

    make_world(&w, seed, mode);
    for (int step = 0; step < STEPS; step++) {
        const size_t request = below(&w, REQUESTS);
        const ClusterRequest *r = &w.requests[request];
        PlacementChoice choice;

        if (count > 0 && below(&w, 3) == 0) {
            const size_t gone = below(&w, (uint32_t)count);
            const ClusterRequest *old = &w.requests[bound[gone].request];
            Left *left = &w.left[bound[gone].choice.node];

            placement_release(w.placement, w.kinds[bound[gone].request], bound[gone].choice);
            left->cpu += old->cpu_milli;
            left->memory += old->memory_mib;
            for (unsigned k = 0; k < CLUSTER_GPUS_MAX; k++)
                left->gpu[k] += bound[gone].choice.gpus >> k & 1 ? old->gpu_milli : 0;
            bound[gone] = bound[--count];
            continue;
        }
        const double best = score ? best_score(&w, r, score) : NAN;
        if (!placement_decide(w.placement, w.kinds[request], &choice)) {
            assert_true(isnan(best));
            for (size_t i = 0; i < NODES; i++) /* nor is there room by any other way */
                for (unsigned gpus = 0; gpus < 1u << w.nodes[i].gpu_count; gpus++)
                    assert_false(can_be(&w, i, r, gpus));
            continue;
        }
        assert_true(can_be(&w, choice.node, r, choice.gpus));
        assert_ways_agree(&w, w.kinds[request], choice);
        const Left after = take_request(w.left[choice.node], r, choice.gpus);
        if (score)
            assert_true(fabs(score(&w, choice.node, &w.left[choice.node], &after) - best) < 1e-9);
        w.left[choice.node] = after;
        placement_bind(w.placement, w.kinds[request], choice);
        bound[count++] = (Bound){request, choice};
        assert_left(&w);
    }
    placement_free(w.placement);
}

static void decisions_are_those_of_the_naive_model(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= CLUSTERS; seed++) {
        play(seed, "pack", score_pack);
        play(seed, "first-fit", score_first_fit);
    }
}

/* It never over-allocates and refuses nothing that fits. */
static void every_mode_keeps_to_what_there_is(void **state)
{
    (void)state;
    for (const PlacementMode *const *mode = placement_modes; *mode; mode++)
        for (uint64_t seed = 1; seed <= CLUSTERS; seed++)
            play(seed, placement_mode_name(*mode), NULL);
}

/* What is left at the end is as it was, and so are the sums. */
static void what_is_released_is_free_again(void **state)
{
    World w;
    PlacementChoice choices[REQUESTS];
    bool placed[REQUESTS];

    (void)state;
    make_world(&w, 7, "pack");
    const double fragmentation = placement_fragmentation(w.placement), power = placement_power_w(w.placement);
    for (size_t i = 0; i < REQUESTS; i++)
        if ((placed[i] = placement_decide(w.placement, w.kinds[i], &choices[i])))
            placement_bind(w.placement, w.kinds[i], choices[i]);
    assert_true(placement_gpu_milli_allocated(w.placement) > 0 && placement_power_w(w.placement) > power);
    for (size_t i = 0; i < REQUESTS; i++)
        if (placed[i])
            placement_release(w.placement, w.kinds[i], choices[i]);
    assert_left(&w);
    assert_int_equal(placement_gpu_milli_allocated(w.placement), 0);
    assert_true(fabs(placement_fragmentation(w.placement) - fragmentation) < 1e-6);
    assert_true(fabs(placement_power_w(w.placement) - power) < 1e-6);
    placement_free(w.placement);
}

/* --- beside the optimum ----------------------------------------------------------------------------------------- */

enum { TINY_NODES = 2, TINY_REQUESTS = 6 };

/* The most GPU milli of requests[i..] that can be placed, each on any GPUs or not at all. */
static double find_optimum(const World *w, Left left[TINY_NODES], size_t i)
{
    const ClusterRequest *r = &w->requests[i];
    double best;

    if (i == TINY_REQUESTS)
        return 0;
    best = find_optimum(w, left, i + 1);
    for (size_t node = 0; node < TINY_NODES; node++)
        for (unsigned gpus = 0; gpus < 1u << w->nodes[node].gpu_count; gpus++) {
            const Left before = left[node];
            const Left after = take_request(before, r, gpus);
            bool fits = (unsigned)__builtin_popcount(gpus) == r->gpu_count && after.cpu >= 0 && after.memory >= 0 &&
                        (r->gpu_count == 0 || !r->models || r->models >> w->nodes[node].model & 1);

            for (unsigned k = 0; k < w->nodes[node].gpu_count; k++)
                fits = fits && after.gpu[k] >= 0;
            if (!fits)
                continue;
            left[node] = after;
            best = fmax(best, r->gpu_milli * r->gpu_count + find_optimum(w, left, i + 1));
            left[node] = before;
        }
    return best;
}

/* Six requests, one after the other, on two nodes: what one who knew all of them would have placed, and what modes do.
 */
static void the_optimum_is_near(void **state)
{
    static const char *const modes[] = {"pack", "fgd", "first-fit"};
    double placed[ARRAY_LEN(modes)] = {0}, optimum = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++)
        for (size_t m = 0; m < ARRAY_LEN(modes); m++) {
            World w;
            PlacementChoice choice;
            ClusterNode nodes[TINY_NODES];

            make_world(&w, seed, modes[m]);
            placement_free(w.placement);
            for (size_t i = 0; i < TINY_NODES; i++) {
                w.nodes[i].gpu_count = (uint8_t)(1 + w.nodes[i].gpu_count % 4);
                nodes[i] = w.nodes[i];
                w.left[i] = (Left){.cpu = nodes[i].cpu_milli, .memory = nodes[i].memory_mib};
                for (unsigned k = 0; k < nodes[i].gpu_count; k++)
                    w.left[i].gpu[k] = CLUSTER_GPU;
            }
            w.placement = placement_new(nodes, TINY_NODES, NULL, w.mode);
            placement_set_typical(w.placement, w.requests, TINY_REQUESTS);
            for (size_t i = 0; i < TINY_REQUESTS; i++) {
                const uint32_t kind = placement_add_kind(w.placement, &w.requests[i]);

                if (placement_decide(w.placement, kind, &choice))
                    placement_bind(w.placement, kind, choice);
            }
            const double most = find_optimum(&w, w.left, 0);
            assert_true((double)placement_gpu_milli_allocated(w.placement) <= most);
            placed[m] += (double)placement_gpu_milli_allocated(w.placement);
            optimum += m == 0 ? most : 0;
            placement_free(w.placement);
        }
    for (size_t m = 0; m < ARRAY_LEN(modes); m++)
        print_message("# %s places %.2f %% of what can be placed\n", modes[m], 100 * placed[m] / optimum);
    assert_true(placed[0] > 0.88 * optimum);
}

/* --- what the published policies prefer ------------------------------------------------------------------------- */

static const ClusterRequest half = {.cpu_milli = 1000, .memory_mib = 1, .gpu_count = 1, .gpu_milli = 500};
static const ClusterRequest whole = {.cpu_milli = 1000, .memory_mib = 1, .gpu_count = 1, .gpu_milli = CLUSTER_GPU};

/* Where the second request goes, of two nodes of two GPUs, after the first one is on the second node. */
static uint32_t second_goes(const char *mode, const ClusterRequest *first, const ClusterRequest *second)
{
    const ClusterNode nodes[] = {
        {.name = "a", .cpu_milli = 64000, .memory_mib = 1024, .gpu_count = 2, .gpu_idle_w = 30, .gpu_full_w = 300},
        {.name = "b", .cpu_milli = 64000, .memory_mib = 1024, .gpu_count = 2, .gpu_idle_w = 30, .gpu_full_w = 300}};
    Placement *placement = placement_new(nodes, 2, NULL, placement_mode_find(mode));
    const ClusterRequest typical[] = {half, whole};
    PlacementChoice choice = {.node = 9};

    placement_set_typical(placement, typical, 2);
    placement_bind(placement, placement_add_kind(placement, first), (PlacementChoice){.node = 1, .gpus = 1});
    assert_true(placement_decide(placement, placement_add_kind(placement, second), &choice));
    placement_free(placement);
    return choice.node;
}

static void policies_prefer_what_they_say(void **state)
{
    (void)state;
    assert_int_equal(second_goes("first-fit", &half, &half), 0);
    assert_int_equal(second_goes("fgd", &half, &half), 1); /* the other half of a GPU would be lost for a whole */
    assert_int_equal(second_goes("gpu-packing", &half, &half), 1);
    assert_int_equal(second_goes("gpu-packing", &whole, &half), 1); /* an idle GPU of a node in use */
    assert_int_equal(second_goes("gpu-clustering", &whole, &whole), 1);
    assert_int_equal(second_goes("gpu-clustering", &half, &whole), 0); /* not beside others */
    assert_int_equal(second_goes("best-fit", &whole, &whole), 1);
    assert_int_equal(second_goes("dot-product", &whole, &whole), 1);
    assert_int_equal(second_goes("pwr", &half, &half), 1); /* the GPU draws its power already */
    assert_int_equal(second_goes("power", &half, &half), 1);
    assert_int_equal(second_goes("spread", &whole, &whole), 0);
    assert_int_equal(second_goes("pack", &whole, &whole), 0); /* the order counts for more than the node in use */
    assert_null(placement_mode_find("nothing"));
}

/* --- islands of GPUs ---------------------------------------------------------------------------------------------- */

enum { NODE_GPUS = 12 };

static unsigned count_bits(unsigned bits)
{
    return (unsigned)__builtin_popcount(bits);
}

static unsigned count_islands(const ClusterNode *node, uint16_t gpus)
{
    unsigned count = 0;

    for (unsigned i = 0; i < CLUSTER_ISLANDS_MAX; i++)
        count += (node->islands[i] & gpus) != 0;
    return count;
}

/* The GPUs that `n` are of a node on which these are idle; 0: it has no room. */
static uint16_t choose_gpus(const ClusterNode *node, uint16_t idle, unsigned n)
{
    const ClusterRequest r = {.gpu_milli = CLUSTER_GPU, .gpu_count = (uint8_t)n};
    Placement *placement = placement_new(node, 1, NULL, placement_mode_find("pack"));
    PlacementLeft left = {.cpu_milli = 1};
    uint16_t gpus = 0;
    double score;

    for (unsigned i = 0; i < NODE_GPUS; i++)
        left.gpu_milli[i] = idle >> i & 1 ? CLUSTER_GPU : CLUSTER_GPU - 1;
    placement_set_left(placement, 0, &left);
    assert_true(placement_score(placement, &r, 0, &score, &gpus) == (count_bits(idle) >= n));
    placement_free(placement);
    return gpus;
}

/* Of all sets of `n` idle GPUs the fewest islands; *ret_least: of those within one, the fewest idle GPUs of it. */
static unsigned try_all_sets(const ClusterNode *node, uint16_t idle, unsigned n, unsigned *ret_least)
{
    unsigned fewest = UINT32_MAX;

    *ret_least = UINT32_MAX;
    for (unsigned set = 1; set < 1u << NODE_GPUS; set++) {
        if (count_bits(set) != n || set & ~(unsigned)idle)
            continue;
        const unsigned islands = count_islands(node, (uint16_t)set);
        fewest = islands < fewest ? islands : fewest;
        for (unsigned i = 0; i < CLUSTER_ISLANDS_MAX; i++)
            if (islands == 1 && node->islands[i] & set && count_bits(node->islands[i] & idle) < *ret_least)
                *ret_least = count_bits(node->islands[i] & idle);
    }
    return fewest;
}

/* At most one island is taken in part; one that is used up has at least as many idle GPUs as any that is left alone,
 * and within an island the first are taken. */
static void assert_in_order(const ClusterNode *node, uint16_t idle, uint16_t gpus)
{
    unsigned parts = 0, most_left = 0, least_used = UINT32_MAX;

    for (unsigned i = 0; i < CLUSTER_ISLANDS_MAX; i++) {
        const unsigned there = node->islands[i] & idle, taken = node->islands[i] & gpus, left = there & ~taken;

        parts += taken && left;
        most_left = !taken && count_bits(there) > most_left ? count_bits(there) : most_left;
        least_used = taken && !left && count_bits(there) < least_used ? count_bits(there) : least_used;
        assert_true(!taken || !left || (left & -left) > taken);
    }
    assert_true(parts <= 1);
    if (count_islands(node, gpus) > 1 && parts == 1)
        assert_true(least_used >= most_left);
}

static void gpus_of_one_island_are_taken_together(void **state)
{
    World w = {.seed = 11};

    (void)state;
    for (unsigned round = 0; round < 400; round++) {
        ClusterNode node = {.name = "n", .cpu_milli = 1, .gpu_count = NODE_GPUS};
        const unsigned islands = 1 + below(&w, CLUSTER_ISLANDS_MAX);
        const uint16_t idle = (uint16_t)below(&w, 1u << NODE_GPUS);
        const unsigned n = 1 + below(&w, 6);
        unsigned least, idle_there = 0;

        for (unsigned i = 0; i < NODE_GPUS; i++) { /* of the first ones each has a GPU */
            const unsigned at = i < islands ? i : below(&w, islands);

            node.islands[at] = (uint16_t)(node.islands[at] | 1u << i);
        }
        const uint16_t gpus = choose_gpus(&node, idle, n);
        if (count_bits(idle) < n)
            continue;
        assert_int_equal(count_bits(gpus), n);
        assert_int_equal(gpus & ~idle, 0);
        assert_int_equal(count_islands(&node, gpus), try_all_sets(&node, idle, n, &least));
        for (unsigned i = 0; i < islands && count_islands(&node, gpus) == 1; i++)
            idle_there = node.islands[i] & gpus ? count_bits(node.islands[i] & idle) : idle_there;
        if (idle_there)
            assert_int_equal(idle_there, least);
        assert_in_order(&node, idle, gpus);
        memset(node.islands, 0, sizeof node.islands);
        const uint16_t first = choose_gpus(&node, idle, n); /* where none is known */
        assert_int_equal(count_bits(first), n);
        for (unsigned i = 0; i < NODE_GPUS && count_bits(idle & ((2u << i) - 1)) <= n; i++)
            assert_int_equal(first >> i & 1, idle >> i & 1);
    }
}

static void gpus_of_no_island_come_last(void **state)
{
    const ClusterNode node = {.name = "n", .cpu_milli = 1, .gpu_count = 8, .islands = {0x30, 0xc0}};

    (void)state;
    assert_int_equal(choose_gpus(&node, 0xff, 1), 0x10);
    assert_int_equal(choose_gpus(&node, 0xbf, 1), 0x80); /* an island that is begun already */
    assert_int_equal(choose_gpus(&node, 0xbf, 2), 0x30);
    assert_int_equal(choose_gpus(&node, 0xbf, 4), 0xb1);
    assert_int_equal(choose_gpus(&node, 0x0f, 2), 0x03);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decisions_are_those_of_the_naive_model),
        cmocka_unit_test(every_mode_keeps_to_what_there_is),
        cmocka_unit_test(what_is_released_is_free_again),
        cmocka_unit_test(capacity_is_what_fits),
        cmocka_unit_test(the_optimum_is_near),
        cmocka_unit_test(policies_prefer_what_they_say),
        cmocka_unit_test(gpus_of_one_island_are_taken_together),
        cmocka_unit_test(gpus_of_no_island_come_last),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
