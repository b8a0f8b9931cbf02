/* SPDX-License-Identifier: Apache-2.0 */
/* engine/mig/suggest: planted work with a known answer; and on small nodes, against all layouts there are, that the
 * suggested one holds the work of every moment and that none with fewer GPUs does. */
#include "boards.h"

#include "engine/mig/suggest.h"

#define GIB (UINT64_C(1) << 30)

enum { DEMANDS_MAX = 40, WINDOW = 1000, MULTISETS_MAX = 512, ALL_GPUS = MIG_GPUS_MAX };

typedef struct Rig {
    MigNode node;
    bool asked[MIG_GPUS_MAX];
    MigDemand demands[DEMANDS_MAX];
    MigUse uses[DEMANDS_MAX];
    size_t count;
    Arena arena;
    MigSuggestion s;
} Rig;

static void set_node(Rig *rig, const char *board, size_t gpus)
{
    arena_done(&rig->arena);
    memset(rig, 0, sizeof *rig);
    rig->node.count = gpus;
    for (size_t i = 0; i < gpus; i++) {
        rig->node.gpus[i] = (MigGpu){.index = (unsigned)i, .capable = true, .board = *board_of(board)};
        rig->asked[i] = true;
    }
}

static int set_up(void **state)
{
    *state = calloc(1, sizeof(Rig));
    return *state ? 0 : -1;
}

static int tear_down(void **state)
{
    Rig *rig = *state;
    arena_done(&rig->arena);
    free(rig);
    return 0;
}

/* Splits a GPU; instances have the ids 1, 2, ... */
static void split_gpu(Rig *rig, size_t gpu, MigLayout layout)
{
    MigGpu *one = &rig->node.gpus[gpu];
    const MigLayout none = {.enabled = true};
    MigPlan plan;
    mig_plan(&one->board, &none, &layout, &plan);
    assert_int_equal(plan.outcome, MIG_POSSIBLE);
    mig_plan_result(&none, &plan, true, &one->now);
    one->pending = true;
    for (size_t i = 0; i < one->now.count; i++)
        one->now.instances[i].id = (uint32_t)i + 1;
}

/* Work on a whole GPU, all the time. */
static MigDemand *add_work(Rig *rig, const char *owner, size_t gpu, uint64_t bytes, double sm)
{
    MigDemand *d = &rig->demands[rig->count];
    *d = (MigDemand){.owner = owner, .gpu = gpu, .device = MIG_WHOLE_GPU, .memory_peak_bytes = bytes, .sm_peak = sm};
    rig->uses[rig->count] = (MigUse){rig->count, 0, WINDOW};
    rig->count++;
    return d;
}

/* In instance `i` of the layout of now. */
static MigDemand *add_instance_work(Rig *rig, const char *owner, size_t gpu, size_t i, uint64_t bytes, double sm)
{
    MigDemand *d = add_work(rig, owner, gpu, bytes, sm);
    d->device = rig->node.gpus[gpu].now.instances[i].profile;
    d->instance_id = rig->node.gpus[gpu].now.instances[i].id;
    return d;
}

static void suggest(Rig *rig)
{
    mig_suggest(&rig->node, rig->asked, rig->demands, rig->count, rig->uses, rig->count, &rig->arena, &rig->s);
}

static void assert_gpu(const Rig *rig, size_t gpu, MigAdvice advice, const char *layout)
{
    CLEANUP(str_done) Str text = str_limited(500);
    assert_int_equal(rig->s.gpus[gpu].advice, advice);
    mig_layout_text(&rig->node.gpus[gpu].board, &rig->s.gpus[gpu].wanted, &text);
    if (layout)
        assert_string_equal(text.text, layout);
}

/* --- planted ------------------------------------------------------------------------------------------------------ */

static void small_work_moves_together(void **state)
{
    Rig *rig = *state;
    set_node(rig, "H100-80GB", 5);
    add_work(rig, "ann", 0, 5 * GIB, 0.05);
    add_work(rig, "bob", 1, 30 * GIB, 0.2);
    add_work(rig, "cid", 2, 8 * GIB, 0.14); /* 20.3 SMs with the margin: no 1g.10gb */
    add_work(rig, "dan", 3, 70 * GIB, 0.9);
    suggest(rig);
    assert_int_equal(rig->s.used, 4);
    assert_int_equal(rig->s.freed, 2);
    assert_int_equal(rig->s.at_once, 4);
    assert_gpu(rig, 0, MIG_ADVICE_CHANGE, "3g.40gb, 1g.20gb, 1g.10gb");
    assert_int_equal(rig->s.gpus[0].slices_used, 5);
    assert_gpu(rig, 1, MIG_ADVICE_FREE, NULL);
    assert_gpu(rig, 2, MIG_ADVICE_FREE, NULL);
    assert_gpu(rig, 3, MIG_ADVICE_KEEP, NULL);
    assert_string_equal(rig->s.gpus[3].why, "dan needs 78848 MiB and 131 SMs with a margin: no instance has that");
    assert_gpu(rig, 4, MIG_ADVICE_UNUSED, NULL);
}

/* What each risk makes of a demand of 5 GiB and 6 SMs. */
static void risks_decide(void **state)
{
    static const struct {
        MigRisk risk;
        bool whole;
        const char *why; /* NULL: it moves */
    } cases[] = {
        {MIG_RISK_SEVERAL, true, "ann held several GPUs at once: it needs whole GPUs"},
        {MIG_RISK_SM_UNKNOWN, true, "ann needs 5632 MiB and 132 SMs with a margin: no instance has that"},
        {MIG_RISK_MEMORY_UNKNOWN, true, "ann needs 81152 MiB and 8 SMs with a margin: no instance has that"},
        {MIG_RISK_SHORTAGE, true, "ann ran short of memory on a whole GPU, and no instance has more"},
        {MIG_RISK_SHARED, true, NULL},
        {MIG_RISK_UTIL, true, NULL},
        {MIG_RISK_STARTED, true, NULL},
        {MIG_RISK_SEVERAL, false, NULL}, /* instances have no NVLink anyway */
        {MIG_RISK_SM_UNKNOWN, false, NULL},
        {MIG_RISK_MEDIA, false, "ann runs in a 3g.40gb, which is kept for its engines"},
    };
    Rig *rig = *state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        set_node(rig, "H100-80GB", 1);
        if (!cases[i].whole)
            split_gpu(rig, 0, layout_of(board_of("H100-80GB"), "3g.40gb", NULL));
        MigDemand *d =
            cases[i].whole ? add_work(rig, "ann", 0, 5 * GIB, 0.05) : add_instance_work(rig, "ann", 0, 0, 5 * GIB, 0.1);
        d->risks = 1u << cases[i].risk;
        suggest(rig);
        const bool busy = cases[i].risk == MIG_RISK_SM_UNKNOWN && !cases[i].whole;
        assert_gpu(rig, 0, cases[i].why || busy ? MIG_ADVICE_KEEP : MIG_ADVICE_CHANGE, NULL);
        if (cases[i].why)
            assert_string_equal(rig->s.gpus[0].why, cases[i].why);
    }
}

/* Margins: 10 % on both, and a warning from 80 % on. */
static void at_the_limit(void **state)
{
    static const struct {
        uint64_t mib;
        double sms;
        const char *layout;
        bool tight_memory, tight_sm;
    } cases[] = {
        {7987, 12.8, "1g.10gb", false, false}, /* of 9984 MiB and 16 SMs */
        {7988, 12.9, "1g.10gb", true, true},   {9076, 14.54, "1g.10gb", true, true}, {9077, 1, "1g.20gb", false, false},
        {1, 14.55, "1g.20gb", false, false},   {1, 23.7, "2g.20gb", false, false},   {1, 58.1, "4g.40gb", false, true},
    };
    Rig *rig = *state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        set_node(rig, "H100-80GB", 1);
        add_work(rig, "ann", 0, cases[i].mib << 20, cases[i].sms / 132);
        suggest(rig);
        assert_gpu(rig, 0, MIG_ADVICE_CHANGE, cases[i].layout);
        assert_int_equal(rig->demands[0].risks, (unsigned)cases[i].tight_memory << MIG_RISK_TIGHT_MEMORY |
                                                    (unsigned)cases[i].tight_sm << MIG_RISK_TIGHT_SM);
    }
}

/* What it is given is never more than what it had: a full instance stays, and nothing is suggested for it. */
static void a_good_layout_stays(void **state)
{
    Rig *rig = *state;
    const MigBoard *board = board_of("H100-80GB");
    set_node(rig, "H100-80GB", 1);
    split_gpu(rig, 0, layout_of(board, "3g.40gb", "2g.20gb", "1g.10gb", NULL));
    for (size_t i = 0; i < 3; i++) {
        const MigProfile *p = &board->profiles[rig->node.gpus[0].now.instances[i].profile];
        if (strcmp(p->name, "1g.10gb") != 0)
            add_instance_work(rig, "ann", 0, i, (uint64_t)p->memory_mib << 20, 1);
    }
    suggest(rig);
    assert_gpu(rig, 0, MIG_ADVICE_KEEP, NULL);
    assert_string_equal(rig->s.gpus[0].why, "another layout would free nothing");
    assert_int_equal(rig->s.gpus[0].idle_count, 1);
    assert_int_equal(rig->s.freed, 0);
}

/* An instance that nobody held stays beside what the work needs, where it fits. */
static void idle_instances_stay(void **state)
{
    Rig *rig = *state;
    set_node(rig, "H100-80GB", 1);
    split_gpu(rig, 0, layout_of(board_of("H100-80GB"), "3g.40gb", "2g.20gb", NULL));
    for (size_t i = 0; i < 2; i++)
        if (strcmp(board_of("H100-80GB")->profiles[rig->node.gpus[0].now.instances[i].profile].name, "3g.40gb") == 0)
            add_instance_work(rig, "ann", 0, i, GIB, 0.1);
    suggest(rig);
    assert_gpu(rig, 0, MIG_ADVICE_CHANGE, "1g.10gb, 2g.20gb");
    assert_int_equal(rig->s.gpus[0].slices_before, 3);
    assert_int_equal(rig->s.gpus[0].slices_used, 1);
}

/* Work that ran short of memory gets a larger instance, on its own GPU where that has room, else on another. */
static void a_shortage_is_met(void **state)
{
    Rig *rig = *state;
    const MigBoard *board = board_of("H100-80GB");
    set_node(rig, "H100-80GB", 2);
    split_gpu(rig, 0, layout_of(board, "1g.10gb", NULL));
    add_instance_work(rig, "ann", 0, 0, 9 * GIB, 0.5)->risks = 1u << MIG_RISK_SHORTAGE;
    suggest(rig);
    assert_gpu(rig, 0, MIG_ADVICE_CHANGE, "1g.20gb");
    assert_gpu(rig, 1, MIG_ADVICE_UNUSED, NULL);
    split_gpu(rig, 0, layout_of(board, "3g.40gb", "3g.40gb", NULL));
    rig->count = 0;
    add_instance_work(rig, "ann", 0, 0, 39 * GIB, 0.5);
    add_instance_work(rig, "bob", 0, 1, 39 * GIB, 0.5)->risks = 1u << MIG_RISK_SHORTAGE;
    suggest(rig);
    assert_gpu(rig, 0, MIG_ADVICE_KEEP, NULL);
    assert_string_equal(rig->s.gpus[0].why, "bob ran short of memory on 3g.40gb, and no instance has more");
    split_gpu(rig, 0, layout_of(board, "2g.20gb", "2g.20gb", "2g.20gb", NULL));
    rig->count = 0;
    for (size_t i = 0; i < 3; i++)
        add_instance_work(rig, "ann", 0, i, 19 * GIB, 1)->risks = 1u << MIG_RISK_SHORTAGE;
    suggest(rig);
    assert_gpu(rig, 0, MIG_ADVICE_CHANGE, "2 x 3g.40gb");
    assert_gpu(rig, 1, MIG_ADVICE_CHANGE, "3g.40gb");
    assert_int_equal(rig->s.freed, 0);
}

/* Who comes after another needs no second instance; who ends as another begins, neither. */
static void time_counts(void **state)
{
    Rig *rig = *state;
    set_node(rig, "A30-24GB", 3);
    for (size_t i = 0; i < 3; i++) {
        add_work(rig, "ann", i, 10 * GIB, 0.3);
        rig->uses[i] = (MigUse){i, 100 * i, 100 * i + 100};
    }
    suggest(rig);
    assert_int_equal(rig->s.freed, 2);
    assert_int_equal(rig->s.at_once, 1);
    assert_gpu(rig, 0, MIG_ADVICE_CHANGE, "2g.12gb");
    rig->uses[2].from_ns = 199;
    suggest(rig);
    assert_gpu(rig, 0, MIG_ADVICE_CHANGE, "2 x 2g.12gb");
    assert_int_equal(rig->s.busiest_ns, 199);
}

/* Work of GPUs that are not asked for, and of another board, stays where it is. */
static void work_stays_within_its_board(void **state)
{
    Rig *rig = *state;
    set_node(rig, "H100-80GB", 4);
    rig->node.gpus[2].board = *board_of("A100-40GB");
    rig->asked[3] = false;
    for (size_t i = 0; i < 4; i++)
        add_work(rig, "ann", i, GIB, 0.01);
    suggest(rig);
    assert_gpu(rig, 0, MIG_ADVICE_CHANGE, "2 x 1g.10gb");
    assert_gpu(rig, 1, MIG_ADVICE_FREE, NULL);
    assert_gpu(rig, 2, MIG_ADVICE_CHANGE, "1g.5gb");
    assert_gpu(rig, 3, MIG_ADVICE_NONE, NULL);
}

/* A GPU that has MIG already, and needs least to be destroyed, is taken first. */
static void the_least_change(void **state)
{
    Rig *rig = *state;
    const MigBoard *board = board_of("H100-80GB");
    set_node(rig, "H100-80GB", 3);
    split_gpu(rig, 1, layout_of(board, "7g.80gb", NULL));
    split_gpu(rig, 2, layout_of(board, "1g.10gb", "1g.10gb", "1g.10gb", NULL));
    add_work(rig, "ann", 0, GIB, 0.01);
    add_instance_work(rig, "bob", 1, 0, GIB, 0.01);
    add_instance_work(rig, "cid", 2, 0, GIB, 0.1);
    suggest(rig);
    assert_gpu(rig, 0, MIG_ADVICE_FREE, NULL);
    assert_gpu(rig, 1, MIG_ADVICE_FREE, NULL);
    assert_gpu(rig, 2, MIG_ADVICE_CHANGE, "5 x 1g.10gb"); /* three for the work, two that are idle */
    rig->count = 1;
    add_instance_work(rig, "cid", 2, 0, GIB, 0.1);
    rig->count = 2;
    suggest(rig);
    assert_int_equal(rig->s.freed, 1);
}

/* --- against all layouts ------------------------------------------------------------------------------------------ */

typedef struct Naive {
    const MigBoard *board;
    size_t count;
    MigLayout layouts[MULTISETS_MAX]; /* all that fit on a GPU and to which nothing can be added */
} Naive;

/* Without media profiles. */
static void set_plain_board(MigBoard *ret, const MigBoard *board)
{
    *ret = *board;
    ret->profile_count = 0;
    for (size_t i = 0; i < board->profile_count; i++)
        if (!strpbrk(board->profiles[i].name, "+-"))
            ret->profiles[ret->profile_count++] = board->profiles[i];
}

static void walk_layouts(Naive *n, size_t profile, MigLayout *layout)
{
    if (profile == n->board->profile_count) {
        MigLayout more = *layout;
        for (uint8_t i = 0; i < n->board->profile_count; i++) {
            more.count = layout->count;
            more.instances[more.count++] = (MigInstance){.profile = i, .start = MIG_START_ANY};
            if (mig_layout_fits(n->board, &more))
                return;
        }
        assert_true(n->count < MULTISETS_MAX);
        n->layouts[n->count++] = *layout;
        return;
    }
    const size_t count = layout->count;
    do {
        walk_layouts(n, profile + 1, layout);
        layout->instances[layout->count++] = (MigInstance){.profile = (uint8_t)profile, .start = MIG_START_ANY};
    } while (layout->count < MIG_INSTANCE_MAX && mig_layout_fits(n->board, layout));
    layout->count = count;
}

/* An instance for each demand of the set: augmenting paths. */
typedef struct Match {
    const Rig *rig;
    const MigBoard *board;
    const uint8_t *instances; /* profiles */
    size_t count;
    int taken[MIG_GPUS_MAX]; /* demand in it, or -1 */
    bool tried[MIG_GPUS_MAX];
} Match;

static bool holds(const MigBoard *board, const MigProfile *p, const MigDemand *d)
{
    unsigned sms = 0;
    for (size_t i = 0; i < board->profile_count; i++)
        sms = board->profiles[i].sm_count > sms ? board->profiles[i].sm_count : sms;
    return (double)p->memory_mib * (1 << 20) >= 1.1 * (double)d->memory_peak_bytes &&
           p->sm_count >= 1.1 * d->sm_peak * sms;
}

static bool match_demand(Match *m, int demand)
{
    for (size_t i = 0; i < m->count; i++) {
        if (m->tried[i] || !holds(m->board, &m->board->profiles[m->instances[i]], &m->rig->demands[demand]))
            continue;
        m->tried[i] = true;
        if (m->taken[i] < 0 || match_demand(m, m->taken[i])) {
            m->taken[i] = demand;
            return true;
        }
    }
    return false;
}

/* The work of one GPU, or with ALL_GPUS of all. */
static bool holds_work(const Rig *rig, const MigBoard *board, size_t gpu, const uint8_t *instances, size_t count)
{
    for (size_t at = 0; at < rig->count; at++) { /* at the begin of each demand */
        Match m = {.rig = rig, .board = board, .instances = instances, .count = count};
        memset(m.taken, -1, sizeof m.taken);
        for (size_t i = 0; i < rig->count; i++) {
            memset(m.tried, 0, sizeof m.tried);
            if ((gpu == ALL_GPUS || rig->demands[rig->uses[i].demand].gpu == gpu) &&
                rig->uses[i].from_ns <= rig->uses[at].from_ns && rig->uses[at].from_ns < rig->uses[i].until_ns &&
                !match_demand(&m, (int)rig->uses[i].demand))
                return false;
        }
    }
    return true;
}

/* Whether some layouts of so many GPUs hold all. */
static bool some_hold(const Rig *rig, const Naive *n, size_t gpus, size_t first, uint8_t *instances, size_t count)
{
    if (gpus == 0)
        return holds_work(rig, n->board, ALL_GPUS, instances, count);
    for (size_t i = first; i < n->count; i++) {
        for (size_t k = 0; k < n->layouts[i].count; k++)
            instances[count + k] = n->layouts[i].instances[k].profile;
        if (some_hold(rig, n, gpus - 1, i, instances, count + n->layouts[i].count))
            return true;
    }
    return false;
}

static unsigned next_random(uint64_t *seed, unsigned below)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(*seed >> 33) % below;
}

static void check_random(Rig *rig, uint64_t seed, const char *board, const Naive *n, size_t moved[2])
{
    const size_t gpus = 2 + next_random(&seed, 2);
    uint8_t instances[MIG_GPUS_MAX];
    size_t count = 0, needed = 0;
    set_node(rig, board, gpus);
    for (size_t i = 0; i < gpus; i++)
        rig->node.gpus[i].board = *n->board;
    for (size_t i = 0, demands = 2 + next_random(&seed, 9); i < demands; i++) {
        const uint64_t mib = 100 + next_random(&seed, next_random(&seed, 3) ? 9000 : 36000);
        add_work(rig, "ann", i < gpus ? i : next_random(&seed, (unsigned)gpus), mib << 20,
                 next_random(&seed, next_random(&seed, 3) ? 120 : 420) / 1000.0);
        const uint64_t from_ns = next_random(&seed, WINDOW / 2);
        rig->uses[i] = (MigUse){i, from_ns, from_ns + 1 + next_random(&seed, WINDOW / 2)};
    }
    suggest(rig);
    assert_false(rig->s.unproven);
    const bool changed = rig->s.freed > 0;
    for (size_t i = 0; i < gpus; i++) {
        const MigGpuSuggestion *one = &rig->s.gpus[i];
        const size_t before = count;
        MigPlan plan;
        if (one->advice != MIG_ADVICE_CHANGE)
            continue;
        needed++;
        mig_plan(n->board, &rig->node.gpus[i].now, &one->wanted, &plan);
        assert_int_equal(plan.outcome, MIG_POSSIBLE);
        for (size_t k = 0; k < one->wanted.count; k++)
            instances[count++] = one->wanted.instances[k].profile;
        if (!changed && !holds_work(rig, n->board, i, instances + before, count - before))
            fail_msg("%s, seed %llu: GPU %zu does not hold its work", board, (unsigned long long)seed, i);
    }
    if (changed && !holds_work(rig, n->board, ALL_GPUS, instances, count))
        fail_msg("%s, seed %llu: it does not hold the work", board, (unsigned long long)seed);
    assert_true(!changed || needed == rig->s.used - rig->s.freed);
    const size_t fewer = (changed ? needed : rig->s.used) - 1;
    if (fewer > 0 && some_hold(rig, n, fewer, 0, instances, 0))
        fail_msg("%s, seed %llu: %zu GPUs would do", board, (unsigned long long)seed, fewer);
    moved[changed]++;
}

static void no_layout_with_fewer_gpus_holds_it(void **state)
{
    static const char *const boards[] = {"H100-80GB", "A100-80GB", "RTX-PRO-6000-Blackwell"};
    for (size_t b = 0; b < ARRAY_LEN(boards); b++) {
        Naive *n = calloc(1, sizeof *n);
        size_t moved[2] = {0};
        MigBoard plain;
        MigLayout layout = {.enabled = true};
        set_plain_board(&plain, board_of(boards[b]));
        n->board = &plain;
        walk_layouts(n, 0, &layout);
        for (uint64_t seed = 1; seed <= 300; seed++)
            check_random(*state, seed, boards[b], n, moved);
        assert_true(moved[0] > 20 && moved[1] > 20);
        free(n);
    }
}

/* Each holds all that the one before holds, and is placed wherever a larger one would be. */
static void profiles_are_a_chain(void **state)
{
    (void)state;
    for (size_t t = 0; t < table_count; t++) {
        const MigBoard *board = &tables[t].board;
        uint8_t chain[MIG_PROFILE_MAX];
        const size_t count = mig_suggest_chain(board, chain);
        for (size_t i = 0; i + 1 < count; i++) {
            const MigProfile *p = &board->profiles[chain[i]], *q = &board->profiles[chain[i + 1]];
            assert_true(p->memory_mib <= q->memory_mib && p->sm_count <= q->sm_count && p->slices <= q->slices);
            for (unsigned at = 0; at < board->grid; at++) {
                uint32_t within = 0;
                for (unsigned k = 0; k + p->size <= q->size; k++)
                    within |= 1u << (at + k);
                assert_true(!(q->starts >> at & 1) || p->starts & within);
            }
        }
    }
    uint8_t chain[MIG_PROFILE_MAX];
    assert_int_equal(mig_suggest_chain(board_of("H100-80GB"), chain), 5);
    assert_int_equal(mig_suggest_chain(board_of("A30-24GB"), chain), 2);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(small_work_moves_together, set_up, tear_down),
        cmocka_unit_test_setup_teardown(risks_decide, set_up, tear_down),
        cmocka_unit_test_setup_teardown(at_the_limit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_good_layout_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(idle_instances_stay, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_shortage_is_met, set_up, tear_down),
        cmocka_unit_test_setup_teardown(time_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(work_stays_within_its_board, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_least_change, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_layout_with_fewer_gpus_holds_it, set_up, tear_down),
        cmocka_unit_test(profiles_are_a_chain),
    };
    load_tables(argc > 1 ? argv[1] : "data/mig/boards.yaml");
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_done(&board_arena);
    return failed;
}
