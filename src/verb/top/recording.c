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
#include "base/file.h"
#include "base/gzip.h"
#include "base/cleanup.h"
#include "base/number.h"
#include "version.h"

enum { CHUNK = 1 << 20, SNAPSHOTS_MAX = 1 << 22, LINE_MAX_BYTES = 64 << 20, HEAD_BYTES = 2, MODE = 0644 };

CLEANUP_POINTER(Recording, recording_close);

/* --- the file ----------------------------------------------------------------------------------------------------- */

static ssize_t read_input(void *context, void *buffer, size_t len, Err *err)
{
    const int fd = *(const int *)context;
    ssize_t n;

    do
        n = read(fd, buffer, len);
    while (n < 0 && errno == EINTR);
    return n < 0 ? err_errno(err, "read the recording") : n;
}

/* The next part of the text, 0 at its end. A damaged end is left out. */
static size_t read_part(Recording *r, Inflate *inflate, char *buffer)
{
    Err said;
    const ssize_t n = inflate ? inflate_read(inflate, buffer, CHUNK, &said) : read_input(&r->fd, buffer, CHUNK, &said);
    if (n < 0)
        snprintf(r->damage, sizeof r->damage, "%.250s", said.text);
    return n < 0 ? 0 : (size_t)n;
}

/* Copies the text, unpacked, into a file without a name, which is the recording's from then on. */
static int keep_text(Recording *r, Inflate *inflate, Err *err)
{
    const char *dir = getenv("TMPDIR");
    CLEANUP_FREE char *part = xmalloc(CHUNK);
    size_t n;

    dir = dir && dir[0] ? dir : "/tmp";
    CLEANUP_FD int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_errno(err, "make a file in '%s' to unpack the recording into", dir);
    while ((n = read_part(r, inflate, part)) > 0)
        if (file_write_all(fd, part, n) < 0)
            return err_errno(err, "unpack the recording");
    fd_close(&r->fd);
    r->fd = fd_take(&fd);
    return lseek(r->fd, 0, SEEK_SET) < 0 ? err_errno(err, "read the recording") : 0;
}

/* Keeps what cannot be read again: what comes through a pipe, and what is packed. */
static int prepare_text(Recording *r, Err *err)
{
    unsigned char head[HEAD_BYTES];
    struct stat st;

    if (fstat(r->fd, &st) < 0)
        return err_errno(err, "examine the recording");
    if (S_ISDIR(st.st_mode))
        return err_set(err, -EISDIR, "it is a folder");
    if (!S_ISREG(st.st_mode))
        TRY(keep_text(r, NULL, err));
    const ssize_t n = pread(r->fd, head, sizeof head, 0);
    if (n < 0)
        return err_errno(err, "read the recording");
    if (!inflate_is_gzip(head, (size_t)n))
        return 0;
    CLEANUP(inflate_free_at) Inflate *inflate = inflate_new(read_input, &r->fd);
    return keep_text(r, inflate, err);
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

/* Adds the whole lines of `buffer`, which begins at byte `at` of the text; the rest moves to its front. */
static int add_lines(Recording *r, Str *buffer, uint64_t *at, bool last, Err *err)
{
    uint64_t real_ns;
    size_t done = 0;

    while (done < buffer->len) {
        const char *line = buffer->text + done, *end = memchr(line, '\n', buffer->len - done);
        const size_t len = end ? (size_t)(end - line) : buffer->len - done;

        if (!end && !last)
            break;
        if (recording_time_of(line, len, &real_ns))
            vec_push(&r->lines, ((RecordingLine){.real_ns = real_ns, .at = *at + done, .len = (uint32_t)len}));
        else
            r->strange += len > 0 && *at + done > 0; /* the first one says what the file is */
        if (r->lines.len > SNAPSHOTS_MAX)
            return err_set(err, -EFBIG, "it has more than %d snapshots", SNAPSHOTS_MAX);
        done += len + (end != NULL);
    }
    memmove(buffer->text, buffer->text + done, buffer->len - done);
    str_cut(buffer, buffer->len - done);
    *at += done;
    return 0;
}

static int compare_times(const void *a, const void *b)
{
    const RecordingLine *one = a, *other = b;

    const int order = number_compare_u64(one->real_ns, other->real_ns);

    return order ? order : number_compare_u64(one->at, other->at);
}

static int read_lines(Recording *r, Err *err)
{
    CLEANUP(str_done) Str buffer = {0};
    uint64_t at = 0;
    size_t n;

    str_init(&buffer, LINE_MAX_BYTES + CHUNK);
    do {
        if (buffer.len > LINE_MAX_BYTES || !str_reserve(&buffer, CHUNK))
            return err_set(err, -EFBIG, "it has a line of more than %d MiB", LINE_MAX_BYTES >> 20);
        n = read_part(r, NULL, buffer.text + buffer.len);
        buffer.len += n;
        buffer.text[buffer.len] = '\0';
        TRY(add_lines(r, &buffer, &at, n == 0, err));
    } while (n > 0);
    if (r->lines.len == 0)
        return err_set(err, -ENODATA,
                       "it has no snapshot of a node: 'stoker top --record' and 'stoker status --json' write them");
    qsort(r->lines.at, r->lines.len, sizeof *r->lines.at, compare_times);
    if (r->strange > 0 && !r->damage[0])
        snprintf(r->damage, sizeof r->damage, "%" PRIu64 " lines are no snapshots", r->strange);
    return 0;
}

int recording_open(const char *path, Recording **ret, Err *err)
{
    CLEANUP_FD int fd = strcmp(path, "-") == 0 ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                                               : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    CLEANUP(recording_close_at) Recording *r = NULL;

    if (fd < 0)
        return err_errno(err, "open the recording '%s'", path);
    (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK); /* a pipe is opened at once, and then waited for */
    r = xcalloc(1, sizeof *r);
    r->fd = fd_take(&fd);
    int rc = prepare_text(r, err);
    if (rc == 0)
        rc = read_lines(r, err);
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
    const RecordingLine *line = &r->lines.at[i];

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

/* Of a file that could not be begun. */
static void recorder_drop(Recorder **recorder)
{
    if (*recorder && (*recorder)->fd >= 0 && (*recorder)->regular)
        unlink((*recorder)->path);
    (void)recorder_close(*recorder, NULL);
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

static int write_line(Recorder *r, const char *line, size_t len, Err *err)
{
    CLEANUP(str_done) Str whole = {0};
    const Str *out = r->gzip ? &r->packed : &whole;

    str_clear(&r->packed);
    str_init(&whole, LINE_MAX_BYTES + 1);
    str_addn(&whole, line, len);
    str_addc(&whole, '\n');
    if (r->gzip)
        TRY(gzip_pack(whole.text, whole.len, &r->packed, err));
    TRY(str_check(out, "a snapshot", err));
    if (file_write_all(r->fd, out->text, out->len) < 0) {
        const int rc = err_errno(err, "write the recording '%s'", r->path);

        r->broken = true;
        if (r->regular && ftruncate(r->fd, (off_t)r->bytes) < 0)
            err_add(err, "and its last line is cut");
        return rc;
    }
    r->bytes += out->len;
    return 0;
}

int recorder_open(const char *path, uint64_t interval_ns, Recorder **ret, Err *err)
{
    CLEANUP(recorder_drop) Recorder *r = xcalloc(1, sizeof *r);
    char head[256], now[CLOCK_TEXT_MAX];
    struct stat st;
    const bool there = stat(path, &st) == 0;

    *r = (Recorder){.fd = -1, .path = xstrdup(path), .gzip = gzip_is_name(path), .regular = !there};
    str_init(&r->packed, LINE_MAX_BYTES + 1);
    if (there && S_ISREG(st.st_mode))
        return err_set(err, -EEXIST, "'%s' is there already; name another file for the recording", path);
    r->fd = open(path, there ? O_WRONLY | O_CLOEXEC : O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, MODE);
    if (r->fd < 0)
        return err_errno(err, "record to '%s'", path);
    clock_format(now, clock_real(clock_kernel()));
    const int len = snprintf(head, sizeof head,
                             "{\"format\":\"stoker-top\",\"version\":1,\"program\":\"%s\",\"started\":\"%s\","
                             "\"interval_seconds\":%.3f}",
                             STOKER_VERSION, now, (double)interval_ns / 1e9);
    TRY(write_line(r, head, (size_t)len, err));
    *ret = TAKE(r);
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
