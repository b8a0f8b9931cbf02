/* SPDX-License-Identifier: Apache-2.0 */
/* Names come from whoever may write there: they are matched, never trusted and never opened. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "base/cleanup.h"
#include "base/vec.h"
#include "source/proc/pods.h"
#include "source/proc/task.h"

enum { UUID_LEN = 36, HASH_LEN = 32, NAMESPACE_MAX = 63, POD_MAX = 253 };

static bool is_uid(const char *text)
{
    static const char hex[] = "0123456789abcdefABCDEF";
    static const size_t groups[] = {8, 4, 4, 4, 12};
    size_t len = strlen(text);

    if (len == HASH_LEN)
        return strspn(text, hex) == HASH_LEN;
    if (len != UUID_LEN)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(groups); i++) {
        if (strspn(text, hex) != groups[i] || text[groups[i]] != (i + 1 < ARRAY_LEN(groups) ? '-' : '\0'))
            return false;
        text += groups[i] + 1;
    }
    return true;
}

/* Bytes of a name of Kubernetes up to the first other byte: lower case letters, digits, dashes, and dots in pods'. */
static size_t name_len(const char *text, bool dots)
{
    return strspn(text, dots ? "abcdefghijklmnopqrstuvwxyz0123456789-." : "abcdefghijklmnopqrstuvwxyz0123456789-");
}

bool poddir_parse(const char *name, size_t *ret_key_len, char uid[POD_UID_CAP])
{
    size_t namespace_len = name_len(name, false), pod_len;
    const char *pod = name + namespace_len + 1;

    if (!namespace_len || namespace_len > NAMESPACE_MAX || name[namespace_len] != '_')
        return false;
    pod_len = name_len(pod, true);
    if (!pod_len || pod_len > POD_MAX || pod[pod_len] != '_' || !is_uid(pod + pod_len + 1))
        return false;
    *ret_key_len = namespace_len + 1 + pod_len;
    memcpy(uid, pod + pod_len + 1, strlen(pod + pod_len + 1) + 1);
    return true;
}

bool poddir_make_key(const char *namespace, const char *pod, char key[PODDIR_KEY_ROOM])
{
    size_t namespace_len = name_len(namespace, false), pod_len = name_len(pod, true);

    if (!namespace_len || namespace_len > NAMESPACE_MAX || namespace[namespace_len] || !pod_len || pod_len > POD_MAX ||
        pod[pod_len])
        return false;
    (void)snprintf(key, PODDIR_KEY_ROOM, "%s_%s", namespace, pod);
    return true;
}

static uint64_t statx_ns(struct statx_timestamp at)
{
    return at.tv_sec < 0 ? 0 : (uint64_t)at.tv_sec * NS_PER_S + at.tv_nsec;
}

/* 0 with when the folder was made, 1 where it is none or has gone meanwhile. A ctime also moves when something is made
 * or removed in the folder: with it, the folder that is being removed can look like the newer one. */
static int stat_folder(int dir_fd, const char *name, uint64_t *ret_made_ns, Err *err)
{
    struct statx seen;

    if (statx(dir_fd, name, AT_SYMLINK_NOFOLLOW, STATX_TYPE | STATX_CTIME | STATX_BTIME, &seen) < 0)
        return errno == ENOENT ? 1 : err_errno(err, "look at a folder");
    if (!S_ISDIR(seen.stx_mode))
        return 1;
    *ret_made_ns = statx_ns(seen.stx_mask & STATX_BTIME ? seen.stx_btime : seen.stx_ctime);
    return 0;
}

static int read_pod_folder(int dir_fd, const char *name, const Map *pods, Err *err)
{
    char uid[POD_UID_CAP];
    uint64_t made_ns = 0;
    size_t key_len;
    PodDir *pod;
    int rc;

    if (!poddir_parse(name, &key_len, uid) || !(pod = map_getn(pods, name, key_len)))
        return 0;
    rc = stat_folder(dir_fd, name, &made_ns, err);
    if (rc != 0)
        return rc;
    /* by name where both are of one instant, so that it is always the same one */
    if (!pod->uid[0] || made_ns > pod->made_ns || (made_ns == pod->made_ns && strcmp(uid, pod->uid) > 0)) {
        memcpy(pod->uid, uid, sizeof(uid));
        pod->made_ns = made_ns;
    }
    return 0;
}

int poddir_read(const char *path, const Map *pods, Err *err)
{
    CLEANUP(closedir_at) DIR *dir = opendir(path);
    const struct dirent *entry;
    size_t names = 0;

    if (!dir)
        return err_errno(err, "open '%s'", path);
    for (;;) {
        errno = 0;
        entry = readdir(dir);
        if (!entry)
            return errno ? err_errno(err, "read '%s'", path) : 0;
        if (++names > PODDIR_NAMES_MAX)
            return err_set(err, -E2BIG, "'%s' holds more than %d names", path, PODDIR_NAMES_MAX);
        if (read_pod_folder(dirfd(dir), entry->d_name, pods, err) < 0)
            return err_add(err, "'%s'", path);
    }
}

typedef struct PodName {
    char uid[POD_UID_CAP];
    char key[POD_KEY_MAX + 1]; /* "<namespace>_<name>" */
} PodName;

struct PodNames {
    VEC(PodName) known; /* of the last request */
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

static bool set_pod_name(const PodNames *names, ProcessOwner *owner)
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
            all = set_pod_name(names, &owners[i]) && all;
    if (all)
        return;
    read_names(names, root, owners, count);
    for (size_t i = 0; i < count; i++)
        if (owners[i].pod_uid[0])
            (void)set_pod_name(names, &owners[i]);
}

void process_owners_fill(const char *root, const UserNames *users, PodNames *pods, ProcessOwner *owners, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        (void)process_identify(root, owners[i].pid, false, &owners[i], NULL);
        user_name(users, owners[i].uid, owners[i].user);
    }
    pod_names_fill(pods, root, owners, count);
}
