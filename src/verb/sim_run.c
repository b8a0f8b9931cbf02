/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `stoker sim run`: a simulated node for as long as a command runs, or until interrupted. Around the image stand what a
 * node has beside its driver library: living processes, the trees of /proc and /sys, the kernel's log.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/owner.h"
#include "sim/core/control.h"
#include "verb/sim_beside.h"
#include "verb/sim_start.h"

enum { TEND_MS = 50 };

typedef struct RunOptions {
    StartOptions start;
    BesideOptions beside;
} RunOptions;

static const char *const log_formats[] = {"kmsg", "dmesg", NULL};

static const OptSpec run_opts[] = {
    START_OPTS(RunOptions, start),
    {.key = "tree",
     .flags = OPT_CLI_ONLY,
     .type = OPT_STRING,
     .off = offsetof(RunOptions, beside.tree),
     .metavar = "DIR",
     .help = "keep look-alikes of /proc, /sys and /dev in DIR up to date; without: in a folder of its own"},
    {.key = "enter",
     .flags = OPT_CLI_ONLY,
     .type = OPT_BOOL,
     .off = offsetof(RunOptions, beside.enter),
     .help = "let the command see them as the real ones (root)"},
    {.key = "kernel-log",
     .flags = OPT_CLI_ONLY,
     .type = OPT_STRING,
     .off = offsetof(RunOptions, beside.kernel_log),
     .metavar = "FILE",
     .help = "append the kernel's lines to FILE; 'kmsg': to the machine's own log, marked (root)"},
    {.key = "kernel-log-format",
     .flags = OPT_CLI_ONLY,
     .type = OPT_ENUM,
     .off = offsetof(RunOptions, beside.kernel_log_format),
     .names = log_formats,
     .def = "kmsg",
     .help = "as /dev/kmsg is read, or as dmesg prints"},
    {.key = "processes",
     .flags = OPT_CLI_ONLY,
     .type = OPT_BOOL,
     .off = offsetof(RunOptions, beside.processes),
     .def = "true",
     .help = "living processes under the names of the scenario's; without: made-up pids"},
};

static const int watched[] = {SIGINT, SIGTERM, SIGHUP, SIGCHLD};

static int signals_catch(sigset_t *ret_old)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < ARRAY_LEN(watched); i++)
        sigaddset(&set, watched[i]);
    sigprocmask(SIG_BLOCK, &set, ret_old);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* `root`: where `stoker agent` finds the node's /proc and /sys, or NULL. */
static pid_t command_fork(VerbCall *call, char *const *argv, const char *const *env, const char *root,
                          const sigset_t *mask)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    sigprocmask(SIG_SETMASK, mask, NULL);
    for (size_t i = 0; env[i]; i++)
        putenv(xstrdup(env[i]));
    if (root)
        setenv("STOKER_ROOT", root, 1);
    execvp(argv[0], argv);
    fprintf(stderr, "%s: run '%s': %s\n", call->path, argv[0], strerror(errno));
    _exit(errno == ENOENT ? 127 : 126);
}

/* The words after the scenario, for exec. */
static char **command_words(VerbCall *call)
{
    char **argv = arena_calloc(call->arena, call->args.len, sizeof *argv);
    for (size_t i = 0; i + 1 < call->args.len; i++)
        argv[i] = arena_strdup(call->arena, call->args.items[i + 1]);
    return argv;
}

/* Starts the command, inside the node's tree if asked. 0 or -errno. */
static int command_start(VerbCall *call, const Beside *beside, bool enter, const char *const *env, const sigset_t *mask,
                         pid_t *ret)
{
    char **argv = command_words(call);
    if (enter) {
        NodeCommand command = {.root = beside->tree_root, .argv = (const char *const *)argv, .env = env};
        return node_spawn(&command, ret, &call->err);
    }
    *ret = command_fork(call, argv, env, beside->tree_root, mask);
    return *ret < 0 ? err_errno(&call->err, "start '%s'", argv[0]) : 0;
}

/* What the shell would report for an ended command. */
static int code_of(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* 1 when the run is over; *code is what to return then. */
static int signal_seen(int fd, pid_t child, int *code)
{
    struct signalfd_siginfo si;
    while (read(fd, &si, sizeof si) == sizeof si) {
        if (si.ssi_signo != SIGCHLD && child <= 0)
            return 1;
        if (si.ssi_signo != SIGCHLD) {
            if (si.ssi_code <= 0) /* sent to us alone: a terminal has told the command too */
                kill(child, (int)si.ssi_signo);
            continue;
        }
        int status;
        if (child > 0 && waitpid(child, &status, WNOHANG) == child) {
            *code = code_of(status);
            return 1;
        }
    }
    return 0;
}

static void say_how(VerbCall *call, const RunOptions *o, const SimPlace *place, const SimImage *image, const char *path,
                    const char *root)
{
    printf("%s: %u GPUs, driver %s, scenario %s.\nIn another shell:\n\n", image->hostname, image->gpu_count,
           image->driver, image->scenario);
    sim_place_exports(call->arena, place, image, &(SimClient){path, root, o->start.strict}, "  ");
    puts("\nthen nvidia-smi, stoker sim show --watch, or anything else that asks the NVIDIA driver library.\n"
         "Ctrl-C ends the node.");
    fflush(stdout);
}

/* Keeps what lies beside the image up to date until the command ends or a signal comes. */
static int tend(VerbCall *call, Beside *beside, int sig_fd, pid_t child)
{
    int code = EXIT_FINE;
    bool said = false;
    for (;;) {
        struct pollfd p = {.fd = sig_fd, .events = POLLIN};
        if (poll(&p, 1, TEND_MS) > 0 && signal_seen(sig_fd, child, &code))
            return code;
        int rc = beside_tend(beside, &call->err);
        if (rc < 0 && !said)
            verb_fail(call, code); /* e.g. a full disk: said once, tried again */
        said = rc < 0;
    }
}

static int run_node(VerbCall *call, const RunOptions *o, const SimPlace *place, SimImage *image, const char *path)
{
    static Beside beside;
    const char *const *env = sim_place_env(call->arena, place, image, &(SimClient){path, NULL, o->start.strict});
    sigset_t old;
    CLEANUP_FD int sig_fd = signals_catch(&old);
    pid_t child = 0;
    BesideOptions options = o->beside;
    options.boot_now = !o->start.start;
    options.no_tree = getenv("STOKER_ROOT") != NULL; /* the caller's own choice */
    int code, rc = beside_start(&beside, &options, image, path, call->arena, &call->err);
    sim_clock_set_speed(image, o->start.speed);
    if (rc == 0 && call->args.len > 1)
        rc = command_start(call, &beside, o->beside.enter, env, &old, &child);
    else if (rc == 0)
        say_how(call, o, place, image, path, beside.tree_root);
    code = rc < 0 ? verb_fail(call, EXIT_UNKNOWN) : tend(call, &beside, sig_fd, child);
    if (rc == 0) /* what happened until the very end */
        (void)beside_tend(&beside, NULL);
    beside_stop(&beside);
    return code;
}

static int run_run(VerbCall *call, const void *options)
{
    const RunOptions *o = options;
    SimPlace place;
    SimImage *image;
    const char *path;
    if (call->args.len == 0)
        return verb_failf(call, EXIT_USAGE, "which scenario? 'stoker sim list' lists them");
    if (o->beside.enter && call->args.len == 1)
        return verb_failf(call, EXIT_USAGE, "--enter needs a command to run inside");
    if (sim_place_find(call->arena, &place, &call->err) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    int code = sim_start(call, &o->start, call->args.items[0], true, &place, &image, &path);
    if (code)
        return code;
    code = run_node(call, o, &place, image, path);
    sim_image_close(image);
    if (!o->start.image)
        unlink(path);
    return code;
}

const Verb verb_sim_run = {
    .name = "run",
    .summary = "run a simulated node, and a command on it",
    .usage = "[OPTION...] SCENARIO [-- COMMAND [ARG...]]",
    .description =
        "The command finds a driver library, and a small nvidia-smi, that answer from the scenario. Without a "
        "command the node runs until interrupted and says how to use it.",
    .examples = "stoker sim run default -- nvidia-smi\n"
                "stoker sim run --speed 60 a-bad-week\n"
                "stoker sim run --strict stderr healthy-training -- nvtop",
    .exit_codes = "the command's own; without one:\n0  interrupted\n2  the command line or the scenario is wrong\n"
                  "3  the node could not be made",
    .opts = run_opts,
    .opt_count = ARRAY_LEN(run_opts),
    .opt_size = sizeof(RunOptions),
    .run = run_run,
};
