/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What /proc tells of processes that the driver lists on no GPU: who has a GPU's device file open, and which GPUs Slurm
 * gave to a job, by the environment of the job's tasks (the children of slurmstepd, where that is Slurm's own). A scan
 * of all processes hands each to unlisted_add. The state goes from one scan to the next: a scan reads at most
 * UNLISTED_LINKS_MAX names of open files and goes on from there in the next one, and an environment is read once. No
 * device is opened. One thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"
#include "model/allocation.h"
#include "model/process.h"
#include "source/proc/task.h"
#include "source/proc/who.h"

enum {
    UNLISTED_LINKS_MAX = 2048,
    UNLISTED_HOLDERS_MAX = 64,
    UNLISTED_TASKS_MAX = 1024,
    UNLISTED_DEVICES_MAX = 1024,
    UNLISTED_ENVIRON_MAX = 128 << 10,
};

/* A process that slurmstepd started. */
typedef struct UnlistedTask {
    uint32_t pid;
    uint64_t start_ns;
    char job[PROCESS_JOB_CAP]; /* "" its environment names none */
    char
        ends[PROCESS_JOB_CAP]; /* the job that ends with it: of its batch script, or of what stands for the whole job */
    bool seen;                 /* in the scan under way */
} UnlistedTask;

typedef struct Unlisted {
    bool wanted; /* look for open device files too; the caller's */

    VEC(ProcessOwner) holders; /* by pid; open_gpus says of which */
    bool denied;               /* the open files of a process could not be read: that takes root */
    bool slurmd;               /* it runs */
    bool environ_denied;       /* the environment of a task could not be read */
    VEC(JobDevice) devices;    /* of each job each once, unless two tasks name it */

    /* of the sweep */
    uint32_t next_pid, stopped_pid; /* 0: from the first; none */
    size_t links;                   /* that may still be read */
    VEC(ProcessOwner) fresh;
    VEC(UnlistedTask) tasks;
    VEC(uint32_t) steppers, fresh_steppers; /* pids of slurmstepd in the last scan, and in this one */
} Unlisted;

void unlisted_done(Unlisted *unlisted); /* accepts a zeroed one */

/* Around a scan; `listed` are the processes that the driver lists, by pid. unlisted_end identifies the holders and
 * gives their job to those listed that are in no cgroup of a job and were started by a job's task. */
void unlisted_begin(Unlisted *unlisted);
void unlisted_add(Unlisted *unlisted, const char *root, const char *pid, const ProcTask *task,
                  const ProcessList *listed);
void unlisted_end(Unlisted *unlisted, const char *root, PodNames *names, ProcessOwner *listed, size_t count);
