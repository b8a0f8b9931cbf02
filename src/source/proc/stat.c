/* SPDX-License-Identifier: Apache-2.0 */
/* /proc/PID/stat, see proc(5). Any thread. */

#include "source/proc/stat.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/owner.h"

enum { STAT_CAP = 1024, FIELDS = 24 };

/* Fields of the line, counted from 1 as in proc(5). */
enum { FIELD_STATE = 3, FIELD_UTIME = 14, FIELD_STIME = 15, FIELD_START = 22, FIELD_VSIZE = 23, FIELD_RSS = 24 };

int proc_text(const char *root, const char *name, const char *file, char *text, size_t cap, Err *err)
{
    char path[PROC_PATH_CAP];
    CLEANUP_FD int fd = -1;
    ssize_t len;

    if (snprintf(path, sizeof(path), "%s/proc/%s/%s", root, name, file) >= (int)sizeof(path))
        return err_set(err, -ENAMETOOLONG, "the path of /proc is too long");
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return err_errno(err, "open '%s'", path);
    do
        len = read(fd, text, cap - 1);
    while (len < 0 && errno == EINTR);
    if (len < 0)
        return err_errno(err, "read '%s'", path);
    text[len] = '\0';
    return 0;
}

static uint64_t ticks_ns(uint64_t ticks)
{
    long hz = sysconf(_SC_CLK_TCK);

    return ticks * (NS_PER_S / (uint64_t)(hz > 0 ? hz : 100));
}

/* The name in parentheses may hold anything, parentheses too: the last one ends it. */
static bool split_fields(char *text, const char *fields[FIELDS + 1])
{
    char *at = strrchr(text, ')'), *rest = NULL;
    int i = FIELD_STATE;

    if (!at)
        return false;
    for (char *word = strtok_r(at + 1, " \n", &rest); word && i <= FIELDS; word = strtok_r(NULL, " \n", &rest))
        fields[i++] = word;
    return i > FIELDS;
}

int proc_stat(const char *root, const char *name, ProcStat *ret, Err *err)
{
    const char *fields[FIELDS + 1];
    char text[STAT_CAP];

    TRY(proc_text(root, name, "stat", text, sizeof(text), err));
    if (!split_fields(text, fields))
        return err_set(err, -EBADMSG, "%s/proc/%s/stat is not as expected", root, name);
    *ret = (ProcStat){.state = fields[FIELD_STATE][0],
                      .cpu_ns =
                          ticks_ns(strtoull(fields[FIELD_UTIME], NULL, 10) + strtoull(fields[FIELD_STIME], NULL, 10)),
                      .start_ns = ticks_ns(strtoull(fields[FIELD_START], NULL, 10)),
                      .virtual_bytes = strtoull(fields[FIELD_VSIZE], NULL, 10),
                      .rss_bytes = strtoull(fields[FIELD_RSS], NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE)};
    return 0;
}
