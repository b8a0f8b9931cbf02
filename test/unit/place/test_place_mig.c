/* SPDX-License-Identifier: Apache-2.0 */
/* Requests for MIG instances beside a naive model: layouts as lists of instances, which engine/mig's search judges. And
 * how many requests are refused though slices are free, beside other rules. */
#include <math.h>

#include "../mig/boards.h"
#include "base/alloc.h"
#include "engine/place/placement.h"

enum { NODES = 4, GPUS = 3, STEPS = 120, CLUSTERS = 150, FEW = 12, PODS = NODES * GPUS * 8, NAMES = 12 };

static const char *const board_names[] = {"A100-80GB", "H100-80GB", "A30-24GB", "RTX-PRO-6000-Blackwell"};

/* Starts of one profile whose instances overlap. */
static const MigBoard odd_board = {
    .name = "odd",
    .slices = 5,
    .grid = 5,
    .engines = {[MIG_DECODER] = 2},
    .profiles = {{.name = "1g.5gb", .slices = 1, .max = 5, .size = 2, .starts = 0xf},
                 {.name = "2g.20gb", .slices = 2, .max = 2, .size = 1, .starts = 0x1f, .engines = {[MIG_DECODER] = 1}}},
    .profile_count = 2};

typedef struct Pod {
    bool runs;
    uint32_t kind, request;
    PlacementChoice choice;
} Pod;

typedef struct World {
    ClusterNode nodes[NODES];
    ClusterMig migs[NODES];
    ClusterInstance instances[NODES][GPUS * MIG_INSTANCE_MAX];
    ClusterRequest requests[NAMES];
    uint32_t kinds[NAMES];
    const char *names[NAMES]; /* of requests; NULL: of GPUs */
    Pod pods[PODS];
    Placement *placement;
    uint64_t seed;
} World;

static uint32_t below(uint64_t *seed, uint32_t n)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*seed >> 33) % n;
}

static int find_profile(const MigBoard *board, const char *name)
{
    for (size_t i = 0; name && i < board->profile_count; i++)
        if (strcmp(board->profiles[i].name, name) == 0)
            return (int)i;
    return -1;
}

/* --- random clusters -------------------------------------------------------------------------------------------- */

static const MigBoard *draw_board(World *w)
{
    const uint32_t board = below(&w->seed, ARRAY_LEN(board_names) + 1);

    return board < ARRAY_LEN(board_names) ? board_of(board_names[board]) : &odd_board;
}

/* Instances that fit beside each other, some of which somebody uses. */
static void make_instances(World *w, uint32_t node)
{
    ClusterMig *mig = &w->migs[node];

    for (uint8_t gpu = 0; gpu < w->nodes[node].gpu_count; gpu++) {
        MigLayout layout = {.enabled = true};

        for (unsigned tries = below(&w->seed, 12); mig->gpus >> gpu & 1 && tries > 0; tries--) {
            const uint8_t profile = (uint8_t)below(&w->seed, (uint32_t)mig->board->profile_count);
            const uint8_t start = (uint8_t)below(&w->seed, mig->board->grid);

            layout.instances[layout.count++] = (MigInstance){.profile = profile, .start = start};
            if (!mig_layout_fits(mig->board, &layout)) {
                layout.count--;
                continue;
            }
            w->instances[node][mig->instance_count++] =
                (ClusterInstance){.gpu = gpu, .profile = profile, .start = start, .used = below(&w->seed, 3) == 0};
        }
    }
}

static void make_nodes(World *w)
{
    for (uint32_t i = 0; i < NODES; i++) {
        ClusterMig *mig = &w->migs[i];

        if (i > 0 && below(&w->seed, 3) == 0) { /* one like the other */
            w->nodes[i] = w->nodes[i - 1];
            *mig = w->migs[i - 1];
            memcpy(w->instances[i], w->instances[i - 1], sizeof w->instances[i]);
            continue;
        }
        *mig = (ClusterMig){.board = draw_board(w),
                            .gpus = (uint16_t)below(&w->seed, 1 << GPUS),
                            .fixed = below(&w->seed, 2),
                            .instances = w->instances[i]};
        w->nodes[i] = (ClusterNode){.name = "n",
                                    .mig = mig->gpus ? mig : NULL,
                                    .cpu_milli = 4000 * (1 + below(&w->seed, 5)),
                                    .memory_mib = 65536,
                                    .gpu_count = GPUS,
                                    .gpus_broken = (uint16_t)(below(&w->seed, 6) == 0),
                                    .gpu_idle_w = 50,
                                    .gpu_full_w = 400};
        for (size_t k = 0; k < NAMES; k++)
            mig->profiles[k + 1] = (uint8_t)(find_profile(mig->board, w->names[k]) + 1);
        if (below(&w->seed, 2))
            make_instances(w, i);
    }
}

static void make_requests(World *w)
{
    for (uint32_t i = 0; i < NAMES; i++) {
        ClusterRequest *r = &w->requests[i];

        w->names[i] = NULL;
        *r = (ClusterRequest){.cpu_milli = 100 * (1 + below(&w->seed, 20)), .gpu_count = 1, .gpu_milli = 500};
        if (i < 2) {
            r->gpu_milli = i == 0 ? 500 : CLUSTER_GPU;
            continue;
        }
        const MigBoard *board = draw_board(w);
        w->names[i] = board->profiles[below(&w->seed, (uint32_t)board->profile_count)].name;
        r->mig = (uint8_t)(i + 1);
    }
}

static void make_world(World *w, uint64_t seed, const PlacementMode *mode)
{
    *w = (World){.seed = seed};
    make_requests(w);
    make_nodes(w);
    w->placement = placement_new(w->nodes, NODES, NULL, mode);
    placement_set_typical(w->placement, w->requests, NAMES);
    for (size_t i = 0; i < NAMES; i++)
        w->kinds[i] = placement_add_kind(w->placement, &w->requests[i]);
}

/* --- the naive model -------------------------------------------------------------------------------------------- */

static bool is_on(const World *w, uint32_t node, unsigned gpu)
{
    return w->nodes[node].mig && w->migs[node].gpus >> gpu & 1;
}

/* What nobody else may use of a GPU in MIG mode, as a layout with all starts. */
static MigLayout layout_now(const World *w, uint32_t node, unsigned gpu)
{
    MigLayout layout = {.enabled = true};

    for (size_t i = 0; i < w->migs[node].instance_count; i++)
        if (w->instances[node][i].gpu == gpu && w->instances[node][i].used)
            layout.instances[layout.count++] =
                (MigInstance){.profile = w->instances[node][i].profile, .start = w->instances[node][i].start};
    for (const Pod *pod = w->pods; pod < w->pods + PODS; pod++)
        if (pod->runs && w->requests[pod->request].mig && pod->choice.node == node && pod->choice.gpus >> gpu & 1)
            layout.instances[layout.count++] =
                (MigInstance){.profile = (uint8_t)(w->migs[node].profiles[w->requests[pod->request].mig] - 1),
                              .start = pod->choice.start};
    return layout;
}

static bool is_there(const World *w, uint32_t node, unsigned gpu, unsigned profile, unsigned start)
{
    for (size_t i = 0; i < w->migs[node].instance_count; i++) {
        const ClusterInstance *one = &w->instances[node][i];

        if (one->gpu == gpu && one->profile == profile && one->start == start && !one->used)
            return true;
    }
    return false;
}

static uint32_t cpu_left(const World *w, uint32_t node)
{
    uint32_t left = w->nodes[node].cpu_milli;

    for (const Pod *pod = w->pods; pod < w->pods + PODS; pod++)
        left -= pod->runs && pod->choice.node == node ? w->requests[pod->request].cpu_milli : 0;
    return left;
}

static unsigned milli_left(const World *w, uint32_t node, unsigned gpu)
{
    unsigned left = w->nodes[node].gpus_broken >> gpu & 1 || is_on(w, node, gpu) ? 0 : CLUSTER_GPU;

    for (const Pod *pod = w->pods; pod < w->pods + PODS; pod++)
        if (pod->runs && pod->choice.node == node && pod->choice.gpus >> gpu & 1 && !w->requests[pod->request].mig)
            left -= w->requests[pod->request].gpu_milli;
    return left;
}

/* Whether a request could be bound to a GPU (and start). */
static bool fits_at(const World *w, uint32_t request, uint32_t node, unsigned gpu, unsigned start)
{
    const ClusterRequest *r = &w->requests[request];
    const int profile = find_profile(w->migs[node].board, w->names[request]);

    if (cpu_left(w, node) < r->cpu_milli)
        return false;
    if (!r->mig)
        return milli_left(w, node, gpu) >= r->gpu_milli;
    if (!is_on(w, node, gpu) || profile < 0 || w->nodes[node].gpus_broken >> gpu & 1 || start >= MIG_GRID_MAX ||
        (w->migs[node].fixed && !is_there(w, node, gpu, (unsigned)profile, start)))
        return false;
    MigLayout layout = layout_now(w, node, gpu);
    layout.instances[layout.count++] = (MigInstance){.profile = (uint8_t)profile, .start = (uint8_t)start};
    return mig_layout_fits(w->migs[node].board, &layout);
}

static bool fits_anywhere(const World *w, uint32_t request)
{
    for (uint32_t node = 0; node < NODES; node++)
        for (unsigned gpu = 0; gpu < GPUS; gpu++)
            for (unsigned start = 0; start < CLUSTER_MIG_SLICES_MAX; start++)
                if (fits_at(w, request, node, gpu, start))
                    return true;
    return false;
}

/* How many instances more a node takes: of a fixed layout those that are unused, else by engine/mig's search. */
static uint32_t count_naive(const World *w, uint32_t request, uint32_t node)
{
    const int profile = find_profile(w->migs[node].board, w->names[request]);
    const uint32_t by_cpu = cpu_left(w, node) / w->requests[request].cpu_milli;
    uint32_t count = 0;

    for (unsigned gpu = 0; gpu < GPUS; gpu++) {
        if (!is_on(w, node, gpu) || profile < 0 || w->nodes[node].gpus_broken >> gpu & 1)
            continue;
        for (unsigned start = 0; start < CLUSTER_MIG_SLICES_MAX && w->migs[node].fixed && by_cpu > 0; start++)
            count += fits_at(w, request, node, gpu, start);
        const MigLayout now = layout_now(w, node, gpu);
        count += w->migs[node].fixed ? 0 : mig_count_free(w->migs[node].board, &now, (uint8_t)profile);
    }
    return count < by_cpu ? count : by_cpu;
}

/* Milli of the slices that pods have. */
static uint64_t allocated_naive(const World *w)
{
    uint64_t sum = 0;

    for (const Pod *pod = w->pods; pod < w->pods + PODS; pod++) {
        const ClusterRequest *r = &w->requests[pod->request];
        const MigBoard *board = w->migs[pod->choice.node].board;

        if (pod->runs)
            sum += r->mig ? (uint64_t)CLUSTER_GPU *
                                board->profiles[w->migs[pod->choice.node].profiles[r->mig] - 1].size / board->grid
                          : r->gpu_milli;
    }
    return sum;
}

static uint32_t slices_used(const World *w, uint32_t node, unsigned gpu)
{
    const MigBoard *board = w->migs[node].board;
    const MigLayout now = layout_now(w, node, gpu);
    uint32_t used = w->migs[node].fixed || w->nodes[node].gpus_broken >> gpu & 1 ? (1u << board->grid) - 1 : 0;

    for (size_t i = 0; i < w->migs[node].instance_count && !(w->nodes[node].gpus_broken >> gpu & 1); i++)
        if (w->instances[node][i].gpu == gpu && !w->instances[node][i].used && w->migs[node].fixed)
            used &= ~(((1u << board->profiles[w->instances[node][i].profile].size) - 1) << w->instances[node][i].start);
    for (size_t i = 0; i < now.count; i++)
        used |= ((1u << board->profiles[now.instances[i].profile].size) - 1) << now.instances[i].start;
    return used;
}

/* GPU milli of a node that the requests, each as often as another, cannot use. */
static double fragmented_naive(const World *w, uint32_t node)
{
    double sum = 0;

    for (uint32_t request = 0; request < NAMES; request++) {
        const ClusterRequest *r = &w->requests[request];
        double all = 0, rest = 0;
        bool fits = false;

        for (unsigned gpu = 0; gpu < GPUS; gpu++) {
            const unsigned grid = w->migs[node].board->grid;
            const double free =
                is_on(w, node, gpu)
                    ? (double)CLUSTER_GPU * (grid - (unsigned)__builtin_popcount(slices_used(w, node, gpu))) / grid
                    : milli_left(w, node, gpu);
            bool has = false;

            for (unsigned start = 0; start < CLUSTER_MIG_SLICES_MAX; start++)
                has |= fits_at(w, request, node, gpu, start);
            fits |= has;
            all += free;
            rest += has ? 0 : free;
        }
        sum += (fits && cpu_left(w, node) >= r->cpu_milli ? rest : all) / NAMES;
    }
    return sum;
}

/* --- decisions -------------------------------------------------------------------------------------------------- */

static Pod *free_pod(World *w)
{
    for (Pod *pod = w->pods; pod < w->pods + PODS; pod++)
        if (!pod->runs)
            return pod;
    return NULL;
}

static void check_node(World *w, uint32_t request)
{
    for (uint32_t node = 0; node < NODES; node++) {
        const PlacementChoice choice = {.node = node,
                                        .gpus = (uint16_t)(1 << below(&w->seed, GPUS)),
                                        .start = (uint8_t)below(&w->seed, CLUSTER_MIG_SLICES_MAX)};

        if (w->requests[request].mig)
            assert_int_equal(placement_capacity(w->placement, w->kinds[request], node), count_naive(w, request, node));
        assert_int_equal(placement_fits(w->placement, w->kinds[request], choice),
                         fits_at(w, request, node, (unsigned)__builtin_ctz(choice.gpus), choice.start));
    }
}

static double fragmented_with(World *w, Pod *pod, uint32_t request, PlacementChoice choice)
{
    *pod = (Pod){true, w->kinds[request], request, choice};
    const double after = fragmented_naive(w, choice.node);
    pod->runs = false;
    return after;
}

/* No other place is fragmented less by it; with the same, none on this GPU leaves more room for large profiles. */
static void check_choice(World *w, Pod *pod, uint32_t request, PlacementChoice choice)
{
    const double gained = fragmented_naive(w, choice.node) - fragmented_with(w, pod, request, choice);
    const uint32_t used = slices_used(w, choice.node, (unsigned)__builtin_ctz(choice.gpus));
    const MigBoard *board = w->migs[choice.node].board;

    for (PlacementChoice other = {.node = 0}; other.node < NODES; other.node++)
        for (unsigned gpu = 0; gpu < GPUS; gpu++)
            for (other.start = 0; other.start < CLUSTER_MIG_SLICES_MAX; other.start++) {
                uint8_t left[MIG_GRID_MAX + 1], other_left[MIG_GRID_MAX + 1];

                other.gpus = (uint16_t)(1 << gpu);
                if (!fits_at(w, request, other.node, gpu, other.start))
                    continue;
                const double more = fragmented_naive(w, other.node) - fragmented_with(w, pod, request, other) - gained;
                assert_true(more < 1e-6);
                if (!w->requests[request].mig || fabs(more) > 1e-6 || other.node != choice.node ||
                    other.gpus != choice.gpus)
                    continue;
                const unsigned span = (1u << board->profiles[find_profile(board, w->names[request])].size) - 1;
                mig_count_placements(board, used | span << choice.start, left);
                mig_count_placements(board, used | span << other.start, other_left);
                assert_true(memcmp(left, other_left, sizeof left) >= 0);
            }
}

static void step_world(World *w, bool scores)
{
    const uint32_t request = below(&w->seed, NAMES);
    PlacementChoice choice;

    check_node(w, request);
    if (below(&w->seed, 3) == 0) {
        Pod *pod = &w->pods[below(&w->seed, PODS)];

        if (pod->runs)
            placement_release(w->placement, pod->kind, pod->choice);
        pod->runs = false;
    } else {
        const bool placed = placement_decide(w->placement, w->kinds[request], &choice);
        Pod *pod = free_pod(w);

        assert_int_equal(placed, fits_anywhere(w, request));
        if (!placed || !pod)
            return;
        assert_true(fits_at(w, request, choice.node, (unsigned)__builtin_ctz(choice.gpus), choice.start));
        if (scores)
            check_choice(w, pod, request, choice);
        *pod = (Pod){true, w->kinds[request], request, choice};
        placement_bind(w->placement, pod->kind, choice);
    }
    assert_int_equal(placement_gpu_milli_allocated(w->placement), allocated_naive(w));
}

static void play_worlds(const PlacementMode *mode, bool scores, uint64_t clusters)
{
    World *w = xcalloc(1, sizeof *w);

    for (uint64_t seed = 1; seed <= clusters; seed++) {
        make_world(w, seed, mode);
        for (int step = 0; step < STEPS; step++)
            step_world(w, scores);
        double fragmented = 0;
        for (uint32_t node = 0; node < NODES; node++)
            fragmented += fragmented_naive(w, node);
        assert_true(fabs(fragmented - placement_fragmentation(w->placement)) < 1e-6);
        placement_free(w->placement);
    }
    free(w);
}

static void decisions_are_those_of_the_naive_model(void **state)
{
    const double weights[PLACEMENT_TERM_END] = {[PLACEMENT_FRAGMENTATION] = 1};

    (void)state;
    play_worlds(placement_mode_new("least fragmented", weights, &board_arena), true, FEW);
}

/* No mode overlaps instances or refuses what fits. */
static void every_mode_places_what_fits(void **state)
{
    (void)state;
    for (const PlacementMode *const *mode = placement_modes; *mode; mode++)
        play_worlds(*mode, false, FEW);
}

/* Bounds hide no node: the best of all nodes, each scored, is the one that is found by bounds. */
static void bounds_hide_nothing(void **state)
{
    World *w = xcalloc(1, sizeof *w);

    (void)state;
    for (uint64_t seed = 1; seed <= CLUSTERS; seed++) {
        make_world(w, seed, placement_mode_find("balanced"));
        for (int step = 0; step < STEPS; step++) {
            const uint32_t request = below(&w->seed, NAMES);
            PlacementChoice choice;
            double best = -INFINITY, score, found = 0;
            uint16_t gpus;

            for (uint32_t node = 0; node < NODES; node++)
                if (placement_score(w->placement, &w->requests[request], node, &score, &gpus))
                    best = fmax(best, score);
            if (!placement_decide(w->placement, w->kinds[request], &choice)) {
                assert_true(isinf(best));
                continue;
            }
            assert_true(placement_score(w->placement, &w->requests[request], choice.node, &found, &gpus));
            assert_true(found == best);
            placement_bind(w->placement, w->kinds[request], choice);
        }
        placement_free(w->placement);
    }
    free(w);
}

/* Where a request goes, of two nodes that are equal but for the price of the first one. */
static uint32_t choose_cheaper(ClusterNode node, const ClusterRequest *typical, const ClusterRequest *request)
{
    const double weights[PLACEMENT_TERM_END] = {
        [PLACEMENT_FRAGMENTATION] = 1, [PLACEMENT_CPU_DEFICIT] = 1, [PLACEMENT_COST] = 0.01};
    ClusterNode nodes[] = {node, node};
    PlacementChoice choice = {.node = UINT32_MAX};

    nodes[0].price = 1;
    Placement *placement = placement_new(nodes, 2, NULL, placement_mode_new("cheap", weights, &board_arena));
    placement_set_typical(placement, typical, 1);
    assert_true(placement_decide(placement, placement_add_kind(placement, request), &choice));
    placement_free(placement);
    return choice.node;
}

/* A request that takes of fragmented GPUs alone gains as much as is possible: a bound by less would hide the second
 * node. An instance can take more of its GPU than its request says. */
static void a_score_may_be_as_high_as_its_bound(void **state)
{
    const MigBoard *board = board_of("H100-80GB");
    const ClusterMig mig = {
        .board = board,
        .gpus = 1,
        .profiles = {
            [1] = (uint8_t)(find_profile(board, "3g.40gb") + 1), [2] = (uint8_t)(find_profile(board, "7g.80gb") + 1)}};
    const ClusterNode split = {.name = "n", .mig = &mig, .cpu_milli = 500, .gpu_count = 1};
    const ClusterNode plain = {.name = "n", .cpu_milli = 500, .gpu_count = 2};
    const ClusterRequest whole_split = {.mig = 2, .cpu_milli = 8000, .gpu_count = 1, .gpu_milli = CLUSTER_GPU};
    const ClusterRequest whole = {.cpu_milli = 8000, .gpu_count = 1, .gpu_milli = CLUSTER_GPU};

    (void)state;
    assert_int_equal(choose_cheaper(plain, &whole, &(ClusterRequest){.gpu_count = 1, .gpu_milli = CLUSTER_GPU}), 1);
    assert_int_equal(choose_cheaper(plain, &whole, &(ClusterRequest){.gpu_count = 1, .gpu_milli = 300}), 1);
    assert_int_equal(choose_cheaper(split, &whole_split, &(ClusterRequest){.mig = 1, .gpu_count = 1, .gpu_milli = 429}),
                     1);
}

/* A GPU draws its full power from its first instance to its last, however many there are between. */
static void power_goes_by_the_gpu(void **state)
{
    const MigBoard *board = board_of("H100-80GB");
    ClusterMig mig = {.board = board, .gpus = 2, .profiles = {[1] = (uint8_t)(find_profile(board, "1g.10gb") + 1)}};
    const ClusterNode node = {
        .name = "n", .mig = &mig, .cpu_milli = 32000, .gpu_count = 2, .gpu_idle_w = 50, .gpu_full_w = 650};
    const ClusterRequest small = {.mig = 1, .gpu_count = 1, .gpu_milli = 125};
    Placement *placement = placement_new(&node, 1, NULL, placement_mode_find("power"));
    const uint32_t kind = placement_add_kind(placement, &small);
    const double idle_w = placement_power_w(placement);
    PlacementChoice choices[7];

    (void)state;
    assert_int_equal(placement_gpu_milli(placement), 2 * CLUSTER_GPU);
    for (size_t i = 0; i < ARRAY_LEN(choices); i++) {
        assert_true(placement_decide(placement, kind, &choices[i]));
        assert_int_equal(choices[i].gpus, 2);
        placement_bind(placement, kind, choices[i]);
        assert_true(fabs(placement_power_w(placement) - idle_w - 600) < 1e-6);
    }
    assert_false(placement_decide(placement, kind, &choices[0]));
    for (size_t i = 0; i < ARRAY_LEN(choices); i++)
        placement_release(placement, kind, choices[i]);
    assert_true(fabs(placement_power_w(placement) - idle_w) < 1e-6);
    placement_free(placement);
}

/* --- refused though slices are free ----------------------------------------------------------------------------- */

enum { GPUS_MOST = 4, ARRIVALS_MOST = 300 };

typedef enum Rule { FIRST_FIT, BEST_FIT, OURS, PLACEABLE, BEST_KNOWN, RULE_END } Rule;

/* Instances that come one at each step and end after a while. */
typedef struct Sequence {
    const MigBoard *board;
    unsigned gpus, count;
    struct {
        uint8_t profile;
        unsigned ends;
    } arrivals[ARRIVALS_MOST];
} Sequence;

typedef struct Running {
    uint32_t used[GPUS_MOST]; /* memory slices */
    struct {
        bool runs;
        unsigned gpu, start;
    } at[ARRIVALS_MOST];
} Running;

static uint32_t span_at(const MigProfile *p, unsigned start)
{
    return ((1u << p->size) - 1) << start;
}

static void make_sequence(Sequence *s, const char *board, unsigned gpus, unsigned count, uint64_t seed)
{
    *s = (Sequence){.board = board_of(board), .gpus = gpus, .count = count};
    for (unsigned i = 0; i < count; i++) {
        const MigProfile *p;

        do { /* those of which a GPU has one come less often; without media engines, which these rules do not know */
            s->arrivals[i].profile = (uint8_t)below(&seed, (uint32_t)s->board->profile_count);
            p = &s->board->profiles[s->arrivals[i].profile];
        } while (strchr(p->name, '+') || (p->max == 1 && below(&seed, 4) > 0));
        s->arrivals[i].ends = i + 1 + below(&seed, 8 * gpus);
    }
}

static bool has_start(const MigProfile *p, uint32_t used, unsigned start)
{
    return p->starts >> start & 1 && !(span_at(p, start) & used);
}

static bool choose_naive(const Sequence *s, Rule rule, const Running *r, const MigProfile *p, unsigned *gpu,
                         unsigned *start)
{
    int least = INT32_MAX;

    for (unsigned g = 0; g < s->gpus; g++)
        for (unsigned at = 0; at < s->board->grid; at++) {
            const int free = -__builtin_popcount(r->used[g]);

            if (!has_start(p, r->used[g], at) || (rule == FIRST_FIT ? least < INT32_MAX : free >= least))
                continue;
            least = free;
            *gpu = g;
            *start = at;
        }
    return least < INT32_MAX;
}

static bool has_slices(const Sequence *s, const Running *r, const MigProfile *p)
{
    for (unsigned g = 0; g < s->gpus; g++)
        if (s->board->grid - (unsigned)__builtin_popcount(r->used[g]) >= p->size)
            return true;
    return false;
}

static void start_at(const Sequence *s, Running *r, unsigned i, unsigned gpu, unsigned start)
{
    r->at[i].runs = true;
    r->at[i].gpu = gpu;
    r->at[i].start = start;
    r->used[gpu] |= span_at(&s->board->profiles[s->arrivals[i].profile], start);
}

static void end_at(const Sequence *s, Running *r, unsigned i)
{
    r->at[i].runs = false;
    r->used[r->at[i].gpu] &= ~span_at(&s->board->profiles[s->arrivals[i].profile], r->at[i].start);
}

typedef struct Refused {
    unsigned all, with_slices;
} Refused;

static Refused play_naive(const Sequence *s, Rule rule)
{
    Running r = {0};
    Refused refused = {0};

    for (unsigned i = 0; i < s->count; i++) {
        const MigProfile *p = &s->board->profiles[s->arrivals[i].profile];
        unsigned gpu = 0, start = 0;

        for (unsigned k = 0; k < i; k++)
            if (r.at[k].runs && s->arrivals[k].ends <= i)
                end_at(s, &r, k);
        if (choose_naive(s, rule, &r, p, &gpu, &start)) {
            start_at(s, &r, i, gpu, start);
        } else {
            refused.all++;
            refused.with_slices += has_slices(s, &r, p);
        }
    }
    return refused;
}

/* By engine/place. Within a node mode first-fit goes by what stays placeable alone. */
static Refused play_ours(const Sequence *s, const char *mode)
{
    ClusterMig mig = {.board = s->board, .gpus = UINT16_MAX};
    const ClusterNode node = {
        .name = "n", .mig = &mig, .cpu_milli = 1000000, .memory_mib = 1, .gpu_count = (uint8_t)s->gpus};
    PlacementChoice choices[ARRIVALS_MOST];
    ClusterRequest requests[ARRIVALS_MOST];
    Refused refused = {0};
    Running r = {0};

    for (uint8_t i = 0; i < s->board->profile_count; i++)
        mig.profiles[i + 1] = (uint8_t)(i + 1);
    for (unsigned i = 0; i < s->count; i++)
        requests[i] = (ClusterRequest){.gpu_count = 1, .gpu_milli = 1, .mig = (uint8_t)(s->arrivals[i].profile + 1)};
    Placement *placement = placement_new(&node, 1, NULL, placement_mode_find(mode));
    placement_set_typical(placement, requests, s->count);
    for (unsigned i = 0; i < s->count; i++) {
        const uint32_t kind = placement_add_kind(placement, &requests[i]);

        for (unsigned k = 0; k < i; k++)
            if (r.at[k].runs && s->arrivals[k].ends <= i) {
                end_at(s, &r, k);
                placement_release(placement, placement_add_kind(placement, &requests[k]), choices[k]);
            }
        if (placement_decide(placement, kind, &choices[i])) {
            placement_bind(placement, kind, choices[i]);
            start_at(s, &r, i, (unsigned)__builtin_ctz(choices[i].gpus), choices[i].start);
        } else {
            refused.all++;
            refused.with_slices += has_slices(s, &r, &s->board->profiles[s->arrivals[i].profile]);
        }
    }
    placement_free(placement);
    return refused;
}

/* The fewest that are refused from arrival `i` on by whoever knows all of them and takes what fits. */
static void search_best(const Sequence *s, Running r, unsigned i, unsigned refused, unsigned *best)
{
    bool fits = false;

    if (refused >= *best)
        return;
    if (i == s->count) {
        *best = refused;
        return;
    }
    for (unsigned k = 0; k < i; k++)
        if (r.at[k].runs && s->arrivals[k].ends <= i)
            end_at(s, &r, k);
    for (unsigned gpu = 0; gpu < s->gpus; gpu++)
        for (unsigned start = 0; start < s->board->grid; start++) {
            if (!has_start(&s->board->profiles[s->arrivals[i].profile], r.used[gpu], start))
                continue;
            fits = true;
            start_at(s, &r, i, gpu, start);
            search_best(s, r, i + 1, refused, best);
            end_at(s, &r, i);
        }
    if (!fits)
        search_best(s, r, i + 1, refused + 1, best);
}

static void fewer_are_refused_than_by_first_fit(void **state)
{
    static const struct {
        const char *board;
        unsigned gpus, count, sequences;
    } cases[] = {{"A100-80GB", 1, 10, 200}, {"A30-24GB", 1, 10, 200},  {"A100-80GB", 2, 8, 60},
                 {"A100-80GB", 1, 300, 40}, {"H100-80GB", 4, 300, 40}, {"A30-24GB", 4, 300, 40}};

    static const char *const names[RULE_END] = {"first fit", "best fit", "pack", "placeable", "best known"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        Refused sums[RULE_END] = {0};

        for (uint64_t seed = 1; seed <= cases[i].sequences; seed++) {
            Sequence s;

            make_sequence(&s, cases[i].board, cases[i].gpus, cases[i].count, seed);
            const bool tiny = s.count <= 10;
            unsigned best = s.count + 1;
            const Refused each[] = {play_naive(&s, FIRST_FIT), play_naive(&s, BEST_FIT), play_ours(&s, "pack"),
                                    play_ours(&s, "first-fit")};

            for (Rule rule = 0; rule < ARRAY_LEN(each); rule++) {
                sums[rule].all += each[rule].all;
                sums[rule].with_slices += each[rule].with_slices;
            }
            if (tiny)
                search_best(&s, (Running){0}, 0, 0, &best);
            sums[BEST_KNOWN].all += tiny ? best : 0;
            assert_true(!tiny || best <= each[OURS].all);
        }
        print_message("%s x %u, %u sequences of %u:", cases[i].board, cases[i].gpus, cases[i].sequences,
                      cases[i].count);
        for (Rule rule = 0; rule < RULE_END; rule++)
            if (sums[rule].all > 0)
                print_message(" %s %u (%u with slices)", names[rule], sums[rule].all, sums[rule].with_slices);
        print_message("\n");
        assert_true(sums[OURS].with_slices < sums[FIRST_FIT].with_slices);
        assert_true(sums[OURS].with_slices < sums[BEST_FIT].with_slices);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decisions_are_those_of_the_naive_model),
        cmocka_unit_test(every_mode_places_what_fits),
        cmocka_unit_test(bounds_hide_nothing),
        cmocka_unit_test(a_score_may_be_as_high_as_its_bound),
        cmocka_unit_test(power_goes_by_the_gpu),
        cmocka_unit_test(fewer_are_refused_than_by_first_fit),
    };

    load_tables(argc > 1 ? argv[1] : "data/mig/boards.yaml");
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_done(&board_arena);
    return failed;
}
