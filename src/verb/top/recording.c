/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/top/recording.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/inflate.h"
#include "base/owner.h"
#include "base/vec.h"

enum { CHUNK = 1 << 20, LOOKS_MAX = 1 << 22, LINE_CAP = 64 << 20, HEAD_BYTES = 2 };

typedef struct Line {
    uint64_t real_ns, at;
    uint32_t len;
} Line;

struct Recording {
    int fd;
    VEC(Line) lines;
    uint64_t strange; /* lines that are no looks */
    char damage[256];
};

OWNER_POINTER(Inflate, inflate_free);
OWNER_POINTER(Recording, recording_close);

/* --- the file ----------------------------------------------------------------------------------------------------- */

static ssize_t pull(void *context, void *buffer, size_t len, Err *err)
{
    const int fd = *(const int *)context;

    for (;;) {
        const ssize_t n = read(fd, buffer, len);

        if (n >= 0)
            return n;
        if (errno != EINTR)
            return err_errno(err, "read the recording");
    }
}

static int nameless(int *ret, Err *err)
{
    const char *dir = getenv("TMPDIR");

    *ret = open(dir && dir[0] ? dir : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    return *ret < 0 ? err_errno(err, "make a file in '%s' to unpack the recording into", dir && dir[0] ? dir : "/tmp")
                    : 0;
}

static int put_all(int fd, const char *bytes, size_t len, Err *err)
{
    while (len > 0) {
        const ssize_t n = write(fd, bytes, len);

        if (n < 0 && errno != EINTR)
            return err_errno(err, "unpack the recording");
        bytes += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

typedef struct Stop {
    bool (*fn)(void *self);
    void *self;
} Stop;

static bool stopped(const Stop *stop)
{
    return stop->fn && stop->fn(stop->self);
}

/* Copies what `from` holds, unpacked where `inflate` is not NULL, into a file of ours. A damaged end is left out. */
static int unpack(Recording *r, int from, Inflate *inflate, const Stop *stop, Err *err)
{
    CLEANUP_FREE char *buffer = xmalloc(CHUNK);
    Err said;

    TRY(nameless(&r->fd, err));
    for (;;) {
        if (stopped(stop))
            return err_set(err, -ECANCELED, "the recording was not read to its end");
        const ssize_t n = inflate ? inflate_read(inflate, buffer, CHUNK, &said) : pull(&from, buffer, CHUNK, &said);
        if (n == 0)
            return 0;
        if (n < 0) {
            snprintf(r->damage, sizeof r->damage, "%.250s", said.text);
            return 0;
        }
        TRY(put_all(r->fd, buffer, (size_t)n, err));
    }
}

/* The descriptor that can be read at any place. */
static int make_readable(Recording *r, int *fd, const Stop *stop, Err *err)
{
    unsigned char head[HEAD_BYTES];
    struct stat st;

    if (fstat(*fd, &st) < 0)
        return err_errno(err, "look at the recording");
    if (S_ISDIR(st.st_mode))
        return err_set(err, -EISDIR, "it is a folder");
    if (!S_ISREG(st.st_mode))
        TRY(unpack(r, *fd, NULL, stop, err));
    else
        r->fd = owner_take_fd(fd);
    if (pread(r->fd, head, sizeof head, 0) != sizeof head || !inflate_is_gzip(head, sizeof head))
        return 0;
    CLEANUP_FD int packed = owner_take_fd(&r->fd);
    if (lseek(packed, 0, SEEK_SET) < 0)
        return err_errno(err, "read the recording");
    CLEANUP(inflate_free_at) Inflate *inflate = inflate_new(pull, &packed);
    return unpack(r, packed, inflate, stop, err);
}

/* --- its lines ---------------------------------------------------------------------------------------------------- */

bool recording_time_of(const char *line, size_t len, uint64_t *ret_real_ns)
{
    static const char status[] = "\"node\":{\"time\":\"", gpus[] = "{\"time\":\"";
    char text[CLOCK_TEXT_MAX] = "";
    const char *at = memmem(line, len, status, sizeof status - 1);

    if (at)
        at += sizeof status - 1;
    else if (len > sizeof gpus && memcmp(line, gpus, sizeof gpus - 1) == 0)
        at = line + sizeof gpus - 1;
    if (!at)
        return false;
    const size_t left = len - (size_t)(at - line);
    const char *end = memchr(at, '"', left < sizeof text ? left : sizeof text);
    if (!end)
        return false;
    memcpy(text, at, (size_t)(end - at));
    return clock_parse(text, ret_real_ns, NULL) == 0 && *ret_real_ns > 0;
}

static int take_line(Recording *r, uint64_t at, const char *line, size_t len, Err *err)
{
    uint64_t real_ns;

    if (!recording_time_of(line, len, &real_ns)) {
        r->strange += len > 0 && at > 0; /* the first one says what the file is */
        return 0;
    }
    if (r->lines.len == LOOKS_MAX)
        return err_set(err, -EFBIG, "it has more than %d looks", LOOKS_MAX);
    vec_push(&r->lines, ((Line){.real_ns = real_ns, .at = at, .len = (uint32_t)len}));
    return 0;
}

/* The whole lines of what is in `buffer`, which begins at byte `at` of the file; what is left moves to its front. */
static int take_lines(Recording *r, Str *buffer, uint64_t *at, bool last, Err *err)
{
    size_t done = 0;

    while (done < buffer->len) {
        const char *line = buffer->text + done, *end = memchr(line, '\n', buffer->len - done);
        const size_t len = end ? (size_t)(end - line) : buffer->len - done;

        if (!end && !last)
            break;
        TRY(take_line(r, *at + done, line, len, err));
        done += len + 1;
    }
    if (done > buffer->len)
        done = buffer->len;
    memmove(buffer->text, buffer->text + done, buffer->len - done);
    str_cut(buffer, buffer->len - done);
    *at += done;
    return 0;
}

static int by_time(const void *a, const void *b)
{
    const Line *one = a, *other = b;

    if (one->real_ns != other->real_ns)
        return one->real_ns < other->real_ns ? -1 : 1;
    return one->at < other->at ? -1 : one->at > other->at;
}

static int read_lines(Recording *r, const Stop *stop, Err *err)
{
    CLEANUP(str_done) Str buffer = {0};
    uint64_t at = 0;

    str_init(&buffer, LINE_CAP + CHUNK);
    for (;;) {
        if (stopped(stop))
            return err_set(err, -ECANCELED, "the recording was not read to its end");
        if (buffer.len > LINE_CAP || !str_reserve(&buffer, CHUNK))
            return err_set(err, -EFBIG, "it has a line of more than %d MiB", LINE_CAP >> 20);
        const ssize_t n = pread(r->fd, buffer.text + buffer.len, CHUNK, (off_t)(at + buffer.len));
        if (n < 0)
            return err_errno(err, "read the recording");
        buffer.len += (size_t)n;
        buffer.text[buffer.len] = '\0';
        TRY(take_lines(r, &buffer, &at, n == 0, err));
        if (n == 0)
            break;
    }
    if (r->lines.len == 0)
        return err_set(err, -ENODATA,
                       "it has no look of a node: 'stoker top --record' and 'stoker status --json' write them");
    qsort(r->lines.at, r->lines.len, sizeof *r->lines.at, by_time);
    if (r->strange > 0 && !r->damage[0])
        snprintf(r->damage, sizeof r->damage, "%" PRIu64 " lines are no looks", r->strange);
    return 0;
}

int recording_open(const char *path, bool (*stop)(void *self), void *self, Recording **ret, Err *err)
{
    CLEANUP_FD int fd = strcmp(path, "-") == 0 ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                                               : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    CLEANUP(recording_close_at) Recording *r = NULL;
    const Stop stop_at = {stop, self};

    if (fd < 0)
        return err_errno(err, "open the recording '%s'", path);
    (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK); /* a pipe is opened at once, and then waited for */
    r = xcalloc(1, sizeof *r);
    r->fd = -1;
    int rc = make_readable(r, &fd, &stop_at, err);
    if (rc == 0)
        rc = read_lines(r, &stop_at, err);
    if (rc < 0)
        err_add(err, "'%s'", path);
    else
        *ret = TAKE(r);
    return rc;
}

void recording_close(Recording *r)
{
    if (!r)
        return;
    owner_close(&r->fd);
    vec_done(&r->lines);
    free(r);
}

size_t recording_count(const Recording *r)
{
    return r->lines.len;
}

uint64_t recording_time(const Recording *r, size_t i)
{
    return r->lines.at[i].real_ns;
}

size_t recording_find(const Recording *r, uint64_t real_ns)
{
    size_t low = 0, high = r->lines.len;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (r->lines.at[middle].real_ns <= real_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 ? low - 1 : 0;
}

int recording_line(const Recording *r, size_t i, Str *out, Err *err)
{
    const Line *line = &r->lines.at[i];

    str_clear(out);
    if (!str_reserve(out, line->len))
        return str_check(out, "a look", err);
    while (out->len < line->len) {
        const ssize_t n = pread(r->fd, out->text + out->len, line->len - out->len, (off_t)(line->at + out->len));

        if (n < 0 && errno != EINTR)
            return err_errno(err, "read the recording");
        if (n == 0)
            return err_set(err, -EIO, "the recording has become shorter");
        out->len += n > 0 ? (size_t)n : 0;
    }
    out->text[out->len] = '\0';
    return 0;
}

const char *recording_damage(const Recording *r)
{
    return r->damage;
}
