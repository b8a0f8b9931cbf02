/* SPDX-License-Identifier: Apache-2.0 */
/* Covers owner.c: in whose name a scenario's processes run, and what an image keeps of it. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "kit.h"
#include "sim/core/control.h"

#define NODE(cgroups, work)                                                                                            \
    "about: x\nnode: {seed: 7, cgroups: " cgroups "}\ngpus: {board: h100-sxm-80gb, count: 4}\ntruth: []\nwork:\n"      \
    "  - {name: w, kind: train, gpus: 0-1" work "}\n"

static const ScenarioWork *first(Kit *kit, const char *text)
{
    return kit_parse(kit, text)->works;
}

/* The path of the first process, hexadecimal digits of ids and UIDs as 'x'. */
static const char *path_of(const ScenarioWork *work)
{
    static char text[400];
    size_t len = 0;
    for (const char *at = work->cgroup; *at; at++) {
        const bool word = at > work->cgroup && at[-1] == 'o'; /* the 'd' of "pod" is no digit */
        const size_t run = word ? 0 : strspn(at, "0123456789abcdef");
        if (run >= 4) {
            len += (size_t)snprintf(text + len, sizeof text - len, "x%zu", run);
            at += run - 1;
            continue;
        }
        text[len++] = *at;
    }
    text[len] = '\0';
    return text;
}

static void users(void **state)
{
    static const struct {
        const char *user, *name;
        uint32_t uid; /* 0: any but 0 */
    } rows[] = {{"", "ops", 1000},
                {", user: 1001", "alice", 1001},
                {", user: carol", "carol", 1003},
                {", user: 4242", "", 4242},
                {", user: svc_gpu-1", "svc_gpu-1", 0}};
    Kit kit;
    char text[512];
    (void)state;
    kit_init(&kit);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        snprintf(text, sizeof text, NODE("systemd", "%s"), rows[i].user);
        const ScenarioWork *work = first(&kit, text);
        assert_string_equal(work->user, rows[i].name);
        if (rows[i].uid)
            assert_int_equal(work->uid, rows[i].uid);
        else
            assert_true(work->uid >= 100000 && work->uid < 900000);
    }
    assert_int_equal(first(&kit, NODE("systemd", ", user: root"))->uid, 0);
    kit_done(&kit);
}

static void commands(void **state)
{
    Kit kit;
    (void)state;
    kit_init(&kit);
    assert_string_equal(first(&kit, NODE("systemd", ", process: python"))->command, "python -u w.py");
    assert_string_equal(first(&kit, NODE("systemd", ", process: vllm"))->command,
                        "vllm serve /models/w --gpu-memory-utilization 0.95");
    assert_string_equal(first(&kit, NODE("systemd", ", process: gromacs"))->command, "gromacs");
    assert_string_equal(first(&kit, NODE("systemd", ""))->command, "w");
    assert_string_equal(first(&kit, NODE("systemd", ", command: ./a.out -n 4"))->command, "./a.out -n 4");
    kit_done(&kit);
}

/* The forms in which the kubelet, the runtimes and Slurm name cgroups. */
static void paths(void **state)
{
    static const struct {
        const char *cgroups, *work, *path;
    } rows[] = {
        {"systemd", "", "/user.slice/user-x4.slice/session-2.scope"},
        {"systemd", ", job: 4711", "/system.slice/slurmstepd.scope/job_x4/step_0/user/task_0"},
        {"systemd", ", job: 47.batch", "/system.slice/slurmstepd.scope/job_47/step_batch/user/task_0"},
        {"cgroupfs", ", job: 47.3", "/system.slice/slurmstepd.scope/job_47/step_3/user/task_0"},
        {"v1", ", job: 47, user: 1001", "/slurm/uid_x4/job_47/step_0/task_0"},
        {"systemd", ", container: docker", "/system.slice/docker-x64.scope"},
        {"cgroupfs", ", container: docker", "/docker/x64"},
        {"v1", ", container: docker", "/docker/x64"},
        {"systemd", ", container: podman", "/machine.slice/libpod-x64.scope"},
        {"cgroupfs", ", container: podman", "/libpod_parent/libpod-x64"},
        {"systemd", ", container: containerd", "/system.slice/nerdctl-x64.scope"},
        {"systemd", ", pod: a/b",
         "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podx8_x4_x4_x4_x12.slice/"
         "cri-containerd-x64.scope"},
        {"systemd", ", pod: a/b, container: cri-o",
         "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podx8_x4_x4_x4_x12.slice/crio-x64.scope"},
        {"systemd", ", pod: a/b, container: docker",
         "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podx8_x4_x4_x4_x12.slice/docker-x64.scope"},
        {"cgroupfs", ", pod: a/b", "/kubepods/burstable/podx8-x4-x4-x4-x12/x64"},
        {"v1", ", pod: a/b, container: cri-o", "/kubepods/burstable/podx8-x4-x4-x4-x12/crio-x64"},
    };
    Kit kit;
    char text[512];
    (void)state;
    kit_init(&kit);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        snprintf(text, sizeof text, NODE("%s", "%s"), rows[i].cgroups, rows[i].work);
        assert_string_equal(path_of(first(&kit, text)), rows[i].path);
    }
    kit_done(&kit);
}

static void who_shares_a_pod_and_a_container(void **state)
{
    Kit kit;
    const ScenarioWork *works;
    (void)state;
    kit_init(&kit);
    works = first(&kit, NODE("systemd", ", pod: lab/nb"));
    assert_string_equal(works[0].cgroup, works[1].cgroup);
    assert_int_equal(strncmp(works[0].pod, "lab_nb_", 7), 0);
    assert_string_equal(works[0].pod, works[1].pod);
    works = first(&kit, NODE("systemd", ", pod: nb, independent: yes"));
    assert_int_equal(strncmp(works[0].pod, "default_nb-0_", 13), 0);
    assert_int_equal(strncmp(works[1].pod, "default_nb-1_", 13), 0);
    assert_string_not_equal(works[0].cgroup, works[1].cgroup);
    works = first(&kit, NODE("systemd", ", container: docker, independent: yes"));
    assert_string_not_equal(works[0].cgroup, works[1].cgroup);
    works = first(&kit, NODE("systemd", ", job: 7"));
    assert_non_null(strstr(works[1].cgroup, "/job_7/step_0/user/task_1"));
    /* two containers of one pod */
    works = first(&kit, NODE("systemd", ", pod: lab/nb") "  - {name: v, kind: decode, gpus: 2, pod: lab/nb}\n");
    assert_string_equal(works[0].pod, works[2].pod);
    assert_string_not_equal(works[0].cgroup, works[2].cgroup);
    kit_done(&kit);
}

/* No process of this machine can have such a number, and no two works the same. */
static void pids_are_nobodys(void **state)
{
    Kit kit;
    char text[8192];
    size_t len =
        (size_t)snprintf(text, sizeof text, "about: x\ngpus: {board: h100-sxm-80gb, count: 4}\ntruth: []\nwork:\n");
    (void)state;
    kit_init(&kit);
    for (int i = 0; i < SCENARIO_WORKS_MAX; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "- {name: w%d, kind: decode, gpus: all, memory: 1GiB}\n",
                                i);
    const Scenario *s = kit_parse(&kit, text);
    assert_int_equal(s->work_count, SIM_WORK_MAX);
    for (size_t i = 0; i < s->work_count; i++) {
        assert_true(s->works[i].pid >= 4194304);
        for (size_t k = 0; k < i; k++)
            assert_int_not_equal(s->works[i].pid, s->works[k].pid);
    }
    kit_done(&kit);
}

static void an_image_keeps_it(void **state)
{
    static const char *const words[] = {"decode",    "gpus=3",       "name=late",
                                        "user=erin", "pod=lab/late", "container=cri-o"};
    Kit kit;
    SimWork late;
    size_t count;
    uint64_t stop_ns;
    (void)state;
    kit_init(&kit);
    SimImage *image = kit_build(
        &kit, kit_parse(&kit, NODE("cgroupfs", ", user: alice, job: 47.1, then: [{time: 10s, kind: idle-context}]")));
    assert_int_equal(image->cgroups, SIM_CGROUPS_CGROUPFS);
    assert_string_equal(image->works[1].owner.user, "alice");
    assert_string_equal(image->works[1].owner.cgroup, "/system.slice/slurmstepd.scope/job_47/step_1/user/task_1");
    assert_int_equal(image->works[1].before, SIM_NONE);
    assert_int_equal(image->works[3].before, 1);
    assert_int_equal(image->works[3].from_ns, 10 * SIM_NS);
    assert_true(image->works[3].owner.cores < image->works[1].owner.cores);
    if (scenario_work_parse(image, (int)ARRAY_LEN(words), words, &late, 1, &count, &stop_ns, &kit.arena, &kit.err) < 0)
        fail_msg("%s", kit.err.text);
    assert_string_equal(late.owner.user, "erin");
    assert_int_equal(strncmp(late.owner.cgroup, "/kubepods/burstable/pod", 23), 0);
    assert_non_null(strstr(late.owner.cgroup, "/crio-"));
    assert_int_equal(strncmp(late.owner.pod, "lab_late_", 9), 0);
    kit_image_done(image);
    kit_done(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(users),
        cmocka_unit_test(commands),
        cmocka_unit_test(paths),
        cmocka_unit_test(who_shares_a_pod_and_a_container),
        cmocka_unit_test(pids_are_nobodys),
        cmocka_unit_test(an_image_keeps_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
