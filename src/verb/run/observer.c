/* SPDX-License-Identifier: Apache-2.0 */
/* Two rooms in shared memory: one is written while the other holds what was known before. */
#include "verb/run/observer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/vec.h"
#include "service/incident/incident.h"
#include "service/usage/usage_report.h"
#include "source/proc/task.h"
#include "verb/agent/control.h"

enum { EARLY_MS = 250, EARLY_TICKS = 20, TICK_MS = 1000, ASK_MS = 1000 };
enum { PIDS_MAX = 1024, DEPTH_MAX = 4096, TRIES = 3, ENVIRON_MAX = 2 << 20, SERIES_LINE_MAX = 1 << 20, XIDS_MAX = 64 };
static const ino_t first_pid_namespace = 0xEFFFFFFC; /* PROC_PID_INIT_INO, include/linux/proc_ns.h */

typedef struct Shared {
    int exit_status, signal; /* of the command: valid when the stop descriptor ended */
    _Atomic uint32_t at;     /* 1 + the room that is valid; 0: none yet */
    Observed rooms[2];
} Shared;

struct Observer {
    pid_t pid;
    int stop_fd; /* closing it says that the command ended */
    int done_fd; /* its end says that the observer did */
    Shared *shared;
};

/* A process on a GPU, looked at once. */
typedef struct KnownProcess {
    uint32_t pid;
    uint64_t start_ns;
    bool own;
} KnownProcess;

/* The child's side. */
typedef struct Watch {
    const ObserverSpec *spec;
    Shared *shared;
    LocalNode *local;
    Mlflow *mlflow; /* NULL: none */
    pid_t parent;
    char mark[sizeof OBSERVER_MARK + OBSERVER_MARK_CAP];
    VEC(KnownProcess) known;
    uint32_t pids[PIDS_MAX]; /* those of the command, ascending */
    size_t pid_count;
    UsageGroup group;
    uint64_t next_line_ns;
    Str line;
    Observed seen;
} Watch;

/* --- whose a process is ------------------------------------------------------------------------------------------- */

/* 1: a descendant of the parent, but not one of this process; 0: not; -errno where one on the way ended meanwhile. */
static int is_descendant(const Watch *w, uint32_t pid)
{
    pid_t at = (pid_t)pid;

    for (int i = 0; i < DEPTH_MAX && at > 1; i++) {
        ProcTask task;

        if (at == w->parent)
            return 1;
        if (at == getpid())
            return 0;
        TRY(proc_task_read("", at, &task, NULL));
        at = task.parent;
    }
    return 0;
}

/* The environment is that of the process's start; one of another user cannot be read. */
static bool has_mark(const Watch *w, uint32_t pid)
{
    CLEANUP(str_done) Str text;
    char path[64];

    str_init(&text, ENVIRON_MAX);
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/environ", pid);
    if (file_read(path, ENVIRON_MAX, &text, NULL) < 0)
        return false;
    for (const char *at = text.text; at < text.text + text.len; at += strlen(at) + 1)
        if (strcmp(at, w->mark) == 0)
            return true;
    return false;
}

static bool belongs_to_command(const Watch *w, uint32_t pid)
{
    int rc = -ESRCH;

    for (int i = 0; i < TRIES && rc < 0; i++) /* its parent ended, and it has another one */
        rc = is_descendant(w, pid);
    return rc == 1 || has_mark(w, pid);
}

/* A process that ended is still what it was, as the driver's list is a second old. */
static bool is_own(Watch *w, uint32_t pid)
{
    ProcTask task;
    const bool lives = proc_task_read("", (pid_t)pid, &task, NULL) == 0;

    for (size_t i = 0; i < w->known.len; i++) {
        const KnownProcess *known = &w->known.at[i];

        if (known->pid == pid && (!lives || known->start_ns == task.start_ns))
            return known->own;
        if (known->pid == pid) {
            vec_remove(&w->known, i);
            break;
        }
    }
    if (!lives)
        return false;
    const KnownProcess fresh = {.pid = pid, .start_ns = task.start_ns, .own = belongs_to_command(w, pid)};
    vec_push(&w->known, fresh);
    return fresh.own;
}

static void find_own(Watch *w, const Node *node)
{
    uint32_t all[PIDS_MAX];
    const size_t count = process_pids_settle(all, node_pids(node, all, PIDS_MAX));

    w->pid_count = 0;
    for (size_t i = 0; i < count; i++)
        if (is_own(w, all[i]))
            w->pids[w->pid_count++] = all[i];
    w->group.pid_count = w->pid_count;
    for (size_t i = w->known.len; i-- > 0;) { /* not on a GPU any more */
        size_t k = 0;

        while (k < count && all[k] != w->known.at[i].pid)
            k++;
        if (k == count)
            vec_remove(&w->known, i);
    }
}

/* In a container of its own the numbers of processes are not those that the driver lists. */
static bool has_own_pids(const ObserverSpec *spec)
{
    struct stat st;

    return !spec->look->root && stat("/proc/self/ns/pid", &st) == 0 && st.st_ino != first_pid_namespace;
}

/* --- one tick ----------------------------------------------------------------------------------------------------- */

static void publish_seen(Watch *w)
{
    const uint32_t at = atomic_load(&w->shared->at) == 1 ? 1 : 0;

    memcpy(&w->shared->rooms[at], &w->seen,
           offsetof(Observed, usage.devices) + w->seen.usage.device_count * sizeof w->seen.usage.devices[0]);
    atomic_store(&w->shared->at, at + 1);
}

static void write_line(Watch *w, const Node *node)
{
    const ObserverSpec *spec = w->spec;

    if (spec->series_fd < 0 || w->seen.series_errno)
        return;
    str_clear(&w->line);
    usage_json_line(&w->seen.usage, node, &w->line);
    if (file_write_all(spec->series_fd, w->line.text, w->line.len) < 0)
        w->seen.series_errno = errno;
}

/* A line and points per interval. */
static void write_series(Watch *w, const Node *node)
{
    const uint64_t interval_ns = w->spec->interval_ns;

    if (w->seen.usage.last_ns == 0 || node->time_ns < w->next_line_ns)
        return;
    w->next_line_ns += interval_ns;
    if (w->next_line_ns < node->time_ns) /* the first one, or late: no two at once */
        w->next_line_ns = node->time_ns + interval_ns;
    write_line(w, node);
    if (w->mlflow)
        mlflow_add(w->mlflow, &w->seen.usage, node);
}

static const Node *count_tick(Watch *w)
{
    const Snapshot *snapshot = local_node_read(w->local);
    XidEvent xids[XIDS_MAX];
    const size_t count = local_node_xids(w->local, xids, XIDS_MAX);

    find_own(w, snapshot->node);
    usage_update(&w->seen.usage, snapshot, &w->group);
    for (size_t i = 0; i < count; i++)
        usage_add_xid(&w->seen.usage, &xids[i], node_real_ns(snapshot->node, xids[i].time_ns));
    return snapshot->node;
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

/* False: no agent runs, or it does not know the word. */
static bool ask_agent(const Watch *w, const char *line, Str *out)
{
    const ObserverSpec *spec = w->spec;
    int code;
    Err err;

    return !spec->look->alone &&
           control_ask(control_path(spec->look->control, spec->arena), line, ASK_MS, out, &code, &err) == 0 &&
           code <= EXIT_FINDING;
}

/* Incidents that a running agent knows, which also reads the kernel's log. */
static void add_agent_incidents(Watch *w)
{
    const ObserverSpec *spec = w->spec;
    CLEANUP(str_done) Str out = str_limited(CONTROL_REPLY_MAX);
    IncidentList list = {0};
    IncidentsHead head;
    Err err;

    if (!ask_agent(w, "incidents all", &out) || incidents_read(out.text, out.len, &list, &head, &err) < 0)
        return;
    for (size_t i = 0; i < list.len; i++)
        if (list.at[i].state == INCIDENT_OPEN ||
            (list.at[i].state == INCIDENT_CLEARED && list.at[i].cleared_real_ns >= spec->start_real_ns))
            usage_add_problem(&w->seen.usage, &list.at[i]);
    vec_done(&list);
}

/* Those that were given, else those of a running agent. */
static void add_prices(Watch *w, const Node *node)
{
    CLEANUP(str_done) Str out = str_limited(CONTROL_REPLY_MAX);

    if (w->spec->prices)
        usage_find_prices(&w->seen.usage, w->spec->prices, node->real_ns);
    else if (ask_agent(w, "prices", &out))
        for (char *rest = out.text, *line; (line = strsep(&rest, "\n"));) {
            const char *uuid = strsep(&line, " ");

            if (line)
                usage_set_price(&w->seen.usage, uuid, line);
        }
}

static void note_left(Watch *w)
{
    for (size_t i = 0; i < w->pid_count; i++) {
        ProcTask task;

        if (proc_task_read("", (pid_t)w->pids[i], &task, NULL) < 0 || task.state == 'Z' || task.state == 'X')
            continue;
        if (w->seen.left_count < OBSERVER_LEFT_MAX)
            w->seen.left[w->seen.left_count] = w->pids[i];
        w->seen.left_count++;
    }
}

static void finish_mlflow(Watch *w, const Node *node)
{
    const uint64_t limit_ns = clock_monotonic(clock_kernel()) + MLFLOW_END_MS * NS_PER_MS;

    if (!w->mlflow)
        return;
    mlflow_why(w->mlflow, w->seen.mlflow_why); /* should the parent not wait for the end of this */
    publish_seen(w);
    mlflow_finish(w->mlflow, node->real_ns, w->shared->exit_status, w->shared->signal);
    while (!mlflow_is_over(w->mlflow) && clock_monotonic(clock_kernel()) < limit_ns)
        local_node_run(w->local, NS_PER_MS);
    mlflow_why(w->mlflow, w->seen.mlflow_why);
    publish_seen(w);
}

/* --- its life ----------------------------------------------------------------------------------------------------- */

static bool is_over(int stop_fd, int timeout_ms)
{
    struct pollfd fd = {.fd = stop_fd, .events = POLLIN};

    return poll(&fd, 1, timeout_ms) > 0;
}

static void watch_command(Watch *w, int stop_fd)
{
    const LookOptions *look = w->spec->look;
    Err err;

    if (local_node_new(look->library, look->root, 0, &w->local, &err) < 0) {
        snprintf(w->seen.why, sizeof w->seen.why, "%s", err.text);
        publish_seen(w);
        (void)is_over(stop_fd, -1);
        return;
    }
    local_node_watch(w->local, stop_fd);
    if (w->spec->mlflow && mlflow_new(local_node_loop(w->local), w->spec->mlflow, w->spec->command,
                                      w->spec->start_real_ns, &w->mlflow, &err) < 0)
        snprintf(w->seen.mlflow_why, sizeof w->seen.mlflow_why, "nothing was logged to MLflow: %.180s", err.text);
    for (int i = 0; !is_over(stop_fd, 0); i++) {
        local_node_run(w->local, (i < EARLY_TICKS ? EARLY_MS : TICK_MS) * NS_PER_MS);
        write_series(w, count_tick(w));
        publish_seen(w);
    }
    const Node *node = count_tick(w);
    write_series(w, node);
    usage_end(&w->seen.usage, node->time_ns);
    note_left(w);
    w->seen.ended = true;
    publish_seen(w);
    add_prices(w, node);
    add_agent_incidents(w);
    publish_seen(w);
    finish_mlflow(w, node);
}

/* Standard input and outputs are the command's; other descriptors may be pipes whose end somebody waits for. */
static void close_all_but(const int *fds, size_t count)
{
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    unsigned from = STDERR_FILENO + 1;

    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        dup2(null, fd);
    for (size_t i = 0; i <= count; i++) { /* ascending */
        if (i < count && fds[i] < (int)from)
            continue;
        const unsigned to = i < count ? (unsigned)fds[i] : ~0U;
        if (to > from)
            syscall(__NR_close_range, from, i < count ? to - 1 : to, 0U);
        from = to + 1;
    }
}

static int compare_fds(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* In a group of its own the terminal's signals do not reach it; those that a workload manager sends to all processes of
 * a job are blocked: it ends with its parent. */
static void detach_child(pid_t parent, int stop_fd, int done_fd, int series_fd)
{
    static const int ours[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGPIPE};
    int keep[] = {stop_fd, done_fd, series_fd};
    sigset_t set;

    setpgid(0, 0);
    sigemptyset(&set);
    for (size_t i = 0; i < ARRAY_LEN(ours); i++)
        sigaddset(&set, ours[i]);
    sigprocmask(SIG_SETMASK, &set, NULL);
    prctl(PR_SET_NAME, "stoker-observe");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(0);
    qsort(keep, ARRAY_LEN(keep), sizeof keep[0], compare_fds);
    close_all_but(keep, ARRAY_LEN(keep));
}

static _Noreturn void run_child(const ObserverSpec *spec, Shared *shared, pid_t parent, int stop_fd)
{
    static Watch watch;

    watch.spec = spec;
    watch.shared = shared;
    watch.parent = parent;
    snprintf(watch.mark, sizeof watch.mark, "%s=%s", OBSERVER_MARK, spec->mark);
    str_init(&watch.line, SERIES_LINE_MAX);
    usage_init(&watch.seen.usage);
    watch.seen.strangers = has_own_pids(spec);
    watch.group = (UsageGroup){.pids = watch.pids,
                               .selected = spec->gpus.items,
                               .selected_count = spec->gpus.len,
                               .all = watch.seen.strangers};
    watch_command(&watch, stop_fd);
    _exit(0); /* the samplers end with this process */
}

int observer_start(const ObserverSpec *spec, Observer **ret, Err *err)
{
    int stop[2] = {-1, -1}, done[2] = {-1, -1};
    const pid_t parent = getpid();
    Shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (shared == MAP_FAILED)
        return err_errno(err, "make shared memory");
    Observer *observer = xcalloc(1, sizeof *observer);
    *observer = (Observer){.shared = shared, .stop_fd = -1, .done_fd = -1};
    const bool made = pipe2(stop, O_CLOEXEC) == 0 && pipe2(done, O_CLOEXEC) == 0;
    observer->stop_fd = stop[1];
    observer->done_fd = done[0];
    observer->pid = made ? fork() : -1;
    if (observer->pid == 0) {
        detach_child(parent, stop[0], done[1], spec->series_fd);
        run_child(spec, shared, parent, stop[0]);
    }
    const int rc = observer->pid < 0 ? err_errno(err, "start the observer") : 0;
    fd_close(&stop[0]);
    fd_close(&done[1]);
    if (rc < 0) {
        observer_free(observer);
        return rc;
    }
    *ret = observer;
    return 0;
}

void observer_note_end(Observer *observer, pid_t pid)
{
    if (observer && observer->pid == pid)
        observer->pid = 0;
}

const Observed *observer_end(Observer *observer, int exit_status, int signal, int limit_ms)
{
    static Observed nothing;
    struct pollfd fd = {.fd = observer->done_fd};

    observer->shared->exit_status = exit_status;
    observer->shared->signal = signal;
    fd_close(&observer->stop_fd);
    while (poll(&fd, 1, limit_ms) < 0 && errno == EINTR)
        ;
    if (observer->pid > 0)
        kill(observer->pid, SIGKILL);
    const uint32_t at = atomic_load(&observer->shared->at);
    usage_init(&nothing.usage);
    return at ? &observer->shared->rooms[at - 1] : &nothing;
}

void observer_free(Observer *observer)
{
    if (!observer)
        return;
    fd_close(&observer->stop_fd);
    fd_close(&observer->done_fd);
    munmap(observer->shared, sizeof *observer->shared);
    free(observer);
}
