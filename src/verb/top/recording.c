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
#include "base/gzip.h"
#include "base/inflate.h"
#include "base/cleanup.h"
#include "base/vec.h"
#include "version.h"

enum { CHUNK = 1 << 20, SNAPSHOTS_MAX = 1 << 22, LINE_MAX_BYTES = 64 << 20, HEAD_BYTES = 2, MODE = 0644 };

typedef struct Line {
    uint64_t real_ns, at;
    uint32_t len;
} Line;

struct Recording {
    int fd;
    VEC(Line) lines;
    uint64_t strange; /* lines that are no snapshots */
    char damage[256];
};

CLEANUP_POINTER(Recording, recording_close);

/* --- the file ----------------------------------------------------------------------------------------------------- */

static ssize_t read_input(void *context, void *buffer, size_t len, Err *err)
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

static int open_nameless(int *ret, Err *err)
{
    const char *dir = getenv("TMPDIR");

    *ret = open(dir && dir[0] ? dir : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    return *ret < 0 ? err_errno(err, "make a file in '%s' to unpack the recording into", dir && dir[0] ? dir : "/tmp")
                    : 0;
}

static int write_all(int fd, const char *bytes, size_t len, Err *err)
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

static bool is_stopped(const Stop *stop)
{
    return stop->fn && stop->fn(stop->self);
}

/* Copies the input, inflated where `inflate` is not NULL, into a nameless file. A damaged end is left out. */
static int unpack_file(Recording *r, int from, Inflate *inflate, const Stop *stop, Err *err)
{
    CLEANUP_FREE char *buffer = xmalloc(CHUNK);
    Err said;

    TRY(open_nameless(&r->fd, err));
    for (;;) {
        if (is_stopped(stop))
            return err_set(err, -ECANCELED, "the recording was not read to its end");
        const ssize_t n =
            inflate ? inflate_read(inflate, buffer, CHUNK, &said) : read_input(&from, buffer, CHUNK, &said);
        if (n == 0)
            return 0;
        if (n < 0) {
            snprintf(r->damage, sizeof r->damage, "%.250s", said.text);
            return 0;
        }
        TRY(write_all(r->fd, buffer, (size_t)n, err));
    }
}

/* Sets r->fd to a file that can be read at any offset. */
static int make_readable(Recording *r, int *fd, const Stop *stop, Err *err)
{
    unsigned char head[HEAD_BYTES];
    struct stat st;

    if (fstat(*fd, &st) < 0)
        return err_errno(err, "examine the recording");
    if (S_ISDIR(st.st_mode))
        return err_set(err, -EISDIR, "it is a folder");
    if (!S_ISREG(st.st_mode))
        TRY(unpack_file(r, *fd, NULL, stop, err));
    else
        r->fd = fd_take(fd);
    if (pread(r->fd, head, sizeof head, 0) != sizeof head || !inflate_is_gzip(head, sizeof head))
        return 0;
    CLEANUP_FD int packed = fd_take(&r->fd);
    if (lseek(packed, 0, SEEK_SET) < 0)
        return err_errno(err, "read the recording");
    CLEANUP(inflate_free_at) Inflate *inflate = inflate_new(read_input, &packed);
    return unpack_file(r, packed, inflate, stop, err);
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
    if (r->lines.len == SNAPSHOTS_MAX)
        return err_set(err, -EFBIG, "it has more than %d snapshots", SNAPSHOTS_MAX);
    vec_push(&r->lines, ((Line){.real_ns = real_ns, .at = at, .len = (uint32_t)len}));
    return 0;
}

/* Takes the whole lines of `buffer`, which begins at byte `at` of the file; the rest moves to its front. */
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

static int compare_times(const void *a, const void *b)
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

    str_init(&buffer, LINE_MAX_BYTES + CHUNK);
    for (;;) {
        if (is_stopped(stop))
            return err_set(err, -ECANCELED, "the recording was not read to its end");
        if (buffer.len > LINE_MAX_BYTES || !str_reserve(&buffer, CHUNK))
            return err_set(err, -EFBIG, "it has a line of more than %d MiB", LINE_MAX_BYTES >> 20);
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
                       "it has no snapshot of a node: 'stoker top --record' and 'stoker status --json' write them");
    qsort(r->lines.at, r->lines.len, sizeof *r->lines.at, compare_times);
    if (r->strange > 0 && !r->damage[0])
        snprintf(r->damage, sizeof r->damage, "%" PRIu64 " lines are no snapshots", r->strange);
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
    fd_close(&r->fd);
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
        return str_check(out, "a snapshot", err);
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

/* --- writing -------------------------------------------------------------------------------------------------------
 */

struct Recorder {
    char *path;
    int fd;
    bool gzip, regular, broken;
    uint64_t bytes, snapshots;
    Str packed;
};

/* Writes all of it, or cuts off what was written. */
static int write_whole(Recorder *r, const char *bytes, size_t len, Err *err)
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

static int write_line(Recorder *r, const char *line, size_t len, Err *err)
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
    TRY(str_check(&r->packed, "a snapshot", err));
    return write_whole(r, r->packed.text, r->packed.len, err);
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

static int write_head(Recorder *r, uint64_t interval_ns, Err *err)
{
    char head[256], now[CLOCK_TEXT_MAX];

    clock_format(now, clock_real(clock_kernel()));
    const int len = snprintf(head, sizeof head,
                             "{\"format\":\"stoker-top\",\"version\":1,\"program\":\"%s\",\"started\":\"%s\","
                             "\"interval_seconds\":%.3f}",
                             STOKER_VERSION, now, (double)interval_ns / 1e9);

    return write_line(r, head, (size_t)len, err);
}

static bool is_gzip_name(const char *path)
{
    const size_t len = strlen(path);

    return len > 3 && strcmp(path + len - 3, ".gz") == 0;
}

int recorder_open(const char *path, uint64_t interval_ns, Recorder **ret, Err *err)
{
    Recorder *r = xcalloc(1, sizeof *r);

    r->fd = -1;
    r->path = xstrdup(path);
    r->gzip = is_gzip_name(path);
    str_init(&r->packed, LINE_MAX_BYTES + 1);
    int rc = open_file(r, err);
    if (rc == 0)
        rc = write_head(r, interval_ns, err);
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
        return err_set(err, -EINVAL, "a snapshot that is not one line cannot be recorded");
    TRY(write_line(r, line, len, err));
    r->snapshots++;
    return 0;
}

uint64_t recorder_snapshots(const Recorder *r)
{
    return r->snapshots;
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
    if (r->fd >= 0 && close(fd_take(&r->fd)) < 0)
        rc = err_errno(err, "close the recording '%s'", r->path);
    str_done(&r->packed);
    free(r->path);
    free(r);
    return rc;
}
