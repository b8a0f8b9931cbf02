/* SPDX-License-Identifier: Apache-2.0 */
/* The job-mapping directory. Where a file changed all are read, into a second table; the two change places where they
 * differ. */
#include "source/podresources/hpc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/number.h"
#include "base/vec.h"

#define SETTLED_NS (2 * NS_PER_S) /* more than a file system's clock is coarse */

void hpc_init(Hpc *hpc, const char *dir)
{
    *hpc = (Hpc){.dir = xstrdup(dir)};
}

static void table_done(HpcTable *table)
{
    vec_done(table);
    arena_done(&table->arena);
}

void hpc_done(Hpc *hpc)
{
    table_done(&hpc->table);
    table_done(&hpc->spare);
    free(hpc->dir);
    *hpc = (Hpc){0};
}

/* -- one file ------------------------------------------------------------------------------------------------------ */

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
static bool parse_name(const char *name, JobAllocation *ret)
{
    uint64_t gpu = 0, instance = DEVICE_NO_NUMBER;
    size_t digits = strcspn(name, ".");

    if (strlen(name) > HPC_NAME_MAX || number_parsen_u64(name, digits, 0, DEVICE_NO_NUMBER - 1, &gpu, NULL) < 0 ||
        (name[digits] && number_parse_u64(name + digits + 1, 0, DEVICE_NO_NUMBER - 1, &instance, NULL) < 0))
        return false;
    *ret = (JobAllocation){.gpu = (uint32_t)gpu, .gpu_instance = (uint32_t)instance};
    return true;
}

/* Reads up to the cap into text (cap + 2 bytes); what is longer loses its last line, which may be cut. False where it
 * is no file that can be read. A pipe is not even opened: its other end would notice. */
static bool read_text(Hpc *hpc, int dir_fd, const char *name, char *text)
{
    CLEANUP_FD int fd = -1;
    struct stat stat;
    size_t len = 0;
    ssize_t got = 0;

    text[0] = '\0';
    if (fstatat(dir_fd, name, &stat, 0) < 0)
        return errno == ENOENT; /* gone meanwhile */
    if (!S_ISREG(stat.st_mode))
        return false;
    fd = openat(dir_fd, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    while (fd >= 0 && len <= HPC_FILE_BYTES_MAX && (got = read(fd, text + len, HPC_FILE_BYTES_MAX + 1 - len)) > 0)
        len += (size_t)got;
    if (fd < 0 || got < 0)
        return false;
    if (len > HPC_FILE_BYTES_MAX) {
        hpc->left_out++;
        while (len && text[len - 1] != '\n')
            len--;
    }
    text[len] = '\0';
    return true;
}

static bool is_job(const char *line, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (line[i] < ' ' || line[i] > '~')
            return false;
    return len <= HPC_JOB_BYTES_MAX;
}

/* A row for each line, without the blanks at its ends. */
static void add_jobs(Hpc *hpc, JobAllocation row, const char *text)
{
    size_t count = 0;

    for (const char *line = text, *next; *line; line = next) {
        size_t len = strcspn(line, "\n");

        next = line + len + (line[len] == '\n');
        while (len && strchr(" \t\r", line[len - 1]))
            len--;
        while (len && strchr(" \t", *line))
            line++, len--;
        if (!len)
            continue;
        if (count == HPC_JOBS_MAX || !is_job(line, len)) {
            hpc->left_out++;
            continue;
        }
        row.job = arena_strndup(&hpc->spare.arena, line, len);
        vec_push(&hpc->spare, row);
        count++;
    }
}

/* -- the table ----------------------------------------------------------------------------------------------------- */

/* A number that is another one when a file came, went or changed. *ret_newest_ns: when the last change was. */
static uint64_t read_stamp(DIR *dir, uint64_t *ret_newest_ns)
{
    const struct dirent *entry;
    uint64_t sum = 0;

    *ret_newest_ns = 0;
    for (size_t files = 0; files <= HPC_FILES_MAX && (entry = readdir(dir));) {
        struct stat st = {0};

        if (!has_form(entry->d_name))
            continue;
        files++;
        (void)fstatat(dirfd(dir), entry->d_name, &st, 0);
        const uint64_t changed_ns = (uint64_t)st.st_ctim.tv_sec * NS_PER_S + (uint64_t)st.st_ctim.tv_nsec;
        const uint64_t facts[] = {st.st_dev, st.st_ino, (uint64_t)st.st_size, changed_ns};

        sum += map_hash(facts, sizeof(facts), map_hash(entry->d_name, strlen(entry->d_name), 0));
        *ret_newest_ns = number_max_u64(*ret_newest_ns, changed_ns);
    }
    return sum;
}

static void read_files(Hpc *hpc, DIR *dir)
{
    CLEANUP_FREE char *text = xmalloc(HPC_FILE_BYTES_MAX + 2);
    const struct dirent *entry;
    size_t files = 0;
    JobAllocation row;

    hpc->reads++;
    for (rewinddir(dir); (entry = readdir(dir));) {
        if (!has_form(entry->d_name))
            continue;
        if (files == HPC_FILES_MAX || !parse_name(entry->d_name, &row)) {
            hpc->left_out++;
            continue;
        }
        files++;
        if (read_text(hpc, dirfd(dir), entry->d_name, text))
            add_jobs(hpc, row, text);
        else
            hpc->left_out++;
    }
}

static int compare_jobs(const void *left, const void *right)
{
    const JobAllocation *a = left, *b = right;

    if (a->gpu != b->gpu)
        return a->gpu < b->gpu ? -1 : 1;
    if (a->gpu_instance != b->gpu_instance) /* the whole GPU first */
        return a->gpu_instance + 1 < b->gpu_instance + 1 ? -1 : 1;
    return strcmp(a->job, b->job);
}

/* Sorts, and leaves out rows that say the same: "3" and "03" are one GPU. */
static void sort_jobs(HpcTable *table)
{
    size_t len = 0;

    vec_sort(table, compare_jobs);
    for (size_t i = 0; i < table->len; i++)
        if (!len || compare_jobs(&table->at[len - 1], &table->at[i]) != 0)
            table->at[len++] = table->at[i];
    table->len = len;
}

static bool same_jobs(const HpcTable *a, const HpcTable *b)
{
    bool same = a->len == b->len;

    for (size_t i = 0; same && i < a->len; i++)
        same = compare_jobs(&a->at[i], &b->at[i]) == 0;
    return same;
}

int hpc_update(Hpc *hpc, Err *err)
{
    CLEANUP(closedir_at) DIR *dir = opendir(hpc->dir);
    const int rc = dir ? 0 : err_errno(err, "open directory '%s'", hpc->dir);
    const HpcTable before = hpc->table;
    const uint64_t now_ns = clock_read(CLOCK_REALTIME);
    uint64_t newest_ns = now_ns, stamp = dir ? read_stamp(dir, &newest_ns) : 0;

    if (hpc->settled && dir && stamp == hpc->stamp)
        return 0;
    hpc->stamp = stamp;
    hpc->settled = newest_ns + SETTLED_NS < now_ns;
    hpc->left_out = 0;
    vec_clear(&hpc->spare);
    arena_reset(&hpc->spare.arena);
    if (dir)
        read_files(hpc, dir);
    sort_jobs(&hpc->spare);
    if (dir && same_jobs(&before, &hpc->spare))
        return 0;
    hpc->table = hpc->spare;
    hpc->spare = before;
    return rc < 0 ? rc : 1;
}
