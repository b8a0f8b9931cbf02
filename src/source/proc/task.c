/* SPDX-License-Identifier: Apache-2.0 */
#include "source/proc/task.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/cleanup.h"

enum { STAT_CAP = 1024, FIELDS = 24 };

/* Fields of the line, counted from 1 as in proc(5). */
enum {
    FIELD_NAME = 2,
    FIELD_STATE = 3,
    FIELD_PARENT = 4,
    FIELD_UTIME = 14,
    FIELD_STIME = 15,
    FIELD_START = 22,
    FIELD_VSIZE = 23,
    FIELD_RSS = 24
};

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

/* "12 (a) b) S 1 ...": the name may hold anything, parentheses too: the last one ends it. */
static bool split_fields(char *text, const char *fields[FIELDS + 1])
{
    char *name = strchr(text, '('), *at = strrchr(text, ')'), *rest = NULL;
    int i = FIELD_STATE;

    if (!name || !at || at < name)
        return false;
    *at = '\0';
    fields[FIELD_NAME] = name + 1;
    for (char *word = strtok_r(at + 1, " \n", &rest); word && i <= FIELDS; word = strtok_r(NULL, " \n", &rest))
        fields[i++] = word;
    return i > FIELDS;
}

int proc_stat(const char *root, const char *name, ProcTask *ret, Err *err)
{
    const char *fields[FIELDS + 1];
    char text[STAT_CAP];

    TRY(proc_text(root, name, "stat", text, sizeof(text), err));
    if (!split_fields(text, fields))
        return err_set(err, -EBADMSG, "%s/proc/%s/stat is not as expected", root, name);
    *ret = (ProcTask){.state = fields[FIELD_STATE][0],
                      .parent = (pid_t)strtol(fields[FIELD_PARENT], NULL, 10),
                      .cpu_ns =
                          ticks_ns(strtoull(fields[FIELD_UTIME], NULL, 10) + strtoull(fields[FIELD_STIME], NULL, 10)),
                      .start_ns = ticks_ns(strtoull(fields[FIELD_START], NULL, 10)),
                      .virtual_bytes = strtoull(fields[FIELD_VSIZE], NULL, 10),
                      .rss_bytes = strtoull(fields[FIELD_RSS], NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE)};
    snprintf(ret->name, sizeof(ret->name), "%.*s", PROC_NAME_CAP - 1, fields[FIELD_NAME]);
    return 0;
}

enum { STAT_MAX = 4 * 1024 * 1024 }; /* /proc/stat has a line per CPU and a number per interrupt */

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

int proc_boot_ns(const char *root, uint64_t *ret_ns, Err *err)
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
    uint64_t fds, boot_ns = 0;
    ProcTask stat;

    TRY(proc_stat(root, "self", &stat, err));
    TRY(count_fds(root, &fds, err));
    TRY(proc_boot_ns(root, &boot_ns, err));
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return err_errno(err, "ask for the limit of open files");
    *ret = (ProcSelf){.cpu_ns = clock_read(CLOCK_PROCESS_CPUTIME_ID),
                      .rss_bytes = stat.rss_bytes,
                      .virtual_bytes = stat.virtual_bytes,
                      .open_fds = fds,
                      .max_fds = limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur,
                      .start_real_ns = boot_ns + stat.start_ns};
    return 0;
}

enum { PID_CAP = 16, LINE_CAP = 256 };

int proc_task_read(const char *root, pid_t pid, ProcTask *ret, Err *err)
{
    char name[PID_CAP];

    snprintf(name, sizeof(name), "%d", (int)pid);
    return proc_stat(root, name, ret, err);
}

/* Letters, digits, '_' and '.': what kernel functions are called. */
static size_t symbol_len(const char *text)
{
    return strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.");
}

/* "0" stands for running or hidden. */
static bool from_wchan(const char *root, const char *name, char *text, size_t cap)
{
    char line[LINE_CAP];

    if (proc_text(root, name, "wchan", line, sizeof(line), NULL) < 0 || strcmp(line, "0") == 0)
        return false;
    line[symbol_len(line)] = '\0';
    snprintf(text, cap, "%s", line);
    return line[0] != '\0';
}

/* "[<0>] nv_wait+0x1f/0x40 [nvidia]", the innermost first. */
static bool from_stack(const char *root, const char *name, char *text, size_t cap)
{
    char line[LINE_CAP];
    const char *symbol;

    if (proc_text(root, name, "stack", line, sizeof(line), NULL) < 0)
        return false;
    symbol = strstr(line, "] ");
    if (!symbol || symbol_len(symbol + 2) == 0)
        return false;
    snprintf(text, cap, "%.*s", (int)symbol_len(symbol + 2), symbol + 2);
    return true;
}

static bool from_syscall(const char *root, const char *name, char *text, size_t cap)
{
    char line[LINE_CAP];
    int number;

    if (proc_text(root, name, "syscall", line, sizeof(line), NULL) < 0 || sscanf(line, "%d", &number) != 1)
        return false;
    snprintf(text, cap, "syscall %d", number);
    return true;
}

void proc_task_wchan(const char *root, pid_t pid, char *text, size_t cap)
{
    char name[PID_CAP];

    snprintf(name, sizeof(name), "%d", (int)pid);
    text[0] = '\0';
    if (!from_wchan(root, name, text, cap) && !from_stack(root, name, text, cap) &&
        !from_syscall(root, name, text, cap))
        text[0] = '\0';
}
