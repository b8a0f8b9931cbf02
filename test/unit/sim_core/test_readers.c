/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readers beside writers, in threads: each reading is of one plan. The writer keeps two works that are always both
 * there or both gone, and settings that are always equal, so that a mixture of two plans would show.
 */
#include "node.h"

#include <math.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

enum { READERS = 4, CHANGES = 1500 / TEST_SLOW };

static SimImage *shared;
static int32_t pair[2];
static _Atomic int stop;
static _Atomic uint64_t readings;

static const char *wrong_reading(const SimNow *now)
{
    double used = 0;
    for (uint32_t i = 0; i < now->proc_count; i++)
        used += now->proc[i].mem_mib;
    if (now->proc_count != 0 && now->proc_count != 2)
        return "half a pair";
    if (fabs(used - now->used_mib) > 1e-6)
        return "memory is not the sum of the processes";
    if (now->cond.set[SIM_KEY_LOCK_MEM_MIN] != now->cond.set[SIM_KEY_TEMP_ACOUSTIC])
        return "settings of two plans";
    if (!(now->watt > 0 && now->watt <= now->limit_w))
        return "power above the limit";
    if (now->t_ns < now->from_ns || now->until_ns <= now->from_ns || now->plan_seq & 1)
        return "no time";
    return NULL;
}

static void *read_on(void *arg)
{
    static __thread SimNow now;
    double last = 0;
    uint32_t events = 0, setting = 0;
    (void)arg;
    while (!atomic_load(&stop)) {
        uint64_t t = sim_clock_now(shared);
        sim_state_at(shared, 0, t, &now);
        const char *wrong = wrong_reading(&now);
        if (wrong)
            return (void *)(uintptr_t)wrong;
        if (now.cum[SIM_CH_CLOCK] < last)
            return (void *)(uintptr_t) "an integral fell";
        last = now.cum[SIM_CH_CLOCK];
        if (now.cond.set[SIM_KEY_WORKLOAD_PROFILES] < setting) /* an older segment shines through */
            return (void *)(uintptr_t) "a setting went back";
        setting = now.cond.set[SIM_KEY_WORKLOAD_PROFILES];
        const SimNow *mine = sim_state_now(shared, 0);
        if ((wrong = wrong_reading(mine)))
            return (void *)(uintptr_t)wrong;
        SimEvent e;
        uint32_t at = sim_event_next(shared, events, sim_clock_now(shared), &e, NULL);
        if (at && e.data != events)
            return (void *)(uintptr_t) "an event is missing";
        events = at ? at : events;
        SimNodeSeg node;
        sim_node_at(shared, t, &node);
        if (node.key[SIM_NODE_FABRIC_MANAGER] > 1)
            return (void *)(uintptr_t) "a node of two plans";
        atomic_fetch_add(&readings, 1);
    }
    return NULL;
}

static SimOp op_of(uint32_t i)
{
    switch (i % 4) {
    case 0:
        return (SimOp){.type = SIM_OP_EVENT, .gpu = 0, .u = 4};
    case 1:
        return (SimOp){.type = SIM_OP_NODE, .gpu = SIM_NONE, .a = {SIM_NODE_FABRIC_MANAGER}, .u = i / 4 % 2};
    default:
        return (SimOp){.type = SIM_OP_SET, .gpu = 0, .a = {SIM_KEY_POWER_LIMIT_MW}, .u = 60000 + 1000 * (i % 10)};
    }
}

/* Several ops that belong together take effect together: all at one time that has not come yet. */
static void write_pair(uint32_t i)
{
    uint64_t at = sim_clock_now(shared) + SIM_NS;
    SimOp ops[4] = {{.type = i % 2 ? SIM_OP_WORK_STOP : SIM_OP_WORK_START, .gpu = SIM_NONE, .a = {pair[0]}},
                    {.type = i % 2 ? SIM_OP_WORK_STOP : SIM_OP_WORK_START, .gpu = SIM_NONE, .a = {pair[1]}},
                    {.type = SIM_OP_SET, .gpu = 0, .a = {SIM_KEY_LOCK_MEM_MIN}, .u = i},
                    {.type = SIM_OP_SET, .gpu = 0, .a = {SIM_KEY_TEMP_ACOUSTIC}, .u = i}};
    for (int k = 0; k < 4; k++) {
        ops[k].t_ns = at;
        ops[k].origin = SIM_FROM_INJECT;
        assert_int_equal(sim_op_apply(shared, &ops[k], NULL, 1, NULL), SIM_OK);
    }
    node_step(shared, 1);
}

static void readings_are_of_one_plan(void **state)
{
    (void)state;
    pthread_t thread[READERS];
    shared = node_of("t4", 1);
    for (int i = 0; i < 2; i++)
        pair[i] =
            node_work(shared, (NodeWork){.kind = i ? "train" : "decode", .gpu = 0, .mig = SIM_NONE, .job = SIM_NONE});
    sim_plan_build(shared);
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, read_on, NULL), 0);
    uint32_t events = 0;
    for (uint32_t i = 0; i < CHANGES; i++) {
        if (i % 5 == 0)
            write_pair(i / 5);
        SimOp op = op_of(i);
        if (op.type == SIM_OP_EVENT)
            op.a[0] = (int32_t)events++;
        node_do(shared, op);
        /* one after the other at one instant: what is in force is planned anew under the readers */
        for (uint32_t k = 0; k < 3; k++) {
            nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL); /* lets readers begin before the writer does */
            node_do(shared, (SimOp){.type = SIM_OP_SET, .gpu = 0, .a = {SIM_KEY_WORKLOAD_PROFILES}, .u = 3 * i + k});
        }
        sim_clock_advance(shared, 3000000);
    }
    while (atomic_load(&readings) < READERS) /* on a busy machine readers may not have come to anything yet */
        node_step(shared, 0.001);
    atomic_store(&stop, 1);
    for (int i = 0; i < READERS; i++) {
        void *wrong;
        pthread_join(thread[i], &wrong);
        if (wrong)
            fail_msg("%s", (const char *)wrong);
    }
    assert_int_equal(shared->segs_dropped, 0);
    sim_image_close(shared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(readings_are_of_one_plan)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
