/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /proc rebuilt: the kernel's own lies in a folder of it, and every entry is a link into that one. The helper is nobody
 * the command would know as a child, holds none of its files and ends with it.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/owner.h"
#include "sim/node/enter.h"
#include "sim/node/enter_part.h"

OWNER_POINTER(DIR, closedir);

#define KERNEL ".kernel"
enum {
    PIDS_MAX = 4 * 1024 * 1024, /* the kernel's own limit */
    PIDS_RESERVED = 300,        /* where the kernel begins anew */
    PIDS_AHEAD = 1024,          /* links made before their process, so that a new one finds itself at once */
};

static bool is_pid(const char *name)
{
    return isdigit((unsigned char)name[0]);
}

static int link_kernel(void *arg, const char *dir, const char *name, Err *err)
{
    static const char *const ours[] = {"driver", "modules", "devices"};
    char to[NAME_MAX + sizeof KERNEL + 1];
    (void)dir;
    for (size_t i = 0; i < ARRAY_LEN(ours); i++)
        if (strcmp(name, ours[i]) == 0)
            return 0;
    snprintf(to, sizeof to, KERNEL "/%s", name);
    return stage_link(arg, name, to, err);
}

/* ---- the helper ---- */

static uint8_t linked[PIDS_MAX / 8], seen[PIDS_MAX / 8];
static uint32_t highest;

static void follow(int proc, uint32_t pid)
{
    char name[16], to[32];
    uint8_t bit = (uint8_t)(1u << pid % 8);
    seen[pid / 8] |= bit;
    highest = pid > highest ? pid : highest;
    if (linked[pid / 8] & bit)
        return;
    snprintf(name, sizeof name, "%u", pid);
    snprintf(to, sizeof to, KERNEL "/%u", pid);
    if (symlinkat(to, proc, name) == 0 || errno == EEXIST)
        linked[pid / 8] |= bit;
}

static void forget(int proc)
{
    for (uint32_t i = 0; i <= highest / 8; i++) {
        for (uint32_t bit = 0, gone = linked[i] & ~seen[i]; gone >> bit; bit++) {
            char name[16];
            if (!(gone >> bit & 1))
                continue;
            snprintf(name, sizeof name, "%u", i * 8 + bit);
            unlinkat(proc, name, 0);
        }
        linked[i] = seen[i];
        seen[i] = 0;
    }
}

/* The first number in a file of the kernel's after `skip` blanks; 0 where there is none. */
static uint32_t kernel_number(const char *path, int skip)
{
    char text[128] = "";
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, text, sizeof text - 1) <= 0)
        return 0;
    const char *at = text;
    for (; skip > 0 && at; skip--)
        at = strchr(at, ' ') ? strchr(at, ' ') + 1 : NULL;
    return at ? (uint32_t)strtoul(at, NULL, 10) : 0;
}

/* Links for the pids that come next: until their process exists they lead nowhere. */
static void follow_ahead(int proc)
{
    uint32_t pid = kernel_number("/proc/" KERNEL "/loadavg", 4);
    uint32_t max = kernel_number("/proc/" KERNEL "/sys/kernel/pid_max", 0);
    if (max == 0 || max > PIDS_MAX)
        max = PIDS_MAX;
    for (uint32_t i = 0; i < PIDS_AHEAD; i++) {
        pid = pid + 1 < max ? pid + 1 : PIDS_RESERVED;
        follow(proc, pid);
    }
}

static void follow_all(int proc)
{
    CLEANUP(closedir_at) DIR *kernel = opendir("/proc/" KERNEL);
    if (!kernel)
        return;
    for (struct dirent *e; (e = readdir(kernel));) {
        unsigned long pid = is_pid(e->d_name) ? strtoul(e->d_name, NULL, 10) : 0;
        if (pid > 0 && pid < PIDS_MAX)
            follow(proc, (uint32_t)pid);
    }
    follow_ahead(proc);
    forget(proc);
}

static _Noreturn void help(pid_t command, int proc)
{
    int watch = (int)syscall(SYS_pidfd_open, command, 0);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    prctl(PR_SET_NAME, "stoker-proc");
    setsid();
    for (int i = 0; null >= 0 && i < 3; i++)
        dup2(null, i);
    struct pollfd pfd = {.fd = watch, .events = POLLIN};
    for (;;) {
        if (poll(&pfd, 1, NODE_PROC_LAG_MS) > 0 || (watch < 0 && kill(command, 0) < 0))
            _exit(0);
        follow_all(proc);
    }
}

/* Twice removed, so that the command has no child that it did not start. */
static int helper_start(Err *err)
{
    pid_t command = getpid(), first = fork();
    if (first < 0)
        return err_errno(err, "fork");
    if (first == 0) {
        syscall(SYS_close_range, 3u, ~0u, 0u);
        int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        follow_all(proc); /* before the command begins */
        pid_t second = fork();
        if (second == 0)
            help(command, proc);
        _exit(second < 0);
    }
    int status = 0;
    while (waitpid(first, &status, 0) < 0 && errno == EINTR)
        ;
    return status == 0 ? 0 : err_set(err, -EAGAIN, "the helper for /proc could not be started");
}

int proc_rebuild(const char *root, Err *err)
{
    static const char *const files[] = {"modules", "devices"};
    Stage stage = {.root = root};
    char driver[PATH_MAX];
    TRY(stage_begin(&stage, err));
    TRY(stage_folder(&stage, KERNEL, "/proc", err));
    TRY(each_entry("/proc", link_kernel, &stage, err));
    TRY(path_join(driver, root, "proc/driver", err));
    TRY(stage_folder(&stage, "driver", driver, err));
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        char folder[PATH_MAX], to[PATH_MAX];
        TRY(path_join(folder, root, "proc", err));
        TRY(path_join(to, folder, files[i], err));
        TRY(stage_link(&stage, files[i], to, err));
    }
    TRY(stage_end(&stage, "/proc", err));
    return helper_start(err);
}
