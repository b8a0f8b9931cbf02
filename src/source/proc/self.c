/* SPDX-License-Identifier: Apache-2.0 */
#include "source/proc/self.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/duration.h"
#include "base/file.h"
#include "base/owner.h"
#include "source/proc/stat.h"

enum { STAT_MAX = 4 * 1024 * 1024 }; /* /proc/stat has a line per CPU and a number per interrupt */

OWNER_POINTER(DIR, closedir);

/* The directory itself is open while it is read: one less. */
static int count_fds(const char *root, uint64_t *ret, Err *err)
{
    char path[PROC_PATH_CAP];
    CLEANUP(closedir_at) DIR *dir = NULL;
    const struct dirent *entry;
    uint64_t count = 0;

    if (snprintf(path, sizeof(path), "%s/proc/self/fd", root) >= (int)sizeof(path))
        return err_set(err, -ENAMETOOLONG, "the path of /proc is too long");
    dir = opendir(path);
    if (!dir)
        return err_errno(err, "open '%s'", path);
    while ((entry = readdir(dir)))
        count += entry->d_name[0] != '.';
    *ret = root[0] == '\0' && count > 0 ? count - 1 : count;
    return 0;
}

static int read_boot(const char *root, uint64_t *ret_ns, Err *err)
{
    char path[PROC_PATH_CAP];
    CLEANUP(str_done) Str text;
    const char *line;

    str_init(&text, STAT_MAX);
    if (snprintf(path, sizeof(path), "%s/proc/stat", root) >= (int)sizeof(path))
        return err_set(err, -ENAMETOOLONG, "the path of /proc is too long");
    TRY(file_read(path, STAT_MAX, &text, err));
    line = strncmp(text.text, "btime ", 6) == 0 ? text.text - 1 : strstr(text.text, "\nbtime ");
    if (!line)
        return err_set(err, -EBADMSG, "'%s' does not say when the machine was started", path);
    *ret_ns = strtoull(line + strlen("\nbtime "), NULL, 10) * NS_PER_S;
    return 0;
}

int proc_self_read(const char *root, ProcSelf *ret, Err *err)
{
    struct rlimit limit;
    struct timespec used;
    uint64_t fds, boot_ns = 0;
    ProcStat stat;

    TRY(proc_stat(root, "self", &stat, err));
    TRY(count_fds(root, &fds, err));
    TRY(read_boot(root, &boot_ns, err));
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return err_errno(err, "ask for the limit of open files");
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) < 0)
        return err_errno(err, "ask for the time that was used");
    *ret = (ProcSelf){.cpu_ns = (uint64_t)used.tv_sec * NS_PER_S + (uint64_t)used.tv_nsec,
                      .rss_bytes = stat.rss_bytes,
                      .virtual_bytes = stat.virtual_bytes,
                      .open_fds = fds,
                      .max_fds = limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur,
                      .start_real_ns = boot_ns + stat.start_ns};
    return 0;
}
