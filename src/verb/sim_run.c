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

#include "base/owner.h"
#include "sim/core/control.h"
#include "verb/sim_start.h"

enum { TEND_MS = 50 };

typedef struct RunOptions {
    StartOptions start;
} RunOptions;

static const OptSpec run_opts[] = {START_OPTS(RunOptions, start)};

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

static pid_t command_start(VerbCall *call, const char *const *env, const sigset_t *mask)
{
    const char *const *words = call->args.items + 1;
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    sigprocmask(SIG_SETMASK, mask, NULL);
    for (size_t i = 0; env[i]; i++)
        putenv(strdup(env[i]));
    char **argv = arena_calloc(call->arena, call->args.len, sizeof *argv);
    for (size_t i = 0; i + 1 < call->args.len; i++)
        argv[i] = strdup(words[i]);
    execvp(argv[0], argv);
    fprintf(stderr, "%s: run '%s': %s\n", call->path, argv[0], strerror(errno));
    _exit(errno == ENOENT ? 127 : 126);
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

static void say_how(const SimImage *image, const char *const *env)
{
    printf("%s: %u GPUs, driver %s, scenario %s.\nIn another shell:\n\n", image->hostname, image->gpu_count,
           image->driver, image->scenario);
    for (size_t i = 0; env[i]; i++)
        printf("  export %s\n", env[i]);
    puts("\nthen nvidia-smi, stoker sim show --watch, or anything else that asks the NVIDIA driver library.\n"
         "Ctrl-C ends the node.");
    fflush(stdout);
}

static int tend(VerbCall *call, SimImage *image, int sig_fd, pid_t child)
{
    int code = EXIT_FINE;
    (void)image;
    (void)call;
    for (;;) {
        struct pollfd p = {.fd = sig_fd, .events = POLLIN};
        if (poll(&p, 1, TEND_MS) > 0 && signal_seen(sig_fd, child, &code))
            return code;
    }
}

static int run_run(VerbCall *call, const void *options)
{
    const RunOptions *o = options;
    SimPlace place;
    SimImage *image;
    const char *path;
    if (call->args.len == 0)
        return verb_failf(call, EXIT_USAGE, "which scenario? 'stoker sim list' lists them");
    if (sim_place_find(call->arena, &place, &call->err) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    int code = sim_start(call, &o->start, call->args.items[0], true, &place, &image, &path);
    if (code)
        return code;
    const char *const *env = sim_place_env(call->arena, &place, image, path, o->start.strict);
    sigset_t old;
    CLEANUP_FD int sig_fd = signals_catch(&old);
    pid_t child = 0;
    if (call->args.len > 1)
        child = command_start(call, env, &old);
    else
        say_how(image, env);
    if (child < 0)
        code = verb_failf(call, EXIT_UNKNOWN, "start the command: %s", strerror(errno));
    else
        code = tend(call, image, sig_fd, child);
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
