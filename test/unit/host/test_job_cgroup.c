/* SPDX-License-Identifier: Apache-2.0 */
/* Covers proc/job_cgroup.c and the part of proc/who.c that finds a job's cgroup: trees of both versions. */

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "kit.h"
#include "source/host/host.h"
#include "source/proc/job_cgroup.h"
#include "source/proc/who.h"

#define V2 "/system.slice/slurmstepd.scope/job_4711"
#define ROOT "sys/fs/cgroup"
#define MIB ((uint64_t)1 << 20)

static Tree tree;
static JobCgroups set;

static int begin(void **state)
{
    (void)state;
    tree_new(&tree);
    return 0;
}

static int end(void **state)
{
    (void)state;
    job_cgroups_done(&set);
    memset(&set, 0, sizeof set);
    tree_free(&tree);
    return 0;
}

static void add_process(int pid, const char *cgroup)
{
    char path[64];

    snprintf(path, sizeof path, "proc/%d/cgroup", pid);
    tree_file(&tree, path, "%s\n", cgroup);
}

/* What is read of the job after a process of it was seen; NULL: nothing. */
static const HostUsage *read_job(const char *job, uint32_t pid)
{
    job_cgroups_note(&set, tree.root, job, pid);
    job_cgroups_read(&set, tree.root);
    return host_usage_find(&(HostUsageList){set.usages.at, set.usages.len}, "4711");
}

static void assert_value(double is, double should)
{
    if (!(fabs(is - should) < 1e-9 * fabs(should) || (isnan(is) && isnan(should))))
        fail_msg("%.17g is not %.17g", is, should);
}

static void assert_usage(const HostUsage *usage, double cpu_s, double cpus, double used, double limit)
{
    assert_non_null(usage);
    assert_value(usage->cpu_s, cpu_s);
    assert_value(usage->cpus, cpus);
    assert_value(usage->memory_bytes, used);
    assert_value(usage->memory_limit_bytes, limit);
}

static void put_v2(void)
{
    add_process(70, "0::" V2 "/step_3/user/task_0");
    tree_file(&tree, ROOT V2 "/cpu.stat", "usage_usec 5500000\nuser_usec 5000000\nsystem_usec 500000\n");
    tree_file(&tree, ROOT V2 "/memory.stat",
              "anon 1048576\nfile 99999999\nkernel 5\nanon_thp 7\nshmem 2097152\nshmem_thp 9\n");
    tree_file(&tree, ROOT V2 "/memory.max", "8388608\n");
    tree_file(&tree, ROOT V2 "/cpuset.cpus", "0-3,8,10-11\n");
    tree_file(&tree, ROOT V2 "/cpuset.cpus.effective", "0-3,8\n");
    tree_file(&tree, ROOT "/system.slice/memory.max", "max\n");
    tree_file(&tree, "proc/meminfo", "MemTotal:       16384 kB\nMemFree:  1 kB\n");
}

static void version_2(void **state)
{
    (void)state;
    put_v2();
    assert_usage(read_job("4711.3", 70), 5.5, 5, 3.0 * (double)MIB, 8.0 * (double)MIB);
    /* its parent allows less, then the node has less */
    tree_file(&tree, ROOT "/system.slice/memory.max", "%d\n", 4 << 20);
    assert_usage(read_job("4711", 70), 5.5, 5, 3.0 * (double)MIB, 4.0 * (double)MIB);
    tree_file(&tree, "proc/meminfo", "MemTotal: 2048 kB\n");
    assert_usage(read_job("4711", 70), 5.5, 5, 3.0 * (double)MIB, 2.0 * (double)MIB);
    /* no limit at all */
    tree_file(&tree, ROOT V2 "/memory.max", "max\n");
    tree_gone(&tree, ROOT "/system.slice/memory.max");
    assert_value(read_job("4711", 70)->memory_limit_bytes, 2.0 * (double)MIB);
    tree_gone(&tree, "proc/meminfo");
    assert_value(read_job("4711", 70)->memory_limit_bytes, NAN);
}

/* Processors that the job was not bound to are its parent's: they are not its own. */
static void bound_to_nothing(void **state)
{
    (void)state;
    put_v2();
    tree_file(&tree, ROOT V2 "/cpuset.cpus", "\n");
    assert_usage(read_job("4711", 70), 5.5, NAN, 3.0 * (double)MIB, 8.0 * (double)MIB);
    tree_file(&tree, ROOT V2 "/cpuset.cpus", "0-1\n");
    tree_file(&tree, ROOT V2 "/cpuset.cpus.effective", "0-\n");
    assert_value(read_job("4711", 70)->cpus, NAN);
    tree_gone(&tree, ROOT V2 "/cpuset.cpus");
    tree_gone(&tree, ROOT V2 "/memory.stat"); /* a controller that is off */
    assert_usage(read_job("4711", 70), 5.5, NAN, NAN, NAN);
}

/* It is read on while its processes are on no GPU, until it is gone; then another one is found. */
static void until_it_is_gone(void **state)
{
    (void)state;
    put_v2();
    assert_non_null(read_job("4711", 70));
    tree_gone(&tree, "proc/70");
    tree_file(&tree, ROOT V2 "/cpu.stat", "usage_usec 7000000\n");
    assert_value(read_job("4711", 70)->cpu_s, 7);
    assert_value(read_job("", 1)->cpu_s, 7);
    tree_gone(&tree, ROOT "/system.slice");
    assert_null(read_job("", 1));
    assert_int_equal(set.jobs.len, 0);
    assert_null(read_job("4711", 70));
    put_v2();
    assert_value(read_job("4711", 70)->cpu_s, 5.5);
}

#define V1 "/slurm_n1/uid_1000/job_4711"

static void version_1(void **state)
{
    (void)state;
    add_process(70, "9:name=systemd:/system.slice\n8:cpuset:" V1 "/step_0/task_0\n4:memory:" V1
                    "/step_0/task_0\n2:cpuacct,cpu:" V1 "/step_0\n0::/system.slice/slurmd.service");
    tree_file(&tree, ROOT "/cpuacct" V1 "/cpuacct.usage", "12345678900\n");
    tree_file(&tree, ROOT "/cpuset" V1 "/cpuset.cpus", "2\n");
    tree_file(&tree, ROOT "/memory" V1 "/memory.stat",
              "cache 1\nrss 2\nshmem 3\nhierarchical_memory_limit 8388608\ntotal_cache 50000000\ntotal_rss 1048576\n"
              "total_rss_huge 4\ntotal_shmem 1048576\n");
    tree_file(&tree, "proc/meminfo", "MemTotal:       16384 kB\n");
    assert_usage(read_job("4711.0", 70), 12.3456789, 1, 2.0 * (double)MIB, 8.0 * (double)MIB);
    /* an old kernel tells no shared memory */
    tree_file(&tree, ROOT "/memory" V1 "/memory.stat",
              "hierarchical_memory_limit 9223372036854771712\ntotal_rss 1048576\n");
    assert_usage(read_job("4711.0", 70), 12.3456789, 1, (double)MIB, 16.0 * (double)MIB);
}

/* Slurm made one in the memory hierarchy alone; a later process of it shows another. */
static void some_hierarchies(void **state)
{
    (void)state;
    add_process(70, "8:cpuset:/\n4:memory:" V1 "/step_0\n2:cpu,cpuacct:/\n0::/");
    add_process(71, "8:cpuset:/\n4:memory:" V1 "/step_1\n2:cpu,cpuacct:" V1 "/step_1\n0::/");
    tree_file(&tree, ROOT "/cpuacct" V1 "/cpuacct.usage", "2000000000\n");
    tree_file(&tree, ROOT "/cpuset/cpuset.cpus", "0-63\n"); /* the node's */
    tree_file(&tree, ROOT "/memory" V1 "/memory.stat", "hierarchical_memory_limit 4194304\ntotal_rss 1048576\n");
    assert_usage(read_job("4711", 70), NAN, NAN, (double)MIB, 4.0 * (double)MIB);
    assert_usage(read_job("4711", 71), 2, NAN, (double)MIB, 4.0 * (double)MIB);
}

/* The pid was used again; the process is in no job's cgroup; it is not there. */
static void others(void **state)
{
    (void)state;
    put_v2();
    add_process(71, "0::/system.slice/slurmstepd.scope/job_47112/step_0");
    add_process(72, "0::/system.slice/sshd.service");
    add_process(73, "0::/../..//slurm/job_4711/step_0");
    assert_null(read_job("4711", 71));
    assert_null(read_job("4711", 72));
    assert_null(read_job("4711", 73));
    assert_null(read_job("4711", 74));
    assert_null(read_job("", 70));
    assert_non_null(read_job("4711", 70));
}

static const struct {
    const char *path;
    size_t len;
} paths[] = {
    {V2 "/step_0/user/task_0", sizeof V2 - 1},
    {V2, sizeof V2 - 1},
    {V1 "/step_batch", sizeof V1 - 1},
    {"/system.slice/n1_slurmstepd.scope/s8FXKTA79XAR00/step_batch",
     sizeof "/system.slice/n1_slurmstepd.scope/s8FXKTA79XAR00" - 1},
    {"/system.slice/slurmstepd.scope/system", 0},
    {"/system.slice/slurmstepd.scope/s8fxkta79xar00", 0},
    {"/system.slice/other.scope/s8FXKTA79XAR00", 0},
    {"/user.slice/user-1000.slice/user@1000.service/slurm/job_4711", 0},
    {"/builds/job_4711", 0},
    {"/slurm/job_47x", 0},
    {"/../slurm/job_4711", 0},
    {"/", 0},
    {"", 0},
};

static void where_a_jobs_cgroup_is(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(paths); i++)
        if (process_cgroup_job(paths[i].path) != paths[i].len)
            fail_msg("%s: %zu", paths[i].path, process_cgroup_job(paths[i].path));
}

static void no_more_than_there_is_room_for(void **state)
{
    char job[32], cgroup[128];

    (void)state;
    for (int i = 1; i <= JOB_CGROUPS_MAX + 1; i++) {
        snprintf(job, sizeof job, "%d", i);
        snprintf(cgroup, sizeof cgroup, "0::/system.slice/slurmstepd.scope/job_%d/step_0", i);
        add_process(100 + i, cgroup);
        snprintf(cgroup, sizeof cgroup, ROOT "/system.slice/slurmstepd.scope/job_%d/cpu.stat", i);
        tree_file(&tree, cgroup, "usage_usec %d\n", i);
        job_cgroups_note(&set, tree.root, job, 100 + (uint32_t)i);
    }
    job_cgroups_read(&set, tree.root);
    assert_int_equal(set.usages.len, JOB_CGROUPS_MAX);
}

/* By a process that the driver lists, and by a task of a job that only holds a GPU. */
static void a_scan_reads_jobs_on_gpus(void **state)
{
    HostScan scan = {0};

    (void)state;
    put_v2();
    tree_file(&tree, "proc/70/stat", "70 (python) S 1 1 1 0 -1 0 0 0 0 0 5 6 0 0 20 0 1 0 9 1000 10 0\n");
    host_scan_read(tree.root, &scan);
    assert_int_equal(scan.jobs.usages.len, 0);
    process_owner_init(vec_add(&scan.processes), 70);
    host_scan_read(tree.root, &scan);
    assert_int_equal(scan.jobs.usages.len, 1);
    assert_string_equal(scan.jobs.usages.at[0].job, "4711");
    vec_clear(&scan.processes);
    job_cgroups_done(&scan.jobs);
    memset(&scan.jobs, 0, sizeof scan.jobs);
    vec_push(&scan.unlisted.devices, ((JobDevice){.job = "4711", .pid = 70}));
    host_scan_read(tree.root, &scan);
    assert_int_equal(scan.jobs.usages.len, 1);
    host_scan_done(&scan);
}

int main(void)
{
#define TREED(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        TREED(version_2),
        TREED(bound_to_nothing),
        TREED(until_it_is_gone),
        TREED(version_1),
        TREED(some_hierarchies),
        TREED(others),
        TREED(where_a_jobs_cgroup_is),
        TREED(no_more_than_there_is_room_for),
        TREED(a_scan_reads_jobs_on_gpus),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
