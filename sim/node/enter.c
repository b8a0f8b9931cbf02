/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folders of sysfs and devtmpfs take no new entries of ours (or would show them to everyone): such a folder is covered
 * by a small file system in which the real entries are mounted again beside ours. What may vanish from the tree while
 * the command runs is a link into it; what keeps its place is mounted.
 */
#include "sim/node/enter.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/owner.h"
#include "sim/node/enter_part.h"

enum { EXIT_NOT_STARTED = 127 };

typedef struct Graft {
    Stage stage;
    char ours[PATH_MAX];
    bool links;
} Graft;

static int graft_real(void *arg, const char *dir, const char *name, Err *err)
{
    const Graft *g = arg;
    char mine[PATH_MAX];
    TRY(path_join(mine, g->ours, name, err));
    return exists(mine) ? 0 : stage_copy(&g->stage, dir, name, err);
}

static int graft_mine(void *arg, const char *dir, const char *name, Err *err)
{
    const Graft *g = arg;
    char mine[PATH_MAX];
    TRY(path_join(mine, dir, name, err));
    return g->links ? stage_link(&g->stage, name, mine, err) : stage_folder(&g->stage, name, mine, err);
}

/* Shows the entries of the tree's folder of that path among the real ones. */
static int graft(const char *root, const char *target, bool links, Err *err)
{
    Graft g = {.stage = {.root = root}, .links = links};
    TRY(path_join(g.ours, root, target + 1, err));
    TRY(stage_begin(&g.stage, err));
    TRY(each_entry(target, graft_real, &g, err));
    TRY(each_entry(g.ours, graft_mine, &g, err));
    return stage_end(&g.stage, target, err);
}

/* One folder of the tree in place of the real one, or added to the folder above where there is none. */
static int replace(const char *root, const char *target, const char *above, Err *err)
{
    char ours[PATH_MAX];
    TRY(path_join(ours, root, target + 1, err));
    return exists(target) ? bind_at(ours, target, err) : graft(root, above, false, err);
}

/* Names that come and go are linked even before they are there. */
static int graft_modules(const char *root, Err *err)
{
    static const char *const names[] = {"nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm", "nvidia_peermem"};
    Graft g = {.stage = {.root = root}};
    TRY(path_join(g.ours, root, "sys/module", err));
    TRY(stage_begin(&g.stage, err));
    TRY(each_entry("/sys/module", graft_real, &g, err));
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char to[PATH_MAX];
        TRY(path_join(to, g.ours, names[i], err));
        TRY(stage_link(&g.stage, names[i], to, err));
    }
    return stage_end(&g.stage, "/sys/module", err);
}

static int graft_devices(const char *root, Err *err)
{
    Graft g = {.stage = {.root = root}};
    TRY(path_join(g.ours, root, "dev", err));
    TRY(stage_begin(&g.stage, err));
    TRY(each_entry("/dev", graft_real, &g, err));
    g.links = true;
    TRY(each_entry(g.ours, graft_mine, &g, err));
    return stage_end(&g.stage, "/dev", err);
}

static int proc_keep(const char *root, Err *err)
{
    static const char *const names[] = {"proc/driver", "proc/modules", "proc/devices"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char ours[PATH_MAX], real[PATH_MAX];
        TRY(path_join(ours, root, names[i], err));
        TRY(path_join(real, "", names[i], err));
        if (exists(real))
            TRY(bind_at(ours, real, err));
    }
    return 0;
}

static bool is_below(const char *path, const char *folder)
{
    size_t len = strlen(folder);
    return strncmp(path, folder, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

static int root_check(const char *root, char out[PATH_MAX], Err *err)
{
    if (!realpath(root, out))
        return err_errno(err, "open '%s'", root);
    if (is_below(out, "/proc") || is_below(out, "/sys"))
        return err_set(err, -EINVAL, "'%s' cannot lie below /proc or /sys", out);
    return 0;
}

static int namespace_begin(Err *err)
{
    if (unshare(CLONE_NEWNS) < 0)
        return errno == EPERM ? err_set(err, -EPERM,
                                        "a private mount namespace needs root (CAP_SYS_ADMIN); without it, give "
                                        "clients the folder as their root")
                              : err_errno(err, "make a mount namespace");
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return errno == EINVAL
                   ? err_set(err, -EPERM,
                             "'/' is no mount point here (a chroot), so mounts cannot be kept to ourselves; "
                             "run outside of it, or give clients the folder as their root")
                   : err_errno(err, "make mounts private");
    return 0;
}

int node_enter(const char *root_arg, NodeProc proc, Err *err)
{
    char root[PATH_MAX];
    TRY(root_check(root_arg, root, err));
    TRY(namespace_begin(err));
    TRY(graft(root, "/sys/devices", false, err));
    TRY(replace(root, "/sys/bus/pci", "/sys/bus", err));
    TRY(replace(root, "/sys/class/infiniband", "/sys/class", err));
    TRY(graft_modules(root, err));
    TRY(graft_devices(root, err));
    if (proc == NODE_PROC_REBUILD || (proc == NODE_PROC_AUTO && !exists("/proc/modules")))
        return proc_rebuild(root, err);
    return proc_keep(root, err);
}

/* ---- the command ---- */

static _Noreturn void child(const NodeCommand *command, int report)
{
    Err err = {0};
    if (node_enter(command->root, command->proc, &err) == 0) {
        for (const char *const *e = command->env; e && *e; e++)
            putenv((char *)(uintptr_t)*e);
        execvp(command->argv[0], (char *const *)(uintptr_t)command->argv);
        err_errno(&err, "run '%s'", command->argv[0]);
    }
    ssize_t n = write(report, &err, sizeof err);
    _exit(n == (ssize_t)sizeof err ? EXIT_NOT_STARTED : EXIT_NOT_STARTED - 1);
}

int node_spawn(const NodeCommand *command, pid_t *ret_pid, Err *err)
{
    int ends[2];
    Err failure;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_errno(err, "pipe");
    pid_t pid = fork();
    if (pid == 0)
        child(command, ends[1]);
    int fork_errno = errno;
    CLEANUP_FD int report = ends[0];
    close(ends[1]);
    if (pid < 0) {
        errno = fork_errno;
        return err_errno(err, "fork");
    }
    ssize_t n;
    while ((n = read(report, &failure, sizeof failure)) < 0 && errno == EINTR)
        ;
    if (n == 0) { /* closed by exec */
        *ret_pid = pid;
        return 0;
    }
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    if (n != (ssize_t)sizeof failure)
        return err_set(err, -EIO, "the process ended before it could run '%s'", command->argv[0]);
    return err_set(err, failure.code < 0 ? failure.code : -EIO, "%s", failure.text);
}
