/* SPDX-License-Identifier: Apache-2.0 */
#include "source/proc/pods.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/owner.h"
#include "base/vec.h"
#include "source/proc/poddir.h"
#include "source/proc/stat.h"

OWNER_POINTER(DIR, closedir);

typedef struct PodName {
    char uid[POD_UID_CAP];
    char key[POD_KEY_MAX + 1]; /* "<namespace>_<name>" */
} PodName;

struct PodNames {
    VEC(PodName) known; /* of those who were asked for last */
};

PodNames *pod_names_new(void)
{
    return xcalloc(1, sizeof(PodNames));
}

void pod_names_free(PodNames *names)
{
    if (!names)
        return;
    vec_done(&names->known);
    free(names);
}

static bool put_name(const PodNames *names, ProcessOwner *owner)
{
    for (size_t i = 0; i < names->known.len; i++) {
        const PodName *name = &names->known.at[i];
        const int namespace_len = (int)strcspn(name->key, "_");

        if (strcmp(name->uid, owner->pod_uid) != 0)
            continue;
        snprintf(owner->namespace, sizeof(owner->namespace), "%.*s", namespace_len, name->key);
        snprintf(owner->pod, sizeof(owner->pod), "%s", name->key + namespace_len + 1);
        return true;
    }
    return false;
}

static bool is_asked(const ProcessOwner *owners, size_t count, const char *uid)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(owners[i].pod_uid, uid) == 0)
            return true;
    return false;
}

static void read_names(PodNames *names, const char *root, const ProcessOwner *owners, size_t count)
{
    char path[PROC_PATH_CAP];
    CLEANUP(closedir_at) DIR *dir = NULL;
    const struct dirent *entry;
    PodName name = {0};
    size_t key_len;

    vec_clear(&names->known);
    if (snprintf(path, sizeof(path), "%s/var/log/pods", root) >= (int)sizeof(path))
        return;
    dir = opendir(path);
    for (size_t i = 0; dir && i < PODDIR_NAMES_MAX && (entry = readdir(dir)); i++) {
        if (!poddir_parse(entry->d_name, &key_len, name.uid) || !is_asked(owners, count, name.uid))
            continue;
        snprintf(name.key, sizeof(name.key), "%.*s", (int)key_len, entry->d_name);
        vec_push(&names->known, name);
    }
}

void pod_names_fill(PodNames *names, const char *root, ProcessOwner *owners, size_t count)
{
    bool all = true;

    for (size_t i = 0; i < count; i++)
        if (owners[i].pod_uid[0])
            all = put_name(names, &owners[i]) && all;
    if (all)
        return;
    read_names(names, root, owners, count);
    for (size_t i = 0; i < count; i++)
        if (owners[i].pod_uid[0])
            (void)put_name(names, &owners[i]);
}

void process_owners_fill(const char *root, const UserNames *users, PodNames *pods, ProcessOwner *owners, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        (void)process_who(root, owners[i].pid, false, &owners[i], NULL);
        user_name(users, owners[i].uid, owners[i].user);
    }
    pod_names_fill(pods, root, owners, count);
}
