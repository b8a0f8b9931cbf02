/* SPDX-License-Identifier: Apache-2.0 */
/* A profile as a stream of text. The first block of the file is read when it is opened, so that pipes can be looked
 * into as files can. */
#include "source/profile/input.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/gzip.h"
#include "base/cleanup.h"

enum {
    POLL_MS = 200,
    SPOOL_BYTES = 256 * 1024,
};

struct ProfileInput {
    char *path;
    int fd;
    bool standard, regular, gzip;
    uint64_t size; /* of a regular file */
    uint64_t at;   /* next packed byte, or next byte of a pipe */
    atomic_uint_fast64_t *read_bytes;
    const bool *stop;
    Inflate *inflate;
    Err damage;      /* of the compression */
    char *text_head; /* of a gzip file, made on request */
    size_t text_len;
    size_t head_len;
    char head[PROFILE_INPUT_HEAD]; /* of the file */
};

typedef struct Magic {
    const char *bytes;
    size_t len;
    const char *what, *advice;
} Magic;

/* What people hand over by mistake. */
static const Magic strangers[] = {
    {"\x28\xb5\x2f\xfd", 4, "compressed with zstd", "unpack it: zstd -dc FILE | stoker trace -"},
    {"\xfd"
     "7zXZ",
     5, "compressed with xz", "unpack it: xz -dc FILE | stoker trace -"},
    {"BZh", 3, "compressed with bzip2", "unpack it: bzip2 -dc FILE | stoker trace -"},
    {"PK\x03\x04", 4, "a zip archive", "unpack it and give the profiles in it"},
    {"\x04\x22\x4d\x18", 4, "compressed with lz4", "unpack it: lz4 -dc FILE | stoker trace -"},
    {"\x89PNG", 4, "a PNG image", "give the profile itself, not a picture of it"},
    {"\xff\xd8\xff", 3, "a JPEG image", "give the profile itself, not a picture of it"},
    {"GIF8", 4, "a GIF image", "give the profile itself, not a picture of it"},
    {"%PDF", 4, "a PDF document", "give the profile itself"},
    {"\x7f"
     "ELF",
     4, "a program", "give the profile that it wrote"},
    {"\x80\x02", 2, "a Python pickle", "memory snapshots are no profiles; export the profile as a Chrome trace"},
    {"\x80\x03", 2, "a Python pickle", "memory snapshots are no profiles; export the profile as a Chrome trace"},
    {"\x80\x04", 2, "a Python pickle", "memory snapshots are no profiles; export the profile as a Chrome trace"},
    {"\x80\x05", 2, "a Python pickle", "memory snapshots are no profiles; export the profile as a Chrome trace"},
    {"<!DOCTYPE", 9, "a web page", "give the profile itself"},
    {"<html", 5, "a web page", "give the profile itself"},
    {"version https://git-lfs", 23, "a pointer of git-lfs, not the file", "fetch the file: git lfs pull"},
};

static int refuse_stranger(const ProfileInput *input, Err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(strangers); i++) {
        const Magic *m = &strangers[i];
        if (input->head_len >= m->len && memcmp(input->head, m->bytes, m->len) == 0)
            return err_set(err, -EBADMSG, "'%s' is %s; %s", input->path, m->what, m->advice);
    }
    return 0;
}

static bool is_stopped(const ProfileInput *input)
{
    return input->stop && __atomic_load_n(input->stop, __ATOMIC_RELAXED);
}

/* Reads from a pipe without being deaf to an interruption. -1 and errno. */
static ssize_t read_pipe_bytes(const ProfileInput *input, void *buffer, size_t len)
{
    struct pollfd wait = {.fd = input->fd, .events = POLLIN};

    for (;;) {
        if (is_stopped(input)) {
            errno = EINTR;
            return -1;
        }
        int ready = poll(&wait, 1, POLL_MS);
        if (ready > 0) {
            ssize_t n = read(input->fd, buffer, len);
            if (n >= 0 || (errno != EINTR && errno != EAGAIN))
                return n;
        } else if (ready < 0 && errno != EINTR) {
            return -1;
        }
    }
}

/* The beginning: as much as fits, or all there is. */
static ssize_t read_head(ProfileInput *input)
{
    size_t got = 0;

    if (input->regular)
        return pread(input->fd, input->head, sizeof input->head, 0);
    while (got < sizeof input->head) {
        ssize_t n = read_pipe_bytes(input, input->head + got, sizeof input->head - got);
        if (n < 0)
            return n;
        if (n == 0)
            break;
        got += (size_t)n;
    }
    return (ssize_t)got;
}

/* -1 and errno. */
static ssize_t read_at(const ProfileInput *input, void *buffer, size_t len, uint64_t at)
{
    ssize_t n;

    do
        n = pread(input->fd, buffer, len, (off_t)at);
    while (n < 0 && errno == EINTR && !is_stopped(input));
    return n;
}

/* Bytes of the file at input->at, which moves on: from the head where they lie in it, else from the descriptor. */
static ssize_t next_bytes(void *context, void *buffer, size_t len, Err *err)
{
    ProfileInput *input = context;
    ssize_t n;

    if (input->at < input->head_len) {
        size_t have = input->head_len - (size_t)input->at;
        n = (ssize_t)(have < len ? have : len);
        memcpy(buffer, input->head + input->at, (size_t)n);
    } else {
        n = input->regular ? read_at(input, buffer, len, input->at) : read_pipe_bytes(input, buffer, len);
        if (n < 0)
            return err_errno(err, "read '%s'", input->path);
    }
    input->at += (uint64_t)n;
    if (input->read_bytes)
        atomic_fetch_add_explicit(input->read_bytes, (uint64_t)n, memory_order_relaxed);
    return n;
}

ssize_t profile_input_read(void *context, void *buffer, size_t len, Err *err)
{
    ProfileInput *input = context;

    if (!input->gzip)
        return next_bytes(input, buffer, len, err);
    if (input->damage.code)
        return 0;
    ssize_t n = inflate_read(input->inflate, buffer, len, &input->damage);
    if (n == -EBADMSG) /* what came before is analysed; the caller reports the loss */
        return 0;
    return n < 0 ? err_set(err, (int)n, "%s", input->damage.text) : n;
}

uint64_t profile_input_text_size(const ProfileInput *input)
{
    if (!input->regular)
        return 0;
    if (!input->gzip || input->at == 0)
        return input->gzip ? 0 : input->size;
    return (uint64_t)((double)inflate_given(input->inflate) / (double)input->at * (double)input->size);
}

int profile_input_rewind(ProfileInput *input, Err *err)
{
    if (!input->regular)
        return err_set(err, -ESPIPE, "'%s' comes through a pipe and cannot be read twice; save it to a file",
                       input->path);
    input->at = 0;
    input->damage = (Err){0};
    if (input->gzip) {
        inflate_free(input->inflate);
        input->inflate = inflate_new(next_bytes, input);
    }
    return 0;
}

/* Copies a pipe into a file without a name, which replaces it. */
static int spool_pipe(ProfileInput *input, Err *err)
{
    const char *dir = getenv("TMPDIR");
    CLEANUP_FREE char *buffer = xmalloc(SPOOL_BYTES);
    CLEANUP_FD int fd = open(dir && dir[0] ? dir : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    ssize_t n = (ssize_t)input->head_len;

    if (fd < 0)
        return err_errno(err, "make a file for '%s' in '%s'", input->path, dir && dir[0] ? dir : "/tmp");
    memcpy(buffer, input->head, input->head_len);
    for (; n > 0; n = read_pipe_bytes(input, buffer, SPOOL_BYTES)) {
        if (file_write_all(fd, buffer, (size_t)n) < 0)
            return err_errno(err, "keep '%s' in '%s'", input->path, dir && dir[0] ? dir : "/tmp");
        input->size += (uint64_t)n;
    }
    if (n < 0)
        return err_errno(err, "read '%s'", input->path);
    fd_close(&input->fd);
    input->fd = fd_take(&fd);
    input->regular = true;
    return 0;
}

static int open_path(ProfileInput *input, const char *path, Err *err)
{
    struct stat st;

    input->fd = input->standard ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : open(path, O_RDONLY | O_CLOEXEC);
    if (input->fd < 0)
        return err_errno(err, "open '%s'", path);
    if (fstat(input->fd, &st) < 0)
        return err_errno(err, "stat '%s'", path);
    if (S_ISDIR(st.st_mode))
        return err_set(err, -EISDIR, "'%s' is a folder", path);
    input->regular = S_ISREG(st.st_mode) && lseek(input->fd, 0, SEEK_CUR) == 0;
    input->size = input->regular ? (uint64_t)st.st_size : 0;
    ssize_t n = read_head(input);
    if (n < 0)
        return err_errno(err, "read '%s'", path);
    input->head_len = (size_t)n;
    if (n == 0)
        return err_set(err, -ENODATA, "'%s' is empty", path);
    return refuse_stranger(input, err);
}

int profile_input_open(const char *path, bool again, atomic_uint_fast64_t *read_bytes, const bool *stop,
                       ProfileInput **ret, Err *err)
{
    CLEANUP(profile_input_close_at) ProfileInput *input = xmalloc(sizeof *input);

    memset(input, 0, offsetof(ProfileInput, head));
    input->fd = -1;
    input->standard = strcmp(path, "-") == 0;
    input->path = xstrdup(input->standard ? "standard input" : path);
    input->read_bytes = read_bytes;
    input->stop = stop;
    TRY(open_path(input, path, err));
    if (again && !input->regular)
        TRY(spool_pipe(input, err));
    input->gzip = inflate_is_gzip(input->head, input->head_len);
    if (input->gzip)
        input->inflate = inflate_new(next_bytes, input);
    *ret = TAKE(input);
    return 0;
}

void profile_input_close(ProfileInput *input)
{
    if (!input)
        return;
    fd_close(&input->fd);
    inflate_free(input->inflate);
    free(input->text_head);
    free(input->path);
    free(input);
}

const char *profile_input_magic(const ProfileInput *input, size_t *ret_len)
{
    *ret_len = input->head_len;
    return input->head;
}

/* Unpacks the beginning from the head alone. */
typedef struct HeadFeed {
    const ProfileInput *input;
    size_t at;
} HeadFeed;

static ssize_t pull_head(void *context, void *buffer, size_t len, Err *err)
{
    HeadFeed *feed = context;
    size_t n = feed->input->head_len - feed->at;

    (void)err;
    if (n > len)
        n = len;
    memcpy(buffer, feed->input->head + feed->at, n);
    feed->at += n;
    return (ssize_t)n;
}

const char *profile_input_head(ProfileInput *input, size_t *ret_len)
{
    if (!input->gzip)
        return profile_input_magic(input, ret_len);
    if (!input->text_head) {
        HeadFeed feed = {.input = input};
        Inflate *inflate = inflate_new(pull_head, &feed);
        input->text_head = xmalloc(PROFILE_INPUT_HEAD);
        ssize_t n = inflate_read(inflate, input->text_head, PROFILE_INPUT_HEAD, NULL);
        input->text_len = n > 0 ? (size_t)n : 0;
        inflate_free(inflate);
    }
    *ret_len = input->text_len;
    return input->text_head;
}

const char *profile_input_path(const ProfileInput *input)
{
    return input->path;
}

bool profile_input_is_stdin(const ProfileInput *input)
{
    return input->standard;
}

const char *profile_input_damage(const ProfileInput *input, uint64_t *ret_at)
{
    *ret_at = input->inflate ? inflate_given(input->inflate) : 0;
    return input->damage.text;
}

uint64_t profile_input_garbage(const ProfileInput *input)
{
    return input->inflate ? inflate_garbage(input->inflate) : 0;
}
