/* SPDX-License-Identifier: Apache-2.0 */
/* The processes in the tree's /proc, read with the readers of the agent. Covers tree_processes.c. */
#include "tree_kit.h"

#include <string.h>

#include "base/duration.h"
#include "base/cleanup.h"
#include "sim/core/control.h"
#include "sim/core/state.h"
#include "source/host/host.h"
#include "source/proc/who.h"

#define NODE(cgroups)                                                                                                  \
    "about: x\ntruth: []\nnode: {seed: 3, cgroups: " cgroups "}\n"                                                     \
    "gpus: {board: h100-sxm-80gb, count: 4}\n"                                                                         \
    "work:\n"                                                                                                          \
    "  - {name: a, kind: train, gpus: 0, process: a very long name (x), user: alice, job: 4711.2, start: 10s,\n"       \
    "     stop: 60s}\n"                                                                                                \
    "  - {name: b, kind: decode, gpus: 1, process: vllm, user: root, pod: serving/chat}\n"                             \
    "  - {name: c, kind: inference, gpus: 2, user: 4242, container: docker, command: ./c --n 2}\n"                     \
    "  - {name: d, kind: idle-context, gpus: 3, user: carol, then: [{time: 20s, kind: decode}]}\n"

static NodeTree tree;

static void begin(Kit *kit)
{
    kit_ok(node_tree_write(kit->image, kit_path(kit, "n"), sim_clock_now(kit->image), 0, &tree, &kit->err), kit);
}

/* Goes on to this second. */
static int at(Kit *kit, double s)
{
    sim_clock_advance(kit->image, (uint64_t)(s * 1e9) - sim_clock_now(kit->image));
    int rc = node_tree_update(&tree, sim_clock_now(kit->image), &kit->err);
    kit_ok(rc, kit);
    return rc;
}

static ProcessOwner who(Kit *kit, int32_t work)
{
    ProcessOwner owner;
    UserNames *users = user_names_read(kit_path(kit, "n"));
    PodNames pods = {0};

    (void)process_identify(kit_path(kit, "n"), sim_work_pid(kit->image, work), true, &owner, NULL);
    user_name(users, owner.uid, owner.user);
    pod_names_fill(&pods, kit_path(kit, "n"), &owner, 1);
    pod_names_done(&pods);
    user_names_free(users);
    return owner;
}

/* All kinds of owners, however cgroups are named. */
static void check_owners(const char *yaml, bool by_systemd)
{
    Kit *kit = kit_new(yaml);
    begin(kit);
    at(kit, 15);
    const ProcessOwner job = who(kit, 0), pod = who(kit, 1), docker = who(kit, 2), plain = who(kit, 3);
    assert_string_equal(job.name, "a very long nam");
    assert_string_equal(job.user, "alice");
    assert_string_equal(job.job, "4711.2");
    assert_string_equal(job.command, "a very long name (x)");
    assert_string_equal(pod.user, "root");
    assert_string_equal(pod.runtime, by_systemd ? "containerd" : ""); /* a bare id does not tell */
    assert_int_equal(strlen(pod.container), 64);
    assert_int_equal(strlen(pod.pod_uid), 36);
    assert_string_equal(pod.pod, "chat");
    assert_string_equal(pod.namespace, "serving");
    assert_string_equal(docker.user, "4242"); /* of a directory service */
    assert_string_equal(docker.runtime, "docker");
    assert_int_equal(strlen(docker.container), 64);
    assert_string_equal(docker.command, "./c --n 2");
    assert_string_equal(plain.user, "carol");
    assert_true(!plain.job[0] && !plain.container[0] && !plain.pod_uid[0]);
    kit_free(kit);
}

static void test_owners_of_every_kind(void **state)
{
    (void)state;
    check_owners(NODE("systemd"), true);
    check_owners(NODE("cgroupfs"), false);
    check_owners(NODE("v1"), false);
}

static void test_they_come_and_go(void **state)
{
    (void)state;
    Kit *kit = kit_new(NODE("systemd"));
    begin(kit);
    const uint32_t job = sim_work_pid(kit->image, 0);
    assert_false(kit_exists(kit, "n/proc/%u", job));
    assert_int_equal(at(kit, 11), NODE_TREE_CHANGED);
    assert_true(kit_exists(kit, "n/proc/%u/stat", job));
    assert_int_equal(at(kit, 61), NODE_TREE_CHANGED);
    assert_false(kit_exists(kit, "n/proc/%u", job));
    assert_true(kit_exists(kit, "n/var/log/pods/%s", kit->image->works[1].owner.pod));
    kit_apply(kit, (SimOp){.type = SIM_OP_WORK_STOP, .gpu = 1, .a = {1}});
    assert_int_equal(at(kit, 61.1), NODE_TREE_CHANGED);
    assert_false(kit_exists(kit, "n/proc/%u", sim_work_pid(kit->image, 1)));
    assert_false(kit_exists(kit, "n/var/log/pods/%s", kit->image->works[1].owner.pod));
    assert_true(kit_exists(kit, "n/proc/4194305/stat")); /* a service, not on a GPU */
    kit_free(kit);
}

static void test_they_begin_and_compute_by_the_nodes_clock(void **state)
{
    (void)state;
    Kit *kit = kit_new(NODE("systemd"));
    HostBoot boot;
    begin(kit);
    host_boot(kit_path(kit, "n"), &boot);
    at(kit, 15);
    ProcessOwner job = who(kit, 0), early = who(kit, 3);
    const uint64_t epoch_ns = kit->image->epoch_us * 1000;
    assert_int_equal(boot.real_ns + job.start_ns, epoch_ns + 10 * NS_PER_S);
    assert_int_equal(boot.real_ns + early.start_ns, epoch_ns);
    assert_int_equal(job.cpu_ns, 5 * NS_PER_S); /* of one core */
    assert_int_equal(early.cpu_ns, 15 * NS_PER_S / 100);
    assert_true(job.state == 'R' && early.state == 'S');
    assert_true(job.rss_bytes > 500 << 20 && job.rss_bytes < UINT64_C(8) << 30);
    /* the same process goes on in another way: neither its start nor what it used is forgotten */
    at(kit, 30);
    early = who(kit, 3);
    assert_int_equal(sim_work_pid(kit->image, 3), sim_work_pid(kit->image, 4));
    assert_int_equal(boot.real_ns + early.start_ns, epoch_ns);
    assert_int_equal(early.cpu_ns, 20 * NS_PER_S / 100 + 10 * NS_PER_S);
    kit_free(kit);
}

/* Written while no kernel runs: in the pause of each period. A change of the work takes nothing back. */
static void test_they_write_while_no_kernel_runs(void **state)
{
    (void)state;
    Kit *kit = kit_new("about: x\ntruth: []\ngpus: {board: h100-sxm-80gb, count: 2}\nwork:\n"
                       "  - {name: a, kind: train-pausing, gpus: 0, writes: 100MiB, then: [{time: 80s, kind: train}]}\n"
                       "  - {name: b, kind: train-pausing, gpus: 1}\n");
    begin(kit);
    at(kit, 40);
    assert_int_equal(who(kit, 0).written_bytes, 0);
    at(kit, 78);
    const uint64_t pause = who(kit, 0).written_bytes;
    assert_in_range(pause, UINT64_C(780) << 20, UINT64_C(820) << 20);
    assert_int_equal(who(kit, 2).written_bytes, 0);
    at(kit, 100);
    assert_in_range(who(kit, 0).written_bytes, pause, pause + (UINT64_C(100) << 20));
    kit_free(kit);
}

static void test_counters_are_written_four_times_a_second(void **state)
{
    (void)state;
    Kit *kit = kit_new(NODE("systemd"));
    begin(kit);
    assert_int_equal(at(kit, 1), NODE_TREE_CHANGED);
    assert_int_equal(at(kit, 1.1), 0);
    assert_int_equal(at(kit, 1.2), 0);
    assert_int_equal(at(kit, 1.25), NODE_TREE_CHANGED);
    assert_int_equal(at(kit, 1.25), 0); /* time stands still */
    kit_free(kit);
}

/* Whatever happens: the files are those of a tree written now. */
static void test_updates_end_in_what_writing_anew_gives(void **state)
{
    (void)state;
    Kit *kit = kit_new(NODE("systemd"));
    NodeTree other;
    SimWork late = kit->image->works[2];
    begin(kit);
    for (int s = 5; s <= 75; s += 5) {
        if (s == 40) {
            strcpy(late.owner.user, "erin");
            late.uid = 1005;
            late.fixed_pid += 7;
            const int32_t index = sim_work_add(kit->image, &late);
            assert_true(index >= 0);
            kit_apply(kit, (SimOp){.type = SIM_OP_WORK_START, .gpu = SIM_NONE, .a = {index}});
        }
        at(kit, s);
        kit_ok(node_tree_write(kit->image, kit_path(kit, "fresh"), sim_clock_now(kit->image), 0, &other, &kit->err),
               kit);
        tree_assert_same(kit_path(kit, "n"), kit_path(kit, "fresh"));
    }
    assert_non_null(strstr(kit_read(kit, "n/etc/passwd"), "\nerin:x:1005:"));
    kit_free(kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_owners_of_every_kind),
        cmocka_unit_test(test_they_come_and_go),
        cmocka_unit_test(test_they_begin_and_compute_by_the_nodes_clock),
        cmocka_unit_test(test_they_write_while_no_kernel_runs),
        cmocka_unit_test(test_counters_are_written_four_times_a_second),
        cmocka_unit_test(test_updates_end_in_what_writing_anew_gives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
