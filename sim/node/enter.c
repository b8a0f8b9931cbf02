/* SPDX-License-Identifier: Apache-2.0 */
/* A mount namespace in which a command sees the node's files as the real ones. */
#include "sim/node/enter.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"

/* A file system under construction. */
typedef struct Stage {
    char dir[PATH_MAX];
    const char *root; /* of the tree */
} Stage;

typedef int (*EntryFn)(void *arg, const char *dir, const char *name, Err *err);

/* --- the stage --------------------------------------------------------------------------------------------------- */

/* The stage is a tmpfs on a folder of the tree, moved over the real folder once it is complete. */

static int path_join(char out[PATH_MAX], const char *a, const char *b, Err *err)
{
    size_t la = strlen(a), lb = strlen(b);
    if (la + 1 + lb >= PATH_MAX)
        return err_set(err, -ENAMETOOLONG, "'%.100s/%.100s' is too long", a, b);
    memcpy(out, a, la);
    out[la] = '/';
    memcpy(out + la + 1, b, lb + 1);
    return 0;
}

static bool path_exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static int each_entry(const char *dir, EntryFn fn, void *arg, Err *err)
{
    CLEANUP(closedir_at) DIR *entries = opendir(dir);
    if (!entries)
        return errno == ENOENT ? 0 : err_errno(err, "open '%s'", dir);
    for (struct dirent *e; (e = readdir(entries));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            TRY(fn(arg, dir, e->d_name, err));
    return 0;
}

static int stage_begin(Stage *stage, Err *err)
{
    TRY(path_join(stage->dir, stage->root, ".stage", err));
    if (mkdir(stage->dir, 0755) < 0 && errno != EEXIST)
        return err_errno(err, "make '%s'", stage->dir);
    if (mount("stoker", stage->dir, "tmpfs", MS_NOSUID, "mode=0755") < 0)
        return err_errno(err, "mount a tmpfs on '%s'", stage->dir);
    return 0;
}

static int stage_end(Stage *stage, const char *target, Err *err)
{
    return mount(stage->dir, target, NULL, MS_MOVE, NULL) < 0 ? err_errno(err, "mount over '%s'", target) : 0;
}

static int bind_at(const char *source, const char *target, Err *err)
{
    return mount(source, target, NULL, MS_BIND | MS_REC, NULL) < 0
               ? err_errno(err, "mount '%.200s' on '%.200s'", source, target)
               : 0;
}

static int stage_folder(const Stage *stage, const char *name, const char *source, Err *err)
{
    char path[PATH_MAX];
    TRY(path_join(path, stage->dir, name, err));
    if (mkdir(path, 0755) < 0 && errno != EEXIST)
        return err_errno(err, "make '%s'", path);
    return bind_at(source, path, err);
}

static int stage_link(const Stage *stage, const char *name, const char *to, Err *err)
{
    char path[PATH_MAX];
    TRY(path_join(path, stage->dir, name, err));
    return symlink(to, path) < 0 && errno != EEXIST ? err_errno(err, "link '%s'", path) : 0;
}

static int copy_link(const Stage *stage, const char *real, const char *name, Err *err)
{
    char to[PATH_MAX];
    ssize_t n = readlink(real, to, sizeof to - 1);
    if (n < 0)
        return err_errno(err, "read link '%s'", real);
    to[n] = '\0';
    return stage_link(stage, name, to, err);
}

static int copy_file(const char *real, const char *path, Err *err)
{
    CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0)
        return err_errno(err, "make '%s'", path);
    return bind_at(real, path, err);
}

static int stage_copy(const Stage *stage, const char *dir, const char *name, Err *err)
{
    char real[PATH_MAX], path[PATH_MAX];
    struct stat st;
    TRY(path_join(real, dir, name, err));
    TRY(path_join(path, stage->dir, name, err));
    if (lstat(real, &st) < 0)
        return errno == ENOENT ? 0 : err_errno(err, "look at '%s'", real); /* gone meanwhile */
    if (S_ISDIR(st.st_mode))
        return stage_folder(stage, name, real, err);
    if (S_ISLNK(st.st_mode))
        return copy_link(stage, real, name, err);
    if ((S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode)) && mknod(path, st.st_mode, st.st_rdev) == 0) {
        if (chown(path, st.st_uid, st.st_gid) == 0 && chmod(path, st.st_mode & 07777) == 0)
            return 0;
        unlink(path);
    }
    return copy_file(real, path, err);
}

/* --- /proc ------------------------------------------------------------------------------------------------------- */

/* /proc rebuilt: the kernel's own lies in a folder of it, and every entry is a link into that one. */

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

static uint8_t linked[PIDS_MAX / 8], seen[PIDS_MAX / 8];
static uint32_t highest;

static void link_process(int proc, uint32_t pid)
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

static void unlink_ended(int proc)
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
        link_process(proc, pid);
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
            link_process(proc, (uint32_t)pid);
    }
    follow_ahead(proc);
    unlink_ended(proc);
}

static int proc_rebuild(const char *root, Err *err)
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
    return stage_end(&stage, "/proc", err);
}

/* --- /dev -------------------------------------------------------------------------------------------------------- */

/*
 * Programs look at device nodes with lstat, so they are nodes of their own here, not links into the tree. A node that
 * may not be made, and what is a plain file in the tree, is a link to it.
 */

typedef struct Mirror {
    const char *from, *to; /* folders */
} Mirror;

static int mirror_folder(const Mirror *m, Err *err);

static int mirror_entry(void *arg, const char *dir, const char *name, Err *err)
{
    const Mirror *m = arg;
    char from[PATH_MAX], to[PATH_MAX];
    struct stat st;
    TRY(path_join(from, dir, name, err));
    TRY(path_join(to, m->to, name, err));
    if (lstat(from, &st) < 0)
        return 0; /* gone meanwhile */
    if (S_ISDIR(st.st_mode)) {
        if (mkdir(to, 0755) < 0 && errno != EEXIST)
            return err_errno(err, "make '%s'", to);
        return mirror_folder(&(Mirror){from, to}, err);
    }
    if (path_exists(to))
        return 0; /* a name keeps its numbers */
    if (S_ISCHR(st.st_mode) && mknod(to, st.st_mode, st.st_rdev) == 0)
        return chmod(to, st.st_mode & 07777) < 0 ? err_errno(err, "set the mode of '%s'", to) : 0;
    return symlink(from, to) < 0 ? err_errno(err, "link '%s'", to) : 0;
}

static int remove_gone(void *arg, const char *dir, const char *name, Err *err)
{
    const Mirror *m = arg;
    char from[PATH_MAX];
    TRY(path_join(from, m->from, name, err));
    return strncmp(name, "nvidia", 6) != 0 || path_exists(from) ? 0 : file_remove_tree(dir, name, err);
}

static int mirror_folder(const Mirror *m, Err *err)
{
    TRY(each_entry(m->from, mirror_entry, (void *)(uintptr_t)m, err));
    return each_entry(m->to, remove_gone, (void *)(uintptr_t)m, err);
}

/* --- the helper -------------------------------------------------------------------------------------------------- */

/* A process inside that keeps up with the tree's devices and, where /proc was rebuilt, with processes. It is nobody
 * the command would know as a child, holds none of its files and ends with it. */
typedef struct Helper {
    char dev[PATH_MAX]; /* the tree's */
    bool proc_rebuilt;
    int proc; /* the folder */
} Helper;

static void follow_once(const Helper *helper)
{
    Err ignored; /* tried again in a moment */
    mirror_folder(&(Mirror){helper->dev, "/dev"}, &ignored);
    if (helper->proc_rebuilt)
        follow_all(helper->proc);
}

static _Noreturn void run_helper(pid_t command, const Helper *helper)
{
    int watch = (int)syscall(SYS_pidfd_open, command, 0);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    prctl(PR_SET_NAME, "stoker-proc");
    setsid();
    for (int i = 0; null >= 0 && i < 3; i++)
        dup2(null, i);
    struct pollfd pfd = {.fd = watch, .events = POLLIN};
    for (;;) {
        if (poll(&pfd, 1, NODE_LAG_MS) > 0 || (watch < 0 && kill(command, 0) < 0))
            _exit(0);
        follow_once(helper);
    }
}

/* Twice removed, so that the command has no child that it did not start. */
static int helper_start(Helper *helper, Err *err)
{
    pid_t command = getpid(), first = fork();
    if (first < 0)
        return err_errno(err, "fork");
    if (first == 0) {
        syscall(__NR_close_range, 3u, ~0u, 0u);
        if (helper->proc_rebuilt)
            helper->proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        follow_once(helper); /* before the command begins */
        pid_t second = fork();
        if (second == 0)
            run_helper(command, helper);
        _exit(second < 0);
    }
    int status = 0;
    while (waitpid(first, &status, 0) < 0 && errno == EINTR)
        ;
    return status == 0 ? 0 : err_set(err, -EAGAIN, "the helper that follows the node could not be started");
}

/* --- entering ---------------------------------------------------------------------------------------------------- */

/*
 * Folders of sysfs and devtmpfs take no new entries of ours (or would show them to everyone): such a folder is covered
 * by a small file system in which the real entries are mounted again beside ours. What may vanish from the tree while
 * the command runs is a link into it; what keeps its place is mounted.
 */

enum { EXIT_NOT_STARTED = 127 };

typedef struct Graft {
    Stage stage;
    char ours[PATH_MAX];
} Graft;

static int graft_real(void *arg, const char *dir, const char *name, Err *err)
{
    const Graft *g = arg;
    char mine[PATH_MAX];
    TRY(path_join(mine, g->ours, name, err));
    return path_exists(mine) ? 0 : stage_copy(&g->stage, dir, name, err);
}

static int graft_mine(void *arg, const char *dir, const char *name, Err *err)
{
    const Graft *g = arg;
    return stage_copy(&g->stage, dir, name, err);
}

/* Shows the entries of the tree's folder of that path among the real ones. */
static int add_entries(const char *root, const char *target, Err *err)
{
    Graft g = {.stage = {.root = root}};
    TRY(path_join(g.ours, root, target + 1, err));
    TRY(stage_begin(&g.stage, err));
    TRY(each_entry(target, graft_real, &g, err));
    TRY(each_entry(g.ours, graft_mine, &g, err));
    return stage_end(&g.stage, target, err);
}

/* One folder of the tree in place of the real one, or added to the folder above where there is none. */
static int replace_folder(const char *root, const char *target, const char *above, Err *err)
{
    char ours[PATH_MAX];
    TRY(path_join(ours, root, target + 1, err));
    return path_exists(target) ? bind_at(ours, target, err) : add_entries(root, above, err);
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
    return stage_end(&g.stage, "/dev", err);
}

/* Where the tree has libraries, they are seen among the real ones. */
static int graft_libraries(const char *root, Err *err)
{
    char ours[PATH_MAX];
    TRY(path_join(ours, root, "usr/lib64", err));
    if (!path_exists(ours))
        return 0;
    return add_entries(root, path_exists("/usr/lib64") ? "/usr/lib64" : "/usr", err);
}

static int proc_keep(const char *root, Err *err)
{
    static const char *const names[] = {"proc/driver", "proc/modules", "proc/devices"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char ours[PATH_MAX], real[PATH_MAX];
        TRY(path_join(ours, root, names[i], err));
        TRY(path_join(real, "", names[i], err));
        if (path_exists(real))
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
    TRY(add_entries(root, "/sys/devices", err));
    TRY(replace_folder(root, "/sys/bus/pci", "/sys/bus", err));
    TRY(replace_folder(root, "/sys/class/infiniband", "/sys/class", err));
    TRY(graft_modules(root, err));
    TRY(graft_devices(root, err));
    TRY(graft_libraries(root, err));
    Helper helper = {.proc_rebuilt =
                         proc == NODE_PROC_REBUILD || (proc == NODE_PROC_AUTO && !path_exists("/proc/modules"))};
    TRY(path_join(helper.dev, root, "dev", err));
    TRY(helper.proc_rebuilt ? proc_rebuild(root, err) : proc_keep(root, err));
    return helper_start(&helper, err);
}

/* ---- the command ---- */

static _Noreturn void run_child(const NodeCommand *command, int report)
{
    Err err = {0};
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (command->mask)
        sigprocmask(SIG_SETMASK, command->mask, NULL);
    if (!command->enter || node_enter(command->root, command->proc, &err) == 0) {
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
        run_child(command, ends[1]);
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
