/* SPDX-License-Identifier: Apache-2.0 */
/* Nothing is synced: the tree is made anew at every start. */
#include "sim/node/put.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/file.h"
#include "base/cleanup.h"

#define FRESH ".new~"

static void fail_put(Put *put, const char *what, const char *name)
{
    if (put->rc == 0)
        put->rc = err_errno(put->err, "%s '%s/%s%s%s'", what, put->root, put->dir, put->dir[0] ? "/" : "", name);
}

int put_begin(Put *put, const char *root, Err *err)
{
    *put = (Put){.root = root, .dir_fd = -1, .err = err};
    str_init(&put->line, PUT_FILE_MAX);
    put->root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (put->root_fd < 0)
        put->rc = err_errno(err, "open '%s'", root);
    return put->rc;
}

int put_end(Put *put)
{
    fd_close(&put->dir_fd);
    fd_close(&put->root_fd);
    str_done(&put->line);
    return put->rc;
}

static int open_dir(int root_fd, char *path)
{
    const int fd = openat(root_fd, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 || errno != ENOENT)
        return fd;
    for (char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        int rc = mkdirat(root_fd, path, 0755);
        *slash = '/';
        if (rc < 0 && errno != EEXIST)
            return -1;
    }
    if (mkdirat(root_fd, path, 0755) < 0 && errno != EEXIST)
        return -1;
    return openat(root_fd, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

void put_in(Put *put, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(put->dir, sizeof put->dir, fmt, args);
    va_end(args);
    if (put->rc < 0)
        return;
    fd_close(&put->dir_fd);
    errno = ENAMETOOLONG;
    if (n > 0 && n < PUT_PATH_MAX)
        put->dir_fd = open_dir(put->root_fd, put->dir);
    if (put->dir_fd < 0)
        fail_put(put, "make", "");
}

static bool fresh_name(Put *put, const char *name, char out[NAME_MAX + 1])
{
    if (snprintf(out, NAME_MAX + 1, "%s" FRESH, name) <= NAME_MAX)
        return true;
    errno = ENAMETOOLONG;
    fail_put(put, "write", name);
    return false;
}

/* For a new tree without readers; false if the file exists. */
static bool write_fresh(Put *put, const char *name, const void *data, size_t len, mode_t mode)
{
    CLEANUP_FD int fd = openat(put->dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (fd < 0)
        return false;
    if (file_write_all(fd, data, len) < 0 || fchmod(fd, mode) < 0)
        fail_put(put, "write", name);
    return true;
}

static int create_fresh(const Put *put, const char *fresh)
{
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    const int fd = openat(put->dir_fd, fresh, flags, 0600);
    if (fd >= 0 || errno != EEXIST)
        return fd;
    unlinkat(put->dir_fd, fresh, 0); /* left by one that was killed: may be read-only */
    return openat(put->dir_fd, fresh, flags, 0600);
}

void put_bytes(Put *put, const char *name, const void *data, size_t len, mode_t mode)
{
    char fresh[NAME_MAX + 1];
    if (put->rc < 0 || (put->fresh && write_fresh(put, name, data, len, mode)) || !fresh_name(put, name, fresh))
        return;
    CLEANUP_FD int fd = create_fresh(put, fresh);
    if (fd < 0 || file_write_all(fd, data, len) < 0 || fchmod(fd, mode) < 0 ||
        renameat(put->dir_fd, fresh, put->dir_fd, name) < 0) {
        fail_put(put, "write", name);
        if (fd >= 0)
            unlinkat(put->dir_fd, fresh, 0);
    }
}

PRINTF_LIKE(4, 0)
static void put_format(Put *put, const char *name, const char *end, const char *fmt, va_list args)
{
    if (put->rc < 0)
        return;
    str_clear(&put->line);
    str_addv(&put->line, fmt, args);
    str_add(&put->line, end);
    put_bytes(put, name, put->line.text, put->line.len, 0444);
}

void put_text(Put *put, const char *name, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    put_format(put, name, "", fmt, args);
    va_end(args);
}

void put_line(Put *put, const char *name, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    put_format(put, name, "\n", fmt, args);
    va_end(args);
}

void put_over(Put *put, const char *name, const void *data, size_t len)
{
    if (put->rc < 0)
        return;
    CLEANUP_FD int fd = openat(put->dir_fd, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0 || file_write_all(fd, data, len) < 0 || ftruncate(fd, (off_t)len) < 0)
        fail_put(put, "write", name);
}

void put_link(Put *put, const char *name, const char *target)
{
    char fresh[NAME_MAX + 1];
    if (put->rc < 0 || (put->fresh && symlinkat(target, put->dir_fd, name) == 0) || !fresh_name(put, name, fresh))
        return;
    unlinkat(put->dir_fd, fresh, 0);
    if (symlinkat(target, put->dir_fd, fresh) < 0 || renameat(put->dir_fd, fresh, put->dir_fd, name) < 0)
        fail_put(put, "link", name);
}

void put_device(Put *put, const char *name, mode_t mode, unsigned int major_number, unsigned int minor_number)
{
    if (put->rc < 0)
        return;
    if (major_number && mknodat(put->dir_fd, name, S_IFCHR | mode, makedev(major_number, minor_number)) == 0) {
        if (fchmodat(put->dir_fd, name, mode, 0) < 0) /* whatever the umask */
            fail_put(put, "set the mode of", name);
    } else if (!major_number || errno != EEXIST) {
        put_bytes(put, name, "", 0, mode);
    }
}

void put_gone(Put *put, const char *fmt, ...)
{
    char path[PUT_PATH_MAX];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(path, sizeof path, fmt, args);
    va_end(args);
    if (put->rc < 0 || n <= 0 || n >= PUT_PATH_MAX)
        return;
    put->rc = file_remove_tree(put->root, path, put->err);
}
