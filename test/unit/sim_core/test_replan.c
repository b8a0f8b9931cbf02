/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Planning on from the present must give what planning everything at once gives, to the last bit: else a recovery after
 * a writer's death, or a second look at the past, would show another node.
 */
#include "random_op.h"

#include <string.h>

enum { ROUNDS = 60 / TEST_SLOW, OPS = 40, LOOKS = 60 };

static void state_bytes(SimImage *image, uint32_t gpu, uint64_t t_ns, SimNow *now)
{
    memset(now, 0, sizeof *now);
    sim_state_at(image, gpu, t_ns, now);
    now->plan_seq = 0;
}

static void compare_states(SimImage *a, SimImage *b, uint64_t *seed, uint64_t end_ns, uint64_t round)
{
    static SimNow x, y;
    for (int i = 0; i < LOOKS; i++) {
        uint64_t t = (uint64_t)(node_rand(seed) * (double)end_ns);
        for (uint32_t g = 0; g < a->gpu_count; g++) {
            state_bytes(a, g, t, &x);
            state_bytes(b, g, t, &y);
            for (size_t k = 0; k < sizeof x; k++)
                if (((uint8_t *)&x)[k] != ((uint8_t *)&y)[k])
                    fail_msg("round %llu: gpu %u at %llu ns differs in byte %zu (%g K, %g K)",
                             (unsigned long long)round, g, (unsigned long long)t, k, x.temp_c, y.temp_c);
        }
    }
}

static void compare_events(SimImage *a, SimImage *b)
{
    assert_int_equal(a->event_count, b->event_count);
    for (uint32_t i = 0; i < a->event_count; i++)
        assert_memory_equal(&a->events[i], &b->events[i], sizeof a->events[i]);
    assert_int_equal(a->node_seg_count, b->node_seg_count);
    for (uint32_t i = 0; i < a->node_seg_count; i++)
        assert_memory_equal(&a->node_segs[i], &b->node_segs[i], sizeof a->node_segs[i]);
}

/* A node that gets its ops one by one while time goes by. */
static SimImage *play_live(uint64_t *seed)
{
    SimImage *image = random_node();
    sim_plan_build(image);
    for (int i = 0; i < OPS; i++) {
        uint32_t how = node_pick(seed, 10);
        if (how >= 4) /* else at the same instant as the one before */
            node_step(image, how == 9 ? 0.02 * node_pick(seed, 30) : node_rand(seed) * 3);
        SimOp op = random_op(seed);
        op.origin = SIM_FROM_INJECT;
        op.t_ns = sim_clock_now(image) + node_ns(2 * node_rand(seed));
        sim_op_apply(image, &op, NULL, node_pick(seed, 6) == 0, NULL); /* refused ones leave nothing */
    }
    return image;
}

/* The same ops, known from the start. */
static SimImage *play_at_once(const SimImage *live)
{
    SimImage *image = random_node();
    for (uint32_t i = 0; i < live->op_count; i++)
        if (live->ops[i].origin != SIM_FROM_PLAN)
            assert_int_equal(sim_op_add(image, &live->ops[i]), 0);
    sim_plan_build(image);
    return image;
}

static void on_from_now_equals_at_once(void **state)
{
    (void)state;
    uint64_t seed = 12345;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        SimImage *live = play_live(&seed), *once = play_at_once(live);
        assert_int_equal(live->op_count, once->op_count);
        assert_int_equal(live->segs_dropped, 0);
        compare_events(live, once);
        compare_states(live, once, &seed, sim_clock_now(live) + 30 * SIM_NS, round);
        sim_image_close(live);
        sim_image_close(once);
    }
}

/* What has been seen stays: an op at t changes nothing before t, and events before it keep their places. */
static void the_past_stays(void **state)
{
    (void)state;
    uint64_t seed = 777;
    static SimNow before[20], after;
    for (int round = 0; round < ROUNDS / 4; round++) {
        SimImage *image = play_live(&seed);
        uint64_t now = sim_clock_now(image), t[20];
        for (int i = 0; i < 20; i++) {
            t[i] = (uint64_t)(node_rand(&seed) * (double)now);
            state_bytes(image, (uint32_t)i % RANDOM_GPUS, t[i], &before[i]);
        }
        uint32_t seen = sim_event_index_after(image, now);
        SimEvent last = {0}, again;
        if (seen)
            last = image->events[seen - 1];
        for (int i = 0; i < 5; i++)
            node_apply(image, random_op(&seed));
        for (int i = 0; i < 20; i++) {
            state_bytes(image, (uint32_t)i % RANDOM_GPUS, t[i], &after);
            if (before[i].until_ns > now) /* its tick is not over yet */
                continue;
            assert_memory_equal(&before[i], &after, sizeof after);
        }
        if (seen) {
            assert_int_equal(sim_event_next(image, seen - 1, now, &again, NULL), seen);
            assert_memory_equal(&last, &again, sizeof last);
        }
        sim_image_close(image);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_from_now_equals_at_once),
        cmocka_unit_test(the_past_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
