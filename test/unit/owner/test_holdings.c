/* SPDX-License-Identifier: Apache-2.0 */
/* engine/owner/holdings.c: what was declared joined with what was observed, on planted owners, and its shares on random
 * ones. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/duration.h"
#include "engine/owner/holdings.h"
#include "model/facts.h"

enum { GPUS = 2, INSTANCES = 3, MOST = NODE_PROCESSES_MAX };

typedef struct Rig {
    Holdings *holdings;
    Node node;
    NodeGpu gpus[GPUS];
    Reading instances[GPUS][INSTANCES];
    Activity words[GPUS][INSTANCES];
    NodeProcess listed[GPUS][MOST];
    ProcessOwner known[GPUS * MOST];
    size_t known_count;
    AllocationTable pods;
    JobAllocation jobs[4];
    size_t job_count;
    JobInfoList infos;
    JobDevice devices[4]; /* by environment */
    size_t device_count;
    EndedJob ended[2];
    size_t ended_count;
    ProcessOwner holders[4];
    size_t holder_count;
    bool pods_told, jobs_told, steps_told;
    Facts facts;
    const Holding *at;
    size_t count;
} Rig;

static int open_rig(void **state)
{
    static Rig rig;

    memset(&rig, 0, sizeof rig);
    rig.holdings = holdings_new();
    rig.node.gpus = rig.gpus;
    rig.node.gpu_count = GPUS;
    rig.node.time_ns = NS_PER_H;
    for (uint32_t i = 0; i < GPUS; i++) {
        Device *device = &rig.gpus[i].reading.device;

        device_init(device, DEVICE_GPU);
        device->index = i;
        device->minor = i;
        device->has_pci = true;
        device->pci = (PciAddress){.bus = (uint8_t)(1 + i)};
        snprintf(device->uuid, sizeof device->uuid, "GPU-%u", i);
        rig.gpus[i].state = GPU_UP;
        rig.gpus[i].processes = rig.listed[i];
        rig.gpus[i].activity.word = ACTIVITY_WORKING;
        rig.gpus[i].instances = rig.instances[i];
        rig.gpus[i].instance_activity = rig.words[i];
        for (uint32_t k = 0; k < INSTANCES; k++) {
            Reading *instance = &rig.instances[i][k];

            reading_init(instance, DEVICE_COMPUTE_INSTANCE);
            instance->device.gpu_instance = 7 + k;
            instance->device.compute_instance = 0;
            instance->instance_head = true;
            snprintf(instance->device.uuid, sizeof instance->device.uuid, "MIG-%u-%u", i, k);
            rig.words[i][k].word = ACTIVITY_WORKING;
        }
    }
    rig.facts.proc_known = rig.facts.all_tasks = true;
    allocation_table_init(&rig.pods);
    *state = &rig;
    return 0;
}

static int close_rig(void **state)
{
    Rig *rig = *state;

    holdings_free(rig->holdings);
    allocation_table_done(&rig->pods);
    return 0;
}

static void assert_near(double is, double should)
{
    assert_true(fabs(is - should) < 1e-9);
}

/* One look; the shares of every device that is held sum to 1. */
static void look(Rig *rig, uint64_t later_ns)
{
    const Snapshot seen = {.node = &rig->node,
                           .processes = {.at = rig->known, .len = rig->known_count},
                           .allocations = &rig->pods,
                           .jobs = rig->jobs,
                           .job_count = rig->job_count,
                           .job_infos = rig->infos,
                           .job_devices = rig->devices,
                           .job_device_count = rig->device_count,
                           .ended_jobs = rig->ended,
                           .ended_job_count = rig->ended_count,
                           .holders = {.at = rig->holders, .len = rig->holder_count},
                           .steps_told = rig->steps_told,
                           .pods_told = rig->pods_told,
                           .jobs_told = rig->jobs_told,
                           .facts = &rig->facts};
    double sum = 0;

    rig->node.time_ns += later_ns;
    for (size_t i = 0; i < GPUS; i++)
        if (rig->gpus[i].state == GPU_UP)
            sample_set_int64(&rig->gpus[i].process_list, rig->node.time_ns, (int64_t)rig->gpus[i].process_count);
        else
            sample_set_absent(&rig->gpus[i].process_list, rig->node.time_ns, ABSENCE_GPU_LOST);
    holdings_update(rig->holdings, &seen);
    rig->at = holdings_list(rig->holdings, &rig->count);
    for (size_t i = 0; i < rig->count; i++) {
        const Holding *one = &rig->at[i], *next = one + 1;

        sum += one->share;
        assert_true(one->share >= 0 && one->share <= 1);
        if (i + 1 < rig->count && next->gpu == one->gpu && next->gpu_instance == one->gpu_instance &&
            next->compute_instance == one->compute_instance)
            continue;
        assert_near(sum, 1);
        sum = 0;
    }
}

static NodeProcess *add_hidden(Rig *rig, size_t gpu, uint32_t pid)
{
    NodeProcess *process = &rig->listed[gpu][rig->gpus[gpu].process_count++];

    *process = (NodeProcess){.pid = pid,
                             .gpu_instance = DEVICE_NO_NUMBER,
                             .compute_instance = DEVICE_NO_NUMBER,
                             .used_bytes = 1000,
                             .sm_percent = UINT8_MAX,
                             .memory_percent = UINT8_MAX};
    return process;
}

/* Pids come in order. */
static ProcessOwner *start(Rig *rig, size_t gpu, uint32_t pid, const char *user)
{
    ProcessOwner *who = &rig->known[rig->known_count++];

    add_hidden(rig, gpu, pid);
    process_owner_init(who, pid);
    who->start_ns = pid;
    snprintf(who->user, sizeof who->user, "%s", user);
    snprintf(who->name, sizeof who->name, "p%u", pid);
    return who;
}

static void set_sm(Rig *rig, size_t gpu, const uint8_t *percent)
{
    for (size_t i = 0; i < rig->gpus[gpu].process_count; i++)
        rig->listed[gpu][i].sm_percent = percent[i];
}

static void set_pod(ProcessOwner *who, const char *uid, const char *container)
{
    snprintf(who->pod_uid, sizeof who->pod_uid, "%s", uid);
    snprintf(who->container, sizeof who->container, "%s", container);
}

static void give(Rig *rig, const char *id, const char *pod, const char *container)
{
    char uid[64];
    Allocation row = {.pod = pod, .namespace = "ns", .container = container, .pod_uid = uid};

    snprintf(uid, sizeof uid, "uid-%s", pod);
    assert_int_equal(allocation_device_parse(id, &row.device), 0);
    allocation_table_add(&rig->pods, &row);
}

static void give_job(Rig *rig, uint32_t gpu, uint32_t instance, const char *job)
{
    rig->jobs[rig->job_count++] = (JobAllocation){.gpu = gpu, .gpu_instance = instance, .job = job};
}

static void give_by_environ(Rig *rig, const char *device, uint32_t minor, const char *job)
{
    JobDevice *row = &rig->devices[rig->device_count++];

    if (device)
        assert_int_equal(allocation_device_parse(device, &row->device), 0);
    else
        row->device =
            (AllocationDevice){.minor = minor, .gpu_instance = DEVICE_NO_NUMBER, .compute_instance = DEVICE_NO_NUMBER};
    snprintf(row->job, sizeof row->job, "%s", job);
}

/* One that has these GPUs open, and that the driver lists nowhere. */
static ProcessOwner *hold(Rig *rig, uint32_t pid, const char *user, uint64_t gpus)
{
    ProcessOwner *who = &rig->holders[rig->holder_count++];

    process_owner_init(who, pid);
    who->start_ns = pid;
    who->open_gpus = gpus;
    snprintf(who->user, sizeof who->user, "%s", user);
    snprintf(who->name, sizeof who->name, "p%u", pid);
    return who;
}

/* Says what a holding is: "user job ns/pod:container". */
static const char *name_of(const Holding *holding)
{
    static char text[512];
    const Owner *o = &holding->owner;

    snprintf(text, sizeof text, "%s %s %s/%s:%s", o->user, o->job, o->namespace, o->pod, o->container);
    return text;
}

static void expect(const Rig *rig, size_t i, const char *name, HoldingState state, Attribution attribution,
                   double share)
{
    assert_true(i < rig->count);
    assert_string_equal(name_of(&rig->at[i]), name);
    assert_string_equal(holding_states[rig->at[i].state].key, holding_states[state].key);
    assert_string_equal(attributions[rig->at[i].attribution].key, attributions[attribution].key);
    assert_near(rig->at[i].share, share);
}

/* --- planted owners ----------------------------------------------------------------------------------------------- */

static void a_whole_gpu(void **state)
{
    Rig *rig = *state;

    give(rig, "GPU-0", "train-0", "main");
    rig->pods_told = true;
    set_pod(start(rig, 0, 100, "root"), "uid-train-0", "0123abcd");
    set_pod(start(rig, 0, 101, "root"), "uid-train-0", "0123abcd");
    set_sm(rig, 0, (const uint8_t[]){30, 25});
    look(rig, 0);
    assert_int_equal(rig->count, 1);
    expect(rig, 0, "root  ns/train-0:main", HOLDING_USED, ATTRIBUTION_EXCLUSIVE, 1);
    assert_int_equal(rig->at[0].gpu, 0);
    assert_int_equal(rig->at[0].gpu_instance, DEVICE_NO_NUMBER);
    assert_int_equal(rig->at[0].process_count, 2);
    assert_int_equal(rig->at[0].processes[1].pid, 101);
    assert_int_equal(rig->at[0].owner.pid, 100);
    assert_int_equal(rig->at[0].owner.start_ns, 100);
    assert_string_equal(rig->at[0].owner.process, "p100");
    assert_int_equal(rig->at[0].memory_bytes, 2000);
    assert_near(rig->at[0].sm_share, 0.55);
}

static void a_gpu_held_idle_and_one_reserved(void **state)
{
    Rig *rig = *state;

    give(rig, "GPU-0", "notebook", "main");
    give(rig, "GPU-1", "late", "main");
    set_pod(start(rig, 0, 100, "root"), "uid-notebook", "0123abcd");
    rig->gpus[0].activity.word = ACTIVITY_IDLE_HELD;
    rig->gpus[1].activity.word = ACTIVITY_IDLE_HELD;
    look(rig, 0);
    assert_int_equal(rig->count, 2);
    expect(rig, 0, "root  ns/notebook:main", HOLDING_IDLE_HELD, ATTRIBUTION_EXCLUSIVE, 1);
    expect(rig, 1, "  ns/late:main", HOLDING_RESERVED, ATTRIBUTION_EXCLUSIVE, 1);
    assert_int_equal(rig->at[1].owner.pid, -1);
    assert_string_equal(rig->at[1].owner.process, "");
    assert_int_equal(rig->at[1].process_count, 0);
    rig->gpus[0].activity.word = ACTIVITY_WAITING; /* the words come after the join */
    holdings_decide_states(rig->holdings, &rig->node);
    expect(rig, 0, "root  ns/notebook:main", HOLDING_USED, ATTRIBUTION_EXCLUSIVE, 1);
}

static void mig_instances(void **state)
{
    Rig *rig = *state;

    rig->gpus[0].instance_count = INSTANCES;
    give(rig, "MIG-0-0", "small-0", "main");
    give_job(rig, 0, 9, "4711");
    set_pod(start(rig, 0, 100, "root"), "uid-small-0", "0123abcd");
    start(rig, 0, 101, "bob");
    rig->listed[0][0].gpu_instance = 7;
    rig->listed[0][0].compute_instance = 0;
    rig->listed[0][1].gpu_instance = 8; /* without the compute instance: of its first */
    rig->words[0][1].word = ACTIVITY_IDLE_HELD;
    look(rig, 0);
    assert_int_equal(rig->count, 3);
    expect(rig, 0, "root  ns/small-0:main", HOLDING_USED, ATTRIBUTION_MIG, 1);
    expect(rig, 1, "bob  /:", HOLDING_IDLE_HELD, ATTRIBUTION_MIG, 1);
    expect(rig, 2, " 4711 /:", HOLDING_RESERVED, ATTRIBUTION_MIG, 1);
    assert_int_equal(rig->at[1].gpu_instance, 8);
    assert_int_equal(rig->at[1].compute_instance, 0);
    assert_int_equal(rig->at[2].gpu_instance, 9);
}

static void time_sliced_replicas(void **state)
{
    Rig *rig = *state;

    give(rig, "GPU-0::0", "a", "main");
    give(rig, "GPU-0::1", "b", "main");
    give(rig, "GPU-0::2", "c", "main");
    set_pod(start(rig, 0, 100, "root"), "uid-a", "1");
    set_pod(start(rig, 0, 101, "root"), "uid-b", "2");
    look(rig, 0); /* no samples of the processes */
    assert_int_equal(rig->count, 3);
    expect(rig, 0, "root  ns/a:main", HOLDING_USED, ATTRIBUTION_EVEN, 1.0 / 3);
    expect(rig, 2, "  ns/c:main", HOLDING_RESERVED, ATTRIBUTION_EVEN, 1.0 / 3);
    assert_true(isnan(rig->at[0].sm_share));
    set_sm(rig, 0, (const uint8_t[]){60, 20});
    look(rig, NS_PER_S);
    expect(rig, 0, "root  ns/a:main", HOLDING_USED, ATTRIBUTION_SAMPLED, 0.75);
    expect(rig, 1, "root  ns/b:main", HOLDING_USED, ATTRIBUTION_SAMPLED, 0.25);
    expect(rig, 2, "  ns/c:main", HOLDING_RESERVED, ATTRIBUTION_SAMPLED, 0);
    assert_near(rig->at[0].sm_share, 0.6);
    set_sm(rig, 0, (const uint8_t[]){0, 0}); /* nobody ran: nothing to divide by */
    look(rig, NS_PER_S);
    expect(rig, 1, "root  ns/b:main", HOLDING_USED, ATTRIBUTION_EVEN, 1.0 / 3);
    set_sm(rig, 0, (const uint8_t[]){60, UINT8_MAX}); /* nor with a part of the samples */
    look(rig, NS_PER_S);
    expect(rig, 0, "root  ns/a:main", HOLDING_USED, ATTRIBUTION_EVEN, 1.0 / 3);
}

/* One that shares a GPU and lets others work on it, for a minute. */
static void a_sharer_that_only_holds(void **state)
{
    Rig *rig = *state;

    give(rig, "GPU-0::0", "a", "main");
    give(rig, "GPU-0::1", "b", "main");
    set_pod(start(rig, 0, 100, "root"), "uid-a", "1");
    set_pod(start(rig, 0, 101, "root"), "uid-b", "2");
    set_sm(rig, 0, (const uint8_t[]){60, 5});
    look(rig, 0);
    set_sm(rig, 0, (const uint8_t[]){60, 0});
    look(rig, HOLDING_IDLE_NS - 1);
    expect(rig, 1, "root  ns/b:main", HOLDING_USED, ATTRIBUTION_SAMPLED, 0);
    assert_int_equal(holding_activity(&rig->at[1], &rig->node), ACTIVITY_WORKING);
    look(rig, 1);
    expect(rig, 0, "root  ns/a:main", HOLDING_USED, ATTRIBUTION_SAMPLED, 1);
    expect(rig, 1, "root  ns/b:main", HOLDING_IDLE_HELD, ATTRIBUTION_SAMPLED, 0);
    assert_int_equal(holding_activity(&rig->at[0], &rig->node), ACTIVITY_WORKING);
    assert_int_equal(holding_activity(&rig->at[1], &rig->node), ACTIVITY_IDLE_HELD);
    set_sm(rig, 0, (const uint8_t[]){60, 1});
    look(rig, NS_PER_S);
    assert_int_equal(rig->at[1].state, HOLDING_USED);
}

static void mps_clients_behind_their_server(void **state)
{
    Rig *rig = *state;
    ProcessOwner *server = start(rig, 0, 50, "root");

    snprintf(server->name, sizeof server->name, "nvidia-cuda-mps");
    look(rig, 0);
    expect(rig, 0, "root  /:", HOLDING_USED, ATTRIBUTION_EXCLUSIVE, 1); /* nobody else */
    start(rig, 0, 100, "alice");
    start(rig, 0, 101, "bob");
    set_sm(rig, 0, (const uint8_t[]){80, 60, 20});
    look(rig, NS_PER_S);
    assert_int_equal(rig->count, 2);
    expect(rig, 0, "alice  /:", HOLDING_USED, ATTRIBUTION_SAMPLED, 0.75);
    expect(rig, 1, "bob  /:", HOLDING_USED, ATTRIBUTION_SAMPLED, 0.25);
    set_sm(rig, 0, (const uint8_t[]){80, 0, 0}); /* at the server alone: whose of them is not known */
    for (int i = 0; i < 3; i++)
        look(rig, NS_PER_MIN);
    expect(rig, 0, "alice  /:", HOLDING_USED, ATTRIBUTION_EVEN, 0.5);
    expect(rig, 1, "bob  /:", HOLDING_USED, ATTRIBUTION_EVEN, 0.5);
    assert_true(isnan(rig->at[0].sm_share));
    set_sm(rig, 0, (const uint8_t[]){0, 0, 0}); /* nobody runs anything, and that is known */
    look(rig, NS_PER_MIN);
    expect(rig, 1, "bob  /:", HOLDING_IDLE_HELD, ATTRIBUTION_EVEN, 0.5);
}

static void two_containers_of_a_pod(void **state)
{
    Rig *rig = *state;

    rig->pods_told = true;
    give(rig, "GPU-0", "pair", "train");
    give(rig, "GPU-1", "pair", "serve");
    set_pod(start(rig, 0, 100, "root"), "uid-pair", "aaaa");
    set_pod(start(rig, 1, 101, "root"), "uid-pair", "bbbb");
    look(rig, 0);
    assert_int_equal(rig->count, 2);
    expect(rig, 0, "root  ns/pair:train", HOLDING_USED, ATTRIBUTION_EXCLUSIVE, 1);
    expect(rig, 1, "root  ns/pair:serve", HOLDING_USED, ATTRIBUTION_EXCLUSIVE, 1);
}

/* Both were given the GPU: the cgroup has the container's id, the kubelet its name. */
static void two_containers_on_one_gpu(void **state)
{
    Rig *rig = *state;

    rig->pods_told = true;
    give(rig, "GPU-0::0", "pair", "train");
    give(rig, "GPU-0::1", "pair", "serve");
    look(rig, 0);
    assert_int_equal(rig->count, 2);
    expect(rig, 0, "  ns/pair:train", HOLDING_RESERVED, ATTRIBUTION_EVEN, 0.5);
    set_pod(start(rig, 0, 100, "root"), "uid-pair", "aaaa");
    set_pod(start(rig, 0, 101, "root"), "uid-pair", "bbbb");
    set_pod(start(rig, 0, 102, "root"), "uid-pair", "bbbb");
    set_sm(rig, 0, (const uint8_t[]){10, 10, 20});
    look(rig, NS_PER_S);
    assert_int_equal(rig->count, 2);
    expect(rig, 0, "root  ns/pair:aaaa", HOLDING_USED, ATTRIBUTION_SAMPLED, 0.25);
    expect(rig, 1, "root  ns/pair:bbbb", HOLDING_USED, ATTRIBUTION_SAMPLED, 0.75);
    assert_int_equal(rig->at[1].process_count, 2);
    assert_int_equal(rig->at[1].processes[0].pid, 101);
}

/* The links that the kubelet keeps to the logs have both. */
static void two_containers_with_their_names(void **state)
{
    static const char *const names[] = {"serve", "train", "debug"};
    Rig *rig = *state;

    rig->pods_told = true;
    give(rig, "GPU-0::0", "pair", "train");
    give(rig, "GPU-0::1", "pair", "serve");
    give(rig, "GPU-0::2", "pair", "spare");
    for (uint32_t i = 0; i < 3; i++) {
        ProcessOwner *who = start(rig, 0, 100 + i, "root");

        set_pod(who, "uid-pair", names[i]);
        snprintf(who->container_name, sizeof who->container_name, "%s", names[i]);
        snprintf(who->container, sizeof who->container, "%u", i);
    }
    set_sm(rig, 0, (const uint8_t[]){30, 10, 10});
    look(rig, 0);
    assert_int_equal(rig->count, 3);
    expect(rig, 0, "root  ns/pair:train", HOLDING_USED, ATTRIBUTION_SAMPLED, 0.2);
    expect(rig, 1, "root  ns/pair:serve", HOLDING_USED, ATTRIBUTION_SAMPLED, 0.6);
    assert_int_equal(rig->at[0].owner.pid, 101);
    assert_int_equal(rig->at[0].grant, HOLDING_GRANT_KUBELET);
    /* a container of the pod that was given nothing: which one's device it uses is not known, so none is called empty
     */
    expect(rig, 2, "root  ns/pair:2", HOLDING_USED, ATTRIBUTION_SAMPLED, 0.2);
}

static void slurm_steps_of_one_job(void **state)
{
    Rig *rig = *state;

    give_job(rig, 0, DEVICE_NO_NUMBER, "4712");
    give_job(rig, 1, DEVICE_NO_NUMBER, "4713");
    rig->jobs_told = true;
    snprintf(start(rig, 0, 100, "alice")->job, PROCESS_JOB_CAP, "4712.0");
    snprintf(start(rig, 0, 101, "alice")->job, PROCESS_JOB_CAP, "4712.1");
    snprintf(start(rig, 0, 102, "alice")->job, PROCESS_JOB_CAP, "4712.batch");
    look(rig, 0);
    assert_int_equal(rig->count, 2);
    expect(rig, 0, "alice 4712 /:", HOLDING_USED, ATTRIBUTION_EXCLUSIVE, 1);
    expect(rig, 1, " 4713 /:", HOLDING_RESERVED, ATTRIBUTION_EXCLUSIVE, 1);
    assert_int_equal(rig->at[0].process_count, 3);
}

/* No prolog writes files: the environment of the job's tasks tells. */
static void gpus_by_the_environment_of_a_job(void **state)
{
    Rig *rig = *state;

    rig->steps_told = true;
    give_by_environ(rig, NULL, 0, "4712");
    give_by_environ(rig, NULL, 0, "4712"); /* of two tasks */
    give_by_environ(rig, "GPU-1", 0, "4713");
    snprintf(start(rig, 0, 100, "alice")->job, PROCESS_JOB_CAP, "4712.0");
    look(rig, 0);
    assert_int_equal(rig->count, 2);
    expect(rig, 0, "alice 4712 /:", HOLDING_USED, ATTRIBUTION_EXCLUSIVE, 1);
    assert_int_equal(rig->at[0].grant, HOLDING_GRANT_ENVIRON);
    assert_int_equal(rig->at[0].basis, HOLDING_BY_PROCESS);
    expect(rig, 1, " 4713 /:", HOLDING_RESERVED, ATTRIBUTION_EXCLUSIVE, 1);
    assert_int_equal(rig->at[1].basis, HOLDING_BY_GRANT);
    snprintf(start(rig, 1, 101, "alice")->job, PROCESS_JOB_CAP, "4712.1"); /* has GPUs, but not this one */
    snprintf(start(rig, 1, 102, "eve")->job, PROCESS_JOB_CAP, "4714");     /* its GPUs are not known */
    start(rig, 1, 103, "carol");                                           /* in no job */
    look(rig, NS_PER_S);
    assert_int_equal(rig->count, 5);
    expect(rig, 2, "alice 4712 /:", HOLDING_UNMANAGED, ATTRIBUTION_EVEN, 0.25);
    expect(rig, 3, "eve 4714 /:", HOLDING_USED, ATTRIBUTION_EVEN, 0.25);
    expect(rig, 4, "carol  /:", HOLDING_UNMANAGED, ATTRIBUTION_EVEN, 0.25);
    assert_int_equal(rig->at[4].grant, HOLDING_GRANT_NONE);
}

/* Its file and the environment of its task stay for a while; what a process of it still uses is its own. */
static void a_job_that_has_ended(void **state)
{
    Rig *rig = *state;

    give_job(rig, 0, DEVICE_NO_NUMBER, "4712");
    give_job(rig, 1, DEVICE_NO_NUMBER, "4712");
    give_job(rig, 1, DEVICE_NO_NUMBER, "4713");
    give_by_environ(rig, NULL, 1, "4712");
    rig->jobs_told = true;
    snprintf(start(rig, 0, 100, "alice")->job, PROCESS_JOB_CAP, "4712.0");
    look(rig, 0);
    assert_int_equal(rig->count, 3);
    snprintf(rig->ended[0].job, sizeof rig->ended[0].job, "471");
    snprintf(rig->ended[1].job, sizeof rig->ended[1].job, "4712");
    rig->ended_count = 1;
    look(rig, NS_PER_S);
    assert_int_equal(rig->count, 3);
    rig->ended_count = 2;
    look(rig, NS_PER_S);
    assert_int_equal(rig->count, 2);
    expect(rig, 0, "alice 4712 /:", HOLDING_USED, ATTRIBUTION_EXCLUSIVE, 1);
    expect(rig, 1, " 4713 /:", HOLDING_RESERVED, ATTRIBUTION_EXCLUSIVE, 1);
    rig->gpus[0].process_count = 0;
    look(rig, NS_PER_S);
    assert_int_equal(rig->count, 1);
    rig->ended_count = 0; /* it was put back into the queue, and runs again */
    look(rig, NS_PER_S);
    assert_int_equal(rig->count, 3);
}

/* A number is that of a GPU, a UUID may be that of an instance. */
static void mig_devices_by_the_environment_of_a_job(void **state)
{
    Rig *rig = *state;

    rig->gpus[0].instance_count = INSTANCES;
    give_by_environ(rig, NULL, 0, "4712");
    give_by_environ(rig, "MIG-0-1", 0, "4713");
    look(rig, 0);
    assert_int_equal(rig->count, 1);
    expect(rig, 0, " 4713 /:", HOLDING_RESERVED, ATTRIBUTION_MIG, 1);
    assert_int_equal(rig->at[0].gpu_instance, 8);
}

/* Its account, and its user where no process tells of one. */
static void what_slurm_says_of_a_job(void **state)
{
    static const JobInfo infos[] = {{.job = "4713", .user = "bob", .account = "maths", .started_real_ns = 7},
                                    {.job = "4712", .user = "mallory", .account = "physics", .started_real_ns = 8}};
    Rig *rig = *state;

    rig->infos = (JobInfoList){infos, 2};
    give_job(rig, 1, DEVICE_NO_NUMBER, "4713");
    snprintf(start(rig, 0, 100, "alice")->job, PROCESS_JOB_CAP, "4712.0");
    look(rig, 0);
    expect(rig, 0, "alice 4712 /:", HOLDING_USED, ATTRIBUTION_EXCLUSIVE, 1);
    expect(rig, 1, "bob 4713 /:", HOLDING_RESERVED, ATTRIBUTION_EXCLUSIVE, 1);
    assert_string_equal(rig->at[0].owner.account, "physics");
    assert_string_equal(rig->at[1].owner.account, "maths");
    assert_int_equal(rig->at[0].given_real_ns, 0); /* nobody says that this device is the job's */
    assert_int_equal(rig->at[1].given_real_ns, 7);
}

static void a_job_on_a_gpu_that_it_was_not_given(void **state)
{
    Rig *rig = *state;

    give_job(rig, 0, DEVICE_NO_NUMBER, "4712");
    snprintf(start(rig, 1, 100, "alice")->job, PROCESS_JOB_CAP, "4712.0");
    look(rig, 0);
    assert_int_equal(rig->at[1].state, HOLDING_USED); /* nobody says what else was given */
    rig->pods_told = true;
    look(rig, NS_PER_S);
    assert_int_equal(rig->at[1].state, HOLDING_USED); /* the kubelet gives nothing to jobs */
    rig->jobs_told = true;
    look(rig, NS_PER_S);
    assert_int_equal(rig->at[1].state, HOLDING_UNMANAGED);
}

static void a_process_outside_everything(void **state)
{
    Rig *rig = *state;

    give(rig, "GPU-0", "train-0", "main");
    set_pod(start(rig, 0, 100, "root"), "uid-train-0", "1");
    start(rig, 0, 101, "eve");
    snprintf(start(rig, 1, 102, "root")->container, PROCESS_CONTAINER_CAP, "dddd"); /* docker's */
    set_sm(rig, 0, (const uint8_t[]){30, 10});
    look(rig, 0);
    expect(rig, 1, "eve  /:", HOLDING_USED, ATTRIBUTION_SAMPLED, 0.25); /* no source of declarations answers */
    rig->pods_told = true;
    look(rig, NS_PER_S);
    assert_int_equal(rig->count, 3);
    expect(rig, 0, "root  ns/train-0:main", HOLDING_USED, ATTRIBUTION_SAMPLED, 0.75);
    expect(rig, 1, "eve  /:", HOLDING_UNMANAGED, ATTRIBUTION_SAMPLED, 0.25);
    expect(rig, 2, "root  /:dddd", HOLDING_UNMANAGED, ATTRIBUTION_EXCLUSIVE, 1);
}

/* A pod that reaches a GPU around the device plugin. */
static void a_pod_on_a_gpu_that_it_was_not_given(void **state)
{
    Rig *rig = *state;

    rig->pods_told = true;
    give(rig, "GPU-0", "train-0", "main");
    set_pod(start(rig, 1, 100, "root"), "uid-train-0", "1");
    look(rig, 0);
    expect(rig, 0, "  ns/train-0:main", HOLDING_RESERVED, ATTRIBUTION_EXCLUSIVE, 1);
    expect(rig, 1, "root  ns/train-0:main", HOLDING_UNMANAGED, ATTRIBUTION_EXCLUSIVE, 1);
}

/* The process has ended, but the driver still lists it: nothing is left of it in /proc. */
static void a_dead_owner(void **state)
{
    Rig *rig = *state;

    start(rig, 0, 100, "alice");
    look(rig, 0);
    rig->known_count = 0;
    for (int i = 0; i < 3; i++)
        look(rig, NS_PER_MIN);
    expect(rig, 0, "alice  /:", HOLDING_USED, ATTRIBUTION_EXCLUSIVE, 1);
    process_owner_init(&rig->known[0], 100); /* looked for, not found */
    rig->known_count = 1;
    look(rig, NS_PER_S);
    expect(rig, 0, "alice  /:", HOLDING_USED, ATTRIBUTION_EXCLUSIVE, 1);
    rig->gpus[0].process_count = 0;
    look(rig, NS_PER_S);
    assert_int_equal(rig->count, 0);
}

static void a_reused_pid(void **state)
{
    Rig *rig = *state;

    start(rig, 0, 100, "alice");
    look(rig, 0);
    snprintf(rig->known[0].user, PROCESS_USER_CAP, "bob");
    rig->known[0].start_ns = 7777;
    look(rig, NS_PER_S);
    expect(rig, 0, "bob  /:", HOLDING_USED, ATTRIBUTION_EXCLUSIVE, 1);
    assert_int_equal(rig->at[0].owner.start_ns, 7777);
    rig->gpus[0].process_count = 0;
    rig->known_count = 0;
    look(rig, NS_PER_S);
    add_hidden(rig, 0, 100); /* the next one: not identified yet, and not bob's */
    look(rig, NS_PER_S);
    expect(rig, 0, "  /:", HOLDING_USED, ATTRIBUTION_UNKNOWN, 1);
    assert_int_equal(rig->at[0].owner.pid, 100);
    assert_int_equal(rig->at[0].owner.start_ns, 0);
}

static void a_pid_namespace_that_hides(void **state)
{
    Rig *rig = *state;

    rig->pods_told = true;
    add_hidden(rig, 0, 100);
    add_hidden(rig, 0, 101);
    look(rig, 0);
    assert_int_equal(rig->count, 1);
    expect(rig, 0, "  /:", HOLDING_UNMANAGED, ATTRIBUTION_UNKNOWN, 1);
    assert_int_equal(rig->at[0].process_count, 2);
    give(rig, "GPU-0::0", "a", "main"); /* given to one alone: whose else? */
    look(rig, NS_PER_S);
    assert_int_equal(rig->count, 1);
    expect(rig, 0, "  ns/a:main", HOLDING_USED, ATTRIBUTION_EXCLUSIVE, 1);
    assert_int_equal(rig->at[0].process_count, 2);
    give(rig, "GPU-0::1", "b", "main"); /* to two: not known */
    look(rig, NS_PER_S);
    assert_int_equal(rig->count, 3);
    expect(rig, 0, "  ns/a:main", HOLDING_RESERVED, ATTRIBUTION_EVEN, 1.0 / 3);
    expect(rig, 2, "  /:", HOLDING_UNMANAGED, ATTRIBUTION_UNKNOWN, 1.0 / 3);
}

/* In another pid namespace the driver lists nobody at all. */
static void a_pid_namespace_without_a_list(void **state)
{
    Rig *rig = *state;

    rig->gpus[0].activity = (Activity){.word = ACTIVITY_WORKING, .held = true};
    look(rig,
         0); /* where all processes are visible it is held by none: memory that a driver lost, or a tick too early */
    assert_int_equal(rig->count, 0);
    rig->facts.all_tasks = false;
    look(rig, NS_PER_S);
    assert_int_equal(rig->count, 1);
    expect(rig, 0, "  /:", HOLDING_USED, ATTRIBUTION_UNKNOWN, 1);
    assert_int_equal(rig->at[0].basis, HOLDING_BY_MEMORY);
    assert_int_equal(rig->at[0].process_count, 0);
    rig->gpus[0].activity.word = ACTIVITY_IDLE_HELD;
    holdings_decide_states(rig->holdings, &rig->node);
    expect(rig, 0, "  /:", HOLDING_IDLE_HELD, ATTRIBUTION_UNKNOWN, 1);
    rig->gpus[0].activity = (Activity){.word = ACTIVITY_FREE};
    holdings_decide_states(rig->holdings, &rig->node);
    look(rig, NS_PER_S);
    assert_int_equal(rig->count, 0);
    /* who was given it uses it, seen or not */
    rig->gpus[0].activity = (Activity){.word = ACTIVITY_WORKING, .held = true};
    give(rig, "GPU-0::0", "a", "main");
    look(rig, NS_PER_S);
    assert_int_equal(rig->count, 1);
    expect(rig, 0, "  ns/a:main", HOLDING_USED, ATTRIBUTION_EXCLUSIVE, 1);
    rig->gpus[0].activity.word = ACTIVITY_IDLE_HELD;
    look(rig, NS_PER_S);
    expect(rig, 0, "  ns/a:main", HOLDING_RESERVED, ATTRIBUTION_EXCLUSIVE, 1);
    give(rig, "GPU-0::1", "b", "main");
    rig->gpus[0].activity.word = ACTIVITY_WORKING;
    look(rig, NS_PER_S);
    expect(rig, 0, "  ns/a:main", HOLDING_USED, ATTRIBUTION_EVEN, 0.5);
    expect(rig, 1, "  ns/b:main", HOLDING_USED, ATTRIBUTION_EVEN, 0.5);
    rig->facts.all_tasks = true; /* visible, and none: they only have it */
    look(rig, NS_PER_S);
    expect(rig, 0, "  ns/a:main", HOLDING_RESERVED, ATTRIBUTION_EVEN, 0.5);
}

/* The same on MIG instances: those that are held. */
static void a_pid_namespace_without_a_list_of_instances(void **state)
{
    Rig *rig = *state;

    rig->facts.all_tasks = false;
    rig->gpus[0].instance_count = INSTANCES;
    rig->gpus[0].activity.held = true;
    rig->words[0][1].held = true;
    look(rig, 0);
    assert_int_equal(rig->count, 1);
    expect(rig, 0, "  /:", HOLDING_USED, ATTRIBUTION_UNKNOWN, 1);
    assert_int_equal(rig->at[0].gpu_instance, 8);
}

/* The loaders of a program that was killed keep its memory: the driver lists nobody, but they have the GPU open. */
static void who_holds_a_gpu_unlisted(void **state)
{
    Rig *rig = *state;

    rig->steps_told = true;
    hold(rig, 200, "alice", 3);
    hold(rig, 201, "alice", 3);
    hold(rig, 202, "bob", 1);
    look(rig, 0); /* nothing is held there: an open file alone is nothing */
    assert_int_equal(rig->count, 0);
    assert_false(holdings_want_holders(rig->holdings, &rig->node));
    rig->gpus[0].activity = (Activity){.word = ACTIVITY_IDLE_HELD, .held = true};
    holdings_decide_states(rig->holdings, &rig->node);
    assert_true(holdings_want_holders(rig->holdings, &rig->node));
    look(rig, NS_PER_S);
    assert_int_equal(rig->count, 2);
    expect(rig, 0, "alice  /:", HOLDING_UNMANAGED, ATTRIBUTION_EVEN, 0.5);
    expect(rig, 1, "bob  /:", HOLDING_UNMANAGED, ATTRIBUTION_EVEN, 0.5);
    assert_int_equal(rig->at[0].basis, HOLDING_BY_OPEN_FILE);
    assert_int_equal(rig->at[0].process_count, 2);
    assert_int_equal(rig->at[0].owner.pid, 200);
    rig->holder_count = 1;
    rig->steps_told = false; /* nobody says who may be here */
    look(rig, NS_PER_S);
    expect(rig, 0, "alice  /:", HOLDING_IDLE_HELD, ATTRIBUTION_EXCLUSIVE, 1);
    give_job(rig, 0, DEVICE_NO_NUMBER, "4712"); /* it was given to a job, of which this is a process */
    snprintf(rig->holders[0].job, PROCESS_JOB_CAP, "4712.0");
    look(rig, NS_PER_S);
    assert_int_equal(rig->count, 1);
    expect(rig, 0, "alice 4712 /:", HOLDING_IDLE_HELD, ATTRIBUTION_EXCLUSIVE, 1);
    assert_int_equal(rig->at[0].grant, HOLDING_GRANT_JOB_FILE);
    rig->job_count = 0;
    start(rig, 1, 200, "alice"); /* listed on another GPU: that is where it works */
    look(rig, NS_PER_S);
    assert_int_equal(rig->count, 1);
    assert_int_equal(rig->at[0].gpu, 1);
    assert_int_equal(rig->at[0].basis, HOLDING_BY_PROCESS);
    rig->gpus[1].process_count = 0;
    start(rig, 0, 300, "carol"); /* somebody is listed on this one: the share is hers alone */
    look(rig, NS_PER_S);
    assert_int_equal(rig->count, 1);
    expect(rig, 0, "carol  /:", HOLDING_IDLE_HELD, ATTRIBUTION_EXCLUSIVE, 1);
    assert_false(holdings_want_holders(rig->holdings, &rig->node));
}

/* --- a GPU that cannot be asked ----------------------------------------------------------------------------------- */

static void a_lost_gpu_keeps_its_owners(void **state)
{
    Rig *rig = *state;

    start(rig, 0, 100, "alice");
    look(rig, 0);
    rig->gpus[0].state = GPU_LOST;
    rig->gpus[0].process_count = 0;
    rig->known_count = 0;
    rig->gpus[0].activity.word = ACTIVITY_UNUSABLE;
    look(rig, NS_PER_H);
    expect(rig, 0, "alice  /:", HOLDING_USED, ATTRIBUTION_EXCLUSIVE, 1);
    rig->gpus[0].state = GPU_GONE;
    look(rig, NS_PER_S);
    assert_int_equal(rig->count, 0);
}

/* The driver refuses the list of processes: the device's word tells whether the owner runs something. */
static void without_a_list_of_processes(void **state)
{
    Rig *rig = *state;

    give(rig, "GPU-0", "train-0", "main");
    rig->gpus[0].state = GPU_FAILED; /* look() takes the list away */
    look(rig, 0);
    assert_int_equal(rig->at[0].state, HOLDING_USED);
    rig->gpus[0].activity.word = ACTIVITY_IDLE_HELD;
    look(rig, NS_PER_S);
    assert_int_equal(rig->at[0].state, HOLDING_RESERVED);
}

/* --- shares of random owners -------------------------------------------------------------------------------------- */

static void shares_sum_to_one(void **state)
{
    static const char *const pods[] = {"a", "b", "c", "d"}, *const users[] = {"alice", "bob", "eve"};
    static const char *const devices[] = {"GPU-0", "GPU-0::1", "GPU-1", "MIG-0-0", "MIG-0-1::3", "nvidia1", "MIG-1-2"};
    Rig *rig = *state;
    size_t sampled = 0, several = 0;

    srand(15);
    for (int round = 0; round < 3000; round++) {
        allocation_table_clear(&rig->pods);
        rig->job_count = rig->known_count = 0;
        rig->pods_told = rand() % 2;
        for (int i = rand() % 5; i > 0; i--)
            give(rig, devices[rand() % 7], pods[rand() % 4], i % 2 ? "main" : "side");
        for (int i = rand() % 3; i > 0; i--)
            give_job(rig, (uint32_t)(rand() % GPUS), rand() % 2 ? DEVICE_NO_NUMBER : 8, i % 2 ? "1" : "2");
        for (size_t gpu = 0; gpu < GPUS; gpu++) {
            const bool told = rand() % 2;

            rig->gpus[gpu].instance_count = (size_t)(rand() % 2 * (rand() % (INSTANCES + 1)));
            rig->gpus[gpu].process_count = 0;
            for (uint32_t i = (uint32_t)(rand() % 9); i > 0; i--) {
                const uint32_t pid = (uint32_t)(gpu * 100) + 10 - i;
                ProcessOwner *who = rand() % 4 ? start(rig, gpu, pid, users[rand() % 3]) : NULL;
                NodeProcess *process =
                    who ? &rig->listed[gpu][rig->gpus[gpu].process_count - 1] : add_hidden(rig, gpu, pid);
                char uid[16];

                process->sm_percent = UINT8_MAX;
                if (told)
                    process->sm_percent = (uint8_t)(rand() % 101);
                if (rig->gpus[gpu].instance_count) {
                    process->gpu_instance = 7 + (uint32_t)(rand() % INSTANCES);
                    process->compute_instance = rand() % 2 ? 0 : DEVICE_NO_NUMBER;
                }
                snprintf(uid, sizeof uid, "uid-%s", pods[rand() % 4]);
                if (who && rand() % 2)
                    set_pod(who, uid, rand() % 2 ? "aaaa" : "bbbb");
                else if (who && rand() % 3 == 0)
                    snprintf(who->job, sizeof who->job, "%d.%d", 1 + rand() % 3, rand() % 2);
            }
        }
        look(rig, NS_PER_S); /* checks the sums */
        size_t processes = 0, listed = 0;
        for (size_t i = 0; i < rig->count; i++) {
            processes += rig->at[i].process_count;
            sampled += rig->at[i].attribution == ATTRIBUTION_SAMPLED;
            several += rig->at[i].share < 1;
            for (size_t k = 0; k < rig->at[i].process_count; k++)
                assert_true(rig->at[i].processes[k].pid / 100 == rig->at[i].gpu);
            for (size_t k = 0; k < i; k++)
                assert_false(rig->at[i].gpu == rig->at[k].gpu && rig->at[i].gpu_instance == rig->at[k].gpu_instance &&
                             owner_is_same(&rig->at[i].owner, &rig->at[k].owner) && owner_is_known(&rig->at[i].owner));
        }
        for (size_t gpu = 0; gpu < GPUS; gpu++)
            for (size_t i = 0; i < rig->gpus[gpu].process_count; i++)
                listed += rig->gpus[gpu].instance_count == 0 ||
                          rig->listed[gpu][i].gpu_instance - 7 < rig->gpus[gpu].instance_count;
        assert_int_equal(processes, listed); /* each process is counted once */
    }
    assert_true(sampled > 100 && several > 1000); /* the rounds are not all trivial */
}

/* What the API server says of a pod's owner comes before its name. */
static void the_workload_of_a_pod(void **state)
{
    Rig *rig = *state;
    Allocation row = {.pod = "train-5d4b8c7f9-x7k2p", .namespace = "ns", .container = "c", .pod_uid = "uid-a"};

    assert_int_equal(allocation_device_parse("GPU-0", &row.device), 0);
    allocation_table_add(&rig->pods, &row);
    rig->pods_told = true;
    look(rig, NS_PER_S);
    assert_int_equal(rig->count, 1);
    assert_string_equal(rig->at[0].workload.kind, "Deployment");
    assert_string_equal(rig->at[0].workload.name, "train");
    assert_true(rig->at[0].workload.derived);
    allocation_table_clear(&rig->pods);
    row.owner_kind = "PyTorchJob";
    row.owner_name = "big-train";
    allocation_table_add(&rig->pods, &row);
    look(rig, NS_PER_S);
    assert_string_equal(rig->at[0].workload.kind, "PyTorchJob");
    assert_string_equal(rig->at[0].workload.name, "big-train");
    assert_false(rig->at[0].workload.derived);
    row = (Allocation){.pod = "other", .namespace = "ns", .pod_uid = "uid-b", .owner_kind = "Job", .owner_name = "b"};
    allocation_table_clear(&rig->pods);
    assert_int_equal(allocation_device_parse("GPU-1", &row.device), 0);
    allocation_table_add(&rig->pods, &row);
    row = (Allocation){.pod = "train-5d4b8c7f9-x7k2p", .namespace = "ns", .container = "c", .pod_uid = "uid-a"};
    assert_int_equal(allocation_device_parse("GPU-0", &row.device), 0);
    allocation_table_add(&rig->pods, &row);
    look(rig, NS_PER_S);
    assert_int_equal(rig->count, 2);
    assert_string_equal(rig->at[0].workload.name, "train");
    assert_string_equal(rig->at[1].workload.name, "b");
}

int main(void)
{
#define RIG_TEST(test) cmocka_unit_test_setup_teardown(test, open_rig, close_rig)
    const struct CMUnitTest tests[] = {
        RIG_TEST(a_whole_gpu),
        RIG_TEST(a_gpu_held_idle_and_one_reserved),
        RIG_TEST(mig_instances),
        RIG_TEST(time_sliced_replicas),
        RIG_TEST(a_sharer_that_only_holds),
        RIG_TEST(mps_clients_behind_their_server),
        RIG_TEST(two_containers_of_a_pod),
        RIG_TEST(two_containers_on_one_gpu),
        RIG_TEST(two_containers_with_their_names),
        RIG_TEST(slurm_steps_of_one_job),
        RIG_TEST(gpus_by_the_environment_of_a_job),
        RIG_TEST(a_job_that_has_ended),
        RIG_TEST(mig_devices_by_the_environment_of_a_job),
        RIG_TEST(who_holds_a_gpu_unlisted),
        RIG_TEST(what_slurm_says_of_a_job),
        RIG_TEST(a_job_on_a_gpu_that_it_was_not_given),
        RIG_TEST(a_process_outside_everything),
        RIG_TEST(a_pod_on_a_gpu_that_it_was_not_given),
        RIG_TEST(a_dead_owner),
        RIG_TEST(a_reused_pid),
        RIG_TEST(a_pid_namespace_that_hides),
        RIG_TEST(a_pid_namespace_without_a_list),
        RIG_TEST(a_pid_namespace_without_a_list_of_instances),
        RIG_TEST(a_lost_gpu_keeps_its_owners),
        RIG_TEST(without_a_list_of_processes),
        RIG_TEST(shares_sum_to_one),
        RIG_TEST(the_workload_of_a_pod),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
