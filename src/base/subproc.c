/* SPDX-License-Identifier: Apache-2.0 */
/* Child processes. Between fork and exec only calls are made that neither lock nor allocate, as execvpe of glibc and
 * musl: what would is done before. A close-on-exec pipe tells the parent what failed in the child. */
#include "base/subproc.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cleanup.h"
#include "base/vec.h"

enum { POLL_STEP_MS = 10, FDS_FIRST = 3, FDS_PARK = 64 };

extern char **environ;

typedef VEC(const char *) Texts;

/* What the child needs to know, all of it made before the fork. */
typedef struct Plan {
    const SubprocSpec *spec;
    char *const *env;
    int out_fd, err_fd, null_fd, report_fd;
    pid_t parent;
} Plan;

typedef struct Failure {
    int number;
    char step[28];
} Failure;

static size_t name_len(const char *assignment)
{
    return strcspn(assignment, "=");
}

/* The entry of `env` about the same variable as `assignment`, or NULL. */
static const char *find_env(const char *const *env, const char *assignment)
{
    size_t len = name_len(assignment);

    for (; env && *env; env++)
        if (name_len(*env) == len && !memcmp(*env, assignment, len))
            return *env;
    return NULL;
}

static void merge_env(const char *const *changes, Texts *ret)
{
    for (char **ours = environ; ours && *ours; ours++)
        if (!find_env(changes, *ours))
            vec_push(ret, *ours);
    for (; changes && *changes; changes++)
        if (strchr(*changes, '='))
            vec_push(ret, *changes);
    vec_push(ret, NULL);
}

static _Noreturn void child_fail(const Plan *plan, const char *step)
{
    Failure failure = {.number = errno};
    ssize_t wrote;

    stpncpy(failure.step, step, sizeof(failure.step) - 1);
    wrote = write(plan->report_fd, &failure, sizeof(failure));
    (void)wrote;
    _exit(127);
}

static void reset_signals(void)
{
    sigset_t none;

    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Moves the passed descriptors to 3, 4, ...: first far above all targets, so that none is overwritten. */
static void place_fds(const Plan *plan)
{
    int parked[SUBPROC_FDS_MAX];

    for (size_t i = 0; i < plan->spec->pass_count; i++) {
        parked[i] = fcntl(plan->spec->pass_fds[i], F_DUPFD_CLOEXEC, FDS_PARK);
        if (parked[i] < 0)
            child_fail(plan, "pass a descriptor to");
    }
    for (size_t i = 0; i < plan->spec->pass_count; i++)
        if (dup2(parked[i], FDS_FIRST + (int)i) < 0)
            child_fail(plan, "pass a descriptor to");
}

/* Marks every descriptor from `first` on as close-on-exec. */
static void close_later(unsigned first)
{
    static const unsigned cloexec = 1U << 2; /* CLOSE_RANGE_CLOEXEC, Linux 5.11 */

    if (syscall(__NR_close_range, first, ~0U, cloexec) == 0)
        return;
    for (int fd = (int)first, end = (int)sysconf(_SC_OPEN_MAX); fd < end && fd < 65536; fd++)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
}

static _Noreturn void run_child(Plan *plan)
{
    const SubprocSpec *spec = plan->spec;

    setpgid(0, 0);
    reset_signals();
    if (spec->die_with_us && (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != plan->parent))
        child_fail(plan, "tie to its parent");
    /* The report pipe goes above the passed descriptors' targets. */
    plan->report_fd = fcntl(plan->report_fd, F_DUPFD_CLOEXEC, FDS_PARK);
    if (dup2(plan->null_fd, STDIN_FILENO) < 0 || (plan->out_fd >= 0 && dup2(plan->out_fd, STDOUT_FILENO) < 0) ||
        (plan->err_fd >= 0 && dup2(plan->err_fd, STDERR_FILENO) < 0))
        child_fail(plan, "redirect");
    place_fds(plan);
    const char *failed = spec->prepare ? spec->prepare(spec->self) : NULL;
    if (failed)
        child_fail(plan, failed);
    close_later(FDS_FIRST + (unsigned)spec->pass_count);
    /* execvpe takes char *const *; it does not write to them. */
    union {
        const char *const *in;
        char *const *out;
    } argv = {.in = spec->argv};
    execvpe(argv.out[0], argv.out, plan->env);
    child_fail(plan, "run");
}

/* Reads what the child reports; the end of the pipe means that exec went well. */
static int read_report(int fd, const char *name, Err *err)
{
    Failure failure;
    ssize_t got;

    do
        got = read(fd, &failure, sizeof(failure));
    while (got < 0 && errno == EINTR);
    if (got != (ssize_t)sizeof(failure))
        return 0;
    errno = failure.number;
    return err_errno(err, "%.*s '%s'", (int)sizeof(failure.step), failure.step, name);
}

static int make_pipe(int *ret_read, int *ret_write, Err *err)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_errno(err, "make a pipe");
    *ret_read = ends[0];
    *ret_write = ends[1];
    return 0;
}

static int set_nonblocking(int fd)
{
    return fd < 0 ? 0 : fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

static int open_pidfd(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

/* Forks; all signals are blocked meanwhile, so that no handler of ours runs in the child. */
static pid_t fork_child(Plan *plan)
{
    sigset_t all, old;
    pid_t pid;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pid = fork();
    if (pid == 0)
        run_child(plan);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return pid;
}

static int launch_child(Plan *plan, int report_read, int *report_write, Subproc *child, Err *err)
{
    int rc;

    child->pid = fork_child(plan);
    if (child->pid < 0)
        return err_errno(err, "fork for '%s'", plan->spec->argv[0]);
    setpgid(child->pid, child->pid); /* here too: a stop right after the start must reach the group */
    fd_close(report_write);
    rc = read_report(report_read, plan->spec->argv[0], err);
    if (rc < 0) {
        while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR) {
        }
        return rc;
    }
    child->pid_fd = open_pidfd(child->pid);
    return 0;
}

int subproc_start(const SubprocSpec *spec, Subproc *ret_child, Err *err)
{
    CLEANUP_VEC Texts env = {0};
    CLEANUP_FD int out_read = -1, out_write = -1, err_read = -1, err_write = -1;
    CLEANUP_FD int report_read = -1, report_write = -1, null_fd = -1;
    Subproc child = {.pid_fd = -1, .out_fd = -1, .err_fd = -1};

    assert(spec->argv && spec->argv[0] && spec->pass_count <= SUBPROC_FDS_MAX);
    merge_env(spec->env, &env);
    null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null_fd < 0)
        return err_errno(err, "open '/dev/null'");
    TRY(make_pipe(&report_read, &report_write, err));
    if (spec->pipe_out)
        TRY(make_pipe(&out_read, &out_write, err));
    if (spec->pipe_err)
        TRY(make_pipe(&err_read, &err_write, err));
    if (set_nonblocking(out_read) < 0 || set_nonblocking(err_read) < 0)
        return err_errno(err, "set up a pipe");

    union {
        const char **in;
        char *const *out;
    } envp = {.in = env.at};
    Plan plan = {.spec = spec,
                 .env = envp.out,
                 .out_fd = out_write,
                 .err_fd = err_write,
                 .null_fd = null_fd,
                 .report_fd = report_write,
                 .parent = getpid()};
    TRY(launch_child(&plan, report_read, &report_write, &child, err));
    child.out_fd = fd_take(&out_read);
    child.err_fd = fd_take(&err_read);
    *ret_child = child;
    return 0;
}

static uint64_t now_ms(void)
{
    return clock_monotonic(clock_kernel()) / NS_PER_MS;
}

/* Sleeps until the child may have ended, for `ms` at most; without a pidfd in short steps. */
static void await_end(const Subproc *child, uint64_t ms)
{
    struct pollfd poll_fd = {.fd = child->pid_fd, .events = POLLIN};
    int most = child->pid_fd >= 0 ? 1000 * 1000 : POLL_STEP_MS;

    poll(&poll_fd, 1, ms < (uint64_t)most ? (int)ms : most);
}

int subproc_wait(Subproc *child, uint64_t timeout_ms, SubprocEnd *ret_end, Err *err)
{
    uint64_t start = now_ms();

    /* 0 would mean every child, and in subproc_stop our own group. */
    if (child->pid <= 0)
        return err_set(err, -ESRCH, "the process has ended before");
    for (;;) {
        int status;
        pid_t got = waitpid(child->pid, &status, WNOHANG);
        uint64_t passed = now_ms() - start;

        if (got < 0 && errno != EINTR)
            return err_errno(err, "wait for process %d", (int)child->pid);
        if (got > 0) {
            *ret_end = (SubprocEnd){.exited = WIFEXITED(status),
                                    .exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0,
                                    .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0};
            child->pid = 0;
            return 0;
        }
        if (passed >= timeout_ms)
            return SUBPROC_RUNNING;
        await_end(child, timeout_ms - passed);
    }
}

int subproc_stop(Subproc *child, uint64_t grace_ms, SubprocEnd *ret_end, Err *err)
{
    pid_t group = child->pid;
    int rc = SUBPROC_RUNNING;

    if (group <= 0)
        return err_set(err, -ESRCH, "the process has ended before");
    if (grace_ms) {
        kill(-group, SIGTERM);
        rc = subproc_wait(child, grace_ms, ret_end, err);
    }
    /* The rest of the group too, where the leader has already gone. */
    kill(-group, SIGKILL);
    if (rc == SUBPROC_RUNNING)
        rc = subproc_wait(child, SUBPROC_STOP_MS, ret_end, err);
    return rc == SUBPROC_RUNNING ? SUBPROC_STUCK : rc;
}

void subproc_done(Subproc *child)
{
    if (child->pid_fd || child->out_fd || child->err_fd) { /* a zeroed one owns no descriptor 0 */
        fd_close(&child->pid_fd);
        fd_close(&child->out_fd);
        fd_close(&child->err_fd);
    }
    *child = (Subproc){.pid_fd = -1, .out_fd = -1, .err_fd = -1};
}

void subproc_describe(const SubprocEnd *end, char out[SUBPROC_TEXT_MAX])
{
    if (end->timed_out)
        snprintf(out, SUBPROC_TEXT_MAX, "timed out");
    else if (end->exited)
        snprintf(out, SUBPROC_TEXT_MAX, "exit code %d", end->exit_code);
    else
        snprintf(out, SUBPROC_TEXT_MAX, "killed by signal %d (%s)", end->signal, strsignal(end->signal));
}
