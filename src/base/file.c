/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files and trees. Removal walks with descriptors and O_NOFOLLOW, so that nobody can put a link in its way. */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"

enum { READ_STEP = 16 * 1024 };

/* Appends what is left in fd. One byte more than `max` is asked for, to see that there is more. */
static int read_all(int fd, const char *path, size_t max, Str *out, Err *err)
{
    size_t before = out->len;
    char step[READ_STEP];

    for (;;) {
        size_t room = max - (out->len - before);
        size_t want = room < sizeof(step) ? room + 1 : sizeof(step);
        ssize_t got = read(fd, step, want);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_errno(err, "read '%s'", path);
        if (got == 0)
            return 0;
        if ((size_t)got > room || !str_reserve(out, (size_t)got))
            return err_set(err, -EFBIG, "'%s' is larger than %zu bytes", path, max < out->max ? max : out->max);
        str_addn(out, step, (size_t)got);
    }
}

int file_read(const char *path, size_t max, Str *out, Err *err)
{
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    size_t before = out->len;
    bool overflow = out->overflow;
    int rc;

    if (fd < 0)
        return err_errno(err, "open '%s'", path);
    rc = read_all(fd, path, max, out, err);
    if (rc < 0) {
        str_cut(out, before);
        out->overflow = overflow;
    }
    return rc;
}

int file_write_all(int fd, const void *data, size_t len)
{
    const char *at = data;

    while (len) {
        ssize_t wrote = write(fd, at, len);

        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return -1;
        at += wrote;
        len -= (size_t)wrote;
    }
    return 0;
}

/* The directory of `path` ("." for a bare name, "/" under the root) into dir[PATH_MAX]. */
static void directory_of(const char *path, char dir[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    size_t len = slash ? (size_t)(slash - path) : 0;

    if (!slash)
        strcpy(dir, ".");
    else if (!len)
        strcpy(dir, "/");
    else
        *(char *)mempcpy(dir, path, len) = '\0';
}

/* After a rename, its directory is what must reach the disk. */
static int sync_directory(const char *path, Err *err)
{
    char dir[PATH_MAX];
    CLEANUP_FD int fd = -1;

    directory_of(path, dir);
    fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_errno(err, "open directory '%s'", dir);
    /* Some file systems cannot sync a directory and say EINVAL: then there is nothing more to do. */
    if (fsync(fd) < 0 && errno != EINVAL)
        return err_errno(err, "sync directory '%s'", dir);
    return 0;
}

static int fill_file(int fd, const char *path, const void *data, size_t len, mode_t mode, Err *err)
{
    if (file_write_all(fd, data, len) < 0)
        return err_errno(err, "write '%s'", path);
    if (fchmod(fd, mode) < 0)
        return err_errno(err, "set the mode of '%s'", path);
    if (fsync(fd) < 0)
        return err_errno(err, "sync '%s'", path);
    return 0;
}

int file_write(const char *path, const void *data, size_t len, mode_t mode, Err *err)
{
    char beside[PATH_MAX];
    CLEANUP_FD int fd = -1;
    struct stat st;
    int rc;

    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return err_set(err, -EINVAL, "'%s' is no file but a device or a pipe, which a file would replace", path);
    if ((size_t)snprintf(beside, sizeof(beside), "%s.XXXXXX", path) >= sizeof(beside))
        return err_set(err, -ENAMETOOLONG, "path '%.200s...' is too long", path);
    fd = mkostemp(beside, O_CLOEXEC);
    if (fd < 0)
        return err_errno(err, "create a file beside '%s'", path);
    rc = fill_file(fd, beside, data, len, mode, err);
    if (!rc && rename(beside, path) < 0)
        rc = err_errno(err, "rename '%s' to '%s'", beside, path);
    if (rc < 0) {
        unlink(beside);
        return rc;
    }
    return sync_directory(path, err);
}

static int make_dir(const char *path, mode_t mode, Err *err)
{
    struct stat st;

    if (mkdir(path, mode) == 0)
        return 0;
    if (errno != EEXIST)
        return err_errno(err, "create directory '%s'", path);
    if (stat(path, &st) < 0)
        return err_errno(err, "look at '%s'", path);
    if (!S_ISDIR(st.st_mode))
        return err_set(err, -ENOTDIR, "'%s' is there and no directory", path);
    return 0;
}

int file_make_dirs(const char *path, mode_t mode, Err *err)
{
    char part[PATH_MAX];
    size_t len = strlen(path);

    if (!len || len >= sizeof(part))
        return err_set(err, len ? -ENAMETOOLONG : -EINVAL, "'%.200s' is no path of a directory", path);
    memcpy(part, path, len + 1);
    for (char *at = part + 1; *at; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        TRY(make_dir(part, mode, err));
        *at = '/';
    }
    return make_dir(part, mode, err);
}

static int remove_entry(int dir_fd, const char *name, dev_t device, int depth, Err *err);

static int remove_content(int fd, const char *path, dev_t device, int depth, Err *err)
{
    CLEANUP(closedir_at) DIR *dir = NULL;
    CLEANUP_FD int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);

    dir = own >= 0 ? fdopendir(own) : NULL;
    if (!dir)
        return err_errno(err, "read directory '%s'", path);
    (void)fd_take(&own);
    for (;;) {
        struct dirent *entry;

        errno = 0;
        entry = readdir(dir);
        if (!entry)
            return errno ? err_errno(err, "read directory '%s'", path) : 0;
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
            continue;
        if (remove_entry(fd, entry->d_name, device, depth + 1, err) < 0)
            return err_add(err, "in '%s'", path);
    }
}

static int remove_entry(int dir_fd, const char *name, dev_t device, int depth, Err *err)
{
    CLEANUP_FD int fd = -1;
    struct stat st;
    int rc;

    if (depth > FILE_DEPTH_MAX)
        return err_set(err, -E2BIG, "'%s' lies deeper than %d directories", name, FILE_DEPTH_MAX);
    if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return err_errno(err, "remove '%s'", name);
    fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_errno(err, "open directory '%s'", name);
    if (st.st_dev != device)
        return err_set(err, -EXDEV, "'%s' is on another file system", name);
    rc = remove_content(fd, name, device, depth, err);
    if (rc < 0)
        return rc;
    if (unlinkat(dir_fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        return err_errno(err, "remove directory '%s'", name);
    return 0;
}

/* True if each part of a relative path is a plain name. */
static bool is_inside(const char *path)
{
    if (!*path)
        return false;
    for (const char *part = path;;) {
        size_t len = strcspn(part, "/");

        if (!len || (len == 1 && part[0] == '.') || (len == 2 && !memcmp(part, "..", 2)) || len > NAME_MAX)
            return false;
        if (!part[len])
            return true;
        part += len + 1;
    }
}

int file_remove_tree(const char *root, const char *path, Err *err)
{
    CLEANUP_FD int fd = -1;
    struct stat st;

    if (!is_inside(path))
        return err_set(err, -EINVAL, "'%.200s' is no path inside '%.200s'", path, root);
    fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_errno(err, "open directory '%s'", root);
    for (const char *part = path;;) {
        char name[NAME_MAX + 1];
        size_t len = strcspn(part, "/");
        int next;

        memcpy(name, part, len);
        name[len] = '\0';
        if (!part[len])
            return remove_entry(fd, name, st.st_dev, 0, err) < 0 ? err_add(err, "under '%s'", root) : 0;
        next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (next < 0)
            return errno == ENOENT ? 0 : err_errno(err, "open directory '%s' under '%s'", name, root);
        fd_close(&fd);
        fd = next;
        part += len + 1;
    }
}

int file_remove_socket(const char *path, Err *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat st;

    if (lstat(path, &st) < 0)
        return 0;
    if (!S_ISSOCK(st.st_mode))
        return err_set(err, -EEXIST, "'%s' is there and is no socket", path);
    CLEANUP_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    if (fd >= 0 && (connect(fd, (const struct sockaddr *)&address, sizeof address) == 0 || errno == EAGAIN))
        return err_set(err, -EADDRINUSE, "another program listens on '%s'", path);
    (void)unlink(path);
    return 0;
}
