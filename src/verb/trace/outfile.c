/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a file in one step. */
#include "verb/trace/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/gzip.h"
#include "base/cleanup.h"

enum { BUFFER = 256 * 1024, FILE_MODE = 0666, NAME_TRIES = 100 };

struct OutFile {
    char *path;
    char beside[PATH_MAX]; /* where it lies until it is whole, "" without a name or written directly */
    int fd;
    bool direct;
    Deflate *deflate;
    size_t used;
    char buffer[BUFFER];
};

static int write_bytes(void *context, const void *bytes, size_t len, Err *err)
{
    const OutFile *out = context;

    return file_write_all(out->fd, bytes, len) < 0 ? err_errno(err, "write '%s'", out->path) : 0;
}

static int flush_bytes(OutFile *out, Err *err)
{
    size_t len = out->used;

    out->used = 0;
    return out->deflate ? deflate_write(out->deflate, out->buffer, len, err) : write_bytes(out, out->buffer, len, err);
}

static void directory_of(const char *path, char dir[PATH_MAX])
{
    const char *slash = strrchr(path, '/');

    snprintf(dir, PATH_MAX, "%.*s", slash ? (slash == path ? 1 : (int)(slash - path)) : 1, slash ? path : ".");
}

static int open_new(OutFile *out, Err *err)
{
    char dir[PATH_MAX];

    directory_of(out->path, dir);
    out->fd = open(dir, O_TMPFILE | O_WRONLY | O_CLOEXEC, FILE_MODE);
    if (out->fd >= 0)
        return 0;
    if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)
        return err_errno(err, "create '%s'", out->path);
    if ((size_t)snprintf(out->beside, sizeof out->beside, "%s.XXXXXX", out->path) >= sizeof out->beside)
        return err_set(err, -ENAMETOOLONG, "the name '%.100s...' is too long", out->path);
    out->fd = mkostemp(out->beside, O_CLOEXEC);
    if (out->fd < 0) {
        out->beside[0] = '\0';
        return err_errno(err, "create a file beside '%s'", out->path);
    }
    return 0;
}

static int open_out(OutFile *out, Err *err)
{
    struct stat st;
    bool there = stat(out->path, &st) == 0;

    if (strcmp(out->path, "-") == 0) {
        out->direct = true;
        out->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
        return out->fd < 0 ? err_errno(err, "standard output") : 0;
    }
    if (there && S_ISDIR(st.st_mode))
        return err_set(err, -EISDIR, "'%s' is a folder; name a file in it", out->path);
    if (!there || S_ISREG(st.st_mode))
        return open_new(out, err);
    out->direct = true;
    out->fd = open(out->path, O_WRONLY | O_CLOEXEC);
    return out->fd < 0 ? err_errno(err, "open '%s'", out->path) : 0;
}

int outfile_open(const char *path, OutFile **ret, Err *err)
{
    CLEANUP(outfile_drop_at) OutFile *out = xmalloc(sizeof *out);

    memset(out, 0, offsetof(OutFile, buffer));
    out->fd = -1;
    out->path = xstrdup(path);
    TRY(open_out(out, err));
    if (gzip_is_name(path))
        out->deflate = deflate_new(write_bytes, out);
    *ret = TAKE(out);
    return 0;
}

int outfile_write(void *out_, const char *bytes, size_t len, Err *err)
{
    OutFile *out = out_;

    while (len > 0) {
        size_t part = sizeof out->buffer - out->used;
        part = part < len ? part : len;
        memcpy(out->buffer + out->used, bytes, part);
        out->used += part;
        bytes += part;
        len -= part;
        if (out->used == sizeof out->buffer)
            TRY(flush_bytes(out, err));
    }
    return 0;
}

/* Gives the nameless file a name beside the one it shall have. */
static int name_beside(OutFile *out, Err *err)
{
    char from[64];

    snprintf(from, sizeof from, "/proc/self/fd/%d", out->fd);
    for (int i = 0; i < NAME_TRIES; i++) {
        if ((size_t)snprintf(out->beside, sizeof out->beside, "%s.%d.%d", out->path, (int)getpid(), i) >=
            sizeof out->beside) {
            out->beside[0] = '\0';
            return err_set(err, -ENAMETOOLONG, "the name '%.100s...' is too long", out->path);
        }
        if (linkat(AT_FDCWD, from, AT_FDCWD, out->beside, AT_SYMLINK_FOLLOW) == 0)
            return 0;
        if (errno != EEXIST)
            break;
    }
    int rc = err_errno(err, "name '%s'", out->path);
    out->beside[0] = '\0';
    return rc;
}

static int commit_file(OutFile *out, Err *err)
{
    TRY(flush_bytes(out, err));
    if (out->deflate)
        TRY(deflate_end(out->deflate, err));
    if (out->direct)
        return 0;
    if (!out->beside[0])
        TRY(name_beside(out, err));
    if (rename(out->beside, out->path) < 0)
        return err_errno(err, "rename '%s' to '%s'", out->beside, out->path);
    out->beside[0] = '\0';
    return 0;
}

int outfile_commit(OutFile *out, Err *err)
{
    int rc = commit_file(out, err);

    if (rc == 0 && close(fd_take(&out->fd)) < 0)
        rc = err_errno(err, "close '%s'", out->path);
    outfile_drop(out);
    return rc;
}

void outfile_drop(OutFile *out)
{
    if (!out)
        return;
    fd_close(&out->fd);
    if (out->beside[0])
        unlink(out->beside);
    deflate_free(out->deflate);
    free(out->path);
    free(out);
}
