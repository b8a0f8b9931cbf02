/* SPDX-License-Identifier: Apache-2.0 */
/* Paths are the kernel's; one that is seen from another cgroup namespace ("/../..") is not used. Files:
 * Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/ of Linux. Memory is what processes asked for (anonymous and
 * shared), as the page cache fills whatever is left of the limit. */
#include "source/proc/job_cgroup.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/duration.h"
#include "base/file.h"
#include "base/number.h"
#include "source/proc/task.h"
#include "source/proc/who.h"

enum { FILE_MAX = 16 << 10, CGROUP_CAP = 8192, CPU_MAX = 1 << 16 };

void job_cgroups_done(JobCgroups *set)
{
    vec_done(&set->jobs);
    vec_done(&set->usages);
}

/* --- where -------------------------------------------------------------------------------------------------------- */

/* Below /sys/fs/cgroup: cgroups(7). */
static const struct {
    const char *controller, *mount;
} trees[JOB_CGROUP_KINDS] = {[JOB_CGROUP_CPU] = {"cpuacct", "/cpuacct"},
                             [JOB_CGROUP_MEMORY] = {"memory", "/memory"},
                             [JOB_CGROUP_CPUSET] = {"cpuset", "/cpuset"}};

static bool has_word(const char *list, size_t len, const char *word)
{
    for (size_t at = 0, n; at < len; at += n + 1) {
        n = strcspn(list + at, ",:");
        if (n == strlen(word) && strncmp(list + at, word, n) == 0)
            return true;
    }
    return false;
}

/* The folder that is named after a job must be named after this one; Slurm 26.05's names tell no number. */
static bool is_of_job(const char *path, size_t len, const char *job)
{
    const size_t digits = strlen(job);
    size_t name = len;

    while (name > 0 && path[name - 1] != '/')
        name--;
    return strncmp(path + name, "job_", 4) != 0 ||
           (len - name == 4 + digits && strncmp(path + name + 4, job, digits) == 0);
}

static void set_path(JobCgroup *cgroup, JobCgroupKind kind, bool v1, const char *path)
{
    const size_t len = process_cgroup_job(path);

    if (cgroup->path[kind][0] || len == 0 || !is_of_job(path, len, cgroup->job))
        return;
    if (snprintf(cgroup->path[kind], JOB_CGROUP_PATH_CAP, "/sys/fs/cgroup%s%.*s", v1 ? trees[kind].mount : "", (int)len,
                 path) >= JOB_CGROUP_PATH_CAP)
        cgroup->path[kind][0] = '\0';
    cgroup->v1[kind] = v1;
}

/* "4:memory:/path", "0::/path" */
static void parse_line(const char *line, JobCgroup *cgroup)
{
    const char *first = strchr(line, ':'), *second = first ? strchr(first + 1, ':') : NULL;

    if (!second)
        return;
    for (JobCgroupKind kind = 0; kind < JOB_CGROUP_KINDS; kind++)
        if (second == first + 1 || has_word(first + 1, (size_t)(second - first - 1), trees[kind].controller))
            set_path(cgroup, kind, second > first + 1, second + 1);
}

static void find_paths(const char *root, uint32_t pid, JobCgroup *cgroup)
{
    char name[16], text[CGROUP_CAP], *rest = NULL;

    snprintf(name, sizeof name, "%u", pid);
    if (proc_text(root, name, "cgroup", text, sizeof text, NULL) < 0)
        return;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        parse_line(line, cgroup);
}

static JobCgroup *find_job(JobCgroups *set, const char *job)
{
    for (size_t i = 0; i < set->jobs.len; i++)
        if (strcmp(set->jobs.at[i].job, job) == 0)
            return &set->jobs.at[i];
    return NULL;
}

static size_t count_paths(const JobCgroup *cgroup)
{
    size_t count = 0;

    for (JobCgroupKind kind = 0; kind < JOB_CGROUP_KINDS; kind++)
        count += cgroup->path[kind][0] != '\0';
    return count;
}

void job_cgroups_note(JobCgroups *set, const char *root, const char *job, uint32_t pid)
{
    JobCgroup found = {.job = ""}, *known;

    snprintf(found.job, sizeof found.job, "%.*s", (int)strcspn(job, "."), job);
    known = find_job(set, found.job);
    if (!found.job[0] || (known && count_paths(known) == JOB_CGROUP_KINDS) ||
        (!known && set->jobs.len == JOB_CGROUPS_MAX))
        return;
    find_paths(root, pid, known ? known : &found);
    if (!known && count_paths(&found) > 0)
        vec_push(&set->jobs, found);
}

/* --- numbers ------------------------------------------------------------------------------------------------------ */

/* False, and nothing in it, where there is no such file. */
static bool read_file(const char *root, const char *path, const char *name, char text[FILE_MAX])
{
    char full[PROC_PATH_CAP];
    Str out;

    str_init_room(&out, text, FILE_MAX);
    text[0] = '\0';
    return snprintf(full, sizeof full, "%s%s/%s", root, path, name) < (int)sizeof full &&
           file_read(full, FILE_MAX - 1, &out, NULL) == 0;
}

/* The number behind `key`, which begins a line; NaN where it is none, as "max". */
static double find_number(const char *text, const char *key)
{
    const size_t len = strlen(key);
    uint64_t value;

    while (strncmp(text, key, len) != 0) {
        text = strchr(text, '\n');
        if (!text)
            return NAN;
        text++;
    }
    text += len + strspn(text + len, " ");
    return number_parsen_u64(text, strspn(text, "0123456789"), 0, UINT64_MAX, &value, NULL) < 0 ? (double)NAN
                                                                                                : (double)value;
}

static double read_number(const char *root, const char *path, const char *name, const char *key, char text[FILE_MAX])
{
    return read_file(root, path, name, text) ? find_number(text, key) : (double)NAN;
}

static void count_one(void *at, uint64_t cpu)
{
    (void)cpu;
    ++*(double *)at;
}

/* "0-3,8": 5; NaN for an empty list, or another text. */
static double count_cpus(const char *list)
{
    double count = 0;

    return number_walk_list(list, CPU_MAX, count_one, &count) && count > 0 ? count : (double)NAN;
}

static double read_cpu(const JobCgroup *cgroup, const char *root, char text[FILE_MAX])
{
    const char *path = cgroup->path[JOB_CGROUP_CPU];

    return cgroup->v1[JOB_CGROUP_CPU] ? read_number(root, path, "cpuacct.usage", "", text) / NS_PER_S
                                      : read_number(root, path, "cpu.stat", "usage_usec ", text) / 1e6;
}

/* Those that the job was bound to. In v2 one without a list of its own may use its parent's, and was bound to none. */
static double read_cpus(const JobCgroup *cgroup, const char *root, char text[FILE_MAX])
{
    const char *path = cgroup->path[JOB_CGROUP_CPUSET];
    const double own = read_file(root, path, "cpuset.cpus", text) ? count_cpus(text) : (double)NAN;

    if (cgroup->v1[JOB_CGROUP_CPUSET] || !isfinite(own))
        return own;
    return read_file(root, path, "cpuset.cpus.effective", text) ? count_cpus(text) : (double)NAN;
}

static double read_node_memory(const char *root, char text[FILE_MAX])
{
    return 1024 * read_number(root, "/proc", "meminfo", "MemTotal:", text);
}

/* The least of its own and those of the cgroups above it. */
static double read_limit_v2(const char *cgroup, const char *root, char text[FILE_MAX])
{
    static const size_t top = sizeof "/sys/fs/cgroup" - 1;
    char path[JOB_CGROUP_PATH_CAP];
    double least = NAN;

    snprintf(path, sizeof path, "%s", cgroup);
    for (char *end = strrchr(path, '/'); strlen(path) > top; end = strrchr(path, '/')) {
        least = fmin(least, read_number(root, path, "memory.max", "", text));
        *end = '\0';
    }
    return least;
}

static void read_memory(const JobCgroup *cgroup, const char *root, char text[FILE_MAX], HostUsage *usage)
{
    const bool v1 = cgroup->v1[JOB_CGROUP_MEMORY];
    const char *path = cgroup->path[JOB_CGROUP_MEMORY];

    if (!read_file(root, path, "memory.stat", text))
        return;
    const double asked = find_number(text, v1 ? "total_rss " : "anon "),
                 shared = find_number(text, v1 ? "total_shmem " : "shmem ");
    usage->memory_bytes = asked + (isfinite(shared) ? shared : 0);
    const double limit = v1 ? find_number(text, "hierarchical_memory_limit ") : read_limit_v2(path, root, text);
    usage->memory_limit_bytes = fmin(limit, read_node_memory(root, text));
}

/* Whether anything of it is there. */
static bool read_usage(const JobCgroup *cgroup, const char *root, char text[FILE_MAX], HostUsage *ret)
{
    *ret = (HostUsage){.cpu_s = NAN, .cpus = NAN, .memory_bytes = NAN, .memory_limit_bytes = NAN};
    memcpy(ret->job, cgroup->job, sizeof ret->job);
    if (cgroup->path[JOB_CGROUP_CPU][0])
        ret->cpu_s = read_cpu(cgroup, root, text);
    if (cgroup->path[JOB_CGROUP_CPUSET][0])
        ret->cpus = read_cpus(cgroup, root, text);
    if (cgroup->path[JOB_CGROUP_MEMORY][0])
        read_memory(cgroup, root, text, ret);
    return isfinite(ret->cpu_s) || isfinite(ret->cpus) || isfinite(ret->memory_bytes);
}

void job_cgroups_read(JobCgroups *set, const char *root)
{
    CLEANUP_FREE char *text = xcalloc(FILE_MAX, 1);
    HostUsage usage;

    vec_clear(&set->usages);
    for (size_t i = set->jobs.len; i-- > 0;) {
        if (read_usage(&set->jobs.at[i], root, text, &usage))
            vec_push(&set->usages, usage);
        else
            vec_remove(&set->jobs, i);
    }
}
