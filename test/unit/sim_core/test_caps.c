/* SPDX-License-Identifier: Apache-2.0 */
/* Full tables: what does not fit is refused or counted, what is there stays right, and nothing crashes. */
#include "node.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static SimOp set_op(int32_t key, uint64_t value)
{
    return (SimOp){.type = SIM_OP_SET, .gpu = 0, .a = {key}, .u = value};
}

static void assert_readable(SimImage *image, double end_s)
{
    double last[SIM_CH_COUNT] = {0}, cum[SIM_CH_COUNT];
    for (double t = 0; t < end_s; t += end_s / 300) {
        const SimNow *now = node_at(image, 0, t);
        assert_true(now->watt > 0 && now->watt <= now->limit_w && now->temp_c > 0 && now->temp_c < 150);
        sim_cum_at(image, 0, node_ns(t), cum);
        for (int c = 0; c < SIM_CH_COUNT; c++) {
            assert_true(isfinite(cum[c]) && cum[c] >= last[c] * (1 - 1e-9) - 1e-6);
            last[c] = cum[c];
        }
    }
}

static void ops_are_refused(void **state)
{
    (void)state;
    SimImage *image = node_of("h100-sxm-80gb", 1);
    for (uint32_t i = 0; i + 3 < SIM_OP_MAX; i++)
        node_op(image, i * 1e-6, (SimOp){.type = SIM_OP_KMSG});
    /* what follows from an XID comes whole or not at all */
    SimOp xid = {.type = SIM_OP_XID, .gpu = 0, .a = {95, SIM_NONE, SIM_NONE, SIM_NONE}};
    assert_int_equal(sim_op_add(image, &xid), -ENOSPC);
    assert_int_equal(image->op_count, SIM_OP_MAX - 3);
    sim_plan_build(image);
    node_step(image, 1);
    assert_int_equal(node_apply(image, xid), SIM_FULL);
    assert_int_equal(sim_state_now(image, 0)->cond.reset_required, 0);
    for (int i = 0; i < 3; i++)
        node_do(image, set_op(SIM_KEY_PERSISTENCE, 0));
    assert_int_equal(node_apply(image, set_op(SIM_KEY_PERSISTENCE, 1)), SIM_FULL);
    assert_int_equal(image->op_count, SIM_OP_MAX);
    assert_int_equal(sim_state_now(image, 0)->cond.set[SIM_KEY_PERSISTENCE], 0);
    sim_image_close(image);
}

static void segments_are_dropped_and_counted(void **state)
{
    (void)state;
    SimImage *image = node_of("h100-sxm-80gb", 1);
    int32_t work = node_run(image, "train", 0);
    for (uint32_t i = 0; i < SIM_SEG_MAX + 500; i++)
        node_op(image, 0.01 * (i + 1), set_op(SIM_KEY_TEMP_ACOUSTIC, i));
    sim_plan_build(image);
    assert_int_equal(image->seg_count[0], SIM_SEG_MAX);
    assert_true(image->segs_dropped > 400);
    assert_readable(image, 15); /* before the table is full */
    node_step(image, 40);
    double busy = sim_state_now(image, 0)->cum[SIM_CH_KERNEL];
    node_do(image, (SimOp){.type = SIM_OP_WORK_STOP, .gpu = SIM_NONE, .a = {work}}); /* the last one counts */
    const SimNow *now = sim_state_now(image, 0);
    assert_int_equal(now->proc_count, 0);
    assert_int_equal(now->cond.set[SIM_KEY_TEMP_ACOUSTIC], SIM_SEG_MAX + 499);
    assert_true(fabs(now->cum[SIM_CH_KERNEL] - busy) < 1e-3); /* integrals have lost nothing */
    sim_image_close(image);
}

static void patterns_run_out(void **state)
{
    (void)state;
    enum { GPUS = 8, WORKS = 8, CHANGES = 160 };
    SimImage *image = node_of("h100-sxm-80gb", GPUS);
    for (int32_t g = 0; g < GPUS; g++)
        for (int w = 0; w < WORKS; w++)
            node_run(image, w % 2 ? "train" : "burn", g);
    for (uint32_t i = 0; i < CHANGES; i++) /* each gives every work a new pattern */
        for (int32_t g = 0; g < GPUS; g++) {
            SimOp op = set_op(SIM_KEY_LOCK_SM_MAX, 600 + i * 5);
            op.gpu = g;
            node_op(image, 0.1 * (i + 1), op);
        }
    sim_plan_build(image);
    assert_int_equal(image->pattern_count, SIM_PATTERN_MAX);
    assert_true(image->segs_dropped > 0);
    assert_readable(image, 0.1 * CHANGES + 10);
    sim_image_close(image);
}

static void events_are_dropped_and_counted(void **state)
{
    (void)state;
    SimImage *image = node_of("h100-sxm-80gb", 1);
    enum { TRAINS = 100, EACH = 3000 };
    for (uint32_t i = 0; i < TRAINS; i++)
        node_op(image, 0.001,
                (SimOp){.type = SIM_OP_EVENT, .gpu = 0, .a = {(int32_t)i}, .u = 4, .times = EACH, .every_ns = 1000000});
    sim_plan_build(image);
    assert_int_equal(image->event_count, SIM_EVENT_MAX);
    assert_int_equal(image->events_dropped, TRAINS * EACH - SIM_EVENT_MAX);
    SimEvent event;
    uint64_t next;
    assert_int_equal(sim_event_next(image, SIM_EVENT_MAX - 1, SIM_FOREVER / 4, &event, &next), SIM_EVENT_MAX);
    assert_int_equal(sim_event_next(image, SIM_EVENT_MAX, SIM_FOREVER / 4, &event, &next), 0);
    assert_true(next == SIM_FOREVER);
    sim_image_close(image);
}

static void trains_run_out(void **state)
{
    (void)state;
    SimImage *image = node_of("h100-sxm-80gb", 1);
    for (uint32_t i = 0; i < 300; i++)
        node_op(image, 1, (SimOp){.type = SIM_OP_EVENT, .gpu = 0, .u = 4, .times = 3, .every_ns = SIM_NS});
    sim_plan_build(image);
    assert_int_equal(image->event_count, 300 + 2 * 256);
    assert_int_equal(image->segs_dropped, 300 - 256);
    sim_image_close(image);
}

static void texts_run_out(void **state)
{
    (void)state;
    SimImage *image = node_of("h100-sxm-80gb", 1);
    static char text[64 * 1024];
    memset(text, 'x', sizeof text - 1);
    uint32_t made = 0;
    while (sim_text_add(image, text))
        made++;
    assert_in_range(made, SIM_TEXT_MAX / sizeof text - 1, SIM_TEXT_MAX / sizeof text);
    assert_int_equal(sim_text_add(image, text), 0);
    sim_plan_build(image);
    node_step(image, 1);
    SimOp line = {.type = SIM_OP_KMSG, .gpu = SIM_NONE, .origin = SIM_FROM_INJECT};
    assert_int_equal(sim_op_apply(image, &line, text, 0, NULL), SIM_OK); /* the line is there, its text is not */
    SimEvent event;
    assert_int_equal(sim_event_next(image, 0, SIM_NS, &event, NULL), 1);
    assert_string_equal(sim_text(image, event.text), "");
    assert_string_equal(sim_text(image, SIM_TEXT_MAX + 5), "");
    sim_image_close(image);
}

static void slots_run_out(void **state)
{
    (void)state;
    SimImage *image = node_of("h100-sxm-80gb", 1);
    for (uint32_t i = 0; i < SIM_SLOT_MAX + 4; i++)
        node_run(image, "tiny-kernels", 0);
    sim_plan_build(image);
    assert_int_equal(node_at(image, 0, 1)->proc_count, SIM_SLOT_MAX);
    sim_image_close(image);
}

static void works_run_out(void **state)
{
    (void)state;
    SimImage *image = node_of("h100-sxm-80gb", 1);
    int32_t first = node_work(image, (NodeWork){.kind = "burn", .gpu = 0, .mig = SIM_NONE, .job = SIM_NONE});
    sim_plan_build(image);
    SimWork copy = image->works[first];
    for (int32_t i = 1; i < SIM_WORK_MAX; i++)
        assert_int_equal(sim_work_add(image, &copy), i);
    assert_int_equal(sim_work_add(image, &copy), SIM_NONE);
    node_do(image, (SimOp){.type = SIM_OP_WORK_START, .gpu = SIM_NONE, .a = {SIM_WORK_MAX - 1}});
    node_do(image, (SimOp){.type = SIM_OP_WORK_START, .gpu = SIM_NONE, .a = {SIM_WORK_MAX}}); /* nobody */
    assert_int_equal(sim_state_now(image, 0)->proc_count, 1);
    sim_image_close(image);
}

static void node_segments_run_out(void **state)
{
    (void)state;
    SimImage *image = node_of("h100-sxm-80gb", 1);
    for (uint32_t i = 0; i < SIM_NODE_SEG_MAX + 100; i++)
        node_op(image, 0.01 * (i + 1),
                (SimOp){.type = SIM_OP_NODE, .gpu = SIM_NONE, .a = {SIM_NODE_FABRIC_MANAGER}, .u = i % 2});
    sim_plan_build(image);
    SimNodeSeg node;
    sim_node_at(image, node_ns(100), &node);
    assert_int_equal(node.key[SIM_NODE_FABRIC_MANAGER], (SIM_NODE_SEG_MAX + 99) % 2);
    assert_true(image->segs_dropped >= 100);
    sim_image_close(image);
}

/* Ops with nonsense in them change nothing and break nothing. */
static void nonsense_is_harmless(void **state)
{
    (void)state;
    SimImage *image = node_new((const char *const[]){"h100-sxm-80gb", "t4", NULL});
    node_run(image, "train", 0);
    sim_plan_build(image);
    uint64_t seed = 6;
    static const int32_t odd[] = {-1, -2, 0, 1, 7, 8, 36, 99, 255, 256, 1 << 20, INT32_MAX, INT32_MIN};
    for (uint32_t i = 0; i < 4000 / TEST_SLOW; i++) {
        SimOp op = {.type = node_pick(&seed, SIM_OP_COUNT + 2), .gpu = (int32_t)node_pick(&seed, 5) - 1};
        for (int a = 0; a < 4; a++)
            op.a[a] = odd[node_pick(&seed, sizeof odd / sizeof *odd)];
        op.u = (uint64_t)odd[node_pick(&seed, sizeof odd / sizeof *odd)];
        op.x = (node_rand(&seed) - 0.5) * 1e12;
        op.origin = node_pick(&seed, 3);
        sim_op_apply(image, &op, NULL, 0, NULL);
        if (i % 8 == 0)
            node_step(image, node_rand(&seed));
        sim_state_now(image, node_pick(&seed, 2));
        SimNodeSeg node;
        sim_node_at(image, sim_clock_now(image), &node);
    }
    assert_int_equal(node_apply(image, (SimOp){.type = SIM_OP_LOST, .gpu = 2}), SIM_BAD_ARGUMENT);
    assert_int_equal(node_apply(image, (SimOp){.type = SIM_OP_LOST, .gpu = -7}), SIM_BAD_ARGUMENT);
    sim_image_close(image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ops_are_refused),       cmocka_unit_test(segments_are_dropped_and_counted),
        cmocka_unit_test(patterns_run_out),      cmocka_unit_test(events_are_dropped_and_counted),
        cmocka_unit_test(trains_run_out),        cmocka_unit_test(texts_run_out),
        cmocka_unit_test(slots_run_out),         cmocka_unit_test(works_run_out),
        cmocka_unit_test(node_segments_run_out), cmocka_unit_test(nonsense_is_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
