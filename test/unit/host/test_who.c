/* SPDX-License-Identifier: Apache-2.0 */
/* Covers proc/who.c, model/process.c, and host.c's looks at processes. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/cleanup.h"
#include "kit.h"
#include "source/host/host.h"
#include "source/proc/who.h"

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define UID "8f0e1d2c-3b4a-5968-7788-99aabbccddee"

/* Paths as the runtimes make them: by cgroupfs and by systemd, in cgroup v1 and v2. */
static const struct {
    const char *text, *runtime, *container, *pod_uid, *job;
} cgroups[] = {
    {"0::/user.slice/user-1000.slice/session-3.scope\n", "", "", "", ""},
    {"0::/\n", "", "", "", ""},
    {"", "", "", "", ""},
    {"no colons\n:\n::\n", "", "", "", ""},
    {"0::/system.slice/docker-" ID ".scope\n", "docker", ID, "", ""},
    {"12:memory:/docker/" ID "\n11:cpu:/docker/" ID "\n", "docker", ID, "", ""},
    {"0::/machine.slice/libpod-" ID ".scope/container\n", "podman", ID, "", ""},
    {"0::/machine.slice/libpod-conmon-" ID ".scope\n", "", "", "", ""},
    {"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod8f0e1d2c_3b4a_5968_7788_99aabbccddee.slice/"
     "cri-containerd-" ID ".scope\n",
     "containerd", ID, UID, ""},
    {"0::/kubepods.slice/kubepods-pod8f0e1d2c_3b4a_5968_7788_99aabbccddee.slice/crio-" ID ".scope\n", "cri-o", ID, UID,
     ""},
    {"5:pids:/kubepods/besteffort/pod" UID "/" ID "\n", "", ID, UID, ""},
    {"0::/../../kubepods/pod0123456789abcdef0123456789abcdef/" ID "\n", "", ID, "0123456789abcdef0123456789abcdef", ""},
    {"0::/kubepods/podnouid/" ID "\n", "", ID, "", ""},
    {"0::/kubepods/pod" UID "x/\n", "", "", "", ""},
    {"0::/kubepods/pod8f0e1d2c-3b4a-5968-7788$99aabbccddee/\n", "", "", "", ""},
    {"0::/lxc.payload.web-1/init.scope\n", "lxc", "web-1", "", ""},
    {"3:cpu:/lxc/web-1\n", "lxc", "web-1", "", ""},
    {"3:cpu:/lxc/web\033[2J\n", "", "", "", ""},
    {"4:memory:/slurm/job_4711/step_\033[2J\n", "", "", "", "4711"},
    {"4:memory:/slurm/uid_1000/job_4711/step_0/task_1\n", "", "", "", "4711.0"},
    {"0::/system.slice/slurmstepd.scope/job_4711/step_batch/user/task_0\n", "", "", "", "4711.batch"},
    {"0::/system.slice/node7_slurmstepd.scope/job_4711\n", "", "", "", "4711"},
    {"0::/builds/job_4711/step_0\n", "", "", "", ""}, /* somebody else's jobs */
    {"0::/slurm/job_47x1\n", "", "", "", ""},
    {"1:name=systemd:/user.slice\n9:memory:/docker/" ID "\n", "docker", ID, "", ""},
    /* hybrid, as Debian's slurmd 22.05 makes it: the freezer alone, with the node's name */
    {"9:name=systemd:/\n8:pids:/\n6:freezer:/slurm_gpu0/uid_0/job_1/step_0\n5:devices:/\n4:memory:/a/b\n0::/\n", "", "",
     "", "1.0"},
    /* a step in some hierarchies only; other jobs' are none of it */
    {"9:memory:/slurm/uid_0/job_47\n8:cpuset:/slurm/uid_0/job_47/step_extern/task_0\n", "", "", "", "47.extern"},
    {"9:memory:/slurm/uid_0/job_47\n8:cpuset:/slurm/uid_0/job_471/step_0\n", "", "", "", "47"},
    {"9:memory:/slurm/uid_0/job_47/step_1\n8:cpuset:/slurm/uid_0/job_47\n", "", "", "", "47.1"},
    {"0::/system.slice/slurmstepd.scope/job_4711/step_interactive/user/task_0\n", "", "", "", "4711.interactive"},
    {"0::/system.slice/slurmstepd.scope/job_4711/step_0+1/user/task_0\n", "", "", "", "4711.0+1"},
    /* slurmd in a container, or in a pod: each hierarchy says a part */
    {"9:memory:/docker/" ID "\n6:freezer:/docker/" ID "/slurm_gpu0/uid_0/job_1/step_batch\n", "docker", ID, "",
     "1.batch"},
    {"0::/kubepods.slice/kubepods-pod8f0e1d2c_3b4a_5968_7788_99aabbccddee.slice/cri-containerd-" ID
     ".scope/system.slice/slurmstepd.scope/job_9/step_0/user/task_0\n",
     "containerd", ID, UID, "9.0"},
    /* a user names cgroups of their own after somebody's job */
    {"0::/user.slice/user-1000.slice/user@1000.service/slurmstepd.scope/job_4711/step_0\n", "", "", "", ""},
    {"0::/user.slice/user-1000.slice/user@1000.service/user.slice/docker-" ID ".scope\n", "docker", ID, "", ""},
    {"0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID ".scope/container\n", "podman", ID, "",
     ""},
    {"0::/machine.slice/machine-libpod_pod_" ID ".slice/libpod-" ID ".scope\n", "podman", ID, "", ""},
    {"0::/system.slice/web.service/libpod-payload-" ID "\n", "podman", ID, "", ""},
    {"0::/system.slice/nerdctl-" ID ".scope\n", "containerd", ID, "", ""},
    {"3:cpu:/default/" ID "\n", "", ID, "", ""},
    {"0::/system.slice/ollama.service\n", "", "", "", ""},
    /* the runtime and the kubelet do not agree who names cgroups */
    {"11:memory:/system.slice/containerd.service/kubepods-burstable-pod8f0e1d2c_3b4a_5968_7788_99aabbccddee.slice:"
     "cri-containerd:" ID "\n",
     "containerd", ID, UID, ""},
    {"11:memory:/kubepods-pod8f0e1d2c_3b4a_5968_7788_99aabbccddee.slice:crio:" ID "\n", "cri-o", ID, UID, ""},
    /* a kubelet with a --cgroup-root, in a container itself */
    {"0::/docker/" ID "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/"
     "kubelet-kubepods-besteffort-pod8f0e1d2c_3b4a_5968_7788_99aabbccddee.slice/cri-containerd-" ID ".scope\n",
     "containerd", ID, UID, ""},
    {"5:pids:/kubepods/burstable/pod" UID "/crio-" ID "\n", "cri-o", ID, UID, ""},
};

static void what_a_cgroup_is_named_after(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cgroups); i++) {
        ProcessOwner owner;

        process_owner_init(&owner, 1);
        process_cgroup(cgroups[i].text, &owner);
        assert_string_equal(owner.runtime, cgroups[i].runtime);
        assert_string_equal(owner.container, cgroups[i].container);
        assert_string_equal(owner.pod_uid, cgroups[i].pod_uid);
        assert_string_equal(owner.job, cgroups[i].job);
    }
}

#define DOCKER "/system.slice/docker-" ID ".scope"
#define OTHER_ID "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"
#define POD "/kubepods.slice/kubepods-pod8f0e1d2c_3b4a_5968_7788_99aabbccddee.slice/cri-containerd-"
#define V1 "12:memory:/docker/" ID "\n11:cpu:/docker/" ID "\n1:name=systemd:/docker/" ID "\n0::/\n"
#define OWN "/user.slice/user-1000.slice/user@1000.service"

static const struct {
    const char *one, *other;
    bool shared;
} pairs[] = {
    {"0::" DOCKER "\n", "0::" DOCKER "\n", true},
    {"0::" DOCKER "/exec\n", "0::" DOCKER "/init.scope\n", true},
    {V1, V1, true},
    {"0::" POD ID ".scope\n", "0::" POD ID ".scope\n", true},
    {"0::/lxc.payload.web/init.scope\n", "0::/lxc.payload.web/system.slice\n", true},
    {"0::/system.slice/slurmstepd.scope/job_47/step_0/user/task_0\n",
     "0::/system.slice/slurmstepd.scope/job_47/step_extern/user/task_0\n", true},
    {"0::" OWN "/docker-" ID ".scope\n", "0::" OWN "/docker-" ID ".scope\n", true}, /* without root */
    /* another container of the machine, of the pod; another job */
    {"0::" DOCKER "\n", "0::/system.slice/docker-" OTHER_ID ".scope\n", false},
    {"0::" POD ID ".scope\n", "0::" POD OTHER_ID ".scope\n", false},
    {"0::/system.slice/slurmstepd.scope/job_47\n", "0::/system.slice/slurmstepd.scope/job_471\n", false},
    {"0::/lxc.payload.web\n", "0::/lxc.payload.web-1\n", false},
    /* a name that a user gave to cgroups of their own */
    {"0::" OWN "/system.slice/docker-" ID ".scope\n", "0::" DOCKER "\n", false},
    {"0::" OWN "/slurmstepd.scope/job_47\n", "0::" OWN "/slurmstepd.scope/job_47\n", false},
    {"12:memory:/docker/" ID "\n", "11:cpu:/docker/" ID "\n", false},
    /* a container in the container; two jobs of a slurmd in a container */
    {"0::" DOCKER "\n", "0::" DOCKER "/docker/" OTHER_ID "\n", false},
    {"9:memory:/docker/" ID "\n6:freezer:/docker/" ID "/slurm/uid_0/job_1\n",
     "9:memory:/docker/" ID "\n6:freezer:/docker/" ID "/slurm/uid_0/job_2\n", false},
    /* in none, of one user; cut; empty */
    {"0::/user.slice/user-1000.slice/session-3.scope\n", "0::/user.slice/user-1000.slice/session-3.scope\n", false},
    {"0::/\n", "0::/\n", false},
    {"0::/slurm/job_47", "0::/slurm/job_47\n", false},
    {"no colons\n:\n::\n", "no colons\n:\n::\n", false},
    {"", "", false},
};

static void whose_cgroup_is_that_of_another(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++)
        if (process_cgroup_is_shared(pairs[i].one, pairs[i].other) != pairs[i].shared ||
            process_cgroup_is_shared(pairs[i].other, pairs[i].one) != pairs[i].shared)
            fail_msg("%s and %s", pairs[i].one, pairs[i].other);
}

static int begin(void **state)
{
    static Tree tree;

    tree_new(&tree);
    tree_task(&tree, 20, "tra\033in (x\xc2\x9b\xff\xc3\xa9", 'R', "0");
    tree_file(&tree, "proc/20/status", "Name:\ttrain\nUmask:\t0022\nUid:\t1000\t1001\t1000\t1000\nGid:\t5\n");
    tree_file(&tree, "proc/20/cgroup", "0::/slurm/uid_1000/job_4711/step_0\n");
    tree_file(&tree, "proc/20/cmdline", "python%ctrain.py%c--name%ca\033b%c", 0, 0, 0, 0);
    tree_file(&tree, "etc/passwd", "root:x:0:0::/root:/bin/sh\nbroken\nx:y\nalice:x:1000:1000:A:/home/a:/bin/sh\n");
    *state = &tree;
    return 0;
}

static int end(void **state)
{
    tree_free(*state);
    return 0;
}

static void all_of_one_process(void **state)
{
    const Tree *tree = *state;
    ProcessOwner who;
    Err err = {0};

    assert_int_equal(process_identify(tree->root, 20, false, &who, &err), 0);
    assert_int_equal(who.pid, 20);
    assert_true(who.start_ns > 0 && who.rss_bytes > 0 && who.state == 'R');
    assert_int_equal(who.uid, 1000);
    assert_string_equal(who.job, "4711.0");
    assert_string_equal(who.name, "tra?in (x???\xc3\xa9"); /* U+009B moves the cursor of some terminals */
    assert_string_equal(who.command, "");
    assert_true(who.written_bytes == UINT64_MAX); /* proc(5): not for other users */
    tree_file(tree, "proc/20/io",
              "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6000\n"
              "cancelled_write_bytes: 7\n");
    assert_int_equal(process_identify(tree->root, 20, false, &who, &err), 0);
    assert_int_equal(who.written_bytes, 6000);
    assert_int_equal(process_identify(tree->root, 20, true, &who, &err), 0);
    assert_string_equal(who.command, "python train.py --name a?b");
}

static void one_that_is_known_keeps_its_owner(void **state)
{
    const Tree *tree = *state;
    PodNames names = {0};
    ProcessOwner who;

    process_owner_init(&who, 20);
    process_owners_fill(tree->root, &names, &who, 1);
    assert_string_equal(who.job, "4711.0");
    who.children = 3;
    who.cpu_ns = 1;
    who.written_bytes = 6000;
    tree_file(tree, "proc/20/cgroup", "0::/slurm/uid_1000/job_4712/step_0\n");
    process_owners_fill(tree->root, &names, &who, 1);
    assert_string_equal(who.job, "4711.0");
    assert_int_equal(who.children, 0);
    assert_true(who.cpu_ns > 1);
    assert_true(who.written_bytes == UINT64_MAX); /* it cannot be read now */
    tree_task(tree, 20, "another program", 'R', "0");
    process_owners_fill(tree->root, &names, &who, 1);
    assert_string_equal(who.job, "4712.0");
    tree_file(tree, "proc/20/cgroup", "0::/slurm/uid_1000/job_4713/step_0\n");
    who.start_ns--; /* another process had this pid */
    process_owners_fill(tree->root, &names, &who, 1);
    assert_string_equal(who.job, "4713.0");
    pod_names_done(&names);
}

static void the_command_of_a_real_one(void **state)
{
    ProcessOwner who;
    Err err = {0};

    (void)state;
    assert_int_equal(process_identify("", (uint32_t)getpid(), true, &who, &err), 0);
    assert_non_null(strstr(who.command, "test_host_who"));
    assert_int_equal(who.uid, getuid());
    assert_true(who.start_ns > 1 && who.cpu_ns < NS_PER_H);
}

static void one_that_is_gone(void **state)
{
    const Tree *tree = *state;
    ProcessOwner who;
    Err err = {0};

    assert_int_equal(process_identify(tree->root, 21, true, &who, &err), -ENOENT);
    assert_true(who.pid == 21 && who.start_ns == 0 && who.uid == UINT32_MAX && !who.name[0]);
}

static void names_of_users(void **state)
{
    const Tree *tree = *state;
    UserNames *names = user_names_read(tree->root);
    char name[PROCESS_USER_CAP];

    user_name(names, 1000, name);
    assert_string_equal(name, "alice");
    user_name(names, 0, name);
    assert_string_equal(name, "root");
    user_name(names, 77, name);
    assert_string_equal(name, "77");
    user_name(names, UINT32_MAX, name);
    assert_string_equal(name, "");
    user_names_free(names);
    tree_gone(tree, "etc/passwd");
    names = user_names_read(tree->root);
    user_name(names, 1000, name);
    assert_string_equal(name, "1000");
    user_names_free(names);
}

static ProcessList wait_for(Host *host, uint64_t now_ns, size_t count)
{
    while (host_processes(host).len != count) {
        host_tick(host, now_ns, NULL, 0);
        usleep(1000);
    }
    return host_processes(host);
}

/* It may be put into another cgroup. */
static void a_look_finds_a_new_owner_in_the_end(void **state)
{
    const Tree *tree = *state;
    const HostConfig config = {.root = tree->root, .period_ns = NS_PER_S};
    const uint32_t pid = 20;
    unsigned same = 0, looks = 0;
    Err err = {0};
    Host *host;

    assert_int_equal(host_open(&config, &host, &err), 0);
    host_set_processes(host, &pid, 1);
    (void)wait_for(host, NS_PER_S, 1);
    tree_file(tree, "proc/20/cgroup", "0::/slurm/uid_1000/job_4712/step_0\n");
    for (uint64_t s = 2; looks < 12; s++, looks++) {
        while (host_facts(host)->time_ns < s * NS_PER_S) {
            host_tick(host, s * NS_PER_S, NULL, 0);
            usleep(1000);
        }
        const ProcessList list = host_processes(host);

        same += strcmp(list.at[0].job, "4711.0") == 0;
        assert_true(strcmp(list.at[0].job, "4711.0") == 0 || strcmp(list.at[0].job, "4712.0") == 0);
    }
    assert_in_range(same, 1, 5);
    host_close(host);
}

static void looks_find_out_who_is_wanted(void **state)
{
    const Tree *tree = *state;
    const HostConfig config = {.root = tree->root, .period_ns = 10 * NS_PER_S};
    const uint32_t first[] = {20, 21, 20}, second[] = {22, 20, 21};
    Err err = {0};
    Host *host;

    assert_int_equal(host_open(&config, &host, &err), 0);
    host_set_processes(host, first, ARRAY_LEN(first));
    ProcessList list = wait_for(host, NS_PER_S, 2);
    assert_string_equal(process_list_find(&list, 20)->user, "alice");
    assert_int_equal(process_list_find(&list, 21)->start_ns, 0);
    assert_null(process_list_find(&list, 22));
    /* the same ones and fewer wait for the next look; one more does not, but for a second after the last look */
    const uint64_t look_ns = host_facts(host)->time_ns;
    tree_task(tree, 22, "late", 'S', "0");
    host_set_processes(host, first, 1);
    host_tick(host, 3 * NS_PER_S, NULL, 0);
    host_set_processes(host, second, ARRAY_LEN(second));
    host_tick(host, NS_PER_S + NS_PER_S / 2, NULL, 0);
    assert_int_equal(host_facts(host)->time_ns, look_ns);
    list = wait_for(host, 3 * NS_PER_S, 3);
    assert_string_equal(process_list_find(&list, 22)->name, "late");
    host_set_processes(host, NULL, 0);
    (void)wait_for(host, 20 * NS_PER_S, 0);
    host_close(host);
}

static void put_in_pod(ProcessOwner *owner, const char *uid)
{
    process_owner_init(owner, 1);
    memcpy(owner->pod_uid, uid, strlen(uid) + 1);
}

static void names_of_pods(void **state)
{
    const Tree *tree = *state;
    PodNames names = {0};
    ProcessOwner owners[3];

    tree_file(tree, "var/log/pods/lab_web-0_" UID "/x", "x");
    tree_file(tree, "var/log/pods/kube-system_etcd_0123456789abcdef0123456789abcdef/x", "x");
    tree_file(tree, "var/log/pods/lab_broken_8f0e/x", "x");
    process_owner_init(&owners[0], 1);
    put_in_pod(&owners[1], UID);
    put_in_pod(&owners[2], "0123456789abcdef0123456789abcdef");
    pod_names_fill(&names, tree->root, owners, ARRAY_LEN(owners));
    assert_string_equal(owners[0].pod, "");
    assert_string_equal(owners[1].pod, "web-0");
    assert_string_equal(owners[1].namespace, "lab");
    assert_string_equal(owners[2].pod, "etcd");
    assert_string_equal(owners[2].namespace, "kube-system");
    /* what is known is not read again; what is not, is */
    tree_gone(tree, "var/log/pods/lab_web-0_" UID "/x");
    tree_gone(tree, "var/log/pods/lab_web-0_" UID);
    put_in_pod(&owners[1], UID);
    pod_names_fill(&names, tree->root, owners, ARRAY_LEN(owners));
    assert_string_equal(owners[1].pod, "web-0");
    put_in_pod(&owners[0], "11111111-2222-3333-4444-555555555555");
    put_in_pod(&owners[1], UID);
    pod_names_fill(&names, tree->root, owners, ARRAY_LEN(owners));
    assert_string_equal(owners[0].pod, "");
    tree_file(tree, "var/log/pods/lab_late_11111111-2222-3333-4444-555555555555/x", "x");
    pod_names_fill(&names, tree->root, owners, ARRAY_LEN(owners));
    assert_string_equal(owners[0].pod, "late");
    pod_names_done(&names);
}

/* The kubelet's links to the logs of containers; the names of others, cut ones and odd ones are left alone. */
static void names_of_containers(void **state)
{
    static const char other[] = "1123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const Tree *tree = *state;
    PodNames names = {.pods.len = 0};
    ProcessOwner owners[3];

    for (size_t i = 0; i < ARRAY_LEN(owners); i++)
        put_in_pod(&owners[i], UID);
    memcpy(owners[0].container, ID, sizeof ID);
    memcpy(owners[1].container, other, sizeof other);
    tree_file(tree, "var/log/containers/web-0_lab_tr_ain-" ID ".log", "x");
    tree_file(tree, "var/log/containers/web-0_lab_-" ID ".log", "x");
    tree_file(tree, "var/log/containers/web-0_lab_" ID ".log", "x");
    tree_file(tree, "var/log/containers/" ID ".log", "x");
    tree_file(tree, "var/log/containers/_", "x");
    pod_names_fill(&names, tree->root, owners, ARRAY_LEN(owners));
    assert_string_equal(owners[0].container_name, "");
    tree_file(tree, "var/log/containers/web-0_lab_data-loader-" ID ".log", "x");
    pod_names_fill(&names, tree->root, owners, ARRAY_LEN(owners));
    assert_string_equal(owners[0].container_name, "data-loader");
    assert_string_equal(owners[1].container_name, "");
    assert_string_equal(owners[2].container_name, "");
    owners[0].pod_uid[0] = '\0'; /* of docker alone */
    owners[0].container_name[0] = '\0';
    pod_names_fill(&names, tree->root, owners, ARRAY_LEN(owners));
    assert_string_equal(owners[0].container_name, "");
    pod_names_done(&names);
}

static void a_look_knows_the_pod(void **state)
{
    const Tree *tree = *state;
    const HostConfig config = {.root = tree->root, .period_ns = NS_PER_S};
    const uint32_t pid = 20;
    Err err = {0};
    Host *host;

    tree_file(tree, "proc/20/cgroup", "0::/kubepods/burstable/pod" UID "/" ID "\n");
    tree_file(tree, "var/log/pods/lab_web-0_" UID "/x", "x");
    assert_int_equal(host_open(&config, &host, &err), 0);
    host_set_processes(host, &pid, 1);
    const ProcessList list = wait_for(host, NS_PER_S, 1);
    assert_string_equal(list.at[0].pod, "web-0");
    assert_string_equal(list.at[0].namespace, "lab");
    host_close(host);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_cgroup_is_named_after),
        cmocka_unit_test(whose_cgroup_is_that_of_another),
        TEST(all_of_one_process),
        TEST(one_that_is_known_keeps_its_owner),
        TEST(a_look_finds_a_new_owner_in_the_end),
        cmocka_unit_test(the_command_of_a_real_one),
        TEST(one_that_is_gone),
        TEST(names_of_users),
        TEST(looks_find_out_who_is_wanted),
        TEST(names_of_pods),
        TEST(names_of_containers),
        TEST(a_look_knows_the_pod),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
