/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * UIDs and names of pods. The kubelet's pod-resources socket has no UIDs, and a cgroup has nothing but the UID; the
 * kubelet keeps a folder per pod for the logs of its containers, /var/log/pods/<namespace>_<pod>_<uid>, which has both.
 * Names of namespaces and pods hold no underscore. A UID is a UUID, of a static pod (one from a file of the node) 32
 * hexadecimal digits. Anything else in the folder is ignored. Reading it may take as long as the disk does: not for a
 * loop. Any thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/map.h"
#include "model/process.h"
#include "source/proc/who.h"

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

typedef struct PodNames PodNames;

PodNames *pod_names_new(void);
void pod_names_free(PodNames *names); /* accepts NULL */

/* Fills pod and namespace of those in a pod whose folder ROOT/var/log/pods has. */
void pod_names_fill(PodNames *names, const char *root, ProcessOwner *owners, size_t count);

/* All that there is to know of each of these pids but the command line: process_identify, user_name and pod_names_fill.
 */
void process_owners_fill(const char *root, const UserNames *users, PodNames *pods, ProcessOwner *owners, size_t count);
