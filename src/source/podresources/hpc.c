/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job-mapping directory. Each file keeps its jobs, sorted and without doubles, in one piece of memory; the table is
 * made anew only when a file's jobs differ. A stamp is believed once it is two seconds older than the look at it, since
 * a file system may give two changes one time.
 */
#include "source/podresources/hpc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "base/number.h"
#include "base/cleanup.h"
#include "base/vec.h"
#include "model/device.h"

#define SETTLE_NS (2 * NS_PER_S)

/* The names that a directory holds now. */
typedef struct Listing {
    HpcFiles files;
    size_t left_out;
} Listing;

static void files_done(Hpc *hpc)
{
    for (size_t i = 0; i < hpc->files.len; i++)
        free(hpc->files.at[i].jobs);
    vec_done(&hpc->files);
}

void hpc_init(Hpc *hpc, const char *dir)
{
    *hpc = (Hpc){.dir = xstrdup(dir)};
}

void hpc_done(Hpc *hpc)
{
    files_done(hpc);
    vec_done(&hpc->table);
    arena_done(&hpc->arena);
    free(hpc->dir);
    *hpc = (Hpc){0};
}

/* -- stamps -------------------------------------------------------------------------------------------------------- */

static uint64_t ns_of(struct timespec time)
{
    return (uint64_t)time.tv_sec * NS_PER_S + (uint64_t)time.tv_nsec;
}

static uint64_t now_ns(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return ns_of(now);
}

static HpcStamp stamp_of(const struct stat *stat, uint64_t looked_ns)
{
    return (HpcStamp){.dev = stat->st_dev,
                      .ino = stat->st_ino,
                      .size = (uint64_t)stat->st_size,
                      .changed_ns = ns_of(stat->st_ctim),
                      .modified_ns = ns_of(stat->st_mtim),
                      .looked_ns = looked_ns};
}

/* Whether what was read under `old` still holds. */
static bool is_current(const HpcStamp *old, const HpcStamp *now)
{
    return old->looked_ns && old->looked_ns >= number_max_u64(old->changed_ns, old->modified_ns) + SETTLE_NS &&
           old->dev == now->dev && old->ino == now->ino && old->size == now->size &&
           old->changed_ns == now->changed_ns && old->modified_ns == now->modified_ns;
}

/* -- the directory ------------------------------------------------------------------------------------------------- */

/* ^\d+(\.\d+)?$ */
static bool has_form(const char *name)
{
    size_t gpu = strspn(name, "0123456789"), instance;

    if (!gpu || !name[gpu])
        return gpu > 0;
    instance = name[gpu] == '.' ? strspn(name + gpu + 1, "0123456789") : 0;
    return instance && !name[gpu + 1 + instance];
}

/* The numbers of a name of this form. False if they are too large. */
static bool parse_name(const char *name, HpcFile *file)
{
    const char *dot = strchr(name, '.');
    uint64_t gpu = 0, instance = DEVICE_NO_NUMBER;

    if (strlen(name) >= sizeof(file->name) ||
        number_parsen_u64(name, dot ? (size_t)(dot - name) : strlen(name), 0, DEVICE_NO_NUMBER - 1, &gpu, NULL) < 0 ||
        (dot && number_parse_u64(dot + 1, 0, DEVICE_NO_NUMBER - 1, &instance, NULL) < 0))
        return false;
    *file = (HpcFile){.gpu = (uint32_t)gpu, .gpu_instance = (uint32_t)instance};
    memcpy(file->name, name, strlen(name) + 1);
    return true;
}

static int compare_files(const void *a, const void *b)
{
    return strcmp(((const HpcFile *)a)->name, ((const HpcFile *)b)->name);
}

static int list_files(const Hpc *hpc, int dir_fd, Listing *ret, Err *err)
{
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CLEANUP(closedir_at) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;

    if (!dir) {
        int rc = err_errno(err, "read directory '%s'", hpc->dir);

        fd_close(&fd);
        return rc;
    }
    while ((entry = readdir(dir))) {
        HpcFile file;

        if (!has_form(entry->d_name))
            continue;
        if (ret->files.len >= HPC_FILES_MAX || !parse_name(entry->d_name, &file))
            ret->left_out++;
        else
            vec_push(&ret->files, file);
    }
    if (ret->files.len)
        qsort(ret->files.at, ret->files.len, sizeof(ret->files.at[0]), compare_files);
    return 0;
}

/* Takes over what is known of the files that are still there. True if a file with jobs went. */
static bool replace_files(Hpc *hpc, Listing *listing)
{
    bool changed = false;

    for (size_t i = 0; i < hpc->files.len; i++) {
        HpcFile *old = &hpc->files.at[i];
        HpcFile *now = listing->files.len ? bsearch(old, listing->files.at, listing->files.len,
                                                    sizeof(listing->files.at[0]), compare_files)
                                          : NULL;

        if (now)
            *now = *old;
        else
            changed |= old->jobs_len > 0;
        if (now)
            old->jobs = NULL;
    }
    files_done(hpc);
    hpc->files = listing->files;
    return changed;
}

static int update_files(Hpc *hpc, int dir_fd, bool *changed, Err *err)
{
    uint64_t looked = now_ns();
    struct stat stat;
    Listing listing = {0};
    HpcStamp stamp;

    if (fstat(dir_fd, &stat) < 0)
        return err_errno(err, "stat '%s'", hpc->dir);
    stamp = stamp_of(&stat, looked);
    if (is_current(&hpc->stamp, &stamp))
        return 0;
    hpc->reads++;
    TRY(list_files(hpc, dir_fd, &listing, err));
    hpc->stamp = stamp;
    hpc->names_left_out = listing.left_out;
    *changed |= replace_files(hpc, &listing);
    return 0;
}

/* -- one file ------------------------------------------------------------------------------------------------------ */

static bool is_job(const char *line, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (line[i] < ' ' || line[i] > '~')
            return false;
    }
    return len <= HPC_JOB_BYTES_MAX;
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Cuts `text` into lines, with blanks at either end gone. Returns their number. */
static size_t split_jobs(char *text, const char *jobs[HPC_JOBS_MAX], size_t *left_out)
{
    size_t count = 0;

    for (char *line = text, *next; line; line = next) {
        size_t len = strcspn(line, "\n");

        next = line[len] ? line + len + 1 : NULL;
        while (len && strchr(" \t\r", line[len - 1]))
            len--;
        while (len && strchr(" \t", *line))
            line++, len--;
        line[len] = '\0';
        if (!len)
            continue;
        if (count < HPC_JOBS_MAX && is_job(line, len))
            jobs[count++] = line;
        else
            ++*left_out;
    }
    return count;
}

/* The file's jobs from its text; false if they are the same as before. */
static bool set_jobs(HpcFile *file, char *text)
{
    const char *jobs[HPC_JOBS_MAX];
    size_t count = split_jobs(text, jobs, &file->left_out), len = 0, size = strlen(text) + 1;
    CLEANUP_FREE char *packed = NULL;

    for (size_t i = 0; i < count; i++)
        size += strlen(jobs[i]) + 1;
    packed = xmalloc(size);
    qsort(jobs, count, sizeof(jobs[0]), compare_texts);
    for (size_t i = 0; i < count; i++) {
        size_t bytes = strlen(jobs[i]) + 1;

        if (i && strcmp(jobs[i], jobs[i - 1]) == 0)
            continue;
        memcpy(packed + len, jobs[i], bytes);
        len += bytes;
    }
    if (len == file->jobs_len && (!len || memcmp(packed, file->jobs, len) == 0))
        return false;
    free(file->jobs);
    file->jobs = TAKE(packed);
    file->jobs_len = len;
    return true;
}

/* Reads up to the cap into text (cap + 1 bytes); what is longer loses its last line, which may be cut. */
static int read_text(int dir_fd, HpcFile *file, char *text)
{
    CLEANUP_FD int fd = openat(dir_fd, file->name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat stat;
    size_t len = 0;
    ssize_t got = 0;

    if (fd < 0 || fstat(fd, &stat) < 0 || !S_ISREG(stat.st_mode))
        return -1;
    while (len <= HPC_FILE_BYTES_MAX && (got = read(fd, text + len, HPC_FILE_BYTES_MAX + 1 - len)) > 0)
        len += (size_t)got;
    if (got < 0)
        return -1;
    if (len > HPC_FILE_BYTES_MAX) {
        file->left_out++;
        while (len && text[len - 1] != '\n')
            len--;
    }
    text[len] = '\0';
    return 0;
}

/* True if the file's jobs changed. */
static bool update_file(Hpc *hpc, int dir_fd, HpcFile *file, char *text)
{
    uint64_t looked = now_ns();
    struct stat stat;
    HpcStamp stamp = {0};
    bool there = fstatat(dir_fd, file->name, &stat, 0) == 0;

    if (there)
        stamp = stamp_of(&stat, looked);
    if (there && is_current(&file->stamp, &stamp))
        return false;
    file->stamp = stamp;
    file->left_out = 0;
    text[0] = '\0';
    hpc->reads++;
    /* a pipe is not even opened: its other end would notice */
    if (there && (!S_ISREG(stat.st_mode) || read_text(dir_fd, file, text) < 0)) {
        file->left_out = 1;
        text[0] = '\0';
    }
    return set_jobs(file, text);
}

/* -- the table ----------------------------------------------------------------------------------------------------- */

static int compare_jobs(const void *left, const void *right)
{
    const HpcJob *a = left, *b = right;

    if (a->gpu != b->gpu)
        return a->gpu < b->gpu ? -1 : 1;
    if (a->gpu_instance != b->gpu_instance) /* the whole GPU first */
        return a->gpu_instance + 1 < b->gpu_instance + 1 ? -1 : 1;
    return strcmp(a->job, b->job);
}

static void rebuild_rows(Hpc *hpc)
{
    size_t len = 0;

    vec_clear(&hpc->table);
    arena_reset(&hpc->arena);
    for (size_t i = 0; i < hpc->files.len; i++) {
        const HpcFile *file = &hpc->files.at[i];

        for (size_t at = 0; at < file->jobs_len; at += strlen(file->jobs + at) + 1) {
            HpcJob job = {file->gpu, file->gpu_instance, arena_strdup(&hpc->arena, file->jobs + at)};

            vec_push(&hpc->table, job);
        }
    }
    if (hpc->table.len)
        qsort(hpc->table.at, hpc->table.len, sizeof(hpc->table.at[0]), compare_jobs);
    for (size_t i = 0; i < hpc->table.len; i++) { /* "3" and "03" are one GPU */
        if (!len || compare_jobs(&hpc->table.at[len - 1], &hpc->table.at[i]) != 0)
            hpc->table.at[len++] = hpc->table.at[i];
    }
    hpc->table.len = len;
}

static void clear_rows(Hpc *hpc)
{
    files_done(hpc);
    hpc->stamp = (HpcStamp){0};
    hpc->left_out = hpc->names_left_out = 0;
    rebuild_rows(hpc);
}

int hpc_update(Hpc *hpc, Err *err)
{
    CLEANUP_FD int dir_fd = open(hpc->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CLEANUP_FREE char *text = NULL;
    bool changed = false;
    int rc = dir_fd < 0 ? err_errno(err, "open directory '%s'", hpc->dir) : update_files(hpc, dir_fd, &changed, err);

    if (rc < 0) {
        clear_rows(hpc);
        return rc;
    }
    text = xmalloc(HPC_FILE_BYTES_MAX + 2);
    hpc->left_out = hpc->names_left_out;
    for (size_t i = 0; i < hpc->files.len; i++) {
        changed |= update_file(hpc, dir_fd, &hpc->files.at[i], text);
        hpc->left_out += hpc->files.at[i].left_out;
    }
    if (changed)
        rebuild_rows(hpc);
    return changed;
}
