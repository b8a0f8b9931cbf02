/* SPDX-License-Identifier: Apache-2.0 */
#include "source/proc/task.h"

#include <stdio.h>
#include <string.h>

#include "source/proc/stat.h"

enum { PID_CAP = 16, LINE_CAP = 256 };

int proc_task_read(const char *root, pid_t pid, ProcTask *ret, Err *err)
{
    char name[PID_CAP];
    ProcStat stat;

    snprintf(name, sizeof(name), "%d", (int)pid);
    TRY(proc_stat(root, name, &stat, err));
    *ret =
        (ProcTask){.state = stat.state, .rss_bytes = stat.rss_bytes, .cpu_ns = stat.cpu_ns, .start_ns = stat.start_ns};
    return 0;
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
