/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What jobs of Slurm use of the host's processors and memory: the numbers of the job's own cgroup (v1, or v2), which
 * is found by a process of it and then read until it is gone, also while no process of it is on a GPU. Reading can wait
 * for locks of the kernel: not for a loop. One thread.
 */

#include <stdbool.h>

#include "base/vec.h"
#include "model/owner.h"

enum { JOB_CGROUPS_MAX = 64, JOB_CGROUP_PATH_CAP = 512 };

/* Hierarchies: in v1 each is a tree of its own. */
typedef enum JobCgroupKind { JOB_CGROUP_CPU, JOB_CGROUP_MEMORY, JOB_CGROUP_CPUSET, JOB_CGROUP_KINDS } JobCgroupKind;

typedef struct JobCgroup {
    char job[PROCESS_JOB_CAP]; /* without a step */
    bool v1[JOB_CGROUP_KINDS];
    char path[JOB_CGROUP_KINDS][JOB_CGROUP_PATH_CAP]; /* behind the root; "": the job has none of its own there */
} JobCgroup;

/* A zeroed one is empty. */
typedef struct JobCgroups {
    VEC(JobCgroup) jobs;
    VEC(HostUsage) usages; /* as job_cgroups_read found them */
} JobCgroups;

void job_cgroups_done(JobCgroups *set);

/* Finds the cgroups of a job that are not known yet by ROOT/proc/PID/cgroup; `job` may have a step behind a dot. What
 * is another job's is not believed: the pid may have been used again. */
void job_cgroups_note(JobCgroups *set, const char *root, const char *job, uint32_t pid);

/* Reads all that are known, and forgets those of which nothing is left. */
void job_cgroups_read(JobCgroups *set, const char *root);
