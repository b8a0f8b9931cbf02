/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `stoker run`: a command, and at its end what its GPUs did. This process starts the command, passes signals on and
 * waits; all that can hang is in the observer (verb/run/observer.h), a child that may be left behind.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "service/alert/config.h"
#include "service/usage/usage_report.h"
#include "verb/run/observer.h"
#include "verb/run/witness.h"
#include "verb/verb.h"
#include "version.h"

enum { EXIT_NOT_RUN = 126, EXIT_NOT_FOUND = 127, EXIT_SIGNAL = 128 }; /* as shells say it */
enum { END_MS = 3000, REAP_MS = 100, OUT_MAX = 64 << 20, NOTES_MAX = 8, WORTH_SAYING_S = 2 };

typedef struct RunOptions {
    LookOptions look;
    OptList gpus;
    const char *report, *series, *prices, *mlflow;
    uint64_t interval_ns;
} RunOptions;

static const OptSpec run_opts[] = {
    OPT_ROW("report", OPT_STRING, RunOptions, report, .metavar = "FILE", .help = "write the report to FILE as JSON"),
    OPT_ROW("jsonl", OPT_STRING, RunOptions, series, .metavar = "FILE",
            .help = "write the readings to FILE while the command runs, a line of JSON per interval"),
    OPT_ROW("interval", OPT_DURATION, RunOptions, interval_ns, .short_flag = 'i', .def = "1s", .min = 1e9,
            .max = 3600e9, .help = "time between two lines of --jsonl and two points of --mlflow"),
    OPT_ROW("mlflow", OPT_STRING, RunOptions, mlflow, .metavar = "URI",
            .help = "log the readings as system metrics to this MLflow tracking server (docs/run.md)"),
    OPT_ROW("gpus", OPT_LIST, RunOptions, gpus, .short_flag = 'g', .metavar = "LIST",
            .help = "report these GPUs (index, UUID, PCI address), even if others use them; without: those that the "
                    "command's processes use"),
    OPT_ROW("prices", OPT_STRING, RunOptions, prices, .metavar = "FILE",
            .help = "what the GPUs cost: 'prices' of an agent's configuration (docs/cost.md); without: those of the "
                    "running agent"),
    LOOK_OPTS(RunOptions),
};

typedef struct Run {
    VerbCall *call;
    const RunOptions *o;
    int report_fd, series_fd;  /* -1: not wanted */
    int signals;               /* signalfd */
    sigset_t mask;             /* of the caller, for the command */
    struct sigaction on_child; /* likewise */
    char mark[OBSERVER_MARK_CAP];
    pid_t pid; /* of the command; 0: it ended, or could not be started */
    const Prices *prices;
    Observer *observer;
    Witness witness;
    uint64_t start_ns, start_real_ns, wall_ns;
    int exit_status, signal;
    const char *notes[NOTES_MAX];
    size_t note_count;
} Run;

/* Passed on where they were sent to this process alone; those to the whole group, as the terminal's are, reach the
 * command without us. */
static const int passed_on[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};

/* The program without its folder. */
static const char *name_command(const Run *run)
{
    const char *command = run->call->args.items[0], *slash = strrchr(command, '/');

    return slash && slash[1] ? slash + 1 : command;
}

/* --- the command -------------------------------------------------------------------------------------------------- */

static int catch_signals(Run *run)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    for (size_t i = 0; i < ARRAY_LEN(passed_on); i++)
        sigaddset(&set, passed_on[i]);
    sigprocmask(SIG_BLOCK, &set, &run->mask);
    sigaction(SIGCHLD, &(struct sigaction){.sa_handler = SIG_DFL}, &run->on_child); /* ignored, no end is told */
    run->signals = signalfd(-1, &set, SFD_CLOEXEC);
    return run->signals < 0 ? err_errno(&run->call->err, "watch signals") : 0;
}

/* The words as exec wants them; it does not write to them. */
static char **copy_words(VerbCall *call)
{
    char **argv = arena_calloc(call->arena, call->args.len + 1, sizeof *argv);

    for (size_t i = 0; i < call->args.len; i++)
        argv[i] = arena_strdup(call->arena, call->args.items[i]);
    return argv;
}

static _Noreturn void exec_command(const Run *run, char **argv, int report_fd)
{
    setenv(OBSERVER_MARK, run->mark, 1);
    sigaction(SIGCHLD, &run->on_child, NULL);
    sigprocmask(SIG_SETMASK, &run->mask, NULL);
    execvp(argv[0], argv);
    const int number = errno;
    (void)!write(report_fd, &number, sizeof number);
    _exit(EXIT_NOT_RUN);
}

/* Starts it in our process group, so that the terminal is its own as if we were not there. -errno, that of exec too. */
static int start_command(Run *run)
{
    char **argv = copy_words(run->call);
    int ends[2], number = 0;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_errno(&run->call->err, "start '%s'", argv[0]);
    run->start_real_ns = clock_real(clock_kernel());
    run->start_ns = clock_monotonic(clock_kernel());
    const pid_t pid = fork();
    if (pid == 0)
        exec_command(run, argv, ends[1]);
    const int rc = pid < 0 ? err_errno(&run->call->err, "start '%s'", argv[0]) : 0;
    close(ends[1]);
    const ssize_t n = TEMP_FAILURE_RETRY(read(ends[0], &number, sizeof number)); /* ends when exec went well */
    close(ends[0]);
    if (rc < 0)
        return rc;
    if (n == (ssize_t)sizeof number) {
        (void)TEMP_FAILURE_RETRY(waitpid(pid, NULL, 0));
        errno = number;
        return err_errno(&run->call->err, "'%s'", argv[0]);
    }
    run->pid = pid;
    return 0;
}

/* Orphans of the command come to us, as we are their reaper. */
static void reap_children(Run *run)
{
    int status;

    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        observer_note_end(run->observer, pid);
        witness_note_end(&run->witness, pid);
        if (pid != run->pid)
            continue;
        run->pid = 0;
        run->wall_ns = clock_monotonic(clock_kernel()) - run->start_ns;
        run->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
        run->exit_status = run->signal ? EXIT_SIGNAL + run->signal : WEXITSTATUS(status);
    }
}

/* As Ctrl-Z does to a program that does not know of it; in a group without a shell the kernel does nothing. */
static void stop_self(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTSTP);
    raise(SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    sigprocmask(SIG_BLOCK, &set, NULL);
}

/* The terminal sends to the whole foreground group, but when it hangs up to the leader of its session alone
 * (drivers/tty/tty_jobctrl.c, tty_signal_session_leader), which the command would be without us. */
static bool is_terminals(const struct signalfd_siginfo *si)
{
    const bool hangup = si->ssi_signo == SIGHUP || si->ssi_signo == SIGCONT;

    return si->ssi_code > 0 /* sent by the kernel */ && !(hangup && getsid(0) == getpid());
}

static void pass_signal(Run *run, const struct signalfd_siginfo *si)
{
    const bool group = witness_saw(&run->witness, (int)si->ssi_signo);

    if (!is_terminals(si) && !(group && getpgid(run->pid) == getpgrp()))
        kill(run->pid, (int)si->ssi_signo);
}

static void wait_for_command(Run *run)
{
    while (run->pid) {
        struct signalfd_siginfo si;

        if (TEMP_FAILURE_RETRY(read(run->signals, &si, sizeof si)) != (ssize_t)sizeof si)
            continue;
        if (si.ssi_signo == SIGCHLD) {
            reap_children(run);
            continue;
        }
        pass_signal(run, &si);
        if (si.ssi_signo == SIGTSTP)
            stop_self();
    }
}

/* --- files -------------------------------------------------------------------------------------------------------- */

/* Before the command starts, so that a wrong path is no surprise at its end. What is there is kept until then. */
static int open_output(VerbCall *call, const char *option, const char *path, int flags, int *ret)
{
    *ret = path ? open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | flags, 0666) : -1;
    return path && *ret < 0 ? err_errno(&call->err, "%s: write '%s'", option, path) : 0;
}

static int check_mlflow(VerbCall *call, const char *uri)
{
    if (!uri || alert_is_url(uri))
        return 0;
    return err_set(&call->err, -EINVAL, "--mlflow: '%.200s' is no URL (http, https) of a tracking server", uri);
}

static int load_prices(Run *run)
{
    VerbCall *call = run->call;
    const YamlNode *root = NULL;

    if (!run->o->prices)
        return 0;
    TRY(yaml_load_file(run->o->prices, call->arena, &root, &call->err));
    TRY(prices_read(yaml_get(root, "prices"), call->arena, &run->prices, &call->err));
    return run->prices ? 0 : err_set(&call->err, -EINVAL, "%s has no 'prices'", run->o->prices);
}

/* None of ours may become an input or output that the caller closed: the command finds them closed, as it would. */
static void fill_standard(void)
{
    int fd;

    while ((fd = open("/dev/null", O_RDWR | O_CLOEXEC)) >= 0 && fd <= STDERR_FILENO)
        ;
    fd_close(&fd);
}

static void write_report(const Run *run, const Usage *usage, const UsageRun *numbers)
{
    CLEANUP(str_done) Str out = {0};
    struct stat st;

    if (run->report_fd < 0)
        return;
    str_init(&out, OUT_MAX);
    usage_json(usage, numbers, &out);
    if (fstat(run->report_fd, &st) == 0 && S_ISREG(st.st_mode) && ftruncate(run->report_fd, 0) < 0)
        fprintf(stderr, "%s: '%s' could not be emptied: %s\n", run->call->path, run->o->report, strerror(errno));
    if (file_write_all(run->report_fd, out.text, out.len) < 0 || close(run->report_fd) < 0)
        fprintf(stderr, "%s: the report could not be written to '%s': %s\n", run->call->path, run->o->report,
                strerror(errno));
}

/* --- the report --------------------------------------------------------------------------------------------------- */

static void add_note(Run *run, const char *text)
{
    if (run->note_count < NOTES_MAX)
        run->notes[run->note_count++] = text;
}

static const char *describe_left(Arena *arena, const Observed *seen)
{
    const char *pids = "";

    for (uint32_t i = 0; i < seen->left_count && i < OBSERVER_LEFT_MAX; i++)
        pids = arena_printf(arena, "%s%s%" PRIu32, pids, i ? ", " : "", seen->left[i]);
    return arena_printf(arena, "%" PRIu32 " of its processes still ran on a GPU when the command ended (pid %s%s)",
                        seen->left_count, pids, seen->left_count > OBSERVER_LEFT_MAX ? ", ..." : "");
}

/* What the numbers lack, and why. */
static void find_notes(Run *run, const Observed *seen)
{
    const Usage *usage = &seen->usage;
    const double wall_s = (double)run->wall_ns / 1e9, missing_s = wall_s - usage->measured_s;
    Arena *arena = run->call->arena;

    if (seen->why[0])
        add_note(run, arena_printf(arena, "nothing was measured: %s", seen->why));
    else if (usage->last_ns == 0 && usage->driver_why[0])
        add_note(run, arena_printf(arena, "nothing was measured: %s", usage->driver_why));
    else if (usage->last_ns == 0)
        add_note(run, arena_printf(arena, "nothing was measured: the driver had not answered after %.2f s", wall_s));
    else if (missing_s > WORTH_SAYING_S)
        add_note(run, arena_printf(arena, "%.1f s of %.1f s are missing in these numbers: the driver did not answer",
                                   missing_s, wall_s));
    if (usage->last_ns && !seen->ended)
        add_note(run, "the driver did not answer at the end: the numbers end some time before");
    if (seen->strangers && run->o->gpus.len == 0)
        add_note(run, "in a container the driver's list of processes cannot be matched with the command's: all GPUs "
                      "of the container are reported, even if others used them");
    if (seen->left_count > 0)
        add_note(run, describe_left(arena, seen));
    for (size_t i = 0; i < run->o->gpus.len && usage->last_ns; i++)
        if (!usage_has_gpu(usage, run->o->gpus.items[i]))
            add_note(run, arena_printf(arena, "--gpus: no GPU '%s' was read; 'stoker status' lists the GPUs",
                                       run->o->gpus.items[i]));
    if (usage->lost_devices)
        add_note(run, "the node has more GPUs and MIG instances than a report can have");
    if (seen->mlflow_why[0])
        add_note(run, seen->mlflow_why);
    if (seen->series_errno)
        add_note(run, arena_printf(arena, "'%s' is incomplete: %s", run->o->series, strerror(seen->series_errno)));
}

static void print_report(Run *run, const Observed *seen)
{
    CLEANUP(str_done) Str out;
    find_notes(run, seen);
    const UsageRun numbers = {.version = STOKER_VERSION,
                              .command = name_command(run),
                              .started_real_ns = run->start_real_ns,
                              .wall_ns = run->wall_ns,
                              .interval_ns = run->o->interval_ns,
                              .exit_status = run->exit_status,
                              .signal = run->signal,
                              .notes = run->notes,
                              .note_count = run->note_count};
    str_init(&out, OUT_MAX);
    usage_text(&seen->usage, &numbers, verb_utf8(), &out);
    (void)file_write_all(STDERR_FILENO, out.text, out.len);
    write_report(run, &seen->usage, &numbers);
}

/* --- its life ----------------------------------------------------------------------------------------------------- */

static void make_mark(Run *run)
{
    uint64_t number[2] = {clock_real(clock_kernel()), (uint64_t)getpid()};

    (void)!getrandom(number, sizeof number, GRND_NONBLOCK);
    snprintf(run->mark, sizeof run->mark, "%016" PRIx64 "%016" PRIx64, number[0], number[1]);
}

static int start_observer(Run *run)
{
    const ObserverSpec spec = {.look = &run->o->look,
                               .gpus = run->o->gpus,
                               .mark = run->mark,
                               .start_ns = run->start_ns,
                               .start_real_ns = run->start_real_ns,
                               .series_fd = run->series_fd,
                               .interval_ns = run->o->interval_ns,
                               .mlflow = run->o->mlflow,
                               .command = name_command(run),
                               .prices = run->prices,
                               .arena = run->call->arena};
    return observer_start(&spec, &run->observer, &run->call->err);
}

/* The observer and its samplers, which are ours once it is gone: init may be a program that reaps none. A detached
 * process of the command is no reason to wait. */
static void reap_observer(void)
{
    for (int i = 0; i < REAP_MS; i++) {
        const pid_t pid = waitpid(-1, NULL, WNOHANG);

        if (pid < 0)
            return;
        if (pid == 0)
            usleep(1000);
    }
}

static int run_command(Run *run)
{
    static Observed nothing;
    const Observed *seen = &nothing;
    Err err;

    (void)witness_start(&run->witness, &err); /* without one, what is sent to the group is passed on as well */
    const int rc = start_command(run);
    usage_init(&nothing.usage);
    if (rc < 0) {
        run->exit_status = verb_fail(run->call, rc == -ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_RUN);
        snprintf(nothing.why, sizeof nothing.why, "the command was not started");
    } else if (start_observer(run) < 0) {
        snprintf(nothing.why, sizeof nothing.why, "%s", run->call->err.text);
    }
    wait_for_command(run);
    witness_end(&run->witness);
    if (run->observer)
        seen =
            observer_end(run->observer, run->exit_status, run->signal, END_MS + (run->o->mlflow ? MLFLOW_END_MS : 0));
    signal(SIGPIPE, SIG_IGN);
    print_report(run, seen);
    observer_free(run->observer);
    reap_observer();
    return run->exit_status;
}

static int run_run(VerbCall *call, const void *options)
{
    const RunOptions *o = options;
    Run run = {.call = call, .o = o, .report_fd = -1, .series_fd = -1};

    if (call->args.len == 0)
        return verb_failf(call, EXIT_USAGE, "which command? e.g. 'stoker run -- python3 train.py'");
    fill_standard();
    if (check_mlflow(call, o->mlflow) < 0 || load_prices(&run) < 0 ||
        open_output(call, "--report", o->report, 0, &run.report_fd) < 0 ||
        open_output(call, "--jsonl", o->series, O_TRUNC, &run.series_fd) < 0 || catch_signals(&run) < 0)
        return verb_fail(call, EXIT_USAGE);
    make_mark(&run);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1L, 0L, 0L, 0L); /* else detached processes are found by their mark alone */
    return run_command(&run);
}

const Verb verb_run = {
    .name = "run",
    .summary = "run a command, and report at its end what its GPUs did",
    .usage = "[OPTION...] [--] COMMAND [ARG...]",
    .description =
        "Runs the command and, at its end, prints to standard error what its GPUs did, as time(1) does for the "
        "processor: what took their time and what to change, use of SMs and tensor cores, memory, energy, cost, "
        "temperature, throttling and incidents. Needs neither an agent nor root, and no change to the program.\n"
        "\n"
        "The command's processes are all that it starts, also detached ones, and tasks that srun starts on this "
        "node. On a shared GPU only the command's part counts, and the report says how it was found. The command "
        "keeps its input, outputs, terminal, signals and exit status; a missing or hanging driver does not delay it.",
    .examples = "stoker run -- python3 train.py --epochs 3\n"
                "stoker run --report run.json torchrun --nproc-per-node 8 train.py\n"
                "stoker run --jsonl series.jsonl -i 10s -- srun ./simulation",
    .exit_codes = "the command's own; beside these\n"
                  "128 + N  signal N ended the command\n"
                  "126  it could not be started\n"
                  "127  it was not found\n"
                  "2  the command line is wrong, or a file of it cannot be read or written: nothing was started",
    VERB_OPTS(run_opts, RunOptions),
    .command = true,
    .run = run_run,
};
