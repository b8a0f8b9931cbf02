/* SPDX-License-Identifier: Apache-2.0 */
/* A child reports over a pipe when it has its name, so that a lent pid never shows ours. */
#include "sim/node/lend.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/cleanup.h"
#include "sim/core/control.h"
#include "sim/core/state.h"

enum { STAT_MAX = 4096, STAT_ARG_START = 48, READY_MS = 5000 };

/* Fields 48 and 49 of /proc/self/stat (proc(5)): where the arguments begin and end in our memory. */
static void find_args(Lend *lend)
{
    CLEANUP(str_done) Str text;
    str_init(&text, STAT_MAX);
    if (file_read("/proc/self/stat", STAT_MAX, &text, NULL) < 0)
        return;
    char *p = strrchr(text.text, ')'); /* ends field 2, which may hold blanks */
    for (int field = 2; p && field < STAT_ARG_START; field++)
        p = strchr(p + 1, ' ');
    if (!p)
        return;
    uintptr_t begin = strtoul(p, &p, 10), end = strtoul(p, NULL, 10);
    if (begin && end > begin) {
        lend->args = begin;
        lend->args_end = end;
    }
}

void lend_start(Lend *lend, SimImage *image)
{
    memset(lend, 0, sizeof *lend);
    lend->image = image;
    find_args(lend);
}

/* ---- the child ---- */

/* The kernel shows the arguments' memory as the command line; once its last byte is not 0, up to the first 0. */
static void name_args(const Lend *lend, const char *name)
{
    size_t room = lend->args_end - lend->args, len = strlen(name);
    char *area = (char *)lend->args;
    if (room < 3)
        return;
    memset(area, 0, room);
    memcpy(area, name, len < room - 2 ? len : room - 2);
    area[room - 1] = 1;
}

static void close_all_but(int fd)
{
    if (fd > 3)
        syscall(__NR_close_range, 3u, (unsigned)fd - 1, 0u);
    syscall(__NR_close_range, (unsigned)fd + 1, ~0u, 0u);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int i = 0; null >= 0 && i < 3; i++)
        dup2(null, i);
}

static _Noreturn void live_as_work(const Lend *lend, const SimWork *work, int ready, pid_t parent)
{
    sigset_t none;
    static const int ended_by[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    for (size_t i = 0; i < ARRAY_LEN(ended_by); i++)
        signal(ended_by[i], SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setsid(); /* a terminal's Ctrl-C is for our parent */
    prctl(PR_SET_NAME, work->name);
    name_args(lend, work->name);
    if (geteuid() == 0 && work->uid &&
        (setgroups(0, NULL) < 0 || setresgid(work->uid, work->uid, work->uid) < 0 ||
         setresuid(work->uid, work->uid, work->uid) < 0))
        _exit(1);
    prctl(PR_SET_DUMPABLE, 1);        /* its /proc entries belong to its user */
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* after the change of user, which clears it */
    if (getppid() != parent)
        _exit(1);
    close_all_but(ready);
    if (write(ready, "", 1) != 1)
        _exit(1);
    close(ready);
    for (;;)
        pause();
}

/* ---- the parent ---- */

static int wait_ready(int fd)
{
    struct pollfd pfd = {.fd = fd, .events = POLLIN};
    char byte;
    int n;
    while ((n = poll(&pfd, 1, READY_MS)) < 0 && errno == EINTR)
        ;
    return n == 1 && read(fd, &byte, 1) == 1 ? 0 : -1;
}

static void reap_child(pid_t pid)
{
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

static int start_process(Lend *lend, uint32_t at, uint64_t started_ns, Err *err)
{
    const SimWork *work = &lend->image->works[at];
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_errno(err, "pipe for process '%s'", work->name);
    pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        live_as_work(lend, work, ends[1], parent);
    int fork_errno = errno;
    CLEANUP_FD int ready = ends[0];
    close(ends[1]);
    if (pid < 0) {
        errno = fork_errno;
        return err_errno(err, "start process '%s'", work->name);
    }
    if (wait_ready(ready) < 0) {
        reap_child(pid);
        return err_set(err, -ECHILD, "process '%s' did not start", work->name);
    }
    lend->works[at] = (LendProc){.pid = pid, .started_ns = started_ns};
    sim_work_lend_pid(lend->image, (int32_t)at, (uint32_t)pid);
    return 0;
}

static void end_process(Lend *lend, uint32_t at)
{
    sim_work_lend_pid(lend->image, (int32_t)at, 0);
    reap_child(lend->works[at].pid);
    lend->works[at].pid = 0;
}

/* A process of somebody else, named when its work was injected. */
static uint32_t foreign_pid(Lend *lend, uint32_t at)
{
    return lend->works[at].pid ? 0 : atomic_load(&lend->image->works[at].live_pid);
}

/* A process that waits for its parent to ask about it has left the GPU too. */
static bool has_ended(uint32_t pid)
{
    char path[64];
    CLEANUP(str_done) Str text;
    str_init(&text, STAT_MAX);
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    if (file_read(path, STAT_MAX, &text, NULL) < 0)
        return true;
    const char *name_end = strrchr(text.text, ')');
    return name_end && (name_end[2] == 'Z' || name_end[2] == 'X');
}

/* A process that somebody else killed: end its work too. */
static int look_after(Lend *lend)
{
    int gone = 0;
    for (uint32_t w = 0; w < SIM_WORK_MAX; w++) {
        LendProc *proc = &lend->works[w];
        const uint32_t foreign = foreign_pid(lend, w);
        if (foreign ? !has_ended(foreign) : !proc->pid || waitpid(proc->pid, NULL, WNOHANG) != proc->pid)
            continue;
        SimOp stop = {.type = SIM_OP_WORK_STOP, .gpu = SIM_NONE, .a = {(int32_t)w}, .origin = SIM_FROM_CLIENT};
        sim_work_lend_pid(lend->image, (int32_t)w, 0);
        sim_op_apply(lend->image, &stop, NULL, 0, NULL);
        proc->pid = 0;
        proc->killed = true;
        gone++;
    }
    return gone;
}

/* Which works run, and since when: SIM_FOREVER for those that do not. */
static void find_running(SimImage *image, uint64_t t_ns, uint64_t started_ns[SIM_WORK_MAX])
{
    SimNow now;
    for (uint32_t w = 0; w < SIM_WORK_MAX; w++)
        started_ns[w] = SIM_FOREVER;
    for (uint32_t g = 0; g < image->gpu_count; g++) {
        sim_state_at(image, g, t_ns, &now);
        for (uint32_t i = 0; i < now.proc_count; i++)
            if (now.proc[i].work >= 0 && now.proc[i].work < SIM_WORK_MAX)
                started_ns[now.proc[i].work] = now.proc[i].started_ns;
    }
}

/* What one process did until now it does in another way: it stays the same process. */
static void pass_on(Lend *lend, const uint64_t started_ns[SIM_WORK_MAX])
{
    for (uint32_t w = 0; w < lend->image->work_count && w < SIM_WORK_MAX; w++) {
        const int32_t before = lend->image->works[w].before;
        if (before < 0 || started_ns[w] == SIM_FOREVER || lend->works[w].pid || !lend->works[before].pid ||
            started_ns[before] != SIM_FOREVER)
            continue;
        lend->works[w] = (LendProc){.pid = lend->works[before].pid, .started_ns = started_ns[w]};
        lend->works[before].pid = 0;
        sim_work_lend_pid(lend->image, (int32_t)w, (uint32_t)lend->works[w].pid);
        sim_work_lend_pid(lend->image, before, 0);
    }
}

int lend_update(Lend *lend, uint64_t t_ns, Err *err)
{
    uint64_t started_ns[SIM_WORK_MAX];
    int changed = look_after(lend), rc = 0;
    find_running(lend->image, t_ns, started_ns);
    pass_on(lend, started_ns);
    for (uint32_t w = 0; w < SIM_WORK_MAX; w++) {
        LendProc *proc = &lend->works[w];
        bool runs = started_ns[w] != SIM_FOREVER, same = proc->started_ns == started_ns[w];
        if (proc->pid && (!runs || !same)) {
            end_process(lend, w);
            changed++;
        }
        if (runs && foreign_pid(lend, w))
            proc->started_ns = started_ns[w]; /* so that its end is the end of this life */
        if (!runs || proc->pid || foreign_pid(lend, w) || (proc->killed && same))
            continue;
        int one = start_process(lend, w, started_ns[w], err);
        changed += one == 0;
        rc = one < 0 ? one : rc;
    }
    return rc < 0 ? rc : changed;
}

void lend_stop(Lend *lend)
{
    for (uint32_t w = 0; lend->image && w < SIM_WORK_MAX; w++)
        if (lend->works[w].pid)
            end_process(lend, w);
    lend->image = NULL;
}
