/* SPDX-License-Identifier: Apache-2.0 */
/* The stage is a tmpfs on a folder of the tree, moved over the real folder once it is complete. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/owner.h"
#include "sim/node/enter_part.h"

OWNER_POINTER(DIR, closedir);

int path_join(char out[PATH_MAX], const char *a, const char *b, Err *err)
{
    size_t la = strlen(a), lb = strlen(b);
    if (la + 1 + lb >= PATH_MAX)
        return err_set(err, -ENAMETOOLONG, "'%.100s/%.100s' is too long", a, b);
    memcpy(out, a, la);
    out[la] = '/';
    memcpy(out + la + 1, b, lb + 1);
    return 0;
}

bool exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

int each_entry(const char *dir, EntryFn fn, void *arg, Err *err)
{
    CLEANUP(closedir_at) DIR *entries = opendir(dir);
    if (!entries)
        return errno == ENOENT ? 0 : err_errno(err, "open '%s'", dir);
    for (struct dirent *e; (e = readdir(entries));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            TRY(fn(arg, dir, e->d_name, err));
    return 0;
}

int stage_begin(Stage *stage, Err *err)
{
    TRY(path_join(stage->dir, stage->root, ".stage", err));
    if (mkdir(stage->dir, 0755) < 0 && errno != EEXIST)
        return err_errno(err, "make '%s'", stage->dir);
    if (mount("stoker", stage->dir, "tmpfs", MS_NOSUID, "mode=0755") < 0)
        return err_errno(err, "mount a tmpfs on '%s'", stage->dir);
    return 0;
}

int stage_end(Stage *stage, const char *target, Err *err)
{
    return mount(stage->dir, target, NULL, MS_MOVE, NULL) < 0 ? err_errno(err, "mount over '%s'", target) : 0;
}

int bind_at(const char *source, const char *target, Err *err)
{
    return mount(source, target, NULL, MS_BIND | MS_REC, NULL) < 0
               ? err_errno(err, "mount '%.200s' on '%.200s'", source, target)
               : 0;
}

int stage_folder(const Stage *stage, const char *name, const char *source, Err *err)
{
    char path[PATH_MAX];
    TRY(path_join(path, stage->dir, name, err));
    if (mkdir(path, 0755) < 0 && errno != EEXIST)
        return err_errno(err, "make '%s'", path);
    return bind_at(source, path, err);
}

int stage_link(const Stage *stage, const char *name, const char *to, Err *err)
{
    char path[PATH_MAX];
    TRY(path_join(path, stage->dir, name, err));
    return symlink(to, path) < 0 && errno != EEXIST ? err_errno(err, "link '%s'", path) : 0;
}

static int copy_link(const Stage *stage, const char *real, const char *name, Err *err)
{
    char to[PATH_MAX];
    ssize_t n = readlink(real, to, sizeof to - 1);
    if (n < 0)
        return err_errno(err, "read link '%s'", real);
    to[n] = '\0';
    return stage_link(stage, name, to, err);
}

static int copy_file(const char *real, const char *path, Err *err)
{
    CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0)
        return err_errno(err, "make '%s'", path);
    return bind_at(real, path, err);
}

int stage_copy(const Stage *stage, const char *dir, const char *name, Err *err)
{
    char real[PATH_MAX], path[PATH_MAX];
    struct stat st;
    TRY(path_join(real, dir, name, err));
    TRY(path_join(path, stage->dir, name, err));
    if (lstat(real, &st) < 0)
        return errno == ENOENT ? 0 : err_errno(err, "look at '%s'", real); /* gone meanwhile */
    if (S_ISDIR(st.st_mode))
        return stage_folder(stage, name, real, err);
    if (S_ISLNK(st.st_mode))
        return copy_link(stage, real, name, err);
    if ((S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode)) && mknod(path, st.st_mode, st.st_rdev) == 0) {
        if (chown(path, st.st_uid, st.st_gid) == 0 && chmod(path, st.st_mode & 07777) == 0)
            return 0;
        unlink(path);
    }
    return copy_file(real, path, err);
}
