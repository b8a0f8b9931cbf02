/* SPDX-License-Identifier: Apache-2.0 */
/* engine/mig: what fits on each board, against a search of another kind; and plans, against every way there is. */
#include "boards.h"

#include "../golden.h"

/* --- a second opinion: fills the memory slices from the left, one after the other ------------------------------------
 */

typedef struct Naive {
    const MigBoard *board;
    unsigned left[MIG_PROFILE_MAX]; /* still to be placed */
    unsigned count;
    const MigLayout *now; /* or NULL */
    int best_kept;        /* -1: does not fit */
} Naive;

static int is_there(const MigLayout *now, size_t profile, unsigned start)
{
    for (size_t i = 0; now && i < now->count; i++)
        if (now->instances[i].profile == profile && now->instances[i].start == start)
            return 1;
    return 0;
}

static void fill_from(Naive *n, unsigned at, int kept)
{
    if (n->count == 0) {
        n->best_kept = kept > n->best_kept ? kept : n->best_kept;
        return;
    }
    if (at >= n->board->grid)
        return;
    fill_from(n, at + 1, kept); /* this slice stays free */
    for (size_t i = 0; i < n->board->profile_count; i++) {
        const MigProfile *p = &n->board->profiles[i];
        if (!n->left[i] || !(p->starts >> at & 1))
            continue;
        n->left[i]--;
        n->count--;
        fill_from(n, at + p->size, kept + is_there(n->now, i, at));
        n->left[i]++;
        n->count++;
    }
}

/* How many instances of `now` can stay at most; -1: the wanted ones do not fit. */
static int most_kept(const MigBoard *board, const MigLayout *wanted, const MigLayout *now)
{
    Naive n = {.board = board, .now = now, .best_kept = -1};
    unsigned slices = 0, engines[MIG_ENGINE_END] = {0};
    for (size_t i = 0; i < wanted->count; i++) {
        const MigProfile *p = &board->profiles[wanted->instances[i].profile];
        n.left[wanted->instances[i].profile]++;
        n.count++;
        slices += p->slices;
        for (int e = 0; e < MIG_ENGINE_END; e++)
            engines[e] += p->engines[e];
    }
    for (size_t i = 0; i < board->profile_count; i++)
        if (n.left[i] > board->profiles[i].max)
            return -1;
    for (int e = 0; e < MIG_ENGINE_END; e++)
        if (engines[e] > board->engines[e])
            return -1;
    if (slices <= board->slices)
        fill_from(&n, 0, 0);
    return n.best_kept;
}

/* --- what fits ------------------------------------------------------------------------------------------------------
 */

static void check_fits(const MigBoard *board, const MigLayout *wanted)
{
    MigLayout now = {.enabled = true};
    MigPlan plan;
    mig_plan(board, &now, wanted, &plan);
    int naive = most_kept(board, wanted, NULL);
    if ((plan.outcome == MIG_POSSIBLE) != (naive >= 0)) {
        CLEANUP(str_done) Str text = str_limited(500);
        mig_layout_text(board, wanted, &text);
        fail_msg("%s: %s: %d, a naive search says %d", board->name, text.text, plan.outcome, naive);
    }
    assert_int_equal(plan.outcome == MIG_POSSIBLE, plan.reason[0] == '\0');
}

/* All multisets whose compute slices are at most two more than the board has. Returns how many fit. */
static size_t walk_multisets(const MigBoard *board, size_t profile, unsigned slices, MigLayout *wanted, size_t *seen)
{
    size_t fit = 0, count = wanted->count;
    if (profile == board->profile_count) {
        check_fits(board, wanted);
        ++*seen;
        return wanted->count && most_kept(board, wanted, NULL) >= 0;
    }
    const MigProfile *p = &board->profiles[profile];
    for (unsigned times = 0; times <= p->max + 1u && wanted->count < MIG_INSTANCE_MAX; times++) {
        if (slices + times * p->slices > board->slices + 2u)
            break;
        fit += walk_multisets(board, profile + 1, slices + times * p->slices, wanted, seen);
        wanted->instances[wanted->count++] = (MigInstance){
            .profile = (uint8_t)profile, .start = MIG_START_ANY, .compute_count = 1, .compute = {p->slices}};
    }
    wanted->count = count;
    return fit;
}

static void all_multisets(void **state)
{
    (void)state;
    /* How many fit is what NVIDIA's placement tables allow on boards whose placements are known. */
    static const struct {
        const char *board;
        size_t fit;
    } known[] = {{"A100-40GB", 127}, {"H100-80GB", 127}, {"H200-141GB", 127}, {"B200-180GB", 127}, {"A30-24GB", 19}};
    size_t seen = 0;
    for (size_t i = 0; i < table_count; i++) {
        MigLayout wanted = {.enabled = true};
        size_t fit = walk_multisets(&tables[i].board, 0, 0, &wanted, &seen);
        for (size_t k = 0; k < ARRAY_LEN(known); k++)
            if (strcmp(known[k].board, tables[i].board.name) == 0)
                assert_int_equal(fit, known[k].fit);
    }
    assert_true(seen >= 477);
}

static void reasons(void **state)
{
    (void)state;
    const MigBoard *h100 = board_of("H100-80GB");
    MigLayout now = {.enabled = true};
    MigPlan plan;
    MigLayout wanted = layout_of(h100, "3g.40gb", "3g.40gb", "1g.10gb", NULL);
    mig_plan(h100, &now, &wanted, &plan);
    assert_int_equal(plan.outcome, MIG_NO_PLACEMENT);
    assert_string_equal(plan.reason, "they cannot be placed beside each other on 8 memory slices");
    wanted = layout_of(h100, "1g.10gb+me", "1g.10gb+me", NULL);
    mig_plan(h100, &now, &wanted, &plan);
    assert_int_equal(plan.outcome, MIG_TOO_MANY);
    assert_string_equal(plan.reason, "2 x 1g.10gb+me are wanted, a GPU can have 1");
    wanted = layout_of(h100, "4g.40gb", "3g.40gb", "1g.10gb", NULL);
    mig_plan(h100, &now, &wanted, &plan);
    assert_int_equal(plan.outcome, MIG_NO_SLICES);
    assert_string_equal(plan.reason, "8 compute slices are wanted, a GPU has 7");
    const MigBoard *rtx = board_of("RTX-PRO-6000-Blackwell");
    wanted = layout_of(rtx, "1g.24gb+me.all", "1g.24gb", NULL);
    mig_plan(rtx, &now, &wanted, &plan);
    assert_int_equal(plan.outcome, MIG_NO_ENGINES);
    assert_string_equal(plan.reason, "5 video decoders are wanted, a GPU has 4");
    const MigBoard *small = board_of("RTX-PRO-5000-Blackwell");
    wanted = layout_of(small, "1g.12gb", NULL);
    mig_plan(small, &now, &wanted, &plan);
    assert_int_equal(plan.outcome, MIG_NOT_KNOWN);
}

/* --- plans ----------------------------------------------------------------------------------------------------------
 */

static uint32_t seed = 7;

static unsigned draw(unsigned below)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

/* A random layout that fits, at random places. */
static MigLayout draw_layout(const MigBoard *board)
{
    for (;;) {
        MigLayout layout = {.enabled = true};
        uint32_t used = 0;
        for (unsigned tries = 0; tries < 12; tries++) {
            unsigned profile = draw((unsigned)board->profile_count), start = draw(board->grid);
            const MigProfile *p = &board->profiles[profile];
            uint32_t mask = ((1u << p->size) - 1) << start;
            if (!(p->starts >> start & 1) || mask & used)
                continue;
            layout.instances[layout.count++] = (MigInstance){
                .profile = (uint8_t)profile, .start = (uint8_t)start, .compute_count = 1, .compute = {p->slices}};
            used |= mask;
        }
        if (layout.count && most_kept(board, &layout, NULL) >= 0)
            return layout;
    }
}

/* The plan leads to what is wanted, keeps all that any way could keep, and overlaps nothing. */
static void check_plan(const MigBoard *board, const MigLayout *now, const MigLayout *wanted)
{
    MigPlan plan;
    MigLayout after;
    mig_plan(board, now, wanted, &plan);
    assert_int_equal(plan.outcome, MIG_POSSIBLE);
    assert_int_equal(plan.keep_count, most_kept(board, wanted, now));
    assert_int_equal(plan.keep_count + plan.destroy_count, now->count);
    assert_int_equal(plan.keep_count + plan.create_count, wanted->count);
    mig_plan_result(now, &plan, true, &after);
    assert_true(mig_layout_equal(&after, wanted, false));
    uint32_t used = 0;
    for (size_t i = 0; i < after.count; i++) {
        const MigProfile *p = &board->profiles[after.instances[i].profile];
        uint32_t mask = ((1u << p->size) - 1) << after.instances[i].start;
        assert_true(p->starts >> after.instances[i].start & 1);
        assert_int_equal(used & mask, 0);
        used |= mask;
    }
}

static void least_destruction(void **state)
{
    (void)state;
    static const char *const names[] = {"A100-80GB", "H100-80GB", "A30-24GB", "RTX-PRO-6000-Blackwell"};
    for (size_t pair = 0; pair < 2000; pair++) {
        const MigBoard *board = board_of(names[pair % ARRAY_LEN(names)]);
        MigLayout now = draw_layout(board), wanted = draw_layout(board);
        for (size_t i = 0; i < wanted.count; i++)
            wanted.instances[i].start = MIG_START_ANY;
        check_plan(board, &now, &wanted);
    }
}

static void place(MigLayout *layout, size_t i, uint8_t start, bool used)
{
    layout->instances[i].start = start;
    layout->instances[i].used = used;
}

static void used_instances_stay(void **state)
{
    (void)state;
    const MigBoard *h100 = board_of("H100-80GB");
    MigLayout now = layout_of(h100, "2g.20gb", "2g.20gb", "2g.20gb", NULL);
    MigLayout wanted = layout_of(h100, "2g.20gb", "3g.40gb", NULL);
    MigPlan plan;
    place(&now, 0, 0, true);
    place(&now, 1, 2, false);
    place(&now, 2, 4, false);
    mig_plan(h100, &now, &wanted, &plan);
    assert_int_equal(plan.keep_count, 1);
    assert_int_equal(plan.keep[0], 0); /* not the one at 2, for a process runs in the one at 0 */
    assert_int_equal(plan.blocked_count, 0);
    assert_int_equal(plan.create[0].start, 4);
    place(&now, 1, 2, true);
    mig_plan(h100, &now, &wanted, &plan); /* one of the two has to go */
    assert_int_equal(plan.blocked_count, 1);
    assert_int_equal(plan.blocked[0], plan.destroy[0]);
}

/* A single small instance goes where it spoils the fewest large ones, as the driver itself would place it. */
static void leaves_large_places_free(void **state)
{
    (void)state;
    const MigBoard *h100 = board_of("H100-80GB");
    MigLayout now = {.enabled = true}, wanted = layout_of(h100, "1g.10gb", NULL);
    MigPlan plan;
    mig_plan(h100, &now, &wanted, &plan);
    assert_int_equal(plan.create[0].start, 6);
    wanted = layout_of(h100, "2g.20gb", NULL);
    mig_plan(h100, &now, &wanted, &plan);
    assert_int_equal(plan.create[0].start, 4);
}

static void compute_instances(void **state)
{
    (void)state;
    const MigBoard *h100 = board_of("H100-80GB");
    MigLayout now = layout_of(h100, "3g.40gb", "3g.40gb", NULL);
    MigLayout wanted = layout_of(h100, "1c.3g.40gb", "2c.3g.40gb", "3g.40gb", NULL);
    MigPlan plan;
    place(&now, 0, 4, false);
    place(&now, 1, 0, true);
    assert_int_equal(wanted.count, 2); /* the small ones share a GPU instance */
    mig_plan(h100, &now, &wanted, &plan);
    assert_int_equal(plan.keep_count, 2);
    assert_int_equal(plan.recompute, 1u << 0); /* the unused one */
    assert_int_equal(plan.after[0].compute_count, 2);
    assert_int_equal(plan.after[0].compute[0], 2);
    assert_int_equal(plan.after[0].start, 4);
    assert_int_equal(plan.blocked_count, 0);
    CLEANUP(str_done) Str text = str_limited(200);
    mig_layout_text(h100, &wanted, &text);
    assert_string_equal(text.text, "3g.40gb (2c+1c), 3g.40gb");
}

static void mode_off(void **state)
{
    (void)state;
    const MigBoard *h100 = board_of("H100-80GB");
    MigLayout now = layout_of(h100, "7g.80gb", NULL), off = {0};
    MigPlan plan;
    place(&now, 0, 0, true);
    mig_plan(h100, &now, &off, &plan);
    assert_int_equal(plan.outcome, MIG_POSSIBLE);
    assert_true(plan.mode_change);
    assert_int_equal(plan.destroy_count, 1);
    assert_int_equal(plan.blocked_count, 1);
    mig_plan(h100, &off, &off, &plan);
    assert_false(plan.mode_change);
    mig_plan(h100, &off, &now, &plan); /* wanted with a place, as a saved state is */
    assert_true(plan.mode_change);
    assert_int_equal(plan.create_count, 1);
    assert_int_equal(plan.create[0].start, 0);
}

static void nearest_layouts(void **state)
{
    (void)state;
    const MigBoard *h100 = board_of("H100-80GB");
    MigLayout near[3], wanted = layout_of(h100, "3g.40gb", "3g.40gb", "1g.10gb", NULL);
    CLEANUP(str_done) Str text = str_limited(200);
    size_t count = mig_nearest(h100, &wanted, near, ARRAY_LEN(near));
    assert_int_equal(count, 2);
    mig_layout_text(h100, &near[0], &text);
    assert_string_equal(text.text, "2 x 3g.40gb");
    str_clear(&text);
    mig_layout_text(h100, &near[1], &text);
    assert_string_equal(text.text, "3g.40gb, 1g.10gb");
    wanted = layout_of(h100, "7g.80gb", "7g.80gb", "4g.40gb", NULL);
    count = mig_nearest(h100, &wanted, near, ARRAY_LEN(near));
    assert_int_equal(count, 2);
    str_clear(&text);
    mig_layout_text(h100, &near[0], &text);
    assert_string_equal(text.text, "7g.80gb");
}

/* So many more fit beside what is there, and not one more. */
static void room_beside(void **state)
{
    (void)state;
    for (size_t round = 0; round < 400; round++) {
        const MigBoard *board = &tables[round % table_count].board;
        if (!board->profiles[0].starts)
            continue;
        MigLayout now = draw_layout(board);
        for (uint8_t profile = 0; profile < board->profile_count; profile++) {
            const unsigned room = mig_count_free(board, &now, profile);
            MigLayout wanted = now;
            for (unsigned k = 0; k <= room; k++) {
                assert_int_equal(most_kept(board, &wanted, &now), now.count);
                wanted.instances[wanted.count++] = (MigInstance){.profile = profile, .start = MIG_START_ANY};
            }
            assert_true(most_kept(board, &wanted, &now) < (int)now.count);
        }
    }
}

/* --- plans of drawn layouts, against plans.txt; of two ways that are as good the same one is chosen always ----------
 */

static void add_instance(Str *out, const MigBoard *board, const MigInstance *instance)
{
    str_addf(out, " %s", board->profiles[instance->profile].name);
    if (instance->start != MIG_START_ANY)
        str_addf(out, "@%u", instance->start);
    for (uint8_t i = 0; i < instance->compute_count; i++) {
        str_add(out, i ? "+" : ":");
        mig_compute_name(board, instance, instance->compute[i], out);
    }
}

static void add_layout(Str *out, const char *title, const MigBoard *board, const MigLayout *layout)
{
    char devices[MIG_LAYOUT_CAP];

    str_addf(out, " %s: ", title);
    mig_layout_text(board, layout, out);
    mig_layout_devices(board, layout, devices);
    str_addf(out, " (%s):", devices);
    for (size_t i = 0; i < layout->count; i++)
        add_instance(out, board, &layout->instances[i]);
    str_addf(out, "\n");
}

static void add_plan(Str *out, const MigBoard *board, const MigLayout *now, const MigPlan *plan)
{
    MigLayout after;

    if (plan->outcome != MIG_POSSIBLE)
        str_addf(out, " not possible (%d): %s\n", plan->outcome, plan->reason);
    else {
        str_addf(out, " destroy:");
        for (size_t i = 0; i < plan->destroy_count; i++)
            str_addf(out, " %u", plan->destroy[i]);
        str_addf(out, ", keep:");
        for (size_t i = 0; i < plan->keep_count; i++)
            str_addf(out, " %u%s", plan->keep[i], plan->recompute >> plan->keep[i] & 1 ? " anew" : "");
        str_addf(out, ", in use:");
        for (size_t i = 0; i < plan->blocked_count; i++)
            str_addf(out, " %u", plan->blocked[i]);
        str_addf(out, ", create:");
        for (size_t i = 0; i < plan->create_count; i++)
            add_instance(out, board, &plan->create[i]);
        str_addf(out, "\n");
        mig_plan_result(now, plan, true, &after);
        add_layout(out, "after", board, &after);
    }
}

static MigLayout draw_wanted(const MigBoard *board)
{
    MigLayout wanted = {.enabled = true};

    for (uint32_t count = draw(5); count > 0; count--) {
        const MigInstance instance = {.profile = (uint8_t)draw((unsigned)board->profile_count), .start = MIG_START_ANY};
        CLEANUP(str_done) Str name = str_limited(64);

        mig_compute_name(board, &instance, draw(3) ? board->profiles[instance.profile].slices : 1, &name);
        (void)mig_layout_add(board, &wanted, name.text, 1 + draw(2), NULL);
    }
    return wanted;
}

static void plans_are_whole(void **state)
{
    CLEANUP(str_done) Str out = str_limited(GOLDEN_MAX);

    (void)state;
    seed = 7;
    for (size_t round = 0; round < 8 * table_count; round++) {
        const MigBoard *board = &tables[round % table_count].board;
        MigLayout now = board->profiles[0].starts ? draw_layout(board) : (MigLayout){.enabled = true}, near[3];
        const MigLayout wanted = draw_wanted(board);
        MigPlan plan;

        for (size_t i = 0; i < now.count; i++)
            now.instances[i].used = draw(3) == 0;
        str_addf(&out, "%s\n", board->name);
        add_layout(&out, "now", board, &now);
        add_layout(&out, "wanted", board, &wanted);
        mig_plan(board, &now, &wanted, &plan);
        add_plan(&out, board, &now, &plan);
        for (size_t i = 0, count = mig_nearest(board, &wanted, near, ARRAY_LEN(near)); i < count; i++)
            add_layout(&out, "near", board, &near[i]);
    }
    assert_golden(PLANS, &out);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_multisets),
        cmocka_unit_test(reasons),
        cmocka_unit_test(least_destruction),
        cmocka_unit_test(used_instances_stay),
        cmocka_unit_test(leaves_large_places_free),
        cmocka_unit_test(compute_instances),
        cmocka_unit_test(mode_off),
        cmocka_unit_test(nearest_layouts),
        cmocka_unit_test(room_beside),
        cmocka_unit_test(plans_are_whole),
    };
    load_tables(argc > 1 ? argv[1] : "data/mig/boards.yaml");
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_done(&board_arena);
    return failed;
}
