/* SPDX-License-Identifier: Apache-2.0 */
#include "source/kmsg/follow.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"

enum { LOOK_MS = 1000, READ_BYTES = 64 << 10, READS_AT_ONCE = 64, HANDLES = 2 };

struct Follow {
    uv_fs_event_t watch;
    uv_timer_t timer;
    int open_handles;
    char *path;
    FollowLine give;
    void *self;
    int fd; /* -1: none */
    FollowState state;
    uint64_t position; /* next byte to read */
    Str rest;          /* the beginning of a line whose end is not there yet */
    bool watching;     /* inotify is on this file */
};

/* The next `len` bytes of the file. */
static void take_bytes(Follow *f, const char *bytes, size_t len)
{
    const char *newline;

    while ((newline = memchr(bytes, '\n', len))) {
        const size_t part = (size_t)(newline - bytes);

        str_addn(&f->rest, bytes, part);
        f->position += part + 1;
        f->state.offset = f->position;
        bytes += part + 1;
        len -= part + 1;
        if (f->rest.len)
            f->give(f->self, f->rest.text, f->rest.len, !f->state.looked);
        str_clear(&f->rest);
    }
    str_addn(&f->rest, bytes, len);
    f->position += len;
}

/* Reads what is there now. False: the file has to be opened again. */
static bool read_on(Follow *f)
{
    char buffer[READ_BYTES];
    struct stat open_one, named;

    if (fstat(f->fd, &open_one) < 0)
        return false;
    if ((uint64_t)open_one.st_size < f->position)
        return false; /* cut off */
    for (int i = 0; i < READS_AT_ONCE; i++) {
        const ssize_t n = pread(f->fd, buffer, sizeof buffer, (off_t)f->position);

        if (n <= 0) {
            f->state.looked = true;
            break;
        }
        take_bytes(f, buffer, (size_t)n);
    }
    return stat(f->path, &named) == 0 && named.st_ino == open_one.st_ino;
}

static void close_file(Follow *f)
{
    if (f->fd >= 0)
        close(f->fd);
    f->fd = -1;
    f->state.there = false;
    str_clear(&f->rest);
    if (f->watching)
        uv_fs_event_stop(&f->watch);
    f->watching = false;
}

static void check_file(Follow *f);

static void handle_change(uv_fs_event_t *handle, const char *name, int events, int status)
{
    (void)name;
    (void)events;
    (void)status;
    check_file(handle->data);
}

static bool open_file(Follow *f)
{
    struct stat st;

    f->fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f->fd < 0 || fstat(f->fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        f->state.error = f->fd < 0 ? -errno : -EINVAL;
        close_file(f);
        return false;
    }
    if (st.st_ino != f->state.inode || (uint64_t)st.st_size < f->state.offset)
        f->state.offset = 0;
    f->position = f->state.offset;
    f->state.inode = st.st_ino;
    f->state.there = true;
    f->state.error = 0;
    f->watching = uv_fs_event_start(&f->watch, handle_change, f->path, 0) == 0;
    return true;
}

static void handle_timer(uv_timer_t *timer)
{
    check_file(timer->data);
}

/* A file that holds more than is read at once is gone on with in the loop's next turn, and is no news until its end. */
static void check_file(Follow *f)
{
    if (f->fd >= 0 && !read_on(f))
        close_file(f);
    if (f->fd < 0 && open_file(f) && !read_on(f))
        close_file(f);
    f->state.looked |= f->fd < 0;
    uv_timer_start(&f->timer, handle_timer, f->state.looked ? LOOK_MS : 0, LOOK_MS);
}

Follow *follow_open(uv_loop_t *loop, const char *path, uint64_t inode, uint64_t offset, FollowLine give, void *self)
{
    Follow *f = xcalloc(1, sizeof *f);

    f->path = xmemdup0(path, strlen(path));
    f->give = give;
    f->self = self;
    f->fd = -1;
    f->state.inode = inode;
    f->state.offset = offset;
    str_init(&f->rest, FOLLOW_LINE_MAX);
    uv_fs_event_init(loop, &f->watch);
    uv_timer_init(loop, &f->timer);
    f->watch.data = f->timer.data = f;
    f->open_handles = HANDLES;
    uv_timer_start(&f->timer, handle_timer, 0, LOOK_MS);
    return f;
}

static void handle_closed(uv_handle_t *handle)
{
    Follow *f = handle->data;

    if (--f->open_handles > 0)
        return;
    str_done(&f->rest);
    free(f->path);
    free(f);
}

void follow_close(Follow *f)
{
    if (!f)
        return;
    close_file(f);
    uv_close((uv_handle_t *)&f->watch, handle_closed);
    uv_close((uv_handle_t *)&f->timer, handle_closed);
}

void follow_look(Follow *f)
{
    check_file(f);
}

void follow_state(const Follow *f, FollowState *ret)
{
    *ret = f->state;
}
