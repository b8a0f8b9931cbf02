/* SPDX-License-Identifier: Apache-2.0 */
#include "source/proc/who.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/owner.h"
#include "source/proc/stat.h"

enum { PID_CAP = 16, STATUS_CAP = 4096, CGROUP_CAP = 8192 };

/* A process names itself as it likes: what would move the cursor is shown as '?'. */
static void hide_controls(char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (iscntrl((unsigned char)text[i]))
            text[i] = '?';
}

static void take_name(const char *root, const char *pid, ProcessOwner *owner)
{
    if (proc_text(root, pid, "comm", owner->name, sizeof(owner->name), NULL) < 0)
        owner->name[0] = '\0';
    owner->name[strcspn(owner->name, "\n")] = '\0';
    hide_controls(owner->name, strlen(owner->name));
}

/* "Uid:\t1000\t1000\t1000\t1000": the real one first. */
static void take_user(const char *root, const char *pid, ProcessOwner *owner)
{
    char text[STATUS_CAP];
    const char *line;

    if (proc_text(root, pid, "status", text, sizeof(text), NULL) < 0)
        return;
    line = strstr(text, "\nUid:");
    if (line && isdigit((unsigned char)line[5 + strspn(line + 5, " \t")]))
        owner->uid = (uint32_t)strtoul(line + 5, NULL, 10);
}

/* Arguments end with a zero byte each. */
static void take_command(const char *root, const char *pid, ProcessOwner *owner)
{
    size_t len = 0;

    memset(owner->command, 0, sizeof(owner->command));
    if (proc_text(root, pid, "cmdline", owner->command, sizeof(owner->command), NULL) < 0)
        return;
    for (size_t i = 0; i < sizeof(owner->command) - 1; i++)
        if (owner->command[i])
            len = i + 1;
    for (size_t i = 0; i < len; i++)
        if (!owner->command[i])
            owner->command[i] = ' ';
    hide_controls(owner->command, len);
}

int process_who(const char *root, uint32_t pid, bool with_command, ProcessOwner *ret, Err *err)
{
    char name[PID_CAP], text[CGROUP_CAP];
    ProcStat stat;

    process_owner_init(ret, pid);
    snprintf(name, sizeof(name), "%u", pid);
    TRY(proc_stat(root, name, &stat, err));
    ret->start_ns = stat.start_ns ? stat.start_ns : 1;
    ret->rss_bytes = stat.rss_bytes;
    ret->cpu_ns = stat.cpu_ns;
    ret->state = stat.state;
    take_name(root, name, ret);
    take_user(root, name, ret);
    if (proc_text(root, name, "cgroup", text, sizeof(text), NULL) == 0)
        process_cgroup(text, ret);
    if (with_command)
        take_command(root, name, ret);
    return 0;
}
