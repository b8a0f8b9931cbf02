/* SPDX-License-Identifier: Apache-2.0 */
/* Each XID with consequences changes all of its surfaces, and nothing on the GPU beside. */
#include "node.h"

#include <math.h>
#include <string.h>

enum { VICTIM, BYSTANDER, OTHER_GPU, LINK = 5 };
enum { KILLS_NONE, KILLS_NAMED, KILLS_ALL };

typedef struct Row {
    uint32_t xid, kills;
    int32_t ecc; /* location of an uncorrectable error or SIM_NONE */
    uint32_t remapped, remap_failed, lost, reset, link_down, action;
    uint32_t then[4]; /* XIDs of the lines that follow, without 154 */
} Row;

static const Row rows[] = {
    {13, KILLS_NAMED, SIM_NONE, 0, 0, 0, 0, 0, 0, {0}},
    {31, KILLS_NAMED, SIM_NONE, 0, 0, 0, 0, 0, 0, {0}},
    {32, KILLS_NAMED, SIM_NONE, 0, 0, 0, 0, 0, 0, {0}},
    {43, KILLS_NAMED, SIM_NONE, 0, 0, 0, 0, 0, 0, {0}},
    {45, KILLS_NAMED, SIM_NONE, 0, 0, 0, 0, 0, 0, {0}},
    {68, KILLS_NAMED, SIM_NONE, 0, 0, 0, 0, 0, 0, {0}},
    {69, KILLS_NAMED, SIM_NONE, 0, 0, 0, 0, 0, 0, {0}},
    {109, KILLS_NAMED, SIM_NONE, 0, 0, 0, 0, 0, 0, {0}},
    {48, KILLS_NAMED, SIM_ECC_DRAM, 1, 0, 0, 0, 0, 1, {63, 94}},
    {62, KILLS_ALL, SIM_NONE, 0, 0, 0, 1, 0, 1, {45}},
    {63, KILLS_NONE, SIM_NONE, 1, 0, 0, 0, 0, 1, {0}},
    {64, KILLS_NONE, SIM_NONE, 1, 1, 0, 0, 0, 1, {0}},
    {74, KILLS_NAMED, SIM_NONE, 0, 0, 0, 0, 1, 1, {0}},
    {79, KILLS_ALL, SIM_NONE, 0, 0, 1, 0, 0, 2, {0}},
    {94, KILLS_NAMED, SIM_ECC_DRAM, 0, 0, 0, 0, 0, 4, {0}},
    {95, KILLS_ALL, SIM_ECC_SRAM, 0, 0, 0, 1, 0, 1, {45}},
    {119, KILLS_ALL, SIM_NONE, 0, 0, 0, 1, 0, 1, {0}},
    {120, KILLS_ALL, SIM_NONE, 0, 0, 0, 1, 0, 1, {0}},
    {140, KILLS_ALL, SIM_ECC_SRAM, 0, 0, 0, 1, 0, 1, {0}},
    {149, KILLS_NAMED, SIM_NONE, 0, 0, 0, 0, 1, 1, {45}},
    {1, KILLS_NONE, SIM_NONE, 0, 0, 0, 0, 0, 0, {0}}, /* no row: a line and nothing else */
};

static SimImage *node(const char *board, uint32_t generation)
{
    SimImage *image = node_of(board, 2);
    image->generation = generation;
    node_run(image, "train", 0);
    node_run(image, "inference", 0);
    node_run(image, "train", 1);
    return image;
}

static int runs(const SimNow *now, int32_t work)
{
    for (uint32_t i = 0; i < now->proc_count; i++)
        if (now->proc[i].work == work)
            return 1;
    return 0;
}

static uint32_t lines_of(const SimImage *image, uint64_t xid, uint64_t *ret_first_ns)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < image->event_count; i++) {
        if (image->events[i].type != 8 || image->events[i].data != xid)
            continue;
        assert_int_equal(image->events[i].gpu, 0);
        if (n++ == 0 && ret_first_ns)
            *ret_first_ns = image->events[i].t_ns;
    }
    return n;
}

static void check_condition(const SimImage *image, const Row *row, const SimNow *now)
{
    const SimBoard *board = &image->boards[0];
    uint64_t unc = 0;
    for (int32_t loc = 0; loc < SIM_ECC_LOCS; loc++) {
        unc += now->cond.ecc_volatile[1][loc];
        assert_int_equal(now->cond.ecc_volatile[0][loc], 0);
    }
    assert_int_equal(unc, row->ecc != SIM_NONE && board->has_ecc);
    if (unc)
        assert_int_equal(now->cond.ecc_aggregate[1][row->ecc], 1);
    assert_int_equal(now->cond.remap_unc, row->remapped && board->has_remap);
    assert_int_equal(now->cond.remap_failed, row->remap_failed && board->has_remap);
    assert_int_equal(now->cond.retired[1], row->remapped && !board->has_remap && board->has_retired_pages);
    assert_int_equal(now->cond.lost, row->lost);
    assert_int_equal(now->cond.reset_required, row->reset);
    for (uint32_t l = 0; l < board->link_count; l++)
        assert_int_equal(now->cond.link[l].state, !(row->link_down && l == LINK));
    assert_int_equal(now->cond.set[SIM_KEY_RECOVERY_ACTION], row->action);
}

static void check_lines(const SimImage *image, const Row *row)
{
    uint64_t first = 0, t = 0;
    uint32_t lines = 1, expected = 1;
    assert_int_equal(lines_of(image, row->xid, &first), 1);
    assert_int_equal(first, SIM_NS);
    for (uint32_t i = 0; i < 4 && row->then[i]; i++) {
        uint32_t want = row->then[i] != 63 || image->boards[0].has_remap;
        assert_int_equal(lines_of(image, row->then[i], &t), want);
        assert_true(!want || t > first);
        expected += want;
    }
    uint32_t announced = row->action && image->generation >= 565;
    assert_int_equal(lines_of(image, 154, NULL), announced);
    for (uint32_t i = 0, n = 0; i < image->event_count; i++) {
        n += image->events[i].type == 8;
        lines = n;
    }
    assert_int_equal(lines, expected + announced);
}

static void check_row(const Row *row, const char *board, uint32_t generation)
{
    SimImage *image = node(board, generation);
    node_op(image, 1,
            (SimOp){.type = SIM_OP_XID, .gpu = 0, .a = {(int32_t)row->xid, SIM_NONE, SIM_NONE, VICTIM}, .u = LINK});
    sim_plan_build(image);
    check_condition(image, row, node_at(image, 0, 3));
    check_lines(image, row);
    const SimNow *now = node_at(image, 0, 3);
    assert_int_equal(runs(now, VICTIM), row->kills == KILLS_NONE);
    assert_int_equal(runs(now, BYSTANDER), row->kills != KILLS_ALL);
    now = node_at(image, 1, 3); /* the neighbour is well */
    assert_true(runs(now, OTHER_GPU) && !now->cond.lost && !now->cond.reset_required);
    assert_int_equal(now->cond.set[SIM_KEY_RECOVERY_ACTION], 0);
    now = node_at(image, 0, 0.99); /* and before the fault all was */
    assert_true(runs(now, VICTIM) && runs(now, BYSTANDER) && now->cond.set[SIM_KEY_RECOVERY_ACTION] == 0);
    sim_image_close(image);
}

static void each_row_changes_its_surfaces(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        check_row(&rows[i], "h100-sxm-80gb", 590);
        check_row(&rows[i], "a100-sxm4-80gb", 535);
        check_row(&rows[i], "t4", 610);
    }
}

/* The same, injected into a running node. */
static void live_as_well(void **state)
{
    (void)state;
    SimImage *image = node("h100-sxm-80gb", 590);
    sim_plan_build(image);
    node_step(image, 1);
    node_do(image, (SimOp){.type = SIM_OP_XID, .gpu = 0, .a = {79, SIM_NONE, SIM_NONE, SIM_NONE}});
    assert_true(sim_state_now(image, 0)->cond.lost);
    node_step(image, 0.1);
    assert_int_equal(sim_state_now(image, 0)->proc_count, 0);
    assert_int_equal(sim_state_now(image, 0)->cond.set[SIM_KEY_RECOVERY_ACTION], 2);
    sim_image_close(image);
}

/* A storm: each time its line and its counters, but nobody is killed. */
static void trains_repeat(void **state)
{
    (void)state;
    SimImage *image = node("h100-sxm-80gb", 590);
    node_op(
        image, 1,
        (SimOp){.type = SIM_OP_XID, .gpu = 0, .a = {94, SIM_NONE, SIM_NONE, VICTIM}, .times = 5, .every_ns = SIM_NS});
    sim_plan_build(image);
    for (uint32_t n = 1; n <= 5; n++) {
        const SimNow *now = node_at(image, 0, n + 0.5);
        assert_int_equal(now->cond.ecc_volatile[1][SIM_ECC_DRAM], n);
        assert_true(runs(now, VICTIM));
        SimEvent event;
        uint32_t seen = 0;
        for (uint32_t at = 0; (at = sim_event_next(image, at, node_ns(n + 0.5), &event, NULL));)
            seen += event.type == 8 && event.data == 94;
        assert_int_equal(seen, n);
    }
    assert_int_equal(lines_of(image, 94, NULL), 5);
    assert_int_equal(lines_of(image, 154, NULL), 5);
    sim_image_close(image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_row_changes_its_surfaces),
        cmocka_unit_test(live_as_well),
        cmocka_unit_test(trains_repeat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
