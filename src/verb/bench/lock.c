/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/bench/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/file.h"

enum { PATH_CAP = 512 };

static int make_path(const char *root, const char *name, char path[PATH_CAP], Err *err)
{
    const char *own = getenv("XDG_RUNTIME_DIR");
    char folder[PATH_CAP / 2];

    if (root)
        snprintf(folder, sizeof folder, "%.200s/run/stoker", root);
    else if (geteuid() == 0)
        snprintf(folder, sizeof folder, "/run/stoker");
    else if (own && own[0])
        snprintf(folder, sizeof folder, "%s/stoker", own);
    else
        snprintf(folder, sizeof folder, "/tmp/stoker-%u", (unsigned)geteuid());
    if (strchr(name, '/') || snprintf(path, PATH_CAP, "%s/bench-%s.lock", folder, name) >= PATH_CAP)
        return err_set(err, -EINVAL, "'%s' cannot be locked", name);
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

int bench_lock(const char *root, const char *name, int *ret_fd, Err *err)
{
    char path[PATH_CAP];

    TRY(make_path(root, name, path, err));
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
