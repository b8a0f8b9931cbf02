/* SPDX-License-Identifier: Apache-2.0 */
/* Events: in order of time, found from an index on, stable under later ops; what the node's condition says when. */
#include "node.h"

#include <string.h>

static void in_order_of_time(void **state)
{
    (void)state;
    SimImage *image = node_of("h100-sxm-80gb", 2);
    node_op(image, 3, (SimOp){.type = SIM_OP_EVENT, .gpu = 0, .a = {3}, .u = 4});
    node_op(image, 1, (SimOp){.type = SIM_OP_EVENT, .gpu = 1, .a = {1}, .u = 4, .times = 4, .every_ns = SIM_NS});
    node_op(image, 2, (SimOp){.type = SIM_OP_XID, .gpu = 0, .a = {31, SIM_NONE, SIM_NONE, SIM_NONE}, .u = 9});
    node_op(image, 2, (SimOp){.type = SIM_OP_EVENT, .gpu = 0, .a = {22}, .u = 4});
    node_op(image, 2, (SimOp){.type = SIM_OP_SET, .gpu = 0, .a = {SIM_KEY_PERSISTENCE}, .u = 0}); /* no event */
    sim_plan_build(image);
    /* of one time: as they came; the train began before the rest of second 2 */
    static const struct {
        double t_s;
        uint64_t type, data;
    } want[] = {{1, 4, 1}, {2, 4, 1}, {2, 8, 31}, {2, 4, 22}, {3, 4, 3}, {3, 4, 1}, {4, 4, 1}};
    assert_int_equal(image->event_count, 7);
    uint32_t at = 0;
    SimEvent e;
    for (int i = 0; i < 7; i++) {
        at = sim_event_next(image, at, node_ns(10), &e, NULL);
        assert_int_equal(at, i + 1);
        assert_int_equal(e.t_ns, node_ns(want[i].t_s));
        assert_int_equal(e.type, want[i].type);
        assert_int_equal(e.data, want[i].data);
    }
    assert_int_equal(sim_event_next(image, at, node_ns(10), &e, NULL), 0);
    sim_image_close(image);
}

/* Of one time, trains too come in the order in which they were added, even after one of them has ended. */
static void trains_keep_their_order(void **state)
{
    (void)state;
    SimImage *image = node_of("h100-sxm-80gb", 1);
    for (int32_t i = 0; i < 4; i++)
        node_op(image, 1,
                (SimOp){.type = SIM_OP_EVENT, .gpu = 0, .a = {i}, .u = 4, .times = i == 0 ? 2 : 5, .every_ns = SIM_NS});
    node_op(image, 5, (SimOp){.type = SIM_OP_EVENT, .gpu = 0, .a = {9}, .u = 4});
    sim_plan_build(image);
    for (uint32_t i = 1; i < image->event_count; i++)
        assert_true(image->events[i].t_ns > image->events[i - 1].t_ns ||
                    image->events[i].data > image->events[i - 1].data);
    assert_int_equal(image->event_count, 2 + 3 * 5 + 1);
    sim_image_close(image);
}

static void next_tells_when(void **state)
{
    (void)state;
    SimImage *image = node_of("h100-sxm-80gb", 1);
    for (int i = 1; i <= 3; i++)
        node_op(image, i, (SimOp){.type = SIM_OP_EVENT, .gpu = 0, .a = {i}, .u = 4});
    sim_plan_build(image);
    SimEvent e = {.data = 99};
    uint64_t next;
    assert_int_equal(sim_event_next(image, 0, node_ns(1) - 1, &e, &next), 0);
    assert_int_equal(e.data, 99); /* untouched */
    assert_int_equal(next, node_ns(1));
    assert_int_equal(sim_event_next(image, 0, node_ns(1), &e, &next), 1);
    assert_int_equal(e.data, 1);
    assert_int_equal(next, node_ns(2));
    assert_int_equal(sim_event_next(image, 0, node_ns(2.5), &e, &next), 1); /* one at a time */
    assert_int_equal(next, node_ns(3));
    assert_int_equal(sim_event_next(image, 2, node_ns(2.5), &e, &next), 0);
    assert_int_equal(sim_event_next(image, 2, SIM_FOREVER, &e, &next), 3);
    assert_true(next == SIM_FOREVER);
    assert_int_equal(sim_event_next(image, UINT32_MAX, SIM_FOREVER, &e, &next), 0);
    assert_int_equal(sim_event_index_after(image, 0), 0);
    assert_int_equal(sim_event_index_after(image, node_ns(1)), 1);
    assert_int_equal(sim_event_index_after(image, node_ns(2.9)), 2);
    assert_int_equal(sim_event_index_after(image, SIM_FOREVER), 3);
    sim_image_close(image);
}

/* A reader that follows along sees each event once, in order, while others inject and the clock steps. */
static void a_follower_misses_none(void **state)
{
    (void)state;
    SimImage *image = node_of("h100-sxm-80gb", 1);
    node_op(image, 0.5,
            (SimOp){.type = SIM_OP_EVENT, .gpu = 0, .a = {1000}, .u = 4, .times = 50, .every_ns = SIM_NS / 4});
    sim_plan_build(image);
    uint64_t seed = 17, last_ns = 0;
    uint32_t cursor = 0, injected = 0, seen_live = 0, seen_train = 0;
    for (int i = 0; i < 400; i++) {
        switch (node_pick(&seed, 3)) {
        case 0:
            node_step(image, node_pick(&seed, 4) * 0.0625);
            break;
        case 1:
            node_do(image, (SimOp){.type = SIM_OP_EVENT, .gpu = 0, .a = {(int32_t)injected++}, .u = 4});
            break;
        default: {
            SimEvent e;
            for (uint32_t at; (at = sim_event_next(image, cursor, sim_clock_now(image), &e, NULL)); cursor = at) {
                assert_true(e.t_ns >= last_ns);
                last_ns = e.t_ns;
                if (e.data == 1000)
                    seen_train++;
                else
                    assert_int_equal(e.data, seen_live++);
            }
            assert_int_equal(seen_live, injected);
        }
        }
    }
    uint64_t now = sim_clock_now(image);
    uint64_t due = now < SIM_NS / 2 ? 0 : (now - SIM_NS / 2) / (SIM_NS / 4) + 1;
    SimEvent e;
    for (uint32_t at; (at = sim_event_next(image, cursor, now, &e, NULL)); cursor = at)
        seen_train += e.data == 1000;
    assert_int_equal(seen_train, due < 50 ? due : 50);
    assert_true(injected > 50);
    sim_image_close(image);
}

/* An op for later happens then; one whose time is over happens now. */
static void later_is_later(void **state)
{
    (void)state;
    SimImage *image = node_of("h100-sxm-80gb", 1);
    sim_plan_build(image);
    node_step(image, 10);
    SimOp op = {.type = SIM_OP_LOST, .gpu = 0, .t_ns = node_ns(12), .origin = SIM_FROM_INJECT};
    assert_int_equal(sim_op_apply(image, &op, NULL, 1, NULL), SIM_OK);
    assert_false(node_at(image, 0, 11.999)->cond.lost);
    assert_true(node_at(image, 0, 12)->cond.lost);
    op = (SimOp){.type = SIM_OP_RESET, .gpu = 0, .t_ns = node_ns(3), .origin = SIM_FROM_INJECT};
    assert_int_equal(sim_op_apply(image, &op, NULL, 1, NULL), SIM_OK);
    assert_int_equal(op.t_ns, node_ns(10));
    op = (SimOp){.type = SIM_OP_KMSG, .gpu = SIM_NONE, .t_ns = node_ns(20), .origin = SIM_FROM_INJECT};
    assert_int_equal(sim_op_apply(image, &op, "a line", 0, NULL), SIM_OK); /* not later: now */
    SimEvent e;
    assert_int_equal(sim_event_next(image, 0, node_ns(10), &e, NULL), 1);
    assert_string_equal(sim_text(image, e.text), "a line");
    assert_int_equal(e.type, 0);
    sim_image_close(image);
}

static void ecc_events_only_where_somebody_counts(void **state)
{
    (void)state;
    SimImage *image = node_of("h100-sxm-80gb", 1);
    SimOp error = {.type = SIM_OP_ECC, .gpu = 0, .a = {SIM_ECC_DRAM, 1, 2}};
    node_op(image, 1, error);
    node_op(image, 2, (SimOp){.type = SIM_OP_SET, .gpu = 0, .a = {SIM_KEY_ECC_PENDING}, .u = 0});
    node_op(image, 3, (SimOp){.type = SIM_OP_RESET, .gpu = 0});
    node_op(image, 4, error);
    sim_plan_build(image);
    assert_int_equal(image->event_count, 1);
    assert_int_equal(image->events[0].type, 2);
    assert_int_equal(image->events[0].data, 0);
    sim_image_close(image);
}

static void the_node_has_a_course_too(void **state)
{
    (void)state;
    SimImage *image = node_of("h100-sxm-80gb", 2);
    int32_t work = node_run(image, "train", 1);
    node_op(image, 2, (SimOp){.type = SIM_OP_HANG, .gpu = 1, .a = {4, 17, 3, 1}, .u = 5000});
    node_op(image, 3, (SimOp){.type = SIM_OP_HANG, .gpu = 1, .a = {4, 17, 3, 0}});
    node_op(image, 4, (SimOp){.type = SIM_OP_NODE, .gpu = SIM_NONE, .a = {SIM_NODE_FABRIC_MANAGER}, .u = 0});
    node_op(image, 5, (SimOp){.type = SIM_OP_NODE, .gpu = SIM_NONE, .a = {SIM_NODE_DRIVER}, .u = SIM_DRIVER_UNLOADED});
    node_op(image, 7, (SimOp){.type = SIM_OP_NODE, .gpu = SIM_NONE, .a = {SIM_NODE_DRIVER}, .u = SIM_DRIVER_LOADED});
    node_op(image, 6, (SimOp){.type = SIM_OP_WORK_START, .gpu = SIM_NONE, .a = {work}}); /* there is no driver */
    sim_plan_build(image);
    SimNodeSeg node;
    sim_node_at(image, node_ns(2.5), &node);
    assert_true(node.hang[4].used && node.hang[4].fn == 17 && node.hang[4].gpu == 1 && node.hang[4].after == 3);
    assert_true(node.key[SIM_NODE_FABRIC_MANAGER] == 1 && image->hang_any);
    sim_node_at(image, node_ns(3), &node);
    assert_false(node.hang[4].used);
    sim_node_at(image, node_ns(5), &node);
    assert_true(node.key[SIM_NODE_FABRIC_MANAGER] == 0 && node.key[SIM_NODE_DRIVER] == SIM_DRIVER_UNLOADED);
    assert_int_equal(node_at(image, 1, 4.9)->proc_count, 1);
    assert_int_equal(node_at(image, 1, 6.5)->proc_count, 0);
    double before = node_at(image, 1, 4.9)->energy_mj;
    assert_true(node_at(image, 1, 7.1)->energy_mj < before); /* counters start with the driver */
    sim_image_close(image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_order_of_time),
        cmocka_unit_test(trains_keep_their_order),
        cmocka_unit_test(next_tells_when),
        cmocka_unit_test(a_follower_misses_none),
        cmocka_unit_test(later_is_later),
        cmocka_unit_test(ecc_events_only_where_somebody_counts),
        cmocka_unit_test(the_node_has_a_course_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
