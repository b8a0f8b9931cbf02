/* SPDX-License-Identifier: Apache-2.0 */
/* Whose work is on each GPU, and for how long that is known (verb/agent/owners.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "engine/owner/holdings.h"
#include "verb/agent/owners.h"

enum { GPUS = 2, MOST = 16 };

/* Two GPUs with processes that come and go. */
typedef struct Rig {
    Owners owners;
    Holdings *holdings;
    Node node;
    NodeGpu gpus[GPUS];
    Reading instances[2];
    NodeProcess listed[GPUS][MOST];
    ProcessOwner known[MOST];
    size_t known_count;
    AllocationTable pods;
    JobAllocation jobs[1];
    size_t job_count;
    Owner found[INCIDENT_OWNERS];
} Rig;

static int open_rig(void **state)
{
    static Rig rig;

    memset(&rig, 0, sizeof rig);
    rig.node.gpus = rig.gpus;
    rig.node.gpu_count = GPUS;
    rig.node.time_ns = NS_PER_H;
    for (uint32_t i = 0; i < GPUS; i++) {
        Device *device = &rig.gpus[i].reading.device;

        device_init(device, DEVICE_GPU);
        device->index = i;
        device->has_pci = true;
        device->pci = (PciAddress){.bus = (uint8_t)(1 + i)};
        snprintf(device->uuid, sizeof device->uuid, "GPU-%u", i);
        rig.gpus[i].state = GPU_UP;
        rig.gpus[i].processes = rig.listed[i];
    }
    allocation_table_init(&rig.pods);
    rig.holdings = holdings_new();
    *state = &rig;
    return 0;
}

static int close_rig(void **state)
{
    Rig *rig = *state;

    owners_done(&rig->owners);
    holdings_free(rig->holdings);
    allocation_table_done(&rig->pods);
    return 0;
}

static void look(Rig *rig, uint64_t later_ns)
{
    const Snapshot seen = {.node = &rig->node,
                           .processes = {.at = rig->known, .len = rig->known_count},
                           .allocations = &rig->pods,
                           .jobs = rig->jobs,
                           .job_count = rig->job_count};
    size_t count;

    rig->node.time_ns += later_ns;
    for (size_t i = 0; i < GPUS; i++)
        if (rig->gpus[i].state == GPU_UP)
            sample_set_int64(&rig->gpus[i].process_list, rig->node.time_ns, (int64_t)rig->gpus[i].process_count);
        else
            sample_set_absent(&rig->gpus[i].process_list, rig->node.time_ns, ABSENCE_GPU_LOST);
    holdings_update(rig->holdings, &seen);
    const Holding *holdings = holdings_list(rig->holdings, &count);
    owners_note(&rig->owners, &rig->node, holdings, count);
}

static ProcessOwner *start(Rig *rig, size_t gpu, uint32_t pid, const char *user)
{
    ProcessOwner *who = &rig->known[rig->known_count++];

    process_owner_init(who, pid);
    who->start_ns = pid;
    snprintf(who->user, sizeof who->user, "%s", user);
    snprintf(who->name, sizeof who->name, "p%u", pid);
    rig->listed[gpu][rig->gpus[gpu].process_count++] =
        (NodeProcess){.pid = pid, .gpu_instance = DEVICE_NO_NUMBER, .compute_instance = DEVICE_NO_NUMBER};
    return who;
}

static void end_all(Rig *rig)
{
    rig->known_count = 0;
    for (size_t i = 0; i < GPUS; i++)
        rig->gpus[i].process_count = 0;
}

static uint32_t find(Rig *rig, size_t gpu, int32_t pid)
{
    return owners_find(&rig->owners, &rig->gpus[gpu].reading.device, pid, rig->found);
}

static void a_job_of_a_user(void **state)
{
    Rig *rig = *state;

    snprintf(start(rig, 0, 100, "alice")->job, PROCESS_JOB_CAP, "4712.0");
    snprintf(start(rig, 0, 101, "alice")->job, PROCESS_JOB_CAP, "4712.0"); /* its second rank */
    start(rig, 0, 102, "bob");
    look(rig, 0);
    assert_int_equal(find(rig, 0, -1), 2);
    assert_string_equal(rig->found[0].job, "4712");
    assert_string_equal(rig->found[0].user, "alice");
    assert_string_equal(rig->found[0].process, "p100");
    assert_int_equal(rig->found[0].pid, 100);
    assert_int_equal(rig->found[0].start_ns, 100);
    assert_string_equal(rig->found[1].user, "bob");
    assert_int_equal(find(rig, 0, 102), 2);
    assert_string_equal(rig->found[0].user, "bob");
    assert_int_equal(find(rig, 1, -1), 0);
    assert_int_equal(find(rig, 1, 102), 1); /* wherever it is */
}

/* A fault ends it before the line is read. */
static void one_that_is_gone_is_known_for_a_while(void **state)
{
    Rig *rig = *state;

    start(rig, 0, 100, "alice");
    look(rig, 0);
    end_all(rig);
    look(rig, NS_PER_S);
    assert_int_equal(find(rig, 0, -1), 1);
    look(rig, OWNERS_KEPT_NS - NS_PER_S);
    assert_int_equal(find(rig, 0, -1), 1);
    look(rig, 1);
    assert_int_equal(find(rig, 0, -1), 0);
}

/* The one before is asked for by its pid alone. */
static void who_is_there_now_comes_before_who_was(void **state)
{
    Rig *rig = *state;

    start(rig, 0, 100, "alice");
    look(rig, 0);
    end_all(rig);
    start(rig, 0, 200, "bob");
    look(rig, NS_PER_S);
    assert_int_equal(find(rig, 0, -1), 1);
    assert_string_equal(rig->found[0].user, "bob");
    assert_int_equal(find(rig, 0, 100), 2);
    assert_string_equal(rig->found[0].user, "alice");
}

/* A GPU that cannot be asked has those that it had, for as long as that lasts. */
static void a_lost_gpu_keeps_them(void **state)
{
    Rig *rig = *state;

    start(rig, 0, 100, "alice");
    look(rig, 0);
    rig->gpus[0].state = GPU_LOST;
    end_all(rig);
    for (int i = 0; i < 10; i++)
        look(rig, NS_PER_MIN);
    assert_int_equal(find(rig, 0, -1), 1);
    rig->gpus[0].state = GPU_UP;
    look(rig, NS_PER_S);
    assert_int_equal(find(rig, 0, -1), 0);
}

static void give_pod(Rig *rig, const char *uuid, const char *pod, const char *uid)
{
    Allocation row = {.pod = pod, .namespace = "serving", .container = "main", .pod_uid = uid};

    assert_int_equal(allocation_device_parse(uuid, &row.device), 0);
    allocation_table_add(&rig->pods, &row);
}

static void pods_by_process_and_by_the_kubelet(void **state)
{
    Rig *rig = *state;
    ProcessOwner *who = start(rig, 0, 100, "root");

    snprintf(who->pod_uid, sizeof who->pod_uid, "u1");
    snprintf(who->container, sizeof who->container, "0123456789abcdef");
    give_pod(rig, "GPU-0", "chat-0", "u1");
    give_pod(rig, "GPU-1", "idle-0", "u2");
    look(rig, 0);
    assert_int_equal(find(rig, 0, -1), 1);
    assert_string_equal(rig->found[0].pod, "chat-0");
    assert_string_equal(rig->found[0].namespace, "serving");
    assert_string_equal(rig->found[0].container, "main");
    assert_int_equal(rig->found[0].pid, 100);
    assert_int_equal(find(rig, 1, -1), 1); /* nothing runs there, but it is somebody's */
    assert_string_equal(rig->found[0].pod, "idle-0");
    assert_int_equal(rig->found[0].pid, -1);
    assert_string_equal(rig->found[0].user, "");
}

static void jobs_by_their_files(void **state)
{
    Rig *rig = *state;

    rig->jobs[0] = (JobAllocation){.gpu = 1, .gpu_instance = DEVICE_NO_NUMBER, .job = "99"};
    rig->job_count = 1;
    look(rig, 0);
    assert_int_equal(find(rig, 1, -1), 1);
    assert_string_equal(rig->found[0].job, "99");
    assert_int_equal(find(rig, 0, -1), 0);
}

static void of_the_node_everybody(void **state)
{
    Rig *rig = *state;
    Device node;

    device_init(&node, DEVICE_NODE);
    start(rig, 0, 100, "alice");
    start(rig, 1, 200, "bob");
    start(rig, 1, 201, "alice");
    look(rig, 0);
    assert_int_equal(owners_find(&rig->owners, &node, -1, rig->found), 2);
    for (uint32_t i = 0; i < MOST - 3; i++)
        start(rig, 0, 300 + i, (const char[]){(char)('a' + i), '\0'});
    look(rig, NS_PER_S);
    assert_int_equal(owners_find(&rig->owners, &node, -1, rig->found), INCIDENT_OWNERS + 1);
}

static void of_an_instance_those_in_it(void **state)
{
    Rig *rig = *state;
    Device part = rig->gpus[0].reading.device;

    start(rig, 0, 100, "alice");
    start(rig, 0, 101, "bob");
    rig->gpus[0].instances = rig->instances;
    rig->gpus[0].instance_count = 2;
    for (uint32_t i = 0; i < 2; i++) {
        reading_init(&rig->instances[i], DEVICE_COMPUTE_INSTANCE);
        rig->instances[i].device.gpu_instance = rig->listed[0][i].gpu_instance = 3 + i;
        rig->instances[i].device.compute_instance = rig->listed[0][i].compute_instance = 0;
    }
    look(rig, 0);
    part.kind = DEVICE_GPU_INSTANCE;
    part.gpu_instance = 4;
    assert_int_equal(owners_find(&rig->owners, &part, -1, rig->found), 1);
    assert_string_equal(rig->found[0].user, "bob");
    assert_int_equal(find(rig, 0, -1), 2);
}

/* A process of which /proc tells nothing is nobody's. */
static void an_unknown_process_is_no_owner(void **state)
{
    Rig *rig = *state;

    start(rig, 0, 100, "");
    look(rig, 0);
    assert_int_equal(find(rig, 0, 100), 0);
}

/* What a test finds is told to nobody as the test's user. */
static void a_test_is_no_owner(void **state)
{
    Rig *rig = *state;
    ProcessOwner *test = start(rig, 0, 100, "root");

    snprintf(test->name, sizeof test->name, "stoker-bench");
    look(rig, 0);
    assert_int_equal(find(rig, 0, -1), 0);
}

int main(void)
{
#define ONE(test) cmocka_unit_test_setup_teardown(test, open_rig, close_rig)
    const struct CMUnitTest tests[] = {
        ONE(a_job_of_a_user),
        ONE(one_that_is_gone_is_known_for_a_while),
        ONE(who_is_there_now_comes_before_who_was),
        ONE(a_lost_gpu_keeps_them),
        ONE(pods_by_process_and_by_the_kubelet),
        ONE(jobs_by_their_files),
        ONE(of_the_node_everybody),
        ONE(of_an_instance_those_in_it),
        ONE(an_unknown_process_is_no_owner),
        ONE(a_test_is_no_owner),
    };

    return cmocka_run_group_tests_name("agent owners", tests, NULL, NULL);
}
