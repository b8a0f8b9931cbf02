/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The identity of a process: /proc/PID/{stat,comm,status,cgroup}, and the container, pod or Slurm job that its cgroup
 * is named after. Reading a cgroup can wait for the kernel's cgroup lock, reading the command line for the process's
 * memory lock (which a process that hangs in a driver may hold): not for a loop. Any thread.
 */

#include <stdbool.h>

#include "base/err.h"
#include "model/process.h"

/* Fills all but pod and namespace (source/proc/pods.h). `root` stands before "/proc", "" for the real one. A process
 * that is not there any more, or not in our pid namespace, stays as process_owner_init leaves it: -ENOENT or -ESRCH.
 * What of the rest cannot be read stays unknown. */
int process_identify(const char *root, uint32_t pid, bool with_command, ProcessOwner *ret, Err *err);

/* The container, its runtime, the pod's UID and the job, from the text of a cgroup file; "" where it names none. Forms:
 * cgroup v1 and v2; docker, containerd, CRI-O, podman, lxc by cgroupfs and systemd drivers; Kubernetes'
 * kubepods[.slice]; Slurm's job_N/step_N (slurm.conf(5), cgroup.conf(5)). */
void process_cgroup(const char *text, ProcessOwner *owner);

/* Names of users, by ROOT/etc/passwd; a number where it has none, as users of a directory service have: that service
 * is not asked, as it may not answer. In a container that has not the node's own file, all are numbers. */
typedef struct UserNames UserNames;
UserNames *user_names_read(const char *root);
void user_names_free(UserNames *names); /* accepts NULL */
void user_name(const UserNames *names, uint32_t uid, char out[PROCESS_USER_CAP]);
