/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which sets of GPU instances fit, exhaustively, against interval packing of our own.
 *
 * The sets: every non-empty multiset in which each profile occurs at most once more often than the driver allows, and
 * whose compute slices sum up to at most one more than the GPU has. That gives 334 on the 7-slice grid (127 fit), 44 on
 * the A30 (19 fit), and on the RTX PRO 6000, without those of its profiles that differ in media engines only, 99 (46
 * fit).
 */
#include "node.h"

#include <string.h>

#include "sim/core/plan.h"

enum { ITEMS_MAX = 8, UNPLACED = 255 };

typedef struct Set {
    const SimBoard *board;
    uint32_t count[SIM_PROFILE_MAX];
    uint8_t item[ITEMS_MAX], start[ITEMS_MAX]; /* profile of each instance, and where the oracle puts it */
    uint32_t items;
} Set;

/* ---- the oracle ---- */

static int within_counts_and_engines(const Set *s)
{
    uint32_t dec = 0, enc = 0, jpg = 0, ofa = 0;
    for (uint32_t i = 0; i < s->board->profile_count; i++) {
        const SimProfile *p = &s->board->profiles[i];
        if (s->count[i] > p->max_instances)
            return 0;
        dec += s->count[i] * p->dec;
        enc += s->count[i] * p->enc;
        jpg += s->count[i] * p->jpg;
        ofa += s->count[i] * p->ofa;
    }
    return dec <= s->board->dec_engines && enc <= s->board->enc_engines && jpg <= s->board->jpg_engines &&
           ofa <= s->board->ofa_engines;
}

/* Half-open intervals on the memory axis, largest first, by trying everything. */
static int pack(Set *s, uint32_t at, uint32_t used)
{
    if (at == s->items)
        return 1;
    const SimProfile *p = &s->board->profiles[s->item[at]];
    for (uint32_t k = 0; k < p->place_count; k++) {
        uint32_t want = ((1u << p->place_size) - 1) << p->place_start[k];
        if (want & used || p->place_start[k] + p->place_size > s->board->mig_grid)
            continue;
        s->start[at] = p->place_start[k];
        if (pack(s, at + 1, used | want))
            return 1;
    }
    return 0;
}

static int fits(Set *s)
{
    s->items = 0;
    for (uint32_t size = s->board->mig_grid; size > 0; size--)
        for (uint32_t i = 0; i < s->board->profile_count; i++)
            for (uint32_t n = 0; s->board->profiles[i].place_size == size && n < s->count[i]; n++) {
                assert_true(s->items < ITEMS_MAX);
                s->item[s->items++] = (uint8_t)i;
            }
    return within_counts_and_engines(s) && pack(s, 0, 0);
}

/* ---- the simulator ---- */

static SimOutcome create(SimImage *image, uint32_t profile, int32_t start, uint32_t *ret_id)
{
    SimOp op = {.type = SIM_OP_GI_CREATE, .gpu = 0, .a = {(int32_t)profile, start}, .origin = SIM_FROM_CLIENT};
    return sim_op_apply(image, &op, NULL, 0, ret_id);
}

static void destroy_all(SimImage *image)
{
    node_step(image, 0.001);
    const SimNow *now = sim_state_now(image, 0);
    for (uint32_t i = 0; i < SIM_GI_MAX; i++)
        if (now->cond.gi[i].used)
            node_do(image, (SimOp){.type = SIM_OP_GI_DESTROY, .gpu = 0, .a = {(int32_t)now->cond.gi[i].id}});
}

/* Where the oracle has put them, each in its place, with ids that differ. */
static void create_as_packed(SimImage *image, const Set *s)
{
    uint64_t ids = 0;
    for (uint32_t i = 0; i < s->items; i++) {
        uint32_t id = UINT32_MAX;
        if (create(image, s->item[i], s->start[i], &id) != SIM_OK)
            fail_msg("%s: %s at %u is refused", s->board->key, s->board->profiles[s->item[i]].name, s->start[i]);
        assert_true(id < 64 && !(ids >> id & 1));
        ids |= 1ull << id;
    }
    const SimCond *cond = &sim_state_now(image, 0)->cond;
    for (uint32_t i = 0; i < SIM_GI_MAX; i++)
        if (cond->gi[i].used)
            ids &= ~(1ull << cond->gi[i].id);
    assert_true(ids == 0);
}

/* Whether some order of creation without places gets all of what is left in `count` made. Equal items are tried once.
 */
static int some_order(const SimBoard *board, const SimCond *cond, uint32_t *count, uint32_t left)
{
    int found = left == 0;
    for (uint32_t i = 0; i < board->profile_count && !found; i++) {
        SimCond next = *cond;
        if (!count[i] || sim_mig_place(board, cond, i, SIM_NONE) < 0)
            continue;
        const SimOp op = {.type = SIM_OP_GI_CREATE, .a = {(int32_t)i, SIM_NONE}};
        cond_apply(&next, board, &op, 1);
        count[i]--;
        found = some_order(board, &next, count, left - 1);
        count[i]++;
    }
    return found;
}

static void check(SimImage *image, Set *s, const SimCond *empty, int fit)
{
    if (some_order(s->board, empty, s->count, s->items) != fit) {
        for (uint32_t i = 0; i < s->items; i++)
            print_message("# %s\n", s->board->profiles[s->item[i]].name);
        fail_msg("%s: this set should %s", s->board->key, fit ? "fit in some order" : "be refused in every order");
    }
    if (!fit)
        return;
    create_as_packed(image, s);
    destroy_all(image);
}

typedef struct Walk {
    SimImage *image;
    Set set;
    SimCond empty;
    uint32_t fit, not ;
    int plain; /* without the profiles of plain_leaves_out */
} Walk;

/* The RTX board's profiles that have another one with the same size and count, apart from media engines or graphics. */
static int plain_leaves_out(const SimProfile *p)
{
    return strstr(p->name, "me.all") || strstr(p->name, "-me") || strcmp(p->name, "4g.96gb+gfx") == 0;
}

static void walk(Walk *w, uint32_t profile, uint32_t slices)
{
    const SimBoard *board = w->set.board;
    if (profile == board->profile_count) {
        int fit = fits(&w->set);
        if (!w->set.items)
            return;
        w->fit += (uint32_t)fit;
        w->not += fit ? 0 : 1;
        check(w->image, &w->set, &w->empty, fit);
        return;
    }
    const SimProfile *p = &board->profiles[profile];
    uint32_t most = p->max_instances + 1;
    if (w->plain && plain_leaves_out(p))
        most = 0;
    for (uint32_t n = 0; n <= most && slices + n * p->slices <= board->mig_slices + 1; n++) {
        w->set.count[profile] = n;
        walk(w, profile + 1, slices + n * p->slices);
    }
    w->set.count[profile] = 0;
}

static void walk_board(const char *key, int plain, uint32_t fit, uint32_t not )
{
    Walk w = {.image = node_of(key, 1), .plain = plain};
    node_op(w.image, 0, (SimOp){.type = SIM_OP_MIG_MODE, .gpu = 0, .a = {1}});
    sim_plan_build(w.image);
    node_step(w.image, 1);
    w.set.board = &w.image->boards[0];
    w.empty = sim_state_now(w.image, 0)->cond;
    assert_true(w.empty.mig_mode);
    walk(&w, 0, 0);
    if (w.fit != fit || w.not != not )
        fail_msg("%s: %u fit and %u do not; expected %u and %u", key, w.fit, w.not, fit, not );
    sim_image_close(w.image);
}

static void seven_slices(void **state)
{
    (void)state;
    walk_board("a100-sxm4-80gb", 0, 127, 207);
    walk_board("h100-sxm-80gb", 0, 127, 207);
    walk_board("b200-180gb", 0, 127, 207);
}

static void four_units(void **state)
{
    (void)state;
    walk_board("a30-24gb", 0, 19, 25);
}

static void twelve_units(void **state)
{
    (void)state;
    walk_board("rtx-pro-6000-blackwell-server", 1, 46, 53);
    walk_board("rtx-pro-6000-blackwell-server", 0, 114, 383);
}

/* What remains is what can be made one after the other; a profile made once leaves one less. */
static void capacity_is_what_can_be_made(void **state)
{
    (void)state;
    static const char *const keys[] = {"a100-sxm4-80gb", "a30-24gb", "rtx-pro-6000-blackwell-server"};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        const SimBoard *board = node_board(keys[k]);
        uint64_t seed = k;
        for (int round = 0; round < 300; round++) {
            SimCond cond;
            cond_init(&cond, board);
            cond.mig_mode = 1;
            for (uint32_t n = node_pick(&seed, 4); n > 0; n--)
                cond_apply(&cond, board,
                           &(SimOp){.type = SIM_OP_GI_CREATE,
                                    .a = {(int32_t)node_pick(&seed, board->profile_count), SIM_NONE}},
                           1);
            for (uint32_t p = 0; p < board->profile_count; p++) {
                SimCond trial = cond;
                uint32_t made = 0;
                for (; sim_mig_place(board, &trial, p, SIM_NONE) >= 0; made++)
                    cond_apply(&trial, board, &(SimOp){.type = SIM_OP_GI_CREATE, .a = {(int32_t)p, SIM_NONE}}, 1);
                assert_int_equal(sim_mig_capacity(board, &cond, p), made);
            }
        }
    }
}

/* Compute instances: slices sum up to the instance's, each in a place of its own, ids from 0. */
static void compute_instances_fill_an_instance(void **state)
{
    (void)state;
    SimImage *image = node_of("h100-sxm-80gb", 1);
    node_op(image, 0, (SimOp){.type = SIM_OP_MIG_MODE, .gpu = 0, .a = {1}});
    sim_plan_build(image);
    node_step(image, 1);
    uint32_t gi, id;
    assert_int_equal(create(image, 4, SIM_NONE, &gi), SIM_OK); /* 3g */
    SimOp one = {.type = SIM_OP_CI_CREATE, .gpu = 0, .a = {(int32_t)gi, 0, SIM_NONE}, .origin = SIM_FROM_CLIENT};
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(sim_op_apply(image, &one, NULL, 0, &id), SIM_OK);
        assert_int_equal(id, i);
    }
    assert_int_equal(sim_op_apply(image, &one, NULL, 0, NULL), SIM_NO_ROOM);
    SimOp gone = {.type = SIM_OP_GI_DESTROY, .gpu = 0, .a = {(int32_t)gi}, .origin = SIM_FROM_CLIENT};
    assert_int_equal(sim_op_apply(image, &gone, NULL, 0, NULL), SIM_IN_USE);
    SimOp out = {.type = SIM_OP_CI_DESTROY, .gpu = 0, .a = {(int32_t)gi, 1}, .origin = SIM_FROM_CLIENT};
    assert_int_equal(sim_op_apply(image, &out, NULL, 0, NULL), SIM_OK);
    assert_int_equal(sim_op_apply(image, &out, NULL, 0, NULL), SIM_NOT_FOUND);
    SimOp two = one;
    two.a[1] = 1;
    assert_int_equal(sim_op_apply(image, &two, NULL, 0, NULL), SIM_NO_ROOM); /* one slice is free */
    assert_int_equal(sim_op_apply(image, &one, NULL, 0, &id), SIM_OK);
    assert_int_equal(id, 1);
    two.a[1] = 6; /* no instance has six slices */
    assert_int_equal(sim_op_apply(image, &two, NULL, 0, NULL), SIM_BAD_ARGUMENT);
    sim_image_close(image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seven_slices),
        cmocka_unit_test(four_units),
        cmocka_unit_test(twelve_units),
        cmocka_unit_test(capacity_is_what_can_be_made),
        cmocka_unit_test(compute_instances_fill_an_instance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
