/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Names of the pods that processes run in. A cgroup tells a pod's UID alone; the kubelet keeps a folder per pod, named
 * after namespace, name and UID (source/proc/poddir.h). It is read only where a UID is not known yet, as a disk
 * may be slow: not for a loop. Any thread, one at a time.
 */

#include <stddef.h>

#include "model/process.h"
#include "source/proc/who.h"

typedef struct PodNames PodNames;

PodNames *pod_names_new(void);
void pod_names_free(PodNames *names); /* accepts NULL */

/* Fills pod and namespace of those in a pod whose folder ROOT/var/log/pods has. */
void pod_names_fill(PodNames *names, const char *root, ProcessOwner *owners, size_t count);

/* All that there is to know of each of these pids but the command line: process_who, user_name and pod_names_fill. */
void process_owners_fill(const char *root, const UserNames *users, PodNames *pods, ProcessOwner *owners, size_t count);
