/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writers killed at any moment: readers and later writers go on, and the node is what its ops say. Each child applies
 * ops as fast as it can until it is killed; the parent reads meanwhile.
 */
#include "random_op.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sim/core/plan.h"
#include "sim/core/seq.h"

enum { KILLS = 200 / TEST_SLOW, KILLS_PER_NODE = 10 };

static void nap_ns(long ns)
{
    nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

/* Never returns. XIDs bring many ops with them, which must come all or not at all. */
static void write_on(SimImage *image, uint64_t seed)
{
    for (;;) {
        SimOp op = random_op(&seed);
        if (node_pick(&seed, 3) == 0)
            op = (SimOp){.type = SIM_OP_XID,
                         .gpu = (int32_t)node_pick(&seed, RANDOM_GPUS),
                         .a = {95, SIM_NONE, SIM_NONE, SIM_NONE}};
        op.origin = SIM_FROM_INJECT;
        sim_op_apply(image, &op, "some text", 0, NULL);
        sim_clock_advance(image, 1 + node_pick(&seed, 30000000));
    }
}

/* XIDs with consequences are whole: the counter before each, the kills, the settings and the lines behind it. */
static void assert_whole(const SimImage *image)
{
    for (uint32_t i = 0; i < image->op_count; i++) {
        const SimOp *op = &image->ops[i];
        if (op->type != SIM_OP_XID || op->origin == SIM_FROM_PLAN || op->a[0] != 95)
            continue;
        uint32_t n = 1;
        while (i + n < image->op_count && image->ops[i + n].origin == SIM_FROM_PLAN &&
               image->ops[i + n].type != SIM_OP_ECC)
            n++;
        uint32_t kills = 0;
        for (uint32_t w = 0; w < image->work_count && op->times <= 1; w++)
            kills += image->works[w].gpu == op->gpu;
        assert_int_equal(n, 1 + kills + 2 + 2); /* two settings, lines 45 and 154 */
        assert_true(i > 0 && image->ops[i - 1].type == SIM_OP_ECC && image->ops[i - 1].origin == SIM_FROM_PLAN);
    }
}

/* Planning everything anew shows the same node as before. */
static void assert_as_rebuilt(SimImage *image, uint64_t *seed)
{
    enum { LOOKS = 6 };
    static SimNow before[LOOKS], after;
    uint64_t t[LOOKS];
    uint32_t gpu[LOOKS], events = image->event_count;
    for (int i = 0; i < LOOKS; i++) {
        t[i] = i ? (uint64_t)(node_rand(seed) * (double)sim_clock_now(image)) : sim_clock_now(image);
        gpu[i] = node_pick(seed, RANDOM_GPUS);
        memset(&before[i], 0, sizeof before[i]);
        sim_state_at(image, gpu[i], t[i], &before[i]);
    }
    sim_plan_build(image);
    assert_int_equal(image->event_count, events);
    for (int i = 0; i < LOOKS; i++) {
        memset(&after, 0, sizeof after);
        sim_state_at(image, gpu[i], t[i], &after);
        before[i].plan_seq = after.plan_seq;
        assert_memory_equal(&before[i], &after, sizeof after);
    }
}

static void one_kill(SimImage *image, uint64_t *seed)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        write_on(image, *seed * 1000003);
    uint64_t before = sim_clock_now(image);
    static SimNow now;
    long nap = (long)node_pick(seed, 4000000);
    nap_ns(nap / 2);
    sim_state_at(image, node_pick(seed, RANDOM_GPUS), before, &now);
    nap_ns(nap / 2);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    /* a reader comes first half of the time, a writer the other half */
    if (node_pick(seed, 2)) {
        sim_state_at(image, 0, sim_clock_now(image), &now);
        assert_true(now.watt > 0);
        SimEvent event;
        sim_event_next(image, 0, sim_clock_now(image), &event, NULL);
    }
    assert_true(sim_clock_now(image) >= before);
    node_apply(image, (SimOp){.type = SIM_OP_EVENT, .gpu = 0, .u = 4});
    assert_false(image->plan_seq & 1);
    assert_as_rebuilt(image, seed);
}

static void killed_writers_do_no_harm(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (int n = 0; n < KILLS; n += KILLS_PER_NODE) {
        SimImage *image = random_node();
        sim_plan_build(image);
        node_step(image, 1);
        /* on a busy machine until a child did get on: each kill adds one op itself */
        for (uint32_t i = 0; (i < KILLS_PER_NODE || image->op_count <= i) && image->op_count < SIM_OP_MAX / 2; i++)
            one_kill(image, &seed);
        assert_whole(image);
        assert_int_equal(image->segs_dropped, 0);
        sim_image_close(image);
    }
}

typedef void (*Last)(SimImage *image);

/* A writer that takes the lock, does one thing more, and dies. */
static SimImage *die_after(Last last)
{
    SimImage *image = random_node();
    sim_plan_build(image);
    node_step(image, 1);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        plan_lock(image);
        last(image);
        _exit(0);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
    return image;
}

static void last_an_op(SimImage *image)
{
    sim_op_add(image, &(SimOp){.type = SIM_OP_LOST, .gpu = 0, .t_ns = SIM_NS, .origin = SIM_FROM_INJECT});
}

static void last_nothing_but_odd(SimImage *image)
{
    last_an_op(image);
    atomic_fetch_or(&image->plan_seq, 1);
}

static void last_half_a_clock(SimImage *image)
{
    atomic_fetch_or(&image->clock_turn, 1);
}

/* An op that was written counts, whether its planning had begun or not. */
static void written_ops_count(void **state)
{
    (void)state;
    static const Last lasts[] = {last_an_op, last_nothing_but_odd};
    static SimNow now;
    for (int i = 0; i < 4; i++) {
        SimImage *image = die_after(lasts[i % 2]);
        if (i >= 2) { /* a writer is the first to notice; a reader notices only a plan that is not whole */
            node_step(image, 1);
            node_do(image, (SimOp){.type = SIM_OP_EVENT, .gpu = 1, .u = 4});
        }
        sim_state_at(image, 0, SIM_NS, &now);
        assert_int_equal(now.cond.lost, i != 0);
        sim_image_close(image);
    }
}

static void the_clock_goes_on(void **state)
{
    (void)state;
    SimImage *image = die_after(last_half_a_clock);
    assert_int_equal(sim_clock_now(image), SIM_NS);
    node_step(image, 1);
    assert_int_equal(sim_clock_now(image), 2 * SIM_NS);
    sim_image_close(image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_writers_do_no_harm),
        cmocka_unit_test(written_ops_count),
        cmocka_unit_test(the_clock_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
