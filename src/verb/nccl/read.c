/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/nccl/read.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/inflate.h"
#include "base/owner.h"
#include "base/vec.h"

enum { CHUNK = 256 * 1024, MAGIC = 2, PATH_CAP = 4096 };

OWNER_POINTER(Inflate, inflate_free);
OWNER_POINTER(DIR, closedir);

/* A file whose first bytes were read to see what it is. */
typedef struct Source {
    int fd;
    char front[MAGIC];
    size_t len, at; /* of front */
    Progress *progress;
} Source;

static ssize_t source_read(void *context, void *buffer, size_t len, Err *err)
{
    Source *source = context;
    ssize_t got;

    if (source->at < source->len) {
        size_t n = source->len - source->at < len ? source->len - source->at : len;
        memcpy(buffer, source->front + source->at, n);
        source->at += n;
        return (ssize_t)n;
    }
    do
        got = read(source->fd, buffer, len);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return err_errno(err, "read");
    source->progress->bytes += (uint64_t)got;
    progress_draw(source->progress);
    return got;
}

static int source_begin(Source *source, Err *err)
{
    while (source->len < MAGIC) {
        ssize_t got = read(source->fd, source->front + source->len, MAGIC - source->len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_errno(err, "read");
        if (got == 0)
            return 0;
        source->len += (size_t)got;
    }
    return 0;
}

/* An error behind the beginning ends the input and is said in the report. */
static int read_fd(NcclJob *job, int fd, const char *name, Progress *progress, Err *err)
{
    CLEANUP_FREE char *chunk = xmalloc(CHUNK);
    CLEANUP(inflate_free_at) Inflate *inflate = NULL;
    Source source = {.fd = fd, .progress = progress};
    Err trouble = {0};
    ssize_t got;

    TRY(source_begin(&source, err));
    if (inflate_is_gzip(source.front, source.len))
        inflate = inflate_new(source_read, &source);
    nccl_begin(job, name);
    while ((got = inflate ? inflate_read(inflate, chunk, CHUNK, &trouble)
                          : source_read(&source, chunk, CHUNK, &trouble)) > 0)
        nccl_feed(job, chunk, (size_t)got);
    nccl_end(job, got < 0 ? trouble.text : NULL);
    return 0;
}

static int read_file(NcclJob *job, const char *path, Progress *progress, Err *err)
{
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return err_errno(err, "open '%s'", path);
    if (read_fd(job, fd, path, progress, err) < 0)
        return err_add(err, "'%s'", path);
    return 0;
}

typedef VEC(char *) Names;

static void names_done(Names *names)
{
    for (size_t i = 0; i < names->len; i++)
        free(names->at[i]);
    vec_done(names);
}

static int compare_names(const void *a, const void *b)
{
    return strverscmp(*(char *const *)a, *(char *const *)b);
}

static int read_folder(NcclJob *job, const char *path, Progress *progress, Err *err)
{
    CLEANUP(closedir_at) DIR *dir = opendir(path);
    CLEANUP(names_done) Names names = {0};
    const struct dirent *entry;
    struct stat st;

    if (!dir)
        return err_errno(err, "open '%s'", path);
    while ((entry = readdir(dir)))
        if (entry->d_name[0] != '.' && fstatat(dirfd(dir), entry->d_name, &st, 0) == 0 && S_ISREG(st.st_mode))
            vec_push(&names, xstrdup(entry->d_name));
    if (names.len)
        qsort(names.at, names.len, sizeof *names.at, compare_names);
    for (size_t i = 0; i < names.len; i++) {
        char file[PATH_CAP];
        int len = snprintf(file, sizeof file, "%s/%s", path, names.at[i]);
        if (len >= PATH_CAP)
            return err_set(err, -ENAMETOOLONG, "'%s/%s': the path is too long", path, names.at[i]);
        TRY(read_file(job, file, progress, err));
    }
    return 0;
}

int nccl_read(NcclJob *job, const char *path, Progress *progress, Err *err)
{
    struct stat st;

    if (strcmp(path, "-") == 0)
        return read_fd(job, STDIN_FILENO, "stdin", progress, err);
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return read_folder(job, path, progress, err);
    return read_file(job, path, progress, err);
}

uint64_t nccl_read_bytes(const char *path)
{
    struct stat st;
    uint64_t sum = 0;

    if (stat(path, &st) < 0)
        return 0;
    if (!S_ISDIR(st.st_mode))
        return S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
    CLEANUP(closedir_at) DIR *dir = opendir(path);
    const struct dirent *entry;
    while (dir && (entry = readdir(dir)))
        if (entry->d_name[0] != '.' && fstatat(dirfd(dir), entry->d_name, &st, 0) == 0 && S_ISREG(st.st_mode))
            sum += (uint64_t)st.st_size;
    return sum;
}
