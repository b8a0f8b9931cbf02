/* SPDX-License-Identifier: Apache-2.0 */
/* source/proc/unlisted.c: who has a GPU open without being listed, and which GPUs the tasks of Slurm's jobs have. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/duration.h"
#include "kit.h"
#include "source/host/host.h"
#include "source/proc/unlisted.h"

static const char stat_line[] = "%d (%s) S %d 1 1 0 -1 0 0 0 0 0 5 6 0 0 20 0 1 0 %d %d 10 0\n";

static Tree tree;

static int begin(void **state)
{
    (void)state;
    tree_new(&tree);
    return 0;
}

static int end(void **state)
{
    (void)state;
    tree_free(&tree);
    return 0;
}

static void start(int pid, const char *name, int parent, int began)
{
    char path[64];

    snprintf(path, sizeof path, "proc/%d/stat", pid);
    tree_file(&tree, path, stat_line, pid, name, parent, began, 1000);
    snprintf(path, sizeof path, "proc/%d/comm", pid);
    tree_file(&tree, path, "%s\n", name);
    snprintf(path, sizeof path, "proc/%d/status", pid);
    tree_file(&tree, path, "Name:\t%s\nUid:\t%d\t1\t1\t1\n", name, strncmp(name, "slurm", 5) == 0 ? 0 : 1000 + pid);
}

static void open_file(int pid, int fd, const char *target)
{
    char path[64];

    snprintf(path, sizeof path, "proc/%d/fd/%d", pid, fd);
    tree_link(&tree, path, target);
}

/* As CUDA does. */
static void open_gpus(int pid, const char *first, const char *second)
{
    open_file(pid, 0, "/dev/null");
    open_file(pid, 1, "/dev/nvidiactl");
    open_file(pid, 2, "/dev/nvidia-uvm");
    open_file(pid, 3, first);
    open_file(pid, 4, second);
}

/* Of the driver's list: each pid. */
static void scan(HostScan *scan, const int *listed)
{
    vec_clear(&scan->processes);
    for (; *listed; listed++)
        process_owner_init(vec_add(&scan->processes), (uint32_t)*listed);
    host_scan_read(tree.root, scan);
}

/* --- open device files -------------------------------------------------------------------------------------------- */

static void who_has_a_gpu_open(void **state)
{
    HostScan seen = {.unlisted.wanted = true};

    (void)state;
    start(20, "python", 1, 1); /* its parent is gone */
    open_gpus(20, "/dev/nvidia3", "/dev/nvidia11");
    start(21, "monitor", 1, 1);
    open_file(21, 3, "/dev/nvidiactl");
    open_file(21, 4, "/dev/nvidia3");
    start(22, "python", 1, 1);
    open_gpus(22, "/dev/nvidia0", "/dev/nvidia1"); /* the driver lists it */
    start(23, "sh", 22, 1);
    start(24, "pt_data_worker", 23, 1);
    open_gpus(24, "/dev/nvidia0", "/dev/nvidia1"); /* inherited */
    start(25, "nvidia-cuda-mps", 1, 1);
    open_gpus(25, "/dev/nvidia0", "/dev/nvidia1");
    start(26, "other", 1, 1);
    open_gpus(26, "/dev/nvidia-caps/nvidia-cap1", "/dev/nvidia-modeset");
    start(27, "odd", 1, 1);
    open_gpus(27, "/dev/nvidia64", "/dev/nvidia1x");
    scan(&seen, (int[]){22, 0});
    assert_int_equal(seen.unlisted.holders.len, 1);
    assert_int_equal(seen.unlisted.holders.at[0].pid, 20);
    assert_int_equal(seen.unlisted.holders.at[0].open_gpus, 1 << 3 | 1 << 11);
    assert_string_equal(seen.unlisted.holders.at[0].name, "python");
    assert_string_equal(seen.unlisted.holders.at[0].user, "1020");
    assert_false(seen.unlisted.denied);
    scan(&seen, (int[]){20, 22, 0}); /* listed now */
    assert_int_equal(seen.unlisted.holders.len, 0);
    scan(&seen, (int[]){0}); /* the loader has no parent that is listed any more */
    assert_int_equal(seen.unlisted.holders.len, 3);
    tree_gone(&tree, "proc/20/fd/3"); /* closed one */
    scan(&seen, (int[]){22, 0});
    assert_int_equal(seen.unlisted.holders.at[0].open_gpus, 1 << 11);
    seen.unlisted.wanted = false;
    scan(&seen, (int[]){0});
    assert_int_equal(seen.unlisted.holders.len, 0);
    host_scan_done(&seen);
}

/* In order, as the kernel lists them. */
static void add_all(Unlisted *u, int first, int last)
{
    unlisted_begin(u);
    for (int pid = first; pid <= last; pid++) {
        char name[16];
        ProcTask task;

        snprintf(name, sizeof name, "%d", pid);
        assert_int_equal(proc_stat(tree.root, name, &task, NULL), 0);
        unlisted_add(u, tree.root, name, &task, &(ProcessList){.at = NULL});
    }
    PodNames names = {.pods.len = 0};
    unlisted_end(u, tree.root, &names, NULL, 0);
    pod_names_done(&names);
}

/* A scan reads so many names of files and no more; the next one goes on, and those found stay. */
static void a_sweep_in_several_scans(void **state)
{
    enum { FIRST = 100, COUNT = 5, FILES = UNLISTED_LINKS_MAX / 2 - 100 };
    CLEANUP(unlisted_done) Unlisted u = {.wanted = true};

    (void)state;
    for (int i = 0; i < COUNT; i++) {
        start(FIRST + i, "python", 1, 1);
        open_gpus(FIRST + i, "/dev/nvidia0", "/dev/nvidia1");
        for (int fd = 5; fd < FILES; fd++)
            open_file(FIRST + i, fd, "/dev/null");
    }
    add_all(&u, FIRST, FIRST + COUNT - 1);
    assert_int_equal(u.holders.len, 2);
    add_all(&u, FIRST, FIRST + COUNT - 1);
    assert_int_equal(u.holders.len, 4);
    tree_gone(&tree, "proc/100/fd/2");
    add_all(&u, FIRST, FIRST + COUNT - 1);
    assert_int_equal(u.holders.len, COUNT);
    add_all(&u, FIRST, FIRST + COUNT - 1); /* from the first again */
    assert_int_equal(u.holders.len, COUNT - 1);
    assert_int_equal(u.holders.at[0].open_gpus, 3);
}

/* Its files may not be read, but those of others may. */
static void what_may_not_be_read_is_said(void **state)
{
    CLEANUP(unlisted_done) Unlisted u = {.wanted = true};
    char path[2 * TREE_PATH_CAP];
    const bool root = geteuid() == 0;

    (void)state;
    start(30, "python", 1, 1);
    open_gpus(30, "/dev/nvidia0", "/dev/nvidia1");
    start(31, "secret", 1, 1);
    open_gpus(31, "/dev/nvidia0", "/dev/nvidia1");
    add_all(&u, 30, 31);
    assert_false(u.denied);
    snprintf(path, sizeof path, "%s/proc/31/fd", tree.root);
    assert_int_equal(chmod(path, 0), 0);
    assert_int_equal(chmod(tree.root, 0755), 0);
    assert_true(!root || seteuid(65534) == 0);
    add_all(&u, 30, 31);
    assert_true(!root || seteuid(0) == 0);
    assert_int_equal(chmod(path, 0755), 0);
    assert_true(u.denied);
    assert_int_equal(u.holders.len, 1);
    assert_int_equal(u.holders.at[0].pid, 30);
}

/* --- tasks of jobs ------------------------------------------------------------------------------------------------ */

static void expect_devices(const HostScan *seen, const char *wanted)
{
    char text[512] = "";

    for (size_t i = 0; i < seen->unlisted.devices.len; i++) {
        const JobDevice *row = &seen->unlisted.devices.at[i];
        const size_t len = strlen(text);

        if (row->device.uuid[0])
            snprintf(text + len, sizeof text - len, "%s:%s ", row->job, row->device.uuid);
        else
            snprintf(text + len, sizeof text - len, "%s:%u ", row->job, row->device.minor);
    }
    assert_string_equal(text, wanted);
}

static void tasks_of_jobs(void **state)
{
    HostScan seen = {.rc = 0};

    (void)state;
    start(20, "slurmd", 1, 1);
    start(30, "slurmstepd", 1, 1);
    start(31, "slurm_script", 30, 1);
    tree_file(&tree, "proc/31/environ", "HOME=/x%cSLURM_JOB_ID=4711%cSLURM_JOB_GPUS=0,3%cCUDA_VISIBLE_DEVICES=0,1%c", 0,
              0, 0, 0);
    tree_file(&tree, "proc/31/cgroup", "0::/system.slice/slurmstepd.scope/job_4711/step_batch\n");
    start(32, "python", 31, 1);
    start(33, "slurmstepd", 1, 1);
    start(34, "slurmstepd", 33, 1); /* not the job's program yet */
    tree_file(&tree, "proc/34/environ", "SLURM_JOB_ID=1%c", 0);
    start(40, "python", 1, 1);
    scan(&seen, (int[]){32, 40, 0});
    scan(&seen, (int[]){32, 40, 0}); /* who slurmstepd is is known from the scan before */
    assert_true(seen.unlisted.slurmd && !seen.unlisted.environ_denied);
    expect_devices(&seen, "4711:0 4711:3 ");
    assert_string_equal(seen.processes.at[0].job, "4711"); /* in no cgroup of a job, but started by its task */
    assert_string_equal(seen.processes.at[1].job, "");
    tree_file(&tree, "proc/31/environ", "SLURM_JOB_ID=9%c", 0); /* read once */
    scan(&seen, (int[]){32, 0});
    expect_devices(&seen, "4711:0 4711:3 ");
    start(31, "slurm_script", 30, 3); /* another process with its pid, which is being loaded */
    tree_file(&tree, "proc/31/environ", "%s", "");
    scan(&seen, (int[]){32, 0});
    expect_devices(&seen, "");
    tree_file(&tree, "proc/31/environ", "SLURM_JOB_ID=8%cSLURM_JOB_GPUS=5%c", 0, 0);
    scan(&seen, (int[]){32, 0});
    expect_devices(&seen, "8:5 ");
    tree_file(&tree, "proc/31/environ", "SLURM_JOB_ID=9%c", 0);
    start(31, "slurm_script", 30, 2); /* another one */
    scan(&seen, (int[]){32, 0});
    expect_devices(&seen, "");
    assert_string_equal(seen.processes.at[0].job, "9");
    start(34, "train", 33, 1);
    tree_file(&tree, "proc/34/environ", "SLURM_JOB_ID=4712%cSLURM_JOB_GPUS=0,1,2%cSLURM_STEP_GPUS=2%c", 0, 0, 0);
    scan(&seen, (int[]){32, 0});
    expect_devices(&seen, "4712:2 ");
    tree_gone(&tree, "proc/34");
    scan(&seen, (int[]){32, 0});
    expect_devices(&seen, "");
    tree_gone(&tree, "proc/20");
    scan(&seen, (int[]){0});
    assert_false(seen.unlisted.slurmd);
    host_scan_done(&seen);
}

static void tick_until(Host *host, uint64_t now_ns)
{
    const uint64_t from_ns = host_facts(host)->time_ns;

    while (host_facts(host)->time_ns == from_ns) {
        host_tick(host, now_ns, NULL, 0);
        usleep(1000);
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* `wanted` in the order of their names. */
static void expect_ended(Host *host, uint64_t now_ns, const char *wanted)
{
    const char *names[20];
    char text[200] = "";
    size_t len = 0;

    host_tick(host, now_ns, NULL, 0);
    const HostUnlisted seen = host_unlisted(host);
    assert_in_range(seen.ended_count, 0, ARRAY_LEN(names));
    for (size_t i = 0; i < seen.ended_count; i++)
        names[i] = seen.ended[i].job;
    qsort(names, seen.ended_count, sizeof names[0], by_name);
    for (size_t i = 0; i < seen.ended_count; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s ", names[i]);
    assert_string_equal(text, wanted);
}

static void start_task(int pid, int began, const char *job, const char *step)
{
    char path[64];

    start(pid, "task", 30, began);
    snprintf(path, sizeof path, "proc/%d/environ", pid);
    tree_file(&tree, path, "SLURM_JOB_ID=1%cSLURM_JOB_GPUS=0%c", 0, 0); /* a user may write over it */
    snprintf(path, sizeof path, "proc/%d/cgroup", pid);
    tree_file(&tree, path, "0::/system.slice/slurmstepd.scope/job_%s/%s/user/task_0\n", job, step);
}

/* Each tick sees it, between scans too; and that it runs again. */
static void the_end_of_a_job(void **state)
{
    const HostConfig config = {.root = tree.root, .period_ns = 1000 * NS_PER_S};
    Err err = {0};
    Host *host = NULL;

    (void)state;
    start(30, "slurmstepd", 1, 1);
    start_task(31, 2, "4711", "step_batch");
    start_task(32, 2, "4712", "step_extern");
    start_task(33, 2, "4713", "step_0");
    assert_int_equal(host_open(&config, &host, &err), 0);
    tick_until(host, NS_PER_S);
    tick_until(host, 1001 * NS_PER_S); /* who slurmstepd is is known from the scan before */
    expect_ended(host, 1002 * NS_PER_S, "");
    tree_gone(&tree, "proc/31");
    tree_gone(&tree, "proc/33"); /* a step: the job goes on */
    expect_ended(host, 1003 * NS_PER_S, "4711 ");
    start(32, "other", 1, 5); /* the pid is used again */
    expect_ended(host, 1004 * NS_PER_S, "4711 4712 ");
    tick_until(host, 2002 * NS_PER_S); /* what was seen of the tasks is forgotten, their end is not */
    expect_ended(host, 2003 * NS_PER_S, "4711 4712 ");
    start_task(34, 9, "4711", "step_batch");
    tick_until(host, 3003 * NS_PER_S);
    expect_ended(host, 3004 * NS_PER_S, "4712 ");
    host_close(host);
}

/* Any user may name a program so: it is Slurm's where it is root's outside of containers, or in the cgroup of a job. */
static void a_name_alone_is_not_slurm(void **state)
{
    static const struct {
        int uid;
        const char *cgroup, *wanted;
    } rows[] = {
        {0, "0::/system.slice/slurmd.service\n", "7:0 "},
        {1000, "0::/user.slice/user-1000.slice/session-2.scope\n", ""},
        {1000, "0::/user.slice/user-1000.slice/user@1000.service/slurmstepd.scope/job_7/step_0\n", ""},
        {1000, "0::/system.slice/slurmstepd.scope/job_7/step_0/slurm\n", "7:0 "},
        {0, "0::/system.slice/docker-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.scope\n", ""},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        HostScan seen = {.rc = 0};

        start(20, "slurmd", 1, 1);
        start(30, "slurmstepd", 1, 1);
        for (int pid = 20; pid <= 30; pid += 10) {
            char path[64];

            snprintf(path, sizeof path, "proc/%d/status", pid);
            tree_file(&tree, path, "Name:\tslurmstepd\nUid:\t%d\t0\t0\t0\n", rows[i].uid);
            snprintf(path, sizeof path, "proc/%d/cgroup", pid);
            tree_file(&tree, path, "%s", rows[i].cgroup);
        }
        start(31, "a", 30, (int)i + 2);
        tree_file(&tree, "proc/31/environ", "SLURM_JOB_ID=7%cSLURM_JOB_GPUS=0%c", 0, 0);
        scan(&seen, (int[]){31, 0});
        scan(&seen, (int[]){31, 0});
        expect_devices(&seen, rows[i].wanted);
        assert_string_equal(seen.processes.at[0].job, rows[i].wanted[0] ? "7" : "");
        assert_int_equal(seen.unlisted.slurmd, rows[i].wanted[0] != '\0');
        host_scan_done(&seen);
    }
}

/* What an environment says, and what of it is believed. */
static void gpus_of_an_environment(void **state)
{
    static const struct {
        const char *visible, *more, *cgroup, *wanted;
    } rows[] = {
        {"0,2", "X=1", "0::/user.slice\n", "7:0 7:2 "},                  /* no cgroup hides devices */
        {"0,2", "X=1", "0::/system.slice/slurmstepd.scope/job_7\n", ""}, /* counted within the cgroup */
        {"GPU-aa,MIG-bb", "SLURM_JOB_GPUS=5", "0::/slurmstepd.scope/job_7\n", "7:GPU-aa 7:MIG-bb "},
        {"0", "SLURM_JOB_GPUS=5", "0::/slurmstepd.scope/job_7\n", "7:5 "},
        {"NoDevFiles", "X=1", "0::/user.slice\n", ""},
        {"", "SLURM_STEP_GPUS=", "0::/user.slice\n", ""},
        {"-1,64,1", "X=1", "0::/user.slice\n", "7:1 "},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        HostScan seen = {.rc = 0};

        start(30, "slurmstepd", 1, 1);
        start(31, "a", 30, (int)i + 2);
        tree_file(&tree, "proc/31/environ", "SLURM_JOB_ID=7%cCUDA_VISIBLE_DEVICES=%s%c%s%c", 0, rows[i].visible, 0,
                  rows[i].more, 0);
        tree_file(&tree, "proc/31/cgroup", "%s", rows[i].cgroup);
        scan(&seen, (int[]){0});
        scan(&seen, (int[]){0});
        expect_devices(&seen, rows[i].wanted);
        host_scan_done(&seen);
    }
}

/* The last variable of an environment that is too long is not believed: a part of it would name fewer GPUs. */
static void an_environment_that_is_too_long(void **state)
{
    enum { BEFORE = sizeof "SLURM_JOB_ID=7" + sizeof "SLURM_JOB_GPUS=0" - 1 };
    char filler[UNLISTED_ENVIRON_MAX];

    (void)state;
    for (int fits = 0; fits < 2; fits++) {
        const size_t len = (size_t)(UNLISTED_ENVIRON_MAX - 1 - BEFORE) - 1 - (fits ? sizeof ",1" - 1 + 1 : 0);
        HostScan seen = {.rc = 0};

        memset(filler, 'x', len);
        filler[len] = '\0';
        start(30, "slurmstepd", 1, 1);
        start(31, "a", 30, 2);
        tree_file(&tree, "proc/31/environ", "SLURM_JOB_ID=7%c%s%cSLURM_JOB_GPUS=0,1%cMORE=%s%c", 0, filler, 0, 0,
                  filler, 0);
        scan(&seen, (int[]){0});
        scan(&seen, (int[]){0});
        expect_devices(&seen, fits ? "7:0 7:1 " : "");
        host_scan_done(&seen);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(who_has_a_gpu_open),
        TEST(a_sweep_in_several_scans),
        TEST(what_may_not_be_read_is_said),
        TEST(tasks_of_jobs),
        TEST(the_end_of_a_job),
        TEST(a_name_alone_is_not_slurm),
        TEST(gpus_of_an_environment),
        TEST(an_environment_that_is_too_long),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
