/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/bench/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/file.h"
#include "verb/verb.h"

static int make_path(const char *root, const char *name, Arena *arena, const char **ret, Err *err)
{
    const char *folder = root ? arena_printf(arena, "%s/run/stoker", root) : verb_runtime_dir(arena);

    if (strchr(name, '/'))
        return err_set(err, -EINVAL, "'%s' cannot be locked", name);
    *ret = arena_printf(arena, "%s/bench-%s.lock", folder, name);
    return file_make_dirs(folder, 0755, err);
}

/* Says who holds it; the file may be empty for a moment. */
static int report_holder(int fd, const char *name, Err *err)
{
    char pid[16] = "";
    const ssize_t n = pread(fd, pid, sizeof pid - 1, 0);

    pid[n > 0 ? n : 0] = '\0';
    err_set(err, -EBUSY, "%s is being tested by process %s", name, pid[0] ? pid : "(unknown)");
    return BENCH_LOCKED;
}

int bench_lock(const char *root, const char *name, Arena *arena, int *ret_fd, Err *err)
{
    const char *path = "";

    TRY(make_path(root, name, arena, &path, err));
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0)
        return err_errno(err, "open '%s'", path);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        const int rc = errno == EWOULDBLOCK ? report_holder(fd, name, err) : err_errno(err, "lock '%s'", path);
        close(fd);
        return rc;
    }
    if (ftruncate(fd, 0) < 0 || dprintf(fd, "%d", (int)getpid()) < 0) {
        const int rc = err_errno(err, "write '%s'", path);
        close(fd);
        return rc;
    }
    *ret_fd = fd;
    return 0;
}
