/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/top/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/gzip.h"
#include "base/owner.h"
#include "base/str.h"
#include "verb/trace/outfile.h"
#include "version.h"

enum { MODE = 0644, LINE_MAX_BYTES = 64 << 20 };

struct Recorder {
    char *path;
    int fd;
    bool gzip, regular, broken;
    uint64_t bytes, looks;
    Str packed;
};

/* Puts all of it there, or nothing. */
static int put(Recorder *r, const char *bytes, size_t len, Err *err)
{
    for (size_t done = 0; done < len;) {
        const ssize_t n = write(r->fd, bytes + done, len - done);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            const int rc = err_errno(err, "write the recording '%s'", r->path);

            r->broken = true;
            if (r->regular && ftruncate(r->fd, (off_t)r->bytes) < 0)
                err_add(err, "and its last line is cut");
            return rc;
        }
        done += (size_t)n;
    }
    r->bytes += len;
    return 0;
}

static int put_line(Recorder *r, const char *line, size_t len, Err *err)
{
    str_clear(&r->packed);
    if (r->gzip) {
        CLEANUP(str_done) Str whole = {0};

        str_init(&whole, LINE_MAX_BYTES + 1);
        str_addn(&whole, line, len);
        str_addc(&whole, '\n');
        TRY(gzip_pack(whole.text, whole.len, &r->packed, err));
    } else {
        str_addn(&r->packed, line, len);
        str_addc(&r->packed, '\n');
    }
    TRY(str_check(&r->packed, "a look", err));
    return put(r, r->packed.text, r->packed.len, err);
}

static int open_file(Recorder *r, Err *err)
{
    struct stat st;
    const bool there = stat(r->path, &st) == 0;

    if (there && S_ISREG(st.st_mode))
        return err_set(err, -EEXIST, "'%s' is there already; name another file for the recording", r->path);
    r->regular = !there;
    r->fd = there ? open(r->path, O_WRONLY | O_CLOEXEC) : open(r->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, MODE);
    return r->fd < 0 ? err_errno(err, "record to '%s'", r->path) : 0;
}

static int put_head(Recorder *r, uint64_t interval_ns, Err *err)
{
    char head[256], now[CLOCK_TEXT_MAX];

    clock_format(now, clock_real(clock_kernel()));
    const int len = snprintf(head, sizeof head,
                             "{\"format\":\"stoker-top\",\"version\":1,\"program\":\"%s\",\"started\":\"%s\","
                             "\"interval_seconds\":%.3f}",
                             STOKER_VERSION, now, (double)interval_ns / 1e9);

    return put_line(r, head, (size_t)len, err);
}

int recorder_open(const char *path, uint64_t interval_ns, Recorder **ret, Err *err)
{
    Recorder *r = xcalloc(1, sizeof *r);

    r->fd = -1;
    r->path = xstrdup(path);
    r->gzip = outfile_wants_gzip(path);
    str_init(&r->packed, LINE_MAX_BYTES + 1);
    int rc = open_file(r, err);
    if (rc == 0)
        rc = put_head(r, interval_ns, err);
    if (rc < 0) {
        if (r->fd >= 0 && r->regular)
            unlink(path);
        (void)recorder_close(r, NULL);
        return rc;
    }
    *ret = r;
    return 0;
}

int recorder_write(Recorder *r, const char *line, size_t len, Err *err)
{
    if (r->broken)
        return err_set(err, -EIO, "the recording '%s' is over", r->path);
    while (len > 0 && line[len - 1] == '\n')
        len--;
    if (memchr(line, '\n', len))
        return err_set(err, -EINVAL, "a look that is not one line cannot be recorded");
    TRY(put_line(r, line, len, err));
    r->looks++;
    return 0;
}

uint64_t recorder_looks(const Recorder *r)
{
    return r->looks;
}

uint64_t recorder_bytes(const Recorder *r)
{
    return r->bytes;
}

int recorder_close(Recorder *r, Err *err)
{
    int rc = 0;

    if (!r)
        return 0;
    if (r->fd >= 0 && close(owner_take_fd(&r->fd)) < 0)
        rc = err_errno(err, "close the recording '%s'", r->path);
    str_done(&r->packed);
    free(r->path);
    free(r);
    return rc;
}
