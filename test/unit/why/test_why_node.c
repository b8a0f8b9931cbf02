/* SPDX-License-Identifier: Apache-2.0 */
/* engine/why on a node: what it gathers of store and processes, over time, and when it decides again. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../set_metric.h"
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
    set_metric(&gpu->reading, id, rig->node.time_ns, value);
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
    snprintf(rig->owners[1].job, sizeof rig->owners[1].job, "4711.1");
    run(10, .9, .5, 1);
    assert_int_equal(first(0)->cause, WHY_TENSOR_CORES); /* two steps of it */
    snprintf(rig->owners[1].job, sizeof rig->owners[1].job, "4712.0");
    run(10, .9, .5, 1);
    assert_int_equal(first(0)->cause, WHY_NEIGHBOUR);
    rig->processes[0][1].sm_percent = 0; /* a rest of a second does not end it, a minute does */
    run(1, .9, .5, 1);
    assert_int_equal(first(0)->cause, WHY_NEIGHBOUR);
    run(90, .9, .5, 1);
    assert_int_equal(first(0)->cause, WHY_TENSOR_CORES);
}

/* Of one pod by its UID: not of another namespace's pod with the same name. */
static void pods_of_one_name_are_two(void **state)
{
    (void)state;
    rig->gpus[0].process_count = 2;
    for (size_t i = 0; i < ARRAY_LEN(rig->owners); i++) {
        ProcessOwner *owner = &rig->owners[i];

        owner->job[0] = '\0';
        snprintf(owner->pod, sizeof owner->pod, "chat-0");
        snprintf(owner->namespace, sizeof owner->namespace, i % 2 == 0 ? "serving" : "research");
        snprintf(owner->pod_uid, sizeof owner->pod_uid, i % 2 == 0 ? "0a" : "1b");
    }
    run(60, .72, .4, 1);
    assert_int_equal(first(0)->cause, WHY_NEIGHBOUR);
    assert_non_null(strstr(first(0)->text, "of serving/chat-0 takes"));
    assert_non_null(strstr(first(0)->text, "of research/chat-0"));
    snprintf(rig->owners[2].pod_uid, sizeof rig->owners[2].pod_uid, "2c"); /* the GPU 1 is another pod's alone */
    rig->gpus[0].activity.sm_active = .95;
    whys_update(rig->whys, &rig->snapshot, rig->store, 1);
    assert_int_equal(rig->gpus[1].verdicts[0].count, 1);
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

/* Those that wait for the late rank are counted, with the speed that it leaves them. */
static void the_late_rank_knows_who_waits(void **state)
{
    (void)state;
    run(60, .72, .4, 1);
    assert_int_equal(rig->gpus[3].activity.waiters, 0);
    for (size_t i = 0; i < 3; i++)
        rig->gpus[i].activity.sm_active = .36;
    whys_update(rig->whys, &rig->snapshot, rig->store, 1);
    assert_int_equal(rig->gpus[3].activity.waiters, GPUS - 1);
    assert_true(fabs(rig->gpus[3].activity.waiters_speed - .5) < 1e-3);
    assert_int_equal(rig->gpus[0].activity.waiters, 0);
}

/* What it used before it was first seen is not its rate; what cannot be read is not written. */
static void one_look_is_no_rate(void **state)
{
    (void)state;
    rig->gpus[0].activity = (Activity){.word = ACTIVITY_WAITING, .cause = ACTIVITY_CAUSE_INPUT};
    rig->owners[0].cpu_ns = 5000 * NS_PER_S;
    rig->owners[0].written_bytes = 1000000000000;
    run(10, 0, 0, 0);
    assert_true(isnan(evidence(first(0), "/proc/PID/stat")));
    run(10, 0, 0, 0);
    assert_true(evidence(first(0), "/proc/PID/stat") == 0);
    assert_int_equal(first(0)->cause, WHY_INPUT); /* no checkpoint: it wrote long ago */
    rig->owners[0].written_bytes = UINT64_MAX;
    run(30, 0, 0, 0);
    assert_int_equal(first(0)->cause, WHY_INPUT);
    rig->owners[0].written_bytes = 0; /* it can be read from now on */
    run(10, 0, 0, 0);
    assert_int_equal(first(0)->cause, WHY_INPUT);
}

/* What one process takes is that process's. */
static void neighbours_have_their_own_shares(void **state)
{
    (void)state;
    rig->gpus[0].process_count = 2;
    rig->processes[0][0].sm_percent = 60;
    rig->processes[0][1].sm_percent = 20;
    snprintf(rig->owners[1].job, sizeof rig->owners[1].job, "4712.0");
    run(10, .9, .5, 1);
    assert_int_equal(first(0)->cause, WHY_NEIGHBOUR);
    assert_non_null(strstr(first(0)->text, "process 100 of 4711 takes 60 % and process 101 of 4712 20 %"));
    rig->processes[0][1].sm_percent = UINT8_MAX; /* no sample: what it took before */
    run(60, .9, .5, 1);
    assert_non_null(strstr(first(0)->text, "process 101 of 4712 20 %"));
    rig->processes[0][0].sm_percent = 30; /* half of the way in about 20 seconds */
    run(20, .9, .5, 1);
    assert_in_range((int)round(100 * evidence(first(0), "nvmlDeviceGetProcessUtilization")), 43, 47);
}

/* A step up is a program that begins, not a leak, and what gives back does not only grow; a leak is told with its rate.
 */
static void memory_that_is_taken_at_once_does_not_grow(void **state)
{
    (void)state;
    for (int i = 0; i < 15 * 60; i++) {
        put(&rig->gpus[0], METRIC_FB_TOTAL, 81559);
        put(&rig->gpus[0], METRIC_FB_USED, i < 10 * 60 ? 20000 : 75000);
        put(&rig->gpus[1], METRIC_FB_TOTAL, 81559);
        put(&rig->gpus[1], METRIC_FB_USED, 50000 + 30 * i);
        put(&rig->gpus[2], METRIC_FB_TOTAL, 81559);
        put(&rig->gpus[2], METRIC_FB_USED, 50000 + 30 * i - (i / 60 == 10 ? 20000 : 0));
        run(1, .9, .5, 1);
        assert_int_equal(first(0)->cause, WHY_TENSOR_CORES);
    }
    assert_int_equal(first(1)->cause, WHY_MEMORY_FULL);
    assert_int_equal(first(2)->cause, WHY_TENSOR_CORES);
    assert_int_equal(first(1)->evidence_count, 3);
    assert_string_equal(first(1)->evidence[2].label, "growth");
    assert_true(fabs(first(1)->evidence[2].value / 1048576 - 30) < 3); /* the first and last minute are not whole */
}

static struct {
    Reading readings[2];
    Activity activities[2];
} slices;

/* Splits the first GPU into two instances with a process each, of which nothing is known yet. */
static NodeGpu *split_gpu(void)
{
    NodeGpu *gpu = &rig->gpus[0];

    for (uint32_t k = 0; k < 2; k++) {
        Device *device = &slices.readings[k].device;

        reading_init(&slices.readings[k], DEVICE_COMPUTE_INSTANCE);
        device->gpu_instance = k + 1;
        device->compute_instance = 0;
        snprintf(device->parent_uuid, sizeof device->parent_uuid, "GPU-0");
        rig->processes[0][k].gpu_instance = k + 1;
        rig->processes[0][k].compute_instance = 0;
    }
    gpu->process_count = gpu->instance_count = 2;
    gpu->instances = slices.readings;
    gpu->instance_activity = slices.activities;
    return gpu;
}

/* Work at the clocks of the board; nothing of a GPU that rests, and no old number. */
static void the_roof_is_of_the_store(void **state)
{
    const Roof *roof;

    (void)state;
    for (int i = 0; i < 20; i++) {
        NodeGpu *gpu = &rig->gpus[0];

        snprintf(gpu->reading.device.name, sizeof gpu->reading.device.name, "NVIDIA H100 80GB HBM3");
        rig->node.time_ns += NS_PER_S; /* as run() will */
        put(gpu, METRIC_SM_CLOCK, 1500);
        put(gpu, METRIC_MEM_CLOCK, 2619);
        put(gpu, METRIC_MEMORY_BUS_WIDTH, 5120);
        put(gpu, METRIC_PROF_DRAM_ACTIVE, .4);
        rig->node.time_ns -= NS_PER_S;
        run(1, .9, .5, 1);
    }
    roof = &rig->gpus[0].verdicts->roof;
    assert_int_equal(roof->window_s, 20);
    assert_true(fabs(roof->flops - .5 * 132 * 4096 * 1.5e9) < 1e12);
    assert_true(fabs(roof->bytes - .4 * 3352.3e9) < 1e10);
    assert_true(isnan(rig->gpus[1].verdicts->roof.flops)); /* no clock, and no name */
    assert_non_null(strstr(rig->gpus[1].verdicts->roof.absent, absences[ABSENCE_NOT_YET].text));
    reading_lose(&rig->gpus[0].reading, rig->node.time_ns, ABSENCE_TIMED_OUT);
    run(6, .9, .5, 1); /* clocks and memory activity come no more */
    assert_true(isnan(roof->flops) && isnan(roof->bytes));
    assert_non_null(strstr(roof->absent, absences[ABSENCE_TIMED_OUT].text));
    rig->gpus[0].activity.word = ACTIVITY_IDLE_HELD;
    run(1, .9, .5, 1);
    assert_string_equal(roof->text, "");
}

/* Of a slice by its part of the board, at the board's clock. */
static void the_roof_of_a_slice_is_its_part(void **state)
{
    NodeGpu *gpu = split_gpu();

    (void)state;
    slices.activities[0] = (Activity){.word = ACTIVITY_WORKING, .window_s = 20};
    snprintf(gpu->reading.device.name, sizeof gpu->reading.device.name, "NVIDIA H100 80GB HBM3");
    snprintf(slices.readings[0].profile, sizeof slices.readings[0].profile, "3g.40gb");
    for (int i = 0; i < 20; i++) {
        const uint64_t now = rig->node.time_ns + NS_PER_S;

        set_metric(&gpu->reading, METRIC_SM_CLOCK, now, 1500);
        set_metric(&gpu->reading, METRIC_FB_TOTAL, now, 81559);
        set_metric(&slices.readings[0], METRIC_FB_TOTAL, now, 40448);
        set_metric(&slices.readings[0], METRIC_PROF_PIPE_TENSOR_ACTIVE, now, .5);
        set_metric(&slices.readings[0], METRIC_PROF_DRAM_ACTIVE, now, .4);
        run(1, .9, .5, 1);
    }
    assert_true(fabs(gpu->instance_verdicts[0].roof.flops - .5 * 60 * 4096 * 1.5e9) < 1e12);
    assert_true(fabs(gpu->instance_verdicts[0].roof.bytes - .2 * 3352e9) < 1e10);
}

/* A slice is decided by its own readings, activity and processes; the GPU's others are not in it. */
static void a_slice_has_a_verdict_of_its_own(void **state)
{
    NodeGpu *gpu = split_gpu();

    (void)state;
    slices.activities[0] = (Activity){.word = ACTIVITY_WORKING, .window_s = 60};
    slices.activities[1] = (Activity){.word = ACTIVITY_IDLE_HELD, .window_s = 60};
    for (uint32_t k = 0; k < 2; k++)
        for (int i = 0; i < 60; i++) {
            sample_set_double(&slices.readings[0].sample[METRIC_PROF_SM_ACTIVE], rig->node.time_ns + NS_PER_S, .8);
            sample_set_double(&slices.readings[0].sample[METRIC_PROF_PIPE_TENSOR_ACTIVE], rig->node.time_ns + NS_PER_S,
                              .4);
            sample_set_double(&slices.readings[1].sample[METRIC_PROF_SM_ACTIVE], rig->node.time_ns + NS_PER_S, 0);
            rig->owners[1].state = k == 0 ? 'R' : 'D'; /* the process of the second slice */
            run(1, .9, .5, 1);
            assert_int_equal(gpu->instance_verdicts[0].verdicts[0].cause, WHY_TENSOR_CORES);
        }
    assert_true(fabs(evidence(&gpu->instance_verdicts[0].verdicts[0], "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE") - .4) < .01);
    assert_int_equal(gpu->instance_verdicts[1].verdicts[0].cause, WHY_STUCK);
    assert_non_null(strstr(gpu->instance_verdicts[1].verdicts[0].text, "process 101"));
    rig->processes[0][1].compute_instance = 1; /* of another slice of the same GPU instance */
    run(1, .9, .5, 1);
    assert_int_equal(gpu->instance_verdicts[1].verdicts[0].cause, WHY_IDLE_HELD);
    rig->processes[0][1].compute_instance = DEVICE_NO_NUMBER; /* of the GPU instance, no more is known */
    run(1, .9, .5, 1);
    assert_int_equal(gpu->instance_verdicts[1].verdicts[0].cause, WHY_STUCK);
    gpu->instance_activity = NULL;
    run(1, .9, .5, 1);
    assert_int_equal(gpu->instance_verdicts[1].verdicts[0].cause, WHY_UNKNOWN);
    gpu->instance_count = 1; /* another layout */
    run(1, .9, .5, 1);
    assert_int_equal(gpu->instance_verdicts[0].verdicts[0].cause, WHY_UNKNOWN);
}

/* Stalls are followed beyond the window: when they begin, how long they are and what is written in them. */
static void checkpoints_are_found_by_their_rhythm(void **state)
{
    const Why *why = NULL;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rig->owners); i++)
        rig->owners[i].written_bytes = 0;
    run(70, .9, .5, 1);
    for (int n = 0; n < 3; n++) {
        run(10, 0, 0, 1);
        rig->owners[0].written_bytes += 2000 * 1000 * 1000;
        run(30, 0, 0, 1);
        rig->owners[0].written_bytes += 1000;
        run(260, .9, .5, 1);
        why = rig->gpus[0].verdicts;
        assert_int_equal(why->verdicts[0].cause, WHY_TENSOR_CORES);
        assert_int_equal(why->count, n == 2 ? 2 : 1);
    }
    assert_int_equal(why->verdicts[1].cause, WHY_CHECKPOINT);
    assert_non_null(strstr(why->verdicts[1].text, "every 5 min for 40 s while its program writes 2.0 GB: 13.3 % of"));
    assert_int_equal(rig->gpus[1].verdicts->count, 1); /* it stalls too, and its program writes nothing */
    rig->owners[0].start_ns++;                         /* another program with this pid */
    run(10, .9, .5, 1);
    assert_int_equal(rig->gpus[0].verdicts->count, 1);
}

/* Rates of adapters are of the last half minute to minute, and begin anew with counters that fall. */
static void adapters_are_followed_from_look_to_look(void **state)
{
    static Facts facts;
    NodeGpu *gpu = &rig->gpus[0];

    (void)state;
    memset(&facts, 0, sizeof facts);
    facts.adapter_count = 1;
    facts.adapters[0] = (FactsAdapter){.name = "mlx5_0", .link = 50e9, .sent_bytes = 1000, .received_bytes = 1000};
    rig->snapshot.facts = &facts;
    gpu->activity = (Activity){.word = ACTIVITY_WAITING, .cause = ACTIVITY_CAUSE_COLLECTIVE};
    for (int i = 0; i < 100; i++) {
        put(gpu, METRIC_PROF_PIPE_TENSOR_ACTIVE, 0);
        facts.adapters[0].sent_bytes += UINT64_C(40000000000);
        if (i % 10 == 0)
            facts.time_ns = rig->node.time_ns + NS_PER_S;
        run(1, .1, 0, 1);
        assert_int_equal(first(0)->cause, i < 10 ? WHY_COLLECTIVE : WHY_NETWORK);
    }
    assert_non_null(strstr(first(0)->text, "adapter mlx5_0 carries 8"));
    facts.adapters[0].sent_bytes = 0; /* the adapter was reset */
    facts.time_ns = rig->node.time_ns;
    run(1, .1, 0, 1);
    assert_int_equal(first(0)->cause, WHY_COLLECTIVE);
    for (int i = 0; i < 70; i++) { /* and it carries nothing from now on */
        facts.time_ns = rig->node.time_ns + NS_PER_S;
        run(1, .1, 0, 1);
        assert_int_equal(first(0)->cause, WHY_COLLECTIVE);
    }
}

/* The board's power and clock, and who has its other instance at work. */
static void a_slice_is_slowed_by_its_board(void **state)
{
    NodeGpu *gpu = split_gpu();

    (void)state;
    for (uint32_t k = 0; k < 2; k++) {
        snprintf(slices.readings[k].profile, sizeof slices.readings[k].profile, k == 0 ? "1g.10gb" : "4g.40gb");
        slices.activities[k] = (Activity){.word = ACTIVITY_WORKING, .window_s = 60, .sm_active = .9};
    }
    snprintf(rig->owners[1].job, sizeof rig->owners[1].job, "9000.0");
    for (int i = 0; i < 70; i++) {
        for (size_t k = 0; k < 2; k++) {
            sample_set_double(&slices.readings[k].sample[METRIC_PROF_SM_ACTIVE], rig->node.time_ns + NS_PER_S, .9);
            sample_set_double(&slices.readings[k].sample[METRIC_PROF_PIPE_TENSOR_ACTIVE], rig->node.time_ns + NS_PER_S,
                              .4);
        }
        put(gpu, METRIC_SM_CLOCK, 1200);
        put(gpu, METRIC_MAX_SM_CLOCK, 1980);
        put(gpu, METRIC_CLOCKS_EVENT_REASONS, 4);
        put(gpu, METRIC_POWER_USAGE, 690);
        put(gpu, METRIC_ENFORCED_POWER_LIMIT, 700);
        put(gpu, METRIC_POWER_MGMT_LIMIT_DEF, 700);
        run(1, .9, .4, 1);
    }
    const WhyVerdict *v = &gpu->instance_verdicts[0].verdicts[0];
    assert_int_equal(v->cause, WHY_NEIGHBOUR);
    assert_non_null(strstr(v->text, "9000 on MIG 2/0 has 5"));
    assert_string_equal(v->names[0], "9000");
    assert_int_equal(gpu->instance_verdicts[1].verdicts[0].cause, WHY_TENSOR_CORES); /* it takes most of it itself */
}

/* A pod's or container's GPUs are of one job as well; a user's are not. */
static void ranks_are_those_of_a_job_pod_or_container(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        for (size_t i = 0; i < ARRAY_LEN(rig->owners); i++) {
            ProcessOwner *owner = &rig->owners[i];

            owner->job[0] = owner->pod_uid[0] = owner->container[0] = '\0';
            snprintf(owner->user, sizeof owner->user, "ada");
            if (kind == 0)
                snprintf(owner->pod_uid, sizeof owner->pod_uid, "0a1b");
            else if (kind == 1)
                snprintf(owner->container, sizeof owner->container, "c0ffee");
        }
        for (size_t i = 0; i < GPUS; i++)
            rig->gpus[i].activity = (Activity){.word = ACTIVITY_WORKING};
        run(60, .72, .4, 1);
        rig->gpus[3].activity.sm_active = .95;
        whys_update(rig->whys, &rig->snapshot, rig->store, 1);
        assert_int_equal(rig->gpus[1].verdicts[0].count, kind < 2 ? 2 : 1);
        rig->gpus[3].activity.word = ACTIVITY_IDLE_HELD; /* it does not take part */
        whys_update(rig->whys, &rig->snapshot, rig->store, 1);
        assert_int_equal(rig->gpus[1].verdicts[0].count, 1);
    }
}

static void all_that_is_read_is_wanted(void **state)
{
    static const MetricId some[] = {METRIC_PROF_SM_ACTIVE,
                                    METRIC_GPU_UTIL,
                                    METRIC_POWER_USAGE,
                                    METRIC_ENFORCED_POWER_LIMIT,
                                    METRIC_SM_CLOCK,
                                    METRIC_MAX_SM_CLOCK,
                                    METRIC_PCIE_LINK_WIDTH,
                                    METRIC_PCIE_LINK_GEN,
                                    METRIC_POWER_MGMT_LIMIT_DEF,
                                    METRIC_FB_USED,
                                    METRIC_FB_TOTAL,
                                    METRIC_CLOCKS_EVENT_REASONS,
                                    METRIC_PROF_PIPE_TENSOR_IMMA_ACTIVE,
                                    METRIC_PROF_PIPE_FP16_ACTIVE,
                                    METRIC_MEM_CLOCK,
                                    METRIC_MEMORY_BUS_WIDTH};
    uint64_t wanted[METRIC_SET_WORDS] = {0};

    (void)state;
    whys_add_wanted(wanted);
    for (size_t i = 0; i < ARRAY_LEN(some); i++)
        assert_true(wanted[some[i] / 64] >> some[i] % 64 & 1);
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
        TEST(pods_of_one_name_are_two),
        TEST(memory_that_grows_is_told_while_there_is_time),
        TEST(the_late_rank_is_named),
        TEST(the_late_rank_knows_who_waits),
        TEST(one_look_is_no_rate),
        TEST(neighbours_have_their_own_shares),
        TEST(memory_that_is_taken_at_once_does_not_grow),
        TEST(the_roof_is_of_the_store),
        TEST(the_roof_of_a_slice_is_its_part),
        TEST(a_slice_has_a_verdict_of_its_own),
        TEST(ranks_are_those_of_a_job_pod_or_container),
        TEST(checkpoints_are_found_by_their_rhythm),
        TEST(a_slice_is_slowed_by_its_board),
        TEST(adapters_are_followed_from_look_to_look),
        TEST(all_that_is_read_is_wanted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
