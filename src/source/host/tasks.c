/* SPDX-License-Identifier: Apache-2.0 */
#include "source/host/tasks.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/owner.h"
#include "source/proc/stat.h"
#include "source/proc/task.h"

enum { STAT_CAP = 1024, FIELD_STATE = 3, FIELD_START = 22 };

OWNER_POINTER(DIR, closedir);

/* What proc(5) says of a process. */
typedef struct Line {
    char name[EVENT_NAME_CAP];
    char state;
    uint64_t start;
} Line;

/* "12 (a) b) S 1 ...": the name may hold anything, the last parenthesis ends it. */
static bool read_line(const char *root, const char *pid, Line *ret)
{
    char text[STAT_CAP], *name, *end, *rest = NULL;
    int field = FIELD_STATE;

    if (proc_text(root, pid, "stat", text, sizeof(text), NULL) < 0)
        return false;
    name = strchr(text, '(');
    end = strrchr(text, ')');
    if (!name || !end || end < name)
        return false;
    *end = '\0';
    *ret = (Line){.state = '\0'};
    snprintf(ret->name, sizeof(ret->name), "%.*s", (int)sizeof(ret->name) - 1, name + 1);
    for (char *word = strtok_r(end + 1, " \n", &rest); word; word = strtok_r(NULL, " \n", &rest), field++) {
        if (field == FIELD_STATE)
            ret->state = word[0];
        if (field == FIELD_START)
            ret->start = strtoull(word, NULL, 10);
    }
    return ret->state != '\0';
}

/* ---- who has to do with the driver ---- */

static bool begins_with_any(const char *text, const char *const *with, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strncmp(text, with[i], strlen(with[i])) == 0)
            return true;
    return false;
}

/* Its tools and services, and the threads that it has in the kernel. */
static bool is_its_name(const char *name)
{
    static const char *const names[] = {"nvidia", "nv-", "nv_", "nvsm", "irq/nvidia", "UVM "};

    return begins_with_any(name, names, ARRAY_LEN(names)) || strstr(name, "-nvidia");
}

/* Functions of its modules: nvidia's own, its layer above the kernel (os_), the resource manager (rm_), uvm. */
static bool is_its_function(const char *wchan)
{
    static const char *const functions[] = {"nv_",  "_nv0",       "nvidia",   "nvlink",  "nvswitch", "nvUvm",
                                            "uvm_", "os_acquire", "os_delay", "os_wait", "rm_"};

    return begins_with_any(wchan, functions, ARRAY_LEN(functions));
}

/* Reading where a descriptor leads asks the kernel for a name, not the device. */
static bool holds_device(const char *root, const char *pid)
{
    char path[PROC_PATH_CAP], target[64];
    CLEANUP(closedir_at) DIR *dir = NULL;
    const struct dirent *entry;

    if (snprintf(path, sizeof(path), "%s/proc/%s/fd", root, pid) >= (int)sizeof(path))
        return false;
    dir = opendir(path); /* ours and those of our user, or all as root */
    for (int i = 0; dir && i < HOST_FDS_MAX && (entry = readdir(dir)); i++) {
        const ssize_t len = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);
        target[len > 0 ? len : 0] = '\0';
        if (strncmp(target, "/dev/nvidia", strlen("/dev/nvidia")) == 0)
            return true;
    }
    return false;
}

static void add_stuck(const char *root, const char *pid, const Line *line, HostTasks *tasks)
{
    FactsTask task = {.pid = (pid_t)strtol(pid, NULL, 10)};

    proc_task_wchan(root, task.pid, task.wchan, sizeof(task.wchan));
    if (!is_its_name(line->name) && !is_its_function(task.wchan) && !holds_device(root, pid))
        return;
    tasks->stuck_count++;
    if (tasks->stuck_len == FACTS_STUCK_MAX)
        return;
    memcpy(task.name, line->name, sizeof(task.name));
    tasks->start[tasks->stuck_len] = line->start;
    tasks->stuck[tasks->stuck_len++] = task;
}

/* ---- all ---- */

static void look_at(const char *root, const char *pid, HostTasks *tasks)
{
    Line line;

    if (!read_line(root, pid, &line))
        return;
    if (line.state == 'D')
        add_stuck(root, pid, &line, tasks);
    if (line.state == 'Z' || line.state == 'X')
        return;
    /* the kernel keeps 15 characters */
    tasks->persistenced |= strcmp(line.name, "nvidia-persiste") == 0;
    tasks->fabric_manager |= strcmp(line.name, "nv-fabricmanage") == 0;
}

void host_tasks_look(const char *root, HostTasks *ret)
{
    char path[PROC_PATH_CAP];
    CLEANUP(closedir_at) DIR *dir = NULL;
    const struct dirent *entry;

    memset(ret, 0, sizeof(*ret));
    if (snprintf(path, sizeof(path), "%s/proc", root) >= (int)sizeof(path))
        return;
    dir = opendir(path);
    ret->known = dir != NULL;
    for (int i = 0; dir && i < HOST_TASKS_MAX && (entry = readdir(dir));) {
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        look_at(root, entry->d_name, ret);
        i++;
    }
}
