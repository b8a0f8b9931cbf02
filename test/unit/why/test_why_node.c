/* SPDX-License-Identifier: Apache-2.0 */
/* engine/why on a node: what it gathers of store and processes, over time, and when it decides again. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/duration.h"
#include "engine/why/why.h"
#include "model/facts.h"

enum { GPUS = 4, EVERY = 5 };

typedef struct Rig {
    Node node;
    NodeGpu gpus[GPUS];
    NodeProcess processes[GPUS][2];
    ProcessOwner owners[2 * GPUS];
    Snapshot snapshot;
    Store *store;
    Whys *whys;
    uint32_t every;
} Rig;

static Rig *rig;

static int set_up(void **state)
{
    static Rig one;

    (void)state;
    rig = &one;
    memset(rig, 0, sizeof *rig);
    rig->every = 1;
    rig->node = (Node){.time_ns = 1000 * NS_PER_S, .gpus = rig->gpus, .gpu_count = GPUS};
    rig->snapshot = (Snapshot){.node = &rig->node, .processes = {.at = rig->owners, .len = ARRAY_LEN(rig->owners)}};
    for (uint32_t i = 0; i < GPUS; i++) {
        NodeGpu *gpu = &rig->gpus[i];

        reading_init(&gpu->reading, DEVICE_GPU);
        gpu->reading.device.index = i;
        snprintf(gpu->reading.device.uuid, sizeof gpu->reading.device.uuid, "GPU-%u", i);
        gpu->state = GPU_UP;
        gpu->processes = rig->processes[i];
        gpu->process_count = 1;
        gpu->activity = (Activity){.word = ACTIVITY_WORKING, .basis = ACTIVITY_BASIS_SM_ACTIVE};
        for (uint32_t k = 0; k < 2; k++)
            rig->processes[i][k] = (NodeProcess){.pid = 100 + 2 * i + k,
                                                 .sm_percent = 50,
                                                 .gpu_instance = DEVICE_NO_NUMBER,
                                                 .compute_instance = DEVICE_NO_NUMBER};
    }
    for (uint32_t i = 0; i < ARRAY_LEN(rig->owners); i++) {
        process_owner_init(&rig->owners[i], 100 + i);
        rig->owners[i].start_ns = 1 + i;
        rig->owners[i].state = 'R';
        snprintf(rig->owners[i].job, sizeof rig->owners[i].job, "4711.0");
    }
    rig->store = store_new(512);
    rig->whys = whys_new();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    whys_free(rig->whys);
    store_free(rig->store);
    return 0;
}

static void put(NodeGpu *gpu, MetricId id, double value)
{
    Sample *sample = &gpu->reading.sample[id];

    if (metric_get(id)->value == METRIC_INT64)
        sample_set_int64(sample, rig->node.time_ns, (int64_t)value);
    else
        sample_set_double(sample, rig->node.time_ns, value);
}

/* Seconds of training on all GPUs; processes are looked at every ten, with `cores` used by each. */
static void run(int seconds, double sm, double tensor, double cores)
{
    for (int i = 0; i < seconds; i++) {
        rig->node.time_ns += NS_PER_S;
        for (size_t k = 0; k < GPUS; k++) {
            NodeGpu *gpu = &rig->gpus[k];

            put(gpu, METRIC_PROF_SM_ACTIVE, sm);
            put(gpu, METRIC_PROF_PIPE_TENSOR_ACTIVE, tensor);
            put(gpu, METRIC_GPU_UTIL, sm > 0 ? 100 : 0);
            if (gpu->activity.window_s < ACTIVITY_WINDOW_S)
                gpu->activity.window_s++;
            gpu->activity.sm_active = sm;
        }
        for (size_t k = 0; k < ARRAY_LEN(rig->owners); k++)
            rig->owners[k].cpu_ns += (uint64_t)(cores * NS_PER_S);
        if (rig->node.time_ns / NS_PER_S % 10 == 0)
            rig->snapshot.processes.time_ns = rig->node.time_ns;
        store_add_node(rig->store, &rig->node);
        whys_update(rig->whys, &rig->snapshot, rig->store, rig->every);
    }
}

static const WhyVerdict *first(size_t gpu)
{
    return &rig->gpus[gpu].verdicts[0].verdicts[0];
}

static double evidence(const WhyVerdict *v, const char *counter)
{
    for (uint32_t i = 0; i < v->evidence_count; i++)
        if (strcmp(v->evidence[i].counter, counter) == 0)
            return v->evidence[i].value;
    return NAN;
}

static void numbers_come_from_the_store(void **state)
{
    (void)state;
    run(60, .9, .5, 1);
    assert_int_equal(first(0)->cause, WHY_TENSOR_CORES);
    assert_true(fabs(evidence(first(0), "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE") - .5) < .01);
    assert_true(fabs(first(0)->share - .9) < .01);
}

/* Every fifth tick, each GPU in its turn; at once when the activity is another one. */
static void a_device_is_decided_again_in_its_turn(void **state)
{
    int changes = 0;
    double before;

    (void)state;
    rig->every = EVERY;
    run(1, .9, .5, 1);
    assert_int_equal(rig->gpus[3].verdicts[0].count, 1); /* the first time at once */
    for (int i = 0; i < 3 * EVERY; i++) {
        before = evidence(first(1), "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE");
        run(1, .9, .5 - .01 * i, 1);
        changes += evidence(first(1), "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE") < before;
    }
    assert_int_equal(changes, 3);
    rig->gpus[1].activity.word = ACTIVITY_FREE;
    run(1, 0, 0, 0);
    assert_int_equal(first(1)->cause, WHY_FREE);
}

static void processor_time_is_that_of_the_last_looks(void **state)
{
    (void)state;
    for (size_t i = 0; i < GPUS; i++)
        rig->gpus[i].activity = (Activity){.word = ACTIVITY_WAITING, .cause = ACTIVITY_CAUSE_INPUT};
    run(9, .1, .05, .5);
    assert_true(isnan(evidence(first(0), "/proc/PID/stat"))); /* one look is no rate */
    run(30, .1, .05, .5);
    assert_true(fabs(evidence(first(0), "/proc/PID/stat") - .5) < .01);
    run(40, .1, .05, 1);
    assert_true(fabs(evidence(first(0), "/proc/PID/stat") - 1) < .01);
    rig->owners[0].start_ns = 99; /* the pid is another process's: its time is not counted on */
    rig->owners[0].cpu_ns = 0;
    run(2, .1, .05, 1);
    assert_false(evidence(first(0), "/proc/PID/stat") > 1.1);
}

/* A state counts from when it was first seen. */
static void a_stopped_process_is_stuck_after_a_while(void **state)
{
    (void)state;
    rig->gpus[2].activity = (Activity){.word = ACTIVITY_IDLE_HELD};
    run(20, 0, 0, 0);
    assert_int_equal(first(2)->cause, WHY_IDLE_HELD);
    rig->owners[4].state = 'T';
    run(30, 0, 0, 0);
    assert_int_equal(first(2)->cause, WHY_IDLE_HELD);
    run(20, 0, 0, 0);
    assert_int_equal(first(2)->cause, WHY_STUCK);
    rig->owners[4].state = 'S';
    run(10, 0, 0, 0);
    assert_int_equal(first(2)->cause, WHY_IDLE_HELD);
}

/* Processes that load for it, what it writes, and how long the node's tasks wait for storage. */
static void the_host_says_why_it_starves(void **state)
{
    Facts facts = {.pressure_known = true, .io_pressure = .6, .cpu_pressure = .1};

    (void)state;
    rig->gpus[0].activity = (Activity){.word = ACTIVITY_WAITING, .cause = ACTIVITY_CAUSE_INPUT};
    rig->owners[0].children = 4;
    for (int i = 0; i < 30; i++) {
        rig->owners[0].child_cpu_ns += (uint64_t)(3.8 * NS_PER_S);
        run(1, .1, .05, .5);
    }
    assert_non_null(strstr(first(0)->text, "its 4 child processes (loaders) use all of their cores"));
    assert_int_equal(first(0)->confidence, WHY_HIGH);
    run(40, .1, .05, .5);
    assert_null(strstr(first(0)->text, "loaders"));
    assert_int_equal(first(0)->confidence, WHY_MEDIUM);
    rig->snapshot.facts = &facts;
    run(1, .1, .05, .5);
    assert_non_null(strstr(first(0)->text, "tasks wait for I/O 60 % of the time"));
    facts.pressure_known = false;
    run(1, .1, .05, .5);
    assert_null(strstr(first(0)->text, "I/O"));
    rig->owners[0].written_bytes = 0;
    run(20, .1, .05, .5);
    for (int i = 0; i < 20; i++) {
        rig->owners[0].written_bytes += 500000000;
        run(1, 0, 0, .5);
    }
    assert_int_equal(first(0)->cause, WHY_CHECKPOINT);
}

static void two_owners_are_neighbours(void **state)
{
    (void)state;
    rig->gpus[0].process_count = 2;
    run(30, .9, .5, 1);
    assert_int_equal(first(0)->cause, WHY_TENSOR_CORES); /* of one job */
    snprintf(rig->owners[1].job, sizeof rig->owners[1].job, "4712.0");
    run(10, .9, .5, 1);
    assert_int_equal(first(0)->cause, WHY_NEIGHBOUR);
    rig->processes[0][1].sm_percent = 0; /* a rest of a second does not end it, a minute does */
    run(1, .9, .5, 1);
    assert_int_equal(first(0)->cause, WHY_NEIGHBOUR);
    run(90, .9, .5, 1);
    assert_int_equal(first(0)->cause, WHY_TENSOR_CORES);
}

static void memory_that_grows_is_told_while_there_is_time(void **state)
{
    double used = 60000;

    (void)state;
    for (int i = 0; i < 12 * 60; i++) {
        put(&rig->gpus[0], METRIC_FB_TOTAL, 81559);
        put(&rig->gpus[0], METRIC_FB_USED, used);
        used += 15;
        run(1, .9, .5, 1);
        if (i < 6 * 60)
            assert_int_equal(first(0)->cause, WHY_TENSOR_CORES);
    }
    assert_int_equal(first(0)->cause, WHY_MEMORY_FULL);
    assert_true(evidence(first(0), "DCGM_FI_DEV_FB_USED") > 70e9);
    for (int i = 0; i < 3 * 60; i++) { /* it gives back: it does not only grow */
        put(&rig->gpus[0], METRIC_FB_USED, used - 5000);
        run(1, .9, .5, 1);
    }
    assert_int_equal(first(0)->cause, WHY_TENSOR_CORES);
}

static void the_late_rank_is_named(void **state)
{
    (void)state;
    run(60, .72, .4, 1);
    assert_int_equal(rig->gpus[1].verdicts[0].count, 1);
    rig->gpus[3].activity.sm_active = .95;
    whys_update(rig->whys, &rig->snapshot, rig->store, 1);
    assert_int_equal(rig->gpus[1].verdicts[0].count, 2);
    assert_int_equal(rig->gpus[1].verdicts[0].verdicts[1].cause, WHY_OTHER_RANK);
    assert_non_null(strstr(rig->gpus[1].verdicts[0].verdicts[1].text, "GPU 3"));
    snprintf(rig->owners[6].job, sizeof rig->owners[6].job, "4712.0"); /* another job's GPU is not waited for */
    whys_update(rig->whys, &rig->snapshot, rig->store, 1);
    assert_int_equal(rig->gpus[1].verdicts[0].count, 1);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    static const struct CMUnitTest tests[] = {
        TEST(numbers_come_from_the_store),
        TEST(a_device_is_decided_again_in_its_turn),
        TEST(processor_time_is_that_of_the_last_looks),
        TEST(a_stopped_process_is_stuck_after_a_while),
        TEST(the_host_says_why_it_starves),
        TEST(two_owners_are_neighbours),
        TEST(memory_that_grows_is_told_while_there_is_time),
        TEST(the_late_rank_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
