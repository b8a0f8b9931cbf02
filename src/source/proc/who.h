/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The identity of a process: /proc/PID/{stat,comm,status,cgroup}, and the container, pod or Slurm job that its cgroup
 * is named after. Reading a cgroup can wait for the kernel's cgroup lock, io for an exec, reading the command line for
 * the process's memory lock (which a process that hangs in a driver may hold): not for a loop. Any thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/map.h"
#include "base/vec.h"
#include "model/process.h"

/* Fills all but pod and namespace. `root` stands before "/proc", "" for the real one. A process
 * that is not there any more, or not in our pid namespace, stays as process_owner_init leaves it: -ENOENT or -ESRCH.
 * What of the rest cannot be read stays unknown. */
int process_identify(const char *root, uint32_t pid, bool with_command, ProcessOwner *ret, Err *err);

/* The container, its runtime, the pod's UID and the job, from the text of a cgroup file; "" where it names none. Forms:
 * cgroup v1 and v2; docker, containerd, CRI-O, podman, lxc by cgroupfs and systemd drivers; Kubernetes'
 * kubepods[.slice]; Slurm's job_N/step_N (slurm.conf(5), cgroup.conf(5)). */
void process_cgroup(const char *text, ProcessOwner *owner);

/* How much of a cgroup's path leads to the cgroup of a whole job of Slurm's, which that of a process lies in; 0 where
 * it lies in none. */
size_t process_cgroup_job(const char *path);

/* Whether two processes are in the cgroup of one container or one job of Slurm's, by the texts of their cgroup files:
 * the innermost of each, by its whole path, as a user may name cgroups of his own like another's, in each hierarchy
 * that names one. False where one is in none. */
bool process_cgroup_is_shared(const char *a, const char *b);

/* Names of users, by ROOT/etc/passwd; a number where it has none, as users of a directory service have: that service
 * is not asked, as it may not answer. In a container that has not the node's own file, all are numbers. */
typedef struct UserNames UserNames;
UserNames *user_names_read(const char *root);
void user_names_free(UserNames *names); /* accepts NULL */
void user_name(const UserNames *names, uint32_t uid, char out[PROCESS_USER_CAP]);

/*
 * UIDs and names of pods. The kubelet's pod-resources socket has no UIDs, and a cgroup has nothing but the UID; the
 * kubelet keeps a folder per pod for the logs of its containers, /var/log/pods/<namespace>_<pod>_<uid>, which has both.
 * Names of namespaces and pods hold no underscore. A UID is a UUID, of a static pod (one from a file of the node) 32
 * hexadecimal digits. Anything else in the folder is ignored. Reading it may take as long as the disk does.
 */

enum {
    POD_UID_CAP = 37,           /* a UUID and the end */
    POD_KEY_MAX = 63 + 1 + 253, /* "<namespace>_<pod>", a DNS label and a DNS subdomain name */
    PODDIR_NAMES_MAX = 65536,   /* in the folder */
    PODDIR_KEY_ROOM = POD_KEY_MAX + 1,
};

/* The UID of one pod. */
typedef struct PodDir {
    char uid[POD_UID_CAP]; /* "" where unknown */
    uint64_t made_ns;      /* when its folder was, real time */
} PodDir;

/* Splits a folder's name: its first *ret_key_len bytes are "<namespace>_<pod>", `uid` is what follows the second
 * underscore. False, and both untouched, for any other name. */
bool poddir_parse(const char *name, size_t *ret_key_len, char uid[POD_UID_CAP]);

/* Writes the key of a pod. False where no folder can be its own. */
bool poddir_make_key(const char *namespace, const char *pod, char key[PODDIR_KEY_ROOM]);

/* Looks for folders of `pods`, a map from keys to PodDir, and fills these in; of several that differ in the UID alone
 * the one that was made last counts (when it was born, as far as the file system tells, else its ctime). Blocks, for
 * as long as the disk does. -errno where `path` cannot be read, -E2BIG where it holds too many names; some pods may
 * have been filled in then. */
int poddir_read(const char *path, const Map *pods, Err *err);

/* ---- names of the pods that processes run in; read only where a UID is not known yet; one thread at a time ---- */

typedef struct PodName {
    char uid[POD_UID_CAP];
    char key[PODDIR_KEY_ROOM];
} PodName;

typedef struct ContainerName {
    char id[PROCESS_CONTAINER_CAP], name[PROCESS_NAME_CAP];
} ContainerName;

/* Those of the last reading; a zeroed one is empty. */
typedef struct PodNames {
    VEC(PodName) pods;
    VEC(ContainerName) containers;
} PodNames;

void pod_names_done(PodNames *names);

/* Fills pod and namespace of those in a pod whose folder ROOT/var/log/pods has, and the container's name where
 * ROOT/var/log/containers has the kubelet's link <pod>_<namespace>_<container>-<id>.log. */
void pod_names_fill(PodNames *names, const char *root, ProcessOwner *owners, size_t count);

/* All that there is to know of each of these pids but the command line: process_identify, user_name and pod_names_fill.
 * Of one whose program is the one that *owners has already, user and cgroup stay as they were. */
void process_owners_fill(const char *root, PodNames *pods, ProcessOwner *owners, size_t count);
